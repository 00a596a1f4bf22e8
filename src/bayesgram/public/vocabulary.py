"""The prior of the paper: public counts in log space, and as a distribution.

What is asked of public text: how many n-grams of which orders; and that every source has some.

In:  orders, sizes, totals of sources.   Out: sizes by order, or an error.   Does not read text.

A list of n-grams that is already there, and how often public sources have each of them.

In:  a vocabulary, or a file with a column `ngram` (plain text: one n-gram a line).   Out: the n-grams in their order.
Does not choose anything: what the list lacks is not counted.

The vocabulary 𝒱: the most frequent n-grams of public text, with their public counts α, by source.

In:  public text.   Out: `Vocabulary`; row number = n-gram id. It may hold several orders, each the top of its own.
Which n-grams are the top is decided in `choosing`. Does not read private text: no string that only a private user
wrote can become an entry.

A vocabulary that has grown by what was discovered: public n-grams first, then the new ones, order by order.

What public text would count of a new n-gram follows from its probability q there; but no less than of the rarest n-gram
that is listed, as many people write it, and a list of what people write would have had it.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from numbers import Integral
from operator import index
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bayesgram.arguments import check_arguments
from bayesgram.arrays import Floats, Ids, Integers
from bayesgram.choices import TokenizerKind
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.io import RecordReader, Records, read_records
from bayesgram.io.atomic import spill_folder, write_file_atomically
from bayesgram.notebook import Tabular, html
from bayesgram.public import vocabulary_io
from bayesgram.public.mixture import (
    DEFAULT_SOURCE_NAME,
    SourceCounts,
    check_source_names,
    find_identical_sources,
    inputs_by_source,
    mix_counts,
)
from bayesgram.public.public_rows import load_rows, new_row_sample, save_rows_on_success
from bayesgram.public.sources import CountedNgrams, OpenSource, combined_provenance, open_sources
from bayesgram.public.top_ngrams import (
    ListedWindows,
    SourceWindows,
    TextWindows,
    top_ngrams_of_sources,
    top_ngrams_of_text,
)
from bayesgram.public.vocabulary_io import FORMAT, MAX_SIZE, MAX_TOTAL, SOURCE_COUNT_PREFIX
from bayesgram.releases.provenance import (
    DISCOVERIES_KEY,
    INGREDIENTS_KEY,
    MADE_FROM,
    ORIGIN_COLUMN,
    DiscoveryClaim,
    Ingredient,
    Origins,
    Provenance,
    combined_label,
    printable_name,
    read_ingredients,
    read_origins,
    unique_ingredients,
)
from bayesgram.text.ngrams import NgramCounter, NgramMatcher, Owned, check_order, ngram_orders
from bayesgram.text.row_hashes import RowSample
from bayesgram.text.strings import StringTable
from bayesgram.text.tokenizer import Tokenizer, buffers


def centred_log(counts: NDArray[np.integer] | Floats) -> Floats:
    """x̂ = log(c + 1) − mean log(c + 1).   Eq. 1 (public α; errata E11), Eq. 2 (private c).

    >>> centred_log(np.array([0.0, 0.0])).tolist()
    [0.0, 0.0]
    """
    logs: Floats = np.log1p(counts)
    centred: Floats = logs - logs.mean()
    return centred


def softmax(logits: Floats) -> Floats:
    """θ = exp(h) / Σ exp(h).   Eq. 4."""
    weights: Floats = np.exp(logits - logits.max())
    theta: Floats = weights / weights.sum()
    return theta


def public_distribution(counts: NDArray[np.integer]) -> Floats:
    """π = (α + 1) / Σ (α + 1): softmax of Eq. 1."""
    raised = counts.astype(np.float64) + 1
    theta: Floats = raised / raised.sum()
    return theta


def source_distributions(by_source: NDArray[np.integer], counts: NDArray[np.integer]) -> Floats:
    """π of every source (K × V): what a source lacks it has from the mixture, at one count for each n-gram."""
    mixture = public_distribution(counts)
    if len(by_source) == 1:
        return mixture[None]
    raised = by_source + counts.size * mixture
    distributions: Floats = raised / raised.sum(axis=1, keepdims=True)
    return distributions


def sizes_by_order(order: int | Sequence[int], size: int | Sequence[int]) -> dict[int, int]:
    """How many n-grams there are to be of each order, the shortest first; one size is for all."""
    orders, sizes = sorted(map(check_order, set(_listed("order", order)))), _listed("size", size)
    if isinstance(size, Integral):
        sizes *= len(orders)
    if len(sizes) != len(orders):
        raise UsageError.for_argument(
            "size",
            ",".join(map(str, sizes)),
            f"{len(sizes)} sizes for {len(orders)} orders; give one, or one for each.",
        )
    for each in sizes:
        if not 1 <= each <= MAX_SIZE:
            raise UsageError.for_argument(
                "size", each, f"a vocabulary has 1 to {MAX_SIZE:,} n-grams."
            )
    return dict(zip(orders, sizes, strict=True))


def _listed(name: str, given: int | Sequence[int]) -> list[int]:
    """One whole number, or several; also NumPy's."""
    several: Any = [given] if isinstance(given, Integral) else given
    try:
        return [index(each) for each in several]
    except TypeError:
        raise UsageError(
            f"{name}: takes a whole number, or a list of whole numbers; give one such as 3."
        ) from None


