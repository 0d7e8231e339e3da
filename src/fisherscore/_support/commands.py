"""Errors of commands, told in few lines: tracebacks are for those who ask for them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from ..errors import FisherScoreError

# Set to anything but 0, errors of commands come with their traceback; --debug sets it.
DEBUG = "FISHERSCORE_DEBUG"
FAILED, INTERRUPTED = 1, 130
_MOST_CHARACTERS = 300
# How a command ends or says that it was called wrongly: classes of Click or, in later versions of Typer, its own.
_OF_THE_COMMAND_LINE: tuple[type[BaseException], ...] = (
    typer.Exit,
    typer.Abort,
    *(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"),
)


@contextmanager
def told_errors() -> Iterator[None]:
    """Print errors of the package and of the file system as one line, and say of others how to report them."""
    try:
        yield
    except _OF_THE_COMMAND_LINE:
        raise
    except KeyboardInterrupt:
        typer.echo("fisherscore: stopped. What is done is kept; the same command goes on from here.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:
        if os.environ.get(DEBUG, "") not in ("", "0"):
            raise
        known = isinstance(error, FisherScoreError | OSError)
        typer.echo(f"fisherscore: {error}" if known else unexpected(error), err=True)
        raise typer.Exit(FAILED) from None


def unexpected(error: Exception) -> str:
    """Say in few lines what nobody expected, and what to do about it.

    >>> print(unexpected(ValueError("a\\nb")).splitlines()[0])
    fisherscore: unexpected ValueError: a b
    """
    try:
        text = " ".join(str(error).split())[:_MOST_CHARACTERS]
    except Exception as second:  # noqa: BLE001  the user's own classes may do anything
        text = f"its text cannot be shown ({type(second).__name__})"
    return (
        f"fisherscore: unexpected {type(error).__name__}{': ' if text else ''}{text}\n"
        "This is a fault of fisherscore, or of code it was given. To see where it comes from, run the same command as "
        f"fisherscore --debug ... (or set {DEBUG}=1). If it is not your own code, please report what it then prints, "
        "with the command, to those who make fisherscore."
    )
