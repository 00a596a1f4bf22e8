"""Which releases a path stands for: the folder of one, or a folder that has folders of releases in it.

In:  a path.   Out: the paths of release folders, and names for them. Opens none of them.
"""

from collections.abc import Sequence
from pathlib import Path, PurePath

from bayesgram.errors import UsageError
from bayesgram.released.release import CARD, DISTRIBUTION


def release_folders(path: str | Path) -> list[Path]:
    """The path itself, or of a folder that is no release those that lie in it, by name."""
    folder = Path(path)
    if (folder / CARD).exists() or not folder.is_dir():
        return [folder]
    found = sorted(each for each in folder.iterdir() if all((each / name).is_file() for name in (CARD, DISTRIBUTION)))
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
        size = next((n for n in range(1, len(own)) if all(other[-n:] != own[-n:] for other in others)), len(own))
        names[path] = str(PurePath(*own[-size:]))
    return names