def refuse_empty_sources(
    names: Iterable[str], totals: Sequence[Sequence[int]], orders: Sequence[int]
) -> None:
    """Refuse a source without a single n-gram (totals: order × source); one that lacks an order is left out of it."""
    for name, own in zip(names, zip(*totals, strict=True), strict=True):
        if not any(own):
            wanted = ", ".join(map(str, orders))
            raise BayesgramError(
                f"source {name!r}: has not a single n-gram of order {wanted}; give it more text, or leave it out."
            )


CARD, DISTRIBUTION = (
    "card.json",
    "distribution.parquet",
)  # of a release; a discovery has a card, too, and ...
FOUND, VOCABULARY = (
    "ngrams.parquet",
    "vocab.parquet",
)  # ... what it found, and the vocabulary with it


def read_ngram_list(
    path: str | Path, tokenizer: Tokenizer | None
) -> tuple[pa.LargeStringArray, Tokenizer]:
    """The n-grams of a file, checked, and how text is cut for them."""
    if Path(path).suffix.lower() in {".parquet", ".pq"}:
        ngrams, cut = vocabulary_io.read_ngrams(
            path, vocabulary_io.read_table(Path(path)), tokenizer
        )
        vocabulary_io.check_ngrams(path, ngrams)
        return ngrams, cut
    try:
        records = read_records(Path(path), text_column="ngram", user_column=None, require_rows=True)
        ngrams = pa.concat_arrays([batch.text for batch in records]).cast(pa.large_string())
    except UsageError as error:
        column = "Name the right one with `text_column`."
        raise UsageError(
            str(error).replace(column, "A list has its n-grams in the column 'ngram'.")
        ) from None
    return check_ngram_list(ngrams, tokenizer, path)


def ngram_list_provenance(path: str | Path) -> Provenance:
    """What the n-grams of a file are from, where that is about people.

    A vocabulary's file says it itself; the table of a release or of a discovery lies beside its card.
    """
    from bayesgram.releases.release import Release  # noqa: PLC0415 - few lists are of releases

    file = Path(path)
    if file.suffix.lower() not in {".parquet", ".pq"}:
        return Provenance()
    if file.name == DISTRIBUTION and (file.parent / CARD).is_file():
        return Release.load(file.parent).provenance(printable_name(file.parent))
    if (
        file.name == FOUND
        and (file.parent / CARD).is_file()
        and (file.parent / VOCABULARY).is_file()
    ):
        return Vocabulary.load(file.parent / VOCABULARY).provenance
    table = vocabulary_io.read_table(file)
    origins = read_origins(path, table)
    whole = Provenance(read_ingredients(path, table))
    if origins is None:
        return whole
    return whole.merge(
        origins.to_provenance(table["ngram"].combine_chunks().cast(pa.large_string()))
    )


