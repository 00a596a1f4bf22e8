"""Plans: the page's numbers over several ε, releases, segments and ledgers; which ε reaches a target; and reality."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bayesgram as bg
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.inference.noisy_counts import PublicNgrams
from bayesgram.planning.plan import SharedBudget, candidate_epsilons, find_smallest_epsilon, plan
from bayesgram.planning.simulation import (
    Assumptions,
    Planner,
    PlanRequest,
    simulate_private_distribution,
)
from bayesgram.privacy.accounting import Spend, fits
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.calibration import calibrate_gaussian
from bayesgram.privacy.ledger import Ledger
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.tokenizer import Tokenizer
from helpers import reference_paper
from helpers.hypothesis_profiles import examples

pytestmark = pytest.mark.slow

SIZE = 60
MANY = {"users": 1e5, "draws": 1}


def vocabulary(size=SIZE):
    ngrams = pa.array([f"w{i % 7} w{i % 5} w{i}" for i in range(size)], pa.large_string())
    return Vocabulary(ngrams, 100_000 // np.arange(1, size + 1), 3, Tokenizer())


def noise_of(budget):
    return calibrate_gaussian(budget, coordinates=1000, units=1 << 30)


# What each of several releases may spend


@examples(12)
@given(st.sampled_from([0.1, 0.37, 1.0, 3.3]), st.sampled_from([1e-9, 1e-6]), st.integers(1, 400))
def test_releases_share_a_budget_as_a_ledger_composes_them(epsilon, delta, releases):
    each = SharedBudget(delta, releases).for_one_release(epsilon, noise_of)
    whole = Budget(epsilon, delta)
    assert fits([noise_of(each).spend] * releases, whole)
    more = noise_of(replace(each, epsilon=each.epsilon * 1.02)).spend
    assert not fits([more] * releases, whole)  # three digits are lost, no more
    sigma, of_all = noise_of(each).multiplier, noise_of(whole).multiplier
    assert releases / sigma**2 == pytest.approx(1 / of_all**2, rel=0.03)  # 1/σ² adds up


@pytest.mark.parametrize("first", [None, "a discovery", "a release"])
def test_what_a_ledger_has_left_is_shared_out_and_then_spent(first, tmp_path):
    ledger = Ledger.create(tmp_path / "a.ledger", population="p", budget=Budget(1, 1e-6))
    if first:
        spend = noise_of(Budget(0.3, 1e-6)).spend
        ledger.reserve(replace(spend, failure=1e-8 if first == "a discovery" else 0.0), {})
    shares = SharedBudget.from_ledger(ledger.read(), 5)
    each = shares.for_one_release(shares.max_epsilon, noise_of)
    for _ in range(5):
        ledger.reserve(noise_of(each).spend, {})
    with pytest.raises(BayesgramError, match="Nothing was reserved"):
        ledger.reserve(noise_of(each).spend, {})
    with pytest.raises(UsageError, match=r"epsilon=1\.5: more than there is"):
        shares.for_one_release(1.5, noise_of)


def test_nothing_left_is_said(tmp_path):
    ledger = Ledger.create(tmp_path / "a.ledger", population="p", budget=Budget(1, 1e-6))
    ledger.reserve(noise_of(Budget(1, 1e-6)).spend, {})
    with pytest.raises(BayesgramError, match="nothing is left of the ledger of 'p'"):
        plan(vocabulary(), ledger=ledger, **MANY)
    pure = Ledger.create(tmp_path / "b.ledger", population="p", budget=Budget(1, 0))
    with pytest.raises(UsageError, match="has δ = 0"):
        plan(vocabulary(), ledger=pure, **MANY)


# Rows


def test_a_plan_has_the_numbers_of_the_page():
    public = vocabulary()
    made = plan(
        public,
        users=1e5,
        ngrams_a_user=5,
        unevenness=1,
        difference=1.5,
        epsilon=[1, 0.3],
        delta=1e-7,
    )
    request = PlanRequest(Assumptions(1e5, 5, 1, 1.5), Budget(0.3, 1e-7), SIZE)
    draws = [Planner(public).simulate(request, draw) for draw in range(3)]
    row = made.rows[0]
    assert (row.epsilon, row.release_epsilon) == (0.3, 0.3)
    assert row.kl == pytest.approx(np.mean([draw.kl for draw in draws]))
    assert row.known_share == pytest.approx(np.mean([draw.known_share for draw in draws]))
    assert (row.kl_low, row.kl_high) == (
        min(draw.kl for draw in draws),
        max(draw.kl for draw in draws),
    )
    assert made.rows[1].kl < row.kl < row.public_kl
    assert made.rows[1].known_share > row.known_share
    assert json.loads(json.dumps(made.to_json()))["rows"][0]["kl"] == row.kl


def test_several_releases_are_each_as_good_as_one_of_that_budget():
    year = plan(vocabulary(), releases=52, epsilon=1.0, **MANY).rows[0]
    one = plan(vocabulary(), epsilon=year.release_epsilon, **MANY).rows[0]
    assert (year.kl, year.known_share) == (one.kl, one.known_share)
    assert 0.1 < year.release_epsilon < 0.2


def test_a_segment_is_a_part_of_the_people_and_that_is_said():
    twelve = plan(vocabulary(), users=12e4, segments=12, epsilon=1.0, draws=1)
    one = plan(vocabulary(), users=1e4, epsilon=1.0, draws=1)
    assert twelve.rows == one.rows
    assert any("An approximation" in note for note in twelve.notes)


def test_a_cut_vocabulary_is_said(monkeypatch):
    monkeypatch.setattr("bayesgram.planning.simulation.MAX_NGRAMS", 40)
    monkeypatch.setattr("bayesgram.planning.plan.MAX_NGRAMS", 40)
    made = plan(vocabulary(), epsilon=1.0, **MANY)
    assert made.size == 40
    assert (
        "The vocabulary has 60 n-grams of an order; the plan is of its 40 most frequent ones (more than"
        in made.notes[2]
    )


def test_where_noise_hides_everything_that_is_said():
    made = plan(vocabulary(), users=100, ngrams_a_user=0.1, epsilon=0.01, draws=1)
    assert made.rows[0].is_hidden
    assert any("Noise hides what people write" in note for note in made.notes)


# Which ε


@given(st.floats(1e-3, 100), st.floats(0.005, 12))
def test_the_first_candidate_that_reaches_it_is_found(place, largest):
    found, rows = find_smallest_epsilon(
        lambda row: row.epsilon >= place, lambda epsilon: SimpleNamespace(epsilon=epsilon), largest
    )
    assert found == next(
        (epsilon for epsilon in candidate_epsilons(largest) if epsilon >= place), None
    )
    assert len(rows) <= 9
    assert [row.epsilon for row in rows] == sorted(row.epsilon for row in rows)


@pytest.mark.parametrize("cores", [2, 3, 7])
@given(st.floats(1e-3, 100), st.floats(0.005, 12), st.booleans())
def test_rows_do_not_depend_on_the_number_of_cores(cores, place, largest, is_guessed):
    def search(cores):
        return find_smallest_epsilon(
            lambda row: row.epsilon >= place,
            lambda epsilon: SimpleNamespace(epsilon=epsilon),
            largest,
            measure=(lambda row: np.log(row.epsilon / place)) if is_guessed else None,
            cores=cores,
        )

    assert search(cores) == search(1)


def test_a_good_guess_saves_every_second_step():
    simulated = []

    def simulate_row(epsilon):
        simulated.append(epsilon)
        return SimpleNamespace(epsilon=epsilon)

    found, rows = find_smallest_epsilon(
        lambda row: row.epsilon >= 0.07,
        simulate_row,
        10.0,
        measure=lambda row: np.log(row.epsilon / 0.07),
        cores=2,
    )
    assert found == 0.07
    # One guess at most is wrong: the first, which has nothing to go by.
    assert len(simulated) <= len(rows) + 1


@pytest.mark.parametrize("target", [{"kl": 0.05}, {"known": 0.98}])
def test_the_epsilon_that_reaches_a_target(target):
    made = plan(vocabulary(), **target, **MANY)
    reached = next(row for row in made.rows if row.epsilon == made.epsilon)
    assert made.target.is_reached_by(reached)
    before = max(epsilon for epsilon in candidate_epsilons(10.0) if epsilon < made.epsilon)
    assert not made.target.is_reached_by(plan(vocabulary(), epsilon=before, **MANY).rows[0])
    assert f"ε = {made.epsilon:g} reaches" in made.answer


def test_where_none_reaches_it_that_is_the_answer(tmp_path):
    made = plan(vocabulary(), users=100, kl=1e-6, draws=1)
    assert made.epsilon is None
    assert made.answer.startswith("No ε up to 10 reaches a KL of 1e-06: there, expect a KL of")
    ledger = Ledger.create(tmp_path / "a.ledger", population="p", budget=Budget(0.5, 1e-6))
    left = plan(vocabulary(), users=1000, known=0.99, draws=1, ledger=ledger)
    assert (left.epsilon, left.rows[-1].epsilon) == (None, left.max_epsilon)
    assert left.max_epsilon <= 0.5


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"users": 0}, "users=0: give a number from 100"),
        ({"kl": 0.1, "known": 0.5}, "kl and known: give one of them"),
        ({"kl": 0.1, "epsilon": 1.0}, "epsilon: leave it out with kl or known"),
        ({"kl": float("nan")}, "kl=nan: give a number above 0"),
        ({"known": 1.2}, "known=1.2: give a share above 0 and below 1"),
        ({"epsilon": []}, "epsilon: give at least one"),
        ({"epsilon": [0.0]}, "epsilon=0.0: give a number"),
        ({"epsilon": [1.0] * 51}, "epsilon: 51 values; give at most 50"),
        ({"delta": 0}, "delta=0: the mechanism needs a delta above 0"),
        ({"releases": 0}, "releases=0: how many releases"),
        ({"releases": 10_000, "epsilon": 1e-3}, "releases=10000: too many for epsilon=0.001"),
        ({"segments": 0}, "segments=0: how many segments"),
        ({"segments": 5000}, "segments=5000: a segment would have 20 users; give at most 1000"),
        ({"size": 5}, "size=5: give a number of n-grams from 10 to 60"),
        ({"draws": 11}, "draws=11: how many releases are simulated"),
        ({"difference": 9}, "difference=9: give a number from 0 to 4"),
    ],
)
def test_what_can_not_be_planned(asked, words):
    with pytest.raises(UsageError) as error:
        plan(vocabulary(), **{"users": 1e5, **asked})
    assert str(error.value).startswith(words)


def test_a_ledger_has_a_delta_of_its_own(tmp_path):
    ledger = Ledger.create(tmp_path / "a.ledger", population="p", budget=Budget(0.5, 1e-6))
    with pytest.raises(UsageError, match="the ledger has a δ of its own"):
        plan(vocabulary(), ledger=ledger, delta=1e-7, **MANY)
    made = plan(vocabulary(), ledger=ledger, **MANY)
    assert (made.delta, made.ledger) == (1e-6, "p")
    assert [row.epsilon for row in made.rows] == [0.1, 0.2, made.max_epsilon]


# Reality


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_people_like_those_assumed_are_released_as_planned(epsilon):
    """5,000 users who write as the plan assumes, through the real mechanism: KL within a factor of 1.6."""
    public, rng, users = vocabulary(400), np.random.default_rng(4), 5000
    ngrams = PublicNgrams.of(public)
    private = simulate_private_distribution(ngrams, 1.5, rng=rng)
    amounts = np.maximum(rng.lognormal(np.log(8) - 0.5, 1.0, users), 1).astype(int)
    people = np.array([rng.multinomial(amount, private) for amount in amounts])
    made = bg.release(
        reference_paper.make_user_counts(people),
        public,
        bg.Posterior(),
        Budget(epsilon, 1e-6),
        seed=1,
    )
    actual = bg.kl_divergence(people.sum(axis=0), made.probabilities)
    planned = plan(
        public,
        users=users,
        ngrams_a_user=amounts.mean(),
        unevenness=1.0,
        difference=1.5,
        epsilon=epsilon,
        delta=1e-6,
    )
    assert 1 / 1.6 < planned.rows[0].kl / actual < 1.6, (planned.rows[0].kl, actual)


def test_the_whole_spend_of_a_plan_is_that_of_the_mechanism():
    """The σ that is planned with is the σ that the release adds."""
    public, budget = vocabulary(), Budget(0.7, 1e-7)
    spend = bg.Posterior().spend(public, budget)
    assert isinstance(spend, Spend)
    assert Planner(public).calibrate_noise(budget, SIZE).spend.inverse_variance == pytest.approx(
        spend.inverse_variance
    )
