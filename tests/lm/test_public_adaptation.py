"""A public model adapted by a release, against its formula word by word; and pruned."""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.errors import UsageError
from bayesgram.lm.estimate import prune
from bayesgram.lm.interpolation import (
    LIFT_STRENGTH,
    MAX_EXPONENT,
    MERGED_SHARE,
    MIN_UNLISTED_SHARE,
    RELEASE_MODEL_SHARE,
    apply_lifts,
)
from bayesgram.lm.language_model import LanguageModel, expected_counts
from bayesgram.lm.trie import LOG_NEVER
from bayesgram.public.public_model import PublicModel
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.release import Release
from bayesgram.text.ngrams import ngram_orders
from bayesgram.text.tokenizer import Tokenizer
from helpers.hypothesis_profiles import examples
from helpers.web_catalogue import make_release as shaken

WORDS = ["blue", "fish", "red", "sea", "the"]
SENTENCES = st.lists(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join), min_size=2, max_size=8
)


def public_of(texts, **choice):
    inputs = {name: pa.table({"text": rows}) for name, rows in texts.items()}
    wish = {"order": [1, 2, 3], "size": 12, "tokenizer": Tokenizer(boundaries=True), **choice}
    return PublicModel.from_public(Vocabulary.from_public(inputs, **wish), inputs)


def release_of(vocabulary, counts):
    """What people wrote, as if it were released."""
    orders = ngram_orders(vocabulary.ngrams, vocabulary.tokenizer)
    theta = counts / np.bincount(orders, counts)[orders]
    return replace(shaken(vocabulary, 1.0), probabilities=theta)


def contexts(trie):
    """Every context of the model as word numbers, the empty one too; none has </s> in it."""
    end = trie.special[1]
    rows = [tuple(row) for order in range(1, trie.order) for row in trie.ngrams(order).tolist()]
    return [(), *(row for row in rows if end not in row)]


def probability(trie, table, context, word):
    """P(w|h), by back-off."""
    found = table.get((*context, word))
    if found is not None:
        return 0.0 if found[0] == LOG_NEVER else 10 ** found[0]
    return 10 ** table.get(context, (0.0, 0.0))[1] * probability(trie, table, context[1:], word)


def as_table(trie):
    table = {}
    for order in range(1, trie.order + 1):
        nodes = trie.nodes(order)
        backoffs = (
            trie.log_backoff[nodes] if order < trie.order else np.zeros(nodes.stop - nodes.start)
        )
        values = zip(trie.log_probability[nodes].tolist(), backoffs.tolist(), strict=True)
        table |= dict(zip(map(tuple, trie.ngrams(order).tolist()), values, strict=True))
    return table


def moves(listed, table, context, word):
    """R(w|h), literally; what follows an n-gram that the model lacks moves as after a shorter one."""
    while context and (*context, word) not in table:
        context = context[1:]
    whole = (*context, word)
    known = (context in listed or not context) or _implied(listed, table, context) is not None
    if whole in listed and known:
        return listed[whole] - (_implied(listed, table, context) or 0.0)
    return moves(listed, table, context[1:], word) if context else 0.0


def _implied(listed, table, ngram):
    """Λ of an n-gram: as listed, or as its parts say."""
    if not ngram:
        return 0.0
    if ngram in listed:
        return listed[ngram]
    shorter = moves(listed, table, ngram[1:-1], ngram[-1]) if len(ngram) > 1 else 0.0
    return _implied(listed, table, ngram[:-1]) + shorter


