"""docs/images/speed.svg.

MB/s of every tool; docs/images/growth.svg: time and peak memory as the text grows.

python picture.py docs/benchmarks.json docs/images
"""

import argparse
import json
from pathlib import Path
from typing import Any

from bayesgram.charts import (
    DATA,
    LOWERED,
    Axis,
    Bar,
    Drawing,
    Key,
    Row,
    Series,
    add_title,
    legend,
    plot_rows,
    plot_xy,
    side_by_side,
    stack,
)

SKIPPED = ("wc -w", "Arrow, reading", "Bayesgram, very first run")

Results = dict[str, dict[str, Any]]


def task(key: str) -> str:
    """Results are kept by task@label."""
    return key.partition("@")[0]


def speed(found: Results) -> Drawing:
    """A bar for each tool, a group for each task and text."""
    groups: dict[str, list[Row]] = {}
    for key, result in found.items():
        if result.get("unit") != "MB/s":
            continue
        speeds = {
            row["name"]: (result["size"]["megabytes"] / min(row["seconds"]), row["ours"])
            for row in result["rows"]
            if not row["missing"] and row["name"] not in SKIPPED
        }
        heading = f"{task(key)}: {key.partition('@')[2] or 'generated text'}"
        ordered = sorted(speeds.items(), key=lambda item: -item[1][0])
        groups[heading] = [
            Row(name, bars=(Bar(value, f"{value:.3g}", colour=DATA if ours else "NONE"),))
            for name, (value, ours) in ordered
        ]
    most = max(row.bars[0].value for rows in groups.values() for row in rows)
    chart = plot_rows(
        groups, Axis.linear(0, most, ticks=()), label="Speed of each tool", text_room=60
    )
    return add_title(chart, "MB of text a second (whole process)")


def panel(points: list[dict[str, Any]], field: str, title: str) -> Drawing:
    """One measure against the size of the text."""
    series = []
    for command, colour in (("vocab", DATA), ("count", LOWERED)):
        for at, text in enumerate(sorted({point["text"] for point in points})):
            line = [p for p in points if p["command"] == command and p["text"] == text]
            line.sort(key=lambda point: point["megabytes"])
            series.append(
                Series(
                    [point["megabytes"] for point in line],
                    [point[field] for point in line],
                    f"{command}, {text}",
                    colour,
                    "dashed" if at else "line",
                )
            )
    width = 400.0
    chart = plot_xy(
        series,
        Axis.linear(0, max(point["megabytes"] for point in points), "text, MB"),
        Axis.linear(0, 1.05 * max(point[field] for point in points), title),
        label=title,
        width=width,
        height=220,
    )
    keys = [
        Key(one.name, one.colour, "dashed" if one.look == "dashed" else "line") for one in series
    ]
    return stack([chart, legend(keys, width)], 8)


def growth(found: Results) -> Drawing:
    """Both measures side by side."""
    points = [
        {**point, "text": f"{result['text']} text"}
        for key, result in found.items()
        if task(key) == "growth"
        for point in result["points"]
    ]
    panels = [panel(points, "seconds", "seconds"), panel(points, "peak_mb", "peak memory, MB")]
    return add_title(side_by_side(panels), "As the text grows, with --memory 200MB")


def main() -> None:
    """Draw what there is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path)
    parser.add_argument("pictures", type=Path)
    options = parser.parse_args()
    found = json.loads(options.results.read_text(encoding="utf-8"))
    pictures = options.pictures
    pictures.mkdir(parents=True, exist_ok=True)
    tasks = {task(key) for key in found}
    if tasks & {"vocabulary", "counts"}:
        speed(found).write(pictures / "speed.svg", "svg")
    if "growth" in tasks:
        growth(found).write(pictures / "growth.svg", "svg")


if __name__ == "__main__":
    main()
