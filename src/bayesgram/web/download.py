"""The n-grams that somebody looks at, as a file: all pages of them, in the order shown. Released data only."""

import io
import json
import re
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from bayesgram.arrays import Ids
from bayesgram.released.certainty import intervals
from bayesgram.released.origins import COLUMN, origin_column
from bayesgram.web.table import OrderTable


class Kind(StrEnum):
    """What kind of file."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"

    @property
    def media(self) -> str:
        """Its type, for a browser."""
        return {Kind.CSV: "text/csv", Kind.JSON: "application/json"}.get(self, "application/vnd.apache.parquet")


def written(table: OrderTable, rows: Ids, kind: Kind) -> bytes:
    """These rows of a release, as a file."""
    found = columns(table, rows)
    if kind is Kind.JSON:
        return json.dumps(found.to_pylist(), ensure_ascii=False).encode()
    out = io.BytesIO()
    if kind is Kind.CSV:
        pa.csv.write_csv(found, out)
    else:
        pq.write_table(found, out, compression="zstd")
    return out.getvalue()


def columns(table: OrderTable, rows: Ids) -> pa.Table:
    """`ngram`, `public` where it is known, `probability`, the ends of its interval and `origin`, likewise."""
    release, places = table.release, rows.astype(np.int64)
    found = {"ngram": release.ngrams.take(pa.array(places))}
    if table.public is not None:
        found["public"] = table.public[places]
    found["probability"] = release.probabilities[places]
    ends = intervals(release, places)
    if ends is not None:
        found |= dict(zip(("low", "high"), ends, strict=True))
    if release.discovered is not None:
        found[COLUMN] = origin_column(release.discovered[places])
    metadata = {"bayesgram.claim": release.card.claim, **release.provenance().metadata}
    return pa.table(found).replace_schema_metadata(metadata)


def file_name(name: str) -> str:
    """A name that any file system and header takes.

    >>> file_name("k <script>/é"), file_name("…")
    ('k-script', 'release')
    """
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:100] or "release"
