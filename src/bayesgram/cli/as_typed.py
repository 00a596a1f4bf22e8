"""Values that need no reading: paths, texts, and what was not given.

Typer has Pydantic read each value, which takes 0.06 s to load: for most runs of a short command that is in vain.
In:  a command of Typer's.   Out: the same command, which asks Pydantic for the other values only.
"""

from pathlib import Path
from typing import Any

import typer

PLAIN = (str, Path)
SIMPLE = (str, int, float, bool)


def read_plainly(command: Any) -> None:  # noqa: ANN401 - of Click
    """Have the values of a command, or of those in a group, read so; a Typer without Pydantic does anyway."""
    for parameter in command.get_params(typer.Context(command)):  # --help among them
        if hasattr(parameter, "get_runtime_param"):
            parameter._runtime_param = _Reader()  # noqa: SLF001 - Typer has no other door
    for inner in getattr(command, "commands", {}).values():
        read_plainly(inner)


class _Reader:
    """What stands where Typer keeps the reader of an option, until its own is needed."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ANN401 - of Click
        kind, several = param.type_descriptor.annotation, param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        if kind in SIMPLE and type(value) is kind:
            return value
        if kind in PLAIN and isinstance(value, str):
            return kind(value)
        if kind == list[Path] and several and not isinstance(value, str):
            return [Path(each) for each in value]
        param._runtime_param = None  # noqa: SLF001
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)
