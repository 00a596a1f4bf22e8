"""Commands that are stopped, and the first run of all."""

import os
import signal
import subprocess
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers import discovery_data
from helpers.commands import PROGRAM, bayesgram, check_output


@pytest.mark.posix("signals from another process")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGKILL"])
def test_a_stopped_run_leaves_nothing_or_is_cleaned_up_by_the_next(tmp_path, name):
    number = signal.Signals[name]
    running = subprocess.Popen(
        [PROGRAM, "generate", "--users", "3000000", "-o", "made"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    while running.poll() is None and not any(tmp_path.iterdir()):
        time.sleep(0.05)
    time.sleep(0.5)
    running.send_signal(number)
    _, told = running.communicate(timeout=60)
    if number == signal.SIGKILL:
        assert [path.name.startswith(".made.unfinished-") for path in tmp_path.iterdir()] == [True]
        check_output("generate", "--users", 5, "--sentences", 5, "-o", "made", cwd=tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["made"]
    else:
        assert running.returncode == 128 + number
        assert f"error: stopped by {signal.Signals(number).name}; no output was written." in told
        assert list(tmp_path.iterdir()) == []


@pytest.mark.posix("signals from another process")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", ["vocab", "count"])
def test_reading_stops_soon_when_told_to(tmp_path, command, number):
    """A gigabyte of text in a small file, read, cut and numbered by several threads when the signal comes."""
    long = pa.DictionaryArray.from_arrays(
        np.zeros(1_000_000, np.int32), pa.array(["so it goes on and on " * 50])
    )
    pq.write_table(
        pa.table({"user": np.arange(len(long)), "text": long}), tmp_path / "text.parquet"
    )
    more = ["--vocab", "vocab.parquet"] if command == "count" else []
    discovery_data.make_vocabulary().save(tmp_path / "vocab.parquet")
    running = subprocess.Popen(
        [PROGRAM, command, "text.parquet", *more, "-o", "made"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    while running.poll() is None and not list(tmp_path.glob(".bayesgram-scratch-*")):
        time.sleep(0.05)
    time.sleep(1)
    running.send_signal(number)
    _, told = running.communicate(timeout=60)
    assert running.returncode == 128 + number
    assert f"error: stopped by {signal.Signals(number).name}; no output was written." in told
    assert {path.name for path in tmp_path.iterdir()} == {"text.parquet", "vocab.parquet"}


def test_the_first_run_says_that_it_compiles_and_the_second_has_nothing_to(tmp_path):
    (tmp_path / "public.txt").write_text("a rose is a rose is a rose\n")
    compiled, said = [], []
    for name in ("one", "two"):
        before = set((tmp_path / "kernels").rglob("*.nbc"))
        done = bayesgram(
            "vocab",
            "public.txt",
            "-o",
            name,
            cwd=tmp_path,
            NUMBA_CACHE_DIR=str(tmp_path / "kernels"),
        )
        assert done.returncode == 0, done.stderr
        compiled.append(len({*(tmp_path / "kernels").rglob("*.nbc")} - before))
        said.append(done.stderr.count("Compiling inner loops"))
    assert compiled[0] > 5
    assert compiled[1] == 0
    assert said == [1, 0]
