"""Pictures of results show every result."""

import re
from dataclasses import replace

import numpy as np
import pytest

from bayesgram.charts import text_width
from bayesgram.comparison.comparison import compare
from bayesgram.reports.pictures import (
    ExpectedKl,
    draw_comparison,
    draw_expected_kl,
    summarize_changes,
)
from helpers.web_catalogue import make_releases, make_vocabulary

ROWS = [
    {"release": "public text alone", "guarantee": "PROVED", "epsilon": 0.0, "kl": 0.4},
    {"release": "posterior", "guarantee": "PROVED", "epsilon": 1.0, "kl": 0.1},
    {"release": "k-anonymity", "guarantee": "NONE", "epsilon": None, "kl": None},
]


@pytest.mark.parametrize("rows", [ROWS, ROWS[:2]])
def test_an_infinite_kl_is_drawn_beyond_all_others_and_says_so(rows):
    drawing = draw_comparison(rows, subtitle="as tested").to_svg()
    kls = ["0.400", "0.100", "∞"][: len(rows)]
    expected = [f"{row['release']}: {kl}" for row, kl in zip(rows, kls, strict=True)]
    assert re.findall(r"<title>([^<]+: [^<]+)</title>", drawing) == expected
    dots = re.findall(r'<circle cx="([\d.]+)"[^>]*class="dot (\w+)"', drawing)[: len(rows)]
    assert [colour for _, colour in dots] == [row["guarantee"] for row in rows]
    places = [float(x) for x, _ in dots]
    assert places[1] < places[0]
    assert max(places) == places[-1 if len(rows) == 3 else 0]


@pytest.mark.parametrize("outliers", [[136.0], [22.0, 69.0], []])
def test_outliers_are_arrows_with_their_value_and_do_not_stretch_the_axis(outliers):
    usual = [{**ROWS[1], "release": f"r{at}", "kl": 0.03 * 1.3**at} for at in range(15)]
    far = [{**ROWS[1], "release": f"far{at}", "kl": kl} for at, kl in enumerate(outliers)]
    drawing = draw_comparison([*usual, *far], subtitle="as tested").to_svg()
    places = [
        float(x) for x in re.findall(r'<circle cx="([\d.]+)"[^>]*class="dot PROVED"', drawing)
    ]
    assert places[14] - places[0] > 300  # most of the picture
    assert drawing.count(" arrow") == len(outliers)
    assert all(f">{kl:.0f}<" in drawing for kl in outliers)


def test_titles_of_axes_fit_into_the_picture():
    rows = [ExpectedKl(1.0, 0.1, 0.09, 0.11), ExpectedKl(2.0, 0.05, 0.04, 0.06)]
    for width in (240, 390, 720):
        drawing = str(draw_expected_kl(rows, 0.4, width=width).inline())
        for x, anchor, text in re.findall(
            r'<text x="([\d.]+)"[^>]*text-anchor="(\w+)"[^>]*>([^<]+)</text>', drawing
        ):
            if anchor == "start":
                assert float(x) + 0.8 * text_width(text) <= width, text
            if anchor == "middle":
                assert 0.4 * text_width(text) <= float(x) + 12, text


def test_a_summary_of_changes_counts_what_changed_and_what_was_tested():
    first, second, _ = (release for _, release in make_releases(make_vocabulary()))
    comparison = compare(first, second, names=["a", "b"])
    text = summarize_changes(comparison)
    changed = len(comparison.changes)
    words = sum(change.is_word for change in comparison.changes)
    assert words
    assert text.startswith(f"{changed - words} n-grams and {words} words changed. ")
    assert "were tested." in text
    assert text.endswith("are there by chance (false discovery rate 0.1).")
    again = replace(comparison, fdrs=np.ones_like(comparison.fdrs))
    assert summarize_changes(again).startswith("No change is certain (false discovery rate 0.1).")
