"""How commands speak: results on standard output, everything else on standard error.

Rich draws tables and bars, and is loaded when there is one: a command that only writes lines is done by then.
"""

import json
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from bayesgram.files import RecordReader
    from bayesgram.released.labels import Ingredient

JSON = "--json"
URGENT = ("warning: ", "error: ")


class _State:
    """What the options of a command ask of everything it says."""

    quiet = False
    has_printed_json = False


def set_quiet(quiet: bool) -> None:
    """Whether progress and notes are left out."""
    _State.quiet = quiet


@cache
def _drawing(*, on_stderr: bool = False) -> "Console":
    """Where tables, or bars and what is said above them, are drawn."""
    from rich.console import Console

    return Console(highlight=False, stderr=on_stderr)


def write(text: str) -> None:
    """A line on standard output, as it is and at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def write_wrapped(text: str) -> None:
    """A sentence on standard output, in lines that fit the terminal."""
    _drawing().print(text, markup=False)


def say(text: str, *, urgent: bool = False) -> None:
    """A line for a person, on standard error; with --quiet only what went wrong, or may."""
    if urgent or not _State.quiet or text.startswith(URGENT):
        _drawing(on_stderr=True).print(text, markup=False)


class _Sayer(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        """Above the bar, if there is one."""
        from bayesgram.cli.wording import as_options

        say(as_options(record.getMessage()), urgent=record.levelno >= logging.WARNING)


def tell_what_is_logged() -> None:
    """What the library has to tell goes to standard error."""
    logger = logging.getLogger("bayesgram")
    logger.setLevel(logging.INFO)
    logger.addHandler(_Sayer())


def print_json(value: object) -> None:
    """One JSON document on standard output, for machines."""
    _State.has_printed_json = True
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


def json_of_error(message: str, code: int) -> str:
    """The document that stands for the result of a command that failed; nothing if the result is printed already."""
    if _State.has_printed_json or JSON not in sys.argv[1:]:
        return ""
    return json.dumps({"error": message, "exit_code": code}, indent=2, ensure_ascii=False) + "\n"


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()
) -> None:
    """A table on standard output."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    _drawing().print(table, markup=False)


class ReadingBar:
    """A bar that moves with the bytes read, and says what is done with them when all are."""

    def __init__(self, progress: "Progress", label: str, then: str) -> None:
        self._progress, self._label, self._then = progress, label, then
        self._task = progress.add_task(label, total=None)
        self._left = self.size = 0  # bytes of all inputs

    def records(self, inputs: list[str], *, times: int = 1, **arguments: Any) -> "RecordReader":  # noqa: ANN401 - of read_records
        """A reader of these inputs, to be read so many times, that moves the bar; of several, all together do."""
        from bayesgram.files import read_records

        paths = [Path(one) for one in inputs]  # typed as such, so that messages may show them
        reader = read_records(paths, on_progress=self._move, **arguments)
        self._left += times * reader.size
        self.size += times * reader.size
        self._progress.update(self._task, total=self.size)
        return reader

    def _move(self, count: int) -> None:
        self._left -= count
        if self._left <= 0:
            self._progress.update(self._task, description=self._then)
            self._progress.tasks[0].total = None  # or the bar would be at its end, and the clock stop
        self._progress.advance(self._task, count)

    def finish(self) -> None:
        """All is done."""
        self._progress.update(self._task, description=self._label, total=self.size, completed=self.size)


@contextmanager
def reading(label: str, *, then: str) -> Iterator[ReadingBar]:
    """Show how much of the input is read, and that something is done then."""
    with _progress("spinner", "label", "bar", "bytes", "clock") as progress:
        bar = ReadingBar(progress, label, then)
        yield bar
        bar.finish()


@contextmanager
def step(label: str) -> Iterator[None]:
    """A spinner with a clock for work whose length isn't known."""
    with _progress("spinner", "label", "clock") as progress:
        task = progress.add_task(label, total=1)
        yield
        progress.update(task, completed=1)


Step = Callable[[str], AbstractContextManager[None]]


@contextmanager
def steps(total: int) -> Iterator[Step]:
    """One bar over so many steps, which says what is being done; each is a `step`."""
    with _progress("spinner", "bar", "steps", "clock", "label") as bar:
        task = bar.add_task("", total=total)

        @contextmanager
        def one(label: str) -> Iterator[None]:
            bar.update(task, description=label)
            yield
            bar.advance(task)

        yield one
        bar.update(task, description="Done")


def _progress(*columns: str) -> "Progress":
    from rich import progress

    kinds: dict[str, Callable[[], progress.ProgressColumn]] = {
        "spinner": progress.SpinnerColumn,
        "label": partial(progress.TextColumn, "{task.description}"),
        "bar": progress.BarColumn,
        "bytes": progress.DownloadColumn,
        "steps": progress.MofNCompleteColumn,
        "clock": progress.TimeElapsedColumn,
    }
    shown = (kinds[column]() for column in columns)
    return progress.Progress(*shown, console=_drawing(on_stderr=True), disable=_State.quiet)


@contextmanager
def progress(label: str) -> Iterator[Callable[[float], None]]:
    """A bar that is moved to a share of its length; until it first is, its length isn't known."""
    with _progress("spinner", "label", "bar", "clock") as bar:
        task = bar.add_task(label, total=None)
        yield lambda share: bar.update(task, total=1.0, completed=share)
        bar.update(task, total=1.0, completed=1.0)


ROUNDING = "to two digits, and what is below 100 to 100"


def rounded(number: int) -> int:
    """Two significant digits, from 100 on: exact private numbers are not printed.

    >>> rounded(978966), rounded(123), rounded(57)
    (980000, 120, 100)
    """
    digits = int(10 ** max(len(str(number)) - 2, 0))
    return max(round(number / digits) * digits, 100)


def about(number: int) -> str:
    """The same in words.

    >>> about(978966), about(123), about(57)
    ('about 980,000', 'about 120', 'fewer than 100')
    """
    return "fewer than 100" if number < 100 else f"about {rounded(number):,}"


def number(value: float | None) -> str:
    """A number for a table cell.

    >>> number(1e-07), number(0.5), number(None)
    ('1e-07', '0.5', '–')
    """
    return "–" if value is None else f"{value:g}"


def report(values: dict[str, Any], *, json: bool) -> None:
    """What a command did: one JSON document, or a line each."""
    if json:
        print_json(values)
        return
    width = max(map(len, values)) + 2
    for name, value in values.items():
        shown = (
            ", ".join(f"{count} ({reason})" for reason, count in value.items()) or "none"
            if isinstance(value, dict)
            else value
        )
        write(f"{name.replace('_', ' ') + ':':<{width}}{shown}")


class _NoPandas:
    """Whoever imports pandas is told that there is none."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> None:
        """Nothing about any other module: those after us know."""
        if name == "pandas":
            raise ModuleNotFoundError(f"{name} is left out", name=name)


def without_pandas() -> None:
    """For commands that are done at once, and read no table of somebody else's: Arrow need not look for pandas.

    It would load it, where it is installed, to ask whether what it is given is one of its tables: 0.2 s.
    """
    sys.meta_path.insert(0, _NoPandas)


def warn_unless_proved(output: Path, ingredients: "Iterable[Ingredient]") -> None:
    """Say that a derived file is not for publication, if something that it was made from is not PROVED.

    ARPA files, tables and lists have no place for a label, so it is said where they are made.
    """
    from bayesgram.released.labels import unproved_sentence

    sentence = unproved_sentence(ingredients)
    if sentence is not None:
        say(f"warning: {output} is not for publication: {sentence}.")
