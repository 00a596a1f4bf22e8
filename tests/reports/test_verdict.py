"""The line that a report begins with."""

from dataclasses import replace
from datetime import date

import pytest

from bayesgram.privacy.budget import Guarantee
from bayesgram.reports.explanation import CuratorStatements, verdict
from bayesgram.reports.report import render_report
from bayesgram.reports.views import ReleaseView
from helpers import web_catalogue

CARD = web_catalogue.make_release(web_catalogue.make_vocabulary(), 1.0).card
UNSEEDED = replace(CARD, seeded=False, guarantee=Guarantee.PROVED, epsilon=1.0, delta=1e-7)


LIMIT = "nobody's odds about one user change by more than a factor of {}, except with probability δ = 1e-07"
FITS = "May be published if the conditions below hold"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, f"{FITS}: {LIMIT.format('2.72')} (ε = 1, δ = 1e-07 (PROVED))."),
        ({"epsilon": 5.0}, f"Proved, but weak: {LIMIT.format('149')} (ε = 5, δ = 1e-07 (PROVED, weak))."),
        ({"epsilon": 20.0}, f"Must not be published: {LIMIT.format('4.9e+08')} (ε = 20, δ = 1e-07 (PROVED, worthless)), and that protects nobody."),
        ({"guarantee": Guarantee.EMPIRICAL}, "Must not be published: nothing is proved of it (ε = 1, δ = 1e-07 (EMPIRICAL))."),
        ({"seeded": True}, "Must not be published: nothing is proved of it (ε = 1, δ = 1e-07 (NONE))."),
        ({"unit": "a post"}, f"{FITS}: nobody's odds about one unit (a post) change by more than a factor of 2.72, except with probability δ = 1e-07 (ε = 1, δ = 1e-07 for a post (PROVED))."),
        ({"vocabulary": {**CARD.vocabulary, "made_from": [{"name": "old", "guarantee": "NONE"}]}}, "Must not be published: nothing is proved of it (ε = 1, δ = 1e-07 (NONE)); it was made from old (NONE): nothing is proved of a result that was made from it."),
    ],
)  # fmt: skip
def test_one_line_for_whoever_decides(changes, line):
    assert verdict([("out", replace(UNSEEDED, **changes))]) == line


def measured(card, number):
    """The card of another release: other noisy answers."""
    return replace(card, measured={"sha256": f"{number:064x}"})


def test_several_are_sorted_and_add_up():
    weak, seeded = replace(UNSEEDED, epsilon=5.0), replace(UNSEEDED, seeded=True)
    cards = [
        measured(card, number) for number, card in enumerate((UNSEEDED, weak, UNSEEDED, seeded))
    ]
    assert verdict(list(zip("abcd", cards, strict=True))) == (
        f"{FITS}: a, c. Proved, but weak: b. Must not be published: d. ε and δ of releases about the same people add up."
    )


SHARED = (
    "Segments of one release, and what was inferred from its measurements again, share one budget."
)
SUM = "ε and δ of releases about the same people add up."


def test_segments_of_one_release_share_one_budget():
    """They have the same noisy answers, and so has what was inferred from these again."""
    segments = [replace(measured(UNSEEDED, number), answers="a" * 64) for number in range(3)]
    assert (
        verdict([(f"s{number}", card) for number, card in enumerate(segments)])
        == f"{FITS}: s0, s1, s2. {SHARED}"
    )
    other = measured(UNSEEDED, 9)
    shown = verdict(
        [*((f"s{number}", card) for number, card in enumerate(segments)), ("other", other)]
    )
    assert shown == f"{FITS}: s0, s1, s2, other. {SHARED} {SUM}"
    assert verdict([("first", other), ("again", other)]) == f"{FITS}: first, again. {SHARED}"


def test_a_page_with_private_numbers_says_that_it_must_not_be_published():
    shown = verdict([("out", UNSEEDED)], private=True)
    assert shown.startswith(
        "This page has private numbers, so the page itself must not be published. What it reports on: May be"
    )


@pytest.mark.parametrize("reviewed", [False, True])
def test_a_discovery_that_nobody_has_reviewed_is_said_to_be_so(reviewed):
    found = replace(UNSEEDED, mechanism="discovery", details={"reviewed": reviewed})
    claim = {"epsilon": 1.0, "delta": 1e-7, "guarantee": "PROVED", "reviewed": reviewed}
    using = replace(
        UNSEEDED, vocabulary={**CARD.vocabulary, "discovered": 3, "discoveries": [claim]}
    )
    for card in (found, using):
        shown = verdict([("out", card)])
        assert ("Nobody has reviewed the discovered strings yet" in shown) is not reviewed
        assert shown.startswith(
            FITS if reviewed else "May be published after a review, if the conditions below hold"
        )


def test_the_page_begins_with_it():
    release = replace(
        web_catalogue.make_release(web_catalogue.make_vocabulary(), 1.0), card=UNSEEDED
    )
    said = CuratorStatements("<b>app</b> users\u202e", "May 2026")
    shown = render_report([ReleaseView("out", release)], curator=said, day=date(2026, 6, 1))
    head = shown[shown.index("<h1>") :]
    places = [head.index(text) for text in ("May be published", "2026-06-01", "&lt;b&gt;app&lt;/b&gt; users�", "May 2026", "everything one user wrote in these data", "At a glance")]  # fmt: skip
    assert places == sorted(places)
    plain = render_report([ReleaseView("out", release)], day=date(2026, 6, 1))
    assert "Population" not in plain
    assert "Period" not in plain
