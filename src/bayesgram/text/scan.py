"""The kernels that cut UTF-8 bytes into tokens. docs/text.md states what they do, rule by rule.

In:  one buffer of valid UTF-8 and the offsets of its rows, as in an Arrow large_binary array.
Out: (bytes, offsets, row_ends): the tokens' bytes one after the other, token i from offsets[i] to offsets[i + 1], and
     how many tokens the rows up to this one have. An empty token marks the end of a sentence; every row ends with one
     if it has tokens.
The caller gives the room for bytes and offsets: for every byte of text two and two, as bytes at most double (a b → a▁b)
and a byte gives at most a token and a sentence end. Does not normalise (`tokens` does, before), and does not know what
a word means.
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
    SEPARATOR,
    SPACE,
    SPACE_TOKEN,
    WORD,
)

Scanned = tuple[Bytes, Ids, Integers]

CLASS = NORMALISE - 1  # the bits of the class
SPECIAL = np.uint8(0xFF)
FIRST_TO_NORMALISE = 0xCC  # the first byte of U+0300: below, NFC changes nothing


@inlined
def decode(data: Bytes, at: int) -> tuple[int, int]:
    """The code point at a position of valid UTF-8, and the position after it."""
    first = int(data[at])
    if first < 0x80:
        return first, at + 1
    if first < 0xE0:
        return (first & 0x1F) << 6 | int(data[at + 1] & 0x3F), at + 2
    if first < 0xF0:
        return (first & 0x0F) << 12 | int(data[at + 1] & 0x3F) << 6 | int(data[at + 2] & 0x3F), at + 3
    high = (first & 0x07) << 18 | int(data[at + 1] & 0x3F) << 12
    return high | int(data[at + 2] & 0x3F) << 6 | int(data[at + 3] & 0x3F), at + 4


@inlined
def encode(code: int, out: Bytes, at: int) -> int:
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


def room_for(size: int) -> tuple[Bytes, Ids]:
    """Room for the tokens of so many bytes of text; most of it is never written, and so is never memory."""
    return np.empty(2 * size + 4, np.uint8), np.empty(2 * size + 3, np.int32)


@inlined
def end_sentence(ends: Ids, tokens: int, first: int) -> int:
    """Add an empty token, unless the row has none yet or its last one is empty already."""
    if tokens == first or (tokens > 1 and ends[tokens - 1] == ends[tokens - 2]):
        return tokens
    ends[tokens] = ends[tokens - 1]
    return tokens + 1


@kernel
def plain_bytes(classes: Bytes, fold: Ids) -> Bytes:
    """What a byte becomes where that is all there is to it: a letter or digit in its case, 0 for what only separates.

    Sentence ends, apostrophes and bytes that are not ASCII are SPECIAL.
    """
    plain = np.empty(256, np.uint8)
    for byte in range(256):
        plain[byte] = SPECIAL
        kind = classes[byte] & CLASS
        if kind == WORD and byte < 0x80:
            plain[byte] = fold[byte]
        elif kind in (SEPARATOR, SPACE) and byte < 0x80:
            plain[byte] = 0
    return plain


@kernel
def scan_words(  # noqa: C901, PLR0912, PLR0915 - one state machine
    data: Bytes, offsets: Integers, classes: Bytes, fold: Ids, out: Bytes, bounds: Ids
) -> Scanned:
    """Words: runs of letters and digits with their marks, joined by inner apostrophes; ideographs one by one."""
    plain = plain_bytes(classes, fold)
    row_ends, ends = np.empty(offsets.size - 1, np.int64), bounds[1:]
    bounds[0] = 0
    size = tokens = 0  # bytes written, tokens written
    for row in range(offsets.size - 1):
        at, stop = offsets[row], offsets[row + 1]
        start = size  # where the open word began; size == start: no word is open
        joiner = 0  # an apostrophe that is kept only if a letter follows
        first = tokens
        while at < stop:
            while at < stop and not joiner:  # most of most text: no branch but the end of this loop, so none is guessed
                letter = plain[data[np.uint64(at)]]  # unsigned: no check for places counted from the end
                if letter == SPECIAL:
                    break
                is_letter = int(letter != 0)
                ended = int(size > start) & (1 - is_letter)
                out[np.uint64(size)] = letter
                size += is_letter
                ends[np.uint64(tokens)] = size
                tokens += ended
                start = size if ended else start
                at += 1
            if at == stop:
                break
            code, at = decode(data, at)
            kind = classes[code] & CLASS
            if kind == IGNORED or (kind == MARK and size == start):
                continue
            if kind in (WORD, MARK):
                if joiner and kind == WORD:
                    size = encode(joiner, out, size)
                joiner = 0
                size = encode(fold[code], out, size)
                continue
            if kind == JOINER and size > start and not joiner:
                joiner = fold[code]
                continue
            joiner = 0
            if size > start:
                ends[tokens] = start = size
                tokens += 1
            if kind == IDEOGRAPH:
                size = encode(code, out, size)
                ends[tokens] = start = size
                tokens += 1
            elif kind >= END:
                tokens = end_sentence(ends, tokens, first)
        if size > start:
            ends[tokens] = size
            tokens += 1
        tokens = end_sentence(ends, tokens, first)
        row_ends[row] = tokens
    return out[:size], bounds[: tokens + 1], row_ends


@kernel
def scan_whitespace(data: Bytes, offsets: Integers, classes: Bytes, fold: Ids, out: Bytes, bounds: Ids) -> Scanned:
    """Whatever stands between white space; a sentence is a line."""
    row_ends, ends = np.empty(offsets.size - 1, np.int64), bounds[1:]
    bounds[0] = 0
    size = tokens = 0
    for row in range(offsets.size - 1):
        at, stop = offsets[row], offsets[row + 1]
        start = size
        first = tokens
        while at < stop:
            code, at = decode(data, at)
            kind = classes[code] & CLASS
            if kind not in (SPACE, BREAK):
                size = encode(fold[code], out, size)
                continue
            if size > start:
                ends[tokens] = start = size
                tokens += 1
            if kind == BREAK:
                tokens = end_sentence(ends, tokens, first)
        if size > start:
            ends[tokens] = size
            tokens += 1
        tokens = end_sentence(ends, tokens, first)
        row_ends[row] = tokens
    return out[:size], bounds[: tokens + 1], row_ends


@kernel
def scan_characters(data: Bytes, offsets: Integers, classes: Bytes, fold: Ids, out: Bytes, bounds: Ids) -> Scanned:
    """Every character is a token, spaces between two characters are one ▁; a sentence ends after its mark."""
    row_ends, ends = np.empty(offsets.size - 1, np.int64), bounds[1:]
    bounds[0] = 0
    size = tokens = 0
    for row in range(offsets.size - 1):
        at, stop = offsets[row], offsets[row + 1]
        first = tokens
        space = inside = False  # a space is waiting; the sentence has begun
        while at < stop:
            code, at = decode(data, at)
            kind = classes[code] & CLASS
            if kind == SPACE:
                space = True
            if kind in (SPACE, IGNORED):
                continue
            if kind != BREAK:
                if space and inside:
                    size = encode(SPACE_TOKEN, out, size)
                    ends[tokens] = size
                    tokens += 1
                size = encode(fold[code], out, size)
                ends[tokens] = size
                tokens += 1
            inside = kind < END
            space = False
            if not inside:
                tokens = end_sentence(ends, tokens, first)
        tokens = end_sentence(ends, tokens, first)
        row_ends[row] = tokens
    return out[:size], bounds[: tokens + 1], row_ends


@kernel
def rows_to_normalise(data: Bytes, offsets: Integers, classes: Bytes) -> Bools:
    """Rows with a code point that NFC may change; almost always none."""
    found = np.empty(offsets.size - 1, np.bool_)
    for row in range(offsets.size - 1):
        start, stop = np.uint64(offsets[row]), np.uint64(offsets[row + 1])
        largest = np.uint8(0)
        for at in range(start, stop):  # so simple that it runs many bytes at a time
            largest = max(largest, data[at])
        found[row] = largest >= FIRST_TO_NORMALISE and _may_change(data, offsets[row], offsets[row + 1], classes)
    return found


@inlined
def _may_change(data: Bytes, at: int, stop: int, classes: Bytes) -> bool:
    while at < stop:
        if data[at] < FIRST_TO_NORMALISE:
            at += 1
            continue
        code, at = decode(data, at)
        if classes[code] & NORMALISE:
            return True
    return False
