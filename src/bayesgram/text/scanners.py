"""The kernels that cut UTF-8 bytes into tokens, and the tables of characters that they use.

docs/text.md states the rules one by one.

Characters: what every Unicode code point is to a tokenizer, and what its lower case is.
tools/build_character_table.py computes the classes once, from one Unicode version, and
characters.npz keeps them, so that two machines with different Pythons cut text in the same way.

Scanners: each takes one buffer of valid UTF-8 and the offsets of its rows, as in an Arrow
large_binary array, and gives (bytes, offsets, row_ends): the bytes of all tokens one after the
other, token i from offsets[i] to offsets[i + 1], and how many tokens the rows up to each one have.
An empty token marks the end of a sentence; every row ends with one if it has tokens. The caller
gives the arrays for bytes and offsets (`allocate_output`). Scanners do not normalise (`tokenizer`
does, before), and do not know what a word means.

Messages: `scan_messages` also keeps emoji and emoticons. What it writes for one is never longer
than what it reads. It does not know which emoji there are: it asks only for blocks of Unicode, so
that new emoji are tokens too.
"""

from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np

from bayesgram.arrays import Bools, Bytes, Ids, Integers
from bayesgram.kernels import inlined, kernel, read_uint64

# --- Characters ---

# The classes of characters.
SEPARATOR, WORD, IDEOGRAPH, MARK, JOINER, IGNORED, SPACE, END, BREAK = range(9)
# For messages alone: to the other tokenizers these only separate.
EMOJI, MODIFIER, REGIONAL, KEYCAP = range(9, 13)
NORMALISE = 0x80  # a bit that is added to the class where NFC may change the text
CLASS = NORMALISE - 1  # the bits of the class

LINE_BREAKS = frozenset([0x0A, 0x0B, 0x0C, 0x0D, 0x85, 0x2028, 0x2029])
SPACES = frozenset([0x09, 0x20, 0xA0, 0x1680, *range(0x2000, 0x200C), 0x202F, 0x205F, 0x3000])
ENDS = frozenset(map(ord, ".!?;:…¡¿‼‽⁇⁈⁉。．！？；：｡؟؛۔।॥։።။។")) | {0x37E}
APOSTROPHES = frozenset(map(ord, "'’＇"))  # all become U+0027
OTHER_APOSTROPHES = frozenset(map(ord, "`´ʼ‘‛′"))  # in messages they become U+0027 too
JOINERS = frozenset([0xB7, 0x200C, 0x200D])  # middle dot, zero-width (non-)joiner
IDEOGRAPHS = (
    range(0x3005, 0x3008),  # 々 〆 〇
    range(0x3041, 0x30A0),  # Hiragana
    range(0x3400, 0x4DC0),
    range(0x4E00, 0xA000),
    range(0xF900, 0xFB00),
    range(0x20000, 0x40000),
)
VARIATION_SELECTORS = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))

# Blocks with emoji. Those code points in them that are letters or numbers stay so.
PICTOGRAPHS = (
    range(0x231A, 0x231C),
    range(0x23E9, 0x23FB),
    range(0x25B6, 0x25B7),
    range(0x25C0, 0x25C1),
    range(0x2600, 0x275B),
    range(0x2761, 0x2768),
    range(0x2794, 0x27C0),
    range(0x2B05, 0x2B08),
    range(0x2B1B, 0x2B1D),
    range(0x2B50, 0x2B51),
    range(0x2B55, 0x2B56),
    range(0x1F000, 0x1FB00),
    range(0x1FC00, 0x1FFFE),
)
REGIONAL_INDICATORS = range(0x1F1E6, 0x1F200)  # two are a flag
SKIN_TONES = range(0x1F3FB, 0x1F400)
ENCLOSING_KEYCAP = 0x20E3

