"""Run jobs in worker processes of one thread each, until they are done or time is up."""

import multiprocessing
import os
import queue
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from .classifier import c2st
from .jobs import Job, Outcome, pair_of, run
from .reference import References

ONE_THREAD = {
    "JAX_PLATFORMS": "cpu",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}


def _work(core: int, todo: Any, done: Any, references: References, settings: tuple[int, bool]) -> None:
    num_draws, judges = settings
    if hasattr(os, "sched_setaffinity"):
        available = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {available[core % len(available)]})
    for job in iter(todo.get, None):
        found = run(job, references, num_draws)
        if judges:
            for outcome in found:
                if outcome.draws is not None and np.isfinite(outcome.draws).all():
                    outcome.row["c2st"] = round(c2st(*pair_of(outcome)), 4)
        done.put(found)
    done.put(None)


def outcomes(
    jobs: list[Job], references: References, *, settings: tuple[int, bool], num_workers: int, seconds: float
) -> Iterator[list[Outcome]]:
    """Yield what comes of jobs as they finish; what still runs when time is up is ended.

    Args:
        jobs: The jobs, in the order in which they are begun.
        references: Observations and reference posteriors.
        settings: How many draws of each posterior, and whether workers themselves run the classifier.
        num_workers: How many processes.
        seconds: How long to wait in all.

    Yields:
        The outcomes of one job after another.
    """
    spawning = multiprocessing.get_context("spawn")
    todo, done = spawning.Queue(), spawning.Queue()
    for job in [*jobs, *[None] * num_workers]:
        todo.put(job)
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    arguments = (todo, done, references, settings)
    workers = [spawning.Process(target=_work, args=(k, *arguments), daemon=True) for k in range(num_workers)]
    for worker in workers:
        worker.start()
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})
    end, running = time.monotonic() + seconds, num_workers
    try:
        while running and any(worker.is_alive() for worker in workers):
            try:
                found = done.get(timeout=min(1.0, max(end - time.monotonic(), 0.01)))
            except queue.Empty:
                if time.monotonic() >= end:
                    return
                continue
            if found is None:
                running -= 1
            else:
                yield found
    finally:
        for worker in workers:
            worker.terminate()
        todo.cancel_join_thread()
