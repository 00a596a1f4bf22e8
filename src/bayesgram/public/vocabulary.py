"""The vocabulary: the most frequent n-grams of public text, with their public counts.

`Vocabulary` holds the n-grams (row number = n-gram id), how often each public source has them, and
how text is cut into tokens. It may hold several orders, each with its own top n-grams. It is made
from public text (`from_public`), from a list of n-grams that exists already (`from_list`), or by
adding discovered n-grams to another vocabulary (`extend_vocabulary`).

No private text is read here: no string that only a private user wrote can become an entry. Which
n-grams are the most frequent ones is decided in `top_ngrams`.
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
from bayesgram.releases import (
    CARD_FILE,
    DISCOVERY_FILE,
    DISTRIBUTION_FILE,
    VOCABULARY_FILE,
)
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
from bayesgram.text.blocklist import Blocklist, refuse_if_all_blocked
from bayesgram.text.ngrams import (
    NgramCounter,
    NgramMatcher,
    Owned,
    check_order,
    ngram_orders,
    ngram_tokens,
)
from bayesgram.text.row_hashes import RowSample
from bayesgram.text.strings import StringTable
from bayesgram.text.tokenizer import Tokenizer, buffers, chunks

DEFAULT_ORDERS = (1, 2, 3)  # words, pairs and triples: what a keyboard model needs
DEFAULT_SIZE = 50_000  # n-grams of each order, as many as the paper's vocabulary
# Public counts of discovered rows, where no row is public: MAX_ROW_COUNT for the likeliest, and for
# others by q to this power, which is that of the weights of candidates. Neither was measured.
MAX_ROW_COUNT = 1000
ROW_PRIOR_EXPONENT = 0.1
DEFAULT_MEMORY_BYTES = 1 << 30  # for n-grams that are being counted; beyond it they go to disk

logger = logging.getLogger(__name__)


# --- The prior: public counts in log space, and as a distribution ---


def centred_log(counts: NDArray[np.integer] | Floats) -> Floats:
    """Return x̂ = log(c + 1) − mean log(c + 1).

    Eq. 1 of the paper for public counts α (errata E11), Eq. 2 for private counts c.

    >>> centred_log(np.array([0.0, 0.0])).tolist()
    [0.0, 0.0]
    """
    logs: Floats = np.log1p(counts)
    centred: Floats = logs - logs.mean()
    return centred


def softmax(logits: Floats) -> Floats:
    """Return θ = exp(h) / Σ exp(h), Eq. 4 of the paper."""
    weights: Floats = np.exp(logits - logits.max())
    theta: Floats = weights / weights.sum()
    return theta


def public_distribution(counts: NDArray[np.integer]) -> Floats:
    """Return π = (α + 1) / Σ (α + 1), which is the softmax of Eq. 1."""
    smoothed = counts.astype(np.float64) + 1
    distribution: Floats = smoothed / smoothed.sum()
    return distribution


def source_distributions(
    counts_by_source: NDArray[np.integer], counts: NDArray[np.integer]
) -> Floats:
    """Return the smoothed distribution of every source (K × V).

    Each source gets as many counts of the mixture as there are n-grams, so that an n-gram which it
    lacks has the probability that the mixture gives it.
    """
    mixture = public_distribution(counts)
    if len(counts_by_source) == 1:
        return mixture[None]
    smoothed = counts_by_source + counts.size * mixture
    distributions: Floats = smoothed / smoothed.sum(axis=1, keepdims=True)
    return distributions


# --- The vocabulary ---


@dataclass(frozen=True, eq=False, repr=False)
class Vocabulary(Tabular):
    """Public n-grams (tokens joined by one space) and how often public text has them.

    Attributes:
        ngrams: The n-grams. Those of one order stand together, short ones first.
        counts: The public count of each n-gram; with several sources, of their equal mixture.
        order: The number of tokens of the longest n-grams.
        tokenizer: How text is cut into tokens.
        sources: The counts of each source. Empty if all counts are of one source without a name.
        origins: Which n-grams were discovered; None if all are from public text.
        made_from: The published releases and models among its sources, with their labels.
        row_hashes: Hashes of public rows, or the path of the vocabulary's file, beside which they
            are stored (see `public_rows`); None if they are not known.
    """

    ngrams: pa.LargeStringArray
    counts: Integers
    order: int
    tokenizer: Tokenizer
    sources: tuple[SourceCounts, ...] = ()
    origins: Origins | None = None
    made_from: tuple[Ingredient, ...] = ()
    row_hashes: RowSample | Path | None = None

    def __post_init__(self) -> None:
        # Public counts add up to less than 2^53, so no sum of them is ever rounded or overflows.
        # Only rows may all come from a discovery; n-grams need public ones of their order.
        least = 0 if self.tokenizer.is_rows else 1
        if len(self.ngrams) != self.counts.size or not least <= len(self.ngrams) <= MAX_SIZE:
            raise UsageError(
                f"{len(self.ngrams)} n-grams, {self.counts.size} counts: a vocabulary"
                " has as many of both."
            )
        if self.counts.min(initial=0) < 0 or self.counts.sum(dtype=np.float64) >= MAX_TOTAL:
            raise UsageError(
                "the public counts must be 0 or more and add up to less than 2^53; divide them all."
            )
        if vocabulary_io.check_ngrams("vocabulary", self.ngrams, self.tokenizer) != self.order:
            raise UsageError.for_argument(
                "order", self.order, "the n-grams have another number of tokens."
            )
        if self.sources:
            check_source_names(self.source_names)
            if not np.array_equal(
                self.counts, _mix_sources(self.ngrams, self.sources, self.tokenizer)
            ):
                raise UsageError(
                    "the counts are not the mixture of the sources; use"
                    " Vocabulary.from_source_counts."
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
        row_hashes: RowSample | Path | None = None,
    ) -> "Vocabulary":
        """Make a vocabulary from the counts of each source; `counts` is their mixture.

        Args:
            ngrams: The n-grams, short ones first.
            sources: The counts of each public source.
            order: The highest order.
            tokenizer: How text is cut.
            origins: Which n-grams were discovered; None if all are public.
            made_from: The releases and models that it was made from.
            row_hashes: Hashes of the public rows, or where they are.
        """
        return cls(
            ngrams,
            _mix_sources(ngrams, sources, tokenizer),
            order,
            tokenizer,
            tuple(sources),
            origins,
            made_from,
            row_hashes,
        )

    def with_provenance(self, provenance: Provenance) -> "Vocabulary":
        """Return the same vocabulary, which records that it was made from something about people.

        Args:
            provenance: The published releases, models or discoveries that its n-grams and counts
                are from.

        Returns:
            A vocabulary whose label, and that of every release made with it, follows from all of
            them.
        """
        if not provenance:
            return self
        merged = self.provenance.merge(provenance)
        return replace(self, origins=merged.origins_for(self.ngrams), made_from=merged.ingredients)

    @property
    def ingredients(self) -> tuple[Ingredient, ...]:
        """Everything published about people that it was made from, including discoveries."""
        claims = () if self.origins is None else self.origins.claims
        return unique_ingredients([*self.made_from, *(claim.ingredient for claim in claims)])

    @property
    def label(self) -> str:
        """The weakest label of everything that it was made from. Public text weakens nothing."""
        return combined_label(self.ingredients)

    def __repr__(self) -> str:
        return f"Vocabulary({', '.join(self._summary.values())})"

    def _repr_html_(self) -> str:
        """Show a summary and the first n-grams in a notebook."""
        rows = [
            (str(row["ngram"]), f"{row['count']:,}")
            for row in self.to_arrow().slice(0, 10).to_pylist()
        ]
        return html("Vocabulary", self._summary.items(), ("n-gram", "count"), rows)

    @property
    def _summary(self) -> dict[str, str]:
        orders = ", ".join(str(part.order) for _, part in self.by_order)
        summary = {
            "size": f"{len(self):,} n-grams of order {orders}",
            "tokenizer": self.tokenizer.name,
        }
        if self.sources:
            summary["sources"] = " and ".join(self.source_names)
        return summary

    def __len__(self) -> int:
        return len(self.ngrams)

    @property
    def source_names(self) -> list[str]:
        """The names of the sources."""
        return [source.name for source in self.sources] or [DEFAULT_SOURCE_NAME]

    @cached_property
    def counts_by_source(self) -> Integers:
        """The counts of each source (K × V)."""
        return np.stack([source.counts for source in self.sources] or [self.counts])

    def select(self, rows: slice | Integers) -> "Vocabulary":
        """Return a vocabulary of some of the n-grams, in the same order, with all their counts."""
        ngrams = self.ngrams[rows] if isinstance(rows, slice) else self.ngrams.take(pa.array(rows))
        order = self.order
        if len(ngrams):
            order = int(ngram_orders(ngrams[len(ngrams) - 1 :], self.tokenizer)[0])
        origins = self.origins and self.origins.select(rows)
        if not self.sources:
            return Vocabulary(
                ngrams,
                self.counts[rows],
                order,
                self.tokenizer,
                origins=origins,
                made_from=self.made_from,
            )
        sources = [SourceCounts(source.name, source.counts[rows]) for source in self.sources]
        return Vocabulary.from_source_counts(
            ngrams, sources, order, self.tokenizer, origins, self.made_from
        )

    def block(self, blocklist: Blocklist) -> "Vocabulary":
        """Return the vocabulary without the n-grams that contain a blocked word or phrase.

        Raises:
            BayesgramError: If no n-gram is left.
        """
        blocked = blocklist.mask(self.ngrams, self.tokenizer)
        if not blocked.any():
            return self
        refuse_if_all_blocked(blocked)
        return replace(self.select(np.flatnonzero(~blocked)), row_hashes=self.public_rows)

    @property
    def provenance(self) -> Provenance:
        """What was published about people and its n-grams and counts are from."""
        discoveries = (
            Provenance() if self.origins is None else self.origins.to_provenance(self.ngrams)
        )
        return discoveries.merge(Provenance(self.made_from))

    @cached_property
    def public_rows(self) -> RowSample | None:
        """A sample of the hashes of its public rows, with which `count` compares private rows.

        None if it is not known. It is no part of the vocabulary: no fingerprint covers it, a
        vocabulary made of this one lacks it, and it stays in a file of its own, which is read when
        it is needed.
        """
        if isinstance(self.row_hashes, Path):
            return load_rows(self.row_hashes, self.fingerprint)
        return self.row_hashes

    @cached_property
    def tokens(self) -> pa.LargeStringArray:
        """The distinct tokens of its n-grams."""
        return pc.unique(ngram_tokens(self.ngrams, self.tokenizer))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of tokenizer, order and n-grams.

        Counts that were made with another vocabulary are refused by it.
        """
        data, offsets = buffers(self.ngrams.cast(pa.large_binary()))
        digest = hashlib.sha256(f"{self.tokenizer.name}\n{self.order}\n{len(self)}\n".encode())
        digest.update((offsets - offsets[0]).astype("<i8").tobytes())
        digest.update(data[offsets[0] : offsets[-1]].tobytes())
        return digest.hexdigest()

    @cached_property
    def prior_fingerprint(self) -> str:
        """SHA-256 of the public counts of each source: the prior that a release was made with."""
        digest = hashlib.sha256("".join(f"{source.name}\n" for source in self.sources).encode())
        for counts in self.counts_by_source:
            digest.update(counts.astype("<i8").tobytes())
        return digest.hexdigest()

    def is_same_text(self, other: "Vocabulary") -> bool:
        """Return whether another vocabulary has the same n-grams and public counts."""
        return (self.fingerprint, self.prior_fingerprint) == (
            other.fingerprint,
            other.prior_fingerprint,
        )

    @property
    def card_details(self) -> dict[str, Any]:
        """What a release's card says about the vocabulary."""
        is_public = self.origins is None
        details = {
            "size": len(self),
            "order": self.order,
            "orders": [part.order for _, part in self.by_order],
            "tokenizer": self.tokenizer.name,
            "fingerprint": self.fingerprint,
            "prior_fingerprint": self.prior_fingerprint,
            "source": "stated to be public"
            if is_public
            else "public text, and what was discovered",
        }
        if self.made_from:
            details[MADE_FROM] = [asdict(ingredient) for ingredient in self.made_from]
        if self.origins is not None:
            details["discovered"] = int(self.origins.discovered.sum())
            details["discoveries"] = [asdict(claim) for claim in self.origins.claims]
        return details

    @cached_property
    def by_order(self) -> list[tuple[slice, "Vocabulary"]]:
        """For each order, the rows of its n-grams, and a vocabulary of these n-grams alone."""
        orders = ngram_orders(self.ngrams, self.tokenizer)
        edges = [0, *(np.flatnonzero(np.diff(orders)) + 1).tolist(), len(self)]
        slices = [slice(first, last) for first, last in pairwise(edges)]
        return [(rows, self if len(slices) == 1 else self.select(rows)) for rows in slices]

    @cached_property
    def prior(self) -> Floats:
        """The public distribution π; the probabilities of each order add up to 1."""
        return np.concatenate([public_distribution(part.counts) for _, part in self.by_order])

    @cached_property
    def word_ids(self) -> tuple[Ids, int]:
        """The words of every n-gram as ids (V × n), and the number of distinct words.

        Only for a vocabulary of one order.
        """
        tokens = ngram_tokens(self.ngrams, self.tokenizer).dictionary_encode()
        ids = tokens.indices.to_numpy(zero_copy_only=False).astype(np.int32)
        return ids.reshape(len(self), self.order), len(tokens.dictionary)

    @property
    def unreachable_count(self) -> int:
        """How many n-grams have capitals, which the tokenizer would never leave in."""
        if not self.tokenizer.lowercase:
            return 0
        ngrams = self.ngrams
        if self.tokenizer.kind is TokenizerKind.MESSAGES:  # emoticons have capitals: :D
            ngrams = pc.replace_substring_regex(ngrams, "[:;=]'?[-^]?[DPOSX]", "")
        return int(pc.sum(pc.not_equal(pc.utf8_lower(ngrams), ngrams)).as_py() or 0)

    @cached_property
    def matcher(self) -> NgramMatcher:
        """Finds these n-grams in text.

        Raises:
            UsageError: If it is a vocabulary of rows that lists none.
        """
        if not len(self):
            raise UsageError(
                "the vocabulary lists no rows, so there is nothing to count; find rows that many"
                " people write with `bayesgram discover`, and count with the vocab.parquet of what"
                " it finds."
            )
        return NgramMatcher(self.ngrams, self.tokenizer)

    @classmethod
    @check_arguments
    def from_public(
        cls,
        inputs: Any,  # noqa: ANN401 - paths or tables, see bayesgram.io
        *,
        order: int | Sequence[int] | None = None,
        size: int | Sequence[int] | None = None,
        text_column: str = "text",
        tokenizer: Tokenizer | None = None,
        block: Blocklist = Blocklist(),  # noqa: B008 - frozen
        skip_bad_rows: bool = False,
        memory: int = DEFAULT_MEMORY_BYTES,
        delimiter: str | None = None,
        encoding: str = "utf-8",
    ) -> "Vocabulary":
        """Make a vocabulary of the most frequent n-grams of public text.

        Args:
            inputs: Files, folders, globs or tables; or several sources by name, such as
                {"wiki": "wiki/*.parquet", "talk": "lines.txt", "news": "model.arpa"}.
            order: The number of tokens of the n-grams, or several such numbers. By default words,
                pairs and triples (1, 2 and 3) with the boundaries of sentences, as a keyboard model
                needs them.
            size: How many n-grams to choose of each order; or one number for each order, from the
                shortest. By default 50,000; of rows none: they are discovered.
            text_column: The column of the text, in tables that have columns.
            tokenizer: How text is cut into tokens, and whether n-grams have the boundaries of
                sentences. By default into words in lower case.
            block: Words whose n-grams are left out; by default a short list of slurs.
            skip_bad_rows: Whether to skip rows that can't be read instead of refusing the input.
            memory: Bytes for n-grams that are being counted.
            delimiter: What separates the columns of CSV and TSV files, if not commas and tabs.
            encoding: That of text files, such as "latin-1".

        >>> table = pa.table({"text": ["the red fish", "the blue fish"]})
        >>> Vocabulary.from_public(table, order=1, size=2).ngrams.to_pylist()
        ['fish', 'the']
        """
        if tokenizer is None:
            tokenizer = Tokenizer(boundaries=order is None)
        if order is None:
            order = 1 if tokenizer.is_rows else DEFAULT_ORDERS
        if size is None:
            size = 0 if tokenizer.is_rows else DEFAULT_SIZE
        read = text_reader(
            text_column, skip_bad_rows=skip_bad_rows, delimiter=delimiter, encoding=encoding
        )
        sources = open_sources(inputs_by_source(inputs), tokenizer, text_column, read)
        vocabulary = cls.from_sources(
            sources, order=order, size=size, tokenizer=tokenizer, memory=memory
        )
        return vocabulary.block(block)

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
        delimiter: str | None = None,
        encoding: str = "utf-8",
    ) -> "Vocabulary":
        """Make a vocabulary of the n-grams of a list, in their order, counted in public text.

        Args:
            ngrams: A vocabulary, a file, or texts.
            inputs: Public text or sources, as in `from_public`.
            text_column: The column of the text, in tables that have columns.
            tokenizer: How text is cut into tokens; not with a vocabulary, which has its own.
            skip_bad_rows: Whether to skip rows that can't be read instead of refusing the input.
            delimiter: What separates the columns of CSV and TSV files, if not commas and tabs.
            encoding: That of text files, such as "latin-1".
        """
        provenance = Provenance()
        if isinstance(ngrams, Vocabulary):
            listed = ngrams.ngrams
            chosen_tokenizer = ngrams.tokenizer
            provenance = ngrams.provenance
            if tokenizer not in {None, chosen_tokenizer}:
                raise UsageError(
                    f"tokenizer: the vocabulary has its own, {chosen_tokenizer.name!r};"
                    " leave it out."
                )
        elif isinstance(ngrams, (str, Path)):
            listed, chosen_tokenizer = read_ngram_list(ngrams, tokenizer)
            provenance = ngram_list_provenance(ngrams)
        else:
            listed, chosen_tokenizer = check_ngram_list(
                pa.array(ngrams, pa.large_string()), tokenizer
            )
        read = text_reader(
            text_column, skip_bad_rows=skip_bad_rows, delimiter=delimiter, encoding=encoding
        )
        sources = open_sources(inputs_by_source(inputs), chosen_tokenizer, text_column, read)
        vocabulary = cls.from_list_and_sources(listed, sources, chosen_tokenizer)
        return vocabulary.with_provenance(provenance)

    @classmethod
    def from_list_and_sources(
        cls, ngrams: pa.LargeStringArray, sources: Mapping[str, OpenSource], tokenizer: Tokenizer
    ) -> "Vocabulary":
        """Make a vocabulary of a list of n-grams, counted in open sources.

        Args:
            ngrams: The n-grams, which were checked.
            sources: The public sources by name.
            tokenizer: How text is cut.
        """
        matcher = NgramMatcher(ngrams, tokenizer)
        rows = _new_row_sample(sources, tokenizer)
        counts = np.stack(
            [count_listed_ngrams(ngrams, matcher, source, rows) for source in sources.values()]
        )
        vocabulary = cls.from_counts(ngrams, list(sources), counts, tokenizer, rows)
        return vocabulary.with_provenance(combined_provenance(sources.values()))

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
        """Make a vocabulary of the `size` most frequent n-grams of each order of one text.

        Of n-grams with equal counts, those whose tokens come first in byte order are chosen.
        N-grams beyond `memory` bytes are spilled to disk; the result stays exact. Distinct tokens
        stay in memory.

        Args:
            records: Public text.
            order: One order, or several.
            size: How many n-grams of each order; one number, or one for each order.
            tokenizer: How text is cut.
            memory: The bytes beyond which n-grams are spilled to disk.
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
        """Make a vocabulary of the n-grams that have the highest mean frequency over open sources.

        Args:
            sources: The sources by name; a single one may have the name "".
            order: One order or several.
            size: How many n-grams to choose of each order, or one number for each order.
            tokenizer: How text is cut into tokens.
            memory: Bytes for n-grams that are being counted.
        """
        sizes = sizes_by_order(order, size, tokenizer)
        orders = list(sizes)
        rows = _new_row_sample(sources, tokenizer)
        if not any(sizes.values()):
            return cls._without_rows(sources, tokenizer, rows)
        with spill_folder() as scratch:
            tokens = StringTable()
            new_counter = partial(
                NgramCounter,
                orders,
                tokenizer,
                memory=memory,
                tokens=tokens,
                texts=len(sources),
                rows=rows,
            )
            windows = [
                _read_windows(
                    source, tokens, partial(new_counter, spill_dir=_source_folder(scratch, number))
                )
                for number, source in enumerate(sources.values())
            ]
            if len(sources) > 1:
                totals = [[source.total(order) for source in windows] for order in orders]
                refuse_empty_sources(sources, totals, orders)
            tops = [
                _top_ngrams(windows, tokens, order, order_size, memory)
                for order, order_size in sizes.items()
            ]
        ngrams = pa.concat_arrays([ngrams for ngrams, _ in tops])
        counts = np.hstack([counts for _, counts in tops])
        vocabulary = cls.from_counts(ngrams, list(sources), counts, tokenizer, rows)
        return vocabulary.with_provenance(combined_provenance(sources.values()))

    @classmethod
    def _without_rows(
        cls, sources: Mapping[str, OpenSource], tokenizer: Tokenizer, rows: RowSample | None
    ) -> "Vocabulary":
        """Make a vocabulary of rows that lists none; private text is still compared with public."""
        for source in sources.values():
            if isinstance(source, CountedNgrams):
                continue
            for batch in source:
                for chunk in chunks(batch.text):
                    if rows is not None:
                        rows.add_rows(*tokenizer.tokenize(chunk))
        empty = pa.array([], pa.large_string())
        vocabulary = cls(empty, np.zeros(0, np.int64), 1, tokenizer, row_hashes=rows)
        return vocabulary.with_provenance(combined_provenance(sources.values()))

    @classmethod
    def from_counts(
        cls,
        ngrams: pa.LargeStringArray,
        names: Sequence[str],
        counts: Integers,
        tokenizer: Tokenizer,
        row_hashes: RowSample | None = None,
    ) -> "Vocabulary":
        """Make a vocabulary from the counts of named sources (K × V).

        Args:
            ngrams: The n-grams, short ones first.
            names: The names of the sources; a single one may have the name "".
            counts: How often each source has each n-gram.
            tokenizer: How text is cut into tokens.
            row_hashes: Hashes of the public rows, where they are known.
        """
        order = vocabulary_io.check_ngrams("vocabulary", ngrams, tokenizer)
        if list(names) == [""]:
            return cls(ngrams, counts[0], order, tokenizer, row_hashes=row_hashes)
        for name, source_counts in zip(names, counts, strict=True):
            if not source_counts.any():
                raise BayesgramError(
                    f"source {name!r}: has none of the {len(ngrams):,} n-grams of the vocabulary;"
                    " is it the right text, in the right column and language? If so, leave it out."
                )
        sources = list(map(SourceCounts, names, counts))
        vocabulary = cls.from_source_counts(
            ngrams, sources, order, tokenizer, row_hashes=row_hashes
        )
        for first, second in find_identical_sources(vocabulary.sources):
            logger.warning(
                "warning: the sources %s and %s have equal counts for every n-gram: is it one"
                " text, given twice?",
                first,
                second,
            )
        return vocabulary

    @check_arguments
    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write vocab.parquet: `ngram`, `count`, and `count_NAME` of each source.

        Tokenizer and order are metadata. What is known of its public rows goes to
        vocab.parquet.rows, beside it (docs/files.md).
        """
        with self.save_on_success(path, force=force):
            pass

    @contextmanager
    def save_on_success(self, path: str | Path, *, force: bool) -> Iterator[None]:
        """Write the vocabulary and its row hashes; both appear if the block ends without error."""
        with write_file_atomically(path, force=force) as file:
            self.write(file)
            with save_rows_on_success(self.public_rows, path, self.fingerprint):
                yield

    def write(self, file: Path) -> None:
        """Write the vocabulary to a file that does not exist."""
        metadata = {
            "bayesgram.format": str(FORMAT),
            "bayesgram.tokenizer": self.tokenizer.name,
            "bayesgram.order": str(self.order),
        }
        if self.origins is not None:
            metadata[DISCOVERIES_KEY] = self.origins.to_json()
        if self.made_from:
            metadata[INGREDIENTS_KEY] = json.dumps(
                [asdict(ingredient) for ingredient in self.made_from]
            )
        pq.write_table(self.to_arrow().replace_schema_metadata(metadata), file, compression="zstd")

    def to_arrow(self) -> pa.Table:
        """Return the rows of vocab.parquet as a table."""
        columns: dict[str, Any] = {"ngram": self.ngrams, "count": pa.array(self.counts)}
        for source in self.sources:
            columns[SOURCE_COUNT_PREFIX + source.name] = pa.array(source.counts)
        if self.origins is not None:
            columns[ORIGIN_COLUMN] = self.origins.column
        return pa.table(columns)

    @classmethod
    @check_arguments
    def load(cls, path: str | Path, *, tokenizer: Tokenizer | None = None) -> "Vocabulary":
        """Read a vocabulary, also one that was made elsewhere.

        Args:
            path: A Parquet file with the column `ngram`, and `count` or a column `count_NAME` for
                each source, from which `count` follows.
            tokenizer: How text is cut into tokens, for a file that does not name its tokenizer.
        """
        table = vocabulary_io.read_table(Path(path))
        vocabulary_io.check_columns(path, table.column_names)
        ngrams, tokenizer_used = vocabulary_io.read_ngrams(path, table, tokenizer)
        order = vocabulary_io.check_ngrams(path, ngrams, tokenizer_used)
        source_columns = vocabulary_io.source_columns(table.column_names)
        origins = read_origins(path, table)
        made_from = read_ingredients(path, table)
        if not source_columns:
            counts = vocabulary_io.read_counts(path, table, "count")
            return cls(
                ngrams,
                counts,
                order,
                tokenizer_used,
                origins=origins,
                made_from=made_from,
                row_hashes=Path(path),
            )
        sources = [
            SourceCounts(
                column.removeprefix(SOURCE_COUNT_PREFIX),
                vocabulary_io.read_counts(path, table, column),
            )
            for column in source_columns
        ]
        for source in sources:
            if not source.counts.any():
                raise UsageError(
                    f"{path}: the source {source.name!r} has none of the n-grams; leave its column"
                    " out."
                )
        return cls.from_source_counts(
            ngrams, sources, order, tokenizer_used, origins, made_from, Path(path)
        )


