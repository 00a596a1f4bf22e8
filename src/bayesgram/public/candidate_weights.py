"""The weights that a discovery gives to the n-grams of private text.

In:  a public language model, and the n-grams that the vocabulary lists already.
Out: log weights of the windows of a text.

q(g) is the model's probability of the window's words one after the other. A word that the model
lacks has the probability of <unk> times that of its spelling, by a model of the letters of public
words: what looks like a word is likelier than a password. This module reads no private text; it is
called with token ids, and with words to spell.

A token that is a whole row has the probability of its words, one after the other between <s> and
</s>, under a model of words: q of each row is a sum over that row alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arrays import Bools, Floats, Ids, Integers
from bayesgram.choices import TokenizerKind
from bayesgram.errors import Argument, UsageError
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
from bayesgram.text.ngrams import END, START, distinct_orders, ngram_orders, ngram_tokens
from bayesgram.text.strings import EMPTY, StringTable
from bayesgram.text.tokenizer import Tokenizer, buffers, chunks


@dataclass(frozen=True)
class WeightCurve:
    """How a candidate's weight follows from q: min(1, (q/likely)^exponent) + e^(−unseen).

    Likely ones all weigh alike, and so do those that public text says nothing of. All public.

    Attributes:
        likely: log q, natural logarithm, from which on the weight is 1.
        exponent: How fast the weight falls below.
        unseen: Nats, by order; longer n-grams have the largest.
    """

    likely: float
    exponent: float
    unseen: Mapping[int, float]

    def min_log_weight(self, order: int) -> float:
        """Return the log weight of an n-gram that public text says nothing of."""
        return -self.unseen.get(order, max(self.unseen.values()))

    def log_weights(self, logs: Floats, order: int) -> Floats:
        """Return the log weights of n-grams of one order, from their log q."""
        least = self.min_log_weight(order)
        return np.array(
            [log_weight(float(log), self.likely, self.exponent, least) for log in logs], np.float64
        )


# Chosen by benchmarks/discovery_constants.py.
NGRAM_WEIGHTS = WeightCurve(-9.0, 0.45, MappingProxyType({1: 3.0, 2: 4.0, 3: 7.0}))
# A row is less likely than an n-gram of its words, and its log q spreads by tens of nats, so the
# curve begins lower and is flatter. benchmarks/rows.py --curves, on first lines of commits and
# made-up queries (3 runs each): equal weights find 1 to 6% less, and 12 other curves −9 to +12%
# without a trend. Everyday sentences and Reddit posts repeat too little to tell.
ROW_WEIGHTS = WeightCurve(-20.0, 0.1, MappingProxyType({1: 3.0}))

SPELLING_ORDER = 4  # letters in the longest n-grams of the spelling model; not measured
LOG_10 = float(np.log(10))
BATCH_TOKENS = 1 << 15  # tokens whose windows are weighed together, in the cache; not measured


@dataclass(frozen=True, eq=False)
class SpellingModel:
    """How likely the spelling of a word is: Kneser–Ney of the letters of distinct public words."""

    model: LanguageModel

    @classmethod
    def from_words(cls, words: pa.LargeBinaryArray) -> "SpellingModel":
        """Estimate the model of the letters of these words."""
        tokenizer = Tokenizer(TokenizerKind.CHARACTERS, lowercase=False, boundaries=True)
        letters = StringTable()
        for chunk in chunks(words):
            data, offsets, _ = tokenizer.tokenize(chunk)
            letters.add(data, offsets)
        marks = pa.array([START.encode(), END.encode(), UNKNOWN.encode()], pa.large_binary())
        alphabet = pa.concat_arrays([letters.strings(), marks])
        alphabet = alphabet.take(pc.sort_indices(alphabet))
        records = Records(words, None, "public words", 1)
        with spill_folder() as scratch:
            counts = count_ngrams(
                [records], alphabet, order=SPELLING_ORDER, tokenizer=tokenizer, scratch=scratch
            )
            return cls(LanguageModel(estimate_kneser_ney(counts), tokenizer))

    def log_probabilities(self, words: pa.LargeBinaryArray) -> Floats:
        """Return log p of each word's letters and of its end."""
        log_probabilities = [np.zeros(0)]
        for chunk in chunks(words):
            data, offsets, ends = self.model.tokenizer.tokenize(chunk)
            scores = self.model.trie.score(self.model.encode_tokens(data, offsets))[0]
            log_probabilities.append(segment_sums(scores, ends) * LOG_10)
        return np.concatenate(log_probabilities)


