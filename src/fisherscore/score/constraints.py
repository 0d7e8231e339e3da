"""What the data say of the parameters, direction by direction, and how well a fit has learned it.

With F the information of the data, Λ the precision of a prior and E the covariance of what the score is off by, a
posterior has the precision F + Λ, and its place is off by (F + Λ)⁻¹ times the error of the score. So errors count in
units of (F + Λ)⁻¹, the squared widths of the posterior: along a direction that the data do not see, an error that the
prior outweighs does no harm. Directions are those of F v = f Λ v. Along each, the data make up the share f / (1 + f) of
what is known, and the mean square of how far the posterior is off, in its own σ, is vᵀ E v / (vᵀ F v + vᵀ Λ v).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._support.drawing import new_axes, plain
from .._support.text import columns, html_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The three outcomes, which every answer of this package uses.
RIGHT = "right"
NOT_CONSTRAINED = "not constrained by the data"
BADLY_LEARNED = "badly learned"
# What stands in the place of a prior where there is none.
TRAINING_RANGE = "the training range"
# Below the first share of what is known, the data add nothing to speak of; above the second, a prior does not matter.
_LITTLE, _MUCH = 0.2, 0.9
# Mean squares, in units of the posterior's variance: above the first, a posterior is off by half of its σ; more
# simulations are advised until the second is reached.
LARGEST_ERROR = 0.25
_AIM = 0.05
# Where more than so many times the simulations would be needed, they are not the advice.
_HOPELESS = 100.0
# Parameters that make up more than this of a combination reach to their edges because of it.
_TAKES_PART = 0.3
# Of long lists, so many combinations are named, and so many parameters of each.
_MOST_NAMED, _MOST_TERMS = 3, 5
_COLOURS = {RIGHT: "#2e8b57", NOT_CONSTRAINED: "#9e9e9e", BADLY_LEARNED: "#c8372d"}


@dataclass(frozen=True, eq=False)
class OwnError:
    """What a model knows of its error: information (p, p) and covariance of the error (p, p), over its training region.

    Both in the user's units; and how many simulations it was fitted to.
    """

    information: np.ndarray
    covariance: np.ndarray
    num_simulations: int

    def of_draws(self, num: int) -> "OwnError":
        """Return that of independent draws at the same θ: information adds, and so does one and the same error."""
        return OwnError(num * self.information, num**2 * self.covariance, self.num_simulations)

    def embedded(self, places: np.ndarray, num: int) -> "OwnError":
        """Return it among ``num`` parameters, at the places of its own."""
        information, covariance = np.zeros((num, num)), np.zeros((num, num))
        information[np.ix_(places, places)], covariance[np.ix_(places, places)] = self.information, self.covariance
        return OwnError(information, covariance, self.num_simulations)

    def plus(self, other: "OwnError") -> "OwnError":
        """Return that of the sum of two scores that were learned apart."""
        return OwnError(
            self.information + other.information,
            self.covariance + other.covariance,
            max(self.num_simulations, other.num_simulations),
        )

    def under(self, names: Sequence[str], precision: np.ndarray, prior: str) -> "Constraints":
        """Return what the data constrain under a prior of some precision (p, p), which is called ``prior``."""
        # In units of the prior, where all parameters are comparable.
        scale = 1 / np.sqrt(np.diagonal(precision))
        matrices = (m * np.outer(scale, scale) for m in (self.information, self.covariance, precision))
        combinations = _directions(tuple(names), scale, *matrices)
        return Constraints(tuple(names), combinations, self.num_simulations, prior)


def precision_of_region(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the precision (p, p) of the uniform distribution on a region."""
    return np.diag(12.0 / (high - low) ** 2)


