"""Words that shall not be suggested: a blocklist, and which n-grams contain a blocked word.

A blocklist has words and phrases. An n-gram is blocked if the tokens of a phrase stand in it, one
after the other; parts of a token don't count. Text is compared without case, and cut by the
tokenizer of the n-grams. A small list of slurs is built in, and can be left out.
"""

import codecs
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arrays import Bools
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.text.tokenizer import Tokenizer

BUILT_IN_FILE = "blocked-words.txt"


@dataclass(frozen=True)
class Blocklist:
    """Words and phrases that shall not be published or suggested.

    >>> blocklist = Blocklist(("Red fish",), built_in=False)
    >>> ngrams = pa.array(["the red", "the red fish", "red fishes"], pa.large_string())
    >>> blocklist.mask(ngrams, Tokenizer()).tolist()
    [False, True, False]

    Attributes:
        phrases: Words and phrases, as a person writes them.
        built_in: Whether the built-in list of slurs belongs to it, too.
    """

    phrases: tuple[str, ...] = ()
    built_in: bool = True

    @classmethod
    def load(cls, path: str | Path | None, *, built_in: bool = True) -> "Blocklist":
        """Read a file with one word or phrase on each line; lines that begin with # are comments.

        Args:
            path: The file, in UTF-8; None for no other words than the built-in ones.
            built_in: Whether the built-in list of slurs belongs to it, too.

        Raises:
            UsageError: If the file can't be read or is not in UTF-8.
        """
        if path is None:
            return cls((), built_in)
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except OSError as error:
            raise UsageError(
                f"{path}: the blocklist can't be read ({error.strerror}); give a text file with one"
                " word or phrase on each line."
            ) from None
        except UnicodeDecodeError:
            raise UsageError(
                f"{path}: the blocklist is not in UTF-8; save it as UTF-8 text."
            ) from None
        return cls(tuple(_lines(text)), built_in)

    def __len__(self) -> int:
        return len(self.all_phrases)

    def __repr__(self) -> str:
        """Show how many phrases there are, and none of them."""
        return f"Blocklist({len(self.phrases)} phrases, built-in list: {self.built_in})"

    @cached_property
    def all_phrases(self) -> tuple[str, ...]:
        """Its own phrases and the built-in ones."""
        return (*self.phrases, *(built_in_phrases() if self.built_in else ()))

    def tokens(self, tokenizer: Tokenizer) -> set[tuple[str, ...]]:
        """Return the phrases as tokens in lower case; without those that have none."""
        return _phrases(self, tokenizer)

    def mask(self, ngrams: pa.LargeStringArray, tokenizer: Tokenizer) -> Bools:
        """Return which n-grams contain a blocked word or phrase.

        Args:
            ngrams: N-grams, tokens joined by one space; or rows, which are cut into words.
            tokenizer: How their text was cut.
        """
        blocked = np.zeros(len(ngrams), np.bool_)
        phrases = self.tokens(tokenizer)
        if not phrases or not len(ngrams):
            return blocked
        if tokenizer.is_rows:
            ngrams = words_of_rows(ngrams, tokenizer)
        lists = pc.split_pattern(pc.utf8_lower(ngrams), " ")
        tokens = lists.flatten().cast(pa.large_string())
        orders = pc.list_value_length(lists).to_numpy()
        rows = np.repeat(np.arange(len(ngrams)), orders)  # the n-gram of each token
        for length in {len(phrase) for phrase in phrases if len(phrase) <= orders.max()}:
            listed = pa.array(
                [" ".join(phrase) for phrase in phrases if len(phrase) == length], pa.large_string()
            )
            count = len(tokens) - length + 1
            columns = [tokens.slice(start, count) for start in range(length)]
            separator = pa.scalar(" ", pa.large_string())
            windows = pc.binary_join_element_wise(*columns, separator) if length > 1 else tokens
            is_listed = pc.is_in(windows, value_set=listed).to_numpy(zero_copy_only=False)
            # A window may reach into the next n-gram, where it means nothing.
            is_inside = rows[:count] == rows[length - 1 :]
            blocked[rows[:count][is_listed & is_inside]] = True
        return blocked

    def blocks_next(self, before: Sequence[str], token: str, tokenizer: Tokenizer) -> bool:
        """Return whether a token after others is a blocked word, or ends a blocked phrase."""
        words = [word.lower() for word in (*before, token)]
        return any(
            tuple(words[len(words) - length :]) in self.tokens(tokenizer)
            for length in range(1, len(words) + 1)
        )


NO_BLOCKLIST = Blocklist((), built_in=False)


@cache
def _phrases(blocklist: Blocklist, tokenizer: Tokenizer) -> set[tuple[str, ...]]:
    cut = (tuple(_cut(phrase, tokenizer)) for phrase in blocklist.all_phrases)
    return {phrase for phrase in cut if phrase}


@cache
def built_in_phrases() -> tuple[str, ...]:
    """Return the built-in list of slurs, which is stored in ROT13."""
    text = files("bayesgram.text").joinpath(BUILT_IN_FILE).read_text(encoding="utf-8")
    return tuple(codecs.decode(line, "rot13") for line in _lines(text))


def _lines(text: str) -> Iterable[str]:
    stripped = (line.strip() for line in text.splitlines())
    return (line for line in stripped if line and not line.startswith("#"))


def _cut(phrase: str, tokenizer: Tokenizer) -> list[str]:
    """Return the tokens of a phrase in lower case; of a row, its words."""
    sentences = tokenizer.words.sentences(phrase)
    return [token.lower() for sentence in sentences for token in sentence]


def words_of_rows(rows: pa.LargeStringArray, tokenizer: Tokenizer) -> pa.LargeStringArray:
    """Return the words of each row, joined by one space: what a blocklist is compared with.

    >>> rows = pa.array(["red-fish (blue)"], pa.large_string())
    >>> words_of_rows(rows, Tokenizer("rows")).to_pylist()
    ['red fish blue']
    """
    return pa.array(
        [
            " ".join(word for sentence in tokenizer.words.sentences(row) for word in sentence)
            for row in rows.to_pylist()
        ],
        pa.large_string(),
    )


def refuse_if_all_blocked(blocked: Bools) -> None:
    """Refuse to go on with nothing.

    Raises:
        BayesgramError: If every n-gram is blocked.
    """
    if blocked.all():
        raise BayesgramError(
            "the blocklist leaves out every n-gram; remove some words from it, or use more text."
        )
