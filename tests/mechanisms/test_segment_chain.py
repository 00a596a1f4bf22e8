"""Releases by segment that follow others by segment: nothing more is asked or spent, and each knows its own past."""

import shutil

import numpy as np
import pyarrow as pa
import pytest

import bayesgram as bg
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.inference.reinfer import infer
from bayesgram.io.segments import Segments
from bayesgram.mechanisms.base import Randomness
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.mechanisms.publish import dry_run, release
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.ledger import Ledger, read_ledger
from bayesgram.private.counts import SegmentedCounts, build_user_counts
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.segmented import SegmentedRelease
from bayesgram.text.tokenizer import Tokenizer
from helpers import replay_noise
from mechanisms.test_by_segment import PEOPLE, SIZE, THREE, by_segment, kl, many, vocabulary

pytestmark = pytest.mark.slow

BUDGET = Budget(2.0, 1e-6)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weeks") / "week-1"
    release(by_segment(many(1, 2000)), vocabulary(2), Posterior(), BUDGET, seed=1).save(folder)
    return folder


def following(previous, seed=2, matrix=None, segments=THREE):
    counts = by_segment(many(1, 2000) if matrix is None else matrix, segments)
    return release(counts, vocabulary(2), Posterior(), BUDGET, seed=seed, previous=previous)


def test_each_segment_follows_the_one_of_its_name_and_the_same_is_asked(first):
    alone, made = following(None), following(first)
    for name, one in made.items():
        assert [link["name"] for link in one.card.chain["links"]] == [f"week-1/{name}"]
        assert np.array_equal(one.measurements.counts, alone[name].measurements.counts)
        assert np.array_equal(one.measurements.noise_std, alone[name].measurements.noise_std)
        assert set(one.card.details["drift"]) == {"1", "2", "3"}
        assert not np.array_equal(one.measurements.carried[0], one.measurements.counts)
    shares = [made[name].card.details["share"]["3"] for name in THREE.all_names]
    place, _ = vocabulary(2).by_order[-1]
    mixed = sum(
        share * made[name].probabilities[place]
        for share, name in zip(shares, THREE.all_names, strict=True)
    )
    assert mixed == pytest.approx(made.all.probabilities[place], rel=1e-9)


def test_a_chain_goes_on_from_releases_in_memory_and_from_folders(first, tmp_path):
    second = following(SegmentedRelease.load(first))
    second.save(tmp_path / "week-2")
    third = following(tmp_path / "week-2", seed=3)
    third.save(tmp_path / "week-3")
    back = SegmentedRelease.load(tmp_path / "week-3")
    assert [link["name"] for link in back["de"].card.chain["links"]] == [
        "a release/de",
        "week-2/de",
    ]
    assert "follows 2 releases, the last of them week-2/all." in str(back.all.card)


def test_segments_that_are_new_or_gone_are_told_and_new_ones_follow_all_people(first):
    made = following(first, segments=Segments("country", ("de", "it"), other=True))
    assert made.all.card.details["segments_since"] == {"new": ["it"], "gone": ["fr"]}
    assert "new since the release before: it; gone since the release before: fr" in str(
        made["de"].card
    )
    assert [link["name"] for link in made["it"].card.chain["links"]] == ["week-1/all"]
    assert "drift" not in made["it"].card.details
    assert np.array_equal(made["it"].measurements.carried[0], made["it"].measurements.counts)
    assert "segments_since" not in following(first).all.card.details


def test_a_folder_of_segments_is_inferred_again_to_the_last_bit(first, tmp_path):
    following(first).save(tmp_path / "out")
    again, made = infer(tmp_path / "out", vocabulary(2)), SegmentedRelease.load(tmp_path / "out")
    for name, one in made.items():
        assert np.array_equal(again[name].probabilities, one.probabilities), name
        assert again[name].card.details.get("share") == one.card.details.get("share")
        assert (again[name].card.chain, again[name].card.segment) == (
            one.card.chain,
            one.card.segment,
        )
        assert again[name].card.inferred["from"] == "out"
    other = infer(made, vocabulary(1))
    assert not np.array_equal(other["de"].probabilities, made["de"].probabilities)


CHANGED = Segments("country", ("de", "it"), other=True)  # "it" is new, and "fr" is gone


@pytest.mark.parametrize("segments", [THREE, CHANGED], ids=["the same", "changed"])
def test_the_same_answers_give_the_same_segments_after_others(first, segments, tmp_path):
    """The releases before are public: given them and the noisy answers, unrelated people give the same bytes."""

    def released(name, source):
        rows = PEOPLE[name][PEOPLE[name].sum(axis=1) > 0] if len(PEOPLE[name]) else PEOPLE[name]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Randomness, "from_seed", classmethod(lambda cls, _seed: cls(source, 5)))
            following(first, seed=None, matrix=rows, segments=segments).save(tmp_path / name)
        folder = tmp_path / name
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file()
        }

    source = replay_noise.NoiseRecorder()
    given = released("many", source)
    assert len(given) == 12
    for name in ("few", "nobody"):
        assert released(name, replay_noise.NoiseReplayer(source.answers)) == given, name


def test_one_entry_of_a_ledger_is_charged_the_same_after_others(tmp_path):
    spent, people = [], by_segment(PEOPLE["few"])
    before = release(people, vocabulary(2), Posterior(), BUDGET)
    for name, previous in (("alone", None), ("chained", before)):
        book = Ledger.create(tmp_path / name, population="people", budget=Budget(50, 1e-3))
        out = tmp_path / f"{name}-out"
        release(
            people, vocabulary(2), Posterior(), BUDGET, ledger=book, previous=previous, output=out
        )
        spent.append([entry.spend for entry in read_ledger(tmp_path / name).reservations])
    assert spent[0] == spent[1]
    assert len(spent[0]) == 1


