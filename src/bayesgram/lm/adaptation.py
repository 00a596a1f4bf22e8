"""Adapt a public model, such as a neural network, by a release: nothing is trained, and private text is not needed.

In:  a `Scorer` that never saw private text, a `Release` and its vocabulary, perhaps the language model of the release.
Out: a scorer of the same words.
The words first: p′(w|h) ∝ p(w|h) (θ(w)/π(w))^β, where θ is what the release says of single words and π is public text;
words that the release lacks stay as likely as they were, beside the others. Then n-grams: (1 − λ) p′ + λ q, where q is
the back-off model over the scorer's words. A release is published, so all of this is post-processing, at no privacy
cost; weights tuned on private text would be a disclosure, so `tune` takes public text.

q over the scorer's words: a word that only the scorer has gets a part of q(<unk>|h), in proportion to p(w|h), as <unk>
itself does; words that only q has are <unk> to the scorer. Where there is no <unk> or </s>, q goes without.
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
from bayesgram.lm.interpolation import likeliest_weights
from bayesgram.lm.language_model import LanguageModel, Prediction
from bayesgram.lm.scoring import (
    Context,
    ModelScorer,
    Scorer,
    best_words,
    checked_logs,
    events,
    log_sums,
    perplexity,
    positions,
    scored,
)
from bayesgram.lm.trie import UNKNOWN
from bayesgram.releases.provenance import Ingredient, label_of, unique_ingredients
from bayesgram.releases.release import Fingerprinted, Release, check_vocabulary
from bayesgram.text.ngrams import END
from bayesgram.text.tokenizer import Tokenizer

STRENGTH = 0.85  # β below 1: what is new of a word is partly explained by its context, which p already knows
SHARE = 0.3  # λ: n-grams know phrases that words don't; the network knows the rest of the sentence
MOST_STRENGTH = 2.0
LEAST_RATIO = 1e-4  # of θ/π: a θ of 0 is noise, and has no logarithm
STRENGTHS = np.linspace(0.0, 1.5, 31)  # that `tune` tries


class PublicTable(Fingerprinted, Protocol):
    """Public n-grams and their distribution, order by order: a `Vocabulary` is one."""

    @property
    def ngrams(self) -> pa.LargeStringArray:
        """Tokens joined by one space."""

    @property
    def prior(self) -> Floats:
        """π, of each order by itself: all sources count alike."""

    @property
    def tokenizer(self) -> Tokenizer:
        """How text is cut."""


@dataclass(frozen=True, eq=False)
class WordLifts:
    """log θ/π of the single words of a release, and both of them."""

    words: list[str]
    released: Floats  # θ
    public: Floats  # π

    @classmethod
    def of(cls, release: Release, vocabulary: PublicTable) -> "WordLifts":
        """The words of a release against the vocabulary that it was made with."""
        check_vocabulary(release, vocabulary)
        single = np.flatnonzero(release.orders == 1)
        if not single.size:
            raise UsageError(
                "the release has no single words (order 1), by which a model is moved; release a vocabulary made with"
                " `bayesgram vocab --orders 1,2,3`."
            )
        words = release.ngrams.take(pa.array(single)).to_pylist()
        return cls(words, release.probabilities[single], vocabulary.prior[single])

    @cached_property
    def logs(self) -> Floats:
        """The logarithm of θ/π of each word."""
        ratios: Floats = np.log(np.maximum(self.released / self.public, LEAST_RATIO))
        return ratios

    @property
    def usefulness(self) -> Floats:
        """(θ − π) log θ/π: the part that each word has in how far θ and π are apart, both ways; never negative."""
        parts: Floats = np.abs(self.released - self.public) * np.abs(self.logs)
        return parts

    def over(self, words: Sequence[str]) -> Floats:
        """The lift of each of these words; 0 where the release has none."""
        known = dict(zip(self.words, self.logs.tolist(), strict=True))
        return np.array([known.get(word, 0.0) for word in words])


@dataclass(frozen=True, eq=False)
class Adapted:
    """A scorer moved by a release, made by `adapt`; itself a scorer."""

    scorer: Scorer
    lifts: Floats  # of the scorer's words
    tokenizer: Tokenizer
    model: LanguageModel | None
    strength: float  # β
    share: float  # λ
    ingredients: tuple[
        Ingredient, ...
    ] = ()  # the release, and everything published that was mixed in

    @property
    def label(self) -> str:
        """The weakest label of everything that it was made from."""
        return label_of(self.ingredients)

    @property
    def words(self) -> Sequence[str]:
        """Those of the scorer."""
        return self.scorer.words

    def log_probabilities(self, contexts: Sequence[Context]) -> Floats:
        """The logarithms of p of every word after each context; each row of p adds up to one."""
        plain = checked_logs(self.scorer, contexts)
        moved = _moved(plain, self.strength * self.lifts)
        if self.mixed_in is None or not self.share:
            return moved
        mixed = (1 - self.share) * np.exp(moved) + self.share * self.mixed_in.probabilities(
            contexts, plain
        )
        with np.errstate(divide="ignore"):  # 0 stays 0
            return np.log(mixed)

    @cached_property
    def mixed_in(self) -> "_Ngrams | None":
        """The model over the scorer's words."""
        return None if self.model is None else _Ngrams.of(self.model, self.scorer.words)

    def perplexity(self, texts: str | Iterable[str]) -> float:
        """Perplexity: e to the mean −log p of all words and sentence ends of these texts that are predicted."""
        return perplexity(self, self.tokenizer, texts)

    def predict(self, context: str | Context, k: int = 5) -> list[Prediction]:
        """The k likeliest next words after the last, unfinished sentence of a text, or after a list of words."""
        words = self.tokenizer.split_finished(context)[-1] if isinstance(context, str) else context
        return best_words(self, words, k)


