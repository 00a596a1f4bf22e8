"""Promises that hold and protect little: the words are true, stand where PROVED stands, and nowhere else."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.errors import BayesgramError
from bayesgram.mechanisms.gaussian import Gaussian
from bayesgram.paper.algorithm_1 import Paper
from bayesgram.paper.k_anonymity import KAnonymity
from bayesgram.privacy.budget import MIN_DELTA, Budget
from bayesgram.releases.card import Card
from bayesgram.releases.card_sections import (
    MAX_EXPECTED_EXPOSED,
    WEAK_DELTA,
    WEAK_EPSILON,
    WORTHLESS_DELTA,
    WORTHLESS_EPSILON,
    Grade,
    find_weaknesses,
    format_chance,
    format_odds_factor,
    format_rounded_up,
    worst_grade,
)
from bayesgram.releases.release import Release
from helpers import reference_paper

HOW_TO = Path(__file__).parent.parent.parent / "docs" / "howto" / "choose-epsilon-and-delta.md"

EPSILONS = st.floats(1e-5, 100)
DELTAS = st.just(0.0) | st.floats(math.log(MIN_DELTA), -1e-9).map(math.exp)
USERS = st.none() | st.integers(1, 10**10)
RANK = {None: 0, Grade.WEAK: 1, Grade.WORTHLESS: 2}


def card_of(mechanism=None, *, epsilon=1.0, delta=1e-6, seed=None, **changed):
    counts, vocabulary = (
        reference_paper.make_user_counts(np.eye(3, dtype=int)),
        reference_paper.make_vocabulary([4, 2, 1]),
    )
    mechanism = mechanism or Gaussian()
    budget = None if isinstance(mechanism, KAnonymity) else Budget(epsilon, delta)
    return replace(mechanism.release(counts, vocabulary, budget, seed=seed).card, **changed)


@pytest.mark.parametrize(
    ("epsilon", "delta", "users", "grade"),
    [
        (0.1, 0.0, None, None), (1.0, 1e-7, None, None), (1.0, 1e-7, 1_000_000, None), (3.99, 9.9e-5, None, None),
        (4.0, 0.0, None, Grade.WEAK), (9.99, 1e-7, None, Grade.WEAK), (10.0, 0.0, None, Grade.WORTHLESS),
        (100.0, 0.0, None, Grade.WORTHLESS), (1.0, 1e-4, None, Grade.WEAK), (1.0, 1e-4, 100, Grade.WEAK),
        (1.0, 1.01e-7, 1_000_000, Grade.WEAK), (1.0, 1e-6, 1_000_000, Grade.WEAK), (1.0, 1e-6, 100_000, None),
        (1.0, 0.01, None, Grade.WORTHLESS), (1.0, 0.5, 1, Grade.WORTHLESS), (4.0, 0.5, None, Grade.WORTHLESS),
    ],
)  # fmt: skip
def test_where_the_lines_are(epsilon, delta, users, grade):
    assert worst_grade(find_weaknesses(epsilon, delta, users)) == grade


@given(EPSILONS, EPSILONS, DELTAS, DELTAS, USERS)
def test_a_weaker_promise_is_never_graded_better(epsilon, more_epsilon, delta, more_delta, users):
    epsilon, more_epsilon = sorted([epsilon, more_epsilon])
    delta, more_delta = sorted([delta, more_delta])
    assert (
        RANK[worst_grade(find_weaknesses(epsilon, delta, users))]
        <= RANK[worst_grade(find_weaknesses(more_epsilon, more_delta, users))]
    )
    assert (
        RANK[worst_grade(find_weaknesses(epsilon, delta))]
        <= RANK[worst_grade(find_weaknesses(epsilon, delta, users))]
    )


@given(EPSILONS, DELTAS, USERS)
def test_every_sentence_is_one_line_that_begins_with_its_grade(epsilon, delta, users):
    found = find_weaknesses(epsilon, delta, users)
    assert len(found) <= 2
    for each in found:
        assert str(each).startswith(("Weak: ", "Worthless: "))
        assert str(each).endswith(".")
        assert str(each).isprintable()
        assert ("PROVED, and " in str(each)) == (each.grade is Grade.WORTHLESS)


@given(EPSILONS)
def test_a_factor_is_never_printed_below_the_truth(epsilon):
    shown = float(format_odds_factor(epsilon).replace(",", ""))
    assert math.exp(epsilon) <= shown <= 1.11 * math.exp(epsilon) + 0.01


@given(DELTAS.filter(bool))
def test_a_chance_is_never_printed_below_the_truth(delta):
    shown = format_chance(delta)
    turns = re.fullmatch(r"1 in ([\d,.e+]+)", shown)
    value = 1 / float(turns[1].replace(",", "")) if turns else float(shown.removesuffix("%")) / 100
    assert (
        delta * (1 - 1e-9) <= value or delta < 1e-12
    )  # below, two digits are shown, to the nearest
    assert delta <= float(format_rounded_up(delta)) <= 1.1 * delta


def test_the_number_of_people_is_that_of_the_mechanism_that_shows_each_with_chance_delta():
    (found,) = find_weaknesses(1.0, 2.5e-6, 1_000_000)
    assert str(found) == (
        "Weak: δ = 2.5e-06 allows everything about 2.5 of 1,000,000 users to be shown, on average;"
        " stay far below 1/(number of users), at most 1e-07 here."
    )


def test_the_how_to_draws_the_same_lines():
    page = HOW_TO.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?:ε|δ) \| from ([\d.e-]+) \| from ([\d.e-]+) \|", page, re.MULTILINE)
    lines = [tuple(map(float, row)) for row in rows]
    assert lines == [(WEAK_EPSILON, WORTHLESS_EPSILON), (WEAK_DELTA, WORTHLESS_DELTA)]
    assert f"| above {MAX_EXPECTED_EXPOSED}/n |" in page
    shown = str(card_of(epsilon=100.0, delta=0.5)).splitlines()
    assert "\n".join(line for line in shown if line.startswith(("Claims:", "Warning:"))) in page


# On cards


def test_a_card_says_it_under_its_claim_and_in_json():
    card = card_of(epsilon=100.0, delta=0.5)
    told = "Worthless: ε = 100 allows odds to change by a factor of 2.7e+43: PROVED, and it protects nobody."
    lines = str(card).splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("Claims:"))
    assert lines[at] == "Claims:     ε = 100, δ = 0.5 (PROVED, worthless)"
    assert lines[at + 1] == f"Warning:    {told}"
    assert lines[at + 2].startswith("Warning:    Worthless: δ = 0.5 ")
    assert card.to_json()["warnings"] == card.warnings
    assert card.warnings[0] == told


def test_a_usual_card_says_nothing_of_it():
    card = card_of()
    assert card.to_json()["warnings"] == []
    assert "Warning" not in str(card)
    assert card.claim == "ε = 1, δ = 1e-06 (PROVED)"


@pytest.mark.parametrize(
    "arguments", [{"mechanism": Paper()}, {"mechanism": KAnonymity(2)}, {"seed": 1}]
)
def test_where_nothing_is_proved_nothing_is_called_weak(arguments):
    card = card_of(epsilon=100.0, delta=0.5, **arguments)
    assert (card.warnings, card.grade) == ([], None)
    assert card.claim.endswith(f"({card.guarantee.name})")


def test_words_on_disk_are_not_believed():
    card = card_of(epsilon=100.0).to_json()
    assert Card.from_json({**card, "warnings": []}).warnings != []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", "1"), ("epsilon", -1), ("epsilon", float("nan")), ("epsilon", 1e300), ("epsilon", True),
        ("delta", 2), ("delta", [0]), ("expected_users", -1), ("expected_users", 10**400), ("expected_users", "many"),
    ],
)  # fmt: skip
def test_a_card_with_impossible_numbers_is_refused(tmp_path, name, value):
    counts, vocabulary = (
        reference_paper.make_user_counts(np.eye(3, dtype=int)),
        reference_paper.make_vocabulary([4, 2, 1]),
    )
    Gaussian().release(counts, vocabulary, Budget(1.0, 1e-6)).save(tmp_path / "out")
    file = tmp_path / "out" / "card.json"
    file.write_text(
        json.dumps(json.loads(file.read_text(encoding="utf-8")) | {name: value}), encoding="utf-8"
    )
    with pytest.raises(BayesgramError, match="the release is damaged"):
        Release.load(tmp_path / "out")
