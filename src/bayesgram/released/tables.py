"""A release as a table for other programs: TSV, JSON lines, Parquet.

In:  a `Release`.   Out: a file. The count is how often people wrote an n-gram, as the release has it: θ times the noisy
total of its order; where a mechanism tells no total, θ a million times.
"""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bayesgram.arrays import Floats
from bayesgram.files.writing import write_file_atomically
from bayesgram.released.language_model import expected_counts
from bayesgram.released.origins import COLUMN, origin_column
from bayesgram.released.release import Release

PER_MILLION = 1e6


def release_table(release: Release) -> pa.Table:
    """`ngram`, `probability`, `count`, `standard_deviation` where it is known, `origin` where some were discovered."""
    known = "expected_counts" in release.card.details
    counts: Floats = expected_counts(release) if known else release.probabilities * PER_MILLION
    columns = {"ngram": release.ngrams, "probability": release.probabilities, "count": counts}
    if release.deviations is not None:
        columns["standard_deviation"] = release.deviations
    if release.discovered is not None:
        columns[COLUMN] = origin_column(release.discovered)
    metadata = {"bayesgram.claim": release.card.claim, "bayesgram.count": "expected" if known else "per million"}
    # Read again as a list of n-grams, the table still says what it was made from.
    return pa.table(columns).replace_schema_metadata({**metadata, **release.provenance().metadata})


def write_tsv(release: Release, path: str | Path, *, force: bool = False) -> None:
    """A line each: the words, a tab, the count."""
    table = release_table(release)
    with write_file_atomically(path, force=force) as aside, aside.open("w", encoding="utf-8", newline="\n") as file:
        counts = np.char.mod("%.6g", table["count"].to_numpy()).tolist()
        file.writelines(f"{ngram}\t{count}\n" for ngram, count in zip(release.ngrams.to_pylist(), counts, strict=True))


def write_jsonl(release: Release, path: str | Path, *, force: bool = False) -> None:
    """A JSON object each, with all columns."""
    table = release_table(release)
    with write_file_atomically(path, force=force) as aside, aside.open("w", encoding="utf-8", newline="\n") as file:
        for batch in table.to_batches(max_chunksize=1 << 14):
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in batch.to_pylist())


def write_parquet(release: Release, path: str | Path, *, force: bool = False) -> None:
    """All columns; what is claimed is in the metadata of the file."""
    with write_file_atomically(path, force=force) as aside:
        pq.write_table(release_table(release), aside, compression="zstd")
