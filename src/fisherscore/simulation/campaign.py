"""Run a simulator over a proposal: draw θ, draw z given θ, run the simulator at z, and keep what came of it.

In memory, or as a campaign in a folder (``execution.ledger``) that survives kills, goes on where it stopped, and can
be extended. Record i is a function of (configuration, i): the data depend neither on the engine that ran them
(:mod:`fisherscore.simulation.execution.engine`), nor on the order, nor on how often the run was interrupted.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._support.arguments import as_count, as_seed
from .._support.progress import progress_bar
from ..errors import ArgumentError, CampaignError, SimulationError
from .execution.dispatch import engine_for
from .execution.engine import Engine, Job, Result
from .execution.ledger import Ledger, Row, Table
from .execution.run import BAD_OUTPUT, LOST, OK, failure, refuse_changed_shape, training_stream
from .latent import Latent, additive_latent
from .proposal import Proposal
from .simulations import Simulations
from .simulator import RecordSimulator, Simulator
from .stored import StoredSimulations, described_latent, described_proposal

# The first records are run before all others: they fix the shape of x, and when all fail there is nothing to wait for.
_FIRST_LOOK = 10
# So often what has come in is written down.
_SECONDS_A_BATCH = 0.5
_RECORDS_A_BATCH = 5_000


def simulate(
    simulator: Simulator,
    proposal: Proposal,
    num_simulations: int,
    *,
    latent: Latent | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    workers: int | None = None,
    dask: Any = None,
    shard: str | None = None,
    progress: bool | None = None,
) -> Simulations:
    """Draw ``num_simulations`` triplets (θ, z, x), the training data of a fit.

    With ``latent`` the model is decomposable and the simulator is x given z. Without it, additive Gaussian noise of
    1/200 of each parameter's range is put between θ and the simulator, as in the paper. The first records do not
    depend on how many follow.

    With ``out`` the simulations are kept in that folder as they come; the same call goes on where it was stopped, and
    one with a larger number adds to what is there. ``workers`` processes on this machine, or a ``dask`` client or
    address, run a Python function or a program; JAX functions run in batches on the device. ``shard="2/5"`` runs the
    second fifth of the records, for job arrays; :func:`merge_campaigns` joins the folders.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> sims = fs.simulate(problem.simulator_from_latent, problem.proposal, 100, latent=problem.latent)
    >>> sims.latent.shape
    (100, 2)
    """
    _check(simulator, proposal)
    num = as_count(num_simulations, "num_simulations")
    plan = _Plan(
        simulator=simulator.with_names(proposal.names) if latent is None else simulator,
        proposal=proposal,
        latent=additive_latent(proposal) if latent is None else _checked_latent(latent, proposal),
        additive=latent is None,
        seed=as_seed(seed),
    )
    engine = engine_for(simulator, workers, dask)
    wanted = _shard(shard, num, out)
    if out is None:
        memory = _Memory()
        _run(plan, wanted, engine, memory, progress)
        return plan.simulations(memory.table(), num)
    with Ledger.create(Path(out), plan.facts(num)) as ledger:
        _refuse_other_plan(ledger.facts(), plan.facts(num), Path(out))
        if num > ledger.facts()["num_simulations"]:
            ledger.set_facts(num_simulations=num)
        ledger.set_facts(num_planned=max(len(wanted), ledger.facts().get("num_planned", 0)))
        _run(plan, wanted, engine, ledger, progress)
    return StoredSimulations(Path(out), proposal=proposal, latent_model=plan.latent, first=num)


@dataclass(frozen=True)
class _Plan:
    """What a campaign simulates: everything its records depend on."""

    simulator: Simulator
    proposal: Proposal
    latent: Latent
    additive: bool
    seed: int

    def facts(self, num: int) -> dict[str, Any]:
        """Describe the plan in plain data, by which a campaign knows itself."""
        theta, z = self.parameters(np.arange(1))
        return {
            "plan": {
                # Tells apart latents and proposals that cannot be described; in few digits, for other machines' sake.
                "first_parameters": [f"{v:.4g}" for v in (*theta[0], *z[0])],
                "simulator": self.simulator.identity | ({"code": self.simulator.code} if self.simulator.code else {}),
                "proposal": described_proposal(self.proposal),
                "latent": described_latent(self.latent),
                "additive_noise": self.additive,
                "seed": self.seed,
            },
            "num_parameters": self.proposal.num_parameters,
            "num_latents": z.shape[1],
            "x_shape": None,
            "num_simulations": num,
        }

    def parameters(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Draw θ and z of the named records, each from its own key."""

        def one(index: Any) -> tuple[Any, Any]:
            theta_key, latent_key = jax.random.split(jax.random.fold_in(jax.random.key(self.seed), index))
            theta = self.proposal.draw_one(theta_key)
            return theta, self.latent.sample(latent_key, theta)

        # One by one: in a batch, rounding depends on how many others there are.
        theta, z = jax.jit(lambda numbers: jax.lax.map(one, numbers))(jnp.asarray(indices, dtype=jnp.uint32))
        return np.asarray(theta, dtype=np.float64), np.asarray(z, dtype=np.float64)

    def simulations(self, table: Table, num: int) -> Simulations:
        """Make the table everything downstream reads."""
        return Simulations(
            theta=table.theta,
            latent=table.latent,
            x=table.x,
            status=table.status,
            proposal=self.proposal,
            latent_model=self.latent,
            provenance={
                "simulator": self.simulator.name,
                "seed": self.seed,
                "num_simulations": num,
                "additive_noise": self.additive,
            },
            messages=table.messages,
        )


