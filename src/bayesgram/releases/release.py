"""A release: a distribution over public n-grams, and its card.

On disk it is a folder with distribution.parquet (`ngram`, `probability`, `standard_deviation` where
it is known, and `origin` where some n-grams were discovered), card.json and, of mechanisms that
keep them, the noisy measurements in measured.parquet. It is written completely or not at all.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bayesgram.arguments import check_arguments
from bayesgram.arrays import Bools, Floats, Integers
from bayesgram.choices import TokenizerKind
from bayesgram.errors import BayesgramError, UsageError, check_int
from bayesgram.io.atomic import write_folder_atomically
from bayesgram.io.formats import (
    GET_A_COPY,
    check_format,
    explain_damage,
    read_json,
    read_parquet_table,
)
from bayesgram.io.segments import ALL
from bayesgram.notebook import Tabular, html
from bayesgram.releases import CARD_FILE, DISCOVERY_FILE, DISTRIBUTION_FILE
from bayesgram.releases.card import Card, check_card_values
from bayesgram.releases.chain import Chain
from bayesgram.releases.measurements import MEASUREMENTS_FILE, Measurements
from bayesgram.releases.provenance import (
    ORIGIN_COLUMN,
    Ingredient,
    Provenance,
    decode_origins,
    encode_origins,
)
from bayesgram.text.ngrams import ngram_orders
from bayesgram.text.tokenizer import Tokenizer, buffers

CONTENTS = (CARD_FILE, DISTRIBUTION_FILE, MEASUREMENTS_FILE)
KIND = "release"  # what error messages call it
FORMAT = 2
NOTEBOOK_ROWS = 10  # n-grams that a notebook shows
SUM_TOLERANCE = 1e-6  # by which a sum of probabilities may differ from 1; not measured


class VocabularyIdentity(Protocol):
    """Public n-grams and their counts: a `Vocabulary` is one."""

    @property
    def fingerprint(self) -> str:
        """A hash of the n-grams."""

    @property
    def prior_fingerprint(self) -> str:
        """A hash of the public counts."""


def max_release_bytes(ngrams: pa.LargeStringArray) -> int:
    """Return the bytes that a release over these n-grams takes on disk at most."""
    text_bytes = 3 * int(ngrams.nbytes)  # n-grams twice, in both files, and words
    row_bytes = 112 * len(ngrams)  # numbers of the distribution and of the measurements
    return text_bytes + row_bytes + (1 << 18)  # the card, and what Parquet adds


class NgramEstimate(NamedTuple):
    """What a release says of an n-gram."""

    ngram: str
    probability: float
    standard_deviation: float | None  # where the mechanism knows it


@dataclass(frozen=True, eq=False, repr=False)
class Release(Tabular):
    """A distribution over public n-grams, and what it is worth.

    The probabilities of each order add up to 1.

    Attributes:
        ngrams: The n-grams; the row number is the id of an n-gram.
        probabilities: Their probabilities.
        card: Who is protected, and by how much.
        probability_std: The standard deviation of each probability; None if the mechanism does not
            know it.
        discovered_mask: Which n-grams were discovered in private text; None if all are public.
        measurements: The noisy counts; None if the mechanism keeps none.

    Example:
        >>> import bayesgram as bg
        >>> import pyarrow as pa
        >>> vocabulary = bg.Vocabulary.from_public(pa.table({"text": ["a b", "a c"]}), order=1)
        >>> counts = bg.count(pa.table({"user": ["ann"], "text": ["a b"]}), vocabulary)
        >>> release = bg.release(counts, vocabulary, epsilon=1, seed=1)
        >>> release.top(1)[0].ngram
        'a'
        >>> "b" in release, len(release)
        (True, 3)
    """

    ngrams: pa.LargeStringArray
    probabilities: Floats
    card: Card
    probability_std: Floats | None = None
    discovered_mask: Bools | None = None
    measurements: Measurements | None = None

    @property
    def tokenizer(self) -> Tokenizer:
        """How text was cut; the content of a tokenizer.json is not here."""
        return Tokenizer.from_name(self.card.vocabulary["tokenizer"])

    @property
    def orders(self) -> Integers:
        """The number of tokens of each n-gram."""
        return ngram_orders(self.ngrams, self.tokenizer)

    def __repr__(self) -> str:
        return f"Release({self.card.size_text}, {self.card.claim})"

    def __len__(self) -> int:
        return len(self.ngrams)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the n-grams, in the order of the rows."""
        return iter(self.ngrams.to_pylist())

    def __contains__(self, ngram: object) -> bool:
        return isinstance(ngram, str) and self._row(ngram) is not None

    @check_arguments
    def __getitem__(self, ngram: str) -> NgramEstimate:
        """Return the estimate of an n-gram, which may be given as text.

        The text is tokenized: release["Thank you so!"] is that of `thank you so`.

        Raises:
            UsageError: If there is no such n-gram.
        """
        row = self._row(ngram)
        if row is None:
            raise UsageError(
                f"no such n-gram among the {self.card.size_text}; `in` says whether there is one,"
                " to_arrow() has all."
            )
        return self._estimate(row)

    @check_arguments
    def top(self, k: int = 20, *, order: int | None = None) -> list[NgramEstimate]:
        """Return the k most probable n-grams of one order.

        Args:
            k: How many.
            order: Their order; the highest if it is left out.

        Raises:
            UsageError: If the release has no n-gram of this order.
        """
        orders = self.orders
        rows = np.flatnonzero(orders == (orders.max() if order is None else order))
        if not rows.size:
            raise UsageError.for_argument("order", order, f"the release has {self.card.size_text}.")
        check_int("k", k, 1, 10**9, "the number of n-grams")
        best = rows[np.argsort(-self.probabilities[rows], kind="stable")[:k]]
        return [self._estimate(int(row)) for row in best]

    def _row(self, ngram: str) -> int | None:
        """Return the row of an n-gram, as it is given or tokenized; None if there is none."""
        tokenizer = self.tokenizer
        tokens = (
            []
            if tokenizer.kind is TokenizerKind.FILE  # the file is not here
            else [token for sentence in tokenizer.sentences(ngram) for token in sentence]
        )
        rows = (pc.index(self.ngrams, text).as_py() for text in (ngram, " ".join(tokens)))
        return next((row for row in rows if row >= 0), None)

    def _estimate(self, row: int) -> NgramEstimate:
        deviation = None if self.probability_std is None else float(self.probability_std[row])
        return NgramEstimate(self.ngrams[row].as_py(), float(self.probabilities[row]), deviation)

    def to_arrow(self) -> pa.Table:
        """Return the rows of distribution.parquet as a table."""
        columns = {"ngram": self.ngrams, "probability": self.probabilities}
        if self.probability_std is not None:
            columns["standard_deviation"] = self.probability_std
        if self.discovered_mask is not None:
            columns[ORIGIN_COLUMN] = encode_origins(self.discovered_mask)
        return pa.table(columns)

    @property
    def card_details(self) -> dict[str, Any]:
        """The file, its rows and their hash, for the card: another release's file is noticed."""
        data, offsets = buffers(self.ngrams.cast(pa.large_binary()))
        digest = hashlib.sha256((offsets - offsets[0]).astype("<i8").tobytes())
        digest.update(data[offsets[0] : offsets[-1]].tobytes())
        for column in (self.probabilities, self.probability_std, self.discovered_mask):
            digest.update(b"" if column is None else column.astype("<f8").tobytes())
        return {"file": DISTRIBUTION_FILE, "rows": len(self), "sha256": digest.hexdigest()}

    def _repr_html_(self) -> str:
        """Show the card and the most probable n-grams in a notebook."""
        rows = [
            (row.ngram, f"{row.probability:.3g}", _format_std(row.standard_deviation))
            for row in self.top(NOTEBOOK_ROWS)
        ]
        return html(repr(self), self.card.summary_lines, ("n-gram", "probability", "±"), rows)

    def with_card_values(self, **values: Any) -> "Release":  # noqa: ANN401 - of a Card
        """Return the same release with these values on its card."""
        return replace(self, card=replace(self.card, **values))

    @check_arguments
    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the release folder, completely or not at all.

        Args:
            path: The folder.
            force: Whether a release that is there may be replaced.
        """
        with write_folder_atomically(path, contents=CONTENTS, force=force) as folder:
            self.write(folder)

    def write(self, folder: Path) -> None:
        """Write all files of a release into an empty folder."""
        table = self.to_arrow().replace_schema_metadata(self.provenance().metadata)
        pq.write_table(table, folder / DISTRIBUTION_FILE, compression="zstd")
        if self.measurements is not None:
            self.measurements.save(folder)
        card = replace(self.card, distribution=self.card_details)
        text = json.dumps({"format": FORMAT, **card.to_json()}, indent=2, ensure_ascii=False)
        (folder / CARD_FILE).write_text(text + "\n", encoding="utf-8", newline="\n")

    def provenance(self, name: str = "a release") -> Provenance:
        """Return the provenance of something that is made from this release.

        Args:
            name: What the release is called there.
        """
        card = self.card
        release = Ingredient(
            name,
            card.guarantee.name,
            card.epsilon,
            card.delta,
            card.unit,
            *card.ledger_entry,
            card.commitment.series_release,
        )
        discovered = (
            None
            if self.discovered_mask is None
            else self.ngrams.filter(pa.array(self.discovered_mask))
        )
        ingredients = [release, *card.ingredients]
        return Provenance.from_ingredients(ingredients, card.discoveries, discovered)

    @classmethod
    @check_arguments
    def load(cls, path: str | Path) -> "Release":
        """Read a release folder.

        Raises:
            UsageError: If there is no release at `path`, or one of another format.
            BayesgramError: If it is damaged.
        """
        folder = Path(path)
        _check_folder(folder)
        with explain_damage(folder / CARD_FILE, KIND):
            values = read_json(folder / CARD_FILE)
            check_format(path, "a release", values["format"], FORMAT)
            check_card_values(values)
            card = Card.from_json(values)
            is_chain_valid = card.chain is None or Chain.from_json(card.chain).is_valid(
                card.commitment, values["chain"]["hash"]
            )
        with explain_damage(folder / DISTRIBUTION_FILE, KIND):
            table = read_parquet_table(folder / DISTRIBUTION_FILE)
            ngrams = _read_ngrams(table)
            probabilities = _read_numbers(table, "probability")
            has_std = "standard_deviation" in table.column_names
            probability_std = _read_numbers(table, "standard_deviation") if has_std else None
            discovered = _read_discovered(table, card)
        with explain_damage(folder / MEASUREMENTS_FILE, KIND):
            measurements = _read_measurements(folder, card)
        if not is_chain_valid:
            raise BayesgramError(
                f"{path}: the chain on its card does not hold: a link was changed or is missing."
                f" {GET_A_COPY}"
            )
        release = cls(ngrams, probabilities, card, probability_std, discovered, measurements)
        with explain_damage(folder / DISTRIBUTION_FILE, KIND):
            release._check_rows()
        return release

    def _check_rows(self) -> None:
        """Raise a ValueError if these are not the rows that the card describes."""
        sums = np.bincount(self.orders, self.probabilities)[np.bincount(self.orders) > 0]
        if not (np.abs(sums - 1) < SUM_TOLERANCE).all():  # also refuses NaN
            raise ValueError("the probabilities don't add up to 1")
        if self.card.distribution is not None and self.card.distribution != self.card_details:
            raise ValueError("the card tells of another distribution")


def _check_folder(folder: Path) -> None:
    """Refuse a folder that is not a release, and say what it is."""
    if not folder.exists():
        raise UsageError(f"{folder}: no such folder; give one that `bayesgram release` made.")
    if (folder / DISCOVERY_FILE).is_file() and not (folder / DISTRIBUTION_FILE).exists():
        raise UsageError(
            f"{folder}: a discovery, not a release; `bayesgram report` shows it, and its"
            " vocab.parquet is for `bayesgram count` and `bayesgram release`."
        )
    if not (folder / CARD_FILE).is_file() and (folder / ALL / CARD_FILE).is_file():
        raise UsageError(
            f"{folder}: holds a release for each segment; give one of them, such as {folder / ALL}."
        )
    if not (folder / CARD_FILE).is_file():
        raise UsageError(
            f"{folder}: not a release folder (no card.json); make one with `bayesgram release`."
        )


def is_made_with(release: Release, vocabulary: VocabularyIdentity) -> bool:
    """Return whether a release was made with these public n-grams and counts."""
    stated = release.card.vocabulary
    has_same_ngrams = stated["fingerprint"] == vocabulary.fingerprint
    prior_fingerprint = stated.get("prior_fingerprint", vocabulary.prior_fingerprint)
    return bool(has_same_ngrams and prior_fingerprint == vocabulary.prior_fingerprint)


def _format_std(deviation: float | None) -> str:
    return "–" if deviation is None else f"{deviation:.1g}"


def check_vocabulary(
    release: Release,
    vocabulary: VocabularyIdentity,
    *,
    name: str = "the release",
    vocabulary_name: str = "the vocabulary",
) -> None:
    """Refuse a vocabulary that a release was not made with.

    Args:
        release: The release.
        vocabulary: Public n-grams and their counts.
        name: What the message calls the release.
        vocabulary_name: What the message calls the vocabulary.

    Raises:
        UsageError: If its n-grams or their public counts are others.
    """
    if is_made_with(release, vocabulary):
        return
    has_same_ngrams = release.card.vocabulary["fingerprint"] == vocabulary.fingerprint
    difference = "the same n-grams with other public counts" if has_same_ngrams else "other n-grams"
    raise UsageError(
        f"{name}: was made with another vocabulary than {vocabulary_name}, which has {difference};"
        " give the vocabulary it was made with, or a public model of that one"
        " (`bayesgram vocab … --list VOCABULARY --model`)."
    )


def _read_ngrams(table: pa.Table) -> pa.LargeStringArray:
    """Return the column of n-grams; refuse nulls, and a table without rows."""
    column = table["ngram"]
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise TypeError("n-grams are text")
    column.validate(full=True)  # UTF-8, which Arrow takes for granted
    if column.null_count or not len(column):
        raise ValueError("n-grams are missing")
    return column.combine_chunks().cast(pa.large_string())


def _read_discovered(table: pa.Table, card: Card) -> Bools | None:
    """Return which n-grams were discovered; as many as the card says."""
    discovered = decode_origins(table)
    discovered_count = 0 if discovered is None else int(discovered.sum())
    if discovered_count != card.vocabulary.get("discovered", 0):
        raise ValueError("the card and the table tell of different discoveries")
    return discovered


def _read_measurements(folder: Path, card: Card) -> Measurements | None:
    """Return the measurements that the card describes; refuse others, and missing ones."""
    if card.measured is None:
        if (folder / MEASUREMENTS_FILE).exists():
            raise ValueError("measurements that the card says nothing of")
        return None
    if not (folder / MEASUREMENTS_FILE).is_file():
        raise ValueError("measurements are missing")
    measurements = Measurements.load(folder)
    if measurements.card_details != card.measured:
        raise ValueError("the card tells of other measurements")
    return measurements


def _read_numbers(table: pa.Table, name: str) -> Floats:
    """Return a column of finite numbers that are not negative."""
    column = table[name]
    if not pa.types.is_floating(column.type) or column.null_count:
        raise TypeError(f"{name}: not a column of numbers")
    numbers: Floats = column.to_numpy().astype(np.float64)
    if not np.isfinite(numbers).all() or numbers.min(initial=0) < 0:
        raise ValueError(f"{name}: a number from 0 is expected")
    return numbers
