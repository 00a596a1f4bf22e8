"""Adapt a public model, such as a neural network, by a release: nothing is trained.

In go a `Scorer` that never saw private text, a `Release` and its vocabulary, perhaps the language
model of the release; out comes a scorer of the same words. Private text is not needed.

The words come first: p′(w|h) ∝ p(w|h) (θ(w)/π(w))^β, where θ is what the release says of single
words and π is public text; words that the release lacks stay as likely as they were, beside the
others. Then n-grams: (1 − λ) p′ + λ q, where q is the backoff model over the scorer's words. A
release is published, so all of this is post-processing, at no privacy cost; weights tuned on
private text would be a disclosure, so `fit_adaptation` takes public text.

q over the scorer's words: a word that only the scorer has gets a part of q(<unk>|h), in proportion
to p(w|h), as <unk> itself does; words that only q has are <unk> to the scorer. Where there is no
<unk> or </s>, q goes without.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa

from bayesgram.arguments import check_arguments
from bayesgram.arrays import Floats, Integers
from bayesgram.errors import UsageError
from bayesgram.lm.interpolation import maximise_likelihood
from bayesgram.lm.language_model import LanguageModel, Prediction
from bayesgram.lm.scoring import (
    Context,
    ModelScorer,
    Scorer,
    extract_events,
    index_words,
    log_sums,
    perplexity,
    predict_words,
    score_contexts,
    score_events,
)
from bayesgram.lm.trie import UNKNOWN
from bayesgram.releases.provenance import Ingredient, combined_label, unique_ingredients
from bayesgram.releases.release import Release, VocabularyIdentity, check_vocabulary
from bayesgram.text.ngrams import END
from bayesgram.text.tokenizer import Tokenizer

# The defaults are round numbers from experiments with public posts (benchmarks/adapted.py).
# β is below 1: what is new of a word is partly explained by its context, which p already knows.
DEFAULT_STRENGTH = 0.85
# λ: n-grams know phrases that words don't; the network knows the rest of the sentence.
DEFAULT_SHARE = 0.3
MAX_STRENGTH = 2.0
MIN_RATIO = 1e-4  # of θ/π: a θ of 0 is noise, and has no logarithm; not measured
FITTED_STRENGTHS = np.linspace(0.0, 1.5, 31)  # β that `fit_adaptation` tries; chosen by hand


class PublicTable(VocabularyIdentity, Protocol):
    """Public n-grams and their distribution, order by order: a `Vocabulary` is one."""

    @property
    def ngrams(self) -> pa.LargeStringArray:
        """The n-grams, tokens joined by one space."""

    @property
    def prior(self) -> Floats:
        """π, of each order by itself: all sources count alike."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that cut the text."""


@dataclass(frozen=True, eq=False)
class WordLifts:
    """The single words of a release, with θ and π of each.

    >>> lifts = WordLifts(["red", "blue"], np.array([0.2, 0.8]), np.array([0.4, 0.6]))
    >>> lifts.for_words(["blue", "green"]).round(2).tolist()
    [0.29, 0.0]
    """

    words: list[str]
    released: Floats  # θ
    public: Floats  # π

    @classmethod
    def from_release(cls, release: Release, vocabulary: PublicTable) -> "WordLifts":
        """Return the words of a release against the vocabulary that it was made with.

        Raises:
            UsageError: If the release has another vocabulary, or no single words.
        """
        check_vocabulary(release, vocabulary)
        single = np.flatnonzero(release.orders == 1)
        if not single.size:
            raise UsageError(
                "the release has no single words (order 1), by which a model is moved;"
                " release a vocabulary made with `bayesgram vocab --orders 1,2,3`."
            )
        words = release.ngrams.take(pa.array(single)).to_pylist()
        return cls(words, release.probabilities[single], vocabulary.prior[single])

    @cached_property
    def logs(self) -> Floats:
        """The lift of each word: log θ/π."""
        lifts: Floats = np.log(np.maximum(self.released / self.public, MIN_RATIO))
        return lifts

    @property
    def usefulness(self) -> Floats:
        """(θ − π) log θ/π: each word's part in how far θ and π are apart; never negative."""
        parts: Floats = np.abs(self.released - self.public) * np.abs(self.logs)
        return parts

    def for_words(self, words: Sequence[str]) -> Floats:
        """Return the lift of each of these words; 0 where the release lacks the word."""
        lifts = dict(zip(self.words, self.logs.tolist(), strict=True))
        return np.array([lifts.get(word, 0.0) for word in words])


