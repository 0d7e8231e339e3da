"""Observations, true parameters and reference posteriors of the benchmark, read from the files of its package."""

import bz2
import io
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .task import Task

NUM_OBSERVATIONS = 10
_WHEEL = "sbibm==1.1.0"


@dataclass(frozen=True)
class References:
    """What is known of the ten observations of each task.

    Attributes:
        path: The wheel of ``sbibm``, the folder it was unpacked to, or a file that :meth:`pack` wrote.
    """

    path: Path

    @classmethod
    def found(cls, path: Path | None, cache: Path) -> "References":
        """Take the files from a path, or download the wheel into a folder where it is kept.

        Args:
            path: Where the files are; None downloads them.
            cache: Where the wheel is kept.

        Returns:
            The references.
        """
        if path is not None:
            return cls(path)
        if not list(cache.glob("sbibm-*.whl")):
            command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(cache), _WHEEL]
            subprocess.run(command, check=True)  # noqa: S603 -- no shell, and nothing of it is the user's
        return cls(next(cache.glob("sbibm-*.whl")))

    def observation(self, task: Task, number: int) -> np.ndarray:
        """Read one observation.

        Args:
            task: The task.
            number: Number of the observation, from 1 to 10.

        Returns:
            The data, shape (n,).
        """
        return self._table(task, number, task.observation_file)[0]

    def true_parameters(self, task: Task, number: int) -> np.ndarray:
        """Read the parameters an observation was simulated at.

        Args:
            task: The task.
            number: Number of the observation, from 1 to 10.

        Returns:
            The parameters, shape (p,).
        """
        return self._table(task, number, "true_parameters.csv")[0]

    def posterior(self, task: Task, number: int) -> np.ndarray:
        """Read the draws of a reference posterior.

        Args:
            task: The task.
            number: Number of the observation, from 1 to 10.

        Returns:
            Draws, shape (10,000, p).
        """
        return self._table(task, number, "reference_posterior_samples.csv.bz2")

    def pack(self, tasks: list[Task], path: Path) -> None:
        """Write all that is needed of some tasks to one file, in single precision.

        Args:
            tasks: The tasks.
            path: The .npz file to write.
        """
        tables = {}
        for task in tasks:
            for number in range(1, NUM_OBSERVATIONS + 1):
                for name in (task.observation_file, "true_parameters.csv", "reference_posterior_samples.csv.bz2"):
                    key = f"{task.files}/{number}/{name}"
                    tables[key] = self._table(task, number, name).astype(np.float32)
        np.savez_compressed(path, **tables)

    def _table(self, task: Task, number: int, name: str) -> np.ndarray:
        if self.path.suffix == ".npz":
            with np.load(self.path) as packed:
                return packed[f"{task.files}/{number}/{name}"].astype(np.float64)
        inside = f"sbibm/tasks/{task.files}/files/num_observation_{number}/{name}"
        if self.path.is_dir():
            content = (self.path / inside).read_bytes()
        else:
            with zipfile.ZipFile(self.path) as wheel:
                content = wheel.read(inside)
        text = (bz2.decompress(content) if name.endswith(".bz2") else content).decode()
        return np.loadtxt(io.StringIO(text), delimiter=",", skiprows=1, ndmin=2)
