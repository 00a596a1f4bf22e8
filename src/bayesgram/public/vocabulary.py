"""The vocabulary 𝒱: the most frequent n-grams of public text, with their public counts α.

In:  public text.   Out: `Vocabulary`; row number = n-gram id. It may hold several orders, each the top of its own.
Does not read private text: no string that only a private user wrote can become an entry.
"""

import hashlib
from collections.abc import Iterable, Sequence
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
from bayesgram.public.prior import public_distribution
from bayesgram.text.ngrams import END, START, NgramCounter, NgramFinder, check_order, ngram_orders
from bayesgram.text.tokens import Tokenizer, buffers
from bayesgram.text.windows import WindowTable

FORMAT = 1
MAX_SIZE = 100_000_000
MAX_TOTAL = 2**53
MEMORY = 1 << 30  # bytes for n-grams that are being counted
MOST_TIES = 4  # times as many n-grams as are asked for wait for the order of their tokens


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Public n-grams (tokens joined by one space) and how often public text has them."""

    ngrams: pa.LargeStringArray  # those of one order together, short ones first
    counts: Integers
    order: int  # of the longest
    tokenizer: Tokenizer

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

    def __len__(self) -> int:
        return len(self.ngrams)

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
        """SHA-256 of the public counts: which prior a release was made with."""
        return hashlib.sha256(self.counts.astype("<i8").tobytes()).hexdigest()

    @cached_property
    def parts(self) -> list[tuple[slice, "Vocabulary"]]:
        """The n-grams of each order: where they stand, and as a vocabulary of their own."""
        orders = ngram_orders(self.ngrams)
        edges = [0, *(np.flatnonzero(np.diff(orders)) + 1).tolist(), len(self)]
        places = [slice(first, last) for first, last in pairwise(edges)]
        if len(places) == 1:
            return [(places[0], self)]
        return [
            (place, Vocabulary(self.ngrams[place], self.counts[place], int(orders[place.start]), self.tokenizer))
            for place in places
        ]

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
        """The `size` most frequent n-grams (of each order) of public text: files, folders, globs or tables."""
        records = read_records(inputs, text_column=text_column, user_column=None, skip_bad_rows=skip_bad_rows)
        return cls.from_records(records, order=order, size=size, tokenizer=tokenizer, memory=memory)

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
        check_size(size)
        orders = sorted(map(check_order, {order} if isinstance(order, int) else set(order)))
        with scratch_folder() as scratch:
            counter = NgramCounter(orders, tokenizer, scratch=scratch, memory=memory)
            for batch in records:
                counter.add(batch.text)
            ngrams, counts = zip(*(_top(counter, short, size) for short in orders), strict=True)
        return cls(pa.concat_arrays(ngrams), np.concatenate(counts), orders[-1], tokenizer)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write vocab.parquet: `ngram`, `count`, with tokenizer and order in the file's metadata."""
        metadata = {
            "bayesgram.format": str(FORMAT),
            "bayesgram.tokenizer": self.tokenizer.name,
            "bayesgram.order": str(self.order),
        }
        table = pa.table({"ngram": self.ngrams, "count": pa.array(self.counts)}).replace_schema_metadata(metadata)
        with publish_file(path, force=force) as aside:
            pq.write_table(table, aside, compression="zstd")

    @classmethod
    def load(cls, path: str | Path, *, tokenizer: Tokenizer | None = None) -> "Vocabulary":
        """Read a vocabulary; one made elsewhere needs the columns `ngram` and `count`, and says no tokenizer."""
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
        counts = table["count"].combine_chunks().cast(pa.int64()).to_numpy(zero_copy_only=False)
        cut = stated or tokenizer or Tokenizer()
        if not stated and _has_boundaries(ngrams):
            cut = replace(cut, boundaries=True)
        return cls(ngrams, counts, _longest(path, ngrams), cut)


