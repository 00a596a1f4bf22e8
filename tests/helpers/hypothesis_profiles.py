"""How many examples a property test gets: always the same ones, or thousands at random.

`make test` runs the number that a test names, and the same examples each time, so that a run tells
about the code alone. `make explore` sets `BAYESGRAM_EXPLORE=2000`: then every property gets at
least 2,000 random examples, and more where its test names more than 100. A test says how many by
`@examples(150)`, and never by `settings(max_examples=…)`, which exploring could not raise;
`test_exploring.py` checks that.

`conftest.py` calls `load_profile` before any test module is imported. Both functions read the
environment, so it does not matter which is imported first.
"""

import os

from hypothesis import HealthCheck, settings

EXPLORE_VARIABLE = "BAYESGRAM_EXPLORE"
DEFAULT_EXAMPLES = 100  # hypothesis' own number of examples, where a test names none
LEAST, MOST = 100, 1_000_000


def explored_examples() -> int | None:
    """The number of random examples of each property, or None for the fixed ones.

    Raises:
        ValueError: If the variable is set to anything but a whole number from 100 to 1,000,000.
    """
    text = os.environ.get(EXPLORE_VARIABLE, "")
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or not LEAST <= int(text) <= MOST:
        raise ValueError(
            f"{EXPLORE_VARIABLE}={text!r}: a whole number from {LEAST} to {MOST} is needed, such as 2000"
        )
    return int(text)


def example_count(fixed: int) -> int:
    """The number of examples of a test that names `fixed`: as many, or when exploring the larger of
    N and N·fixed/100.
    """
    explored = explored_examples()
    return fixed if explored is None else max(explored, explored * fixed // DEFAULT_EXAMPLES)


def examples(fixed: int) -> settings:
    """Settings of one property test: `fixed` examples in `make test`, thousands in `make explore`."""
    return settings(max_examples=example_count(fixed))


def load_profile() -> None:
    """Make the examples of all tests fixed, or random if the environment says so."""
    settings.register_profile("fixed", derandomize=True, deadline=None)
    settings.register_profile(
        "explore",
        derandomize=False,
        max_examples=example_count(DEFAULT_EXAMPLES),
        deadline=None,
        print_blob=True,  # what failed comes with a line that repeats it
        suppress_health_check=[HealthCheck.too_slow],  # a shared machine may stall
    )
    settings.load_profile("fixed" if explored_examples() is None else "explore")
