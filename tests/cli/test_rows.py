"""Whole rows in every command: rows with spaces go through all files unchanged."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayesgram as bg
from bayesgram.lm import LanguageModel
from helpers.commands import check_output, expect_refusal, run_in_process
from helpers.consumer_formats import read_completions, read_lucene
from helpers.row_data import PUBLIC_TEXT
from helpers.web_catalogue import make_client

POPULAR = ["Where is zog?", "how to cook zog", "weather in Berlin", "Weather in Bern", "zog  now"]
SECRET = "my password is hunter2 stapler"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Public text, and what a pipeline of commands makes of people's rows."""
    folder = tmp_path_factory.mktemp("rows")
    pq.write_table(PUBLIC_TEXT, folder / "public.parquet")
    users = [f"user {number}" for number in range(400)]
    said = [(user, POPULAR[at % 5]) for at, user in enumerate(users)]
    said += [(user, POPULAR[at % 3]) for at, user in enumerate(users)]
    said += [("user 1", SECRET)] * 50
    columns = {"user": [user for user, _ in said], "text": [text for _, text in said]}
    pq.write_table(pa.table(columns), folder / "people.parquet")
    run_in_process("vocab", "public.parquet", "--tokenizer", "rows", "-o", "v.parquet", cwd=folder)
    discover = (
        "discover",
        "people.parquet",
        "--vocab",
        "v.parquet",
        "--epsilon",
        "3",
        "--seed",
        "1",
    )
    run_in_process(*discover, "-o", "found", cwd=folder)
    vocab = ("--vocab", "found/vocab.parquet")
    run_in_process("count", "people.parquet", *vocab, "-o", "counts", cwd=folder)
    run_in_process(
        "release", "counts", *vocab, "--epsilon", "3", "--seed", "1", "-o", "out", cwd=folder
    )
    return folder


def test_rows_go_through_all_files_with_their_spaces(folder):
    expected = sorted(bg.Tokenizer("rows").sentences(text)[0][0] for text in POPULAR)
    assert sorted(bg.Discovery.load(folder / "found").ngrams.to_pylist()) == expected
    release = bg.Release.load(folder / "out")
    assert sorted(release.ngrams.to_pylist()) == expected
    assert release.orders.tolist() == [1] * 5
    assert release["Weather in BERLIN?"].probability == pytest.approx(0.25, abs=0.1)
    assert release.card.vocabulary["tokenizer"] == "rows"
    for file in folder.rglob("*"):
        if file.is_file() and file.name != "people.parquet" and "counts" not in file.parts:
            assert b"hunter2" not in file.read_bytes(), file


def test_the_card_speaks_of_rows(folder):
    card = json.loads((folder / "out" / "card.json").read_text())
    coverage = card["details"]["coverage"]["1"]
    assert coverage["share"] == pytest.approx(800 / 850, abs=0.1)  # 50 rows are one secret
    assert card["details"]["rows"] is True
    assert "of people's rows" in check_output("report", "out", "-o", "report.html", cwd=folder)


@pytest.mark.parametrize("format_", ["tsv", "jsonl", "parquet"])
def test_tables_of_rows(folder, format_):
    name = f"rows.{format_}"
    run_in_process("export", "out", "--format", format_, "-o", name, cwd=folder)
    if format_ == "parquet":
        texts = pq.read_table(folder / name)["ngram"].to_pylist()
    else:
        lines = (folder / name).read_text().splitlines()
        texts = [
            line.split("\t")[0] if format_ == "tsv" else json.loads(line)["ngram"] for line in lines
        ]
    assert sorted(texts) == sorted(bg.Release.load(folder / "out").ngrams.to_pylist())


def test_a_model_of_rows_completes_rows(folder):
    run_in_process("export", "out", "--format", "model", "-o", "model", cwd=folder)
    model = LanguageModel.load(folder / "model")
    assert {guess.word for guess in model.predict("Weather  in B")} == {
        "weather in berlin",
        "weather in bern",
    }
    assert [guess.word for guess in model.suggest("weather in ber", 1)] == ["weather in berlin"]
    for place in ("out", "model"):
        assert "weather in bern" in check_output("predict", place, "weather in b", cwd=folder)


def test_what_rows_can_t_be_is_refused(folder):
    arpa = expect_refusal("export", "out", "--format", "arpa", "-o", "x.arpa", cwd=folder)
    assert arpa == (
        "an ARPA file separates words by spaces, and rows have spaces; export them as tsv, jsonl,"
        " parquet or model."
    )
    assert not (folder / "x.arpa").exists()
    empty = expect_refusal("count", "people.parquet", "--vocab", "v.parquet", "-o", "c", cwd=folder)
    assert empty == (
        "the vocabulary lists no rows, so there is nothing to count; find rows that many people"
        " write with `bayesgram discover`, and count with the vocab.parquet of what it finds."
    )
    vocab = ("vocab", "public.parquet", "--tokenizer", "rows", "-o", "x.parquet")
    assert expect_refusal(*vocab, "--orders", "1,2", cwd=folder) == (
        "--order 1,2: a row is one token, so rows have order 1; leave it out."
    )
    assert expect_refusal(*vocab, "--boundaries", cwd=folder) == (
        "--boundaries true: a row is one token and has no boundaries; leave it out."
    )
    run_in_process(*vocab, "--no-model", cwd=folder)
    discover = ("discover", "people.parquet", "--vocab", "x.parquet", "--epsilon", "1", "-o", "y")
    assert expect_refusal(*discover, cwd=folder) == (
        "rows are weighed by a public model of their words; `bayesgram vocab --tokenizer rows`"
        " keeps one beside the vocabulary. Give it as --model."
    )


