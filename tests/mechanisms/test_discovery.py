"""The door for strings, line by line of its proof: what is asked of noise, what follows from it, what is charged."""

import logging
import re
from contextlib import contextmanager
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.errors import UsageError
from bayesgram.inference.discovery_weights import RoundSchedule
from bayesgram.mechanisms import discovery
from bayesgram.mechanisms.base import Randomness
from bayesgram.mechanisms.discovery import discover, has_known_words
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.constants import MAX_CANDIDATES
from bayesgram.privacy.ledger import Ledger
from bayesgram.privacy.noise import NoiseSource, SeededNoise
from bayesgram.private.candidates import CandidateRounds
from bayesgram.private.clipping import UNITS
from helpers import discovery_data, fork_server, ledger_files, replay_noise
from helpers.discovery_data import (
    BUDGET,
    MANY_PEOPLE,
    PUBLIC,
    make_mechanism,
    measure,
    rows_of_people,
)
from helpers.hypothesis_profiles import examples
from helpers.recording_noise import RecordingNoise

ROUNDS = [1, 2, 10]


# What is asked of noise is what is charged


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("budget", [BUDGET, Budget(8.0, 1e-6)])
def test_a_ledger_is_charged_for_all_noise_that_a_discovery_asks_for(rounds, budget):
    the_mechanism, noise = make_mechanism(rounds, budget), RecordingNoise()
    measure(the_mechanism, MANY_PEOPLE, noise)
    assert len(noise.asked) == rounds
    assert {law for law, _, _ in noise.asked} == {"gaussian"}
    inverse = sum((Fraction(UNITS) / Fraction(scale)) ** 2 for _, _, scale in noise.asked)
    variation = sum(MAX_CANDIDATES / (24 * Fraction(scale) ** 2) for _, _, scale in noise.asked)
    spend = the_mechanism.threshold.spend
    assert inverse <= Fraction(spend.inverse_variance) <= inverse * (1 + Fraction(1, 10**9))
    assert variation <= Fraction(spend.total_variation) * (1 + Fraction(1, 10**12))
    assert spend.failure == the_mechanism.threshold.failure > 0


class Silent(NoiseSource):
    """Answers far below any level, but for what is told; notes how many were asked."""

    seeded = True

    def __init__(self, answer=lambda values: np.full(values.size, -(1 << 50))):
        self.answer, self.sizes = answer, []

    def discrete_gaussian(self, values, *, scale):
        assert scale > UNITS / 2
        self.sizes.append(values.size)
        return self.answer(values)

    def discrete_laplace(self, values, *, scale):
        raise NotImplementedError


@pytest.mark.parametrize("rounds", ROUNDS)
def test_everything_that_anybody_wrote_gets_noise_also_what_one_person_wrote(rounds):
    said, noise = [*rows_of_people(50, "zog"), ("ann", "blip")], Silent()
    assert measure(make_mechanism(rounds, orders=[1]), said, noise) == {}
    assert noise.sizes[0] == 2
    loud = Silent(lambda values: np.full(values.size, 1 << 50))
    assert set(measure(make_mechanism(rounds, orders=[1]), said, loud)) == {"zog", "blip"}


@pytest.mark.parametrize("rounds", [2, 10])
def test_what_passes_by_itself_gets_noise_in_every_round(rounds):
    """Also where the answers so far are so high that nobody gives it weight any more."""
    the_mechanism = make_mechanism(rounds, orders=[1])
    loud, lowest = Silent(lambda values: np.full(values.size, 1 << 50)), []
    plan_round = RoundSchedule.plan_round

    def noting(self, *arguments):
        logs, stays = plan_round(self, *arguments)
        lowest.append(logs.max())
        return logs, stays

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RoundSchedule, "plan_round", noting)
        assert set(measure(the_mechanism, rows_of_people(9, "zog blip"), loud)) == {"zog", "blip"}
    assert lowest == [-300.0] * (rounds - 1)
    assert loud.sizes == [2] * rounds


@pytest.mark.parametrize("rounds", ROUNDS)
def test_nothing_but_noisy_sums_above_the_level_comes_out(rounds):
    """Exact sums are far above T for all, and noise leaves one of them there, by one unit, and one at the level."""
    the_mechanism = make_mechanism(rounds, orders=[1])
    level = int(the_mechanism.threshold.level * rounds * UNITS) + 1
    said = (
        rows_of_people(500, "zog")
        + rows_of_people(500, "blip", name="other")
        + rows_of_people(500, "fizz", name="third")
    )

    def answer(values):
        first = np.array([level + 1, level, -(1 << 50)])
        return first if values.size == 3 else np.zeros(values.size, np.int64)

    noise = Silent(answer)
    found = measure(the_mechanism, said, noise)
    if rounds == 1:
        assert list(found.values()) == [(level + 1) / UNITS]
    else:  # the first answers already say all; what is far above stays, what is hopeless is dropped
        assert len(found) == 1
        assert noise.sizes == [3, *[2] * (rounds - 1)]


