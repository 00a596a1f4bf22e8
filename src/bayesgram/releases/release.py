"""A release: a distribution over public n-grams, and its card.

On disk: a folder with distribution.parquet (`ngram`, `probability`, `standard_deviation` where it is known, and
`origin` where some n-grams were discovered), card.json and, of mechanisms that keep them, the noisy measurements in
measured.parquet; published whole or not at all.
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
from bayesgram.releases.measurements import MEASUREMENTS_FILE as MEASURED
from bayesgram.releases.measurements import Measurements
from bayesgram.releases.provenance import (
    ORIGIN_COLUMN,
    Ingredient,
    Provenance,
    decode_origins,
    encode_origins,
)
from bayesgram.text.ngrams import ngram_orders
from bayesgram.text.tokenizer import Tokenizer, buffers

CONTENTS = (CARD_FILE, DISTRIBUTION_FILE, MEASURED)
KIND, FORMAT = "release", 1
NOTEBOOK_ROWS = 10  # n-grams in a notebook
SUM_TOLERANCE = 1e-6  # of a sum of probabilities


class VocabularyIdentity(Protocol):
    """Public n-grams and their counts: a `Vocabulary` is one."""

    @property
    def fingerprint(self) -> str:
        """Of the n-grams."""

    @property
    def prior_fingerprint(self) -> str:
        """Of the public counts."""


def max_release_bytes(ngrams: pa.LargeStringArray) -> int:
    """Bytes that a release over these n-grams takes on disk, and some to spare."""
    texts = 3 * int(ngrams.nbytes)  # released, measured, and as words
    return (
        texts + 112 * len(ngrams) + (1 << 18)
    )  # two numbers a row, some more a measurement, Parquet's own, the card


class NgramEstimate(NamedTuple):
    """What a release says of an n-gram."""

    ngram: str
    probability: float
    standard_deviation: float | None  # where the mechanism knows it


@dataclass(frozen=True, eq=False, repr=False)
class Release(Tabular):
    """θ and what it is worth. Row number = n-gram id; the probabilities of each order add up to 1."""

    ngrams: pa.LargeStringArray
    probabilities: Floats
    card: Card
    probability_std: Floats | None = (
        None  # standard deviation of each probability, where the mechanism knows it
    )
    discovered_mask: Bools | None = (
        None  # which n-grams are from people's own text; None: all are public
    )
    measurements: Measurements | None = (
        None  # the noisy counts; None: the mechanism, or an earlier version, kept none
    )

    @property
    def orders(self) -> Integers:
        """How many tokens each n-gram has."""
        return ngram_orders(self.ngrams)

    def __repr__(self) -> str:
        return f"Release({self.card.size_text}, {self.card.claim})"

    def __len__(self) -> int:
        return len(self.ngrams)

    def __iter__(self) -> Iterator[str]:
        """The n-grams, as the rows have them."""
        return iter(self.ngrams.to_pylist())

    def __contains__(self, ngram: object) -> bool:
        return isinstance(ngram, str) and self._row(ngram) is not None

    @check_arguments
    def __getitem__(self, ngram: str) -> NgramEstimate:
        """What it says of an n-gram, which is cut as text is: release["Thank you so!"] is that of `thank you so`."""
        row = self._row(ngram)
        if row is None:
            raise UsageError(
                f"no such n-gram among the {self.card.size_text}; `in` says whether there is one, to_arrow() has all."
            )
        return self._estimate(row)

    @check_arguments
    def top(self, k: int = 20, *, order: int | None = None) -> list[NgramEstimate]:
        """The k most probable n-grams, of the longest unless an order is given: each order adds up to 1."""
        orders = self.orders
        rows = np.flatnonzero(orders == (orders.max() if order is None else order))
        if not rows.size:
            raise UsageError.for_argument("order", order, f"the release has {self.card.size_text}.")
        check_int("k", k, 1, 10**9, "the number of n-grams")
        best = rows[np.argsort(-self.probabilities[rows], kind="stable")[:k]]
        return [self._estimate(int(row)) for row in best]

    def _row(self, ngram: str) -> int | None:
        """Where an n-gram stands, as it is given or as it is cut."""
        cut = Tokenizer.from_name(self.card.vocabulary["tokenizer"])
        tokens = (
            []
            if cut.kind is TokenizerKind.FILE
            else [token for line in cut.sentences(ngram) for token in line]
        )
        rows = (pc.index(self.ngrams, given).as_py() for given in (ngram, " ".join(tokens)))
        return next((row for row in rows if row >= 0), None)

    def _estimate(self, row: int) -> NgramEstimate:
        deviation = None if self.probability_std is None else float(self.probability_std[row])
        return NgramEstimate(self.ngrams[row].as_py(), float(self.probabilities[row]), deviation)

    def to_arrow(self) -> pa.Table:
        """The rows of distribution.parquet."""
        columns = {"ngram": self.ngrams, "probability": self.probabilities}
        if self.probability_std is not None:
            columns["standard_deviation"] = self.probability_std
        if self.discovered_mask is not None:
            columns[ORIGIN_COLUMN] = encode_origins(self.discovered_mask)
        return pa.table(columns)

    @property
    def card_details(self) -> dict[str, Any]:
        """What the card on disk says of the rows: a file of another release is noticed."""
        data, offsets = buffers(self.ngrams.cast(pa.large_binary()))
        digest = hashlib.sha256((offsets - offsets[0]).astype("<i8").tobytes())
        digest.update(data[offsets[0] : offsets[-1]].tobytes())
        for column in (self.probabilities, self.probability_std, self.discovered_mask):
            digest.update(b"" if column is None else column.astype("<f8").tobytes())
        return {"file": DISTRIBUTION_FILE, "rows": len(self), "sha256": digest.hexdigest()}

    def _repr_html_(self) -> str:
        """For notebooks: the card, and the most probable n-grams."""
        best = self.top(NOTEBOOK_ROWS)
        rows = [
            (each.ngram, f"{each.probability:.3g}", _plus_minus(each.standard_deviation))
            for each in best
        ]
        return html(repr(self), self.card.summary_lines, ("n-gram", "probability", "±"), rows)

    def with_card_values(self, **values: Any) -> "Release":  # noqa: ANN401 - of a Card
        """The same with these values on its card."""
        return replace(self, card=replace(self.card, **values))

    @check_arguments
    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the release folder."""
        with write_folder_atomically(path, contents=CONTENTS, force=force) as folder:
            self.write(folder)

    def write(self, folder: Path) -> None:
        """Fill a folder with what a release folder has."""
        table = self.to_arrow().replace_schema_metadata(self.provenance().metadata)
        pq.write_table(table, folder / DISTRIBUTION_FILE, compression="zstd")
        if self.measurements is not None:
            self.measurements.save(folder)
        told = replace(self.card, distribution=self.card_details).to_json()
        card = json.dumps({"format": FORMAT, **told}, indent=2, ensure_ascii=False)
        (folder / CARD_FILE).write_text(card + "\n", encoding="utf-8")

    def provenance(self, name: str = "a release") -> Provenance:
        """What something that is made from this release is from: the release, and its discoveries."""
        card = self.card
        own = Ingredient(
            name, card.guarantee.name, card.epsilon, card.delta, card.unit, *card.ledger_entry
        )
        found = (
            None
            if self.discovered_mask is None
            else self.ngrams.filter(pa.array(self.discovered_mask))
        )
        return Provenance.from_ingredients([own, *card.ingredients], card.discoveries, found)

    @classmethod
    @check_arguments
    def load(cls, path: str | Path) -> "Release":
        """Read a release folder."""
        folder = Path(path)
        _check_folder(folder)
        with explain_damage(folder / CARD_FILE, KIND):
            values = read_json(folder / CARD_FILE)
            check_format(path, "a release", values["format"], FORMAT)
            check_card_values(values)
            card = Card.from_json(values)
            linked = card.chain is None or Chain.from_json(card.chain).is_valid(
                card.commitment, values["chain"]["hash"]
            )
        with explain_damage(folder / DISTRIBUTION_FILE, KIND):
            table = read_parquet_table(folder / DISTRIBUTION_FILE)
            ngrams, probabilities = _ngrams(table), _numbers(table, "probability")
            known = "standard_deviation" in table.column_names
            deviations = _numbers(table, "standard_deviation") if known else None
            discovered = _discovered(table, card)
        with explain_damage(folder / MEASURED, KIND):
            measured = _measured(folder, card)
        if not linked:
            raise BayesgramError(
                f"{path}: the chain on its card does not hold: a link was changed or is missing. {GET_A_COPY}"
            )
        loaded = cls(ngrams, probabilities, card, deviations, discovered, measured)
        with explain_damage(folder / DISTRIBUTION_FILE, KIND):
            loaded._check_rows()
        return loaded

    def _check_rows(self) -> None:
        """A ValueError if these are not the rows that the card tells of; cards of 0.1 tell of none."""
        sums = np.bincount(self.orders, self.probabilities)[np.bincount(self.orders) > 0]
        if not (np.abs(sums - 1) < SUM_TOLERANCE).all():  # also refuses NaN
            raise ValueError("the probabilities don't add up to 1")
        if self.card.distribution is not None and self.card.distribution != self.card_details:
            raise ValueError("the card tells of another distribution")


