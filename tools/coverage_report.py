"""Say what `make coverage` measured, part by part, and what is left out and why.

`python tools/coverage_report.py`.

Ends with 1 where a part is below what is asked of it, or where a line is left out without a reason.
Lines and branches count alike. Does not run tests.
"""

import io
import json
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "bayesgram"
# What the guarantee rests on.
WHOLE = ("privacy", "private/norm_histogram.py", "private/clipping.py", "mechanisms")
ENOUGH = 0.95  # of every other part
MARK = "pragma: no "  # ... cover, ... branch


@dataclass(frozen=True)
class Excuse:
    """A line that is left out."""

    place: str
    reason: str  # empty where none is given


@dataclass(frozen=True)
class Measured:
    """Lines and branches of a part: how many there are, and where those are that no test ran."""

    size: int
    missing: tuple[str, ...]

    @property
    def share(self) -> float:
        """What tests ran."""
        return 1 - len(self.missing) / self.size if self.size else 1.0


def excuses(source: Path = SOURCE) -> list[Excuse]:
    """Every comment that leaves a line or a branch out, with its reason.

    `# pragma: no cover - the reason`.
    """
    return [excuse for path in sorted(source.rglob("*.py")) for excuse in _excuses_of(path, source)]


def _excuses_of(path: Path, source: Path) -> Iterator[Excuse]:
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.COMMENT and MARK in token.string:
            reason = token.string.partition(MARK)[2].partition(" - ")[2].partition("#")[0]
            yield Excuse(f"{path.relative_to(source)}:{token.start[0]}", reason.strip())


def part_of(path: str) -> str:
    """The folder of a file, or the file itself where more is asked of it than of its folder."""
    if path in WHOLE:
        return path
    return path.partition("/")[0] if "/" in path else "(top)"


def measured(report: dict[str, dict[str, dict[str, object]]]) -> dict[str, Measured]:
    """Every part of a report of coverage.py, as JSON."""
    sizes, missing = defaultdict[str, int](int), defaultdict[str, list[str]](list)
    for name, file in report["files"].items():
        path = name.replace("\\", "/").rpartition("bayesgram/")[2]
        summary = file["summary"]
        sizes[part_of(path)] += summary["num_statements"] + summary["num_branches"]
        lines = [f"{path}:{line}" for line in file["missing_lines"]]
        branches = [
            f"{path}:{start}→{end if end > 0 else 'end'}" for start, end in file["missing_branches"]
        ]
        missing[part_of(path)] += lines + branches
    return {part: Measured(sizes[part], tuple(missing[part])) for part in sorted(sizes)}


def asked_of(part: str) -> float:
    """The least share that is enough."""
    return 1.0 if part in WHOLE else ENOUGH


def table(parts: dict[str, Measured]) -> str:
    """The parts, and where tests never were, each on a line."""
    lines = [f"{'part':<20}{'lines and branches':>20}{'not run':>10}{'share':>10}{'asked':>8}"]
    for part, found in parts.items():
        verdict = "" if found.share >= asked_of(part) else "  below"
        shares = f"{found.share:>10.2%}{asked_of(part):>8.0%}"
        lines.append(f"{part:<20}{found.size:>20,}{len(found.missing):>10,}{shares}{verdict}")
    return "\n".join(lines)


def main() -> int:
    """Print it all; 0 if it is enough."""
    from coverage import Coverage  # noqa: PLC0415 - tests of the rest do without it

    found = Coverage()
    found.load()
    target = Path(found.config.data_file).with_name("coverage.json")
    found.json_report(outfile=str(target))
    parts, left_out = measured(json.loads(target.read_text(encoding="utf-8"))), excuses()
    print("\n".join(f"not run: {place}" for part in parts.values() for place in part.missing))
    print(
        "\n".join(
            f"left out: {excuse.place}: {excuse.reason or 'NO REASON'}" for excuse in left_out
        )
    )
    print(table(parts))
    enough = all(found.share >= asked_of(part) for part, found in parts.items())
    return 0 if enough and all(excuse.reason for excuse in left_out) else 1


if __name__ == "__main__":
    sys.exit(main())
