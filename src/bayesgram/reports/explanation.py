"""What the card of a release means for people: ε and δ in plain words, and a verdict.

Two readers are served: somebody whose text may be in the data (`explain_epsilon`,
`list_not_covered`), and whoever decides whether a release may be published (`verdict`,
`describe_contents`, `describe_people`, `describe_cost`, `publication_checks`). Both are answered
from cards alone.

(ε, δ)-DP compares the data with and without one user: P(E) ≤ e^ε P′(E) + δ for every event E, both
ways round. For δ = 0 that is a limit on odds. For δ > 0 a release tells no more about which of the
two datasets it was than an answer which is the truth with probability δ, and has odds within e^ε
otherwise (Kairouz, Oh, Viswanath: The Composition Theorem for Differential Privacy). Between two
texts that one user could have written lie two such steps, and the bounds multiply:
P(E) ≤ e^ε (e^ε P″(E) + δ) + δ = e^(2ε) P″(E) + (1 + e^ε) δ.

A card can't tell whether the conditions of a promise hold (one id a person, settings chosen without
looking at private text): the curator knows, and the verdict says so.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bayesgram.privacy.budget import Guarantee
from bayesgram.releases.card import Card
from bayesgram.releases.card_sections import (
    Grade,
    belief_bounds,
    format_chance,
    format_odds_factor,
    format_rounded_up,
    has_limited_norms,
    join_words,
    measured_orders,
    norm_histogram_noise_std,
    order_details,
    order_name,
)
from bayesgram.releases.provenance import DISCOVERY_MECHANISM, unproved_sentence
from bayesgram.releases.quality import (
    MIN_ERROR_REMOVED,
    coverage_advice,
    describe_coverage,
    format_percent,
    read_quality,
)
from bayesgram.version import page_pointer

# --- What ε and δ mean ---

NOT_COVERED = (
    (
        "Facts about people in general. Anybody could learn that a phrase is common, even if you"
        " had never written a word."
    ),
    (
        "One person with several user ids. Each id is protected by itself: k ids cost k times the"
        " ε, and more than k times the δ."
    ),
    "Other releases about the same people. Their ε and δ add up; a ledger keeps the sum.",
    (
        "People who have access to the private text, and what else they publish: for example a"
        " score on private data, or the exact number of users."
    ),
    (
        "A vocabulary or settings that somebody chose by looking at the private text. The release"
        " does not show whether that happened."
    ),
    "The time and the memory that the run took.",
)
SHARED_STRINGS = (
    "A string that many people share, such as the phone number of a support line or a common"
    " password. Discovery publishes it like any other word."
)
EMPIRICAL = (
    "Nothing for certain. ε = {epsilon} is the claim of the paper that this mechanism comes from."
    " Its noise is set from this very dataset, so the noise itself tells who is there:"
    f" {page_pointer('errata')}, E1."
)


def explain_epsilon(card: Card) -> list[str]:
    """Return sentences about ε and δ, for somebody who wonders whether to be in the data."""
    if card.epsilon is None:
        return ["No ε is claimed: this mechanism adds no noise. It serves as a comparison."]
    if card.seeded:
        sentence = "Nothing. The noise was made from a seed: whoever knows the seed can remove it."
        return [sentence]
    weakened = unproved_sentence(card.ingredients)
    if weakened is not None:
        return [f"Nothing. It was {weakened}."]
    if card.guarantee is not Guarantee.PROVED:
        return [EMPIRICAL.format(epsilon=f"{card.epsilon:g}")]
    delta = card.delta or 0.0
    subject = _Subject.from_card(card)
    return [
        _explain_factor(card.epsilon, delta, subject),
        _give_example(card.epsilon, delta, subject),
        _explain_delta(delta, subject),
        _explain_two_texts(card.epsilon, delta, subject),
    ]


def list_not_covered(card: Card) -> tuple[str, ...]:
    """Return what the guarantee says nothing about; where there is no guarantee, that."""
    if card.guarantee is not Guarantee.PROVED:
        return ("Everything: no limit is proved for this release.",)
    if card.discoveries_sentence or card.mechanism == DISCOVERY_MECHANISM:
        return (*NOT_COVERED, SHARED_STRINGS)
    return NOT_COVERED


@dataclass(frozen=True)
class _Subject:
    """What a promise is about, in the words of its sentences: a person's text, or less."""

    whom: str  # about whom little can be learnt
    text: str  # what is in the data or not
    everything: str  # what would be shown at worst
    other_content: str  # between which contents there are two steps

    @classmethod
    def from_card(cls, card: Card) -> "_Subject":
        if card.is_person:
            return cls(
                "you", "your text", "everything you wrote", "If you had written another text"
            )
        unit = f"one unit ({card.unit_text})"
        return cls(unit, unit, f"everything in {unit}", f"If {unit} had other content")


