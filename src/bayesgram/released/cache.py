"""The words of the text that is being written, mixed into what a model expects next.

In:  the next words by a model, and the words that stand in the text already.   Out: the next words by both:
p(w) = (1 − λ) p(w|h) + λ c(w)/N, where c(w) of the last N words are w. A word that the model lacks, such as a name, is
suggested too once it was written.
It is for whoever writes the text: nothing is kept after the answer, and nothing goes into a model or a release.
"""

from collections import Counter
from collections.abc import Sequence

from bayesgram.errors import UsageError

CACHE_WEIGHT = 0.15  # λ where none is given: the best of seven on made-up people (benchmarks/cache.py)
MOST_CACHED = 200  # words: the last ones of a text


def check_weight(weight: float) -> float:
    """λ, if it can be one."""
    if not 0 <= weight < 1:
        raise UsageError(f"cache={weight}: the share of the words of this text is from 0 to less than 1, such as 0.15.")
    return weight


def cached_shares(words: Sequence[str], typed: str) -> dict[str, float]:
    """c(w)/N of the words that begin as typed."""
    last = words[-MOST_CACHED:]
    return {word: count / len(last) for word, count in Counter(last).items() if word.startswith(typed)}


def mixed_with_cache(
    expected: dict[str, float], shares: dict[str, float], weight: float, how_many: int
) -> list[tuple[str, float]]:
    """The likeliest words of both, of equal ones the first in byte order; `expected` has every word of `shares`.

    >>> mixed_with_cache({"you": 0.5, "ann": 0.0}, {"ann": 1.0}, 0.5, 2)
    [('ann', 0.5), ('you', 0.25)]
    """
    mixed = {word: (1 - weight) * p + weight * shares.get(word, 0.0) for word, p in expected.items()}
    return sorted(mixed.items(), key=lambda item: (-item[1], item[0].encode()))[:how_many]
