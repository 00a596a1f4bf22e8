"""A sample of `make faults`: calls that fail and kills, over all commands, and what every command
promises then.
"""

import random
from dataclasses import replace

import pytest

from faults.harness import COMPILER, ERRORS, Fault, open_laboratory
from faults.run import KILL, kills_at_instants, list_faults
from faults.scenarios import SCENARIOS

pytestmark = pytest.mark.skipif(not COMPILER, reason="faults need Linux and a C compiler (cc)")


def test_a_sample_of_faults_and_kills_breaks_no_promise(tmp_path):
    """One after the other in one test: what is loaded for it takes some seconds."""
    rng = random.Random(7)
    with open_laboratory(tmp_path) as lab:
        planned = []
        for scenario in SCENARIOS:
            faults = list(list_faults(scenario, lab.references[scenario.name], [*ERRORS, KILL]))
            planned += rng.sample(faults, 6 if scenario.charges else 2)
        planned += kills_at_instants(lab.references, 6, rng)
        for scenario, fault in planned:
            outcome = lab.attempt(scenario, fault)
            assert not outcome.problems, (scenario.name, fault, outcome)
        _check_that_a_broken_promise_is_noticed(lab)
        _check_that_spent_budget_is_reported(lab)


def _check_that_a_broken_promise_is_noticed(lab):
    """With a bug planted, the same checks must fail."""
    export = next(scenario for scenario in SCENARIOS if scenario.name == "export tsv")
    untidy = replace(export, settings={"bayesgram.io.atomic._remove": "lambda folder: None"})
    assert "left behind" in str(lab.attempt(untidy, Fault("fsync", 2)).problems)
    hasty = {"bayesgram.io.atomic._new_path": "lambda aside, target: aside.parent / target.name"}
    assert "not whole" in str(
        lab.attempt(replace(export, settings=hasty), Fault("write", 3, stays=True)).problems
    )


def _check_that_spent_budget_is_reported(lab):
    release = next(scenario for scenario in SCENARIOS if scenario.charges)
    writes = lab.references[release.name].counts["write"]
    outcomes = [lab.attempt(release, Fault("write", at)) for at in (1, writes // 2, writes)]
    assert [outcome.problems for outcome in outcomes] == [()] * 3
    assert "ledger" not in outcomes[0].message  # the output is tried before any budget is spent
    assert (
        "is lost, and entry 7 of app.ledger (ε = 0.5, δ = 1e-07) stays spent: see `bayesgram ledger"
        in outcomes[1].message
    )
    assert (
        "release is in made, and entry 7 of app.ledger (ε = 0.5, δ = 1e-07) is spent for it"
        in outcomes[2].message
    )
