"""The table of simulations that everything downstream reads: θ, z, x and status, one row a record."""

import hashlib
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._support.arguments import as_finite
from ..errors import ArgumentError
from .execution.run import OK
from .failures import success_weights
from .latent import Latent, additive_latent
from .proposal import Proposal


@dataclass(frozen=True)
class Simulations:
    """Immutable rows (theta, latent, x, status); x was drawn at latent. Made by :func:`fisherscore.simulate`.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> sims = fs.simulate(problem.simulator, problem.proposal, 10)
    >>> len(sims), sims.theta.shape, sims.x.shape, sims.failure_rate
    (10, (10, 2), (10, 2), 0.0)
    """

    theta: np.ndarray
    latent: np.ndarray
    x: np.ndarray
    status: np.ndarray
    proposal: Proposal
    latent_model: Latent
    provenance: dict[str, object] = field(default_factory=dict)
    messages: dict[int, str] = field(default_factory=dict)
    weights: np.ndarray | None = None

    def __post_init__(self) -> None:
        lengths = {len(a) for a in (self.theta, self.latent, self.x, self.status)}
        if len(lengths) != 1:
            raise ArgumentError(f"theta, latent, x, status: expected the same number of rows, got {sorted(lengths)}.")
        for array in (self.theta, self.latent, self.x, self.status):
            array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.theta)

    @property
    def x_shape(self) -> tuple[int, ...]:
        """Shape of one observation."""
        return self.x.shape[1:]

    @property
    def failure_rate(self) -> float:
        """Fraction of records that failed."""
        return float(np.mean(self.status != OK))

    def failures(self) -> tuple[dict[str, int], str]:
        """Count failures by kind, and give the words of the first."""
        kinds, counts = np.unique(self.status[self.status != OK], return_counts=True)
        return dict(zip(map(str, kinds), map(int, counts), strict=True)), next(iter(self.messages.values()), "")

    def ok(self) -> "Simulations":
        """Return the records that succeeded; where some failed, with weights that make up for it.

        The weights (:mod:`fisherscore.simulation.failures`) hold where failures depend on the latent alone.
        """
        keep = self.status == OK
        if keep.all() or not keep.any():
            return self if keep.all() else self.take(np.flatnonzero(keep))
        return replace(self.take(np.flatnonzero(keep)), weights=success_weights(self.latent, keep))

    def take(self, rows: np.ndarray) -> "Simulations":
        """Return the named rows."""
        arrays = {name: getattr(self, name)[rows] for name in ("theta", "latent", "x", "status")}
        kept = None if self.weights is None else self.weights[rows]
        return replace(self, **arrays, messages={}, weights=kept)

    @property
    def additive(self) -> bool:
        """Whether z is a parameter vector, θ plus noise that ``simulate`` added, so that x is drawn at z."""
        return bool(self.provenance.get("additive_noise"))

    @property
    def has_latent(self) -> bool:
        """Whether a latent was drawn; simulations from a table have none."""
        return not self.provenance.get("table")

    @property
    def drawn_at(self) -> np.ndarray:
        """Parameters of which x is an exact draw: z where noise was added to θ, else θ."""
        return self.latent if self.additive else self.theta

    def latent_score(self) -> np.ndarray:
        """Compute the regression target ∇θ log p(z | θ) of every record, shape (n, p)."""
        if not self.has_latent:
            raise ArgumentError(
                "sims: these simulations come from a table, so no latent was drawn and there are no latent scores. Use "
                'recipe="auto", which needs none, or simulate anew.'
            )
        score = jax.jit(jax.vmap(self.latent_model.score))(
            jnp.asarray(self.theta, jnp.float32), jnp.asarray(self.latent, jnp.float32)
        )
        return np.asarray(score, dtype=np.float64)

    def fingerprint(self) -> str:
        """Return a hash of the data, so that a fit can say what it was trained on."""
        digest = hashlib.sha256()
        for array in (self.theta, self.latent, self.x):
            digest.update(str(array.shape).encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


def from_table(theta: Any, x: Any, proposal: Proposal) -> Simulations:
    """Use simulations that already exist: parameters (n, p), in the order of the proposal's names, and their data.

    They may lie in the region as they like: on a grid, a Latin hypercube, in clusters, with gaps where runs failed. The
    proposal gives names and training region; its density is not used. Rows outside the region are kept, and help at
    its edge.

    >>> import fisherscore as fs, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> theta = rng.uniform(0, 1, (300, 1))
    >>> sims = fs.from_table(theta, theta + rng.normal(size=(300, 5)), fs.uniform(shift=(0.0, 1.0)))
    >>> fs.fit(sims, recipe=fs.ClosedFormRecipe()).score([0.5], sims.x).shape
    (300, 1)
    """
    if not isinstance(proposal, Proposal):
        raise ArgumentError(f"proposal: expected a proposal, got {proposal!r}. Make one with fisherscore.uniform.")
    theta, x = as_finite(theta, "theta"), as_finite(x, "x")
    if theta.ndim != 2 or theta.shape[1] != proposal.num_parameters or not len(theta):
        raise ArgumentError(
            f"theta: expected shape (n, {proposal.num_parameters}), one column a parameter of the proposal "
            f"({', '.join(proposal.names)}); got shape {theta.shape}."
        )
    if x.ndim < 2 or len(x) != len(theta):
        raise ArgumentError(f"x: expected as many rows as theta, ({len(theta)}, ...), got shape {x.shape}.")
    if not proposal.inside(theta).any():
        raise ArgumentError("theta: no row lies in the proposal's region. Check the order and units of the columns.")
    return Simulations(
        theta=theta.copy(),
        latent=theta.copy(),
        x=x.copy(),
        status=np.full(len(theta), OK),
        proposal=proposal,
        latent_model=additive_latent(proposal),
        provenance={"simulator": "table", "num_simulations": len(theta), "table": True},
    )
