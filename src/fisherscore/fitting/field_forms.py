"""Which closed forms are tried on summaries of maps and series: by kind of summary, and condensed."""

from collections.abc import Sequence

import numpy as np

from ..potentials.base import Fitter
from ..potentials.closed_forms import CLOSED_FORMS
from ..potentials.condensed import CondensedFitter, PartFitter, PowerFitter
from ..summaries.base import Block
from ..summaries.learned import LEARNED

# Fitted to condensed summaries; the others were hardly of more use on the fields this was tried on.
_CONDENSED_FORMS = ("location_scale",)


def field_forms(blocks: Sequence[Block], scale: np.ndarray, names: Sequence[str]) -> dict[str, Fitter]:
    """Give the closed forms to try by name, of those that are named; ``scale`` is that of every standardised summary.

    Powers get gamma distributions. Data and features as they are get every closed form that is for so many. All kinds
    that are statistics of the same pixels are condensed together, and features by themselves and with the others.
    """
    forms: dict[str, Fitter] = {}
    for block in blocks:
        start, stop = block.start, block.stop
        if block.is_power:
            forms[block.name] = PowerFitter(start, stop, tuple(map(float, scale[start:stop])))
        if block.name in _AS_THEY_ARE:
            forms |= {f"{n} of {block.name}": PartFitter(CLOSED_FORMS[n], start, stop) for n in names}
    for label, group in _groups(blocks).items():
        places = tuple(place for block in group for place in range(block.start, block.stop))
        for name in names:
            if name in _CONDENSED_FORMS:
                forms[f"{name} of {label}"] = CondensedFitter(CLOSED_FORMS[name], places)
    return forms


_AS_THEY_ARE = ("data", "series", "features", LEARNED)


def is_learned(name: str) -> bool:
    """Say whether a closed form of this name looks at what was learned."""
    return f" of {LEARNED}" in name


def may_have_network(blocks: Sequence[Block]) -> bool:
    """Say whether a network is tried: on vectors of numbers that may be no series at all, and on features alone."""
    kinds = {block.name for block in blocks}
    return "series" in kinds or kinds <= {"features", LEARNED}


def _groups(blocks: Sequence[Block]) -> dict[str, list[Block]]:
    """Put kinds together that are condensed together."""
    groups = {
        "pixels": [b for b in blocks if b.name.endswith("of pixels")],
        "mapped pixels": [b for b in blocks if b.name.endswith("of mapped")],
        "scales": [b for b in blocks if b.name in ("cascade of pixels", "power of pixels", "moments of pixels")],
        "places": [b for b in blocks if b.name == "means of blocks"],
        # Not called like the features as they are, of which there are closed forms by themselves.
        "condensed features": [b for b in blocks if b.name == "features"],
    }
    if groups["condensed features"] and groups["pixels"]:
        groups["features and pixels"] = groups["condensed features"] + groups["pixels"]
    learned = [b for b in blocks if b.name == LEARNED]
    if learned and any(groups.values()):
        groups[f"{LEARNED} and others"] = [
            *learned,
            *groups["pixels"],
            *groups["mapped pixels"],
            *groups["places"],
            *groups["condensed features"],
        ]
    return {label: group for label, group in groups.items() if group}
