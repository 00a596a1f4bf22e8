"""Discovery on Spark, in one round: for private text that outgrows one machine.

`SparkPrivateText`, of a DataFrame or of files, is text that `bayesgram.discover` takes; it finds,
byte for byte, what it finds on one machine with the same noise. One shuffle brings a user's text
together, and a second one what all users contribute to a candidate. The driver sees the candidates
whose sums reach the floor, never a user, and draws the noise.

Needs pyspark (pip install "bayesgram[spark]"). How to run it on a cluster: `bayesgram docs spark`.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from bayesgram.errors import Argument, UsageError
from bayesgram.io import no_rows_error
from bayesgram.io.records import Columns
from bayesgram.private.candidates import (
    CandidateLists,
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
)
from bayesgram.spark.session import run_spark

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import DataFrame


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
        """Return the text of a DataFrame, for `bayesgram.discover(..., rounds=1)`.

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
        context = self.texts[0].frame.sparkSession.sparkContext
        query = tasks.DiscoveryQuery(public.to_broadcast(), tuple(orders), bound)
        broadcast = run_spark(lambda: context.broadcast(query))
        sums = persist(_sum_candidates(_group_by_user(self.texts), broadcast))
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
            sums.unpersist()
            broadcast.destroy()
        ngrams = table["ngram"].cast(pa.large_string()).combine_chunks()
        return sort_candidates([(ngrams, table["sum"].to_numpy())], public.vocabulary.tokenizer)

    def lists(
        self,
        public: PublicTextModel,  # noqa: ARG002
        orders: Sequence[int],  # noqa: ARG002
        max_candidates: int,  # noqa: ARG002
    ) -> AbstractContextManager[CandidateLists]:
        """Refuse several rounds, which a cluster does not run."""
        raise _one_round_error()


def check_rounds(rounds: int) -> None:
    """Refuse several rounds, which would keep all users' lists between them."""
    if rounds > 1:
        raise _one_round_error()


def _one_round_error() -> UsageError:
    return UsageError(
        "on Spark users are asked in one round; say ",
        Argument("rounds", "1"),
        ", or use ",
        Argument("engine", "local"),
        ".",
    )


def _group_by_user(texts: Sequence[TextFrame]) -> "DataFrame":
    """Run the first shuffle: all text of a user in one partition, side by side."""

    def task(read: tasks.Read) -> Callable[[tasks.Batches], tasks.Batches]:
        return lambda batches: tasks.emit_texts(batches, read)

    rows = union_all([map_batches(text.frame, task(text.read), tasks.TEXT_ROWS) for text in texts])
    return rows.repartition("user").sortWithinPartitions("user")


def _sum_candidates(users: "DataFrame", query: "Broadcast[tasks.DiscoveryQuery]") -> "DataFrame":
    """Run the second shuffle: the sum of each candidate over users, and the notes of the tasks."""
    contributions = map_batches(
        users, lambda batches: tasks.sum_user_candidates(batches, query.value), tasks.NGRAM_ROWS
    )
    return contributions.groupBy("order", "ngram").sum("count").toDF("order", "ngram", "sum")
