"""The paper of 2021 (Ramadan, Withers, Orr) in one place: its mechanisms and its experiments.

For comparison and research only: what is EMPIRICAL or has no guarantee is not for publication.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayesgram.paper.algorithm_1 import Paper as Paper
    from bayesgram.paper.algorithm_2 import Grid as Grid
    from bayesgram.paper.algorithm_2 import TunedPaper as TunedPaper
    from bayesgram.paper.k_anonymity import KAnonymity as KAnonymity

__all__ = ["Grid", "KAnonymity", "Paper", "TunedPaper"]

# Where the public names live; each is loaded when it is first used.
_HOMES = {
    "Grid": "algorithm_2",
    "KAnonymity": "k_anonymity",
    "Paper": "algorithm_1",
    "TunedPaper": "algorithm_2",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    from importlib import import_module  # noqa: PLC0415

    if name in _HOMES:
        return getattr(import_module(f"bayesgram.paper.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'bayesgram.paper' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
