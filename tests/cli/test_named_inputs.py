"""vocab with named sources through the installed entry point, and how its arguments are read."""

import json
from functools import partial

import pyarrow.parquet as pq
import pytest

from bayesgram.cli.named_inputs import source_paths
from bayesgram.errors import UsageError
from bayesgram.public.vocabulary import Vocabulary
from helpers.commands import bayesgram, check_output, expect_failure
from helpers.reference_language_models import make_release

fail = partial(expect_failure, secret="\0")


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sources")
    (folder / "wiki").mkdir()
    (folder / "wiki" / "a.txt").write_text("the red fish swims. the blue fish sleeps.\n")
    (folder / "wiki" / "b.txt").write_text("the green fish swims.\n")
    (folder / "talk.txt").write_text("i like the red fish\n")
    check_output(
        "vocab", "wiki=wiki", "talk=talk.txt", "--order", 2, "-o", "vocab.parquet", cwd=folder
    )
    return folder


def test_sources_with_names(work):
    done = bayesgram(
        "vocab",
        "wiki=wiki/*.txt",
        "talk=talk.txt",
        "--order",
        2,
        "-o",
        "v.parquet",
        "--json",
        cwd=work,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["sources"] == {"wiki": {"ngrams": 8, "total": 9}, "talk": {"ngrams": 4, "total": 4}}
    assert told["given_twice"] == []
    assert (work / "v.parquet").read_bytes() == (work / "vocab.parquet").read_bytes()
    assert pq.read_schema(work / "v.parquet").names == [
        "ngram",
        "count",
        "count_wiki",
        "count_talk",
    ]
    made = Vocabulary.from_public(
        {"wiki": str(work / "wiki"), "talk": str(work / "talk.txt")}, order=2
    )
    assert made.prior_fingerprint == Vocabulary.load(work / "v.parquet").prior_fingerprint


def test_people_see_a_table_of_sources(work):
    said = check_output(
        "vocab", "a=wiki/a.txt", "b=talk.txt", "--order", 1, "-o", "w.parquet", cwd=work
    )
    rows = [line.split() for line in said.splitlines() if line.startswith("│")]
    assert [row[1::2] for row in rows] == [["a", "6", "8"], ["b", "5", "5"]]


def test_a_list_is_counted_and_its_fingerprint_stays(work):
    told = json.loads(
        check_output(
            "vocab",
            "talk=talk.txt",
            "other=wiki",
            "--list",
            "vocab.parquet",
            "-o",
            "l.parquet",
            "--json",
            cwd=work,
        )
    )
    before, after = (Vocabulary.load(work / name) for name in ("vocab.parquet", "l.parquet"))
    assert told["fingerprint"] == after.fingerprint == before.fingerprint
    assert after.counts_by_source.tolist() == before.counts_by_source[::-1].tolist()
    (work / "list.txt").write_text("the red\nred fish\nthe red\nThe Red\n")
    done = bayesgram("vocab", "talk.txt", "--list", "list.txt", "-o", "m.parquet", cwd=work)
    assert "1 n-grams stand in list.txt more than once; only the first is counted." in done.stderr
    assert "1 n-grams have capitals, and text is lower-cased" in done.stderr
    assert Vocabulary.load(work / "m.parquet").counts.tolist() == [1, 1, 0, 0]
    message = fail(
        "vocab", "talk.txt", "--list", "list.txt", "--size", 5, "-o", "x", cwd=work, code=2
    )
    assert message.endswith(
        "error: --list: its n-grams are counted as they are; leave --order, --orders and --size out."
    )


def test_what_is_given_twice_is_said(work):
    done = bayesgram(
        "vocab", "a=talk.txt", "b=./talk.txt", "--order", 1, "-o", "t.parquet", "--json", cwd=work
    )
    assert done.returncode == 0, done.stderr
    assert "talk.txt is read for two sources, a and b: it counts for both." in " ".join(
        done.stderr.split()
    )
    assert json.loads(done.stdout)["given_twice"] == [["a", "b"]]


def test_a_vocabulary_and_an_output_that_is_a_source(work):
    told = json.loads(
        check_output(
            "vocab",
            "old=vocab.parquet",
            "talk=talk.txt",
            "--order",
            2,
            "-o",
            "o.parquet",
            "--json",
            cwd=work,
        )
    )
    assert told["sources"]["old"]["ngrams"] == 10
    message = fail("vocab", "a=vocab.parquet", "-o", "vocab.parquet", "--force", cwd=work, code=2)
    assert message.endswith(
        "error: vocab.parquet: would replace the input vocab.parquet; choose another --output."
    )
    message = fail(
        "vocab", "a=talk.txt", "--list", "w.parquet", "-o", "w.parquet", "--force", cwd=work, code=2
    )
    assert message.endswith(
        "error: w.parquet: would replace the input w.parquet; choose another --output."
    )


def test_a_release_and_an_arpa_file(work):
    make_release({("the", "red"): 3.0, ("red", "fish"): 1.0}, tokenizer="words").save(work / "out")
    check_output("export", "out", "--format", "arpa", "-o", "model.arpa.gz", cwd=work)
    inputs = ("last=out", "model=model.arpa.gz", "talk=talk.txt")
    told = json.loads(
        check_output("vocab", *inputs, "--order", 2, "-o", "r.parquet", "--json", cwd=work)
    )
    assert told["sources"]["last"] == {"ngrams": 2, "total": 100_000_000}
    assert told["not_read"] == []
    made = Vocabulary.load(work / "r.parquet")
    assert made.ngrams[:2].to_pylist() == ["the red", "red fish"]


def test_nothing_is_written_when_a_source_is_empty_or_missing(work):
    (work / "bare.txt").write_text("\n")
    message = fail("vocab", "a=talk.txt", "b=bare.txt", "-o", "x", cwd=work, code=1)
    assert message.endswith(
        "error: source 'b': has not a single n-gram of order 1, 2, 3; give it more text, or leave it out."
    )
    assert "none.txt: no such file" in fail(
        "vocab", "a=talk.txt", "b=none.txt", "-o", "x", cwd=work, code=2
    )
    assert not (work / "x").exists()


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.txt", "x=a.txt", "y=only.txt", "my file=1.txt"):
        (tmp_path / name).write_text("a b\n")
    (tmp_path / "year=2020").mkdir()
    (tmp_path / "year=2020" / "p.txt").write_text("a b\n")
    return tmp_path


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["a.txt", "b.txt"], {"": ["a.txt", "b.txt"]}),
        (["w=a.txt", "t=b.txt"], {"w": ["a.txt"], "t": ["b.txt"]}),
        (["w=*.txt"], {"w": ["*.txt"]}),
        (["./x=a.txt", "y=only.txt"], {"": ["./x=a.txt", "y=only.txt"]}),
        (["year=2020/p.txt"], {"": ["year=2020/p.txt"]}),
        (["year=2020/*.txt"], {"": ["year=2020/*.txt"]}),
        (["w=year=2020/p.txt"], {"w": ["year=2020/p.txt"]}),
        (["x=./a.txt"], {"x": ["./a.txt"]}),
        (["w=./x=a.txt"], {"w": ["./x=a.txt"]}),
        (["s3://bucket/year=2020/p.parquet"], {"": ["s3://bucket/year=2020/p.parquet"]}),
        (["w=s3://bucket/year=2020/p.parquet"], {"w": ["s3://bucket/year=2020/p.parquet"]}),
        (["my file=1.txt"], {"": ["my file=1.txt"]}),
        (["=a.txt"], {"": ["=a.txt"]}),
        (["w=missing.txt"], {"w": ["missing.txt"]}),
    ],
)
def test_names_and_paths(here, given, wanted):
    assert source_paths(given) == wanted


