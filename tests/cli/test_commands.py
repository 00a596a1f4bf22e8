"""Every command through the installed entry point: what it prints, what it writes, how it fails."""

import json
import re
import struct
import subprocess
import sys
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers import fish_text, fork_server
from helpers.commands import PROGRAM, bayesgram, check_output, expect_failure, expect_refusal
from helpers.modes import has_mode

SECRET = "zanzibarmagicpassword"  # only a private user writes this


fail = partial(expect_failure, secret=SECRET)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with public text, private messages, a vocabulary, counts and two releases."""
    folder = tmp_path_factory.mktemp("a folder with spaces")
    (folder / "public.txt").write_text(fish_text.PUBLIC)
    rng = np.random.default_rng(1)
    phrases = fish_text.make_phrases(SECRET)
    users = [f"person-{n}" for n in rng.integers(0, 40, 300)]
    texts = [phrases[n] for n in rng.integers(0, 4, 300)]
    (folder / "messages").mkdir()
    pq.write_table(
        pa.table({"author": users[:150], "body": texts[:150]}), folder / "messages" / "a.parquet"
    )
    with (folder / "messages" / "b.jsonl").open("w") as file:
        file.writelines(
            json.dumps({"author": u, "body": t}) + "\n"
            for u, t in zip(users[150:], texts[150:], strict=True)
        )
    check_output(
        "vocab", "public.txt", "--order", 2, "--size", 8, "-o", "vocab.parquet", cwd=folder
    )
    columns = ("--user-column", "author", "--text-column", "body")
    check_output(
        "count", "messages", "--vocab", "vocab.parquet", *columns, "-o", "counts", cwd=folder
    )
    for mechanism in ("laplace", "gaussian"):
        check_output(*release_of(mechanism, f"out-{mechanism}"), cwd=folder)
    return folder


def release_of(mechanism, output, *more):
    epsilon = () if mechanism == "k-anonymity" else ("--epsilon", 1)
    return (
        "release",
        "counts",
        "--vocab",
        "vocab.parquet",
        "--mechanism",
        mechanism,
        *epsilon,
        "-o",
        output,
        *more,
    )


def test_vocab_reports_what_it_made(work):
    told = json.loads(
        check_output("vocab", "public.txt", "--order", 1, "-o", "v1.parquet", "--json", cwd=work)
    )
    assert (told["ngrams"], told["order"], told["tokenizer"]) == (7, 1, "words")
    table = pq.read_table(work / "v1.parquet").to_pydict()
    assert table["ngram"][:3] == ["fish", "the", "blue"]
    assert table["count"][:3] == [80, 80, 40]


def test_count_writes_a_private_folder_and_prints_no_exact_number(work):
    columns = ("--user-column", "author", "--text-column", "body")
    shown = check_output(
        "count", "messages/*", "--vocab", "vocab.parquet", *columns, "-o", "counts2", cwd=work
    )
    assert "fewer than 100" in shown
    assert has_mode(work / "counts2", 0o700)
    assert pq.read_table(work / "counts2" / "counts.parquet").equals(
        pq.read_table(work / "counts" / "counts.parquet")
    )
    assert json.loads((work / "counts" / "meta.json").read_text())["vocabulary"]["size"] == 8


@pytest.mark.parametrize(
    "mechanism", ["posterior", "paper", "laplace", "laplace-public", "gaussian", "k-anonymity"]
)
def test_release_by_every_mechanism(work, mechanism):
    told = json.loads(check_output(*release_of(mechanism, f"by-{mechanism}", "--json"), cwd=work))
    assert told["card"]["mechanism"] == mechanism
    table = pq.read_table(work / f"by-{mechanism}" / "distribution.parquet")
    assert table.column_names[:2] == ["ngram", "probability"]
    assert ("standard_deviation" in table.column_names) == (mechanism == "posterior")
    assert sum(table["probability"].to_pylist()) == pytest.approx(1)
    assert table["ngram"].equals(pq.read_table(work / "vocab.parquet")["ngram"])


def test_nothing_private_is_in_a_release(work, tmp_path):
    """Every byte of every released file: no private string, no user id, no exact private count in text or binary."""
    for path in [*(work / "out-gaussian").iterdir(), *(work / "out-laplace").iterdir()]:
        assert SECRET.encode() not in path.read_bytes()
        assert b"person-" not in path.read_bytes()
    users = 7919  # a number to look for
    table = pa.table(
        {"user": [f"person-{n}" for n in range(users)], "text": [f"the red fish {SECRET}"] * users}
    )
    pq.write_table(table, tmp_path / "many.parquet")
    check_output(
        "count",
        tmp_path / "many.parquet",
        "--vocab",
        work / "vocab.parquet",
        "-o",
        "counts",
        cwd=tmp_path,
    )
    for mechanism in ("posterior", "gaussian", "laplace", "laplace-public", "paper"):
        name = f"out-{mechanism}"
        # Seeded, because one time in a hundred fresh noise lands on the exact count: the noisy histogram may say 7919.
        arguments = ("--mechanism", mechanism, "--epsilon", 1, "--seed", 1, "-o", name)
        shown = check_output(
            "release", "counts", "--vocab", work / "vocab.parquet", *arguments, cwd=tmp_path
        )
        everything = (
            b"".join(path.read_bytes() for path in (tmp_path / name).iterdir()) + shown.encode()
        )
        exact = [
            str(users).encode(),
            f"{users:,}".encode(),
            users.to_bytes(4, "little"),
            struct.pack("<d", users),
        ]
        for secret in (SECRET.encode(), b"person-", *exact):
            assert secret not in everything, (mechanism, secret)


def test_the_card_is_printed_with_its_label(work):
    settings = ("--slope", 0.01, "--rho", 0.7, "--expected-users", 1000)
    shown = check_output(*release_of("paper", "paper-short", *settings), cwd=work)
    assert "Privacy:    ε = 1, δ = 1e-07 (EMPIRICAL). EMPIRICAL: not a differential-priv" in shown
    shown = check_output(*release_of("paper", "paper-card", *settings, "--verbose"), cwd=work)
    assert "Guarantee:  EMPIRICAL: not a differential-privacy guarantee" in shown
    assert "ε = 1, δ = 1e-07 (EMPIRICAL)" in shown
    assert "max_count = 1, max_total = 1, slope = 0.01, rho = 0.7" in shown


def test_release_with_tuning(work):
    knobs = (
        "--tune",
        "--slopes",
        "0.01,0.1",
        "--rhos",
        "0.2,0.8",
        "--score-sensitivity",
        "published",
        # Without a seed, a run chose noise of scale 0 once, which is refused.
        "--seed",
        1,
        "--json",
    )
    card = json.loads(check_output(*release_of("paper", "tuned", *knobs), cwd=work))["card"]
    assert card["details"]["slope"] in {0.01, 0.1}
    assert card["details"]["rho"] in {0.2, 0.8}
    assert card["details"]["epsilon_tuning"] == pytest.approx(1 / 3)


def test_tune(work):
    told = json.loads(
        check_output(
            "paper",
            "tune",
            "counts",
            "--vocab",
            "vocab.parquet",
            "--epsilon",
            0.5,
            "--json",
            cwd=work,
        )
    )
    assert told["guarantee"] == "EMPIRICAL"
    assert 1e-3 <= told["slope"] <= 1e4


def test_sensitivity(work):
    told = json.loads(
        check_output(
            "paper", "sensitivity", "counts", "--vocab", "vocab.parquet", "--json", cwd=work
        )
    )
    assert 0 < told["exact"] <= told["bound"]
    assert "not for publication" in told["warning"]


def test_a_seeded_release_repeats_and_is_stamped(work):
    for name in ("seed-a", "seed-b"):
        assert "seeded: not for publication" in check_output(
            *release_of("gaussian", name, "--seed", 5), cwd=work
        )
    first, second = (
        (work / name / "distribution.parquet").read_bytes() for name in ("seed-a", "seed-b")
    )
    assert first == second


def test_evaluate_any_number_of_releases(work):
    arguments = (
        "evaluate",
        "out-laplace",
        "out-gaussian",
        "--against",
        "counts",
        "--vocab",
        "vocab.parquet",
    )
    done = bayesgram(*arguments, cwd=work)
    assert done.returncode == 0, done.stderr
    assert [
        name in done.stdout
        for name in ("public text alone", "out-laplace", "out-gaussian", "PROVED")
    ] == [True] * 4
    assert "not for publication" in done.stderr
    rows = json.loads(check_output(*arguments, "--json", cwd=work))["releases"]
    assert [row["release"] for row in rows] == ["public text alone", "out-laplace", "out-gaussian"]
    assert all(row["kl"] > 0 for row in rows)


def test_generate(work):
    check_output("generate", "--users", 20, "--sentences", 100, "-o", "made", cwd=work)
    assert sorted(path.name for path in (work / "made").iterdir()) == [
        *("articles.txt.gz", "chat.txt.gz", "messages")
    ]


def test_generate_weeks_of_the_same_people(work):
    numbers = ("--users", 60, "--sentences", 100)
    told = check_output("generate", *numbers, "--weeks", 3, "-o", "year", cwd=work)
    assert "made-up text of 60 users in 3 weeks" in told
    assert "Private text: year/week-01 to year/week-03 (columns user and text)" in told
    assert sorted(path.name for path in (work / "year").iterdir()) == [
        *("articles.txt.gz", "chat.txt.gz", "week-01", "week-02", "week-03")
    ]
    check_output("generate", *numbers, "--seed", 7, "-o", "all", cwd=work)
    users = {
        name: set(pq.read_table(work / name)["user"].to_pylist())
        for name in ("year/week-01", "year/week-03", "all/messages")
    }
    assert users["year/week-01"] != users["year/week-03"]
    assert users["year/week-01"] | users["year/week-03"] < users["all/messages"]
    again = ("generate", *numbers, "--weeks", 1, "-o", "year", "--force", "--json")
    assert json.loads(check_output(*again, cwd=work))["private"] == ["year/week-01"]
    assert not (work / "year" / "week-02").exists()
    assert "from 1 to 99" in expect_refusal("generate", "--weeks", 100, "-o", "y", cwd=work)


def test_demo_at_small_size(work):
    told = json.loads(
        check_output("demo", "--users", 500, "--sentences", 1000, "-o", "story", "--json", cwd=work)
    )
    mechanisms = {
        "posterior",
        "laplace",
        "laplace-public",
        "gaussian",
        "paper",
        "paper-tuned",
        "k-anonymity",
    }
    assert {row["mechanism"] for row in told["rows"]} == {"no private data", *mechanisms}
    assert told["leaked"] == 0
    assert told["secrets"] > 0
    assert len(told["headlines"]) == 3
    assert sum(
        source["weight"] for source in told["source_weights"]["3"].values()
    ) == pytest.approx(1, abs=1e-3)
    assert "people's text resembles" in told["sources"].lower()
    assert (
        len(told["lifted"]) <= 12
    )  # none where so few people leave the prior as it is: the noise is real
    assert len(told["lowered"]) <= 12
    for name in (
        "comparison.png",
        "comparison.svg",
        "moved.png",
        "norms.png",
        "sources.png",
        "sources.svg",
        "results.csv",
        "results.json",
        "vocab.parquet",
    ):
        assert (work / "story" / name).stat().st_size > 100


def test_version_and_help():
    assert check_output("--version", cwd=".").startswith("bayesgram ")
    assert "Run all steps on made-up people" in check_output("--help", cwd=".")


def test_python_m_bayesgram_is_the_same():
    done = subprocess.run(
        [sys.executable, "-m", "bayesgram", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("bayesgram ")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("vocab", "none.txt", "-o", "x.parquet"), 2, "none.txt: no such file"),
        (("vocab", "public.txt", "--order", 9, "-o", "x.parquet"), 2, "--order 9: an n-gram has 1 to 6 tokens."),
        (("vocab", "public.txt", "--size", 0, "-o", "x.parquet"), 2, "--size 0: a vocabulary has 1 to 100,000,000 n-grams."),
        (("vocab", "public.txt", "-o", "vocab.parquet"), 2, "vocab.parquet: exists already; choose another --output, or replace it with --force."),
        (("vocab", "messages/a.parquet", "-o", "x.parquet"), 2, "no column 'text'; the columns are 'author', 'body'. Name the right one with --text-column."),
        (("count", "messages", "--vocab", "vocab.parquet", "--text-column", "body", "-o", "x"), 2, "no column 'user'; the columns are 'author', 'body'. Name the right one with --user-column."),
        (("count", "public.txt", "--vocab", "vocab.parquet", "-o", "x"), 2, "plain text has no user column"),
        (("count", "messages", "--vocab", "none.parquet", "-o", "x"), 2, "none.parquet: no such vocabulary; make one with `bayesgram vocab`."),
        (("release", "counts", "--vocab", "vocab.parquet", "-o", "x"), 2, "--epsilon is missing: posterior needs a budget; 0.1 is strong, 1 is usual."),
        (("release", "counts", "--vocab", "vocab.parquet", "--epsilon", 0, "-o", "x"), 2, "--epsilon 0.0: give a number from 1e-05 to 100;"),
        (("release", "counts", "--vocab", "vocab.parquet", "--epsilon", "nan", "-o", "x"), 2, "--epsilon nan: give a number from 1e-05 to 100;"),
        (("release", "counts", "--vocab", "vocab.parquet", "--epsilon", 1, "--delta", 1, "-o", "x"), 2, "--delta 1.0: give 0, or a number from 1e-30 to below 1;"),
        (("release", "counts", "--vocab", "vocab.parquet", "--mechanism", "paper", "--epsilon", 1, "--k", 3, "-o", "x"), 2, "--k: not an option of the mechanism paper, which has --expected-users, --max-count,"),
        (("release", "counts", "--vocab", "vocab.parquet", "--mechanism", "paper", "--epsilon", 1, "--tune", "--rho", 0.5, "-o", "x"), 2, "--rho and --tune: --tune chooses it; leave one of them out."),
        (("release", "counts", "--vocab", "vocab.parquet", "--mechanism", "paper", "--epsilon", 1, "--slopes", "1", "-o", "x"), 2, "--slopes: has a meaning only with --tune; add it or leave this out."),
        (("release", "counts", "--vocab", "vocab.parquet", "--mechanism", "paper", "--epsilon", 1, "--tune", "--slopes", "1,b", "-o", "x"), 2, "--slopes '1,b': give numbers separated by commas, such as 0.001,0.01,0.1."),
        (("release", "none", "--vocab", "vocab.parquet", "--epsilon", 1, "-o", "x"), 2, "none: no such counts; make them with `bayesgram count`."),
        (("release", "counts", "--vocab", "vocab.parquet", "--epsilon", 1, "--seed", -1, "-o", "x"), 2, "--seed -1: a seed is a whole number from 0 to 9,223,372,036,854,775,807."),
        (("release", "counts", "--vocab", "vocab.parquet", "--mechanism", "magic", "--epsilon", 1, "-o", "x"), 2, "'magic' is not one of"),
        (("release", "counts", "--vocab", "vocab.parquet", "--mechanism", "laplace", "--epsilon", 1, "--delta", 0.1, "-o", "x"), 2, "--delta: laplace needs none; leave it out."),
        (("release", "counts", "--vocab", "vocab.parquet", "--mechanism", "k-anonymity", "--epsilon", 1, "-o", "x"), 2, "--epsilon 1.0: k-anonymity adds no noise and can't use it; leave it out."),
        (("release", "counts", "--vocab", "vocab.parquet", "--epsilon", 1, "--max-total", 0, "--mechanism", "laplace", "-o", "x"), 2, "--max-total 0: W, the most occurrences from a user, is a whole number from 1 to 1,000,000."),
        (("vocab", "public.txt", "-o", "public.txt", "--force"), 2, "public.txt: would replace the input public.txt; choose another --output."),
        (("count", "messages", "--vocab", "vocab.parquet", "--user-column", "author", "--text-column", "body", "-o", "messages", "--force"), 2, "messages: would replace the input messages; choose another --output."),
        (("paper", "tune", "counts", "--vocab", "vocab.parquet"), 2, "Missing option '--epsilon'"),
        (("evaluate", "messages", "--against", "counts"), 2, "messages: not a release folder (no card.json); make one with `bayesgram release`."),
        (("demo", "--users", 0, "-o", "x"), 2, "--users 0"),
        (("nonsense",), 2, "No such command 'nonsense'"),
    ],
    ids=lambda value: "-".join(map(str, value))[:40] if isinstance(value, tuple) else "",
)  # fmt: skip
def test_bad_input(work, arguments, code, message):
    before = sorted(path.name for path in work.iterdir())
    assert message in fail(*arguments, cwd=work, code=code)
    assert sorted(path.name for path in work.iterdir()) == before  # nothing is left behind


def test_bad_rows_stop_the_run_or_are_counted(work):
    rows = [
        {"user": "u", "text": "the red fish"},
        {"user": None, "text": SECRET},
        {"user": "", "text": SECRET},
    ]
    lines = [json.dumps(row) for row in rows] + [
        f'{{"user": "x", "text": "{SECRET}',
        '{"user": 7, "text": "red fish"}',
    ]
    (work / "bad.jsonl").write_text("\n".join(lines))
    arguments = ("count", "bad.jsonl", "--vocab", "vocab.parquet", "-o", "skipped")
    message = fail(*arguments, cwd=work, code=1)
    assert message.endswith(
        "bad.jsonl: row 2: no user id. Correct the row, or skip and count such rows with --skip-bad-rows."
    )
    assert not (work / "skipped").exists()
    told = json.loads(check_output(*arguments, "--skip-bad-rows", "--json", cwd=work))
    assert sum(told["bad_rows_skipped"].values()) == 3


def test_counts_of_another_vocabulary_are_refused(work):
    other = pa.table({"ngram": [f"word{n} word" for n in range(8)], "count": [1] * 8})
    pq.write_table(other, work / "other.parquet")
    message = fail(
        "release", "counts", "--vocab", "other.parquet", "--epsilon", 1, "-o", "x", cwd=work, code=2
    )
    assert re.search(
        r"the counts belong to the vocabulary \w{12}… of 8 n-grams, and this one is \w{12}… of 8; give the one",
        message,
    )
    pq.write_table(other.slice(1), work / "other.parquet")
    message = fail(
        "release", "counts", "--vocab", "other.parquet", "--epsilon", 1, "-o", "x", cwd=work, code=2
    )
    assert message.endswith(
        "counts: counts over 8 n-grams, but the vocabulary has 7; give the vocabulary the counts were made with."
    )


def test_an_unexpected_error_shows_its_kind_and_no_content(work):
    """A card with a wrong type inside gets past the loader's checks only by a bug; simulate one in the code."""
    code = (
        "import bayesgram.io.atomic as w, bayesgram.cli as c, sys\n"
        f"def broken(*a, **k): raise RuntimeError('{SECRET}')\n"
        "w.check_writable = broken\n"
        "sys.argv = ['bayesgram', 'vocab', 'public.txt', '-o', 'y.parquet']\n"
        "c.main()"
    )
    done = fork_server.run_code(code, cwd=work)
    assert done.returncode == 1
    assert "unexpected RuntimeError inside bayesgram" in done.stderr
    assert SECRET not in done.stderr
    assert "Traceback" not in done.stderr


