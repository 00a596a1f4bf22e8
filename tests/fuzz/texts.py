"""The tokenizers and the n-grams of what they cut, against tests/helpers/reference_tokenizer.py and
plain loops.
"""

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa

from bayesgram.errors import BayesgramError
from bayesgram.io import Records
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.tokenizer import Tokenizer
from fuzz.mutations import mutated
from fuzz.target import Target, must
from helpers.hostile_text import ALPHABETS
from helpers.reference_tokenizer import is_assigned, sentences

KINDS = ("words", "whitespace", "characters")
ROW = "\x1e"  # between the rows of an input
SEEDS = [
    "Don't stop! The café's open, O'Hara. 3.14",
    "ACG TTA\nGGC\u2028x\u0085y",
    "日本語 的一是々 \U0001f469\u200d\U0001f467 ❤\ufe0f",
    "a b a b a b. a b! \x1e a b a\x1e<s> a </s>",
    "İstanbul ΣΑΣ ßẞ e\u0301\u0327 \u0915\u094d\u200d\u0937",
]


def text_of(data: bytes) -> str:
    """The valid part of it that the running Python knows: the reference tokenizer asks it for
    categories.
    """
    return "".join(filter(is_assigned, data.decode("utf-8", "ignore")))


def check_tokens(data: bytes, folder: Path) -> None:
    text, lowercase = text_of(data), bool(zlib.crc32(data) & 1)
    for kind in KINDS:
        tokenizer = Tokenizer(kind, lowercase)
        must(
            tokenizer.sentences(text) == sentences(text, kind, lowercase),
            f"{tokenizer.name}: other tokens",
        )


def mutated_text(random: Random, seeds: Sequence[bytes]) -> bytes:
    if random.random() < 0.3:
        return mutated(random, random.choice(seeds), seeds)[:400]
    alphabets = [random.choice(ALPHABET_LIST) for _ in range(random.randint(1, 3))]
    return "".join(
        random.choice(random.choice(alphabets)) for _ in range(random.randint(0, 40))
    ).encode()


ALPHABET_LIST = [*ALPHABETS.values(), "aabbcÉ.\n 'é日" + ROW]


def check_ngrams(data: bytes, folder: Path) -> None:
    """A vocabulary of all n-grams, and where they are found again; with sentence boundaries or
    without.
    """
    number, rows = zlib.crc32(data), text_of(data).split(ROW)
    tokenizer = Tokenizer(KINDS[number % 3], bool(number & 4), bool(number & 8))
    orders = [order for order in (1, 2, 3) if number >> 3 + order & 1] or [2]
    found = [_ngrams(row, order, tokenizer) for row in rows for order in orders]
    texts = pa.array([row.encode() for row in rows], pa.large_binary())
    expected = sorted(Counter(ngram for each in found for ngram in each).items(), key=_place)
    is_empty = {len(ngram) for ngram, _ in expected} != set(orders)
    try:
        vocabulary = Vocabulary.from_records(
            [Records(texts, None, "x", 1)], order=orders, size=1000, tokenizer=tokenizer
        )
    except BayesgramError as error:
        must(is_empty, f"refused, though there are n-grams: {error}")
        raise
    must(not is_empty, "a vocabulary without n-grams")
    must(
        vocabulary.ngrams.to_pylist() == [" ".join(ngram) for ngram, _ in expected], "other n-grams"
    )
    must(vocabulary.counts.tolist() == [count for _, count in expected], "other counts")
    owners = np.arange(len(rows), dtype=np.int32)
    again = Counter(
        pair
        for users, ngrams in vocabulary.matcher.match([(texts, owners)])
        for pair in zip(users.tolist(), ngrams.tolist(), strict=True)
    )
    numbers = {ngram: at for at, (ngram, _) in enumerate(expected)}
    rowwise = zip((row for row in range(len(rows)) for _ in orders), found, strict=True)
    must(
        again == Counter((row, numbers[ngram]) for row, each in rowwise for ngram in each),
        "others are found again",
    )


def _ngrams(row: str, order: int, tokenizer: Tokenizer) -> list[tuple[str, ...]]:
    cut = sentences(row, tokenizer.kind, bool(tokenizer.lowercase))
    marked = [["<s>", *sentence, "</s>"] for sentence in cut] if tokenizer.boundaries else cut
    windows = [tuple(s[at : at + order]) for s in marked for at in range(len(s) + 1 - order)]
    return [window for window in windows if window != ("<s>",) or not tokenizer.boundaries]


def _place(item: tuple[tuple[str, ...], int]) -> tuple[int, int, list[bytes]]:
    ngram, count = item
    return len(ngram), -count, [token.encode() for token in ngram]


def made() -> list[bytes]:
    return [text.encode() for text in SEEDS]


def targets() -> Iterator[Target]:
    """Text."""
    yield Target("tokens", 250, made, check_tokens, mutated_text)
    yield Target("ngrams", 15, made, check_ngrams, mutated_text)
