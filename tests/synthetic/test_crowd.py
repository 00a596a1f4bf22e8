"""The crowd without text: the same user for any number of users, rows as counts must be, people who repeat themselves."""

from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.audit.evaluation import kl_divergence
from bayesgram.errors import UsageError
from bayesgram.private.counts import count
from bayesgram.synthetic import crowd as module
from bayesgram.synthetic.crowd import Crowd
from bayesgram.synthetic.population import Population
from helpers.hypothesis_profiles import examples

SMALL = {"size": 400, "sentences": 20_000, "personas": 16, "pool": 8}


@cache
def vocabulary():
    return Crowd(users=1, **SMALL).vocabulary


def made(users, **more):
    crowd = Crowd(users=users, **(SMALL | more))
    if not more:  # the vocabulary does not depend on the users: make it once
        crowd.__dict__["vocabulary"] = vocabulary()
    return crowd.counts()


def rows(counts):
    """User id → (n-grams, counts)."""
    names = counts.users.to_pylist()
    cuts = [slice(*counts.starts[at : at + 2]) for at in range(len(names))]
    return {
        name: (counts.ngrams[cut].tolist(), counts.counts[cut].tolist())
        for name, cut in zip(names, cuts, strict=True)
    }


@examples(15)
@given(st.integers(1, 400), st.integers(1, 400))
def test_a_user_is_the_same_for_any_number_of_users(few, many):
    few, many = sorted((few, many))
    assert rows(made(few)).items() <= rows(made(many)).items()


def test_the_blocks_change_nothing(monkeypatch):
    whole = rows(made(500))
    monkeypatch.setattr(module, "BATCH_SIZE", 7)
    monkeypatch.setattr(module, "LIBRARY_BATCH", 100)
    assert rows(made(500)) == whole


def test_another_seed_is_another_crowd():
    assert not rows(made(50)).keys() & rows(made(50, seed=8)).keys()


def test_a_few_users_write_a_great_deal_and_repeat_themselves():
    counts = made(5_000)
    totals = np.add.reduceat(counts.counts, counts.starts[:-1])
    assert totals.max() > 20 * np.median(totals)
    assert 0.05 < np.mean(counts.counts > 1) < 0.6
    assert len(counts.users) > 0.7 * 5_000


def test_everybody_s_speech_is_close_to_that_of_the_population_with_text():
    """Same grammar: far closer to the population's own n-grams than public text is."""
    crowd = Crowd(users=5_000, size=400, sentences=20_000, personas=64, pool=32)
    counts = crowd.counts()
    spoken = count(
        pa.Table.from_batches(Population(users=5_000, seed=1).messages()), crowd.vocabulary
    )
    theta = (counts.totals + 1) / (counts.totals + 1).sum()
    public = (crowd.vocabulary.counts + 1) / (crowd.vocabulary.counts + 1).sum()
    assert kl_divergence(spoken.totals, theta) < 0.1 * kl_divergence(spoken.totals, public)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"users": 0},
            "users=0: the number of made-up users is a whole number from 1 to 10,000,000.",
        ),
        (
            {"users": 10, "size": 1},
            "size=1: the number of n-grams in the vocabulary is a whole number from 2 to 200,000.",
        ),
    ],
)
def test_what_can_not_be_is_refused(settings, message):
    with pytest.raises(UsageError) as refused:
        Crowd(**settings)
    assert str(refused.value) == message
