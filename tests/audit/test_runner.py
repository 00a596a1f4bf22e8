"""The verdict, its files and its picture."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bayesgram.audit import runner
from bayesgram.audit.findings import Audit, AuditFinding, TradeOffCurve
from bayesgram.audit.likelihood_ratio import choose_neighbours
from bayesgram.choices import Attack
from bayesgram.errors import UsageError
from bayesgram.mechanisms.gaussian import Gaussian
from bayesgram.mechanisms.laplace import Laplace
from bayesgram.paper.algorithm_1 import Paper
from bayesgram.paper.k_anonymity import KAnonymity
from bayesgram.privacy.budget import Budget, Guarantee
from helpers import attack_targets
from helpers.modes import has_mode

LAWS = (Attack.LIKELIHOOD_RATIO, Attack.SCALE)


def verdict(*findings, epsilon=0.1, delta=1e-6):
    return Audit("paper", Guarantee.EMPIRICAL, {}, epsilon, delta, 0.99, findings)


def finding(delta=None, epsilon=None, *, refutes_claim=True, curve=None):
    return AuditFinding(
        "scale",
        "somebody",
        refutes_claim,
        "two runs gave the same noise twice",
        delta,
        epsilon,
        10,
        curve,
    )


def test_the_verdict_is_one_line():
    claim = "claimed ε = 0.1 at δ = 1e-06 (EMPIRICAL); "
    found = verdict(finding(0.2), finding(0.47), finding(0.9, refutes_claim=False))
    assert found.verdict == claim + "an attacker provably gets δ = 0.47: NOT private"
    assert (
        verdict(finding(0.0, 0.31)).verdict
        == claim + "an attacker provably gets ε = 0.31: NOT private"
    )
    assert verdict(finding()).verdict == claim + "two runs gave the same noise twice: NOT private"
    quiet = verdict(finding(1e-7, refutes_claim=False))
    assert (
        quiet.verdict
        == claim + "no attack tried here found a violation (99% confidence): not a proof"
    )
    assert (found.refutes_claim, quiet.refutes_claim) == (True, False)
    assert (
        verdict(epsilon=None, delta=None).verdict
        == "paper claims no ε (EMPIRICAL): there is nothing to refute"
    )


def test_bounds_are_rounded_down():
    assert "δ = 0.9999:" in verdict(finding(0.99999999)).verdict


def test_json_holds_all_but_the_curves_that_are_not_drawn():
    curves = [TradeOffCurve([0.0], [miss]) for miss in (0.4, 0.5, 0.6)]
    labels = ("without somebody", "without another", "with a user")
    findings = [
        replace(finding(0.3 - at / 10, curve=curves[at]), neighbour=labels[at]) for at in range(3)
    ]
    told = verdict(*findings, finding(0.9)).to_json()
    assert told["trade_offs"] == {
        "scale, without somebody": {"false_alarms": [0.0], "misses": [0.4]},
        "scale, with a user": {"false_alarms": [0.0], "misses": [0.6]},
    }
    assert [item["delta"] for item in told["findings"]] == pytest.approx([0.3, 0.2, 0.1, 0.9])
    assert "curve" not in told["findings"][0]
    assert told["warning"].startswith("computed from private data")
    json.dumps(told, allow_nan=False)


def test_an_audit_of_the_paper_and_its_folder(tmp_path):
    found = runner.run_audit(attack_targets.make_target(Paper(max_total=600)), LAWS, seed=1)
    assert found.refutes_claim
    assert found.verdict.startswith(
        "claimed ε = 0.1 at δ = 1e-06 (EMPIRICAL); an attacker provably gets δ = 0."
    )
    runner.save_audit(found, tmp_path / "out")
    assert has_mode(tmp_path / "out", 0o700)
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(runner.CONTENTS)
    written = (tmp_path / "out" / "audit.json").read_text(encoding="utf-8")
    assert json.loads(written)["verdict"] == found.verdict
    assert not any(
        f'u{user}"' in written or f"u{user} " in written for user in range(2000)
    )  # nobody is named
    picture = (tmp_path / "out" / "trade-off.svg").read_text(encoding="utf-8")
    assert "NOT private" in picture
    assert len(picture) < 200_000


def test_a_seed_repeats_an_audit():
    target = attack_targets.make_target(
        Laplace(10), attack_targets.zipf_counts(users=60, size=80), Budget(0.5)
    )
    assert runner.run_audit(target, LAWS, seed=1) == runner.run_audit(target, LAWS, seed=1)
    assert runner.run_audit(target, LAWS, seed=1) != runner.run_audit(target, LAWS, seed=2)


def test_every_attack_runs_and_steps_are_told():
    """Leaks looks at real noise, whatever the seed: at 99% it would be wrong once in 1,400 runs."""
    steps = []

    class Step:
        def __init__(self, label):
            steps.append(label)

        def __enter__(self):
            return None

        def __exit__(self, *_):
            return None

    target = attack_targets.make_target(
        Laplace(10), attack_targets.zipf_counts(users=60, size=80), Budget(0.5)
    )
    found = runner.run_audit(target, tuple(Attack), confidence=1 - 1e-6, runs=20, seed=2, step=Step)
    assert not found.refutes_claim
    assert {item.attack for item in found.findings} == set(Attack)
    assert steps[0] == "Taking likelihood ratios"
    assert steps[1:] == [f"Trying {name}" for name in Attack if name not in LAWS]


def test_k_anonymity_claims_nothing_but_can_expose():
    matrix = attack_targets.zipf_counts(users=60, size=80)
    matrix[:, 40:] = 0
    target = attack_targets.make_target(KAnonymity(1), matrix, None)
    assert runner.run_audit(target, (Attack.EXPOSURE,), seed=1).verdict.startswith(
        "k-anonymity claims no ε (NONE)"
    )
    with pytest.raises(
        UsageError,
        match=r"^mechanism=k-anonymity: claims no ε, so no attack can refute it; try exposure\.$",
    ):
        runner.run_audit(target, (Attack.ONE_RUN,), seed=1)


def test_attacks_by_name():
    assert runner.parse_attacks(None) == runner.DEFAULT_ATTACKS
    assert runner.parse_attacks("leaks,scale,leaks") == (Attack.LEAKS, Attack.SCALE)
    with pytest.raises(
        UsageError,
        match=r"^attacks='magic': choose from likelihood-ratio, scale, .*, separated by commas\.$",
    ):
        runner.parse_attacks("scale,magic")


def test_what_the_claim_allows():
    alarms = np.linspace(0, 1, 11)
    allowed = runner.allowed_misses(alarms, 0.5, 0.01)
    ideal = np.array(runner.ideal_trade_off(0.5, 0.01).misses)[::20]
    assert (
        allowed <= ideal + 1e-12
    ).all()  # Gaussian noise keeps the claim it is made for, and no more than just
    fine = np.array(runner.ideal_trade_off(0.5, 0.01).misses)
    assert (fine - runner.allowed_misses(np.linspace(0, 1, 201), 0.5, 0.01)).min() < 1e-3


def test_neighbours_are_called_by_what_makes_them_special():
    matrix = np.array([[1, 1, 0, 0], [9, 0, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0]])
    found = choose_neighbours(
        attack_targets.make_target(Gaussian(), matrix),
        random_users=4,
        key=1,
        rng=np.random.default_rng(1),
    )
    labels = {item.user: item.label for item in found if item.user is not None}
    assert labels[1] == "without the user with the largest norm"
    assert labels[2] == "without the user with the rarest n-grams"
    assert labels[0] == labels[3] == "without a user at random"
    added = [item for item in found if item.row is not None]
    assert [item.label for item in added] == [
        "with a user who has every n-gram once",
        "with a user who has an n-gram of their own",
        "with a user who has one n-gram 1,000,000 times",
    ]
    assert [item.row[0].tolist() for item in added] == [[0, 1, 2, 3], [3], [0]]
    nobody = choose_neighbours(
        attack_targets.make_target(Gaussian(), np.zeros((0, 3), int)),
        random_users=4,
        key=1,
        rng=np.random.default_rng(1),
    )
    assert [item.user for item in nobody] == [None, None, None]


def test_the_sources_name_no_user():
    """Findings are words of this project and numbers: no source of the audit reads an id."""
    for path in Path(runner.__file__).parent.glob("*.py"):
        assert "counts.users[" not in path.read_text(encoding="utf-8"), path
