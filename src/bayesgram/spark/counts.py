"""Vocabulary, counts and aggregates of them on Spark: for text that outgrows one machine.

`vocabulary` and `count` take a Spark DataFrame. The latter returns `SparkCounts`, which every
mechanism but Algorithm 2 takes in place of `UserCounts`. One shuffle brings a user's rows together;
the driver sees sums over users, never a user. All sums are of integers, so they equal those of one
machine bit for bit; noise is drawn once, by the mechanism, on the driver.

Needs pyspark (pip install "bayesgram[spark]"). How to run it on a cluster: `bayesgram docs spark`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayesgram.arrays import Integers
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
    collect_bad_rows,
    map_batches,
    persist,
    read_parquet,
    text_from_columns,
    union_all,
    unpersist,
)
from bayesgram.spark.session import run_if_supported, run_spark
from bayesgram.spark.sharing import share
from bayesgram.spark.vocabulary import build_vocabulary
from bayesgram.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Answers that the driver merges itself; more are merged by tasks first. Not measured.
MAX_DRIVER_ANSWERS = 64

# Of rows of counts: the types of Spark that each column may have.
COLUMN_TYPES = {
    "user": ("string", "byte", "short", "integer", "long"),
    "ngram": ("byte", "short", "integer", "long", "decimal"),
    "count": ("byte", "short", "integer", "long", "decimal"),
}


@dataclass(frozen=True, eq=False, repr=False)
class SparkCounts(PrivateCounts):
    """Counts per user in a DataFrame. Only `count` and `load_counts` make them."""

    # user, ngram, count: all rows of a user in one partition, sorted by user; and notes of tasks
    persisted: "DataFrame"
    vocabulary_size: int
    vocabulary_fingerprint: str | None
    bad_rows: BadRows = field(default_factory=BadRows)
    rows_read: int = 0  # rows of text; private: exact
    unlisted_size: int = 0

    def __repr__(self) -> str:
        return f"SparkCounts(private, over {self.vocabulary_size:,} n-grams)"

    @cached_property
    def frame(self) -> "DataFrame":
        """The rows of counts, without the notes and the hashes of rows of text."""
        notes = f"(ngram <=> {tasks.NOTE}) or (ngram <=> {tasks.ROW})"
        return self.persisted.filter(f"not ({notes})")  # a null stays, and is refused

    @property
    def column_count(self) -> int:
        """Columns of the counts: n-grams, and then those that the vocabulary does not list."""
        return self.vocabulary_size + self.unlisted_size

    @cached_property
    def _has_many_partitions(self) -> bool:
        """Whether there may be more answers than the driver merges itself.

        Rows were shuffled by user, into so many partitions at the most; Spark may have made fewer.
        """
        settings = self.frame.sparkSession.conf
        setting = run_if_supported(lambda: settings.get("spark.sql.shuffle.partitions"))
        return not str(setting).isdecimal() or int(str(setting)) > MAX_DRIVER_ANSWERS  # or "auto"

    def aggregate_all(
        self, measure: Callable[[UserRows], Array], merge: np.ufunc = np.add
    ) -> Array:
        """Measure all users, one answer a task; merge them by tasks while many, then here."""
        size = self.column_count
        shared = share(self.frame.sparkSession, measure)
        answers = map_batches(
            self.frame,
            lambda batches: tasks.measure_users(batches, shared.value, merge, size),
            tasks.ANSWER_ROWS,
        )
        if self._has_many_partitions:
            # By a column, so that Spark may take fewer partitions where answers are small.
            fewer = answers.selectExpr(
                "answer", f"spark_partition_id() % {MAX_DRIVER_ANSWERS} part"
            ).repartition("part")
            answers = map_batches(
                fewer, lambda batches: tasks.merge_answers(batches, merge), tasks.ANSWER_ROWS
            )
        rows = run_spark(answers.collect)
        merged: Array = merge.reduce(
            [measure(NO_USERS), *(tasks.unpack_answer(row.answer) for row in rows)]
        )
        return merged

    def sizes(self) -> tuple[int, int]:
        """Return how many users have n-grams of the vocabulary, and how many nonzeros there are.

        These are exact private numbers, not to publish.
        """
        users, nonzeros = self.aggregate(_measure_sizes).tolist()
        return users, nonzeros

    def unpersist(self) -> None:
        """Let Spark forget these counts."""
        unpersist(self.persisted)


def vocabulary(
    df: "DataFrame | Mapping[str, DataFrame]",
    *,
    order: int | Sequence[int] = 3,
    size: int | Sequence[int] = 50_000,
    tokenizer: Tokenizer = Tokenizer(),  # noqa: B008 - frozen
    text_column: str = "text",
    skip_bad_rows: bool = False,
) -> Vocabulary:
    """Return the most frequent n-grams of public text, as `Vocabulary.from_public` finds them.

    Args:
        df: A DataFrame, or several by the names of their sources: {"wiki": …, "talk": …}.
        order: The length of n-grams, or several.
        size: How many n-grams (of each order).
        tokenizer: Cuts text into tokens.
        text_column: The column of text.
        skip_bad_rows: Whether rows that can't be used are skipped, not an error.
    """
    columns = Columns(text_column, None, warn_about_users=True)
    frames = inputs_by_source(df)
    sources = {name: [text_from_columns(frame, columns)] for name, frame in frames.items()}
    spark = next(iter(frames.values())).sparkSession
    return build_vocabulary(
        spark, sources, order=order, size=size, tokenizer=tokenizer, skip_bad_rows=skip_bad_rows
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
    """Count the vocabulary's n-grams in every user's text.

    Spark keeps the result until `SparkCounts.unpersist`.

    Args:
        df: The text of all users.
        vocabulary: The n-grams to count.
        user_column: The column of user ids.
        text_column: The column of text.
        skip_bad_rows: Whether rows that can't be used are skipped, not an error.
        allow_public: Whether private rows may be rows of the public text, as in `bayesgram.count`.
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
    """Count the n-grams of several texts; a user may be in all of them."""
    check = PublicRowCheck.from_vocabulary(vocabulary, allow_public=allow_public)
    # A new object, so that no caches travel to the executors.
    plain = Vocabulary(vocabulary.ngrams, vocabulary.counts, vocabulary.order, vocabulary.tokenizer)

    shared = share(texts[0].frame.sparkSession, (plain, check))

    def task(read: tasks.Read) -> Callable[[tasks.Batches], tasks.Batches]:
        return lambda batches: tasks.count_users(batches, read, *shared.value)

    persisted = _group_by_user(
        union_all([map_batches(text.frame, task(text.read), tasks.COUNT_ROWS) for text in texts])
    )
    notes = persisted.filter(f"ngram = {tasks.NOTE}").select("user", "count")
    try:
        # This computes everything, so that later queries find it persisted.
        bad, rows_read = collect_bad_rows(notes, skip=skip_bad_rows)
        _measure_public_rows(persisted, check).refuse(allow_public=allow_public)
    except BayesgramError:
        unpersist(persisted)
        raise
    return SparkCounts(
        persisted,
        len(vocabulary),
        vocabulary.fingerprint,
        bad,
        rows_read,
        unlisted_size=len(vocabulary.by_order),
    )


