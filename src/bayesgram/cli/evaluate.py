"""bayesgram evaluate: releases and language models against private counts and held-out text."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesgram.cli import console, held_out, options, sources
from bayesgram.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bayesgram.private.counts import SegmentedCounts
    from bayesgram.private.over_users import PrivateCounts
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.released.language_model import LanguageModel
    from bayesgram.released.release import Release

PUBLIC_ALONE = "public text alone"
PRIVATE = "private counts (not for publication)"


def evaluate(
    releases: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="Release folders; with --text also model folders and ARPA files; NAME=PATH gives one a name.",
            show_default=False,
        ),
    ],
    against: Annotated[Path | None, typer.Option(help="The private counts to judge by.", show_default=False)] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help="Held-out text: a file, folder or quoted pattern; several are NAME=PATH each.",
            show_default=False,
        ),
    ] = None,
    vocab: Annotated[
        Path | None, typer.Option(help="Adds a row for the public distribution.", show_default=False)
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="A picture over ε of what --text finds: a .svg or .png.", show_default=False),
    ] = None,
    tokenizer: options.TokenizerOption = None,
    text_column: options.TextColumn = "text",
    skip_bad_rows: options.SkipBadRows = False,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Compare releases with private counts, held-out text or both. For the keeper of the data only.

    --against: KL(p ‖ θ) of the longest n-grams, lower is better.

    --text: as language models: perplexity, words that were the first suggestion or one of three, and keystrokes saved;
    of all texts, of each, and by how frequent words are. With --against also a model of the counts.

    --plot: models of one name, or whose names differ by their ε alone, are one line.

    --tokenizer is needed only for ARPA files and for models cut by a tokenizer.json.

    Example: bayesgram evaluate out-0.2 out-1 public.arpa --text posts=a.parquet --text reviews=b.txt --plot over-e.svg
    """
    from bayesgram.audit.utility import DISCLOSURE
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.released.release import CARD, Release

    if against is None and not text:
        raise UsageError("nothing to judge by: give --against with private counts, --text with held-out text, or both.")
    names = held_out.names(releases)
    if plot is not None:
        _check_plot(plot, text, [*names], force=force)
    loaded = {path: Release.load(path) for path in names if not text or (Path(path) / CARD).is_file()}
    vocabulary = Vocabulary.load(vocab) if vocab else None
    counts = None if against is None else _counts(against, loaded, vocabulary)
    found: dict[str, Any] = {"warning": DISCLOSURE}
    if counts is not None:
        found["releases"] = _divergences(loaded, counts, vocabulary)
    judge = None
    if text:
        judge = held_out.Judge(held_out.read(text, text_column=text_column, skip_bad_rows=skip_bad_rows))
        judge.take(_baselines(loaded, counts, vocabulary))
        judge.open(names, None if tokenizer is None else options.tokenizer(tokenizer, keep_case=None))
        found |= judge.to_json()
    if json:
        console.print_json(found)
    else:
        _show(found.get("releases"), judge)
    if judge and plot is not None:
        held_out.draw(judge.judged, plot, same_words=judge.same_words, force=force)
    if not json:
        console.say(f"These numbers are {DISCLOSURE}.", urgent=True)


def _show(rows: list[dict[str, Any]] | None, judge: held_out.Judge | None) -> None:
    if rows is not None:
        print_rows("KL(p ‖ θ) against private counts", rows)
    if judge:
        held_out.show(judge.judged, same_words=judge.same_words)


def _check_plot(plot: Path, text: list[str] | None, models: list[str], *, force: bool) -> None:
    if not text:
        raise UsageError("--plot shows how models do on text; give --text too, or leave --plot out.")
    held_out.check_picture(plot, force=force, inputs=[*models, *(sources.split(one, "text")[1] for one in text)])


