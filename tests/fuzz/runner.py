"""Run many inputs in processes of their own, and tell what became of them.

A kernel may crash the process, or never come back, so inputs run in children. A child notes in a
small shared file which input it is at; when it dies or stands still, the input is made again from
its number, saved, and another child goes on after it. A finding is saved as the input itself and a
text beside it, and named once for each place it comes from.
"""

import faulthandler
import hashlib
import logging
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fuzz.target import Target, scratch

START_SECONDS = 600  # the first run compiles kernels
MEMORY = 12 << 30  # of addresses: an input that asks for more gets a MemoryError
HEAD = 4  # round, target, number within the round, how many inputs were begun
COLUMNS = 3  # for each target: read, refused, findings


@dataclass(frozen=True)
class Plan:
    """What to run."""

    seed: str
    seconds: float
    inputs: int
    findings: Path
    still_seconds: float = 60  # on a busy machine; inputs take about a thousandth of a second


class Board:
    """The shared file: where a child is, and what it has seen."""

    def __init__(self, path: Path, targets: int, *, new: bool) -> None:
        self.path = path
        self._numbers = np.memmap(
            path, np.int64, "w+" if new else "r+", shape=HEAD + COLUMNS * targets
        )

    @property
    def place(self) -> list[int]:
        """Round, target, number, and how many inputs were begun."""
        return self._numbers[:HEAD].tolist()

    def begin(self, turn: int, target: int, number: int) -> None:
        """Note the input that comes next."""
        self._numbers[:3] = turn, target, number
        self._numbers[3] += 1

    def add(self, target: int, column: int) -> None:
        """Note what became of an input."""
        self._numbers[HEAD + COLUMNS * target + column] += 1

    def table(self) -> list[list[int]]:
        """Read, refused and findings of each target."""
        return self._numbers[HEAD:].reshape(-1, COLUMNS).tolist()


def place_of(error: BaseException) -> str:
    """Where an error comes from: its type, and the last line of ours."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "bayesgram" in Path(frame.filename).parts] or frames
    where = f"{Path(ours[-1].filename).name}:{ours[-1].name}"
    detail = f": {str(error)[:60]}" if type(error).__name__ == "Wrong" else ""
    return f"{type(error).__name__} in {where}{detail}"


def save(folder: Path, target: Target, data: bytes, said: str, how: str) -> Path:
    """Keep an input and what it led to."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{target.name}-{hashlib.sha256(data).hexdigest()[:10]}"
    path.write_bytes(data)
    path.with_suffix(".txt").write_text(
        f"{said}\n\n{how}\n", encoding="utf-8", errors="backslashreplace"
    )
    return path


def replay_command(target: Target, seed: str, number: int) -> str:
    return f"python -m fuzz --targets {target.name} --seed {seed} --number {number}"


# The child


def child(
    targets: Sequence[Target], plan: Plan, board: Board, first: list[int], which: int, of: int
) -> None:
    """Run rounds until the time or the inputs are used up; `first` is where to begin."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    import resource  # POSIX alone has it

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    logging.disable()  # that a file has no rows is said, thousands of times
    warnings.simplefilter("error", RuntimeWarning)  # a number that nobody checked
    until, seen = time.time() + plan.seconds, set[str]()
    turn, start_target, start_number = first
    with scratch(
        board.path.parent
    ) as folder:  # the parent's, who removes what a child that was killed leaves there
        for target in targets:  # compiles what is compiled
            for data in target.made():
                target.run(data, Path(folder))
        per_round = sum(target.share for target in targets)
        while turn * per_round < plan.inputs:
            for at in range(start_target, len(targets)):
                target = targets[at]
                for number in range(start_number, target.share):
                    if time.time() > until:
                        return
                    board.begin(turn, at, number)
                    one(target, turn * target.share + number, plan, board, at, Path(folder), seen)
                start_number = 0
            start_target, turn = 0, turn + of


def one(
    target: Target, number: int, plan: Plan, board: Board, at: int, folder: Path, seen: set[str]
) -> None:
    """Run an input; a finding is saved when it is the first from its place."""
    data = b""
    try:
        data = target.input(plan.seed, number)
        board.add(at, 0 if target.run(data, folder) else 1)
    except Exception as error:  # noqa: BLE001 - that is what is looked for
        board.add(at, 2)
        place = f"{target.name}: {place_of(error)}"
        if place not in seen:
            seen.add(place)
            path = save(
                plan.findings,
                target,
                data,
                traceback.format_exc(),
                replay_command(target, plan.seed, number),
            )
            sys.stdout.write(f"FOUND {place}\n      {path}\n")
            sys.stdout.flush()


# The parent


@dataclass
class Worker:
    """A child, and the parent's view of it."""

    which: int
    board: Board
    process: subprocess.Popen[bytes]
    begun: int = 0
    since: float = field(default_factory=time.monotonic)


def watch(
    targets: Sequence[Target], plan: Plan, command: Sequence[str], processes: int
) -> list[list[int]]:
    """Start the children, wait for them, and start others for those that die; the numbers for each
    target.
    """
    end = time.monotonic() + plan.seconds
    for target in targets:  # inputs depend on what the corpus holds now
        _ = target.seeds
    with scratch() as folder:
        boards = [
            Board(Path(folder) / f"board-{which}", len(targets), new=True)
            for which in range(processes)
        ]

        def start(which: int, first: Sequence[int]) -> Worker:
            places = [f"--child={which}", f"--of={processes}", f"--board={boards[which].path}"]
            left = f"--seconds={max(0.0, end - time.monotonic())}"
            first_place = "--first=" + ",".join(map(str, first))
            return Worker(
                which, boards[which], subprocess.Popen([*command, *places, left, first_place])
            )

        workers = [start(which, (which, 0, 0)) for which in range(processes)]
        while workers:
            time.sleep(0.2)
            for worker in list(workers):
                _note_progress(worker)
                code = worker.process.poll()
                if code is None and not _stands_still(worker, plan):
                    continue
                workers.remove(worker)
                if code != 0:
                    workers += _bury(worker, code, targets, plan, start)
        return np.sum([board.table() for board in boards], axis=0).tolist()


def _note_progress(worker: Worker) -> None:
    begun = worker.board.place[3]
    if begun != worker.begun:
        worker.begun, worker.since = begun, time.monotonic()


def _stands_still(worker: Worker, plan: Plan) -> bool:
    """Whether a child is at one input for too long; if so it is ended, and says where it was."""
    if time.monotonic() - worker.since < (plan.still_seconds if worker.begun else START_SECONDS):
        return False
    worker.process.send_signal(signal.SIGUSR1)
    time.sleep(0.3)  # for it to say so
    worker.process.kill()
    worker.process.wait()
    return True


def _bury(
    worker: Worker, code: int | None, targets: Sequence[Target], plan: Plan, start
) -> list[Worker]:
    """Save the input that a child died of, and let another go on after it."""
    turn, at, number, begun = worker.board.place
    what = (
        "hang"
        if code is None
        else f"died ({signal.Signals(-code).name if code < 0 else f'exit {code}'})"
    )
    if not begun:
        sys.stdout.write(f"a child {what} before its first input\n")
        return []
    target = targets[at]
    data = target.input(plan.seed, turn * target.share + number)
    worker.board.add(at, 2)
    path = save(
        plan.findings,
        target,
        data,
        what,
        replay_command(target, plan.seed, turn * target.share + number),
    )
    sys.stdout.write(f"FOUND {target.name}: {what}\n      {path}\n")
    return [start(worker.which, (turn, at, number + 1))]
