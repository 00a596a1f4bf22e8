"""The noisy measurements behind a release, from which anybody can infer again.

They are as public as the distribution. On disk they are measured.parquet in the release folder,
with a row for each number that private counts were asked for:

| column | content |
|---|---|
| `kind` | what was counted: one of `KINDS` |
| `order` | the order of the n-grams it is about |
| `text` | the n-gram or word; "" for a total |
| `count`, `noise` | the noisy count, and the standard deviation of its noise |
| `left` | the share of an n-gram's count that clipping leaves, if clipping was measured |
| `carried_count`, `carried_noise` | the same combined with all releases before, if it follows one |

This module does not infer anything.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bayesgram.arrays import Bools, Floats, Ids
from bayesgram.io.formats import read_parquet_table
from bayesgram.text.tokenizer import buffers

MEASUREMENTS_FILE = "measured.parquet"
NGRAM = "ngram"
WORD = "word"
TOTAL = "total"
CLIPPED_WORD = "lost word"  # of the text that clipping removes
CLIPPED_TOTAL = "lost total"
UNLISTED = "unlisted total"  # of the n-grams that the vocabulary does not list
KINDS = (NGRAM, WORD, TOTAL, CLIPPED_WORD, CLIPPED_TOTAL, UNLISTED)
SINGLE_KINDS = (TOTAL, CLIPPED_TOTAL, UNLISTED)  # at most one row for each order
CARRIED_COLUMNS = ("carried_count", "carried_noise")
CLIPPING_KEY = "bayesgram.clipping"  # of the file's metadata
MAX_ORDER = 6
MAX_MAGNITUDE = 1e300  # of a count; a larger one is not finite once it is squared or added up
ROUNDING_TOLERANCE = 1e-9  # by which a share may exceed 1


@dataclass(frozen=True, eq=False)
class MeasurementBlock:
    """Measurements of one kind and order.

    Attributes:
        kind: One of `KINDS`.
        order: The order of the n-grams that they are about.
        texts: The n-grams or words.
        counts: Their noisy counts.
        noise_std: The standard deviations of the noise.
        unclipped_share: The share of each that clipping leaves; None if it is not known.
        carried: Counts and standard deviations, combined with earlier releases; None if none.
    """

    kind: str
    order: int
    texts: pa.LargeStringArray
    counts: Floats
    noise_std: Floats
    unclipped_share: Floats | None = None
    carried: tuple[Floats, Floats] | None = None

    @classmethod
    def from_total(
        cls, kind: str, order: int, count: float, noise_std: float
    ) -> "MeasurementBlock":
        """Return the block of a single total."""
        texts = pa.array([""], pa.large_string())
        return cls(kind, order, texts, np.array([count]), np.array([noise_std]))


@dataclass(frozen=True, eq=False)
class Measurements:
    """All noisy measurements of a release, row by row.

    Each count is a normal number around what people wrote within the clip norm; the noise is
    independent between rows.

    Attributes:
        kinds: Indices in `KINDS`.
        orders: The order of the n-grams that a row is about.
        texts: The n-gram or word; "" for a total.
        counts: Noisy counts.
        noise_std: The standard deviations of the noise.
        unclipped_share: The share that clipping leaves, 1 for rows that are no n-gram; None if it
            was not measured.
        clipping: By order: the share of all text that clipping removes, how unevenly, and by how
            much that moves the share of an n-gram (relative standard deviation). Orders whose
            clipping was not measured are left out.
        carried: Counts and standard deviations, combined with earlier releases; None if the
            release follows none.
    """

    kinds: Ids
    orders: Ids
    texts: pa.LargeStringArray
    counts: Floats
    noise_std: Floats
    unclipped_share: Floats | None = None
    clipping: dict[int, tuple[float, float, float]] = field(default_factory=dict)
    carried: tuple[Floats, Floats] | None = None

    def __post_init__(self) -> None:
        if not self._is_sound():
            raise ValueError("measurements: not what a release has")

    @classmethod
    def from_blocks(
        cls,
        blocks: Sequence[MeasurementBlock],
        clipping: dict[int, tuple[float, float, float]] | None = None,
    ) -> "Measurements":
        """Return the rows of all blocks, one after the other."""
        sizes = [block.counts.size for block in blocks]
        kinds = np.repeat(np.array([KINDS.index(block.kind) for block in blocks], np.int32), sizes)
        orders = np.repeat(np.array([block.order for block in blocks], np.int32), sizes)
        unclipped_share = None
        if any(block.unclipped_share is not None for block in blocks):
            unclipped_share = np.concatenate(
                [
                    np.ones(block.counts.size)
                    if block.unclipped_share is None
                    else block.unclipped_share
                    for block in blocks
                ]
            )
        carried = None
        if any(block.carried is not None for block in blocks):
            pairs = [block.carried or (block.counts, block.noise_std) for block in blocks]
            carried = (
                np.concatenate([counts for counts, _ in pairs]),
                np.concatenate([noise_std for _, noise_std in pairs]),
            )
        return cls(
            kinds,
            orders,
            pa.concat_arrays([block.texts for block in blocks]),
            np.concatenate([block.counts for block in blocks]),
            np.concatenate([block.noise_std for block in blocks]),
            unclipped_share,
            clipping or {},
            carried,
        )

    def block(self, kind: str, order: int) -> MeasurementBlock | None:
        """Return the measurements of one kind and order; None if there are none."""
        rows = self._row_mask(kind, order)
        if not rows.any():
            return None
        return MeasurementBlock(
            kind,
            order,
            self.texts.filter(pa.array(rows)),
            self.counts[rows],
            self.noise_std[rows],
            None if self.unclipped_share is None else self.unclipped_share[rows],
            None if self.carried is None else (self.carried[0][rows], self.carried[1][rows]),
        )

    def ngrams(self, order: int) -> tuple[pa.LargeStringArray, Floats, Floats]:
        """Return the n-grams of an order, their noisy counts, and the noise's deviations."""
        block = self.block(NGRAM, order)
        if block is None:
            return self.texts[:0], np.zeros(0), np.zeros(0)
        return block.texts, block.counts, block.noise_std

    def total(self, order: int) -> tuple[float, float]:
        """Return the noisy total of an order, and the standard deviation of its noise.

        It is the sum over n-grams if the total was not measured.
        """
        block = self.block(TOTAL, order)
        if block is not None:
            return float(block.counts[0]), float(block.noise_std[0])
        _, counts, noise_std = self.ngrams(order)
        return float(counts.sum()), float(np.linalg.norm(noise_std))

    @cached_property
    def ngram_orders(self) -> list[int]:
        """The orders of the measured n-grams, ascending."""
        return sorted(set(self.orders[self.kind_mask(NGRAM)].tolist()))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all measurements, for the card: so a file of another release is noticed."""
        digest = hashlib.sha256(json.dumps(self.clipping).encode())
        data, offsets = buffers(self.texts.cast(pa.large_binary()))
        for numbers in (self.kinds, self.orders, offsets - offsets[0]):
            digest.update(numbers.astype("<i8").tobytes())
        digest.update(data[offsets[0] : offsets[-1]].tobytes())
        for values in (
            self.counts,
            self.noise_std,
            np.zeros(0) if self.unclipped_share is None else self.unclipped_share,
            *(self.carried or ()),
        ):
            digest.update(values.astype("<f8").tobytes())
        return digest.hexdigest()

    @property
    def card_details(self) -> dict[str, Any]:
        """The file, the number of rows of each kind, and the hash, for the card."""
        numbers = {kind: int(self.kind_mask(kind).sum()) for kind in KINDS}
        rows = {kind: number for kind, number in numbers.items() if number}
        return {"file": MEASUREMENTS_FILE, "rows": rows, "sha256": self.digest}

    def save(self, folder: Path) -> None:
        """Write measured.parquet into a folder."""
        kinds = pa.DictionaryArray.from_arrays(pa.array(self.kinds), pa.array(KINDS))
        columns = {
            "kind": kinds,
            "order": self.orders,
            "text": self.texts,
            "count": self.counts,
            "noise": self.noise_std,
        }
        if self.unclipped_share is not None:
            columns["left"] = self.unclipped_share
        if self.carried is not None:
            columns |= dict(zip(CARRIED_COLUMNS, self.carried, strict=True))
        table = pa.table(columns).replace_schema_metadata({CLIPPING_KEY: json.dumps(self.clipping)})
        pq.write_table(table, folder / MEASUREMENTS_FILE, compression="zstd")

    @classmethod
    def load(cls, folder: Path) -> "Measurements":
        """Read measured.parquet of a folder.

        Raises:
            ValueError, KeyError, TypeError, pyarrow.ArrowException: If it is damaged.
        """
        table = read_parquet_table(folder / MEASUREMENTS_FILE)
        kinds = pc.index_in(
            table["kind"].cast(pa.large_string()), pa.array(KINDS, pa.large_string())
        )
        if kinds.null_count:
            raise ValueError("a kind that is not known")
        clipping = json.loads((table.schema.metadata or {}).get(CLIPPING_KEY.encode(), b"{}"))
        if not isinstance(clipping, dict):
            raise TypeError("clipping: not by order")
        has_shares = "left" in table.column_names
        is_carried = CARRIED_COLUMNS[0] in table.column_names
        carried_counts, carried_noise = CARRIED_COLUMNS
        return cls(
            kinds=kinds.to_numpy(),
            unclipped_share=_read_floats(table, "left") if has_shares else None,
            counts=_read_floats(table, "count"),
            noise_std=_read_floats(table, "noise"),
            carried=(_read_floats(table, carried_counts), _read_floats(table, carried_noise))
            if is_carried
            else None,
            orders=_read_orders(table),
            texts=_read_texts(table),
            clipping={int(order): tuple(values) for order, values in clipping.items()},
        )

    def kind_mask(self, kind: str) -> Bools:
        """Return which rows are of a kind."""
        rows: Bools = self.kinds == KINDS.index(kind)
        return rows

    def _row_mask(self, kind: str, order: int) -> Bools:
        rows: Bools = self.kind_mask(kind) & (self.orders == order)
        return rows

    def _is_sound(self) -> bool:
        """Return whether inference can rely on it."""
        columns = [
            self.orders,
            self.texts,
            self.counts,
            self.noise_std,
            self.counts if self.unclipped_share is None else self.unclipped_share,
        ]
        if not self.kinds.size or any(len(column) != self.kinds.size for column in columns):
            return False
        pairs = [(self.counts, self.noise_std), *([] if self.carried is None else [self.carried])]
        if not 1 <= self.orders.min() <= self.orders.max() <= MAX_ORDER:
            return False
        if not all(_are_noisy(*pair, self.kinds.size) for pair in pairs):
            return False
        share = self.unclipped_share
        if share is not None and not ((share > 0) & (share <= 1 + ROUNDING_TOLERANCE)).all():
            return False
        return (
            _are_clippings(self.clipping) and bool(self.ngram_orders) and self._totals_are_single()
        )

    def _totals_are_single(self) -> bool:
        totals = [
            self._row_mask(kind, order)
            for kind in SINGLE_KINDS
            for order in range(1, MAX_ORDER + 1)
        ]
        return all(rows.sum() <= 1 for rows in totals)


def _are_noisy(counts: Floats, noise_std: Floats, size: int) -> bool:
    """Return whether all counts are finite and have noise; NaN is refused, too."""
    if counts.size != size or noise_std.size != size:
        return False
    has_noise = (noise_std > 0) & (noise_std < MAX_MAGNITUDE)
    return bool(((np.abs(counts) < MAX_MAGNITUDE) & has_noise).all())


def _are_clippings(clipping: dict[int, tuple[float, float, float]]) -> bool:
    return all(
        1 <= order <= MAX_ORDER and _is_clipping(values) for order, values in clipping.items()
    )


def _is_clipping(values: object) -> bool:
    if not (
        isinstance(values, tuple)
        and len(values) == 3
        and all(type(value) is float for value in values)
    ):
        return False
    removed, *others = values
    return bool(
        -ROUNDING_TOLERANCE <= removed < 1 and all(0 <= value < MAX_MAGNITUDE for value in others)
    )


def _read_texts(table: pa.Table) -> pa.LargeStringArray:
    column = table["text"]
    column.validate(full=True)  # UTF-8, which Arrow takes for granted
    if (
        not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type))
        or column.null_count
    ):
        raise TypeError("text: not a column of texts")
    return column.combine_chunks().cast(pa.large_string())


def _read_floats(table: pa.Table, name: str) -> Floats:
    if table[name].type != pa.float64() or table[name].null_count:
        raise TypeError(f"{name}: not a column of numbers")
    numbers: Floats = table[name].to_numpy()
    return numbers


def _read_orders(table: pa.Table) -> Ids:
    if not pa.types.is_integer(table["order"].type) or table["order"].null_count:
        raise TypeError("order: not a column of whole numbers")
    orders: Ids = np.clip(table["order"].to_numpy(), 0, MAX_ORDER + 1).astype(np.int32)
    return orders
