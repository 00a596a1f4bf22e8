"""Write the report and the registry entry of releases: what `bayesgram report` does, from Python.

In:  releases and discoveries, in memory or as folders, with their vocabularies.
Out: a page that opens offline, and an entry for the registry of deployments.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bayesgram.arguments import check_arguments
from bayesgram.arrays import Floats
from bayesgram.comparison.comparison import compare
from bayesgram.errors import Argument, UsageError
from bayesgram.io.atomic import check_writable, write_file_atomically
from bayesgram.public.discovered_ngrams import Discovery, is_discovery
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.card import Card
from bayesgram.releases.release import Release, is_made_with
from bayesgram.releases.segmented import SegmentedRelease, find_release_folders
from bayesgram.reports.explanation import CuratorStatements
from bayesgram.reports.registry import RegistryFacts, make_entry, to_yaml
from bayesgram.reports.report import PrivatePart, render_report
from bayesgram.reports.views import DiscoveryView, ReleaseView
from bayesgram.version import page_pointer

NamedItems = Sequence[tuple[str, Release | Discovery]]


@check_arguments
def report(
    releases: Any,  # noqa: ANN401 - one or several, in memory or as folders
    output: str | Path | None = None,
    *,
    vocabulary: Vocabulary | Sequence[Vocabulary] = (),
    changes: bool = False,
    population: str | None = None,
    period: str | None = None,
    registry: str | Path | None = None,
    registry_facts: "Mapping[str, Any] | str | Path | None" = None,
    force: bool = False,
) -> None:
    """Write one page about releases, for people who decide about them; it opens offline.

    Args:
        releases: A release, a release by segment, a discovery, or the folder of one; or several as
            a list, or by name: {"May": release, "June": "out-june"}.
        output: The page, such as "report.html".
        vocabulary: Their vocabulary, or several: shows what private text changed.
        changes: Whether to add what changed from release to release.
        population: Whose text it is, in your words, for the head of the page.
        period: From when it is, likewise.
        registry: Where to write an entry for the Differential Privacy Deployments Registry.
        registry_facts: What only you can say in that entry: by name, or a TOML file.
        force: Whether files that exist are replaced.

    Raises:
        UsageError: If nothing is to be written, or the facts of the entry are missing or wrong.
        BayesgramError: If an entry is asked for and a release has no proved guarantee.
    """
    if output is None and registry is None:
        raise UsageError("nothing to write: name the page with output, or give registry.")
    facts = read_facts(registry, registry_facts)
    items = _load_items(releases)
    if registry is not None and facts is not None:
        check_writable(registry, force=force, parameter=Argument("registry"))
    if output is not None:
        vocabularies = [vocabulary] if isinstance(vocabulary, Vocabulary) else list(vocabulary)
        write_page(
            items,
            output,
            [
                find_prior(item, vocabularies) if isinstance(item, Release) else None
                for _, item in items
            ],
            changes=changes,
            curator=CuratorStatements(population, period),
            force=force,
        )
    if registry is not None and facts is not None:
        write_entry([(name, item.card) for name, item in items], facts, registry, force=force)


def read_facts(
    registry: str | Path | None, facts: Mapping[str, Any] | str | Path | None
) -> RegistryFacts | None:
    """Return what the curator states for the registry; None if no entry is asked for.

    Args:
        registry: Where the entry goes.
        facts: The facts by name, or a TOML file.
    """
    if registry is None:
        if facts is not None:
            raise UsageError(
                Argument("registry_facts"), ": is for ", Argument("registry"), "; give both."
            )
        return None
    if facts is None:
        raise UsageError(
            Argument("registry"),
            ": the entry has facts that only you know, such as the name of the data product and who"
            " publishes it. Give them with ",
            Argument("registry_facts"),
            f" ({page_pointer('files')} has an example).",
        )
    if isinstance(facts, Mapping):
        return RegistryFacts.from_values(facts)
    return RegistryFacts.load(facts)


def write_entry(
    cards: Sequence[tuple[str, Card]],
    facts: RegistryFacts,
    path: str | Path,
    *,
    force: bool = False,
) -> None:
    """Write an entry of the registry of deployments.

    Args:
        cards: The names and cards of releases and discoveries.
        facts: What the curator states.
        path: The file.
        force: Whether a file that exists is replaced.
    """
    text = to_yaml(make_entry(cards, facts))
    with write_file_atomically(path, force=force, parameter=Argument("registry")) as file:
        file.write_text(text, encoding="utf-8", newline="\n")


def write_page(
    items: NamedItems,
    output: str | Path,
    priors: Sequence[Floats | None],
    *,
    private: PrivatePart | None = None,
    changes: bool = False,
    curator: CuratorStatements,
    force: bool = False,
) -> None:
    """Write the page.

    Args:
        items: Releases and discoveries by name.
        output: The file.
        priors: Public text's distribution for each item, where it is known.
        private: Numbers that were computed from private data, if somebody asked for them.
        changes: Whether to compare the releases.
        curator: What the keeper of the data says of it.
        force: Whether a file that exists is replaced.
    """
    releases = [(name, item) for name, item in items if isinstance(item, Release)]
    comparison = None
    if changes:
        names = [name for name, _ in releases]
        comparison = compare(*(release for _, release in releases), names=names)
    document = render_report(
        [
            ReleaseView(name, item, prior)
            for (name, item), prior in zip(items, priors, strict=True)
            if isinstance(item, Release)
        ],
        private,
        [view_discovery(name, item) for name, item in items if isinstance(item, Discovery)],
        comparison,
        curator=curator,
    )
    with write_file_atomically(output, force=force) as file:
        file.touch(mode=0o600 if private else 0o666)
        file.write_text(document, encoding="utf-8", newline="\n")


def find_prior(release: Release, vocabularies: Iterable[Vocabulary]) -> Floats | None:
    """Return public text's distribution for a release, where its vocabulary is among these."""
    return next(
        (vocabulary.prior for vocabulary in vocabularies if is_made_with(release, vocabulary)),
        None,
    )


