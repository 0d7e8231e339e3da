"""What a user might write, with every public name in it. Checked by mypy in strict mode, not run."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist  # type: ignore[import-untyped]  # it has no types of its own

import fisherscore as fs


def draw(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return theta + rng.normal(size=theta.shape)


def draw_jax(key: jax.Array, theta: jax.Array) -> jax.Array:
    return theta + jax.random.normal(key, theta.shape)


# Compiled functions
compiled: Path | None = fs.use_compilation_cache("cache", max_gigabytes=0.5)

# Simulators and proposals
simulator: fs.Simulator = fs.from_python(draw, timeout=10.0)
on_device: fs.Simulator = fs.from_jax(draw_jax, batch_size=64)
program: fs.Simulator = fs.from_command(["./sim", "{input}", "{output}"], memory=4.0)
proposal: fs.Proposal = fs.uniform(a=(0.0, 1.0), b=(2.0, 3.0))
other: fs.Proposal = fs.normal({"a": (0.5, 0.1), "b": (2.5, 0.1)})
check: fs.SimulatorCheck = fs.check_simulator(simulator, proposal, num_simulations=1_000)
print(check.x_shape, check.problems)

# Latents
latent: fs.Latent = fs.GaussianLatent(np.eye(2))


def sample_latent(key: jax.Array, theta: jax.Array) -> jax.Array:
    return theta + jax.random.laplace(key, theta.shape)


def log_prob_latent(theta: jax.Array, z: jax.Array) -> jax.Array:
    return -jnp.abs(z - theta).sum()


additive: fs.GaussianLatent = fs.AdditiveLatent([0.1, 0.1])
custom: fs.Latent = fs.CustomLatent(sample_latent, log_prob=log_prob_latent)

# Simulations
sims: fs.Simulations = fs.simulate(simulator, proposal, 2_000, seed=0, latent=custom)
origin: fs.Origin = sims.origin
kept: fs.Simulations = fs.simulate(simulator, proposal, 2_000, out="runs/mine", workers=2)
table: fs.Simulations = fs.from_table(sims.theta, sims.x, proposal)
stored: fs.Simulations = fs.open_campaign("runs/mine")
joined: fs.Simulations = fs.merge_campaigns("runs/all", ["runs/1", "runs/2"])
status: fs.CampaignStatus = fs.campaign_status("runs/mine")
print(status.num_done, status.counts, len(stored), sims.status)
fs.export_simulations(sims, "sims.npz")
again: fs.Simulations = fs.import_simulations("sims.npz")

# Fits
training: fs.Training = fs.Training(num_epochs=10)
recipes: list[fs.Recipe] = [
    fs.AutoRecipe(density=fs.DensityTrainer(num_members=2)),
    fs.PaperRecipe(),
    fs.ClosedFormRecipe("gaussian"),
    fs.NetworkRecipe(training=training),
]
model: fs.FittedScore = fs.fit(sims, recipe=recipes[0], seed=1)
learned: fs.LearnedSummary = fs.LearnedSummary(num_steps=500)
model.save("model")
loaded: fs.ScoreModel = fs.load("model")
known: fs.ScoreModel = fs.FunctionScore(proposal, (2,), score=lambda theta, x: x - theta)
both: fs.CombinedScore = fs.combine(loaded, known)
score: Any = model.score([0.5, 2.5], sims.x)
density: Any = model.log_likelihood({"a": 0.5, "b": 2.5}, sims.x)

# Uses
forecast: fs.Forecast = fs.forecast(model, {"a": 0.5, "b": 2.5}, simulator)
fisher: fs.FisherMatrix = forecast.plug_in
print(forecast.sigma, forecast.marginalize("b").names, fisher.covariance)
grid: list[fs.Forecast] = fs.forecast_grid(model, [[0.5, 2.5], [0.6, 2.5]], simulator)
best: fs.Estimate = fs.maximum_likelihood(model, sims.x[0])
print(best.theta, best.converged, best.message)
summary: fs.Summary = fs.compress(model, [0.5, 2.5])
numbers: np.ndarray = summary(sims.x)
posterior: fs.Posterior = fs.sample(model, sims.x[0], prior={"a": dist.Normal(0.5, 0.1)}, method="nuts")
print(posterior.samples.mean(axis=0), posterior.to_arviz(), posterior.to_getdist())
chain_prior: fs.SamplePrior = fs.prior_from_samples(posterior, ["a"], ranges={"a": (0.0, 1.0)})
any_prior: fs.DensityPrior = fs.prior_from_density(lambda theta: -(theta[0] ** 4), "b")
triangle: fs.RestrictedPrior = fs.restricted_prior({("a",): chain_prior, "b": any_prior}, "a + 2*b <= 6")
print(fs.sample(model, sims.x[0], prior=triangle).mean, chain_prior.discrepancy)
worth: fs.FisherMatrix = fs.prior_information(model, triangle)
print(forecast.add(triangle).sigma, worth.matrix)
predicted: fs.PredictiveCheck = fs.predictive_check(posterior, simulator, sims.x[0], workers=2)
profile: fs.Profile = fs.profile_likelihood(model, sims.x[0], "a")
print(predicted.p_value, predicted.passed, profile.interval(0.95), posterior.neighbourhood().low)
many: fs.Posteriors = fs.sample_many(model, sims.x[:10], num_chains=2)
some: fs.Posteriors = many[2:4]
fifth: fs.Posterior = many[4]
print(some.mean, fifth.sigma, many.problems, len(many))
aimed: fs.Inference = fs.infer(simulator, sims.x[0], proposal, 500, prior=None, seed=1)
how: fs.Rounds = aimed.rounds
last: fs.Round = how[-1]
print(aimed.verdict, aimed.posterior.mean, aimed.check(200).passed, last.num_used, proposal.around(posterior).low)
constrained: fs.Constraints = fs.constraints(model)
free: tuple[fs.Combination, ...] = constrained.unconstrained
diagnosis: fs.Diagnosis = fs.diagnose(model, sims, x_obs=sims.x[0])
first: fs.Check = diagnosis.checks[0]
own: fs.Diagnosis = fs.check_calibration(sims.theta, np.zeros((2_000, 100, 2)))
print(first.verdict, diagnosis.passed, own.passed, grid[0].theta0)

# Pictures, problems and yardsticks
fs.plot.save_figure(fs.plot.score_field(model, sims.x[0]), "field.png")
problem = fs.problems.linear_gaussian()
print(fs.accuracy.score_error(model, problem).mean, problem.fisher([0.0, 0.0]))

# Errors
errors: tuple[type[Exception], ...] = (
    fs.FisherScoreError,
    fs.ArgumentError,
    fs.CampaignError,
    fs.ConfigurationError,
    fs.MissingExtraError,
    fs.ModelFolderError,
    fs.SimulationError,
    fs.TrainingError,
    fs.FisherScoreWarning,
)
