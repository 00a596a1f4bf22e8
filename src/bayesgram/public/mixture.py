"""The equal mixture of several public sources: their names, their counts, and one count of all.

In:  counts of the same n-grams in several sources.
Out: one whole count for each n-gram, in which all sources weigh alike.

This module does not read text or files.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from bayesgram.arrays import Integers
from bayesgram.errors import UsageError
from bayesgram.text.ngrams import distinct_orders

MAX_SOURCES = 20
DEFAULT_SOURCE_NAME = "public"  # what one source without a name is called
NAME_PATTERN = re.compile("[A-Za-z0-9_.-]{1,32}")
NAME_RULE = "a name has 1 to 32 letters (a to z), digits, ., - or _"


@dataclass(frozen=True, eq=False)
class SourceCounts:
    """The counts of one public source, for each n-gram of a vocabulary."""

    name: str
    counts: Integers


def check_source_names(names: Sequence[str]) -> None:
    """Refuse a name that is not valid or stands there twice, and more than 20 sources."""
    for name in names:
        if not NAME_PATTERN.fullmatch(name):
            raise UsageError(f"source {name!r}: {NAME_RULE}.")
    if len(set(names)) < len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise UsageError(
            f"source {twice!r}: two sources have this name; give every source a name of its own."
        )
    if len(names) > MAX_SOURCES:
        raise UsageError(
            f"{len(names)} sources: a vocabulary has 1 to {MAX_SOURCES}; join some of them."
        )


def inputs_by_source(inputs: Any) -> dict[str, Any]:  # noqa: ANN401 - paths or tables, see bayesgram.io
    """Return the inputs of each source; inputs without names are one source, called ""."""
    if not isinstance(inputs, Mapping):
        return {"": inputs}
    if not inputs:
        raise UsageError.for_argument(
            "inputs",
            "{}",
            "nothing to read. Name at least one source, such as {'wiki': 'wiki/*.parquet'}.",
        )
    if not all(isinstance(name, str) for name in inputs):
        raise UsageError(f"inputs: the names of sources must be text; {NAME_RULE}.")
    check_source_names(list(inputs))
    return dict(inputs)


def mix_counts(by_source: Integers, orders: Integers) -> Integers:
    """Return the counts of the equal mixture of sources, for each order by itself.

    count = S · mean over sources of c_k / S_k, rounded, where S_k is the sum of a source's counts
    and S = Σ S_k. A source that has no n-gram of an order is left out of its mean.

    Args:
        by_source: Counts, K × V.
        orders: The order of each n-gram.

    >>> mix_counts(np.array([[6, 2, 0], [0, 1, 1]]), np.array([1, 1, 1])).tolist()
    [4, 4, 2]
    """
    mixed = np.zeros(orders.size, np.int64)
    for order in distinct_orders(orders):
        rows = np.flatnonzero(orders == order)
        sums = by_source[:, rows].sum(axis=1)
        shares = np.zeros(rows.size)
        # One by one: a sum of floats depends on their order.
        for source, total in zip(by_source, sums, strict=True):
            if total:
                shares += source[rows] * (sums.sum() / total)
        mixed[rows] = np.rint(shares / max(int(np.count_nonzero(sums)), 1)).astype(np.int64)
    return mixed


def find_identical_sources(sources: Sequence[SourceCounts]) -> list[tuple[str, str]]:
    """Return pairs of sources with equal counts for every n-gram: one text, given twice."""
    return [
        (first.name, second.name)
        for first, second in combinations(sources, 2)
        if np.array_equal(first.counts, second.counts)
    ]
