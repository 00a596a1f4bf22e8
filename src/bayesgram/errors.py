"""What goes wrong, in words for the person who can mend it.

Every message names the value, the allowed range and the next step; none of them holds user text, a user id or
an exact private count. The command line prints the message and exits with `exit_code`; no traceback is shown.
"""

import os
from operator import index
from pathlib import Path


class BayesgramError(Exception):
    """A run that failed: bad data, a full disk, an interrupted read."""

    exit_code = 1


class UsageError(BayesgramError, ValueError):
    """A request that can't be right: a value out of range, a missing column, an output that exists already."""

    exit_code = 2


def unreadable(path: str | Path, error: OSError) -> BayesgramError:
    """For a file that the system could not read: nothing is known of what it holds."""
    return BayesgramError(
        f"{path}: can't be read ({os.strerror(error.errno or 0)}); mend that, then run it again."
    )


def whole_number(name: str, value: object, low: int, high: int, meaning: str) -> int:
    """The value as an int, if it is a whole number in [low, high]; True and 2.0 are none."""
    try:
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        number = low - 1
    if isinstance(value, bool) or not low <= number <= high:
        raise UsageError(f"{name}={value}: {meaning} is a whole number from {low:,} to {high:,}.")
    return number
