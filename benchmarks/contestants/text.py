"""The peers that read text: polars, DuckDB, collections.Counter, scikit-learn.

    python text.py vocabulary PEER TEXT OUT [--share 0.1]
    python text.py counts PEER TEXT OUT --vocab VOCAB [--share 0.1]
    python text.py compare FIRST SECOND [--vocab VOCAB]
    python text.py read TEXT

TEXT: Parquet with user and text. OUT: Parquet with ngram and count, or user, ngram (its row in
VOCAB) and count. `compare` prints how much of the second file the first one has, with the same
count; `read` reads both columns with Arrow and does nothing with them. Libraries are loaded by the
contestant that needs them, and that is part of its time, as it is of ours.
"""

# ruff: noqa: PLC0415, S608
import argparse
import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

SIZE = 50_000
LETTERS = r"[\p{L}\p{N}][\p{L}\p{N}\p{M}]*"
WORD = rf"{LETTERS}(?:['’]{LETTERS})*"
ENDS = ".!?;:…\n"
PYTHON_WORD = r"[^\W_]+(?:['’][^\W_]+)*"  # what `re` has instead of \p{L}


def polars_words(path: str, *keep: str) -> Any:
    """Three words in a row, as categories (32-bit numbers), wherever no sentence ends between them."""
    import polars as pl

    found = (pl.col("text") + "\n").str.to_lowercase().str.extract_all(rf"{WORD}|[{ENDS}]")
    tokens = pl.scan_parquet(path).select(*keep, word=found).explode("word")
    tokens = tokens.select(
        *keep, pl.col("word").cast(pl.Categorical), end=pl.col("word").is_in(list(ENDS))
    )
    word, end = pl.col("word"), pl.col("end")
    windows = tokens.select(
        *keep, a=word, b=word.shift(-1), c=word.shift(-2), cut=end | end.shift(-1) | end.shift(-2)
    )
    return windows.filter(~pl.col("cut"))


def vocabulary_polars(path: str, out: str, _: float) -> None:
    """Streaming; the strings are made for the winners only."""
    import polars as pl

    top = polars_words(path).group_by("a", "b", "c").len("count").top_k(SIZE, by="count")
    strings = [pl.col(name).cast(pl.String) for name in "abc"]
    top.select(ngram=pl.concat_str(strings, separator=" "), count="count").collect(
        engine="streaming"
    ).write_parquet(out)


def counts_polars(path: str, out: str, _: float, vocab: str) -> None:
    """A join with the vocabulary on three categories, then a group by user and n-gram."""
    import polars as pl

    words = pl.col("ngram").str.split(" ")
    parts = {name: words.list.get(at).cast(pl.Categorical) for at, name in enumerate("abc")}
    known = pl.scan_parquet(vocab).select(**parts).with_row_index("ngram")
    found = polars_words(path, "user").join(known, on=["a", "b", "c"])
    found.group_by("user", "ngram").len("count").sink_parquet(out)


def polars_strings(path: str, *keep: str) -> Any:
    """The same n-grams as strings: the query that one writes first."""
    import polars as pl

    found = (pl.col("text") + "\n").str.to_lowercase().str.extract_all(rf"{WORD}|[{ENDS}]")
    tokens = pl.scan_parquet(path).select(*keep, word=found).explode("word")
    word, end = pl.col("word"), pl.col("word").is_in(list(ENDS))
    ngram = pl.concat_str([word, word.shift(-1), word.shift(-2)], separator=" ")
    return tokens.select(*keep, ngram=ngram, cut=end | end.shift(-1) | end.shift(-2)).filter(
        ~pl.col("cut")
    )


def vocabulary_polars_strings(path: str, out: str, _: float) -> None:
    """Count the strings with the default engine."""
    polars_strings(path).group_by("ngram").len("count").top_k(
        SIZE, by="count"
    ).collect().write_parquet(out)


def counts_polars_strings(path: str, out: str, _: float, vocab: str) -> None:
    """A join with the vocabulary on the strings."""
    import polars as pl

    known = pl.scan_parquet(vocab).select("ngram").with_row_index("id")
    found = (
        polars_strings(path, "user")
        .join(known, on="ngram")
        .group_by("user", pl.col("id").alias("ngram"))
    )
    found.len("count").collect().write_parquet(out)


def duckdb_words(path: str, keep: str = "") -> str:
    """SQL for three words in a row as a, b, c."""
    word = WORD.replace("'", "''")
    return f"""
        WITH sentences AS (SELECT {keep} unnest(string_split_regex(lower(text), '[{ENDS}]+')) AS s FROM '{path}'),
        words AS (SELECT {keep} regexp_extract_all(s, '{word}') AS w FROM sentences),
        windows AS (SELECT {keep} unnest(w[:-3]) AS a, unnest(w[2:-2]) AS b, unnest(w[3:]) AS c
                    FROM words WHERE len(w) > 2)"""


def vocabulary_duckdb(path: str, out: str, _: float) -> None:
    """One statement; a window never crosses a row, so lists are enough."""
    import duckdb

    top = f"""{duckdb_words(path)} SELECT a || ' ' || b || ' ' || c AS ngram, count(*) AS count
        FROM windows GROUP BY a, b, c ORDER BY count DESC LIMIT {SIZE}"""
    duckdb.sql(f"COPY ({top}) TO '{out}' (FORMAT parquet)")


