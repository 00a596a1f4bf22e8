"""Settings for all tests."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command line does: two test processes share two cores
