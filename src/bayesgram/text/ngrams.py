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
from bayesgram.cores import CORES, on_cores
from bayesgram.errors import UsageError
from bayesgram.files.scratch import Buckets
from bayesgram.kernels import kernel
from bayesgram.text.strings import EMPTY, Found, StringTable
from bayesgram.text.tokens import Tokenizer, buffers, chunks
from bayesgram.text.windows import WindowIndex, WindowTable

MAX_ORDER = 6
FEW_TOKENS = 1000
SMALLEST = 1 << 22  # bytes of a table that is always kept
BUCKETS = 64
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

    Tables of more than `memory` bytes go to the scratch folder; `parts` brings all together, exactly.
    """

    def __init__(
        self,
        orders: Sequence[int],
        tokenizer: Tokenizer,
        *,
        scratch: Path | None = None,
        memory: int = 1 << 62,
        cores: int = CORES,
    ) -> None:
        self.tokenizer = tokenizer
        self.tokens = StringTable()
        self.windows = {check_order(order): WindowTable(order, cores=cores) for order in orders}
        self._marks = _add_marks(self.tokens) if tokenizer.boundaries else None
        self._memory, self._scratch, self._cores = memory // len(orders), scratch, cores
        self._spilled: dict[int, Buckets] = {}

    def add(self, texts: pa.LargeBinaryArray) -> None:
        """Count the n-grams of these rows: cut on all cores, number new tokens on one, count on all."""
        parts = list(chunks(texts))
        few = 1 if len(self.tokens) < FEW_TOKENS else 0  # the first chunk has the tokens that most others are made of
        streams: list[Ids] = []
        for some in (parts[:few], parts[few:]):
            streams += map(self.tokens.complete, on_cores(self._found, some, cores=self._cores))
        if self._marks:
            streams = [_with_boundaries(stream, *self._marks)[0] for stream in streams]
        for table in self.windows.values():
            table.add(streams, tokens=len(self.tokens))
            if self._scratch and table.largest_size > max(self._memory, SMALLEST):
                self._spill(table, self._scratch)

    def _found(self, texts: pa.LargeBinaryArray) -> Found:
        """The numbers of a chunk's tokens, as far as they have one, and the others."""
        data, offsets, _ = self.tokenizer.cut(texts)
        return self.tokens.look_up(data, offsets)

    def _spill(self, table: WindowTable, scratch: Path) -> None:
        """Move a table to disk, dealt out by hash: equal windows meet again in the same bucket."""
        name = f"windows-{table.order}"
        spilled = self._spilled.setdefault(table.order, Buckets(scratch, name, buckets=BUCKETS, columns=2))
        for edges, rows, counts in table.dealt(BUCKETS):
            spilled.add(edges, [rows, counts])
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
            table = self.windows[order] = WindowTable(order, cores=self._cores)
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
        self._lists = [self._list(ngrams, orders, int(order)) for order in np.unique(orders)]
        self.repeated = len(ngrams) - sum(map(len, self._lists))  # that stand there again

    def _list(self, ngrams: pa.LargeStringArray, orders: Integers, order: int) -> WindowIndex:
        """The n-grams of one order."""
        rows = np.flatnonzero(orders == order)
        tokens = pc.split_pattern(ngrams.take(pa.array(rows)), " ").flatten().cast(pa.large_binary())
        ids = self._tokens.add(*buffers(tokens)).reshape(-1, check_order(order))
        return WindowIndex(ids, rows.astype(np.int32), tokens=len(self._tokens))

    def find(self, texts: pa.LargeBinaryArray, owners: Ids, *, cores: int = CORES) -> Iterator[tuple[Ids, Ids]]:
        """(owner of the row, n-gram) of every occurrence, a chunk of rows and an order at a time."""
        parts = [(part, owners[part.offset - texts.offset :]) for part in chunks(texts)]
        for found in on_cores(self._found, parts, cores=cores):
            yield from found

    def _found(self, part: tuple[pa.LargeBinaryArray, Ids]) -> list[tuple[Ids, Ids]]:
        """What is in a chunk of rows, with the owners of these rows."""
        texts, owners = part
        data, offsets, ends = self.tokenizer.cut(texts)
        stream = self._tokens.find(data, offsets)
        if self._marks:
            stream, lengths = _with_boundaries(stream, *self._marks)
            ends = lengths[ends]
        return [listed.find(stream, ends, owners) for listed in self._lists]


def _add_marks(tokens: StringTable) -> tuple[int, int]:
    """The numbers of <s> and </s>."""
    start, end = tokens.add(*buffers(pa.array([START.encode(), END.encode()], pa.large_binary())))
    return int(start), int(end)


@kernel
def _with_boundaries(ids: Ids, start_mark: int, end_mark: int) -> tuple[Ids, Integers]:
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
