"""A backoff model as a trie of n-grams: its nodes, and what can be asked of it.

Node 0 is the root, nodes 1 to V are the words in byte order, then come the n-grams of order 2, 3, …
The children of a node (its context and one word more) stand together, sorted by word. The suffix of
an n-gram is the same without its first word, which is where backoff goes. A state is the node of
the longest context that a text ends with.

What is kept, in memory and on disk, are the packed arrays (`packed`); plain arrays of all nodes
(`word`, `log_probability`, `suffix`, …) are made when they are first needed. Where the
probabilities come from is not known here: see `estimate` and `kneser_ney`.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from bayesgram.arrays import Bytes, Floats, Ids, Integers, Singles
from bayesgram.errors import BayesgramError
from bayesgram.lm import packed, search
from bayesgram.lm.packed import (
    FLOAT_BITS,
    Codes,
    Layout,
    LevelArrays,
    PackedTrie,
    Words,
    float_bits,
)
from bayesgram.text.ngrams import END, START

UNKNOWN = "<unk>"
LOG_NEVER = -99.0  # log10 p of <s>, which is given and never predicted, as ARPA files write it
# How far the probabilities after a context may be from adding up to one. Seven digits, as other
# tools write them, stay well below.
SUM_TOLERANCE = 1e-4
MAX_NODES = 2**31 - 2  # a node is a 32-bit integer
# Likeliest children that are kept of a large context (see `search.LARGE_CONTEXT`); not measured.
LIKELIEST_CHILDREN = 64
# Likeliest words that are kept: more than are ever looked through, except in odd models.
LIKELIEST_WORDS = 4096


class SpecialWords(NamedTuple):
    """The ids of <s>, </s> and <unk>; −1 where a list of words lacks one."""

    start: int
    end: int
    unknown: int


def find_special(words: Words) -> SpecialWords:
    """Return the ids of <s>, </s> and <unk>."""
    return SpecialWords(
        start=words.find_one(START.encode()),
        end=words.find_one(END.encode()),
        unknown=words.find_one(UNKNOWN.encode()),
    )


@dataclass(frozen=True, eq=False)
class Trie:
    """All n-grams of a model, order by order; see the module."""

    words: Words
    layout: Layout
    records: Bytes
    bases: Codes
    codebooks: Singles

    def __post_init__(self) -> None:
        # Kernels are compiled once, for arrays in memory and for mapped ones alike.
        for array in (self.records, self.bases, self.codebooks, self.words.data, self.words.ends):
            array.setflags(write=False)

    def __reduce__(self) -> tuple[type["Trie"], tuple[Any, ...]]:
        """Pickle no more than the fields: what is cached is made again in the other process."""
        return Trie, (self.words, self.layout, self.records, self.bases, self.codebooks)

    # --- Asking ---

    def find_state(self, words: Ids) -> int:
        """Return the node of the longest context that these words end with."""
        return int(search.find_state(words, self.for_scoring))

    def score(self, stream: Ids) -> tuple[Floats, Ids, Ids]:
        """Score a stream of sentences as word ids; −1 ends a sentence, and there </s> is predicted.

        Returns:
            For everything in the stream: log10 p, the order of the n-gram that was used, and the
            state before it.
        """
        scores: tuple[Floats, Ids, Ids] = search.score_stream(stream, self.for_scoring)
        return scores

    def predict(
        self, state: int, k: int, id_range: tuple[int, int] | None = None
    ) -> tuple[Ids, Floats]:
        """Return the likeliest next words after a context, best first, and their log10 p.

        Args:
            state: The node of the context.
            k: How many words at most.
            id_range: The ids to choose from, or None for all. <s>, </s> and <unk> are never chosen.
        """
        low, high = id_range or (0, len(self.words))
        words, scores = search.predict_words(state, k, low, high, self.for_prediction)
        count = int((words >= 0).sum())
        return words[:count], scores[:count]

    # --- Arrays for kernels ---

    @cached_property
    def for_scoring(self) -> PackedTrie:
        """The arrays that scoring searches."""
        return _make_read_only(
            PackedTrie(
                level_starts=self.level_starts,
                layout=self.layout.table(),
                records=self.records,
                bases=self.bases,
                codebooks=self.codebooks,
                special=np.array(self.special, np.int32),
                likeliest_words=self.likeliest_words,
                large_contexts=np.zeros(0, np.int32),
                likeliest_children=np.zeros((0, LIKELIEST_CHILDREN), np.int32),
            )
        )

    @cached_property
    def for_prediction(self) -> PackedTrie:
        """The same arrays, with the likeliest words after contexts that have many."""
        table = self.layout.table()
        nodes = []
        likeliest = [np.zeros((0, LIKELIEST_CHILDREN), np.int32)]
        for order, place, first, last in search.find_large_contexts(self.for_scoring).tolist():
            logs = packed.unpack_probabilities(
                table[order + 1], first, last, self.records, self.codebooks
            )
            nodes.append(int(self.level_starts[order]) + place)
            likeliest.append(first + _find_largest(logs, LIKELIEST_CHILDREN)[None])
        return _make_read_only(
            self.for_scoring._replace(
                large_contexts=np.array(nodes, np.int32),
                likeliest_children=np.concatenate(likeliest),
            )
        )

    @cached_property
    def likeliest_words(self) -> Ids:
        """The likeliest single words, best first, of equal ones the first in byte order."""
        row, size = self._levels()[0]
        logs = packed.unpack_probabilities(row, 0, size, self.records, self.codebooks)
        return _find_largest(logs, LIKELIEST_WORDS)

    # --- Nodes ---

    @property
    def order(self) -> int:
        """The number of words in the longest n-grams."""
        return self.layout.order

    @cached_property
    def special(self) -> SpecialWords:
        """The ids of <s>, </s> and <unk>."""
        return find_special(self.words)

    @cached_property
    def level_starts(self) -> Integers:
        """Where the nodes of each order begin; order 0 is the root. The last is their end."""
        return self.layout.level_starts

    @property
    def context_count(self) -> int:
        """How many nodes are shorter than the longest n-grams, and so may be contexts."""
        return int(self.level_starts[-2])

    def nodes(self, order: int) -> slice:
        """Return the nodes of one order."""
        return slice(int(self.level_starts[order]), int(self.level_starts[order + 1]))

    def ngrams(self, order: int) -> Ids:
        """Return the n-grams of one order as rows of word ids."""
        nodes = np.arange(self.level_starts[order], self.level_starts[order + 1])
        columns = []
        for _ in range(order):
            columns.append(self.word[nodes])
            nodes = self.parents[nodes]
        return np.stack(columns[::-1], axis=1)

    @cached_property
    def word(self) -> Ids:
        """The last word of each n-gram; −1 for the root."""
        longer = [packed.unpack_words(row, size, self.records) for row, size in self._levels()[1:]]
        return np.concatenate([np.arange(-1, len(self.words), dtype=np.int32), *longer])

    @cached_property
    def log_probability(self) -> Singles:
        """log10 p(last word | the words before); 0 for the root."""
        levels = [
            packed.unpack_probabilities(row, 0, size, self.records, self.codebooks)
            for row, size in self._levels()
        ]
        return np.concatenate([np.zeros(1, np.float32), *levels])

    @cached_property
    def log_backoff(self) -> Singles:
        """log10 of the backoff weight of each node that may be a context."""
        levels = [
            packed.unpack_backoffs(row, size, self.records, self.codebooks)
            for row, size in self._levels()[:-1]
        ]
        return np.concatenate([np.zeros(1, np.float32), *levels])

    @cached_property
    def first_child(self) -> Ids:
        """The first child of each node that may be a context, and where the last one's end."""
        levels = [
            packed.unpack_children(row, size, self.records, self.bases)
            for row, size in self._levels()[:-1]
        ]
        firsts = [
            level[:-1] + start for level, start in zip(levels, self.level_starts[2:-1], strict=True)
        ]
        return np.concatenate([[1], *firsts, self.level_starts[-1:]]).astype(np.int32)

    @cached_property
    def parents(self) -> Ids:
        """The context of every n-gram; the root is its own."""
        sizes = np.diff(self.first_child)
        return np.concatenate(
            [np.zeros(1, np.int32), np.repeat(np.arange(sizes.size, dtype=np.int32), sizes)]
        )

    @cached_property
    def suffix(self) -> Ids:
        """The n-gram without its first word; the root for single words."""
        suffixes: Ids = search.find_suffixes(self.for_scoring)
        return suffixes

    def _levels(self) -> list[tuple[Integers, int]]:
        """Return the layout row of each order from 1, and its number of n-grams."""
        return list(zip(self.layout.table()[1:], self.layout.sizes, strict=True))


