"""The kernels that cut UTF-8 bytes into tokens. docs/text.md states what they do, rule by rule.

In:  one buffer of valid UTF-8 and the offsets of its rows, as in an Arrow large_binary array.
Out: (bytes, ends, row_ends): the tokens' bytes one after the other, where each token ends, and how many tokens the
     rows up to this one have. An empty token marks the end of a sentence; every row ends with one if it has tokens.
Does not normalise (`tokens` does, before), and does not know what a word means.
"""

import numpy as np

from bayesgram.arrays import Bools, Bytes, Ids, Integers
from bayesgram.kernels import inlined, kernel
from bayesgram.text.characters import (
    BREAK,
    END,
    IDEOGRAPH,
    IGNORED,
    JOINER,
    MARK,
    NORMALISE,
    SPACE,
    SPACE_TOKEN,
    WORD,
)

Scanned = tuple[Bytes, Ids, Integers]

CLASS = NORMALISE - 1  # the bits of the class


@inlined
def _decode(data: Bytes, at: int) -> tuple[int, int]:
    """The code point at a position of valid UTF-8, and the position after it."""
    first = int(data[at])
    if first < 0x80:
        return first, at + 1
    if first < 0xE0:
        return (first & 0x1F) << 6 | (data[at + 1] & 0x3F), at + 2
    if first < 0xF0:
        return (first & 0x0F) << 12 | int(data[at + 1] & 0x3F) << 6 | (data[at + 2] & 0x3F), at + 3
    high = (first & 0x07) << 18 | int(data[at + 1] & 0x3F) << 12
    return high | int(data[at + 2] & 0x3F) << 6 | (data[at + 3] & 0x3F), at + 4


@inlined
def _encode(code: int, out: Bytes, at: int) -> int:
    """Write a code point as UTF-8; the position after it."""
    if code < 0x80:
        out[at] = code
        return at + 1
    if code < 0x800:
        out[at] = 0xC0 | code >> 6
        out[at + 1] = 0x80 | code & 0x3F
        return at + 2
    if code < 0x10000:
        out[at] = 0xE0 | code >> 12
        out[at + 1] = 0x80 | code >> 6 & 0x3F
        out[at + 2] = 0x80 | code & 0x3F
        return at + 3
    out[at] = 0xF0 | code >> 18
    out[at + 1] = 0x80 | code >> 12 & 0x3F
    out[at + 2] = 0x80 | code >> 6 & 0x3F
    out[at + 3] = 0x80 | code & 0x3F
    return at + 4


@kernel
def _outputs(offsets: Integers) -> Scanned:
    """Room for the worst case: bytes at most double (a b → a▁b), a byte gives at most a token and a sentence end."""
    size = offsets[-1] - offsets[0]
    return (
        np.empty(2 * size + 4, np.uint8),
        np.empty(2 * size + 2, np.int32),
        np.empty(offsets.size - 1, np.int64),
    )


@inlined
def _end_sentence(ends: Ids, tokens: int, first: int) -> int:
    """Add an empty token, unless the row has none yet or its last one is empty already."""
    if tokens == first or (tokens > 1 and ends[tokens - 1] == ends[tokens - 2]):
        return tokens
    ends[tokens] = ends[tokens - 1]
    return tokens + 1


@kernel
def scan_words(data: Bytes, offsets: Integers, classes: Bytes, fold: Ids) -> Scanned:  # noqa: C901 - one state machine
    """Words: runs of letters and digits with their marks, joined by inner apostrophes; ideographs one by one."""
    out, ends, row_ends = _outputs(offsets)
    size = tokens = 0  # bytes written, tokens written
    for row in range(offsets.size - 1):
        at, stop = offsets[row], offsets[row + 1]
        start = size  # where the open word began; size == start: no word is open
        joiner = 0  # an apostrophe that is kept only if a letter follows
        first = tokens
        while at < stop:
            code, at = _decode(data, at)
            kind = classes[code] & CLASS
            if kind == WORD:
                if joiner:
                    size = _encode(joiner, out, size)
                    joiner = 0
                size = _encode(fold[code], out, size)
                continue
            if kind == IGNORED:
                continue
            if kind == MARK:
                if size > start:
                    joiner = 0
                    size = _encode(fold[code], out, size)
                continue
            if kind == JOINER and size > start and not joiner:
                joiner = fold[code]
                continue
            joiner = 0
            if size > start:
                ends[tokens] = start = size
                tokens += 1
            if kind == IDEOGRAPH:
                size = _encode(code, out, size)
                ends[tokens] = start = size
                tokens += 1
            elif kind >= END:
                tokens = _end_sentence(ends, tokens, first)
        if size > start:
            ends[tokens] = size
            tokens += 1
        tokens = _end_sentence(ends, tokens, first)
        row_ends[row] = tokens
    return out[:size].copy(), ends[:tokens].copy(), row_ends


@kernel
def scan_whitespace(data: Bytes, offsets: Integers, classes: Bytes, fold: Ids) -> Scanned:
    """Whatever stands between white space; a sentence is a line."""
    out, ends, row_ends = _outputs(offsets)
    size = tokens = 0
    for row in range(offsets.size - 1):
        at, stop = offsets[row], offsets[row + 1]
        start = size
        first = tokens
        while at < stop:
            code, at = _decode(data, at)
            kind = classes[code] & CLASS
            if kind not in (SPACE, BREAK):
                size = _encode(fold[code], out, size)
                continue
            if size > start:
                ends[tokens] = start = size
                tokens += 1
            if kind == BREAK:
                tokens = _end_sentence(ends, tokens, first)
        if size > start:
            ends[tokens] = size
            tokens += 1
        tokens = _end_sentence(ends, tokens, first)
        row_ends[row] = tokens
    return out[:size].copy(), ends[:tokens].copy(), row_ends


@kernel
def scan_characters(data: Bytes, offsets: Integers, classes: Bytes, fold: Ids) -> Scanned:
    """Every character is a token, spaces between two characters are one ▁; a sentence ends after its mark."""
    out, ends, row_ends = _outputs(offsets)
    size = tokens = 0
    for row in range(offsets.size - 1):
        at, stop = offsets[row], offsets[row + 1]
        first = tokens
        space = inside = False  # a space is waiting; the sentence has begun
        while at < stop:
            code, at = _decode(data, at)
            kind = classes[code] & CLASS
            if kind == SPACE:
                space = True
            if kind in (SPACE, IGNORED):
                continue
            if kind != BREAK:
                if space and inside:
                    size = _encode(SPACE_TOKEN, out, size)
                    ends[tokens] = size
                    tokens += 1
                size = _encode(fold[code], out, size)
                ends[tokens] = size
                tokens += 1
            inside = kind < END
            space = False
            if not inside:
                tokens = _end_sentence(ends, tokens, first)
        tokens = _end_sentence(ends, tokens, first)
        row_ends[row] = tokens
    return out[:size].copy(), ends[:tokens].copy(), row_ends


@kernel
def rows_to_normalise(data: Bytes, offsets: Integers, classes: Bytes) -> Bools:
    """Rows with a code point that NFC may change; almost always none."""
    found = np.zeros(offsets.size - 1, np.bool_)
    for row in range(offsets.size - 1):
        at, stop = offsets[row], offsets[row + 1]
        while at < stop:
            if data[at] < 0xCC:  # below U+0300 nothing changes
                at += 1
                continue
            code, at = _decode(data, at)
            if classes[code] & NORMALISE:
                found[row] = True
                break
    return found
