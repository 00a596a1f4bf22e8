"""bayesgram series and release --series, through the real entry point."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayesgram as bg
from helpers.commands import PROGRAM, check_output, expect_refusal, run_in_process

SERIES = "weekly.series --ledger app.ledger --epsilon 1 --delta 1e-7 --releases 3 --full-releases 2"
RELEASE = "release counts --vocab vocab.parquet --series weekly.series"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Counts of made-up people, a ledger and a series with one release."""
    folder = tmp_path_factory.mktemp("series")
    for command in (
        "generate --users 300 --sentences 900 --seed 3 -o data",
        "vocab data/articles.txt.gz --order 2 --size 200 --no-model -o vocab.parquet",
        "count data/messages --vocab vocab.parquet -o counts",
        "ledger create --population everybody --epsilon 2 --delta 1e-6 app.ledger",
        "ledger create --population others --epsilon 2 --delta 1e-6 other.ledger",
        f"series create {SERIES}",
        f"{RELEASE} -o week1",
    ):
        run_in_process(*command.split(), cwd=folder)
    return folder


def test_a_series_from_its_beginning_to_its_end(made):
    printed = check_output(*f"{RELEASE} --previous week1 -o week2".split(), cwd=made)
    assert "release 2 of at most 3; ε and δ are for everything in the series together" in " ".join(
        printed.split()
    )
    shown = json.loads(check_output("series", "show", "weekly.series", "--json", cwd=made))
    assert [run["state"] for run in shown["runs"]] == ["published", "published"]
    assert (shown["released"], shown["left"], shown["full_releases"]) == (2, 1, 2)
    text = check_output("series", "show", "weekly.series", cwd=made)
    assert "2 of at most 3 releases were made." in text
    assert "(PROVED) for everything one user wrote in these data." in " ".join(text.split())
    published = check_output("series", "publish", "weekly.series", "2", cwd=made)
    assert "Release 2 of weekly.series is noted as published." in published
    check_output(*f"{RELEASE} -o week3".split(), cwd=made)
    message = expect_refusal(*f"{RELEASE} -o week4".split(), cwd=made, code=1)
    assert "all 3 releases of this series were made" in message
    assert not (made / "week4").exists()


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        (f"{RELEASE} -o x --epsilon 1", 2, "--epsilon 1.0: can't be used with a series"),
        (f"{RELEASE} -o x --ledger other.ledger", 2, "nothing was reserved here for this series"),
        ("series show weekly.series --ledger other.ledger", 2, "nothing was reserved here"),
        (f"{RELEASE} -o x --seed 1", 2, "--seed 1: can't be used with a series"),
        (f"{RELEASE} -o x --dry-run", 2, "--dry-run"),
        (f"{RELEASE} -o x --mechanism gaussian", 2, "a series is released by posterior"),
        (f"{RELEASE} -o x --engine spark", 2, "leave spark out"),
        (f"{RELEASE} -o x --unit week", 2, "the unit of the series is"),
        ("release counts --vocab vocab.parquet --series app.ledger -o x", 2, "is no series"),
        (f"series create {SERIES}", 2, "exists already"),
        (f"series create n{SERIES} --unit week", 2, "lasts as long as it does"),
        ("series create n --ledger app.ledger --epsilon 9 --delta 1e-7", 1, "Nothing was reserved"),
        ("series create n --ledger no.ledger --epsilon 1 --delta 1e-7", 2, "can't be opened"),
        ("series show counts", 2, "is no series"),
        ("series publish weekly.series 9", 2, "no release of weekly.series with this number"),
    ],
)
def test_what_can_not_be_asked_for(made, command, code, message):
    before = sorted(made.iterdir())
    assert message in expect_refusal(*command.split(), cwd=made, code=code)
    assert sorted(made.iterdir()) == before


