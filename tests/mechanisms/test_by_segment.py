"""Releases by segment: one vector over segments × n-grams, one clip, one budget, and answers that agree."""

import logging
import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bayesgram as bg
from bayesgram.audit.evaluation import kl_divergence, totals_for
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.inference.design import ClippingPlan
from bayesgram.inference.model import infer
from bayesgram.inference.noisy_counts import NoisyCounts, PublicNgrams
from bayesgram.io.segments import Segments
from bayesgram.mechanisms import base
from bayesgram.mechanisms.base import Randomness
from bayesgram.mechanisms.by_segment import SEGMENT_SHARE, SegmentedDesign
from bayesgram.mechanisms.posterior import OrderDesign, Posterior
from bayesgram.mechanisms.publish import release
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.ledger import Ledger
from bayesgram.privacy.noise import ExactNoise
from bayesgram.private.clipping import UNITS
from bayesgram.private.counts import SegmentedCounts, UserCounts, build_user_counts
from bayesgram.public.mixture import SourceCounts
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.segmented import SegmentedRelease
from bayesgram.text.tokenizer import Tokenizer
from helpers import reference_paper, replay_noise
from helpers.hypothesis_profiles import examples
from helpers.recording_noise import CLIPPING_PLANS, RecordingNoise, fixed_clipping_plan
from helpers.strategies import matrices

BUDGET = Budget(0.3, 1e-6)
THREE = Segments("country", ("de", "fr"), other=True)
NGRAMS = ["w0", "w1", "w0 w1", "w1 w0", "w0 w1 w0", "w1 w1 w0"]
SIZE = len(NGRAMS)


def vocabulary(sources=1, ngrams=NGRAMS):
    text, counts = pa.array(ngrams, pa.large_string()), np.arange(len(ngrams), 0, -1)
    if sources == 1:
        return Vocabulary(text, counts, 3, Tokenizer())
    return Vocabulary.from_source_counts(
        text, [SourceCounts(f"s{i}", np.roll(counts, i)) for i in range(sources)], 3, Tokenizer()
    )


def by_segment(matrix, segments=THREE, names=None, fingerprint=None):
    """Dense rows over segments × n-grams."""
    return SegmentedCounts(reference_paper.make_user_counts(matrix, names, fingerprint), segments)


def without(matrix, user):
    return by_segment(
        np.delete(matrix, user, axis=0), names=[f"u{i}" for i in range(len(matrix)) if i != user]
    )


def measured_by(mechanism, counts, public, budget=BUDGET):
    noise = RecordingNoise()
    found, details = mechanism.by_segment(counts.segments).measure(
        counts, public, budget, Randomness(noise, 11)
    )
    return noise.asked, found, details


# What is asked, and how far one user moves it


@examples(30)
@given(
    st.sampled_from([vocabulary(), vocabulary(2)]),
    st.sampled_from(sorted(CLIPPING_PLANS)),
    matrices(users=(1, 3), ngrams=(3 * SIZE, 3 * SIZE), largest=2**31 - 1),
)
def test_one_user_in_several_segments_moves_each_answer_by_at_most_its_units(public, name, matrix):
    with fixed_clipping_plan(CLIPPING_PLANS[name]):
        asked, _, _ = measured_by(Posterior(), by_segment(matrix), public)
        others = [
            measured_by(Posterior(), without(matrix, user), public)[0]
            for user in range(len(matrix))
        ]
    for other in others:
        assert [scale for _, _, scale in other] == [scale for _, _, scale in asked]
        for (_, whole, _), (_, less, _) in zip(asked, other, strict=True):
            assert sum(int(k) ** 2 for k in whole - less) <= UNITS**2


@examples(30)
@given(
    st.sampled_from(sorted(CLIPPING_PLANS)),
    matrices(users=(1, 2), ngrams=(3 * SIZE + 9, 3 * SIZE + 9), largest=2**31 - 1),
)
def test_what_is_not_listed_in_any_segment_is_clipped_with_the_n_grams_of_its_order(name, matrix):
    """Exactly, in integers: three orders in three segments, with a column of their own each."""

    def ask(rows):
        names = pa.array([b"u%d" % user for user in range(len(rows))], pa.large_binary())
        flat = UserCounts(names, *reference_paper.to_csr(rows), 3 * SIZE, None, unlisted_size=3 * 3)
        return measured_by(Posterior(), SegmentedCounts(flat, THREE), vocabulary())[0]

    with fixed_clipping_plan(CLIPPING_PLANS[name]):
        asked = ask(matrix)
        others = [ask(np.delete(matrix, user, axis=0)) for user in range(len(matrix))]
    for other in others:
        assert [scale for _, _, scale in other] == [scale for _, _, scale in asked]
        for (_, whole, _), (_, less, _) in zip(asked, other, strict=True):
            assert sum(int(k) ** 2 for k in whole - less) <= UNITS**2


