"""The engines by name, for the command line."""

from enum import StrEnum


class EngineName(StrEnum):
    """Where the counting runs."""

    LOCAL = "local"
    SPARK = "spark"
