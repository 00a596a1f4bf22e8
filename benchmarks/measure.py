"""Run a program in a process of its own and take its time and peak memory.

In:  contestants for one task.   Out: a `Row` for each: seconds, CPU seconds and peak memory of
every repeat. Contestants take turns, so that a busy minute hits all of them. Imports nothing large:
on Linux a child's peak memory is never below its parent's, so this process stays small.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any


@dataclass(frozen=True)
class Contestant:
    """A program to be timed."""

    name: str
    command: Sequence[str]
    share: float = 1.0  # of the work it is given; its time is scaled up
    note: str = ""  # what it does differently
    inside: bool = (
        False  # it prints {"seconds": ..., "cpu": ...} of the work alone, as its last line
    )
    ours: bool = False
    once: bool = False  # too slow, or too special, to be repeated
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """What one process took, and what it printed, or printed last, if that is JSON."""

    seconds: float
    cpu: float
    peak_mb: float
    said: dict[str, Any]
    errors: str = ""


@dataclass
class Row:
    """All repeats of one contestant, scaled to the whole of the work."""

    name: str
    note: str
    ours: bool
    share: float
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    peak_mb: list[float] = field(default_factory=list)
    said: dict[str, Any] = field(default_factory=dict)
    missing: str = ""  # why there are no numbers

    def add(self, run: Run, *, inside: bool) -> None:
        """One more repeat."""
        seconds, cpu = (run.said["seconds"], run.said["cpu"]) if inside else (run.seconds, run.cpu)
        self.seconds.append(seconds / self.share)
        self.cpu.append(cpu / self.share)
        self.peak_mb.append(run.peak_mb)
        self.said = run.said

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


class CommandFailedError(RuntimeError):
    """A contestant ended badly."""


def run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Run:
    """Time one process, from start to end."""
    given = {**os.environ, **(environment or {})}
    given.pop(
        "PYTHONDONTWRITEBYTECODE", None
    )  # or Python would compile an editable installation each time
    with tempfile.TemporaryFile() as errors:
        start = perf_counter()
        process = subprocess.Popen(list(command), stdout=subprocess.PIPE, stderr=errors, env=given)
        printed = process.stdout.read().decode() if process.stdout else ""
        _, status, usage = os.wait4(process.pid, 0)
        seconds = perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        complaint = errors.read().decode(errors="replace")
    if process.returncode:
        raise CommandFailedError(
            f"{' '.join(map(str, command))}: exit code {process.returncode}\n{complaint[-2000:]}"
        )
    return Run(
        seconds,
        usage.ru_utime + usage.ru_stime,
        usage.ru_maxrss / 1000,
        _last_json(printed),
        complaint,
    )


def _last_json(printed: str) -> dict[str, Any]:
    """All that was printed, or its last line, whichever is JSON."""
    for text in (printed, printed.strip().rpartition("\n")[2]):
        try:
            found = json.loads(text)
        except json.JSONDecodeError:
            continue
        return found if isinstance(found, dict) else {}
    return {}


def take_turns(contestants: Sequence[Contestant], repeats: int) -> list[Row]:
    """Every contestant `repeats` times, in turns; the one that begins changes from turn to turn."""
    rows = {each.name: Row(each.name, each.note, each.ours, each.share) for each in contestants}
    for turn in range(repeats):
        first = turn % len(contestants)
        for each in [*contestants[first:], *contestants[:first]]:
            row = rows[each.name]
            if not (row.missing or (each.once and row.seconds)):
                _one(each, row)
    return list(rows.values())


def _one(each: Contestant, row: Row) -> None:
    if not Path(each.command[0]).exists():
        row.missing = "not installed"
    else:
        try:
            row.add(run(each.command, each.environment), inside=each.inside)
        except CommandFailedError as failure:
            row.missing = "failed"
            print(failure, file=sys.stderr)
    said = row.missing or f"{row.seconds[-1]:.2f} s, {row.peak_mb[-1]:.0f} MB"
    print(f"  {each.name}: {said}", file=sys.stderr, flush=True)
