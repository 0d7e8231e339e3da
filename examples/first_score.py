# ruff: noqa: E501
"""The tutorial docs/tutorials/first_score.md as a script; made from it by docs/to_script.py."""

# %% [markdown]
# # A first score
#
# At the end of this page you have learned a score from 2,000 simulations, compared it with the exact one, and made a
# forecast with it. Reading takes five minutes; running takes about a minute on two cores.
#
# ## A simulator whose answer is known
#
# To see whether a score was learned well one must know it. So take the toy of the paper (Sui, Pandey and Wandelt 2025):
# two data that scatter around two parameters with a known covariance C. Their score, the gradient of the log-likelihood
# with respect to the parameters, is C⁻¹ (x − θ). The fit does not know it.

# %%
import jax
import jax.numpy as jnp
import numpy as np

import fisherscore as fs

covariance = np.array([[1.0, 0.5], [0.5, 1.0]])
precision = np.linalg.inv(covariance)
factor = jnp.asarray(np.linalg.cholesky(covariance))


def measure(key, theta):
    """Draw x from N(theta, covariance)."""
    return theta + factor @ jax.random.normal(key, (2,))


simulator = fs.from_jax(measure)
proposal = fs.uniform(theta1=(-3.0, 3.0), theta2=(-3.0, 3.0))
sims = fs.simulate(simulator, proposal, 2_000)
print(sims.theta.shape, sims.x.shape)


# %% [markdown]
# `fs.from_jax` takes a function of a random key and one θ, and runs it in batches. A simulator written in NumPy goes
# through `fs.from_python`, a program through `fs.from_command`. None of them is asked for a gradient.
#
# The proposal says where to learn. It is not a prior: the score at θ does not depend on how often θ was simulated, and
# a prior is chosen later, when there are data.
#
# ## Fit


# %%
model = fs.fit(sims)
print(model.score([0.0, 0.0], [1.0, -0.5]))
print(precision @ [1.0, -0.5])


# %% [markdown]
# ```text
# [ 1.7129886 -1.4476693]
# [ 1.66666667 -1.33333333]
# ```
#
# `model.score` takes θ and x in your own units and broadcasts over leading axes: many θ, many x, or both.
#
# ## How good is it?
#
# The score error of a model is its mean square distance to the true score, in units of the Fisher information: 0 is
# perfect, and 1 is what predicting zero would give. It is measured on pairs (θ, x) that the fit has not seen.


# %%
theta = proposal.sample(10_000, seed=1)
x = simulator.draw(theta, seed=2)
error = fs.accuracy.score_error_of(model.score(theta, x), (x - theta) @ precision)
print(f"score error {error.mean:.4f} ± {error.standard_error:.4f}")


# %% [markdown]
# ```text
# score error 0.0066 ± 0.0001
# ```
#
# For a problem of your own the true score is not known, and this number cannot be computed. The fit gives an estimate
# of it, from how much its parts differ when simulations are left out:


# %%
print(f"estimated error {model.estimated_error:.4f}")
print({name: round(weight, 2) for name, weight in model.weights.items()})


# %% [markdown]
# ```text
# estimated error 0.0060
# {'gaussian': 0.99, 'location_scale': 0.0, 'quasi_score': 0.0, 'mapped': 0.0}
# ```
#
# The second line says what the score is made of. The default fits four closed forms and an ensemble of networks, and
# weighs them by their loss on simulations left out. Here the data are Gaussian, and the Gaussian form took all the
# weight. `model.provenance` also holds the seed, the versions, the number of simulations and of failures, a hash of the
# data, and the loss of every epoch of the networks that were tried. All of it is saved with the model.
#
# ## A picture
#
# An observation has a score at every θ: arrows that point to where its likelihood rises. Here the exact field lies
# behind the learned one, with the one and two sigma ellipses of the Fisher matrix around the true parameters.


# %%
truth = [0.5, -1.0]
x_obs = simulator.draw(truth, seed=3)
exact = fs.FunctionScore(proposal, (2,), score=lambda theta, x: jnp.asarray(precision, jnp.float32) @ (x - theta))
ax = fs.plot.score_field(model, x_obs, exact=exact, truth=truth, fisher=precision)
fs.plot.save_figure(ax, "score_field.png")


# %% [markdown]
# ![Learned and exact score of one observation](../docs/tutorials/images/first_score_field.png)
#
# `fs.FunctionScore` makes a model of a score written by hand. It can be used wherever a fitted one can.
#
# ## A forecast
#
# What errors will such data give, before there are any? The Fisher matrix is the mean of the square of the score.
# `fs.forecast` estimates it from fresh simulations at one θ, in three ways:


# %%
forecast = fs.forecast(model, truth, simulator)
print(forecast)
print("exact  ", np.sqrt(np.diag(covariance)))


# %% [markdown]
# ```text
# Fisher forecast, 10,000 simulations
# parameter  value  σ plug-in      σ slope          σ bound        σ conditional
# theta1     0.5    1.001 ± 0.02   0.9861 ± 0.0009  0.9746 ± 0.02  0.8791
# theta2     -1     0.9952 ± 0.02  1.002 ± 0.001    1.01 ± 0.02    0.8743
# figure of merit 1.1431
# exact   [1. 1.]
# ```
#
# The plug-in is the paper's estimate, and claims too much where a score is noisy. The bound never claims more
# information than the data hold, up to the error behind the ±. Quote the bound; where the two disagree, the score is
# not good enough yet, and a warning says so.
#
# ## Keep it


# %%
model.save("first_model")
again = fs.load("first_model")
print(np.abs(again.score(theta, x) - model.score(theta, x)).max())


# %% [markdown]
# ```text
# 0.0
# ```
#
# ## Where to go next
#
# * [Your own simulator](../docs/tutorials/own_simulator.md): from a Python function to a posterior, with checks that need no truth.
# * [Your simulator is a program](../docs/tutorials/external_program.md): the same for a program in any language.
# * [The paper's experiment](../docs/tutorials/weak_lensing.md): a realistic problem with a known answer.
