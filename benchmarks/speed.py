"""How fast Bayesgram is beside the tools one would otherwise take: all in one run, in turns, each in its own process.

    make bench                                                       # everything, into docs/
    python benchmarks/speed.py vocabulary --megabytes 10 --repeats 2 # one task, to look at
    python benchmarks/speed.py vocabulary counts --text posts.parquet --label "Reddit posts" --docs docs
    python benchmarks/speed.py growth --hostile --megabytes 2000 --label "random words" --docs docs

Tasks: vocabulary, counts, gamma, clip, noise, histogram, grid, growth, startup, scale; `all` is every one but scale.
Works in --folder (build/bench), where generated data stays for the next run. With --docs FOLDER the results go to
FOLDER/benchmarks.json, beside those of other tasks, and FOLDER/benchmarks.md is written anew from all of them.
Peers are looked for in .venv-bench (make bench-peers); those that are missing are said to be.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import page
from machine import machine, versions
from measure import CommandFailedError, Contestant, Row, run, take_turns

ROOT = Path(__file__).parent.parent
HERE = ROOT / ".venv-bench" / "ours" / "bin"  # what `pip install bayesgram` gives, and no more
TABLES, OPENDP, PIPELINEDP = (
    ROOT / ".venv-bench" / name / "bin" / "python" for name in ("tables", "opendp", "pipelinedp")
)
CONTESTANTS = Path(__file__).parent / "contestants"

COUNTER_MB, SKLEARN_MB, SKLEARN_COUNTS_MB = 100.0, 20.0, 50.0  # slow peers get the beginning of the text
HISTOGRAM_USERS, PIPELINEDP_USERS = 200_000, 5_000
GROWTH = (1, 2, 4, 8)
STARTS = 20
ALL = 0.99

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
            command = [str(HERE / "python"), str(CONTESTANTS / "data.py"), what, str(out), *arguments]
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
            run(self.bayesgram("vocab", text, "-o", out), self.environment)
        return out

    @staticmethod
    def bayesgram(*arguments: str | Path) -> list[str]:
        """The command as people call it."""
        return [str(HERE / "bayesgram"), *map(str, arguments)]

    def ours(self, name: str, *arguments: str | Path, note: str = "", once: bool = False) -> Contestant:
        """Our command as a contestant."""
        return Contestant(
            name, self.bayesgram(*arguments), note=note, ours=True, once=once, environment=self.environment
        )

    def first_run(self, *arguments: str | Path) -> Contestant:
        """Our command on a machine that has never run it: its kernels are compiled on the way."""
        fresh = self.folder / "kernels-of-a-first-run"
        shutil.rmtree(fresh, ignore_errors=True)
        command = self.bayesgram(*arguments)
        name = "Bayesgram, very first run"
        return Contestant(
            name, command, note="compiles its kernels", once=True, environment={"NUMBA_CACHE_DIR": str(fresh)}
        )

    def peer(self, python: Path, name: str, script: str, *arguments: str | Path, **options: Any) -> Contestant:  # noqa: ANN401
        """A script of `contestants/` in its own environment."""
        command = [str(python), str(CONTESTANTS / script), *map(str, arguments)]
        return Contestant(name, command, environment=self.environment, **options)

    def agreement(self, ours: Path, theirs: Path) -> str:
        """How much of what a peer found we found as well."""
        if not (TABLES.exists() and theirs.exists()):
            return ""
        try:
            said = run([str(TABLES), str(CONTESTANTS / "text.py"), "compare", str(ours), str(theirs)]).said
        except CommandFailedError:  # too large to be compared here
            return ""
        return f"{said['found']:.2%} of its {said['rows']:,} rows are ours, {said['same']:.2%} with the same count"


def vocabulary(bench: Bench) -> Result:
    """The 50,000 most frequent trigrams with their strings."""
    text, size = bench.input()
    peers = [*_text_peers(size), "counter"]
    out = {name: bench.folder / f"vocabulary-{name}.parquet" for name in ("ours", "first", *peers)}
    command = ("vocab", text, "--size", "50000", "--force", "-o")
    run(bench.bayesgram(*command, out["ours"]), bench.environment)  # compiles what changed since the last time
    shares = {"sklearn": SKLEARN_MB, "counter": COUNTER_MB}
    contestants = [bench.ours("Bayesgram", *command, out["ours"])]
    for name in peers:
        share = _share(shares.get(name), size["megabytes"])
        arguments = ("vocabulary", name, text, out[name], "--share", str(share))
        contestants.append(bench.peer(TABLES, TITLES[name], "text.py", *arguments, share=share, note=_part(share)))
    rows = take_turns([*contestants, bench.first_run(*command, out["first"])], bench.repeats)
    for row, name in zip(rows[1:], peers, strict=False):
        found = bench.agreement(out["ours"], out[name]) if row.share == 1 else ""
        row.note = "; ".join(filter(None, (row.note, DIFFERENT[name], found)))
    return _result("Vocabulary: the 50,000 most frequent trigrams, with their strings", rows, size, unit="MB/s")


def counts(bench: Bench) -> Result:
    """Per-user counts against that vocabulary."""
    text, size = bench.input()
    vocab, lines = bench.vocabulary(text), text.with_suffix(".txt")
    bench.data("lines", lines, str(text))
    peers = _text_peers(size)
    out = {name: bench.folder / f"counts-{name}.parquet" for name in peers}
    ours = bench.folder / "counts"
    command = ("count", text, "--vocab", vocab, "--force", "-o")
    run(bench.bayesgram(*command, ours), bench.environment)
    contestants = [bench.ours("Bayesgram", *command, ours)]
    for name in peers:
        share = _share(SKLEARN_COUNTS_MB if name == "sklearn" else None, size["megabytes"])
        arguments = ("counts", name, text, out[name], "--vocab", vocab, "--share", str(share))
        contestants.append(bench.peer(TABLES, TITLES[name], "text.py", *arguments, share=share, note=_part(share)))
    wc = [shutil.which("wc") or "wc", "-w", str(lines)]
    yardsticks = [
        Contestant("wc -w", wc, note="a yardstick: counts words, of plain lines", environment=UTF8),
        bench.peer(TABLES, "Arrow, reading", "text.py", "read", text, note="a yardstick: reads the two columns"),
    ]
    first = bench.first_run(*command, bench.folder / "counts-first")
    rows = take_turns([*contestants, *yardsticks, first], bench.repeats)
    for row, name in zip(rows[1:], peers, strict=False):
        found = bench.agreement(ours / "counts.parquet", out[name]) if row.share == 1 else ""
        row.note = "; ".join(filter(None, (row.note, DIFFERENT[name], found)))
    return _result("Counts of every user, against that vocabulary", rows, size, unit="MB/s")


PEER_BOUNDS = "at most 10 n-grams of a user, each once"
TEXT_PEERS = ("polars", "polars-strings", "duckdb", "sklearn")
STRINGS_MB = 400  # of text from which on strings would need too much memory
TITLES = {
    "polars": "polars",
    "polars-strings": "polars, strings",
    "duckdb": "DuckDB",
    "sklearn": "scikit-learn",
    "counter": "collections.Counter",
}
UTF8 = {"LC_ALL": "C.UTF-8"}
DIFFERENT = {
    "polars": "streaming engine, words as categories; rows in any order",
    "polars-strings": "the query one writes first: n-grams as strings, default engine; rows in any order",
    "duckdb": "one SQL statement; rows in any order",
    "sklearn": "CountVectorizer; trigrams cross sentence ends",
    "counter": "split and findall of `re`",
}


def _text_peers(size: Result) -> list[str]:
    return [name for name in TEXT_PEERS if name != "polars-strings" or size["megabytes"] <= STRINGS_MB]


def _share(most: float | None, megabytes: float) -> float:
    return 1.0 if most is None else min(1.0, most / megabytes)


def _part(share: float) -> str:
    return "" if share > ALL else f"on {share:.0%} of the text, time scaled up"


def gamma(bench: Bench) -> Result:
    """γ: every user left out once."""
    crowd, size = bench.crowd()
    rows = _kernels(bench, crowd, ("gamma", "ours", "Bayesgram"), ("gamma", "numpy", "numpy, vectorised"))
    rows += _kernels(bench, crowd, ("gamma", "users", "numpy, user by user"))
    rows[-1].note = "on 20,000 users"
    for row in rows:
        if row.said:
            row.note = "; ".join(
                filter(None, (row.note, f"{row.said['nonzeros']:,} nonzeros after clipping to C and W"))
            )
    return _result("γ: the shift of every user, by leaving each one out", rows, size, unit="ns a nonzero")


def clip(bench: Bench) -> Result:
    """Clip every user in L2 and add up."""
    crowd, size = bench.crowd()
    rows = _kernels(bench, crowd, ("clip", "ours", "Bayesgram"), ("clip", "scipy", "scipy"))
    worded = ("clip-words", "ours", "Bayesgram, with words"), ("clip-words", "scipy", "scipy, with words")
    rows += _kernels(bench, crowd, *worded)
    for row in rows:
        row.note = "integers: exact in any order" if row.ours else "floating point; sparse matrix products"
    return _result("Clip every user's counts in L2 and add them up", rows, size, unit="ns a nonzero")


def _kernels(bench: Bench, crowd: Path, *who: tuple[str, str, str]) -> list[Row]:
    contestants = [
        bench.peer(HERE / "python", title, "matrices.py", work, name, crowd, inside=True, ours=name == "ours")
        for work, name, title in who
    ]
    return take_turns(contestants, bench.repeats)


def noise(bench: Bench) -> Result:
    """The discrete Gaussian, coordinate by coordinate."""
    rows = []
    for size in bench.noise_sizes:
        both = [
            bench.peer(
                HERE / "python", f"{title}, {size:,}", "noise.py", who, str(size), inside=True, ours=who == "ours"
            )
            for who, title in (("ours", "Bayesgram"), ("opendp", "OpenDP, one call"))
        ]
        rows += take_turns(both, bench.repeats)
    return _result("Discrete Gaussian noise", rows, {"coordinates": list(bench.noise_sizes)}, unit="s")


def histogram(bench: Bench) -> Result:
    """A noisy histogram with per-user bounds, from the same rows of (user, n-gram, count)."""
    crowd, size = bench.crowd()
    users = min(HISTOGRAM_USERS, size["users"])
    folder, few = (bench.folder / f"{crowd.name}-of-{number}" for number in (users, PIPELINEDP_USERS))
    size = bench.data("counts", folder, str(crowd), "--users", str(users))
    part = bench.data("counts", few, str(crowd), "--users", str(PIPELINEDP_USERS))["nonzeros"] / size["nonzeros"]
    rows = []
    for kind in ("laplace", "gaussian"):
        pairs = (OPENDP, "OpenDP with Polars", folder, ""), (PIPELINEDP, "PipelineDP", few, f"{part:.1%} of the rows")
        for python, title, where, note in pairs:
            rows += take_turns(
                _releases(bench, kind, crowd / "vocab.parquet", where, python, title, note), bench.repeats
            )
    return _result("Noisy histogram with per-user bounds, over public keys", rows, size, unit="s")


def _releases(
    bench: Bench, kind: str, vocab: Path, counts: Path, python: Path, title: str, note: str
) -> list[Contestant]:
    """Our release and a peer's, of the same rows."""
    out, peer = bench.folder / f"histogram-{kind}", title.split(maxsplit=1)[0].lower()
    bounds = ("--max-total", "10") if kind == "laplace" else ("--clip-norm", "4")
    command = (
        "release",
        counts,
        "--vocab",
        vocab,
        "--mechanism",
        kind,
        "--epsilon",
        "1",
        *bounds,
        "--force",
        "-o",
        out,
    )
    run(bench.bayesgram(*command), bench.environment)
    ours, theirs = ", ".join(filter(None, ("Bayesgram", kind, note))), ", ".join(filter(None, (title, kind, note)))
    file = counts / "counts.parquet"
    return [
        bench.ours(ours, *command, note=f"at most {'10 occurrences of a user' if kind == 'laplace' else '4 in L2'}"),
        bench.peer(python, theirs, "histogram.py", f"{peer}-{kind}", file, vocab, f"{out}-{peer}", note=PEER_BOUNDS),
    ]


