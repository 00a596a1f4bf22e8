"""bayesgram report: releases on one page, for people who decide about them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesgram.cli import console, named_inputs, options
from bayesgram.errors import UsageError

if TYPE_CHECKING:
    from bayesgram.arrays import Floats
    from bayesgram.public.discovered_ngrams import Discovery
    from bayesgram.releases.release import Release
    from bayesgram.reports.report import PrivatePart
    from bayesgram.reports.views import DiscoveryView

    NamedReleases = list[tuple[str, Release]]


def report(
    releases: Annotated[
        list[str],
        typer.Argument(
            metavar="RELEASE...",
            help="Folders of releases or discoveries, or folders of releases; NAME=PATH gives one a"
            " name.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The page, such as report.html.", show_default=False),
    ],
    vocab: Annotated[
        list[Path] | None,
        typer.Option(
            help="Their vocabulary: shows what private text changed; repeated where they have"
            " several.",
            show_default=False,
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            help="Private counts: adds KL against ε, stamped as not for publication.",
            show_default=False,
        ),
    ] = None,
    audit: Annotated[
        list[Path] | None,
        typer.Option(
            help="An audit folder to add, stamped likewise; may be repeated.", show_default=False
        ),
    ] = None,
    changes: Annotated[
        bool,
        typer.Option(
            "--changes", help="Adds what changed from release to release: see bayesgram compare."
        ),
    ] = False,
    population: Annotated[
        str | None,
        typer.Option(
            help="Whose text it is, in your words, for the head of the page.", show_default=False
        ),
    ] = None,
    period: Annotated[
        str | None,
        typer.Option(help="From when it is, likewise, such as 'May 2026'.", show_default=False),
    ] = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Write one page about releases that opens offline.

    It says who is protected, what ε means, what changed, and how sure it is.

    It begins with a verdict in one line, the date, and what you say of the data: --population and
    --period.

    Numbers computed from private data are shown only with --against or --audit; the file is then
    for its owner alone.

    Example: bayesgram report out --vocab vocab.parquet -o report.html
    """
    from bayesgram.comparison.comparison import compare
    from bayesgram.io.atomic import check_writable, write_file_atomically
    from bayesgram.public.discovered_ngrams import Discovery, is_discovery
    from bayesgram.releases.provenance import weakest_label
    from bayesgram.releases.release import Release
    from bayesgram.reports.explanation import CuratorStatements
    from bayesgram.reports.report import render_report
    from bayesgram.reports.views import ReleaseView

    audits = audit or []
    names = named_inputs.release_names(releases, name_segments=True)
    compared_with = [*(vocab or []), *([] if against is None else [against])]
    check_writable(output, force=force, inputs=[*names, *audits, *compared_with])
    discoveries: list[tuple[str, Discovery]] = []
    loaded: NamedReleases = []
    for path, name in names.items():
        if is_discovery(Path(path)):
            discoveries.append((name, Discovery.load(path)))
        else:
            loaded.append((name, Release.load(path)))
    if compared_with and not loaded:
        raise UsageError(
            "--vocab and --against compare releases, and there is none; leave them out."
        )
    priors = _priors(loaded, vocab or [])
    private_part = _private_part(loaded, next(iter(priors), None), against, audits)
    release_views = [
        ReleaseView(name, release, prior)
        for (name, release), prior in zip(loaded, priors, strict=True)
    ]
    discovery_views = [_discovery_view(name, discovery) for name, discovery in discoveries]
    comparison = None
    if changes:
        comparison = compare(
            *(release for _, release in loaded), names=[name for name, _ in loaded]
        )
    document = render_report(
        release_views,
        private_part,
        discovery_views,
        comparison,
        curator=CuratorStatements(population, period),
    )
    with write_file_atomically(output, force=force) as file:
        file.touch(mode=0o600 if private_part else 0o666)
        file.write_text(document, encoding="utf-8")
    labels = [discovery.card.guarantee for _, discovery in discoveries]
    labels += [release.card.guarantee for _, release in loaded]
    report: dict[str, Any] = {"output": str(output), "releases": len(loaded)}
    if discoveries:
        report["discoveries"] = len(discoveries)
    report["label"] = weakest_label(labels[0], labels[1:]).name
    nothing_private = None if json else "no"
    report["private"] = private_part.warning if private_part else nothing_private
    if json:
        report["quality"] = {name: release.card.quality_sentences for name, release in loaded}
    console.print_report(report, json=json)
    if not json:
        _print_quality(loaded)


def _print_quality(releases: "NamedReleases") -> None:
    """Print the summary of each release, under its name where there are several."""
    from bayesgram.charts import printable
    from bayesgram.releases.quality import summary_sentences

    for name, release in releases:
        summary = " ".join(summary_sentences(release.card.details))
        if summary:
            console.write_wrapped(
                summary if len(releases) == 1 else f"{printable(name)}: {summary}"
            )


def _priors(releases: "NamedReleases", vocab: list[Path]) -> "list[Floats | None]":
    """Return public text's distribution for each release, where its vocabulary was given."""
    from bayesgram.releases.release import is_made_with

    vocabularies = named_inputs.load_vocabularies_of(vocab, releases) if releases else []
    return [
        next(
            (vocabulary.prior for vocabulary in vocabularies if is_made_with(release, vocabulary)),
            None,
        )
        for _, release in releases
    ]


def _discovery_view(name: str, discovery: "Discovery") -> "DiscoveryView":
    """Return a discovery as the page shows it."""
    from bayesgram.reports.views import DiscoveryView

    return DiscoveryView(
        name,
        discovery.card,
        discovery.ngrams.to_pylist(),
        discovery.orders,
        discovery.weights,
        level=discovery.threshold,
        deviation=discovery.noise_std,
    )


def _private_part(
    releases: "NamedReleases", prior: "Floats | None", against: Path | None, audits: list[Path]
) -> "PrivatePart | None":
    """Return the numbers computed from private data that were asked for; None if none were.

    Args:
        releases: The releases, by name.
        prior: Public text's distribution.
        against: Private counts to judge the releases by.
        audits: Folders of audits.
    """
    if against is None and not audits:
        return None
    from bayesgram.audit.evaluation import DISCLOSURE, kl_by_order
    from bayesgram.audit.runner import load_attacks
    from bayesgram.private.counts_on_disk import open_any_counts
    from bayesgram.reports.report import PrivatePart

    scores = []
    if against is not None:
        fingerprints = {release.card.vocabulary["fingerprint"] for _, release in releases}
        if len(fingerprints) > 1:
            raise UsageError(
                "--against: the releases have different vocabularies; report those of one together."
            )
        vocabulary_size = len(releases[0][1].ngrams)
        with console.step("Reading counts"):
            counts = open_any_counts(against, vocabulary_size=vocabulary_size)
        counts.check_vocabulary(vocabulary_size, fingerprints.pop())
        scores = kl_by_order(counts, releases, prior)
    return PrivatePart(DISCLOSURE, scores, [load_attacks(path) for path in audits])
