"""Run a scenario with one fault, and look at what is left: what every command promises, whatever fails.

In: a scenario, a fault.   Out: what is wrong, in words; an empty list if nothing is.
"""

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bayesgram.errors import BayesgramError
from bayesgram.io.atomic import REPLACED, find_temporary_folders
from bayesgram.privacy.ledger_io import read_ledger
from bayesgram.releases.release import Release
from faults.scenarios import LEDGER, SCENARIOS, make_inputs

HERE = Path(__file__).parent
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
SPENT, OUT = "stays spent", "is spent for it"


@dataclass(frozen=True)
class Fault:
    """The k-th call of a kind fails, once or from then on; or the process is killed at it, or after some time."""

    kind: str
    at: int = 0
    stays: bool = False
    kills: bool = False
    kill_after: float | None = None

    @property
    def is_kill(self):
        return self.kills or self.kill_after is not None

    def request(self):
        if self.kill_after is not None:
            return {"kill_after": self.kill_after}
        return {
            "fault": {
                "kind": self.kind,
                "at": self.at,
                "error": ERRORS.get(self.kind, 0),
                "kills": self.kills,
                "stays": self.stays,
            }
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
def laboratory(folder):
    """A zygote with the shim, and the inputs of all scenarios."""
    shim = folder / "shim.so"
    subprocess.run(
        [COMPILER, "-shared", "-fPIC", "-O1", "-o", shim, HERE / "shim.c", "-ldl"], check=True
    )
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", HERE / "zygote.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "LD_PRELOAD": str(shim),
            "ARROW_DEFAULT_MEMORY_POOL": "system",  # so that the shim sees what Arrow asks for
            "COLUMNS": "1000",
            "OPENBLAS_NUM_THREADS": "1",
        },
    )
    try:
        yield Laboratory(folder, process)
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


class Laboratory:
    """Where faults are tried, one after the other."""

    def __init__(self, folder, process):
        self._folder, self._process = folder, process
        self._template = folder / "template"
        self._template.mkdir()
        make_inputs(
            self._template,
            lambda arguments: self._ask({"warm": arguments, "cwd": str(self._template)}),
        )
        self._whole = {}
        self.reference = {scenario.name: self._reference(scenario) for scenario in SCENARIOS}

    def _reference(self, scenario):
        """A run without any fault: how many calls it makes, and its output."""
        root = self._lay_out(scenario)
        outcome = self.run(scenario, root)
        assert outcome.code == 0, outcome
        if scenario.output:
            self._whole[scenario.name] = contents(root / "work" / scenario.output)
        assert not hidden(root), scenario
        return outcome

    def attempt(self, scenario, fault):
        """One run with a fault in a fresh folder; what is wrong after it is in the answer."""
        root = self._lay_out(scenario)
        before = contents(root / "work")
        outcome = self.run(scenario, root, fault)
        found = list(self._problems(scenario, fault, root, before, outcome))
        if fault.is_kill or fault.kind == "unlink":
            found += self._later(scenario, root)
        return replace(outcome, problems=tuple(found))

    def _lay_out(self, scenario):
        root = self._folder / "root"
        shutil.rmtree(root, ignore_errors=True)
        for name in ("work", "tmp"):
            (root / name).mkdir(parents=True)
        scenario.fill(self._template, root / "work")
        return root

    def run(self, scenario, root, fault=None):
        answer = self._ask(
            {
                "folder": str(root),
                "cwd": str(root / "work"),
                "tmp": str(root / "tmp"),
                "said": str(self._folder),
                "arguments": scenario.arguments,
                "settings": scenario.settings,
                **(fault.request() if fault else {}),
            }
        )
        problems = ("it hung",) if answer["hung"] else ()
        message = " ".join(answer["stderr"].split())
        return Outcome(
            answer["code"], message, answer["stdout"], answer["counts"], answer["seconds"], problems
        )

    def _ask(self, request):
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the zygote died"
        return json.loads(line)

    def _problems(self, scenario, fault, root, before, outcome):
        """What breaks a promise."""
        work = root / "work"
        yield from outcome.problems
        if not fault.is_kill:
            yield from _wrong_words(fault, outcome)
            if "nothing was left behind" in outcome.message and hidden(root):
                yield "it says that nothing was left, and something was"
            kept = "what was there is kept in" in outcome.message
            if fault.kind != "unlink" and not outcome.crashed and hidden(root) and not kept:
                yield f"left behind: {hidden(root)}"
        after = contents(work)
        ours = tuple(name for name in (scenario.output, LEDGER) if name)
        for name in sorted(before.keys() | after.keys()):
            ignored = name.startswith((*ours, ".")) or after.get(name) == before.get(name)
            if not ignored:
                yield f"{name} appeared or changed"
        published = False
        if scenario.output:
            now = contents(work / scenario.output) or set_aside(work)
            published = now != below(before, scenario.output)
            yield from self._wrong_output(scenario, work, published, outcome, fault)
        if LEDGER in scenario.inputs:
            yield from self._wrong_ledger(scenario, work, published, outcome, fault)

    def _wrong_output(self, scenario, work, published, outcome, fault):
        output = work / scenario.output
        if outcome.code == 0 and not published:
            yield "it succeeded without an output"
        if published and not self._is_whole(scenario, output):
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
            if confirmed and OUT not in outcome.message and not read_back:
                yield "it failed, and does not say that the output is there"

    def _is_whole(self, scenario, output):
        if scenario.repeatable:
            return contents(output) == self._whole[scenario.name]
        try:
            if scenario.charges:
                return set(contents(output)) == set(self._whole[scenario.name]) and bool(
                    Release.load(output).card.ledger
                )
            return read_ledger(output).population == "p"
        except BayesgramError:
            return False

    def _wrong_ledger(self, scenario, work, published, outcome, fault):
        """Spent and not recorded, recorded twice, or not told."""
        old = read_ledger(self._template / scenario.ledger)
        try:
            now = read_ledger(work / LEDGER)
        except BayesgramError as error:
            yield f"the ledger is refused: {error}"
            return
        new = now.reservations[len(old.reservations) :]
        if now.reservations[: len(old.reservations)] != old.reservations:
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
            yield from _wrong_words_about_budget(new, published, outcome)

    def _later(self, scenario, root):
        """After a kill, the same command works, and all that was left is gone."""
        work = root / "work"
        again = scenario
        is_there = scenario.output is not None and (work / scenario.output).exists()
        if is_there and scenario.name == "ledger create":
            again = replace(scenario, arguments=("clean", "--remove", "--json"))
        elif is_there and "--force" not in scenario.arguments:
            again = replace(scenario, arguments=(*scenario.arguments, "--force"))
        charged = len(read_ledger(work / LEDGER).reservations) if scenario.charges else 0
        outcome = self.run(again, root)
        if outcome.code != 0:
            yield f"a later run fails: {outcome.message}"
            return
        if hidden(root):
            yield f"a later run leaves {hidden(root)}"
        if any((root / "tmp").iterdir()):
            yield "a later run leaves something in the temporary folder"
        if scenario.output and not self._is_whole(scenario, work / scenario.output):
            yield "the output of a later run is not whole"
        if scenario.charges and len(read_ledger(work / LEDGER).reservations) != charged + 1:
            yield "a later run is not charged once"


