"""The shipped table of code points against the running Python's Unicode, wherever the latter knows the code point."""

import unicodedata
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.text import scanners
from bayesgram.text.scanners import NORMALISE, character_table
from helpers.hostile_text import hostile_text
from helpers.hypothesis_profiles import examples
from helpers.reference_tokenizer import APOSTROPHES, class_of, is_assigned

TABLE = character_table()
CLASS_BITS = NORMALISE - 1
CLASSES = ("SEPARATOR", "WORD", "IDEOGRAPH", "MARK", "JOINER", "IGNORED", "SPACE", "END", "BREAK")
ASSIGNED = [character for character in map(chr, range(0x110000)) if is_assigned(character)]


def nfc(text):
    return unicodedata.normalize("NFC", text)


def flagged(text):
    return any(TABLE.classes[ord(character)] & NORMALISE for character in text)


def test_versions_are_those_of_the_page():
    assert (TABLE.class_version, TABLE.case_version) == ("18.0.0", "14.0.0")


def test_every_code_point_has_the_class_of_the_first_rule_that_fits():
    names = {getattr(scanners, name): name for name in CLASSES}
    different = [
        f"U+{ord(character):04X}"
        for character in ASSIGNED
        if names[TABLE.classes[ord(character)] & CLASS_BITS] != class_of(character)
    ]
    assert different == []


def test_code_points_without_a_character_are_separators():
    """Surrogates, noncharacters and private use: in no Unicode version to come will they be something else."""
    noncharacters = [
        *range(0xFDD0, 0xFDF0),
        *(plane + end for plane in range(0, 0x110000, 0x10000) for end in (-1, -2)),
    ]
    for codes in (
        range(0xD800, 0xE000),
        noncharacters[2:],
        range(0xE000, 0xF900),
        range(0xF0000, 0xFFFFE),
    ):
        assert set(TABLE.classes[list(codes)]) == {scanners.SEPARATOR}


def test_kept_case_changes_apostrophes_and_nothing_else():
    changed = np.flatnonzero(TABLE.keep != np.arange(0x110000))
    assert set(changed) == APOSTROPHES - {ord("'")}
    assert set(TABLE.keep[changed]) == {ord("'")}


def test_lower_case_is_that_of_python():
    """All of it where Python has the table's Unicode version; newer ones may add letters but change none."""
    same_version = unicodedata.unidata_version == TABLE.case_version
    for character in ASSIGNED:
        lower = chr(TABLE.lower[ord(character)])
        if ord(character) in APOSTROPHES:
            assert lower == "'"
        elif lower != character or same_version:
            assert lower == {"İ": "i"}.get(character, character.lower()), f"U+{ord(character):04X}"


@pytest.mark.parametrize(
    ("upper", "lower"),
    ["Σσ", "İi", "ßß", "ẞß", "Ⱥⱥ", "Ǆǆ", "ǅǆ", "ıı", "ςς", "ᾼᾳ", "Ⅷⅷ", "\u212ak"],
)
def test_lower_case_by_hand(upper, lower):
    assert chr(TABLE.lower[ord(upper)]) == lower


def test_lower_case_once_is_enough_and_stays_in_its_class():
    """Otherwise words that are cut again would not be the same words."""
    codes = np.array([ord(character) for character in ASSIGNED])
    for fold in (TABLE.lower, TABLE.keep):
        assert np.array_equal(fold[fold[codes]], fold[codes])
        assert np.array_equal(
            TABLE.classes[fold[codes]] & CLASS_BITS, TABLE.classes[codes] & CLASS_BITS
        )


def test_a_code_point_that_nfc_changes_is_flagged():
    assert [f"U+{ord(c):04X}" for c in ASSIGNED if nfc(c) != c and not flagged(c)] == []
    assert not flagged(
        "".join(map(chr, range(0x300)))
    )  # the kernel does not even look below U+0300


@cache
def parts():
    """First and second halves of all canonical decompositions, and all marks that have a place in the order."""
    firsts, seconds = (
        set(),
        {character for character in ASSIGNED if unicodedata.combining(character)},
    )
    for character in ASSIGNED:
        halves = unicodedata.decomposition(character).split()
        if len(halves) == 2 and not halves[0].startswith("<"):
            firsts.add(chr(int(halves[0], 16)))
            seconds.add(chr(int(halves[1], 16)))
    jamo = [
        map(chr, codes)
        for codes in (range(0x1100, 0x1113), range(0x1161, 0x1176), range(0x11A7, 0x11C3))
    ]
    return sorted(firsts.union(*jamo, "가각힣")), sorted(seconds.union(*jamo))


def test_every_composition_has_a_flagged_half():
    composed = 0
    for character in ASSIGNED:
        for form in ("NFD", "NFC"):
            text = unicodedata.normalize(form, character)
            if nfc(text) != text:
                composed += 1
                assert flagged(text), ascii(text)
    assert composed > 12_000  # 11,172 Hangul syllables, and Latin, Greek, Indic ...


def test_every_pair_that_nfc_changes_has_a_flagged_member():
    """Firsts that compose with anything, before everything that follows anything: about 400 × 1,000 pairs, sampled."""
    firsts, seconds = parts()
    changed = 0
    for number, first in enumerate(firsts):
        for second in seconds[number % 5 :: 5]:
            if nfc(first + second) != first + second:
                changed += 1
                assert flagged(first + second), ascii(first + second)
    assert changed > 200


def test_a_pair_of_unflagged_code_points_is_never_changed():
    rng = np.random.default_rng(5)
    unflagged = [character for character in ASSIGNED if not flagged(character)]
    firsts = parts()[0]
    for first in [character for character in firsts if not flagged(character)]:
        text = "".join(first + unflagged[index] for index in rng.integers(0, len(unflagged), 200))
        assert nfc(text) == text, ascii(first)


@examples(200)
@given(st.one_of(hostile_text, st.text(st.sampled_from(parts()[0] + parts()[1]), max_size=6)))
def test_text_without_a_flagged_code_point_is_unchanged_by_nfc(text):
    text = "".join(character for character in text if not flagged(character))
    assert nfc(text) == text


def test_the_flag_is_rare_enough_to_spare_most_text_the_normalisation():
    for text in (
        "Größe, naïve café",
        "Ελληνικά",
        "Привет",
        "日本語のテキスト",
        "한국어",
        "مرحبا",
        "สวัสดี",
    ):
        assert not flagged(nfc(text)), text
