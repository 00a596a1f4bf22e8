"""Anything that gives probabilities of the next word, and what can be asked of it.

In:  a `Scorer`: a list of words, and log p of each of them after a context.   Out: perplexity, next words.
A context is the words of a sentence so far; every sentence begins afresh. The list may have <unk>, which stands for all
words that are not in it, and </s>, the end of a sentence; what it lacks is not predicted. Does not train anything.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from bayesgram.arrays import Bools, Floats, Integers
from bayesgram.errors import BayesgramError, UsageError, check_int
from bayesgram.lm.language_model import MOST_PREDICTIONS, LanguageModel, Prediction
from bayesgram.lm.trie import UNKNOWN
from bayesgram.releases.provenance import Ingredient
from bayesgram.text.ngrams import END, START
from bayesgram.text.tokenizer import Tokenizer

MOST_CELLS = 1 << 24  # of an array contexts × words: 128 MB
TOLERANCE = 1e-3  # of a sum of probabilities: 32-bit scorers of many words stay well below

Context = Sequence[str]


class Scorer(Protocol):
    """A language model of any kind."""

    @property
    def words(self) -> Sequence[str]:
        """What is predicted, each once; perhaps with <unk> and </s>."""

    def log_probabilities(self, contexts: Sequence[Context]) -> Floats:
        """Natural logarithms of p, contexts × words; each row is a distribution."""


@dataclass(frozen=True, eq=False)
class ModelScorer:
    """A back-off model as a scorer: all its words but <s>.

    >>> import pyarrow as pa
    >>> scorer = ModelScorer(LanguageModel.from_counts(pa.array(["red fish", "blue fish"]), [3, 1]))
    >>> scorer.words
    ['</s>', '<unk>', 'blue', 'fish', 'red']
    >>> np.exp(scorer.log_probabilities([["red"], []])).sum(axis=1).round(6).tolist()
    [1.0, 1.0]
    """

    model: LanguageModel

    @property
    def ingredients(self) -> tuple[Ingredient, ...]:
        """Everything published that the model was made from."""
        return self.model.ingredients

    @cached_property
    def words(self) -> list[str]:
        """What the model can predict."""
        return [
            word
            for word in (each.decode() for each in self.model.trie.words.all())
            if word != START
        ]

    def log_probabilities(self, contexts: Sequence[Context]) -> Floats:
        """The logarithms of p of every word after each context."""
        start = self.model.trie.special[0]
        rows = [
            np.delete(self._after(self.model.state_after(context)), start) for context in contexts
        ]
        return np.array(rows, np.float64).reshape(len(contexts), len(self.words))

    def _after(self, state: int) -> Floats:
        """From the shortest context to the longest: back-off weights, then what the context lists itself."""
        trie = self.model.trie
        nodes = [state]
        while nodes[-1]:
            nodes.append(int(trie.suffix[nodes[-1]]))
        logs: Floats = trie.log_probability[trie.nodes(1)].astype(np.float64)
        for node in reversed(nodes[:-1]):
            first, last = trie.first_child[node : node + 2]
            logs += trie.log_backoff[node]
            logs[trie.word[first:last]] = trie.log_probability[first:last]
        logs *= np.log(10)
        return logs


@dataclass(frozen=True, eq=False)
class Events:
    """What a text asks a scorer to predict: contexts, each once, and which word followed which of them."""

    contexts: list[tuple[str, ...]]
    which: Integers  # the context of each prediction, in ascending order
    targets: Integers  # the number of the word that followed


def positions(words: Sequence[str]) -> dict[str, int]:
    """The number of each word of a scorer."""
    found = {word: number for number, word in enumerate(words)}
    if len(found) != len(words) or not found:
        raise UsageError(
            f"words: {len(words)} words, {len(found)} of them distinct; a scorer has each once, and some."
        )
    return found


def events(words: Sequence[str], tokenizer: Tokenizer, texts: str | Iterable[str]) -> Events:
    """The predictions that texts ask for; a word that is not in the list is <unk>, or none where there is no <unk>."""
    numbers = positions(words)
    unknown, end = numbers.get(UNKNOWN), numbers.get(END)
    asked: dict[tuple[str, ...], list[int]] = {}
    for text in [texts] if isinstance(texts, str) else texts:
        for sentence in tokenizer.sentences(text):
            targets = [numbers.get(word, unknown) for word in sentence]
            for at, target in enumerate([*targets, end]):
                if target is not None:
                    asked.setdefault(tuple(sentence[:at]), []).append(target)
    if not asked:
        raise UsageError("texts: no words in them that can be predicted; give some text.")
    which = np.repeat(np.arange(len(asked)), [len(targets) for targets in asked.values()])
    return Events(
        list(asked), which, np.array([each for targets in asked.values() for each in targets])
    )


class Scored(NamedTuple):
    """Some of the predictions that are asked for."""

    contexts: list[tuple[str, ...]]
    logs: Floats  # log p, contexts × words
    rows: Integers  # the context of each prediction
    targets: Integers  # and the word that followed

    @property
    def of_targets(self) -> Floats:
        """What followed, by log p."""
        found: Floats = self.logs[self.rows, self.targets]
        return found


def scored(scorer: Scorer, asked: Events) -> Iterator[Scored]:
    """What a scorer says to each prediction, batch by batch."""
    size = max(1, MOST_CELLS // len(scorer.words))
    for first in range(0, len(asked.contexts), size):
        some = asked.contexts[first : first + size]
        low, high = np.searchsorted(asked.which, [first, first + size])
        yield Scored(
            some, checked_logs(scorer, some), asked.which[low:high] - first, asked.targets[low:high]
        )


def checked_logs(scorer: Scorer, contexts: Sequence[Context]) -> Floats:
    """What a scorer says, if each row is a distribution; then its sum is made exactly one."""
    logs = np.asarray(scorer.log_probabilities(contexts), np.float64)
    if logs.shape != (len(contexts), len(scorer.words)):
        raise BayesgramError(
            f"the scorer gave an array of {logs.shape}; it is contexts × words, {(len(contexts), len(scorer.words))}."
        )
    sums = log_sums(logs)
    if not (np.abs(sums) < TOLERANCE).all():  # also refuses NaN
        worst = float(np.exp(sums[np.argmax(np.where(np.isfinite(sums), np.abs(sums), np.inf))]))
        raise BayesgramError(
            f"the scorer's probabilities add up to {worst:g} after a context, and must to 1: give natural logarithms of"
            " probabilities, not logits."
        )
    normalised: Floats = logs - sums[:, None]
    return normalised


def log_sums(logs: Floats) -> Floats:
    """For each row log Σ exp; −∞ is a probability of 0."""
    if not logs.size:
        return np.zeros(len(logs))
    most = logs.max(axis=1)
    shift = np.where(np.isfinite(most), most, 0.0)
    with np.errstate(
        over="ignore", divide="ignore", invalid="ignore"
    ):  # of a scorer that gives no distribution
        sums: Floats = shift + np.log(np.exp(logs - shift[:, None]).sum(axis=1))
    return sums


def perplexity(scorer: Scorer, tokenizer: Tokenizer, texts: str | Iterable[str]) -> float:
    """Perplexity: e to the mean −log p of all words and sentence ends of texts that the scorer predicts.

    Words that the scorer lacks are <unk> to it; where it has none, they are left out: compare scorers of equal words.
    """
    asked = events(scorer.words, tokenizer, texts)
    total = sum(float(batch.of_targets.sum()) for batch in scored(scorer, asked))
    return float(np.exp(-total / asked.targets.size))


def best_words(scorer: Scorer, context: Context, k: int) -> list[Prediction]:
    """The k likeliest next words; <unk>, <s> and </s> are none. Of equal ones, the first in the list."""
    how_many = check_int("k", k, 1, MOST_PREDICTIONS, "the number of predictions")
    likely = np.exp(checked_logs(scorer, [context])[0])
    shown = np.flatnonzero(_is_word(scorer.words))
    best = shown[np.argsort(-likely[shown], kind="stable")][:how_many]
    return [Prediction(scorer.words[number], float(likely[number])) for number in best.tolist()]


def _is_word(words: Sequence[str]) -> Bools:
    return np.array([word not in {START, END, UNKNOWN} for word in words])
