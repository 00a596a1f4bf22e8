"""The tokenizers against docs/text.md, by way of a second implementation and of examples written by hand."""

import unicodedata
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bayesgram.choices import TokenizerKind
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.text import tokenizer as tokenizer_module
from bayesgram.text.tokenizer import Tokenizer, buffers
from helpers.hostile_text import ALPHABETS, TOKENIZER_CASES, TOKENIZERS, hostile_text, to_rows
from helpers.hypothesis_profiles import examples
from helpers.reference_tokenizer import class_of, sentences

WORDS = Tokenizer("words")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" .\n", []),
        ("Don’t stop! 'Tis 3.14", [["don't", "stop"], ["tis", "3"], ["14"]]),
        ("rock 'n' roll, the dogs' o＇clock", [["rock", "n", "roll", "the", "dogs", "o'clock"]]),
        ("a''b c'.d", [["a", "b", "c"], ["d"]]),
        ("col·lecció a\u0387b", [["col·lecció", "a·b"]]),
        ("a…b;c:d?e!f", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]),
        ("a\u037eb\r\n\r\nc\x85d\u2028e", [["a"], ["b"], ["c"], ["d"], ["e"]]),
        ("snake_case e-mail 50% a/b", [["snake", "case", "e", "mail", "50", "a", "b"]]),
        ("ΣΑΣ İstanbul Straße STRAẞE Ⅷ Ⅻ²", [["σασ", "istanbul", "straße", "straße", "ⅷ", "ⅻ²"]]),
        ("Ⱥ\u212a\u2126\u212b ǅ", [["ⱥkωå", "ǆ"]]),
        ("cafe\u0301 \u0301a", [["café", "a"]]),
        (
            "a'\u0308b",
            [["a\u0308b"]],
        ),  # a mark forgets the joiner; the word is not normalised again
        ("a\u00ad\u0308b", [["a\u0308b"]]),
        ("soft\u00adhyphen \ufeffbom zero\u200bwidth", [["softhyphen", "bom", "zero", "width"]]),
        ("a\u00ad'\u2060b", [["a'b"]]),
        ("क्\u200dष می\u200cخواهم a\u200d b", [["क्\u200dष", "می\u200cخواهم", "a", "b"]]),
        ("राम घर गया। वह॥", [["राम", "घर", "गया"], ["वह"]]),
        (
            "我爱你。ねこカタカナ々〇漢a",
            [["我", "爱", "你"], ["ね", "こ", "カタカナ", "々", "〇", "漢", "a"]],
        ),
        ("か\u3099カ\u3099ば\u0301", [["が", "ガ", "ば"]]),
        ("日's 日'日", [["日", "s", "日", "日"]]),
        ("\u1112\u1161\u11ab글", [["한글"]]),
        ("hi👍there 👩\u200d👧 ❤\ufe0f 3\ufe0f\u20e3 🇩🇪", [["hi", "there", "3"]]),
        ("สวัสดีครับ ភាសាខ្មែរ។", [["สวัสดีครับ", "ភាសាខ្មែរ"]]),
        ("\ufb2a\u05b8\u05dc؟ سلام؛", [["\u05e9\u05b8\u05c1\u05dc"], ["سلام"]]),
        ("a\0b\x1fc\ue000d", [["a", "b", "c", "d"]]),
    ],
)
def test_words_by_hand(text, expected):
    expected = [
        [
            unicodedata.normalize("NFC", token) if "\u0308b" not in token else token
            for token in sentence
        ]
        for sentence in expected
    ]
    assert WORDS.sentences(text) == expected
    assert sentences(text, "words", True) == expected


