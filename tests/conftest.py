"""Settings for all tests."""

import os

import pytest

from helpers.hypothesis_profiles import load_profile

# Folders and files whose tests run whole commands, servers, a browser, Spark, or minutes of numbers.
# `make check` leaves them out.
SLOW = (
    "tests/audit/",
    "tests/cli/",
    "tests/demo/",
    "tests/faults/",
    "tests/fuzz/",
    "tests/io/test_warehouses.py",
    "tests/mutants/",
    "tests/paper/",
    "tests/spark/",
    "tests/web/",
    "tests/test_docs.py",
    "tests/test_exploring.py",
    "tests/test_file_formats.py",
    "tests/test_kernels.py",
    "tests/test_notebook.py",
    "tests/test_starting.py",
    "tests/test_wheel.py",
)

# As the command line does: two test processes share two cores. It is read when NumPy is loaded, so
# nothing here loads it before.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# The same examples every time, or thousands of random ones: make explore.
load_profile()


def pytest_collection_modifyitems(items):
    """Mark slow tests by the file that they are in."""
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="module", params=["sorted", "hashed"])
def sorted_and_hashed(request):
    """The n-grams of short text are sorted; and also hashed, as those of long text are."""
    from bayesgram.text import ngrams

    with pytest.MonkeyPatch.context() as patch:
        if request.param == "hashed":
            patch.setattr(ngrams, "MOST_TOKENS", -1)
        yield
