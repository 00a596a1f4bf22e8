"""How long a piece of work took, and the most memory the process held meanwhile."""

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass
class Cost:
    """Filled in when the work is done."""

    seconds: float = 0.0
    peak_bytes: int = 0


@contextmanager
def metered() -> Iterator[Cost]:
    """Measure the block. Where the system can't start the peak anew, it is that of the process so far."""
    with suppress(OSError):
        RESET.write_text("5")  # Linux: the highest resident size starts again from now
    cost, start = Cost(), perf_counter()
    yield cost
    cost.seconds, cost.peak_bytes = perf_counter() - start, _peak()


def _peak() -> int:
    with suppress(OSError, StopIteration):
        line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
