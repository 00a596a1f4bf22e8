"""Numbers as people type them.

In:  the text of an option.   Out: the number, or numbers with commas between; else why not, and how to write it.
Does not know what range an option has, except where Typer was told one: the library says that.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeVar

from bayesgram.errors import UsageError

Number = TypeVar("Number", int, float)

DECIMAL = "a decimal is written with a point"
PLAIN = "a number is written without separators"
LARGEST = 18  # exponent of a whole number that is written with one
_SEPARATED = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:([,.' \u00a0\u202f])[0-9]{3})(?:\1[0-9]{3})*")
_WITH_EXPONENT = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?[eE]\+?([0-9]{1,2})")


class NotANumberError(ValueError):
    """Why a text is no number, and what to write instead."""


def whole(text: str) -> int:
    """A whole number; 1e6 is one.

    >>> whole("1e6"), whole("1_000")
    (1000000, 1000)
    """
    try:
        return int(text)
    except ValueError:
        found = _WITH_EXPONENT.fullmatch(text.strip())
    if found and int(found[1]) <= LARGEST and (value := Decimal(text)) == int(value):
        return int(value)
    raise NotANumberError(f"{text!r} is no whole number; {_next_step(text, int)}.")


def real(text: str) -> float:
    """Any number; which may be nan or infinite, since the library says what range it wants.

    >>> real("0,5")
    Traceback (most recent call last):
    bayesgram.cli.numbers.NotANumberError: '0,5' is no number; a decimal is written with a point: 0.5.
    """
    try:
        return float(text)
    except ValueError:
        raise NotANumberError(f"{text!r} is no number; {_next_step(text, float)}.") from None


READERS: dict[Any, Callable[[str], float]] = {int: whole, float: real}


def several(name: str, text: str, read: Callable[[str], Number], such_as: str) -> list[Number]:
    """Numbers with commas between them, of the option that Python calls so."""
    try:
        return [read(part) for part in text.split(",")]
    except NotANumberError:
        kind = "whole numbers" if read is whole else "numbers"
        raise UsageError(f"{name}={text!r}: give {kind} separated by commas, such as {such_as}.") from None


def separated(text: str) -> str | None:
    """The digits of a number in groups of three, such as 1,000; None where it is not.

    >>> separated("1,000"), separated("1.000.000"), separated("1000")
    ('1000', '1000000', None)
    """
    text = text.strip()
    return re.sub("[^0-9+-]", "", text) if _SEPARATED.fullmatch(text) else None


def _next_step(text: str, kind: type[float]) -> str:
    text = text.strip()
    number, percent, rest = text.rstrip("%").replace(",", ".", 1), text.endswith("%"), text.count(",")
    digits = separated(text)
    if digits:
        comma = f" (or {number}, if the comma is a decimal point)" if kind is float and rest == 1 else ""
        return f"{PLAIN}: {digits}{comma}"
    if kind is int:
        return "give one such as 3"
    if percent and re.fullmatch(r"[0-9]+(\.[0-9]+)?", number):
        return f"a share is written as a decimal: {(Decimal(number) / 100).normalize():f}"
    if re.fullmatch(r"[+-]?[0-9]*\.[0-9]+(e[+-]?[0-9]+)?", number, re.IGNORECASE):
        return f"{DECIMAL}: {number}"
    power = re.fullmatch(r"10(?:\^|\*\*)([+-]?[0-9]+)", text)
    return f"write 1e{power[1]}" if power else "give one such as 0.5"
