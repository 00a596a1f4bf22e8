"""export --format aosp, suggest, hunspell and hub, and --min-count, through the command."""

import json

import pytest

from bayesgram.releases.release import Release
from helpers.commands import check_output, expect_refusal, run_in_process
from helpers.consumer_formats import read_combined, read_completions, read_dic, read_lucene


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A release of words and bigrams of 300 people, with little noise."""
    folder = tmp_path_factory.mktemp("consumers")
    (folder / "text.txt").write_text("Fish in Paris swim. the red fish sleeps in Paris.\n" * 30)
    rows = [f"{user},the red fish swims in paris\n{user},fish swim\n" for user in range(300)]
    (folder / "posts.csv").write_text("user,text\n" + "".join(rows))
    (folder / "block.txt").write_text("red fish\n")
    run_in_process(
        "vocab", "text.txt", "--orders", "1,2", "--no-model", "-o", "vocab.parquet", cwd=folder
    )
    run_in_process("count", "posts.csv", "--vocab", "vocab.parquet", "-o", "counts", cwd=folder)
    given = ("release", "counts", "--vocab", "vocab.parquet", "--epsilon", 50, "-o", "out")
    run_in_process(*given, cwd=folder)
    return folder


def export(work, output, *arguments):
    said = check_output("export", "out", "-o", output, "--json", *arguments, cwd=work)
    return json.loads(said)


def test_a_keyboard_gets_names_and_no_blocked_phrase(work, tmp_path):
    report = export(
        work, tmp_path / "en.combined", "--case-from", "text.txt", "--block", "block.txt"
    )
    header, words = read_combined(tmp_path / "en.combined")
    assert report["format"] == "aosp"  # by the ending
    assert report["ngrams"] == len(words) + sum(len(after) for _, after in words.values())
    assert report["unwritable"] == 0
    assert "PROVED" in header
    assert "Paris" in words
    assert "fish" in words
    assert "fish" not in words["red"][1]
    assert "Paris" in words["in"][1]


def test_both_programs_get_the_same_suggestions(work, tmp_path):
    export(work, tmp_path / "s.tsv", "--format", "suggest")
    export(work, tmp_path / "s.jsonl", "--format", "suggest")
    suggestions = read_lucene(tmp_path / "s.tsv")
    assert suggestions == read_completions(tmp_path / "s.jsonl")
    assert suggestions.keys() == set(Release.load(work / "out"))


def test_a_spell_checker_gets_words_alone(work, tmp_path):
    report = export(work, tmp_path / "d", "--format", "hunspell", "--locale", "en_GB")
    words = read_dic(tmp_path / "d" / "en_GB.dic")
    assert report["ngrams"] == len(words)
    assert {"fish", "red"} <= set(words)
    assert not [word for word in words if " " in word]


@pytest.mark.parametrize("ending", ["tsv", "combined", "jsonl", "parquet"])
def test_min_count_leaves_out_what_is_not_certain(work, tmp_path, ending):
    everything = export(work, tmp_path / f"all.{ending}")["ngrams"]
    certain = export(work, tmp_path / f"certain.{ending}", "--min-count", 100)["ngrams"]
    assert 0 < certain < everything
    message = expect_refusal(
        *("export", "out", "-o", tmp_path / f"none.{ending}", "--min-count", "1M"), cwd=work, code=1
    )
    assert message == (
        "no n-gram has a count of 1000000 or more, less two deviations; lower --min-count."
    )
    assert not (tmp_path / f"none.{ending}").exists()


REFUSALS = {
    ("--format", "suggest"): "OUTPUT: --format suggest needs an ending: .tsv or .txt for Lucene,"
    " .jsonl for Elasticsearch and OpenSearch.",
    ("--format", "aosp", "--locale", "english please"): "--locale 'english please': must be a"
    " language such as en, or with a region, en_US.",
    ("--format", "suggest", "--locale", "en"): "--locale is for aosp, hunspell and hub, not for"
    " --format suggest; leave it out.",
    ("--format", "hub", "--min-count", "-1"): "--min-count -1: must be 0 or more.",
    ("--format", "model", "--min-count", "5"): "--min-count is not for --format model; leave it"
    " out.",
    ("--format", "hub", "--case-from", "text.txt"): "--case-from is for model, aosp and hunspell,"
    " not for --format hub; leave it out.",
}


@pytest.mark.parametrize("given", list(REFUSALS), ids=" ".join)
def test_wrong_use_is_refused(work, tmp_path, given):
    output = tmp_path / "output"
    message = expect_refusal("export", "out", "-o", output, *given, cwd=work)
    assert message.replace(str(output), "OUTPUT") == REFUSALS[given]
    assert not output.exists()


def test_another_folder_is_never_replaced(work, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "letter.txt").write_text("dear")
    for format_ in ("hunspell", "hub"):
        given = ("export", "out", "--format", format_, "-o", tmp_path / "d", "--force")
        expect_refusal(*given, cwd=work)
    assert (tmp_path / "d" / "letter.txt").read_text() == "dear"
