"""Parquet and Arrow files, as Arrow itself reads them."""

import io
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from fuzz.mutations import mutated, mutated_table
from fuzz.reading import ROWS, Options, Row, compare, read, row_of
from fuzz.target import UNREADABLE, must, says_too_much

COMPARED = (
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.large_binary(),
    pa.int32(),
    pa.int64(),
    pa.uint8(),
)


def columns() -> dict[str, pa.Array]:
    users, texts = zip(*ROWS, strict=True)
    return {"user": pa.array(users), "text": pa.array(texts), "id": pa.array(range(len(ROWS)))}


def made_parquet() -> list[bytes]:
    made = []
    for number in range(6):
        out, table = io.BytesIO(), pa.table(columns())
        pq.write_table(
            table, out, compression=("none", "zstd")[number & 1], row_group_size=2 + number
        )
        made.append(out.getvalue())
    return made


def bytes_of(value: str | bytes | int | None) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else str(value).encode()


def literal_table(path: Path, options: Options) -> list[Row] | None:
    """The rows as Arrow reads them at once; None if it can't, or if it is not sure what they should
    be.
    """
    names = ["text", "user"] if options.user else ["text"]
    try:
        schema = pq.read_schema(path)
        if any(
            schema.names.count(name) != 1 or schema.field(name).type not in COMPARED
            for name in names
        ):
            return None
        if pa.types.is_integer(schema.field("text").type):
            return None
        table = pq.read_table(path, columns=names)
        found = [table[name].to_pylist() for name in names]
    except UNREADABLE:
        return None
    return [
        row_of(bytes_of(user), bytes_of(text), options)
        for text, user in zip(found[0], found[-1], strict=True)
    ]


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


def made_arrow() -> list[bytes]:
    made = []
    for number in range(4):
        out, options = (
            io.BytesIO(),
            pa.ipc.IpcWriteOptions(compression=(None, "zstd", "lz4", None)[number]),
        )
        table = pa.table(columns())
        with pa.ipc.new_file(out, table.schema, options=options) as writer:
            writer.write_table(table, max_chunksize=2 + number)
        made.append(out.getvalue())
    return made


def check_arrow(data: bytes, folder: Path) -> None:
    """Nothing else reads such a file safely, so only that it is read or refused, and what is read
    is text.
    """
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
        data[random.randrange(len(data))] = random.choice(
            (0, 1, 2, 8, 127, 128, 255, random.randrange(256))
        )
    return bytes(data)
