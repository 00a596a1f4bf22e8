"""The door itself: what is refused before a ledger is charged, and what an audit is given."""

from dataclasses import dataclass

import numpy as np
import pytest

import reference
from bayesgram.errors import UsageError
from bayesgram.mechanisms import base
from bayesgram.mechanisms.base import Randomness
from bayesgram.mechanisms.gaussian import Gaussian
from bayesgram.mechanisms.k_anonymity import KAnonymity
from bayesgram.mechanisms.paper import Paper
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.ledger import Ledger
from recording import RecordingNoise

BUDGET = Budget(0.5, 1e-7)
COUNTS = reference.user_counts(np.array([[3, 0, 1], [0, 2, 0], [1, 1, 1]]))
VOCABULARY = reference.vocabulary([9, 4, 2])


@pytest.mark.parametrize(
    ("mechanism", "seed", "message"),
    [
        (Gaussian(), 3, "seed=3: a seeded release is not private, so no ledger is charged"),
        (Paper(), None, "mechanism=paper: labelled EMPIRICAL, so no ledger can be charged for it"),
        (KAnonymity(2), None, "mechanism=k-anonymity: labelled NONE, so no ledger can be charged for it"),
    ],
)
def test_what_no_ledger_can_be_charged_for_is_refused_and_the_ledger_stays(tmp_path, mechanism, seed, message):
    ledger = Ledger.create(tmp_path / "app.ledger", population="p", budget=Budget(1, 1e-6))
    before = ledger.path.read_bytes()
    with pytest.raises(UsageError, match=message):
        base.release(COUNTS, VOCABULARY, mechanism, BUDGET, seed=seed, ledger=ledger)
    assert ledger.path.read_bytes() == before


@pytest.mark.parametrize("mechanism", [Paper(), KAnonymity(2)])
def test_an_audit_is_given_the_whole_output_where_nothing_is_said_to_be_post_processing(mechanism):
    budget = None if isinstance(mechanism, KAnonymity) else BUDGET
    measured, whole = (
        ask(COUNTS, VOCABULARY, budget, Randomness(RecordingNoise(), 5))
        for ask in (mechanism.measure, mechanism.distribution)
    )
    assert measured.theta.tolist() == whole.theta.tolist()


@dataclass(frozen=True)
class Interrupted(Gaussian):
    """Stops when noise is to be drawn."""

    def distribution(self, *_):
        raise KeyboardInterrupt


def test_a_release_that_is_lost_names_the_entry_that_stays_spent(tmp_path):
    ledger = Ledger.create(tmp_path / "app.ledger", population="p", budget=Budget(1, 1e-6))
    told = []
    with pytest.raises(KeyboardInterrupt) as caught:
        out = tmp_path / "out"
        base.release(COUNTS, VOCABULARY, Interrupted(), BUDGET, ledger=ledger, output=out, on_reserved=told.append)
    assert told == [1]
    assert caught.value.__notes__ == [f"The release is lost, and entry 1 of {ledger.path} stays spent."]
    assert [entry.number for entry in ledger.read().reservations] == [1]
