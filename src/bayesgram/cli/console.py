"""How commands write: results on standard output, everything else on standard error.

`--json` prints one JSON document instead of text, and `--quiet` leaves progress and notes out.
Rich draws tables and progress bars. It is imported when there is one to draw, because a command
that only writes lines is done by then.
"""

import codecs
import json
import logging
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesgram.errors import Argument

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from bayesgram.io import RecordReader
    from bayesgram.releases.provenance import Ingredient

JSON_OPTION = "--json"
FIELD_WIDTH = 12  # columns for the name of a field, as in the text of a card
ALWAYS_SHOWN = ("warning: ", "error: ")  # how a note begins that --quiet does not leave out


class _State:
    """What this process was asked for, and what it has printed."""

    is_quiet = False
    has_printed_json = False


def set_quiet(quiet: bool) -> None:
    """Leave progress and notes out from here on, or don't."""
    _State.is_quiet = quiet


@cache
def _rich_console(*, on_stderr: bool = False) -> "Console":
    from rich.console import Console

    # Text is shown as it is: ":bug:" and "[red]" may be n-grams, or part of a path.
    return Console(highlight=False, markup=False, emoji=False, stderr=on_stderr)


# --- What the encoding of a terminal lacks ---

ESCAPES = "bayesgram.escapes"  # the name of `_escape` as an error handler
# Bars of two kinds, and the dots of spinners.
_SHAPES = {ord("█"): "#", ord("░"): "-", **dict.fromkeys(range(0x2800, 0x2900), "*")}


def _escape(error: UnicodeError) -> tuple[str, int]:
    """Replace what can't be written: shapes by others, and all else by its number in Unicode."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_SHAPES)
    return text.encode("ascii", "backslashreplace").decode("ascii"), error.end


codecs.register_error(ESCAPES, _escape)


# --- Results, on standard output ---


def write(text: str) -> None:
    """Write a line on standard output, as it is and at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def write_wrapped(text: str) -> None:
    """Write a sentence on standard output, in lines that fit the terminal."""
    write(_wrap(text))


