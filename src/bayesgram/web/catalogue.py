"""Everything that the page shows, in memory: releases, their models and tables, and public text.

A `Builder` loads a `Catalogue` once, at start; it does not change afterwards, so that threads may
read it. The n-grams of a release are sorted in every order that somebody may ask for
(`OrderTable`), and then cut into pages or written as files. Searching is bounded: one pass over
the n-grams, and the last answers are kept. Released data only.
"""

import hashlib
import io
import json
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from bayesgram.arrays import Floats, Ids, Integers
from bayesgram.charts import printable
from bayesgram.lm.language_model import LanguageModel
from bayesgram.lm.packed import Words
from bayesgram.public.public_model import PublicModel
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.intervals import probability_interval, probability_intervals
from bayesgram.releases.provenance import ORIGIN_COLUMN, encode_origins
from bayesgram.releases.release import Release, is_made_with
from bayesgram.reports.views import SMALLEST_PROBABILITY, NgramRow, ReleaseView
from bayesgram.text.ngrams import distinct_orders
from bayesgram.text.tokenizer import Tokenizer, buffers

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
    def from_rows(cls, ngrams: pa.LargeStringArray, rows: Integers) -> "Index":
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
        places = np.flatnonzero(
            pc.match_substring(self.ngrams, text).to_numpy(zero_copy_only=False)
        )
        return np.sort(self.rows[places])


@dataclass(frozen=True, eq=False)
class Page:
    """Some rows of many."""

    total: int
    rows: list[NgramRow]


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
        if self.release.probability_std is not None:
            doubt = self.release.probability_std[rows] / np.maximum(
                self.release.probabilities[rows], SMALLEST_PROBABILITY
            )
            found[Sort.SURE] = np.argsort(doubt, kind="stable")
        if self.release.discovered_mask is not None:
            likely = found[Sort.PROBABILITY]
            found[Sort.DISCOVERED] = likely[self.release.discovered_mask[rows[likely]]]
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

    def _row(self, row: int) -> NgramRow:
        before = None if self.public is None else float(self.public[row])
        ngram = printable(self.release.ngrams[row].as_py())
        found = self.release.discovered_mask is not None and bool(self.release.discovered_mask[row])
        return NgramRow(
            ngram,
            before,
            float(self.release.probabilities[row]),
            probability_interval(self.release, row),
            found,
        )


def _moved(before: Floats, after: Floats) -> Floats:
    """How much an n-gram moved, signed: θ log(θ/π) up, π log(θ/π) down, as `released.largest_changes` ranks them."""
    ratio = np.log(np.maximum(after, SMALLEST_PROBABILITY)) - np.log(
        np.maximum(before, SMALLEST_PROBABILITY)
    )
    moved: Floats = np.where(ratio > 0, after, before) * ratio
    return moved


