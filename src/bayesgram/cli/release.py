"""bayesgram release, tune and sensitivity: what goes through a door, and what a door would need."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesgram.cli import console, options
from bayesgram.errors import UsageError
from bayesgram.mechanisms.choices import MechanismName, ScoreSensitivity, Sensitivity, Suppressed

if TYPE_CHECKING:
    from bayesgram.mechanisms.base import Mechanism
    from bayesgram.mechanisms.paper import Paper
    from bayesgram.mechanisms.tuning import Grid
    from bayesgram.privacy.budget import Budget
    from bayesgram.private.counts import UserCounts
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.released.card import Card

PAPER = "Of the paper's mechanism"
TUNING = "Of Algorithm 2 (--tune)"
OTHERS = "Of other mechanisms"

ExpectedUsers = Annotated[
    int | None,
    typer.Option(
        help="A public round figure, never the exact number: checks δ; of paper, sets C and W.",
        rich_help_panel=PAPER,
        show_default=False,
    ),
]
MaxCount = Annotated[
    int | None,
    typer.Option(help="C: most of one n-gram from a user.", rich_help_panel=PAPER, show_default="1"),
]
MaxTotal = Annotated[
    int | None,
    typer.Option(
        help="W: most occurrences from a user (also laplace, laplace-public).",
        rich_help_panel=PAPER,
        show_default="1000; laplace 10",
    ),
]
Slope = Annotated[
    float | None,
    typer.Option(help="S: how soon a shared n-gram is trusted.", rich_help_panel=PAPER, show_default="0.001"),
]
Rho = Annotated[
    float | None, typer.Option(help="ρ: trust in private counts.", rich_help_panel=PAPER, show_default="0.5")
]
SensitivityOption = Annotated[
    Sensitivity | None, typer.Option(help="How γ is found.", rich_help_panel=PAPER, show_default="exact")
]
Slopes = Annotated[
    str | None,
    typer.Option(help="S values to try, comma-separated.", rich_help_panel=TUNING, show_default="0.001 … 10000"),
]
Rhos = Annotated[
    str | None,
    typer.Option(help="ρ values to try, comma-separated.", rich_help_panel=TUNING, show_default="0.1 … 0.9"),
]
ScoreOption = Annotated[
    ScoreSensitivity | None,
    typer.Option(
        help="The bound on |Δq|: Claim 3's, or the true one.",
        rich_help_panel=TUNING,
        show_default="corrected",
    ),
]


def release(
    counts: options.Counts,
    vocab: options.Vocab,
    output: options.Output,
    mechanism: Annotated[
        MechanismName, typer.Option(help="How the distribution is made (docs/promise.md).")
    ] = MechanismName.POSTERIOR,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    seed: options.Seed = None,
    ledger: Annotated[
        Path | None,
        typer.Option(help="Charge this ledger; refused if it would overspend (docs/ledger.md).", show_default=False),
    ] = None,
    force: options.Force = False,
    json: options.Json = False,
    expected_users: ExpectedUsers = None,
    max_count: MaxCount = None,
    max_total: MaxTotal = None,
    slope: Slope = None,
    rho: Rho = None,
    sensitivity: SensitivityOption = None,
    tune: Annotated[
        bool, typer.Option("--tune", help="Choose S and ρ by Algorithm 2, for ε/3.", rich_help_panel=TUNING)
    ] = False,
    slopes: Slopes = None,
    rhos: Rhos = None,
    score_sensitivity: ScoreOption = None,
    clip_norm: Annotated[
        float | None,
        typer.Option(
            help="Λ of posterior and gaussian: most that a user's counts weigh.",
            rich_help_panel=OTHERS,
            show_default="posterior chooses it inside the budget; gaussian 4",
        ),
    ] = None,
    k: Annotated[int | None, typer.Option(help="K of k-anonymity.", rich_help_panel=OTHERS, show_default="50")] = None,
    suppressed: Annotated[
        Suppressed | None,
        typer.Option(help="Where k-anonymity puts suppressed mass.", rich_help_panel=OTHERS, show_default="add-one"),
    ] = None,
) -> None:
    """Release a distribution over the vocabulary, with a card that says what it is worth.

    Example: bayesgram release counts --vocab vocab.parquet --epsilon 0.2 --delta 1e-7 -o out
    """
    from bayesgram.files.writing import check_free
    from bayesgram.mechanisms import base
    from bayesgram.privacy.ledger import Ledger
    from bayesgram.released.release import CONTENTS

    check_free(output, force=force, contents=CONTENTS, inputs=[counts, vocab])
    base.Randomness.make(seed)
    budget = _budget(mechanism, epsilon, delta, expected_users)
    chosen = _mechanism(
        mechanism,
        expected_users=expected_users,
        max_count=max_count,
        max_total=max_total,
        slope=slope,
        rho=rho,
        sensitivity=sensitivity,
        tune=tune or None,
        slopes=slopes,
        rhos=rhos,
        score_sensitivity=score_sensitivity,
        clip_norm=clip_norm,
        k=k,
        suppressed=suppressed,
    )
    chosen.check_budget(budget)  # what won't do is refused before anything is read
    user_counts, vocabulary = _load(counts, vocab)
    book = None if ledger is None else Ledger.open(ledger)
    with console.step(f"Releasing by {mechanism}"):
        made = base.release(user_counts, vocabulary, chosen, budget, seed=seed, ledger=book, output=str(output))
    made.save(output, force=force)
    if book is not None and made.card.ledger is not None:
        book.complete(made.card.ledger["entry"])
    if json:
        console.print_json({"output": str(output), "card": made.card.to_json()})
    else:
        console.out.print(f"{made.card}\nWritten to: {output}", markup=False, soft_wrap=True)
        _draw_norms(made.card)


def _draw_norms(card: "Card") -> None:
    """Bars on standard error: how much users write, and from where on they are clipped."""
    from bayesgram.released.norms import norm_bins

    bins = norm_bins(card)
    if bins:
        console.say("Users by the norm of their counts (noisy; ░ clipped):")
    most = max((found.users for found in bins), default=1.0)
    for found in bins:
        bar = ("░" if found.clipped else "█") * round(40 * max(found.users, 0) / most)
        console.say(f"{found.low:8.2f} – {found.high:<8.2f} {bar} {max(found.users, 0):,.0f}")


def tune(
    counts: options.Counts,
    vocab: options.Vocab,
    epsilon: Annotated[float, typer.Option(help="ε spent on the choice alone.", show_default=False)],
    seed: options.Seed = None,
    json: options.Json = False,
    expected_users: ExpectedUsers = None,
    max_count: MaxCount = None,
    max_total: MaxTotal = None,
    sensitivity: SensitivityOption = None,
    slopes: Slopes = None,
    rhos: Rhos = None,
    score_sensitivity: ScoreOption = None,
) -> None:
    """Choose S and ρ of the paper's mechanism by Algorithm 2: noisy scores on 10% of the users.

    The choice is EMPIRICAL, as the paper's mechanism is. `release --tune` does this and releases, in one ε.

    Example: bayesgram tune counts --vocab vocab.parquet --epsilon 0.1
    """
    from bayesgram.mechanisms import tuning
    from bayesgram.mechanisms.base import Randomness
    from bayesgram.mechanisms.paper import Paper
    from bayesgram.privacy.budget import Budget

    Budget(epsilon)
    chance = Randomness.make(seed)
    paper = _paper(expected_users, max_count=max_count, max_total=max_total, sensitivity=sensitivity)
    grid = _grid(slopes, rhos, score_sensitivity)
    user_counts, vocabulary = _load(counts, vocab)
    with console.step(f"Scoring {len(grid.slopes) * len(grid.rhos)} settings"):
        chosen: Paper = tuning.tune(user_counts, vocabulary, epsilon, chance, paper=paper, grid=grid).paper
    console.report(
        {
            "slope": chosen.slope,
            "rho": chosen.rho,
            "epsilon": epsilon,
            "guarantee": chosen.guarantee.name,
            "next": f"bayesgram release {counts} --vocab {vocab} --mechanism paper --max-count {chosen.max_count}"
            f" --max-total {chosen.max_total} --slope {chosen.slope:g} --rho {chosen.rho:g} … (its ε adds to this one)",
        },
        json=json,
    )


def sensitivity(
    counts: options.Counts,
    vocab: options.Vocab,
    slope: Annotated[float, typer.Option(help="S.")] = 1e-3,
    expected_users: ExpectedUsers = None,
    max_count: MaxCount = None,
    max_total: MaxTotal = None,
    seed: options.Seed = None,
    json: options.Json = False,
) -> None:
    """Show γ, how far one user moves the paper's log counts: exactly, and by Claim 1's bound.

    Both are read from private data without noise: for its keeper only.

    Example: bayesgram sensitivity counts --vocab vocab.parquet --slope 0.001 --expected-users 100000
    """
    from time import perf_counter

    from bayesgram.audit.utility import DISCLOSURE
    from bayesgram.mechanisms.base import Randomness

    paper = _paper(expected_users, max_count=max_count, max_total=max_total, slope=slope)
    user_counts, _ = _load(counts, vocab)
    with console.step("Leaving out each user"):
        statistics = paper.statistics(user_counts, Randomness.make(seed))
        statistics.user_shifts(paper.slope)  # compiles the kernel, so that the clock sees only work
        start = perf_counter()
        exact = statistics.exact_gamma(paper.slope)
        seconds = perf_counter() - start
    report = {"exact": exact, "bound": statistics.bounded_gamma(paper.slope), "seconds": round(seconds, 4)}
    console.report({**report, "warning": DISCLOSURE}, json=json)


NO_DELTA = {MechanismName.LAPLACE, MechanismName.LAPLACE_PUBLIC, MechanismName.K_ANONYMITY}


def _budget(
    mechanism: MechanismName, epsilon: float | None, delta: float | None, expected_users: int | None
) -> "Budget | None":
    """(ε, δ), δ being 1e-7 unless said otherwise; a δ that the mechanism can't use is refused, not ignored."""
    from bayesgram.privacy.budget import Budget

    if delta is not None and mechanism in NO_DELTA:
        raise UsageError(f"--delta: {mechanism} needs none; leave it out.")
    if epsilon is None or mechanism in NO_DELTA:
        return None if epsilon is None else Budget(epsilon)
    budget = Budget(epsilon, 1e-7 if delta is None else delta)
    largest = 1e-4 if expected_users is None else 0.1 / max(expected_users, 1)
    if budget.delta > largest:
        console.say(
            f"warning: delta={budget.delta}: with this chance all about somebody may come out;"
            f" stay far below 1/(number of users), at most {largest:g} here."
        )
    return budget


