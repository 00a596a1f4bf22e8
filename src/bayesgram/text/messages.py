"""The kernel that cuts messages: words as `scan` cuts them, and emoji and emoticons. docs/text.md has the rules.

In and out: as in `scan`. What is written for an emoji or an emoticon is never longer than what is read.
Does not know what emoji there are: blocks of Unicode are all that is asked (`characters`), so new ones are tokens too.
"""

import numpy as np

from bayesgram.arrays import Bytes, Ids, Integers
from bayesgram.kernels import inlined, kernel
from bayesgram.text.characters import (
    BREAK,
    EMOJI,
    END,
    IDEOGRAPH,
    IGNORED,
    JOINER,
    KEYCAP,
    MARK,
    MODIFIER,
    REGIONAL,
    WORD,
)
from bayesgram.text.scan import CLASS, SPECIAL, Scanned, decode, encode, end_sentence, plain_bytes

ZERO_WIDTH_JOINER = 0x200D
TEXT_STYLE, EMOJI_STYLE = 0xFE0E, 0xFE0F
FIRST_TAG, LAST_TAG, TAGS_END = 0xE0020, 0xE007E, 0xE007F
APOSTROPHE = ord("'")
_NOTHING = -1

# What a byte may be in an emoticon, as bits.
EYES, NOSE, MOUTH, CLOSE_MOUTH, OPENS = 1, 2, 4, 8, 16


def _parts() -> Bytes:
    parts = np.zeros(256, np.uint8)
    for part, letters in (
        (EYES, b":;="),
        (NOSE, b"-^"),
        (MOUTH, b")(][*$@"),
        (CLOSE_MOUTH, b"DdPpOoSsXx3/\\|"),  # only where no letter stands before: http://, 1:3
        (OPENS, b":;=<>^-"),
    ):
        parts[np.frombuffer(letters, np.uint8)] |= part
    return parts


PARTS = _parts()


@inlined
def _byte(data: Bytes, at: int, stop: int) -> int:
    """The byte at a position, or one that is none."""
    return int(data[at]) if at < stop else _NOTHING


