"""Another posterior from the same measurements: the same with the same vocabulary, sensible with another."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import bayesgram as bg
from bayesgram.errors import UsageError
from bayesgram.inference.chaining import restore_noisy_counts
from bayesgram.mechanisms.gaussian import Gaussian
from bayesgram.mechanisms.laplace import Laplace
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.mechanisms.publish import release
from bayesgram.privacy.budget import Budget
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.release import Release
from bayesgram.text.tokenizer import Tokenizer
from inference.test_measurement_files import SIZE, crowd, several, triples, words

BUDGET = Budget(1.0, 1e-6)


@pytest.fixture(scope="module")
def made():
    return release(crowd(triples()), triples(), Posterior(), BUDGET, seed=3)


@pytest.mark.parametrize("make", [words, triples, several])
def test_with_the_same_vocabulary_it_is_the_same_answer(make, tmp_path):
    vocabulary = make()
    release(crowd(vocabulary), vocabulary, Posterior(), BUDGET, seed=3).save(tmp_path / "out")
    given = Release.load(tmp_path / "out")
    again = bg.infer(tmp_path / "out", vocabulary)
    assert np.array_equal(again.probabilities, given.probabilities)
    assert np.array_equal(again.probability_std, given.probability_std)
    assert again.card.details["expected_counts"] == given.card.details["expected_counts"]
    again.save(tmp_path / "again")
    assert Release.load(tmp_path / "again").card.inferred["from"] == "out"


def test_the_order_of_the_n_grams_does_not_matter(made):
    backwards = triples().select(np.arange(SIZE)[::-1].copy())
    again = bg.infer(made, backwards)
    expected = dict(zip(made.ngrams.to_pylist(), made.probabilities.tolist(), strict=True))
    found = dict(zip(again.ngrams.to_pylist(), again.probabilities.tolist(), strict=True))
    assert found == pytest.approx(expected, rel=0.2)  # but for how the judging view is drawn


def test_the_card_keeps_what_was_spent_and_says_what_was_not(made):
    other = Vocabulary(triples().ngrams, np.arange(1, SIZE + 1), 3, Tokenizer())
    again = bg.infer(made, other)
    for name in (
        "epsilon",
        "delta",
        "seeded",
        "guarantee",
        "statement",
        "measured",
        "ledger",
        "mechanism",
    ):
        assert getattr(again.card, name) == getattr(made.card, name), name
    assert again.card.vocabulary["prior_fingerprint"] == other.prior_fingerprint
    assert again.card.inferred["measured"] == SIZE
    assert "nothing more was spent" in str(again.card)
    assert "seeded: not for publication" in str(again.card)


def test_the_card_keeps_the_unit_that_the_measurements_were_made_in():
    """Else (ε, δ) for a post would be promised to a person."""
    made = release(crowd(triples()), triples(), Posterior(), BUDGET, seed=3, unit="a post")
    again = bg.infer(made, Vocabulary(triples().ngrams, np.arange(1, SIZE + 1), 3, Tokenizer()))
    assert again.card.unit == made.card.unit == "a post"


def test_public_text_matters_where_noise_hides_people(made):
    """Another prior, another answer; a wrong one is overruled where counts are clear."""
    wrong = Vocabulary(triples().ngrams, np.arange(1, SIZE + 1), 3, Tokenizer())
    again = bg.infer(made, wrong)
    assert not np.allclose(again.probabilities, made.probabilities, rtol=0.01)
    ratios = again.probabilities / made.probabilities
    z = (again.probabilities - made.probabilities) / made.probability_std
    largest = np.argsort(-made.probabilities)[:5]
    assert (np.abs(z[largest]) < 2).all()
    assert (np.abs(np.log(ratios[largest])) < 0.5).all()


def grown():
    """Five n-grams more than were measured, two of them of words that nobody asked about."""
    more = ["w0 w0 w59", "w1 w1 w58", "w0 w1 w2", "x y z", "x x x"]
    ngrams = pa.concat_arrays([triples().ngrams, pa.array(more, pa.large_string())])
    counts = np.concatenate([triples().counts, [100, 100, 100, 100, 50]])
    return Vocabulary(ngrams, counts, 3, Tokenizer())


def test_n_grams_that_were_not_measured_stand_as_public_text_has_them(made):
    again = bg.infer(made, grown())
    assert again.probabilities.sum() == pytest.approx(1)
    assert again.card.inferred | {"from": ""} == again.card.inferred | {
        "from": "",
        "measured": SIZE,
        "not_measured": 5,
    }
    measured, rest = again.probabilities[:SIZE], again.probabilities[SIZE:]
    assert np.allclose(measured / measured.sum(), made.probabilities)
    assert rest[3] == pytest.approx(2 * rest[4], rel=0.05)  # 101 to 51, and no word lifts them
    assert np.array_equal(again.probability_std[SIZE:], rest)
    expected = again.card.details["expected_counts"]["3"]
    assert expected > made.card.details["expected_counts"]["3"]


def test_what_was_measured_and_is_not_asked_for_is_taken_out_of_totals_and_words(made):
    kept = made.measurements
    some = triples().select(np.arange(40))
    noisy = restore_noisy_counts(kept, some)
    _, counts, noise = kept.ngrams(3)
    total, doubt = kept.total(3)
    assert noisy.total == pytest.approx(total - counts[40:].sum())
    assert noisy.total_noise == pytest.approx(np.sqrt(doubt**2 + (noise[40:] ** 2).sum()))
    tokens = some.tokens.to_pylist()
    block = kept.block("word", 3)
    stated = dict(zip(block.texts.to_pylist(), block.counts.tolist(), strict=True))
    for at, word in enumerate(tokens):
        others = sum(
            float(count) * text.split().count(word)
            for text, count in zip(triples().ngrams.to_pylist()[40:], counts[40:], strict=True)
        )
        assert noisy.word_counts[at] == pytest.approx(stated[word] - others)
    again = bg.infer(made, some)
    assert again.card.inferred["ignored"] == SIZE - 40
    assert again.probabilities.sum() == pytest.approx(1)


def test_an_order_that_was_not_measured_follows_the_words_of_one_that_was(made):
    ngrams = pa.concat_arrays([pa.array(["w0", "w1", "new"], pa.large_string()), triples().ngrams])
    wider = Vocabulary(ngrams, np.concatenate([[10, 10, 10], triples().counts]), 3, Tokenizer())
    again = bg.infer(made, wider)
    assert again.probabilities[:3].sum() == pytest.approx(1)
    assert np.array_equal(again.probabilities[3:], made.probabilities)


def test_a_gaussian_release_becomes_a_posterior():
    gaussian = release(crowd(triples()), triples(), Gaussian(), BUDGET, seed=3)
    again = bg.infer(gaussian, triples())
    assert again.card.mechanism == "gaussian"
    assert again.probabilities.sum() == pytest.approx(1)
    assert (again.probability_std > 0).all()


def test_what_can_not_be_inferred_from_is_refused(made, tmp_path):
    laplace = release(crowd(triples()), triples(), Laplace(), Budget(1.0), seed=3)
    with pytest.raises(UsageError, match=r"keeps no noisy measurements \(mechanism laplace"):
        bg.infer(laplace, triples())
    with pytest.raises(UsageError, match="measured none of the 1 n-grams"):
        bg.infer(
            made, Vocabulary(pa.array(["q q q"], pa.large_string()), np.array([5]), 3, Tokenizer())
        )
    other = Vocabulary(triples().ngrams, triples().counts, 3, Tokenizer(lowercase=False))
    with pytest.raises(
        UsageError, match="was made with the tokenizer 'words', the vocabulary with"
    ):
        bg.infer(made, other)
    with pytest.raises(UsageError, match="not a release folder"):
        bg.infer(tmp_path, triples())
    old = replace(made, measurements=None)
    with pytest.raises(UsageError, match="keeps no noisy measurements"):
        bg.infer(old, triples())