AMBIGUOUS = (
    "x=a.txt: there is a file of this name, and a.txt is there too; write ./x=a.txt for the first, and x=./a.txt for a"
    " source called 'x'."
)
TWICE = (
    "w=b.txt: the source 'w' has a.txt already; several files of one source are a folder (w=folder) or a quoted pattern"
    " ('w=folder/*.txt')."
)
NO_NAME = (
    "my wiki=a.txt: 'my wiki' is no name of a source; a name has 1 to 32 letters (a to z), digits, ., - or _. A path"
    " with = in it is written ./my wiki=a.txt."
)
MIXED = (
    "w=b.txt has a name and a.txt has none; give every source a name (NAME=PATH), or none of them."
)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["x=a.txt"], AMBIGUOUS),
        (["w=a.txt", "w=b.txt"], TWICE),
        (["a.txt", "w=b.txt"], MIXED),
        (["my wiki=a.txt"], NO_NAME),
        (["w="], "w=: names no file; give w=PATH."),
        (
            [f"s{number}=a.txt" for number in range(21)],
            "21 sources: a vocabulary has 1 to 20; join some of them.",
        ),
    ],
)
def test_arguments_that_can_be_read_in_two_ways_or_none(here, given, message):
    with pytest.raises(UsageError) as caught:
        source_paths(given)
    assert str(caught.value) == message


def test_a_home_folder_that_the_shell_left_alone(here, monkeypatch):
    monkeypatch.setenv("HOME", str(here))
    assert source_paths(["w=~/a.txt"]) == {"w": [f"{here}/a.txt"]}
