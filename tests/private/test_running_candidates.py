"""Candidates of a series on disk and in memory, and what users add to them, against plain Python."""

from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.errors import BayesgramError
from bayesgram.privacy.constants import UNITS
from bayesgram.private.candidates import limited_units
from bayesgram.private.running_candidates import RunningCandidates

KEY = bytes(range(32))
TEXTS = st.lists(st.text(max_size=8), unique=True, max_size=12).filter(
    lambda texts: all(text.isprintable() for text in texts)
)


def texts(ngrams):
    return pa.array(ngrams, pa.large_string())


def values(candidates):
    columns = (candidates.ngrams.to_pylist(), candidates.sums, candidates.found_in)
    return {ngram: (int(total), int(run)) for ngram, total, run in zip(*columns, strict=True)}


@given(known=TEXTS, ngrams=TEXTS, seed=st.integers(0, 2**32 - 1))
def test_texts_are_merged_as_in_a_dictionary(known, ngrams, seed):
    rng = np.random.default_rng(seed)
    before, _, is_new = RunningCandidates(KEY).with_ngrams(texts(known))
    assert is_new.all()
    before.sums[:] = rng.integers(-(2**40), 2**40, len(before))
    before.found_in[:] = rng.integers(0, 3, len(before))
    merged, places, is_new = before.with_ngrams(texts(ngrams))
    assert values(merged) == {**dict.fromkeys(ngrams, (0, 0)), **values(before)}
    assert merged.ngrams.take(pa.array(places)).to_pylist() == ngrams
    new = merged.ngrams.filter(pa.array(is_new)).to_pylist()
    assert set(new) == set(ngrams) - set(known)
    found = {ngram for ngram, (_, run) in values(merged).items() if run}
    assert set(merged.found.ngrams.to_pylist()) == found


@given(first=TEXTS, second=TEXTS)
def test_the_order_says_nothing_about_who_came_when(first, second):
    """Noise is drawn in this order."""
    one, _, _ = RunningCandidates(KEY).with_ngrams(texts(first))
    one, _, _ = one.with_ngrams(texts([text for text in second if text not in first]))
    both = [*second, *(text for text in first if text not in second)]
    other, _, _ = RunningCandidates(KEY).with_ngrams(texts(both))
    assert one.ngrams.to_pylist() == other.ngrams.to_pylist()
    assert (one.high[1:] >= one.high[:-1]).all()


def test_a_text_that_comes_twice_in_one_run_is_noticed():
    with pytest.raises(AssertionError, match="twice"):
        RunningCandidates(KEY).with_ngrams(texts(["a", "b", "a"]))


def test_a_file_is_read_as_it_was_written_and_any_damage_is_noticed(tmp_path):
    path = tmp_path / "candidates.arrow"
    candidates, _, _ = RunningCandidates(KEY).with_ngrams(texts(["zog", "blip", "größe x"]))
    candidates.sums[:] = [5, -(2**50), 7]
    candidates.found_in[:] = [0, 2, 0]
    candidates.write(path, "token")
    again = RunningCandidates.read(path, "token", KEY)
    assert values(again) == values(candidates)
    assert repr(again) == "RunningCandidates(private)"
    for token, key in (("other", KEY), ("token", bytes(32))):
        with pytest.raises(BayesgramError, match="missing or damaged"):
            RunningCandidates.read(path, token, key)
    content = path.read_bytes()
    for place in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        with suppress(BayesgramError):  # or it was padding, which says nothing
            assert values(RunningCandidates.read(path, "token", KEY)) == values(candidates)
    path.unlink()
    with pytest.raises(BayesgramError, match="missing or damaged"):
        RunningCandidates.read(path, "token", KEY)


def test_an_empty_file_of_candidates_is_one(tmp_path):
    path = tmp_path / "candidates.arrow"
    RunningCandidates(KEY).write(path, "token")
    assert len(RunningCandidates.read(path, "token", KEY)) == 0


LISTS = st.lists(
    st.tuples(
        st.lists(st.floats(0, 1e6, allow_subnormal=False), max_size=6),
        st.one_of(st.integers(0, UNITS), st.sampled_from([0, 1, UNITS])),
    ),
    max_size=6,
)


@given(LISTS)
def test_nobody_contributes_more_than_their_limit_and_nobody_else_matters(users):
    sizes = np.array([len(weights) for weights, _ in users], np.int64)
    limits = np.array([limit for _, limit in users], np.int64)
    weights = np.array([weight for chosen, _ in users for weight in chosen], np.float64)
    units, squares = limited_units(sizes, weights, limits)
    first = 0
    for (chosen, limit), square in zip(users, squares.tolist(), strict=True):
        own = units[first : first + len(chosen)].tolist()
        first += len(chosen)
        assert sum(unit * unit for unit in own) == square <= limit * limit
        norm = float(np.sqrt(np.sum(np.square(chosen))))
        for unit, weight in zip(own, chosen, strict=True):
            assert unit >= 0
            assert abs(unit - (weight * limit / norm if norm else 0.0)) <= 2
        alone, _ = limited_units(
            np.array([len(chosen)], np.int64),
            np.array(chosen, np.float64),
            np.array([limit], np.int64),
        )
        assert alone.tolist() == own
