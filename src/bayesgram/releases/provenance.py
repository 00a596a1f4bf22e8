"""The label of a result: the weakest label of everything that it was made from.

A release, a discovery, a vocabulary or a model may be made from others that were published before: an earlier release
(`previous`), public sources that are releases, n-grams that were discovered, models that are mixed. Whatever is known
about people through one of them is known through the result. So a result that was made from something without a
guarantee has none either, however it was noised itself.

`weakest_label` is the one function that decides this; mechanisms and all makers of derived artefacts call it.

Where the n-grams of a vocabulary are from: public text, or people's own text by a discovery.

A discovery is released, so what it found is public; what it cost its people is said with every release that uses it.
In a vocabulary's file: a column `origin`, and `bayesgram.discoveries` in the metadata.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arrays import Bools
from bayesgram.errors import UsageError
from bayesgram.privacy.budget import MAX_EPSILON, Guarantee

MAX_INGREDIENTS = 100_000  # that one result may name: a bound for files that were tampered with


@dataclass(frozen=True)
class Ingredient:
    """Something about people that was published before, and that a result was made from.

    Attributes:
        name: What it is called: mostly the name of its folder.
        guarantee: Its label, by name.
        epsilon: Its ε; None if it claims none.
        delta: Its δ; None if it claims none.
        unit: What its ε protects, as its curator stated; None if nothing was stated.
        ledger: The identity of the ledger that was charged; None if none was.
        entry: The number of the ledger's entry.

    """

    name: str
    guarantee: str
    epsilon: float | None = None
    delta: float | None = None
    unit: str | None = None
    ledger: str | None = None
    entry: int | None = None

    def __post_init__(self) -> None:
        if not all(isinstance(text, str) for text in (self.name, self.guarantee)):
            raise TypeError("name and label are texts")
        if not self.name.isprintable():
            raise ValueError("the name of what a result was made from is printed")
        Guarantee[self.guarantee]  # a KeyError if it is none
        for value, most in ((self.epsilon, MAX_EPSILON), (self.delta, 1.0)):
            if value is not None and not (type(value) in {int, float} and 0 <= value <= most):
                raise ValueError("what a result was made from has an epsilon and a delta, or none")
        if not all(isinstance(text, str | None) for text in (self.unit, self.ledger)):
            raise TypeError("unit and ledger are texts")
        if type(self.entry) not in {int, type(None)}:
            raise TypeError("an entry has a number")

    @property
    def label(self) -> Guarantee:
        """Its label."""
        return Guarantee[self.guarantee]

    def __str__(self) -> str:
        if self.epsilon is None:
            return f"{self.name} ({self.guarantee})"
        unit = "" if self.unit is None else f" for {self.unit}"
        return (
            f"{self.name} (ε = {self.epsilon:g}, δ = {self.delta or 0:g}{unit}, {self.guarantee})"
        )


def printable_name(path: str | Path) -> str:
    """What a folder or file is called, without what does not print."""
    name = Path(path).resolve().name or str(path)
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in name)


def weakest_label(own: Guarantee, made_from: Iterable[Guarantee] = ()) -> Guarantee:
    """The label of a result.

    Args:
        own: What the result would be labelled if everything that it was made from were public text.
        made_from: The labels of everything published that it was made from.

    Returns:
        The weakest of them: PROVED only if all are, NONE if one is.

    >>> weakest_label(Guarantee.PROVED, [Guarantee.PROVED, Guarantee.NONE]).name
    'NONE'
    >>> weakest_label(Guarantee.PROVED, [Guarantee.EMPIRICAL]).name, weakest_label(Guarantee.PROVED).name
    ('EMPIRICAL', 'PROVED')

    """
    order = list(Guarantee)  # from the strongest to the weakest
    return max([own, *made_from], key=order.index)


def combined_label(ingredients: Iterable[Ingredient]) -> str:
    """The label of something that was made from these and from public text, by name; public text weakens nothing."""
    return weakest_label(Guarantee.PROVED, [each.label for each in ingredients]).name


def ingredients_from_json(values: Iterable[Mapping[str, Any]]) -> tuple[Ingredient, ...]:
    """Read what a file says a result was made from.

    Raises:
        ValueError, TypeError, KeyError: If it is not what we write.

    """
    found = tuple(Ingredient(**value) for value in values)
    if len(found) > MAX_INGREDIENTS:
        raise ValueError("a result is made from fewer things")
    return found


def unique_ingredients(ingredients: Iterable[Ingredient]) -> tuple[Ingredient, ...]:
    """The ingredients, each once, in their order."""
    return tuple(dict.fromkeys(ingredients))


def unproved_sentence(ingredients: Iterable[Ingredient]) -> str | None:
    """Say which ingredients weaken a result, in a sentence; None if all are PROVED.

    >>> unproved_sentence([Ingredient("week-1", "NONE"), Ingredient("week-2", "PROVED")])
    'made from week-1 (NONE): nothing is proved of a result that was made from it'
    """
    weak = [str(one) for one in ingredients if one.label is not Guarantee.PROVED]
    if not weak:
        return None
    shown = ", ".join(weak[:3]) + (f" and {len(weak) - 3} more" if len(weak) > 3 else "")
    it = "it" if len(weak) == 1 else "them"
    return f"made from {shown}: nothing is proved of a result that was made from {it}"


PUBLIC_ORIGIN, DISCOVERED_ORIGIN = "public", "discovered"
DISCOVERY_MECHANISM = "discovery"  # the mechanism, on a card
ORIGIN_COLUMN, DISCOVERIES_KEY = "origin", "bayesgram.discoveries"
INGREDIENTS_KEY = "bayesgram.made_from"  # in the metadata of a vocabulary's file
MADE_FROM = (
    "made_from"  # of a described vocabulary: what was published before, and it was made from
)


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
        if not all(
            isinstance(text, str | None) for text in (self.ledger, self.unit, self.fingerprint)
        ):
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
        return Ingredient(
            "a discovery",
            self.guarantee,
            self.epsilon,
            self.delta,
            self.unit,
            self.ledger,
            self.entry,
        )


def encode_origins(discovered: Bools) -> pa.Array:
    """In words, row by row."""
    return pa.array(np.where(discovered, DISCOVERED_ORIGIN, PUBLIC_ORIGIN))


def decode_origins(table: pa.Table) -> Bools | None:
    """The inverse; None where a table has no such column, a ValueError where it says something else."""
    if ORIGIN_COLUMN not in table.column_names:
        return None
    words = table[ORIGIN_COLUMN].cast(pa.large_string()).to_numpy()
    discovered: Bools = words == DISCOVERED_ORIGIN
    if not (discovered | (words == PUBLIC_ORIGIN)).all():
        raise ValueError(f"{ORIGIN_COLUMN}: {PUBLIC_ORIGIN} or {DISCOVERED_ORIGIN} is expected")
    return discovered


@dataclass(frozen=True, eq=False)
class Origins:
    """Which n-grams of a vocabulary were discovered, and by what."""

    discovered: Bools
    claims: tuple[DiscoveryClaim, ...]

    def select(self, rows: "slice | np.ndarray") -> "Origins":
        """Those of some n-grams."""
        return Origins(self.discovered[rows], self.claims)

    @property
    def column(self) -> pa.Array:
        """In words, row by row."""
        return encode_origins(self.discovered)

    def to_provenance(self, ngrams: pa.LargeStringArray) -> "Provenance":
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
    def from_ingredients(
        cls,
        ingredients: Iterable[Ingredient],
        claims: tuple[DiscoveryClaim, ...],
        discovered: pa.LargeStringArray | None = None,
    ) -> "Provenance":
        """The same, where discoveries may be among the ingredients, too: as claims more is known of them."""
        known = {claim.ingredient for claim in claims}
        return cls(
            unique_ingredients(each for each in ingredients if each not in known),
            claims,
            discovered,
        )

    def __bool__(self) -> bool:
        return bool(self.ingredients or self.claims)

    @property
    def metadata(self) -> dict[str, str]:
        """For a table of n-grams, so that it says what it was made from wherever it is copied."""
        found = {INGREDIENTS_KEY: json.dumps([asdict(each) for each in self.ingredients])}
        if self.claims:
            found[DISCOVERIES_KEY] = json.dumps([asdict(claim) for claim in self.claims])
        return found

    def merge(self, other: "Provenance") -> "Provenance":
        """That of something made from both."""
        found = [each.discovered for each in (self, other) if each.discovered is not None]
        return Provenance(
            unique_ingredients([*self.ingredients, *other.ingredients]),
            merge_claims([self.claims, other.claims]),
            pa.concat_arrays(found) if found else None,
        )

    def origins_for(self, ngrams: pa.LargeStringArray) -> "Origins | None":
        """Which of these n-grams were discovered; None if there was no discovery."""
        if not self.claims:
            return None
        if self.discovered is None:
            return Origins(np.zeros(len(ngrams), bool), self.claims)
        rows = pc.is_in(ngrams, value_set=self.discovered).to_numpy(zero_copy_only=False)
        return Origins(rows, self.claims)


def merge_claims(lists: Iterable[Iterable[DiscoveryClaim]]) -> tuple[DiscoveryClaim, ...]:
    """All discoveries that several vocabularies were made with, each once.

    A discovery that stands in two lists is the same one if its fingerprint is. Without fingerprints, equal claims of
    one list are several discoveries, and equal claims of two lists are taken for the same.

    >>> one = DiscoveryClaim(1.0, 1e-7, "PROVED")
    >>> len(merge_claims([[one, one], [one]]))
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


