"""The keyed hash of many ids at once has the bits of hashlib, whatever their lengths."""

import hashlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.private.keyed_hash import KEY_BYTES, keyed_hashes
from bayesgram.text.tokenizer import buffers

keys = st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES)


def hashes_of(rows, key):
    high, low = keyed_hashes(*buffers(pa.array(rows, pa.large_binary())), key)
    return [np.array(halves, "<u8").tobytes() for halves in zip(high, low, strict=True)]


def expected(rows, key):
    return [hashlib.blake2b(row, key=key, digest_size=16).digest() for row in rows]


def test_every_length_around_the_blocks():
    rows = [bytes(range(256))[:size] * 2 for size in range(200)] + [b"", b"a" * 1000]
    key = bytes(range(KEY_BYTES))
    assert hashes_of(rows, key) == expected(rows, key)


@given(st.lists(st.binary(max_size=300), max_size=5), keys)
def test_any_rows_and_any_key(rows, key):
    assert hashes_of(rows, key) == expected(rows, key)


def test_slices_of_an_array_keep_their_rows():
    array = pa.array([b"ann", b"bob", b"cid"], pa.large_binary())[1:]
    high, _ = keyed_hashes(*buffers(array), bytes(KEY_BYTES))
    whole, _ = keyed_hashes(*buffers(pa.concat_arrays([array])), bytes(KEY_BYTES))
    assert high.tolist() == whole.tolist()
    assert hashes_of([b"bob", b"cid"], bytes(KEY_BYTES))[0][:8] == high[:1].tobytes()


def test_a_key_of_another_length_is_refused():
    with pytest.raises(AssertionError, match="a key of 16 bytes"):
        hashes_of([b"ann"], bytes(16))
