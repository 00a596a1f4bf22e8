"""Which strings look like secrets: for a person to look at before they are published.

A discovery bounds what one person adds; a number that many people share (a support line, a company's address, a
password that everybody was given) comes out like any word. Post-processing of strings that are released already.
docs/howto/discover.md lists what is looked for.

A discovery: n-grams that many people write and public text lacks, with their noisy weights and a card.

On disk: a folder with ngrams.parquet (`ngram`, `order`, `weight`, `standard_deviation`, `log_probability`),
vocab.parquet (the public vocabulary and what was found, with its origin) and card.json, published whole or not at all.
A weight is what the people who write an n-gram give it together: each at most 1, spread over all that they write.
"""

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bayesgram.arguments import check_arguments
from bayesgram.arrays import Bools, Floats, Integers
from bayesgram.errors import UsageError
from bayesgram.io.atomic import write_folder_atomically
from bayesgram.io.formats import check_format, explain_damage, read_json, read_parquet_table
from bayesgram.notebook import Tabular, html
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.card import REVIEWED_DETAIL, Card, check_card_values
from bayesgram.releases.provenance import DISCOVERY_MECHANISM
from bayesgram.releases.release import CARD_FILE, DISCOVERY_FILE
from bayesgram.text.ngrams import distinct_orders, ngram_orders

MIN_DIGITS = 4  # in all, from which a string may be a number that belongs to somebody
MIN_CODE_LENGTH = 8  # characters of a token of letters and digits, from which it may be a code

_SCHEME = r"(https?|ftp|mailto|www)"
_ENDING = r"(com|org|net|io)"
_PROVIDER = r"(gmail|hotmail|icloud|outlook|protonmail|yahoo)"
_STREET = r"(apartment|apt|ave|avenue|drive|floor|lane|rd|road|st|street)"

# Tokenizers cut `https://example.com` at its marks or leave it as it is, so both are looked for. A
# `https`, `www` or `com` without a name beside it says that somebody wrote an address, not which.
_ADDRESSES = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\S ?@|@ ?\S",
        r"\w://[^\s/]",
        rf"(^| ){_SCHEME} (?!({_SCHEME}|{_ENDING})( |$))\w",
        rf"\w\.{_ENDING}(?!\w)",
        r"(^| )www\.\w",
        rf"\S {_PROVIDER}( |$)",
        rf"\d.* {_STREET}( |$)",
    )
]
_MIXED = re.compile(rf"(?=\S*[^\W\d_])(?=\S*\d)\S{{{MIN_CODE_LENGTH},}}")


def suspicion_of(ngram: str) -> str | None:
    """Why a string looks like a secret; None if it does not.

    >>> suspicion_of("thank you"), suspicion_of("4111 1111"), suspicion_of("mail me @ home"), suspicion_of("x9k2m4q8")
    (None, 'digits', 'an address', 'a code')
    """
    if any(pattern.search(ngram) for pattern in _ADDRESSES):
        return "an address"
    if _MIXED.search(ngram):
        return "a code"
    return "digits" if sum(letter.isdigit() for letter in ngram) >= MIN_DIGITS else None


def suspicions_of(ngrams: pa.LargeStringArray) -> list[str | None]:
    """The same of many."""
    return [suspicion_of(ngram) for ngram in ngrams.to_pylist()]


def matches_any(ngrams: pa.LargeStringArray, patterns: Iterable[re.Pattern[str]]) -> list[bool]:
    """Which n-grams some pattern finds something in."""
    wanted = list(patterns)
    return [any(pattern.search(ngram) for pattern in wanted) for ngram in ngrams.to_pylist()]


VOCABULARY_FILE = "vocab.parquet"
CONTENTS = (CARD_FILE, DISCOVERY_FILE, VOCABULARY_FILE)
KIND, FORMAT = "discovery", 1
MECHANISM = DISCOVERY_MECHANISM


