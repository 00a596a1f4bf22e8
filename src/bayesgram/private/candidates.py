"""Candidates of a discovery: n-grams that users write and no public list has.

Of each user the heaviest candidates count, each once however often it was written, and at most
`max_candidates` of them (of equally heavy ones, by a hash of their text). So what a user
contributes is a function of that user's text and of public weights: not of the order of the text,
nor of the numbers that tokens happen to have. No noise is drawn here.

- In one round, `sum_candidates` adds up exactly what all users contribute, and drops sums below a
  floor. Sums that `memory` does not hold are spilled to disk.
- In several rounds, `list_candidates` keeps all users' lists as `CandidateLists`, and
  `CandidateRounds` sums them again in every round, with weights that may depend on noisy answers
  of earlier rounds.

In a round one user contributes a vector with an L2 norm of at most B = UNITS, exactly, in integers.

Lists that `memory` does not hold go to disk, with all that grows with them: nothing is refused for
what people wrote. Candidates have the same numbers, order and sums there, to the last bit:

- To be numbered, windows (the tokens of a candidate) are distributed to LIST_BUCKETS files by the
  upper bits of the hash of their text. Equal windows meet in one file, where they are compared
  token by token, and files follow one another in the order of hashes. So candidates are numbered
  file by file.
- In a round, candidates are taken in blocks of successive numbers. Pairs of a user and a candidate
  look up weights in the blocks, and add units to them, through files (`partitioned_lookup` and
  `partitioned_reduce` in `io.spill`).

Memory then is that of a chunk of pairs, of a bucket and of a block, which are at least 1/128 of
all candidates, beside distinct tokens and users' ids (`streaming`).
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from bayesgram.arrays import Bools, Floats, Hashes, Ids, Integers, Singles
from bayesgram.cores import CORES, parallel_imap
from bayesgram.io import Records
from bayesgram.io.atomic import spill_folder
from bayesgram.io.spill import (
    Lookup,
    SpillableArrays,
    SpillableChunks,
    SpillableColumn,
    SpillBuckets,
    partitioned_lookup,
    partitioned_reduce,
    restore_order,
    spans,
)
from bayesgram.kernels import inlined, kernel, longest_row, mix
from bayesgram.privacy.constants import UNITS
from bayesgram.private.clipping import enforce_norm_bound
from bayesgram.private.counts import order_by_hash, split_users
from bayesgram.private.streaming import PIECE_SIZE, UserTokens, read_user_text
from bayesgram.public.candidate_weights import CandidateWeigher, PublicTextModel
from bayesgram.public.top_ngrams import join_tokens
from bayesgram.text.ngram_tables import WindowNumbers, WindowTable
from bayesgram.text.ngrams import BUCKETS, ngram_orders, spill
from bayesgram.text.strings import StringTable
from bayesgram.text.tokenizer import Tokenizer, buffers

# None of these was measured.
PIECES_PER_CORE = 3  # pieces of text for each core whose candidates wait to be taken
# How many times `max_candidates` are gathered of a user before the lightest are dropped.
GATHER_FACTOR = 4
MIN_TABLE_BYTES = 1 << 22  # of the sums of one order that stay in memory in any case
BUCKETS_LOG2 = 7
LIST_BUCKETS = 1 << BUCKETS_LOG2  # also the most blocks: so many files are open at a time
PAIRS_PER_CHUNK = 1 << 18  # pairs of a user and a candidate
MIN_BLOCK_CANDIDATES = 1 << 14  # of lists on disk
# Bytes that a candidate takes at the most: in a table a third full and a copy of its windows while
# it is numbered; in weights, sums, noise and what a schedule makes of them while rounds go on.
CANDIDATE_BYTES = 96
PAIR_BYTES = 20  # its number before and after a round, and what a chunk of them takes


# --- Each user's heaviest candidates ---


class UserCandidates(NamedTuple):
    """The heaviest candidates of some users: user u has the next sizes[u], heaviest first."""

    tokens: Ids  # of all text of these users
    order_index: Ids  # of each candidate: which of the orders it has
    ends: Integers  # of each candidate: where its last token stands in `tokens`
    log_weights: Floats  # of each candidate
    sizes: Integers  # of each user
    first_user: int = 0  # the place of the first of them among all users, in order of hashes of ids

    def select(
        self, order_index: int, order: int, mask: Bools | None = None
    ) -> tuple[Integers, Ids]:
        """Return the candidates of one order.

        Args:
            order_index: The place of the order among all orders.
            order: The order itself: how many tokens a candidate has.
            mask: Which candidates to select from; all, if there is none.

        Returns:
            The places of the candidates, and the tokens of each, a row a candidate.
        """
        selected = self.order_index == order_index
        places = np.flatnonzero(selected if mask is None else selected & mask)
        return places, self.tokens[self.ends[places][:, None] + np.arange(1 - order, 1)]


@dataclass(frozen=True, eq=False, repr=False)
class CandidateStream:
    """All users' candidates, to be gone through once. Private."""

    tokens: StringTable
    scratch: Path  # a folder that lasts as long as the stream
    batches: Iterator[UserCandidates]

    def __repr__(self) -> str:
        return "CandidateStream(private)"