# Marks that `rows` drops at both ends of a row, beside white space, sentence ends and apostrophes.
# Brackets and signs that carry a meaning (c++, #1, 100%, $5) are none of them.
EDGE_MARKS = frozenset(map(ord, '",-/<>\\_`*|~´«»‹›·•†‡、،՝')) | {
    *range(0x2010, 0x2028),  # dashes, quotation marks, dots
    *range(0x3008, 0x3012),  # corner brackets, which quote
    *(0xFF02, 0xFF07, 0xFF0C, 0xFF0D, 0xFF0F, 0xFF64),
}
CONTROLS = (range(0x20), range(0x7F, 0xA0))  # in `rows` they are white space

SPACE_TOKEN = 0x2581  # ▁ stands for a run of spaces between two characters


@dataclass(frozen=True)
class CharacterTable:
    """Arrays over all code points, for the kernels."""

    classes: Bytes
    lower: Ids  # what each becomes in a token that is in lower case
    keep: Ids  # what each becomes in a token that keeps its case
    class_version: str  # the version of Unicode of `classes`
    case_version: str  # the version of Unicode of `lower`


@cache
def character_table() -> CharacterTable:
    """Return the table as arrays of 0x110000 entries (about 10 MB, made in milliseconds)."""
    with (
        resources.files("bayesgram.text").joinpath("characters.npz").open("rb") as file,
        np.load(file) as runs,
    ):
        lengths = np.diff(runs["run_starts"], append=0x110000)
        classes = np.repeat(runs["run_classes"], lengths)
        keep = np.arange(0x110000, dtype=np.int32)
        keep[list(APOSTROPHES)] = ord("'")
        lower = keep.copy()
        lower[runs["upper"]] = runs["lower"]
        return CharacterTable(
            classes, lower, keep, str(runs["class_version"]), str(runs["case_version"])
        )


@cache
def message_classes() -> Bytes:
    """Return the classes for messages, where pictographs do not only separate."""
    classes = character_table().classes.copy()
    for block in PICTOGRAPHS:
        part = classes[block.start : block.stop]
        part[part == SEPARATOR] = EMOJI
    classes[SKIN_TONES.start : SKIN_TONES.stop] = MODIFIER
    classes[REGIONAL_INDICATORS.start : REGIONAL_INDICATORS.stop] = REGIONAL
    classes[ENCLOSING_KEYCAP] = KEYCAP
    others = sorted(OTHER_APOSTROPHES)
    classes[others] = classes[others] & NORMALISE | JOINER
    return classes


@cache
def message_fold(*, lowercase: bool) -> Ids:
    """Return what each code point becomes in a word of a message."""
    fold = (character_table().lower if lowercase else character_table().keep).copy()
    fold[sorted(OTHER_APOSTROPHES)] = ord("'")
    return fold


@cache
def row_classes() -> Bytes:
    """Return the classes for rows: SPACE, IGNORED, MARK, SEPARATOR (dropped at the ends), WORD."""
    classes = character_table().classes & CLASS
    kinds = np.full(classes.size, WORD, np.uint8)
    kinds[(classes == SPACE) | (classes == BREAK)] = SPACE
    for block in CONTROLS:
        kinds[block.start : block.stop] = SPACE
    kinds[(classes == JOINER) | (classes == END)] = SEPARATOR
    kinds[sorted(EDGE_MARKS)] = SEPARATOR
    kinds[classes == IGNORED] = IGNORED
    kinds[classes == MARK] = MARK
    return kinds


# --- Words, white space and characters ---

TokenArrays = tuple[Bytes, Ids, Integers]  # bytes, offsets, row_ends: see above

SPECIAL = np.uint8(0xFF)  # a byte that `plain_bytes` does not settle
NOT_ASCII = np.uint64(0x8080808080808080)  # the bits of eight bytes that ASCII lacks
FIRST_TO_NORMALISE = 0xCC  # the first byte of U+0300: below, NFC changes nothing


