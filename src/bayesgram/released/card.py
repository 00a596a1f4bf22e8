"""The card of a release: who is protected, by how much, and what that is worth."""

from dataclasses import asdict, dataclass, field
from typing import Any

from bayesgram.privacy.budget import Guarantee
from bayesgram.version import VERSION

PROTECTS = "everything one user ever wrote (neighbours: add or remove one user)"
SEEDED = "seeded: not for publication"
CURATOR = (
    "one person has one user id (k ids cost about k times as much)",
    "delta is far below 1 / (a public bound on the number of users)",
    "the vocabulary and the settings were chosen without looking at the private text",
)


@dataclass(frozen=True)
class Card:
    """What a release says of itself. Everything here is public."""

    mechanism: str
    guarantee: Guarantee
    statement: str  # what the guarantee means for this mechanism, in one sentence
    epsilon: float | None  # None: no such number is claimed
    delta: float | None
    composition: str  # how it adds up with other releases of the same people
    settings: dict[str, Any]
    vocabulary: dict[str, Any]
    seeded: bool
    protects: str = PROTECTS
    assumes: tuple[str, ...] = CURATOR
    software: str = field(default=f"bayesgram {VERSION}")

    def __post_init__(self) -> None:
        """A seeded release is proved nothing: whoever knows the seed can take the noise away."""
        if self.seeded and self.guarantee is Guarantee.PROVED:
            object.__setattr__(self, "guarantee", Guarantee.NONE)
            object.__setattr__(self, "statement", f"{SEEDED} (unseeded, this mechanism is PROVED)")

    @property
    def claim(self) -> str:
        """ε, δ and the label, for tables and one-line messages."""
        if self.epsilon is None:
            return f"no ε ({self.guarantee.name})"
        return f"ε = {self.epsilon:g}, δ = {self.delta:g} ({self.guarantee.name})"

    def __str__(self) -> str:
        settings = ", ".join(f"{name} = {_shown(value)}" for name, value in self.settings.items())
        lines = [
            f"Mechanism:  {self.mechanism} ({settings})" if settings else f"Mechanism:  {self.mechanism}",
            f"Guarantee:  {self.guarantee.name}: {self.statement}",
            f"Claims:     {self.claim}",
            f"Protects:   {self.protects}",
            f"Composes:   {self.composition}",
            f"Vocabulary: {self.vocabulary['size']:,} n-grams of order {self.vocabulary['order']}, public text only",
        ]
        return "\n".join([*lines, f"Noise:      {SEEDED}"] if self.seeded else lines)

    def to_json(self) -> dict[str, Any]:
        """Plain values, for card.json."""
        return {**asdict(self), "guarantee": self.guarantee.name, "assumes": list(self.assumes)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Card":
        """The inverse of `to_json`."""
        values = {**values, "guarantee": Guarantee[values["guarantee"]], "assumes": tuple(values["assumes"])}
        return cls(**values)


def _shown(value: object) -> object:
    """Six digits are enough for a person; card.json has them all."""
    return f"{value:.6g}" if isinstance(value, float) else value