def test_a_ledger_that_moved_elsewhere_is_named(made, tmp_path):
    work = tmp_path / "work"
    shutil.copytree(made, work)
    (work / "elsewhere").mkdir()
    (work / "app.ledger").rename(work / "elsewhere" / "app.ledger")
    series = "moved.series --epsilon 0.5 --delta 1e-7 --releases 3 --full-releases 2"
    moved = "--ledger elsewhere/app.ledger"
    run_in_process(*f"series create {series} {moved}".split(), cwd=work)
    (work / "elsewhere").rename(work / "there")
    there = "--ledger there/app.ledger"
    release = "release counts --vocab vocab.parquet --series moved.series -o moved"
    for command in (release, "series show moved.series", "series publish moved.series 1"):
        assert "If it has moved, say where it is with --ledger" in expect_refusal(
            *command.split(), cwd=work
        )
    check_output(*f"{release} {there}".split(), cwd=work)
    shown = json.loads(check_output(*f"series show moved.series {there} --json".split(), cwd=work))
    assert (shown["released"], shown["runs"][0]["output"]) == (1, "moved")
    check_output(*f"series publish moved.series 1 {there}".split(), cwd=work)


def test_the_state_of_another_series_is_refused_and_nothing_is_spent(made, tmp_path):
    work = tmp_path / "work"
    shutil.copytree(made, work)
    create = "series create other.series --ledger app.ledger --epsilon 0.5 --delta 1e-7"
    run_in_process(*create.split(), cwd=work)
    ledger = (work / "app.ledger").read_bytes()
    for number, names in enumerate((("state.json",), ("state.json", "key"), ("series.json",))):
        mixed = f"mixed-{number}.series"
        shutil.copytree(work / "other.series", work / mixed)
        for name in names:
            shutil.copy(work / "weekly.series" / name, work / mixed / name)
        command = f"release counts --vocab vocab.parquet --series {mixed} -o x"
        message = expect_refusal(*command.split(), cwd=work, code=1)
        assert "can't go on" in message
        assert not (work / "x").exists()
    assert (work / "app.ledger").read_bytes() == ledger


