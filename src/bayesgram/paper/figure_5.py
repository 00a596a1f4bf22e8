"""Figure 5: k-anonymity against K beside KL against ε, on 100,000 users."""

from collections.abc import Sequence

from bayesgram.charts import Drawing
from bayesgram.paper.experiment import (
    Check,
    Experiment,
    Finding,
    Run,
    algorithm_2,
    middle,
    smaller_by,
)
from bayesgram.paper.harness import PUBLIC_AND_PRIVATE, Method, Row
from bayesgram.paper.line_charts import (
    ORACLE,
    Panel,
    PanelAxis,
    log_domain,
    of_users,
    shown,
    side_by_side,
    titled,
)

USERS = 100_000
KS, QUICK_KS = (2, 5, 10, 20, 50, 100, 200, 500, 1000), (5, 50, 500)
EPSILONS, QUICK = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0), (0.2, 2.0)
SIMILAR = 0.25  # KL within a quarter of each other


def rows(run: Run) -> list[Row]:
    """Both panels."""
    data = run.data.fewer_users(USERS)
    with run.step(f"Figure 5: k-anonymity and KL of {data.users:,} users"):
        bench = run.bench(data)
        found = bench.k_anonymity(run.grid(KS, QUICK_KS))
        return found + bench.rows(run.grid(EPSILONS, QUICK), PUBLIC_AND_PRIVATE)


def draw(found: Sequence[Row], setting: str) -> Drawing:
    """K on the left, ε on the right, the same vertical scale."""
    title, domain = "KL(p || θ), log scale; lower is better", log_domain(found)
    left, right = (
        [row for row in found if (row.k is not None) == has_k] for has_k in (True, False)
    )
    charts = side_by_side(
        Panel(left, PanelAxis("k", "K (log scale)"), title, domain, width=270),
        Panel(right, PanelAxis("epsilon", "ε (log scale)"), title, domain, width=330),
    )
    return titled(
        charts, "k-anonymity beside differential privacy", of_users(setting, found[0].users), ORACLE
    )


def finding(found: Sequence[Row]) -> Finding:
    """Is ε = 0.2 as good as K = 50?"""
    tuned, best, posterior = (
        middle(found, m, epsilon=0.2)
        for m in (Method.PAPER_TUNED, Method.PAPER_BEST, Method.POSTERIOR)
    )
    add_one, public = (middle(found, m, k=50) for m in (Method.K_ADD_ONE, Method.K_PUBLIC))
    near = min(abs(best / anonymous - 1) for anonymous in (add_one, public))
    check = Check(
        f"At ε = 0.2 the Bayesian mechanism has KL {shown(best)} with its best S and ρ; k-anonymity with K = 50 has"
        f" {shown(add_one)} (add-one) or {shown(public)} (suppressed mass spread as in public text). Similar here means"
        " within 25%, or better.",
        near <= SIMILAR or best < min(add_one, public),
    )
    remark = f"Posterior at ε = 0.2: {shown(posterior)}, {smaller_by(posterior, add_one)} K = 50 with add-one."
    return Finding([check], [remark, *algorithm_2(tuned, best)])


FIGURE_5 = Experiment(
    name="figure-5",
    title="Figure 5 · k-anonymity beside differential privacy",
    statement=(
        "“For ε = 0.2, we achieve similar utility to K-anonymity with K = 50. However, differential privacy offers"
        " superior privacy guarantees.” (100K users, vocabulary of 50K.) The paper does not say where the mass of"
        " suppressed n-grams goes."
    ),
    measure="kl",
    axis="epsilon",
    rows=rows,
    draw=draw,
    finding=finding,
)