@dataclass(frozen=True, eq=False)
class AdaptedModel:
    """A scorer adapted by a release, made by `adapt`; itself a scorer.

    >>> class Uniform:
    ...     words = ["red", "blue"]
    ...     def log_probabilities(self, contexts):
    ...         return np.full((len(contexts), 2), np.log(1 / 2))
    >>> lifts = np.log([0.5, 1.5])
    >>> adapted = AdaptedModel(Uniform(), lifts, Tokenizer(), None, strength=1.0, share=0.0)
    >>> [(word, round(p, 2)) for word, p in adapted.predict("the")]
    [('blue', 0.75), ('red', 0.25)]
    """

    scorer: Scorer
    lifts: Floats  # of the scorer's words
    tokenizer: Tokenizer
    model: LanguageModel | None  # the n-gram model that is mixed in
    strength: float  # β
    share: float  # λ
    ingredients: tuple[Ingredient, ...] = ()  # the release, and everything published in the models

    @property
    def label(self) -> str:
        """The weakest label of everything that it was made from."""
        return combined_label(self.ingredients)

    @property
    def words(self) -> Sequence[str]:
        """The words that the scorer predicts."""
        return self.scorer.words

    def log_probabilities(self, contexts: Sequence[Context]) -> Floats:
        """Return log p of every word after each context; each row of p adds up to one."""
        scorer_logs = score_contexts(self.scorer, contexts)
        lifted = _apply_lifts(scorer_logs, self.strength * self.lifts)
        if self.ngram_mixin is None or not self.share:
            return lifted
        ngram_probabilities = self.ngram_mixin.probabilities(contexts, scorer_logs)
        mixed = (1 - self.share) * np.exp(lifted) + self.share * ngram_probabilities
        with np.errstate(divide="ignore"):  # 0 stays 0
            return np.log(mixed)

    @cached_property
    def ngram_mixin(self) -> "_NgramMixin | None":
        """The n-gram model over the scorer's words."""
        if self.model is None:
            return None
        return _NgramMixin.from_model(self.model, self.scorer.words)

    def perplexity(self, texts: str | Iterable[str]) -> float:
        """Return e to the mean −log p of what is predicted of texts: words and sentence ends."""
        return perplexity(self, self.tokenizer, texts)

    def predict(self, context: str | Context, k: int = 5) -> list[Prediction]:
        """Return the k likeliest next words.

        Args:
            context: A text, of which the last sentence is unfinished, or a list of words.
            k: How many words.
        """
        words = self.tokenizer.split_finished(context)[-1] if isinstance(context, str) else context
        return predict_words(self, words, k)


@check_arguments
def adapt(
    scorer: Scorer,
    release: Release,
    vocabulary: PublicTable,
    *,
    model: LanguageModel | None = None,
    strength: float = DEFAULT_STRENGTH,
    share: float = DEFAULT_SHARE,
) -> AdaptedModel:
    """Adapt a public scorer to the people of a release, at no privacy cost.

    The defaults are round numbers from experiments with public posts. Never choose weights by
    private text, such as messages that were held out: what is chosen then tells of it, outside the
    guarantee. `fit_adaptation` takes public text.

    Args:
        scorer: A model that never saw private text.
        release: The release.
        vocabulary: The vocabulary that the release was made with.
        model: The language model of the release, which is mixed in.
        strength: β, how far words are moved: 0 is not at all, 1 by all of θ/π.
        share: λ, the part of the n-gram model.

    >>> import bayesgram as bg
    >>> text = pa.table({"text": ["the red fish swims", "the blue fish sleeps"]})
    >>> vocabulary = bg.Vocabulary.from_public(text, order=[1, 2], size=100)
    >>> private = pa.table({"user": list(range(2000)), "text": ["the blue fish swims"] * 2000})
    >>> counts = bg.count(private, vocabulary)
    >>> release = bg.release(counts, vocabulary, epsilon=1, delta=1e-7)
    >>> class Uniform:
    ...     words = ["red", "blue", "fish", "<unk>"]
    ...     def log_probabilities(self, contexts):
    ...         return np.full((len(contexts), 4), np.log(1 / 4))
    >>> adapted = adapt(Uniform(), release, vocabulary)
    >>> [prediction.word for prediction in adapted.predict("the")]
    ['blue', 'fish', 'red']
    """
    if not 0 <= strength <= MAX_STRENGTH:  # also refuses NaN
        raise UsageError.for_argument(
            "strength", strength, f"how far words are moved is from 0 to {MAX_STRENGTH:g}."
        )
    if not 0 <= share <= 1:
        raise UsageError.for_argument(
            "share", share, "the part of the n-gram model is from 0 to 1."
        )
    lifts = WordLifts.from_release(release, vocabulary).for_words(scorer.words)
    tokenizer = vocabulary.tokenizer
    index_words(scorer.words)  # refuses a list that has a word twice
    if model is not None and replace(model.tokenizer, boundaries=tokenizer.boundaries) != tokenizer:
        raise UsageError(
            f"model: it cuts text as {model.tokenizer.name!r}, the release as"
            f" {tokenizer.name!r}; give the model of the same release."
        )
    mixed_in = () if model is None else model.ingredients
    # The scorer may be an adapted model, or one of ours.
    scored_by: tuple[Ingredient, ...] = getattr(scorer, "ingredients", ())
    ingredients = unique_ingredients([*release.provenance().ingredients, *mixed_in, *scored_by])
    return AdaptedModel(scorer, lifts, tokenizer, model, float(strength), float(share), ingredients)


