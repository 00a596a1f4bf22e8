"""Public weights: functions of a window alone, wherever it stands and whatever came before."""

import numpy as np
import pyarrow as pa
import pytest

from bayesgram.private.candidates import ContributionBound, list_candidates, sum_candidates
from bayesgram.private.clipping import UNITS
from bayesgram.public import candidate_weights
from bayesgram.public.candidate_weights import PublicTextModel
from bayesgram.text.ngram_tables import NARROW
from bayesgram.text.tokenizer import buffers
from helpers import discovery_data

SAID = [("ann", "the red fish likes hunter2. zog swims"), ("bob", "hunter2 and zog")]


@pytest.fixture
def public():
    return PublicTextModel.from_vocabulary(discovery_data.make_vocabulary())


@pytest.mark.parametrize("orders", [[1], [2], [3], [1, 3], [2, 3], [1, 2, 3]], ids=str)
def test_weights_don_t_depend_on_where_tokens_are_weighed_together(public, monkeypatch, orders):
    tokens, rng = public.new_token_table(), np.random.default_rng(5)
    tokens.add(*buffers(pa.array([b"zog", b"blip"], pa.large_binary())))
    stream = rng.integers(-1, len(tokens), 60).astype(np.int32)
    weights = public.candidate_weigher(tokens, orders)
    whole = weights.log_weights(stream)
    assert np.isfinite(whole).sum() > 5
    assert np.isinf(whole).sum() > 5
    for size in range(1, 8):
        monkeypatch.setattr(candidate_weights, "BATCH_TOKENS", size)
        assert weights.log_weights(stream).tobytes() == whole.tobytes(), size


@pytest.mark.parametrize("more_first", [False, True])
def test_what_is_listed_does_not_depend_on_how_many_words_another_text_has(public, more_first):
    """A task asks about texts of few words and of millions: keys are as wide as each needs."""
    words = pa.array([b"red", b"fish"], pa.large_binary())
    first, second = public.new_token_table().find(*buffers(words)).tolist()
    assert first > 0
    unlisted = first << NARROW | second  # what a key of NARROW bits would take for both of them
    few, many = len(public.new_token_table()), unlisted + 1
    for size in (many, few, many) if more_first else (few, many, few):
        index = public._index(2, size)
        assert index.marks(np.array([first, second, -1], np.int32)).tolist() == [False, True, False]
        if size == many:
            assert not index.marks(np.array([0, unlisted, -1], np.int32)).any()


def test_words_of_one_text_are_not_kept_for_the_next(public):
    known = public.new_token_table().strings().to_pylist()
    list_candidates(discovery_data.make_records(SAID), public, [1, 2], 20, memory=1 << 28)
    bound = ContributionBound(20, UNITS // 50, 1)
    sum_candidates(discovery_data.make_records(SAID), public, [1, 2], bound, memory=1 << 28)
    public.log_probabilities(pa.array(["zog swims"], pa.large_string()))
    assert b"hunter2" not in public.new_token_table().strings().to_pylist()
    assert public.new_token_table().strings().to_pylist() == known
    assert public.to_broadcast().new_token_table().strings().to_pylist() == known
