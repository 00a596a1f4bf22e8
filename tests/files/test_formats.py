"""JSON of ours: an object that could be written again, or a ValueError."""

import pytest

from bayesgram.files.formats import MOST_LEVELS, read_json


def test_an_object_is_read(tmp_path):
    (tmp_path / "x.json").write_text('{"a": [1, {"b": "é"}]}', encoding="utf-8")
    assert read_json(tmp_path / "x.json") == {"a": [1, {"b": "é"}]}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"null",
        b'{"a": 1',
        b'{"a": "\\ud800"}',
        b'{"a": "\xff"}',
        b'{"a": ' + b"1" * 5000 + b"}",
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a": ' + b"[" * MOST_LEVELS + b"]" * MOST_LEVELS + b"}",
    ],
)
def test_anything_else_is_not(tmp_path, content):
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(ValueError):  # noqa: PT011 - whoever opens the file says what is wrong with it
        read_json(tmp_path / "x.json")


def test_as_many_levels_as_are_allowed(tmp_path):
    inner = MOST_LEVELS - 1
    (tmp_path / "x.json").write_bytes(b'{"a": ' + b"[" * inner + b"]" * inner + b"}")
    assert list(read_json(tmp_path / "x.json")) == ["a"]
