"""Vocabulary, counts and what mechanisms ask of them, on Spark: for text that outgrows one machine.

In:  a Spark DataFrame.   Out: a `Vocabulary`; `SparkCounts`, which every mechanism but Algorithm 2 takes in place of
`UserCounts`. One shuffle brings a user's rows together; the driver sees sums over users, never a user. All sums are of
integers, so they equal those of one machine bit for bit; noise is drawn once, by the mechanism, on the driver.

Needs pyspark (pip install "bayesgram[spark]"). How to run it on a cluster: docs/spark.md.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from bayesgram.arrays import Integers
from bayesgram.engines import tasks
from bayesgram.engines.session import explained, without_warnings
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.files import BadRows, Source, find_sources, nothing_read
from bayesgram.files.columns import Columns
from bayesgram.private import store
from bayesgram.private.over_users import NOBODY, Array, PrivateCounts, Rows
from bayesgram.public.asked import refuse_empty, sizes_by_order
from bayesgram.public.choosing import ROUGHLY, Worth, nothing_of
from bayesgram.public.lists import looked_up
from bayesgram.public.opening import Listed, listed
from bayesgram.public.sources import by_name
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.ngrams import ngram_orders
from bayesgram.text.tokens import Tokenizer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FAN_IN = 64  # answers that the driver merges itself; more are merged by tasks first


@dataclass(frozen=True, eq=False)
class Texts:
    """Text that Spark can reach, and how a task reads it. `DataFrame` columns, or files one by one."""

    frame: "DataFrame"
    read: tasks.Read


Sources: TypeAlias = Mapping[str, Sequence[Texts] | Listed]  # by name; a single one may be called ""


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
        """The rows, without the notes."""
        return self.kept.filter(f"not (ngram <=> {tasks.NOTE})")  # a null stays, and is refused

    @cached_property
    def _partitions(self) -> int:
        return explained(lambda: int(self.frame.rdd.getNumPartitions()))

    def over_users(self, measure: Callable[[Rows], Array], merge: np.ufunc = np.add) -> Array:
        """One answer a task, merged by tasks while there are many, then here."""
        size = self.vocabulary_size
        answers = mapped(self.frame, lambda batches: tasks.measured(batches, measure, merge, size), tasks.ANSWER_ROWS)
        if self._partitions > FAN_IN:
            fewer = answers.repartition(FAN_IN)
            answers = mapped(fewer, lambda batches: tasks.merged_answers(batches, merge), tasks.ANSWER_ROWS)
        found = explained(answers.collect)
        merged: Array = merge.reduce([measure(NOBODY), *(tasks.unpacked(row.answer) for row in found)])
        return merged

    def sizes(self) -> tuple[int, int]:
        """How many users and nonzeros there are: exact private numbers, not for publication."""
        users, nonzeros = self.over_users(_sizes).tolist()
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
    columns = Columns(text_column, None)
    sources = {name: [of_columns(given, columns)] for name, given in by_name(df).items()}
    return vocabulary_of(sources, order=order, size=size, tokenizer=tokenizer, skip_bad_rows=skip_bad_rows)[0]


def count(
    df: "DataFrame",
    vocabulary: Vocabulary,
    *,
    user_column: str = "user",
    text_column: str = "text",
    skip_bad_rows: bool = False,
) -> SparkCounts:
    """Count the vocabulary's n-grams in every user's text. Spark keeps the result until `unpersist`."""
    return count_of([of_columns(df, Columns(text_column, user_column))], vocabulary, skip_bad_rows=skip_bad_rows)


def vocabulary_of(
    sources: Sources,
    *,
    order: int | Sequence[int],
    size: int | Sequence[int],
    tokenizer: Tokenizer,
    skip_bad_rows: bool,
) -> tuple[Vocabulary, BadRows]:
    """The vocabulary of sources, and the rows that were skipped."""
    sizes = sizes_by_order(order, size)
    orders = list(sizes)
    frames = [_counted(source, number, orders, tokenizer) for number, source in enumerate(sources.values())]
    summed = _by_source(union(frames), len(sources))
    try:
        notes = summed.filter("order = 0").selectExpr("ngram", f"{' + '.join(_columns(len(sources)))} rows")
        bad, rows_read = bad_rows(notes, skip=skip_bad_rows)
        if not rows_read and all(not isinstance(source, Listed) for source in sources.values()):
            raise nothing_read(bad)
        tops = _tops(summed, list(sources), sizes)
    finally:
        summed.unpersist()
    ngrams = pa.concat_arrays([ngrams for ngrams, _ in tops])
    return Vocabulary.of_counts(ngrams, list(sources), np.hstack([counts for _, counts in tops]), tokenizer), bad


def list_of(
    sources: Sources, *, ngrams: pa.LargeStringArray, tokenizer: Tokenizer, skip_bad_rows: bool
) -> tuple[Vocabulary, BadRows]:
    """The n-grams of a list, counted in sources, and the rows that were skipped."""
    plain = Vocabulary.of_counts(ngrams, [""], np.zeros((1, len(ngrams)), np.int64), tokenizer)
    counts, bad, rows_read = [], BadRows(), 0
    for source in sources.values():
        own, skipped, rows = _list_counts(source, plain, skip=skip_bad_rows)
        counts.append(own)
        bad.by_reason |= {why: bad.by_reason.get(why, 0) + left for why, left in skipped.by_reason.items()}
        rows_read += rows
    if not rows_read:
        raise nothing_read(bad)
    return Vocabulary.of_counts(ngrams, list(sources), np.stack(counts), tokenizer), bad


def count_of(texts: Sequence[Texts], vocabulary: Vocabulary, *, skip_bad_rows: bool) -> SparkCounts:
    """Counts of several texts; a user may be in all of them."""
    plain = Vocabulary(vocabulary.ngrams, vocabulary.counts, vocabulary.order, vocabulary.tokenizer)  # no caches travel

    def task(read: tasks.Read) -> Callable[[tasks.Batches], tasks.Batches]:
        return lambda batches: tasks.count_users(batches, read, plain)

    kept = _together(union([mapped(text.frame, task(text.read), tasks.COUNT_ROWS) for text in texts]))
    notes = kept.filter(f"ngram = {tasks.NOTE}").select("user", "count")
    try:
        bad, rows_read = bad_rows(notes, skip=skip_bad_rows)  # runs everything, so that later questions find it kept
    except BayesgramError:
        kept.unpersist()
        raise
    return SparkCounts(kept, len(vocabulary), vocabulary.fingerprint, bad, rows_read)


def load_counts(spark: "SparkSession", path: str | Path, *, vocabulary_size: int) -> SparkCounts:
    """Read a counts folder, or Parquet of user, ngram, count: the path is one that the executors see as well."""
    if "://" in str(path):
        file, fingerprint = str(path), None
    else:
        place = store.find_counts(path, vocabulary_size)
        file, fingerprint = place.file.resolve().as_uri(), place.fingerprint
    frame = _parquet(spark, [file], str(path))
    return counts_of_rows(frame, vocabulary_size=vocabulary_size, vocabulary_fingerprint=fingerprint, name=str(path))


def counts_of_rows(
    df: "DataFrame", *, vocabulary_size: int, vocabulary_fingerprint: str | None = None, name: str = "the DataFrame"
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
            meaning = "ids must be text or whole numbers" if allowed else "it must hold whole numbers"
            raise UsageError(f"{name}: the column {column!r} is {types[column]}; {meaning}.")
    rows = df.selectExpr("cast(user as string) user", "cast(ngram as long) ngram", "cast(count as long) count")
    return SparkCounts(_together(rows), vocabulary_size, vocabulary_fingerprint)


def save_counts(counts: SparkCounts, vocabulary: Vocabulary, path: str | Path, *, force: bool = False) -> None:
    """Write a counts folder, in which counts.parquet is a folder of parts; the executors must see the path as well."""
    size = counts.vocabulary_size
    merged = mapped(counts.frame, lambda batches: tasks.merged_rows(batches, size), tasks.COUNT_ROWS)
    rows = merged.selectExpr("user", "cast(ngram as int) ngram", "cast(count as int) count")
    no_mark = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false", "compression": "zstd"}
    with store.unwritten_counts(vocabulary, path, force=force) as file:
        explained(lambda: rows.write.options(**no_mark).parquet(file.resolve().as_uri()), f"{path}: ")


def of_columns(df: "DataFrame", columns: Columns, name: str = "the DataFrame") -> Texts:
    """Text in columns of a DataFrame."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - an extra
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415

    columns.require(name, df.columns)
    chosen = [f.col(f"`{column.replace('`', '``')}`") for column in columns.names]
    columns.require_types(name, explained(lambda: to_arrow_schema(df.select(*chosen).schema), f"{name}: "))
    texts = df.select(*(column.alias(alias) for column, alias in zip(chosen, ("text", "user"), strict=False)))
    return Texts(texts, tasks.from_columns)


