"""Numbers as people type them.

In:  the text of an option.   Out: the number, or numbers with commas between; else why not, and how to write it.
Does not know what range an option has, except where Typer was told one: the library says that.

Options that several commands share, said once.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from bayesgram.choices import FILE_PREFIX, NAMED_TOKENIZERS, EngineName, TokenizerKind
from bayesgram.errors import UsageError
from bayesgram.privacy.unit import DEFAULT_UNIT

if TYPE_CHECKING:
    from bayesgram.text.tokenizer import Tokenizer

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
    bayesgram.cli.options.NotANumberError: '0,5' is no number; a decimal is written with a point: 0.5.
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
        raise UsageError(
            f"{name}={text!r}: give {kind} separated by commas, such as {such_as}."
        ) from None


def separated(text: str) -> str | None:
    """The digits of a number in groups of three, such as 1,000; None where it is not.

    >>> separated("1,000"), separated("1.000.000"), separated("1000")
    ('1000', '1000000', None)
    """
    text = text.strip()
    return re.sub("[^0-9+-]", "", text) if _SEPARATED.fullmatch(text) else None


def _next_step(text: str, kind: type[float]) -> str:
    text = text.strip()
    number, percent, rest = (
        text.rstrip("%").replace(",", ".", 1),
        text.endswith("%"),
        text.count(","),
    )
    digits = separated(text)
    if digits:
        comma = (
            f" (or {number}, if the comma is a decimal point)"
            if kind is float and rest == 1
            else ""
        )
        return f"{PLAIN}: {digits}{comma}"
    if kind is int:
        return "give one such as 3"
    if percent and re.fullmatch(r"[0-9]+(\.[0-9]+)?", number):
        return f"a share is written as a decimal: {(Decimal(number) / 100).normalize():f}"
    if re.fullmatch(r"[+-]?[0-9]*\.[0-9]+(e[+-]?[0-9]+)?", number, re.IGNORECASE):
        return f"{DECIMAL}: {number}"
    power = re.fullmatch(r"10(?:\^|\*\*)([+-]?[0-9]+)", text)
    return f"write 1e{power[1]}" if power else "give one such as 0.5"


Public = Annotated[
    list[str],
    typer.Argument(
        metavar="PUBLIC...",
        help="Files, folders or quoted glob patterns; several sources are NAME=PATH each.",
        show_default=False,
    ),
]
Private = Annotated[
    list[str],
    typer.Argument(
        metavar="PRIVATE...", help="Files, folders or quoted glob patterns.", show_default=False
    ),
]
Counts = Annotated[
    Path,
    typer.Argument(
        metavar="COUNTS",
        help="A counts folder, or a Parquet file of user, ngram, count.",
        show_default=False,
    ),
]
Vocab = Annotated[
    Path, typer.Option("--vocab", help="The vocabulary (vocab.parquet).", show_default=False)
]
TextColumn = Annotated[str, typer.Option(help="The column that holds the text.")]
UserColumn = Annotated[str, typer.Option(help="The column that holds the user's id.")]
By = Annotated[
    str | None,
    typer.Option(
        help="Count by the segments in this column, such as a country or a language.",
        show_default=False,
    ),
]
SegmentNames = Annotated[
    str | None,
    typer.Option(
        "--segments",
        metavar="LIST",
        help="The public list of segments for --by: names with commas, or a file with one on each line.",
        show_default=False,
    ),
]
Other = Annotated[
    bool,
    typer.Option(
        "--other", help="Rows of no listed segment are a segment of their own, instead of an error."
    ),
]
Output = Annotated[
    Path, typer.Option("--output", "-o", help="Where the result goes.", show_default=False)
]
Force = Annotated[bool, typer.Option("--force", help="Replace the output if it exists.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, for machines.")]
SkipBadRows = Annotated[
    bool,
    typer.Option(
        "--skip-bad-rows", help="Count and skip rows that can't be read, instead of stopping."
    ),
]
TokenizerOption = Annotated[
    str | None,
    typer.Option(
        "--tokenizer",
        help=f"How text is cut (docs/text.md): {', '.join(NAMED_TOKENIZERS)} or {FILE_PREFIX}PATH, a tokenizer.json.",
        show_default="words",
    ),
]
KeepCase = Annotated[
    bool | None,
    typer.Option(
        "--keep-case/--lower-case",
        help="Whether case matters.",
        show_default="as usual for the tokenizer",
    ),
]
Epsilon = Annotated[
    float | None, typer.Option(help="Required: ε, how much one user may show.", show_default=False)
]
Delta = Annotated[
    float | None,
    typer.Option(help="δ: far below 1/(number of users).", show_default="1e-7 where it is used"),
]
LedgerFile = Annotated[
    Path | None,
    typer.Option(
        "--ledger",
        help="Charge this ledger; refused if it would overspend (docs/ledger.md).",
        show_default=False,
    ),
]
Unit = Annotated[
    str | None,
    typer.Option(
        help='What one user id stands for, in your words, for the card and the ledger: "a user\'s week", "a post".',
        show_default=DEFAULT_UNIT,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Check everything and say what would be charged; spend, draw and write nothing.",
    ),
]
Memory = Annotated[
    str,
    typer.Option(
        help="What is being counted may take this much; the rest is spilled to disk. From 100MB."
    ),
]
Engine = Annotated[EngineName, typer.Option(help="Where the work is done (docs/spark.md).")]
Master = Annotated[
    str | None,
    typer.Option(help="Spark's master URL.", show_default="Spark's own setting, or this machine"),
]


@dataclass(frozen=True)
class Work:
    """Where text is counted, and in how much memory."""

    memory: Memory = "1GB"
    engine: Engine = EngineName.LOCAL
    master: Master = None

    @property
    def room(self) -> int:
        """Bytes."""
        return memory(self.memory)


@dataclass(frozen=True)
class Cut:
    """How text is cut, where that is said."""

    tokenizer: TokenizerOption = None
    keep_case: KeepCase = None

    @property
    def named(self) -> "Tokenizer":
        """The tokenizer that the options name, or the usual one."""
        return tokenizer(self.tokenizer, keep_case=self.keep_case)

    @property
    def stated(self) -> "Tokenizer | None":
        """The same, where anything is said."""
        return None if self.tokenizer is None and self.keep_case is None else self.named


HERE, AS_USUAL = Work(), Cut()
Seed = Annotated[
    int | None,
    typer.Option(help="Repeatable noise, for tests: not for publication.", show_default=False),
]


def memory(text: str) -> int:
    """Bytes, from 500MB, 2GB and the like.

    >>> memory("2GB"), memory("1.5gb"), memory("100 MB")
    (2000000000, 1500000000, 100000000)
    """
    found = _bytes(text, "MG")
    if not 1e8 <= found <= 1e13:
        raise UsageError(f"memory={text!r}: give a size from 100MB to 10000GB, such as 2GB.")
    return int(found)


def size(name: str, text: str) -> int:
    """The bytes that a file may have, from 800KB, 10MB and the like.

    >>> size("max_size", "10MB"), size("max size", "1.5 kb")
    (10000000, 1500)
    """
    found = _bytes(text, "KMG")
    if not 1e3 <= found <= 1e13:
        raise UsageError(f"{name}={text!r}: give a size from 1KB to 10000GB, such as 10MB.")
    return int(found)


def _bytes(text: str, units: str) -> float:
    """A size as a number; 0 if it is none."""
    found = re.fullmatch(rf"([0-9.]+)\s*([{units}])B?", text.strip(), re.IGNORECASE)
    try:
        return float(found[1]) * {"K": 1e3, "M": 1e6, "G": 1e9}[found[2].upper()] if found else 0
    except ValueError:
        return 0


def tokenizer(kind: str | None, *, keep_case: bool | None) -> "Tokenizer":
    """The tokenizer that the options name."""
    from bayesgram.text.tokenizer import Tokenizer

    if kind is not None and kind.startswith(FILE_PREFIX):
        if keep_case is not None:
            raise UsageError(
                "tokenizer=file: the file itself says whether case matters; leave --keep-case and --lower-case out."
            )
        return Tokenizer.from_file(kind.removeprefix(FILE_PREFIX))
    named: Any = kind or TokenizerKind.WORDS  # it may be none; then that is said
    return Tokenizer(named, lowercase=None if keep_case is None else not keep_case)
