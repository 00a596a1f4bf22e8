"""Budgets."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.errors import UsageError
from bayesgram.privacy.budget import Budget

shares = st.lists(st.integers(1, 50), min_size=1, max_size=6).map(
    lambda n: [Fraction(k, sum(n)) for k in n]
)


@given(st.floats(0.01, 100), st.floats(1e-20, 0.999), shares)
def test_parts_never_add_up_to_more_than_the_whole(epsilon, delta, parts):
    split = Budget(epsilon, delta).split(*parts)
    assert sum(Fraction(repr(part.epsilon)) for part in split) <= Fraction(repr(epsilon))
    assert sum(Fraction(repr(part.delta)) for part in split) <= Fraction(repr(delta))
    assert sum(part.epsilon for part in split) == pytest.approx(epsilon)


@pytest.mark.parametrize("epsilon", [0, 9e-6, -1, math.nan, math.inf, -math.inf, 100.1, 1e300])
def test_bad_epsilon(epsilon):
    with pytest.raises(UsageError) as caught:
        Budget(epsilon, 1e-6)
    assert str(caught.value) == (
        f"epsilon={epsilon}: give a number from 1e-05 to 100; 0.1 is strong, 1 is usual, more than 10 protects nobody."
    )


@pytest.mark.parametrize(
    ("given", "kind"), [("1", "a str"), (True, "a bool"), (None, "None"), (1j, "a complex")]
)
def test_a_budget_of_no_numbers(given, kind):
    for name, budget in (("epsilon", (given, 1e-7)), ("delta", (1.0, given))):
        with pytest.raises(UsageError, match=f"^{name}: takes a number, and {kind} was given"):
            Budget(*budget)


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.float32, np.float64, Fraction])
def test_a_budget_of_any_numbers_is_of_python_s(kind):
    budget = Budget(kind(2), kind(0))
    assert budget == Budget(2.0, 0.0)
    assert {type(value) for value in vars(budget).values()} == {float}


@pytest.mark.parametrize("delta", [-1e-9, 1e-31, 1, 2, math.nan, math.inf])
def test_bad_delta(delta):
    with pytest.raises(UsageError) as caught:
        Budget(1.0, delta)
    assert str(caught.value) == (
        f"delta={delta}: give 0, or a number from 1e-30 to below 1; far below 1/(number of users), 1e-7 is usual."
    )


def test_shares_must_add_up_to_one():
    with pytest.raises(UsageError, match=r"^shares=1/2, 1/3: must be positive and add up to 1\.$"):
        Budget(1.0).split(Fraction(1, 2), Fraction(1, 3))
    with pytest.raises(UsageError, match=r"^shares=3/2, -1/2: must be positive and add up to 1\.$"):
        Budget(1.0).split(Fraction(3, 2), Fraction(-1, 2))
