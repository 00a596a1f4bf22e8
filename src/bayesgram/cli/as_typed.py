"""Values that Typer need not read: paths, texts, numbers, and what was not given.

Typer has Pydantic read each value, which takes 0.06 s to load: for most runs of a short command that is in vain. Of a
number that is none it says neither what was typed nor how to write it.
In:  a command of Typer's.   Out: the same command, which asks Pydantic for the other values only.
"""

from pathlib import Path
from typing import Any

import typer

from bayesgram.cli.options import READERS, NotANumberError

PLAIN = (str, Path)
LISTS: dict[Any, Any] = {list[str]: str, list[Path]: Path}
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
        if kind in READERS and isinstance(value, str):
            return _number(value, param, ctx)
        if kind in SIMPLE and type(value) is kind:
            return value
        if kind in PLAIN and isinstance(value, str):
            return kind(value)
        if kind in LISTS and several and not isinstance(value, str):
            return [LISTS[kind](each) for each in value]
        param._runtime_param = None  # noqa: SLF001
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def _number(text: str, param: Any, ctx: Any) -> float:  # noqa: ANN401 - of Click
    """What was typed, in the range that the option has."""
    read, info = READERS[param.type_descriptor.annotation], param.type_descriptor.parameter_info
    low, high = info.min, info.max
    try:
        number = read(text)
    except NotANumberError as error:
        raise typer.BadParameter(
            f"{error}{_plural(text, param, ctx)}", ctx=ctx, param=param
        ) from None
    if (low is not None and not low <= number) or (high is not None and not number <= high):
        bounds = (
            f"{'' if low is None else f' from {low:,}'}{'' if high is None else f' up to {high:,}'}"
        )
        raise typer.BadParameter(
            f"{text} is out of range; give a number{bounds}.", ctx=ctx, param=param
        )
    return number


def _plural(text: str, param: Any, ctx: Any) -> str:  # noqa: ANN401 - of Click
    """Where an option takes several values, and another one of them was used."""
    option = f"{param.opts[0]}s"
    there = any(option in other.opts for other in ctx.command.params)
    return f" Several are {option} {text}." if "," in text and there else ""
