"""The door for strings: n-grams that many people write and public text lacks.

Of every user at most m candidates are added up, by weights that public text gives them (`private.candidates`), and get
discrete Gaussian noise; what exceeds the level T is published. Noise and level follow public bounds alone
(`privacy.threshold`); docs/promise.md proves it. How many candidates there were is not told.

Several rounds: the budget is shared out among them, every round adds noisy sums, and the mean of all is what must
exceed T. Nothing is lost by that, as the noise of the mean is that of one round; but users put their weight where the
noisy sums so far say that it helps (`inference.scheduling`). One round: sums below a floor are dropped before noise.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arguments import checked
from bayesgram.arrays import Bools, Floats, Integers
from bayesgram.errors import UsageError, whole_number
from bayesgram.files import Records, read_records
from bayesgram.inference.scheduling import RoundSchedule
from bayesgram.mechanisms.base import Randomness, budget_of, need
from bayesgram.privacy.accounting import Allowance
from bayesgram.privacy.budget import Budget, Guarantee
from bayesgram.privacy.ledger import Ledger
from bayesgram.privacy.noise import NoiseSource
from bayesgram.privacy.threshold import ANYTHING, Threshold, calibrate_rounds, calibrate_threshold
from bayesgram.privacy.unit import THESE_DATA, check_unit
from bayesgram.private.candidate_lists import CandidateLists, list_candidates
from bayesgram.private.candidate_sums import Bound, Candidates, sum_candidates
from bayesgram.private.clip import UNITS
from bayesgram.private.public_row_check import PublicRowCheck, compared
from bayesgram.public.discovery import MECHANISM, Discovery
from bayesgram.public.extending import extended
from bayesgram.public.novelty import PublicText
from bayesgram.public.vocabulary import MEMORY, Vocabulary
from bayesgram.released.card import Card
from bayesgram.released.language_model import LanguageModel
from bayesgram.released.origins import DiscoveryClaim
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
STATEMENT = (
    "(ε, δ)-differential privacy at the level of a user, for every dataset: noise and threshold follow public bounds"
    " alone."
)


@dataclass(frozen=True)
class Settings:
    """What a discovery looks for. All public."""

    orders: tuple[int, ...]
    at_least: int = 1  # K: what fewer people write does not come out, noise aside
    max_new: int | None = None
    open: bool = False  # whether a word may come out that is neither public nor found by itself
    rounds: int = ROUNDS

    def __post_init__(self) -> None:
        whole_number("rounds", self.rounds, 1, MOST_ROUNDS, "the number of rounds")
        whole_number("at_least", self.at_least, 1, MOST_PEOPLE, "the number of people that it takes at least")
        if self.max_new is not None:
            whole_number("max_new", self.max_new, 1, MOST_NEW, "the most n-grams that may come out")

    @classmethod
    def of(cls, vocabulary: Vocabulary, orders: Sequence[int] | None = None, **others: Any) -> "Settings":  # noqa: ANN401
        """For a vocabulary: orders that it does not list are refused, as all of their n-grams would be new."""
        listed = [part.order for _, part in vocabulary.parts]
        wanted = tuple(sorted(set(orders))) if orders else tuple(listed)
        if not set(wanted) <= set(listed):
            raise UsageError(
                f"orders={','.join(map(str, wanted))}: the vocabulary lists n-grams of order"
                f" {', '.join(map(str, listed))}; search among those, or make one with `bayesgram vocab --orders`."
            )
        return cls(wanted, **others)

    def calibrated(self, budget: Budget, left: Allowance = ANYTHING) -> Threshold:
        """Noise, floor and level; `left` is what a ledger still allows."""
        if budget.delta <= 0:
            raise UsageError("delta=0: a discovery needs a delta above 0; 1e-7 is usual.")
        bounds = {"most": MOST, "units": UNITS, "at_least": self.at_least, "left": left}
        if self.rounds > 1:
            return calibrate_rounds(budget, rounds=self.rounds, **bounds)
        return calibrate_threshold(budget, smallest=SMALLEST, **bounds)


@runtime_checkable
class PrivateText(Protocol):
    """Where private text is, and what it is asked for: candidates of these orders, by what public text says of them."""

    def sums(self, public: PublicText, orders: Sequence[int], bound: Bound) -> Candidates:
        """One round: all users' candidates, added up exactly."""

    def lists(self, public: PublicText, orders: Sequence[int], most: int) -> CandidateLists:
        """Several rounds: all users' lists."""