def grid(bench: Bench) -> Result:
    """Algorithm 2 with 30 settings."""
    crowd, size = bench.crowd()
    rows = take_turns(
        [bench.peer(HERE / "python", "Bayesgram", "grid.py", crowd, inside=True, ours=True)], bench.repeats
    )
    said = rows[0].said
    if said:
        part = said["gamma_seconds"] / said["seconds"]
        rows[0].note = f"{said['settings']} settings, {said['gamma_passes']} passes of γ: {part:.0%} of the time"
    return _result("Algorithm 2: 30 settings of (S, ρ)", rows, size, unit="s")


def growth(bench: Bench) -> Result:
    """Time and peak memory as the text grows, with little memory for what is being counted."""
    points = []
    for times in GROWTH:
        text, size = bench.input(times / GROWTH[-1])
        vocab, memory = bench.folder / "growth.vocab", ("--memory", "200MB", "--force")
        for name, command in (
            ("vocab", bench.bayesgram("vocab", text, *memory, "-o", vocab)),
            ("count", bench.bayesgram("count", text, "--vocab", vocab, *memory, "-o", bench.folder / "growth")),
        ):
            if times == GROWTH[0]:
                run(command, bench.environment)  # compiles what changed since the last time
            took = [run(command, bench.environment) for _ in range(bench.repeats)]
            best = min(took, key=lambda each: each.seconds)
            print(f"  {name}, {size['megabytes']:.0f} MB: {best.seconds:.2f} s, {best.peak_mb:.0f} MB", file=sys.stderr)
            point = {"command": name, "times": times, "megabytes": size["megabytes"], "seconds": best.seconds}
            points.append({**point, "cpu": best.cpu, "peak_mb": max(each.peak_mb for each in took)})
    return {"title": "Growth, with --memory 200MB", "points": points}