def _check_folder(folder: Path) -> None:
    """Refuse what is no release's folder, and say what it is."""
    if not folder.exists():
        raise UsageError(f"{folder}: no such folder; give one that `bayesgram release` made.")
    if (folder / DISCOVERY_FILE).is_file() and not (folder / DISTRIBUTION_FILE).exists():
        raise UsageError(
            f"{folder}: a discovery, not a release; `bayesgram report` shows it, and its vocab.parquet is for"
            " `bayesgram count` and `bayesgram release`."
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
    """Whether a release was made with these public n-grams and counts; early ones don't say which counts."""
    stated = release.card.vocabulary
    alike = stated["fingerprint"] == vocabulary.fingerprint
    counts = stated.get("prior_fingerprint", vocabulary.prior_fingerprint)
    return bool(alike and counts == vocabulary.prior_fingerprint)


def _plus_minus(deviation: float | None) -> str:
    return "–" if deviation is None else f"{deviation:.1g}"


def check_vocabulary(
    release: Release,
    vocabulary: VocabularyIdentity,
    *,
    name: str = "the release",
    given: str = "the vocabulary",
) -> None:
    """Refuse public n-grams, or counts of them, that a release was not made with."""
    if is_made_with(release, vocabulary):
        return
    alike = release.card.vocabulary["fingerprint"] == vocabulary.fingerprint
    other = "the same n-grams with other public counts" if alike else "other n-grams"
    raise UsageError(
        f"{name}: was made with another vocabulary than {given}, which has {other}; give the vocabulary it was made"
        " with, or a public model of that one (`bayesgram vocab … --list VOCABULARY --model`)."
    )


def _ngrams(table: pa.Table) -> pa.LargeStringArray:
    """The column of texts, without nulls and not empty."""
    column = table["ngram"]
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise TypeError("n-grams are text")
    column.validate(full=True)  # UTF-8, which Arrow takes for granted
    if column.null_count or not len(column):
        raise ValueError("n-grams are missing")
    return column.combine_chunks().cast(pa.large_string())


def _discovered(table: pa.Table, card: Card) -> Bools | None:
    """Which n-grams were discovered; as many as the card says."""
    found = decode_origins(table)
    if (0 if found is None else int(found.sum())) != card.vocabulary.get("discovered", 0):
        raise ValueError("the card and the table tell of different discoveries")
    return found


def _measured(folder: Path, card: Card) -> Measurements | None:
    """The measurements that the card tells of; neither a file without a word there, nor the other way round."""
    if card.measured is None:
        if (folder / MEASURED).exists():
            raise ValueError("measurements that the card says nothing of")
        return None
    if not (folder / MEASURED).is_file():
        raise ValueError("measurements are missing")
    found = Measurements.load(folder)
    if found.card_details != card.measured:
        raise ValueError("the card tells of other measurements")
    return found


def _numbers(table: pa.Table, name: str) -> Floats:
    """A column of finite numbers."""
    column = table[name]
    if not pa.types.is_floating(column.type) or column.null_count:
        raise TypeError(f"{name}: not a column of numbers")
    numbers: Floats = column.to_numpy().astype(np.float64)
    if not np.isfinite(numbers).all() or numbers.min(initial=0) < 0:
        raise ValueError(f"{name}: a number from 0 is expected")
    return numbers
