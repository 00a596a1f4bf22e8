"""Pictures of results show every result."""

import re

import pytest

from bayesgram.reports.pictures import draw_comparison

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
