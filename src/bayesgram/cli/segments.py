"""What `release` and `infer` say of each segment, where there are some."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesgram.cli import console

if TYPE_CHECKING:
    from bayesgram.released.release import Release
    from bayesgram.released.segmented import SegmentedRelease


def segments_told(made: "Release | SegmentedRelease", output: Path) -> dict[str, Any]:
    """For machines: the folder of each segment, and its card."""
    return (
        {"segments": found}
        if (
            found := {
                name: {"output": str(output / name), "card": one.card.to_json()}
                for name, one in _segments_of(made).items()
            }
        )
        else {}
    )


def show_segments(made: "Release | SegmentedRelease") -> None:
    """Each segment's share of what people write, from noisy counts, and which model its answer is from."""
    rows = [
        (name, f"{100 * [*one.card.details['share'].values()][-1]:.2f}%", one.card.details["model"])
        for name, one in _segments_of(made).items()
    ]
    if rows:
        console.print_table("Segments", ("folder", "share (noisy)", "model"), rows, right=("share (noisy)",))


def _segments_of(made: "Release | SegmentedRelease") -> "dict[str, Release]":
    """By name, without that of all people; none where it is not by segment."""
    from bayesgram.released.segmented import SegmentedRelease

    if not isinstance(made, SegmentedRelease):
        return {}
    return {name: one for name, one in made.items() if one is not made.all}
