"""What every Unicode code point is to a tokenizer, and what its lower case is.

The classes are computed once by tools/build_character_table.py from one Unicode version and kept in
characters.npz, so that two machines with different Pythons cut the same text in the same way. docs/text.md has the
rules in words. Does not look at text: see `scan`.
"""

from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np

from bayesgram.arrays import Bytes, Ids

SEPARATOR, WORD, IDEOGRAPH, MARK, JOINER, IGNORED, SPACE, END, BREAK = range(9)
EMOJI, MODIFIER, REGIONAL, KEYCAP = range(9, 13)  # for messages alone: to the other tokenizers these only separate
NORMALISE = 0x80  # added to the class where NFC may change the text

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

PICTOGRAPHS = (  # those of them that are letters or numbers stay so
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

SPACE_TOKEN = 0x2581  # ▁ stands for a run of spaces between two characters


@dataclass(frozen=True)
class CharacterTable:
    """Arrays over all code points, for the kernels."""

    classes: Bytes
    lower: Ids
    keep: Ids
    class_version: str  # of Unicode
    case_version: str


@cache
def character_table() -> CharacterTable:
    """The table as arrays of 0x110000 entries (about 10 MB, made in milliseconds)."""
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
        return CharacterTable(classes, lower, keep, str(runs["class_version"]), str(runs["case_version"]))


@cache
def message_classes() -> Bytes:
    """The classes for messages: pictographs are something there."""
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
    """What each code point becomes in a word of a message."""
    fold = (character_table().lower if lowercase else character_table().keep).copy()
    fold[sorted(OTHER_APOSTROPHES)] = ord("'")
    return fold
