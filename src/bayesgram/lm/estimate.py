"""From n-grams with expected counts to a back-off model: lower orders, leftover mass, back-off weights.

In:  n-grams of one order or several, each with an expected count E in one scale.   Out: a `Trie`.

Lower orders. An n-gram occurs at least as often as all its continuations together, and as all that end with it; a table
that was cut at some size misses the rest. So E(g) is the largest of what was measured, Σ_w E(g w) and Σ_x E(x g).
Nothing stands before <s> or after </s>: there the other margin is the larger one, by itself.

Leftover. Of what a context h had after it, the table lost L(h): about κτ for each n-gram that it kept, where τ is a
typical expected count of the order, (mean √E)²: below the mean, which the frequent ones rule, above the median, which
is almost nothing where people write unlike public text. (κτ = 1 would be Witten–Bell.) A lower order is asked
only where the longer one has no answer, so it counts only what that does not explain, R, as in Kneser–Ney smoothing.
T→ and T← are how many n-grams continue one to the right and to the left:

    L(h) = max(E(h) − Σ_w E(hw), κ τ T→(h))            R(g) = min(E(g), E(g) − Σ_x E(xg) + κ τ T←(g))
    p(w|h) = R(hw) / (Σ_w R(hw) + L(h)),  and of all other words  p(w|h) = bow(h) p(w|h′)

where h′ is h without its first word and bow(h) makes the context add up to one. L of the words themselves is <unk>: all
words that the table lacks.

How it was chosen: by the perplexity of held-out text, generated and from Wikipedia, nine tables in all, on which every
choice was made. There the mean of both margins is 2 to 10% worse than the larger one (the same where all orders are
measured), and E in place of R 3 to 21%. Interpolation, tried with E alone, was 3 to 7% worse on five tables and 1%
better on two. κ = 2 suits where E(h) is known from margins alone, ½ where it was measured and for the words; the
optimum is flat, and differs between the tables.
Does not look at text. Rows that no ARPA file can hold are left out: with <unk>, <s> inside, </s> before the end.

A back-off model with other probabilities, or with fewer n-grams, and the back-off weights that this asks for.

In:  a `Trie`.   Out: another, whose contexts add up to one. Does not estimate: a model that was made from counts
is pruned better by making it again (see `pruning`); this is for one that was not, such as a mixture.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arrays import Bools, Floats, Ids, Integers
from bayesgram.errors import Argument, UsageError
from bayesgram.lm.packed import Words
from bayesgram.lm.pruning import pruned
from bayesgram.lm.trie import NEVER, UNKNOWN, Index, Trie, connect, find_special
from bayesgram.text.ngrams import END, START, distinct_orders, ngram_orders
from bayesgram.text.tokenizer import buffers

LOST = 2.0  # κ where a context's own count is known from margins alone
LOST_BESIDE_MEASURED = 0.5  # κ where it was measured, and of the words
END_PROBABILITY = 0.05  # of </s> where the table has no sentence ends: one in twenty
LEAST = 1e-4  # every context, and <unk>, keep at least this share
FORBIDDEN = r"[\x00\t\n\v\f\r]"  # where KenLM cuts a line, or ends it


@dataclass(frozen=True, eq=False)
class Level:
    """N-grams of one order as word numbers, sorted and distinct, with their expected counts."""

    rows: Ids
    expected: Floats


def estimate(ngrams: pa.LargeStringArray, expected: Floats, *, keep: int | None = None) -> Trie:
    """A model of n-grams (tokens joined by one space) with their expected counts, in one scale for all orders.

    `keep` is how many n-grams, of all orders together, may stay (see `pruning`).
    """
    words, measured = _numbered(ngrams, expected)
    if max(measured, default=0) < 2:
        raise UsageError(
            "a language model needs n-grams of order 2 to 6; make the vocabulary with ",
            Argument("order", "3"),
            ".",
        )
    levels = _closed(measured, len(words))
    lost = [
        _lost(level, measured=order in measured or order == 0) for order, level in enumerate(levels)
    ]
    if keep is not None and keep < sum(len(level.rows) for level in levels):
        kept = pruned(
            _model(levels, words, lost, unexplained=False), keep
        )  # judged where lower orders are whole
        levels = [
            Level(level.rows[stays], level.expected[stays])
            for level, stays in zip(levels, kept, strict=False)
        ]
    return _model(levels, words, lost)


def _lost(level: Level, *, measured: bool) -> float:
    """κτ of an order, where the one below was measured or not."""
    tau = float(np.sqrt(level.expected[level.expected > 0]).mean() ** 2)
    return (LOST_BESIDE_MEASURED if measured else LOST) * tau


def _model(
    levels: list[Level], words: Words, lost: list[float], *, unexplained: bool = True
) -> Trie:
    """The back-off model of these expected counts; without `unexplained`, R = E: lower orders count everything."""
    index = Index([level.rows for level in levels], len(words))
    counted = [level.expected for level in levels]
    if unexplained:
        counted[:-1] = [
            _unexplained(index, levels[at], levels[at + 1], lost[at + 1])
            for at in range(len(levels) - 1)
        ]
    probabilities = [_word_probabilities(counted[0], lost[0], find_special(words))]
    backoffs = []
    for context, level, own, share in zip(levels, levels[1:], counted[1:], lost[1:], strict=False):
        parents, suffixes = index.links(level.rows)
        leftover = _leftover(context.expected, level.expected, parents, share)
        probability = _conditional(own, leftover, parents)
        backoffs.append(backoff(probability, probabilities[-1][suffixes], parents, leftover.size))
        probabilities.append(probability)
    rows = [level.rows for level in levels]
    return connect(
        rows, words, [logs(each) for each in probabilities], [np.log10(each) for each in backoffs]
    )


def _numbered(ngrams: pa.LargeStringArray, expected: Floats) -> tuple[Words, dict[int, Level]]:
    """The words in byte order, and the n-grams of every order as their numbers."""
    usable = (
        (expected > 0)
        & ~_matches(ngrams, FORBIDDEN)
        & ~_matches(ngrams, f"(^| )(<unk>|<UNK>|{START})$")
    )
    usable &= ~_matches(ngrams, f"(^| )(<unk>|<UNK>|{END}) ") & ~_matches(ngrams, f" {START}( |$)")
    ngrams, expected = ngrams.filter(pa.array(usable)), expected[usable]
    tokens = pc.split_pattern(ngrams, " ").flatten().cast(pa.large_binary()).dictionary_encode()
    special = pa.array([START.encode(), END.encode(), UNKNOWN.encode()], pa.large_binary())
    distinct = pc.unique(pa.concat_arrays([tokens.dictionary, special]))
    ordered = distinct.take(pc.sort_indices(distinct))
    numbers = (
        pc.index_in(tokens.dictionary, ordered)
        .to_numpy()[tokens.indices.to_numpy()]
        .astype(np.int32)
    )
    orders = ngram_orders(ngrams)
    starts = np.cumsum(orders) - orders
    levels = {}
    for order in distinct_orders(orders):
        picked = np.flatnonzero(orders == order)
        levels[order] = _merged(
            numbers[starts[picked, None] + np.arange(order)], expected[picked], np.add
        )
    return words_of(ordered), levels


def words_of(ordered: pa.LargeBinaryArray) -> Words:
    """Distinct strings that are in byte order already."""
    data, ends = buffers(ordered)
    return Words.narrow(data[ends[0] : ends[-1]].copy(), ends - ends[0])


def _matches(ngrams: pa.LargeStringArray, pattern: str) -> Bools:
    found: Bools = pc.match_substring_regex(ngrams, pattern).to_numpy(zero_copy_only=False)
    return found


def _merged(rows: Ids, expected: Floats, how: np.ufunc) -> Level:
    """Sorted, each n-gram once; `how` puts the counts of equal ones together."""
    order = np.lexsort(rows.T[::-1])
    rows = rows[order]
    first = np.flatnonzero(
        np.concatenate([[True], (rows[1:] != rows[:-1]).any(axis=1)])[: len(rows)]
    )
    return Level(rows[first], how.reduceat(expected[order], first) if first.size else expected)


def _closed(measured: dict[int, Level], words: int) -> list[Level]:
    """Every order below the longest, so that all prefixes and suffixes are there; the first holds all the words."""
    levels = [measured[max(measured)]]
    for order in range(max(measured) - 1, 0, -1):
        above = levels[0]
        parts = [
            _merged(side, above.expected, np.add)
            for side in (above.rows[:, :-1], above.rows[:, 1:])
        ]
        parts += [measured[order]] if order in measured else []
        parts += (
            [Level(np.arange(words, dtype=np.int32)[:, None], np.zeros(words))]
            if order == 1
            else []
        )
        rows, expected = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("rows", "expected")
        )
        levels.insert(0, _merged(rows, expected, np.maximum))
    return levels


def _unexplained(index: Index, level: Level, longer: Level, lost: float) -> Floats:
    """R(g) = min(E(g), E(g) − Σ_x E(xg) + κ τ T←(g))."""
    suffixes, size = index.links(longer.rows)[1], level.expected.size
    explained = np.bincount(suffixes, longer.expected, size)
    missing = lost * np.bincount(suffixes, minlength=size)
    unexplained: Floats = np.minimum(
        level.expected, np.maximum(level.expected - explained, 0) + missing
    )
    return unexplained


def _leftover(of_contexts: Floats, expected: Floats, parents: Integers, lost: float) -> Floats:
    """L(h) = max(E(h) − Σ_w E(hw), κ τ T→(h))."""
    seen = np.bincount(parents, expected, of_contexts.size)
    leftover: Floats = np.maximum(
        of_contexts - seen, lost * np.bincount(parents, minlength=of_contexts.size)
    )
    return leftover


def _word_probabilities(counted: Floats, lost: float, special: tuple[int, int, int]) -> Floats:
    """p(w) of every word: what the words leave goes to <unk>; <s> is never predicted."""
    start, end, unknown = special
    counts = counted.copy()
    counts[start] = 0.0
    counts[unknown] = max(lost * np.count_nonzero(counts), LEAST * counts.sum())
    probabilities: Floats = counts / counts.sum()
    if counts[end] == 0:
        probabilities *= 1 - END_PROBABILITY
        probabilities[end] = END_PROBABILITY
    return as_stored(probabilities)


def _conditional(unexplained: Floats, leftover: Floats, parents: Integers) -> Floats:
    """p(w|h) = R(hw) / (Σ_w R(hw) + L(h))."""
    seen = np.bincount(parents, unexplained, leftover.size)
    whole = seen + np.maximum(leftover, LEAST * seen)
    return as_stored(unexplained / whole[parents])


def backoff(probability: Floats, lower: Floats, parents: Integers, contexts: int) -> Floats:
    """bow(h) = (1 − Σ p(w|h)) / (1 − Σ p(w|h′)), sums over the continuations that h has; 1 where it has none."""
    left = 1 - np.bincount(parents, probability, contexts)
    below = 1 - np.bincount(parents, lower, contexts)
    factor: Floats = left / below
    return factor


def as_stored(probability: Floats) -> Floats:
    """The probability that its stored logarithm stands for, so that back-off weights make up for the rounding."""
    stored: Floats = 10 ** logs(probability).astype(np.float32).astype(np.float64)
    return np.where(probability > 0, stored, 0.0)


def logs(probability: Floats) -> Floats:
    """log10 p, and −99 for what is never predicted."""
    positive = probability > 0
    return np.where(
        positive, np.log10(probability, where=positive, out=np.zeros_like(probability)), NEVER
    )


LEAST_LEFT = (
    1e-9  # what a context keeps for words that it doesn't list, even if it lists all of them
)
MOST_BACKOFF = (
    1000.0  # so much the rounding of stored probabilities may be multiplied by: 1e-7 stays 1e-4
)


def smaller(trie: Trie, size: int) -> Trie:
    """The model with the `size` n-grams, of all orders together, that are missed most; its words all stay."""
    if size >= trie.word.size - 1:
        return trie
    logs_10 = trie.log_probability.astype(np.float64)
    probabilities: list[Floats] = [
        10.0 ** logs_10[trie.nodes(order)] for order in range(1, trie.order + 1)
    ]
    return refitted(trie, probabilities, pruned(trie, size))


def refitted(trie: Trie, probabilities: list[Floats], kept: list[Bools] | None = None) -> Trie:
    """The n-grams, or those that are kept, with these probabilities; every prefix and suffix stays too."""
    kept = kept or [np.ones(each.size, np.bool_) for each in probabilities]
    levels, found, factors = [trie.rows(1)], [probabilities[0]], []
    places = np.arange(len(trie.words))
    for order in range(2, len(kept) + 1):
        stays, below = kept[order - 1], trie.nodes(order - 1).start
        nodes = np.arange(trie.nodes(order).start, trie.nodes(order).stop)[stays]
        parents, suffixes = places[trie.parents[nodes] - below], places[trie.suffix[nodes] - below]
        made, factor = fitted(
            probabilities[order - 1][stays], found[-1][suffixes], parents, len(levels[-1])
        )
        levels.append(trie.rows(order)[stays])
        found.append(made)
        factors.append(factor)
        places = np.cumsum(stays) - 1
    return connect(
        levels, trie.words, [logs(each) for each in found], [np.log10(each) for each in factors]
    )


def fitted(
    probability: Floats, lower: Floats, parents: Integers, contexts: int
) -> tuple[Floats, Floats]:
    """The probabilities as stored, and the back-off weights that make each context add up to one with them.

    `lower` are those of the n-grams without their first words, `parents` the contexts, of which there are so many.

    Where a context lists nearly all that its shorter one expects, a back-off weight could only be huge: then what it
    lists makes up for the rest.
    """
    below = np.maximum(1 - np.bincount(parents, lower, contexts), LEAST_LEFT)
    listed = np.bincount(parents, probability, contexts)
    left = np.clip(1 - listed, LEAST_LEFT, MOST_BACKOFF * below)
    factor = np.divide(1 - left, listed, out=np.ones(contexts), where=listed > 0)
    stored = as_stored(probability * factor[parents])
    left = np.maximum(1 - np.bincount(parents, stored, contexts), LEAST_LEFT)
    return stored, np.minimum(left / below, MOST_BACKOFF)