@check_arguments
def fit_adaptation(adapted: AdaptedModel, texts: str | Iterable[str]) -> AdaptedModel:
    """Return the model with the β and λ under which public texts are likeliest.

    For every β of a grid, λ is found by EM; without an n-gram model λ stays as it is. The scorer is
    asked once for each context.

    Args:
        adapted: The adapted model.
        texts: Public texts, like what people write: on text like that which the scorer learnt from,
            there is nothing to adapt to, and β = 0 comes out. Never give private text: what comes
            out would tell of it.

    >>> class Uniform:
    ...     words = ["red", "blue"]
    ...     def log_probabilities(self, contexts):
    ...         return np.full((len(contexts), 2), np.log(1 / 2))
    >>> lifts = np.log([0.5, 1.5])
    >>> adapted = AdaptedModel(Uniform(), lifts, Tokenizer(), None, strength=0.5, share=0.0)
    >>> fit_adaptation(adapted, "blue blue blue red").strength
    1.0
    """
    factors = np.exp(np.outer(adapted.lifts, FITTED_STRENGTHS))
    lifted = []
    ngrams = []
    events = extract_events(adapted.words, adapted.tokenizer, texts)
    for batch in score_events(adapted.scorer, events):
        totals = np.exp(batch.logs) @ factors  # Z_β(h), of all β at once
        target_probabilities = np.exp(batch.target_logs)[:, None]
        lifted.append(target_probabilities * factors[batch.targets] / totals[batch.rows])
        if adapted.ngram_mixin is not None:
            expected = adapted.ngram_mixin.probabilities(batch.contexts, batch.logs)
            ngrams.append(expected[batch.rows, batch.targets])
    ngram_probabilities = np.concatenate(ngrams) if ngrams else None
    strength, share = _find_likeliest(np.concatenate(lifted), ngram_probabilities)
    return replace(adapted, strength=strength, share=adapted.share if share is None else share)


def _find_likeliest(lifted: Floats, ngrams: Floats | None) -> tuple[float, float | None]:
    """Return the best β and λ.

    Args:
        lifted: p of every prediction by the lifted scorer, a column for each β.
        ngrams: p of every prediction by n-grams, if there are some.
    """
    if ngrams is None:
        # Something that the scorer holds impossible is so at every β.
        with np.errstate(divide="ignore"):
            return float(FITTED_STRENGTHS[np.argmax(np.log(lifted).mean(axis=0))]), None
    candidates = []
    for strength, column in zip(FITTED_STRENGTHS.tolist(), lifted.T, strict=True):
        likelihoods = np.stack([column, ngrams], axis=1)
        weights = maximise_likelihood(likelihoods)
        mean_log = float(np.log(likelihoods @ weights).mean())
        candidates.append((mean_log, strength, float(weights[1])))
    _, strength, share = max(candidates)
    return strength, share


def _apply_lifts(logs: Floats, lifts: Floats) -> Floats:
    """Return log p′ with p′ ∝ p exp(lift), normalised after each context."""
    lifted = logs + lifts
    normalised: Floats = lifted - log_sums(lifted)[:, None]
    return normalised


@dataclass(frozen=True, eq=False)
class _NgramMixin:
    """q: the released n-gram model over the scorer's words; see the module."""

    scorer: ModelScorer
    # The model's index of each of the scorer's words; −1 if the model lacks it, and for <unk>.
    model_index: Integers
    model_only: Integers  # the model's indices of words that the scorer lacks
    model_unknown: int  # <unk> of the model
    unknown: int | None  # <unk> of the scorer

    @classmethod
    def from_model(cls, model: LanguageModel, words: Sequence[str]) -> "_NgramMixin":
        """Match the words of a model and of a scorer."""
        scorer = ModelScorer(model)
        model_words = index_words(scorer.words)
        index = [-1 if word == UNKNOWN else model_words.get(word, -1) for word in words]
        lacked = set(model_words) - set(words) - {UNKNOWN, END}
        return cls(
            scorer=scorer,
            model_index=np.array(index, np.int64),
            model_only=np.array(sorted(model_words[word] for word in lacked), np.int64),
            model_unknown=model_words[UNKNOWN],
            unknown=index_words(words).get(UNKNOWN),
        )

    def probabilities(self, contexts: Sequence[Context], scorer_logs: Floats) -> Floats:
        """Return q of the scorer's words after contexts, of which `scorer_logs` are the log p."""
        model_probabilities = np.exp(self.scorer.log_probabilities(contexts))
        is_lacking = self.model_index < 0
        q = np.where(is_lacking, 0.0, model_probabilities[:, self.model_index])
        parts = np.exp(scorer_logs[:, is_lacking])
        totals = parts.sum(axis=1, keepdims=True)
        np.divide(parts, totals, out=parts, where=totals > 0)
        q[:, is_lacking] = model_probabilities[:, self.model_unknown, None] * parts
        if self.unknown is not None:
            q[:, self.unknown] += model_probabilities[:, self.model_only].sum(axis=1)
        normalised: Floats = q / q.sum(axis=1, keepdims=True)
        return normalised
