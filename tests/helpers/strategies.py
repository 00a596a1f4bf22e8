"""Hostile inputs for hypothesis."""

import numpy as np
from hypothesis import strategies as st


@st.composite
def matrices(draw, *, users=(0, 6), ngrams=(1, 6), largest=4):
    """Small dense counts with many zeros, equal rows and heavy users."""
    rows = draw(st.integers(*users))
    columns = draw(st.integers(*ngrams))
    entry = st.sampled_from([0, 0, 0, 1, 1, 2, largest])
    return np.array(
        draw(st.lists(entry, min_size=rows * columns, max_size=rows * columns)), np.int64
    ).reshape(rows, columns)