def literal(row, part, place, measured, clip_norm):
    """One user's z of one order, coordinate by coordinate: as docs/promise.md has it, with nothing of the package's."""
    words, _ = part.word_ids
    size = len(part)
    word_count = words.max() + 1 if part.order > 1 else 0
    columns = 3 * size + 3  # n-grams and what is not listed, of each segment
    total = columns + size + word_count
    places = [0] * measured.shape.size
    for column, number in enumerate(map(int, row)):
        segment, i = divmod(column, SIZE)
        if not place.start <= i < place.stop:
            continue
        ngram = i - place.start
        places[segment * size + ngram] += number
        places[columns + ngram] += number
        for word in words[ngram] if part.order > 1 else []:
            places[columns + size + word] += number
        places[total] += number
        places[total + 1 + segment] += number
    values = [number / float(shape) for number, shape in zip(places, measured.shape, strict=True)]
    scale = UNITS / max(math.sqrt(sum(value**2 for value in values)), clip_norm)
    return np.array([int(value * scale) for value in values])


def segmented_designs(public, segments=3):
    return [SegmentedDesign(PublicNgrams.of(part), segments) for _, part in public.by_order]


@examples(60)
@given(matrices(users=(1, 3), ngrams=(3 * SIZE, 3 * SIZE), largest=50), st.floats(0.3, 30))
def test_the_sum_by_segment_is_that_of_a_literal_reading(matrix, clip_norm):
    """Segments × n-grams, n-grams and words of all people, and the totals of all and of each segment: clipped whole."""
    public, mechanism = vocabulary(), Posterior(clip_norm)
    asked, _, _ = measured_by(mechanism, by_segment(matrix), public)
    word_counts = [0, 2, 2]
    for (place, part), design, words, (_, found, _) in zip(
        public.by_order, segmented_designs(public), word_counts, asked, strict=True
    ):
        measured = design.coordinates(ClippingPlan.fixed(clip_norm))
        assert found.size == measured.shape.size == 3 * len(part) + 3 + len(part) + words + 1 + 3
        expected = sum(literal(row, part, place, measured, clip_norm) for row in matrix)
        assert np.abs(found - expected).max() <= 2 * len(matrix)  # the last bit of a root


@pytest.mark.parametrize("sources", [1, 2])
@pytest.mark.parametrize("segments", [0, 1, 3])
def test_every_coordinate_is_added_to_once(segments, sources):
    """Two parts of a vector in one coordinate would add up to more than the norm that is clipped.

    What a column adds to beside its own place is never the place of a column.
    """
    public = vocabulary(sources)
    plain = [OrderDesign(PublicNgrams.of(part)) for _, part in public.by_order]
    for design in segmented_designs(public, segments) if segments else plain:
        for plan in CLIPPING_PLANS.values():
            for measured in (design.ngrams, design.coordinates(plan)):
                columns = len(measured.words)
                others = measured.words[measured.words >= 0]
                assert ((others >= columns) & (others < measured.shape.size)).all()
                reached = {*range(columns), *others.tolist()}
                assert reached == set(range(measured.shape.size))


def test_somebody_in_one_segment_has_the_norm_that_they_have_without_segments():
    public = vocabulary()
    row = np.array([3, 2])
    for (_, part), segmented in zip(public.by_order, segmented_designs(public), strict=True):
        plain = OrderDesign(PublicNgrams.of(part)).ngrams
        norms = [
            np.linalg.norm(reference_paper.append_word_counts(one[None], each)[0] / each.shape)
            for one, each in (
                (row, plain),
                (np.concatenate([0 * row, row, 0 * row]), segmented.ngrams),
            )
        ]
        assert norms[0] == pytest.approx(norms[1])
    assert 0 < SEGMENT_SHARE < 1


