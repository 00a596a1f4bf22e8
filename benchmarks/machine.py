"""Which machine and which versions the numbers are from."""

import os
import platform
from pathlib import Path
from typing import Any

from measure import CommandFailedError, run

PACKAGES = (
    "bayesgram",
    "numba",
    "numpy",
    "scipy",
    "pyarrow",
    "polars",
    "duckdb",
    "scikit-learn",
    "opendp",
    "pipeline-dp",
)
ASK = """
import importlib.metadata as m, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = m.version(name)
    except m.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


def machine() -> dict[str, Any]:
    """The processor, its cores, the memory and the system."""
    return {
        "processor": _field("/proc/cpuinfo", "model name") or platform.processor() or "unknown",
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
    }


def versions(ours: Path, *peers: Path) -> dict[str, dict[str, str]]:
    """What is installed in each environment that is there."""
    found = {}
    for name, python in zip(
        ("Bayesgram", "tables", "OpenDP", "PipelineDP"), (ours, *peers), strict=True
    ):
        try:
            found[name] = run([str(python), "-c", ASK, *PACKAGES]).said if python.exists() else {}
        except CommandFailedError:
            found[name] = {}
    return found


def _field(path: str, name: str) -> str:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")
