"""The list of commands, and the one place where errors become messages and exit codes."""

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
from bayesgram.cli.budget_notice import BudgetNotice
from bayesgram.cli.options import as_command
from bayesgram.errors import BayesgramError
from bayesgram.version import VERSION

# Before NumPy is loaded: our matrices are small, so BLAS threads would only compete for the cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# The module and function of each command, in the order in which --help lists them.
COMMANDS = {
    "demo": "demo.demo",
    "generate": "demo.generate",
    "vocab": "vocab_count.vocab",
    "discover": "discover.discover",
    "review": "discover.review",
    "split": "split.split",
    "count": "vocab_count.count",
    "plan": "plan.plan",
    "release": "release.release",
    "infer": "release.infer",
    "tune": "paper.tune",
    "sensitivity": "paper.sensitivity",
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

OUT_OF_MEMORY = "out of memory: use a smaller vocabulary or a larger machine."

# --- Commands ---


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"bayesgram {VERSION}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Publish n-grams of people's text under user-level differential privacy.

    Public text is the prior.

    Example: bayesgram demo
    """


@cache
def build_app(*names: str) -> typer.Typer:
    """Return the command line with these commands; with all of them if none is named.

    All of them take a tenth of a second more.
    """
    app = typer.Typer(
        name="bayesgram",
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name in names or COMMANDS:
        module_name, _, attribute = COMMANDS[name].partition(".")
        command = getattr(import_module(f"bayesgram.cli.{module_name}"), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(as_command(command))
    return app


def command_line(arguments: list[str]) -> Callable[..., Any]:
    """Return the command line that can run these arguments: only the command that they name."""
    names = [name for name in arguments[:1] if name in COMMANDS]
    return typer.main.get_command(build_app(*names))


# --- Running one of them ---


def main() -> NoReturn:
    """Run a command, and exit with 0 (done), 1 (failed) or 2 (wrong use); without traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # An ASCII terminal shows \u03b5 for ε, and nothing fails.
            stream.reconfigure(errors="backslashreplace")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _exit_on_signal)
    console.print_log_messages()
    try:
        _run()
    except BayesgramError as error:
        _fail(error.render(console.format_argument), error.exit_code)
    except MemoryError:
        _fail(OUT_OF_MEMORY, 1)
    except BrokenPipeError:
        os._exit(128 + signal.SIGPIPE)  # whoever reads the output has closed it
    except OSError as error:
        place = error.filename or "a file, or standard output"
        reason = os.strerror(error.errno) if error.errno else "can not be read or written"
        _fail(f"{place}: {reason}.", 1)
    except Exception as error:
        if os.environ.get("BAYESGRAM_DEBUG"):
            raise
        _fail(_unexpected_message(error), 1)
    sys.exit(0)


def _run() -> None:
    """Run the command in `sys.argv`."""
    command = command_line(sys.argv[1:])
    if console.JSON_OPTION not in sys.argv[1:]:
        command()
        return
    # What the parser refuses is one JSON document, too; else Typer prints it and exits.
    try:
        exit_code = command(standalone_mode=False)
    except typer.TyperException as error:
        _fail(error.format_message(), error.exit_code)
    if isinstance(exit_code, int):
        sys.exit(exit_code)


def _unexpected_message(error: Exception) -> str:
    """Return the message for an error that no command expects."""
    # Python's compile(), which the templates of pages call, reports so that there is no memory.
    if isinstance(error, SystemError) and "without setting an exception" in str(error):
        return OUT_OF_MEMORY
    return (
        f"unexpected {type(error).__name__} inside bayesgram {VERSION}. Please report it;"
        " BAYESGRAM_DEBUG=1 shows where (that output may quote private data)."
    )


def _fail(message: str, exit_code: int) -> NoReturn:
    """Print an error and exit; with 1, and a sentence about it, if budget is spent by now."""
    notice = BudgetNotice.current
    spent = notice.sentence if notice else ""
    if spent:
        message = f"{message} {spent[0].upper()}{spent[1:]}"
        exit_code = 1
    message = message.rstrip()
    console.print_note(f"error: {message}")
    sys.stdout.write(console.format_json_error(message, exit_code))
    sys.exit(exit_code)


def _exit_on_signal(number: int, _frame: object) -> NoReturn:
    """Remove unfinished output and exit at once.

    An exception would not do: raised inside a compiled kernel, it would crash the process.
    """
    written: list[object] = []
    try:
        # If it is not imported, nothing was begun; and the import takes 0.3 s.
        if "bayesgram.io.atomic" in sys.modules:
            written = sys.modules["bayesgram.io.atomic"].written_paths
            sys.modules["bayesgram.io.atomic"].discard_own_folders()
    finally:
        if BudgetNotice.current:
            outcome = BudgetNotice.current.sentence_if_stopped
        elif written:
            outcome = f"{', '.join(map(str, written))} was written before."
        else:
            outcome = "no output was written."
        message = f"stopped by {signal.Signals(number).name}; {outcome}"
        show_cursor = "\x1b[?25h" if sys.stderr.isatty() else ""
        os.write(2, f"{show_cursor}\nerror: {message}\n".encode())
        os.write(1, console.format_json_error(message, 128 + number).encode())
        os._exit(128 + number)
