"""CSV and TSV, read one byte at a time."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from fuzz.mutations import SECRET
from fuzz.reading import MARK, ROWS, Options, Row, compare, is_foreign, row_of


@dataclass(frozen=True)
class Literal:
    """The records of a file, one byte at a time."""

    records: list[list[bytes]]
    # A quote that is open at the end, bytes after a closing one, one within a field without quotes
    is_wrong: bool
    lines: list[int]  # of each record
    ends: set[bytes]  # of lines, outside quotes


def literal_records(data: bytes, delimiter: int) -> Literal:  # noqa: C901 - the format, rule by rule
    """RFC 4180, and what is said in the docstring of `bayesgram.io.delimited`."""
    records: list[list[bytes]] = []
    lines, ends = list[int](), set[bytes]()
    at, is_wrong, size = 0, False, len(data)
    while at < size:
        if data[at] in b"\r\n":
            ends.add(b"\n" if data[at] == 10 or data[at + 1 : at + 2] == b"\n" else b"\r")
            at += 1
            continue
        record, begin = list[bytes](), at
        while True:
            field = b""
            if data[at : at + 1] == b'"':
                at += 1
                while True:
                    if at == size:
                        return Literal(records, True, lines, ends)
                    if data[at : at + 2] == b'""':
                        field, at = field + b'"', at + 2
                    elif data[at] == ord('"'):
                        at += 1
                        break
                    else:
                        field, at = field + data[at : at + 1], at + 1
                is_wrong = is_wrong or (
                    at < size and data[at] != delimiter and data[at] not in b"\r\n"
                )
            while at < size and data[at] != delimiter and data[at] not in b"\r\n":
                is_wrong = is_wrong or data[at] == ord('"')
                field, at = field + data[at : at + 1], at + 1
            record.append(field)
            if at == size or data[at] != delimiter:
                break
            at += 1
        records.append(record)
        lines.append(1 + data[begin:at].count(b"\n") + data[begin:at].count(b"\r"))
    return Literal(records, is_wrong, lines, ends)


def literal_rows(found: Literal, options: Options) -> list[Row] | None:
    """The rows below the header; None if there is no way to read them."""
    if found.is_wrong or not found.records:
        return None
    header, *records = found.records
    names = [b"text"] if options.user is None else [b"text", b"user"]
    try:
        b",".join(header).decode()
    except UnicodeDecodeError:
        return None
    if any(header.count(name) != 1 for name in names):
        return None
    text, user = header.index(b"text"), header.index(names[-1])
    wide = (
        [record[user], record[text]] if len(record) == len(header) else None for record in records
    )
    return [None if row is None else row_of(*row, options) for row in wide]


def is_doubtful(found: Literal, options: Options, delimiter: int) -> bool:
    """Whether rows may have been joined or cut, so that the file may be refused whole."""
    header = found.records[0] if found.records else []
    if len(found.ends) > 1:
        return True
    long = [record for record, lines in zip(found.records, found.lines, strict=False) if lines > 1]
    if long and delimiter == 9:
        return True
    user = header.index(b"user") if options.user and b"user" in header else -1
    return any(len(each) != len(header) or (user >= 0 and _has_lines(each[user])) for each in long)


def _has_lines(field: bytes) -> bool:
    return b"\n" in field or b"\r" in field


def check_delimited(data: bytes, folder: Path, ending: str, delimiter: int) -> None:
    path, options = folder / f"x.{ending}", Options.of(data)
    path.write_bytes(data)
    found = literal_records(data.removeprefix(MARK), delimiter)
    doubtful = is_foreign(data) or is_doubtful(found, options, delimiter)
    compare(path, options, literal_rows(found, options), may_refuse=doubtful)


def made_delimited(delimiter: str) -> list[bytes]:
    made = []
    for quoting, end in ((csv.QUOTE_MINIMAL, "\r\n"), (csv.QUOTE_ALL, "\n"), (csv.QUOTE_ALL, "\r")):
        out = io.StringIO(newline="")
        writer = csv.writer(out, delimiter=delimiter, quoting=quoting, lineterminator=end)
        writer.writerows([("user", "text"), *ROWS])
        made.append(out.getvalue().encode())
    plain = [
        delimiter.join(row)
        for row in (("id", "text", "user"), ("1", "a b", "ann"), ("2", f"c {SECRET}", "bob"))
    ]
    return [*made, "\n".join(plain).encode(), MARK + made[0]]