@examples(30)
@given(matrices(users=(1, 4), ngrams=(3 * SIZE, 3 * SIZE), largest=50))
def test_without_noise_and_clipping_segments_and_totals_are_what_people_wrote(matrix):
    _, (everyone, *segments), _ = measured_by(
        Posterior(1e4), by_segment(matrix), vocabulary(), Budget(1.0, 1e-6)
    )
    written, close = matrix.sum(axis=0).reshape(3, -1), {"abs": 0.01 * len(matrix)}
    for at, (place, _) in enumerate(vocabulary().by_order):
        assert everyone[at].counts == pytest.approx(written.sum(axis=0)[place], **close)
        assert everyone[at].total == pytest.approx(written[:, place].sum(), **close)
        for one, own in zip(segments, written, strict=True):
            assert one[at].counts == pytest.approx(own[place], **close)
            assert one[at].total == pytest.approx(own[place].sum(), **close)


@examples(40)
@given(
    st.builds(Budget, st.floats(1e-3, 20), st.floats(1e-12, 1e-3)),
    st.sampled_from([None, *CLIPPING_PLANS.values()]),
    st.sampled_from([1, 2]),
)
def test_a_ledger_is_charged_for_all_coordinates_of_all_segments(budget, choice, sources):
    public, counts = vocabulary(sources), by_segment(np.ones((2, 3 * SIZE), np.int64))
    with fixed_clipping_plan(choice):
        asked, _, _ = measured_by(Posterior(), counts, public, budget)
    spend = Posterior().by_segment(THREE).spend(public, budget)
    spent = sum((Fraction(UNITS) / Fraction(scale)) ** 2 for _, _, scale in asked)
    assert spent <= Fraction(spend.inverse_variance)
    assert spent >= Fraction(spend.inverse_variance) * (1 - Fraction(1, 10**9))
    if choice and choice.clipped_mass_share:
        whole = Posterior().by_segment(THREE).calibrate(public, budget)
        for variation in (whole.total_variation, spend.total_variation):
            counted = variation * 24 * (whole.multiplier * UNITS) ** 2
            assert sum(values.size for _, values, _ in asked) == round(counted)


def test_one_entry_of_a_ledger_is_for_all_of_them_and_comes_first(tmp_path, monkeypatch):
    ledger = Ledger.create(tmp_path / "a.ledger", population="p", budget=Budget(20, 1e-3))
    norm_histogram = []

    class Watching(ExactNoise):
        def discrete_gaussian(self, values, *, scale):
            norm_histogram.append(ledger.read().last_number)
            return super().discrete_gaussian(values, scale=scale)

    monkeypatch.setattr(base, "ExactNoise", Watching)
    public, counts = vocabulary(), by_segment(np.ones((3, 3 * SIZE), np.int64))
    made = release(counts, public, Posterior(), BUDGET, ledger=ledger, output=tmp_path / "out")
    assert [entry.published for entry in ledger.read().reservations] == [True]
    assert set(norm_histogram) == {1}
    assert ledger.read().spends == [Posterior().by_segment(THREE).spend(public, BUDGET)]
    assert {(one.card.ledger["population"], one.card.ledger["entry"]) for one in made.values()} == {
        ("p", 1)
    }


# After the noise


def many(seed, users=400):
    rng = np.random.default_rng(seed)
    return rng.poisson(rng.dirichlet(np.full(3 * SIZE, 0.5)) * 20, (users, 3 * SIZE))


PEOPLE = {"many": many(1), "few": many(2, 5), "nobody": np.zeros((0, 3 * SIZE), np.int64)}


def released(matrix, source, folder, budget):
    kept = matrix[matrix.sum(axis=1) > 0] if len(matrix) else matrix
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Randomness, "from_seed", classmethod(lambda cls, _seed: cls(source, 5)))
        release(by_segment(kept), vocabulary(2), Posterior(), budget).save(folder)
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("epsilon", [0.5, 20.0])
def test_the_same_answers_give_the_same_segments_of_unrelated_people(
    epsilon,
    tmp_path,
    capsys,
    caplog,
):
    caplog.set_level(logging.INFO)
    source, budget = replay_noise.NoiseRecorder(), Budget(epsilon, 1e-6)
    first = released(PEOPLE["many"], source, tmp_path / "first", budget)
    folders = ("all", "de", "fr", "other")
    assert set(first) == {
        f"{name}/{file}"
        for name in folders
        for file in ("card.json", "distribution.parquet", "measured.parquet")
    }
    for name in ("few", "nobody"):
        again = released(
            PEOPLE[name], replay_noise.NoiseReplayer(source.answers), tmp_path / name, budget
        )
        assert again == first, name
    assert (
        first["de/measured.parquet"] != first["all/measured.parquet"]
    )  # it is not always the same
    assert (*capsys.readouterr(), caplog.text) == ("", "", "")  # nothing is said on the way