def check_ngram_list(
    ngrams: pa.LargeStringArray, tokenizer: Tokenizer | None, name: str | Path = "the list"
) -> tuple[pa.LargeStringArray, Tokenizer]:
    """The same for n-grams in memory."""
    if not 1 <= len(ngrams) <= vocabulary_io.MAX_SIZE or ngrams.null_count:
        raise UsageError(
            f"{name}: {len(ngrams)} n-grams; a vocabulary has 1 to {vocabulary_io.MAX_SIZE:,}, and no nulls."
        )
    vocabulary_io.check_ngrams(name, ngrams)
    return ngrams, vocabulary_io.detect_boundaries(tokenizer or Tokenizer(), ngrams)


def count_listed_ngrams(
    ngrams: pa.LargeStringArray,
    matcher: NgramMatcher,
    source: OpenSource,
    rows: RowSample | None = None,
) -> Integers:
    """How often a source has each n-gram of a list; where the list has one twice, the first counts.

    `rows` gets the hashes of the source's rows.
    """
    if isinstance(source, CountedNgrams):
        return lookup_counts(ngrams, source)
    counts = np.zeros(len(ngrams), np.int64)
    for _, found in matcher.match(_owned(source), rows=rows):
        np.add.at(counts, found, 1)
    return counts


def _owned(records: Iterable[Records]) -> Iterable[Owned]:
    """Texts that all belong to nobody."""
    return ((batch.text, np.zeros(len(batch), np.int32)) for batch in records)


def lookup_counts(ngrams: pa.LargeStringArray, source: CountedNgrams) -> Integers:
    """The counts of another list."""
    places = pc.index_in(source.ngrams, ngrams)  # the first
    known = np.flatnonzero(pc.is_valid(places).to_numpy(zero_copy_only=False))
    counts = np.zeros(len(ngrams), np.int64)
    counts[places.take(pa.array(known)).to_numpy()] = source.counts[known]
    return counts


