"""Units of privacy in words: what they promise a person, and that one ledger counts in one of them."""

import hashlib
from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.errors import UsageError
from bayesgram.privacy.accounting import Spend
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.ledger import Ledger
from bayesgram.privacy.unit import (
    DEFAULT_UNIT,
    UNIT_EVER,
    check_unit,
    group_privacy,
    is_same_unit,
    promise,
)

WEEK = "a user's week"
SOME = Spend.gaussian(50.0)


@given(st.floats(1e-4, 10), st.floats(1e-12, 0.1), st.integers(1, 60))
def test_k_units_lie_k_steps_away(epsilon, delta, units):
    """Step by step, with 50 digits: P ≤ e^ε (…) + δ, k times; never less than that, and hardly more."""
    with localcontext(prec=50):
        factor, added, step = Decimal(1), Decimal(0), Decimal(epsilon).exp()
        for _ in range(units):
            factor, added = factor * step, added * step + Decimal(delta)
        together, slack = group_privacy(epsilon, delta, units)
        assert float(factor.ln()) == pytest.approx(together, rel=1e-12)
        assert added <= Decimal(slack) <= added * Decimal("1.0000000001")


def test_without_delta_there_is_none_for_groups_and_a_large_group_has_no_limit():
    assert group_privacy(0.5, 0.0, 4) == (2.0, 0.0)
    assert group_privacy(100.0, 1e-7, 1000)[1] == float("inf")
    assert promise("a post", 10.0, 1e-5).endswith(
        "of 2, ε = 20 and δ = 0.2203; of 10, no limit at all."
    )
    assert promise("a post", 0.5, 0.0).endswith("has k times the ε: of 2, ε = 1; of 10, ε = 5.")


def test_what_a_person_is_promised():
    assert (
        promise(UNIT_EVER, 1.0, 1e-6, "All")
        == "All is (ε = 1, δ = 1e-06) for a person, who has one user id."
    )
    week = promise(WEEK, 1.0, 1e-6)
    assert week.startswith(
        "This release is (ε = 1, δ = 1e-06) for one unit: a user's week. A person who wrote k of them"
    )
    assert "of 2, ε = 2 and δ = 3.719e-06; of 10, ε = 10 and δ = 0.01282." in week


@pytest.mark.parametrize("unit", ["", " a post", "a\npost", "a" * 201, "a \u202e post"])
def test_words_that_a_card_can_not_show_are_refused(unit):
    with pytest.raises(UsageError, match="say in 1 to 200 printable characters what one unit is"):
        check_unit(unit)


def test_which_units_are_the_same():
    assert is_same_unit("A User's week", WEEK)
    assert is_same_unit(UNIT_EVER, DEFAULT_UNIT)
    assert not is_same_unit(WEEK, UNIT_EVER)
    assert not is_same_unit(WEEK, "a post")


def ledger_in(folder):
    return Ledger.create(folder / "a.ledger", population="p", budget=Budget(1, 1e-6))


def test_a_ledger_counts_in_the_unit_of_its_first_entry(tmp_path):
    ledger = ledger_in(tmp_path)
    ledger.reserve(SOME, {"mechanism": "old"})  # of a version that had no units
    assert ledger.read().unit is None
    ledger.reserve(SOME, {"unit": WEEK})
    ledger.reserve(SOME, {"unit": "A user's  week"})
    before = hashlib.sha256(ledger.path.read_bytes()).digest()
    for ask in (ledger.reserve, ledger.check):
        with pytest.raises(
            UsageError, match=r"counts in another unit, .a user's week.* Nothing was reserved"
        ):
            ask(SOME, {"unit": DEFAULT_UNIT})
    with pytest.raises(UsageError, match="another unit"):
        ledger.check_unit("a post")
    assert hashlib.sha256(ledger.path.read_bytes()).digest() == before
    assert ledger.read().unit == WEEK
    assert ledger.read().promise.startswith(
        "Everything charged to this ledger together is (ε = 1, δ = 1e-06) for one"
    )


def test_a_check_refuses_what_reserve_refuses_and_charges_nothing(tmp_path):
    ledger = ledger_in(tmp_path)
    before = ledger.path.read_bytes()
    assert not ledger.check(SOME, {"unit": WEEK}).reservations
    for spend in (Spend.gaussian(1.0), Spend(pure_epsilon=2.0), Spend.gaussian(50.0, failure=0.1)):
        told = []
        for ask in (ledger.check, ledger.reserve):
            with pytest.raises(Exception, match="Nothing was reserved") as error:
                ask(spend, {})
            told.append(str(error.value))
        assert told[0] == told[1]
    assert ledger.path.read_bytes() == before