@pytest.mark.parametrize(
    ("tokenizer", "text", "expected"),
    [
        (Tokenizer("words", False), "Don’t SHOUT", [["Don't", "SHOUT"]]),
        (Tokenizer("words", False), "\u212aelvin e\u0301", [["Kelvin", "é"]]),
        (
            Tokenizer("messages"),
            "hi👍there 👩\u200d👧 ❤\ufe0f",
            [["hi", "👍", "there", "👩\u200d👧", "❤"]],
        ),
        (
            Tokenizer("messages"),
            "3\ufe0f\u20e3 #\u20e3 10\u20e3 🇩🇪🇫🇷🇦 x",
            [["3\u20e3", "#\u20e3", "10", "🇩🇪", "🇫🇷", "x"]],
        ),
        (Tokenizer("messages"), "👍🏽🏽" + "\u200d" * 3 + "👍\u200d", [["👍🏽", "🏽", "👍"]]),
        (Tokenizer("messages"), "👍\u200d🇩 👍\u200d🇩🇪", [["👍", "👍\u200d🇩🇪"]]),
        (
            Tokenizer("messages"),
            "🏴\U000e0067\U000e007f 🏴\U000e0067",
            [["🏴\U000e0067\U000e007f", "🏴"]],
        ),
        (
            Tokenizer("messages"),
            "Ha :-))) :’( :p ;D <333 </3 ok",
            [["ha", ":-)", ":'(", ":P", ";D", "<3", "</3", "ok"]],
        ),
        (Tokenizer("messages"), ":| :\\ :/ :-|| :s", [[":|", ":\\", ":/", ":-|", ":S"]]),
        (
            Tokenizer("messages"),
            "^^ ^_^ -__- >.< >:( =] xD",
            [["^^", "^_^", "-_-", ">.<", ">:(", "=]", "xd"]],
        ),
        (
            Tokenizer("messages"),
            "see http://a.b at 10:30, 3.14 f:(x) 1:3",
            [["see", "http"], ["a"], ["b", "at", "10", "30", "3", "14", "f"], ["x", "1", "3"]],
        ),
        (Tokenizer("messages"), "hello:) C:D :D:D", [["hello", ":)", "c"], ["d", ":D", ":D"]]),
        (
            Tokenizer("messages"),
            "don’t don`t don´t donʼt ‘so’",
            [["don't", "don't", "don't", "don't", "so"]],
        ),
        (Tokenizer("messages", False), "Don’t :d XD", [["Don't", ":D", "XD"]]),
        (
            Tokenizer("whitespace"),
            "A’c e\u0301\u3000\u212a.x!\ty\u200bz",
            [["A’c", "e\u0301", "\u212a.x!", "y", "z"]],
        ),
        (
            Tokenizer("whitespace"),
            "\ufeffA\u00ad \u200d\r\n\r\n\x0bB\0\x1cC",
            [["\ufeffA\u00ad", "\u200d"], ["B\0\x1cC"]],
        ),
        (
            Tokenizer("whitespace", True),
            "A’C e\u0301 İ\u212a Ⱥ 日Ａ",
            [["a'c", "e\u0301", "ik", "ⱥ", "日ａ"]],
        ),
        (Tokenizer("characters"), "Hi,  you", [["h", "i", ",", "▁", "y", "o", "u"]]),
        (Tokenizer("characters"), " a. b!? \n c ", [["a", "."], ["b", "!"], ["?"], ["c"]]),
        (Tokenizer("characters"), "a \u00ad b\ufeff\u200b\u20ddc", [["a", "▁", "b", "▁", "c"]]),
        (
            Tokenizer("characters"),
            "e\u0301x\u0301’\u200d日",
            [["é", "x", "\u0301", "'", "\u200d", "日"]],
        ),
        (Tokenizer("characters", False), "Ab▁İ", [["A", "b", "▁", "İ"]]),
        (Tokenizer("characters"), "a \nb", [["a"], ["b"]]),
        (Tokenizer("characters"), "a .b", [["a", "▁", "."], ["b"]]),
        (Tokenizer("characters"), ". a", [["."], ["a"]]),
    ],
)
def test_other_tokenizers_by_hand(tokenizer, text, expected):
    assert tokenizer.sentences(text) == expected
    assert sentences(text, tokenizer.kind, tokenizer.lowercase) == expected


