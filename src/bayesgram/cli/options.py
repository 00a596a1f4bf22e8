"""Options that several commands share, and the parsers of their values.

Typer reads most values. Numbers are read here (`parse_int`, `parse_float`, `parse_list`), so that
the message for "0,5" or "1,000" says how to write it. Only the library knows which range a value
may have, and says so itself.

Options that always come together are the fields of a dataclass (`TokenizerOptions`,
`EngineOptions`): a command takes such a dataclass as one parameter, and `as_command` turns its
fields into options.
"""

import inspect
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from bayesgram.choices import FILE_PREFIX, NAMED_TOKENIZERS, EngineName, TokenizerKind
from bayesgram.cli import console
from bayesgram.errors import UsageError
from bayesgram.privacy.unit import DEFAULT_UNIT

if TYPE_CHECKING:
    from bayesgram.text.blocklist import Blocklist
    from bayesgram.text.tokenizer import Tokenizer

Number = TypeVar("Number", int, float)

# --- Numbers ---

USE_DECIMAL_POINT = "a decimal is written with a point"
USE_NO_SEPARATORS = "a number is written without separators"
MAX_EXPONENT = 18  # of a whole number that is written with one, such as 1e6
_GROUPS_OF_THREE = re.compile(
    r"[+-]?[1-9][0-9]{0,2}(?:([,.' \u00a0\u202f])[0-9]{3})(?:\1[0-9]{3})*"
)
_WITH_EXPONENT = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?[eE]\+?([0-9]{1,2})")
_WITH_UNIT = re.compile(r"([+-]?[0-9]{1,15}(?:\.[0-9]{1,6})?)([kKmM])")  # 20k, 1.5M
_EXPONENT_OF_UNIT = {"k": "e3", "m": "e6"}


class NotANumberError(typer.BadParameter):
    """A text that is no number; the message says what to write instead."""


def parse_int(text: str, *, minimum: int | None = None, plural: str | None = None) -> int:
    """Parse a whole number; 1e6, 20k and 1.5M are some.

    Args:
        text: What was typed.
        minimum: The smallest value that the option takes, if it has one.
        plural: The option that takes several values, to be named if `text` has a comma.

    >>> parse_int("1e6"), parse_int("1_000"), parse_int("1.5M")
    (1000000, 1000, 1500000)
    """
    try:
        number = int(text)
    except ValueError:
        number_with_exponent = text.strip()
        if unit := _WITH_UNIT.fullmatch(number_with_exponent):
            number_with_exponent = unit[1] + _EXPONENT_OF_UNIT[unit[2].lower()]
        match = _WITH_EXPONENT.fullmatch(number_with_exponent)
        value = Decimal(number_with_exponent) if match else Decimal("0.5")
        if not match or int(match[1]) > MAX_EXPONENT or value != int(value):
            raise NotANumberError(
                f"{text!r} is no whole number; {_advice(text, int)}.{_point_to(plural, text)}"
            ) from None
        number = int(value)
    if minimum is not None and number < minimum:
        raise typer.BadParameter(f"{text} is out of range; give a number from {minimum:,}.")
    return number


def parse_float(text: str, *, plural: str | None = None) -> float:
    """Parse any number. It may be nan or infinite: the library says which range it wants.

    Args:
        text: What was typed.
        plural: The option that takes several values, to be named if `text` has a comma.

    >>> parse_float("0.5"), parse_float("1e-7")
    (0.5, 1e-07)
    """
    try:
        return float(text)
    except ValueError:
        raise NotANumberError(
            f"{text!r} is no number; {_advice(text, float)}.{_point_to(plural, text)}"
        ) from None


def parse_list(
    option: str, text: str, parse: Callable[[str], Number], example: str
) -> list[Number]:
    """Parse numbers with commas between them.

    Args:
        option: The name of the option, for the message.
        text: What was typed.
        parse: `parse_int` or `parse_float`.
        example: A value that is right, for the message.

    >>> parse_list("--orders", "1,2,3", parse_int, "1,2,3")
    [1, 2, 3]
    """
    try:
        return [parse(part) for part in text.split(",")]
    except NotANumberError:
        kind = "whole numbers" if parse is parse_int else "numbers"
        raise UsageError(
            f"{option} {text!r}: give {kind} separated by commas, such as {example}."
        ) from None


