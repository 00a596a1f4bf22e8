"""One round: what all users give their candidates, added up exactly.

In:  users' candidates, heaviest first.   Out: candidates and exact integer sums, those below a floor dropped.
What one user adds has an L2 norm of at most B = UNITS, exactly, in integers. Sums go to disk beyond `memory`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from bayesgram.arrays import Floats, Ids, Integers
from bayesgram.cores import CORES
from bayesgram.files import Records
from bayesgram.files.scratch import SpillBuckets
from bayesgram.kernels import kernel
from bayesgram.private.candidates import Kept, collect_candidates, enforce_bound
from bayesgram.private.clip import UNITS
from bayesgram.public.choosing import joined_tokens
from bayesgram.public.novelty import PublicText
from bayesgram.text.ngrams import BUCKETS, ngram_orders, spill
from bayesgram.text.windows import WindowTable

SMALLEST_TABLE = 1 << 22  # bytes


@dataclass(frozen=True)
class Bound:
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

    def __init__(self, orders: Sequence[int], *, tokens: int, scratch: Path, memory: int, cores: int = CORES) -> None:
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
                for rows, sums in spilled.taken(bucket):
                    table.merge(rows, sums)
                yield from table.entries(at_least=floor)

    def _spill(self, number: int) -> None:
        table = self._tables[number]
        files = self._spilled[number] or SpillBuckets(self._scratch, f"sums-{table.order}", buckets=BUCKETS, columns=2)
        self._spilled[number] = files
        spill(table, files)


def sum_candidates(
    records: Iterable[Records], public: PublicText, orders: Sequence[int], bound: Bound, *, memory: int
) -> Candidates:
    """All users' candidates of these orders, added up exactly."""
    parts = [(pa.array([], pa.large_string()), np.zeros(0, np.int64))]
    return in_order([*parts, *sums_as_texts(records, public, orders, bound, memory=memory)])


def sums_as_texts(
    records: Iterable[Records],
    public: PublicText,
    orders: Sequence[int],
    bound: Bound,
    *,
    memory: int,
    cores: int = CORES,
) -> Iterator[tuple[pa.LargeStringArray, Integers]]:
    """The same in any order, some at a time."""
    with collect_candidates(records, public, orders, bound.most, memory=memory // 2, cores=cores) as found:
        known, scratch = len(found.tokens), found.scratch
        sums = CandidateSums(orders, tokens=known, scratch=scratch, memory=memory // 2, cores=cores)
        for kept in found.kept:
            sums.add(kept, one_round(kept.sizes, kept.logs, bound.smallest))
        tokens = found.tokens.strings()
        for rows, units in sums.reaching(bound.floor):
            yield joined_tokens(rows, tokens), units


def in_order(parts: Sequence[tuple[pa.LargeStringArray, Integers]]) -> Candidates:
    """Candidates of all parts: short ones first, then in byte order. Each stands in one part."""
    ngrams, sums = pa.concat_arrays([ngrams for ngrams, _ in parts]), np.concatenate([units for _, units in parts])
    whole = pa.table({"order": ngram_orders(ngrams), "ngram": ngrams, "sum": sums})
    whole = whole.sort_by([("order", "ascending"), ("ngram", "ascending")])
    return Candidates(whole["ngram"].combine_chunks(), whole["sum"].to_numpy().copy())  # writable, as the sampler wants


@kernel
def one_round(sizes: Integers, logs: Floats, smallest: int) -> Integers:
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
