"""What sampling returns: draws, how they were made, and whether to believe them."""

import contextlib
import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._support.text import columns
from ..errors import MissingExtraError

# Beyond these a posterior is flagged.
LARGEST_R_HAT = 1.05
SMALLEST_ESS = 100.0
LARGEST_OUTSIDE = 0.01
LARGEST_DIVERGENT = 0.01
SMALLEST_RARITY = 1e-3


@dataclass(frozen=True)
class Posterior:
    """Posterior draws with their diagnostics.

    ``chains`` has shape (chains, draws, p). ``method`` says which sampler ran and ``correction`` what its accept step
    rests on. ``problems`` lists, in words, every reason not to trust the result; it is empty when there is none.

    >>> import fisherscore as fs
    >>> model = fs.problems.linear_gaussian().exact_model()
    >>> posterior = fs.sample(model, [0.5, -0.5], num_samples=200, num_warmup=200)
    >>> posterior.names, posterior.problems
    (('theta1', 'theta2'), ())
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    chains: np.ndarray
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

    @property
    def samples(self) -> np.ndarray:
        """All draws, shape (n, p)."""
        return self.chains.reshape(-1, len(self.names))

    @property
    def trusted(self) -> bool:
        """Whether no problem was found."""
        return not self.problems

    def mean(self) -> dict[str, float]:
        """Posterior means by name."""
        return dict(zip(self.names, self.samples.mean(axis=0).tolist(), strict=True))

    def table(self) -> str:
        """Return means, errors, central 68 % intervals and diagnostics as a table."""
        rows: list[Sequence[str]] = [("parameter", "mean", "sd", "16 %", "84 %", "R-hat", "ESS")]
        low, high = np.quantile(self.samples, [0.16, 0.84], axis=0)
        for i, name in enumerate(self.names):
            column = self.samples[:, i]
            numbers = (column.mean(), column.std(), low[i], high[i])
            diagnostics = (f"{self.r_hat[i]:.3f}", f"{self.effective_samples[i]:.0f}")
            rows.append((name, *(f"{v:.5g}" for v in numbers), *diagnostics))
        head = f"{self.method} ({self.correction}), {len(self.samples):,} draws, {self.num_divergent} divergent"
        verdict = ["no problem found"] if self.trusted else [f"do not trust this: {p}" for p in self.problems]
        return "\n".join([head, *columns(rows), *verdict])

    def __str__(self) -> str:
        return self.table()

    def to_arviz(self) -> Any:
        """Return the draws as an ArviZ data set."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # versions before 1 announce version 1 on import
                import arviz
        except ImportError:
            raise MissingExtraError('to_arviz needs ArviZ: pip install "fisherscore[inference]"') from None
        return (
            arviz.from_dict({"posterior": self._by_name()}) if _new_arviz(arviz) else arviz.from_dict(self._by_name())
        )

    def to_getdist(self, *, label: str | None = None) -> Any:
        """Return the draws as GetDist samples, with names, units and the prior's support as hard limits."""
        try:
            from getdist import MCSamples
        except ImportError:
            raise MissingExtraError('to_getdist needs GetDist: pip install "fisherscore[inference]"') from None
        with contextlib.redirect_stdout(io.StringIO()):  # it prints what it removed, which is nothing
            return MCSamples(
                samples=list(self.chains),
                names=[f"p{i}" for i in range(len(self.names))],  # GetDist names may hold no spaces; labels may
                labels=[_latex(n, u) for n, u in zip(self.names, self.units, strict=True)],
                ranges={f"p{i}": list(ends) for i, ends in enumerate(self.support)},
                label=label,
                settings={"ignore_rows": 0},
            )

    def _by_name(self) -> dict[str, np.ndarray]:
        return {n: self.chains[..., i] for i, n in enumerate(self.names)}


def _new_arviz(arviz: Any) -> bool:
    """ArviZ 1 takes a mapping of groups, earlier ones the posterior itself."""
    return int(arviz.__version__.split(".")[0]) >= 1


def _latex(name: str, unit: str) -> str:
    """Write a plain name as text inside the mathematics GetDist puts around labels."""
    plain = "".join(f"\\{c}" if c in "_%#&$" else c for c in name + (f" [{unit}]" if unit else ""))
    return rf"\mathrm{{{plain.replace(' ', chr(92) + ' ')}}}"
