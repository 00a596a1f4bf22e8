"""Find what to read: files, folders, glob patterns, databases, and tables in memory.

`find_sources` takes what a person names, and gives one `Source` for each file or table, in a fixed
order. It opens no file: a source says what the ending promises, not what the bytes hold.

`check_first_bytes` and `refuse_own_tables` look at content: they refuse a file that is not what its
ending promises, or that must not be read as text. Messages show no content, and nothing is guessed
about how to read a file: a wrong guess would show only in the numbers.
"""

import glob
import logging
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol, TypeAlias, cast

from bayesgram.errors import Argument, BayesgramError, UsageError
from bayesgram.io.uris import DatabaseUri, is_database_uri, is_uri, parse_uri, redact

if TYPE_CHECKING:
    import pyarrow as pa

Format: TypeAlias = Literal["parquet", "arrow", "jsonl", "csv", "tsv", "text", "table", "database"]
Compression: TypeAlias = Literal["gz", "zst", "bz2", "xz"]

CARD = "card.json"  # the file beside the tables of releases and discoveries
OUR_METADATA = b"bayesgram."  # the beginning of the names of our tables' metadata
# The column of n-grams in releases, discoveries and vocabularies, and those of their numbers.
NGRAM = "ngram"
OUR_NUMBERS = frozenset({"probability", "weight", "count"})