@dataclass(frozen=True, eq=False)
class PublicTextModel:
    """What public text says of any n-gram: whether it is listed, and how likely it is.

    Attributes:
        vocabulary: The n-grams that are listed.
        model: A public language model.
        spelling_model: How likely spellings are; None if it is to be made of the model's words.
    """

    vocabulary: Vocabulary
    model: LanguageModel
    spelling_model: SpellingModel | None = None

    @classmethod
    def from_vocabulary(
        cls, vocabulary: Vocabulary, model: LanguageModel | None = None
    ) -> "PublicTextModel":
        """Return a vocabulary with a language model of the same words.

        What the model was made from weakens the label of what is discovered with it, so the
        vocabulary gets its provenance.

        Args:
            vocabulary: The public vocabulary.
            model: A public language model; one of the vocabulary's counts if it is left out.
        """
        if vocabulary.tokenizer.is_rows:
            model = _require_word_model(vocabulary, model)
        if model is not None:
            return cls(vocabulary.with_provenance(model.provenance), model)
        counts = vocabulary.counts + 1.0
        return cls(
            vocabulary, LanguageModel.from_counts(vocabulary.ngrams, counts, vocabulary.tokenizer)
        )

    def new_token_table(self) -> StringTable:
        """Return a table of tokens: the model's words in its order, then the vocabulary's."""
        tokens = StringTable()
        tokens.add(*buffers(self._tokens))
        return tokens

    @property
    def weights(self) -> WeightCurve:
        """How the weight of a candidate follows from its probability."""
        return ROW_WEIGHTS if self.vocabulary.tokenizer.is_rows else NGRAM_WEIGHTS

    def candidate_weigher(self, tokens: StringTable, orders: Sequence[int]) -> "CandidateWeigher":
        """Return what weighs windows of these tokens; no token is added afterwards."""
        return CandidateWeigher(
            orders,
            self._likelihood(tokens),
            [self._index(order, len(tokens)) for order in orders],
            self.weights,
        )

    def log_probabilities(self, ngrams: pa.LargeStringArray) -> Floats:
        """Return log q of any n-grams."""
        if self.vocabulary.tokenizer.is_rows:
            return self._row_log_probabilities(ngrams.cast(pa.large_binary()))
        tokens = self.new_token_table()
        orders = ngram_orders(ngrams, self.vocabulary.tokenizer)
        numbers = tokens.add(*buffers(self._tokens_of(ngrams)))
        stream = np.insert(numbers, np.cumsum(orders), EMPTY)
        ends = np.cumsum(orders + 1) - 2
        steps = self._likelihood(tokens).conditional_log_probabilities(
            stream, int(orders.max(initial=1))
        )
        log_probabilities = np.zeros(len(ngrams))
        for order in distinct_orders(orders):
            is_order = orders == order
            log_probabilities[is_order] = window_log_probabilities(steps, order)[ends[is_order]]
        return log_probabilities

    def to_broadcast(self) -> "PublicTextModel":
        """Return the same without what workers can make for themselves.

        The spelling model goes with it: it is small, and slow to make.
        """
        listed = self.vocabulary
        vocabulary = Vocabulary(listed.ngrams, listed.counts, listed.order, listed.tokenizer)
        return PublicTextModel(vocabulary, self.model, self.spelling)

    @cached_property
    def spelling(self) -> SpellingModel:
        """The model of the letters of public words."""
        if self.spelling_model is not None:
            return self.spelling_model
        words = pa.array(self.model.trie.words.to_list(), pa.large_binary())
        return SpellingModel.from_words(
            words.filter(pa.array(~np.isin(np.arange(len(words)), self.model.trie.special)))
        )

    @cached_property
    def _tokens(self) -> pa.LargeBinaryArray:
        """All tokens that have a number before any text is read."""
        tokens = StringTable()
        if not self.vocabulary.tokenizer.is_rows:
            tokens.add(*buffers(pa.array(self.model.trie.words.to_list(), pa.large_binary())))
        tokens.add(*buffers(self.vocabulary.tokens.cast(pa.large_binary())))
        return tokens.strings()

    @cached_property
    def _indices(self) -> dict[tuple[int, int], WindowIndex]:
        # A cache of `_index`, by order and by the width of the numbers of tokens in bits.
        return {}

    def _index(self, order: int, tokens: int) -> WindowIndex:
        """Return an index of the vocabulary's n-grams of an order."""
        key = order, token_bits(tokens)
        if key not in self._indices:
            orders = ngram_orders(self.vocabulary.ngrams, self.vocabulary.tokenizer)
            rows = pa.array(np.flatnonzero(orders == order))
            ngrams = self.vocabulary.ngrams.take(rows)
            if order == 1 and self.vocabulary.tokenizer.boundaries:
                # Every sentence has <s> and </s>, and <s> is in no list.
                ngrams = pa.concat_arrays([ngrams, pa.array([START, END], ngrams.type)])
            ids = self.new_token_table().find(*buffers(self._tokens_of(ngrams))).reshape(-1, order)
            self._indices[key] = WindowIndex(
                ids, np.arange(len(ids), dtype=np.int32), tokens=tokens
            )
        return self._indices[key]

    def _tokens_of(self, ngrams: pa.LargeStringArray) -> pa.LargeBinaryArray:
        return ngram_tokens(ngrams, self.vocabulary.tokenizer).cast(pa.large_binary())

    def _row_log_probabilities(self, rows: pa.LargeBinaryArray) -> Floats:
        """Return log q of the words of each row; what has no word is an unknown word itself."""
        trie = self.model.trie
        unknown = trie.special.unknown
        log_unknown = float(trie.score(np.array([unknown], np.int32))[0][0]) * LOG_10
        log_probabilities = [np.zeros(0)]
        for chunk in chunks(rows):
            data, offsets, ends = self.model.tokenizer.tokenize(chunk)
            numbers = self.model.encode_tokens(data, offsets)
            scores = trie.score(numbers)[0] * LOG_10
            lengths = np.diff(offsets)
            is_spelt = (lengths > 0) & (numbers == unknown)
            words = pa.LargeBinaryArray.from_buffers(
                pa.large_binary(),
                lengths.size,
                [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(data.copy())],
            )
            scores[is_spelt] += self.spelling.log_probabilities(words.filter(pa.array(is_spelt)))
            sums = segment_sums(scores, ends)
            is_wordless = np.diff(ends, prepend=0) == 0
            sums[is_wordless] = log_unknown + self.spelling.log_probabilities(
                chunk.filter(pa.array(is_wordless))
            )
            log_probabilities.append(sums)
        return np.concatenate(log_probabilities)

    def _likelihood(self, tokens: StringTable) -> "TokenLikelihood | RowLikelihood":
        if self.vocabulary.tokenizer.is_rows:
            return RowLikelihood(self._row_log_probabilities(tokens.strings()))
        trie = self.model.trie
        words = len(trie.words)
        spelling = np.concatenate(
            [np.zeros(words), self.spelling.log_probabilities(tokens.strings()[words:])]
        )
        start, end, unknown = trie.special
        return TokenLikelihood(trie.for_scoring, words, unknown, start, end, spelling)