DEFAULT_MEMORY_BYTES = 1 << 30  # bytes for n-grams that are being counted

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, repr=False)
class Vocabulary(Tabular):
    """Public n-grams (tokens joined by one space) and how often public text has them."""

    ngrams: pa.LargeStringArray  # those of one order together, short ones first
    counts: Integers
    order: int  # of the longest
    tokenizer: Tokenizer
    sources: tuple[
        SourceCounts, ...
    ] = ()  # none: all counts are of one source without a name; else counts are their mixture
    origins: Origins | None = None  # None: all are from public text
    made_from: tuple[
        Ingredient, ...
    ] = ()  # published releases and models among its sources, with their labels
    # Hashes of public rows, or the file of the vocabulary, beside which they are (`public_rows`).
    row_hashes: RowSample | Path | None = None

    def __post_init__(self) -> None:
        """Public counts add up to less than 2⁵³, so that no sum of them is ever rounded or overflows."""
        if len(self.ngrams) != self.counts.size or not 1 <= len(self.ngrams) <= MAX_SIZE:
            raise UsageError(
                f"{len(self.ngrams)} n-grams, {self.counts.size} counts: a vocabulary has as many of both."
            )
        if self.counts.min() < 0 or self.counts.sum(dtype=np.float64) >= MAX_TOTAL:
            raise UsageError(
                "the public counts must be 0 or more and add up to less than 2^53; divide them all."
            )
        if vocabulary_io.check_ngrams("vocabulary", self.ngrams) != self.order:
            raise UsageError.for_argument(
                "order", self.order, "the n-grams have another number of tokens."
            )
        if self.sources:
            check_source_names(self.source_names)
            if not np.array_equal(self.counts, _mixed(self.ngrams, self.sources)):
                raise UsageError(
                    "the counts are not the mixture of the sources; use Vocabulary.from_source_counts."
                )
        if self.origins is not None and self.origins.discovered.size != len(self.ngrams):
            raise UsageError("origins: a vocabulary has one for each n-gram.")

    @classmethod
    def from_source_counts(
        cls,
        ngrams: pa.LargeStringArray,
        sources: Sequence[SourceCounts],
        order: int,
        tokenizer: Tokenizer,
        origins: Origins | None = None,
        made_from: tuple[Ingredient, ...] = (),
        rows: RowSample | Path | None = None,
    ) -> "Vocabulary":
        """A vocabulary with counts by source; `counts` follows."""
        return cls(
            ngrams,
            _mixed(ngrams, sources),
            order,
            tokenizer,
            tuple(sources),
            origins,
            made_from,
            rows,
        )

    def with_provenance(self, provenance: Provenance) -> "Vocabulary":
        """The same vocabulary, which remembers that it was made from something about people.

        Args:
            provenance: What published releases, models or discoveries its n-grams and counts are from.

        Returns:
            A vocabulary whose label, and that of every release made with it, follows from all of them.

        """
        if not provenance:
            return self
        whole = self.provenance.merge(provenance)
        return replace(self, origins=whole.origins_for(self.ngrams), made_from=whole.ingredients)

    @property
    def ingredients(self) -> tuple[Ingredient, ...]:
        """Everything published about people that it was made from, discoveries included."""
        claims = () if self.origins is None else self.origins.claims
        return unique_ingredients([*self.made_from, *(claim.ingredient for claim in claims)])

    @property
    def label(self) -> str:
        """The weakest label of everything that it was made from; public text weakens nothing."""
        return combined_label(self.ingredients)

    def __repr__(self) -> str:
        return f"Vocabulary({', '.join(self._summary.values())})"

    def _repr_html_(self) -> str:
        """For notebooks: what it is, and its first n-grams."""
        rows = [
            (str(row["ngram"]), f"{row['count']:,}")
            for row in self.to_arrow().slice(0, 10).to_pylist()
        ]
        return html("Vocabulary", self._summary.items(), ("n-gram", "count"), rows)

    @property
    def _summary(self) -> dict[str, str]:
        orders = ", ".join(str(part.order) for _, part in self.by_order)
        told = {
            "size": f"{len(self):,} n-grams of order {orders}",
            "tokenizer": self.tokenizer.name,
        }
        return {**told, "sources": " and ".join(self.source_names)} if self.sources else told

    def __len__(self) -> int:
        return len(self.ngrams)

    @property
    def source_names(self) -> list[str]:
        """What the sources are called."""
        return [source.name for source in self.sources] or [DEFAULT_SOURCE_NAME]

    @cached_property
    def counts_by_source(self) -> Integers:
        """The counts of each source (K × V)."""
        return np.stack([source.counts for source in self.sources] or [self.counts])

    def select(self, rows: slice | Integers) -> "Vocabulary":
        """Some of the n-grams, which stay in order, with their counts in each source."""
        ngrams = self.ngrams[rows] if isinstance(rows, slice) else self.ngrams.take(pa.array(rows))
        longest = int(ngram_orders(ngrams[len(ngrams) - 1 :])[0]) if len(ngrams) else self.order
        origins = self.origins and self.origins.select(rows)
        if not self.sources:
            counts = self.counts[rows]
            return Vocabulary(
                ngrams, counts, longest, self.tokenizer, origins=origins, made_from=self.made_from
            )
        sources = [SourceCounts(source.name, source.counts[rows]) for source in self.sources]
        return Vocabulary.from_source_counts(
            ngrams, sources, longest, self.tokenizer, origins, self.made_from
        )

    @property
    def provenance(self) -> Provenance:
        """What published things about people its n-grams and counts are from."""
        own = Provenance() if self.origins is None else self.origins.to_provenance(self.ngrams)
        return own.merge(Provenance(self.made_from))

    @cached_property
    def public_rows(self) -> RowSample | None:
        """A sample of the hashes of its public rows, for `count` to compare private rows with.

        None: not known. It is no part of the vocabulary: no fingerprint covers it, a vocabulary made
        of this one lacks it, and it stays in a file of its own, which is read when it is needed.
        """
        return (
            load_rows(self.row_hashes, self.fingerprint)
            if isinstance(self.row_hashes, Path)
            else self.row_hashes
        )

    @cached_property
    def tokens(self) -> pa.LargeStringArray:
        """All that its n-grams are made of, each once."""
        return pc.unique(pc.split_pattern(self.ngrams, " ").flatten())

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of tokenizer, order and n-grams: counts made with another vocabulary are refused."""
        data, offsets = buffers(self.ngrams.cast(pa.large_binary()))
        digest = hashlib.sha256(f"{self.tokenizer.name}\n{self.order}\n{len(self)}\n".encode())
        digest.update((offsets - offsets[0]).astype("<i8").tobytes())
        digest.update(data[offsets[0] : offsets[-1]].tobytes())
        return digest.hexdigest()

    @cached_property
    def prior_fingerprint(self) -> str:
        """SHA-256 of the public counts, by source where there are some: which prior a release was made with."""
        digest = hashlib.sha256("".join(f"{source.name}\n" for source in self.sources).encode())
        for counts in self.counts_by_source:
            digest.update(counts.astype("<i8").tobytes())
        return digest.hexdigest()

    @property
    def card_details(self) -> dict[str, Any]:
        """What a card says of it."""
        told = {
            "size": len(self),
            "order": self.order,
            "orders": [part.order for _, part in self.by_order],
            "tokenizer": self.tokenizer.name,
            "fingerprint": self.fingerprint,
            "prior_fingerprint": self.prior_fingerprint,
            "source": "stated to be public"
            if self.origins is None
            else "public text, and what was discovered",
        }
        if self.made_from:
            told[MADE_FROM] = [asdict(each) for each in self.made_from]
        if self.origins is None:
            return told
        claims = [asdict(claim) for claim in self.origins.claims]
        return {**told, "discovered": int(self.origins.discovered.sum()), "discoveries": claims}

    @cached_property
    def by_order(self) -> list[tuple[slice, "Vocabulary"]]:
        """The n-grams of each order: where they stand, and as a vocabulary of their own."""
        orders = ngram_orders(self.ngrams)
        edges = [0, *(np.flatnonzero(np.diff(orders)) + 1).tolist(), len(self)]
        places = [slice(first, last) for first, last in pairwise(edges)]
        return [(place, self if len(places) == 1 else self.select(place)) for place in places]

    @cached_property
    def prior(self) -> Floats:
        """π, of each order by itself."""
        return np.concatenate([public_distribution(part.counts) for _, part in self.by_order])

    @cached_property
    def word_ids(self) -> tuple[Ids, int]:
        """The words of every n-gram as numbers (V × n), and how many words there are. Of one order only."""
        tokens = pc.split_pattern(self.ngrams, " ").flatten().dictionary_encode()
        numbers = tokens.indices.to_numpy(zero_copy_only=False).astype(np.int32)
        return numbers.reshape(len(self), self.order), len(tokens.dictionary)

    @property
    def unreachable_count(self) -> int:
        """How many n-grams have capitals that the tokenizer would never leave in."""
        if not self.tokenizer.lowercase:
            return 0
        ngrams = self.ngrams
        if self.tokenizer.kind is TokenizerKind.MESSAGES:  # mouths are in upper case
            ngrams = pc.replace_substring_regex(ngrams, "[:;=]'?[-^]?[DPOSX]", "")
        return int(pc.sum(pc.not_equal(pc.utf8_lower(ngrams), ngrams)).as_py())

    @cached_property
    def matcher(self) -> NgramMatcher:
        """Finds these n-grams in text."""
        return NgramMatcher(self.ngrams, self.tokenizer)

    @classmethod
    @check_arguments
    def from_public(
        cls,
        inputs: Any,  # noqa: ANN401 - paths or tables, see bayesgram.io
        *,
        order: int | Sequence[int] = 3,
        size: int | Sequence[int] = 50_000,
        text_column: str = "text",
        tokenizer: Tokenizer = Tokenizer(),  # noqa: B008 - frozen
        skip_bad_rows: bool = False,
        memory: int = DEFAULT_MEMORY_BYTES,
    ) -> "Vocabulary":
        """The `size` most frequent n-grams (of each order) of public text: files, folders, globs or tables.

        Several sources have names: {"wiki": "wiki/*.parquet", "talk": "lines.txt", "news": "model.arpa"}. `size` may be
        a number for each order, from the shortest.
        """
        read = _reader(text_column, skip_bad_rows=skip_bad_rows)
        sources = open_sources(inputs_by_source(inputs), tokenizer, text_column, read)
        return cls.from_sources(sources, order=order, size=size, tokenizer=tokenizer, memory=memory)

    @classmethod
    @check_arguments
    def from_list(
        cls,
        ngrams: "Vocabulary | str | Path | Sequence[str] | pa.LargeStringArray",
        inputs: Any,  # noqa: ANN401 - paths or tables, see bayesgram.io
        *,
        text_column: str = "text",
        tokenizer: Tokenizer | None = None,
        skip_bad_rows: bool = False,
    ) -> "Vocabulary":
        """The n-grams of a list (a vocabulary, a file, or texts) in their order, counted in public text or sources."""
        provenance = Provenance()
        if isinstance(ngrams, Vocabulary):
            listed, cut, provenance = ngrams.ngrams, ngrams.tokenizer, ngrams.provenance
            if tokenizer not in {None, cut}:
                raise UsageError(
                    f"tokenizer: the vocabulary has its own, {cut.name!r}; leave it out."
                )
        elif isinstance(ngrams, (str, Path)):
            listed, cut = read_ngram_list(ngrams, tokenizer)
            provenance = ngram_list_provenance(ngrams)
        else:
            listed, cut = check_ngram_list(pa.array(ngrams, pa.large_string()), tokenizer)
        read = _reader(text_column, skip_bad_rows=skip_bad_rows)
        made = cls.from_list_and_sources(
            listed, open_sources(inputs_by_source(inputs), cut, text_column, read), cut
        )
        return made.with_provenance(provenance)

    @classmethod
    def from_list_and_sources(
        cls, ngrams: pa.LargeStringArray, sources: Mapping[str, OpenSource], tokenizer: Tokenizer
    ) -> "Vocabulary":
        """The same, where the sources are open."""
        matcher, rows = NgramMatcher(ngrams, tokenizer), _rows_of(sources, tokenizer)
        counts = np.stack(
            [count_listed_ngrams(ngrams, matcher, source, rows) for source in sources.values()]
        )
        made = cls.from_counts(ngrams, list(sources), counts, tokenizer, rows)
        return made.with_provenance(combined_provenance(sources.values()))

    @classmethod
    def from_records(
        cls,
        records: Iterable[Records],
        *,
        order: int | Sequence[int],
        size: int | Sequence[int],
        tokenizer: Tokenizer,
        memory: int = DEFAULT_MEMORY_BYTES,
    ) -> "Vocabulary":
        """The `size` most frequent n-grams of each order; of equal counts, the first in byte order token by token.

        N-grams beyond `memory` bytes are spilled to disk, the answer stays exact; distinct tokens stay in memory.
        """
        return cls.from_sources(
            {"": records}, order=order, size=size, tokenizer=tokenizer, memory=memory
        )

    @classmethod
    def from_sources(
        cls,
        sources: Mapping[str, OpenSource],
        *,
        order: int | Sequence[int],
        size: int | Sequence[int],
        tokenizer: Tokenizer,
        memory: int = DEFAULT_MEMORY_BYTES,
    ) -> "Vocabulary":
        """The same of several sources: the `size` n-grams of each order with the highest mean of their frequencies."""
        sizes = sizes_by_order(order, size)
        orders = list(sizes)
        rows = _rows_of(sources, tokenizer)
        with spill_folder() as scratch:
            tokens = StringTable()
            make = partial(
                NgramCounter,
                orders,
                tokenizer,
                memory=memory,
                tokens=tokens,
                texts=len(sources),
                rows=rows,
            )
            opened = [
                _windows(source, tokens, partial(make, spill_dir=_folder(scratch, number)))
                for number, source in enumerate(sources.values())
            ]
            if len(sources) > 1:
                refuse_empty_sources(
                    sources, [[source.total(each) for source in opened] for each in orders], orders
                )
            tops = [_top(opened, tokens, each, own, memory) for each, own in sizes.items()]
        ngrams = pa.concat_arrays([ngrams for ngrams, _ in tops])
        made = cls.from_counts(
            ngrams, list(sources), np.hstack([counts for _, counts in tops]), tokenizer, rows
        )
        return made.with_provenance(combined_provenance(sources.values()))

    @classmethod
    def from_counts(
        cls,
        ngrams: pa.LargeStringArray,
        names: Sequence[str],
        counts: Integers,
        tokenizer: Tokenizer,
        rows: RowSample | None = None,
    ) -> "Vocabulary":
        """A vocabulary from the counts of each source (K × V); a single one may have the name ""."""
        order = vocabulary_io.check_ngrams("vocabulary", ngrams)
        if list(names) == [""]:
            return cls(ngrams, counts[0], order, tokenizer, row_hashes=rows)
        for name, own in zip(names, counts, strict=True):
            if not own.any():
                raise BayesgramError(
                    f"source {name!r}: has none of the {len(ngrams):,} n-grams of the vocabulary; is it the right"
                    " text, in the right column and language? If so, leave it out."
                )
        sources = list(map(SourceCounts, names, counts))
        made = cls.from_source_counts(ngrams, sources, order, tokenizer, rows=rows)
        for first, second in find_identical_sources(made.sources):
            logger.warning(
                "warning: the sources %s and %s have equal counts for every n-gram: is it one text, given twice?",
                *(first, second),
            )
        return made

    @check_arguments
    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write vocab.parquet: `ngram`, `count`, `count_NAME` of each source; tokenizer and order are metadata.

        What is known of its public rows goes to vocab.parquet.rows, beside it (docs/files.md).
        """
        with self.save_on_success(path, force=force):
            pass

    @contextmanager
    def save_on_success(self, path: str | Path, *, force: bool) -> Iterator[None]:
        """Write the vocabulary and its rows; both take their places when the block ends well."""
        with write_file_atomically(path, force=force) as aside:
            self.write(aside)
            with save_rows_on_success(self.public_rows, path, self.fingerprint):
                yield

    def write(self, file: Path) -> None:
        """Write a new file."""
        metadata = {
            "bayesgram.format": str(FORMAT),
            "bayesgram.tokenizer": self.tokenizer.name,
            "bayesgram.order": str(self.order),
        }
        if self.origins is not None:
            metadata[DISCOVERIES_KEY] = self.origins.to_json()
        if self.made_from:
            metadata[INGREDIENTS_KEY] = json.dumps([asdict(each) for each in self.made_from])
        pq.write_table(self.to_arrow().replace_schema_metadata(metadata), file, compression="zstd")

    def to_arrow(self) -> pa.Table:
        """The rows of vocab.parquet."""
        columns = {
            "count": self.counts,
            **{SOURCE_COUNT_PREFIX + source.name: source.counts for source in self.sources},
        }
        arrays = {
            "ngram": self.ngrams,
            **{name: pa.array(counts) for name, counts in columns.items()},
        }
        return pa.table(
            arrays if self.origins is None else {**arrays, ORIGIN_COLUMN: self.origins.column}
        )

    @classmethod
    @check_arguments
    def load(cls, path: str | Path, *, tokenizer: Tokenizer | None = None) -> "Vocabulary":
        """Read a vocabulary; one made elsewhere says no tokenizer.

        It needs the column `ngram`, and `count` or a column `count_NAME` for each source, from which `count` follows.
        """
        table = vocabulary_io.read_table(Path(path))
        vocabulary_io.check_columns(path, table.column_names)
        ngrams, cut = vocabulary_io.read_ngrams(path, table, tokenizer)
        order, names = (
            vocabulary_io.check_ngrams(path, ngrams),
            vocabulary_io.source_columns(table.column_names),
        )
        found, made_from = read_origins(path, table), read_ingredients(path, table)
        if not names:
            counts = vocabulary_io.read_counts(path, table, "count")
            return cls(
                ngrams,
                counts,
                order,
                cut,
                origins=found,
                made_from=made_from,
                row_hashes=Path(path),
            )
        sources = [
            SourceCounts(
                name.removeprefix(SOURCE_COUNT_PREFIX), vocabulary_io.read_counts(path, table, name)
            )
            for name in names
        ]
        for source in sources:
            if not source.counts.any():
                raise UsageError(
                    f"{path}: the source {source.name!r} has none of the n-grams; leave its column out."
                )
        return cls.from_source_counts(ngrams, sources, order, cut, found, made_from, Path(path))


