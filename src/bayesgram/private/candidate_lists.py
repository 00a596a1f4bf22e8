"""Several rounds: the lists of all users stay in memory, as every round asks them again with other weights.

In:  users' candidates.   Out: `CandidateLists`, which adds up what all users give, by any weights.
What one user adds in a round has an L2 norm of at most B = UNITS, exactly, in integers. It is a function of that user's
text, of public weights, and of noisy answers if there were any before.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from bayesgram.arrays import Floats, Ids, Integers, Singles
from bayesgram.cores import CORES, parallel_map
from bayesgram.errors import BayesgramError
from bayesgram.files import Records
from bayesgram.kernels import kernel, longest_row
from bayesgram.private.candidates import collect_candidates, enforce_bound, hash_windows
from bayesgram.private.clip import UNITS
from bayesgram.public.choosing import joined_tokens
from bayesgram.public.novelty import PublicText
from bayesgram.text.strings import StringTable
from bayesgram.text.window_index import WindowNumbers

PER_CANDIDATE = 40  # bytes that a candidate takes beside its place in a table, while rounds go on
PER_PAIR = 16  # bytes that a candidate takes in a user's list

Listed = tuple[Ids, Ids, Integers, Singles]  # which order, number there, how many each user has, log weights


@dataclass(frozen=True, eq=False, repr=False)
class CandidateLists:
    """Every user's list of candidates, and how much public text expects of each. Private.

    Candidates are in order of the hashes of their text, whoever wrote them.
    """

    starts: Integers  # user u has candidates[starts[u] : starts[u + 1]]
    candidates: Ids
    logs: Singles  # log weight of each candidate, by public text
    rows: Sequence[Ids]  # the tokens of candidates of each order, in order of appearance
    places: Integers  # of each candidate among all rows
    tokens: pa.LargeBinaryArray

    def __repr__(self) -> str:
        return "CandidateLists(private)"

    def sums(self, weights: Floats) -> Integers:
        """One round: every user gives what these weights make of the own list, with a norm of B at the most."""
        edges = np.linspace(0, self.starts.size - 1, CORES + 1).astype(np.int64)
        parts = parallel_map(
            lambda edge: round_sums(self.starts[edge[0] : edge[1] + 1], self.candidates, weights), pairwise(edges)
        )
        total: Integers = np.add.reduce(parts)
        return total

    def ngrams(self, chosen: Integers) -> pa.LargeStringArray:
        """The texts of some candidates."""
        ends = np.cumsum([len(rows) for rows in self.rows])
        places = self.places[chosen]
        texts = [pa.array([], pa.large_string())]
        order = np.argsort(places, kind="stable")
        for rows, first, last in zip(self.rows, [0, *ends[:-1]], ends, strict=True):
            mine = places[order][(places[order] >= first) & (places[order] < last)] - first
            texts.append(joined_tokens(rows[mine], self.tokens))
        back = np.empty(order.size, np.int64)
        back[order] = np.arange(order.size)
        return pa.concat_arrays(texts).take(pa.array(back))


def list_candidates(
    records: Iterable[Records], public: PublicText, orders: Sequence[int], most: int, *, memory: int
) -> CandidateLists:
    """All users' lists."""
    numbers: list[WindowNumbers] = []
    lists: list[Listed] = []
    with collect_candidates(records, public, orders, most, memory=memory // 2) as found:
        numbers += [WindowNumbers(order, tokens=len(found.tokens)) for order in orders]
        pairs = 0
        for kept in found.kept:
            own = np.empty(kept.which.size, np.int32)
            for number, known in enumerate(numbers):
                places, rows = kept.rows(number, known.order)
                own[places] = known.add(rows)
            lists.append((kept.which, own, kept.sizes, kept.logs.astype(np.float32)))
            pairs += own.size
            _check_room(numbers, pairs, memory)
        return _lists(numbers, lists, found.tokens)


def _check_room(numbers: Sequence[WindowNumbers], pairs: int, memory: int) -> None:
    """Refuse lists that memory does not hold, before anything is spent."""
    taken = sum(known.nbytes + PER_CANDIDATE * len(known) for known in numbers) + PER_PAIR * pairs
    if taken > memory:
        raise BayesgramError(
            "the candidates of all users are more than `memory` holds; give more, or ask in one round: rounds=1."
        )


def _lists(numbers: list[WindowNumbers], lists: list[Listed], tokens: StringTable) -> CandidateLists:
    """Candidates in order of the hashes of their texts. Takes the lists, so that memory does not hold them twice."""
    rows = [known.rows() for known in numbers]
    numbers.clear()
    first = np.cumsum([0, *map(len, rows)])
    hashes = np.concatenate([hash_windows(own, tokens.hashes()) for own in rows])
    places = np.argsort(hashes, kind="stable")
    ranks = np.empty(places.size, np.int32)
    ranks[places] = np.arange(places.size)
    starts = np.append(0, np.cumsum(np.concatenate([np.zeros(0, np.int64), *(sizes for _, _, sizes, _ in lists)])))
    pairs, weights = np.empty(int(starts[-1]), np.int32), np.zeros(places.size, np.float32)
    at = pairs.size
    while lists:
        which, own, _, logs = lists.pop()
        at -= own.size
        pairs[at : at + own.size] = ranks[first[which] + own]
        weights[pairs[at : at + own.size]] = logs
    return CandidateLists(starts, pairs, weights, rows, places, tokens.strings())


@kernel
def round_sums(starts: Integers, candidates: Ids, weights: Floats) -> Integers:
    """Σ over users of what they give: weights over their norm, in units, Σ units² ≤ B² for each."""
    total = np.zeros(weights.size, np.int64)
    units = np.empty(longest_row(starts), np.int64)
    for user in range(starts.size - 1):
        first, size = starts[user], starts[user + 1] - starts[user]
        squares = 0.0
        for at in range(first, first + size):
            squares += weights[candidates[at]] * weights[candidates[at]]
        if squares == 0.0:
            continue
        scale = UNITS / np.sqrt(squares)
        for at in range(size):
            units[at] = np.int64(weights[candidates[first + at]] * scale)
        enforce_bound(units[:size])
        for at in range(size):
            total[candidates[first + at]] += units[at]
    return total
