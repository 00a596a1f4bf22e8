"""The door itself: what is refused before a ledger is charged, and what an audit is given."""

from dataclasses import dataclass

import numpy as np
import pytest

from bayesgram.errors import UsageError
from bayesgram.io.segments import Segments
from bayesgram.mechanisms import publish
from bayesgram.mechanisms.base import Randomness
from bayesgram.mechanisms.gaussian import Gaussian
from bayesgram.mechanisms.laplace import Laplace, LaplacePublic
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.paper.algorithm_1 import Paper
from bayesgram.paper.k_anonymity import KAnonymity
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.ledger import Ledger
from bayesgram.private.counts import SegmentedCounts
from helpers import reference_paper
from helpers.recording_noise import RecordingNoise

BUDGET = Budget(0.5, 1e-7)
COUNTS = reference_paper.make_user_counts(np.array([[3, 0, 1], [0, 2, 0], [1, 1, 1]]))
VOCABULARY = reference_paper.make_vocabulary([9, 4, 2])


@pytest.mark.parametrize(
    ("mechanism", "seed", "message"),
    [
        (Gaussian(), 3, "seed=3: a seeded release is not private, so no ledger is charged"),
        (Paper(), None, "mechanism=paper: labelled EMPIRICAL, so no ledger can be charged for it"),
        (
            KAnonymity(2),
            None,
            "mechanism=k-anonymity: labelled NONE, so no ledger can be charged for it",
        ),
    ],
)
def test_what_no_ledger_can_be_charged_for_is_refused_and_the_ledger_stays(
    tmp_path, mechanism, seed, message
):
    ledger = Ledger.create(tmp_path / "app.ledger", population="p", budget=Budget(1, 1e-6))
    before = ledger.path.read_bytes()
    with pytest.raises(UsageError, match=message):
        publish.release(COUNTS, VOCABULARY, mechanism, BUDGET, seed=seed, ledger=ledger)
    assert ledger.path.read_bytes() == before


def test_a_release_that_is_charged_to_a_ledger_needs_a_folder_to_be_saved_in(tmp_path):
    ledger = Ledger.create(tmp_path / "app.ledger", population="p", budget=Budget(1, 1e-6))
    before = ledger.path.read_bytes()
    with pytest.raises(UsageError, match="give `output`, the folder to save it in"):
        publish.release(COUNTS, VOCABULARY, Gaussian(), BUDGET, ledger=ledger)
    assert ledger.path.read_bytes() == before


def test_a_dry_run_without_a_ledger_has_nothing_left_to_tell():
    checked = publish.dry_run(COUNTS, VOCABULARY, Gaussian(), BUDGET)
    assert checked.spend is not None
    assert checked.remaining_epsilon is None


OTHERS = reference_paper.make_user_counts(np.array([[900, 0, 0], [0, 0, 70]]))
NOBODY = reference_paper.make_user_counts(np.zeros((0, 3), np.int64))
PUBLIC = {"epsilon": 0.5, "vocabulary": VOCABULARY.fingerprint, "unit": "a post"}


@pytest.mark.parametrize("people", [COUNTS, OTHERS, NOBODY], ids=["some", "others", "nobody"])
@pytest.mark.parametrize("make", [Posterior, Gaussian, Laplace, LaplacePublic])
def test_an_entry_of_a_ledger_says_what_is_public_and_nothing_of_people(tmp_path, people, make):
    """Everybody who publishes reads the ledger, and its last hash is written down elsewhere."""
    ledger = Ledger.create(tmp_path / "app.ledger", population="p", budget=Budget(9, 1e-3))
    mechanism, options = make(), {"ledger": ledger, "output": tmp_path / "out", "unit": "a post"}
    budget = Budget(0.5, BUDGET.delta if mechanism.default_delta else 0.0)
    publish.release(people, VOCABULARY, mechanism, budget, **options)
    (entry,) = ledger.read().reservations
    told = {"mechanism": mechanism.name, "delta": budget.delta, "output": str(tmp_path / "out")}
    assert entry.description == {**PUBLIC, **told}
    assert entry.spend == mechanism.spend(VOCABULARY, budget)


def test_so_does_an_entry_for_segments(tmp_path):
    ledger = Ledger.create(tmp_path / "app.ledger", population="p", budget=Budget(9, 1e-3))
    for people in (COUNTS, OTHERS):
        flat = reference_paper.make_user_counts(np.eye(len(people.users), 6, 1, dtype=int))
        counts = SegmentedCounts(flat, Segments("country", ("de", "fr")))
        options = {"ledger": ledger, "output": tmp_path / "out", "force": True, "unit": "a post"}
        publish.release(counts, VOCABULARY, Posterior(), BUDGET, **options)
    expected = {
        **PUBLIC,
        "mechanism": "posterior",
        "delta": BUDGET.delta,
        "output": str(tmp_path / "out"),
    }
    assert [entry.description for entry in ledger.read().reservations] == [expected] * 2


@pytest.mark.parametrize("mechanism", [Paper(), KAnonymity(2)])
def test_an_audit_is_given_the_whole_output_where_nothing_is_said_to_be_post_processing(mechanism):
    budget = None if isinstance(mechanism, KAnonymity) else BUDGET
    measured, whole = (
        ask(COUNTS, VOCABULARY, budget, Randomness(RecordingNoise(), 5))
        for ask in (mechanism.measure, mechanism.estimate)
    )
    assert measured.theta.tolist() == whole.theta.tolist()


@dataclass(frozen=True)
class Interrupted(Gaussian):
    """Stops when noise is to be drawn."""

    def estimate(self, *_):
        raise KeyboardInterrupt


def test_a_release_that_is_lost_names_the_entry_that_stays_spent(tmp_path):
    ledger = Ledger.create(tmp_path / "app.ledger", population="p", budget=Budget(1, 1e-6))
    told = []
    with pytest.raises(KeyboardInterrupt) as caught:
        out = tmp_path / "out"
        publish.release(
            COUNTS,
            VOCABULARY,
            Interrupted(),
            BUDGET,
            ledger=ledger,
            output=out,
            on_reserved=told.append,
        )
    assert told == [1]
    assert caught.value.__notes__ == [
        f"The release is lost, and entry 1 of {ledger.path} stays spent."
    ]
    assert [entry.number for entry in ledger.read().reservations] == [1]
