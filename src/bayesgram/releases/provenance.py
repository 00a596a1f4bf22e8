"""Provenance: what published results about people a result was made from, and its label.

A release, a discovery, a vocabulary or a model may be made from others that were published before:
an earlier release (`previous`), public sources that are releases, n-grams that were discovered,
models that are mixed. Whatever is known about people through one of them is known through the
result. So a result that was made from something without a guarantee has none either, however it
was noised itself. `weakest_label` is the one function that decides this; mechanisms and all makers
of derived artefacts call it.

A published release or model is an `Ingredient`. A discovery is a `DiscoveryClaim`: what it found is
public, and what it cost its people is stated with every release that uses it. `Provenance` has
both, by the text of n-grams; `Origins` has the discoveries of a vocabulary, by row. In the file of
a vocabulary they are a column `origin`, and `bayesgram.discoveries` and `bayesgram.made_from` in
the metadata.
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

# Ingredients that one result may name: a bound for files that were tampered with.
MAX_INGREDIENTS = 100_000
DISCOVERY_MECHANISM = "discovery"  # the mechanism on the card of a discovery
ORIGIN_COLUMN = "origin"  # of a table of n-grams; its values are the two below
PUBLIC_ORIGIN = "public"
DISCOVERED_ORIGIN = "discovered"
DISCOVERIES_KEY = "bayesgram.discoveries"  # in the metadata of a table of n-grams
INGREDIENTS_KEY = "bayesgram.made_from"  # in the metadata of a table of n-grams
MADE_FROM = "made_from"  # on a card, of its vocabulary: the ingredients other than discoveries


# --- What a result was made from ---


@dataclass(frozen=True)
class Ingredient:
    """Something about people that was published before, and that a result was made from.

    Attributes:
        name: What it is called; in most cases the name of its folder.
        guarantee: Its label, by name.
        epsilon: Its ε; None if it claims none.
        delta: Its δ; None if it claims none.
        unit: What its ε protects, as its curator stated; None if nothing was stated.
        ledger: The identity of the ledger that was charged; None if none was.
        entry: The number of the ledger's entry.
        series_release: Its number in the series that the entry pays for; None if it pays for one
            release.
        series_discovery: The number of a discovery in such a series; None if it is none.
    """

    name: str
    guarantee: str
    epsilon: float | None = None
    delta: float | None = None
    unit: str | None = None
    ledger: str | None = None
    entry: int | None = None
    series_release: int | None = None
    series_discovery: int | None = None

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
        numbers = (self.entry, self.series_release, self.series_discovery)
        if not {type(number) for number in numbers} <= {int, type(None)}:
            raise TypeError("an entry has a number")

    @property
    def label(self) -> Guarantee:
        """Its label, as a member of `Guarantee`."""
        return Guarantee[self.guarantee]

    def __str__(self) -> str:
        if self.epsilon is None:
            return f"{self.name} ({self.guarantee})"
        unit = "" if self.unit is None else f" for {self.unit}"
        return (
            f"{self.name} (ε = {self.epsilon:g}, δ = {self.delta or 0:g}{unit}, {self.guarantee})"
        )


@dataclass(frozen=True)
class DiscoveryClaim:
    """What one discovery promised the people whose text it looked through.

    Attributes:
        epsilon: Its ε.
        delta: Its δ.
        guarantee: Its label, by name: PROVED; or NONE if it was seeded, or made from something that
            is not PROVED.
        ledger: The identity of the ledger that was charged; None if none was.
        entry: The number of the ledger's entry.
        unit: What one unit of privacy is, as the curator stated it.
        fingerprint: Of what was found, so that two discoveries of the same ε are two.
        reviewed: Whether a person has decided about each string (`bayesgram review`).
        series_discovery: Its number in the series that the entry pays for; None if it is in none.
    """

    epsilon: float
    delta: float
    guarantee: str
    ledger: str | None = None
    entry: int | None = None
    unit: str | None = None
    fingerprint: str | None = None
    reviewed: bool = False
    series_discovery: int | None = None

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
        if not {type(self.entry), type(self.series_discovery)} <= {int, type(None)}:
            raise TypeError("an entry has a number")

    def __str__(self) -> str:
        unit = "" if self.unit is None else f" for {self.unit}"
        return f"ε = {self.epsilon:g}, δ = {self.delta:g}{unit} ({self.guarantee})"

    @property
    def ingredient(self) -> Ingredient:
        """The discovery as an ingredient of a result."""
        return Ingredient(
            "a discovery",
            self.guarantee,
            self.epsilon,
            self.delta,
            self.unit,
            self.ledger,
            self.entry,
            series_discovery=self.series_discovery,
        )


@dataclass(frozen=True, eq=False)
class Provenance:
    """What a list of n-grams with counts is from, beside public text.

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
        """Make a provenance from ingredients among which the discoveries of `claims` may be.

        Discoveries are kept as claims, which say more about them.
        """
        discoveries = {claim.ingredient for claim in claims}
        others = (ingredient for ingredient in ingredients if ingredient not in discoveries)
        return cls(unique_ingredients(others), claims, discovered)

    def __bool__(self) -> bool:
        return bool(self.ingredients or self.claims)

    @property
    def metadata(self) -> dict[str, str]:
        """Metadata for a table of n-grams, so that a copy of it states what it was made from."""
        metadata = {INGREDIENTS_KEY: _to_json_list(self.ingredients)}
        if self.claims:
            metadata[DISCOVERIES_KEY] = _to_json_list(self.claims)
        return metadata

    def merge(self, other: "Provenance") -> "Provenance":
        """Return the provenance of something made from both."""
        both = (self.discovered, other.discovered)
        discovered = [ngrams for ngrams in both if ngrams is not None]
        return Provenance(
            unique_ingredients([*self.ingredients, *other.ingredients]),
            merge_claims([self.claims, other.claims]),
            pa.concat_arrays(discovered) if discovered else None,
        )

    def origins_for(self, ngrams: pa.LargeStringArray) -> "Origins | None":
        """Return which of these n-grams were discovered; None if there was no discovery."""
        if not self.claims:
            return None
        if self.discovered is None:
            return Origins(np.zeros(len(ngrams), bool), self.claims)
        mask = pc.is_in(ngrams, value_set=self.discovered).to_numpy(zero_copy_only=False)
        return Origins(mask, self.claims)


