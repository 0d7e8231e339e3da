"""A fitted score in the user's units, and how it is saved: JSON and safetensors, never unpickled.

``model.json`` holds the architecture (a name from a closed list), sizes, parameter names and units, and where the model
comes from: versions, seeds, the hash of the data and the loss curve. ``weights-<hash>.safetensors`` holds the weights,
the standardisation and the training region. Both are checked against checksums, but for models of version 0.1.0.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from .._support.axes import Axes
from .._support.folder import FolderKind, as_folder, write_folder
from .._support.folder_reading import arrays_path, read_arrays, read_document, read_json, read_whole
from .._support.precision import in_single_precision
from .._support.text import html_table
from ..errors import ModelFolderError
from ..potentials.base import Potential, ScoreFunction, describe, likelihood
from ..summaries.base import Embedding, describe_embedding
from .constraints import OwnError
from .layout import STANDARDIZER, SUMMARY, Description, check_values, read_provenance
from .model import ROWS_AT_ONCE, ScoreModel
from .provenance import Provenance
from .scales import Scales
from .standardize import Standardizer
from .training_summary import TrainingSummary

_KIND = FolderKind(
    schema="fisherscore-model",
    version=2,
    document="model.json",
    arrays="weights",
    unchecked=1,
    unchecked_marker="standardizer.theta_scale",
    unchecked_others=(("provenance.json", "fisherscore-model-provenance"),),
)


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
        axes: The axes of a training region that has axes of its own, within ``low`` and ``high``; else None.
        embedding: What large data are summarised by before the function sees them; None for data as they are.

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
    axes: Axes | None = None
    embedding: Embedding | None = None

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
        if rows and self.embedding is not None:
            rows.append(("not in that error", "what the summaries lose of the data; it is of their score"))
        known = self.constraints
        if known is not None:
            rows.append(("under the training range", f"{known.outcome}; posteriors off by {known.error**0.5:.1g} σ"))
        members = ", ".join(f"{name} {weight:.2f}" for name, weight in weights.items() if weight)
        rows = [*rows, ("made of", members)] if weights else rows
        if self.provenance.get("learned_summary_used") is False:
            rows.append(("learned summary", "left out, since it did not lower the loss of held-out simulations"))
        return rows

    @property
    def estimated_error(self) -> float | None:
        """The fit's own estimate of its score error: 0 is perfect, 1 is predicting zero; None where it has none.

        Where data are summarised, as maps are, it is that of the score of the summaries: no comparison of fits to
        them tells what they lose of the data.
        """
        return self.provenance.get("estimated_error")

    @property
    def own_error(self) -> OwnError | None:
        """What the fit knows of its error by direction; None for recipes and versions that do not say."""
        error, information = self.provenance.get("error_covariance"), self.provenance.get("information")
        if error is None or information is None:
            return None
        # They are kept in units of half of each range, or of each axis.
        scales = self.own_scales()
        return OwnError(
            scales.matrices(information),
            scales.matrices(error),
            int(self.provenance["num_simulations"]),
        )

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
        return self.standardizer.score(self.function(*self.standardizer.inputs(theta, self._summaries(x))))

    def log_likelihood_one(self, theta: Float[Array, " params"], x: Any) -> Float[Array, ""]:
        """Give the potential as a log-likelihood.

        Args:
            theta: Parameters in the order of ``names``.
            x: The observation.

        Returns:
            The log-likelihood up to a term in x alone.
        """
        assert isinstance(self.function, Potential)
        inputs = self.standardizer.inputs(theta, self._summaries(x))
        return self.standardizer.log_likelihood(likelihood(self.function, *inputs))

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
        return self.standardizer.fisher(self.training_summary.fisher(self.standardizer.parameters(theta)))

    def own_scales(self) -> Scales:
        """Return scales in which the training region runs from −1 to 1."""
        return Scales.of_region(self.low, self.high, self.axes)

    def in_scales(self, scales: Scales) -> "FittedScore":
        """Return the model as a function of u, with θ = centre + scale · u, and of standardised data.

        Args:
            scales: Centre and scale, along the axes of the training region or upright.

        Returns:
            A model whose scores are derivatives by u.
        """
        standardizer = self.standardizer.in_scales(scales)
        if scales.turn is None:
            ends = scales.inner(self.low), scales.inner(self.high)
            axes = None if self.axes is None else self.axes.moved(scales.centre, scales.scale)
        else:
            ends, axes = (-np.ones(len(self.names)), np.ones(len(self.names))), None
        shape = standardizer.x_centre.shape
        inner = replace(self, standardizer=standardizer, low=ends[0], high=ends[1], axes=axes)
        return replace(inner, x_shape=shape, embedding=None)

    def data_in_scales(self, x: Any) -> Any:
        """Summarise data, where there are summaries, and standardise them in double precision.

        Args:
            x: Data as :meth:`check_data` returns them.

        Returns:
            Data with the same leading axes, of order one.
        """
        return self.standardizer.data(x if self.embedding is None else self.embedding.rows(np.asarray(x)))

    def check_data(self, x: Any, argument: str = "x") -> Any:
        """Return data as arrays of the right shape; pixels that the fit's mask leaves out may hold anything.

        Args:
            x: One observation, or many along leading axes.
            argument: What an error calls it.

        Returns:
            The data as an array.
        """
        return super().check_data(x if self.embedding is None else self.embedding.filled(x), argument)

    def _summaries(self, x: Any) -> Any:
        """Summarise one observation, traced."""
        return x if self.embedding is None else self.embedding(x)

    @property
    def rows_at_once(self) -> int:
        """How many rows may be evaluated side by side: fewer where each has to be summarised."""
        return ROWS_AT_ONCE if self.embedding is None else self.embedding.rows_at_once

    def rarity(self, x: Any) -> np.ndarray:
        """Return the fraction of training data farther from their mean than each x; 0 is beyond all.

        Args:
            x: One observation, or many along leading axes.

        Returns:
            The fractions, shape (...).
        """
        x = self.check_data(x)
        batch = self.data_batch_shape(x)
        rows = self.data_in_scales(x.reshape(-1, *self.x_shape))
        return self.training_summary.rarity(rows).reshape(batch)

    def save(self, path: str | Path) -> None:
        """Write the model to a folder of JSON and safetensors, replacing a model that is there.

        Args:
            path: The folder; :func:`fisherscore.load` reads it.
        """
        _save(self, path)


def _save(model: FittedScore, path: str | Path) -> None:
    """Write a fitted model to a folder."""
    fields = {
        **describe(model.function),
        "names": list(model.names),
        "units": list(model.units),
        "x_shape": list(model.x_shape),
        "full_whitening": model.training_summary.whitening.ndim == 2,
        # Models in upright regions are written as before, so that earlier versions can read them.
        **({} if model.axes is None else {"own_axes": {"turned": model.standardizer.theta_turn is not None}}),
        "provenance": _jsonable(model.provenance),
    }
    if model.embedding is not None:
        fields |= {
            "embedding": describe_embedding(model.embedding),
            "num_summaries": model.embedding.num_summaries,
        }
    arrays = {f"network.{i:04d}": np.asarray(a) for i, a in enumerate(jax.tree.leaves(model.function))}
    arrays |= {f"standardizer.{n}": np.asarray(getattr(model.standardizer, n)) for n in STANDARDIZER}
    arrays |= {f"reference.{n}": np.asarray(getattr(model.training_summary, n)) for n in SUMMARY}
    if model.standardizer.theta_turn is not None:
        arrays["standardizer.theta_turn"] = np.asarray(model.standardizer.theta_turn)
    arrays |= {f"embedding.{i:04d}": np.asarray(a) for i, a in enumerate(jax.tree.leaves(model.embedding))}
    arrays |= {"region.low": model.low, "region.high": model.high}
    if model.axes is not None:
        arrays |= {"region.centre": np.asarray(model.axes.centre), "region.factor": np.asarray(model.axes.factor)}
    write_folder(path, _KIND, fields, arrays)


def load(path: str | Path, *, features: Callable[..., Any] | None = None, embedding: Any = None) -> FittedScore:
    """Read a model that ``model.save(path)`` wrote.

    Nothing is unpickled, and everything in the folder is checked.

    Args:
        path: The folder.
        features: For a model that was fitted with ``features=``, the same function: functions are not saved.
        embedding: For a model that was fitted with a module as ``embedding=``, a module of the same making, trained or
            not: its numbers are replaced by those that were trained.

    Returns:
        The model; its scores are the same to the last bit.

    >>> import fisherscore as fs
    >>> fs.load("no/where")
    Traceback (most recent call last):
    ...
    fisherscore.errors.ModelFolderError: path: expected a folder written by fisherscore, but no/where is no folder.
    """
    folder = as_folder(path)
    return read_whole(folder, _KIND, lambda: _load(folder, {"features": features, "embedding": embedding}))


@in_single_precision
def _load(folder: Path, own: dict[str, Any]) -> FittedScore:
    file = folder / _KIND.document
    document = read_document(folder, _KIND)
    num_bytes = arrays_path(folder, _KIND, document).stat().st_size
    description = Description.of(document, file, num_bytes)
    leaves, structure = jax.tree.flatten(description.skeleton(file))
    embedding = description.embedding(file, own)
    parts, embedding_structure = jax.tree.flatten(embedding)
    arrays = read_arrays(folder, _KIND, document, description.shapes(leaves, parts))
    check_values(arrays, folder)
    function = jax.tree.unflatten(structure, [jax.device_put(arrays[f"network.{i:04d}"]) for i in range(len(leaves))])
    return FittedScore(
        function=function,
        standardizer=Standardizer(
            **{n: arrays[f"standardizer.{n}"] for n in STANDARDIZER}, theta_turn=arrays.get("standardizer.theta_turn")
        ),
        training_summary=TrainingSummary(**{n: arrays[f"reference.{n}"] for n in SUMMARY}),
        low=arrays["region.low"],
        high=arrays["region.high"],
        names=description.names,
        units=description.units,
        x_shape=description.x_shape,
        provenance=Provenance(_provenance(document, folder)),
        axes=Axes(arrays["region.centre"], arrays["region.factor"]) if description.own_axes else None,
        embedding=jax.tree.unflatten(
            embedding_structure, [_placed(arrays[f"embedding.{i:04d}"]) for i in range(len(parts))]
        ),
    )


def _placed(array: np.ndarray) -> Any:
    """Keep arrays in double precision on the host, and put others on the device."""
    return array if array.dtype == np.float64 else jax.device_put(array)


def _provenance(document: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return what is known of the fit; version 1 had a document of its own for it."""
    if document["version"] == _KIND.unchecked:
        name, schema = _KIND.unchecked_others[0]
        kept = read_json(folder / name, schema, (1,))
        entries = {key: value for key, value in kept.items() if key not in ("schema", "version")}
    else:
        entries = document.get("provenance", {})
    try:
        return read_provenance(entries)
    except (TypeError, ValueError):
        raise ModelFolderError(f"{folder}: what it says of the fit is damaged.") from None


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
