"""The number that every file of ours carries, so that an old program refuses a new file instead of misreading it.

Does not convert anything: a loader that reads several formats does (docs/versioning.md has the table).
"""

from pathlib import Path

from bayesgram.errors import UsageError


def check_format(path: str | Path, kind: str, found: object, newest: int) -> int:
    """The number that a file says, if this version knows it. A newer one is refused; what is no number is damaged.

    >>> check_format("counts", "a counts folder", 1, newest=1)
    1
    """
    if type(found) is not int or found < 1:  # True is none
        raise ValueError(f"format={found!r}: a format is a whole number from 1")
    if found > newest:
        raise UsageError(f"{path}: is {kind} of format {found}; this bayesgram reads {newest}. Use a newer one.")
    return found