def _mix_sources(
    ngrams: pa.LargeStringArray, sources: Sequence[SourceCounts], tokenizer: Tokenizer
) -> Integers:
    """Return the mixture of sources, if their counts can be those of a vocabulary."""
    for source in sources:
        if source.counts.size != len(ngrams):
            raise UsageError(
                f"source {source.name!r}: {len(ngrams)} n-grams, {source.counts.size} counts."
            )
        if source.counts.min(initial=0) < 0:
            raise UsageError(f"source {source.name!r}: public counts must be 0 or more.")
    counts_by_source = np.stack([source.counts for source in sources])
    if counts_by_source.sum(dtype=np.float64) >= MAX_TOTAL:
        raise UsageError(
            "the public counts must be 0 or more and add up to less than 2^53; divide them all."
        )
    return mix_counts(counts_by_source, ngram_orders(ngrams, tokenizer))


# --- Choosing n-grams of public text ---


def sizes_by_order(
    order: int | Sequence[int], size: int | Sequence[int], tokenizer: Tokenizer
) -> dict[int, int]:
    """Return how many n-grams to choose of each order, the shortest first.

    Args:
        order: One order or several.
        size: One size for all orders, or one for each.
        tokenizer: How text is cut. Rows have order 1, and there may be none.

    >>> sizes_by_order([2, 1], 10, Tokenizer())
    {1: 10, 2: 10}
    """
    orders = sorted(map(check_order, set(_int_list("order", order))))
    if tokenizer.is_rows and orders != [1]:
        raise UsageError.for_argument(
            "order",
            ",".join(map(str, orders)),
            "a row is one token, so rows have order 1; leave it out.",
        )
    sizes = _int_list("size", size)
    if isinstance(size, Integral):
        sizes *= len(orders)
    if len(sizes) != len(orders):
        raise UsageError.for_argument(
            "size",
            ",".join(map(str, sizes)),
            f"{len(sizes)} sizes for {len(orders)} orders; give one, or one for each.",
        )
    for order_size in sizes:
        least = 0 if tokenizer.is_rows else 1
        if not least <= order_size <= MAX_SIZE:
            raise UsageError.for_argument(
                "size", order_size, f"a vocabulary has {least} to {MAX_SIZE:,} n-grams."
            )
    return dict(zip(orders, sizes, strict=True))


