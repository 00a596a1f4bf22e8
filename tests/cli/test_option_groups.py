"""Numbers as people type them, and options in dataclasses."""

import inspect
from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from bayesgram.cli.options import as_command


@dataclass(frozen=True)
class MechanismOptions:
    size: Annotated[int, typer.Option(help="How many.")] = 3
    name: Annotated[str | None, typer.Option("--called", help="What it is called.")] = None


@dataclass(frozen=True)
class Files:
    path: Annotated[str, typer.Argument()]


USUAL = MechanismOptions()


def command(files: Files, knobs: MechanismOptions = USUAL, loud: bool = False) -> None:
    typer.echo(f"{files.path} {knobs.size} {knobs.name} {loud}")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("a", "a 3 None False"),
        ("a --size 4 --called b --loud", "a 4 b True"),
        ("--loud a --called c", "a 3 c True"),
    ],
)
def test_fields_are_options(typed, said):
    app = typer.Typer()
    app.command()(as_command(command))
    done = CliRunner().invoke(app, typed.split())
    assert (done.exit_code, done.output) == (0, f"{said}\n")


def test_they_stand_where_the_dataclass_stood():
    assert list(inspect.signature(as_command(command)).parameters) == [
        "path",
        "size",
        "name",
        "loud",
        "quiet",
    ]
