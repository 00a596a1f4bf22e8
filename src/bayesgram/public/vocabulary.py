"""The vocabulary 𝒱: the most frequent n-grams of public text, with their public counts α, by source.

In:  public text.   Out: `Vocabulary`; row number = n-gram id. It may hold several orders, each the top of its own.
Which n-grams are the top is decided in `choosing`. Does not read private text: no string that only a private user
wrote can become an entry.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bayesgram.arrays import Floats, Ids, Integers
from bayesgram.errors import BayesgramError, UsageError, unreadable
from bayesgram.files import Records, read_records
from bayesgram.files.formats import check_format
from bayesgram.files.hidden import scratch_folder
from bayesgram.files.writing import publish_file
from bayesgram.public.choosing import TextWindows, Windows, top_of_sources, top_of_text
from bayesgram.public.prior import public_distribution
from bayesgram.public.sources import UNNAMED, Source, by_name, check_names, mixture
from bayesgram.text.ngrams import END, START, NgramCounter, NgramFinder, check_order, ngram_orders
from bayesgram.text.strings import StringTable
from bayesgram.text.tokens import Tokenizer, buffers

FORMAT = 1
MAX_SIZE = 100_000_000
MAX_TOTAL = 2**53
MEMORY = 1 << 30  # bytes for n-grams that are being counted
COUNT_OF = "count_"  # and the name of a source: its column


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Public n-grams (tokens joined by one space) and how often public text has them."""

    ngrams: pa.LargeStringArray  # those of one order together, short ones first
    counts: Integers
    order: int  # of the longest
    tokenizer: Tokenizer
    sources: tuple[Source, ...] = ()  # none: all counts are of one source without a name; else counts are their mixture

    def __post_init__(self) -> None:
        """Public counts add up to less than 2⁵³, so that no sum of them is ever rounded or overflows."""
        if len(self.ngrams) != self.counts.size or not 1 <= len(self.ngrams) <= MAX_SIZE:
            raise UsageError(
                f"{len(self.ngrams)} n-grams, {self.counts.size} counts: a vocabulary has as many of both."
            )
        if self.counts.min() < 0 or self.counts.sum(dtype=np.float64) >= MAX_TOTAL:
            raise UsageError("the public counts must be 0 or more and add up to less than 2^53; divide them all.")
        if _longest("vocabulary", self.ngrams) != self.order:
            raise UsageError(f"order={self.order}: the n-grams have another number of tokens.")
        if self.sources:
            check_names(self.source_names)
            if not np.array_equal(self.counts, _mixed(self.ngrams, self.sources)):
                raise UsageError("the counts are not the mixture of the sources; use Vocabulary.of_sources.")

    @classmethod
    def of_sources(
        cls, ngrams: pa.LargeStringArray, sources: Sequence[Source], order: int, tokenizer: Tokenizer
    ) -> "Vocabulary":
        """A vocabulary with counts by source; `counts` follows."""
        return cls(ngrams, _mixed(ngrams, sources), order, tokenizer, tuple(sources))

    def __len__(self) -> int:
        return len(self.ngrams)

    @property
    def source_names(self) -> list[str]:
        """What the sources are called."""
        return [source.name for source in self.sources] or [UNNAMED]

    @cached_property
    def by_source(self) -> Integers:
        """The counts of each source (K × V)."""
        return np.stack([source.counts for source in self.sources] or [self.counts])

    def taken(self, rows: slice | Integers) -> "Vocabulary":
        """Some of the n-grams, which stay in order, with their counts in each source."""
        ngrams = self.ngrams[rows] if isinstance(rows, slice) else self.ngrams.take(pa.array(rows))
        longest = int(ngram_orders(ngrams[len(ngrams) - 1 :])[0]) if len(ngrams) else self.order
        if not self.sources:
            return Vocabulary(ngrams, self.counts[rows], longest, self.tokenizer)
        sources = [Source(source.name, source.counts[rows]) for source in self.sources]
        return Vocabulary.of_sources(ngrams, sources, longest, self.tokenizer)

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
        for counts in self.by_source:
            digest.update(counts.astype("<i8").tobytes())
        return digest.hexdigest()

    @cached_property
    def parts(self) -> list[tuple[slice, "Vocabulary"]]:
        """The n-grams of each order: where they stand, and as a vocabulary of their own."""
        orders = ngram_orders(self.ngrams)
        edges = [0, *(np.flatnonzero(np.diff(orders)) + 1).tolist(), len(self)]
        places = [slice(first, last) for first, last in pairwise(edges)]
        return [(place, self if len(places) == 1 else self.taken(place)) for place in places]

    @cached_property
    def prior(self) -> Floats:
        """π, of each order by itself."""
        return np.concatenate([public_distribution(part.counts) for _, part in self.parts])

    @cached_property
    def words(self) -> tuple[Ids, int]:
        """The words of every n-gram as numbers (V × n), and how many words there are. Of one order only."""
        tokens = pc.split_pattern(self.ngrams, " ").flatten().dictionary_encode()
        numbers = tokens.indices.to_numpy(zero_copy_only=False).astype(np.int32)
        return numbers.reshape(len(self), self.order), len(tokens.dictionary)

    @property
    def never_found(self) -> int:
        """How many n-grams have capitals that the tokenizer would never leave in."""
        if not self.tokenizer.lowercase:
            return 0
        return int(pc.sum(pc.not_equal(pc.utf8_lower(self.ngrams), self.ngrams)).as_py())

    @cached_property
    def finder(self) -> NgramFinder:
        """Finds these n-grams in text."""
        return NgramFinder(self.ngrams, self.tokenizer)

    @classmethod
    def from_public(
        cls,
        inputs: Any,  # noqa: ANN401 - paths or tables, see bayesgram.files
        *,
        order: int | Sequence[int] = 3,
        size: int = 50_000,
        text_column: str = "text",
        tokenizer: Tokenizer = Tokenizer(),  # noqa: B008 - frozen
        skip_bad_rows: bool = False,
        memory: int = MEMORY,
    ) -> "Vocabulary":
        """The `size` most frequent n-grams (of each order) of public text: files, folders, globs or tables.

        Several sources have names: {"wiki": "wiki/*.parquet", "talk": "lines.txt"}.
        """
        rows: dict[str, Any] = {"text_column": text_column, "user_column": None, "skip_bad_rows": skip_bad_rows}
        sources = {name: read_records(given, **rows) for name, given in by_name(inputs).items()}
        return cls.from_sources(sources, order=order, size=size, tokenizer=tokenizer, memory=memory)

    @classmethod
    def from_records(
        cls,
        records: Iterable[Records],
        *,
        order: int | Sequence[int],
        size: int,
        tokenizer: Tokenizer,
        memory: int = MEMORY,
    ) -> "Vocabulary":
        """The `size` most frequent n-grams of each order; of equal counts, the first in byte order token by token.

        N-grams beyond `memory` bytes wait on disk, and the answer stays exact; the distinct tokens stay in memory.
        """
        return cls.from_sources({"": records}, order=order, size=size, tokenizer=tokenizer, memory=memory)

    @classmethod
    def from_sources(
        cls,
        sources: Mapping[str, Iterable[Records]],
        *,
        order: int | Sequence[int],
        size: int,
        tokenizer: Tokenizer,
        memory: int = MEMORY,
    ) -> "Vocabulary":
        """The same of several sources: the `size` n-grams of each order with the highest mean of their frequencies."""
        check_size(size)
        orders = sorted(map(check_order, {order} if isinstance(order, int) else set(order)))
        with scratch_folder() as scratch:
            tokens = StringTable()
            opened = [
                _windows(records, orders, tokenizer, scratch / str(number), tokens, memory, len(sources))
                for number, records in enumerate(sources.values())
            ]
            tops = [_top(opened, tokens, each, size, memory) for each in orders]
        ngrams = pa.concat_arrays([ngrams for ngrams, _ in tops])
        return cls._named(ngrams, list(sources), np.hstack([counts for _, counts in tops]), orders[-1], tokenizer)

    @classmethod
    def _named(
        cls, ngrams: pa.LargeStringArray, names: Sequence[str], counts: Integers, order: int, tokenizer: Tokenizer
    ) -> "Vocabulary":
        """A vocabulary from the counts of each source (K × V); one source may have no name."""
        if list(names) == [""]:
            return cls(ngrams, counts[0], order, tokenizer)
        for name, own in zip(names, counts, strict=True):
            if not own.any():
                raise BayesgramError(
                    f"source {name!r}: has none of the {len(ngrams):,} n-grams; is it the right text, in the right"
                    " column and language? If so, leave it out."
                )
        return cls.of_sources(ngrams, list(map(Source, names, counts)), order, tokenizer)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write vocab.parquet: `ngram`, `count`, `count_NAME` of each source; tokenizer and order are metadata."""
        metadata = {
            "bayesgram.format": str(FORMAT),
            "bayesgram.tokenizer": self.tokenizer.name,
            "bayesgram.order": str(self.order),
        }
        columns = {"count": self.counts, **{COUNT_OF + source.name: source.counts for source in self.sources}}
        arrays = {"ngram": self.ngrams, **{name: pa.array(counts) for name, counts in columns.items()}}
        table = pa.table(arrays).replace_schema_metadata(metadata)
        with publish_file(path, force=force) as aside:
            pq.write_table(table, aside, compression="zstd")

    @classmethod
    def load(cls, path: str | Path, *, tokenizer: Tokenizer | None = None) -> "Vocabulary":
        """Read a vocabulary; one made elsewhere says no tokenizer.

        It needs the column `ngram`, and `count` or a column `count_NAME` for each source, from which `count` follows.
        """
        table = _read_table(Path(path))
        metadata = table.schema.metadata or {}
        _check_format(path, metadata.get(b"bayesgram.format", b"1"))  # version 0.1 wrote no number
        named = metadata.get(b"bayesgram.tokenizer")
        stated = Tokenizer.from_name(named.decode(errors="replace")) if named else None
        if tokenizer and stated and tokenizer != stated:
            raise UsageError(
                f"{path}: this vocabulary was made with the tokenizer {stated.name!r}, not {tokenizer.name!r};"
                " leave --tokenizer, --keep-case and --lower-case out."
            )
        ngrams = table["ngram"].combine_chunks().cast(pa.large_string())
        cut = stated or tokenizer or Tokenizer()
        if not stated and _has_boundaries(ngrams):
            cut = replace(cut, boundaries=True)
        names = [name for name in table.column_names if name.startswith(COUNT_OF)]
        order = _longest(path, ngrams)
        if not names:
            return cls(ngrams, _whole_numbers(path, table, "count"), order, cut)
        sources = [Source(name.removeprefix(COUNT_OF), _whole_numbers(path, table, name)) for name in names]
        return cls.of_sources(ngrams, sources, order, cut)


def _windows(
    records: Iterable[Records],
    orders: Sequence[int],
    tokenizer: Tokenizer,
    scratch: Path,
    tokens: StringTable,
    memory: int,
    texts: int,
) -> Windows:
    """All n-grams of a source, read."""
    scratch.mkdir()
    counter = NgramCounter(orders, tokenizer, scratch=scratch, memory=memory, tokens=tokens, texts=texts)
    for batch in records:
        counter.add(batch.text)
    return TextWindows(counter)


def _top(
    sources: Sequence[Windows], tokens: StringTable, order: int, size: int, memory: int
) -> tuple[pa.LargeStringArray, Integers]:
    """The n-grams of one order, and their counts in each source (K × V)."""
    if len(sources) == 1 and isinstance(sources[0], TextWindows):
        ngrams, counts = top_of_text(sources[0].counter, order, size)
        return ngrams, counts[None]
    return top_of_sources(sources, tokens, order, size, memory=memory)


def _mixed(ngrams: pa.LargeStringArray, sources: Sequence[Source]) -> Integers:
    """The mixture of sources, if their counts are such."""
    for source in sources:
        if source.counts.size != len(ngrams):
            raise UsageError(f"source {source.name!r}: {len(ngrams)} n-grams, {source.counts.size} counts.")
        if source.counts.min(initial=0) < 0:
            raise UsageError(f"source {source.name!r}: public counts must be 0 or more.")
    by_source = np.stack([source.counts for source in sources])
    if by_source.sum(dtype=np.float64) >= MAX_TOTAL:
        raise UsageError("the public counts must be 0 or more and add up to less than 2^53; divide them all.")
    return mixture(by_source, ngram_orders(ngrams))


def check_size(size: int) -> None:
    """Refuse a size that no vocabulary has."""
    if not 1 <= size <= MAX_SIZE:
        raise UsageError(f"size={size}: a vocabulary has 1 to {MAX_SIZE:,} n-grams.")


def _check_format(path: str | Path, said: bytes) -> None:
    """Refuse a vocabulary of a newer version."""
    try:
        check_format(path, "a vocabulary", int(said), FORMAT)
    except UsageError:
        raise
    except ValueError:
        raise UsageError(
            f"{path}: its metadata is damaged; make the vocabulary again with `bayesgram vocab`."
        ) from None


def _read_table(path: Path) -> pa.Table:
    """The two columns of a vocabulary file, checked."""
    try:
        table = pq.read_table(path)
        names = table.column_names  # text, if it is a vocabulary
    except FileNotFoundError:
        raise UsageError(f"{path}: no such vocabulary; make one with `bayesgram vocab`.") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise unreadable(path, error) from None
        raise UsageError(f"{path}: not a Parquet file; make a vocabulary with `bayesgram vocab`.") from None
    _check_columns(path, names)
    ngram = table["ngram"]
    if not (pa.types.is_string(ngram.type) or pa.types.is_large_string(ngram.type)) or not _is_text(ngram):
        raise UsageError(f"{path}: the column 'ngram' must hold text without nulls.")
    if not 1 <= table.num_rows <= MAX_SIZE:
        raise UsageError(f"{path}: {table.num_rows} rows; a vocabulary has 1 to {MAX_SIZE:,} n-grams.")
    return table


def _check_columns(path: Path, names: Sequence[str]) -> None:
    """Refuse a table without n-grams or counts, and sources that can't be told apart."""
    counted = [name for name in names if name.startswith(COUNT_OF)]
    missing = "ngram" if "ngram" not in names else "" if counted or "count" in names else "count"
    if missing:
        raise UsageError(
            f"{path}: no column {missing!r}; a vocabulary has the columns 'ngram' and 'count', this file has"
            f" {', '.join(map(repr, names))}."
        )
    for name in ("ngram", "count", *counted):
        if list(names).count(name) > 1:
            raise UsageError(f"{path}: {list(names).count(name)} columns are called {name!r}; rename all but one.")
    try:
        check_names([name.removeprefix(COUNT_OF) for name in counted])
    except UsageError as error:
        raise UsageError(f"{path}: the columns {COUNT_OF}NAME are the counts of sources. {error}") from None


