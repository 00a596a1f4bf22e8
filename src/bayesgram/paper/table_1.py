"""Table 1: trigram perplexity on held-out users, without back-off.

A tenth of the users, by a coin each, is held out; everything is released from the others. The average is over the
held-out users' n-grams that are in the vocabulary, each with its count. The paper averages over the words of whole
sentences whose trigrams are all in the vocabulary, on other text: levels differ, the order can be compared.
"""

from collections.abc import Sequence
from functools import partial

from bayesgram.charts import Drawing
from bayesgram.paper.experiment import (
    Check,
    Experiment,
    Finding,
    Run,
    algorithm_2,
    contexts,
    middle,
    perplexity,
)
from bayesgram.paper.harness import LAPLACES, PUBLIC_AND_PRIVATE, Method, Row
from bayesgram.paper.line_charts import dots, shown, titled

HELD_OUT = 0.1
EPSILON, K = 0.2, 50
SIMILAR = 0.1  # of the way from private to public
DIFFERENCE = (
    "Not the paper's quantity: it averages over whole sentences whose trigrams are all in the vocabulary, this over all"
    " trigrams of held-out users that are. Levels differ; the order and the ratios can be compared."
)
PAPER = {  # the paper's own numbers
    Method.PRIVATE: 29.48,
    Method.K_ADD_ONE: 35.51,
    Method.PAPER_TUNED: 35.55,
    Method.LAPLACE_PUBLIC: 580.46,
    Method.LAPLACE: 894.32,
    Method.PUBLIC: 43.00,
}


def rows(run: Run) -> list[Row]:
    """All rows of the paper's table, and more."""
    with run.step(f"Table 1: perplexity at ε = {EPSILON:g}"):
        training, held_out = run.data.split(HELD_OUT)
        measure = partial(perplexity, held_out.totals, context=contexts(training.vocabulary))
        bench = run.bench(training, measure)
        return [
            bench.private(),
            *bench.k_anonymity([K]),
            *bench.rows([EPSILON], (*PUBLIC_AND_PRIVATE, *LAPLACES)),
        ]


def draw(found: Sequence[Row], setting: str) -> Drawing:
    """A dot for each row."""
    title = "perplexity of held-out trigrams (log scale; lower is better)"
    chart = dots(
        found, x_title=title, beside={method.value: value for method, value in PAPER.items()}
    )
    rings = "Rings: the paper's own numbers, on other text. *: chosen by looking at private data."
    return titled(chart, f"Trigram perplexity; ε = {EPSILON:g}, K = {K}", setting, rings)


def finding(found: Sequence[Row]) -> Finding:
    """The order of the paper's table."""
    at = {method: middle(found, method) for method in dict.fromkeys(row.method for row in found)}
    best, k_anonymous, public = at[Method.PAPER_BEST], at[Method.K_ADD_ONE], at[Method.PUBLIC]
    laplace, laplace_public, private = (
        at[Method.LAPLACE],
        at[Method.LAPLACE_PUBLIC],
        at[Method.PRIVATE],
    )
    lost, lost_k = ((value - private) / (public - private) for value in (best, k_anonymous))
    checks = [
        Check(
            f"Bayesian at ε = 0.2 with its best S and ρ: {shown(best)}; k-anonymity with K = 50: {shown(k_anonymous)};"
            f" private {shown(private)}; public {shown(public)}. Of the way from private to public they lose {lost:.0%}"
            f" and {lost_k:.0%}; the paper's lose 45% and 45%.",
            abs(lost - lost_k) <= SIMILAR,
        ),
        Check(
            f"Bayesian {'beats' if best < public else 'does not beat'} public text.", best < public
        ),
        Check(
            f"At the paper's W, Laplace ({shown(laplace)}) and Laplace + public ({shown(laplace_public)}) are"
            f" {'' if min(laplace, laplace_public) > public else 'not both '}worse than public text.",
            min(laplace, laplace_public) > public,
        ),
    ]
    remark = f"Posterior at ε = 0.2: {shown(at[Method.POSTERIOR])}. Laplace at its best W: {shown(at[Method.LAPLACE_BEST])}."
    return Finding(checks, [remark, *algorithm_2(at[Method.PAPER_TUNED], best), DIFFERENCE])


TABLE_1 = Experiment(
    name="table-1",
    title="Table 1 · Trigram perplexity",
    statement=(
        "Average word perplexity, no back-off, 60K n-grams: private 29.48; K-anonymity with K = 50 35.51; Bayesian DP"
        " at ε = 0.2 35.55; Laplace DP + public data 580.46; Laplace DP 894.32; public 43.00."
    ),
    measure="perplexity",
    axis="vocabulary_size",
    rows=rows,
    draw=draw,
    finding=finding,
    published=PAPER,
)