@inlined
def decode(data: Bytes, at: int) -> tuple[int, int]:
    """Return the code point at a position of valid UTF-8, and the position after it."""
    first = int(data[at])
    if first < 0x80:
        return first, at + 1
    if first < 0xE0:
        return (first & 0x1F) << 6 | int(data[at + 1] & 0x3F), at + 2
    if first < 0xF0:
        high = (first & 0x0F) << 12 | int(data[at + 1] & 0x3F) << 6
        return high | int(data[at + 2] & 0x3F), at + 3
    high = (first & 0x07) << 18 | int(data[at + 1] & 0x3F) << 12
    return high | int(data[at + 2] & 0x3F) << 6 | int(data[at + 3] & 0x3F), at + 4


@inlined
def encode(code: int, out: Bytes, at: int) -> int:
    """Write a code point as UTF-8, and return the position after it."""
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


def allocate_output(size: int) -> tuple[Bytes, Ids]:
    """Return arrays for the tokens of `size` bytes of text.

    Bytes at most double (a b → a▁b), and a byte gives at most a token and a sentence end. Most of
    the arrays is never written, and so takes no memory.
    """
    return np.empty(2 * size + 4, np.uint8), np.empty(2 * size + 3, np.int32)


@inlined
def end_sentence(ends: Ids, tokens: int, first: int) -> int:
    """Add an empty token, unless the row has no token yet or its last one is empty already.

    Args:
        ends: Where each token ends.
        tokens: How many tokens there are.
        first: How many there were before this row.

    Returns:
        How many tokens there are now.
    """
    if tokens == first or (tokens > 1 and ends[tokens - 1] == ends[tokens - 2]):
        return tokens
    ends[tokens] = ends[tokens - 1]
    return tokens + 1


