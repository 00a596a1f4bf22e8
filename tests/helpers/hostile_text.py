"""Text as it comes and as it is made up to break tokenizers: strategies shared by the tests of this
folder.

Only code points that the running Python knows: the reference tokenizer asks it for their
categories.
"""

import pyarrow as pa
from hypothesis import strategies as st

from helpers.reference_tokenizer import BREAKS, ENDS, JOINERS, SPACES, is_assigned

TOKENIZERS = ("words", "messages", "whitespace", "characters", "rows")
TOKENIZER_CASES = [(kind, lowercase) for kind in TOKENIZERS for lowercase in (True, False)]


def _between(first: int, last: int) -> str:
    return "".join(
        character for character in map(chr, range(first, last + 1)) if is_assigned(character)
    )


ALPHABETS = {
    "ascii": _between(0x00, 0x7F),
    "short": "aB c.'",
    "latin": _between(0xA0, 0x24F) + _between(0x1E00, 0x1EFF),
    "longer or shorter in lower case": "ȺȾİIıK\u212aÅ\u212bΩ\u2126ẞßΣςσⱢꞭǅǇ\u1e9eᾼ\u03f4\u2c6f\U00010400Ꭰꭰ\u13a0\u10a0",
    "lower case composes": "HTWYJAhtwyja\u0331\u0308\u030a\u030c\u02beΪΫϊϋ\u0301\u0307İ",
    "greek and cyrillic": _between(0x370, 0x4FF) + _between(0x1F00, 0x1FFF),
    "arabic and hebrew": _between(0x591, 0x6FF) + _between(0xFB1D, 0xFB4F),
    "devanagari and bengali": _between(0x900, 0x9FF) + "\u200c\u200d",
    "thai, burmese, khmer": _between(0xE00, 0xE7F)
    + _between(0x1000, 0x104F)
    + _between(0x1780, 0x17FF),
    "hangul": _between(0x1100, 0x1112)
    + _between(0x1161, 0x1175)
    + _between(0x11A7, 0x11C2)
    + "가각힣ㄱㅏ\uac1c",
    "chinese and japanese": "的一是々〆〇〸㐀\ufa0e\uf900\U00020000\U0002f800\U00030000"
    + _between(0x3040, 0x30FF)
    + "ｶﾞ",
    "emoji": "👩👨👧👍🏽🇩🇪❤☺\ufe0f\ufe0e\u200d\u20e3\U000e0067\U000e007f3#"
    + _between(0xFE00, 0xFE0F)
    + "\U000e0100",
    "flags, tones, tags": "🇩🇪🇦🏻🏿👍🏴\u200d\ufe0f\U000e0067\U000e0062\U000e007f\u20e37*a",
    "emoticons": ":;=-^'’()[]DdPpOsX3/\\|*$@<>_. a1\u0301é",
    "marks in the wrong order": "aeoAñ"
    + _between(0x300, 0x345)
    + "\u0591\u05b0\u064b\u0651\u0327\u3099\u0488\u20dd",
    "joiners": "".join(map(chr, sorted(JOINERS))) + "ab\u0301日\u00ad\u0387ʼ`´‘‛′",
    "space, breaks, ends": "".join(map(chr, sorted(SPACES | BREAKS | ENDS))),
    "invisible": "\0\x1c\x1d\x1e\x1f\u00ad\ufeff\u200b\u200c\u200d\u200e\u2060\u061c\u180e\ue000\x7f\x80\u2581",
}
assert all(is_assigned(character) for alphabet in ALPHABETS.values() for character in alphabet)

_characters = st.one_of(
    *(st.sampled_from(alphabet) for alphabet in ALPHABETS.values()),
    st.characters(exclude_categories=("Cs", "Cn", "Co")),
)
hostile_text = st.one_of(
    st.text(_characters, max_size=30),
    st.sampled_from(list(ALPHABETS.values())).flatmap(
        lambda alphabet: st.text(st.sampled_from(alphabet), max_size=30)
    ),
)
plain_text = st.text(
    st.sampled_from("aabbcÉ.\n 'é日"), max_size=40
)  # few words, so that n-grams come again


def to_rows(texts: list[str]) -> pa.LargeBinaryArray:
    return pa.array([text.encode() for text in texts], pa.large_binary())
