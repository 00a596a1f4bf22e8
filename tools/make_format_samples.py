"""Write one small file of every format: `python tools/make_format_samples.py tests/formats/0.1`, once for each version.

In:  an output folder that does not exist.   Out: vocabularies, counts, releases, models, tables, an audit and ledgers,
made from generated people through the command line, and expected.json, which says what is in them.
expected.json is read from the files by pyarrow, json and sqlite3, not by bayesgram: later versions are judged by it.
Does not make the same bytes twice: a release without a seed has real noise, and ledgers have identities and times.
"""

import json
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from bayesgram import Budget, Laplace, Ledger, Vocabulary
from bayesgram.mechanisms.base import reservation
from bayesgram.private.counts_io import load_counts
from bayesgram.version import VERSION

TEXT = (
    "generate --users 200 --sentences 3000 --countries --seed 7 -o data",
    "vocab data/articles.txt.gz --order 3 --size 40 -o FILES/vocab.parquet",
    "vocab data/articles.txt.gz --orders 1,2,3 --boundaries --size 30 -o FILES/vocab-orders.parquet",
    "count data/messages --vocab FILES/vocab.parquet -o FILES/counts",
    "count data/messages --vocab FILES/vocab-orders.parquet -o FILES/counts-orders",
)
LEDGERS = (
    "ledger create FILES/mixed.ledger --population mixed --epsilon 6 --delta 1e-6",
    "ledger create FILES/tight.ledger --population tight --epsilon 1 --delta 1e-6",
    "ledger create FILES/pure.ledger --population pure --epsilon 2 --delta 0",
    "ledger create FILES/empty.ledger --population empty --epsilon 1 --delta 1e-7",
    "ledger create FILES/full.ledger --population full --epsilon 1 --delta 1e-6",
)
COUNTS = "release FILES/counts --vocab FILES/vocab.parquet"
RELEASES = (
    f"{COUNTS} --epsilon 1 --delta 1e-6 --ledger FILES/full.ledger -o FILES/posterior",
    f"{COUNTS} --mechanism gaussian --epsilon 0.5 --delta 1e-7 --ledger FILES/mixed.ledger -o FILES/gaussian",
    f"{COUNTS} --mechanism laplace --epsilon 0.5 --ledger FILES/mixed.ledger -o FILES/laplace",
    f"{COUNTS} --mechanism laplace-public --epsilon 0.5 --ledger FILES/pure.ledger -o FILES/laplace-public",
    f"{COUNTS} --mechanism paper --epsilon 1 --delta 1e-6 --expected-users 1000 -o FILES/paper",
    f"{COUNTS} --mechanism k-anonymity --k 5 -o FILES/k-anonymity",
    f"{COUNTS} --epsilon 1 --seed 1 -o FILES/seeded",
    "release FILES/counts-orders --vocab FILES/vocab-orders.parquet --epsilon 2 -o FILES/posterior-orders",
)
EXPORTS = (
    "export FILES/posterior-orders --format model -o FILES/model",
    "export FILES/posterior-orders --format arpa -o FILES/model.arpa",
    "export FILES/posterior-orders --format arpa -o FILES/model.arpa.gz",
    "export FILES/posterior --format tsv -o FILES/table.tsv",
    "export FILES/posterior --format jsonl -o FILES/table.jsonl",
    "export FILES/posterior --format parquet -o FILES/table.parquet",
)
SOURCES = "articles=data/articles.txt.gz chat=data/chat.txt.gz"
COUNTRIES = "--by country --segments de,fr,it --other"
LATER = (  # what 0.1 did not have
    f"vocab {SOURCES} --order 2 --size 30 -o FILES/vocab-sources.parquet --model FILES/public-model --model-size 200",
    f"count data/messages --vocab FILES/vocab.parquet {COUNTRIES} -o FILES/counts-countries",
    "release FILES/counts-countries --vocab FILES/vocab.parquet --epsilon 1 --delta 1e-6 -o FILES/countries",
    f"{COUNTS} --epsilon 1 --delta 1e-6 --previous FILES/gaussian -o FILES/next",
    "discover data/messages --vocab FILES/vocab.parquet --epsilon 4 --delta 1e-4 -o FILES/discovery",
)
AUDIT = "audit FILES/counts --vocab FILES/vocab.parquet --epsilon 1 --delta 1e-6 --attacks likelihood-ratio -o FILES/audit"
SPEND = ("inverse_variance", "pure_epsilon", "total_variation", "failure")
RESERVED = (
    ("mixed", 0.25),
    ("pure", 0.25),
    ("tight", 0.13),
    ("tight", 0.13),
)  # no release of these is known


def main(output: Path) -> None:
    """Make all files in a folder that is thrown away but for FILES: so no path of this machine is noted in them."""
    output = output.absolute()
    with TemporaryDirectory() as scratch:
        work = Path(scratch)
        (work / "FILES").mkdir()
        for command in (*TEXT, *LEDGERS, *RELEASES, *EXPORTS, *LATER, AUDIT):
            subprocess.run(
                [sys.executable, "-m", "bayesgram", *command.split()], cwd=work, check=True
            )
        for name, epsilon in RESERVED:
            _reserve_only(work / "FILES", f"{name}.ledger", epsilon)
        for unread in (
            *(work / "FILES" / "audit").glob("trade-off.*"),
            *(work / "FILES").glob("*.ledger.lock"),
            *(work / "FILES").glob("*.rows"),
        ):
            unread.unlink()  # never read again
        expected = json.dumps(contents(work / "FILES"), indent=1, ensure_ascii=False)
        (work / "FILES" / "expected.json").write_text(expected + "\n", encoding="utf-8")
        shutil.move(work / "FILES", output)


