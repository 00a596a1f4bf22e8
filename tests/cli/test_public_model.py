"""vocab --model and export of a public model, through the installed entry point and in this process."""

import json
from functools import partial

import pytest

from bayesgram.lm.arpa import read_arpa
from bayesgram.lm.language_model import LanguageModel
from bayesgram.public.public_model import PublicModel
from bayesgram.public.vocabulary import Vocabulary
from helpers.commands import check_output, expect_failure, expect_refusal, run_in_process

fail = partial(expect_failure, secret="\0")


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("public model")
    (folder / "wiki.txt").write_text(
        "the red fish swims. the blue fish sleeps.\nthe green fish swims.\n"
    )
    (folder / "talk.txt").write_text("i like the red fish\n")
    given = ("vocab", "wiki=wiki.txt", "talk=talk.txt", "--orders", "1,2", "--json")
    said = check_output(*given, "-o", "vocab.parquet", "--model", "public.model", cwd=folder)
    (folder / "said.json").write_text(said)
    return folder


def test_the_model_stands_beside_the_vocabulary(work):
    told = json.loads((work / "said.json").read_text())
    vocabulary, model = (
        Vocabulary.load(work / "vocab.parquet"),
        PublicModel.load(work / "public.model"),
    )
    assert told["model"] == "public.model"
    assert told["model_ngrams"] == model.sizes
    assert model.source_names == vocabulary.source_names
    again = PublicModel.from_public(
        vocabulary, {name: str(work / f"{name}.txt") for name in ("wiki", "talk")}
    )
    assert again.sizes == model.sizes
    assert again["talk"].score("the red fish") == model["talk"].score("the red fish")


def test_options_of_the_model(work, tmp_path):
    given = (
        "vocab",
        "wiki.txt",
        "--order",
        1,
        "-o",
        tmp_path / "v.parquet",
        "--model",
        tmp_path / "m",
    )
    run_in_process(*given, "--model-order", 4, cwd=work)
    whole = PublicModel.load(tmp_path / "m")
    assert whole.order == 4
    run_in_process(*given, "--model-order", 4, "--model-size", 12, "--force", cwd=work)
    assert sum(PublicModel.load(tmp_path / "m")["public"].sizes) == 12
    run_in_process(
        "vocab",
        "wiki.txt",
        "--list",
        tmp_path / "v.parquet",
        "-o",
        tmp_path / "l",
        "--model",
        tmp_path / "n",
        cwd=work,
    )
    assert PublicModel.load(tmp_path / "n").order == 3


def test_export_of_one_source(work, tmp_path):
    told = json.loads(
        check_output(
            *("export", "public.model", "--source", "wiki", "--format", "arpa", "--json"),
            *("-o", tmp_path / "wiki.arpa"),
            cwd=work,
        )
    )
    model = PublicModel.load(work / "public.model")["wiki"]
    assert told["source"] == "wiki"
    assert told["ngrams"] == model.sizes
    assert read_arpa(tmp_path / "wiki.arpa").score("the red fish") == model.score("the red fish")
    run_in_process(
        "export",
        "public.model",
        "--source",
        "talk",
        "--format",
        "model",
        "-o",
        tmp_path / "talk",
        cwd=work,
    )
    run_in_process(
        "vocab",
        f"a={tmp_path / 'talk'}",
        f"b={tmp_path / 'wiki.arpa'}",
        "-o",
        tmp_path / "v",
        "--order",
        2,
        cwd=work,
    )
    assert Vocabulary.load(tmp_path / "v").source_names == ["a", "b"]


def test_a_quantised_source(work, tmp_path):
    given = ("--source", "wiki", "--format", "model", "--quantize", 4, "--json")
    told = json.loads(
        check_output("export", "public.model", *given, "-o", tmp_path / "wiki", cwd=work)
    )
    assert told["bytes"] == sum(file.stat().st_size for file in (tmp_path / "wiki").iterdir())
    model = LanguageModel.load(tmp_path / "wiki")
    assert model.sizes == told["ngrams"]
    assert model.trie.layout.probability_bits == 4


def test_names_of_a_source_are_written_as_in_public_text(work, tmp_path):
    (tmp_path / "names.txt").write_text("we saw Red and Red\n", encoding="utf-8")
    given = ("--source", "wiki", "--format", "model", "--case-from", tmp_path / "names.txt")
    run_in_process("export", "public.model", *given, "-o", tmp_path / "wiki", cwd=work)
    assert LanguageModel.load(tmp_path / "wiki").casing == {"red": "Red"}


def test_the_only_source_needs_no_name(work, tmp_path):
    run_in_process(
        "vocab", "wiki.txt", "-o", tmp_path / "v.parquet", "--model", tmp_path / "m", cwd=work
    )
    run_in_process(
        "export", tmp_path / "m", "--format", "arpa", "-o", tmp_path / "m.arpa", cwd=work
    )
    assert (tmp_path / "m.arpa").is_file()


