"""N-grams that are sorted in runs come in the same order as when they are sorted at once."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.lm.ngram_counts import NgramSorter
from helpers.hypothesis_profiles import examples


@pytest.fixture(scope="module")
def folder():
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@given(
    st.integers(1, 6),
    st.sampled_from([1, 2, 50_003, 1 << 21, (1 << 31) - 1]),  # keys of one to three numbers
    st.integers(0, 400),
    st.sampled_from([1, 7, 50, 1000]),
    st.integers(0, 100),
)
@examples(60)
def test_runs_are_merged(folder, order, words, size, rows, seed):
    rng = np.random.default_rng(seed)
    ngrams = np.unique(rng.integers(0, min(words, 10**9), (size, order)), axis=0).astype(np.int32)
    if words > 100 and len(ngrams):
        ngrams[-1, :] = words - 1  # as large as they get; still the last
        ngrams = np.unique(ngrams, axis=0)
    counts = rng.integers(1, 1 << 40, len(ngrams))
    shuffled = rng.permutation(len(ngrams))
    ordered = NgramSorter(
        Path(tempfile.mkdtemp(dir=folder)), order, word_count=words, max_rows=rows
    )
    for part in np.array_split(shuffled, 4):
        ordered.add(ngrams[part], counts[part])
    found = list(ordered.merge())
    assert np.array_equal(np.concatenate([ngrams[:0], *(part for part, _ in found)]), ngrams)
    assert np.array_equal(np.concatenate([counts[:0], *(part for _, part in found)]), counts)
    assert all(len(part) <= rows for part, _ in found)
