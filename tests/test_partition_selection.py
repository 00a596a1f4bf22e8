"""The peers of benchmarks/discovery.py: that each is as private as it says, and that all see what
`discover` sees.
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.io import read_records
from bayesgram.privacy.accounting import delta_bound
from bayesgram.private.candidates import list_candidates
from bayesgram.public.candidate_weights import PublicTextModel
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.tokenizer import Tokenizer
from helpers import discovery_data
from helpers.hypothesis_profiles import examples

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
SIZE = 12
USERS = st.lists(st.sets(st.integers(0, SIZE - 1), min_size=1, max_size=8), min_size=1, max_size=12)
WORDS = st.lists(st.sampled_from(["sun", "rain", "wind", "snow", "frost"]), min_size=1, max_size=30)


@pytest.fixture(scope="module", autouse=True)
def importable():
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path.remove(str(BENCHMARKS))


def lists_of(users):
    from partition_selection import Lists

    starts = np.cumsum([0, *map(len, users)])
    return Lists(starts, np.array([each for own in users for each in sorted(own)], np.int32), SIZE)


@given(st.floats(0.1, 10), st.sampled_from([1e-9, 1e-7, 1e-3]))
def test_noise_takes_delta_and_no_more(epsilon, delta):
    from partition_selection import noise_multiplier

    sigma = noise_multiplier(epsilon, delta)
    assert delta_bound(epsilon, 1 / sigma**2, 0.0) == pytest.approx(delta, rel=1e-6)


@given(USERS, st.integers(0, 11), st.floats(1, 4))
def test_a_user_moves_sums_by_one_at_the_most(users, gone, level):
    from partition_selection import adaptive_sums, descent

    degree, others = 8, [own for at, own in enumerate(users) if at != gone % len(users)]
    whole, part = lists_of(users), lists_of(others)
    policy = [
        descent(lists.starts, lists.candidates, np.arange(len(lists.lengths)), SIZE, level)
        for lists in (whole, part)
    ]
    assert np.linalg.norm(policy[0] - policy[1]) <= 1 + 1e-9
    alike = [lists.sums(1 / np.sqrt(np.maximum(lists.lengths, 1))) for lists in (whole, part)]
    assert np.linalg.norm(alike[0] - alike[1]) <= 1 + 1e-9
    adaptive = [adaptive_sums(lists, level, degree) for lists in (whole, part)]
    assert np.linalg.norm(adaptive[0] - adaptive[1]) <= np.sqrt(1 + 1 / (4 * degree)) + 1e-9


@given(USERS, st.integers(1, 5), st.integers(0, 99))
def test_users_take_part_with_so_many_candidates_of_their_own(users, most, seed):
    lists = lists_of(users)
    kept = lists.cut(np.random.default_rng(seed).random(lists.candidates.size), most)
    for own, length, found in zip(
        users, kept.lengths, np.split(kept.candidates, kept.starts[1:-1]), strict=True
    ):
        assert length == min(len(own), most) == len(set(found.tolist()) & own)


def test_what_was_found_is_left_out():
    lists = lists_of([{1, 2, 3}, {2}, {3, 4}]).without(np.array([2, 4]))
    assert lists.candidates.tolist() == [1, 3, 3]
    assert lists.starts.tolist() == [0, 2, 2, 3]


@examples(12)
@given(st.lists(WORDS, min_size=1, max_size=5), st.integers(1, 9))
def test_lists_are_those_of_a_discovery(texts, most):
    from discovery import read_people

    ngrams = pa.array(
        ["rain", "sun", "wind", "rain wind", "sun rain", "rain sun wind"], pa.large_string()
    )
    public = PublicTextModel.from_vocabulary(
        Vocabulary(ngrams, np.array([9, 7, 5, 4, 3, 2]), 3, Tokenizer())
    )
    table = pa.table(
        {"user": [str(at) for at in range(len(texts))], "text": [" ".join(text) for text in texts]}
    )
    people = read_people(table, public, [1, 2, 3], "user")
    ours = people.heaviest(people.weights(), most)
    assert len(ours.numbers) == len(ours.lists)

    def summed(lists):
        ngrams, logs = discovery_data.candidate_texts_and_logs(lists)
        return dict(
            zip(ngrams, discovery_data.sum_weights(lists, np.exp(logs)).tolist(), strict=True)
        )

    records = read_records(table, text_column="text", user_column="user")
    with list_candidates(records, public, [1, 2, 3], 1000, memory=1 << 30) as everything:
        _, logs = discovery_data.candidate_texts_and_logs(everything)
    all_weights_differ = len(set(np.round(logs, 6).tolist())) == len(logs)
    records = read_records(table, text_column="text", user_column="user")
    with list_candidates(records, public, [1, 2, 3], most, memory=1 << 30) as theirs:
        assert sum(summed(ours.lists).values()) == pytest.approx(sum(summed(theirs).values()))
        # Which of several equally heavy candidates are listed is for each to say.
        if all_weights_differ:
            assert summed(ours.lists) == pytest.approx(summed(theirs), rel=1e-5)
    windows = sum(
        len(text) - order + 1 for text in texts for order in (1, 2, 3) if len(text) >= order
    )
    listed = set(ngrams.to_pylist())
    old = sum(
        " ".join(text[at : at + order]) in listed
        for text in texts
        for order in (1, 2, 3)
        for at in range(len(text) - order + 1)
    )
    assert people.occurrences.sum() == windows - old
