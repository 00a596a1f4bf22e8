"""What the contestants work on.

    python data.py text OUT --megabytes 10            made-up messages: Parquet with user and text
    python data.py zipf OUT --megabytes 10            random words by Zipf's law: most of their trigrams are new
    python data.py people OUT --users 100000          a folder: messages of so many made-up users, and public text
    python data.py copy OUT PATH --megabytes 10       (the beginning of) a Parquet file of somebody's text
    python data.py lines OUT TEXT                     the same text as plain lines, for wc
    python data.py crowd OUT --users 100000           counts of made-up users: vocab.parquet, matrix.npz
    python data.py given OUT COUNTS VOCAB             the same from counts that are there
    python data.py counts OUT CROWD                   those counts as a counts folder
    python data.py drawn OUT --users 100000           vocab.parquet and a counts folder by Zipf's law, in little memory

Prints a line of JSON that says how much there is.
"""

import argparse
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bayesgram.arrays import Integers
from bayesgram.private.counts import UserCounts, build_user_counts, order_by_hash, unit_counts
from bayesgram.private.counts_io import load_counts, open_counts_writer, save_counts
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.synthetic.crowd import Crowd
from bayesgram.synthetic.population import Population
from bayesgram.text.strings import hash_rows
from bayesgram.text.tokenizer import Tokenizer, buffers

WORDS, ROWS, LENGTH = 1_000_000, 4096, 24  # different words; rows of a batch, words of a row
NGRAMS, DRAWS, BATCH_SIZE = (
    50_000,
    47.6,
    20_000,
)  # n-grams; draws of a user, 45 of them different; users of a block
SCHEMA = pa.schema({"user": pa.string(), "text": pa.string()})


def text(options: argparse.Namespace) -> dict[str, Any]:
    """Messages of a made-up population, until there is enough."""
    people = Population(users=10_000_000, seed=7, batch_users=2_000)
    return _write(options.out, people.messages(), options.megabytes)


def zipf(options: argparse.Namespace) -> dict[str, Any]:
    """Words that follow each other by chance."""
    return _write(options.out, _random_texts(), options.megabytes)