def _make_read_only(arrays: PackedTrie) -> PackedTrie:
    for array in arrays:
        array.setflags(write=False)
    return arrays


def _find_largest(values: Singles, k: int) -> Ids:
    """Return the indices of the k largest values, the largest first, of equal ones the first."""
    if values.size > k:
        candidates = np.flatnonzero(values >= np.partition(values, -k)[-k])
    else:
        candidates = np.arange(values.size)
    order = np.argsort(-values[candidates], kind="stable")
    return candidates[order][:k].astype(np.int32)


def sum_contexts(trie: Trie) -> Floats:
    """Return Σ_w p(w|h) over all words but <s>, for the root and every other context h."""
    with np.errstate(over="ignore", invalid="ignore"):  # numbers of a file that may be damaged
        probability = 10 ** trie.log_probability.astype(np.float64)
        probability[1 + trie.special.start] = 0.0
        longer = np.arange(1 + len(trie.words), probability.size)
        parents = trie.parents[longer]
        listed = np.bincount(parents, probability[longer], trie.context_count)
        lower = np.bincount(parents, probability[trie.suffix[longer]], trie.context_count)
        sums: Floats = listed + 10 ** trie.log_backoff.astype(np.float64) * (1 - lower)
        sums[0] = probability[1 : 1 + len(trie.words)].sum()
    return sums


