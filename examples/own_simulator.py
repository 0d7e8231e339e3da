# ruff: noqa: E501
"""The tutorial docs/tutorials/own_simulator.md as a script; made from it by docs/to_script.py."""

# %% [markdown]
# # Your own simulator
#
# At the end of this page you have taken a Python function from simulations to a best fit, a forecast, a posterior with
# a prior, and checks that say whether to believe them. It takes a quarter of an hour; running takes two to three minutes
# on two cores. The plots of posteriors need the extra `inference`.
#
# ## 1. Write a function
#
# A simulator is any function of the parameters and of a random number generator that returns an array of numbers. It
# may branch, loop, draw as many random numbers as it likes and call other code. Nobody has to know its likelihood, and
# no gradient is asked for. Two rules:
#
# * All randomness comes from `rng`, so that a run can be repeated.
# * The array has the same shape every time.
#
# This one is a detector that watches a radioactive source for a second. After each event it is blind for 2 ms, part of
# the energy of some events escapes, and small energies are not seen. It reports how many events were soft, medium and
# hard. One would like to know the rate of the source and the mean energy of its particles.

# %%
import numpy as np
import numpyro.distributions as dist

import fisherscore as fs


def detector(theta, rng):
    """Count the events of one second as soft, medium and hard."""
    rate, energy = theta
    counts = np.zeros(3)
    time, blind_until = 0.0, 0.0
    while True:
        time += rng.exponential(1 / rate)
        if time > 1.0:
            return counts
        if time < blind_until:
            continue  # the event is lost: the detector has not recovered
        blind_until = time + 0.002
        deposited = rng.exponential(energy)
        if rng.uniform() < 0.2:
            deposited *= rng.uniform()  # part of the energy escapes
        if deposited > 0.5:  # below the threshold nothing is recorded
            counts[0 if deposited < 1.5 else 1 if deposited < 3.5 else 2] += 1


simulator = fs.from_python(detector)


# %% [markdown]
# The data should be few: up to a hundred or so, the fewer the faster. Larger data are reduced to summaries first, as in
# [Fields and what summaries keep](../docs/tutorials/fields.md).
#
# ## 2. Say where to learn


# %%
proposal = fs.uniform(rate=(50.0, 200.0), energy=(1.0, 4.0), units={"rate": "1/s", "energy": "keV"})


# %% [markdown]
# The order is that of `theta`. The region should hold every parameter value that your data could plausibly have come
# from, with room to spare; a score outside is an extrapolation, and you are warned. The simulator is never run outside
# it. It is not a prior.
#
# ## 3. Look before you simulate


# %%
print(fs.check_simulator(simulator, proposal, num_simulations=4_000))


# %% [markdown]
# ```text
# detector: 7 runs, 7 ok
#   x has shape (3,)
#   the same seed gives the same data: yes
#   one run takes 0.000219 s
#   4,000 simulations take about 0.88 seconds on one worker
#   fit for a campaign
# ```
#
# ## 4. Simulate


# %%
sims = fs.simulate(simulator, proposal, 4_000, workers=2)
print(f"{len(sims)} simulations of {sims.x.shape[1]} data, {sims.failure_rate:.1%} failed")


# %% [markdown]
# ```text
# 4000 simulations of 3 data, 0.0% failed
# ```
#
# `workers` is how many run at a time. With `out="runs/detector"` they are kept in that folder as they come, and the
# same call goes on where it stopped; do that for anything that takes longer than a coffee. Some thousands are a good
# start: the error that the fit states below says whether that was enough.
#
# ## 5. Learn the score


# %%
model = fs.fit(sims)
model.save("detector_model")
print(f"estimated error {model.estimated_error:.3f}")


# %% [markdown]
# ```text
# estimated error 0.013
# ```
#
# The estimated error is the mean square error of the score in units of the information of the data: 0 is perfect, 1 is
# knowing nothing. A few hundredths change error bars by a few per cent; above 0.1 or so, spend [more
# simulations](../docs/tutorials/../howto/budget.md). It is what the fit can tell by itself: it does
# not see what all its candidates miss, which is what the checks below are for.
#
# ## 6. Check it
#
# The checks need simulations that the fit has not seen, and no knowledge of the truth. Here are your data, too: 30 soft
# events, 30 medium and 22 hard ones.


# %%
x_obs = np.array([30, 30, 22])
fresh = fs.simulate(simulator, proposal, 5_000, seed=1, workers=2)
checks = fs.diagnose(model, fresh, x_obs=x_obs, num_posteriors=0)
print(checks)
fs.plot.save_figure(fs.plot.identities(checks), "identities.png")


