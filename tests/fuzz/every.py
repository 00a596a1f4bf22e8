"""All targets, in one list."""

from fuzz import ledgers, models, pages, readers, tables, texts
from fuzz.target import Target


def every_target() -> list[Target]:
    """What is fuzzed, in the order of a round."""
    return [
        target
        for module in (readers, texts, tables, models, ledgers, pages)
        for target in module.targets()
    ]