def _load(counts: Path, vocab: Path) -> "tuple[UserCounts, Vocabulary]":
    from bayesgram.private.store import load_counts
    from bayesgram.public.vocabulary import Vocabulary

    with console.step("Reading counts"):
        vocabulary = Vocabulary.load(vocab)
        user_counts = load_counts(counts, vocabulary_size=len(vocabulary))
    return user_counts, vocabulary


def _paper(expected_users: int | None, **knobs: Any) -> "Paper":  # noqa: ANN401 - checked by Paper
    from bayesgram.mechanisms.paper import Paper, paper_bounds

    given = {name: value for name, value in knobs.items() if value is not None}
    if expected_users is None:
        return Paper(**given)
    max_count, max_total = paper_bounds(expected_users)
    return Paper(**{"max_count": max_count, "max_total": max_total, **given})


def _grid(slopes: str | None, rhos: str | None, score_sensitivity: ScoreSensitivity | None) -> "Grid":
    from bayesgram.mechanisms.tuning import Grid

    given = {
        "slopes": _numbers("slopes", slopes),
        "rhos": _numbers("rhos", rhos),
        "score_sensitivity": score_sensitivity,
    }
    return Grid(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]


def _numbers(name: str, text: str | None) -> tuple[float, ...] | None:
    try:
        return None if text is None else tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"{name}={text!r}: give numbers separated by commas, such as 0.001,0.01,0.1.") from None


