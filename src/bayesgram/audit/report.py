"""Attack a mechanism in every way asked for, and write down what was found.

In:  a target and names of attacks.   Out: an `Audit`; on disk audit.json and, where there is a curve, its picture.
The folder is private (mode 0700): its numbers are read from private data without noise.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import numpy as np

from bayesgram.audit import black_box, exposure, leaks, likelihood_ratio, membership, one_run, pictures
from bayesgram.audit.choices import Attack
from bayesgram.audit.confidence import check_confidence
from bayesgram.audit.target import Target, claim_of
from bayesgram.audit.verdict import Audit, Finding
from bayesgram.charts import save as save_chart
from bayesgram.errors import UsageError, whole_number
from bayesgram.files.writing import write_folder_atomically
from bayesgram.mechanisms.base import Mechanism
from bayesgram.privacy.budget import Budget

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
    mechanism: Mechanism, budget: Budget | None, attacks: Sequence[Attack], *, confidence: float, runs: int
) -> None:
    """Refuse what can't be audited so, before anything is read."""
    check_confidence(confidence)
    whole_number("runs", runs, 8, 10**6, "the number of outputs of each dataset")
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
            raise UsageError(f"attacks={name!r}: choose from {', '.join(Attack)}, separated by commas.")
    return tuple(dict.fromkeys(Attack(name) for name in names))


def save(found: Audit, path: Path, *, force: bool = False) -> None:
    """A private folder with audit.json and the trade-off of the strongest attacks."""
    with write_folder_atomically(path, contents=CONTENTS, force=force, private=True) as folder:
        document = json.dumps({"format": FORMAT, **found.to_json()}, indent=2, ensure_ascii=False, allow_nan=False)
        (folder / CONTENTS[0]).write_text(document + "\n", encoding="utf-8")
        if found.drawn:
            save_chart(pictures.trade_off(found), folder / "trade-off")