class ArrowTable(Protocol):
    """Anything that streams Arrow record batches.

    A table of pyarrow, polars or pandas, an Arrow reader, a relation of DuckDB, a table of Ibis.
    """

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule that holds an ArrowArrayStream."""


class LazyTable(Protocol):
    """A polars LazyFrame, which becomes a table when it is read."""

    def collect(self) -> Any:  # noqa: ANN401 - polars is not imported here
        """Compute the table."""


class BatchedDataset(Protocol):
    """A dataset of Hugging Face, in memory or streamed."""

    def with_format(self, type: str) -> Any:  # noqa: A002, ANN401 - as datasets has it
        """Return the dataset with batches of a type."""


Table: TypeAlias = ArrowTable | LazyTable | BatchedDataset
Input: TypeAlias = str | os.PathLike[str] | Table
Inputs: TypeAlias = Input | Sequence[Input]

_ENDINGS: dict[str, Format] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".txt": "text",
    ".text": "text",
}
_COMPRESSIONS: dict[str, Compression] = {".gz": "gz", ".zst": "zst", ".bz2": "bz2", ".xz": "xz"}
_BINARY: set[Format] = {"parquet", "arrow"}  # compressed inside, if at all
TEXT_FORMATS: set[Format] = {"jsonl", "csv", "tsv", "text"}  # those that have an encoding

# Endings that people have and that are not read, with the next step.
_ADVICE = {
    ".zip": "Unpack it first.",
    ".tar": "Unpack it first.",
    ".tgz": "Unpack it first.",
    ".7z": "Unpack it first.",
    ".rar": "Unpack it first.",
    ".xlsx": "Save the sheet as CSV (UTF-8).",
    ".xls": "Save the sheet as CSV (UTF-8).",
    ".ods": "Save the sheet as CSV (UTF-8).",
    ".db": "Export the table as CSV or Parquet.",
    ".sqlite": "Export the table as CSV or Parquet.",
    ".duckdb": "Name a table of it: duckdb:PATH?table=NAME.",
    ".ddb": "Name a table of it: duckdb:PATH?table=NAME.",
    ".orc": "Write it as Parquet.",
    ".avro": "Write it as Parquet.",
    ".pkl": "Write it as Parquet.",
    ".docx": "Save it as plain text.",
    ".doc": "Save it as plain text.",
    ".pdf": "Save it as plain text.",
}
_COLUMN_TYPES = {"Series", "ChunkedArray", "Index"}  # single columns of polars, pandas, pyarrow
_NAMES_SHOWN = 5  # of files, in a message

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Source:
    """One file or table to read."""

    name: str  # for messages
    format: Format
    compression: Compression | None = None
    size: int | None = None  # bytes on disk; None for a table
    path: Path | None = None
    table: Table | None = field(default=None, repr=False, compare=False)
    uri: DatabaseUri | None = None


def find_sources(inputs: Inputs, *, allow_plain_text: bool) -> list[Source]:
    """Return the sources in the order given.

    A folder or pattern gives its files in sorted order, and logs which files are not read.

    Args:
        inputs: A path, a pattern, the URI of a database, a table, or a list of these.
        allow_plain_text: Whether files of plain text are read: public text needs no user column.
    """
    is_list = _is_sequence(inputs)
    items = cast("list[Input]", list(cast("Sequence[Input]", inputs)) if is_list else [inputs])
    if not items:
        raise UsageError.for_argument(
            "inputs", "[]", "nothing to read. Name at least one file, folder, pattern or table."
        )
    sources: list[Source] = []
    table_count = 0
    for index, item in enumerate(items):
        if isinstance(item, str) and is_uri(item):
            sources.append(_database_source(item))
        elif isinstance(item, (str, os.PathLike)):
            _refuse_text(item, f"inputs[{index}]" if is_list else "inputs")
            paths = _expand(os.fspath(item), allow_plain_text)
            sources += [_file_source(path, allow_plain_text) for path in paths]
        else:
            table_count += 1
            sources.append(_table_source(item, f"table {table_count}"))
    _refuse_repeats(sources)
    return sources


def refuse_databases(inputs: Iterable[str]) -> None:
    """Refuse URIs of databases, where Spark reads the inputs."""
    for name in inputs:
        if is_database_uri(name):
            raise UsageError(
                f"{redact(name)}: Spark reads no databases; leave ",
                Argument("engine", "spark"),
                " out, or write the table as Parquet files first.",
            )


def list_unread(inputs: Sequence[str]) -> list[str]:
    """Return what `find_sources` does not read in the folders and patterns among the inputs."""
    listings = (_list_files(name) for name in inputs if not is_uri(name))
    return [name for listing in listings if listing is not None for name in listing[1]]


def readable_endings(*, allow_plain_text: bool) -> str:
    """Return the endings that are read, for messages.

    >>> readable_endings(allow_plain_text=False).partition(" (")[2]
    'from .jsonl on also with .gz, .zst, .bz2, .xz)'
    """
    endings = [ending for ending, kind in _ENDINGS.items() if allow_plain_text or kind != "text"]
    return f"{', '.join(endings)} (from .jsonl on also with {', '.join(_COMPRESSIONS)})"


def _is_sequence(inputs: object) -> bool:
    return isinstance(inputs, Sequence) and not isinstance(inputs, str) and not _is_table(inputs)


def _is_table(value: object) -> bool:
    return hasattr(value, "__arrow_c_stream__") or _is_lazy(value) or _is_dataset(value)


def library_of(value: object) -> str:
    """Return the name of the package that a table is from.

    >>> import pyarrow
    >>> library_of(pyarrow.table({}))
    'pyarrow'
    """
    return type(value).__module__.partition(".")[0].removeprefix("_")


def _is_lazy(value: object) -> bool:
    return library_of(value) == "polars" and hasattr(value, "collect")


def _is_dataset(value: object) -> bool:
    return library_of(value) == "datasets" and hasattr(value, "iter")


def _database_source(text: str) -> Source:
    uri = parse_uri(text)
    uri.check_driver()
    uri.check_file()
    return Source(uri.name, "database", uri=uri)


# What belongs in place of objects that can't be read themselves.
_INSTEAD_OF = {
    "DatasetDict": "Give one split of it, such as dataset['train'].",
    "IterableDatasetDict": "Give one split of it, such as dataset['train'].",
    "DuckDBPyConnection": "Give a relation of it, such as connection.sql('SELECT …').",
}


def _table_source(value: object, name: str) -> Source:
    if not _is_table(value):
        kind = type(value).__name__
        advice = "Give a path, or a table of pyarrow, polars or pandas."
        raise UsageError(f"inputs: {kind} can't be read. {_INSTEAD_OF.get(kind, advice)}")
    if type(value).__name__ in _COLUMN_TYPES:
        raise UsageError(
            f"inputs: a {type(value).__name__} is one column. Give a table with all columns that"
            " are read, such as a DataFrame."
        )
    return Source(name, "table", table=cast("Table", value))


def _file_source(path: Path, allow_plain_text: bool) -> Source:
    size = _file_size(path)
    kind = _format_of(path)
    if kind is None:
        endings = readable_endings(allow_plain_text=allow_plain_text)
        raise UsageError(
            f"{path}: unknown file ending.{_advice(path)} The endings that are read: {endings}."
        )
    file_format, compression = kind
    if file_format == "text" and not allow_plain_text:
        raise UsageError(
            f"{path}: plain text has no user column; give a table with one row for each text and"
            " its user, or leave the file out with a pattern such as 'folder/*.parquet'."
        )
    return Source(str(path), file_format, compression, size, path)


def _format_of(path: Path) -> tuple[Format, Compression | None] | None:
    """Return what the ending of a file says; None if it is not read.

    >>> _format_of(Path("Posts.JSONL.gz"))
    ('jsonl', 'gz')
    """
    name = Path(path.name.lower())
    compression = _COMPRESSIONS.get(name.suffix)
    file_format = _ENDINGS.get(name.suffix if compression is None else Path(name.stem).suffix)
    if file_format is None or (file_format in _BINARY and compression is not None):
        return None
    return file_format, compression


def _advice(path: Path) -> str:
    """Return the next step for a file that is not read.

    >>> _advice(Path("posts.tar.gz")), _advice(Path("posts.gz"))
    (' Unpack it first.', ' Let its name say what is compressed, such as posts.csv.gz.')
    """
    name = Path(path.name.lower())
    if name.suffix not in _COMPRESSIONS:
        return f" {_ADVICE[name.suffix]}" if name.suffix in _ADVICE else ""
    inner = Path(name.stem).suffix
    if inner in _ADVICE:
        return f" {_ADVICE[inner]}"
    if _ENDINGS.get(inner) in _BINARY:
        return " Unpack it first."
    return f" Let its name say what is compressed, such as {path.stem}.csv{name.suffix}."


def _expand(name: str, allow_plain_text: bool) -> list[Path]:
    """Return the files of a folder or pattern, or the file itself; log what is not read."""
    listing = _list_files(name)
    if listing is None:
        return [Path(name)]
    readable, others = listing
    endings = readable_endings(allow_plain_text=allow_plain_text)
    if not readable:
        raise UsageError(
            f"{name}: holds no file that can be read. The endings that are read: {endings}."
        )
    if others:
        more = f" and {len(others) - _NAMES_SHOWN} more" if len(others) > _NAMES_SHOWN else ""
        logger.warning(
            "%s: not read: %s%s (names that begin with . or _ are left out; the endings that are"
            " read: %s).",
            *(name, ", ".join(others[:_NAMES_SHOWN]), more, endings),
        )
    return readable


def _list_files(name: str) -> tuple[list[Path], list[str]] | None:
    """Return the files of a folder or pattern that are read, and the names of all else there.

    None for a plain file.
    """
    path = Path(name)
    status = _status(path)
    if status is not None and stat.S_ISDIR(status.st_mode):
        files = list(_files_below(path))
    elif status is None and glob.has_magic(name):
        files = list(_files_matching(name))
    else:
        return None
    readable = sorted(
        file for file, may_be_read in files if may_be_read and _format_of(file) is not None
    )
    others = {file for file, _ in files} - set(readable)
    return readable, sorted(f"{file}/" if file.is_dir() else str(file) for file in others)


def _file_size(path: Path) -> int:
    """Return the size of a file.

    A pipe or device is refused, since some formats are read twice.
    """
    status = _status(path)
    if status is None or not stat.S_ISREG(status.st_mode):
        problem = "no such file" if status is None else "not a file or folder"
        raise UsageError(
            f"{path}: {problem}. Check the path; a pattern such as 'data/*.parquet' works too."
        )
    return status.st_size


def _refuse_text(value: str | os.PathLike[str], parameter: str) -> None:
    """Refuse a string that is no path: it may be what somebody wrote, so it is not shown.

    A `Path` is one.
    """
    if isinstance(value, str) and not _exists(value):
        raise UsageError(
            f"{parameter}: a string is read as the path of a file or folder, or as a pattern, and"
            " there is none of this name (which is not shown: it may be somebody's text). Check the"
            " path; text itself is given as a table of pyarrow, polars or pandas."
        )


def _exists(name: str) -> bool:
    """Return whether a string names something, even if that may not be looked at."""
    try:
        return Path(name).exists() or next(glob.iglob(name, recursive=True), None) is not None  # noqa: PTH207
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a valid path"
        raise BayesgramError(
            f"{path}: can't be read: {reason}. Check the path and its permissions."
        ) from None


def _files_below(folder: Path) -> Iterator[tuple[Path, bool]]:
    """Yield files, and folders that are not looked into; each with whether it may be read."""
    for parent, folders, files in os.walk(folder, onerror=_refuse_folder):
        skipped = [name for name in folders if name[0] in "._" or Path(parent, name).is_symlink()]
        folders[:] = [name for name in folders if name not in skipped]
        yield from ((Path(parent, name), False) for name in skipped)
        yield from ((Path(parent, name), name[0] not in "._") for name in files)


def _refuse_folder(error: OSError) -> NoReturn:
    raise BayesgramError(
        f"{error.filename}: the folder can't be read: {error.strerror}. Check its permissions."
    )


def _files_matching(pattern: str) -> Iterator[tuple[Path, bool]]:
    """Yield what matches a pattern, each with whether it may be read.

    Names that start with "." or "_" match only when a part of the pattern starts that way.
    """
    skipped = {"_", "."} - {part[0] for part in Path(pattern).parts}
    for name in glob.iglob(pattern, recursive=True):  # noqa: PTH207 - Path.glob wants a base
        path = Path(name)
        if path.is_file():
            yield path, not any(part[0] in skipped for part in path.parts)
        elif path.is_dir() and "**" not in pattern:  # else the files in it match as well
            yield path, False


def _refuse_repeats(sources: list[Source]) -> None:
    """Refuse to read one file twice, which would silently count a person's text twice."""
    names: dict[object, str] = {}
    for source in sources:
        key: object = id(source.table)
        if source.path is not None:
            key = source.path.resolve()
        elif source.uri is not None:
            uri = source.uri
            database = uri.connection if uri.path is None else uri.path.resolve()
            key = (database, uri.table, uri.query)
        if key in names:
            raise UsageError(
                f"{source.name}: named twice, first as {names[key]}; it would count double. Name it"
                " once."
            )
        names[key] = source.name


