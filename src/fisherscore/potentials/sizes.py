"""How large a function would be, told from its description alone: before anything in it is enumerated or made.

A description comes from a file, and may ask for a polynomial of degree a million. What is counted here are arrays that
the function would have in any case, so that one which asks for more numbers than its file holds is refused at once.
"""

import itertools
import math
from collections.abc import Mapping
from typing import Any

from .base import ARCHITECTURES

# Bounds far above any real function: no closed form has polynomials of more than 300 terms or of a degree above 10.
_MOST_MEMBERS, _DEEPEST = 64, 3
_LARGEST_DEGREE, _MOST_TERMS, _MOST_EXPONENTS = 20, 2_000, 4_000_000
_LARGEST_SIZE = 1_000_000
_SIZES = ("num_features", "num_components", "num_knots", "num_summaries")


def check_description(description: Any, num_parameters: int, data_size: int, most_numbers: int) -> None:
    """Raise ValueError unless a description is well formed, and of no more numbers than are there."""
    num_members = _check(description, num_parameters, data_size, most_numbers, 0)
    if num_members > _MOST_MEMBERS:
        raise ValueError(f"it has {num_members} members, more than {_MOST_MEMBERS}")


def _check(description: Any, num_parameters: int, data_size: int, most_numbers: int, depth: int) -> int:
    """Check one function and those it is made of; return their number."""
    if not isinstance(description, Mapping) or depth > _DEEPEST:
        raise ValueError("it is no description of a function, or one inside too many others")
    architecture, settings = description.get("architecture"), description.get("settings")
    if not isinstance(architecture, str) or architecture not in ARCHITECTURES:
        raise ValueError(f"unknown architecture {str(architecture)[:60]!r}. Known: {', '.join(ARCHITECTURES)}")
    if not isinstance(settings, Mapping):
        raise ValueError("the network's settings are missing or damaged")
    inner: list[Any] = []
    for name, value in settings.items():
        if name in ("members", "inner"):
            inner += value if isinstance(value, list) else [value]
        elif not (_are_places(value, data_size) if name == "places" else _is_size(value)):
            raise ValueError("the network's settings are missing or damaged")
    if len(inner) > _MOST_MEMBERS:
        raise ValueError(f"it has more than {_MOST_MEMBERS} members")
    least = _least_numbers(architecture, settings, num_parameters, data_size)
    if least > most_numbers:
        raise ValueError(f"it asks for {least:,} weights or more, there are {most_numbers:,}")
    inner_size = settings.get("num_summaries", data_size)
    if not isinstance(inner_size, int):
        raise ValueError("num_summaries is no number")
    return 1 + sum(_check(each, num_parameters, inner_size, most_numbers, depth + 1) for each in inner)


def _is_size(value: Any) -> bool:
    sizes = value if isinstance(value, list) else [value]
    return len(sizes) <= 64 and all(type(n) is int and 0 <= n <= _LARGEST_SIZE for n in sizes)


def _are_places(value: Any, data_size: int) -> bool:
    """Say whether these are places of some of the data, in their order."""
    if not isinstance(value, list) or not all(type(n) is int and 0 <= n < data_size for n in value):
        return False
    return all(a < b for a, b in itertools.pairwise(value))


def _least_numbers(architecture: str, settings: Mapping[str, Any], num_parameters: int, data_size: int) -> int:
    """Count numbers that a function would have at least."""
    counts = [0]
    for name in ("degree", "mixing_degree"):
        if name in settings:
            counts.append(_num_terms(num_parameters, settings[name]) * data_size ** (1 if name == "degree" else 2))
    for name in _SIZES:
        value = settings.get(name, 0)
        if not isinstance(value, int):
            raise ValueError(f"{name} is no number")
        counts.append(value * (1 if name == "num_features" else data_size))
    hidden = settings.get("hidden", [])
    if not isinstance(hidden, list):
        raise ValueError("the hidden sizes are no list")
    if hidden:
        # Every datum of a mixture density has a network of its own.
        copies = data_size if architecture == "mixture_density" else 1
        outputs = max(1, *(settings.get(name, 0) for name in _SIZES))
        widths = [max(num_parameters, data_size), *hidden, outputs]
        counts.append(copies * sum(a * b for a, b in itertools.pairwise(widths)))
    return max(counts)


def _num_terms(num_parameters: int, degree: Any) -> int:
    """Count the terms of a polynomial, where they may be enumerated."""
    if not isinstance(degree, int) or degree > _LARGEST_DEGREE:
        raise ValueError(f"it has a polynomial of degree {degree}, more than {_LARGEST_DEGREE}")
    num = math.comb(num_parameters + degree, degree)
    if num > max(_MOST_TERMS, num_parameters + 1) or num * num_parameters > _MOST_EXPONENTS:
        raise ValueError(f"it has a polynomial of degree {degree} in {num_parameters} parameters: {num:,} terms")
    return num
