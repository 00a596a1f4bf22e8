"""The ledger of a discovery: what is charged, when, and what stays spent."""

import pytest

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.mechanisms import base
from bayesgram.mechanisms.discovery import (
    DiscoveryData,
    LocalText,
    Settings,
    discover,
    make_mechanism,
)
from bayesgram.mechanisms.publish import dry_run
from bayesgram.privacy.accounting import Spend, fits
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.ledger import Ledger
from bayesgram.privacy.ledger_io import read_ledger
from bayesgram.privacy.noise import ExactNoise
from bayesgram.privacy.unit import DEFAULT_UNIT
from bayesgram.public.discovered_ngrams import Discovery
from helpers import discovery_data
from helpers.discovery_data import BUDGET, MANY_PEOPLE, MEMORY, PUBLIC, rows_of_people


class Watching(ExactNoise):
    """Looks into the ledger whenever noise is asked for."""

    def __init__(self, path):
        self.path, self.norm_histogram = path, []

    def discrete_gaussian(self, values, *, scale):
        self.norm_histogram.append([entry.spend for entry in read_ledger(self.path).reservations])
        return super().discrete_gaussian(values, scale=scale)


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_discovery_is_on_disk_before_any_of_its_noise_is_drawn(rounds, tmp_path, monkeypatch):
    ledger = Ledger.create(tmp_path / "a.ledger", population="p", budget=BUDGET)
    noise = Watching(ledger.path)
    monkeypatch.setattr(base, "ExactNoise", lambda: noise)
    out = tmp_path / "out"
    found = discover(
        discovery_data.make_table(MANY_PEOPLE),
        discovery_data.make_vocabulary(),
        BUDGET,
        rounds=rounds,
        ledger=ledger,
        output=out,
    )
    told = {"population": "p", "ledger": ledger.identity, "entry": 1}
    assert found.card.ledger == {**told, "epsilon": BUDGET.epsilon, "delta": BUDGET.delta}
    assert Discovery.load(out).card == found.card
    assert found.vocabulary.origins.claims[-1].ledger == ledger.identity
    assert [entry.published for entry in ledger.read().reservations] == [True]
    left = Settings.for_vocabulary(discovery_data.make_vocabulary(), rounds=rounds).calibrate(
        BUDGET,
        Ledger.create(tmp_path / "b.ledger", population="p", budget=BUDGET).check_discovery(),
    )
    assert noise.norm_histogram == [[left.spend]] * rounds
    assert left.spend.failure > 0
    assert not fits([left.spend] * 2, BUDGET)  # that was all of it


def test_another_discovery_has_what_is_left_and_no_more(tmp_path):
    ledger = Ledger.create(tmp_path / "a.ledger", population="p", budget=BUDGET)
    for name in ("first", "second"):
        budget, out = Budget(0.6, 5e-8), tmp_path / name
        discover(
            discovery_data.make_table(MANY_PEOPLE),
            discovery_data.make_vocabulary(),
            budget,
            rounds=2,
            ledger=ledger,
            output=out,
        )
    assert fits(ledger.read().spends, BUDGET)
    assert len(ledger.read().spends) == 2


def test_a_discovery_that_fails_after_the_reservation_stays_spent(tmp_path, monkeypatch):
    ledger = Ledger.create(tmp_path / "a.ledger", population="p", budget=BUDGET)

    def broken(*_arguments, **_options):
        raise BayesgramError("no noise today")

    monkeypatch.setattr(ExactNoise, "discrete_gaussian", broken)
    with pytest.raises(BayesgramError, match="no noise today") as error:
        out = tmp_path / "out"
        discover(
            discovery_data.make_table(MANY_PEOPLE),
            discovery_data.make_vocabulary(),
            BUDGET,
            rounds=2,
            ledger=ledger,
            output=out,
        )
    assert not out.exists()
    assert "stays spent" in str(error.value.__notes__)
    assert [entry.published for entry in ledger.read().reservations] == [False]
    assert ledger.read().spends[0].failure > 0


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_discovery_that_can_t_be_read_spends_nothing(rounds, tmp_path):
    ledger = Ledger.create(tmp_path / "a.ledger", population="p", budget=BUDGET)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1, but no more")
    with pytest.raises(BayesgramError):
        discover(
            tmp_path / "broken.parquet",
            discovery_data.make_vocabulary(),
            BUDGET,
            rounds=rounds,
            ledger=ledger,
        )
    assert ledger.read().last_number == 0