@dataclass(frozen=True, eq=False, repr=False)
class LocalText:
    """Text that this machine reads, within so many bytes of memory."""

    records: Iterable[Records]
    memory: int

    def sums(self, public: PublicText, orders: Sequence[int], bound: Bound) -> Candidates:
        """One round."""
        return sum_candidates(self._compared(public), public, orders, bound, memory=self.memory)

    def lists(self, public: PublicText, orders: Sequence[int], most: int) -> CandidateLists:
        """Several rounds."""
        return list_candidates(self._compared(public), public, orders, most, memory=self.memory)

    def _compared(self, public: PublicText) -> Iterable[Records]:
        """The records; a warning follows the last of them if many rows were public text.

        An error would be an output of the discovery that no noise covers.
        """
        check = PublicRowCheck.of(public.vocabulary, allow_public_rows=True)
        return compared(self.records, public.vocabulary.tokenizer, check)


@dataclass(frozen=True)
class DiscoveryMechanism:
    """Everything that is settled before private text is looked at."""

    name: ClassVar[str] = MECHANISM

    settings: Settings
    budget: Budget
    threshold: Threshold

    @property
    def bound(self) -> Bound:
        """What users' text is asked for."""
        return Bound(MOST, int(SMALLEST * UNITS), int(self.threshold.floor * UNITS) + 1)

    def measure(self, text: PrivateText, public: PublicText, noise: NoiseSource, reserve: Reserve) -> Found:
        """What exceeds the level, and its noisy weight: all that private text is asked for.

        `reserve` is called before any noise is drawn.
        """
        rounds, orders = self.settings.rounds, self.settings.orders
        if rounds > 1:
            lists = text.lists(public, orders, MOST)
            reserve()
            above, weights = self._above(self._all_rounds(lists, noise))
            return lists.ngrams(above), weights
        candidates = text.sums(public, orders, self.bound)
        reserve()
        above, weights = self._above(noise.discrete_gaussian(candidates.sums, scale=self.threshold.scale))
        return candidates.ngrams.take(pa.array(above)), weights

    def _above(self, noisy: Integers) -> tuple[Integers, Floats]:
        """Where noisy sums of all rounds exceed the level, in integers, and their weights: the mean of the rounds."""
        whole = self.settings.rounds * UNITS
        above = np.flatnonzero(noisy > int(self.threshold.level * whole) + 1)
        return above, noisy[above] / whole

    def _all_rounds(self, lists: CandidateLists, noise: NoiseSource) -> Integers:
        """The noisy sums of all rounds together; of what was dropped on the way, the lowest number there is."""
        rounds, course = self.settings.rounds, RoundSchedule(self.threshold.multiplier, self.threshold.level)
        noisy, logs = np.zeros(lists.logs.size, np.int64), lists.logs.astype(np.float64)
        stays = np.ones(noisy.size, bool)
        for over in range(1, rounds + 1):
            sums = lists.sums(np.where(stays, np.exp(logs), 0.0))  # every user within B
            noisy[stays] += noise.discrete_gaussian(sums[stays], scale=self.threshold.scale)
            if over < rounds:  # noisy sums and public weights alone say how it goes on
                logs, hopeful = course.plan_round(noisy / (rounds * UNITS), over / rounds, lists.logs)
                stays &= hopeful
                noisy[~stays] = LOWEST
        return noisy

    def found(self, ngrams: pa.LargeStringArray, weights: Floats, public: PublicText, *, seeded: bool) -> Discovery:
        """What is made of noisy weights and public text."""
        ordered = pa.table({"ngram": ngrams, "weight": weights}).sort_by(
            [("weight", "descending"), ("ngram", "ascending")]
        )
        ngrams, weights = ordered["ngram"].combine_chunks(), ordered["weight"].to_numpy()
        if not self.settings.open:
            rows = of_known_words(ngrams, public.vocabulary)
            ngrams, weights = ngrams.filter(pa.array(rows)), weights[rows]
        ngrams, weights = ngrams[: self.settings.max_new], weights[: self.settings.max_new]
        logs, card = public.log_probabilities(ngrams), self._card(public.vocabulary, seeded=seeded)
        claim = DiscoveryClaim(self.budget.epsilon, self.budget.delta, card.guarantee.name)
        vocabulary = extended(public.vocabulary, ngrams, logs, claim)
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
            vocabulary=vocabulary.described,
            seeded=seeded,
        )


