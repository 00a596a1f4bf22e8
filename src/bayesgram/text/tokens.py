"""Tokens of text: the same cut for public and private text.

In:  strings, or Arrow arrays of valid UTF-8.   Out: tokens in sentences; or, for the pipeline, flat arrays.
Rules: docs/text.md. Does not count, and keeps no text.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from threading import local

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arrays import Bytes, Ids, Integers
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.text.characters import character_table, message_classes, message_fold
from bayesgram.text.kinds import TokenizerKind
from bayesgram.text.messages import scan_messages
from bayesgram.text.scan import Scanned, room_for, rows_to_normalise, scan_characters, scan_whitespace, scan_words

CHUNK_BYTES = 1 << 18  # tokens of one chunk stay in the processor's cache
MAX_ROW_BYTES = 1 << 29  # token ends are 32-bit
BOUNDARIES = ", boundaries"
_ROOMS = local()

SCANNERS = {
    TokenizerKind.WORDS: scan_words,
    TokenizerKind.MESSAGES: scan_messages,
    TokenizerKind.WHITESPACE: scan_whitespace,
    TokenizerKind.CHARACTERS: scan_characters,
}


@dataclass(frozen=True)
class Tokenizer:
    r"""A way to cut text. Two texts cut by equal tokenizers are comparable.

    >>> Tokenizer().sentences("Don't stop! The café's open, O'Hara.")
    [["don't", 'stop'], ['the', "café's", 'open', "o'hara"]]
    >>> Tokenizer("messages").sentences("So cute :-))) 👍🏽❤️ Love it!")
    [['so', 'cute', ':-)', '👍🏽', '❤', 'love', 'it']]
    >>> Tokenizer("whitespace").sentences("ACG TTA\nGGC")
    [['ACG', 'TTA'], ['GGC']]
    >>> Tokenizer("characters").sentences("Hi you")
    [['h', 'i', '▁', 'y', 'o', 'u']]
    """

    kind: TokenizerKind = TokenizerKind.WORDS
    lowercase: bool | None = None  # None: as usual for the kind, that is yes but for whitespace
    boundaries: bool = False  # n-grams may begin with <s> and end with </s>

    def __post_init__(self) -> None:
        if self.kind not in set(TokenizerKind):
            raise UsageError(f"tokenizer={self.kind!r}: choose one of {', '.join(TokenizerKind)}.")
        object.__setattr__(self, "kind", TokenizerKind(self.kind))
        if self.lowercase is None:
            object.__setattr__(self, "lowercase", self.kind is not TokenizerKind.WHITESPACE)

    @property
    def name(self) -> str:
        """What files call this tokenizer, for example `words` or `words, case kept, boundaries`."""
        usual = Tokenizer(self.kind).lowercase
        case = "" if self.lowercase == usual else ", lower case" if self.lowercase else ", case kept"
        return self.kind + case + (BOUNDARIES if self.boundaries else "")

    @classmethod
    def from_name(cls, name: str) -> "Tokenizer":
        """The inverse of `name`."""
        kind, _, case = name.removesuffix(BOUNDARIES).partition(", ")
        cases = {"": None, "lower case": True, "case kept": False}
        if kind not in set(TokenizerKind) or case not in cases:
            raise UsageError(
                f"tokenizer={name!r}: not known to this bayesgram. Use a newer one, or make the vocabulary again."
            )
        return cls(kind, cases[case], name.endswith(BOUNDARIES))  # type: ignore[arg-type]

    def sentences(self, text: str) -> list[list[str]]:
        """The tokens of one text, sentence by sentence."""
        found: list[list[str]] = [[]]
        for tokens, offsets, _ in self.scan(pa.array([text.encode()], pa.large_binary())):
            for start, end in pairwise(offsets):
                if end == start:
                    found.append([])
                else:
                    found[-1].append(tokens[start:end].tobytes().decode())
        return found[:-1]

    def scan(self, texts: pa.LargeBinaryArray) -> Iterator[Scanned]:
        """Cut rows of valid UTF-8, a chunk of rows at a time; the rows keep their order."""
        for chunk in chunks(texts):
            data, offsets, row_ends = self.cut(chunk)
            yield data.copy(), offsets.copy(), row_ends

    def cut(self, texts: pa.LargeBinaryArray) -> Scanned:
        """The tokens of one chunk of rows, to be used before this thread cuts again: a thread has one room for them."""
        if self.kind is not TokenizerKind.WHITESPACE:
            texts = _normalised(texts)
        data, offsets = buffers(texts)
        classes, fold = _tables(self.kind, lowercase=bool(self.lowercase))
        return SCANNERS[self.kind](data, offsets, classes, fold, *_room(int(offsets[-1] - offsets[0])))


def _room(size: int) -> tuple[Bytes, Ids]:
    """The room of this thread, made larger if it is too small."""
    if getattr(_ROOMS, "size", -1) < size:
        _ROOMS.size = max(size, CHUNK_BYTES)
        _ROOMS.room = room_for(_ROOMS.size)
    room: tuple[Bytes, Ids] = _ROOMS.room
    return room


@cache
def _tables(kind: TokenizerKind, *, lowercase: bool) -> tuple[Bytes, Ids]:
    """The class of each code point, and what it becomes in a token."""
    table = character_table()
    if kind is TokenizerKind.MESSAGES:
        return message_classes(), message_fold(lowercase=lowercase)
    if lowercase:
        return table.classes, table.lower
    return table.classes, np.arange(0x110000, dtype=np.int32) if kind is TokenizerKind.WHITESPACE else table.keep


def buffers(array: pa.LargeBinaryArray) -> tuple[Bytes, Integers]:
    """The bytes of an Arrow array and the offsets of its rows, without a copy; slices keep their place."""
    _, offsets, data = array.buffers()
    if len(array) == 0:
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    rows = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    return (np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)), rows


def _normalised(texts: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Unicode NFC, applied only to the rows that it may change."""
    rows = pa.array(rows_to_normalise(*buffers(texts), character_table().classes))
    if not rows.true_count:
        return texts
    changed = pc.utf8_normalize(texts.filter(rows).cast(pa.large_string()), form="NFC").cast(pa.large_binary())
    return pc.replace_with_mask(texts, rows, changed)


def chunks(texts: pa.LargeBinaryArray) -> Iterator[pa.LargeBinaryArray]:
    """Runs of rows of about CHUNK_BYTES."""
    _, offsets = buffers(texts)
    rows = offsets.size - 1
    start = 0
    while start < rows:
        stop = int(np.searchsorted(offsets, offsets[start] + CHUNK_BYTES, side="right")) - 1
        stop = min(max(stop, start + 1), rows)
        if offsets[stop] - offsets[start] > MAX_ROW_BYTES:
            raise BayesgramError(
                f"a single text of more than {MAX_ROW_BYTES >> 20} MB: split it into several rows of the same user."
            )
        yield texts[start:stop]
        start = stop
