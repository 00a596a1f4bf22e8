"""Counting, and reading text, of more users than memory holds.

`count_to_folder` writes the same counts folder, byte for byte, as if all had fit in memory.
`read_user_text` returns every user's text as token numbers, each user complete.

Both read records once and spill pairs of a user and a number (an n-gram, or a token) to disk, in
buckets by the hash of the user's id. Then the buckets come back one range of users at a time, in
order of the hashes. Memory is that of a batch, of what is being merged, and of the users' ids (for
counts, of a number for each user and order, too; for text, of the distinct tokens); not of the
text.
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
from bayesgram.io.records import UserIdTypes
from bayesgram.io.segments import Segments
from bayesgram.io.spill import SpillBuckets
from bayesgram.kernels import inlined, kernel
from bayesgram.private.counts import (
    NO_USERS,
    CountRows,
    CountSummary,
    Occurrences,
    SummaryMeasure,
    UserCounts,
    UserRows,
    UserSegmentIds,
    build_user_counts,
    concatenate_occurrences,
    order_by_hash,
    unit_counts,
)
from bayesgram.private.counts_io import open_counts_writer
from bayesgram.private.public_row_check import PublicRowCheck
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.ngrams import Owned, add_marks, with_boundaries
from bayesgram.text.strings import LookupResult, StringTable
from bayesgram.text.tokenizer import Tokenizer, buffers, chunks

OccurrenceParts = Sequence[tuple[Ids, Ids]]  # users, and n-grams or tokens

# None of these was measured.
MIN_PENDING = 1 << 16  # occurrences that stay in memory however little of it is allowed
BUCKET_BITS = 8  # upper bits of a user's hash that choose one of 256 buckets
PIECE_SIZE = 1 << 19  # occurrences that are merged while those before them are written
OCCURRENCES_PER_USER = 8  # occurrences that take as much memory as a user does
# Bytes of an occurrence: two numbers as found, two in buckets, and room for pieces being merged.
BYTES_PER_OCCURRENCE = 32


# --- Counting into a folder ---


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
    """Count the vocabulary's n-grams in every user's text, into a counts folder.

    Args:
        records: The text of all users.
        vocabulary: The n-grams to count.
        path: Where the folder is made.
        memory: Bytes for occurrences; more of them are spilled to disk.
        force: Whether a counts folder that exists at `path` is replaced.
        segments: The segments to count by, if any.
        allow_public: Whether private rows may be rows of the public text.

    Raises:
        UsageError: If private text was given as public text, and `allow_public` is not set.
    """
    limit = max(memory // BYTES_PER_OCCURRENCE, MIN_PENDING)
    check = PublicRowCheck.from_vocabulary(vocabulary, allow_public=allow_public)
    owners = UserSegmentIds(vocabulary, segments)
    order_count = len(vocabulary.by_order)
    summary = SummaryMeasure(
        vocabulary, owners.unlisted_size, 1 if segments is None else len(segments)
    )
    measured = summary.measure(NO_USERS)
    types = UserIdTypes()
    with (
        open_counts_writer(
            vocabulary,
            path,
            force=force,
            segments=segments,
            unlisted=order_count,
            user_type=lambda: types.common,
        ) as write,
        spill_folder(Path(path).absolute().parent) as scratch,
    ):
        watched = types.watch(records)
        for part in _count_parts(watched, vocabulary, scratch, limit, owners, check):
            write(part)
            measured += summary.measure(UserRows(part.starts, part.ngrams, part.counts))
    return summary.summary(measured)


def _count_parts(
    records: Iterable[Records],
    vocabulary: Vocabulary,
    scratch: Path,
    limit: int,
    owners: UserSegmentIds,
    check: PublicRowCheck,
) -> Iterator[UserCounts]:
    """Count everything; yield a range of users at a time, in order of the hashes of their ids."""
    names = StringTable()
    pending = Occurrences()
    partitions = UserPartitions(scratch)
    unlisted = owners.new_unlisted_totals()
    hashes = [np.zeros(0, np.uint64)]
    texts = read_ahead(number_users(records, names, hashes, owners))
    for matches in vocabulary.matcher.match(texts, rows=check.private, add_unlisted=unlisted.add):
        pending.add(*owners.decode(*matches))
        if pending.size > limit:
            partitions.spill(pending.take(), merge_hashes(hashes))
    check.finish()
    ids = names.strings()
    all_hashes = merge_hashes(hashes)
    del names  # what it took to number users is more than what is left of them
    partitions.finish(pending.take(), all_hashes)
    unlisted_rows = owners.unlisted_rows(unlisted)
    for parts in read_ahead(
        _merge_partitions(
            ids, all_hashes, partitions, unlisted_rows, owners, vocabulary.fingerprint
        )
    ):
        # `read_ahead` holds the list, but must not hold what was taken from it.
        parts.reverse()
        while parts:
            yield parts.pop()


def _merge_partitions(
    ids: pa.LargeBinaryArray,
    hashes: Hashes,
    partitions: "UserPartitions",
    unlisted_rows: CountRows,
    owners: UserSegmentIds,
    fingerprint: str,
) -> Iterator[list[UserCounts]]:
    """Merge some buckets after the others, as many pieces at a time as there are cores."""
    order = order_by_hash(ids, hashes)
    ranks, edges = rank_users(order, hashes)
    unlisted_ranks = ranks[unlisted_rows[0]]
    by_rank = np.argsort(unlisted_ranks, kind="stable")
    unlisted = unlisted_ranks[by_rank], unlisted_rows[1][by_rank], unlisted_rows[2][by_rank]
    unlisted_edges = np.searchsorted(unlisted[0], edges)

    def merge_piece(buckets: tuple[int, int]) -> UserCounts:
        first_bucket, last_bucket = buckets
        users, ngrams = partitions.take(first_bucket, last_bucket)
        first = edges[first_bucket]
        last = edges[last_bucket]
        unlisted_part = slice(unlisted_edges[first_bucket], unlisted_edges[last_bucket])
        rows = zip(unit_counts(ranks[users], ngrams), unlisted, strict=True)
        columns = (np.concatenate([found, other[unlisted_part]]) for found, other in rows)
        return build_user_counts(
            ids.take(pa.array(order[first:last])),
            *columns,
            first=int(first),
            vocabulary_size=owners.column_count,
            vocabulary_fingerprint=fingerprint,
            unlisted_size=owners.unlisted_size,
        )

    pieces = partitions.plan_pieces(np.diff(edges))
    for first_piece in range(0, len(pieces), CORES):
        yield parallel_map(merge_piece, pieces[first_piece : first_piece + CORES])


# --- Numbering users ---


def number_users(
    records: Iterable[Records],
    names: StringTable,
    hashes: list[Hashes],
    owners: UserSegmentIds | None = None,
) -> Iterator[Owned]:
    """Yield each batch's text with the number of the user of each row.

    Args:
        records: The text of all users.
        names: Gets the ids of users who are new.
        hashes: Gets the hashes of users who are new.
        owners: Encodes users and segments as one number, if there are segments.
    """
    for batch in records:
        first_new = len(names)
        users = names.add(*buffers(batch.user))
        hashes.append(names.hashes(first_new))
        yield batch.text, users if owners is None else owners.encode(users, batch)


def merge_hashes(hashes: list[Hashes]) -> Hashes:
    """Return the hashes of all users so far in one array, which replaces the others in the list.

    Another thread may append more meanwhile; those stay in the list.
    """
    so_far = hashes.copy()
    hashes[: len(so_far)] = [np.concatenate(so_far)]
    return hashes[0]


def rank_users(order: Integers, hashes: Hashes) -> tuple[Ids, Integers]:
    """Return the place of each user in an order by hash, and where each bucket starts in it."""
    ranks = np.empty(order.size, np.int32)
    ranks[order] = np.arange(order.size)
    buckets = hashes[order] >> np.uint64(64 - BUCKET_BITS)
    edges = np.searchsorted(buckets, np.arange((1 << BUCKET_BITS) + 1, dtype=np.uint64))
    return ranks, edges


# --- Buckets of users ---


class UserPartitions:
    """Pairs (user, number) in buckets of users by the top of a hash, in memory or on disk."""

    def __init__(self, scratch: Path) -> None:
        self._files = SpillBuckets(scratch, "users", buckets=1 << BUCKET_BITS, columns=2)
        self._sizes = np.zeros(1 << BUCKET_BITS, np.int64)
        self._in_memory: tuple[Integers, Ids, Ids] | None = None

    def spill(self, parts: OccurrenceParts, hashes: Hashes) -> None:
        """Move occurrences to disk."""
        edges, *columns = _partition_parts(parts, hashes)
        self._files.add(edges, columns)
        self._sizes += np.diff(edges)

    def finish(self, parts: OccurrenceParts, hashes: Hashes) -> None:
        """Take the last occurrences, which stay in memory if nothing was spilled before."""
        if self._sizes.any():
            self.spill(parts, hashes)
        else:
            self._in_memory = _partition_parts(parts, hashes)
            self._sizes = np.diff(self._in_memory[0])

    def plan_pieces(self, users: Integers) -> list[tuple[int, int]]:
        """Return runs of buckets with about as much to be merged in each.

        Args:
            users: How many users each bucket has.
        """
        ends = np.cumsum(self._sizes + OCCURRENCES_PER_USER * users)
        targets = np.arange(PIECE_SIZE, ends[-1] + PIECE_SIZE, PIECE_SIZE)
        edges = np.unique(np.append(np.searchsorted(ends, targets), ends.size))
        return list(pairwise([0, *edges[edges > 0].tolist()]))

    def take(self, first: int, last: int) -> tuple[Ids, Ids]:
        """Return the occurrences of buckets `first` to `last` − 1, and remove those on disk."""
        if self._in_memory:
            edges, users, numbers = self._in_memory
            part = slice(edges[first], edges[last])
            return users[part], numbers[part]
        return concatenate_occurrences(
            columns for bucket in range(first, last) for columns in self._files.drain(bucket)
        )


def _partition_parts(parts: OccurrenceParts, hashes: Hashes) -> tuple[Integers, Ids, Ids]:
    """Return where each bucket starts, and occurrences in order of buckets.

    Every core takes some parts. Within a bucket occurrences stay in the order in which they were
    read, whoever else was read.
    """
    cuts = np.linspace(0, len(parts), CORES + 1).astype(np.int64)
    shares = [parts[first:last] for first, last in pairwise(cuts.tolist())]
    sizes = np.array(parallel_map(lambda share: _count_buckets(share, hashes), shares))
    edges = np.append(0, np.cumsum(sizes.sum(axis=0)))
    fills = edges[:-1] + np.cumsum(sizes, axis=0) - sizes  # where each core's share of it starts
    users = np.empty(edges[-1], np.int32)
    numbers = np.empty(edges[-1], np.int32)

    def partition_share(core: int) -> None:
        for part in shares[core]:
            _partition(*part, hashes, fills[core], users, numbers)

    parallel_map(partition_share, range(CORES))
    return edges, users, numbers


def _count_buckets(parts: OccurrenceParts, hashes: Hashes) -> Integers:
    """Return how many occurrences each bucket gets."""
    sizes = np.zeros(1 << BUCKET_BITS, np.int64)
    for users, _ in parts:
        _add_sizes(users, hashes, sizes)
    return sizes


@inlined
def _bucket(user: int, hashes: Hashes) -> np.uint64:
    return np.uint64(hashes[np.uint64(user)] >> np.uint64(64 - BUCKET_BITS))


@kernel
def _add_sizes(users: Ids, hashes: Hashes, sizes: Integers) -> None:
    for user in users:
        sizes[_bucket(user, hashes)] += 1


@kernel
def _partition(
    users: Ids,
    numbers: Ids,
    hashes: Hashes,
    fill: Integers,
    partitioned_users: Ids,
    partitioned_numbers: Ids,
) -> None:
    """Write each occurrence where its bucket is filled up to."""
    for at in range(users.size):
        bucket = _bucket(users[at], hashes)
        place = np.uint64(fill[bucket])
        partitioned_users[place] = users[at]
        partitioned_numbers[place] = numbers[at]
        fill[bucket] += 1


# --- Reading text ---


class UserTokens(NamedTuple):
    """Some users, each complete: user u wrote `tokens[starts[u] : starts[u + 1]]`."""

    starts: Integers
    tokens: Ids  # numbers; one below 0 ends a sentence
    first_user: int = 0  # the place of the first of them among all users


@dataclass(frozen=True, eq=False)
class UserText:
    """All users' text as token numbers, to be gone through once."""

    users: int
    _ranks: Ids
    _edges: Integers
    _partitions: UserPartitions

    def __iter__(self) -> Iterator[UserTokens]:
        """Yield all users, some at a time, in order of the hashes of their ids."""
        for first, last in self._partitions.plan_pieces(np.diff(self._edges)):
            users, tokens = self._partitions.take(first, last)
            if not users.size:
                continue
            ranks = self._ranks[users]
            order = np.argsort(ranks, kind="stable")
            wanted = np.arange(self._edges[first], self._edges[last] + 1)
            starts = np.searchsorted(ranks[order], wanted)
            yield UserTokens(starts, tokens[order], int(self._edges[first]))


