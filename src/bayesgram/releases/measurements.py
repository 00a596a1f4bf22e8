"""The noisy measurements behind a release: as public as θ, for whoever wants to infer once more.

On disk: measured.parquet in the release folder, a row for each number that was asked of private text: `kind`, `order`
(of the n-grams it is about), `text` ("" for a total), `count` (noisy) and `noise` (its standard deviation). Where
clipping was measured, `left` is the part of an n-gram that it leaves, and the file's metadata have the rest. Where a
release follows another, `carried_count` and `carried_noise` are what it and all before it say together, in its units.
Does not infer anything.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
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
NGRAM, WORD, TOTAL, CLIPPED_WORD, CLIPPED_TOTAL = KINDS = (
    "ngram",
    "word",
    "total",
    "lost word",
    "lost total",
)
CARRIED_COLUMNS = ("carried_count", "carried_noise")
CLIPPING_KEY = "bayesgram.clipping"
MAX_ORDER = 6
MAX_MAGNITUDE = 1e300
ROUNDING_TOLERANCE = 1e-9  # that sums of parts may exceed 1 by


@dataclass(frozen=True, eq=False)
class MeasurementBlock:
    """Measurements of one kind and order."""

    kind: str
    order: int
    texts: pa.LargeStringArray
    counts: Floats
    noise_std: Floats
    unclipped_share: Floats | None = (
        None  # the part of each that clipping leaves, where it is known
    )
    carried: tuple[Floats, Floats] | None = None  # counts and noise, together with earlier releases

    @classmethod
    def from_total(cls, kind: str, order: int, count: float, noise: float) -> "MeasurementBlock":
        """A total."""
        return cls(
            kind, order, pa.array([""], pa.large_string()), np.array([count]), np.array([noise])
        )


@dataclass(frozen=True, eq=False)
class Measurements:
    """count ~ N(what people wrote within the clip norm, noise²), row by row; noise is independent between rows."""

    kinds: Ids  # places in KINDS
    orders: Ids
    texts: pa.LargeStringArray
    counts: Floats
    noise_std: Floats
    unclipped_share: Floats | None = None  # 1 for what is no n-gram
    clipping: tuple[float, float] | None = (
        None  # what it takes of all text, and how unevenly; None: not measured
    )
    carried: tuple[Floats, Floats] | None = (
        None  # counts and noise, together with earlier releases; None: none before
    )

    def __post_init__(self) -> None:
        if not self._is_sound():
            raise ValueError("measurements: not what a release has")

    @classmethod
    def from_blocks(
        cls, blocks: Sequence[MeasurementBlock], clipping: tuple[float, float] | None = None
    ) -> "Measurements":
        """Blocks one after the other."""
        sizes = [block.counts.size for block in blocks]
        kinds = np.repeat(np.array([KINDS.index(block.kind) for block in blocks], np.int32), sizes)
        orders = np.repeat(np.array([block.order for block in blocks], np.int32), sizes)
        counts, noise = (
            np.concatenate([getattr(block, name) for block in blocks])
            for name in ("counts", "noise_std")
        )
        left = carried = None
        if any(block.unclipped_share is not None for block in blocks):
            left = np.concatenate(
                [
                    np.ones(b.counts.size) if b.unclipped_share is None else b.unclipped_share
                    for b in blocks
                ]
            )
        if any(block.carried is not None for block in blocks):
            pairs = [block.carried or (block.counts, block.noise_std) for block in blocks]
            carried = (
                np.concatenate([count for count, _ in pairs]),
                np.concatenate([doubt for _, doubt in pairs]),
            )
        texts = pa.concat_arrays([block.texts for block in blocks])
        return cls(kinds, orders, texts, counts, noise, left, clipping, carried)

    def block(self, kind: str, order: int) -> MeasurementBlock | None:
        """The measurements of one kind and order, in the order of the file; None where there are none."""
        rows = self._rows(kind, order)
        if not rows.any():
            return None
        texts, left = (
            self.texts.filter(pa.array(rows)),
            None if self.unclipped_share is None else self.unclipped_share[rows],
        )
        carried = None if self.carried is None else (self.carried[0][rows], self.carried[1][rows])
        return MeasurementBlock(
            kind, order, texts, self.counts[rows], self.noise_std[rows], left, carried
        )

    def ngrams(self, order: int) -> tuple[pa.LargeStringArray, Floats, Floats]:
        """N-grams of an order, their noisy counts, and the standard deviations of these."""
        found = self.block(NGRAM, order)
        return (
            (self.texts[:0], np.zeros(0), np.zeros(0))
            if found is None
            else (found.texts, found.counts, found.noise_std)
        )

    def total(self, order: int) -> tuple[float, float]:
        """All n-grams of an order together, and the noise of that; added up where it was not asked."""
        found = self.block(TOTAL, order)
        if found is not None:
            return float(found.counts[0]), float(found.noise_std[0])
        _, counts, noise = self.ngrams(order)
        return float(counts.sum()), float(np.linalg.norm(noise))

    @cached_property
    def ngram_orders(self) -> list[int]:
        """Of which there are n-grams, the shortest first."""
        return sorted(set(self.orders[self.kind_mask(NGRAM)].tolist()))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that is here: the card says it, so that a file of another release is noticed."""
        made = hashlib.sha256(json.dumps(self.clipping).encode())
        data, offsets = buffers(self.texts.cast(pa.large_binary()))
        for numbers in (self.kinds, self.orders, offsets - offsets[0]):
            made.update(numbers.astype("<i8").tobytes())
        made.update(data[offsets[0] : offsets[-1]].tobytes())
        for values in (
            self.counts,
            self.noise_std,
            np.zeros(0) if self.unclipped_share is None else self.unclipped_share,
            *(self.carried or ()),
        ):
            made.update(values.astype("<f8").tobytes())
        return made.hexdigest()

    @property
    def card_details(self) -> dict[str, Any]:
        """What a card says of them."""
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
        """Read it; a ValueError, KeyError, TypeError or an exception of Arrow's where it is damaged."""
        table = read_parquet_table(folder / MEASUREMENTS_FILE)
        kinds = pc.index_in(
            table["kind"].cast(pa.large_string()), pa.array(KINDS, pa.large_string())
        )
        if kinds.null_count:
            raise ValueError("a kind that is not known")
        left = _numbers(table, "left") if "left" in table.column_names else None
        stated = json.loads((table.schema.metadata or {}).get(CLIPPING_KEY.encode(), b"null"))
        clipping = None if stated is None else tuple(stated)
        numbers = _numbers(table, "count"), _numbers(table, "noise")
        there = CARRIED_COLUMNS[0] in table.column_names
        carried = (
            (_numbers(table, CARRIED_COLUMNS[0]), _numbers(table, CARRIED_COLUMNS[1]))
            if there
            else None
        )
        return cls(
            kinds.to_numpy(),
            _whole(table, "order"),
            _texts(table),
            *numbers,
            left,
            clipping,
            carried,
        )

    def kind_mask(self, kind: str) -> Bools:
        """Which rows are of a kind."""
        rows: Bools = self.kinds == KINDS.index(kind)
        return rows

    def _rows(self, kind: str, order: int) -> Bools:
        rows: Bools = self.kind_mask(kind) & (self.orders == order)
        return rows

    def _is_sound(self) -> bool:
        """Whether inference can rely on it."""
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
        if (
            self.unclipped_share is not None
            and not (
                (self.unclipped_share > 0) & (self.unclipped_share <= 1 + ROUNDING_TOLERANCE)
            ).all()
        ):
            return False
        return _is_clipping(self.clipping) and bool(self.ngram_orders) and self._totals_are_single()

    def _totals_are_single(self) -> bool:
        totals = [
            self._rows(kind, order)
            for kind in (TOTAL, CLIPPED_TOTAL)
            for order in range(1, MAX_ORDER + 1)
        ]
        return all(rows.sum() <= 1 for rows in totals)