class FileKind(StrEnum):
    """What kind of file."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"

    @property
    def media_type(self) -> str:
        """Its type, for a browser."""
        return {FileKind.CSV: "text/csv", FileKind.JSON: "application/json"}.get(
            self, "application/vnd.apache.parquet"
        )


def write_rows(table: OrderTable, rows: Ids, kind: FileKind) -> bytes:
    """These rows of a release, as a file."""
    found = columns(table, rows)
    if kind is FileKind.JSON:
        return json.dumps(found.to_pylist(), ensure_ascii=False).encode()
    out = io.BytesIO()
    if kind is FileKind.CSV:
        pa.csv.write_csv(found, out)
    else:
        pq.write_table(found, out, compression="zstd")
    return out.getvalue()


def columns(table: OrderTable, rows: Ids) -> pa.Table:
    """`ngram`, `public` where it is known, `probability`, the ends of its interval and `origin`, likewise."""
    release, places = table.release, rows.astype(np.int64)
    found = {"ngram": release.ngrams.take(pa.array(places))}
    if table.public is not None:
        found["public"] = table.public[places]
    found["probability"] = release.probabilities[places]
    ends = probability_intervals(release, places)
    if ends is not None:
        found |= dict(zip(("low", "high"), ends, strict=True))
    if release.discovered_mask is not None:
        found[ORIGIN_COLUMN] = encode_origins(release.discovered_mask[places])
    metadata = {"bayesgram.claim": release.card.claim, **release.provenance().metadata}
    return pa.table(found).replace_schema_metadata(metadata)


def file_name(name: str) -> str:
    """A name that any file system and header takes.

    >>> file_name("k <script>/é"), file_name("…")
    ('k-script', 'release')
    """
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:100] or "release"


PUBLIC = "public text"

Step = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True, eq=False)
class Item:
    """A release, as the page has it."""

    view: ReleaseView
    model: LanguageModel
    tables: dict[int, OrderTable]  # by order


@dataclass(frozen=True, eq=False)
class Catalogue:
    """What the page reads."""

    items: list[Item]
    vocabulary: Vocabulary | None = None
    public_model: LanguageModel | None = None


@dataclass
class Builder:
    """Loads a catalogue release by release; says what it is doing."""

    step: Step
    vocabulary: Vocabulary | None = None  # what is planned with, and typed with as public text
    tokenizer: Tokenizer | None = (
        None  # brings the file of releases whose text is cut by a tokenizer.json
    )
    public: PublicModel | None = None  # what releases move, where it is given
    others: Sequence[Vocabulary] = ()  # of releases that were made with another one
    _indices: dict[str, dict[int, Index]] = field(default_factory=dict)  # by vocabulary

    def catalogue(self, releases: Sequence[tuple[str, Release]]) -> Catalogue:
        """The page's data; models are tried once, so that the first person doesn't wait for a compiler."""
        public_model = None
        if self.vocabulary is not None:
            with self.step("Building the model of public text"):
                public_model = self._tried(self._public(self.vocabulary))
        return Catalogue(
            [self._item(name, release) for name, release in releases], self.vocabulary, public_model
        )

    def _item(self, name: str, release: Release) -> Item:
        own = next((each for each in self._vocabularies if is_made_with(release, each)), None)
        public = None if own is None else own.prior
        view = ReleaseView(name, release, public)
        with self.step(f"Building the model of {view.shown_name}"):
            moves = (
                self.public if own is self.vocabulary else None
            )  # one of another vocabulary stays as it is
            model = (
                LanguageModel.from_release(release) if moves is None else moves.adapt_to(release)
            )
            model = self._tried(model)
        with self.step(f"Sorting the n-grams of {view.shown_name}"):
            tables = self._tables(release, public)
        return Item(view, model, tables)

    @property
    def _vocabularies(self) -> list[Vocabulary]:
        return [*([] if self.vocabulary is None else [self.vocabulary]), *self.others]

    def _public(self, vocabulary: Vocabulary) -> LanguageModel:
        if self.public is not None:
            return self.public.mixture
        counts = vocabulary.counts.astype(np.float64)
        return LanguageModel.from_counts(vocabulary.ngrams, counts, vocabulary.tokenizer)

    def _tried(self, model: LanguageModel) -> LanguageModel:
        """The model, able to cut text and compiled."""
        model = replace(model, tokenizer=model.tokenizer.with_definition_of(self.tokenizer))
        model.predict("", 1)
        return model

    def _tables(self, release: Release, public: Floats | None) -> dict[int, OrderTable]:
        indices = self._indices.setdefault(_content(release.ngrams), {})
        orders, tables = release.orders, {}
        for order in distinct_orders(orders):
            if order not in indices:
                indices[order] = Index.from_rows(release.ngrams, np.flatnonzero(orders == order))
            tables[order] = OrderTable(release, public, indices[order])
            tables[order].index.find("")  # builds what a search needs
            tables[order].orderings  # noqa: B018 - builds what paging needs
        return tables


def _content(ngrams: pa.LargeStringArray) -> str:
    """What two releases share if they have the same n-grams in the same rows."""
    data, offsets = buffers(ngrams.cast(pa.large_binary()))
    digest = hashlib.sha256((offsets - offsets[0]).tobytes())
    digest.update(data[offsets[0] : offsets[-1]].tobytes())
    return digest.hexdigest()
