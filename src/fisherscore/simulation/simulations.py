"""Simulations as everything downstream reads them: parameters, data, status and, where there is one, the latent.

The rows lie in memory or in the folder of a campaign (:mod:`fisherscore.simulation.stores`); whoever uses them need
not know which.
"""

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .._support.arguments import as_count, as_finite, as_seed, in_order
from .._support.precision import double_precision, single_precision
from .._support.text import html_table
from ..errors import ArgumentError
from .drawing import draws_in_double
from .execution.run import OK
from .failures import success_weights
from .latent import AdditiveLatent, Latent
from .proposal import Proposal
from .records import Records, kept_kind
from .stores import MemoryStore, Store


@dataclass(frozen=True)
class Origin:
    """Where simulations come from.

    Attributes:
        simulator: Name of the simulator; "table" for simulations that existed before.
        seed: Seed they were drawn with; None for a table, whose design in θ is unknown.
        num_simulations: How many were made, failures included.
        failure_rate: Fraction of them that failed and were left out by :meth:`Simulations.ok`.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> fs.simulate(problem.simulator, problem.proposal, 10, seed=3).origin
    Origin(simulator='linear-gaussian', seed=3, num_simulations=10, failure_rate=0.0)
    """

    simulator: str
    seed: int | None
    num_simulations: int
    failure_rate: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return plain data.

        Returns:
            The attributes by name.
        """
        return asdict(self)


@dataclass(frozen=True, eq=False, repr=False)
class Simulations:
    """Immutable simulations; made by :func:`simulate`, :func:`open_campaign`, :func:`from_table` and the like.

    x was drawn at θ or, where there is a latent z, at z. Rows of a campaign are read, and checked, at first use.

    Attributes:
        store: Where the rows are kept.
        proposal: Names, training region and distribution of the parameters.
        latent_model: How z was drawn given θ; None where there is no latent.
        origin: Simulator, seed and number.
        weights: Weights (n,) that make up for failures, or None; see :meth:`ok`.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> sims = fs.simulate(problem.simulator, problem.proposal, 10)
    >>> len(sims), sims.theta.shape, sims.x.shape, sims.latent, sims.failure_rate
    (10, (10, 2), (10, 2), None, 0.0)
    """

    store: Store
    proposal: Proposal
    latent_model: Latent | None
    origin: Origin
    weights: np.ndarray | None = None

    @property
    def theta(self) -> np.ndarray:
        """Parameters, shape (n, p)."""
        return self.store.records.theta

    @property
    def x(self) -> np.ndarray:
        """Data, shape (n, ...); NaN where a simulation failed."""
        return self.store.records.x

    @property
    def status(self) -> np.ndarray:
        """What became of each simulation: "ok" or a kind of failure."""
        return self.store.records.status

    @property
    def latent(self) -> np.ndarray | None:
        """Latents, shape (n, q); None where none was drawn."""
        return None if self.latent_model is None else self.store.records.latent

    @property
    def messages(self) -> dict[int, str]:
        """What the simulator said about each failure, by the number of the record."""
        return self.store.records.messages

    @property
    def folder(self) -> Path | None:
        """Folder of the campaign; None for simulations in memory."""
        return self.store.folder

    @property
    def num_bytes(self) -> int:
        """Memory that all rows take, or would take once read."""
        return self.store.num_bytes

    @property
    def x_shape(self) -> tuple[int, ...]:
        """Shape of one observation."""
        return self.store.x_shape

    @property
    def failure_rate(self) -> float:
        """Fraction of simulations that failed."""
        return (len(self) - len(self.store.successes())) / max(len(self), 1)

    @property
    def drawn_at(self) -> np.ndarray:
        """Parameters of which x is an exact draw: z where z is θ plus additive noise, else θ."""
        if isinstance(self.latent_model, AdditiveLatent):
            assert self.latent is not None
            return self.latent
        return self.theta

    def __len__(self) -> int:
        return len(self.store)

    def __repr__(self) -> str:
        folder = "" if self.folder is None else f"; in {self.folder}"
        return f"Simulations({len(self):,} of {', '.join(self.proposal.names)}; data of shape {self.x_shape}{folder})"

    def _repr_html_(self) -> str:
        rows = [
            ("simulator", self.origin.simulator),
            ("seed", "unknown" if self.origin.seed is None else str(self.origin.seed)),
            ("parameters", ", ".join(self.proposal.names)),
            ("shape of x", str(self.x_shape)),
            ("latent", "none" if self.latent_model is None else type(self.latent_model).__name__),
            ("failed", f"{self.failure_rate:.2%}"),
        ]
        return html_table(f"{len(self):,} simulations", rows + [("folder", str(self.folder))] * bool(self.folder))

    def failures(self) -> tuple[dict[str, int], str]:
        """Count failures by kind, and give the message of the first.

        Returns:
            Numbers by kind, and a message, empty where nothing failed.
        """
        return self.store.failures()

    def ok(self) -> "Simulations":
        """Return the simulations that succeeded, in memory; where some failed, with weights that make up for it.

        The weights (:mod:`fisherscore.simulation.failures`) are right where failures depend only on what the simulator
        is run at: on the latent where there is one, else on θ.

        Returns:
            Simulations without failures.
        """
        successes = self.store.successes()
        if len(successes) == len(self) and self.folder is None:
            return self
        origin = replace(self.origin, failure_rate=max(self.failure_rate, self.origin.failure_rate))
        return replace(self.take(successes), weights=self._success_weights(), origin=origin)

    def take(self, rows: np.ndarray | slice) -> "Simulations":
        """Return some of the simulations, in memory.

        Args:
            rows: Positions, a boolean mask or a slice.

        Returns:
            Simulations of these rows.
        """
        try:
            positions = np.arange(len(self))[rows]
        except (IndexError, TypeError):
            positions = np.zeros((), dtype=int)
        if positions.ndim != 1:
            raise ArgumentError(
                f"rows: expected positions below {len(self)}, a mask of {len(self)} values or a slice, got {rows!r}."
            )
        weights = None if self.weights is None else self.weights[positions]
        return self._with_records(self.store.records.take(positions), weights)

    def batches(self, size: int, *, seed: int = 0) -> Iterator["Simulations"]:
        """Read all simulations once, in random order, a part at a time.

        Args:
            size: Simulations in memory at a time.
            seed: Seed of the order.

        Returns:
            An iterator over simulations in memory; the last part may be smaller.

        >>> import fisherscore as fs, tempfile
        >>> problem, folder = fs.problems.linear_gaussian(), tempfile.mkdtemp()
        >>> sims = fs.simulate(problem.simulator, problem.proposal, 30, out=folder)
        >>> [len(part) for part in sims.batches(20)]
        [20, 10]
        """
        for part, positions in self._shuffled(np.arange(len(self)), as_count(size, "size"), [as_seed(seed)]):
            yield part if self.weights is None else replace(part, weights=self.weights[positions])

    def windows(self, size: int, *, seed: int = 0) -> Iterator["Simulations"]:
        """Read successes in random order for ever, a part at a time: training data larger than memory.

        The first part does not come again, so that what is held out of it stays unseen.

        Args:
            size: Simulations in memory at a time, at most half of them.
            seed: Seed of the order.

        Returns:
            An endless iterator over simulations in memory, with weights where some failed.
        """
        successes, weights = self.store.successes(), self._success_weights()
        if len(successes) < 2:
            raise ArgumentError(f"sims: expected at least two simulations that succeeded, got {len(successes)}.")
        by_row = None
        if weights is not None:
            by_row = np.zeros(len(self))
            by_row[successes] = weights
        order = np.random.default_rng([as_seed(seed)]).permutation(successes)
        size = min(as_count(size, "size"), len(order) // 2)
        for sweep in itertools.count():
            rows = order[:size] if sweep == 0 else order[size:]
            for part, positions in self._shuffled(rows, size, [as_seed(seed), sweep], full=True):
                yield part if by_row is None else replace(part, weights=by_row[positions])

    def latent_score(self) -> np.ndarray:
        """Compute the regression target ∇θ log p(z | θ) of every simulation.

        Returns:
            Latent scores, shape (n, p).
        """
        if self.latent_model is None:
            raise ArgumentError(
                "sims: no latent was drawn with these simulations, so there are no latent scores. Use "
                'recipe="auto", which needs none, or simulate with latent="additive" or a latent of your own.'
            )
        latent = self.latent
        assert latent is not None
        double = draws_in_double(self.latent_model, self.theta.shape[1])
        with double_precision() if double else single_precision():
            kind = np.float64 if double else np.float32
            score = jax.jit(jax.vmap(self.latent_model.score))(self.theta.astype(kind), latent.astype(kind))
            return np.asarray(score, dtype=np.float64)

    def fingerprint(self) -> str:
        """Compute a hash of the data, so that a fit can say what it was trained on.

        Returns:
            A SHA-256 digest in hexadecimal.
        """
        digest = hashlib.sha256()
        for array in (self.theta, self.latent, self.x):
            if array is not None:
                digest.update(str(array.shape).encode())
                digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def _with_records(self, records: Records, weights: np.ndarray | None) -> "Simulations":
        return replace(self, store=MemoryStore(records), weights=weights)

    def _success_weights(self) -> np.ndarray | None:
        """Weigh all successes, in order, where some failed, by what the simulator was run at."""
        successes = self.store.successes()
        if len(successes) in (0, len(self)):
            return None if self.weights is None else self.weights[successes]
        success = np.zeros(len(self), dtype=bool)
        success[successes] = True
        return success_weights(self.store.simulator_inputs(), success)

    def _shuffled(
        self, rows: np.ndarray, size: int, seed: list[int], *, full: bool = False
    ) -> Iterator[tuple["Simulations", np.ndarray]]:
        """Read rows once, in random order, ``size`` at a time; give each part with the positions of its rows.

        With ``full``, a last part that is smaller is left out.
        """
        rng = np.random.default_rng(seed)
        order = rng.permutation(rows)
        for begin in range(0, len(order) - (size - 1 if full else 0), size):
            # Read in the order of the file, which is far quicker, and shuffled again.
            chosen = np.sort(order[begin : begin + size])
            mixed = rng.permutation(len(chosen))
            yield self._with_records(self.store.read(chosen).take(mixed), None), chosen[mixed]


def from_table(theta: Any, x: Any, proposal: Proposal) -> Simulations:
    """Use simulations that already exist.

    Their parameters may lie in the region as they like: on a grid, a Latin hypercube, in clusters, with gaps where runs
    failed. Rows outside the region are kept, and help at its edge.

    Args:
        theta: Parameters, shape (n, p), in the order of the proposal's names; or a table with columns of these names.
        x: The data simulated at each of them, shape (n, ...).
        proposal: Names and training region; its density is not used.

    Returns:
        Simulations without a latent, all of which succeeded.

    >>> import fisherscore as fs, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> theta = rng.uniform(0, 1, (300, 1))
    >>> sims = fs.from_table(theta, theta + rng.normal(size=(300, 5)), fs.uniform(shift=(0.0, 1.0)))
    >>> fs.fit(sims, recipe=fs.ClosedFormRecipe()).score([0.5], sims.x).shape
    (300, 1)
    """
    if not isinstance(proposal, Proposal):
        raise ArgumentError(f"proposal: expected a proposal, got {proposal!r}. Make one with fisherscore.uniform.")
    given = getattr(x, "dtype", np.float64)
    theta, x = as_finite(in_order(theta, proposal.names, "theta"), "theta"), as_finite(x, "x")
    if theta.ndim != 2 or theta.shape[1] != proposal.num_parameters or not len(theta):
        raise ArgumentError(
            f"theta: expected shape (n, {proposal.num_parameters}), one column a parameter of the proposal "
            f"({', '.join(proposal.names)}); got shape {theta.shape}."
        )
    if x.ndim < 2 or len(x) != len(theta):
        raise ArgumentError(
            f"x: expected shape ({len(theta)}, ...), one row of data a row of theta, got shape {x.shape}. For one "
            "number a row add an axis: x[:, None]."
        )
    if not proposal.inside(theta).any():
        raise ArgumentError("theta: no row lies in the proposal's region. Check the order and units of the columns.")
    records = Records(
        indices=np.arange(len(theta)),
        status=np.full(len(theta), OK),
        theta=theta.copy(),
        latent=None,
        x=x.astype(kept_kind(given, x[0].size)),
    )
    origin = Origin(simulator="table", seed=None, num_simulations=len(theta))
    return Simulations(store=MemoryStore(records), proposal=proposal, latent_model=None, origin=origin)
