"""What sampling returns: draws, how they were made, and whether to believe them.

Saved, a posterior is a folder: ``posterior.json`` holds names, units and how it was made, ``draws-<hash>.safetensors``
the draws and their log-density.
"""

import contextlib
import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from .. import plot
from .._support import fields as read
from .._support.arguments import as_finite, check_names, is_name
from .._support.drawing import getdist_names, mathematics
from .._support.folder import FolderKind
from .._support.result_folder import ArrayReader, ResultFolder
from .._support.text import columns, html_table
from ..errors import ArgumentError, MissingExtraError
from ..simulation.proposal import Proposal, uniform
from .convergence import convergence

# Beyond these a posterior is flagged.
LARGEST_R_HAT = 1.05
SMALLEST_ESS = 100.0
LARGEST_OUTSIDE = 0.01
LARGEST_DIVERGENT = 0.01
SMALLEST_RARITY = 1e-3

_FOLDER = ResultFolder(
    FolderKind(schema="fisherscore-posterior", version=2, document="posterior.json", arrays="draws"),
    readers={
        "names": read.names,
        "units": read.tuple_of(read.text),
        "shape": read.tuple_of(read.count),
        "method": read.text,
        "correction": read.text,
        "num_divergent": read.count,
        "fraction_outside": read.number,
        "rarity": read.optional(read.number),
        "seconds": read.dictionary_of(read.number),
        "problems": read.tuple_of(read.text),
        "notes": read.Added(read.tuple_of(read.text), ()),
        "support": read.tuple_of(read.tuple_of(read.optional(read.number))),
    },
)


