"""Checks that need no truth: does a learned score behave as a score must?

On fresh simulations (θ, z, x), with t the latent score and J = ∂ŝ/∂θ,

    zero mean      E[ŝ | θ] = 0                 fails when ŝ is shifted
    information    E[ŝ ŝᵀ] = −E[J]              fails when ŝ is scaled
    residual       E[ŝ (t − ŝ)ᵀ] = 0            fails when ŝ has fitted noise
    symmetry       J = Jᵀ                       fails when ŝ is no gradient

each with a standard error, in units where E[ŝ ŝᵀ] and the precision of the training range add up to the unit matrix.
The residual needs a latent. Where that is additive noise, the pairs tested are (z, x), exact draws of the user's model,
and t is compared with ŝ smoothed by the noise. A check fails when it is off by more than its tolerance and by more than
chance allows; it is unclear when chance could hide a deviation of that size. Posteriors of simulated data are checked
by their ranks and their expected coverage (``calibration.py``).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy.special import ndtri

from .._support.arguments import as_count, as_seed
from .._support.compiling import quickly_compiled
from .._support.progress import working
from .._support.rows import rows_in_turn
from ..errors import ArgumentError
from ..score.model import ScoreModel
from ..score.scales import inner_model
from ..simulation.latent import AdditiveLatent
from ..simulation.proposal import Proposal
from ..simulation.simulations import Simulations
from .calibration import calibration_checks, coverage_of, ranks_of
from .diagnosis_result import FAIL, LEVEL, PASS, UNCLEAR, Check, Diagnosis
from .nuts import sample_lanes
from .posterior import SMALLEST_RARITY, Posterior
from .priors.given import restricted_prior
from .scaling import ScaledProblem
from .target import Lanes, Target

# Independent draws kept of each posterior, and steps of its chain from one to the next.
_NUM_DRAWS = 100
_THINNING = 4
_NUM_WARMUP = 300
_MIN_SIMULATIONS = 100
# Largest deviation of an identity that is accepted, and largest curl of a score relative to its slope.
_TOLERANCE = 0.1
_MAX_CURL = 0.2


def diagnose(
    model: ScoreModel,
    test_sims: Simulations,
    *,
    x_obs: Any = None,
    near: Posterior | None = None,
    num_posteriors: int = 200,
    seed: int = 0,
    progress: bool | None = None,
) -> Diagnosis:
    """Check a model on simulations it was not trained on.

    Args:
        model: A score model.
        test_sims: Simulations with another seed than those of the fit, at least 100.
        x_obs: An observation; with it, also say whether it is unlike anything simulated.
        near: A posterior: only simulations whose parameters lie in its neighbourhood (:meth:`Posterior.neighbourhood`)
            are used, so that all checks are about the part of the region that matters for this observation.
        num_posteriors: Number of simulated observations whose posteriors are checked for calibration and coverage; 0
            leaves that out.
        seed: Seed of the draws from these posteriors.
        progress: Whether to show how far it is; by default what takes more than a moment is shown.

    Returns:
        The checks, pass or fail each.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> sims = fs.simulate(problem.simulator_from_latent, problem.proposal, 5_000, latent=problem.latent)
    >>> fs.diagnose(problem.exact_model(), sims, num_posteriors=0).passed
    True
    """
    if not isinstance(model, ScoreModel) or not isinstance(test_sims, Simulations):
        raise ArgumentError("model, test_sims: expected a score model and simulations from fisherscore.simulate.")
    if test_sims.proposal.names != model.names or test_sims.x_shape != model.x_shape:
        raise ArgumentError(
            f"test_sims: expected parameters {model.names} and data of shape {model.x_shape}, got "
            f"{test_sims.proposal.names} and {test_sims.x_shape}."
        )
    _refuse_training_data(model, test_sims)
    sims = test_sims.ok() if near is None else _nearby(test_sims.ok(), near)
    if len(sims) < _MIN_SIMULATIONS:
        raise ArgumentError(f"test_sims: expected at least 100 simulations that succeeded, got {len(sims)}.")
    with working("diagnose", progress, "identities of the score"):
        checks = _identities(model, sims)
    ranks = coverage = None
    if _checked_number(num_posteriors, sims.proposal):
        box = None if near is None else _neighbourhood(sims, near)
        prior = sims.proposal if box is None else _prior_near(sims.proposal, box)
        with working("diagnose", progress, "posteriors"):
            problem = ScaledProblem.of(model, sims.x[: min(num_posteriors, len(sims))], prior)
            ranks, coverage = _calibrate(problem, sims.drawn_at, box, as_seed(seed), progress)
        checks += calibration_checks(ranks, coverage)
    if x_obs is not None:
        checks.append(_familiarity_check(model, x_obs))
    known = model.constraints if near is None else None  # which is about the whole region
    findings = () if known is None else known.findings
    return Diagnosis(tuple(checks), model.names, len(sims), ranks=ranks, coverage=coverage, findings=findings)


def ranks_in(model: ScoreModel, sims: Simulations, num: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ranks and coverages of the parameters of so many simulations that are uniform in their own region."""
    sims = sims.ok()
    problem = ScaledProblem.of(model, sims.x[: min(num, len(sims))], sims.proposal)
    return _calibrate(problem, sims.drawn_at, None, seed, False)


