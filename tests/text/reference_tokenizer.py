"""How text is cut: docs/text.md once more, slowly and literally.

In: one row (str), the tokenizer's kind, whether to fold to lower case.   Out: its sentences, each a list of tokens.
Written from the page alone, one code point at a time, with the running Python's Unicode. Does not know the code points
that Python does not know: compare on code points for which `is_assigned` only.
"""

import unicodedata
from functools import cache

BREAKS = {*range(0x0A, 0x0E), 0x85, 0x2028, 0x2029}
SPACES = {0x09, 0x20, 0xA0, 0x1680, *range(0x2000, 0x200C), 0x202F, 0x205F, 0x3000}
ENDS = {ord(end) for end in ".!?;:…¡¿‼‽⁇⁈⁉。．！？；：｡؟؛۔।॥։።။។"} | {0x37E}
APOSTROPHES = {0x27, 0x2019, 0xFF07}
JOINERS = APOSTROPHES | {0xB7, 0x200C, 0x200D}
SELECTORS = [(0xFE00, 0xFE0F), (0xE0100, 0xE01EF)]
IDEOGRAPHS = [
    (0x3005, 0x3007),
    (0x3041, 0x309F),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
]
SPACE_TOKEN = "\u2581"


def is_assigned(character: str) -> bool:
    """Whether the running Python knows the code point and UTF-8 can hold it."""
    return unicodedata.category(character) not in ("Cn", "Cs")


@cache
def class_of(character: str) -> str:
    """The class in the first line of the table that fits."""
    code, category = ord(character), unicodedata.category(character)
    for name, members in (("BREAK", BREAKS), ("SPACE", SPACES), ("END", ENDS), ("JOINER", JOINERS)):
        if code in members:
            return name
    if category in ("Cf", "Me") or _within(code, SELECTORS):
        return "IGNORED"
    if category[0] in "LN":
        return "IDEOGRAPH" if _within(code, IDEOGRAPHS) else "WORD"
    return "MARK" if category in ("Mn", "Mc") else "SEPARATOR"


def fold(character: str, lowercase: bool) -> str:
    """One code point to one code point: plain apostrophes, and lower case where asked for."""
    if ord(character) in APOSTROPHES:
        return "'"
    # str.lower is the full mapping: İ is the one code point to which it gives two, and the first is the simple one.
    return character.lower()[0] if lowercase else character


def sentences(text: str, kind: str, lowercase: bool) -> list[list[str]]:
    """
    >>> sentences("Don’t stop! 'Tis 3.14", "words", True)
    [["don't", 'stop'], ['tis', '3'], ['14']]
    """
    cut = {"words": _words, "whitespace": _whitespace, "characters": _characters}[kind]
    return [sentence for sentence in cut(text, lowercase) if sentence]


def _within(code: int, ranges: list[tuple[int, int]]) -> bool:
    return any(first <= code <= last for first, last in ranges)


def _words(text: str, lowercase: bool) -> list[list[str]]:  # noqa: C901 - the page's list, line by line
    done: list[list[str]] = [[]]
    word, waiting = "", ""

    def close() -> None:
        nonlocal word, waiting
        if word:
            done[-1].append("".join(fold(character, lowercase) for character in word))
        word, waiting = "", ""

    for character in unicodedata.normalize("NFC", text):
        kind = class_of(character)
        if kind == "WORD":
            word, waiting = word + waiting + character, ""
        elif kind == "MARK":
            if word:
                word, waiting = word + character, ""
        elif kind == "IGNORED":
            pass
        elif kind == "JOINER" and word and not waiting:
            waiting = character
        else:
            close()
            if kind == "IDEOGRAPH":
                done[-1].append(character)
            elif kind in ("END", "BREAK"):
                done.append([])
    close()
    return done


def _whitespace(text: str, lowercase: bool) -> list[list[str]]:
    done: list[list[str]] = [[]]
    token = ""
    for character in text + "\n":
        kind = class_of(character)
        if kind not in ("SPACE", "BREAK"):
            token += fold(character, lowercase) if lowercase else character
            continue
        if token:
            done[-1].append(token)
            token = ""
        if kind == "BREAK":
            done.append([])
    return done


def _characters(text: str, lowercase: bool) -> list[list[str]]:
    done: list[list[str]] = [[]]
    waiting = False
    for character in unicodedata.normalize("NFC", text):
        kind = class_of(character)
        if kind == "IGNORED":
            continue
        if kind == "SPACE":
            waiting = True
        elif kind == "BREAK":
            done.append([])
            waiting = False
        else:
            if waiting and done[-1]:
                done[-1].append(SPACE_TOKEN)
            done[-1].append(fold(character, lowercase))
            waiting = False
            if kind == "END":
                done.append([])
    return done