@pytest.mark.parametrize("rounds", [2, 10])
def test_the_level_is_that_of_the_mean_of_all_rounds(rounds, monkeypatch):
    """Someone who gives all their weight to one string in every round reaches 1, however many rounds there are."""
    monkeypatch.setattr(RoundSchedule, "plan_round", staying)
    the_mechanism, noise = make_mechanism(rounds, orders=[1]), RecordingNoise()
    assert measure(the_mechanism, rows_of_people(1, "zog"), noise) == {}
    assert sum(values for _, values, _ in noise.asked).tolist() == [rounds * UNITS]
    level = int(the_mechanism.threshold.level * rounds * UNITS) + 1
    assert the_mechanism._find_above_level(np.array([level]))[0].size == 0
    above, weights = the_mechanism._find_above_level(np.array([level + 1]))
    assert (above.tolist(), weights.tolist()) == ([0], [(level + 1) / (rounds * UNITS)])


def test_in_one_round_what_others_leave_below_the_floor_lifts_one_person_by_the_floor_and_own_weight_at_most():
    threshold, bound = make_mechanism(1).threshold, make_mechanism(1).bound
    assert bound.min_sum > threshold.floor * UNITS >= bound.min_sum - 1
    assert bound.max_candidates == MAX_CANDIDATES
    assert bound.min_units <= 0.02 * UNITS < bound.min_units + 1


# Steering: noisy numbers and public weights alone


@examples(60)
@given(st.integers(0, 2**32), st.floats(0.05, 0.95), st.floats(2, 60))
def test_what_becomes_of_a_candidate_follows_from_its_own_noisy_sum_and_public_weight(
    seed, part, level
):
    rng, course = np.random.default_rng(seed), RoundSchedule(4.7, level)
    mean, public = rng.normal(0, 20, 40), rng.uniform(-7, 0.7, 40).astype(np.float32)
    logs, stays = course.plan_round(mean, part, public)
    for some in (slice(3, 4), slice(1, 30), rng.permutation(40)):
        own_logs, own_stays = course.plan_round(mean[some], part, public[some])
        assert (own_logs == logs[some]).all()
        assert (own_stays == stays[some]).all()
    assert (logs >= -300).all()
    assert (logs <= 0.25 * public.max() + 1e-9).all()


def test_users_are_weighed_in_each_round_by_noisy_sums_so_far_and_public_weights(monkeypatch):
    """All that a round is told of the data is the answers that noise gave before: also where these are lies."""
    told, given_weights = [], []
    plan_round, sums = RoundSchedule.plan_round, CandidateRounds.sums

    def noting(self, mean, part, public):
        told.append((mean.copy(), part))
        return plan_round(self, mean, part, public)

    def weighing(self, weights):
        given_weights.append(weights[0].copy())
        return sums(self, weights)

    monkeypatch.setattr(RoundSchedule, "plan_round", noting)
    monkeypatch.setattr(CandidateRounds, "sums", weighing)
    rng, answers = np.random.default_rng(4), []

    def lies(values):
        answers.append(rng.normal(3 * UNITS, UNITS, values.size).astype(np.int64))
        return answers[-1]

    the_mechanism = make_mechanism(3)
    measure(the_mechanism, MANY_PEOPLE, Silent(lies))
    whole, size = 3 * UNITS, answers[0].size
    assert [part for _, part in told] == [1 / 3, 2 / 3]
    assert (told[0][0] == answers[0] / whole).all()
    stays = given_weights[1] > 0
    noisy = np.full(size, discovery.DROPPED)
    noisy[stays] = answers[0][stays] + answers[1]
    assert (told[1][0] == noisy / whole).all()
    public = np.log(given_weights[0]).astype(np.float32)
    for (mean, part), weights in zip(told, given_weights[1:], strict=True):
        logs, top_candidates = plan_round(
            RoundSchedule(the_mechanism.threshold.multiplier, the_mechanism.threshold.level),
            mean,
            part,
            public,
        )
        assert weights == pytest.approx(np.where(top_candidates, np.exp(logs), 0.0), rel=1e-5)


