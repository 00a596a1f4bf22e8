"""export, import, predict and evaluate --text: through the installed entry point, and in this process to save time."""

import gzip
import json
import re
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayesgram as bg
from helpers import commands, fish_text
from helpers.commands import bayesgram, check_output, expect_failure, run_in_process
from helpers.reference_language_models import START, make_release

SECRET = "zanzibarmagicpassword"  # only a private user writes this


fail = partial(expect_failure, secret=SECRET)
refused = partial(commands.expect_refusal, secret=SECRET)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with public text, private messages, counts, a release, and a release of several orders."""
    folder = tmp_path_factory.mktemp("models with spaces")
    (folder / "public.txt").write_text(fish_text.PUBLIC)
    rng = np.random.default_rng(1)
    phrases = fish_text.make_phrases(SECRET)
    texts = [phrases[n] for n in rng.integers(0, 4, 300)]
    messages = pa.table({"user": [f"person-{n}" for n in rng.integers(0, 40, 300)], "text": texts})
    pq.write_table(pa.table({"body": texts[:50]}), folder / "held out.parquet")
    for name, size in (("vocab", 100), ("few", 3)):
        vocabulary = bg.Vocabulary.from_public(folder / "public.txt", order=2, size=size)
        vocabulary.save(folder / f"{name}.parquet")
        counts = bg.count(messages, vocabulary)
        bg.save_counts(counts, vocabulary, folder / f"{name} counts")
        bg.release(counts, vocabulary, bg.Posterior(), bg.Budget(1.0, 1e-7)).save(
            folder / f"{name} out"
        )
    table = {
        ("the",): 9.0,
        ("red",): 5.0,
        ("fish",): 6.0,
        (START, "the"): 5.0,
        ("the", "red"): 4.0,
        ("the", "red", "fish"): 3.0,
    }
    make_release(table, tokenizer="words").save(folder / "several")
    return folder


def test_from_release_to_arpa_to_model(work, tmp_path):
    arpa, model = tmp_path / "model.arpa.gz", tmp_path / "model"
    exported = json.loads(
        check_output("export", "vocab out", "--format", "arpa", "-o", arpa, "--json", cwd=work)
    )
    assert exported["claim"] == "ε = 1, δ = 1e-07 (PROVED)"
    assert gzip.decompress(arpa.read_bytes()).startswith(b"\\data\\\nngram 1=")
    imported = json.loads(check_output("import", arpa, "-o", model, "--json", cwd=work))
    assert imported["ngrams"] == exported["ngrams"]
    assert imported["tokenizer"] == "words"
    answers = [
        json.loads(check_output("predict", source, "The red", "-k", 3, "--json", cwd=work))
        for source in ("vocab out", arpa, model)
    ]
    assert answers[0]["predictions"] == answers[1]["predictions"] == answers[2]["predictions"]
    assert answers[0]["predictions"][0]["word"] == "fish"


def test_predict_for_people(work, tmp_path, capsys):
    done = bayesgram("predict", "several", "the", "--typed", "r", cwd=work)
    assert done.returncode == 0
    assert "│ red  │" in done.stdout
    assert "fish" not in done.stdout
    assert "export several --format model -o model" in done.stderr
    run_in_process("export", "several", "--format", "model", "-o", tmp_path / "model", cwd=work)
    capsys.readouterr()
    run_in_process("predict", tmp_path / "model", "", cwd=work)
    assert capsys.readouterr().err == ""
    run_in_process("predict", tmp_path / "model", "Zanzibar. The xyzzy", cwd=work)
    assert capsys.readouterr().err == "note: the model does not know: xyzzy.\n"


def test_words_of_the_text_and_capitals(work, tmp_path, capsys):
    (tmp_path / "names.txt").write_text("we saw Red and Red. the fish of Red\n", encoding="utf-8")
    run_in_process(
        "export",
        work / "several",
        "--format",
        "model",
        "--case-from",
        "names.txt",
        "-o",
        "model",
        "--json",
        cwd=tmp_path,
    )
    assert json.loads(capsys.readouterr().out)["cased_words"] == 1
    asked = ("predict", "model", "I met Zanzibar. The", "-k", "9", "--json")
    run_in_process(*asked, "--capitals", cwd=tmp_path)
    plain = [each["word"] for each in json.loads(capsys.readouterr().out)["predictions"]]
    run_in_process(*asked, "--cache", "0.5", cwd=tmp_path)
    cached = [each["word"] for each in json.loads(capsys.readouterr().out)["predictions"]]
    assert "Red" in plain
    assert "zanzibar" not in plain
    assert {"red", "zanzibar"} <= set(cached)
    assert refused(*asked, "--cache", "1", cwd=tmp_path, code=2).startswith(
        "--cache 1.0: the share of the words"
    )
    message = refused(
        "export",
        work / "several",
        "--format",
        "arpa",
        "--case-from",
        "names.txt",
        "-o",
        "x.arpa",
        cwd=tmp_path,
        code=2,
    )
    assert (
        message
        == "--case-from is for model, aosp and hunspell, not for --format arpa; leave it out."
    )


def test_tables(work, tmp_path):
    for kind in ("tsv", "jsonl", "parquet"):
        run_in_process("export", "several", "--format", kind, "-o", tmp_path / kind, cwd=work)
    assert (
        tmp_path / "tsv"
    ).read_text() == "fish\t6\nred\t5\nthe\t9\n<s> the\t5\nthe red\t4\nthe red fish\t3\n"
    lines = [json.loads(line) for line in (tmp_path / "jsonl").read_text().splitlines()]
    assert lines[0] == {"ngram": "fish", "probability": 0.3, "count": 6.0}
    table = pq.read_table(tmp_path / "parquet")
    assert table.to_pylist() == lines
    assert table.schema.metadata[b"bayesgram.claim"].decode() == "ε = 1, δ = 1e-07 (PROVED)"
    run_in_process(
        "export", "vocab out", "--format", "jsonl", "-o", tmp_path / "out.jsonl", cwd=work
    )
    assert "standard_deviation" in (tmp_path / "out.jsonl").read_text()


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """A release of words and pairs of words, with its vocabulary."""
    folder = tmp_path_factory.mktemp("words")
    public = pa.table({"text": ["the red fish swims", "the blue fish sleeps"] * 50})
    vocabulary = bg.Vocabulary.from_public(
        public, order=[1, 2], size=50, tokenizer=bg.Tokenizer(boundaries=True)
    )
    vocabulary.save(folder / "vocab.parquet")
    messages = pa.table(
        {"user": list(range(2000)), "text": ["blue fish swims", f"blue {SECRET}"] * 1000}
    )
    release = bg.release(
        bg.count(messages, vocabulary), vocabulary, bg.Posterior(), bg.Budget(1.0, 1e-7)
    )
    release.save(folder / "out")
    return folder


def test_a_biasing_list(words, tmp_path):
    told = json.loads(
        check_output(
            "export",
            "out",
            "--format",
            "bias",
            "--vocab",
            "vocab.parquet",
            "-o",
            tmp_path / "b",
            "--json",
            cwd=words,
        )
    )
    assert told["words"] == 6
    assert told["claim"] == "ε = 1, δ = 1e-07 (PROVED)"
    rows = [line.split("\t") for line in (tmp_path / "b").read_text(encoding="utf-8").splitlines()]
    release, vocabulary = (
        bg.Release.load(words / "out"),
        bg.Vocabulary.load(words / "vocab.parquet"),
    )
    theta, pi = (
        dict(zip(release.ngrams.to_pylist(), p, strict=True))
        for p in (release.probabilities, vocabulary.prior)
    )
    logs = {word: np.log(max(theta[word] / pi[word], 1e-4)) for word in theta}
    for word, ratio in rows:
        assert float(ratio) == pytest.approx(logs[word], rel=1e-4)
    assert {word for word, _ in rows} == {"the", "red", "fish", "swims", "blue", "sleeps"}
    useful = [
        abs(theta[word] - pi[word]) * abs(logs[word]) for word, _ in rows
    ]  # as in the list, before rounding
    assert useful == sorted(useful, reverse=True)
    run_in_process(
        "export",
        "out",
        "--format",
        "bias",
        "--vocab",
        "vocab.parquet",
        "-o",
        tmp_path / "2",
        "--prune",
        2,
        cwd=words,
    )
    assert (tmp_path / "2").read_text(encoding="utf-8").splitlines() == [
        "\t".join(row) for row in rows[:2]
    ]


def test_biasing_lists_that_can_not_be_made(words, work, tmp_path):
    bias = ("export", "out", "--format", "bias", "-o", tmp_path / "b")
    assert refused(*bias, cwd=words, code=2).endswith("give its vocabulary with --vocab.")
    message = refused(*bias, "--vocab", work / "vocab.parquet", cwd=words, code=2)
    assert "give the vocabulary it was made with" in message
    message = refused(*bias, "--vocab", "vocab.parquet", "--prune", 0, cwd=words, code=2)
    assert message.startswith("--prune 0: the number of words is a whole number from 1")
    message = refused(*bias, "--vocab", "vocab.parquet", "--source", "x", cwd=words, code=2)
    assert (
        message
        == "--source x: is for public models, and --format bias is of a release; leave it out."
    )
    message = refused(*bias, "--vocab", "vocab.parquet", "--max-size", "1MB", cwd=words, code=2)
    assert (
        message == "--quantize and --max-size are for --format model, not for bias; leave them out."
    )
    message = refused(
        "export",
        "out",
        "--format",
        "tsv",
        "--vocab",
        "vocab.parquet",
        "-o",
        tmp_path / "b",
        cwd=words,
        code=2,
    )
    assert message == "--vocab is for --format bias, not for --format tsv; leave it out."
    only_pairs = (
        "export",
        "vocab out",
        "--format",
        "bias",
        "--vocab",
        "vocab.parquet",
        "-o",
        tmp_path / "b",
    )
    assert refused(*only_pairs, cwd=work, code=2).startswith(
        "the release has no single words (order 1)"
    )
    assert not (tmp_path / "b").exists()


def test_a_table_without_totals_counts_per_million(work, tmp_path):
    make_release({("a", "b"): 3.0, ("b", "c"): 1.0}, totals=False).save(tmp_path / "out")
    run_in_process("export", "out", "--format", "tsv", "-o", "table.tsv", cwd=tmp_path)
    assert (tmp_path / "table.tsv").read_text() == "a b\t750000\nb c\t250000\n"


def test_pruned(work, tmp_path, capsys):
    sizes = {}
    for name, extra in (("whole", []), ("small", ["--prune", 12])):
        run_in_process(
            "export",
            "vocab out",
            "--format",
            "arpa",
            "-o",
            tmp_path / name,
            "--json",
            *extra,
            cwd=work,
        )
        sizes[name] = json.loads(capsys.readouterr().out)["ngrams"]
    assert sum(sizes["small"]) == 12 < sum(sizes["whole"])


def test_a_vocabulary_is_no_public_model(work, tmp_path):
    given = (
        "export",
        "vocab out",
        "--public",
        "vocab.parquet",
        "--format",
        "arpa",
        "-o",
        tmp_path / "model.arpa",
    )
    assert "not a public model" in refused(*given, cwd=work, code=2)
    assert not (tmp_path / "model.arpa").exists()


def test_a_model_of_so_many_bytes(tmp_path, capsys):
    """As large as was allowed, and of use."""
    rng = np.random.default_rng(3)
    table = {
        ("the", f"w{a}", f"w{b}"): float(rng.integers(1, 50))
        for a, b in rng.integers(0, 90, (9000, 2)).tolist()
    }
    make_release(table, tokenizer="words").save(tmp_path / "out")

    def export(name, *extra):
        run_in_process(
            "export", "out", "--format", "model", "--json", "-o", name, *extra, cwd=tmp_path
        )
        told = json.loads(capsys.readouterr().out)
        assert sum(path.stat().st_size for path in (tmp_path / name).iterdir()) == told["bytes"]
        return told

    whole, rounded = export("whole"), export("rounded", "--quantize", 8)
    assert rounded["ngrams"] == whole["ngrams"]
    assert rounded["bytes"] < whole["bytes"]
    fitting = export("fitting", "--max-size", "32KB")
    assert 31_000 < fitting["bytes"] <= 32_000 < rounded["bytes"]
    assert sum(fitting["ngrams"]) < sum(whole["ngrams"])
    models = [bg.lm.LanguageModel.load(tmp_path / name) for name in ("whole", "rounded", "fitting")]
    predicted = [[each.word for each in model.predict("the w7", 3)] for model in models]
    assert predicted[0] == predicted[1]
    assert len(predicted[2]) == 3
    finer = export("finer", "--max-size", "32KB", "--quantize", 6)
    assert sum(finer["ngrams"]) > sum(fitting["ngrams"])


def test_sizes_through_the_program(work, tmp_path):
    told = fail(
        "export",
        "several",
        "--format",
        "model",
        "-o",
        tmp_path / "x",
        "--max-size",
        "1KB",
        cwd=work,
        code=2,
    )
    smallest = re.search(
        r"--max-size 1KB: the smallest model of these 6 words takes (\d+KB); allow that much,", told
    )
    assert not (tmp_path / "x").exists()
    arguments = (
        "export",
        "several",
        "--format",
        "model",
        "-o",
        tmp_path / "x",
        "--max-size",
        smallest[1],
        "--json",
    )
    done = json.loads(check_output(*arguments, cwd=work))
    assert done["bytes"] <= 1000 * int(smallest[1].removesuffix("KB"))


def test_evaluate_on_text(work, tmp_path, capsys):
    run_in_process(
        "export", "vocab out", "--format", "arpa", "-o", tmp_path / "model.arpa", cwd=work
    )
    arguments = (
        "evaluate",
        "vocab out",
        tmp_path / "model.arpa",
        "--text",
        "held out.parquet",
        "--text-column",
        "body",
    )
    baselines = ("--against", "vocab counts", "--vocab", "vocab.parquet")
    found = json.loads(check_output(*arguments, *baselines, "--json", cwd=work))
    assert "not for publication" in found["warning"]
    assert [row["release"] for row in found["releases"]] == ["public text alone", "vocab out"]
    rows = {row.pop("model"): row for row in found["text"]}
    names = [
        "public text alone",
        "private counts (not for publication)",
        "vocab out",
        str(tmp_path / "model.arpa"),
    ]
    assert list(rows) == names
    told = [
        {name: row.pop(name) for name in ("name", "epsilon", "guarantee")} for row in rows.values()
    ]
    assert told[2] == {"name": "vocab out", "epsilon": 1.0, "guarantee": "PROVED"}
    assert told[3] == {"name": "model.arpa", "epsilon": None, "guarantee": None}
    assert rows["vocab out"] == rows[names[-1]]
    assert found["same_words"]
    assert 1 < rows["vocab out"]["perplexity"] < 1000
    assert 0 < rows["vocab out"]["accuracy_1"] <= rows["vocab out"]["accuracy_3"] < 1
    capsys.readouterr()
    run_in_process(*arguments, cwd=work)
    shown = capsys.readouterr()
    assert "Held-out text" in shown.out
    assert "not covered by any ε" in " ".join(shown.err.split())
    assert SECRET not in shown.out + shown.err
    run_in_process(
        "evaluate",
        "vocab out",
        "--text",
        "held out.parquet",
        "--text-column",
        "body",
        *baselines[:2],
        "--json",
        cwd=work,
    )
    assert (
        json.loads(capsys.readouterr().out)["text"][0]["model"]
        == "private counts (not for publication)"
    )


def test_divergence_of_several_orders_is_that_of_the_longest(tmp_path, capsys):
    counted = {"user": [0, 0, 1], "ngram": [0, 2, 3], "count": [5, 1, 3]}
    pq.write_table(pa.table(counted), tmp_path / "counts.parquet")
    make_release({("a",): 3.0, ("b",): 1.0, ("a", "b"): 1.0, ("b", "a"): 1.0}).save(
        tmp_path / "out"
    )
    run_in_process("evaluate", "out", "--against", "counts.parquet", "--json", cwd=tmp_path)
    kl = json.loads(capsys.readouterr().out)["releases"][0]["kl"]
    assert kl == pytest.approx(0.25 * np.log(0.25 / 0.5) + 0.75 * np.log(0.75 / 0.5))


def test_wrong_use(work, tmp_path):
    assert fail("evaluate", "vocab out", cwd=work, code=2).endswith(
        "nothing to judge by: give --against with private counts, --private-text with the text of the"
        " releases, or --text with held-out text."
    )
    new = ("-o", tmp_path / "x")
    for arguments, problem in (
        (("evaluate", "nowhere", "--text", "public.txt"), "nowhere: no such file"),
        (("evaluate", "nowhere", "--text", "public.txt", "--against", "vocab counts"), "--against needs a release folder or --vocab"),
        (("evaluate", "vocab out", "few out", "--against", "vocab counts"), "vocabularies of different sizes"),
        (("export", "several", "--format", "tsv", "--prune", 5, *new), "are for models, not for --format tsv; leave them out."),
        (("export", "several", "--format", "arpa", "--quantize", 8, *new), "are for --format model, not for arpa; leave them out."),
        (("export", "several", "--format", "tsv", "--max-size", "1MB", *new), "are for --format model, not for tsv; leave them out."),
        (("export", "several", "--format", "model", "--max-size", "1MB", "--prune", 9, *new), "both say how many n-grams stay; leave one of"),
        (("export", "several", "--format", "model", "--max-size", "much", *new), "--max-size 'much': give a size from 1KB to 10000GB, such as 10MB."),
        (("export", "several", "--format", "model", "--max-size", "12", *new), "--max-size '12': give a size from 1KB"),
        (("export", "several", "--format", "model", "--quantize", 3, *new), "bits=3: of a probability is a whole number from 4 to 14."),
        (("export", "several", "--format", "tsv", "-o", "vocab counts"), "exists already"),
        (("export", "several", "--format", "model", "-o", "several", "--force"), "several: would replace the input several"),
        (("predict", "several", "the", "-k", 0), "--k 0: the number of predictions is a whole number from 1 to 1,000."),
        (("export", "several", "--format", "arpa", "--prune", 2, *new), "--prune 2: a model of 6 words keeps 7 n-grams or more."),
    ):  # fmt: skip
        assert problem in refused(*arguments, cwd=work, code=2)
    assert not (tmp_path / "x").exists()


def test_an_arpa_file_that_is_wrong_leaves_nothing_behind(work, tmp_path):
    run_in_process("export", "several", "--format", "arpa", "-o", tmp_path / "model.arpa", cwd=work)
    lines = (tmp_path / "model.arpa").read_text(encoding="utf-8").split("\n")
    lines.insert(lines.index("\\2-grams:"), lines[lines.index("\\1-grams:") + 1])
    (tmp_path / "bad.arpa").write_text("\n".join(lines), encoding="utf-8")
    message = fail("import", tmp_path / "bad.arpa", "-o", tmp_path / "model", cwd=work, code=1)
    assert "bad.arpa, line " in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.arpa", "model.arpa"]