def _explain_factor(epsilon: float, delta: float, subject: _Subject) -> str:
    return (
        f"ε = {epsilon:g} limits what anybody can learn about {subject.whom} from this release,"
        f" whatever else they know. Take any conclusion that somebody may draw from it. Whether"
        f" {subject.text} is in the data changes the probability of that conclusion by at most a"
        f" factor of e^ε = {format_odds_factor(epsilon)}{', plus δ' if delta else ''}."
    )


def _give_example(epsilon: float, delta: float, subject: _Subject) -> str:
    low, high = belief_bounds(0.1, epsilon)
    return (
        f"Example{', ignoring δ' if delta else ''}: somebody believes with a probability of 10%"
        f" that {subject.text} is in the data. After they have seen this release, that probability"
        f" is at most {high}% and at least {low}%."
    )


def _explain_delta(delta: float, subject: _Subject) -> str:
    if delta == 0:
        return "δ = 0: this limit has no exception."
    return (
        f"δ = {delta:g} is added to that limit: the probability of a conclusion may grow by up to"
        f" another {format_chance(delta)}. The worst case is this: with that probability,"
        f" {subject.everything} is shown; otherwise, the limit holds."
    )


def _explain_two_texts(epsilon: float, delta: float, subject: _Subject) -> str:
    factor = format_odds_factor(2 * epsilon)
    steps = "removing the one and adding the other are two steps"
    limit = f"{subject.other_content} instead, the factor would be at most e^(2ε) = {factor}"
    if delta == 0:
        return f"{limit}: {steps}."
    added = (1 + math.exp(epsilon)) * delta
    void = " A probability can't grow by 1 or more, so this is no limit." if added >= 1 else ""
    return f"{limit}, plus (1 + e^ε)δ = {format_rounded_up(added)}: {steps}.{void}"


# --- Whether a release may be published ---

FIT = "May be published if the conditions below hold"
REVIEW = "May be published after a review of the discovered strings, if the conditions below hold"
WEAK = "Proved, but it protects little"
UNFIT = "Must not be published"
# The same about a single release, as the rest of a sentence.
SINGLE_VERDICTS = {
    FIT: "may be published if the conditions below hold.",
    REVIEW: (
        "may be published after a review of the discovered strings, if the conditions below hold."
    ),
    WEAK: "has a guarantee that is proved, but weak: it protects little.",
    UNFIT: "must not be published.",
}
PRIVATE = (
    "This page has private numbers, so the page itself must not be published. About what it"
    " reports on:"
)
UNREVIEWED = (
    "Nobody has reviewed the discovered strings yet. Many people can share a secret: decide about"
    " each string first (`bayesgram review`)."
)
ONE_BUDGET = (
    "Segments of one release share one budget, and so does whatever was inferred again from the"
    " same measurements."
)
ADD_UP = "ε and δ of releases about the same people add up."
ONE_SERIES = "Everything in one series shares one ε and δ, which do not add up."


@dataclass(frozen=True)
class CuratorStatements:
    """What the keeper of the data says of it; nothing here is checked."""

    population: str | None = None  # whose text it is
    period: str | None = None  # from when

    @property
    def items(self) -> list[tuple[str, str]]:
        """The names and texts of the statements that were made."""
        statements = [("Population", self.population), ("Period", self.period)]
        return [(name, text) for name, text in statements if text]


def verdict(cards: Sequence[tuple[str, Card]], *, private: bool = False) -> str:
    """Say whether releases and discoveries may be published, as far as their cards can tell.

    Args:
        cards: The name and the card of each.
        private: Whether the page that shows the verdict has numbers computed from private data.

    Returns:
        Some sentences: a verdict for each grade, why, and how budgets add up.
    """
    sentences = [PRIVATE] if private else []
    if len(cards) == 1:
        card = cards[0][1]
        noun = "discovery" if card.mechanism == DISCOVERY_MECHANISM else "release"
        sentences += [f"This {noun} {SINGLE_VERDICTS[grade_release(card)]}", explain_grade(card)]
    else:
        for grade in (FIT, REVIEW, WEAK, UNFIT):
            names = _join_segments([pair for pair in cards if grade_release(pair[1]) == grade])
            if names:
                sentences.append(f"{grade}: {', '.join(names)}.")
    if any(card.is_unreviewed and card.guarantee is Guarantee.PROVED for _, card in cards):
        sentences.append(UNREVIEWED)
    return " ".join([*sentences, *_explain_budgets([card for _, card in cards])])