@dataclass
class _Memory:
    """Keeps records in memory, by the same calls as a ledger."""

    rows: list[Row] = field(default_factory=list)
    x_shape: Any = None

    def indices(self, status: str | None = None) -> np.ndarray:
        """List the records that are there, or those with a certain status."""
        return np.array([row.index for row in self.rows if status in (None, row.status)], dtype=np.int64)

    def facts(self) -> dict[str, Any]:
        """Return the shape of x, once known."""
        return {"x_shape": self.x_shape}

    def set_facts(self, **changes: Any) -> None:
        """Remember the shape of x."""
        self.x_shape = changes["x_shape"]

    def append(self, rows: Sequence[Row]) -> None:
        """Keep records."""
        self.rows.extend(rows)

    def counts(self) -> dict[str, int]:
        """Count records by what became of them."""
        names, counts = np.unique([row.status for row in self.rows], return_counts=True)
        return dict(zip(map(str, names), map(int, counts), strict=True))

    def first_message(self) -> str:
        """Return the words of the first record that failed."""
        return next((row.message for row in self.rows if row.status != OK), "")

    def table(self) -> Table:
        """Put the records in order, as arrays."""
        rows = sorted(self.rows, key=lambda row: row.index)
        blank = np.full(tuple(self.x_shape or (0,)), np.nan)
        return Table(
            indices=np.array([row.index for row in rows]),
            status=np.array([row.status for row in rows]),
            theta=np.stack([row.theta for row in rows]),
            latent=np.stack([row.latent for row in rows]),
            x=np.stack([blank if row.x is None else row.x for row in rows]),
            messages={row.index: row.message for row in rows if row.status != OK},
        )


def _run(plan: _Plan, wanted: np.ndarray, engine: Engine, store: Ledger | _Memory, progress: bool | None) -> None:
    """Run the records that are not there yet; the first few before the others."""
    # What was lost (its worker was killed, not the simulator at fault) is run again, with the same random numbers.
    todo = np.setdiff1d(wanted, np.setdiff1d(store.indices(), store.indices(LOST)))
    one_by_one = isinstance(plan.simulator, RecordSimulator)
    look = _FIRST_LOOK if one_by_one else plan.simulator.block_size
    first = int(np.searchsorted(todo, wanted[:look][-1], side="right"))
    with progress_bar("simulate", len(wanted), progress) as advance:
        advance(len(wanted) - len(todo))
        for part in (todo[:first], todo[first:]):
            if len(part):
                _run_part(plan, part, engine, store, advance)
            _stop_if_all_fail(plan, store)


def _run_part(plan: _Plan, part: np.ndarray, engine: Engine, store: Ledger | _Memory, advance: Any) -> None:
    keeper = _Keeper(plan, store, part, advance)
    try:
        for results in engine.run(Job(plan.simulator, part, keeper.z, training_stream(plan.seed))):
            keeper.take(results)
    finally:
        # Also on Ctrl-C: what has been simulated is kept.
        keeper.write()


