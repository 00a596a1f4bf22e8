"""The posterior mechanism: spend the budget on counts, then be as Bayesian as you like. The default.

The door: shape, clip, fixed point, exact integer sum, discrete Gaussian noise (docs/promise.md proves it). A few
percent of the budget measure how much users write, so that the clip norm Λ fits them, and where it is worth it another
few what clipping takes away. Everything after the noise is post-processing, in `inference`.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bayesgram.arguments import check_fields
from bayesgram.arrays import Floats, Ids, Integers
from bayesgram.errors import Argument, UsageError
from bayesgram.inference.chaining import join, kept
from bayesgram.inference.design import (
    AMOUNT_SHARE,
    FIRST_WORD_GROUPS,
    GROUPS,
    NORM_EDGES,
    Amounts,
    Choice,
    FirstWords,
    TypicalUser,
    best_choice,
    first_word_groups,
    largest_amounts,
    lost_words,
    most_lost_words,
    shapes,
    typical,
)
from bayesgram.inference.mixing import kinds_of, likely_weights
from bayesgram.inference.model import Inferred, models_told, sources_told
from bayesgram.inference.noisy_counts import Lost, Measured, PublicNgrams
from bayesgram.inference.orders import infer_orders
from bayesgram.io.segments import Segments
from bayesgram.mechanisms.base import Mechanism, Outcome, Randomness, need
from bayesgram.privacy.accounting import Spend
from bayesgram.privacy.budget import Budget, Guarantee
from bayesgram.privacy.calibration import GaussianNoise, calibrate_gaussian
from bayesgram.private.clipping import (
    UNITS,
    Coordinates,
    LostWords,
    check_clip_norm,
    clipped_sum,
    lost_sum,
)
from bayesgram.private.counts import PrivateCounts
from bayesgram.private.norm_histogram import FIRST_WORD_UNITS, KIND_UNITS, USER_UNITS, Bins, amounts
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.card import DRIFT_DETAIL
from bayesgram.releases.previous import PreviousRelease, PreviousSegmentedRelease, open_previous
from bayesgram.releases.release import Release
from bayesgram.releases.segmented import SegmentedRelease

if TYPE_CHECKING:
    from bayesgram.mechanisms.by_segment import BySegment


@dataclass(frozen=True)
class Posterior(Mechanism):
    """Noisy counts with public text as their prior."""

    name: ClassVar[str] = "posterior"
    guarantee: ClassVar[Guarantee] = Guarantee.PROVED
    several_orders: ClassVar[bool] = True
    statement: ClassVar[str] = (
        "(ε, δ)-differential privacy, for every dataset: the noise follows public bounds alone."
    )

    clip_norm: float | None = None  # Λ; None: chosen by a noisy histogram, inside the budget
    previous: PreviousRelease | PreviousSegmentedRelease | None = (
        None  # a release that this one follows; public
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if self.clip_norm is not None:
            object.__setattr__(self, "clip_norm", check_clip_norm(self.clip_norm))

    def after(
        self, previous: "PreviousRelease | Release | SegmentedRelease | str | Path | None"
    ) -> "Posterior":
        """With an earlier release as the prior, or the one it has."""
        return self if previous is None else replace(self, previous=open_previous(previous))

    def check_inputs(self, counts: PrivateCounts, vocabulary: Vocabulary) -> None:
        """Also that the earlier release is of use."""
        super().check_inputs(counts, vocabulary)
        if isinstance(self.previous, PreviousSegmentedRelease):
            raise UsageError(
                f"{self.previous.name}: holds a release for each segment, and the counts are not by segment; give the"
                f" one of all people, {self.previous.name}/all, or count by {self.previous.segments.by!r}."
            )
        if self.previous is not None:
            self.previous.measurements_for(vocabulary.ngrams, vocabulary.tokenizer.name)

    def by_segment(
        self, segments: Segments, on_progress: Callable[[float], None] = lambda _: None
    ) -> "BySegment":
        """The mechanism for counts by segment."""
        from bayesgram.mechanisms.by_segment import BySegment  # noqa: PLC0415 - it is made of this

        if isinstance(self.previous, PreviousRelease):
            raise UsageError(
                f"{self.previous.name}: is one release, and the counts are by "
                f"{segments.by!r}; give the folder of a release by segment, which has `all` "
                "in it, or leave ",
                Argument("previous"),
                " out.",
            )
        return BySegment(self, segments, on_progress)

    def calibrated(
        self, vocabulary: Vocabulary, budget: Budget, segments: int = 0
    ) -> GaussianNoise:
        """σ of all measurements together: all their coordinates count for the slack, also those that are not asked."""
        longest = vocabulary.by_order[-1][1]
        words = longest.word_ids[1] if longest.order > 1 else 0
        totals, lost = len(vocabulary.by_order), most_lost_words(longest.word_ids[1]) + 1
        amount = 2 * (NORM_EDGES.size + 1) + number_of_kinds(vocabulary) + number_of_first_words()
        of_all = len(vocabulary) + words + totals + lost + amount
        of_segments = segments * (len(vocabulary) + totals)
        return calibrate_gaussian(budget, coordinates=of_all + of_segments, units=UNITS)

    def spend(self, vocabulary: Vocabulary, budget: Budget) -> Spend:
        """1/σ² of all measurements, which add up to that of the whole."""
        return self.calibrated(vocabulary, budget).spend

    def distribution(
        self,
        counts: PrivateCounts,
        vocabulary: Vocabulary,
        budget: Budget | None,
        chance: Randomness,
    ) -> Outcome:
        """Measure, then infer."""
        noisy, details = self.measure(counts, vocabulary, budget, chance)
        parts = [part for _, part in vocabulary.by_order]
        joined, drift = self._joined(noisy, parts)
        outcome = described(infer_orders(joined, parts), vocabulary, {**drift, **details})
        return replace(
            outcome, measured=kept(noisy, parts, None if self.previous is None else joined)
        )

    def _joined(
        self, noisy: list[Measured], parts: list[Vocabulary]
    ) -> tuple[list[Measured], dict[str, Any]]:
        """What was measured, together with what the release before carries over, and what the card says of that."""
        if self.previous is None:
            return noisy, {}
        joined, drifts = join(noisy, parts, self.previous.release)
        return joined, {DRIFT_DETAIL: {order: asdict(drift) for order, drift in drifts.items()}}

    def measure(
        self,
        counts: PrivateCounts,
        vocabulary: Vocabulary,
        budget: Budget | None,
        chance: Randomness,
    ) -> tuple[list[Measured], dict[str, Any]]:
        """The door: noisy counts of every order, and what the card says of them."""
        whole = self.calibrated(vocabulary, need(budget, self.name))
        (noisy,), details = self.measured(counts, Design.of(vocabulary), whole, chance)
        return noisy, details

    def measured(
        self, counts: PrivateCounts, design: "Design", whole: GaussianNoise, chance: Randomness
    ) -> tuple[list[list[Measured]], dict[str, Any]]:
        """What a design asks about, in one budget: of all people, and then of each segment if it has any."""
        details: dict[str, Any] = {"epsilon_slack": whole.slack}
        if self.clip_norm is not None:
            choice, left = Choice.fixed(self.clip_norm), 1.0
        else:
            left = 1 - AMOUNT_SHARE
            choice, design, said = _choose(counts, design, whole, chance)
            details |= said
        lost = None
        if choice.lost_share:
            left -= choice.lost_share
            lost = _lost(counts, design, choice, whole.part(choice.lost_share), chance)
        measured, sigma = design.coordinates(choice), whole.part(left)
        total = clipped_sum(counts, measured, clip_norm=choice.clip_norm)  # every user within B
        noisy = chance.noise.discrete_gaussian(
            total, scale=sigma * UNITS
        )  # the line that spends most of the budget
        found = {"clip_norm_used": choice.clip_norm, "noise_multiplier": sigma, **details}
        if lost is not None:
            found |= {
                "lost_multiplier": whole.part(choice.lost_share),
                "lost_norm": choice.lost_norm,
            }
        groups = design.as_measured(noisy, measured, sigma, choice.clip_norm)
        groups[0][-1] = replace(groups[0][-1], lost=lost)
        return [choice.described(group, design.scales) for group in groups], found


def described(
    found: Sequence[Inferred], vocabulary: Vocabulary, details: dict[str, Any]
) -> Outcome:
    """What was inferred of every order, and what the card says of it."""
    by_order = dict(zip((str(part.order) for _, part in vocabulary.by_order), found, strict=True))
    totals = {order: round(each.total, 1) for order, each in by_order.items()}
    theta, deviation = (
        np.concatenate([getattr(each, name) for each in found]) for name in ("theta", "deviation")
    )
    told = {"model": models_told(by_order), "expected_counts": totals}
    said = {**told, **sources_told(vocabulary.source_names, by_order), **details}
    return Outcome(theta, said, deviation)


def _choose(
    counts: PrivateCounts, design: "Design", whole: GaussianNoise, chance: Randomness
) -> tuple[Choice, "Design", dict[str, Any]]:
    """How to measure, from a noisy look at how much users write, like which source, and who writes how."""
    sigma, bins = whole.part(AMOUNT_SHARE), design.bins
    exact = amounts(counts, design.ngrams, bins)  # every user within B
    noisy = chance.noise.discrete_gaussian(exact, scale=sigma * UNITS).astype(np.float64)
    users, parts, kinds, shares = bins.split(noisy)
    doubt = sigma * UNITS / USER_UNITS
    seen = Amounts.from_noisy(users, parts, bins.largest, doubt)
    first_words = FirstWords(shares, sigma * UNITS / FIRST_WORD_UNITS, bins.groups)
    said = {"amount_multiplier": sigma, "users_noise": doubt, "norm_edges": NORM_EDGES.tolist()}
    said["noisy_users_by_norm"] = [round(float(number), 1) for number in users]
    weights = likely_weights(kinds, sigma * UNITS / KIND_UNITS, design.parts[-1])
    if weights is not None:
        design = replace(design, parts=[part.mixed(weights) for part in design.parts])
    return (
        best_choice(seen, design.parts[-1], whole.multiplier * design.noisier, first_words),
        design,
        said,
    )


def number_of_kinds(vocabulary: Vocabulary) -> int:
    """As many as sources: which one an n-gram is most frequent in. One source has none."""
    sources = len(vocabulary.source_names)
    return sources if sources > 1 else 0


def number_of_first_words() -> int:
    """Those of every group of bins."""
    return (int(GROUPS.max()) + 1) * FIRST_WORD_GROUPS


def _lost(
    counts: PrivateCounts, design: "Design", choice: Choice, sigma: float, chance: Randomness
) -> Lost:
    """The words of what clipping takes away, noisy."""
    asked = design.lost_words(choice)
    total = lost_sum(
        counts, design.coordinates(choice), asked, clip_norm=choice.clip_norm
    )  # every user within B
    noisy = chance.noise.discrete_gaussian(total, scale=sigma * UNITS)
    found, noise = (
        noisy * (asked.clip_norm * asked.shape / UNITS),
        asked.shape * asked.clip_norm * sigma,
    )
    return Lost(design.asked_words, found[:-1], noise[:-1], float(found[-1]), float(noise[-1]))


@dataclass(frozen=True, eq=False)
class Design:
    """What is measured, all of it public: n-grams of every order, words of the longest, and the total of each order."""

    parts: list[PublicNgrams]

    @property
    def noisier(self) -> float:
        """Noise of all people's n-grams, in units of that of a design without segments."""
        return 1.0

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> "Design":
        """The design for a vocabulary."""
        return cls([PublicNgrams.of(part) for _, part in vocabulary.by_order])

    @cached_property
    def scales(self) -> list[Floats]:
        """The shape of every order, and that of the words of the longest."""
        return shapes(self.parts)

    @cached_property
    def size(self) -> int:
        """How many n-grams there are."""
        return sum(public.prior.size for public in self.parts)

    @property
    def first(self) -> int:
        """Where the longest begin."""
        return self.size - self.parts[-1].prior.size

    @cached_property
    def words(self) -> Ids:
        """The coordinate of each word of each n-gram; −1 but for the longest. Unigrams are words already."""
        longest = self.parts[-1].words
        if longest.shape[1] == 1:
            return np.zeros((self.size, 0), np.int32)
        words = np.full((self.size, longest.shape[1]), -1, np.int32)
        words[self.first :] = longest + self.size
        return words

    @cached_property
    def ngrams(self) -> Coordinates:
        """N-grams and words: what the norm of a user is, before totals have their weight."""
        return Coordinates(np.concatenate(self.scales), self.words)

    @cached_property
    def bins(self) -> Bins:
        """How users are sorted: only the longest n-grams count as text."""
        longest, number = self.parts[-1], len(self.parts[-1].sources)
        kinds, first_words = np.full((2, self.size), -1, np.int32)
        kinds[self.first :], first_words[self.first :] = (
            kinds_of(longest),
            first_word_groups(longest),
        )
        largest = largest_amounts(typical(self.parts[-1:], self.scales[-2:-1]))
        return Bins(
            NORM_EDGES,
            largest,
            kinds,
            number if number > 1 else 0,
            GROUPS,
            first_words,
            FIRST_WORD_GROUPS,
        )

    def coordinates(self, choice: Choice) -> Coordinates:
        """N-grams, words, and the totals of the orders."""
        people = [
            TypicalUser.of([public.prior], [scale])
            for public, scale in zip(self.parts, self.scales, strict=False)
        ]
        shape = np.concatenate([*self.scales, choice.total_shapes(people)])
        sizes = [public.prior.size for public in self.parts]
        column = np.repeat(np.arange(len(sizes), dtype=np.int32) + shape.size - len(sizes), sizes)
        return Coordinates(
            shape, np.ascontiguousarray(np.column_stack([self.words, column]), np.int32)
        )

    @cached_property
    def asked_words(self) -> Integers:
        """The words of the longest that are asked about in what clipping takes away."""
        return lost_words(self.parts[-1])[0]

    def lost_words(self, choice: Choice) -> LostWords:
        """These words, and the total of what is lost."""
        longest = self.parts[-1]
        which, shape = lost_words(longest)
        people = TypicalUser.of([longest.per_word(longest.prior)[which]], [shape])
        total = Choice(choice.lost_norm, choice.lost_norm).total_shape(people)
        places = np.full(longest.word_total, -1, np.int32)
        places[which] = np.arange(which.size)
        words = np.full((self.size, longest.words.shape[1] + 1), -1, np.int32)
        words[self.first :] = np.column_stack(
            [places[longest.words], np.full(len(longest.words), which.size)]
        )
        return LostWords(np.append(shape, total), words, choice.lost_norm)

    def as_measured(
        self, noisy: Integers, measured: Coordinates, sigma: float, clip_norm: float
    ) -> list[list[Measured]]:
        """Y = Z̃·Λ·s/B, with noise of standard deviation s·Λ·σ, for each order; the longest has its words, too."""
        sizes = [public.prior.size for public in self.parts]
        edges = np.cumsum([*sizes, self.scales[-1].size])
        counts = np.split(noisy * (clip_norm * measured.shape / UNITS), edges)
        noise = np.split(measured.shape * clip_norm * sigma, edges)
        (words, totals), (word_noise, total_noise) = counts[-2:], noise[-2:]
        found = [
            Measured(count, doubt, float(total), float(total_doubt))
            for count, doubt, total, total_doubt in zip(
                counts[:-2], noise[:-2], totals, total_noise, strict=True
            )
        ]
        if words.size:
            found[-1] = replace(found[-1], word_counts=words, word_noise=word_noise)
        return [found]