def _measure_public_rows(persisted: "DataFrame", check: PublicRowCheck) -> PublicRowShare:
    """Return how many rows of a sample were public rows.

    Spark adds them up: the driver sees no hash of a row but the largest of the sample.
    """
    if check.private is None:
        return PublicRowShare(0, 0, 1.0)
    rows_of_text = persisted.filter(f"ngram = {tasks.ROW}")
    by_row = rows_of_text.groupBy("user").max("count").toDF("hash", "matches")
    sample = by_row.orderBy("hash").limit(check.private.capacity)
    totals = run_spark(sample.selectExpr("count(*)", "sum(matches)", "max(hash)").collect)[0]
    rows = int(totals[0])
    matches = int(totals[1] or 0)
    is_full = rows == check.private.capacity
    rate = int(totals[2], 16) / 2.0**64 if is_full else check.private.sampling_rate
    return PublicRowShare(rows, matches, rate)


def load_counts(spark: "SparkSession", path: str | Path, *, vocabulary_size: int) -> SparkCounts:
    """Read a counts folder, or Parquet of user, ngram, count.

    Args:
        spark: The Spark session.
        path: A path or URL that the executors see as well.
        vocabulary_size: How many n-grams the vocabulary has.
    """
    if "://" in str(path):
        file = str(path)
        fingerprint = None
        unlisted_size = 0
    else:
        location = counts_io.locate_counts(path, vocabulary_size)
        file = location.file.resolve().as_uri()
        fingerprint = location.fingerprint
        unlisted_size = location.unlisted_size
    frame = read_parquet(spark, [file], str(path))
    counts = counts_from_rows(
        frame, vocabulary_size=vocabulary_size, vocabulary_fingerprint=fingerprint, name=str(path)
    )
    return replace(counts, unlisted_size=unlisted_size)