def of_inputs(spark: "SparkSession", inputs: Sequence[str], columns: Columns) -> list[Texts]:
    """Text in files, folders, patterns or URLs: Parquet as Spark reads it; a task for each file of another format."""
    remote = [one for one in inputs if "://" in one]
    local = [one for one in inputs if "://" not in one]
    sources = find_sources(local, allow_plain_text=columns.user is None) if local else []
    tables = [source for source in sources if source.format == "parquet"]
    others = [source for source in sources if source.format != "parquet"]
    found = [of_columns(_parquet(spark, [url], url), columns, url) for url in remote]
    if tables:
        found += _tables(spark, tables, columns)
    if others:
        numbers = spark.range(len(others), numPartitions=len(others))
        anywhere = [replace(source, path=source.path and source.path.resolve()) for source in others]
        found.append(Texts(numbers, tasks.FromFiles(anywhere, columns)))
    return found


def open_sources(
    spark: "SparkSession", inputs: Mapping[str, Sequence[str]], columns: Columns, tokenizer: Tokenizer
) -> dict[str, Sequence[Texts] | Listed]:
    """Public sources: text in files, or the n-grams of a model, a release or a vocabulary."""
    return {
        name: listed(given, tokenizer, columns.text) or of_inputs(spark, given, columns)
        for name, given in inputs.items()
    }


