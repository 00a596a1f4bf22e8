"""How good a language model is for held-out text: perplexity, coverage, next words, keystrokes.

In:  a `LanguageModel` and rows of private text.   Out: `TextQuality`.
Everything is computed from private text without noise, so it is itself a disclosure (see `utility`).

A prediction is a word or the end of a sentence. A word that the model lacks is <unk>, which stands for all such words
together: perplexity with them compares models of the same words only. Keystrokes: before and after each letter three
words are suggested; one costs a tap and brings its space along. So a word of n letters that is suggested after j of
them costs j + 1, and n + 1 if it never is; saved is 1 − what is typed / what would be.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from bayesgram.arrays import Bools, Bytes, Ids, Integers
from bayesgram.errors import BayesgramError
from bayesgram.kernels import kernel, signed
from bayesgram.released.language_model import LanguageModel
from bayesgram.released.packed import Packed
from bayesgram.released.search import SENTENCE_END, best
from bayesgram.released.words import Ends, prefix_range

SUGGESTIONS = 3
SAMPLE = 20_000  # words, evenly spread, whose keystrokes are counted


@dataclass(frozen=True)
class TextQuality:
    """What a model is worth for a text."""

    perplexity: float  # of all words and sentence ends
    perplexity_known: float  # the same without words that the model lacks
    out_of_vocabulary: float  # the share of words that the model lacks
    coverage: float  # the share of words predicted by an n-gram of the highest order
    accuracy_1: float  # the share of words that were the likeliest next word
    accuracy_3: float  # ... among the three likeliest
    keystrokes_saved: float
    keystroke_words: int  # how many words that was counted on; two digits, for a table
    order: int
    ngrams: int

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Encoded:
    """A text as a model reads it: word numbers, −1 where a sentence ends, and how many letters each word has."""

    stream: Ids
    letters: Ids


def encode(model: LanguageModel, texts: Iterable[pa.LargeBinaryArray]) -> Encoded:
    """Cut rows of valid UTF-8 with the model's tokenizer."""
    streams, letters = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
    for rows in texts:
        for data, offsets, _ in model.tokenizer.scan(rows):
            streams.append(model.numbers(data, offsets))
            begun = np.concatenate([[0], np.cumsum((data & 0xC0) != 0x80)])  # each character has one such byte
            letters.append(np.diff(begun[offsets]).astype(np.int32))
    return Encoded(np.concatenate(streams), np.concatenate(letters))


def text_quality(model: LanguageModel, texts: Iterable[pa.LargeBinaryArray], *, sample: int = SAMPLE) -> TextQuality:
    """Judge a model by a text."""
    text = encode(model, texts)
    words = text.stream != SENTENCE_END
    if not words.any():
        raise BayesgramError("the text has no words: there is nothing to predict.")
    scores, orders, states = model.trie.walk(text.stream)
    known = text.stream != model.trie.special[2]
    at = np.flatnonzero(words)
    at = at[:: -(-at.size // sample)]
    hits = next_word_hits(model, text.stream[words], states[words])
    typed = _keystrokes(text.stream[at], text.letters[at], states[at], *_searched(model))
    return TextQuality(
        perplexity=float(10 ** -scores.mean()),
        perplexity_known=float(10 ** -scores[known].mean()) if known.any() else float("inf"),
        out_of_vocabulary=float(1 - known[words].mean()),
        coverage=float((orders[words] == model.order).mean()),
        accuracy_1=float(hits[:, 0].mean()),
        accuracy_3=float(hits.any(axis=1).mean()),
        keystrokes_saved=float(1 - typed.sum() / (text.letters[at] + 1).sum()),
        keystroke_words=int(float(f"{at.size:.1e}")),
        order=model.order,
        ngrams=sum(model.sizes),
    )


def next_word_hits(model: LanguageModel, words: Ids, states: Ids) -> Bools:
    """Whether each word was the first, second or third suggestion after its context; each context is asked once."""
    contexts, which = np.unique(states, return_inverse=True)
    suggested = model.trie.best_after(contexts, SUGGESTIONS)
    hits: Bools = suggested[which] == words[:, None]
    return hits


def _searched(model: LanguageModel) -> tuple[Bytes, Integers | Ends, Packed]:
    return model.trie.words.data, model.trie.words.ends, model.trie.suggested


@kernel
def _keystrokes(stream: Ids, letters: Ids, states: Ids, data: Bytes, ends: Integers | Ends, trie: Packed) -> Ids:
    """What typing each word costs."""
    typed = np.empty(stream.size, np.int32)
    for at in range(stream.size):
        typed[at] = letters[at] + 1
        word = stream[at]
        if word == trie.special[2]:
            continue
        low, high, begun = 0, ends.size - 1, signed(ends[word])
        end, last = begun, signed(ends[word + 1])
        for letter in range(letters[at]):
            if (best(states[at], SUGGESTIONS, low, high, trie)[0] == word).any():
                typed[at] = letter + 1
                break
            end += 1
            while end < last and data[end] & 0xC0 == 0x80:
                end += 1
            low, high = prefix_range(data, begun, end, data, ends, low, high)
    return typed