PAPER_KNOBS = ("expected_users", "max_count", "max_total", "slope", "rho", "sensitivity")
TUNING_KNOBS = ("slopes", "rhos", "score_sensitivity")
KNOBS = {
    MechanismName.PAPER: (*PAPER_KNOBS, "tune", *TUNING_KNOBS),
    MechanismName.LAPLACE: ("max_total",),
    MechanismName.LAPLACE_PUBLIC: ("max_total",),
    MechanismName.POSTERIOR: ("clip_norm", "expected_users"),
    MechanismName.GAUSSIAN: ("clip_norm", "expected_users"),
    MechanismName.K_ANONYMITY: ("k", "suppressed"),
}


def _mechanism(name: MechanismName, **knobs: Any) -> "Mechanism":  # noqa: ANN401 - checked by each mechanism
    """The mechanism with the options that were given; an option of another one is refused, not ignored."""
    from bayesgram.mechanisms.gaussian import Gaussian
    from bayesgram.mechanisms.k_anonymity import KAnonymity
    from bayesgram.mechanisms.laplace import Laplace, LaplacePublic
    from bayesgram.mechanisms.posterior import Posterior
    from bayesgram.mechanisms.tuning import TunedPaper

    given = {knob: value for knob, value in knobs.items() if value is not None}
    _check_knobs(name, given)
    if name is MechanismName.PAPER:
        paper = _paper(given.get("expected_users"), **{knob: given.get(knob) for knob in PAPER_KNOBS[1:]})
        return TunedPaper(paper, _grid(*(given.get(knob) for knob in TUNING_KNOBS))) if given.get("tune") else paper
    simple: dict[MechanismName, type[Mechanism]] = {
        MechanismName.LAPLACE: Laplace,
        MechanismName.LAPLACE_PUBLIC: LaplacePublic,
        MechanismName.POSTERIOR: Posterior,
        MechanismName.GAUSSIAN: Gaussian,
        MechanismName.K_ANONYMITY: KAnonymity,
    }
    return simple[name](**{knob: value for knob, value in given.items() if knob != "expected_users"})


def _check_knobs(name: MechanismName, given: dict[str, Any]) -> None:
    foreign = next((knob for knob in given if knob not in KNOBS[name]), None)
    if foreign:
        raise UsageError(
            f"--{foreign.replace('_', '-')}: not an option of the mechanism {name}, which has"
            f" {', '.join('--' + knob.replace('_', '-') for knob in KNOBS[name])}."
        )
    if name is MechanismName.PAPER:
        clash = [knob for knob in ("slope", "rho") if knob in given] if "tune" in given else []
        if clash:
            raise UsageError(f"--{clash[0]} and --tune: --tune chooses it; leave one of them out.")
        idle = [knob for knob in TUNING_KNOBS if knob in given] if "tune" not in given else []
        if idle:
            raise UsageError(
                f"--{idle[0].replace('_', '-')}: has a meaning only with --tune; add it or leave this out."
            )
