"""Run an audit: attack a mechanism in every way asked for, and write down the findings.

In: a target and names of attacks. Out: an `Audit`; on disk audit.json and, where an attack has a
trade-off curve, its chart. The folder is private (mode 0700): its numbers are computed from private
data without noise. `load_attacks` reads such a folder for a report.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bayesgram.arrays import Floats
from bayesgram.audit.attacks import (
    black_box_attack,
    exposure_attack,
    leaks_attack,
    membership_attack,
    one_run_attack,
)
from bayesgram.audit.findings import (
    Audit,
    AuditFinding,
    AuditTarget,
    TradeOffCurve,
    check_confidence,
    claimed_budget,
)
from bayesgram.audit.likelihood_ratio import likelihood_ratio_attack
from bayesgram.audit.series_attack import (
    SERIES_ATTACKS,
    SeriesTarget,
    check_series_runs,
    describe_settings,
    series_black_box_attack,
    series_likelihood_ratio_attack,
)
from bayesgram.charts import Drawing, Series, add_title, printable
from bayesgram.charts import save as save_chart
from bayesgram.choices import Attack
from bayesgram.errors import BayesgramError, UsageError, check_int
from bayesgram.io.atomic import write_folder_atomically
from bayesgram.io.formats import check_format, read_json
from bayesgram.mechanisms.base import CountsMechanism
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.privacy.budget import MAX_EPSILON, Budget
from bayesgram.reports.pictures import draw_attack_curves
from bayesgram.reports.report import AuditSummary

# --- Running ---

DEFAULT_ATTACKS = (Attack.LIKELIHOOD_RATIO, Attack.SCALE, Attack.ONE_RUN, Attack.LEAKS)
LIKELIHOOD_ATTACKS = (Attack.LIKELIHOOD_RATIO, Attack.SCALE)  # one function, which shares the work

Step = Callable[[str], AbstractContextManager[None]]


def run_audit(
    target: AuditTarget,
    attacks: Sequence[Attack] = DEFAULT_ATTACKS,
    *,
    confidence: float = 0.99,
    runs: int = 200,
    seed: int | None = None,
    step: Step = lambda _: nullcontext(),
) -> Audit:
    """Attack a mechanism.

    Args:
        target: The mechanism, its data and the claimed budget.
        attacks: Which attacks to try; they share the probability of error equally.
        confidence: The probability that any bound is wrong is at most 1 − confidence.
        runs: Releases of each dataset for black-box, pairs for membership.
        seed: Repeats everything but the clock and the real noise that leaks looks at.
        step: Called with a label; returns a context that holds while that step runs.
    """
    check_audit(target.mechanism, target.budget, attacks, confidence=confidence, runs=runs)
    rng = np.random.default_rng(seed)
    error = (1 - confidence) / len(attacks)
    findings: list[AuditFinding] = []
    likelihood_attacks = [attack for attack in attacks if attack in LIKELIHOOD_ATTACKS]
    if likelihood_attacks:
        with step("Taking likelihood ratios"):
            findings += likelihood_ratio_attack(
                target, likelihood_attacks, rng, error=error * len(likelihood_attacks)
            )
    for attack in attacks:
        if attack not in LIKELIHOOD_ATTACKS:
            with step(f"Trying {attack}"):
                findings += _run_attack(attack, target, rng, error, runs, seeded=seed is not None)
    mechanism = target.mechanism
    epsilon, delta = mechanism.check_budget(target.budget)
    return Audit(
        mechanism=mechanism.name,
        guarantee=mechanism.guarantee,
        settings=mechanism.settings(),
        epsilon=epsilon,
        delta=delta,
        confidence=confidence,
        findings=tuple(findings),
    )


def check_audit(
    mechanism: CountsMechanism,
    budget: Budget | None,
    attacks: Sequence[Attack],
    *,
    confidence: float,
    runs: int,
) -> None:
    """Refuse arguments with which nothing can be audited, before any data is read.

    Args:
        mechanism: What is attacked.
        budget: The claimed budget.
        attacks: Which attacks to try.
        confidence: How sure all bounds together must be.
        runs: Outputs of each dataset.
    """
    _check_confidence_and_runs(confidence, runs)
    if set(attacks) - {Attack.EXPOSURE}:
        claimed_budget(mechanism, budget)


def _check_confidence_and_runs(confidence: float, runs: int) -> None:
    check_confidence(confidence)
    check_int("runs", runs, 8, 10**6, "the number of outputs of each dataset")


def _run_attack(
    attack: Attack,
    target: AuditTarget,
    rng: np.random.Generator,
    error: float,
    runs: int,
    *,
    seeded: bool,
) -> list[AuditFinding]:
    if attack is Attack.MEMBERSHIP:
        return membership_attack(target, rng, error=error, pairs=runs)
    if attack is Attack.BLACK_BOX:
        return black_box_attack(target, rng, error=error, releases=runs, seeded=seeded)
    if attack is Attack.ONE_RUN:
        return one_run_attack(target, rng, error=error)
    if attack is Attack.EXPOSURE:
        return exposure_attack(target, rng, error=error, seeded=seeded)
    return leaks_attack(target, rng, error=error)


def run_series_audit(
    target: SeriesTarget,
    attacks: Sequence[Attack] = LIKELIHOOD_ATTACKS,
    *,
    confidence: float = 0.99,
    runs: int = 200,
    seed: int | None = None,
    step: Step = lambda _: nullcontext(),
) -> Audit:
    """Attack a series of releases by users who take part in chosen weeks.

    Args:
        target: The series, and what everybody else writes.
        attacks: Which of SERIES_ATTACKS to try; they share the probability of error equally.
        confidence: The probability that any bound is wrong is at most 1 − confidence.
        runs: Series in each world, for black-box.
        seed: Repeats everything, the noise included.
        step: Called with a label; returns a context that holds while that step runs.
    """
    check_series_audit(attacks, confidence=confidence, runs=runs)
    rng = np.random.default_rng(seed)
    error = (1 - confidence) / len(attacks)
    findings: list[AuditFinding] = []
    likelihood_attacks = [attack for attack in attacks if attack in LIKELIHOOD_ATTACKS]
    if likelihood_attacks:
        with step("Taking likelihood ratios"):
            findings += series_likelihood_ratio_attack(
                target, likelihood_attacks, rng, error=error * len(likelihood_attacks)
            )
    if Attack.BLACK_BOX in attacks:
        with step(f"Trying {Attack.BLACK_BOX}"):
            findings += series_black_box_attack(
                target, rng, error=error, runs=runs, seeded=seed is not None
            )
    return Audit(
        mechanism=f"{Posterior.name}, a series of {target.settings.releases} releases",
        guarantee=Posterior.guarantee,
        settings=describe_settings(target),
        epsilon=target.settings.epsilon,
        delta=target.settings.delta,
        confidence=confidence,
        findings=tuple(findings),
    )


def check_series_audit(attacks: Sequence[Attack], *, confidence: float, runs: int) -> None:
    """Refuse arguments with which no series can be audited, before any data is read.

    Args:
        attacks: Which attacks to try.
        confidence: How sure all bounds together must be.
        runs: Series in each world.
    """
    _check_confidence_and_runs(confidence, runs)
    if Attack.BLACK_BOX in attacks:
        check_series_runs(runs)
    for attack in attacks:
        if attack not in SERIES_ATTACKS:
            raise UsageError.for_argument(
                "attacks",
                repr(str(attack)),
                f"can't attack a series; choose from {', '.join(SERIES_ATTACKS)}.",
            )


def parse_attacks(
    text: str | None, default: tuple[Attack, ...] = DEFAULT_ATTACKS
) -> tuple[Attack, ...]:
    """Parse names of attacks that are separated by commas; None is the default.

    >>> parse_attacks("scale, leaks")
    (<Attack.SCALE: 'scale'>, <Attack.LEAKS: 'leaks'>)
    """
    if text is None:
        return default
    names = [part.strip() for part in text.split(",")]
    for name in names:
        if name not in set(Attack):
            raise UsageError.for_argument(
                "attacks", repr(name), f"choose from {', '.join(Attack)}, separated by commas."
            )
    return tuple(dict.fromkeys(Attack(name) for name in names))


# --- The chart of the trade-off ---

CLAIM_LINE = "the claim: nothing may lie below"
IDEAL_LINE = "Gaussian noise made for the claim"
ATTACK_COLOURS = ("red", "blue")  # none of those that stand for a guarantee


def allowed_misses(false_alarms: Floats, epsilon: float, delta: float) -> Floats:
    """Return the fewest misses that (ε, δ)-DP allows for each rate of false alarms.

    Args:
        false_alarms: Rates of false alarms.
        epsilon: The claimed ε.
        delta: The claimed δ.

    >>> allowed_misses(np.array([0.0, 0.5, 1.0]), 0.0, 0.1).tolist()
    [0.9, 0.4, 0.0]
    """
    lines = [
        1 - delta - np.exp(epsilon) * false_alarms,
        np.exp(-epsilon) * (1 - delta - false_alarms),
        np.zeros_like(false_alarms),
    ]
    fewest: Floats = np.maximum.reduce(lines)
    return fewest


def ideal_trade_off(epsilon: float, delta: float) -> TradeOffCurve:
    """Return the trade-off of Gaussian noise that is just (ε, δ)-DP."""
    from dp_accounting import get_sigma_gaussian  # noqa: PLC0415 - 1 s

    return TradeOffCurve.from_gaussian(1 / get_sigma_gaussian(epsilon, delta))


def draw_trade_off(audit: Audit) -> Drawing:
    """Draw false alarms against misses, for the strongest attacks and for what the claim allows.

    The diagonal is blind guessing; an attack through the corner at 0 knows everything.
    """
    epsilon = audit.epsilon or 0.0
    delta = audit.delta or 0.0
    curves = [
        _trade_off_series(f"{finding.attack}, {finding.neighbour}", finding.curve, colour)
        for finding, colour in zip(audit.findings_to_draw, ATTACK_COLOURS, strict=False)
        if finding.curve
    ]
    claim = _claimed_limit(epsilon, delta)
    curves.append(claim)
    if delta:
        ideal = _trade_off_series(IDEAL_LINE, ideal_trade_off(epsilon, delta), "PROVED")
        curves.append(replace(ideal, look="dashed"))
    drawing = draw_attack_curves(curves, forbidden=replace(claim, colour="red"))
    title = "What an attacker gets, and what the claim allows"
    return add_title(drawing, title, [audit.mechanism, audit.verdict])


def _trade_off_series(name: str, curve: TradeOffCurve, colour: str) -> Series:
    return Series(curve.false_alarms, curve.misses, name, colour, dots="none")


def _claimed_limit(epsilon: float, delta: float) -> Series:
    """Return the edge of what a claim allows."""
    false_alarms = np.linspace(0, 1, 201)
    misses = allowed_misses(false_alarms, epsilon, delta)
    return Series(false_alarms.tolist(), misses.tolist(), CLAIM_LINE, "ink", dots="none")


# --- The folder of an audit ---

FORMAT = 1
AUDIT_FILE = "audit.json"
CONTENTS = (AUDIT_FILE, "trade-off.svg", "trade-off.png")
REPORTED_FIELDS = ("attack", "neighbour", "caught", "sentence")


def save_audit(audit: Audit, path: Path, *, force: bool = False) -> None:
    """Write a private folder with audit.json and the trade-off of the strongest attacks.

    Args:
        audit: The findings.
        path: The folder.
        force: Whether an earlier audit is replaced.
    """
    with write_folder_atomically(path, contents=CONTENTS, force=force, private=True) as folder:
        document = json.dumps(
            {"format": FORMAT, **audit.to_json()}, indent=2, ensure_ascii=False, allow_nan=False
        )
        (folder / AUDIT_FILE).write_text(document + "\n", encoding="utf-8", newline="\n")
        if audit.findings_to_draw:
            save_chart(draw_trade_off(audit), folder / "trade-off")


def load_attacks(path: Path) -> AuditSummary:
    """Read what a report shows of an audit folder.

    Raises:
        UsageError: If it is not such a folder, or of another version.
        BayesgramError: If audit.json is damaged.
    """
    file = path / AUDIT_FILE
    if not file.is_file():
        raise UsageError(
            f"{path}: not an audit folder (no {file.name}); make one with"
            " `bayesgram audit … -o FOLDER`."
        )
    try:
        document = read_json(file)
        check_format(path, "an audit", document["format"], FORMAT)
        return AuditSummary(
            name=printable(str(path)),
            mechanism=str(document["mechanism"]),
            guarantee=str(document["guarantee"]),
            epsilon=_parse_claimed(document["epsilon"], MAX_EPSILON),
            delta=_parse_claimed(document["delta"], 1.0),
            verdict=str(document["verdict"]),
            refutes_claim=bool(document["caught"]),
            findings=[
                {field: finding[field] for field in REPORTED_FIELDS}
                for finding in document["findings"]
            ],
            curves=_parse_curves(document),
        )
    except UsageError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        raise BayesgramError(f"{path}: the audit is damaged; audit again.") from None


def _parse_claimed(value: object, largest: float) -> float | None:
    """Return the claimed ε or δ; None where nothing is claimed."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= largest:
        raise ValueError("not a number that can be claimed")
    return float(value)


def _parse_curve(name: str, curve: dict[str, Any], colour: str) -> Series:
    false_alarms = list(map(float, curve["false_alarms"]))
    misses = list(map(float, curve["misses"]))
    if len(false_alarms) != len(misses) or not all(
        0 <= rate <= 1 for rate in false_alarms + misses
    ):
        raise ValueError("not a trade-off")
    return Series(false_alarms, misses, name, colour, dots="none")


def _parse_curves(document: dict[str, Any]) -> list[Series]:
    """Return the curves that the audit saved, and the edge of what its claim allows."""
    saved = document["trade_offs"].items()
    curves = [
        _parse_curve(name, curve, colour)
        for (name, curve), colour in zip(saved, ATTACK_COLOURS, strict=False)
    ]
    if not curves or document["epsilon"] is None:
        return []
    return [*curves, _claimed_limit(float(document["epsilon"]), float(document["delta"]))]
