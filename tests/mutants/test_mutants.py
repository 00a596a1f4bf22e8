"""Planted bugs: each still fits the sources, and a sample of them is killed.

`make mutants` tries them all.
"""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tool = load("mutants")
PLANTED = tool.mutants()
SAMPLE = ["posterior-users-on-the-card", "ledger-charged-half"]


def test_there_are_enough_of_them_and_each_says_what_is_wrong():
    assert len(PLANTED) >= 30
    assert len({mutant.sentence for mutant in PLANTED}) == len(PLANTED)
    assert all(mutant.sentence.endswith(".") for mutant in PLANTED)


@pytest.mark.parametrize("mutant", PLANTED, ids=lambda mutant: mutant.name)
def test_each_applies_to_the_sources_and_is_still_python(mutant, tmp_path):
    for edit in mutant.edits:
        if not (tmp_path / edit.file).exists():
            (tmp_path / edit.file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / edit.file).write_bytes((ROOT / edit.file).read_bytes())
        edit.apply(tmp_path)
    for edit in mutant.edits:
        compile((tmp_path / edit.file).read_text(encoding="utf-8"), edit.file, "exec")
    for test in mutant.tests:
        assert (ROOT / test.partition("::")[0]).exists(), test


@pytest.mark.parametrize("name", SAMPLE)
def test_some_are_killed(name):
    (mutant,) = tool.mutants([name])
    assert not any(
        "bayesgram.kernels" in (ROOT / edit.file).read_text(encoding="utf-8")
        for edit in mutant.edits
    )
    (verdict,) = tool.judge([mutant], workers=1, compiled=True)
    assert verdict.outcome == "killed", verdict.by


def test_a_change_that_is_no_bug_survives(tmp_path):
    """The tool can say so."""
    edit = tool.Edit(
        "src/bayesgram/privacy/budget.py",
        "more than 10 protects nobody.",
        "more than 10 protects no one.",
    )
    unaware = "tests/privacy/test_budget.py::test_parts_never_add_up_to_more_than_the_whole"
    harmless = tool.Mutant("harmless", "A word is another.", (unaware,), (edit,))
    root = tool.copy_of_the_sources(tmp_path / "copy")
    before = (root / edit.file).read_bytes()
    verdict = tool.judged(harmless, root)
    assert verdict.outcome == "SURVIVED", verdict.by
    assert (root / edit.file).read_bytes() == before


def test_a_patch_that_no_longer_fits_is_broken(tmp_path):
    edit = tool.Edit("src/bayesgram/privacy/budget.py", "these words are not there", "")
    root = tool.copy_of_the_sources(tmp_path / "copy")
    verdict = tool.judged(
        tool.Mutant("gone", "Gone.", ("tests/privacy/test_budget.py",), (edit,)), root
    )
    assert verdict.outcome == "BROKEN"
    assert "there 0 times, not once" in verdict.by
