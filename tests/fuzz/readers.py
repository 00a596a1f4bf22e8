"""The readers of tables, against slow ones that read one byte or one line at a time.

No silent loss: what is read and what is counted as bad is all there is, and a file that the slow reader reads is not
refused. Which options are used (skip bad rows, a user column, the size of blocks) follows from the input itself.
"""

import bz2
import csv
import gzip
import io
import json
import lzma
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from bayesgram.errors import BayesgramError
from bayesgram.files import read_records, streams
from fuzz.mutations import SECRET, mutated, mutated_table
from fuzz.target import UNREADABLE, Target, check_message, must, says_too_much

MARK = b"\xef\xbb\xbf"
BLOCKS = (*[1 << 16] * 6, 64, 7)  # the largest holds any input; Arrow leaks a block for every damaged .gz
ROWS = [
    ("ann", f"red fish {SECRET}"),
    ("bob", 'one, two, "three"\nfour'),
    (f"cy{SECRET}", "don't\tstop"),
    ("007", ""),
    ("é", "a\r\nb"),
    ("ann", "日本 \U0001f469 x"),
]

Row = tuple[bytes, bytes] | None  # user and text; None: a row that can't be used


@dataclass(frozen=True)
class Options:
    """How an input is read."""

    skip: bool
    user: str | None
    block: int
    ahead: bool  # in a thread of its own, as always but here, where that takes most of the time

    @classmethod
    def of(cls, data: bytes) -> "Options":
        """Any, but always the same for one input."""
        number = zlib.crc32(data)
        return cls(
            bool(number & 3), None if number & 12 == 0 else "user", BLOCKS[number >> 4 & 7], number >> 7 & 15 == 0
        )

    def without_user(self) -> "Options":
        """The same for plain text."""
        return replace(self, user=None)


def read(path: Path, options: Options) -> tuple[list[tuple[bytes, bytes]], int]:
    """All rows, and how many were skipped."""
    usual, streams.BLOCK_BYTES = streams.BLOCK_BYTES, options.block
    try:
        reader = read_records(path, text_column="text", user_column=options.user, skip_bad_rows=options.skip)
        rows: list[tuple[bytes, bytes]] = []
        for records in reader if options.ahead else reader._records():
            users = records.text.to_pylist() if records.user is None else records.user.to_pylist()
            rows += zip(users, records.text.to_pylist(), strict=True)
        return rows, reader.bad_rows.total
    finally:
        streams.BLOCK_BYTES = usual


def compare(path: Path, options: Options, expected: Sequence[Row] | None, *, may_refuse: bool = False) -> None:
    """Read a file, of which these are the rows; None: it must be refused."""
    refuses = expected is None or (None in expected and not options.skip)
    try:
        rows, bad = read(path, options)
    except BayesgramError as error:
        check_message(error)
        must(refuses or may_refuse, f"refused, though nothing is wrong with it: {error}")
        raise
    must(not refuses, "read, though it should be refused")
    good = [row for row in expected or () if row is not None]
    must(rows == good, "other rows than the slow reader's")
    must(bad == len(expected or ()) - len(good), "rows were lost in silence")


def row_of(user: bytes | None, text: bytes | None, options: Options) -> Row:
    """A row, if it can be used."""
    user, text = user or b"", text or b""
    try:
        text.decode()
        user.decode()
    except UnicodeDecodeError:
        return None
    return (text, text) if options.user is None else (user, text) if user else None


# CSV and TSV


@dataclass(frozen=True)
class Literal:
    """The records of a file, one byte at a time."""

    records: list[list[bytes]]
    is_wrong: bool  # a quote that is open at the end, bytes after a closing one, one within a field without quotes
    lines: list[int]  # of each record
    ends: set[bytes]  # of lines, outside quotes


