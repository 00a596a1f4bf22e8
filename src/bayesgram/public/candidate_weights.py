"""The weights by which a discovery looks at people's own n-grams.

In: a public language model, and the n-grams that are listed already. Out: log weights of the
windows of a text. q(g) is the model's probability of the window's words one after the other. A word
that the model lacks is <unk> times its spelling, by a model of the letters of public words: what
looks like a word is likelier than a password. No private text is read here: it is handed token ids,
and spells words that it is given.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arrays import Bools, Floats, Ids, Integers
from bayesgram.choices import TokenizerKind
from bayesgram.io import Records
from bayesgram.io.atomic import spill_folder
from bayesgram.kernels import kernel, signed
from bayesgram.lm.kneser_ney import estimate_kneser_ney
from bayesgram.lm.language_model import LanguageModel
from bayesgram.lm.packed import PackedTrie, first_child_at, log_backoff_at, log_probability_at
from bayesgram.lm.search import find
from bayesgram.lm.trie import UNKNOWN
from bayesgram.public.public_model import count_ngrams
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.ngram_tables import WindowIndex, token_bits
from bayesgram.text.ngrams import END, START, distinct_orders, ngram_orders
from bayesgram.text.strings import EMPTY, StringTable
from bayesgram.text.tokenizer import Tokenizer, buffers, chunks

# The weight of a candidate is min(1, (q/LIKELY)^EXPONENT) + e^(−UNLIKELY of its order): likely ones all weigh alike,
# and so do those that public text says nothing of.
LIKELY_LOG_PROBABILITY, WEIGHT_EXPONENT = -9.0, 0.45  # log q, and the power
UNSEEN_LOG_PENALTY = {1: 3.0, 2: 4.0, 3: 7.0}  # longer ones: as the longest here
SPELLING_ORDER = 4  # order of the model of letters
LOG_10 = float(np.log(10))
BATCH_TOKENS = 1 << 15  # tokens whose windows are weighed together, in the processor's cache


@dataclass(frozen=True, eq=False)
class SpellingModel:
    """How likely the letters of a word are, one after the other: Kneser–Ney of public words, each once."""

    model: LanguageModel

    @classmethod
    def from_words(cls, words: pa.LargeBinaryArray) -> "SpellingModel":
        """Learnt from these words."""
        tokenizer = Tokenizer(TokenizerKind.CHARACTERS, lowercase=False, boundaries=True)
        letters = StringTable()
        for chunk in chunks(words):
            data, offsets, _ = tokenizer.tokenize(chunk)
            letters.add(data, offsets)
        marks = pa.array([START.encode(), END.encode(), UNKNOWN.encode()], pa.large_binary())
        known = pa.concat_arrays([letters.strings(), marks])
        known = known.take(pc.sort_indices(known))
        records = Records(words, None, "public words", 1)
        with spill_folder() as scratch:
            counts = count_ngrams(
                [records], known, order=SPELLING_ORDER, tokenizer=tokenizer, scratch=scratch
            )
            return cls(LanguageModel(estimate_kneser_ney(counts), tokenizer))

    def log_probabilities(self, words: pa.LargeBinaryArray) -> Floats:
        """Log p of each word's letters and of its end."""
        found = [np.zeros(0)]
        for chunk in chunks(words):
            data, offsets, ends = self.model.tokenizer.tokenize(chunk)
            scores = self.model.trie.score(self.model.encode_tokens(data, offsets))[0]
            found.append(segment_sums(scores, ends) * LOG_10)
        return np.concatenate(found)


