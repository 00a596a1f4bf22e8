"""--dry-run: what a command would claim and charge, and what could be expected of it. Nothing here is private."""

from typing import TYPE_CHECKING, Any

from bayesgram.cli import console

if TYPE_CHECKING:
    from bayesgram.mechanisms.discovery import DiscoveryMechanism
    from bayesgram.mechanisms.dry_run import DryRun
    from bayesgram.planning.plan import Plan
    from bayesgram.privacy.accounting import Spend
    from bayesgram.privacy.ledger import Ledger
    from bayesgram.public.vocabulary import Vocabulary

USERS = 1_000_000  # assumed where nobody says how many there are: how many there are is private
FEWEST = 100  # users of a plan
NOTHING = "dry run: everything was checked; nothing was spent, drawn or written."


def show(checked: "DryRun", vocabulary: "Vocabulary", expected_users: int | None, *, json: bool) -> None:
    """What a release would cost, and a plan of it by public numbers."""
    planned = _plan(checked, vocabulary, expected_users)
    if json:
        console.print_json({**checked.to_json(), "plan": None if planned is None else planned.to_json()})
        return
    claim = "no ε" if checked.epsilon is None else f"ε = {checked.epsilon:g}, δ = {checked.delta or 0:g}"
    claimed = f"{claim} for {checked.unit} ({checked.guarantee})"
    told = {"mechanism": checked.mechanism, "claim": claimed, "unit": checked.unit}
    told |= {} if checked.spend is None else {"charge": _charge(checked.spend)}
    if checked.ledger is not None and checked.left is not None:
        told |= {"ledger": f"{checked.ledger.population}: {checked.ledger.left()}", "left_then": _left(checked.left)}
    console.report(told, json=False)
    _show_plan(planned, expected_users)
    console.say(NOTHING)


def show_discovery(
    mechanism: "DiscoveryMechanism", ledger: "Ledger | None", unit: str, label: str, *, json: bool
) -> None:
    """Noise and level of a discovery, and what it would cost."""
    threshold, budget = mechanism.threshold, mechanism.budget
    told: dict[str, Any] = {
        "mechanism": mechanism.name,
        "claim": f"ε = {budget.epsilon:g}, δ = {budget.delta:g} ({label})",
        "unit": unit,
        "noise_multiplier": threshold.multiplier,
        "threshold": threshold.level,
        "failure_probability": threshold.failure,
        "rounds": mechanism.settings.rounds,
    }
    spend = {**vars(threshold.spend), "mu_squared": threshold.spend.mu_squared}
    population = {} if ledger is None else {"ledger": ledger.population}
    if json:
        console.print_json({"dry_run": True, **told, **population, "spend": spend})
        return
    console.report({**told, **population, "charge": _charge(threshold.spend)}, json=False)
    console.say(NOTHING)


def _plan(checked: "DryRun", vocabulary: "Vocabulary", expected_users: int | None) -> "Plan | None":
    """Only of the mechanism that plans are made for."""
    from bayesgram.planning.plan import plan

    users = USERS if expected_users is None else expected_users
    if checked.mechanism != "posterior" or checked.epsilon is None or users < FEWEST:
        return None
    with console.step("Simulating a release"):
        return plan(vocabulary, users=users, epsilon=checked.epsilon, delta=checked.delta)


def _show_plan(planned: "Plan | None", expected_users: int | None) -> None:
    from bayesgram.cli import plan

    if planned is None:
        return
    if expected_users is None:
        console.say(f"note: {USERS:,} users are assumed; say how many, roughly, with --expected-users.")
    plan.show(planned)


def _charge(spend: "Spend") -> str:
    parts = {"μ²": spend.mu_squared, "1/σ²": spend.inverse_variance, "pure ε": spend.pure_epsilon}
    parts |= {"failure probability": spend.failure}
    return ", ".join(f"{name} = {value:.6g}" for name, value in parts.items() if value)


def _left(left: tuple[float, float]) -> str:
    gaussian, pure = left
    return f"ε = {gaussian:g} for a Gaussian release, or {pure:g} for a pure-ε one" if gaussian or pure else "nothing"
