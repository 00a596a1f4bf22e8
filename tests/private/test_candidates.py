"""What people write that no list has: lists and sums against plain Python, on hostile input."""

import math
from collections import Counter
from itertools import pairwise, permutations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.private import candidates, streaming
from bayesgram.private.candidates import (
    ContributionBound,
    enforce_norm_bound,
    hash_windows,
    list_candidates,
    remove_dropped,
    round_units,
    select_heaviest,
    single_round_units,
    sum_candidates,
)
from bayesgram.private.clipping import UNITS
from bayesgram.public import candidate_weights as public_weights
from bayesgram.public.candidate_weights import (
    NGRAM_WEIGHTS,
    SpellingModel,
    segment_sums,
    write_log_weights,
)
from bayesgram.text import tokenizer as tokens_of_text
from bayesgram.text.tokenizer import buffers
from helpers.discovery_data import (
    PUBLIC,
    candidate_texts_and_logs,
    candidates_by_user,
    make_records,
)
from helpers.hypothesis_profiles import examples

WORDS = 6
HASHES = np.random.default_rng(3).integers(0, 2**64, WORDS, np.uint64)
SMALLEST = int(0.02 * UNITS)
B_SQUARED = UNITS**2
LOGS = [-math.inf, -700.0, -511.9, -7.0, -7.0, -3.0, -2.9999999, 0.0, 0.0, 0.69, 300.0, 600.0]


# The heaviest windows of a user, each once


