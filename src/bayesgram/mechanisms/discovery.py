"""Discovery: find n-grams that many people write and public text lacks.

Of every user at most m candidates are added up, by weights that public text gives them
(`private.candidates`), and get discrete Gaussian noise; what exceeds the level T is published.
Noise and level follow public bounds alone (`privacy.thresholds`); docs/promise.md proves it. The
number of candidates is not published.

Several rounds share the budget. Every round adds noisy sums, and the mean of all rounds must exceed
T. The noise of the mean is that of a single round, so that rounds cost nothing; but users put their
weight where the noisy sums so far say that it helps (`inference.discovery_weights`). A discovery of
one round drops sums below a floor before noise.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arguments import check_arguments
from bayesgram.arrays import Bools, Floats, Integers
from bayesgram.errors import Argument, UsageError, check_int
from bayesgram.inference.discovery_weights import RoundSchedule
from bayesgram.io import Records, read_records
from bayesgram.io.atomic import PROBE_BYTES
from bayesgram.lm.language_model import LanguageModel
from bayesgram.mechanisms.base import (
    NO_STATEMENTS,
    Charge,
    Mechanism,
    Randomness,
    Reserve,
    Statements,
    require_budget,
    reserve_nothing,
    resolve_budget,
)
from bayesgram.mechanisms.publish import (
    PlannedReservation,
    PublishOptions,
    check_published,
    describe_entry,
    publish,
    refuse_series_options,
    require_output,
)
from bayesgram.mechanisms.series import Series
from bayesgram.privacy.accounting import Allowance, Spend
from bayesgram.privacy.budget import Budget, Guarantee
from bayesgram.privacy.constants import MAX_CANDIDATES, MIN_CANDIDATE_WEIGHT, UNITS
from bayesgram.privacy.ledger import Ledger
from bayesgram.privacy.noise import NoiseSource
from bayesgram.privacy.thresholds import UNLIMITED, Threshold, calibrate_rounds, calibrate_threshold
from bayesgram.privacy.unit import DEFAULT_UNIT, check_unit
from bayesgram.private.candidates import (
    Candidates,
    ContributionBound,
    RoundLists,
    list_candidates,
    sum_candidates,
)
from bayesgram.private.public_row_check import PublicRowCheck, check_records
from bayesgram.public.candidate_weights import PublicTextModel
from bayesgram.public.discovered_ngrams import CONTENTS, Discovery
from bayesgram.public.vocabulary import DEFAULT_MEMORY_BYTES, Vocabulary, extend_vocabulary
from bayesgram.releases.card import Card
from bayesgram.releases.provenance import (
    DISCOVERY_MECHANISM,
    DiscoveryClaim,
    unproved_sentence,
    weakest_label,
)
from bayesgram.text.ngrams import END, START, ngram_orders

WeightedNgrams = tuple[pa.LargeStringArray, Floats]  # n-grams and their noisy weights

# How often people are asked in one budget. benchmarks/discovery.py compares it with one round;
# other numbers were not measured.
DEFAULT_ROUNDS = 10

# The largest values that the settings may have; larger ones are typing errors.
MAX_ROUNDS = 100
MAX_AT_LEAST = 1_000_000
MAX_NEW = 10_000_000

# The sum of a candidate that was dropped: far below any that can be drawn.
DROPPED = -(1 << 62)

STATEMENT = (
    "(ε, δ)-differential privacy, for every dataset: noise and threshold follow public bounds"
    " alone."
)


@dataclass(frozen=True)
class Settings:
    """What a discovery searches for. All of it is public.

    Attributes:
        orders: The orders of n-grams.
        at_least: K: what fewer people write does not come out, noise aside.
        max_new: The largest number of n-grams that may come out.
        open: Whether a word may come out that is neither public nor found by itself.
        rounds: How often people are asked, in one budget.
    """

    orders: tuple[int, ...]
    at_least: int = 1
    max_new: int | None = None
    open: bool = False
    rounds: int = DEFAULT_ROUNDS

    def __post_init__(self) -> None:
        check_int("rounds", self.rounds, 1, MAX_ROUNDS, "the number of rounds")
        check_int(
            "at_least",
            self.at_least,
            1,
            MAX_AT_LEAST,
            "the number of people that it takes at least",
        )
        if self.max_new is not None:
            check_int("max_new", self.max_new, 1, MAX_NEW, "the most n-grams that may come out")

    @classmethod
    def for_vocabulary(
        cls,
        vocabulary: Vocabulary,
        orders: Sequence[int] | None = None,
        **others: Any,  # noqa: ANN401 - other fields
    ) -> "Settings":
        """Return settings for a vocabulary.

        Args:
            vocabulary: The public vocabulary.
            orders: The orders to search; all that the vocabulary lists if it is left out.
            **others: Other fields of the settings; those that are None have their defaults.

        Raises:
            UsageError: If the vocabulary does not list an order: all of its n-grams would be new.
        """
        listed = [part.order for _, part in vocabulary.by_order]
        wanted = tuple(sorted(set(orders))) if orders else tuple(listed)
        if not set(wanted) <= set(listed):
            raise UsageError.for_argument(
                "orders",
                ",".join(map(str, wanted)),
                f"the vocabulary lists n-grams of order {', '.join(map(str, listed))}; search "
                "among those, or make one with `bayesgram vocab --orders`.",
            )
        stated = {name: value for name, value in others.items() if value is not None}
        return cls(wanted, **stated)

    def calibrate(self, budget: Budget, allowance: Allowance = UNLIMITED) -> Threshold:
        """Return noise, floor and level; `allowance` is what a ledger still allows."""
        if budget.delta <= 0:
            raise UsageError.for_argument(
                "delta", "0", "a discovery needs a delta above 0; 1e-7 is usual."
            )
        if self.rounds > 1:
            return calibrate_rounds(
                budget,
                rounds=self.rounds,
                max_candidates=MAX_CANDIDATES,
                units=UNITS,
                at_least=self.at_least,
                allowance=allowance,
            )
        return calibrate_threshold(
            budget,
            max_candidates=MAX_CANDIDATES,
            min_weight=MIN_CANDIDATE_WEIGHT,
            units=UNITS,
            at_least=self.at_least,
            allowance=allowance,
        )


@runtime_checkable
class PrivateText(Protocol):
    """Where private text is. It is asked for candidates, which public text weighs."""

    def sums(
        self, public: PublicTextModel, orders: Sequence[int], bound: ContributionBound
    ) -> Candidates:
        """Return all users' candidates, added up exactly: for one round.

        Args:
            public: Public text, which weighs the candidates.
            orders: The orders of n-grams.
            bound: What one user contributes, and the floor below which sums are dropped.
        """

    def lists(
        self, public: PublicTextModel, orders: Sequence[int], max_candidates: int
    ) -> AbstractContextManager[RoundLists]:
        """Return all users' lists of candidates, while the block lasts: for several rounds.

        Args:
            public: Public text, which weighs the candidates.
            orders: The orders of n-grams.
            max_candidates: The most candidates that one user has.
        """


@dataclass(frozen=True, eq=False, repr=False)
class LocalText:
    """Text that this machine reads, within so many bytes of memory."""

    records: Iterable[Records]
    memory: int

    def sums(
        self, public: PublicTextModel, orders: Sequence[int], bound: ContributionBound
    ) -> Candidates:
        """Return all users' candidates, added up exactly."""
        return sum_candidates(
            self.checked_records(public), public, orders, bound, memory=self.memory
        )

    def lists(
        self, public: PublicTextModel, orders: Sequence[int], max_candidates: int
    ) -> AbstractContextManager[RoundLists]:
        """Return all users' lists, which exist as long as the block lasts."""
        return list_candidates(
            self.checked_records(public), public, orders, max_candidates, memory=self.memory
        )

    def checked_records(self, public: PublicTextModel) -> Iterable[Records]:
        """Return the records; a warning follows the last of them if many rows are public text.

        An error would be an output of the discovery that no noise covers.
        """
        check = PublicRowCheck.from_vocabulary(public.vocabulary, allow_public=True)
        return check_records(self.records, public.vocabulary.tokenizer, check)


