"""Every figure and the table, small: their files, their numbers, and the words drawn from them."""

import html.parser
import math
import re
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

from bayesgram.audit.evaluation import DISCLOSURE
from bayesgram.charts import log_ticks, spread_out
from bayesgram.cli.paper import ExperimentName, reproduce
from bayesgram.errors import UsageError
from bayesgram.paper.experiment import Assessment, ExperimentRun, StatementCheck
from bayesgram.paper.figures import EXPERIMENTS, FIGURE_1, PAPER_PERPLEXITY
from bayesgram.paper.harness import ExperimentData, Method, ResultRow
from bayesgram.paper.results_page import CONTENTS, run_experiments
from helpers.commands import bayesgram
from helpers.modes import has_mode


@pytest.fixture(scope="module")
def made(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "figures"
    return folder, run_experiments(list(EXPERIMENTS), run, folder)


def test_the_folder_holds_every_file_and_is_private(made):
    folder, results = made
    assert {path.name for path in folder.iterdir()} == set(CONTENTS)
    assert has_mode(folder, 0o700)
    assert [result.experiment.name for result in results] == list(EXPERIMENTS)
    for path in folder.iterdir():
        assert path.stat().st_size > 500, path.name


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_csv_has_its_settings_and_finite_numbers(made, name):
    table = pl.read_csv(made[0] / f"{name}.csv", infer_schema_length=None)
    assert table["value"].is_finite().all()
    assert (table["value"] >= 0).all()
    assert set(table["warning"]) == {DISCLOSURE}
    assert set(table["experiment"]) == {name}
    assert set(table["source"]) == {"a small crowd"}
    noised = table.filter(pl.col("guarantee") != "NONE", pl.col("method") != Method.PUBLIC.value)
    assert noised["epsilon"].is_not_null().all()
    assert noised["delta"].is_not_null().all()
    assert noised["seed"].is_not_null().all()
    paper = table.filter(pl.col("method").str.starts_with("paper"))
    for setting in ("slope", "rho", "max_count", "max_total"):
        assert paper[setting].is_not_null().all()
    assert set(table.filter(pl.col("oracle"))["method"]) == set(table["method"]) & {
        m.value for m in Method if m.is_oracle
    }


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("figure-1", "epsilon"),
        ("figure-2", "users"),
        ("figure-3", "vocabulary_size"),
        ("figure-4", "public_noise"),
    ],
)
def test_a_figure_runs_along_its_axis_with_every_mechanism_and_seed(made, name, column):
    table = pl.read_csv(made[0] / f"{name}.csv", infer_schema_length=None)
    places = table[column].n_unique()
    assert places == 3
    methods = {m.value for m in Method} - {
        m.value for m in (Method.PRIVATE, Method.AS_PRINTED, Method.COROLLARY)
    }
    methods -= {Method.PAPER_RANGE.value} if name != "figure-1" else set()
    assert set(table["method"]) == {m for m in methods if "k-anonymity" not in m}
    for (method,), part in table.group_by("method"):
        assert len(part) == places * (1 if method == Method.PUBLIC.value else 3), method


def test_figure_5_compares_k_with_epsilon(made):
    table = pl.read_csv(made[0] / "figure-5.csv", infer_schema_length=None)
    anonymous = table.filter(pl.col("method") == Method.K_ADD_ONE.value).sort("k")
    assert anonymous["value"].is_sorted()  # the more is suppressed, the worse
    assert set(anonymous["guarantee"]) == {"NONE"}


def test_figure_6_is_a_rate_within_its_interval(made):
    table = pl.read_csv(made[0] / "figure-6.csv", infer_schema_length=None)
    attacked = (Method.LAPLACE, Method.AS_PRINTED, Method.COROLLARY, Method.POSTERIOR)
    assert set(table["method"]) == {method.value for method in attacked}
    assert (
        (table["low"] <= table["value"]) & (table["value"] <= table["high"]) & (table["high"] <= 1)
    ).all()
    assert table["ceiling"].is_between(0.5, 1).all()


def test_table_1_has_the_paper_s_rows_and_private_text_is_best(made):
    table = pl.read_csv(made[0] / "table-1.csv", infer_schema_length=None)
    assert {method.value for method in PAPER_PERPLEXITY} <= set(table["method"])
    private = table.filter(pl.col("method") == Method.PRIVATE.value)["value"][0]
    assert (
        private <= table["value"].min() * 1.01
    )  # of 400 held-out users, others may win by chance, a little
    assert set(table["users"]) == {3_600}


