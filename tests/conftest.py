"""Settings for all tests."""

import os

from hypothesis import settings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command line does: two test processes share two cores

# The same examples every time, so that a run tells about the code alone. To look for new ones:
#   pytest --hypothesis-profile explore
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=1000, deadline=None)
settings.load_profile("fixed")