@kernel
def plain_bytes(classes: Bytes, fold: Ids) -> Bytes:
    """Return what each byte becomes, as far as the byte alone decides that.

    A letter or digit becomes itself in its case, and what only separates becomes 0. Sentence ends,
    apostrophes and bytes that are not ASCII are SPECIAL.
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
) -> TokenArrays:
    """Cut words: runs of letters and digits with their marks, joined by inner apostrophes.

    Ideographs are tokens one by one.
    """
    plain = plain_bytes(classes, fold)
    row_ends = np.empty(offsets.size - 1, np.int64)
    ends = bounds[1:]
    bounds[0] = 0
    size = tokens = 0  # bytes written, tokens written
    for row in range(offsets.size - 1):
        at = offsets[row]
        stop = offsets[row + 1]
        start = size  # where the open word began; size == start: no word is open
        joiner = 0  # an apostrophe that is kept only if a letter follows
        first = tokens
        while at < stop:
            # Most of most text. There is no branch but the end of this loop, so that the processor
            # guesses none wrongly; indices are unsigned, so that none is counted from the end.
            is_inside = int(size > start)
            while at < stop and not joiner:
                letter = plain[data[np.uint64(at)]]
                if letter == SPECIAL:
                    break
                is_letter = int(letter != 0)
                out[np.uint64(size)] = letter
                size += is_letter
                ends[np.uint64(tokens)] = size
                tokens += is_inside & (1 - is_letter)
                is_inside = is_letter
                at += 1
            start = bounds[np.uint64(tokens)]  # a word begins where the last token ended
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
def scan_whitespace(
    data: Bytes, offsets: Integers, classes: Bytes, fold: Ids, out: Bytes, bounds: Ids
) -> TokenArrays:
    """Cut at white space; a sentence is a line."""
    row_ends = np.empty(offsets.size - 1, np.int64)
    ends = bounds[1:]
    bounds[0] = 0
    size = tokens = 0
    for row in range(offsets.size - 1):
        at = offsets[row]
        stop = offsets[row + 1]
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
def scan_characters(
    data: Bytes, offsets: Integers, classes: Bytes, fold: Ids, out: Bytes, bounds: Ids
) -> TokenArrays:
    """Cut characters; spaces between two are one ▁, and a sentence ends after its mark."""
    row_ends = np.empty(offsets.size - 1, np.int64)
    ends = bounds[1:]
    bounds[0] = 0
    size = tokens = 0
    for row in range(offsets.size - 1):
        at = offsets[row]
        stop = offsets[row + 1]
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
def scan_rows(
    data: Bytes, offsets: Integers, classes: Bytes, fold: Ids, out: Bytes, bounds: Ids
) -> TokenArrays:
    """Make each row one token: runs of white space are one space, and marks at its ends go."""
    row_ends = np.empty(offsets.size - 1, np.int64)
    ends = bounds[1:]
    bounds[0] = 0
    size = tokens = 0
    for row in range(offsets.size - 1):
        at = offsets[row]
        stop = offsets[row + 1]
        start = size  # where the row begins; size == start: nothing of it is written yet
        end = size  # where it would end without marks
        space = False  # a space is waiting
        while at < stop:
            code, at = decode(data, at)
            kind = classes[code]
            if kind == SPACE:
                space = True
                continue
            if kind == IGNORED or (size == start and kind != WORD):
                continue
            if space and size > start:
                out[size] = 0x20
                size += 1
            space = False
            size = encode(fold[code], out, size)
            if kind != SEPARATOR:
                end = size
        size = end
        if size > start:
            ends[tokens] = ends[tokens + 1] = size  # the row, and the end of its sentence
            tokens += 2
        row_ends[row] = tokens
    return out[:size], bounds[: tokens + 1], row_ends


@kernel
def rows_to_normalise(data: Bytes, offsets: Integers, classes: Bytes) -> Bools:
    """Return which rows have a code point that NFC may change; almost always none has."""
    may_change = np.zeros(offsets.size - 1, np.bool_)
    row = 0
    at = offsets[0]
    stop = offsets[-1]
    while at < stop:
        if at + 8 <= stop and not read_uint64(data, at) & NOT_ASCII:
            at += 8
        elif data[at] < FIRST_TO_NORMALISE:
            at += 1
        else:
            code, at = decode(data, at)
            if classes[code] & NORMALISE:
                while offsets[row + 1] < at:
                    row += 1
                may_change[row] = True
    return may_change


# --- Messages ---

ZERO_WIDTH_JOINER = 0x200D
TEXT_STYLE = 0xFE0E
EMOJI_STYLE = 0xFE0F
FIRST_TAG = 0xE0020
LAST_TAG = 0xE007E
TAGS_END = 0xE007F
APOSTROPHE = ord("'")
_NOTHING = -1  # no byte, code point or position

# What a byte may be in an emoticon, as bits.
EYES = 1
NOSE = 2
MOUTH = 4
CLOSE_MOUTH = 8  # a mouth only where no letter stands before the emoticon: http://, 1:3
OPENS = 16  # the first byte of an emoticon


def _emoticon_parts() -> Bytes:
    parts = np.zeros(256, np.uint8)
    for part, letters in (
        (EYES, b":;="),
        (NOSE, b"-^"),
        (MOUTH, b")(][*$@"),
        (CLOSE_MOUTH, b"DdPpOoSsXx3/\\|"),
        (OPENS, b":;=<>^-"),
    ):
        parts[np.frombuffer(letters, np.uint8)] |= part
    return parts


EMOTICON_PARTS = _emoticon_parts()  # the bits of each byte


@inlined
def _byte_at(data: Bytes, at: int, stop: int) -> int:
    """Return the byte at a position, or _NOTHING at the end."""
    return int(data[at]) if at < stop else _NOTHING


@kernel
def _code_at(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    return decode(data, at) if at < stop else (_NOTHING, at)


@kernel
def _is_kind(data: Bytes, at: int, stop: int, classes: Bytes, wanted: int) -> bool:
    if at >= stop:
        return False
    return bool(classes[decode(data, at)[0]] & CLASS == wanted)


@kernel
def _is_letter(data: Bytes, at: int, stop: int, classes: Bytes) -> bool:
    """Return whether a letter, a digit or a mark is at a position."""
    return _is_kind(data, at, stop, classes, WORD) or _is_kind(data, at, stop, classes, MARK)


@kernel
def _follows_letter(data: Bytes, used: int, at: int, classes: Bytes) -> bool:
    """Return whether a letter, a digit or a mark is before a position, but not before `used`."""
    if at == used:
        return False
    before = at - 1
    while data[before] & 0xC0 == 0x80:
        before -= 1
    return _is_letter(data, before, at, classes)


@kernel
def _skip_styles(data: Bytes, at: int, stop: int) -> int:
    code, after = _code_at(data, at, stop)
    while code in (TEXT_STYLE, EMOJI_STYLE):
        at = after
        code, after = _code_at(data, at, stop)
    return at


@kernel
def _copy_tags(data: Bytes, at: int, stop: int, out: Bytes, size: int) -> tuple[int, int]:
    """Copy the tags of a flag, if they come to an end; return where reading and writing go on."""
    ahead = at
    written = size
    code, after = _code_at(data, ahead, stop)
    while FIRST_TAG <= code <= LAST_TAG:
        written = encode(code, out, written)
        ahead = after
        code, after = _code_at(data, ahead, stop)
    if code != TAGS_END or ahead == at:
        return at, size
    return after, encode(code, out, written)


@kernel
def _copy_emoji(
    data: Bytes, at: int, stop: int, classes: Bytes, out: Bytes, size: int
) -> tuple[int, int]:
    """Copy the emoji that begins here, and return where reading and writing go on.

    Half a flag is read, and not written.
    """
    begun = size
    while True:
        code, after = decode(data, at)
        kind = classes[code] & CLASS
        if kind == REGIONAL:
            if not _is_kind(data, after, stop, classes, REGIONAL):
                if size > begun:
                    return at, size - 3  # without the joiner before it
                return after, size
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
        code, after = _code_at(data, at, stop)
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
    """Copy the emoticon that begins here, and return where reading and writing go on.

    These are the same positions if there is none. Before `used`, the row is part of other emoji and
    emoticons.
    """
    end, written, close = _copy_sideways(data, at, stop, out, size)
    if end == at:
        end, written, close = _copy_heart(data, at, stop, out, size)
    if end == at:
        end, written, close = _copy_upright(data, at, stop, out, size)
    if end == at or _is_letter(data, end, stop, classes):
        return at, size
    if close and _follows_letter(data, used, at, classes):
        return at, size
    return end, written


@kernel
def _copy_sideways(data: Bytes, at: int, stop: int, out: Bytes, size: int) -> tuple[int, int, bool]:
    """Copy >? eyes '? nose? mouth+ ."""
    ahead = at
    if _byte_at(data, ahead, stop) == ord(">"):
        out[size] = data[ahead]
        size += 1
        ahead += 1
    if ahead >= stop or not EMOTICON_PARTS[data[ahead]] & EYES:
        return at, size, False
    out[size] = data[ahead]
    size += 1
    ahead += 1
    code, after = _code_at(data, ahead, stop)
    if code in (APOSTROPHE, 0x2019):
        out[size] = APOSTROPHE
        size += 1
        ahead = after
    if ahead < stop and EMOTICON_PARTS[data[ahead]] & NOSE:
        out[size] = data[ahead]
        size += 1
        ahead += 1
    if ahead >= stop or not EMOTICON_PARTS[data[ahead]] & (MOUTH | CLOSE_MOUTH):
        return at, size, False
    mouth = data[ahead]
    out[size] = mouth - 32 if ord("a") <= mouth <= ord("z") else mouth
    while ahead < stop and data[ahead] == mouth:
        ahead += 1
    return ahead, size + 1, EMOTICON_PARTS[mouth] & CLOSE_MOUTH != 0