def _wrong_words(fault, outcome):
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


def _wrong_words_about_budget(new, published, outcome):
    for entry in new:
        named = f"entry {entry.number} of {LEDGER} (ε = 0.5, δ = 1e-07)" in outcome.message
        unsure = "if it was recorded all the same, it stays spent" in outcome.message
        if not unsure and not (named and (OUT if published else SPENT) in outcome.message):
            yield "budget is spent, and the message does not say so"
        if outcome.code != 1:
            yield f"budget is spent, and the exit code is {outcome.code}"
    unsure = "if it was recorded all the same" in outcome.message
    if not new and not unsure and (SPENT in outcome.message or OUT in outcome.message):
        yield "the message says that budget is spent, and none is"


def contents(path):
    """The names below a path, with a hash of each file; of a file, itself; of nothing, nothing."""
    if path.is_file():
        return {"": hashlib.sha256(path.read_bytes()).hexdigest()}
    found = {}
    for each in sorted(path.rglob("*")) if path.is_dir() else ():
        name = str(each.relative_to(path))
        found[name] = hashlib.sha256(each.read_bytes()).hexdigest() if each.is_file() else "folder"
    return found


def below(all_contents, name):
    """Of the contents of a folder, those of one path in it."""
    inside = {
        path[len(name) + 1 :]: told
        for path, told in all_contents.items()
        if path.startswith(f"{name}/")
    }
    return {"": all_contents[name]} if all_contents.get(name, "folder") != "folder" else inside


def set_aside(work):
    """What a kill between two renames left of an old output: the next run puts it back."""
    found = [
        each.path / REPLACED
        for each in find_temporary_folders(work)
        if (each.path / REPLACED).exists()
    ]
    return contents(found[0]) if found else {}


def hidden(root):
    """Names of what is left that only a running process should have."""
    return sorted(
        found.path.name
        for folder in (root / "work", root / "tmp")
        for found in find_temporary_folders(folder)
    )