def test_other_commands_take_rows(folder):
    vocab = ("--vocab", "found/vocab.parquet")
    said = check_output("evaluate", "out", "--private-text", "people.parquet", cwd=folder)
    assert "The rows that people write most" in said
    assert "weather in" in check_output("compare", "out", *vocab, "--fdr", "0.5", cwd=folder)
    run_in_process("plan", *vocab, "--epsilon", "1", "--users", "500", cwd=folder)
    follow = ("--previous", "out", "--epsilon", "3", "--seed", "2", "-o", "next")
    run_in_process("release", "counts", *vocab, *follow, cwd=folder)
    run_in_process("compare", "out", "next", cwd=folder)
    (folder / "block.txt").write_text("in Bern\n")
    block = ("--block", "block.txt", "-o", "blocked.tsv")
    run_in_process("export", "out", "--format", "tsv", *block, cwd=folder)
    blocked = (folder / "blocked.tsv").read_text()
    assert "weather in berlin" in blocked
    assert "weather in bern\t" not in blocked


def test_the_page_takes_rows(folder):
    vocabulary = bg.Vocabulary.load(folder / "found" / "vocab.parquet")
    release = bg.Release.load(folder / "out")
    ask = make_client(made=lambda _: [("out", release)], words=vocabulary)
    # All rows were discovered, so there is no column of public text.
    assert ask("/api/about").json()["public"] is None
    (column,) = ask("/api/predict", {"text": "Weather  in Berl"}).json()["columns"]
    assert [word["word"] for word in column["words"]] == ["weather in berlin"]
    rows = ask("/api/ngrams?text=weather&size=10").json()["rows"]
    assert {row["ngram"] for row in rows} == {"weather in berlin", "weather in bern"}
    card = ask("/api/card").json()
    assert "Probabilities of 5 rows. They come from " in json.dumps(card)
    assert "the listed words" not in json.dumps(card)
    assert "how to cook zog" in ask("/api/download?kind=csv").text


def test_more_commands_take_rows(folder):
    vocab = ("--vocab", "found/vocab.parquet")
    run_in_process("infer", "out", *vocab, "-o", "inferred", cwd=folder)
    assert len(bg.Release.load(folder / "inferred")) == 5
    split = ("people.parquet", "-o", "train.parquet", "--held-out-output", "held.parquet")
    run_in_process("split", *split, cwd=folder)
    people = pq.read_table(folder / "train.parquet")
    country = pa.array([("de", "fr")[int(user[5:]) % 2] for user in people["user"].to_pylist()])
    pq.write_table(people.append_column("country", country), folder / "by.parquet")
    by = ("--by", "country", "--segments", "de,fr", "-o", "counts-by")
    run_in_process("count", "by.parquet", *vocab, *by, cwd=folder)
    release = ("release", "counts-by", *vocab, "--epsilon", "9", "--seed", "3", "-o", "by")
    run_in_process(*release, cwd=folder)
    run_in_process("export", "by/de", "--format", "suggest", "-o", "de.tsv", cwd=folder)
    assert "where is zog\t" in (folder / "de.tsv").read_text()
    said = check_output("review", "found", "--drop", "zog", "-o", "reviewed", cwd=folder)
    assert "Dropped n-grams: 3" in said
    assert len(bg.Vocabulary.load(folder / "reviewed" / "vocab.parquet")) == 2


HOSTILE = {
    "line one\nline two": "line one line two",
    "a\ttab": "a tab",
    "para\u2028sep\u2029x": "para sep x",
    "nul\0inside": "nul inside",
    "so happy 😀👩‍👧": "so happy 😀👩‍👧",
    "שלום  עולם": "שלום עולם",
    "abc\u202edef": "abcdef",
    'x, "y", z=3|<b>\\k': 'x, "y", z=3|<b>\\k',
    "cafe\u0301 NOW!": "café now",
    "<s> </s>": "s> </s",
    "word " * 3000: " ".join(["word"] * 3000),
}


def test_hostile_rows_go_through_all_tables(tmp_path):
    texts = [*HOSTILE, "", " \t\n", "?!...", "CAFÉ now"]
    columns = {
        "user": [f"u{user}" for user in range(60) for _ in texts],
        "text": texts * 60,
    }
    pq.write_table(pa.table(columns), tmp_path / "people.parquet")
    pq.write_table(PUBLIC_TEXT, tmp_path / "public.parquet")
    run = ("--epsilon", "50", "--delta", "1e-3", "--seed", "1")
    for command in (
        ("vocab", "public.parquet", "--tokenizer", "rows", "-o", "v.parquet"),
        ("discover", "people.parquet", "--vocab", "v.parquet", *run, "-o", "found"),
        ("count", "people.parquet", "--vocab", "found/vocab.parquet", "-o", "counts"),
        ("release", "counts", "--vocab", "found/vocab.parquet", *run, "-o", "out"),
        ("export", "out", "-o", "o.tsv"),
        ("export", "out", "-o", "o.jsonl"),
        ("export", "out", "--format", "suggest", "-o", "s.tsv"),
        ("export", "out", "--format", "suggest", "-o", "s.jsonl"),
        ("export", "out", "--format", "hub", "-o", "hub"),
    ):
        run_in_process(*command, cwd=tmp_path)
    expected = set(HOSTILE.values())
    tsv = [line.split("\t") for line in (tmp_path / "o.tsv").read_text().split("\n")[:-1]]
    jsonl = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().split("\n")[:-1]]
    assert {row for row, _ in tsv} == {row["ngram"] for row in jsonl} == expected
    assert set(pq.read_table(tmp_path / "hub" / "rows.parquet")["ngram"].to_pylist()) == expected
    assert read_lucene(tmp_path / "s.tsv") == read_completions(tmp_path / "s.jsonl")
    assert read_lucene(tmp_path / "s.tsv").keys() == expected