def _int_list(name: str, value: int | Sequence[int]) -> list[int]:
    """Return one whole number or several as a list; NumPy's numbers, too."""
    values: Any = [value] if isinstance(value, Integral) else value
    try:
        return [index(number) for number in values]
    except TypeError:
        raise UsageError(
            f"{name}: takes a whole number, or a list of whole numbers; give one such as 3."
        ) from None


def refuse_empty_sources(
    names: Iterable[str], totals: Sequence[Sequence[int]], orders: Sequence[int]
) -> None:
    """Refuse a source without a single n-gram.

    A source that only lacks some orders is left out of the mixture of these.

    Args:
        names: The names of the sources.
        totals: How many n-grams of each order (rows) each source (columns) has.
        orders: The orders.
    """
    for name, source_totals in zip(names, zip(*totals, strict=True), strict=True):
        if not any(source_totals):
            raise BayesgramError(
                f"source {name!r}: has not a single n-gram of order {', '.join(map(str, orders))};"
                " give it more text, or leave it out."
            )


def text_reader(
    text_column: str,
    *,
    skip_bad_rows: bool,
    delimiter: str | None,
    encoding: str,
    warn_about_users: bool = True,
) -> Callable[[Any], RecordReader]:
    """Return a function that opens public text.

    Args:
        text_column: The column of the text, in tables that have columns.
        skip_bad_rows: Whether to skip rows that can't be read instead of refusing the input.
        delimiter: What separates the columns of CSV and TSV files, if not commas and tabs.
        encoding: That of text files.
        warn_about_users: Whether to warn of a column of users: such text may be private.
    """
    return partial(
        read_records,
        text_column=text_column,
        user_column=None,
        skip_bad_rows=skip_bad_rows,
        delimiter=delimiter,
        encoding=encoding,
        warn_about_users=warn_about_users,
    )