def remove_separators(text: str) -> str | None:
    """Return the digits of a number in groups of three, such as 1,000; None for any other text.

    >>> remove_separators("1,000"), remove_separators("1.000.000"), remove_separators("1000")
    ('1000', '1000000', None)
    """
    text = text.strip()
    return re.sub("[^0-9+-]", "", text) if _GROUPS_OF_THREE.fullmatch(text) else None


def _point_to(plural: str | None, text: str) -> str:
    return f" Several are {plural} {text}." if plural and "," in text else ""


def _advice(text: str, kind: type[float]) -> str:
    """Say how to write what was probably meant."""
    text = text.strip()
    with_point = text.rstrip("%").replace(",", ".", 1)
    digits = remove_separators(text)
    if digits:
        may_be_decimal = kind is float and text.count(",") == 1
        comma = f" (or {with_point}, if the comma is a decimal point)" if may_be_decimal else ""
        return f"{USE_NO_SEPARATORS}: {digits}{comma}"
    if kind is int:
        return "give one such as 3"
    if text.endswith("%") and re.fullmatch(r"[0-9]+(\.[0-9]+)?", with_point):
        return f"a share is written as a decimal: {(Decimal(with_point) / 100).normalize():f}"
    if re.fullmatch(r"[+-]?[0-9]*\.[0-9]+(e[+-]?[0-9]+)?", with_point, re.IGNORECASE):
        return f"{USE_DECIMAL_POINT}: {with_point}"
    power = re.fullmatch(r"10(?:\^|\*\*)([+-]?[0-9]+)", text)
    return f"write 1e{power[1]}" if power else "give one such as 0.5"


# --- Sizes ---

_BYTES_OF_UNIT = {"K": 1e3, "M": 1e6, "G": 1e9}


def parse_memory(text: str) -> int:
    """Return the bytes of --memory: 500MB, 2GB and the like.

    >>> parse_memory("2GB"), parse_memory("1.5gb"), parse_memory("100 MB")
    (2000000000, 1500000000, 100000000)
    """
    size = _parse_bytes(text, "MG")
    if not 1e8 <= size <= 1e13:
        raise UsageError(f"--memory {text!r}: give a size from 100MB to 10000GB, such as 2GB.")
    return int(size)


def parse_file_size(option: str, text: str) -> int:
    """Return the bytes that a file may have: 800KB, 10MB and the like.

    >>> parse_file_size("--max-size", "10MB"), parse_file_size("--max-size", "1.5 kb")
    (10000000, 1500)
    """
    size = _parse_bytes(text, "KMG")
    if not 1e3 <= size <= 1e13:
        raise UsageError(f"{option} {text!r}: give a size from 1KB to 10000GB, such as 10MB.")
    return int(size)


def parse_share(option: str, text: str) -> float:
    """Return a share as a number between 0 and 1: 10%, or 0.1.

    >>> parse_share("--held-out", "10%"), parse_share("--held-out", "0.25")
    (0.1, 0.25)
    """
    match = re.fullmatch(r"([0-9]+\.?[0-9]*|\.[0-9]+)\s*(%?)", text.strip())
    share = float(match[1]) / (100 if match[2] else 1) if match else -1.0
    if not 0 <= share <= 1:
        raise UsageError(f"{option} {text!r}: give a share such as 10% or 0.1.")
    return share


def _parse_bytes(text: str, units: str) -> float:
    """Return a size in bytes; 0, which no option takes, if the text is no size."""
    match = re.fullmatch(
        rf"([0-9]+\.?[0-9]*|\.[0-9]+)\s*([{units}])B?", text.strip(), re.IGNORECASE
    )
    return float(match[1]) * _BYTES_OF_UNIT[match[2].upper()] if match else 0


# --- Options ---