@dataclass(frozen=True, eq=False)
class Posterior:
    """Posterior draws with their log-density and diagnostics; printed, it is a table.

    Attributes:
        names: Parameter names.
        units: Their units, empty where there are none.
        chains: Draws, shape (chains, draws, p).
        log_density: Log prior plus log-likelihood of every draw, shape (chains, draws), up to a constant that is the
            same for all. For a model without a density the likelihood is the line integral of its score from the best
            fit.
        method: The sampler.
        correction: What its accept step rests on, or the number of temperatures.
        r_hat: Gelman and Rubin's statistic of each parameter, from split chains.
        effective_samples: Effective number of independent draws of each parameter.
        num_divergent: Number of transitions of NUTS that diverged.
        fraction_outside: Fraction of draws outside the training region.
        rarity: Fraction of training data farther from their mean than the observation; None where not known.
        seconds: Time spent, by part of the work.
        problems: Every reason not to trust the result, in words; empty when there is none.
        support: Ends of each parameter's prior, None where it has none.
        notes: What else there is to know, above all what the data do not constrain.

    >>> import fisherscore as fs
    >>> model = fs.problems.linear_gaussian().exact_model()
    >>> posterior = fs.sample(model, [0.5, -0.5], num_samples=200, num_warmup=200)
    >>> posterior
    Posterior(theta1, theta2; NUTS, 4 chains of 200 draws)
    >>> posterior.quantiles([0.16, 0.84]).shape, posterior.problems
    ((2, 2), ())
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    chains: np.ndarray
    log_density: np.ndarray
    method: str
    correction: str
    r_hat: np.ndarray
    effective_samples: np.ndarray
    num_divergent: int
    fraction_outside: float
    rarity: float | None
    seconds: dict[str, float]
    problems: tuple[str, ...] = ()
    support: tuple[tuple[float | None, float | None], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def samples(self) -> np.ndarray:
        """All draws, shape (n, p)."""
        return self.chains.reshape(-1, len(self.names))

    @property
    def trusted(self) -> bool:
        """Whether there are no problems."""
        return not self.problems

    @property
    def mean(self) -> np.ndarray:
        """Posterior means, shape (p,)."""
        return self.samples.mean(axis=0)

    @property
    def sigma(self) -> np.ndarray:
        """Posterior standard deviations, shape (p,)."""
        return self.samples.std(axis=0)

    def quantiles(self, levels: Any) -> np.ndarray:
        """Compute quantiles of every parameter.

        Args:
            levels: Numbers from 0 to 1.

        Returns:
            The quantiles, shape (levels, p); shape (p,) for a single number.
        """
        wanted = as_finite(levels, "levels")
        if wanted.ndim > 1 or (wanted < 0).any() or (wanted > 1).any():
            raise ArgumentError(f"levels: expected one or more numbers from 0 to 1, got {levels!r}.")
        return np.quantile(self.samples, wanted, axis=0)

    def derive(
        self, functions: Mapping[str, Callable[[dict[str, np.ndarray]], Any]], *, units: Mapping[str, str] | None = None
    ) -> "Posterior":
        """Add parameters that are functions of those sampled.

        Args:
            functions: By name of the new parameter, a function of a dictionary that holds an array with all draws of
                every parameter, shape (n,); it returns an array of the same shape.
            units: Units of new parameters by name.

        Returns:
            A posterior with the new parameters after the old ones. Its log-density is still that of the parameters
            sampled.

        >>> import fisherscore as fs
        >>> model = fs.problems.linear_gaussian().exact_model()
        >>> posterior = fs.sample(model, [0.5, -0.5], num_samples=200, num_warmup=200)
        >>> posterior.derive({"sum": lambda p: p["theta1"] + p["theta2"]}).names
        ('theta1', 'theta2', 'sum')
        """
        if not isinstance(functions, Mapping):
            raise ArgumentError(f"functions: expected a mapping from name to function, got {functions!r}.")
        new_units = dict(units or {})
        check_names(new_units, tuple(functions), "units")
        by_name = dict(zip(self.names, self.samples.T, strict=True))
        new = [self._derived(name, function, by_name) for name, function in functions.items()]
        chains = np.concatenate([self.chains, *(column[..., None] for column in new)], axis=-1)
        r_hat, effective_samples = convergence(chains)
        return replace(
            self,
            names=(*self.names, *functions),
            units=(*self.units, *(new_units.get(name, "") for name in functions)),
            chains=chains,
            r_hat=r_hat,
            effective_samples=effective_samples,
            support=(*self.support, *((None, None) for _ in functions)),
        )

    def _derived(
        self, name: str, function: Callable[[dict[str, np.ndarray]], Any], by_name: dict[str, np.ndarray]
    ) -> np.ndarray:
        argument = f"functions[{name!r}]"
        if not is_name(name):
            raise ArgumentError(f"{argument}: expected a name that is a text and can be printed, got {name!r}.")
        if name in self.names:
            raise ArgumentError(f"{argument}: there is a parameter of that name already. Choose another.")
        if not callable(function):
            raise ArgumentError(f"{argument}: expected a function of a dictionary of draws, got {function!r}.")
        values = as_finite(function(dict(by_name)), argument)
        if values.shape != (len(self.samples),):
            raise ArgumentError(
                f"{argument}: expected one number per draw, shape ({len(self.samples)},), got {values.shape}."
            )
        return values.reshape(self.chains.shape[:2])

    def neighbourhood(self, num_sigma: float = 4.0, *, within: Proposal | None = None) -> Proposal:
        """Give a box around the posterior as a proposal, to simulate in and to check a model there.

        Draws from it and the posteriors of their data are calibrated like any others, but all about where this
        posterior is: ``fs.diagnose(model, fs.simulate(simulator, posterior.neighbourhood(), 1_000))``.

        Args:
            num_sigma: How far the box reaches from the mean, in standard deviations.
            within: A proposal in whose region the box must lie, such as that of the training simulations, and whose
                parameters it is for; by default that of the prior's support, and all parameters.

        Returns:
            A uniform proposal.

        >>> import fisherscore as fs
        >>> model = fs.problems.linear_gaussian().exact_model()
        >>> posterior = fs.sample(model, [0.5, -0.5], num_samples=200, num_warmup=200)
        >>> posterior.neighbourhood(0.1).names
        ('theta1', 'theta2')
        """
        if isinstance(num_sigma, bool) or not isinstance(num_sigma, Real) or not 0 < num_sigma < np.inf:
            raise ArgumentError(f"num_sigma: expected a number above 0, got {num_sigma!r}.")
        ranges = {}
        for i, name in enumerate(self.names if within is None else within.names):
            lower = self.support[i][0] if within is None else float(within.low[i])
            upper = self.support[i][1] if within is None else float(within.high[i])
            low, high = (self.mean[i] + sign * num_sigma * self.sigma[i] for sign in (-1, 1))
            ranges[name] = (
                float(low if lower is None else max(low, lower)),
                float(high if upper is None else min(high, upper)),
            )
        return uniform(ranges, units=dict(zip(ranges, self.units, strict=False)))

    def plot(self, *, truth: Any = None) -> np.ndarray:
        """Draw the posterior as a GetDist triangle plot.

        Args:
            truth: Parameters to mark, shape (p,), or a mapping by name.

        Returns:
            The Matplotlib axes of the triangle, shape (p, p).
        """
        return plot.triangle(self, truth=truth)

    def save(self, path: str | Path) -> None:
        """Write the posterior to a folder of JSON and safetensors, replacing a posterior that is there.

        Args:
            path: The folder.
        """
        fields = {
            "names": self.names,
            "units": self.units,
            "shape": self.chains.shape,
            "method": self.method,
            "correction": self.correction,
            "num_divergent": self.num_divergent,
            "fraction_outside": self.fraction_outside,
            "rarity": self.rarity,
            "seconds": self.seconds,
            "problems": self.problems,
            "support": self.support,
            "notes": self.notes,
        }
        _FOLDER.write(path, fields, {"chains": self.chains, "log_density": self.log_density})

    @classmethod
    def load(cls, path: str | Path) -> "Posterior":
        """Read a posterior that :meth:`save` wrote; everything in the folder is checked.

        Args:
            path: The folder.

        Returns:
            The posterior, equal to the last bit.
        """

        def build(fields: dict[str, Any], arrays: ArrayReader) -> "Posterior":
            shape, support = fields.pop("shape"), fields["support"]
            lengths = {len(fields["names"]), len(fields["units"]), len(support), *shape[2:]}
            if len(shape) != 3 or not all(shape) or len(lengths) != 1 or any(len(ends) != 2 for ends in support):
                raise _FOLDER.damaged(path, "names, units, support and shape do not fit together")
            kept: dict[str, Any] = {**arrays({"chains": shape, "log_density": shape[:2]})}
            r_hat, effective_samples = convergence(kept["chains"])
            return cls(**fields, **kept, r_hat=r_hat, effective_samples=effective_samples)

        return _FOLDER.read(path, build)

    def to_arviz(self) -> Any:
        """Return the draws as an ArviZ data set, their log-density as ``lp`` among the sample statistics.

        Parameters keep their names, except that those called like ArviZ's axes, ``chain`` and ``draw``, get an
        underscore.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # versions before 1 announce version 1 on import
                import arviz
        except ImportError:
            raise MissingExtraError('to_arviz needs ArviZ: pip install "fisherscore[inference]"') from None
        groups = {
            "posterior": {name: self.chains[..., i] for i, name in enumerate(_besides_axes(self.names))},
            "sample_stats": {"lp": self.log_density},
        }
        # ArviZ 1 takes a mapping of groups, earlier versions one argument a group.
        first_version = int(arviz.__version__.split(".")[0])
        return arviz.from_dict(groups) if first_version >= 1 else arviz.from_dict(**groups)

    def to_getdist(self, *, label: str | None = None) -> Any:
        """Return the draws as GetDist samples, with names, units and the prior's support as hard limits.

        Args:
            label: What GetDist calls the samples in legends.

        Returns:
            An ``MCSamples``. Parameters keep their names, except that what GetDist does not allow in a name (white
            space, ``*`` and ``?``) becomes an underscore.
        """
        try:
            from getdist import MCSamples
        except ImportError:
            raise MissingExtraError('to_getdist needs GetDist: pip install "fisherscore[inference]"') from None
        names = getdist_names(self.names)
        with contextlib.redirect_stdout(io.StringIO()):  # it prints what it removed, which is nothing
            return MCSamples(
                samples=list(self.chains),
                loglikes=[-chain for chain in self.log_density],  # GetDist keeps minus the log-density
                names=names,
                labels=[mathematics(n, u) for n, u in zip(self.names, self.units, strict=True)],
                ranges={name: list(ends) for name, ends in zip(names, self.support, strict=True)},
                label=label,
                settings={"ignore_rows": 0},
            )

    def __str__(self) -> str:
        rows: list[Sequence[str]] = [("parameter", "mean", "sd", "16 %", "84 %", "R-hat", "ESS")]
        low, high = self.quantiles([0.16, 0.84])
        for i, name in enumerate(self.names):
            numbers = (self.mean[i], self.sigma[i], low[i], high[i])
            diagnostics = (f"{self.r_hat[i]:.3f}", f"{self.effective_samples[i]:.0f}")
            rows.append((name, *(f"{v:.5g}" for v in numbers), *diagnostics))
        head = f"{self.method} ({self.correction}), {len(self.samples):,} draws, {self.num_divergent} divergent"
        return "\n".join([head, *columns(rows), *self._verdict()])

    def __repr__(self) -> str:
        num_chains, num_draws, _ = self.chains.shape
        return f"Posterior({', '.join(self.names)}; {self.method}, {num_chains} chains of {num_draws:,} draws)"

    def _repr_html_(self) -> str:
        values = zip(self.names, self.mean, self.sigma, self.units, strict=True)
        rows = [(name, f"{mean:.5g} ± {sigma:.2g} {unit}".strip()) for name, mean, sigma, unit in values]
        verdict = [("problems", text) for text in self._verdict()]
        return html_table(f"Posterior, {self.method}, {len(self.samples):,} draws", [*rows, *verdict])

    def _verdict(self) -> list[str]:
        verdict = ["no problem found"] if self.trusted else [f"do not trust this: {p}" for p in self.problems]
        return [*verdict, *self.notes]


def _besides_axes(names: tuple[str, ...]) -> list[str]:
    """Return names for ArviZ, which loses what is called like one of its axes."""
    taken, found = {"chain", "draw"}, []
    for name in names:
        new = name
        while new in taken or (new != name and new in names):
            new += "_"
        found.append(new)
    return found
