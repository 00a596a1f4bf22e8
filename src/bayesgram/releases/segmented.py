"""Releases by segment, such as country or language: one for all people and one for each segment.

On disk: a folder with `all` and a folder for each segment, each a release folder like any other;
written together or not at all. All of them share one budget: publishing them costs no more than
publishing one of them. `find_release_folders` says which releases a path stands for.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from bayesgram.errors import UsageError
from bayesgram.io.atomic import write_folder_atomically
from bayesgram.io.segments import ALL, Segments, format_names
from bayesgram.notebook import html
from bayesgram.releases import CARD_FILE, DISTRIBUTION_FILE
from bayesgram.releases.release import CONTENTS, Release


def find_release_folders(path: str | Path) -> list[Path]:
    """Return the path itself if it is a release, else the release folders in it, by name."""
    folder = Path(path)
    if (folder / CARD_FILE).exists() or not folder.is_dir():
        return [folder]
    releases = sorted(
        entry
        for entry in folder.iterdir()
        if all((entry / name).is_file() for name in (CARD_FILE, DISTRIBUTION_FILE))
    )
    if not releases:
        raise UsageError(
            f"{path}: neither a release folder (no card.json) nor a folder with releases in it;"
            " make one with `bayesgram release`."
        )
    return releases


def is_segment_folder(path: str | Path) -> bool:
    """Return whether a folder is that of a segment, beside the release of all people."""
    folder = Path(path).resolve()
    return (folder / CARD_FILE).is_file() and (folder.parent / ALL / CARD_FILE).is_file()


def is_all_people(segment: Mapping[str, Any]) -> bool:
    """Return whether the segment on a card is the release of all people."""
    return bool(segment["name"] == ALL)


def short_names(paths: Sequence[str], *, with_parent: Sequence[str] = ()) -> dict[str, str]:
    """Return names for paths: their last parts, as few as tell them apart.

    Args:
        paths: The paths.
        with_parent: Those of them whose names also have the folder that they are in.

    >>> short_names(["lab/out-1", "lab/out-8", "old/out-8"])
    {'lab/out-1': 'out-1', 'lab/out-8': 'lab/out-8', 'old/out-8': 'old/out-8'}
    >>> short_names(["lab/out-1", "lab/by-country/de"], with_parent=["lab/by-country/de"])
    {'lab/out-1': 'out-1', 'lab/by-country/de': 'by-country/de'}
    """
    parts = {path: PurePath(path).parts or (path,) for path in paths}
    names = {}
    for path, path_parts in parts.items():
        others = [other for other_path, other in parts.items() if other_path != path]
        size = next(
            (
                n
                for n in range(1 + (path in with_parent), len(path_parts))
                if all(other[-n:] != path_parts[-n:] for other in others)
            ),
            len(path_parts),
        )
        names[path] = str(PurePath(*path_parts[-size:]))
    return names


def read_segments(path: str | Path) -> Segments:
    """Return the segments of a folder of releases, from the card of all people."""
    if not (Path(path) / ALL / CARD_FILE).is_file():
        raise UsageError(
            f"{path}: no release by segment (no {ALL}/{CARD_FILE}); make one with"
            " `bayesgram release`."
        )
    segment = Release.load(Path(path) / ALL).card.segment
    if segment is None:
        raise UsageError(
            f"{Path(path) / ALL}: a release that is not by segment; Release.load() opens it."
        )
    return Segments(segment["by"], tuple(segment["names"]), segment["other"])


def load_segment(path: str | Path, segments: Segments, name: str) -> Release:
    """Return one release of a folder; its card must name this segment of this list."""
    release = Release.load(Path(path) / name)
    if release.card.segment != {**segments.to_json(), "name": name}:
        raise UsageError(
            f"{Path(path) / name}: its card is of another segment, or of another list; get the"
            " folder anew from where it was published."
        )
    return release


def folder_contents(segments: Segments) -> list[str]:
    """Return the files of a folder of releases by segment."""
    return [f"{name}/{file}" for name in (ALL, *segments.all_names) for file in CONTENTS]


@dataclass(frozen=True, eq=False, repr=False)
class SegmentedRelease(Mapping[str, Release]):
    """Releases by the name of their segment, `all` first.

    Attributes:
        releases: The releases.
        segments: The segments.

    Example:
        >>> import bayesgram as bg
        >>> import pyarrow as pa
        >>> vocabulary = bg.Vocabulary.from_public(pa.table({"text": ["a b"]}), order=1)
        >>> texts = pa.table({"user": ["ann", "bob"], "text": ["a", "b"], "country": ["fr", "de"]})
        >>> counts = bg.count(texts, vocabulary, by="country", segments=["de", "fr"])
        >>> list(bg.release(counts, vocabulary, epsilon=1, seed=1))
        ['all', 'de', 'fr']
    """

    releases: dict[str, Release]
    segments: Segments

    @classmethod
    def from_releases(cls, releases: Sequence[Release], segments: Segments) -> "SegmentedRelease":
        """Put together the release of all people and those of the segments, in their order."""
        names = (ALL, *segments.all_names)
        answers = releases[0].card.measured_hash
        return cls(
            {
                name: release.with_card_values(
                    segment={**segments.to_json(), "name": name}, answers=answers
                )
                for name, release in zip(names, releases, strict=True)
            },
            segments,
        )

    def __repr__(self) -> str:
        names = format_names(list(self.releases))
        return f"SegmentedRelease(by {self.segments.by!r}: {names}; {self.all.card.claim})"

    def _repr_html_(self) -> str:
        """Show the card of all people and the first n-grams of each segment in a notebook."""
        rows = [
            (name, ", ".join(estimate.ngram for estimate in release.top(3)))
            for name, release in self.items()
        ]
        columns = ("segment", "most frequent")
        return html(repr(self), self.all.card.summary_lines, columns, rows)

    @property
    def all(self) -> Release:
        """The release of all people."""
        return self.releases[ALL]

    def __getitem__(self, name: str) -> Release:
        if name not in self.releases:
            raise KeyError(f"{name!r} is none of {', '.join(self.releases)}")
        return self.releases[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.releases)

    def __len__(self) -> int:
        return len(self.releases)

    def with_card_values(self, **values: Any) -> "SegmentedRelease":  # noqa: ANN401 - of a Card
        """Return the same releases with these values on every card."""
        return SegmentedRelease(
            {name: release.with_card_values(**values) for name, release in self.items()},
            self.segments,
        )

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write all folders, completely or not at all."""
        with write_folder_atomically(
            path, contents=folder_contents(self.segments), force=force
        ) as folder:
            for name, release in self.items():
                (folder / name).mkdir()
                release.write(folder / name)

    @classmethod
    def load(cls, path: str | Path) -> "SegmentedRelease":
        """Read a folder of releases by segment.

        Raises:
            UsageError: If there is none, or its releases do not belong together.
        """
        segments = read_segments(path)
        releases = {name: load_segment(path, segments, name) for name in (ALL, *segments.all_names)}
        for name, release in releases.items():
            if release.card.answers != releases[ALL].card.answers:
                raise UsageError(
                    f"{Path(path) / name}: its card is of another release than that of all people;"
                    " get the folder anew from where it was published."
                )
        return cls(releases, segments)