def _join_segments(cards: Sequence[tuple[str, Card]]) -> list[str]:
    """Return names; several segments of one release are named together."""
    groups: dict[str, list[str]] = {}
    for name, card in cards:
        key = card.answers if card.segment and card.answers else f"one {name}"
        groups.setdefault(key, []).append(name)
    return [
        names[0]
        if len(names) == 1
        else f"{names[0].rpartition('/')[0] or names[0]} ({len(names)} segments)"
        for names in groups.values()
    ]


def grade_release(card: Card) -> str:
    """Return whether a release protects people, as far as its card can say."""
    if card.guarantee is not Guarantee.PROVED or card.grade is Grade.WORTHLESS:
        return UNFIT
    if card.grade is Grade.WEAK:
        return WEAK
    return REVIEW if card.is_unreviewed else FIT


def explain_grade(card: Card) -> str:
    """Return why, with the numbers and the unit that they are for."""
    if card.guarantee is not Guarantee.PROVED:
        weakened = unproved_sentence(card.ingredients)
        reason = f" It was {weakened}." if weakened else ""
        return f"Nothing is proved about its privacy: {card.claim}.{reason}"
    factor = format_odds_factor(card.epsilon or 0.0)
    about = "one user" if card.is_person else f"one unit ({card.unit_text})"
    # Not "except with probability δ": (ε, δ) does not imply that (docs/promise.md, "In odds").
    added = f", plus δ = {card.delta:g}" if card.delta else ""
    limit = (
        f"Whether {about} is in the data changes the probability of any conclusion by at most a"
        f" factor of {factor} (ε = {card.epsilon:g}){added}."
    )
    is_worthless = card.grade is Grade.WORTHLESS
    return f"{limit} Such a limit protects nobody." if is_worthless else limit


def _explain_budgets(cards: Sequence[Card]) -> list[str]:
    """How budgets of several releases add up: those from the same noisy answers have one."""
    series = [card.series_identity for card in cards if card.series_identity is not None]
    others = [card for card in cards if card.series_identity is None]
    keys = [card.budget_key for card in others if card.budget_key is not None]
    sentences = [ONE_BUDGET] if len(keys) > len(set(keys)) else []
    if len(series) > len(set(series)):
        sentences.append(ONE_SERIES)
    budgets = len(set(keys)) + len(others) - len(keys) + len(set(series))
    return [*sentences, ADD_UP] if budgets > 1 else sentences


# --- For whoever decides ---


@dataclass(frozen=True)
class PeopleEstimate:
    """About how many people a release is about: a sum of noisy numbers.

    >>> PeopleEstimate(99_936.0, 427.0).text
    'About 99,900 people, ± 900 (95%).'
    >>> PeopleEstimate(300.0, 427.0).text
    'Too few to tell: noise hides how many people it is about.'
    """

    users: float
    std: float

    @property
    def is_hidden(self) -> bool:
        """Whether noise may explain the number."""
        return self.users < 3 * self.std

    @property
    def text(self) -> str:
        """The number with no more digits than noise leaves."""
        if self.is_hidden:
            return "Too few to tell: noise hides how many people it is about."
        half_width = math.ceil(self._half_width / self._step) * self._step
        return f"About {self.rounded_users:,.0f} people, ± {half_width:,.0f} (95%)."

    @property
    def rounded_users(self) -> float:
        """The number of users with no more digits than noise leaves."""
        return round(self.users / self._step) * self._step

    @property
    def _half_width(self) -> float:
        return max(2 * self.std, 1.0)

    @property
    def _step(self) -> float:
        return 10.0 ** math.floor(math.log10(self._half_width))


def estimate_people(card: Card) -> PeopleEstimate | None:
    """Return about how many people wrote listed n-grams, by the noisy histogram of the card.

    It is that of the shortest n-grams, which most people write. The histogram is part of the
    release. None if the card has none, or allowances make users count as parts of a user. For a
    segment, it counts the people of all segments.
    """
    orders = measured_orders(card.details)
    if not orders:
        return None
    measured = order_details(card.details, orders[0])
    bins = measured.get("noisy_users_by_norm", [])
    if not bins or has_limited_norms(card.details):
        return None
    noise_std = norm_histogram_noise_std(card.details, orders[0])
    return PeopleEstimate(math.fsum(bins), noise_std * math.sqrt(len(bins)))


