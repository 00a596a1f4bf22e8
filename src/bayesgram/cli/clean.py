"""bayesgram clean: temporary folders that killed runs left."""

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
            help="Folders in which outputs were written.",
            show_default="this folder",
        ),
    ] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove what was left, instead of showing it.")
    ] = False,
    any_host: Annotated[
        bool,
        typer.Option(
            "--any-host",
            help="Also what was made under another host name, as in a container: be sure that"
            " nothing runs there.",
        ),
    ] = False,
    json: options.Json = False,
) -> None:
    """Show, or remove, temporary files that killed runs of yours left behind.

    It may be private.

    Never touches what a live process uses. What an unfinished --force was about to replace is put
    back first.

    Example: bayesgram clean results --remove
    """
    from bayesgram.io.atomic import find_temporary_folders

    places = [*(folders or [Path()]), Path(tempfile.gettempdir())]
    for place in places:
        if not place.is_dir():
            raise UsageError(
                f"{place}: is not a folder; give those in which outputs were to appear."
            )
    temporary = {
        folder.path.absolute(): folder
        for place in places
        for folder in find_temporary_folders(place)
    }
    rows = [_clean(folder, remove=remove, any_host=any_host) for folder in temporary.values()]
    if json:
        console.print_json({"found": rows})
    else:
        _print_rows(rows, remove=remove)
    stuck = [row["path"] for row in rows if row["removed"] is False]
    if stuck:
        raise BayesgramError(f"{', '.join(stuck)}: could not be removed; see who may write there.")


def _clean(folder: "TemporaryFolder", *, remove: bool, any_host: bool) -> dict[str, Any]:
    """Remove a folder, if asked for and if a killed run left it; return what is known of it."""
    from bayesgram.io.atomic import FolderState, claim

    size = _size_bytes(folder.path)
    with claim(folder, any_host=any_host) as state:
        row = {
            "path": str(folder.path),
            "kind": folder.kind,
            "bytes": size,
            "host": folder.host,
            "state": state.value,
        }
        if not (remove and state is FolderState.ABANDONED):
            return {**row, "left": state is FolderState.ABANDONED, "removed": None}
        folder.discard()
        return {**row, "left": True, "removed": not folder.path.exists()}


def _size_bytes(folder: Path) -> int:
    """Return the size of all files below, as far as they can be seen."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_size
        except OSError:  # it was removed meanwhile
            continue
    return total


def _print_rows(rows: list[dict[str, Any]], *, remove: bool) -> None:
    if not rows:
        console.write("Nothing was left by killed runs.")
        return
    outcomes = {True: "removed", False: "could not be removed"}
    cells = [
        (
            row["path"],
            row["kind"],
            console.format_bytes(row["bytes"]),
            str(outcomes.get(row["removed"], row["state"])),
        )
        for row in rows
    ]
    left = [row for row in rows if row["left"]]
    size = console.format_bytes(sum(row["bytes"] for row in left))
    console.write_wrapped(
        f"Temporary folders: {len(rows)}. Killed runs left {len(left)} of them"
        f"{f' ({size})' if left else ''}."
    )
    columns = ("folder", "kind", "size", "state")
    console.print_table("Temporary folders of bayesgram", columns, cells, right=("size",))
    if left and not remove:
        console.write("To remove what killed runs left, run the same command with --remove.")
