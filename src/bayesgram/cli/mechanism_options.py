"""Options of mechanisms, and the mechanism, budget and data that they stand for."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from bayesgram.choices import MechanismName, ScoreSensitivity, Sensitivity, Suppressed
from bayesgram.cli import console
from bayesgram.cli.options import parse_float, parse_int, parse_list
from bayesgram.errors import UsageError, check_int

if TYPE_CHECKING:
    from bayesgram.mechanisms.base import CountsMechanism
    from bayesgram.paper.algorithm_1 import Paper
    from bayesgram.paper.algorithm_2 import Grid
    from bayesgram.privacy.budget import Budget
    from bayesgram.private.counts import PrivateCounts, SegmentedCounts, UserCounts
    from bayesgram.public.vocabulary import Vocabulary

CountsType = TypeVar("CountsType")

# --- Options ---

# Headings in --help.
DEFAULT_PANEL = "Of posterior, the default, and gaussian"
PAPER_PANEL = "Of the paper's mechanism"
TUNING_PANEL = "Of Algorithm 2 (--tune)"
OTHERS_PANEL = "Of other mechanisms"

ExpectedUsers = Annotated[
    int | None,
    typer.Option(
        parser=parse_int,
        help="How many users, as a public round figure such as 100k (never the exact number). It"
        " checks δ; of paper,"
        " sets C and W.",
        show_default=False,
    ),
]
MaxCount = Annotated[
    int | None,
    typer.Option(
        parser=parse_int,
        help="C of the paper: how often one n-gram of a user is counted, at most.",
        rich_help_panel=PAPER_PANEL,
        show_default="1",
    ),
]
MaxTotal = Annotated[
    int | None,
    typer.Option(
        parser=parse_int,
        help="W of the paper, and of laplace and laplace-public: how many n-grams of a user are"
        " counted, at most.",
        rich_help_panel=PAPER_PANEL,
        show_default="1000; laplace 10",
    ),
]
Slope = Annotated[
    float | None,
    typer.Option(
        parser=partial(parse_float, plural="--slopes"),
        help="S of the paper: how soon an n-gram that users share is trusted.",
        rich_help_panel=PAPER_PANEL,
        show_default="0.001",
    ),
]
Rho = Annotated[
    float | None,
    typer.Option(
        parser=partial(parse_float, plural="--rhos"),
        help="ρ of the paper: how much private counts are trusted, from 0 to 1.",
        rich_help_panel=PAPER_PANEL,
        show_default="0.5",
    ),
]
SensitivityName = Annotated[
    Sensitivity | None,
    typer.Option(
        help="How γ, the sensitivity of the paper, is computed.",
        rich_help_panel=PAPER_PANEL,
        show_default="exact",
    ),
]
ClipNorm = Annotated[
    float | None,
    typer.Option(
        parser=parse_float,
        help="Λ of posterior and gaussian: the largest norm of a user's counts. Larger counts are"
        " scaled down.",
        rich_help_panel=DEFAULT_PANEL,
        show_default="posterior chooses it inside the budget; gaussian 4",
    ),
]
K = Annotated[
    int | None,
    typer.Option(
        parser=parse_int,
        help="K of k-anonymity, in users.",
        rich_help_panel=OTHERS_PANEL,
        show_default="50",
    ),
]
SuppressedMass = Annotated[
    Suppressed | None,
    typer.Option(
        help="What k-anonymity does with the mass of suppressed n-grams.",
        rich_help_panel=OTHERS_PANEL,
        show_default="add-one",
    ),
]
Tune = Annotated[
    bool,
    typer.Option(
        "--tune", help="Choose S and ρ by Algorithm 2, for ε/3.", rich_help_panel=TUNING_PANEL
    ),
]
Slopes = Annotated[
    str | None,
    typer.Option(
        help="Values of S to try, separated by commas.",
        rich_help_panel=TUNING_PANEL,
        show_default="0.001 … 10000",
    ),
]
Rhos = Annotated[
    str | None,
    typer.Option(
        help="Values of ρ to try, separated by commas.",
        rich_help_panel=TUNING_PANEL,
        show_default="0.1 … 0.9",
    ),
]
ScoreSensitivityName = Annotated[
    ScoreSensitivity | None,
    typer.Option(
        help="The bound on |Δq|: Claim 3's, or the true one.",
        rich_help_panel=TUNING_PANEL,
        show_default="corrected",
    ),
]


@dataclass(frozen=True)
class MechanismOptions:
    """The options of all mechanisms; None where an option is not given."""

    clip_norm: ClipNorm = None
    max_count: MaxCount = None
    max_total: MaxTotal = None
    slope: Slope = None
    rho: Rho = None
    sensitivity: SensitivityName = None
    k: K = None
    suppressed: SuppressedMass = None


@dataclass(frozen=True)
class GridOptions:
    """The options of Algorithm 2; None where an option is not given."""

    slopes: Slopes = None
    rhos: Rhos = None
    score_sensitivity: ScoreSensitivityName = None

    @property
    def grid(self) -> "Grid":
        """The settings that Algorithm 2 chooses from."""
        from bayesgram.paper.algorithm_2 import Grid

        settings: dict[str, Any] = {}
        if self.slopes is not None:
            settings["slopes"] = tuple(
                parse_list("--slopes", self.slopes, parse_float, "0.001,0.01,0.1")
            )
        if self.rhos is not None:
            settings["rhos"] = tuple(parse_list("--rhos", self.rhos, parse_float, "0.1,0.3,0.9"))
        if self.score_sensitivity is not None:
            settings["score_sensitivity"] = self.score_sensitivity
        return Grid(**settings)


NO_OPTIONS = MechanismOptions()
NO_GRID = GridOptions()

# --- Mechanisms ---

TUNING_OPTIONS = ("slopes", "rhos", "score_sensitivity")
OPTIONS_OF = {
    MechanismName.PAPER: (
        *("expected_users", "max_count", "max_total", "slope", "rho", "sensitivity"),
        *("tune", *TUNING_OPTIONS),
    ),
    MechanismName.LAPLACE: ("max_total",),
    MechanismName.LAPLACE_PUBLIC: ("max_total",),
    MechanismName.POSTERIOR: ("clip_norm", "expected_users"),
    MechanismName.GAUSSIAN: ("clip_norm", "expected_users"),
    MechanismName.K_ANONYMITY: ("k", "suppressed"),
}


def make_mechanism(
    name: MechanismName,
    mechanism_options: MechanismOptions,
    *,
    expected_users: int | None,
    tune: bool = False,
    grid: GridOptions = NO_GRID,
) -> "CountsMechanism":
    """Return a mechanism with the options that were given.

    Args:
        name: The value of --mechanism.
        mechanism_options: Those of all mechanisms; an option of another one is refused.
        expected_users: A public round figure, which sets bounds of the paper's mechanism.
        tune: Whether Algorithm 2 chooses S and ρ of the paper's mechanism.
        grid: What Algorithm 2 chooses from.
    """
    from bayesgram.mechanisms.gaussian import Gaussian
    from bayesgram.mechanisms.laplace import Laplace, LaplacePublic
    from bayesgram.mechanisms.posterior import Posterior
    from bayesgram.paper.algorithm_2 import TunedPaper
    from bayesgram.paper.k_anonymity import KAnonymity

    settings = _without_none(asdict(mechanism_options))
    shared = _without_none({"expected_users": expected_users, "tune": tune or None})
    _check_options(name, [*shared, *settings, *_without_none(asdict(grid))])
    if name is MechanismName.PAPER:
        paper = make_paper(expected_users, **settings)
        return TunedPaper(paper, grid.grid) if tune else paper
    mechanisms: dict[MechanismName, type[CountsMechanism]] = {
        MechanismName.LAPLACE: Laplace,
        MechanismName.LAPLACE_PUBLIC: LaplacePublic,
        MechanismName.POSTERIOR: Posterior,
        MechanismName.GAUSSIAN: Gaussian,
        MechanismName.K_ANONYMITY: KAnonymity,
    }
    return mechanisms[name](**settings)


def make_paper(expected_users: int | None, **settings: Any) -> "Paper":  # noqa: ANN401 - checked by Paper
    """Return the paper's mechanism.

    Args:
        expected_users: A public round figure, which sets the bounds C and W unless given.
        **settings: Those of `Paper`; None where one is not given.
    """
    from bayesgram.paper.algorithm_1 import Paper, paper_bounds

    settings = _without_none(settings)
    if expected_users is None:
        return Paper(**settings)
    max_count, max_total = paper_bounds(expected_users)
    return Paper(**{"max_count": max_count, "max_total": max_total, **settings})


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _check_options(name: MechanismName, given_options: list[str]) -> None:
    """Refuse options that the mechanism does not have, and those that contradict each other."""
    for option in given_options:
        if option not in OPTIONS_OF[name]:
            owners = [owner for owner, options in OPTIONS_OF.items() if option in options]
            raise UsageError(
                f"{_option_name(option)}: not an option of the mechanism {name}, which has"
                f" {', '.join(map(_option_name, OPTIONS_OF[name]))}. {_option_name(option)} is for"
                f" --mechanism {' or '.join(owners)}."
            )
    if name is not MechanismName.PAPER:
        return
    for option in ("slope", "rho"):
        if "tune" in given_options and option in given_options:
            raise UsageError(
                f"{_option_name(option)} and --tune: --tune chooses it; leave one of them out."
            )
    for option in TUNING_OPTIONS:
        if "tune" not in given_options and option in given_options:
            raise UsageError(
                f"{_option_name(option)}: has a meaning only with --tune; add it or leave this out."
            )


def _option_name(name: str) -> str:
    return f"--{name.replace('_', '-')}"


# --- Budgets ---

DEFAULT_DELTA = 1e-7  # a convention: far below 1/(number of users) of most services
NOT_PROVED = {MechanismName.PAPER, MechanismName.K_ANONYMITY}
NO_DELTA = {MechanismName.LAPLACE, MechanismName.LAPLACE_PUBLIC, MechanismName.K_ANONYMITY}


def make_budget(
    mechanism: MechanismName, epsilon: float | None, delta: float | None, expected_users: int | None
) -> "Budget | None":
    """Return the budget (ε, δ), and warn if it promises little.

    Args:
        mechanism: The value of --mechanism.
        epsilon: ε; without one there is no budget.
        delta: δ, 1e-7 if not given. It is refused where the mechanism can't use it.
        expected_users: A public round figure, to judge δ by.
    """
    from bayesgram.privacy.budget import Budget
    from bayesgram.releases.card import MAX_USERS

    if delta is not None and mechanism in NO_DELTA:
        raise UsageError(f"--delta: {mechanism} needs none; leave it out.")
    if expected_users is not None:
        check_int(
            "expected_users", expected_users, 1, MAX_USERS, "a public bound on the number of users"
        )
    if epsilon is None:
        return None
    if mechanism in NO_DELTA:
        delta = 0.0
    budget = Budget(epsilon, DEFAULT_DELTA if delta is None else delta)
    _warn_of_weak_budget(mechanism, budget, expected_users)
    return budget


def _warn_of_weak_budget(
    mechanism: MechanismName, budget: "Budget", expected_users: int | None
) -> None:
    """Say what a promise is not worth before anything is spent on it.

    Where nothing is proved, δ alone can be wrong.
    """
    from bayesgram.releases.card_sections import find_weaknesses

    if mechanism not in NOT_PROVED:
        for weakness in find_weaknesses(budget.epsilon, budget.delta, expected_users):
            console.print_note(f"warning: {weakness}")
        return
    # The same bounds on δ as in `find_weaknesses`: a tenth of 1/users, or 1e-4 if nobody says.
    max_delta = 1e-4 if expected_users is None else 0.1 / expected_users
    if budget.delta > max_delta:
        console.print_note(
            f"warning: --delta {budget.delta}: with this chance all about somebody may come out;"
            f" stay far below 1/(number of users), at most {max_delta:g} here."
        )


# --- Data ---


def open_counts(counts: Path, vocab: Path) -> "tuple[PrivateCounts, Vocabulary]":
    """Open private counts, which stay on disk, and load their vocabulary; none by segment."""
    from bayesgram.private import counts_on_disk

    return _read_with_vocabulary(counts, vocab, counts_on_disk.open_counts)


def open_counts_by_segment(
    counts: Path, vocab: Path
) -> "tuple[PrivateCounts | SegmentedCounts, Vocabulary]":
    """Open private counts, by segment or not, which stay on disk, and load their vocabulary."""
    from bayesgram.private.counts_on_disk import open_any_counts

    return _read_with_vocabulary(counts, vocab, open_any_counts)


def load_counts(counts: Path, vocab: Path) -> "tuple[UserCounts, Vocabulary]":
    """Load private counts into memory, and their vocabulary; none by segment."""
    from bayesgram.private.counts_io import load_user_counts

    return _read_with_vocabulary(counts, vocab, load_user_counts)


def _read_with_vocabulary(
    counts: Path, vocab: Path, read_counts: Callable[..., CountsType]
) -> "tuple[CountsType, Vocabulary]":
    from bayesgram.public.vocabulary import Vocabulary

    with console.step("Reading counts"):
        vocabulary = Vocabulary.load(vocab)
        return read_counts(counts, vocabulary_size=len(vocabulary)), vocabulary