@dataclass(frozen=True, eq=False)
class Origins:
    """Which n-grams of a vocabulary were discovered (a mask of its rows), and by what."""

    discovered: Bools
    claims: tuple[DiscoveryClaim, ...]

    def select(self, rows: "slice | np.ndarray") -> "Origins":
        """Return the origins of some of the n-grams."""
        return Origins(self.discovered[rows], self.claims)

    @property
    def column(self) -> pa.Array:
        """The column `origin` of the vocabulary's file."""
        return encode_origins(self.discovered)

    def to_provenance(self, ngrams: pa.LargeStringArray) -> "Provenance":
        """Return the same by the text of n-grams; `ngrams` are those of the vocabulary."""
        return Provenance((), self.claims, ngrams.filter(pa.array(self.discovered)))

    def to_json(self) -> str:
        """Return the claims for the metadata of a file."""
        return _to_json_list(self.claims)


def _to_json_list(items: "Iterable[Ingredient | DiscoveryClaim]") -> str:
    return json.dumps([asdict(item) for item in items])


def unique_ingredients(ingredients: Iterable[Ingredient]) -> tuple[Ingredient, ...]:
    """Return the ingredients, each once, in their order."""
    return tuple(dict.fromkeys(ingredients))


def merge_claims(lists: Iterable[Iterable[DiscoveryClaim]]) -> tuple[DiscoveryClaim, ...]:
    """Return all discoveries that several vocabularies were made with, each once.

    A discovery that stands in two lists is the same one if its fingerprint is. Without
    fingerprints, equal claims of one list are several discoveries, and equal claims of two lists
    are taken for the same.

    >>> claim = DiscoveryClaim(1.0, 1e-7, "PROVED")
    >>> len(merge_claims([[claim, claim], [claim]]))
    2
    """
    merged: dict[tuple[object, ...], DiscoveryClaim] = {}
    for claims in lists:
        occurrences: dict[tuple[object, ...], int] = {}
        for claim in claims:
            identity = astuple(replace(claim, reviewed=False))
            occurrences[identity] = occurrences.get(identity, 0) + 1
            key = (*identity, occurrences[identity])
            earlier = merged.setdefault(key, claim)
            # What a person has dropped from one copy may still be in another one.
            merged[key] = replace(claim, reviewed=claim.reviewed and earlier.reviewed)
    return tuple(merged.values())


