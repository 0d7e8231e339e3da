"""What an aimed inference keeps in its folder: the settings it began with, what every round found, and its result.

Simulations are campaigns in folders ``round-1``, ``round-2`` and so on, each of which knows its own region.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..._support import fields as read
from ..._support.documents import agrees, parse, signed, written
from ..._support.whole_file import write_whole
from ...errors import ArgumentError, CampaignError
from ...score.fitted import FittedScore
from ...simulation.campaign import open_campaign
from ...simulation.descriptions import describe_proposal, rebuild_proposal
from ...simulation.plan import Plan
from ...simulation.proposal import Proposal
from ...simulation.simulations import Simulations
from ..posterior import Posterior
from ..posterior_checks import observation_mark
from .gathered import gathered, within
from .known_prior import describe_prior, is_same_prior
from .result import Round, Rounds
from .rounds import Finding

DOCUMENT, _SCHEMA = "aim.json", "fisherscore-aim"


@dataclass(eq=False)
class Diary:
    """The folder of an aimed inference, or nothing; and what is written in it."""

    folder: Path | None
    document: dict[str, Any]

    @classmethod
    def of(cls, out: Any, plan: Plan, given: tuple[Any, Any, Proposal], settings: dict[str, Any]) -> "Diary":
        """Open the folder, or make it; refuse one that was begun otherwise."""
        x_obs, prior, proposal = given
        if out is None:
            return cls(None, {})
        folder, file = Path(out), Path(out) / DOCUMENT
        begun = {
            **settings,
            "seed": plan.seed,
            "observation": observation_mark(x_obs),
            "proposal": describe_proposal(proposal),
            "prior": describe_prior(prior, proposal),
        }
        document = {"schema": _SCHEMA, "version": 1, "begun": begun, "findings": []}
        if not file.exists():
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except (FileExistsError, NotADirectoryError):
                raise CampaignError(f"out: {folder} is a file, or lies in one. Choose another folder.") from None
            diary = cls(folder, document)
            diary._write()
            return diary
        kept = _read(file)
        before = kept["begun"]
        changed = [name for name in {**begun, **before} if name != "prior" and before.get(name) != begun.get(name)]
        if not is_same_prior(before.get("prior"), begun["prior"]):
            changed.append("prior")
        if changed:
            raise CampaignError(
                f"out: the inference in {folder} was begun with another {_in_words(changed[0], before, begun)}. Go "
                "back to what it was, or choose another folder."
            )
        return cls(folder, kept)

    def folder_of_round(self, number: int) -> Path | None:
        """Return the folder of a round's campaign."""
        return None if self.folder is None else self.folder / f"round-{number}"

    def finding(self, number: int, limits: Proposal) -> tuple[Finding, Proposal] | None:
        """Return what a round found, where it is known already."""
        findings = self.document.get("findings", [])
        if len(findings) < number:
            return None
        try:
            kept = findings[number - 1]
            draws = np.array(read.tuple_of(read.tuple_of(read.number))(kept["draws"]))
            error = read.optional(read.number)(kept["error"])
            found = Finding(draws, read.text(kept["guide"]), error, kept["exact"] is True, kept.get("cut") is True)
            region = rebuild_proposal(kept["region"])
        except (KeyError, TypeError, ValueError, ArgumentError) as error:
            raise CampaignError(f"out: what round {number} in {self.folder} found is damaged ({error}).") from None
        if region.names != limits.names:
            raise CampaignError(f"out: what round {number} in {self.folder} found is about other parameters.")
        return found, region

    def write_finding(self, number: int, found: Finding, region: Proposal) -> None:
        """Keep what a round found; of its draws, what their widths are."""
        if self.folder is None:
            return
        # Two draws with the widths of all of them, which is all that is asked later.
        widths = found.draws.std(axis=0)
        middle = found.draws.mean(axis=0)
        kept = {
            "draws": [(middle - widths).tolist(), (middle + widths).tolist()],
            "guide": found.guide,
            "error": found.error,
            "exact": found.exact,
            "cut": found.cut,
            "region": describe_proposal(region),
        }
        self.document["findings"] = [*self.document["findings"][: number - 1], kept]
        self._write()

    def write_rounds(self, rounds: list[Round]) -> None:
        """Keep the rounds when all are done."""
        if self.folder is not None:
            self.document["rounds"] = [
                {
                    "region": describe_proposal(r.region),
                    "num_simulations": r.num_simulations,
                    "num_used": r.num_used,
                    "error": r.error,
                    "sigma": r.sigma.tolist(),
                    "guide": r.guide,
                }
                for r in rounds
            ]
            self._write()

    def write_result(self, model: FittedScore, posterior: Posterior) -> None:
        """Keep model and posterior."""
        if self.folder is not None:
            model.save(self.folder / "model")
            posterior.save(self.folder / "posterior")

    def _write(self) -> None:
        assert self.folder is not None
        write_whole(self.folder / DOCUMENT, written(signed(self.document)))


def read_rounds(folder: Path, proposal: Proposal) -> tuple[Simulations, Rounds]:
    """Read the rounds of a folder, which must be finished: their simulations in the last region, and the rounds."""
    document = _read(folder / DOCUMENT)
    if "rounds" not in document:
        raise CampaignError(f"{folder}: not all rounds are done")
    try:
        rounds = [_round(kept) for kept in document["rounds"]]
        if not rounds:
            raise ValueError("there are no rounds")
    except (KeyError, TypeError, ValueError, ArgumentError) as error:
        raise CampaignError(f"{folder}: its rounds are damaged ({error})") from None
    sims = [
        open_campaign(folder / f"round-{number}", proposal=one.region, first=one.num_simulations)
        for number, one in enumerate(rounds, 1)
    ]
    return within(gathered(sims, proposal), rounds[-1].region), Rounds(rounds, proposal.names)


def _round(kept: dict[str, Any]) -> Round:
    return Round(
        region=rebuild_proposal(kept["region"]),
        num_simulations=read.count(kept["num_simulations"]),
        num_used=read.count(kept["num_used"]),
        error=read.optional(read.number)(kept["error"]),
        sigma=np.array(read.tuple_of(read.number)(kept["sigma"])),
        guide=read.text(kept["guide"]),
    )


def _in_words(name: str, before: dict[str, Any], now: dict[str, Any]) -> str:
    """Name what was changed as whoever calls :func:`infer` knows it, and of numbers say which."""
    if name == "sizes":
        return (
            f"num_rounds, by which its rounds were of {before.get(name)} simulations, and would be of {now.get(name)}"
        )
    if name in ("num_simulations", "seed"):
        return f"{name}, {before.get(name)} instead of {now.get(name)}"
    return name


def _read(file: Path) -> dict[str, Any]:
    try:
        document = parse(file.read_text(encoding="utf-8"))
        if not isinstance(document, dict) or not agrees(document) or document["schema"] != _SCHEMA:
            raise ValueError("its checksum is not right")
        if not isinstance(document["begun"], dict) or not isinstance(document["findings"], list):
            raise ValueError("it holds no findings")
    except (OSError, KeyError, ValueError) as error:
        raise CampaignError(f"out: {file} is damaged ({error}). Choose another folder.") from None
    return document
