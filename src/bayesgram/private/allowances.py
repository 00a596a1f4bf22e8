"""Allowances: how much each user may still contribute to the releases of a series.

A series of W releases is paid for once, as one Gaussian mechanism of multiplier σ. Each of its
releases has noise of multiplier σ√k, as if k of them could be paid for in full. A query that takes
the share p of a release, and to which a user contributes z, costs that user p‖z‖²/B². The
*allowance* of a user is k: all that a user contributes in all releases costs no more. So people who
write little, or in some of the releases, are not scaled down at all, and the noise is that of k
releases.

`Allowances` remembers what every user has used: by a keyed hash of the user's id, in integers that
are rounded up. `pace` says how much of it a user may use in one release. `AllowedCounts` are
private counts whose sums keep to it: each query limits the norm of every user (`Meter`) and charges
what was contributed. All of it is private. What a user may use follows from that user's own past
alone, and from public settings.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from bayesgram.arrays import Hashes, Ids, Integers
from bayesgram.cores import parallel_imap, read_ahead
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.kernels import kernel
from bayesgram.privacy.constants import FULL_RELEASE, UNITS
from bayesgram.private.counts import Array, Meter, PrivateCounts, UserCounts, UserRows
from bayesgram.private.counts_on_disk import CountsOnDisk
from bayesgram.private.keyed_hash import keyed_hashes
from bayesgram.text.tokenizer import buffers

# Squared norms are rounded up to the next 2⁻⁴⁰ of B² (FULL_RELEASE steps), and shares to the next
# 2⁻²⁰; their products then fit in 64 bits.
NORM_STEP = UNITS * UNITS // FULL_RELEASE
SHARE_STEPS = 1 << 20

MAX_PENDING_IDS = 1 << 20  # ids that wait to be hashed, or are; not measured

# --- What every user has used ---


@dataclass(frozen=True, eq=False, repr=False)
class Allowances:
    """What every user of a series has used so far. Private.

    Attributes:
        key: The key of the hashes.
        high: The upper half of the hash of each user's id, ascending.
        low: The lower half.
        used: What each user has used, in units of which a full release is 2⁴⁰.
        active: In how many releases each user has been.
    """

    key: bytes
    high: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64))
    low: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64))
    used: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    active: Ids = field(default_factory=lambda: np.zeros(0, np.int32))

    def __repr__(self) -> str:
        return "Allowances(private)"

    def with_users(self, ids: Iterable[pa.LargeBinaryArray]) -> tuple["Allowances", Integers]:
        """Return allowances that also have these users, and the place of each of them.

        Args:
            ids: The ids of distinct users.

        Raises:
            BayesgramError: If two of the users have one hash.
        """
        high, low = hash_ids(ids, self.key)
        order = _order(high, low)
        high = high[order]
        low = low[order]
        if ((high[1:] == high[:-1]) & (low[1:] == low[:-1])).any():
            raise BayesgramError(
                "two users of these counts have one hash in the state of the series; an id must be"
                " there once, so the counts are damaged. Count again with `bayesgram count`."
            )
        merged_high, merged_low, known_places, ordered_places = _merge_hashes(
            *map(_read_only, (self.high, self.low, high, low))
        )
        used = np.zeros(merged_high.size, np.int64)
        active = np.zeros(merged_high.size, np.int32)
        used[known_places] = self.used
        active[known_places] = self.active
        user_places = np.empty(order.size, np.int64)
        user_places[order] = ordered_places
        return Allowances(self.key, merged_high, merged_low, used, active), user_places

    def charge(self, places: Integers, costs: Integers) -> "Allowances":
        """Return the allowances after users were in one release more.

        Args:
            places: The places of these users.
            costs: What each of them has used.
        """
        used = self.used.copy()
        used[places] += costs
        active = self.active.copy()
        active[places] += 1
        return replace(self, used=used, active=active)

    def digest(self, token: str) -> str:
        """Return a keyed hash of everything here and of a token, which notices any damage."""
        hasher = hashlib.blake2b(token.encode(), key=self.key, digest_size=32)
        for column in (self.high, self.low, self.used, self.active):
            hasher.update(np.ascontiguousarray(column).data)
        return hasher.hexdigest()

    def write(self, path: Path, token: str) -> None:
        """Write a file that names its token and digest, flushed to disk by the caller."""
        table = pa.table(
            {"high": self.high, "low": self.low, "used": self.used, "active": self.active}
        ).replace_schema_metadata(
            {b"token": token.encode(), b"digest": self.digest(token).encode()}
        )
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)

    @classmethod
    def read(cls, path: Path, token: str, key: bytes) -> "Allowances":
        """Read a file that `write` has written.

        Raises:
            BayesgramError: If it is damaged, has another token, or was written under another key.
        """
        try:
            with pa.OSFile(str(path), "rb") as file:
                table = pa.ipc.open_file(file).read_all()
            metadata = table.schema.metadata or {}
            stated = [metadata.get(name, b"").decode() for name in (b"token", b"digest")]
            columns = [table[name].to_numpy() for name in ("high", "low", "used", "active")]
        except (OSError, pa.ArrowException, KeyError, ValueError):
            raise _damaged_error(path) from None
        types = (np.uint64, np.uint64, np.int64, np.int32)
        if [column.dtype for column in columns] != list(map(np.dtype, types)):
            raise _damaged_error(path)
        allowances = cls(key, *columns)
        if stated != [token, allowances.digest(token)]:
            raise _damaged_error(path)
        return allowances


def _damaged_error(path: Path) -> BayesgramError:
    return BayesgramError(
        f"{path}: is missing or damaged, so it is not known what users have used of their"
        " allowances. The series can't go on: make a new one with `bayesgram series create`."
    )


def hash_ids(ids: Iterable[pa.LargeBinaryArray], key: bytes) -> tuple[Hashes, Hashes]:
    """Return both halves of a keyed hash (BLAKE2b, 128 bits) of every id."""
    none = np.zeros(0, np.uint64)
    halves = [(none, none)]
    halves += parallel_imap(
        lambda batch: keyed_hashes(*buffers(batch.cast(pa.large_binary())), key),
        read_ahead(iter(ids)),
        size=len,
        max_pending=MAX_PENDING_IDS,
    )
    high, low = (np.concatenate(parts) for parts in zip(*halves, strict=True))
    return high, low


def _order(high: Hashes, low: Hashes) -> Integers:
    """Return the order of hashes by their upper half, and then by their lower one."""
    order = np.argsort(high)
    ordered = high[order]
    if (ordered[1:] == ordered[:-1]).any():
        return np.lexsort((low, high))
    return order


def _read_only(hashes: Hashes) -> Hashes:
    """Return a view that nobody can write to: kernels are compiled for one kind of array."""
    view = hashes.view()
    view.setflags(write=False)
    return view


@kernel
def _count_common(high: Hashes, low: Hashes, new_high: Hashes, new_low: Hashes) -> int:
    """Return how many hashes two ascending lists have in common."""
    common = second = 0
    for first in range(high.size):
        while second < new_high.size and (
            new_high[second] < high[first]
            or (new_high[second] == high[first] and new_low[second] < low[first])
        ):
            second += 1
        if second < new_high.size:
            common += new_high[second] == high[first] and new_low[second] == low[first]
    return common


@kernel
def _merge_hashes(
    high: Hashes, low: Hashes, new_high: Hashes, new_low: Hashes
) -> tuple[Hashes, Hashes, Integers, Integers]:
    """Merge two ascending lists of distinct hashes into one.

    Returns:
        Both halves of every hash that is in either list, ascending, and where those of the first
        and of the second list are.
    """
    size = high.size + new_high.size - _count_common(high, low, new_high, new_low)
    merged_high = np.empty(size, np.uint64)
    merged_low = np.empty(size, np.uint64)
    places = np.empty(high.size, np.int64)
    new_places = np.empty(new_high.size, np.int64)
    first = second = merged = 0
    while first < high.size or second < new_high.size:
        takes_first = second == new_high.size
        takes_second = first == high.size
        if not takes_first and not takes_second:
            is_equal_high = high[first] == new_high[second]
            takes_first = high[first] < new_high[second] or (
                is_equal_high and low[first] <= new_low[second]
            )
            takes_second = high[first] > new_high[second] or (
                is_equal_high and low[first] >= new_low[second]
            )
        if takes_first:
            merged_high[merged], merged_low[merged] = high[first], low[first]
            places[first] = merged
            first += 1
        if takes_second:
            merged_high[merged], merged_low[merged] = new_high[second], new_low[second]
            new_places[second] = merged
            second += 1
        merged += 1
    return merged_high, merged_low, places, new_places


# --- Counts whose sums keep to allowances ---


@dataclass(frozen=True, eq=False, repr=False)
class _CountsOverCounts(PrivateCounts):
    """Private counts that are over the same vocabulary as the ones below them.

    Attributes:
        counts: The private counts below.
    """

    counts: PrivateCounts

    @property
    def vocabulary_size(self) -> int:  # type: ignore[override]
        """V: how many n-grams the vocabulary has."""
        return self.counts.vocabulary_size

    @property
    def vocabulary_fingerprint(self) -> str | None:  # type: ignore[override]
        """The fingerprint of the vocabulary."""
        return self.counts.vocabulary_fingerprint

    @property
    def unlisted_size(self) -> int:  # type: ignore[override]
        """How many columns there are for n-grams that are not listed."""
        return self.counts.unlisted_size


@dataclass(frozen=True, eq=False, repr=False)
class AllowedCounts(_CountsOverCounts):
    """Private counts of users who have a limited allowance for one release.

    Only metered sums can be had of them. Users are in the order in which the counts are read.

    Attributes:
        counts: The private counts.
        left: What each user may still use in this release. Changed by `metered_sum`.
        activity: The class of each user by how often they write (`activity_classes`); all of the
            first class if it is None.
    """

    left: Integers
    activity: Ids | None = None

    def __repr__(self) -> str:
        return f"AllowedCounts(private, over {self.vocabulary_size:,} n-grams)"

    def aggregate_all(
        self,
        measure: Callable[[UserRows], Array],  # noqa: ARG002
        merge: np.ufunc = np.add,  # noqa: ARG002
    ) -> Array:
        """Refuse: nobody's allowance would be charged."""
        raise AssertionError("a sum that no allowance is charged for")

    def metered_sum(
        self,
        compute: Callable[[PrivateCounts], Integers],
        *,
        share: float,
        share_left: float,
    ) -> Integers:
        """Return the exact sum of a query, and charge every user for what they contributed.

        The norm of a user is limited such that what is left is enough for all queries to come, in
        proportion to their shares.

        Formal guarantee: the integer costs of all queries of a user never exceed what `left` was
        at the beginning, and each is at least share·‖z‖²/B² of a full release, where z is what the
        user contributed. They are checked before any sum is handed out.

        Args:
            compute: Returns the sum over the counts that it is given.
            share: The share of the release (of 1/σ²) that the query takes.
            share_left: What is left of it for all queries, this one included.
        """
        steps = share_steps(share)
        limits = norm_limits(self.left, max(share_steps(share_left), steps))
        squares = np.zeros(self.left.size, np.int64)
        activity = np.zeros(limits.size, np.int32) if self.activity is None else self.activity
        exact = compute(_MeteredCounts(self.counts, limits, squares, activity))
        costs = query_costs(squares, steps)
        if (squares > limits * limits).any() or (costs > self.left).any():
            raise AssertionError("a user contributed more than their limit")
        self.left[:] -= costs
        return exact


