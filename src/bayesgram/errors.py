"""Errors that say what is wrong and what to do next.

Every message names the value, the allowed range and the next step. No message holds user text, a
user id or an exact private count. The command line prints the message without a traceback and
exits with `exit_code`.

A message may mention arguments of the Python call, which the command line has under other names
(`max_new=0` is `--max-new 0`). So an error is a sequence of parts: plain text, and an `Argument`
wherever one is mentioned. `str(error)` shows arguments as Python writes them, and
`error.render(show)` shows each as `show(argument)` says. A log message does the same with
an `Argument` among its values: `logger.warning("… %s …", Argument("by"))`.

>>> error = UsageError.for_argument("by", "'x'", "name the ", Argument("segments"), " too.")
>>> print(error)
by='x': name the `segments` too.
>>> error.render(lambda argument: f"--{argument.name}")
'--by: name the --segments too.'
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import Self


@dataclass(frozen=True)
class Argument:
    """An argument that a message mentions.

    >>> print(Argument("size", "5"), Argument("force", "True"), Argument("ledger"))
    size=5 force=True `ledger`
    """

    name: str  # of the parameter in Python
    value: str | None = None  # as the message shows it; None if only the name is mentioned

    def __str__(self) -> str:
        return f"`{self.name}`" if self.value is None else f"{self.name}={self.value}"


class BayesgramError(Exception):
    """A run that failed: bad data, a full disk, an interrupted read.

    Args:
        *parts: The message, in pieces: text, and the arguments that it mentions.

    >>> print(BayesgramError("give a smaller ", Argument("order"), "."))
    give a smaller `order`.
    """

    exit_code = 1

    def __init__(self, *parts: str | Argument) -> None:
        super().__init__(*parts)  # `args` has all parts, so that the error can be pickled
        self.parts = parts

    @classmethod
    def for_argument(cls, name: str, value: object, *reason: str | Argument) -> Self:
        """Return the error "name=value: reason", about one argument.

        Args:
            name: The name of the parameter in Python.
            value: What was given, shown as `str(value)`; format it before where `str` won't do.
            *reason: What is wrong with it and what to do, in text and arguments.
        """
        return cls(Argument(name, str(value)), ": ", *reason)

    def __str__(self) -> str:
        return self.render(str)

    def render(self, show: Callable[[Argument], str]) -> str:
        """Return the message, with each argument as `show` writes it."""
        return "".join(show(part) if isinstance(part, Argument) else part for part in self.parts)


class UsageError(BayesgramError, ValueError):
    """A request that can't be right: a value out of range, a missing column, an existing output.

    >>> UsageError.exit_code, issubclass(UsageError, BayesgramError)
    (2, True)
    """

    exit_code = 2


def unreadable_error(path: str | Path, error: OSError) -> BayesgramError:
    """Return the error for a file that the system could not read."""
    return BayesgramError(
        f"{path}: can't be read ({os.strerror(error.errno or 0)}); mend that, then run it again."
    )


def check_int(name: str, value: object, low: int, high: int, meaning: str) -> int:
    """Return a value as an int, if it is a whole number in a range.

    Args:
        name: The name of the parameter, for the message.
        value: An int, or what NumPy has for one; neither True nor 2.0.
        low: The smallest value that is allowed.
        high: The largest value that is allowed.
        meaning: What the number is, for the message ("the number of rounds").

    Raises:
        UsageError: If it is no whole number from `low` to `high`.
    """
    if hasattr(value, "__index__") and not isinstance(value, bool) and low <= index(value) <= high:
        return index(value)
    raise UsageError.for_argument(
        name, value, f"{meaning} is a whole number from {low:,} to {high:,}."
    )


def check_float(name: str, value: float, low: float, high: float, meaning: str) -> float:
    """Return a number, if it is in a range.

    Args:
        name: The name of the parameter, for the message.
        value: The number.
        low: The smallest value that is allowed.
        high: The largest value that is allowed.
        meaning: What the number is, for the message.

    Raises:
        UsageError: If it is not from `low` to `high`.
    """
    if low <= value <= high:
        return float(value)
    raise UsageError.for_argument(name, value, f"{meaning} is a number from {low:g} to {high:g}.")
