"""Small tools for pictures: axes, labels that show names as they are, ellipses, and checks of what is drawn."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ArgumentError
from .arguments import as_finite, as_indices

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# How characters that mean something in mathematics are written in it; all of them are also right in LaTeX.
_IN_MATHEMATICS = {c: rf"\{c}" for c in "_%$ {}"} | {
    "#": r"{\#}",
    "&": r"\text{\&}",
    '"': r'\text{"}',
    "`": r"\text{`}",
    "^": r"\hat{\ }",
    "\\": r"{\backslash}",
}


def new_axes(ax: "Axes | None", size: tuple[float, float] = (5.5, 5.0)) -> "Axes":
    """Return the given axes, or those of a new figure that no window system knows of."""
    if ax is not None:
        return ax
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained").subplots()


def several_of(given: Any, argument: str) -> list[Any]:
    """Return one thing, or a list of things, as a list with something in it."""
    several = list(given) if isinstance(given, list | tuple) else [given]
    if not several:
        raise ArgumentError(f"{argument}: expected one or more, got an empty list.")
    return several


def pair_of(known: Sequence[str], names: Sequence[str] | None) -> list[int]:
    """Return the positions of the two parameters to draw, by default the first two."""
    if len(known) < 2:
        raise ArgumentError(
            f"names: two parameters are drawn against each other, but there is only {known[0]!r}. Print the result "
            "instead: its value and error say all."
        )
    if names is None:
        return [0, 1]
    chosen = [names] if isinstance(names, str) or not isinstance(names, Iterable) else list(names)
    if len(chosen) != 2:
        raise ArgumentError(f"names: expected two parameter names of {', '.join(known)}; got {names!r}.")
    return as_indices(chosen, known)


def matrices_of(exact: Any, num: int, num_parameters: int) -> list[np.ndarray | None]:
    """Return one matrix for each forecast, or None for each; for one forecast the matrix may come alone."""
    if exact is None:
        return [None] * num
    matrices = as_finite(exact, "exact")
    if matrices.ndim == 2 and num == 1:
        matrices = matrices[None]
    if matrices.shape != (num, num_parameters, num_parameters):
        raise ArgumentError(
            f"exact: expected one matrix of shape ({num_parameters}, {num_parameters}) for each of {num} forecasts, "
            f"got shape {matrices.shape}."
        )
    return list(matrices)


def labels_of(labels: Any, num: int) -> list[str] | None:
    """Return one label for each of ``num`` things, or None."""
    if labels is None:
        return None
    given = [labels] if isinstance(labels, str) or not isinstance(labels, Iterable) else list(labels)
    if isinstance(labels, str) or len(given) != num or not all(isinstance(label, str) for label in given):
        raise ArgumentError(f"labels: expected a list of {num} texts, one per posterior; got {labels!r}.")
    return [legend_label(label) for label in given]


def losses_of(provenance: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the training loss and the held-out loss of every epoch, the latter NaN where there is none."""
    if not isinstance(provenance, Mapping):
        raise ArgumentError(
            f"provenance: expected that of a trained model, got {type(provenance).__name__}. Pass model.provenance."
        )
    if "loss" not in provenance:
        raise ArgumentError("provenance: this model was fitted in closed form and has no loss curve.")
    loss = np.asarray(provenance["loss"], float)
    held_out = provenance.get("held_out_loss")
    return loss, np.full(loss.shape, np.nan) if held_out is None else np.asarray(held_out, float)


def axis_label(model: Any, index: int) -> str:
    """Name a parameter with its unit, as an axis label."""
    unit = f" [{model.units[index]}]" if model.units[index] else ""
    return plain(model.names[index] + unit)


def label_pair(ax: "Axes", names: Sequence[str], chosen: Sequence[int]) -> None:
    """Label both axes with the names of the parameters drawn."""
    ax.set(xlabel=plain(names[chosen[0]]), ylabel=plain(names[chosen[1]]))


def plain(text: str) -> str:
    """Have a dollar sign shown, not read as mathematics."""
    return text.replace("$", r"\$")


def mathematics(name: str, unit: str) -> str:
    r"""Write a plain name as text inside the mathematics GetDist puts around labels.

    >>> mathematics("a_1", "m^2")
    '\\mathrm{a\\_1\\ [m\\hat{\\ }2]}'
    """
    text = name + (f" [{unit}]" if unit else "")
    label = rf"\mathrm{{{''.join(_IN_MATHEMATICS.get(c, c) for c in text)}}}"
    # Should Matplotlib find something else in it, letters and digits will do.
    return label if can_be_drawn(f"${label}$") else rf"\mathrm{{{''.join(c if c.isalnum() else '.' for c in text)}}}"


def legend_label(text: str) -> str:
    r"""Return a user's label, with the mathematics between its dollar signs if there is any that can be drawn.

    >>> legend_label(r"$\alpha$ of A"), legend_label(r"$\frac{a$")
    ('$\\alpha$ of A', '\\$\\frac{a\\$')
    """
    return text if can_be_drawn(text) else plain(text)


def can_be_drawn(text: str) -> bool:
    """Say whether Matplotlib can read the mathematics of a text."""
    from matplotlib.mathtext import MathTextParser

    if text.replace(r"\$", "").count("$") % 2:
        return True  # shown as it is
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            MathTextParser("path").parse(text)
    except ValueError:
        return False
    return True


def getdist_names(names: Sequence[str]) -> list[str]:
    """Make names that GetDist allows, all different."""
    allowed: list[str] = []
    for name in names:
        usable = "".join("_" if c.isspace() or c in "*?" else c for c in name)
        while usable in allowed:
            usable += "_"
        allowed.append(usable)
    return allowed


def legend_above(ax: "Axes") -> None:
    """Put the legend above the picture."""
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)


def ellipse(centre: np.ndarray, covariance: np.ndarray, level: float) -> np.ndarray:
    """Return the points of an error ellipse that spans ``level`` standard deviations, shape (2, points)."""
    angle = np.linspace(0, 2 * np.pi, 200)
    return centre[:, None] + level * np.linalg.cholesky(covariance) @ np.stack([np.cos(angle), np.sin(angle)])
