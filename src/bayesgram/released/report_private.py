"""What a report shows that was computed from private data, because somebody handed it over.

In:  scores and audits, as numbers.   Out: the page's private part, with what must be said of it. Reads no data itself.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from bayesgram.released.card import Card
from bayesgram.released.changes_view import printable
from bayesgram.released.drawings import COLOURS, Trace
from bayesgram.released.utility_plane import Point, utility_drawing


@dataclass(frozen=True)
class Score:
    """How far a release is from private text, for one order. Private."""

    release: str
    mechanism: str
    guarantee: str
    epsilon: float | None
    delta: float | None
    order: int
    kl: float | None  # None: infinite


@dataclass(frozen=True)
class Attacks:
    """What an audit found. Private."""

    name: str
    mechanism: str
    guarantee: str
    epsilon: float | None
    delta: float | None
    verdict: str
    caught: bool
    findings: list[dict[str, Any]]
    traces: list[Trace]

    @property
    def about(self) -> str:
        """What was attacked."""
        claim = "no ε" if self.epsilon is None else f"ε = {self.epsilon:g}, δ = {self.delta or 0:g}"
        return f"{self.mechanism}, {claim} ({self.guarantee})"

    def fits(self, card: Card) -> bool:
        """Whether a release was made by what was attacked, with the same claim."""
        return (card.mechanism, card.epsilon, card.delta) == (self.mechanism, self.epsilon, self.delta)


@dataclass(frozen=True)
class PrivatePart:
    """Numbers computed from private data, shown because somebody asked, and what must be said of them."""

    warning: str
    scores: Sequence[Score] = ()
    audits: Sequence[Attacks] = ()

    @property
    def has_infinite(self) -> bool:
        """Whether a release rules out something that people wrote."""
        return any(score.kl is None for score in self.scores)

    @property
    def has_no_epsilon(self) -> bool:
        """Whether a release claims none."""
        return any(score.epsilon is None for score in self._longest)

    @property
    def perfect(self) -> list[str]:
        """What is not drawn, because its KL is 0."""
        return [printable(score.release) for score in self._longest if score.kl == 0]

    @property
    def _longest(self) -> list[Score]:
        longest = max((score.order for score in self.scores), default=0)
        return [score for score in self.scores if score.order == longest]

    @property
    def drawing(self) -> Markup | None:
        """KL against ε of the longest n-grams, where there are several."""
        shown = [score for score in self._longest if score.kl != 0]  # 0 has no logarithm
        points = [
            Point(printable(score.release), score.epsilon, score.kl or math.inf, COLOURS[score.guarantee])
            for score in shown
            if score.epsilon != 0
        ]
        if len(points) < 2:
            return None
        public = next((score.kl for score in shown if score.epsilon == 0), None)
        return utility_drawing("KL against ε, lower is better", points, public)
