"""Discovery on Spark: for private text that outgrows one machine.

`SparkPrivateText`, of a DataFrame or of files, is text that `bayesgram.discover` takes; it finds,
byte for byte, what it finds on one machine with the same noise. The driver draws the noise and
never sees a user.

- In one round, a shuffle brings a user's text together, and a second one what all users contribute
  to a candidate. The driver gets the candidates whose sums reach the floor.
- In several rounds, users' lists of candidates stay on the executors. In each round the driver
  sends a table of weights, which is joined with the lists; a shuffle brings the lists together
  again, and another one adds up what users contribute. The driver gets an exact sum for every
  candidate, under the hash of its text; the texts of those that pass come at the end.

A candidate's key is the 64-bit hash of its text, and a number that tells apart the texts that have
the same hash, of which there are hardly any. So a weight belongs to a text: if somebody adds rows
between two rounds, no weight goes to another candidate.

Needs pyspark (pip install "bayesgram[spark]"). How to run it on a cluster: `bayesgram docs spark`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from bayesgram.arrays import Integers, Singles
from bayesgram.io import no_rows_error
from bayesgram.io.atomic import spill_folder
from bayesgram.io.records import Columns
from bayesgram.io.spill import SpillableArrays, spans
from bayesgram.private.candidates import (
    Candidates,
    ContributionBound,
    sort_candidates,
)
from bayesgram.public.candidate_weights import PublicTextModel
from bayesgram.spark import tasks
from bayesgram.spark.frames import (
    TextFrame,
    collect_bad_rows,
    map_batches,
    persist,
    text_from_columns,
    union_all,
    unpersist,
)
from bayesgram.spark.session import run_spark
from bayesgram.spark.sharing import Shared, share

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# Candidates of a block: the driver draws the noise of one block at a time, and keeps the others on
# disk. Not measured.
BLOCK_CANDIDATES = 1 << 22

KEY_ROWS = "hash long, tie int"
WEIGHT_ROWS = f"{KEY_ROWS}, weight double"
WEIGHT_SCHEMA = pa.schema([("hash", pa.int64()), ("tie", pa.int32()), ("weight", pa.float64())])


@dataclass(frozen=True, eq=False, repr=False)
class SparkPrivateText:
    """Private text that Spark can reach; a user may be in all of it."""

    texts: Sequence[TextFrame]
    skip_bad_rows: bool = False

    @classmethod
    def from_dataframe(
        cls,
        df: "DataFrame",
        *,
        user_column: str = "user",
        text_column: str = "text",
        skip_bad_rows: bool = False,
    ) -> "SparkPrivateText":
        """Return the text of a DataFrame, for `bayesgram.discover`.

        Args:
            df: The DataFrame.
            user_column: The column of user ids.
            text_column: The column of text.
            skip_bad_rows: Whether rows that can't be used are skipped, not an error.
        """
        return cls([text_from_columns(df, Columns(text_column, user_column))], skip_bad_rows)

    def sums(
        self, public: PublicTextModel, orders: Sequence[int], bound: ContributionBound
    ) -> Candidates:
        """Add up all users' candidates exactly, in one round, where the text is."""
        query = tasks.DiscoveryQuery(public.to_broadcast(), tuple(orders), bound)
        shared = share(self.texts[0].frame.sparkSession, query)
        sums = persist(_sum_candidates(_group_by_user(self.texts), shared))
        try:
            notes = sums.filter("order = 0").select("ngram", "sum")
            bad, rows_read = collect_bad_rows(notes, skip=self.skip_bad_rows)
            if not rows_read:
                raise no_rows_error(bad)
            above_floor = sums.filter(f"order > 0 and sum >= {bound.min_sum}").select(
                "ngram", "sum"
            )
            table = run_spark(above_floor.toArrow)
        finally:
            unpersist(sums)
        ngrams = table["ngram"].cast(pa.large_string()).combine_chunks()
        return sort_candidates([(ngrams, table["sum"].to_numpy())], public.vocabulary.tokenizer)

    @contextmanager
    def lists(
        self, public: PublicTextModel, orders: Sequence[int], max_candidates: int
    ) -> "Iterator[SparkLists]":
        """List all users' candidates where the text is, for several rounds."""
        bound = ContributionBound(max_candidates, min_units=0, min_sum=0)
        query = tasks.DiscoveryQuery(public.to_broadcast(), tuple(orders), bound)
        spark = self.texts[0].frame.sparkSession
        lists = persist(_list_candidates(_group_by_user(self.texts), share(spark, query)))
        try:
            notes = lists.filter("order = 0").select("user", "hash")
            bad, rows_read = collect_bad_rows(notes, skip=self.skip_bad_rows)
            if not rows_read:
                raise no_rows_error(bad)
            with spill_folder() as scratch:
                yield SparkLists.from_frame(lists.filter("order > 0"), scratch)
        finally:
            unpersist(lists)