def _new_row_sample(sources: Mapping[str, OpenSource], tokenizer: Tokenizer) -> RowSample | None:
    """Return an empty sample for the rows of text; None if no source is text."""
    is_text = [not isinstance(source, CountedNgrams) for source in sources.values()]
    return new_row_sample(tokenizer) if any(is_text) else None


def _source_folder(scratch: Path, number: int) -> Path:
    folder = scratch / str(number)
    folder.mkdir()
    return folder


def _read_windows(
    source: OpenSource, tokens: StringTable, new_counter: Callable[[], NgramCounter]
) -> SourceWindows:
    """Read all n-grams of a source."""
    counter = new_counter()
    if isinstance(source, CountedNgrams):
        return ListedWindows.from_ngrams(source.ngrams, source.counts, tokens, counter.tokenizer)
    counter.add_all(batch.text for batch in source)
    return TextWindows(counter)


def _top_ngrams(
    sources: Sequence[SourceWindows], tokens: StringTable, order: int, size: int, memory: int
) -> tuple[pa.LargeStringArray, Integers]:
    """Return the chosen n-grams of one order, and their counts in each source (K × V)."""
    if len(sources) == 1 and isinstance(sources[0], TextWindows):
        ngrams, counts = top_ngrams_of_text(sources[0].counter, order, size)
        return ngrams, counts[None]
    return top_ngrams_of_sources(sources, tokens, order, size, memory=memory)