def _are_noisy(counts: Floats, noise: Floats, size: int) -> bool:
    """Finite numbers, each with its noise."""
    if counts.size != size or noise.size != size:
        return False
    return bool(
        ((np.abs(counts) < MAX_MAGNITUDE) & (noise > 0) & (noise < MAX_MAGNITUDE)).all()
    )  # also refuses NaN


def _is_clipping(values: object) -> bool:
    if values is None:
        return True
    if not (
        isinstance(values, tuple)
        and len(values) == 2
        and all(type(value) is float for value in values)
    ):
        return False
    return bool(-ROUNDING_TOLERANCE <= values[0] < 1 and 0 <= values[1] < MAX_MAGNITUDE)


def _texts(table: pa.Table) -> pa.LargeStringArray:
    column = table["text"]
    column.validate(full=True)  # UTF-8, which Arrow takes for granted
    if (
        not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type))
        or column.null_count
    ):
        raise TypeError("text: not a column of texts")
    return column.combine_chunks().cast(pa.large_string())


def _numbers(table: pa.Table, name: str) -> Floats:
    if table[name].type != pa.float64() or table[name].null_count:
        raise TypeError(f"{name}: not a column of numbers")
    numbers: Floats = table[name].to_numpy()
    return numbers


def _whole(table: pa.Table, name: str) -> Ids:
    if not pa.types.is_integer(table[name].type) or table[name].null_count:
        raise TypeError(f"{name}: not a column of whole numbers")
    numbers: Ids = np.clip(table[name].to_numpy(), 0, MAX_ORDER + 1).astype(np.int32)
    return numbers
