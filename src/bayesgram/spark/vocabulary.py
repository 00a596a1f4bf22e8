"""A vocabulary of public text on Spark, byte for byte that of one machine.

Sources are text, or lists of n-grams that were counted before. `build_vocabulary` returns the most
frequent n-grams, and `count_listed_ngrams` those of a list, with their counts in every source.
Tasks count; the driver sees sums. Public text alone.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from bayesgram.arrays import Integers
from bayesgram.errors import UsageError
from bayesgram.io import BadRows, no_rows_error
from bayesgram.public.public_rows import new_row_sample
from bayesgram.public.sources import CountedNgrams, combined_provenance
from bayesgram.public.top_ngrams import ROUNDING_TOLERANCE, NgramScore, no_ngrams_error
from bayesgram.public.vocabulary import (
    Vocabulary,
    lookup_counts,
    refuse_empty_sources,
    sizes_by_order,
)
from bayesgram.spark import tasks
from bayesgram.spark.frames import (
    TextFrame,
    collect_bad_rows,
    map_batches,
    persist,
    union_all,
    unpersist,
)
from bayesgram.spark.session import run_spark
from bayesgram.spark.sharing import share
from bayesgram.text.ngrams import ngram_orders
from bayesgram.text.row_hashes import RowSample
from bayesgram.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# By name; a single one may be called "".
Sources: TypeAlias = Mapping[str, Sequence[TextFrame] | CountedNgrams]


def build_vocabulary(
    spark: "SparkSession",
    sources: Sources,
    *,
    order: int | Sequence[int],
    size: int | Sequence[int],
    tokenizer: Tokenizer,
    skip_bad_rows: bool,
) -> tuple[Vocabulary, BadRows]:
    """Return the most frequent n-grams of sources, and the rows that were skipped.

    Args:
        spark: The Spark session.
        sources: Public text, or n-grams that were counted before.
        order: The length of n-grams, or several.
        size: How many n-grams (of each order).
        tokenizer: Cuts text into tokens.
        skip_bad_rows: Whether rows that can't be used are skipped, not an error.
    """
    sizes = sizes_by_order(order, size, tokenizer)
    if not any(sizes.values()):
        raise UsageError.for_argument(
            "size", 0, "a vocabulary without rows is made on this machine; leave Spark out."
        )
    orders = list(sizes)
    sample = new_row_sample(tokenizer)
    frames = [
        _count_ngrams(spark, source, number, orders, tokenizer, sample)
        for number, source in enumerate(sources.values())
    ]
    summed = _sum_by_source(union_all(frames), len(sources))
    try:
        notes = summed.filter("order = 0").selectExpr(
            "ngram", f"{' + '.join(_count_columns(len(sources)))} rows"
        )
        bad, rows_read = collect_bad_rows(notes, skip=skip_bad_rows)
        if not rows_read and all(
            not isinstance(source, CountedNgrams) for source in sources.values()
        ):
            raise no_rows_error(bad)
        rows = _collect_public_rows(
            summed.filter(f"order = {tasks.ROW_ORDER}").select("ngram"), sources, sample
        )
        tops = _select_top(summed, list(sources), sizes)
    finally:
        unpersist(summed)
    ngrams = pa.concat_arrays([ngrams for ngrams, _ in tops])
    counted = np.hstack([counts for _, counts in tops])
    vocabulary = Vocabulary.from_counts(ngrams, list(sources), counted, tokenizer, rows)
    return vocabulary.with_provenance(combined_provenance(_counted_sources(sources))), bad


def count_listed_ngrams(
    sources: Sources, *, ngrams: pa.LargeStringArray, tokenizer: Tokenizer, skip_bad_rows: bool
) -> tuple[Vocabulary, BadRows]:
    """Return the n-grams of a list, counted in sources, and the rows that were skipped.

    Args:
        sources: Public text, or n-grams that were counted before.
        ngrams: The list.
        tokenizer: Cuts text into tokens.
        skip_bad_rows: Whether rows that can't be used are skipped, not an error.
    """
    plain = Vocabulary.from_counts(ngrams, [""], np.zeros((1, len(ngrams)), np.int64), tokenizer)
    counts = []
    bad = BadRows()
    rows_read = 0
    sample = new_row_sample(tokenizer)
    for source in sources.values():
        source_counts, skipped, rows = _count_source(source, plain, sample, skip=skip_bad_rows)
        counts.append(source_counts)
        bad.by_reason |= {
            reason: bad.by_reason.get(reason, 0) + number
            for reason, number in skipped.by_reason.items()
        }
        rows_read += rows
    if not rows_read:
        raise no_rows_error(bad)
    public_rows = sample if _has_text(sources) else None
    vocabulary = Vocabulary.from_counts(
        ngrams, list(sources), np.stack(counts), tokenizer, public_rows
    )
    return vocabulary.with_provenance(combined_provenance(_counted_sources(sources))), bad


def _counted_sources(sources: Sources) -> list[CountedNgrams]:
    """Return the sources that were counted before."""
    return [source for source in sources.values() if isinstance(source, CountedNgrams)]


def _has_text(sources: Sources) -> bool:
    return any(not isinstance(source, CountedNgrams) for source in sources.values())


def _collect_public_rows(
    hashes: "DataFrame", sources: Sources, sample: RowSample
) -> RowSample | None:
    """Return the sample of all tasks' rows; None where no source is text."""
    if not _has_text(sources):
        return None
    _add_hashes(hashes, sample)
    return sample


