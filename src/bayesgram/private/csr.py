"""Rows of (user, n-gram, count) as CSR arrays: brought together by user, sorted, and added up.

In:  rows in any order.   Out: where each user begins, ascending n-grams, counts ≥ 1.   Does not know who a user is.
"""

import numpy as np

from bayesgram.arrays import Ids, Integers
from bayesgram.kernels import copy_part, inlined, kernel

MAX_COUNT = np.iinfo(np.int32).max  # larger counts stay there: every mechanism clips far below
SHORT = 32  # rows that are sorted in the simplest way
DIGIT = 8  # bits by which longer ones are sorted at a time


def csr_rows(users: Ids, ngrams: Ids, counts: Ids, first: int, size: int) -> tuple[Integers, Ids, Ids]:
    """CSR arrays of `size` users: bring a user's rows together, sort them, add up equal n-grams."""
    begins, keys = _by_user(users, ngrams, counts, first, size)
    longest, largest = int(np.diff(begins).max(initial=0)), int(ngrams.max(initial=0))
    return _merge(begins, keys, np.empty(longest, np.int64), largest)


@kernel
def _by_user(users: Ids, ngrams: Ids, counts: Ids, first: int, size: int) -> tuple[Integers, Integers]:
    """Where the rows of each of `size` users begin, and all of their rows: n-gram above, count below."""
    begins = np.zeros(size + 1, np.int64)
    for user in users:
        if 0 <= user - first < size:
            begins[user - first + 1] += 1
    for user in range(size):
        begins[user + 1] += begins[user]
    fill = begins[:-1].copy()
    keys = np.empty(begins[-1], np.int64)
    for at in range(users.size):
        user = users[at] - first
        if 0 <= user < size:
            keys[fill[user]] = np.int64(ngrams[at]) << 32 | np.int64(counts[at])
            fill[user] += 1
    return begins, keys


@kernel
def _merge(begins: Integers, keys: Integers, spare: Integers, largest: int) -> tuple[Integers, Ids, Ids]:
    """CSR arrays: sort each user's rows, and add up equal n-grams."""
    starts = np.zeros(begins.size, np.int64)
    merged_ngrams, merged_counts = np.empty(keys.size, np.int32), np.empty(keys.size, np.int32)
    bins = np.empty(1 << DIGIT, np.int64)
    written = 0
    for user in range(begins.size - 1):
        row = keys[begins[user] : begins[user + 1]]
        if row.size <= SHORT:
            _insertion_sort(row)
        elif not _ascending(row):
            _radix_sort(row, largest, spare, bins)
        for key in row:
            ngram = np.int32(key >> 32)
            number = key & 0xFFFFFFFF
            if written > starts[user] and merged_ngrams[written - 1] == ngram:
                merged_counts[written - 1] = min(merged_counts[written - 1] + number, MAX_COUNT)
            else:
                merged_ngrams[written] = ngram
                merged_counts[written] = number
                written += 1
        starts[user + 1] = written
    return starts, merged_ngrams[:written].copy(), merged_counts[:written].copy()


@kernel
def in_order(users: Ids, ngrams: Ids) -> bool:
    """Whether users ascend, and the n-grams of each."""
    for at in range(1, users.size):
        if users[at] < users[at - 1] or (users[at] == users[at - 1] and ngrams[at] <= ngrams[at - 1]):
            return False
    return True


@inlined
def _insertion_sort(row: Integers) -> None:
    for at in range(1, row.size):
        key, place = row[at], at
        while place > 0 and row[place - 1] > key:
            row[place] = row[place - 1]
            place -= 1
        row[place] = key


@inlined
def _radix_sort(row: Integers, largest: int, spare: Integers, bins: Integers) -> None:
    """Sort by n-gram, a digit after the other from the lowest on; which of equal ones comes first does not matter."""
    shift, last = 32, (1 << DIGIT) - 1
    while largest:
        bins[:] = 0
        for key in row:
            bins[key >> shift & last] += 1
        begin = 0
        for digit in range(bins.size):
            begin, bins[digit] = begin + bins[digit], begin
        for key in row:
            spare[bins[key >> shift & last]] = key
            bins[key >> shift & last] += 1
        copy_part(spare, 0, row.size, row, 0)
        shift, largest = shift + DIGIT, largest >> DIGIT


@inlined
def _ascending(row: Integers) -> bool:
    for at in range(1, row.size):
        if row[at] < row[at - 1]:
            return False
    return True


@kernel
def are_csr(starts: Integers, ngrams: Ids, counts: Ids, users: int, vocabulary_size: int) -> bool:
    """Whether these are CSR arrays with ascending n-grams of the vocabulary and counts of 1 or more."""
    if starts.size != users + 1 or starts[0] != 0 or starts[-1] != ngrams.size or counts.size != ngrams.size:
        return False
    for user in range(users):
        last = -1
        if not 0 <= starts[user] <= starts[user + 1] <= ngrams.size:
            return False
        for at in range(starts[user], starts[user + 1]):
            if not last < ngrams[at] < vocabulary_size or counts[at] < 1:
                return False
            last = ngrams[at]
    return True
