"""Marks of sentences are no words: nobody discovers one by itself."""

import numpy as np
import pyarrow as pa
import pytest

from bayesgram.mechanisms.discovery import discover
from bayesgram.privacy.budget import Budget
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.tokenizer import Tokenizer


@pytest.mark.parametrize("rounds", [1, 10])
def test_the_beginning_of_a_sentence_is_not_discovered_by_itself(rounds):
    ngrams = pa.array(
        ["</s>", "old", "word", "<s> old", "old word", "word </s>"], pa.large_string()
    )
    vocabulary = Vocabulary(ngrams, np.array([9, 8, 7, 6, 5, 4]), 2, Tokenizer(boundaries=True))
    text = pa.table(
        {"user": [str(user) for user in range(400)], "text": ["old word. newish word"] * 400}
    )
    found = discover(text, vocabulary, Budget(10, 1e-6), rounds=rounds, seed=1).ngrams.to_pylist()
    assert "newish" in found
    assert "<s> newish" in found
    assert "<s>" not in found
