"""What people write that no list has: of each user the heaviest candidates.

In:  users' text as token numbers, the public weight of every window.   Out: the candidates of each user.
Of a user every candidate counts once, however often it was written, and only the `most` heaviest do (of equal ones by a
hash of their text). What a user gives is a function of that user's text and of public weights: not of the order of the
text, nor of the numbers that tokens happen to have. `candidate_sums` adds it up in one round, `candidate_lists` keeps
it for several. Does not draw noise.

One round: what all users give their candidates, added up exactly.

In:  users' candidates, heaviest first.   Out: candidates and exact integer sums, those below a floor dropped.
What one user adds has an L2 norm of at most B = UNITS, exactly, in integers. Sums go to disk beyond `memory`.

Several rounds: all users' lists are kept, as every round asks them again with other weights.

In:  users' candidates.   Out: `CandidateLists`, whose `CandidateRounds` add up what all users give.
What one user adds in a round has an L2 norm of at most B = UNITS, exactly, in integers. It is a
function of that user's text, of public weights, and of noisy answers if there were any before.

Lists that `memory` does not hold go to disk, with all that grows with them: nothing is refused for
what people wrote. Candidates have the same numbers, order and sums there, to the last bit:

- To be numbered, windows are dealt out to BUCKETS files by the upper bits of the hash of their
  text. Equal windows meet in one file, where they are compared token by token, and files follow
  one another in the order of hashes. So candidates are numbered file by file.
- In a round, candidates are taken in blocks of successive numbers. Pairs of a user and a candidate
  ask the blocks for weights, and bring them units, through files (`partitioned_lookup` and `partitioned_reduce` in
  `files.scratch`).

Memory then is that of a chunk of pairs, of a bucket and of a block, which are at least 1/128 of
all candidates, beside distinct tokens and users' ids (`user_text`).
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

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
from bayesgram.private.clipping import UNITS
from bayesgram.private.counts import split_users
from bayesgram.private.streaming import PIECE_SIZE, UserTokens, read_user_text
from bayesgram.public.candidate_weights import CandidateWeigher, PublicTextModel
from bayesgram.public.top_ngrams import join_tokens
from bayesgram.text.ngram_tables import WindowNumbers, WindowTable
from bayesgram.text.ngrams import BUCKETS, ngram_orders, spill
from bayesgram.text.strings import StringTable

BATCH_SIZE = 3  # pieces of text for each core whose candidates are found before they are taken
SPARE = 4  # times as many candidates of a user are gathered before the lightest are dropped


class Kept(NamedTuple):
    """The heaviest candidates of some users: user u has the next sizes[u] of them, heaviest first."""

    tokens: Ids
    which: Ids  # number of its order
    ends: Integers  # where its last token stands
    logs: Floats  # log weight
    sizes: Integers

    def rows(self, number: int, order: int, among: Bools | None = None) -> tuple[Integers, Ids]:
        """Where candidates of an order are, all or some of them, and their tokens."""
        wanted = self.which == number
        mine = np.flatnonzero(wanted if among is None else wanted & among)
        return mine, self.tokens[self.ends[mine][:, None] + np.arange(1 - order, 1)]


@dataclass(frozen=True, eq=False, repr=False)
class CandidateStream:
    """All users' candidates, to be gone through once. Private."""

    tokens: StringTable
    scratch: Path
    kept: Iterator[Kept]

    def __repr__(self) -> str:
        return "UserCandidates(private)"


@contextmanager
def collect_candidates(
    records: Iterable[Records],
    public: PublicTextModel,
    orders: Sequence[int],
    most: int,
    *,
    memory: int,
    cores: int = CORES,
) -> Iterator[CandidateStream]:
    """Read everything, and find what each user has; `memory` is for text that waits."""
    with spill_folder() as scratch:
        tokens, cut = public.new_token_table(), public.vocabulary.tokenizer
        text = read_user_text(records, cut, tokens, scratch, memory=memory, cores=cores)
        yield CandidateStream(
            tokens,
            scratch,
            _kept(text, public.candidate_weigher(tokens, orders), tokens.hashes(), most, cores),
        )


