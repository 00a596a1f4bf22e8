"""N-grams of text: what both the vocabulary and the counts are made with.

`NgramCounter` counts all n-grams of a text, and `NgramMatcher` finds those of a fixed list. Both
take Arrow arrays of valid UTF-8 and a `Tokenizer`, and turn text into streams of token numbers. No
n-gram crosses a sentence end or a row. With boundaries, a sentence begins with <s> and ends with
</s>.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain, islice
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
from bayesgram.text.strings import EMPTY, SLOT_BYTES, LookupResult, StringTable
from bayesgram.text.tokenizer import CHUNK_BYTES, Tokenizer, buffers, chunks

Owned = tuple[pa.LargeBinaryArray, Ids]  # texts, and a number for the owner of each
# Gets the owner of each row of a chunk, and how many n-grams of each order (rows × orders) the row
# has that the list does not.
UnlistedSink = Callable[[Ids, Integers], None]

MAX_ORDER = 6
START = "<s>"
END = "</s>"
NO_MARK = -3  # the number of <s> where sentences have none: no token has it, not even UNKNOWN

# Sizes of tables and batches. They change speed and memory, never a count; not measured unless
# said.
FEW_TOKENS = 1000  # with fewer known tokens, the first chunk of a text is numbered by itself
MISSES_PER_SLOT = 0.25  # tokens not found, for each slot of the table, before the table is copied
SMALLEST = 1 << 22  # bytes of a table that is always kept in memory
SORTED_BYTES = 96  # of memory for each token of text where three orders are sorted
BUCKETS = 64  # files that a table is spilled to
CHUNKS_BEGUN = 4  # chunks of text for each core that are being matched, or wait to be used
CELLS = 1 << 22  # of a sketch, at least, if there are as many tokens; as many bytes
TOKENS_PER_CELL = 8  # of a sketch at most, where there is memory for more cells
DEEP = 32  # tokens for each cell of a sketch from which on a cell has two bytes
REPEATS = 3  # how often an n-gram occurs on average, at least, in text that repeats itself
SAMPLE_TOKENS = 400_000  # of the first text, which show whether it does
BATCH_BYTES = 12 << 20  # of token numbers for each core that are counted together as they come


def check_order(order: int, *, name: str = "order") -> int:
    """Return the order unchanged.

    Args:
        order: The number of tokens in an n-gram.
        name: The name of the parameter, for the message.

    Raises:
        UsageError: If it is not between 1 and MAX_ORDER.
    """
    if not 1 <= order <= MAX_ORDER:
        raise UsageError.for_argument(name, order, f"an n-gram has 1 to {MAX_ORDER} tokens.")
    return order


def ngram_orders(ngrams: pa.LargeStringArray, tokenizer: Tokenizer) -> Integers:
    """Return how many tokens each n-gram has: 1, where a token is a row and may have spaces."""
    if tokenizer.is_rows:
        return np.ones(len(ngrams), np.int64)
    spaces: Integers = pc.count_substring(ngrams, " ").to_numpy().astype(np.int64)
    return spaces + 1


def ngram_tokens(ngrams: pa.LargeStringArray, tokenizer: Tokenizer) -> pa.LargeStringArray:
    """Return the tokens of all n-grams, one after the other.

    >>> ngrams = pa.array(["red fish", "fish"], pa.large_string())
    >>> ngram_tokens(ngrams, Tokenizer()).to_pylist()
    ['red', 'fish', 'fish']
    >>> ngram_tokens(ngrams, Tokenizer("rows")).to_pylist()
    ['red fish', 'fish']
    """
    if tokenizer.is_rows:
        return ngrams
    return pc.split_pattern(ngrams, " ").flatten()


def distinct_orders(orders: Integers | Ids) -> list[int]:
    """Return the distinct orders, ascending.

    np.unique would sort, and load masked arrays to ask whether these are some.

    >>> distinct_orders(np.array([3, 1, 3]))
    [1, 3]
    """
    present: list[int] = np.flatnonzero(np.bincount(orders)).tolist()
    return present


class NgramCounter:
    """Counts n-grams in text that is added batch by batch, exactly.

    The text is kept as token numbers, and counted when it is all there. What does not fit in memory
    is spilled to disk, as are tables that are too large. With a spill folder, text that repeats
    itself is counted as it comes, and not kept.

    Several texts can be counted apart in the same token numbers: each has a counter and a spill
    folder of its own, and they share `tokens`. Their text is never counted as it comes, so that it
    can be asked as often as one likes.

    Args:
        orders: The orders of n-grams to count.
        tokenizer: Cuts the text.
        spill_dir: A folder for what does not fit in memory; None keeps everything in memory.
        memory: How many bytes to use, about.
        cores: How many threads to use; one more counts text as it comes.
        tokens: The token numbers that several counters share.
        texts: How many counters share the memory.
        unknown: The number of one of the `tokens`, if these are all there are. Every other token of
            the text is that one, and so are a <s> and a </s> that stand in the text.
        rows: Gets the hashes of the rows of the text.
    """

    def __init__(
        self,
        orders: Sequence[int],
        tokenizer: Tokenizer,
        *,
        spill_dir: Path | None = None,
        memory: int = 1 << 62,
        cores: int = CORES,
        tokens: StringTable | None = None,
        texts: int = 1,
        unknown: int | None = None,
        rows: RowSample | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self._unknown = unknown
        self._rows = rows
        self.tokens = StringTable() if tokens is None else tokens
        self._marks = add_marks(self.tokens) if tokenizer.boundaries else None
        self._orders = [check_order(order) for order in orders]
        self._known = self.tokens  # where threads look tokens up: it, or a copy of it
        self._missed = 0  # tokens that were not found in it
        self._counted: dict[int, WindowTable] = {}
        self._count_future: Future[None] = Future()  # of the last text that was counted as it came
        self._count_future.set_result(None)
        self._sorted: dict[int, SortedWindows] = {}
        self._spilled: dict[int, SpillBuckets] = {}
        self._memory = max(memory // 2, SMALLEST)
        self._spill_dir = spill_dir
        self._cores = cores
        # Until there is enough text to see whether it is counted as it comes.
        self._is_undecided = spill_dir is not None and texts == 1
        self._streams = SpillStreams(spill_dir, max_bytes=self._memory // 4 * 3 // texts)

    def add(self, texts: pa.LargeBinaryArray) -> None:
        """Add rows of text; where there are many batches, `add_all` is faster."""
        self.add_all([texts])

    def add_all(self, batches: Iterable[pa.LargeBinaryArray]) -> None:
        """Add batches of rows of text: cut on all cores, and number new tokens on one.

        The calling thread fetches batches and numbers tokens while others cut what follows. Tokens
        get their numbers in the order of the text, however many cores there are.
        """
        self._sorted.clear()
        text_chunks = (chunk for texts in batches for chunk in chunks(texts))
        with ThreadPoolExecutor(1) as counting_thread:
            if len(self.tokens) < FEW_TOKENS:
                # The first chunk has the tokens that most others are made of: it is numbered first.
                for chunk in islice(text_chunks, 1):
                    self._add_numbered(self._look_up(chunk), counting_thread)
            if self._known is self.tokens and self._cores > 1 and self._unknown is None:
                self._known = self.tokens.frozen()
            for result in parallel_imap(
                self._look_up,
                text_chunks,
                size=lambda chunk: chunk.nbytes,
                max_pending=CHUNKS_BEGUN * self._cores * CHUNK_BYTES,
                cores=self._cores,
            ):
                self._add_numbered(result, counting_thread)
                self._refresh_known(result.unknown.size)
            if self._counted:
                self._count_batch(counting_thread)
                self._count_future.result()

    def _look_up(self, texts: pa.LargeBinaryArray) -> LookupResult:
        """Return the numbers of a chunk's tokens, as far as they have one, and the other tokens."""
        data, offsets, row_ends = self.tokenizer.tokenize(texts)
        if self._rows is not None:
            self._rows.add_rows(data, offsets, row_ends)
        return self._known.look_up(data, offsets)

    def _add_numbered(self, result: LookupResult, counting_thread: ThreadPoolExecutor) -> None:
        """Add the tokens of a chunk."""
        stream = self._number(result)
        if self._marks:
            stream, _ = with_boundaries(stream, *self._marks)
        self._streams.add(stream)
        if self._is_undecided:
            self._decide_when_to_count()
        if self._counted:
            # While a batch is counted, its keys take up to six times its bytes; another one fills.
            batch_bytes = min(BATCH_BYTES * self._cores, self._memory // 8)
            if self._streams.kept_bytes >= batch_bytes or self._streams.exceeds_memory:
                self._count_batch(counting_thread)

    def _refresh_known(self, missed: int) -> None:
        """Copy the table of tokens for the threads, once they have missed much of it.

        Copying costs less than the misses did. A copy takes at most an eighth of the memory; of
        more tokens, those that came first are the frequent ones.

        Args:
            missed: How many more tokens the threads have not found in their copy.
        """
        if self._known is self.tokens:
            return
        self._missed += missed
        slots_bytes = self.tokens.slots_bytes
        is_due = self._missed * SLOT_BYTES > MISSES_PER_SLOT * slots_bytes
        if is_due and slots_bytes <= max(self._memory // 4, SMALLEST):
            self._known = self.tokens.frozen()
            self._missed = 0

    def _number(self, result: LookupResult) -> Ids:
        """Return the numbers of all tokens of a chunk."""
        if self._unknown is None:
            return self.tokens.add_unknown(result)
        numbers = result.numbers
        numbers[result.unknown] = self._unknown
        for mark in self._marks or ():
            numbers[numbers == mark] = self._unknown
        return numbers

    def _decide_when_to_count(self) -> None:
        """Count text as it comes from now on, if the first of it has few different n-grams.

        So it is with n-grams of characters, of a small language, and with single words. Tables of
        such text are small, and counting it at once spares keeping it and reading it twice more.
        """
        if self._streams.size <= MOST_TOKENS and not self._streams.exceeds_memory:
            return
        self._is_undecided = False
        sample = self._streams.sample(SAMPLE_TOKENS)
        if all(self._is_repetitive(sample, order) for order in self._orders):
            self._counted = {order: self._new_table(order) for order in self._orders}

    def _is_repetitive(self, streams: Sequence[Ids], order: int) -> bool:
        """Return whether n-grams come again often."""
        table = self._new_table(order)
        table.add(streams)
        return len(table) * REPEATS < sum(stream.size for stream in streams)

    def _count_batch(self, counting_thread: ThreadPoolExecutor) -> None:
        """Wait for the batch before, and begin to count what is kept, in the counting thread."""
        self._count_future.result()
        self._count_future = counting_thread.submit(self._count_streams, self._streams.take())

    def _count_streams(self, streams: Sequence[Ids]) -> None:
        """Count text that is counted as it comes."""
        for order, table in self._counted.items():
            self._counted[order] = self._add_to_table(table, streams)

    def count_windows(self, order: int) -> int:
        """Return how many n-grams of an order there are, repeats included.

        <s> alone is none. This is for text that is kept, not counted as it comes.
        """
        self._check_is_kept()
        total = 0
        for ids in chain.from_iterable(self._streams):
            lengths = np.diff(np.flatnonzero(ids < 0), prepend=-1, append=ids.size) - 1
            total += int(np.maximum(lengths - order + 1, 0).sum())
            if self._marks and order == 1:
                total -= int(np.count_nonzero(ids == self._marks[0]))
        return total

    def counts_of(self, index: WindowIndex, size: int) -> Integers:
        """Return how often the n-grams of an index occur, whose numbers are below `size`.

        This is for text that is kept, not counted as it comes.
        """
        self._check_is_kept()
        counts = np.zeros(size, np.int64)
        owner = np.zeros(1, np.int32)
        for streams in self._streams:
            occurrences = parallel_map(
                lambda ids: index.find(ids, np.array([ids.size]), owner)[1],
                streams,
                cores=self._cores,
            )
            counts += np.bincount(np.concatenate(occurrences), minlength=size)
        return counts

    def _check_is_kept(self) -> None:
        if self._counted:
            raise AssertionError("the text was counted as it came, and is not kept")

    def sorted_windows(self, order: int) -> SortedWindows | None:
        """Return the n-grams of an order, sorted; None for too much text or long keys."""
        most = min(MOST_TOKENS, self._memory // SORTED_BYTES)
        if self._counted or self._streams.size > most or not are_sortable(order, len(self.tokens)):
            return None
        if order not in self._sorted:
            streams = chain.from_iterable(self._streams)
            self._sorted[order] = SortedWindows(streams, order, tokens=len(self.tokens))
        return self._sorted[order]

    def bounds(self, order: int) -> CountMinSketch | None:
        """Return upper bounds on counts; None if n-grams are counted, or will be at once."""
        self._known = self.tokens  # a copy of it is needed no more
        if self._counted or self.sorted_windows(order) is not None:
            return None
        tokens = self._streams.size
        max_cells = self._memory // 4
        cells = min(max(tokens // TOKENS_PER_CELL, min(tokens, CELLS)), max_cells)
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
        """Yield tables with the counts of all n-grams that reach a count, and of some others.

        There is one table; or one for each bucket, where the n-grams did not fit in memory. Equal
        n-grams are in the same bucket.

        Args:
            order: The order of the n-grams.
            bounds: What `bounds` gave for this order.
            at_least: The count to reach.
        """
        self._known = self.tokens  # a copy of it is needed no more
        ordered = self.sorted_windows(order)
        if ordered is not None:
            yield ordered
            return
        if self._counted:
            self._count_future.result()  # raises again what ended the counting
            table = self._counted[order]
        else:
            table = self._new_table(order)
            for streams in self._streams:
                table = self._add_to_table(table, streams, bounds, at_least)
        spilled = self._spilled.pop(order, None)
        if not spilled:
            yield table
            return
        spill(table, spilled)
        for bucket in range(BUCKETS):
            table = self._new_table(order)
            for rows, counts in spilled.drain(bucket):
                table.merge(rows, counts)
            yield table

    def _new_table(self, order: int) -> WindowTable:
        return WindowTable(order, tokens=len(self.tokens), cores=self._cores)

    def _add_to_table(
        self,
        table: WindowTable,
        streams: Sequence[Ids],
        bounds: CountMinSketch | None = None,
        at_least: int = 1,
    ) -> WindowTable:
        """Return the table with the n-grams of more text; an empty one, if they are on disk now."""
        table = table.widen_keys(len(self.tokens))
        table.add(streams, bounds, at_least=at_least)
        if self._spill_dir and self._is_too_large(table):
            name = f"windows-{table.order}"
            spilled = self._spilled.setdefault(
                table.order, SpillBuckets(self._spill_dir, name, buckets=BUCKETS, columns=2)
            )
            spill(table, spilled)
        return table

    def _is_too_large(self, table: WindowTable) -> bool:
        """Return whether a table has to go to disk.

        Tables of text that is not kept may take the memory of the text, too, together.
        """
        if not self._counted:
            return table.largest_size > self._memory
        others = [other for order, other in self._counted.items() if order != table.order]
        total = table.largest_size + sum(other.largest_size for other in others)
        is_among_largest = table.largest_size * len(self._counted) >= total
        return is_among_largest and total > self._memory // 2 * 3


def spill(table: WindowTable, spilled: SpillBuckets) -> None:
    """Move a table to disk, into buckets by hash."""
    for edges, rows, counts in table.partition(BUCKETS):
        spilled.add(edges, [rows, counts])
    table.clear()


class NgramMatcher:
    """Finds the n-grams of a fixed list in text.

    The number of an n-gram is its row in the list; where the list has it twice, the first.

    Args:
        ngrams: The list; tokens are joined by single spaces.
        tokenizer: Cuts the text.
    """

    def __init__(self, ngrams: pa.LargeStringArray, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._tokens = StringTable()
        self._marks = add_marks(self._tokens) if tokenizer.boundaries else None
        orders = ngram_orders(ngrams, tokenizer)
        self.orders = distinct_orders(orders)  # ascending
        self._indexes = [self._index(ngrams, orders, order) for order in self.orders]
        # A list may hold <s> alone. It is found, but is none of the n-grams of a text.
        self._start_row = pc.index(ngrams, START).as_py() if tokenizer.boundaries else -1
        self.repeated = len(ngrams) - sum(
            map(len, self._indexes)
        )  # rows that repeat an earlier one

    def _index(self, ngrams: pa.LargeStringArray, orders: Integers, order: int) -> WindowIndex:
        """Index the n-grams of one order."""
        rows = np.flatnonzero(orders == order)
        tokens = ngram_tokens(ngrams.take(pa.array(rows)), self.tokenizer).cast(pa.large_binary())
        ids = self._tokens.add(*buffers(tokens)).reshape(-1, check_order(order))
        return WindowIndex(ids, rows.astype(np.int32), tokens=len(self._tokens))

    def match(
        self,
        batches: Iterable[Owned],
        *,
        cores: int = CORES,
        rows: RowSample | None = None,
        add_unlisted: UnlistedSink | None = None,
    ) -> Iterator[tuple[Ids, Ids]]:
        """Yield (owner of the row, n-gram) of every occurrence, in order.

        The numbers come as two arrays for each chunk of rows and each order.

        Args:
            batches: Texts, and a number for the owner of each.
            cores: How many threads to use.
            rows: Gets the hashes of the rows.
            add_unlisted: Gets how many n-grams each row has that are not in the list, for each of
                the `orders`. It is called where the occurrences are taken, one chunk at a time.
        """
        text_chunks = (
            (chunk, owners[chunk.offset - texts.offset :])
            for texts, owners in batches
            for chunk in chunks(texts)
        )
        for owners, occurrences, unlisted in parallel_imap(
            partial(self._match_chunk, rows=rows, with_unlisted=add_unlisted is not None),
            text_chunks,
            size=lambda owned: owned[0].nbytes,
            max_pending=CHUNKS_BEGUN * cores * CHUNK_BYTES,
            cores=cores,
        ):
            if add_unlisted is not None:
                add_unlisted(owners, unlisted)
            yield from occurrences

    def _match_chunk(
        self, owned: Owned, rows: RowSample | None, *, with_unlisted: bool
    ) -> tuple[Ids, list[tuple[Ids, Ids]], Integers]:
        """Search a chunk of rows.

        Returns:
            The owner of each row; (owners, n-grams) of the occurrences, for each order; and how
            many n-grams of each order each row has that the list does not, if that is asked.
        """
        texts, owners = owned
        data, offsets, ends = self.tokenizer.tokenize(texts)
        if rows is not None:
            rows.add_rows(data, offsets, ends)
        stream = self._tokens.find(data, offsets)
        if self._marks:
            stream, lengths = with_boundaries(stream, *self._marks)
            ends = lengths[ends]
        row_owners = owners[: ends.size]
        if not with_unlisted:
            found = [index.find(stream, ends, owners) for index in self._indexes]
            return row_owners, found, np.zeros((0, len(self.orders)), np.int64)
        start_mark = self._marks[0] if self._marks else NO_MARK
        unlisted = count_row_windows(stream, ends, np.array(self.orders, np.int64), start_mark)
        row_numbers = np.arange(ends.size, dtype=np.int32)
        occurrences = []
        for place, index in enumerate(self._indexes):
            text_rows, numbers = index.find(stream, ends, row_numbers)
            occurrences.append((row_owners[text_rows], numbers))
            if index.order == 1 and self._start_row >= 0:
                text_rows = text_rows[numbers != self._start_row]
            unlisted[:, place] -= np.bincount(text_rows, minlength=ends.size)
        return row_owners, occurrences, unlisted


@kernel
def count_row_windows(ids: Ids, ends: Integers, orders: Integers, start_mark: int) -> Integers:
    """Return how many n-grams of each order each row of a stream has, repeats included.

    They are those that `NgramCounter` counts: <s> alone is none.

    Args:
        ids: The token numbers of several rows, one after the other; EMPTY ends a sentence.
        ends: Row r is the stream before ends[r].
        orders: The orders of n-grams, ascending.
        start_mark: The number of <s>; NO_MARK where sentences have none.
    """
    windows = np.zeros((ends.size, orders.size), np.int64)
    first = 0
    for row in range(ends.size):
        sentence = first
        for at in range(first, ends[row]):
            if ids[at] == EMPTY:
                for place in range(orders.size):
                    windows[row, place] += max(at - sentence - orders[place] + 1, 0)
                sentence = at + 1
        for place in range(orders.size):
            windows[row, place] += max(ends[row] - sentence - orders[place] + 1, 0)
        if start_mark != NO_MARK and orders.size and orders[0] == 1:
            for at in range(first, ends[row]):
                windows[row, 0] -= ids[at] == start_mark
        first = ends[row]
    return windows


def add_marks(tokens: StringTable) -> tuple[int, int]:
    """Add <s> and </s> to token numbers, and return theirs."""
    start, end = tokens.add(*buffers(pa.array([START.encode(), END.encode()], pa.large_binary())))
    return int(start), int(end)


@kernel
def with_boundaries(ids: Ids, start_mark: int, end_mark: int) -> tuple[Ids, Integers]:
    """Put a mark before and after each sentence of a stream.

    Returns:
        The new stream, and how long it is up to each token of the old one.
    """
    stream = np.empty(3 * ids.size, np.int32)
    lengths = np.zeros(ids.size + 1, np.int64)
    size = 0
    is_inside = False
    for at in range(ids.size):
        is_end = ids[at] == EMPTY
        if is_end or not is_inside:
            stream[size] = end_mark if is_end else start_mark
            size += 1
        is_inside = not is_end
        stream[size] = ids[at]
        size += 1
        lengths[at + 1] = size
    return stream[:size].copy(), lengths