def _checked_number(num_posteriors: int, proposal: Proposal) -> int:
    """Refuse one posterior, and posteriors of parameters in several parts, between which chains do not cross."""
    if as_count(num_posteriors, "num_posteriors", minimum=0) == 1:
        raise ArgumentError("num_posteriors: expected 0 or at least 2, got 1: one posterior says nothing.")
    if num_posteriors and proposal.parts is not None and len(proposal.parts.boxes) > 1:
        raise ArgumentError(
            "test_sims: their parameters lie in several parts of a region, around modes far apart, and posteriors of "
            "all of it are no check of them. Use the check() of an aimed inference, which looks at each part; or pass "
            "num_posteriors=0."
        )
    return num_posteriors


def _nearby(sims: Simulations, near: Posterior) -> Simulations:
    """Return the simulations in the neighbourhood of a posterior, or say how to make some."""
    box = _neighbourhood(sims, near)
    inside = sims.take(np.flatnonzero(box.inside(sims.drawn_at)))
    if len(inside) < _MIN_SIMULATIONS:
        raise ArgumentError(
            f"near: {len(inside)} of {len(sims)} test simulations lie in the neighbourhood of the posterior, and at "
            f"least {_MIN_SIMULATIONS} are needed. Make some there: fs.simulate(simulator, posterior.neighbourhood(), "
            "1_000, seed=...), and diagnose with these."
        )
    return inside


def _neighbourhood(sims: Simulations, near: Posterior) -> Proposal:
    """Return the neighbourhood of a posterior within the region of simulations."""
    names = sims.proposal.names
    if not isinstance(near, Posterior) or near.names[: len(names)] != names:
        raise ArgumentError(
            f"near: expected a posterior of {', '.join(sims.proposal.names)}, got {near!r}. Sample one with the model."
        )
    return near.neighbourhood(within=sims.proposal)


def _refuse_training_data(model: ScoreModel, sims: Simulations) -> None:
    """Refuse to test a model on the rows it was trained on, which any overfitted model would pass."""
    provenance = getattr(model, "provenance", {})
    trained_on = provenance.get("simulations", {})
    origin = (sims.origin.simulator, sims.origin.seed)
    same_stream = sims.origin.seed is not None and (trained_on.get("simulator"), trained_on.get("seed")) == origin
    if same_stream or provenance.get("data_sha256") == sims.fingerprint():
        shared = f"simulations with the same seed ({sims.origin.seed})" if same_stream else "these very simulations"
        raise ArgumentError(
            f"test_sims: the model was trained on {shared}, so these say nothing about it. Simulate with another seed."
        )