def counts_from_rows(
    df: "DataFrame",
    *,
    vocabulary_size: int,
    vocabulary_fingerprint: str | None = None,
    name: str = "the DataFrame",
) -> SparkCounts:
    """Return counts from rows (user, ngram, count) in any order; equal ones are added up.

    Args:
        df: The rows.
        vocabulary_size: How many n-grams the vocabulary has.
        vocabulary_fingerprint: Which vocabulary it is, if that is known.
        name: What the DataFrame is called in messages.
    """
    fields = run_spark(lambda: df.schema.fields, f"{name}: ")
    types = {column.name: column.dataType.typeName() for column in fields}
    for column, allowed in COLUMN_TYPES.items():
        if column not in types:
            listed = ", ".join(map(repr, types))
            raise UsageError(
                f"{name}: no column {column!r}; counts have the columns 'user', 'ngram', 'count',"
                f" these have {listed}."
            )
        if types[column] not in allowed:
            meaning = (
                "ids must be text or whole numbers"
                if column == "user"
                else "it must hold whole numbers"
            )
            raise UsageError(f"{name}: the column {column!r} is {types[column]}; {meaning}.")
    rows = df.selectExpr(
        "cast(user as string) user", "cast(ngram as long) ngram", "cast(count as long) count"
    )
    return SparkCounts(_group_by_user(rows), vocabulary_size, vocabulary_fingerprint)


def save_counts(
    counts: SparkCounts, vocabulary: Vocabulary, path: str | Path, *, force: bool = False
) -> None:
    """Write a counts folder, in which counts.parquet is a folder of parts.

    Args:
        counts: The counts.
        vocabulary: The vocabulary that they were counted with.
        path: Where the folder is made; the executors must see it as well.
        force: Whether a counts folder that exists there is replaced.
    """
    size = counts.column_count
    merged = map_batches(
        counts.frame, lambda batches: tasks.merge_user_rows(batches, size), tasks.COUNT_ROWS
    )
    rows = merged.selectExpr("user", "cast(ngram as int) ngram", "cast(count as int) count")
    options = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false", "compression": "zstd"}
    with counts_io.stage_counts_folder(
        vocabulary, path, force=force, unlisted=counts.unlisted_size
    ) as file:
        run_spark(
            lambda: rows.write.options(**options).parquet(file.resolve().as_uri()), f"{path}: "
        )


def _group_by_user(rows: "DataFrame") -> "DataFrame":
    """Run the shuffle: all rows of a user in one partition, side by side.

    The result is persisted, since several queries follow.
    """
    return persist(rows.repartition("user").sortWithinPartitions("user"))


def _measure_sizes(rows: UserRows) -> Integers:
    return np.array([rows.starts.size - 1, rows.starts[-1] - rows.starts[0]])