@dataclass(frozen=True, eq=False, repr=False)
class DiscoveryData:
    """Private text, with the public text by which its candidates are weighed."""

    text: PrivateText
    public: PublicTextModel


@dataclass(frozen=True)
class DiscoveryMechanism(Mechanism[DiscoveryData, Discovery]):
    """A discovery whose noise and level were chosen before private text is read.

    Attributes:
        settings: What is searched for.
        budget: ε and δ.
        threshold: The noise, and the level that a noisy sum must exceed.
    """

    name: ClassVar[str] = DISCOVERY_MECHANISM
    guarantee: ClassVar[Guarantee] = Guarantee.PROVED

    settings: Settings
    budget: Budget
    threshold: Threshold

    @property
    def previous(self) -> None:
        """A discovery follows no release."""
        return

    def label(self, vocabulary: Vocabulary) -> Guarantee:
        """Return the label that the card of an unseeded discovery will have."""
        return weakest_label(self.guarantee, [source.label for source in vocabulary.ingredients])

    def check_budget(self, budget: Budget | None) -> tuple[float | None, float | None]:
        """Return (ε, δ) of the budget that the threshold was calibrated for."""
        return self.budget.epsilon, self.budget.delta

    def check_inputs(self, data: DiscoveryData, vocabulary: Vocabulary) -> None:
        """Accept any text: a refusal would be an output that no noise covers."""

    def spend(self, vocabulary: Vocabulary, budget: Budget) -> Spend:
        """Return what a ledger is charged."""
        return self.threshold.spend

    def output_contents(self) -> tuple[str, ...]:
        """Return the names of the files of a discovery."""
        return tuple(CONTENTS)

    def output_size(self, vocabulary: Vocabulary) -> int:
        """Return a little room: how much comes out is not known before noise is drawn."""
        return PROBE_BYTES

    def draw(
        self,
        data: DiscoveryData,
        vocabulary: Vocabulary,
        budget: Budget | None,
        randomness: Randomness,
        *,
        statements: Statements = NO_STATEMENTS,
        reserve: Reserve = reserve_nothing,
    ) -> Discovery:
        """Read private text, draw noise, and return what exceeds the level, with its card."""
        charges: list[Charge] = []
        ngrams, weights = self.measure(
            data.text, data.public, randomness.noise, lambda: charges.append(reserve())
        )
        return self.make_discovery(
            ngrams,
            weights,
            data.public,
            seeded=randomness.noise.seeded,
            statements=statements,
            charge=charges[0],
        )

    @property
    def bound(self) -> ContributionBound:
        """What one user contributes, and the floor below which sums are dropped."""
        return ContributionBound(
            MAX_CANDIDATES,
            int(MIN_CANDIDATE_WEIGHT * UNITS),
            int(self.threshold.floor * UNITS) + 1,
        )

    def measure(
        self,
        text: PrivateText,
        public: PublicTextModel,
        noise: NoiseSource,
        before_noise: Callable[[], None],
    ) -> WeightedNgrams:
        """Return what exceeds the level, and its noisy weight: all that private text is asked for.

        Args:
            text: Private text.
            public: Public text, which weighs the candidates.
            noise: Draws the noise.
            before_noise: Called before any noise is drawn.
        """
        orders = self.settings.orders
        if self.settings.rounds > 1:
            with text.lists(public, orders, MAX_CANDIDATES) as lists:
                before_noise()
                above, weights = self._find_all_above_level(self._run_rounds(lists, noise))
                return lists.ngrams(above), weights
        candidates = text.sums(public, orders, self.bound)
        before_noise()
        above, weights = self._find_above_level(
            noise.discrete_gaussian(candidates.sums, scale=self.threshold.scale)
        )
        return candidates.ngrams.take(pa.array(above)), weights

    def _find_above_level(self, noisy: Integers) -> tuple[Integers, Floats]:
        """Return the indices of noisy sums that exceed the level, and their mean over the rounds.

        The comparison is one of integers.
        """
        all_units = self.settings.rounds * UNITS
        above = np.flatnonzero(noisy > int(self.threshold.level * all_units) + 1)
        return above, noisy[above] / all_units

    def _find_all_above_level(self, noisy: Iterable[Integers]) -> tuple[Integers, Floats]:
        """Return what `_find_above_level` does, for blocks of candidates one after the other."""
        above = [np.zeros(0, np.int64)]
        weights = [np.zeros(0)]
        first = 0
        for block in noisy:
            block_above, block_weights = self._find_above_level(block)
            above.append(first + block_above)
            weights.append(block_weights)
            first += block.size
        return np.concatenate(above), np.concatenate(weights)

    def _run_rounds(self, lists: RoundLists, noise: NoiseSource) -> Iterator[Integers]:
        """Return the noisy sums of all rounds together, block by block; DROPPED where dropped."""
        rounds = self.settings.rounds
        schedule = RoundSchedule(self.threshold.multiplier, self.threshold.level)
        users = lists.start_rounds()
        noisy = lists.new_array_blocks("noisy")
        weights = lists.new_array_blocks("weights")
        for block, (first, last) in enumerate(lists.blocks):
            noisy[block] = np.zeros(last - first, np.int64)
            weights[block] = np.exp(lists.log_weights(block).astype(np.float64))
        for over in range(1, rounds + 1):
            for block, sums in enumerate(users.sums(weights)):  # every user within B
                so_far = noisy[block]
                stays = so_far > DROPPED
                so_far[stays] += noise.discrete_gaussian(sums[stays], scale=self.threshold.scale)
                if over < rounds:  # noisy sums and public weights alone say how it goes on
                    logs, hopeful = schedule.plan_round(
                        so_far / (rounds * UNITS), over / rounds, lists.log_weights(block)
                    )
                    stays &= hopeful
                    so_far[~stays] = DROPPED
                    weights[block] = np.where(stays, np.exp(logs), 0.0)
                noisy[block] = so_far
        return (noisy[block] for block in range(len(lists.blocks)))

    def make_discovery(
        self,
        ngrams: pa.LargeStringArray,
        weights: Floats,
        public: PublicTextModel,
        *,
        seeded: bool,
        statements: Statements = NO_STATEMENTS,
        charge: Charge = None,
    ) -> Discovery:
        """Return a discovery of these n-grams and noisy weights. It reads nothing private.

        Args:
            ngrams: The n-grams that exceed the level.
            weights: Their noisy weights.
            public: Public text.
            seeded: Whether the noise was seeded.
            statements: What the curator states, for the card.
            charge: What the card says of the ledger's entry.
        """
        card = self._make_card(public.vocabulary, statements, charge, seeded=seeded)
        return assemble_discovery(
            pa.table({"ngram": ngrams, "weight": weights}), public, self.settings, card
        )

    def _make_card(
        self, vocabulary: Vocabulary, statements: Statements, charge: Charge, *, seeded: bool
    ) -> Card:
        return Card(
            mechanism=self.name,
            guarantee=self.guarantee,
            statement=STATEMENT,
            epsilon=self.budget.epsilon,
            delta=self.budget.delta,
            settings={**asdict(self.settings), "orders": list(self.settings.orders)},
            details={
                "noise_multiplier": self.threshold.multiplier,
                "threshold": self.threshold.level,
                "floor": self.threshold.floor,
                "candidates_a_user": MAX_CANDIDATES,
                "smallest_weight": MIN_CANDIDATE_WEIGHT,
                "failure_probability": self.threshold.failure,
            },
            vocabulary=vocabulary.card_details,
            seeded=seeded,
            unit=statements.unit,
            command=statements.command,
            ledger=None if charge is None else dict(charge),
        )