def _tables(spark: "SparkSession", tables: Sequence[Source], columns: Columns) -> Iterator[Texts]:
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
        columns.require_types(source.name, schema)
        alike.setdefault(str([schema.field(name) for name in columns.names]), []).append(source)
    for group in alike.values():
        frame = _parquet(spark, [str(source.path.resolve().as_uri()) for source in group if source.path], group[0].name)
        yield of_columns(frame, columns, group[0].name)


def _parquet(spark: "SparkSession", paths: Sequence[str], name: str) -> "DataFrame":
    return explained(lambda: spark.read.parquet(*paths), f"{name}: ")


def mapped(df: "DataFrame", task: Callable[[tasks.Batches], tasks.Batches], schema: str) -> "DataFrame":
    """What tasks make of their batches of rows."""
    with without_warnings():
        return df.mapInArrow(task, schema)


def union(frames: Sequence["DataFrame"]) -> "DataFrame":
    """The rows of all of them."""
    return reduce(lambda first, second: first.unionAll(second), frames)


def _together(rows: "DataFrame") -> "DataFrame":
    """The shuffle: all rows of a user in one partition, side by side; kept, since several questions follow."""
    return kept(rows.repartition("user").sortWithinPartitions("user"))


def kept(df: "DataFrame") -> "DataFrame":
    """What Spark keeps once it is made, in as few partitions as its size asks for.

    Unless told, Spark would keep all 200 of a shuffle, and a task for each takes longer than the work.
    """
    settings, name = df.sparkSession.conf, "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning"
    before = settings.get(name)
    settings.set(name, "true")
    try:
        return df.persist()
    finally:
        settings.set(name, before)


def bad_rows(notes: "DataFrame", *, skip: bool) -> tuple[BadRows, int]:
    """(reason, rows) notes of the tasks, added up, and how many rows were read; or refuse bad ones."""
    found = explained(notes.toDF("reason", "rows").groupBy("reason").sum("rows").collect)
    bad = BadRows({row[0]: int(row[1]) for row in sorted(found)})
    rows_read = bad.by_reason.pop(tasks.READ, 0)
    if bad.by_reason and not skip:
        raise BayesgramError(
            f"a row or more can't be used: {', '.join(bad.by_reason)}. Mend them, or count and skip such rows with"
            " skip_bad_rows=True."
        )
    return bad, rows_read


def _counted(source: Sequence[Texts] | Listed, number: int, orders: Sequence[int], tokenizer: Tokenizer) -> "DataFrame":
    """The n-grams of a source with their counts, and the number of the source."""

    def task(read: tasks.Read) -> Callable[[tasks.Batches], tasks.Batches]:
        return lambda batches: tasks.count_ngrams(batches, read, orders, tokenizer)

    if isinstance(source, Listed):
        frame = _listed_rows(source, orders)
    else:
        frame = union([mapped(text.frame, task(text.read), tasks.NGRAM_ROWS) for text in source])
    return frame.selectExpr("order", "ngram", "count", f"{number} source")


