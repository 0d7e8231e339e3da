"""One public step in a process of its own, timed: what ``time_to_answer.py`` starts, with any version of the package.

Seconds of a call are split into compilation (tracing, lowering and XLA, as JAX itself reports them, overlaps counted
once) and the rest. It is told what to do as JSON, and writes what it measured as JSON:

    python benchmarks/time_to_answer_steps.py '{"step": "fit", "problem": "poisson_counts", "num_simulations": 500}'
"""

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Call = Callable[[], Any]
NUM_TEST = 1_000


class CompileClock:
    """Times calls, and how much of them is compilation."""

    def __init__(self) -> None:
        import jax

        self.spans: list[tuple[float, float]] = []
        self.counts = {"backend_compile_duration": 0, "cache_hits": 0}
        jax.monitoring.register_event_duration_secs_listener(self._span)
        jax.monitoring.register_event_listener(self._count)

    def _span(self, event: str, seconds: float, **_: Any) -> None:
        if event.startswith("/jax/core/compile/"):
            now = time.perf_counter()
            self.spans.append((now - seconds, now))
        self._count(event)

    def _count(self, event: str, **_: Any) -> None:
        name = event.split("/")[-1]
        if name in self.counts:
            self.counts[name] += 1

    def time(self, call: Call) -> dict[str, Any]:
        """Return the seconds of a call, those of compilation, and how many functions were compiled and were loaded."""
        import jax

        self.spans, before, started = [], dict(self.counts), time.perf_counter()
        jax.block_until_ready(call())
        seconds = time.perf_counter() - started
        made, loaded = (self.counts[name] - before[name] for name in self.counts)
        compilation = sum(end - begin for begin, end in _merged(self.spans))
        return {
            "seconds": seconds,
            "compile_seconds": min(compilation, seconds),
            "num_compiled": made - loaded,
            "num_loaded": loaded,
        }