def printable_name(path: str | Path) -> str:
    """Return the name of a folder or file, without characters that do not print."""
    name = Path(path).resolve().name or str(path)
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name
    )


# --- Labels ---


def weakest_label(mechanism: Guarantee, made_from: Iterable[Guarantee] = ()) -> Guarantee:
    """Return the label of a result.

    Args:
        mechanism: The label of a result that was made from public text alone.
        made_from: The labels of everything published that it was made from.

    Returns:
        The weakest of them: PROVED only if all are, NONE if one is.

    >>> weakest_label(Guarantee.PROVED, [Guarantee.PROVED, Guarantee.NONE]).name
    'NONE'
    >>> weakest_label(Guarantee.PROVED, [Guarantee.EMPIRICAL]).name
    'EMPIRICAL'
    >>> weakest_label(Guarantee.PROVED).name
    'PROVED'
    """
    order = list(Guarantee)  # from the strongest to the weakest
    return max([mechanism, *made_from], key=order.index)


def combined_label(ingredients: Iterable[Ingredient]) -> str:
    """Return the label, by name, of something made from public text and these ingredients.

    Public text weakens nothing.
    """
    labels = [ingredient.label for ingredient in ingredients]
    return weakest_label(Guarantee.PROVED, labels).name


def unproved_sentence(ingredients: Iterable[Ingredient]) -> str | None:
    """Say which ingredients weaken a result, in a sentence; None if all are PROVED.

    >>> unproved_sentence([Ingredient("week-1", "NONE"), Ingredient("week-2", "PROVED")])
    'made from week-1 (NONE): nothing is proved of a result that was made from it'
    """
    weak = [str(source) for source in ingredients if source.label is not Guarantee.PROVED]
    if not weak:
        return None
    names = ", ".join(weak[:3]) + (f" and {len(weak) - 3} more" if len(weak) > 3 else "")
    pronoun = "it" if len(weak) == 1 else "them"
    return f"made from {names}: nothing is proved of a result that was made from {pronoun}"


# --- On cards ---


def ingredients_from_json(values: Iterable[Mapping[str, Any]]) -> tuple[Ingredient, ...]:
    """Read what a file says a result was made from.

    Raises:
        ValueError, TypeError, KeyError: If it is not what we write.
    """
    ingredients = tuple(Ingredient(**value) for value in values)
    if len(ingredients) > MAX_INGREDIENTS:
        raise ValueError("a result is made from fewer things")
    return ingredients


def ingredients_from_card(vocabulary: Mapping[str, Any]) -> tuple[Ingredient, ...]:
    """Return everything published that a vocabulary was made from, as a card describes it."""
    return (
        *ingredients_from_json(vocabulary.get(MADE_FROM, [])),
        *(claim.ingredient for claim in _claims_from_card(vocabulary)),
    )


def _claims_from_card(vocabulary: Mapping[str, Any]) -> list[DiscoveryClaim]:
    return [DiscoveryClaim(**claim) for claim in vocabulary.get("discoveries", [])]


def has_valid_provenance(vocabulary: Mapping[str, Any]) -> bool:
    """Return whether a card describes the provenance of its vocabulary as we write it.

    Of discoveries it has both the number of n-grams and the claims, or neither.
    """
    try:
        ingredients_from_card(vocabulary)
        claims = _claims_from_card(vocabulary)
    except (KeyError, TypeError, ValueError):
        return False
    if not {"discovered", "discoveries"} & vocabulary.keys():
        return True
    number = vocabulary.get("discovered")
    return bool(claims) and type(number) is int and 0 <= number <= vocabulary["size"]


