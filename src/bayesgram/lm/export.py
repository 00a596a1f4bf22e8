"""A release as files for other programs: tables (TSV, JSON lines, Parquet) and biasing lists.

In a table, the count is how often people wrote an n-gram, as the release has it: θ times the noisy
total of its order; where a mechanism publishes no total, θ a million times.

A biasing list is for recognisers: words, and how much likelier people are to write them than public
text is. Each line has a word, a tab and log θ/π (natural). The words that matter most come first:
those with the largest part in how far θ and π are apart. <s> and </s> are no words. The numbers are
not scaled: a recogniser has a weight of its own for such a list, which multiplies them; 0.85 is a
good one (see `adaptation`).
"""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bayesgram.arrays import Bools, Floats
from bayesgram.choices import TokenizerKind
from bayesgram.errors import Argument, BayesgramError, UsageError, check_int
from bayesgram.io.atomic import write_file_atomically
from bayesgram.lm.adaptation import WordLifts
from bayesgram.lm.language_model import expected_counts
from bayesgram.releases.intervals import INTERVAL_STDS
from bayesgram.releases.provenance import ORIGIN_COLUMN, encode_origins
from bayesgram.releases.release import Release
from bayesgram.text.blocklist import NO_BLOCKLIST, Blocklist, refuse_if_all_blocked
from bayesgram.text.ngrams import END, START
from bayesgram.text.tokenizer import Tokenizer

PER_MILLION = 1e6
JSONL_BATCH_ROWS = 1 << 14  # rows that are Python objects at a time; not measured
MAX_BIAS_WORDS = 2**31 - 1
MAX_MIN_COUNT = 10**15  # no total is larger


# --- Tables ---


def release_table(
    release: Release, block: Blocklist = NO_BLOCKLIST, min_count: int | None = None
) -> pa.Table:
    """Return a release as a table.

    Its columns are `ngram`, `probability` and `count`, `standard_deviation` where it is known, and
    `origin` where some n-grams were discovered.

    Args:
        release: The release.
        block: Words whose n-grams are left out; the others keep their probabilities.
        min_count: Leaves out n-grams whose count, less two standard deviations, is below it.

    Raises:
        UsageError: If there is a `min_count`, and the release has no deviations.
        BayesgramError: If no n-gram is left.
    """
    has_totals = "expected_counts" in release.card.details
    counts: Floats = expected_counts(release) if has_totals else release.probabilities * PER_MILLION
    columns = {"ngram": release.ngrams, "probability": release.probabilities, "count": counts}
    if release.probability_std is not None:
        columns["standard_deviation"] = release.probability_std
    if release.discovered_mask is not None:
        columns[ORIGIN_COLUMN] = encode_origins(release.discovered_mask)
    metadata = {
        "bayesgram.claim": release.card.claim,
        "bayesgram.count": "expected" if has_totals else "per million",
        # Read again as a list of n-grams, the table still says what it was made from.
        **release.provenance().metadata,
    }
    table = pa.table(columns).replace_schema_metadata(metadata)
    tokenizer = Tokenizer.from_name(release.card.vocabulary["tokenizer"])
    blocked = block.mask(release.ngrams, tokenizer)
    if blocked.any():
        refuse_if_all_blocked(blocked)
    if min_count is not None:
        blocked = blocked | ~_frequent_mask(release, counts, min_count)
        if blocked.all():
            raise BayesgramError(
                f"no n-gram has a count of {min_count} or more, less two deviations; lower ",
                Argument("min_count"),
                ".",
            )
    return table.filter(pa.array(~blocked)) if blocked.any() else table


def _frequent_mask(release: Release, counts: Floats, min_count: int) -> Bools:
    """Return which counts, less two standard deviations, are at least `min_count`."""
    check_int("min_count", min_count, 0, MAX_MIN_COUNT, "a count")
    if release.probability_std is None:
        raise UsageError.for_argument(
            "min_count",
            min_count,
            f"needs standard deviations, which the mechanism {release.card.mechanism} does not"
            " state; leave it out.",
        )
    # Counts are probabilities times the total of their order, and so are their deviations.
    shares = np.bincount(release.orders, release.probabilities)
    totals = np.bincount(release.orders, counts) / np.where(shares > 0, shares, 1.0)
    count_std = release.probability_std * totals[release.orders]
    is_frequent: Bools = counts - INTERVAL_STDS * count_std >= min_count
    return is_frequent


