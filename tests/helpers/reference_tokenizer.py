"""How text is cut: docs/text.md once more, slowly and literally.

In: one row (str), the tokenizer's kind, whether to fold to lower case.   Out: its sentences, each a
list of tokens. Written from the page alone, one code point at a time, with the running Python's
Unicode. Does not know the code points that Python does not know: compare on code points for which
`is_assigned` only.
"""

import re
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

# Of messages alone.
OTHER_APOSTROPHES = "`´ʼ‘‛′"
PICTOGRAPHS = "⌚⌛⏩-⏺▶◀☀-❚❡-❧➔-➿⬅-⬇⬛⬜⭐⭕\U0001f000-\U0001faff\U0001fc00-\U0001fffd"
FLAG_HALF, TONE, STYLE, TAG = "[🇦-🇿]", "[🏻-🏿]", "[\ufe0e\ufe0f]", "[\U000e0020-\U000e007e]"


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
    # str.lower is the full mapping: İ is the one code point to which it gives two, and the first is
    # the simple one.
    return character.lower()[0] if lowercase else character


def sentences(text: str, kind: str, lowercase: bool) -> list[list[str]]:
    """
    >>> sentences("Don’t stop! 'Tis 3.14", "words", True)
    [["don't", 'stop'], ['tis', '3'], ['14']]
    """
    cut = {
        "words": _words,
        "messages": _messages,
        "whitespace": _whitespace,
        "characters": _characters,
        "rows": _rows,
    }[kind]
    return [sentence for sentence in cut(text, lowercase) if sentence]


def _within(code: int, ranges: list[tuple[int, int]]) -> bool:
    return any(first <= code <= last for first, last in ranges)


EDGE_MARKS = set('",-/<>\\_`*|~´«»‹›·•†‡、،՝') | {
    chr(code)
    for first, last in ((0x2010, 0x2027), (0x3008, 0x3011))
    for code in range(first, last + 1)
}
EDGE_MARKS |= set("\uff02\uff07\uff0c\uff0d\uff0f\uff64")


def _rows(text: str, lowercase: bool) -> list[list[str]]:
    normalised = unicodedata.normalize("NFC", text)
    row = "".join(
        " " if class_of(character) in ("SPACE", "BREAK") or is_control(character) else character
        for character in normalised
        if class_of(character) != "IGNORED" or is_control(character)
    )
    row = " ".join(part for part in row.split(" ") if part)

    def is_edge(character: str) -> bool:
        return character in EDGE_MARKS or class_of(character) in ("END", "JOINER")

    while row and (row[0] == " " or is_edge(row[0]) or class_of(row[0]) == "MARK"):
        row = row[1:]
    while row and (row[-1] == " " or is_edge(row[-1])):
        row = row[:-1]
    return [["".join(fold(character, lowercase) for character in row)]] if row else []


def is_control(character: str) -> bool:
    return ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0


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


@cache
def message_class_of(character: str) -> str:
    """The classes of messages: the others, changed where the page says so."""
    if character in OTHER_APOSTROPHES:
        return "JOINER"
    if re.match(FLAG_HALF, character):
        return "FLAG HALF"
    if re.match(TONE, character):
        return "TONE"
    kind = class_of(character)
    return "EMOJI" if kind == "SEPARATOR" and re.match(f"[{PICTOGRAPHS}]", character) else kind


def _emoji(text: str) -> tuple[str, int]:
    """The emoji that this text begins with, and how long it is in the text; nothing and 0 if it
    begins with none.
    """
    at = 0
    while True:
        end = at
        if re.match(f"{FLAG_HALF}{{2}}", text[end:]):
            end += 2
        elif end < len(text) and message_class_of(text[end]) == "EMOJI":
            end += re.match(
                f".{STYLE}*{TONE}?{STYLE}*({TAG}+\U000e007f)?", text[end:], re.DOTALL
            ).end()
        elif end < len(text) and message_class_of(text[end]) == "TONE":
            end += re.match(f".{STYLE}*", text[end:], re.DOTALL).end()
        if end == at:
            at -= at > 0  # the joiner before it is no part
            return re.sub(STYLE, "", text[:at]), at
        if text[end : end + 1] != "\u200d":
            return re.sub(STYLE, "", text[:end]), end
        at = end + 1


def _emoticon(text: str, follows_letter: bool) -> tuple[str, int]:
    """The emoticon that this text begins with, and how long it is in the text."""
    sideways = re.match(r">?[:;=]['’]?[-^]?(?P<mouth>[])([*$@DdPpOoSsXx3/\\|])(?P=mouth)*", text)
    heart = re.match(r"</?(?P<mouth>3)3*", text)
    upright = re.match(r"\^(_+|[-.])?\^|-_+-|>(_+|\.)<", text)
    found = sideways or heart or upright
    if not found or message_class_of(text[found.end() : found.end() + 1] or " ") in (
        "WORD",
        "MARK",
    ):
        return "", 0
    if found is upright:
        return re.sub("_+", "_", found[0]), found.end()
    if follows_letter and found["mouth"] in "DdPpOoSsXx3/\\|":
        return "", 0
    face = found[0][: found.start("mouth")].replace("’", "'")
    return face + found["mouth"].upper(), found.end()


def _messages(text: str, lowercase: bool) -> list[list[str]]:  # noqa: C901, PLR0912 - the page's list, line by line
    text = unicodedata.normalize("NFC", text)
    done: list[list[str]] = [[]]
    word, waiting, at, used = "", "", 0, 0

    def folded(character: str) -> str:
        return "'" if character in OTHER_APOSTROPHES else fold(character, lowercase)

    def close() -> None:
        nonlocal word, waiting
        if word:
            done[-1].append("".join(map(folded, word)))
        word, waiting = "", ""

    while at < len(text):
        character = text[at]
        kind = message_class_of(character)
        at += 1
        if character == "\u20e3":
            key = re.search(r"([0-9#*])\ufe0f?$", text[used : at - 1])
            if key and word == (key[1] if key[1].isdigit() else ""):
                word = waiting = ""
                done[-1].append(key[1] + character)
                used = at
        elif kind == "WORD":
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
            before = text[used : at - 1][-1:]
            letter_before = bool(before) and message_class_of(before) in ("WORD", "MARK")
            token, length = _emoji(text[at - 1 :])
            if not length:
                token, length = _emoticon(text[at - 1 :], letter_before)
            if length:
                done[-1].append(token)
                at = used = at - 1 + length
            elif kind == "IDEOGRAPH":
                done[-1].append(character)
            elif kind == "BREAK" or (
                kind == "END" and not re.fullmatch("[0-9][.:][0-9]", text[max(at - 2, 0) : at + 1])
            ):
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
