"""Whole rows as candidates of a discovery: what one user contributes, and how rows are weighed."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.errors import UsageError
from bayesgram.mechanisms.discovery import DiscoveryMechanism, LocalText, Settings, discover
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.constants import MAX_CANDIDATES, UNITS
from bayesgram.privacy.noise import SeededNoise
from bayesgram.private.candidates import ContributionBound, list_candidates, sum_candidates
from bayesgram.private.counts import count
from bayesgram.public.candidate_weights import LOG_10, ROW_WEIGHTS, PublicTextModel
from bayesgram.public.discovered_ngrams import review
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text import tokenizer as tokenizers
from bayesgram.text.blocklist import Blocklist
from bayesgram.text.ngrams import ngram_orders, ngram_tokens
from bayesgram.text.tokenizer import Tokenizer
from helpers.discovery_data import make_records, make_table, rows_of_people
from helpers.hypothesis_profiles import examples
from helpers.row_data import PUBLIC, PUBLIC_TEXT, ROWS, make_public

MEMORY = 1 << 28
BOUND = ContributionBound(MAX_CANDIDATES, 1, 1)
SECRET = "my password is hunter2 stapler"


def strings(*texts):
    return pa.array(texts, pa.large_string())


def summed(said, public=PUBLIC):
    candidates = sum_candidates(make_records(said), public, [1], BOUND, memory=MEMORY)
    return dict(zip(candidates.ngrams.to_pylist(), candidates.sums.tolist(), strict=True))


def lists_of(said, public=PUBLIC):
    """Each user's candidates as texts with their log weights, by user."""
    with list_candidates(make_records(said), public, [1], MAX_CANDIDATES, memory=MEMORY) as lists:
        texts = lists.ngrams(np.arange(len(lists))).to_pylist()
        weights = np.concatenate([lists.log_weights(block) for block in range(len(lists.blocks))])
        found = []
        for sizes, candidates in lists.users:
            starts = np.append(0, np.cumsum(sizes))
            for first, last in pairwise(starts):
                own = candidates[first:last].tolist()
                found.append([(texts[number], weights[number].tobytes()) for number in own])
        return found


def test_a_row_is_one_token_of_order_1_whatever_its_spaces():
    rows = strings("weather in berlin", "fish", "a b c d e f g h i j")
    assert ngram_orders(rows, ROWS).tolist() == [1, 1, 1]
    assert ngram_tokens(rows, ROWS).equals(rows)
    assert ngram_orders(rows, Tokenizer()).tolist() == [3, 1, 10]


def test_a_row_counts_once_however_often_and_however_a_user_writes_it():
    once = summed([("ann", "zog in berlin")])
    often = summed(
        [("ann", text) for text in ["Zog in  Berlin?", "zog in\nberlin", "- zog in BERLIN!"] * 50]
    )
    assert once == often == {"zog in berlin": UNITS}


@pytest.mark.parametrize("number", [2, 150, 700])
def test_rows_of_one_user_are_within_the_bound_however_many_and_long_they_are(number):
    said = [("ann", " ".join(["zog", *["long"] * (at % 9), f"row{at}"])) for at in range(number)]
    sums = summed(said * 2)
    assert len(sums) <= MAX_CANDIDATES
    assert sum(value**2 for value in sums.values()) <= UNITS**2
    assert [len(own) for own in lists_of(said * 2)] == [min(number, MAX_CANDIDATES)]


