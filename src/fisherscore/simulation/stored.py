"""Simulations that live in a campaign's folder: opened at once, read when they are asked for.

What a campaign knows of itself is plain data. Proposals of the common distributions and Gaussian latents are made anew
from it; others must be given again when the folder is opened.
"""

import functools
import itertools
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpyro.distributions as dist

from .._support.arguments import as_count, as_seed
from .._support.text import duration
from ..errors import ArgumentError, CampaignError
from .execution.ledger import Ledger, Table, is_running
from .execution.run import OK, STATUSES
from .failures import success_weights
from .latent import GaussianLatent, Latent
from .proposal import Proposal
from .simulations import Simulations

# The closed list of distributions a campaign's folder may name.
_KNOWN = ("Uniform", "Normal", "LogNormal", "Gamma", "Beta", "Exponential", "HalfNormal", "Cauchy", "LogUniform")


class StoredSimulations(Simulations):
    """The simulations of a campaign; arrays are read, and checked, at first use.

    >>> import fisherscore as fs, tempfile
    >>> problem, folder = fs.problems.linear_gaussian(), tempfile.mkdtemp()
    >>> sims = fs.simulate(problem.simulator, problem.proposal, 30, out=folder)
    >>> [len(part) for part in sims.batches(20)]
    [20, 10]
    """

    folder: Path
    facts: dict[str, Any]
    indices: np.ndarray

    def __init__(
        self,
        folder: Path,
        *,
        proposal: Proposal | None = None,
        latent_model: Latent | None = None,
        first: int | None = None,
    ):
        with Ledger.open(folder) as ledger:
            facts = ledger.facts()
            there = ledger.indices()
        self._set(folder=folder, facts=facts, indices=there if first is None else there[there < first])
        plan = facts["plan"]
        self._set(
            proposal=proposal or rebuilt_proposal(plan["proposal"]),
            latent_model=latent_model or rebuilt_latent(plan["latent"]),
            weights=None,
            provenance={
                "simulator": plan["simulator"]["name"],
                "seed": plan["seed"],
                "num_simulations": len(self),
                "additive_noise": plan["additive_noise"],
                "table": bool(plan.get("table")),
            },
        )

    def _set(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        return f"<{len(self):,} simulations of {', '.join(self.proposal.names)} in {self.folder}>"

    @functools.cached_property
    def _table(self) -> Table:
        with Ledger.open(self.folder) as ledger:
            whole = len(self.indices) == sum(ledger.counts().values())
            table = ledger.read(None if whole else self.indices)
        for array in (table.theta, table.latent, table.x, table.status):
            array.setflags(write=False)
        return table

    theta = property(lambda self: self._table.theta)
    latent = property(lambda self: self._table.latent)
    x = property(lambda self: self._table.x)
    status = property(lambda self: self._table.status)
    messages = property(lambda self: self._table.messages)

    @property
    def x_shape(self) -> tuple[int, ...]:
        """Shape of one observation."""
        return tuple(self.facts["x_shape"] or (0,))

    @property
    def num_bytes(self) -> int:
        """How much memory all data would take."""
        values = math.prod(self.x_shape) + self.facts["num_parameters"] + self.facts["num_latents"]
        return 8 * len(self) * values

    @functools.cached_property
    def _successes(self) -> np.ndarray:
        with Ledger.open(self.folder) as ledger:
            return np.intersect1d(ledger.indices(OK), self.indices, assume_unique=True)

    @property
    def failure_rate(self) -> float:
        """Fraction of records that failed."""
        return 1.0 - len(self._successes) / len(self)

    def failures(self) -> tuple[dict[str, int], str]:
        """Count failures of the whole campaign by kind, and give the words of the first."""
        with Ledger.open(self.folder) as ledger:
            return {k: n for k, n in ledger.counts().items() if k != OK}, ledger.first_message()

    def ok(self) -> Simulations:
        """Return the records that succeeded, in memory."""
        return self.take(slice(None)).ok()

    def take(self, rows: np.ndarray | slice) -> Simulations:
        """Return the named rows, in memory."""
        return self._rows(self._table, rows)

    def _rows(self, table: Table, rows: np.ndarray | slice) -> Simulations:
        return Simulations(
            theta=table.theta[rows],
            latent=table.latent[rows],
            x=table.x[rows],
            status=table.status[rows],
            proposal=self.proposal,
            latent_model=self.latent_model,
            provenance=dict(self.provenance),
        )

    def windows(self, size: int, *, seed: int = 0) -> Iterator[Simulations]:
        """Read successes in random order for ever, ``size`` at a time: training data larger than memory.

        The first part does not come again, so that what is held out of it stays unseen.
        """
        order = np.random.default_rng([as_seed(seed)]).permutation(self._successes)
        size = min(as_count(size, "size"), len(order) // 2)
        yield from self._shuffled(order[:size], size, [as_seed(seed), 0], whole=True)
        for sweep in itertools.count(1):
            yield from self._shuffled(order[size:], size, [as_seed(seed), sweep], whole=True)

    @functools.cached_property
    def _weights(self) -> np.ndarray | None:
        """Weights of all successes, in order, where some failed: found from the latents alone."""
        if len(self._successes) == len(self):
            return None
        with Ledger.open(self.folder) as ledger:
            latents = ledger.latents(self.facts["num_latents"])[np.isin(ledger.indices(), self.indices)]
        return success_weights(latents, np.isin(self.indices, self._successes))

    def batches(self, size: int, *, seed: int = 0) -> Iterator[Simulations]:
        """Read all records once, in random order, ``size`` of them in memory at a time."""
        yield from self._shuffled(self.indices, as_count(size, "size"), [as_seed(seed)], whole=False)

    def _shuffled(self, indices: np.ndarray, size: int, seed: list[int], *, whole: bool) -> Iterator[Simulations]:
        """Read records once, in random order; with ``whole`` leave out a last part that is not full."""
        rng = np.random.default_rng(seed)
        order = rng.permutation(indices)
        for begin in range(0, len(order) - (size - 1 if whole else 0), size):
            with Ledger.open(self.folder) as ledger:
                # Read in the order of the file, which is far quicker, and shuffled again.
                table = ledger.read(np.sort(order[begin : begin + size]))
            mixed = rng.permutation(len(table.indices))
            part = self._rows(table, mixed)
            if whole and self._weights is not None:
                part = replace(part, weights=self._weights[np.searchsorted(self._successes, table.indices[mixed])])
            yield part


def open_campaign(
    path: str | Path, *, proposal: Proposal | None = None, latent: Latent | None = None
) -> StoredSimulations:
    """Open the simulations of a campaign, finished or not; none is read before it is used.

    ``proposal`` and ``latent`` are needed only where the folder cannot hold them: distributions that are not common,
    and latent models the user wrote.

    >>> import fisherscore as fs, tempfile
    >>> problem, folder = fs.problems.linear_gaussian(), tempfile.mkdtemp()
    >>> _ = fs.simulate(problem.simulator, problem.proposal, 30, out=folder)
    >>> fs.open_campaign(folder).x.shape
    (30, 2)
    """
    opened = StoredSimulations(Path(path), proposal=proposal, latent_model=latent)
    if not len(opened):
        raise CampaignError(f"path: the campaign in {path} has no records yet.")
    if proposal is not None and described_proposal(proposal)["names"] != opened.facts["plan"]["proposal"]["names"]:
        raise ArgumentError(f"proposal: expected the parameters {opened.facts['plan']['proposal']['names']}.")
    return opened


@dataclass(frozen=True)
class CampaignStatus:
    """How far a campaign is.

    >>> import fisherscore as fs, tempfile
    >>> problem, folder = fs.problems.linear_gaussian(), tempfile.mkdtemp()
    >>> _ = fs.simulate(problem.simulator, problem.proposal, 30, out=folder)
    >>> fs.campaign_status(folder).num_done
    30
    """

    folder: str
    num_planned: int
    counts: dict[str, int]
    running: bool
    records_a_second: float | None
    seconds_left: float | None
    first_failure: str

    @property
    def num_done(self) -> int:
        """How many records have been run, failures included."""
        return sum(self.counts.values())

    @property
    def num_failed(self) -> int:
        """How many records failed."""
        return self.num_done - self.counts.get(OK, 0)

    def __str__(self) -> str:
        state = "running" if self.running else ("finished" if self.num_done >= self.num_planned else "stopped")
        lines = [f"{self.folder}: {state}, {self.num_done:,} of {self.num_planned:,} simulations done"]
        if self.num_failed:
            kinds = ", ".join(f"{n:,} {kind}" for kind, n in self.counts.items() if kind != OK)
            lines.append(f"  failed: {self.num_failed:,} ({self.num_failed / self.num_done:.2%}): {kinds}")
            lines.append(f"  the first said: {self.first_failure[:200]}")
        if self.records_a_second:
            lines.append(f"  {self.records_a_second:,.3g} a second in the latest sitting")
        if self.seconds_left is not None:
            lines.append(f"  about {duration(self.seconds_left)} left at that rate")
        return "\n".join(lines)


def campaign_status(path: str | Path) -> CampaignStatus:
    """Say how far a campaign is, while it runs or afterwards.

    >>> import fisherscore as fs, tempfile
    >>> problem, folder = fs.problems.linear_gaussian(), tempfile.mkdtemp()
    >>> _ = fs.simulate(problem.simulator, problem.proposal, 30, out=folder)
    >>> fs.campaign_status(folder).counts
    {'ok': 30}
    """
    folder = Path(path)
    with Ledger.open(folder) as ledger:
        counts = {s: n for s in STATUSES if (n := ledger.counts().get(s))}
        facts, sittings, words = ledger.facts(), ledger.sittings(), ledger.first_message()
    planned = facts.get("num_planned") or facts["num_simulations"]
    running = is_running(folder)
    rate = None
    if sittings:
        started, latest, num = sittings[-1]
        rate = num / max(time.time() - started if running else latest - started, 1e-3)
    left = planned - sum(counts.values())
    return CampaignStatus(
        str(folder), planned, counts, running, rate, left / rate if rate and left > 0 else None, words
    )


def described_proposal(proposal: Proposal) -> dict[str, Any]:
    """Describe a proposal in plain data."""
    return {
        "names": list(proposal.names),
        "units": list(proposal.units),
        "low": proposal.low.tolist(),
        "high": proposal.high.tolist(),
        "distributions": [
            {"name": type(law).__name__, **{k: float(getattr(law, k)) for k in sorted(law.arg_constraints)}}
            if _is_plain(law)
            else {"name": type(law).__name__}
            for law in proposal.distributions
        ],
    }


def _is_plain(law: dist.Distribution) -> bool:
    return type(law) is getattr(dist, type(law).__name__, None) and type(law).__name__ in _KNOWN


def rebuilt_proposal(description: dict[str, Any]) -> Proposal:
    """Make a proposal anew from its description."""
    laws = {}
    for name, law in zip(description["names"], description["distributions"], strict=True):
        values = {k: v for k, v in law.items() if k != "name"}
        if law["name"] not in _KNOWN or not values:
            raise ArgumentError(
                f"proposal: the campaign's distribution of {name!r} ({law['name']}) cannot be made anew. Pass the "
                "proposal it was simulated with: open_campaign(path, proposal=...)."
            )
        laws[name] = getattr(dist, law["name"])(**values)
    return Proposal.of(laws, units=dict(zip(description["names"], description["units"], strict=True)))


def described_latent(latent: Latent) -> dict[str, Any]:
    """Describe a latent model in plain data."""
    if type(latent) is GaussianLatent:
        return {"name": "GaussianLatent", "covariance": latent.covariance.tolist()}
    return {"name": type(latent).__name__}


def rebuilt_latent(description: dict[str, Any]) -> Latent:
    """Make a latent model anew, or one that says what is missing when it is used."""
    if description["name"] == "GaussianLatent":
        return GaussianLatent(np.array(description["covariance"]))
    return _Missing()


class _Missing(Latent):
    """Stands for a latent model of the user's own, which no folder can hold."""

    def sample(self, key: Any, theta: Any) -> Any:
        """Refuse."""
        raise ArgumentError("latent: pass the latent model of this campaign: open_campaign(path, latent=...).")

    def score(self, theta: Any, latent: Any) -> Any:
        """Refuse."""
        return self.sample(None, theta)
