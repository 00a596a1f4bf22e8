"""Ledger files with other bytes in them.

Such a file is refused, and is then the same file as before; or it holds what the original held, to
the last entry (bytes that SQLite does not use may differ), and can be charged.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random
from unittest import mock

from bayesgram.errors import BayesgramError
from bayesgram.privacy.accounting import Spend
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.ledger import Ledger
from bayesgram.privacy.ledger_io import read_ledger
from fuzz.mutations import TOKENS, mutated
from fuzz.target import Target, check_message, must, scratch

TENTH = Spend(pure_epsilon=0.1)
PAGE = 4096


@cache
def originals() -> list[tuple[bytes, object]]:
    """Ledgers of no entry and of some, and what they hold; the same in every process, so that
    inputs are too.
    """
    found = []
    now = mock.patch(
        "bayesgram.privacy.ledger._now", return_value="2025-01-01T00:00:00+00:00", create=True
    )
    with scratch() as folder, now, mock.patch("secrets.token_hex", lambda size: "a1" * size):
        for entries in (0, 1, 6):
            path = Path(folder) / f"{entries}.ledger"
            ledger = Ledger.create(path, population="app users", budget=Budget(2, 1e-6))
            for number in range(entries):
                ledger.reserve(TENTH, {"mechanism": "laplace", "output": f"out-{number}"})
            found.append((path.read_bytes(), read_ledger(path)))
    return found


def changed(random: Random, seeds: Sequence[bytes]) -> bytes:
    """Mostly single bytes, where there are some: much of a page of SQLite is empty."""
    data = random.choice(seeds)
    if random.random() < 0.1:
        return mutated(random, data[:PAGE], seeds) + data[PAGE:]
    used = [at for at, byte in enumerate(data) if byte]
    content = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        at = random.choice(used) if random.random() < 0.9 else random.randrange(len(content))
        match random.randrange(4):
            case 0:
                content[at] ^= 1 << random.randrange(8)
            case 1:
                content[at] = random.randrange(256)
            case 2:
                token = random.choice(TOKENS)[:40]
                content[at : at + len(token)] = token
            case _:
                content[at : at + 1] = bytes([content[at] + 1 & 255])
    if random.random() < 0.05:
        content = content[: random.randrange(len(content))]
    return bytes(content[: len(data)])


def check_ledger(data: bytes, folder: Path) -> None:
    path = folder / "x.ledger"
    for left in folder.glob("x.ledger*"):
        left.unlink()
    path.write_bytes(data)
    try:
        found = read_ledger(path)
    except BayesgramError as error:
        check_message(error)
        must(path.read_bytes() == data, "a ledger that was refused was changed")
        raise
    must(
        found in [contents for _, contents in originals()],
        "another ledger was read, without a word",
    )
    ledger = Ledger.open(path)
    number = ledger.reserve(TENTH, {"mechanism": "laplace"})
    after = ledger.read()
    must(
        (number, after.last_number) == (found.last_number + 1,) * 2,
        "the new entry has another number",
    )
    must(after.reservations[:-1] == found.reservations, "earlier entries were changed")


def targets() -> Iterator[Target]:
    """Ledgers."""
    yield Target("ledger", 15, lambda: [data for data, _ in originals()], check_ledger, changed)