def literal_records(data: bytes, delimiter: int) -> Literal:  # noqa: C901 - the format, rule by rule
    """RFC 4180, and what is said in the docstring of `bayesgram.files.delimited`."""
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
                is_wrong = is_wrong or (at < size and data[at] != delimiter and data[at] not in b"\r\n")
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
    wide = ([record[user], record[text]] if len(record) == len(header) else None for record in records)
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


def is_foreign(data: bytes) -> bool:
    """Whether it may be refused whole for its first bytes, as another kind of file."""
    signs = (
        b"\xff\xfe",
        b"\xfe\xff",
        b"\x1f\x8b",
        b"(\xb5/\xfd",
        b"BZh",
        b"\xfd7zXZ",
        b"PK",
        b"PAR1",
        b"ARROW1",
        b"%PDF",
    )
    return data.startswith(signs) or b"\0" in data[:4]


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
    plain = [delimiter.join(row) for row in (("id", "text", "user"), ("1", "a b", "ann"), ("2", f"c {SECRET}", "bob"))]
    return [*made, "\n".join(plain).encode(), MARK + made[0]]


# JSON lines


def literal_line(line: bytes, options: Options) -> Row | str:
    """A row, None for a bad one, or "either" where Python can't tell: Arrow may know better than its parser."""
    try:
        value = json.loads(line.decode())
    except (ValueError, RecursionError):
        return "either"
    if not isinstance(value, dict):
        return None
    text, user = value.get("text"), value.get("user") if options.user else None
    if isinstance(user, int) and not isinstance(user, bool):
        user = str(user)
    if not (text is None or isinstance(text, str)) or not (user is None or isinstance(user, str)):
        return None
    try:
        return row_of(user and user.encode(), text and text.encode(), options)
    except UnicodeEncodeError:
        return None


def has_keys(lines: Sequence[bytes], options: Options) -> bool:
    """Whether some line has the keys, or no line is an object."""
    objects = []
    for line in lines:
        try:
            value = json.loads(line.decode("utf-8", "surrogateescape"))
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            objects.append(value)
    names = ("text", "user") if options.user else ("text",)
    return not objects or all(any(name in each for each in objects) for name in names)


def is_document(lines: Sequence[bytes]) -> bool:
    """Whether this looks like an array, an object over several lines, or lines that end with a return."""
    first = lines[0].strip(b" \t\r") if lines else b""
    return first.startswith(b"[") or first == b"{" or (len(lines) == 1 and b"\r" in first)


def check_jsonl(data: bytes, folder: Path) -> None:
    path, options = folder / "x.jsonl", Options.of(data)
    path.write_bytes(data)
    lines = [line for line in data.removeprefix(MARK).split(b"\n") if line.strip(b" \t\r\n")]
    if is_foreign(data) or is_document(lines):  # refused whole
        read(path, options)
        return
    expected = [literal_line(line, options) for line in lines]
    first_block = data[: data.rfind(b"\n") + 1]  # of the largest size; keys are looked for there, and nowhere else
    is_sure = options.block == max(BLOCKS) and has_keys(first_block.removeprefix(MARK).split(b"\n"), options)
    if "either" not in expected and has_keys(lines, options):
        compare(path, options, expected, may_refuse=not is_sure)
        return
    rows, bad = read(path, options)
    must(len(rows) + bad == len(lines), "lines were lost in silence")
    left = iter(rows)
    must(all(row in left for row in expected if row not in (None, "either")), "rows were lost in silence")
    must(options.skip or None not in expected, "a bad row was read")


def made_jsonl() -> list[bytes]:
    rows = [{"user": user, "text": text} for user, text in ROWS]
    lines = [json.dumps(row) for row in rows]
    raw = [json.dumps(row, ensure_ascii=False) for row in rows]
    more = ['{"text":"a","user":7,"x":[{"user":1}]}', f'{{"user":-7,"text":null,"x":"{SECRET}"}}', "", '{"user":"b"}']
    return ["\n".join(some).encode() for some in (lines, [*raw, ""], [*lines[:2], *more], more, [lines[0]])]


