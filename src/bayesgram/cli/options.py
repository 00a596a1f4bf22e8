"""Options that several commands share, said once."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayesgram.text.kinds import TokenizerKind

if TYPE_CHECKING:
    from bayesgram.text.tokens import Tokenizer

Public = Annotated[
    list[str],
    typer.Argument(metavar="PUBLIC...", help="Files, folders or quoted glob patterns.", show_default=False),
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
Output = Annotated[Path, typer.Option("--output", "-o", help="Where the result goes.", show_default=False)]
Force = Annotated[bool, typer.Option("--force", help="Replace the output if it exists.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, for machines.")]
SkipBadRows = Annotated[
    bool, typer.Option("--skip-bad-rows", help="Count and skip rows that can't be read, instead of stopping.")
]
TokenizerOption = Annotated[
    TokenizerKind | None,
    typer.Option("--tokenizer", help="How text is cut (docs/text.md).", show_default="words"),
]
KeepCase = Annotated[
    bool | None,
    typer.Option("--keep-case/--lower-case", help="Whether case matters.", show_default="as usual for the tokenizer"),
]
Epsilon = Annotated[float | None, typer.Option(help="ε: how much one user may show.", show_default=False)]
Delta = Annotated[
    float | None, typer.Option(help="δ: far below 1/(number of users).", show_default="1e-7 where it is used")
]
Seed = Annotated[int | None, typer.Option(help="Repeatable noise, for tests: not for publication.", show_default=False)]


def tokenizer(kind: TokenizerKind | None, *, keep_case: bool | None) -> "Tokenizer":
    """The tokenizer that the options name."""
    from bayesgram.text.tokens import Tokenizer

    return Tokenizer(kind or TokenizerKind.WORDS, lowercase=None if keep_case is None else not keep_case)