def test_an_ascii_terminal_loses_nothing(work):
    for number, extra in enumerate(((), ("--json",))):
        done = bayesgram(
            *release_of("gaussian", f"ascii-{number}", *extra), cwd=work, PYTHONIOENCODING="ascii"
        )
        assert done.returncode == 0, done.stderr
        assert "PROVED" in done.stdout


def test_a_suspicious_delta_is_warned_about(work):
    done = bayesgram(*release_of("gaussian", "delta", "--delta", 0.9999999), cwd=work)
    assert done.returncode == 0
    told = "Worthless: δ = 0.9999999 allows everything about a user to be shown with a chance of 100%: PROVED, and no"
    assert f"warning: {told} protection." in " ".join(done.stderr.split())
    assert f"Warning:    {told} protection." in done.stdout
    assert "δ = 0.9999999 (PROVED, worthless)" in done.stdout
    quiet = bayesgram(*release_of("gaussian", "delta-2", "--delta", 1e-6), cwd=work)
    assert "warning" not in quiet.stderr
    many = bayesgram(
        *release_of("gaussian", "delta-3", "--delta", 1e-6, "--expected-users", 1_000_000), cwd=work
    )
    assert "stay far below 1/(number of users), at most 1e-07 here." in " ".join(
        many.stderr.split()
    )
    card = json.loads((work / "delta-3" / "card.json").read_text(encoding="utf-8"))
    assert card["expected_users"] == 1_000_000
    assert len(card["warnings"]) == 1
    paper = bayesgram(*release_of("paper", "delta-4", "--delta", 0.01), cwd=work)
    assert "warning: --delta 0.01: with this chance all about somebody may come out" in paper.stderr
    assert "Warning" not in paper.stdout