def _identities(model: ScoreModel, sims: Simulations) -> list[Check]:
    """Compute the four identities, in units of the precision of a posterior over the training range."""
    score, jacobian = _scores_and_jacobians(model, sims.drawn_at, sims.x)
    if not np.isfinite(score).all():
        raise ArgumentError("model: its scores of the test simulations are not finite.")
    # With the precision of the training range, so that a direction the data do not constrain is no obstacle.
    factor = np.linalg.cholesky(score.T @ score / len(score) + model.region_precision())
    white = np.linalg.solve(factor, score.T).T
    slope = np.linalg.solve(factor, np.linalg.solve(factor, jacobian).swapaxes(-1, -2)).swapaxes(-1, -2)

    basis = _basis(sims.drawn_at)
    mean = white[:, :, None] * basis[:, None, :]
    information = white[:, :, None] * white[:, None, :] + (slope + slope.swapaxes(-1, -2)) / 2
    checks = [
        entrywise("zero mean", mean, _TOLERANCE, "its scores do not average to zero at every θ"),
        entrywise("information", information, _TOLERANCE, "its scores have the wrong size (E[ŝŝᵀ] ≠ −E[∂ŝ/∂θ])"),
    ]
    if sims.latent_model is not None:
        checks += _residual(model, sims, score, factor)
    return [*checks, _symmetry(slope)]


def _residual(model: ScoreModel, sims: Simulations, score: np.ndarray, factor: np.ndarray) -> list[Check]:
    """Test that latent scores, less their prediction, do not go with the prediction.

    Latent scores of little additive noise scatter too much to confirm a model; then the check is left out unless it
    fails.
    """
    additive = isinstance(sims.latent_model, AdditiveLatent)
    predicted = _smoothed(model, sims) if additive else score
    residual = np.linalg.solve(factor, (sims.latent_score() - predicted).T).T
    regressor = np.linalg.solve(factor, predicted.T).T
    products = regressor[:, :, None] * residual[:, None, :]
    check = entrywise("residual", products, _TOLERANCE, "it has fitted noise or missed signal")
    says_nothing = additive and check.verdict == UNCLEAR and check.standard_error > check.tolerance
    return [] if says_nothing else [check]


