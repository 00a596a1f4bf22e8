"""Counting more than memory holds: what is counted waits on disk, and comes back a range of users at a time.

In:  records, a vocabulary.   Out: the same counts folder, byte for byte, as if all had fit in memory.
Memory is that of a batch, of what is being merged, and of the users' ids; not of the text.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arrays import Ids, Integers
from bayesgram.cores import CORES, ahead, on_cores
from bayesgram.files import Records
from bayesgram.files.scratch import Buckets, append_columns, read_columns, scratch_folder
from bayesgram.kernels import kernel
from bayesgram.private.counts import Occurrences, Triples, UserCounts, merged, user_counts
from bayesgram.private.store import counts_folder
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.strings import StringTable
from bayesgram.text.tokens import buffers

SMALLEST = 1 << 16  # rows that are always kept together
WORTH = 0.7  # of the rows may be left for merging them to pay
MOST_RANGES = 1 << 12  # files at a time
PIECE = 1 << 21  # rows that are merged while those before them are written
BYTES_PER_ROW = 48  # of merging: three columns, the sort key beside them, and the result


@dataclass(frozen=True)
class Counted:
    """How much was counted. Private: exact."""

    users: int
    nonzeros: int


def count_to_folder(
    records: Iterable[Records], vocabulary: Vocabulary, path: str | Path, *, memory: int, force: bool = False
) -> Counted:
    """Count the vocabulary's n-grams in every user's text, into a counts folder."""
    limit = max(memory // BYTES_PER_ROW, SMALLEST)
    users = nonzeros = 0
    with (
        counts_folder(vocabulary, path, force=force) as write,
        scratch_folder(Path(path).absolute().parent) as scratch,
    ):
        for part in _counted(records, vocabulary, scratch, limit):
            write(part)
            users, nonzeros = users + len(part.users), nonzeros + part.ngrams.size
    return Counted(users, nonzeros)


def _counted(records: Iterable[Records], vocabulary: Vocabulary, scratch: Path, limit: int) -> Iterator[UserCounts]:
    """All counts, users in byte order of their ids, a range of users at a time."""
    names, waiting, spills = StringTable(), Occurrences(), Spills(scratch)
    for codes, text in ahead(_numbered(records, names)):
        for users, ngrams in vocabulary.finder.find(text, codes):
            waiting.add(users, ngrams)
        if waiting.size > limit:
            spills.add(waiting.take())
    spills.add(waiting.take())
    ids = names.strings()
    order = pc.sort_indices(ids).to_numpy()
    ranks = np.empty(len(ids), np.int32)
    ranks[order] = np.arange(len(ids))
    yield from ahead(_parts(ids, order, spills.by_range(ranks, limit), vocabulary))


def _parts(
    ids: pa.LargeBinaryArray, order: Integers, ranges: Iterable[Triples], vocabulary: Vocabulary
) -> Iterator[UserCounts]:
    """Rows as counts, made on all cores."""
    for triples in ranges:
        part = partial(_part, ids, order, triples, vocabulary)
        pieces = _pieces(triples[0])
        for first in range(0, len(pieces), CORES):
            yield from on_cores(part, pieces[first : first + CORES])


def _pieces(users: Ids) -> list[tuple[int, int]]:
    """Ranges of users, with a few million rows or so in each."""
    first, last = int(users.min(initial=0)), int(users.max(initial=-1)) + 1
    return list(pairwise(np.linspace(first, last, users.size // PIECE + 2).astype(int).tolist()))


def _part(
    ids: pa.LargeBinaryArray, order: Integers, rows: Triples, vocabulary: Vocabulary, users: tuple[int, int]
) -> UserCounts:
    """The counts of a range of users."""
    first, last = users
    return user_counts(
        ids.take(pa.array(order[first:last])),
        *rows,
        first=first,
        vocabulary_size=len(vocabulary),
        vocabulary_fingerprint=vocabulary.fingerprint,
    )


def _numbered(records: Iterable[Records], names: StringTable) -> Iterator[tuple[Ids, pa.LargeBinaryArray]]:
    """Each batch's users as numbers, and its text."""
    for batch in records:
        yield names.add(*buffers(batch.user)), batch.text


class Spills:
    """(user, n-gram, count) rows on disk, the last ones in memory."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._paths: list[Path] = []
        self._last: Triples | None = None
        self._rows = 0
        self._merge = True  # as long as it makes them fewer

    def add(self, rows: Triples) -> None:
        """Keep these; those before them go to disk, merged where people repeat themselves."""
        if self._last is not None:
            self._spill(self._last)
        self._last = rows
        self._rows += rows[0].size

    def _spill(self, rows: Triples) -> None:
        before = rows[0].size
        if self._merge:
            rows = merged(rows)
            self._merge = rows[0].size < WORTH * before
        self._rows -= before - rows[0].size
        self._paths.append(self._scratch / f"spill-{len(self._paths)}")
        append_columns(self._paths[-1], rows)

    def by_range(self, ranks: Ids, limit: int) -> Iterator[Triples]:
        """The rows of one range of users after the other, with ranks for users."""
        if not self._paths:
            return ((ranks[users], ngrams, counts) for users, ngrams, counts in self._all())
        ranges = min(2 * self._rows // limit + 1, MOST_RANGES)
        dealt = Buckets(self._scratch, "users", buckets=ranges, columns=3)
        for rows in self._all():
            edges, *columns = _dealt(*rows, ranks, ranges)
            dealt.add(edges, columns)
        return filter(None, (_together(dealt.taken(number)) for number in range(ranges)))

    def _all(self) -> Iterator[Triples]:
        for path in self._paths:
            yield from ((users, ngrams, counts) for users, ngrams, counts in read_columns(path, 3))
            path.unlink()
        if self._last is not None:
            yield self._last


def _together(parts: Iterator[list[Ids]]) -> Triples | None:
    """The rows of a range, if it has any."""
    columns = list(zip(*parts, strict=True))
    if not columns:
        return None
    users, ngrams, counts = (np.concatenate(column) for column in columns)
    return users, ngrams, counts


@kernel
def _dealt(users: Ids, ngrams: Ids, counts: Ids, ranks: Ids, ranges: int) -> tuple[Integers, Ids, Ids, Ids]:
    """Rows in order of the ranges of their users, with ranks for users, and where each range begins and ends."""
    edges = np.zeros(ranges + 1, np.int64)
    for user in users:
        edges[np.int64(ranks[user]) * ranges // ranks.size + 1] += 1
    edges = np.cumsum(edges)
    fill = edges.copy()
    dealt_users, dealt_ngrams, dealt_counts = np.empty_like(users), np.empty_like(ngrams), np.empty_like(counts)
    for at in range(users.size):
        rank = ranks[users[at]]
        place = fill[np.int64(rank) * ranges // ranks.size]
        fill[np.int64(rank) * ranges // ranks.size] += 1
        dealt_users[place], dealt_ngrams[place], dealt_counts[place] = rank, ngrams[at], counts[at]
    return edges, dealt_users, dealt_ngrams, dealt_counts