class _Keeper:
    """Turns outcomes into records and writes them down, a batch at a time."""

    def __init__(self, plan: _Plan, store: Ledger | _Memory, indices: np.ndarray, advance: Any):
        self.plan, self.store, self.advance = plan, store, advance
        self.theta, self.z = plan.parameters(indices)
        self.place = {int(index): number for number, index in enumerate(indices)}
        shape = store.facts()["x_shape"]
        self.shape: tuple[int, ...] | None = None if shape is None else tuple(shape)
        self.fixed = shape is not None
        self.batch: list[Row] = []
        self.latest = time.monotonic()
        self.num_failed = 0

    def take(self, results: list[Result]) -> None:
        """Keep outcomes; data of another shape than the first records' are a failure."""
        for index, outcome in sorted(results, key=lambda pair: pair[0]):
            x = outcome.x if outcome.status == OK else None
            if x is not None and self.shape is None:
                self.shape = x.shape
            if x is not None and x.shape != self.shape:
                if not self.fixed and self.shape is not None:
                    refuse_changed_shape(self.plan.simulator.name, self.shape, x.shape)
                words = f"returned x of shape {x.shape}; that of the first records is {self.shape}"
                outcome, x = failure(BAD_OUTPUT, words), None
            place = self.place[index]
            self.batch.append(Row(index, outcome.status, self.theta[place], self.z[place], x, outcome.message))
            self.num_failed += outcome.status != OK
        if results:
            self.advance(len(results), f"{self.num_failed} failed" if self.num_failed else "")
        if len(self.batch) >= _RECORDS_A_BATCH or time.monotonic() - self.latest > _SECONDS_A_BATCH:
            self.write()

    def write(self) -> None:
        """Write down what has come in."""
        rows, self.batch, self.latest = self.batch, [], time.monotonic()
        if rows and self.shape is not None and not self.fixed:
            self.store.set_facts(x_shape=list(self.shape))
        if rows:
            self.store.append(rows)


def _shard(shard: str | None, num: int, out: Any) -> np.ndarray:
    """Return the records of one shard, "2/5" being the second of five; every fifth record, so that all grow alike."""
    if shard is None:
        return np.arange(num)
    number, _, total = str(shard).partition("/")
    if not (number.isdigit() and total.isdigit() and 1 <= int(number) <= int(total)):
        raise ArgumentError(f'shard: expected "k/n" with k from 1 to n, such as "2/5", got {shard!r}.')
    if out is None:
        raise ArgumentError("shard: expected out as well, a folder of its own for every shard.")
    chosen = np.arange(int(number) - 1, num, int(total))
    if not len(chosen):
        raise ArgumentError(f"shard: there are only {num} simulations for {total} shards.")
    return chosen


def merge_campaigns(
    out: str | Path, parts: Sequence[str | Path], *, proposal: Proposal | None = None, latent: Latent | None = None
) -> Simulations:
    """Join the folders of several shards of one campaign into one, which can then be extended like any other.

    ``proposal`` and ``latent`` are as for :func:`open_campaign`.

    >>> import fisherscore as fs, tempfile
    >>> problem, folder = fs.problems.linear_gaussian(), tempfile.mkdtemp()
    >>> for k in (1, 2):
    ...     _ = fs.simulate(problem.simulator, problem.proposal, 20, out=f"{folder}/{k}", shard=f"{k}/2")
    >>> len(fs.merge_campaigns(f"{folder}/all", [f"{folder}/1", f"{folder}/2"]))
    20
    """
    if not parts:
        raise ArgumentError("parts: expected the folders of at least one campaign, got none.")
    with Ledger.open(Path(parts[0])) as first:
        facts = first.facts()
    with Ledger.create(Path(out), {k: v for k, v in facts.items() if k not in ("schema", "version")}) as target:
        for part in map(Path, parts):
            with Ledger.open(part) as source:
                _refuse_other_plan(target.facts(), source.facts(), part)
                _join(target, source, part)
    return StoredSimulations(Path(out), proposal=proposal, latent_model=latent)


