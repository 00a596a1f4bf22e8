"""Series: many releases about the same people that are paid for once.

`Series.create` reserves a whole series in a ledger, as one Gaussian mechanism of multiplier σ. Each
release of it has noise of multiplier σ√k, and every user has an allowance of k full releases
(`private.allowances`). Where discoveries have a share q of the series, releases have noise of
multiplier σ√(k/(1 − q)), runs of the discovery σ√(k/q), and every user has an allowance of k full
ones of each. docs/promise.md has the proof.

A series is a folder of mode 0700:

| file | what it holds |
|---|---|
| series.json | the public settings |
| key | the key of the hashes of user ids |
| state.json | the token of the state, the token before it, and the runs so far |
| releases-TOKEN.arrow | what every user has used in releases |
| discoveries-TOKEN.arrow | what every user has used in discoveries |
| candidates-TOKEN.arrow | the texts and noisy sums of all candidates of discoveries |
| lock | held by the one process that makes a release |

The state is changed twice for each release or discovery, and is on disk each time before anything
else happens: before any noise is drawn it is charged the most that each user may contribute, and
afterwards that is lowered to what they did contribute. So a crash costs allowance and never
privacy. The ledger notes the token of every state, so that a state that was lost, or restored from
a copy, is noticed. A state that is one token ahead is what a crash between the two leaves, and is
accepted.
"""

import json
import math
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, astuple, dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bayesgram import system
from bayesgram.arguments import check_arguments
from bayesgram.arrays import Integers
from bayesgram.errors import Argument, BayesgramError, UsageError, check_float, check_int
from bayesgram.inference.design import coordinate_count
from bayesgram.inference.noisy_counts import PublicNgrams
from bayesgram.io.atomic import write_file_atomically, write_folder_atomically
from bayesgram.io.formats import check_format, read_json
from bayesgram.privacy.accounting import (
    DISCRETENESS,
    FAILURE_SHARE,
    MAX_SERIES_RUNS,
    ROUNDING,
    Spend,
    largest_slack,
)
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.calibration import (
    ROUNDED_UP,
    GaussianNoise,
    calibrate_beside_failures,
    calibrate_gaussian,
)
from bayesgram.privacy.constants import (
    ACTIVITY_CLASSES,
    MAX_CANDIDATES,
    MAX_SERIES_RELEASES,
    UNITS,
)
from bayesgram.privacy.ledger import Ledger, LedgerCharge
from bayesgram.privacy.ledger_io import Reservation
from bayesgram.privacy.pacing import activity_classes, pace
from bayesgram.privacy.thresholds import (
    RunningThreshold,
    calibrate_running_sums,
    check_epsilon,
)
from bayesgram.privacy.unit import DEFAULT_UNIT, check_unit, is_person
from bayesgram.private.allowances import (
    SHARE_STEPS,
    Allowances,
    AllowedCounts,
    norm_limits,
    query_costs,
    read_user_ids,
)
from bayesgram.private.counts import PrivateCounts, SegmentedCounts
from bayesgram.private.keyed_hash import KEY_BYTES
from bayesgram.private.running_candidates import RunningCandidates
from bayesgram.public.vocabulary import Vocabulary

FORMAT = 1
SERIES_FILE = "series.json"
STATE_FILE = "state.json"
KEY_FILE = "key"
LOCK_FILE = "lock"
RELEASES = "releases"  # names the file of what users have used in releases
DISCOVERIES = "discoveries"  # names the file of what users have used in discoveries
CANDIDATES = "candidates"  # names the file of candidates
FILES = (RELEASES, DISCOVERIES, CANDIDATES)
RELEASE = "release"  # kinds of runs
DISCOVERY = "discovery"
MECHANISM = "series"  # what the entry of a ledger says in place of a mechanism

PACED_AT_ONCE = 1 << 18  # users, so that what is computed on the way takes little memory
DISCOVERY_SHARES = (0.01, 0.99)  # the least and the most of a series that discoveries may take
# Coordinates of all runs of a series together, where nothing else is asked for. The discreteness of
# the noise costs a little of ε for each; half of what that may take is the most.
DEFAULT_COORDINATES = 200_000_000


