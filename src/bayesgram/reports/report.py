"""What a report shows that was computed from private data, because somebody handed it over.

In:  scores and audits, as numbers.   Out: the page's private part, with what must be said of it. Reads no data itself.

One page about releases for a privacy officer, a product manager or a curious engineer.

In:  releases, public text's distribution where it is known, and private numbers only if somebody hands them over.
Out: HTML that stands alone (report.html beside this file is its template). Computes from releases and public numbers;
does not read private data, and stamps what was computed from it. Jinja escapes every string.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from importlib.resources import files
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from bayesgram.comparison.comparison import Comparison
from bayesgram.pages import head
from bayesgram.releases.card import Card
from bayesgram.reports import drawings
from bayesgram.reports.drawings import COLOURS, Point, Trace, percent, utility_drawing
from bayesgram.reports.explanation import CuratorStatements, verdict
from bayesgram.reports.views import ChangesView, DiscoveryView, ReleaseView, plain_number, printable
from bayesgram.version import VERSION


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
        return (card.mechanism, card.epsilon, card.delta) == (
            self.mechanism,
            self.epsilon,
            self.delta,
        )


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
            Point(
                printable(score.release),
                score.epsilon,
                score.kl or math.inf,
                COLOURS[score.guarantee],
            )
            for score in shown
            if score.epsilon != 0
        ]
        if len(points) < 2:
            return None
        public = next((score.kl for score in shown if score.epsilon == 0), None)
        return utility_drawing("KL against ε, lower is better", points, public)


TEMPLATE = "report.html"
NOTHING_SAID = CuratorStatements()
SQUARE = ("false alarms: says “in” of a user who is not", "misses: says “out” of a user who is in")


def page(
    releases: Sequence[ReleaseView],
    private: PrivatePart | None = None,
    discoveries: Sequence[DiscoveryView] = (),
    changes: Comparison | None = None,
    *,
    curator: CuratorStatements = NOTHING_SAID,
    day: date | None = None,
) -> str:
    """The whole document; `day` is when it is made, today unless said otherwise."""
    environment = Environment(
        loader=DictLoader(
            {TEMPLATE: files("bayesgram.reports").joinpath(TEMPLATE).read_text("utf-8")}
        ),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": plain_number, "probability": _probability, "percent": percent}
    template = environment.get_template(TEMPLATE)
    title = "PRIVATE – release report" if private else "Release report"
    audits = private.audits if private else []
    unmatched_audits = [
        audit for audit in audits if not any(audit.fits(item.card) for item in releases)
    ]
    return template.render(
        head=Markup(head(title)),  # noqa: S704 - ours, without a string from outside
        releases=releases,
        discoveries=discoveries,
        private=private,
        changes=None if changes is None else ChangesView(changes),
        version=VERSION,
        verdict=verdict(
            [(item.shown_name, item.card) for item in (*discoveries, *releases)],
            private=private is not None,
        ),
        said=[(name, printable(text)) for name, text in curator.told],
        units=list(dict.fromkeys(item.unit for item in (*discoveries, *releases))),
        day=day or datetime.now(UTC).date(),
        probability=_probability,
        weight=_weight,
        unmatched_audits=unmatched_audits,
        square=lambda traces: drawings.square_drawing(
            "Trade-off of the strongest attacks", traces, SQUARE
        ),
    )


def _weight(value: float) -> str:
    """One digit after the point: noise takes the others."""
    return f"{value:,.1f}"


def _probability(value: float) -> str:
    """Three digits.

    >>> _probability(0.00012345), _probability(0.0)
    ('1.23e-04', '0')
    """
    return f"{value:.2e}" if value else "0"
