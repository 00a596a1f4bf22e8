"""Counting more than memory holds: what is counted is spilled to disk, and comes back a range of users at a time.

In:  records, a vocabulary.   Out: the same counts folder, byte for byte, as if all had fit in memory.
Memory is that of a batch, of what is being merged, and of the users' ids; not of the text.

Every user's text as token numbers: read once, then given back a range of users at a time, each user whole.

In:  records of users (text).   Out: streams of token numbers, user after user; what is below 0 ends a sentence.
Memory is that of a batch, of the distinct tokens and of the users' ids; other text is spilled to disk beyond `memory`.
The order of users follows the hashes of their ids alone. Does not know what is public, and does not count.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from bayesgram.arrays import Hashes, Ids, Integers
from bayesgram.cores import CORES, parallel_map, read_ahead
from bayesgram.io import Records
from bayesgram.io.atomic import spill_folder
from bayesgram.io.segments import Segments
from bayesgram.io.spill import SpillBuckets
from bayesgram.kernels import inlined, kernel
from bayesgram.private.counts import (
    Occurrences,
    UserCounts,
    UserSegmentIds,
    build_user_counts,
    order_by_hash,
    together,
    unit_counts,
)
from bayesgram.private.counts_io import open_counts_writer
from bayesgram.private.public_row_check import PublicRowCheck
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.ngrams import Owned, add_marks, with_boundaries
from bayesgram.text.strings import LookupResult, StringTable
from bayesgram.text.tokenizer import Tokenizer, buffers, chunks

Occurring = Sequence[tuple[Ids, Ids]]  # users and n-grams

SMALLEST = 1 << 16  # occurrences that are always kept together
BITS = 8  # of a user's hash that choose one of 256 buckets
PIECE = 1 << 19  # occurrences that are merged while those before them are written
USER = 8  # occurrences that take as much memory as a user
BYTES_PER_ROW = 32  # of an occurrence: two numbers as found, two dealt out, and room for the pieces that are merged


@dataclass(frozen=True)
class CountSummary:
    """How much was counted. Private: exact."""

    users: int
    nonzeros: int


def count_to_folder(
    records: Iterable[Records],
    vocabulary: Vocabulary,
    path: str | Path,
    *,
    memory: int,
    force: bool = False,
    segments: Segments | None = None,
    allow_public: bool = False,
) -> CountSummary:
    """Count the vocabulary's n-grams in every user's text, and by segment if there are any, into a counts folder.

    Raises:
        UsageError: If private text was given as public text, and `allow_public` is not set.

    """
    limit = max(memory // BYTES_PER_ROW, SMALLEST)
    users = nonzeros = 0
    check = PublicRowCheck.of(vocabulary, allow_public=allow_public)
    with (
        open_counts_writer(vocabulary, path, force=force, segments=segments) as write,
        spill_folder(Path(path).absolute().parent) as scratch,
    ):
        for part in _counted(
            records, vocabulary, scratch, limit, UserSegmentIds(vocabulary, segments), check
        ):
            write(part)
            users, nonzeros = users + len(part.users), nonzeros + part.ngrams.size
    return CountSummary(users, nonzeros)


def _counted(
    records: Iterable[Records],
    vocabulary: Vocabulary,
    scratch: Path,
    limit: int,
    owners: UserSegmentIds,
    check: PublicRowCheck,
) -> Iterator[UserCounts]:
    """All counts, users in order of the hashes of their ids, a range of users at a time."""
    names, waiting, partitioned = StringTable(), Occurrences(), UserPartitions(scratch)
    hashes = [np.zeros(0, np.uint64)]
    texts = read_ahead(numbered(records, names, hashes, owners))
    for found in vocabulary.matcher.match(texts, rows=check.private):
        waiting.add(*owners.apart(*found))
        if waiting.size > limit:
            partitioned.spill(waiting.take(), joined(hashes))
    check.finish()
    ids, of_all = names.strings(), joined(hashes)
    del names  # what it took to number users is more than what is left of them
    partitioned.finish(waiting.take(), of_all)
    for parts in read_ahead(
        _parts(ids, of_all, partitioned, owners.columns, vocabulary.fingerprint)
    ):
        parts.reverse()
        while parts:
            yield parts.pop()  # whoever made it holds the list, but not what was taken from it


def joined(hashes: list[Hashes]) -> Hashes:
    """The hashes of all users so far in one array, which takes the place of the others; more may be added meanwhile."""
    known = hashes.copy()
    hashes[: len(known)] = [np.concatenate(known)]
    return hashes[0]


def _parts(
    ids: pa.LargeBinaryArray,
    hashes: Hashes,
    partitioned: "UserPartitions",
    size: int,
    fingerprint: str,
) -> Iterator[list[UserCounts]]:
    """The counts of some buckets after the others, as many at a time as there are cores."""
    order = order_by_hash(ids, hashes)
    ranks, edges = rank_users(order, hashes)

    def part(buckets: tuple[int, int]) -> UserCounts:
        users, ngrams = partitioned.taken(*buckets)
        first, last = edges[buckets[0]], edges[buckets[1]]
        names = ids.take(pa.array(order[first:last]))
        return build_user_counts(
            names,
            *unit_counts(ranks[users], ngrams),
            first=int(first),
            vocabulary_size=size,
            vocabulary_fingerprint=fingerprint,
        )

    pieces = partitioned.pieces(np.diff(edges))
    for first in range(0, len(pieces), CORES):
        yield parallel_map(part, pieces[first : first + CORES])


def rank_users(order: Integers, hashes: Hashes) -> tuple[Ids, Integers]:
    """The place of each user in an order by hash, and where the buckets of users begin and end in it."""
    ranks = np.empty(order.size, np.int32)
    ranks[order] = np.arange(order.size)
    edges = np.searchsorted(
        hashes[order] >> np.uint64(64 - BITS), np.arange((1 << BITS) + 1, dtype=np.uint64)
    )
    return ranks, edges


def numbered(
    records: Iterable[Records],
    names: StringTable,
    hashes: list[Hashes],
    owners: UserSegmentIds | None = None,
) -> Iterator[Owned]:
    """Each batch's text, with its users as numbers; adds the hashes of those who are new."""
    for batch in records:
        known = len(names)
        codes = names.add(*buffers(batch.user))
        hashes.append(names.hashes(known))
        yield batch.text, codes if owners is None else owners.of(codes, batch)