# --- Counting a list of n-grams that exists already ---


def read_ngram_list(
    path: str | Path, tokenizer: Tokenizer | None
) -> tuple[pa.LargeStringArray, Tokenizer]:
    """Return the n-grams of a file, checked, and how text is cut into tokens for them.

    Args:
        path: A Parquet file, or another table with a column `ngram`, or plain text with one n-gram
            a line.
        tokenizer: The tokenizer for a file that does not name its own.
    """
    if Path(path).suffix.lower() in {".parquet", ".pq"}:
        table = vocabulary_io.read_table(Path(path))
        ngrams, tokenizer_used = vocabulary_io.read_ngrams(path, table, tokenizer)
        vocabulary_io.check_ngrams(path, ngrams, tokenizer_used)
        return ngrams, tokenizer_used
    try:
        records = read_records(Path(path), text_column="ngram", user_column=None, require_rows=True)
        ngrams = pa.concat_arrays([batch.text for batch in records]).cast(pa.large_string())
    except UsageError as error:
        advice = "Name the right one with `text_column`."
        raise UsageError(
            str(error).replace(advice, "A list has its n-grams in the column 'ngram'.")
        ) from None
    return check_ngram_list(ngrams, tokenizer, path)


def check_ngram_list(
    ngrams: pa.LargeStringArray, tokenizer: Tokenizer | None, name: str | Path = "the list"
) -> tuple[pa.LargeStringArray, Tokenizer]:
    """Return n-grams, if they can be those of a vocabulary, and their tokenizer.

    Args:
        ngrams: The n-grams.
        tokenizer: The tokenizer, or None for the default one.
        name: What the list is called in error messages.
    """
    if not 1 <= len(ngrams) <= MAX_SIZE or ngrams.null_count:
        raise UsageError(
            f"{name}: {len(ngrams)} n-grams; a vocabulary has 1 to {MAX_SIZE:,}, and no nulls."
        )
    vocabulary_io.check_ngrams(name, ngrams, tokenizer or Tokenizer())
    return ngrams, vocabulary_io.detect_boundaries(tokenizer or Tokenizer(), ngrams)


