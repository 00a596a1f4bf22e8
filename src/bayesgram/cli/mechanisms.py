"""Options of mechanisms, and the mechanism, budget and data they stand for: said once for all commands."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from bayesgram.choices import MechanismName, ScoreSensitivity, Sensitivity, Suppressed
from bayesgram.cli import console
from bayesgram.cli.options import real, several
from bayesgram.errors import UsageError, check_int

if TYPE_CHECKING:
    from collections.abc import Callable

    from bayesgram.mechanisms.base import Mechanism
    from bayesgram.paper.algorithm_1 import Paper
    from bayesgram.paper.algorithm_2 import Grid
    from bayesgram.privacy.budget import Budget
    from bayesgram.private.counts import PrivateCounts, SegmentedCounts, UserCounts
    from bayesgram.public.vocabulary import Vocabulary

Read = TypeVar("Read")

DEFAULT = "Of posterior, the default, and gaussian"
PAPER = "Of the paper's mechanism"
TUNING = "Of Algorithm 2 (--tune)"
OTHERS = "Of other mechanisms"

ExpectedUsers = Annotated[
    int | None,
    typer.Option(
        help="How many users, a public round figure, never the exact number: checks δ; of paper, sets C and W.",
        show_default=False,
    ),
]
MaxCount = Annotated[
    int | None,
    typer.Option(
        help="C: most of one n-gram from a user.", rich_help_panel=PAPER, show_default="1"
    ),
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
    typer.Option(
        help="S: how soon a shared n-gram is trusted.", rich_help_panel=PAPER, show_default="0.001"
    ),
]
Rho = Annotated[
    float | None,
    typer.Option(help="ρ: trust in private counts.", rich_help_panel=PAPER, show_default="0.5"),
]
SensitivityOption = Annotated[
    Sensitivity | None,
    typer.Option(help="How γ is found.", rich_help_panel=PAPER, show_default="exact"),
]
ClipNorm = Annotated[
    float | None,
    typer.Option(
        help="Λ of posterior and gaussian: most that a user's counts weigh.",
        rich_help_panel=DEFAULT,
        show_default="posterior chooses it inside the budget; gaussian 4",
    ),
]
K = Annotated[
    int | None, typer.Option(help="K of k-anonymity.", rich_help_panel=OTHERS, show_default="50")
]
SuppressedOption = Annotated[
    Suppressed | None,
    typer.Option(
        help="Where k-anonymity puts suppressed mass.",
        rich_help_panel=OTHERS,
        show_default="add-one",
    ),
]
Tune = Annotated[
    bool,
    typer.Option("--tune", help="Choose S and ρ by Algorithm 2, for ε/3.", rich_help_panel=TUNING),
]
Slopes = Annotated[
    str | None,
    typer.Option(
        help="S values to try, comma-separated.",
        rich_help_panel=TUNING,
        show_default="0.001 … 10000",
    ),
]
Rhos = Annotated[
    str | None,
    typer.Option(
        help="ρ values to try, comma-separated.", rich_help_panel=TUNING, show_default="0.1 … 0.9"
    ),
]
ScoreOption = Annotated[
    ScoreSensitivity | None,
    typer.Option(
        help="The bound on |Δq|: Claim 3's, or the true one.",
        rich_help_panel=TUNING,
        show_default="corrected",
    ),
]


@dataclass(frozen=True)
class MechanismOptions:
    """The options of all mechanisms; None is not given."""

    clip_norm: ClipNorm = None
    max_count: MaxCount = None
    max_total: MaxTotal = None
    slope: Slope = None
    rho: Rho = None
    sensitivity: SensitivityOption = None
    k: K = None
    suppressed: SuppressedOption = None


@dataclass(frozen=True)
class GridOptions:
    """The options of Algorithm 2."""

    slopes: Slopes = None
    rhos: Rhos = None
    score_sensitivity: ScoreOption = None


NOT_GIVEN, NO_GRID = MechanismOptions(), GridOptions()
NOT_PROVED = {MechanismName.PAPER, MechanismName.K_ANONYMITY}
NO_DELTA = {MechanismName.LAPLACE, MechanismName.LAPLACE_PUBLIC, MechanismName.K_ANONYMITY}


def budget_of(
    mechanism: MechanismName, epsilon: float | None, delta: float | None, expected_users: int | None
) -> "Budget | None":
    """(ε, δ), δ being 1e-7 unless said otherwise; a δ that the mechanism can't use is refused, not ignored."""
    from bayesgram.privacy.budget import Budget
    from bayesgram.releases.card import MOST_USERS

    if delta is not None and mechanism in NO_DELTA:
        raise UsageError(f"--delta: {mechanism} needs none; leave it out.")
    if expected_users is not None:
        check_int(
            "expected_users", expected_users, 1, MOST_USERS, "a public bound on the number of users"
        )
    if epsilon is None:
        return None
    budget = Budget(epsilon, 0.0 if mechanism in NO_DELTA else 1e-7 if delta is None else delta)
    _warn(mechanism, budget, expected_users)
    return budget


def _warn(mechanism: MechanismName, budget: "Budget", expected_users: int | None) -> None:
    """Say what a promise is not worth before anything is spent on it. Where none is proved, δ alone can be wrong."""
    from bayesgram.releases.card import weaknesses

    proved = mechanism not in NOT_PROVED
    for weakness in weaknesses(budget.epsilon, budget.delta, expected_users) if proved else []:
        console.say(f"warning: {weakness}")
    largest = 1e-4 if expected_users is None else 0.1 / expected_users
    if not proved and budget.delta > largest:
        console.say(
            f"warning: --delta {budget.delta}: with this chance all about somebody may come out;"
            f" stay far below 1/(number of users), at most {largest:g} here."
        )


