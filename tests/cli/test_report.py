"""bayesgram report through the installed entry point."""

import json
import re
import shutil

import numpy as np
import pytest

from bayesgram.audit.runner import load_attacks
from bayesgram.errors import BayesgramError
from helpers import attack_targets, commands, reference_paper
from helpers.modes import has_mode

USER = "person-of-interest"


def bayesgram(folder, *arguments, code=0):
    done = commands.bayesgram(*arguments, cwd=folder)
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    assert USER not in done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("a report")
    attack_targets.write_counts_and_vocabulary(folder, users=800, size=60, names=USER)
    common = ("counts.parquet", "--vocab", "vocab.parquet")
    for epsilon in (0.5, 2):
        bayesgram(folder, "release", *common, "--epsilon", epsilon, "-o", f"out {epsilon}")
    audit = (
        "--mechanism",
        "paper",
        "--epsilon",
        1,
        "--max-total",
        60,
        "--attacks",
        "likelihood-ratio",
        "--seed",
        1,
    )
    bayesgram(folder, "audit", *common, *audit, "-o", "audit")
    return folder


def test_the_command_that_made_a_release_is_on_its_card(work):
    card = json.loads((work / "out 0.5" / "card.json").read_text(encoding="utf-8"))
    assert card["command"] == (
        "bayesgram release counts.parquet --vocab vocab.parquet --output 'out 0.5' --epsilon 0.5"
    )


def test_the_command_has_flags_and_choices_and_nothing_that_was_not_typed(work):
    knobs = (
        "--mechanism",
        "paper",
        "--epsilon",
        1,
        "--tune",
        "--slopes",
        "0.1",
        "--delta",
        1e-9,
        "-o",
        "tuned",
        "--json",
    )
    told = json.loads(
        bayesgram(work, "release", "counts.parquet", "--vocab", "vocab.parquet", *knobs).stdout
    )
    assert told["card"]["command"] == (
        "bayesgram release counts.parquet --vocab vocab.parquet --output tuned --mechanism paper --epsilon 1"
        " --delta 1e-09 --json --tune --slopes 0.1"
    )


def test_a_public_report_reads_no_private_file(work, tmp_path):
    for name in ("out 0.5", "out 2"):
        shutil.copytree(work / name, tmp_path / name)
    shutil.copy(work / "vocab.parquet", tmp_path)
    done = bayesgram(
        tmp_path, "report", "out 0.5", "out 2", "--vocab", "vocab.parquet", "-o", "report.html"
    )
    lines = done.stdout.splitlines()
    assert lines[:3] == [
        "Wrote report.html: a page about 2 releases. It opens offline.",
        "The weakest label of these: PROVED.",
        "The page shows released numbers only.",
    ]
    unknown = "How much of people's words the vocabulary covers is unknown"
    for name in ("out 0.5", "out 2"):
        assert f"{name}: {unknown}" in done.stdout
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "--epsilon 0.5" in text
    assert "give the vocabulary with" not in text
    assert "resembles" not in text  # there is one source
    assert "for publication" not in text
    assert "private numbers" not in text
    assert "KL" not in text


def test_private_numbers_on_request_are_stamped_and_for_the_owner_alone(work):
    arguments = (
        "--vocab",
        "vocab.parquet",
        "--against",
        "counts.parquet",
        "--audit",
        "audit",
        "--json",
    )
    told = json.loads(
        bayesgram(work, "report", "out 0.5", "out 2", *arguments, "-o", "private.html").stdout
    )
    assert "not for publication" in told["private"]
    text = (work / "private.html").read_text(encoding="utf-8")
    assert text.count("Private: not for publication") == 2
    assert "This page has private numbers, so the page itself must not be published." in " ".join(
        text.split()
    )
    assert "KL against ε" in text
    assert "NOT private" in text
    assert USER not in text
    assert has_mode(work / "private.html", 0o600)


def test_scores_are_those_of_evaluate(work):
    arguments = ("--against", "counts.parquet", "--vocab", "vocab.parquet")
    rows = json.loads(bayesgram(work, "evaluate", "out 2", *arguments, "--json").stdout)["releases"]
    bayesgram(work, "report", "out 2", *arguments, "-o", "scores.html")
    text = (work / "scores.html").read_text(encoding="utf-8")
    for row in rows:
        assert f"<td>{row['kl']:.4f}</td>" in text


