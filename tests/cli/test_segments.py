"""Releases by country through the installed entry point: folders, cards, one entry of the ledger, and clear refusals."""

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayesgram.privacy.ledger_io import read_ledger
from bayesgram.synthetic.population import Population
from helpers import fork_server, replay_noise
from helpers.commands import check_output, expect_failure, expect_refusal

SECRET = "zanzibarmagicpassword"
COUNT = ("count", "messages.parquet", "--vocab", "vocab.parquet", "--by", "country")
RELEASE = ("release", "counts", "--vocab", "vocab.parquet", "--epsilon", 1, "--delta", "1e-7")


def messages(users, seed):
    """Made-up people who write in one country, or in several."""
    rows = pa.Table.from_batches(Population(users=users, seed=seed).messages())
    chance = np.random.default_rng(seed)
    values = np.array(["de", "fr", SECRET])[chance.choice(3, len(rows), p=[0.6, 0.3, 0.1])]
    return rows.append_column("country", pa.array(values))


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("countries")
    text = pa.Table.from_batches(Population(users=1, seed=7).public_text(3000))
    pq.write_table(text, folder / "public.parquet")
    pq.write_table(messages(400, 1), folder / "messages.parquet")
    check_output(
        "vocab",
        "public.parquet",
        "--orders",
        "1,2",
        "--size",
        300,
        "-o",
        "vocab.parquet",
        cwd=folder,
    )
    told = check_output(*COUNT, "--segments", "de,fr", "--other", "-o", "counts", cwd=folder)
    assert "Counted by segment: 3 by 'country': de, fr, other." in told
    check_output(
        "ledger",
        "create",
        "--population",
        "people",
        "--epsilon",
        3,
        "--delta",
        "1e-5",
        "a.ledger",
        cwd=folder,
    )
    return folder


@pytest.fixture(scope="module")
def out(work):
    told = check_output(*RELEASE, "--ledger", "a.ledger", "-o", "out", cwd=work)
    assert (
        "Segment:    all people; one budget for all people and each of 3 segments together (de, fr, other)"
        in told
    )
    assert SECRET not in told
    return work / "out"


def test_a_folder_for_each_segment_and_one_entry_of_the_ledger_for_all(work, out):
    assert sorted(path.name for path in out.iterdir()) == ["all", "de", "fr", "other"]
    cards = {path.name: json.loads((path / "card.json").read_text()) for path in out.iterdir()}
    assert {name: card["segment"]["name"] for name, card in cards.items()} == {
        name: name for name in cards
    }
    assert {(card["ledger"]["population"], card["ledger"]["entry"]) for card in cards.values()} == {
        ("people", 1)
    }
    assert {card["command"] for card in cards.values()} == {cards["all"]["command"]}
    (entry,) = read_ledger(work / "a.ledger").reservations
    assert entry.published


def test_each_folder_is_taken_wherever_a_release_is(work, out):
    rows = json.loads(
        check_output(
            "evaluate", "out/all", "out/de", "out/other", "--against", "counts", "--json", cwd=work
        )
    )["releases"]
    assert all(0 <= row["kl"] < 3 for row in rows)
    assert len({row["kl"] for row in rows}) == 3
    check_output("report", "out/all", "out/de", "-o", "report.html", cwd=work)
    page = (work / "report.html").read_text()
    assert "country = de" in page
    check_output("export", "out/fr", "--format", "tsv", "-o", "fr.tsv", cwd=work)
    check_output("predict", "out/fr", "the", cwd=work)
    check_output(
        "report", "out/all", "out/de", "--against", "counts", "-o", "judged.html", cwd=work
    )
    page = (work / "judged.html").read_text()
    assert all(f"<td>{row['kl']:.4f}</td>" in page for row in rows[:2])
    check_output(
        "report", "out", "-o", "all.html", cwd=work
    )  # a folder of releases: those of all segments
    assert (work / "all.html").read_text().count("country = ") >= 3


def test_machines_get_all_cards(work):
    (work / "names.txt").write_text("de\nfr\n")
    told = json.loads(
        check_output(
            *COUNT, "--segments", "names.txt", "--skip-bad-rows", "-o", "listed", "--json", cwd=work
        )
    )
    assert told["segments"] == ["de", "fr"]
    assert [*told["bad_rows_skipped"]] == [
        "'country' is none of the segments (de, fr), and `other` is not set"
    ]
    told = json.loads(
        check_output("release", "listed", *RELEASE[2:], "-o", "machines", "--json", cwd=work)
    )
    assert told["card"]["segment"]["name"] == "all"
    assert {name: one["output"] for name, one in told["segments"].items()} == {
        "de": "machines/de",
        "fr": "machines/fr",
    }
    check_output("release", "listed", *RELEASE[2:], "-o", "machines", "--force", cwd=work)


