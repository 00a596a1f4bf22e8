"""How every picture is written, and the colours that mean something: one way for all of them."""

from pathlib import Path
from typing import Any

COLOURS = {"PROVED": "#1b7f5c", "EMPIRICAL": "#d98c1f", "NONE": "#8a8f98"}  # what an ε is worth


def save(chart: Any, path: Path) -> list[Path]:  # noqa: ANN401 - Altair's charts share no useful base
    """Write path.svg and path.png; they open offline."""
    targets = [path.with_suffix(".svg"), path.with_suffix(".png")]
    for target in targets:
        chart.save(target, scale_factor=2 if target.suffix == ".png" else 1)
    return targets
