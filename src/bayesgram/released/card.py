"""The card of a release: who is protected, by how much, and what that is worth."""

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from bayesgram.privacy.budget import MAX_EPSILON, Guarantee
from bayesgram.released.chain import Chain, together
from bayesgram.released.origins import grown_by
from bayesgram.released.sources import DETAIL, sources_sentence
from bayesgram.released.weakness import MOST_USERS, Grade, Weakness, weaknesses, worst
from bayesgram.version import VERSION

PROTECTS = "everything one user ever wrote (neighbours: add or remove one user)"
LATER = ("command", "expected_users", "measured", "chain", "inferred")  # what cards of earlier versions lack
LONGEST_LIST = 10  # that a person is shown; card.json has all
DRIFT = "drift"  # of the details: how far people have moved since the release before, by order
NOBODY = "nobody for certain"
SEQUENTIAL = "with other releases about the same users, ε and δ add up, or less: see docs/ledger.md"
SEEDED = "seeded: not for publication"
CURATOR = (
    "one person has one user id (k ids cost k times the ε, and at least k times the δ)",
    "delta is far below 1 / (a public bound on the number of users)",
)
CHOSEN = "the vocabulary and the settings were chosen without looking at the private text"
EXCEPT = ", but for the n-grams that were discovered there, at an ε of their own"


@dataclass(frozen=True)
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
    software: str = field(default=f"bayesgram {VERSION}")

    def __post_init__(self) -> None:
        """A seeded release guarantees nothing: whoever knows the seed can take the noise away."""
        if self.seeded and self.guarantee is not Guarantee.NONE:
            object.__setattr__(self, "statement", f"{SEEDED} (unseeded, this mechanism is {self.guarantee.name})")
            object.__setattr__(self, "guarantee", Guarantee.NONE)

    @property
    def protects(self) -> str:
        """Who, and only where it is proved."""
        return PROTECTS if self.guarantee is Guarantee.PROVED else NOBODY

    @property
    def composition(self) -> str:
        """How it adds up with other releases about the same people."""
        return SEQUENTIAL if self.guarantee is Guarantee.PROVED else "with nothing: no bound holds"

    @property
    def claim(self) -> str:
        """ε, δ and the label, with its grade where it protects little, for tables and one-line messages."""
        if self.epsilon is None:
            return f"no ε ({self.guarantee.name})"
        return f"ε = {_shown(self.epsilon)}, δ = {_shown(self.delta)} ({self.label})"

    @property
    def label(self) -> str:
        """PROVED, EMPIRICAL or NONE; a promise that is proved and protects little says so in the same breath."""
        return self.guarantee.name if self.grade is None else f"{self.guarantee.name}, {self.grade}"

    @property
    def weaknesses(self) -> list[Weakness]:
        """Why a promise that holds protects little; from ε, δ and the public bound on users alone."""
        if self.guarantee is not Guarantee.PROVED or self.epsilon is None:
            return []
        return weaknesses(self.epsilon, self.delta or 0.0, self.expected_users)

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
        return grown_by(self.vocabulary)

    @property
    def promised(self) -> dict[str, Any]:
        """What a chain's hash covers of this release."""
        told = {"epsilon": self.epsilon, "delta": self.delta, "guarantee": self.guarantee.name, "seeded": self.seeded}
        return {**told, "measured": (self.measured or {}).get("sha256", "")}

    @property
    def follows(self) -> str | None:
        """The releases before this one, and what all promise together, in a sentence; None where it follows none."""
        if self.chain is None:
            return None
        links = Chain.from_json(self.chain).links
        claims = [(link.epsilon, link.delta, link.guarantee) for link in links]
        own = (self.epsilon or 0.0, self.delta or 0.0, self.guarantee.name)
        named = links[-1].name if len(links) == 1 else f"{len(links)} releases, the last of them {links[-1].name}"
        return f"follows {named}; all {len(links) + 1} together: {together([*claims, own])}"

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
        listed = f"{self.vocabulary['size']:,} n-grams of order {self._orders}"
        return f"{listed}: public text, and {self.discovered}" if self.discovered else f"{listed}, public text only"

    @property
    def _orders(self) -> str:
        return ", ".join(map(str, self.vocabulary.get("orders", [self.vocabulary["order"]])))

    def __str__(self) -> str:
        lines = [
            f"Mechanism:  {self.mechanism} ({_listed(self.settings)})",
            *([f"Details:    {_listed(self.details)}"] if self.details else []),
            f"Guarantee:  {self.guarantee.name}: {self.statement}",
            f"Claims:     {self.claim}",
            *(f"Warning:    {warning}" for warning in self.warnings),
            f"Protects:   {self.protects}",
            f"Composes:   {self.composition}",
            f"Vocabulary: {self.vocabulary_sentence}",
        ]
        if self.sources:
            lines.append(f"Sources:    {self.sources}")
        if self.inferred_again:
            lines.append(f"Inferred:   {self.inferred_again}")
        if self.follows:
            lines.append(f"Chain:      {self.follows}")
        if self.ledger:
            lines.append(f"Ledger:     {self.ledger['population']}, entry {self.ledger['entry']}")
        return "\n".join([*lines, f"Noise:      {SEEDED}"] if self.seeded else lines)

    def to_json(self) -> dict[str, Any]:
        """Plain values, for card.json, with what they mean."""
        meaning = {"protects": self.protects, "composition": self.composition, "assumes": list(self.assumes)}
        return {**asdict(self), "guarantee": self.guarantee.name, **meaning, "warnings": self.warnings}

    @property
    def assumes(self) -> tuple[str, ...]:
        """What the guarantee needs from the curator."""
        if self.guarantee is not Guarantee.PROVED:
            return ()
        return (*CURATOR, CHOSEN + EXCEPT if self.discovered else CHOSEN)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Card":
        """The inverse of `to_json`; what follows from the rest is made anew, so that old cards have it too."""
        values = {**dict.fromkeys(LATER), **values}
        _check_numbers(values)
        known = {field.name: values[field.name] for field in fields(cls)}
        return cls(**{**known, "guarantee": Guarantee[known["guarantee"]]})


def _check_numbers(values: dict[str, Any]) -> None:
    """Refuse a card from which nothing can be concluded."""
    for name, most in (("epsilon", MAX_EPSILON), ("delta", 1.0), ("expected_users", MOST_USERS)):
        value = values[name]
        if value is not None and (type(value) not in {int, float} or not 0 <= value <= most):
            raise ValueError(f"{name} is not a number that a card has")


def _listed(values: dict[str, Any]) -> str:
    short = {name: value for name, value in values.items() if name not in {DETAIL, DRIFT} and not _is_long(value)}
    return ", ".join(f"{name} = {_shown(value)}" for name, value in short.items())


def _is_long(value: object) -> bool:
    return isinstance(value, list) and len(value) > LONGEST_LIST


def _shown(value: object) -> object:
    """Six digits are enough for a person, unless they would turn 0.9999999 into 1; card.json has them all."""
    if not isinstance(value, float) or (f"{value:.6g}" in {"0", "1"} and value not in {0.0, 1.0}):
        return value
    return f"{value:.6g}"
