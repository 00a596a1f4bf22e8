"""What the hash tables of the hot loops share: slots with open addressing and linear probing, and how they grow.

A slot is a key of one or more 64-bit numbers, and last what belongs to it, which is 0 if the slot is empty. Kernels ask
for the memory of some dozens of slots before they look at the first, as waiting for it would be most of their time. A
table grows before a batch is added, so that kernels never have to stop. Does not know what keys mean.
"""

import numpy as np

from bayesgram.arrays import Hashes
from bayesgram.kernels import inlined, kernel, mix

Slots = Hashes  # two-dimensional: a row is a slot

AHEAD = 64  # slots that are asked for before the first is looked at
BATCH_SIZE = 1 << 13  # entries for which room is made when more are added


@inlined
def hash_key(keys: Hashes, row: int, words: int) -> np.uint64:
    """Where the search for a key begins, before it is cut to the size of the table."""
    hashed = mix(keys[row, 0])
    for word in range(1, words):
        hashed = mix(hashed ^ keys[row, word])
    return hashed


def with_capacity(slots: Slots, entries: int) -> Slots:
    """The same table, grown in place until it is at most two thirds full with so many entries."""
    while 3 * entries > 2 * slots.shape[0]:
        before = slots.shape[0]
        slots = _doubled(slots)
        _spread(slots, before)
    return slots


def _doubled(slots: Slots) -> Slots:
    """The table with as many empty slots after it.

    Slots are the beginning of an array of zeros with room for more, which is no memory until it is written: so most
    tables grow where they are, and there is seldom an old one beside a new one.
    """
    size, columns = slots.shape
    whole = slots if slots.base is None else slots.base
    if whole.shape[0] == size:
        try:
            whole = np.zeros((8 * size, columns), np.uint64)
        except MemoryError:  # where room that is not used counts as well
            whole = np.zeros((2 * size, columns), np.uint64)
        whole[:size] = slots
    return whole[: 2 * size]


@kernel
def _spread(slots: Slots, before: int) -> None:
    """Move the entries of a table that was doubled to where they belong now.

    Beginning after an empty slot, each is taken out and put in again: between its place of now and where the search for
    it begins there are only entries that were moved already, so no later step opens a gap in its way.
    """
    words, last = slots.shape[1] - 1, np.uint64(slots.shape[0] - 1)
    entry = np.empty((1, words + 1), np.uint64)
    start = 0
    while slots[start, words]:
        start += 1
    for step in range(before):
        at = (start + step) & (before - 1)
        if not slots[at, words]:
            continue
        for column in range(words + 1):
            entry[0, column] = slots[at, column]
        slots[at, words] = 0
        place = hash_key(entry, 0, words) & last
        while slots[place, words]:
            place = (place + np.uint64(1)) & last
        for column in range(words + 1):
            slots[place, column] = entry[0, column]