def assemble_discovery(
    found: pa.Table,
    public: PublicTextModel,
    settings: Settings,
    card: Card,
) -> Discovery:
    """Return a discovery of what exceeded the level. It reads nothing private.

    Args:
        found: The columns `ngram` and `weight`; in a series also `found_in`, the number of the run.
        public: Public text.
        settings: What was searched for.
        card: The card.
    """
    vocabulary = public.vocabulary
    found = found.sort_by([("weight", "descending"), ("ngram", "ascending")]).combine_chunks()
    if not settings.open:
        ngrams = found["ngram"].combine_chunks()
        found = found.filter(pa.array(has_known_words(ngrams, vocabulary)))
    found = found.slice(0, settings.max_new)
    ngrams = found["ngram"].combine_chunks()
    weights = found["weight"].to_numpy()
    charge = card.ledger or {}
    series = charge.get("series") or {}
    claim = DiscoveryClaim(
        card.epsilon or 0.0,
        card.delta or 0.0,
        card.guarantee.name,
        ledger=charge.get("ledger"),
        entry=charge.get("entry"),
        unit=card.unit,
        fingerprint=_hash_discovery(ngrams, weights),
        series_discovery=series.get("release"),
    )
    logs = public.log_probabilities(ngrams)
    return Discovery(
        ngrams,
        weights,
        logs,
        float(card.details["noise_multiplier"]),
        card,
        extend_vocabulary(vocabulary, ngrams, logs, claim),
        found["found_in"].to_numpy() if "found_in" in found.column_names else None,
    )


