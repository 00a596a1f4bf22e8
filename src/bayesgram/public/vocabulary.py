"""The vocabulary 𝒱: the most frequent n-grams of public text, with their public counts α.

In:  public text.   Out: `Vocabulary`; row number = n-gram id.
Does not read private text: no string that only a private user wrote can become an entry.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bayesgram.arrays import Ids, Integers
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.files import Records, read_records
from bayesgram.files.writing import publish_file
from bayesgram.text.ngrams import NgramCounter, NgramFinder, check_order
from bayesgram.text.tokens import Tokenizer, buffers

MAX_SIZE = 100_000_000
MAX_TOTAL = 2**53


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Public n-grams (tokens joined by one space) and how often public text has them."""

    ngrams: pa.LargeStringArray
    counts: Integers
    order: int
    tokenizer: Tokenizer

    def __post_init__(self) -> None:
        """Public counts add up to less than 2⁵³, so that no sum of them is ever rounded or overflows."""
        if len(self.ngrams) != self.counts.size or not 1 <= len(self.ngrams) <= MAX_SIZE:
            raise UsageError(
                f"{len(self.ngrams)} n-grams, {self.counts.size} counts: a vocabulary has as many of both."
            )
        if self.counts.min() < 0 or self.counts.sum(dtype=np.float64) >= MAX_TOTAL:
            raise UsageError("the public counts must be 0 or more and add up to less than 2^53; divide them all.")

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
    def words(self) -> tuple[Ids, int]:
        """The words of every n-gram as numbers (V × n), and how many words there are."""
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
        return NgramFinder(self.ngrams, self.order, self.tokenizer)

    @classmethod
    def from_public(
        cls,
        inputs: Any,  # noqa: ANN401 - paths or tables, see bayesgram.files
        *,
        order: int = 3,
        size: int = 50_000,
        text_column: str = "text",
        tokenizer: Tokenizer = Tokenizer(),  # noqa: B008 - frozen
        skip_bad_rows: bool = False,
    ) -> "Vocabulary":
        """The `size` most frequent n-grams of public text: files, folders, globs or tables."""
        records = read_records(inputs, text_column=text_column, user_column=None, skip_bad_rows=skip_bad_rows)
        return cls.from_records(records, order=order, size=size, tokenizer=tokenizer)

    @classmethod
    def from_records(cls, records: Iterable[Records], *, order: int, size: int, tokenizer: Tokenizer) -> "Vocabulary":
        """The `size` most frequent n-grams; of equal counts, the first in byte order token by token."""
        _check_size(size)
        counter = NgramCounter(order, tokenizer)
        for batch in records:
            counter.add(batch.text)
        if not len(counter.windows):
            raise BayesgramError(
                f"the public text has no n-gram of order {order}: give more text, or a smaller --order."
            )
        return cls(*_top(counter, size), order, tokenizer)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write vocab.parquet: `ngram`, `count`, with tokenizer and order in the file's metadata."""
        metadata = {"bayesgram.tokenizer": self.tokenizer.name, "bayesgram.order": str(self.order)}
        table = pa.table({"ngram": self.ngrams, "count": pa.array(self.counts)}).replace_schema_metadata(metadata)
        with publish_file(path, force=force) as aside:
            pq.write_table(table, aside, compression="zstd")

    @classmethod
    def load(cls, path: str | Path, *, tokenizer: Tokenizer | None = None) -> "Vocabulary":
        """Read a vocabulary; one made elsewhere needs the columns `ngram` and `count`, and says no tokenizer."""
        table = _read_table(Path(path))
        metadata = table.schema.metadata or {}
        named = metadata.get(b"bayesgram.tokenizer")
        stated = Tokenizer.from_name(named.decode()) if named else None
        if tokenizer and stated and tokenizer != stated:
            raise UsageError(
                f"{path}: this vocabulary was made with the tokenizer {stated.name!r}, not {tokenizer.name!r};"
                " leave --tokenizer, --keep-case and --lower-case out."
            )
        ngrams = table["ngram"].combine_chunks().cast(pa.large_string())
        counts = table["count"].combine_chunks().cast(pa.int64()).to_numpy(zero_copy_only=False)
        return cls(ngrams, counts, _order(path, ngrams), stated or tokenizer or Tokenizer())


def _top(counter: NgramCounter, size: int) -> tuple[pa.LargeStringArray, Integers]:
    """The most frequent windows as strings, with their counts, in order."""
    rows, counts = counter.windows.rows, counter.windows.counts
    if counts.size > size:  # all that tie with the last one stay in the race
        kept = np.flatnonzero(counts >= np.partition(counts, counts.size - size)[counts.size - size])
        rows, counts = rows[kept], counts[kept]
    tokens = counter.tokens.strings()
    rank = np.empty(len(tokens), np.int64)
    rank[pc.sort_indices(tokens).to_numpy()] = np.arange(len(tokens))
    order = np.lexsort([*(rank[column] for column in rows.T[::-1]), -counts])[:size]
    words = [tokens.take(pa.array(column)).cast(pa.large_string()) for column in rows[order].T]
    return pc.binary_join_element_wise(*words, pa.scalar(" ", pa.large_string())), counts[order]


def _check_size(size: int) -> None:
    if not 1 <= size <= MAX_SIZE:
        raise UsageError(f"size={size}: a vocabulary has 1 to {MAX_SIZE:,} n-grams.")


def _read_table(path: Path) -> pa.Table:
    """The two columns of a vocabulary file, checked."""
    try:
        table = pq.read_table(path)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such vocabulary; make one with `bayesgram vocab`.") from None
    except (pa.ArrowInvalid, OSError):
        raise UsageError(f"{path}: not a Parquet file; make a vocabulary with `bayesgram vocab`.") from None
    missing = {"ngram", "count"} - set(table.column_names)
    if missing:
        raise UsageError(
            f"{path}: no column {min(missing)!r}; a vocabulary has the columns 'ngram' and 'count', this file has"
            f" {', '.join(map(repr, table.column_names))}."
        )
    count = table["count"]
    if not pa.types.is_integer(count.type) or count.null_count or (pc.min(count).as_py() or 0) < 0:
        raise UsageError(f"{path}: the column 'count' must hold whole numbers of 0 or more.")
    ngram = table["ngram"]
    if not (pa.types.is_string(ngram.type) or pa.types.is_large_string(ngram.type)) or ngram.null_count:
        raise UsageError(f"{path}: the column 'ngram' must hold text without nulls.")
    if not 1 <= table.num_rows <= MAX_SIZE:
        raise UsageError(f"{path}: {table.num_rows} rows; a vocabulary has 1 to {MAX_SIZE:,} n-grams.")
    return table


def _order(path: str | Path, ngrams: pa.LargeStringArray) -> int:
    """How many tokens every n-gram has: one space between two tokens, none at the ends."""
    spaces = pc.count_substring(ngrams, " ").to_numpy()
    order = int(spaces[0]) + 1
    odd = np.flatnonzero(spaces != order - 1)
    if odd.size:
        raise UsageError(
            f"{path}: row {odd[0] + 1} has {spaces[odd[0]] + 1} tokens and row 1 has {order};"
            " all n-grams of a vocabulary have the same order."
        )
    empty = pc.index(pc.match_substring_regex(ngrams, "^ |  | $|^$"), True).as_py()
    if empty >= 0:
        raise UsageError(f"{path}: row {empty + 1} is not tokens joined by single spaces.")
    return check_order(order)
