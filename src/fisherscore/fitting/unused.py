"""A learned summary that no member of a fit looks at is taken out of the model again: it would be computed in vain."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import numpy as np

from ..potentials.condensed import Condensed
from ..potentials.stack import Stack
from ..simulation.stores import MemoryStore
from .assemble import FunctionFit
from .embed import Summaries
from .field_forms import is_learned

USED = "learned_summary_used"


def without_unused(summaries: Summaries, fitted: FunctionFit) -> tuple[Summaries, FunctionFit]:
    """Take a learned summary out where the others do without it, and say whether it is used."""
    if summaries.learned is None:
        return summaries, fitted
    weights = fitted.details.get("weights")
    used = not weights or summaries.fixed is None or any(w for name, w in weights.items() if is_learned(name))
    fitted = replace(fitted, details=fitted.details | {USED: used})
    function = fitted.function
    if used or not isinstance(function, Stack) or not all(isinstance(m, Condensed) for m in function.members):
        return summaries, fitted
    assert summaries.fixed is not None
    return Summaries(summaries.fixed), _of_first(fitted, function, summaries.fixed.num_summaries)


def _of_first(fitted: FunctionFit, stack: Stack, num: int) -> FunctionFit:
    """Make of a function of many summaries, which looks at the first alone, one of these."""
    known: Any = stack.members
    members = [eqx.tree_at(lambda m: m.matrix, member, member.matrix[:num]) for member in known]
    weights = np.asarray(stack.weights).tolist()
    standardizer = fitted.standardizer
    records = fitted.sims.store.records
    return replace(
        fitted,
        function=Stack.of(members, weights, (len(fitted.sims.proposal.names), num)),
        standardizer=replace(standardizer, x_centre=standardizer.x_centre[:num], x_scale=standardizer.x_scale[:num]),
        sims=replace(fitted.sims, store=MemoryStore(replace(records, x=records.x[:, :num]))),
    )
