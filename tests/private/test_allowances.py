"""Allowances: what users may contribute to a series, against slow references in exact arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.privacy.constants import ACTIVITY_CLASSES, ACTIVITY_EDGES, TOTAL_UNITS
from bayesgram.privacy.pacing import activity_classes, pace
from bayesgram.private import allowances
from bayesgram.private.allowances import (
    FULL_RELEASE,
    Allowances,
    AllowedCounts,
    hash_ids,
    norm_limits,
    query_costs,
    read_user_ids,
    share_steps,
)
from bayesgram.private.clipping import (
    MAX_WITHHELD,
    UNITS,
    ClippedWordsSpec,
    Coordinates,
    clipped_mass_sum,
    clipped_sum,
)
from bayesgram.private.counts_on_disk import open_counts
from bayesgram.private.norm_histogram import HistogramSpec, norm_histogram_sum
from bayesgram.private.order_counts import select_order
from helpers import reference_paper
from helpers.hypothesis_profiles import examples
from helpers.strategies import matrices

KEY = bytes(range(32))
shares = st.one_of(st.sampled_from([1.0, 0.5, 1 / 3, 0.03, 0.01]), st.floats(1e-6, 1))
lefts = st.one_of(st.sampled_from([0, 1, FULL_RELEASE]), st.integers(0, FULL_RELEASE))


def ids(*names):
    return [pa.array([name.encode() for name in names], pa.large_binary())]


def test_ids_of_other_arrow_types_are_the_same_users():
    for type_ in (pa.string(), pa.binary(), pa.large_string()):
        names = pa.array(["ann", "bob", "bé", ""]).cast(type_)
        known = pa.array(["ann", "bob", "bé", ""]).cast(pa.large_binary())
        assert [half.tolist() for half in hash_ids([names], KEY)] == [
            half.tolist() for half in hash_ids([known], KEY)
        ]


# --- Costs and limits ---


@given(st.lists(st.integers(0, UNITS**2), min_size=1, max_size=5), shares)
def test_a_cost_is_the_exact_one_rounded_up(squares, share):
    costs = query_costs(np.array(squares), share_steps(share))
    for square, cost in zip(squares, costs.tolist(), strict=True):
        exact = Fraction(share) * square / UNITS**2 * FULL_RELEASE
        # Both roundings go up, each by less than one step.
        assert exact <= cost <= exact + Fraction(square * FULL_RELEASE, UNITS**2 << 20) + 3


@given(st.lists(lefts, min_size=1, max_size=5), shares)
def test_the_limit_is_the_largest_norm_that_is_paid_for(left, share):
    steps = share_steps(share)
    limits = norm_limits(np.array(left), steps)
    assert (limits <= UNITS).all()
    assert (query_costs(limits * limits, steps) <= np.array(left)).all()
    wider = np.minimum(limits + 2**12, UNITS)
    costs = query_costs(wider * wider, steps)
    assert ((costs > np.array(left)) | (wider == UNITS) | (limits > wider - 2**12)).all()


def test_a_user_of_a_full_allowance_is_not_limited():
    assert norm_limits(np.array([FULL_RELEASE]), share_steps(1.0)) == UNITS
    assert norm_limits(np.array([0]), share_steps(1.0)) == 0


def test_shares_beyond_a_release_are_no_shares():
    for share in (0.0, -0.1, 1.1):
        with pytest.raises(AssertionError):
            share_steps(share)


# --- Sums that keep to allowances ---


def make_queries(columns, order):
    """The three kinds of sums, with hostile shapes."""
    words = np.full((columns, order + 1), -1, np.int32)
    words[:, :order] = columns + np.arange(columns)[:, None] % 2
    words[:, order] = columns + 2
    shape = np.linspace(0.3, 2, columns + 3)
    plain = Coordinates(shape, words)
    withheld = Coordinates(
        np.append(shape, np.repeat((5.0, 4.0), ACTIVITY_CLASSES)),
        words,
        total=columns + 2,
        withheld=columns + 3,
    )
    histogram = HistogramSpec(
        edges=2.0 ** np.arange(-2, 5),
        largest=np.arange(1.0, 9.0),
        sources=np.arange(columns, dtype=np.int32) % 3 - 1,
        source_count=2,
    )
    clipped_words = ClippedWordsSpec(np.array([1.0, 0.5]), words[:, :1] - np.int32(columns), 1.5)
    return {
        "histogram": lambda counts: norm_histogram_sum(counts, plain, histogram),
        "clipped mass": lambda counts: clipped_mass_sum(
            counts, plain, clipped_words, clip_norm=1.0
        ),
        "counts": lambda counts: clipped_sum(counts, withheld, clip_norm=2.0),
    }


def contributions(matrix, compute, limits, activity):
    """What each user adds to a sum, by leaving everybody else out."""
    sums = []
    for user in range(len(matrix)):
        one = reference_paper.make_user_counts(matrix[user : user + 1])
        squares = np.zeros(1, np.int64)
        own = slice(user, user + 1)
        sums.append(compute(allowances._MeteredCounts(one, limits[own], squares, activity[own])))
        assert sum(int(k) ** 2 for k in sums[-1]) == squares[0]
    return sums


@examples(60)
@given(matrices(users=(1, 5), largest=900), st.data())
def test_no_user_contributes_more_than_their_limit_to_any_sum(matrix, data):
    counts = reference_paper.make_user_counts(matrix)
    left = np.array(data.draw(st.lists(lefts, min_size=len(matrix), max_size=len(matrix))))
    limits = norm_limits(left, share_steps(1.0))
    activity = np.arange(len(matrix), dtype=np.int32) % ACTIVITY_CLASSES
    for compute in make_queries(matrix.shape[1], 2).values():
        squares = np.zeros(len(matrix), np.int64)
        exact = compute(allowances._MeteredCounts(counts, limits, squares, activity))
        alone = contributions(matrix, compute, limits, activity)
        assert np.array_equal(exact, np.sum(alone, axis=0))  # nobody's depends on others
        for user, z in enumerate(alone):
            assert sum(int(k) ** 2 for k in z) == squares[user] <= int(limits[user]) ** 2


@examples(60)
@given(matrices(users=(1, 4), largest=900), st.data())
def test_all_queries_of_a_release_cost_a_user_no_more_than_was_allowed(matrix, data):
    """The line of the proof: Σ share·‖z‖²/B² ≤ what was allowed, in exact arithmetic."""
    counts = reference_paper.make_user_counts(matrix)
    allowed = np.array(data.draw(st.lists(lefts, min_size=len(matrix), max_size=len(matrix))))
    activity = np.arange(len(matrix), dtype=np.int32) % ACTIVITY_CLASSES
    metered = AllowedCounts(counts, allowed.copy(), activity)
    queries = make_queries(matrix.shape[1], 2)
    weights = data.draw(st.lists(st.integers(1, 9), min_size=3, max_size=3))
    parts = [weight / sum(weights) for weight in weights]
    exact_costs = [Fraction(0)] * len(matrix)
    for index, compute in enumerate(queries.values()):
        left = sum(parts[index:])
        limits = []

        def spy(view, compute=compute, limits=limits):
            limits.append(view.limits)
            return compute(view)

        metered.metered_sum(spy, share=parts[index], share_left=left)
        for user, z in enumerate(contributions(matrix, compute, limits[0], activity)):
            square = sum(int(k) ** 2 for k in z)
            exact_costs[user] += Fraction(parts[index]) * square / UNITS**2
    for cost, most, unused in zip(exact_costs, allowed, metered.left, strict=True):
        assert cost * FULL_RELEASE <= int(most - unused) <= int(most)


def test_without_limits_sums_are_those_of_other_releases_bit_for_bit():
    rng = np.random.default_rng(5)
    matrix = rng.poisson(2.0, (40, 6)) * rng.integers(1, 50, (40, 1))
    counts = reference_paper.make_user_counts(matrix)
    for name, compute in make_queries(6, 2).items():
        allowed = AllowedCounts(counts, np.full(40, FULL_RELEASE))
        exact = allowed.metered_sum(compute, share=0.3, share_left=1.0)
        assert np.array_equal(exact, compute(counts)), name


def test_queries_share_what_is_left_evenly():
    counts = reference_paper.make_user_counts(np.array([[9, 9, 9]]))
    compute = make_queries(3, 2)["counts"]
    full = compute(counts)
    for share_left in (1.0, 0.5, 0.03):
        metered = AllowedCounts(counts, np.array([FULL_RELEASE // 10]))
        scaled = metered.metered_sum(compute, share=0.03, share_left=share_left)[:6]
        part = min(math.sqrt(0.1 / share_left), 1.0)
        assert np.linalg.norm(scaled) <= (part + 1e-6) * np.linalg.norm(full)
        assert np.linalg.norm(scaled) >= 0.9 * part * np.linalg.norm(full[:6])


def test_the_histogram_has_users_where_clipping_treats_them_alike():
    """A user with half of the norm is in the bin of twice the norm, as half of a user.

    Clipping at any Λ keeps of both the same part: min(1, Λ/norm).
    """
    compute = make_queries(3, 2)["histogram"]
    small = reference_paper.make_user_counts(np.array([[0, 4, 0]]))
    large = reference_paper.make_user_counts(np.array([[0, 8, 0]]))
    bins = 8
    unlimited = compute(large)
    squares = np.zeros(1, np.int64)
    limits = np.array([UNITS // 2])
    classes = np.zeros(1, np.int32)
    limited = compute(allowances._MeteredCounts(small, limits, squares, classes))
    assert np.flatnonzero(limited[:bins]) == np.flatnonzero(unlimited[:bins])
    assert limited[:bins].sum() == pytest.approx(unlimited[:bins].sum() / 2, rel=1e-6)
    # What they wrote is counted in full: 4 of what users of this bin write at the most.
    place = bins + int(np.flatnonzero(unlimited[:bins])[0])
    assert limited[place] == pytest.approx(TOTAL_UNITS * min(4 / (place - bins + 1), 0.5), rel=1e-6)


def test_a_user_who_may_contribute_nothing_is_in_no_bin():
    compute = make_queries(3, 2)["histogram"]
    counts = reference_paper.make_user_counts(np.array([[4, 1, 0]]))
    squares = np.ones(1, np.int64)
    nothing = np.zeros(1, np.int64)
    classes = np.zeros(1, np.int32)
    assert not compute(allowances._MeteredCounts(counts, nothing, squares, classes)).any()
    assert not squares.any()


def test_what_is_left_out_is_measured_up_to_nine_times_what_is_kept():
    """A user who may contribute a quarter of their norm: three times the kept total is withheld.

    It is measured by how often users write, and so is what is kept.
    """
    matrix = np.array([[400, 300, 500]])
    counts = reference_paper.make_user_counts(matrix)
    compute = make_queries(3, 2)["counts"]
    weights = 1 / np.append(np.linspace(0.3, 2, 6), np.repeat((5.0, 4.0), ACTIVITY_CLASSES))
    for activity in range(ACTIVITY_CLASSES):
        for part, ratio in ((1.0, 0.0), (0.25, 3.0), (0.05, MAX_WITHHELD)):
            limits = np.array([round(part * UNITS)])
            squares = np.zeros(1, np.int64)
            classes = np.array([activity], np.int32)
            metered = allowances._MeteredCounts(counts, limits, squares, classes)
            exact = compute(metered) / weights
            total, withheld, kept = np.split(exact[5:], [1, 1 + ACTIVITY_CLASSES])
            assert withheld[activity] == pytest.approx(ratio * total[0], rel=1e-3)
            assert kept[activity] == pytest.approx(total[0], rel=1e-6)
            assert np.count_nonzero(withheld) == bool(ratio)
            assert np.count_nonzero(kept) == 1
            assert math.sqrt(squares[0]) == pytest.approx(part * UNITS, rel=1e-6)


def test_orders_are_limited_and_charged_alike(tmp_path):
    """Users without n-grams of an order are left out of it: the others keep their own limits."""
    matrix = np.array([[5, 0, 0, 0], [0, 0, 7, 9], [3, 0, 8, 0], [0, 2, 0, 0]])
    counts = reference_paper.make_user_counts(matrix)
    allowed = np.array([FULL_RELEASE, FULL_RELEASE // 4, FULL_RELEASE // 100, 0])
    shape = Coordinates(np.ones(2), np.zeros((2, 0), np.int32))
    metered = AllowedCounts(counts, allowed.copy())
    for index in range(2):
        exact = select_order(metered, [2, 2], index).metered_sum(
            lambda some: clipped_sum(some, shape, clip_norm=1e-3),
            share=0.5,
            share_left=1.0 - index / 2,
        )
        expected = np.zeros(2)
        for row, most in zip(matrix, (1.0, 0.5, 0.1, 0.0), strict=True):
            part = row[2 * index : 2 * index + 2]
            expected += most * part / max(np.linalg.norm(part), 1)
        # Whoever wrote one order alone has more left for it.
        assert (exact / UNITS >= expected - 1e-5).all()
    left = metered.left
    assert left[0] == FULL_RELEASE // 2
    assert (left >= 0).all()
    assert left[3] == 0


def test_only_metered_sums_can_be_had():
    counts = reference_paper.make_user_counts(np.array([[1, 2]]))
    allowed = AllowedCounts(counts, np.array([FULL_RELEASE]))
    with pytest.raises(AssertionError, match="no allowance"):
        _ = allowed.totals
    assert repr(allowed) == "AllowedCounts(private, over 2 n-grams)"


def test_a_sum_that_breaks_a_limit_is_never_handed_out():
    counts = reference_paper.make_user_counts(np.array([[1, 2]]))
    allowed = AllowedCounts(counts, np.array([FULL_RELEASE // 4]))

    def too_much(view):
        view.squares[:] = UNITS**2
        return np.zeros(1, np.int64)

    with pytest.raises(AssertionError, match="more than their limit"):
        allowed.metered_sum(too_much, share=0.5, share_left=1.0)


# --- What users have used ---


def test_a_user_is_found_again_among_others_in_any_order():
    state = Allowances(KEY)
    state, places = state.with_users(ids("ann", "bob", "cid"))
    state = state.charge(places, np.array([5, 7, 11]))
    state, places = state.with_users(ids("dan", "cid", "ann"))
    assert state.used[places].tolist() == [0, 11, 5]
    assert state.active[places].tolist() == [0, 1, 1]
    state = state.charge(places, np.array([1, 2, 3]))
    state, places = state.with_users(ids("ann", "bob", "cid", "dan"))
    assert state.used[places].tolist() == [8, 7, 13, 1]
    assert state.active[places].tolist() == [2, 1, 2, 1]


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8), max_size=6))
def test_what_users_have_used_is_that_of_a_dictionary(weeks):
    state, expected = Allowances(KEY), {}
    for number, names in enumerate(weeks):
        state, places = state.with_users(ids(*names))
        assert state.used[places].tolist() == [expected.get(name, 0) for name in names]
        costs = [1000 * number + ord(name) for name in names]
        state = state.charge(places, np.array(costs, np.int64))
        for name, cost in zip(names, costs, strict=True):
            expected[name] = expected.get(name, 0) + cost
    assert state.high.size == len(expected)
    assert (np.diff(state.high.astype(object)) > 0).all()


def test_the_same_place_for_everybody_whoever_else_is_there():
    alone, place = Allowances(KEY).with_users(ids("ann"))
    among, places = Allowances(KEY).with_users(ids(*map(str, range(50)), "ann"))
    assert (alone.high[place[0]], alone.low[place[0]]) == (
        among.high[places[-1]],
        among.low[places[-1]],
    )


def test_hashes_have_128_bits_and_depend_on_the_key():
    import hashlib

    high, low = hash_ids(ids("ann", "bob"), KEY)
    for name, halves in zip((b"ann", b"bob"), zip(high, low, strict=True), strict=True):
        digest = hashlib.blake2b(name, key=KEY, digest_size=16).digest()
        assert np.array(halves, "<u8").tobytes() == digest
    other_high, other_low = hash_ids(ids("ann"), bytes(32))
    assert (other_high[0], other_low[0]) != (high[0], low[0])


def test_equal_upper_halves_are_told_apart_by_the_lower_ones(monkeypatch):
    known = {b"ann": (7, 3), b"bob": (7, 1), b"cid": (5, 9), b"dan": (7, 2)}

    def fake(batches, key):
        pairs = [known[name] for batch in batches for name in batch.to_pylist()]
        return tuple(np.array(half, np.uint64) for half in zip(*pairs, strict=True))

    monkeypatch.setattr(allowances, "hash_ids", fake)
    state, places = Allowances(KEY).with_users(ids("ann", "bob", "cid"))
    state = state.charge(places, np.array([1, 2, 3]))
    state, places = state.with_users(ids("dan", "bob", "ann", "cid"))
    assert state.used[places].tolist() == [0, 2, 1, 3]
    known[b"eve"] = known[b"ann"]
    with pytest.raises(BayesgramError, match="have one hash"):
        state.with_users(ids("ann", "eve"))


known_hashes = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3)), unique=True, max_size=12
).map(sorted)


@given(known_hashes, known_hashes)
def test_merged_hashes_are_those_of_a_set(first, second):
    """Halves are few, so that many are equal."""
    columns = [
        allowances._read_only(np.array([pair[half] for pair in pairs], np.uint64))
        for pairs in (first, second)
        for half in (0, 1)
    ]
    high, low, places, new_places = allowances._merge_hashes(*columns)
    merged = list(zip(high.tolist(), low.tolist(), strict=True))
    assert merged == sorted({*first, *second})
    assert [merged[place] for place in places] == first
    assert [merged[place] for place in new_places] == second


def test_counts_of_more_users_than_were_charged_are_refused():
    counts = reference_paper.make_user_counts(np.ones((3, 2), int))
    allowed = AllowedCounts(counts, np.full(2, FULL_RELEASE))
    with pytest.raises(AssertionError, match="more users than"):
        allowed.metered_sum(lambda metered: metered.totals, share=1.0, share_left=1.0)


def test_a_file_of_allowances_comes_back_and_a_damaged_one_does_not(tmp_path):
    state, places = Allowances(KEY).with_users(ids("ann", "bob"))
    state = state.charge(places, np.array([5, 7]))
    file = tmp_path / "allowances.arrow"
    state.write(file, "t1")
    again = Allowances.read(file, "t1", KEY)
    for name in ("high", "low", "used", "active"):
        assert np.array_equal(getattr(again, name), getattr(state, name))
    with pytest.raises(BayesgramError, match="missing or damaged"):
        Allowances.read(file, "t2", KEY)
    with pytest.raises(BayesgramError, match="missing or damaged"):
        Allowances.read(file, "t1", bytes(32))  # the key of another series
    content = file.read_bytes()
    used = np.array([5, 7], "<i8")
    assert content.count(used.tobytes()) + content.count(used[::-1].tobytes()) == 1
    less = content.replace(used.tobytes(), np.array([5, 6], "<i8").tobytes())
    less = less.replace(used[::-1].tobytes(), np.array([6, 5], "<i8").tobytes())
    for damaged in (less, content[:-9], b"", content.replace(b"used", b"uses")):
        file.write_bytes(damaged)
        with pytest.raises(BayesgramError, match="missing or damaged"):
            Allowances.read(file, "t1", KEY)
    assert "ann" not in repr(state)
    assert b"ann" not in content


def test_users_are_numbered_as_they_are_read(tmp_path):
    rng = np.random.default_rng(3)
    matrix = rng.integers(1, 4, (200, 5))
    counts = reference_paper.make_user_counts(matrix, [f"user {i}" for i in range(200)])
    table = pa.table(
        {
            "user": [f"user {i}" for i in range(200) for _ in range(5)],
            "ngram": np.tile(np.arange(5, dtype=np.int32), 200),
            "count": matrix.ravel().astype(np.int32),
        }
    )
    import pyarrow.parquet as pq

    pq.write_table(table, tmp_path / "counts.parquet", row_group_size=37)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bayesgram.private.counts_on_disk.BLOCK_ROWS", 60)
        stored = open_counts(tmp_path / "counts.parquet", vocabulary_size=5)
        for some in (counts, stored):
            names = [name.decode() for batch in read_user_ids(some) for name in batch.to_pylist()]
            assert sorted(names) == sorted(f"user {i}" for i in range(200))
            # Only one user may contribute: exactly that user's counts come out.
            for wanted in (0, 57, 199):
                left = np.zeros(200, np.int64)
                left[names.index(f"user {wanted}")] = FULL_RELEASE
                exact = AllowedCounts(some, left).metered_sum(
                    lambda view: clipped_sum(
                        view,
                        Coordinates(np.ones(5), np.zeros((5, 0), np.int32)),
                        clip_norm=100.0,
                    ),
                    share=1.0,
                    share_left=1.0,
                )
                assert np.allclose(exact * 100 / UNITS, matrix[wanted], atol=1e-5)


def test_counts_elsewhere_have_no_ids_to_ask_for():
    class Remote(AllowedCounts):
        pass

    remote = Remote(reference_paper.make_user_counts(np.array([[1]])), np.zeros(1, np.int64))
    with pytest.raises(UsageError, match="Spark can't make one"):
        list(read_user_ids(remote))


# --- Pacing ---


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=9))
def test_nobody_may_use_more_than_is_left_and_only_their_own_past_counts(pasts):
    used = np.array([used * FULL_RELEASE // 7 for used, _ in pasts])
    active = np.array([active for _, active in pasts], np.int32)
    settings = {"number": 30, "releases": 52, "full_releases": 8}
    paced = pace(used, active, **settings)
    assert (paced >= 0).all()
    assert (paced <= FULL_RELEASE).all()
    assert (paced <= np.maximum(8 * FULL_RELEASE - used, 0)).all()
    for user in range(len(pasts)):
        alone = pace(used[user : user + 1], active[user : user + 1], **settings)
        assert alone[0] == paced[user]
        own_class = activity_classes(active[user : user + 1], 30)
        assert own_class[0] == activity_classes(active, 30)[user]


def test_a_class_of_users_is_that_of_the_share_of_releases_to_expect_them_in():
    for number in (1, 2, 10, 52):
        active = np.arange(number)
        share = (active + 0.05) / (number - 0.5)
        classes = activity_classes(active.astype(np.int32), number)
        assert classes.tolist() == [sum(value > edge for edge in ACTIVITY_EDGES) for value in share]


def test_who_writes_in_every_release_is_scaled_down_early_and_never_left_out():
    used, active = np.zeros(1, np.int64), np.zeros(1, np.int32)
    paced = []
    for number in range(1, 53):
        most = pace(used, active, number=number, releases=52, full_releases=8)
        paced.append(most[0] / FULL_RELEASE)
        used += most
        active += 1
    assert paced[0] == 1.0
    assert min(paced) > 0.1
    assert max(paced[3:]) < 0.2
    assert used[0] <= 8 * FULL_RELEASE
    assert used[0] > 0.999 * 8 * FULL_RELEASE


def test_who_writes_seldom_is_never_scaled_down():
    used, active = np.zeros(1, np.int64), np.zeros(1, np.int32)
    for number in range(1, 53):
        if number % 13:
            continue
        assert pace(used, active, number=number, releases=52, full_releases=8) == FULL_RELEASE
        used += FULL_RELEASE
        active += 1
