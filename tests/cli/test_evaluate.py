"""evaluate --text with several texts, names and a picture: through the installed entry point, and in this process."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayesgram as bg
from bayesgram.audit.evaluation import DISCLOSURE
from bayesgram.audit.quality_chart import MEASURES, _mean_line, draw_quality_over_epsilon
from bayesgram.audit.text_evaluation import EvaluatedModel, ModelClaim, group_families
from bayesgram.cli.release import _print_release
from bayesgram.releases.quality import QUALITY_DETAILS
from helpers import commands
from helpers.commands import check_output, expect_failure, run_in_process
from helpers.reference_language_models import make_release

SECRET = "zanzibarmagicpassword"
TABLE = {("the",): 9.0, ("red",): 5.0, ("fish",): 6.0, ("the", "red"): 4.0, ("red", "fish"): 3.0}
fail = partial(expect_failure, secret=SECRET)
refused = partial(commands.expect_refusal, secret=SECRET)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Two releases of different ε, a model folder of one, a public model with other words, and texts."""
    folder = tmp_path_factory.mktemp("texts with spaces")
    vocabulary = bg.Vocabulary.from_public(
        pa.table({"text": ["the red fish swims", "the fish"]}), order=2
    )
    counts = bg.count(
        pa.table({"user": ["ann", "bob"], "text": ["The red fish!", "a red fish"]}), vocabulary
    )
    for epsilon in (0.5, 2.0):
        made = bg.release(counts, vocabulary, bg.Posterior(), bg.Budget(epsilon, 1e-7))
        made.save(folder / f"out-{epsilon:g}")
    bg.lm.LanguageModel.open(folder / "out-2").save(folder / "kept")
    bg.lm.LanguageModel.from_release(make_release(TABLE, tokenizer="words")).save(
        folder / "by hand"
    )
    bg.lm.LanguageModel.from_counts(pa.array(["red fish", "blue fish"]), [3, 2]).save(
        folder / "public"
    )
    (folder / "posts.txt").write_text(f"The red fish swims.\nMy {SECRET} swims.\n")
    pq.write_table(pa.table({"text": ["a fish", "the fish"]}), folder / "reviews.parquet")
    (folder / "a=b.txt").write_text("red fish\n")
    (folder / "nothing.txt").write_text("... !\n")
    (folder / "foreign.txt").write_text("ein roter hering\n")
    return folder


def test_texts_and_models_with_names(work):
    arguments = ("evaluate", "ours=out-0.5", "ours=out-2", "public", "--text", "posts=posts.txt")
    found = json.loads(
        check_output(*arguments, "--text", "reviews=reviews.parquet", "--json", cwd=work)
    )
    assert DISCLOSURE in found["warning"]
    told = [(row["name"], row["model"], row["epsilon"]) for row in found["text"]]
    assert told == [("ours", "out-0.5", 0.5), ("ours", "out-2", 2.0), ("public", "public", None)]
    assert not found["same_words"]
    first = found["text"][0]
    assert [(part["name"], part["share"]) for part in first["by_text"]] == [
        ("posts", 7 / 11),
        ("reviews", 4 / 11),
    ]
    assert first["by_frequency"][-1]["name"] == "unknown"
    assert first["by_frequency"][-1]["perplexity"] is None
    texts = {"posts": str(work / "posts.txt"), "reviews": str(work / "reviews.parquet")}
    same = bg.evaluate_text({"": work / "out-0.5"}, texts)[""].to_json()
    assert {name: first[name] for name in same} == same


def test_tables_for_people(work, capsys):
    run_in_process(
        "evaluate",
        "out-0.5",
        "public",
        "--text",
        "posts=posts.txt",
        "--text",
        "r=reviews.parquet",
        "--verbose",
        cwd=work,
    )
    shown = capsys.readouterr()
    for title in (
        "Held-out text",
        "Of it, ",
        "Perplexity, by how",
        "First suggestion, by how",
        "Keys saved, by how",
    ):
        assert title in shown.out
    told = " ".join(shown.err.split())
    assert (
        "these models don't know the same words, so that their perplexities don't compare" in told
    )
    assert "not covered by any ε" in told
    assert SECRET not in shown.out + shown.err
    run_in_process(
        "evaluate", "out-0.5", "kept", "--text", "./a=b.txt", "--text", "posts.txt", cwd=work
    )
    shown = capsys.readouterr()
    assert "Of it, " not in shown.out
    assert "don't compare" not in shown.err