class SparkLists:
    """All users' lists of candidates, in a DataFrame. Private.

    Args:
        frame: Rows (user, place, hash, tie, order, ngram, log_weight).
        hashes: The hash of each candidate, as `sortable_hashes` gives it, in ascending order.
        log_weights: The log weight of each candidate, by public text.
        scratch: A folder for what rounds write to disk.
    """

    def __init__(
        self, frame: "DataFrame", hashes: Integers, log_weights: Singles, scratch: Path
    ) -> None:
        self.frame = frame
        self._hashes = hashes
        self._log_weights = log_weights
        self._scratch = scratch
        # The first number of each block, and the last plus 1.
        self.blocks = list(spans(hashes.size, BLOCK_CANDIDATES)) or [(0, 0)]

    @classmethod
    def from_frame(cls, frame: "DataFrame", scratch: Path) -> "SparkLists":
        """Number the candidates of lists in order of their keys: whoever has them."""
        candidates = frame.groupBy("hash", "tie").max("log_weight")
        table = run_spark(candidates.toDF("hash", "tie", "log_weight").toArrow)
        table = table.sort_by([("hash", "ascending"), ("tie", "ascending")])
        return cls(frame, table["hash"].to_numpy(), table["log_weight"].to_numpy(), scratch)

    def __repr__(self) -> str:
        return "SparkLists(private)"

    def log_weights(self, block: int) -> Singles:
        """Return the log weights of a block's candidates, by public text."""
        first, last = self.blocks[block]
        return self._log_weights[first:last]

    def new_array_blocks(self, name: str) -> SpillableArrays:
        """Return room for one array a block: on disk, if there are several."""
        return SpillableArrays(self._scratch / name if len(self.blocks) > 1 else None)

    def start_rounds(self) -> "SparkRounds":
        """Return the lists as they are before the first round."""
        return SparkRounds(self)

    def ngrams(self, chosen: Integers) -> pa.LargeStringArray:
        """Return the texts of some candidates, whose numbers are in ascending order."""
        if not chosen.size:
            return pa.array([], pa.large_string())
        spark = self.frame.sparkSession
        keys = pa.table(self.keys(chosen))
        wanted = run_spark(lambda: spark.createDataFrame(keys, KEY_ROWS))
        texts = self.frame.select("hash", "tie", "ngram").join(wanted, ["hash", "tie"]).distinct()
        table = run_spark(texts.toArrow)
        order = np.argsort(self.find(table), kind="stable")
        return table["ngram"].combine_chunks().cast(pa.large_string()).take(pa.array(order))

    def keys(self, numbers: Integers) -> "dict[str, pa.Array[Any]]":
        """Return the hash of each candidate, and its place among those of the same hash."""
        hashes = self._hashes[numbers]
        ties = numbers - np.searchsorted(self._hashes, hashes)
        return {"hash": pa.array(hashes), "tie": pa.array(ties.astype(np.int32))}

    def find(self, keys: pa.Table) -> Integers:
        """Return the numbers of candidates by their keys."""
        firsts = np.searchsorted(self._hashes, keys["hash"].to_numpy())
        numbers: Integers = firsts + keys["tie"].to_numpy()
        return numbers