@dataclass(frozen=True, eq=False, repr=False)
class Discovery(Tabular):
    """What was found, heaviest first, and what it is worth."""

    ngrams: pa.LargeStringArray
    weights: Floats  # noisy
    log_probabilities: Floats  # log q: how likely public text makes each
    noise_std: float  # of every weight: σ
    card: Card
    vocabulary: Vocabulary  # public text's n-grams and these

    def __repr__(self) -> str:
        return f"Discovery({len(self):,} n-grams, {self.card.claim})"

    def _repr_html_(self) -> str:
        """For notebooks: the card, and the heaviest."""
        rows = [
            (str(row["ngram"]), f"{row['weight']:.1f}")
            for row in self.to_arrow().slice(0, 10).to_pylist()
        ]
        return html(repr(self), self.card.summary_lines, ("n-gram", "weight"), rows)

    def __len__(self) -> int:
        return len(self.ngrams)

    @property
    def orders(self) -> Integers:
        """How many tokens each n-gram has."""
        return ngram_orders(self.ngrams)

    @property
    def threshold(self) -> float:
        """T: what a noisy weight had to exceed."""
        return float(self.card.details["threshold"])

    def keep(self, rows: Bools) -> "Discovery":
        """Drop the other rows, and every n-gram that contains one of them.

        The vocabulary loses them as well, also what an earlier discovery found. An n-gram of public
        text stays, whatever it contains: it was public before. Dropping is post-processing, and costs
        nothing.

        Args:
            rows: One value for each n-gram: whether it may stay.

        """
        dropped = self.ngrams.filter(pa.array(~rows))
        stay = ~contains_any(self.ngrams, dropped)
        origins = self.vocabulary.origins
        discovered = (
            np.zeros(0, np.int64) if origins is None else np.flatnonzero(origins.discovered)
        )
        leave = discovered[contains_any(self.vocabulary.ngrams.take(pa.array(discovered)), dropped)]
        return replace(
            self,
            ngrams=self.ngrams.filter(pa.array(stay)),
            weights=self.weights[stay],
            log_probabilities=self.log_probabilities[stay],
            vocabulary=self.vocabulary.select(np.delete(np.arange(len(self.vocabulary)), leave)),
        )

    def mark_reviewed(self) -> "Discovery":
        """The same discovery, whose card and vocabulary say that a person has decided about each string."""
        origins = self.vocabulary.origins
        if origins is None:
            raise UsageError(
                "the discovery names none in its vocabulary; load it with Discovery.load."
            )
        *before, own = origins.claims
        marked = replace(origins, claims=(*before, replace(own, reviewed=True)))
        card = replace(self.card, details={**self.card.details, REVIEWED_DETAIL: True})
        return replace(self, card=card, vocabulary=replace(self.vocabulary, origins=marked))

    @check_arguments
    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the folder."""
        with write_folder_atomically(path, contents=CONTENTS, force=force) as folder:
            table = self.to_arrow().replace_schema_metadata(self.vocabulary.provenance.metadata)
            pq.write_table(table, folder / DISCOVERY_FILE, compression="zstd")
            self.vocabulary.write(folder / VOCABULARY_FILE)
            card = json.dumps(
                {"format": FORMAT, **self.card.to_json()}, indent=2, ensure_ascii=False
            )
            (folder / CARD_FILE).write_text(card + "\n", encoding="utf-8")

    def to_arrow(self) -> pa.Table:
        """The rows of ngrams.parquet."""
        columns = {
            "ngram": self.ngrams,
            "order": pa.array(self.orders),
            "weight": self.weights,
            "standard_deviation": np.full(len(self), self.noise_std),
            "log_probability": self.log_probabilities,
        }
        return pa.table(columns)

    @classmethod
    @check_arguments
    def load(cls, path: str | Path) -> "Discovery":
        """Read a discovery's folder."""
        folder = Path(path)
        if not folder.exists():
            raise UsageError(f"{path}: no such folder; give one that `bayesgram discover` made.")
        if not is_discovery(folder):
            raise UsageError(
                f"{path}: not a discovery (no {DISCOVERY_FILE}); make one with `bayesgram discover`."
            )
        with explain_damage(folder / CARD_FILE, KIND):
            values = read_json(folder / CARD_FILE)
            check_format(path, "a discovery", values["format"], FORMAT)
            check_card_values(values)
            card = Card.from_json(values)
            deviation = float(card.details["noise_multiplier"])
            if not math.isfinite(deviation):
                raise ValueError("the noise is no number")
        with explain_damage(folder / DISCOVERY_FILE, KIND):
            ngrams, weights, logs = _columns(read_parquet_table(folder / DISCOVERY_FILE))
            if ngrams.null_count or not np.isfinite([weights, logs]).all():
                raise ValueError("a row lacks a value")
        return cls(
            ngrams, weights, logs, deviation, card, Vocabulary.load(folder / VOCABULARY_FILE)
        )


def contains_any(ngrams: pa.LargeStringArray, others: pa.LargeStringArray) -> Bools:
    """Which n-grams have one of the others in them, token by token, from end to end or in part.

    >>> ngrams = pa.array(["art", "start", "modern art", "the art of"], pa.large_string())
    >>> contains_any(ngrams, pa.array(["art"], pa.large_string())).tolist()
    [True, False, True, True]
    """
    orders = ngram_orders(ngrams)
    found = np.zeros(len(ngrams), np.bool_)
    lengths = distinct_orders(ngram_orders(others))
    for order in distinct_orders(orders):
        rows = np.flatnonzero(orders == order)
        tokens = pc.split_pattern(ngrams.take(pa.array(rows)), " ").flatten()
        columns = [
            tokens.take(pa.array(np.arange(place, len(tokens), order))) for place in range(order)
        ]
        for length in lengths:
            for first in range(order - length + 1):
                part = columns[first : first + length]
                joined = pc.binary_join_element_wise(*part, pa.scalar(" ", pa.large_string()))
                found[rows] |= pc.is_in(joined, value_set=others).to_numpy(zero_copy_only=False)
    return found


def _columns(table: pa.Table) -> tuple[pa.LargeStringArray, Floats, Floats]:
    table.validate(full=True)
    weights, logs = (
        table[name].to_numpy().astype(np.float64) for name in ("weight", "log_probability")
    )
    return table["ngram"].combine_chunks().cast(pa.large_string()), weights, logs


def is_discovery(path: Path) -> bool:
    """Whether a folder holds one."""
    return (path / DISCOVERY_FILE).is_file() and (path / CARD_FILE).is_file()