class UserPartitions:
    """(user, n-gram) pairs in buckets of users by the top of a hash, in memory or on disk."""

    def __init__(self, scratch: Path) -> None:
        self._files = SpillBuckets(scratch, "users", buckets=1 << BITS, columns=2)
        self._sizes = np.zeros(1 << BITS, np.int64)
        self._kept: tuple[Integers, Ids, Ids] | None = None

    def spill(self, parts: Occurring, hashes: Hashes) -> None:
        """Move occurrences to disk."""
        edges, *columns = _partitioned(parts, hashes)
        self._files.add(edges, columns)
        self._sizes += np.diff(edges)

    def finish(self, parts: Occurring, hashes: Hashes) -> None:
        """Take the last ones, which stay in memory if all do."""
        if self._sizes.any():
            self.spill(parts, hashes)
        else:
            self._kept = _partitioned(parts, hashes)
            self._sizes = np.diff(self._kept[0])

    def pieces(self, users: Integers) -> list[tuple[int, int]]:
        """Runs of buckets, which have so many users, with about as much to be merged in each."""
        ends = np.cumsum(self._sizes + USER * users)
        wanted = np.arange(PIECE, ends[-1] + PIECE, PIECE)
        edges = np.unique(np.append(np.searchsorted(ends, wanted), ends.size))
        return list(pairwise([0, *edges[edges > 0].tolist()]))

    def taken(self, first: int, last: int) -> tuple[Ids, Ids]:
        """The occurrences of some buckets; those on disk are there no longer."""
        if self._kept:
            edges, users, ngrams = self._kept
            some = slice(edges[first], edges[last])
            return users[some], ngrams[some]
        return together(
            columns for bucket in range(first, last) for columns in self._files.drain(bucket)
        )


