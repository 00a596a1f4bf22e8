"""e^ε, δ and beliefs as numbers for a person. Limits are rounded to the side on which they stay true."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal


def odds_factor(epsilon: float) -> str:
    """e^ε for a person, rounded up: it is a limit.

    >>> odds_factor(0.1), odds_factor(1.0), odds_factor(10.0), odds_factor(14.0), odds_factor(100.0)
    ('1.11', '2.72', '22,027', '1.3e+06', '2.7e+43')
    """
    factor = math.exp(epsilon)
    if factor >= 1e6:
        return two_digits_up(factor)
    return f"{_rounded(factor, '0.01', ROUND_CEILING)}" if factor < 100 else f"{math.ceil(factor):,}"


def two_digits_up(value: float) -> str:
    """Two significant digits, never below the value.

    >>> two_digits_up(3.71e-07), two_digits_up(1202604.3), two_digits_up(0.5), two_digits_up(1e-7)
    ('3.8e-07', '1.3e+06', '0.5', '1e-07')
    """
    shown = Decimal(repr(value))  # as a person would write it: 1e-7 is one ten-millionth
    return f"{float(shown.quantize(Decimal((0, (1,), shown.adjusted() - 1)), rounding=ROUND_CEILING)):g}"


def chance(delta: float) -> str:
    """δ as a chance, never below it.

    >>> chance(1e-7), chance(0.25), chance(1e-30), chance(0.9)
    ('1 in 10,000,000', '1 in 4', '1 in 1e+30', '90%')
    """
    if delta > 0.5:
        return f"{_rounded(100 * delta, '1', ROUND_CEILING)}%"
    turns = 1 / delta
    return f"1 in {math.floor(turns * (1 + 1e-12)):,}" if turns < 1e12 else f"1 in {turns:.2g}"


def believed(before: float, epsilon: float) -> tuple[str, str]:
    """Where somebody who held a thing for so likely can be brought, in percent: down, and up.

    >>> believed(0.1, 1.0)
    ('3.9', '23.2')
    """
    odds = before / (1 - before)
    low, high = (odds * math.exp(step) / (1 + odds * math.exp(step)) for step in (-epsilon, epsilon))
    return str(_rounded(100 * low, "0.1", ROUND_FLOOR)), str(_rounded(100 * high, "0.1", ROUND_CEILING))


def _rounded(value: float, to: str, way: str) -> Decimal:
    return Decimal(value).quantize(Decimal(to), rounding=way)
