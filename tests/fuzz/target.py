"""What is fuzzed: a name, seeds, a way to change them, and an oracle.

An input is bytes. An oracle returns if the input was read and what was read is right, and lets a
`BayesgramError` through if it was refused; anything else it raises is a finding, and so is a
message that holds private text.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from bayesgram.errors import BayesgramError
from fuzz.mutations import SECRET, mutated

UNREADABLE = (
    pa.ArrowException,
    OSError,
    ValueError,
    MemoryError,
    KeyError,
)  # what Arrow says of a damaged file
MOST_ROWS = 100_000
MEMORY = Path("/dev/shm")
CORPUS = Path(__file__).parent / "corpus"


class Wrong(Exception):  # noqa: N818 - a finding, as in "this is wrong"
    """An answer that is not right: text lost in silence, a sum that is not 1, a secret in a
    message.
    """


@dataclass(frozen=True)
class Target:
    """One kind of input."""

    name: str
    share: int  # of a round: how many inputs
    made: Callable[[], Sequence[bytes]]  # valid inputs
    check: Callable[
        [bytes, Path], None
    ]  # with a folder to write to, which may hold what earlier inputs left there
    mutate: Callable[[Random, Sequence[bytes]], bytes] = lambda random, seeds: mutated(
        random, random.choice(seeds), seeds
    )

    @property
    def seeds(self) -> Sequence[bytes]:
        """What is made, and what is kept."""
        return _seeds(self)

    def kept(self) -> Iterator[Path]:
        """The files of the corpus."""
        return iter(sorted((CORPUS / self.name).glob("*")))

    def input(self, seed: str, number: int) -> bytes:
        """The same bytes for the same seed and number."""
        return self.mutate(Random(f"{seed}/{self.name}/{number}"), self.seeds)

    def run(self, data: bytes, folder: Path) -> bool:
        """Whether an input is read (True) or refused; anything else is raised."""
        try:
            self.check(data, folder)
        except BayesgramError as error:
            check_message(error)
            return False
        return True


@cache
def _seeds(target: Target) -> Sequence[bytes]:
    return [*target.made(), *(path.read_bytes() for path in target.kept())]


PUBLIC = ("the columns are", "this file has", "tokenizer=")  # names of columns and of tokenizers


def check_message(error: BaseException | None) -> None:
    """Refuse a message that holds private text, also in what a traceback would show below it."""
    while error is not None:
        text = str(error)
        if SECRET in text and not any(public in text for public in PUBLIC):
            raise Wrong(f"a message holds private text: {text}")
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def must(right: bool, problem: str) -> None:
    """An oracle's assertion."""
    if not right:
        raise Wrong(problem)


def says_too_much(path: Path) -> bool:
    """Whether a small Parquet file says, and may even hold, so many equal rows that they take
    minutes: no fault.
    """
    try:
        return bool(pq.read_metadata(path).num_rows > MOST_ROWS)
    except UNREADABLE:
        return False


def scratch(inside: Path = MEMORY) -> tempfile.TemporaryDirectory[str]:
    """A folder in memory, where the system has one."""
    return tempfile.TemporaryDirectory(
        prefix="bayesgram-fuzz-", dir=inside if inside.is_dir() else None
    )