def test_the_probability_of_a_row_is_that_of_its_words():
    """By the model's own scores of words, and the spelling of those that it lacks."""
    rows = ["the weather in berlin", "is it cold? it is", "zog in berlin", "fish", "👍", "blip zog"]
    found = PUBLIC.log_probabilities(strings(*rows))
    for row, log in zip(rows, found.tolist(), strict=True):
        expected = 0.0
        for sentence in Tokenizer().sentences(row):
            expected += PUBLIC.model.score(" ".join(sentence)) * LOG_10
            unknown = [word for word in sentence if word in {"zog", "blip"}]
            for word in unknown:
                spelt = pa.array([word.encode()], pa.large_binary())
                expected += float(PUBLIC.spelling.log_probabilities(spelt)[0])
        if row != "👍":
            assert log == pytest.approx(expected, abs=1e-9), row
    by_row = dict(zip(rows, found.tolist(), strict=True))
    assert by_row["fish"] > by_row["zog in berlin"] > by_row["blip zog"]
    assert -np.inf < by_row["👍"] < by_row["fish"]  # a row without words is no likely one


row_texts = st.text(st.sampled_from("abz 👍?.é'<s>"), max_size=12) | st.sampled_from(
    ["the weather in berlin", "fish. fish", "zog", "cold in winter", "<s>", "</s>", "<unk>"]
)


@examples(60)
@given(
    st.lists(row_texts, max_size=8), st.lists(row_texts, min_size=1, max_size=4), st.integers(1, 40)
)
def test_the_probability_of_a_row_does_not_depend_on_other_rows(others, own, limit):
    """To the last bit, also where they are weighed in one chunk or in several."""
    alone = PUBLIC.log_probabilities(strings(*own))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizers, "CHUNK_BYTES", limit)
        behind = PUBLIC.log_probabilities(strings(*others, *own))[len(others) :]
    assert behind.tobytes() == alone.tobytes()


@examples(40)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), row_texts), max_size=12),
    st.lists(row_texts, min_size=1, max_size=6),
)
def test_what_a_user_lists_does_not_depend_on_other_people_s_rows(others, own):
    mine = [("me", text) for text in own]
    alone = lists_of(mine)
    for said in ([*others, *mine], [*mine, *others]):
        together = lists_of(said)
        assert not alone or alone[0] in together


def test_weights_of_rows_follow_their_own_public_curve():
    assert PUBLIC.weights is ROW_WEIGHTS
    [own] = lists_of([("ann", "zog in berlin")])
    log = PUBLIC.log_probabilities(strings("zog in berlin"))
    assert np.frombuffer(own[0][1], np.float32)[0] == np.float32(ROW_WEIGHTS.log_weights(log, 1)[0])


def test_public_and_private_rows_are_normalised_alike():
    public = make_public(size=10)
    assert "how to cook fish in cold water" in public.vocabulary.ngrams.to_pylist()
    said = [("ann", "  HOW to cook\tfish in cold water?!"), ("bob", "how to cook zog")]
    assert set(summed(said, public)) == {"how to cook zog"}
    counts = count(make_table(said), public.vocabulary)
    row = public.vocabulary.ngrams.to_pylist().index("how to cook fish in cold water")
    # Ann has the listed row, and Bob one that is not listed: their only rows.
    assert sorted(counts.ngrams.tolist()) == [row, len(public.vocabulary)]
    assert counts.counts.tolist() == [1, 1]


@examples(60)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), row_texts), min_size=1, max_size=12),
    st.sets(st.sampled_from(["the weather in berlin", "zog", "s", "a b", "unk"]), min_size=1),
)
def test_listed_and_unlisted_rows_of_a_user_are_all_rows_of_that_user(said, listed):
    """By a plain search: a row with spaces is one row, and one without text is none."""
    ngrams = sorted(listed)
    vocabulary = Vocabulary(strings(*ngrams), np.ones(len(ngrams), np.int64), 1, ROWS)
    expected = {}
    for user, text in said:
        for [row] in ROWS.sentences(text):
            column = ngrams.index(row) if row in listed else len(ngrams)
            expected[user, column] = expected.get((user, column), 0) + 1
    counts = count(make_table(said), vocabulary)
    users = np.repeat(np.arange(len(counts.users)), np.diff(counts.starts)).tolist()
    found = {
        (counts.users[user].as_py().decode(), column): number
        for user, column, number in zip(
            users, counts.ngrams.tolist(), counts.counts.tolist(), strict=True
        )
    }
    assert found == expected