def _kept(
    text: Iterable[UserTokens], novelty: CandidateWeigher, hashes: Hashes, most: int, cores: int
) -> Iterator[Kept]:
    """The heaviest candidates of all users, some users at a time. `hashes` are of the tokens' texts."""
    orders = np.array(novelty.orders, np.int64)

    def keep(users: UserTokens) -> Kept:
        weights = novelty.log_weights(users.tokens)
        which, ends, sizes = heaviest(users.starts, users.tokens, orders, weights, hashes, most)
        return Kept(users.tokens, which, ends, weights[which, ends], sizes)

    return parallel_imap(
        keep,
        text,
        size=lambda users: users.tokens.size,
        max_pending=BATCH_SIZE * PIECE_SIZE * cores,
        cores=cores,
    )


@kernel
def heaviest(
    starts: Integers, tokens: Ids, orders: Integers, logs: Floats, hashes: Hashes, most: int
) -> tuple[Ids, Integers, Integers]:
    """Of each user the heaviest candidates, each once: which order, where they end; and how many each user has."""
    users = starts.size - 1
    longest = longest_row(starts)
    room = min(SPARE * most, longest * orders.size) + 1
    slots = 16
    while slots < 2 * room:
        slots *= 2
    table = np.zeros(slots, np.int32)
    places, keys, hashed = (
        np.empty(room, np.int64),
        np.empty(room, np.uint64),
        np.empty(room, np.uint64),
    )
    widest = np.int64(0)
    for user in range(users):
        widest += min(most, (starts[user + 1] - starts[user]) * orders.size)
    which, ends, sizes = (
        np.empty(widest, np.int32),
        np.empty(widest, np.int64),
        np.zeros(users, np.int64),
    )
    size = 0
    for user in range(users):
        first, last = starts[user], starts[user + 1]
        count = _collect(
            first, last, tokens, orders, logs, hashes, most, table, places, keys, hashed
        )
        for place in places[:count]:
            which[size], ends[size] = place // tokens.size, place % tokens.size
            size += 1
        sizes[user] = count
    return which[:size].copy(), ends[:size].copy(), sizes


@kernel
def _collect(
    first: int,
    last: int,
    tokens: Ids,
    orders: Integers,
    logs: Floats,
    hashes: Hashes,
    most: int,
    table: Ids,
    places: Integers,
    keys: Hashes,
    hashed: Hashes,
) -> int:
    """The heaviest candidates of a text: where they stand in `logs`; and how many there are.

    When there is no room for more, the lightest are dropped. Whatever is lighter than those that stay is passed over
    from then on, so it does not matter that it is forgotten.
    """
    count, lightest = 0, np.uint64(0)
    table[:] = 0
    for number in range(orders.size):
        order = orders[number]
        for end in range(first + order - 1, last):
            log = logs[number, end]
            if log == -np.inf or _level(log) < lightest >> np.uint64(32):
                continue
            whole = _hash_window(tokens, end, order, hashes)
            key = _level(log) << np.uint64(32) | whole >> np.uint64(32)
            slot = _slot(whole, number, end, order, tokens, table, places)
            if key < lightest or table[slot]:
                continue
            places[count], keys[count], hashed[count] = number * tokens.size + end, key, whole
            count += 1
            table[slot] = count
            if count == places.size:
                count = _drop_lightest(count, most, places, keys, hashed)
                lightest = keys[count - 1]
                _enter(count, tokens, orders, table, places, hashed)
    return _drop_lightest(count, most, places, keys, hashed)