def _require_word_model(vocabulary: Vocabulary, model: LanguageModel | None) -> LanguageModel:
    """Return the model by whose words rows are weighed.

    Raises:
        UsageError: If there is none, or it is a model of something else than words in this case.
    """
    if model is None:
        raise UsageError(
            "rows are weighed by a public model of their words; `bayesgram vocab --tokenizer rows`"
            " keeps one beside the vocabulary. Give it as ",
            Argument("model"),
            ".",
        )
    name = replace(model.tokenizer, boundaries=False).name
    if name != vocabulary.tokenizer.words.name:
        raise UsageError(
            Argument("model"),
            f": is a model of {name!r}; rows of {vocabulary.tokenizer.name!r} are weighed by one of"
            f" {vocabulary.tokenizer.words.name!r}. Make it with `bayesgram vocab`.",
        )
    return model


@dataclass(frozen=True, eq=False)
class TokenLikelihood:
    """How likely a token is after others, by public text.

    Attributes:
        trie: The public language model.
        words: The number of its words; tokens below it are words of the model.
        unknown: The number of <unk>.
        start: The number of <s> in the model; −1 if it has none.
        end: The number of </s> in the model.
        spelling: log p of every token's spelling; 0 for the model's words.
    """

    trie: PackedTrie
    words: int
    unknown: int
    start: int
    end: int
    spelling: Floats

    def conditional_log_probabilities(self, tokens: Ids, max_order: int) -> Floats:
        """Return log p of each token after none, one, … of the tokens before it.

        Returns:
            An array of max_order × tokens; −∞ at the end of a sentence.
        """
        model_words = np.where(tokens >= self.words, np.int32(self.unknown), tokens)
        steps = conditional_log10_probabilities(
            model_words, self.trie, max_order, self.start, self.end
        )
        _add_spelling(steps, tokens, self.spelling)
        return steps