@examples(15)
@given(st.integers(0, 2**32), st.integers(2, 6), st.integers(0, 60))
def test_given_the_answers_so_far_a_user_moves_every_round_by_b_at_most_and_nobody_else_at_all(
    seed, rounds, size
):
    """Neighbours are asked round by round, with the same answers: lists differ by eve's z in each."""
    rng = np.random.default_rng(seed)
    words = np.array(["zog", "blip", "fizz", "the", "red", "fish", "it", "very"])
    said = [(f"user {user}", " ".join(rng.choice(words, rng.integers(0, 12)))) for user in range(6)]
    eve = [("eve", " ".join(rng.choice(np.append(words, "evesown"), size)))]
    the_mechanism = make_mechanism(rounds)
    whole, without = RecordingNoise(), RecordingNoise()
    sums = [{}, {}]
    for place, (rows, noise) in enumerate([(said + eve, whole), (said, without)]):
        with (
            discovery.list_candidates(
                discovery_data.make_records(rows), PUBLIC, [1, 2, 3], MAX_CANDIDATES, memory=1 << 28
            ) as lists,
            pytest.MonkeyPatch.context() as patch,
        ):
            texts, _ = discovery_data.candidate_texts_and_logs(lists)

            def answer(values, *, scale, noise=noise, texts=texts):
                noise.asked.append(values)
                noisy = [
                    int.from_bytes(text.encode()[:4], "big") % 7 * UNITS for text in texts
                ]  # by the text alone
                return np.array(noisy, np.int64)

            noise.discrete_gaussian = answer
            patch.setattr(RoundSchedule, "plan_round", bent)
            the_mechanism._run_rounds(lists, noise)
        sums[place] = [dict(zip(texts, values.tolist(), strict=True)) for values in noise.asked]
    for with_eve, others in zip(*sums, strict=True):
        moved = {text: value - others.get(text, 0) for text, value in with_eve.items()}
        assert sum(value**2 for value in moved.values()) <= UNITS**2
        assert min(moved.values(), default=0) >= 0
        assert sum(value > 0 for value in moved.values()) <= MAX_CANDIDATES


def bent(_course, mean, _part, public):
    """Other weights in every round."""
    return np.maximum(public - np.abs(mean), -300.0).astype(np.float64), np.ones(mean.size, bool)


def staying(_course, mean, _part, public):
    """The same weights in every round."""
    return public.astype(np.float64), np.ones(mean.size, bool)


# After the noise


UNRELATED = {
    "many": rows_of_people(300, "people like zog", "it swims very zog"),
    "one each": [("ann", "people like zog"), ("bob", "it swims very zog")],
    "the other way round": [
        ("x", "it swims very zog. people like zog"),
        *rows_of_people(7, "it swims very zog", name="y"),
    ],
}


def saved(source, said, folder, rounds, **options):
    """All bytes of a discovery whose noise comes from this source."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Randomness, "from_seed", classmethod(lambda cls, _seed: cls(source, 5)))
        discover(
            discovery_data.make_table(said),
            discovery_data.make_vocabulary(),
            Budget(8.0, 1e-6),
            rounds=rounds,
            **options,
        ).save(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class Loud(replay_noise.NoiseRecorder):
    """Answers that have nothing to do with the data, some of them above any level."""

    def discrete_gaussian(self, values, *, scale):
        rng = np.random.default_rng(len(self.answers))
        answer = rng.normal(0, 30 * scale, values.size).astype(np.int64)
        return self._kept("gaussian", answer, scale)


def test_the_same_answers_give_the_same_discovery_of_unrelated_people(tmp_path):
    """Who hold the same candidates: how many people wrote which can't be seen, nor who, nor in which order."""
    source = Loud()
    first = saved(source, UNRELATED["many"], tmp_path / "first", 4)
    assert set(first) == {"card.json", "ngrams.parquet", "vocab.parquet"}
    for name, said in UNRELATED.items():
        assert (
            saved(replay_noise.NoiseReplayer(source.answers), said, tmp_path / name, 4) == first
        ), name
    other = saved(Loud(), UNRELATED["many"], tmp_path / "again", 4, max_new=1)
    assert other["ngrams.parquet"] != first["ngrams.parquet"]


class ByText(NoiseSource):
    """Answers by the text of a candidate: 90 for what is told, far below the level for the rest."""

    seeded = True

    def __init__(self, told):
        self.told, self.texts = told, []

    def discrete_gaussian(self, values, *, scale):
        assert scale > UNITS / 2
        assert values.size == len(self.texts)
        return np.array([UNITS * self.told.get(text, -90) for text in self.texts], np.int64)

    def discrete_laplace(self, values, *, scale):
        raise NotImplementedError