@pytest.mark.parametrize(("kind", "lowercase"), TOKENIZER_CASES)
@examples(300)
@given(text=hostile_text)
def test_cuts_as_the_page_says(kind, lowercase, text):
    assert Tokenizer(kind, lowercase).sentences(text) == sentences(text, kind, lowercase)


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_every_pair_of_an_alphabet_is_cut_as_the_page_says(alphabet, kind, lowercase):
    characters = ALPHABETS[alphabet]
    rng = np.random.default_rng(7)
    pairs = [(a, b) for a in characters[:: len(characters) // 15 + 1] for b in characters]
    text = [f"x{a}{b}y" for a, b in pairs] + [
        "".join(rng.permutation(list(characters))) for _ in range(3)
    ]
    assert cut(Tokenizer(kind, lowercase), to_rows(text)) == [
        sentences(row, kind, lowercase) for row in text
    ]


@examples(150)
@given(hostile_text, st.sampled_from(TOKENIZER_CASES))
def test_tokens_hold_no_space_and_no_break(text, case):
    """But a row has single spaces between its words."""
    for sentence in Tokenizer(*case).sentences(text):
        assert sentence
        for token in sentence:
            for word in token.split(" ") if case[0] == "rows" else [token]:
                assert word
                assert not {class_of(character) for character in word} & {"SPACE", "BREAK"}


@examples(150)
@given(hostile_text)
def test_whitespace_with_case_kept_hands_on_the_very_bytes(text):
    found = [token for sentence in Tokenizer("whitespace").sentences(text) for token in sentence]
    assert "".join(found) == "".join(c for c in text if class_of(c) not in ("SPACE", "BREAK"))


@examples(150)
@given(hostile_text, st.booleans())
@example("İ\u0301 H\u0331 a'\u0308 \u1100\u00ad\u1161", True)
def test_words_stay_the_same_words_when_they_are_cut_again(text, lowercase):
    """Once for words in NFC. Others exist (lower case or a dropped character may leave a pair that composes): twice."""
    tokenizer = Tokenizer("words", lowercase)
    for sentence in tokenizer.sentences(text):
        again = tokenizer.sentences(" ".join(sentence))
        if all(unicodedata.is_normalized("NFC", word) for word in sentence):
            assert again == [sentence]
        assert again == [[unicodedata.normalize("NFC", word) for word in sentence]]
        assert tokenizer.sentences(" ".join(again[0])) == again


def cut(tokenizer, rows):
    """The sentences of each row, from the flat arrays that the pipeline sees."""
    found = []
    for data, offsets, row_ends in tokenizer.tokenize_chunks(rows):
        assert offsets.size == row_ends[-1] + 1
        assert (offsets[0], offsets[-1]) == (0, data.size)
        words = [data[start:end].tobytes().decode() for start, end in pairwise(offsets)]
        for first, last in pairwise([0, *row_ends]):
            row = [[]]
            for word in words[first:last]:
                if word:
                    row[-1].append(word)
                else:
                    assert row[-1], "an empty sentence"
                    row.append([])
            assert not row[-1], "a row that does not end its last sentence"
            found.append(row[:-1])
    return found


@pytest.mark.parametrize("limit", [1, 7, 64])
@examples(60)
@given(
    texts=st.lists(st.one_of(st.just(""), st.just("a"), hostile_text), max_size=12),
    case=st.sampled_from(TOKENIZER_CASES),
)
def test_rows_are_cut_alone_whatever_the_chunks(limit, texts, case):
    tokenizer = Tokenizer(*case)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer_module, "CHUNK_BYTES", limit)
        chunks = list(tokenizer.tokenize_chunks(to_rows(texts)))
        found = cut(tokenizer, to_rows(texts))
    assert found == [tokenizer.sentences(text) for text in texts]
    assert sum(row_ends.size for _, _, row_ends in chunks) == len(texts)


@examples(100)
@given(st.lists(st.integers(0, 12), max_size=20), st.integers(1, 12), st.integers(0, 5))
def test_chunks_are_as_long_as_the_limit_allows(sizes, limit, start):
    rows = pa.array([b"y" * size for size in [start, *sizes]], pa.large_binary())[1:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer_module, "CHUNK_BYTES", limit)
        chunks = [chunk.to_pylist() for chunk in tokenizer_module.chunks(rows)]
    assert [row for chunk in chunks for row in chunk] == rows.to_pylist()
    bytes_in = [sum(map(len, chunk)) for chunk in chunks]
    for chunk, size, following in zip(chunks, bytes_in, [*chunks[1:], None], strict=False):
        assert len(chunk) == 1 or size <= limit
        assert following is None or size + len(following[0]) > limit


@examples(100)
@given(
    st.lists(st.one_of(st.just(""), st.just("e\u0301"), hostile_text), max_size=8),
    st.integers(0, 9),
    st.integers(0, 9),
    st.sampled_from(TOKENIZER_CASES),
)
def test_slices_are_cut_like_copies(texts, start, length, case):
    tokenizer = Tokenizer(*case)
    rows = to_rows(texts)[min(start, len(texts)) :][:length]
    assert cut(tokenizer, rows) == [sentences(text, *case) for text in texts[start:][:length]]
    data, offsets = buffers(rows)
    assert [data[a:b].tobytes().decode() for a, b in pairwise(offsets)] == texts[start:][:length]


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_rows_without_a_byte(kind):
    assert cut(Tokenizer(kind), to_rows([])) == []
    assert cut(Tokenizer(kind), to_rows(["", "", ""])) == [[], [], []]
    assert cut(Tokenizer(kind), to_rows(["a", "", "b"])[1:2]) == [[]]
    offsets = pa.py_buffer(np.zeros(3, np.int64))
    no_data = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), 2, [None, offsets, pa.py_buffer(b"")]
    )
    assert cut(Tokenizer(kind), no_data) == [[], []]