def different_people(users, shares, spread, seed):
    """Counts of bigrams in segments that differ by this much, and the distributions they are drawn from."""
    rng = np.random.default_rng(seed)
    ngrams = [f"w{i} w{j}" for i in range(20) for j in range(20)]
    size = len(ngrams)
    public = Vocabulary(
        pa.array(ngrams, pa.large_string()),
        (1e6 / np.arange(1, size + 1)).astype(np.int64),
        2,
        Tokenizer(),
    )
    everyone = (1 / np.arange(1, size + 1)) * np.exp(rng.normal(0, 1, size))
    truth = everyone * np.exp(spread * rng.normal(0, 1, (len(shares), size)))
    truth /= truth.sum(axis=1, keepdims=True)
    home = rng.choice(len(shares), users, p=shares)
    rows = np.array([rng.multinomial(12, truth[segment]) for segment in home])
    who, what = np.nonzero(rows)
    names = pa.array([f"{user}".encode() for user in range(users)], pa.large_binary())
    columns = (home[who] * size + what).astype(np.int32)
    flat = build_user_counts(
        names,
        who.astype(np.int32),
        columns,
        rows[who, what].astype(np.int32),
        vocabulary_size=len(shares) * size,
    )
    listed = Segments("country", tuple(f"s{i}" for i in range(len(shares))))
    return public, SegmentedCounts(flat, listed), truth


def alone(counts, segment, size):
    flat = counts.flat
    who = np.repeat(np.arange(len(flat.users), dtype=np.int32), np.diff(flat.starts))
    here = flat.ngrams // size == segment
    return build_user_counts(
        flat.users,
        who[here],
        flat.ngrams[here] % np.int32(size),
        flat.counts[here],
        vocabulary_size=size,
    )


def kl(q, one):
    return float((q * np.log(q / one.probabilities)).sum())


@pytest.fixture(scope="module")
def made():
    public, counts, truth = different_people(30_000, [0.65, 0.3, 0.05, 0.0], 0.3, 3)
    return public, counts, truth, release(counts, public, Posterior(), Budget(1.0, 1e-7), seed=4)


def test_all_people_are_the_segments_by_their_shares(made):
    *_, found = made
    names = found.segments.all_names
    shares = [found[name].card.details["share"]["2"] for name in names]
    assert sum(shares) == pytest.approx(1, abs=1e-12)
    mixed = sum(
        share * found[name].probabilities for share, name in zip(shares, names, strict=True)
    )
    assert mixed == pytest.approx(found.all.probabilities, rel=1e-9)
    assert shares == pytest.approx([0.65, 0.3, 0.05, 0.0], abs=0.03)


def test_a_segment_without_people_has_the_answer_of_all_and_says_nothing_else(made):
    *_, found = made
    assert found["s3"].probabilities.tolist() == found.all.probabilities.tolist()
    assert (found["s3"].probability_std >= found["s3"].probabilities).all()


def test_a_small_segment_has_half_the_error_that_it_has_alone(made):
    public, counts, truth, found = made
    by_itself = release(
        alone(counts, 2, len(public)), public, Posterior(), Budget(1.0, 1e-7), seed=4
    )
    assert kl(truth[2], found["s2"]) < kl(truth[2], by_itself) / 2
    assert kl(truth[0], found["s0"]) < kl(truth[0], found["s2"])  # they are not all the same


def test_a_single_phrase_that_a_segment_never_says_is_told_apart_from_all_people():
    """All but one n-gram as all people have it, within noise: that one is as its own count, not drawn to theirs."""
    public, *_ = different_people(1, [1.0], 0.0, 5)
    known = replace(PublicNgrams.of(public), learnt=True, on_one_core=True)
    at, total, ratios = 5, 10_000.0, []
    noise = np.full(
        len(public), total * known.prior[at] / 8
    )  # eight deviations of noise: no chance
    expected = np.where(np.arange(len(public)) == at, 1.0, total * known.prior)
    for seed in range(5):
        counts = expected + noise * np.random.default_rng(seed).standard_normal(len(public))
        found = infer(
            NoisyCounts(counts, noise, total * (1 - known.prior[at]), float(noise[0])), known
        )
        ratios.append(found.theta[at] / known.prior[at])
    assert np.mean(ratios) < 0.25  # 0.16; drawn to all people with all other n-grams, it is 0.41