def test_so_do_those_of_what_is_published_whatever_else_people_wrote(
    tmp_path, monkeypatch, capsys, caplog
):
    """In one round: candidates that did not pass, and how many there were, leave no trace, in files or words."""
    added_up = discovery.sum_candidates
    noise = ByText({"zog": 90, "like zog": 70})

    def noting(*arguments, **options):
        found = added_up(*arguments, **options)
        noise.texts = found.ngrams.to_pylist()
        return found

    monkeypatch.setattr(discovery, "sum_candidates", noting)
    few, many = (
        rows_of_people(9, "like zog"),
        rows_of_people(70, "like zog") + rows_of_people(20, "blip fizz. the wham", name="other"),
    )
    first = saved(noise, few, tmp_path / "few", 1)
    asked = len(noise.texts)
    assert saved(noise, many, tmp_path / "many", 1) == first
    assert len(noise.texts) > asked
    assert (*capsys.readouterr(), caplog.text) == ("", "", "")


class Dropping(ByText):
    """The same in several rounds: what is not told has no hope after the first."""

    def discrete_gaussian(self, values, *, scale):
        answer = super().discrete_gaussian(values, scale=scale)
        self.texts = [text for text in self.texts if text in self.told]
        return answer


@pytest.mark.parametrize("rounds", [2, 4])
def test_so_do_those_of_several_rounds_whatever_else_people_wrote(
    rounds,
    tmp_path,
    monkeypatch,
    capsys,
    caplog,
):
    """Candidates that are dropped on the way, and how many there were, leave no trace either."""
    caplog.set_level(logging.INFO)
    list_all, asked = discovery.list_candidates, []
    noise = Dropping({"zog": 90, "like zog": 70})

    @contextmanager
    def noting(*arguments, **options):
        with list_all(*arguments, **options) as lists:
            noise.texts = lists.ngrams(np.arange(len(lists))).to_pylist()
            asked.append(len(noise.texts))
            yield lists

    monkeypatch.setattr(discovery, "list_candidates", noting)
    few = rows_of_people(9, "like zog")
    many = rows_of_people(70, "like zog") + rows_of_people(20, "blip fizz. the wham", name="other")
    first = saved(noise, few, tmp_path / "few", rounds)
    assert saved(noise, many, tmp_path / "many", rounds) == first
    assert asked[0] < asked[1]
    assert (*capsys.readouterr(), caplog.text) == ("", "", "")


def test_words_that_are_neither_public_nor_found_stay_inside_unless_asked_for():
    ngrams = pa.array(
        ["zog", "zog fish", "blip fish", "the red zog", "very blip"], pa.large_string()
    )
    assert has_known_words(ngrams, discovery_data.make_vocabulary()).tolist() == [
        True,
        True,
        False,
        True,
        False,
    ]
    weights = np.arange(len(ngrams), 0.0, -1)
    closed = make_mechanism(2).make_discovery(ngrams, weights, PUBLIC, seeded=True)
    opened = make_mechanism(2, open=True).make_discovery(ngrams, weights, PUBLIC, seeded=True)
    assert closed.ngrams.to_pylist() == ["zog", "zog fish", "the red zog"]
    assert len(opened) == 5
    assert make_mechanism(2, open=True, max_new=2).make_discovery(
        ngrams, weights, PUBLIC, seeded=True
    ).ngrams.to_pylist() == [
        "zog",
        "zog fish",
    ]


def test_a_seeded_discovery_is_not_private_and_charges_no_ledger(tmp_path):
    ledger = Ledger.create(tmp_path / "a.ledger", population="p", budget=BUDGET)
    with pytest.raises(UsageError, match="a seeded discovery is not private"):
        discover(
            discovery_data.make_table(MANY_PEOPLE),
            discovery_data.make_vocabulary(),
            BUDGET,
            seed=1,
            ledger=ledger,
        )
    assert ledger.read().last_number == 0
    found = discover(
        discovery_data.make_table(MANY_PEOPLE),
        discovery_data.make_vocabulary(),
        BUDGET,
        seed=1,
        rounds=2,
    )
    assert found.card.guarantee.name == "NONE"
    (claim,) = found.vocabulary.origins.claims
    assert claim.guarantee == "NONE"  # also where the vocabulary is used


