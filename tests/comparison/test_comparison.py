"""Releases compared: matching, labels, evidence, and what is said to people."""

import html
import json
import math
import re
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import bayesgram as bg
from bayesgram.comparison import comparison, statistics
from bayesgram.comparison.comparison import (
    Change,
    compare,
    comparison_json,
    comparison_table,
    save_comparison,
)
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.releases.card_sections import order_details
from bayesgram.releases.measurements import Measurements
from bayesgram.reports.pictures import draw_changes, summarize_changes
from bayesgram.reports.views import ChangesView
from helpers import reference_paper

SIZE, PHRASE, FALLEN = 400, 50, 60
VOCABULARY = reference_paper.make_vocabulary(20_000 // np.arange(1, SIZE + 1))


def week(seed, *, phrase=1.0, fallen=1.0, mechanism=None, budget=None, seeded=False):
    """6,000 people who write about ten n-grams each, repeating some; noise has a seed."""
    rng = np.random.default_rng(seed)
    shares = 1 / (20 + np.arange(SIZE))
    shares[PHRASE] *= phrase
    shares[FALLEN] *= fallen
    matrix = rng.multinomial(4, shares / shares.sum(), 6000) * rng.integers(1, 4, (6000, 1))
    counts = replace(
        reference_paper.make_user_counts(matrix), vocabulary_fingerprint=VOCABULARY.fingerprint
    )
    mechanism = mechanism or bg.Posterior(clip_norm=4)
    budget = None if isinstance(mechanism, bg.paper.KAnonymity) else budget or bg.Budget(2, 1e-6)
    made = mechanism.release(counts, VOCABULARY, budget, seed=seed)
    return (
        made
        if seeded
        else replace(made, card=replace(made.card, seeded=False, guarantee=mechanism.guarantee))
    )


@pytest.fixture(scope="module")
def weeks():
    return [week(1), week(2, phrase=4), week(3, phrase=4, fallen=0.1)]


def test_what_rose_and_fell_is_found_and_described(weeks):
    found = compare(weeks[0], weeks[2], names=["last", "this"])
    top = {change.ngram: change for change in found.changes[:2]}
    rose, fell = (VOCABULARY.ngrams[row].as_py() for row in (PHRASE, FALLEN))
    assert set(top) == {rose, fell}
    assert top[rose].low < 4 < top[rose].high < 12
    assert top[rose].description.startswith("rose ")
    assert top[fell].description.startswith("fell ")
    assert found.changes == sorted(found.changes, key=lambda change: change.fdr)
    assert len(found.changes) < 10
    assert "at most about 10% are there by chance" in found.summary


def assert_consistent(found):
    """No row contradicts itself: shares, ratio, interval, side, list and words."""
    table = comparison_table(found).to_pylist()
    for row, values in enumerate(table):
        change = found.change(row)
        low, ratio, high = (values[name] for name in ("ratio_low", "ratio", "ratio_high"))
        assert low <= ratio <= high
        before, after = change.shares[change.first], change.shares[change.second]
        assert before >= 0
        assert after >= 0
        assert ratio == pytest.approx(after / before, rel=1e-9)
        excludes_one = low > 1 or high < 1
        assert not values["changed"] or (excludes_one and values["tested"])
        assert not values["changed"] or values["p_value"] < 0.05
        if values["changed"]:
            words = change.description
            assert words.startswith("rose" if after > before else "fell")
            assert words.startswith("rose" if values["z"] > 0 else "fell")
            numbers = [float(text.replace(",", "")) for text in re.findall(r"[\d.,]*\d", words)]
            assert min(numbers) > 1
            if "least" not in words:
                assert numbers[1] <= numbers[0] <= numbers[2]
        elif not excludes_one:
            assert change.description.startswith("unclear")


def test_no_row_contradicts_itself_in_any_comparison(weeks):
    assert_consistent(compare(weeks[0], weeks[2]))
    assert_consistent(compare(*weeks, fdr=0.5))
    assert_consistent(compare(weeks[2], vocabulary=VOCABULARY))
    assert_consistent(compare(*bigram_weeks()))


@lru_cache
def bigrams():
    """Two-word n-grams, so that words are measured, too."""
    firsts, seconds = np.divmod(np.arange(SIZE), 20)
    ngrams = [f"a{first} b{second}" for first, second in zip(firsts, seconds, strict=True)]
    counts = 20_000 // np.arange(1, SIZE + 1)
    return bg.Vocabulary(pa.array(ngrams, pa.large_string()), counts, 2, bg.Tokenizer())


@lru_cache
def bigram_weeks():
    """In the second week n-grams with the word a7, all rare, are three times as frequent."""
    vocabulary = bigrams()
    made = []
    for seed, times in ((1, 1.0), (2, 3.0)):
        rng = np.random.default_rng(seed)
        shares = 1 / (20 + np.arange(SIZE))
        shares[140:160] *= times
        matrix = rng.multinomial(4, shares / shares.sum(), 3000)
        counts = replace(
            reference_paper.make_user_counts(matrix),
            vocabulary_fingerprint=vocabulary.fingerprint,
        )
        made.append(
            bg.Posterior(clip_norm=2).release(counts, vocabulary, bg.Budget(1, 1e-6), seed=seed)
        )
    return made


def test_words_show_what_noise_hides_in_ngrams():
    found = compare(*bigram_weeks(), names=["a", "b"])
    assert found.word_mask.sum() == 40
    word = next(change for change in found.changes if change.ngram == "a7")
    assert word.kind == "word"
    assert word.is_word
    assert word.order == 2
    assert word.low < 2.6 < word.high
    ngrams = [change.ngram for change in found.changes if not change.is_word]
    assert sum(ngram.startswith("a7 ") for ngram in ngrams) < 10
    assert " and " in found.summary
    rows = comparison_table(found).to_pylist()
    assert {row["kind"] for row in rows} == {"ngram", "word"}
    assert any(change["kind"] == "word" for change in comparison_json(found)["changes"])
    titles = ChangesView(found).tables
    assert "a7" in [ngram for _, ngram, _ in titles["Words that rose"]]
    assert "a7 (word)" in html.unescape(draw_changes(found).to_svg())


def test_words_are_not_compared_where_ngrams_differ():
    first, second = bigram_weeks()
    rows = np.arange(SIZE - 10)
    block = second.measurements.block("ngram", 2)
    fewer = [
        replace(
            block,
            texts=block.texts.take(pa.array(rows)),
            counts=block.counts[rows],
            noise_std=block.noise_std[rows],
            unclipped_share=None,
        ),
        replace(second.measurements.block("word", 2), unclipped_share=None),
        replace(second.measurements.block("total", 2), unclipped_share=None),
    ]
    other = replace(some_of(second, rows), measurements=Measurements.from_blocks(fewer))
    found = compare(first, other)
    assert not found.word_mask.any()
    assert "Words are not compared" in " ".join(found.notes)
    everything = first.measurements.ngrams(2)[1]
    common = found.shares[0].sum()
    assert common == pytest.approx(1, abs=0.3)  # shares are of what is in common
    assert everything.size == SIZE


def test_the_other_way_round_ratios_are_turned(weeks):
    there, back = compare(weeks[0], weeks[1]), compare(weeks[1], weeks[0])
    np.testing.assert_allclose(back.intervals.ratio, 1 / there.intervals.ratio, rtol=1e-9)
    np.testing.assert_allclose(back.p_values, there.p_values, rtol=1e-6)


def test_of_several_releases_it_says_between_which_it_changed(weeks):
    found = compare(*weeks)
    change = next(
        change for change in found.changes if change.ngram == VOCABULARY.ngrams[FALLEN].as_py()
    )
    assert change.second == 2
    assert len(change.shares) == 3
    assert found.shares.shape == (3, SIZE)


def test_a_release_is_compared_with_public_text(weeks):
    found = bg.compare(weeks[2], vocabulary=VOCABULARY, names=["people"])
    assert found.names == ["public text", "people"]
    assert found.tested_count == SIZE
    np.testing.assert_array_equal(found.shares[0], VOCABULARY.prior)
    # The first n-gram is 400 times as frequent as the last in public text, 20 times among people.
    first = VOCABULARY.ngrams[0].as_py()
    change = next(change for change in found.changes if change.ngram == first)
    assert not change.is_rise
    theta = weeks[2].probabilities[0]
    relative_std = weeks[2].probability_std[0] / theta
    factors = np.exp(np.array([-1, 1]) * stats.norm.isf(0.025) * relative_std)
    ends = theta / VOCABULARY.prior[0] * factors
    np.testing.assert_allclose((change.low, change.high), ends, rtol=1e-6)
    assert found.how_to_read.startswith("Before is public text")


def test_when_nothing_is_sure_it_says_so():
    found = compare(week(5), week(6), fdr=1e-6)
    assert found.changes == []
    assert found.summary.startswith("Nothing is sure to have changed: ")
    assert "1e-06" in found.summary


def test_measurements_are_compared_and_not_posteriors(weeks):
    """Another posterior of the same measurements, as in a chain, gives the same answer."""
    other = replace(weeks[1], probabilities=np.full(SIZE, 1 / SIZE))
    one, two = compare(weeks[0], weeks[1]), compare(weeks[0], other)
    np.testing.assert_array_equal(one.p_values, two.p_values)
    np.testing.assert_array_equal(one.intervals.low, two.intervals.low)
    np.testing.assert_array_equal(one.shares, two.shares)


def test_a_chain_is_tested_as_if_its_releases_had_no_past():
    """The second release has the first as its prior; given the same noise, the test is the same."""
    first = week(1)
    second = [
        week(2, phrase=4, mechanism=mechanism)
        for mechanism in (None, bg.Posterior(clip_norm=4).follow(first))
    ]
    assert not np.array_equal(second[0].probabilities, second[1].probabilities)
    alone, chained = (compare(first, each) for each in second)
    np.testing.assert_array_equal(alone.p_values, chained.p_values)
    np.testing.assert_array_equal(alone.intervals.ratio, chained.intervals.ratio)


def test_ngrams_that_were_not_measured_are_noticed(weeks):
    other = replace(
        weeks[1], ngrams=pa.array([*weeks[1].ngrams.to_pylist()[:-1], "strange"], pa.large_string())
    )
    same = replace(weeks[0], ngrams=other.ngrams)
    with pytest.raises(BayesgramError, match="did not measure"):
        compare(same, other)


def test_a_card_without_its_noise_is_noticed(weeks):
    card = replace(weeks[1].card, details={})
    with pytest.raises(BayesgramError, match="does not say how its noise was made"):
        compare(weeks[0], replace(weeks[1], card=card))


@pytest.mark.parametrize("mechanism", [bg.Laplace(max_total=10), bg.paper.KAnonymity(k=2)])
def test_releases_without_measurements_are_refused_with_the_next_step(weeks, mechanism):
    made = week(1, mechanism=mechanism, budget=bg.Budget(4))
    message = rf"b \({made.card.mechanism}\): no measurements.*; compare releases by posterior"
    with pytest.raises(UsageError, match=message):
        compare(weeks[0], made, names=["a", "b"])
    with pytest.raises(UsageError, match="does not tell how sure it is"):
        compare(made, vocabulary=VOCABULARY)


def test_releases_by_gaussian_are_compared():
    options = {"mechanism": bg.Gaussian(clip_norm=4), "budget": bg.Budget(4, 1e-6)}
    found = compare(week(1, **options), week(2, phrase=6, **options))
    assert PHRASE in found.changed_rows
    assert_consistent(found)


def test_seeded_releases_are_named():
    found = compare(week(1, seeded=True), week(2, seeded=True), names=["a", "b"])
    assert "a, b: seeded: not for publication." in found.notes


def test_it_says_how_counts_are_clipped(weeks):
    assert compare(*weeks[:2], names=["a", "b"]).notes == [
        "Counts are clipped, so rates are of text up to a norm for each user: 4 in a, 4 in b."
    ]
    assert (
        "up to a norm for each user: 4 in a."
        in compare(weeks[0], vocabulary=VOCABULARY, names=["a"]).notes[0]
    )
    chosen = [week(at, mechanism=bg.Posterior()) for at in range(2)]
    assert re.search(
        r"[\d.]+ in a \(about \d+% of users write more\), [\d.]+ in b \(about",
        compare(*chosen, names=["a", "b"]).notes[0],
    )
    made = [week(at, mechanism=bg.Posterior(clip_norm=2.0**at)) for at in range(1, 6)]
    notes = compare(*made).notes
    assert "from 2 to 32 in these releases." in notes[0]
    assert "clip norms differ, which moves ratios by about 32%" in notes[1]


def test_the_histogram_of_norms_gives_the_dispersion_where_the_mechanism_chose_the_clip_norm():
    """Every count of a user is 1 to 3 here, so variance over mean is about 2.3 for all."""
    made = [week(at, mechanism=bg.Posterior(), budget=bg.Budget(50, 1e-6)) for at in range(2)]
    matched = [comparison._Matched(each, np.arange(SIZE)) for each in made]
    measured = made[0].measurements
    counts, noise_std = measured.ngrams(1)[1:]
    max_user_count = noise_std / order_details(made[0].card.details)["noise_multiplier"]
    mean = statistics.mean_dispersion(matched[0].dispersion(1), counts, max_user_count)
    assert 1.5 < mean < 3
    assert comparison._Matched(week(3), np.arange(SIZE)).dispersion(1) is None
    by_segment = replace(made[0], card=replace(made[0].card, segment={"name": "de"}))
    assert comparison._Matched(by_segment, np.arange(SIZE)).dispersion(1) is None


def some_of(release, rows):
    """A release of fewer n-grams; its measurements keep all of them."""
    theta = release.probabilities[rows]
    kept = pa.array(release.ngrams.take(pa.array(rows)), pa.large_string())
    return replace(
        release,
        ngrams=kept,
        probabilities=theta / theta.sum(),
        probability_std=release.probability_std[rows],
    )


def test_ngrams_are_matched_by_their_strings(weeks):
    rows = np.r_[PHRASE, np.random.default_rng(1).permutation(np.r_[100:SIZE])]
    found = compare(weeks[0], some_of(weeks[1], rows), names=["all", "some"])
    assert found.notes[1] == (
        "301 n-grams are in common; 99 of all are not compared. Shares are of those in common."
    )
    place = found.ngrams.to_pylist().index(VOCABULARY.ngrams[PHRASE].as_py())
    assert found.z[place] > 4
    assert_consistent(found)
    # The same ratio as in the whole lists, as nothing else changed.
    whole = compare(weeks[0], weeks[1])
    assert found.intervals.ratio[place] == pytest.approx(whole.intervals.ratio[PHRASE], rel=0.1)


def test_what_can_not_be_compared_is_refused(weeks):
    other = replace(
        weeks[1], ngrams=pa.array([f"other{at}" for at in range(SIZE)], pa.large_string())
    )
    cut = replace(weeks[1].card, vocabulary={**weeks[1].card.vocabulary, "tokenizer": "characters"})
    for releases, options, message in [
        (weeks[:1], {}, "1 releases: give from 2 to 60"),
        ((), {}, "0 releases"),
        ((weeks[0], weeks[0]), {}, "are the same release"),
        ((weeks[0], other), {}, "have no n-gram in common"),
        (
            (weeks[0], replace(weeks[1], card=cut)),
            {},
            "by the tokenizer 'words' and release 2 by 'characters'",
        ),
        (weeks[:2], {"fdr": 0.0}, "fdr=0: a false discovery rate is between 0 and 1"),
        (weeks[:2], {"fdr": float("nan")}, "fdr=nan"),
        (weeks[:2], {"vocabulary": VOCABULARY}, "public text is compared with one release"),
        (
            weeks[:1],
            {"vocabulary": reference_paper.make_vocabulary(np.arange(1, 9))},
            "another vocabulary",
        ),
    ]:
        with pytest.raises(UsageError, match=message.replace("(", r"\(")):
            compare(*releases, **options)


def test_noise_that_hides_the_total_is_told():
    tiny = [week(at, budget=bg.Budget(0.0001, 1e-9)) for at in range(2)]
    found = compare(*tiny, names=["a", "b"])
    assert found.tested_count == 0
    assert found.changes == []
    assert "noise hides even the total of" in " ".join(found.notes)


def test_tables_have_every_ngram_and_no_p_value_where_noise_hides(tmp_path):
    few = [week(at, phrase=20.0**at, budget=bg.Budget(0.3, 1e-6)) for at in range(2)]
    found = compare(*few, names=["a", "b"])
    table = comparison_table(found)
    assert table.num_rows == SIZE
    assert table["p_value"].null_count == SIZE - found.tested_count > 0
    assert table["ratio"].null_count == 0
    assert sum(table["changed"].to_pylist()) == len(found.changes)
    for suffix, read in ((".csv", pacsv.read_csv), (".parquet", pq.read_table)):
        save_comparison(found, tmp_path / f"changes{suffix}")
        back = read(tmp_path / f"changes{suffix}")
        assert back.column_names == table.column_names
        assert back["ngram"][0].as_py() == found.changes[0].ngram
    save_comparison(found, tmp_path / "changes.json")
    assert json.loads((tmp_path / "changes.json").read_text(encoding="utf-8")) == comparison_json(
        found
    )
    with pytest.raises(UsageError, match=r"ends with \.csv, \.parquet or \.json"):
        save_comparison(found, tmp_path / "changes.txt")


def test_it_says_what_the_numbers_of_a_row_are(weeks):
    assert compare(*weeks[:2]).how_to_read.startswith("Before and after are measured shares")


def test_an_interval_without_an_end_is_null_in_json_and_an_arrow_in_a_picture(weeks):
    gone = week(4, fallen=1e-9, phrase=4)
    rich = week(5, fallen=8.0, budget=bg.Budget(4, 1e-6))
    found = compare(rich, gone, names=["a", "b"])
    change = next(c for c in found.changes if c.ngram == VOCABULARY.ngrams[FALLEN].as_py())
    assert change.low == 0
    assert re.fullmatch(r"fell at least [\d.]+×", change.description)
    back = compare(gone, rich, names=["b", "a"])
    json_row = next(row for row in comparison_json(back)["changes"] if row["ngram"] == change.ngram)
    assert json_row["ratio_high"] is None
    assert json_row["ratio_low"] == pytest.approx(1 / change.high, rel=1e-6)
    assert json_row["described"].startswith("rose at least")
    for comparison_of_two in (found, back):
        assert 'class="whisker arrow"' in draw_changes(comparison_of_two).to_svg().replace(
            "  ", " "
        )


def test_whiskers_that_are_cut_have_arrows(weeks):
    found = compare(*weeks)
    drawn = draw_changes(replace(found, share_std=found.shares)).to_svg()
    assert re.search(r'class="whisker \w+ arrow"', drawn)


def test_a_picture_has_what_changed_and_one_of_nothing_is_drawn_too(weeks):
    for found in (compare(*weeks[:2]), compare(*weeks), compare(week(5), week(6), fdr=1e-6)):
        drawn = html.unescape(draw_changes(found).to_svg())
        assert summarize_changes(found) in re.sub(r"</text><text[^>]*>", "", drawn)
        assert not re.search(r'class="\w+ (PROVED|EMPIRICAL)', drawn)  # colours of labels
        assert all(change.ngram in drawn for change in found.changes[:8])


def change_of(ratio, low, high):
    return Change("a", "ngram", 1, (0.1, 0.1 * ratio), 0, 1, ratio, low, high, 5.0, 0.01)


@pytest.mark.parametrize(
    ("ends", "described"),
    [
        ((1.2345, 1.1, 1.4), "1.23× (1.10–1.40)"),
        ((1.01, 1.0004, 1.02), "1.01× (1.0004–1.02)"),
        ((2.94, 2.1, 3.9), "2.9× (2.1–3.9)"),
        ((12.3, 8.4, 1234.5), "12× (8.4–1,200)"),
        ((12.3, 8.4, math.inf), "at least 8.4×"),
    ],
)
def test_ratios_have_the_digits_that_mean_something(ends, described):
    ratio, low, high = ends
    assert change_of(*ends).description == f"rose {described}"
    assert change_of(1 / ratio, 1 / high, 1 / low).description == f"fell {described}"


def test_an_interval_that_contains_1_is_no_change():
    assert change_of(0.99, 0.75, 1.28).description == "unclear (0.75–1.28×)"
    assert change_of(0.99, 0.0, math.inf).description == "unclear (0–∞×)"


@given(st.lists(st.floats(1 + 1e-6, 1e6), min_size=3, max_size=3))
def test_rounding_keeps_an_estimate_in_its_interval(ends):
    low, ratio, high = sorted(ends)
    words = change_of(ratio, low, high).description
    numbers = [float(text.replace(",", "")) for text in re.findall(r"[\d.,]*\d", words)]
    assert 1 < numbers[1] <= numbers[0] <= numbers[2]
