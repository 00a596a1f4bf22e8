"""The picture of an audit: what the strongest attacks get, against what the claim allows.

Attack a mechanism in every way asked for, and write down what was found.

In:  a target and names of attacks.   Out: an `Audit`; on disk audit.json and, where there is a curve, its picture.
The folder is private (mode 0700): its numbers are read from private data without noise.

The private numbers that a report shows when it is asked to: KL of each release by order, and what audits found.

In:  private counts and releases; audit folders.   Out: what `released.report` draws. Every number here is a disclosure.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bayesgram.arrays import Floats
from bayesgram.audit import black_box, exposure, leaks, likelihood_ratio, membership, one_run
from bayesgram.audit.evaluation import kl_divergence, totals_for
from bayesgram.audit.findings import Audit, Curve, Finding, Target, check_confidence, claim_of
from bayesgram.charts import Drawing, Series, add_title, printable
from bayesgram.charts import save as save_chart
from bayesgram.choices import Attack
from bayesgram.errors import Argument, BayesgramError, UsageError, check_int
from bayesgram.io.atomic import write_folder_atomically
from bayesgram.io.formats import check_format, read_json
from bayesgram.mechanisms.base import Mechanism
from bayesgram.privacy.budget import MAX_EPSILON, Budget
from bayesgram.private.counts import PrivateCounts, SegmentedCounts
from bayesgram.releases.release import Release
from bayesgram.reports.figures import draw_trade_off
from bayesgram.reports.report import AuditSummary, Score
from bayesgram.text.ngrams import distinct_orders

CLAIM, IDEAL = "the claim: nothing may lie below", "Gaussian noise made for the claim"
ATTACK_COLOURS = ("red", "blue")  # none of those that say what an ε is worth


def allowed_misses(alarms: Floats, epsilon: float, delta: float) -> Floats:
    """The fewest misses that (ε, δ)-DP allows for a rate of false alarms.

    >>> allowed_misses(np.array([0.0, 0.5, 1.0]), 0.0, 0.1).tolist()
    [0.9, 0.4, 0.0]
    """
    lines = [
        1 - delta - np.exp(epsilon) * alarms,
        np.exp(-epsilon) * (1 - delta - alarms),
        np.zeros_like(alarms),
    ]
    fewest: Floats = np.maximum.reduce(lines)
    return fewest


def ideal(epsilon: float, delta: float) -> Curve:
    """The trade-off of Gaussian noise that is just (ε, δ)-DP."""
    from dp_accounting import get_sigma_gaussian  # noqa: PLC0415 - 1 s

    return Curve.gaussian(1 / get_sigma_gaussian(epsilon, delta))


def trade_off(audit: Audit) -> Drawing:
    """Draw false alarms against misses: the diagonal is blind guessing, the corner at 0 knows everything."""
    epsilon = audit.epsilon or 0.0
    delta = audit.delta or 0.0
    attacks = [finding for finding in audit.drawn if finding.curve]
    curves = [
        _series(f"{finding.attack}, {finding.neighbour}", finding.curve, colour)
        for finding, colour in zip(attacks, ATTACK_COLOURS, strict=False)
        if finding.curve
    ]
    claim = _claimed_limit(epsilon, delta)
    curves.append(claim)
    if delta:
        curves.append(_series(IDEAL, ideal(epsilon, delta), "PROVED", "dashed"))
    drawing = draw_trade_off(curves, forbidden=replace(claim, colour="red"))
    title = "What an attacker gets, and what the claim allows"
    return add_title(drawing, title, [audit.mechanism, audit.line])


def _series(
    name: str, curve: Curve, colour: str, look: Literal["line", "dashed"] = "line"
) -> Series:
    return Series(curve.false_alarms, curve.misses, name, colour, look, dots="none")


def _claimed_limit(epsilon: float, delta: float) -> Series:
    """The edge of what a claim allows."""
    alarms = np.linspace(0, 1, 201)
    misses = allowed_misses(alarms, epsilon, delta)
    return Series(alarms.tolist(), misses.tolist(), CLAIM, "ink", dots="none")


FORMAT = 1
CONTENTS = ("audit.json", "trade-off.svg", "trade-off.png")
DEFAULT = (Attack.LIKELIHOOD_RATIO, Attack.SCALE, Attack.ONE_RUN, Attack.LEAKS)
LAWS = (Attack.LIKELIHOOD_RATIO, Attack.SCALE)  # share the work

Step = Callable[[str], AbstractContextManager[None]]


def audit(
    target: Target,
    attacks: Sequence[Attack] = DEFAULT,
    *,
    confidence: float = 0.99,
    runs: int = 200,
    seed: int | None = None,
    step: Step = lambda _: nullcontext(),
) -> Audit:
    """All attacks; the chance that any of their bounds is wrong is at most 1 − confidence.

    `runs`: releases of each dataset for black-box, pairs for membership. A seed repeats everything but the clock and
    the real noise that leaks looks at.
    """
    check(target.mechanism, target.budget, attacks, confidence=confidence, runs=runs)
    rng = np.random.default_rng(seed)
    error = (1 - confidence) / len(attacks)
    findings: list[Finding] = []
    laws = [name for name in attacks if name in LAWS]
    if laws:
        with step("Taking likelihood ratios"):
            findings += likelihood_ratio.attack(target, laws, rng, error=error * len(laws))
    for name in attacks:
        if name not in LAWS:
            with step(f"Trying {name}"):
                findings += _attack(name, target, rng, error, runs, seeded=seed is not None)
    mechanism = target.mechanism
    epsilon, delta = mechanism.check_budget(target.budget)
    about = mechanism.name, mechanism.guarantee, mechanism.settings()
    return Audit(*about, epsilon, delta, confidence, tuple(findings))


def check(
    mechanism: Mechanism,
    budget: Budget | None,
    attacks: Sequence[Attack],
    *,
    confidence: float,
    runs: int,
) -> None:
    """Refuse what can't be audited so, before anything is read."""
    check_confidence(confidence)
    check_int("runs", runs, 8, 10**6, "the number of outputs of each dataset")
    if set(attacks) - {Attack.EXPOSURE}:
        claim_of(mechanism, budget)


