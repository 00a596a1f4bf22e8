"""What `make coverage` says: parts, what is asked of them, and that nothing is left out without a
reason.
"""

import pytest

from test_docs import tool

report = tool("coverage_report")


def file(statements, branches, missing_lines=(), missing_branches=()):
    return {
        "summary": {"num_statements": statements, "num_branches": branches},
        "missing_lines": list(missing_lines),
        "missing_branches": [list(each) for each in missing_branches],
    }


def test_whatever_is_left_out_has_a_reason():
    assert [excuse.place for excuse in report.excuses() if not excuse.reason] == []


def test_a_line_without_a_reason_is_found(tmp_path):
    (tmp_path / "a.py").write_text(
        "x = 1  # pragma: no cover\ny = '# pragma: no cover'\nif x:  # pragma: no branch - why\n    y = 1\n"
    )
    assert report.excuses(tmp_path) == [report.Excuse("a.py:1", ""), report.Excuse("a.py:3", "why")]


def test_parts_are_folders_and_files_of_which_all_is_asked():
    files = {
        "src/bayesgram/private/clipping.py": file(10, 4, missing_branches=[(3, -1)]),
        "src/bayesgram/private/counts.py": file(50, 50, missing_lines=[7, 8]),
        "src/bayesgram/cores.py": file(3, 0),
        "src/bayesgram/paper/results_page.py": file(30, 10, missing_lines=[1, 2, 3]),
    }
    parts = report.measured({"files": files})
    assert {name: part.missing for name, part in parts.items()} == {
        "(top)": (),
        "paper": tuple(f"paper/results_page.py:{line}" for line in (1, 2, 3)),
        "private": ("private/counts.py:7", "private/counts.py:8"),
        "private/clipping.py": ("private/clipping.py:3→end",),
    }
    assert parts["private"].share == pytest.approx(0.98)
    below = [name for name, part in parts.items() if part.share < report.asked_of(name)]
    assert below == ["paper", "private/clipping.py"]
    assert [
        line.split()[0] for line in report.table(parts).splitlines() if line.endswith("below")
    ] == below


@pytest.mark.parametrize("part", report.WHOLE)
def test_all_is_asked_of_what_the_guarantee_rests_on(part):
    assert (report.SOURCE / part).exists()
    assert report.asked_of(part) == 1