# --- Building ---


class NgramIndex:
    """Finds n-grams among sorted levels of them.

    Args:
        levels: Of order 1, 2, …: the n-grams as rows of word ids, sorted and distinct. The first is
            all words; every prefix of an n-gram is there.
        word_count: How many words there are.
    """

    def __init__(self, levels: list[Ids], word_count: int) -> None:
        self._word_count = word_count
        sizes = [1, word_count, *(len(rows) for rows in levels[1:])]
        self.level_starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        if self.level_starts[-1] > MAX_NODES:
            raise BayesgramError(
                f"{self.level_starts[-1]:,} n-grams: a model holds {MAX_NODES:,}; prune it."
            )
        self._keys: list[Integers] = [np.arange(word_count, dtype=np.int64)]
        self.parents = [np.zeros(word_count, np.int64)]
        for rows in levels[1:]:
            parents = self.find(rows[:, :-1])
            self.parents.append(parents)
            self._keys.append(parents * word_count + rows[:, -1])

    def find(self, rows: Ids) -> Integers:
        """Return the node of each n-gram of one order, −1 where there is none."""
        nodes: Integers = 1 + rows[:, 0].astype(np.int64)
        for level in range(1, rows.shape[1]):
            keys = self._keys[level]
            if not keys.size:
                return np.full(len(rows), -1, np.int64)
            targets = nodes * self._word_count + rows[:, level]
            places = np.minimum(np.searchsorted(keys, targets), keys.size - 1)
            is_known = (keys[places] == targets) & (nodes >= 0)
            nodes = np.where(is_known, self.level_starts[level + 1] + places, -1)
        return nodes

    def find_links(self, rows: Ids) -> tuple[Integers, Integers]:
        """Return the contexts and the suffixes of all n-grams of one order.

        Both are counted from the first n-gram of the order below.
        """
        order = rows.shape[1]
        first = self.level_starts[order - 1]
        return self.parents[order - 1] - first, self.find(rows[:, 1:]) - first


