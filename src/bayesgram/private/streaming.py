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
from bayesgram.files.scratch import Buckets, scratch_folder
from bayesgram.private.counts import Merger, Triples, UserCounts, merged, user_counts
from bayesgram.private.store import counts_folder
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.tables import StringTable
from bayesgram.text.tokens import buffers

SMALLEST = 1 << 16  # rows that are always kept together
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
        for part in ahead(_counted(records, vocabulary, scratch, limit)):
            write(part)
            users, nonzeros = users + len(part.users), nonzeros + part.ngrams.size
    return Counted(users, nonzeros)


def _counted(records: Iterable[Records], vocabulary: Vocabulary, scratch: Path, limit: int) -> Iterator[UserCounts]:
    """All counts, users in byte order of their ids, a range of users at a time."""
    names, merger, spills = StringTable(), Merger(), Spills(scratch)
    for codes, text in ahead(_numbered(records, names)):
        for users, ngrams in vocabulary.finder.find(text, codes):
            merger.add(users, ngrams)
        if merger.rows > limit:
            spills.add(merged(merger.take()))
    spills.add(merger.take())
    ids = names.strings()
    order = pc.sort_indices(ids).to_numpy()
    ranks = np.empty(len(ids), np.int32)
    ranks[order] = np.arange(len(ids))
    for triples in spills.by_range(ranks, limit):
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

    def add(self, rows: Triples) -> None:
        """Keep these; those before them go to disk."""
        if self._last is not None:
            self._paths.append(self._scratch / f"spill-{len(self._paths)}.npz")
            np.savez(self._paths[-1], *self._last)
        self._last = rows
        self._rows += rows[0].size

    def by_range(self, ranks: Ids, limit: int) -> Iterator[Triples]:
        """The rows of one range of users after the other, with ranks for users."""
        if not self._paths:
            yield from (_ranked(rows, ranks) for rows in self._all())
            return
        ranges = 2 * self._rows // limit + 1
        dealt = Buckets(self._scratch, "users", buckets=ranges, columns=3)
        for rows in self._all():
            ranked = _ranked(rows, ranks)
            dealt.add(ranked[0].astype(np.int64) * ranges // ranks.size, ranked)
        for number in range(ranges):
            columns = list(zip(*dealt.parts(number), strict=True))
            if columns:
                users, ngrams, counts = (np.concatenate(column) for column in columns)
                yield users, ngrams, counts

    def _all(self) -> Iterator[Triples]:
        for path in self._paths:
            with np.load(path) as file:
                yield file["arr_0"], file["arr_1"], file["arr_2"]
            path.unlink()
        if self._last is not None:
            yield self._last


def _ranked(rows: Triples, ranks: Ids) -> Triples:
    users, ngrams, counts = rows
    return ranks[users], ngrams, counts