def _join(target: Ledger, source: Ledger, part: Path) -> None:
    """Copy the records of one campaign into another; those that are there already must be the same."""
    theirs, ours = source.facts(), target.facts()
    shapes = {tuple(s) for s in (theirs["x_shape"], ours["x_shape"]) if s is not None}
    if len(shapes) > 1:
        raise CampaignError(f"parts: x of {part} has another shape than that of the others: {sorted(shapes)}.")
    shape = list(shapes.pop()) if shapes else None
    planned = max(theirs["num_simulations"], ours["num_simulations"])
    target.set_facts(x_shape=shape, num_simulations=planned, num_planned=planned)
    present = target.indices()
    for indices in np.array_split(source.indices(), max(1, len(source.indices()) // _RECORDS_A_BATCH)):
        table, double = source.read(indices), np.intersect1d(indices, present)
        if len(double) and not _same(source.read(double), target.read(double)):
            raise CampaignError(f"parts: {part} holds records that differ from those of the same number in the others.")
        rows = [
            Row(
                index=int(i),
                status=str(table.status[n]),
                theta=table.theta[n],
                latent=table.latent[n],
                x=table.x[n] if str(table.status[n]) == OK else None,
                message=table.messages.get(int(i), ""),
            )
            for n, i in enumerate(table.indices)
            if i not in double
        ]
        target.append(rows)


def _same(a: Table, b: Table) -> bool:
    return (a.status == b.status).all() and np.array_equal(a.theta, b.theta) and np.array_equal(a.x, b.x, True)


def _refuse_other_plan(stored: dict[str, Any], wanted: dict[str, Any], folder: Path) -> None:
    changes = _differences(stored["plan"], wanted["plan"])
    if changes:
        raise CampaignError(
            f"out: {folder} holds a campaign with another configuration: {'; '.join(changes)}. Data of two "
            "configurations must not be mixed: go back to the old one, or choose another folder."
        )


def _differences(stored: Any, wanted: Any, name: str = "") -> list[str]:
    """List what differs between two descriptions, by name."""
    if isinstance(stored, dict) and isinstance(wanted, dict):
        keys = sorted(stored.keys() | wanted.keys())
        inner = [_differences(stored.get(k), wanted.get(k), f"{name}.{k}" if name else k) for k in keys]
        return [line for lines in inner for line in lines]
    return [] if stored == wanted else [f"{name} was {stored!r}, is {wanted!r}"]


def _check(simulator: Any, proposal: Any) -> None:
    if not isinstance(simulator, Simulator):
        raise ArgumentError(
            f"simulator: expected a simulator, got {simulator!r}. Wrap a function with fisherscore.from_python or "
            "fisherscore.from_jax, a program with fisherscore.from_command."
        )
    if not isinstance(proposal, Proposal):
        raise ArgumentError(f"proposal: expected a proposal, got {proposal!r}. Make one with fisherscore.uniform.")


def _checked_latent(latent: Any, proposal: Proposal) -> Latent:
    """Try the latent model on shapes alone, so that a mistake is found before any simulation is run."""
    if not isinstance(latent, Latent):
        raise ArgumentError(
            f"latent: expected a latent model, got {latent!r}. Use fisherscore.GaussianLatent or CustomLatent."
        )
    theta = jax.eval_shape(proposal.draw_one, jax.random.key(0))
    try:
        z = jax.eval_shape(latent.sample, jax.random.key(0), theta)
        score = jax.eval_shape(latent.score, theta, z)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"latent: does not work with the {proposal.num_parameters} parameters of the proposal: {error}"
        ) from error
    if z.ndim != 1 or score.shape != theta.shape:
        raise ArgumentError(
            f"latent: expected z of shape (q,) and a score of shape {theta.shape}, got {z.shape} and {score.shape}."
        )
    return latent


def _stop_if_all_fail(plan: _Plan, store: Ledger | _Memory) -> None:
    counts = store.counts()
    if counts and not counts.get(OK):
        raise SimulationError(
            f"The simulator {plan.simulator.name!r} failed on each of its first {sum(counts.values())} runs, so "
            f"nothing more was run. It said: {store.first_message()}"
        )
