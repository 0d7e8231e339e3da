"""Check every array shape the package states while the tests run.

Only functions that state a shape are checked: the public ones without look at their arguments themselves, and it is
their messages that the tests want to see.
"""

import typing

from beartype import beartype
from jaxtyping import install_import_hook


def states_a_shape(annotation):
    """Say whether an annotation, or a part of it, is an array shape."""
    parts = (annotation, *typing.get_args(annotation))
    return any(getattr(part, "__module__", "") == "jaxtyping" for part in parts)


def check_shapes(function):
    """Check the arguments of a function if it states an array shape."""
    annotations = getattr(function, "__annotations__", {}).values()
    return beartype(function) if any(map(states_a_shape, annotations)) else function


install_import_hook("fisherscore", "conftest.check_shapes")
