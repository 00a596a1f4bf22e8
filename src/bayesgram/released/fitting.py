"""The best model that has at most so many bytes.

In:  a way to build a model with at most so many n-grams, and a size.   Out: a quantised model whose folder fits.
All words stay, so the smallest model is that of the words and one n-gram more. Between it and the whole one the size
grows almost evenly with the number of n-grams, so a few tries find how many fit. Does not choose the n-grams: see
`pruning`.
"""

from collections.abc import Callable
from typing import NamedTuple

from bayesgram.errors import UsageError
from bayesgram.released.language_model import LanguageModel
from bayesgram.released.quantisation import BITS

TRIES = 9
CLOSE_ENOUGH = 0.98  # of the size that is allowed

Build = Callable[[int | None], LanguageModel]  # with at most so many n-grams, or with all


class FullSize(NamedTuple):
    """How large the model of all n-grams is, or nearly: what it has at the least."""

    words: int
    ngrams: int
    size: int


def fitted(build: Build, size: int, *, bits: int = BITS, whole: FullSize | None = None) -> LanguageModel:
    """The model with the most n-grams that is written in `size` bytes.

    The whole model is built where it may fit, or where nothing is known of it.
    """
    if whole is None or whole.size <= size:
        made = build(None).quantised(bits)
        if made.size_on_disk <= size:
            return made
        whole = FullSize(made.sizes[0], sum(made.sizes), made.size_on_disk)
    words, most, largest = whole
    fewest, found = words + 1, build(words + 1).quantised(bits)
    smallest = found.size_on_disk
    if smallest > size:
        raise UsageError(
            f"max_size={_told(size)}: the smallest model of these {words:,} words takes {_told(smallest)};"
            " allow that much, or make the vocabulary smaller."
        )
    for attempt in range(TRIES):
        if smallest >= CLOSE_ENOUGH * size or most - fewest <= 1:
            break
        share = ((CLOSE_ENOUGH + 1) / 2 * size - smallest) / (largest - smallest)
        share = share if attempt % 3 < 2 else 0.5  # where the size grows by leaps, halving is sure
        tried = min(max(fewest + int((most - fewest) * share), fewest + 1), most - 1)
        model = build(tried).quantised(bits)
        if model.size_on_disk <= size:
            found, fewest, smallest = model, tried, model.size_on_disk
        else:
            most, largest = tried, model.size_on_disk
    return found


def _told(size: int) -> str:
    """Bytes for people, rounded up: what is said is enough.

    >>> _told(999), _told(1001), _told(12_345_678)
    ('1KB', '2KB', '12.4MB')
    """
    return f"{-(-size // 1000)}KB" if size < 1_000_000 else f"{-(-size // 100_000) / 10:g}MB"