@kernel
def _drop_lightest(count: int, most: int, places: Integers, keys: Hashes, hashed: Hashes) -> int:
    """Sort candidates, the heaviest first, and keep the first of them; how many."""
    order = np.argsort(keys[:count])[::-1].copy()
    for at in range(1, count):  # of equal keys, by the whole hash
        back = at
        while (
            back
            and keys[order[back]] == keys[order[back - 1]]
            and hashed[order[back]] > hashed[order[back - 1]]
        ):
            order[back], order[back - 1] = order[back - 1], order[back]
            back -= 1
    kept = order[:most]
    places[: kept.size], keys[: kept.size], hashed[: kept.size] = (
        places[kept],
        keys[kept],
        hashed[kept],
    )
    return kept.size


@kernel
def _enter(
    count: int, tokens: Ids, orders: Integers, table: Ids, places: Integers, hashed: Hashes
) -> None:
    """Write the table anew, for the candidates that are left."""
    table[:] = 0
    for at in range(count):
        number, end = places[at] // tokens.size, places[at] % tokens.size
        table[_slot(hashed[at], number, end, orders[number], tokens, table, places)] = at + 1


@inlined
def _slot(
    hashed: np.uint64, number: int, end: int, order: int, tokens: Ids, table: Ids, places: Integers
) -> np.uint64:
    """Where a window is in the table, or the empty slot where it would be."""
    last = np.uint64(table.size - 1)
    slot = hashed & last
    while table[slot] and not _are_same(places[table[slot] - 1], number, end, order, tokens):
        slot = (slot + np.uint64(1)) & last
    return slot


@inlined
def _hash_window(tokens: Ids, end: int, order: int, hashes: Hashes) -> np.uint64:
    """A hash of the text of the window that ends here."""
    hashed = np.uint64(order)
    for at in range(end - order + 1, end + 1):
        hashed = mix(hashed ^ hashes[tokens[at]])
    return hashed


@kernel
def hash_windows(rows: Ids, hashes: Hashes) -> Hashes:
    """The hashes of the texts of windows."""
    found = np.empty(rows.shape[0], np.uint64)
    for row in range(rows.shape[0]):
        found[row] = _hash_window(rows[row], rows.shape[1] - 1, rows.shape[1], hashes)
    return found


@inlined
def _are_same(place: int, number: int, end: int, order: int, tokens: Ids) -> bool:
    """Whether the window at a place is the one of this order that ends here."""
    if place // tokens.size != number:
        return False
    other = place % tokens.size
    for back in range(order):
        if tokens[other - back] != tokens[end - back]:
            return False
    return True


@inlined
def _level(log: float) -> np.uint64:
    """Orders by weight, to 2⁻²². Logs are from −512 to 511."""
    return np.uint64(min(max((log + 512.0) * 4194304.0, 0.0), 4294967295.0))


@kernel
def enforce_bound(units: Integers) -> None:
    """Where rounding pushed Σ units² over B², the largest entries give way until it is not, in integers."""
    length = np.int64(0)
    for unit in units:
        length += unit * unit
    while length > UNITS * UNITS:
        largest = np.argmax(units)
        length -= 2 * units[largest] - 1
        units[largest] -= 1


SMALLEST_TABLE = 1 << 22  # bytes


@dataclass(frozen=True)
class ContributionBound:
    """What one user can add in one round, and what is dropped of all of them together. All public."""

    most: int  # m: candidates of a user
    smallest: int  # w₀: units of each, at the least
    floor: int  # S: units of a sum that is not dropped


@dataclass(frozen=True, eq=False, repr=False)
class Candidates:
    """N-grams whose exact sums reach a floor, in an order that does not depend on who wrote them. Private."""

    ngrams: pa.LargeStringArray
    sums: Integers

    def __repr__(self) -> str:
        return "Candidates(private)"


