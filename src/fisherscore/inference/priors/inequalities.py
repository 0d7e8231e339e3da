"""Linear inequalities over named parameters, written as text or as a matrix: the faces of a region that is no box."""

import ast
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._support.arguments import as_finite
from ...errors import ArgumentError

_EXAMPLE = 'such as "a + 2*b <= 1"'


def rows_of(where: Any, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return A and b of A θ ≤ b, shapes (m, p) and (m,), from one text, several, or a pair (A, b)."""
    if isinstance(where, str):
        where = [where]
    if isinstance(where, Sequence) and where and all(isinstance(text, str) for text in where):
        rows = [row for text in where for row in _parsed(text, names)]
        matrix, bounds = (np.array(side) for side in zip(*rows, strict=True))
    elif isinstance(where, Sequence) and len(where) == 2:
        matrix, bounds = np.atleast_2d(as_finite(where[0], "where")), np.atleast_1d(as_finite(where[1], "where"))
    else:
        raise ArgumentError(
            f"where: expected inequalities as text {_EXAMPLE}, a pair (A, b) for A θ ≤ b, or a function, got {where!r}."
        )
    if matrix.ndim != 2 or matrix.shape != (len(bounds), len(names)):
        raise ArgumentError(
            f"where: expected A of shape (m, {len(names)}) and b of shape (m,) for the parameters {', '.join(names)}, "
            f"got {matrix.shape} and {bounds.shape}."
        )
    if not (matrix != 0).any(axis=1).all():
        raise ArgumentError("where: one of the inequalities has no parameter in it. Leave it out.")
    return matrix, bounds


def _parsed(text: str, names: Sequence[str]) -> list[tuple[np.ndarray, float]]:
    """Read one text, which may be a chain such as "a <= b <= c"."""
    # Names may be no Python identifiers: they are replaced, longest first, by ones that are.
    code = text
    for i in sorted(range(len(names)), key=lambda i: -len(names[i])):
        if not names[i].isidentifier():
            code = code.replace(names[i], f"_p{i}_")
    known = {name if name.isidentifier() else f"_p{i}_": i for i, name in enumerate(names)}
    try:
        tree = ast.parse(code.strip(), mode="eval").body
        if not isinstance(tree, ast.Compare):
            raise _NotLinear("it has no <= or >=")
        sides = [_linear(side, known) for side in (tree.left, *tree.comparators)]
    except (SyntaxError, _NotLinear) as problem:
        why = "not an inequality" if isinstance(problem, SyntaxError) else str(problem)
        raise ArgumentError(
            f"where: expected linear inequalities of {', '.join(names)} {_EXAMPLE}, got {text!r}: {why}."
        ) from None
    rows = []
    for operator, left, right in zip(tree.ops, sides[:-1], sides[1:], strict=True):
        if not isinstance(operator, ast.LtE | ast.Lt | ast.GtE | ast.Gt):
            raise ArgumentError(f"where: expected <= or >= between two sides, got {text!r}.")
        difference = left - right if isinstance(operator, ast.LtE | ast.Lt) else right - left
        rows.append((difference[:-1], -float(difference[-1])))
    return rows


class _NotLinear(Exception):
    """Something stands in an inequality that is not linear."""


def _linear(node: ast.expr, known: dict[str, int]) -> np.ndarray:
    """Return the coefficients of a linear expression and, last, its constant."""
    out = np.zeros(len(known) + 1)
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and math.isfinite(node.value):
        out[-1] = node.value
        return out
    if isinstance(node, ast.Name):
        if node.id not in known:
            raise _NotLinear(f"{node.id!r} is no parameter")
        out[known[node.id]] = 1.0
        return out
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        inner = _linear(node.operand, known)
        return -inner if isinstance(node.op, ast.USub) else inner
    if isinstance(node, ast.BinOp):
        left, right = _linear(node.left, known), _linear(node.right, known)
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.Mult) and not (left[:-1].any() and right[:-1].any()):
            return left[-1] * right if not left[:-1].any() else right[-1] * left
        if isinstance(node.op, ast.Div) and not right[:-1].any() and right[-1] != 0:
            return left / right[-1]
    raise _NotLinear("only sums of numbers times parameters are understood")