def describe_contents(card: Card) -> str:
    """Say what a release or a discovery is, for somebody who has never seen one."""
    size = f"{card.vocabulary['size']:,}"
    is_rows = card.is_of_rows
    ngrams = join_words([order_name(order, is_rows=is_rows) for order in card.vocabulary["orders"]])
    if card.mechanism == DISCOVERY_MECHANISM:
        return f"A list of {ngrams} that many people write and that public text lacks."
    source = "public text, corrected by what people write, with noise that protects each of them"
    if card.vocabulary.get("discovered") == card.vocabulary["size"]:
        source = "what people write, with noise that protects each of them"
    if card.guarantee is not Guarantee.PROVED:
        source = "private text, without a proved protection"
    return f"Probabilities of {size} {ngrams}. They come from {source}."


def describe_people(card: Card) -> str:
    """Say about how many people it is, and whether the number is noisy or stated."""
    estimate = estimate_people(card)
    if estimate is not None:
        together = " in all segments together" if card.segment else ""
        return estimate.text.replace(" people", f" people{together}", 1)
    if card.expected_users is not None:
        return f"At most {card.expected_users:,}, as the curator states."
    return "Not measured."


def describe_accuracy(card: Card) -> list[str]:
    """Say in a few short sentences how good a release is; empty where its card does not say."""
    qualities = [*read_quality(card.details).values()]
    if not qualities:
        return []
    coverage = describe_coverage(qualities)
    sentences = [coverage] if coverage else []
    advice = coverage_advice(card.details)
    sentences += [advice] if advice else []
    longest = qualities[-1]
    if longest.error_removed is None or longest.known_mass is None:
        return sentences
    ngrams = longest.name
    if longest.error_removed < MIN_ERROR_REMOVED:
        return [*sentences, f"For {ngrams}, the release is no better than public text alone."]
    removed = (
        f"On the listed {ngrams}, the release removes an estimated"
        f" {format_percent(longest.error_removed)} of the error that public text alone has."
    )
    known = (
        f"An estimated {format_percent(longest.known_mass)} of people's listed {ngrams} have a"
        " probability that is accurate within a factor of 2."
    )
    return [*sentences, removed, known]


def describe_cost(card: Card) -> str:
    """Say what publishing costs in privacy, and which budget paid for it."""
    if card.epsilon is None:
        return "No ε: nothing limits what it reveals."
    cost = f"ε = {card.epsilon:g}, δ = {card.delta or 0:g}"
    if card.guarantee is not Guarantee.PROVED:
        return f"{cost} is claimed, but not proved ({card.guarantee.name})."
    whom = "each user" if card.is_person else f"each unit ({card.unit_text})"
    if card.series_identity is not None:
        whom += ", for everything in its series together"
    paid = "No ledger was charged."
    if card.ledger:
        paid = (
            f"Charged to the ledger of {card.ledger['population']}, entry {card.ledger['entry']}."
        )
    return f"{cost} for {whom}. {paid}"


def publication_checks(cards: Sequence[Card]) -> list[str]:
    """Return what somebody must check before publishing; nothing of what must not be published."""
    fit = [card for card in cards if grade_release(card) != UNFIT]
    checks = [_id_check(card) for card in fit]
    checks += [check for check in [_delta_check(fit)] if check]
    if fit:
        checks.append("The public text is public: it holds no private text of these people.")
        checks.append(_choice_check(fit))
    if any(card.series_identity is not None for card in fit):
        checks.append("User ids stayed the same in all releases of the series.")
    if any(card.chain is not None for card in fit):
        checks.append("The earlier releases that it follows are published, or may be published.")
    if any(card.is_unreviewed for card in fit):
        checks.append("Somebody has reviewed each discovered string (`bayesgram review`).")
    if any(not card.ledger for card in fit):
        checks.append(
            "You know the sum of ε and δ of all releases about these people: no ledger keeps it."
        )
    return list(dict.fromkeys(checks))


def _id_check(card: Card) -> str:
    if not card.is_person:
        return f"One user id is one unit: {card.unit_text}."
    return (
        "Each person has one user id. A person with k ids has k times the ε, and more than k times"
        " the δ."
    )


def _delta_check(cards: Sequence[Card]) -> str:
    """Return that δ must be small, with the number of users where it is known; "" without δ."""
    delta = max((card.delta or 0.0 for card in cards), default=0.0)
    if not delta:
        return ""
    estimates = [estimate for estimate in map(estimate_people, cards) if estimate is not None]
    users = max((estimate.users for estimate in estimates if not estimate.is_hidden), default=0.0)
    about = f", which is about {1 / users:.0e}" if users else ""
    return f"δ = {delta:g} is far below 1 / (number of users){about}."


def _choice_check(cards: Sequence[Card]) -> str:
    chosen = "Nobody looked at the private text to choose the vocabulary or the settings"
    if any(card.discoveries_sentence for card in cards):
        return f"{chosen}, except by the discovery, which has an ε of its own."
    return f"{chosen}."
