"""Pictures of results, as SVG and PNG files that open offline. Draws what it is given; computes nothing."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bayesgram.released.moved import Moved

ORACLE = "* S and ρ chosen by looking at the private text: flattered, and not publishable"
COLOURS = {"PROVED": "#1b7f5c", "EMPIRICAL": "#d98c1f", "NONE": "#8a8f98"}


def save(chart: Any, path: Path) -> list[Path]:  # noqa: ANN401 - Altair's charts share no useful base
    """Write path.svg and path.png."""
    targets = [path.with_suffix(".svg"), path.with_suffix(".png")]
    for target in targets:
        chart.save(target, scale_factor=2 if target.suffix == ".png" else 1)
    return targets


def comparison(rows: Sequence[dict[str, Any]]) -> Any:  # noqa: ANN401
    """KL of each release as a bar, coloured by what its guarantee is worth, one panel for each ε."""
    import altair as alt  # noqa: PLC0415 - 0.5 s

    largest = 2 * next(row["kl"] for row in rows if row["epsilon"] == 0)  # twice public text alone: worse than useless
    values = [
        {
            **row,
            "panel": "no ε" if row["epsilon"] is None else f"ε = {row['epsilon']:g}",
            "bar": min(row["kl"], largest),
            "label": f"{row['kl']:.3f}" + (" →" if row["kl"] > largest else ""),
        }
        for row in rows
        if row["kl"] is not None
    ]
    panels = list(dict.fromkeys(value["panel"] for value in values))
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X("bar:Q", title="KL(p ‖ θ): distance to the private text, lower is better"),
        y=alt.Y("release:N", sort=None, title=None, axis=alt.Axis(labelLimit=300)),
    )
    colour = alt.Color("guarantee:N", title=None, scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())))
    labels = base.mark_text(align="left", dx=4).encode(text="label:N")
    return (
        (base.mark_bar().encode(color=colour) + labels)
        .properties(width=460)
        .facet(row=alt.Row("panel:N", sort=panels, title=None, header=alt.Header(labelAngle=0, labelAlign="left")))
        .resolve_scale(y="independent")
        .properties(title=alt.Title("How far each release is from the private text", subtitle=ORACLE))
        .configure_view(stroke=None)
    )


def moved(lifted: Sequence[Moved], lowered: Sequence[Moved]) -> Any:  # noqa: ANN401
    """From public to released probability: one arrow an n-gram."""
    import altair as alt  # noqa: PLC0415

    values = [
        {"ngram": item.ngram, "before": item.before, "after": item.after, "way": way}
        for way, items in (("lifted by private text", lifted), ("lowered by private text", lowered))
        for item in items
    ]
    base = alt.Chart(alt.InlineData(values=values)).encode(
        y=alt.Y("ngram:N", sort=None, title=None, axis=alt.Axis(labelLimit=260))
    )
    scale = alt.Scale(type="log")
    lines = base.mark_rule(color="#b9bec6").encode(x=alt.X("before:Q", scale=scale), x2="after:Q")
    public = base.mark_point(filled=False, size=50, color="#555").encode(
        x=alt.X(
            "before:Q",
            scale=scale,
            title="probability (○ public, ● released)",
            axis=alt.Axis(format=".0e", tickCount=6),
        )
    )
    released = base.mark_point(filled=True, size=60, opacity=1).encode(
        x=alt.X("after:Q", scale=scale),
        color=alt.Color(
            "way:N",
            title=None,
            scale=alt.Scale(domain=["lifted by private text", "lowered by private text"], range=["#1b7f5c", "#b3475b"]),
        ),
    )
    return (
        (lines + public + released).properties(width=480, title="What private text changed").configure_view(stroke=None)
    )
