"""What Spark does with a DataFrame, as we need it: tasks over Arrow batches, and what is kept and noted of them.

In:  a DataFrame.   Out: another one, or what its tasks noted.   Does not know what is counted.

Text that Spark can reach: columns of a DataFrame, or files, folders, patterns and URLs.

In:  a DataFrame, or names of files.   Out: `TextFrame`, which say how a task reads them.   Reads schemas, not rows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from bayesgram.errors import Argument, BayesgramError
from bayesgram.io import BadRows, Source, find_sources
from bayesgram.io.inputs import refuse_own_tables
from bayesgram.io.records import Columns
from bayesgram.public.sources import CountedNgrams, open_counted_ngrams
from bayesgram.spark import tasks
from bayesgram.spark.session import run_spark, suppress_warnings
from bayesgram.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_parquet(spark: "SparkSession", paths: Sequence[str], name: str) -> "DataFrame":
    """Tables as Spark reads them; what fails is an error of ours, which begins with `name`."""
    return run_spark(lambda: spark.read.parquet(*paths), f"{name}: ")


def mapped(
    df: "DataFrame", task: Callable[[tasks.Batches], tasks.Batches], schema: str
) -> "DataFrame":
    """What tasks make of their batches of rows."""
    with suppress_warnings():
        return df.mapInArrow(task, schema)


def union(frames: Sequence["DataFrame"]) -> "DataFrame":
    """The rows of all of them."""
    return reduce(lambda first, second: first.unionAll(second), frames)


def kept(df: "DataFrame") -> "DataFrame":
    """What Spark keeps once it is made, in as few partitions as its size asks for.

    Unless told, Spark would keep all 200 of a shuffle, and a task for each takes longer than the work.
    """
    settings, name = (
        df.sparkSession.conf,
        "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning",
    )
    before = settings.get(name)
    settings.set(name, "true")
    try:
        return df.persist()
    finally:
        settings.set(name, before)


def bad_rows(notes: "DataFrame", *, skip: bool) -> tuple[BadRows, int]:
    """(reason, rows) notes of the tasks, added up, and how many rows were read; or refuse bad ones."""
    found = run_spark(notes.toDF("reason", "rows").groupBy("reason").sum("rows").collect)
    bad = BadRows({row[0]: int(row[1]) for row in sorted(found)})
    rows_read = bad.by_reason.pop(tasks.READ, 0)
    if bad.by_reason and not skip:
        raise BayesgramError(
            f"a row or more can't be used: {', '.join(bad.by_reason)}. Mend them, or "
            "count and skip such rows with ",
            Argument("skip_bad_rows", "True"),
            ".",
        )
    return bad, rows_read


@dataclass(frozen=True, eq=False)
class TextFrame:
    """Text that Spark can reach, and how a task reads it. `DataFrame` columns, or files one by one."""

    frame: "DataFrame"
    read: tasks.Read


def text_from_columns(df: "DataFrame", columns: Columns, name: str = "the DataFrame") -> TextFrame:
    """Text in columns of a DataFrame."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - an extra
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415

    columns.check_present(name, df.columns)
    chosen = [f.col(f"`{column.replace('`', '``')}`") for column in columns.names]
    columns.check_types(
        name, run_spark(lambda: to_arrow_schema(df.select(*chosen).schema), f"{name}: ")
    )
    texts = df.select(
        *(column.alias(alias) for column, alias in zip(chosen, ("text", "user"), strict=False))
    )
    return TextFrame(texts, tasks.from_columns)


def text_from_inputs(
    spark: "SparkSession", inputs: Sequence[str], columns: Columns
) -> list[TextFrame]:
    """Text in files, folders, patterns or URLs: Parquet as Spark reads it; a task for each file of another format."""
    remote = [one for one in inputs if "://" in one]
    local = [one for one in inputs if "://" not in one]
    sources = find_sources(local, allow_plain_text=columns.user is None) if local else []
    if columns.user is None:
        refuse_own_tables(sources)
    tables = [source for source in sources if source.format == "parquet"]
    others = [source for source in sources if source.format != "parquet"]
    found = [text_from_columns(read_parquet(spark, [url], url), columns, url) for url in remote]
    if tables:
        found += _tables(spark, tables, columns)
    if others:
        numbers = spark.range(len(others), numPartitions=len(others))
        anywhere = [
            replace(source, path=source.path and source.path.resolve()) for source in others
        ]
        found.append(TextFrame(numbers, tasks.FileReader(anywhere, columns)))
    return found


def open_sources(
    spark: "SparkSession",
    inputs: Mapping[str, Sequence[str]],
    columns: Columns,
    tokenizer: Tokenizer,
) -> dict[str, Sequence[TextFrame] | CountedNgrams]:
    """Public sources: text in files, or the n-grams of a model, a release or a vocabulary."""
    return {
        name: open_counted_ngrams(given, tokenizer, columns.text)
        or text_from_inputs(spark, given, columns)
        for name, given in inputs.items()
    }


def _tables(
    spark: "SparkSession", tables: Sequence[Source], columns: Columns
) -> Iterator[TextFrame]:
    """Files of one schema together: Spark would take the first file's for all of them."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    alike: dict[str, list[Source]] = {}
    for source in tables:
        try:
            schema = pq.read_schema(source.path)
        except (OSError, pa.ArrowException):
            raise BayesgramError(
                f"{source.name}: can't be read as parquet; the file is damaged or cut short."
            ) from None
        columns.check_types(source.name, schema)
        alike.setdefault(str([schema.field(name) for name in columns.names]), []).append(source)
    for group in alike.values():
        frame = read_parquet(
            spark,
            [str(source.path.resolve().as_uri()) for source in group if source.path],
            group[0].name,
        )
        yield text_from_columns(frame, columns, group[0].name)
