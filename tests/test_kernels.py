"""Kernels run as Python answer what they answer compiled: so what coverage sees of them is what people run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.kernels import AS_PYTHON, kernel, mix, read_uint64
from helpers import kernel_answers

TESTS = Path(__file__).parent


@kernel
def _load(data, at):
    return read_uint64(data, at)


@pytest.mark.skipif(AS_PYTHON, reason="there is nothing to compare with")
def test_kernels_as_python_give_the_same_answers():
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(TESTS)}
    words = [sys.executable, "-m", "helpers.kernel_answers"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    others, ours = json.loads(done.stdout), json.loads(json.dumps(kernel_answers.answers()))
    assert others.keys() == ours.keys()
    for name in ours:
        assert others[name] == ours[name], name


@given(st.binary(min_size=8, max_size=40), st.data())
def test_eight_bytes_are_a_number_with_the_first_lowest(content, data):
    at = data.draw(st.integers(0, len(content) - 8))
    assert int(_load(np.frombuffer(content, np.uint8), at)) == int.from_bytes(
        content[at : at + 8], "little"
    )


@given(st.integers(0, 2**64 - 1))
def test_bits_are_mixed_as_splitmix64_does(value):
    expected = value
    for shift, factor in [(30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)]:
        expected = (expected ^ expected >> shift) * factor % 2**64
    assert int(mix(np.uint64(value))) == expected


KERNEL = """
import logging, numpy as np
logging.basicConfig(level=logging.INFO, format="%(message)s")
from bayesgram.inference.noisy_counts import per_word
print(per_word(np.array([[1], [1]], np.int32), np.array([2.0, 3.0]), 3).astype(int))
"""


@pytest.mark.skipif(AS_PYTHON, reason="nothing is compiled")
def test_a_kernel_is_compiled_once_and_a_message_says_so(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", KERNEL]
    runs = [
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert [run.stdout for run in runs] == ["[0 5 0]\n"] * 2
    assert [run.stderr.count("Compiling inner loops") for run in runs] == [1, 0]
