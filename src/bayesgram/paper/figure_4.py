"""Figure 4: KL against the Laplace noise on the public counts, at ε = 0.1: what a worse prior costs.

The scales are multiples of the mean public count, so that they mean the same for any public text.
"""

from collections.abc import Sequence

from bayesgram.charts import Drawing, format_number
from bayesgram.paper.experiment import (
    Check,
    Experiment,
    Finding,
    Run,
    algorithm_2,
    along,
    smaller_by,
)
from bayesgram.paper.figure_2 import EPSILON
from bayesgram.paper.harness import PUBLIC_AND_PRIVATE, Method, Row
from bayesgram.paper.line_charts import ORACLE, Panel, PanelAxis, shown, titled

SCALES, QUICK = (0.01, 0.1, 1.0, 10.0, 100.0), (0.01, 1.0, 100.0)  # of the mean public count
METHODS = (
    *PUBLIC_AND_PRIVATE,
    Method.LAPLACE_BEST,
    Method.LAPLACE_PUBLIC,
    Method.LAPLACE_PUBLIC_BEST,
    Method.LAPLACE,
)


def rows(run: Run) -> list[Row]:
    """All mechanisms with public counts that are worse and worse."""
    mean = float(run.data.vocabulary.counts.mean())
    found: list[Row] = []
    for part in run.grid(SCALES, QUICK):
        with run.step(f"Figure 4: KL with noise of {part:g} mean counts on public text"):
            found += run.bench(run.data.noisier_public(float(f"{part * mean:.2g}"))).rows(
                [EPSILON], METHODS
            )
    return found


def draw(found: Sequence[Row], setting: str) -> Drawing:
    """Lines over the noise."""
    axis = PanelAxis(
        "public_noise", "scale of the Laplace noise on the public counts (log scale)", format_number
    )
    panel = Panel(found, axis, "KL(p ‖ θ), log scale; lower is better", width=460)
    return titled(
        panel.draw(), f"KL against noise in the public counts, ε = {EPSILON:g}", setting, ORACLE
    )


def finding(found: Sequence[Row]) -> Finding:
    """Worse public text, worse result."""
    lines = {method: dict(along(found, "public_noise", method)) for method in METHODS}
    best, public, posterior = (
        lines[m] for m in (Method.PAPER_BEST, Method.PUBLIC, Method.POSTERIOR)
    )
    clean, dirty = min(best), max(best)
    checks = [
        Check(
            f"The Bayesian mechanism at its best S and ρ goes from KL {shown(best[clean])} to {shown(best[dirty])} as"
            " the noise grows: it depends on the quality of public text.",
            best[dirty] > best[clean],
        ),
        Check(
            f"It is below public text alone at {sum(best[scale] < public[scale] for scale in best)} of {len(best)}"
            f" scales (at the largest: {shown(best[dirty])} against {shown(public[dirty])}).",
            all(best[scale] < public[scale] for scale in best),
        ),
    ]
    remark = (
        f"Posterior goes from {shown(posterior[clean])} to {shown(posterior[dirty])}; with the worst public text it is"
        f" {smaller_by(posterior[dirty], best[dirty])} the paper's mechanism at its best."
    )
    return Finding(checks, [remark, *algorithm_2(lines[Method.PAPER_TUNED][clean], best[clean])])


FIGURE_4 = Experiment(
    name="figure-4",
    title="Figure 4 · KL against the quality of public text",
    statement=(
        "“KL-divergence of Bayesian differential privacy vs the scale of the Laplace noise added to the public data to"
        " deteriorate its quality. The number of users is 4M, ε = 0.1 and |𝒱| = 50K.” The text adds nothing; what it"
        " means to show is how gently the mechanism suffers from worse public text."
    ),
    measure="kl",
    axis="public_noise",
    rows=rows,
    draw=draw,
    finding=finding,
)
