"""The door for strings: n-grams that many people write and public text lacks.

Of every user at most m candidates are added up, by weights that public text gives them (`private.candidates`), and get
discrete Gaussian noise; what exceeds the level T is published. Noise and level follow public bounds alone
(`privacy.threshold`); docs/promise.md proves it. How many candidates there were is not told.

Several rounds: the budget is shared out among them, every round adds noisy sums, and the mean of all is what must
exceed T. Nothing is lost by that, as the noise of the mean is that of one round; but users put their weight where the
noisy sums so far say that it helps (`inference.scheduling`). One round: sums below a floor are dropped before noise.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
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
from bayesgram.io.atomic import check_writable, written_paths
from bayesgram.lm.language_model import LanguageModel
from bayesgram.mechanisms.base import (
    Randomness,
    budget_of,
    check_published,
    complete_entry,
    failure_note,
    need,
)
from bayesgram.privacy.accounting import Allowance
from bayesgram.privacy.budget import Budget, Guarantee
from bayesgram.privacy.ledger import Ledger
from bayesgram.privacy.noise import NoiseSource
from bayesgram.privacy.thresholds import ANYTHING, Threshold, calibrate_rounds, calibrate_threshold
from bayesgram.privacy.unit import DEFAULT_UNIT, check_unit
from bayesgram.private.candidates import (
    CandidateLists,
    CandidateRounds,
    Candidates,
    ContributionBound,
    list_candidates,
    sum_candidates,
)
from bayesgram.private.clipping import UNITS
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

Reserve = Callable[[], None]
Found = tuple[pa.LargeStringArray, Floats]  # n-grams and noisy weights

MOST = 100  # m: candidates of a user
ROUNDS = 10
SMALLEST = 0.02  # w₀: weight of a candidate
MOST_PEOPLE = 1_000_000  # that `at_least` may ask for
MOST_NEW = 10_000_000
LOWEST = -(1 << 62)
MOST_ROUNDS = 100
STATEMENT = "(ε, δ)-differential privacy, for every dataset: noise and threshold follow public bounds alone."


@dataclass(frozen=True)
class Settings:
    """What a discovery looks for. All public."""

    orders: tuple[int, ...]
    at_least: int = 1  # K: what fewer people write does not come out, noise aside
    max_new: int | None = None
    open: bool = False  # whether a word may come out that is neither public nor found by itself
    rounds: int = ROUNDS

    def __post_init__(self) -> None:
        check_int("rounds", self.rounds, 1, MOST_ROUNDS, "the number of rounds")
        check_int(
            "at_least", self.at_least, 1, MOST_PEOPLE, "the number of people that it takes at least"
        )
        if self.max_new is not None:
            check_int("max_new", self.max_new, 1, MOST_NEW, "the most n-grams that may come out")

    @classmethod
    def of(
        cls,
        vocabulary: Vocabulary,
        orders: Sequence[int] | None = None,
        **others: Any,  # noqa: ANN401 - other fields
    ) -> "Settings":
        """For a vocabulary: orders that it does not list are refused, as all of their n-grams would be new."""
        listed = [part.order for _, part in vocabulary.by_order]
        wanted = tuple(sorted(set(orders))) if orders else tuple(listed)
        if not set(wanted) <= set(listed):
            raise UsageError.for_argument(
                "orders",
                ",".join(map(str, wanted)),
                f"the vocabulary lists n-grams of order {', '.join(map(str, listed))}; search "
                "among those, or make one with `bayesgram vocab --orders`.",
            )
        return cls(wanted, **others)

    def calibrated(self, budget: Budget, left: Allowance = ANYTHING) -> Threshold:
        """Noise, floor and level; `left` is what a ledger still allows."""
        if budget.delta <= 0:
            raise UsageError.for_argument(
                "delta", "0", "a discovery needs a delta above 0; 1e-7 is usual."
            )
        bounds = {"most": MOST, "units": UNITS, "at_least": self.at_least, "left": left}
        if self.rounds > 1:
            return calibrate_rounds(budget, rounds=self.rounds, **bounds)
        return calibrate_threshold(budget, smallest=SMALLEST, **bounds)


@runtime_checkable
class PrivateText(Protocol):
    """Where private text is, and what it is asked for: candidates of these orders, by what public text says of them."""

    def sums(
        self, public: PublicTextModel, orders: Sequence[int], bound: ContributionBound
    ) -> Candidates:
        """One round: all users' candidates, added up exactly."""

    def lists(
        self, public: PublicTextModel, orders: Sequence[int], most: int
    ) -> AbstractContextManager[CandidateLists]:
        """Several rounds: all users' lists, which are there as long as the block lasts."""