def test_a_run_that_is_killed_costs_allowance_and_can_be_made_again(made, tmp_path):
    """kill -9 as soon as users are charged: the state goes on from there."""
    work = tmp_path / "work"
    subprocess.run(["cp", "-r", made, work], check=True)
    run_in_process(
        *[
            "series",
            "create",
            "killed.series",
            "--ledger",
            "app.ledger",
            "--epsilon",
            "0.5",
            "--delta",
            "1e-7",
        ],
        cwd=work,
    )
    state = work / "killed.series" / "state.json"
    first = state.read_bytes()
    arguments = [
        "release",
        "counts",
        "--vocab",
        "vocab.parquet",
        "--series",
        "killed.series",
        "-o",
        "out",
    ]
    process = subprocess.Popen(
        [sys.executable, PROGRAM, *arguments],
        cwd=work,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while state.read_bytes() == first and process.poll() is None:
        pass
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    shown = json.loads(check_output("series", "show", "killed.series", "--json", cwd=work))
    assert len(shown["runs"]) == 1
    check_output(*arguments, "--force", cwd=work)
    shown = json.loads(check_output("series", "show", "killed.series", "--json", cwd=work))
    assert shown["runs"][-1]["state"] == "published"
    assert (work / "out" / "card.json").is_file()


# --- Discoveries of a series ---

DISCOVER = "discover data/messages --vocab vocab.parquet --open"
IN_SERIES = f"{DISCOVER} --series found.series"


@pytest.fixture(scope="module")
def discovered(tmp_path_factory):
    """Two series with discoveries, and one discovery of the first."""
    folder = tmp_path_factory.mktemp("discoveries")
    for command in (
        "generate --users 600 --sentences 3000 --seed 3 -o data",
        "vocab data/articles.txt.gz --order 2 --size 200 --no-model -o vocab.parquet",
        "vocab data/articles.txt.gz --orders 1,2 --size 200 --no-model -o other.parquet",
        "ledger create --population everybody --epsilon 6 --delta 1e-6 app.ledger",
        "ledger create --population others --epsilon 6 --delta 1e-6 other.ledger",
        "ledger create --population late --epsilon 6 --delta 1e-6 late.ledger",
        *(
            f"series create {name}.series --ledger {ledger}.ledger --epsilon 5 --delta 1e-6"
            " --releases 2 --full-releases 2 --discovery-share 0.5"
            for name, ledger in (("found", "app"), ("strange", "other"))
        ),
        "series create plain.series --ledger late.ledger --epsilon 1 --delta 1e-7",
        f"{IN_SERIES} -o found-1",
    ):
        run_in_process(*command.split(), cwd=folder)
    return folder


def test_discoveries_of_a_series_from_its_beginning_to_its_end(discovered, tmp_path):
    work = tmp_path / "work"
    shutil.copytree(discovered, work)
    printed = " ".join(check_output(*f"{IN_SERIES} -o found-2".split(), cwd=work).split())
    assert "Series: discovery 2 of at most 2; ε and δ are for everything in the series" in printed
    assert "of them are new. Their noisy weights of all discoveries so far add up" in printed
    first, second = (bg.Discovery.load(work / f"found-{run}") for run in (1, 2))
    assert set(first.ngrams.to_pylist()) <= set(second.ngrams.to_pylist())
    assert 0 < len(first) == (second.found_in == 1).sum()
    shown = json.loads(check_output("series", "show", "found.series", "--json", cwd=work))
    assert [(run["kind"], run["state"]) for run in shown["runs"]] == [
        ("discovery", "published")
    ] * 2
    assert (shown["released"], shown["left"]) == (0, 2)
    assert (shown["discovered"], shown["discoveries_left"]) == (2, 0)
    text = check_output("series", "show", "found.series", cwd=work)
    assert "0 of at most 2 releases were made, and 2 of at most 2 discoveries." in text
    published = check_output("series", "publish", "found.series", "2", "--discovery", cwd=work)
    assert "Discovery 2 of found.series is noted as published." in published
    message = expect_refusal(*f"{IN_SERIES} -o found-3".split(), cwd=work, code=1)
    assert "all 2 discoveries of this series were made. Make a new series" in message
    assert not (work / "found-3").exists()
    # Releases go on, with the grown vocabulary.
    grown = "--vocab found-2/vocab.parquet"
    run_in_process(*f"count data/messages {grown} -o counts".split(), cwd=work)
    printed = check_output(
        *f"release counts {grown} --series found.series -o out".split(), cwd=work
    )
    assert "discovered in the same series, whose ε and δ cover them" in " ".join(printed.split())


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        *(
            (f"{IN_SERIES} -o x {option}", 2, f"{option.split()[0]}")
            for option in ("--epsilon 1", "--delta 1e-7", "--rounds 3", "--seed 1", "--dry-run")
        ),
        (f"{IN_SERIES} -o x --ledger no.ledger", 2, "can't be opened"),
        (f"{IN_SERIES} -o x --engine spark", 2, "leave spark out"),
        (f"{IN_SERIES} -o x --unit week", 2, "the unit of the series is"),
        (f"{IN_SERIES} -o found-1", 2, "--force"),
        (
            f"{DISCOVER} --series plain.series -o x",
            2,
            "releases only. Discover without --series, or make a series with --discovery-share.",
        ),
        (f"{DISCOVER} --series app.ledger -o x", 2, "is no series"),
        (
            "discover data/messages --vocab other.parquet --series found.series -o x",
            2,
            "--orders 1,2: the discoveries of this series search n-grams of order 2",
        ),
        (
            "series create n --ledger late.ledger --epsilon 1 --delta 1e-7 --discovery-share 0.2",
            1,
            "its first entry was no discovery",
        ),
        (
            "series create n --ledger app.ledger --epsilon 5 --delta 1e-6 --discovery-share 0.2",
            1,
            "Nothing was reserved",
        ),
        (
            "series create n --ledger app.ledger --epsilon 1 --delta 1e-7 --discovery-share 1.5",
            2,
            "--discovery-share 1.5: of the series is a number from 0.01 to 0.99",
        ),
        ("series publish found.series 9 --discovery", 2, "no discovery of found.series with this"),
        ("series publish found.series 1", 2, "no release of found.series with this number"),
    ],
)
def test_what_no_discovery_of_a_series_can_be_asked_for(discovered, command, code, message):
    """Refused with the next step; nothing is spent, and nothing is left."""

    def contents():
        names = sorted(path.name for path in discovered.iterdir())
        states = [path.read_bytes() for path in sorted(discovered.glob("*.series/state.json"))]
        return names, states, [path.read_bytes() for path in sorted(discovered.glob("*.ledger"))]

    before = contents()
    refusal = expect_refusal(*command.split(), cwd=discovered, code=code)
    assert message in " ".join(refusal.split())
    assert contents() == before


