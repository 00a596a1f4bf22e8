"""Run a command with one fault, and check what every command promises, whatever fails.

In: a scenario and a fault.   Out: an `Outcome`, whose `problems` say which promises were broken.
"""

import errno
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bayesgram.errors import BayesgramError
from bayesgram.io.atomic import REPLACED, find_temporary_folders
from bayesgram.mechanisms.series import CANDIDATES, DISCOVERY, Series
from bayesgram.privacy.ledger_io import read_ledger
from bayesgram.private.running_candidates import RunningCandidates
from bayesgram.public.discovered_ngrams import Discovery
from bayesgram.releases.release import Release
from faults.run_command import COUNTS_BYTES, read_counts
from faults.scenarios import LEDGER, SCENARIOS, make_inputs
from helpers.fork_server import ForkServer

HERE = Path(__file__).parent
PROGRAM = HERE / "run_command.py"
LIMIT_SECONDS = 60.0  # for one command, which takes one second or less
COMPILER = shutil.which("cc") if sys.platform == "linux" else None
ERRORS = {
    "open": errno.EMFILE,
    "read": errno.EIO,
    "write": errno.ENOSPC,
    "fsync": errno.EIO,
    "rename": errno.EIO,
    "mkdir": errno.ENOSPC,
    "unlink": errno.EIO,
    "alloc": errno.ENOMEM,
}
# How a message says that budget is spent: for nothing, or for a release that is there.
SPENT_FOR_NOTHING = "stays spent"
SPENT_FOR_RELEASE = "is spent for it"


@dataclass(frozen=True)
class Fault:
    """What happens to a run: the k-th call of a kind fails, or the process is killed."""

    kind: str
    at: int = 0  # the number of the call
    stays: bool = False  # all calls of the kind fail from then on
    kills: bool = False  # the process is killed at the call
    kill_after: float | None = None  # seconds after which it is killed, whatever it does

    @property
    def is_kill(self):
        return self.kills or self.kill_after is not None

    def to_json(self):
        """What `run_command` needs to arm the shim."""
        return {
            "kind": self.kind,
            "at": self.at,
            "error": ERRORS.get(self.kind, 0),
            "kills": self.kills,
            "stays": self.stays,
        }


@dataclass(frozen=True)
class Outcome:
    """How one run went."""

    code: int
    message: str  # standard error in one line
    stdout: str
    counts: dict[str, int]
    seconds: float
    problems: tuple[str, ...] = ()

    @property
    def crashed(self):
        return self.code < 0


@contextmanager
def open_laboratory(folder):
    """Yield a laboratory whose fork server has the shim between it and the C library."""
    shim = folder / "shim.so"
    subprocess.run(
        [COMPILER, "-shared", "-fPIC", "-O1", "-o", shim, HERE / "shim.c", "-ldl"], check=True
    )
    environment = {
        "LD_PRELOAD": str(shim),
        "ARROW_DEFAULT_MEMORY_POOL": "system",  # so that the shim sees what Arrow asks for
        "COLUMNS": "1000",
        "OPENBLAS_NUM_THREADS": "1",
    }
    server = ForkServer(environment, python_options=("-W", "ignore"))  # of forks with threads
    try:
        yield Laboratory(folder, server, environment)
    finally:
        server.close()


