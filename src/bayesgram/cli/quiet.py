"""--quiet, which every command has."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from bayesgram.cli import console

Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no notes; warnings and errors are still said.")]


def with_quiet(command: Callable[..., None]) -> Callable[..., None]:
    """The command with one option more, the last."""

    @wraps(command)
    def call(*args: Any, quiet: bool = False, **kwargs: Any) -> None:  # noqa: ANN401 - those of the command
        console.set_quiet(quiet)
        command(*args, **kwargs)

    signature = inspect.signature(command)
    option = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Quiet)
    call.__signature__ = signature.replace(parameters=[*signature.parameters.values(), option])  # type: ignore[attr-defined]
    call.__annotations__ = {**command.__annotations__, "quiet": Quiet}
    return call
