"""bayesgram split, through its entry point."""

import json

import pyarrow.parquet as pq
import pytest

from bayesgram.cli.console import round_private
from helpers.commands import check_output, expect_refusal, run_in_process


@pytest.fixture
def work(tmp_path):
    rows = [f"user{number % 200};secret {number}\n" for number in range(1000)]
    (tmp_path / "posts.csv").write_text("user,text\n" + "".join(rows).replace(";", ","))
    return tmp_path


FILES = ("-o", "train.parquet", "--held-out-output", "held.parquet")


def test_people_are_held_out(work):
    said = check_output("split", "posts.csv", "--held-out", "20%", *FILES, cwd=work)
    train, held_out = (pq.read_table(work / name) for name in ("train.parquet", "held.parquet"))
    assert len(train) + len(held_out) == 1000
    assert len(set(held_out["user"].to_pylist())) == len(held_out) // 5
    assert 100 < len(held_out) < 300
    assert "Both files are private: keep them where the text is kept." in said
    assert str(len(train)) not in said  # exact numbers are private


def test_a_file_with_semicolons_in_latin_1(work):
    rows = [f"user{number % 200};grüße {number}\n" for number in range(1000)]
    (work / "mine.csv").write_text("user;text\n" + "".join(rows), encoding="latin-1")
    assert "Say so with --delimiter ';'." in expect_refusal("split", "mine.csv", *FILES, cwd=work)
    semicolons = ("--delimiter", ";")
    said = expect_refusal("split", "mine.csv", *semicolons, *FILES, cwd=work, code=1)
    assert "Say so with --encoding latin-1" in said
    run_in_process("split", "mine.csv", *semicolons, "--encoding", "latin-1", *FILES, cwd=work)
    texts = pq.read_table(work / "held.parquet")["text"].to_pylist()
    assert all(text.startswith("grüße ") for text in texts)


def test_a_split_of_a_split_needs_another_seed(work):
    run_in_process("split", "posts.csv", *FILES, cwd=work)
    again = ("-o", "a.parquet", "--held-out-output", "b.parquet")
    said = expect_refusal("split", "train.parquet", *again, cwd=work, code=1)
    assert "an earlier split with the same --seed chose them" in said
    run_in_process("split", "train.parquet", "--seed", 1, *again, cwd=work)


def test_numbers_for_machines_are_rounded_too(work):
    said = json.loads(check_output("split", "posts.csv", "--json", *FILES, cwd=work))
    train = len(pq.read_table(work / "train.parquet"))
    assert said["rows"] == round_private(train)
    assert said["held_out_rows"] == round_private(1000 - train)
    assert said["bad_rows_skipped"] == {}


def test_the_files_go_through_count(work):
    (work / "public.txt").write_text("secret words and other words of public text\n")
    run_in_process("split", "posts.csv", *FILES, cwd=work)
    run_in_process("vocab", "public.txt", "-o", "vocab.parquet", cwd=work)
    run_in_process("count", "train.parquet", "--vocab", "vocab.parquet", "-o", "counts", cwd=work)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--held-out", "ten"), "--held-out 'ten': give a share such as 10% or 0.1."),
        (("--held-out", "0%"), "--held-out 0: hold out a share from 0.1% to 99.9%, such as 10%."),
        (("--held-out", "100%"), "--held-out 1: hold out a share"),
        (("--seed", "-1"), "--seed -1"),
        (("--user-column", "author"), "no column 'author'"),
    ],
)
def test_wrong_options(work, options, message):
    assert message in expect_refusal("split", "posts.csv", *FILES, *options, cwd=work)
    assert {path.name for path in work.iterdir()} == {"posts.csv"}


def test_outputs_that_exist_or_are_inputs(work):
    run_in_process("split", "posts.csv", *FILES, cwd=work)
    assert "train.parquet: exists already; choose another --output" in expect_refusal(
        "split", "posts.csv", *FILES, cwd=work
    )
    (work / "train.parquet").unlink()
    assert "choose another --held-out-output" in expect_refusal(
        "split", "posts.csv", *FILES, cwd=work
    )
    into_input = ("-o", "posts.csv", "--held-out-output", "x.parquet", "--force")
    assert "would replace the input" in expect_refusal("split", "posts.csv", *into_input, cwd=work)
