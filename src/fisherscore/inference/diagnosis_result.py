"""What checks return: each with its verdict, and all of them as one diagnosis."""

from dataclasses import dataclass

import numpy as np

from .. import plot
from .._support.text import html_table
from ..score.constraints import BADLY_LEARNED

PASS, FAIL, UNCLEAR = "pass", "FAIL", "unclear"
# Checks of posteriors, which do not rest on all simulations.
_OF_POSTERIORS = ("calibration", "coverage", "parts")
# Chance of a false alarm per check.
LEVEL = 0.005


@dataclass(frozen=True)
class Check:
    """One check of a model.

    Attributes:
        name: What is checked.
        value: How far off it is.
        standard_error: The statistical error of ``value``; for calibration and coverage 1 / √(2m), with m posteriors:
            that of a width, and about the size of a gap in coverage that chance makes.
        tolerance: The deviation that is accepted; 0 where the check is a statistical test.
        verdict: ``"pass"``, ``"FAIL"``, or ``"unclear"`` where chance could hide a deviation.
        meaning: What a failure means, in words.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> sims = fs.simulate(problem.simulator, problem.proposal, 5_000)
    >>> fs.diagnose(problem.exact_model(), sims, num_posteriors=0)["zero mean"].verdict
    'pass'
    """

    name: str
    value: float
    standard_error: float
    tolerance: float
    verdict: str
    meaning: str


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """All checks of a model or of a set of posteriors; printed, it is a table under a line of verdict.

    ``diagnosis["zero mean"]`` is the check of that name.

    Attributes:
        checks: The checks.
        names: Parameter names.
        num_simulations: Number of simulations the checks rest on.
        ranks: Rank of the truth among the draws of each posterior, as a fraction, shape (posteriors, p); None where no
            posteriors were checked.
        coverage: Credibility at which each truth is just covered, shape (posteriors,); None likewise.
        findings: What the model knows of itself: what was badly learned, and what the data do not constrain.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> sims = fs.simulate(problem.simulator, problem.proposal, 5_000)
    >>> [check.name for check in fs.diagnose(problem.exact_model(), sims, num_posteriors=0).checks]
    ['zero mean', 'information', 'symmetry']
    """

    checks: tuple[Check, ...]
    names: tuple[str, ...]
    num_simulations: int
    ranks: np.ndarray | None = None
    coverage: np.ndarray | None = None
    findings: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Check:
        for check in self.checks:
            if check.name == name:
                return check
        raise KeyError(name)

    @property
    def passed(self) -> bool:
        """Whether no check failed, and nothing was badly learned by the model's own error."""
        return all(c.verdict != FAIL for c in self.checks) and not self._badly_learned

    def plot(self) -> np.ndarray:
        """Draw the identities in units of their tolerances and the coverage of the posteriors, as far as there are any.

        Returns:
            An array of Matplotlib axes, one for each picture.
        """
        return plot.diagnosis(self)

    @property
    def _badly_learned(self) -> list[str]:
        return [finding for finding in self.findings if finding.startswith(BADLY_LEARNED)]

    def _headline(self) -> str:
        failed = [c.meaning for c in self.checks if c.verdict == FAIL]
        failed += [f"its score was {finding}" for finding in self._badly_learned]
        unclear = [c.name for c in self.checks if c.verdict == UNCLEAR]
        if failed:
            subject = "these posteriors" if all(c.name in _OF_POSTERIORS for c in self.checks) else "this model"
            return f"Do not trust {subject}: {'; '.join(failed)}."
        if unclear:
            return f"No check failed, but {self._too_few(unclear)}."
        return f"All {len(self.checks)} checks passed on {self.num_simulations:,} simulations."

    def _too_few(self, unclear: list[str]) -> str:
        """Say on how many simulations, or posteriors of them, the checks rest that cannot be told."""
        num_posteriors = 0 if self.coverage is None else len(self.coverage)
        parts = (
            ([n for n in unclear if n not in _OF_POSTERIORS], f"{self.num_simulations:,} simulations"),
            ([n for n in unclear if n in _OF_POSTERIORS], f"{num_posteriors:,} posteriors"),
        )
        return " and ".join(f"{', '.join(names)} cannot be told with {few}" for names, few in parts if names)

    def __str__(self) -> str:
        lines = [f"{'check':<12}  {'value':>9}  {'± error':>9}  {'tolerance':>9}  verdict"]
        lines += [
            f"{c.name:<12}  {c.value:>9.4f}  {c.standard_error:>9.4f}  {c.tolerance:>9.3g}  {c.verdict}"
            for c in self.checks
        ]
        return "\n".join([self._headline(), *lines, *(f for f in self.findings if f not in self._badly_learned)])

    def __repr__(self) -> str:
        verdicts = ", ".join(f"{c.name}: {c.verdict}" for c in self.checks)
        return f"Diagnosis({verdicts}; {self.num_simulations:,} simulations)"

    def _repr_html_(self) -> str:
        rows = [(c.name, f"{c.verdict}: {c.value:.4f} ± {c.standard_error:.4f}") for c in self.checks]
        return html_table(self._headline(), rows)