def test_releases_have_names_and_may_lie_in_one_folder(work, tmp_path):
    for name in ("out 0.5", "out 2"):
        shutil.copytree(work / name, tmp_path / "all" / name)
    reference_paper.make_vocabulary(10_000 // np.arange(1, 62)).save(tmp_path / "other.parquet")
    vocabularies = ("--vocab", work / "vocab.parquet")
    bayesgram(tmp_path, "report", tmp_path / "all", *vocabularies, "-o", "all.html")
    text = (tmp_path / "all.html").read_text(encoding="utf-8")
    # In the table of releases, over its explanation, and over its own section. Questions whose
    # answers differ name the releases as well; which ones differ depends on the noise.
    assert min(text.count("<bdi>out 0.5</bdi>"), text.count("<bdi>out 2</bdi>")) >= 3
    assert str(tmp_path) not in re.sub("<pre>.*?</pre>", "", text, flags=re.DOTALL)
    bayesgram(tmp_path, "report", "May=all/out 2", *vocabularies, "-o", "may.html")
    assert "<h2><bdi>May</bdi>" in (tmp_path / "may.html").read_text(encoding="utf-8")
    told = bayesgram(
        tmp_path, "report", "all", *vocabularies, "--vocab", "other.parquet", "-o", "x.html"
    ).stderr
    assert "other.parquet: none of these releases was made with it; it is left out." in " ".join(
        told.split()
    )
    assert (tmp_path / "x.html").read_text(encoding="utf-8").count("<bdi>out 2</bdi>") >= 3


def test_nothing_is_replaced_without_force(work):
    bayesgram(work, "report", "out 2", "-o", "again.html")
    assert "exists already" in bayesgram(work, "report", "out 2", "-o", "again.html", code=2).stderr
    bayesgram(work, "report", "out 2", "-o", "again.html", "--force")


def test_a_vocabulary_that_does_not_belong_is_refused(work):
    reference_paper.make_vocabulary(10_000 // np.arange(1, 62)).save(
        work / "other.parquet", force=True
    )
    told = " ".join(
        bayesgram(
            work, "report", "out 2", "--vocab", "other.parquet", "-o", "x.html", code=2
        ).stderr.split()
    )
    assert "out 2: was made with another vocabulary than" in told
    assert "which has other n-grams; give the vocabulary it was made with" in told
    reference_paper.make_vocabulary(20_000 // np.arange(1, 61)).save(
        work / "counts-differ.parquet", force=True
    )
    told = bayesgram(
        work, "report", "out 2", "--vocab", "counts-differ.parquet", "-o", "x.html", code=2
    ).stderr
    assert "the same n-grams with other public counts" in " ".join(told.split())
    assert not (work / "x.html").exists()


def test_what_is_not_a_release_or_an_audit_is_refused(work):
    told = bayesgram(work, "report", "audit", "-o", "x.html", code=2).stderr
    assert (
        "audit: neither a release folder (no card.json) nor a folder with releases in it"
        in " ".join(told.split())
    )
    told = bayesgram(work, "report", "out 2", "--audit", "out 2", "-o", "x.html", code=2).stderr
    assert "not an audit folder (no audit.json); make one with `bayesgram audit" in " ".join(
        told.split()
    )
    (work / "broken").mkdir(exist_ok=True)
    (work / "broken" / "audit.json").write_text('{"mechanism": 1}')
    told = bayesgram(work, "report", "out 2", "--audit", "broken", "-o", "x.html", code=1).stderr
    assert "the audit is damaged; audit again." in " ".join(told.split())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", "1"), ("epsilon", [1]), ("epsilon", 1e308), ("delta", {}), ("delta", -1), ("findings", [1]),
        ("trade_offs", {"a": {"false_alarms": [0, 1e400], "misses": [1, 0]}}),
        ("trade_offs", {"a": {"false_alarms": [0, 1], "misses": [1]}}), ("verdict", "\ud800"),
    ],
)  # fmt: skip
def test_an_audit_of_other_types_is_damaged(tmp_path, name, value):
    curve = {"false_alarms": [0.0, 1.0], "misses": [1.0, 0.0]}
    told = {
        "format": 1,
        "verdict": "",
        "caught": False,
        "mechanism": "posterior",
        "guarantee": "PROVED",
        "epsilon": 1.0,
        "delta": 0.0,
    }
    told |= {"findings": [], "trade_offs": {"a": curve}}
    (tmp_path / "audit.json").write_text(json.dumps(told))
    assert len(load_attacks(tmp_path).curves) == 2
    (tmp_path / "audit.json").write_text(json.dumps({**told, name: value}))
    with pytest.raises(BayesgramError, match=r"the audit is damaged; audit again\.$"):
        load_attacks(tmp_path)


def test_releases_of_different_vocabularies_have_no_common_score(work):
    reference_paper.make_vocabulary(10_000 // np.arange(1, 62)).save(
        work / "larger.parquet", force=True
    )
    bayesgram(
        work,
        "release",
        "counts.parquet",
        "--vocab",
        "larger.parquet",
        "--epsilon",
        1,
        "-o",
        "larger",
        "--force",
    )
    bayesgram(work, "report", "out 2", "larger", "-o", "both.html")
    told = bayesgram(
        work, "report", "out 2", "larger", "--against", "counts.parquet", "-o", "x.html", code=2
    ).stderr
    assert "the releases have different vocabularies; report those of one together" in " ".join(
        told.split()
    )
