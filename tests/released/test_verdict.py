"""The line that a report begins with."""

from dataclasses import replace
from datetime import date

import pytest

import catalogues
from bayesgram.privacy.budget import Guarantee
from bayesgram.released.report import page
from bayesgram.released.report_views import ReleaseView
from bayesgram.released.verdict import CuratorStatements, verdict

CARD = catalogues.release(catalogues.vocabulary(), 1.0).card
UNSEEDED = replace(CARD, seeded=False, guarantee=Guarantee.PROVED, epsilon=1.0, delta=1e-7)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "Fit to publish, if what it rests on holds: odds about any one user change by a factor of 2.72 at most, but for δ (ε = 1, δ = 1e-07 (PROVED))."),
        ({"epsilon": 5.0}, "Proved, but weak: odds about any one user change by a factor of 149 at most, but for δ (ε = 5, δ = 1e-07 (PROVED, weak))."),
        ({"epsilon": 20.0}, "Not fit to publish: odds about any one user change by a factor of 4.9e+08 at most, but for δ (ε = 20, δ = 1e-07 (PROVED, worthless)), and that protects nobody."),
        ({"guarantee": Guarantee.EMPIRICAL}, "Not fit to publish: nothing is proved of it (ε = 1, δ = 1e-07 (EMPIRICAL))."),
        ({"seeded": True}, "Not fit to publish: nothing is proved of it (ε = 1, δ = 1e-07 (NONE))."),
    ],
)  # fmt: skip
def test_one_line_for_whoever_decides(changes, line):
    assert verdict([("out", replace(UNSEEDED, **changes))]) == line


def test_several_are_sorted_and_add_up():
    weak, seeded = replace(UNSEEDED, epsilon=5.0), replace(UNSEEDED, seeded=True)
    assert verdict([("a", UNSEEDED), ("b", weak), ("c", UNSEEDED), ("d", seeded)]) == (
        "Fit to publish, if what it rests on holds: a, c. Proved, but weak: b. Not fit to publish: d."
        " Of those about the same people, ε and δ add up."
    )


def test_the_page_begins_with_it():
    release = replace(catalogues.release(catalogues.vocabulary(), 1.0), card=UNSEEDED)
    said = CuratorStatements("<b>app</b> users\u202e", "May 2026")
    shown = page([ReleaseView("out", release)], curator=said, day=date(2026, 6, 1))
    head = shown[shown.index("<h1>") :]
    places = [head.index(text) for text in ("Fit to publish", "2026-06-01", "&lt;b&gt;app&lt;/b&gt; users�", "May 2026", "everything one user wrote in these data", "At a glance")]  # fmt: skip
    assert places == sorted(places)
    plain = page([ReleaseView("out", release)], day=date(2026, 6, 1))
    assert "Population" not in plain
    assert "Period" not in plain