@dataclass(frozen=True, eq=False)
class Combination:
    """A combination of parameters, along which the others are not moved.

    Attributes:
        direction: How the parameters move along it, in the user's units, the largest by 1 or −1.
        text: The same in words.
        share: The data's share of what is known of it: 1 where the prior does not matter, 0 where only the prior does.
        error: Mean square by which a posterior is off along it, in units of its variance.
        outcome: ``"right"``, ``"not constrained by the data"`` or ``"badly learned"``.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> model = fs.fit(fs.simulate(problem.simulator, problem.proposal, 500))
    >>> fs.constraints(model).combinations[0].outcome
    'right'
    """

    direction: np.ndarray
    text: str
    share: float
    error: float

    @property
    def outcome(self) -> str:
        """Which of the three outcomes."""
        if self.error > LARGEST_ERROR:
            return BADLY_LEARNED
        return NOT_CONSTRAINED if self.share < _LITTLE else RIGHT

    def taking_part(self, names: Sequence[str], precision: np.ndarray) -> tuple[str, ...]:
        """Name the parameters that move along it, by more than a little of what the prior leaves open.

        Args:
            names: Parameter names.
            precision: The prior's precision, shape (p, p).

        Returns:
            Some of the names.
        """
        size = np.abs(self.direction) * np.sqrt(np.diagonal(precision))
        return tuple(n for n, s in zip(names, size, strict=True) if s > _TAKES_PART * np.linalg.norm(size))

    @property
    def strength(self) -> str:
        """How much the data say: well, weakly or not at all."""
        if self.share < _LITTLE:
            return "not at all"
        return "well" if self.share > _MUCH else "weakly"


@dataclass(frozen=True, eq=False)
class Constraints:
    """What the data constrain and how well that was learned: from :func:`fisherscore.constraints`.

    Attributes:
        names: Parameter names.
        combinations: Combinations of parameters, from the best constrained to the least.
        num_simulations: How many simulations the model was fitted to.
        prior: In words, what the data were compared with.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> model = fs.fit(fs.simulate(problem.simulator, problem.proposal, 500))
    >>> fs.constraints(model).outcome
    'right'
    """

    names: tuple[str, ...]
    combinations: tuple[Combination, ...]
    num_simulations: int
    prior: str = TRAINING_RANGE

    @property
    def error(self) -> float:
        """The score error under the prior: mean square, over combinations, of how far posteriors are off in their σ."""
        return float(np.mean([c.error for c in self.combinations]))

    @property
    def outcome(self) -> str:
        """The one outcome of the three that matters most."""
        outcomes = {c.outcome for c in self.combinations}
        return next((o for o in (BADLY_LEARNED, NOT_CONSTRAINED) if o in outcomes), RIGHT)

    @property
    def unconstrained(self) -> tuple[Combination, ...]:
        """Combinations of which the data say nothing to speak of."""
        return tuple(c for c in self.combinations if c.outcome == NOT_CONSTRAINED)

    @property
    def badly_learned(self) -> tuple[Combination, ...]:
        """Combinations along which a posterior would be off by more than half of its σ."""
        return tuple(c for c in self.combinations if c.outcome == BADLY_LEARNED)

    @property
    def findings(self) -> tuple[str, ...]:
        """What is to be said of them, with what would help; nothing where all is right."""
        learning = [self._of_learning()] if self.badly_learned else []
        return (*learning, *([self._of_data()] if self.unconstrained else []))

    def _of_learning(self) -> str:
        worst = max(c.error for c in self.badly_learned)
        return (
            f"{BADLY_LEARNED}: {_listed(self.badly_learned)}. Posteriors are off by up to {worst**0.5:.1g} of their σ. "
            f"What would help: {advice(worst, self.num_simulations)}"
        )

    def _of_data(self) -> str:
        most = min(c.share for c in self.unconstrained)
        if len(self.unconstrained) == len(self.combinations):
            return (
                f"{NOT_CONSTRAINED}: none of the parameters; {1 - most:.0%} of what is known comes from {self.prior}. "
                "Check that the data depend on the parameters, and that rows of theta and x belong together; other "
                "data would help"
            )
        return (
            f"{NOT_CONSTRAINED}: {_listed(self.unconstrained)}, of which {1 - most:.0%} of what is known comes from "
            f"{self.prior}. More simulations would not help; {cure(self.prior)}, or other data, would"
        )

    def plot(self, *, ax: "Axes | None" = None) -> "Axes":
        """Draw the share of the data and the error of every combination.

        Args:
            ax: Matplotlib axes to draw into; by default those of a new figure.

        Returns:
            The axes.
        """
        axes = new_axes(ax)
        places = np.arange(len(self.combinations))[::-1]
        for place, c in zip(places, self.combinations, strict=True):
            axes.barh(place, c.share, 0.4, color=_COLOURS[c.outcome], label=c.outcome)
            # Names of combinations are long: above the bars there is room for them.
            axes.text(0.0, place + 0.24, plain(c.text), va="bottom", ha="left")
            axes.text(1.02, place, f"off by {c.error**0.5:.2g} σ", va="center", ha="left")
        axes.set_yticks([])
        axes.set_ylim(-0.5, len(places) - 0.25)
        axes.set_xlim(0.0, 1.0)
        axes.set_xlabel(f"share of the data in what is known; the rest is {self.prior}")
        handles, labels = axes.get_legend_handles_labels()
        first = dict(zip(labels, handles, strict=True))
        axes.legend(first.values(), first, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)
        return axes

    def _rows(self) -> list[tuple[str, str, str, str]]:
        return [
            (c.text, f"{c.strength} ({c.share:.0%})", f"{c.error**0.5:.2g} σ", c.outcome) for c in self.combinations
        ]

    def __str__(self) -> str:
        head = ("combination", "constrained by the data", "off by", "outcome")
        lines = columns([head, *self._rows()])
        return "\n".join([f"under {self.prior}: {self.outcome}; error {self.error:.2g}", *lines, *self.findings])

    def __repr__(self) -> str:
        return f"Constraints({', '.join(self.names)}; {self.outcome}; error {self.error:.2g})"

    def _repr_html_(self) -> str:
        return html_table(repr(self), [(row[0], ", ".join(row[1:])) for row in self._rows()])


