"""Write docs/cli.md from the commands themselves: `python tools/build_cli_docs.py`. A test keeps it up to date."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from bayesgram.cli.app import build_app

TARGET = Path(__file__).parent.parent / "docs" / "cli.md"
HEAD = """# The command line

This page is made from the code by `python tools/build_cli_docs.py`.

Every command prints its result on standard output and everything else (progress, warnings, errors) on standard
error. `--quiet` leaves progress and notes out, not warnings and errors.

`--json` prints one JSON document instead, in which numbers are numbers. A command that fails prints one too, on
standard output like a result: `{"error": "--epsilon 0.0: give a number ...", "exit_code": 2}`; the same words stand on
standard error. `ledger list` and `clean` print what they found, and say on standard error alone what is wrong with it.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | a run that failed: bad data, no row to read, a full disk |
| 2 | wrong use: a value out of range, a missing column, a format that is not read, an output that exists |
| 129, 130, 143 | stopped by a hang-up, Ctrl-C, SIGTERM: what was begun is removed; what a ledger has spent is said |
| 141 | whoever read the output has closed it |

Completion of commands and options with the tab key: `bayesgram --install-completion` adds it to your shell (bash, zsh,
fish or PowerShell), `bayesgram --show-completion` prints what it would add. In the search of this site, options are
found without their first dashes: `clip-norm`.

What `vocab` and `count` did not read they [say in a line each](files.md). No command replaces an output without
`--force`, and what a failed or stopped run had begun to write is removed. (A run killed by SIGKILL leaves hidden
folders, readable by its owner only; the next run that writes there removes them, and `bayesgram clean` shows them: see
[after a failed run](howto/after-a-failed-run.md).)
"""


def page() -> str:
    """The whole page."""
    root: Any = typer.main.get_command(build_app())
    return "\n".join([HEAD, *(section(name, command) for name, command in commands(root))])


def commands(root: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - Click groups and commands
    """Every command with its full name, those of groups too."""
    for name, command in root.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def section(name: str, command: Any) -> str:  # noqa: ANN401 - a Click command
    """One command: what it does, an example, its options."""
    text, _, example = command.help.partition("Example: ")
    lines = [
        f"## bayesgram {name}\n",
        " ".join(text.split()) + "\n",
        f"```\n{' '.join(example.split())}\n```\n",
    ]
    lines += ["| option | meaning | default |", "|---|---|---|"]
    return "\n".join([*lines, *map(row, command.params)]) + "\n"


def row(parameter: Any) -> str:  # noqa: ANN401 - a Click parameter
    """One option."""
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
    return f"| {name} | {parameter.help} | {getattr(default, 'value', default)} |".replace(
        "|Δq|", r"\|Δq\|"
    )


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
