"""The folder of an analysis: what the stages keep in it and read back from it.

Each stage with results writes one JSON document, named after it, beside its pictures and arrays. A document carries a
key, a hash of everything its results depend on, by which :mod:`fisherscore.analysis.stages` knows whether it is up to
date. Documents are written whole or not at all, so that a run may be stopped at any time.
"""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._support.versions import versions
from ..errors import ConfigurationError
from ..score.fitted import FittedScore, load
from .configuration import Configuration

_SCHEMA = "fisherscore.stage"
# Seeds of the parts of an analysis are the file's seed plus these; the training simulations have the file's own.
TEST_SEED, MOCK_SEED, FORECAST_SEED, SAMPLE_SEED = 1, 2, 3, 4


@dataclass(frozen=True)
class Workspace:
    """An analysis file and its folder; ``say`` is called with every line for the user."""

    configuration: Configuration
    progress: bool | None = None
    say: Callable[[str], None] = print

    @property
    def out(self) -> Path:
        """Where everything is written."""
        return self.configuration.out

    # ------------------------------------------------------------------ documents

    def read(self, stage: str) -> dict[str, Any]:
        """Read the document of a stage, up to date or not."""
        path = self._path(stage)
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, json.JSONDecodeError):
            raise self.missing(stage) from None
        if not isinstance(document, dict) or document.get("schema") != _SCHEMA or document.get("stage") != stage:
            raise self.missing(stage, f"{path} was not written by fisherscore")
        return document

    def write(self, stage: str, **contents: Any) -> None:
        """Write the document of a stage: its key, seconds, warnings and result."""
        document = {"schema": _SCHEMA, "stage": stage, **contents, "versions": versions()}
        path = self._path(stage)
        unfinished = path.with_suffix(".json.new")
        unfinished.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")
        os.replace(unfinished, path)

    def missing(self, stage: str, why: str = "") -> ConfigurationError:
        """Make an error that says which stage has to be run first, and by which command."""
        reason = why or f"the stage {stage!r} has not been run"
        command = f"fisherscore {stage} {self.configuration.document.path}"
        return ConfigurationError(f"{self.out}: {reason}. First run: {command}")

    def _path(self, stage: str) -> Path:
        return self.out / f"{stage}.json"

    # ------------------------------------------------------------------ model and observation

    def model(self) -> FittedScore:
        """Load the fitted model."""
        self.read("fit")
        return load(self.out / "model")

    def observation(self) -> np.ndarray:
        """Return the observed data; a mock observation is drawn once and kept."""
        c = self.configuration
        if c.observation is None:
            raise ConfigurationError(f"{c.document.path}: no [observation], so there is nothing to infer from. Add it.")
        if c.observation.x is not None:
            return c.observation.x
        assert c.observation.mock is not None
        path = self.out / f"mock-{self.observation_key()[:12]}.npy"
        if not path.exists():
            theta = [c.observation.mock[name] for name in c.proposal.names]
            x = c.simulator.with_names(c.proposal.names).draw(theta, seed=c.seed + MOCK_SEED)
            self.out.mkdir(parents=True, exist_ok=True)
            np.save(path, x)
        return np.asarray(np.load(path, allow_pickle=False))

    def observation_key(self) -> str:
        """Hash what the observed data depend on."""
        c = self.configuration
        if c.observation is None:
            return digest(None)
        if c.observation.x is not None:
            return digest(c.observation.x.tolist(), c.observation.iid)
        return digest(c.observation.mock, c.seed, c.simulator.identity, c.simulator.code)


def digest(*parts: Any) -> str:
    """Hash plain data, independent of the order of mappings."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