@dataclass(frozen=True, eq=False)
class PublicTextModel:
    """What public text says of any n-gram: which are listed, and how likely the others are."""

    vocabulary: Vocabulary
    model: LanguageModel
    spelling_model: SpellingModel | None = None  # None: made of the model's words when needed

    @classmethod
    def from_vocabulary(
        cls, vocabulary: Vocabulary, model: LanguageModel | None = None
    ) -> "PublicTextModel":
        """With a language model of the same words, or one that is made of the vocabulary's counts.

        What the model was made from weakens whatever is found with it, so the vocabulary remembers that, too.
        """
        if model is not None:
            return cls(vocabulary.with_provenance(model.provenance), model)
        counts = vocabulary.counts + 1.0
        return cls(
            vocabulary, LanguageModel.from_counts(vocabulary.ngrams, counts, vocabulary.tokenizer)
        )

    def new_token_table(self) -> StringTable:
        """Numbers for tokens: first the model's words, in its order, then the vocabulary's."""
        tokens = StringTable()
        tokens.add(*buffers(self._tokens))
        return tokens

    def candidate_weigher(self, tokens: StringTable, orders: Sequence[int]) -> "CandidateWeigher":
        """Weights of windows of these tokens, which are all there are."""
        return CandidateWeigher(
            orders, self._likelihood(tokens), [self._index(order, len(tokens)) for order in orders]
        )

    def log_probabilities(self, ngrams: pa.LargeStringArray) -> Floats:
        """Log q of any n-grams."""
        tokens, orders = self.new_token_table(), ngram_orders(ngrams)
        numbers = tokens.add(*buffers(_tokens_of(ngrams)))
        stream = np.insert(numbers, np.cumsum(orders), EMPTY)
        ends = np.cumsum(orders + 1) - 2
        steps, found = (
            self._likelihood(tokens).conditional_log_probabilities(
                stream, int(orders.max(initial=1))
            ),
            np.zeros(len(ngrams)),
        )
        for order in distinct_orders(orders):
            found[orders == order] = window_log_probabilities(steps, order)[ends[orders == order]]
        return found

    def to_broadcast(self) -> "PublicTextModel":
        """Return the same without what workers can make for themselves.

        The spelling model goes with it: it is small, and slow to make.
        """
        listed = self.vocabulary
        vocabulary = Vocabulary(listed.ngrams, listed.counts, listed.order, listed.tokenizer)
        return PublicTextModel(vocabulary, self.model, self.spelling)

    @cached_property
    def spelling(self) -> SpellingModel:
        """How likely the letters of the model's words are."""
        if self.spelling_model is not None:
            return self.spelling_model
        words = pa.array(self.model.trie.words.to_list(), pa.large_binary())
        return SpellingModel.from_words(
            words.filter(pa.array(~np.isin(np.arange(len(words)), self.model.trie.special)))
        )

    @cached_property
    def _tokens(self) -> pa.LargeBinaryArray:
        """All that have a number before any text is read."""
        tokens = StringTable()
        tokens.add(*buffers(pa.array(self.model.trie.words.to_list(), pa.large_binary())))
        tokens.add(*buffers(self.vocabulary.tokens.cast(pa.large_binary())))
        return tokens.strings()

    @cached_property
    def _indices(self) -> dict[tuple[int, int], WindowIndex]:
        """The vocabulary's n-grams of an order, by how wide the numbers of tokens are; as far as asked for."""
        return {}

    def _index(self, order: int, tokens: int) -> WindowIndex:
        """The vocabulary's n-grams of an order."""
        kind = order, token_bits(tokens)
        if kind not in self._indices:
            rows = pa.array(np.flatnonzero(ngram_orders(self.vocabulary.ngrams) == order))
            ngrams = self.vocabulary.ngrams.take(rows)
            if (
                order == 1 and self.vocabulary.tokenizer.boundaries
            ):  # everybody has them, and <s> is in no list
                ngrams = pa.concat_arrays([ngrams, pa.array([START, END], ngrams.type)])
            ids = self.new_token_table().find(*buffers(_tokens_of(ngrams))).reshape(-1, order)
            self._indices[kind] = WindowIndex(
                ids, np.arange(len(ids), dtype=np.int32), tokens=tokens
            )
        return self._indices[kind]

    def _likelihood(self, tokens: StringTable) -> "TokenLikelihood":
        trie, words = self.model.trie, len(self.model.trie.words)
        spelling = np.concatenate(
            [np.zeros(words), self.spelling.log_probabilities(tokens.strings()[words:])]
        )
        start, end, unknown = trie.special
        return TokenLikelihood(trie.for_scoring, words, unknown, start, end, spelling)


def _tokens_of(ngrams: pa.LargeStringArray) -> pa.LargeBinaryArray:
    return pc.split_pattern(ngrams, " ").flatten().cast(pa.large_binary())


@dataclass(frozen=True, eq=False)
class TokenLikelihood:
    """How likely public text makes tokens after others."""

    trie: PackedTrie
    words: int  # tokens below this are the model's words
    unknown: int
    start: int  # of the model; −1: none
    end: int
    spelling: Floats  # log p of every token's spelling; 0 of the model's words

    def conditional_log_probabilities(self, tokens: Ids, most: int) -> Floats:
        """Log p of each token after none, one, … of those before it (most × tokens); −∞ at the end of a sentence."""
        known = np.where(tokens >= self.words, np.int32(self.unknown), tokens)
        steps = conditional_log10_probabilities(known, self.trie, most, self.start, self.end)
        _add_spelling(steps, tokens, self.spelling)
        return steps


@dataclass(frozen=True, eq=False)
class CandidateWeigher:
    """Log weights of windows of these orders that are not listed."""

    orders: Sequence[int]
    likelihood: TokenLikelihood
    listed: Sequence[WindowIndex]

    def log_weights(self, tokens: Ids) -> Floats:
        """Log weights (orders × tokens) of the windows that end at each token; −∞: no candidate."""
        found, most = np.full((len(self.orders), tokens.size), -np.inf), max(self.orders)
        for first in range(0, tokens.size, BATCH_TOKENS):
            begun = max(first - most + 1, 0)  # where the first window of these begins
            some = tokens[begun : first + BATCH_TOKENS]
            steps = self.likelihood.conditional_log_probabilities(some, most)
            for row, order, index in zip(found, self.orders, self.listed, strict=True):
                weights = row[begun : first + BATCH_TOKENS]
                write_log_weights(
                    steps,
                    order,
                    index.marks(some),
                    weights,
                    first - begun,
                    LIKELY_LOG_PROBABILITY,
                    WEIGHT_EXPONENT,
                    min_log_weight(order),
                )
        return found