def ngram_list_provenance(path: str | Path) -> Provenance:
    """Return what the n-grams of a file are from, where that is about people.

    A vocabulary's file states it. The table of a release or of a discovery lies beside its card.
    """
    from bayesgram.releases.release import Release  # noqa: PLC0415 - few lists are of releases

    file = Path(path)
    if file.suffix.lower() not in {".parquet", ".pq"}:
        return Provenance()
    has_card = (file.parent / CARD_FILE).is_file()
    if file.name == DISTRIBUTION_FILE and has_card:
        return Release.load(file.parent).provenance(printable_name(file.parent))
    vocabulary_file = file.parent / VOCABULARY_FILE
    if file.name == DISCOVERY_FILE and has_card and vocabulary_file.is_file():
        return Vocabulary.load(vocabulary_file).provenance
    table = vocabulary_io.read_table(file)
    origins = read_origins(path, table)
    provenance = Provenance(read_ingredients(path, table))
    if origins is None:
        return provenance
    ngrams = table["ngram"].combine_chunks().cast(pa.large_string())
    return provenance.merge(origins.to_provenance(ngrams))


def count_listed_ngrams(
    ngrams: pa.LargeStringArray,
    matcher: NgramMatcher,
    source: OpenSource,
    rows: RowSample | None = None,
) -> Integers:
    """Return how often a source has each n-gram of a list.

    Args:
        ngrams: The n-grams. Of one that is listed twice, only the first gets its count.
        matcher: What finds them in text.
        source: Text, or n-grams that were counted before.
        rows: The sample that gets the hashes of the source's rows.
    """
    if isinstance(source, CountedNgrams):
        return lookup_counts(ngrams, source)
    counts = np.zeros(len(ngrams), np.int64)
    texts: Iterable[Owned] = (  # all belong to one user, as it does not matter who wrote them
        (batch.text, np.zeros(len(batch), np.int32)) for batch in source
    )
    for _, matches in matcher.match(texts, rows=rows):
        np.add.at(counts, matches, 1)
    return counts