def _add_hashes(hashes: "DataFrame", sample: RowSample) -> None:
    """Add the smallest hashes that tasks sent, and one more, which is the sample's limit."""
    smallest = hashes.toDF("hash").distinct().orderBy("hash").limit(sample.capacity + 1)
    texts = run_spark(smallest.toArrow)["hash"].to_pylist()
    sample.add(np.array([int(text, 16) for text in texts], np.uint64))


def _count_ngrams(
    spark: "SparkSession",
    source: Sequence[TextFrame] | CountedNgrams,
    number: int,
    orders: Sequence[int],
    tokenizer: Tokenizer,
    sample: RowSample,
) -> "DataFrame":
    """Return the n-grams of a source with their counts, and the number of the source."""

    def task(read: tasks.Read) -> Callable[[tasks.Batches], tasks.Batches]:
        return lambda batches: tasks.count_ngrams(batches, read, orders, tokenizer, sample)

    if isinstance(source, CountedNgrams):
        frame = _make_frame(spark, source, orders, tokenizer)
    else:
        frame = union_all(
            [map_batches(text.frame, task(text.read), tasks.NGRAM_ROWS) for text in source]
        )
    return frame.selectExpr("order", "ngram", "count", f"{number} source")


def _make_frame(
    spark: "SparkSession", source: CountedNgrams, orders: Sequence[int], tokenizer: Tokenizer
) -> "DataFrame":
    """Return counted n-grams of some orders as a DataFrame."""
    lengths = ngram_orders(source.ngrams, tokenizer).astype(np.int32)
    rows = np.flatnonzero(np.isin(lengths, orders) & (source.counts > 0))
    ngrams = source.ngrams.take(pa.array(rows)).cast(pa.string())
    table = pa.table({"order": lengths[rows], "ngram": ngrams, "count": source.counts[rows]})
    return run_spark(lambda: spark.createDataFrame(table, tasks.NGRAM_ROWS))


def _count_columns(sources: int) -> list[str]:
    return [f"count{number}" for number in range(sources)]


def _sum_by_source(counted: "DataFrame", sources: int) -> "DataFrame":
    """Return one row for each n-gram, with its count in every source."""
    columns = _count_columns(sources)
    by_source = [
        f"if(source = {number}, count, 0L) {column}" for number, column in enumerate(columns)
    ]
    sums = counted.selectExpr("order", "ngram", *by_source).groupBy("order", "ngram").sum(*columns)
    return persist(sums.toDF("order", "ngram", *columns))