@st.composite
def streams(draw):
    """Users' tokens (below 0: the end of a sentence), and a weight for every window by its text; −∞: listed."""
    users = draw(st.lists(st.lists(st.integers(-1, WORDS - 1), max_size=25), max_size=4))
    orders = draw(st.sampled_from([[1], [2], [1, 2], [1, 2, 3], [3]]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    starts = np.append(0, np.cumsum([len(user) for user in users])).astype(np.int64)
    tokens = np.array([token for user in users for token in user], np.int32)
    table, logs = {}, np.full((len(orders), tokens.size), -np.inf)
    for number, order in enumerate(orders):
        for end in range(order - 1, tokens.size):
            window = tuple(tokens[end - order + 1 : end + 1].tolist())
            if min(window) >= 0:
                logs[number, end] = table.setdefault(window, float(rng.choice(LOGS)))
    return users, np.array(orders, np.int64), starts, tokens, logs, table


def level(log):
    return int(min(max((log + 512) * 2**22, 0.0), 2.0**32 - 1))


def expected(user, orders, table, most):
    """Distinct windows of one user alone, the heaviest first, of equal ones the one with the higher hash."""
    found = []
    for order in orders.tolist():
        windows = {tuple(user[at : at + order]) for at in range(len(user) - order + 1)}
        kept = [window for window in windows if table.get(window, -math.inf) > -math.inf]
        rows = np.array(kept, np.int32).reshape(-1, order)
        found += [
            (level(table[w]), int(h) >> 32, w)
            for w, h in zip(kept, hash_windows(rows, HASHES), strict=True)
        ]
    return [window for *_, window in sorted(found, reverse=True)][:most]


@examples(150)
@given(streams(), st.integers(1, 12))
def test_of_each_user_the_heaviest_windows_are_kept_each_once(stream, most):
    users, orders, starts, tokens, logs, table = stream
    which, ends, sizes = select_heaviest(starts, tokens, orders, logs, HASHES, most)
    edges = np.append(0, np.cumsum(sizes))
    assert edges[-1] == which.size == ends.size
    for user, text in enumerate(users):
        mine = range(edges[user], edges[user + 1])
        kept = [
            tuple(tokens[ends[at] - orders[which[at]] + 1 : ends[at] + 1].tolist()) for at in mine
        ]
        assert kept == expected(text, orders, table, most)
        assert all(starts[user] <= ends[at] < starts[user + 1] for at in mine)


MANY_WORDS = 60
MANY_HASHES = np.random.default_rng(4).integers(0, 2**64, MANY_WORDS, np.uint64)


@pytest.mark.parametrize("most", [1, 2, 3, 7, 12])
@pytest.mark.parametrize("order", ["heaviest first", "lightest first", "alike"])
def test_what_is_known_still_counts_once_after_the_lightest_were_dropped(most, order):
    """There is room for a few times `most`; what stays when it is full is written again, before and after others."""
    words = list(range(MANY_WORDS))
    user = [*words, *words[::-1], *words]
    weight = {"heaviest first": -1.0, "lightest first": 1.0, "alike": 0.0}[order]
    logs = np.array([[weight * word for word in user]])
    _, ends, sizes = select_heaviest(
        np.array([0, len(user)]), np.array(user, np.int32), np.array([1]), logs, MANY_HASHES, most
    )
    heavy_user_norm = sorted(
        words, key=lambda word: (weight * word, int(MANY_HASHES_OF_WINDOWS[word])), reverse=True
    )
    assert [user[end] for end in ends] == heavy_user_norm[:most]
    assert sizes.tolist() == [most]


MANY_HASHES_OF_WINDOWS = hash_windows(np.arange(MANY_WORDS, dtype=np.int32)[:, None], MANY_HASHES)


# What a user gives: Σ z² ≤ B² in integers, nothing below the smallest


def ordered(sizes, values):
    """Log weights of users' lists, the heaviest first in each."""
    edges = np.append(0, np.cumsum(sizes))
    return np.concatenate([np.zeros(0), *(np.sort(values[a:b])[::-1] for a, b in pairwise(edges))])


@st.composite
def lists_of_logs(draw):
    sizes = draw(st.lists(st.sampled_from([0, 1, 2, 3, 17, 100]), max_size=4))
    rng, width = (
        np.random.default_rng(draw(st.integers(0, 2**32))),
        draw(st.sampled_from([0.0, 1e-9, 0.5, 7.0, 500.0])),
    )
    return np.array(sizes, np.int64), ordered(sizes, rng.random(sum(sizes)) * width - width)


@examples(150)
@given(lists_of_logs())
def test_in_one_round_nobody_gives_more_than_b_nor_less_than_the_smallest(given_lists):
    sizes, logs = given_lists
    units, first = single_round_units(sizes, logs, SMALLEST), 0
    assert units.size == logs.size
    for size in sizes.tolist():
        z, own = units[first : first + size].tolist(), logs[first : first + size]
        first += size
        kept = sum(value > 0 for value in z)
        assert sum(value * value for value in z) <= B_SQUARED
        assert all(value > SMALLEST for value in z[:kept])
        assert not any(z[kept:])  # the heaviest are kept
        if not size:
            continue
        shares = np.exp(own - own[0])
        norm = math.sqrt((shares[:kept] ** 2).sum())
        assert np.abs(np.array(z[:kept]) - shares[:kept] / norm * UNITS).max() <= 2
        if kept < size:  # one more would be too small
            assert (
                shares[kept] / math.sqrt((shares[: kept + 1] ** 2).sum()) * UNITS
                <= 1.0001 * SMALLEST
            )


@st.composite
def rounds(draw):
    """Users' lists of candidates and weights of these: 0, equal, tiny, of very different sizes."""
    size = draw(st.integers(1, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    lists = [
        rng.permutation(size)[: rng.integers(0, size + 1)] for _ in range(draw(st.integers(0, 5)))
    ]
    weights = draw(
        st.sampled_from(
            [
                np.ones(size),
                np.zeros(size),
                np.full(size, math.exp(-300)),
                np.exp(rng.normal(0, 1, size)),
                np.exp(rng.choice([-300.0, -20.0, 0.0], size)),
                np.where(rng.random(size) < 0.5, 0.0, rng.random(size)),
            ]
        )
    )
    return lists, weights


@examples(150)
@given(rounds())
def test_in_every_round_users_add_vectors_of_norm_b_at_most_and_of_nobody_else(round_of):
    lists, weights = round_of
    sizes = np.array([len(own) for own in lists], np.int64)
    pairs = np.concatenate([np.zeros(0, np.int64), *lists])
    together = round_units(sizes, weights[pairs])
    alone = [round_units(np.array([len(own)]), weights[own]) for own in lists]
    assert together.tolist() == [unit for z in alone for unit in z.tolist()]
    for z, own in zip(alone, lists, strict=True):
        assert sum(value * value for value in z.tolist()) <= B_SQUARED
        assert (z >= 0).all()
        norm = math.sqrt((weights[own] ** 2).sum())
        if norm:
            assert np.abs(z - weights[own] / norm * UNITS).max() <= 2


@examples(150)
@given(rounds())
def test_what_users_give_does_not_depend_on_candidates_that_were_dropped(round_of):
    """Those of weight 0 leave the lists: others get the same, to the last unit."""
    lists, weights = round_of
    sizes = np.array([len(own) for own in lists], np.int64)
    pairs = np.concatenate([np.zeros(0, np.int64), *lists])
    left, candidates, own = remove_dropped(sizes, pairs, weights[pairs])
    stays = weights[pairs] > 0
    assert candidates.tolist() == pairs[stays].tolist()
    assert round_units(left, own).tolist() == round_units(sizes, weights[pairs])[stays].tolist()
    assert own.tolist() == weights[candidates].tolist()
    assert left.sum() == candidates.size


@given(st.lists(st.integers(1, UNITS), min_size=1, max_size=40))
def test_where_rounding_goes_over_the_bound_the_largest_units_give_way(values):
    norm = math.isqrt(sum(value**2 for value in values))
    units = np.array(
        [value * UNITS // norm + 1 for value in sorted(values)], np.int64
    )  # a little too much
    before = units.copy()
    enforce_norm_bound(units, UNITS)
    assert sum(int(unit) ** 2 for unit in units) <= B_SQUARED
    assert (units <= before).all()
    untouched = before < units.max()
    assert (units[untouched] == before[untouched]).all()


# Through text: neighbours, order, memory


ORDERS = [1, 2, 3]
SAID = st.sampled_from(
    ["the", "red", "fish", "zog", "blip", "xqzw9", "it", ".", "!", "ünï", "swims"]
)
rows = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob", "cy", "dee"]), st.lists(SAID, max_size=30).map(" ".join)
    ),
    max_size=12,
)


def listed(said, most=20, memory=1 << 28):
    """Every candidate's log weight, by its text, and every user's list of texts in its order."""
    with list_candidates(make_records(said), PUBLIC, ORDERS, most, memory=memory) as lists:
        texts, logs = candidate_texts_and_logs(lists)
        own = [[texts[at] for at in candidates] for candidates in candidates_by_user(lists)]
    return dict(zip(texts, logs.tolist(), strict=True)), own


def added(said, most=20, memory=1 << 28):
    found = sum_candidates(
        make_records(said), PUBLIC, ORDERS, ContributionBound(most, SMALLEST, 1), memory=memory
    )
    return Counter(dict(zip(found.ngrams.to_pylist(), found.sums.tolist(), strict=True)))


def windows(said):
    """A user's candidates in plain Python: windows of words within sentences that no list has."""
    known, found = set(PUBLIC.vocabulary.ngrams.to_pylist()), set()
    for text in said:
        for sentence in text.replace("!", ".").split("."):
            words = sentence.split()
            found |= {
                " ".join(words[at : at + n]) for n in ORDERS for at in range(len(words) - n + 1)
            }
    return found - known


@examples(40)
@given(rows)
def test_lists_are_those_of_plain_python(said):
    weights, lists = listed(said)
    users = {user: windows([text for own, text in said if own == user]) for user, _ in said}
    assert set(weights) <= set().union(*users.values())
    ngrams = pa.array(sorted(set().union(*users.values())), pa.large_string())
    logs = PUBLIC.log_probabilities(ngrams)
    orders = [len(ngram.split()) for ngram in ngrams.to_pylist()]
    public_weight = {
        ngram: float(NGRAM_WEIGHTS.log_weights(np.array([log]), order)[0])
        for ngram, log, order in zip(ngrams.to_pylist(), logs, orders, strict=True)
    }
    for ngram, weight in weights.items():
        assert weight == pytest.approx(public_weight[ngram], rel=1e-6)
    expected_lists = [
        sorted(own, key=public_weight.get, reverse=True)[:20] for own in users.values() if own
    ]
    got = sorted(sorted(round(public_weight[ngram], 5) for ngram in own) for own in lists if own)
    assert got == sorted(
        sorted(round(public_weight[ngram], 5) for ngram in own) for own in expected_lists
    )
    assert all(len(set(own)) == len(own) for own in lists)


@examples(40)
@given(
    rows,
    st.lists(st.lists(SAID, max_size=30).map(" ".join), max_size=3),
    st.integers(0, 12),
    st.integers(1, 30),
)
def test_a_user_who_is_added_changes_the_sums_by_what_that_user_adds_alone(said, texts, at, most):
    """In the first round by the sums of everybody, in later ones by any weights of candidates' texts."""
    mine = [("eve", text) for text in texts]
    more = [*said[:at], *mine, *said[at:]]
    with_eve, without, alone = added(more, most), added(said, most), added(mine, most)
    assert with_eve == without + alone
    assert sum(value**2 for value in alone.values()) <= B_SQUARED
    assert len(alone) <= most
    weights_with, lists_with = listed(more, most)
    weights, lists = listed(said, most)
    assert weights == {text: weight for text, weight in weights_with.items() if text in weights}
    assert sorted(filter(None, lists_with)) == sorted(
        filter(None, [*lists, *listed(mine, most)[1]])
    )


@examples(25)
@given(rows, st.randoms(use_true_random=False))
def test_sums_and_lists_don_t_depend_on_the_order_of_rows_or_on_memory(said, random):
    shuffled = random.sample(said, len(said))
    with pytest.MonkeyPatch.context() as patch:
        before = added(said), sorted(listed(said)[1])
        assert (added(shuffled), sorted(listed(shuffled)[1])) == before
        patch.setattr(streaming, "MIN_PENDING", 3)
        patch.setattr(candidates, "MIN_TABLE_BYTES", 1)
        patch.setattr(candidates, "MIN_BLOCK_CANDIDATES", 1)
        patch.setattr(candidates, "PAIRS_PER_CHUNK", 5)
        assert added(shuffled, memory=0) == before[0]
        assert sorted(listed(shuffled, memory=0)[1]) == before[1]
        assert list(listed(shuffled, memory=0)[0].items()) == list(
            listed(said)[0].items()
        )  # in the same order, too


@given(rows)
@examples(25)
def test_the_order_of_candidates_is_that_of_their_texts_whoever_wrote_them(said):
    renamed = [(f"somebody {place % 3}", text) for place, (_, text) in enumerate(reversed(said))]
    for texts in (listed(said, most=10**6)[0], listed(renamed, most=10**6)[0]):
        with list_candidates(make_records(said), PUBLIC, ORDERS, 10**6, memory=1 << 28) as ours:
            assert list(texts) == ours.ngrams(np.arange(len(ours))).to_pylist()
    assert list(added(said, most=10**6)) == sorted(
        added(said, most=10**6), key=lambda text: (text.count(" "), text)
    )


def test_a_candidate_counts_once_however_often_it_is_written():
    once, often = added([("ann", "zog")]), added([("ann", " . ".join(["zog"] * 5000))] * 3)
    assert once == often == {"zog": UNITS}


@pytest.mark.parametrize("most", [3, 20])
def test_who_writes_the_same_again_after_much_else_moves_no_sum_by_more(most):
    """A candidate that is listed twice would be given √2 times as much as a user has."""
    words = [f"zog{letter}{other}" for letter in "abcdefghijklmn" for other in "abcdefghij"]
    text = " . ".join([*words, *words[::-1]])
    sums = added([("ann", text)], most)
    assert sum(value**2 for value in sums.values()) <= B_SQUARED
    weights, lists = listed([("ann", text)], most)
    assert [len(own) for own in lists] == [len(weights)] == [most]


def test_sums_below_the_floor_are_dropped_and_those_at_it_are_not():
    said = [(f"user {i}", "zog") for i in range(3)] + [("ann", "blip")]
    for floor, found in (
        (UNITS, {"zog": 3 * UNITS, "blip": UNITS}),
        (UNITS + 1, {"zog": 3 * UNITS}),
    ):
        kept = sum_candidates(
            make_records(said), PUBLIC, [1], ContributionBound(20, SMALLEST, floor), memory=1 << 28
        )
        assert dict(zip(kept.ngrams.to_pylist(), kept.sums.tolist(), strict=True)) == found


def test_private_things_don_t_show_themselves():
    found = sum_candidates(
        make_records([("ann", "zog")]),
        PUBLIC,
        [1],
        ContributionBound(20, SMALLEST, 1),
        memory=1 << 28,
    )
    assert repr(found) == "Candidates(private)"
    with list_candidates(make_records([("ann", "zog")]), PUBLIC, [1], 20, memory=1 << 28) as lists:
        assert repr(lists) == "CandidateLists(private)"


@given(st.lists(st.integers(1, 5), max_size=9), st.integers(1, 4))
def test_what_waits_for_its_user_stays_in_the_order_in_which_it_was_read(sizes, cores):
    """Of two candidates that are alike in all else the first may be kept: so it must not move for what others wrote."""
    edges = np.append(0, np.cumsum(sizes)).astype(np.int32)
    parts = [
        (np.zeros(last - first, np.int32), np.arange(first, last, dtype=np.int32))
        for first, last in pairwise(edges)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streaming, "CORES", cores)
        _, _, partitioned = streaming._partition_parts(parts, np.zeros(1, np.uint64))
    assert partitioned.tolist() == list(range(edges[-1]))


# Public weights are functions of the text, to the last bit


@given(
    st.lists(st.floats(-1e6, 0), max_size=60), st.lists(st.floats(-1e6, 0), min_size=1, max_size=9)
)
def test_what_is_added_up_for_a_word_has_nothing_of_the_words_before(before, own):
    values = np.array(before + own)
    ends = np.array([len(before), len(values)])
    assert segment_sums(values, ends)[1] == segment_sums(np.array(own), np.array([len(own)]))[0]
    assert segment_sums(values, ends) == pytest.approx([sum(before), sum(own)])


@pytest.fixture(scope="module")
def weighed():
    """A text of some thousand tokens, what is known of any text, and its weights in one piece."""
    rng, tokens = np.random.default_rng(8), PUBLIC.new_token_table()
    new = pa.array([f"zog{at}".encode() for at in range(30)], pa.large_binary())
    tokens.add(*buffers(new))
    text = np.where(rng.random(3000) < 0.1, -1, rng.integers(0, len(tokens), 3000)).astype(np.int32)
    novelty = PUBLIC.candidate_weigher(tokens, ORDERS)
    return text, novelty, novelty.log_weights(text)


@pytest.mark.parametrize("size", [1, 2, 3, 64, 1000])
def test_weights_don_t_depend_on_the_pieces_in_which_text_is_weighed(weighed, size, monkeypatch):
    text, novelty, weights = weighed
    monkeypatch.setattr(public_weights, "BATCH_TOKENS", size)
    assert novelty.log_weights(text).tobytes() == weights.tobytes()


@pytest.mark.parametrize("size", [50, 1 << 15])
def test_weights_don_t_depend_on_what_others_wrote_before(weighed, size, monkeypatch):
    """In the same piece, in pieces before it, and in calls before it: a user's weights are those of the user alone."""
    text, novelty, weights = weighed
    own = np.append(np.int32(-1), text[2000:])  # a sentence begins here
    monkeypatch.setattr(public_weights, "BATCH_TOKENS", size)
    alone = novelty.log_weights(own)
    for others in (text[:0], text[:1], text[:700], text[:1999]):
        behind = novelty.log_weights(np.concatenate([others, own]))[:, others.size :]
        assert behind.tobytes() == alone.tobytes()
    assert novelty.log_weights(text).tobytes() == weights.tobytes()


@pytest.mark.compiled
def test_lists_don_t_depend_on_the_pieces_in_which_text_is_read(monkeypatch):
    rng = np.random.default_rng(5)
    words = np.array(
        [*(f"zog{at}" for at in range(40)), "the", "red", "fish", "in", "cold", "it", "."]
    )
    said = [(f"user {at % 50}", " ".join(rng.choice(words, 20))) for at in range(200)]
    before = listed(said), added(said)
    for module, name, size in (
        (public_weights, "BATCH_TOKENS", 16),
        (streaming, "PIECE_SIZE", 100),
        (tokens_of_text, "CHUNK_BYTES", 500),
        (streaming, "MIN_PENDING", 300),
    ):
        monkeypatch.setattr(module, name, size)
        assert (listed(said), added(said)) == before
        assert added(said, memory=0) == before[1]


@pytest.mark.compiled
def test_how_likely_a_spelling_is_does_not_depend_on_other_words():
    """Letters that are nearly certain have small logs, whose last digits a running sum of many words would lose."""
    rng = np.random.default_rng(1)

    def made(size, letters):
        return [
            b"qu" + bytes(rng.choice(list(letters), rng.integers(1, 12)).astype(np.uint8))
            for _ in range(size)
        ]

    spelling = SpellingModel.from_words(
        pa.array(sorted(set(made(40_000, b"aeioubcdfghlmnprstvwxyz"))), pa.large_binary())
    )
    words = made(25_000, b"abcdefghijkl")
    whole = spelling.log_probabilities(pa.array(words, pa.large_binary()))
    assert (whole[1:] == spelling.log_probabilities(pa.array(words[1:], pa.large_binary()))).all()


def test_exponentials_don_t_depend_on_their_place_in_an_array():
    """Where a candidate stands follows from what others wrote; its weight must not."""
    logs = np.random.default_rng(2).uniform(-300, 1, 1000)
    for first in range(17):
        for last in range(17):
            assert (
                np.exp(logs[first : logs.size - last]) == np.exp(logs)[first : logs.size - last]
            ).all()
    assert (np.array([np.exp(np.array([log]))[0] for log in logs]) == np.exp(logs)).all()


def test_compiled_weights_don_t_depend_on_their_place_either():
    """The kernels of a discovery that use Numba's `exp` and `log1p`: weights of candidates, and what a user adds."""
    steps = np.random.default_rng(3).uniform(-60, 0, (1, 400))

    def weights(some):
        found = np.zeros(some.shape[1])
        write_log_weights(
            np.ascontiguousarray(some),
            1,
            np.zeros(some.shape[1], np.bool_),
            found,
            0,
            NGRAM_WEIGHTS.likely,
            NGRAM_WEIGHTS.exponent,
            NGRAM_WEIGHTS.min_log_weight(1),
        )
        return found

    together = weights(steps)
    assert together.tolist() == NGRAM_WEIGHTS.log_weights(steps[0], 1).tolist()
    for first in range(17):
        assert weights(steps[:, first:]).tolist() == together[first:].tolist()
        assert weights(steps[:, : 400 - first]).tolist() == together[: 400 - first].tolist()
    lists = [
        np.sort(together[first : first + size])[::-1]
        for first, size in ((0, 1), (1, 7), (8, 100), (108, 33))
    ]
    alone = [single_round_units(np.array([some.size]), some.copy(), 1) for some in lists]
    for order in permutations(range(4)):
        sizes, logs = (
            np.array([lists[user].size for user in order]),
            np.concatenate([lists[user] for user in order]),
        )
        expected = np.concatenate([alone[user] for user in order])
        assert single_round_units(sizes, logs, 1).tolist() == expected.tolist()
