"""What each of several judged models claims, and which of them belong together over ε.

In:  models by name, what they say of themselves, and their `TextQuality`.   Out: `Judged`, and `Family`s of them.
Models of one name are one family, and those whose names differ by their ε alone. A model that says no ε (of public
text, of several releases, or an ARPA file, which has no place for it) stands by itself.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bayesgram.audit.text import TextQuality

CLAIM = re.compile(r"ε = (\d[\d.]*(?:e[+-]?\d+)?), δ = \S+ \((.+)\)")


@dataclass(frozen=True)
class Claim:
    """What a model says it costs."""

    epsilon: float | None  # None where nothing is said
    label: str | None  # PROVED, EMPIRICAL or NONE, perhaps with what that is worth

    @property
    def guarantee(self) -> str:
        """The label without what it is worth."""
        return (self.label or "").partition(", ")[0]

    @property
    def grade(self) -> str:
        """What a promise that protects little is worth; nothing for others."""
        return (self.label or "").partition(", ")[2]

    @classmethod
    def of(cls, about: Mapping[str, Any]) -> "Claim":
        """That of a model, or of the one part of a mixture that has one.

        >>> Claim.of({"claim": "ε = 0.2, δ = 1e-07 (PROVED)"})
        Claim(epsilon=0.2, label='PROVED')
        >>> Claim.of({"interpolated": [{"claim": "ε = 8, δ = 1e-07 (PROVED, weak)"}, {"weight": 0.5}]})
        Claim(epsilon=8.0, label='PROVED, weak')
        """
        parts = about.get("interpolated", [about])
        claims = [part["claim"] for part in parts if isinstance(part, Mapping) and "claim" in part]
        found = CLAIM.fullmatch(str(claims[0])) if len(claims) == 1 else None
        return cls(float(found[1]), found[2]) if found else cls(None, None)


@dataclass(frozen=True)
class EvaluatedModel:
    """A model and what it is worth."""

    name: str
    model: str  # its path
    claim: Claim
    quality: TextQuality

    @property
    def family(self) -> str:
        """Its name without its ε."""
        epsilon = "" if self.claim.epsilon is None else f"{self.claim.epsilon:g}"
        return self.name.removesuffix(epsilon).rstrip("-_=. ") or self.name

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        claim = {"epsilon": self.claim.epsilon, "guarantee": self.claim.label}
        return {"model": self.model, "name": self.name, **claim, **self.quality.to_json()}


@dataclass(frozen=True)
class Family:
    """Models that differ by their ε."""

    name: str
    guarantee: str
    members: tuple[EvaluatedModel, ...]  # by ε

    @property
    def label(self) -> str:
        """Its name and what its ε are worth: fish (PROVED; weak at ε = 8)."""
        graded: dict[str, list[str]] = {}
        for each in self.members:
            if each.claim.grade:
                graded.setdefault(each.claim.grade, []).append(f"{each.claim.epsilon:g}")
        worth = [f"{grade} at ε = {', '.join(dict.fromkeys(found))}" for grade, found in graded.items()]
        return f"{self.name} ({'; '.join([self.guarantee, *worth])})"


def families(judged: Sequence[EvaluatedModel]) -> list[Family]:
    """Those of models that say an ε, in the order in which they were given."""
    groups: dict[tuple[str, str], list[EvaluatedModel]] = {}
    for each in judged:
        if each.claim.epsilon is not None:
            groups.setdefault((each.family, each.claim.guarantee), []).append(each)
    return [Family(*key, tuple(sorted(members, key=_epsilon))) for key, members in groups.items()]


def _epsilon(judged: EvaluatedModel) -> float:
    return judged.claim.epsilon or 0.0