def _select_top(
    summed: "DataFrame", names: Sequence[str], sizes: Mapping[int, int]
) -> list[tuple[pa.LargeStringArray, Integers]]:
    """Return the most frequent n-grams of each order, with their counts in every source."""
    columns = _count_columns(len(names))
    if len(names) == 1:
        return [
            _take_first(summed.filter(f"order = {order}"), order, columns, size, by=columns[0])
            for order, size in sizes.items()
        ]
    rows = run_spark(summed.groupBy("order").sum(*columns).collect)
    sums = {row[0]: tuple(map(int, row[1:])) for row in rows}
    totals = [sums.get(order, (0,) * len(names)) for order in sizes]
    refuse_empty_sources(names, totals, list(sizes))
    return [
        _take_first(
            _score_candidates(summed.filter(f"order = {order}"), columns, size, NgramScore(total)),
            order,
            columns,
            size,
        )
        for (order, size), total in zip(sizes.items(), totals, strict=True)
    ]


def _score_candidates(
    summed: "DataFrame", columns: Sequence[str], size: int, score: NgramScore
) -> "DataFrame":
    """Return the n-grams that may be among the `size` first, each with its exact score.

    Scores are bytes that sort as numbers do, in a column `worth`.
    """
    roughly = " + ".join(
        f"{name} / {max(total, 1)}" for name, total in zip(columns, score.totals, strict=True)
    )
    top_k = summed.selectExpr("ngram", *columns, f"{roughly} rough")
    found = run_spark(
        top_k.orderBy("rough", ascending=False).limit(size).agg({"rough": "min"}).collect
    )
    last = float(found[0][0] or 0) * (1 - ROUNDING_TOLERANCE)
    schema = ", ".join(["ngram string", *(f"{name} long" for name in columns), "worth binary"])
    top_candidates = top_k.filter(top_k["rough"] >= last).select("ngram", *columns)
    return map_batches(
        top_candidates, lambda batches: tasks.add_scores(batches, columns, score), schema
    )


def _take_first(
    summed: "DataFrame", order: int, columns: Sequence[str], size: int, by: str = "worth"
) -> tuple[pa.LargeStringArray, Integers]:
    """Return the first n-grams of one order and their counts (sources × n-grams).

    Of equal scores, n-grams are in byte order, token by token.
    """
    top_k = summed.selectExpr("*", "split(ngram, ' ') tokens")
    first = (
        top_k.orderBy(by, "tokens", ascending=[False, True]).limit(size).select("ngram", *columns)
    )
    table = run_spark(first.toArrow)
    if not table.num_rows:
        raise no_ngrams_error(order)
    ngrams = table["ngram"].combine_chunks().cast(pa.large_string())
    return ngrams, np.stack(
        [table[name].combine_chunks().to_numpy().astype(np.int64) for name in columns]
    )


def _count_source(
    source: Sequence[TextFrame] | CountedNgrams, plain: Vocabulary, sample: RowSample, *, skip: bool
) -> tuple[Integers, BadRows, int]:
    """Count the n-grams of a list in one source, and add its rows to the sample.

    Returns:
        The counts, the rows that were skipped, and how many rows were read.
    """
    empty = RowSample(sample.salt, least=sample.least, capacity=sample.capacity)
    if isinstance(source, CountedNgrams):
        return lookup_counts(plain.ngrams, source), BadRows(), len(source.ngrams)

    shared = share(source[0].frame.sparkSession, plain)

    def task(read: tasks.Read) -> Callable[[tasks.Batches], tasks.Batches]:
        return lambda batches: tasks.count_listed(batches, read, shared.value, empty)

    counted = union_all(
        [map_batches(text.frame, task(text.read), tasks.COUNT_ROWS) for text in source]
    )
    summed = persist(counted.groupBy("user", "ngram").sum("count").toDF("user", "ngram", "count"))
    try:
        bad, rows_read = collect_bad_rows(
            summed.filter(f"ngram = {tasks.NOTE}").select("user", "count"), skip=skip
        )
        _add_hashes(summed.filter(f"ngram = {tasks.ROW}").select("user"), sample)
        table = run_spark(summed.filter("ngram >= 0").select("ngram", "count").toArrow)
    finally:
        unpersist(summed)
    counts = np.zeros(len(plain), np.int64)
    counts[table["ngram"].to_numpy()] = table["count"].to_numpy()
    return counts, bad, rows_read
