"""What the commands do, from Python: names of mechanisms, evaluate, review, and what is shown."""

import pyarrow as pa
import pytest

import bayesgram as bg

PUBLIC = pa.table({"text": ["the red fish swims", "the blue fish sleeps"] * 5})
PRIVATE = pa.table({"user": range(60), "text": ["the red fish"] * 60, "country": ["at", "de"] * 30})


@pytest.fixture(scope="module")
def vocabulary():
    return bg.Vocabulary.from_public(PUBLIC, order=2)


@pytest.fixture(scope="module")
def counts(vocabulary):
    return bg.count(PRIVATE, vocabulary)


@pytest.mark.parametrize("name", ["posterior", "gaussian", "laplace", "laplace-public"])
def test_a_mechanism_can_be_given_by_its_name(counts, vocabulary, name):
    release = bg.release(counts, vocabulary, mechanism=name, epsilon=1)
    assert release.card.mechanism == name


# --- evaluate ---


def test_evaluate_by_counts_and_text(counts, vocabulary, tmp_path):
    release = bg.release(counts, vocabulary, epsilon=8)
    judged = bg.evaluate(
        {"ours": release}, counts=counts, private_text=PRIVATE, vocabulary=vocabulary
    )
    assert [score.release for score in judged.divergences] == ["public text alone", "ours"]
    (quality,) = judged.quality
    assert quality.coverage == 1
    assert judged.texts == {}
    assert "not for publication" in judged.to_json()["warning"]
    assert repr(judged) == "Evaluation(private, of public text alone, ours)"
    assert "coverage, order 2" in judged._repr_html_()
    release.save(tmp_path / "out")
    same = bg.evaluate(tmp_path / "out", counts=counts, vocabulary=vocabulary)
    assert [score.kl for score in same.divergences] == [score.kl for score in judged.divergences]


def test_evaluate_models_by_held_out_text(counts, vocabulary):
    release = bg.release(counts, vocabulary, epsilon=8)
    model = bg.lm.LanguageModel.from_release(release)
    judged = bg.evaluate({"release": release, "model": model}, text=PRIVATE.select(["text"]))
    assert judged.texts["release"] == judged.texts["model"]
    assert judged.texts["model"].perplexity > 1
    assert "keystrokes saved" in judged._repr_html_()


def test_what_can_not_be_evaluated(counts, vocabulary):
    release = bg.release(counts, vocabulary, epsilon=8)
    model = bg.lm.LanguageModel.from_release(release)
    with pytest.raises(bg.UsageError, match="nothing to judge by"):
        bg.evaluate(release)
    with pytest.raises(bg.UsageError, match="'release' is no release"):
        bg.evaluate(model, counts=counts)
    with pytest.raises(bg.UsageError, match="int is no model"):
        bg.evaluate({"a": 1}, text=PRIVATE)
    with pytest.raises(bg.UsageError, match="there is none"):
        bg.evaluate(model, text=PRIVATE, counts=counts)
    other = bg.Vocabulary.from_public(PUBLIC, order=1)
    with pytest.raises(bg.BayesgramError):
        bg.evaluate(release, counts=bg.count(PRIVATE, other))


# --- review ---


@pytest.fixture(scope="module")
def discovery():
    text = ["call 555 1234 now", "a new phrase"]
    private = pa.table({"user": [*range(400)] * 2, "text": [text[0]] * 400 + [text[1]] * 400})
    vocabulary = bg.Vocabulary.from_public(PUBLIC, order=[1, 2])
    return bg.discover(private, vocabulary, epsilon=8, delta=1e-6)


def test_a_review_drops_what_was_decided_and_what_contains_it(discovery):
    found = discovery.ngrams.to_pylist()
    suspicious = discovery.suspicious()
    assert set(suspicious) <= set(found)
    assert any("555" in ngram for ngram in suspicious)
    decisions = {ngram: ngram != "phrase" for ngram in found}
    reviewed = bg.review(discovery, decisions, drop=[r"\d"])
    kept = reviewed.ngrams.to_pylist()
    assert kept
    assert not [ngram for ngram in kept if "phrase" in ngram or "555" in ngram]
    assert not reviewed.card.is_unreviewed
    assert discovery.card.is_unreviewed
    assert bg.review(discovery, drop=["phrase"]).card.is_unreviewed  # nobody read the strings


def test_a_review_that_is_none(discovery):
    with pytest.raises(bg.UsageError, match="have neither True nor False"):
        bg.review(discovery, {})
    with pytest.raises(bg.UsageError, match=r"drop=\(: not a regular expression"):
        bg.review(discovery, drop=["("])


# --- What is shown ---


def test_reprs_are_short_and_notebooks_have_views(counts, vocabulary, tmp_path):
    parts = bg.release(
        bg.count(PRIVATE, vocabulary, by="country", segments=["at", "de"]), vocabulary, epsilon=1
    )
    assert repr(parts) == ("SegmentedRelease(by 'country': all, at, de; ε = 1, δ = 1e-07 (PROVED))")
    assert "most frequent" in parts._repr_html_()
    first, second = (bg.release(counts, vocabulary, epsilon=1) for _ in range(2))
    comparison = bg.compare(first, second, names=["May", "June"])
    assert repr(comparison).startswith("Comparison(May and June: ")
    assert "Comparison" in comparison._repr_html_()
    ledger = bg.Ledger.create(
        tmp_path / "a.ledger", population="app users", budget=bg.Budget(1, 1e-6), period="2026"
    )
    ledger.charge(0.1, 1e-8, by="<dashboard>")
    assert repr(ledger) == "Ledger('app users', 2026: ε = 1, δ = 1e-06)"
    shown = ledger._repr_html_()
    assert "&lt;dashboard&gt;" in shown
    assert "another tool" in shown
