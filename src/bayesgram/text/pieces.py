"""Word pieces by somebody else's rules: a Hugging Face tokenizer.json, through the library `tokenizers` (an extra).

In:  the content of the file, and rows of valid UTF-8.   Out: pieces, as `scan` gives tokens; a sentence is a line.
A piece may hold anything, and n-grams are joined by one space: so white space in a piece, and the backslash itself, are
escaped, and the piece can be had back (`unescaped`). Special tokens in a text are text. Does not keep text.
"""

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bayesgram.arrays import Bytes, Ids, Integers
from bayesgram.errors import BayesgramError, UsageError, unreadable
from bayesgram.text.characters import LINE_BREAKS
from bayesgram.text.scan import Scanned

ESCAPES = {"\\": r"\\", " ": r"\s", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v", "\f": r"\f", "\0": r"\0"}
EMPTY = r"\e"  # a piece of no characters
MARKS = {"<s>": r"\<s>", "</s>": r"\</s>"}  # pieces that look like the boundaries of sentences
_BACK = {escaped: plain for plain, escaped in ESCAPES.items()} | {EMPTY: "", r"\<": "<"}
_TRANSLATION = str.maketrans(ESCAPES)
_LINES = re.compile("[" + "".join(map(chr, sorted(LINE_BREAKS))) + "]+")


def escaped(piece: str) -> str:
    r"""A piece as n-grams hold it.

    >>> escaped("▁fish"), escaped("a b"), escaped("\\n"), escaped("")
    ('▁fish', 'a\\sb', '\\\\n', '\\e')
    """
    return MARKS.get(piece) or piece.translate(_TRANSLATION) or EMPTY


def unescaped(token: str) -> str:
    r"""The piece again.

    >>> unescaped(escaped("a b\\s"))
    'a b\\s'
    """
    return re.sub(r"\\.", lambda found: _BACK[found[0]], token)


def read_definition(path: str | Path) -> tuple[str, str]:
    """The content of a tokenizer.json, and its SHA-256; one that can't be used is refused."""
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        raise UsageError(f"tokenizer=file:{path}: no such file; give the path of a tokenizer.json.") from None
    except OSError as error:
        raise unreadable(path, error) from None
    try:
        definition = content.decode()
        Pieces(definition)
    except UsageError:
        raise
    except Exception:  # noqa: BLE001 - the library raises nothing narrower
        raise UsageError(
            f"tokenizer=file:{path}: not a tokenizer.json that the library tokenizers reads; save it again with"
            " `tokenizer.save(path)`, or update the library."
        ) from None
    return definition, hashlib.sha256(content).hexdigest()


@lru_cache(maxsize=4)
def pieces_of(definition: str) -> "Pieces":
    """The tokenizer of a file's content, made once."""
    return Pieces(definition)


class Pieces:
    """A tokenizer of the library, and its pieces as bytes."""

    def __init__(self, definition: str) -> None:
        self._tokenizer = _library().Tokenizer.from_str(definition)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True
        names = self._tokenizer.get_vocab(with_added_tokens=True)
        if not names:
            raise UsageError("the tokenizer file has no pieces; give one that was trained.")
        tokens = [b""] * (max(names.values()) + 1)
        for name, number in names.items():
            tokens[number] = escaped(name).encode()
        self._data: Bytes = np.frombuffer(b"".join(tokens), np.uint8)
        self._lengths: Integers = np.array([*map(len, tokens), 0], np.int64)  # the last one: where a sentence ends
        self._starts: Integers = np.cumsum(self._lengths) - self._lengths

    def cut(self, texts: pa.LargeBinaryArray) -> Scanned:
        """The pieces of rows, as `scan` gives tokens."""
        rows = [[line for line in _LINES.split(text.decode()) if line] for text in texts.to_pylist()]
        found = self._encoded(list(chain.from_iterable(rows)))
        counts = np.array([len(each) + (len(each) > 0) for each in found], np.int64)
        ends = np.cumsum([0, *counts])
        numbers = np.fromiter(
            chain.from_iterable(chain(each, (-1,)) for each in found if each), np.int64, int(ends[-1])
        )
        lengths = self._lengths[numbers]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(offsets[-1]) + np.repeat(self._starts[numbers] - offsets[:-1], lengths)
        row_ends = ends[np.cumsum([len(row) for row in rows], dtype=np.int64)]
        data: Bytes = self._data[places]
        bounds: Ids = offsets.astype(np.int32)
        return data, bounds, row_ends

    def added(self, before: Sequence[str], piece: str) -> str:
        """What a line of pieces gains by one more, as text: white space and marks of words as the file has them."""
        line, longer = (self._text(tokens) for tokens in (before, [*before, piece]))
        return longer.removeprefix(line) if longer.startswith(line) else unescaped(piece)

    def _text(self, tokens: Sequence[str]) -> str:
        pieces, decoder = [unescaped(token) for token in tokens], self._tokenizer.decoder
        return " ".join(pieces) if decoder is None else str(decoder.decode(pieces))

    def _encoded(self, lines: list[str]) -> list[list[int]]:
        try:
            return [each.ids for each in self._tokenizer.encode_batch_fast(lines, add_special_tokens=False)]
        except Exception:  # noqa: BLE001 - the library raises nothing narrower
            raise BayesgramError(
                "the tokenizer file can't cut this text: perhaps it has no piece for what it doesn't know (unk_token)."
            ) from None


def _library() -> Any:  # noqa: ANN401 - a module
    try:
        import tokenizers  # noqa: PLC0415 - an extra
    except ImportError:
        raise UsageError(
            "tokenizer=file: the package tokenizers is not installed; pip install 'bayesgram[tokenizers]'."
        ) from None
    return tokenizers