def counts_duckdb(path: str, out: str, _: float, vocab: str) -> None:
    """One statement with a hash join."""
    import duckdb

    known = (
        f"SELECT file_row_number AS id, ngram FROM read_parquet('{vocab}', file_row_number = true)"
    )
    found = f"""{duckdb_words(path, '"user",')}, known AS ({known}) SELECT "user", id AS ngram, count(*) AS count
        FROM windows JOIN known ON known.ngram = a || ' ' || b || ' ' || c GROUP BY "user", id"""
    duckdb.sql(f"COPY ({found}) TO '{out}' (FORMAT parquet)")


def column(path: str, name: str, share: float) -> list[str]:
    """A column of the first part of the rows."""
    import pyarrow.parquet as pq

    table = pq.read_table(path, columns=[name])
    values: list[str] = table.slice(0, int(table.num_rows * share))[name].to_pylist()
    return values


def vocabulary_counter(path: str, out: str, share: float) -> None:
    """What one writes in five lines of Python."""
    cut, word = re.compile(f"[{ENDS}]+"), re.compile(PYTHON_WORD)
    counter: Counter[tuple[str, str, str]] = Counter()
    for text in column(path, "text", share):
        for sentence in cut.split(text.lower()):
            words = word.findall(sentence)
            counter.update(zip(words, words[1:], words[2:], strict=False))
    top = counter.most_common(SIZE)
    write(out, ngram=[" ".join(words) for words, _ in top], count=[count for _, count in top])


def vectorizer(**options: Any) -> Any:
    """Its own analyzer, with our words."""
    from sklearn.feature_extraction.text import CountVectorizer

    return CountVectorizer(ngram_range=(3, 3), token_pattern=f"(?u){PYTHON_WORD}", **options)


def vocabulary_sklearn(path: str, out: str, share: float) -> None:
    """max_features keeps the most frequent."""
    import numpy as np

    cut = vectorizer(max_features=SIZE)
    total = cut.fit_transform(column(path, "text", share)).sum(axis=0)
    write(out, ngram=cut.get_feature_names_out().tolist(), count=np.asarray(total).ravel().tolist())


def counts_sklearn(path: str, out: str, share: float, vocab: str) -> None:
    """Transform, then add up each user's rows by a matrix product."""
    import numpy as np
    from scipy.sparse import csr_matrix

    cut = vectorizer(vocabulary=column(vocab, "ngram", 1.0))
    rows = cut.transform(column(path, "text", share))
    names, codes = np.unique(np.array(column(path, "user", share)), return_inverse=True)
    owners = csr_matrix((np.ones(codes.size, np.int64), (codes, np.arange(codes.size))))
    found = (owners @ rows).tocoo()
    write(out, user=names[found.row], ngram=found.col, count=found.data)


def write(path: str, **columns: Any) -> None:
    """A Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path)


def read(path: str) -> None:
    """A floor for all that is done in a process of Python."""
    import pyarrow.parquet as pq

    pq.read_table(path, columns=["user", "text"])


def compare(first: str, second: str) -> dict[str, float]:
    """How many of the second file's rows the first has with the same count, and with another one."""
    import polars as pl

    ours, theirs = pl.read_parquet(first), pl.read_parquet(second)
    keys = [name for name in ("user", "ngram") if name in ours.columns]
    kinds = [
        pl.col(name).cast(pl.String if name == "user" or len(keys) == 1 else pl.Int64)
        for name in keys
    ]
    both = theirs.with_columns(kinds).join(ours.with_columns(kinds), on=keys, how="left")
    same = both["count"].cast(pl.Int64) == both["count_right"].cast(pl.Int64)
    return {
        "rows": theirs.height,
        "found": both["count_right"].is_not_null().mean(),
        "same": same.fill_null(False).mean(),
    }


PEERS: dict[str, Callable[..., None]] = {
    "vocabulary polars": vocabulary_polars,
    "vocabulary polars-strings": vocabulary_polars_strings,
    "vocabulary duckdb": vocabulary_duckdb,
    "vocabulary counter": vocabulary_counter,
    "vocabulary sklearn": vocabulary_sklearn,
    "counts polars": counts_polars,
    "counts polars-strings": counts_polars_strings,
    "counts duckdb": counts_duckdb,
    "counts sklearn": counts_sklearn,
}


def main() -> None:
    """Do one thing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", choices=["vocabulary", "counts", "compare", "read"])
    parser.add_argument("names", nargs="+")
    parser.add_argument("--vocab")
    parser.add_argument("--share", type=float, default=1.0)
    options = parser.parse_args()
    if options.work == "compare":
        print(json.dumps(compare(*options.names)))
        return
    if options.work == "read":
        read(*options.names)
        return
    peer, path, out = options.names
    vocab = {"vocab": options.vocab} if options.work == "counts" else {}
    PEERS[f"{options.work} {peer}"](path, out, options.share, **vocab)


if __name__ == "__main__":
    main()
