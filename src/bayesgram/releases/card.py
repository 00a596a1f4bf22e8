"""e^ε, δ and beliefs as numbers for a person. Limits are rounded to the side on which they stay true.

What a proved (ε, δ) is worth: plain words where a promise holds and protects little.

In:  ε, δ, and a public bound on the number of users where there is one.   Out: sentences, each with a grade.
Numbers in, words out: does not ask whether the promise is proved (a card does), and reads nothing else.

Where the lines are drawn, and why there (docs/howto/choose-epsilon-and-delta.md says the same):

ε: e^ε is the factor by which odds may change. At ε = 4, even odds that somebody is in the data may become 54.6 to 1:
from there on a promise is weak. At ε = 10 they may become 22,027 to 1: whoever guesses is as good as certain.
δ: a mechanism that shows everything about each user with a chance of δ, and nothing otherwise, is (0, δ)-DP. So δ is a
chance that one person takes, and of n people n·δ are shown on average. A chance of 1 in 10,000 is weak for anybody,
and at 1 in 100 nobody can rely on it. With a bound n, a δ above 0.1/n is weak: that it happens to somebody is
then to be reckoned with.

Which public text people write like: the learnt weights of several sources, in words. Released data only.

In:  what a card tells in `details`.   Out: weights with their uncertainty, and one sentence about them.
Does not fit the weights: the mechanism does, after the noise, so that nothing here costs privacy.

How much users write, as a release tells it: the noisy histogram that chose the clip norm. Released data only.

The card of a release: who is protected, by how much, and what that is worth.

Whether a card.json holds values of the kinds that whatever shows or uses a card relies on.

In:  what the file holds.   Out: nothing, or a ValueError. A card is handed on and may have been edited: a number that
became a text must be an error where the release is opened, not on the third page of a report.
Does not know whether the values are true.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from enum import StrEnum
from typing import Any

from bayesgram.io.segments import ALL, OTHER, format_names
from bayesgram.notebook import html
from bayesgram.privacy.budget import MAX_EPSILON, Guarantee
from bayesgram.privacy.unit import DEFAULT_UNIT, check_unit, is_person, promise
from bayesgram.releases.chain import Chain, Commitment
from bayesgram.releases.provenance import (
    DISCOVERY_MECHANISM,
    MADE_FROM,
    DiscoveryClaim,
    Ingredient,
    discoveries_sentence,
    has_valid_provenance,
    ingredients_from_card,
    ingredients_from_json,
    merge_claims,
    unique_ingredients,
    unproved_sentence,
    weakest_label,
)
from bayesgram.version import VERSION


def format_odds_factor(epsilon: float) -> str:
    """e^ε for a person, rounded up: it is a limit.

    >>> format_odds_factor(0.1), format_odds_factor(1.0), format_odds_factor(10.0), format_odds_factor(14.0), format_odds_factor(100.0)
    ('1.11', '2.72', '22,027', '1.3e+06', '2.7e+43')
    """
    factor = math.exp(epsilon)
    if factor >= 1e6:
        return format_rounded_up(factor)
    return (
        f"{_rounded(factor, '0.01', ROUND_CEILING)}" if factor < 100 else f"{math.ceil(factor):,}"
    )


def format_rounded_up(value: float) -> str:
    """Two significant digits, never below the value.

    >>> format_rounded_up(3.71e-07), format_rounded_up(1202604.3), format_rounded_up(0.5), format_rounded_up(1e-7)
    ('3.8e-07', '1.3e+06', '0.5', '1e-07')
    """
    shown = Decimal(repr(value))  # as a person would write it: 1e-7 is one ten-millionth
    return f"{float(shown.quantize(Decimal((0, (1,), shown.adjusted() - 1)), rounding=ROUND_CEILING)):g}"


def format_chance(delta: float) -> str:
    """δ as a chance, never below it.

    >>> format_chance(1e-7), format_chance(0.25), format_chance(1e-30), format_chance(0.9)
    ('1 in 10,000,000', '1 in 4', '1 in 1e+30', '90%')
    """
    if delta > 0.5:
        return f"{_rounded(100 * delta, '1', ROUND_CEILING)}%"
    turns = 1 / delta
    return f"1 in {math.floor(turns * (1 + 1e-12)):,}" if turns < 1e12 else f"1 in {turns:.2g}"


def belief_bounds(before: float, epsilon: float) -> tuple[str, str]:
    """Where somebody who held a thing for so likely can be brought, in percent: down, and up.

    >>> belief_bounds(0.1, 1.0)
    ('3.9', '23.2')
    """
    odds = before / (1 - before)
    low, high = (
        odds * math.exp(step) / (1 + odds * math.exp(step)) for step in (-epsilon, epsilon)
    )
    return str(_rounded(100 * low, "0.1", ROUND_FLOOR)), str(
        _rounded(100 * high, "0.1", ROUND_CEILING)
    )


def _rounded(value: float, to: str, way: str) -> Decimal:
    return Decimal(value).quantize(Decimal(to), rounding=way)


WEAK_EPSILON, WORTHLESS_EPSILON = 4.0, 10.0
WEAK_DELTA, WORTHLESS_DELTA = 1e-4, 1e-2
MAX_USERS = 10**11  # nobody has more; a bound is not the place for a typing error
MAX_EXPECTED_EXPOSED = 0.1  # of one user: how many may be shown, on average
ROUNDING = 1 + 1e-9  # 1e-7 is no more than 0.1 / 1,000,000, whatever binary fractions make of that


class Grade(StrEnum):
    """How little a promise protects. A usual one has none."""

    WEAK = "weak"
    WORTHLESS = "worthless"


@dataclass(frozen=True)
class Weakness:
    """Why a promise protects little, in a sentence."""

    grade: Grade
    reason: str

    def __str__(self) -> str:
        return f"{self.grade.capitalize()}: {self.reason}"


def find_weaknesses(
    epsilon: float, delta: float, expected_users: int | None = None, *, who: str = "a user"
) -> list[Weakness]:
    r"""What is wrong with ε, and with δ; nothing for a usual promise. `who` is what the promise protects.

    >>> print(*find_weaknesses(100.0, 0.5), sep="\n")
    Worthless: ε = 100 allows odds to change by a factor of 2.7e+43: PROVED, and it protects nobody.
    Worthless: δ = 0.5 allows everything about a user to be shown with a chance of 1 in 2: PROVED, and no protection.
    >>> print(*find_weaknesses(4.0, 1e-6, expected_users=1_000_000), sep="\n")
    Weak: ε = 4 allows odds to change by a factor of 54.60: even odds that a user is in the data may become 54.60 to 1.
    Weak: δ = 1e-06 allows everything about 1 of 1,000,000 users to be shown, on average; stay far below 1/(number of
    users), at most 1e-07 here.
    >>> find_weaknesses(1.0, 1e-7, expected_users=1_000_000)
    []
    """
    found = (_of_epsilon(epsilon, who), _of_delta(delta, expected_users, who))
    return [each for each in found if each is not None]


def worst_grade(found: Sequence[Weakness]) -> Grade | None:
    """The grade of the whole: that of its weakest part."""
    grades = {each.grade for each in found}
    return next((grade for grade in (Grade.WORTHLESS, Grade.WEAK) if grade in grades), None)


def _of_epsilon(epsilon: float, who: str) -> Weakness | None:
    if epsilon < WEAK_EPSILON:
        return None
    allowed = f"ε = {epsilon:g} allows odds to change by a factor of {format_odds_factor(epsilon)}"
    if epsilon >= WORTHLESS_EPSILON:
        return Weakness(Grade.WORTHLESS, f"{allowed}: PROVED, and it protects nobody.")
    return Weakness(
        Grade.WEAK,
        f"{allowed}: even odds that {who} is in the data may become {format_odds_factor(epsilon)} to 1.",
    )


def _of_delta(delta: float, expected_users: int | None, who: str) -> Weakness | None:
    """One sentence: that δ is worthless, or too much for so many users, or too much for anybody."""
    personal = f"δ = {_shown(delta)} allows everything about {who} to be shown with a chance of"
    if delta >= WORTHLESS_DELTA:
        return Weakness(
            Grade.WORTHLESS, f"{personal} {format_chance(delta)}: PROVED, and no protection."
        )
    if expected_users is not None and delta * expected_users > MAX_EXPECTED_EXPOSED * ROUNDING:
        return Weakness(
            Grade.WEAK,
            f"δ = {_shown(delta)} allows everything about {format_rounded_up(delta * expected_users)} of"
            f" {expected_users:,} {'users' if who == 'a user' else 'units'} to be shown, on average; stay far below"
            f" 1/(number of users), at most"
            f" {MAX_EXPECTED_EXPOSED / expected_users:g} here.",
        )
    if delta >= WEAK_DELTA:
        return Weakness(
            Grade.WEAK, f"{personal} {format_chance(delta)}; stay far below 1/(number of users)."
        )
    return None


def _format_limit(delta: float) -> str:
    """Six digits, unless they would make 1 of 0.9999999."""
    return repr(delta) if f"{delta:g}" == "1" else f"{delta:g}"


SOURCE_WEIGHTS_DETAIL = "source_weights"  # what a card calls them
SMALL_WEIGHT = 0.1  # people hardly write like a source of less weight; where sources are many, of less than half its share
MAX_NAMED_SOURCES = 3  # sources that people hardly write like, by name
UNKNOWN_SOURCES = "Too noisy to say which public text your people write like."


@dataclass(frozen=True)
class SourceWeight:
    """How much of what people write a source explains, and the standard deviation of that."""

    name: str
    weight: float
    std: float

    @property
    def is_above_noise(self) -> bool:
        """Whether the weight is well above its noise."""
        return self.std < self.weight / 3

    def is_small(self, limit: float) -> bool:
        """Whether the weight is below the limit, and surely not far above it."""
        return self.weight < limit and self.weight + 2 * self.std <= 2 * limit

    @property
    def interval(self) -> tuple[float, float]:
        """Two standard deviations to each side, as far as weights go."""
        return max(self.weight - 2 * self.std, 0.0), min(self.weight + 2 * self.std, 1.0)

    @property
    def percent_text(self) -> str:
        """The weight with two standard deviations, in percent.

        >>> SourceWeight("reviews", 0.604, 0.007).shown, SourceWeight("wiki", 0.002, 0.0001).shown
        ('60% ± 1', '0% ± 1')
        """
        return f"{100 * self.weight:.0f}% ± {min(max(round(200 * self.std), 1), 100)}"


def read_source_weights(details: Mapping[str, Any]) -> dict[int, list[SourceWeight]]:
    """The sources of each order, short ones first, the heaviest source first; nothing where there is one source."""
    told = details.get(SOURCE_WEIGHTS_DETAIL, {})
    return {order: _heaviest_first(told[str(order)]) for order in sorted(map(int, told))}


def sources_sentence(details: Mapping[str, Any]) -> str | None:
    """What the weights of the longest n-grams say; None where there is one source.

    >>> found = {"wiki": (0.06, 0.004), "reviews": (0.6, 0.007), "talk": (0.34, 0.007)}
    >>> sources_sentence({SOURCE_WEIGHTS_DETAIL: {"3": {name: {"weight": w, "deviation": d} for name, (w, d) in found.items()}}})
    'Your people write like reviews (60% ± 1) and talk (34% ± 1), hardly like wiki (6%).'
    """
    by_order = read_source_weights(details)
    return _sentence(by_order[max(by_order)]) if by_order else None


def _heaviest_first(told: Mapping[str, Mapping[str, float]]) -> list[SourceWeight]:
    sources = [
        SourceWeight(name, float(found["weight"]), float(found["deviation"]))
        for name, found in told.items()
    ]
    return sorted(sources, key=lambda source: -source.weight)


def _sentence(sources: Sequence[SourceWeight]) -> str:
    limit = min(SMALL_WEIGHT, 1 / (2 * len(sources)))
    like = [source for source in sources if source.weight >= limit and source.is_above_noise]
    small = [source for source in sources if source.is_small(limit)]
    unsure = [source for source in sources if source not in like and source not in small]
    if not like and not small:
        return UNKNOWN_SOURCES
    likes = join_words([f"{source.name} ({source.percent_text})" for source in like])
    said = f"Your people write like {likes}" if like else "Your people"
    if small:
        said += f", hardly like {_small(small)}" if like else f" hardly write like {_small(small)}"
    return f"{said}. {_unsure(unsure, [*like, *small])}" if unsure else f"{said}."


def _unsure(sources: Sequence[SourceWeight], sure: Sequence[SourceWeight]) -> str:
    """What is known of them together, which is what the others leave: sources that are alike hide one another."""
    names, together = (
        join_words([source.name for source in sources]),
        sum(source.weight for source in sources),
    )
    if len(sources) > 1 and sum(source.std for source in sure) < together / 3:
        return f"Too noisy to tell {names} apart ({_percent(together)} together)."
    return f"Too noisy to say about {names}."


def _small(sources: Sequence[SourceWeight]) -> str:
    if len(sources) > MAX_NAMED_SOURCES:
        return (
            f"{len(sources)} others ({_percent(sum(source.weight for source in sources))} together)"
        )
    return join_words([f"{source.name} ({_percent(source.weight)})" for source in sources])


def _percent(weight: float) -> str:
    """In whole percent; 0% only where it is exactly that."""
    return "<1%" if 0 < weight < 0.005 else f"{100 * weight:.0f}%"


def join_words(words: Sequence[str]) -> str:
    """Words as people list them.

    >>> join_words(["a"]), join_words(["a", "b"]), join_words(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


# Cards say how noisy a bar is. Those of earlier versions don't: there, a user added this to one bar, in units of what
# all of the user may add; or all of it, and the noise is called histogram_multiplier.
USER_PART_BEFORE = 0.57


@dataclass(frozen=True)
class NormBin:
    """About how many users have a norm from `low` to `high`; noisy, so it can be below 0."""

    low: float
    high: float
    users: float
    clipped: bool


def norm_histogram_noise_std(card: "Card") -> float:
    """The standard deviation of the number of users in a bin; 0 where none were counted."""
    if "users_noise" in card.details:
        return float(card.details["users_noise"])
    if "amount_multiplier" in card.details:
        return float(card.details["amount_multiplier"]) / USER_PART_BEFORE
    return float(card.details.get("histogram_multiplier", 0.0))


def norm_histogram(card: "Card") -> list[NormBin]:
    """The bins between the first and the last with users in them; none where the clip norm was given."""
    edges, users = card.details.get("norm_edges", []), card.details.get("noisy_users_by_norm", [])
    if not edges:
        return []
    limit, noise = card.details["clip_norm_used"], 3 * norm_histogram_noise_std(card)
    lows, highs = [0.0, *edges], [*edges, float("inf")]
    bins = [
        NormBin(low, high, number, clipped=low >= limit)
        for low, high, number in zip(lows, highs, users, strict=True)
    ]
    seen = [at for at, found in enumerate(bins) if found.users > noise]
    return bins[seen[0] : seen[-1] + 1] if seen else []


# What cards of earlier versions lack.
LATER = (
    "command",
    "expected_users",
    "measured",
    "chain",
    "inferred",
    "unit",
    "segment",
    "answers",
    "distribution",
)
# Details that say something without the source code, and what a person calls them.
SHOWN_DETAILS = {
    "model": "model",
    "clip_norm_used": "clip norm",
    "slope": "slope",
    "rho": "ρ",
    "threshold": "threshold",
}
MAX_LIST_LENGTH = 10  # that a person is shown; card.json has all
REVIEWED_DETAIL = (
    "reviewed"  # of the details of a discovery: whether a person has decided about each string
)
SEGMENT_CHANGES_DETAIL = "segments_since"  # of the details: which segments are new since the release before, and which are gone
DRIFT_DETAIL = (
    "drift"  # of the details: how far people have moved since the release before, by order
)
NOBODY = "nobody for certain"
SEQUENTIAL = (
    "with other releases about the same people, ε and δ add up, or less: see docs/ledger.md"
)
SEEDED = "seeded: not for publication"
ONE_ID = "one person has one user id (k ids cost k times the ε, and at least k times the δ)"
SMALL_DELTA = "delta is far below 1 / (a public bound on the number of users)"
CHOSEN = "the vocabulary and the settings were chosen without looking at the private text"
PUBLISHED = "the releases that it follows were published, or could have been: they are public input"
EXCEPT = ", but for the n-grams that were discovered there, at an ε of their own"


@dataclass(frozen=True, repr=False)
class Card:
    """What a release says of itself. Everything here is public."""

    mechanism: str
    guarantee: Guarantee
    statement: str  # what the guarantee means for this mechanism, in one sentence
    epsilon: float | None  # None: no such number is claimed
    delta: float | None
    settings: dict[str, Any]  # the mechanism's public knobs
    details: dict[str, Any]  # what the run adds: how much noise, which settings were chosen
    vocabulary: dict[str, Any]
    seeded: bool
    ledger: dict[str, Any] | None = (
        None  # which population was charged, and the number of the entry
    )
    command: str | None = (
        None  # as it was typed; None: made from Python, or by a version that did not note it
    )
    measured: dict[str, Any] | None = None  # the file of noisy measurements; None: none were kept
    chain: dict[str, Any] | None = None  # the releases that it follows; None: none
    inferred: dict[str, Any] | None = None  # from which release's measurements; None: from its own
    expected_users: int | None = None  # a public bound on the number of users, where one was given
    unit: str | None = (
        None  # what one unit of privacy is, as the curator said it; None: nobody said
    )
    segment: dict[str, Any] | None = (
        None  # whose release it is, of which list: `by`, `name`, `names`, `other`
    )
    answers: str | None = (
        None  # SHA-256 of the measurements of all people, where segments were released together
    )
    distribution: dict[str, Any] | None = field(
        default=None, compare=False
    )  # its file, once it is written
    software: str = field(default=f"bayesgram {VERSION}")

    def __post_init__(self) -> None:
        """Give it the weakest label of everything that it was made from; a seeded one has none.

        Whoever knows a seed can take the noise away, and learn what a release that follows was made from.
        """
        own = Guarantee.NONE if self.seeded else self.guarantee
        label = weakest_label(own, [each.label for each in self.ingredients])
        if label is self.guarantee:
            return
        why = SEEDED if label is own else unproved_sentence(self.ingredients)
        object.__setattr__(
            self, "statement", f"{why} (otherwise, this mechanism is {self.guarantee.name})"
        )
        object.__setattr__(self, "guarantee", label)

    @property
    def ingredients(self) -> tuple[Ingredient, ...]:
        """Everything published that it was made from: sources and discoveries of its vocabulary, earlier releases."""
        links = () if self.chain is None else Chain.from_json(self.chain).links
        before = (
            Ingredient(
                link.name, own.guarantee, own.epsilon, own.delta, own.unit, *own.ledger_entry
            )
            for link in links
            for own in [link.commitment]
        )
        return unique_ingredients(
            [
                *ingredients_from_card(self.vocabulary),
                *ingredients_from_card(self.inferred or {}),
                *before,
            ]
        )

    @property
    def vocabulary_ingredients(self) -> tuple[Ingredient, ...]:
        """Releases and models that its vocabulary was made from: neither discoveries nor the releases it follows."""
        return ingredients_from_json(self.vocabulary.get(MADE_FROM, []))

    @property
    def discoveries(self) -> tuple[DiscoveryClaim, ...]:
        """Every discovery whose n-grams are in its vocabulary, or in that of the measurements it was inferred from."""
        described = (self.vocabulary, self.inferred or {})
        return merge_claims(
            [DiscoveryClaim(**claim) for claim in one.get("discoveries", [])] for one in described
        )

    @property
    def protects(self) -> str:
        """Who, and only where it is proved."""
        if self.guarantee is not Guarantee.PROVED:
            return NOBODY
        return f"{self.unit_text} (neighbours: add or remove one {'user' if self.is_person else 'unit'})"

    @property
    def is_person(self) -> bool:
        """Whether one unit of privacy is all of a person's text, if the person has one id."""
        return is_person(self.unit_text)

    @property
    def promise_sentence(self) -> str:
        """What the guarantee is, in a sentence that names the unit."""
        if self.guarantee is not Guarantee.PROVED:
            return self.statement
        return f"{self.statement} It is for adding or removing one unit: {self.unit_text}."

    @property
    def unit_text(self) -> str:
        """What one id of the user column stands for, as it was said; else all that it has there."""
        return self.unit or DEFAULT_UNIT

    @property
    def person_sentence(self) -> str | None:
        """What ε and δ mean for a person, by what the unit is; with a ledger, those of all its releases together."""
        if self.guarantee is not Guarantee.PROVED or self.epsilon is None:
            return None
        if not self.ledger or "epsilon" not in self.ledger:
            return promise(self.unit_text, self.epsilon, self.delta or 0.0)
        subject = "Everything charged to its ledger together"
        return promise(self.unit_text, self.ledger["epsilon"], self.ledger["delta"], subject)

    @property
    def composition_sentence(self) -> str:
        """How it adds up with other releases about the same people."""
        return SEQUENTIAL if self.guarantee is Guarantee.PROVED else "with nothing: no bound holds"

    @property
    def claim(self) -> str:
        """ε, δ and the label, with its grade where it protects little, for tables and one-line messages.

        It names the unit of privacy wherever that is less than all that a user wrote.
        """
        if self.epsilon is None:
            return f"no ε ({self.guarantee.name})"
        unit = "" if self.is_person else f" for {self.unit_text}"
        return f"ε = {_shown(self.epsilon)}, δ = {_shown(self.delta)}{unit} ({self.label})"

    @property
    def label(self) -> str:
        """PROVED, EMPIRICAL or NONE; a promise that is proved and protects little says so in the same breath."""
        return self.guarantee.name if self.grade is None else f"{self.guarantee.name}, {self.grade}"

    @property
    def weaknesses(self) -> list[Weakness]:
        """Why a promise that holds protects little; from ε, δ and the public bound on users alone."""
        if self.guarantee is not Guarantee.PROVED or self.epsilon is None:
            return []
        who = "a user" if self.is_person else f"one unit ({self.unit_text})"
        return find_weaknesses(self.epsilon, self.delta or 0.0, self.expected_users, who=who)

    @property
    def grade(self) -> Grade | None:
        """None: a usual promise, or one that is not proved."""
        return worst_grade(self.weaknesses)

    @property
    def warnings(self) -> list[str]:
        """The same in whole sentences."""
        return [str(weakness) for weakness in self.weaknesses]

    @property
    def sources_sentence(self) -> str | None:
        """Which public text people write like, in a sentence; None where there is one source."""
        return sources_sentence(self.details)

    @property
    def discoveries_sentence(self) -> str | None:
        """What people's own text added to the vocabulary, and what that cost them; None where all of it is public."""
        return discoveries_sentence(self.vocabulary)

    @property
    def is_unreviewed(self) -> bool:
        """Whether it publishes discovered strings that nobody has decided about (`bayesgram review`)."""
        if self.mechanism == DISCOVERY_MECHANISM:
            return not self.details.get(REVIEWED_DETAIL, False)
        return any(not claim.reviewed for claim in self.discoveries)

    @property
    def measured_hash(self) -> str | None:
        """SHA-256 of its measurements; None if none were kept."""
        return None if self.measured is None else self.measured.get("sha256")

    @property
    def budget_key(self) -> str | None:
        """What all results of the same noisy answers have in common: they share one budget. None if it is not known.

        These are the segments of one release, and what was inferred from its measurements again.
        """
        return self.answers or self.measured_hash

    @property
    def ledger_entry(self) -> tuple[str | None, int | None]:
        """The identity of the ledger that was charged, and the number of its entry."""
        return self.commitment.ledger_entry

    @property
    def commitment(self) -> Commitment:
        """What a chain's hash covers of this release."""
        return Commitment(
            epsilon=self.epsilon or 0.0,
            delta=self.delta or 0.0,
            guarantee=self.guarantee.name,
            seeded=self.seeded,
            measured=self.measured_hash or "",
            unit=self.unit,
            ledger=self.ledger,
            discoveries=self.discoveries,
        )

    @property
    def chain_sentence(self) -> str | None:
        """The releases before this one, and what is known of all together; None where it follows none."""
        if self.chain is None:
            return None
        sentence = Chain.from_json(self.chain).describe(self.commitment)
        others = ", ".join(map(str, self.vocabulary_ingredients))
        return (
            f"{sentence} What its vocabulary was made from is not counted: {others}."
            if others
            else sentence
        )

    @property
    def reinference_sentence(self) -> str | None:
        """Whose measurements it was inferred from with other public text, in a sentence; None where from its own."""
        if self.inferred is None:
            return None
        told = self.inferred
        public = " and ".join(told["public_text"])
        numbers = f"{told['measured']:,} n-grams were measured, {told['not_measured']:,} were not"
        return f"from the measurements of {told['from']}, with {public} as public text; {numbers}; nothing more was spent"

    @property
    def vocabulary_sentence(self) -> str:
        """How many n-grams there are, and where they are from."""
        found = self.discoveries_sentence
        return (
            f"{self.size_text}: public text, and {found}"
            if found
            else f"{self.size_text}, stated to be public"
        )

    @property
    def size_text(self) -> str:
        """How many n-grams there are, and of which orders."""
        return f"{self.vocabulary['size']:,} n-grams of order {self._orders}"

    @property
    def segment_sentence(self) -> str | None:
        """Which people it is about; None where it is about everybody, and nothing else was released with it."""
        if self.segment is None:
            return None
        name, names = (
            self.segment["name"],
            [*self.segment["names"], *([OTHER] if self.segment["other"] else [])],
        )
        who = "all people" if name == ALL else f"{self.segment['by']} = {name}"
        since = self.details.get(SEGMENT_CHANGES_DETAIL, {})
        moved = "".join(
            f"; {what} since the release before: {format_names(those)}"
            for what, those in since.items()
            if those
        )
        return f"{who}; one budget for all people and each of {len(names)} segments together ({format_names(names)}){moved}"

    @property
    def _orders(self) -> str:
        return ", ".join(map(str, self.vocabulary.get("orders", [self.vocabulary["order"]])))

    @property
    def summary_lines(self) -> list[tuple[str, str]]:
        """What a person can use, a line each; `to_json` has everything."""
        settings = _listed(self.settings)
        details = _listed(
            {
                said: self.details[name]
                for name, said in SHOWN_DETAILS.items()
                if name in self.details
            }
        )
        lines = [
            ("Mechanism", f"{self.mechanism} ({settings})" if settings else self.mechanism),
            ("Details", details),
            ("Guarantee", f"{self.guarantee.name}: {self.promise_sentence}"),
            ("Claims", self.claim),
            *(("Warning", warning) for warning in self.warnings),
            ("Protects", self.protects),
            ("A person", self.person_sentence or "" if self.unit or self.ledger else ""),
            ("Composes", self.composition_sentence),
            ("Vocabulary", self.vocabulary_sentence),
            ("Made from", ", ".join(map(str, self.vocabulary_ingredients))),
            ("Sources", self.sources_sentence or ""),
            ("Inferred", self.reinference_sentence or ""),
            ("Chain", self.chain_sentence or ""),
            ("Segment", self.segment_sentence or ""),
            (
                "Ledger",
                f"{self.ledger['population']}, entry {self.ledger['entry']}" if self.ledger else "",
            ),
            ("Noise", SEEDED if self.seeded else ""),
        ]
        return [(name, line) for name, line in lines if line]

    def __str__(self) -> str:
        return "\n".join(f"{name + ':':<12}{line}" for name, line in self.summary_lines)

    def __repr__(self) -> str:
        return f"Card({self.mechanism}, {self.claim})"

    def _repr_html_(self) -> str:
        """For notebooks."""
        return html(repr(self), self.summary_lines)

    def to_json(self) -> dict[str, Any]:
        """Plain values, for card.json, with what they mean."""
        meaning: dict[str, Any] = {
            "promise": self.promise_sentence,
            "protects": self.protects,
            "person": self.person_sentence,
        }
        meaning |= {
            "composition": self.composition_sentence,
            "follows": self.chain_sentence,
            "assumes": list(self.assumptions),
        }
        meaning |= {
            "made_from": [str(each) for each in self.ingredients],
            "warnings": self.warnings,
        }
        chain = (
            None
            if self.chain is None
            else Chain.from_json(self.chain).to_card_json(self.commitment)
        )
        return {**asdict(self), "chain": chain, "guarantee": self.guarantee.name, **meaning}

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the guarantee needs from the curator."""
        if self.guarantee is not Guarantee.PROVED:
            return ()
        ids = ONE_ID if self.is_person else f"one user id is one unit: {self.unit_text}"
        before = () if self.chain is None else (PUBLISHED,)
        return (ids, SMALL_DELTA, CHOSEN + EXCEPT if self.discoveries_sentence else CHOSEN, *before)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Card":
        """The inverse of `to_json`; what follows from the rest is made anew, so that old cards have it too."""
        values = {**dict.fromkeys(LATER), **values}
        _check_numbers(values)
        known = {field.name: values[field.name] for field in fields(cls)}
        chain = None if known["chain"] is None else {"links": known["chain"]["links"]}
        return cls(**{**known, "chain": chain, "guarantee": Guarantee[known["guarantee"]]})


def _check_numbers(values: dict[str, Any]) -> None:
    """Refuse a card from which nothing can be concluded."""
    for name, most in (("epsilon", MAX_EPSILON), ("delta", 1.0), ("expected_users", MAX_USERS)):
        value = values[name]
        if value is not None and (type(value) not in {int, float} or not 0 <= value <= most):
            raise ValueError(f"{name} is not a number that a card has")


def _listed(values: dict[str, Any]) -> str:
    short = {
        name: value for name, value in values.items() if value is not None and not _is_long(value)
    }
    return ", ".join(f"{name} = {_shown(value)}" for name, value in short.items())


def _is_long(value: object) -> bool:
    return isinstance(value, list) and len(value) > MAX_LIST_LENGTH


def _shown(value: object) -> object:
    """Six digits are enough for a person, unless they would turn 0.9999999 into 1; card.json has them all."""
    if not isinstance(value, float) or (f"{value:.6g}" in {"0", "1"} and value not in {0.0, 1.0}):
        return value
    return f"{value:.6g}"


_LARGEST = 1e300
_TEXTS = ("mechanism", "guarantee", "statement", "software")
_ORDERS = tuple("123456")
_LONGEST_NAME = 32  # of a source
_BOUNDS = ("clip_norm", "max_count", "max_total")  # settings that the report shows as numbers


def check_card_values(values: Mapping[str, Any]) -> None:
    """A ValueError, or a KeyError, if something is missing or of another kind."""
    settings, details, vocabulary, ledger = (
        values.get(name) for name in ("settings", "details", "vocabulary", "ledger")
    )
    _require("a text", all(isinstance(values[name], str) for name in _TEXTS))
    _require("command", isinstance(values.get("command"), str | None))
    _require("seeded", isinstance(values["seeded"], bool))
    _require("epsilon", values["epsilon"] is None or _is_number(values["epsilon"], 0, MAX_EPSILON))
    _require("delta", values["delta"] is None or _is_number(values["delta"], 0, 1))
    _require(
        "settings",
        isinstance(settings, dict) and all(_is_bound(settings.get(name)) for name in _BOUNDS),
    )
    _require("vocabulary", isinstance(vocabulary, dict) and _is_vocabulary(vocabulary))
    _require("ledger", ledger is None or (isinstance(ledger, dict) and _is_ledger(ledger)))
    _require("unit", values.get("unit") is None or _is_unit(values["unit"]))
    _require("answers", isinstance(values.get("answers"), str | None))
    _require("segment", _is_segment(values.get("segment")))
    _require("details", isinstance(details, dict) and _has_totals(details) and _has_norms(details))
    _require("segments", _has_segments_since(details or {}))
    _require("chain", _is_chain(values.get("chain")))
    _require("inferred", _is_inferred(values.get("inferred")))
    _require("sources", _has_sources(details or {}))


def _require(what: str, right: bool) -> None:
    if not right:
        raise ValueError(f"{what}: not what a card has")


def _is_number(value: object, low: float = -_LARGEST, high: float = _LARGEST) -> bool:
    """Finite, and not True: comparing is exact for whole numbers of any size."""
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def _is_unit(value: object) -> bool:
    return isinstance(value, str) and bool(check_unit(value))


def _is_ledger(told: dict[str, Any]) -> bool:
    """Its population and an entry; its budget, where the version noted it."""
    if not {"population", "entry"} <= set(told) or ("epsilon" in told) != ("delta" in told):
        return False
    return _is_number(told.get("epsilon", 1), 0, MAX_EPSILON) and _is_number(
        told.get("delta", 0), 0, 1
    )


def _is_bound(value: object) -> bool:
    return value is None or _is_number(value, 0)


def _is_vocabulary(told: dict[str, Any]) -> bool:
    orders = told.get("orders", [told.get("order")])
    whole = [told.get("size"), told.get("order"), *(orders if isinstance(orders, list) else [None])]
    texts = [told.get("tokenizer"), told.get("fingerprint")]
    if not all(type(number) is int and number >= 0 for number in whole):
        return False
    return all(isinstance(each, str) for each in texts) and has_valid_provenance(told)


def _is_chain(told: object) -> bool:
    """The releases that it follows, where there are any: refused where they are not what links are."""
    return told is None or (isinstance(told, dict) and bool(Chain.from_json(told).links))


def _is_inferred(told: object) -> bool:
    """From which measurements, where they are another release's."""
    if told is None:
        return True
    if not isinstance(told, dict):
        return False
    names, numbers = (
        told.get("public_text"),
        [told.get(name) for name in ("measured", "not_measured", "ignored")],
    )
    if not (
        isinstance(names, list) and names and all(map(_is_printable, [told.get("from"), *names]))
    ):
        return False
    if not all(type(number) is int and number >= 0 for number in numbers):
        return False
    ingredients_from_card(told)
    return True


def _is_printable(value: object) -> bool:
    return isinstance(value, str) and value.isprintable()


def _is_segment(told: object) -> bool:
    """Which people it is about, of which list; None: of everybody."""
    if told is None:
        return True
    if not (
        isinstance(told, dict) and all(isinstance(told.get(name), str) for name in ("by", "name"))
    ):
        return False
    names = told.get("names")
    return (
        isinstance(names, list)
        and all(isinstance(name, str) for name in names)
        and type(told.get("other")) is bool
    )


def _has_segments_since(details: dict[str, Any]) -> bool:
    """Which segments are new and which are gone, where a list has changed."""
    since = details.get(SEGMENT_CHANGES_DETAIL, {})
    lists = since.values() if isinstance(since, dict) and set(since) <= {"new", "gone"} else [None]
    return all(isinstance(names, list) and all(map(_is_printable, names)) for names in lists)


def _has_totals(details: dict[str, Any]) -> bool:
    """How often people wrote the n-grams of each order, where it is known."""
    totals = details.get("expected_counts", {})
    return isinstance(totals, dict) and all(_is_number(total, 0) for total in totals.values())


def _has_norms(details: dict[str, Any]) -> bool:
    """The histogram of norms, where there is one."""
    edges, users = details.get("norm_edges", []), details.get("noisy_users_by_norm", [])
    if not (
        isinstance(edges, list)
        and isinstance(users, list)
        and all(map(_is_number, [*edges, *users]))
    ):
        return False
    names = ("users_noise", "amount_multiplier", "histogram_multiplier")
    noise = [details[name] for name in names if name in details]
    if not all(_is_number(number, 0) for number in noise):
        return False
    if not edges:
        return True
    return (
        bool(noise)
        and _is_number(details.get("clip_norm_used"), 0)
        and len(users) == len(edges) + 1
    )


def _has_sources(details: dict[str, Any]) -> bool:
    """The weights of sources by order, where there are several."""
    orders = details.get("source_weights", {})
    if not (isinstance(orders, dict) and all(order in _ORDERS for order in orders)):
        return False
    return all(
        isinstance(sources, dict) and sources and _are_weights(sources)
        for sources in orders.values()
    )


def _are_weights(sources: dict[str, Any]) -> bool:
    return all(
        0 < len(name) <= _LONGEST_NAME
        and name.isprintable()
        and isinstance(found, dict)
        and _is_number(found.get("weight"), 0, 1)
        and _is_number(found.get("deviation"), 0)
        for name, found in sources.items()
    )