def _hash_discovery(ngrams: pa.LargeStringArray, weights: Floats) -> str:
    """Return a hash of the n-grams and noisy weights, which identifies a discovery."""
    digest = hashlib.sha256("\n".join(ngrams.to_pylist()).encode())
    digest.update(weights.astype("<f8").tobytes())
    return digest.hexdigest()


def has_known_words(ngrams: pa.LargeStringArray, vocabulary: Vocabulary) -> Bools:
    """Return which n-grams have only words that are public, or were discovered as unigrams."""
    if vocabulary.tokenizer.is_rows:  # each was found by itself
        return np.ones(len(ngrams), np.bool_)
    unigrams = ngrams.filter(pa.array(ngram_orders(ngrams, vocabulary.tokenizer) == 1))
    known_words = pa.concat_arrays(
        [vocabulary.tokens, unigrams, pa.array([START, END], pa.large_string())]
    )
    tokens = pc.split_pattern(ngrams, " ")
    unknown = pc.invert(pc.is_in(tokens.flatten(), value_set=known_words)).to_numpy(
        zero_copy_only=False
    )
    rows: Bools = np.bincount(pc.list_parent_indices(tokens).to_numpy(), unknown, len(ngrams)) == 0
    return rows


@check_arguments
def discover(
    inputs: Any,  # noqa: ANN401 - paths or tables, see bayesgram.io; or PrivateText
    vocabulary: Vocabulary,
    budget: Budget | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    orders: Sequence[int] | None = None,
    model: LanguageModel | None = None,
    at_least: int = 1,
    max_new: int | None = None,
    open: bool = False,  # noqa: A002 - as the option is called
    rounds: int | None = None,
    user_column: str = "user",
    text_column: str = "text",
    skip_bad_rows: bool = False,
    memory: int = DEFAULT_MEMORY_BYTES,
    seed: int | None = None,
    ledger: Ledger | None = None,
    output: str | Path | None = None,
    force: bool = False,
    unit: str | None = None,
    series: Series | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
) -> Discovery:
    """Find n-grams that many people write and the vocabulary lacks.

    Args:
        inputs: Private text: files, folders, globs or tables. Text on a cluster is a
            `bayesgram.spark.discovery.SparkPrivateText`, which knows its columns.
        vocabulary: The public vocabulary; what it lists is not found again.
        budget: ε and δ; or give `epsilon` and `delta`.
        epsilon: ε, in place of `budget`.
        delta: δ, in place of `budget`; 1e-7 if it is left out.
        orders: Which orders to search; those of the vocabulary if it is left out.
        model: A public language model of the vocabulary's words (`PublicModel.mixture`); without
            one, it is made of the vocabulary's counts.
        at_least: What fewer people write does not come out, noise aside.
        max_new: How many n-grams may come out.
        open: Whether words may come out that are neither public nor found by themselves.
        rounds: How often people are asked, in one budget; more rounds find more. 10 if it is left
            out.
        user_column: Which column holds the user id.
        text_column: Which column holds the text.
        skip_bad_rows: Whether rows that can't be read are skipped instead of refused.
        memory: How many bytes text and lists may take.
        seed: Makes the noise repeatable, for tests: such a discovery is labelled NONE.
        ledger: The budget is reserved there, durably, before any noise is drawn. `output` is
            needed: the entry is marked as published once the discovery is saved.
        output: The folder to save the discovery in; if it is left out, it is only in memory.
        force: Whether a discovery that is already in that folder may be replaced.
        unit: What one user id stands for, where it is not all of a user's text.
        series: The series that this is a discovery of, which is paid for already: give no budget,
            rounds, ledger or seed. `output` is needed. The result is all that the series has found
            so far.
        delimiter: What separates the columns of CSV and TSV files, if not commas and tabs.
        encoding: That of text files, such as "latin-1".

    Returns:
        The n-grams that were discovered, with a card and the vocabulary extended by them.

    Raises:
        UsageError: If something does not fit together, before anything is spent.
        BayesgramError: If the ledger has no room for it, or it could not be saved.

    Example:
        >>> import bayesgram as bg
        >>> import pyarrow as pa
        >>> public = pa.table({"text": ["the red fish", "the blue fish"]})
        >>> vocabulary = bg.Vocabulary.from_public(public, order=[1, 2], size=10)
        >>> private = pa.table({"user": [str(i) for i in range(300)], "text": ["skibidi"] * 300})
        >>> bg.discover(private, vocabulary, epsilon=1, open=True, seed=1).ngrams.to_pylist()
        ['skibidi']
    """
    if series is not None:
        refuse_series_options(
            {
                "budget": budget,
                "epsilon": epsilon,
                "delta": delta,
                "rounds": rounds,
                "seed": seed,
                "ledger": ledger,
            }
        )
    settings = Settings.for_vocabulary(
        vocabulary,
        orders,
        at_least=at_least,
        max_new=max_new,
        open=open,
        rounds=rounds,
    )
    if series is None:
        checked_budget = require_budget(
            resolve_budget(budget, epsilon, delta), DiscoveryMechanism.name
        )
        settings.calibrate(checked_budget)  # a budget that won't do is refused before reading
    text: PrivateText = inputs
    if not isinstance(inputs, PrivateText):
        records = read_records(
            inputs,
            text_column=text_column,
            user_column=user_column,
            skip_bad_rows=skip_bad_rows,
            delimiter=delimiter,
            encoding=encoding,
        )
        text = LocalText(records, memory)
    public = PublicTextModel.from_vocabulary(vocabulary, model)
    if series is not None:
        from bayesgram.mechanisms.running_discovery import (  # noqa: PLC0415 - it imports this one
            discover_in_series,
        )

        return discover_in_series(
            text, public, settings, series, output=output, force=force, unit=unit
        )
    return discover_in_text(
        text,
        public,
        settings,
        checked_budget,
        seed=seed,
        ledger=ledger,
        output=output,
        force=force,
        unit=unit,
    )


