"""Settings for all tests."""

import os

import pytest

from helpers.hypothesis_profiles import load_profile
from helpers.without_posix import remove_posix

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
    "tests/test_systems.py",
    "tests/test_wheel.py",
)

# What needs POSIX as a whole, by the reason; single tests are marked where they stand.
NEED_POSIX = {
    "tests/faults/": "a shim before the C library",
    "tests/fuzz/": "fork",
    "tests/mutants/": "patch",
    "tests/spark/": "fork",
    "tests/test_starting.py": "fork",
}

# As the command line does: two test processes share two cores. It is read when NumPy is loaded, so
# nothing here loads it before.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# The same examples every time, or thousands of random ones: make explore.
load_profile()


if os.environ.get("BAYESGRAM_WITHOUT_POSIX"):
    import _pytest.tmpdir

    _pytest.tmpdir.get_user_id = lambda: None  # it asks for the name of the system
    remove_posix()


def pytest_collection_modifyitems(items):
    """Mark slow tests by the file that they are in, and skip those that this system can't run."""
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)
        if not hasattr(os, "fork"):
            marks = item.iter_markers("posix")
            reasons = [
                reason for path, reason in NEED_POSIX.items() if item.nodeid.startswith(path)
            ]
            for reason in [*reasons, *(mark.args[0] for mark in marks)]:
                item.add_marker(pytest.mark.skip(reason=f"needs POSIX: {reason}"))


@pytest.fixture(scope="module", params=["sorted", "hashed"])
def sorted_and_hashed(request):
    """The n-grams of short text are sorted; and also hashed, as those of long text are."""
    from bayesgram.text import ngrams

    with pytest.MonkeyPatch.context() as patch:
        if request.param == "hashed":
            patch.setattr(ngrams, "MOST_TOKENS", -1)
        yield
