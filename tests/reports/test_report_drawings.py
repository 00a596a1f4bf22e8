"""What a report draws."""

import re
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from bayesgram.charts import Axis
from bayesgram.paper.k_anonymity import KAnonymity
from bayesgram.releases.intervals import accuracy_shares, probability_within_factor
from bayesgram.releases.release import Release
from bayesgram.reports.pictures import NgramMark, draw_probabilities
from bayesgram.reports.report import PrivatePart, Score, render_report
from bayesgram.reports.views import largest_changes
from helpers.report_data import WARNING, ParsedPage, make_private_part, make_release, make_view


def test_an_infinite_kl_is_drawn_as_such():
    kls = [None, 0.5, 0.51, 0.52, 3.0]
    scores = [Score(f"r{at}", "posterior", "PROVED", 1.0, 1e-7, 3, kl) for at, kl in enumerate(kls)]
    part = PrivatePart(
        WARNING, [Score("public", "no private data", "PROVED", 0.0, 0.0, 3, 0.5), *scores]
    )
    drawn = str(part.drawing)
    assert "r0: ∞</title>" in drawn
    heights = {
        name: float(y)
        for y, name in re.findall(r'y="([\d.]+)"[^>]*>(r\d|∞|public text alone)</text>', drawn)
    }
    assert heights["r0"] == heights["∞"] == min(heights.values())
    assert len(heights) == 7
    assert (
        "At ∞ are releases that give probability 0 to something that people wrote."
        in ParsedPage(render_report([make_view()], part)).text
    )


def test_what_has_no_epsilon_is_drawn_beside_the_axis_and_names_cover_nothing():
    mechanisms = {f"release-{at}": (0.1, 0.39 + at / 300) for at in range(6)}
    mechanisms |= {"kanon-inf": (None, None), "kanon-90000": (None, 0.395)}
    scores = [
        Score(name, "made", "PROVED" if epsilon else "NONE", epsilon, None, 3, kl)
        for name, (epsilon, kl) in mechanisms.items()
    ]
    part = PrivatePart(
        WARNING, [Score("public", "no private data", "PROVED", 0.0, 0.0, 3, 0.3938), *scores]
    )
    drawn = str(part.drawing)
    assert "<title>kanon-inf: ∞</title>" in drawn
    assert ">no ε</text>" in drawn
    height, end = map(
        float, re.search(r'y1="([\d.]+)" x2="([\d.]+)"[^>]*class="reference"', drawn).groups()
    )
    pattern = r'<text x="([\d.]+)" y="([\d.]+)" text-anchor="(start|end)" class="(?:dim|name) halo">([^<]+)<'
    boxes = []
    for x, y, anchor, name in re.findall(pattern, drawn):
        left = float(x) - (6 * len(name) if anchor == "end" else 0)
        boxes.append((name, left, left + 6 * len(name), float(y) - 4))
    assert len(boxes) == 9
    assert [
        name for name, left, _, middle in boxes if left < end and abs(middle - height) < 6
    ] == []
    for one, other in combinations(boxes, 2):
        apart = one[1] >= other[2] or other[1] >= one[2] or abs(one[3] - other[3]) >= 13
        assert apart, (one, other)
    dots = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', drawn)
    assert len(set(dots)) == 8
    shown = ParsedPage(render_report([make_view()], part)).text
    assert "“No ε” are releases that claim none." in shown
    perfect = PrivatePart(
        WARNING, [*scores, Score("all of it", "made", "NONE", None, None, 3, 0.0)]
    )
    assert "Not drawn, because its KL is 0: all of it" in " ".join(
        ParsedPage(render_report([make_view()], perfect)).text.split()
    )


def test_an_interval_that_leaves_the_axis_and_a_zero_are_arrows():
    inside, below, zero = (
        str(
            draw_probabilities(
                "x", [NgramMark("a", after, 0.1, ends), NgramMark("b", 0.2)]
            ).inline()
        )
        for after, ends in ((0.1, (0.09, 0.2)), (0.1, (0.0, 0.2)), (0.0, None))
    )
    assert [drawn.count("<polyline") for drawn in (inside, below, zero)] == [0, 1, 1]
    assert [drawn.count("<circle") for drawn in (inside, below, zero)] == [3, 3, 2]


def test_colours_of_labels_are_for_labels_alone():
    shown = make_view(KAnonymity(5))
    assert 'class="dot PROVED"' not in render_report([shown])
    assert 'class="dot blue"' in str(shown.orders[0].changes_drawing)
    assert 'class="dot NONE"' in str(shown.orders[0].most_frequent_drawing)
    assert 'class="dot PROVED"' in str(make_view().orders[0].most_frequent_drawing)


def test_one_release_has_no_curve_of_utility():
    assert PrivatePart(WARNING, make_private_part().scores[:2]).drawing is None
    assert make_private_part().drawing is not None


def test_accuracy_shares_are_those_of_each_factor():
    release, _ = make_release()
    theta = np.array([0.5, 0.3, 0.2])
    sure = replace(
        release,
        ngrams=release.ngrams[:3],
        probabilities=theta,
        probability_std=theta * [0.0, 0.2, 10.0],
    )
    known = {found.factor: found for found in accuracy_shares(sure, np.ones(3, bool))}
    assert known[1.1].ngram_share < known[1.5].ngram_share < known[2.0].ngram_share
    for factor, share in known.items():
        within = probability_within_factor(theta, 0.7 * sure.probability_std, factor)
        assert share.ngram_share == pytest.approx(within.mean())
        assert share.mass_share == pytest.approx(theta @ within)
    assert accuracy_shares(replace(sure, probability_std=None), np.ones(3, bool)) == []


def test_a_probability_of_zero_moves_without_a_warning():
    release, _ = make_release()
    zero = Release(release.ngrams[:2], np.array([0.0, 1.0]), release.card)
    lifted, lowered = largest_changes(zero, np.array([0.5, 0.5]), how_many=5)
    assert [item.row for item in lifted] == [1]
    assert [item.row for item in lowered] == [0]


def test_an_axis_holds_whatever_comes():
    axis = Axis.log([0.0, 1e-9, 1.0])
    zero, tiny, one = (axis.place(value, 10, 110) for value in (0.0, 1e-9, 1.0))
    assert 10 <= zero <= tiny < one <= 110
    assert axis.ticks
    assert Axis.log([]).ticks
