"""Checks that need no truth: does a learned score behave as a score must?

On fresh simulations (θ, z, x), with t the latent score and J = ∂ŝ/∂θ,

    zero mean      E[ŝ | θ] = 0                 fails when ŝ is shifted
    information    E[ŝ ŝᵀ] = −E[J]              fails when ŝ is scaled
    residual       E[ŝ (t − ŝ)ᵀ] = 0            fails when ŝ has fitted noise
    symmetry       J = Jᵀ                       fails when ŝ is no gradient

each in units where E[ŝ ŝᵀ] is the unit matrix, with a standard error. Where ``simulate`` added noise to θ, the pairs
tested are (z, x), exact draws of the user's model, and t is compared with ŝ smoothed by that noise. A check fails
when it is off by more than its tolerance and by more than chance allows; it is unclear when chance could hide a
deviation of that size. Posteriors of simulated data are checked by their ranks (simulation-based calibration, Talts
et al. 2018) and their expected coverage (TARP, Lemos et al. 2023).
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import chi2, kstest, norm

from .._support.arguments import as_count, as_seed
from ..errors import ArgumentError
from ..score.model import ScoreModel
from ..simulation.latent import AdditiveLatent
from ..simulation.simulations import Simulations
from .fisher_matrix import FisherMatrix
from .nuts import sample_lanes
from .posterior import SMALLEST_RARITY
from .target import Target

PASS, FAIL, UNCLEAR = "pass", "FAIL", "unclear"
# Chance of a false alarm per check.
_LEVEL = 0.005
_NUM_DRAWS = 100
_SMALLEST_NUM_POSTERIORS = 50


@dataclass(frozen=True)
class Check:
    """One check: how far off, with what error, against which tolerance, and the verdict.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> sims = fs.simulate(problem.simulator, problem.proposal, 5_000)
    >>> fs.diagnose(problem.exact_model(), sims, num_posteriors=0)["zero mean"].verdict
    'pass'
    """

    name: str
    value: float
    standard_error: float
    tolerance: float
    verdict: str
    meaning: str


@dataclass(frozen=True)
class Diagnosis:
    """All checks of a model, with the ranks and coverages behind the last two; printed, it is a table.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> sims = fs.simulate(problem.simulator, problem.proposal, 5_000)
    >>> [check.name for check in fs.diagnose(problem.exact_model(), sims, num_posteriors=0).checks]
    ['zero mean', 'information', 'symmetry']
    """

    checks: tuple[Check, ...]
    names: tuple[str, ...]
    num_simulations: int
    ranks: np.ndarray | None = None  # (posteriors, parameters), as fractions
    coverage: np.ndarray | None = None  # (posteriors,), credibility at which each truth is just covered

    def __getitem__(self, name: str) -> Check:
        for check in self.checks:
            if check.name == name:
                return check
        raise KeyError(name)

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(c.verdict != FAIL for c in self.checks)

    def table(self) -> str:
        """Return one line per check under one line of verdict."""
        failed = [c for c in self.checks if c.verdict == FAIL]
        unclear = [c.name for c in self.checks if c.verdict == UNCLEAR]
        if failed:
            head = "Do not trust this model: " + "; ".join(c.meaning for c in failed) + "."
        elif unclear:
            head = (
                f"No check failed, but {', '.join(unclear)} cannot be told with {self.num_simulations:,} simulations."
            )
        else:
            head = f"All {len(self.checks)} checks passed on {self.num_simulations:,} simulations."
        lines = [f"{'check':<12}  {'value':>9}  {'± error':>9}  {'tolerance':>9}  verdict"]
        lines += [
            f"{c.name:<12}  {c.value:>9.4f}  {c.standard_error:>9.4f}  {c.tolerance:>9.3g}  {c.verdict}"
            for c in self.checks
        ]
        return "\n".join([head, *lines])

    def __str__(self) -> str:
        return self.table()


def diagnose(
    model: ScoreModel,
    test_sims: Simulations,
    *,
    x_obs: Any = None,
    num_posteriors: int = 200,
    seed: int = 0,
    progress: bool | None = None,
) -> Diagnosis:
    """Check a model on simulations it was not trained on; ``num_posteriors=0`` leaves out calibration and coverage.

    With ``x_obs``, also say whether the observation is unlike anything simulated.

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
    sims = test_sims.ok()
    if len(sims) < 100:
        raise ArgumentError(f"test_sims: expected at least 100 simulations that succeeded, got {len(sims)}.")
    checks = _identities(model, sims)
    ranks = coverage = None
    if as_count(num_posteriors, "num_posteriors", minimum=0):
        ranks, coverage = _calibrate(model, sims, min(num_posteriors, len(sims)), as_seed(seed), progress)
        checks += [_calibration_check(ranks), _coverage_check(coverage)]
    if x_obs is not None:
        checks += _familiarity_check(model, x_obs)
    return Diagnosis(tuple(checks), model.names, len(sims), ranks, coverage)