def test_a_discovery_is_refused_where_the_first_entry_was_a_release(tmp_path, monkeypatch):
    ledger = Ledger.create(tmp_path / "a.ledger", population="p", budget=BUDGET)
    ledger.reserve(Spend.gaussian(100.0), {"mechanism": "gaussian"})
    noise = Watching(ledger.path)
    monkeypatch.setattr(base, "ExactNoise", lambda: noise)
    with pytest.raises(BayesgramError):
        out = tmp_path / "out"
        discover(
            discovery_data.make_table(MANY_PEOPLE),
            discovery_data.make_vocabulary(),
            Budget(0.1, 1e-8),
            ledger=ledger,
            output=out,
        )
    assert noise.norm_histogram == []
    assert ledger.read().last_number == 1


@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize(
    ("unit", "noted"), [(None, DEFAULT_UNIT), ("a user's week", "a user's week")]
)
def test_an_entry_says_for_which_unit_it_is(rounds, unit, noted, tmp_path):
    """So that what is charged for another unit later is refused: (ε, δ) of both don't add up."""
    ledger = Ledger.create(tmp_path / "a.ledger", population="p", budget=BUDGET)
    half = Budget(BUDGET.epsilon / 2, BUDGET.delta / 2)
    options = {"rounds": rounds, "ledger": ledger}
    found = discover(
        discovery_data.make_table(MANY_PEOPLE),
        discovery_data.make_vocabulary(),
        half,
        unit=unit,
        **options,
        output=tmp_path / "a",
    )
    assert [entry.unit for entry in ledger.read().reservations] == [noted]
    assert ledger.read().unit == noted
    assert found.card.unit == unit
    with pytest.raises(UsageError, match="unit"):
        other = tmp_path / "b"
        discover(
            discovery_data.make_table(MANY_PEOPLE),
            discovery_data.make_vocabulary(),
            half,
            unit="a post",
            **options,
            output=other,
        )
    assert len(ledger.read().reservations) == 1


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("memory", [1, 1 << 28])
@pytest.mark.parametrize("text", ["the red fish", "", ". . ."])
def test_where_nobody_has_a_candidate_nothing_is_found_and_the_price_is_the_same(
    text, memory, rounds, tmp_path
):
    """Whether anybody wrote anything new is what a discovery must not tell: not by an error, either."""
    ledger = Ledger.create(tmp_path / "a.ledger", population="p", budget=BUDGET)
    said, options = rows_of_people(30, text), {"rounds": rounds, "memory": memory, "ledger": ledger}
    found = discover(
        discovery_data.make_table(said),
        discovery_data.make_vocabulary(),
        BUDGET,
        **options,
        output=tmp_path / "a",
    )
    assert (len(found), found.card.guarantee.name) == (0, "PROVED")
    assert (
        found.vocabulary.ngrams.to_pylist() == discovery_data.make_vocabulary().ngrams.to_pylist()
    )
    other = Ledger.create(tmp_path / "b.ledger", population="p", budget=BUDGET)
    options |= {"ledger": other, "output": tmp_path / "b"}
    discover(
        discovery_data.make_table(MANY_PEOPLE), discovery_data.make_vocabulary(), BUDGET, **options
    )
    assert ledger.read().spends == other.read().spends


def test_a_dry_run_of_a_discovery_claims_and_costs_what_the_discovery_does(tmp_path):
    """By the same checks as a release: it follows none, and its own budget is what it claims."""
    ledger = Ledger.create(tmp_path / "a.ledger", population="p", budget=BUDGET)
    budget = Budget(0.6, 5e-8)
    vocabulary = PUBLIC.vocabulary
    settings = Settings.for_vocabulary(vocabulary, rounds=2)
    mechanism = make_mechanism(settings, budget, vocabulary, seed=None, ledger=ledger, unit=None)
    data = DiscoveryData(LocalText(discovery_data.make_records(MANY_PEOPLE), MEMORY), PUBLIC)
    planned = dry_run(data, vocabulary, mechanism, budget, ledger=ledger)
    assert ledger.read().spends == []
    table = discovery_data.make_table(MANY_PEOPLE)
    options = {"rounds": 2, "ledger": ledger, "output": tmp_path / "out"}
    found = discover(table, vocabulary, budget, **options)
    assert ledger.read().spends == [planned.spend]
    assert (planned.epsilon, planned.delta) == (found.card.epsilon, found.card.delta)
    assert (planned.mechanism, planned.guarantee) == ("discovery", found.card.guarantee.name)
    left = ledger.read().remaining_gaussian_epsilon()
    assert planned.to_json()["ledger"]["left_then_gaussian_epsilon"] == left
