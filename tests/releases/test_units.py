"""Every statement about ε names the unit that the curator stated."""

import re
from dataclasses import replace
from datetime import date

import pytest

from bayesgram.audit.evaluation import comparison_row
from bayesgram.cli.evaluate import format_guarantee
from bayesgram.lm.language_model import LanguageModel
from bayesgram.privacy.accounting import Spend
from bayesgram.privacy.budget import Budget, Guarantee
from bayesgram.privacy.ledger import Ledger
from bayesgram.privacy.unit import DEFAULT_UNIT
from bayesgram.releases.previous import PreviousRelease
from bayesgram.reports.explanation import explain_epsilon, verdict
from bayesgram.reports.report import render_report
from bayesgram.reports.views import ReleaseView
from bayesgram.web.panels import card_details
from helpers import commands, web_catalogue

MADE = web_catalogue.make_release(web_catalogue.make_vocabulary(), 1.0)
PROVED = replace(
    MADE.card,
    seeded=False,
    guarantee=Guarantee.PROVED,
    statement="As tested.",
    epsilon=1.0,
    delta=1e-7,
)
# What is said to a person whose whole text is one unit, and wrong of anything less.
OF_A_PERSON = re.compile(
    r"your part|your text|you wrote|you could have|everything (about )?(one|a) user|[Ww]hether (any )?one user|level of a user"
)
LEDGER = {"population": "posts", "ledger": "f" * 32, "entry": 1, "epsilon": 2.0, "delta": 1e-6}


def release_of(unit, **changes):
    """A release that follows another one, both with this unit."""
    card = replace(PROVED, unit=unit, **changes)
    before = replace(MADE, card=card)
    return replace(
        MADE, card=replace(card, chain=PreviousRelease(before, "week-1").chain.to_json())
    )


def statements(release):
    """Everything that is said about the privacy of a release, wherever it is said."""
    card, view = release.card, ReleaseView("out", release)
    shown = card_details(view)
    yield from (line for _, line in card.summary_lines)
    yield from (str(value) for value in card.to_json().values() if isinstance(value, str))
    yield from explain_epsilon(card)
    yield from card.warnings
    yield verdict([("out", card)])
    yield from (str(value) for value in shown.values() if isinstance(value, str))
    yield from [*shown["meaning"], *shown["warnings"]]
    yield str(LanguageModel.from_release(release).about)
    yield re.sub(r"<[^>]+>", " ", render_report([view], day=date(2026, 6, 1)))


@pytest.mark.parametrize(
    "changes", [{}, {"epsilon": 6.0}, {"delta": 1e-3}, {"ledger": LEDGER}], ids=str
)
def test_no_statement_about_a_post_is_about_a_person(changes):
    for statement in statements(release_of("a post", **changes)):
        found = OF_A_PERSON.search(statement)
        assert not found, (found, statement)


@pytest.mark.parametrize("unit", ["a post", "a user's week", None])
@pytest.mark.parametrize("ledger", [None, LEDGER], ids=["no ledger", "a ledger"])
def test_guarantee_chain_and_verdict_name_the_unit(unit, ledger):
    card = release_of(unit, ledger=ledger).card
    said = dict(card.summary_lines)
    named = unit or DEFAULT_UNIT
    assert f"It is for adding or removing one unit: {named}." in said["Guarantee"]
    assert said["Protects"].startswith(named)
    assert f"for {named}" in said["Chain"]
    assert card.to_json()["promise"] == card.promise_sentence
    if unit is not None:
        assert f"for {unit} (PROVED)" in card.claim
        assert f"one unit ({unit})" in verdict([("out", card)])
        assert all(f"one unit ({unit})" in sentence for sentence in explain_epsilon(card))
    if ledger is not None:
        assert "ε = 2, δ = 1e-06 (PROVED)" in said["Chain"]
    else:
        assert "PROVED" not in said["Chain"]


def test_a_person_is_spoken_to_as_one():
    card = release_of(None).card
    assert card.claim == "ε = 1, δ = 1e-07 (PROVED)"
    assert "your text is in the data" in " ".join(explain_epsilon(card))
    assert "Whether one user is in the data" in verdict([("out", card)])


def test_tables_of_evaluate_and_of_ledgers_name_a_unit_that_is_less_than_a_person(tmp_path):
    row = comparison_row("out", replace(MADE, card=replace(PROVED, unit="a post")), 0.5)
    assert (row["unit"], format_guarantee(row)) == ("a post", "PROVED for a post")
    assert format_guarantee(comparison_row("out", replace(MADE, card=PROVED), 0.5)) == "PROVED"
    ledger = Ledger.create(tmp_path / "a.ledger", population="app", budget=Budget(1.0, 1e-6))
    ledger.reserve(Spend.gaussian(50.0), {"mechanism": "gaussian", "unit": "a post"})
    assert "app: a post" in commands.check_output("ledger", "list", "a.ledger", cwd=tmp_path)