def test_a_file_with_an_equals_sign_is_a_path(work, capsys):
    run_in_process("evaluate", "out-0.5", "--text", "a=b.txt", "--json", cwd=work)
    assert json.loads(capsys.readouterr().out)["text"][0]["words"] == 2


def test_a_picture(work, tmp_path, capsys):
    arguments = ("evaluate", "out-0.5", "out-2", "public", "--text", "posts.txt", "--json")
    run_in_process(*arguments, "--plot", tmp_path / "over.svg", cwd=work)
    capsys.readouterr()
    drawn = "".join(ET.parse(tmp_path / "over.svg").getroot().itertext())
    for words in (
        "out (PROVED)",
        "public",
        "keystrokes saved",
        "not for publication",
        "Dotted",
        "don't compare",
    ):
        assert words in drawn
    assert refused(*arguments, "--plot", tmp_path / "over.svg", cwd=work, code=2).endswith(
        "choose another --plot, or replace it with --force."
    )
    several = ("--text", "posts=posts.txt", "--text", "reviews=reviews.parquet")
    run_in_process(*arguments[:3], *several, "--plot", tmp_path / "two.svg", "--json", cwd=work)
    drawn = list(ET.parse(tmp_path / "two.svg").getroot().itertext())
    assert [drawn.count(words) for words in ("posts", "reviews", "keystrokes saved")] == [1, 1, 2]
    capsys.readouterr()
    run_in_process(*arguments, "--plot", tmp_path / "over.PNG", "--force", cwd=work)
    assert (tmp_path / "over.PNG").read_bytes().startswith(b"\x89PNG")
    assert json.loads(capsys.readouterr().out)["same_words"] is False


def test_wrong_use(work, tmp_path, capsys):
    plot = ("--plot", tmp_path / "x.svg")
    text = ("--text", "posts.txt")
    for arguments, problem in (
        (("out-2", "--text", "a=posts.txt", "--text", "a=reviews.parquet"), "a=reviews.parquet: the text 'a' has posts.txt already; several files of one text are"),
        (("out-2", "--text", "a=posts.txt", "--text", "reviews.parquet"), "give every text a name (NAME=PATH), or none of them."),
        (("out-2", "--text", "my posts=posts.txt"), "'my posts' is no name of a text; a name has 1 to 32 letters"),
        (("out-2", "--text", "posts="), "posts=: names no file; give posts=PATH."),
        (("out-2", "--text", "nowhere.txt"), "nowhere.txt: no such file"),
        (("out-2", ".", *text), ".: not a model folder (no model.json); make one with `bayesgram export --format model`."),
        (("out-2", "nowhere", *text), "nowhere: no such file"),
        (("out-2", "x=out-2", *text), "x=out-2: is given twice; give each once."),
        (("my model=out-2", *text), "'my model' is no name of a model"),
        (("out-2", *text, "--plot", tmp_path / "x.pdf"), "x.pdf: a picture is a .svg or a .png; give a name that ends so."),
        (("out-2", *text, "--plot", work / "posts.txt" / "x.svg"), "posts.txt is a file, and no folder can be in it; choose another --plot."),
        (("out-2", "--against", "counts", *plot), "--plot shows how models do on text; give --text too, or leave --plot out."),
        (("public", *text, *plot), "--plot: none of these models says an ε; give a release, or a model folder made of one."),
    ):  # fmt: skip
        assert problem in refused("evaluate", *arguments, cwd=work, code=2)
    assert not (tmp_path / "x.svg").exists()
    assert "Predicting with out-2" not in capsys.readouterr().err


def test_texts_that_say_nothing(work):
    assert fail("evaluate", "out-2", "--text", "nothing.txt", cwd=work, code=1).endswith(
        "error: the text has no words: there is nothing to predict."
    )
    both = ("--text", "posts=posts.txt", "--text", "other=foreign.txt")
    told = refused("evaluate", "ours=out-2", *both, cwd=work, code=1)
    assert told.startswith(
        "ours: knows no word of text 'other'; give text in the language of the model"
    )


# Families


QUALITY = bg.evaluate_text(
    {"": bg.lm.LanguageModel.from_counts(pa.array(["red fish"]), [1.0])},
    pa.table({"text": ["red fish"]}),
)[""]


def judged(name, claim=None):
    return EvaluatedModel(
        name, name, ModelClaim.from_description({} if claim is None else {"claim": claim}), QUALITY
    )


