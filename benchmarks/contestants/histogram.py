"""A noisy histogram with per-user bounds: the peers that know users.

    python histogram.py opendp-laplace|opendp-gaussian|pipelinedp-laplace|pipelinedp-gaussian COUNTS VOCAB OUT

COUNTS: Parquet with user, ngram, count. At most 10 n-grams a user and at most 1 of each count, over
public keys: the n-grams of VOCAB. OUT: Parquet with ngram and count.
"""

# ruff: noqa: PLC0415 - each peer lives in an environment of its own
import argparse
import operator
from typing import Any

MOST_NGRAMS = 10
MOST_OF_ONE = 1
EPSILON, DELTA = 1.0, 1e-7
RHO = 1 / 64  # about the same in OpenDP's measure for Gaussian noise
MOST_USERS = 10_000_000  # OpenDP asks for a public bound on the rows of an n-gram


def opendp(noise: str, path: str, vocab: str, out: str) -> None:
    """OpenDP's Polars: truncate, clip, group, noise."""
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    rows = pl.scan_parquet(path).select(
        "user", pl.col("ngram").cast(pl.Int64), pl.col("count").cast(pl.Int64)
    )
    size = pl.scan_parquet(vocab).select(pl.len()).collect().item()
    loss = dp.loss_of(epsilon=EPSILON) if noise == "laplace" else dp.loss_of(rho=RHO)
    context = dp.Context.compositor(
        data=rows,
        privacy_unit=dp.unit_of(contributions=1, identifier="user"),
        privacy_loss=loss,
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=["ngram"], max_length=MOST_USERS)],
    )
    keys = pl.LazyFrame({"ngram": pl.Series(range(size), dtype=pl.Int64)})
    query = (
        context.query()
        .truncate_per_group(1, by=["ngram"])
        .truncate_num_groups(MOST_NGRAMS, by=["ngram"], keep="first")
        .group_by("ngram")
        .agg(pl.col("count").fill_null(0).dp.sum((0, MOST_OF_ONE)))
        .with_keys(keys)
    )
    query.release().collect().write_parquet(out)


def pipelinedp(noise: str, path: str, vocab: str, out: str) -> None:
    """PipelineDP on its local backend, which is plain Python."""
    import pipeline_dp as pdp
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    rows: list[Any] = list(
        zip(*(table[name].to_pylist() for name in ("user", "ngram", "count")), strict=True)
    )
    size = pq.ParquetFile(vocab).metadata.num_rows
    delta = 0.0 if noise == "laplace" else DELTA
    accountant = pdp.NaiveBudgetAccountant(total_epsilon=EPSILON, total_delta=delta)
    engine = pdp.DPEngine(accountant, pdp.LocalBackend())
    bounds = pdp.AggregateParams(
        metrics=[pdp.Metrics.SUM],
        noise_kind=pdp.NoiseKind.LAPLACE if noise == "laplace" else pdp.NoiseKind.GAUSSIAN,
        max_partitions_contributed=MOST_NGRAMS,
        max_contributions_per_partition=1,
        min_value=0,
        max_value=MOST_OF_ONE,
    )
    columns = [operator.itemgetter(at) for at in range(3)]
    read = pdp.DataExtractors(
        privacy_id_extractor=columns[0], partition_extractor=columns[1], value_extractor=columns[2]
    )
    result = engine.aggregate(rows, bounds, read, public_partitions=list(range(size)))
    accountant.compute_budgets()
    found = list(result)
    counts = [float(metrics.sum) for _, metrics in found]
    pq.write_table(pa.table({"ngram": [key for key, _ in found], "count": counts}), out)


def main() -> None:
    """Release one histogram."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "peer",
        choices=[f"{p}-{n}" for p in ("opendp", "pipelinedp") for n in ("laplace", "gaussian")],
    )
    parser.add_argument("counts")
    parser.add_argument("vocab")
    parser.add_argument("out")
    options = parser.parse_args()
    peer, noise = options.peer.split("-")
    {"opendp": opendp, "pipelinedp": pipelinedp}[peer](
        noise, options.counts, options.vocab, options.out
    )


if __name__ == "__main__":
    main()