def _listed_rows(source: Listed, orders: Sequence[int]) -> "DataFrame":
    """A list as a DataFrame, of the orders that are asked for."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra

    lengths = ngram_orders(source.ngrams).astype(np.int32)
    rows = np.flatnonzero(np.isin(lengths, orders) & (source.counts > 0))
    ngrams = source.ngrams.take(pa.array(rows)).cast(pa.string())
    table = pa.table({"order": lengths[rows], "ngram": ngrams, "count": source.counts[rows]})
    return explained(lambda: SparkSession.active().createDataFrame(table, tasks.NGRAM_ROWS))


def _columns(sources: int) -> list[str]:
    return [f"count{number}" for number in range(sources)]


def _by_source(counted: "DataFrame", sources: int) -> "DataFrame":
    """One row for each n-gram, with its count in every source."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - an extra

    sums = [
        f.sum(f.when(f.col("source") == number, f.col("count")).otherwise(0)).alias(name)
        for number, name in enumerate(_columns(sources))
    ]
    return kept(counted.groupBy("order", "ngram").agg(*sums))


def _tops(
    summed: "DataFrame", names: Sequence[str], sizes: Mapping[int, int]
) -> list[tuple[pa.LargeStringArray, Integers]]:
    """The chosen n-grams of each order, with their counts in every source."""
    columns = _columns(len(names))
    if len(names) == 1:
        return [
            _first(summed.filter(f"order = {order}"), order, columns, size, by=columns[0])
            for order, size in sizes.items()
        ]
    found = explained(summed.groupBy("order").sum(*columns).collect)
    sums = {row[0]: tuple(map(int, row[1:])) for row in found}
    totals = [sums.get(order, (0,) * len(names)) for order in sizes]
    refuse_empty(names, totals, list(sizes))
    return [
        _first(_hopeful(summed.filter(f"order = {order}"), columns, size, Worth(total)), order, columns, size)
        for (order, size), total in zip(sizes.items(), totals, strict=True)
    ]


def _hopeful(summed: "DataFrame", columns: Sequence[str], size: int, worth: Worth) -> "DataFrame":
    """The n-grams that may be among the `size` first, with what each is worth, exactly: as bytes that sort alike."""
    roughly = " + ".join(f"{name} / {max(total, 1)}" for name, total in zip(columns, worth.totals, strict=True))
    race = summed.selectExpr("ngram", *columns, f"{roughly} rough")
    found = explained(race.orderBy("rough", ascending=False).limit(size).agg({"rough": "min"}).collect)
    last = float(found[0][0] or 0) * (1 - ROUGHLY)
    schema = ", ".join(["ngram string", *(f"{name} long" for name in columns), "worth binary"])
    hopeful = race.filter(race.rough >= last).select("ngram", *columns)
    return mapped(hopeful, lambda batches: tasks.weighed(batches, columns, worth), schema)


def _first(
    summed: "DataFrame", order: int, columns: Sequence[str], size: int, by: str = "worth"
) -> tuple[pa.LargeStringArray, Integers]:
    """The first n-grams of one order and their counts (K × V); of equal ones, in byte order token by token."""
    race = summed.selectExpr("*", "split(ngram, ' ') tokens")
    first = race.orderBy(by, "tokens", ascending=[False, True]).limit(size).select("ngram", *columns)
    table = explained(first.toArrow)
    if not table.num_rows:
        raise nothing_of(order)
    ngrams = table["ngram"].combine_chunks().cast(pa.large_string())
    return ngrams, np.stack([table[name].combine_chunks().to_numpy().astype(np.int64) for name in columns])


def _list_counts(source: Sequence[Texts] | Listed, plain: Vocabulary, *, skip: bool) -> tuple[Integers, BadRows, int]:
    """How often a source has each n-gram of a list, and the rows that were skipped and read."""
    if isinstance(source, Listed):
        return looked_up(plain.ngrams, source), BadRows(), len(source.ngrams)

    def task(read: tasks.Read) -> Callable[[tasks.Batches], tasks.Batches]:
        return lambda batches: tasks.count_listed(batches, read, plain)

    counted = union([mapped(text.frame, task(text.read), tasks.COUNT_ROWS) for text in source])
    summed = kept(counted.groupBy("user", "ngram").sum("count").toDF("user", "ngram", "count"))
    try:
        bad, rows_read = bad_rows(summed.filter(f"ngram = {tasks.NOTE}").select("user", "count"), skip=skip)
        table = explained(summed.filter(f"ngram <> {tasks.NOTE}").select("ngram", "count").toArrow)
    finally:
        summed.unpersist()
    counts = np.zeros(len(plain), np.int64)
    counts[table["ngram"].to_numpy()] = table["count"].to_numpy()
    return counts, bad, rows_read


def _sizes(rows: Rows) -> Any:  # noqa: ANN401 - two whole numbers
    return np.array([rows.starts.size - 1, rows.starts[-1] - rows.starts[0]])
