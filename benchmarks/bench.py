"""What the benchmarks of `speed.py` share: where data lie, and how a contestant is started.

In:  the sizes that were asked for.   Out: generated data, made once, and contestants. Does not
measure: `measure` does.
"""

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import CommandFailedError, Contestant, Row, run

ROOT = Path(__file__).parent.parent
HERE = ROOT / ".venv-bench" / "ours" / "bin"  # what `pip install bayesgram` gives, and no more
TABLES, OPENDP, PIPELINEDP = (
    ROOT / ".venv-bench" / name / "bin" / "python" for name in ("tables", "opendp", "pipelinedp")
)
CONTESTANTS = Path(__file__).parent / "contestants"
Result = dict[str, Any]


@dataclass(frozen=True)
class Bench:
    """What is measured, on what, and where files go."""

    folder: Path
    megabytes: float
    repeats: int
    users: int
    scale_users: int
    text: Path | None
    hostile: bool
    columns: tuple[str, str]
    counts: tuple[Path, Path] | None  # and their vocabulary
    noise_sizes: tuple[int, ...]

    def data(self, what: str, out: Path, *arguments: str) -> Result:
        """Make something once; what it said is kept beside it."""
        told = out.with_name(out.name + ".json")
        if not (out.exists() and told.exists()):
            print(f"making {out.name} ...", file=sys.stderr, flush=True)
            command = [
                str(HERE / "python"),
                str(CONTESTANTS / "data.py"),
                what,
                str(out),
                *arguments,
            ]
            told.write_text(json.dumps(run(command, self.environment).said), encoding="utf-8")
        said: Result = json.loads(told.read_text(encoding="utf-8"))
        return said

    @property
    def environment(self) -> dict[str, str]:
        """Compiled kernels are kept here, so that a first run can be told from a second one."""
        return {"NUMBA_CACHE_DIR": str(self.folder / "kernels")}

    def input(self, times: float = 1) -> tuple[Path, Result]:
        """Parquet with user and text, and how much it is."""
        megabytes = self.megabytes * times
        size = ["--megabytes", f"{megabytes:g}"]
        if self.text is None:
            kind = "zipf" if self.hostile else "text"
            out = self.folder / f"{kind}-{megabytes:g}.parquet"
            return out, self.data(kind, out, *size)
        out = self.folder / f"{self.text.stem}-{megabytes:g}.parquet"
        columns = ["--user-column", self.columns[0], "--text-column", self.columns[1]]
        return out, self.data("copy", out, str(self.text), *size, *columns)

    def crowd(self, users: int | None = None) -> tuple[Path, Result]:
        """A matrix of users and n-grams, and how large it is."""
        if self.counts is not None:
            out = self.folder / f"given-{self.counts[0].stem}"
            return out, self.data("given", out, *map(str, self.counts))
        out = self.folder / f"crowd-{users or self.users}"
        return out, self.data("crowd", out, "--users", str(users or self.users))

    def vocabulary(self, text: Path) -> Path:
        """The one that `counts` counts against."""
        out = text.with_suffix(".vocab")
        if not out.exists():
            run(
                self.bayesgram("vocab", text, "--order", "3", "--no-model", "-o", out),
                self.environment,
            )
        return out

    @staticmethod
    def bayesgram(*arguments: str | Path) -> list[str]:
        """The command as people call it."""
        return [str(HERE / "bayesgram"), *map(str, arguments)]

    def ours(
        self, name: str, *arguments: str | Path, note: str = "", once: bool = False
    ) -> Contestant:
        """Our command as a contestant."""
        return Contestant(
            name,
            self.bayesgram(*arguments),
            note=note,
            ours=True,
            once=once,
            environment=self.environment,
        )

    def first_run(self, *arguments: str | Path) -> Contestant:
        """Our command on a machine that has never run it: its kernels are compiled on the way."""
        fresh = self.folder / "kernels-of-a-first-run"
        shutil.rmtree(fresh, ignore_errors=True)
        command = self.bayesgram(*arguments)
        name = "Bayesgram, very first run"
        return Contestant(
            name,
            command,
            note="compiles its kernels",
            once=True,
            environment={"NUMBA_CACHE_DIR": str(fresh)},
        )

    def peer(
        self, python: Path, name: str, script: str, *arguments: str | Path, **options: Any
    ) -> Contestant:
        """A script of `contestants/` in its own environment."""
        command = [str(python), str(CONTESTANTS / script), *map(str, arguments)]
        return Contestant(name, command, environment=self.environment, **options)

    def agreement(self, ours: Path, theirs: Path) -> str:
        """How much of what a peer found we found as well."""
        if not (TABLES.exists() and theirs.exists()):
            return ""
        try:
            said = run(
                [str(TABLES), str(CONTESTANTS / "text.py"), "compare", str(ours), str(theirs)]
            ).said
        except CommandFailedError:  # too large to be compared here
            return ""
        return f"{said['found']:.2%} of its {said['rows']:,} rows are ours, {said['same']:.2%} with the same count"


def result(title: str, rows: list[Row], size: Result, *, unit: str) -> Result:
    """A table of the page."""
    return {"title": title, "unit": unit, "size": size, "rows": [row.to_json() for row in rows]}
