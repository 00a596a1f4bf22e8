"""`make compare-versions`: what is marked, what the other version is, and what happens where it
lacks an option.
"""

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def versions():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import versions
    finally:
        sys.path.remove(str(BENCHMARKS))
    return versions


@pytest.mark.parametrize(
    ("unit", "old", "new", "verdict"),
    [
        ("", [0.10, 0.11, 0.12], [0.10, 0.11, 0.12], ""),
        ("", [0.100, 0.101, 0.102], [0.120, 0.121, 0.122], "worse"),
        ("", [0.120, 0.121, 0.122], [0.100, 0.101, 0.102], "better"),
        ("", [0.10, 0.14, 0.18], [0.14, 0.18, 0.22], ""),  # within its noise
        ("", [0.1, 0.1, 0.1], [0.1001, 0.1001, 0.1001], ""),  # too little to mind
        ("", [0.1, 0.1], [0.2, 0.2], ""),  # too few repeats
        ("s", [1.0, 1.1, 1.2], [1.3, 1.4, 1.5], "worse"),
        ("s", [1.0, 1.1, 1.35], [1.3, 1.4, 1.5], ""),
        ("s", [1.00, 1.01, 1.02], [1.03, 1.04, 1.04], ""),
        ("MB", [300.0, 301.0, 302.0], [200.0, 201.0, 202.0], "better"),
        ("s", [], [1.0, 1.1, 1.2], ""),
    ],
)
def test_what_is_beyond_noise_is_marked(versions, unit, old, new, verdict):
    assert versions.Measure("it", unit, old, new).verdict == verdict


def repository(folder, *commits):
    """A repository whose version.py was so, commit after commit; the hashes."""
    path = folder / "src" / "bayesgram" / "version.py"
    path.parent.mkdir(parents=True)

    def git(*arguments):
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        return subprocess.run(
            ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
        ).stdout

    git("init", "-q")
    hashes = []
    for text in commits:
        path.write_text(text, encoding="utf-8")
        git("add", ".")
        git("commit", "-q", "-m", "a")
        hashes.append(git("rev-parse", "HEAD").strip())
    return git, hashes


def test_the_last_version_is_the_last_tag_or_the_commit_before_the_number_changed(
    versions, tmp_path, monkeypatch
):
    git, hashes = repository(
        tmp_path,
        'VERSION = "1.0"\n',
        '"""It."""\nVERSION = "1.0"\n',
        'VERSION = "1.1"\n',
        'VERSION = "1.1"\n# more\n',
    )
    monkeypatch.setattr(versions, "ROOT", tmp_path)
    assert versions.git("rev-parse", versions.last_version()) == hashes[1]
    side = versions.unpacked(versions.last_version(), tmp_path / "old")
    assert side.name == f"1.0 ({hashes[1][: len(side.name) - 6]})"
    git("tag", "v0.9", hashes[0])
    git("tag", "v0.10", hashes[1])
    assert versions.last_version() == "v0.10"
    git("tag", "v1.1", "HEAD")
    assert versions.last_version() == "v0.10"  # not this one itself


def test_a_version_does_without_options_it_lacks(versions, tmp_path, monkeypatch):
    side, tried = versions.Side("old", tmp_path, tmp_path), []

    def command(self, *arguments):
        tried.append(arguments)
        if "--new" in arguments:
            raise versions.CommandFailedError(f"x{versions.WRONG_USE}No such option")
        return versions.Run(1.0, 1.0, 1.0, {})

    monkeypatch.setattr(versions.Side, "run", command)
    for _ in range(2):
        assert side.step("vocab", ("vocab", "--new"), ("vocab",)) is not None
    assert tried == [("vocab", "--new"), ("vocab",), ("vocab",)]  # what it lacks is asked for once
    assert side.step("export", ("export", "--new")) is None


def test_both_sides_run_all_steps_in_turns(versions, tmp_path, monkeypatch):
    ran = []

    def command(self, *arguments):
        ran.append((self.name, arguments[0]))
        said = {
            "releases": [{"kl": 0.1 if self.name == "new" else 0.2}],
            "text": [{"perplexity": 30}],
        }
        return versions.Run(2.0, 1.0, 100.0, said)

    monkeypatch.setattr(versions.Side, "run", command)
    sides = [versions.Side(name, tmp_path, tmp_path / name) for name in ("old", "new")]
    found = versions.Comparison(*sides, tmp_path, 10, (0.2, 1.0))
    found.first()
    for seed in range(3):
        found.turn(seed)
    assert {len(each.old) for each in found.measures.values()} == {1, 3}
    assert {name: each.new for name, each in found.measures.items() if not each.unit} == {
        "KL at ε = 0.2": [0.1] * 3,
        "KL at ε = 1": [0.1] * 3,
        "perplexity at ε = 1": [30.0] * 3,
    }
    assert [name for name, step in ran if step == "count"] == [
        "old",
        "new",
        "old",
        "new",
        "new",
        "old",
        "old",
        "new",
    ]
    lines = list(found.table())
    assert lines[1].split()[:3] == ["perplexity", "at", "ε"]
    assert found.to_json()["measures"][0]["verdict"] == ""