class Laboratory:
    """Runs scenarios with faults, one after the other, in fresh folders."""

    def __init__(self, folder, server, environment):
        self._folder = folder
        self._server = server
        self._environment = environment
        self._template = folder / "template"
        self._template.mkdir()
        make_inputs(self._template, self._warm_up)
        self._complete_outputs = {}  # contents by the scenario's name
        self.references = {scenario.name: self._run_reference(scenario) for scenario in SCENARIOS}

    def _warm_up(self, arguments):
        spec = json.dumps({"arguments": arguments})
        self._server.warm_up(PROGRAM, spec, cwd=self._template)

    def _run_reference(self, scenario):
        """Run without a fault: how many calls the command makes, and its output."""
        root = self._lay_out(scenario)
        outcome = self._run(scenario, root)
        assert outcome.code == 0, outcome
        if scenario.output:
            self._complete_outputs[scenario.name] = read_contents(root / "work" / scenario.output)
        assert not find_leftovers(root), scenario
        return outcome

    def attempt(self, scenario, fault):
        """Run once with a fault in a fresh folder; the outcome lists every promise that it breaks."""
        root = self._lay_out(scenario)
        before = read_contents(root / "work")
        outcome = self._run(scenario, root, fault)
        problems = list(self._problems(scenario, fault, root, before, outcome))
        if fault.is_kill or fault.kind == "unlink":
            problems += self._problems_of_a_later_run(scenario, root)
        return replace(outcome, problems=tuple(problems))

    def _lay_out(self, scenario):
        root = self._folder / "root"
        shutil.rmtree(root, ignore_errors=True)
        for name in ("work", "tmp"):
            (root / name).mkdir(parents=True)
        scenario.fill(self._template, root / "work")
        return root

    def _run(self, scenario, root, fault=None):
        counts = self._folder / "counts"
        counts.write_bytes(bytes(COUNTS_BYTES))
        spec = {
            "arguments": scenario.arguments,
            "settings": scenario.settings,
            "root": str(root),
            "counts": str(counts),
            "fault": fault.to_json() if fault and fault.kill_after is None else None,
        }
        kill_after = fault.kill_after if fault else None
        result = self._server.run(
            PROGRAM,
            json.dumps(spec),
            cwd=root / "work",
            environment=os.environ | self._environment | {"TMPDIR": str(root / "tmp")},
            limit_seconds=LIMIT_SECONDS if kill_after is None else kill_after,
            end_signal=signal.SIGABRT if kill_after is None else signal.SIGKILL,
        )
        is_hung = result.timed_out and kill_after is None
        return Outcome(
            result.returncode,
            " ".join(result.stderr.split()),
            result.stdout,
            read_counts(counts),
            result.seconds,
            ("it hung",) if is_hung else (),
        )

    def _problems(self, scenario, fault, root, before, outcome):
        """Yield every promise that a run broke."""
        work = root / "work"
        yield from outcome.problems
        if not fault.is_kill:
            yield from _message_problems(fault, outcome)
            if "nothing was left behind" in outcome.message and find_leftovers(root):
                yield "it says that nothing was left, and something was"
            kept = "what was there is kept in" in outcome.message
            if fault.kind != "unlink" and not outcome.crashed and find_leftovers(root) and not kept:
                yield f"left behind: {find_leftovers(root)}"
        after = read_contents(work)
        ours = tuple(name for name in (scenario.output, scenario.ledger, scenario.series) if name)
        for name in sorted(before.keys() | after.keys()):
            ignored = name.startswith((*ours, ".")) or after.get(name) == before.get(name)
            if not ignored:
                yield f"{name} appeared or changed"
        published = False
        if scenario.output:
            now = read_contents(work / scenario.output) or find_set_aside(work)
            published = now != contents_below(before, scenario.output)
            yield from self._output_problems(scenario, work, published, outcome, fault)
        if scenario.ledger:
            yield from self._ledger_problems(scenario, work, published, outcome, fault)
        if scenario.is_in_series:
            yield from self._series_problems(scenario, work, published, outcome, fault)
        if scenario.is_in_series and scenario.kind == DISCOVERY:
            yield from self._candidate_problems(scenario, work)

    def _series_problems(self, scenario, work, published, outcome, fault):
        """Yield allowances that were given back, or a release that nobody was charged for."""
        old_used, old_drawn, _ = read_series(self._template, scenario)
        try:
            used, drawn, noted = read_series(work, scenario)
        except BayesgramError as error:
            yield f"the series is refused: {error}"
            return
        if any(used.get(user, -1) < old for user, old in old_used.items()):
            yield "allowances were given back"
        charged = used != old_used
        if published and not charged:
            yield "a release is out that nobody's allowance was charged for"
        if drawn not in {old_drawn, old_drawn + 1} or (published and drawn == old_drawn):
            yield f"{drawn} releases were drawn"
        if max(noted, default=0) > drawn or (max(noted, default=0) == old_drawn + 1) > published:
            yield "the ledger says that a release is out which is not"
        if outcome.code == 0 and max(noted, default=0) != old_drawn + 1:
            yield "it succeeded, and the ledger does not say that the release is out"
        if charged and not fault.is_kill and not outcome.crashed and outcome.code != 0:
            said = spent_for_series(scenario) if published else "stays charged"
            if said not in outcome.message and "did not confirm it" not in outcome.message:
                yield "users are charged, and the message does not say so"

    def _candidate_problems(self, scenario, work):
        """Yield noisy sums that went back, texts that were lost, or findings that changed."""
        try:
            old_drawn, old = read_candidates(self._template, scenario)
            drawn, now = read_candidates(work, scenario)
        except BayesgramError:
            return  # `_series_problems` says so
        if not set(old) <= set(now):
            yield "texts of a series were lost"
        for text, (total, found_in) in old.items():
            new_total, new_found_in = now.get(text, (total, found_in))
            if found_in and (new_total, new_found_in) != (total, found_in):
                yield "what was found has changed"
            if drawn == old_drawn and new_total != total:
                yield "noisy sums changed without a run"
            if drawn > old_drawn and not found_in and new_total == total:
                yield "a candidate has no noise of a run"

    def _output_problems(self, scenario, work, published, outcome, fault):
        output = work / scenario.output
        if outcome.code == 0 and not published:
            yield "it succeeded without an output"
        if published and not self._is_complete(scenario, output):
            yield "the output is not whole"
        if published and not fault.is_kill and not outcome.crashed and outcome.code != 0:
            read_back = (
                scenario.name == "ledger create" and fault.kind == "read"
            )  # the new ledger, to be shown
            confirmed = "is written, but the disk did not confirm it" not in outcome.message
            if (
                scenario.name == "vocab --model"
                and f"model {scenario.output} is there, without" in outcome.message
            ):
                return
            said = SPENT_FOR_RELEASE
            if scenario.is_in_series:
                said = spent_for_series(scenario)
            if confirmed and said not in outcome.message and not read_back:
                yield "it failed, and does not say that the output is there"

    def _is_complete(self, scenario, output):
        if scenario.is_repeatable:
            return read_contents(output) == self._complete_outputs[scenario.name]
        try:
            if scenario.is_in_series and scenario.kind == DISCOVERY:
                return set(read_contents(output)) == set(
                    self._complete_outputs[scenario.name]
                ) and bool(Discovery.load(output).card.ledger)
            if scenario.charges or scenario.is_in_series:
                return set(read_contents(output)) == set(
                    self._complete_outputs[scenario.name]
                ) and bool(Release.load(output).card.ledger)
            return read_ledger(output).population == "p"
        except BayesgramError:
            return False

    def _ledger_problems(self, scenario, work, published, outcome, fault):
        """Yield budget that was spent and not recorded, recorded twice, or not reported."""
        old = read_ledger(self._template / scenario.ledger)
        try:
            now = read_ledger(work / scenario.ledger)
        except BayesgramError as error:
            yield f"the ledger is refused: {error}"
            return
        new = now.reservations[len(old.reservations) :]
        kept = [replace(entry, notes=()) for entry in now.reservations[: len(old.reservations)]]
        if kept != [replace(entry, notes=()) for entry in old.reservations]:
            yield "old entries of the ledger changed"
        if len(new) > 1:
            yield f"charged {len(new)} times"
        if not scenario.charges:
            return
        if published and [entry.number for entry in new] != [
            Release.load(work / "made").card.ledger["entry"]
        ]:
            yield "a release is out that was not charged"
        if any(entry.published for entry in new) and not published:
            yield "the ledger says that a release is out which is not"
        if outcome.code == 0 and not all(entry.published for entry in new):
            yield "it succeeded, and the ledger does not say that the release is out"
        if not fault.is_kill and not outcome.crashed and outcome.code != 0:
            yield from _budget_message_problems(new, published, outcome)

    def _problems_of_a_later_run(self, scenario, root):
        """Yield what is wrong when the same command runs again: it must work and tidy up."""
        work = root / "work"
        again = scenario
        is_there = scenario.output is not None and (work / scenario.output).exists()
        if is_there and scenario.name == "ledger create":
            again = replace(scenario, arguments=("clean", "--remove", "--json"))
        elif is_there and "--force" not in scenario.arguments:
            again = replace(scenario, arguments=(*scenario.arguments, "--force"))
        charged = len(read_ledger(work / LEDGER).reservations) if scenario.charges else 0
        outcome = self._run(again, root)
        if outcome.code != 0:
            yield f"a later run fails: {outcome.message}"
            return
        if find_leftovers(root):
            yield f"a later run leaves {find_leftovers(root)}"
        if any((root / "tmp").iterdir()):
            yield "a later run leaves something in the temporary folder"
        if scenario.output and not self._is_complete(scenario, work / scenario.output):
            yield "the output of a later run is not whole"
        if scenario.is_in_series and read_series(work, scenario)[1] not in {2, 3}:
            yield "a later run is not in the series"
        if scenario.charges and len(read_ledger(work / LEDGER).reservations) != charged + 1:
            yield "a later run is not charged once"