def _refuse_training_data(model: ScoreModel, sims: Simulations) -> None:
    """Refuse to test a model on the rows it was trained on, which any overfitted model would pass."""
    record = getattr(model, "provenance", {})
    trained_on = record.get("simulations", {})
    origin = (sims.origin.simulator, sims.origin.seed)
    same_stream = sims.origin.seed is not None and (trained_on.get("simulator"), trained_on.get("seed")) == origin
    if same_stream or record.get("data_sha256") == sims.fingerprint():
        raise ArgumentError(
            f"test_sims: the model was trained on simulations with the same seed ({sims.origin.seed}), so "
            "these say nothing about it. Simulate with another seed."
        )


def _identities(model: ScoreModel, sims: Simulations) -> list[Check]:
    """Compute the four identities, whitened so that the second moment of ŝ is one in every direction."""
    score, jacobian = _scores_and_jacobians(model, sims.drawn_at, sims.x)
    if not np.isfinite(score).all():
        raise ArgumentError("model: its scores of the test simulations are not finite.")
    free = FisherMatrix(model.names, score.T @ score / len(score)).degenerate_direction()
    if free is not None:
        raise ArgumentError(f"model: it leaves the combination {free} unconstrained everywhere; drop a parameter.")
    factor = np.linalg.cholesky(score.T @ score / len(score))
    white = np.linalg.solve(factor, score.T).T
    slope = np.linalg.solve(factor, np.linalg.solve(factor, jacobian).swapaxes(-1, -2)).swapaxes(-1, -2)

    basis = _basis(sims.drawn_at)
    mean = white[:, :, None] * basis[:, None, :]
    information = white[:, :, None] * white[:, None, :] + (slope + slope.swapaxes(-1, -2)) / 2
    checks = [
        _entrywise("zero mean", mean, 0.1, "its scores do not average to zero at every θ"),
        _entrywise("information", information, 0.1, "its scores have the wrong size (E[ŝŝᵀ] ≠ −E[∂ŝ/∂θ])"),
    ]
    if sims.latent_model is not None:
        additive = isinstance(sims.latent_model, AdditiveLatent)
        predicted = _smoothed(model, sims) if additive else score
        residual = np.linalg.solve(factor, (sims.latent_score() - predicted).T).T
        regressor = np.linalg.solve(factor, predicted.T).T
        products = regressor[:, :, None] * residual[:, None, :]
        check = _entrywise("residual", products, 0.1, "it has fitted noise or missed signal")
        # Little noise makes the latent score a poor witness: it cannot pass, and is heard only when it objects.
        if check.verdict != UNCLEAR or check.standard_error <= check.tolerance or not additive:
            checks.append(check)
    return [*checks, _symmetry(slope)]


