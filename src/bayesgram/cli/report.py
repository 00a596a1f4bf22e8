"""bayesgram report: releases on one page, for people who decide about them."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesgram.cli import console, named_inputs, options
from bayesgram.errors import Argument, UsageError

if TYPE_CHECKING:
    from bayesgram.arrays import Floats
    from bayesgram.releases.release import Release
    from bayesgram.reports.report import PrivatePart

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
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The page, such as report.html. Needed without --registry.",
            show_default=False,
        ),
    ] = None,
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
    registry: Annotated[
        Path | None,
        typer.Option(
            help="Write an entry for the Differential Privacy Deployments Registry here, such as"
            " entry.yaml.",
            show_default=False,
        ),
    ] = None,
    registry_facts: Annotated[
        Path | None,
        typer.Option(
            help="What only you can say in that entry, as TOML (bayesgram docs files).",
            show_default=False,
        ),
    ] = None,
    force: options.Force = False,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Write one page about releases that opens offline.

    It says who is protected, what ε means, what changed, and how sure it is.

    It begins with a verdict in one line, the date, and what you say of the data: --population and
    --period.

    Numbers computed from private data are shown only with --against or --audit; the file is then
    for its owner alone.

    --registry writes an entry for the registry of deployments (github.com/opendp), from the cards
    and from the facts in --registry-facts. It holds nothing that was computed from private data.

    Example: bayesgram report out --vocab vocab.parquet -o report.html
    """
    from bayesgram.public.discovered_ngrams import Discovery, is_discovery
    from bayesgram.releases.card_sections import worst_grade
    from bayesgram.releases.provenance import weakest_label
    from bayesgram.releases.release import Release
    from bayesgram.reports.explanation import CuratorStatements
    from bayesgram.reports.page import read_facts, write_entry, write_page

    audits = audit or []
    names = named_inputs.release_names(releases, name_segments=True)
    compared_with = [*(vocab or []), *([] if against is None else [against])]
    _check_outputs(
        output, registry, force=force, inputs=[*map(Path, names), *audits, *compared_with]
    )
    facts = read_facts(registry, registry_facts)
    items: list[tuple[str, Release | Discovery]] = [
        (name, Discovery.load(path) if is_discovery(Path(path)) else Release.load(path))
        for path, name in names.items()
    ]
    items.sort(key=lambda item: isinstance(item[1], Release))  # discoveries come first
    loaded = [(name, item) for name, item in items if isinstance(item, Release)]
    if compared_with and not loaded:
        raise UsageError(
            "--vocab and --against compare releases, and there is none; leave them out."
        )
    report: dict[str, Any] = {}
    if registry is not None and facts is not None:
        cards = [(name, item.card) for name, item in items]
        write_entry(cards, facts, registry, force=force)
        report["registry"] = str(registry)
    private_part = None
    if output is not None:
        priors = _priors(loaded, vocab or [])
        private_part = _private_part(loaded, next(iter(priors), None), against, audits)
        write_page(
            items,
            output,
            [*[None] * (len(items) - len(loaded)), *priors],
            private=private_part,
            changes=changes,
            curator=CuratorStatements(population, period),
            force=force,
        )
        report = {"output": str(output), **report}
    report["releases"] = len(loaded)
    if len(items) > len(loaded):
        report["discoveries"] = len(items) - len(loaded)
    labels = [item.card.guarantee for _, item in items]
    report["label"] = weakest_label(labels[0], labels[1:]).name
    grade = worst_grade([reason for _, item in items for reason in item.card.weaknesses])
    if grade is not None and not json:
        report["label"] += f", {grade}"
    nothing_private = None if json else "no"
    report["private"] = private_part.warning if private_part else nothing_private
    if json:
        report["quality"] = {name: release.card.quality_sentences for name, release in loaded}
    console.print_summary(_report_sentences(report), report, json=json, verbose=verbose)
    if not json:
        _print_quality(loaded)


def _report_sentences(report: "Mapping[str, Any]") -> list[str]:
    """Say what was written, about what, and who may see it."""
    releases = report["releases"]
    discoveries = report.get("discoveries", 0)
    subjects = []
    if releases:
        subjects.append(f"{releases} release{'' if releases == 1 else 's'}")
    if discoveries:
        subjects.append(f"{discoveries} discover{'y' if discoveries == 1 else 'ies'}")
    sentences = []
    if "output" in report:
        subject = console.join_words(subjects)
        sentences.append(f"Wrote {report['output']}: a page about {subject}. It opens offline.")
    if "registry" in report:
        sentences.append(f"Wrote {report['registry']}: an entry for the registry of deployments.")
    is_one = releases + discoveries == 1
    weakest = "Label" if is_one else "The weakest label of these"
    sentences.append(f"{weakest}: {report['label']}.")
    if "output" in report:
        if report["private"] in (None, "no"):
            sentences.append("The page shows released numbers only.")
        else:
            sentences.append(f"The page shows numbers {report['private']}.")
    return sentences


def _check_outputs(
    output: Path | None, registry: Path | None, *, force: bool, inputs: list[Path]
) -> None:
    """Refuse files that can't be written, before anything is read."""
    from bayesgram.io.atomic import check_writable

    if output is None and registry is None:
        raise UsageError(
            "nothing to write: name the page with --output report.html, or give --registry."
        )
    if output is not None:
        check_writable(output, force=force, inputs=inputs)
    if registry is not None:
        check_writable(registry, force=force, inputs=inputs, parameter=Argument("registry"))
        if output is not None and registry.resolve() == output.resolve():
            raise UsageError(f"--registry {registry}: is the --output too; name two files.")


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
    from bayesgram.reports.page import find_prior

    vocabularies = named_inputs.load_vocabularies_of(vocab, releases) if releases else []
    return [find_prior(release, vocabularies) for _, release in releases]


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