def _partitioned(parts: Occurring, hashes: Hashes) -> tuple[Integers, Ids, Ids]:
    """Occurrences in order of buckets, and where each bucket begins and ends; every core deals out some parts.

    Within a bucket they stay in the order in which they were read, whoever else was read.
    """
    cuts = np.linspace(0, len(parts), CORES + 1).astype(np.int64)
    shares = [parts[first:last] for first, last in pairwise(cuts.tolist())]
    sizes = np.array(parallel_map(lambda share: _sizes(share, hashes), shares))
    edges = np.append(0, np.cumsum(sizes.sum(axis=0)))
    fills = (
        edges[:-1] + np.cumsum(sizes, axis=0) - sizes
    )  # where the part of a core in each bucket begins
    users, ngrams = (np.empty(edges[-1], np.int32) for _ in range(2))

    def partition(core: int) -> None:
        for part in shares[core]:
            _partition(*part, hashes, fills[core], users, ngrams)

    parallel_map(partition, range(CORES))
    return edges, users, ngrams


def _sizes(parts: Occurring, hashes: Hashes) -> Integers:
    """How many occurrences each bucket gets."""
    sizes = np.zeros(1 << BITS, np.int64)
    for users, _ in parts:
        _add_sizes(users, hashes, sizes)
    return sizes


@inlined
def _bucket(user: int, hashes: Hashes) -> np.uint64:
    return np.uint64(hashes[np.uint64(user)] >> np.uint64(64 - BITS))


@kernel
def _add_sizes(users: Ids, hashes: Hashes, sizes: Integers) -> None:
    for user in users:
        sizes[_bucket(user, hashes)] += 1


@kernel
def _partition(
    users: Ids, ngrams: Ids, hashes: Hashes, fill: Integers, dealt_users: Ids, dealt_ngrams: Ids
) -> None:
    """Write each occurrence where its bucket is filled up to."""
    for at in range(users.size):
        bucket = _bucket(users[at], hashes)
        place = np.uint64(fill[bucket])
        dealt_users[place], dealt_ngrams[place] = users[at], ngrams[at]
        fill[bucket] += 1


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
    _partitioned: UserPartitions

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
    names, waiting, partitioned, hashes = (
        StringTable(),
        Occurrences(),
        UserPartitions(scratch),
        [np.zeros(0, np.uint64)],
    )
    for users, numbers in _token_streams(
        read_ahead(numbered(records, names, hashes)), tokenizer, tokens, cores
    ):
        waiting.add(users, numbers)
        if waiting.size > limit:
            partitioned.spill(waiting.take(), joined(hashes))
    ids, of_all = names.strings(), joined(hashes)
    del names  # what it took to number users is more than what is left of them
    partitioned.finish(waiting.take(), of_all)
    return UserText(len(ids), *rank_users(order_by_hash(ids, of_all), of_all), partitioned)


def _token_streams(
    batches: Iterable[Owned], tokenizer: Tokenizer, tokens: StringTable, cores: int
) -> Iterator[tuple[Ids, Ids]]:
    """The owner and the number of every token: text is cut on all cores, new tokens are numbered on one."""
    marks = add_marks(tokens) if tokenizer.boundaries else None

    def look_up(texts: pa.LargeBinaryArray) -> tuple[LookupResult, Integers]:
        data, offsets, ends = tokenizer.tokenize(texts)
        return tokens.look_up(data, offsets), ends

    for texts, owners in batches:
        first = 0
        for found, row_ends in parallel_map(look_up, chunks(texts), cores=cores):
            numbers, ends = tokens.add_unknown(found), row_ends
            if marks:
                numbers, lengths = with_boundaries(numbers, *marks)
                ends = lengths[row_ends]
            yield np.repeat(owners[first : first + ends.size], np.diff(ends, prepend=0)), numbers
            first += ends.size
