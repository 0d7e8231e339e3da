# ruff: noqa: E501
"""The tutorial docs/tutorials/existing_simulations.md as a script; made from it by docs/to_script.py."""

# %% [markdown]
# # Simulations that already exist
#
# At the end of this page you have learned a score from a table of simulations that somebody else ran, some of which
# failed, and have the posterior of an observation. Reading takes ten minutes; running takes about a minute on two
# cores.
#
# ## A table
#
# All that is needed is the parameters of every run and its data. How the parameters were chosen does not matter: a
# grid, a Latin hypercube, clusters, gaps. The score at θ does not depend on the design.
#
# For this page a table is made here: the temperature of a cooling body at ten times, measured to one degree, on a Latin
# hypercube of 4,000 points. The solver did not converge for hot bodies that cool fast; those runs left NaN behind.

# %%
import numpy as np
from scipy.stats import qmc

import fisherscore as fs

times = np.linspace(0.0, 5.0, 10)
rng = np.random.default_rng(0)
theta = qmc.scale(qmc.LatinHypercube(2, seed=0).random(4_000), [40.0, 0.5], [80.0, 2.0])
excess, constant = theta.T[..., None]
x = 20.0 + excess * np.exp(-times / constant) + rng.normal(size=(4_000, 10))
x[(theta[:, 0] > 70.0) & (theta[:, 1] < 0.8)] = np.nan
np.savez("cooling.npz", theta=theta, x=x)


# %% [markdown]
# ## Look at what failed
#
# A file with arrays `theta` (runs, parameters) and `x` (runs, ...) can be read at once, given a proposal that names the
# columns and says in which region to learn. This one is refused:


# %%
proposal = fs.uniform(excess=(40.0, 80.0), constant=(0.5, 2.0))
try:
    fs.import_simulations("cooling.npz", proposal=proposal)
except fs.ArgumentError as error:
    print(error)


# %% [markdown]
# ```text
# x: expected finite numbers, got nan at index (19, 0) (1910 of 40000 values are NaN or infinite). Remove or repair them.
# ```
#
# Before failed runs are dropped, ask why they failed.
#
# * **It depends on the parameters alone**, as here. Then dropping them only leaves a gap in the design, and the score
#   is not biased. In the gap itself it is an extrapolation.
# * **It depends on the data**, such as a run that stops when a fluctuation is too large. Then the runs that are left
#   are not draws of x given θ, and what is learned is the score of x given that the run succeeded. No weighting
#   repairs that; the simulator has to be repaired.
#
# A first look is where they lie:


# %%
with np.load("cooling.npz") as table:
    theta, x = table["theta"], table["x"]
good = np.isfinite(x).all(axis=1)
low, high = theta[~good].min(axis=0).round(2), theta[~good].max(axis=0).round(2)
print(f"{np.sum(~good)} of {len(good)} failed, all between {low} and {high}")
inside = (theta >= low).all(axis=1) & (theta <= high).all(axis=1)
print(f"{np.mean(~good[inside]):.0%} of the runs there failed")


# %% [markdown]
# ```text
# 191 of 4000 failed, all between [70.11  0.5 ] and [79.92  0.8 ]
# 100% of the runs there failed
# ```
#
# They fill a corner of the region and nothing else: the parameters decide.
#
# ## Fit
#
# The rest is an ordinary set of simulations. Some rows are kept back for checks.


# %%
theta, x = theta[good], x[good]
sims = fs.from_table(theta[:2_000], x[:2_000], proposal)
fresh = fs.from_table(theta[2_000:], x[2_000:], proposal)
model = fs.fit(sims)
print(f"estimated error {model.estimated_error:.4f}")


# %% [markdown]
# ```text
# estimated error 0.0145
# ```
#
# Rows outside the proposal's region may stay: they help at its edge. `recipe="paper"` is not for tables, because it has
# to know how the parameters were drawn.
#
# ## Check
#
# `fs.diagnose` tests what holds for every score, whatever the truth, on rows the fit has not seen. The check of
# residuals is made only where simulations have a latent, which tables do not.


# %%
print(fs.diagnose(model, fresh, num_posteriors=0))


# %% [markdown]
# ```text
# No check failed, but information cannot be told with 1,809 simulations.
# check             value    ± error  tolerance  verdict
# zero mean        0.0605     0.0239        0.1  pass
# information      0.0543     0.0351        0.1  unclear
# symmetry         0.0000     0.0000        0.2  pass
# ```
#
# `unclear` means that 1,809 rows are too few to tell; keep back more where there are more. What the checks mean, and
# what to do when one fails, is explained in [Your own simulator](../docs/tutorials/own_simulator.md#6-check-it). With `num_posteriors=100`
# posteriors are checked as well.
#
# In this example the likelihood is known, so the score can also be compared with the truth:


# %%
def exact_score(theta, x):
    """Differentiate the Gaussian log-likelihood by hand."""
    excess, constant = theta.T[..., None]
    decay = np.exp(-times / constant)
    residual = x - 20.0 - excess * decay
    return np.stack([residual * decay, residual * excess * decay * times / constant**2]).sum(axis=-1).T


error = fs.accuracy.score_error_of(model.score(fresh.theta, fresh.x), exact_score(fresh.theta, fresh.x))
print(f"score error {error.mean:.4f} ± {error.standard_error:.4f}")


# %% [markdown]
# ```text
# score error 0.0085 ± 0.0004
# ```
#
# ## Best fit and posterior


# %%
x_obs = fresh.x[1]
print(fresh.theta[1].round(3))
print(fs.maximum_likelihood(model, x_obs))
print(fs.sample(model, x_obs))


# %% [markdown]
# ```text
# [71.559  1.372]
# excess = 70.3385 ± 0.91 (model ± 0.1)
# constant = 1.39179 ± 0.031 (model ± 0.004)
# converged
# NUTS (exact log-likelihood of the model), 4,000 draws, 0 divergent
# parameter  mean    sd        16 %    84 %    R-hat  ESS
# excess     70.349  0.92728   69.418  71.274  0.999  3836
# constant   1.3928  0.030364  1.3617  1.423   1.000  3426
# no problem found
# ```
#
# `fs.forecast` is not for tables alone: it runs the simulator at one θ, and needs one. The errors of the best fit come
# from the curvature of the learned likelihood and need none.
#
# ## Keep and pass on
#
# What `fs.export_simulations` writes says all about itself: names, region, status of every run. A file for HDF5 ends in
# `.h5` (`pip install "fisherscore[hdf5]"`).


# %%
fs.export_simulations(sims, "cooling_checked.npz")
again = fs.import_simulations("cooling_checked.npz")
print(len(again), again.proposal.names)


# %% [markdown]
# ```text
# 2000 ('excess', 'constant')
# ```
#
# Nothing in these files is ever unpickled.
#
# ## Where to go next
#
# * [Many observations, and two probes](../docs/tutorials/iid_and_two_probes.md): one score for any number of data.
# * [Fields and what summaries keep](../docs/tutorials/fields.md): data that are too large to fit directly.