def test_segments_that_have_nothing_in_common_are_not_much_worse_than_alone():
    """Half of the squared norm measures all people, which are no help here: 1.2 to 2 times the KL."""
    public, counts, truth = different_people(20_000, [0.8, 0.2], 2.5, 5)
    found = release(counts, public, Posterior(), Budget(1.0, 1e-7), seed=6)
    by_itself = release(
        alone(counts, 1, len(public)), public, Posterior(), Budget(1.0, 1e-7), seed=6
    )
    assert kl(truth[1], found["s1"]) < 2.5 * kl(truth[1], by_itself)


def test_orders_and_sources_agree_too():
    matrix = many(7, 3000)
    found = release(by_segment(matrix), vocabulary(2), Posterior(), Budget(2.0, 1e-6), seed=1)
    for place, part in vocabulary(2).by_order:
        mixed = sum(
            found[name].card.details["share"][str(part.order)] * found[name].probabilities[place]
            for name in THREE.all_names
        )
        assert mixed == pytest.approx(found.all.probabilities[place], rel=1e-9)
    for one in found.values():
        weights = one.card.details["source_weights"]["3"]
        assert sum(each["weight"] for each in weights.values()) == pytest.approx(1, abs=1e-3)


# What is written and read


def test_a_saved_release_is_read_back_and_each_folder_is_a_release_like_any_other(made, tmp_path):
    *_, found = made
    found.save(tmp_path / "out")
    back = SegmentedRelease.load(tmp_path / "out")
    assert list(back) == ["all", "s0", "s1", "s2", "s3"]
    for name, one in found.items():
        assert back[name].probabilities.tolist() == one.probabilities.tolist()
        assert bg.Release.load(tmp_path / "out" / name).card == one.card
    assert "country = s1; one budget for all people and each of 4 segments together" in str(
        back["s1"].card
    )
    with pytest.raises(KeyError, match="'s9' is none of all, s0"):
        back["s9"]
    with pytest.raises(
        UsageError, match="holds a release for each segment; give one of them, such as"
    ):
        bg.Release.load(tmp_path / "out")
    with pytest.raises(UsageError, match="no release by segment"):
        SegmentedRelease.load(tmp_path / "out" / "all")


def test_what_somebody_put_beside_a_segment_is_not_replaced(made, tmp_path):
    *_, found = made
    found.save(tmp_path / "out")
    found.save(tmp_path / "out", force=True)
    (tmp_path / "out" / "s1" / "model.arpa").write_text("mine")
    with pytest.raises(UsageError, match="holds files that are not ours"):
        found.save(tmp_path / "out", force=True)
    assert (tmp_path / "out" / "s1" / "model.arpa").read_text() == "mine"


def test_a_release_of_a_segment_is_judged_by_its_own_people(made):
    public, counts, _, found = made
    own = counts.flat.totals.reshape(4, -1)
    assert totals_for(counts, found["s1"]).tolist() == own[1].tolist()
    assert (
        totals_for(counts, found.all).tolist()
        == own.sum(axis=0).tolist()
        == totals_for(counts).tolist()
    )
    assert kl_divergence(totals_for(counts, found["s0"]), found["s0"].probabilities) < 0.2
    with pytest.raises(UsageError, match="have other segments"):
        totals_for(replace(counts, segments=Segments("land", counts.segments.names)), found["s1"])
    with pytest.raises(UsageError, match="the counts are not by segment"):
        totals_for(alone(counts, 0, len(public)), found["s1"])


def test_other_mechanisms_refuse_segments_before_anything_is_spent():
    counts = by_segment(np.ones((3, 3 * SIZE), np.int64))
    for mechanism in (bg.Gaussian(), bg.Laplace(), bg.paper.KAnonymity()):
        with pytest.raises(UsageError, match="only posterior releases segments"):
            release(counts, vocabulary(), mechanism, BUDGET)
    with pytest.raises(UsageError, match="belong to the vocabulary"):
        release(counts, vocabulary(ngrams=NGRAMS[:5]), Posterior(), BUDGET)


def test_a_release_that_fails_writes_nothing(tmp_path, monkeypatch, made):
    *_, found = made
    written = []

    def broken(_self, folder):
        written.append(folder)
        if len(written) == 3:
            raise BayesgramError("the disk is full")

    monkeypatch.setattr(bg.Release, "write", broken)
    with pytest.raises(BayesgramError, match="the disk is full"):
        found.save(tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_progress_goes_up_to_the_end():
    told = []
    release(
        by_segment(PEOPLE["few"]),
        vocabulary(),
        Posterior(),
        Budget(1.0, 1e-6),
        seed=1,
        on_progress=told.append,
    )
    assert len(told) == 3
    assert told[-1] == 1
    assert all(first < second for first, second in pairwise(told))