def _merged(spans: list[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Join spans of time that overlap: JAX reports a traced function within another twice."""
    last: tuple[float, float] | None = None
    for begin, end in sorted(spans):
        if last is not None and begin <= last[1]:
            last = (last[0], max(last[1], end))
            continue
        if last is not None:
            yield last
        last = (begin, end)
    if last is not None:
        yield last


class Steps:
    """The public steps on one problem; each returns its calls by name, after preparing what is not to be timed."""

    def __init__(self, fs: Any, order: dict[str, Any]):
        self.fs, self.order = fs, order
        self.problem = getattr(fs.problems, order["problem"])()

    def calls(self) -> dict[str, Call]:
        """Return the calls of the step that is asked for."""
        return getattr(self, f"_{self.order['step']}")()

    def _simulations(self, seed: int, num: int | None = None) -> Any:
        number = num or self.order["num_simulations"]
        return self.fs.simulate(self.problem.simulator, self.problem.proposal, number, seed=seed, progress=False)

    def _models(self) -> list[Any]:
        return [self.fs.load(folder) for folder in self.order["models"]]

    def _observations(self) -> Any:
        low, high = self.problem.proposal.low, self.problem.proposal.high
        points = [low + share * (high - low) for share in (0.5, 0.45)]
        return [self.problem.simulator.draw(point, seed=7) for point in points]

    def _simulate(self) -> dict[str, Call]:
        return {
            "first": lambda: self._simulations(0),
            "second": lambda: self._simulations(0),
            "other_input": lambda: self._simulations(1),
        }

    def _fit(self, recipe: Any = "auto") -> dict[str, Call]:
        sims, folders = [self._simulations(seed) for seed in (0, 1)], self.order.get("models")

        def fit(which: int) -> Any:
            model = self.fs.fit(sims[which], recipe=recipe, progress=False)
            if folders:
                model.save(folders[which])
            return model

        return {"first": lambda: fit(0), "second": lambda: fit(0), "other_input": lambda: fit(1)}

    def _fit_closed_forms(self) -> dict[str, Call]:
        self.order = self.order | {"models": None}
        return self._fit(self.fs.AutoRecipe(density=None, network=None))

    def _posterior(self, function: Call, **options: Any) -> dict[str, Call]:
        (model, other), (x, another) = self._models(), self._observations()
        return {
            "first": lambda: function(model, x, **options),
            "second": lambda: function(model, x, **options),
            "other_input": lambda: function(model, another, **options),
            "other_model": lambda: function(other, x, **options),
        }

    def _maximum_likelihood(self) -> dict[str, Call]:
        return self._posterior(self.fs.maximum_likelihood)

    def _sample(self) -> dict[str, Call]:
        return self._posterior(self.fs.sample, progress=False)

    def _sample_smc(self) -> dict[str, Call]:
        return self._posterior(self.fs.sample, method="smc", progress=False)

    def _forecast(self) -> dict[str, Call]:
        model, other = self._models()
        centre, beside = (model.low + share * (model.high - model.low) for share in (0.5, 0.45))
        forecast, simulator = self.fs.forecast, self.problem.simulator
        return {
            "first": lambda: forecast(model, centre, simulator),
            "second": lambda: forecast(model, centre, simulator),
            "other_input": lambda: forecast(model, beside, simulator),
            "other_model": lambda: forecast(other, centre, simulator),
        }

    def _compress(self) -> dict[str, Call]:
        (model, other), (x, another) = self._models(), self._observations()
        centre = (model.low + model.high) / 2
        return {
            "first": lambda: self.fs.compress(model, centre)(x),
            "second": lambda: self.fs.compress(model, centre)(x),
            "other_input": lambda: self.fs.compress(model, centre)(another),
            "other_model": lambda: self.fs.compress(other, centre)(x),
        }

    def _diagnose(self) -> dict[str, Call]:
        (model, other), (test, fresh) = self._models(), (self._simulations(seed, NUM_TEST) for seed in (90, 91))
        options = {"num_posteriors": self.order["num_posteriors"], "progress": False}
        return {
            "first": lambda: self.fs.diagnose(model, test, **options),
            "second": lambda: self.fs.diagnose(model, test, **options),
            "other_input": lambda: self.fs.diagnose(model, fresh, **options),
            "other_model": lambda: self.fs.diagnose(other, test, **options),
        }

    def _save_and_load(self) -> dict[str, Call]:
        folder, other = self.order["models"]
        model = self.fs.load(other)

        def save_and_load(source: Any) -> Any:
            model.save(f"{folder}-again")
            return self.fs.load(source)

        return {
            "first": lambda: save_and_load(folder),
            "second": lambda: save_and_load(folder),
            "other_model": lambda: save_and_load(other),
        }

    def _export(self) -> dict[str, Call]:
        """Write simulations for a peer; not timed for its own sake."""
        import numpy as np

        sims, proposal = self._simulations(0), self.problem.proposal
        arrays = {"theta": sims.theta, "x": sims.x, "low": proposal.low, "high": proposal.high}
        return {"first": lambda: np.savez(self.order["file"], x_obs=self._observations()[0], **arrays)}


def neural_likelihood(order: dict[str, Any]) -> dict[str, Any]:
    """Fit and sample with sbi's neural likelihood and its defaults; run by an interpreter that has sbi."""
    import numpy as np
    import torch
    from sbi.inference import NLE
    from sbi.utils import BoxUniform

    torch.manual_seed(0)
    data = np.load(order["file"])
    arrays = {name: torch.tensor(data[name], dtype=torch.float32) for name in data.files}
    rows = (arrays["x"].reshape(len(arrays["x"]), -1), arrays["x_obs"].reshape(1, -1))
    started = time.perf_counter()
    inference = NLE(prior=BoxUniform(arrays["low"], arrays["high"]), show_progress_bars=False)
    inference.append_simulations(arrays["theta"], rows[0]).train()
    fitted = time.perf_counter()
    posterior = inference.build_posterior()
    posterior.sample((order["num_draws"],), x=rows[1], show_progress_bars=False)
    return {"fit": fitted - started, "sample": time.perf_counter() - fitted}


@contextmanager
def quietly() -> Iterator[None]:
    """Let the package warn nobody: what it warns of is not what is measured."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def main() -> None:
    order = json.loads(sys.argv[1])
    with quietly():
        if order["step"] == "neural_likelihood":
            print("\n" + json.dumps(neural_likelihood(order)))  # sbi leaves a line of its own unfinished
            return
        started = time.perf_counter()
        import fisherscore as fs

        for name in ("simulate", "fit", "sample", "forecast", "diagnose", "load"):
            getattr(fs, name)
        imported = time.perf_counter() - started
        clock = CompileClock()
        if order.get("cache"):
            fs.use_compilation_cache(Path(order["cache"]))
        calls = Steps(fs, order).calls()
        chosen = order.get("calls") or list(calls)
        measured = {name: clock.time(call) for name, call in calls.items() if name in chosen}
    import jax

    device = jax.devices()[0]
    where = {"platform": device.platform, "device": device.device_kind}
    print(json.dumps({"version": fs.__version__, "import": imported, "calls": measured, **where}))


if __name__ == "__main__":
    main()
