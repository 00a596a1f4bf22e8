"""Which releases a path stands for: the folder of one, or a folder that has folders of releases in it.

In:  a path.   Out: the paths of release folders, and names for them. Opens none of them.

Releases by country or language: one for all people and one for each segment, which agree.

On disk: a folder with `all` and a folder for each segment, every one a release folder as any other; published
together or not at all. All of them have one budget: publishing them costs no more than one of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from bayesgram.errors import UsageError
from bayesgram.io.atomic import write_folder_atomically
from bayesgram.io.segments import ALL, Segments
from bayesgram.releases.release import CARD_FILE, CONTENTS, DISTRIBUTION_FILE, Release


def find_release_folders(path: str | Path) -> list[Path]:
    """The path itself, or of a folder that is no release those that lie in it, by name."""
    folder = Path(path)
    if (folder / CARD_FILE).exists() or not folder.is_dir():
        return [folder]
    found = sorted(
        each
        for each in folder.iterdir()
        if all((each / name).is_file() for name in (CARD_FILE, DISTRIBUTION_FILE))
    )
    if not found:
        raise UsageError(
            f"{path}: neither a release folder (no card.json) nor a folder with releases in it; make one with"
            " `bayesgram release`."
        )
    return found


def short_names(paths: Sequence[str]) -> dict[str, str]:
    """Paths by their last parts, as few as tell them apart.

    >>> short_names(["lab/out-1", "lab/out-8", "old/out-8"])
    {'lab/out-1': 'out-1', 'lab/out-8': 'lab/out-8', 'old/out-8': 'old/out-8'}
    """
    parts = {path: PurePath(path).parts or (path,) for path in paths}
    names = {}
    for path, own in parts.items():
        others = [other for each, other in parts.items() if each != path]
        size = next(
            (n for n in range(1, len(own)) if all(other[-n:] != own[-n:] for other in others)),
            len(own),
        )
        names[path] = str(PurePath(*own[-size:]))
    return names


def read_segments(path: str | Path) -> Segments:
    """Which segments a folder of releases has, as the card of all people says."""
    if not (Path(path) / ALL / CARD_FILE).is_file():
        raise UsageError(
            f"{path}: no release by segment (no {ALL}/{CARD_FILE}); make one with `bayesgram release`."
        )
    told = Release.load(Path(path) / ALL).card.segment
    if told is None:
        raise UsageError(
            f"{Path(path) / ALL}: a release that is not by segment; Release.load() opens it."
        )
    return Segments(told["by"], tuple(told["names"]), told["other"])


def load_segment(path: str | Path, segments: Segments, name: str) -> Release:
    """One release of a folder, whose card must say that it is the one of this list and name."""
    found = Release.load(Path(path) / name)
    if found.card.segment != {**segments.to_json(), "name": name}:
        raise UsageError(
            f"{Path(path) / name}: its card is of another segment, or of another list; get the folder anew from where"
            " it was published."
        )
    return found


def folder_contents(segments: Segments) -> list[str]:
    """What the folder holds."""
    return [f"{name}/{file}" for name in (ALL, *segments.all_names) for file in CONTENTS]


@dataclass(frozen=True, eq=False)
class SegmentedRelease(Mapping[str, Release]):
    """A release by the name of its segment, `all` first."""

    releases: dict[str, Release]
    segments: Segments

    @classmethod
    def from_releases(cls, made: Sequence[Release], segments: Segments) -> "SegmentedRelease":
        """Of all people and then of each segment, each with a card that says so."""
        names = (ALL, *segments.all_names)
        told = {name: {**segments.to_json(), "name": name} for name in names}
        answers = made[0].card.measured_hash
        return cls(
            {
                name: one.with_card_values(segment=told[name], answers=answers)
                for name, one in zip(names, made, strict=True)
            },
            segments,
        )

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
        """The same with these values on every card."""
        return SegmentedRelease(
            {name: one.with_card_values(**values) for name, one in self.items()}, self.segments
        )

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write all folders, whole or not at all."""
        with write_folder_atomically(
            path, contents=folder_contents(self.segments), force=force
        ) as folder:
            for name, one in self.items():
                (folder / name).mkdir()
                one.write(folder / name)

    @classmethod
    def load(cls, path: str | Path) -> "SegmentedRelease":
        """Read all folders."""
        segments = read_segments(path)
        loaded = {name: load_segment(path, segments, name) for name in (ALL, *segments.all_names)}
        for name, one in loaded.items():
            if one.card.answers != loaded[ALL].card.answers:
                raise UsageError(
                    f"{Path(path) / name}: its card is of another release than that of all people; get the folder anew"
                    " from where it was published."
                )
        return cls(loaded, segments)
