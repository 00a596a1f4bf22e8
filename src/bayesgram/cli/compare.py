"""bayesgram compare: what rose and fell between releases, or between public text and a release."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayesgram.cli import console, evaluate, options
from bayesgram.errors import UsageError

if TYPE_CHECKING:
    from bayesgram.comparison.comparison import Change, Comparison

LONGEST = 30  # characters of an n-gram in a table of 80 columns


def compare(
    releases: Annotated[
        list[str],
        typer.Argument(
            metavar="RELEASE...",
            help="Release folders in the order of time, or of segments; NAME=PATH gives one a name.",
            show_default=False,
        ),
    ],
    vocab: Annotated[
        Path | None,
        typer.Option(
            help="Their vocabulary: compares its public text with one release.", show_default=False
        ),
    ] = None,
    fdr: Annotated[
        float, typer.Option(help="The false discovery rate: so much of the list may be chance.")
    ] = 0.1,
    top: Annotated[
        int,
        typer.Option(help="How many that rose, and that fell, the tables show: the surest.", min=1),
    ] = 10,
    plot: Annotated[
        Path | None,
        typer.Option(help="A picture of what changed: a .svg or .png.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="All of it as a .csv, .parquet or .json.", show_default=False
        ),
    ] = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """What rose and fell between releases, and how sure that is, with many n-grams in mind. At no privacy cost.

    Two releases: the ratio of every n-gram's rates. More, such as one a week: whether it is the same in all of them,
    and between which two it changed most clearly. One and --vocab: what people write more or less than public text.

    Example: bayesgram compare week-1 week-2 --plot moved.svg
    """
    from bayesgram.comparison.comparison import check_suffix, comparison_json, save_comparison
    from bayesgram.io.atomic import check_writable

    names = _names(releases)
    inputs = [*names, *([str(vocab)] if vocab else [])]
    if plot is not None:
        evaluate.check_picture(plot, force=force, inputs=inputs)
    if output is not None:
        check_suffix(output)
        check_writable(output, force=force, inputs=inputs)
    found = _compared(names, vocab, fdr)
    if output is not None:
        save_comparison(found, output, force=force)
    if plot is not None:
        from bayesgram.reports.figures import draw_changes

        evaluate.save_picture(lambda: draw_changes(found), plot, force=force)
    if json:
        console.print_json(comparison_json(found))
    else:
        show_changes(found, top)


def _names(releases: list[str]) -> dict[str, str]:
    """What each release is called, by its path; no folder may be there twice."""
    names = evaluate.names(releases)
    folders: dict[Path, str] = {}
    for path in names:
        folder = Path(path).resolve()
        if folder in folders:
            raise UsageError(
                f"{path}: is the same folder as {folders[folder]}; give two releases that differ."
            )
        folders[folder] = path
    if len(set(names.values())) < len(names):
        raise UsageError(
            f"{', '.join(names.values())}: two have the same name; give each its own (NAME=PATH)."
        )
    return names


def _compared(names: dict[str, str], vocab: Path | None, fdr: float) -> "Comparison":
    from bayesgram.comparison.comparison import compare
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.releases.release import Release

    with console.step("Reading releases"):
        loaded = [Release.load(path) for path in names]
        vocabulary = None if vocab is None else Vocabulary.load(vocab)
    with console.step("Comparing"):
        return compare(*loaded, vocabulary=vocabulary, names=list(names.values()), fdr=fdr)


def show_changes(found: "Comparison", top: int) -> None:
    """What rose, what fell, what that means, and what must be said of the releases."""
    pair = len(found.names) == 2
    over = (
        f"from {found.names[0]} to {found.names[1]}"
        if pair
        else f"over {len(found.names)} releases"
    )
    columns = ("n-gram", "before", "after", "change", "fdr", *([] if pair else ["between"]))
    for title, rose in (("Rose", True), ("Fell", False)):
        changes = [change for change in found.changes if (change.z >= 0) == rose]
        rows = [_cells(change, found.names, pair=pair) for change in changes[:top]]
        more = f", the surest {top} of {len(changes):,}" if len(changes) > top else ""
        if rows:
            console.print_table(
                f"{title} {over}{more}", columns, rows, right=("before", "after", "fdr")
            )
    for line in [found.explained, *([found.how_to_read] if found.changes else []), *found.notes]:
        console.write(line)


def _cells(change: "Change", names: list[str], *, pair: bool) -> tuple[str, ...]:
    """N-gram, θ before and after, the change and how surely it is one."""
    ngram = change.ngram if len(change.ngram) <= LONGEST else f"{change.ngram[: LONGEST - 1]}…"
    shares = (_percent(change.shares[at]) for at in (change.first, change.second))
    sure = "<0.0001" if change.fdr < 1e-4 else f"{change.fdr:.2g}"
    between = f"{names[change.first]} → {names[change.second]}"
    return (ngram, *shares, change.described, sure, *([] if pair else [between]))


def _percent(share: float) -> str:
    """Three digits.

    >>> _percent(0.0123456), _percent(0.00000123)
    ('1.23%', '0.000123%')
    """
    digits = f"{100 * share:.3g}"
    return f"{float(digits):.6f}".rstrip("0").rstrip(".") + "%" if "e" in digits else f"{digits}%"