def discoveries_sentence(
    vocabulary: Mapping[str, Any], charge: Mapping[str, Any] | None = None
) -> str | None:
    """Say what discoveries added to a vocabulary, as a card describes it; None if it is public.

    Args:
        vocabulary: What the card of a release says of its vocabulary.
        charge: What it says of its ledger, if one was charged.

    >>> claim = asdict(DiscoveryClaim(1.0, 1e-07, "PROVED", reviewed=True))
    >>> discoveries_sentence({"discovered": 113, "discoveries": [claim]})
    '113 discovered at ε = 1, δ = 1e-07 (PROVED), which adds up with this release'
    """
    claims = _claims_from_card(vocabulary)
    if not claims:
        return None
    sentence = f"{vocabulary['discovered']:,} discovered at {' and at '.join(map(str, claims))}"
    if any(claim.guarantee != Guarantee.PROVED.name for claim in claims):
        return f"{sentence}: without a guarantee, not for publication"
    review = "" if all(claim.reviewed for claim in claims) else "; nobody has reviewed them"
    if (
        charge is not None
        and "series" in charge
        and all(
            claim.series_discovery is not None
            and (claim.ledger, claim.entry) == (charge.get("ledger"), charge.get("entry"))
            for claim in claims
        )
    ):
        return (
            f"{vocabulary['discovered']:,} discovered in the same series, whose ε and δ cover"
            f" them{review}"
        )
    return f"{sentence}, which {'adds' if len(claims) == 1 else 'add'} up with this release{review}"


# --- In tables ---


def encode_origins(discovered: Bools) -> pa.Array:
    """Return the column `origin` of a table, from a mask of the discovered n-grams."""
    return pa.array(np.where(discovered, DISCOVERED_ORIGIN, PUBLIC_ORIGIN))


def decode_origins(table: pa.Table) -> Bools | None:
    """Return the mask of the discovered n-grams of a table; None if it has no column `origin`.

    Raises:
        ValueError: If the column has another value.
    """
    if ORIGIN_COLUMN not in table.column_names:
        return None
    values = table[ORIGIN_COLUMN].cast(pa.large_string()).to_numpy()
    discovered: Bools = values == DISCOVERED_ORIGIN
    if not (discovered | (values == PUBLIC_ORIGIN)).all():
        raise ValueError(f"{ORIGIN_COLUMN}: {PUBLIC_ORIGIN} or {DISCOVERED_ORIGIN} is expected")
    return discovered


def read_origins(path: str | Path, table: pa.Table) -> Origins | None:
    """Return which n-grams of a vocabulary's file were discovered; None if all are public."""
    metadata: Mapping[bytes, bytes] = table.schema.metadata or {}
    if ORIGIN_COLUMN not in table.column_names and DISCOVERIES_KEY.encode() not in metadata:
        return None
    try:
        values = json.loads(metadata[DISCOVERIES_KEY.encode()])
        claims = tuple(DiscoveryClaim(**claim) for claim in values)
        discovered = decode_origins(table)
        if discovered is None:  # made from a discovery, and none of its n-grams is here
            discovered = np.zeros(table.num_rows, bool)
    except (KeyError, TypeError, ValueError, pa.ArrowException):
        claims = ()
        discovered = None
    if not claims or discovered is None:
        raise UsageError(
            f"{path}: the column {ORIGIN_COLUMN!r} says {PUBLIC_ORIGIN!r} or"
            f" {DISCOVERED_ORIGIN!r}, and the file's metadata which discovery it was; make the"
            " vocabulary again with `bayesgram discover`, or leave that column out."
        )
    return Origins(discovered, claims)


def read_ingredients(path: str | Path, table: pa.Table) -> tuple[Ingredient, ...]:
    """Return what a vocabulary's file says it was made from, other than discoveries."""
    metadata: Mapping[bytes, bytes] = table.schema.metadata or {}
    if INGREDIENTS_KEY.encode() not in metadata:
        return ()
    try:
        return ingredients_from_json(json.loads(metadata[INGREDIENTS_KEY.encode()]))
    except (KeyError, TypeError, ValueError):
        raise UsageError(
            f"{path}: its metadata names what it was made from, and is damaged; make the vocabulary"
            " again with `bayesgram vocab`."
        ) from None