def _reader(text_column: str, *, skip_bad_rows: bool) -> Callable[[Any], RecordReader]:
    """What reads public text."""
    return partial(
        read_records,
        text_column=text_column,
        user_column=None,
        skip_bad_rows=skip_bad_rows,
        warn_about_users=True,
    )


def _rows_of(sources: Mapping[str, OpenSource], tokenizer: Tokenizer) -> RowSample | None:
    """An empty sample for the rows of text; None where all n-grams were counted before."""
    is_text = [not isinstance(source, CountedNgrams) for source in sources.values()]
    return new_row_sample(tokenizer) if any(is_text) else None


def _folder(scratch: Path, number: int) -> Path:
    """A folder for the n-grams of one source."""
    folder = scratch / str(number)
    folder.mkdir()
    return folder


def _windows(
    source: OpenSource, tokens: StringTable, counter: Callable[[], NgramCounter]
) -> SourceWindows:
    """All n-grams of a source, read."""
    if isinstance(source, CountedNgrams):
        return ListedWindows.from_ngrams(source.ngrams, source.counts, tokens)
    counting = counter()
    for batch in source:
        counting.add(batch.text)
    return TextWindows(counting)


def _top(
    sources: Sequence[SourceWindows], tokens: StringTable, order: int, size: int, memory: int
) -> tuple[pa.LargeStringArray, Integers]:
    """The n-grams of one order, and their counts in each source (K × V)."""
    if len(sources) == 1 and isinstance(sources[0], TextWindows):
        ngrams, counts = top_ngrams_of_text(sources[0].counter, order, size)
        return ngrams, counts[None]
    return top_ngrams_of_sources(sources, tokens, order, size, memory=memory)