def min_log_weight(order: int) -> float:
    """The log weight of an n-gram that public text says nothing of."""
    return -UNSEEN_LOG_PENALTY.get(order, max(UNSEEN_LOG_PENALTY.values()))


@kernel
def log_weight(log: float, likely: float, exponent: float, least: float) -> float:
    """The log weight of an n-gram, from its log q."""
    most = min(exponent * (log - likely), 0.0)
    above = max(most, least)
    return float(above + np.log1p(np.exp(min(most, least) - above)))


def log_weights(logs: Floats, order: int) -> Floats:
    """The same of many n-grams of an order."""
    return np.array(
        [
            log_weight(float(log), LIKELY_LOG_PROBABILITY, WEIGHT_EXPONENT, min_log_weight(order))
            for log in logs
        ]
    )


@kernel
def write_log_weights(
    steps: Floats,
    order: int,
    listed: Bools,
    found: Floats,
    first: int,
    likely: float,
    exponent: float,
    least: float,
) -> None:
    """Write the log weights of windows that are not listed, from a place on; others stay as they are."""
    for end in range(max(order - 1, first), steps.shape[1]):
        if listed[end]:
            continue
        total = 0.0
        for at in range(order):
            total += steps[at, end - order + 1 + at]
        if total > -np.inf:
            found[end] = log_weight(total, likely, exponent, least)


@kernel
def _add_spelling(steps: Floats, tokens: Ids, spelling: Floats) -> None:
    """From log10 p of known words to log p of all; −∞ where there is no token."""
    for row in range(steps.shape[0]):
        for at in range(tokens.size):
            if tokens[at] >= 0:
                steps[row, at] = steps[row, at] * LOG_10 + spelling[tokens[at]]


@kernel
def segment_sums(values: Floats, ends: Integers) -> Floats:
    """The sum of the values up to each end, from the end before it: added up by itself.

    A difference of running sums would have the last digits of all words before, and so of what other people write.
    """
    sums = np.zeros(ends.size)
    first = np.int64(0)
    for row in range(ends.size):
        for at in range(first, ends[row]):
            sums[row] += values[at]
        first = ends[row]
    return sums


@kernel
def window_log_probabilities(steps: Floats, order: int) -> Floats:
    """Log q of the window of an order that ends at each token; −∞ where a sentence ends inside, or there is none."""
    found = np.full(steps.shape[1], -np.inf)
    for end in range(order - 1, steps.shape[1]):
        total = 0.0
        for at in range(order):
            total += steps[at, end - order + 1 + at]
        found[end] = total
    return found


@kernel
def conditional_log10_probabilities(
    tokens: Ids, trie: PackedTrie, most: int, start: int, end: int
) -> Floats:
    """log10 p of each token after none, one, … of the tokens before it (most × tokens); −∞ at the end of a sentence.

    What begins a sentence, which no model predicts, is as likely as what ends one. All tokens are looked up for one
    order after the other, so that none waits for memory that another asked for.
    """
    found = np.full((most, tokens.size), -np.inf)
    orders = trie.layout.shape[0] - 1
    before, here = np.empty(tokens.size, np.int32), np.empty(tokens.size, np.int32)
    for at in range(tokens.size):
        word = signed(tokens[at])
        before[at] = word
        if word >= 0:
            found[0, at] = log_probability_at(
                end if word == start else word, trie.layout[1], trie.records, trie.codebooks
            )
    for order in range(2, most + 1):
        if order > orders:
            found[order - 1] = found[order - 2]
            continue
        find_longer_ngrams(order, before, tokens, trie, here)
        for at in range(tokens.size):
            value = found[order - 2, at]
            if here[at] >= 0:
                value = log_probability_at(
                    signed(here[at]), trie.layout[order], trie.records, trie.codebooks
                )
            elif at and before[at - 1] >= 0:
                context = signed(before[at - 1])
                value += log_backoff_at(
                    context, trie.layout[order - 1], trie.records, trie.codebooks
                )
            found[order - 1, at] = value
        before, here = here, before
    return found


@kernel
def find_longer_ngrams(order: int, before: Ids, tokens: Ids, trie: PackedTrie, found: Ids) -> None:
    """Where the n-grams of an order stand that end at each token; `before` has those that are shorter by one."""
    row, below = trie.layout[order - 1], trie.layout[order]
    sizes = np.zeros(tokens.size, np.int32)
    found[:] = 0
    for at in range(1, tokens.size):
        if (
            before[at - 1] >= 0 and before[at] >= 0
        ):  # a model holds what an n-gram begins with and ends with
            place = signed(before[at - 1])
            found[at] = first_child_at(place, row, trie.records, trie.bases)
            sizes[at] = first_child_at(place + 1, row, trie.records, trie.bases) - found[at]
    for at in range(tokens.size):
        found[at] = find(
            below, trie.records, signed(found[at]), signed(sizes[at]), signed(tokens[at])
        )