class SparkRounds:
    """All users' lists while rounds go on, without the candidates that were dropped on the way."""

    def __init__(self, lists: SparkLists) -> None:
        self._lists = lists
        self._remaining = np.ones(lists.blocks[-1][1], np.bool_)

    def sums(self, weights: SpillableArrays) -> Iterator[Integers]:
        """Run one round: yield what all users contribute to the candidates, block by block.

        Formal guarantee: adding or removing one user moves the sums of a round by at most B = UNITS
        in L2, exactly, in integers.

        All weights have been read when the first sums come, so they may be replaced then.

        Args:
            weights: Of the candidates of each block. One of weight 0 is dropped from all lists: it
                gets nothing in this round and in those that follow.
        """
        lists = self._lists
        sums = np.zeros(self._remaining.size, np.int64)
        table = self._drop(weights)
        if len(table):
            spark = lists.frame.sparkSession
            weighted = run_spark(lambda: spark.createDataFrame(table, WEIGHT_ROWS))
            kept = lists.frame.select("user", "place", "hash", "tie").join(
                weighted, ["hash", "tie"]
            )
            users = kept.repartition("user").sortWithinPartitions("user", "place")
            units = map_batches(users, tasks.sum_round_units, tasks.ROUND_ROWS)
            summed = units.groupBy("hash", "tie").sum("count").toDF("hash", "tie", "sum")
            answers = run_spark(summed.toArrow)
            sums[lists.find(answers)] = answers["sum"].to_numpy()
        return (sums[first:last] for first, last in lists.blocks)

    def _drop(self, weights: SpillableArrays) -> pa.Table:
        """Drop candidates of weight 0; return the keys and weights of those that remain."""
        tables = [WEIGHT_SCHEMA.empty_table()]
        for block, (first, last) in enumerate(self._lists.blocks):
            block_weights = weights[block]
            self._remaining[first:last] &= block_weights > 0
            kept = np.flatnonzero(self._remaining[first:last])
            columns = self._lists.keys(first + kept) | {"weight": pa.array(block_weights[kept])}
            tables.append(pa.table(columns, WEIGHT_SCHEMA))
        return pa.concat_tables(tables)


def _list_candidates(users: "DataFrame", query: Shared[tasks.DiscoveryQuery]) -> "DataFrame":
    """Return the lists of all users, and the notes of the tasks.

    The second shuffle: texts with the same hash meet, and are told apart.
    """
    lists = map_batches(
        users, lambda batches: tasks.list_user_candidates(batches, query.value), tasks.LIST_ROWS
    )
    return add_ties(lists)


def add_ties(lists: "DataFrame") -> "DataFrame":
    """Number the texts that have the same hash, from 0, in a column `tie`."""
    same_hash = "partition by `order` > 0, hash order by `order`, ngram"
    return lists.selectExpr("*", f"cast(dense_rank() over ({same_hash}) - 1 as int) tie")


def _group_by_user(texts: Sequence[TextFrame]) -> "DataFrame":
    """Run the first shuffle: all text of a user in one partition, side by side."""

    def task(read: tasks.Read) -> Callable[[tasks.Batches], tasks.Batches]:
        return lambda batches: tasks.emit_texts(batches, read)

    rows = union_all([map_batches(text.frame, task(text.read), tasks.TEXT_ROWS) for text in texts])
    return rows.repartition("user").sortWithinPartitions("user")


def _sum_candidates(users: "DataFrame", query: Shared[tasks.DiscoveryQuery]) -> "DataFrame":
    """Run the second shuffle: the sum of each candidate over users, and the notes of the tasks."""
    contributions = map_batches(
        users, lambda batches: tasks.sum_user_candidates(batches, query.value), tasks.NGRAM_ROWS
    )
    return contributions.groupBy("order", "ngram").sum("count").toDF("order", "ngram", "sum")
