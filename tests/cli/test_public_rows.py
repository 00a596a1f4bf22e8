"""Private text as public text, through the installed entry point: what an analyst in a hurry would do."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from bayesgram.public.discovered_ngrams import Discovery
from bayesgram.public.vocabulary import Vocabulary
from helpers.commands import bayesgram, check_output, expect_failure
from helpers.modes import has_mode

SECRET = "zanzibarsecret"
VOCAB = ("--vocab", "vocab.parquet")
WORDS = np.array(
    [
        "the",
        "a",
        "my",
        "your",
        "red",
        "blue",
        "fish",
        "dog",
        "cat",
        "house",
        "is",
        "was",
        "not",
        "so",
        "very",
        "here",
        "there",
        "now",
    ]
)


def messages(seed, rows=600):
    """Made-up messages of nine words, each different from all others."""
    chosen = np.random.default_rng(seed).choice(WORDS, (rows, 8))
    return [f"{' '.join(words)} {SECRET}{seed}x{number}" for number, words in enumerate(chosen)]


def table(texts):
    return pa.table(
        {"user_id": [f"person-{number % 60}" for number in range(len(texts))], "text": texts}
    )


def said(done):
    return " ".join(done.stderr.split())


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Messages, and a vocabulary made from them; other messages, and those with some of the first among them."""
    folder = tmp_path_factory.mktemp("public rows")
    first, second = messages(1), messages(2, rows=2000)
    pq.write_table(table(first), folder / "messages.parquet")
    pq.write_table(table(second), folder / "others.parquet")
    pq.write_table(table([*second[:-100], *first[:100]]), folder / "twentieth.parquet")
    pq.write_table(table([*second[:-2], *first[:2]]), folder / "thousandth.parquet")
    pq.write_table(table([f"  {text.upper()}!" for text in first]), folder / "loud.parquet")
    done = bayesgram("vocab", "messages.parquet", "--order", 2, "-o", "vocab.parquet", cwd=folder)
    assert done.returncode == 0, done.stderr
    (folder / "said").write_text(said(done))
    return folder


def count(work, inputs, output, *more):
    return ("count", inputs, *VOCAB, "--user-column", "user_id", "-o", output, *more)


def test_vocab_warns_about_a_column_of_users(work):
    assert (work / "said").read_text().count(
        "warning: messages.parquet: the column 'user_id' looks like user ids."
    ) == 1


@pytest.mark.parametrize("name", ["Author", "USER ID", "uid", "device-id"])
@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv", "jsonl"])
def test_whatever_the_format_and_the_spelling(tmp_path, name, ending):
    made = pa.table({"text": ["the red fish", "the blue fish"], name: ["7", "8"], "likes": [1, 2]})
    path = tmp_path / f"public.{ending}"
    if ending == "parquet":
        pq.write_table(made, path)
    elif ending == "arrow":
        with pa.ipc.new_file(path, made.schema) as file:
            file.write_table(made)
    elif ending == "csv":
        pyarrow.csv.write_csv(made, path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in made.to_pylist()))
    done = bayesgram("vocab", path.name, "--order", 1, "-o", "vocab.parquet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"warning: public.{ending}: the column {name!r} looks like user ids." in said(done)
    assert done.stderr.count("looks like user ids") == 1


def test_other_columns_are_not_warned_about(tmp_path):
    made = pa.table({"text": ["the red fish"], "username_length": [7], "title": ["x"]})
    pq.write_table(made, tmp_path / "public.parquet")
    done = bayesgram("vocab", "public.parquet", "--order", 1, "-o", "vocab.parquet", cwd=tmp_path)
    assert "warning" not in done.stderr


@pytest.mark.parametrize(
    ("inputs", "share"),
    [("messages.parquet", "100%"), ("loud.parquet", "100%"), ("twentieth.parquet", "5%")],
)
def test_count_of_public_text_stops_and_writes_nothing(work, inputs, share):
    before = sorted(path.name for path in work.iterdir())
    message = expect_failure(*count(work, inputs, "counts"), cwd=work, code=2, secret=SECRET)
    assert (
        f"error: about {share} of the private rows of eight words or more were rows of the public text"
        in message
    )
    assert "no release with this vocabulary is private" in message
    assert "go on with --allow-public." in message
    assert sorted(path.name for path in work.iterdir()) == before


def test_with_the_switch_it_goes_on_and_warns(work):
    done = bayesgram(
        *count(work, "messages.parquet", "allowed", "--allow-public", "--json"), cwd=work
    )
    assert done.returncode == 0, done.stderr
    assert "warning: about 100% of the private rows" in said(done)
    assert json.loads(done.stdout)["public_rows_checked"] is True


@pytest.mark.parametrize("inputs", ["others.parquet", "thousandth.parquet"])
def test_other_text_is_counted_without_a_word(work, inputs):
    done = bayesgram(*count(work, inputs, f"counts of {inputs}", "--quiet"), cwd=work)
    assert (done.returncode, done.stderr) == (0, "")


def test_without_the_file_nothing_is_compared(work):
    (work / "alone.parquet").write_bytes((work / "vocab.parquet").read_bytes())
    done = bayesgram(
        *("count", "messages.parquet", "--vocab", "alone.parquet", "--user-column", "user_id"),
        *("-o", "not compared", "--json", "--quiet"),
        cwd=work,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["public_rows_checked"] is False


def test_discover_warns_on_standard_error_alone(work):
    budget = ("--epsilon", 1, "--delta", 1e-6, "--rounds", 2, "--seed", 1, "--json")
    public, private = (
        bayesgram(
            "discover", inputs, *VOCAB, "--user-column", "user_id", *budget, "-o", output, cwd=work
        )
        for inputs, output in (("messages.parquet", "found-1"), ("others.parquet", "found-2"))
    )
    assert (public.returncode, private.returncode) == (0, 0)
    assert "warning: about 100% of the private rows" in said(public)
    assert "public text" not in said(private)
    assert "public text that the vocabulary was made from" not in public.stdout
    for name in ("found-1", "found-2"):
        assert sorted(path.name for path in (work / name).iterdir()) == [
            "card.json",
            "ngrams.parquet",
            "vocab.parquet",
        ]
        assert Discovery.load(work / name).vocabulary.public_rows is None


def test_the_rows_are_in_a_file_of_their_own_for_the_curator(work):
    path = work / "vocab.parquet.rows"
    assert has_mode(path, 0o600)
    assert len(Vocabulary.load(work / "vocab.parquet").public_rows) == 600
    assert SECRET.encode() not in path.read_bytes()


def test_vocab_refuses_a_foreign_file_in_its_place_before_it_reads(tmp_path):
    (tmp_path / "public.txt").write_text("the red fish\n")
    (tmp_path / "v.parquet.rows").write_text("mine")
    message = expect_failure(
        "vocab", "public.txt", "-o", "v.parquet", cwd=tmp_path, code=2, secret="\0"
    )
    assert message.endswith(
        "v.parquet.rows: is no file of public rows, and would be replaced by one; choose another --output."
    )


def test_a_model_does_not_hold_the_rows(work):
    (work / "p.txt").write_text("\n".join(messages(3)))
    check_output("vocab", "p.txt", "--order", 2, "--model", "p.model", "-o", "p.parquet", cwd=work)
    assert (work / "p.parquet.rows").is_file()
    assert not [path for path in (work / "p.model").rglob("*") if path.name.endswith(".rows")]