class Balanced(html.parser.HTMLParser):
    """Fails on tags that do not match, collects what the page refers to."""

    def __init__(self):
        super().__init__()
        self.open, self.links = [], []

    def handle_starttag(self, tag, attributes):
        self.links += [value for name, value in attributes if name in ("href", "src")]
        if tag not in {"meta", "img"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_stands_alone_and_says_what_was_found(made):
    folder, results = made
    text = (folder / "index.html").read_text(encoding="utf-8")
    page = Balanced()
    page.feed(text.removeprefix("<!doctype html>"))
    assert page.open == []
    for link in page.links:
        assert link.startswith(("#", "data:image/svg+xml;base64,")) or (folder / link).exists()
    assert "://" not in re.sub(r"base64,[^\"]*", "", text)  # nothing is fetched
    assert DISCLOSURE in text
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    for result in results:
        assert result.assessment.verdict in {"reproduced", "partly reproduced", "not reproduced"}
        assert result.experiment.title in text
        assert result.cost.seconds > 0
        assert result.cost.peak_bytes > 10**7


def rows_of(**values):
    names = {m.name.lower(): m for m in Method}
    return [
        ResultRow(names[name], value, 1000, 100, 0.0, epsilon=0.1, seed=1)
        for name, value in values.items()
    ]


def test_the_verdict_follows_the_numbers():
    usual = {
        "laplace": 5.0,
        "laplace_public": 5.0,
        "laplace_public_best": 3.0,
        "public": 1.4,
        "posterior": 0.1,
    }
    good = FIGURE_1.assess(
        rows_of(paper_best=0.6, paper_range=0.6, paper_tuned=0.7, laplace_best=0.9, **usual)
    )
    assert good.verdict == "reproduced"
    assert "88% smaller than" in good.checks[0].sentence
    poor = FIGURE_1.assess(
        rows_of(paper_best=0.6, paper_range=1.3, paper_tuned=300.0, laplace_best=0.3, **usual)
    )
    assert poor.verdict == "partly reproduced"
    assert "the gain was the choice of W" in poor.checks[3].sentence
    assert any("Algorithm 2 as printed scores the mean" in remark for remark in poor.remarks)
    bad = FIGURE_1.assess(
        rows_of(paper_best=4.0, paper_range=4.0, paper_tuned=300.0, laplace_best=0.3, **usual)
    )
    assert bad.verdict == "not reproduced"
    assert (
        Assessment([StatementCheck("", True), StatementCheck("", False)], []).verdict
        == "partly reproduced"
    )


def test_labels_keep_apart_and_inside():
    places = spread_out([0, 1, 2, 50, 99, 100], 10, 100)
    assert min(b - a for a, b in pairwise(places)) >= 10 - 1e-9
    assert places[0] >= 0
    assert places[-1] <= 100
    assert all(0.003 <= tick <= 7 for tick in log_ticks(0.003, 7))


def test_too_little_data_is_refused(data, tmp_path):
    tiny = ExperimentData(data.counts, data.vocabulary, 99, "")
    with pytest.raises(
        UsageError,
        match="users=99, size=450: the experiments need at least 100 users and 50 n-grams",
    ):
        run_experiments(["figure-1"], ExperimentRun(tiny, (1,), 1e-6, True, None), tmp_path / "x")


# --------------------------------------------------------------------------------------------------- the command


def test_the_command_on_given_counts(data, tmp_path):
    from bayesgram.private.counts_io import save_counts

    data.vocabulary.save(tmp_path / "vocab.parquet")
    save_counts(data.counts, data.vocabulary, tmp_path / "counts")
    given = (
        "--counts",
        "counts",
        "--vocab",
        "vocab.parquet",
        "--size",
        120,
        "--quick",
        "--seeds",
        1,
    )
    done = bayesgram("paper", "reproduce", "table-1", *given, "-o", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "table-1" in done.stdout
    assert DISCLOSURE in done.stdout
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "index.html",
        *(f"table-1.{end}" for end in ("csv", "svg", "png")),
    }
    table = pl.read_csv(tmp_path / "out" / "table-1.csv", infer_schema_length=None)
    assert set(table["vocabulary_size"]) == {120}
    assert math.isclose(table["delta"].max(), 1e-7)
    again = bayesgram("paper", "reproduce", "table-1", *given, "-o", "out", cwd=tmp_path)
    assert again.returncode == 2
    assert "exists already" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("figure-1", "--counts", "counts"),
            "--vocab is missing: give both --counts and --vocab, or neither",
        ),
        (
            ("figure-1", "--vocab", "vocab.parquet"),
            "--counts is missing: give both --counts and --vocab, or neither",
        ),
        (("figure-7",), "'figure-7' is not one of"),
        ((), "Missing argument 'NAME...'"),
        (
            ("all", "--users", 0),
            "--users 0: the number of made-up users is a whole number from 1 to 10,000,000.",
        ),
    ],
)
def test_wrong_use_is_told_and_nothing_is_written(tmp_path, arguments, message):
    done = bayesgram("paper", "reproduce", *arguments, "-o", "out", "--quick", cwd=tmp_path)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert message in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"size": 1},
            "size=1: the number of n-grams in the vocabulary is a whole number from 2 to 200,000.",
        ),
        ({"seeds": 0}, "seeds=0: the number of seeds is a whole number from 1 to 1,000."),
        (
            {"delta": 0},
            "--delta 0: the paper's mechanism and `posterior` need a delta above 0; 1e-7 is usual.",
        ),
        ({"delta": 2.0}, "delta=2.0: give 0, or a number from 1e-30 to below 1"),
        (
            {"users": 9, "counts": Path("c"), "vocab": Path("v")},
            "--users 9: the users are those of --counts",
        ),
        (
            {"counts": Path("c"), "vocab": Path("v")},
            "v: no such vocabulary; make one with `bayesgram vocab`.",
        ),
    ],
)
def test_values_out_of_range_are_refused(tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as refused:
        reproduce(
            names=[ExperimentName.ALL], output=Path("out"), quick=True, quiet=False, **options
        )
    assert message in str(refused.value)
    assert list(tmp_path.iterdir()) == []