@contextmanager
def collect_candidates(
    records: Iterable[Records],
    public: PublicTextModel,
    orders: Sequence[int],
    max_candidates: int,
    *,
    memory: int,
    cores: int = CORES,
) -> Iterator[CandidateStream]:
    """Read all text, and select each user's heaviest candidates.

    Args:
        records: The text of all users.
        public: What public text says of any n-gram.
        orders: The lengths of n-grams that are candidates.
        max_candidates: How many candidates a user has at the most.
        memory: Bytes for text that waits; more of it is spilled to disk.
        cores: How many cores read text and select candidates.
    """
    with spill_folder() as scratch:
        tokens = public.new_token_table()
        tokenizer = public.vocabulary.tokenizer
        text = read_user_text(records, tokenizer, tokens, scratch, memory=memory, cores=cores)
        weigher = public.candidate_weigher(tokens, orders)
        batches = _select_candidates(text, weigher, tokens.hashes(), max_candidates, cores)
        yield CandidateStream(tokens, scratch, batches)


def _select_candidates(
    text: Iterable[UserTokens],
    weigher: CandidateWeigher,
    hashes: Hashes,
    max_candidates: int,
    cores: int,
) -> Iterator[UserCandidates]:
    """Yield the heaviest candidates of some users at a time; `hashes` are of the tokens' texts."""
    orders = np.array(weigher.orders, np.int64)

    def select(users: UserTokens) -> UserCandidates:
        weights = weigher.log_weights(users.tokens)
        order_index, ends, sizes = select_heaviest(
            users.starts, users.tokens, orders, weights, hashes, max_candidates
        )
        return UserCandidates(
            users.tokens,
            order_index,
            ends,
            weights[order_index, ends],
            sizes,
            users.first_user,
        )

    return parallel_imap(
        select,
        text,
        size=lambda users: users.tokens.size,
        max_pending=PIECES_PER_CORE * PIECE_SIZE * cores,
        cores=cores,
    )


@kernel
def select_heaviest(
    starts: Integers,
    tokens: Ids,
    orders: Integers,
    log_weights: Floats,
    hashes: Hashes,
    max_candidates: int,
) -> tuple[Ids, Integers, Integers]:
    """Select the heaviest candidates of each user, each once.

    Args:
        starts: Where each user's tokens start, and the last ones end.
        tokens: The text of the users, as numbers.
        orders: The lengths of n-grams that are candidates.
        log_weights: By order and token: of the window of that order that ends with that token.
        hashes: Of the text of each token, by its number.
        max_candidates: How many candidates a user has at the most.

    Returns:
        Of each candidate the index of its order and where it ends; and how many each user has.
    """
    users = starts.size - 1
    longest = longest_row(starts)
    capacity = min(GATHER_FACTOR * max_candidates, longest * orders.size) + 1
    slots = 16
    while slots < 2 * capacity:
        slots *= 2
    table = np.zeros(slots, np.int32)
    places = np.empty(capacity, np.int64)
    keys = np.empty(capacity, np.uint64)
    window_hashes = np.empty(capacity, np.uint64)
    largest_total = np.int64(0)
    for user in range(users):
        largest_total += min(max_candidates, (starts[user + 1] - starts[user]) * orders.size)
    order_index = np.empty(largest_total, np.int32)
    ends = np.empty(largest_total, np.int64)
    sizes = np.zeros(users, np.int64)
    size = 0
    for user in range(users):
        count = _gather(
            starts[user],
            starts[user + 1],
            tokens,
            orders,
            log_weights,
            hashes,
            max_candidates,
            table,
            places,
            keys,
            window_hashes,
        )
        for place in places[:count]:
            order_index[size] = place // tokens.size
            ends[size] = place % tokens.size
            size += 1
        sizes[user] = count
    return order_index[:size].copy(), ends[:size].copy(), sizes


@kernel
def _gather(
    first: int,
    last: int,
    tokens: Ids,
    orders: Integers,
    log_weights: Floats,
    hashes: Hashes,
    max_candidates: int,
    table: Ids,
    places: Integers,
    keys: Hashes,
    window_hashes: Hashes,
) -> int:
    """Write to `places` where the heaviest candidates of a text stand in `log_weights`.

    When there is no room for more, the lightest are dropped. Whatever is lighter than those that
    stay is passed over from then on, so it does not matter that it is forgotten.

    Returns:
        How many candidates there are.
    """
    count = 0
    lightest = np.uint64(0)
    table[:] = 0
    for index in range(orders.size):
        order = orders[index]
        for end in range(first + order - 1, last):
            log_weight = log_weights[index, end]
            if log_weight == -np.inf or _sortable_weight(log_weight) < lightest >> np.uint64(32):
                continue
            window_hash = _hash_window(tokens, end, order, hashes)
            key = _sortable_weight(log_weight) << np.uint64(32) | window_hash >> np.uint64(32)
            slot = _find_slot(window_hash, index, end, order, tokens, table, places)
            if key < lightest or table[slot]:
                continue
            places[count] = index * tokens.size + end
            keys[count] = key
            window_hashes[count] = window_hash
            count += 1
            table[slot] = count
            if count == places.size:
                count = _drop_lightest(count, max_candidates, places, keys, window_hashes)
                lightest = keys[count - 1]
                _refill_table(count, tokens, orders, table, places, window_hashes)
    return _drop_lightest(count, max_candidates, places, keys, window_hashes)


