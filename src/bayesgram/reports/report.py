"""The report: one page about releases, for a privacy officer, a product manager or an engineer.

In:  views of releases and discoveries, a comparison, and numbers from private data only if somebody
     hands them over (`PrivatePart`).
Out: an HTML document that stands alone; report.html, beside this file, is its template.

Everything else on the page is computed from releases and public numbers. The page stamps what was
computed from private data, and reads none itself. Jinja escapes every string.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from importlib.resources import files
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from bayesgram.charts import Series, format_percent, printable
from bayesgram.comparison.comparison import Comparison
from bayesgram.pages import html_head
from bayesgram.releases.card import Card
from bayesgram.reports.explanation import CuratorStatements, verdict
from bayesgram.reports.pictures import ReleasePoint, draw_attack_curves, draw_utility
from bayesgram.reports.views import ChangesView, DiscoveryView, ReleaseView, format_setting
from bayesgram.version import VERSION

TEMPLATE = "report.html"
NO_STATEMENTS = CuratorStatements()


def render_report(
    releases: Sequence[ReleaseView],
    private: "PrivatePart | None" = None,
    discoveries: Sequence[DiscoveryView] = (),
    changes: Comparison | None = None,
    *,
    curator: CuratorStatements = NO_STATEMENTS,
    day: date | None = None,
) -> str:
    """Render the report as an HTML document.

    Args:
        releases: What it is about.
        private: Numbers that were computed from private data, if somebody asked for them.
        discoveries: What it is about, too.
        changes: A comparison of the releases.
        curator: What the keeper of the data says of it.
        day: When the page is made; today without it.

    Returns:
        The document; it loads nothing and opens offline.
    """
    source = files("bayesgram.reports").joinpath(TEMPLATE).read_text("utf-8")
    environment = Environment(
        loader=DictLoader({TEMPLATE: source}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": format_setting,
        "probability": _format_probability,
        "percent": format_percent,
    }
    items = (*discoveries, *releases)
    audits = private.audits if private else []
    title = "PRIVATE – release report" if private else "Release report"
    return environment.get_template(TEMPLATE).render(
        head=Markup(html_head(title)),  # noqa: S704 - ours, without a string from outside
        releases=releases,
        discoveries=discoveries,
        private=private,
        changes=None if changes is None else ChangesView(changes),
        version=VERSION,
        verdict=verdict(
            [(item.shown_name, item.card) for item in items],
            private=private is not None,
        ),
        statements=[(name, printable(text)) for name, text in curator.items],
        units=list(dict.fromkeys(item.unit for item in items)),
        day=day or datetime.now(UTC).date(),
        probability=_format_probability,
        weight=_format_weight,
        unmatched_audits=[
            audit for audit in audits if not any(audit.is_about(item.card) for item in releases)
        ],
        trade_off=lambda curves: draw_attack_curves(curves).inline(),
    )


def _format_weight(value: float) -> str:
    """Format with one digit after the point: noise hides the others."""
    return f"{value:,.1f}"


def _format_probability(value: float) -> str:
    """Format with three digits.

    >>> _format_probability(0.00012345), _format_probability(0.0)
    ('1.23e-04', '0')
    """
    return f"{value:.2e}" if value else "0"


# --- Numbers that were computed from private data ---


@dataclass(frozen=True)
class Score:
    """How far a release is from private text, for one order.

    Private: it is computed from private data. A KL of None is infinite.
    """

    release: str
    mechanism: str
    guarantee: str
    epsilon: float | None
    delta: float | None
    order: int
    kl: float | None


@dataclass(frozen=True)
class AuditSummary:
    """What the report shows of an audit. Private: it is computed from private data."""

    name: str
    mechanism: str
    guarantee: str
    epsilon: float | None
    delta: float | None
    verdict: str
    refutes_claim: bool
    findings: list[dict[str, Any]]
    curves: list[Series]  # trade-offs of the strongest attacks, and what the claim allows

    @property
    def attacked_sentence(self) -> str:
        """The mechanism that was attacked, and its claim."""
        claim = "no ε" if self.epsilon is None else f"ε = {self.epsilon:g}, δ = {self.delta or 0:g}"
        return f"{self.mechanism}, {claim} ({self.guarantee})"

    def is_about(self, card: Card) -> bool:
        """Whether a release was made by what was attacked, with the same claim."""
        attacked = (self.mechanism, self.epsilon, self.delta)
        return (card.mechanism, card.epsilon, card.delta) == attacked


@dataclass(frozen=True)
class PrivatePart:
    """Numbers computed from private data, shown because somebody asked for them."""

    warning: str
    scores: Sequence[Score] = ()
    audits: Sequence[AuditSummary] = ()

    @property
    def has_infinite(self) -> bool:
        """Whether a release rules out something that people wrote."""
        return any(score.kl is None for score in self.scores)

    @property
    def has_no_epsilon(self) -> bool:
        """Whether a release claims no ε."""
        return any(score.epsilon is None for score in self._longest_scores)

    @property
    def names_with_zero_kl(self) -> list[str]:
        """Releases that are not drawn, because their KL is 0, which has no logarithm."""
        return [printable(score.release) for score in self._longest_scores if score.kl == 0]

    @property
    def _longest_scores(self) -> list[Score]:
        """Scores of the longest n-grams."""
        longest = max((score.order for score in self.scores), default=0)
        return [score for score in self.scores if score.order == longest]

    @property
    def drawing(self) -> Markup | None:
        """KL against ε of the longest n-grams, where there are several releases."""
        positive = [score for score in self._longest_scores if score.kl != 0]
        points = [
            ReleasePoint(
                printable(score.release), score.epsilon, score.kl or math.inf, score.guarantee
            )
            for score in positive
            if score.epsilon != 0
        ]
        if len(points) < 2:
            return None
        public_kl = next((score.kl for score in positive if score.epsilon == 0), None)
        return draw_utility(points, public_kl).inline()
