"""What the library says of its arguments, said of options.

In:  a message of the library, where an argument is `name=value`, or `name` in backticks.   Out: the same with options.
Does not touch other words, nor paths: `data/size=10/a.parquet` stays.

How commands speak: results on standard output, everything else on standard error.

Rich draws tables and bars, and is loaded when there is one: a command that only writes lines is done by then.

--quiet, which every command has.

What a command that fails or is stopped has to say about budget: whether some is spent, by which entry, and for what.

In: what `release` notes as it goes on.   Out: a sentence for the end of a message.   Does not read or write a ledger.
"""

import inspect
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache, partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from bayesgram.io import RecordReader
    from bayesgram.privacy.budget import Budget
    from bayesgram.releases.provenance import Ingredient

OTHERS = {"path": "--output", "lowercase": "--keep-case"}  # what options call otherwise


def as_options(message: str) -> str:
    """A message for the command line.

    >>> as_options("max_new=0: leave `ledger` out, or say force=True; see data/size=10/a.parquet.")
    '--max-new 0: leave --ledger out, or say --force; see data/size=10/a.parquet.'
    """
    return _pattern().sub(_option, message)


def _option(found: re.Match[str]) -> str:
    if found["quoted"]:
        return _options()[found["quoted"]]
    return f"{_options()[found['name']]}{'' if found['true'] else ' '}"


@cache
def _pattern() -> re.Pattern[str]:
    names = "|".join(sorted(_options(), key=len, reverse=True))
    return re.compile(rf"`(?P<quoted>{names})`|(?<![\w/.=-])(?P<name>{names})=(?P<true>True\b)?")


@cache
def _options() -> dict[str, str]:
    """The long form of every option that some command has, by its name in Python."""
    from bayesgram.cli.app import build_app

    parameters = _parameters(typer.main.get_command(build_app()))
    found = {parameter.name.rstrip("_"): parameter.opts[0] for parameter in parameters}
    return {**found, **OTHERS}


def _parameters(command: Any) -> Iterator[Any]:  # noqa: ANN401 - of Click
    """The options of a command, or of those in a group."""
    yield from (parameter for parameter in command.params if parameter.param_type_name == "option")
    for inner in getattr(command, "commands", {}).values():
        yield from _parameters(inner)


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
        from bayesgram.io import read_records

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
            self._progress.tasks[
                0
            ].total = None  # or the bar would be at its end, and the clock stop
        self._progress.advance(self._task, count)

    def finish(self) -> None:
        """All is done."""
        self._progress.update(
            self._task, description=self._label, total=self.size, completed=self.size
        )


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


def warn_unless_proved(output: Path, ingredients: "Iterable[Ingredient]") -> None:
    """Say that a derived file is not for publication, if something that it was made from is not PROVED.

    ARPA files, tables and lists have no place for a label, so it is said where they are made.
    """
    from bayesgram.releases.provenance import unproved_sentence

    sentence = unproved_sentence(ingredients)
    if sentence is not None:
        say(f"warning: {output} is not for publication: {sentence}.")


Quiet = Annotated[
    bool,
    typer.Option("--quiet", help="No progress and no notes; warnings and errors are still said."),
]


def with_quiet(command: Callable[..., None]) -> Callable[..., None]:
    """The command with one option more, the last."""

    @wraps(command)
    def call(*args: Any, quiet: bool = False, **kwargs: Any) -> None:  # noqa: ANN401 - those of the command
        set_quiet(quiet)
        command(*args, **kwargs)

    signature = inspect.signature(command)
    option = inspect.Parameter(
        "quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Quiet
    )
    call.__signature__ = signature.replace(parameters=[*signature.parameters.values(), option])  # type: ignore[attr-defined]
    call.__annotations__ = {**command.__annotations__, "quiet": Quiet}
    return call


@dataclass
class Charge:
    """One release that is charged to a ledger."""

    ledger: Path
    budget: "Budget | None"
    output: Path
    before: os.stat_result | None  # of what --force is about to replace
    entry: int | None = None  # its number, once it is reserved

    def reserved(self, entry: int) -> None:
        """The budget is spent from here on."""
        self.entry = entry

    @property
    def is_published(self) -> bool:
        """Whether the release stands in its place, by what is there now: a run may fail, or be stopped, after that."""
        now = _status(self.output)
        return now is not None and (self.before is None or not os.path.samestat(now, self.before))


_begun: list[Charge] = []  # at most one, until it is done


def begin(ledger: Path, budget: "Budget | None", output: Path) -> Charge:
    """From here on budget may be spent."""
    _begun[:] = [Charge(ledger, budget, output, _status(output))]
    return _begun[0]


def done() -> None:
    """The release is out and the ledger says so: nothing is left to tell."""
    _begun.clear()


def told() -> str:
    """What to say of budget that is spent; nothing if none is."""
    return "".join(_sentence(charge) for charge in _begun if charge.entry is not None)


def told_at_once() -> str:
    """The same, for a process that is stopped at any instant: the ledger may have reserved, and not told us yet."""
    return told() or "".join(
        f"no output was written. What the ledger has reserved stays spent: {_look(charge)}"
        for charge in _begun
    )


def _sentence(charge: Charge) -> str:
    entry = f"entry {charge.entry} of {charge.ledger}"
    spent = (
        ""
        if charge.budget is None
        else f" (ε = {charge.budget.epsilon:g}, δ = {charge.budget.delta:g})"
    )
    if charge.is_published:
        return (
            f"the release is in {charge.output}, and {entry}{spent} is spent for it; only the note that it was"
            " published may be missing there."
        )
    return f"the release is lost, and {entry}{spent} stays spent: {_look(charge)}"


def _look(charge: Charge) -> str:
    return f"see `bayesgram ledger show {charge.ledger}`."


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None
