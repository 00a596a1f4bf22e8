"""The list of commands, and the one place where errors become words and exit codes."""

import os
import signal
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any, NoReturn

import typer

from bayesgram.cli import console
from bayesgram.cli.as_typed import read_plainly
from bayesgram.cli.console import as_options, with_quiet
from bayesgram.cli.groups import with_groups
from bayesgram.errors import BayesgramError
from bayesgram.version import VERSION

# Before NumPy is loaded: our matrices are small, and BLAS threads would only get in each other's way.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Where each command is, in the order in which --help lists them.
COMMANDS = {
    "demo": "demo.demo",
    "generate": "demo.generate",
    "vocab": "vocab_count.vocab",
    "discover": "discover.discover",
    "review": "discover.review",
    "count": "vocab_count.count",
    "plan": "plan.plan",
    "release": "release.release",
    "infer": "infer.infer",
    "tune": "release.tune",
    "sensitivity": "release.sensitivity",
    "compare": "compare.compare",
    "evaluate": "evaluate.evaluate",
    "export": "language_model.export",
    "predict": "language_model.predict",
    "interpolate": "language_model.interpolate",
    "report": "report.report",
    "serve": "serve.serve",
    "reproduce": "paper.reproduce",
    "audit": "audit.audit",
    "clean": "clean.clean",
    "import": "language_model.import_arpa",
    "ledger": "ledger.ledger_app",
}


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bayesgram {VERSION}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Publish n-grams of people's text under user-level differential privacy, with public text as the prior.

    Example: bayesgram demo
    """


@cache
def build_app(*names: str) -> typer.Typer:
    """The command line with these commands; all of them if none is named, which takes a tenth of a second more."""
    app = typer.Typer(
        name="bayesgram",
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name in names or COMMANDS:
        module, _, command = COMMANDS[name].partition(".")
        found = getattr(import_module(f"bayesgram.cli.{module}"), command)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(with_quiet(with_groups(found)))
    return app


def command_line(arguments: list[str]) -> Callable[..., Any]:
    """No more of it than what was typed needs."""
    found = typer.main.get_command(build_app(*(name for name in arguments[:1] if name in COMMANDS)))
    read_plainly(found)
    return found


OUT_OF_MEMORY = "out of memory: use a smaller vocabulary or a larger machine."


def main() -> NoReturn:
    """Run a command; exit with 0 (done), 1 (failed) or 2 (wrong use). No traceback reaches a person."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(
                errors="backslashreplace"
            )  # an ASCII terminal shows \\u03b5 for ε, and nothing fails
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    console.tell_what_is_logged()
    try:
        _run()
    except BayesgramError as error:
        _fail(as_options(str(error)), error.exit_code)
    except MemoryError:
        _fail(OUT_OF_MEMORY, 1)
    except BrokenPipeError:
        os._exit(128 + signal.SIGPIPE)  # whoever reads us has enough
    except OSError as error:
        what = error.filename or "a file, or standard output"
        _fail(
            f"{what}: {os.strerror(error.errno) if error.errno else 'can not be read or written'}.",
            1,
        )
    except Exception as error:
        if os.environ.get("BAYESGRAM_DEBUG"):
            raise
        _fail(_unexpected(error), 1)
    sys.exit(0)


def _unexpected(error: Exception) -> str:
    """What to say of an error that nobody thought of."""
    if isinstance(error, SystemError) and "without setting an exception" in str(error):
        return OUT_OF_MEMORY  # Python's compile(), which templates of pages call, forgets to say so
    return (
        f"unexpected {type(error).__name__} inside bayesgram {VERSION}. Please report it; BAYESGRAM_DEBUG=1 shows"
        " where (that output may quote private data)."
    )


def _run() -> None:
    """The command that was typed. What the parser refuses is an error like others for whoever asked for JSON."""
    command = command_line(sys.argv[1:])
    if console.JSON not in sys.argv[1:]:
        command()
        return
    try:
        code = command(standalone_mode=False)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        _fail(error.format_message(), getattr(error, "exit_code", 2))
    if isinstance(code, int):
        sys.exit(code)


def _stop(number: int, _frame: object) -> NoReturn:
    """Remove what is unfinished and leave at once: an exception raised inside a compiled kernel would crash it."""
    written: list[object] = []
    try:
        if "bayesgram.io.atomic" in sys.modules:  # else nothing was begun; importing it takes 0.3 s
            written = sys.modules["bayesgram.io.atomic"].written_paths
            sys.modules["bayesgram.io.atomic"].discard_own_folders()
    finally:
        show_cursor = "\x1b[?25h" if sys.stderr.isatty() else ""
        outcome = (
            "no output was written."
            if not written
            else f"{', '.join(map(str, written))} was written before."
        )
        stopped = f"stopped by {signal.Signals(number).name}; {console.told_at_once() or outcome}"
        os.write(2, f"{show_cursor}\nerror: {stopped}\n".encode())
        os.write(1, console.json_of_error(stopped, 128 + number).encode())
        os._exit(128 + number)


def _fail(message: str, code: int) -> NoReturn:
    """Say what went wrong; and, if budget is spent by now, what for: that is a run that failed, however it did."""
    spent = console.told()
    told, code = f"{message} {spent[:1].upper()}{spent[1:]}".rstrip(), 1 if spent else code
    console.say(f"error: {told}")
    sys.stdout.write(console.json_of_error(told, code))
    sys.exit(code)
