"""The peer of benchmarks/dp_sgd.py: its rows of text, and, where torch is installed, that DP-SGD is
what it says.
"""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(scope="module", autouse=True)
def importable():
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path.remove(str(BENCHMARKS))


def stream_of(texts, end):
    words = [word for text in texts for sentence in text for word in [*sentence, end]]
    ends = np.cumsum([sum(len(sentence) + 1 for sentence in text) for text in texts])
    return np.array(words, np.uint16), ends


@given(
    st.lists(
        st.lists(st.lists(st.integers(0, 8), max_size=9), min_size=1, max_size=3),
        min_size=1,
        max_size=6,
    )
)
def test_rows_hold_every_word_once_and_keep_sentences_apart(texts):
    from dp_sgd import rows_of

    length, end = 4, 9
    stream, ends = stream_of(texts, end)
    targets, sentences = rows_of(stream, end, length)
    assert targets[targets >= 0].tolist() == stream.tolist()
    for row, inside in zip(targets, sentences, strict=True):
        for at in np.flatnonzero(row[:-1] == end):
            assert inside[at] != inside[at + 1]
    posts, _ = rows_of(stream, end, length, ends=ends)
    for row, last, first in zip(posts, ends, [0, *ends[:-1]], strict=True):
        assert row[row >= 0].tolist() == stream[first:last][:length].tolist()


@pytest.fixture(scope="module")
def learner(importable):
    torch = pytest.importorskip("torch")
    from transformer import Learner, Size

    torch.manual_seed(5)
    return Learner(11, Size(8, 2, 2))


TARGETS = np.array([[1, 2, 9, 3, 9], [4, 9, -1, -1, -1], [10, 10, 10, 9, -1]])
SENTENCES = np.array([[1, 1, 1, 2, 2], [3, 3, 0, 0, 0], [4, 4, 4, 4, 0]])


@pytest.mark.parametrize("which", ["all", "blocks", "biases"])
def test_the_sum_of_gradients_is_of_each_row_clipped(learner, which):
    import torch
    from torch.nn import functional
    from transformer import learns

    learner.model.eval()
    named = dict(learner.model.named_parameters())
    own = {name: value.detach() for name, value in named.items() if learns(name, which)}
    fixed = {name: value.detach() for name, value in named.items() if name not in own}
    total = {name: torch.zeros_like(value) for name, value in own.items()}
    rows, inside = torch.tensor(TARGETS), torch.tensor(SENTENCES)
    learner._add_clipped(total, own, fixed, rows, inside, 0.5)
    expected = {name: torch.zeros_like(value) for name, value in own.items()}
    for row, number in zip(rows, inside, strict=True):
        learner.model.zero_grad()
        functional.cross_entropy(
            learner.model(row[None], number[None])[0], row, ignore_index=-1
        ).backward()
        norm = torch.sqrt(sum((named[name].grad ** 2).sum() for name in own))
        for name in own:
            expected[name] += named[name].grad * min(1.0, 0.5 / float(norm))
    for name, value in expected.items():
        assert torch.allclose(total[name], value, atol=1e-6), name


def test_a_word_is_not_seen_before_it_is_predicted_nor_another_sentence(learner):
    import torch

    learner.model.eval()
    changed = TARGETS.copy()
    changed[0, 1] = 7
    with torch.no_grad():
        one, other = (
            learner.model(torch.tensor(each), torch.tensor(SENTENCES))
            for each in (TARGETS, changed)
        )
    same = [torch.allclose(one[0, at], other[0, at]) for at in range(5)]
    assert same == [True, True, False, True, True]


def test_the_saved_network_says_the_same_as_a_scorer(learner, tmp_path):
    import torch
    from transformer import TransformerScorer

    learner.save(tmp_path / "public.pt")
    words = [f"w{number}" for number in range(9)] + ["</s>", "<unk>"]
    scorer = TransformerScorer(words, tmp_path / "public.pt")
    logs = scorer.log_probabilities([[], ["w1"], ["w1", "w2"], ["odd"]])
    with torch.no_grad():
        whole = torch.log_softmax(
            learner.model(torch.tensor(TARGETS), torch.tensor(SENTENCES)), dim=-1
        ).numpy()
    assert logs[:3] == pytest.approx(whole[0, :3], abs=1e-5)
    assert logs[3] == pytest.approx(whole[2, 1], abs=1e-5)
