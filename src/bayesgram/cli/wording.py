"""What the library says of its arguments, said of options.

In:  a message of the library, where an argument is `name=value`, or `name` in backticks.   Out: the same with options.
Does not touch other words, nor paths: `data/size=10/a.parquet` stays.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import typer

OTHERS = {"path": "--output", "lowercase": "--keep-case"}  # what options call otherwise


def as_options(message: str) -> str:
    """A message for the command line.

    >>> as_options("max_new=0: leave `ledger` out, or say force=True; see data/size=10/a.parquet.")
    '--max-new 0: leave --ledger out, or say --force; see data/size=10/a.parquet.'
    """
    return _pattern().sub(_option, message)


def _option(found: re.Match[str]) -> str:
    if found["quoted"]:
        return _options()[found["quoted"]]
    return f"{_options()[found['name']]}{'' if found['true'] else ' '}"


@cache
def _pattern() -> re.Pattern[str]:
    names = "|".join(sorted(_options(), key=len, reverse=True))
    return re.compile(rf"`(?P<quoted>{names})`|(?<![\w/.=-])(?P<name>{names})=(?P<true>True\b)?")


@cache
def _options() -> dict[str, str]:
    """The long form of every option that some command has, by its name in Python."""
    from bayesgram.cli.app import build_app

    parameters = _parameters(typer.main.get_command(build_app()))
    found = {parameter.name.rstrip("_"): parameter.opts[0] for parameter in parameters}
    return {**found, **OTHERS}


def _parameters(command: Any) -> Iterator[Any]:  # noqa: ANN401 - of Click
    """The options of a command, or of those in a group."""
    yield from (parameter for parameter in command.params if parameter.param_type_name == "option")
    for inner in getattr(command, "commands", {}).values():
        yield from _parameters(inner)
