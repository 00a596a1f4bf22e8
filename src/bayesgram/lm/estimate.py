"""Backoff models of expected counts: lower orders, leftover mass, backoff weights.

In go n-grams of one order or several, each with an expected count E in one scale, as a release has
them; out comes a `Trie` (`estimate`). `refit` gives a trie other probabilities or fewer n-grams,
with the backoff weights that this needs. No text is read here.

Lower orders. An n-gram occurs at least as often as all its continuations together, and as all that
end with it; a table that was cut at some size misses the rest. So E(g) is the largest of what was
measured, Σ_w E(g w) and Σ_x E(x g). Nothing stands before <s> or after </s>: there the other margin
is the larger one by itself.

Leftover. Of what a context h had after it, the table lost L(h): about κτ for each n-gram that it
has, where τ is a typical expected count of the order, (mean √E)²: below the mean, which the
frequent ones rule, above the median, which is almost nothing where people write unlike public text.
(κτ = 1 would be Witten–Bell.) A lower order is used only where the longer one has no answer, so it
counts only what that does not explain, R, as in Kneser–Ney smoothing. T→ and T← are how many
n-grams continue one to the right and to the left:

    L(h) = max(E(h) − Σ_w E(hw), κ τ T→(h))
    R(g) = min(E(g), E(g) − Σ_x E(xg) + κ τ T←(g))
    p(w|h) = R(hw) / (Σ_w R(hw) + L(h)),  and of all other words  p(w|h) = bow(h) p(w|h′)

where h′ is h without its first word and bow(h) makes the context add up to one. L of the words
themselves is <unk>: all words that the table lacks.

How it was chosen: by the perplexity of held-out text, generated and from Wikipedia, nine tables in
all, on which every choice was made. There the mean of both margins is 2 to 10% worse than the
larger one (the same where all orders are measured), and E in place of R 3 to 21%. Interpolation,
tried with E alone, was 3 to 7% worse on five tables and 1% better on two. κ = 2 suits where E(h) is
known from margins alone, ½ where it was measured and for the words; the optimum is flat, and
differs between the tables. Rows that no ARPA file can hold are left out: with <unk>, <s> inside,
</s> before the end.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arrays import Bools, Floats, Ids, Integers
from bayesgram.errors import Argument, UsageError
from bayesgram.lm.packed import Words
from bayesgram.lm.pruning import select_ngrams
from bayesgram.lm.trie import (
    LOG_NEVER,
    UNKNOWN,
    NgramIndex,
    SpecialWords,
    Trie,
    assemble_trie,
    build_trie,
    find_special,
)
from bayesgram.text.ngrams import END, START, distinct_orders, ngram_orders, ngram_tokens
from bayesgram.text.tokenizer import Tokenizer

# κ of the leftover mass: by the held-out perplexity of the nine tables above.
KAPPA = 2.0  # where a context's own count is known from margins alone
KAPPA_MEASURED = 0.5  # where it was measured, and for the words
# p(</s>) where the table has no sentence ends: one word in twenty. Not measured.
END_PROBABILITY = 0.05
MIN_LEFTOVER_SHARE = 1e-4  # every context, and <unk>, keep at least this share; not measured
FORBIDDEN = r"[\x00\t\n\v\f\r]"  # a pattern of the characters at which KenLM cuts or ends a line

# Probability that a context keeps for words that it does not list, even if it lists all of them.
MIN_LEFTOVER = 1e-9
# Largest backoff weight. It multiplies the rounding of stored probabilities: 1e-7 stays below 1e-4.
MAX_BACKOFF = 1000.0


@dataclass(frozen=True, eq=False)
class ExpectedCounts:
    """N-grams of one order as rows of word ids, sorted and distinct, with their expected counts."""

    rows: Ids
    expected: Floats


def estimate(
    ngrams: pa.LargeStringArray,
    expected: Floats,
    tokenizer: Tokenizer,
    *,
    max_ngrams: int | None = None,
) -> Trie:
    """Estimate a model of n-grams with expected counts.

    A row is the only token of its sentence: what follows <s>.

    Args:
        ngrams: The n-grams, tokens joined by one space.
        expected: Their expected counts, in one scale for all orders.
        tokenizer: How their text was cut.
        max_ngrams: How many n-grams, of all orders together, may stay (see `pruning`).

    Raises:
        UsageError: If there are no n-grams of order 2 or more.
    """
    return Estimator(ngrams, expected, tokenizer).estimate(max_ngrams)


class Estimator:
    """Estimates models of the same n-grams that differ in how many stay.

    What does not depend on that number is computed once.

    Args:
        ngrams: The n-grams, tokens joined by one space.
        expected: Their expected counts, in one scale for all orders.
        tokenizer: How their text was cut.

    Raises:
        UsageError: If there are no n-grams of order 2 or more.
    """

    def __init__(self, ngrams: pa.LargeStringArray, expected: Floats, tokenizer: Tokenizer) -> None:
        self._words, measured = _encode_ngrams(ngrams, expected, tokenizer)
        if max(measured, default=0) < 2:
            raise UsageError(
                "a language model needs n-grams of two words or more; make the vocabulary without ",
                Argument("order"),
                ": by default it has words, pairs and triples.",
            )
        self._levels = _add_lower_orders(measured, len(self._words))
        self._missed_counts = [
            _estimate_missed_count(level, is_measured=order in measured or order == 0)
            for order, level in enumerate(self._levels)
        ]

    @cached_property
    def _judging_model(self) -> Trie:
        """A model whose lower orders count everything, by which n-grams are judged."""
        return _build_model(self._levels, self._words, self._missed_counts, discount=False)

    def estimate(self, max_ngrams: int | None = None) -> Trie:
        """Return the model; `max_ngrams` is how many n-grams may stay, of all orders together."""
        levels = self._levels
        if max_ngrams is not None and max_ngrams < sum(len(level.rows) for level in levels):
            masks = select_ngrams(self._judging_model, max_ngrams)
            levels = [
                ExpectedCounts(level.rows[mask], level.expected[mask])
                for level, mask in zip(levels, masks, strict=False)
            ]
        return _build_model(levels, self._words, self._missed_counts)


# --- Reading the table ---


def _encode_ngrams(
    ngrams: pa.LargeStringArray, expected: Floats, tokenizer: Tokenizer
) -> tuple[Words, dict[int, ExpectedCounts]]:
    """Return the words in byte order, and the n-grams of every order as their ids."""
    usable = (
        (expected > 0)
        & ~_matches(ngrams, FORBIDDEN)
        & ~_matches(ngrams, f"(^| )(<unk>|<UNK>|{START})$")
        & ~_matches(ngrams, f"(^| )(<unk>|<UNK>|{END}) ")
        & ~_matches(ngrams, f" {START}( |$)")
    )
    ngrams = ngrams.filter(pa.array(usable))
    expected = expected[usable]
    tokens = ngram_tokens(ngrams, tokenizer).cast(pa.large_binary()).dictionary_encode()
    special = pa.array([START.encode(), END.encode(), UNKNOWN.encode()], pa.large_binary())
    distinct = pc.unique(pa.concat_arrays([tokens.dictionary, special]))
    ordered = distinct.take(pc.sort_indices(distinct))
    dictionary_ids = pc.index_in(tokens.dictionary, ordered).to_numpy()
    ids = dictionary_ids[tokens.indices.to_numpy()].astype(np.int32)
    if tokenizer.is_rows:
        start_id = pc.index(ordered, START.encode()).as_py()
        rows = np.stack([np.full(ids.size, start_id, np.int32), ids], axis=1)
        measured = {2: _merge_rows(rows, expected, np.add)} if ids.size else {}
        return Words.from_array(ordered), measured
    orders = ngram_orders(ngrams, tokenizer)
    starts = np.cumsum(orders) - orders
    levels = {}
    for order in distinct_orders(orders):
        selected = np.flatnonzero(orders == order)
        rows = ids[starts[selected, None] + np.arange(order)]
        levels[order] = _merge_rows(rows, expected[selected], np.add)
    return Words.from_array(ordered), levels


def _matches(ngrams: pa.LargeStringArray, pattern: str) -> Bools:
    mask: Bools = pc.match_substring_regex(ngrams, pattern).to_numpy(zero_copy_only=False)
    return mask


def _merge_rows(rows: Ids, expected: Floats, combine: np.ufunc) -> ExpectedCounts:
    """Sort n-grams and keep each once; `combine` puts the counts of equal ones together."""
    order = np.lexsort(rows.T[::-1])
    rows = rows[order]
    is_first = np.concatenate([[True], (rows[1:] != rows[:-1]).any(axis=1)])[: len(rows)]
    first = np.flatnonzero(is_first)
    merged = combine.reduceat(expected[order], first) if first.size else expected
    return ExpectedCounts(rows[first], merged)


def _add_lower_orders(measured: dict[int, ExpectedCounts], word_count: int) -> list[ExpectedCounts]:
    """Return every order up to the longest, with all prefixes and suffixes, and all the words."""
    levels = [measured[max(measured)]]
    for order in range(max(measured) - 1, 0, -1):
        longer = levels[0]
        parts = [
            _merge_rows(longer.rows[:, :-1], longer.expected, np.add),
            _merge_rows(longer.rows[:, 1:], longer.expected, np.add),
        ]
        if order in measured:
            parts.append(measured[order])
        if order == 1:
            all_words = np.arange(word_count, dtype=np.int32)[:, None]
            parts.append(ExpectedCounts(all_words, np.zeros(word_count)))
        rows = np.concatenate([part.rows for part in parts])
        expected = np.concatenate([part.expected for part in parts])
        levels.insert(0, _merge_rows(rows, expected, np.maximum))
    return levels


# --- Probabilities ---


def _estimate_missed_count(level: ExpectedCounts, *, is_measured: bool) -> float:
    """Return κτ of an order: what the table misses for each n-gram that it has.

    Args:
        level: The n-grams of the order.
        is_measured: Whether the order below was measured.
    """
    tau = float(np.sqrt(level.expected[level.expected > 0]).mean() ** 2)
    return (KAPPA_MEASURED if is_measured else KAPPA) * tau


def _build_model(
    levels: list[ExpectedCounts], words: Words, missed_counts: list[float], *, discount: bool = True
) -> Trie:
    """Build the backoff model of expected counts.

    Args:
        levels: All orders, from 1.
        words: The words.
        missed_counts: κτ of each order: how much the table misses for each n-gram that it has.
        discount: Whether lower orders count only what longer n-grams do not explain; else R = E.
    """
    index = NgramIndex([level.rows for level in levels], len(words))
    counts = [level.expected for level in levels]
    if discount:
        counts[:-1] = [
            _unexplained_counts(index, levels[at], levels[at + 1], missed_counts[at + 1])
            for at in range(len(levels) - 1)
        ]
    probabilities = [_word_probabilities(counts[0], missed_counts[0], find_special(words))]
    backoffs = []
    for at in range(1, len(levels)):
        contexts = levels[at - 1]
        level = levels[at]
        parents, suffixes = index.find_links(level.rows)
        leftover = _leftover_counts(contexts.expected, level.expected, parents, missed_counts[at])
        probability = _conditional_probabilities(counts[at], leftover, parents)
        lower = probabilities[-1][suffixes]
        backoffs.append(backoff_weights(probability, lower, parents, leftover.size))
        probabilities.append(probability)
    return build_trie(
        [level.rows for level in levels],
        words,
        [to_log10(probability) for probability in probabilities],
        [np.log10(backoff) for backoff in backoffs],
    )


def _unexplained_counts(
    index: NgramIndex, level: ExpectedCounts, longer: ExpectedCounts, missed_count: float
) -> Floats:
    """Return R(g) = min(E(g), E(g) − Σ_x E(xg) + κ τ T←(g))."""
    suffixes = index.find_links(longer.rows)[1]
    size = level.expected.size
    explained = np.bincount(suffixes, longer.expected, size)
    missing = missed_count * np.bincount(suffixes, minlength=size)
    remaining = np.maximum(level.expected - explained, 0) + missing
    unexplained: Floats = np.minimum(level.expected, remaining)
    return unexplained


def _leftover_counts(
    context_counts: Floats, expected: Floats, parents: Integers, missed_count: float
) -> Floats:
    """Return L(h) = max(E(h) − Σ_w E(hw), κ τ T→(h))."""
    listed = np.bincount(parents, expected, context_counts.size)
    missing = missed_count * np.bincount(parents, minlength=context_counts.size)
    leftover: Floats = np.maximum(context_counts - listed, missing)
    return leftover


def _word_probabilities(unexplained: Floats, missed_count: float, special: SpecialWords) -> Floats:
    """Return p(w) of every word: the leftover goes to <unk>, and <s> is never predicted."""
    counts = unexplained.copy()
    counts[special.start] = 0.0
    counts[special.unknown] = max(
        missed_count * np.count_nonzero(counts), MIN_LEFTOVER_SHARE * counts.sum()
    )
    probabilities: Floats = counts / counts.sum()
    if counts[special.end] == 0:
        probabilities *= 1 - END_PROBABILITY
        probabilities[special.end] = END_PROBABILITY
    return round_to_stored(probabilities)


def _conditional_probabilities(unexplained: Floats, leftover: Floats, parents: Integers) -> Floats:
    """Return p(w|h) = R(hw) / (Σ_w R(hw) + L(h))."""
    listed = np.bincount(parents, unexplained, leftover.size)
    totals = listed + np.maximum(leftover, MIN_LEFTOVER_SHARE * listed)
    return round_to_stored(unexplained / totals[parents])


def backoff_weights(
    probability: Floats, lower: Floats, parents: Integers, context_count: int
) -> Floats:
    """Return bow(h) = (1 − Σ p(w|h)) / (1 − Σ p(w|h′)), summed over the words that h lists.

    Args:
        probability: p(w|h) of the n-grams of an order.
        lower: p(w|h′) of the same.
        parents: The context of each.
        context_count: How many contexts there are. Those without n-grams have the weight 1.
    """
    left = 1 - np.bincount(parents, probability, context_count)
    left_below = 1 - np.bincount(parents, lower, context_count)
    weights: Floats = left / left_below
    return weights


def round_to_stored(probability: Floats) -> Floats:
    """Return the probabilities that their stored logarithms stand for.

    So backoff weights make up for the rounding.
    """
    stored: Floats = 10 ** to_log10(probability).astype(np.float32).astype(np.float64)
    return np.where(probability > 0, stored, 0.0)


def to_log10(probability: Floats) -> Floats:
    """Return log10 p, and LOG_NEVER where p is 0."""
    positive = probability > 0
    logs = np.log10(probability, where=positive, out=np.zeros_like(probability))
    return np.where(positive, logs, LOG_NEVER)


# --- Other probabilities, or fewer n-grams ---


def prune(trie: Trie, size: int) -> Trie:
    """Return the model with the `size` n-grams, of all orders, that are missed most.

    All words stay. A model that was made from counts is pruned better by estimating it again (see
    `pruning`); this is for one that was not, such as a mixture.
    """
    if size >= trie.word.size - 1:
        return trie
    logs = trie.log_probability.astype(np.float64)
    probabilities: list[Floats] = [
        10.0 ** logs[trie.nodes(order)] for order in range(1, trie.order + 1)
    ]
    return refit(trie, probabilities, select_ngrams(trie, size))


def remove_blocked(trie: Trie, masks: list[Bools]) -> Trie:
    """Return the model without blocked n-grams.

    The probability of a blocked word goes to <unk>, which is never suggested. That of a blocked
    longer n-gram goes to the words that its context does not list.

    Args:
        trie: The model.
        masks: Which n-grams of each order are blocked. A longer n-gram that contains a blocked one
            is blocked, too.
    """
    is_kept_word = ~masks[0]
    is_kept_word[[word for word in trie.special if word >= 0]] = True
    new_ids = np.cumsum(is_kept_word) - 1
    logs = trie.log_probability.astype(np.float64)
    word_probability: Floats = np.where(
        logs[trie.nodes(1)] > LOG_NEVER, 10.0 ** logs[trie.nodes(1)], 0.0
    )
    word_probability[trie.special.unknown] += word_probability[~is_kept_word].sum()
    words = trie.words.to_list()
    kept_words = [words[at] for at in np.flatnonzero(is_kept_word)]
    levels = [np.arange(len(kept_words), dtype=np.int32)[:, None]]
    stored = [round_to_stored(word_probability[is_kept_word])]
    backoffs = []
    places = new_ids
    for order in range(2, trie.order + 1):
        is_kept = ~masks[order - 1]
        if order > 2 and not is_kept.any():
            break  # nothing longer is left either
        below = trie.nodes(order - 1).start
        nodes = np.arange(trie.nodes(order).start, trie.nodes(order).stop)[is_kept]
        parents = places[trie.parents[nodes] - below]
        suffixes = places[trie.suffix[nodes] - below]
        probability, backoff = fit_backoffs(
            10.0 ** logs[nodes], stored[-1][suffixes], parents, len(levels[-1])
        )
        levels.append(new_ids[trie.ngrams(order)[is_kept]].astype(np.int32))
        stored.append(probability)
        backoffs.append(backoff)
        places = np.cumsum(is_kept) - 1
    return build_trie(
        levels,
        Words.from_array(pa.array(kept_words, pa.large_binary())),
        [to_log10(probability) for probability in stored],
        [np.log10(backoff) for backoff in backoffs],
    )


def refit(trie: Trie, probabilities: list[Floats], masks: list[Bools] | None = None) -> Trie:
    """Return a model with these probabilities, in which contexts add up to one again.

    Args:
        trie: The n-grams.
        probabilities: p of the n-grams of each order.
        masks: Which n-grams of each order stay, with every prefix and suffix of one that does; None
            for all.
    """
    masks = masks or [np.ones(probability.size, np.bool_) for probability in probabilities]
    last_words = [trie.word[trie.nodes(1)]]
    stored = [probabilities[0]]
    backoffs = []
    all_parents = []
    all_suffixes = []
    places = np.arange(len(trie.words))  # of the n-grams of the order below, among those that stay
    for order in range(2, len(masks) + 1):
        mask = masks[order - 1]
        below = trie.nodes(order - 1).start
        nodes = np.arange(trie.nodes(order).start, trie.nodes(order).stop)[mask]
        parents = places[trie.parents[nodes] - below]
        suffixes = places[trie.suffix[nodes] - below]
        probability, backoff = fit_backoffs(
            probabilities[order - 1][mask], stored[-1][suffixes], parents, last_words[-1].size
        )
        last_words.append(trie.word[nodes])
        all_parents.append(parents)
        all_suffixes.append(suffixes)
        stored.append(probability)
        backoffs.append(backoff)
        places = np.cumsum(mask) - 1
    return assemble_trie(
        trie.words,
        last_words,
        all_parents,
        all_suffixes,
        [to_log10(probability) for probability in stored],
        [np.log10(backoff) for backoff in backoffs],
    )


def fit_backoffs(
    probability: Floats, lower: Floats, parents: Integers, context_count: int
) -> tuple[Floats, Floats]:
    """Return probabilities as they are stored, and backoff weights for them.

    With these, each context adds up to one. Where a context lists nearly all that its shorter one
    expects, a backoff weight could only be huge: then what it lists makes up for the rest.

    Args:
        probability: p(w|h) of the n-grams of an order.
        lower: p(w|h′) of the same.
        parents: The context of each.
        context_count: How many contexts there are.
    """
    left_below = np.maximum(1 - np.bincount(parents, lower, context_count), MIN_LEFTOVER)
    listed = np.bincount(parents, probability, context_count)
    left = np.clip(1 - listed, MIN_LEFTOVER, MAX_BACKOFF * left_below)
    factor = np.divide(1 - left, listed, out=np.ones(context_count), where=listed > 0)
    stored = round_to_stored(probability * factor[parents])
    left = np.maximum(1 - np.bincount(parents, stored, context_count), MIN_LEFTOVER)
    return stored, np.minimum(left / left_below, MAX_BACKOFF)
