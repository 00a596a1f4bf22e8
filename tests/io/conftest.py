"""Helpers: write any format under any compression, and read everything back as Python lists."""

import bz2
import csv
import gzip
import io
import json
import lzma

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from bayesgram.io import read_records


def _compressed(data, ending):
    if ending.endswith(".gz"):
        return gzip.compress(data)
    if ending.endswith(".bz2"):
        return bz2.compress(data)
    if ending.endswith(".xz"):
        return lzma.compress(data)
    if ending.endswith(".zst"):
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(data)
        return sink.getvalue().to_pybytes()
    return data


def _encoded(rows, ending):
    if "json" in ending:
        return "".join(
            json.dumps({"user": user, "text": text}) + "\n" for user, text in rows
        ).encode()
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter="\t" if ".t" in ending else ",")
    writer.writerows([("user", "text"), *rows])
    return out.getvalue().encode()


@pytest.fixture
def put(tmp_path):
    """put(name, bytes) writes raw content, compressed as the name says."""

    def write(name, data):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_compressed(data, name.lower()))
        return path

    return write


@pytest.fixture
def put_rows(put, tmp_path):
    """put_rows(name, rows) writes (user, text) rows in the format that the name says."""

    def write(name, rows):
        if name.endswith((".parquet", ".pq")):
            users, texts = ([row[index] for row in rows] for index in (0, 1))
            pq.write_table(pa.table({"user": users, "text": texts}), tmp_path / name)
            return tmp_path / name
        if name.endswith((".arrow", ".feather")):
            users, texts = ([row[index] for row in rows] for index in (0, 1))
            table = pa.table({"user": users, "other": [[1]] * len(rows), "text": texts})
            feather.write_feather(
                table, tmp_path / name, compression="uncompressed" if ".arrow" in name else "lz4"
            )
            return tmp_path / name
        return put(name, _encoded(rows, name.lower()))

    return write


@pytest.fixture
def read():
    """read(inputs) gives all (user, text) rows; with user=None, all texts."""

    def all_rows(inputs, user="user", text="text", **options):
        reader = read_records(inputs, text_column=text, user_column=user, **options)
        rows = []
        for records in reader:
            assert isinstance(records.text, pa.LargeBinaryArray)
            assert records.text.null_count == 0
            texts = [value.decode() for value in records.text.to_pylist()]
            if user is None:
                assert records.user is None
                rows += texts
            else:
                assert len(records.user) == len(records.text) == len(records)
                rows += zip(
                    [value.decode() for value in records.user.to_pylist()], texts, strict=True
                )
        return rows

    return all_rows