def refuse_own_tables(sources: Sequence[Source]) -> None:
    """Refuse tables of releases, discoveries and vocabularies where public text is read.

    Read as text, their n-grams would pass as public text, and what they were made from, with its
    label, would be forgotten.

    Raises:
        UsageError: If a Parquet file has our metadata, or lies beside a card.
    """
    for source in sources:
        if source.format == "parquet" and source.path is not None and _is_our_table(source.path):
            raise _own_table_error(str(source.path))


def refuse_own_schema(name: str, schema: "pa.Schema", text_column: str) -> None:
    """Refuse tables as `refuse_own_tables` does, in memory or in a database.

    There, the metadata may be gone; then the columns of such a table show it.

    Args:
        name: What is read, for the message.
        schema: All columns of it.
        text_column: The column that is read as text.
    """
    is_ours = any(key.startswith(OUR_METADATA) for key in schema.metadata or {})
    has_our_columns = text_column == NGRAM and not OUR_NUMBERS.isdisjoint(schema.names)
    if is_ours or has_our_columns:
        raise _own_table_error(name)


def _own_table_error(name: str) -> UsageError:
    return UsageError(
        f"{name}: a table of a release, a discovery or a vocabulary, which is not"
        " read as public text: what it was made from would be forgotten. Give the folder of"
        " the release, or vocab.parquet without a text column, as a source."
    )