@dataclass(frozen=True, eq=False, repr=False)
class LocalText:
    """Text that this machine reads, within so many bytes of memory."""

    records: Iterable[Records]
    memory: int

    def sums(
        self, public: PublicTextModel, orders: Sequence[int], bound: ContributionBound
    ) -> Candidates:
        """One round."""
        return sum_candidates(self._compared(public), public, orders, bound, memory=self.memory)

    def lists(
        self, public: PublicTextModel, orders: Sequence[int], most: int
    ) -> AbstractContextManager[CandidateLists]:
        """Several rounds."""
        return list_candidates(self._compared(public), public, orders, most, memory=self.memory)

    def _compared(self, public: PublicTextModel) -> Iterable[Records]:
        """The records; a warning follows the last of them if many rows were public text.

        An error would be an output of the discovery that no noise covers.
        """
        check = PublicRowCheck.from_vocabulary(public.vocabulary, allow_public=True)
        return check_records(self.records, public.vocabulary.tokenizer, check)


@dataclass(frozen=True)
class DiscoveryMechanism:
    """Everything that is settled before private text is looked at."""

    name: ClassVar[str] = DISCOVERY_MECHANISM

    settings: Settings
    budget: Budget
    threshold: Threshold

    def label(self, vocabulary: Vocabulary) -> Guarantee:
        """The label that the card of an unseeded discovery will have."""
        return weakest_label(Guarantee.PROVED, [each.label for each in vocabulary.ingredients])

    @property
    def bound(self) -> ContributionBound:
        """What users' text is asked for."""
        return ContributionBound(MOST, int(SMALLEST * UNITS), int(self.threshold.floor * UNITS) + 1)

    def measure(
        self, text: PrivateText, public: PublicTextModel, noise: NoiseSource, reserve: Reserve
    ) -> Found:
        """What exceeds the level, and its noisy weight: all that private text is asked for.

        `reserve` is called before any noise is drawn.
        """
        rounds, orders = self.settings.rounds, self.settings.orders
        if rounds > 1:
            with text.lists(public, orders, MOST) as lists:
                reserve()
                above, weights = self._all_above(self._all_rounds(lists, noise))
                return lists.ngrams(above), weights
        candidates = text.sums(public, orders, self.bound)
        reserve()
        above, weights = self._above(
            noise.discrete_gaussian(candidates.sums, scale=self.threshold.scale)
        )
        return candidates.ngrams.take(pa.array(above)), weights

    def _above(self, noisy: Integers) -> tuple[Integers, Floats]:
        """Where noisy sums of all rounds exceed the level, in integers, and their weights: the mean of the rounds."""
        whole = self.settings.rounds * UNITS
        above = np.flatnonzero(noisy > int(self.threshold.level * whole) + 1)
        return above, noisy[above] / whole

    def _all_above(self, noisy: Iterable[Integers]) -> tuple[Integers, Floats]:
        """The same of blocks of candidates, one after the other."""
        above, weights = [np.zeros(0, np.int64)], [np.zeros(0)]
        first = 0
        for block in noisy:
            places, own_weights = self._above(block)
            above.append(first + places)
            weights.append(own_weights)
            first += block.size
        return np.concatenate(above), np.concatenate(weights)

    def _all_rounds(self, lists: CandidateLists, noise: NoiseSource) -> Iterator[Integers]:
        """The noisy sums of all rounds together, block by block; of what was dropped, the lowest number there is."""
        rounds = self.settings.rounds
        course = RoundSchedule(self.threshold.multiplier, self.threshold.level)
        users = CandidateRounds(lists)
        noisy = lists.new_array_blocks("noisy")
        weights = lists.new_array_blocks("weights")
        for block, (first, last) in enumerate(lists.blocks):
            noisy[block] = np.zeros(last - first, np.int64)
            weights[block] = np.exp(lists.log_weights(block).astype(np.float64))
        for over in range(1, rounds + 1):
            for block, sums in enumerate(users.sums(weights)):  # every user within B
                so_far = noisy[block]
                stays = so_far > LOWEST
                so_far[stays] += noise.discrete_gaussian(sums[stays], scale=self.threshold.scale)
                if over < rounds:  # noisy sums and public weights alone say how it goes on
                    logs, hopeful = course.plan_round(
                        so_far / (rounds * UNITS), over / rounds, lists.log_weights(block)
                    )
                    stays &= hopeful
                    so_far[~stays] = LOWEST
                    weights[block] = np.where(stays, np.exp(logs), 0.0)
                noisy[block] = so_far
        return (noisy[block] for block in range(len(lists.blocks)))

    def found(
        self,
        ngrams: pa.LargeStringArray,
        weights: Floats,
        public: PublicTextModel,
        *,
        seeded: bool,
        unit: str | None = None,
        ledger: dict[str, Any] | None = None,
    ) -> Discovery:
        """What is made of noisy weights and public text; `ledger` is what its card says of the ledger's entry."""
        ordered = pa.table({"ngram": ngrams, "weight": weights}).sort_by(
            [("weight", "descending"), ("ngram", "ascending")]
        )
        ngrams, weights = ordered["ngram"].combine_chunks(), ordered["weight"].to_numpy()
        if not self.settings.open:
            rows = of_known_words(ngrams, public.vocabulary)
            ngrams, weights = ngrams.filter(pa.array(rows)), weights[rows]
        ngrams, weights = ngrams[: self.settings.max_new], weights[: self.settings.max_new]
        logs = public.log_probabilities(ngrams)
        card = replace(self._card(public.vocabulary, seeded=seeded), unit=unit, ledger=ledger)
        claim = DiscoveryClaim(
            self.budget.epsilon,
            self.budget.delta,
            card.guarantee.name,
            ledger=None if ledger is None else ledger["ledger"],
            entry=None if ledger is None else ledger["entry"],
            unit=unit,
            fingerprint=_fingerprint(ngrams, weights),
        )
        vocabulary = extend_vocabulary(public.vocabulary, ngrams, logs, claim)
        return Discovery(ngrams, weights, logs, self.threshold.multiplier, card, vocabulary)

    def _card(self, vocabulary: Vocabulary, *, seeded: bool) -> Card:
        return Card(
            mechanism=self.name,
            guarantee=Guarantee.PROVED,
            statement=STATEMENT,
            epsilon=self.budget.epsilon,
            delta=self.budget.delta,
            settings={**asdict(self.settings), "orders": list(self.settings.orders)},
            details={
                "noise_multiplier": self.threshold.multiplier,
                "threshold": self.threshold.level,
                "floor": self.threshold.floor,
                "candidates_a_user": MOST,
                "smallest_weight": SMALLEST,
                "failure_probability": self.threshold.failure,
            },
            vocabulary=vocabulary.card_details,
            seeded=seeded,
        )