@dataclass(frozen=True)
class SeriesSettings:
    """The public settings of a series, fixed before its first release.

    Attributes:
        epsilon: ε of all releases together.
        delta: δ of the same.
        releases: W, the most releases that it has.
        full_releases: k, how many of them one user can contribute to in full.
        coordinates: How many noisy numbers all runs may have together, failed ones included.
        unit: What one user id stands for.
        discovery_share: q, the share of the series (of 1/σ²) that discoveries take; 0 if it has
            none.
    """

    epsilon: float
    delta: float
    releases: int
    full_releases: int
    coordinates: int
    unit: str = DEFAULT_UNIT
    discovery_share: float = 0.0

    @property
    def budget(self) -> Budget:
        """(ε, δ) of everything in the series together."""
        return Budget(self.epsilon, self.delta)

    @property
    def noise(self) -> GaussianNoise:
        """The Gaussian mechanism that the whole series costs as much as, failures aside.

        The noise of its queries is wider by √k at least, so that discreteness costs 1/k for each
        coordinate.
        """
        calibrate = calibrate_beside_failures if self.discovery_share else calibrate_gaussian
        return calibrate(
            self.budget,
            coordinates=math.ceil(self.coordinates / self.full_releases),
            units=UNITS,
        )

    @property
    def failure(self) -> float:
        """The probability that a discovery publishes what only one user wrote, at the most."""
        return FAILURE_SHARE * self.delta if self.discovery_share else 0.0

    @property
    def spend(self) -> Spend:
        """What a ledger is charged for the whole series."""
        return replace(self.noise.spend, failure=self.failure)

    def release_noise(self, coordinates: int) -> GaussianNoise:
        """Return the noise of one release, over so many coordinates."""
        multiplier = self._multiplier_for_share(1 - self.discovery_share)
        return GaussianNoise(multiplier, coordinates / (24 * (multiplier * UNITS) ** 2))

    def running_threshold(self, at_least: int = 1) -> RunningThreshold:
        """Return the noise of a run of the discovery, and the level of each run.

        Args:
            at_least: What fewer people write does not come out, noise aside.
        """
        return calibrate_running_sums(
            self._multiplier_for_share(self.discovery_share),
            runs=self.releases,
            full_runs=self.full_releases,
            max_candidates=MAX_CANDIDATES,
            units=UNITS,
            failure=self.failure * (1 - ROUNDING),
            at_least=at_least,
        )

    def _multiplier_for_share(self, share: float) -> float:
        """Return σ√(k/share), rounded up."""
        return self.noise.multiplier * math.sqrt(self.full_releases / share) * ROUNDED_UP**2

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


@dataclass(frozen=True)
class SeriesRun:
    """One run of a release or a discovery of a series, whether it succeeded or not.

    Attributes:
        number: The number of the release, or of the discovery, from 1. Where a run failed before
            all of its noise was drawn, the next one has the same number; what users were charged
            stays.
        time: When it began, in UTC, ISO 8601.
        output: Where the release was to be saved, as seen from the folder of the series.
        coordinates: How many noisy numbers it may have had.
        drawn: Whether all of its noise was drawn.
        kind: RELEASE or DISCOVERY.
    """

    number: int
    time: str
    output: str
    coordinates: int
    drawn: bool = False
    kind: str = RELEASE


@dataclass(frozen=True)
class SeriesState:
    """What changes with every release, without what users have used.

    Attributes:
        token: Names the state; the ledger notes it.
        before: The token of the state before this one.
        runs: All runs so far.
        files: The token of the newest file of each of FILES; "" where there is none yet.
        tokenizer: The tokenizer of the discoveries; "" before the first.
        orders: The orders of n-grams of the discoveries; () before the first.
        user_type: What the column of users held, "text" or "whole numbers"; "" where no run knew.
    """

    token: str
    before: str
    runs: tuple[SeriesRun, ...] = ()
    files: tuple[str, ...] = ("",) * len(FILES)
    tokenizer: str = ""
    orders: tuple[int, ...] = ()
    user_type: str = ""

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "SeriesState":
        """Return what a file of the state says; an error if something is missing."""
        release_file, discovery_file, candidate_file = values["files"]
        return cls(
            token=str(values["token"]),
            before=str(values["before"]),
            runs=tuple(SeriesRun(**run) for run in values["runs"]),
            files=(str(release_file), str(discovery_file), str(candidate_file)),
            tokenizer=str(values["tokenizer"]),
            orders=tuple(map(int, values["orders"])),
            user_type=str(values.get("user_type", "")),
        )

    def check_files(self) -> None:
        """Refuse a state that names no file of what its runs have used and drawn.

        Raises:
            ValueError: If a file is not named, though a run has written it.
        """
        has_begun = {run.kind for run in self.runs}
        needed = {
            RELEASES: RELEASE in has_begun,
            DISCOVERIES: DISCOVERY in has_begun,
            CANDIDATES: self.drawn(DISCOVERY) > 0,
        }
        if any(is_needed and not self.file_token(name) for name, is_needed in needed.items()):
            raise ValueError("the state of a series names the files of its runs")

    @property
    def coordinates(self) -> int:
        """How many noisy numbers all runs may have had."""
        return sum(run.coordinates for run in self.runs)

    def drawn(self, kind: str) -> int:
        """Return how many releases, or discoveries, were drawn."""
        return sum(run.drawn for run in self.runs if run.kind == kind)

    def next(self, runs: Sequence[SeriesRun]) -> "SeriesState":
        """Return the state that follows this one."""
        return replace(self, token=secrets.token_hex(16), before=self.token, runs=tuple(runs))

    def file_token(self, name: str) -> str:
        """Return the token of the newest file of a name."""
        return self.files[FILES.index(name)]


