"""The [parameters] table of an analysis file, and points that are given by parameter name."""

from collections.abc import Mapping
from typing import Any

from ..errors import ArgumentError
from ..simulation.proposal import Proposal, uniform
from .document import Document, Section, WrongKind, numbers


def read_parameters(document: Document) -> Proposal:
    """Read the range and unit of every parameter."""
    section = document.section("parameters", required=True)
    ranges, units = {}, {}
    for name, value in section.tree.items():
        ranges[name] = section.take(name, _range)
        if isinstance(value, dict):
            units[name] = value.get("unit", "")
    if not ranges:
        raise section.error((), "expected at least one parameter such as amplitude = [0.0, 1.0], got none.")
    try:
        return uniform(ranges, units=units)
    except ArgumentError as error:
        raise section.error((), str(error)) from None


def _range(value: Any) -> tuple[float, float]:
    """Accept [low, high], or { range = [low, high], unit = "km" }."""
    if isinstance(value, dict):
        if not {"range"} <= value.keys() <= {"range", "unit"} or not isinstance(value.get("unit", ""), str):
            raise WrongKind('[low, high], or { range = [low, high], unit = "km" }')
        value = value["range"]
    low, high = numbers(2)(value)
    if low >= high:
        raise WrongKind("low < high")
    return low, high


def check_point(section: Section, key: str, point: Mapping[str, float], proposal: Proposal) -> None:
    """Refuse a point that does not name all parameters, or lies outside the training region."""
    if set(point) != set(proposal.names):
        raise section.error((key,), f"expected values of {', '.join(proposal.names)}, got {', '.join(point)}.")
    for name, low, high in zip(proposal.names, proposal.low, proposal.high, strict=True):
        if not low < point[name] < high:
            raise section.error(
                (key,),
                f"expected {name} inside its training region, {low:g} to {high:g}, got {point[name]:g}. "
                "Move it, or widen the range under [parameters].",
            )