@kernel
def _copy_heart(data: Bytes, at: int, stop: int, out: Bytes, size: int) -> tuple[int, int, bool]:
    """Copy <3 or </3."""
    if data[at] != ord("<"):
        return at, size, False
    ahead = at + 1
    out[size] = data[at]
    size += 1
    if _byte_at(data, ahead, stop) == ord("/"):
        out[size] = data[ahead]
        size += 1
        ahead += 1
    if _byte_at(data, ahead, stop) != ord("3"):
        return at, size, False
    out[size] = ord("3")
    while _byte_at(data, ahead, stop) == ord("3"):
        ahead += 1
    return ahead, size + 1, True


@kernel
def _copy_upright(data: Bytes, at: int, stop: int, out: Bytes, size: int) -> tuple[int, int, bool]:
    """Copy ^^ ^_^ ^.^ ^-^ -_- >_< >.<; of several underscores one is kept."""
    left = data[at]
    right = ord("<") if left == ord(">") else int(left)
    if left not in (ord("^"), ord("-"), ord(">")):
        return at, size, False
    out[size] = left
    size += 1
    ahead = at + 1
    middle = _byte_at(data, ahead, stop)
    if (
        middle == ord("_")
        or (left != ord("-") and middle == ord("."))
        or (left == ord("^") and middle == ord("-"))
    ):
        out[size] = middle
        size += 1
        ahead += 1
        while middle == ord("_") and _byte_at(data, ahead, stop) == middle:
            ahead += 1
    elif left != ord("^"):
        return at, size, False
    if _byte_at(data, ahead, stop) != right:
        return at, size, False
    out[size] = right
    return ahead + 1, size + 1, False