@pytest.mark.parametrize("rounds", [1, 10])
def test_a_budget_that_leaves_no_threshold_is_refused_before_anything_is_read_or_spent(
    rounds, tmp_path
):
    ledger = Ledger.create(tmp_path / "a.ledger", population="p", budget=Budget(1.0, 0.5))
    with pytest.raises(
        UsageError,
        match=r"^epsilon=0\.001: a discovery with delta=0\.001 needs an epsilon above 2·delta",
    ):
        discover(
            tmp_path / "not there",
            discovery_data.make_vocabulary(),
            Budget(1e-3, 1e-3),
            rounds=rounds,
            ledger=ledger,
        )
    assert ledger.read().last_number == 0


# With real noise, end to end


def test_what_many_write_is_found_and_what_one_writes_never_is():
    said = [*rows_of_people(600, "people like zog"), ("eve", "eves own secret. " * 400)]
    for rounds in (1, 4):
        for _ in range(3):
            found = discover(
                discovery_data.make_table(said),
                discovery_data.make_vocabulary(),
                BUDGET,
                rounds=rounds,
                open=True,
            )
            assert "zog" in found.ngrams.to_pylist()
            assert not any(
                "eves" in ngram or "secret" in ngram for ngram in found.ngrams.to_pylist()
            )
            assert found.card.guarantee.name == "PROVED"


def test_fewer_people_than_at_least_don_t_come_out():
    said = rows_of_people(300, "zog")
    chosen = {"orders": [1], "rounds": 2}
    assert (
        len(
            discover(
                discovery_data.make_table(said), discovery_data.make_vocabulary(), BUDGET, **chosen
            )
        )
        == 1
    )
    assert (
        len(
            discover(
                discovery_data.make_table(said),
                discovery_data.make_vocabulary(),
                BUDGET,
                at_least=400,
                **chosen,
            )
        )
        == 0
    )
    assert make_mechanism(2, at_least=400).threshold.level == 399.0


def test_noise_of_a_round_is_as_large_as_it_says():
    """The door's own noise on nothing: the spread of the mean of all rounds is σ."""
    the_mechanism = make_mechanism(4, orders=[1])
    said = [(f"user {i}", f"zog{i}") for i in range(1500)]
    with (
        discovery.list_candidates(
            discovery_data.make_records(said), PUBLIC, [1], MAX_CANDIDATES, memory=1 << 28
        ) as lists,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(RoundSchedule, "plan_round", staying)
        noisy = np.concatenate(list(the_mechanism._run_rounds(lists, SeededNoise(5)))) / (4 * UNITS)
    assert noisy.mean() == pytest.approx(1, abs=0.6)
    assert noisy.std() == pytest.approx(the_mechanism.threshold.multiplier, rel=0.1)


# Through the command line: the folder, what is printed, what is told on the way, and the exit code


def run(mode, transcript, folder, *options):
    command = [
        "discover",
        "text.parquet",
        "--vocab",
        "vocab.parquet",
        "--epsilon",
        "8",
        "--delta",
        "1e-6",
    ]
    done = fork_server.run(
        replay_noise.__file__,
        mode,
        transcript,
        *command,
        "--ledger",
        "app.ledger",
        "-o",
        "out",
        *options,
        cwd=folder,
    )
    assert "Traceback" not in done.stderr, done.stderr
    told = re.sub(
        r"\d:\d\d:\d\d|[\d.]+/[\d.]+ \w+|\d+ \w?bytes|━", "", done.stderr
    )  # the clock, and the size of the file
    out = {path.name: path.read_bytes() for path in (folder / "out").iterdir()}
    return done.returncode, done.stdout, told, out


def prepared(folder, said):
    folder.mkdir()
    discovery_data.make_vocabulary().save(folder / "vocab.parquet")
    pq.write_table(discovery_data.make_table(said), folder / "text.parquet")
    ledger_files.create_identical_ledger(
        folder / "app.ledger", population="people", budget=Budget(8.0, 1e-6)
    )
    return folder


@pytest.mark.parametrize("options", [["--rounds", "3"], ["--json", "--open"]], ids=" ".join)
def test_so_does_the_command_line_of_a_discovery(options, tmp_path):
    transcript = tmp_path / "answers"
    recorded = run(
        "record", transcript, prepared(tmp_path / "recorded", UNRELATED["many"]), *options
    )
    assert recorded[0] == 0, recorded[2]
    for name in list(UNRELATED)[1:]:
        assert (
            run("replay", transcript, prepared(tmp_path / name, UNRELATED[name]), *options)
            == recorded
        ), name
