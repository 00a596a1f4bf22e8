"""docs/images/speed.svg.

MB/s of every tool; docs/images/growth.svg: time and peak memory as the text grows.

python picture.py docs/benchmarks.json docs/images
"""

import json
import sys
from pathlib import Path
from typing import Any

import altair as alt

from bayesgram.charts import DATA, LOWERED

SKIPPED = ("wc -w", "Arrow, reading", "Bayesgram, very first run")

Results = dict[str, dict[str, Any]]


def task(key: str) -> str:
    """Results are kept by task@label."""
    return key.partition("@")[0]


def speed(found: Results) -> alt.FacetChart:
    """A bar for each tool, a panel for each task and text."""
    bars = [
        {
            "tool": row["name"],
            "speed": result["size"]["megabytes"] / min(row["seconds"]),
            "ours": row["ours"],
            "of": f"{task(key)}: {key.partition('@')[2] or 'generated text'}",
        }
        for key, result in found.items()
        if result.get("unit") == "MB/s"
        for row in result["rows"]
        if not row["missing"] and row["name"] not in SKIPPED
    ]
    base = alt.Chart(alt.InlineData(values=bars)).encode(
        y=alt.Y("tool:N", title=None, sort="-x"),
        x=alt.X("speed:Q", title="MB of text a second (whole process)"),
    )
    colour = alt.condition("datum.ours", alt.value(DATA), alt.value("#9aa5a1"))
    numbers = base.mark_text(align="left", dx=3).encode(text=alt.Text("speed:Q", format=".3~r"))
    layers = alt.layer(base.mark_bar().encode(color=colour), numbers).properties(
        width=220, height=120
    )
    return layers.facet(facet=alt.Facet("of:N", title=None), columns=3)


def panel(points: list[dict[str, Any]], field: str, title: str) -> alt.Chart:
    """One measure against the size of the text."""
    return (
        alt.Chart(alt.InlineData(values=points))
        .mark_line(point=True)
        .encode(
            x=alt.X("megabytes:Q", title="text, MB"),
            y=alt.Y(f"{field}:Q", title=title),
            color=alt.Color(
                "command:N",
                title=None,
                scale=alt.Scale(domain=["vocab", "count"], range=[DATA, LOWERED]),
            ),
            strokeDash=alt.StrokeDash("text:N", title=None),
        )
        .properties(width=260, height=200)
    )


def growth(found: Results) -> alt.HConcatChart:
    """Both measures side by side."""
    points = [
        {**point, "text": f"{result['text']} text"}
        for key, result in found.items()
        if task(key) == "growth"
        for point in result["points"]
    ]
    both = panel(points, "seconds", "seconds") | panel(points, "peak_mb", "peak memory, MB")
    return both.properties(title=alt.Title("As the text grows, with --memory 200MB"))


def main() -> None:
    """Draw what there is."""
    found = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    pictures = Path(sys.argv[2])
    pictures.mkdir(parents=True, exist_ok=True)
    tasks = {task(key) for key in found}
    if tasks & {"vocabulary", "counts"}:
        speed(found).configure_view(stroke=None).save(pictures / "speed.svg")
    if "growth" in tasks:
        growth(found).configure_view(stroke=None).save(pictures / "growth.svg")


if __name__ == "__main__":
    main()
