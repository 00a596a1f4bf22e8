"""Pictures of results show every result."""

import pytest

from bayesgram.reports.pictures import comparison

ROWS = [
    {"release": "public text alone", "guarantee": "PROVED", "epsilon": 0.0, "kl": 0.4},
    {"release": "posterior", "guarantee": "PROVED", "epsilon": 1.0, "kl": 0.1},
    {"release": "k-anonymity", "guarantee": "NONE", "epsilon": None, "kl": None},
]


@pytest.mark.parametrize("rows", [ROWS, ROWS[:2]])
def test_an_infinite_kl_is_drawn_beyond_all_others_and_says_so(rows):
    drawn = comparison(rows, subtitle="as tested").to_dict()
    (values,) = drawn["datasets"].values()
    assert [value["label"] for value in values] == ["0.400", "0.100", "∞"][: len(rows)]
    assert [value["infinite"] for value in values] == [row["kl"] is None for row in rows]
    assert all(value["kl"] > 1.0 for value in values if value["infinite"])
    assert [value["release"] for value in values] == [row["release"] for row in rows]
