"""Benchmarks that begin with counts: γ, clipping, noise, noisy histograms and Algorithm 2.

In:  a `Bench`.   Out: a result for the page.
"""

from pathlib import Path

from bench import HERE, OPENDP, PIPELINEDP, Bench, Result, result
from measure import Contestant, Row, run, take_turns

HISTOGRAM_USERS, PIPELINEDP_USERS = 200_000, 5_000
PEER_BOUNDS = "at most 10 n-grams of a user, each once"


def gamma(bench: Bench) -> Result:
    """γ: every user left out once."""
    crowd, size = bench.crowd()
    rows = _kernels(
        bench, crowd, ("gamma", "ours", "Bayesgram"), ("gamma", "numpy", "numpy, vectorised")
    )
    rows += _kernels(bench, crowd, ("gamma", "users", "numpy, user by user"))
    rows[-1].note = "on 20,000 users"
    for row in rows:
        if row.said:
            row.note = "; ".join(
                filter(
                    None, (row.note, f"{row.said['nonzeros']:,} nonzeros after clipping to C and W")
                )
            )
    return result(
        "γ: the shift of every user, by leaving each one out", rows, size, unit="ns a nonzero"
    )


def clip(bench: Bench) -> Result:
    """Clip every user in L2 and add up."""
    crowd, size = bench.crowd()
    rows = _kernels(bench, crowd, ("clip", "ours", "Bayesgram"), ("clip", "scipy", "scipy"))
    worded = (
        ("clip-words", "ours", "Bayesgram, with words"),
        ("clip-words", "scipy", "scipy, with words"),
    )
    rows += _kernels(bench, crowd, *worded)
    for row in rows:
        row.note = (
            "integers: exact in any order" if row.ours else "floating point; sparse matrix products"
        )
    return result("Clip every user's counts in L2 and add them up", rows, size, unit="ns a nonzero")


def _kernels(bench: Bench, crowd: Path, *who: tuple[str, str, str]) -> list[Row]:
    contestants = [
        bench.peer(
            HERE / "python",
            title,
            "matrices.py",
            work,
            name,
            crowd,
            inside=True,
            ours=name == "ours",
        )
        for work, name, title in who
    ]
    return take_turns(contestants, bench.repeats)


def noise(bench: Bench) -> Result:
    """The discrete Gaussian, coordinate by coordinate."""
    rows = []
    for size in bench.noise_sizes:
        both = [
            bench.peer(
                HERE / "python",
                f"{title}, {size:,}",
                "noise.py",
                who,
                str(size),
                inside=True,
                ours=who == "ours",
            )
            for who, title in (("ours", "Bayesgram"), ("opendp", "OpenDP, one call"))
        ]
        rows += take_turns(both, bench.repeats)
    return result(
        "Discrete Gaussian noise", rows, {"coordinates": list(bench.noise_sizes)}, unit="s"
    )


def histogram(bench: Bench) -> Result:
    """A noisy histogram with per-user bounds, from the same rows of (user, n-gram, count)."""
    crowd, size = bench.crowd()
    users = min(HISTOGRAM_USERS, size["users"])
    folder, few = (
        bench.folder / f"{crowd.name}-of-{number}" for number in (users, PIPELINEDP_USERS)
    )
    size = bench.data("counts", folder, str(crowd), "--users", str(users))
    part = (
        bench.data("counts", few, str(crowd), "--users", str(PIPELINEDP_USERS))["nonzeros"]
        / size["nonzeros"]
    )
    rows = []
    for kind in ("laplace", "gaussian"):
        pairs = (
            (OPENDP, "OpenDP with Polars", folder, ""),
            (PIPELINEDP, "PipelineDP", few, f"{part:.1%} of the rows"),
        )
        for python, title, where, note in pairs:
            rows += take_turns(
                _releases(bench, kind, crowd / "vocab.parquet", where, python, title, note),
                bench.repeats,
            )
    return result("Noisy histogram with per-user bounds, over public keys", rows, size, unit="s")


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
    ours, theirs = (
        ", ".join(filter(None, ("Bayesgram", kind, note))),
        ", ".join(filter(None, (title, kind, note))),
    )
    file = counts / "counts.parquet"
    return [
        bench.ours(
            ours,
            *command,
            note=f"at most {'10 occurrences of a user' if kind == 'laplace' else '4 in L2'}",
        ),
        bench.peer(
            python,
            theirs,
            "histogram.py",
            f"{peer}-{kind}",
            file,
            vocab,
            f"{out}-{peer}",
            note=PEER_BOUNDS,
        ),
    ]


def grid(bench: Bench) -> Result:
    """Algorithm 2 with 30 settings."""
    crowd, size = bench.crowd()
    rows = take_turns(
        [bench.peer(HERE / "python", "Bayesgram", "grid.py", crowd, inside=True, ours=True)],
        bench.repeats,
    )
    said = rows[0].said
    if said:
        part = said["gamma_seconds"] / said["seconds"]
        rows[
            0
        ].note = f"{said['settings']} settings, {said['gamma_passes']} passes of γ: {part:.0%} of the time"
    return result("Algorithm 2: 30 settings of (S, ρ)", rows, size, unit="s")
