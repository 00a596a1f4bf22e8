"""The list of commands, and the one place where errors become words and exit codes."""

import os
import sys
from typing import Annotated, NoReturn

import typer

from bayesgram.cli import console, demo, evaluate, release, text
from bayesgram.errors import BayesgramError
from bayesgram.version import VERSION

app = typer.Typer(
    name="bayesgram",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bayesgram {VERSION}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Publish n-grams of people's text under user-level differential privacy, with public text as the prior.

    Example: bayesgram demo
    """


for command in (
    demo.demo,
    demo.generate,
    text.vocab,
    text.count,
    release.release,
    release.tune,
    release.sensitivity,
    evaluate.evaluate,
):
    app.command()(command)


def main() -> NoReturn:
    """Run a command; exit with 0 (done), 1 (failed) or 2 (wrong use). No traceback reaches a person."""
    try:
        app()
    except BayesgramError as error:
        _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        _fail("interrupted; nothing was written.", 130)
    except MemoryError:
        _fail("out of memory: use a smaller vocabulary or a larger machine.", 1)
    except OSError as error:
        _fail(f"{error.filename or 'a file'}: {error.strerror or 'can not be read or written'}.", 1)
    except Exception as error:
        if os.environ.get("BAYESGRAM_DEBUG"):
            raise
        _fail(
            f"unexpected {type(error).__name__} inside bayesgram {VERSION}. Please report it; BAYESGRAM_DEBUG=1 shows"
            " where (that output may quote private data).",
            1,
        )
    sys.exit(0)


def _fail(message: str, code: int) -> NoReturn:
    console.say(f"error: {message}")
    sys.exit(code)
