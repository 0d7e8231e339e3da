# ruff: noqa: E501
"""The tutorial docs/tutorials/population_genetics.md as a script; made from it by docs/to_script.py."""

# %% [markdown]
# # Growing populations: what the data do not say
#
# At the end of this page you have inferred the history of a population from its genomes, with a simulator that others
# wrote, and know which of your numbers come from the data and which from the prior. It takes a quarter of an hour; running
# takes about two minutes on two cores. The simulator is [msprime](https://tskit.dev/msprime), and the pictures need GetDist:
#
# ```console
# pip install "fisherscore[genetics,inference]"
# ```
#
# ## The problem
#
# A population of size N today has grown at the rate α a generation. Twenty genomes are sequenced along three million bases,
# each of which mutates at the rate μ a generation. The data are the site frequency spectrum: how many mutations are carried
# by one of the twenty, by two, and so on up to nineteen. Its likelihood is not known, but msprime simulates it.

# %%
import msprime
import numpy as np
import numpyro.distributions as dist

import fisherscore as fs


def spectrum(theta, rng):
    """Draw genealogies and mutations, and count how many genomes carry each."""
    size, growth, rate = 10.0**theta
    demography = msprime.Demography()
    demography.add_population(initial_size=size, growth_rate=growth)
    first, second = rng.integers(1, 2**31, 2)
    trees = msprime.sim_ancestry(
        {0: 20}, ploidy=1, sequence_length=3e6, recombination_rate=1e-8, demography=demography, random_seed=first
    )
    mutated = msprime.sim_mutations(trees, rate=rate, random_seed=second)
    counts = mutated.allele_frequency_spectrum(polarised=True, span_normalise=False)[1:-1]
    return np.log1p(counts)


simulator = fs.from_python(spectrum)
proposal = fs.uniform(log_size=(4.0, 5.0), log_growth=(-3.5, -2.7), log_rate=(-8.3, -7.7))


# %% [markdown]
# All three parameters are powers of ten, and msprime takes its seeds from `rng`, so that every run can be repeated. Logarithms
# of counts vary less wildly than counts.
#
# ## Simulate and fit


# %%
sims = fs.simulate(simulator, proposal, 1_500, workers=2)
model = fs.fit(sims)
print(model)


# %% [markdown]
# ```text
# score of log_size in [4, 5], log_growth in [-3.5, -2.7], log_rate in [-8.3, -7.7], given data of shape (19,)
#   estimated error 0.47 (0 is perfect, 1 is predicting zero)
#   under the training range not constrained by the data; posteriors off by 0.3 σ
#   made of gaussian 0.04, location_scale 0.68, quasi_score 0.07, mapped 0.15
# ```
#
# ## What do the data constrain?


# %%
known = fs.constraints(model)
print(known)
fs.plot.save_figure(known.plot(), "constraints.png")


# %% [markdown]
# ```text
# under the training range: not constrained by the data; error 0.072
# combination                                   constrained by the data  off by  outcome
# +0.9 log_size -1 log_growth +0.88 log_rate    well (99%)               0.21 σ  right
# +1 log_size +0.63 log_growth +0.032 log_rate  well (93%)               0.21 σ  right
# +1 log_size -0.93 log_growth -0.96 log_rate   not at all (10%)         0.36 σ  not constrained by the data
# not constrained by the data: +1 log_size -0.93 log_growth -0.96 log_rate, of which 90% of what is known comes from the training range. More simulations would not help; a prior on one of these parameters, or other data, would
# ```
#
# ![The share of the data in what is known of each combination](../docs/tutorials/images/population_genetics_constraints.png)
#
# Two combinations of the three are learned well. Along the third, where the size goes up by as much as growth and mutation rate
# go down, the data say next to nothing. No fit is to blame: time in the genealogies is measured in units of N generations, so
# the spectrum depends on N μ and N α, and on nothing else to speak of. Any range of parameters is then filled by solutions that
# are as good as one another, and **more simulations would not help**.
#
# The column *off by* is the fit's own error, in units of the width of a posterior: by how much of its σ a posterior would be off
# along that combination. What is badly learned is told apart from what the data leave free, since the remedies differ.
#
# ## A best fit that is not one


# %%
truth = {"log_size": 4.5, "log_growth": -3.1, "log_rate": -8.0}
x_obs = simulator.draw(list(truth.values()), seed=1)
best = fs.maximum_likelihood(model, x_obs)
print(best.message)


# %% [markdown]
# ```text
# not converged: the likelihood still rises at the edge of the training region in log_rate; not constrained by the data: +1 log_size -0.93 log_growth -0.96 log_rate; a prior or other data would help, more simulations would not, nor would other ranges
# ```
#
# The likelihood rises along that line as far as the region goes, and where it would stop elsewhere is chance. A posterior without
# a prior runs along it from edge to edge. Neither is wrong, and neither a larger region nor more simulations would change it.
#
# ## The prior that cures it
#
# Mutation rates are measured in families, by other means. Say one knows log10 μ to 0.05:


# %%
prior = {"log_rate": dist.Normal(-8.0, 0.05)}
posterior = fs.sample(model, x_obs, prior=prior, seed=0)
print(posterior)
fs.plot.save_figure(fs.plot.triangle(posterior, truth=truth), "posterior.png")


# %% [markdown]
# ```text
# NUTS (exact log-likelihood of the model), 4,000 draws, 0 divergent
# parameter   mean     sd        16 %     84 %     R-hat  ESS
# log_size    4.4003   0.090534  4.3111   4.489    1.000  4224
# log_growth  -3.1431  0.074214  -3.2176  -3.0684  1.000  3887
# log_rate    -8.0001  0.050269  -8.0506  -7.949   1.000  4292
# no problem found
# not constrained by the data: along +0.97 log_size -1 log_growth -0.98 log_rate the posterior is the prior. More simulations would not help; a narrower prior on one of these parameters, or other data, would
# ```
#
# ![Posterior of size, growth and mutation rate](../docs/tutorials/images/population_genetics_posterior.png)
#
# Size and growth are now known, and the last line tells at whose expense: along the free combination the posterior still is the
# prior, whose width has come from the mutation rate. Believe the size as far as you believe that. The same report as before,
# under this prior:


# %%
print(fs.constraints(model, prior=prior))


# %% [markdown]
# ```text
# under the prior: not constrained by the data; error 0.037
# combination                                   constrained by the data  off by  outcome
# +0.89 log_size -1 log_growth +0.073 log_rate  well (99%)               0.21 σ  right
# +1 log_size +0.58 log_growth                  well (93%)               0.21 σ  right
# +1 log_size -0.94 log_growth -0.97 log_rate   not at all (2%)          0.14 σ  not constrained by the data
# not constrained by the data: +1 log_size -0.94 log_growth -0.97 log_rate, of which 98% of what is known comes from the prior. More simulations would not help; a narrower prior on one of these parameters, or other data, would
# ```
#
# Nothing was fitted again. The learned score knows nothing of priors, and any other one costs a run of the sampler: correlated
# ones, or the chain of another experiment ([Use any prior](../docs/tutorials/../howto/priors.md)).
#
# ## Check it
#
# Three questions: is the score right, are posteriors calibrated, and does the model predict data like these?


# %%
fresh = fs.simulate(simulator, proposal, 1_000, seed=1, workers=2)
print(fs.diagnose(model, fresh, x_obs=x_obs, num_posteriors=100))


# %% [markdown]
# ```text
# No check failed, but zero mean, information cannot be told with 1,000 simulations.
# check             value    ± error  tolerance  verdict
# zero mean        0.0802     0.0304        0.1  unclear
# information      0.0740     0.0460        0.1  unclear
# symmetry         0.0000     0.0000        0.2  pass
# calibration      0.0487     0.0707          0  pass
# coverage         0.0716     0.0707          0  pass
# observation      0.6153     0.0000      0.001  pass
# not constrained by the data: +1 log_size -0.93 log_growth -0.96 log_rate, of which 90% of what is known comes from the training range. More simulations would not help; a prior on one of these parameters, or other data, would
# ```


# %%
predicted = fs.predictive_check(posterior, simulator, x_obs, num_simulations=500, workers=2)
print(predicted.passed)
fs.plot.save_figure(predicted.plot(), "predicted.png")


# %% [markdown]
# ```text
# True
# ```
#
# ![What the posterior predicts, and what was observed](../docs/tutorials/images/population_genetics_predicted.png)
#
# A check that is *unclear* asks for more simulations to check with; none failed. The directions that the data leave free cannot
# fail these checks: all of them are in units of a posterior, within the training range.
#
# ## The same from one file
#
# With the function above in `simulator.py` (`import msprime` at its top is no obstacle to worker processes), this file does all
# of it by `fisherscore run growth.toml`, and writes a page that gives the same verdict first:
#
# ```toml
# [simulator]
# python = "simulator.py:spectrum"
#
# [parameters]
# log_size = [4.0, 5.0]
# log_growth = [-3.5, -2.7]
# log_rate = [-8.3, -7.7]
#
# [budget]
# simulations = 3000
# test = 1000
#
# [engine]
# workers = 2
#
# [observation]
# mock = { log_size = 4.5, log_growth = -3.1, log_rate = -8.0 }
#
# [prior]
# log_rate = { normal = [-8.0, 0.05] }
# ```
#
# Its forecast has two sets of errors: of the data alone, which hardly exist along the free combination, and with the prior.
#
# ## Where to go next
#
# * [Use any prior](../docs/tutorials/../howto/priors.md): where the cure comes from.
# * [Check an observation](../docs/tutorials/../howto/checks.md): profiles, and the neighbourhood of one observation.
# * [What the errors mean](../docs/tutorials/../explanation/errors.md): own error, plug-in and bound.