@kernel
def _drop_lightest(
    count: int, max_candidates: int, places: Integers, keys: Hashes, window_hashes: Hashes
) -> int:
    """Sort candidates, the heaviest first, and return how many of them stay."""
    order = np.argsort(keys[:count])[::-1].copy()
    for at in range(1, count):  # equal keys are ordered by the complete hash
        back = at
        while (
            back
            and keys[order[back]] == keys[order[back - 1]]
            and window_hashes[order[back]] > window_hashes[order[back - 1]]
        ):
            order[back], order[back - 1] = order[back - 1], order[back]
            back -= 1
    heaviest = order[:max_candidates]
    places[: heaviest.size] = places[heaviest]
    keys[: heaviest.size] = keys[heaviest]
    window_hashes[: heaviest.size] = window_hashes[heaviest]
    return heaviest.size


@kernel
def _refill_table(
    count: int,
    tokens: Ids,
    orders: Integers,
    table: Ids,
    places: Integers,
    window_hashes: Hashes,
) -> None:
    """Write the table anew, for the candidates that are left."""
    table[:] = 0
    for at in range(count):
        index = places[at] // tokens.size
        end = places[at] % tokens.size
        slot = _find_slot(window_hashes[at], index, end, orders[index], tokens, table, places)
        table[slot] = at + 1


@inlined
def _find_slot(
    window_hash: np.uint64,
    index: int,
    end: int,
    order: int,
    tokens: Ids,
    table: Ids,
    places: Integers,
) -> np.uint64:
    """Return where a window is in the table, or the empty slot where it would be."""
    last = np.uint64(table.size - 1)
    slot = window_hash & last
    while table[slot] and not _is_same_window(places[table[slot] - 1], index, end, order, tokens):
        slot = (slot + np.uint64(1)) & last
    return slot


@inlined
def _hash_window(tokens: Ids, end: int, order: int, hashes: Hashes) -> np.uint64:
    """Return a hash of the text of the window that ends here."""
    window_hash = np.uint64(order)
    for at in range(end - order + 1, end + 1):
        window_hash = mix(window_hash ^ hashes[tokens[at]])
    return window_hash


@kernel
def hash_windows(windows: Ids, hashes: Hashes) -> Hashes:
    """Return the hashes of the texts of windows of one order; `hashes` are of tokens."""
    window_hashes = np.empty(windows.shape[0], np.uint64)
    order = windows.shape[1]
    for row in range(windows.shape[0]):
        window_hashes[row] = _hash_window(windows[row], order - 1, order, hashes)
    return window_hashes


@inlined
def _is_same_window(place: int, index: int, end: int, order: int, tokens: Ids) -> bool:
    """Return whether the window at a place is the one of this order that ends here."""
    if place // tokens.size != index:
        return False
    other = place % tokens.size
    for back in range(order):
        if tokens[other - back] != tokens[end - back]:
            return False
    return True


@inlined
def _sortable_weight(log_weight: float) -> np.uint64:
    """Return a log weight from −512 to 511 as 32 bits that sort alike, to 2⁻²²."""
    return np.uint64(min(max((log_weight + 512.0) * 4194304.0, 0.0), 4294967295.0))


# --- One round ---


@dataclass(frozen=True)
class ContributionBound:
    """What one user can contribute in one round, and which sums are dropped. All public."""

    max_candidates: int  # m: candidates of a user, at the most
    min_units: int  # w₀: units of each of them, at the least
    min_sum: int  # S: units of a sum that is not dropped


@dataclass(frozen=True, eq=False, repr=False)
class Candidates:
    """N-grams whose exact sums reach a floor. Private.

    Their order does not depend on who wrote them.
    """

    ngrams: pa.LargeStringArray
    sums: Integers

    def __repr__(self) -> str:
        return "Candidates(private)"


