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
NORMALISE = 0x80  # added to the class where NFC may change the text

LINE_BREAKS = frozenset([0x0A, 0x0B, 0x0C, 0x0D, 0x85, 0x2028, 0x2029])
SPACES = frozenset([0x09, 0x20, 0xA0, 0x1680, *range(0x2000, 0x200C), 0x202F, 0x205F, 0x3000])
ENDS = frozenset(map(ord, ".!?;:…¡¿‼‽⁇⁈⁉。．！？；：｡؟؛۔।॥։።။។")) | {0x37E}
APOSTROPHES = frozenset(map(ord, "'’＇"))  # all become U+0027
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