def discover_in_text(
    text: PrivateText,
    public: PublicTextModel,
    settings: Settings,
    budget: Budget,
    *,
    seed: int | None = None,
    ledger: Ledger | None = None,
    output: str | Path | None = None,
    force: bool = False,
    unit: str | None = None,
    command: str | None = None,
    edit: Callable[[Discovery], Discovery] = lambda discovery: discovery,
    on_reserved: Callable[[int], None] | None = None,
) -> Discovery:
    """Find n-grams wherever the text is: reserve, draw noise, save and complete.

    Args:
        text: Where private text is.
        public: The public vocabulary and model.
        settings: What is searched for.
        budget: ε and δ.
        seed: As for `discover`.
        ledger: As for `discover`.
        output: As for `discover`.
        force: As for `discover`.
        unit: As for `discover`.
        command: How it was asked for; noted on the card.
        edit: Changes the discovery before it is saved, such as dropping strings: post-processing.
        on_reserved: Called with the number of the ledger's entry as soon as it is there.
    """
    vocabulary = public.vocabulary
    unit = None if unit is None else check_unit(unit)
    mechanism = make_mechanism(settings, budget, vocabulary, seed=seed, ledger=ledger, unit=unit)
    reservation = None
    if ledger is not None:
        require_output(output, "discovery")
        description = describe_entry(
            mechanism.name,
            budget.epsilon,
            budget.delta,
            output=output,
            vocabulary=vocabulary,
            unit=unit,
        )
        reservation = PlannedReservation(ledger, mechanism.threshold.spend, description)
    return publish(
        mechanism,
        DiscoveryData(text, public),
        vocabulary,
        budget,
        Statements(unit=unit, command=command),
        PublishOptions(seed, ledger, output, force, on_reserved),
        reservation,
        edit=edit,
        kind="discovery",
    )


