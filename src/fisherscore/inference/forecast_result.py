"""What a forecast returns: three estimates of the Fisher matrix at one θ, and all that follows from them.

Saved, a forecast is a folder: ``forecast.json`` holds names and θ, ``matrices-<hash>.safetensors`` the three estimates
and their bootstrap replicates.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import plot
from .._support import fields as read
from .._support.folder import FolderKind
from .._support.result_folder import ArrayReader, ResultFolder
from .._support.text import columns, html_table, with_errors
from ..errors import ArgumentError
from .fisher_matrix import FisherMatrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ESTIMATES = ("plug_in", "slope", "bound")
_FOLDER = ResultFolder(
    FolderKind(schema="fisherscore-forecast", version=2, document="forecast.json", arrays="matrices"),
    readers={
        "names": read.names,
        "theta0": read.tuple_of(read.optional(read.number)),
        "num_simulations": read.count,
        "notes": read.Added(read.tuple_of(read.text), ()),
        "num_replicates": read.tuple_of(read.optional(read.count)),
    },
)


@dataclass(frozen=True, eq=False)
class Forecast:
    """Three estimates of the Fisher matrix at one θ; printed, it is a table of errors.

    ``fisher``, ``covariance`` and ``sigma`` are the plug-in's; those ending in ``_bound`` the conservative ones.

    Attributes:
        theta0: The parameters at which the forecast was made, shape (p,); NaN where they are not known.
        plug_in: The estimate E[ŝ ŝᵀ].
        slope: The estimate from the slope of the mean of ŝ.
        bound: The conservative estimate, which never claims more than the data hold; it may hold more than the model's
            score, by scores linear in the data and in their products.
        num_simulations: Number of simulations spent.
        notes: What else there is to know: what the data leave free, and where the score cannot be believed.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> forecast = fs.forecast(problem.exact_model(), [0.0, 0.0], problem.simulator)
    >>> forecast.fix("theta1").names, forecast.sigma_bound.round(1).tolist()
    (('theta2',), [1.0, 1.0])
    """

    theta0: np.ndarray
    plug_in: FisherMatrix
    slope: FisherMatrix
    bound: FisherMatrix
    num_simulations: int
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters that are left."""
        return self.plug_in.names

    @property
    def fisher(self) -> np.ndarray:
        """The plug-in Fisher matrix."""
        return self.plug_in.matrix

    @property
    def fisher_error(self) -> np.ndarray | None:
        """Standard error of each entry of the plug-in."""
        return self.plug_in.error

    @property
    def fisher_slope(self) -> np.ndarray:
        """The slope estimate of the Fisher matrix."""
        return self.slope.matrix

    @property
    def fisher_slope_error(self) -> np.ndarray | None:
        """Standard error of each entry of the slope."""
        return self.slope.error

    @property
    def fisher_bound(self) -> np.ndarray:
        """The conservative Fisher matrix, which never claims more than the data hold."""
        return self.bound.matrix

    @property
    def fisher_bound_error(self) -> np.ndarray | None:
        """Standard error of each entry of the bound."""
        return self.bound.error

    @property
    def covariance(self) -> np.ndarray:
        """The plug-in covariance."""
        return self.plug_in.covariance

    @property
    def covariance_error(self) -> np.ndarray | None:
        """Standard error of each entry of the plug-in covariance."""
        return self.plug_in.covariance_error

    @property
    def sigma(self) -> np.ndarray:
        """Marginal errors of the plug-in."""
        return self.plug_in.sigma

    @property
    def sigma_error(self) -> np.ndarray | None:
        """Standard error of the plug-in's marginal errors."""
        return self.plug_in.sigma_error

    @property
    def sigma_bound(self) -> np.ndarray:
        """Conservative marginal errors."""
        return self.bound.sigma

    @property
    def conditional_sigma(self) -> np.ndarray:
        """Conditional errors of the plug-in."""
        return self.plug_in.conditional_sigma

    @property
    def correlation(self) -> np.ndarray:
        """Correlations of the plug-in."""
        return self.plug_in.correlation

    def figure_of_merit(self, names: Sequence[str] | None = None) -> float:
        """Compute the plug-in's figure of merit, 1 / √det of a covariance.

        Args:
            names: The parameters whose covariance is meant, all by default; the others are free.

        Returns:
            The figure of merit.
        """
        return self.plug_in.figure_of_merit(names)

    def marginalize(self, names: Sequence[str] | str) -> "Forecast":
        """Let parameters be free and drop them, in all three estimates.

        Args:
            names: One parameter name or several.

        Returns:
            The forecast of the other parameters.
        """
        return self._mapped(lambda f: f.marginalize(names))

    def fix(self, names: Sequence[str] | str) -> "Forecast":
        """Take parameters as known and drop them, in all three estimates.

        Args:
            names: One parameter name or several.

        Returns:
            The forecast of the other parameters.
        """
        return self._mapped(lambda f: f.fix(names))

    def add(self, other: Any) -> "Forecast":
        """Add independent information.

        Args:
            other: A forecast of other data at the same parameters (each estimate is added to its like), a Fisher
                matrix, a Gaussian prior as standard deviations by parameter name, or a prior in any form
                :func:`sample` takes: the precision of normal laws, of all others the inverse of their covariance.

        Returns:
            The forecast of both together.
        """
        if not isinstance(other, Forecast):
            return self._mapped(lambda f: f.add(other))
        parts = {k: getattr(self, k).add(getattr(other, k)) for k in _ESTIMATES}
        own = dict(zip(self.names, self.theta0, strict=True))
        theirs = dict(zip(other.names, other.theta0, strict=True))
        name = displaced(self, theirs) or displaced(other, own)
        if name is not None:
            raise ArgumentError(
                f"other: forecasts at different parameters do not add: {name!r} is {own[name]:.6g} here and "
                f"{theirs[name]:.6g} there. Forecast both at the same theta0."
            )
        theta0 = np.array([(theirs | own)[n] for n in parts["plug_in"].names])
        return Forecast(theta0, **parts, num_simulations=self.num_simulations + other.num_simulations)

    def times(self, number: float) -> "Forecast":
        """Return the forecast for many independent observations like this one.

        Args:
            number: How many: a number above 0.

        Returns:
            The forecast with ``number`` times the information.
        """
        return self._mapped(lambda f: f.times(number))

    def plot(
        self, *, names: Sequence[str] | None = None, estimate: str = "plug_in", ax: "Axes | None" = None
    ) -> "Axes":
        """Draw the one sigma error ellipse of two parameters.

        Args:
            names: The two parameters, by default the first two.
            estimate: Which estimate to draw: ``"plug_in"``, ``"slope"`` or ``"bound"``.
            ax: Matplotlib axes to draw into; by default those of a new figure.

        Returns:
            The axes.
        """
        return plot.fisher_ellipses(self, names=names, estimate=estimate, ax=ax)

    def save(self, path: str | Path) -> None:
        """Write the forecast to a folder of JSON and safetensors, replacing a forecast that is there.

        Args:
            path: The folder.
        """
        estimates = {name: getattr(self, name) for name in _ESTIMATES}
        fields = {
            "names": self.names,
            "theta0": [value if np.isfinite(value) else None for value in self.theta0.tolist()],
            "num_simulations": self.num_simulations,
            "notes": self.notes,
            "num_replicates": [None if e.draws is None else len(e.draws) for e in estimates.values()],
        }
        arrays = {name: estimate.matrix for name, estimate in estimates.items()}
        arrays |= {f"{name}.draws": e.draws for name, e in estimates.items() if e.draws is not None}
        _FOLDER.write(path, fields, arrays)

    @classmethod
    def load(cls, path: str | Path) -> "Forecast":
        """Read a forecast that :meth:`save` wrote; everything in the folder is checked.

        Args:
            path: The folder.

        Returns:
            The forecast, equal to the last bit.
        """

        def build(fields: dict[str, Any], arrays: ArrayReader) -> "Forecast":
            names, counts = fields["names"], fields["num_replicates"]
            p = len(names)
            if len(fields["theta0"]) != p or len(counts) != len(_ESTIMATES):
                raise _FOLDER.damaged(path, "names, theta0 and num_replicates do not fit together")
            shapes: dict[str, tuple[int, ...]] = dict.fromkeys(_ESTIMATES, (p, p))
            replicates = zip(_ESTIMATES, counts, strict=True)
            shapes |= {f"{name}.draws": (count, p, p) for name, count in replicates if count is not None}
            kept = arrays(shapes)
            try:
                estimates = {n: FisherMatrix(names, kept[n], kept.get(f"{n}.draws")) for n in _ESTIMATES}
            except ArgumentError as error:
                raise _FOLDER.damaged(path, str(error)) from None
            theta0 = np.array([np.nan if value is None else value for value in fields["theta0"]])
            return cls(theta0, **estimates, num_simulations=fields["num_simulations"], notes=fields["notes"])

        return _FOLDER.read(path, build)

    def __str__(self) -> str:
        head = f"Fisher forecast, {self.num_simulations:,} simulations"
        direction = self.degenerate_direction()
        if direction is not None:
            return "\n".join([head, *(self.notes or (f"singular: the data do not constrain {direction}",))])
        estimates = [getattr(self, name) for name in _ESTIMATES]
        cells = [
            [f"{value:.6g}" for value in self.theta0],
            *(with_errors(e.sigma, e.sigma_error) for e in estimates),
            with_errors(self.conditional_sigma),
        ]
        rows: list[Sequence[str]] = [("parameter", "value", "σ plug-in", "σ slope", "σ bound", "σ conditional")]
        rows += zip(self.names, *cells, strict=True)
        return "\n".join([head, *columns(rows), f"figure of merit {self.figure_of_merit():.5g}", *self.notes])

    def __repr__(self) -> str:
        at = ", ".join(f"{name}={value:.4g}" for name, value in zip(self.names, self.theta0, strict=True))
        return f"Forecast({at}; {self.num_simulations:,} simulations)"

    def _repr_html_(self) -> str:
        title = f"Fisher forecast, {self.num_simulations:,} simulations"
        direction = self.degenerate_direction()
        if direction is not None:
            return html_table(title, [("singular", f"the data do not constrain {direction}")])
        sigmas = with_errors(self.sigma, self.plug_in.sigma_error)
        bounds = with_errors(self.sigma_bound, self.bound.sigma_error)
        values = zip(self.names, self.theta0, sigmas, bounds, strict=True)
        return html_table(title, [(n, f"{at:.6g}: σ = {s} (bound {b})") for n, at, s, b in values])

    def degenerate_direction(self) -> str | None:
        """Return the combination of parameters that one of the estimates leaves unconstrained, or None."""
        directions = (getattr(self, name).degenerate_direction() for name in _ESTIMATES)
        return next((d for d in directions if d), None)

    def _mapped(self, function: Callable[[FisherMatrix], FisherMatrix]) -> "Forecast":
        plug_in, slope, bound = (function(getattr(self, name)) for name in _ESTIMATES)
        by_name = dict(zip(self.names, self.theta0, strict=True))
        theta0 = np.array([by_name.get(n, np.nan) for n in plug_in.names])
        return Forecast(theta0, plug_in, slope, bound, num_simulations=self.num_simulations)


def displaced(forecast: Forecast, theta: Mapping[str, float]) -> str | None:
    """Name a parameter whose value in ``theta`` is not that of the forecast, or None.

    Values are the same within a tenth of the parameter's own conditional σ, over which a Fisher matrix hardly changes.
    """
    with np.errstate(divide="ignore"):  # a parameter that the data do not constrain may have any value
        allowed = 0.1 * forecast.conditional_sigma
    places = zip(forecast.names, forecast.theta0, allowed, strict=True)
    return next((n for n, at, step in places if n in theta and abs(theta[n] - at) > step), None)
