"""Where the n-grams of a vocabulary are from: public text, or people's own text by a discovery.

A discovery is released, so what it found is public; what it cost its people is said with every release that uses it.
In a vocabulary's file: a column `origin`, and `bayesgram.discoveries` in the metadata.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arrays import Bools
from bayesgram.errors import UsageError
from bayesgram.privacy.budget import MAX_EPSILON, Guarantee
from bayesgram.released.labels import Ingredient, ingredients_from_json, unique_ingredients

PUBLIC, DISCOVERED = "public", "discovered"
DISCOVERY = "discovery"  # the mechanism, on a card
COLUMN, METADATA = "origin", "bayesgram.discoveries"
INGREDIENTS = "bayesgram.made_from"  # in the metadata of a vocabulary's file
MADE_FROM = "made_from"  # of a described vocabulary: what was published before, and it was made from


@dataclass(frozen=True)
class DiscoveryClaim:
    """What one discovery promised the people whose text it looked through."""

    epsilon: float
    delta: float
    guarantee: str  # PROVED; NONE if it was seeded, or made from something that is not PROVED
    ledger: str | None = None  # the identity of the ledger that was charged ...
    entry: int | None = None  # ... and the number of its entry
    unit: str | None = None  # what one unit of privacy is, as the curator stated it
    fingerprint: str | None = None  # of what was found: two discoveries of the same ε are two
    reviewed: bool = False  # whether a person has decided about each string (`bayesgram review`)

    def __post_init__(self) -> None:
        numbers = ((self.epsilon, MAX_EPSILON), (self.delta, 1.0))
        if not all(type(value) in {int, float} and 0 <= value <= most for value, most in numbers):
            raise ValueError("a discovery has an epsilon and a delta")
        Guarantee[self.guarantee]  # a KeyError if it is none
        if not all(isinstance(text, str | None) for text in (self.ledger, self.unit, self.fingerprint)):
            raise TypeError("ledger, unit and fingerprint of a discovery are texts")
        if not isinstance(self.reviewed, bool):
            raise TypeError("reviewed is yes or no")
        if type(self.entry) not in {int, type(None)}:
            raise TypeError("an entry has a number")

    def __str__(self) -> str:
        unit = "" if self.unit is None else f" for {self.unit}"
        return f"ε = {self.epsilon:g}, δ = {self.delta:g}{unit} ({self.guarantee})"

    @property
    def ingredient(self) -> Ingredient:
        """The discovery, as something that a result was made from."""
        return Ingredient("a discovery", self.guarantee, self.epsilon, self.delta, self.unit, self.ledger, self.entry)


def origin_column(discovered: Bools) -> pa.Array:
    """In words, row by row."""
    return pa.array(np.where(discovered, DISCOVERED, PUBLIC))


def read_origin_column(table: pa.Table) -> Bools | None:
    """The inverse; None where a table has no such column, a ValueError where it says something else."""
    if COLUMN not in table.column_names:
        return None
    words = table[COLUMN].cast(pa.large_string()).to_numpy()
    discovered: Bools = words == DISCOVERED
    if not (discovered | (words == PUBLIC)).all():
        raise ValueError(f"{COLUMN}: {PUBLIC} or {DISCOVERED} is expected")
    return discovered


@dataclass(frozen=True, eq=False)
class Origins:
    """Which n-grams of a vocabulary were discovered, and by what."""

    discovered: Bools
    claims: tuple[DiscoveryClaim, ...]

    def taken(self, rows: "slice | np.ndarray") -> "Origins":
        """Those of some n-grams."""
        return Origins(self.discovered[rows], self.claims)

    @property
    def column(self) -> pa.Array:
        """In words, row by row."""
        return origin_column(self.discovered)

    def provenance(self, ngrams: pa.LargeStringArray) -> "Provenance":
        """The same for n-grams by their text; `ngrams` are those of the vocabulary."""
        return Provenance((), self.claims, ngrams.filter(pa.array(self.discovered)))

    def to_json(self) -> str:
        """The claims, for a file's metadata."""
        return json.dumps([asdict(claim) for claim in self.claims])


@dataclass(frozen=True, eq=False)
class Provenance:
    """What a list of n-grams with counts is from, beside public text: things about people that were published.

    Attributes:
        ingredients: Releases and models whose n-grams or counts it has, with their labels.
        claims: Discoveries that found some of its n-grams.
        discovered: These n-grams; None if there are none.

    """

    ingredients: tuple[Ingredient, ...] = ()
    claims: tuple[DiscoveryClaim, ...] = ()
    discovered: pa.LargeStringArray | None = None

    @classmethod
    def of(
        cls,
        ingredients: Iterable[Ingredient],
        claims: tuple[DiscoveryClaim, ...],
        discovered: pa.LargeStringArray | None = None,
    ) -> "Provenance":
        """The same, where discoveries may be among the ingredients, too: as claims more is known of them."""
        known = {claim.ingredient for claim in claims}
        return cls(unique_ingredients(each for each in ingredients if each not in known), claims, discovered)

    def __bool__(self) -> bool:
        return bool(self.ingredients or self.claims)

    @property
    def metadata(self) -> dict[str, str]:
        """For a table of n-grams, so that it says what it was made from wherever it is copied."""
        found = {INGREDIENTS: json.dumps([asdict(each) for each in self.ingredients])}
        if self.claims:
            found[METADATA] = json.dumps([asdict(claim) for claim in self.claims])
        return found

    def joined(self, other: "Provenance") -> "Provenance":
        """That of something made from both."""
        found = [each.discovered for each in (self, other) if each.discovered is not None]
        return Provenance(
            unique_ingredients([*self.ingredients, *other.ingredients]),
            union_of_claims([self.claims, other.claims]),
            pa.concat_arrays(found) if found else None,
        )

    def origins_of(self, ngrams: pa.LargeStringArray) -> "Origins | None":
        """Which of these n-grams were discovered; None if there was no discovery."""
        if not self.claims:
            return None
        if self.discovered is None:
            return Origins(np.zeros(len(ngrams), bool), self.claims)
        rows = pc.is_in(ngrams, value_set=self.discovered).to_numpy(zero_copy_only=False)
        return Origins(rows, self.claims)