def _scores_and_jacobians(model: ScoreModel, theta: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute scores (n, p) and their Jacobians in θ (n, p, p)."""
    scales, inner, data = inner_model(model, x)
    rows = np.asarray(scales.inner(theta), np.float32), np.asarray(data, np.float32)
    both = rows_in_turn(lambda *part: _both(inner, *part), rows, min(1024, model.rows_at_once))
    values = np.asarray(both, np.float64)
    return scales.scores(values[:, 0]), scales.matrices(values[:, 1:].swapaxes(-1, -2))


@quickly_compiled
def _both(model: ScoreModel, theta: Any, x: Any) -> Any:
    """Return for each row the score and, below it, its derivatives by each parameter."""

    def one(theta: Any, x: Any) -> Any:
        score, derivatives = jax.vmap(
            lambda direction: jax.jvp(lambda t: model.score_one(t, x), (theta,), (direction,)), out_axes=(None, 0)
        )(jnp.eye(len(theta), dtype=theta.dtype))
        return jnp.concatenate([score[None], derivatives])

    return jax.vmap(one)(theta, x)


def _smoothed(model: ScoreModel, sims: Simulations) -> np.ndarray:
    """Predict the latent score of additive noise: its mean given (θ, x) is the score smoothed by the noise.

    To second order that is (1 + H Σ)⁻¹ ŝ with H = −∂ŝ/∂θ, which is exact for a likelihood that is Gaussian in θ.
    """
    assert isinstance(sims.latent_model, AdditiveLatent)
    root = sims.latent_model.cholesky
    score, jacobian = _scores_and_jacobians(model, sims.theta, sims.x)
    curvature = -root.T @ (jacobian + jacobian.swapaxes(-1, -2)) / 2 @ root
    values, vectors = np.linalg.eigh(curvature)
    inverse = vectors / (1 + np.maximum(values, -0.5))[:, None, :] @ vectors.swapaxes(-1, -2)
    return np.einsum("ij,njk,nk->ni", np.linalg.inv(root).T, inverse, score @ root)


def _basis(theta: np.ndarray) -> np.ndarray:
    """Give 1, θ and θ² as orthonormal functions of the test parameters."""
    unit = (theta - theta.mean(axis=0)) / theta.std(axis=0)
    columns = np.concatenate([np.ones((len(theta), 1)), unit, unit**2], axis=1)
    return np.linalg.qr(columns)[0] * np.sqrt(len(theta))


def entrywise(name: str, terms: np.ndarray, tolerance: float, meaning: str) -> Check:
    """Test that every entry of the mean of ``terms`` (simulation, i, j) is zero, and report the worst."""
    value = np.abs(terms.mean(axis=0)).ravel()
    error = (terms.std(axis=0, ddof=1) / np.sqrt(len(terms))).ravel()
    chance = ndtri(1 - LEVEL / (2 * len(value))) * error
    if ((value > tolerance) & (value > chance)).any():
        verdict = FAIL
    else:
        verdict = UNCLEAR if (chance > tolerance).any() else PASS
    worst = int(np.argmax(value))
    return Check(
        name=name,
        value=float(value[worst]),
        standard_error=float(error[worst]),
        tolerance=tolerance,
        verdict=verdict,
        meaning=meaning,
    )


def _symmetry(slope: np.ndarray) -> Check:
    """Compare the antisymmetric part of the Jacobian with the whole, root mean square over simulations."""
    curl = np.sum(((slope - slope.swapaxes(-1, -2)) / 2) ** 2, axis=(1, 2))
    size = np.sum(slope**2, axis=(1, 2)).mean()
    value = np.sqrt(curl.mean() / size)
    error = 0.5 * curl.std(ddof=1) / np.sqrt(len(curl)) / size / max(value, 1e-12)
    return Check(
        name="symmetry",
        value=float(value),
        standard_error=float(error),
        tolerance=_MAX_CURL,
        verdict=FAIL if value - 3 * error > _MAX_CURL else PASS,
        meaning="its scores are not the gradient of anything",
    )


def _prior_near(proposal: Proposal, box: Proposal) -> Any:
    """Cut the law that test parameters were drawn from down to a box."""
    if all(isinstance(law, dist.Uniform) for law in proposal.distributions):
        return box
    unit = np.eye(proposal.num_parameters)
    return restricted_prior(proposal, (np.concatenate([unit, -unit]), np.concatenate([box.high, -box.low])))


def _calibrate(
    problem: ScaledProblem, truth: np.ndarray, box: Proposal | None, seed: int, progress: bool | None
) -> tuple[np.ndarray, np.ndarray]:
    """Sample the posteriors of simulated observations; return ranks and coverages of the truth."""
    lanes, scales = Lanes.of(Target.of(problem.model, problem.law), problem.x), problem.scales
    chains = sample_lanes(lanes, seed, num_warmup=_NUM_WARMUP, num_samples=_THINNING * _NUM_DRAWS, progress=progress)
    draws, known = chains.theta[::_THINNING].swapaxes(0, 1), scales.inner(truth[: lanes.num_lanes])
    inner = problem.model.low, problem.model.high
    region = inner if box is None else (scales.inner(box.low), scales.inner(box.high))
    return ranks_of(known, draws, seed), coverage_of(known, draws, region, seed)


def _familiarity_check(model: ScoreModel, x_obs: Any) -> Check:
    """Say whether an observation is unlike anything simulated; the rarest of several counts."""
    rarity = model.rarity(model.check_data(x_obs, "x_obs"))
    value = float("nan") if rarity is None else float(np.min(rarity))
    verdict, meaning = PASS, "the observation is unlike anything simulated"
    if rarity is None:
        verdict, meaning = UNCLEAR, "the model knows nothing of its training data"
    elif value < SMALLEST_RARITY:
        verdict = FAIL
    return Check("observation", value, 0.0, SMALLEST_RARITY, verdict=verdict, meaning=meaning)