@check_arguments
def adapt(
    scorer: Scorer,
    release: Release,
    vocabulary: PublicTable,
    *,
    model: LanguageModel | None = None,
    strength: float = STRENGTH,
    share: float = SHARE,
) -> Adapted:
    """A public scorer, moved by the words of a release; with `model`, that of the release, mixed in.

    `strength` (β) is how far words are moved: 0 is not at all, 1 by all of θ/π. `share` (λ) is the part of the n-gram
    model. The defaults are round numbers from experiments with public posts. Never choose weights by private text, such
    as messages that were held out: what is chosen then tells of it, outside the guarantee. `tune` takes public text.

    >>> import bayesgram as bg
    >>> text = pa.table({"text": ["the red fish swims", "the blue fish sleeps"]})
    >>> vocabulary = bg.Vocabulary.from_public(text, order=[1, 2], size=100)
    >>> private = pa.table({"user": list(range(2000)), "text": ["the blue fish swims"] * 2000})
    >>> release = bg.release(bg.count(private, vocabulary), vocabulary, bg.Posterior(), bg.Budget(1.0, 1e-7))
    >>> class Uniform:
    ...     words = ["red", "blue", "fish", "<unk>"]
    ...     def log_probabilities(self, contexts):
    ...         return np.full((len(contexts), 4), np.log(1 / 4))
    >>> adapted = adapt(Uniform(), release, vocabulary)
    >>> [each.word for each in adapted.predict("the")]
    ['blue', 'fish', 'red']
    """
    if not 0 <= strength <= MOST_STRENGTH:  # also refuses NaN
        raise UsageError.for_argument(
            "strength", strength, f"how far words are moved is from 0 to {MOST_STRENGTH:g}."
        )
    if not 0 <= share <= 1:
        raise UsageError.for_argument(
            "share", share, "the part of the n-gram model is from 0 to 1."
        )
    lifts, tokenizer = WordLifts.of(release, vocabulary).over(scorer.words), vocabulary.tokenizer
    positions(scorer.words)
    if model is not None and replace(model.tokenizer, boundaries=tokenizer.boundaries) != tokenizer:
        raise UsageError(
            f"model: it cuts text as {model.tokenizer.name!r}, the release as {tokenizer.name!r}; give the model of"
            " the same release."
        )
    mixed_in = () if model is None else model.ingredients
    scored_by: tuple[Ingredient, ...] = getattr(
        scorer, "ingredients", ()
    )  # an adapted model, or one of ours
    ingredients = unique_ingredients([*release.provenance().ingredients, *mixed_in, *scored_by])
    return Adapted(scorer, lifts, tokenizer, model, float(strength), float(share), ingredients)


