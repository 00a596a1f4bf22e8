"""The list of commands, and the one place where errors become messages and exit codes."""

import errno
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
from bayesgram.cli.options import TYPER_SETTINGS, as_command, unwrap_help
from bayesgram.errors import BayesgramError
from bayesgram.system import STOP_SIGNALS
from bayesgram.version import DOCS_ADDRESS, VERSION

# Before NumPy is loaded: our matrices are small, so BLAS threads would only compete for the cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# The module and function of each command, in the groups and the order in which --help lists them.
COMMAND_GROUPS = {
    "Everyday": {
        "demo": "demo.demo",
        "generate": "demo.generate",
        "vocab": "vocab_count.vocab",
        "count": "vocab_count.count",
        "release": "release.release",
        "discover": "discover.discover",
        "review": "discover.review",
        "split": "split.split",
        "compare": "compare.compare",
        "evaluate": "evaluate.evaluate",
        "report": "report.report",
        "serve": "serve.serve",
        "clean": "clean.clean",
        "docs": "docs.docs",
    },
    "Language model": {
        "export": "language_model.export",
        "predict": "language_model.predict",
        "interpolate": "language_model.interpolate",
        "import": "language_model.import_arpa",
    },
    "Planning and budget": {
        "plan": "plan.plan",
        "ledger": "ledger.ledger_app",
        "series": "series.series_app",
    },
    "Research": {
        "infer": "release.infer",
        "audit": "audit.audit",
        "paper": "paper.paper_app",
    },
}
COMMANDS = {name: path for group in COMMAND_GROUPS.values() for name, path in group.items()}

MEMORY_COMMANDS = ("vocab", "count", "discover")  # those with --memory

BROKEN_PIPE_CODE = 128 + 13  # as a shell reports SIGPIPE, which Windows lacks

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
    """Publish n-gram statistics and language models of people's text, with a privacy guarantee.

    The guarantee is user-level differential privacy: whether any one person's text is in the data
    changes the results very little. Bayesgram starts from public text and corrects it by what your
    users write.

    A first run: `bayesgram demo`. Your own data: `bayesgram vocab`, then `count` and `release`.

    Example: bayesgram demo
    """


@cache
def build_app(*names: str) -> typer.Typer:
    """Return the command line with these commands; with all of them if none is named.

    All of them take a tenth of a second more.
    """
    epilog = f"Documentation: bayesgram docs, or {DOCS_ADDRESS}/index.html"
    app = typer.Typer(name="bayesgram", epilog=epilog, **TYPER_SETTINGS)
    app.callback()(unwrap_help(_root))
    for group, commands in COMMAND_GROUPS.items():
        for name in commands:
            if names and name not in names:
                continue
            module_name, _, attribute = COMMANDS[name].partition(".")
            command = getattr(import_module(f"bayesgram.cli.{module_name}"), attribute)
            if isinstance(command, typer.Typer):
                app.add_typer(command, name=name, rich_help_panel=group)
            else:
                app.command(name, rich_help_panel=group)(as_command(command))
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
            stream.reconfigure(errors=console.ESCAPES)  # so that nothing fails
    for number in STOP_SIGNALS:
        signal.signal(number, _exit_on_signal)
    console.print_log_messages()
    try:
        _run()
    except BayesgramError as error:
        _fail(error.render(console.format_argument), error.exit_code)
    except MemoryError:  # Arrow's ArrowMemoryError is one
        _fail(_out_of_memory_message(), 1)
    except BrokenPipeError:
        os._exit(BROKEN_PIPE_CODE)  # whoever reads the output has closed it
    except OSError as error:
        _fail(_system_message(error), 1)
    except Exception as error:
        if os.environ.get("BAYESGRAM_DEBUG"):
            raise
        _fail(_unexpected_message(error), 1)
    sys.exit(0)


def _run() -> None:
    """Run the command in `sys.argv`."""
    words = sys.argv[1:]
    command = command_line(words)
    if console.JSON_OPTION not in words and not any(":" in word for word in words):
        command()
        return
    # What the parser refuses is one JSON document, too, and shows no URI with a password; else
    # Typer prints it and exits.
    try:
        exit_code = command(standalone_mode=False)
    except typer.TyperException as error:
        _fail(error.format_message(), error.exit_code)
    if isinstance(exit_code, int):
        sys.exit(exit_code)


def _system_message(error: OSError) -> str:
    """Return the message for an error of the system."""
    if error.errno == errno.ENOMEM:
        return _out_of_memory_message()
    place = error.filename or "a file, or standard output"
    reason = os.strerror(error.errno) if error.errno else "can not be read or written"
    return f"{place}: {reason}."


def _out_of_memory_message() -> str:
    """Return what to do where the command takes more memory than there is."""
    if sys.argv[1:2] and sys.argv[1] in MEMORY_COMMANDS:
        advice = "Give the command less with --memory (such as --memory 200MB), or use"
    else:
        advice = "Use"
    return (
        f"out of memory. {advice} a smaller vocabulary (`bayesgram vocab --size`) or a machine with"
        " more memory."
    )


def _unexpected_message(error: Exception) -> str:
    """Return the message for an error that no command expects."""
    # Python's compile(), which the templates of pages call, reports so that there is no memory.
    if isinstance(error, SystemError) and "without setting an exception" in str(error):
        return _out_of_memory_message()
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
    message = _without_secrets(message.rstrip())
    console.print_note(f"error: {message}")
    sys.stdout.write(console.format_json_error(message, exit_code))
    sys.exit(exit_code)


def _without_secrets(message: str) -> str:
    """Return a message in which no URI that was typed shows its password.

    Errors about databases are free of them. Others quote what stands where a path belongs.
    """
    words = sys.argv[1:]
    if not any(":" in word for word in words):
        return message
    from bayesgram.io.uris import redact_message

    return redact_message(message, words)


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
