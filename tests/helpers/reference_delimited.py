"""A slow second reader of delimited text, written from the page of `bayesgram.io.delimited`."""

import re

from bayesgram.io.delimited import WRONG_COLUMNS
from bayesgram.version import page_pointer

JOINED = "so the rows of several people may have become one"
OPEN = f"a quote that is never closed, {JOINED}"
AFTER = f"bytes after a closing quote, {JOINED}"
STRAY = "a quote within a field that has none around it, so the file's quotes can't be trusted"
LINE_END = "ends unlike the header row, so one row may have become two"
COLUMNS = f"the wrong number of columns over several lines, {JOINED}"
USER = f"a user id of several lines, {JOINED}"
ROWS = f"several lines that each have all columns, {JOINED}"


def error_message(row, problem):
    place = f"row {row}" if row else "the header row"
    return (
        f"{place}: {problem}. The whole file is refused: write it anew with quotes as RFC 4180 has them,"
        f" or as Parquet or JSON lines ({page_pointer('files')})."
    )


def read_slowly(data, delimiter=","):
    """The rows as [(fields, bytes of the row)], without the header, and the error: the page of
    `delimited`, literally.
    """
    text = data.decode("latin-1").removeprefix("\xef\xbb\xbf").lstrip("\r\n")
    rows, at, returns_alone = [], 0, False
    while at < len(text):
        begin, number = at, len(rows)
        fields, problem, at = read_row(text, at, delimiter)
        lines = [line for line in re.split("[\r\n]", text[begin:at]) if line]
        if problem is None and rows:
            problem = find_problem(fields, lines, delimiter, rows[0][0])
        if problem:
            return rows[1:], error_message(number, problem)
        rows.append((fields, text[begin:at].encode("latin-1")))
        ends = re.compile("[\r\n]*").match(text, at)
        if number == 0:
            returns_alone = re.match("\r(?!\n)", ends[0]) is not None
        allowed = (
            "\r*" if returns_alone else "(\n|\r\n)*" + ("\r?" if ends.end() == len(text) else "")
        )
        if not re.fullmatch(allowed, ends[0]):
            return rows[1:], error_message(number, LINE_END)
        at = ends.end()
    return rows[1:], None


def read_row(text, at, delimiter):
    """The fields of one row, what is wrong with its quotes, and where it ends."""
    fields = []
    while True:
        if text[at : at + 1] == '"':
            found = re.compile('"((?:[^"]|"")*+)"').match(text, at)
            if not found:
                return fields, OPEN, at
            if text[found.end() : found.end() + 1] not in ("", delimiter, "\r", "\n"):
                return fields, AFTER, at
        else:
            found = re.compile(f"([^{delimiter}\r\n]*)").match(text, at)
            if '"' in found[1]:
                return fields, STRAY, at
        fields.append(found[1].replace('""', '"').encode("latin-1"))
        at = found.end() + 1
        if text[at - 1 : at] != delimiter:
            return fields, None, at - 1


def find_problem(fields, lines, delimiter, header):
    """What is wrong with a row of several lines."""
    several = re.search(b"[\r\n]", b"".join(fields))
    if several and len(fields) != len(header):
        return COLUMNS
    if len(fields) == len(header) and re.search(b"[\r\n]", fields[header.index(b"user")]):
        return USER
    alike = delimiter == "\t" and all(line.count(delimiter) == len(header) - 1 for line in lines)
    return ROWS if alike and len(lines) > 1 else None


def expected_rows(data, delimiter=","):
    """What `parse` gives."""
    rows, error = read_slowly(data, delimiter)
    kept = (tuple(fields) if len(fields) == 2 else WRONG_COLUMNS for fields, _ in rows)
    return dict(enumerate(kept, 1)), error