@pytest.mark.parametrize("parts", [("state.json",), ("key",), "whole", "arrow"])
def test_the_state_of_another_series_is_refused(discovered, tmp_path, parts):
    """Its folder, its state or its key, in the place of this one's; and nothing is charged."""
    work = tmp_path / "work"
    shutil.copytree(discovered, work)
    run_in_process(*f"{DISCOVER} --series strange.series -o strange-1".split(), cwd=work)
    mine, other = work / "found.series", work / "strange.series"
    if parts == "whole":
        settings = (mine / "series.json").read_bytes()
        shutil.rmtree(mine)
        shutil.copytree(other, mine)
        (mine / "series.json").write_bytes(settings)
    elif parts == "arrow":
        for name in ("discoveries", "candidates"):
            [own], [strange] = mine.glob(f"{name}-*"), other.glob(f"{name}-*")
            own.write_bytes(strange.read_bytes())
    else:
        for name in parts:
            (mine / name).write_bytes((other / name).read_bytes())
    before = (mine / "state.json").read_bytes()
    ledger = (work / "app.ledger").read_bytes()
    message = expect_refusal(*f"{IN_SERIES} -o found-2".split(), cwd=work, code=1)
    assert "can't go on" in message
    assert "make a new" in message
    assert (mine / "state.json").read_bytes() == before
    assert (work / "app.ledger").read_bytes() == ledger
    assert not (work / "found-2").exists()


def test_ids_of_another_type_than_last_week_are_refused_and_nothing_is_spent(discovered, tmp_path):
    work = tmp_path / "work"
    shutil.copytree(discovered, work)
    rows = range(5)  # too few to be found: what was found costs nobody anything
    texts = pa.array(["red zog"] * len(rows))
    pq.write_table(pa.table({"user": pa.array(rows), "text": texts}), work / "numbers.parquet")
    names = pa.array(map(str, rows))
    pq.write_table(pa.table({"user": names, "text": texts}), work / "names.parquet")
    lines = ["user,text", *(f"{row},red zog" for row in rows)]
    (work / "numbers.csv").write_text("\n".join(lines) + "\n")
    discover = "--vocab vocab.parquet --open --series ids.series"
    for command in (
        "ledger create --population x --epsilon 6 --delta 1e-6 ids.ledger",
        "series create ids.series --ledger ids.ledger --epsilon 5 --delta 1e-6 --discovery-share 0.5",
        f"discover numbers.parquet {discover} -o digits-1",
        f"discover numbers.csv {discover} -o digits-2",  # a CSV file states no type
    ):
        run_in_process(*command.split(), cwd=work)
    state = (work / "ids.series" / "state.json").read_bytes()
    message = expect_refusal(*f"discover names.parquet {discover} -o x".split(), cwd=work)
    assert "whole numbers in earlier runs of this series, and are text now" in message
    assert "Nothing was spent." in message
    command = "count names.parquet --vocab vocab.parquet -o counts-names"
    run_in_process(*command.split(), cwd=work)
    command = "release counts-names --vocab vocab.parquet --series ids.series -o x"
    assert "cast the column to whole numbers" in expect_refusal(*command.split(), cwd=work)
    assert (work / "ids.series" / "state.json").read_bytes() == state
    assert not (work / "x").exists()
    series = bg.Series.open(work / "ids.series")
    users = series.read_allowances(series.read_state(), "discovery")
    assert users.active.tolist() == [2] * len(rows)
