"""The door of `posterior`: what is measured, how far one user moves it, how much noise it gets."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bayesgram.audit.evaluation import kl_divergence
from bayesgram.errors import UsageError
from bayesgram.inference.design import (
    CLIP_NORMS,
    HISTOGRAM_SHARE,
    MAX_CLIPPED_WORDS,
    NORM_EDGES,
    ClippingPlan,
)
from bayesgram.inference.noisy_counts import PublicNgrams
from bayesgram.mechanisms.base import Randomness
from bayesgram.mechanisms.gaussian import Gaussian
from bayesgram.mechanisms.laplace import Laplace
from bayesgram.mechanisms.posterior import (
    OrderDesign,
    Posterior,
    QueryState,
    clipped_mass_query,
    counts_query,
)
from bayesgram.paper.algorithm_1 import Paper
from bayesgram.privacy.budget import Budget, Guarantee
from bayesgram.privacy.calibration import calibrate_gaussian
from bayesgram.privacy.noise import SeededNoise
from bayesgram.private.clipping import UNITS
from bayesgram.private.counts import UserCounts, count
from bayesgram.private.norm_histogram import USER_UNITS
from bayesgram.public.vocabulary import Vocabulary, public_distribution
from bayesgram.releases.card_sections import order_details
from bayesgram.synthetic.population import Population
from bayesgram.text.tokenizer import Tokenizer
from helpers import reference_paper
from helpers.hypothesis_profiles import examples
from helpers.recording_noise import (
    CLIPPING_PLANS,
    FirstAnswerNoise,
    fixed_clipping_plan,
    record_measurement,
    record_queries,
)
from helpers.strategies import matrices


def bigrams(size):
    ngrams = pa.array([f"w{i % 3} w{i}" for i in range(size)], pa.large_string())
    return Vocabulary(ngrams, np.arange(1, size + 1), 2, Tokenizer())


def without(matrix, user):
    names = [f"u{i}" for i in range(len(matrix)) if i != user]
    return reference_paper.make_user_counts(np.delete(matrix, user, axis=0), names)


def coordinates_of(vocabulary):
    """How many numbers may get noise. For each order: n-grams, words, the total, what is not
    listed, lost words and theirs, amounts."""
    sources = len(vocabulary.source_names) if len(vocabulary.source_names) > 1 else 0
    histogram = 2 * (NORM_EDGES.size + 1) + sources
    number = 0
    for _, part in vocabulary.by_order:
        words = part.word_ids[1]
        lost = min(words, MAX_CLIPPED_WORDS) + 1
        number += len(part) + (words if part.order > 1 else 0) + 2 + lost + histogram
    return number


def designs(vocabulary):
    return [OrderDesign(PublicNgrams.of(part)) for _, part in vocabulary.by_order]


def whole_of(vocabulary, budget):
    return calibrate_gaussian(budget, coordinates=coordinates_of(vocabulary), units=UNITS)


@examples(60)
@given(matrices(users=(1, 5), ngrams=(2, 6), largest=50), st.floats(0.3, 30))
def test_one_user_moves_the_measured_sum_by_at_most_its_units(matrix, clip_norm):
    vocabulary, mechanism, budget = (
        bigrams(matrix.shape[1]),
        Posterior(clip_norm),
        Budget(0.3, 1e-6),
    )
    [(law, whole, scale)], _, details = record_measurement(
        mechanism, reference_paper.make_user_counts(matrix), vocabulary, budget
    )
    assert (law, scale) == (
        "gaussian",
        whole_of(vocabulary, budget).multiplier_for_share(1.0) * UNITS,
    )  # once, for all of it
    assert order_details(details)["clip_norm_used"] == clip_norm
    for user in range(len(matrix)):
        [(_, less, same)], _, _ = record_measurement(
            mechanism, without(matrix, user), vocabulary, budget
        )
        assert same == scale
        assert sum(int(k) ** 2 for k in whole - less) <= UNITS**2


MIXED = ["w0", "w1", "w2", "w0 w1", "w1 w2", "w0 w1 w2", "w2 w1 w0"]


def mixed_orders():
    return Vocabulary(pa.array(MIXED, pa.large_string()), np.arange(7, 0, -1), 3, Tokenizer())


vocabularies = st.sampled_from(
    [mixed_orders(), bigrams(7), reference_paper.make_vocabulary(range(7, 0, -1))]
)
budgets = st.builds(Budget, st.floats(1e-3, 20), st.floats(1e-12, 1e-3))


@examples(60)
@given(
    vocabularies,
    st.sampled_from([None, *CLIPPING_PLANS.values()]),
    budgets,
    matrices(users=(0, 4), ngrams=(7, 7)),
)
def test_all_that_is_asked_shares_one_budget(vocabulary, choice, budget, matrix):
    """Exactly, in fractions, on every path; and hardly anything is left over."""
    with fixed_clipping_plan(choice):
        asked, _, details = record_measurement(
            Posterior(), reference_paper.make_user_counts(matrix), vocabulary, budget
        )
    assert [law for law, _, _ in asked] == ["gaussian"] * len(asked)
    whole = Fraction(whole_of(vocabulary, budget).multiplier)
    shares = [(Fraction(UNITS) / Fraction(scale)) ** 2 * whole**2 for _, _, scale in asked]
    assert 1 - Fraction(1, 10**12) < sum(shares) <= 1
    orders = len(vocabulary.by_order)
    assert float(shares[0]) == pytest.approx(HISTOGRAM_SHARE / orders)
    if choice is not None:
        queries = 3 if choice.clipped_mass_share else 2
        lost_share = choice.clipped_mass_share
        expected = [HISTOGRAM_SHARE, lost_share, 1 - HISTOGRAM_SHARE - lost_share]
        expected = [share / orders for share in expected if share]
        assert len(asked) == queries * orders
        assert [float(share) for share in shares] == pytest.approx(expected * orders)
        for _, part in vocabulary.by_order:
            assert ("lost_multiplier" in order_details(details, part.order)) == (queries == 3)
    assert sum(values.size for _, values, _ in asked) <= coordinates_of(vocabulary)


hostile_numbers = st.one_of(
    st.integers(-(2**62), 2**62), st.sampled_from([-UNITS, 0, UNITS, 1000 * UNITS, 2**62])
)


@examples(100)
@given(vocabularies, budgets, st.lists(hostile_numbers, min_size=1, max_size=80))
def test_whatever_the_amounts_say_what_is_asked_next_is_within_the_budget(
    vocabulary, budget, numbers
):
    """Noise can say anything: the choice is one that can be made, for no more than is left."""
    noise = FirstAnswerNoise(lambda size: np.resize(np.array(numbers, np.int64), size))
    counts = reference_paper.make_user_counts(np.ones((2, 7), np.int64))
    _, details = Posterior().measure(counts, vocabulary, budget, Randomness(noise, 1))
    whole = Fraction(whole_of(vocabulary, budget).multiplier)
    shares = [(Fraction(UNITS) / Fraction(scale)) ** 2 * whole**2 for _, _, scale in noise.asked]
    assert 1 - Fraction(1, 10**12) < sum(shares) <= 1
    for _, part in vocabulary.by_order:
        clip_norm = order_details(details, part.order)["clip_norm_used"]
        assert min(NORM_EDGES) <= clip_norm <= max(NORM_EDGES)


@examples(60)
@given(
    vocabularies,
    st.sampled_from(sorted(CLIPPING_PLANS)),
    matrices(users=(1, 4), ngrams=(7, 7), largest=50),
)
def test_one_user_moves_each_answer_by_at_most_its_units(vocabulary, name, matrix):
    """Amounts, lost words and counts, whichever way the mechanism goes on; and the scales do not move."""
    budget = Budget(0.3, 1e-6)
    with fixed_clipping_plan(CLIPPING_PLANS[name]):
        asked, _, _ = record_measurement(
            Posterior(), reference_paper.make_user_counts(matrix), vocabulary, budget
        )
        others = [
            record_measurement(Posterior(), without(matrix, user), vocabulary, budget)[0]
            for user in range(len(matrix))
        ]
    place, _ = vocabulary.by_order[0]
    wrote = matrix[:, place].sum(axis=1) > 0
    writers = wrote.sum() if len(vocabulary.by_order) > 1 else len(matrix)
    assert asked[0][1][: NORM_EDGES.size + 1].sum() == writers * USER_UNITS
    for other in others:
        assert [scale for _, _, scale in other] == [scale for _, _, scale in asked]
        for (_, whole, _), (_, less, _) in zip(asked, other, strict=True):
            assert sum(int(k) ** 2 for k in whole - less) <= UNITS**2


def with_unlisted(matrix):
    """Counts over `MIXED`, and of the n-grams of each of its three orders that are not listed."""
    names = pa.array([b"u%d" % user for user in range(len(matrix))], pa.large_binary())
    return UserCounts(names, *reference_paper.to_csr(matrix), 7, None, unlisted_size=3)


@examples(60)
@given(
    st.sampled_from(sorted(CLIPPING_PLANS)),
    matrices(users=(1, 3), ngrams=(10, 10), largest=2**31 - 1),
)
@example("counts", np.array([[1, 0, 0, 2, 0, 0, 1, 50, 50, 50]]))
def test_what_is_not_listed_is_clipped_with_the_n_grams_of_its_order(name, matrix):
    """Exactly, in integers: what one user moves, of listed and unlisted n-grams together."""
    vocabulary = mixed_orders()
    budget = Budget(0.3, 1e-6)

    def ask(rows):
        asked, _, _ = record_measurement(Posterior(), with_unlisted(rows), vocabulary, budget)
        return asked

    with fixed_clipping_plan(CLIPPING_PLANS[name]):
        asked = ask(matrix)
        others = [ask(np.delete(matrix, user, axis=0)) for user in range(len(matrix))]
    for other in others:
        assert [scale for _, _, scale in other] == [scale for _, _, scale in asked]
        for (_, whole, _), (_, less, _) in zip(asked, other, strict=True):
            assert sum(int(k) ** 2 for k in whole - less) <= UNITS**2


@examples(60)
@given(matrices(users=(1, 4), ngrams=(10, 10), largest=50))
def test_without_noise_and_clipping_what_is_not_listed_is_what_people_wrote(matrix):
    _, measured, _ = record_measurement(
        Posterior(1e4), with_unlisted(matrix), mixed_orders(), Budget(1.0, 1e-6)
    )
    written = matrix.sum(axis=0)
    for index, ((place, _), one) in enumerate(zip(mixed_orders().by_order, measured, strict=True)):
        assert one.unlisted == pytest.approx(written[7 + index], abs=0.05 * len(matrix))
        assert one.counts == pytest.approx(written[:7][place], abs=0.01 * len(matrix))
        assert one.total == pytest.approx(written[:7][place].sum(), abs=0.01 * len(matrix))


@examples(60)
@given(matrices(users=(1, 4), ngrams=(7, 7), largest=50), st.floats(0.3, 30))
def test_each_order_is_a_vector_that_a_user_moves_by_its_units(matrix, clip_norm):
    vocabulary, mechanism, budget = mixed_orders(), Posterior(clip_norm), Budget(0.3, 1e-6)
    asked, theta, details = record_queries(
        mechanism, reference_paper.make_user_counts(matrix), vocabulary, budget
    )
    # n-grams, their words (unigrams have none), the total, and what is not listed
    assert [values.size for _, values, _ in asked] == [3 + 0 + 2, 2 + 3 + 2, 2 + 3 + 2]
    whole = whole_of(vocabulary, budget)
    assert {scale for _, _, scale in asked} == {whole.multiplier_for_share(1 / 3) * UNITS}
    assert [theta[place].sum() for place, _ in vocabulary.by_order] == pytest.approx([1, 1, 1])
    assert set(details["expected_counts"]) == {"1", "2", "3"}
    for user in range(len(matrix)):
        others, _, _ = record_measurement(mechanism, without(matrix, user), vocabulary, budget)
        for (_, exact, _), (_, less, _) in zip(asked, others, strict=True):
            assert sum(int(k) ** 2 for k in exact - less) <= UNITS**2


@examples(60)
@given(matrices(users=(1, 4), ngrams=(7, 7), largest=50), st.floats(0.3, 30))
def test_an_order_is_measured_as_if_it_were_alone(matrix, clip_norm):
    """The same sums as those of a vocabulary that has no other order."""
    vocabulary = mixed_orders()
    budget = Budget(0.3, 1e-6)
    asked, _, _ = record_measurement(
        Posterior(clip_norm), reference_paper.make_user_counts(matrix), vocabulary, budget
    )
    for (place, part), (_, together, _) in zip(vocabulary.by_order, asked, strict=True):
        alone = reference_paper.make_user_counts(matrix[:, place])
        [(_, expected, _)], _, _ = record_measurement(Posterior(clip_norm), alone, part, budget)
        assert (together == expected).all()


@examples(60)
@given(matrices(users=(1, 4), ngrams=(7, 7), largest=50))
def test_without_noise_and_clipping_counts_words_and_totals_are_what_people_wrote(matrix):
    _, measured, _ = record_measurement(
        Posterior(1e4), reference_paper.make_user_counts(matrix), mixed_orders(), Budget(1.0, 1e-6)
    )
    written = matrix.sum(axis=0)
    close = {"abs": 0.01 * len(matrix)}
    for (place, _), one in zip(mixed_orders().by_order, measured, strict=True):
        assert one.counts == pytest.approx(written[place], **close)
        assert one.total == pytest.approx(written[place].sum(), **close)
        assert one.lost is None
    words_of_bigrams = [written[3], written[3:5].sum(), written[4]]
    assert measured[0].word_counts is None  # unigrams are words
    assert measured[1].word_counts == pytest.approx(words_of_bigrams, **close)
    assert measured[2].word_counts == pytest.approx([written[5:].sum()] * 3, **close)


@examples(60)
@given(
    vocabularies,
    matrices(users=(1, 4), ngrams=(7, 7), largest=50),
    st.sampled_from([0.5, 2.0, 30.0]),
)
def test_without_noise_what_is_kept_and_what_is_lost_are_what_people_wrote(
    vocabulary, matrix, clip_norm
):
    """A norm of lost words that nobody reaches."""
    counts, choice = (
        reference_paper.make_user_counts(matrix),
        ClippingPlan(clip_norm, clip_norm, clipped_mass_share=0.1, clipped_mass_norm=1e4),
    )
    with fixed_clipping_plan(choice):
        _, measured, _ = record_measurement(Posterior(), counts, vocabulary, Budget(1.0, 1e-6))
    place, longest = vocabulary.by_order[-1]
    lost, written = measured[-1].lost, matrix[:, place].sum(axis=0)
    assert measured[-1].total + lost.total == pytest.approx(written.sum(), abs=0.01)
    assert sorted(lost.which) == list(range(longest.word_ids[1]))
    public = designs(vocabulary)[-1].public
    kept = public.per_word(measured[-1].counts)
    of_words = public.per_word(written.astype(float))
    assert kept[lost.which] + lost.counts == pytest.approx(of_words[lost.which], abs=0.01)


def test_noise_is_known_for_all_that_is_measured():
    """The standard deviations that inference is told, against answers with noise (5 standard errors of 300 runs)."""
    vocabulary, budget, matrix = mixed_orders(), Budget(1.0, 1e-6), np.arange(28).reshape(4, 7)
    counts, runs = reference_paper.make_user_counts(matrix), []
    with fixed_clipping_plan(CLIPPING_PLANS["lost words and counts"]):
        _, exact, _ = record_measurement(Posterior(), counts, vocabulary, budget)
        for seed in range(300):
            noisy, _ = Posterior().measure(
                counts, vocabulary, budget, Randomness(SeededNoise(seed), 1)
            )
            runs.append(
                [numbers(each, exactly) for each, exactly in zip(noisy, exact, strict=True)]
            )
    for z in np.moveaxis(np.array([np.concatenate(run) for run in runs]), 0, 1):
        assert abs(z.mean()) < 5 / math.sqrt(z.size)
        assert abs((z**2).mean() - 1) < 5 * math.sqrt(2 / z.size)


def numbers(noisy, exact):
    """All deviations of one order, in standard deviations."""
    pairs = [
        (noisy.counts - exact.counts, noisy.noise),
        ([noisy.total - exact.total], [noisy.total_noise]),
    ]
    if noisy.word_counts is not None:
        pairs.append((noisy.word_counts - exact.word_counts, noisy.word_noise))
    if noisy.lost is not None:
        pairs.append((noisy.lost.counts - exact.lost.counts, noisy.lost.noise))
        pairs.append(([noisy.lost.total - exact.lost.total], [noisy.lost.total_noise]))
    return np.concatenate([np.divide(*pair) for pair in pairs])


@pytest.mark.parametrize("query", [clipped_mass_query, counts_query])
def test_nothing_is_asked_by_a_clipping_plan_before_there_is_one(query):
    """A clip norm comes from the noisy histogram or from the caller, and from nowhere else."""
    [design] = designs(bigrams(4))
    noise = whole_of(bigrams(4), Budget(1.0, 1e-6))
    state = QueryState(design, noise, plan=None, share_left=1.0)
    with pytest.raises(AssertionError, match="the histogram, which chooses the plan, comes first"):
        query(state)
    assert counts_query(replace(state, plan=CLIPPING_PLANS["counts"])).share == 1.0


def test_n_grams_and_words_share_the_norm():
    for design in designs(mixed_orders())[1:]:
        ngram_shape, word_shape = np.split(design.ngrams.shape, [design.size])
        words = design.public.per_word(design.public.prior) / design.order
        assert 1 / (ngram_shape**2 * design.public.prior).sum() == pytest.approx(0.99)
        assert 1 / (word_shape**2 * words).sum() == pytest.approx(0.01)


@pytest.mark.parametrize("mechanism", [Gaussian(), Laplace(), Paper()])
def test_several_orders_are_refused_by_mechanisms_of_one(mechanism):
    counts = reference_paper.make_user_counts(np.ones((2, 7), np.int64))
    budget = Budget(1.0, 0.0 if isinstance(mechanism, Laplace) else 1e-6)
    with pytest.raises(
        UsageError,
        match="needs a vocabulary of one order; make one with one `order`, or use posterior",
    ):
        mechanism.release(counts, mixed_orders(), budget)


def test_shapes_and_word_coordinates():
    vocabulary = bigrams(4)
    [design] = designs(vocabulary)
    words, total = vocabulary.word_ids
    assert words.shape == (4, 2)
    assert total == 4  # w0 to w3
    assert design.ngrams.shape.size == 4 + total
    assert (design.ngrams.words == words + 4).all()
    ngram_shape = design.ngrams.shape[:4] * math.sqrt(0.99)
    assert (ngram_shape**2 * design.public.prior).sum() == pytest.approx(1)


def test_the_total_and_what_is_not_listed_are_two_more_coordinates():
    for design in designs(mixed_orders()):
        measured = design.coordinates(CLIPPING_PLANS["counts"])
        size = design.size
        assert measured.shape.size == design.ngrams.shape.size + 2
        assert (np.delete(measured.shape, size)[:-1] == design.ngrams.shape).all()
        assert (measured.words[:size, :-1] == design.ngrams.words + 1).all()
        assert (measured.words[:size, -1] == measured.shape.size - 1).all()
        assert (measured.words[size] == -1).all()  # nothing else is known of what is not listed
        assert measured.shape[size] == pytest.approx(9 * measured.shape[-1])


def test_a_unigram_vocabulary_measures_no_words_twice():
    [design] = designs(reference_paper.make_vocabulary([3, 2, 1]))
    assert design.ngrams.shape.size == 3
    assert design.coordinates(CLIPPING_PLANS["counts"]).shape.size == 5


def test_at_most_so_many_lost_words_are_asked_for_the_most_frequent():
    """None that is not on the public list, and the total whatever the words."""
    size = MAX_CLIPPED_WORDS + 50
    ngrams = pa.array([f"w{i} x" for i in range(size)], pa.large_string())
    vocabulary = Vocabulary(ngrams, np.arange(size, 0, -1) + 10, 2, Tokenizer())
    [design] = designs(vocabulary)
    asked = design.clipped_words(CLIPPING_PLANS["lost words and counts"])
    assert asked.shape.size == MAX_CLIPPED_WORDS + 1 == design.clipped_word_index.size + 1
    rates = design.public.per_word(design.public.prior)
    assert (
        rates[design.clipped_word_index].min() >= np.delete(rates, design.clipped_word_index).max()
    )
    assert (asked.words[-1] == -1).all()  # what is not listed
    assert (asked.words[:-1, -1] == MAX_CLIPPED_WORDS).all()
    left_out = ~np.isin(vocabulary.word_ids[0], design.clipped_word_index)
    assert left_out.any()
    assert ((asked.words[:-1, :-1] == -1) == left_out).all()


def test_clip_norms_follow_what_users_write():
    vocabulary, light = bigrams(500), np.random.default_rng(1).poisson(0.01, (3000, 500))

    def chosen(matrix, epsilon=1.0):
        return record_measurement(
            Posterior(), reference_paper.make_user_counts(matrix), vocabulary, Budget(epsilon, 1e-6)
        )[2]["by_order"]["2"]

    usual, heavy_user_norm = chosen(light)["clip_norm_used"], chosen(30 * light)["clip_norm_used"]
    assert usual < heavy_user_norm
    assert chosen(30 * light, epsilon=0.01)["clip_norm_used"] <= heavy_user_norm
    assert chosen(light[:0])["clip_norm_used"] == 1.0  # nobody
    assert {usual, heavy_user_norm} <= set(CLIP_NORMS)


def test_the_card_says_how_noisy_a_number_of_users_is():
    """In users: a user adds their units to one bar."""
    counts = reference_paper.make_user_counts(np.ones((3, 500), np.int64))
    details = record_measurement(Posterior(), counts, bigrams(500), Budget(1.0, 1e-6))[2]
    details = order_details(details)
    assert details["users_noise"] == pytest.approx(
        details["amount_multiplier"] * UNITS / USER_UNITS
    )


@pytest.fixture(scope="module")
def population():
    """2,000 made-up users, and a vocabulary of 2,000 trigrams."""
    people = Population(users=2_000, seed=3)
    vocabulary = Vocabulary.from_public(list(people.public_text(20_000)), order=3, size=2_000)
    return count(list(people.messages()), vocabulary).listed_only, vocabulary


def loss(counts, vocabulary, mechanism):
    release = mechanism.release(counts, vocabulary, Budget(1.0, 1e-6), seed=1)
    return kl_divergence(counts.totals, release.probabilities)


@pytest.mark.parametrize(
    ("share", "times"), [(0.0, 1), (0.05, 50), (1.0, 30)], ids=["plain", "a few heavy", "all heavy"]
)
def test_the_automatic_clip_norm_is_good(population, share, times):
    """ε = 1, also with users who say everything 50 times: within 10% of the best Λ of a grid (one noise draw each)."""
    counts, vocabulary = population
    heavy_user_norm = np.random.default_rng(1).random(len(counts.users)) < share
    repeated = counts.counts * np.where(
        np.repeat(heavy_user_norm, np.diff(counts.starts)), times, 1
    )
    counts = replace(counts, counts=repeated.astype(np.int32))
    chosen = loss(counts, vocabulary, Posterior())
    assert chosen < 0.7 * kl_divergence(counts.totals, public_distribution(vocabulary.counts))
    assert chosen < 1.1 * min(
        loss(counts, vocabulary, Posterior(norm)) for norm in (1.0, 2.0, 4.0, 8.0, 64.0, 256.0)
    )


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 10.0])
def test_deviations_cover_what_made_up_people_write(epsilon):
    """20,000 people, 5,000 trigrams, by fifths from frequent to rare: within two deviations for 93%.

    Some n-grams only one person writes, two hundred times: those lie far off, and must.
    """
    people = Population(users=20_000, seed=11)
    vocabulary = Vocabulary.from_public(list(people.public_text(60_000)), order=3, size=5_000)
    counts = count(list(people.messages()), vocabulary)
    release = Posterior().release(counts, vocabulary, Budget(epsilon, 1e-6), seed=2)
    z = (
        np.abs(release.probabilities - counts.totals / counts.totals.sum())
        / release.probability_std
    )  # before clipping
    for part in np.array_split(np.argsort(-release.probabilities), 5):
        assert (z[part] < 1).mean() > 0.55
        assert (z[part] < 2).mean() >= 0.93
        assert (
            0.2 < np.sqrt((np.minimum(z[part], 5) ** 2).mean()) < 1.3
        )  # neither too narrow nor far too wide


@pytest.mark.parametrize(
    "matrix", [np.zeros((0, 3), np.int64), np.array([[1, 0, 0]]), np.array([[2**31 - 1, 0, 1]])]
)
def test_nobody_somebody_and_a_user_with_two_billion_of_one_ngram(matrix):
    release = Posterior().release(
        reference_paper.make_user_counts(matrix), bigrams(3), Budget(0.5, 1e-6)
    )
    assert release.probabilities.sum() == pytest.approx(1)
    assert release.card.guarantee is Guarantee.PROVED
    assert release.probability_std is not None


def test_bad_clip_norms():
    with pytest.raises(UsageError) as caught:
        Posterior(clip_norm=-1.0)
    assert str(caught.value) == (
        "clip_norm=-1.0: give a public number from 1e-6 to 1e9; 4 is usual, and posterior chooses one if it is left out."
    )


def test_unigrams_are_measured_once_and_not_again_as_words():
    vocabulary = Vocabulary(
        pa.array(["a", "b", "c"], pa.large_string()), np.array([9, 5, 1]), 1, Tokenizer()
    )
    counts = reference_paper.make_user_counts(np.array([[2, 0, 1], [0, 3, 0]]))
    assert designs(vocabulary)[0].ngrams.words.shape == (3, 0)
    made = Posterior(4.0).release(counts, vocabulary, Budget(50.0, 1e-6), seed=1)
    assert made.probabilities.sum() == pytest.approx(1)


def test_mechanisms_that_prove_nothing_have_no_spend():
    with pytest.raises(NotImplementedError):
        Paper().spend(bigrams(3), Budget(1.0, 1e-6))
