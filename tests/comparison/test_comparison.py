"""Releases compared: matching, labels, evidence, and what is said to people."""

import html
import json
import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import bayesgram as bg
from bayesgram.comparison.comparison import (
    Change,
    compare,
    comparison_json,
    comparison_table,
    save_comparison,
)
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.reports.pictures import draw_changes
from helpers import reference_paper

SIZE, PHRASE, FALLEN = 400, 50, 60
VOCABULARY = reference_paper.make_vocabulary(20_000 // np.arange(1, SIZE + 1))


def week(seed, *, phrase=1.0, fallen=1.0, mechanism=None, budget=None, seeded=False):
    """6,000 people who write about ten n-grams each, repeating some; noise is the same in every run."""
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


def test_what_rose_and_fell_is_found_and_told_in_words(weeks):
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
    assert found.notes == []


def test_the_other_way_round_ratios_are_turned(weeks):
    there, back = compare(weeks[0], weeks[1]), compare(weeks[1], weeks[0])
    assert back.log_ratios[PHRASE] == pytest.approx(-there.log_ratios[PHRASE], rel=0.02)
    assert back.z[PHRASE] == pytest.approx(-there.z[PHRASE], rel=0.02)


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
    first = VOCABULARY.ngrams[
        0
    ].as_py()  # 400 times as frequent as the last in public text, 20 times among people
    assert next(change for change in found.changes if change.ngram == first).z < 0


def test_when_nothing_is_sure_it_says_so():
    found = compare(week(5), week(6), fdr=1e-6)
    assert found.changes == []
    assert found.summary.startswith("Nothing is sure to have changed: ")
    assert "1e-06" in found.summary


def test_measurements_are_compared_and_not_posteriors(weeks):
    """Another posterior of the same measurements, as in a chain, tests the same."""
    other = replace(weeks[1], probabilities=np.full(SIZE, 1 / SIZE))
    one, two = compare(weeks[0], weeks[1]), compare(weeks[0], other)
    np.testing.assert_array_equal(one.p_values, two.p_values)
    np.testing.assert_array_equal(one.log_ratios, two.log_ratios)


def test_a_chain_is_tested_as_if_its_releases_had_no_past():
    """The second release of a chain has the first as its prior; given the same noise, the test is the same."""
    first = week(1)
    second = [
        week(2, phrase=4, mechanism=mechanism)
        for mechanism in (None, bg.Posterior(clip_norm=4).follow(first))
    ]
    assert not np.array_equal(second[0].probabilities, second[1].probabilities)
    alone, chained = (compare(first, each) for each in second)
    np.testing.assert_array_equal(alone.p_values, chained.p_values)
    np.testing.assert_array_equal(alone.log_ratios, chained.log_ratios)


def test_ngrams_that_were_not_measured_are_noticed(weeks):
    other = replace(
        weeks[1], ngrams=pa.array([*weeks[1].ngrams.to_pylist()[:-1], "strange"], pa.large_string())
    )
    same = replace(weeks[0], ngrams=other.ngrams)
    with pytest.raises(BayesgramError, match="did not measure"):
        compare(same, other)


def test_without_measurements_posteriors_are_compared_and_that_is_said(weeks):
    found = compare(*(replace(week, measurements=None) for week in weeks[:2]), names=["a", "b"])
    assert found.notes == [
        "a, b: no measurements, so that posteriors are compared; a past that releases share is not taken into account."
    ]
    assert PHRASE in found.changed_rows


@pytest.mark.parametrize("mechanism", [bg.Laplace(max_total=10), bg.paper.KAnonymity(k=2)])
def test_a_mechanism_that_tells_no_noise_is_compared_with_a_warning(mechanism):
    budget = bg.Budget(4)
    made = [
        week(seed, phrase=phrase, mechanism=mechanism, budget=budget)
        for seed, phrase in ((1, 1.0), (2, 30.0))
    ]
    found = compare(*made, names=["a", "b"])
    assert "nothing is told of the noise" in " ".join(found.notes)
    assert PHRASE in found.changed_rows
    assert any("NONE" in note for note in found.notes) == isinstance(mechanism, bg.paper.KAnonymity)
    with pytest.raises(UsageError, match="does not tell how sure it is"):
        compare(made[0], vocabulary=VOCABULARY)


def test_seeded_releases_are_named():
    found = compare(week(1, seeded=True), week(2, seeded=True), names=["a", "b"])
    assert "a, b: seeded: not for publication." in found.notes


def test_clip_norms_that_differ_are_told():
    made = [week(at, mechanism=bg.Posterior(clip_norm=norm)) for at, norm in enumerate((2.0, 8.0))]
    assert "clip norms differ, which moves counts by about 10%" in " ".join(compare(*made).notes)


def some_of(release, rows):
    """A release of fewer n-grams; its measurements keep all of them, as strings tell which is which."""
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
    assert found.notes[0] == "301 n-grams are in common; 99 of all are not compared."
    place = found.ngrams.to_pylist().index(VOCABULARY.ngrams[PHRASE].as_py())
    assert found.z[place] > 4
    np.testing.assert_allclose(found.shares[0, place], weeks[0].probabilities[PHRASE])


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


def test_tables_have_every_ngram_and_empty_cells_where_noise_hides(weeks, tmp_path):
    found = compare(weeks[0], weeks[1], names=["a", "b"])
    table = comparison_table(found)
    assert table.num_rows == SIZE
    assert table["ratio"].null_count == SIZE - found.tested_count
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
    assert "estimated from the noisy counts" in compare(*weeks[:2]).how_to_read
    without = [replace(each, measurements=None) for each in weeks[:2]]
    assert compare(*without).how_to_read.startswith("A change is the ratio of before and after")


def test_whiskers_that_are_cut_have_arrows(weeks):
    found = compare(*weeks)
    drawn = draw_changes(replace(found, probability_std=found.shares)).to_svg()
    assert re.search(r'class="whisker \w+ arrow"', drawn)


def test_a_picture_has_what_changed_and_one_of_nothing_is_drawn_too(weeks):
    for found in (compare(*weeks[:2]), compare(*weeks), compare(week(5), week(6), fdr=1e-6)):
        drawn = html.unescape(draw_changes(found).to_svg())
        assert found.summary in re.sub(r"</text><text[^>]*>", "", drawn)
        assert not re.search(r'class="\w+ (PROVED|EMPIRICAL)', drawn)  # colours of labels
        assert all(change.ngram in drawn for change in found.changes[:8])


@pytest.mark.parametrize(
    ("ends", "described"),
    [((1.2345, 1.1, 1.4), "1.23× (1.10–1.40)"), ((2.94, 2.1, 3.9), "2.9× (2.1–3.9)"), ((12.3, 8.4, 1234.5), "12× (8–1,234)")],
)  # fmt: skip
def test_ratios_have_the_digits_that_mean_something(ends, described):
    assert Change("a", 1, (0.1, 0.2), 0, 1, *ends, 5.0, 0.01).description == f"rose {described}"
    turned = (1 / ends[0], 1 / ends[2], 1 / ends[1])
    assert Change("a", 1, (0.1, 0.2), 0, 1, *turned, -5.0, 0.01).description.startswith(
        f"fell {described[:3]}"
    )
