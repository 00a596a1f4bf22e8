"""bayesgram discover and bayesgram review through the installed entry point."""

import csv
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayesgram.privacy.budget import Budget
from bayesgram.privacy.ledger import Ledger
from bayesgram.public.discovered_ngrams import Discovery
from bayesgram.public.vocabulary import Vocabulary
from helpers import commands

SECRET = "zanzibarsecret"
USER = "person-of-interest"
PUBLIC = [
    "the cat sat on the mat. the dog is here and the cat is there. call me when you are home.",
    "a new phone is on the table. the new dog is not so old. we are here, call us on the phone.",
]
NEW = ["the new lumora is here", "my lumora is not so flumpy", "call 555 0123 99 when you are home"]
BUDGET = ("--epsilon", 8, "--delta", 1e-6, "--rounds", 3)
COMMON = ("private.parquet", "--vocab", "vocab.parquet")


def bayesgram(folder, *arguments, code=0):
    """What a command says, which is never a traceback, a user or a secret."""
    done = commands.bayesgram(*arguments, cwd=folder)
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    assert SECRET not in done.stdout + done.stderr
    assert USER not in done.stdout + done.stderr
    return done


def refused(folder, *arguments, code=2):
    return " ".join(bayesgram(folder, *arguments, code=code).stderr.split())