@kernel
def _code(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    return decode(data, at) if at < stop else (_NOTHING, at)


@kernel
def _is_kind(data: Bytes, at: int, stop: int, classes: Bytes, wanted: int) -> bool:
    if at >= stop:
        return False
    return bool(classes[decode(data, at)[0]] & CLASS == wanted)


@kernel
def _is_letter(data: Bytes, at: int, stop: int, classes: Bytes) -> bool:
    """Whether a letter, a digit or a mark stands here."""
    return _is_kind(data, at, stop, classes, WORD) or _is_kind(data, at, stop, classes, MARK)


@kernel
def _follows_letter(data: Bytes, used: int, at: int, classes: Bytes) -> bool:
    """Whether a letter, a digit or a mark stands before this place, after what is used already."""
    if at == used:
        return False
    before = at - 1
    while data[before] & 0xC0 == 0x80:
        before -= 1
    return _is_letter(data, before, at, classes)


@kernel
def _skip_styles(data: Bytes, at: int, stop: int) -> int:
    code, after = _code(data, at, stop)
    while code in (TEXT_STYLE, EMOJI_STYLE):
        at = after
        code, after = _code(data, at, stop)
    return at


@kernel
def _copy_tags(data: Bytes, at: int, stop: int, out: Bytes, size: int) -> tuple[int, int]:
    """A flag's tags, if they come to an end."""
    ahead, written = at, size
    code, after = _code(data, ahead, stop)
    while FIRST_TAG <= code <= LAST_TAG:
        written = encode(code, out, written)
        ahead = after
        code, after = _code(data, ahead, stop)
    if code != TAGS_END or ahead == at:
        return at, size
    return after, encode(code, out, written)


@kernel
def _copy_emoji(data: Bytes, at: int, stop: int, classes: Bytes, out: Bytes, size: int) -> tuple[int, int]:
    """Where reading goes on after the emoji that begins here, and writing: where it was if that is half a flag."""
    begun = size
    while True:
        code, after = decode(data, at)
        kind = classes[code] & CLASS
        if kind == REGIONAL:
            if not _is_kind(data, after, stop, classes, REGIONAL):
                return (at, size - 3) if size > begun else (after, size)  # the joiner before it goes back
            size = encode(code, out, size)
            code, after = decode(data, after)
            size = encode(code, out, size)
            at = after
        else:
            size = encode(code, out, size)
            at = _skip_styles(data, after, stop)
            if kind == EMOJI:
                if _is_kind(data, at, stop, classes, MODIFIER):
                    code, after = decode(data, at)
                    size = encode(code, out, size)
                    at = _skip_styles(data, after, stop)
                at, size = _copy_tags(data, at, stop, out, size)
        code, after = _code(data, at, stop)
        if code != ZERO_WIDTH_JOINER or after >= stop:
            return at, size
        kind = classes[decode(data, after)[0]] & CLASS
        if kind not in (EMOJI, MODIFIER, REGIONAL):
            return at, size
        size = encode(code, out, size)
        at = after


@kernel
def _copy_emoticon(
    data: Bytes, used: int, at: int, stop: int, classes: Bytes, out: Bytes, size: int
) -> tuple[int, int]:
    """Where reading goes on after the emoticon that begins here, and writing; the same places if there is none.

    Before `used`, the row is part of other emoji and emoticons.
    """
    end, written, close = _sideways(data, at, stop, out, size)
    if end == at:
        end, written, close = _heart(data, at, stop, out, size)
    if end == at:
        end, written, close = _upright(data, at, stop, out, size)
    if end == at or _is_letter(data, end, stop, classes):
        return at, size
    if close and _follows_letter(data, used, at, classes):
        return at, size
    return end, written


@kernel
def _sideways(data: Bytes, at: int, stop: int, out: Bytes, size: int) -> tuple[int, int, bool]:
    """>? eyes '? nose? mouth+."""
    ahead = at
    if _byte(data, ahead, stop) == ord(">"):
        out[size] = data[ahead]
        size += 1
        ahead += 1
    if ahead >= stop or not PARTS[data[ahead]] & EYES:
        return at, size, False
    out[size] = data[ahead]
    size += 1
    ahead += 1
    code, after = _code(data, ahead, stop)
    if code in (APOSTROPHE, 0x2019):
        out[size] = APOSTROPHE
        size += 1
        ahead = after
    if ahead < stop and PARTS[data[ahead]] & NOSE:
        out[size] = data[ahead]
        size += 1
        ahead += 1
    if ahead >= stop or not PARTS[data[ahead]] & (MOUTH | CLOSE_MOUTH):
        return at, size, False
    mouth = data[ahead]
    out[size] = mouth - 32 if ord("a") <= mouth <= ord("z") else mouth
    while ahead < stop and data[ahead] == mouth:
        ahead += 1
    return ahead, size + 1, PARTS[mouth] & CLOSE_MOUTH != 0


@kernel
def _heart(data: Bytes, at: int, stop: int, out: Bytes, size: int) -> tuple[int, int, bool]:
    """<3 and </3."""
    if data[at] != ord("<"):
        return at, size, False
    ahead = at + 1
    out[size] = data[at]
    size += 1
    if _byte(data, ahead, stop) == ord("/"):
        out[size] = data[ahead]
        size += 1
        ahead += 1
    if _byte(data, ahead, stop) != ord("3"):
        return at, size, False
    out[size] = ord("3")
    while _byte(data, ahead, stop) == ord("3"):
        ahead += 1
    return ahead, size + 1, True


@kernel
def _upright(data: Bytes, at: int, stop: int, out: Bytes, size: int) -> tuple[int, int, bool]:
    """^^ ^_^ ^.^ ^-^ -_- >_< >.<: of several underscores one is kept."""
    left = data[at]
    right = ord("<") if left == ord(">") else int(left)
    if left not in (ord("^"), ord("-"), ord(">")):
        return at, size, False
    out[size] = left
    size += 1
    ahead = at + 1
    middle = _byte(data, ahead, stop)
    if middle == ord("_") or (left != ord("-") and middle == ord(".")) or (left == ord("^") and middle == ord("-")):
        out[size] = middle
        size += 1
        ahead += 1
        while middle == ord("_") and _byte(data, ahead, stop) == middle:
            ahead += 1
    elif left != ord("^"):
        return at, size, False
    if _byte(data, ahead, stop) != right:
        return at, size, False
    out[size] = right
    return ahead + 1, size + 1, False


@kernel
def _keycap_begins(data: Bytes, used: int, at: int) -> int:
    """Where the digit, # or * stands that a keycap at this place encloses; −1 if nothing like that does."""
    before = at
    if before - used >= 3 and data[before - 3] == 0xEF and data[before - 2] == 0xB8 and data[before - 1] == 0x8F:
        before -= 3
    if before == used:
        return _NOTHING
    key = data[before - 1]
    return before - 1 if ord("0") <= key <= ord("9") or key in (ord("#"), ord("*")) else _NOTHING


@kernel
def _is_in_number(data: Bytes, at: int, begin: int, stop: int) -> bool:
    """Whether a full stop or colon stands between two digits: 3.14, 10:30."""
    if data[at] not in (ord("."), ord(":")) or at == begin or at + 1 == stop:
        return False
    return bool(ord("0") <= data[at - 1] <= ord("9") and ord("0") <= data[at + 1] <= ord("9"))


@kernel
def scan_messages(  # noqa: C901, PLR0912, PLR0915 - one state machine
    data: Bytes, offsets: Integers, classes: Bytes, fold: Ids, out: Bytes, bounds: Ids
) -> Scanned:
    """Words as `scan_words` cuts them; emoji and emoticons are tokens between them."""
    plain = plain_bytes(classes, fold)
    for byte in range(0x80):
        if PARTS[byte] & OPENS:
            plain[byte] = SPECIAL
    row_ends, ends = np.empty(offsets.size - 1, np.int64), bounds[1:]
    bounds[0] = 0
    size = tokens = 0  # bytes written, tokens written
    for row in range(offsets.size - 1):
        begin, at, stop = offsets[row], offsets[row], offsets[row + 1]
        start = size  # where the open word began; size == start: no word is open
        joiner = 0  # an apostrophe that is kept only if a letter follows
        first = tokens
        used = at  # up to here the row is part of emoji and emoticons
        while at < stop:
            while at < stop and not joiner:  # as in scan_words
                letter = plain[data[np.uint64(at)]]
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
            here = at
            code, at = decode(data, at)
            kind = classes[code] & CLASS
            if kind == WORD:
                if joiner:
                    size = encode(joiner, out, size)
                    joiner = 0
                size = encode(fold[code], out, size)
                continue
            if kind == IGNORED:
                continue
            if kind == MARK:
                if size > start:
                    joiner = 0
                    size = encode(fold[code], out, size)
                continue
            if kind == KEYCAP:
                key = _keycap_begins(data, used, here)
                if key == _NOTHING or size - start != int(data[key] >= ord("0")):
                    continue
                size = start  # a digit was taken for a word
                size = encode(code, out, encode(int(data[key]), out, size))
                ends[tokens] = start = size
                tokens += 1
                used = at
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
            elif kind in (EMOJI, MODIFIER, REGIONAL):
                at, size = _copy_emoji(data, here, stop, classes, out, size)
                used = at
            elif code < 0x80 and PARTS[code] & OPENS:
                end, size = _copy_emoticon(data, used, here, stop, classes, out, size)
                if end > here:
                    at = used = end
                elif kind == END and not _is_in_number(data, here, begin, stop):
                    tokens = end_sentence(ends, tokens, first)
            elif kind == BREAK or (kind == END and not _is_in_number(data, here, begin, stop)):
                tokens = end_sentence(ends, tokens, first)
            if size > start:
                ends[tokens] = start = size
                tokens += 1
        if size > start:
            ends[tokens] = size
            tokens += 1
        tokens = end_sentence(ends, tokens, first)
        row_ends[row] = tokens
    return out[:size], bounds[: tokens + 1], row_ends