@dataclass(frozen=True, eq=False, repr=False)
class _MeteredCounts(_CountsOverCounts):
    """The counts of one metered sum."""

    limits: Integers
    squares: Integers
    activity: Ids

    def aggregate_all(
        self, measure: Callable[[UserRows], Array], merge: np.ufunc = np.add
    ) -> Array:
        """Measure all users, each with their limit."""
        metered = partial(
            _measure_metered,
            measure=measure,
            meter=Meter(self.limits, self.squares, self.activity, np.zeros(0, np.int64)),
        )
        return self.counts.aggregate_all(metered, merge)


def _measure_metered(rows: UserRows, measure: Callable[[UserRows], Array], meter: Meter) -> Array:
    if rows.first + rows.user_count > meter.limits.size:
        raise AssertionError("more users than the release was begun with")
    numbers = np.arange(rows.first, rows.first + rows.user_count)
    return measure(rows._replace(meter=replace(meter, numbers=numbers)))


def share_steps(share: float) -> int:
    """Return a share of a release in steps of 2⁻²⁰, rounded up.

    >>> share_steps(1.0), share_steps(0.03), share_steps(1e-9)
    (1048576, 31458, 1)
    """
    if not 0 < share <= 1 + 1e-9:
        raise AssertionError(f"a share of a release is in 0 … 1, not {share}")
    return min(int(np.ceil(share * SHARE_STEPS)), SHARE_STEPS)