def _top(counter: NgramCounter, length: int, size: int) -> tuple[pa.LargeStringArray, Integers]:
    """The most frequent windows of one length as strings, with their counts, in order."""
    tokens = counter.tokens.strings()
    start = pc.index(tokens, START.encode()).as_py() if length == 1 and counter.tokenizer.boundaries else -1
    bounds = counter.bounds(length)
    least = bounds.likely_count(size + 1) if bounds else 1  # one of them may be <s>
    rows, counts = _best(counter.tables(length, bounds, at_least=least), tokens, size, start)
    reached = int(counts.min()) if counts.size >= size else 1
    if reached < least:  # others may have as many; as `size` windows do reach this count, no more need be looked at
        rows, counts = _best(counter.tables(length, bounds, at_least=reached), tokens, size, start)
    if not counts.size:
        raise BayesgramError(f"the public text has no n-gram of order {length}: give more text, or a smaller --order.")
    rows, counts = _first(rows, counts, tokens, size)
    words = [tokens.take(pa.array(column)).cast(pa.large_string()) for column in rows.T]
    return pc.binary_join_element_wise(*words, pa.scalar(" ", pa.large_string())), counts


def _best(tables: Iterable[WindowTable], tokens: pa.LargeBinaryArray, size: int, start: int) -> tuple[Ids, Integers]:
    """The most frequent windows of tables that have none in common, and their counts."""
    best: tuple[Ids, Integers] | None = None
    for table in tables:
        least = table.count_reached_by(size + 1)
        if best and best[1].size >= size:
            least = max(least, int(best[1].min()))
        for rows, counts in table.entries(at_least=least):
            told = rows[:, 0] != start  # a sentence's start is given, never predicted
            found = rows[told], counts[told]
            best = _race(*best, *found, tokens, size) if best else found
    return best or (np.zeros((0, 1), np.int32), np.zeros(0, np.int64))


def _race(
    rows: Ids, counts: Integers, more: Ids, their_counts: Integers, tokens: pa.LargeBinaryArray, size: int
) -> tuple[Ids, Integers]:
    """All rows that may still be among the `size` first; those that tie for the last place too, if they are few."""
    if not their_counts.size:
        return rows, counts
    rows, counts = np.concatenate([rows, more]), np.concatenate([counts, their_counts])
    if counts.size > size:
        kept = np.flatnonzero(counts >= np.partition(counts, counts.size - size)[counts.size - size])
        rows, counts = rows[kept], counts[kept]
    return (rows, counts) if counts.size <= MOST_TIES * size else _first(rows, counts, tokens, size)


def _first(rows: Ids, counts: Integers, tokens: pa.LargeBinaryArray, size: int) -> tuple[Ids, Integers]:
    """The `size` most frequent rows, in order; of equal counts, those whose tokens come first."""
    used, places = np.unique(rows, return_inverse=True)
    rank = np.empty(used.size, np.int64)
    rank[pc.sort_indices(tokens.take(pa.array(used))).to_numpy()] = np.arange(used.size)
    ranks = rank[places.reshape(rows.shape)]
    order = np.lexsort([*ranks.T[::-1], -counts])[:size]
    return rows[order], counts[order]


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
    missing = {"ngram", "count"} - set(names)
    if missing:
        raise UsageError(
            f"{path}: no column {min(missing)!r}; a vocabulary has the columns 'ngram' and 'count', this file has"
            f" {', '.join(map(repr, names))}."
        )
    count = table["count"]
    if not pa.types.is_integer(count.type) or count.null_count or (pc.min(count).as_py() or 0) < 0:
        raise UsageError(f"{path}: the column 'count' must hold whole numbers of 0 or more.")
    ngram = table["ngram"]
    if not (pa.types.is_string(ngram.type) or pa.types.is_large_string(ngram.type)) or not _is_text(ngram):
        raise UsageError(f"{path}: the column 'ngram' must hold text without nulls.")
    if not 1 <= table.num_rows <= MAX_SIZE:
        raise UsageError(f"{path}: {table.num_rows} rows; a vocabulary has 1 to {MAX_SIZE:,} n-grams.")
    return table


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
