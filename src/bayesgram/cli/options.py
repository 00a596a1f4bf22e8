"""Options that several commands share, said once."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesgram.engines.choices import EngineName
from bayesgram.errors import UsageError
from bayesgram.privacy.unit import THESE_DATA
from bayesgram.text.kinds import FILE_PREFIX, NAMED, TokenizerKind

if TYPE_CHECKING:
    from bayesgram.text.tokens import Tokenizer

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
    typer.Argument(metavar="PRIVATE...", help="Files, folders or quoted glob patterns.", show_default=False),
]
Counts = Annotated[
    Path,
    typer.Argument(
        metavar="COUNTS", help="A counts folder, or a Parquet file of user, ngram, count.", show_default=False
    ),
]
Vocab = Annotated[Path, typer.Option("--vocab", help="The vocabulary (vocab.parquet).", show_default=False)]
TextColumn = Annotated[str, typer.Option(help="The column that holds the text.")]
UserColumn = Annotated[str, typer.Option(help="The column that holds the user's id.")]
By = Annotated[
    str | None,
    typer.Option(help="Count by the segments in this column, such as a country or a language.", show_default=False),
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
    bool, typer.Option("--other", help="Rows of no listed segment are a segment of their own, instead of an error.")
]
Output = Annotated[Path, typer.Option("--output", "-o", help="Where the result goes.", show_default=False)]
Force = Annotated[bool, typer.Option("--force", help="Replace the output if it exists.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, for machines.")]
SkipBadRows = Annotated[
    bool, typer.Option("--skip-bad-rows", help="Count and skip rows that can't be read, instead of stopping.")
]
TokenizerOption = Annotated[
    str | None,
    typer.Option(
        "--tokenizer",
        help=f"How text is cut (docs/text.md): {', '.join(NAMED)} or {FILE_PREFIX}PATH, a tokenizer.json.",
        show_default="words",
    ),
]
KeepCase = Annotated[
    bool | None,
    typer.Option("--keep-case/--lower-case", help="Whether case matters.", show_default="as usual for the tokenizer"),
]
Epsilon = Annotated[float | None, typer.Option(help="Required: ε, how much one user may show.", show_default=False)]
Delta = Annotated[
    float | None, typer.Option(help="δ: far below 1/(number of users).", show_default="1e-7 where it is used")
]
LedgerFile = Annotated[
    Path | None,
    typer.Option(
        "--ledger", help="Charge this ledger; refused if it would overspend (docs/ledger.md).", show_default=False
    ),
]
Unit = Annotated[
    str | None,
    typer.Option(
        help='What one user id stands for, in your words, for the card and the ledger: "a user\'s week", "a post".',
        show_default=THESE_DATA,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Check everything and say what would be charged; spend, draw and write nothing."),
]
Memory = Annotated[
    str, typer.Option(help="What is being counted may take this much; the rest is spilled to disk. From 100MB.")
]
Engine = Annotated[EngineName, typer.Option(help="Where the work is done (docs/spark.md).")]
Master = Annotated[
    str | None, typer.Option(help="Spark's master URL.", show_default="Spark's own setting, or this machine")
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
Seed = Annotated[int | None, typer.Option(help="Repeatable noise, for tests: not for publication.", show_default=False)]


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
    from bayesgram.text.tokens import Tokenizer

    if kind is not None and kind.startswith(FILE_PREFIX):
        if keep_case is not None:
            raise UsageError(
                "tokenizer=file: the file itself says whether case matters; leave --keep-case and --lower-case out."
            )
        return Tokenizer.from_file(kind.removeprefix(FILE_PREFIX))
    named: Any = kind or TokenizerKind.WORDS  # it may be none; then that is said
    return Tokenizer(named, lowercase=None if keep_case is None else not keep_case)
