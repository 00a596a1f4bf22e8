"""docs/images/growth.svg: time and peak memory of vocab and count as the text grows.

python picture.py docs/benchmarks.json docs/images/growth.svg
"""

import json
import sys
from pathlib import Path
from typing import Any

import altair as alt

COLOURS = ["#1b7f5c", "#d98c1f"]


def panel(points: list[dict[str, Any]], field: str, title: str) -> alt.Chart:
    """One measure against the size of the text."""
    return (
        alt.Chart(alt.InlineData(values=points))
        .mark_line(point=True)
        .encode(
            x=alt.X("megabytes:Q", title="text, MB"),
            y=alt.Y(f"{field}:Q", title=title),
            color=alt.Color("command:N", title=None, scale=alt.Scale(domain=["vocab", "count"], range=COLOURS)),
            strokeDash=alt.StrokeDash("text:N", title=None),
        )
        .properties(width=260, height=200)
    )


def main() -> None:
    """Draw both panels."""
    results, picture = Path(sys.argv[1]), Path(sys.argv[2])
    found = json.loads(results.read_text(encoding="utf-8"))
    points = [
        {**point, "text": f"{result['text']} text"}
        for key, result in found.items()
        if key.partition("@")[0] == "growth"
        for point in result["points"]
    ]
    both = panel(points, "seconds", "seconds") | panel(points, "peak_mb", "peak memory, MB")
    title = alt.Title("As the text grows, with --memory 200MB")
    picture.parent.mkdir(parents=True, exist_ok=True)
    both.properties(title=title).configure_view(stroke=None).save(picture)


if __name__ == "__main__":
    main()
