"""bayesgram clean: what killed runs left."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesgram.cli import console, options
from bayesgram.errors import BayesgramError, UsageError

if TYPE_CHECKING:
    from bayesgram.io.atomic import TemporaryFolder


def clean(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FOLDER...]",
            help="Where outputs were to go; here, if none is given.",
            show_default=False,
        ),
    ] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove what was left, instead of showing it.")
    ] = False,
    any_host: Annotated[
        bool,
        typer.Option(
            "--any-host",
            help="Also what was made under another host name, as in a container: be sure that nothing runs there.",
        ),
    ] = False,
    json: options.Json = False,
) -> None:
    """Show what killed runs of yours left in these folders and in the system's temporary one: it may be private.

    Never touches what a live process uses. What an unfinished --force was about to replace is put back first.

    Example: bayesgram clean results --remove
    """
    from bayesgram.io.atomic import find_temporary_folders

    places = [*(folders or [Path()]), Path(tempfile.gettempdir())]
    for place in places:
        if not place.is_dir():
            raise UsageError(
                f"{place}: is not a folder; give those in which outputs were to appear."
            )
    found = {
        hidden.path.absolute(): hidden
        for place in places
        for hidden in find_temporary_folders(place)
    }
    rows = [_row(hidden, remove=remove, any_host=any_host) for hidden in found.values()]
    if json:
        console.print_json({"found": rows})
    else:
        _print(rows, remove=remove)
    stuck = [row["path"] for row in rows if row["removed"] is False]
    if stuck:
        raise BayesgramError(f"{', '.join(stuck)}: could not be removed; see who may write there.")


def _row(hidden: "TemporaryFolder", *, remove: bool, any_host: bool) -> dict[str, Any]:
    """What is there, and what became of it."""
    from bayesgram.io.atomic import FolderState, claim

    size = _size(hidden.path)
    with claim(hidden, any_host=any_host) as state:
        row = {
            "path": str(hidden.path),
            "kind": hidden.kind,
            "bytes": size,
            "host": hidden.host,
            "state": state.value,
        }
        if not (remove and state is FolderState.ABANDONED):
            return {**row, "left": state is FolderState.ABANDONED, "removed": None}
        hidden.discard()
        return {**row, "left": True, "removed": not hidden.path.exists()}


def _size(folder: Path) -> int:
    """Bytes of all files below, as far as they can be seen."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_size
        except OSError:  # it goes away while we look
            continue
    return total


def _print(rows: list[dict[str, Any]], *, remove: bool) -> None:
    if not rows:
        console.write("Nothing was left by killed runs.")
        return
    cells = [(row["path"], row["kind"], f"{row['bytes']:,}", _told(row)) for row in rows]
    console.print_table(
        "Temporary folders of bayesgram",
        ("folder", "kind", "bytes", "state"),
        cells,
        right=("bytes",),
    )
    if not remove and any(row["left"] for row in rows):
        console.write(
            "To remove those that were left by killed runs: the same command with --remove"
        )


def _told(row: dict[str, Any]) -> str:
    return str({True: "removed", False: "could not be removed", None: row["state"]}[row["removed"]])