def startup(bench: Bench) -> Result:
    """How long --help takes, and whether a second run compiles anything."""
    times = [run(bench.bayesgram("--help"), bench.environment).seconds for _ in range(STARTS)]
    text, _ = bench.input(0.01)
    told = {**bench.environment, "NUMBA_CACHE_DIR": str(bench.folder / "kernels-startup")}
    shutil.rmtree(told["NUMBA_CACHE_DIR"], ignore_errors=True)
    vocab, out, release = (bench.folder / name for name in ("startup.vocab", "startup-counts", "startup-release"))
    commands = [
        bench.bayesgram("vocab", text, "--force", "-o", vocab),
        bench.bayesgram("count", text, "--vocab", vocab, "--force", "-o", out),
        bench.bayesgram("release", out, "--vocab", vocab, "--epsilon", "1", "--force", "-o", release),
    ]
    first, second = (sum(_compiled(command, told) for command in commands) for _ in range(2))
    return {
        "title": "Start-up",
        "help_median": median(times),
        "help_spread": [min(times), max(times)],
        "compiled_first": first,
        "compiled_second": second,
    }


def _compiled(command: Sequence[str], environment: dict[str, str]) -> int:
    """How many kernels were compiled, and so saved, by a command and the processes that help it."""
    folder = Path(environment["NUMBA_CACHE_DIR"])
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*.nbc")}
    run(command, environment)
    return sum(before.get(path) != path.stat().st_mtime_ns for path in folder.rglob("*.nbc"))


