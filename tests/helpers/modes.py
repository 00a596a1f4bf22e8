"""Permissions of files, where the system has them."""

import os
import stat


def has_mode(path, mode):
    """Return whether a file or folder has this mode; true without POSIX, which has none."""
    return not hasattr(os, "geteuid") or stat.S_IMODE(path.stat().st_mode) == mode
