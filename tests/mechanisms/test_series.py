"""Series: what is charged, what is on disk before any noise, and what comes out of it."""

import json
import math
import shutil
from dataclasses import replace
from fractions import Fraction
from itertools import count

import numpy as np
import pyarrow as pa
import pytest

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.io.segments import Segments
from bayesgram.mechanisms import publish
from bayesgram.mechanisms import series as module
from bayesgram.mechanisms.base import Randomness
from bayesgram.mechanisms.gaussian import Gaussian
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.mechanisms.series import Series, SeriesRun, SeriesState, max_coordinates
from bayesgram.privacy.accounting import fits
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.calibration import GaussianNoise
from bayesgram.privacy.constants import FULL_RELEASE
from bayesgram.privacy.ledger import Ledger
from bayesgram.privacy.pacing import pace
from bayesgram.private import counts as private_counts
from bayesgram.private.clipping import UNITS
from bayesgram.private.counts import SegmentedCounts
from bayesgram.private.counts_io import load_counts, save_counts
from bayesgram.private.counts_on_disk import open_counts
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.release import Release
from bayesgram.text.tokenizer import Tokenizer
from helpers import reference_paper, replay_noise
from helpers.recording_noise import CLIPPING_PLANS, RecordingNoise, fixed_clipping_plan

SIZE = 12
EPSILON, DELTA = 1.0, 1e-7


def vocabulary():
    """Words and bigrams."""
    ngrams = [f"w{i}" for i in range(4)] + [f"w{i % 4} w{i // 4}" for i in range(8)]
    return Vocabulary(
        pa.array(ngrams, pa.large_string()), 1000 // np.arange(1, SIZE + 1), 2, Tokenizer()
    )


def crowd(users, seed, heaviest=60):
    rng = np.random.default_rng(seed)
    lengths = np.minimum(rng.pareto(1.1, users) * 4 + 1, heaviest).astype(int)
    return np.array([rng.multinomial(length, rng.dirichlet(np.ones(SIZE))) for length in lengths])


def counts_of(matrix, names=None):
    public = vocabulary()
    names = [f"u{i}" for i in range(len(matrix))] if names is None else names
    return reference_paper.make_user_counts(matrix, names, fingerprint=public.fingerprint)


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(
        tmp_path / "app.ledger", population="app users", epsilon=EPSILON, delta=DELTA
    )


@pytest.fixture
def series(ledger, tmp_path):
    return make_series(ledger, tmp_path / "weekly.series")


def make_series(ledger, path, **settings):
    given = {"epsilon": EPSILON, "delta": DELTA, "releases": 10, "full_releases": 2, **settings}
    return Series.create(path, ledger=ledger, **given)


