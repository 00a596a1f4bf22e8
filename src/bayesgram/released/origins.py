"""Where the n-grams of a vocabulary are from: public text, or people's own text by a discovery.

A discovery is released, so what it found is public; what it cost its people is said with every release that uses it.
In a vocabulary's file: a column `origin`, and `bayesgram.discoveries` in the metadata.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from bayesgram.arrays import Bools
from bayesgram.errors import UsageError
from bayesgram.privacy.budget import MAX_EPSILON, Guarantee

PUBLIC, DISCOVERED = "public", "discovered"
DISCOVERY = "discovery"  # the mechanism, on a card
COLUMN, METADATA = "origin", "bayesgram.discoveries"


@dataclass(frozen=True)
class DiscoveryClaim:
    """What one discovery promised the people whose text it looked through."""

    epsilon: float
    delta: float
    guarantee: str  # PROVED; NONE if it was seeded
    ledger: str | None = None  # which population was charged

    def __post_init__(self) -> None:
        numbers = ((self.epsilon, MAX_EPSILON), (self.delta, 1.0))
        if not all(type(value) in {int, float} and 0 <= value <= most for value, most in numbers):
            raise ValueError("a discovery has an epsilon and a delta")
        Guarantee[self.guarantee]  # a KeyError if it is none
        if not isinstance(self.ledger, str | None):
            raise TypeError("the name of a ledger is a text")

    def __str__(self) -> str:
        return f"ε = {self.epsilon:g}, δ = {self.delta:g} ({self.guarantee})"


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

    def to_json(self) -> str:
        """The claims, for a file's metadata."""
        return json.dumps([asdict(claim) for claim in self.claims])


def extended_by(described: Mapping[str, Any]) -> str | None:
    """What discoveries added to a vocabulary, as a card describes it, in words; None where all is public text.

    >>> claim = asdict(DiscoveryClaim(1.0, 1e-07, "PROVED"))
    >>> extended_by({"discovered": 113, "discoveries": [claim]})
    '113 discovered at ε = 1, δ = 1e-07 (PROVED), which adds up with this release'
    """
    claims = [DiscoveryClaim(**claim) for claim in described.get("discoveries", [])]
    if not claims:
        return None
    found = f"{described['discovered']:,} discovered at {' and at '.join(map(str, claims))}"
    if any(claim.guarantee != Guarantee.PROVED.name for claim in claims):
        return f"{found}: without a guarantee, not for publication"
    return f"{found}, which {'adds' if len(claims) == 1 else 'add'} up with this release"


def are_described(described: Mapping[str, Any]) -> bool:
    """Whether a card says of discoveries what it should: both how many n-grams and which claims, or nothing."""
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
    except (KeyError, TypeError, ValueError, pa.ArrowException):
        claims, discovered = (), None
    if not claims or discovered is None:
        raise UsageError(
            f"{path}: the column {COLUMN!r} says {PUBLIC!r} or {DISCOVERED!r}, and the file's metadata which discovery"
            " it was; make the vocabulary again with `bayesgram discover`, or leave that column out."
        )
    return Origins(discovered, claims)
