"""KL, perplexity, time and memory of another version beside this one, on the same made-up text.

    make compare-versions                    # the last version, which is found by its tag or by version.py
    make compare-versions REF=HEAD~3         # any commit
    python benchmarks/versions.py --repeats 9 --users 100000 --json

Both versions run the same commands in the same environment, in turns, each in a process of its own:
vocab, count, release at three ε with a seed for each repeat, export, evaluate. Text is made by this
version; the vocabulary is the other version's, for this one reads it; what comes out is judged by
this one. What the other version has no option for it does without, or the row stays empty. A
difference is marked where it is beyond the noise of the repeats: KL and perplexity beyond four
standard errors; time and memory where all repeats of one are above all of the other, and 5% more.
On a busy machine look at the processor's time.

Does not change the checkout: the other version is unpacked beside it.
"""

import argparse
import io
import json
import math
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, median, variance

from measure import CommandFailedError, Run, run

ROOT = Path(__file__).resolve().parents[1]
VERSION_FILE = "src/bayesgram/version.py"
ERRORS, FEW = 4.0, 3  # standard errors that are noise; repeats from which on anything is marked
SMALL, SLOWER = 0.005, 0.05  # differences that nobody minds: of KL, and of time and memory
DELTA = "1e-7"
WRONG_USE = ": exit code 2\n"
OF_MACHINES = ("s", "CPU s", "MB")  # units of what a busy machine moves, not noise


@dataclass(frozen=True)
class Side:
    """A version, and where it runs."""

    name: str
    tree: Path
    folder: Path
    python: str = sys.executable
    variants: dict[str, int] = field(
        default_factory=dict
    )  # of each step, the first that this version understands

    def run(self, *arguments: str | Path) -> Run:
        """One command of this version."""
        paths = {
            "PYTHONPATH": str(self.tree / "src"),
            "NUMBA_CACHE_DIR": str(self.folder / "kernels"),
        }
        return run([self.python, "-m", "bayesgram", *map(str, arguments)], paths)

    def check(self) -> None:
        """Another installation of Bayesgram must not stand in the way."""
        found = run(
            [
                self.python,
                "-c",
                "import bayesgram, json; print(json.dumps({'file': bayesgram.__file__}))",
            ],
            {"PYTHONPATH": str(self.tree / "src")},
        ).said["file"]
        if not Path(found).is_relative_to(self.tree):
            raise SystemExit(f"{self.name}: python runs {found}, not {self.tree}.")

    def step(self, name: str, *variants: Sequence[str | Path]) -> Run | None:
        """The first of the variants that this version understands; None if there is none."""
        for at in range(self.variants.get(name, 0), len(variants)):
            self.variants[name] = at
            try:
                return self.run(*variants[at])
            except CommandFailedError as failure:
                if WRONG_USE not in str(failure):
                    raise
        self.variants[name] = len(variants)
        return None


@dataclass
class Measure:
    """What is compared: numbers of both sides, lower is better."""

    name: str
    unit: str
    old: list[float] = field(default_factory=list)
    new: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float | None:
        """New over old: of means of what noise moves, of medians of what a busy machine does."""
        if not self.old or not self.new:
            return None
        middle = median if self.unit in OF_MACHINES else fmean
        return middle(self.new) / middle(self.old) if middle(self.old) else None

    @property
    def verdict(self) -> str:
        """Worse, better, or nothing that repeats would not do by themselves."""
        if (
            self.ratio is None
            or min(len(self.old), len(self.new)) < FEW
            or not self._beyond_noise()
        ):
            return ""
        return "worse" if self.ratio > 1 else "better"

    def _beyond_noise(self) -> bool:
        if self.unit in OF_MACHINES:
            apart = min(self.new) > max(self.old) or max(self.new) < min(self.old)
            return apart and abs(math.log(self.ratio or 1.0)) > math.log(1 + SLOWER)
        doubt = math.sqrt(variance(self.old) / len(self.old) + variance(self.new) / len(self.new))
        gap = abs(fmean(self.new) - fmean(self.old))
        return gap > ERRORS * doubt and gap > SMALL * fmean(self.old)

    def shown(self, numbers: Sequence[float]) -> str:
        """The middle of the repeats, and how far they are apart."""
        if not numbers:
            return "–"
        if self.unit in OF_MACHINES:
            digits = 0 if self.unit == "MB" else 2
            return f"{median(numbers):.{digits}f} {self.unit} ({min(numbers):.{digits}f}–{max(numbers):.{digits}f})"
        doubt = math.sqrt(variance(numbers) / len(numbers)) if len(numbers) > 1 else 0.0
        return f"{fmean(numbers):.4g} ± {doubt:.1g}"


