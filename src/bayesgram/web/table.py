"""The n-grams of a release in every order that somebody may ask for: computed once, then cut into pages.

Searching is bounded: one pass over the n-grams, and the last answers are kept.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arrays import Floats, Ids, Integers
from bayesgram.released.certainty import interval
from bayesgram.released.changes_view import printable
from bayesgram.released.largest_changes import SMALLEST
from bayesgram.released.release import Release
from bayesgram.released.report_views import Row
from bayesgram.released.words import Words
from bayesgram.text.tokens import buffers

KEPT_SEARCHES = 16  # each holds up to 4 bytes an n-gram


class Sort(StrEnum):
    """By what the n-grams can be sorted."""

    MOVED = "moved"  # against public text, either way
    LIFTED = "lifted"
    LOWERED = "lowered"
    PROBABILITY = "probability"
    PUBLIC = "public"  # probability in public text
    SURE = "sure"  # the narrowest interval for its probability first
    ALPHABET = "alphabet"
    DISCOVERED = "discovered"  # those alone, by probability


@dataclass(frozen=True, eq=False)
class Index:
    """The n-grams of one order in byte order: releases of one vocabulary share it."""

    ngrams: pa.LargeStringArray
    rows: Integers  # of the release, by place in byte order

    @classmethod
    def of(cls, ngrams: pa.LargeStringArray, rows: Integers) -> "Index":
        """Sort the n-grams that stand in these rows."""
        chosen = ngrams.take(pa.array(rows))
        order = pc.sort_indices(chosen)
        return cls(chosen.take(order), rows[order.to_numpy()])

    @cached_property
    def _words(self) -> Words:
        data, offsets = buffers(self.ngrams.cast(pa.large_binary()))
        return Words(data[offsets[0] : offsets[-1]], offsets - offsets[0])

    @cached_property
    def containing(self) -> Callable[[str], Integers]:
        """The rows of n-grams that contain a text, ascending; the last few answers are kept."""
        return lru_cache(KEPT_SEARCHES)(self._containing)

    def find(self, ngram: str) -> int | None:
        """The row of an n-gram, if it is there."""
        given = np.frombuffer(ngram.encode(), np.uint8)
        place = int(self._words.find(given, np.array([0, given.size]))[0])
        return None if place < 0 else int(self.rows[place])

    def _containing(self, text: str) -> Integers:
        places = np.flatnonzero(pc.match_substring(self.ngrams, text).to_numpy(zero_copy_only=False))
        return np.sort(self.rows[places])


@dataclass(frozen=True, eq=False)
class Page:
    """Some rows of many."""

    total: int
    rows: list[Row]


@dataclass(frozen=True, eq=False)
class OrderTable:
    """What a release says about its n-grams of one order."""

    release: Release
    public: Floats | None  # π, where the vocabulary was given
    index: Index

    @property
    def sorts(self) -> list[Sort]:
        """What this table can be sorted by."""
        return list(self.orderings)

    @cached_property
    def orderings(self) -> dict[Sort, Ids]:
        """The rows in every order."""
        rows = np.sort(self.index.rows)
        found = {
            Sort.PROBABILITY: np.argsort(-self.release.probabilities[rows], kind="stable"),
            Sort.ALPHABET: np.searchsorted(rows, self.index.rows),
        }
        if self.public is not None:
            moved = _moved(self.public[rows], self.release.probabilities[rows])
            keys = {Sort.MOVED: -np.abs(moved), Sort.LIFTED: -moved, Sort.LOWERED: moved}
            keys[Sort.PUBLIC] = -self.public[rows]
            found = {sort: np.argsort(key, kind="stable") for sort, key in keys.items()} | found
        if self.release.deviations is not None:
            doubt = self.release.deviations[rows] / np.maximum(self.release.probabilities[rows], SMALLEST)
            found[Sort.SURE] = np.argsort(doubt, kind="stable")
        if self.release.discovered is not None:
            likely = found[Sort.PROBABILITY]
            found[Sort.DISCOVERED] = likely[self.release.discovered[rows[likely]]]
        return {sort: rows[places].astype(np.int32) for sort, places in found.items()}

    def rows(self, sort: Sort, text: str, *, reverse: bool = False) -> Ids:
        """Where the n-grams are that contain a text, in order or the other way round."""
        found = self._found(sort, text) if text else self.orderings[sort]
        return found[::-1] if reverse else found

    def page(self, sort: Sort, text: str, first: int, size: int, *, reverse: bool = False) -> Page:
        """Those n-grams, from the first-th on."""
        rows = self.rows(sort, text, reverse=reverse)
        return Page(rows.size, [self._row(int(row)) for row in rows[first : first + size]])

    @cached_property
    def _found(self) -> Callable[[Sort, str], Ids]:
        return lru_cache(KEPT_SEARCHES)(self._search)

    def _search(self, sort: Sort, text: str) -> Ids:
        wanted = np.zeros(len(self.release.ngrams), np.bool_)
        wanted[self.index.containing(text)] = True
        ordered = self.orderings[sort]
        return ordered[wanted[ordered]]

    def _row(self, row: int) -> Row:
        before = None if self.public is None else float(self.public[row])
        ngram = printable(self.release.ngrams[row].as_py())
        found = self.release.discovered is not None and bool(self.release.discovered[row])
        return Row(ngram, before, float(self.release.probabilities[row]), interval(self.release, row), found)


def _moved(before: Floats, after: Floats) -> Floats:
    """How much an n-gram moved, signed: θ log(θ/π) up, π log(θ/π) down, as `released.largest_changes` ranks them."""
    ratio = np.log(np.maximum(after, SMALLEST)) - np.log(np.maximum(before, SMALLEST))
    moved: Floats = np.where(ratio > 0, after, before) * ratio
    return moved
