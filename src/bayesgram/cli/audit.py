"""bayesgram audit: what an attacker can prove about a mechanism."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayesgram.choices import Attack, MechanismName
from bayesgram.cli import console, mechanism_options, options
from bayesgram.cli.options import parse_float, parse_int
from bayesgram.errors import UsageError

if TYPE_CHECKING:
    from bayesgram.audit.findings import Audit

DEFAULT_FULL_RELEASES = 4  # as of `bayesgram series create`


def audit(
    counts: options.Counts,
    vocab: options.Vocab,
    mechanism: Annotated[
        MechanismName, typer.Option(help="The mechanism to attack (bayesgram docs promise).")
    ] = MechanismName.POSTERIOR,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    expected_users: mechanism_options.ExpectedUsers = None,
    attacks: Annotated[
        str | None,
        typer.Option(
            help=f"Which attacks, separated by commas: {', '.join(Attack)}.",
            show_default="likelihood-ratio, scale, one-run, leaks; the first two for a series",
        ),
    ] = None,
    series_releases: Annotated[
        int | None,
        typer.Option(
            parser=parse_int,
            help="Attack a series of so many releases of these counts, by a user who takes part in"
            " chosen weeks. ε and δ are for all of them together.",
            show_default=False,
        ),
    ] = None,
    full_releases: Annotated[
        int | None,
        typer.Option(
            parser=parse_int,
            help="How many releases of that series one user can contribute to in full.",
            show_default=str(DEFAULT_FULL_RELEASES),
        ),
    ] = None,
    confidence: Annotated[
        float,
        typer.Option(
            parser=parse_float, help="The probability that no bound is wrong, all attacks together."
        ),
    ] = 0.99,
    runs: Annotated[
        int,
        typer.Option(
            parser=parse_int,
            help="How many outputs black-box and membership draw from each dataset; of a series,"
            " how many series black-box plays.",
        ),
    ] = 200,
    seed: Annotated[
        int | None,
        typer.Option(
            parser=parse_int, help="A number that makes the attacks repeatable.", show_default=False
        ),
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
    ] = False,
    force: options.Force = False,
    json: options.Json = False,
    settings: mechanism_options.MechanismOptions = mechanism_options.NO_OPTIONS,
) -> None:
    """Attack a mechanism on these counts, and say what ε and δ an attacker can prove.

    For the keeper of the data only.

    The exit code is 0 whatever is found, unless --fail-if-caught is given.

    A series of releases: bayesgram audit counts --vocab vocab.parquet --epsilon 1 --delta 1e-7
    --series-releases 52 --full-releases 8

    Example: bayesgram audit counts --vocab vocab.parquet --mechanism paper --epsilon 0.1
    --delta 1e-6
    """
    from bayesgram.audit import runner
    from bayesgram.audit.findings import AuditTarget
    from bayesgram.audit.series_attack import SeriesTarget, make_settings
    from bayesgram.io.atomic import check_writable
    from bayesgram.mechanisms.base import Randomness, require_budget
    from bayesgram.mechanisms.posterior import Posterior

    if output is not None:
        check_writable(output, force=force, contents=runner.CONTENTS, inputs=[counts, vocab])
    chosen_attacks = runner.parse_attacks(
        attacks,
        runner.DEFAULT_ATTACKS if series_releases is None else runner.LIKELIHOOD_ATTACKS,
    )
    Randomness.from_seed(seed)
    budget = mechanism_options.make_budget(mechanism, epsilon, delta, expected_users)
    attacked = mechanism_options.make_mechanism(mechanism, settings, expected_users=expected_users)
    if series_releases is None:
        if full_releases is not None:
            raise UsageError.for_argument(
                "full_releases", full_releases, "is of a series; give --series-releases, too."
            )
        runner.check_audit(attacked, budget, chosen_attacks, confidence=confidence, runs=runs)
        user_counts, vocabulary = mechanism_options.load_counts(counts, vocab)
        result = runner.run_audit(
            AuditTarget(attacked, user_counts, vocabulary, budget),
            chosen_attacks,
            confidence=confidence,
            runs=runs,
            seed=seed,
            step=console.step,
        )
    else:
        if not isinstance(attacked, Posterior):
            raise UsageError(
                f"--mechanism {mechanism}: a series is released by posterior; leave this out."
            )
        runner.check_series_audit(chosen_attacks, confidence=confidence, runs=runs)
        series_settings = make_settings(
            require_budget(budget, mechanism),
            releases=series_releases,
            full_releases=DEFAULT_FULL_RELEASES if full_releases is None else full_releases,
        )
        user_counts, vocabulary = mechanism_options.load_counts(counts, vocab)
        result = runner.run_series_audit(
            SeriesTarget(user_counts, vocabulary, series_settings, attacked.clip_norm),
            chosen_attacks,
            confidence=confidence,
            runs=runs,
            seed=seed,
            step=console.step,
        )
    if output is not None:
        runner.save_audit(result, output, force=force)
    _print_findings(result, output, json=json)
    if fail_if_caught and result.refutes_claim:
        raise typer.Exit(1)


def _print_findings(result: "Audit", output: Path | None, *, json: bool) -> None:
    """Print the verdict, and the findings as a table; or all of it as JSON."""
    from bayesgram.audit.evaluation import DISCLOSURE

    if json:
        console.print_json(result.to_json())
        return
    rows = [
        (
            finding.attack,
            finding.neighbour,
            "CAUGHT" if finding.refutes_claim else "–",
            finding.sentence,
        )
        for finding in result.findings
    ]
    verdict = f"{result.verdict[0].upper()}{result.verdict[1:]}."
    console.write_wrapped(verdict)
    columns = ("attack", "neighbour", "result", "what it gets")
    console.print_table(f"Attacks on {result.mechanism}", columns, rows)
    if output is not None:
        console.write(f"Wrote {output}. It is private: keep it with the text.")
    console.print_note(f"These numbers are {DISCLOSURE}.", urgent=True)
