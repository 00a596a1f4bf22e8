"""Write docs/cli.md from the commands themselves: `python tools/build_cli_docs.py`.

tests/test_docs.py fails if the page is out of date.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from bayesgram.cli.app import build_app

TARGET = Path(__file__).parent.parent / "docs" / "cli.md"
HEAD = """# The command line

At the end of this page you know every command and option, their defaults and their exit codes. The
page is made from the code by `python tools/build_cli_docs.py`. If you are new, start with [your data
in ten minutes](tutorial.md).

Every command prints its result on standard output and everything else (progress, warnings, errors)
on standard error. `--quiet` leaves progress and notes out, not warnings and errors.

`--json` prints one JSON document instead, in which numbers are numbers. A command that fails prints
one too, on standard output like a result: `{"error": "--epsilon 0.0: give a number ...",
"exit_code": 2}`; the same words stand on standard error. `ledger list` and `clean` print what they
found, and say on standard error alone what is wrong with it.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | a run that failed: bad data, no row to read, a full disk |
| 2 | wrong use: a value out of range, a missing column, an unknown format, an existing output |
| 129, 130, 143 | stopped by a hang-up, Ctrl-C or SIGTERM; spent budget is named in the message |
| 141 | whoever read the output has closed it |

Completion of commands and options with the tab key: `bayesgram --install-completion` adds it to
your shell (bash, zsh, fish or PowerShell), `bayesgram --show-completion` prints what it would add.
In the search of this site, options are found without their first dashes: `clip-norm`.

Whole numbers may be written with k and M: `--size 20k`, `--users 1.5M`. `--verbose` adds details
for experts to the sentences that a command prints.

`vocab` and `count` [name the files that they did not read](files.md). Missing parent folders of an
output are made. No command replaces an output without `--force`, and what a failed or stopped run
had begun to write is removed. (A run
killed by SIGKILL leaves hidden folders, readable by its owner only; the next run that writes there
removes them, and `bayesgram clean` shows them: see
[after a failed run](howto/after-a-failed-run.md).)
"""


def build_page() -> str:
    """Return the text of the page."""
    root: Any = typer.main.get_command(build_app())
    return "\n".join([HEAD, *(section(name, command) for name, command in commands(root))])


def commands(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - of Click
    """Yield every command with its full name, those of groups too."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def section(name: str, command: Any) -> str:  # noqa: ANN401 - of Click
    """Return the section of a command: what it does, an example, its options."""
    text, _, example = command.help.partition("Example: ")
    lines = [
        f"## bayesgram {name}\n",
        " ".join(text.split()) + "\n",
        f"```\n{' '.join(example.split())}\n```\n",
        "| option | meaning | default |",
        "|---|---|---|",
        *map(option_row, command.params),
    ]
    return "\n".join(lines) + "\n"


def option_row(parameter: Any) -> str:  # noqa: ANN401 - of Click
    """Return the row of an option or an argument."""
    if parameter.param_type_name == "argument":
        name = parameter.metavar
    else:
        name = ", ".join(f"`{option}`" for option in [*parameter.opts, *parameter.secondary_opts])
    shown = parameter.show_default
    default = shown if isinstance(shown, str) else parameter.default
    if parameter.required:
        default = "required"
    elif default is None or default is False or shown is False:
        default = ""
    row = f"| {name} | {parameter.help} | {getattr(default, 'value', default)} |"
    return row.replace("|Δq|", r"\|Δq\|")


if __name__ == "__main__":
    TARGET.write_text(build_page(), encoding="utf-8")
