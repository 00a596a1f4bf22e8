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
from bayesgram.public.release_model import ReleaseModel
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.intervals import probability_interval, probability_intervals
from bayesgram.releases.provenance import ORIGIN_COLUMN, encode_origins
from bayesgram.releases.release import Release, is_made_with
from bayesgram.reports.views import SMALLEST_PROBABILITY, NgramRow, ReleaseView
from bayesgram.text.blocklist import Blocklist
from bayesgram.text.ngrams import distinct_orders
from bayesgram.text.tokenizer import Tokenizer, buffers

# Searches whose results are kept, for each table: each takes up to 4 bytes an n-gram. Not measured.
CACHED_SEARCHES = 16


class Sort(StrEnum):
    """What the n-grams of a table can be sorted by, as the page names it."""

    MOVED = "moved"  # the largest change against public text first, either way
    LIFTED = "lifted"
    LOWERED = "lowered"
    PROBABILITY = "probability"
    PUBLIC = "public"  # probability in public text
    SURE = "sure"  # the narrowest interval for its probability first
    ALPHABET = "alphabet"
    DISCOVERED = "discovered"  # those alone, by probability


@dataclass(frozen=True, eq=False)
class Index:
    """The n-grams of one order in byte order; releases of one vocabulary share it.

    Attributes:
        ngrams: The n-grams, sorted by their bytes.
        rows: The row of the release that each of them stands in.
    """

    ngrams: pa.LargeStringArray
    rows: Integers

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

    def find(self, ngram: str) -> int | None:
        """Return the row of an n-gram, None if it is not there."""
        encoded = np.frombuffer(ngram.encode(), np.uint8)
        place = int(self._words.find(encoded, np.array([0, encoded.size]))[0])
        return None if place < 0 else int(self.rows[place])

    @cached_property
    def rows_containing(self) -> Callable[[str], Integers]:
        """The rows of n-grams that contain a text, ascending; the last few results are kept."""
        return lru_cache(CACHED_SEARCHES)(self._search_rows)

    def _search_rows(self, text: str) -> Integers:
        mask = pc.match_substring(self.ngrams, text).to_numpy(zero_copy_only=False)
        return np.sort(self.rows[np.flatnonzero(mask)])


@dataclass(frozen=True, eq=False)
class Page:
    """The rows that one page of a table shows, and how many there are on all pages."""

    total: int
    rows: list[NgramRow]


@dataclass(frozen=True, eq=False)
class OrderTable:
    """The n-grams of one order of a release, to sort, search and page through.

    Attributes:
        release: The release.
        public: Probabilities in public text by row of the release, if the vocabulary was given.
        index: The n-grams of this order.
    """

    release: Release
    public: Floats | None
    index: Index

    @property
    def sorts(self) -> list[Sort]:
        """What this table can be sorted by."""
        return list(self.orderings)

    @cached_property
    def orderings(self) -> dict[Sort, Ids]:
        """The rows of the release by each sort that this table has, as ids."""
        rows = np.sort(self.index.rows)
        places = {
            Sort.PROBABILITY: np.argsort(-self.release.probabilities[rows], kind="stable"),
            Sort.ALPHABET: np.searchsorted(rows, self.index.rows),
        }
        if self.public is not None:
            change = _signed_change(self.public[rows], self.release.probabilities[rows])
            keys = {Sort.MOVED: -np.abs(change), Sort.LIFTED: -change, Sort.LOWERED: change}
            keys[Sort.PUBLIC] = -self.public[rows]
            # These come first: the page offers the sorts in this order.
            places = {sort: np.argsort(key, kind="stable") for sort, key in keys.items()} | places
        if self.release.probability_std is not None:
            relative_std = self.release.probability_std[rows] / np.maximum(
                self.release.probabilities[rows], SMALLEST_PROBABILITY
            )
            places[Sort.SURE] = np.argsort(relative_std, kind="stable")
        if self.release.discovered_mask is not None:
            likely = places[Sort.PROBABILITY]
            places[Sort.DISCOVERED] = likely[self.release.discovered_mask[rows[likely]]]
        return {sort: rows[ordered].astype(np.int32) for sort, ordered in places.items()}

    def rows(self, sort: Sort, text: str, *, reverse: bool = False) -> Ids:
        """Return the rows of n-grams that contain a text, sorted; of all n-grams if it is empty.

        Args:
            sort: What to sort by.
            text: A part of an n-gram, as the release writes it.
            reverse: Whether to return the last one first.
        """
        rows = self._search(sort, text) if text else self.orderings[sort]
        return rows[::-1] if reverse else rows

    def page(self, sort: Sort, text: str, first: int, size: int, *, reverse: bool = False) -> Page:
        """Return one page of the n-grams that contain a text.

        Args:
            sort: What to sort by.
            text: A part of an n-gram; all n-grams if it is empty.
            first: How many n-grams to leave out before the page.
            size: How many n-grams a page has at most.
            reverse: Whether the last one comes first.
        """
        rows = self.rows(sort, text, reverse=reverse)
        return Page(rows.size, [self._row(int(row)) for row in rows[first : first + size]])

    @cached_property
    def _search(self) -> Callable[[Sort, str], Ids]:
        return lru_cache(CACHED_SEARCHES)(self._sort_matches)

    def _sort_matches(self, sort: Sort, text: str) -> Ids:
        matches_mask = np.zeros(len(self.release.ngrams), np.bool_)
        matches_mask[self.index.rows_containing(text)] = True
        ordered = self.orderings[sort]
        return ordered[matches_mask[ordered]]

    def _row(self, row: int) -> NgramRow:
        discovered_mask = self.release.discovered_mask
        return NgramRow(
            printable(self.release.ngrams[row].as_py()),
            None if self.public is None else float(self.public[row]),
            float(self.release.probabilities[row]),
            probability_interval(self.release, row),
            discovered_mask is not None and bool(discovered_mask[row]),
        )


