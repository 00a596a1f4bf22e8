"""Which public text people write like: the learnt weights of several sources, in words. Released data only.

In:  what a card tells in `details`.   Out: weights with their uncertainty, and one sentence about them.
Does not fit the weights: the mechanism does, after the noise, so that nothing here costs privacy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DETAIL = "source_weights"  # what a card calls them
HARDLY = 0.1  # people hardly write like a source of less weight; where sources are many, of less than half its share
MOST_NAMED = 3  # sources that people hardly write like, by name
UNKNOWN = "Too noisy to say which public text your people write like."


@dataclass(frozen=True)
class SourceWeight:
    """How much of what people write a source explains, and the standard deviation of that."""

    name: str
    weight: float
    deviation: float

    @property
    def is_above_noise(self) -> bool:
        """Whether the weight is well above its noise."""
        return self.deviation < self.weight / 3

    def is_small(self, limit: float) -> bool:
        """Whether the weight is below the limit, and surely not far above it."""
        return self.weight < limit and self.weight + 2 * self.deviation <= 2 * limit

    @property
    def ends(self) -> tuple[float, float]:
        """Two standard deviations to each side, as far as weights go."""
        return max(self.weight - 2 * self.deviation, 0.0), min(self.weight + 2 * self.deviation, 1.0)

    @property
    def shown(self) -> str:
        """The weight with two standard deviations, in percent.

        >>> SourceWeight("reviews", 0.604, 0.007).shown, SourceWeight("wiki", 0.002, 0.0001).shown
        ('60% ± 1', '0% ± 1')
        """
        return f"{100 * self.weight:.0f}% ± {min(max(round(200 * self.deviation), 1), 100)}"


def source_weights(details: Mapping[str, Any]) -> dict[int, list[SourceWeight]]:
    """The sources of each order, short ones first, the heaviest source first; nothing where there is one source."""
    told = details.get(DETAIL, {})
    return {order: _heaviest_first(told[str(order)]) for order in sorted(map(int, told))}


def sources_sentence(details: Mapping[str, Any]) -> str | None:
    """What the weights of the longest n-grams say; None where there is one source.

    >>> found = {"wiki": (0.06, 0.004), "reviews": (0.6, 0.007), "talk": (0.34, 0.007)}
    >>> sources_sentence({DETAIL: {"3": {name: {"weight": w, "deviation": d} for name, (w, d) in found.items()}}})
    'Your people write like reviews (60% ± 1) and talk (34% ± 1), hardly like wiki (6%).'
    """
    by_order = source_weights(details)
    return _sentence(by_order[max(by_order)]) if by_order else None


def _heaviest_first(told: Mapping[str, Mapping[str, float]]) -> list[SourceWeight]:
    sources = [SourceWeight(name, float(found["weight"]), float(found["deviation"])) for name, found in told.items()]
    return sorted(sources, key=lambda source: -source.weight)


def _sentence(sources: Sequence[SourceWeight]) -> str:
    limit = min(HARDLY, 1 / (2 * len(sources)))
    like = [source for source in sources if source.weight >= limit and source.is_above_noise]
    small = [source for source in sources if source.is_small(limit)]
    unsure = [source for source in sources if source not in like and source not in small]
    if not like and not small:
        return UNKNOWN
    likes = listed([f"{source.name} ({source.shown})" for source in like])
    said = f"Your people write like {likes}" if like else "Your people"
    if small:
        said += f", hardly like {_small(small)}" if like else f" hardly write like {_small(small)}"
    return f"{said}. {_unsure(unsure, [*like, *small])}" if unsure else f"{said}."


def _unsure(sources: Sequence[SourceWeight], sure: Sequence[SourceWeight]) -> str:
    """What is known of them together, which is what the others leave: sources that are alike hide one another."""
    names, together = listed([source.name for source in sources]), sum(source.weight for source in sources)
    if len(sources) > 1 and sum(source.deviation for source in sure) < together / 3:
        return f"Too noisy to tell {names} apart ({_percent(together)} together)."
    return f"Too noisy to say about {names}."


def _small(sources: Sequence[SourceWeight]) -> str:
    if len(sources) > MOST_NAMED:
        return f"{len(sources)} others ({_percent(sum(source.weight for source in sources))} together)"
    return listed([f"{source.name} ({_percent(source.weight)})" for source in sources])


def _percent(weight: float) -> str:
    """In whole percent; 0% only where it is exactly that."""
    return "<1%" if 0 < weight < 0.005 else f"{100 * weight:.0f}%"


def listed(words: Sequence[str]) -> str:
    """Words as people list them.

    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