def test_a_worthless_epsilon_is_said_before_and_on_the_card(work):
    done = bayesgram(*release_of("laplace", "loud", "--epsilon", 100, "--json"), cwd=work)
    assert done.returncode == 0, done.stderr
    told = "Worthless: ε = 100 allows odds to change by a factor of 2.7e+43: PROVED, and it protects nobody."
    assert f"warning: {told}" in " ".join(done.stderr.split())
    assert json.loads(done.stdout)["card"]["warnings"] == [told]


def test_a_comparison_tells_weak_promises_from_usual_ones(work):
    check_output(*release_of("laplace", "five", "--epsilon", 5), cwd=work)
    command = ("evaluate", "out-laplace", "five", "--against", "counts")
    assert "PROVED, weak" in check_output(*command, cwd=work)
    report = ("report", "out-laplace", "five", "-o", "five.html")
    assert "PROVED, weak" in check_output(*report, cwd=work)
    assert [
        row["grade"] for row in json.loads(check_output(*command, "--json", cwd=work))["releases"]
    ] == [None, "weak"]


def test_a_bound_on_users_that_can_t_be_is_refused(work):
    done = bayesgram(*release_of("gaussian", "none", "--expected-users", 0), cwd=work)
    assert done.returncode == 2
    assert (
        "--expected-users 0: a public bound on the number of users is a whole number from 1 to"
        in done.stderr
    )