def view_discovery(name: str, discovery: Discovery) -> DiscoveryView:
    """Return a discovery as the page shows it."""
    return DiscoveryView(
        name,
        discovery.card,
        discovery.ngrams.to_pylist(),
        discovery.orders,
        discovery.weights,
        level=discovery.threshold,
        deviation=discovery.noise_std,
    )


def _load_items(releases: object) -> list[tuple[str, Release | Discovery]]:
    """Return releases and discoveries with their names."""
    if isinstance(releases, Mapping) and not isinstance(releases, SegmentedRelease):
        named = [(str(name), value) for name, value in releases.items()]
    else:
        values = list(releases) if isinstance(releases, list | tuple) else [releases]
        named = [("", value) for value in values]
    items: list[tuple[str, Release | Discovery]] = []
    for name, value in named:
        items += _expand(name, value, len(items) + 1)
    if not items:
        raise UsageError("releases: give at least one release or discovery.")
    names = [name for name, _ in items]
    if len(set(names)) < len(names):
        raise UsageError("releases: two have the same name; give them by name: {'May': release}.")
    return items


def _expand(name: str, value: object, number: int) -> list[tuple[str, Release | Discovery]]:
    """Return what one argument stands for: itself, its segments, or the releases in a folder."""
    if isinstance(value, SegmentedRelease):
        prefix = f"{name}/" if name else ""
        return [(f"{prefix}{segment}", release) for segment, release in value.items()]
    if isinstance(value, Release | Discovery):
        return [(name or f"release {number}", value)]
    if not isinstance(value, str | Path):
        raise UsageError(
            f"releases: {type(value).__name__} is no release; give a release, a discovery, or the"
            " path of one."
        )
    if is_discovery(Path(value)):
        return [(name or Path(value).name, Discovery.load(value))]
    folders = find_release_folders(value)
    if len(folders) == 1:
        return [(name or folders[0].name, Release.load(folders[0]))]
    prefix = name or Path(value).name
    return [(f"{prefix}/{folder.name}", Release.load(folder)) for folder in folders]
