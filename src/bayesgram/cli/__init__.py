"""The command line: parse options, call the library, print.

There is one module for each command or family of commands, imported when it is called. Shared:
`app` (the list of commands, errors and exit codes), `console` (output and progress), `options` and
`mechanism_options` (shared options), `named_inputs` (NAME=PATH), `engines` (--engine), `plots`
(--plot) and `budget_notice` (what a failed command says about spent budget).
"""

import atexit
import gc
import sys

# Imported modules stay to the end; searching them for garbage takes a tenth of a short run's time.
gc.set_threshold(1_000_000, 20, 20)


def _skip_last_collection() -> None:
    # DuckDB looks for objects that were not collected, and prints them.
    if "duckdb" not in sys.modules:
        gc.freeze()


atexit.register(_skip_last_collection)

from bayesgram.cli.app import main  # noqa: E402 - after the lines above

__all__ = ["main"]