@dataclass(frozen=True, eq=False)
class RowLikelihood:
    """How likely rows are, by public text; what stands before a row says nothing about it.

    Attributes:
        log_probabilities: log q of every token, which is a row.
    """

    log_probabilities: Floats

    def conditional_log_probabilities(self, tokens: Ids, max_order: int) -> Floats:
        """Return log q of each token, for the one order that rows have; see `TokenLikelihood`."""
        steps = np.full((max_order, tokens.size), -np.inf)
        is_row = tokens >= 0
        steps[0, is_row] = self.log_probabilities[tokens[is_row]]
        return steps


@dataclass(frozen=True, eq=False)
class CandidateWeigher:
    """Weighs the windows of a text that the vocabulary does not list.

    Attributes:
        orders: The orders of windows.
        likelihood: How likely tokens are.
        listed: The n-grams of the vocabulary, for each order.
        weights: How weights follow from probabilities.
    """

    orders: Sequence[int]
    likelihood: TokenLikelihood | RowLikelihood
    listed: Sequence[WindowIndex]
    weights: WeightCurve

    def log_weights(self, tokens: Ids) -> Floats:
        """Return the log weights (orders × tokens) of windows by their last token; −∞: none."""
        log_weights = np.full((len(self.orders), tokens.size), -np.inf)
        max_order = max(self.orders)
        for first in range(0, tokens.size, BATCH_TOKENS):
            begin = max(first - max_order + 1, 0)  # where the first window of the batch begins
            batch = tokens[begin : first + BATCH_TOKENS]
            steps = self.likelihood.conditional_log_probabilities(batch, max_order)
            for row, order, index in zip(log_weights, self.orders, self.listed, strict=True):
                write_log_weights(
                    steps,
                    order,
                    index.marks(batch),
                    row[begin : first + BATCH_TOKENS],
                    first - begin,
                    self.weights.likely,
                    self.weights.exponent,
                    self.weights.min_log_weight(order),
                )
        return log_weights


@kernel
def log_weight(log: float, likely: float, exponent: float, least: float) -> float:
    """Return log(min(1, (q/LIKELY)^EXPONENT) + e^least) from log q."""
    by_likelihood = min(exponent * (log - likely), 0.0)
    larger = max(by_likelihood, least)
    return float(larger + np.log1p(np.exp(min(by_likelihood, least) - larger)))


@kernel
def write_log_weights(
    steps: Floats,
    order: int,
    listed: Bools,
    output: Floats,
    first: int,
    likely: float,
    exponent: float,
    least: float,
) -> None:
    """Write the log weights of windows that are not listed, from `first` on, into `output`."""
    for end in range(max(order - 1, first), steps.shape[1]):
        if listed[end]:
            continue
        total = 0.0
        for at in range(order):
            total += steps[at, end - order + 1 + at]
        if total > -np.inf:
            output[end] = log_weight(total, likely, exponent, least)


