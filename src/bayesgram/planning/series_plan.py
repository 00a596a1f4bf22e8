"""A plan of a series: how many full releases to give every user, before anything is spent.

In:  public n-grams, assumptions about the people and about how often they write, and a budget.
Out: for several k, how good the releases of a series are to be, beside separate releases that share
     the same budget.

A crowd of made-up people writes in each release with a probability of their own, and amounts that
differ between people and releases. Allowances are paced as the mechanism paces them, clip norms are
chosen as it chooses them, and the KL divergence is the one that it expects of its choice. No noise
is drawn, no private data is read, and nothing is spent.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from bayesgram.arguments import check_arguments
from bayesgram.arrays import Floats, Integers
from bayesgram.errors import Argument, UsageError, check_float, check_int
from bayesgram.inference.design import (
    NORMS,
    Distortion,
    ExpectedKl,
    NoiseCost,
    NormHistogram,
    TypicalUser,
    choose_clipping,
    max_amounts,
    order_shapes,
)
from bayesgram.inference.noisy_counts import PublicNgrams
from bayesgram.planning.plan import DEFAULT_ASSUMPTIONS, DEFAULT_DELTA
from bayesgram.planning.simulation import Assumptions, Planner
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.calibration import GaussianNoise, calibrate_gaussian
from bayesgram.privacy.constants import (
    ACTIVITY_EDGES,
    FULL_RELEASE,
    HISTOGRAM_SHARE,
    MAX_SERIES_RELEASES,
    NORM_EDGES,
    UNITS,
)
from bayesgram.privacy.pacing import pace
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.card_sections import WITHHELD_DETAIL, order_details
from bayesgram.releases.release import Release, check_vocabulary

DEFAULT_EPSILON = 1.0
DEFAULT_RELEASES = 52
DEFAULT_ACTIVITY = 0.25  # a quarter of those who ever write do so in a given week; a convention

# Made-up people: enough for a smooth histogram of those who write in one release. Chosen by hand.
CROWD = 6_000

# α + β of the Beta distribution of how often people write: with 2, few are in between seldom and
# nearly always where the mean is small. Not measured on real people.
ACTIVITY_CONCENTRATION = 2.0

# Share of the variance of the logarithm of amounts that is between people; the rest is between the
# releases that one person writes in. Not measured on real people.
PERSON_SHARE = 2 / 3

# Standard deviation of the share of all text that a class of users writes, above which an earlier
# series does not say how often people write. Chosen by hand.
MAX_TEXT_STD = 0.05

# The values of k that are tried, beside the number of releases itself.
FULL_RELEASES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)

# k whose KL is within this factor of the least are alike, and the smallest of them is advised: its
# first releases have the least noise, and a chain of releases keeps what they learn. Measured by
# `benchmarks/series.py year`: chains with k = 2 and 4 are as good as or better than with k = 8.
ALIKE_FACTOR = 1.02


@dataclass(frozen=True)
class SeriesPlanRow:
    """What to expect of a series with k full releases for every user.

    Attributes:
        full_releases: k.
        noise_ratio: The noise of a release over that of separate releases, at the same clip norm.
        withheld_share: The share of the text, counted up to the clip norm, that allowances leave
            out, over all releases.
        kl: The KL divergence in nats to expect of a release, in the mean.
        kl_ratio: The same over that of separate releases.
        last_kl_ratio: The same ratio in the last release.
    """

    full_releases: int
    noise_ratio: float
    withheld_share: float
    kl: float
    kl_ratio: float
    last_kl_ratio: float


@dataclass(frozen=True)
class SeriesPlan:
    """What to expect of a series, for several numbers of full releases.

    Attributes:
        assumptions: What is assumed about the people who write in one release.
        activity: The share of the releases that a person writes in, in the mean.
        epsilon: ε of the whole series.
        delta: δ of the whole series.
        releases: The number of releases.
        rows: What to expect, by k.
        full_releases: The k that is advised.
    """

    assumptions: Assumptions
    activity: float
    epsilon: float
    delta: float
    releases: int
    rows: tuple[SeriesPlanRow, ...]
    full_releases: int

    @property
    def answer(self) -> str:
        """Which k is advised, and what it is worth, in a sentence."""
        row = next(row for row in self.rows if row.full_releases == self.full_releases)
        if row.kl_ratio > 1:
            return (
                "Separate releases are as good as a series here: allowances save nothing where"
                " everybody writes as much as counts, every time."
            )
        return (
            f"Give every user {self.full_releases} full releases: the error of a release is about"
            f" {row.kl_ratio:.0%} of that of {self.releases} separate releases in the same budget"
            f" ({row.last_kl_ratio:.0%} in the last)."
        )

    @property
    def assumptions_sentence(self) -> str:
        """What was assumed, in a sentence."""
        people = self.assumptions
        return (
            f"Assumed: {people.users:,.0f} users write in a release, {people.ngrams_a_user:g}"
            f" n-grams each (unevenness {people.unevenness:g}); a user writes in"
            f" {self.activity:.0%} of the releases, some in nearly none and some in nearly all."
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            **asdict(self.assumptions),
            "activity": self.activity,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "releases": self.releases,
            "full_releases": self.full_releases,
            "answer": self.answer,
            "rows": [asdict(row) for row in self.rows],
        }


@check_arguments
def plan_series(
    vocabulary: Vocabulary,
    *,
    users: float,
    ngrams_a_user: float | None = None,
    unevenness: float | None = None,
    activity: float | None = None,
    earlier: Release | None = None,
    epsilon: float = DEFAULT_EPSILON,
    delta: float = DEFAULT_DELTA,
    releases: int = DEFAULT_RELEASES,
    size: int | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> SeriesPlan:
    """Advise how many full releases of a series to give every user.

    Public text and assumptions go in; no private data is read and nothing is spent.

    Args:
        vocabulary: The public n-grams; those of the longest order are planned.
        users: How many people write in one release: a public round figure.
        ngrams_a_user: N-grams of the vocabulary that a user writes in a release, on average; 8
            without it.
        unevenness: Standard deviation of the logarithm of that; 1.2 without it.
        activity: The share of the releases that a user writes in, on average; 0.25 without it.
        earlier: A release of an earlier series of the same people and vocabulary, the later the
            better: how often people write is taken from what it measured.
        epsilon: ε of the whole series.
        delta: δ of the whole series.
        releases: The number of releases.
        size: Number of n-grams of each order, the most frequent ones; all without it, up to
            100,000.
        on_progress: Is called with the share of the work that is done, from 0 to 1.

    Raises:
        UsageError: If a value is out of range, or the earlier release does not say how often people
            write.

    Example:
        >>> import bayesgram as bg
        >>> import pyarrow as pa
        >>> public = pa.table({"text": ["see you soon", "see you later", "it is late"]})
        >>> vocabulary = bg.Vocabulary.from_public(public, order=1, size=10)
        >>> planned = bg.plan_series(vocabulary, users=10_000, activity=0.1, releases=20)
        >>> planned.rows[0].full_releases, planned.rows[-1].full_releases
        (1, 20)
    """
    check_int("releases", releases, 2, MAX_SERIES_RELEASES, "the number of releases of a series")
    if not delta:
        raise UsageError.for_argument(
            "delta", "0", "a series has Gaussian noise, so it needs a delta above 0."
        )
    if activity is not None and earlier is not None:
        raise UsageError(
            Argument("activity"),
            " and an earlier release: each says how often people write; give one of them.",
        )
    if activity is not None:
        check_float("activity", activity, 0.01, 1.0, "of the releases")
    stated = {"ngrams_a_user": ngrams_a_user, "unevenness": unevenness}
    assumptions = Assumptions(
        users=users,
        **{
            name: DEFAULT_ASSUMPTIONS[name] if value is None else value
            for name, value in stated.items()
        },
    )
    planner = Planner(vocabulary)
    size = planner.max_size if size is None else size
    planner.check_size(size)
    parts = planner.public_ngrams(size)
    noise = calibrate_gaussian(Budget(epsilon, delta), coordinates=1, units=UNITS)
    rng = np.random.default_rng(1)  # of made-up people: there is nobody to hide
    activities = (
        _draw_activities(DEFAULT_ACTIVITY if activity is None else activity, rng)
        if earlier is None
        else _activities_of(earlier, vocabulary, rng)
    )
    crowd = Crowd.draw(parts[-1], assumptions, activities, releases, rng)
    return _compare(crowd, noise, len(parts), Budget(epsilon, delta), on_progress)


@dataclass(frozen=True, eq=False)
class Crowd:
    """Made-up people who write in some of the releases.

    Attributes:
        public: Public n-grams.
        assumptions: What was assumed.
        amounts: Releases × people, how many n-grams each writes; 0 for who does not write.
        norms: Their norms.
        weight: How many users one of the people stands for.
    """

    public: PublicNgrams
    assumptions: Assumptions
    amounts: Floats
    norms: Floats
    weight: float

    @classmethod
    def draw(
        cls,
        public: PublicNgrams,
        assumptions: Assumptions,
        activities: Floats,
        releases: int,
        rng: np.random.Generator,
    ) -> "Crowd":
        """Draw who writes in which release, and how much."""
        spread = assumptions.unevenness
        people = spread * math.sqrt(PERSON_SHARE) * rng.standard_normal(activities.size)
        weeks = (
            spread * math.sqrt(1 - PERSON_SHARE) * rng.standard_normal((releases, activities.size))
        )
        amounts = np.exp(people + weeks)
        writes = rng.random(amounts.shape) < activities
        amounts *= assumptions.ngrams_a_user / math.exp(spread**2 / 2)
        amounts = np.where(writes, np.maximum(amounts, 1.0), 0.0)
        ngram_shape, word_shape = order_shapes(public)
        user = TypicalUser.from_rates(
            [public.prior, public.per_word(public.prior)], [ngram_shape, word_shape]
        )
        weight = assumptions.users / max(float(writes.mean(axis=0).sum()), 1e-9)
        return cls(public, assumptions, amounts, user.norm(amounts), weight)

    @property
    def releases(self) -> int:
        """The number of releases."""
        return len(self.amounts)

    def histogram(self, release: int, parts: Floats) -> NormHistogram:
        """Return the norm histogram of one release, as the mechanism would count it without noise.

        Args:
            release: Its number, from 0.
            parts: The part of B that each person may contribute.
        """
        ngram_shape, _ = order_shapes(self.public)
        largest = max_amounts(self.public, ngram_shape)
        writes = (self.amounts[release] > 0) & (parts > 0)
        norms = self.norms[release][writes] / parts[writes]
        bins = np.searchsorted(NORM_EDGES, norms, side="right")
        users = np.bincount(bins, parts[writes], NORMS.size) * self.weight
        counted = np.minimum(self.amounts[release][writes], parts[writes] * largest[bins])
        written = np.bincount(bins, counted, NORMS.size) * self.weight
        return NormHistogram(users.astype(np.float64), written.astype(np.float64))


def _draw_activities(mean: float, rng: np.random.Generator) -> Floats:
    """Return how often each person writes: Beta distributed, or always."""
    if mean >= 1:
        return np.ones(CROWD)
    return rng.beta(mean * ACTIVITY_CONCENTRATION, (1 - mean) * ACTIVITY_CONCENTRATION, CROWD)


def _activities_of(release: Release, vocabulary: Vocabulary, rng: np.random.Generator) -> Floats:
    """Return how often each person writes, by what a release of an earlier series measured.

    It knows how much text is by people of each class of activity. Somebody who writes in a share a
    of the releases writes a times as much as somebody who always does, so that there are 1/a times
    as many of them for as much text.
    """
    check_vocabulary(release, vocabulary, name="the earlier release")
    details = order_details(release.card.details).get(WITHHELD_DETAIL, {})
    classes = details.get("by_activity", [])
    texts = np.array([max(each["text"], 0.0) for each in classes])
    if not texts.sum() or max(each["text_std"] for each in classes) > MAX_TEXT_STD:
        raise UsageError(
            "the earlier release does not say how often people write: it is of no series, or noise"
            " hides it. Give a later release of a series, or say what you assume with ",
            Argument("activity"),
            ".",
        )
    edges = np.array([0.0, *ACTIVITY_EDGES, 1.0])
    middles = (edges[1:] + edges[:-1]) / 2
    people = texts / middles
    chosen = rng.choice(texts.size, CROWD, p=people / people.sum())
    drawn: Floats = rng.uniform(edges[chosen], edges[chosen + 1])
    return drawn


def _compare(
    crowd: Crowd,
    noise: GaussianNoise,
    orders: int,
    budget: Budget,
    on_progress: Callable[[float], None] | None,
) -> SeriesPlan:
    """Simulate separate releases, and a series for each k."""
    releases = crowd.releases
    noise_cost = NoiseCost.from_public(crowd.public)
    choices = [*(k for k in FULL_RELEASES if k < releases), releases]
    order_multiplier = noise.multiplier_for_share(1 / orders)
    separate, _ = _simulate(crowd, noise_cost, order_multiplier * math.sqrt(releases), None)
    rows = []
    for number, full_releases in enumerate(choices, 1):
        multiplier = order_multiplier * math.sqrt(full_releases)
        kls, withheld = _simulate(crowd, noise_cost, multiplier, full_releases)
        rows.append(
            SeriesPlanRow(
                full_releases,
                math.sqrt(full_releases / releases),
                withheld,
                float(kls.mean()),
                float(kls.mean() / separate.mean()),
                float(kls[-1] / separate[-1]),
            )
        )
        if on_progress is not None:
            on_progress(number / len(choices))
    return SeriesPlan(
        crowd.assumptions,
        round(float((crowd.amounts > 0).mean()), 3),
        budget.epsilon,
        budget.delta,
        releases,
        tuple(rows),
        _advise(rows),
    )


def _advise(rows: Sequence[SeriesPlanRow]) -> int:
    """Return the smallest k whose KL is about the least."""
    least = min(row.kl for row in rows)
    return min(row.full_releases for row in rows if row.kl <= ALIKE_FACTOR * least)


def _simulate(
    crowd: Crowd, noise_cost: NoiseCost, multiplier: float, full_releases: int | None
) -> tuple[Floats, float]:
    """Return the KL to expect of each release, and the share of text that allowances leave out.

    Args:
        crowd: The people.
        noise_cost: What noise costs.
        multiplier: σ of the budget of one release, for the order that is planned.
        full_releases: k; None for separate releases, without allowances.
    """
    size = crowd.amounts.shape[1]
    used: Integers = np.zeros(size, np.int64)
    active = np.zeros(size, np.int32)
    kls = np.zeros(crowd.releases)
    kept = counted = 0.0
    plan = None
    for release in range(crowd.releases):
        parts = np.ones(size)
        if full_releases is not None:
            allowed = pace(
                used,
                active,
                number=release + 1,
                releases=crowd.releases,
                full_releases=full_releases,
            )
            parts = np.sqrt(allowed / FULL_RELEASE)
        histogram = crowd.histogram(release, parts)
        number = release + 1
        if plan is None or number & (number - 1) == 0:  # a power of two; others use the last one
            plan = replace(choose_clipping(histogram, crowd.public, multiplier), histogram=None)
        distortion = Distortion.from_histogram(histogram, crowd.public)
        kls[release] = ExpectedKl(histogram, distortion, noise_cost, multiplier).of(plan)
        norms = crowd.norms[release] / plan.clip_norm  # in units of B
        amounts = crowd.amounts[release]
        share_of_norm = np.minimum(norms, 1.0)
        contributed = np.minimum(share_of_norm, parts)
        scale = 1 / np.maximum(norms, 1e-9)
        counted += float((amounts * share_of_norm * scale).sum())
        kept += float((amounts * contributed * scale).sum())
        writes = amounts > 0
        cost = (1 - HISTOGRAM_SHARE) * contributed**2 + HISTOGRAM_SHARE * parts**2
        used += np.where(writes, cost * FULL_RELEASE, 0.0).astype(np.int64)
        active += writes
    return kls, 1 - kept / max(counted, 1e-9)