def read(counts: Path, vocab: Path) -> "tuple[PrivateCounts, Vocabulary]":
    """The private counts, which stay on disk, and the vocabulary they are over; none by segment."""
    from bayesgram.private.counts_on_disk import open_counts

    return _with_vocabulary(counts, vocab, open_counts)


def read_by_segment(
    counts: Path, vocab: Path
) -> "tuple[PrivateCounts | SegmentedCounts, Vocabulary]":
    """The same, by segment or not."""
    from bayesgram.private.counts_on_disk import open_by_segment

    return _with_vocabulary(counts, vocab, open_by_segment)


def load(counts: Path, vocab: Path) -> "tuple[UserCounts, Vocabulary]":
    """The private counts, in memory, and the vocabulary they are over; none by segment."""
    from bayesgram.private.counts_io import load_user_counts

    return _with_vocabulary(counts, vocab, load_user_counts)


def _with_vocabulary(
    counts: Path, vocab: Path, read: "Callable[..., Read]"
) -> "tuple[Read, Vocabulary]":
    from bayesgram.public.vocabulary import Vocabulary

    with console.step("Reading counts"):
        vocabulary = Vocabulary.load(vocab)
        return read(counts, vocabulary_size=len(vocabulary)), vocabulary


def paper_of(expected_users: int | None, **mechanism_options: Any) -> "Paper":  # noqa: ANN401 - checked by Paper
    """The paper's mechanism; a public round figure of users sets the bounds that are not given."""
    from bayesgram.paper.algorithm_1 import Paper, paper_bounds

    given = {name: value for name, value in mechanism_options.items() if value is not None}
    if expected_users is None:
        return Paper(**given)
    max_count, max_total = paper_bounds(expected_users)
    return Paper(**{"max_count": max_count, "max_total": max_total, **given})


def grid_of(
    slopes: str | None, rhos: str | None, score_sensitivity: ScoreSensitivity | None
) -> "Grid":
    """The settings that Algorithm 2 chooses from."""
    from bayesgram.paper.algorithm_2 import Grid

    given = {
        "slopes": None
        if slopes is None
        else tuple(several("slopes", slopes, real, "0.001,0.01,0.1")),
        "rhos": None if rhos is None else tuple(several("rhos", rhos, real, "0.1,0.3,0.9")),
        "score_sensitivity": score_sensitivity,
    }
    return Grid(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]


PAPER_KNOBS = ("expected_users", "max_count", "max_total", "slope", "rho", "sensitivity")
TUNING_KNOBS = ("slopes", "rhos", "score_sensitivity")
OPTIONS_OF = {
    MechanismName.PAPER: (*PAPER_KNOBS, "tune", *TUNING_KNOBS),
    MechanismName.LAPLACE: ("max_total",),
    MechanismName.LAPLACE_PUBLIC: ("max_total",),
    MechanismName.POSTERIOR: ("clip_norm", "expected_users"),
    MechanismName.GAUSSIAN: ("clip_norm", "expected_users"),
    MechanismName.K_ANONYMITY: ("k", "suppressed"),
}


def mechanism_of(name: MechanismName, **mechanism_options: Any) -> "Mechanism":  # noqa: ANN401 - checked by each mechanism
    """The mechanism with the options that were given; an option of another one is refused, not ignored."""
    from bayesgram.mechanisms.gaussian import Gaussian
    from bayesgram.mechanisms.laplace import Laplace, LaplacePublic
    from bayesgram.mechanisms.posterior import Posterior
    from bayesgram.paper.algorithm_2 import TunedPaper
    from bayesgram.paper.k_anonymity import KAnonymity

    given = {knob: value for knob, value in mechanism_options.items() if value is not None}
    _check_options(name, given)
    if name is MechanismName.PAPER:
        paper = paper_of(
            given.get("expected_users"), **{knob: given.get(knob) for knob in PAPER_KNOBS[1:]}
        )
        return (
            TunedPaper(paper, grid_of(*(given.get(knob) for knob in TUNING_KNOBS)))
            if given.get("tune")
            else paper
        )
    simple: dict[MechanismName, type[Mechanism]] = {
        MechanismName.LAPLACE: Laplace,
        MechanismName.LAPLACE_PUBLIC: LaplacePublic,
        MechanismName.POSTERIOR: Posterior,
        MechanismName.GAUSSIAN: Gaussian,
        MechanismName.K_ANONYMITY: KAnonymity,
    }
    return simple[name](
        **{knob: value for knob, value in given.items() if knob != "expected_users"}
    )


def _option(knob: str) -> str:
    return f"--{knob.replace('_', '-')}"


def _check_options(name: MechanismName, given: dict[str, Any]) -> None:
    foreign = next((knob for knob in given if knob not in OPTIONS_OF[name]), None)
    if foreign:
        raise UsageError(
            f"{_option(foreign)}: not an option of the mechanism {name}, which has"
            f" {', '.join(map(_option, OPTIONS_OF[name]))}. {_option(foreign)} is for --mechanism"
            f" {' or '.join(each for each, own in OPTIONS_OF.items() if foreign in own)}."
        )
    if name is MechanismName.PAPER:
        clash = [knob for knob in ("slope", "rho") if knob in given] if "tune" in given else []
        if clash:
            raise UsageError(
                f"{_option(clash[0])} and --tune: --tune chooses it; leave one of them out."
            )
        idle = [knob for knob in TUNING_KNOBS if knob in given] if "tune" not in given else []
        if idle:
            raise UsageError(
                f"{_option(idle[0])}: has a meaning only with --tune; add it or leave this out."
            )
