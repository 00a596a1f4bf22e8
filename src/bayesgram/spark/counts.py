"""Vocabulary, counts and what mechanisms ask of them, on Spark: for text that outgrows one machine.

In:  a Spark DataFrame.   Out: a `Vocabulary`; `SparkCounts`, which every mechanism but Algorithm 2 takes in place of
`UserCounts`. One shuffle brings a user's rows together; the driver sees sums over users, never a user. All sums are of
integers, so they equal those of one machine bit for bit; noise is drawn once, by the mechanism, on the driver.

Needs pyspark (pip install "bayesgram[spark]"). How to run it on a cluster: docs/spark.md.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.io import BadRows
from bayesgram.io.records import Columns
from bayesgram.private import counts_io
from bayesgram.private.counts import NO_USERS, Array, PrivateCounts, UserRows
from bayesgram.private.public_row_check import PublicRowCheck, PublicRowShare
from bayesgram.public.mixture import inputs_by_source
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.spark import tasks
from bayesgram.spark.frames import (
    TextFrame,
    bad_rows,
    kept,
    mapped,
    read_parquet,
    text_from_columns,
    union,
)
from bayesgram.spark.session import run_spark
from bayesgram.spark.vocabulary import build_vocabulary
from bayesgram.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FAN_IN = 64  # answers that the driver merges itself; more are merged by tasks first


@dataclass(frozen=True, eq=False, repr=False)
class SparkCounts(PrivateCounts):
    """Counts per user in a DataFrame. Only `count` and `load_counts` make them."""

    kept: "DataFrame"  # user, ngram, count; all rows of a user in one partition, sorted by user; and notes of tasks
    vocabulary_size: int
    vocabulary_fingerprint: str | None
    bad_rows: BadRows = field(default_factory=BadRows)
    rows_read: int = 0  # of text; private: exact

    def __repr__(self) -> str:
        return f"SparkCounts(private, over {self.vocabulary_size:,} n-grams)"

    @cached_property
    def frame(self) -> "DataFrame":
        """The rows, without the notes and the hashes of rows of text."""
        notes = f"(ngram <=> {tasks.NOTE}) or (ngram <=> {tasks.ROW})"
        return self.kept.filter(f"not ({notes})")  # a null stays, and is refused

    @cached_property
    def _partitions(self) -> int:
        return run_spark(lambda: int(self.frame.rdd.getNumPartitions()))

    def aggregate(self, measure: Callable[[UserRows], Array], merge: np.ufunc = np.add) -> Array:
        """One answer a task, merged by tasks while there are many, then here."""
        size = self.vocabulary_size
        answers = mapped(
            self.frame,
            lambda batches: tasks.measured(batches, measure, merge, size),
            tasks.ANSWER_ROWS,
        )
        if self._partitions > FAN_IN:
            fewer = answers.repartition(FAN_IN)
            answers = mapped(
                fewer, lambda batches: tasks.merge_answers(batches, merge), tasks.ANSWER_ROWS
            )
        found = run_spark(answers.collect)
        merged: Array = merge.reduce(
            [measure(NO_USERS), *(tasks.unpacked(row.answer) for row in found)]
        )
        return merged

    def sizes(self) -> tuple[int, int]:
        """How many users and nonzeros there are: exact private numbers, not for publication."""
        users, nonzeros = self.aggregate(_sizes).tolist()
        return users, nonzeros

    def unpersist(self) -> None:
        """Let Spark forget what it keeps of these counts."""
        self.kept.unpersist()


def vocabulary(
    df: "DataFrame | Mapping[str, DataFrame]",
    *,
    order: int | Sequence[int] = 3,
    size: int | Sequence[int] = 50_000,
    tokenizer: Tokenizer = Tokenizer(),  # noqa: B008 - frozen
    text_column: str = "text",
    skip_bad_rows: bool = False,
) -> Vocabulary:
    """The `size` most frequent n-grams (of each order) of public text, as `Vocabulary.from_public` finds them.

    Several sources have names: {"wiki": one DataFrame, "talk": another}.
    """
    columns = Columns(text_column, None, warn_about_users=True)
    sources = {
        name: [text_from_columns(given, columns)] for name, given in inputs_by_source(df).items()
    }
    return build_vocabulary(
        sources, order=order, size=size, tokenizer=tokenizer, skip_bad_rows=skip_bad_rows
    )[0]


def count(
    df: "DataFrame",
    vocabulary: Vocabulary,
    *,
    user_column: str = "user",
    text_column: str = "text",
    skip_bad_rows: bool = False,
    allow_public: bool = False,
) -> SparkCounts:
    """Count the vocabulary's n-grams in every user's text. Spark keeps the result until `unpersist`.

    Private rows that were public text are refused, as `bayesgram.count` has it.
    """
    texts = [text_from_columns(df, Columns(text_column, user_column))]
    return count_texts(texts, vocabulary, skip_bad_rows=skip_bad_rows, allow_public=allow_public)


def count_texts(
    texts: Sequence[TextFrame],
    vocabulary: Vocabulary,
    *,
    skip_bad_rows: bool,
    allow_public: bool = False,
) -> SparkCounts:
    """Counts of several texts; a user may be in all of them."""
    check = PublicRowCheck.from_vocabulary(vocabulary, allow_public=allow_public)
    plain = Vocabulary(
        vocabulary.ngrams, vocabulary.counts, vocabulary.order, vocabulary.tokenizer
    )  # no caches travel

    def task(read: tasks.Read) -> Callable[[tasks.Batches], tasks.Batches]:
        return lambda batches: tasks.count_users(batches, read, plain, check)

    kept = _together(
        union([mapped(text.frame, task(text.read), tasks.COUNT_ROWS) for text in texts])
    )
    notes = kept.filter(f"ngram = {tasks.NOTE}").select("user", "count")
    try:
        bad, rows_read = bad_rows(
            notes, skip=skip_bad_rows
        )  # runs everything, so that later questions find it kept
        _public_row_share(kept, check).refuse(allow_public=allow_public)
    except BayesgramError:
        kept.unpersist()
        raise
    return SparkCounts(kept, len(vocabulary), vocabulary.fingerprint, bad, rows_read)


def _public_row_share(kept: "DataFrame", check: PublicRowCheck) -> PublicRowShare:
    """How many rows of a sample were public rows. Spark adds them up: the driver sees no hash of one."""
    if check.private is None:
        return PublicRowShare(0, 0, 1.0)
    by_row = (
        kept.filter(f"ngram = {tasks.ROW}").groupBy("user").max("count").toDF("hash", "matches")
    )
    sample = by_row.orderBy("hash").limit(check.private.capacity)
    found = run_spark(sample.selectExpr("count(*)", "sum(matches)", "max(hash)").collect)[0]
    rows, matches = int(found[0]), int(found[1] or 0)
    is_full = rows == check.private.capacity
    rate = int(found[2], 16) / 2.0**64 if is_full else check.private.sampling_rate
    return PublicRowShare(rows, matches, rate)


def load_counts(spark: "SparkSession", path: str | Path, *, vocabulary_size: int) -> SparkCounts:
    """Read a counts folder, or Parquet of user, ngram, count: the path is one that the executors see as well."""
    if "://" in str(path):
        file, fingerprint = str(path), None
    else:
        place = counts_io.locate_counts(path, vocabulary_size)
        file, fingerprint = place.file.resolve().as_uri(), place.fingerprint
    frame = read_parquet(spark, [file], str(path))
    return counts_from_rows(
        frame, vocabulary_size=vocabulary_size, vocabulary_fingerprint=fingerprint, name=str(path)
    )


def counts_from_rows(
    df: "DataFrame",
    *,
    vocabulary_size: int,
    vocabulary_fingerprint: str | None = None,
    name: str = "the DataFrame",
) -> SparkCounts:
    """Counts from rows (user, ngram, count) in any order; equal ones are added up."""
    kinds = {"user": ("string", "byte", "short", "integer", "long"), "ngram": (), "count": ()}
    whole = ("byte", "short", "integer", "long", "decimal")
    types = {column.name: column.dataType.typeName() for column in df.schema.fields}
    for column, allowed in kinds.items():
        if column not in types:
            listed = ", ".join(map(repr, df.columns))
            raise UsageError(
                f"{name}: no column {column!r}; counts have the columns 'user', 'ngram', 'count', these have {listed}."
            )
        if types[column] not in (allowed or whole):
            meaning = (
                "ids must be text or whole numbers" if allowed else "it must hold whole numbers"
            )
            raise UsageError(f"{name}: the column {column!r} is {types[column]}; {meaning}.")
    rows = df.selectExpr(
        "cast(user as string) user", "cast(ngram as long) ngram", "cast(count as long) count"
    )
    return SparkCounts(_together(rows), vocabulary_size, vocabulary_fingerprint)


def save_counts(
    counts: SparkCounts, vocabulary: Vocabulary, path: str | Path, *, force: bool = False
) -> None:
    """Write a counts folder, in which counts.parquet is a folder of parts; the executors must see the path as well."""
    size = counts.vocabulary_size
    merged = mapped(
        counts.frame, lambda batches: tasks.merge_user_rows(batches, size), tasks.COUNT_ROWS
    )
    rows = merged.selectExpr("user", "cast(ngram as int) ngram", "cast(count as int) count")
    no_mark = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false", "compression": "zstd"}
    with counts_io.stage_counts_folder(vocabulary, path, force=force) as file:
        run_spark(
            lambda: rows.write.options(**no_mark).parquet(file.resolve().as_uri()), f"{path}: "
        )


def _together(rows: "DataFrame") -> "DataFrame":
    """The shuffle: all rows of a user in one partition, side by side; kept, since several questions follow."""
    return kept(rows.repartition("user").sortWithinPartitions("user"))


def _sizes(rows: UserRows) -> Any:  # noqa: ANN401 - two whole numbers
    return np.array([rows.starts.size - 1, rows.starts[-1] - rows.starts[0]])
