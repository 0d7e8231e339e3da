"""A fitted score in the user's units, and how it is saved: JSON and safetensors, never unpickled.

``model.json`` holds the architecture (a name from a closed list), sizes, parameter names and units;
``weights.safetensors`` the weights, the standardisation and the training region; ``provenance.json`` versions, seeds,
the hash of the data and the loss curve.
"""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._support.folder import as_folder, read_arrays, read_json, write_folder
from .._support.text import html_table
from ..errors import ModelFolderError
from ..potentials.base import ARCHITECTURES, Potential, ScoreFunction, build, describe, likelihood
from .model import Provenance, ScoreModel
from .standardize import Standardizer
from .training_summary import TrainingSummary

_SCHEMA = "fisherscore-model"
_VERSION = 1
# Bounds on what a folder may ask to be built, far above any real model.
_MAX_WEIGHTS = 500_000_000
_STANDARDIZER = ("theta_centre", "theta_scale", "x_centre", "x_scale", "score_scale")
# In files the arrays of the training summary are called "reference.*", as in the first version.
_SUMMARY = ("fisher_coefficients", "whitening", "distances")


class FittedScore(ScoreModel):
    """A fitted score with its standardisation, as :func:`fisherscore.fit` returns it.

    Attributes:
        function: The score in standardised units.
        standardizer: The maps between the user's units and the standardised ones.
        training_summary: What the model remembers of its training simulations.
        low: Lower ends of the training region, shape (p,).
        high: Upper ends of the training region, shape (p,).
        names: Parameter names.
        units: Their units, empty where there are none.
        x_shape: Shape of one observation.
        provenance: Facts about the fit: versions, seeds, the hash of the data, the loss curve.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> sims = fs.simulate(problem.simulator, problem.proposal, 200)
    >>> model = fs.fit(sims, recipe=fs.ClosedFormRecipe("gaussian"))
    >>> isinstance(model, fs.FittedScore), model.names, model.has_density
    (True, ('theta1', 'theta2'), True)
    """

    function: ScoreFunction
    standardizer: Standardizer
    training_summary: TrainingSummary
    low: np.ndarray
    high: np.ndarray
    names: tuple[str, ...] = eqx.field(static=True)
    units: tuple[str, ...] = eqx.field(static=True)
    x_shape: tuple[int, ...] = eqx.field(static=True)
    provenance: Provenance = eqx.field(static=True)

    def __str__(self) -> str:
        region = ", ".join(f"{name} in {interval}" for name, interval in self._region())
        lines = [f"score of {region}, given data of shape {self.x_shape}"]
        return "\n".join([*lines, *(f"  {name} {value}" for name, value in self._quality())])

    def _repr_html_(self) -> str:
        return html_table(repr(self), [*self._region(), *self._quality()])

    def _quality(self) -> list[tuple[str, str]]:
        """Write down what the fit says of itself: its own error, and what it is made of."""
        error, weights = self.estimated_error, self.weights
        rows = [] if error is None else [("estimated error", f"{error:.2g} (0 is perfect, 1 is predicting zero)")]
        members = ", ".join(f"{name} {weight:.2f}" for name, weight in weights.items() if weight)
        return [*rows, ("made of", members)] if weights else rows

    @property
    def estimated_error(self) -> float | None:
        """The fit's own estimate of its score error: 0 is perfect, 1 is predicting zero; None where it has none."""
        return self.provenance.get("estimated_error")

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each member by name; empty for a model that is no weighted sum."""
        return dict(self.provenance.get("weights") or {})

    @property
    def has_density(self) -> bool:
        """Whether the score is the gradient of a potential."""
        return isinstance(self.function, Potential)

    def score_one(self, theta: Float[Array, " params"], x: Any) -> Float[Array, " params"]:
        """Give the score of one observation in the user's units.

        Args:
            theta: Parameters in the order of ``names``.
            x: The observation.

        Returns:
            The score, one number per parameter.
        """
        return self.standardizer.score(self.function(*self.standardizer.inputs(theta, x)))

    def log_likelihood_one(self, theta: Float[Array, " params"], x: Any) -> Float[Array, ""]:
        """Give the potential as a log-likelihood.

        Args:
            theta: Parameters in the order of ``names``.
            x: The observation.

        Returns:
            The log-likelihood up to a term in x alone.
        """
        assert isinstance(self.function, Potential)
        return self.standardizer.log_likelihood(likelihood(self.function, *self.standardizer.inputs(theta, x)))

    @property
    def knows_fisher(self) -> bool:
        """Always: it was measured on the training simulations."""
        return True

    def fisher_one(self, theta: Float[Array, " params"]) -> Float[Array, "params params"]:
        """Give the Fisher matrix of the training simulations, smoothed over θ.

        Args:
            theta: Parameters in the order of ``names``.

        Returns:
            The Fisher matrix in the user's units.
        """
        unit = (theta - self.standardizer.theta_centre) / self.standardizer.theta_scale
        scale = self.standardizer.score(jnp.ones(len(self.names)))
        return scale[:, None] * self.training_summary.fisher(unit) * scale

    def rarity(self, x: Any) -> np.ndarray:
        """Return the fraction of training data farther from their mean than each x; 0 is beyond all.

        Args:
            x: One observation, or many along leading axes.

        Returns:
            The fractions, shape (...).
        """
        x = self.check_data(x)
        batch = self.data_batch_shape(x)
        rows = x.reshape(-1, *self.x_shape)
        standardised = (rows - self.standardizer.x_centre) / self.standardizer.x_scale
        return self.training_summary.rarity(standardised).reshape(batch)

    def save(self, path: str | Path) -> None:
        """Write the model to a folder of JSON and safetensors, replacing a model that is there.

        Args:
            path: The folder; :func:`fisherscore.load` reads it.
        """
        _save(self, path)


def _save(model: FittedScore, path: str | Path) -> None:
    """Write a fitted model to a folder."""
    document = {
        "schema": _SCHEMA,
        "version": _VERSION,
        **describe(model.function),
        "names": list(model.names),
        "units": list(model.units),
        "x_shape": list(model.x_shape),
        "full_whitening": model.training_summary.whitening.ndim == 2,
    }
    provenance = {"schema": _SCHEMA + "-provenance", "version": _VERSION, **_jsonable(model.provenance)}
    arrays = {f"network.{i:04d}": np.asarray(a) for i, a in enumerate(jax.tree.leaves(model.function))}
    arrays |= {f"standardizer.{n}": np.asarray(getattr(model.standardizer, n)) for n in _STANDARDIZER}
    arrays |= {f"reference.{n}": np.asarray(getattr(model.training_summary, n)) for n in _SUMMARY}
    arrays |= {"region.low": model.low, "region.high": model.high}
    write_folder(path, {"model.json": document, "provenance.json": provenance}, {"weights.safetensors": arrays})


def load(path: str | Path) -> FittedScore:
    """Read a model that ``model.save(path)`` wrote.

    Nothing is unpickled, and everything in the folder is checked.

    Args:
        path: The folder.

    Returns:
        The model; its scores are the same to the last bit.

    >>> import fisherscore as fs
    >>> fs.load("no/where")
    Traceback (most recent call last):
    ...
    fisherscore.errors.ModelFolderError: path: expected a folder written by fisherscore, but no/where is no folder.
    """
    folder = as_folder(path)
    document = read_json(folder / "model.json", _SCHEMA, _VERSION)
    names, units, x_shape = _description(document, folder)
    skeleton = _skeleton(document, len(names), x_shape, folder)
    leaves, structure = jax.tree.flatten(skeleton)

    p = len(names)
    shapes = dict(zip(_STANDARDIZER, ((p,), (p,), x_shape, x_shape, ()), strict=True))
    expected: dict[str, Any] = {f"network.{i:04d}": (leaf.shape, leaf.dtype) for i, leaf in enumerate(leaves)}
    expected |= {f"standardizer.{n}": (shape, np.float64) for n, shape in shapes.items()}
    summary = TrainingSummary.shapes(p, int(np.prod(x_shape)), full=document.get("full_whitening") is True)
    expected |= {f"reference.{n}": (shape, np.float64) for n, shape in summary.items()}
    expected |= {"region.low": ((p,), np.float64), "region.high": ((p,), np.float64)}
    arrays = read_arrays(folder / "weights.safetensors", expected)
    provenance = read_json(folder / "provenance.json", _SCHEMA + "-provenance", _VERSION)
    function = jax.tree.unflatten(structure, [jax.device_put(arrays[f"network.{i:04d}"]) for i in range(len(leaves))])
    return FittedScore(
        function=function,
        standardizer=Standardizer(**{n: arrays[f"standardizer.{n}"] for n in _STANDARDIZER}),
        training_summary=TrainingSummary(**{n: arrays[f"reference.{n}"] for n in _SUMMARY}),
        low=arrays["region.low"],
        high=arrays["region.high"],
        names=names,
        units=units,
        x_shape=x_shape,
        provenance=Provenance({k: v for k, v in provenance.items() if k not in ("schema", "version")}),
    )


def _description(document: dict[str, Any], folder: Path) -> tuple[tuple[str, ...], tuple[str, ...], tuple[int, ...]]:
    names, units, x_shape = (document.get(k) or () for k in ("names", "units", "x_shape"))
    texts = all(isinstance(v, list) and all(isinstance(t, str) for t in v) for v in (names, units))
    sizes = isinstance(x_shape, list) and all(isinstance(n, int) and 0 < n <= _MAX_WEIGHTS for n in x_shape)
    if not (texts and sizes and names and len(names) == len(set(names)) == len(units)):
        raise ModelFolderError(f"{folder / 'model.json'}: names, units or x_shape are missing or damaged.")
    return tuple(names), tuple(units), tuple(x_shape)


def _skeleton(document: dict[str, Any], num_parameters: int, x_shape: tuple[int, ...], folder: Path) -> Any:
    """Lay out the function's arrays without making them, so that absurd sizes cost nothing."""
    architecture, settings = document.get("architecture"), document.get("settings")
    if not isinstance(architecture, str) or architecture not in ARCHITECTURES:
        raise ModelFolderError(
            f"{folder / 'model.json'}: unknown architecture {architecture!r}. Known: {', '.join(ARCHITECTURES)}."
        )
    if not isinstance(settings, dict) or not _is_settings(settings):
        raise ModelFolderError(f"{folder / 'model.json'}: the network's settings are missing or damaged.")
    data_size = int(np.prod(x_shape))
    try:
        skeleton = eqx.filter_eval_shape(
            lambda: build(architecture, num_parameters, data_size, settings, key=jax.random.key(0))
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelFolderError(f"{folder / 'model.json'}: the network cannot be laid out: {error}.") from None
    if sum(leaf.size for leaf in jax.tree.leaves(skeleton)) > _MAX_WEIGHTS:
        raise ModelFolderError(f"{folder / 'model.json'}: asks for more than {_MAX_WEIGHTS} weights.")
    return skeleton


def _is_settings(settings: Any, depth: int = 0) -> bool:
    """Say whether settings are sizes, lists of sizes, or networks described by the same, not too deep."""
    if not isinstance(settings, dict) or depth > 3:
        return False
    for value in settings.values():
        inner = value if isinstance(value, list) else [value]
        if inner and all(isinstance(v, dict) for v in inner):
            if len(inner) > 64 or not all(_is_description(v, depth) for v in inner):
                return False
        elif not _is_size(value):
            return False
    return True


def _is_description(value: dict[str, Any], depth: int) -> bool:
    known = isinstance(value.get("architecture"), str) and value["architecture"] in ARCHITECTURES
    return known and _is_settings(value.get("settings"), depth + 1)


def _is_size(value: Any) -> bool:
    sizes = value if isinstance(value, list) else [value]
    return len(sizes) <= 64 and all(type(n) is int and 0 <= n <= 1_000_000 for n in sizes)


def _jsonable(value: Any) -> Any:
    """Turn arrays into lists and NaN into null, which is what JSON knows."""
    if isinstance(value, dict | Provenance):
        return {str(k): _jsonable(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(v) for v in value]
    if isinstance(value, np.ndarray | np.generic):
        return _jsonable(value.tolist())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