def release_with(noise, series, matrix, output, names=None, **options):
    """A release of a series whose noise comes from this source."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Randomness, "from_seed", classmethod(lambda cls, _seed: cls(noise, 5)))
        return publish.release(
            counts_of(matrix, names), vocabulary(), series=series, output=output, **options
        )


def allowances_of(series):
    return series.read_allowances(series.read_state(), module.RELEASE)


def used_by(series, *names):
    ids = [pa.array([name.encode() for name in names], pa.large_binary())]
    state, places = allowances_of(series).with_users(ids)
    return state.used[places]


# --- What is charged ---


@pytest.mark.parametrize("full_releases", [1, 2, 8])
def test_the_ledger_is_charged_once_for_the_noise_of_the_whole_series(
    ledger, tmp_path, full_releases
):
    """σ of the series costs all of a ledger of its ε and δ; releases have σ√k or more."""
    series = make_series(ledger, tmp_path / "s", full_releases=full_releases, releases=8)
    [entry] = ledger.read().reservations
    noise = series.settings.noise
    assert entry.spend == noise.spend == series.spend
    assert Fraction(entry.spend.inverse_variance) >= 1 / Fraction(noise.multiplier) ** 2
    assert fits([entry.spend], Budget(EPSILON, DELTA))
    assert not fits([entry.spend, entry.spend], Budget(EPSILON, DELTA))
    squared = Fraction(series.settings.release_noise(5).multiplier) ** 2
    assert squared >= full_releases * Fraction(noise.multiplier) ** 2
    # Discreteness of all coordinates of all runs, at the noise that they have at least.
    scale = noise.multiplier * math.sqrt(full_releases) * UNITS
    assert entry.spend.total_variation >= series.settings.coordinates / (24 * scale**2)


def test_releases_charge_the_ledger_nothing_more(series, ledger, tmp_path):
    before = ledger.read().spends
    release_with(RecordingNoise(), series, crowd(50, 1), tmp_path / "week1")
    release_with(RecordingNoise(), series, crowd(50, 2), tmp_path / "week2")
    assert ledger.read().spends == before
    assert len(before) == 1


def test_a_series_that_does_not_fit_is_refused_and_nothing_is_left(ledger, tmp_path):
    make_series(ledger, tmp_path / "one", epsilon=0.9)
    with pytest.raises(BayesgramError, match="Nothing was reserved"):
        make_series(ledger, tmp_path / "two", epsilon=0.9)
    assert not (tmp_path / "two").exists()
    assert len(ledger.read().reservations) == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"delta": 0.0}, "needs a delta above 0"),
        ({"releases": 1}, "from 2 to 1,000"),
        ({"full_releases": 0}, "from 1 to 10"),
        ({"full_releases": 11}, "from 1 to 10"),
        ({"coordinates": 0}, "from 1 to"),
        ({"coordinates": 10**12}, "from 1 to"),
        ({"unit": "a user's week"}, "a unit that lasts as long as it does"),
        ({"unit": "a post"}, "a unit that lasts as long as it does"),
    ],
)
def test_settings_that_no_series_has(ledger, tmp_path, settings, message):
    with pytest.raises(UsageError, match=message):
        make_series(ledger, tmp_path / "s", **settings)
    assert not (tmp_path / "s").exists()
    assert not ledger.read().reservations


def test_a_series_is_never_replaced(series, ledger):
    with pytest.raises(UsageError, match="exists already"):
        make_series(ledger, series.path)


def test_discreteness_takes_half_of_what_it_may_at_most():
    for epsilon, full_releases in ((0.1, 1), (1.0, 8), (8.0, 52)):
        room = max_coordinates(Budget(epsilon, DELTA), full_releases)
        settings = module.SeriesSettings(epsilon, DELTA, 52, full_releases, room)
        assert fits([settings.noise.spend], Budget(epsilon, DELTA))
        assert room > 1_000_000


# --- The proof: what one user moves ---


@pytest.mark.parametrize("plan", [None, *CLIPPING_PLANS.values()])
def test_one_user_moves_all_releases_together_by_what_the_series_was_charged_for(
    ledger, tmp_path, plan
):
    """Two worlds, with and without u, and the same noise: Σ (‖difference‖/scale)² ≤ 1/σ².

    u writes much in every release, little, an n-gram two billion times, or in some of them. Everybody
    else is in both worlds. Noisy answers are the same in both, so that the past is.
    """
    weeks = 10
    habits = {
        "always": [np.full(SIZE, 50)] * weeks,
        "once": [np.full(SIZE, 9)] + [np.zeros(SIZE, int)] * (weeks - 1),
        "two billion": [np.eye(1, SIZE, 5, dtype=int)[0] * (2**31 - 1)] * weeks,
        "by turns": [np.arange(SIZE) * (week % 2) for week in range(weeks)],
        "more and more": [np.full(SIZE, week) for week in range(weeks)],
    }
    for name, rows in habits.items():
        asked = {}
        answers = None
        for world in ("with", "without"):
            folder = tmp_path / name / world
            folder.mkdir(parents=True)
            own = Ledger.create(folder / "l", population="x", epsilon=EPSILON, delta=DELTA)
            series = make_series(own, folder / "s", releases=weeks, full_releases=2)
            asked[world] = []
            noise = SameAnswers(asked[world], answers)
            with fixed_clipping_plan(plan):
                for week, row in enumerate(rows):
                    matrix = crowd(20, week)
                    names = [f"other {i}" for i in range(20)]
                    if world == "with" and row.any():
                        matrix, names = np.vstack([matrix, row]), [*names, "u"]
                    release_with(noise, series, matrix, folder / f"week{week}", names)
            answers = noise.answers
        moved = Fraction(0)
        for (with_u, scale), (without_u, other_scale) in zip(
            asked["with"], asked["without"], strict=True
        ):
            assert scale == other_scale  # noise follows public settings and noisy answers alone
            square = sum(int(k) ** 2 for k in with_u - without_u)
            moved += square / Fraction(scale) ** 2
        spent = Fraction(series.spend.inverse_variance)
        assert moved <= spent, name
        if name in {"always", "two billion"}:
            assert moved > 0.5 * spent  # the allowance is used, not wasted


class SameAnswers(RecordingNoise):
    """Notes what is asked, and gives the answers of the other world where there are some."""

    seeded = False

    def __init__(self, asked, answers):
        super().__init__()
        self.log = asked
        self.given = None if answers is None else list(answers)
        self.answers = []

    def discrete_gaussian(self, values, *, scale):
        self.log.append((np.array(values), scale))
        answer = np.array(values) if self.given is None else self.given.pop(0)
        self.answers.append(answer)
        return answer.copy()


def test_the_same_answers_give_the_same_releases_of_unrelated_people(tmp_path, monkeypatch):
    """Given the noisy answers, nothing of people is left, neither in files nor in the ledger."""
    written = {}
    answers = {}
    for people in ("many", "others"):
        numbers = count(1)
        monkeypatch.setattr("secrets.token_hex", lambda *_, numbers=numbers: f"{next(numbers):032}")
        folder = tmp_path / people
        folder.mkdir()
        ledger = Ledger.create(folder / "l", population="x", epsilon=EPSILON, delta=DELTA)
        series = make_series(ledger, folder / "s")
        previous = None
        for week in range(3):
            matrix = crowd(400, week) if people == "many" else crowd(3 + week, 9, heaviest=3)
            names = [f"{people} {i}" for i in range(len(matrix))]
            noise = replay_noise.NoiseRecorder()
            if people == "others":
                noise = replay_noise.NoiseReplayer(answers[week])
            output = folder / f"week{week}"
            release_with(noise, series, matrix, output, names, previous=previous)
            previous = output
            if people == "many":
                answers[week] = noise.answers
            files = {path.name: path.read_bytes() for path in output.iterdir()}
            assert written.setdefault(week, files) == files
        notes = [entry.notes for entry in ledger.read().reservations]
        assert written.setdefault("notes", notes) == notes
        runs = [replace(run, time="", output="") for run in series.read_state().runs]
        assert written.setdefault("runs", runs) == runs


# --- What is on disk, and when ---


class LookingNoise(RecordingNoise):
    """Looks at the state on disk before each answer."""

    seeded = False

    def __init__(self, look):
        super().__init__()
        self.look = look

    def discrete_gaussian(self, values, *, scale):
        self.look()
        return super().discrete_gaussian(values, scale=scale)


def test_allowances_are_charged_on_disk_before_any_noise_and_lowered_after_all(series, tmp_path):
    matrix = np.vstack([np.full(SIZE, 40), np.eye(1, SIZE, 0, dtype=int)[0]])
    seen = []

    def look():
        seen.append(used_by(series, "u0", "u1").tolist())
        assert series.reservation.series_token == series.read_state().token

    release_with(LookingNoise(look), series, matrix, tmp_path / "week1")
    assert len(seen) >= 4
    after = used_by(series, "u0", "u1").tolist()
    for before_noise in seen:
        assert before_noise == [FULL_RELEASE, FULL_RELEASE]
    assert 0.9 * FULL_RELEASE < after[0] <= FULL_RELEASE
    assert 0 < after[1] < FULL_RELEASE


class StoppedRunError(Exception):
    pass


def test_a_run_that_stops_costs_allowance_and_no_release(series, ledger, tmp_path):
    calls = []

    def stop():
        calls.append(1)
        if len(calls) == 3:
            raise StoppedRunError

    matrix = crowd(30, 1)
    with pytest.raises(StoppedRunError) as caught:
        release_with(LookingNoise(stop), series, matrix, tmp_path / "week1")
    assert "stays charged" in caught.value.__notes__[0]
    assert not (tmp_path / "week1").exists()
    assert (used_by(series, "u0", "u7") == FULL_RELEASE).all()
    state = series.read_state()
    assert [run.drawn for run in state.runs] == [False]
    assert not series.reservation.published_releases
    again = release_with(RecordingNoise(), series, matrix, tmp_path / "week1")
    assert again.card.ledger["series"]["release"] == 1
    assert (used_by(series, "u0", "u7") > FULL_RELEASE).all()
    assert series.reservation.published_releases == {1}


def test_force_gives_no_allowance_back(series, tmp_path):
    """The same folder is replaced in every release."""
    heavy = np.full((1, SIZE), 40)
    for _ in range(series.settings.releases):
        release_with(RecordingNoise(), series, heavy, tmp_path / "week", force=True)
    assert used_by(series, "u0")[0] <= series.settings.full_releases * FULL_RELEASE


def test_a_state_that_a_crash_left_ahead_of_the_ledger_goes_on(series, ledger, tmp_path):
    """The state was written, and the process died before the ledger knew of it: twice."""
    for stop_at in ("begin", "finish"):
        with pytest.MonkeyPatch.context() as patch:
            calls = []

            note = Ledger.note_token

            def dies(self, number, *, calls=calls, stop_at=stop_at, note=note, **tokens):
                calls.append(1)
                if len(calls) == (1 if stop_at == "begin" else 2):
                    raise StoppedRunError
                return note(self, number, **tokens)

            patch.setattr(Ledger, "note_token", dies)
            with pytest.raises(StoppedRunError):
                release_with(RecordingNoise(), series, crowd(9, 1), tmp_path / stop_at)
        assert series.reservation.series_token == series.read_state().before
    before = used_by(series, "u0")[0]
    release_with(RecordingNoise(), series, crowd(9, 1), tmp_path / "week2")
    assert used_by(series, "u0")[0] > before > FULL_RELEASE
    assert series.reservation.series_token == series.read_state().token


def test_a_state_that_was_restored_or_lost_is_refused(series, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(series.path, copy)
    release_with(RecordingNoise(), series, crowd(9, 1), tmp_path / "week1")
    for restore in (
        lambda: shutil.copytree(copy, series.path),
        lambda: (shutil.copytree(copy, series.path), (series.path / "state.json").unlink()),
    ):
        kept = tmp_path / "kept"
        series.path.rename(kept)
        restore()
        with pytest.raises(BayesgramError, match="can't go on"):
            release_with(RecordingNoise(), series, crowd(9, 1), tmp_path / "week2", force=True)
        shutil.rmtree(series.path)
        kept.rename(series.path)
    assert not (tmp_path / "week2").exists()
    # The allowances of an older state under the name of the newest one.
    shutil.rmtree(copy)
    shutil.copytree(series.path, copy)
    release_with(RecordingNoise(), series, crowd(9, 1), tmp_path / "week-between")
    [newest] = series.path.glob("releases-*.arrow")
    content = newest.read_bytes()
    [old] = copy.glob("releases-*.arrow")
    shutil.copy(old, newest)
    with pytest.raises(BayesgramError, match="missing or damaged"):
        release_with(RecordingNoise(), series, crowd(9, 1), tmp_path / "week2")
    newest.write_bytes(content)
    release_with(RecordingNoise(), series, crowd(9, 1), tmp_path / "week2")


def test_two_copies_of_a_series_can_not_both_go_on(series, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(series.path, copy)
    other = Series.open(copy)
    release_with(RecordingNoise(), other, crowd(9, 1), tmp_path / "week1")
    with pytest.raises(BayesgramError, match="restored from a copy"):
        release_with(RecordingNoise(), series, crowd(9, 1), tmp_path / "week2")


def test_of_two_copies_that_begin_at_once_only_one_draws_noise(series, tmp_path):
    """The other one has gone on between our look at the ledger and our note: nothing is drawn."""
    shutil.copytree(series.path, tmp_path / "copy")
    other = Series.open(tmp_path / "copy")
    write_state = Series.write_state

    def meanwhile(self, state, allowances, **options):
        with pytest.MonkeyPatch.context() as undone:
            undone.setattr(Series, "write_state", write_state)
            release_with(RecordingNoise(), other, crowd(9, 1), tmp_path / "week1")
        return write_state(self, state, allowances, **options)

    noise = RecordingNoise()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Series, "write_state", meanwhile)
        with pytest.raises(BayesgramError, match="has gone on with it meanwhile"):
            release_with(noise, series, crowd(9, 1), tmp_path / "week2")
    assert not noise.asked
    assert other.reservation.series_token == other.read_state().token


def test_a_ledger_that_went_back_is_noticed(series, ledger, tmp_path):
    old = ledger.path.read_bytes()
    release_with(RecordingNoise(), series, crowd(9, 1), tmp_path / "week1")
    ledger.path.write_bytes(old)
    with pytest.raises(BayesgramError, match="restored from a copy"):
        release_with(RecordingNoise(), series, crowd(9, 1), tmp_path / "week2")


def test_a_second_process_is_refused_while_a_release_is_made(series, tmp_path):
    with series.locked(), pytest.raises(BayesgramError, match="another process is making"):
        release_with(RecordingNoise(), Series.open(series.path), crowd(3, 2), tmp_path / "other")
    assert not (tmp_path / "other").exists()
    assert not series.read_state().runs
    release_with(RecordingNoise(), series, crowd(9, 1), tmp_path / "week1")


# --- Releases ---


def test_a_card_says_what_the_series_promises(series, tmp_path):
    release_with(ExactlySeeded(), series, crowd(200, 1), tmp_path / "week1")
    release_with(
        ExactlySeeded(), series, crowd(200, 2), tmp_path / "week2", previous=tmp_path / "week1"
    )
    card = Release.load(tmp_path / "week2").card
    assert (card.epsilon, card.delta) == (EPSILON, DELTA)
    assert card.ledger["series"]["release"] == 2
    assert "release 2 of at most 10; ε and δ are for everything in the series" in str(card)
    assert (
        "The 2 releases belong to one series, and everything in it together stays within ε = 1,"
        " δ = 1e-07 (PROVED)" in card.chain_sentence
    )
    details = card.details["by_order"]
    for order in ("1", "2"):
        assert set(details[order]["withheld"]) == {"share", "std", "by_activity"}


class NoNoise:
    """Answers without noise: what is measured, exactly."""

    seeded = False

    def discrete_gaussian(self, values, *, scale):  # noqa: ARG002
        return np.array(values)


def test_what_allowances_leave_out_is_that_of_people_who_write_often(ledger, tmp_path):
    """Half of the people write in every release, and the others in one: the latter lose nothing."""
    series = make_series(ledger, tmp_path / "s", full_releases=1, releases=10)
    previous = None
    for week in range(6):
        matrix = np.full((10000, SIZE), 5)
        names = [f"often {i}" for i in range(5000)]
        names += [f"week {week} {i}" for i in range(5000)]
        output = tmp_path / f"week{week}"
        before = allowances_of(series).with_users(
            [pa.array([names[0].encode(), names[-1].encode()], pa.large_binary())]
        )
        with fixed_clipping_plan(CLIPPING_PLANS["counts"]):
            release_with(NoNoise(), series, matrix, output, names, previous=previous)
        previous = output
    state, places = before
    allowed = pace(state.used[places], state.active[places], number=6, releases=10, full_releases=1)
    details = Release.load(output).card.details["by_order"]["2"]["withheld"]
    seldom, *others, often = details["by_activity"]
    assert seldom["text"] + often["text"] == pytest.approx(1, abs=1e-4)
    assert all(each["text"] == 0 and each["std"] is None for each in others)
    assert often["text"] == pytest.approx(0.5, abs=0.05)
    # All have a norm above Λ, so that who may contribute cΛ keeps the share c of what others do.
    expected = 1 - np.sqrt(allowed / FULL_RELEASE)
    assert expected[0] > 0.4 > expected[1]
    assert often["share"] == pytest.approx(expected[0], abs=0.04)
    assert seldom["share"] == pytest.approx(expected[1], abs=0.04)


def test_a_card_states_mu_of_the_whole_series(series, tmp_path):
    release_with(ExactlySeeded(), series, crowd(50, 1), tmp_path / "week1")
    card = Release.load(tmp_path / "week1").card
    assert card.gaussian_mu == pytest.approx(1 / series.settings.noise.multiplier)
    assert card.gaussian_mu > 1.4 / series.settings.release_noise(1).multiplier


@pytest.mark.parametrize("by_segment", [False, True])
def test_nobody_sets_the_noise_of_a_series_by_hand(by_segment):
    hardly_any = Posterior(series_noise=GaussianNoise(1e-6, 0.0))
    matrix = crowd(9, 1)
    counts = counts_of(matrix)
    if by_segment:
        flat = replace(counts_of(np.hstack([matrix, matrix])), vocabulary_size=2 * SIZE)
        counts = SegmentedCounts(flat, Segments("country", ("de", "fr"), False))
    with pytest.raises(UsageError, match="is set by releases of a series alone"):
        publish.release(counts, vocabulary(), hardly_any, epsilon=1)
    if not by_segment:
        with pytest.raises(UsageError, match="is set by releases of a series alone"):
            hardly_any.release(counts, vocabulary(), Budget(1.0, 1e-7))


def test_only_a_release_that_was_published_can_be_followed(series, tmp_path, monkeypatch):
    monkeypatch.setattr(Ledger, "note_published", lambda *_: None)
    release_with(ExactlySeeded(), series, crowd(50, 1), tmp_path / "week1")
    monkeypatch.undo()
    options = {"previous": tmp_path / "week1"}
    with pytest.raises(UsageError, match="only what was published can be followed"):
        release_with(ExactlySeeded(), series, crowd(50, 1), tmp_path / "week2", **options)
    series.ledger.note_published(series.reservation.number, 1)
    release_with(ExactlySeeded(), series, crowd(50, 1), tmp_path / "week2", **options)


class ExactlySeeded(RecordingNoise):
    """No noise, and a card that takes it for exact: labels are those of a real run."""

    seeded = False


def test_a_series_ends(ledger, tmp_path):
    series = make_series(ledger, tmp_path / "s", releases=2, full_releases=1)
    for week in range(2):
        release_with(RecordingNoise(), series, crowd(9, week), tmp_path / f"week{week}")
    with pytest.raises(BayesgramError, match="all 2 releases of this series were made"):
        release_with(RecordingNoise(), series, crowd(9, 3), tmp_path / "week2")


def test_a_series_has_room_for_so_many_coordinates(ledger, tmp_path):
    series = make_series(ledger, tmp_path / "s", coordinates=300)
    release_with(RecordingNoise(), series, crowd(9, 1), tmp_path / "week1")
    with pytest.raises(BayesgramError, match="noisy numbers"):
        release_with(RecordingNoise(), series, crowd(9, 1), tmp_path / "week2")
    state = series.read_state()
    assert state.coordinates == module.release_coordinates(vocabulary()) > 150


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 1.0}, "epsilon=1.0: can't be used with a series"),
        ({"budget": Budget(1.0, 1e-7)}, "can't be used with a series"),
        ({"seed": 1}, "seed=1: can't be used with a series"),
        ({"mechanism": Gaussian(2.0)}, "a series is released by posterior"),
        ({"unit": "a post"}, "the unit of the series is"),
        ({"output": None}, "give `output`"),
    ],
)
def test_what_a_release_of_a_series_can_not_have(series, tmp_path, options, message):
    given = {"output": tmp_path / "week1", **options}
    with pytest.raises(UsageError) as caught:
        publish.release(counts_of(crowd(9, 1)), vocabulary(), series=series, **given)
    assert message in str(caught.value)
    assert not series.read_state().runs


def test_a_release_that_follows_a_seeded_one_is_refused(series, tmp_path):
    seeded = publish.release(counts_of(crowd(50, 1)), vocabulary(), epsilon=1, seed=1)
    seeded.save(tmp_path / "seeded")
    with pytest.raises(UsageError, match="so no series pays for it"):
        release_with(
            ExactlySeeded(), series, crowd(9, 1), tmp_path / "w", previous=tmp_path / "seeded"
        )
    assert not series.read_state().runs


def test_counts_with_ids_of_another_type_than_before_are_refused(series, tmp_path):
    """An export whose ids change from numbers to text could give everybody a new allowance."""
    texts = ["w0 w1 w2 w3"] * 3
    numbers = private_counts.count(pa.table({"user": [1, 22, 333], "text": texts}), vocabulary())
    names = private_counts.count(pa.table({"user": ["1", "b", "c"], "text": texts}), vocabulary())
    publish.release(numbers, vocabulary(), series=series, output=tmp_path / "1")
    state = series.read_state()
    message = "ids of users were whole numbers in earlier runs of this series, and are text now"
    for folder in (False, True):
        if folder:
            save_counts(names, vocabulary(), tmp_path / "names")
            names = open_counts(tmp_path / "names")
        with pytest.raises(UsageError, match=message):
            publish.release(names, vocabulary(), series=series, output=tmp_path / "2")
    assert series.read_state() == state
    assert not (tmp_path / "2").exists()
    # Where nobody knows what they were, digits are the same user as their number.
    unknown = replace(numbers, user_type=None)
    publish.release(unknown, vocabulary(), series=series, output=tmp_path / "3")
    assert allowances_of(series).active.tolist() == [2, 2, 2]


def test_counts_know_the_type_of_user_ids_where_files_state_it(tmp_path):
    tables = {
        "text": pa.table({"user": ["a"], "text": ["w0"]}),
        "whole numbers": pa.table({"user": pa.array([7], pa.uint16()), "text": ["w0"]}),
    }
    for user_type, table in tables.items():
        counted = private_counts.count(table, vocabulary())
        assert counted.user_type == user_type
        folder = tmp_path / user_type
        save_counts(counted, vocabulary(), folder)
        assert open_counts(folder).user_type == user_type
        assert load_counts(folder).user_type == user_type
    (tmp_path / "rows.csv").write_text("user,text\n7,w0\n")
    assert private_counts.count(tmp_path / "rows.csv", vocabulary()).user_type is None
    meta = json.loads((tmp_path / "text" / "meta.json").read_text())
    for damaged in (7, "", ["text"], "names"):
        (tmp_path / "text" / "meta.json").write_text(json.dumps({**meta, "user_type": damaged}))
        with pytest.raises(BayesgramError, match=r"meta.json is damaged"):
            open_counts(tmp_path / "text")


def test_segments_share_the_allowance_of_their_users(series, tmp_path):
    segments = Segments("country", ("de", "fr"), False)
    matrix = np.hstack([crowd(40, 1), crowd(40, 2)])
    flat = replace(counts_of(matrix), vocabulary_size=2 * SIZE)
    noise = RecordingNoise()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Randomness, "from_seed", classmethod(lambda cls, _seed: cls(noise, 5)))
        released = publish.release(
            SegmentedCounts(flat, segments),
            vocabulary(),
            series=series,
            output=tmp_path / "week1",
        )
    assert set(released.keys()) == {"all", "de", "fr"}
    used = used_by(series, *[f"u{i}" for i in range(40)])
    assert (used > 0).all()
    assert (used <= FULL_RELEASE).all()


def test_runs_and_states_are_as_they_were_written(series, tmp_path):
    release_with(RecordingNoise(), series, crowd(9, 1), tmp_path / "week1")
    state = series.read_state()
    assert state.runs == (
        SeriesRun(1, state.runs[0].time, "../week1", state.coordinates, drawn=True),
    )
    assert state.next(state.runs) != SeriesState(state.token, state.before, state.runs)
    assert oct(series.path.stat().st_mode & 0o777) == "0o700"
    for file in series.path.iterdir():
        assert "u0" not in file.read_bytes().decode("latin-1")


def test_a_series_that_was_paid_for_with_more_noise_is_refused(series, monkeypatch):
    """As if another version of dp-accounting found a smaller σ than the one that was charged."""
    noise = series.settings.noise
    smaller = replace(noise, multiplier=noise.multiplier * (1 - 1e-9))
    monkeypatch.setattr(module, "calibrate_gaussian", lambda *_, **__: smaller)
    with pytest.raises(BayesgramError, match="was paid for by another version"):
        Series.open(series.path)


def test_a_release_that_could_not_be_saved_is_lost_and_says_so(series, tmp_path, monkeypatch):
    def fails(*_, **__):
        raise OSError("the disk is full")

    monkeypatch.setattr(Release, "save", fails)
    with pytest.raises(OSError, match="the disk is full") as caught:
        release_with(RecordingNoise(), series, crowd(9, 1), tmp_path / "week1")
    assert "Release 1 of" in caught.value.__notes__[0]
    assert "is lost" in caught.value.__notes__[0]
    assert "made again" not in caught.value.__notes__[0]
    monkeypatch.undo()
    assert not series.reservation.published
    again = release_with(RecordingNoise(), series, crowd(9, 1), tmp_path / "week2")
    assert again.card.ledger["series"]["release"] == 2
    assert series.reservation.published_releases == {2}


def test_what_is_no_series(ledger, tmp_path):
    for path in (tmp_path / "missing", ledger.path, tmp_path):
        with pytest.raises(UsageError, match="is no series"):
            Series.open(path)
    series = make_series(ledger, tmp_path / "s")
    values = json.loads((series.path / "series.json").read_text())
    values["settings"]["full_releases"] = 1
    (series.path / "series.json").write_text(json.dumps(values))
    with pytest.raises(BayesgramError, match="is damaged"):
        Series.open(series.path)
    values["format"] = 99
    (series.path / "series.json").write_text(json.dumps(values))
    with pytest.raises(UsageError, match="format 99"):
        Series.open(series.path)
