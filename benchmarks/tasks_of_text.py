"""Benchmarks that begin with text: vocabulary, counts, growth, start-up and the paper's scale.

In:  a `Bench`.   Out: a result for the page.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from bench import HERE, TABLES, Bench, Result, result
from measure import Contestant, run, take_turns

COUNTER_MB, SKLEARN_MB, SKLEARN_COUNTS_MB = (
    100.0,
    20.0,
    50.0,
)  # slow peers get the beginning of the text
GROWTH = (1, 2, 4, 8)
STARTS = 20
ALL = 0.99


def vocabulary(bench: Bench) -> Result:
    """The 50,000 most frequent trigrams with their strings."""
    text, size = bench.input()
    peers = [*_text_peers(size), "counter"]
    out = {name: bench.folder / f"vocabulary-{name}.parquet" for name in ("ours", "first", *peers)}
    # Trigrams alone, as the peers count them: without words, pairs and the public model.
    options = ("--order", "3", "--no-model", "--size", "50000")
    command = ("vocab", text, *options, "--force", "-o")
    run(
        bench.bayesgram(*command, out["ours"]), bench.environment
    )  # compiles what changed since the last time
    shares = {"sklearn": SKLEARN_MB, "counter": COUNTER_MB}
    contestants = [bench.ours("Bayesgram", *command, out["ours"])]
    for name in peers:
        share = _share(shares.get(name), size["megabytes"])
        arguments = ("vocabulary", name, text, out[name], "--share", str(share))
        contestants.append(
            bench.peer(TABLES, TITLES[name], "text.py", *arguments, share=share, note=_part(share))
        )
    rows = take_turns([*contestants, bench.first_run(*command, out["first"])], bench.repeats)
    for row, name in zip(rows[1:], peers, strict=False):
        found = bench.agreement(out["ours"], out[name]) if row.share == 1 else ""
        row.note = "; ".join(filter(None, (row.note, DIFFERENT[name], found)))
    return result(
        "Vocabulary: the 50,000 most frequent trigrams, with their strings", rows, size, unit="MB/s"
    )


def counts(bench: Bench) -> Result:
    """Per-user counts against that vocabulary."""
    text, size = bench.input()
    vocab, lines = bench.vocabulary(text), text.with_suffix(".txt")
    bench.data("lines", lines, str(text))
    peers = _text_peers(size)
    out = {name: bench.folder / f"counts-{name}.parquet" for name in peers}
    ours = bench.folder / "counts"
    command = ("count", text, "--vocab", vocab, "--allow-public", "--force", "-o")
    run(bench.bayesgram(*command, ours), bench.environment)
    contestants = [bench.ours("Bayesgram", *command, ours)]
    for name in peers:
        share = _share(SKLEARN_COUNTS_MB if name == "sklearn" else None, size["megabytes"])
        arguments = ("counts", name, text, out[name], "--vocab", vocab, "--share", str(share))
        contestants.append(
            bench.peer(TABLES, TITLES[name], "text.py", *arguments, share=share, note=_part(share))
        )
    wc = [shutil.which("wc") or "wc", "-w", str(lines)]
    yardsticks = [
        Contestant("wc -w", wc, note="a yardstick: counts words, of plain lines", environment=UTF8),
        bench.peer(
            TABLES,
            "Arrow, reading",
            "text.py",
            "read",
            text,
            note="a yardstick: reads the two columns",
        ),
    ]
    first = bench.first_run(*command, bench.folder / "counts-first")
    rows = take_turns([*contestants, *yardsticks, first], bench.repeats)
    for row, name in zip(rows[1:], peers, strict=False):
        found = bench.agreement(ours / "counts.parquet", out[name]) if row.share == 1 else ""
        row.note = "; ".join(filter(None, (row.note, DIFFERENT[name], found)))
    return result("Counts of every user, against that vocabulary", rows, size, unit="MB/s")


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
    return [
        name for name in TEXT_PEERS if name != "polars-strings" or size["megabytes"] <= STRINGS_MB
    ]


def _share(most: float | None, megabytes: float) -> float:
    return 1.0 if most is None else min(1.0, most / megabytes)


def _part(share: float) -> str:
    return "" if share > ALL else f"on {share:.0%} of the text, time scaled up"


def growth(bench: Bench) -> Result:
    """Time and peak memory as the text grows, with little memory for what is being counted.

    Of random words only trigrams: a model of words that follow each other by chance takes minutes,
    and nobody wants it.
    """
    points = []
    options = ("--order", "3", "--no-model") if bench.hostile else ()
    for times in GROWTH:
        text, size = bench.input(times / GROWTH[-1])
        vocab, memory = bench.folder / "growth.vocab", ("--memory", "200MB", "--force")
        counted = ("count", text, "--vocab", vocab, "--allow-public", *memory)
        for name, command in (
            ("vocab", bench.bayesgram("vocab", text, *options, *memory, "-o", vocab)),
            ("count", bench.bayesgram(*counted, "-o", bench.folder / "growth")),
        ):
            if times == GROWTH[0]:
                run(command, bench.environment)  # compiles what changed since the last time
            took = [run(command, bench.environment) for _ in range(bench.repeats)]
            best = min(took, key=lambda each: each.seconds)
            print(
                f"  {name}, {size['megabytes']:.0f} MB: {best.seconds:.2f} s, {best.peak_mb:.0f} MB",
                file=sys.stderr,
            )
            point = {
                "command": name,
                "times": times,
                "megabytes": size["megabytes"],
                "seconds": best.seconds,
            }
            points.append({**point, "cpu": best.cpu, "peak_mb": max(each.peak_mb for each in took)})
    return {"title": "Growth, with --memory 200MB", "points": points}


def startup(bench: Bench) -> Result:
    """How long --help takes, and whether a second run compiles anything."""
    times = [run(bench.bayesgram("--help"), bench.environment).seconds for _ in range(STARTS)]
    text, _ = bench.input(0.01)
    told = {**bench.environment, "NUMBA_CACHE_DIR": str(bench.folder / "kernels-startup")}
    shutil.rmtree(told["NUMBA_CACHE_DIR"], ignore_errors=True)
    vocab, out, release = (
        bench.folder / name for name in ("startup.vocab", "startup-counts", "startup-release")
    )
    commands = [
        bench.bayesgram("vocab", text, "--force", "-o", vocab),
        bench.bayesgram("count", text, "--vocab", vocab, "--allow-public", "--force", "-o", out),
        bench.bayesgram(
            "release", out, "--vocab", vocab, "--epsilon", "1", "--force", "-o", release
        ),
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
    vocab, counts, release = (
        bench.folder / f"scale-{name}" for name in ("vocab", "counts", "release")
    )
    steps = []
    for command in (
        ("vocab", public, "--size", "50000", "--force", "-o", vocab),
        ("count", private, "--vocab", vocab, "--force", "-o", counts),
        ("release", counts, "--vocab", vocab, "--epsilon", "1", "--force", "-o", release),
        ("evaluate", release, "--against", counts, "--vocab", vocab),
    ):
        took = run(bench.bayesgram(*command), bench.environment)
        print(
            f"  {command[0]}: {took.seconds:.1f} s, {took.peak_mb:.0f} MB",
            file=sys.stderr,
            flush=True,
        )
        steps.append(
            {
                "step": f"`bayesgram {command[0]}`",
                "seconds": took.seconds,
                "cpu": took.cpu,
                "peak_mb": took.peak_mb,
            }
        )
    rows = [
        "-c",
        "import pyarrow.parquet as pq, sys; print(pq.ParquetFile(sys.argv[1]).metadata.num_rows)",
    ]
    nonzeros = int(subprocess.check_output([HERE / "python", *rows, counts / "counts.parquet"]))
    disk = sum(file.stat().st_size for file in counts.iterdir()) / 1e6
    return {
        "title": "The paper's scale",
        "size": {**size, "nonzeros": nonzeros, "on_disk": disk},
        "steps": steps,
    }
