"""Discoveries of a series: what users add, which noise there is, what comes out, what is kept."""

import json
import math
import shutil
from collections import defaultdict
from contextlib import contextmanager
from fractions import Fraction
from itertools import count

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chi2

import bayesgram as bg
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.inference.discovery_weights import RunningSchedule
from bayesgram.mechanisms import running_discovery as module
from bayesgram.mechanisms.base import Randomness
from bayesgram.mechanisms.discovery import LocalText, Settings
from bayesgram.mechanisms.running_discovery import (
    add_run,
    discover_in_series,
    noise_of_runs,
    sum_of_squares,
)
from bayesgram.mechanisms.series import DISCOVERY, RELEASE, Series
from bayesgram.privacy.accounting import Spend
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.constants import MAX_CANDIDATES, UNITS
from bayesgram.privacy.ledger import Ledger
from bayesgram.privacy.noise import NoiseSource, SeededNoise
from bayesgram.privacy.thresholds import RunningThreshold
from bayesgram.private.allowances import FULL_RELEASE
from bayesgram.private.candidates import list_candidates_with_users
from bayesgram.private.running_candidates import RunningCandidates
from bayesgram.public.discovered_ngrams import Discovery
from helpers import replay_noise
from helpers.discovery_data import (
    MEMORY,
    PUBLIC,
    make_records,
    make_table,
    make_vocabulary,
    rows_of_people,
)
from helpers.recording_noise import RecordingNoise
from privacy.test_running_threshold import Grid, published_in

KEY = bytes(32)
EPSILON, DELTA = 4.0, 1e-6
LOW_LEVELS = RunningThreshold(2.0, (1e6,) * 9, 2.0 * UNITS)  # nothing comes out
SETTINGS = Settings.for_vocabulary(PUBLIC.vocabulary, [1], open=True)


@contextmanager
def lists_of(said, orders=(1,), memory=MEMORY):
    with list_candidates_with_users(
        make_records(said), PUBLIC, orders, MAX_CANDIDATES, memory=memory
    ) as (lists, users):
        yield lists, [user.decode() for user in users.to_pylist()]


def run_once(candidates, said, run=1, threshold=LOW_LEVELS, noise=None, limits=None, memory=MEMORY):
    """One run; returns candidates, and what each user's contribution has as squared norm."""
    with lists_of(said, memory=memory) as (lists, users):
        chosen = [UNITS if limits is None else limits[user] for user in users]
        after, squares = add_run(
            candidates,
            lists,
            np.array(chosen, np.int64),
            run,
            threshold,
            RecordingNoise() if noise is None else noise,
        )
    return after, dict(zip(users, squares.tolist(), strict=True))


def sums_of(candidates):
    return dict(zip(candidates.ngrams.to_pylist(), candidates.sums.tolist(), strict=True))


# --- What users add ---


def crowd_text(seed, users=40):
    """People who each write some of many new words, some of them often."""
    rng = np.random.default_rng(seed)
    return [
        (f"user {rng.integers(users)}", " ".join(f"zog{rng.geometric(0.1)}" for _ in range(5)))
        for _ in range(2 * users)
    ]


@pytest.mark.parametrize("seed", range(3))
def test_one_user_moves_a_run_by_their_limit_at_most_and_nobody_else_adds_otherwise(seed):
    """Given the same noisy sums so far, with a user and without: also of texts nobody else has."""
    rng = np.random.default_rng(seed)
    said = crowd_text(seed)
    people = sorted({user for user, _ in said})
    limits = dict(zip(people, rng.integers(0, UNITS + 1, len(people)).tolist(), strict=True))
    before, _ = run_once(RunningCandidates(KEY), crowd_text(seed + 50), noise=SeededNoise(seed))
    with_all, squares = run_once(before, said, 2, limits=limits)
    for user in people[:6]:
        others = [row for row in said if row[0] != user]
        without, other_squares = run_once(before, others, 2, limits=limits)
        assert {name: squares[name] for name in other_squares} == other_squares
        sums, other_sums = sums_of(with_all), sums_of(without)
        difference = [sums[ngram] - other_sums.get(ngram, 0) for ngram in sums]
        assert all(units >= 0 for units in difference)
        assert sum(units * units for units in difference) == squares[user] <= limits[user] ** 2