@examples(25)
@given(SENTENCES, st.integers(0, 2**32 - 1))
def test_every_word_after_every_context_is_moved_as_the_formula_says(texts, seed):
    model = public_of({"text": texts}).mixture
    trie, chance = model.trie, np.random.default_rng(seed)
    rows = [tuple(row) for order in range(1, trie.order + 1) for row in trie.ngrams(order).tolist()]
    rows = [row for row in rows if trie.special[0] not in row[-1:] and trie.special[2] not in row]
    listed = {row: float(chance.normal()) for row in rows if chance.random() < 0.6}
    names = [" ".join(trie.words[number] for number in row) for row in listed]
    found = apply_lifts(
        trie, pa.array(names, pa.large_string()), np.array(list(listed.values())), Tokenizer()
    )
    before, after = as_table(trie), as_table(found)
    assert before.keys() == after.keys()
    for context in contexts(trie):
        words = range(len(trie.words))
        raw = [
            probability(trie, before, context, word)
            * math.exp(
                np.clip(
                    LIFT_STRENGTH * moves(listed, before, context, word),
                    -MAX_EXPONENT,
                    MAX_EXPONENT,
                )
            )
            for word in words
        ]
        said = [probability(found, after, context, word) for word in words]
        assert sum(said) == pytest.approx(1, abs=1e-5)
        assert said == pytest.approx([each / sum(raw) for each in raw], rel=2e-4, abs=1e-7)


def test_nothing_moves_where_the_release_says_what_public_text_says():
    model = public_of({"text": ["the red fish", "the blue fish", "the sea"]}).mixture
    names = pa.array(["the", "red fish", "not there"], pa.large_string())
    found = apply_lifts(model.trie, names, np.zeros(3), Tokenizer())
    assert found.log_probability == pytest.approx(model.trie.log_probability, abs=1e-6)


def test_lifts_beyond_all_measure_leave_a_model_that_adds_up():
    model = public_of({"text": ["the red fish", "the blue fish", "the sea"]}).mixture
    found = apply_lifts(
        model.trie,
        pa.array(["the", "red", "red fish"], pa.large_string()),
        np.array([900.0, -900.0, 900.0]),
        Tokenizer(),
    )
    table = as_table(found)
    for context in contexts(found):
        whole = sum(probability(found, table, context, word) for word in range(len(found.words)))
        assert whole == pytest.approx(1, abs=1e-4)


def test_a_smaller_model_keeps_its_words_and_adds_up():
    model = public_of({"text": ["the red fish", "the blue fish", "the sea", "red sea"]}).mixture
    size = model.sizes[0] + 4
    found = prune(model.trie, size)
    table = as_table(found)
    assert found.word.size - 1 == size
    for context in contexts(found):
        assert sum(
            probability(found, table, context, word) for word in range(len(found.words))
        ) == pytest.approx(1)
    assert prune(model.trie, 10**6) is model.trie


@pytest.fixture(scope="module")
def public():
    return public_of(
        {
            "wiki": ["the red fish", "the blue fish", "the sea"],
            "talk": ["red sea", "blue sea", "the the"],
        }
    )


def test_the_model_of_people_leans_to_what_they_write(public):
    lifted = np.array(["sea" in ngram.split() for ngram in public.vocabulary.ngrams.to_pylist()])
    release = release_of(public.vocabulary, public.vocabulary.counts * np.where(lifted, 8.0, 1.0))
    model = public.adapt_to(release)
    assert isinstance(model, LanguageModel)
    assert model.score("the sea") > public.mixture.score("the sea")
    assert model.about["public_model"] == ["wiki", "talk"]
    assert model.about["claim"] == release.card.claim
    assert sum(model.prune(12).sizes) == 12


def reference_mixture(adapted, own, expected, known):
    """Return p(w|h) of every n-gram of both models, as the module's formula has it.

    Args:
        adapted: The adapted public model, p(w|h) by back-off.
        own: The release's own model, likewise.
        expected: E by n-gram, as tuples of words.
        known: k by n-gram.
    """

    def mixed(context, word, followers):
        listed = [v for v in followers if (*context, v) in expected]
        p, p_own = adapted(context, word), own(context, word)
        total = sum(expected[*context, v] for v in listed)
        below = sum(adapted(context, v) for v in listed)
        if not total or below >= 1:
            share, merged = 0.0, 0.0
        else:
            mean_known = sum(expected[*context, v] * known[*context, v] for v in listed) / total
            share = MERGED_SHARE * mean_known
            count = max(expected.get(context, 0.0), total / (1 - MIN_UNLISTED_SHARE))
            if not context:
                merged = p_own
            elif word in listed:
                merged = expected[*context, word] / count
            else:
                merged = p * (1 - total / count) / (1 - below)
        return (1 - RELEASE_MODEL_SHARE) * ((1 - share) * p + share * merged) + (
            RELEASE_MODEL_SHARE * p_own
        )

    return mixed


