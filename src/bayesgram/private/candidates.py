"""What people write that no list has: of each user the heaviest candidates.

In:  users' text as token numbers, the public weight of every window.   Out: the candidates of each user.
Of a user every candidate counts once, however often it was written, and only the `most` heaviest do (of equal ones by a
hash of their text). What a user gives is a function of that user's text and of public weights: not of the order of the
text, nor of the numbers that tokens happen to have. `candidate_sums` adds it up in one round, `candidate_lists` keeps
it for several. Does not draw noise.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bayesgram.arrays import Bools, Floats, Hashes, Ids, Integers
from bayesgram.cores import CORES, streamed
from bayesgram.files import Records
from bayesgram.files.temporary import scratch_folder
from bayesgram.kernels import inlined, kernel, longest_row, mix
from bayesgram.private.clip import UNITS
from bayesgram.private.streaming import PIECE
from bayesgram.private.user_text import WholeUsers, read_user_text
from bayesgram.public.novelty import Novelty, PublicText
from bayesgram.text.strings import StringTable

BATCH_SIZE = 3  # pieces of text for each core whose candidates are found before they are taken
SPARE = 4  # times as many candidates of a user are gathered before the lightest are dropped


class Kept(NamedTuple):
    """The heaviest candidates of some users: user u has the next sizes[u] of them, heaviest first."""

    tokens: Ids
    which: Ids  # number of its order
    ends: Integers  # where its last token stands
    logs: Floats  # log weight
    sizes: Integers

    def rows(self, number: int, order: int, among: Bools | None = None) -> tuple[Integers, Ids]:
        """Where candidates of an order are, all or some of them, and their tokens."""
        wanted = self.which == number
        mine = np.flatnonzero(wanted if among is None else wanted & among)
        return mine, self.tokens[self.ends[mine][:, None] + np.arange(1 - order, 1)]


@dataclass(frozen=True, eq=False, repr=False)
class UserCandidates:
    """All users' candidates, to be gone through once. Private."""

    tokens: StringTable
    scratch: Path
    kept: Iterator[Kept]

    def __repr__(self) -> str:
        return "UserCandidates(private)"


@contextmanager
def collect_candidates(
    records: Iterable[Records],
    public: PublicText,
    orders: Sequence[int],
    most: int,
    *,
    memory: int,
    cores: int = CORES,
) -> Iterator[UserCandidates]:
    """Read everything, and find what each user has; `memory` is for text that waits."""
    with scratch_folder() as scratch:
        tokens, cut = public.numbered(), public.vocabulary.tokenizer
        text = read_user_text(records, cut, tokens, scratch, memory=memory, cores=cores)
        yield UserCandidates(tokens, scratch, _kept(text, public.novelty(tokens, orders), tokens.hashes(), most, cores))


def _kept(text: Iterable[WholeUsers], novelty: Novelty, hashes: Hashes, most: int, cores: int) -> Iterator[Kept]:
    """The heaviest candidates of all users, some users at a time. `hashes` are of the tokens' texts."""
    orders = np.array(novelty.orders, np.int64)

    def keep(users: WholeUsers) -> Kept:
        weights = novelty.weights(users.tokens)
        which, ends, sizes = heaviest(users.starts, users.tokens, orders, weights, hashes, most)
        return Kept(users.tokens, which, ends, weights[which, ends], sizes)

    return streamed(keep, text, size=lambda users: users.tokens.size, room=BATCH_SIZE * PIECE * cores, cores=cores)


@kernel
def heaviest(
    starts: Integers, tokens: Ids, orders: Integers, logs: Floats, hashes: Hashes, most: int
) -> tuple[Ids, Integers, Integers]:
    """Of each user the heaviest candidates, each once: which order, where they end; and how many each user has."""
    users = starts.size - 1
    longest = longest_row(starts)
    room = min(SPARE * most, longest * orders.size) + 1
    slots = 16
    while slots < 2 * room:
        slots *= 2
    table = np.zeros(slots, np.int32)
    places, keys, hashed = np.empty(room, np.int64), np.empty(room, np.uint64), np.empty(room, np.uint64)
    widest = np.int64(0)
    for user in range(users):
        widest += min(most, (starts[user + 1] - starts[user]) * orders.size)
    which, ends, sizes = np.empty(widest, np.int32), np.empty(widest, np.int64), np.zeros(users, np.int64)
    size = 0
    for user in range(users):
        first, last = starts[user], starts[user + 1]
        count = _collect(first, last, tokens, orders, logs, hashes, most, table, places, keys, hashed)
        for place in places[:count]:
            which[size], ends[size] = place // tokens.size, place % tokens.size
            size += 1
        sizes[user] = count
    return which[:size].copy(), ends[:size].copy(), sizes