def _scores_and_jacobians(model: ScoreModel, theta: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    @eqx.filter_jit
    def both(model: ScoreModel, theta: Any, x: Any) -> Any:
        def one(row: Any) -> Any:
            return model.score_one(*row), jax.jacfwd(model.score_one)(*row)

        return jax.lax.map(one, (theta, x), batch_size=min(1024, model.rows_at_once))

    score, jacobian = both(model, jnp.asarray(theta, jnp.float32), jnp.asarray(x, jnp.float32))
    return np.asarray(score, np.float64), np.asarray(jacobian, np.float64)


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


def _entrywise(name: str, terms: np.ndarray, tolerance: float, meaning: str) -> Check:
    """Test that every entry of the mean of ``terms`` (record, i, j) is zero, and report the worst."""
    value = np.abs(terms.mean(axis=0)).ravel()
    error = (terms.std(axis=0, ddof=1) / np.sqrt(len(terms))).ravel()
    chance = norm.ppf(1 - _LEVEL / (2 * len(value))) * error
    if ((value > tolerance) & (value > chance)).any():
        verdict = FAIL
    else:
        verdict = UNCLEAR if (chance > tolerance).any() else PASS
    worst = int(np.argmax(value))
    return Check(name, float(value[worst]), float(error[worst]), tolerance, verdict, meaning)


def _symmetry(slope: np.ndarray) -> Check:
    """Compare the antisymmetric part of the Jacobian with the whole, root mean square over records."""
    curl = np.sum(((slope - slope.swapaxes(-1, -2)) / 2) ** 2, axis=(1, 2))
    size = np.sum(slope**2, axis=(1, 2)).mean()
    value = np.sqrt(curl.mean() / size)
    error = 0.5 * curl.std(ddof=1) / np.sqrt(len(curl)) / size / max(value, 1e-12)
    verdict = FAIL if value - 3 * error > 0.2 else PASS
    return Check("symmetry", float(value), float(error), 0.2, verdict, "its scores are not the gradient of anything")


def _calibrate(
    model: ScoreModel, sims: Simulations, num: int, seed: int, progress: bool | None
) -> tuple[np.ndarray, np.ndarray]:
    """Sample the posterior of ``num`` simulated observations under the proposal they were drawn from."""
    goal = Target(model, sims.proposal.distributions)
    draws = sample_lanes(
        goal,
        jnp.asarray(sims.x[:num], jnp.float32),
        jax.random.key(seed),
        num_warmup=300,
        num_samples=4 * _NUM_DRAWS,
        progress=progress,
    )["theta"][::4]
    truth = sims.drawn_at[:num]
    ranks = ((draws < truth).sum(axis=0) + 0.5) / (_NUM_DRAWS + 1)
    scale = model.high - model.low
    reference = np.random.default_rng(seed).uniform(model.low, model.high, size=truth.shape)
    closer = np.sum(((draws - reference) / scale) ** 2, axis=-1) < np.sum(((truth - reference) / scale) ** 2, axis=-1)
    return ranks, (closer.sum(axis=0) + 0.5) / (_NUM_DRAWS + 1)


def uniformity(fractions: np.ndarray) -> float:
    """Return the p-value of fractions being uniform: shape (KS), bias and width of their normal scores, together."""
    scores = norm.ppf(fractions)
    num = len(scores)
    width = chi2.cdf(np.sum(scores**2), num)
    tests = (
        kstest(fractions, "uniform").pvalue,
        2 * norm.sf(abs(scores.mean()) * np.sqrt(num)),
        2 * min(width, 1 - width),
    )
    return float(min(1.0, len(tests) * min(tests)))


def _calibration_check(ranks: np.ndarray) -> Check:
    p_value = min(1.0, ranks.shape[1] * min(uniformity(column) for column in ranks.T))
    widths = norm.ppf(ranks).std(axis=0)
    worst = int(np.argmax(np.abs(np.log(widths))))
    return _distribution_check("calibration", float(widths[worst]) - 1, p_value, len(ranks))


def _coverage_check(coverage: np.ndarray) -> Check:
    levels = np.sort(coverage)
    gap = float(np.max(np.abs(levels - (np.arange(len(levels)) + 0.5) / len(levels))))
    return _distribution_check("coverage", gap, uniformity(coverage), len(coverage))


def _distribution_check(name: str, value: float, p_value: float, num: int) -> Check:
    verdict = UNCLEAR if num < _SMALLEST_NUM_POSTERIORS else PASS
    if p_value < _LEVEL:
        verdict = FAIL
    meaning = f"its posteriors are miscalibrated ({name}, p = {p_value:.1g})"
    return Check(name, value, 1 / np.sqrt(2 * num), 0.0, verdict, meaning)


def _familiarity_check(model: ScoreModel, x_obs: Any) -> list[Check]:
    rarity = model.rarity(model.check_data(x_obs, "x_obs"))
    if rarity is None:
        meaning = "the model knows nothing of its training data"
        return [Check("observation", float("nan"), 0.0, SMALLEST_RARITY, UNCLEAR, meaning)]
    value = float(np.min(rarity))
    verdict = FAIL if value < SMALLEST_RARITY else PASS
    return [Check("observation", value, 0.0, SMALLEST_RARITY, verdict, "the observation is unlike anything simulated")]