def popular(secret=SECRET):
    return [
        *rows_of_people(300, "Zog in Berlin?", "how to cook zog"),
        *rows_of_people(3, "<s>", "rare row of few", name="other"),
        *[("ann", secret)] * 1000,
    ]


@pytest.mark.parametrize("rounds", [1, 10])
def test_rows_of_many_come_out_and_the_row_of_one_does_not(rounds):
    """A row of one user passes with a probability below δ = 1e-7."""
    found = discover(
        make_table(popular()),
        PUBLIC.vocabulary,
        epsilon=1,
        model=PUBLIC.model,
        rounds=rounds,
        seed=1,
    )
    assert sorted(found.ngrams.to_pylist()) == ["how to cook zog", "zog in berlin"]
    assert found.orders.tolist() == [1, 1]
    assert found.vocabulary.ngrams.to_pylist() == found.ngrams.to_pylist()
    assert found.vocabulary.tokenizer == ROWS
    assert len(found.vocabulary.by_order) == 1


def test_noise_on_a_secret_row_is_that_of_any_candidate():
    """An attacker who runs 40 discoveries never sees it, and sees nothing else change."""
    settings = Settings.for_vocabulary(PUBLIC.vocabulary)
    budget = Budget(1.0, 1e-7)
    mechanism = DiscoveryMechanism(settings, budget, settings.calibrate(budget))
    for seed in range(40):
        text = LocalText(make_records([*rows_of_people(60, "a b c"), ("ann", SECRET)]), MEMORY)
        ngrams, _ = mechanism.measure(text, PUBLIC, SeededNoise(seed), lambda: None)
        assert SECRET not in ngrams.to_pylist()


def test_a_review_that_drops_a_row_drops_the_rows_that_contain_it():
    said = rows_of_people(300, "zog", "zog in berlin", "zogs", "buy fish")
    found = discover(make_table(said), PUBLIC.vocabulary, epsilon=3, model=PUBLIC.model, seed=1)
    assert len(found) == 4
    assert sorted(review(found, drop=["^zog$"]).ngrams.to_pylist()) == ["buy fish", "zogs"]
    blocked = found.vocabulary.block(Blocklist(("in Berlin",), built_in=False))
    assert "zog in berlin" not in blocked.ngrams.to_pylist()
    assert len(blocked) == 3


def test_a_vocabulary_without_rows_names_the_next_step(tmp_path):
    assert len(PUBLIC.vocabulary) == 0
    PUBLIC.vocabulary.save(tmp_path / "vocab.parquet")
    loaded = Vocabulary.load(tmp_path / "vocab.parquet")
    assert loaded.fingerprint == PUBLIC.vocabulary.fingerprint
    with pytest.raises(UsageError, match=r"^the vocabulary lists no rows, so there is nothing to"):
        count(make_table([("ann", "zog")]), loaded)
    with pytest.raises(UsageError, match=r"^rows are weighed by a public model of their words"):
        PublicTextModel.from_vocabulary(loaded)
    with pytest.raises(UsageError, match=r"^order=2: a row is one token, so rows have order 1"):
        Vocabulary.from_public(PUBLIC_TEXT, tokenizer=ROWS, order=2)
    with pytest.raises(UsageError, match=r"^boundaries=true: a row is one token"):
        Tokenizer("rows", boundaries=True)
    with pytest.raises(UsageError, match=r"^size=0: a vocabulary has 1 to 100,000,000 n-grams"):
        Vocabulary.from_public(PUBLIC_TEXT, order=1, size=0)


def test_long_public_rows_are_known_by_their_words():
    """A row is one token, but private text that was given as public text is noticed all the same."""
    text = pa.array([b"One two three four five six seven eight", b"one two three"])
    for size in (0, 5):
        table = pa.table({"text": text.cast(pa.string())})
        sample = Vocabulary.from_public(table, tokenizer=ROWS, size=size).public_rows
        assert len(sample) == 1
