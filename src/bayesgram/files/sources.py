"""Find what to read: files, folders, glob patterns and tables in memory.

In:  what a person names.   Out: one `Source` for each file or table, in a fixed order.
Does not open any file: a source says what the ending promises, not what the bytes hold.
"""

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn, Protocol, TypeAlias, cast

from bayesgram.errors import BayesgramError, UsageError

Format: TypeAlias = Literal["parquet", "jsonl", "csv", "tsv", "text", "table"]
Compression: TypeAlias = Literal["gz", "zst"]


class ArrowTable(Protocol):
    """Anything that streams Arrow record batches: a table of pyarrow, polars or pandas."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule that holds an ArrowArrayStream."""


class LazyTable(Protocol):
    """A polars LazyFrame, which becomes a table when it is read."""

    def collect(self) -> Any:  # noqa: ANN401 - polars is not imported here
        """Compute the table."""


Input: TypeAlias = str | os.PathLike[str] | ArrowTable | LazyTable
Inputs: TypeAlias = Input | Sequence[Input]

_ENDINGS: dict[str, Format] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".txt": "text",
    ".text": "text",
}
_COMPRESSIONS: dict[str, Compression] = {".gz": "gz", ".zst": "zst"}


@dataclass(frozen=True)
class Source:
    """One file or table to read. `name` is for messages; `size` is in bytes on disk, None for a table."""

    name: str
    format: Format
    compression: Compression | None = None
    size: int | None = None
    path: Path | None = None
    table: ArrowTable | LazyTable | None = field(default=None, repr=False, compare=False)


def find_sources(inputs: Inputs, *, allow_plain_text: bool) -> list[Source]:
    """List the sources in the order given; a folder or pattern gives its files in sorted order."""
    given = cast("list[Input]", list(cast("Sequence[Input]", inputs)) if _is_sequence(inputs) else [inputs])
    if not given:
        raise UsageError("inputs=[]: nothing to read. Name at least one file, folder, pattern or table.")
    sources: list[Source] = []
    tables = 0
    for one in given:
        if isinstance(one, (str, os.PathLike)):
            sources += [_file_source(path, allow_plain_text) for path in _expand(os.fspath(one), allow_plain_text)]
        else:
            tables += 1
            sources.append(_table_source(one, f"table {tables}"))
    _refuse_repeats(sources)
    return sources


def readable_endings(*, allow_plain_text: bool) -> str:
    """Name the endings that are read, for messages.

    >>> readable_endings(allow_plain_text=False)
    '.parquet, .pq, .jsonl, .ndjson, .json, .csv, .tsv, .tab (all but Parquet also with .gz or .zst)'
    """
    endings = [ending for ending, kind in _ENDINGS.items() if allow_plain_text or kind != "text"]
    return f"{', '.join(endings)} (all but Parquet also with .gz or .zst)"


def _is_sequence(inputs: object) -> bool:
    return isinstance(inputs, Sequence) and not isinstance(inputs, str) and not _is_table(inputs)


def _is_table(value: object) -> bool:
    return hasattr(value, "__arrow_c_stream__") or _is_lazy(value)


def _is_lazy(value: object) -> bool:
    return type(value).__module__.partition(".")[0] == "polars" and hasattr(value, "collect")


def _table_source(value: object, name: str) -> Source:
    if not _is_table(value):
        raise UsageError(
            f"inputs: {type(value).__name__} can't be read. Give a path, or a table of pyarrow, polars or pandas."
        )
    return Source(name, "table", table=cast("ArrowTable | LazyTable", value))


def _file_source(path: Path, allow_plain_text: bool) -> Source:
    size, kind = _size(path), _kind(path)
    if kind is None:
        endings = readable_endings(allow_plain_text=allow_plain_text)
        raise UsageError(f"{path}: unknown file ending. The endings that are read: {endings}.")
    if kind[0] == "text" and not allow_plain_text:
        raise UsageError(
            f"{path}: plain text has no user column; give a table with one row for each text and its user, "
            "or leave the file out with a pattern such as 'folder/*.parquet'."
        )
    return Source(str(path), kind[0], kind[1], size, path)


def _kind(path: Path) -> tuple[Format, Compression | None] | None:
    """What the ending says.

    >>> _kind(Path("Posts.JSONL.gz"))
    ('jsonl', 'gz')
    """
    name = Path(path.name.lower())
    compression = _COMPRESSIONS.get(name.suffix)
    found = _ENDINGS.get(name.suffix if compression is None else Path(name.stem).suffix)
    if found is None or (found == "parquet" and compression is not None):
        return None
    return found, compression


def _expand(given: str, allow_plain_text: bool) -> list[Path]:
    """Turn a folder or a pattern into the files it stands for; a plain file is itself."""
    path = Path(given)
    status = _status(path)
    if status is not None and stat.S_ISDIR(status.st_mode):
        found = sorted(_files_below(path))
    elif status is None and glob.has_magic(given):
        found = sorted(_files_matching(given))
    else:
        return [path]
    readable = [file for file in found if _kind(file) is not None]
    if not readable:
        endings = readable_endings(allow_plain_text=allow_plain_text)
        raise UsageError(f"{given}: holds no file that can be read. The endings that are read: {endings}.")
    return readable


def _size(path: Path) -> int:
    """The size of a file that is there; a pipe or device is no file, since some formats are read twice."""
    status = _status(path)
    if status is None or not stat.S_ISREG(status.st_mode):
        problem = "no such file" if status is None else "not a file or folder"
        raise UsageError(f"{path}: {problem}. Check the path; a pattern such as 'data/*.parquet' works too.")
    return status.st_size


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a valid path"
        raise BayesgramError(f"{path}: can't be read: {reason}. Check the path and its permissions.") from None


def _files_below(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder, onerror=_refuse_folder):
        folders[:] = [name for name in folders if name[0] not in "._"]
        yield from (Path(parent, name) for name in files if name[0] not in "._")


def _refuse_folder(error: OSError) -> NoReturn:
    raise BayesgramError(f"{error.filename}: the folder can't be read: {error.strerror}. Check its permissions.")


def _files_matching(pattern: str) -> Iterator[Path]:
    """Names that start with "." or "_" match only when a part of the pattern starts that way."""
    skipped = {"_", "."} - {part[0] for part in Path(pattern).parts}
    for name in glob.iglob(pattern, recursive=True):  # noqa: PTH207 - Path.glob wants a base
        path = Path(name)
        if path.is_file() and not any(part[0] in skipped for part in path.parts):
            yield path


def _refuse_repeats(sources: list[Source]) -> None:
    """Refuse to read one file twice, which would count a person's text twice without a word."""
    names: dict[object, str] = {}
    for source in sources:
        key = source.path.resolve() if source.path is not None else id(source.table)
        if key in names:
            raise UsageError(f"{source.name}: named twice, first as {names[key]}; it would count double. Name it once.")
        names[key] = source.name
