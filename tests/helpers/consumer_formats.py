"""Strict readers of the files that keyboards, search boxes and spell checkers take.

Each is written from the published format, and refuses whatever that does not have: AOSP's
`CombinedInputOutput.java` and `sample.combined`; Lucene's `FileDictionary.java`; the completion
field of Elasticsearch and OpenSearch; hunspell(5).
"""

import json
import re
import unicodedata

MAX_LETTERS = 48  # of a word in a keyboard's dictionary
MAX_BIGRAMS = 10_000  # of a word; FormatSpec.java
HEADER = re.compile(
    r"dictionary=main:[a-z]{2,3}(_[a-z0-9]+)*,locale=[A-Za-z0-9_]+,description=[^,=:]+,"
    r"date=\d+,version=\d+"
)


def read_lines(path):
    """The lines of a file that ends with one; no other character may end a line."""
    text = path.read_bytes().decode("utf-8")
    assert text.endswith("\n")
    assert "\r" not in text
    return text[:-1].split("\n")


def read_combined(path):
    """The header, and of each word its f and the f of the words after it."""
    header, *lines = read_lines(path)
    assert HEADER.fullmatch(header), header
    words = {}
    for line in lines:
        match = re.fullmatch(r"( word|  bigram)=([^,=\s]+),f=([1-9]\d{0,2})", line)
        assert match, line
        kind, word, frequency = match[1], match[2], int(match[3])
        assert frequency <= 255
        assert len(word) < MAX_LETTERS
        assert not [letter for letter in word if unicodedata.category(letter) in {"Cc", "Zs"}]
        if kind == " word":
            assert word not in words
            words[word] = (frequency, {})
        else:
            pairs = list(words.values())[-1][1]
            assert word not in pairs
            pairs[word] = frequency
    for _, pairs in words.values():
        assert len(pairs) <= MAX_BIGRAMS
        assert list(pairs.values()) == sorted(pairs.values(), reverse=True)
        # dicttool holds no bigram that makes its second word less likely.
        assert all(frequency >= words[second][0] for second, frequency in pairs.items())
    return header, words


def read_lucene(path):
    """Suggestions and their weights: a tab between them, a whole number after it."""
    suggestions = {}
    for line in read_lines(path):
        text, weight = line.split("\t")
        assert text
        assert text not in suggestions
        assert re.fullmatch(r"[1-9]\d*", weight)
        assert int(weight) < 2**63
        suggestions[text] = int(weight)
    return suggestions


def read_completions(path):
    """Suggestions and their weights: documents of a completion field.

    The field refuses empty inputs, control characters it uses itself, and weights beyond 31 bits.
    """
    suggestions = {}
    for line in read_lines(path):
        document = json.loads(line)
        assert set(document) == {"suggest"}
        assert set(document["suggest"]) == {"input", "weight"}
        (text,) = document["suggest"]["input"]
        weight = document["suggest"]["weight"]
        assert text
        assert not {"\0", "\x1e", "\x1f"} & set(text)
        assert isinstance(weight, int)
        assert 0 <= weight < 2**31
        assert text not in suggestions
        suggestions[text] = weight
    return suggestions


def read_dic(path):
    """The words of a .dic file without affixes, in order."""
    count, *lines = read_lines(path)
    assert int(count) == len(lines)
    for line in lines:
        assert line
        assert not re.search(r"(?<!\\)/", line)  # a flag would follow
        assert not re.search(r"\s", line)
    return [line.replace("\\/", "/") for line in lines]