def _reserve_only(folder: Path, ledger: str, epsilon: float) -> None:
    """A release is charged, and nobody says that it was published: as a run leaves it that was stopped."""
    vocabulary = Vocabulary.load(folder / "vocab.parquet")
    counts = load_counts(folder / "counts", vocabulary_size=len(vocabulary))
    laplace, budget = Laplace(max_total=4), Budget(epsilon)
    spend, description = reservation(
        counts, vocabulary, laplace, budget, seed=None, output=None, unit=None
    )
    Ledger.open(folder / ledger).reserve(spend, description)


def contents(folder: Path) -> dict[str, Any]:
    """What is in the files, read without bayesgram."""
    return {
        "version": VERSION,
        "vocabularies": {path.stem: _table(path) for path in sorted(folder.glob("vocab*.parquet"))},
        "counts": {
            path.parent.name: _counts(path.parent)
            for path in sorted(folder.glob("*/counts.parquet"))
        },
        "releases": {
            path.parent.name: _release(path.parent)
            for path in sorted(folder.glob("*/distribution.parquet"))
        },
        "segments": {
            path.parent.name: _release(path.parent)
            for path in sorted(folder.glob("countries/*/card.json"))
        },
        "discovered": pq.read_table(folder / "discovery" / "ngrams.parquet")["ngram"].to_pylist(),
        "model": _model(folder / "model"),
        "audit": _audit(folder / "audit" / "audit.json"),
        "ledgers": {path.stem: _ledger(path) for path in sorted(folder.glob("*.ledger"))},
    }


def _table(path: Path) -> dict[str, Any]:
    table = pq.read_table(path)
    metadata = {
        key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()
    }
    return {
        "metadata": metadata,
        "ngrams": table["ngram"].to_pylist(),
        "counts": table["count"].to_pylist(),
    }


def _counts(folder: Path) -> dict[str, Any]:
    table = pq.read_table(folder / "counts.parquet")
    total: Counter[int] = Counter()
    for ngram, count in zip(table["ngram"].to_pylist(), table["count"].to_pylist(), strict=True):
        total[ngram] += count
    return {
        "users": len(set(table["user"].to_pylist())),
        "rows": table.num_rows,
        "totals": [total[ngram] for ngram in range(max(total) + 1)],
        "fingerprint": json.loads((folder / "meta.json").read_text(encoding="utf-8"))["vocabulary"][
            "fingerprint"
        ],
    }


def _release(folder: Path) -> dict[str, Any]:
    table = pq.read_table(folder / "distribution.parquet")
    card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    deviations = (
        table["standard_deviation"].to_pylist()[:5]
        if "standard_deviation" in table.column_names
        else None
    )
    told = {
        name: card[name]
        for name in ("mechanism", "guarantee", "statement", "epsilon", "delta", "seeded", "ledger")
    }
    return {
        **told,
        "size": table.num_rows,
        "ngrams": table["ngram"].to_pylist()[:5],
        "probabilities": table["probability"].to_pylist()[:5],
        "deviations": deviations,
    }


def _model(folder: Path) -> dict[str, Any]:
    about = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    told = {name: about[name] for name in ("order", "ngrams", "tokenizer")}
    return {**told, "log_probabilities": _first_values(folder, 64 + about["bits"]["children"][0])}


def _first_values(folder: Path, record: int) -> list[float]:
    """log10 p of the first five words, each the first 32 bits of a record of so many."""
    bits = int.from_bytes(np.load(folder / "records.npy").tobytes(), "little")
    values = [(bits >> record * place) & 0xFFFFFFFF for place in range(5)]
    return [float(np.uint32(value).view(np.float32)) for value in values]


def _audit(file: Path) -> dict[str, Any]:
    document = json.loads(file.read_text(encoding="utf-8"))
    told = {
        name: document[name]
        for name in ("mechanism", "guarantee", "epsilon", "delta", "verdict", "caught")
    }
    return {**told, "attacks": [found["attack"] for found in document["findings"]]}


def _ledger(path: Path) -> dict[str, Any]:
    with closing(sqlite3.connect(path)) as connection:
        header = connection.execute(
            "SELECT identity, population, epsilon, delta, created FROM header"
        ).fetchone()
        connection.row_factory = sqlite3.Row
        rows = connection.execute("SELECT * FROM entries ORDER BY number").fetchall()
    published = {row["reservation"] for row in rows if row["kind"] == "published"}
    identity, population, epsilon, delta, created = header
    return {
        "identity": identity,
        "population": population,
        "epsilon": float(epsilon),
        "delta": float(delta),
        "created": created,
        "reservations": [
            {
                "number": row["number"],
                "time": row["time"],
                "published": row["number"] in published,
                "description": json.loads(row["description"]),
                "spend": {name: float(row[name]) for name in SPEND if name in row.keys()},  # noqa: SIM118 - a row is no dict
            }
            for row in rows
            if row["kind"] == "reserved"
        ],
    }


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("give one folder that does not exist, such as tests/formats/0.1")
    main(Path(sys.argv[1]))
