"""The command line: parse, call, print. One module a command, imported when it is called."""

import gc

gc.set_threshold(100_000, 20, 20)  # what is imported stays: looking through it for garbage is a tenth of a start

from bayesgram.cli.app import main  # noqa: E402 - after the line above

__all__ = ["main"]
