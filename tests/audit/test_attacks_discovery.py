"""An attacker who plants a phrase: of one user, of as many as the level asks for, of many; and doors left open."""

from dataclasses import replace

import numpy as np
import pytest

from bayesgram.audit.attacks import Canary, discovery_attack
from bayesgram.errors import UsageError
from bayesgram.mechanisms.discovery import DiscoveryMechanism
from helpers import discovery_data
from helpers.discovery_data import PUBLIC, make_mechanism, rows_of_people

ERROR = 0.01  # noise is from a seed, so an accident would be the same every time
OTHERS = discovery_data.make_table(
    rows_of_people(60, "people like zog") + rows_of_people(3, "it blip", name="other")
)


def found_by(the_mechanism, writers, runs=100):
    return discovery_attack(
        the_mechanism,
        PUBLIC,
        OTHERS,
        Canary("wham", writers),
        np.random.default_rng(3),
        error=ERROR,
        runs=runs,
        seeded=True,
    )


def with_level(the_mechanism, level):
    return DiscoveryMechanism(
        the_mechanism.settings,
        the_mechanism.budget,
        replace(the_mechanism.threshold, level=level, floor=0.0),
    )


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("writers", [1, 29, 200])
def test_a_phrase_of_one_of_as_many_as_it_takes_and_of_many_gives_nobody_away(rounds, writers):
    """The level is about 30: of 29 people the last matters most."""
    finding = found_by(make_mechanism(rounds, orders=[1]), writers)
    assert not finding.refutes_claim
    assert finding.epsilon <= 1
    count = int(finding.sentence.split("came out of ")[1].split()[0])
    assert {1: count == 0, 29: 15 < count < 85, 200: count == 100}[writers], count


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_level_without_its_part_of_delta_is_caught(rounds):
    """As low as one user reaches: what only one wrote comes out in half of all discoveries, and never without them."""
    finding = found_by(with_level(make_mechanism(rounds, orders=[1]), 1.0), writers=1, runs=200)
    assert finding.refutes_claim
    assert finding.delta > 0.1
    assert finding.epsilon > 1


def test_of_people_fewer_than_at_least_nothing_comes_out_noise_aside():
    finding = found_by(make_mechanism(2, orders=[1], at_least=100), writers=60)
    assert "came out of 0 of 100 discoveries with the user and of 0 without" in finding.sentence
    assert not finding.refutes_claim


@pytest.mark.parametrize(("writers", "runs"), [(0, 10), (1, 7)])
def test_attacks_that_show_nothing_are_refused(writers, runs):
    with pytest.raises(UsageError):
        found_by(make_mechanism(2, orders=[1]), writers, runs)


def test_real_noise_is_attacked_too():
    finding = discovery_attack(
        make_mechanism(2, orders=[1]),
        PUBLIC,
        OTHERS,
        Canary("wham", 1),
        np.random.default_rng(3),
        error=ERROR,
        runs=8,
    )
    assert not finding.refutes_claim