def _directions(
    names: tuple[str, ...], scale: np.ndarray, information: np.ndarray, error: np.ndarray, precision: np.ndarray
) -> tuple[Combination, ...]:
    """Return the combinations for matrices in units of ``scale``."""
    root = np.linalg.cholesky(np.linalg.inv(precision))
    shares, vectors = np.linalg.eigh(root.T @ (information + information.T) @ root / 2)
    found = []  # from the best constrained to the least
    for f, w in zip(np.maximum(shares[::-1], 0.0), vectors.T[::-1], strict=True):
        v = root @ w
        found.append(
            Combination(
                direction=_with_largest_one(v * scale),
                text=written_direction(v * scale, scale, names),
                share=float(f / (1 + f)),
                error=float(max(v @ error @ v, 0.0) / (f + 1)),
            )
        )
    return tuple(found)


def _with_largest_one(direction: np.ndarray) -> np.ndarray:
    """Scale a direction so that its largest component is 1 or −1; the first that is not small is positive."""
    direction = direction / np.abs(direction).max()
    first = direction[np.abs(direction) > 0.1][0]
    return direction if first > 0 else -direction


def cure(prior: str) -> str:
    """Say what kind of prior would help where the data do not."""
    return f"a {'' if prior == TRAINING_RANGE else 'narrower '}prior on one of these parameters"


def advice(error: float, num_simulations: int) -> str:
    """Say what would help a fit that is off by so much: how many simulations, or first of all a narrower range."""
    factor = error / _AIM
    number = f"some {_round_up(factor * num_simulations):,} simulations"
    have = f"(there are {num_simulations:,})"
    if factor > _HOPELESS:
        return f"a narrower range around the observation, since {number} would be needed {have}"
    return f"{number} {have}, or a narrower range around the observation"


def written_direction(direction: np.ndarray, scale: np.ndarray, names: Sequence[str]) -> str:
    """Write down a direction: its largest components in units of ``scale``, and no others."""
    direction = _with_largest_one(direction)
    size = np.abs(direction) / scale
    order = [i for i in np.argsort(-size)[:_MOST_TERMS] if size[i] > 0.05 * size.max()]
    terms = [f"{direction[i]:+.2g} {names[i]}" for i in sorted(order)]
    return names[order[0]] if len(terms) == 1 else " ".join(terms)


def _listed(combinations: Sequence[Combination]) -> str:
    """Name combinations, and how many more there are."""
    more = len(combinations) - _MOST_NAMED
    text = "; ".join(c.text for c in combinations[:_MOST_NAMED])
    return text + (f"; and {more} more" if more > 0 else "")


def _round_up(number: float) -> int:
    """Round up to one digit and a half."""
    unit = 10 ** max(int(np.floor(np.log10(max(number, 1.0)))), 0) / 2
    return int(np.ceil(number / unit) * unit)
