"""Plant privacy bugs one by one in a copy of the sources, and see whether the tests notice.

In:  tests/mutants/*.patch, each a small diff under a sentence that says what is wrong, and the
tests that should see. Out: a table; exit code 1 if a bug survives.

    python tools/mutants.py               all of them, on all cores
    python tools/mutants.py ledger noise  those whose names contain one of these

A hunk is found by its lines, not by its line numbers, so that patches outlive changes around them;
one that no longer applies is an error.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parents[1]
PATCHES = ROOT / "tests" / "mutants"
FOLDERS = ("src", "tests", "docs", "benchmarks", "tools")
FILES = ("pyproject.toml", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
HEAD = """# Planted bugs

At the end of this page you know which privacy bugs were planted in the sources to test the tests,
and which test catches each. None survives.

Each bug is a patch in `tests/mutants/`. `make mutants` plants them one by one in a copy of the
sources and runs the tests that should notice. The table names the first test that failed. [The
promise](promise.md) and [the ledger](ledger.md) name each bug beside the line of the proof that it
would break. This page is made by `python tools/mutants.py --page docs/planted-bugs.md`.

| name | what is wrong | killed by |
|---|---|---|"""
SECONDS = 600  # for the tests of one mutant: a bug may also make them wait for ever


class PatchError(Exception):
    """A patch that does not apply."""


@dataclass(frozen=True)
class Edit:
    """Some lines of a file, and what takes their place."""

    file: str
    old: str
    new: str

    def apply(self, root: Path) -> None:
        """Change the file, if the lines are there, once."""
        path = root / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise PatchError(
                f"{self.file}: the lines to change are there {text.count(self.old)} times, not once"
            )
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


@dataclass(frozen=True)
class Mutant:
    """One planted bug."""

    name: str
    sentence: str
    tests: tuple[str, ...]
    edits: tuple[Edit, ...]

    @classmethod
    def read(cls, path: Path) -> "Mutant":
        """`Bug:` and `Killed-by:` lines, then a unified diff."""
        head, _, diff = path.read_text(encoding="utf-8").partition("\n--- ")
        fields = dict(re.findall(r"^(Bug|Killed-by): (.+)$", head, re.MULTILINE))
        edits = tuple(_edits(f"--- {diff}"))
        if set(fields) != {"Bug", "Killed-by"} or not edits:
            raise PatchError(f"{path.name}: needs the lines Bug: and Killed-by:, and a diff")
        return cls(path.stem, fields["Bug"], tuple(fields["Killed-by"].split()), edits)


def _edits(diff: str) -> Iterator[Edit]:
    file = ""
    for line in re.split(r"^(?=--- |@@)", diff, flags=re.MULTILINE):
        if line.startswith("--- "):
            file = re.findall(r"^\+\+\+ b/(.+)$", line, re.MULTILINE)[0]
        elif line.startswith("@@"):
            rows = line.splitlines(keepends=True)[1:]
            yield Edit(
                file,
                "".join(row[1:] for row in rows if row[0] in " -"),
                "".join(row[1:] for row in rows if row[0] in " +"),
            )


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant."""

    mutant: Mutant
    outcome: str  # killed, SURVIVED or BROKEN
    by: str  # the first test that failed, or why it could not be tried
    seconds: float


def mutants(names: Sequence[str] = ()) -> list[Mutant]:
    """All of them, or those whose names contain one of these."""
    found = [Mutant.read(path) for path in sorted(PATCHES.glob("*.patch"))]
    return [mutant for mutant in found if not names or any(name in mutant.name for name in names)]


def copy_of_the_sources(folder: Path, *, compiled: bool = False) -> Path:
    """What is tested, apart from what git ignores.

    Kernels that are `compiled` save a minute, and are for mutants that change none: Numba does not
    see that a kernel has changed which another one calls.
    """
    ignored = (*([] if compiled else ["__pycache__"]), ".hypothesis", "*.egg-info")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns(*ignored))
    for name in FILES:
        shutil.copy(ROOT / name, folder / name)
    return folder


def run_tests(root: Path, tests: Sequence[str]) -> tuple[int, str]:
    """The exit code of pytest on a copy, and the first test that failed."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "--no-header",
        "--tb=no",
        *tests,
    ]
    here = {
        name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")
    }  # measures no copies
    environment = {**here, "PYTHONPATH": str(root / "src"), "PYTHONDONTWRITEBYTECODE": ""}
    try:
        done = subprocess.run(
            command,
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 1, "waited for ever"
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return done.returncode, failed[0].split("::")[-1] if failed else done.stdout[
        -300:
    ] + done.stderr[-300:]


def judged(mutant: Mutant, root: Path) -> Verdict:
    """Plant it, test it, take it out again."""
    start = time.monotonic()
    before = {edit.file: (root / edit.file).read_bytes() for edit in mutant.edits}
    try:
        for edit in mutant.edits:
            edit.apply(root)
        code, by = run_tests(root, mutant.tests)
    except PatchError as error:
        return Verdict(mutant, "BROKEN", str(error), 0.0)
    finally:
        for file, content in before.items():
            (root / file).write_bytes(content)
    outcome = {0: "SURVIVED", 1: "killed"}.get(
        code, "BROKEN"
    )  # others: pytest could not run the tests at all
    return Verdict(mutant, outcome, by if code else "", time.monotonic() - start)


def judge(chosen: Sequence[Mutant], workers: int, *, compiled: bool = False) -> Iterator[Verdict]:
    """All of them, each worker in a copy of its own; as they come."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(workers) as pool:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(workers):
            copies.put(copy_of_the_sources(Path(folder, str(number)), compiled=compiled))

        def in_a_copy(mutant: Mutant) -> Verdict:
            root = copies.get()
            try:
                return judged(mutant, root)
            finally:
                copies.put(root)

        yield from pool.map(in_a_copy, chosen)


def page(verdicts: Sequence[Verdict]) -> str:
    """The table for the documentation: each bug, and the first test that failed."""
    rows = (
        f"| `{one.mutant.name}` | {one.mutant.sentence} | `{one.by.partition('[')[0]}` |"
        for one in verdicts
    )
    return "\n".join([HEAD, *rows, ""])


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="parts of names; all mutants if there are none")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--page", type=Path, help="also write docs/planted-bugs.md here")
    options = parser.parse_args()
    verdicts = []
    for verdict in judge(mutants(options.names), options.workers):
        verdicts.append(verdict)
        print(
            f"{verdict.outcome:9}{verdict.mutant.name:44} {verdict.by} ({verdict.seconds:.0f} s)",
            flush=True,
        )
    lived = [verdict for verdict in verdicts if verdict.outcome != "killed"]
    print(f"{len(verdicts)} planted bugs, {len(verdicts) - len(lived)} killed, {len(lived)} not")
    if options.page:
        options.page.write_text(page(verdicts), encoding="utf-8")
    return 1 if lived or not verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
