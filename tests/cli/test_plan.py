"""bayesgram plan, through its entry point and inside this process."""

import json

import numpy as np
import pyarrow as pa
import pytest

from bayesgram.privacy.budget import Budget
from bayesgram.privacy.calibration import calibrate_gaussian
from bayesgram.privacy.ledger import Ledger
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.tokenizer import Tokenizer
from helpers.commands import bayesgram, expect_refusal, run_in_process

PLAN = ("plan", "--vocab", "vocab.parquet", "--users", 100000, "--draws", 1)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plans")
    ngrams = pa.array([f"w{i % 7} w{i}" for i in range(40)], pa.large_string())
    Vocabulary(ngrams, 10_000 // np.arange(1, 41), 2, Tokenizer()).save(folder / "vocab.parquet")
    Ledger.create(folder / "a.ledger", population="p", budget=Budget(1, 1e-6))
    return folder


def test_the_table_fits_80_columns_and_says_that_it_is_a_simulation(work):
    done = bayesgram(*PLAN[:-1], 3, "--releases", 52, "--segments", 12, cwd=work, COLUMNS="80")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("│") for line in lines) == 5  # no row is folded
    said = " ".join(done.stdout.split())
    assert "Simulated: made-up people" in said
    assert "No private data is read, nothing is spent." in said
    assert "52 releases share each ε as a ledger composes them" in said
    assert "An approximation" in said


def test_json_and_a_picture(work, capsys):
    run_in_process(*PLAN, "--epsilon", "1,0.1", "--plot", "plan.svg", "--json", cwd=work)
    told = json.loads(capsys.readouterr().out)
    assert [row["epsilon"] for row in told["rows"]] == [0.1, 1.0]
    assert told["rows"][1]["kl"] < told["rows"][0]["kl"]
    assert told["answer"] is None
    picture = (work / "plan.svg").read_text()
    assert "Simulated" in picture
    assert "text (KL), smaller is better" in picture  # the axis has its name
    assert "<svg" in picture
    assert "exists already" in expect_refusal(*PLAN, "--plot", "plan.svg", cwd=work)


def test_a_target_has_an_answer_and_a_ledger_stays_as_it_is(work, capsys):
    before = (work / "a.ledger").read_bytes()
    run_in_process(*PLAN, "--known", "80%", "--ledger", "a.ledger", cwd=work)
    shown = " ".join(capsys.readouterr().out.split())
    assert (
        "reaches 80% of what people write expected to lie within a factor of 2, by this simulation"
        in shown
    )
    assert "→" in shown
    assert (work / "a.ledger").read_bytes() == before


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--kl", 0.1, "--known", "80%"), "--kl and --known: give one of them"),
        (("--known", "120%"), "--known 120%: give a share above 0% and below 100%"),
        (("--known", "much"), "--known much: give a share"),
        (("--epsilon", "0,5"), "a decimal is written with a point (0.5)"),
        (("--epsilon", "0"), "--epsilon 0.0: give a number from"),
        (("--epsilon", "1;2"), "--epsilon '1;2': give numbers separated by commas"),
        (("--epsilon", "nan"), "--epsilon nan: give a number from"),
        (("--users", 0), "--users 0: give a number from 100"),
        (("--ledger", "a.ledger", "--delta", 1e-6), "the ledger has a δ of its own"),
        (("--ledger", "a.ledger", "--epsilon", 3), "--epsilon 3: more than there is"),
        (("--ledger", "none.ledger"), "none.ledger"),
        (("--plot", "plan.gif"), "a picture is a .svg or a .png"),
    ],
)
def test_wrong_use(work, more, words):
    assert words in expect_refusal(*PLAN, *more, cwd=work)


def test_an_overspent_ledger(work):
    spent = Ledger.create(work / "spent.ledger", population="p", budget=Budget(1, 1e-6))
    spent.reserve(calibrate_gaussian(spent.budget, coordinates=100, units=1 << 30).spend, {})
    assert "nothing is left of the ledger of 'p'" in expect_refusal(
        *PLAN, "--ledger", "spent.ledger", cwd=work, code=1
    )


# --- Series ---

SERIES = ("plan", "--vocab", "vocab.parquet", "--series", "--users", 20000)


def test_a_series_is_planned_with_one_line_for_each_number_of_full_releases(work):
    done = bayesgram(*SERIES, "--activity", "10%", "--releases", 12, cwd=work, COLUMNS="80")
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    said = " ".join(done.stdout.split())
    assert "What to expect of a series of 12 releases (simulated)" in said
    assert "Give every user" in said
    assert "a user writes in" in said
    done = bayesgram(*SERIES, "--activity", "0.1", "--releases", 12, "--json", cwd=work)
    report = json.loads(done.stdout)
    assert [row["full_releases"] for row in report["rows"]] == [1, 2, 3, 4, 6, 8, 12]
    assert f"Give every user {report['full_releases']} full releases:" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--kl", 0.1), "--kl can't be used with --series"),
        (("--segments", 3), "--segments can't be used with --series"),
        (("--epsilon", "1,2"), "planned for one ε"),
        (("--activity", "0"), "--activity 0: give a share above 0% and up to 100%"),
        (("--activity", "120%"), "--activity 120%"),
        (("--releases", 5000), "from 2 to 1,000"),
    ],
)
def test_what_a_plan_of_a_series_can_not_have(work, options, message):
    assert message in expect_refusal(*SERIES, *options, cwd=work)


def test_how_often_people_write_is_for_a_series_alone(work):
    message = expect_refusal(*PLAN, "--activity", "10%", cwd=work)
    assert "--activity: is for a series; add --series" in message
    assert "--users: say how many people write in one release" in expect_refusal(
        *SERIES[:-2], cwd=work
    )