def write_private(path, users, texts):
    rows = [(f"{USER}-{user}", text) for user in range(users) for text in texts]
    table = {"user": [user for user, _ in rows], "text": [text for _, text in rows]}
    pq.write_table(pa.table(table), path)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Public and private text, and a discovery with its picture."""
    folder = tmp_path_factory.mktemp("a discovery")
    public = pa.table({"text": PUBLIC})
    Vocabulary.from_public(public, order=[1, 2, 3], size=100).save(folder / "vocab.parquet")
    write_private(folder / "private.parquet", 400, NEW)
    write_private(folder / "one.parquet", 1, [f"the {SECRET} is {SECRET}"])
    inputs = ("private.parquet", "one.parquet", "--vocab", "vocab.parquet")
    Ledger.create(folder / "people.ledger", population="people", budget=Budget(20, 1e-5))
    options = (*BUDGET, "--ledger", "people.ledger", "--plot", "found.svg")
    (folder / "said").write_text(
        bayesgram(folder, "discover", *inputs, *options, "-o", "found").stdout
    )
    return folder


def test_what_many_write_is_found_and_what_one_writes_is_not(work):
    found = Discovery.load(work / "found")
    ngrams = set(found.ngrams.to_pylist())
    assert {"lumora", "flumpy", "new lumora", "so flumpy"} <= ngrams
    assert not any(SECRET in ngram for ngram in ngrams)
    assert found.weights.min() > found.threshold
    assert np.all(np.diff(found.weights) <= 0)
    grown = Vocabulary.load(work / "found" / "vocab.parquet")
    assert ngrams == set(np.array(grown.ngrams.to_pylist())[grown.origins.discovered])
    assert grown.card_details["discovered"] == len(found)


def test_the_table_says_how_many_of_which_order_and_how_far_above_the_level(work):
    said, found = (work / "said").read_text(), Discovery.load(work / "found")
    words, pairs, triples = (int((found.orders == order).sum()) for order in (1, 2, 3))
    by_order = f"{words} words, {pairs} bigrams and {triples} trigrams"
    assert f"Found:      {len(found)} n-grams that the vocabulary lacks: {by_order}." in said
    assert f"T = {found.threshold:.1f}" in said
    assert "█" in said
    assert "Ledger:     people, entry 1" in said


LEDGER = {"population": "people", "entry": 1, "epsilon": 20, "delta": 1e-5}


def test_the_card_has_the_command_and_the_ledger_both_entries(work):
    card = json.loads((work / "found" / "card.json").read_text())
    assert card["command"].startswith(
        "bayesgram discover private.parquet one.parquet --vocab vocab.parquet"
    )
    assert (card["guarantee"], card["epsilon"]) == ("PROVED", 8)
    assert len(card["ledger"].pop("ledger")) == 32  # the identity of the ledger
    assert card["ledger"] == LEDGER


def test_the_picture_has_what_was_found_and_no_secret(work):
    picture = (work / "found.svg").read_text()
    assert picture.startswith("<svg")
    assert "lumora" in picture
    assert "many people write and public text lacks" in picture
    assert SECRET not in picture


def test_count_and_release_go_on_and_every_card_names_the_discovery(work):
    vocab = ("--vocab", "found/vocab.parquet")
    bayesgram(work, "count", "private.parquet", *vocab, "-o", "counts")
    told = bayesgram(
        work, "release", "counts", *vocab, "--epsilon", 2, "--delta", 1e-7, "-o", "out"
    )
    size, new = (
        len(Vocabulary.load(work / "found" / "vocab.parquet")),
        len(Discovery.load(work / "found")),
    )
    assert (
        f"Vocabulary: {size} n-grams of order 1, 2, 3: public text, and {new} discovered at ε = 8, δ = 1e-06"
        " (PROVED), which adds up with this release"
    ) in told.stdout
    table = pq.read_table(work / "out" / "distribution.parquet")
    assert table["origin"].to_pylist().count("discovered") == new
    bayesgram(work, "export", "out", "--format", "jsonl", "-o", "out.jsonl")
    rows = [json.loads(line) for line in (work / "out.jsonl").read_text().splitlines()]
    assert {row["origin"] for row in rows if row["ngram"] in {"lumora", "cat"}} == {
        "discovered",
        "public",
    }
    bayesgram(work, "report", "found", "out", *vocab, "-o", "report.html")
    page = (work / "report.html").read_text()
    assert page.count("<h3>Discovered</h3>") == 1
    assert "that many people write and that the public vocabulary lacks" in page
    assert "except by the discovery, which has an ε of its own" in page


def test_as_json(work):
    options = (
        *COMMON,
        *BUDGET[:4],
        "--rounds",
        1,
        "--orders",
        "1,2",
        "--max-new",
        3,
        "--json",
        "-o",
        "json",
    )
    told = json.loads(bayesgram(work, "discover", *options).stdout)
    assert told["card"]["settings"] | {"rounds": 1, "max_new": 3} == told["card"]["settings"]
    assert len(told["found"]) == 3
    assert set(told["found"][0]) == {"ngram", "order", "weight", "looks_like"}


def test_strings_that_look_like_secrets_are_pointed_at_and_can_be_kept_back(work):
    said = bayesgram(work, "review", "found").stderr
    assert "look like secrets that many people share" in said
    assert "0123" in said
    told = bayesgram(work, "review", "found", "--file", "review.csv", "--json").stdout
    with (work / "review.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert json.loads(told)["rows"] == len(rows) == len(Discovery.load(work / "found"))
    assert {row["keep"] for row in rows if "0123" in row["ngram"]} == {"no"}
    told = json.loads(
        bayesgram(
            work,
            "review",
            "found",
            "--file",
            "review.csv",
            "--drop",
            "^my ",
            "-o",
            "kept",
            "--json",
        ).stdout
    )
    kept = Discovery.load(work / "kept")
    refused_rows = {
        row["ngram"] for row in rows if row["keep"] == "no" or row["ngram"].startswith("my ")
    }
    assert told == {
        "output": "kept",
        "kept": len(kept),
        "kept_back": len(rows) - len(kept),
        "contain_a_dropped_one": len(rows) - len(kept) - len(refused_rows),
    }
    assert not any("0123" in ngram or ngram.startswith("my ") for ngram in kept.ngrams.to_pylist())
    assert set(kept.ngrams.to_pylist()) <= set(kept.vocabulary.ngrams.to_pylist())
    assert "0123" not in " ".join(kept.vocabulary.ngrams.to_pylist())
    before = Discovery.load(work / "found")
    assert kept.card == replace(before.card, details={**before.card.details, "reviewed": True})
    assert (before.card.is_unreviewed, kept.card.is_unreviewed) == (True, False)
    assert [claim.reviewed for claim in before.vocabulary.origins.claims] == [False]
    assert [claim.reviewed for claim in kept.vocabulary.origins.claims] == [True]
    patterns_alone = ("review", "found", "--drop", "^my ", "-o", "matched", "--json")
    bayesgram(work, *patterns_alone)
    assert Discovery.load(work / "matched").card.is_unreviewed  # nobody has read the strings


def test_what_a_pattern_finds_is_never_written(work):
    bayesgram(
        work, "discover", *COMMON, *BUDGET, "--drop", r"\d", "--drop", "flumpy", "-o", "dropped"
    )
    found = Discovery.load(work / "dropped")
    assert "lumora" in found.ngrams.to_pylist()
    assert not any(
        "flumpy" in ngram or "555" in ngram for ngram in found.vocabulary.ngrams.to_pylist()
    )


def test_what_contains_a_dropped_word_is_dropped_with_it_and_the_command_says_so(work):
    found = set(Discovery.load(work / "found").ngrams.to_pylist())
    with_lumora = {ngram for ngram in found if "lumora" in ngram.split()}
    assert len(with_lumora) > 2
    said = bayesgram(work, "review", "found", "--drop", "^lumora$", "-o", "no lumora").stdout
    dropped = f"1 that you decided against or that match --drop, and {len(with_lumora) - 1} more"
    assert f"Dropped n-grams: {dropped} that contain one of these.\n" in said
    assert "It is not marked as reviewed" in said
    left = Discovery.load(work / "no lumora")
    assert set(left.ngrams.to_pylist()) == found - with_lumora
    assert not any("lumora" in ngram for ngram in left.vocabulary.ngrams.to_pylist())
    done = bayesgram(work, "discover", *COMMON, *BUDGET, "--drop", "^lumora$", "-o", "never lumora")
    assert "Dropped n-grams: 1 that match --drop, and " in " ".join(done.stderr.split())
    never = Discovery.load(work / "never lumora")
    assert not any("lumora" in ngram for ngram in never.vocabulary.ngrams.to_pylist())


def test_nothing_found_says_what_it_would_take(work):
    write_private(work / "few.parquet", 5, NEW)
    options = (
        "few.parquet",
        "--vocab",
        "vocab.parquet",
        "--epsilon",
        1,
        "--plot",
        "none.svg",
        "-o",
        "nothing",
    )
    done = bayesgram(work, "discover", *options)
    said = " ".join(done.stderr.split())
    assert "Found:      no n-gram that the vocabulary lacks" in done.stdout
    assert (
        "Nothing was found: no n-gram that the vocabulary lacks has a noisy weight above T = 30.3."
        in said
    )
    assert "it takes about 303 people who write the same one; at ε = 2 about" in said
    assert "Nothing to draw" in said
    assert not (work / "none.svg").exists()
    assert "Nothing of it looks like a secret" in bayesgram(work, "review", "nothing").stderr
    bayesgram(work, "report", "nothing", "-o", "nothing.html")
    assert (
        "Nothing was discovered: no n-gram that the vocabulary lacks"
        in (work / "nothing.html").read_text()
    )
    assert len(Vocabulary.load(work / "nothing" / "vocab.parquet")) == len(
        Vocabulary.load(work / "vocab.parquet")
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--delta", 0), "--delta 0: a discovery needs a delta above 0; 1e-7 is usual."),
        (
            ("--epsilon", 0.02, "--delta", 0.01),
            "--epsilon 0.02: a discovery with --delta 0.01 needs an epsilon above 2·delta = 0.02; give a larger epsilon",
        ),
        (
            ("--epsilon", 0.001, "--delta", 0.01, "--rounds", 1),
            "--epsilon 0.001: a discovery with --delta 0.01 needs an epsilon above 2·delta = 0.02",
        ),
        (
            ("--max-new", 0),
            "--max-new 0: the most n-grams that may come out is a whole number from 1 to 10,000,000.",
        ),
        (
            ("--at-least", 0),
            "--at-least 0: the number of people that it takes at least is a whole number from 1 to 1,000,000.",
        ),
        (("--rounds", 0), "--rounds 0: the number of rounds is a whole number from 1 to 100."),
        (
            ("--orders", "4"),
            "--orders 4: the vocabulary lists n-grams of order 1, 2, 3; search among those",
        ),
        (
            ("--orders", "one"),
            "--orders 'one': give whole numbers separated by commas, such as 1,2,3.",
        ),
        (("--drop", "("), "--drop (: not a regular expression"),
        (("--plot", "found.pdf"), "--plot found.pdf: a picture is a .svg or a .png"),
        (("--ledger", "none.ledger"), "none.ledger"),
        (("--seed", 1, "--ledger", "fresh.ledger"), "--seed 1: a seeded discovery is not private"),
        (("--memory", "much"), "memory"),
        (("--vocab", "uncounted.parquet"), "count"),
        (
            ("-o", "found"),
            "found: exists already; choose another --output, or replace it with --force.",
        ),
    ],
)
def test_what_won_t_do_is_refused_and_nothing_is_written(work, options, message):
    if not (work / "fresh.ledger").exists():
        Ledger.create(work / "fresh.ledger", population="fresh", budget=Budget(9, 1e-5))
        pq.write_table(pa.table({"ngram": ["the", "cat"]}), work / "uncounted.parquet")
    given = dict(zip(options[::2], options[1::2], strict=True))
    asked = {"--vocab": "vocab.parquet", "--epsilon": 1, "-o": "refused", **given}
    said = refused(
        work, "discover", "private.parquet", *(word for pair in asked.items() for word in pair)
    )
    assert message in said
    assert not (work / "refused").exists()
    assert not Ledger.open(work / "fresh.ledger").read().reservations


def test_without_an_epsilon_or_a_text_nothing_is_asked(work):
    assert "--epsilon is missing: a discovery needs a budget; 1 is usual." in refused(
        work, "discover", *COMMON, "-o", "refused"
    )
    pq.write_table(
        pa.table({"user": pa.array([], pa.string()), "text": pa.array([], pa.string())}),
        work / "no.parquet",
    )
    options = (
        "--vocab",
        "vocab.parquet",
        "--epsilon",
        1,
        "--ledger",
        "empty.ledger",
        "-o",
        "refused",
    )
    Ledger.create(work / "empty.ledger", population="nobody", budget=Budget(9, 1e-5))
    refused(work, "discover", "no.parquet", *options, code=1)
    assert not Ledger.open(work / "empty.ledger").read().reservations


def test_a_ledger_whose_first_entry_was_a_release_takes_no_discovery(work):
    Ledger.create(work / "late.ledger", population="late", budget=Budget(20, 1e-5))
    bayesgram(work, "count", *COMMON, "-o", "public counts")
    release = ("public counts", "--vocab", "vocab.parquet", "--epsilon", 1, "--delta", 1e-7)
    bayesgram(work, "release", *release, "--ledger", "late.ledger", "-o", "first")
    said = refused(
        work, "discover", *COMMON, *BUDGET, "--ledger", "late.ledger", "-o", "refused", code=1
    )
    assert "discover" in said
    assert not (work / "refused").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[1:], "has neither yes nor no in the column 'keep'; decide."),
        (lambda rows: [{**row, "keep": "perhaps"} for row in rows], "has neither yes nor no"),
        (
            lambda rows: [{"ngram": row["ngram"]} for row in rows],
            "not the table that this command wrote",
        ),
    ],
)
def test_a_table_that_does_not_decide_is_refused(work, change, message):
    rows = [
        {"keep": "yes", "ngram": ngram}
        for ngram in Discovery.load(work / "found").ngrams.to_pylist()
    ]
    changed = change(rows)
    with (work / "odd.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, changed[0])
        writer.writeheader()
        writer.writerows(changed)
    assert message in refused(work, "review", "found", "--file", "odd.csv", "-o", "refused")
    assert not (work / "refused").exists()


def test_review_takes_discoveries_and_serve_takes_none(work):
    assert "private.parquet: not a discovery (no ngrams.parquet)" in refused(
        work, "review", "private.parquet"
    )
    assert "there is no such table; leave --output out" in refused(
        work, "review", "found", "--file", "absent.csv", "-o", "refused"
    )
    assert "found: a discovery, not a release; `bayesgram report` shows it" in refused(
        work, "serve", "found"
    )
    assert "compare releases, and there is none" in refused(
        work, "report", "found", "--vocab", "vocab.parquet", "-o", "refused.html"
    )


@pytest.mark.parametrize("command", ["discover", "review"])
def test_help_has_an_example(work, command):
    said = bayesgram(work, command, "--help").stdout
    assert f"Example: bayesgram {command} " in said
    assert "--drop" in said


@pytest.mark.parametrize("rounds", [1, 3])
def test_where_nobody_writes_anything_new_the_command_succeeds(work, rounds):
    """An exit code that follows from private text would tell about it."""
    write_private(work / "nothing-new.parquet", 20, ["the cat", "the dog"])
    out = f"nothing-{rounds}"
    budget = ("--epsilon", 8, "--delta", 1e-6, "--rounds", rounds)
    said = bayesgram(
        work, "discover", "nothing-new.parquet", "--vocab", "vocab.parquet", *budget, "-o", out
    )
    assert "Found:      no n-gram that the vocabulary lacks" in said.stdout
    assert len(Discovery.load(work / out)) == 0
