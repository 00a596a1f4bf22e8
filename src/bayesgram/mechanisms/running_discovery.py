"""Discoveries of a series: noisy weights add up, run after run.

In every run, the users of that run add their weights to the candidates that they wrote, each within
an allowance (`private.allowances`), and *every* candidate that anybody ever wrote gets noise. A
candidate that comes late gets the noise of the runs before it, too, so that how much noise it
carries says nothing about who wrote it when. What exceeds the level of a run
(`privacy.thresholds.calibrate_running_sums`) is published and stays published. docs/promise.md has
the proof.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arrays import Integers
from bayesgram.errors import Argument, UsageError
from bayesgram.inference.discovery_weights import RunningSchedule
from bayesgram.io.atomic import PROBE_BYTES, check_writable, written_paths
from bayesgram.io.records import UserIdTypes
from bayesgram.mechanisms.base import Randomness
from bayesgram.mechanisms.discovery import (
    STATEMENT,
    LocalText,
    PrivateText,
    Settings,
    assemble_discovery,
)
from bayesgram.mechanisms.publish import check_published, require_output
from bayesgram.mechanisms.series import DISCOVERY, Series, SeriesDiscovery
from bayesgram.privacy.budget import Guarantee
from bayesgram.privacy.constants import MAX_CANDIDATES, MIN_CANDIDATE_WEIGHT, UNITS
from bayesgram.privacy.noise import NoiseSource
from bayesgram.privacy.thresholds import RunningThreshold
from bayesgram.privacy.unit import DEFAULT_UNIT, is_same_unit
from bayesgram.private.candidates import (
    CandidateLists,
    list_candidates_with_users,
    sum_within_limits,
)
from bayesgram.private.running_candidates import NO_NGRAMS, RunningCandidates
from bayesgram.public.candidate_weights import PublicTextModel
from bayesgram.public.discovered_ngrams import CONTENTS, Discovery
from bayesgram.releases.card import Card
from bayesgram.releases.provenance import DISCOVERY_MECHANISM, unproved_sentence


def add_run(
    candidates: RunningCandidates,
    lists: CandidateLists,
    limits: Integers,
    run: int,
    threshold: RunningThreshold,
    noise: NoiseSource,
) -> tuple[RunningCandidates, Integers]:
    """Add one run: users' weights, noise for every candidate, and what exceeds the level.

    Formal guarantee: given the noisy sums of all earlier runs, one user moves the sums of this run
    by at most the user's limit in L2, and every candidate has noise of the same scale in every run,
    whoever wrote it and when. What is found follows from noisy sums and public levels alone.

    Args:
        candidates: The candidates of all earlier runs, with their noisy sums.
        lists: The lists of this run's users.
        limits: The largest norm of each of these users, in the order of the lists.
        run: The number of this run, from 1.
        threshold: The noise of a run, and the levels.
        noise: Draws the noise.

    Returns:
        The candidates after this run, and the squared norm of what each user contributed.
    """
    blocks = [lists.ngrams(np.arange(first, last)) for first, last in lists.blocks]
    merged, places, is_new = candidates.with_ngrams(pa.concat_arrays([NO_NGRAMS, *blocks]))
    sums = merged.sums.copy()
    late = noise_of_runs(int(np.count_nonzero(is_new)), run - 1, threshold.scale, noise)
    sums[is_new] += late
    is_open = merged.found_in == 0

    schedule = RunningSchedule(threshold.multiplier, run - 1)
    weights = lists.new_array_blocks("weights")
    for block, (first, last) in enumerate(lists.blocks):
        block_places = places[first:last]
        log_weights = schedule.log_weights(sums[block_places] / UNITS, lists.log_weights(block))
        weights[block] = np.where(is_open[block_places], np.exp(log_weights), 0.0)
    contributions, squares = sum_within_limits(lists, weights, limits)  # each within its limit
    exact = sums.copy()
    exact[places] += contributions

    noisy = noise.discrete_gaussian(exact[is_open], scale=threshold.scale)
    sums[is_open] = noisy
    found_in = merged.found_in.copy()
    is_above = is_open & (sums > int(threshold.levels[run - 1] * UNITS) + 1)
    found_in[is_above] = run
    return replace(merged, sums=sums, found_in=found_in), squares


def noise_of_runs(count: int, runs: int, scale: float, noise: NoiseSource) -> Integers:
    """Return for each of `count` candidates the noise that it would have after so many runs.

    The sum of `runs` draws of a scale s has the variance runs·s². By Lagrange's theorem four draws
    of the scales a·s, b·s, c·s and d·s have exactly the same one, where a² + b² + c² + d² = runs;
    docs/promise.md bounds how far their laws are apart.

    Args:
        count: How many candidates there are.
        runs: How many runs they missed.
        scale: The scale of the noise of one run.
        noise: Draws the noise.
    """
    sums = np.zeros(count, np.int64)
    if count:
        for root in sum_of_squares(runs):
            sums = noise.discrete_gaussian(sums, scale=scale * root)
    return sums


def sum_of_squares(number: int) -> tuple[int, ...]:
    """Return at most four integers above 0 whose squares add up to a number.

    >>> sum_of_squares(0), sum_of_squares(49), sum_of_squares(51)
    ((), (7,), (7, 1, 1))
    """
    return _sum_of_squares(number, 4) or ()


def _sum_of_squares(number: int, terms: int) -> tuple[int, ...] | None:
    """Return at most `terms` integers whose squares add up to a number; None if there are none."""
    if number == 0:
        return ()
    if terms == 0:
        return None
    for root in range(math.isqrt(number), 0, -1):
        others = _sum_of_squares(number - root * root, terms - 1)
        if others is not None:
            return (root, *others)
    return None


# --- Publishing ---


def discover_in_series(
    text: PrivateText,
    public: PublicTextModel,
    settings: Settings,
    series: Series,
    *,
    output: str | Path | None,
    force: bool = False,
    unit: str | None = None,
    command: str | None = None,
    edit: Callable[[Discovery], Discovery] = lambda discovery: discovery,
    on_reserved: Callable[[int], None] | None = None,
) -> Discovery:
    """Make the next discovery of a series: charge allowances, draw noise, save and note it.

    Args:
        text: Private text on this machine.
        public: The public vocabulary and model.
        settings: What is searched for; its rounds are not used, as a run is one round.
        series: The series, which is paid for already.
        output: The folder to save the discovery in.
        force: Whether a discovery that is already in that folder may be replaced.
        unit: What one user id stands for; that of the series if it is left out.
        command: How it was asked for; noted on the card.
        edit: Changes the discovery before it is saved, such as dropping strings: post-processing.
        on_reserved: Called with the number of the discovery once its users are charged.

    Returns:
        Everything that the series has found so far.

    Raises:
        UsageError: If something does not fit together, before anything is spent.
        BayesgramError: If the series has ended or its state is lost, or the discovery could not be
            saved.
    """
    require_output(output, "discovery")
    path = Path(output or "")
    if not isinstance(text, LocalText):
        raise UsageError(
            "a series keeps account of every user on this machine, so that Spark can't make a"
            " discovery of it. Leave spark out, or discover without ",
            Argument("series"),
            ".",
        )
    vocabulary = public.vocabulary
    check_series_discovery(series, public, settings, unit)
    with series.locked():
        series.check_discovery(settings.orders, vocabulary.tokenizer.name)
        check_writable(path, force=force, contents=CONTENTS, required_bytes=PROBE_BYTES)
        types = UserIdTypes()
        with list_candidates_with_users(
            types.watch(text.checked_records(public)),
            public,
            settings.orders,
            MAX_CANDIDATES,
            memory=text.memory,
        ) as (lists, users):
            noise = Randomness.from_seed(None).noise
            begun = series.begin_discovery(
                users,
                path,
                settings.orders,
                vocabulary.tokenizer.name,
                user_type=types.common,
                on_charged=on_reserved,
            )
            saved_before = len(written_paths)
            try:
                threshold = series.settings.running_threshold(settings.at_least)
                begun.finish(
                    *add_run(begun.candidates, lists, begun.limits, begun.number, threshold, noise)
                )
                discovery = edit(
                    _make_discovery(begun, public, settings, threshold, command=command)
                )
                discovery.save(path, force=force)
                begun.publish()
            except BaseException as error:
                saved = path.absolute() in map(Path, written_paths[saved_before:])
                error.add_note(begun.failure_note(path, saved=saved))
                raise
    return discovery


def check_series_discovery(
    series: Series, public: PublicTextModel, settings: Settings, unit: str | None
) -> None:
    """Refuse what no discovery of a series can have, before any text is read.

    Args:
        series: The series.
        public: Public text.
        settings: What is searched for.
        unit: What one user id stands for, if it was stated.
    """
    vocabulary = public.vocabulary
    series.check_discovery(settings.orders, vocabulary.tokenizer.name)
    if unit is not None and not is_same_unit(unit, series.settings.unit):
        raise UsageError.for_argument(
            "unit", repr(unit), f"the unit of the series is {series.settings.unit!r}; leave it out."
        )
    weak = unproved_sentence(vocabulary.ingredients)
    if weak is not None:
        raise UsageError(
            f"the vocabulary was {weak}, so no series pays for it. Use another one, or leave ",
            Argument("series"),
            " out.",
        )
    check_published(series.ledger, vocabulary.ingredients)


def _make_discovery(
    begun: SeriesDiscovery,
    public: PublicTextModel,
    settings: Settings,
    threshold: RunningThreshold,
    *,
    command: str | None,
) -> Discovery:
    """Return all that the series has found so far, with a card. It reads nothing private."""
    found = begun.candidates.found
    unlisted = pc.invert(pc.is_in(found.ngrams, value_set=public.vocabulary.ngrams))
    columns = {"ngram": found.ngrams, "weight": found.weights, "found_in": found.found_in}
    table = pa.table(columns).filter(unlisted)
    series = begun.series
    run = begun.number
    unit = series.settings.unit
    card = Card(
        mechanism=DISCOVERY_MECHANISM,
        guarantee=Guarantee.PROVED,
        statement=STATEMENT,
        epsilon=series.settings.epsilon,
        delta=series.settings.delta,
        settings={**asdict(replace(settings, rounds=1)), "orders": list(settings.orders)},
        details={
            "noise_multiplier": threshold.noise_std(run),
            "run_noise_multiplier": threshold.multiplier,
            "threshold": threshold.levels[run - 1],
            "floor": 0.0,
            "candidates_a_user": MAX_CANDIDATES,
            "smallest_weight": MIN_CANDIDATE_WEIGHT,
            "failure_probability": series.settings.failure,
            "run": run,
        },
        vocabulary=public.vocabulary.card_details,
        seeded=False,
        unit=None if unit == DEFAULT_UNIT else unit,
        command=command,
        ledger=dict(series.card_details(run, DISCOVERY)),
    )
    return assemble_discovery(table, public, settings, card)
