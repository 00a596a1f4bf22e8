"""bayesgram compare through the installed entry point."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from helpers import commands, reference_paper

SIZE, PHRASE = 300, 40
USER = "person-of-interest"


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Three weeks, of which the third has a phrase five times as often."""
    folder = tmp_path_factory.mktemp("a comparison")
    reference_paper.make_vocabulary(20_000 // np.arange(1, SIZE + 1)).save(folder / "vocab.parquet")
    for number, times in ((1, 1), (2, 1), (3, 5)):
        rng = np.random.default_rng(number)
        shares = 1 / (20 + np.arange(SIZE))
        shares[PHRASE] *= times
        matrix = rng.multinomial(5, shares / shares.sum(), 4000)
        users, ngrams = matrix.nonzero()
        table = {
            "user": [f"{USER}-{user}" for user in users],
            "ngram": ngrams,
            "count": matrix[users, ngrams],
        }
        pq.write_table(pa.table(table), folder / f"counts-{number}.parquet")
        common = ("--vocab", "vocab.parquet", "--epsilon", 2, "--clip-norm", 4, "--seed", number)
        commands.run_in_process(
            "release", f"counts-{number}.parquet", *common, "-o", f"week-{number}", cwd=folder
        )
    return folder


def test_what_rose_is_in_the_table_the_file_and_the_picture(work, tmp_path):
    outputs = ("--plot", tmp_path / "moved.svg", "-o", tmp_path / "changes.csv")
    done = commands.bayesgram(
        "compare", "last=week-1", "this=week-3", *outputs, cwd=work, COLUMNS="80"
    )
    assert done.returncode == 0, done.stderr
    assert "Rose from last to this" in done.stdout
    assert f"│ w{PHRASE} " in done.stdout
    assert (
        "False discovery rate 0.1: of a list like this, at most about 10% are there by chance."
        in " ".join(done.stdout.split())
    )
    assert max(map(len, done.stdout.splitlines())) <= 80
    tables = [line for line in done.stdout.splitlines() if line[:1] in "┏┃┡│└"]
    assert max(map(len, tables)) <= 80
    assert f"w{PHRASE}" in (tmp_path / "moved.svg").read_text(encoding="utf-8")
    assert pacsv.read_csv(tmp_path / "changes.csv")["ngram"][0].as_py() == f"w{PHRASE}"
    assert "last, this: seeded: not for publication." in done.stdout
    assert USER not in done.stdout + done.stderr


def test_json_has_the_numbers_and_the_words(work):
    found = json.loads(
        commands.check_output(
            "compare", "week-1", "week-2", "week-3", "--json", "--fdr", 0.01, cwd=work
        )
    )
    assert found["releases"] == ["week-1", "week-2", "week-3"]
    assert found["fdr"] == 0.01
    first = found["changes"][0]
    assert (first["ngram"], first["to"]) == (f"w{PHRASE}", "week-3")
    assert first["described"].startswith("rose ")
    assert first["ratio_low"] < first["ratio"] < first["ratio_high"]


def test_weeks_without_a_change_say_so(work):
    told = commands.check_output("compare", "week-1", "week-2", "--fdr", 0.0001, cwd=work)
    assert told.startswith("Nothing is sure to have changed: ")


def test_one_release_is_compared_with_public_text(work):
    told = commands.check_output(
        "compare", "week-1", "--vocab", "vocab.parquet", "--top", 3, cwd=work
    )
    assert "from public text to week-1, the surest 3 of" in told


def test_wrong_use_is_refused_and_writes_nothing(work, tmp_path):
    picture = tmp_path / "moved.svg"
    for arguments, message in [
        (("week-1",), "1 releases: give from 2 to 60, or one and its vocabulary"),
        (("week-1", "./week-1"), "is the same folder as week-1"),
        (("week-1", "week-1"), "given twice"),
        (("a=week-1", "a=week-2"), "two have the same name"),
        (("week-1", "counts-1.parquet"), "not a release folder"),
        (("week-1", "week-2", "--fdr", "2"), "--fdr 2: a false discovery rate is between 0 and 1"),
        (
            ("week-1", "week-2", "--vocab", "vocab.parquet"),
            "public text is compared with one release",
        ),
        (("week-1", "week-2", "-o", "changes.xlsx"), "ends with .csv, .parquet or .json"),
        (("week-1", "week-2", "-o", "week-1"), "ends with"),
        (("week-1", "week-2", "-o", "counts-1.parquet"), "exists already"),
    ]:
        told = commands.expect_refusal("compare", *arguments, "--plot", str(picture), cwd=work)
        assert message in told, told
        assert not picture.exists()
    assert "a picture is a .svg or a .png" in commands.expect_refusal(
        "compare", "week-1", "week-2", "--plot", "a.gif", cwd=work
    )


def test_a_report_has_it_as_a_section(work, tmp_path):
    page = tmp_path / "report.html"
    commands.run_in_process("report", "week-1", "week-3", "--changes", "-o", str(page), cwd=work)
    text = page.read_text(encoding="utf-8")
    assert "<h2>What changed <bdi>from week-1 to week-3</bdi></h2>" in text
    assert f"<tr><td><bdi>w{PHRASE}</bdi></td>" in text
    assert "week-1, week-3: seeded: not for publication." in text
    commands.run_in_process("report", "week-1", "week-3", "-o", str(page), "--force", cwd=work)
    assert "What changed <bdi>" not in page.read_text(encoding="utf-8")
    told = commands.expect_refusal(
        "report", "week-1", "--changes", "-o", str(tmp_path / "other.html"), cwd=work
    )
    assert "1 releases: give from 2 to 60" in told
    assert not (tmp_path / "other.html").exists()