@kernel
def _add_spelling(steps: Floats, tokens: Ids, spelling: Floats) -> None:
    """Turn log10 p of the model's words into log p of all tokens; −∞ where there is none."""
    for row in range(steps.shape[0]):
        for at in range(tokens.size):
            if tokens[at] >= 0:
                steps[row, at] = steps[row, at] * LOG_10 + spelling[tokens[at]]


@kernel
def segment_sums(values: Floats, ends: Integers) -> Floats:
    """Return the sum of the values of each segment, added up by itself.

    A difference of running sums would have the rounding errors of all words before, and so depend
    on what other people write.
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
    """Return log q of the window that ends at each token.

    It is −∞ where a sentence ends inside the window, or there is no window.
    """
    log_probabilities = np.full(steps.shape[1], -np.inf)
    for end in range(order - 1, steps.shape[1]):
        total = 0.0
        for at in range(order):
            total += steps[at, end - order + 1 + at]
        log_probabilities[end] = total
    return log_probabilities


@kernel
def conditional_log10_probabilities(
    tokens: Ids, trie: PackedTrie, max_order: int, start: int, end: int
) -> Floats:
    """Return log10 p of each token after none, one, … of the tokens before it.

    <s>, which no model predicts, is as likely as </s>. All tokens are looked up for one order after
    the other, so that none waits for memory that another asked for.

    Returns:
        An array of max_order × tokens; −∞ at the end of a sentence.
    """
    log_probabilities = np.full((max_order, tokens.size), -np.inf)
    orders = trie.layout.shape[0] - 1
    shorter = np.empty(tokens.size, np.int32)  # where n-grams of the order before are in the trie
    longer = np.empty(tokens.size, np.int32)  # and those of this order
    for at in range(tokens.size):
        word = signed(tokens[at])
        shorter[at] = word
        if word >= 0:
            log_probabilities[0, at] = log_probability_at(
                end if word == start else word, trie.layout[1], trie.records, trie.codebooks
            )
    for order in range(2, max_order + 1):
        if order > orders:
            log_probabilities[order - 1] = log_probabilities[order - 2]
            continue
        find_longer_ngrams(order, shorter, tokens, trie, longer)
        for at in range(tokens.size):
            value = log_probabilities[order - 2, at]
            if longer[at] >= 0:
                value = log_probability_at(
                    signed(longer[at]), trie.layout[order], trie.records, trie.codebooks
                )
            elif at and shorter[at - 1] >= 0:
                context = signed(shorter[at - 1])
                value += log_backoff_at(
                    context, trie.layout[order - 1], trie.records, trie.codebooks
                )
            log_probabilities[order - 1, at] = value
        shorter, longer = longer, shorter
    return log_probabilities


@kernel
def find_longer_ngrams(
    order: int, shorter: Ids, tokens: Ids, trie: PackedTrie, longer: Ids
) -> None:
    """Write where the n-grams of an order that end at each token are in the trie.

    Args:
        order: The order.
        shorter: Where the n-grams that are shorter by one are.
        tokens: The text.
        trie: The model.
        longer: Is written; −1 where the model has no such n-gram.
    """
    parent_layout = trie.layout[order - 1]
    child_layout = trie.layout[order]
    sizes = np.zeros(tokens.size, np.int32)
    longer[:] = 0
    for at in range(1, tokens.size):
        # A model that holds an n-gram holds what it begins with and what it ends with.
        if shorter[at - 1] >= 0 and shorter[at] >= 0:
            parent = signed(shorter[at - 1])
            longer[at] = first_child_at(parent, parent_layout, trie.records, trie.bases)
            sizes[at] = (
                first_child_at(parent + 1, parent_layout, trie.records, trie.bases) - longer[at]
            )
    for at in range(tokens.size):
        longer[at] = find(
            child_layout, trie.records, signed(longer[at]), signed(sizes[at]), signed(tokens[at])
        )