def _is_our_table(path: Path) -> bool:
    """Return whether a file says that we wrote it; who reads a damaged one refuses it."""
    from pyarrow import ArrowException, parquet  # noqa: PLC0415 - only tables need it

    if (path.parent / CARD).is_file():
        return True
    try:
        metadata = parquet.read_schema(path).metadata or {}
    except (ArrowException, OSError, ValueError):
        return False
    return any(name.startswith(OUR_METADATA) for name in metadata)


# --- Content that the ending does not promise ---

_UTF16 = "Save it as UTF-8: `iconv -f UTF-16 -t UTF-8 OLD > NEW`."
_RENAME = "Let its name say so: a compressed CSV file ends with .csv{}."

# The first bytes of files that are no text, what they are, and the next step.
_FIRST_BYTES: list[tuple[bytes, str, str]] = [
    (b"\xff\xfe", "text in UTF-16", _UTF16),
    (b"\xfe\xff", "text in UTF-16", _UTF16),
    (b"\x1f\x8b", "gzip", _RENAME.format(".gz")),
    (b"\x28\xb5\x2f\xfd", "Zstandard", _RENAME.format(".zst")),
    *((b"BZh%d1AY&SY" % level, "bzip2", _RENAME.format(".bz2")) for level in range(1, 10)),
    (b"\xfd7zXZ\0", "xz", _RENAME.format(".xz")),
    (
        b"PK\x03\x04",
        "a zip archive, or a workbook",
        "Unpack it first; save a workbook as CSV (UTF-8).",
    ),
    (
        b"\xd0\xcf\x11\xe0",
        "an old workbook or document of Microsoft Office",
        "Save it as CSV (UTF-8).",
    ),
    (b"PAR1", "Parquet", "Let its name end with .parquet."),
    (b"ARROW1", "Arrow", "Let its name end with .arrow."),
    (b"SQLite format 3\0", "an SQLite database", "Export a table as CSV."),
    (b"%PDF-", "PDF", "Give text."),
]


def check_first_bytes(source: Source, start: bytes) -> None:
    """Refuse a file that should be text and is not, by its first bytes."""
    for signature, kind, advice in _FIRST_BYTES:
        if start.startswith(signature):
            _refuse_content(source, kind, advice)
    if len(start) >= 4 and (start[1] == start[3] == 0 or start[0] == start[2] == 0):
        _refuse_content(source, "text in UTF-16", _UTF16)


def _refuse_content(source: Source, kind: str, advice: str) -> NoReturn:
    raise UsageError(
        f"{source.name}: holds {kind}, which can't be read as {source.format}. {advice}"
    )
