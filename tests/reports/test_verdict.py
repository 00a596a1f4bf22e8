"""The line that a report begins with."""

from dataclasses import replace
from datetime import date

import pytest

from bayesgram.privacy.budget import Guarantee
from bayesgram.reports.explanation import CuratorStatements, publication_checks, verdict
from bayesgram.reports.report import render_report
from bayesgram.reports.views import ReleaseView
from helpers import web_catalogue

CARD = web_catalogue.make_release(web_catalogue.make_vocabulary(), 1.0).card
UNSEEDED = replace(CARD, seeded=False, guarantee=Guarantee.PROVED, epsilon=1.0, delta=1e-7)


LIMIT = "Whether one user is in the data changes the probability of any conclusion by at most a factor of {} (ε = {}), plus δ = 1e-07."
FITS = "This release may be published if the conditions below hold."
LISTED = "May be published if the conditions below hold"
WEAK = "This release has a guarantee that is proved, but weak: it protects little."
UNFIT = "This release must not be published."
UNPROVED = "Nothing is proved about its privacy: "


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, f"{FITS} {LIMIT.format('2.72', 1)}"),
        ({"mechanism": "discovery", "details": {"reviewed": True}}, f"{FITS.replace('release', 'discovery')} {LIMIT.format('2.72', 1)}"),
        ({"epsilon": 5.0}, f"{WEAK} {LIMIT.format('149', 5)}"),
        ({"epsilon": 20.0}, f"{UNFIT} {LIMIT.format('4.9e+08', 20)} Such a limit protects nobody."),
        ({"guarantee": Guarantee.EMPIRICAL}, f"{UNFIT} {UNPROVED}ε = 1, δ = 1e-07 (EMPIRICAL)."),
        ({"seeded": True}, f"{UNFIT} {UNPROVED}ε = 1, δ = 1e-07 (NONE)."),
        ({"unit": "a post"}, f"{FITS} {LIMIT.format('2.72', 1).replace('one user', 'one unit (a post)')}"),
        ({"vocabulary": {**CARD.vocabulary, "made_from": [{"name": "old", "guarantee": "NONE"}]}}, f"{UNFIT} {UNPROVED}ε = 1, δ = 1e-07 (NONE). It was made from old (NONE): nothing is proved of a result that was made from it."),
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
        f"{LISTED}: a, c. Proved, but it protects little: b. Must not be published: d. {SUM}"
    )


SHARED = (
    "Segments of one release share one budget, and so does whatever was inferred again from the"
    " same measurements."
)
SUM = "ε and δ of releases about the same people add up."


def test_segments_of_one_release_share_one_budget():
    """They have the same noisy answers, and so has what was inferred from these again."""
    segments = [replace(measured(UNSEEDED, number), answers="a" * 64) for number in range(3)]
    assert (
        verdict([(f"s{number}", card) for number, card in enumerate(segments)])
        == f"{LISTED}: s0, s1, s2. {SHARED}"
    )
    other = measured(UNSEEDED, 9)
    shown = verdict(
        [*((f"s{number}", card) for number, card in enumerate(segments)), ("other", other)]
    )
    assert shown == f"{LISTED}: s0, s1, s2, other. {SHARED} {SUM}"
    assert verdict([("first", other), ("again", other)]) == f"{LISTED}: first, again. {SHARED}"


def test_segments_are_named_together():
    """A list of fifty countries would hide the verdict."""
    about = {"by": "country", "names": ["de", "fr"], "other": False}
    segments = [
        (f"may/{name}", replace(UNSEEDED, answers="a" * 64, segment={**about, "name": name}))
        for name in ("all", "de", "fr")
    ]
    assert verdict([*segments, ("june", measured(UNSEEDED, 9))]) == (
        f"{LISTED}: may (3 segments), june. {SHARED} {SUM}"
    )


def test_a_page_with_private_numbers_says_that_it_must_not_be_published():
    shown = verdict([("out", UNSEEDED)], private=True)
    assert shown.startswith(
        "This page has private numbers, so the page itself must not be published. About what it reports on: This release may be"
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
        noun = "discovery" if card is found else "release"
        verb = "may be published"
        after = "" if reviewed else " after a review of the discovered strings,"
        assert shown.startswith(f"This {noun} {verb}{after} if the conditions below hold.")
        assert (
            "reviewed each discovered string" in str(publication_checks([card]))
        ) is not reviewed


def test_the_page_begins_with_it():
    release = replace(
        web_catalogue.make_release(web_catalogue.make_vocabulary(), 1.0), card=UNSEEDED
    )
    said = CuratorStatements("<b>app</b> users\u202e", "May 2026")
    shown = render_report([ReleaseView("out", release)], curator=said, day=date(2026, 6, 1))
    head = shown[shown.index("<h1>") :]
    places = [head.index(text) for text in ("This release may be published", "&lt;b&gt;app&lt;/b&gt; users�", "May 2026", "What it is", "How many people", "What it costs", "Before publishing, check", "2026-06-01", "What ε means", "everything one user wrote in these data", "How to read")]  # fmt: skip
    assert places == sorted(places)
    plain = render_report([ReleaseView("out", release)], day=date(2026, 6, 1))
    assert "Population" not in plain
    assert "Period" not in plain
