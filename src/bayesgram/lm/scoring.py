"""Scorers: anything that gives probabilities of the next word, and what can be asked of it.

A `Scorer` is a list of words, and log p of each of them after a context. A context is the words of
a sentence so far; every sentence begins afresh. The list may have <unk>, which stands for all words
that are not in it, and </s>, the end of a sentence; what it lacks is not predicted. Nothing is
trained here.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from bayesgram.arrays import Bools, Floats, Integers
from bayesgram.errors import BayesgramError, UsageError, check_int
from bayesgram.lm.language_model import MAX_PREDICTIONS, LanguageModel, Prediction
from bayesgram.lm.trie import UNKNOWN
from bayesgram.releases.provenance import Ingredient
from bayesgram.text.ngrams import END, START
from bayesgram.text.tokenizer import Tokenizer

MAX_CELLS = 1 << 24  # of an array contexts × words: 128 MB. Chosen by hand.
# How far log Σ p may be from 0: 32-bit scorers of many words stay well below. Chosen by hand.
SUM_TOLERANCE = 1e-3

Context = Sequence[str]


class Scorer(Protocol):
    """A language model of any kind: words, and their probabilities after a context.

    Any class with these two members is one:

    >>> class Uniform:
    ...     words = ["red", "blue", "</s>"]
    ...     def log_probabilities(self, contexts):
    ...         return np.full((len(contexts), 3), np.log(1 / 3))
    >>> round(perplexity(Uniform(), Tokenizer(), "red blue"), 6)
    3.0
    """

    @property
    def words(self) -> Sequence[str]:
        """What is predicted, each once; perhaps with <unk> and </s>."""

    def log_probabilities(self, contexts: Sequence[Context]) -> Floats:
        """Return natural logarithms of p, contexts × words; each row is a distribution."""


@dataclass(frozen=True, eq=False)
class ModelScorer:
    """A backoff model as a scorer: all its words but <s>.

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
        """The words that the model can predict: all but <s>."""
        words = [word.decode() for word in self.model.trie.words.to_list()]
        return [word for word in words if word != START]

    def log_probabilities(self, contexts: Sequence[Context]) -> Floats:
        """Return the logarithms of p of every word after each context."""
        start = self.model.trie.special.start
        rows = [
            np.delete(self._log_probabilities_after(self.model.find_state(context)), start)
            for context in contexts
        ]
        return np.array(rows, np.float64).reshape(len(contexts), len(self.words))

    def _log_probabilities_after(self, state: int) -> Floats:
        """From the shortest context to the longest: backoff weights, then what it lists itself."""
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


# --- What a text asks a scorer to predict ---


@dataclass(frozen=True, eq=False)
class PredictionEvents:
    """The predictions that texts ask for: contexts, each once, and the words that followed them."""

    contexts: list[tuple[str, ...]]
    context_index: Integers  # the context of each prediction, in ascending order
    targets: Integers  # the index of the word that followed


def index_words(words: Sequence[str]) -> dict[str, int]:
    """Return the index of each word of a scorer.

    Raises:
        UsageError: If a word comes twice, or there is none.
    """
    index = {word: at for at, word in enumerate(words)}
    if len(index) != len(words) or not index:
        raise UsageError(
            f"words: {len(words)} words, {len(index)} of them distinct;"
            " a scorer has each once, and some."
        )
    return index


def extract_events(
    words: Sequence[str], tokenizer: Tokenizer, texts: str | Iterable[str]
) -> PredictionEvents:
    """Return the predictions that texts ask for.

    Args:
        words: The words of a scorer. One that is not among them is <unk>, or is not predicted where
            there is no <unk>.
        tokenizer: How texts are cut.
        texts: The texts.

    Raises:
        UsageError: If there is nothing to predict.
    """
    index = index_words(words)
    unknown = index.get(UNKNOWN)
    end = index.get(END)
    targets_by_context: dict[tuple[str, ...], list[int]] = {}
    for text in [texts] if isinstance(texts, str) else texts:
        for sentence in tokenizer.sentences(text):
            sentence_targets = [index.get(word, unknown) for word in sentence]
            for at, target in enumerate([*sentence_targets, end]):
                if target is not None:
                    targets_by_context.setdefault(tuple(sentence[:at]), []).append(target)
    if not targets_by_context:
        raise UsageError("texts: no words in them that can be predicted; give some text.")
    sizes = [len(targets) for targets in targets_by_context.values()]
    all_targets = [target for targets in targets_by_context.values() for target in targets]
    return PredictionEvents(
        contexts=list(targets_by_context),
        context_index=np.repeat(np.arange(len(sizes)), sizes),
        targets=np.array(all_targets),
    )


