"""Every user's text as token numbers: read once, then given back a range of users at a time, each user whole.

In:  records of users (text).   Out: streams of token numbers, user after user; what is below 0 ends a sentence.
Memory is that of a batch, of the distinct tokens and of the users' ids; other text is spilled to disk beyond `memory`.
The order of users follows the hashes of their ids alone. Does not know what is public, and does not count.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from bayesgram.arrays import Ids, Integers
from bayesgram.cores import CORES, parallel_map, read_ahead
from bayesgram.files import Records
from bayesgram.private.counts import Occurrences, hash_order
from bayesgram.private.streaming import BYTES_PER_ROW, SMALLEST, Partitioned, joined, numbered, places_of
from bayesgram.text.ngrams import Owned, add_marks, with_boundaries
from bayesgram.text.strings import Found, StringTable
from bayesgram.text.tokens import Tokenizer, chunks


class WholeUsers(NamedTuple):
    """Some users: user u wrote `tokens[starts[u] : starts[u + 1]]`."""

    starts: Integers
    tokens: Ids


@dataclass(frozen=True, eq=False)
class UserText:
    """All text, read."""

    users: int
    _ranks: Ids
    _edges: Integers
    _partitioned: Partitioned

    def __iter__(self) -> Iterator[WholeUsers]:
        """All users, some at a time; once."""
        for first, last in self._partitioned.pieces(np.diff(self._edges)):
            users, tokens = self._partitioned.taken(first, last)
            if not users.size:
                continue
            ranks = self._ranks[users]
            order = np.argsort(ranks, kind="stable")
            inside = np.arange(self._edges[first], self._edges[last] + 1)
            yield WholeUsers(np.searchsorted(ranks[order], inside), tokens[order])


def read_user_text(
    records: Iterable[Records],
    tokenizer: Tokenizer,
    tokens: StringTable,
    scratch: Path,
    *,
    memory: int,
    cores: int = CORES,
) -> UserText:
    """Read everything. Tokens get the numbers of a table, which is given new ones."""
    limit = max(memory // BYTES_PER_ROW, SMALLEST)
    names, waiting, partitioned, hashes = StringTable(), Occurrences(), Partitioned(scratch), [np.zeros(0, np.uint64)]
    for users, numbers in _token_streams(read_ahead(numbered(records, names, hashes)), tokenizer, tokens, cores):
        waiting.add(users, numbers)
        if waiting.size > limit:
            partitioned.spill(waiting.take(), joined(hashes))
    ids, of_all = names.strings(), joined(hashes)
    del names  # what it took to number users is more than what is left of them
    partitioned.finish(waiting.take(), of_all)
    return UserText(len(ids), *places_of(hash_order(ids, of_all), of_all), partitioned)


def _token_streams(
    batches: Iterable[Owned], tokenizer: Tokenizer, tokens: StringTable, cores: int
) -> Iterator[tuple[Ids, Ids]]:
    """The owner and the number of every token: text is cut on all cores, new tokens are numbered on one."""
    marks = add_marks(tokens) if tokenizer.boundaries else None

    def look_up(texts: pa.LargeBinaryArray) -> tuple[Found, Integers]:
        data, offsets, ends = tokenizer.cut(texts)
        return tokens.look_up(data, offsets), ends

    for texts, owners in batches:
        first = 0
        for found, row_ends in parallel_map(look_up, chunks(texts), cores=cores):
            numbers, ends = tokens.complete(found), row_ends
            if marks:
                numbers, lengths = with_boundaries(numbers, *marks)
                ends = lengths[row_ends]
            yield np.repeat(owners[first : first + ends.size], np.diff(ends, prepend=0)), numbers
            first += ends.size