@pytest.mark.unwatched
def test_a_full_disk_keeps_what_was_there(work):
    """A limit on file size stands for a full disk; the old release survives a forced replacement that fails."""
    check_output(*release_of("laplace", "kept"), cwd=work)
    before = (work / "kept" / "distribution.parquet").read_bytes()
    command = f"ulimit -f 0; exec '{PROGRAM}' release counts --vocab vocab.parquet --epsilon 1 -o kept --force"
    done = subprocess.run(
        ["bash", "-c", command], cwd=work, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert (work / "kept" / "distribution.parquet").read_bytes() == before
    assert not [path.name for path in work.iterdir() if path.name.startswith(".kept")]


def ledger_of(work, name):
    return json.loads(check_output("ledger", "show", name, "--json", cwd=work))


def test_a_release_is_charged_to_its_ledger_and_refused_when_it_would_overspend(work):
    create = (
        "ledger",
        "create",
        "--population",
        "fish fans",
        "--epsilon",
        1,
        "--delta",
        1e-6,
        "fans.ledger",
    )
    check_output(*create, cwd=work)
    charge = (
        "release",
        "counts",
        "--vocab",
        "vocab.parquet",
        "--ledger",
        "fans.ledger",
        "--delta",
        1e-6,
    )
    card = json.loads(check_output(*charge, "--epsilon", 0.8, "-o", "charged", "--json", cwd=work))[
        "card"
    ]
    told = {"population": "fish fans", "entry": 1, "epsilon": 1, "delta": 1e-6}
    assert card["ledger"] == {**told, "ledger": ledger_of(work, "fans.ledger")["identity"]}
    message = fail(*charge, "--epsilon", 0.8, "-o", "too-much", cwd=work, code=1)
    assert "fish fans" in message
    assert not (work / "too-much").exists()
    told = ledger_of(work, "fans.ledger")
    assert [entry["state"] for entry in told["entries"]] == ["published"]
    check_output(
        *charge, "--epsilon", 0.3, "-o", "small", cwd=work
    )  # 0.8 and 0.3 by Gaussian composition: below 1
    assert ledger_of(work, "fans.ledger")["spent_epsilon"] < 1


def test_what_is_not_proved_can_not_be_charged(work):
    check_output(
        "ledger",
        "create",
        "--population",
        "p",
        "--epsilon",
        1,
        "--delta",
        1e-6,
        "p.ledger",
        cwd=work,
    )
    assert "labelled EMPIRICAL, so no ledger can be charged" in fail(
        *release_of("paper", "x", "--ledger", "p.ledger"), cwd=work, code=2
    )
    assert "a seeded release is not private, so no ledger is charged" in fail(
        *release_of("gaussian", "x", "--ledger", "p.ledger", "--seed", 1), cwd=work, code=2
    )
    assert ledger_of(work, "p.ledger")["entries"] == []


def test_a_release_that_fails_after_its_reservation_stays_spent(work):
    check_output(
        "ledger",
        "create",
        "--population",
        "q",
        "--epsilon",
        1,
        "--delta",
        1e-6,
        "q.ledger",
        cwd=work,
    )
    code = (
        "import bayesgram.mechanisms.gaussian as g, bayesgram.cli as c, os, sys\n"
        "def die(*a, **k): os.kill(os.getpid(), 9)\n"
        "g.clipped_sum = die\n"
        "sys.argv = ['bayesgram', 'release', 'counts', '--vocab', 'vocab.parquet', '--mechanism', 'gaussian',"
        " '--epsilon', '0.5', '--ledger', 'q.ledger', '-o', 'never']\n"
        "c.main()"
    )
    done = fork_server.run_code(code, cwd=work)
    assert done.returncode == -9
    assert not (work / "never").exists()
    assert [entry["state"] for entry in ledger_of(work, "q.ledger")["entries"]] == ["reserved"]
