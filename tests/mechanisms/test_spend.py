"""What a ledger is charged, against what the noise source was asked: for every PROVED mechanism."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bayesgram.errors import BayesgramError
from bayesgram.mechanisms import base, publish
from bayesgram.mechanisms.gaussian import Gaussian
from bayesgram.mechanisms.laplace import Laplace, LaplacePublic, fixed_point_one, laplace_scale
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.privacy.accounting import Spend, fits
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.ledger import Ledger
from bayesgram.privacy.ledger_io import read_ledger
from bayesgram.privacy.noise import ExactNoise
from bayesgram.private.clipping import UNITS
from bayesgram.public.mixture import SourceCounts
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.release import Release
from bayesgram.text.tokenizer import Tokenizer
from helpers import reference_paper
from helpers.hypothesis_profiles import examples
from helpers.recording_noise import CLIPPING_PLANS, fixed_clipping_plan, record_queries
from helpers.strategies import matrices

SIZE = 6
proved = st.one_of(
    st.builds(Posterior),
    st.builds(Posterior, st.floats(0.5, 50)),
    st.builds(Gaussian, st.floats(0.5, 50)),
    st.builds(Laplace, st.integers(1, 1000)),
    st.builds(LaplacePublic, st.integers(1, 1000)),
)
budgets = st.builds(Budget, st.floats(1e-3, 20), st.floats(1e-12, 1e-3))


def vocabulary(orders, sources=1):
    """Trigrams alone, or n-grams of three orders; in one source or in several."""
    ngrams = (
        ["w0", "w1", "w0 w1", "w1 w0", "w0 w1 w0", "w1 w1 w0"]
        if orders
        else [f"w{i} w0 w1" for i in range(SIZE)]
    )
    text, counts = pa.array(ngrams, pa.large_string()), np.arange(SIZE, 0, -1)
    if sources == 1:
        return Vocabulary(text, counts, 3, Tokenizer())
    named = [SourceCounts(f"source{i}", np.roll(counts, i)) for i in range(sources)]
    return Vocabulary.from_source_counts(text, named, 3, Tokenizer())


def moved_in_l1(mechanism, public):
    """How far one user moves what is noised, in L1: the heaviest users that can be, one for each n-gram and mixture."""
    most = mechanism.max_total
    rows = [np.eye(SIZE, dtype=np.int64)[i] * most for i in range(SIZE)]
    rows += [
        np.full(SIZE, most // SIZE) + np.eye(SIZE, dtype=np.int64)[i] * (most % SIZE)
        for i in range(SIZE)
    ]
    budget = Budget(1.0)
    [(_, nobody, _)], *_ = record_queries(
        mechanism, reference_paper.make_user_counts(np.zeros((0, SIZE), np.int64)), public, budget
    )
    asked = [
        record_queries(mechanism, reference_paper.make_user_counts(row[None]), public, budget)[0][
            0
        ][1]
        for row in rows
    ]
    return max(int(np.abs(one - nobody).sum()) for one in asked)


def cost(asked, mechanism, public):
    """Σ 1/σ², Σ ε and Σ V/(24 s²) of what was asked, as exact fractions."""
    gaussian = [(Fraction(scale), values.size) for law, values, scale in asked if law == "gaussian"]
    laplace = [Fraction(scale) for law, _, scale in asked if law == "laplace"]
    assert len(gaussian) + len(laplace) == len(asked)  # on integers, all of it
    return (
        sum((Fraction(UNITS) / scale) ** 2 for scale, _ in gaussian),
        sum(moved_in_l1(mechanism, public) / scale for scale in laplace),
        sum(size / (24 * scale**2) for scale, size in gaussian),
    )


@examples(150)
@given(
    proved,
    budgets,
    matrices(users=(0, 4), ngrams=(SIZE, SIZE), largest=9),
    st.booleans(),
    st.sampled_from([None, *CLIPPING_PLANS.values()]),
    st.sampled_from([1, 3]),
)
def test_a_ledger_is_charged_for_all_that_was_asked_and_hardly_more(
    mechanism, budget, matrix, orders, choice, sources
):
    """Whatever the mechanism chooses to ask when it has seen the first answer."""
    public = vocabulary(orders and isinstance(mechanism, Posterior), sources)
    with fixed_clipping_plan(choice):
        asked, _, _ = record_queries(
            mechanism, reference_paper.make_user_counts(matrix), public, budget
        )
    assert asked
    if choice and mechanism == Posterior():
        queries = 3 if choice.clipped_mass_share else 2
        assert len(asked) == queries * len(public.by_order)
    inverse_variance, pure_epsilon, total_variation = cost(asked, mechanism, public)
    spend = mechanism.spend(public, budget)
    assert inverse_variance <= Fraction(spend.inverse_variance)
    assert pure_epsilon <= Fraction(repr(spend.pure_epsilon))
    assert total_variation <= Fraction(spend.total_variation) * (1 + Fraction(1, 10**12))
    assert inverse_variance >= Fraction(spend.inverse_variance) * (1 - Fraction(1, 10**9))
    assert pure_epsilon >= Fraction(spend.pure_epsilon) * Fraction(2, 3) * (
        1 - Fraction(1, 10**9)
    )  # 3W in place of 2W


@examples(80)
@given(proved, budgets, st.booleans())
def test_what_is_charged_is_within_what_the_card_claims(mechanism, budget, orders):
    spend = mechanism.spend(vocabulary(orders and isinstance(mechanism, Posterior)), budget)
    claim = Budget(*mechanism.check_budget(budget))
    assert fits([spend], claim)
    assert not fits([spend, spend], claim)


@examples(200)
@given(st.integers(1, 10**6), st.decimals(Decimal("0.0001"), 20, places=4))
@example(29, Decimal("1.1"))
def test_the_scale_of_laplace_noise_is_for_the_decimal_that_is_stated(sensitivity, epsilon):
    """Never less than sensitivity/ε, by the ε that a person reads, and hardly more."""
    scale = Fraction(laplace_scale(sensitivity, Budget(float(epsilon))))
    exact = sensitivity / Fraction(epsilon)
    assert exact <= scale <= exact * (1 + Fraction(1, 2**51))


def test_the_laplace_noise_on_differences_is_large_enough_for_any_user():
    public, mechanism = vocabulary(False), LaplacePublic(max_total=10)
    one = fixed_point_one(10)
    assert 2 * 10 * one < moved_in_l1(mechanism, public) <= 10 * (3 * one + SIZE)


# The order: reserved, on disk, then noise


class Watching(ExactNoise):
    """Looks into the ledger whenever noise is asked for."""

    def __init__(self, path):
        self.path, self.norm_histogram, self.asked = path, [], []

    def discrete_gaussian(self, values, *, scale):
        self._look("gaussian", values, scale)
        return super().discrete_gaussian(values, scale=scale)

    def discrete_laplace(self, values, *, scale):
        self._look("laplace", values, scale)
        return super().discrete_laplace(values, scale=scale)

    def _look(self, law, values, scale):
        self.asked.append((law, values, scale))
        self.norm_histogram.append(
            [(entry.number, entry.spend) for entry in read_ledger(self.path).reservations]
        )


MECHANISMS = [Posterior(), Posterior(2.0), Gaussian(), Laplace(), LaplacePublic()]


def test_every_coordinate_is_counted_whatever_is_asked():
    """All three answers together have no coordinate that the discreteness of noise was not charged for."""
    for public in (
        vocabulary(False),
        vocabulary(True),
        vocabulary(True, 3),
        reference_paper.make_vocabulary(range(SIZE, 0, -1)),
    ):
        with fixed_clipping_plan(CLIPPING_PLANS["lost words and counts"]):
            asked, *_ = record_queries(
                Posterior(),
                reference_paper.make_user_counts(np.ones((3, SIZE), np.int64)),
                public,
                Budget(1, 1e-6),
            )
        whole = Posterior().calibrate(public, Budget(1, 1e-6))
        counted = whole.total_variation * 24 * (whole.multiplier * UNITS) ** 2
        assert sum(values.size for _, values, _ in asked) == round(counted)


@pytest.mark.parametrize("choice", CLIPPING_PLANS.values(), ids=CLIPPING_PLANS)
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.name)
def test_the_budget_is_on_disk_before_any_noise_is_drawn(mechanism, choice, tmp_path, monkeypatch):
    ledger = Ledger.create(tmp_path / "a.ledger", population="p", budget=Budget(20, 1e-3))
    noise = Watching(ledger.path)
    monkeypatch.setattr(base, "ExactNoise", lambda: noise)
    public, counts = (
        vocabulary(False),
        reference_paper.make_user_counts(np.ones((3, SIZE), np.int64)),
    )
    with fixed_clipping_plan(choice):
        out = tmp_path / "out"
        release = publish.release(
            counts, public, mechanism, Budget(1, 1e-6), ledger=ledger, output=out
        )
    told = {"population": "p", "ledger": ledger.identity, "entry": 1, "epsilon": 20, "delta": 1e-3}
    assert release.card.ledger == told
    assert Release.load(out).card == release.card
    assert [entry.published for entry in ledger.read().reservations] == [True]
    assert noise.norm_histogram
    assert all(
        seen == [(1, mechanism.spend(public, Budget(1, 1e-6)))] for seen in noise.norm_histogram
    )
    inverse_variance, pure_epsilon, _ = cost(noise.asked, mechanism, public)
    charged = ledger.read().spends[0]
    assert inverse_variance <= Fraction(charged.inverse_variance)
    assert pure_epsilon <= Fraction(repr(charged.pure_epsilon))


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.name)
def test_without_budget_no_noise_is_drawn(mechanism, tmp_path, monkeypatch):
    ledger = Ledger.create(tmp_path / "a.ledger", population="p", budget=Budget(0.01, 1e-7))
    noise = Watching(ledger.path)
    monkeypatch.setattr(base, "ExactNoise", lambda: noise)
    counts = reference_paper.make_user_counts(np.ones((3, SIZE), np.int64))
    with pytest.raises(BayesgramError, match="Nothing was reserved"):
        publish.release(
            counts,
            vocabulary(False),
            mechanism,
            Budget(1, 1e-6),
            ledger=ledger,
            output=tmp_path / "out",
        )
    assert not (tmp_path / "out").exists()
    assert noise.asked == []
    assert ledger.read().last_number == 0


def test_a_release_that_fails_after_the_reservation_stays_spent_once(tmp_path, monkeypatch):
    ledger = Ledger.create(tmp_path / "a.ledger", population="p", budget=Budget(20, 1e-3))

    def broken(*_arguments, **_options):
        raise BayesgramError("no noise today")

    monkeypatch.setattr(ExactNoise, "discrete_gaussian", broken)
    with pytest.raises(BayesgramError, match="no noise today"):
        publish.release(
            reference_paper.make_user_counts(np.ones((3, SIZE), np.int64)),
            vocabulary(False),
            Gaussian(),
            Budget(1, 1e-6),
            ledger=ledger,
            output=tmp_path / "out",
        )
    assert [entry.published for entry in ledger.read().reservations] == [False]
    assert ledger.read().spends == [Gaussian().spend(vocabulary(False), Budget(1, 1e-6))]
    assert ledger.read().spends != [Spend()]