def test_models_that_differ_by_their_epsilon_are_a_family():
    models = [
        judged("out-8", "ε = 8, δ = 1e-07 (PROVED, weak)"),
        judged("out-0.2", "ε = 0.2, δ = 1e-07 (PROVED)"),
        judged("other", "ε = 1, δ = 1e-07 (PROVED)"),
        judged("out-1", "ε = 1, δ = 1e-07 (EMPIRICAL)"),
        judged("1", "ε = 1, δ = 1e-07 (PROVED)"),
        judged("public"),
        judged("none", "no ε (NONE)"),
    ]
    found = group_families(models)
    assert [(family.label, [each.name for each in family.members]) for family in found] == [
        ("out (PROVED; weak at ε = 8)", ["out-0.2", "out-8"]),
        ("other (PROVED)", ["other"]),
        ("out (EMPIRICAL)", ["out-1"]),
        ("1 (PROVED)", ["1"]),
    ]
    picture = draw_quality_over_epsilon(models, same_words=True).to_svg()
    assert [picture.count(f">{measure.title}<") for measure in MEASURES] == [1] * len(MEASURES)
    for word in ("Rings", "Dashed", "Dotted"):
        assert f"{word}: " in picture
    for style in ("ring ", "dashed", "reference dotted"):
        assert style in picture


def test_the_claim_of_a_mixture_is_that_of_its_one_release():
    released, public = {"claim": "ε = 1e-05, δ = 1e-07 (PROVED)"}, {"weight": 0.5}
    assert ModelClaim.from_description({"interpolated": [released, public]}) == ModelClaim(
        1e-05, "PROVED"
    )
    assert ModelClaim.from_description({"interpolated": [released, released]}) == ModelClaim(
        None, None
    )
    assert (
        ModelClaim.from_description({"interpolated": [public]})
        == ModelClaim.from_description({"claim": 7})
        == ModelClaim(None, None)
    )


def test_releases_of_one_epsilon_are_points_and_a_line_through_their_mean():
    one, other = judged("a", "ε = 1, δ = 0 (PROVED)"), judged("a", "ε = 1, δ = 0 (PROVED)")
    part = replace(QUALITY.by_text[0], perplexity=QUALITY.perplexity + 2)
    other = replace(other, quality=replace(QUALITY, by_text=(part,)))
    picture = draw_quality_over_epsilon([one, other], same_words=True).to_svg()
    for value in (QUALITY.perplexity, QUALITY.perplexity + 2):
        assert f": {value:.4g}</title>" in picture
    family = group_families([one, other])[0]
    line = _mean_line(replace(MEASURES[0], text=0), family, "blue")
    assert list(line.y) == [QUALITY.perplexity + 1]