def of_known_words(ngrams: pa.LargeStringArray, vocabulary: Vocabulary) -> Bools:
    """Which n-grams consist of words that public text has, or that were found by themselves."""
    alone = ngrams.filter(pa.array(ngram_orders(ngrams) == 1))
    known = pa.concat_arrays([vocabulary.tokens, alone, pa.array([START, END], pa.large_string())])
    tokens = pc.split_pattern(ngrams, " ")
    unknown = pc.invert(pc.is_in(tokens.flatten(), value_set=known)).to_numpy(zero_copy_only=False)
    rows: Bools = np.bincount(pc.list_parent_indices(tokens).to_numpy(), unknown, len(ngrams)) == 0
    return rows


@checked
def discover(
    inputs: Any,  # noqa: ANN401 - paths or tables, see bayesgram.files; or PrivateText
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
    memory: int = MEMORY,
    seed: int | None = None,
    ledger: Ledger | None = None,
    unit: str | None = None,
) -> Discovery:
    """N-grams that many people write and the vocabulary lacks: files, folders, globs or tables in, a discovery out.

    The budget is `epsilon` and `delta` (1e-7 unless said otherwise), or a `Budget`.
    Text on a cluster is a `bayesgram.engines.discovery.SparkText`, which knows its columns, and asked in one round.
    `model` is a public language model of the vocabulary's words (`PublicModel.mixture`); without one, it is made of the
    vocabulary's counts. With a ledger the budget is reserved there, durably, before any noise is drawn.
    """
    whole = need(budget_of(budget, epsilon, delta), DiscoveryMechanism.name)
    settings = Settings.of(vocabulary, orders, at_least=at_least, max_new=max_new, open=open, rounds=rounds)
    text: PrivateText = inputs
    if not isinstance(inputs, PrivateText):
        records = read_records(inputs, text_column=text_column, user_column=user_column, skip_bad_rows=skip_bad_rows)
        text = LocalText(records, memory)
    return discover_in(text, PublicText.of(vocabulary, model), settings, whole, seed=seed, ledger=ledger, unit=unit)


def discover_in(
    text: PrivateText,
    public: PublicText,
    settings: Settings,
    budget: Budget,
    *,
    seed: int | None = None,
    ledger: Ledger | None = None,
    output: str | None = None,
    unit: str | None = None,
    on_reserved: Callable[[int], None] | None = None,
) -> Discovery:
    """The same, wherever the text is."""
    chance, unit = Randomness.make(seed), None if unit is None else check_unit(unit)
    mechanism = discovery_mechanism(settings, budget, seed=seed, ledger=ledger, unit=unit)
    entries: list[int] = []

    def reserve() -> None:
        if ledger is not None:
            told = {"mechanism": mechanism.name, "epsilon": budget.epsilon, "delta": budget.delta, "output": output}
            told |= {"vocabulary": public.vocabulary.fingerprint, "unit": unit or THESE_DATA}
            entries.append(ledger.reserve(mechanism.threshold.spend, told))
            if on_reserved is not None:
                on_reserved(entries[0])

    try:
        ngrams, weights = mechanism.measure(text, public, chance.noise, reserve)
        found = mechanism.found(ngrams, weights, public, seeded=chance.noise.seeded)
    except BaseException as error:
        if entries and ledger is not None:
            error.add_note(f"The discovery is lost, and entry {entries[0]} of {ledger.path} stays spent.")
        raise
    charged = None if ledger is None else ledger.as_charged(entries[0])
    return replace(found, card=replace(found.card, ledger=charged, unit=unit))


def discovery_mechanism(
    settings: Settings, budget: Budget, *, seed: int | None, ledger: Ledger | None, unit: str | None
) -> DiscoveryMechanism:
    """Noise and level, settled before any text is read; refused where the ledger has no room for a discovery."""
    if ledger is None:
        return DiscoveryMechanism(settings, budget, settings.calibrated(budget))
    if seed is not None:
        raise UsageError(
            f"seed={seed}: a seeded discovery is not private, so no ledger is charged; leave one of them out."
        )
    ledger.check_unit(unit or THESE_DATA)
    return DiscoveryMechanism(settings, budget, settings.calibrated(budget, ledger.check_discovery()))
