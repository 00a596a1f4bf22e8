"""docs/architecture.md says what the sources do: every room, every import, and what is taken
through it.
"""

import re
from pathlib import Path

import pytest

from test_docs import tool

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
drawn = tool("draw_architecture")
NEXT = "run: python tools/draw_architecture.py"


def test_the_table_is_that_of_the_imports():
    assert drawn.ROOMS.search(PAGE)[0] == drawn.table(), NEXT


def test_the_picture_is_that_of_the_imports():
    assert drawn.PICTURE.read_text(encoding="utf-8") == drawn.picture(), NEXT


def test_every_room_says_what_is_in_it_and_has_a_place():
    assert drawn.rooms().keys() == drawn.PLACES.keys()
    assert all(len(told) > 15 for told in drawn.rooms().values())


@pytest.mark.parametrize("edge", drawn.FLOWS, ids=" takes from ".join)
def test_what_is_said_to_be_taken_is_imported(edge):
    assert set(drawn.FLOWS[edge]) <= drawn.imports()[edge]


def test_every_arrow_has_a_label():
    assert drawn.needed(set(drawn.imports())) <= set(drawn.FLOWS)


def test_no_arrow_goes_from_the_right_of_the_wall_to_its_left():
    x = {room: place[0] for room, place in drawn.PLACES.items()}
    sides = {room: place[2] for room, place in drawn.PLACES.items()}
    for first, second in drawn.imports():
        assert sides[first] != drawn.OPEN or sides[second] in {drawn.OPEN, drawn.COMMON}, (
            first,
            second,
        )
    assert all(
        (x[room] > drawn.WALL) == (side == drawn.OPEN)
        for room, side in sides.items()
        if side != drawn.COMMON
    )


def test_arrows_that_others_lead_to_are_left_out():
    assert drawn.needed({("a", "b"), ("b", "c"), ("a", "c")}) == {("a", "b"), ("b", "c")}
    with pytest.raises(SystemExit):
        drawn.needed({("a", "b"), ("b", "a"), ("c", "a"), ("c", "b")})


def test_the_files_that_the_page_names_are_there():
    named = re.findall(r"`((?:src|tests|docs|tools)/[\w/.-]+)`|`python (tools/\w+\.py)", PAGE)
    assert len(named) > 20
    for path in map("".join, named):
        assert (ROOT / path).exists(), path
