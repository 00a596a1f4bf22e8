"""bayesgram evaluate: releases against private counts."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bayesgram.cli import console, options
from bayesgram.errors import UsageError


def evaluate(
    releases: Annotated[list[Path], typer.Argument(metavar="RELEASE...", help="Release folders.", show_default=False)],
    against: Annotated[Path, typer.Option(help="The private counts to judge by.", show_default=False)],
    vocab: Annotated[
        Path | None, typer.Option(help="Adds a row for the public distribution.", show_default=False)
    ] = None,
    json: options.Json = False,
) -> None:
    """Compare releases with private counts: KL(p ‖ θ), lower is better. For the keeper of the data only.

    Example: bayesgram evaluate out-paper out-laplace --against counts --vocab vocab.parquet
    """
    from bayesgram.audit.utility import DISCLOSURE, comparison_row, kl_divergence
    from bayesgram.private.store import load_counts
    from bayesgram.public.prior import public_distribution
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.released.release import Release

    loaded = [(str(path), Release.load(path)) for path in releases]
    sizes = {len(release.ngrams) for _, release in loaded}
    if len(sizes) > 1:
        raise UsageError(
            "the releases have vocabularies of different sizes; evaluate those of one vocabulary together."
        )
    with console.step("Reading counts"):
        counts = load_counts(against, vocabulary_size=sizes.pop())
    rows: list[dict[str, Any]] = []
    if vocab:
        vocabulary = Vocabulary.load(vocab)
        counts.check_vocabulary(len(vocabulary), vocabulary.fingerprint)
        kl = kl_divergence(counts.totals, public_distribution(vocabulary.counts))
        rows.append(comparison_row("public text alone", None, kl))
    for name, release in loaded:
        counts.check_vocabulary(len(release.ngrams), release.card.vocabulary["fingerprint"])
        rows.append(comparison_row(name, release, kl_divergence(counts.totals, release.probabilities)))
    if json:
        console.print_json({"warning": DISCLOSURE, "releases": rows})
        return
    print_rows("KL(p ‖ θ) against private counts", rows)
    console.say(f"These numbers are {DISCLOSURE}.")


def print_rows(title: str, rows: list[dict[str, Any]], *, mechanism: bool = True) -> None:
    """The comparison as a table; KL is infinite where a release rules out what people wrote."""
    cells = [
        (
            row["release"],
            *([row["mechanism"]] if mechanism else []),
            console.number(row["epsilon"]),
            console.number(row["delta"]),
            row["guarantee"],
            "∞" if row["kl"] is None else f"{row['kl']:.4f}",
        )
        for row in rows
    ]
    columns = ("release", *(["mechanism"] if mechanism else []), "ε", "δ", "guarantee", "KL")
    console.print_table(title, columns, cells, right=("ε", "δ", "KL"))
