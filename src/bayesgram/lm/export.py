"""A release as a table for other programs: TSV, JSON lines, Parquet.

In:  a `Release`.   Out: a file. The count is how often people wrote an n-gram, as the release has it: θ times the noisy
total of its order; where a mechanism tells no total, θ a million times.

A biasing list for recognisers: words, and how much likelier people are to write them than public text is.

In:  `WordLifts`.   Out: a file, a line each: the word, a tab, log θ/π (natural). The words that matter most come first:
those with the largest part in how far θ and π are apart. <s> and </s> are no words. Does not scale: a recogniser has a
weight of its own for such a list, which multiplies the numbers; 0.85 is a good one (see `adapting`).
"""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bayesgram.arrays import Floats
from bayesgram.errors import BayesgramError, check_int
from bayesgram.io.atomic import write_file_atomically
from bayesgram.lm.adaptation import WordLifts
from bayesgram.lm.language_model import expected_counts
from bayesgram.releases.provenance import ORIGIN_COLUMN, encode_origins
from bayesgram.releases.release import Release
from bayesgram.text.ngrams import END, START

PER_MILLION = 1e6


def release_table(release: Release) -> pa.Table:
    """`ngram`, `probability`, `count`, `standard_deviation` where it is known, `origin` where some were discovered."""
    known = "expected_counts" in release.card.details
    counts: Floats = expected_counts(release) if known else release.probabilities * PER_MILLION
    columns = {"ngram": release.ngrams, "probability": release.probabilities, "count": counts}
    if release.probability_std is not None:
        columns["standard_deviation"] = release.probability_std
    if release.discovered_mask is not None:
        columns[ORIGIN_COLUMN] = encode_origins(release.discovered_mask)
    metadata = {
        "bayesgram.claim": release.card.claim,
        "bayesgram.count": "expected" if known else "per million",
    }
    # Read again as a list of n-grams, the table still says what it was made from.
    return pa.table(columns).replace_schema_metadata({**metadata, **release.provenance().metadata})


def write_tsv(release: Release, path: str | Path, *, force: bool = False) -> None:
    """A line each: the words, a tab, the count."""
    table = release_table(release)
    with (
        write_file_atomically(path, force=force) as aside,
        aside.open("w", encoding="utf-8", newline="\n") as file,
    ):
        counts = np.char.mod("%.6g", table["count"].to_numpy()).tolist()
        file.writelines(
            f"{ngram}\t{count}\n"
            for ngram, count in zip(release.ngrams.to_pylist(), counts, strict=True)
        )


def write_jsonl(release: Release, path: str | Path, *, force: bool = False) -> None:
    """A JSON object each, with all columns."""
    table = release_table(release)
    with (
        write_file_atomically(path, force=force) as aside,
        aside.open("w", encoding="utf-8", newline="\n") as file,
    ):
        for batch in table.to_batches(max_chunksize=1 << 14):
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in batch.to_pylist())


def write_parquet(release: Release, path: str | Path, *, force: bool = False) -> None:
    """All columns; what is claimed is in the metadata of the file."""
    with write_file_atomically(path, force=force) as aside:
        pq.write_table(release_table(release), aside, compression="zstd")


MOST = 2**31 - 1


def bias_list(lifts: WordLifts, most: int | None = None) -> list[tuple[str, float]]:
    """The words and their log-ratios, the most useful first, of equal ones the first in the release."""
    size = MOST if most is None else check_int("prune", most, 1, MOST, "the number of words")
    order = np.argsort(-lifts.usefulness, kind="stable").tolist()
    rows = [
        (lifts.words[at], float(lifts.logs[at]))
        for at in order
        if lifts.words[at] not in {START, END}
    ]
    if not rows:
        raise BayesgramError(
            "the release has no words beside the ends of sentences; release a vocabulary with some."
        )
    return rows[:size]


def write_bias(
    lifts: WordLifts, path: str | Path, *, most: int | None = None, force: bool = False
) -> int:
    """Write the list; how many words it has."""
    rows = bias_list(lifts, most)
    with (
        write_file_atomically(path, force=force) as aside,
        aside.open("w", encoding="utf-8", newline="\n") as file,
    ):
        file.writelines(f"{word}\t{ratio:.6g}\n" for word, ratio in rows)
    return len(rows)
