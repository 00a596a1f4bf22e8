"""Pictures of results, as SVG and PNG files that open offline. Draws what it is given; computes nothing."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bayesgram.released.moved import Moved

COLOURS = {"PROVED": "#1b7f5c", "EMPIRICAL": "#d98c1f", "NONE": "#8a8f98"}


def save(chart: Any, path: Path) -> list[Path]:  # noqa: ANN401 - Altair's charts share no useful base
    """Write path.svg and path.png."""
    targets = [path.with_suffix(".svg"), path.with_suffix(".png")]
    for target in targets:
        chart.save(target, scale_factor=2 if target.suffix == ".png" else 1)
    return targets


def comparison(rows: Sequence[dict[str, Any]]) -> Any:  # noqa: ANN401
    """KL of each release as a bar, coloured by what its guarantee is worth."""
    import altair as alt  # noqa: PLC0415 - 0.5 s

    data = alt.InlineData(values=[row for row in rows if row["kl"] is not None])
    bars = (
        alt.Chart(data, title="How far each release is from the private text")
        .mark_bar()
        .encode(
            x=alt.X("kl:Q", title="KL(p ‖ θ), lower is better", scale=alt.Scale(type="symlog", constant=0.1)),
            y=alt.Y("release:N", sort=None, title=None, axis=alt.Axis(labelLimit=260)),
            color=alt.Color(
                "guarantee:N",
                title="guarantee",
                scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())),
            ),
        )
    )
    labels = bars.mark_text(align="left", dx=4, color="#222").encode(
        text=alt.Text("kl:Q", format=".3f"), color=alt.value("#222")
    )
    return (bars + labels).properties(width=480).configure_view(stroke=None)


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
        x=alt.X("before:Q", scale=scale, title="probability (○ public, ● released)", axis=alt.Axis(format=".0e"))
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