def write_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Write names and values on standard output, one below the other, as a card has them.

    A value that does not fit the terminal goes on below its own beginning.
    """
    for name, value in fields:
        write(_wrap(f"{name + ':':<{FIELD_WIDTH}}{value}", indent=FIELD_WIDTH))


def _wrap(text: str, indent: int = 0) -> str:
    """Break a line between words where the terminal ends.

    A line that goes to a file or another program stays whole, so that it can be searched.
    """
    width = shutil.get_terminal_size(fallback=(0, 0)).columns
    if width <= 2 * indent:
        return text
    return textwrap.fill(
        text,
        width,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()
) -> None:
    """Print a table on standard output.

    Args:
        title: Stands above the table.
        columns: The names of the columns.
        rows: The cells of each row.
        right: The names of the columns that are aligned to the right.
    """
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    _rich_console().print(table)


def print_markdown(text: str) -> None:
    """Print Markdown on standard output as a terminal shows it."""
    from rich.markdown import Markdown

    _rich_console().print(Markdown(text, hyperlinks=False))  # links name pages, not addresses


def print_report(values: Mapping[str, Any], *, json: bool) -> None:
    """Print what a command did: as one JSON document, or as a line for each value."""
    if json:
        print_json(values)
        return
    width = max(map(len, values)) + 2
    for name, value in values.items():
        if isinstance(value, dict):
            counts = [f"{count} ({reason})" for reason, count in value.items()]
            value = ", ".join(counts) or "none"  # noqa: PLW2901 - as text
        write(f"{name.replace('_', ' ') + ':':<{width}}{value}")


def print_summary(
    sentences: Iterable[str], report: Mapping[str, Any], *, json: bool, verbose: bool
) -> None:
    """Print what a command did: as sentences, with --verbose and all values; or as JSON.

    Args:
        sentences: For a person who sees this for the first time.
        report: All values by name, for machines and experts.
        json: Whether to print the report as one JSON document instead.
        verbose: Whether to print the report below the sentences.
    """
    if json:
        print_json(report)
        return
    for sentence in sentences:
        write_wrapped(sentence)
    if verbose:
        print_report(report, json=False)


def skipped_sentences(bad_rows: Mapping[str, int], format_count: Callable[[int], str]) -> list[str]:
    """Say how many rows were skipped, and why; nothing if none was.

    Args:
        bad_rows: How many rows, by the reason.
        format_count: Writes a number; `format_private` if it is private.
    """
    counts = [f"{format_count(count)} ({reason})" for reason, count in bad_rows.items()]
    return [f"Skipped rows that can't be read: {join_words(counts)}."] if counts else []


def join_words(words: Sequence[str]) -> str:
    """Return words as a list in a sentence.

    >>> join_words(["a"]), join_words(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else "nothing"


def format_bytes(size: int) -> str:
    """Return a size on disk in words.

    >>> format_bytes(999), format_bytes(266_626), format_bytes(12_345_678)
    ('1 KB', '267 KB', '12.3 MB')
    """
    if size < 1_000_000:
        return f"{max(1, round(size / 1000)):,} KB"
    return f"{size / 1e6:,.1f} MB" if size < 1e9 else f"{size / 1e9:,.1f} GB"


def print_json(value: object) -> None:
    """Print one JSON document on standard output, for machines."""
    _State.has_printed_json = True
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


def format_json_error(message: str, exit_code: int) -> str:
    """Return the JSON document that stands for the result of a command that failed.

    Empty if no JSON is asked for, or if the result is printed already.
    """
    if _State.has_printed_json or JSON_OPTION not in sys.argv[1:]:
        return ""
    document = {"error": message, "exit_code": exit_code}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


# --- Notes, warnings and errors, on standard error ---


def print_note(text: str, *, urgent: bool = False) -> None:
    """Print a line for a person on standard error; with --quiet only warnings and errors.

    Args:
        text: The line. It is a warning or an error if it begins with that word.
        urgent: Print it with --quiet as well, whatever it begins with.
    """
    if urgent or not _State.is_quiet or text.startswith(ALWAYS_SHOWN):
        _rich_console(on_stderr=True).print(text)


def warn_unless_proved(output: Path, ingredients: "Iterable[Ingredient]") -> None:
    """Warn that a file is not for publication, if it was made from something that is not PROVED.

    ARPA files, tables and lists have no place for a label, so it is said where they are made.
    """
    from bayesgram.releases.provenance import unproved_sentence

    sentence = unproved_sentence(ingredients)
    if sentence is not None:
        print_note(f"warning: {output} is not for publication: {sentence}.")


class _LogPrinter(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.args, tuple):
            record.args = tuple(
                format_argument(value) if isinstance(value, Argument) else value
                for value in record.args
            )
        print_note(record.getMessage(), urgent=record.levelno >= logging.WARNING)


def print_log_messages() -> None:
    """Print what the library logs on standard error (above the progress bar, if there is one).

    What other libraries log is not printed: drivers of databases name connections.
    """
    logging.getLogger().addHandler(logging.NullHandler())  # else Python prints warnings by itself
    logger = logging.getLogger("bayesgram")
    logger.setLevel(logging.INFO)
    logger.addHandler(_LogPrinter())


# --- Arguments of the library, as options ---

# Arguments of the library whose options have other names.
_RENAMED_OPTIONS = {"path": "--output", "lowercase": "--keep-case"}


def format_argument(argument: Argument) -> str:
    """Return an argument that a message of the library mentions, as the option that stands for it.

    >>> format_argument(Argument("max_new", "0")), format_argument(Argument("force", "True"))
    ('--max-new 0', '--force')
    """
    option = _option_names().get(argument.name)
    if option is None:
        return str(argument)
    return option if argument.value in (None, "True") else f"{option} {argument.value}"


@cache
def _option_names() -> dict[str, str]:
    """Return the long form of every option that some command has, by its name in Python."""
    import typer

    from bayesgram.cli.app import build_app

    options = _long_options(typer.main.get_command(build_app()))
    return {
        **{option.removeprefix("--").replace("-", "_"): option for option in options},
        **_RENAMED_OPTIONS,
    }


def _long_options(command: Any) -> Iterator[str]:  # noqa: ANN401 - a command of Click, or a group
    for parameter in command.params:
        if parameter.param_type_name == "option":
            yield parameter.opts[0]
    for subcommand in getattr(command, "commands", {}).values():
        yield from _long_options(subcommand)


# --- Progress, on standard error ---

StepBar = Callable[[str], AbstractContextManager[None]]


@contextmanager
def step(label: str) -> Iterator[None]:
    """Show a spinner with a clock during work whose length isn't known."""
    with _progress_bar("spinner", "label", "clock") as bar:
        task = bar.add_task(label, total=1)
        yield
        bar.update(task, completed=1)


@contextmanager
def steps(total: int) -> Iterator[StepBar]:
    """Show one bar over several steps, and what is being done; yields what begins a step."""
    with _progress_bar("spinner", "bar", "steps", "clock", "label") as bar:
        task = bar.add_task("", total=total)

        @contextmanager
        def begin_step(label: str) -> Iterator[None]:
            bar.update(task, description=label)
            yield
            bar.advance(task)

        yield begin_step
        bar.update(task, description="Done")


@contextmanager
def progress(label: str) -> Iterator[Callable[[float], None]]:
    """Show a bar, and yield a function that moves it to a share of its length.

    Until it is moved, its length isn't known.
    """
    with _progress_bar("spinner", "label", "bar", "clock") as bar:
        task = bar.add_task(label, total=None)
        yield lambda share: bar.update(task, total=1.0, completed=share)
        bar.update(task, total=1.0, completed=1.0)


class ReadingBar:
    """A bar that moves with the bytes read, and says what is done with them afterwards."""

    def __init__(self, bar: "Progress", label: str, then: str) -> None:
        self._bar = bar
        self._label = label
        self._then = then
        self._task = bar.add_task(label, total=None)
        self._bytes_left = 0
        self._bytes_total = 0  # of all inputs, as often as they are read
        self._has_total = True

    def records(self, inputs: list[str], *, times: int = 1, **arguments: Any) -> "RecordReader":  # noqa: ANN401 - of read_records
        """Return a reader of rows that moves the bar; several readers move it together.

        Args:
            inputs: Paths, folders, patterns, or URIs of databases.
            times: How often all of it is going to be read.
            **arguments: Those of `read_records`.
        """
        from bayesgram.io import read_records
        from bayesgram.io.uris import to_input

        sources = [*map(to_input, inputs)]
        reader = read_records(sources, on_progress=self._advance, **arguments)
        self._bytes_left += times * reader.size
        self._bytes_total += times * reader.size
        self._has_total = self._has_total and reader.has_known_size
        self._bar.update(self._task, total=self._bytes_total if self._has_total else None)
        return reader

    def _advance(self, count: int) -> None:
        self._bytes_left -= count
        if self._bytes_left <= 0 and self._has_total:
            self._bar.update(self._task, description=self._then)
            # Without a total, the bar is not at its end: the clock runs on.
            self._bar.tasks[0].total = None
        self._bar.advance(self._task, count)

    def finish(self) -> None:
        """Fill the bar, and show its first label again."""
        total = self._bytes_total if self._has_total else self._bar.tasks[0].completed
        self._bar.update(self._task, description=self._label, total=total, completed=total)


@contextmanager
def reading(label: str, *, then: str) -> Iterator[ReadingBar]:
    """Show how much of the input is read, and then what is done with it."""
    with _progress_bar("spinner", "label", "bar", "bytes", "clock") as bar:
        reading_bar = ReadingBar(bar, label, then)
        yield reading_bar
        reading_bar.finish()


def _progress_bar(*columns: str) -> "Progress":
    from rich import progress

    column_types: dict[str, Callable[[], progress.ProgressColumn]] = {
        "spinner": progress.SpinnerColumn,
        "label": partial(progress.TextColumn, "{task.description}", markup=False),
        "bar": progress.BarColumn,
        "bytes": progress.DownloadColumn,
        "steps": progress.MofNCompleteColumn,
        "clock": progress.TimeElapsedColumn,
    }
    return progress.Progress(
        *(column_types[column]() for column in columns),
        console=_rich_console(on_stderr=True),
        disable=_State.is_quiet,
    )


# --- Numbers as text ---

ROUNDING = "to two digits, and what is below 100 to 100"


def round_private(number: int) -> int:
    """Round to two significant digits, from 100 on: exact private numbers are not printed.

    >>> round_private(978966), round_private(123), round_private(57)
    (980000, 120, 100)
    """
    unit = int(10 ** max(len(str(number)) - 2, 0))
    return max(round(number / unit) * unit, 100)


def format_private(number: int) -> str:
    """Write a rounded private number in words.

    >>> format_private(978966), format_private(123), format_private(57)
    ('about 980,000', 'about 120', 'fewer than 100')
    """
    return "fewer than 100" if number < 100 else f"about {round_private(number):,}"


def format_number(value: float | None) -> str:
    """Return a number for a table cell.

    >>> format_number(1e-07), format_number(0.5), format_number(None)
    ('1e-07', '0.5', '–')
    """
    return "–" if value is None else f"{value:g}"
