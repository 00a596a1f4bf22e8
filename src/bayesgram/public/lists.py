"""A list of n-grams that is already there, and how often public sources have each of them.

In:  a vocabulary, or a file with a column `ngram` (plain text: one n-gram a line).   Out: the n-grams in their order.
Does not choose anything: what the list lacks is not counted.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arrays import Integers
from bayesgram.errors import UsageError
from bayesgram.files import Records, read_records
from bayesgram.public import stored
from bayesgram.public.opening import Listed, Opened
from bayesgram.released.labels import printable_name
from bayesgram.released.origins import Provenance, read_ingredients, read_origins
from bayesgram.text.ngrams import NgramMatcher, Owned
from bayesgram.text.row_hashes import RowSample
from bayesgram.text.tokens import Tokenizer

CARD, DISTRIBUTION = "card.json", "distribution.parquet"  # of a release; a discovery has a card, too, and ...
FOUND, VOCABULARY = "ngrams.parquet", "vocab.parquet"  # ... what it found, and the vocabulary with it


def read_list(path: str | Path, tokenizer: Tokenizer | None) -> tuple[pa.LargeStringArray, Tokenizer]:
    """The n-grams of a file, checked, and how text is cut for them."""
    if Path(path).suffix.lower() in {".parquet", ".pq"}:
        ngrams, cut = stored.ngrams_of(path, stored.read_table(Path(path)), tokenizer)
        stored.longest(path, ngrams)
        return ngrams, cut
    try:
        records = read_records(Path(path), text_column="ngram", user_column=None, refuse_nothing=True)
        ngrams = pa.concat_arrays([batch.text for batch in records]).cast(pa.large_string())
    except UsageError as error:
        column = "Name the right one with `text_column`."
        raise UsageError(str(error).replace(column, "A list has its n-grams in the column 'ngram'.")) from None
    return as_list(ngrams, tokenizer, path)


def list_provenance(path: str | Path) -> Provenance:
    """What the n-grams of a file are from, where that is about people.

    A vocabulary's file says it itself; the table of a release or of a discovery lies beside its card.
    """
    from bayesgram.public.vocabulary import Vocabulary  # noqa: PLC0415 - it imports this module
    from bayesgram.released.release import Release  # noqa: PLC0415 - few lists are of releases

    file = Path(path)
    if file.suffix.lower() not in {".parquet", ".pq"}:
        return Provenance()
    if file.name == DISTRIBUTION and (file.parent / CARD).is_file():
        return Release.load(file.parent).provenance(printable_name(file.parent))
    if file.name == FOUND and (file.parent / CARD).is_file() and (file.parent / VOCABULARY).is_file():
        return Vocabulary.load(file.parent / VOCABULARY).provenance
    table = stored.read_table(file)
    origins = read_origins(path, table)
    whole = Provenance(read_ingredients(path, table))
    if origins is None:
        return whole
    return whole.joined(origins.provenance(table["ngram"].combine_chunks().cast(pa.large_string())))


def as_list(
    ngrams: pa.LargeStringArray, tokenizer: Tokenizer | None, name: str | Path = "the list"
) -> tuple[pa.LargeStringArray, Tokenizer]:
    """The same for n-grams in memory."""
    if not 1 <= len(ngrams) <= stored.MAX_SIZE or ngrams.null_count:
        raise UsageError(f"{name}: {len(ngrams)} n-grams; a vocabulary has 1 to {stored.MAX_SIZE:,}, and no nulls.")
    stored.longest(name, ngrams)
    return ngrams, stored.with_marks(tokenizer or Tokenizer(), ngrams)


def count_list(
    ngrams: pa.LargeStringArray, matcher: NgramMatcher, source: Opened, rows: RowSample | None = None
) -> Integers:
    """How often a source has each n-gram of a list; where the list has one twice, the first counts.

    `rows` gets the hashes of the source's rows.
    """
    if isinstance(source, Listed):
        return looked_up(ngrams, source)
    counts = np.zeros(len(ngrams), np.int64)
    for _, found in matcher.match(_owned(source), rows=rows):
        np.add.at(counts, found, 1)
    return counts


def _owned(records: Iterable[Records]) -> Iterable[Owned]:
    """Texts that all belong to nobody."""
    return ((batch.text, np.zeros(len(batch), np.int32)) for batch in records)


def looked_up(ngrams: pa.LargeStringArray, source: Listed) -> Integers:
    """The counts of another list."""
    places = pc.index_in(source.ngrams, ngrams)  # the first
    known = np.flatnonzero(pc.is_valid(places).to_numpy(zero_copy_only=False))
    counts = np.zeros(len(ngrams), np.int64)
    counts[places.take(pa.array(known)).to_numpy()] = source.counts[known]
    return counts