def _attack(
    name: Attack, target: Target, rng: np.random.Generator, error: float, runs: int, *, seeded: bool
) -> list[Finding]:
    if name is Attack.MEMBERSHIP:
        return membership.attack(target, rng, error=error, pairs=runs)
    if name is Attack.BLACK_BOX:
        return black_box.attack(target, rng, error=error, releases=runs, seeded=seeded)
    if name is Attack.ONE_RUN:
        return one_run.attack(target, rng, error=error)
    if name is Attack.EXPOSURE:
        return exposure.attack(target, rng, error=error, seeded=seeded)
    return leaks.attack(target, rng, error=error)


def chosen(text: str | None) -> tuple[Attack, ...]:
    """Attacks by name, separated by commas.

    >>> chosen("scale, leaks")
    (<Attack.SCALE: 'scale'>, <Attack.LEAKS: 'leaks'>)
    """
    if text is None:
        return DEFAULT
    names = [part.strip() for part in text.split(",")]
    for name in names:
        if name not in set(Attack):
            raise UsageError.for_argument(
                "attacks", repr(name), f"choose from {', '.join(Attack)}, separated by commas."
            )
    return tuple(dict.fromkeys(Attack(name) for name in names))


def save(found: Audit, path: Path, *, force: bool = False) -> None:
    """A private folder with audit.json and the trade-off of the strongest attacks."""
    with write_folder_atomically(path, contents=CONTENTS, force=force, private=True) as folder:
        document = json.dumps(
            {"format": FORMAT, **found.to_json()}, indent=2, ensure_ascii=False, allow_nan=False
        )
        (folder / CONTENTS[0]).write_text(document + "\n", encoding="utf-8")
        if found.drawn:
            save_chart(trade_off(found), folder / "trade-off")


FINDING = ("attack", "neighbour", "caught", "sentence")


def scores(
    counts: PrivateCounts | SegmentedCounts,
    releases: Sequence[tuple[str, Release]],
    public: Floats | None,
) -> list[Score]:
    """KL of public text, where it is known, and of every release, each order by itself; orders nobody wrote are out.

    A release of a segment is judged by the people of that segment, and is left out where there are none.
    """
    everybody, orders = totals_for(counts), releases[0][1].orders
    written = [totals_for(counts, release) for _, release in releases]
    present = [order for order in distinct_orders(orders) if everybody[orders == order].any()]
    if not present:
        raise BayesgramError(
            "the private counts are empty: there is nothing to compare with; leave ",
            Argument("against"),
            " out.",
        )
    found: list[Score] = []
    for order in present:
        rows = orders == order
        if public is not None:
            nobody = ("public text alone", "no private data", "PROVED", 0.0, 0.0)
            found.append(
                Score(*nobody, order, _finite(kl_divergence(everybody[rows], public[rows])))
            )
        for (name, release), totals in zip(releases, written, strict=True):
            if totals[rows].any():
                card, kl = release.card, kl_divergence(totals[rows], release.probabilities[rows])
                told = (
                    printable(name),
                    card.mechanism,
                    card.guarantee.name,
                    card.epsilon,
                    card.delta,
                )
                found.append(Score(*told, order, _finite(kl)))
    return found


def _finite(value: float) -> float | None:
    return value if value < float("inf") else None


def load_attacks(path: Path) -> AuditSummary:
    """What an audit folder says."""
    file = path / CONTENTS[0]
    if not file.is_file():
        raise UsageError(
            f"{path}: not an audit folder (no {file.name}); make one with `bayesgram audit … -o FOLDER`."
        )
    try:
        document = read_json(file)
        check_format(
            path, "an audit", document.get("format", 1), FORMAT
        )  # version 0.1 wrote no number
        return AuditSummary(
            name=printable(str(path)),
            mechanism=str(document["mechanism"]),
            guarantee=str(document["guarantee"]),
            epsilon=_claimed(document["epsilon"], MAX_EPSILON),
            delta=_claimed(document["delta"], 1.0),
            verdict=str(document["verdict"]),
            caught=bool(document["caught"]),
            findings=[{name: item[name] for name in FINDING} for item in document["findings"]],
            curves=_saved_curves(document),
        )
    except UsageError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        raise BayesgramError(f"{path}: the audit is damaged; audit again.") from None


def _claimed(value: object, most: float) -> float | None:
    """A number of the claim, where there is one."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise ValueError("not a number that can be claimed")
    return float(value)


def _saved_curve(name: str, curve: dict[str, Any], colour: str) -> Series:
    """A curve of pairs of rates."""
    alarms, misses = (list(map(float, curve[rate])) for rate in ("false_alarms", "misses"))
    if len(alarms) != len(misses) or not all(0 <= rate <= 1 for rate in alarms + misses):
        raise ValueError("not a trade-off")
    return Series(alarms, misses, name, colour, dots="none")


def _saved_curves(document: dict[str, Any]) -> list[Series]:
    """The curves that the audit kept, and the edge of what its claim allows."""
    saved = document["trade_offs"].items()
    curves = [
        _saved_curve(name, curve, colour)
        for (name, curve), colour in zip(saved, ATTACK_COLOURS, strict=False)
    ]
    if not curves or document["epsilon"] is None:
        return []
    claim = _claimed_limit(float(document["epsilon"]), float(document["delta"]))
    return [*curves, claim]