def test_what_export_refuses(work, tmp_path):
    given = ("export", "public.model", "-o", tmp_path / "x")
    assert "has the sources wiki, talk; name one with --source" in expect_refusal(
        *given, "--format", "arpa", cwd=work
    )
    assert "--source 'news'" in expect_refusal(
        *given, "--format", "arpa", "--source", "news", cwd=work
    )
    assert "choose arpa or model" in expect_refusal(
        *given, "--format", "tsv", "--source", "wiki", cwd=work
    )
    assert "leave them out" in expect_refusal(
        *given, "--format", "arpa", "--source", "wiki", "--prune", 20, cwd=work
    )
    smaller = (*given, "--format", "model", "--source", "wiki", "--max-size", "1MB")
    assert "vocab --model-size" in expect_refusal(*smaller, cwd=work)
    told = expect_refusal(
        "export", work, "--format", "arpa", "--source", "wiki", "-o", tmp_path / "x", cwd=work
    )
    assert "no public model; leave it out" in told
    assert not (tmp_path / "x").exists()


def test_what_vocab_refuses_leaves_nothing(work, tmp_path):
    given = ("vocab", "wiki=wiki.txt", "talk=talk.txt", "--order", 1, "-o", tmp_path / "v.parquet")
    model = ("--model", tmp_path / "m")
    assert "none is kept; leave them out" in expect_refusal(
        *given, "--model-order", 3, "--no-model", cwd=work
    )
    assert "give one of them" in expect_refusal(*given, *model, "--no-model", cwd=work)
    assert "--model-order 1" in expect_refusal(*given, *model, "--model-order", 1, cwd=work)
    assert "--model-size 3" in expect_refusal(*given, *model, "--model-size", 3, cwd=work)
    assert "such as 10MB" in expect_refusal(*given, *model, "--model-size", "small", cwd=work)
    assert "the smallest model of these" in expect_refusal(
        *given, *model, "--model-size", "1KB", cwd=work
    )
    assert "is the --output too" in expect_refusal(
        *given, "--model", tmp_path / "v.parquet", cwd=work
    )
    assert "would replace the input wiki.txt; choose another --model" in expect_refusal(
        *given, "--model", "wiki.txt", "--force", cwd=work
    )
    assert "leave --engine spark or --model out" in expect_refusal(
        *given, *model, "--engine", "spark", cwd=work
    )
    listed = (
        "vocab",
        "wiki=wiki.txt",
        "old=vocab.parquet",
        "--order",
        1,
        "-o",
        tmp_path / "v.parquet",
        *model,
    )
    assert "counted before" in fail(*listed, cwd=work, code=2)
    assert not list(tmp_path.iterdir())


def test_when_the_second_can_not_take_its_place_the_first_does_not(work, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(PublicModel, "write", full)
    given = (
        "vocab",
        "wiki.txt",
        "--order",
        1,
        "-o",
        tmp_path / "v.parquet",
        "--model",
        tmp_path / "m",
    )
    assert "nothing was left behind" in expect_refusal(*given, cwd=work, code=1)
    assert not list(tmp_path.iterdir())


def test_a_damaged_model_is_refused(work, tmp_path):
    run_in_process(
        "vocab", "wiki.txt", "--order", 1, "-o", tmp_path / "v", "--model", tmp_path / "m", cwd=work
    )
    (tmp_path / "m" / "public.json").write_text("{}")
    given = ("export", tmp_path / "m", "--format", "arpa", "-o", tmp_path / "x")
    assert "the public model is damaged; make it again" in expect_refusal(*given, cwd=work, code=1)


def test_a_release_moves_the_public_model(work, tmp_path):
    (tmp_path / "posts.csv").write_text(
        "user,text\n" + "".join(f"{user},i like the red fish\n" for user in range(300))
    )
    run_in_process(
        "count",
        tmp_path / "posts.csv",
        "--vocab",
        "vocab.parquet",
        "-o",
        tmp_path / "counts",
        cwd=work,
    )
    given = (
        "release",
        tmp_path / "counts",
        "--vocab",
        "vocab.parquet",
        "--epsilon",
        1,
        "-o",
        tmp_path / "out",
    )
    run_in_process(*given, cwd=work)
    exported = ("export", tmp_path / "out", "--public", work / "public.model", "--format")
    said = json.loads(check_output(*exported, "model", "-o", "people", "--json", cwd=tmp_path))
    model, public = (
        LanguageModel.load(tmp_path / "people"),
        PublicModel.load(work / "public.model").mixture,
    )
    assert said["ngrams"] == model.sizes
    assert model.about["public_model"] == ["wiki", "talk"]
    assert model.sizes[0] == public.sizes[0]
    run_in_process(
        *exported, "arpa", "--prune", model.sizes[0] + 3, "-o", tmp_path / "small.arpa", cwd=work
    )
    assert sum(read_arpa(tmp_path / "small.arpa").sizes) == model.sizes[0] + 3
    run_in_process(
        "vocab",
        "wiki.txt",
        "--order",
        1,
        "-o",
        tmp_path / "v",
        "--model",
        tmp_path / "other",
        cwd=work,
    )
    assert "another vocabulary" in expect_refusal(
        *(
            "export",
            tmp_path / "out",
            "--public",
            tmp_path / "other",
            "--format",
            "model",
            "-o",
            tmp_path / "no",
        ),
        cwd=work,
    )
    assert not (tmp_path / "no").exists()