def scale(bench: Bench) -> Result:
    """The paper's scale, step by step through the command line, from text to an evaluated release."""
    folder = bench.folder / f"people-{bench.scale_users}"
    size = bench.data("people", folder, "--users", str(bench.scale_users))
    public, private = folder / "public.parquet", folder / "messages.parquet"
    vocab, counts, release = (bench.folder / f"scale-{name}" for name in ("vocab", "counts", "release"))
    steps = []
    for command in (
        ("vocab", public, "--size", "50000", "--force", "-o", vocab),
        ("count", private, "--vocab", vocab, "--force", "-o", counts),
        ("release", counts, "--vocab", vocab, "--epsilon", "1", "--force", "-o", release),
        ("evaluate", release, "--against", counts, "--vocab", vocab),
    ):
        took = run(bench.bayesgram(*command), bench.environment)
        print(f"  {command[0]}: {took.seconds:.1f} s, {took.peak_mb:.0f} MB", file=sys.stderr, flush=True)
        steps.append(
            {"step": f"`bayesgram {command[0]}`", "seconds": took.seconds, "cpu": took.cpu, "peak_mb": took.peak_mb}
        )
    rows = ["-c", "import pyarrow.parquet as pq, sys; print(pq.ParquetFile(sys.argv[1]).metadata.num_rows)"]
    nonzeros = int(subprocess.check_output([HERE / "python", *rows, counts / "counts.parquet"]))  # noqa: S603
    disk = sum(file.stat().st_size for file in counts.iterdir()) / 1e6
    return {"title": "The paper's scale", "size": {**size, "nonzeros": nonzeros, "on_disk": disk}, "steps": steps}


