"""The shared computations are the mechanisms' own, bit for bit, and do not depend on threads."""

import numpy as np
import pyarrow as pa
import pytest

from bayesgram.mechanisms.laplace import Laplace, LaplacePublic
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.paper.algorithm_1 import Paper, paper_bounds
from bayesgram.paper.algorithm_2 import TunedPaper, scoring_users
from bayesgram.paper.harness import (
    GRID,
    CachedCounts,
    ExactSums,
    MechanismBench,
    Method,
    ResultRow,
    best_settings,
    round_to_two_digits,
)
from bayesgram.privacy.budget import Budget
from bayesgram.private.clipping import Coordinates, clipped_sum
from bayesgram.private.counts import UserCounts

EPSILONS, DELTA = (0.3, 2.0), 1e-6


@pytest.fixture(scope="module")
def released(data):
    """Rows whose value is θ itself, written out."""
    bench = MechanismBench(
        data,
        ExactSums(CachedCounts.from_counts(data.counts), data.users, (5, 6)),
        lambda theta: theta.tobytes(),
        DELTA,
        workers=2,
    )
    tuned = [bench._run_tuned_paper(epsilon, 5) for epsilon in EPSILONS]
    posterior = [bench._run_posterior(epsilon, 5) for epsilon in EPSILONS]
    paper = [bench._run_paper(epsilon, 5, 0.01, 0.7) for epsilon in EPSILONS]
    laplace = [
        bench._run_laplace(method, epsilon, 5, 3) for method in LAPLACE for epsilon in EPSILONS
    ]
    return {(row.method, row.epsilon): row.value for row in (*tuned, *posterior, *paper, *laplace)}


LAPLACE = {Method.LAPLACE: Laplace(3), Method.LAPLACE_PUBLIC: LaplacePublic(3)}


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(
    "method", [Method.POSTERIOR, Method.PAPER_TUNED, Method.PAPER_BEST, *LAPLACE]
)
def test_a_row_is_what_the_mechanism_releases_bit_for_bit(data, released, method, epsilon):
    paper = Paper(*paper_bounds(data.users), slope=0.01, rho=0.7)
    mechanism = {
        Method.POSTERIOR: Posterior(),
        Method.PAPER_TUNED: TunedPaper(paper, GRID),
        Method.PAPER_BEST: paper,
        **LAPLACE,
    }[method]
    release = mechanism.release(data.counts, data.vocabulary, Budget(epsilon, DELTA), seed=5)
    assert release.probabilities.tobytes() == released[method, epsilon]


def test_rows_do_not_depend_on_threads_or_cores(run, data, monkeypatch):
    def rows(cores):
        monkeypatch.setattr("bayesgram.private.counts.CORES", cores)
        exact = ExactSums(CachedCounts.from_counts(data.counts), data.users, (1, 2))
        return MechanismBench(data, exact, run.make_bench(data).metric, DELTA, workers=cores).run(
            [0.5]
        )

    assert rows(1) == rows(5)


def test_the_best_settings_are_those_with_the_smallest_median_for_each_epsilon():
    def row(epsilon, slope, value):
        return ResultRow(Method.PAPER_BEST, value, 1, 1, 0.0, epsilon=epsilon, slope=slope)

    tried = (
        [row(1, 0.1, v) for v in (1, 9, 9)] + [row(1, 0.2, v) for v in (5, 5, 5)] + [row(2, 0.1, 3)]
    )
    assert [
        (found.epsilon, found.slope, found.value) for found in best_settings(tried, ("slope",))
    ] == [
        *[(1, 0.2, 5)] * 3,
        (2, 0.1, 3),
    ]


def test_posterior_beats_public_text_and_gains_with_epsilon(run, data):
    """The margin is more than 8 standard deviations over seeds: one seed in 10¹⁵ would fail; these are fixed."""
    rows = run.make_bench(data).run([0.5, 5.0], [Method.POSTERIOR, Method.PUBLIC])
    weak, strong = (
        np.array([r.value for r in rows if r.method == Method.POSTERIOR and r.epsilon == e])
        for e in (0.5, 5.0)
    )
    public = next(row.value for row in rows if row.method == Method.PUBLIC)
    assert strong.mean() + 8 * strong.std() < weak.min()
    assert strong.mean() + 8 * strong.std() < public


def test_an_oracle_is_never_worse_than_what_it_chose_from(run, data):
    rows = run.make_bench(data).run([0.5])
    for at_w, at_best in (
        (Method.LAPLACE, Method.LAPLACE_BEST),
        (Method.LAPLACE_PUBLIC, Method.LAPLACE_PUBLIC_BEST),
    ):
        usual, chosen = (
            np.median([row.value for row in rows if row.method == m]) for m in (at_w, at_best)
        )
        assert chosen <= usual
    assert {row.method.is_oracle for row in rows if "*" in row.method} == {True}


def test_subsets_are_nested_and_about_as_large_as_asked(data):
    """4,000 coins: an error of 6 standard deviations, two in 10⁹; the keys are fixed."""
    few, more = data.subsample_users(400), data.subsample_users(2_000)
    names = [set(part.counts.users.to_pylist()) for part in (few, more, data)]
    assert names[0] < names[1] < names[2]
    whole = len(data.counts.users)
    assert abs(len(names[0]) - whole / 10) < 6 * np.sqrt(whole * 0.09)
    assert data.subsample_users(10**9) is data
    assert few.users == 400


def test_a_part_keeps_whole_rows(data):
    training, held_out = data.hold_out_users(0.1)
    assert (training.counts.totals + held_out.totals == data.counts.totals).all()
    assert not set(training.counts.users.to_pylist()) & set(held_out.users.to_pylist())
    head = data.truncate_vocabulary(100)
    assert (head.counts.totals == data.counts.totals[:100]).all()
    assert np.diff(head.counts.starts).min() > 0
    assert len(head.vocabulary) == 100


def test_the_split_is_independent_of_the_coin_of_algorithm_2(data):
    """Within 6 standard deviations, two in 10⁹; the keys are fixed."""
    training = data.hold_out_users(0.5)[0].counts
    scoring = scoring_users(training, key=1)
    assert abs(scoring.mean() - 0.1) < 6 * np.sqrt(0.09 / scoring.size)


def test_noise_on_public_counts_changes_the_prior_alone(data):
    worse = data.add_public_noise(50.0)
    assert worse.counts is data.counts
    assert worse.vocabulary.fingerprint == data.vocabulary.fingerprint
    assert worse.vocabulary.prior_fingerprint != data.vocabulary.prior_fingerprint
    assert worse.vocabulary.counts.min() >= 0


def test_round_figures():
    assert [round_to_two_digits(n) for n in (978_966, 1_049_999, 57, 3)] == [
        980_000,
        1_000_000,
        57,
        3,
    ]


def test_sums_are_made_once_and_told_apart():
    """Another clip norm, or other coordinates, is another sum."""
    counts = UserCounts(pa.array([b"a", b"b"], pa.large_binary()), *ROWS, 3, None)
    remembered = CachedCounts.from_counts(counts)
    shapes = [np.ones(3), np.array([1.0, 2.0, 4.0])]
    for shape, norm in [(shapes[0], 1.0), (shapes[1], 1.0), (shapes[0], 2.0)] * 2:
        measured = Coordinates(shape, np.zeros((3, 0), np.int32))
        fresh, kept = (clipped_sum(each, measured, clip_norm=norm) for each in (counts, remembered))
        assert (fresh == kept).all()
    assert len(remembered._sums) == 3


ROWS = (np.array([0, 2, 3]), np.array([0, 2, 1], np.int32), np.array([1, 5, 2], np.int32))
