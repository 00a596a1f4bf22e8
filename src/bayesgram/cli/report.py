"""bayesgram report: releases on one page, for people who decide about them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayesgram.cli import console, options
from bayesgram.cli.named_inputs import belonging
from bayesgram.errors import UsageError

if TYPE_CHECKING:
    from bayesgram.arrays import Floats
    from bayesgram.comparison.comparison import Comparison
    from bayesgram.public.discovered_ngrams import Discovery
    from bayesgram.releases.release import Release
    from bayesgram.reports.report import PrivatePart
    from bayesgram.reports.views import DiscoveryView

    Named = list[tuple[str, Release]]


def report(
    releases: Annotated[
        list[str],
        typer.Argument(
            metavar="RELEASE...",
            help="Folders of releases or discoveries, or folders of releases; NAME=PATH gives one a name.",
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
            help="Their vocabulary: shows what private text changed; repeated where they have several.",
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
    """Write one page about releases that opens offline: who is protected, what ε means, what changed, how sure it is.

    It begins with a verdict in one line, the date, and what you say of the data: --population and --period.

    Numbers computed from private data are shown only with --against or --audit; the file is then for its owner alone.

    Example: bayesgram report out --vocab vocab.parquet -o report.html
    """
    from bayesgram.cli import named_inputs
    from bayesgram.io.atomic import check_writable, write_file_atomically
    from bayesgram.public.discovered_ngrams import Discovery, is_discovery
    from bayesgram.releases.provenance import weakest_label
    from bayesgram.releases.release import Release
    from bayesgram.reports.explanation import CuratorStatements
    from bayesgram.reports.report import render_report
    from bayesgram.reports.views import ReleaseView

    audits = audit or []
    names = named_inputs.names(releases)
    given = [*(vocab or []), *([] if against is None else [against])]
    check_writable(output, force=force, inputs=[*names, *audits, *given])
    found = [
        (name, Discovery.load(path)) for path, name in names.items() if is_discovery(Path(path))
    ]
    loaded = [
        (name, Release.load(path)) for path, name in names.items() if not is_discovery(Path(path))
    ]
    if given and not loaded:
        raise UsageError(
            "--vocab and --against compare releases, and there is none; leave them out."
        )
    priors = _priors(loaded, vocab or [])
    private = _private(loaded, next(iter(priors), None), against, audits)
    views = [
        ReleaseView(name, release, prior)
        for (name, release), prior in zip(loaded, priors, strict=True)
    ]
    told_of = [_discovery_view(name, discovery) for name, discovery in found]
    told = _changes(loaded) if changes else None
    document = render_report(
        views, private, told_of, told, curator=CuratorStatements(population, period)
    )
    with write_file_atomically(output, force=force) as file:
        file.touch(mode=0o600 if private else 0o666)
        file.write_text(document, encoding="utf-8")
    labels = [
        card.guarantee
        for card in (*(each.card for _, each in found), *(each.card for _, each in loaded))
    ]
    made = {
        "output": str(output),
        "releases": len(loaded),
        **({"discoveries": len(found)} if found else {}),
    }
    made |= {"label": weakest_label(labels[0], labels[1:]).name}
    console.report(
        {**made, "private": private.warning if private else None if json else "no"}, json=json
    )


def _priors(releases: "Named", vocab: list[Path]) -> "list[Floats | None]":
    """Public text's distribution for each release, where its vocabulary was given."""
    from bayesgram.releases.release import fits

    known = belonging(vocab, releases) if releases else []
    return [
        next((each.prior for each in known if fits(release, each)), None) for _, release in releases
    ]


def _changes(releases: "Named") -> "Comparison":
    """What rose and fell over these releases, in the order they were given."""
    from bayesgram.comparison.comparison import compare

    return compare(*(release for _, release in releases), names=[name for name, _ in releases])


def _discovery_view(name: str, found: "Discovery") -> "DiscoveryView":
    """A discovery, as the page tells it."""
    from bayesgram.reports.views import DiscoveryView

    columns = found.ngrams.to_pylist(), found.orders, found.weights
    return DiscoveryView(name, found.card, *columns, level=found.level, deviation=found.deviation)


def _private(
    releases: "Named", public: "Floats | None", against: Path | None, audits: list[Path]
) -> "PrivatePart | None":
    """What was asked for of private numbers; nothing unless it was."""
    if against is None and not audits:
        return None
    from bayesgram.audit import runner
    from bayesgram.audit.evaluation import DISCLOSURE
    from bayesgram.private.counts_on_disk import open_by_segment
    from bayesgram.reports.report import PrivatePart

    found = []
    if against is not None:
        if len({release.card.vocabulary["fingerprint"] for _, release in releases}) > 1:
            raise UsageError(
                "--against: the releases have different vocabularies; report those of one together."
            )
        with console.step("Reading counts"):
            counts = open_by_segment(against, vocabulary_size=len(releases[0][1].ngrams))
        counts.check_vocabulary(
            len(releases[0][1].ngrams), releases[0][1].card.vocabulary["fingerprint"]
        )
        found = runner.scores(counts, releases, public)
    return PrivatePart(DISCLOSURE, found, [runner.load_attacks(path) for path in audits])
