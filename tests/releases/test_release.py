"""Releases and their cards, on disk and off."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayesgram import system
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.io import atomic
from bayesgram.io.atomic import write_file_atomically, write_folder_atomically
from bayesgram.mechanisms.gaussian import Gaussian
from bayesgram.mechanisms.laplace import Laplace, LaplacePublic
from bayesgram.paper.algorithm_1 import Paper
from bayesgram.paper.algorithm_2 import Grid, TunedPaper
from bayesgram.paper.k_anonymity import KAnonymity
from bayesgram.privacy.budget import Budget, Guarantee
from bayesgram.public.vocabulary import public_distribution
from bayesgram.releases.card import Card
from bayesgram.releases.release import Release
from bayesgram.reports.views import largest_changes
from helpers import reference_paper

MECHANISMS = [
    Laplace(),
    LaplacePublic(),
    Gaussian(),
    Paper(),
    TunedPaper(grid=Grid((0.1,), (0.5,))),
    KAnonymity(2),
]


def make(mechanism=None):
    counts, vocabulary = (
        reference_paper.make_user_counts(np.tile(np.eye(3, dtype=int), (40, 1))),
        reference_paper.make_vocabulary([4, 2, 1]),
    )
    mechanism = mechanism or Gaussian()
    budget = None if isinstance(mechanism, KAnonymity) else Budget(1.0, 1e-6)
    return mechanism.release(counts, vocabulary, budget)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: type(m).__name__)
def test_round_trip(tmp_path, mechanism):
    release = make(mechanism)
    release.save(tmp_path / "out")
    read = Release.load(tmp_path / "out")
    assert read.ngrams.equals(release.ngrams)
    assert read.probabilities.tolist() == release.probabilities.tolist()
    assert str(read.card) == str(release.card)
    measured = [] if release.measurements is None else ["measured.parquet"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "card.json",
        "distribution.parquet",
        *measured,
    ]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: type(m).__name__)
def test_every_card_says_who_is_protected_by_how_much_and_what_it_is_worth(mechanism):
    card = make(mechanism).card
    shown = str(card)
    assert card.guarantee.name in shown
    assert ("everything one user wrote in these data" in shown) == (
        card.guarantee is Guarantee.PROVED
    )
    assert ("costs extra" in shown) == (card.guarantee is Guarantee.PROVED)
    assert card.guarantee.name in card.claim
    assert card.to_json()["software"].startswith("bayesgram ")
    assert Card.from_json(json.loads(json.dumps(card.to_json()))).to_json() == json.loads(
        json.dumps(card.to_json())
    )


def test_nothing_is_replaced_without_force(tmp_path):
    make().save(tmp_path / "out")
    before = (tmp_path / "out" / "distribution.parquet").read_bytes()
    with pytest.raises(UsageError) as caught:
        make().save(tmp_path / "out")
    assert (
        str(caught.value)
        == f"{tmp_path}/out: exists already; choose another `path`, or replace it with force=True."
    )
    assert (tmp_path / "out" / "distribution.parquet").read_bytes() == before
    make().save(tmp_path / "out", force=True)
    assert (tmp_path / "out" / "distribution.parquet").read_bytes() != before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_force_does_not_delete_what_is_not_a_release(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"cat")
    with pytest.raises(UsageError) as caught:
        make().save(tmp_path / "photos", force=True)
    assert str(caught.value) == (
        f"{tmp_path}/photos: holds files that are not ours, so it is not replaced; choose another `path`."
    )
    assert (tmp_path / "photos" / "cat.jpg").exists()


def test_force_keeps_a_release_folder_with_something_else_in_it(tmp_path):
    make().save(tmp_path / "out")
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="holds files that are not ours"):
        make().save(tmp_path / "out", force=True)
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"


def test_what_appears_meanwhile_is_not_replaced(tmp_path):
    with (
        pytest.raises(UsageError, match="appeared meanwhile and was not replaced"),
        write_folder_atomically(tmp_path / "out", contents=["a"]) as folder,
    ):
        (folder / "a").write_text("ours")
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "a").write_text("theirs")
    with (
        pytest.raises(UsageError, match="appeared meanwhile and was not replaced"),
        write_file_atomically(tmp_path / "file") as file,
    ):
        file.write_text("ours")
        (tmp_path / "file").write_text("theirs")
    assert (tmp_path / "out" / "a").read_text() == (tmp_path / "file").read_text() == "theirs"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "out"]


@pytest.mark.parametrize("name", ["linux", "another"])
def test_a_folder_is_replaced_whole_on_every_system(tmp_path, monkeypatch, name):
    monkeypatch.setattr(system.sys, "platform", name)
    for text in ("old", "new"):
        with write_folder_atomically(tmp_path / "out", contents=["a"], force=True) as folder:
            (folder / "a").write_text(text)
    assert (tmp_path / "out" / "a").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_replacement_that_stops_half_way_keeps_the_old_folder(tmp_path, monkeypatch):
    def stop_half_way(_folder, target, replaced):
        target.rename(replaced)
        raise OSError(5, "Input/output error")

    with write_folder_atomically(tmp_path / "out", contents=["a"]) as folder:
        (folder / "a").write_text("old")
    monkeypatch.setattr(atomic, "_replace_folder", stop_half_way)
    with (
        pytest.raises(BayesgramError, match="writing failed"),
        write_folder_atomically(tmp_path / "out", contents=["a"], force=True) as folder,
    ):
        (folder / "a").write_text("new")
    assert (tmp_path / "out" / "a").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_delta_near_one_is_not_rounded_in_a_claim():
    assert "δ = 0.9999999 " in replace(make().card, delta=0.9999999).claim


def test_not_a_release(tmp_path):
    with pytest.raises(
        UsageError,
        match=r"not a release folder \(no card\.json\); make one with `bayesgram release`\.$",
    ):
        Release.load(tmp_path)


@pytest.mark.parametrize("damage", ["card", "table", "sum", "nan", "negative"])
def test_damaged_releases(tmp_path, damage):
    make().save(tmp_path / "out")
    table = tmp_path / "out" / "distribution.parquet"
    if damage == "card":
        (tmp_path / "out" / "card.json").write_text('{"mechanism": 1}')
    elif damage == "table":
        table.write_bytes(table.read_bytes()[:40])
    else:
        bad = {
            "sum": [0.5, 0.5, 0.5],
            "nan": [float("nan"), 0.5, 0.5],
            "negative": [1.5, -1.0, 0.5],
        }[damage]
        pq.write_table(pa.table({"ngram": ["w0", "w1", "w2"], "probability": bad}), table)
    with pytest.raises(BayesgramError, match=r"damaged"):
        Release.load(tmp_path / "out")


def test_most_moved():
    release = Release(
        pa.array(["up", "down", "same"], pa.large_string()), np.array([0.7, 0.1, 0.2]), make().card
    )
    lifted, lowered = largest_changes(release, np.array([0.1, 0.7, 0.2]), how_many=1)
    assert [(m.ngram, m.before, m.after) for m in lifted] == [("up", 0.1, 0.7)]
    assert [(m.ngram, m.before, m.after) for m in lowered] == [("down", 0.7, 0.1)]
    assert public_distribution(np.array([1])).tolist() == [1.0]