def read_series(folder, scenario):
    """Return what each user has used, how many runs were drawn, and those noted as published."""
    series = Series.open(folder / scenario.series)
    state = series.read_state()
    users = series.read_allowances(state, scenario.kind)
    used = dict(zip(zip(users.high, users.low, strict=True), users.used.tolist(), strict=True))
    noted = series.reservation.published_releases
    if scenario.kind == DISCOVERY:
        noted = series.reservation.published_discoveries
    return used, state.drawn(scenario.kind), noted


def read_candidates(folder, scenario):
    """Return how many discoveries were drawn, and the noisy sum and the run of every text."""
    series = Series.open(folder / scenario.series)
    state = series.read_state()
    token = state.file_token(CANDIDATES)
    path = series.file_path(CANDIDATES, token)
    candidates = RunningCandidates.read(path, token, series.read_key())
    values = zip(candidates.sums.tolist(), candidates.found_in.tolist(), strict=True)
    texts = dict(zip(candidates.ngrams.to_pylist(), values, strict=True))
    return state.drawn(DISCOVERY), texts


def spent_for_series(scenario):
    """Return how a message says that a run of a series is out."""
    return f"as {scenario.kind} 2 of {scenario.series}"


def _message_problems(fault, outcome):
    if outcome.crashed:
        if fault.kind != "alloc":
            yield f"it crashed with {outcome.code}"
        return
    if outcome.code not in {0, 1, 2}:
        yield f"its exit code is {outcome.code}"
    if "Traceback" in outcome.message:
        yield "a traceback"
    if outcome.code and outcome.message.count("error: ") != 1:
        yield "not one error"
    if outcome.code and ("unexpected" in outcome.message or "None" in outcome.message):
        yield "no words for it"
    if fault.kind in {"read", "open"} and (
        ": not a" in outcome.message or "the release is damaged" in outcome.message
    ):
        yield "it blames a file that the disk did not give"


