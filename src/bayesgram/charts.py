"""How every picture is written, and the colours that mean something: one way for all of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

COLOURS = {"PROVED": "#1b7f5c", "EMPIRICAL": "#d98c1f", "NONE": "#8a8f98"}  # what an ε is worth
DATA, FAINT, LOWERED = "#2a62b8", "#b4c7e7", "#a8324a"  # of what is no label
LINES = (DATA, LOWERED, "#7a4fa3", "#0f8a9d", "#8a6d3b", "#c2519b", "#1d2127", "#6b8e23")


def save(chart: Any, path: Path) -> list[Path]:  # noqa: ANN401 - Altair's charts share no useful base
    """Write path.svg and path.png; they open offline."""
    targets = [path.with_suffix(".svg"), path.with_suffix(".png")]
    for target in targets:
        chart.save(target, scale_factor=2 if target.suffix == ".png" else 1)
    return targets


def spread_out(places: Sequence[float], gap: float, height: float) -> list[float]:
    """Ascending places, moved as little as needed to lie a gap apart, between 0 and the height.

    >>> spread_out([10, 11, 50], 10, 100)
    [5.5, 15.5, 50.0]
    """
    groups: list[list[float]] = []
    for place in places:
        groups.append([place])
        while (
            len(groups) > 1
            and _bottom(groups[-1], gap, height) < _top(groups[-2], gap, height) + gap
        ):
            groups[-2:] = [groups[-2] + groups[-1]]
    return [
        _bottom(group, gap, height) + nth * gap for group in groups for nth in range(len(group))
    ]


def _bottom(group: Sequence[float], gap: float, height: float) -> float:
    """Where a group's lowest label goes: the group stays in the middle of the places it stands for."""
    extent = (len(group) - 1) * gap
    return max(min(sum(group) / len(group) - extent / 2, height - extent), 0.0)


def _top(group: Sequence[float], gap: float, height: float) -> float:
    return _bottom(group, gap, height) + (len(group) - 1) * gap