def _counts(
    path: Path, releases: "dict[str, Release]", vocabulary: "Vocabulary | None"
) -> "PrivateCounts | SegmentedCounts":
    """The private counts of the one vocabulary that everything has."""
    from bayesgram.private.stored import open_by_segment

    sizes = {len(release.ngrams) for release in releases.values()}
    if not sizes and vocabulary:
        sizes = {len(vocabulary)}
    if not sizes:
        raise UsageError("--against needs a release folder or --vocab, to know what was counted.")
    if len(sizes) > 1:
        raise UsageError(
            "the releases have vocabularies of different sizes; evaluate those of one vocabulary together."
        )
    with console.step("Reading counts"):
        return open_by_segment(path, vocabulary_size=sizes.pop())


def _divergences(
    releases: "dict[str, Release]", counts: "PrivateCounts | SegmentedCounts", vocabulary: "Vocabulary | None"
) -> list[dict[str, Any]]:
    """KL of public text alone and of every release; of the longest n-grams, where there are several orders.

    A release of a segment is judged by what was written there; public text by everybody's.
    """
    from bayesgram.audit.utility import comparison_row, kl_divergence, totals_for
    from bayesgram.public.prior import public_distribution
    from bayesgram.text.ngrams import ngram_orders

    rows = []
    if vocabulary:
        counts.check_vocabulary(len(vocabulary), vocabulary.fingerprint)
        orders = ngram_orders(vocabulary.ngrams)
        longest = orders == orders.max()
        kl = kl_divergence(totals_for(counts)[longest], public_distribution(vocabulary.counts[longest]))
        rows.append(comparison_row(PUBLIC_ALONE, None, kl))
    for name, release in releases.items():
        counts.check_vocabulary(len(release.ngrams), release.card.vocabulary["fingerprint"])
        longest = release.orders == release.orders.max()
        kl = kl_divergence(totals_for(counts, release)[longest], release.probabilities[longest])
        rows.append(comparison_row(name, release, kl))
    return rows


def _baselines(
    releases: "dict[str, Release]", counts: "PrivateCounts | SegmentedCounts | None", vocabulary: "Vocabulary | None"
) -> "Iterator[tuple[str, LanguageModel]]":
    """Models of public text alone and of the private counts, where these are given."""
    from bayesgram.released.language_model import LanguageModel

    if vocabulary:
        yield (
            PUBLIC_ALONE,
            LanguageModel.from_counts(vocabulary.ngrams, vocabulary.counts + 1.0, vocabulary.tokenizer),
        )
    if counts:
        yield PRIVATE, _private_model(counts, releases, vocabulary)


def _private_model(
    counts: "PrivateCounts | SegmentedCounts", releases: "dict[str, Release]", vocabulary: "Vocabulary | None"
) -> "LanguageModel":
    """A model of the exact counts, each n-gram once more, so that it has the words of the others."""
    from bayesgram.audit.utility import totals_for
    from bayesgram.released.language_model import LanguageModel
    from bayesgram.text.tokens import Tokenizer

    if vocabulary:
        return LanguageModel.from_counts(vocabulary.ngrams, totals_for(counts) + 1.0, vocabulary.tokenizer)
    release = next(iter(releases.values()))
    tokenizer = Tokenizer.from_name(release.card.vocabulary["tokenizer"])
    return LanguageModel.from_counts(release.ngrams, totals_for(counts) + 1.0, tokenizer)


def _label(row: dict[str, Any]) -> str:
    """The label, its grade where it protects little, and the unit where that is less than a user's whole text."""
    label = row["guarantee"] if row["grade"] is None else f"{row['guarantee']}, {row['grade']}"
    return f"{label} for {row['unit']}" if row.get("unit") else label


def print_rows(title: str, rows: list[dict[str, Any]], *, mechanism: bool = True) -> None:
    """The comparison as a table; KL is infinite where a release rules out what people wrote."""
    cells = [
        (
            row["release"],
            *([row["mechanism"]] if mechanism else []),
            console.number(row["epsilon"]),
            console.number(row["delta"]),
            _label(row),
            "∞" if row["kl"] is None else f"{row['kl']:.4f}",
        )
        for row in rows
    ]
    columns = ("release", *(["mechanism"] if mechanism else []), "ε", "δ", "guarantee", "KL")
    console.print_table(title, columns, cells, right=("ε", "δ", "KL"))