def _fingerprint(ngrams: pa.LargeStringArray, weights: Floats) -> str:
    """What tells this discovery from others: a hash of its n-grams and noisy weights, which are published."""
    digest = hashlib.sha256("\n".join(ngrams.to_pylist()).encode())
    digest.update(weights.astype("<f8").tobytes())
    return digest.hexdigest()


def of_known_words(ngrams: pa.LargeStringArray, vocabulary: Vocabulary) -> Bools:
    """Which n-grams consist of words that public text has, or that were found by themselves."""
    alone = ngrams.filter(pa.array(ngram_orders(ngrams) == 1))
    known = pa.concat_arrays([vocabulary.tokens, alone, pa.array([START, END], pa.large_string())])
    tokens = pc.split_pattern(ngrams, " ")
    unknown = pc.invert(pc.is_in(tokens.flatten(), value_set=known)).to_numpy(zero_copy_only=False)
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
    rounds: int = ROUNDS,
    user_column: str = "user",
    text_column: str = "text",
    skip_bad_rows: bool = False,
    memory: int = DEFAULT_MEMORY_BYTES,
    seed: int | None = None,
    ledger: Ledger | None = None,
    output: str | Path | None = None,
    force: bool = False,
    unit: str | None = None,
) -> Discovery:
    """Find n-grams that many people write and the vocabulary lacks.

    Args:
        inputs: Private text: files, folders, globs or tables. Text on a cluster is a
            `bayesgram.spark.discovery.SparkPrivateText`, which knows its columns, and is asked in one round.
        vocabulary: The public vocabulary; what it lists is not found again.
        budget: ε and δ; or give `epsilon` and `delta`.
        epsilon: ε, in place of `budget`.
        delta: δ, in place of `budget`; 1e-7 if it is left out.
        orders: Which orders to search; those of the vocabulary if it is left out.
        model: A public language model of the vocabulary's words (`PublicModel.mixture`); without one, it is made of
            the vocabulary's counts.
        at_least: What fewer people write does not come out, noise aside.
        max_new: How many n-grams may come out.
        open: Whether words may come out that are neither public nor found by themselves.
        rounds: How often people are asked, in one budget; more rounds find more.
        user_column: Which column holds the user id.
        text_column: Which column holds the text.
        skip_bad_rows: Whether rows that can't be read are skipped instead of refused.
        memory: How many bytes text and lists may take.
        seed: Makes the noise repeatable, for tests: such a discovery is labelled NONE.
        ledger: The budget is reserved there, durably, before any noise is drawn. `output` is needed: the entry is
            marked as published once the discovery is saved.
        output: The folder to save the discovery in; if it is left out, it is in memory alone.
        force: Whether a discovery that is already in that folder may be replaced.
        unit: What one user id stands for, where it is not all of a user's text.

    Returns:
        What was found, with its card and the vocabulary that has it.

    """
    whole = need(budget_of(budget, epsilon, delta), DiscoveryMechanism.name)
    settings = Settings.of(
        vocabulary, orders, at_least=at_least, max_new=max_new, open=open, rounds=rounds
    )
    settings.calibrated(whole)  # a budget that won't do is refused before anything is read
    text: PrivateText = inputs
    if not isinstance(inputs, PrivateText):
        records = read_records(
            inputs, text_column=text_column, user_column=user_column, skip_bad_rows=skip_bad_rows
        )
        text = LocalText(records, memory)
    public = PublicTextModel.from_vocabulary(vocabulary, model)
    told: dict[str, Any] = {
        "seed": seed,
        "ledger": ledger,
        "output": output,
        "force": force,
        "unit": unit,
    }
    return discover_in(text, public, settings, whole, **told)


