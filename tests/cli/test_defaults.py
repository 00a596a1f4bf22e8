"""The commands without options: a keyboard model of public text, corrected by a release."""

import json
from functools import partial

import pytest

import bayesgram as bg
from bayesgram.lm.language_model import LanguageModel
from bayesgram.public import release_model
from bayesgram.public.public_model import PublicModel
from bayesgram.public.vocabulary import Vocabulary
from helpers.commands import bayesgram, check_output, expect_failure, expect_refusal, run_in_process

fail = partial(expect_failure, secret="\0")

PUBLIC = "thank you very much. i like the red fish.\nthank you for the red fish. see you soon.\n"


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A release by the short commands, in the folder of its vocabulary."""
    folder = tmp_path_factory.mktemp("short way")
    (folder / "text.txt").write_text(PUBLIC * 20)
    rows = [f"{user},thank you so much for the fish\n" for user in range(500)]
    (folder / "posts.csv").write_text("user,text\n" + "".join(rows))
    check_output("vocab", "text.txt", "-o", "vocab.parquet", cwd=folder)
    check_output("count", "posts.csv", "--vocab", "vocab.parquet", "-o", "counts", cwd=folder)
    check_output(
        *("release", "counts", "--vocab", "vocab.parquet", "--epsilon", 1, "-o", "out"),
        cwd=folder,
    )
    return folder


def read_predictions(*arguments, cwd):
    return json.loads(check_output("predict", *arguments, "--json", cwd=cwd))


def test_the_vocabulary_has_three_orders_and_boundaries_and_its_public_model(work):
    vocabulary = Vocabulary.load(work / "vocab.parquet")
    assert [part.order for _, part in vocabulary.by_order] == [1, 2, 3]
    assert vocabulary.tokenizer.boundaries
    assert "<s> thank you" in vocabulary.ngrams.to_pylist()
    assert PublicModel.load(work / "vocab.parquet.model").vocabulary.fingerprint == (
        vocabulary.fingerprint
    )
    python = bg.Vocabulary.from_public(str(work / "text.txt"))
    assert python.fingerprint == vocabulary.fingerprint


@pytest.mark.parametrize("options", [("--order", 3), ("--orders", "1,2")])
def test_named_orders_are_made_as_named(work, tmp_path, options):
    run_in_process("vocab", "text.txt", *options, "-o", tmp_path / "v.parquet", cwd=work)
    vocabulary = Vocabulary.load(tmp_path / "v.parquet")
    assert not vocabulary.tokenizer.boundaries
    assert [part.order for _, part in vocabulary.by_order] == ([3] if 3 in options else [1, 2])
    assert (tmp_path / "v.parquet.model").is_dir()


def test_boundaries_and_the_model_can_be_left_out(work, tmp_path):
    given = ("vocab", "text.txt", "--no-boundaries", "--no-model", "-o", tmp_path / "v.parquet")
    run_in_process(*given, cwd=work)
    assert not Vocabulary.load(tmp_path / "v.parquet").tokenizer.boundaries
    assert {path.name for path in tmp_path.iterdir()} == {"v.parquet", "v.parquet.rows"}


def test_a_source_that_is_no_text_has_no_public_model(work, tmp_path):
    given = ("vocab", "vocab.parquet", "-o", tmp_path / "v.parquet")
    done = bayesgram(*given, cwd=work)
    assert done.returncode == 0, done.stderr
    assert "no public model is kept, because vocab.parquet is not text" in " ".join(
        done.stderr.split()
    )
    assert not (tmp_path / "v.parquet.model").exists()


def test_predict_finds_the_public_model(work, tmp_path):
    with_public = read_predictions("out", "thank you", cwd=work)
    assert with_public["public_model"] == ["public"]
    named = ("--public", work / "vocab.parquet.model")
    assert read_predictions(work / "out", "thank you", cwd=tmp_path) == with_public  # beside it
    assert read_predictions("out", "thank you", *named, cwd=work) == with_public
    alone = read_predictions("out", "thank you", "--no-public", cwd=work)
    assert alone["public_model"] == []
    assert alone["predictions"] != with_public["predictions"]
    model = bg.open_model(work / "out")
    assert [p._asdict() for p in model.predict("thank you", 5)] == with_public["predictions"]
    rough = bg.open_model(work / "out", use_public=False)
    assert [p._asdict() for p in rough.predict("thank you", 5)] == alone["predictions"]


def evaluate_models(*arguments, cwd):
    document = json.loads(
        check_output("evaluate", *arguments, "--text", "posts.csv", "--json", cwd=cwd)
    )
    return {row["name"]: row for row in document["text"]}


def test_evaluate_judges_the_model_that_predict_uses(work, tmp_path):
    judged = evaluate_models("out", "--vocab", "vocab.parquet", cwd=work)
    assert judged["out"]["public_model"] == ["public"]
    text = str(work / "posts.csv")
    expected = bg.evaluate_text({"out": bg.open_model(work / "out")}, text)["out"]
    assert judged["out"]["perplexity"] == pytest.approx(expected.perplexity)
    assert bg.evaluate(work / "out", text=text).texts["release"] == expected
    # Public text alone is the model that the release corrects.
    mixture = PublicModel.load(work / "vocab.parquet.model").mixture
    public = bg.evaluate_text({"public": mixture}, text)["public"]
    assert judged["public text alone"]["perplexity"] == pytest.approx(public.perplexity)
    named = evaluate_models("out", "--public", "vocab.parquet.model", cwd=work)
    assert named["out"]["perplexity"] == judged["out"]["perplexity"]
    alone = evaluate_models("out", "--no-public", cwd=work)["out"]
    assert alone["public_model"] == []
    rough = LanguageModel.from_release(bg.Release.load(work / "out"))
    expected = bg.evaluate(rough, text=text).texts["release"]
    assert alone["perplexity"] == pytest.approx(expected.perplexity)
    assert bg.evaluate(work / "out", text=text, use_public=False).texts["release"] == expected


def test_evaluate_says_which_public_model_was_used(work, capsys):
    given = ("evaluate", "out", "--text", "posts.csv")
    run_in_process(*given, cwd=work)
    said = " ".join(capsys.readouterr().err.split())
    assert "Language model of out: the public model (public), corrected by the release." in said
    run_in_process(*given, "--no-public", cwd=work)
    said = " ".join(capsys.readouterr().err.split())
    assert "Language model of out: the release alone, without a public model" in said


def test_wrong_use_of_public_models_in_evaluate(work, tmp_path):
    run_in_process("vocab", "text.txt", "--order", 2, "-o", tmp_path / "v.parquet", cwd=work)
    run_in_process("export", "out", "-o", tmp_path / "model", cwd=work)
    given = ("evaluate", "out", "--text", "posts.csv")
    other = ("--public", tmp_path / "v.parquet.model")
    for arguments, problem in (
        ((*given, *other), "out: was made with another vocabulary than the public model"),
        ((*given, *other, "--no-public"), "--public and --no-public: give one of them."),
        (
            ("evaluate", tmp_path / "model", "--text", "posts.csv", *other),
            "--public: is for a release",
        ),
        (("evaluate", "out", "--against", "counts", *other), "for language models, which --text"),
    ):
        assert problem in expect_refusal(*arguments, cwd=work, code=2, secret="\0")


def test_export_finds_it_too_and_chooses_the_format_by_the_ending(work, tmp_path):
    said = json.loads(check_output("export", "out", "-o", tmp_path / "m", "--json", cwd=work))
    assert (said["format"], said["public_model"]) == ("model", ["public"])
    expected = bg.open_model(work / "out")
    assert LanguageModel.load(tmp_path / "m").score("thank you") == expected.score("thank you")
    for name, format_ in (("m.arpa", "arpa"), ("t.tsv", "tsv"), ("t.JSONL", "jsonl")):
        said = json.loads(check_output("export", "out", "-o", tmp_path / name, "--json", cwd=work))
        assert said["format"] == format_
    alone = ("export", "out", "--no-public", "-o", tmp_path / "alone", "--json")
    assert json.loads(check_output(*alone, cwd=work))["public_model"] == []


def test_the_model_is_found_beside_the_vocabulary_that_the_card_names(work, tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    given = ("release", "counts", "--vocab", "vocab.parquet", "--epsilon", 1)
    run_in_process(*given, "-o", tmp_path / "deep" / "er" / "out", cwd=work)
    said = read_predictions(tmp_path / "deep" / "er" / "out", "thank you", cwd=work)
    assert said["public_model"] == ["public"]
    said = read_predictions(tmp_path / "deep" / "er" / "out", "thank you", cwd=tmp_path)
    assert said["public_model"] == []
    assert any("no other public text" in reason for reason in said["rough"])


def test_of_several_models_one_must_be_named(work, tmp_path):
    run_in_process(
        *("vocab", "text.txt", "-o", tmp_path / "v.parquet", "--model", tmp_path / "other"),
        cwd=work,
    )
    run_in_process("predict", work / "out", "thank you", "--public", tmp_path / "other", cwd=work)
    message = expect_refusal("predict", work / "out", "thank you", cwd=tmp_path)
    assert "several public models fit the release" in message
    assert message.endswith("name one with --public.")


def test_wrong_uses(work, tmp_path):
    both = ("--public", "vocab.parquet.model", "--no-public")
    assert "give one of them" in expect_refusal("predict", "out", "a", *both, cwd=work)
    assert "give one of them" in expect_refusal("export", "out", "-o", "x", *both, cwd=work)
    run_in_process("export", "out", "-o", tmp_path / "m", cwd=work)
    assert "are for a release" in expect_refusal(
        "predict", tmp_path / "m", "a", "--no-public", cwd=work
    )
    with pytest.raises(bg.UsageError, match="is for a release"):
        bg.open_model(tmp_path / "m", public=work / "vocab.parquet.model")
    with pytest.raises(bg.UsageError, match="give one"):
        bg.open_model(work / "out", public=work / "vocab.parquet.model", use_public=False)


def test_a_rough_model_says_so_and_a_good_one_does_not(work, tmp_path, monkeypatch):
    done = bayesgram("predict", "out", "thank you", cwd=work)
    message = " ".join(done.stderr.split())
    assert "this is a rough model. The public text is short" in message
    assert "People's text is short" in message
    monkeypatch.setattr(release_model, "MIN_PUBLIC_WORDS", 10)
    monkeypatch.setattr(release_model, "MIN_PRIVATE_WORDS", 10)
    parts = release_model.ReleaseModel.from_folder(work / "out")
    assert parts.roughness == []
    alone = release_model.ReleaseModel.from_folder(work / "out", use_public=False)
    assert "bayesgram vocab" in alone.roughness[0]
    run_in_process("vocab", "text.txt", "--order", 2, "-o", tmp_path / "v.parquet", cwd=work)
    counted = ("count", "posts.csv", "--vocab", tmp_path / "v.parquet", "-o", tmp_path / "c")
    run_in_process(*counted, cwd=work)
    run_in_process(
        *("release", tmp_path / "c", "--vocab", tmp_path / "v.parquet", "--epsilon", 1),
        *("-o", tmp_path / "pairs"),
        cwd=work,
    )
    pairs = release_model.ReleaseModel.from_folder(tmp_path / "pairs")
    assert "one length only (order 2)" in " ".join(pairs.roughness)
