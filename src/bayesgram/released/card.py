"""The card of a release: who is protected, by how much, and what that is worth."""

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from bayesgram.files.segments import ALL, OTHER, shown
from bayesgram.notebook import html
from bayesgram.privacy.budget import MAX_EPSILON, Guarantee
from bayesgram.privacy.unit import THESE_DATA, is_person, promise
from bayesgram.released.chain import Chain, Commitment
from bayesgram.released.labels import (
    Ingredient,
    ingredients_from_json,
    unique_ingredients,
    unproved_sentence,
    weakest_label,
)
from bayesgram.released.origins import (
    DISCOVERY,
    MADE_FROM,
    DiscoveryClaim,
    extended_by,
    made_from,
    union_of_claims,
)
from bayesgram.released.sources import sources_sentence
from bayesgram.released.weakness import MOST_USERS, Grade, Weakness, weaknesses, worst
from bayesgram.version import VERSION

# What cards of earlier versions lack.
LATER = ("command", "expected_users", "measured", "chain", "inferred", "unit", "segment", "answers", "distribution")
# Details that say something without the source code, and what a person calls them.
TOLD = {"model": "model", "clip_norm_used": "clip norm", "slope": "slope", "rho": "ρ", "threshold": "threshold"}
LONGEST_LIST = 10  # that a person is shown; card.json has all
REVIEWED = "reviewed"  # of the details of a discovery: whether a person has decided about each string
SINCE = "segments_since"  # of the details: which segments are new since the release before, and which are gone
DRIFT = "drift"  # of the details: how far people have moved since the release before, by order
NOBODY = "nobody for certain"
SEQUENTIAL = "with other releases about the same people, ε and δ add up, or less: see docs/ledger.md"
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
    ledger: dict[str, Any] | None = None  # which population was charged, and the number of the entry
    command: str | None = None  # as it was typed; None: made from Python, or by a version that did not note it
    measured: dict[str, Any] | None = None  # the file of noisy measurements; None: none were kept
    chain: dict[str, Any] | None = None  # the releases that it follows; None: none
    inferred: dict[str, Any] | None = None  # from which release's measurements; None: from its own
    expected_users: int | None = None  # a public bound on the number of users, where one was given
    unit: str | None = None  # what one unit of privacy is, as the curator said it; None: nobody said
    segment: dict[str, Any] | None = None  # whose release it is, of which list: `by`, `name`, `names`, `other`
    answers: str | None = None  # SHA-256 of the measurements of all people, where segments were released together
    distribution: dict[str, Any] | None = field(default=None, compare=False)  # its file, once it is written
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
        object.__setattr__(self, "statement", f"{why} (otherwise, this mechanism is {self.guarantee.name})")
        object.__setattr__(self, "guarantee", label)

    @property
    def ingredients(self) -> tuple[Ingredient, ...]:
        """Everything published that it was made from: sources and discoveries of its vocabulary, earlier releases."""
        links = () if self.chain is None else Chain.from_json(self.chain).links
        before = (
            Ingredient(link.name, own.guarantee, own.epsilon, own.delta, own.unit, *own.charged)
            for link in links
            for own in [link.commitment]
        )
        return unique_ingredients([*made_from(self.vocabulary), *made_from(self.inferred or {}), *before])

    @property
    def ingredients_of_vocabulary(self) -> tuple[Ingredient, ...]:
        """Releases and models that its vocabulary was made from: neither discoveries nor the releases it follows."""
        return ingredients_from_json(self.vocabulary.get(MADE_FROM, []))

    @property
    def discoveries(self) -> tuple[DiscoveryClaim, ...]:
        """Every discovery whose n-grams are in its vocabulary, or in that of the measurements it was inferred from."""
        described = (self.vocabulary, self.inferred or {})
        return union_of_claims([DiscoveryClaim(**claim) for claim in one.get("discoveries", [])] for one in described)

    @property
    def protects(self) -> str:
        """Who, and only where it is proved."""
        if self.guarantee is not Guarantee.PROVED:
            return NOBODY
        return f"{self.unit_shown} (neighbours: add or remove one {'user' if self.is_person else 'unit'})"

    @property
    def is_person(self) -> bool:
        """Whether one unit of privacy is all of a person's text, if the person has one id."""
        return is_person(self.unit_shown)

    @property
    def promise_sentence(self) -> str:
        """What the guarantee is, in a sentence that names the unit."""
        if self.guarantee is not Guarantee.PROVED:
            return self.statement
        return f"{self.statement} It is for adding or removing one unit: {self.unit_shown}."

    @property
    def unit_shown(self) -> str:
        """What one id of the user column stands for, as it was said; else all that it has there."""
        return self.unit or THESE_DATA

    @property
    def person(self) -> str | None:
        """What ε and δ mean for a person, by what the unit is; with a ledger, those of all its releases together."""
        if self.guarantee is not Guarantee.PROVED or self.epsilon is None:
            return None
        if not self.ledger or "epsilon" not in self.ledger:
            return promise(self.unit_shown, self.epsilon, self.delta or 0.0)
        subject = "Everything charged to its ledger together"
        return promise(self.unit_shown, self.ledger["epsilon"], self.ledger["delta"], subject)

    @property
    def composition(self) -> str:
        """How it adds up with other releases about the same people."""
        return SEQUENTIAL if self.guarantee is Guarantee.PROVED else "with nothing: no bound holds"

    @property
    def claim(self) -> str:
        """ε, δ and the label, with its grade where it protects little, for tables and one-line messages.

        It names the unit of privacy wherever that is less than all that a user wrote.
        """
        if self.epsilon is None:
            return f"no ε ({self.guarantee.name})"
        unit = "" if self.is_person else f" for {self.unit_shown}"
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
        who = "a user" if self.is_person else f"one unit ({self.unit_shown})"
        return weaknesses(self.epsilon, self.delta or 0.0, self.expected_users, who=who)

    @property
    def grade(self) -> Grade | None:
        """None: a usual promise, or one that is not proved."""
        return worst(self.weaknesses)

    @property
    def warnings(self) -> list[str]:
        """The same in whole sentences."""
        return [str(weakness) for weakness in self.weaknesses]

    @property
    def sources(self) -> str | None:
        """Which public text people write like, in a sentence; None where there is one source."""
        return sources_sentence(self.details)

    @property
    def discovered(self) -> str | None:
        """What people's own text added to the vocabulary, and what that cost them; None where all of it is public."""
        return extended_by(self.vocabulary)

    @property
    def is_unreviewed(self) -> bool:
        """Whether it publishes discovered strings that nobody has decided about (`bayesgram review`)."""
        if self.mechanism == DISCOVERY:
            return not self.details.get(REVIEWED, False)
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
    def charged(self) -> tuple[str | None, int | None]:
        """The identity of the ledger that was charged, and the number of its entry."""
        return self.commitment.charged

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
    def follows(self) -> str | None:
        """The releases before this one, and what is known of all together; None where it follows none."""
        if self.chain is None:
            return None
        sentence = Chain.from_json(self.chain).sentence(self.commitment)
        others = ", ".join(map(str, self.ingredients_of_vocabulary))
        return f"{sentence} What its vocabulary was made from is not counted: {others}." if others else sentence

    @property
    def inferred_again(self) -> str | None:
        """Whose measurements it was inferred from with other public text, in a sentence; None where from its own."""
        if self.inferred is None:
            return None
        told = self.inferred
        public = " and ".join(told["public_text"])
        numbers = f"{told['measured']:,} n-grams were measured, {told['not_measured']:,} were not"
        return (
            f"from the measurements of {told['from']}, with {public} as public text; {numbers}; nothing more was spent"
        )

    @property
    def vocabulary_sentence(self) -> str:
        """How many n-grams there are, and where they are from."""
        found = self.discovered
        return f"{self.counted}: public text, and {found}" if found else f"{self.counted}, stated to be public"

    @property
    def counted(self) -> str:
        """How many n-grams there are, and of which orders."""
        return f"{self.vocabulary['size']:,} n-grams of order {self._orders}"

    @property
    def segment_sentence(self) -> str | None:
        """Which people it is about; None where it is about everybody, and nothing else was released with it."""
        if self.segment is None:
            return None
        name, names = self.segment["name"], [*self.segment["names"], *([OTHER] if self.segment["other"] else [])]
        who = "all people" if name == ALL else f"{self.segment['by']} = {name}"
        since = self.details.get(SINCE, {})
        moved = "".join(f"; {what} since the release before: {shown(those)}" for what, those in since.items() if those)
        return f"{who}; one budget for all people and each of {len(names)} segments together ({shown(names)}){moved}"

    @property
    def _orders(self) -> str:
        return ", ".join(map(str, self.vocabulary.get("orders", [self.vocabulary["order"]])))

    @property
    def told(self) -> list[tuple[str, str]]:
        """What a person can use, a line each; `to_json` has everything."""
        settings = _listed(self.settings)
        details = _listed({said: self.details[name] for name, said in TOLD.items() if name in self.details})
        lines = [
            ("Mechanism", f"{self.mechanism} ({settings})" if settings else self.mechanism),
            ("Details", details),
            ("Guarantee", f"{self.guarantee.name}: {self.promise_sentence}"),
            ("Claims", self.claim),
            *(("Warning", warning) for warning in self.warnings),
            ("Protects", self.protects),
            ("A person", self.person or "" if self.unit or self.ledger else ""),
            ("Composes", self.composition),
            ("Vocabulary", self.vocabulary_sentence),
            ("Made from", ", ".join(map(str, self.ingredients_of_vocabulary))),
            ("Sources", self.sources or ""),
            ("Inferred", self.inferred_again or ""),
            ("Chain", self.follows or ""),
            ("Segment", self.segment_sentence or ""),
            ("Ledger", f"{self.ledger['population']}, entry {self.ledger['entry']}" if self.ledger else ""),
            ("Noise", SEEDED if self.seeded else ""),
        ]
        return [(name, line) for name, line in lines if line]

    def __str__(self) -> str:
        return "\n".join(f"{name + ':':<12}{line}" for name, line in self.told)

    def __repr__(self) -> str:
        return f"Card({self.mechanism}, {self.claim})"

    def _repr_html_(self) -> str:
        """For notebooks."""
        return html(repr(self), self.told)

    def to_json(self) -> dict[str, Any]:
        """Plain values, for card.json, with what they mean."""
        meaning: dict[str, Any] = {"promise": self.promise_sentence, "protects": self.protects, "person": self.person}
        meaning |= {"composition": self.composition, "follows": self.follows, "assumes": list(self.assumes)}
        meaning |= {"made_from": [str(each) for each in self.ingredients], "warnings": self.warnings}
        chain = None if self.chain is None else Chain.from_json(self.chain).sealed(self.commitment)
        return {**asdict(self), "chain": chain, "guarantee": self.guarantee.name, **meaning}

    @property
    def assumes(self) -> tuple[str, ...]:
        """What the guarantee needs from the curator."""
        if self.guarantee is not Guarantee.PROVED:
            return ()
        ids = ONE_ID if self.is_person else f"one user id is one unit: {self.unit_shown}"
        before = () if self.chain is None else (PUBLISHED,)
        return (ids, SMALL_DELTA, CHOSEN + EXCEPT if self.discovered else CHOSEN, *before)

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
    for name, most in (("epsilon", MAX_EPSILON), ("delta", 1.0), ("expected_users", MOST_USERS)):
        value = values[name]
        if value is not None and (type(value) not in {int, float} or not 0 <= value <= most):
            raise ValueError(f"{name} is not a number that a card has")


def _listed(values: dict[str, Any]) -> str:
    short = {name: value for name, value in values.items() if value is not None and not _is_long(value)}
    return ", ".join(f"{name} = {_shown(value)}" for name, value in short.items())


def _is_long(value: object) -> bool:
    return isinstance(value, list) and len(value) > LONGEST_LIST


def _shown(value: object) -> object:
    """Six digits are enough for a person, unless they would turn 0.9999999 into 1; card.json has them all."""
    if not isinstance(value, float) or (f"{value:.6g}" in {"0", "1"} and value not in {0.0, 1.0}):
        return value
    return f"{value:.6g}"