def _budget_message_problems(new, published, outcome):
    for entry in new:
        named = f"entry {entry.number} of {LEDGER} (ε = 0.5, δ = 1e-07)" in outcome.message
        unsure = "if it was recorded all the same, it stays spent" in outcome.message
        if not unsure and not (
            named and (SPENT_FOR_RELEASE if published else SPENT_FOR_NOTHING) in outcome.message
        ):
            yield "budget is spent, and the message does not say so"
        if outcome.code != 1:
            yield f"budget is spent, and the exit code is {outcome.code}"
    unsure = "if it was recorded all the same" in outcome.message
    if (
        not new
        and not unsure
        and (SPENT_FOR_NOTHING in outcome.message or SPENT_FOR_RELEASE in outcome.message)
    ):
        yield "the message says that budget is spent, and none is"


def read_contents(path):
    """Return names below a path with a hash of each file; of a file, its own hash; of nothing,
    nothing.
    """
    if path.is_file():
        return {"": hashlib.sha256(path.read_bytes()).hexdigest()}
    hashes = {}
    for child in sorted(path.rglob("*")) if path.is_dir() else ():
        name = str(child.relative_to(path))
        is_file = child.is_file()
        hashes[name] = hashlib.sha256(child.read_bytes()).hexdigest() if is_file else "folder"
    return hashes


def contents_below(all_contents, name):
    """Return, of the contents of a folder, those of one path in it."""
    if all_contents.get(name, "folder") != "folder":
        return {"": all_contents[name]}
    return {
        path[len(name) + 1 :]: file_hash
        for path, file_hash in all_contents.items()
        if path.startswith(f"{name}/")
    }


def find_set_aside(work):
    """Return what a kill between two renames left of an old output: the next run puts it back."""
    replaced = [
        leftover.path / REPLACED
        for leftover in find_temporary_folders(work)
        if (leftover.path / REPLACED).exists()
    ]
    return read_contents(replaced[0]) if replaced else {}


def find_leftovers(root):
    """Return the names of files that only a running process should have."""
    return sorted(
        leftover.path.name
        for folder in (root / "work", root / "tmp")
        for leftover in find_temporary_folders(folder)
    )
