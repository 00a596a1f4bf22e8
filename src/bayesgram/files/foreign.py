"""Say what a file is that can't be read: by its ending, or by its first bytes where the ending promises something else.

In:  a path, or a `Source` and its first bytes.   Out: nothing, or an error with the next step.
Does not show content, and does not guess how to read it: a wrong guess would show only in the numbers.
"""

from bayesgram.errors import UsageError
from bayesgram.files.sources import Source

_UTF16 = "Save it as UTF-8: `iconv -f UTF-16 -t UTF-8 OLD > NEW`."
_UNPACK = "Unpack it first."
_RENAME = "Let its name say so: a compressed CSV file ends with .csv{}."

_FIRST_BYTES: list[tuple[bytes, str, str]] = [
    (b"\xff\xfe", "text in UTF-16", _UTF16),
    (b"\xfe\xff", "text in UTF-16", _UTF16),
    (b"\x1f\x8b", "gzip", _RENAME.format(".gz")),
    (b"\x28\xb5\x2f\xfd", "Zstandard", _RENAME.format(".zst")),
    *((b"BZh%d1AY&SY" % level, "bzip2", _RENAME.format(".bz2")) for level in range(1, 10)),
    (b"\xfd7zXZ\0", "xz", _RENAME.format(".xz")),
    (b"PK\x03\x04", "a zip archive, or a workbook", "Unpack it first; save a workbook as CSV (UTF-8)."),
    (b"\xd0\xcf\x11\xe0", "an old workbook or document of Microsoft Office", "Save it as CSV (UTF-8)."),
    (b"PAR1", "Parquet", "Let its name end with .parquet."),
    (b"ARROW1", "Arrow", "Let its name end with .arrow."),
    (b"SQLite format 3\0", "an SQLite database", "Export a table as CSV."),
    (b"%PDF-", "PDF", "Give text."),
]


def refuse_foreign(source: Source, start: bytes) -> None:
    """Refuse a file of text that is none, by its first bytes."""
    for first, kind, advice in _FIRST_BYTES:
        if start.startswith(first):
            _refuse(source, kind, advice)
    if len(start) >= 4 and (start[1] == start[3] == 0 or start[0] == start[2] == 0):
        _refuse(source, "text in UTF-16", _UTF16)


def _refuse(source: Source, kind: str, advice: str) -> None:
    raise UsageError(f"{source.name}: holds {kind}, which can't be read as {source.format}. {advice}")