def write_tsv(
    release: Release,
    path: str | Path,
    *,
    block: Blocklist = NO_BLOCKLIST,
    min_count: int | None = None,
    force: bool = False,
) -> None:
    """Write a line for each n-gram: the words, a tab, the count.

    Args:
        release: The release.
        path: The file.
        block: Words whose n-grams are left out.
        min_count: Leaves out n-grams whose count, less two deviations, is below it.
        force: Whether an existing file is replaced.
    """
    table = release_table(release, block, min_count)
    with (
        write_file_atomically(path, force=force) as aside,
        aside.open("w", encoding="utf-8", newline="\n") as file,
    ):
        counts = np.char.mod("%.6g", table["count"].to_numpy()).tolist()
        rows = zip(table["ngram"].to_pylist(), counts, strict=True)
        file.writelines(f"{ngram}\t{count}\n" for ngram, count in rows)


def write_jsonl(
    release: Release,
    path: str | Path,
    *,
    block: Blocklist = NO_BLOCKLIST,
    min_count: int | None = None,
    force: bool = False,
) -> None:
    """Write a JSON object for each n-gram, with all columns.

    Args:
        release: The release.
        path: The file.
        block: Words whose n-grams are left out.
        min_count: Leaves out n-grams whose count, less two deviations, is below it.
        force: Whether an existing file is replaced.
    """
    table = release_table(release, block, min_count)
    with (
        write_file_atomically(path, force=force) as aside,
        aside.open("w", encoding="utf-8", newline="\n") as file,
    ):
        for batch in table.to_batches(max_chunksize=JSONL_BATCH_ROWS):
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in batch.to_pylist())


def write_parquet(
    release: Release,
    path: str | Path,
    *,
    block: Blocklist = NO_BLOCKLIST,
    min_count: int | None = None,
    force: bool = False,
) -> None:
    """Write all columns as Parquet, with the claim in the metadata of the file.

    Args:
        release: The release.
        path: The file.
        block: Words whose n-grams are left out.
        min_count: Leaves out n-grams whose count, less two deviations, is below it.
        force: Whether an existing file is replaced.
    """
    with write_file_atomically(path, force=force) as aside:
        pq.write_table(release_table(release, block, min_count), aside, compression="zstd")


# --- Biasing lists ---


def bias_list(
    lifts: WordLifts, max_words: int | None = None, block: Blocklist = NO_BLOCKLIST
) -> list[tuple[str, float]]:
    """Return words and their log-ratios, the most useful first.

    Of equally useful ones, the first in the release.

    Args:
        lifts: The words of a release.
        max_words: How many words at most; None for all.
        block: Words that are left out.
    """
    if max_words is not None:
        max_words = check_int("prune", max_words, 1, MAX_BIAS_WORDS, "the number of words")
    words = pa.array(lifts.words, pa.large_string())
    # Words are tokens already, whatever the tokenizer: phrases don't matter here.
    is_blocked = block.mask(words, Tokenizer(TokenizerKind.WHITESPACE))
    order = np.argsort(-lifts.usefulness, kind="stable").tolist()
    rows = [
        (lifts.words[at], float(lifts.logs[at]))
        for at in order
        if lifts.words[at] not in {START, END} and not is_blocked[at]
    ]
    if not rows:
        raise BayesgramError(
            "the release has no words beside the ends of sentences; release a vocabulary with some."
        )
    return rows[:max_words]


def write_bias(
    lifts: WordLifts,
    path: str | Path,
    *,
    max_words: int | None = None,
    block: Blocklist = NO_BLOCKLIST,
    force: bool = False,
) -> int:
    """Write a biasing list, and return how many words it has.

    Args:
        lifts: The words of a release.
        path: The file.
        max_words: How many words at most; None for all.
        block: Words that are left out.
        force: Whether a file that is there already is replaced.
    """
    rows = bias_list(lifts, max_words, block)
    with (
        write_file_atomically(path, force=force) as aside,
        aside.open("w", encoding="utf-8", newline="\n") as file,
    ):
        file.writelines(f"{word}\t{ratio:.6g}\n" for word, ratio in rows)
    return len(rows)
