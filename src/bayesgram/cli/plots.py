"""Pictures that commands draw: --plot PATH, a .svg or a .png."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bayesgram.cli import console
from bayesgram.errors import Argument, UsageError

if TYPE_CHECKING:
    from bayesgram.charts import Drawing

SUFFIXES = (".svg", ".png")
PLOT = Argument("plot")  # where messages say that a picture goes


def check_plot(path: Path, *, force: bool, inputs: Sequence[str]) -> None:
    """Refuse a picture that can't be written, before the work.

    Args:
        path: Where the picture goes.
        force: Whether it may replace a file.
        inputs: What the command reads, which it must not replace.
    """
    from bayesgram.io.atomic import check_writable

    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"--plot {path}: a picture is a .svg or a .png; give a name that ends so.")
    check_writable(path, force=force, inputs=inputs, parameter=PLOT)


def save_plot(draw: "Callable[[], Drawing]", path: Path, *, force: bool) -> None:
    """Draw a chart and write it in the format that the name of its file says.

    Args:
        draw: Makes the drawing.
        path: The file, a .svg or .png.
        force: Whether an existing file is replaced.
    """
    from bayesgram.io.atomic import write_file_atomically

    kind = path.suffix.lower()[1:]
    with (
        console.step("Drawing"),
        write_file_atomically(path, force=force, parameter=PLOT) as target,
    ):
        draw().write(target, kind)