@kernel
def _collect(
    first: int,
    last: int,
    tokens: Ids,
    orders: Integers,
    logs: Floats,
    hashes: Hashes,
    most: int,
    table: Ids,
    places: Integers,
    keys: Hashes,
    hashed: Hashes,
) -> int:
    """The heaviest candidates of a text: where they stand in `logs`; and how many there are.

    When there is no room for more, the lightest are dropped. Whatever is lighter than those that stay is passed over
    from then on, so it does not matter that it is forgotten.
    """
    count, lightest = 0, np.uint64(0)
    table[:] = 0
    for number in range(orders.size):
        order = orders[number]
        for end in range(first + order - 1, last):
            log = logs[number, end]
            if log == -np.inf or _level(log) < lightest >> np.uint64(32):
                continue
            whole = _hash_window(tokens, end, order, hashes)
            key = _level(log) << np.uint64(32) | whole >> np.uint64(32)
            slot = _slot(whole, number, end, order, tokens, table, places)
            if key < lightest or table[slot]:
                continue
            places[count], keys[count], hashed[count] = number * tokens.size + end, key, whole
            count += 1
            table[slot] = count
            if count == places.size:
                count = _drop_lightest(count, most, places, keys, hashed)
                lightest = keys[count - 1]
                _enter(count, tokens, orders, table, places, hashed)
    return _drop_lightest(count, most, places, keys, hashed)


@kernel
def _drop_lightest(count: int, most: int, places: Integers, keys: Hashes, hashed: Hashes) -> int:
    """Sort candidates, the heaviest first, and keep the first of them; how many."""
    order = np.argsort(keys[:count])[::-1].copy()
    for at in range(1, count):  # of equal keys, by the whole hash
        back = at
        while back and keys[order[back]] == keys[order[back - 1]] and hashed[order[back]] > hashed[order[back - 1]]:
            order[back], order[back - 1] = order[back - 1], order[back]
            back -= 1
    kept = order[:most]
    places[: kept.size], keys[: kept.size], hashed[: kept.size] = places[kept], keys[kept], hashed[kept]
    return kept.size


@kernel
def _enter(count: int, tokens: Ids, orders: Integers, table: Ids, places: Integers, hashed: Hashes) -> None:
    """Write the table anew, for the candidates that are left."""
    table[:] = 0
    for at in range(count):
        number, end = places[at] // tokens.size, places[at] % tokens.size
        table[_slot(hashed[at], number, end, orders[number], tokens, table, places)] = at + 1


@inlined
def _slot(hashed: np.uint64, number: int, end: int, order: int, tokens: Ids, table: Ids, places: Integers) -> np.uint64:
    """Where a window is in the table, or the empty slot where it would be."""
    last = np.uint64(table.size - 1)
    slot = hashed & last
    while table[slot] and not _are_same(places[table[slot] - 1], number, end, order, tokens):
        slot = (slot + np.uint64(1)) & last
    return slot


@inlined
def _hash_window(tokens: Ids, end: int, order: int, hashes: Hashes) -> np.uint64:
    """A hash of the text of the window that ends here."""
    hashed = np.uint64(order)
    for at in range(end - order + 1, end + 1):
        hashed = mix(hashed ^ hashes[tokens[at]])
    return hashed


@kernel
def hash_windows(rows: Ids, hashes: Hashes) -> Hashes:
    """The hashes of the texts of windows."""
    found = np.empty(rows.shape[0], np.uint64)
    for row in range(rows.shape[0]):
        found[row] = _hash_window(rows[row], rows.shape[1] - 1, rows.shape[1], hashes)
    return found


@inlined
def _are_same(place: int, number: int, end: int, order: int, tokens: Ids) -> bool:
    """Whether the window at a place is the one of this order that ends here."""
    if place // tokens.size != number:
        return False
    other = place % tokens.size
    for back in range(order):
        if tokens[other - back] != tokens[end - back]:
            return False
    return True


@inlined
def _level(log: float) -> np.uint64:
    """Orders by weight, to 2⁻²². Logs are from −512 to 511."""
    return np.uint64(min(max((log + 512.0) * 4194304.0, 0.0), 4294967295.0))


@kernel
def enforce_bound(units: Integers) -> None:
    """Where rounding pushed Σ units² over B², the largest entries give way until it is not, in integers."""
    length = np.int64(0)
    for unit in units:
        length += unit * unit
    while length > UNITS * UNITS:
        largest = np.argmax(units)
        length -= 2 * units[largest] - 1
        units[largest] -= 1