# Plain text, and compressed


def literal_text(data: bytes, options: Options) -> list[Row]:
    lines = data.removeprefix(MARK).split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [row_of(None, line.removesuffix(b"\r"), options) for line in lines]


def check_text(data: bytes, folder: Path) -> None:
    path, options = folder / "x.txt", Options.of(data).without_user()
    path.write_bytes(data)
    compare(path, options, literal_text(data, options), may_refuse=is_foreign(data))


def made_text() -> list[bytes]:
    lines = [text for _, text in ROWS]
    return ["\n".join(lines).encode(), "\r\n".join([*lines, "", ""]).encode(), MARK + lines[0].encode()]


def check_gz(data: bytes, folder: Path) -> None:
    path, options = folder / "x.txt.gz", Options.of(data).without_user()
    path.write_bytes(data)
    try:
        content = gzip.decompress(data) if data else None
    except (EOFError, OSError, zlib.error):
        content = None
    expected = None if content is None else literal_text(content, options)
    compare(path, options, expected, may_refuse=content is not None and (_is_overlooked(data) or is_foreign(content)))


def _is_overlooked(data: bytes) -> bool:
    """Whether zeros follow a part, or the sum of a head is wrong: Python overlooks both, and Arrow neither."""
    while data and not data.startswith(b"\0"):
        part = zlib.decompressobj(31)
        try:
            part.decompress(data)
        except zlib.error:
            return True
        data = part.unused_data
    return bool(data)


def check_packed(data: bytes, folder: Path, ending: str) -> None:
    """As Python's own modules unpack a single part; what follows it they leave out, so that is not compared."""
    path, options = folder / f"x.txt.{ending}", Options.of(data).without_user()
    path.write_bytes(data)
    part = bz2.BZ2Decompressor() if ending == "bz2" else lzma.LZMADecompressor(lzma.FORMAT_XZ)
    try:
        content = part.decompress(data)
    except (EOFError, OSError, ValueError, lzma.LZMAError):
        content = b""
    if part.unused_data:
        read(path, options)
        return
    compare(path, options, literal_text(content, options) if part.eof else None, may_refuse=is_foreign(content))


def compressed_zst(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


def check_zst(data: bytes, folder: Path) -> None:
    """There is no other reader of zstd to compare with; but what is cut short must be refused."""
    path, options = folder / "x.txt.zst", Options.of(data).without_user()
    path.write_bytes(data)
    is_cut = any(len(data) < len(whole) and whole.startswith(data) for whole in map(compressed_zst, made_text()))
    for content in made_text():
        if data == compressed_zst(content):
            compare(path, options, literal_text(content, options))
            return
    read(path, options)
    must(not is_cut, "a file that is cut short was read")


def mutated_packed(random: Random, seeds: Sequence[bytes]) -> bytes:
    """Cut short, changed, one after the other."""
    data = random.choice(seeds)
    match random.randrange(3):
        case 0:
            return data[: random.randint(0, len(data))]
        case 1:
            return data + random.choice((b"\0", b"\0" * 9, b"x", random.choice(seeds), data[:5]))
        case _:
            return mutated(random, data, seeds)


# Parquet

COMPARED = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.int32(), pa.int64(), pa.uint8())


def columns() -> dict[str, pa.Array]:
    users, texts = zip(*ROWS, strict=True)
    return {"user": pa.array(users), "text": pa.array(texts), "id": pa.array(range(len(ROWS)))}


def made_parquet() -> list[bytes]:
    made = []
    for number in range(6):
        out, table = io.BytesIO(), pa.table(columns())
        pq.write_table(table, out, compression=("none", "zstd")[number & 1], row_group_size=2 + number)
        made.append(out.getvalue())
    return made


def bytes_of(value: str | bytes | int | None) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else str(value).encode()