def test_sums_are_those_of_plain_python():
    said = crowd_text(9)
    with lists_of(said) as (lists, users):
        texts = lists.ngrams(np.arange(len(lists))).to_pylist()
        public = dict(zip(texts, lists.log_weights(0).tolist(), strict=True))
    written = defaultdict(set)
    for user, text in said:
        written[user] |= set(text.split())
    before, _ = run_once(RunningCandidates(KEY), crowd_text(10), noise=SeededNoise(1))
    start = sums_of(before)
    limits = dict.fromkeys(users, UNITS // 3)
    after, _ = run_once(before, said, 2, limits=limits)
    expected = defaultdict(float, {ngram: float(total) for ngram, total in start.items()})
    schedule = RunningSchedule(LOW_LEVELS.multiplier, 1)
    for ngrams in written.values():
        own = sorted(ngrams)
        logs = schedule.log_weights(
            np.array([start.get(ngram, 0) / UNITS for ngram in own]),
            np.array([public[ngram] for ngram in own]),
        )
        weights = np.exp(logs)
        for ngram, part in zip(own, weights / np.linalg.norm(weights), strict=True):
            expected[ngram] += part * (UNITS // 3)
    sums = sums_of(after)
    assert set(sums) == set(expected)
    for ngram, total in sums.items():
        assert total == pytest.approx(expected[ngram], abs=60)


def test_what_does_not_fit_memory_adds_up_alike(monkeypatch):
    """Nor does it matter how many users are taken at a time: each has their own limit."""
    said = [(f"user {i % 300}", f"zog{i} blip{i % 7}") for i in range(9000)]
    limits = {f"user {i}": UNITS // (1 + i) for i in range(300)}
    in_memory, squares = run_once(RunningCandidates(KEY), said, limits=limits)
    on_disk, squares_on_disk = run_once(RunningCandidates(KEY), said, limits=limits, memory=1 << 16)
    monkeypatch.setattr("bayesgram.private.candidates.PAIRS_PER_CHUNK", 1000)
    in_chunks, squares_in_chunks = run_once(RunningCandidates(KEY), said, limits=limits)
    assert sums_of(in_memory) == sums_of(on_disk) == sums_of(in_chunks)
    assert squares == squares_on_disk == squares_in_chunks
    assert all(0 < square <= limits[user] ** 2 for user, square in squares.items())


def test_weights_follow_noisy_sums_and_public_weights_alone():
    schedule = RunningSchedule(2.0, 9)
    public = np.array([-1.0, -1.0, -1.0, -3.0])
    logs = schedule.log_weights(np.array([-50.0, 0.0, 12.0, 12.0]), public)
    assert logs[0] == logs[1] < logs[2] > logs[3]
    assert (RunningSchedule(2.0, 0).log_weights(np.zeros(4), public) == public).all()


def test_a_weight_does_not_depend_on_where_a_candidate_stands_among_others():
    """To the last bit: arrays are computed several values at a time, and their ends differently."""
    rng = np.random.default_rng(4)
    sums = rng.normal(0, 50.0, 4099)
    public = rng.uniform(-7, 0, 4099).astype(np.float32)
    schedule = RunningSchedule(2.0, 9)
    weights = np.exp(schedule.log_weights(sums, public))
    for first in range(33):
        for size in (1, 2, 3, 4, 5, 7, 8, 9, 31, 257):
            part = slice(first, first + size)
            assert (np.exp(schedule.log_weights(sums[part], public[part])) == weights[part]).all()


# --- Noise ---


def test_every_candidate_has_the_noise_of_every_run_whenever_somebody_wrote_it():
    """Words that come early, late, and never again: the spread of all is σ₁√t.

    With 4,000 words each, a variance is off by 15% with a probability below 1e-10.
    """
    groups = {
        name: [(f"{name} {i}", f"{name}{i}") for i in range(4000)]
        for name in ("early", "always", "late")
    }
    written = {
        1: ["early", "always"],
        2: ["always"],
        3: ["always"],
        4: ["always", "late"],
    }
    candidates = RunningCandidates(KEY)
    noise = SeededNoise(3)
    threshold = RunningThreshold(20.0, (1e6,) * 9, 20.0 * UNITS)
    for run, names in written.items():
        said = [row for name in names for row in groups[name]]
        candidates, _ = run_once(candidates, said, run, threshold, noise)
    contributed = {"early": 1.0, "always": 4.0, "late": 1.0}
    sums = {ngram: total / UNITS for ngram, total in sums_of(candidates).items()}
    for name, added in contributed.items():
        values = np.array([value for ngram, value in sums.items() if ngram.startswith(name)])
        assert values.size == 4000
        assert (values - added).std() ** 2 == pytest.approx(4 * 20.0**2, rel=0.15)
        assert abs((values - added).mean()) < 40.0 * 7 / math.sqrt(4000)


def test_everything_that_was_not_found_is_asked_of_the_noise_in_every_run():
    candidates, _ = run_once(RunningCandidates(KEY), rows_of_people(3, "zog blip"))
    noise = RecordingNoise()
    candidates, _ = run_once(candidates, rows_of_people(1, "late", name="x"), 2, noise=noise)
    # First what comes late has the noise of the run before; then all have that of this one.
    assert [values.size for _, values, _ in noise.asked] == [1, 3]
    assert {scale for _, _, scale in noise.asked} == {LOW_LEVELS.scale}
    noise = RecordingNoise()
    run_once(candidates, rows_of_people(1, "later", name="x"), 8, noise=noise)
    late = [(values.size, scale / LOW_LEVELS.scale) for _, values, scale in noise.asked[:-1]]
    assert [size for size, _ in late] == [1] * len(late)
    assert sum(scale**2 for _, scale in late) == 7.0


@pytest.mark.parametrize("runs", range(200))
def test_noise_of_several_runs_has_exactly_the_variance_of_their_sum(runs):
    roots = sum_of_squares(runs)
    assert len(roots) <= 4
    assert sum(root * root for root in roots) == runs
    noise = RecordingNoise()
    scale = 2.0**30 * 4095 / 512
    noise_of_runs(3, runs, scale, noise)
    assert [Fraction(each) for _, _, each in noise.asked] == [
        Fraction(scale) * root for root in roots
    ]


# --- What comes out ---


def test_what_exceeds_the_level_comes_out_stays_and_gets_no_more_weight():
    levels = RunningThreshold(2.0, (20.0, 25.0, 30.0), 2.0 * UNITS)
    said = [*rows_of_people(40, "zog"), *rows_of_people(21, "blip", name="other")]
    candidates, _ = run_once(RunningCandidates(KEY), said, 1, levels)
    assert dict(zip(*columns_of(candidates.found), strict=True)) == {"zog": 1, "blip": 1}
    before = sums_of(candidates)
    said = [*rows_of_people(40, "zog new"), *rows_of_people(3, "blip", name="z")]
    noise = RecordingNoise()
    candidates, squares = run_once(candidates, said, 2, levels, noise)
    after = sums_of(candidates)
    assert {name: after[name] for name in before} == before
    assert after["new"] == 40 * UNITS  # nothing of a user's norm goes to what was found
    assert [squares[f"z {i}"] for i in range(3)] == [0, 0, 0]
    assert noise.asked[-1][1].size == 1
    assert dict(zip(*columns_of(candidates.found), strict=True)) == {"zog": 1, "blip": 1, "new": 2}


def columns_of(candidates):
    return candidates.ngrams.to_pylist(), candidates.found_in.tolist()


def test_the_level_is_compared_in_integers():
    levels = RunningThreshold(2.0, (7.0,), 2.0 * UNITS)
    answers = {"zog": 7 * UNITS + 1, "blip": 7 * UNITS + 2}

    class Answers(RecordingNoise):
        def discrete_gaussian(self, values, *, scale):
            super().discrete_gaussian(values, scale=scale)
            return np.array([answers[ngram] for ngram in order])

    order, _, _ = RunningCandidates(KEY).with_ngrams(pa.array([*answers], pa.large_string()))
    order = order.ngrams.to_pylist()
    candidates, _ = run_once(
        RunningCandidates(KEY), rows_of_people(1, "zog blip"), 1, levels, Answers()
    )
    assert candidates.found.ngrams.to_pylist() == ["blip"]


@pytest.mark.parametrize("own", [(1, 0, 0, 0), (0, 0, 1, 1), (0.7, 0.7, 0.7, 0.7)])
def test_when_phrases_come_out_has_the_law_that_the_levels_are_proved_for(own):
    """3,000 words, each of three users of its own and of one who has these habits.

    The run in which a word comes out is compared with the exact law by a χ² test, with and without
    that user. It fails by chance with a probability below 1e-7.
    """
    threshold = RunningThreshold(3.0, (9.0, 12.0, 14.0, 15.5), 3.0 * UNITS)
    words = 3000
    others = (0, 2, 3, 3)
    grid = Grid(3.0, 4)
    for is_mine in (True, False):
        candidates = RunningCandidates(KEY)
        noise = SeededNoise(11)
        for run in range(1, 5):
            said = []
            limits = {}
            amounts = {f"other {place}": 1.0 for place in range(others[run - 1])}
            if is_mine and own[run - 1]:
                amounts["mine"] = own[run - 1]
            for name, amount in amounts.items():
                said += [(f"{name} {i}", f"zog{i}") for i in range(words)]
                limits |= {f"{name} {i}": int(amount * UNITS) for i in range(words)}
            if said:
                candidates, _ = run_once(candidates, said, run, threshold, noise, limits)
        runs = np.zeros(words, int)
        runs[: len(candidates)] = candidates.found_in
        counts = [int((runs == run).sum()) for run in (1, 2, 3, 4, 0)]
        law = published_in(threshold, grid, others, own, is_mine=is_mine)
        expected = words * law / law.sum()
        kept = expected > 5
        misses = (np.array(counts) - expected)[kept] ** 2 / expected[kept]
        assert chi2.sf(float(misses.sum()), int(kept.sum()) - 1) > 1e-8, (counts, expected)


# --- Through the series ---


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "app.ledger", population="app", epsilon=EPSILON, delta=DELTA)


def make_series(ledger, path, **settings):
    given = {
        "epsilon": EPSILON,
        "delta": DELTA,
        "releases": 8,
        "full_releases": 2,
        "discovery_share": 0.5,
        **settings,
    }
    return Series.create(path, ledger=ledger, **given)


@pytest.fixture
def series(ledger, tmp_path):
    return make_series(ledger, tmp_path / "weekly.series")


def discover_with(noise, series, said, output, **options):
    """A discovery of a series whose noise comes from this source."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Randomness, "from_seed", classmethod(lambda cls, _seed: cls(noise, 5)))
        return discover_in_series(
            LocalText(make_records(said), MEMORY),
            PUBLIC,
            SETTINGS,
            series,
            output=output,
            **options,
        )


def used_by(series, *names):
    users = series.read_allowances(series.read_state(), DISCOVERY)
    ids = pa.array([name.encode() for name in names], pa.large_binary())
    users, places = users.with_users([ids])
    return users.used[places]


@pytest.mark.parametrize("share", [0.01, 0.2, 0.5, 0.99])
def test_noise_of_releases_and_discoveries_costs_what_the_ledger_was_charged(
    ledger, tmp_path, share
):
    """k full ones of each: k·(1/σ_release² + 1/σ_discovery²) ≤ 1/σ², in exact fractions."""
    series = make_series(ledger, tmp_path / "s", discovery_share=share)
    settings = series.settings
    [entry] = ledger.read().reservations
    assert entry.spend == settings.spend
    assert entry.spend.failure == settings.failure == DELTA / 4
    release = Fraction(settings.release_noise(1).multiplier)
    discovery = Fraction(settings.running_threshold().scale) / UNITS
    cost = settings.full_releases * (1 / release**2 + 1 / discovery**2)
    charged = Fraction(entry.spend.inverse_variance)
    assert charged * Fraction(999, 1000) < cost <= charged
    assert 1 / Fraction(settings.noise.multiplier) ** 2 <= charged


def test_a_series_of_discoveries_takes_a_fresh_ledger_of_its_budget_once(ledger, tmp_path):
    make_series(ledger, tmp_path / "one")
    with pytest.raises(BayesgramError, match="no room for this discovery"):
        make_series(ledger, tmp_path / "two")
    with pytest.raises(BayesgramError, match="Nothing was reserved"):
        make_series(ledger, tmp_path / "two", discovery_share=0.0)
    assert not (tmp_path / "two").exists()
    assert len(ledger.read().reservations) == 1


def test_a_ledger_that_began_with_a_release_takes_no_series_of_discoveries(ledger, tmp_path):
    ledger.reserve(Spend(0.001), {})
    with pytest.raises(BayesgramError, match="its first entry was no discovery"):
        make_series(ledger, tmp_path / "s", epsilon=0.1)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("share", [-0.1, 0.001, 1.0, math.nan])
def test_a_share_that_no_discovery_can_have(ledger, tmp_path, share):
    with pytest.raises(UsageError, match=r"of the series is a number from 0\.01 to 0\.99"):
        make_series(ledger, tmp_path / "s", discovery_share=share)


def test_weights_add_up_until_a_phrase_comes_out(series, tmp_path):
    """Other people in each week: too few for one week, and enough after some."""
    levels = series.settings.running_threshold().levels
    people = int(0.6 * levels[0])
    expected = next(run for run, level in enumerate(levels, 1) if people * run > level)
    assert 1 < expected < 8
    for run in range(1, 9):
        said = rows_of_people(people, "zog", name=f"week {run}")
        found = discover_with(RecordingNoise(), series, said, tmp_path / f"found-{run}")
        assert (
            found.card.ledger["series"] | {"release": run, "kind": "discovery"}
            == (found.card.ledger["series"])
        )
        if len(found):
            break
    assert run == expected
    assert found.found_in.tolist() == [run]
    assert found.weights.tolist() == [people * run]
    assert found.weight_std[0] == pytest.approx(found.noise_std)
    # Next week it is still there, is not new, and nobody's weight goes to it.
    again = discover_with(RecordingNoise(), series, said, tmp_path / "again")
    assert again.ngrams.to_pylist() == ["zog"]
    assert again.weights.tolist() == found.weights.tolist()
    assert again.is_new.tolist() == [False]
    loaded = Discovery.load(tmp_path / "again")
    assert loaded.found_in.tolist() == [run]
    assert loaded.to_arrow().equals(again.to_arrow())
    assert loaded.card.guarantee.name == "PROVED"
    assert (loaded.card.epsilon, loaded.card.delta) == (EPSILON, DELTA)


def test_a_user_of_all_weeks_uses_no_more_than_the_allowance(series, tmp_path):
    before = 0
    for run in range(1, 9):
        said = [*rows_of_people(1, f"zog blip{run}"), (f"guest {run}", "zog")]
        discover_with(RecordingNoise(), series, said, tmp_path / f"found-{run}")
        used = int(used_by(series, "user 0")[0])
        assert before < used <= 2 * FULL_RELEASE
        assert used_by(series, f"guest {run}")[0] > 0.99 * FULL_RELEASE
        before = used
    assert used > 1.9 * FULL_RELEASE
    with pytest.raises(BayesgramError, match="all 8 discoveries of this series were made"):
        discover_with(RecordingNoise(), series, said, tmp_path / "more")
    assert not (tmp_path / "more").exists()


def test_force_gives_no_allowance_back(series, tmp_path):
    """The same folder is replaced in every run."""
    for run in range(1, 9):
        said = [*rows_of_people(1, f"zog blip{run}"), (f"guest {run}", "zog")]
        discover_with(RecordingNoise(), series, said, tmp_path / "found", force=True)
    assert 1.9 * FULL_RELEASE < used_by(series, "user 0")[0] <= 2 * FULL_RELEASE


def test_users_with_ids_of_another_type_than_before_are_refused(series, tmp_path):
    """Whole numbers of any width are one type; text is another, and charges nobody."""
    numbers = pa.array([17, 18])
    for run, users in enumerate((numbers, numbers.cast(pa.uint8()), numbers.dictionary_encode())):
        table = pa.table({"user": users, "text": pa.array(["zog", "blip"])})
        bg.discover(table, make_vocabulary(), orders=[1], series=series, output=tmp_path / f"{run}")
    state = series.read_state()
    table = pa.table({"user": ["17", "18"], "text": ["zog", "blip"]})
    with pytest.raises(UsageError, match=r"whole numbers in earlier runs .* and are text now"):
        bg.discover(table, make_vocabulary(), orders=[1], series=series, output=tmp_path / "text")
    assert series.read_state() == state
    assert len(series.read_allowances(state, DISCOVERY).used) == 2
    assert (series.read_allowances(state, DISCOVERY).active == 3).all()


class LookingNoise(RecordingNoise):
    """Calls something before each answer."""

    seeded = False

    def __init__(self, look):
        super().__init__()
        self.look = look

    def discrete_gaussian(self, values, *, scale):
        self.look()
        return super().discrete_gaussian(values, scale=scale)


def test_users_are_charged_on_disk_before_any_noise_and_less_after_it(series, tmp_path):
    seen = []

    def look():
        seen.append(used_by(series, "user 0", "public 0").tolist())
        assert series.reservation.series_token == series.read_state().token
        assert not series.read_state().runs[-1].drawn

    said = [*rows_of_people(1, "zog"), *rows_of_people(1, "the red fish", name="public")]
    discover_with(LookingNoise(look), series, said, tmp_path / "found")
    assert seen in ([[FULL_RELEASE, FULL_RELEASE]], [[FULL_RELEASE, 0]])
    used = used_by(series, "user 0", "public 0")
    assert 0.99 * FULL_RELEASE < used[0] <= FULL_RELEASE
    assert used[1] == 0  # who writes nothing new uses nothing
    assert series.reservation.published_discoveries == {1}
    assert series.reservation.published_releases == set()


class StoppedRunError(Exception):
    pass


def test_a_run_that_stops_costs_allowance_and_no_discovery(series, tmp_path):
    said = rows_of_people(9, "zog")
    discover_with(RecordingNoise(), series, said, tmp_path / "one")
    kept = sorted(path.read_bytes() for path in series.path.glob("candidates-*"))

    def stop():
        raise StoppedRunError

    with pytest.raises(StoppedRunError) as caught:
        discover_with(LookingNoise(stop), series, said, tmp_path / "two")
    assert "stays charged" in caught.value.__notes__[0]
    assert not (tmp_path / "two").exists()
    assert (used_by(series, "user 3") > 1.1 * FULL_RELEASE).all()
    assert sorted(path.read_bytes() for path in series.path.glob("candidates-*")) == kept
    assert [run.drawn for run in series.read_state().runs] == [True, False]
    found = discover_with(RecordingNoise(), series, said, tmp_path / "two")
    assert found.card.details["run"] == 2
    assert (used_by(series, "user 3") <= 2 * FULL_RELEASE).all()


def test_what_a_discovery_found_that_could_not_be_saved_is_in_the_next(
    series, tmp_path, monkeypatch
):
    said = rows_of_people(500, "zog")
    with monkeypatch.context() as patch:
        patch.setattr(Discovery, "save", lambda *_, **__: (_ for _ in ()).throw(StoppedRunError))
        with pytest.raises(StoppedRunError) as caught:
            discover_with(RecordingNoise(), series, said, tmp_path / "one")
    assert "the next discovery of the series has it" in caught.value.__notes__[0]
    assert series.reservation.published_discoveries == set()
    found = discover_with(RecordingNoise(), series, rows_of_people(2, "x"), tmp_path / "two")
    assert found.ngrams.to_pylist() == ["zog"]
    assert found.found_in.tolist() == [1]


def test_noisy_sums_of_an_older_run_are_refused(series, tmp_path):
    said = rows_of_people(9, "zog")
    discover_with(RecordingNoise(), series, said, tmp_path / "one")
    [old] = series.path.glob("candidates-*")
    content = old.read_bytes()
    discover_with(RecordingNoise(), series, said, tmp_path / "two")
    [new] = series.path.glob("candidates-*")
    assert new != old
    kept = new.read_bytes()
    new.write_bytes(content)
    with pytest.raises(BayesgramError, match="missing or damaged"):
        discover_with(RecordingNoise(), series, said, tmp_path / "three")
    new.unlink()
    before = series.read_state()
    with pytest.raises(BayesgramError, match="missing or damaged"):
        discover_with(RecordingNoise(), series, said, tmp_path / "three")
    assert series.read_state() == before  # nobody was charged
    new.write_bytes(kept)
    discover_with(RecordingNoise(), series, said, tmp_path / "three")


def test_releases_and_discoveries_have_allowances_and_numbers_of_their_own(series, tmp_path):
    said = rows_of_people(60, "zog people like fish")
    discover_with(RecordingNoise(), series, said, tmp_path / "found")
    vocabulary = make_vocabulary()
    counts = bg.count(make_table(said), vocabulary)
    bg.release(counts, vocabulary, series=series, output=tmp_path / "out")
    state = series.read_state()
    assert [(run.kind, run.number) for run in state.runs] == [(DISCOVERY, 1), (RELEASE, 1)]
    discoveries = series.read_allowances(state, DISCOVERY).used
    releases = series.read_allowances(state, RELEASE).used
    assert (discoveries > 0.99 * FULL_RELEASE).all()
    assert (releases > 0).all()
    assert (releases < FULL_RELEASE).all()
    reservation = series.reservation
    assert (reservation.published_releases, reservation.published_discoveries) == ({1}, {1})


def test_a_release_with_what_the_series_found_names_one_budget(series, tmp_path):
    said = rows_of_people(500, "zog people like fish")
    found = discover_with(RecordingNoise(), series, said, tmp_path / "found")
    assert "zog" in found.ngrams.to_pylist()
    counts = bg.count(make_table(said), found.vocabulary)
    first = bg.release(counts, found.vocabulary, series=series, output=tmp_path / "out")
    assert "discovered in the same series, whose ε and δ cover them" in str(first.card)
    second = bg.release(
        counts, found.vocabulary, series=series, output=tmp_path / "out2", previous=first
    )
    assert "The 2 releases and 1 discovery belong to one series" in second.card.chain_sentence


def test_only_a_discovery_that_was_published_can_be_used(series, tmp_path, monkeypatch):
    said = rows_of_people(500, "zog")
    monkeypatch.setattr(Ledger, "note_published", lambda *_, **__: None)
    found = discover_with(RecordingNoise(), series, said, tmp_path / "found")
    monkeypatch.undo()
    counts = bg.count(make_table(said), found.vocabulary)
    with pytest.raises(UsageError, match="series publish SERIES 1 --discovery"):
        bg.release(counts, found.vocabulary, series=series, output=tmp_path / "out")
    series.ledger.note_published(series.reservation.number, 1, discovery=True)
    bg.release(counts, found.vocabulary, series=series, output=tmp_path / "out")


def test_the_same_answers_give_the_same_discovery_of_unrelated_people(tmp_path, monkeypatch):
    """Given the noisy answers, nothing of people is left, neither in files nor in the ledger."""
    written = {}
    answers = {}
    for people in ("many", "others"):
        numbers = count(1)
        monkeypatch.setattr("secrets.token_hex", lambda *_, numbers=numbers: f"{next(numbers):032}")
        monkeypatch.setattr("secrets.token_bytes", bytes)
        folder = tmp_path / people
        folder.mkdir()
        ledger = Ledger.create(folder / "l", population="x", epsilon=EPSILON, delta=DELTA)
        series = make_series(ledger, folder / "s")
        for run, words in enumerate(("zog blip", "zog", "zog late"), 1):
            if people == "many":
                noise = replay_noise.NoiseRecorder()
                said = rows_of_people(200, words)
            else:
                noise = replay_noise.NoiseReplayer(answers[run])
                said = [(f"{word} writer", word) for word in reversed(words.split())]
            output = folder / f"found-{run}"
            discover_with(noise, series, said, output)
            if people == "many":
                answers[run] = noise.answers
            files = {path.name: path.read_bytes() for path in output.iterdir()}
            assert written.setdefault(run, files) == files
        notes = [entry.notes for entry in ledger.read().reservations]
        assert written.setdefault("notes", notes) == notes
    assert b"zog" in written[3]["ngrams.parquet"]


def test_nothing_tells_how_many_candidates_there_were(tmp_path, monkeypatch):
    """One folder where nothing was found is like another, to the last byte."""
    written = []
    for words in ("zog", "zog blip other words"):
        numbers = count(1)
        monkeypatch.setattr("secrets.token_hex", lambda *_, numbers=numbers: f"{next(numbers):032}")
        folder = tmp_path / words[-3:]
        folder.mkdir()
        ledger = Ledger.create(folder / "l", population="x", epsilon=EPSILON, delta=DELTA)
        series = make_series(ledger, folder / "s")
        discover_with(RecordingNoise(), series, rows_of_people(2, words), folder / "found")
        written.append({path.name: path.read_bytes() for path in (folder / "found").iterdir()})
    assert written[0] == written[1]


@pytest.mark.parametrize("secret", ["a word that nobody else has", "a word after another week"])
def test_a_secret_of_one_user_never_comes_out_and_what_many_write_does(ledger, tmp_path, secret):
    """With exact noise; the secret comes out with a probability below 2.5e-7."""
    series = make_series(ledger, tmp_path / "s")
    for run in range(1, 5):
        said = rows_of_people(400, "zog", name=f"week {run}")
        if run > 1 or "after" not in secret:
            said += [("eve", "evesecret " * 50)]
        found = discover_in_series(
            LocalText(make_records(said), MEMORY),
            PUBLIC,
            SETTINGS,
            series,
            output=tmp_path / f"found-{run}",
        )
    assert found.ngrams.to_pylist() == ["zog"]
    for path in tmp_path.glob("found-*/*"):
        assert b"evesecret" not in path.read_bytes()


# --- What is refused ---


def test_a_series_without_discoveries_has_none(ledger, tmp_path):
    series = make_series(ledger, tmp_path / "s", discovery_share=0.0)
    with pytest.raises(UsageError, match="has releases only"):
        discover_with(RecordingNoise(), series, rows_of_people(3, "zog"), tmp_path / "found")
    assert series.read_state().runs == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 1.0}, "has its budget and its noise already"),
        ({"seed": 3}, "has its budget and its noise already"),
        ({"rounds": 3}, "has its budget and its noise already"),
        ({"unit": "a post"}, "the unit of the series"),
        ({"output": None}, "saved by the same call"),
        ({"orders": [2]}, "search n-grams of order 1 "),
    ],
)
def test_what_a_discovery_of_a_series_can_not_have(series, tmp_path, options, message):
    table = make_table(rows_of_people(3, "zog"))
    bg.discover(table, make_vocabulary(), orders=[1], series=series, output=tmp_path / "one")
    before = series.read_state()
    given = {"orders": [1], "series": series, "output": tmp_path / "two", **options}
    with pytest.raises(UsageError, match=message):
        bg.discover(table, make_vocabulary(), **given)
    assert series.read_state() == before
    assert not (tmp_path / "two").exists()


def test_a_vocabulary_without_a_proof_is_refused(series, tmp_path):
    seeded = bg.discover(
        make_table(rows_of_people(500, "zog")), make_vocabulary(), epsilon=1, seed=1, orders=[1]
    )
    with pytest.raises(UsageError, match="so no series pays for it"):
        bg.discover(
            make_table(rows_of_people(3, "blip")),
            seeded.vocabulary,
            series=series,
            output=tmp_path / "out",
        )
    assert series.read_state().runs == ()


def test_text_on_a_cluster_is_refused(series, tmp_path):
    class Elsewhere:
        def sums(self, *_):
            raise NotImplementedError

        lists = sums

    with pytest.raises(UsageError, match="Spark can't make a discovery of it"):
        bg.discover(Elsewhere(), make_vocabulary(), series=series, output=tmp_path / "out")


def test_a_second_process_is_refused_while_a_discovery_is_made(series, tmp_path):
    with series.locked(), pytest.raises(BayesgramError, match="another process"):
        discover_with(RecordingNoise(), series, rows_of_people(3, "zog"), tmp_path / "found")


def test_the_state_holds_no_user_and_is_private(series, tmp_path):
    discover_with(RecordingNoise(), series, rows_of_people(30, "zog"), tmp_path / "found")
    for file in series.path.iterdir():
        assert "user 0" not in file.read_bytes().decode("latin-1")
        if file.suffix == ".arrow":
            assert oct(file.stat().st_mode & 0o777) == "0o600"
    state = json.loads((series.path / "state.json").read_text())
    assert "zog" not in json.dumps(state)


def test_a_state_of_candidates_that_went_back_with_the_folder_is_noticed(series, tmp_path):
    discover_with(RecordingNoise(), series, rows_of_people(9, "zog"), tmp_path / "one")
    copy = tmp_path / "copy"
    shutil.copytree(series.path, copy)
    discover_with(RecordingNoise(), series, rows_of_people(9, "zog"), tmp_path / "two")
    shutil.rmtree(series.path)
    shutil.copytree(copy, series.path)
    with pytest.raises(BayesgramError, match="can't go on"):
        discover_with(RecordingNoise(), series, rows_of_people(9, "zog"), tmp_path / "three")


@pytest.mark.parametrize("lost", [1, 2])
def test_a_state_that_lost_the_names_of_its_files_is_refused(series, tmp_path, lost):
    """It would begin anew: nobody would have used anything, or no text would have any noise."""
    said = rows_of_people(9, "zog")
    discover_with(RecordingNoise(), series, said, tmp_path / "one")
    path = series.path / "state.json"
    values = json.loads(path.read_text())
    assert [bool(token) for token in values["files"]] == [False, True, True]
    values["files"][lost] = ""
    path.write_text(json.dumps(values))
    with pytest.raises(BayesgramError, match="the folder of the series is damaged"):
        discover_with(RecordingNoise(), series, said, tmp_path / "two")


def test_noise_that_leaves_64_bits_is_refused_before_anything_is_reserved(ledger, tmp_path):
    with pytest.raises(UsageError, match="1,000 discoveries does not fit in 64 bits"):
        make_series(
            ledger,
            tmp_path / "s",
            epsilon=1e-5,
            releases=1000,
            full_releases=1000,
            coordinates=1,
            discovery_share=0.01,
        )
    assert not (tmp_path / "s").exists()
    assert not ledger.read().reservations


def test_a_discovery_has_no_room_where_coordinates_are_spent(ledger, tmp_path):
    series = make_series(ledger, tmp_path / "s", coordinates=MAX_CANDIDATES)
    said = rows_of_people(3, "zog")
    discover_with(RecordingNoise(), series, said, tmp_path / "one")
    with pytest.raises(BayesgramError, match="make a new series with more coordinates"):
        discover_with(RecordingNoise(), series, said, tmp_path / "two")


def test_a_week_in_which_nobody_writes_anything_new_is_a_run_like_any_other(series, tmp_path):
    discover_with(RecordingNoise(), series, rows_of_people(3, "the red fish"), tmp_path / "one")
    noise = RecordingNoise()
    discover_with(noise, series, rows_of_people(3, "zog"), tmp_path / "two")
    assert [values.size for _, values, _ in noise.asked] == [1, 1]  # of run 1, and of run 2
    discover_with(RecordingNoise(), series, rows_of_people(2, "in cold water"), tmp_path / "three")
    assert series.read_state().drawn(DISCOVERY) == 3


def test_at_least_raises_the_level(series):
    low, high = (series.settings.running_threshold(people).levels for people in (1, 10_000))
    assert all(one < other for one, other in zip(low, high, strict=True))
    assert high[0] == pytest.approx(9_999)


def test_the_budget_of_a_series_is_on_its_settings(series):
    assert series.settings.budget == Budget(EPSILON, DELTA)
    assert isinstance(SeededNoise(1), NoiseSource)
    assert module.NO_NGRAMS.type == pa.large_string()
