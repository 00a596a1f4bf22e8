"""A public scorer moved by a release: equal to a slow, literal one; a distribution after every context."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bayesgram as bg
from bayesgram.lm.adaptation import DEFAULT_SHARE, DEFAULT_STRENGTH, MIN_RATIO, WordLifts
from bayesgram.lm.scoring import ModelScorer, perplexity
from bayesgram.privacy.budget import Guarantee
from bayesgram.releases.card import Card
from bayesgram.releases.release import Release
from bayesgram.text.ngrams import START
from helpers.hypothesis_profiles import examples
from helpers.reference_language_models import END, UNKNOWN, ReferenceModel, make_release, tables

CUT = bg.Tokenizer("whitespace", boundaries=True)
NAMES = ["a", "b", "c", "é", "𝒱", "z", UNKNOWN, END]


class Table:
    """A scorer whose probabilities depend on the last word only: rows of a dictionary."""

    def __init__(self, words, rows):
        self.words, self.rows = words, rows

    def log_probabilities(self, contexts):
        with np.errstate(divide="ignore"):
            return np.log([self.rows[context[-1] if context else ""] for context in contexts])


def made(ngrams, counts, theta, *, cut=CUT):
    """A vocabulary of words and bigrams, and a release of it, by hand."""
    vocabulary = bg.Vocabulary(pa.array(ngrams, pa.large_string()), np.array(counts), 2, cut)
    orders = np.array([len(ngram.split(" ")) for ngram in ngrams])
    theta = np.array(theta, np.float64)
    for order in (1, 2):
        theta[orders == order] /= theta[orders == order].sum()
    told = {
        "size": len(ngrams),
        "order": 2,
        "orders": [1, 2],
        "tokenizer": cut.name,
        "fingerprint": vocabulary.fingerprint,
        "prior_fingerprint": vocabulary.prior_fingerprint,
    }
    card = Card("posterior", Guarantee.PROVED, "by hand", 1.0, 1e-7, {}, {}, told, seeded=False)
    return vocabulary, Release(vocabulary.ngrams, theta, card)


@st.composite
def worlds(draw):
    """A vocabulary, a release of it, a scorer of perhaps other words, and perhaps an n-gram model of yet others."""
    known = draw(st.lists(st.sampled_from(["a", "b", "c", "é", END]), min_size=1, unique=True))
    counts = [draw(st.integers(0, 50)) for _ in range(len(known) + 1)]
    theta = [draw(st.sampled_from([0.0, 1e-6, 0.1, 1.0, 7.0])) for _ in known]
    theta[0] += 0.01
    vocabulary, release = made([*known, "a b"], counts, [*theta, 1.0])
    words = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    rows = {}
    for name in ["", *NAMES]:
        row = np.array([draw(st.sampled_from([1e-9, 0.2, 1.0, 5.0])) for _ in words])
        rows[name] = row / row.sum()
    table = draw(st.none() | tables(orders=(1, 2), boundaries=True))
    strength, share = (
        draw(st.sampled_from([0.0, 0.5, 0.85, 2.0])),
        draw(st.sampled_from([0.0, 0.3, 1.0])),
    )
    return vocabulary, release, Table(words, rows), table, strength, share


def literal(vocabulary, release, scorer, table, strength, share, context):
    """The definition of the module, word by word."""
    words, p = (
        scorer.words,
        dict(zip(scorer.words, np.exp(scorer.log_probabilities([context])[0]), strict=True)),
    )
    theta = dict(zip(release.ngrams.to_pylist(), release.probabilities, strict=True))
    pi = dict(zip(vocabulary.ngrams.to_pylist(), vocabulary.prior, strict=True))
    moved = {
        w: p[w] * max(theta[w] / pi[w], MIN_RATIO) ** strength if w in theta else p[w]
        for w in words
    }
    total = sum(moved.values())
    moved = {w: value / total for w, value in moved.items()}
    if table is None:
        return moved
    ngrams = ReferenceModel(table)
    known = {w for w in ngrams.words if w not in {START, UNKNOWN}}
    before = [START, *context]
    only_ours = [w for w in words if w not in known]
    q = {w: ngrams.probability(w, before) for w in words if w in known}
    for w in only_ours:
        q[w] = ngrams.probability(UNKNOWN, before) * p[w] / sum(p[other] for other in only_ours)
    if UNKNOWN in words:
        q[UNKNOWN] += sum(
            ngrams.probability(w, before) for w in known if w not in words and w != END
        )
    total = sum(q.values())
    return {w: (1 - share) * moved[w] + share * q[w] / total for w in words}


def make_trie(table):
    return (
        None
        if table is None
        else bg.lm.LanguageModel.from_release(make_release(table, tokenizer=CUT.name))
    )


@examples(60)
@given(worlds(), st.lists(st.sampled_from(NAMES[:-2]), max_size=3))
def test_equals_the_definition_and_adds_up_to_one(world, context):
    vocabulary, release, scorer, table, strength, share = world
    adapted = bg.lm.adapt(
        scorer, release, vocabulary, model=make_trie(table), strength=strength, share=share
    )
    ours = np.exp(adapted.log_probabilities([context, []])[0])
    assert ours.sum() == pytest.approx(1, abs=1e-9)
    expected = literal(*world, context)
    assert ours.tolist() == pytest.approx(
        [expected[word] for word in scorer.words], rel=2e-5, abs=1e-12
    )


@examples(30)
@given(tables(), st.lists(st.sampled_from(["a", "b", "é", "none"]), max_size=3))
def test_a_back_off_model_as_a_scorer(table, context):
    scorer = ModelScorer(bg.lm.LanguageModel.from_release(make_release(table)))
    logs = scorer.log_probabilities([context])[0]
    expected = [ReferenceModel(table).probability(word, [START, *context]) for word in scorer.words]
    assert np.exp(logs).tolist() == pytest.approx(expected, rel=2e-5)


@pytest.fixture(scope="module")
def world():
    ngrams = ["fish", "red", "blue", END, "red fish"]
    vocabulary, release = made(ngrams, [50, 30, 10, 20, 5], [5, 1, 3, 2, 1])
    rows = {name: [0.3, 0.3, 0.1, 0.2, 0.1] for name in ("fish", "red", "blue", "odd")}
    rows[""] = [0.1, 0.4, 0.3, 0.1, 0.1]
    return vocabulary, release, Table([*ngrams[:4], UNKNOWN], rows)


def test_perplexity_is_that_of_words_and_sentence_ends(world):
    vocabulary, release, scorer = world
    adapted = bg.lm.adapt(scorer, release, vocabulary)
    texts = ["red fish\nodd blue", "red"]
    events = [
        ([], "red"),
        (["red"], "fish"),
        (["red", "fish"], END),
        ([], UNKNOWN),
        (["odd"], "blue"),
    ]
    events += [(["odd", "blue"], END), ([], "red"), (["red"], END)]
    logs = [
        math.log(literal(vocabulary, release, scorer, None, DEFAULT_STRENGTH, DEFAULT_SHARE, h)[w])
        for h, w in events
    ]
    assert adapted.perplexity(texts) == pytest.approx(math.exp(-sum(logs) / len(logs)), rel=1e-9)
    assert adapted.perplexity("red") == adapted.perplexity(["red"])


def test_what_a_scorer_lacks_is_not_predicted(world):
    scorer = Table(["red", "blue"], {"": [0.5, 0.5], "red": [0.25, 0.75], "odd": [0.5, 0.5]})
    assert perplexity(scorer, CUT, "red odd blue") == pytest.approx(2)
    with pytest.raises(bg.UsageError, match="no words in them that can be predicted"):
        perplexity(scorer, CUT, "odd")


def test_suggestions_are_words(world):
    vocabulary, release, scorer = world
    adapted = bg.lm.adapt(scorer, release, vocabulary)
    found = adapted.predict("Fish blue", 9)
    assert {each.word for each in found} == {"fish", "red", "blue"}
    expected = literal(vocabulary, release, scorer, None, DEFAULT_STRENGTH, DEFAULT_SHARE, ["blue"])
    assert [each.probability for each in found] == pytest.approx(
        sorted(expected[each.word] for each in found)[::-1]
    )
    assert adapted.predict(["blue"], 9) == found
    assert adapted.predict("red\n", 1)[0].probability == adapted.predict([], 1)[0].probability
    with pytest.raises(
        bg.UsageError, match=r"^k=0: the number of predictions is a whole number from 1 to 1,000\.$"
    ):
        adapted.predict("red", 0)


def test_a_text_of_characters_goes_on_where_it_ends():
    cut = bg.Tokenizer("characters", boundaries=True)
    vocabulary, release = made(["a", "b", "a b"], [3, 3, 1], [1, 1, 1], cut=cut)
    scorer = Table(["a", "b"], {"a": [0.2, 0.8], "▁": [0.6, 0.4]})
    adapted = bg.lm.adapt(scorer, release, vocabulary)
    assert [adapted.predict(text, 1)[0].word for text in ("ba", "ba ")] == ["b", "a"]


def test_the_result_is_a_scorer_too(world):
    vocabulary, release, scorer = world
    once = bg.lm.adapt(scorer, release, vocabulary, strength=0.5)
    twice = bg.lm.adapt(once, release, vocabulary, strength=0.5)
    whole = bg.lm.adapt(scorer, release, vocabulary, strength=1.0)
    assert np.allclose(twice.log_probabilities([["red"]]), whole.log_probabilities([["red"]]))


def test_words_of_several_sources_count_alike():
    texts = {
        "long": pa.table({"text": ["a b a b a a a b"] * 9}),
        "short": pa.table({"text": ["b c b"]}),
    }
    vocabulary = bg.Vocabulary.from_public(texts, order=[1, 2], size=10, tokenizer=CUT)
    users = pa.table({"user": list(range(300)), "text": ["c b"] * 300})
    release = bg.release(
        bg.count(users, vocabulary), vocabulary, bg.Posterior(), bg.Budget(4.0, 1e-6)
    )
    lifts = WordLifts.from_release(release, vocabulary)
    (place, part), *_ = vocabulary.by_order
    shares = [counts / counts.sum() for counts in part.counts_by_source]
    assert lifts.public == pytest.approx(np.mean(shares, axis=0), abs=0.1)
    assert lifts.for_words(["c", "unheard"])[1] == 0
    assert lifts.logs.tolist() == pytest.approx(
        np.log(release.probabilities[place] / vocabulary.prior[place]).tolist()
    )


def test_tuned_weights_are_the_best_of_all_near_them(world):
    vocabulary, release, scorer = world
    model = make_trie(
        {("red",): 4.0, ("fish",): 5.0, ("blue",): 2.0, ("red", "fish"): 4.0, ("blue", END): 2.0}
    )
    texts = ["red fish fish", "blue", "fish blue", "fish fish"] * 3
    tuned = bg.lm.fit_adaptation(bg.lm.adapt(scorer, release, vocabulary, model=model), texts)
    best = tuned.perplexity(texts)
    assert 0 < tuned.share < 1
    for strength in (tuned.strength - 0.1, tuned.strength, tuned.strength + 0.1):
        for share in (tuned.share - 0.02, tuned.share, tuned.share + 0.02):
            near = bg.lm.adapt(
                scorer, release, vocabulary, model=model, strength=max(strength, 0), share=share
            )
            assert near.perplexity(texts) >= best * (1 - 1e-9)
    alone = bg.lm.fit_adaptation(bg.lm.adapt(scorer, release, vocabulary), texts)
    assert alone.share == DEFAULT_SHARE
    assert alone.perplexity(texts) <= bg.lm.adapt(scorer, release, vocabulary).perplexity(texts)


def test_text_that_is_like_the_scorer_asks_for_no_move(world):
    vocabulary, release, scorer = world
    like = ["red", "red", "blue", "red"]
    flat = Table(
        scorer.words, {name: [1e-6, 0.375, 0.125, 0.5 - 2e-6, 1e-6] for name in ("", "red", "blue")}
    )
    assert bg.lm.fit_adaptation(bg.lm.adapt(flat, release, vocabulary), like).strength < 0.2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"strength": 3.0}, r"^strength=3\.0: how far words are moved is from 0 to 2\.$"),
        ({"strength": math.nan}, "^strength=nan: "),
        ({"share": -0.1}, r"^share=-0\.1: the part of the n-gram model is from 0 to 1\.$"),
    ],
)
def test_weights_out_of_range(world, change, message):
    vocabulary, release, scorer = world
    with pytest.raises(bg.UsageError, match=message):
        bg.lm.adapt(scorer, release, vocabulary, **change)


def test_what_does_not_belong_together(world):
    vocabulary, release, scorer = world
    other = bg.Vocabulary(vocabulary.ngrams, vocabulary.counts + 1, 2, CUT)
    with pytest.raises(
        bg.UsageError,
        match=r"^the release: .* the same n-grams with other public counts; give the vocabulary it was",
    ):
        bg.lm.adapt(scorer, release, other)
    fewer = bg.Vocabulary(vocabulary.ngrams[:4], vocabulary.counts[:4], 1, CUT)
    with pytest.raises(
        bg.UsageError,
        match=r"^the release: was made with another vocabulary than the vocabulary, which has other n-grams",
    ):
        bg.lm.adapt(scorer, release, fewer)
    spoken = bg.lm.LanguageModel.from_counts(pa.array(["red fish"]), [1])
    with pytest.raises(
        bg.UsageError,
        match=r"^model: it cuts text as 'words', the release as 'whitespace, boundaries'",
    ):
        bg.lm.adapt(scorer, release, vocabulary, model=spoken)
    pairs = bg.Vocabulary(vocabulary.ngrams[4:], vocabulary.counts[4:], 2, CUT)
    card = release.card.vocabulary | {
        "fingerprint": pairs.fingerprint,
        "prior_fingerprint": pairs.prior_fingerprint,
    }
    bigrams = Release(pairs.ngrams, np.ones(1), Card(**{**vars(release.card), "vocabulary": card}))
    with pytest.raises(bg.UsageError, match=r"^the release has no single words \(order 1\)"):
        bg.lm.adapt(scorer, bigrams, pairs)


def test_a_scorer_that_is_none(world):
    vocabulary, release, _ = world
    logits = Table(["red", "blue"], {"": [3.0, 4.0]})
    with pytest.raises(bg.BayesgramError, match=r"add up to 7 after a context, .* not logits\.$"):
        bg.lm.adapt(logits, release, vocabulary).predict("")
    with pytest.raises(
        bg.BayesgramError, match=r"gave an array of \(1, 3\); it is contexts × words, \(1, 2\)\.$"
    ):
        bg.lm.adapt(Table(["red", "blue"], {"": [0.2, 0.4, 0.4]}), release, vocabulary).predict("")
    missing = Table(["red", "blue"], {"": [math.nan, 0.5]})
    with pytest.raises(bg.BayesgramError, match="add up to nan after a context"):
        bg.lm.adapt(missing, release, vocabulary).predict("")
    for words in (["red", "red"], []):
        with pytest.raises(bg.UsageError, match="a scorer has each once, and some"):
            bg.lm.adapt(Table(words, {}), release, vocabulary)
