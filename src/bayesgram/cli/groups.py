"""Options that several commands share, as one argument: a dataclass, each field of which is an option.

In:  a command with arguments that are dataclasses.   Out: the command as Typer wants it, every option an argument.
Does not look at values: a dataclass may, when it is made.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the fields of its dataclasses in their place, as options of its own."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    if not groups:
        return command

    @wraps(command)
    def call(**given: Any) -> None:  # noqa: ANN401 - those of the command
        made = {
            name: kind(**{field.name: given.pop(field.name) for field in fields(kind)})
            for name, kind in groups.items()
        }
        command(**given, **made)

    parameters = [
        each
        for old in inspect.signature(command).parameters.values()
        for each in _options(old, groups)
    ]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: hints.get(each.name, each.annotation) for each in parameters}
    return call


def _options(parameter: inspect.Parameter, groups: dict[str, Any]) -> Iterator[inspect.Parameter]:
    """The argument itself, or the fields of its dataclass."""
    kind = groups.get(parameter.name)
    if kind is None:
        yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        return
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        yield inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=hints[field.name],
        )
