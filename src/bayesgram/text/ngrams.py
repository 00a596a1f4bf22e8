"""N-grams of scanned text: what both the vocabulary and the counts are made with.

In:  Arrow arrays of valid UTF-8, a `Tokenizer`.   Out: streams of token numbers, and windows of them.
No window crosses a sentence end or a row; with boundaries, a sentence begins with <s> and ends with </s>.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arrays import Ids, Integers
from bayesgram.cores import CORES, parallel_imap, parallel_map
from bayesgram.errors import UsageError
from bayesgram.io.spill import SpillBuckets, SpillStreams
from bayesgram.kernels import kernel
from bayesgram.text.ngram_tables import (
    MOST_TOKENS,
    CountMinSketch,
    SortedWindows,
    WindowIndex,
    WindowTable,
    are_sortable,
)
from bayesgram.text.row_hashes import RowSample
from bayesgram.text.strings import EMPTY, LookupResult, StringTable
from bayesgram.text.tokenizer import CHUNK_BYTES, Tokenizer, buffers, chunks

Owned = tuple[pa.LargeBinaryArray, Ids]  # texts, and a number for the owner of each

MAX_ORDER = 6
FEW_TOKENS = 1000
SMALLEST = 1 << 22  # bytes of a table that is always kept
SORTED_BYTES = 96  # that a token takes where three orders are sorted
BUCKETS = 64
CHUNKS_BEGUN = 8  # chunks of text for each core that are being looked through, or wait to be used
CELLS = 1 << 22  # as many bytes: they stay in the processor's cache
TOKENS_PER_CELL = 8  # at most, where there is memory for more cells
DEEP = 32  # tokens a cell that a cell of one byte is too small for
REPEATS = 3  # how often an n-gram occurs at least in text that repeats itself, on average
START, END = "<s>", "</s>"


def check_order(order: int, *, name: str = "order") -> int:
    """The order, if it is one; `name` is what the argument is called."""
    if not 1 <= order <= MAX_ORDER:
        raise UsageError.for_argument(name, order, f"an n-gram has 1 to {MAX_ORDER} tokens.")
    return order


def ngram_orders(ngrams: pa.LargeStringArray) -> Integers:
    """How many tokens each n-gram has."""
    spaces: Integers = pc.count_substring(ngrams, " ").to_numpy().astype(np.int64)
    return spaces + 1


def distinct_orders(orders: Integers | Ids) -> list[int]:
    """The orders that there are, ascending; np.unique sorts, and loads masked arrays to ask whether these are.

    >>> distinct_orders(np.array([3, 1, 3]))
    [1, 3]
    """
    present: list[int] = np.flatnonzero(np.bincount(orders)).tolist()
    return present


class NgramCounter:
    """Counts n-grams of these orders in text that is added batch by batch, exactly.

    The text is kept as token numbers, and counted when it is all there. Where that is more than `memory` holds, text
    that repeats itself is counted as it comes; other text waits in the scratch folder, as do tables that are too large.

    Several texts can be counted apart in the same token numbers: each has a counter and a scratch folder of its own,
    they share `tokens`, and `texts` says how many share the memory. Their text is never counted as it comes, so that it
    can be asked as often as one likes.

    With `unknown`, the number of one of the `tokens`, these are all there are: every other token of the text is that
    one, and so are a <s> and a </s> that stand in it.

    `rows` gets the hashes of the text's rows.
    """

    def __init__(
        self,
        orders: Sequence[int],
        tokenizer: Tokenizer,
        *,
        scratch: Path | None = None,
        memory: int = 1 << 62,
        cores: int = CORES,
        tokens: StringTable | None = None,
        texts: int = 1,
        unknown: int | None = None,
        rows: RowSample | None = None,
    ) -> None:
        self.tokenizer, self._unknown = tokenizer, unknown
        self._rows = rows
        self.tokens = StringTable() if tokens is None else tokens
        self._marks = add_marks(self.tokens) if tokenizer.boundaries else None
        self._orders = [check_order(order) for order in orders]
        self._streams = SpillStreams(scratch)
        self._counted: dict[int, WindowTable] = {}
        self._sorted: dict[int, SortedWindows] = {}
        self._spilled: dict[int, SpillBuckets] = {}
        self._memory, self._scratch, self._cores = max(memory // 2, SMALLEST), scratch, cores
        self._kept_at_most, self._is_asked_again = self._memory // 4 * 3 // texts, texts > 1

    def add(self, texts: pa.LargeBinaryArray) -> None:
        """Take the tokens of these rows: cut on all cores, number new ones on one."""
        self._sorted.clear()
        parts = list(chunks(texts))
        few = (
            1 if len(self.tokens) < FEW_TOKENS else 0
        )  # the first chunk has the tokens that most others are made of
        for some in (parts[:few], parts[few:]):
            for found in parallel_map(self._found, some, cores=self._cores):
                stream = self._numbered(found)
                self._streams.add(
                    with_boundaries(stream, *self._marks)[0] if self._marks else stream
                )
        if self._counted or (self._scratch and self._streams.kept_bytes > self._kept_at_most):
            self._grow()

    def _found(self, texts: pa.LargeBinaryArray) -> LookupResult:
        """The numbers of a chunk's tokens, as far as they have one, and the others."""
        data, offsets, row_ends = self.tokenizer.tokenize(texts)
        if self._rows is not None:
            self._rows.add_rows(data, offsets, row_ends)
        return self.tokens.look_up(data, offsets)

    def _numbered(self, found: LookupResult) -> Ids:
        """The numbers of all tokens of a chunk."""
        if self._unknown is None:
            return self.tokens.add_unknown(found)
        numbers = found.numbers
        numbers[found.unknown] = self._unknown
        for mark in self._marks or ():
            numbers[numbers == mark] = self._unknown
        return numbers

    def _grow(self) -> None:
        """Count the text that is in memory, or move it to disk: decided by the first text there is too much of."""
        if (
            not self._counted
            and not self._streams.on_disk
            and all(map(self._is_repetitive, self._orders))
        ):
            self._counted = {order: self._table(order) for order in self._orders}
        if not self._counted:
            self._streams.to_disk()
            return
        for streams in self._streams:
            for order, table in self._counted.items():
                self._counted[order] = self._added(table, streams, CountMinSketch.unbounded(), 1)
        self._streams.clear()

    def _is_repetitive(self, order: int) -> bool:
        """Whether the first text has few different n-grams: those of characters, or of a small language."""
        if self._is_asked_again:
            return False
        table = self._table(order)
        first = next(iter(self._streams))
        table.add(first, CountMinSketch.unbounded())
        return len(table) * REPEATS < sum(stream.size for stream in first)

    def windows(self, order: int) -> int:
        """How many n-grams of an order there are, repeats included; <s> alone is none. For text that is kept."""
        total = 0
        for ids in chain.from_iterable(self._streams):
            lengths = np.diff(np.flatnonzero(ids < 0), prepend=-1, append=ids.size) - 1
            total += int(np.maximum(lengths - order + 1, 0).sum())
            if self._marks and order == 1:
                total -= int(np.count_nonzero(ids == self._marks[0]))
        return total

    def counts_of(self, index: WindowIndex, size: int) -> Integers:
        """How often the n-grams of an index occur, whose numbers are below `size`. For text that is kept."""
        counts, owner = np.zeros(size, np.int64), np.zeros(1, np.int32)
        for streams in self._streams:
            found = parallel_map(
                lambda ids: index.find(ids, np.array([ids.size]), owner)[1],
                streams,
                cores=self._cores,
            )
            counts += np.bincount(np.concatenate(found), minlength=size)
        return counts

    def sorted_windows(self, order: int) -> SortedWindows | None:
        """The n-grams of an order, sorted; nothing where there is too much text for that, or they are too long."""
        most = min(MOST_TOKENS, self._memory // SORTED_BYTES)
        if self._counted or self._streams.size > most or not are_sortable(order, len(self.tokens)):
            return None
        if order not in self._sorted:
            streams = chain.from_iterable(self._streams)
            self._sorted[order] = SortedWindows(streams, order, tokens=len(self.tokens))
        return self._sorted[order]

    def bounds(self, order: int) -> CountMinSketch | None:
        """At most how often an n-gram occurs; nothing if they are counted already, or will be at once."""
        if self._counted or self.sorted_windows(order) is not None:
            return None
        tokens, most = self._streams.size, self._memory // 4 // self._cores
        cells = min(max(tokens // TOKENS_PER_CELL, min(tokens, CELLS)), most)
        deep = tokens > DEEP * cells
        cells = cells // 2 if deep else cells  # in the same memory
        bounds = CountMinSketch(
            order, tokens=len(self.tokens), cells=cells, deep=deep, cores=self._cores
        )
        for streams in self._streams:
            bounds.add(streams)
        return bounds

    def tables(
        self, order: int, bounds: CountMinSketch | None = None, *, at_least: int = 1
    ) -> Iterator[WindowTable | SortedWindows]:
        """The counts of all n-grams of an order that reach a count, and of some others.

        They come in one table, or a bucket at a time where they did not fit in memory: equal ones in the same.
        """
        ordered = self.sorted_windows(order)
        if ordered is not None:
            yield ordered
            return
        if self._counted:
            table = self._counted[order]
        else:
            table = self._table(order)
            for streams in self._streams:
                table = self._added(table, streams, bounds or CountMinSketch.unbounded(), at_least)
        spilled = self._spilled.pop(order, None)
        if not spilled:
            yield table
            return
        spill(table, spilled)
        for bucket in range(BUCKETS):
            table = self._table(order)
            for rows, counts in spilled.taken(bucket):
                table.merge(rows, counts)
            yield table

    def _table(self, order: int) -> WindowTable:
        return WindowTable(order, tokens=len(self.tokens), cores=self._cores)

    def _added(
        self, table: WindowTable, streams: Sequence[Ids], bounds: CountMinSketch, at_least: int
    ) -> WindowTable:
        """The table with the n-grams of more text; or an empty one, if they are on disk now."""
        table = table.widen_keys(len(self.tokens))
        table.add(streams, bounds, at_least=at_least)
        if self._scratch and table.largest_size > self._memory:
            name = f"windows-{table.order}"
            spilled = self._spilled.setdefault(
                table.order, SpillBuckets(self._scratch, name, buckets=BUCKETS, columns=2)
            )
            spill(table, spilled)
        return table


def spill(table: WindowTable, spilled: SpillBuckets) -> None:
    """Move a table to disk, dealt out by hash."""
    for edges, rows, counts in table.partition(BUCKETS):
        spilled.add(edges, [rows, counts])
    table.clear()


class NgramMatcher:
    """Finds the n-grams of a fixed list (tokens joined by single spaces) in text.

    Its numbers are the list's row numbers; where the list has an n-gram twice, the first.
    """

    def __init__(self, ngrams: pa.LargeStringArray, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._tokens = StringTable()
        self._marks = add_marks(self._tokens) if tokenizer.boundaries else None
        orders = ngram_orders(ngrams)
        self._lists = [self._list(ngrams, orders, order) for order in distinct_orders(orders)]
        self.repeated = len(ngrams) - sum(map(len, self._lists))  # that stand there again

    def _list(self, ngrams: pa.LargeStringArray, orders: Integers, order: int) -> WindowIndex:
        """The n-grams of one order."""
        rows = np.flatnonzero(orders == order)
        tokens = (
            pc.split_pattern(ngrams.take(pa.array(rows)), " ").flatten().cast(pa.large_binary())
        )
        ids = self._tokens.add(*buffers(tokens)).reshape(-1, check_order(order))
        return WindowIndex(ids, rows.astype(np.int32), tokens=len(self._tokens))

    def match(
        self, batches: Iterable[Owned], *, cores: int = CORES, rows: RowSample | None = None
    ) -> Iterator[tuple[Ids, Ids]]:
        """(owner of the row, n-gram) of every occurrence in order, a chunk of rows and an order at a time.

        `rows` gets the hashes of the rows.
        """
        parts = (
            (part, owners[part.offset - texts.offset :])
            for texts, owners in batches
            for part in chunks(texts)
        )
        room = CHUNKS_BEGUN * cores * CHUNK_BYTES
        for found in parallel_imap(
            partial(self._found, rows=rows),
            parts,
            size=lambda part: part[0].nbytes,
            max_pending=room,
            cores=cores,
        ):
            yield from found

    def _found(self, part: Owned, rows: RowSample | None) -> list[tuple[Ids, Ids]]:
        """What is in a chunk of rows, with the owners of these rows."""
        texts, owners = part
        data, offsets, ends = self.tokenizer.tokenize(texts)
        if rows is not None:
            rows.add_rows(data, offsets, ends)
        stream = self._tokens.find(data, offsets)
        if self._marks:
            stream, lengths = with_boundaries(stream, *self._marks)
            ends = lengths[ends]
        return [listed.find(stream, ends, owners) for listed in self._lists]


def add_marks(tokens: StringTable) -> tuple[int, int]:
    """The numbers of <s> and </s>."""
    start, end = tokens.add(*buffers(pa.array([START.encode(), END.encode()], pa.large_binary())))
    return int(start), int(end)


@kernel
def with_boundaries(ids: Ids, start_mark: int, end_mark: int) -> tuple[Ids, Integers]:
    """The stream with a mark before and after each sentence, and how long it is up to each token of the old one."""
    stream = np.empty(3 * ids.size, np.int32)
    lengths = np.zeros(ids.size + 1, np.int64)
    size, inside = 0, False
    for at in range(ids.size):
        ended = ids[at] == EMPTY
        if ended or not inside:
            stream[size] = end_mark if ended else start_mark
            size += 1
        inside = not ended
        stream[size] = ids[at]
        size += 1
        lengths[at + 1] = size
    return stream[:size].copy(), lengths
