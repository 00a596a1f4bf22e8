"""A release: a distribution over public n-grams, and its card.

On disk: a folder with distribution.parquet (`ngram`, `probability`, and `standard_deviation` where it is known) and
card.json, published whole or not at all.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bayesgram.arrays import Floats, Integers
from bayesgram.errors import BayesgramError, UsageError, unreadable
from bayesgram.files.formats import check_format
from bayesgram.files.writing import publish_folder
from bayesgram.released.card import Card
from bayesgram.text.ngrams import ngram_orders

CARD, DISTRIBUTION = "card.json", "distribution.parquet"
CONTENTS = (CARD, DISTRIBUTION)
FORMAT = 1
TOLERANCE = 1e-6  # of a sum of probabilities


def largest_size(ngrams: pa.LargeStringArray) -> int:
    """Bytes that a release over these n-grams takes on disk, and some to spare."""
    return int(ngrams.nbytes) + 24 * len(ngrams) + (1 << 18)  # two numbers a row, Parquet's own and the card


@dataclass(frozen=True, eq=False)
class Release:
    """θ and what it is worth. Row number = n-gram id; the probabilities of each order add up to 1."""

    ngrams: pa.LargeStringArray
    probabilities: Floats
    card: Card
    deviations: Floats | None = None  # standard deviation of each probability, where the mechanism knows it

    @property
    def orders(self) -> Integers:
        """How many tokens each n-gram has."""
        return ngram_orders(self.ngrams)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the release folder."""
        with publish_folder(path, contents=CONTENTS, force=force) as folder:
            columns = {"ngram": self.ngrams, "probability": self.probabilities}
            if self.deviations is not None:
                columns["standard_deviation"] = self.deviations
            table = pa.table(columns)
            pq.write_table(table, folder / DISTRIBUTION, compression="zstd")
            card = json.dumps({"format": FORMAT, **self.card.to_json()}, indent=2, ensure_ascii=False)
            (folder / CARD).write_text(card + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "Release":
        """Read a release folder."""
        folder = Path(path)
        if not (folder / CARD).is_file():
            raise UsageError(f"{path}: not a release folder (no card.json); make one with `bayesgram release`.")
        try:
            values = json.loads((folder / CARD).read_text(encoding="utf-8"))
            check_format(path, "a release", values.get("format", 1), FORMAT)  # version 0.1 wrote no number
            card = Card.from_json(values)
            table = pq.read_table(folder / DISTRIBUTION)
            ngrams = table["ngram"].combine_chunks().cast(pa.large_string())
            probabilities = table["probability"].to_numpy()
            known = "standard_deviation" in table.column_names
            deviations = table["standard_deviation"].to_numpy() if known else None
        except UsageError:
            raise
        except (OSError, pa.ArrowInvalid, ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise unreadable(path, error) from None
            raise BayesgramError(f"{path}: the release is damaged; release again.") from None
        loaded = cls(ngrams, probabilities, card, deviations)
        sums = np.bincount(loaded.orders, probabilities)[np.unique(loaded.orders)]
        if not (probabilities.min(initial=1) >= 0 and (np.abs(sums - 1) < TOLERANCE).all()):  # also refuses NaN
            raise BayesgramError(
                f"{path}: the probabilities are negative or don't add up to 1; the release is damaged."
            )
        return loaded
