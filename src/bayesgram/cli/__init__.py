"""The command line: parse, call, print. One module a command, imported when it is called."""

from bayesgram.cli.app import main

__all__ = ["main"]