def discover_in(
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
    edit: Callable[[Discovery], Discovery] = lambda found: found,
    on_reserved: Callable[[int], None] | None = None,
) -> Discovery:
    """Find n-grams wherever the text is: reserve, draw noise, save and complete.

    Args:
        text: Where private text is.
        public: The public vocabulary and model.
        settings: What is looked for.
        budget: ε and δ.
        seed: As for `discover`.
        ledger: As for `discover`.
        output: As for `discover`.
        force: As for `discover`.
        unit: As for `discover`.
        command: How it was asked for; noted on the card.
        edit: What is done with the discovery before it is saved, such as dropping strings: post-processing.
        on_reserved: Is told the number of the ledger's entry as soon as it is there.

    """
    chance, unit = Randomness.make(seed), None if unit is None else check_unit(unit)
    mechanism = discovery_mechanism(
        settings, budget, public.vocabulary, seed=seed, ledger=ledger, unit=unit
    )
    if ledger is not None and output is None:
        raise UsageError(
            "ledger: a discovery that is charged to a ledger is saved by the same call, so "
            "that its entry can be marked as published; give ",
            Argument("output"),
            ", the folder to save it in.",
        )
    entries: list[int] = []
    saved_before = len(written_paths)

    def reserve() -> None:
        if output is not None:
            check_writable(output, force=force, contents=CONTENTS)
        if ledger is not None:
            told = {
                "mechanism": mechanism.name,
                "epsilon": budget.epsilon,
                "delta": budget.delta,
                "output": str(output),
            }
            told |= {"vocabulary": public.vocabulary.fingerprint, "unit": unit or DEFAULT_UNIT}
            entries.append(ledger.reserve(mechanism.threshold.spend, told))
            if on_reserved is not None:
                on_reserved(entries[0])

    try:
        ngrams, weights = mechanism.measure(text, public, chance.noise, reserve)
        charged = None if ledger is None else ledger.charge_details(entries[0])
        found = mechanism.found(
            ngrams, weights, public, seeded=chance.noise.seeded, unit=unit, ledger=charged
        )
        found = edit(replace(found, card=replace(found.card, command=command)))
        if output is not None:
            found.save(output, force=force)
    except BaseException as error:
        if entries and ledger is not None:
            saved = len(written_paths) > saved_before
            error.add_note(
                failure_note(ledger, entries[0], output or "", saved=saved, what="discovery")
            )
        raise
    if ledger is not None and output is not None:
        complete_entry(ledger, entries[0], output)
    return found


def discovery_mechanism(
    settings: Settings,
    budget: Budget,
    vocabulary: Vocabulary,
    *,
    seed: int | None,
    ledger: Ledger | None,
    unit: str | None,
) -> DiscoveryMechanism:
    """Noise and level, settled before any text is read; refused where the ledger has no room for a discovery."""
    if ledger is None:
        return DiscoveryMechanism(settings, budget, settings.calibrated(budget))
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
        settings, budget, settings.calibrated(budget, ledger.check_discovery())
    )