class CandidateSums:
    """Exact sums over users, of candidates of each order; beyond `memory` they go to disk.

    Args:
        orders: The lengths of n-grams that are candidates.
        tokens: How many distinct tokens there are.
        scratch: A folder for sums that memory does not hold.
        memory: Bytes for sums of all orders.
        cores: How many cores add up.
    """

    def __init__(
        self, orders: Sequence[int], *, tokens: int, scratch: Path, memory: int, cores: int = CORES
    ) -> None:
        self._tables = [WindowTable(order, tokens=tokens, cores=cores) for order in orders]
        self._spilled: list[SpillBuckets | None] = [None] * len(orders)
        self._scratch = scratch
        self._max_table_bytes = max(memory // len(orders), MIN_TABLE_BYTES)

    def add(self, users: UserCandidates, units: Integers) -> None:
        """Add what some users contribute to their candidates."""
        for index, table in enumerate(self._tables):
            places, windows = users.select(index, table.order, units > 0)
            table.merge(windows, units[places])
            if table.largest_size > self._max_table_bytes:
                self._spill(index)

    def entries(self, min_sum: int) -> Iterator[tuple[Ids, Integers]]:
        """Yield candidates whose sums are `min_sum` or more, as rows of tokens, and the sums."""
        for index, table in enumerate(self._tables):
            spilled = self._spilled[index]
            if not spilled:
                yield from table.entries(at_least=min_sum)
                continue
            self._spill(index)
            for bucket in range(BUCKETS):
                table.clear()
                for windows, sums in spilled.drain(bucket):
                    table.merge(windows, sums)
                yield from table.entries(at_least=min_sum)

    def _spill(self, index: int) -> None:
        table = self._tables[index]
        files = self._spilled[index] or SpillBuckets(
            self._scratch, f"sums-{table.order}", buckets=BUCKETS, columns=2
        )
        self._spilled[index] = files
        spill(table, files)


def sum_candidates(
    records: Iterable[Records],
    public: PublicTextModel,
    orders: Sequence[int],
    bound: ContributionBound,
    *,
    memory: int,
) -> Candidates:
    """Add up all users' candidates exactly.

    Formal guarantee: adding or removing one user moves the sums by at most B = UNITS in L2,
    exactly, in integers (before those below the floor are dropped).

    Args:
        records: The text of all users.
        public: What public text says of any n-gram.
        orders: The lengths of n-grams that are candidates.
        bound: What one user can contribute, and which sums are dropped.
        memory: Bytes for text and sums; more of them are spilled to disk.
    """
    nothing = (pa.array([], pa.large_string()), np.zeros(0, np.int64))
    sums = iterate_candidate_sums(records, public, orders, bound, memory=memory)
    return sort_candidates([nothing, *sums], public.vocabulary.tokenizer)


def iterate_candidate_sums(
    records: Iterable[Records],
    public: PublicTextModel,
    orders: Sequence[int],
    bound: ContributionBound,
    *,
    memory: int,
    cores: int = CORES,
) -> Iterator[tuple[pa.LargeStringArray, Integers]]:
    """Yield what `sum_candidates` returns, in any order: n-grams and sums, some at a time.

    Args:
        records: Private text.
        public: Public text, which weighs the candidates.
        orders: The orders of n-grams.
        bound: What one user contributes, and the floor below which sums are dropped.
        memory: The bytes beyond which candidates are spilled to disk.
        cores: The number of threads.
    """
    half = memory // 2
    with collect_candidates(
        records, public, orders, bound.max_candidates, memory=half, cores=cores
    ) as stream:
        sums = CandidateSums(
            orders, tokens=len(stream.tokens), scratch=stream.scratch, memory=half, cores=cores
        )
        for users in stream.batches:
            sums.add(users, single_round_units(users.sizes, users.log_weights, bound.min_units))
        tokens = stream.tokens.strings()
        for windows, units in sums.entries(bound.min_sum):
            yield join_tokens(windows, tokens), units


def sort_candidates(
    parts: Sequence[tuple[pa.LargeStringArray, Integers]], tokenizer: Tokenizer
) -> Candidates:
    """Return candidates of all parts: short ones first, then in byte order.

    Each candidate must be in one part only.
    """
    ngrams = pa.concat_arrays([ngrams for ngrams, _ in parts])
    sums = np.concatenate([units for _, units in parts])
    table = pa.table({"order": ngram_orders(ngrams, tokenizer), "ngram": ngrams, "sum": sums})
    table = table.sort_by([("order", "ascending"), ("ngram", "ascending")])
    # A copy of the sums, as the sampler writes into them.
    return Candidates(table["ngram"].combine_chunks(), table["sum"].to_numpy().copy())


@kernel
def single_round_units(sizes: Integers, log_weights: Floats, min_units: int) -> Integers:
    """Return what every user contributes to each candidate in a single round, Σ units² ≤ B².

    The heaviest candidates of a user get units, as many as get `min_units` or more; others get 0.
    """
    units = np.zeros(log_weights.size, np.int64)
    first = np.int64(0)
    for size in sizes:
        squares = 0.0
        chosen = np.int64(0)
        for at in range(first, first + size):
            weight = np.exp(log_weights[at] - log_weights[first])
            if weight * UNITS < 1.000001 * min_units * np.sqrt(squares + weight * weight):
                break
            squares += weight * weight
            chosen += 1
        for at in range(first, first + chosen):
            weight = np.exp(log_weights[at] - log_weights[first])
            units[at] = np.int64(weight * (UNITS / np.sqrt(squares)))
        enforce_norm_bound(units[first : first + chosen], UNITS)
        first += size
    return units


# --- Several rounds ---


class RoundSums(Protocol):
    """All users' lists while rounds go on."""

    def sums(self, weights: SpillableArrays) -> Iterator[Integers]:
        """Run one round: yield what all users contribute to the candidates, block by block.

        Args:
            weights: Of the candidates of each block; one of weight 0 is dropped for good.
        """


class RoundLists(Protocol):
    """All users' lists of candidates, wherever they are: what several rounds need of them.

    Candidates are numbered in order of the hashes of their texts, whoever wrote them.
    """

    # The first number of each block, and the last plus 1.
    blocks: list[tuple[int, int]]

    def log_weights(self, block: int) -> Singles:
        """Return the log weights of a block's candidates, by public text."""

    def new_array_blocks(self, name: str) -> SpillableArrays:
        """Return room for one array a block."""

    def ngrams(self, chosen: Integers) -> pa.LargeStringArray:
        """Return the texts of some candidates, whose numbers are in ascending order."""

    def start_rounds(self) -> RoundSums:
        """Return the lists as they are before the first round."""


class CandidateLists:
    """Every user's list of candidates, and the weight of each by public text. Private.

    Candidates are numbered in order of the hashes of their texts, whoever wrote them. Values for
    each of them are kept in blocks of successive numbers, one or several.

    Args:
        users: Chunks of two columns: how many candidates each user has, and their numbers, one user
            after the other.
        log_weights: The log weight of each candidate, by public text.
        windows: The tokens of each candidate, plus 1; 0 is after the last.
        tokens: The text of each token.
        scratch: A folder for what rounds write to disk.
        block_size: How many candidates a block has; None for lists in memory, in one block.
    """

    def __init__(
        self,
        users: SpillableChunks,
        log_weights: SpillableColumn,
        windows: SpillableColumn,
        tokens: pa.LargeBinaryArray,
        scratch: Path,
        block_size: int | None = None,
    ) -> None:
        self.users = users
        self.scratch = scratch
        self.on_disk = block_size is not None
        self.block_size = block_size or max(log_weights.size, 1)
        # The first number of each block, and the last plus 1.
        self.blocks = list(spans(log_weights.size, self.block_size)) or [(0, 0)]
        self._log_weights = log_weights
        self._windows = windows
        self._tokens = tokens

    def __repr__(self) -> str:
        return "CandidateLists(private)"

    def __len__(self) -> int:
        """Return how many candidates there are."""
        return self._log_weights.size

    def log_weights(self, block: int) -> Singles:
        """Return the log weights of a block's candidates, by public text."""
        log_weights: Singles = self._log_weights.read(*self.blocks[block])
        return log_weights

    def new_array_blocks(self, name: str) -> SpillableArrays:
        """Return room for one array a block, where the lists are: in memory, or on disk."""
        return SpillableArrays(self.scratch / name if self.on_disk else None)

    def start_rounds(self) -> "CandidateRounds":
        """Return the lists as they are before the first round."""
        return CandidateRounds(self)

    def ngrams(self, chosen: Integers) -> pa.LargeStringArray:
        """Return the texts of some candidates, whose numbers are in ascending order."""
        parts = [self._windows.read(0, 0)]
        for first, last in self.blocks:
            inside = chosen[(chosen >= first) & (chosen < last)]
            if inside.size:
                parts.append(self._windows.read(first, last)[inside - first])
        windows = np.concatenate(parts)
        orders = np.count_nonzero(windows, axis=1)
        texts = [pa.array([], pa.large_string())]
        texts += [
            join_tokens(windows[orders == order, :order] - 1, self._tokens)
            for order in np.unique(orders)
        ]
        places = np.empty(orders.size, np.int64)  # of each candidate among texts by order
        places[np.argsort(orders, kind="stable")] = np.arange(orders.size)
        return pa.concat_arrays(texts).take(pa.array(places))


class CandidateRounds:
    """All users' lists while rounds go on, without the candidates that were dropped on the way."""

    def __init__(self, lists: CandidateLists) -> None:
        self._lists = lists
        self._users = lists.users
        self._rounds_begun = 0

    def sums(self, weights: SpillableArrays) -> Iterator[Integers]:
        """Run one round: yield what all users contribute to the candidates, block by block.

        Formal guarantee: adding or removing one user moves the sums of a round by at most B = UNITS
        in L2, exactly, in integers.

        All weights have been read when the first sums come, so they may be replaced then.

        Args:
            weights: Of the candidates of each block. One of weight 0 is dropped from all lists: it
                gets nothing in this round and in those that follow.
        """
        lists = self._lists
        return partitioned_reduce(
            self._contributions(weights),
            len(lists),
            lists.block_size,
            combine=add_units,
            nothing=np.zeros(1, np.int64),
            folder=lists.scratch,
        )

    def _contributions(self, weights: SpillableArrays) -> Iterator[tuple[Integers, Integers]]:
        """Yield candidates and units of all pairs, chunk by chunk; shorten the lists on the way."""
        lists = self._lists
        self._rounds_begun += 1
        path = lists.scratch / f"users-{self._rounds_begun}" if lists.on_disk else None
        remaining = SpillableChunks(path, columns=2)
        for sizes, candidates, chunk_weights in _weigh_pairs(lists, self._users, weights):
            kept_sizes, kept, kept_weights = remove_dropped(sizes, candidates, chunk_weights)
            remaining.add([kept_sizes, kept])
            yield kept, round_units(kept_sizes, kept_weights)
        if self._rounds_begun > 1:  # the first are those of the lists, which others may use
            self._users.remove()
        self._users = remaining


def _weigh_pairs(
    lists: CandidateLists, users: SpillableChunks, weights: SpillableArrays
) -> Iterator[tuple[Integers, Integers, Floats]]:
    """Yield sizes of users' lists, their candidates, and the weight of each, chunk by chunk."""
    edges = np.array([first for first, _ in lists.blocks])

    def open_block(block: int) -> Lookup:
        values = weights[block]
        first = edges[block]
        return lambda candidates: values[candidates - first]

    keys = (candidates for _, candidates in users)
    pair_weights = partitioned_lookup(keys, edges, open_block, lists.scratch)
    for (sizes, candidates), chunk_weights in zip(users, pair_weights, strict=True):
        yield sizes, candidates, chunk_weights


def sum_within_limits(
    lists: CandidateLists, weights: SpillableArrays, limits: Integers
) -> tuple[Integers, Integers]:
    """Return what all users contribute to each candidate, and the squared norm of each user.

    Formal guarantee: a user contributes a vector with an L2 norm of at most that user's limit,
    exactly, in integers. It depends on no other user.

    Args:
        lists: All users' lists.
        weights: Of the candidates of each block; one of weight 0 gets nothing.
        limits: The largest norm of each user, in the order of the lists; at most B = UNITS.
    """
    squares = np.zeros(limits.size, np.int64)

    def contributions() -> Iterator[tuple[Integers, Integers]]:
        first = 0
        for sizes, candidates, chunk_weights in _weigh_pairs(lists, lists.users, weights):
            last = first + sizes.size
            units, squares[first:last] = limited_units(sizes, chunk_weights, limits[first:last])
            yield candidates, units
            first = last
        if first != limits.size:
            raise AssertionError("every user has a limit")

    sums = partitioned_reduce(
        contributions(),
        len(lists),
        lists.block_size,
        combine=add_units,
        nothing=np.zeros(1, np.int64),
        folder=lists.scratch,
    )
    return np.concatenate([np.zeros(0, np.int64), *sums]), squares


@contextmanager
def list_candidates_with_users(
    records: Iterable[Records],
    public: PublicTextModel,
    orders: Sequence[int],
    max_candidates: int,
    *,
    memory: int,
) -> Iterator[tuple[CandidateLists, pa.LargeBinaryArray]]:
    """Yield what `list_candidates` does, and the id of the user whom each list belongs to.

    Args:
        records: The text of all users.
        public: What public text says of any n-gram.
        orders: The lengths of n-grams that are candidates.
        max_candidates: How many candidates a user has at the most.
        memory: Bytes for text and lists; what they do not hold is on disk while the block lasts.
    """
    names = StringTable()

    def remember_users() -> Iterator[Records]:
        for batch in records:
            names.add(*buffers(batch.user))
            yield batch

    with spill_folder() as scratch:
        window_lists, ranks = _read_lists(
            remember_users(), public, orders, max_candidates, scratch, memory
        )
        ids = names.strings()
        ids = ids.take(pa.array(order_by_hash(ids, names.hashes())[ranks]))
        yield window_lists.number_candidates(), ids


@contextmanager
def list_candidates(
    records: Iterable[Records],
    public: PublicTextModel,
    orders: Sequence[int],
    max_candidates: int,
    *,
    memory: int,
) -> Iterator[CandidateLists]:
    """Read all text and list each user's heaviest candidates.

    Args:
        records: The text of all users.
        public: What public text says of any n-gram.
        orders: The lengths of n-grams that are candidates.
        max_candidates: How many candidates a user has at the most.
        memory: Bytes for text and lists; what they do not hold is on disk while the block lasts.
    """
    with spill_folder() as scratch:
        lists, _ = _read_lists(records, public, orders, max_candidates, scratch, memory)
        yield lists.number_candidates()


def _read_lists(
    records: Iterable[Records],
    public: PublicTextModel,
    orders: Sequence[int],
    max_candidates: int,
    scratch: Path,
    memory: int,
) -> tuple["WindowLists", Integers]:
    """Return users' lists, and the place of each of these users in the order of hashes of ids.

    The text itself is forgotten. Users without any candidate may be left out.
    """
    ranks = [np.zeros(0, np.int64)]
    with collect_candidates(records, public, orders, max_candidates, memory=memory // 2) as stream:
        tokens = stream.tokens
        lists = WindowLists(orders, tokens.strings(), tokens.hashes(), scratch, memory)
        for users in stream.batches:
            windows = _pad_windows(users, orders)
            log_weights = users.log_weights.astype(np.float32)
            starts = np.append(0, np.cumsum(users.sizes))
            for first, last in split_users(starts, int(starts[-1]) // PAIRS_PER_CHUNK + 1):
                pairs = slice(starts[first], starts[last])
                if starts[last] > starts[first]:
                    lists.add(users.sizes[first:last], windows[pairs], log_weights[pairs])
                    ranks.append(users.first_user + np.arange(first, last))
    return lists, np.concatenate(ranks)


class ListedCandidates(NamedTuple):
    """Candidates of one order on the lists of some users, with their texts."""

    users: pa.LargeBinaryArray  # the id of whoever has each candidate
    places: Integers  # on that user's list, the heaviest first
    hashes: Hashes  # of the candidate's text
    ngrams: pa.LargeStringArray
    log_weights: Singles


def iterate_candidate_lists(
    records: Records,
    public: PublicTextModel,
    orders: Sequence[int],
    max_candidates: int,
    *,
    memory: int,
    cores: int = CORES,
) -> Iterator[tuple[int, ListedCandidates]]:
    """Yield what `list_candidates` numbers, in any order: an order, and lists of some users.

    Args:
        records: The text of some users, each complete.
        public: What public text says of any n-gram.
        orders: The lengths of n-grams that are candidates.
        max_candidates: How many candidates a user has at the most.
        memory: Bytes for text; more of it is spilled to disk.
        cores: The number of threads.
    """
    names = StringTable()
    names.add(*buffers(records.user))
    ids = names.strings()
    ids = ids.take(pa.array(order_by_hash(ids, names.hashes())))
    with collect_candidates(
        [records], public, orders, max_candidates, memory=memory, cores=cores
    ) as stream:
        tokens = stream.tokens.strings()
        hashes = stream.tokens.hashes()
        for users in stream.batches:
            owners = np.repeat(np.arange(users.sizes.size), users.sizes)
            starts = np.cumsum(users.sizes) - users.sizes
            for index, order in enumerate(orders):
                places, windows = users.select(index, order)
                yield (
                    order,
                    ListedCandidates(
                        ids.take(pa.array(users.first_user + owners[places])),
                        places - starts[owners[places]],
                        hash_windows(windows, hashes),
                        join_tokens(windows, tokens),
                        users.log_weights[places].astype(np.float32),
                    ),
                )


def _pad_windows(users: UserCandidates, orders: Sequence[int]) -> Ids:
    """Return the tokens of candidates, plus 1, and 0 after the last.

    So windows of all orders fit one table.
    """
    windows = np.zeros((users.order_index.size, max(orders)), np.int32)
    for index, order in enumerate(orders):
        places, tokens = users.select(index, order)
        windows[places, :order] = tokens + 1
    return windows


class WindowLists:
    """Users' lists of windows, which become numbered candidates when all lists are complete.

    As long as memory holds them, windows are numbered in order of appearance. Beyond that they are
    distributed to buckets by the hashes of their texts, and so are all that come later.

    Args:
        orders: The lengths of n-grams that are candidates.
        tokens: The text of each token.
        hashes: The hash of the text of each token.
        scratch: A folder for lists that memory does not hold.
        memory: Bytes for lists.
    """

    def __init__(
        self,
        orders: Sequence[int],
        tokens: pa.LargeBinaryArray,
        hashes: Hashes,
        scratch: Path,
        memory: int,
    ) -> None:
        self._orders = orders
        self._tokens = tokens
        self._hashes = hashes
        self._scratch = scratch
        self._memory = memory
        self._table = self._new_table()
        self._pair_count = 0
        self._pending = SpillableChunks(
            None, columns=3
        )  # sizes of lists, numbers in the table, log weights
        self._buckets: SpillBuckets | None = None

    def add(self, sizes: Integers, windows: Ids, log_weights: Singles) -> None:
        """Add the lists of some users: user u has the next sizes[u] windows."""
        if self._buckets is not None:
            self._distribute(self._buckets, sizes, windows, log_weights)
            return
        self._pending.add([sizes, self._table.add(windows), log_weights])
        self._pair_count += log_weights.size
        if CANDIDATE_BYTES * len(self._table) + PAIR_BYTES * self._pair_count > self._memory:
            self._spill()

    def number_candidates(self) -> CandidateLists:
        """Return the lists with numbered candidates; call it once, after the last list."""
        if self._buckets is None:
            return self._number_in_memory()
        return self._number_on_disk(self._buckets)

    def _new_table(self) -> WindowNumbers:
        return WindowNumbers(max(self._orders), tokens=len(self._tokens) + 1)

    def _spill(self) -> None:
        """Move all lists to disk."""
        rows = self._table.rows()
        self._table = self._new_table()
        self._buckets = SpillBuckets(self._scratch, "windows", buckets=LIST_BUCKETS, columns=2)
        for sizes, numbers, log_weights in self._pending.drain():
            self._distribute(self._buckets, sizes, rows[numbers], log_weights)

    def _distribute(
        self, buckets: SpillBuckets, sizes: Integers, windows: Ids, log_weights: Singles
    ) -> None:
        """Write windows to their buckets, and which buckets these are, in order of the lists."""
        hashes = self._hash_padded(windows)
        bucket_numbers = (hashes >> np.uint64(64 - BUCKETS_LOG2)).astype(np.uint8)
        order = np.argsort(bucket_numbers, kind="stable")
        edges = np.searchsorted(bucket_numbers[order], np.arange(LIST_BUCKETS + 1))
        buckets.add(edges, [windows[order], log_weights[order]])
        self._bucket_numbers.add([sizes, bucket_numbers])

    @property
    def _bucket_numbers(self) -> SpillableChunks:
        """Sizes of lists, and the bucket of each of their windows."""
        return SpillableChunks(self._scratch / "parts", columns=2)

    def _hash_padded(self, windows: Ids) -> Hashes:
        """Return the hashes of the texts of windows of all orders."""
        hashes = np.empty(len(windows), np.uint64)
        orders = np.count_nonzero(windows, axis=1)
        for order in self._orders:
            has_order = orders == order
            hashes[has_order] = hash_windows(windows[has_order, :order] - 1, self._hashes)
        return hashes

    def _sort_windows(self, table: WindowNumbers) -> tuple[Ids, Integers]:
        """Return the windows of a table in order of their hashes, and the place of each number."""
        windows = table.rows()
        order = np.argsort(self._hash_padded(windows), kind="stable")
        places = np.empty(order.size, np.int64)
        places[order] = np.arange(order.size)
        return windows[order], places

    def _number_in_memory(self) -> CandidateLists:
        windows, places = self._sort_windows(self._table)
        del self._table
        users = SpillableChunks(None, columns=2)
        candidate_weights = np.zeros(places.size, np.float32)
        for sizes, numbers, log_weights in self._pending.drain():
            candidates = places[numbers]
            candidate_weights[candidates] = log_weights
            users.add([sizes, candidates])
        window_column, weight_column = self._new_columns(kept_bytes=windows.nbytes)
        window_column.add(windows)
        weight_column.add(candidate_weights)
        return CandidateLists(users, weight_column, window_column, self._tokens, self._scratch)

    def _number_on_disk(self, buckets: SpillBuckets) -> CandidateLists:
        """Number bucket by bucket; then put the numbers back in the order of the lists."""
        answers = SpillBuckets(self._scratch, "numbers", buckets=LIST_BUCKETS, columns=1)
        window_column, weight_column = self._new_columns(kept_bytes=0)
        for bucket in range(LIST_BUCKETS):
            table = self._new_table()
            numbered = SpillableChunks(self._scratch / "numbered", columns=2)
            for bucket_windows, log_weights in buckets.drain(bucket):
                numbered.add([table.add(bucket_windows), log_weights])
            windows, places = self._sort_windows(table)
            del table
            candidate_weights = np.zeros(places.size, np.float32)
            first = window_column.size
            for numbers, log_weights in numbered.drain():
                candidate_weights[places[numbers]] = log_weights
                answers.add_to(bucket, [first + places[numbers]])
            window_column.add(windows)
            weight_column.add(candidate_weights)
        users = SpillableChunks(self._scratch / "users", columns=2)
        bucket_numbers = (numbers for _, numbers in self._bucket_numbers)
        all_candidates = restore_order(bucket_numbers, answers, np.zeros(0, np.int64))
        for (sizes, _), candidates in zip(self._bucket_numbers, all_candidates, strict=True):
            users.add([sizes, candidates])
        self._bucket_numbers.remove()
        block_size = max(
            self._memory // CANDIDATE_BYTES,
            MIN_BLOCK_CANDIDATES,
            -(-window_column.size // LIST_BUCKETS),
        )
        return CandidateLists(
            users, weight_column, window_column, self._tokens, self._scratch, block_size
        )

    def _new_columns(self, *, kept_bytes: int) -> tuple[SpillableColumn, SpillableColumn]:
        """Return columns for the windows and the log weights of candidates, by their numbers."""
        width = max(self._orders)
        return (
            SpillableColumn(
                self._scratch / "candidates", np.int32, width=width, kept_bytes=kept_bytes
            ),
            SpillableColumn(self._scratch / "logs", np.float32, kept_bytes=kept_bytes),
        )


def remove_dropped(
    sizes: Integers, candidates: Integers, weights: Floats
) -> tuple[Integers, Integers, Floats]:
    """Return users' lists without candidates of weight 0, and without users who have no others.

    Args:
        sizes: How many candidates each user has.
        candidates: The numbers of their candidates, one user after the other.
        weights: The weight of each.
    """
    stays = weights > 0
    if stays.all():
        return sizes, candidates, weights
    owners = np.repeat(np.arange(sizes.size), sizes)
    left_sizes = np.bincount(owners[stays], minlength=sizes.size)
    return left_sizes[left_sizes > 0], candidates[stays], weights[stays]


@kernel
def round_units(sizes: Integers, weights: Floats) -> Integers:
    """Return what every user contributes: weights over their norm, in units, Σ units² ≤ B²."""
    units = np.zeros(weights.size, np.int64)
    first = np.int64(0)
    for size in sizes:
        squares = 0.0
        for at in range(first, first + size):
            squares += weights[at] * weights[at]
        if squares > 0.0:
            scale = UNITS / np.sqrt(squares)
            for at in range(first, first + size):
                units[at] = np.int64(weights[at] * scale)
            enforce_norm_bound(units[first : first + size], UNITS)
        first += size
    return units


@kernel
def limited_units(sizes: Integers, weights: Floats, limits: Integers) -> tuple[Integers, Integers]:
    """Return what every user contributes, with a norm of at most a limit, and its squared norm."""
    units = np.zeros(weights.size, np.int64)
    norms = np.zeros(sizes.size, np.int64)
    first = np.int64(0)
    for user in range(sizes.size):
        last = first + sizes[user]
        squares = 0.0
        for at in range(first, last):
            squares += weights[at] * weights[at]
        if squares > 0.0:
            scale = limits[user] / np.sqrt(squares)
            for at in range(first, last):
                units[at] = np.int64(weights[at] * scale)
            norms[user] = enforce_norm_bound(units[first:last], limits[user])
        first = last
    return units, norms


@kernel
def add_units(sums: Integers, candidates: Integers, units: Integers) -> None:
    """Add units to the sums of candidates, which may come several times.

    Faster than `np.add.at`.
    """
    for at in range(candidates.size):
        sums[candidates[at]] += units[at]
