"""A curator who looks at each release and then decides whether to make another one, played numerically.

Let L be the privacy loss of all releases so far, log P(outputs)/P′(outputs) for a pair of neighbours. If the curator
stops after release k, the cards promise (εₖ, δ) of all of them together. The best event of an adversary, over all rules
of stopping, has P(E) − Σₖ e^εₖ P′(E and stopped at k) = E[max(0, 1 − e^(ε_τ − L_τ))], maximised over stopping times τ:

    Vₙ(L) = (1 − e^(εₙ − L))₊,    Vₖ(L) = max((1 − e^(εₖ − L))₊, E Vₖ₊₁(L + N(μ²/2, μ²))),

which backward induction computes. A promise holds if V₀(0) ≤ δ. What was *spent* after k releases fails it: the true δ is
1.9, 5.1 and 11.7 times the one at which ε was computed, for 2, 8 and 52 releases of ε = 0.12. The budget of a ledger, which
does not depend on k, holds it.
"""

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import fftconvolve

from bayesgram.mechanisms.posterior import Posterior
from bayesgram.mechanisms.publish import release
from bayesgram.privacy.accounting import Allowance, Spend, composed_epsilon, gaussian_delta
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.ledger import Ledger
from bayesgram.releases.chain import composed_spend
from bayesgram.releases.previous import PreviousRelease
from mechanisms.test_replay import counts, vocabulary

PROMISE = re.compile(r"ε = ([0-9.e-]+), δ = ([0-9.e-]+) \(PROVED\)")
NUMBERS = (2, 8, 52)
WEEK = Budget(0.12, 1e-7)
STEPS = 40  # of the grid, in one μ: halving it changes no result by more than 0.1%


def true_delta(mu: float, epsilons: list[float]) -> float:
    """V₀(0): the δ of the best stopping rule, where stopping after release k promises epsilons[k − 1]."""
    step = mu / STEPS
    reach = 12 * mu * np.sqrt(len(epsilons)) + max(epsilons)
    losses = np.arange(-int(reach / step), int(reach / step) + 1) * step
    shifts = np.arange(-10 * STEPS, 10 * STEPS + 1) * step
    density = np.exp(-((shifts - mu**2 / 2) ** 2) / (2 * mu**2))
    density /= density.sum()

    def stopped(epsilon):
        return np.maximum(-np.expm1(epsilon - losses), 0.0)

    def expected(value):
        padded = np.concatenate(
            [np.full(10 * STEPS, value[0]), value, np.full(10 * STEPS, value[-1])]
        )
        return fftconvolve(padded, density[::-1], mode="valid")

    value = stopped(epsilons[-1])
    for epsilon in reversed(epsilons[:-1]):
        value = np.maximum(stopped(epsilon), expected(value))
    return float(expected(value)[losses.size // 2])


def test_without_a_choice_it_is_the_gaussian_curve():
    """The reference itself: promises that no longer rule of stopping can beat give δ_Gauss of all noise together."""
    mu = float(np.sqrt(Allowance.of(*vars(WEEK).values()).mu_squared))
    for number in NUMBERS:
        total = mu * np.sqrt(number)
        exact = float(gaussian_delta(np.array([0.4]), total)[0])
        assert true_delta(mu, [0.4] * number) == pytest.approx(exact, rel=3e-3)


@pytest.mark.parametrize(("number", "times"), [(2, 1.88), (8, 5.1), (52, 11.7)])
def test_what_was_spent_is_not_a_promise(number, times):
    """The reference has power: it finds how far the old line "all n together … (PROVED)" was from true."""
    mu_squared = Allowance.of(WEEK.epsilon, WEEK.delta).mu_squared
    epsilons = [composed_epsilon([Spend(mu_squared)] * k, WEEK.delta) for k in range(1, number + 1)]
    assert true_delta(float(np.sqrt(mu_squared)), epsilons) == pytest.approx(
        times * WEEK.delta, rel=0.02
    )


def cards_of_a_chain(number, ledger=None):
    """The cards of so many releases that follow one another, each as the product makes it."""
    made = release(counts("few", vocabulary()), vocabulary(), Posterior(), WEEK)
    cards = []
    for at in range(number):
        chain = PreviousRelease(made, f"week-{at}").chain.to_json() if at else None
        charged = None if ledger is None else ledger.charge_details(at + 1)
        made = replace(made, card=replace(made.card, chain=chain, ledger=charged))
        cards.append(made.card)
    return cards


@pytest.mark.parametrize("number", NUMBERS)
def test_a_chain_without_a_ledger_promises_nothing_about_all_of_it(number):
    """Whatever carries the word PROVED would have to hold for the curator above: what was spent does not carry it."""
    cards = cards_of_a_chain(number)
    mu = float(np.sqrt(Allowance.of(WEEK.epsilon, WEEK.delta).mu_squared))
    epsilons, deltas = (
        [WEEK.epsilon],
        [WEEK.delta],
    )  # the first one's own card promises of itself alone
    for card in cards[1:]:
        for epsilon, delta in PROMISE.findall(card.chain_sentence):
            epsilons.append(float(epsilon))
            deltas.append(float(delta))
    if len(epsilons) == number:  # every card promises something of all releases so far
        assert true_delta(mu, epsilons) <= max(deltas)
    assert not any("PROVED" in card.chain_sentence for card in cards[1:])
    assert all("Not a promise" in card.chain_sentence for card in cards[1:])
    epsilon, _ = composed_spend([*(cards[0].commitment,) * number])
    assert f"ε = {epsilon:.4g}"[:7] in cards[-1].chain_sentence


@pytest.mark.parametrize("number", NUMBERS)
def test_a_chain_on_a_ledger_promises_its_budget_whenever_the_curator_stops(tmp_path, number):
    budget = Budget(1.0, 1e-7)
    ledger = Ledger.create(tmp_path / "ledger", population="app users", budget=budget)
    cards = cards_of_a_chain(number, ledger)
    promises = [PROMISE.search(card.chain_sentence).groups() for card in cards[1:]]
    assert {(float(epsilon), float(delta)) for epsilon, delta in promises} == {
        (budget.epsilon, budget.delta)
    }
    assert all("ε = 1, δ = 1e-07" in card.person_sentence for card in cards)
    mu = float(np.sqrt(Allowance.of_budget(budget, failures=False).mu_squared / number))
    assert true_delta(mu, [budget.epsilon] * number) <= budget.delta * (
        1 + 3e-3
    )  # the grid's own error
