"""The command as a person typed it, for the card: what was given, quoted so that a shell reads it back the same.

Does not add what was not typed: no defaults, no working directory, no absolute paths.
"""

import shlex
from collections.abc import Iterator
from typing import Any

import typer

TYPED = "COMMANDLINE"  # as Click names where a value came from


def typed_command(context: typer.Context) -> str:
    """For example: bayesgram release counts --vocab vocab.parquet --epsilon 0.2 --output out."""
    words = ["bayesgram", context.info_name or "", *_words(context)]
    return shlex.join(words)


def _words(context: typer.Context) -> Iterator[str]:
    """Arguments as they are, options by their long name; both in the order of the help."""
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is None or source.name != TYPED:
            continue
        value = context.params[name]
        if parameter.param_type_name == "argument":
            yield from map(_shown, value if isinstance(value, list | tuple) else [value])
        elif isinstance(value, bool):
            yield parameter.opts[0] if value else (parameter.secondary_opts or parameter.opts)[0]
        else:
            yield from (parameter.opts[0], _shown(value))


def _shown(value: Any) -> str:  # noqa: ANN401 - paths, numbers and choices
    return (
        f"{value:g}"
        if isinstance(value, float) and float(f"{value:g}") == value
        else str(getattr(value, "value", value))
    )
