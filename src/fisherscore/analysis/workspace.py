"""The folder of an analysis: what the stages keep in it and read back from it.

Each stage with results writes one JSON document, named after it, beside its pictures and arrays. A document carries a
key, a hash of everything its results depend on, by which :mod:`fisherscore.analysis.stages` knows whether it is up to
date. Documents are written whole or not at all, so that a run may be stopped at any time.
"""

import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._support.documents import agrees, parse, signed, written
from .._support.folder import LARGEST_JSON
from .._support.npy import read_npy_file
from .._support.versions import versions
from .._support.whole_file import write_whole
from ..errors import ConfigurationError
from ..score.fitted import FittedScore, load
from .configuration import Configuration

_SCHEMA, _VERSION = "fisherscore.stage", 2
# What an analysis writes beside its documents and folders, which know themselves whose they are.
_WRITTEN = (
    "report.html",
    "posterior.npz",
    *(
        f"{name}.png"
        for name in ("rounds", "constraints", "forecast", "posterior", "score_field", "checks", "coverage")
    ),
)
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
            if path.stat().st_size > LARGEST_JSON:
                raise ValueError("it is far too large")
            document = parse(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise self.missing(stage) from None
        except (OSError, ValueError) as error:
            raise self.missing(stage, f"{path} is damaged ({error})") from None
        if not isinstance(document, dict) or document.get("schema") != _SCHEMA or document.get("stage") != stage:
            raise self.missing(stage, f"{path} was not written by fisherscore")
        checked = {"version", "checksum"} & document.keys()  # the first version, that of 0.1.0, has neither
        if checked and not (document.get("version") == _VERSION and agrees(document)):
            raise self.missing(stage, f"{path} does not agree with its checksum: it has been changed or damaged")
        if not {"key", "result"} <= document.keys():
            raise self.missing(stage, f"{path} is damaged")
        return document

    def write(self, stage: str, **contents: Any) -> None:
        """Write the document of a stage: its key, seconds, warnings and result."""
        self.refuse_other_document(stage)
        document = {"schema": _SCHEMA, "version": _VERSION, "stage": stage, **contents, "versions": versions()}
        write_whole(self._path(stage), written(signed(document)))

    def refuse_other_document(self, stage: str) -> None:
        """Stop where a file with the name of a stage's document is somebody else's: it would be replaced."""
        path = self._path(stage)
        if path.exists() and path.stat().st_size and not _is_stage_document(path):
            raise ConfigurationError(f"{path} was not written by fisherscore, so it is left alone. Move it away.")

    def refuse_strangers(self) -> None:
        """Stop before a new analysis is begun in a folder where it would replace files of somebody else."""
        if self.out.exists() and not self.out.is_dir():
            raise ConfigurationError(f"out: {self.out} is a file. Choose another folder.")
        if any(_is_stage_document(path) for path in self.out.glob("*.json")):
            return
        strangers = [name for name in _WRITTEN if (self.out / name).exists()]
        if strangers:
            raise ConfigurationError(
                f"out: {self.out} holds {strangers[0]} from elsewhere, which the analysis would replace. Choose "
                "another folder, or move it away."
            )

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
        return self._mock(c.observation.mock)

    @property
    def draws_observation(self) -> bool:
        """Whether a mock observation is asked for and not drawn yet."""
        c = self.configuration
        return c.observation is not None and c.observation.mock is not None and not self._kept_mocks()

    def _mock_name(self) -> str:
        return f"mock-{self.observation_key()[:12]}"

    def _kept_mocks(self) -> list[Path]:
        name = self._mock_name()
        # Version 0.1.0 kept it without a hash.
        return [*sorted(self.out.glob(f"{name}-*.npy")), *self.out.glob(f"{name}.npy")]

    def _mock(self, theta: dict[str, float]) -> np.ndarray:
        """Return the mock observation that is kept, under a name that ends in the hash of its file; or draw it."""
        c, name = self.configuration, self._mock_name()
        for path in self._kept_mocks():
            try:
                known = path.stem == name or path.stem == f"{name}-{_file_digest(path)}"
                x = read_npy_file(path) if known else None
            except (OSError, ValueError):
                x = None
            if x is None or not np.isfinite(x).all():
                raise ConfigurationError(
                    f"{path} has been changed or damaged. Delete it: the same observation is drawn again."
                )
            return x
        values = [theta[parameter] for parameter in c.proposal.names]
        x = c.simulator.with_names(c.proposal.names).draw(values, seed=c.seed + MOCK_SEED)
        buffer = io.BytesIO()
        np.save(buffer, x)
        self.out.mkdir(parents=True, exist_ok=True)
        content = buffer.getvalue()
        write_whole(self.out / f"{name}-{hashlib.sha256(content).hexdigest()[:12]}.npy", content)
        return x

    def observation_key(self) -> str:
        """Hash what the observed data depend on."""
        c = self.configuration
        if c.observation is None:
            return digest(None)
        if c.observation.x is not None:
            return digest(c.observation.x.tolist(), c.observation.iid)
        return digest(c.observation.mock, c.seed, c.simulator.identity, c.simulator.code)


def _is_stage_document(path: Path) -> bool:
    """Say whether a file, whole or damaged, begins as our documents do."""
    try:
        with path.open("rb") as file:
            return _SCHEMA.encode() in file.read(200)
    except OSError:
        return False


def _file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def digest(*parts: Any) -> str:
    """Hash plain data, independent of the order of mappings."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