class ScoredBatch(NamedTuple):
    """A batch of predictions with the log-probabilities of all words after their contexts."""

    contexts: list[tuple[str, ...]]
    logs: Floats  # log p, contexts × words
    rows: Integers  # the context of each prediction
    targets: Integers  # and the word that followed

    @property
    def target_logs(self) -> Floats:
        """The log-probability of the word that followed, for each prediction."""
        logs: Floats = self.logs[self.rows, self.targets]
        return logs


def score_events(scorer: Scorer, events: PredictionEvents) -> Iterator[ScoredBatch]:
    """Score all predictions, batch by batch."""
    batch_size = max(1, MAX_CELLS // len(scorer.words))
    for first in range(0, len(events.contexts), batch_size):
        contexts = events.contexts[first : first + batch_size]
        low, high = np.searchsorted(events.context_index, [first, first + batch_size])
        yield ScoredBatch(
            contexts=contexts,
            logs=score_contexts(scorer, contexts),
            rows=events.context_index[low:high] - first,
            targets=events.targets[low:high],
        )


def score_contexts(scorer: Scorer, contexts: Sequence[Context]) -> Floats:
    """Return a scorer's log p after contexts, checked and normalised to add up to one.

    Raises:
        BayesgramError: If the array has another shape, or rows are no distributions.
    """
    logs = np.asarray(scorer.log_probabilities(contexts), np.float64)
    shape = (len(contexts), len(scorer.words))
    if logs.shape != shape:
        raise BayesgramError(
            f"the scorer gave an array of {logs.shape}; it is contexts × words, {shape}."
        )
    sums = log_sums(logs)
    if not (np.abs(sums) < SUM_TOLERANCE).all():  # also refuses NaN
        worst = float(np.exp(sums[np.argmax(np.where(np.isfinite(sums), np.abs(sums), np.inf))]))
        raise BayesgramError(
            f"the scorer's probabilities add up to {worst:g} after a context, and must to 1:"
            " give natural logarithms of probabilities, not logits."
        )
    normalised: Floats = logs - sums[:, None]
    return normalised


def log_sums(logs: Floats) -> Floats:
    """Return log Σ exp of each row; −∞ is a probability of 0."""
    if not logs.size:
        return np.zeros(len(logs))
    largest = logs.max(axis=1)
    shift = np.where(np.isfinite(largest), largest, 0.0)
    # A scorer may give no distribution, which is refused later.
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        sums: Floats = shift + np.log(np.exp(logs - shift[:, None]).sum(axis=1))
    return sums


# --- Perplexity and next words ---


def perplexity(scorer: Scorer, tokenizer: Tokenizer, texts: str | Iterable[str]) -> float:
    """Return e to the mean −log p of all words and sentence ends of texts that a scorer predicts.

    Words that the scorer lacks are <unk> to it; where it has no <unk>, they are left out: compare
    scorers of equal words.

    Args:
        scorer: The scorer.
        tokenizer: How texts are cut.
        texts: One text, or several.
    """
    events = extract_events(scorer.words, tokenizer, texts)
    total = sum(float(batch.target_logs.sum()) for batch in score_events(scorer, events))
    return float(np.exp(-total / events.targets.size))


def predict_words(scorer: Scorer, context: Context, k: int) -> list[Prediction]:
    """Return the k likeliest next words; <unk>, <s> and </s> are none.

    Of equal ones, the first in the list of words.

    Args:
        scorer: The scorer.
        context: The words of the sentence so far.
        k: How many words.
    """
    k = check_int("k", k, 1, MAX_PREDICTIONS, "the number of predictions")
    probabilities = np.exp(score_contexts(scorer, [context])[0])
    candidates = np.flatnonzero(_is_word(scorer.words))
    best = candidates[np.argsort(-probabilities[candidates], kind="stable")][:k]
    return [Prediction(scorer.words[at], float(probabilities[at])) for at in best.tolist()]


def _is_word(words: Sequence[str]) -> Bools:
    return np.array([word not in {START, END, UNKNOWN} for word in words])