def literal_table(path: Path, options: Options) -> list[Row] | None:
    """The rows as Arrow reads them at once; None if it can't, or if it is not sure what they should be."""
    names = ["text", "user"] if options.user else ["text"]
    try:
        schema = pq.read_schema(path)
        if any(schema.names.count(name) != 1 or schema.field(name).type not in COMPARED for name in names):
            return None
        if pa.types.is_integer(schema.field("text").type):
            return None
        table = pq.read_table(path, columns=names)
        found = [table[name].to_pylist() for name in names]
    except UNREADABLE:
        return None
    return [row_of(bytes_of(user), bytes_of(text), options) for text, user in zip(found[0], found[-1], strict=True)]


def check_parquet(data: bytes, folder: Path) -> None:
    path, options = folder / "x.parquet", Options.of(data)
    path.write_bytes(data)
    if says_too_much(path):
        return
    expected = literal_table(path, options)
    if expected is None:
        read(path, options)
    else:
        compare(path, options, expected)


def mutated_parquet(random: Random, seeds: Sequence[bytes]) -> bytes:
    if random.random() < 0.4:
        return mutated(random, random.choice(seeds), seeds)
    return mutated_table(random, columns(), {"pandas": ("{}", "x")})


# Arrow files


def made_arrow() -> list[bytes]:
    made = []
    for number in range(4):
        out, options = io.BytesIO(), pa.ipc.IpcWriteOptions(compression=(None, "zstd", "lz4", None)[number])
        table = pa.table(columns())
        with pa.ipc.new_file(out, table.schema, options=options) as writer:
            writer.write_table(table, max_chunksize=2 + number)
        made.append(out.getvalue())
    return made


def check_arrow(data: bytes, folder: Path) -> None:
    """Nothing else reads such a file safely, so only that it is read or refused, and what is read is text."""
    path, options = folder / "x.arrow", Options.of(data)
    path.write_bytes(data)
    rows, bad = read(path, options)
    must(all(row_of(user, text, options) for user, text in rows), "a row that can't be used")
    if data in made_arrow():
        must((len(rows), bad) == (len(ROWS), 0), "rows were lost in silence")


def mutated_arrow(random: Random, seeds: Sequence[bytes]) -> bytes:
    """Bytes, mostly single ones: what stands before the data says where it is."""
    data = bytearray(random.choice(seeds))
    if random.random() < 0.3:
        return mutated(random, bytes(data), seeds)
    for _ in range(random.choice((1, 1, 2, 4))):
        data[random.randrange(len(data))] = random.choice((0, 1, 2, 8, 127, 128, 255, random.randrange(256)))
    return bytes(data)


def targets() -> Iterator[Target]:
    """All readers of tables."""
    yield Target("csv", 180, lambda: made_delimited(","), lambda data, folder: check_delimited(data, folder, "csv", 44))
    yield Target("tsv", 80, lambda: made_delimited("\t"), lambda data, folder: check_delimited(data, folder, "tsv", 9))
    yield Target("jsonl", 100, made_jsonl, check_jsonl)
    yield Target("text", 80, made_text, check_text)
    yield Target("gz", 40, lambda: [gzip.compress(each, mtime=0) for each in made_text()], check_gz, mutated_packed)
    yield Target("zst", 20, lambda: [compressed_zst(each) for each in made_text()], check_zst, mutated_packed)
    yield Target(
        "bz2",
        15,
        lambda: [bz2.compress(each) for each in made_text()],
        lambda *it: check_packed(*it, "bz2"),
        mutated_packed,
    )
    yield Target(
        "xz",
        15,
        lambda: [lzma.compress(each) for each in made_text()],
        lambda *it: check_packed(*it, "xz"),
        mutated_packed,
    )
    yield Target("arrow", 25, made_arrow, check_arrow, mutated_arrow)
    yield Target("parquet", 25, made_parquet, check_parquet, mutated_parquet)