def _signed_change(before: Floats, after: Floats) -> Floats:
    """Return how much n-grams changed: θ log(θ/π) of those that rose, π log(θ/π) of the others.

    `reports.views.largest_changes` ranks by the same values.
    """
    log_ratio = np.log(np.maximum(after, SMALLEST_PROBABILITY)) - np.log(
        np.maximum(before, SMALLEST_PROBABILITY)
    )
    change: Floats = np.where(log_ratio > 0, after, before) * log_ratio
    return change


class FileKind(StrEnum):
    """The formats that n-grams can be downloaded in."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"

    @property
    def media_type(self) -> str:
        """The media type that a browser is given."""
        return {FileKind.CSV: "text/csv", FileKind.JSON: "application/json"}.get(
            self, "application/vnd.apache.parquet"
        )


def write_rows(table: OrderTable, rows: Ids, kind: FileKind) -> bytes:
    """Return these rows of a release as the content of a file.

    Args:
        table: The table.
        rows: Which rows of the release, in which order.
        kind: The format.
    """
    content = rows_to_arrow(table, rows)
    if kind is FileKind.JSON:
        return json.dumps(content.to_pylist(), ensure_ascii=False).encode()
    out = io.BytesIO()
    if kind is FileKind.CSV:
        pa.csv.write_csv(content, out)
    else:
        pq.write_table(content, out, compression="zstd")
    return out.getvalue()


def rows_to_arrow(table: OrderTable, rows: Ids) -> pa.Table:
    """Return rows of a release as a table.

    Its columns are `ngram`, `public`, `probability`, `low`, `high` and `origin`. Those that the
    release does not have (all but `ngram` and `probability`) are left out.
    """
    release = table.release
    places = rows.astype(np.int64)
    columns = {"ngram": release.ngrams.take(pa.array(places))}
    if table.public is not None:
        columns["public"] = table.public[places]
    columns["probability"] = release.probabilities[places]
    ends = probability_intervals(release, places)
    if ends is not None:
        columns |= dict(zip(("low", "high"), ends, strict=True))
    if release.discovered_mask is not None:
        columns[ORIGIN_COLUMN] = encode_origins(release.discovered_mask[places])
    metadata = {"bayesgram.claim": release.card.claim, **release.provenance().metadata}
    return pa.table(columns).replace_schema_metadata(metadata)


def file_name(name: str) -> str:
    """Return a name that any file system and any header accepts.

    >>> file_name("k <script>/é"), file_name("…")
    ('k-script', 'release')
    """
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:100] or "release"


PUBLIC = "public text"  # the name of public text among releases
BUILT_IN = Blocklist()  # the short list of slurs

# Says what is being done, for as long as it is (`console.step`).
Step = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True, eq=False)
class Item:
    """One release of the page: its view, its language model, and its tables by order."""

    view: ReleaseView
    model: LanguageModel
    tables: dict[int, OrderTable]


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Everything that the page reads.

    Attributes:
        items: The releases.
        vocabulary: Public text, if it is given.
        public_model: The language model of public text; None without a vocabulary, and where all
            that it lists was discovered.
        blocklist: Words that are not suggested.
    """

    items: list[Item]
    vocabulary: Vocabulary | None = None
    public_model: LanguageModel | None = None
    blocklist: Blocklist = BUILT_IN