def _whole_numbers(path: str | Path, table: pa.Table, name: str) -> Integers:
    """A column of counts, checked."""
    column = table[name]
    if not pa.types.is_integer(column.type) or column.null_count or (pc.min(column).as_py() or 0) < 0:
        raise UsageError(f"{path}: the column {name!r} must hold whole numbers of 0 or more.")
    if (pc.max(column).as_py() or 0) >= MAX_TOTAL:
        raise UsageError(f"{path}: the column {name!r} must add up to less than 2^53; divide all counts.")
    counts: Integers = column.combine_chunks().cast(pa.int64()).to_numpy(zero_copy_only=False)
    return counts


def _is_text(column: "pa.ChunkedArray[Any]") -> bool:
    """Without nulls and valid UTF-8, which Arrow takes for granted."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return not column.null_count


def _has_boundaries(ngrams: pa.LargeStringArray) -> bool:
    """Whether a vocabulary made elsewhere marks where sentences begin or end."""
    return bool(pc.any(pc.or_(pc.starts_with(ngrams, f"{START} "), pc.ends_with(ngrams, f" {END}"))).as_py())


def _longest(path: str | Path, ngrams: pa.LargeStringArray) -> int:
    """The highest order: one space between two tokens, none at the ends; n-grams of one order together."""
    orders = ngram_orders(ngrams)
    back = np.flatnonzero(np.diff(orders) < 0)
    if back.size:
        row = int(back[0]) + 1
        raise UsageError(
            f"{path}: row {row + 1} has {orders[row]} tokens and row {row} has {orders[row - 1]};"
            " the n-grams of one order stand together, short ones first."
        )
    empty = pc.index(pc.match_substring_regex(ngrams, "^ |  | $|^$"), True).as_py()
    if empty >= 0:
        raise UsageError(f"{path}: row {empty + 1} is not tokens joined by single spaces.")
    return check_order(int(orders[-1]))
