"""What is asked of public text: how many n-grams of which orders; and that every source has some.

In:  orders, sizes, totals of sources.   Out: sizes by order, or an error.   Does not read text.
"""

from collections.abc import Iterable, Sequence
from numbers import Integral
from operator import index
from typing import Any

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.public.stored import MAX_SIZE
from bayesgram.text.ngrams import check_order


def sizes_by_order(order: int | Sequence[int], size: int | Sequence[int]) -> dict[int, int]:
    """How many n-grams there are to be of each order, the shortest first; one size is for all."""
    orders, sizes = sorted(map(check_order, set(_listed("order", order)))), _listed("size", size)
    if isinstance(size, Integral):
        sizes *= len(orders)
    if len(sizes) != len(orders):
        raise UsageError(
            f"size={','.join(map(str, sizes))}: {len(sizes)} sizes for {len(orders)} orders; give one, or one for each."
        )
    for each in sizes:
        if not 1 <= each <= MAX_SIZE:
            raise UsageError(f"size={each}: a vocabulary has 1 to {MAX_SIZE:,} n-grams.")
    return dict(zip(orders, sizes, strict=True))


def _listed(name: str, given: int | Sequence[int]) -> list[int]:
    """One whole number, or several; also NumPy's."""
    several: Any = [given] if isinstance(given, Integral) else given
    try:
        return [index(each) for each in several]
    except TypeError:
        raise UsageError(f"{name}: takes a whole number, or a list of whole numbers; give one such as 3.") from None


def refuse_empty(names: Iterable[str], totals: Sequence[Sequence[int]], orders: Sequence[int]) -> None:
    """Refuse a source without a single n-gram (totals: order × source); one that lacks an order is left out of it."""
    for name, own in zip(names, zip(*totals, strict=True), strict=True):
        if not any(own):
            wanted = ", ".join(map(str, orders))
            raise BayesgramError(
                f"source {name!r}: has not a single n-gram of order {wanted}; give it more text, or leave it out."
            )