@dataclass
class Builder:
    """Builds a catalogue, release by release.

    Attributes:
        step: Called with a description around each step.
        vocabulary: The vocabulary of most releases; planned with, and typed with as public text.
        tokenizer: The tokenizer of releases that name a tokenizer.json without having it.
        public_models: The public models that releases of their vocabularies start from. Without
            one, the model of a release is made from the release alone.
        others: Vocabularies of releases that were made with another one.
        blocklist: Words that the page does not suggest.
    """

    step: Step
    vocabulary: Vocabulary | None = None
    tokenizer: Tokenizer | None = None
    public_models: Sequence[PublicModel] = ()
    others: Sequence[Vocabulary] = ()
    blocklist: Blocklist = BUILT_IN
    # Releases with the same n-grams share an index for each order; by a digest of the n-grams.
    _indices: dict[str, dict[int, Index]] = field(default_factory=dict)

    def build(self, releases: Sequence[tuple[str, Release]]) -> Catalogue:
        """Build the catalogue of these releases and their names."""
        public_model = None
        if self.vocabulary is not None:
            with self.step("Building the model of public text"):
                made = self._make_public_model(self.vocabulary)
                public_model = None if made is None else self._prepare_model(made)
        items = [self._build_item(name, release) for name, release in releases]
        return Catalogue(items, self.vocabulary, public_model, self.blocklist)

    def _build_item(self, name: str, release: Release) -> Item:
        candidates = [*self.others] if self.vocabulary is None else [self.vocabulary, *self.others]
        vocabulary = next((words for words in candidates if is_made_with(release, words)), None)
        public = None if vocabulary is None else vocabulary.prior
        view = ReleaseView(name, release, public)
        with self.step(f"Building the model of {view.shown_name}"):
            fitting = (
                each for each in self.public_models if is_made_with(release, each.vocabulary)
            )
            parts = ReleaseModel(release, next(fitting, None))
            model = self._prepare_model(parts.builder(None))
        with self.step(f"Sorting the n-grams of {view.shown_name}"):
            tables = self._build_tables(release, public)
        return Item(view, model, tables)

    def _make_public_model(self, vocabulary: Vocabulary) -> LanguageModel | None:
        """Return the model of public text; None where all that is listed was discovered.

        The page says of it that it holds no private data. What people write has no place in it.
        """
        for public in self.public_models:
            if public.vocabulary.is_same_text(vocabulary):
                return public.mixture
        ngrams = vocabulary.ngrams
        counts = vocabulary.counts.astype(np.float64)
        if vocabulary.origins is not None:
            is_public = ~vocabulary.origins.discovered
            if not is_public.any():
                return None
            ngrams = ngrams.filter(pa.array(is_public))
            counts = counts[is_public]
        return LanguageModel.from_counts(ngrams, counts, vocabulary.tokenizer)

    def _prepare_model(self, model: LanguageModel) -> LanguageModel:
        """Give the model its tokenizer, and predict once: the first visitor need not wait."""
        model = replace(model, tokenizer=model.tokenizer.with_definition_of(self.tokenizer))
        model.predict("", 1)  # compiles the search
        return model

    def _build_tables(self, release: Release, public: Floats | None) -> dict[int, OrderTable]:
        indices = self._indices.setdefault(_digest(release.ngrams), {})
        orders = release.orders
        tables = {}
        for order in distinct_orders(orders):
            if order not in indices:
                indices[order] = Index.from_rows(release.ngrams, np.flatnonzero(orders == order))
            tables[order] = OrderTable(release, public, indices[order])
            tables[order].index.find("")  # builds what a search needs
            tables[order].orderings  # noqa: B018 - builds what paging needs
        return tables


def _digest(ngrams: pa.LargeStringArray) -> str:
    """Return a digest of n-grams: equal if two releases have the same ones in the same rows."""
    data, offsets = buffers(ngrams.cast(pa.large_binary()))
    digest = hashlib.sha256((offsets - offsets[0]).tobytes())
    digest.update(data[offsets[0] : offsets[-1]].tobytes())
    return digest.hexdigest()