Public = Annotated[
    list[str],
    typer.Argument(
        metavar="PUBLIC...",
        help="Public text: files, folders, quoted glob patterns, or tables of databases (such as"
        " 'duckdb:PATH?table=NAME'). Give several sources as NAME=PATH each.",
        show_default=False,
    ),
]
Private = Annotated[
    list[str],
    typer.Argument(
        metavar="PRIVATE...",
        help="Private text with a user id in each row: files, folders, quoted glob patterns, or"
        " tables of databases (such as 'duckdb:PATH?table=NAME').",
        show_default=False,
    ),
]
Counts = Annotated[
    Path,
    typer.Argument(
        metavar="COUNTS",
        help="A counts folder (of `bayesgram count`), or a Parquet file with the columns user,"
        " ngram"
        " and count.",
        show_default=False,
    ),
]
Vocab = Annotated[
    Path,
    typer.Option(
        "--vocab", help="The vocabulary, a file of `bayesgram vocab`.", show_default=False
    ),
]
TextColumn = Annotated[str, typer.Option(help="The column that holds the text.")]
UserColumn = Annotated[str, typer.Option(help="The column that holds the user's id.")]
By = Annotated[
    str | None,
    typer.Option(
        help="Count by segment: the name of a column such as country or language.",
        show_default=False,
    ),
]
SegmentNames = Annotated[
    str | None,
    typer.Option(
        "--segments",
        metavar="LIST",
        help="The public list of segments for --by: names with commas, or a file with one on each"
        " line.",
        show_default=False,
    ),
]
Other = Annotated[
    bool,
    typer.Option(
        "--other", help="Put rows of no listed segment into a segment 'other', instead of stopping."
    ),
]
Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        help="The file or folder to write. Missing parent folders are made.",
        show_default=False,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace the output if it exists.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, for machines.")]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", help="Also show details for experts. --json has all of them."),
]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", help="Print no progress and no notes, only warnings and errors."),
]
SkipBadRows = Annotated[
    bool,
    typer.Option(
        "--skip-bad-rows", help="Skip and count rows that can't be read, instead of stopping."
    ),
]
TokenizerName = Annotated[
    str | None,
    typer.Option(
        "--tokenizer",
        help=f"How text is cut into tokens (bayesgram docs text): {', '.join(NAMED_TOKENIZERS)} or"
        f" {FILE_PREFIX}PATH, a tokenizer.json.",
        show_default="words",
    ),
]
KeepCase = Annotated[
    bool | None,
    typer.Option(
        "--keep-case/--lower-case",
        help="Keep capital letters, or make all letters lower case.",
        show_default="lower case; whitespace keeps capitals",
    ),
]
Epsilon = Annotated[
    float | None,
    typer.Option(
        parser=parse_float,
        help="Required: ε, the privacy budget, such as 1. Smaller is more private.",
        show_default=False,
    ),
]
Delta = Annotated[
    float | None,
    typer.Option(
        parser=parse_float,
        help="δ, the probability with which ε may fail. Choose it far below 1 / (number of users).",
        show_default="1e-7 where the mechanism needs one",
    ),
]
LedgerFile = Annotated[
    Path | None,
    typer.Option(
        "--ledger",
        help="Charge this ledger (a file of `bayesgram ledger create`). The command stops if too"
        " little is left (bayesgram docs ledger).",
        show_default=False,
    ),
]
Unit = Annotated[
    str | None,
    typer.Option(
        help='What one user id stands for, in your words, such as "a user\'s week" or "a post". The'
        " card and the ledger show it.",
        show_default=DEFAULT_UNIT,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Only check everything, and say what would be charged. Nothing is spent or written.",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        parser=parse_int,
        help="A number that makes the noise repeatable, for tests. Do not publish the result.",
        show_default=False,
    ),
]
Memory = Annotated[
    str,
    typer.Option(
        help="Memory for counting, such as 500MB or 4GB, from 100MB. What does not fit goes to"
        " disk."
    ),
]
Engine = Annotated[
    EngineName,
    typer.Option(
        help="Where the work is done: on this machine, or on Spark (bayesgram docs spark)."
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        help="Spark's master URL, or sc://HOST:PORT of a Spark Connect server, with --engine"
        " spark.",
        show_default="SPARK_REMOTE, Spark's own setting, or this machine",
    ),
]