def _random_texts() -> Iterator[pa.RecordBatch]:
    rng = np.random.default_rng(7)
    letters = rng.integers(ord("a"), ord("z") + 1, (WORDS, 9), dtype=np.uint8)
    words = pa.array(
        [
            bytes(word[:size]).decode()
            for word, size in zip(letters, rng.integers(2, 10, WORDS), strict=True)
        ]
    )
    chances = np.cumsum(1 / np.arange(3, WORDS + 3))
    offsets = np.arange(0, ROWS * LENGTH + 1, LENGTH, dtype=np.int32)
    for first in range(0, 10**9, ROWS):
        drawn = np.searchsorted(chances, rng.random(ROWS * LENGTH) * chances[-1])
        lists = pa.ListArray.from_arrays(offsets, words.take(pa.array(drawn)))
        users = pa.array(np.arange(first, first + ROWS) // 4).cast(pa.string())
        yield pa.record_batch([users, pc.binary_join(lists, " ")], schema=SCHEMA)


def people(options: argparse.Namespace) -> dict[str, Any]:
    """All messages of so many users in one file, and a million public sentences in another."""
    crowd = Population(users=options.users, seed=7, batch_users=2_000)
    options.out.mkdir(exist_ok=True)
    with pq.ParquetWriter(
        options.out / "public.parquet", pa.schema({"text": pa.string()})
    ) as writer:
        for batch in crowd.public_text(1_000_000):
            writer.write_batch(pa.record_batch([batch["text"].cast(pa.string())], names=["text"]))
    said = _write(options.out / "messages.parquet", crowd.messages(), float("inf"))
    return {"users": options.users, **said}


def copy(options: argparse.Namespace) -> dict[str, Any]:
    """The same columns from a file that is there."""
    return _write(options.out, _batches(options), options.megabytes)


def _batches(options: argparse.Namespace) -> Iterator[pa.RecordBatch]:
    file = pq.ParquetFile(options.inputs[0])
    for batch in file.iter_batches(16_384, columns=[options.user_column, options.text_column]):
        columns = [
            batch[name].cast(pa.string()) for name in (options.user_column, options.text_column)
        ]
        yield pa.record_batch(columns, schema=SCHEMA)


def _write(out: Path, batches: Iterable[pa.RecordBatch], megabytes: float) -> dict[str, Any]:
    size = rows = 0
    with pq.ParquetWriter(out, SCHEMA) as writer:
        for batch in batches:
            writer.write_batch(batch)
            size += pc.sum(pc.binary_length(batch["text"])).as_py() or 0
            rows += batch.num_rows
            if size >= megabytes * 1e6:
                break
    return {"megabytes": size / 1e6, "rows": rows}


def lines(options: argparse.Namespace) -> dict[str, Any]:
    """One text a line."""
    with options.out.open("w", encoding="utf-8") as out:
        for batch in pq.ParquetFile(options.inputs[0]).iter_batches(16_384, columns=["text"]):
            out.writelines(f"{text}\n" for text in batch["text"].to_pylist())
    return {}


def crowd(options: argparse.Namespace) -> dict[str, Any]:
    """Straight to counts, with the vocabulary that they are over."""
    people = Crowd(users=options.users)
    return _matrix(options.out, people.counts(), people.vocabulary)


def given(options: argparse.Namespace) -> dict[str, Any]:
    """Counts and a vocabulary from files."""
    vocabulary = Vocabulary.load(options.inputs[1])
    return _matrix(
        options.out,
        load_counts(options.inputs[0], vocabulary_size=len(vocabulary)).listed_only,
        vocabulary,
    )


def _matrix(out: Path, counts: UserCounts, vocabulary: Vocabulary) -> dict[str, Any]:
    out.mkdir(parents=True, exist_ok=True)
    vocabulary.save(out / "vocab.parquet", force=True)
    np.savez(out / "matrix.npz", starts=counts.starts, ngrams=counts.ngrams, counts=counts.counts)
    return {
        "users": len(counts.users),
        "nonzeros": int(counts.ngrams.size),
        "ngrams": len(vocabulary),
    }


def load(crowd: Path) -> tuple[UserCounts, Vocabulary]:
    """A matrix back; users are numbered."""
    vocabulary = Vocabulary.load(crowd / "vocab.parquet")
    with np.load(crowd / "matrix.npz") as file:
        starts, ngrams, counts = file["starts"], file["ngrams"], file["counts"]
    names = pa.array(np.arange(starts.size - 1)).cast(pa.large_string()).cast(pa.large_binary())
    return UserCounts(
        names, starts, ngrams, counts, len(vocabulary), vocabulary.fingerprint
    ), vocabulary


def counts(options: argparse.Namespace) -> dict[str, Any]:
    """A counts folder of the first so many users."""
    matrix, vocabulary = load(Path(options.inputs[0]))
    users = min(options.users, len(matrix.users))
    end = int(matrix.starts[users])
    names, starts = matrix.users[:users], matrix.starts[: users + 1]
    cut = UserCounts(
        names,
        starts,
        matrix.ngrams[:end],
        matrix.counts[:end],
        len(vocabulary),
        vocabulary.fingerprint,
    )
    save_counts(cut, vocabulary, options.out, force=True)
    return {"users": users, "nonzeros": end}


def drawn(options: argparse.Namespace) -> dict[str, Any]:
    """Yield random counts, some users at a time.

    In order of the hashes of their ids, as `bayesgram count` has them.
    """
    rng = np.random.default_rng(7)
    chances = 1 / np.arange(10, NGRAMS + 10)
    edges = np.cumsum(chances) / chances.sum()
    vocabulary = _made_up_vocabulary((1e9 * chances / chances.sum()).astype(np.int64), rng)
    options.out.mkdir(parents=True, exist_ok=True)
    vocabulary.save(options.out / "vocab.parquet", force=True)
    ids = (
        pa.array(np.arange(options.users) + 10**15).cast(pa.large_string()).cast(pa.large_binary())
    )
    ids = ids.take(pa.array(order_by_hash(ids, hash_rows(*buffers(ids)))))
    nonzeros = 0
    with open_counts_writer(vocabulary, options.out / "counts", force=True) as write:
        for first in range(0, options.users, BATCH_SIZE):
            some = ids[first : first + BATCH_SIZE]
            sizes = rng.lognormal(np.log(DRAWS) - 0.5, 1.0, len(some)).astype(np.int64) + 1
            ngrams = (
                np.searchsorted(edges, rng.random(int(sizes.sum())))
                .clip(0, NGRAMS - 1)
                .astype(np.int32)
            )
            owners = np.repeat(np.arange(len(some), dtype=np.int32), sizes)
            part = build_user_counts(some, *unit_counts(owners, ngrams), vocabulary_size=NGRAMS)
            write(part)
            nonzeros += part.ngrams.size
    return {"users": options.users, "nonzeros": nonzeros}


def _made_up_vocabulary(counts: Integers, rng: np.random.Generator) -> Vocabulary:
    """Trigrams of 8,000 words, of which the first are in most of them."""
    rows = np.unique((8000 * rng.random((2 * counts.size, 3)) ** 3).astype(np.int64), axis=0)
    chosen = rng.permutation(rows)[: counts.size]
    ngrams = pa.array([" ".join(f"w{word}" for word in row) for row in chosen], pa.large_string())
    return Vocabulary.from_counts(ngrams, [""], counts[None], Tokenizer())


def main() -> None:
    """Make one thing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    makers = {
        made.__name__: made
        for made in (text, zipf, people, copy, lines, crowd, given, counts, drawn)
    }
    parser.add_argument("what", choices=makers)
    parser.add_argument("out", type=Path)
    parser.add_argument("inputs", nargs="*")
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--users", type=int, default=10_000_000)
    parser.add_argument("--user-column", default="user")
    parser.add_argument("--text-column", default="text")
    options = parser.parse_args()
    print(json.dumps(makers[options.what](options)))


if __name__ == "__main__":
    main()