@check_arguments
def tune(adapted: Adapted, texts: str | Iterable[str]) -> Adapted:
    """The same with the β and λ under which public texts are likeliest; the scorer is asked once for each context.

    The texts are public, and like what people write: on text like that which the scorer learnt from, there is nothing
    to adapt to, and β = 0 comes out. Never give private text: what comes out would tell of it.

    For every β of a grid, λ by EM; without an n-gram model λ stays as it is.
    """
    factors = np.exp(np.outer(adapted.lifts, STRENGTHS))
    moved, ngrams = [], []
    for batch in scored(adapted.scorer, events(adapted.words, adapted.tokenizer, texts)):
        totals = np.exp(batch.logs) @ factors  # Z_β(h), of all β at once
        moved.append(
            np.exp(batch.of_targets)[:, None] * factors[batch.targets] / totals[batch.rows]
        )
        if adapted.mixed_in is not None:
            expected = adapted.mixed_in.probabilities(batch.contexts, batch.logs)
            ngrams.append(expected[batch.rows, batch.targets])
    strength, share = _likeliest(np.concatenate(moved), np.concatenate(ngrams) if ngrams else None)
    return replace(adapted, strength=strength, share=adapted.share if share is None else share)


def _likeliest(moved: Floats, ngrams: Floats | None) -> tuple[float, float | None]:
    """The best β and λ for p of every prediction: after each move (a column for each β), and by n-grams."""
    if ngrams is None:
        with np.errstate(
            divide="ignore"
        ):  # something that the scorer holds impossible is so at every β
            return float(STRENGTHS[np.argmax(np.log(moved).mean(axis=0))]), None
    found = []
    for strength, column in zip(STRENGTHS.tolist(), moved.T, strict=True):
        both = np.stack([column, ngrams], axis=1)
        weights = likeliest_weights(both)
        found.append((float(np.log(both @ weights).mean()), strength, float(weights[1])))
    _, strength, share = max(found)
    return strength, share


def _moved(logs: Floats, lifts: Floats) -> Floats:
    """p′ ∝ p exp(lift), normalised after each context."""
    lifted = logs + lifts
    moved: Floats = lifted - log_sums(lifted)[:, None]
    return moved


@dataclass(frozen=True, eq=False)
class _Ngrams:
    """q: the released model over the scorer's words; see the module."""

    scorer: ModelScorer
    own: Integers  # the model's number of each of the scorer's words; −1 where it lacks the word, and of <unk>
    others: Integers  # the model's numbers of words that the scorer lacks
    model_unknown: int
    unknown: int | None  # <unk> of the scorer

    @classmethod
    def of(cls, model: LanguageModel, words: Sequence[str]) -> "_Ngrams":
        """How the words of both are matched."""
        scorer = ModelScorer(model)
        theirs = positions(scorer.words)
        wanted = [-1 if word == UNKNOWN else theirs.get(word, -1) for word in words]
        lacked = set(theirs) - set(words) - {UNKNOWN, END}
        others = np.array(sorted(theirs[word] for word in lacked), np.int64)
        unknown = positions(words).get(UNKNOWN)
        return cls(scorer, np.array(wanted, np.int64), others, theirs[UNKNOWN], unknown)

    def probabilities(self, contexts: Sequence[Context], plain: Floats) -> Floats:
        """What q says of the scorer's words after each context; `plain` are the scorer's own log p."""
        likely = np.exp(self.scorer.log_probabilities(contexts))
        lacking = self.own < 0
        found = np.where(lacking, 0.0, likely[:, self.own])
        parts = np.exp(plain[:, lacking])
        totals = parts.sum(axis=1, keepdims=True)
        np.divide(parts, totals, out=parts, where=totals > 0)
        found[:, lacking] = likely[:, self.model_unknown, None] * parts
        if self.unknown is not None:
            found[:, self.unknown] += likely[:, self.others].sum(axis=1)
        whole: Floats = found / found.sum(axis=1, keepdims=True)
        return whole