# %% [markdown]
# ```text
# All 4 checks passed on 5,000 simulations.
# check             value    ± error  tolerance  verdict
# zero mean        0.0598     0.0141        0.1  pass
# information      0.0274     0.0120        0.1  pass
# symmetry         0.0000     0.0000        0.2  pass
# observation      0.9844     0.0000      0.001  pass
# ```
#
# ![Deviations of the checks from what every score obeys](../docs/tutorials/images/own_simulator_identities.png)
#
# A check fails if it is off by more than its tolerance and by more than chance explains. It is `unclear` if there are
# too few simulations to tell. The check `residual` is made only where simulations have a latent, which these do not. By
# default, without `num_posteriors=0`, the posteriors of 200 of the simulations are checked as well, which takes a
# minute or two more; do it before you publish. What each means, and what to do when it fails:
#
# | check | what fails | what to do |
# |---|---|---|
# | zero mean | scores do not average to zero at some θ | more simulations; a smaller region |
# | information | scores are too large or too small | more simulations |
# | residual | the fit has learned noise, or missed signal | more simulations |
# | symmetry | the score is no gradient | use the default recipe, whose score always is one |
# | calibration | the truth lies in the wrong part of posteriors | all of the above; look at `fs.plot.coverage` |
# | coverage | posteriors are too narrow or too wide | the same |
# | observation | your data are unlike anything simulated | look at the data, then at the simulator |
#
# If more simulations do not help, the data may depend on the parameters in a way that is hard to learn, such as a jump.
# Then use summaries that vary smoothly. The last check is about your data and not about the fit: no number of
# simulations repairs a simulator that does not do what nature does.
#
# ## 7. Best fit and forecast


# %%
best = fs.maximum_likelihood(model, x_obs)
print(best)


# %% [markdown]
# ```text
# rate = 133.898 ± 17 (model ± 2)
# energy = 2.42668 ± 0.32 (model ± 0.05)
# converged
# ```
#
# The best fit is for these data. A forecast is about data one does not have: the errors to expect on average if the
# parameters were `theta0`. It runs 10,000 new simulations there.


# %%
forecast = fs.forecast(model, best.theta, simulator)
print(forecast)


# %% [markdown]
# ```text
# Fisher forecast, 10,000 simulations
# parameter  value    σ plug-in       σ slope         σ bound        σ conditional
# rate       133.898  18.48 ± 0.2     17.79 ± 0.1     17.08 ± 0.3    17.28
# energy     2.42668  0.3384 ± 0.003  0.3399 ± 0.003  0.341 ± 0.006  0.3164
# figure of merit 0.17101
# ```
#
# Quote the bound: it does not claim more information than the data hold, up to its own error. A gap between plug-in and
# bound that is larger than their errors comes of an error of the score; one that is larger than the model's own error explains
# is warned about.
#
# ## 8. Posterior
#
# Now comes the prior, in words of [NumPyro](https://num.pyro.ai). What it does not name is uniform over the training
# region. Say a calibration gave a mean energy of 2.4 ± 0.1 keV:


# %%
posterior = fs.sample(model, x_obs, prior={"energy": dist.Normal(2.4, 0.1)})
print(posterior)
fs.plot.save_figure(fs.plot.triangle(posterior), "posterior.png")


# %% [markdown]
# ```text
# NUTS (exact log-likelihood of the model), 4,000 draws, 0 divergent
# parameter  mean    sd        16 %    84 %    R-hat  ESS
# rate       137.52  17.107    120.07  154.09  1.000  3154
# energy     2.4029  0.093148  2.313   2.4959  0.999  2681
# no problem found
# not constrained by the data: along +1 rate -0.034 energy the posterior is the prior. More simulations would not help; a narrower prior on one of these parameters, or other data, would
# ```
#
# ![Posterior of rate and energy](../docs/tutorials/images/own_simulator_posterior.png)
#
# The last line is the one to read first. If the chains disagree, if the posterior leaves the region or piles up at its
# edge, or if the observation is unlike anything simulated, it says so there, and a warning is given. `posterior.samples`
# holds the draws; `to_arviz()` and `to_getdist()` pass them on.
#
# ## The same from one file
#
# All these steps can be written down in one file and run by one command: `fisherscore init` makes such a file, and
# `fisherscore run analysis.toml` runs it. See [Run a whole analysis from one file](../docs/tutorials/../howto/analysis_file.md).
#
# ## Where to go next
#
# * [Your simulator is a program](../docs/tutorials/external_program.md): programs, long campaigns, clusters.
# * [Simulations that already exist](../docs/tutorials/existing_simulations.md): a table instead of a simulator.
# * [Many observations, and two probes](../docs/tutorials/iid_and_two_probes.md): more data, no new training.