def test_what_segments_can_t_follow_is_refused_and_nothing_is_spent(first, tmp_path):
    book = Ledger.create(tmp_path / "a.ledger", population="people", budget=Budget(50, 1e-3))
    shutil.copytree(first, tmp_path / "missing")
    shutil.rmtree(tmp_path / "missing" / "fr")
    shutil.copytree(first, tmp_path / "mixed")
    shutil.rmtree(tmp_path / "mixed" / "fr")
    shutil.copytree(first / "de", tmp_path / "mixed" / "fr")
    counts, plain = by_segment(PEOPLE["few"]), by_segment(PEOPLE["few"]).flat
    cities = SegmentedCounts(counts.flat, Segments("city", ("de", "fr"), other=True))
    for people, previous, message in [
        (counts, tmp_path / "missing", "fr: no such folder"),
        (counts, tmp_path / "mixed", "fr: its card is of another segment"),
        (
            counts,
            first / "all",
            "all: is one release, and the counts are by 'country'; give the folder",
        ),
        (cities, first, "week-1: is by 'country', the counts are by 'city'"),
    ]:
        with pytest.raises(BayesgramError, match=message):
            release(
                people,
                vocabulary(2),
                Posterior(),
                BUDGET,
                ledger=book,
                previous=previous,
                output=tmp_path / "out",
            )
        with pytest.raises(BayesgramError, match=message):
            door = Posterior().follow(previous).by_segment(people.segments)
            dry_run(people, vocabulary(2), door, BUDGET, ledger=book)
    whole = build_user_counts(
        plain.users,
        np.arange(len(plain.users), dtype=np.int32),
        np.zeros(len(plain.users), np.int32),
        np.ones(len(plain.users), np.int32),
        vocabulary_size=SIZE,
    )
    with pytest.raises(
        UsageError,
        match="week-1: holds a release for each segment, and the counts are not by segment",
    ):
        release(
            whole,
            vocabulary(2),
            Posterior(),
            BUDGET,
            ledger=book,
            previous=first,
            output=tmp_path / "out",
        )
    with pytest.raises(UsageError, match="unit='a post': the release before counts in"):
        out = tmp_path / "out"
        release(
            counts,
            vocabulary(2),
            Posterior(),
            BUDGET,
            ledger=book,
            previous=first,
            unit="a post",
            output=out,
        )
    assert not read_ledger(tmp_path / "a.ledger").reservations


def weeks(seed, drift, number=3, users=4000, shares=(0.65, 0.3, 0.05)):
    """Counts by segment of several weeks, and what they are drawn from; no drift: the weeks have nothing in common."""
    rng = np.random.default_rng(seed)
    ngrams = [f"w{i} w{j}" for i in range(20) for j in range(20)]
    size = len(ngrams)
    usual = np.log(1 / np.arange(1, size + 1))
    public = Vocabulary(
        pa.array(ngrams, pa.large_string()), (1e6 * np.exp(usual)).astype(np.int64), 2, Tokenizer()
    )
    names = pa.array([f"{user}".encode() for user in range(users)], pa.large_binary())
    logs = None
    for _ in range(number):
        if logs is None or drift is None:
            logs = usual + rng.normal(0, 1, size) + 0.3 * rng.normal(0, 1, (len(shares), size))
        else:
            logs = logs + drift * rng.normal(0, 1, logs.shape)
        truth = np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True)
        home = rng.choice(len(shares), users, p=shares)
        rows = np.zeros((users, size), np.int64)
        for segment, q in enumerate(truth):
            rows[home == segment] = rng.multinomial(12, q, int((home == segment).sum()))
        who, what = np.nonzero(rows)
        columns = (
            who.astype(np.int32),
            (home[who] * size + what).astype(np.int32),
            rows[who, what].astype(np.int32),
        )
        flat = build_user_counts(names, *columns, vocabulary_size=len(shares) * size)
        yield public, SegmentedCounts(flat, Segments("country", ("s0", "s1", "s2"))), truth


def gained(seed, drift):
    """KL of each segment in the third week, over that without a past."""
    before = None
    found = list(weeks(seed, drift))
    for week, (public, counts, _) in enumerate(found):
        asked = (counts, public, Posterior(), Budget(0.5, 1e-7))
        alone = release(*asked, seed=week)
        before = alone if before is None else release(*asked, seed=week, previous=before)
    _, counts, truth = found[-1]
    names = counts.segments.all_names
    return [kl(q, before[name]) / kl(q, alone[name]) for q, name in zip(truth, names, strict=True)]


def test_after_three_weeks_of_slow_drift_every_segment_knows_more():
    """Seeds are fixed; the ratios are 0.6 to 0.8 for others, too."""
    assert np.mean([gained(seed, 0.1) for seed in (1, 2)], axis=0) == pytest.approx(
        [0.65, 0.65, 0.65], abs=0.25
    )


def test_where_weeks_have_nothing_in_common_a_past_does_no_harm():
    """Also in a small segment, where noise hides that they have not."""
    assert np.median([gained(seed, None) for seed in (1, 2, 3)], axis=0) == pytest.approx(
        1, abs=0.1
    )


def test_a_change_between_weeks_is_found_by_what_was_measured_in_each(first):
    """The past that a chain shares is no part of the comparison: it is by this week's measurements and last week's."""
    chained, alone = following(first, seed=9), following(None, seed=9)
    before = SegmentedRelease.load(first)
    found = [bg.compare(before["de"], one["de"]).p_values for one in (chained, alone)]
    assert np.array_equal(*found, equal_nan=True)