def discoveries_sentence(described: Mapping[str, Any]) -> str | None:
    """What discoveries added to a vocabulary, as a card describes it, in words; None where all is public text.

    >>> claim = asdict(DiscoveryClaim(1.0, 1e-07, "PROVED", reviewed=True))
    >>> discoveries_sentence({"discovered": 113, "discoveries": [claim]})
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


def ingredients_from_card(described: Mapping[str, Any]) -> tuple[Ingredient, ...]:
    """Everything published that a vocabulary was made from, as a card describes the vocabulary."""
    claims = (DiscoveryClaim(**claim) for claim in described.get("discoveries", []))
    return (
        *ingredients_from_json(described.get(MADE_FROM, [])),
        *(claim.ingredient for claim in claims),
    )


def has_valid_provenance(described: Mapping[str, Any]) -> bool:
    """Whether a card says of discoveries what it should: both how many n-grams and which claims, or nothing."""
    try:
        ingredients_from_card(described)
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
    if ORIGIN_COLUMN not in table.column_names and DISCOVERIES_KEY.encode() not in stated:
        return None
    try:
        claims = tuple(
            DiscoveryClaim(**claim) for claim in json.loads(stated[DISCOVERIES_KEY.encode()])
        )
        discovered = decode_origins(table)
        if discovered is None:  # made from a discovery, and none of its n-grams is here
            discovered = np.zeros(table.num_rows, bool)
    except (KeyError, TypeError, ValueError, pa.ArrowException):
        claims, discovered = (), None
    if not claims or discovered is None:
        raise UsageError(
            f"{path}: the column {ORIGIN_COLUMN!r} says {PUBLIC_ORIGIN!r} or {DISCOVERED_ORIGIN!r}, and the file's metadata which discovery"
            " it was; make the vocabulary again with `bayesgram discover`, or leave that column out."
        )
    return Origins(discovered, claims)


def read_ingredients(path: object, table: pa.Table) -> tuple[Ingredient, ...]:
    """What a vocabulary's file says it was made from, beside public text and discoveries."""
    stated = (table.schema.metadata or {}).get(INGREDIENTS_KEY.encode())
    if stated is None:
        return ()
    try:
        return ingredients_from_json(json.loads(stated))
    except (KeyError, TypeError, ValueError):
        raise UsageError(
            f"{path}: its metadata names what it was made from, and is damaged; make the vocabulary again with"
            " `bayesgram vocab`."
        ) from None
