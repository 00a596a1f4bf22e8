"""A failure probability beside the noise, in a ledger."""

import math
from fractions import Fraction

import pytest

from bayesgram.errors import BayesgramError
from bayesgram.privacy.accounting import Allowance, Spend
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.ledger import Ledger
from helpers.ledger_files import SMALL_SPEND, edit_ledger

FOUND = Spend.gaussian(40.0, total_variation=1e-20, failure=1e-7)


def test_a_ledger_that_begins_with_a_discovery_sets_a_quarter_of_its_delta_aside(ledger):
    assert ledger.check_discovery() == Allowance.of(1.0, 1e-6, failures=True)
    assert ledger.reserve(FOUND, {"mechanism": "discover"}) == 1
    ledger.reserve(Spend.gaussian(50.0), {})
    assert ledger.reserve(FOUND, {}) == 3
    contents = ledger.read()
    assert contents.spends == [FOUND, Spend.gaussian(50.0), FOUND]
    assert contents.spent_failure() == 2e-7
    left = ledger.check_discovery()
    assert left == contents.remaining_for_discovery()
    assert left.failure == float(Fraction(2.5e-7) - Fraction(2e-7))
    with pytest.raises(BayesgramError) as caught:
        ledger.reserve(FOUND, {})
    assert str(caught.value) == (
        "the budget of population 'app users' has no room for this discovery: discoveries may fail with probability 2.5e-07"
        " together (a quarter of its δ), 2e-07 of that is spent, and this one asks for 1e-07: give it a smaller δ. Nothing"
        " was reserved."
    )
    assert (
        ledger.reserve(
            Spend.gaussian(1 / math.sqrt(left.mu_squared * 0.5), failure=left.failure), {}
        )
        == 4
    )
    with pytest.raises(
        BayesgramError, match=r"2\.5e-07 of that is spent, and none is left\. Nothing was"
    ):
        ledger.check_discovery()
    ledger.reserve(Spend.gaussian(50.0), {})  # noise goes on


def test_what_is_left_for_a_discovery_can_be_charged_whole_and_no_more(ledger):
    ledger.reserve(FOUND, {})
    left = ledger.check_discovery()
    ledger.reserve(Spend(left.mu_squared, 0.0, left.total_variation, left.failure), {})
    with pytest.raises(
        BayesgramError,
        match=r"Nothing was reserved\. As its first entry may fail, a quarter of δ",
    ):
        ledger.reserve(Spend(1e-12), {})
    assert ledger.read().describe_remaining() == "nothing"


def test_a_discovery_is_refused_where_the_first_entry_was_none_and_nothing_is_stored(used):
    before = used.path.read_bytes()
    for refused in (used.check_discovery, lambda: used.reserve(FOUND, {})):
        with pytest.raises(BayesgramError) as caught:
            refused()
        assert str(caught.value) == (
            "the budget of population 'app users' has no room for this discovery: its first entry was no discovery, so all"
            " of its δ belongs to noise and none was set aside for the chance that a discovery publishes what only one"
            " person wrote. Go on without a discovery, or charge it to a new ledger before anything else; if that is for"
            " the same people, what both ledgers spend adds up. Nothing was reserved."
        )
        assert caught.value.exit_code == 1
    assert used.path.read_bytes() == before
    assert (used.read().last_number, used.read().spends) == (5, [SMALL_SPEND] * 4)


def test_it_is_refused_also_where_somebody_else_came_first(ledger):
    assert ledger.check_discovery().failure == 2.5e-7
    Ledger.open(ledger.path).reserve(SMALL_SPEND, {})
    with pytest.raises(BayesgramError, match="its first entry was no discovery"):
        ledger.reserve(FOUND, {})
    assert ledger.read().spends == [SMALL_SPEND]


def test_it_is_refused_where_delta_is_zero_or_nothing_is_left_for_noise(tmp_path, ledger):
    pure = Ledger.create(tmp_path / "a.ledger", population="p", budget=Budget(1))
    for refused in (pure.check_discovery, lambda: pure.reserve(FOUND, {})):
        with pytest.raises(
            BayesgramError,
            match=r"it has δ = 0, and a discovery needs a δ\. Use a ledger of δ > 0\.",
        ):
            refused()
    ledger.reserve(Spend(ledger.check_discovery().mu_squared, failure=1e-9), {})
    with pytest.raises(
        BayesgramError, match=r"nothing of it is left for noise\. Nothing was reserved\."
    ):
        ledger.check_discovery()


def test_the_whole_budget_as_noise_is_too_much_for_a_discovery(ledger):
    """Where nothing may fail it fits to the last digit; a quarter of δ is 1.4% of σ."""
    whole = Allowance.of(1.0, 1e-6).mu_squared
    with pytest.raises(
        BayesgramError,
        match=r"would be ε = 1\.015.*noise has δ = 7\.5e-07 \(`bayesgram docs ledger` or \S+\)\.$",
    ):
        ledger.reserve(Spend(whole, failure=1e-9), {})
    assert ledger.reserve(Spend(whole), {}) == 1


@pytest.mark.parametrize("failure", ["'0.0'", "NULL", "'1e-08'"])
def test_an_edited_failure_is_noticed(ledger, failure):
    ledger.reserve(FOUND, {})
    edit_ledger(ledger.path, f"UPDATE entries SET failure = {failure}")
    with pytest.raises(BayesgramError, match="entry 1 was changed"):
        ledger.read()