def query_costs(squares: Integers, steps: int) -> Integers:
    """Return what contributions of these squared norms cost, rounded up twice.

    >>> query_costs(np.array([UNITS * UNITS, 1, 0]), share_steps(0.5)).tolist()
    [549755813888, 1, 0]
    """
    norm_steps = -(-squares // NORM_STEP)
    costs: Integers = -(-(norm_steps * steps) // SHARE_STEPS)
    return costs


def norm_limits(left: Integers, steps: int) -> Integers:
    """Return the largest norm whose cost is within what each user has left; at most B.

    >>> norm_limits(np.array([FULL_RELEASE, FULL_RELEASE // 4, 0]), SHARE_STEPS) / UNITS
    array([1. , 0.5, 0. ])
    """
    squares = np.minimum(left * SHARE_STEPS // steps, FULL_RELEASE) * NORM_STEP
    limits = np.sqrt(squares).astype(np.int64)
    limits -= limits * limits > squares  # a float's root may be rounded up
    capped: Integers = np.minimum(limits, UNITS)
    return capped


def read_user_ids(counts: PrivateCounts) -> Iterator[pa.LargeBinaryArray]:
    """Yield the ids of all users, in the order in which the counts are read.

    Raises:
        UsageError: If the counts are elsewhere, so that their users can't be asked for.
    """
    if isinstance(counts, UserCounts):
        yield counts.users
    elif isinstance(counts, CountsOnDisk):
        yield from counts.read_users()
    else:
        raise UsageError(
            "a release of a series needs the counts on this machine, because it keeps account of"
            " every user; Spark can't make one. Copy the counts here, or release without a series."
        )
