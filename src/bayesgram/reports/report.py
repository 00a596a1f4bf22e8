"""The report: one page about releases, for a privacy officer, a product manager or an engineer.

In:  views of releases and discoveries, a comparison, and numbers from private data only if somebody
     hands them over (`PrivatePart`).
Out: an HTML document that stands alone; report.html, beside this file, is its template.

The page begins with half a page for whoever decides, then says what ε means, and then shows the
rest. Segments of one release share one explanation. Everything is computed from releases and public
numbers, except for numbers from private data, which the page stamps and does not compute. Jinja
escapes every string.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from importlib.resources import files
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from bayesgram.charts import Series, format_percent, format_probability, printable
from bayesgram.comparison.comparison import Comparison
from bayesgram.pages import html_head
from bayesgram.releases.card import Card
from bayesgram.releases.card_sections import order_name
from bayesgram.reports.explanation import CuratorStatements, publication_checks, verdict
from bayesgram.reports.pictures import ReleasePoint, draw_attack_curves, draw_utility
from bayesgram.reports.views import (
    CardView,
    ChangesView,
    DiscoveryView,
    ReleaseView,
    format_setting,
)
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
        "probability": format_probability,
        "percent": format_percent,
        "rate": _format_rate,
        "order_name": order_name,
    }
    groups = group_releases(releases)
    in_order = [member for group in groups for member in group.members]
    items = (*discoveries, *releases)
    audits = private.audits if private else []
    title = "PRIVATE – release report" if private else "Release report"
    return environment.get_template(TEMPLATE).render(
        head=Markup(html_head(title)),  # noqa: S704 - ours, without a string from outside
        releases=releases,
        discoveries=discoveries,
        groups=groups,
        anchors={view.name: f"release-{nth}" for nth, view in enumerate(in_order, start=1)},
        checks=publication_checks([item.card for item in items]),
        summary=summarize(items),
        explanations=share_explanations(items),
        glance=GlanceTable.from_views(discoveries, in_order),
        private=private,
        changes=None if changes is None else ChangesView(changes),
        version=VERSION,
        verdict=verdict(
            [(item.shown_name, item.card) for item in items],
            private=private is not None,
        ),
        statements=[(name, printable(text)) for name, text in curator.items],
        day=day or datetime.now(UTC).date(),
        has_boundaries=any(_has_boundaries(view.card) for view in releases),
        probability=format_probability,
        weight=_format_weight,
        unmatched_audits=[
            audit for audit in audits if not any(audit.is_about(item.card) for item in releases)
        ],
        trade_off=lambda curves: draw_attack_curves(curves).inline(),
    )


def _has_boundaries(card: Card) -> bool:
    """Whether n-grams of a release may have marks for the ends of a sentence."""
    return str(card.vocabulary.get("tokenizer")).endswith("boundaries")


# --- For whoever decides ---

WIDE_COLUMNS = ("mechanism", "δ", "odds change at most", "n-grams", "people")
MAX_DESCRIBED = 4  # releases that are described one by one at the beginning; a table has all


@dataclass(frozen=True)
class ReleaseGroup:
    """Releases that share one budget and one description: the segments of one release, or one."""

    name: str
    members: Sequence[ReleaseView]

    @property
    def first(self) -> ReleaseView:
        """The release that stands for all: that of all people."""
        return self.members[0]


def group_releases(releases: Sequence[ReleaseView]) -> list[ReleaseGroup]:
    """Put the segments of one release together, in the order of their first."""
    groups: dict[str, list[ReleaseView]] = {}
    for view in releases:
        key = view.card.answers if view.card.segment else None
        groups.setdefault(key or f"{len(groups)} {view.name}", []).append(view)
    return [ReleaseGroup(_group_name(members), members) for members in groups.values()]


def _group_name(members: Sequence[ReleaseView]) -> str:
    first = members[0]
    if first.card.segment is None or len(members) == 1:
        return first.shown_name
    folder = first.shown_name.rpartition("/")[0]
    segments = f"{len(members)} releases by {printable(first.card.segment['by'])}"
    return f"{folder} ({segments})" if folder else segments


@dataclass(frozen=True)
class SummaryLine:
    """An answer at the beginning of the page: sentences for all, or by the name of a release."""

    question: str
    answers: Sequence[tuple[str, Sequence[str]]]  # no name where the answer is for all


def summarize(items: Sequence[CardView]) -> list[SummaryLine]:
    """Answer what somebody who decides asks first; segments of one release are described once."""
    releases = [item for item in items if isinstance(item, ReleaseView)]
    named: list[tuple[str, CardView]] = [
        (item.shown_name, item) for item in items if not isinstance(item, ReleaseView)
    ]
    named += [(group.name, group.first) for group in group_releases(releases)]
    lines = [
        _answer("What it is", [(name, [item.contents]) for name, item in named]),
        _answer(
            "How many people",
            [
                (name, [item.people])
                for name, item in named
                if isinstance(item, ReleaseView) or not releases  # a discovery does not measure it
            ],
        ),
        _answer("How good it is", [(name, item.accuracy) for name, item in named]),
        _answer("What it costs", [(name, [item.cost]) for name, item in named]),
    ]
    return [line for line in lines if line.answers]


def _answer(question: str, answers: Sequence[tuple[str, Sequence[str]]]) -> SummaryLine:
    names: dict[tuple[str, ...], list[str]] = {}  # of those that have the same answer
    for name, sentences in answers:
        if sentences:
            names.setdefault(tuple(sentences), []).append(name)
    if len(names) > MAX_DESCRIBED:
        return SummaryLine(question, [("", ["See the table below."])])
    return SummaryLine(
        question,
        [
            ("" if len(named) == len(answers) else ", ".join(named), sentences)
            for sentences, named in names.items()
        ],
    )


@dataclass(frozen=True)
class SharedExplanation:
    """What ε means for all releases of which the same is true."""

    members: Sequence[CardView]

    @property
    def view(self) -> CardView:
        """One of them, for what is the same."""
        return self.members[0]

    @property
    def names(self) -> list[str]:
        """Their names."""
        return [member.shown_name for member in self.members]

    @property
    def promises(self) -> list[str]:
        """What is guaranteed, by each mechanism among them."""
        return list(dict.fromkeys(member.card.promise_sentence for member in self.members))

    @property
    def not_covered(self) -> list[str]:
        """What the guarantee of any of them says nothing about."""
        return list(dict.fromkeys(line for member in self.members for line in member.not_covered))


def share_explanations(items: Sequence[CardView]) -> list[SharedExplanation]:
    """Put releases together that have the same explanation of their guarantee."""
    groups: dict[tuple[Any, ...], list[CardView]] = {}
    for item in items:
        card = item.card
        key = (
            *(card.guarantee, card.grade, card.protects, card.person_sentence),
            *(tuple(item.meaning), tuple(card.warnings)),
        )
        groups.setdefault(key, []).append(item)
    return [SharedExplanation(group) for group in groups.values()]


@dataclass(frozen=True)
class GlanceTable:
    """All releases in one table; what is the same for all of them is said above it."""

    columns: dict[str, Sequence[Any]]  # cells by the name of their column
    shared: dict[str, str]  # values that all have, by the name of their column

    @staticmethod
    def style(column: str) -> Markup:
        """Return the class of a column that a phone does not show."""
        return Markup(' class="less"') if column in WIDE_COLUMNS else Markup("")

    @classmethod
    def from_views(
        cls, discoveries: Sequence[DiscoveryView], releases: Sequence[ReleaseView]
    ) -> "GlanceTable":
        """Build the table; a column that says the same in every row becomes a shared value."""
        items: list[CardView] = [*discoveries, *releases]
        anchors = [f"discovery-{nth}" for nth in range(1, len(discoveries) + 1)]
        anchors += [f"release-{nth}" for nth in range(1, len(releases) + 1)]
        sizes = [len(item.ngrams) for item in discoveries]
        sizes += [item.card.vocabulary["size"] for item in releases]
        none = ["–"] * len(discoveries)
        columns: dict[str, Sequence[Any]] = {
            "mechanism": [item.card.mechanism for item in items],
            "guarantee": [item.card.label for item in items],
            "ε": [format_setting(item.card.epsilon) for item in items],
            "δ": [format_setting(item.card.delta) for item in items],
            "odds change at most": [
                item.factor if item.factor == "–" else f"× {item.factor}" for item in items
            ],
            "n-grams": [f"{size:,}" for size in sizes],
            "people": [item.people_count for item in items],
            "covered": [*none, *(item.covered_share for item in releases)],
            "accurate": [*none, *(item.known_mass for item in releases)],
        }
        shared = {
            name: cells[0]
            for name, cells in columns.items()
            if len(items) > 1 and len(set(cells)) == 1
        }
        names = [(anchor, item.shown_name) for anchor, item in zip(anchors, items, strict=True)]
        shown = {name: cells for name, cells in columns.items() if name not in shared}
        if "guarantee" in shown:
            shown["guarantee"] = [item.card for item in items]
        known = {name: value for name, value in shared.items() if value != "–"}
        return cls({"release": names, **shown}, known)


def _format_weight(value: float) -> str:
    """Format with one digit after the point: noise hides the others."""
    return f"{value:,.1f}"


def _format_rate(rate: float) -> str:
    """Format a false discovery rate; tiny ones are a bound, as their digits mean nothing.

    >>> _format_rate(0.0312), _format_rate(1e-19)
    ('0.031', '<0.0001')
    """
    return "<0.0001" if rate < 1e-4 else f"{rate:.2g}"


# --- Numbers that were computed from private data ---


@dataclass(frozen=True)
class Score:
    """How far a release is from private text, for one order.

    Private: it is computed from private data.

    Attributes:
        release: The name of the release.
        mechanism: Its mechanism.
        guarantee: Its label.
        grade: The grade of a guarantee that protects little; None for others.
        unit: Whom it protects, if that is less than all that a user wrote.
        epsilon: Its ε.
        delta: Its δ.
        order: The order of the n-grams that are judged.
        kl: The KL divergence; None if it is infinite.
    """

    release: str
    mechanism: str
    guarantee: str
    epsilon: float | None
    delta: float | None
    order: int
    kl: float | None
    grade: str | None = None
    unit: str | None = None


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
