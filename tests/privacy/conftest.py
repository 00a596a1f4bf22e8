"""Ledgers to look at: a new one, and one that was used."""

import shutil

import pytest

from bayesgram.privacy.budget import Budget
from bayesgram.privacy.ledger import Ledger
from helpers.ledger_files import SMALL_SPEND


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "app.ledger", population="app users", budget=Budget(1, 1e-6))


@pytest.fixture(scope="session")
def once(tmp_path_factory):
    """Four reservations, the second of them published: five entries."""
    path = tmp_path_factory.mktemp("once") / "app.ledger"
    ledger = Ledger.create(path, population="app users", budget=Budget(1, 1e-6))
    for number in range(1, 5):
        ledger.reserve(SMALL_SPEND, {"mechanism": "laplace", "output": f"out-{number}"})
    ledger.complete(2)
    return path


@pytest.fixture
def used(once, tmp_path):
    return Ledger.open(shutil.copy(once, tmp_path / "app.ledger"))
