"""Which releases a path stands for: the folder of one, or a folder that has folders of releases in it.

In:  a path.   Out: the paths of release folders. Opens none of them.
"""

from pathlib import Path

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
