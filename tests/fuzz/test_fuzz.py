"""A sample of `make fuzz`: all that was ever found, some hundred inputs for each target; and the
fuzzer itself.
"""

import csv
import io
import os
import subprocess
import sys
from random import Random

import pytest

from bayesgram.errors import BayesgramError
from bayesgram.io import delimited, records
from fuzz import dying, ledgers
from fuzz.delimited import literal_records
from fuzz.every import every_target
from fuzz.mutations import SECRET
from fuzz.target import CORPUS, Wrong, check_message

TARGETS = {target.name: target for target in every_target()}
KEPT = [(name, path) for name, target in TARGETS.items() for path in target.kept()]
INPUTS = 200


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_made_is_read(tmp_path, name):
    """A target whose valid inputs are refused would test nothing."""
    assert all(TARGETS[name].run(data, tmp_path) for data in TARGETS[name].made())


@pytest.mark.parametrize(("name", "path"), KEPT, ids=[f"{name}/{path.name}" for name, path in KEPT])
def test_what_was_found_once(tmp_path, name, path):
    TARGETS[name].run(path.read_bytes(), tmp_path)


def test_the_corpus_is_small_and_every_folder_of_it_is_a_target():
    assert {path.name for path in CORPUS.iterdir()} <= set(TARGETS)
    assert all(path.stat().st_size <= 10_000 for _, path in KEPT)


@pytest.mark.parametrize("name", TARGETS)
def test_inputs_are_read_or_refused(tmp_path, name):
    target = TARGETS[name]
    outcomes = {target.run(target.input("fixed", number), tmp_path) for number in range(INPUTS)}
    assert True in outcomes


def test_an_input_is_a_function_of_its_seed_and_number():
    for target in TARGETS.values():
        assert target.input("a", 7) == target.input("a", 7)
        assert len({target.input("a", number) for number in range(20)}) > 5


# The fuzzer itself


def test_the_slow_reader_of_csv_reads_as_python_does():
    random = Random(1)
    for _ in range(300):
        body = "".join(random.choice('aé",\r\n') for _ in range(random.randrange(40)))
        rows = [row for row in csv.reader(io.StringIO(body, newline="")) if row]
        found = literal_records(body.encode(), ord(","))
        read = [[field.decode() for field in record] for record in found.records]
        assert read == rows[: len(read)]
        assert found.is_wrong or len(read) == len(rows)


def test_a_loss_is_found(tmp_path, monkeypatch):
    """Rows that are dropped and not counted, a row too many, a ledger that trusts a file: each is
    seen.
    """
    whole = delimited.Chunk
    monkeypatch.setattr(delimited, "Chunk", lambda *given: whole(*given[:4]))
    with pytest.raises(Wrong, match=r"lost in silence|should be refused"):
        TARGETS["csv"].run(b"user,text\nann,a\nbob\n", tmp_path)
    monkeypatch.setattr(records, "_not_utf8", lambda *_: [])
    with pytest.raises(Wrong):
        TARGETS["text"].run(b"a\n\xff\n", tmp_path)
    monkeypatch.setattr(ledgers, "read_ledger", lambda _: None)
    with pytest.raises(Wrong, match="another ledger"):
        TARGETS["ledger"].run(TARGETS["ledger"].seeds[1], tmp_path)


def test_private_text_in_a_message_is_found():
    with pytest.raises(Wrong, match="private text"):
        check_message(BayesgramError(f"row 3: {SECRET}"))
    hidden = BayesgramError("row 3")
    hidden.__context__ = ValueError(SECRET)
    with pytest.raises(Wrong):
        check_message(hidden)
    hidden.__suppress_context__ = True
    check_message(hidden)


def test_a_crash_and_a_hang_are_told_and_the_others_go_on(tmp_path):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-m", "fuzz.dying", f"--findings={tmp_path}"],
        capture_output=True, text=True, env=env, check=True, timeout=300,
    )  # fmt: skip
    digits = [dying.TARGETS[0].input(dying.SEED, number) for number in range(10)]
    assert [digits.count(digit) for digit in (b"1", b"2", b"3", b"4")] == [1, 1, 1, 1]
    assert done.stdout.splitlines()[-1] == "[[6, 1, 3]]"
    assert {path.read_bytes() for path in tmp_path.iterdir() if not path.suffix} == {
        b"2",
        b"3",
        b"4",
    }
    said = "".join(path.read_text() for path in tmp_path.glob("*.txt"))
    assert [word in said for word in ("died (SIGSEGV)", "hang", "Wrong: wrong", "--number")] == [
        True
    ] * 4