class CandidateSums:
    """Exact sums over users, of candidates of each order; beyond `memory` they are spilled to disk."""

    def __init__(
        self, orders: Sequence[int], *, tokens: int, scratch: Path, memory: int, cores: int = CORES
    ) -> None:
        self._tables = [WindowTable(order, tokens=tokens, cores=cores) for order in orders]
        self._spilled: list[SpillBuckets | None] = [None] * len(orders)
        self._scratch, self._limit = scratch, max(memory // len(orders), SMALLEST_TABLE)

    def add(self, kept: Kept, units: Integers) -> None:
        """Add what some users give."""
        for number, table in enumerate(self._tables):
            places, rows = kept.rows(number, table.order, units > 0)
            table.merge(rows, units[places])
            if table.largest_size > self._limit:
                self._spill(number)

    def reaching(self, floor: int) -> Iterator[tuple[Ids, Integers]]:
        """All candidates whose sums reach a floor, as rows of tokens, and their sums."""
        for number, table in enumerate(self._tables):
            spilled = self._spilled[number]
            if not spilled:
                yield from table.entries(at_least=floor)
                continue
            self._spill(number)
            for bucket in range(BUCKETS):
                table.clear()
                for rows, sums in spilled.drain(bucket):
                    table.merge(rows, sums)
                yield from table.entries(at_least=floor)

    def _spill(self, number: int) -> None:
        table = self._tables[number]
        files = self._spilled[number] or SpillBuckets(
            self._scratch, f"sums-{table.order}", buckets=BUCKETS, columns=2
        )
        self._spilled[number] = files
        spill(table, files)


def sum_candidates(
    records: Iterable[Records],
    public: PublicTextModel,
    orders: Sequence[int],
    bound: ContributionBound,
    *,
    memory: int,
) -> Candidates:
    """All users' candidates of these orders, added up exactly."""
    parts = [(pa.array([], pa.large_string()), np.zeros(0, np.int64))]
    return in_order(
        [*parts, *iterate_candidate_sums(records, public, orders, bound, memory=memory)]
    )


def iterate_candidate_sums(
    records: Iterable[Records],
    public: PublicTextModel,
    orders: Sequence[int],
    bound: ContributionBound,
    *,
    memory: int,
    cores: int = CORES,
) -> Iterator[tuple[pa.LargeStringArray, Integers]]:
    """The same in any order, some at a time."""
    with collect_candidates(
        records, public, orders, bound.most, memory=memory // 2, cores=cores
    ) as found:
        known, scratch = len(found.tokens), found.scratch
        sums = CandidateSums(orders, tokens=known, scratch=scratch, memory=memory // 2, cores=cores)
        for kept in found.kept:
            sums.add(kept, single_round_units(kept.sizes, kept.logs, bound.smallest))
        tokens = found.tokens.strings()
        for rows, units in sums.reaching(bound.floor):
            yield join_tokens(rows, tokens), units


def in_order(parts: Sequence[tuple[pa.LargeStringArray, Integers]]) -> Candidates:
    """Candidates of all parts: short ones first, then in byte order. Each stands in one part."""
    ngrams, sums = (
        pa.concat_arrays([ngrams for ngrams, _ in parts]),
        np.concatenate([units for _, units in parts]),
    )
    whole = pa.table({"order": ngram_orders(ngrams), "ngram": ngrams, "sum": sums})
    whole = whole.sort_by([("order", "ascending"), ("ngram", "ascending")])
    return Candidates(
        whole["ngram"].combine_chunks(), whole["sum"].to_numpy().copy()
    )  # writable, as the sampler wants


@kernel
def single_round_units(sizes: Integers, logs: Floats, smallest: int) -> Integers:
    """What every user gives, Σ units² ≤ B²: the heaviest first, as many as are not below the smallest; 0 the others."""
    units = np.zeros(logs.size, np.int64)
    first = np.int64(0)
    for size in sizes:
        squares, kept = 0.0, np.int64(0)
        for at in range(first, first + size):
            weight = np.exp(logs[at] - logs[first])
            if weight * UNITS < 1.000001 * smallest * np.sqrt(squares + weight * weight):
                break
            squares += weight * weight
            kept += 1
        for at in range(first, first + kept):
            units[at] = np.int64(np.exp(logs[at] - logs[first]) * (UNITS / np.sqrt(squares)))
        enforce_bound(units[first : first + kept])
        first += size
    return units


BUCKETS_LOG2 = 7
LIST_BUCKETS = 1 << BUCKETS_LOG2  # also the most blocks: so many files are open at a time
PAIRS_AT_ONCE = 1 << 18  # pairs of a user and a candidate in a chunk
# Bytes that a candidate takes at the most: in a table a third full and a copy of its windows while
# it is numbered; in weights, sums, noise and what a schedule makes of them while rounds go on.
CANDIDATE_BYTES = 96
PAIR_BYTES = 20  # its number before and after a round, and what a chunk of them takes
FEWEST_CANDIDATES = 1 << 14  # in a block


class CandidateLists:
    """Every user's list of candidates, and how much public text expects of each. Private.

    Candidates are numbered in order of the hashes of their texts, whoever wrote them. What there is
    for each of them is in blocks of successive numbers, one or several.

    Args:
        users: Chunks of two columns: how many candidates each user has, and their numbers, one user
            after the other.
        logs: The log weight of each candidate, by public text.
        windows: The tokens of each candidate, plus 1; 0 is after the last.
        tokens: The text of each token.
        scratch: A folder for what rounds write to disk.
        block_size: How many candidates a block has; None for lists in memory, in one block.
    """

    def __init__(
        self,
        users: SpillableChunks,
        logs: SpillableColumn,
        windows: SpillableColumn,
        tokens: pa.LargeBinaryArray,
        scratch: Path,
        block_size: int | None = None,
    ) -> None:
        self.users = users
        self.scratch = scratch
        self.on_disk = block_size is not None
        self.block_size = block_size or max(logs.size, 1)
        self.blocks = list(spans(logs.size, self.block_size)) or [
            (0, 0)
        ]  # first number, and last plus 1
        self._logs = logs
        self._windows = windows
        self._tokens = tokens

    def __repr__(self) -> str:
        return "CandidateLists(private)"

    def __len__(self) -> int:
        """How many candidates there are."""
        return self._logs.size

    def logs(self, block: int) -> Singles:
        """The log weights of a block's candidates, by public text."""
        logs: Singles = self._logs.read(*self.blocks[block])
        return logs

    def values(self, name: str) -> SpillableArrays:
        """Room for one array a block, where the lists are: in memory, or on disk."""
        return SpillableArrays(self.scratch / name if self.on_disk else None)

    def ngrams(self, chosen: Integers) -> pa.LargeStringArray:
        """The texts of some candidates, whose numbers are in ascending order."""
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
        back = np.empty(orders.size, np.int64)
        back[np.argsort(orders, kind="stable")] = np.arange(orders.size)
        return pa.concat_arrays(texts).take(pa.array(back))


class CandidateRounds:
    """Everybody's lists while rounds go on, without the candidates that were dropped on the way."""

    def __init__(self, lists: CandidateLists) -> None:
        self._lists = lists
        self._users = lists.users
        self._begun = 0  # rounds

    def sums(self, weights: SpillableArrays) -> Iterator[Integers]:
        """One round: what all users give to the candidates, block by block.

        Every user gives what these weights make of the own list, with a norm of B at the most. All
        weights have been read when the first sums come, so they may be replaced then.

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
        """Candidates and units of all pairs, chunk by chunk; shortens the lists on the way."""
        lists = self._lists
        edges = np.array([first for first, _ in lists.blocks])

        def opened(block: int) -> Lookup:
            values = weights[block]
            first = edges[block]
            return lambda candidates: values[candidates - first]

        self._begun += 1
        kept = SpillableChunks(
            lists.scratch / f"users-{self._begun}" if lists.on_disk else None, columns=2
        )
        asked = (candidates for _, candidates in self._users)
        for (sizes, candidates), own in zip(
            self._users, partitioned_lookup(asked, edges, opened, lists.scratch), strict=True
        ):
            left_sizes, left, left_weights = remove_dropped(sizes, candidates, own)
            kept.add([left_sizes, left])
            yield left, round_units(left_sizes, left_weights)
        if self._begun > 1:  # the first are those of the lists, which may be asked by others
            self._users.remove()
        self._users = kept


@contextmanager
def list_candidates(
    records: Iterable[Records],
    public: PublicTextModel,
    orders: Sequence[int],
    most: int,
    *,
    memory: int,
) -> Iterator[CandidateLists]:
    """Read all text and list what each user has.

    Args:
        records: The text of all users.
        public: What public text says of any n-gram.
        orders: The lengths of n-grams that are candidates.
        most: How many candidates a user has at the most.
        memory: Bytes for text and lists; what they do not hold is on disk while the block lasts.
    """
    with spill_folder() as scratch:
        yield _read(records, public, orders, most, scratch, memory).numbered(memory)


def _read(
    records: Iterable[Records],
    public: PublicTextModel,
    orders: Sequence[int],
    most: int,
    scratch: Path,
    memory: int,
) -> "WindowLists":
    """All users' lists; the text itself is forgotten."""
    with collect_candidates(records, public, orders, most, memory=memory // 2) as found:
        lists = WindowLists(orders, found.tokens.strings(), found.tokens.hashes(), scratch, memory)
        for kept in found.kept:
            windows = _windows_of(kept, orders)
            logs = kept.logs.astype(np.float32)
            starts = np.append(0, np.cumsum(kept.sizes))
            for first, last in split_users(starts, int(starts[-1]) // PAIRS_AT_ONCE + 1):
                pairs = slice(starts[first], starts[last])
                if starts[last] > starts[first]:
                    lists.add(kept.sizes[first:last], windows[pairs], logs[pairs])
    return lists


def _windows_of(kept: Kept, orders: Sequence[int]) -> Ids:
    """The tokens of candidates, plus 1, and 0 after the last: windows of all orders fit one table."""
    windows = np.zeros((kept.which.size, max(orders)), np.int32)
    for number, order in enumerate(orders):
        places, rows = kept.rows(number, order)
        windows[places, :order] = rows + 1
    return windows


class WindowLists:
    """Users' lists of windows, whose numbers as candidates follow when all of them are there.

    As long as memory holds them, windows are numbered in order of appearance. Beyond that they are
    dealt out to buckets by the hashes of their texts, and so are all that come later.
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
        self._pairs = 0
        self._waiting = SpillableChunks(
            None, columns=3
        )  # sizes of lists, numbers in the table, log weights
        self._buckets: SpillBuckets | None = None

    def add(self, sizes: Integers, windows: Ids, logs: Singles) -> None:
        """Add the lists of some users: user u has the next sizes[u] windows."""
        if self._buckets is not None:
            self._deal_out(self._buckets, sizes, windows, logs)
            return
        self._waiting.add([sizes, self._table.add(windows), logs])
        self._pairs += logs.size
        if CANDIDATE_BYTES * len(self._table) + PAIR_BYTES * self._pairs > self._memory:
            self._spill()

    def numbered(self, memory: int) -> CandidateLists:
        """Number the candidates; used up by it."""
        if self._buckets is None:
            return self._numbered_in_memory()
        return self._numbered_on_disk(self._buckets, memory)

    def _new_table(self) -> WindowNumbers:
        return WindowNumbers(max(self._orders), tokens=len(self._tokens) + 1)

    def _spill(self) -> None:
        """Move all lists to disk."""
        rows = self._table.rows()
        self._table = self._new_table()
        self._buckets = SpillBuckets(self._scratch, "windows", buckets=LIST_BUCKETS, columns=2)
        for sizes, numbers, logs in self._waiting.drain():
            self._deal_out(self._buckets, sizes, rows[numbers], logs)

    def _deal_out(
        self, buckets: SpillBuckets, sizes: Integers, windows: Ids, logs: Singles
    ) -> None:
        """Write windows to their buckets, and which buckets these are, in order of the lists."""
        parts = (self._hash(windows) >> np.uint64(64 - BUCKETS_LOG2)).astype(np.uint8)
        order = np.argsort(parts, kind="stable")
        edges = np.searchsorted(parts[order], np.arange(LIST_BUCKETS + 1))
        buckets.add(edges, [windows[order], logs[order]])
        self._parts.add([sizes, parts])

    @property
    def _parts(self) -> SpillableChunks:
        return SpillableChunks(self._scratch / "parts", columns=2)

    def _hash(self, windows: Ids) -> Hashes:
        """The hashes of the texts of windows."""
        found = np.empty(len(windows), np.uint64)
        orders = np.count_nonzero(windows, axis=1)
        for order in self._orders:
            found[orders == order] = hash_windows(
                windows[orders == order, :order] - 1, self._hashes
            )
        return found

    def _in_order(self, table: WindowNumbers) -> tuple[Ids, Integers]:
        """The windows of a table in order of their hashes, and the place of each by its number there."""
        rows = table.rows()
        order = np.argsort(self._hash(rows), kind="stable")
        places = np.empty(order.size, np.int64)
        places[order] = np.arange(order.size)
        return rows[order], places

    def _numbered_in_memory(self) -> CandidateLists:
        rows, places = self._in_order(self._table)
        del self._table
        users = SpillableChunks(None, columns=2)
        weights = np.zeros(places.size, np.float32)
        for sizes, numbers, logs in self._waiting.drain():
            candidates = places[numbers]
            weights[candidates] = logs
            users.add([sizes, candidates])
        windows, log_weights = self._columns(kept_bytes=rows.nbytes)
        windows.add(rows)
        log_weights.add(weights)
        return CandidateLists(users, log_weights, windows, self._tokens, self._scratch)

    def _numbered_on_disk(self, buckets: SpillBuckets, memory: int) -> CandidateLists:
        """Number bucket by bucket; then put the numbers back in the order of the lists."""
        answers = SpillBuckets(self._scratch, "numbers", buckets=LIST_BUCKETS, columns=1)
        windows, log_weights = self._columns(kept_bytes=0)
        for bucket in range(LIST_BUCKETS):
            table = self._new_table()
            numbered = SpillableChunks(self._scratch / "numbered", columns=2)
            for bucket_windows, logs in buckets.drain(bucket):
                numbered.add([table.add(bucket_windows), logs])
            rows, places = self._in_order(table)
            del table
            weights = np.zeros(places.size, np.float32)
            first = windows.size
            for numbers, logs in numbered.drain():
                weights[places[numbers]] = logs
                answers.add_to(bucket, [first + places[numbers]])
            windows.add(rows)
            log_weights.add(weights)
        users = SpillableChunks(self._scratch / "users", columns=2)
        asked = (parts for _, parts in self._parts)
        found = restore_order(asked, answers, np.zeros(0, np.int64))
        for (sizes, _), candidates in zip(self._parts, found, strict=True):
            users.add([sizes, candidates])
        self._parts.remove()
        block_size = max(
            memory // CANDIDATE_BYTES, FEWEST_CANDIDATES, -(-windows.size // LIST_BUCKETS)
        )
        return CandidateLists(users, log_weights, windows, self._tokens, self._scratch, block_size)

    def _columns(self, *, kept_bytes: int) -> tuple[SpillableColumn, SpillableColumn]:
        """For the windows and log weights of candidates, by their numbers."""
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
    """Users' lists and weights without candidates of weight 0, and without users who have no others."""
    stays = weights > 0
    if stays.all():
        return sizes, candidates, weights
    owners = np.repeat(np.arange(sizes.size), sizes)
    left = np.bincount(owners[stays], minlength=sizes.size)
    return left[left > 0], candidates[stays], weights[stays]


@kernel
def round_units(sizes: Integers, weights: Floats) -> Integers:
    """What every user gives: weights over their norm, in units, so that Σ units² ≤ B² for each user."""
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
            enforce_bound(units[first : first + size])
        first += size
    return units


@kernel
def add_units(sums: Integers, candidates: Integers, units: Integers) -> None:
    """Add units to the sums of candidates, which may come several times; faster than `np.add.at`."""
    for at in range(candidates.size):
        sums[candidates[at]] += units[at]