def build_trie(
    levels: list[Ids], words: Words, log_probabilities: list[Floats], log_backoffs: list[Floats]
) -> Trie:
    """Build a trie of n-grams and their values.

    Args:
        levels: Of order 1, 2, …: the n-grams as rows of word ids, sorted and distinct, with every
            prefix and suffix. The first is all words in order.
        words: The words.
        log_probabilities: log10 p of each level.
        log_backoffs: log10 of backoff weights, of each level but the last.
    """
    index = NgramIndex(levels, len(words))
    packable = []
    for order, rows in enumerate(levels, start=1):
        is_longest = order == len(levels)
        first_child = np.zeros(0, np.int64) if is_longest else _find_first_children(index, order)
        backoffs = np.zeros(0) if is_longest else log_backoffs[order - 1]
        packable.append(
            LevelArrays(
                word=np.ascontiguousarray(rows[:, -1], np.int32),
                probabilities=float_bits(log_probabilities[order - 1].astype(np.float32)),
                backoffs=float_bits(backoffs.astype(np.float32)),
                first_child=first_child,
            )
        )
    return pack_trie(words, packable, np.zeros(0, np.float32), (FLOAT_BITS, FLOAT_BITS))


def assemble_trie(
    words: Words,
    last_words: list[Ids],
    parents: list[Integers],
    suffixes: list[Integers],
    log_probabilities: list[Floats],
    log_backoffs: list[Floats],
) -> Trie:
    """Build the trie that `build_trie` builds, of n-grams whose places are known: nothing is found.

    Args:
        words: The words.
        last_words: Of order 1, 2, …: the last word of each n-gram, in order.
        parents: Of order 2, 3, …: the place of each context in the order below, ascending.
        suffixes: The same for each n-gram without its first word.
        log_probabilities: log10 p of each level.
        log_backoffs: log10 of backoff weights, of each level but the last.
    """
    sizes = [column.size for column in last_words]
    starts = np.cumsum([1, *sizes])  # where the nodes of each order begin
    if starts[-1] > MAX_NODES:
        raise BayesgramError(f"{starts[-1]:,} n-grams: a model holds {MAX_NODES:,}; prune it.")
    packable = []
    for level, column in enumerate(last_words):
        is_longest = level == len(last_words) - 1
        first_child = np.zeros(0, np.int64)
        if not is_longest:
            first_child = np.searchsorted(parents[level], np.arange(sizes[level] + 1))
        backoffs = np.zeros(0) if is_longest else log_backoffs[level]
        packable.append(
            LevelArrays(
                word=np.ascontiguousarray(column, np.int32),
                probabilities=float_bits(log_probabilities[level].astype(np.float32)),
                backoffs=float_bits(backoffs.astype(np.float32)),
                first_child=first_child.astype(np.int64),
            )
        )
    trie = pack_trie(words, packable, np.zeros(0, np.float32), (FLOAT_BITS, FLOAT_BITS))
    root = np.zeros(1 + sizes[0], np.int32)  # of the root and of single words
    links = {
        "parents": [places + start for places, start in zip(parents, starts, strict=False)],
        "suffix": [places + start for places, start in zip(suffixes, starts, strict=False)],
    }
    for name, nodes in links.items():  # cached properties, which need not be computed again
        vars(trie)[name] = np.concatenate([root, *nodes]).astype(np.int32)
    return trie


def pack_trie(
    words: Words, levels: list[LevelArrays], codebooks: Singles, bits: tuple[int, int]
) -> Trie:
    """Pack levels into a trie.

    Args:
        words: The words.
        levels: The n-grams of order 1, 2, …
        codebooks: The codebooks of all orders, one after the other.
        bits: The widths of probabilities and of backoff weights, from order 2 on.
    """
    probability_bits, backoff_bits = bits
    layout = Layout(
        sizes=tuple(level.word.size for level in levels),
        probability_bits=probability_bits,
        backoff_bits=backoff_bits,
        child_bits=tuple(packed.child_offset_bits(level.first_child) for level in levels[:-1]),
    )
    records, bases = packed.pack_levels(layout, levels)
    return Trie(Words.from_buffers(words.data, words.ends), layout, records, bases, codebooks)


def _find_first_children(index: NgramIndex, order: int) -> Integers:
    """Return where the children of an order's n-grams begin in the next, and where they end."""
    parents = index.parents[order] - index.level_starts[order]
    size = int(index.level_starts[order + 1] - index.level_starts[order])
    return np.searchsorted(parents, np.arange(size + 1)).astype(np.int64)
