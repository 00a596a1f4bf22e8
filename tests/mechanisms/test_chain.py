"""Releases that follow one another: nothing more is asked or spent, and the card tells the whole chain."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.inference.reinfer import infer
from bayesgram.mechanisms.base import Randomness
from bayesgram.mechanisms.gaussian import Gaussian
from bayesgram.mechanisms.laplace import Laplace
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.mechanisms.publish import release
from bayesgram.privacy.accounting import Spend, composed_epsilon
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.calibration import calibrate_gaussian
from bayesgram.privacy.ledger import Ledger
from bayesgram.privacy.ledger_io import read_ledger
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.chain import Commitment, composed_spend, describe_composition
from bayesgram.releases.measurements import MEASUREMENTS_FILE
from bayesgram.releases.provenance import DiscoveryClaim
from bayesgram.releases.release import Release
from bayesgram.text.tokenizer import Tokenizer
from helpers import replay_noise
from mechanisms.test_replay import DATASETS, SIZE, counts, several, vocabulary

BUDGET = Budget(0.5, 1e-6)


@pytest.fixture(scope="module")
def first():
    return release(counts("many", vocabulary()), vocabulary(), Posterior(), BUDGET, seed=1)


@pytest.fixture(scope="module")
def second(first):
    return release(
        counts("many", vocabulary()), vocabulary(), Posterior(), BUDGET, seed=2, previous=first
    )


def test_the_same_is_asked_of_people_whatever_was_before(first, second):
    alone = release(counts("many", vocabulary()), vocabulary(), Posterior(), BUDGET, seed=2)
    assert np.array_equal(alone.measurements.counts, second.measurements.counts)
    assert np.array_equal(alone.measurements.noise_std, second.measurements.noise_std)
    assert alone.measurements.carried is None
    counts_together, noise = second.measurements.carried
    assert (noise[:SIZE] < alone.measurements.noise_std[:SIZE]).mean() > 0.5
    assert not np.array_equal(counts_together, alone.measurements.counts)
    assert alone.card.details["by_order"] == second.card.details["by_order"]
    assert alone.card.details["epsilon_slack"] == second.card.details["epsilon_slack"]


def test_a_ledger_is_charged_the_same(tmp_path):
    spends, people = [], counts("few", vocabulary())
    proved = release(counts("many", vocabulary()), vocabulary(), Posterior(), BUDGET)
    for name, previous in (("alone", None), ("chained", proved)):
        book = Ledger.create(tmp_path / name, population="people", budget=Budget(50, 1e-3))
        where = tmp_path / f"{name}-out"
        made = release(
            people, vocabulary(), Posterior(), BUDGET, ledger=book, previous=previous, output=where
        )
        assert made.card.ledger["entry"] == 1
        spends.append([entry.spend for entry in read_ledger(tmp_path / name).reservations])
    assert spends[0] == spends[1]
    assert len(spends[0]) == 1


@pytest.mark.parametrize(
    "public", [vocabulary(), several()], ids=["one source", "sources and orders"]
)
def test_the_same_answers_give_the_same_release_after_another(public, tmp_path):
    """The release before is public: given it and the noisy answers, unrelated people give the same bytes."""
    before = release(counts("many", public), public, Posterior(), BUDGET, seed=1)

    def released(name, source):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Randomness, "from_seed", classmethod(lambda cls, _seed: cls(source, 5)))
            release(counts(name, public), public, Posterior(), BUDGET, previous=before).save(
                tmp_path / name, force=True
            )
        return {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}

    source = replay_noise.NoiseRecorder()
    given = released("many", source)
    for name in DATASETS:
        assert released(name, replay_noise.NoiseReplayer(source.answers)) == given, name


def test_chains_of_any_length_are_on_the_card(first, second, tmp_path):
    first.save(tmp_path / "week-1")
    chained = release(
        counts("few", vocabulary()),
        vocabulary(),
        Posterior(),
        BUDGET,
        seed=3,
        previous=tmp_path / "week-1",
    )
    chained.save(tmp_path / "week-2")
    third = release(
        counts("few", vocabulary()),
        vocabulary(),
        Posterior(),
        BUDGET,
        seed=4,
        previous=tmp_path / "week-2",
    )
    third.save(tmp_path / "week-3")
    card = Release.load(tmp_path / "week-3").card
    assert [link["name"] for link in card.chain["links"]] == ["week-1", "week-2"]
    assert [link["measured"] for link in card.chain["links"]] == [
        each.card.measured["sha256"] for each in (first, chained)
    ]
    sealed = json.loads((tmp_path / "week-2" / "card.json").read_text())["chain"]
    assert card.chain["links"][1]["hash"] == sealed["hash"]
    assert (
        "follows 2 releases, the last of them week-2. No bound holds for the 3 releases together"
        in str(card)
    )
    assert second.card.chain["links"][0]["name"] == "a release"


def week(**values):
    return Commitment(
        **{
            "epsilon": 0.5,
            "delta": 1e-6,
            "guarantee": "PROVED",
            "seeded": False,
            "measured": "",
            **values,
        }
    )


def in_series(entry, number, name="s"):
    ledger = {"ledger": "l", "entry": entry, "series": {"identity": name, "release": number}}
    return replace(week(), ledger=ledger)


def test_a_series_is_in_the_sum_once_however_many_releases_it_has():
    """A chain may go on from one series to the next: their budgets add up, not their releases."""
    one = composed_spend([week()])
    two = composed_spend([week()] * 2)
    assert composed_spend([in_series(1, number) for number in range(1, 13)]) == one
    crossing = [*(in_series(1, number) for number in range(1, 13)), in_series(2, 1, "t")]
    assert composed_spend(crossing) == two
    assert composed_spend([week(), *crossing[:12]]) == two
    found = DiscoveryClaim(0.5, 1e-6, "PROVED", ledger="l", entry=1, series_discovery=1)
    epsilon, delta = composed_spend([replace(in_series(1, 1), discoveries=(found,))])
    assert epsilon == one[0]
    assert delta >= one[1]


def test_what_links_have_spent_is_their_composition():
    """Gaussian noise: 1/σ² adds up, so less than ε adds up."""
    epsilon, delta = composed_spend([week()] * 3)
    sigma = calibrate_gaussian(BUDGET, coordinates=100, units=1 << 30).multiplier
    exact = composed_epsilon([Spend.gaussian(sigma)] * 3, 1e-6)
    assert exact <= epsilon <= 1.001 * exact
    assert epsilon < 1.5
    assert delta == 1e-6


def test_discoveries_count_once_each():
    found = DiscoveryClaim(0.5, 1e-6, "PROVED", fingerprint="a")
    again = DiscoveryClaim(0.5, 1e-6, "PROVED", fingerprint="b")
    epsilon, delta = composed_spend(
        [week(), week(discoveries=(found,)), week(discoveries=(found, again))]
    )
    assert epsilon == composed_spend([week()] * 5)[0]
    assert delta == pytest.approx(3e-6)  # that of the noise, and one for each discovery
    sentence = describe_composition([week(discoveries=(found,)), week(discoveries=(found, again))])
    assert "the 2 releases and 2 discoveries have spent" in sentence
    assert "PROVED" not in sentence
    weak = DiscoveryClaim(0.5, 1e-6, "NONE")
    assert describe_composition([week(), week(discoveries=(weak,))]).startswith(
        "No bound holds for the 2 releases and 1 discovery"
    )


def test_every_sentence_about_a_chain_names_the_unit():
    sentence = describe_composition([week(unit="a post")] * 2)
    assert "so far, for a post, if the same one is in all of them." in sentence
    assert "user" not in sentence
    ledger = {"population": "app", "ledger": "f" * 32, "entry": 1, "epsilon": 1.0, "delta": 1e-6}
    promised = describe_composition([week(unit="a post", ledger=ledger)] * 2)
    assert "ε = 1, δ = 1e-06 (PROVED) for a post, whenever the curator stops" in promised
    mixed = DiscoveryClaim(0.5, 1e-6, "PROVED", unit="a week")
    assert "is not known" in describe_composition(
        [week(unit="a post"), week(unit="a post", discoveries=(mixed,))]
    )


LEDGER = {"population": "app", "ledger": "f" * 32, "entry": 1, "epsilon": 1.0, "delta": 1e-6}


@pytest.mark.parametrize(
    "releases",
    [
        [week(), week(ledger=LEDGER)],
        [week(ledger=LEDGER), week()],
        [week(ledger={**LEDGER, "ledger": "0" * 32}), week(ledger=LEDGER)],
        [
            week(ledger=LEDGER),
            week(ledger=LEDGER, discoveries=(DiscoveryClaim(0.1, 1e-8, "PROVED"),)),
        ],
        [week(ledger={"population": "app", "entry": 1})] * 2,
    ],
    ids=[
        "an earlier one",
        "the last one",
        "another ledger",
        "a discovery",
        "a card that does not say which",
    ],
)
def test_a_ledger_is_promised_only_where_everything_was_charged_to_it(releases):
    assert describe_composition(releases).startswith("Not a promise: ")


def test_a_discovery_on_the_same_ledger_is_within_its_budget():
    charged = DiscoveryClaim(0.1, 1e-8, "PROVED", ledger="f" * 32)
    sentence = describe_composition(
        [week(ledger=LEDGER), week(ledger=LEDGER, discoveries=(charged,))]
    )
    assert (
        "these 2 releases and 1 discovery included, stays within ε = 1, δ = 1e-06 (PROVED)"
        in sentence
    )


def edited(folder, change):
    card = json.loads((folder / "card.json").read_text())
    change(card)
    (folder / "card.json").write_text(json.dumps(card))


CHANGES = {
    "a link is missing": lambda card: card["chain"]["links"].pop(0),
    "a link has another ε": lambda card: card["chain"]["links"][0].update(epsilon=0.01),
    "a link has another label": lambda card: card["chain"]["links"][1].update(guarantee="PROVED"),
    "a link measured something else": lambda card: card["chain"]["links"][1].update(
        measured="0" * 64
    ),
    "the order of links": lambda card: card["chain"]["links"].reverse(),
    "its own hash": lambda card: card["chain"].update(hash="0" * 64),
    "its own ε": lambda card: card.update(epsilon=0.4),
}


@pytest.fixture(scope="module")
def week_3(second, tmp_path_factory):
    made = release(
        counts("few", vocabulary()), vocabulary(), Posterior(), BUDGET, seed=5, previous=second
    )
    made.save(tmp_path_factory.mktemp("chain") / "week-3")
    return made


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_chain_that_was_changed_is_refused(change, week_3, tmp_path):
    week_3.save(tmp_path / "week-3")
    assert Release.load(tmp_path / "week-3").card.chain == week_3.card.chain
    edited(tmp_path / "week-3", change)
    with pytest.raises(
        BayesgramError,
        match="the chain on its card does not hold: a link was changed or is missing",
    ):
        Release.load(tmp_path / "week-3")


@pytest.mark.parametrize(
    "value", [1, [], {}, {"links": [], "hash": ""}, {"links": [{}], "hash": ""}, {"links": 1}]
)
def test_a_chain_that_is_none_is_damaged(value, week_3, tmp_path):
    week_3.save(tmp_path / "week-3")
    edited(tmp_path / "week-3", lambda card: card.update(chain=value))
    with pytest.raises(BayesgramError, match="the release is damaged"):
        Release.load(tmp_path / "week-3")


def other(ngrams):
    return Vocabulary(pa.array(ngrams, pa.large_string()), np.full(len(ngrams), 5), 3, Tokenizer())


def test_bad_links_are_refused_before_anything_is_spent(first, week_3, tmp_path):
    book = Ledger.create(tmp_path / "app.ledger", population="people", budget=Budget(50, 1e-3))
    public, people = vocabulary(), counts("few", vocabulary())
    laplace = release(people, public, Laplace(), Budget(1.0), seed=3)
    week_3.save(tmp_path / "damaged")
    data = (tmp_path / "damaged" / MEASUREMENTS_FILE).read_bytes()
    (tmp_path / "damaged" / MEASUREMENTS_FILE).write_bytes(data[:-20])
    week_3.save(tmp_path / "without")
    (tmp_path / "without" / MEASUREMENTS_FILE).unlink()
    elsewhere = other([f"q{i} q q" for i in range(SIZE)])
    apart = release(counts("few", elsewhere), elsewhere, Posterior(), BUDGET, seed=1)
    cased = replace(
        first,
        card=replace(first.card, vocabulary={**first.card.vocabulary, "tokenizer": "whitespace"}),
    )
    for previous, message in [
        (laplace, "keeps no noisy measurements"),
        (tmp_path / "damaged", "the release is damaged"),
        (tmp_path / "without", "the release is damaged"),
        (tmp_path / "nowhere", "no such folder"),
        (apart, "measured none of the"),
        (cased, "was made with the tokenizer 'whitespace'"),
    ]:
        with pytest.raises(BayesgramError, match=message):
            release(
                people,
                public,
                Posterior(),
                BUDGET,
                ledger=book,
                previous=previous,
                output=tmp_path / "out",
            )
    with pytest.raises(UsageError, match="only posterior can follow another release"):
        release(people, public, Gaussian(), BUDGET, ledger=book, previous=first)
    assert not read_ledger(tmp_path / "app.ledger").reservations


def test_a_vocabulary_may_grow(first):
    """As it does by a discovery: what is new has this week's counts alone."""
    public = vocabulary()
    ngrams = pa.concat_arrays(
        [
            public.ngrams[: SIZE - 10],
            pa.array([f"n{i} w1 w2" for i in range(10)], pa.large_string()),
        ]
    )
    grown = Vocabulary(ngrams, public.counts, 3, Tokenizer())
    made = release(counts("many", grown), grown, Posterior(), BUDGET, seed=7, previous=first)
    assert made.probabilities.sum() == pytest.approx(1)
    carried, noise = (column[:SIZE] for column in made.measurements.carried)
    assert np.allclose(carried[SIZE - 10 :], made.measurements.counts[SIZE - 10 : SIZE])
    assert np.allclose(noise[SIZE - 10 :], made.measurements.noise_std[SIZE - 10 : SIZE])


def test_a_chained_release_is_inferred_again_to_the_last_bit(second, tmp_path):
    second.save(tmp_path / "out")
    again = infer(tmp_path / "out", vocabulary())
    assert np.array_equal(again.probabilities, second.probabilities)
    assert again.card.chain == second.card.chain


def test_a_gaussian_release_can_be_followed():
    public = vocabulary()
    before = release(counts("many", public), public, Gaussian(), BUDGET, seed=1)
    made = release(counts("many", public), public, Posterior(), BUDGET, seed=7, previous=before)
    assert made.probabilities.sum() == pytest.approx(1)


def test_a_chain_has_one_unit(first, tmp_path):
    ledger = Ledger.create(tmp_path / "a.ledger", population="people", budget=Budget(50, 1e-3))
    told = r"^unit='a post': the release before counts in 'everything one user wrote in these data', and a chain has one"
    with pytest.raises(UsageError, match=told):
        people = counts("many", vocabulary())
        release(
            people, vocabulary(), Posterior(), BUDGET, previous=first, unit="a post", ledger=ledger
        )
    assert not read_ledger(tmp_path / "a.ledger").reservations
