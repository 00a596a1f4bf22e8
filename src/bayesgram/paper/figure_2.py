"""Figure 2: KL against the number of users, at ε = 0.1. The truth is each subset's own distribution."""

from collections.abc import Sequence

from bayesgram.charts import Drawing, format_thousands
from bayesgram.paper.experiment import (
    Check,
    Experiment,
    Finding,
    Run,
    algorithm_2,
    along,
    smaller_by,
)
from bayesgram.paper.harness import LAPLACES, PUBLIC_AND_PRIVATE, Method, Row
from bayesgram.paper.line_charts import (
    ORACLE,
    Panel,
    PanelAxis,
    log_domain,
    shown,
    side_by_side,
    titled,
)

EPSILON = 0.1
SIZES = (300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000)
AXIS = PanelAxis("users", "users (log scale)", format_thousands)


def rows(run: Run) -> list[Row]:
    """All mechanisms on nested subsets of the users."""
    sizes = [size for size in SIZES if size < run.data.users / 2][-2 if run.quick else -5 :]
    found: list[Row] = []
    for size in (*sizes, run.data.users):
        with run.step(f"Figure 2: KL of {size:,} users"):
            found += run.bench(run.data.fewer_users(size)).rows([EPSILON])
    return found


def panels(found: Sequence[Row], axis: PanelAxis) -> Drawing:
    """As in the paper: Bayesian and public on the left, Laplace on the right; here with the same vertical scale."""
    title, domain = "KL(p || θ), log scale; lower is better", log_domain(found)
    left = [row for row in found if row.method in PUBLIC_AND_PRIVATE]
    right = [row for row in found if row.method in LAPLACES]
    return side_by_side(
        Panel(left, axis, title, domain, width=300), Panel(right, axis, title, domain, width=300)
    )


def draw(found: Sequence[Row], setting: str) -> Drawing:
    """Lines over the number of users."""
    return titled(
        panels(found, AXIS), f"KL against the number of users, ε = {EPSILON:g}", setting, ORACLE
    )


def finding(found: Sequence[Row]) -> Finding:
    """Below the public baseline, falling with users, below Laplace."""
    lines = {m: dict(along(found, "users", m)) for m in (*PUBLIC_AND_PRIVATE, *LAPLACES)}
    best, public, laplace = (lines[m] for m in (Method.PAPER_BEST, Method.PUBLIC, Method.LAPLACE))
    few, many = min(best), max(best)
    checks = [
        Check(
            f"With {many:,} users the Bayesian mechanism at its best S and ρ has KL {shown(best[many])}:"
            f" {smaller_by(best[many], public[many])} the public baseline. It is below that baseline at"
            f" {sum(best[users] < public[users] for users in best)} of {len(best)} sizes.",
            best[many] < public[many],
        ),
        Check(
            f"From {few:,} to {many:,} users its KL goes from {shown(best[few])} to {shown(best[many])}.",
            best[many] < best[few],
        ),
        Check(
            f"Laplace at the paper's W is worse at {sum(best[u] < laplace[u] for u in best)} of {len(best)} sizes.",
            all(best[users] < laplace[users] for users in best),
        ),
    ]
    posterior = lines[Method.POSTERIOR]
    remark = (
        f"Posterior goes from {shown(posterior[few])} to {shown(posterior[many])}, and is below the public baseline at"
        f" {sum(posterior[u] < public[u] for u in posterior)} of {len(posterior)} sizes."
        " C changes from 1 to 10 at a million users."
    )
    return Finding(checks, [remark, *algorithm_2(lines[Method.PAPER_TUNED][many], best[many])])


FIGURE_2 = Experiment(
    name="figure-2",
    title="Figure 2 · KL against the number of users",
    statement=(
        "“Left: KL-divergence from the private distribution vs the number of users for Bayesian differential privacy"
        " compared to a public baseline. Right: Laplace differential privacy with and without public data. ε = 0.1 and"
        " vocabulary size is 50K.” The text adds nothing; what it means to show is that the mechanism beats"
        " public text, the more so the more users there are, and beats Laplace."
    ),
    measure="kl",
    axis="users",
    rows=rows,
    draw=draw,
    finding=finding,
)
