"""docs/architecture.md says what the sources do: every package, every import, and what is taken."""

import re
from pathlib import Path

import pytest

from test_docs import tool

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
diagram = tool("draw_architecture")
NEXT = "run: python tools/draw_architecture.py"


def test_the_table_is_that_of_the_imports():
    assert diagram.TABLE.search(PAGE)[0] == diagram.write_table(), NEXT


def test_the_picture_is_that_of_the_imports():
    assert diagram.PICTURE.read_text(encoding="utf-8") == diagram.draw_picture(), NEXT


def test_every_package_says_what_is_in_it_and_has_a_place():
    assert diagram.packages().keys() == diagram.PLACES.keys()
    assert all(len(description) > 15 for description in diagram.packages().values())


@pytest.mark.parametrize("edge", diagram.FLOWS, ids=" takes from ".join)
def test_what_is_said_to_be_taken_is_imported(edge):
    assert set(diagram.FLOWS[edge]) <= diagram.imports()[edge]


def test_every_arrow_has_a_label():
    assert diagram.needed_edges(set(diagram.imports())) <= set(diagram.FLOWS)


def test_no_arrow_goes_from_the_right_of_the_wall_to_its_left():
    x = {package: place[0] for package, place in diagram.PLACES.items()}
    sides = {package: place[2] for package, place in diagram.PLACES.items()}
    for first, second in diagram.imports():
        assert sides[first] != diagram.OPEN or sides[second] in {diagram.OPEN, diagram.COMMON}, (
            first,
            second,
        )
    assert all(
        (x[package] > diagram.WALL) == (side == diagram.OPEN)
        for package, side in sides.items()
        if side != diagram.COMMON
    )


def test_arrows_that_others_lead_to_are_left_out():
    assert diagram.needed_edges({("a", "b"), ("b", "c"), ("a", "c")}) == {("a", "b"), ("b", "c")}
    with pytest.raises(SystemExit):
        diagram.needed_edges({("a", "b"), ("b", "a"), ("c", "a"), ("c", "b")})


def test_packages_that_import_each_other_do():
    assert set(diagram.imports()) >= diagram.MUTUAL
    assert {edge[::-1] for edge in diagram.MUTUAL} <= set(diagram.imports())


def test_the_files_that_the_page_names_are_there():
    named = re.findall(r"`((?:src|tests|docs|tools)/[\w/.-]+)`|`python (tools/\w+\.py)", PAGE)
    assert len(named) > 20
    for path in map("".join, named):
        assert (ROOT / path).exists(), path