def read_user_text(
    records: Iterable[Records],
    tokenizer: Tokenizer,
    tokens: StringTable,
    scratch: Path,
    *,
    memory: int,
    cores: int = CORES,
) -> UserText:
    """Read all users' text.

    Args:
        records: The text of all users.
        tokenizer: Cuts text into tokens.
        tokens: Numbers the tokens, and gets those that are new.
        scratch: A folder for text that memory does not hold.
        memory: Bytes for text; more of it is spilled to disk.
        cores: How many cores cut text.
    """
    limit = max(memory // BYTES_PER_OCCURRENCE, MIN_PENDING)
    names = StringTable()
    pending = Occurrences()
    partitions = UserPartitions(scratch)
    hashes = [np.zeros(0, np.uint64)]
    batches = read_ahead(number_users(records, names, hashes))
    for users, numbers in _number_tokens(batches, tokenizer, tokens, cores):
        pending.add(users, numbers)
        if pending.size > limit:
            partitions.spill(pending.take(), merge_hashes(hashes))
    ids = names.strings()
    all_hashes = merge_hashes(hashes)
    del names  # what it took to number users is more than what is left of them
    partitions.finish(pending.take(), all_hashes)
    ranks, edges = rank_users(order_by_hash(ids, all_hashes), all_hashes)
    return UserText(len(ids), ranks, edges, partitions)


def _number_tokens(
    batches: Iterable[Owned], tokenizer: Tokenizer, tokens: StringTable, cores: int
) -> Iterator[tuple[Ids, Ids]]:
    """Yield the user and the number of every token.

    Text is cut on all cores; new tokens are numbered on one.
    """
    marks = add_marks(tokens) if tokenizer.boundaries else None

    def look_up(texts: pa.LargeBinaryArray) -> tuple[LookupResult, Integers]:
        data, offsets, ends = tokenizer.tokenize(texts)
        return tokens.look_up(data, offsets), ends

    for texts, owners in batches:
        first = 0
        for matches, row_ends in parallel_map(look_up, chunks(texts), cores=cores):
            numbers = tokens.add_unknown(matches)
            ends = row_ends
            if marks:
                numbers, lengths = with_boundaries(numbers, *marks)
                ends = lengths[row_ends]
            yield np.repeat(owners[first : first + ends.size], np.diff(ends, prepend=0)), numbers
            first += ends.size
