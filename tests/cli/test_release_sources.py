"""What release, report and the card say of several public sources, through the installed entry point."""

import html
import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.commands import check_output

SIZE, USERS = 60, 3_000
RELEASE = ("release", "counts.parquet", "--vocab", "vocab.parquet", "--epsilon", 4)
WIKI = r"(, but hardly wiki \(<?\d+%\)| and wiki \(\d+% ± \d+\))"
LINE = rf"^Sources:    People's text resembles talk \(\d+% ± \d+\){WIKI}\.$"


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Everybody writes like talk, which prefers the n-grams that wiki has least."""
    folder = tmp_path_factory.mktemp("sources of a release")
    rng = np.random.default_rng(14)
    talk = 1 / np.arange(1, SIZE + 1)
    ngrams = rng.choice(SIZE, (USERS, 10), p=talk / talk.sum())
    user, at, count = (
        np.concatenate(part) for part in zip(*map(_rows, range(USERS), ngrams), strict=True)
    )
    pq.write_table(
        pa.table({"user": [f"u{n}" for n in user], "ngram": at, "count": count}),
        folder / "counts.parquet",
    )
    counts = np.rint(10_000 * talk).astype(np.int64)
    names = pa.array([f"word{n}" for n in range(SIZE)])
    pq.write_table(
        pa.table({"ngram": names, "count_wiki": counts[::-1], "count_talk": counts}),
        folder / "vocab.parquet",
    )
    return folder


def _rows(user, written):
    ngrams, counts = np.unique(written, return_counts=True)
    return np.full(ngrams.size, user), ngrams, counts


def test_the_terminal_the_card_and_the_report_say_the_same(work):
    said = re.search(LINE, check_output(*RELEASE, "-o", "out", cwd=work), re.MULTILINE)
    assert said
    line = said[0].removeprefix("Sources:    ")
    check_output("report", "out", "--vocab", "vocab.parquet", "-o", "report.html", cwd=work)
    page = html.unescape((work / "report.html").read_text(encoding="utf-8"))
    assert f"<p>{line}</p>" in page


def test_machines_get_numbers(work):
    told = json.loads(check_output(*RELEASE, "-o", "numbers", "--json", cwd=work))["card"][
        "details"
    ]["source_weights"]
    assert [*told] == ["1"]
    assert [*told["1"]] == ["wiki", "talk"]
    assert sum(source["weight"] for source in told["1"].values()) == pytest.approx(1, abs=1e-3)
    assert told["1"]["talk"]["weight"] > 0.8
    assert all(0 <= source["deviation"] < 0.1 for source in told["1"].values())


def test_noise_that_hides_the_answer_is_said(work):
    """Seeded: once in 2,000 times noise alone looks like an answer, however small ε is."""
    faint = (
        "release",
        "counts.parquet",
        "--vocab",
        "vocab.parquet",
        "--epsilon",
        0.001,
        "--seed",
        1,
        "-o",
        "faint",
    )
    assert (
        "Sources:    Too noisy to say which public text people's text resembles."
        in check_output(*faint, cwd=work)
    )
