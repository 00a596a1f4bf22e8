"""Kernels that are compiled ahead, by several processes: all that a first run needs, once, and nothing is said of it."""

import os
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest

from bayesgram import compiling
from bayesgram.kernels import AS_PYTHON
from bayesgram.private.csr import in_order

SMALL = ["private.csr.in_order", "private.streaming._add_sizes", "private.streaming._partition"]
AHEAD = """
import subprocess, sys
from bayesgram import compiling
from bayesgram.machine_code import is_compiled
begun = []
class Popen(subprocess.Popen):
    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        begun.append(self)
subprocess.Popen = Popen
{before}
compiling.compile_ahead({names}, processes={processes})
print([helper.returncode for helper in begun], [is_compiled(*compiling._kernel(name)) for name in {names}])
"""
compiled_only = pytest.mark.skipif(AS_PYTHON, reason="nothing is compiled")


def python(code, cache, **named):
    """What a program says, its standard error included."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    kept = {"env": environment, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen([sys.executable, "-c", code], **kept, **named)


def ahead(cache, *, before="", processes=2, names=SMALL):
    return python(AHEAD.format(before=before, processes=processes, names=names), cache).communicate()[0]


def kernels_in(cache):
    """The names of compiled kernels, and how many signatures each has."""
    names = [re.fullmatch(r"(.+)-\d+\.py\d+\.(\d+)\.nbc", path.name) for path in cache.rglob("*.nbc")]
    assert all(names)
    return sorted((found[1], int(found[2])) for found in names)


def listed(names):
    return sorted((".".join(name.split(".")[-2:]), 1) for name in names)


@compiled_only
def test_the_first_vocab_and_count_compile_what_is_listed_once_and_the_next_nothing(tmp_path):
    (tmp_path / "text.txt").write_text("the red fish. the red fish saw a naïve blue fish\n" * 30, encoding="utf-8")
    (tmp_path / "private.jsonl").write_text('{"user": "ann", "text": "the red fish"}\n' * 3, encoding="utf-8")
    cache, said = tmp_path / "kernels", []
    for run in ("first", "second"):
        vocab = ("vocab", "one=text.txt", "two=text.txt", "--size", "20", "-o", f"{run}.parquet")
        longer = (*vocab[:3], "--order", "4", "--size", "20", "-o", f"{run}-longer.parquet")  # too long to be sorted
        count = ("count", "private.jsonl", "--vocab", f"{run}.parquet", "-o", f"{run}-counts")
        steps = (
            (vocab, compiling.TOKENS),
            (longer, compiling.VOCABULARY),
            (count, compiling.VOCABULARY | compiling.COUNTS),
        )
        for words, names in steps:
            command = [sys.executable, "-m", "bayesgram", *words]
            environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
            done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
            said.append(done.stdout.replace(run, "one"))
            expected = {*compiling.for_text(names, "words"), "text.scan.plain_bytes"}  # which scan_words calls
            if run == "first":
                assert kernels_in(cache) == listed(expected)
    assert kernels_in(cache) == listed(expected)
    assert said[:3] == said[3:]
    assert (tmp_path / "first.parquet").read_bytes() == (tmp_path / "second.parquet").read_bytes()


@compiled_only
def test_a_helper_compiles_as_well_and_has_ended(tmp_path):
    alone = "compiling._compile = lambda queue, names: None"  # so that a helper does it all
    assert ahead(tmp_path, before=alone) == "[0] [True, True, True]\n"
    assert kernels_in(tmp_path) == listed(SMALL)
    assert ahead(tmp_path) == "[] [True, True, True]\n"  # there is nothing left


@compiled_only
@pytest.mark.unwatched  # a process that takes itself for Windows breaks what measures coverage
@pytest.mark.parametrize(
    ("before", "processes", "ended"),
    [
        ("sys.executable = '/nowhere/python'", 2, []),
        ("sys.executable = '/bin/false'", 3, [1, 1]),
        ("import os; os.name = 'nt'", 2, None),
        ("", 1, None),
    ],
)
def test_without_helpers_kernels_are_compiled_here_or_when_they_are_called(tmp_path, before, processes, ended):
    expected = f"{ended or []} {[ended is not None] * 2}\n"
    found = ahead(tmp_path, before=before, processes=processes, names=SMALL[:2])
    assert found.removeprefix("Compiling") == expected


@compiled_only
def test_two_first_runs_at_once_are_both_right(tmp_path):
    running = [python(AHEAD.format(before="", processes=2, names=SMALL), tmp_path) for _ in range(2)]
    assert [run.communicate()[0][-21:] for run in running] == ["] [True, True, True]\n"] * 2
    assert kernels_in(tmp_path) == listed(SMALL)


@compiled_only
def test_a_folder_that_can_not_be_written_is_no_error():
    code = "import numpy as np; from bayesgram.private.csr import in_order as f; print(f(*np.zeros((2, 1), np.int32)))"
    assert python(code, "/dev/null/kernels").communicate()[0] == "True\n"


def test_a_helper_ends_when_nobody_waits_for_it():
    queue, filled = os.pipe()
    os.write(filled, b"\0\1")
    compiling._compile(queue, SMALL, lambda: False)
    assert os.read(queue, 2) == b"\0\1"
    os.close(queue)
    os.close(filled)


def test_numba_is_loaded_by_the_first_call():
    code = (
        "import sys, numpy as np\n"
        "from bayesgram.private import clip\nfrom bayesgram.private.csr import in_order\n"
        "print('numba' in sys.modules); in_order(*np.zeros((2, 1), np.int32)); print('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", str(not AS_PYTHON)]


def test_kernels_travel_by_their_names():
    assert pickle.loads(pickle.dumps(in_order)) is in_order
    assert in_order(np.array([0, 0], np.int32), ngrams=np.array([1, 2], np.int32))