def _result(title: str, rows: list[Row], size: Result, *, unit: str) -> Result:
    return {"title": title, "unit": unit, "size": size, "rows": [row.to_json() for row in rows]}


TASKS: dict[str, Callable[[Bench], Result]] = {
    task.__name__: task for task in (vocabulary, counts, gamma, clip, noise, histogram, grid, growth, startup, scale)
}


def main() -> None:
    """Run tasks, show them, write the page."""
    options = _options()
    folder = options.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    bench = Bench(
        folder,
        options.megabytes,
        options.repeats,
        options.users,
        options.scale_users,
        options.text,
        options.hostile,
        (options.user_column, options.text_column),
        (options.counts, options.vocab) if options.counts else None,
        tuple(options.noise_sizes),
    )
    names = [name for name in TASKS if name != "scale"] if "all" in options.tasks else options.tasks
    names = [*names, *(["scale"] if options.scale and "scale" not in names else [])]
    about = {"machine": machine(), "versions": versions(HERE / "python", TABLES, OPENDP, PIPELINEDP)}
    results: dict[str, Result] = {}
    for name in names:
        print(f"{name} ...", file=sys.stderr, flush=True)
        before = os.getloadavg()[0]
        try:
            found = TASKS[name](bench)
        except CommandFailedError as failure:
            print(failure, file=sys.stderr)
            continue
        load = [round(before, 2), round(os.getloadavg()[0], 2)]
        key = f"{name}@{options.label}" if options.label else name
        text = "random" if options.hostile else options.text.name if options.text else "generated"
        results[key] = {**found, **about, "repeats": options.repeats, "load": load, "text": text}
        print("\n".join(page.section(key, results[key])), flush=True)
    if options.docs:
        page.write(options.docs, results, drawn_by=HERE / "python")
    if len(results) < len(names):
        sys.exit(1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="+", choices=[*TASKS, "all"], metavar="TASK")
    parser.add_argument("--megabytes", type=float, default=100, help="of text; growth goes from an eighth of it to all")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--text", type=Path, help="a Parquet file to read instead of generated text")
    parser.add_argument("--hostile", action="store_true", help="random words, so that most n-grams are new")
    parser.add_argument("--label", help="what to add to the titles, so that results stand beside others of the task")
    parser.add_argument("--user-column", default="user")
    parser.add_argument("--text-column", default="text")
    parser.add_argument("--users", type=int, default=1_200_000, help="of the made-up crowd (gamma, clip, grid)")
    parser.add_argument("--counts", type=Path, help="counts to take instead of the crowd; needs --vocab")
    parser.add_argument("--vocab", type=Path)
    parser.add_argument("--noise-sizes", type=int, nargs="+", default=[50_000, 1_000_000])
    parser.add_argument("--scale", action="store_true", help="also 4.4M users: ten minutes, 3 GB of disk")
    parser.add_argument("--scale-users", type=int, default=4_400_000)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "bench")
    parser.add_argument("--docs", type=Path, help="write benchmarks.md and benchmarks.json there")
    options = parser.parse_args()
    if bool(options.counts) != bool(options.vocab):
        parser.error("--counts and --vocab: give both or none.")
    return options


if __name__ == "__main__":
    main()