def _mixed(ngrams: pa.LargeStringArray, sources: Sequence[SourceCounts]) -> Integers:
    """The mixture of sources, if their counts are such."""
    for source in sources:
        if source.counts.size != len(ngrams):
            raise UsageError(
                f"source {source.name!r}: {len(ngrams)} n-grams, {source.counts.size} counts."
            )
        if source.counts.min(initial=0) < 0:
            raise UsageError(f"source {source.name!r}: public counts must be 0 or more.")
    by_source = np.stack([source.counts for source in sources])
    if by_source.sum(dtype=np.float64) >= MAX_TOTAL:
        raise UsageError(
            "the public counts must be 0 or more and add up to less than 2^53; divide them all."
        )
    return mix_counts(by_source, ngram_orders(ngrams))


def extend_vocabulary(
    vocabulary: Vocabulary, ngrams: pa.LargeStringArray, logs: Floats, claim: DiscoveryClaim
) -> Vocabulary:
    """The vocabulary with n-grams that it lacks, of orders that it has; `logs` are log q."""
    before, orders = vocabulary.origins, ngram_orders(ngrams)
    names, counts, discovered = [], [], []
    for place, part in vocabulary.by_order:
        new = np.flatnonzero(orders == part.order)
        names += [part.ngrams, ngrams.take(pa.array(new))]
        counts += [
            part.counts_by_source,
            np.stack([_expected(own, logs[new]) for own in part.counts_by_source]),
        ]
        old = np.zeros(len(part), bool) if before is None else before.discovered[place]
        discovered += [old, np.ones(new.size, bool)]
    claims = (*(before.claims if before else ()), claim)
    whole, origins = np.hstack(counts), Origins(np.concatenate(discovered), claims)
    listed = pa.concat_arrays(names)
    if not vocabulary.sources:
        order, tokenizer, made_from = vocabulary.order, vocabulary.tokenizer, vocabulary.made_from
        return Vocabulary(listed, whole[0], order, tokenizer, origins=origins, made_from=made_from)
    sources = [
        SourceCounts(source.name, own)
        for source, own in zip(vocabulary.sources, whole, strict=True)
    ]
    return Vocabulary.from_source_counts(
        listed, sources, vocabulary.order, vocabulary.tokenizer, origins, vocabulary.made_from
    )


def _expected(counts: Integers, logs: Floats) -> Integers:
    """What a source with these counts would have of n-grams with these probabilities."""
    rarest = int(counts[counts > 0].min(initial=1 << 40)) if counts.any() else 0
    expected: Integers = np.maximum(np.rint(counts.sum() * np.exp(logs)), rarest).astype(np.int64)
    return expected
