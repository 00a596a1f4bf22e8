"""The command line: parse, call, print. One module a command, imported when it is called."""

import atexit
import gc

# What is imported stays to the end: to look through it for garbage would be a tenth of a short run.
gc.set_threshold(1_000_000, 20, 20)
atexit.register(gc.freeze)

from bayesgram.cli.app import main  # noqa: E402 - after the lines above

__all__ = ["main"]