Delimiter = Annotated[
    str | None,
    typer.Option(
        metavar="CHARACTER",
        help="The character between the columns of CSV and TSV files, such as ';'.",
        show_default="a comma in .csv, a tab in .tsv",
    ),
]
Encoding = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="The encoding of text files (CSV, TSV, JSON lines, plain text), such as latin-1 or"
        " cp1252.",
        show_default="utf-8",
    ),
]


@dataclass(frozen=True)
class DialectOptions:
    """How text files are read, where their ending does not say so."""

    delimiter: Delimiter = None
    encoding: Encoding = "utf-8"

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `read_records` for these options."""
        return {"delimiter": self.delimiter, "encoding": self.encoding}


READ_AS_USUAL = DialectOptions()


@dataclass(frozen=True)
class EngineOptions:
    """Where text is counted, and in how much memory."""

    memory: Memory = "1GB"
    engine: Engine = EngineName.LOCAL
    master: Master = None

    @property
    def memory_bytes(self) -> int:
        """The value of --memory in bytes.

        Raises:
            UsageError: If it is no size.
        """
        return parse_memory(self.memory)


LOCAL = EngineOptions()


@dataclass(frozen=True)
class BlockOptions:
    """Which words `vocab`, `export`, `predict` and `serve` leave out."""

    block: Annotated[
        Path | None,
        typer.Option(
            help="Leave out n-grams with these words: a text file with one word or phrase on each"
            " line. Lines that begin with # are comments.",
            show_default=False,
        ),
    ] = None
    no_default_block: Annotated[
        bool,
        typer.Option(
            "--no-default-block",
            help="Don't leave out the built-in short list of slurs.",
            show_default=False,
        ),
    ] = False

    @property
    def blocklist(self) -> "Blocklist":
        """The blocklist that the options name.

        Raises:
            UsageError: If the file can't be read.
        """
        from bayesgram.text.blocklist import Blocklist

        return Blocklist.load(self.block, built_in=not self.no_default_block)


DEFAULT_BLOCK = BlockOptions()


@dataclass(frozen=True)
class PublicModelOptions:
    """The public model that the language model of a release starts from."""

    public: Annotated[
        Path | None,
        typer.Option(
            help="The public model of the release's vocabulary (`bayesgram vocab` keeps it): the"
            " model that the release corrects.",
            show_default="found near the release",
        ),
    ] = None
    no_public: Annotated[
        bool,
        typer.Option(
            "--no-public", help="Use the release alone: a rough model.", show_default=False
        ),
    ] = False

    @property
    def is_given(self) -> bool:
        """Whether any of the options was typed."""
        return self.public is not None or self.no_public

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `ReleaseModel.from_folder` for these options.

        Raises:
            UsageError: If both were typed.
        """
        if self.public is not None and self.no_public:
            raise UsageError("--public and --no-public: give one of them.")
        return {"public": self.public, "use_public": not self.no_public}


FIND_PUBLIC = PublicModelOptions()


@dataclass(frozen=True)
class TokenizerOptions:
    """How text is cut into tokens."""

    tokenizer_name: TokenizerName = None
    keep_case: KeepCase = None

    @property
    def is_given(self) -> bool:
        """Whether any of the options was typed."""
        return self.tokenizer_name is not None or self.keep_case is not None

    @property
    def tokenizer(self) -> "Tokenizer":
        """The tokenizer that the options name, or the default one."""
        return load_tokenizer(self.tokenizer_name, keep_case=self.keep_case)

    @property
    def tokenizer_if_given(self) -> "Tokenizer | None":
        """The tokenizer that the options name; None if none was typed."""
        return self.tokenizer if self.is_given else None


DEFAULTS = TokenizerOptions()