def last_version() -> str:
    """The last tag that is a version.

    Without tags, the last commit before `VERSION` became what it is.
    """
    tags = git("tag", "--list", "v*", "--sort=-version:refname", "--merged").split()
    if tags:
        return (
            tags[0]
            if git("rev-parse", f"{tags[0]}^{{commit}}") != git("rev-parse", "HEAD")
            else tags[:2][-1]
        )
    changed = git("log", "-1", "--format=%H", "-G^VERSION", "--", VERSION_FILE)
    if not changed:
        raise SystemExit("no tag and no earlier version: name a commit with --ref.")
    return f"{changed}^"


def git(*arguments: str) -> str:
    """What git says."""
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def unpacked(ref: str, folder: Path) -> Side:
    """The sources of a commit, beside the checkout."""
    commit = git("rev-parse", "--short", f"{ref}^{{commit}}")
    packed = subprocess.run(
        ["git", "archive", commit, "src"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder / "tree", filter="data")
    version = (
        (folder / "tree" / VERSION_FILE)
        .read_text(encoding="utf-8")
        .split('VERSION = "')[1]
        .split('"')[0]
    )
    return Side(f"{version} ({commit})", folder / "tree", folder)


@dataclass(frozen=True)
class Comparison:
    """Two sides on one made-up population."""

    old: Side
    new: Side
    data: Path
    size: int
    epsilons: tuple[float, ...]
    measures: dict[str, Measure] = field(default_factory=dict)

    def turn(self, seed: int) -> None:
        """Both sides once, the one that begins changing from turn to turn; then both are judged."""
        sides = [self.old, self.new] if seed % 2 == 0 else [self.new, self.old]
        self.steps(sides, seed)
        for epsilon in self.epsilons:
            for side in sides:
                self._note(f"KL at ε = {epsilon:g}", "", side, self._divergence(side, epsilon))

    def first(self) -> None:
        """The very first run of each, which compiles: of `vocab`, the time is kept.

        Makes the shared vocabulary.
        """
        for side in (self.old, self.new):
            done = side.step("vocab", *self._vocab(side))
            if done is None:
                raise SystemExit(f"{side.name}: makes no vocabulary of these data.")
            self._note("vocab, very first run", "s", side, done.seconds)
        replace(self, measures={}).steps([self.old, self.new], 0)

    def steps(self, sides: Sequence[Side], seed: int) -> None:
        """All commands of both sides."""
        for step in (self._text_steps, self._release_steps, self._model_steps):
            for side in sides:
                step(side, seed)

    def _vocab(self, side: Side) -> Iterator[Sequence[str | Path]]:
        texts = {name: self.data / f"{name}.txt.gz" for name in ("articles", "chat")}
        orders = (
            "--orders",
            "1,2,3",
            "--size",
            str(self.size),
            "--force",
            "-o",
            side.folder / "vocab.parquet",
        )
        yield ("vocab", *(f"{name}={path}" for name, path in texts.items()), *orders)
        yield ("vocab", *texts.values(), *orders)
        yield ("vocab", *texts.values(), *orders[2:])

    @property
    def vocabulary(self) -> Path:
        """Of the older side: this version reads what that one writes."""
        return self.old.folder / "vocab.parquet"

    def _text_steps(self, side: Side, _seed: int) -> None:
        self._timed("vocab", side, side.step("vocab", *self._vocab(side)))
        counts = ("--vocab", self.vocabulary, "--force", "-o", side.folder / "counts")
        self._timed("count", side, side.step("count", ("count", self.data / "messages", *counts)))

    def _release_steps(self, side: Side, seed: int) -> None:
        for epsilon in self.epsilons:
            asked = (
                "release",
                side.folder / "counts",
                "--vocab",
                self.vocabulary,
                "--epsilon",
                f"{epsilon:g}",
            )
            rest = (
                "--delta",
                DELTA,
                "--seed",
                str(seed),
                "--force",
                "-o",
                side.folder / f"out-{epsilon:g}",
            )
            self._timed(f"release at ε = {epsilon:g}", side, side.step("release", (*asked, *rest)))

    def _model_steps(self, side: Side, _seed: int) -> None:
        out, model = side.folder / f"out-{self.epsilons[-1]:g}", side.folder / "model.arpa"
        exported = side.step("export", ("export", out, "--format", "arpa", "--force", "-o", model))
        self._timed("export", side, exported)
        if exported is None:
            return
        scored = ("evaluate", model, "--text", self.data / "held-out", "--json")
        self._timed("score held-out text", side, side.step("score", scored))
        perplexity = _found(self.new.run(*scored).said, "perplexity")
        if perplexity is not None:
            self._note(f"perplexity at ε = {self.epsilons[-1]:g}", "", side, perplexity)

    def _divergence(self, side: Side, epsilon: float) -> float | None:
        """KL from the private counts, as this version judges."""
        judged = self.new.run(
            "evaluate",
            side.folder / f"out-{epsilon:g}",
            "--against",
            self.new.folder / "counts",
            "--json",
        )
        return _found(judged.said, "kl")

    def _timed(self, name: str, side: Side, done: Run | None) -> None:
        if done is not None:
            self._note(name, "s", side, done.seconds)
            self._note(f"{name}, processor", "CPU s", side, done.cpu)
            self._note(f"{name}, memory", "MB", side, done.peak_mb)

    def _note(self, name: str, unit: str, side: Side, value: float | None) -> None:
        measure = self.measures.setdefault(name, Measure(name, unit))
        if value is not None:
            (measure.old if side is self.old else measure.new).append(value)
        print(
            f"  {side.name}: {name} {'–' if value is None else f'{value:.4g} {unit}'}",
            file=sys.stderr,
            flush=True,
        )

    @property
    def notes(self) -> Iterator[str]:
        """What the older version did without."""
        kinds = {"vocab": ("sources with names", "several orders")}
        for step, left_out in kinds.items():
            for what in left_out[: self.old.variants.get(step, 0)]:
                yield f"{self.old.name} has no {what}: it did without, and so did this one, which takes its vocabulary."

    def table(self) -> Iterator[str]:
        """Quality first, then time, then memory."""
        order = ["", *OF_MACHINES]
        rows = [("", self.old.name, self.new.name, "ratio", "")]
        rows += [
            (
                each.name,
                each.shown(each.old),
                each.shown(each.new),
                "" if each.ratio is None else f"{each.ratio:.3f}",
                each.verdict,
            )
            for each in sorted(self.measures.values(), key=lambda each: order.index(each.unit))
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        for row in rows:
            yield "  ".join(
                text.ljust(width) for text, width in zip(row, widths, strict=True)
            ).rstrip()
        yield from self.notes

    def to_json(self) -> dict[str, object]:
        """All repeats, for machines."""
        rows = [
            {**vars(each), "ratio": each.ratio, "verdict": each.verdict}
            for each in self.measures.values()
        ]
        return {
            "old": self.old.name,
            "new": self.new.name,
            "measures": rows,
            "notes": list(self.notes),
        }


def _found(said: object, name: str) -> float | None:
    """The first number of this name in a JSON document, wherever it stands."""
    if isinstance(said, dict):
        value = said.get(name)
        if isinstance(value, int | float):
            return float(value)
        said = list(said.values())
    if isinstance(said, list):
        return next((found for each in said if (found := _found(each, name)) is not None), None)
    return None


def compared(folder: Path, options: argparse.Namespace) -> Comparison:
    """Make the data, unpack the other version, and let both take turns."""
    for name in ("old", "new"):
        (folder / name).mkdir()
    new = Side("this one", ROOT, folder / "new")
    old = unpacked(options.ref or last_version(), folder / "old")
    old.check()
    new.check()
    people = ("generate", "--users", options.users, "--sentences", options.sentences)
    new.run(*people, "-o", folder / "data", "--seed", "7")
    new.run(
        "generate", "--users", "300", "--sentences", "300", "--seed", "8", "-o", folder / "others"
    )
    (folder / "others" / "messages").rename(folder / "data" / "held-out")
    found = Comparison(
        old, new, folder / "data", options.size, tuple(map(float, options.epsilons.split(",")))
    )
    found.first()
    for seed in range(options.repeats):
        found.turn(seed)
    return found


def main() -> None:
    """Print the table; with --fail-if-worse, exit with 1 if anything is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--ref", help="the other version: a tag or a commit; the last version unless given"
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--users", default="20000")
    parser.add_argument("--sentences", default="60000")
    parser.add_argument("--size", type=int, default=5000, help="n-grams of each order")
    parser.add_argument("--epsilons", default="0.2,1,8")
    parser.add_argument("--json", action="store_true", help="all repeats, for machines")
    parser.add_argument("--fail-if-worse", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bayesgram-versions-") as scratch:
        found = compared(Path(scratch), options)
    print(json.dumps(found.to_json()) if options.json else "\n".join(found.table()))
    if options.fail_if_worse and any(each.verdict == "worse" for each in found.measures.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
