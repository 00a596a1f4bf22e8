"""Write src/bayesgram/text/characters.npz: the class and the lower case of every code point.

Run once for each new Unicode version: `pip install unicodedata2 && python
tools/build_character_table.py`. The table is kept in the repository so that every Python version
cuts text in the same way; docs/text.md explains the classes, tests/text/test_characters.py compares
the table with the running Python's `unicodedata`.
"""

import unicodedata
from pathlib import Path

import numpy as np
import unicodedata2 as ucd

from bayesgram.text.scanners import (
    APOSTROPHES,
    BREAK,
    END,
    ENDS,
    IDEOGRAPH,
    IDEOGRAPHS,
    IGNORED,
    JOINER,
    JOINERS,
    LINE_BREAKS,
    MARK,
    NORMALISE,
    SEPARATOR,
    SPACE,
    SPACES,
    VARIATION_SELECTORS,
    WORD,
)

CODE_POINTS = 0x110000


def character_class(code: int) -> int:
    """The first rule that fits, in the order of docs/text.md."""
    category = ucd.category(chr(code))
    rules = (
        (code in LINE_BREAKS, BREAK),
        (code in SPACES, SPACE),
        (code in ENDS, END),
        (code in JOINERS or code in APOSTROPHES, JOINER),
        (category in {"Cf", "Me"} or any(code in block for block in VARIATION_SELECTORS), IGNORED),
        (any(code in block for block in IDEOGRAPHS) and category[0] in "LN", IDEOGRAPH),
        (category[0] in "LN", WORD),
        (category in {"Mn", "Mc"}, MARK),
    )
    return next((value for fits, value in rules if fits), SEPARATOR)


def lower_case(code: int) -> int:
    """Unicode's simple lower-case mapping; İ is the one character whose full mapping is longer."""
    lowered = chr(code).lower() if code != 0x130 else "i"
    return ord(lowered) if len(lowered) == 1 else code


def changed_by_nfc() -> set[int]:
    """Code points whose presence means that NFC may change the text around them."""
    found = {code for code in range(CODE_POINTS) if ucd.combining(chr(code))}
    found |= {code for code in range(CODE_POINTS) if ucd.normalize("NFC", chr(code)) != chr(code)}
    for code in range(CODE_POINTS):
        parts = ucd.decomposition(chr(code)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            found.add(int(parts[1], 16))  # a second half: it may compose with what stands before it
    return (
        found | set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
    )  # Hangul vowels and finals


def main() -> None:
    """Write both maps as runs."""
    classes = np.array([character_class(code) for code in range(CODE_POINTS)], np.uint8)
    classes[sorted(changed_by_nfc())] |= NORMALISE
    starts = np.flatnonzero(np.diff(classes, prepend=255))
    changed = [(code, lower_case(code)) for code in range(CODE_POINTS) if lower_case(code) != code]
    upper, lower = np.array(changed, np.int32).T
    target = Path(__file__).parent.parent / "src/bayesgram/text/characters.npz"
    np.savez_compressed(
        target,
        class_version=ucd.unidata_version,
        case_version=unicodedata.unidata_version,  # str.lower() is the running Python's
        run_starts=starts.astype(np.int32),
        run_classes=classes[starts],
        upper=upper,
        lower=lower,
    )


if __name__ == "__main__":
    main()