def lookup_counts(ngrams: pa.LargeStringArray, source: CountedNgrams) -> Integers:
    """Return the counts that another list has of these n-grams."""
    rows = pc.index_in(source.ngrams, ngrams)  # of equal n-grams, the first
    matches = np.flatnonzero(pc.is_valid(rows).to_numpy(zero_copy_only=False))
    counts = np.zeros(len(ngrams), np.int64)
    counts[rows.take(pa.array(matches)).to_numpy()] = source.counts[matches]
    return counts


# --- Adding discovered n-grams ---


def extend_vocabulary(
    vocabulary: Vocabulary,
    ngrams: pa.LargeStringArray,
    log_probabilities: Floats,
    claim: DiscoveryClaim,
) -> Vocabulary:
    """Return a vocabulary with discovered n-grams, which follow the public ones of their order.

    The public count of a new n-gram is what its probability in public text lets expect, but no less
    than that of the rarest listed n-gram: many people write it, so a list of what people write
    would have had it.

    Args:
        vocabulary: The vocabulary to extend.
        ngrams: N-grams that it lacks, of orders that it has.
        log_probabilities: log q: how likely public text makes each.
        claim: What the discovery promised.
    """
    old_origins = vocabulary.origins
    orders = ngram_orders(ngrams, vocabulary.tokenizer)
    all_ngrams = []
    all_counts = []
    discovered = []
    for rows, part in vocabulary.by_order:
        new = np.flatnonzero(orders == part.order)
        all_ngrams += [part.ngrams, ngrams.take(pa.array(new))]
        new_counts = [
            _expected_counts(source_counts, log_probabilities[new])
            if source_counts.any() or not vocabulary.tokenizer.is_rows
            else _relative_counts(log_probabilities[new])
            for source_counts in part.counts_by_source
        ]
        all_counts += [part.counts_by_source, np.stack(new_counts)]
        was_discovered = (
            np.zeros(len(part), bool) if old_origins is None else old_origins.discovered[rows]
        )
        discovered += [was_discovered, np.ones(new.size, bool)]
    claims = (*(old_origins.claims if old_origins else ()), claim)
    origins = Origins(np.concatenate(discovered), claims)
    extended_ngrams = pa.concat_arrays(all_ngrams)
    counts = np.hstack(all_counts)
    if not vocabulary.sources:
        return Vocabulary(
            extended_ngrams,
            counts[0],
            vocabulary.order,
            vocabulary.tokenizer,
            origins=origins,
            made_from=vocabulary.made_from,
        )
    sources = [
        SourceCounts(source.name, source_counts)
        for source, source_counts in zip(vocabulary.sources, counts, strict=True)
    ]
    return Vocabulary.from_source_counts(
        extended_ngrams,
        sources,
        vocabulary.order,
        vocabulary.tokenizer,
        origins,
        vocabulary.made_from,
    )


def _expected_counts(counts: Integers, log_probabilities: Floats) -> Integers:
    """Return what a source with these counts would have of n-grams with these probabilities."""
    rarest = int(counts[counts > 0].min(initial=1 << 40)) if counts.any() else 0
    expected: Integers = np.maximum(
        np.rint(counts.sum() * np.exp(log_probabilities)), rarest
    ).astype(np.int64)
    return expected


def _relative_counts(log_probabilities: Floats) -> Integers:
    """Return counts for rows where no public row says how rare a listed one is.

    They follow the probabilities, tempered: what many people write is less uneven than what a
    model of words makes of it.
    """
    if not log_probabilities.size:
        return np.zeros(0, np.int64)
    relative = ROW_PRIOR_EXPONENT * (log_probabilities - log_probabilities.max())
    counts: Integers = np.rint(MAX_ROW_COUNT * np.exp(relative)).astype(np.int64)
    return counts
