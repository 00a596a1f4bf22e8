"""JSON lines, plain text, and both compressed, read one line at a time."""

import bz2
import gzip
import json
import lzma
import zlib
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pyarrow as pa

from fuzz.mutations import SECRET, mutated
from fuzz.reading import BLOCKS, MARK, ROWS, Options, Row, compare, is_foreign, read, row_of
from fuzz.target import must


def literal_line(line: bytes, options: Options) -> Row | str:
    """A row, None for a bad one, or "either" where Python can't tell: Arrow may know better than
    its parser.
    """
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
    """Whether this looks like an array, an object over several lines, or lines that end with a
    return.
    """
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
    first_block = data[
        : data.rfind(b"\n") + 1
    ]  # of the largest size; keys are looked for there, and nowhere else
    is_sure = options.block == max(BLOCKS) and has_keys(
        first_block.removeprefix(MARK).split(b"\n"), options
    )
    if "either" not in expected and has_keys(lines, options):
        compare(path, options, expected, may_refuse=not is_sure)
        return
    rows, bad = read(path, options)
    must(len(rows) + bad == len(lines), "lines were lost in silence")
    left = iter(rows)
    must(
        all(row in left for row in expected if row not in (None, "either")),
        "rows were lost in silence",
    )
    must(options.skip or None not in expected, "a bad row was read")


def made_jsonl() -> list[bytes]:
    rows = [{"user": user, "text": text} for user, text in ROWS]
    lines = [json.dumps(row) for row in rows]
    raw = [json.dumps(row, ensure_ascii=False) for row in rows]
    more = [
        '{"text":"a","user":7,"x":[{"user":1}]}',
        f'{{"user":-7,"text":null,"x":"{SECRET}"}}',
        "",
        '{"user":"b"}',
    ]
    return [
        "\n".join(some).encode()
        for some in (lines, [*raw, ""], [*lines[:2], *more], more, [lines[0]])
    ]


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
    return [
        "\n".join(lines).encode(),
        "\r\n".join([*lines, "", ""]).encode(),
        MARK + lines[0].encode(),
    ]


def check_gz(data: bytes, folder: Path) -> None:
    path, options = folder / "x.txt.gz", Options.of(data).without_user()
    path.write_bytes(data)
    try:
        content = gzip.decompress(data) if data else None
    except (EOFError, OSError, zlib.error):
        content = None
    expected = None if content is None else literal_text(content, options)
    compare(
        path,
        options,
        expected,
        may_refuse=content is not None and (_is_overlooked(data) or is_foreign(content)),
    )


def _is_overlooked(data: bytes) -> bool:
    """Whether zeros follow a part, or the sum of a head is wrong: Python overlooks both, and Arrow
    neither.
    """
    while data and not data.startswith(b"\0"):
        part = zlib.decompressobj(31)
        try:
            part.decompress(data)
        except zlib.error:
            return True
        data = part.unused_data
    return bool(data)


def check_packed(data: bytes, folder: Path, ending: str) -> None:
    """As Python's own modules unpack a single part; what follows it they leave out, so that is not
    compared.
    """
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
    compare(
        path,
        options,
        literal_text(content, options) if part.eof else None,
        may_refuse=is_foreign(content),
    )


def compressed_zst(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


def check_zst(data: bytes, folder: Path) -> None:
    """There is no other reader of zstd to compare with; but what is cut short must be refused."""
    path, options = folder / "x.txt.zst", Options.of(data).without_user()
    path.write_bytes(data)
    is_cut = any(
        len(data) < len(whole) and whole.startswith(data)
        for whole in map(compressed_zst, made_text())
    )
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