@examples(25)
@given(st.integers(0, 2**32 - 1))
def test_the_mixture_of_a_release_is_as_the_formula_says(public, seed):
    chance = np.random.default_rng(seed)
    vocabulary = public.vocabulary
    counts = chance.integers(0, 50, len(vocabulary)) * chance.integers(0, 2, len(vocabulary)) + 1.0
    release = release_of(vocabulary, counts)
    relative_std = chance.uniform(0.01, 3, len(vocabulary))
    release = replace(release, probability_std=release.probabilities * relative_std)
    model = public.adapt_to(release)
    ngrams = [tuple(ngram.split()) for ngram in release.ngrams.to_pylist()]
    expected = dict(zip(ngrams, expected_counts(release).tolist(), strict=True))
    known = dict(zip(ngrams, (1 / (1 + relative_std**2)).tolist(), strict=True))
    lifts = np.log(release.probabilities / public._prior)
    tries = {
        "adapted": apply_lifts(public.mixture.trie, release.ngrams, lifts, release.tokenizer),
        "own": LanguageModel.from_release(release).trie,
        "mixture": model.trie,
    }
    tables = {name: as_table(trie) for name, trie in tries.items()}

    def probability_by(name):
        numbers = {word: at for at, word in enumerate(tries[name].words.to_list())}

        def of(context, word):
            ids = tuple(numbers.get(part.encode(), -1) for part in (*context, word))
            return probability(tries[name], tables[name], ids[:-1], ids[-1])

        return of

    words = [word.decode() for word in model.trie.words.to_list()]
    listed = [tuple(words[at] for at in row) for row in tables["mixture"]]
    followers = {}
    for ngram in listed:
        followers.setdefault(ngram[:-1], []).append(ngram[-1])
    mixed = reference_mixture(probability_by("adapted"), probability_by("own"), expected, known)
    mixture = probability_by("mixture")
    followers[()].remove("<s>")
    for context, after in followers.items():
        ours = np.array([mixture(context, word) for word in after])
        theirs = np.array([mixed(context, word, after) for word in after])
        # What is stored adds up to less than one, so that every context keeps something for others.
        assert ours == pytest.approx(theirs * min(1.0, ours.sum() / theirs.sum()), rel=1e-3)


def test_a_release_without_deviations_is_not_merged(public):
    release = release_of(public.vocabulary, np.arange(1.0, 1 + len(public.vocabulary)))
    plain = public.adapt_to(replace(release, probability_std=None))
    known = public.adapt_to(replace(release, probability_std=release.probabilities * 1e-3))
    unknown = public.adapt_to(replace(release, probability_std=release.probabilities * 1e6))
    assert plain.trie.log_probability == pytest.approx(unknown.trie.log_probability, abs=1e-4)
    assert plain.trie.log_probability != pytest.approx(known.trie.log_probability, abs=1e-2)


def test_a_release_of_another_vocabulary_is_refused(public):
    other = public_of({"wiki": ["the red fish"], "talk": ["red sea"]}).vocabulary
    with pytest.raises(UsageError, match="another vocabulary"):
        public.adapt_to(release_of(other, np.ones(len(other))))


def test_it_survives_the_disk(public, tmp_path):
    public.save(tmp_path / "public.model")
    release = release_of(public.vocabulary, np.arange(1.0, 1 + len(public.vocabulary)))
    release.save(tmp_path / "out")
    again = PublicModel.load(tmp_path / "public.model").adapt_to(Release.load(tmp_path / "out"))
    assert again.score("the red fish") == public.adapt_to(release).score("the red fish")
