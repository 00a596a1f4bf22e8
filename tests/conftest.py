"""Settings for all tests."""

import os

import pytest

from helpers.hypothesis_profiles import load_profile

# What takes longest comes first: of two processes, none is left with it while the other has nothing
# to do.
FIRST = (
    "tests/spark/test_spark.py",
    "tests/cli/test_commands.py",
    "tests/cli/test_stopped_runs.py",
    "tests/test_docs.py",
    "tests/faults/",
)

# As the command line does: two test processes share two cores. It is read when NumPy is loaded, so
# nothing here loads it before.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# The same examples every time, or thousands of random ones: make explore.
load_profile()


def pytest_collection_modifyitems(items):
    """Put the long ones first, and leave the others in their order."""
    items.sort(
        key=lambda item: next(
            (at for at, name in enumerate(FIRST) if name in item.nodeid), len(FIRST)
        )
    )


@pytest.fixture(scope="module", params=["sorted", "hashed"])
def sorted_and_hashed(request):
    """The n-grams of short text are sorted; and also hashed, as those of long text are."""
    from bayesgram.text import ngrams

    with pytest.MonkeyPatch.context() as patch:
        if request.param == "hashed":
            patch.setattr(ngrams, "MOST_TOKENS", -1)
        yield
