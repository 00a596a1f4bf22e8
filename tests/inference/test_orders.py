"""Orders together: what shorter n-grams have learnt moves the prior of longer ones."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesgram.inference.model import infer
from bayesgram.inference.noisy_counts import NoisyCounts, PublicNgrams
from bayesgram.inference.orders import Lifts, infer_orders
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.tokenizer import Tokenizer

WORDS = st.sampled_from(["a", "b", "ü", "d."])
NGRAMS = st.lists(WORDS, min_size=1, max_size=4).map(" ".join)


def slow_lift(known, ngram):
    """By the formula, one n-gram at a time."""
    if ngram in known:
        return known[ngram]
    words = ngram.split(" ")
    if len(words) == 1:
        return 0.0
    shorter = [" ".join(part) for part in (words[:-1], words[1:], words[1:-1])]
    return (
        slow_lift(known, shorter[0])
        + slow_lift(known, shorter[1])
        - (slow_lift(known, shorter[2]) if shorter[2] else 0)
    )


@settings(deadline=None)
@given(
    st.dictionaries(NGRAMS, st.floats(-2, 2)),
    st.lists(st.lists(WORDS, min_size=4, max_size=4).map(" ".join)),
)
def test_lifts_are_put_together_as_a_markov_chain_would(known, asked):
    lifts = Lifts()
    for order in {ngram.count(" ") + 1 for ngram in known}:
        mine = [ngram for ngram in known if ngram.count(" ") == order - 1]
        lifts.add(
            order, pa.array(mine, pa.large_string()), np.array([known[ngram] for ngram in mine])
        )
    found = lifts.find(pa.array(asked, pa.large_string()), 4)
    assert found.tolist() == pytest.approx([slow_lift(known, ngram) for ngram in asked])


def test_a_word_alone_has_no_expected_lift():
    assert Lifts().predict(pa.array(["a", "b"], pa.large_string()), 1).tolist() == [0, 0]


def two_orders(*, related=True, noise=60.0, seed=0, size=1500, words=120):
    """Words, and pairs of them; people who like a word like its pairs, or not."""
    chance = np.random.default_rng(seed)
    names = np.array([f"w{number:03}" for number in range(words)])
    pairs = np.unique(chance.zipf(1.3, (size * 4, 2)).clip(1, words) - 1, axis=0)
    pairs = pairs[chance.permutation(len(pairs))[:size]]
    likes = chance.normal(0, 1, words)
    public_words = 1 / np.arange(1, words + 1)
    public_pairs = (public_words[pairs[:, 0]] * public_words[pairs[:, 1]]) * np.exp(
        chance.normal(0, 0.5, len(pairs))
    )
    private_words = public_words * np.exp(likes)
    tastes = likes if related else chance.normal(0, 1, words)
    private_pairs = public_pairs * np.exp(
        tastes[pairs].sum(axis=1) + chance.normal(0, 0.2, len(pairs))
    )
    order = np.argsort([f"{names[one]} {names[two]}" for one, two in pairs])
    pairs, public_pairs, private_pairs = pairs[order], public_pairs[order], private_pairs[order]
    ngrams = [*names, *(f"{names[one]} {names[two]}" for one, two in pairs)]
    counts = np.concatenate(
        [1e6 * each / each.sum() for each in (public_words, public_pairs)]
    ).astype(np.int64)
    vocabulary = Vocabulary(pa.array(ngrams, pa.large_string()), counts, 2, Tokenizer("whitespace"))
    truths = [each / each.sum() for each in (private_words, private_pairs)]
    measured = []
    for truth, doubt in zip(truths, (noise / 10, noise), strict=True):
        noisy = 1e4 * truth + doubt * chance.standard_normal(truth.size)
        total = 1e4 + 5 * doubt * chance.standard_normal()
        measured.append(NoisyCounts(noisy, np.full(truth.size, doubt), total, 5 * doubt))
    return measured, [part for _, part in vocabulary.by_order], truths


def kl(truth, theta):
    return float((truth * np.log(truth / theta)).sum())


@pytest.mark.parametrize("noise", [20.0, 60.0, 300.0])
@pytest.mark.parametrize("seed", range(3))
def test_words_tell_of_pairs(noise, seed):
    measured, parts, truths = two_orders(noise=noise, seed=seed)
    together = infer_orders(measured, parts)
    alone = infer(measured[1], PublicNgrams.of(parts[1]))
    assert kl(truths[1], together[1].theta) < 0.9 * kl(truths[1], alone.theta)


@pytest.mark.parametrize("seed", range(3))
def test_words_that_tell_nothing_of_pairs_do_little_harm(seed):
    """Where words say nothing of pairs, and pairs are seen, words cost little: KL at most 15% more."""
    measured, parts, truths = two_orders(related=False, noise=20.0, seed=seed)
    together = infer_orders(measured, parts)
    alone = infer(measured[1], PublicNgrams.of(parts[1]))
    assert kl(truths[1], together[1].theta) < 1.15 * kl(truths[1], alone.theta)


def test_pairs_that_noise_hides_follow_their_words():
    """Hardly anything was measured of pairs, and they are known better than from public text alone."""
    measured, parts, truths = two_orders(noise=60.0)
    hidden = NoisyCounts(np.zeros_like(measured[1].counts), 1e6 * measured[1].noise, 0.0, 1e9)
    found = infer_orders([measured[0], hidden], parts)[1]
    assert found.model == "public"
    assert kl(truths[1], found.theta) < 0.7 * kl(truths[1], parts[1].prior)


def test_one_order_is_inferred_as_before():
    measured, parts, _ = two_orders()
    alone = infer(measured[0], PublicNgrams.of(parts[0]))
    assert infer_orders(measured[:1], parts[:1])[0].theta.tolist() == alone.theta.tolist()