def union_of_claims(lists: Iterable[Iterable[DiscoveryClaim]]) -> tuple[DiscoveryClaim, ...]:
    """All discoveries that several vocabularies were made with, each once.

    A discovery that stands in two lists is the same one if its fingerprint is. Without fingerprints, equal claims of
    one list are several discoveries, and equal claims of two lists are taken for the same.

    >>> one = DiscoveryClaim(1.0, 1e-7, "PROVED")
    >>> len(union_of_claims([[one, one], [one]]))
    2
    """
    found: dict[tuple[object, ...], DiscoveryClaim] = {}
    for claims in lists:
        times: dict[tuple[object, ...], int] = {}
        for claim in claims:
            own = astuple(replace(claim, reviewed=False))
            times[own] = times.get(own, 0) + 1
            key = (*own, times[own])
            before = found.setdefault(key, claim)
            # What a person has dropped from one copy may still be in another one.
            found[key] = replace(claim, reviewed=claim.reviewed and before.reviewed)
    return tuple(found.values())


def extended_by(described: Mapping[str, Any]) -> str | None:
    """What discoveries added to a vocabulary, as a card describes it, in words; None where all is public text.

    >>> claim = asdict(DiscoveryClaim(1.0, 1e-07, "PROVED", reviewed=True))
    >>> extended_by({"discovered": 113, "discoveries": [claim]})
    '113 discovered at ε = 1, δ = 1e-07 (PROVED), which adds up with this release'
    """
    claims = [DiscoveryClaim(**claim) for claim in described.get("discoveries", [])]
    if not claims:
        return None
    found = f"{described['discovered']:,} discovered at {' and at '.join(map(str, claims))}"
    if any(claim.guarantee != Guarantee.PROVED.name for claim in claims):
        return f"{found}: without a guarantee, not for publication"
    read = "" if all(claim.reviewed for claim in claims) else "; nobody has reviewed them"
    return f"{found}, which {'adds' if len(claims) == 1 else 'add'} up with this release{read}"


def made_from(described: Mapping[str, Any]) -> tuple[Ingredient, ...]:
    """Everything published that a vocabulary was made from, as a card describes the vocabulary."""
    claims = (DiscoveryClaim(**claim) for claim in described.get("discoveries", []))
    return (*ingredients_from_json(described.get(MADE_FROM, [])), *(claim.ingredient for claim in claims))


def are_described(described: Mapping[str, Any]) -> bool:
    """Whether a card says of discoveries what it should: both how many n-grams and which claims, or nothing."""
    try:
        made_from(described)
    except (KeyError, TypeError, ValueError):
        return False
    if not {"discovered", "discoveries"} & described.keys():
        return True
    try:
        claims = [DiscoveryClaim(**claim) for claim in described["discoveries"]]
        number = described["discovered"]
    except (KeyError, TypeError, ValueError):
        return False
    return bool(claims) and type(number) is int and 0 <= number <= described["size"]


def read_origins(path: object, table: pa.Table) -> Origins | None:
    """What a file says; None where all is public text."""
    stated: Mapping[bytes, bytes] = table.schema.metadata or {}
    if COLUMN not in table.column_names and METADATA.encode() not in stated:
        return None
    try:
        claims = tuple(DiscoveryClaim(**claim) for claim in json.loads(stated[METADATA.encode()]))
        discovered = read_origin_column(table)
        if discovered is None:  # made from a discovery, and none of its n-grams is here
            discovered = np.zeros(table.num_rows, bool)
    except (KeyError, TypeError, ValueError, pa.ArrowException):
        claims, discovered = (), None
    if not claims or discovered is None:
        raise UsageError(
            f"{path}: the column {COLUMN!r} says {PUBLIC!r} or {DISCOVERED!r}, and the file's metadata which discovery"
            " it was; make the vocabulary again with `bayesgram discover`, or leave that column out."
        )
    return Origins(discovered, claims)


def read_ingredients(path: object, table: pa.Table) -> tuple[Ingredient, ...]:
    """What a vocabulary's file says it was made from, beside public text and discoveries."""
    stated = (table.schema.metadata or {}).get(INGREDIENTS.encode())
    if stated is None:
        return ()
    try:
        return ingredients_from_json(json.loads(stated))
    except (KeyError, TypeError, ValueError):
        raise UsageError(
            f"{path}: its metadata names what it was made from, and is damaged; make the vocabulary again with"
            " `bayesgram vocab`."
        ) from None