# --private-text


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A release of bigrams with a card that estimates its quality, its vocabulary, text and counts."""
    folder = tmp_path_factory.mktemp("written")
    texts = [f"the red fish swims {SECRET}", "a red fish", "the red fish"] * 40
    (folder / "private.txt").write_text("\n".join(texts) + "\n")
    vocabulary = bg.Vocabulary.from_public(
        pa.table({"text": ["the red fish swims", "the fish swims", "a blue fish"]}), order=2
    )
    vocabulary.save(folder / "vocab.parquet")
    users = [f"user {row // 2}" for row in range(len(texts))]
    counts = bg.count(pa.table({"user": users, "text": texts}), vocabulary)
    bg.save_counts(counts, vocabulary, folder / "counts")
    made = bg.release(counts, vocabulary, epsilon=2.0)
    others = {
        name: value for name, value in made.card.details.items() if name not in QUALITY_DETAILS
    }
    plain = replace(made, card=replace(made.card, details=others))
    plain.save(folder / "plain")
    details = {
        "coverage": {"2": {"share": 0.7, "std": 0.02}},
        "quality": {"2": {"error_removed": 0.5, "known": 2.0, "known_mass": 0.4}},
        "std_parts": {"2": {"noise": 0.1, "shrinkage": 0.2, "clipping": 0.05}},
    }
    card = replace(made.card, details={**made.card.details, **details})
    replace(made, card=card).save(folder / "out")
    other = bg.Vocabulary.from_public(pa.table({"text": ["a red fish"]}), order=2)
    other.save(folder / "other.parquet")
    segment = {"by": "country", "name": "de", "names": ["de", "fr"], "other": False}
    made.with_card_values(segment=segment).save(folder / "de")
    return folder


PRIVATE_TEXT = ("--private-text", "private.txt")


def test_the_private_text_gives_coverage_error_removed_and_top_ngrams(written):
    arguments = ("evaluate", "out", *PRIVATE_TEXT, "--vocab", "vocab.parquet")
    done = commands.bayesgram(*arguments, cwd=written)
    assert done.returncode == 0, done.stderr
    shown = done.stdout
    # Of 40 × (4 + 2 + 2) bigrams, `swims SECRET` and `a red` are not in public text.
    assert (
        "out: the vocabulary covers 75% of people's bigrams (the card estimates 70% ± 4%)." in shown
    )
    assert "of public text's error on listed bigrams (the card estimates 50%)." in shown
    assert "The bigrams that people write most" in shown
    assert SECRET not in shown + done.stderr
    assert f"These numbers are {DISCLOSURE}" in " ".join(done.stderr.split())
    found = json.loads(check_output(*arguments, "--json", cwd=written))
    assert DISCLOSURE in found["warning"]
    (quality,) = found["quality"]
    assert (quality["release"], quality["order"], quality["coverage"]) == ("out", 2, 0.75)
    assert quality["coverage_estimate"] == {"share": 0.7, "std": 0.02}
    assert quality["error_removed_estimate"] == 0.5
    (top,) = quality["top"]
    assert (top["size"], top["listed"], top["ranked"]) == (5, 3.0, 3)
    against = json.loads(
        check_output(
            "evaluate", "out", "--against", "counts", "--vocab", "vocab.parquet", "--json",
            cwd=written,
        )
    )  # fmt: skip
    by_counts = against["quality"][0]
    assert by_counts["error_removed"] == pytest.approx(quality["error_removed"])
    assert (by_counts["coverage"], by_counts["top"]) == (None, [])
    kl = {row["release"]: row["kl"] for row in against["releases"]}
    assert by_counts["error_removed"] == pytest.approx(1 - kl["out"] / kl["public text alone"])


def test_a_card_that_estimates_nothing_and_no_vocabulary(written, capsys):
    run_in_process("evaluate", "plain", *PRIVATE_TEXT, cwd=written)
    shown = capsys.readouterr().out
    assert "plain: the vocabulary covers 75% of people's bigrams." in shown
    assert "public text's error" not in shown
    assert "estimates" not in shown
    run_in_process("evaluate", "plain", "--against", "counts", "--json", cwd=written)
    assert "quality" not in json.loads(capsys.readouterr().out)


def test_wrong_use_of_the_private_text(written):
    for arguments, problem in (
        (("out", *PRIVATE_TEXT, "--vocab", "other.parquet"), "was made with another vocabulary"),
        (("out", "de", *PRIVATE_TEXT), "the releases are of different segments"),
        (("out", "--private-text", "nowhere.txt"), "nowhere.txt: no such file"),
    ):
        assert problem in refused("evaluate", *arguments, cwd=written, code=2)


def test_release_prints_and_writes_what_the_card_says(written, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "0")  # whole lines, as a pipe gets them
    made = bg.Release.load(written / "out")
    _print_release(made, written / "out", json=False, verbose=True)
    lines = capsys.readouterr().out.splitlines()
    assert "".join(lines).count("The vocabulary covers 70% ± 4% of people's bigrams") == 1
    assert lines[-1].startswith("Written to: ")
    assert [line.partition(":")[0] for line in lines[-3:-1]] == ["Quality", "Deviations"]
    _print_release(made, written / "out", json=True, verbose=False)
    assert json.loads(capsys.readouterr().out)["card"]["quality"] == made.card.quality_sentences


def test_the_report_and_its_json_say_how_good_a_release_is(written, tmp_path):
    page = tmp_path / "report.html"
    shown = check_output("report", "out", "--vocab", "vocab.parquet", "-o", page, cwd=written)
    summary = (
        "The vocabulary covers 70% ± 4% of people's bigrams; on those, the release removes an"
        " estimated 50% of public text's error; 2 n-grams are known within a factor of 2."
    )
    assert summary in shown
    assert summary.replace("'", "&#39;") in page.read_text()
    assert "std parts" not in page.read_text()
    found = json.loads(
        check_output("report", "out", "plain", "-o", tmp_path / "two.html", "--json", cwd=written)
    )
    assert found["quality"]["out"][0] == summary
    assert found["quality"]["plain"] == []


def test_infer_does_not_keep_what_the_first_inference_said(written, tmp_path):
    arguments = ("infer", "out", "--vocab", "vocab.parquet", "-o", tmp_path / "again", "--json")
    details = json.loads(check_output(*arguments, cwd=written))["card"]["details"]
    assert details.get("quality") != {"2": {"error_removed": 0.5, "known": 2.0, "known_mass": 0.4}}
