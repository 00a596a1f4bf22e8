"""N-grams of scanned text: what both the vocabulary and the counts are made with.

In:  Arrow arrays of valid UTF-8, a `Tokenizer`.   Out: streams of token numbers, and windows of them.
No window crosses a sentence end or a row; with boundaries, a sentence begins with <s> and ends with </s>.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arrays import Ids, Integers
from bayesgram.errors import UsageError
from bayesgram.files.scratch import Buckets
from bayesgram.kernels import kernel
from bayesgram.text.tables import ABSENT, StringTable, WindowTable, hash_windows
from bayesgram.text.tokens import Tokenizer, buffers

MAX_ORDER = 6
BUCKET_BITS = 6
BUCKETS = 1 << BUCKET_BITS
START, END = "<s>", "</s>"


def check_order(order: int) -> int:
    """The order, if it is one."""
    if not 1 <= order <= MAX_ORDER:
        raise UsageError(f"order={order}: an n-gram has 1 to {MAX_ORDER} tokens.")
    return order


def ngram_orders(ngrams: pa.LargeStringArray) -> Integers:
    """How many tokens each n-gram has."""
    spaces: Integers = pc.count_substring(ngrams, " ").to_numpy().astype(np.int64)
    return spaces + 1


class NgramCounter:
    """Counts all n-grams of these orders in text that is added batch by batch.

    A table of more than `limit` distinct n-grams goes to the scratch folder; `parts` brings all together, exactly.
    """

    def __init__(
        self, orders: Sequence[int], tokenizer: Tokenizer, *, scratch: Path | None = None, limit: int = 1 << 62
    ) -> None:
        self.tokenizer = tokenizer
        self.tokens = StringTable()
        self.windows = {check_order(order): WindowTable(order) for order in orders}
        self._marks = _add_marks(self.tokens) if tokenizer.boundaries else None
        self._limit, self._scratch = limit, scratch
        self._spilled: dict[int, Buckets] = {}

    def add(self, texts: pa.LargeBinaryArray) -> None:
        """Count the n-grams of these rows."""
        for data, ends, _ in self.tokenizer.scan(texts):
            stream = self.tokens.add(data, _offsets(ends))
            if self._marks:
                stream, _ = _with_boundaries(stream, ends, *self._marks)
            for table in self.windows.values():
                table.add(stream)
                if self._scratch and len(table) > self._limit:
                    self._spill(table, self._scratch)

    def _spill(self, table: WindowTable, scratch: Path) -> None:
        """Move a table to disk, dealt out by hash: equal windows meet again in the same bucket."""
        name = f"windows-{table.order}"
        spilled = self._spilled.setdefault(table.order, Buckets(scratch, name, buckets=BUCKETS, columns=2))
        spilled.add(
            (hash_windows(table.rows) >> np.uint64(64 - BUCKET_BITS)).astype(np.int64), [table.rows, table.counts]
        )
        table.clear()

    def parts(self, order: int) -> Iterator[WindowTable]:
        """The counts of one order: all at once, or a bucket at a time where they did not fit in memory."""
        table = self.windows[order]
        if order not in self._spilled:
            yield table
            return
        if self._scratch and len(table):
            self._spill(table, self._scratch)
        for bucket in range(BUCKETS):
            table.clear()
            for rows, counts in self._spilled[order].parts(bucket):
                table.merge(rows, counts)
            yield table


class NgramFinder:
    """Finds the n-grams of a fixed list (tokens joined by single spaces) in text.

    Its numbers are the list's row numbers; where the list has an n-gram twice, the first.
    """

    def __init__(self, ngrams: pa.LargeStringArray, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._tokens = StringTable()
        self._marks = _add_marks(self._tokens) if tokenizer.boundaries else None
        orders = ngram_orders(ngrams)
        self._tables = [self._table(ngrams, orders, int(order)) for order in np.unique(orders)]
        self.repeated = len(ngrams) - sum(len(table) for table, _ in self._tables)  # that stand there again

    def _table(self, ngrams: pa.LargeStringArray, orders: Integers, order: int) -> tuple[WindowTable, Ids]:
        """The n-grams of one order, and the row of each."""
        rows = np.flatnonzero(orders == order)
        table = WindowTable(check_order(order))
        tokens = pc.split_pattern(ngrams.take(pa.array(rows)), " ").flatten().cast(pa.large_binary())
        ids = self._tokens.add(*buffers(tokens)).reshape(-1, order)
        apart = np.full((len(ids), 1), ABSENT, np.int32)  # between two n-grams, as between two sentences
        stream = np.hstack([ids, apart]).ravel()
        table.add(stream)
        numbers, last_tokens = table.find(stream)
        first = np.unique(numbers, return_index=True)[1]
        return table, rows[last_tokens[first] // (order + 1)].astype(np.int32)

    def find(self, texts: pa.LargeBinaryArray) -> Iterator[tuple[Integers, Ids]]:
        """(row, n-gram) of every occurrence, a chunk of rows and an order at a time."""
        first_row = 0
        for data, ends, row_ends in self.tokenizer.scan(texts):
            stream, places = self._tokens.find(data, _offsets(ends)), None
            if self._marks:
                stream, places = _with_boundaries(stream, ends, *self._marks)
            for table, numbers in self._tables:
                ngrams, ends_at = table.find(stream)
                last_tokens = ends_at if places is None else places[ends_at]
                yield first_row + np.searchsorted(row_ends, last_tokens, side="right"), numbers[ngrams]
            first_row += row_ends.size


def _add_marks(tokens: StringTable) -> tuple[int, int]:
    """The numbers of <s> and </s>."""
    start, end = tokens.add(*buffers(pa.array([START.encode(), END.encode()], pa.large_binary())))
    return int(start), int(end)


@kernel
def _with_boundaries(ids: Ids, ends: Ids, start_mark: int, end_mark: int) -> tuple[Ids, Integers]:
    """The stream with a mark before and after each sentence, and where each of its entries was."""
    stream = np.empty(3 * ids.size, np.int32)
    places = np.empty(3 * ids.size, np.int64)
    size, inside, last_end = 0, False, 0
    for at in range(ids.size):
        ended = ends[at] == last_end  # an empty token is the end of a sentence
        last_end = ends[at]
        if ended or not inside:
            stream[size] = end_mark if ended else start_mark
            places[size] = at
            size += 1
        inside = not ended
        stream[size] = ids[at]
        places[size] = at
        size += 1
    return stream[:size].copy(), places[:size].copy()


def _offsets(ends: Ids) -> Integers:
    return np.concatenate([np.zeros(1, np.int64), ends.astype(np.int64)])