def test_what_is_wrong_is_said_and_nothing_is_spent(work, out):
    told = expect_failure(
        *COUNT, "--segments", "de,fr", "-o", "none", cwd=work, code=1, secret=SECRET
    )
    assert re.search(
        r"messages\.parquet: row \d+: 'country' is none of the segments \(de, fr\), and --other",
        told,
    )
    wrong = {
        ("--segments", "de,all"): "'all' is kept for all people",
        ("--segments", "de,de"): "'de' is there twice",
        (): "name the --segments too, such as de and fr",
        (
            "--segments",
            "de",
            "--engine",
            "spark",
        ): "segments are counted and released by --engine local",
    }
    for options, message in wrong.items():
        assert message in expect_refusal(*COUNT, *options, "-o", "none", cwd=work)
    assert not (work / "none").exists()
    refusals = {
        ("release", "counts", "--mechanism", "laplace"): "only posterior releases segments",
        (
            "release",
            "counts",
            "--engine",
            "spark",
        ): "segments are counted and released by --engine local",
        (
            "audit",
            "counts",
            "--mechanism",
            "gaussian",
        ): "counts by 'country', which `bayesgram release`",
    }
    for command, message in refusals.items():
        told = expect_refusal(
            *command, "--vocab", "vocab.parquet", "--epsilon", 1, "-o", "none", cwd=work
        )
        assert message in told
    told = expect_refusal(*RELEASE, "--ledger", "a.ledger", "-o", "out", cwd=work)
    assert "exists already" in told
    assert len(read_ledger(work / "a.ledger").reservations) == 1


def test_weeks_of_segments_follow_one_another(work, out):
    """Release, chain, infer and compare; and what can't be followed is refused."""
    told = check_output(*RELEASE, "--previous", "out", "-o", "week-2", cwd=work)
    assert "Chain:      follows out/all. Not a promise: the 2 releases have spent ε = 1." in told
    card = json.loads((work / "week-2" / "fr" / "card.json").read_text())
    assert [link["name"] for link in card["chain"]["links"]] == ["out/fr"]
    assert set(card["details"]["drift"]) == {"1", "2"}
    told = check_output("infer", "week-2", "--vocab", "vocab.parquet", "-o", "again", cwd=work)
    assert "Inferred:   from the measurements of week-2" in told
    assert (work / "again" / "fr" / "distribution.parquet").read_bytes() == (
        work / "week-2" / "fr" / "distribution.parquet"
    ).read_bytes()
    told = json.loads(
        check_output("infer", "out", "--vocab", "vocab.parquet", "-o", "third", "--json", cwd=work)
    )
    assert set(told["segments"]) == {"de", "fr", "other"}
    check_output("compare", "out/fr", "week-2/fr", cwd=work)
    check_output(*COUNT, "--segments", "de", "--other", "-o", "fewer", cwd=work)
    told = check_output(
        "release", "fewer", *RELEASE[2:], "--previous", "week-2", "-o", "week-3", cwd=work
    )
    assert "gone since the release before: fr" in told
    told = expect_refusal(*RELEASE, "--previous", "out/de", "-o", "none", cwd=work)
    assert "de: is one release, and the counts are by 'country'" in told
    assert "exists already" in expect_refusal(
        "infer", "week-2", "--vocab", "vocab.parquet", "-o", "out", cwd=work
    )
    assert not (work / "none").exists()


def prepared(folder, work, users=0, seed=0, rows=None):
    folder.mkdir()
    (folder / "vocab.parquet").write_bytes((work / "vocab.parquet").read_bytes())
    pq.write_table(messages(users, seed) if rows is None else rows, folder / "messages.parquet")
    check_output(*COUNT, "--segments", "de,fr", "--other", "-o", "counts", cwd=folder)
    return folder


def test_the_same_answers_give_the_same_folders_and_words(work, tmp_path):
    """Through the command line, also where nobody wrote: the same noisy answers give the same."""
    people = [
        prepared(tmp_path / f"{users}", work, users, seed) for users, seed in ((300, 3), (2, 4))
    ]
    rows = pa.table({"user": ["ann"], "text": ["!"], "country": ["de"]})
    people.append(prepared(tmp_path / "nobody", work, rows=rows))
    seen = []
    for mode, folder in zip(("record", "replay", "replay"), people, strict=True):
        done = fork_server.run(
            replay_noise.__file__, mode, tmp_path / "answers", *RELEASE, "-o", "out", cwd=folder
        )
        assert done.returncode == 0, done.stderr
        files = {
            str(path.relative_to(folder)): path.read_bytes()
            for path in (folder / "out").rglob("*.*")
        }
        seen.append((done.stdout, re.sub(r"\d:\d\d:\d\d", "", done.stderr), files))
    assert len(seen[0][2]) == 12
    assert seen[0][0] == seen[1][0]
    assert seen[0][2] == seen[1][2]
    assert seen[1] == seen[2]  # the first may have said, too, that kernels were compiled
