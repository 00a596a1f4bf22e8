"""N-grams of scanned text: what both the vocabulary and the counts are made with.

In:  Arrow arrays of valid UTF-8, a `Tokenizer`.   Out: streams of token numbers, and windows of them.
No window crosses a sentence end or a row.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arrays import Ids, Integers
from bayesgram.errors import UsageError
from bayesgram.text.tables import ABSENT, StringTable, WindowTable
from bayesgram.text.tokens import Tokenizer, buffers

MAX_ORDER = 6


def check_order(order: int) -> int:
    """The order, if it is one."""
    if not 1 <= order <= MAX_ORDER:
        raise UsageError(f"order={order}: an n-gram has 1 to {MAX_ORDER} tokens.")
    return order


class NgramCounter:
    """Counts all n-grams of text that is added batch by batch."""

    def __init__(self, order: int, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.tokens = StringTable()
        self.windows = WindowTable(check_order(order))

    def add(self, texts: pa.LargeBinaryArray) -> None:
        """Count the n-grams of these rows."""
        for data, ends, _ in self.tokenizer.scan(texts):
            self.windows.add(self.tokens.add(data, _offsets(ends)))


class NgramFinder:
    """Finds the n-grams of a fixed list (`order` tokens joined by single spaces) in text.

    Its numbers are the list's row numbers; where the list has an n-gram twice, the first.
    """

    def __init__(self, ngrams: pa.LargeStringArray, order: int, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._tokens = StringTable()
        self._windows = WindowTable(check_order(order))
        tokens = pc.split_pattern(ngrams, " ").flatten().cast(pa.large_binary())
        ids = self._tokens.add(*buffers(tokens)).reshape(-1, order)
        apart = np.full((len(ids), 1), ABSENT, np.int32)  # between two n-grams, as between two sentences
        stream = np.hstack([ids, apart]).ravel()
        self._windows.add(stream)
        numbers, last_tokens = self._windows.find(stream)
        self._rows = (last_tokens // (order + 1))[np.unique(numbers, return_index=True)[1]].astype(np.int32)
        self.repeated = len(ngrams) - len(self._windows)  # how many of the list stand there again

    def find(self, texts: pa.LargeBinaryArray) -> Iterator[tuple[Integers, Ids]]:
        """(row, n-gram) of every occurrence, a chunk of rows at a time."""
        first_row = 0
        for data, ends, row_ends in self.tokenizer.scan(texts):
            ngrams, last_tokens = self._windows.find(self._tokens.find(data, _offsets(ends)))
            yield first_row + np.searchsorted(row_ends, last_tokens, side="right"), self._rows[ngrams]
            first_row += row_ends.size


def _offsets(ends: Ids) -> Integers:
    return np.concatenate([np.zeros(1, np.int64), ends.astype(np.int64)])
