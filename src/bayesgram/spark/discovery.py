"""Discovery on Spark, in one round: for private text that outgrows one machine.

In:  a Spark DataFrame, or files.   Out: text that `bayesgram.discover` takes; it finds, byte for byte, what it finds on
one machine with the same noise. One shuffle brings a user's text together, and a second one what all users give to a
candidate; the driver sees the candidates whose sums reach the floor, never a user, and draws the noise.

Needs pyspark (pip install "bayesgram[spark]"). How to run it on a cluster: docs/spark.md.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bayesgram.errors import Argument, UsageError
from bayesgram.io import no_rows_error
from bayesgram.io.records import Columns
from bayesgram.private.candidates import CandidateLists, Candidates, ContributionBound, in_order
from bayesgram.public.candidate_weights import PublicTextModel
from bayesgram.spark import tasks
from bayesgram.spark.frames import TextFrame, bad_rows, kept, mapped, text_from_columns, union
from bayesgram.spark.session import run_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, eq=False, repr=False)
class SparkPrivateText:
    """Private text that Spark can reach; a user may be in all of it."""

    texts: Sequence[TextFrame]
    skip_bad_rows: bool = False

    @classmethod
    def of(
        cls,
        df: "DataFrame",
        *,
        user_column: str = "user",
        text_column: str = "text",
        skip_bad_rows: bool = False,
    ) -> "SparkPrivateText":
        """The text of a DataFrame, for `bayesgram.discover(..., rounds=1)`."""
        return cls([text_from_columns(df, Columns(text_column, user_column))], skip_bad_rows)

    def sums(
        self, public: PublicTextModel, orders: Sequence[int], bound: ContributionBound
    ) -> Candidates:
        """One round: all users' candidates, added up exactly, where they are."""
        context = self.texts[0].frame.sparkSession.sparkContext
        asked = tasks.DiscoveryQuery(public.to_broadcast(), tuple(orders), bound)
        sent = run_spark(lambda: context.broadcast(asked))
        summed = kept(_summed(_by_user(self.texts), sent))
        try:
            notes = summed.filter("order = 0").select("ngram", "sum")
            bad, rows_read = bad_rows(notes, skip=self.skip_bad_rows)
            if not rows_read:
                raise no_rows_error(bad)
            enough = summed.filter(f"order > 0 and sum >= {bound.floor}").select("ngram", "sum")
            found = run_spark(enough.toArrow)
        finally:
            summed.unpersist()
            sent.destroy()
        ngrams = found["ngram"].cast(pa.large_string()).combine_chunks()
        return in_order([(ngrams, found["sum"].to_numpy())])

    def lists(
        self,
        public: PublicTextModel,  # noqa: ARG002
        orders: Sequence[int],  # noqa: ARG002
        most: int,  # noqa: ARG002
    ) -> AbstractContextManager[CandidateLists]:
        """Several rounds: not on a cluster."""
        raise _only_one_round()


def check_rounds(rounds: int) -> None:
    """Refuse several rounds, which would keep all users' lists between them."""
    if rounds > 1:
        raise _only_one_round()


def _only_one_round() -> UsageError:
    return UsageError(
        "on Spark users are asked in one round; say ",
        Argument("rounds", "1"),
        ", or use ",
        Argument("engine", "local"),
        ".",
    )


def _by_user(texts: Sequence[TextFrame]) -> "DataFrame":
    """The first shuffle: all text of a user in one partition, side by side."""

    def task(read: tasks.Read) -> Callable[[tasks.Batches], tasks.Batches]:
        return lambda batches: tasks.emit_texts(batches, read)

    rows = union([mapped(text.frame, task(text.read), tasks.TEXT_ROWS) for text in texts])
    return rows.repartition("user").sortWithinPartitions("user")


def _summed(users: "DataFrame", asked: Any) -> "DataFrame":  # noqa: ANN401 - a Broadcast of Asked
    """The second: what users give to each candidate, together; and the notes of the tasks."""
    given = mapped(users, lambda batches: tasks.candidates(batches, asked.value), tasks.NGRAM_ROWS)
    return given.groupBy("order", "ngram").sum("count").toDF("order", "ngram", "sum")