@dataclass(frozen=True)
class Series:
    """Releases about the same people that are paid for once.

    Attributes:
        path: The folder, which is private.
        identity: 32 random hexadecimal digits.
        ledger: The ledger that pays for it.
        settings: The public settings.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder) / "app.ledger"
        ...     ledger = Ledger.create(path, population="app users", epsilon=1, delta=1e-6)
        ...     series = Series.create(
        ...         Path(folder) / "weekly.series", ledger=ledger, epsilon=0.5, delta=1e-7,
        ...         releases=52, full_releases=8,
        ...     )
        ...     print(series, ledger.read().describe_remaining())
        Series(at most 52 releases, 8 of them in full: ε = 0.5, δ = 1e-07) about ε = 0.874 for a
        Gaussian release at δ = 1e-06, or 0.166 for a pure-ε one
    """

    path: Path
    identity: str
    ledger: Ledger
    settings: SeriesSettings

    @classmethod
    @check_arguments
    def create(
        cls,
        path: str | Path,
        *,
        ledger: Ledger,
        epsilon: float,
        delta: float,
        releases: int,
        full_releases: int,
        unit: str | None = None,
        coordinates: int | None = None,
        discovery_share: float = 0.0,
    ) -> "Series":
        """Reserve a whole series in a ledger, and make its folder.

        Args:
            path: The folder to make; nothing may exist there.
            ledger: The ledger that pays for it.
            epsilon: ε of all releases together.
            delta: δ of the same.
            releases: The most releases that it has.
            full_releases: How many of them one user can contribute to in full. The noise of each
                release follows from it.
            unit: What one user id stands for; it must last as long as the series.
            coordinates: How many noisy numbers all releases may have together.
            discovery_share: The share of the series that discoveries take; 0 if it has none. A
                series of discoveries must be the first entry of its ledger, or follow one that may
                fail.

        Raises:
            UsageError: If a number is not allowed, or the unit does not last.
            BayesgramError: If the ledger has no room for it. Nothing was reserved.
        """
        budget = Budget(epsilon, delta)
        if not delta:
            raise UsageError.for_argument(
                "delta", "0", "a series has Gaussian noise, so it needs a delta above 0."
            )
        what = "the number of releases of a series"
        check_int("releases", releases, 2, MAX_SERIES_RELEASES, what)
        what = "the number of full releases of a series"
        check_int("full_releases", full_releases, 1, releases, what)
        unit = check_lasting_unit(unit)
        if discovery_share:
            check_float("discovery_share", discovery_share, *DISCOVERY_SHARES, "of the series")
            check_epsilon(budget)
            ledger.check_discovery()
        room = max_coordinates(budget, full_releases)
        if coordinates is None:
            coordinates = min(DEFAULT_COORDINATES, room)
        check_int("coordinates", coordinates, 1, room, "at this ε, δ and number of full releases")
        settings = SeriesSettings(
            float(epsilon),
            float(delta),
            releases,
            full_releases,
            coordinates,
            unit,
            float(discovery_share),
        )
        if discovery_share:
            settings.running_threshold()  # refuses noise that leaves 64 bits
        path = Path(path).absolute()
        if os.path.lexists(path):
            raise UsageError(
                f"{path}: exists already, and a series is never replaced: what users have used is"
                " kept there. Choose another name."
            )
        series = cls(path, secrets.token_hex(16), ledger, settings)
        state = SeriesState(secrets.token_hex(16), "")
        description = series._description(state, _relative_path(path, ledger.path.parent))
        ledger.check(series.spend, description)
        series._write_new_folder(state)
        try:
            ledger.reserve(series.spend, description)
        except BaseException as error:
            error.add_note(f"{path} was made, but nothing may be reserved for it: remove it.")
            raise
        return series

    @classmethod
    @check_arguments
    def open(cls, path: str | Path, *, ledger: Ledger | None = None) -> "Series":
        """Open the folder of a series.

        Args:
            path: The folder.
            ledger: The ledger that pays for it, if that was moved.

        Raises:
            UsageError: If there is no series, or its ledger can't be opened.
            BayesgramError: If the folder is damaged, or its state is not the one that the ledger
                knows.
        """
        folder = Path(path).absolute()
        try:
            values = read_json(folder / SERIES_FILE)
            check_format(
                folder,
                "a series",
                values["format"],
                FORMAT,
                remake="Make a new series with `bayesgram series create`; what it spent counts.",
            )
            identity = str(values["identity"])
            settings = SeriesSettings(**values["settings"])
            ledger_path = folder / values["ledger"]
        except (FileNotFoundError, NotADirectoryError):
            raise UsageError(
                f"{path}: is no series; make one with `bayesgram series create`."
            ) from None
        except UsageError:
            raise
        except (OSError, KeyError, TypeError, ValueError):
            raise _damaged_error(folder) from None
        if ledger is None and not ledger_path.exists():
            raise UsageError(
                f"{path}: its ledger is not at {ledger_path}. If it has moved, say where it is"
                " with ",
                Argument("ledger"),
                ". Don't make a new one: it would not know what was spent.",
            )
        series = cls(
            folder, identity, Ledger.open(ledger_path) if ledger is None else ledger, settings
        )
        reservation = series.reservation
        if reservation.description != series._description_of(reservation):
            raise _damaged_error(folder)
        if not _covers(reservation.spend, series.spend):
            raise BayesgramError(
                f"{folder}: was paid for by another version of bayesgram or dp-accounting, whose"
                " noise costs less than that of this one. Go on with that version, or make a new"
                " series; what it costs comes on top."
            )
        return series

    def __repr__(self) -> str:
        settings = self.settings
        return (
            f"Series(at most {settings.releases} releases, {settings.full_releases} of them in"
            f" full: ε = {settings.epsilon:g}, δ = {settings.delta:g})"
        )

    @property
    def spend(self) -> Spend:
        """What the ledger is charged for the whole series."""
        return self.settings.spend

    @property
    def reservation(self) -> Reservation:
        """Its entry in the ledger."""
        return self.ledger.find_series(self.identity)

    def read_state(self) -> SeriesState:
        """Return the state, if it is the one that the ledger knows, or one token ahead of it.

        Raises:
            BayesgramError: If the state was lost, or restored from a copy.
        """
        try:
            values = read_json(self.path / STATE_FILE)
            state = SeriesState.from_json(values)
            state.check_files()
        except (OSError, KeyError, TypeError, ValueError):
            raise _damaged_error(self.path) from None
        if self.reservation.series_token not in {state.token, state.before}:
            raise BayesgramError(
                f"{self.path}: is not the state that {self.ledger.path} knows: it was restored from"
                " a copy, or the series went on elsewhere. What users have used since is not known"
                " here, so the series can't go on. Find the folder that was used last, or make a"
                " new series."
            )
        return state

    # --- A release ---

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the series: one process at a time makes a release.

        Raises:
            BayesgramError: If another process holds it.
        """
        descriptor = system.open_without_following(self.path / LOCK_FILE, os.O_RDWR | os.O_CREAT)
        try:
            if not system.try_lock(descriptor, exclusive=True):
                raise BayesgramError(
                    f"{self.path}: another process is making a release of this series; wait for it,"
                    " then run it again."
                )
            yield
        finally:
            system.unlock(descriptor)
            os.close(descriptor)

    def check_release(self, vocabulary: Vocabulary, segments: int = 0) -> GaussianNoise:
        """Return the noise of the next release, if there is one left. Charges nothing.

        Args:
            vocabulary: The public vocabulary.
            segments: The number of segments; 0 if all people are released together.

        Raises:
            BayesgramError: If the series has ended, or has no room for so many coordinates.
        """
        coordinates = release_coordinates(vocabulary, segments)
        self._check_run(RELEASE, coordinates)
        return self.settings.release_noise(coordinates)

    def check_discovery(self, orders: Sequence[int], tokenizer: str) -> None:
        """Refuse a discovery that the series can't have. Charges nothing.

        Args:
            orders: The orders of n-grams to search.
            tokenizer: The name of the tokenizer.

        Raises:
            UsageError: If the series has no discoveries, or searches for something else.
            BayesgramError: If the series has ended.
        """
        if not self.settings.discovery_share:
            raise UsageError(
                f"{self.path}: this series has releases only. Discover without ",
                Argument("series"),
                ", or make a series with ",
                Argument("discovery_share"),
                ".",
            )
        state = self._check_run(DISCOVERY, MAX_CANDIDATES)
        if state.tokenizer and (state.tokenizer, state.orders) != (tokenizer, tuple(orders)):
            names = ",".join(map(str, state.orders))
            raise UsageError.for_argument(
                "orders",
                ",".join(map(str, orders)),
                f"the discoveries of this series search n-grams of order {names} of the tokenizer"
                f" {state.tokenizer!r}, so that weights of all runs add up; this one has the"
                f" tokenizer {tokenizer!r}. Use the same vocabulary settings as before.",
            )

    def _check_run(self, kind: str, coordinates: int) -> SeriesState:
        """Return the state, if one more run is left, with so many coordinates."""
        state = self.read_state()
        if state.drawn(kind) >= self.settings.releases or len(state.runs) >= MAX_SERIES_RUNS:
            plural = {RELEASE: "releases", DISCOVERY: "discoveries"}[kind]
            raise BayesgramError(
                f"{self.path}: all {self.settings.releases} {plural} of this series were made. Make"
                " a new series; what it costs comes on top."
            )
        left = self.settings.coordinates - state.coordinates
        if coordinates > left:
            next_step = {
                RELEASE: "use a smaller vocabulary, or fewer segments",
                DISCOVERY: "make a new series with more coordinates; what it costs comes on top",
            }[kind]
            raise BayesgramError(
                f"{self.path}: this {kind} would have {coordinates:,} noisy numbers, and {left:,}"
                f" are left for the series; {next_step}."
            )
        return state

    def begin(
        self,
        counts: PrivateCounts,
        vocabulary: Vocabulary,
        output: str | Path,
        segments: int = 0,
        on_charged: Callable[[int], None] | None = None,
    ) -> "SeriesRelease":
        """Charge every user the most that the release may take, durably, before any noise.

        Call it with the lock held.

        Args:
            counts: Private counts.
            vocabulary: The public vocabulary.
            output: Where the release will be saved.
            segments: The number of segments; 0 if all people are released together.
            on_charged: Called with the number of the release once users are charged on disk.

        Returns:
            The release that has begun, with counts whose sums keep to the allowances.
        """
        noise = self.check_release(vocabulary, segments)
        state = self._with_user_type(self.read_state(), counts.user_type)
        self._catch_up(state)
        allowances, places, allowed = self._pace_users(state, RELEASE, read_user_ids(counts))
        coordinates = release_coordinates(vocabulary, segments)
        run = SeriesRun(
            state.drawn(RELEASE) + 1, _now(), _relative_path(Path(output), self.path), coordinates
        )
        started = self.write_state(
            state.next([*state.runs, run]),
            {RELEASES: allowances.charge(places, allowed)},
            on_charged=on_charged,
        )
        activity = activity_classes(allowances.active[places], run.number)
        metered = AllowedCounts(counts, allowed.copy(), activity)
        return SeriesRelease(self, noise, started, allowances, places, allowed, metered)

    def begin_discovery(
        self,
        users: pa.LargeBinaryArray,
        output: str | Path,
        orders: Sequence[int],
        tokenizer: str,
        *,
        user_type: str | None = None,
        on_charged: Callable[[int], None] | None = None,
    ) -> "SeriesDiscovery":
        """Charge every user the most that the discovery may take, durably, before any noise.

        Call it with the lock held.

        Args:
            users: The ids of the users who have candidates.
            output: Where the discovery will be saved.
            orders: The orders of n-grams to search.
            tokenizer: The name of the tokenizer.
            user_type: What the column of users held, if that is known.
            on_charged: Called with the number of the discovery once users are charged on disk.

        Returns:
            The discovery that has begun, with the most that each user may contribute.
        """
        self.check_discovery(orders, tokenizer)
        state = self._with_user_type(self.read_state(), user_type)
        self._catch_up(state)
        candidates = self._read_candidates(state)  # before anybody is charged, as it may be damaged
        allowances, places, allowed = self._pace_users(state, DISCOVERY, [users])
        number = state.drawn(DISCOVERY) + 1
        where = _relative_path(Path(output), self.path)
        run = SeriesRun(number, _now(), where, MAX_CANDIDATES, kind=DISCOVERY)
        following = replace(
            state.next([*state.runs, run]), tokenizer=tokenizer, orders=tuple(orders)
        )
        started = self.write_state(
            following, {DISCOVERIES: allowances.charge(places, allowed)}, on_charged=on_charged
        )
        return SeriesDiscovery(self, started, allowances, places, allowed, candidates)

    def _with_user_type(self, state: SeriesState, user_type: str | None) -> SeriesState:
        """Return a state that knows what user ids are.

        Raises:
            UsageError: If they were something else in an earlier run. Nothing was charged.
        """
        if user_type is None or state.user_type in {"", user_type}:
            return replace(state, user_type=state.user_type or user_type or "")
        raise UsageError(
            f"{self.path}: the ids of users were {state.user_type} in earlier runs of this series,"
            f" and are {user_type} now. If they are other ids of the same people, everybody would"
            " get a second allowance. Use the ids of the earlier runs; if they are the same ids,"
            f" cast the column to {state.user_type}, and count again. Nothing was spent."
        )

    def _pace_users(
        self, state: SeriesState, kind: str, ids: Iterable[pa.LargeBinaryArray]
    ) -> tuple[Allowances, Integers, Integers]:
        """Return allowances that have these users, their places, and what each may use now."""
        before = self.read_allowances(state, kind)
        allowances, places = before.with_users(ids)
        allowed = np.empty(places.size, np.int64)
        for first in range(0, places.size, PACED_AT_ONCE):
            part = slice(first, first + PACED_AT_ONCE)
            allowed[part] = pace(
                allowances.used[places[part]],
                allowances.active[places[part]],
                number=state.drawn(kind) + 1,
                releases=self.settings.releases,
                full_releases=self.settings.full_releases,
            )
        return allowances, places, allowed

    def card_details(self, number: int, kind: str = RELEASE) -> LedgerCharge:
        """Return what the card of a release, or of a discovery, says of series and ledger."""
        reservation = self.reservation
        return {
            **self.ledger.charge_details(reservation.number),
            "series": {
                "identity": self.identity,
                "release": number,
                "releases": self.settings.releases,
                "full_releases": self.settings.full_releases,
                "noise_multiplier": self.settings.noise.multiplier,
                "kind": kind,
            },
        }

    # --- Files ---

    def _catch_up(self, state: SeriesState) -> None:
        """Note the token of the state, if a crash came before the ledger did."""
        reservation = self.reservation
        if reservation.series_token != state.token:
            self.ledger.note_token(reservation.number, before=state.before, token=state.token)

    def write_state(
        self,
        state: SeriesState,
        contents: "Mapping[str, Allowances | RunningCandidates]",
        *,
        on_charged: Callable[[int], None] | None = None,
    ) -> SeriesState:
        """Write a state, and then note its token in the ledger.

        The files of users and candidates come first, then the file that names them; all are on disk
        before the ledger knows of them.

        Args:
            state: The state.
            contents: What changed, by the names of FILES; other files stay as they are.
            on_charged: Called with the number of the last run as soon as the state is on disk:
                what fails from there on leaves users charged.

        Returns:
            The state, with the tokens of its files.
        """
        files = dict(zip(FILES, state.files, strict=True))
        for name, content in contents.items():
            with write_file_atomically(
                self.file_path(name, state.token), parameter="series"
            ) as file:
                file.touch(mode=0o600)
                content.write(file, state.token)
            files[name] = state.token
        written = replace(state, files=tuple(files.values()))
        self._write_json(STATE_FILE, {"format": FORMAT, **asdict(written)})
        if on_charged is not None:
            on_charged(written.runs[-1].number)
        self._catch_up(written)
        kept = {self.file_path(name, token) for name, token in files.items()}
        for name in FILES:
            for old in self.path.glob(f"{name}-*.arrow"):
                if old not in kept:
                    with suppress(OSError):  # the next run tries again
                        old.unlink()
        return written

    def _write_new_folder(self, state: SeriesState) -> None:
        key = secrets.token_bytes(KEY_BYTES)
        values = {
            "format": FORMAT,
            "identity": self.identity,
            "ledger": _relative_path(self.ledger.path, self.path),
            "settings": self.settings.to_json(),
        }
        names = (SERIES_FILE, STATE_FILE, KEY_FILE)
        with write_folder_atomically(
            self.path, contents=names, force=False, private=True
        ) as folder:
            (folder / KEY_FILE).touch(mode=0o600)
            (folder / KEY_FILE).write_bytes(key)
            for name, content in (
                (SERIES_FILE, values),
                (STATE_FILE, {"format": FORMAT, **asdict(state)}),
            ):
                text = json.dumps(content, indent=2) + "\n"
                (folder / name).write_text(text, encoding="utf-8", newline="\n")

    def _write_json(self, name: str, content: dict[str, Any]) -> None:
        with write_file_atomically(self.path / name, force=True, parameter="series") as file:
            file.touch(mode=0o600)
            file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8", newline="\n")

    def read_key(self) -> bytes:
        """Return the key of the hashes of user ids."""
        try:
            key = (self.path / KEY_FILE).read_bytes()
        except OSError:
            raise _damaged_error(self.path) from None
        if len(key) != KEY_BYTES:
            raise _damaged_error(self.path)
        return key

    def read_allowances(self, state: SeriesState, kind: str) -> Allowances:
        """Return what every user has used in releases, or in discoveries.

        Raises:
            BayesgramError: If the file is damaged or missing.
        """
        name = {RELEASE: RELEASES, DISCOVERY: DISCOVERIES}[kind]
        token = state.file_token(name)
        if not token:  # before the first run
            return Allowances(self.read_key())
        return Allowances.read(self.file_path(name, token), token, self.read_key())

    def _read_candidates(self, state: SeriesState) -> RunningCandidates:
        """Return the candidates of all discoveries so far.

        Raises:
            BayesgramError: If the file is damaged or missing.
        """
        token = state.file_token(CANDIDATES)
        if not token:  # before the first discovery
            return RunningCandidates(self.read_key())
        path = self.file_path(CANDIDATES, token)
        return RunningCandidates.read(path, token, self.read_key())

    def file_path(self, name: str, token: str) -> Path:
        """Return the path of one of FILES."""
        return self.path / f"{name}-{token}.arrow"

    def _description(self, state: SeriesState, path: str) -> dict[str, Any]:
        """Return what the entry of the ledger says. All of it is public.

        Args:
            state: The state whose token it names.
            path: The folder, as seen from that of the ledger.
        """
        settings = self.settings
        return {
            "mechanism": MECHANISM,
            "epsilon": settings.epsilon,
            "delta": settings.delta,
            "output": path,
            "unit": settings.unit,
            "series": {"identity": self.identity, "token": state.token, **settings.to_json()},
        }

    def _description_of(self, reservation: Reservation) -> dict[str, Any]:
        """Return what the entry must say if the settings in the folder are those that were paid."""
        series = reservation.series or {}
        state = SeriesState(str(series.get("token")), "")
        return self._description(state, str(reservation.description["output"]))


@dataclass(eq=False)
class SeriesRelease:
    """A release of a series that has begun: its users are charged, and no noise was drawn yet.

    Attributes:
        series: The series.
        noise: The noise of this release.
        state: The state, in which users are charged the most that they may contribute.
        before: What users had used before.
        places: The places of the users of the counts.
        allowed: The most that each of them may contribute.
        counts: Private counts whose sums keep to that.
    """

    series: Series
    noise: GaussianNoise
    state: SeriesState
    before: Allowances
    places: Integers
    allowed: Integers
    counts: AllowedCounts

    def limit(self, counts: PrivateCounts | SegmentedCounts) -> PrivateCounts | SegmentedCounts:
        """Return the counts that this was begun with, limited to the allowances."""
        if isinstance(counts, SegmentedCounts):
            return replace(counts, flat=self.counts)
        return self.counts

    @property
    def number(self) -> int:
        """The number of the release in the series, from 1."""
        return self.state.runs[-1].number

    def finish(self) -> None:
        """Lower what users are charged to what they did contribute, after all noise was drawn."""
        spent = self.allowed - self.counts.left
        runs = [*self.state.runs[:-1], replace(self.state.runs[-1], drawn=True)]
        self.state = self.series.write_state(
            self.state.next(runs), {RELEASES: self.before.charge(self.places, spent)}
        )

    def failure_note(self, path: str | Path, *, saved: bool) -> str:
        """Return the note of an error after the release had begun.

        Args:
            path: Where the output was to be saved.
            saved: Whether it was.
        """
        if not saved:
            again = "" if self.state.runs[-1].drawn else " It can be made again with what is left."
            return (
                f"Release {self.number} of {self.series.path} is lost, and what users were charged"
                f" for it stays charged.{again}"
            )
        return (
            f"{path} is saved, and is release {self.number} of {self.series.path}; only the note"
            f" that it was published is missing. `bayesgram series publish {self.series.path}"
            f" {self.number}` writes it."
        )

    def publish(self) -> None:
        """Note in the ledger that the release was saved."""
        self.series.ledger.note_published(self.series.reservation.number, self.number)


@dataclass(eq=False)
class SeriesDiscovery:
    """A discovery of a series that has begun: its users are charged, and no noise was drawn yet.

    Attributes:
        series: The series.
        state: The state, in which users are charged the most that they may contribute.
        before: What users had used before.
        places: The places of the users who have candidates.
        allowed: The most that each of them may contribute.
        candidates: The candidates of all earlier runs.
    """

    series: Series
    state: SeriesState
    before: Allowances
    places: Integers
    allowed: Integers
    candidates: RunningCandidates

    @property
    def number(self) -> int:
        """The number of the discovery in the series, from 1."""
        return self.state.runs[-1].number

    @property
    def limits(self) -> Integers:
        """The largest norm of each user."""
        return norm_limits(self.allowed, SHARE_STEPS)

    def finish(self, candidates: RunningCandidates, squares: Integers) -> None:
        """Keep the noisy sums, and lower what users are charged to what they did contribute.

        Args:
            candidates: The candidates after this run.
            squares: The squared norm of what each user contributed.

        Raises:
            AssertionError: If somebody contributed more than they were charged. Nothing is kept.
        """
        costs = query_costs(squares, SHARE_STEPS)
        if (costs > self.allowed).any():
            raise AssertionError("a user contributed more than their limit")
        contributed = costs > 0
        allowances = self.before.charge(self.places[contributed], costs[contributed])
        runs = [*self.state.runs[:-1], replace(self.state.runs[-1], drawn=True)]
        self.state = self.series.write_state(
            self.state.next(runs), {DISCOVERIES: allowances, CANDIDATES: candidates}
        )
        self.candidates = candidates

    def failure_note(self, path: str | Path, *, saved: bool) -> str:
        """Return the note of an error after the discovery had begun.

        Args:
            path: Where the output was to be saved.
            saved: Whether it was.
        """
        series = self.series.path
        if saved:
            return (
                f"{path} is saved, and is discovery {self.number} of {series}; only the note that"
                f" it was published is missing. `bayesgram series publish {series} {self.number}"
                " --discovery` writes it."
            )
        if self.state.runs[-1].drawn:
            return (
                f"Discovery {self.number} of {series} was not saved. Nothing that it found is lost:"
                " the next discovery of the series has it, too."
            )
        return (
            f"Discovery {self.number} of {series} is lost, and what users were charged for it stays"
            " charged. It can be made again with what is left."
        )

    def publish(self) -> None:
        """Note in the ledger that the discovery was saved."""
        self.series.ledger.note_published(
            self.series.reservation.number, self.number, discovery=True
        )


def release_coordinates(vocabulary: Vocabulary, segments: int = 0) -> int:
    """Return the number of coordinates of a release of a series, asked or not.

    It is that of `posterior`, and those of the text that allowances leave out, for each order.
    """
    parts = [PublicNgrams.of(part) for _, part in vocabulary.by_order]
    return coordinate_count(parts, segments) + 2 * ACTIVITY_CLASSES * len(parts)


def max_coordinates(budget: Budget, full_releases: int) -> int:
    """Return for how many coordinates the discreteness of the noise takes half of what it may."""
    one = calibrate_gaussian(budget, coordinates=1, units=UNITS)
    room = Fraction(largest_slack(budget.epsilon, budget.delta)) / Fraction(
        DISCRETENESS * one.total_variation
    )
    return int(room * full_releases / 2)


def check_lasting_unit(unit: str | None) -> str:
    """Return the unit of a series, if it lasts as long as the series does.

    An allowance belongs to a user id. Where one person has a new id in every week, or for every
    post, the ids have an allowance each, and the promise of a series would say nothing about the
    person.

    Raises:
        UsageError: If the unit is less than everything that a user wrote.
    """
    if unit is None:
        return DEFAULT_UNIT
    unit = check_unit(unit)
    if not is_person(unit):
        raise UsageError.for_argument(
            "unit",
            repr(unit),
            f"a series needs a unit that lasts as long as it does: {DEFAULT_UNIT!r}. Use user ids"
            " that stay the same, and leave it out; or release without a series.",
        )
    return unit


def _covers(paid: Spend, spend: Spend) -> bool:
    """Return whether a reservation is enough for what the releases of a series cost now."""
    return all(now <= then for now, then in zip(astuple(spend), astuple(paid), strict=True))


def _relative_path(path: Path, folder: Path) -> str:
    """Return a path as seen from a folder, so that both can be moved together."""
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:  # another drive
        return str(path)


def _damaged_error(path: Path) -> BayesgramError:
    return BayesgramError(
        f"{path}: the folder of the series is damaged, so it is not known what users have used of"
        " their allowances. The series can't go on: make a new one with `bayesgram series create`."
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
