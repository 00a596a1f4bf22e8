"""Releases that follow one another, on generated data: four weeks, and three countries in one budget.

In:  a population, a vocabulary, a folder.   Out: releases of every week, each with the last one as its prior, and of
every country; what changed over the weeks, and what one country writes that another does not. A phrase becomes
popular from week to week, and another is said in one country alone. People are new every week.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.experiments.grammar import unit
from bayesgram.experiments.population import Population, with_countries
from bayesgram.mechanisms.base import release
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.privacy.budget import Budget
from bayesgram.private.counts import count
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.released.comparison import Comparison, compare
from bayesgram.released.release import Release
from bayesgram.text.strings import hash_rows
from bayesgram.text.tokens import buffers

MOST_USERS = 20_000  # of a week, and of all countries: it need not take long
PHRASE, WEEKS = "Let's be real.", (0.0, 0.003, 0.01, 0.02)  # the part of the messages that say it, week by week
GREETING, COUNTRY, GREETED = "Happy new year!", "fr", 0.05  # what only one country says, and how often
SEGMENTS = ("de", "fr", "it")
STEPS = len(WEEKS) + 1
UNIT = "a user's week"

Step = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True, eq=False)
class SequentialReleases:
    """What the weeks and the countries show."""

    weeks: Comparison
    countries: Comparison  # Germany and France


def follow(
    folder: Path, population: Population, vocabulary: Vocabulary, budget: Budget, step: Step
) -> SequentialReleases:
    """Release every week and every country, into folder/weeks and folder/countries."""
    (folder / "weeks").mkdir()
    made: list[Release] = []
    for number, part in enumerate(WEEKS, start=1):
        with step(f"Releasing week {number} of {len(WEEKS)}, ε = {budget.epsilon:g}"):
            text = pa.Table.from_batches(_week(population, number, part))
            counts, before = count(text, vocabulary), made[-1] if made else None
            made.append(release(counts, vocabulary, Posterior(), budget, previous=before, unit=UNIT))
            made[-1].save(folder / "weeks" / f"week-{number}")
    with step(f"Releasing {len(SEGMENTS)} countries in one budget, ε = {budget.epsilon:g}"):
        text = pa.Table.from_batches(_abroad(population))
        by_country = count(text, vocabulary, by="country", segments=SEGMENTS, other=True)
        countries = release(by_country, vocabulary, Posterior(), budget)
        countries.save(folder / "countries")
    names = [f"w{number}" for number in range(1, len(made) + 1)]
    two = compare(countries["de"], countries["fr"], names=["de", "fr"])
    return SequentialReleases(compare(*made, names=names), two)


def _week(population: Population, number: int, part: float) -> Iterator[pa.RecordBatch]:
    """Some people's messages of a week, some of which say the phrase."""
    people = Population(min(population.users, MOST_USERS), population.seed + number)
    yield from (_saying(batch, PHRASE, part) for batch in people.messages())


def _abroad(population: Population) -> Iterator[pa.RecordBatch]:
    """Some people's messages with their countries, of which one has a greeting of its own."""
    for batch in Population(min(population.users, MOST_USERS), population.seed).messages():
        placed = with_countries(batch)
        greeted = _saying(placed, GREETING, GREETED)
        there = pc.equal(placed["country"], COUNTRY)
        yield placed.set_column(1, "text", pc.if_else(there, greeted["text"], placed["text"]))


def _saying(batch: pa.RecordBatch, phrase: str, part: float) -> pa.RecordBatch:
    """The messages, a part of which are this phrase."""
    chance = unit(hash_rows(*buffers(batch["text"].cast(pa.large_binary()))))
    return batch.set_column(1, "text", pc.if_else(pa.array(chance < part), phrase, batch["text"]))
