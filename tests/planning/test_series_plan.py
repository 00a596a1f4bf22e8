"""Plans of series: which number of full releases, by how often people write."""

import numpy as np
import pyarrow as pa
import pytest

import bayesgram as bg
from bayesgram.errors import UsageError
from bayesgram.planning import series_plan as module
from bayesgram.planning.series_plan import plan_series
from bayesgram.privacy.constants import ACTIVITY_CLASSES
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.card import Card
from bayesgram.releases.release import Release
from bayesgram.text.tokenizer import Tokenizer

pytestmark = pytest.mark.slow


def vocabulary(size=300):
    ngrams = pa.array([f"w{i % 17} w{i}" for i in range(size)], pa.large_string())
    return Vocabulary(ngrams, 100_000 // np.arange(1, size + 1), 2, Tokenizer())


def planned(**settings):
    given = {"users": 20_000, "ngrams_a_user": 20, "releases": 20, "activity": 0.1, **settings}
    return plan_series(vocabulary(), **given)


def test_people_who_write_seldom_gain_from_a_series_and_people_who_always_write_do_not():
    seldom, often = planned(), planned(activity=1.0)
    assert seldom.full_releases < 10
    best = {row.full_releases: row for row in seldom.rows}[seldom.full_releases]
    assert best.kl_ratio < 0.9
    assert f"Give every user {seldom.full_releases} full releases:" in seldom.answer
    assert min(row.kl_ratio for row in often.rows) > 0.95


def test_as_many_full_releases_as_releases_are_separate_ones():
    for activity in (0.1, 1.0):
        last = planned(activity=activity).rows[-1]
        assert last.full_releases == 20
        assert last.noise_ratio == 1
        assert last.kl_ratio == pytest.approx(1, rel=1e-6)
        assert last.withheld_share == pytest.approx(0, abs=1e-6)


def test_fewer_full_releases_leave_out_more_and_have_less_noise():
    rows = planned(activity=0.6).rows
    withheld = [row.withheld_share for row in rows]
    assert withheld[0] > withheld[len(rows) // 2] > withheld[-1] - 1e-9
    assert [row.noise_ratio for row in rows] == sorted(row.noise_ratio for row in rows)
    assert rows[3].noise_ratio == pytest.approx((4 / 20) ** 0.5)


def test_a_plan_is_the_same_every_time_and_counts_the_users_of_one_release():
    assert planned().to_json() == planned().to_json()
    rng = np.random.default_rng(1)
    public = module.Planner(vocabulary()).public_ngrams(300)[-1]
    people = module.Assumptions(20_000, 20.0)
    crowd = module.Crowd.draw(public, people, np.full(1000, 0.3), 20, rng)
    writers = (crowd.amounts > 0).sum(axis=1) * crowd.weight
    assert writers.mean() == pytest.approx(20_000)
    histogram = crowd.histogram(3, np.ones(1000))
    assert histogram.users.sum() == pytest.approx(writers[3])
    # Somebody who may contribute half as much is at twice the norm, as half a user.
    limited = crowd.histogram(3, np.full(1000, 0.5))
    assert limited.users.sum() == pytest.approx(writers[3] / 2)
    assert np.allclose(limited.users[2:], histogram.users[:-2] / 2)


def release_of_a_series(texts, stds=0.01):
    public = vocabulary()
    classes = [{"text": text, "text_std": stds, "share": 0.1, "std": 0.01} for text in texts]
    withheld = {"share": 0.1, "std": 0.01, "by_activity": classes}
    details = {"by_order": {"2": {"clip_norm_used": 4.0, "withheld": withheld}}}
    card = Card(
        mechanism="posterior",
        guarantee=bg.Guarantee.NONE,
        statement="made up",
        epsilon=1.0,
        delta=1e-7,
        settings={},
        details=details,
        vocabulary=public.card_details,
        seeded=True,
    )
    theta = public.counts / public.counts.sum()
    return Release(public.ngrams, theta, card, theta)


def test_an_earlier_series_says_how_often_people_write():
    seldom = [1.0] + [0.0] * (ACTIVITY_CLASSES - 1)
    often = seldom[::-1]
    plans = [
        planned(activity=None, earlier=release_of_a_series(texts)) for texts in (seldom, often)
    ]
    assert plans[0].activity < 0.1
    assert plans[1].activity > 0.75
    assert plans[0].full_releases < plans[1].full_releases


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"activity": 0.0}, "activity=0"),
        ({"activity": 1.5}, "activity=1.5"),
        ({"releases": 1}, "from 2 to 1,000"),
        ({"users": 3}, "users=3"),
        ({"delta": 0.0}, "needs a delta above 0"),
        ({"size": 10**6}, "from 10 to 300"),
        ({"earlier": release_of_a_series([1.0] * 5)}, "give one of them"),
        ({"activity": None, "earlier": release_of_a_series([])}, "of no series"),
        ({"activity": None, "earlier": release_of_a_series([1.0] * 5, 9.0)}, "noise hides it"),
    ],
)
def test_what_can_not_be_planned(settings, message):
    with pytest.raises(UsageError, match=message):
        planned(**settings)


def test_progress_ends_at_one():
    steps = []
    planned(on_progress=steps.append)
    assert steps[-1] == 1.0
    assert steps == sorted(steps)
