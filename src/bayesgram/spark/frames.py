"""DataFrames of text, and the operations on them that the other modules need.

A `TextFrame` is text that Spark can reach, in columns of a DataFrame or in files, and says how a
task reads it. The rest runs tasks over Arrow batches (`map_batches`), persists what several
queries need, and collects the notes of tasks about bad rows. Schemas are read here, rows are not.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from bayesgram.errors import Argument, BayesgramError
from bayesgram.io import BadRows, Source, find_sources
from bayesgram.io.inputs import refuse_databases, refuse_own_tables
from bayesgram.io.records import Columns
from bayesgram.public.sources import CountedNgrams, open_counted_ngrams
from bayesgram.spark import tasks
from bayesgram.spark.session import run_if_supported, run_spark, suppress_warnings
from bayesgram.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_parquet(spark: "SparkSession", paths: Sequence[str], name: str) -> "DataFrame":
    """Read Parquet tables as Spark does; a failure is an error that begins with `name`."""

    def read() -> "DataFrame":
        frame = spark.read.parquet(*paths)
        frame.schema  # noqa: B018 - Spark Connect looks at the files now
        return frame

    return run_spark(read, f"{name}: ")


def map_batches(
    df: "DataFrame", task: Callable[[tasks.Batches], tasks.Batches], schema: str
) -> "DataFrame":
    """Return the DataFrame that tasks make of their Arrow batches of rows."""
    with suppress_warnings():
        return df.mapInArrow(task, schema)


def union_all(frames: Sequence["DataFrame"]) -> "DataFrame":
    """Return the rows of all frames."""
    return reduce(lambda first, second: first.unionAll(second), frames)


def persist(df: "DataFrame") -> "DataFrame":
    """Let Spark keep a DataFrame once it is computed, in as few partitions as its size needs.

    By default, Spark would keep all 200 of a shuffle, and a task for each takes longer than the
    work. Serverless Spark keeps nothing and lets nobody change this setting; there, the DataFrame
    is computed again for every query, with the same result.
    """
    name = "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning"
    settings = df.sparkSession.conf
    before = run_if_supported(lambda: settings.get(name))
    run_if_supported(lambda: settings.set(name, "true"))
    try:
        run_if_supported(df.persist)
    finally:
        if before is not None:
            run_if_supported(lambda: settings.set(name, before))
    return df


def unpersist(df: "DataFrame") -> None:
    """Let Spark forget a DataFrame, where it keeps any."""
    run_if_supported(df.unpersist)


def collect_bad_rows(notes: "DataFrame", *, skip: bool) -> tuple[BadRows, int]:
    """Add up the notes of tasks about rows that can't be used.

    Args:
        notes: Rows (reason, number of rows).
        skip: Whether bad rows are skipped, not an error.

    Returns:
        The bad rows, and how many rows were read.

    Raises:
        BayesgramError: If there are bad rows, and they are not skipped.
    """
    sums = run_spark(notes.toDF("reason", "rows").groupBy("reason").sum("rows").collect)
    bad = BadRows({row[0]: int(row[1]) for row in sorted(sums)})
    rows_read = bad.by_reason.pop(tasks.READ, 0)
    bad.without_text = bad.by_reason.pop(tasks.WITHOUT_TEXT, 0)
    if bad.by_reason and not skip:
        raise BayesgramError(
            f"a row or more can't be used: {', '.join(bad.by_reason)}. Correct them, or"
            " skip and count such rows with ",
            Argument("skip_bad_rows", "True"),
            ".",
        )
    return bad, rows_read


@dataclass(frozen=True, eq=False)
class TextFrame:
    """Text that Spark can reach, in columns of a DataFrame or in files, and how a task reads it."""

    frame: "DataFrame"
    read: tasks.Read


def text_from_columns(df: "DataFrame", columns: Columns, name: str = "the DataFrame") -> TextFrame:
    """Return the text in columns of a DataFrame.

    Args:
        df: The DataFrame.
        columns: The names of its columns.
        name: What it is called in messages.
    """
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - an extra

    columns.check_present(name, run_spark(lambda: df.columns, f"{name}: "))
    texts = df.select(*(f"`{column.replace('`', '``')}`" for column in columns.names))
    columns.check_types(name, run_spark(lambda: to_arrow_schema(texts.schema), f"{name}: "))
    return TextFrame(texts.toDF(*("text", "user")[: len(columns.names)]), tasks.read_columns)


def text_from_inputs(
    spark: "SparkSession", inputs: Sequence[str], columns: Columns
) -> list[TextFrame]:
    """Return the text in files, folders, patterns or URLs.

    Spark itself reads Parquet; every file of another format is read by one task.
    """
    refuse_databases(inputs)
    urls = [name for name in inputs if "://" in name]
    local = [name for name in inputs if "://" not in name]
    sources = find_sources(local, allow_plain_text=columns.user is None) if local else []
    if columns.user is None:
        refuse_own_tables(sources)
    tables = [source for source in sources if source.format == "parquet"]
    others = [source for source in sources if source.format != "parquet"]
    texts = [text_from_columns(read_parquet(spark, [url], url), columns, url) for url in urls]
    if tables:
        texts += _read_tables(spark, tables, columns)
    if others:
        numbers = spark.range(len(others), numPartitions=len(others))
        resolved = [
            replace(source, path=source.path and source.path.resolve()) for source in others
        ]
        texts.append(TextFrame(numbers, tasks.FileReader(resolved, columns)))
    return texts


def open_sources(
    spark: "SparkSession",
    inputs: Mapping[str, Sequence[str]],
    columns: Columns,
    tokenizer: Tokenizer,
) -> dict[str, Sequence[TextFrame] | CountedNgrams]:
    """Open public sources: text in files, or n-grams of a model, a release or a vocabulary."""
    return {
        name: open_counted_ngrams(source, tokenizer, columns.text)
        or text_from_inputs(spark, source, columns)
        for name, source in inputs.items()
    }


def _read_tables(
    spark: "SparkSession", tables: Sequence[Source], columns: Columns
) -> Iterator[TextFrame]:
    """Read files of one schema together: Spark would take the first file's schema for all."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    by_schema: dict[str, list[Source]] = {}
    for source in tables:
        try:
            schema = pq.read_schema(source.path)
        except (OSError, pa.ArrowException):
            raise BayesgramError(
                f"{source.name}: can't be read as parquet; the file is damaged or cut short."
            ) from None
        columns.check_types(source.name, schema)
        by_schema.setdefault(str([schema.field(name) for name in columns.names]), []).append(source)
    for group in by_schema.values():
        frame = read_parquet(
            spark,
            [str(source.path.resolve().as_uri()) for source in group if source.path],
            group[0].name,
        )
        yield text_from_columns(frame, columns, group[0].name)