def make_mechanism(
    settings: Settings,
    budget: Budget,
    vocabulary: Vocabulary,
    *,
    seed: int | None,
    ledger: Ledger | None,
    unit: str | None,
) -> DiscoveryMechanism:
    """Return a mechanism whose noise and level follow from the budget, before any text is read.

    Args:
        settings: What is searched for.
        budget: ε and δ.
        vocabulary: The public vocabulary.
        seed: Must be None if a ledger is charged.
        ledger: The ledger that will be charged, if any.
        unit: What one user id stands for.

    Raises:
        BayesgramError: If the ledger has no room for a discovery, or can't be charged for it.
    """
    if ledger is None:
        return DiscoveryMechanism(settings, budget, settings.calibrate(budget))
    if seed is not None:
        raise UsageError.for_argument(
            "seed",
            seed,
            "a seeded discovery is not private, so no ledger is charged; leave one of them out.",
        )
    if (weak := unproved_sentence(vocabulary.ingredients)) is not None:
        raise UsageError(
            f"the vocabulary was {weak}, so no ledger is charged for it. Use another one, or no ",
            Argument("ledger"),
            ".",
        )
    ledger.check_unit(unit or DEFAULT_UNIT)
    check_published(ledger, vocabulary.ingredients)
    return DiscoveryMechanism(
        settings, budget, settings.calibrate(budget, ledger.check_discovery())
    )
