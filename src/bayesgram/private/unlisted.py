"""How many n-grams people wrote that the vocabulary does not list, added up while text is read.

The matcher reports numbers by row of text. `UnlistedTotals` adds them up by the owner of a row (a
user, or a user in a segment) and by order, in a hash table, so that memory is that of owners ×
orders and not of the text. Sums are exact; `UserSegmentIds.unlisted_rows` makes rows of counts of
them.
"""

import numpy as np

from bayesgram.arrays import Ids, Integers
from bayesgram.kernels import kernel

MIN_CAPACITY = 1 << 10  # owners that a table has room for; it doubles when they are more
GOLDEN_RATIO = 0x9E3779B97F4A7C15  # 2⁶⁴/φ: spreads owners, which are small numbers, over the slots


class UnlistedTotals:
    """Totals of every owner, by order: a hash table.

    Args:
        order_count: How many orders the vocabulary has.
    """

    def __init__(self, order_count: int) -> None:
        self._order_count = order_count
        self._clear()

    def _clear(self) -> None:
        self._size = 0
        self._owners = np.empty(MIN_CAPACITY, np.int32)
        self._totals = np.empty((MIN_CAPACITY, self._order_count), np.int64)
        self._slots = np.full(2 * MIN_CAPACITY, -1, np.int32)

    def add(self, owners: Ids, numbers: Integers) -> None:
        """Add the numbers of some rows of text.

        Args:
            owners: The owner of each row.
            numbers: Rows × orders.
        """
        first = 0
        while True:
            first, self._size = _add_rows(
                owners, numbers, first, self._owners, self._totals, self._slots, self._size
            )
            if first == owners.size:
                return
            self._grow()

    def take(self) -> tuple[Ids, Integers]:
        """Return owners and their totals (owners × orders), in any order, and leave none."""
        owners = self._owners[: self._size]
        totals = self._totals[: self._size]
        self._clear()
        return owners, totals

    def _grow(self) -> None:
        """Double the room, and enter all owners anew."""
        owners = self._owners[: self._size]
        totals = self._totals[: self._size]
        capacity = 2 * self._owners.size
        self._owners = np.empty(capacity, np.int32)
        self._totals = np.empty((capacity, self._order_count), np.int64)
        self._slots = np.full(2 * capacity, -1, np.int32)
        _, self._size = _add_rows(owners, totals, 0, self._owners, self._totals, self._slots, 0)


@kernel
def _add_rows(
    owners: Ids,
    numbers: Integers,
    first: int,
    known_owners: Ids,
    totals: Integers,
    slots: Ids,
    size: int,
) -> tuple[int, int]:
    """Add rows to the table, as long as there is room for new owners.

    Args:
        owners: The owner of each row.
        numbers: Rows × orders.
        first: The first row to add.
        known_owners: The owners in the table.
        totals: Their totals.
        slots: Twice as many as there is room for owners, a power of 2: places in the table, or −1.
        size: How many owners the table has.

    Returns:
        The first row that was not added, and how many owners the table has now.
    """
    mask = np.uint64(slots.size - 1)
    for row in range(first, owners.size):
        has_any = False
        for order in range(numbers.shape[1]):
            has_any = has_any or numbers[row, order] != 0
        if not has_any:
            continue
        # The upper half of the product depends on all bits of the owner.
        slot = (np.uint64(owners[row]) * np.uint64(GOLDEN_RATIO)) >> np.uint64(32) & mask
        while slots[slot] >= 0 and known_owners[slots[slot]] != owners[row]:
            slot = (slot + np.uint64(1)) & mask
        place = slots[slot]
        if place < 0:
            if size == known_owners.size:
                return row, size
            place = size
            slots[slot] = size
            known_owners[size] = owners[row]
            totals[size] = 0
            size += 1
        for order in range(numbers.shape[1]):
            totals[place, order] += numbers[row, order]
    return owners.size, size
