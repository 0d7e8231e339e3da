"""The tutorial docs/tutorials/iid_and_two_probes.md as a script; made from it by docs/to_script.py."""

# %% [markdown]
# # Many observations, and two probes
#
# At the end of this page you have used one learned score for five observations at once, and added a second experiment
# to it without training anew; both are compared with closed forms. Reading takes ten minutes; running takes one to two
# minutes on two cores.
#
# Scores of independent data add: the logarithm of a product is a sum. So a score learned from single observations
# serves any number of them, and scores of different experiments that share parameters are combined by adding them.
#
# ## Two experiments
#
# A telescope points at a source for a night and counts photons in four bins. Some come from the source, others from the
# sky behind it. Then it watches an empty field for three nights, which measures the background alone.

# %%
import numpy as np

import fisherscore as fs

shape = np.array([0.1, 0.2, 0.4, 0.3])  # where the source's photons fall
exposure = 3.0  # nights on the empty field


def source_field(theta, rng):
    """Count source and background in four bins during one night."""
    source, background = theta
    return rng.poisson(source * shape + background / 4)


def empty_field(theta, rng):
    """Count the background alone."""
    return rng.poisson(exposure * theta)


on = fs.from_python(source_field)
off = fs.from_python(empty_field)
on_region = fs.uniform(source=(40.0, 160.0), background=(100.0, 300.0))
off_region = fs.uniform(background=(100.0, 300.0))


# %% [markdown]
# Each is learned alone. `background` has the same name in both, and so is the same parameter.


# %%
on_model = fs.fit(fs.simulate(on, on_region, 2_000))
off_model = fs.fit(fs.simulate(off, off_region, 2_000))


# %% [markdown]
# ## Many draws at the same parameters
#
# `iid=True` says that the first axis counts independent observations. It is never guessed.


# %%
truth = np.array([100.0, 200.0])
nights = on.draw(np.tile(truth, (5, 1)), seed=1)
print(fs.maximum_likelihood(on_model, nights, iid=True))


# %% [markdown]
# ```text
# source = 103.643 ± 17 (model ± 4)
# background = 189.949 ± 18 (model ± 4)
# converged
# ```
#
# Poisson numbers have a closed form: the Fisher matrix of a night is the sum of the squared derivatives of the means,
# divided by the means, and five nights have five times as much.


# %%
derivatives = np.stack([shape, np.full(4, 0.25)])
fisher_on = derivatives / (truth @ derivatives) @ derivatives.T
exact_on = fs.FisherMatrix(("source", "background"), fisher_on)
print("one night  ", exact_on.sigma.round(2))
print("five nights", exact_on.times(5).sigma.round(2))


# %% [markdown]
# ```text
# one night   [38.45 39.73]
# five nights [17.2  17.77]
# ```
#
# The errors of the best fit come from the data at hand, those of the closed form from the true parameters; they agree
# to the scatter one expects of the former.
#
# **A limit.** The errors of a learned score add too. What is wrong in the same direction for every observation grows
# with their number n, while the scatter of the sum grows with √n only. A score error of 0.01 does no harm to one
# observation, and may amount to the whole statistical error of a hundred. For many draws learn from more simulations,
# and try the result on simulated sets of the same size as yours, at known parameters.
#
# ## Two probes


# %%
empty = off.draw(truth[1:], seed=2)
both = fs.combine(on_model, off_model)
print(both.names)
posterior = fs.sample(both, (nights[0], empty))
print(posterior)


# %% [markdown]
# ```text
# ('source', 'background')
# NUTS (exact log-likelihood of the model), 4,000 draws, 0 divergent
# parameter   mean    sd      16 %    84 %    R-hat  ESS
# source      97.682  17.788  80.393  115.94  1.000  2980
# background  189.02  7.5472  181.53  196.56  1.000  3194
# no problem found
# ```
#
# Data are a tuple with one entry a probe. The region of the combination is where those of the parts overlap. The exact
# posterior under the same uniform prior, on a grid:


# %%
points = fs.accuracy.region_grid(both, 201)
means = points @ derivatives
log_likelihood = (nights[0] * np.log(means) - means).sum(axis=1)
log_likelihood += empty[0] * np.log(points[:, 1]) - exposure * points[:, 1]
weights = np.exp(log_likelihood - log_likelihood.max())
mean = np.average(points, axis=0, weights=weights)
print("mean", mean.round(1), " sd", np.sqrt(np.average((points - mean) ** 2, axis=0, weights=weights)).round(2))


# %% [markdown]
# ```text
# mean [ 96.3 189.2]  sd [17.52  7.78]
# ```
#
# The empty field has fixed the background, and the source is known twice as well as from its night alone. Forecasts are
# made for each probe with its own simulator, and added:


# %%
forecast_on = fs.forecast(on_model, truth, on)
forecast_off = fs.forecast(off_model, truth[1:], off)
print(forecast_on.add(forecast_off))
exact_off = fs.FisherMatrix(("background",), np.array([[exposure / truth[1]]]))
print("exact", exact_on.add(exact_off).sigma.round(2))


# %% [markdown]
# ```text
# Fisher forecast, 19,999 simulations
# parameter   value  σ plug-in     σ slope       σ bound      σ conditional
# source      100    18.23 ± 0.1   18.17 ± 0.08  18.11 ± 0.2   16.9
# background  200    7.687 ± 0.06  7.884 ± 0.02  8.081 ± 0.08  7.127
# figure of merit 0.0076955
# exact [17.98  8.  ]
# ```
#
# `combine` takes the probes to be independent given the parameters. Two analyses of the same sky are not: simulate them
# together, and learn one score of both.
#
# ## Where to go next
#
# * [Your own simulator](../docs/tutorials/own_simulator.md): checks of a learned score.
# * [Fields and what summaries keep](../docs/tutorials/fields.md): how much of the information a summary loses.