@kernel
def _find_keycap_base(data: Bytes, used: int, at: int) -> int:
    """Return where the digit, # or * is that a keycap at this position encloses, or _NOTHING."""
    before = at
    if (
        before - used >= 3
        and data[before - 3] == 0xEF
        and data[before - 2] == 0xB8
        and data[before - 1] == 0x8F
    ):
        before -= 3
    if before == used:
        return _NOTHING
    key = data[before - 1]
    return before - 1 if ord("0") <= key <= ord("9") or key in (ord("#"), ord("*")) else _NOTHING


@kernel
def _is_in_number(data: Bytes, at: int, begin: int, stop: int) -> bool:
    """Return whether a full stop or colon is between two digits: 3.14, 10:30."""
    if data[at] not in (ord("."), ord(":")) or at == begin or at + 1 == stop:
        return False
    return bool(ord("0") <= data[at - 1] <= ord("9") and ord("0") <= data[at + 1] <= ord("9"))


@kernel
def scan_messages(  # noqa: C901, PLR0912, PLR0915 - one state machine
    data: Bytes, offsets: Integers, classes: Bytes, fold: Ids, out: Bytes, bounds: Ids
) -> TokenArrays:
    """Cut words as `scan_words` does; emoji and emoticons are tokens between them."""
    plain = plain_bytes(classes, fold)
    for byte in range(0x80):
        if EMOTICON_PARTS[byte] & OPENS:
            plain[byte] = SPECIAL
    row_ends = np.empty(offsets.size - 1, np.int64)
    ends = bounds[1:]
    bounds[0] = 0
    size = tokens = 0  # bytes written, tokens written
    for row in range(offsets.size - 1):
        begin = offsets[row]
        at = begin
        stop = offsets[row + 1]
        start = size  # where the open word began; size == start: no word is open
        joiner = 0  # an apostrophe that is kept only if a letter follows
        first = tokens
        used = at  # up to here the row is part of emoji and emoticons
        while at < stop:
            is_inside = int(size > start)
            while at < stop and not joiner:  # as in scan_words
                letter = plain[data[np.uint64(at)]]
                if letter == SPECIAL:
                    break
                is_letter = int(letter != 0)
                out[np.uint64(size)] = letter
                size += is_letter
                ends[np.uint64(tokens)] = size
                tokens += is_inside & (1 - is_letter)
                is_inside = is_letter
                at += 1
            start = bounds[np.uint64(tokens)]
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
                key = _find_keycap_base(data, used, here)
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
            elif code < 0x80 and EMOTICON_PARTS[code] & OPENS:
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
