"""The picture of an audit: what the strongest attacks get, against what the claim allows."""

from typing import Any

import numpy as np

from bayesgram.arrays import Floats
from bayesgram.audit.verdict import Audit, Curve
from bayesgram.charts import COLOURS

CLAIM, IDEAL = "the claim: nothing may lie below", "Gaussian noise made for the claim"
ATTACKS = ["#b3475b", "#2a62b8"]  # none of those that say what an ε is worth


def allowed_misses(alarms: Floats, epsilon: float, delta: float) -> Floats:
    """The fewest misses that (ε, δ)-DP allows for a rate of false alarms.

    >>> allowed_misses(np.array([0.0, 0.5, 1.0]), 0.0, 0.1).tolist()
    [0.9, 0.4, 0.0]
    """
    lines = [1 - delta - np.exp(epsilon) * alarms, np.exp(-epsilon) * (1 - delta - alarms), np.zeros_like(alarms)]
    fewest: Floats = np.maximum.reduce(lines)
    return fewest


def ideal(epsilon: float, delta: float) -> Curve:
    """The trade-off of Gaussian noise that is just (ε, δ)-DP."""
    from dp_accounting import get_sigma_gaussian  # noqa: PLC0415 - 1 s

    return Curve.gaussian(1 / get_sigma_gaussian(epsilon, delta))


def trade_off(audit: Audit) -> Any:  # noqa: ANN401 - an Altair chart
    """False alarms against misses: the diagonal is blind guessing, the corner at 0 knows everything."""
    import altair as alt  # noqa: PLC0415 - 0.5 s

    lines = _lines(audit)
    colours = [*ATTACKS[: len(audit.drawn)], "#333333", COLOURS["PROVED"]]
    legend = alt.Legend(orient="bottom", direction="vertical", labelLimit=420)
    colour = alt.Color("line:N", title=None, scale=alt.Scale(domain=list(lines), range=colours), legend=legend)
    base = alt.Chart(alt.InlineData(values=_points(lines))).encode(
        x=alt.X("alarms:Q", title="false alarms: says “in” of a user who is not", scale=alt.Scale(domain=[0, 1])),
        y=alt.Y("misses:Q", title="misses: says “out” of a user who is in", scale=alt.Scale(domain=[0, 1])),
    )
    forbidden = base.transform_filter(alt.datum.line == CLAIM).mark_area(color="#b3475b", opacity=0.08)
    drawn = base.encode(color=colour, order="at:Q")  # no order for the area: it would be cut into pieces
    solid = drawn.transform_filter(alt.datum.line != IDEAL).mark_line(strokeWidth=2, clip=True)
    dashed = drawn.transform_filter(alt.datum.line == IDEAL).mark_line(strokeWidth=2, strokeDash=[5, 4])
    title = alt.Title("What an attacker gets, and what the claim allows", subtitle=[audit.mechanism, audit.line])
    return (forbidden + solid + dashed).properties(width=520, height=400, title=title).configure_view(stroke=None)


def _lines(audit: Audit) -> dict[str, Curve]:
    epsilon, delta = audit.epsilon or 0.0, audit.delta or 0.0
    alarms = np.linspace(0, 1, 201)
    lines = {f"{found.attack}, {found.neighbour}": found.curve for found in audit.drawn if found.curve}
    lines[CLAIM] = Curve(alarms.tolist(), allowed_misses(alarms, epsilon, delta).tolist())
    return lines | ({IDEAL: ideal(epsilon, delta)} if delta else {})


def _points(lines: dict[str, Curve]) -> list[dict[str, Any]]:
    return [
        {"line": name, "alarms": x, "misses": y, "at": at}
        for name, curve in lines.items()
        for at, (x, y) in enumerate(zip(curve.false_alarms, curve.misses, strict=True))
    ]
