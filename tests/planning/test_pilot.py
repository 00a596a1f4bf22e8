"""A pilot release instead of guesses: what it says of people whom the test invents."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import bayesgram as bg
from bayesgram.planning.pilot import assumptions_from_pilot
from helpers.commands import check_output, expect_refusal

WORDS = [f"word{number}" for number in range(400)]
USERS, MEAN, UNEVENNESS = 6_000, 12.0, 0.8


@pytest.fixture(scope="module")
def people():
    """Public text and people whose amounts are log-normal, and who write like public text."""
    rng = np.random.default_rng(5)
    weights = 1 / np.arange(1, len(WORDS) + 1)
    weights /= weights.sum()
    public = rng.choice(WORDS, 40_000, p=weights)
    amounts = np.exp(UNEVENNESS * rng.standard_normal(USERS))
    amounts = np.maximum(np.round(amounts * MEAN / amounts.mean()), 1).astype(int)
    texts = [" ".join(rng.choice(WORDS, amount, p=weights)) for amount in amounts]
    return (
        pa.table({"text": [" ".join(public)]}),
        pa.table({"user": range(USERS), "text": texts}),
    )


@pytest.fixture(scope="module")
def vocabulary(people):
    return bg.Vocabulary.from_public(people[0], order=1, size=300)


@pytest.fixture(scope="module")
def pilot(people, vocabulary):
    return bg.release(bg.count(people[1], vocabulary), vocabulary, epsilon=2, delta=1e-6)


def test_the_pilot_says_how_many_people_there_are_and_what_they_write(pilot, vocabulary):
    found = assumptions_from_pilot(pilot, vocabulary)
    assert found.users == pytest.approx(USERS, rel=0.15)
    assert found.ngrams_a_user == pytest.approx(MEAN, rel=0.4)
    assert found.unevenness == pytest.approx(UNEVENNESS, abs=0.3)
    assert found.difference < 0.6  # they write like public text


def test_a_plan_takes_what_is_not_given_from_the_pilot(pilot, vocabulary):
    found = assumptions_from_pilot(pilot, vocabulary)
    plan = bg.plan(vocabulary, pilot=pilot, users=50_000, epsilon=0.5, draws=1)
    assert plan.assumptions == replace(found, users=50_000)
    assert plan.from_pilot == ("ngrams_a_user", "unevenness", "difference")
    assert plan.to_json()["from_pilot"] == list(plan.from_pilot)
    assert "From the pilot release: ngrams a user, unevenness, difference." in plan.notes[2]
    assert repr(plan) == "Plan(50,000 users, ε = 0.5, δ = 1e-07)"
    assert "Plan (simulated)" in plan._repr_html_()
    same = bg.plan(
        vocabulary, epsilon=0.5, draws=1, **{**vars(found), "users": 50_000, "segments": 1}
    )
    assert same.rows == plan.rows


def test_what_a_pilot_must_be(people, vocabulary, pilot):
    with pytest.raises(bg.UsageError, match="say how many people write, roughly, with `users`"):
        bg.plan(vocabulary)
    other = bg.Vocabulary.from_public(people[0], order=1, size=200)
    with pytest.raises(bg.UsageError, match="the pilot release: was made with another vocabulary"):
        bg.plan(other, pilot=pilot)
    counts = bg.count(people[1], vocabulary)
    gaussian = bg.release(counts, vocabulary, epsilon=2, delta=1e-6, mechanism=bg.Gaussian())
    with pytest.raises(bg.UsageError, match="has no histogram of norms"):
        bg.plan(vocabulary, pilot=gaussian)
    few = bg.count(people[1].slice(0, 50), vocabulary)
    hidden = bg.release(few, vocabulary, epsilon=0.01, delta=1e-6)
    with pytest.raises(bg.BayesgramError, match="noise hides how many people"):
        bg.plan(vocabulary, pilot=hidden)


def test_the_command(people, vocabulary, pilot, tmp_path):
    vocabulary.save(tmp_path / "vocab.parquet")
    pilot.save(tmp_path / "out")
    given = ("plan", "--vocab", "vocab.parquet", "--epsilon", 1, "--draws", 1, "--json")
    said = json.loads(check_output(*given, "--pilot", "out", cwd=tmp_path))
    assert said["from_pilot"] == ["users", "ngrams_a_user", "unevenness", "difference"]
    assert said["users"] == assumptions_from_pilot(pilot, vocabulary).users
    assert "with --users, or give a release about them with --pilot" in expect_refusal(
        *given, cwd=tmp_path
    )
