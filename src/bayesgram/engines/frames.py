"""What Spark does with a DataFrame, as we need it: tasks over Arrow batches, and what is kept and noted of them.

In:  a DataFrame.   Out: another one, or what its tasks noted.   Does not know what is counted.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from bayesgram.engines import tasks
from bayesgram.engines.session import explained, without_warnings
from bayesgram.errors import BayesgramError
from bayesgram.files import BadRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_parquet(spark: "SparkSession", paths: Sequence[str], name: str) -> "DataFrame":
    """Tables as Spark reads them; what fails is an error of ours, which begins with `name`."""
    return explained(lambda: spark.read.parquet(*paths), f"{name}: ")


def mapped(df: "DataFrame", task: Callable[[tasks.Batches], tasks.Batches], schema: str) -> "DataFrame":
    """What tasks make of their batches of rows."""
    with without_warnings():
        return df.mapInArrow(task, schema)


def union(frames: Sequence["DataFrame"]) -> "DataFrame":
    """The rows of all of them."""
    return reduce(lambda first, second: first.unionAll(second), frames)


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