def load_tokenizer(name: str | None, *, keep_case: bool | None = None) -> "Tokenizer":
    """Return the tokenizer with a name, or that of a file.

    Args:
        name: A tokenizer's name, or `file:PATH`; None for the default, which cuts into words.
        keep_case: Whether case matters; None for the tokenizer's default.
    """
    from bayesgram.text.tokenizer import Tokenizer

    if name is not None and name.startswith(FILE_PREFIX):
        if keep_case is not None:
            raise UsageError.for_argument(
                "tokenizer",
                "file",
                "the file itself says whether case matters; leave --keep-case and --lower-case"
                " out.",
            )
        return Tokenizer.from_file(name.removeprefix(FILE_PREFIX))
    # An unknown name is refused by `Tokenizer` itself.
    kind: Any = name or TokenizerKind.WORDS
    return Tokenizer(kind, lowercase=None if keep_case is None else not keep_case)


# --- From functions to commands ---

# Of the program and of its groups of commands.
TYPER_SETTINGS: dict[str, Any] = {
    "no_args_is_help": True,
    "rich_markup_mode": "rich",
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}


def unwrap_help(function: Callable[..., None]) -> Callable[..., None]:
    """Put each paragraph of a docstring on one line, so that --help wraps it to the terminal.

    Typer keeps line breaks within paragraphs, and would break its own lines again there.
    """
    function.__doc__ = unwrap(inspect.getdoc(function) or "")
    return function


def unwrap(text: str) -> str:
    r"""Return text with each paragraph on one line.

    >>> unwrap("One sentence\nover two lines.\n\nAnother\nparagraph.")
    'One sentence over two lines.\n\nAnother paragraph.'
    """
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def as_command(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function as Typer takes it: each field of a dataclass an option, and --quiet last.

    Example: `def count(vocab: Vocab, tokenizer: TokenizerOptions = DEFAULTS)` becomes a function
    with the parameters `vocab`, `tokenizer_name`, `keep_case` and `quiet`.
    """
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}

    @wraps(function)
    def command(*, quiet: bool, **values: Any) -> None:  # noqa: ANN401 - those of the function
        console.set_quiet(quiet)
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        function(**values)

    parameters = [*_spread(inspect.signature(function), groups)]
    parameters.append(
        inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Quiet)
    )
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {
        parameter.name: hints.get(parameter.name, parameter.annotation) for parameter in parameters
    }
    return unwrap_help(command)


def _spread(signature: inspect.Signature, groups: dict[str, Any]) -> Iterator[inspect.Parameter]:
    """Yield the parameters of a function, with the fields of a dataclass in its place."""
    for parameter in signature.parameters.values():
        if parameter.name not in groups:
            yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            continue
        group = groups[parameter.name]
        hints = get_type_hints(group, include_extras=True)
        for field in fields(group):
            yield inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=hints[field.name],
            )


# --- The command as it was typed ---


def typed_command(context: typer.Context) -> str:
    """Return the command that is running as it was typed, for the card.

    Arguments are as they are and options by their long name, both in the order of the help, quoted
    so that a shell reads them back the same. Nothing is added that was not typed: no defaults, no
    working directory, no absolute paths. The address of a Spark server loses what may be a token.

    Example: bayesgram release counts --vocab vocab.parquet --epsilon 0.2 --output out
    """
    from bayesgram.spark.session import redact_address

    words = ["bayesgram", context.info_name or ""]
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE":
            continue
        value = context.params[name]
        if parameter.param_type_name == "argument":
            words += map(_as_word, value if isinstance(value, list | tuple) else [value])
        elif isinstance(value, bool):
            words.append(parameter.opts[0] if value else parameter.secondary_opts[0])
        elif name == "master":
            words += [parameter.opts[0], redact_address(value)]  # the card is published
        else:
            words += [parameter.opts[0], _as_word(value)]
    return shlex.join(words)


def _as_word(value: object) -> str:
    """Return a path, number or choice as a person would type it, and a URI without its secrets."""
    from bayesgram.io.uris import redact

    if isinstance(value, float) and float(f"{value:g}") == value:
        return f"{value:g}"
    return redact(str(getattr(value, "value", value)))
