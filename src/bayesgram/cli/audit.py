"""bayesgram audit: what an attacker can prove about a mechanism."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayesgram.choices import Attack, MechanismName
from bayesgram.cli import console, mechanisms, options

if TYPE_CHECKING:
    from bayesgram.audit.findings import Audit

ATTACKS = ", ".join(Attack)


def audit(
    counts: options.Counts,
    vocab: options.Vocab,
    mechanism: Annotated[
        MechanismName, typer.Option(help="The mechanism to attack (docs/promise.md).")
    ] = MechanismName.POSTERIOR,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    expected_users: mechanisms.ExpectedUsers = None,
    attacks: Annotated[
        str | None,
        typer.Option(
            help=f"From {ATTACKS}.", show_default="likelihood-ratio, scale, one-run, leaks"
        ),
    ] = None,
    confidence: Annotated[
        float, typer.Option(help="That no bound is wrong, all attacks together.")
    ] = 0.99,
    runs: Annotated[
        int, typer.Option(help="Outputs of each dataset for black-box and membership.")
    ] = 200,
    seed: Annotated[
        int | None, typer.Option(help="Repeatable attackers.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="A private folder for audit.json and a picture.",
            show_default=False,
        ),
    ] = None,
    fail_if_caught: Annotated[
        bool, typer.Option("--fail-if-caught", help="Exit with 1 if the claim is refuted.")
    ] = (False),
    force: options.Force = False,
    json: options.Json = False,
    mechanism_options: mechanisms.MechanismOptions = mechanisms.NOT_GIVEN,
) -> None:
    """Attack a mechanism on these counts, and say what ε and δ an attacker can prove. For the keeper of the data only.

    The exit code is 0 whatever is found, unless --fail-if-caught is given.

    Example: bayesgram audit counts --vocab vocab.parquet --mechanism paper --epsilon 0.1 --delta 1e-6
    """
    from bayesgram.audit import runner
    from bayesgram.audit.findings import AuditTarget
    from bayesgram.io.atomic import check_writable
    from bayesgram.mechanisms.base import Randomness

    if output is not None:
        check_writable(output, force=force, contents=runner.CONTENTS, inputs=[counts, vocab])
    chosen = runner.parse_attacks(attacks)
    Randomness.from_seed(seed)
    budget = mechanisms.resolve_budget(mechanism, epsilon, delta, expected_users)
    attacked = mechanisms.mechanism_of(
        mechanism, expected_users=expected_users, **vars(mechanism_options)
    )
    runner.check_audit(attacked, budget, chosen, confidence=confidence, runs=runs)
    target = AuditTarget(attacked, *mechanisms.load(counts, vocab), budget)
    found = runner.run_audit(
        target, chosen, confidence=confidence, runs=runs, seed=seed, step=console.step
    )
    if output is not None:
        runner.save_audit(found, output, force=force)
    _show(found, output, json=json)
    if fail_if_caught and found.caught:
        raise typer.Exit(1)


def _show(found: "Audit", output: Path | None, *, json: bool) -> None:
    """The findings as a table, the verdict last; or all of it for a machine."""
    from bayesgram.audit.evaluation import DISCLOSURE

    if json:
        console.print_json(found.to_json())
        return
    rows = [
        (item.attack, item.neighbour, "CAUGHT" if item.caught else "–", item.sentence)
        for item in found.findings
    ]
    console.print_table(
        f"Attacks on {found.mechanism}", ("attack", "neighbour", "result", "what it gets"), rows
    )
    if output is not None:
        console.say(f"Written to: {output}")
    console.say(f"These numbers are {DISCLOSURE}.", urgent=True)
    console.write(found.verdict)
