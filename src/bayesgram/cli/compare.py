"""bayesgram compare: what rose and fell between releases, or between public text and a release."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayesgram.cli import console, options, plots
from bayesgram.cli.named_inputs import model_names
from bayesgram.cli.options import parse_float, parse_int
from bayesgram.errors import UsageError

if TYPE_CHECKING:
    from bayesgram.comparison.comparison import Change, Comparison

MAX_NGRAM_LENGTH = 30  # characters, in a table of 80 columns


def compare(
    releases: Annotated[
        list[str],
        typer.Argument(
            metavar="RELEASE...",
            help="Release folders in the order of time, or of segments; NAME=PATH gives one a"
            " name.",
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
        float,
        typer.Option(
            parser=parse_float,
            help="The false discovery rate: the share of the list that may be there by chance.",
        ),
    ] = 0.1,
    top: Annotated[
        int,
        typer.Option(
            parser=partial(parse_int, minimum=1),
            help="How many rows each table shows, the surest first.",
        ),
    ] = 10,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw what changed, as a .svg or .png.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Write all changes to a .csv, .parquet or .json file.",
            show_default=False,
        ),
    ] = None,
    force: options.Force = False,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Show what rose and fell between releases, by how much, and how sure that is.

    It costs no privacy.

    With two releases, it shows the ratio of the shares of every n-gram and word, with a 95%
    interval. With more, such as one for each week, it shows which n-grams changed, and between
    which two releases most clearly. With one release and --vocab, it shows what people write more
    or less often than public text.

    Releases by posterior and gaussian can be compared: they keep their noisy measurements.

    Example: bayesgram compare week-1 week-2 --plot moved.svg
    """
    from bayesgram.comparison.comparison import (
        check_output_suffix,
        comparison_json,
        save_comparison,
    )
    from bayesgram.io.atomic import check_writable

    names = _release_names(releases)
    inputs = [*names, *([str(vocab)] if vocab else [])]
    if plot is not None:
        plots.check_plot(plot, force=force, inputs=inputs)
    if output is not None:
        check_output_suffix(output)
        check_writable(output, force=force, inputs=inputs)
    comparison = _compare(names, vocab, fdr)
    if output is not None:
        save_comparison(comparison, output, force=force)
    if plot is not None:
        from bayesgram.reports.pictures import draw_changes

        plots.save_plot(lambda: draw_changes(comparison), plot, force=force)
    if json:
        console.print_json(comparison_json(comparison))
    else:
        print_changes(comparison, top, verbose=verbose)


def _release_names(releases: list[str]) -> dict[str, str]:
    """Return the name of each release by its path; no folder and no name may be there twice."""
    names = model_names(releases)
    path_of_folder: dict[Path, str] = {}
    for path in names:
        other = path_of_folder.setdefault(Path(path).resolve(), path)
        if other != path:
            raise UsageError(
                f"{path}: is the same folder as {other}; give two releases that differ."
            )
    if len(set(names.values())) < len(names):
        raise UsageError(
            f"{', '.join(names.values())}: two have the same name; give each its own (NAME=PATH)."
        )
    return names


def _compare(names: dict[str, str], vocab: Path | None, fdr: float) -> "Comparison":
    from bayesgram.comparison.comparison import compare
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.releases.release import Release

    with console.step("Reading releases"):
        releases = [Release.load(path) for path in names]
        vocabulary = None if vocab is None else Vocabulary.load(vocab)
    with console.step("Comparing"):
        return compare(*releases, vocabulary=vocabulary, names=list(names.values()), fdr=fdr)


def print_changes(comparison: "Comparison", top: int, *, verbose: bool = False) -> None:
    """Print what rose, what fell, what that means, and notes about the releases.

    Args:
        comparison: What changed between the releases.
        top: How many rows each table shows, the surest first.
        verbose: Whether to print the false discovery rate of each change.
    """
    names = comparison.names
    is_pair = len(names) == 2
    between = f"from {names[0]} to {names[1]}" if is_pair else f"over {len(names)} releases"
    for is_word in (False, True):
        for is_rise in (True, False):
            changes = [
                change
                for change in comparison.changes
                if change.is_word == is_word and change.is_rise == is_rise
            ]
            if changes:
                title = f"{_table_title(is_word=is_word, is_rise=is_rise)} {between}"
                kind = "word" if is_word else "n-gram"
                _print_table(title, kind, changes, names, top, verbose=verbose)
    console.write_wrapped(comparison.summary)
    if comparison.changes:
        console.write_wrapped(comparison.how_to_read)
    for note in comparison.notes:
        console.write_wrapped(note)


def _table_title(*, is_word: bool, is_rise: bool) -> str:
    if is_word:
        return "Words that rose" if is_rise else "Words that fell"
    return "Rose" if is_rise else "Fell"


def _print_table(
    title: str,
    kind: str,
    changes: list["Change"],
    names: list[str],
    top: int,
    *,
    verbose: bool,
) -> None:
    is_pair = len(names) == 2
    hidden = {"fdr": not verbose, "between": is_pair}
    columns = [
        column
        for column in (kind, "before", "after", "change", "fdr", "between")
        if not hidden.get(column)
    ]
    rows = [
        [cells[column if column != kind else "ngram"] for column in columns]
        for cells in (_cells(change, names) for change in changes[:top])
    ]
    of_all = f", the surest {top} of {len(changes):,}" if len(changes) > top else ""
    console.print_table(f"{title}{of_all}", columns, rows, right=("before", "after", "fdr"))


def _cells(change: "Change", names: list[str]) -> dict[str, str]:
    """Return a row: the text, shares before and after, the change and how surely it is one."""
    ngram = change.ngram
    if len(ngram) > MAX_NGRAM_LENGTH:
        ngram = f"{ngram[: MAX_NGRAM_LENGTH - 1]}…"
    before = _percent(change.shares[change.first])
    after = _percent(change.shares[change.second])
    fdr = "<0.0001" if change.fdr < 1e-4 else f"{change.fdr:.2g}"
    between = f"{names[change.first]} → {names[change.second]}"
    return {
        "ngram": ngram,
        "before": before,
        "after": after,
        "change": change.description,
        "fdr": fdr,
        "between": between,
    }


def _percent(share: float) -> str:
    """Return a share with three digits.

    >>> _percent(0.0123456), _percent(0.00000123)
    ('1.23%', '0.000123%')
    """
    digits = f"{100 * share:.3g}"
    return f"{float(digits):.6f}".rstrip("0").rstrip(".") + "%" if "e" in digits else f"{digits}%"