@pytest.mark.parametrize(("kind", "lowercase"), TOKENIZER_CASES)
@pytest.mark.parametrize("row", ["Ⱥ", "Ⱥ ", " Ⱥ", ".", "a", "a ", "a.", "Ⱥ.Ⱥ ", "ȾȺ'", "日", "日."])
def test_the_output_has_room_for_rows_that_grow(row, kind, lowercase):
    """Lower case, ▁ and sentence ends make the output longer than the text."""
    for texts in ([row] * 200, [row * 200]):
        assert cut(Tokenizer(kind, lowercase), to_rows(texts)) == [
            sentences(text, kind, lowercase) for text in texts
        ]


def test_a_row_longer_than_token_ends_can_say_is_refused(monkeypatch):
    monkeypatch.setattr(tokenizer_module, "MAX_ROW_BYTES", 10)
    monkeypatch.setattr(tokenizer_module, "CHUNK_BYTES", 4)
    assert cut(WORDS, to_rows(["a b c d ef", "gh"])) == [[["a", "b", "c", "d", "ef"]], [["gh"]]]
    with pytest.raises(BayesgramError, match="a single text of more than") as caught:
        cut(WORDS, to_rows(["a", "secret text"]))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("lowercase", [True, False, None])
@pytest.mark.parametrize("kind", TOKENIZERS)
def test_names_come_back_as_the_same_tokenizer(kind, lowercase):
    tokenizer = Tokenizer(kind, lowercase)
    assert Tokenizer.from_name(tokenizer.name) == tokenizer
    assert hash(Tokenizer.from_name(tokenizer.name)) == hash(tokenizer)


def test_different_tokenizers_have_different_names_and_usual_ones_the_name_of_their_kind():
    assert (
        len({Tokenizer(*case).name for case in TOKENIZER_CASES})
        == len({Tokenizer(*case) for case in TOKENIZER_CASES})
        == 10
    )
    assert [Tokenizer(kind).name for kind in TOKENIZERS] == list(TOKENIZERS)
    assert [Tokenizer(kind).lowercase for kind in TOKENIZERS] == [True, True, False, True, True]
    assert Tokenizer() == Tokenizer(TokenizerKind.WORDS, True)


def test_an_unknown_kind_is_refused_with_the_choice():
    with pytest.raises(
        UsageError,
        match=r"^tokenizer='bytes': choose one of words, messages, whitespace, characters, rows; or file:PATH, a tokenizer\.json\.$",
    ):
        Tokenizer("bytes")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "words, upside down",
            "tokenizer='words, upside down': not known to this bayesgram. Use a newer one, or make the vocabulary again.",
        ),
        (
            "syllables",
            "tokenizer='syllables': not known to this bayesgram. Use a newer one, or make the vocabulary again.",
        ),
    ],
)
def test_unknown_names(name, message):
    with pytest.raises(UsageError) as caught:
        Tokenizer.from_name(name)
    assert str(caught.value) == message


def test_a_thousand_modifiers_and_an_endless_family():
    messages = Tokenizer("messages")
    assert messages.sentences("👍" + "🏽" * 1000) == [["👍🏽", *["🏽"] * 999]]
    assert messages.sentences("👍" + "\ufe0f" * 1000 + "🏽") == [["👍🏽"]]
    family = "\u200d".join("👩" * 1000)
    assert messages.sentences(family + "\u200d") == [[family]]
    assert messages.sentences("🇩" * 1001) == [["🇩🇩"] * 500]
    assert messages.sentences(":" + ")" * 1000) == [[":)"]]
    for lone in ("\u200d", "\ufe0f", "\u20e3", "🇩", "\U000e007f"):
        assert messages.sentences(lone) == []


@examples(200)
@given(st.text(st.sampled_from("aB é.\n日,!?"), max_size=30))
def test_messages_are_cut_as_words_where_there_is_nothing_else(text):
    assert Tokenizer("messages").sentences(text) == Tokenizer("words").sentences(text)
