"""Releases that follow one another, on generated data: four weeks, and three countries in one budget.

In:  a population, a vocabulary, a folder.   Out: releases of every week, each with the last one as its prior, and of
every country; what changed over the weeks, and what one country writes that another does not. A phrase becomes
popular from week to week, and another is said in one country alone. People are new every week.

The whole story on generated data: text → vocabulary → counts → a release by every mechanism → a comparison.

In:  a folder to fill, a number of users.   Out: the files a person would make by hand, a table and pictures.
Public text is of two kinds, articles and chat, so that the release can say which of them its people write like.
The comparison is among trigrams of public text. Beside it, words, pairs and trigrams that public text lacks are
discovered, and a release goes on with the vocabulary that has grown by them. Then four weeks follow one another, and
three countries share a budget.
Each step calls what the command of the same name calls. The noise is real; only the population is seeded.
"""

import csv
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bayesgram import charts
from bayesgram.audit.evaluation import DISCLOSURE, comparison_row, kl_divergence
from bayesgram.choices import ScoreSensitivity, Suppressed
from bayesgram.comparison.comparison import Comparison, compare, comparison_json
from bayesgram.errors import check_int
from bayesgram.io import read_records
from bayesgram.io.atomic import write_folder_atomically
from bayesgram.mechanisms.base import Mechanism, release
from bayesgram.mechanisms.discovery import discover
from bayesgram.mechanisms.gaussian import Gaussian
from bayesgram.mechanisms.laplace import Laplace, LaplacePublic
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.paper.algorithm_1 import Paper, paper_bounds
from bayesgram.paper.algorithm_2 import Grid, TunedPaper
from bayesgram.paper.k_anonymity import KAnonymity
from bayesgram.privacy.budget import Budget
from bayesgram.private.counts import UserCounts, count
from bayesgram.private.counts_io import save_counts
from bayesgram.public.discovered_ngrams import Discovery
from bayesgram.public.vocabulary import Vocabulary, public_distribution
from bayesgram.releases.card import DETAIL, NormBin, norm_bins
from bayesgram.releases.release import Release
from bayesgram.reports import pictures
from bayesgram.reports.views import ProbabilityChange, largest_changes
from bayesgram.synthetic.grammar import unit
from bayesgram.synthetic.population import (
    MOST_SENTENCES,
    MOST_USERS,
    Population,
    with_countries,
    write_messages,
    write_public_chat,
    write_public_text,
)
from bayesgram.text.ngrams import NgramCounter
from bayesgram.text.strings import hash_rows
from bayesgram.text.tokenizer import Tokenizer, buffers

MOST_SEQUENCE_USERS = 20_000  # of a week, and of all countries: it need not take long
PHRASE, WEEKS = (
    "Let's be real.",
    (0.0, 0.003, 0.01, 0.02),
)  # the part of the messages that say it, week by week
GREETING, COUNTRY, GREETED = (
    "Happy new year!",
    "fr",
    0.05,
)  # what only one country says, and how often
SEGMENTS = ("de", "fr", "it")
STEPS = len(WEEKS) + 1
UNIT = "a user's week"

SequenceStep = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True, eq=False)
class SequentialReleases:
    """What the weeks and the countries show."""

    weeks: Comparison
    countries: Comparison  # Germany and France


def follow(
    folder: Path, population: Population, vocabulary: Vocabulary, budget: Budget, step: SequenceStep
) -> SequentialReleases:
    """Release every week and every country, into folder/weeks and folder/countries."""
    (folder / "weeks").mkdir()
    made: list[Release] = []
    for number, part in enumerate(WEEKS, start=1):
        with step(f"Releasing week {number} of {len(WEEKS)}, ε = {budget.epsilon:g}"):
            text = pa.Table.from_batches(_week(population, number, part))
            counts, before = count(text, vocabulary), made[-1] if made else None
            made.append(
                release(counts, vocabulary, Posterior(), budget, previous=before, unit=UNIT)
            )
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
    people = Population(min(population.users, MOST_SEQUENCE_USERS), population.seed + number)
    yield from (_saying(batch, PHRASE, part) for batch in people.messages())


def _abroad(population: Population) -> Iterator[pa.RecordBatch]:
    """Some people's messages with their countries, of which one has a greeting of its own."""
    for batch in Population(min(population.users, MOST_SEQUENCE_USERS), population.seed).messages():
        placed = with_countries(batch)
        greeted = _saying(placed, GREETING, GREETED)
        there = pc.equal(placed["country"], COUNTRY)
        yield placed.set_column(1, "text", pc.if_else(there, greeted["text"], placed["text"]))


def _saying(batch: pa.RecordBatch, phrase: str, part: float) -> pa.RecordBatch:
    """The messages, a part of which are this phrase."""
    chance = unit(hash_rows(*buffers(batch["text"].cast(pa.large_binary()))))
    return batch.set_column(1, "text", pc.if_else(pa.array(chance < part), phrase, batch["text"]))


DELTA = 1e-7
EPSILONS = (0.1, 1.0)
ORDER, SIZE = 3, 20_000
SHOWN = "posterior"  # the mechanism whose n-grams are looked at: PROVED
SEARCHED, LISTED = (1, 2, 3), 10_000  # orders of the discovery, and public n-grams of each
ROUNDS = 3  # of the discovery: more find more, and take longer
BEST_SLOPES, BEST_RHOS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 1e-1), (0.3, 0.5, 0.7, 0.9)
SOURCES = {"articles": "articles.txt.gz", "chat": "chat.txt.gz"}  # public text, by register
FEWEST = 100  # users, and sentences
CHAT_PART = 3  # sentences of articles for one post of chat: a source may be small
RESULTS = "results.json"
CONTENTS = (
    *(
        *SOURCES.values(),
        "messages",
        "vocab.parquet",
        "counts",
        "found",
        "releases",
        "weeks",
        "countries",
    ),
    *(RESULTS, "results.csv"),
    *(
        f"{picture}.{kind}"
        for picture in ("comparison", "sources", "moved", "norms", "found", "weeks")
        for kind in ("svg", "png")
    ),
)

Step = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True)
class DemoResults:
    """What the demo found, for printing."""

    rows: list[dict[str, Any]]
    lifted: list[ProbabilityChange]
    lowered: list[ProbabilityChange]
    norms: list[NormBin]  # of the release that is looked at
    sources: str | None  # which public text its people write like
    source_weights: dict[str, Any]  # the same in numbers, by order
    secrets: int  # planted in private text
    leaked: int  # of them, found in any release or in the discovery
    found: "Found"
    followed: SequentialReleases

    def to_json(self) -> dict[str, Any]:
        """Plain values; norms are in the release's card, with their infinite last edge."""
        told = {name: comparison_json(found) for name, found in vars(self.followed).items()}
        plain = {
            field.name: getattr(self, field.name) for field in fields(self) if field.name != "norms"
        }
        plain |= {"lifted": [*map(asdict, self.lifted)], "lowered": [*map(asdict, self.lowered)]}
        return {**plain, "found": asdict(self.found), "followed": told}


@dataclass(frozen=True)
class Found:
    """What the discovery added."""

    claim: str
    level: float  # T
    deviation: float
    ngrams: list[tuple[str, int, float]]  # n-gram, order, noisy weight; heaviest first
    covered: list["Covered"]  # by order


@dataclass(frozen=True)
class Covered:
    """Which share of what people write the vocabulary lists. Private."""

    order: int
    before: float  # public text alone
    after: float  # with what was discovered


def run(
    output: Path, population: Population, *, sentences: int, step: Step, force: bool = False
) -> DemoResults:
    """Fill the folder; it appears whole, or not at all. With fewer people or less text there is no story to tell."""
    check_int("users", population.users, FEWEST, MOST_USERS, "the number of users of a demo")
    check_int("sentences", sentences, FEWEST, MOST_SENTENCES, "the number of sentences of a demo")
    with write_folder_atomically(output, contents=CONTENTS, force=force) as folder:
        with step("Writing public text"):
            write_public(folder, population, sentences=sentences)
        with step(f"Writing messages of {population.users:,} made-up users"):
            messages = folder / "messages"
            messages.mkdir(mode=0o700)
            write_messages(messages, population)
        with step(f"Making a vocabulary of {SIZE:,} trigrams from public text"):
            public = {name: folder / file for name, file in SOURCES.items()}
            vocabulary = Vocabulary.from_public(public, order=ORDER, size=SIZE)
            vocabulary.save(folder / "vocab.parquet")
        with step("Counting them in every user's messages"):
            counts = count(messages, vocabulary)
            save_counts(counts, vocabulary, folder / "counts")
        (folder / "releases").mkdir()
        found = _discover(folder, step)
        followed = follow(folder, population, vocabulary, Budget(EPSILONS[-1], DELTA), step)
        results = _compare(folder, population, counts, vocabulary, found, followed, step)
        with step("Drawing"):
            setting = f"{population.users:,} made-up users, {SIZE:,} trigrams, δ = {DELTA:g}"
            charts.save(pictures.comparison(results.rows, subtitle=setting), folder / "comparison")
            shown = f"{SHOWN}, ε = {EPSILONS[-1]:g}; {setting}"
            charts.save(
                pictures.moved(results.lifted, results.lowered, subtitle=shown), folder / "moved"
            )
            charts.save(pictures.norms(results.norms, subtitle=shown), folder / "norms")
            charts.save(
                pictures.sources(results.source_weights, subtitle=shown), folder / "sources"
            )
            if found.ngrams:
                told = f"{len(found.ngrams):,} n-grams, {found.claim}, T = {found.level:.1f}"
                picture = pictures.found(found.ngrams, found.level, found.deviation, subtitle=told)
                charts.save(picture, folder / "found")
            charts.save(pictures.draw_changes(followed.weeks), folder / "weeks")
        _write_results(folder, results)
    return results


def number_of_steps(users: int) -> int:
    """How often `run` begins a step."""
    text_to_discovery, best_of_the_paper, drawing = 6, len(EPSILONS), 1
    return text_to_discovery + STEPS + len(list(candidates(users))) + best_of_the_paper + drawing


def write_public(folder: Path, population: Population, *, sentences: int) -> None:
    """Articles with this many sentences, and a third as many posts of chat."""
    write_public_text(folder / SOURCES["articles"], population, sentences=sentences)
    write_public_chat(folder / SOURCES["chat"], population, posts=max(sentences // CHAT_PART, 1))


def candidates(users: int) -> Iterator[tuple[str, Mechanism, Budget | None]]:
    """Every mechanism, by name; the paper's bounds follow the round number of users, which is public here."""
    paper = Paper(*paper_bounds(users))
    for epsilon in EPSILONS:
        for name, mechanism in (
            (f"laplace, W = {paper.max_total} (users/1000)", Laplace(paper.max_total)),
            ("laplace, W = 10", Laplace(10)),
            ("laplace-public, W = 10", LaplacePublic(10)),
            ("gaussian", Gaussian()),
            ("posterior", Posterior()),
            (
                "paper, tuned by Algorithm 2",
                TunedPaper(paper, Grid(score_sensitivity=ScoreSensitivity.PUBLISHED)),
            ),
        ):
            yield name, mechanism, Budget(epsilon, 0.0 if isinstance(mechanism, Laplace) else DELTA)
    yield "k-anonymity, K = 50, add-one", KAnonymity(50), None
    yield "k-anonymity, K = 50, public", KAnonymity(50, Suppressed.PUBLIC), None


def _discover(folder: Path, step: Step) -> Found:
    """Find what public text lacks, and release with the grown vocabulary."""
    messages, public = folder / "messages", {name: folder / file for name, file in SOURCES.items()}
    with step(f"Discovering what public text lacks, ε = {EPSILONS[-1]:g}"):
        listed = Vocabulary.from_public(public, order=SEARCHED, size=LISTED)
        found = discover(messages, listed, Budget(EPSILONS[-1], DELTA), rounds=ROUNDS)
        found.save(folder / "found")
    with step(f"Releasing with what was discovered, ε = {EPSILONS[-1]:g}"):
        counts = count(messages, found.vocabulary)
        release = Posterior().release(counts, found.vocabulary, Budget(EPSILONS[-1], DELTA))
        release.save(folder / "releases" / f"{_folder_name(release)}-discovered")
    rows = zip(found.ngrams.to_pylist(), found.orders.tolist(), found.weights.tolist(), strict=True)
    return Found(
        found.card.claim,
        found.level,
        found.deviation,
        list(rows),
        _coverage(messages, counts, found),
    )


def _coverage(messages: Path, counts: UserCounts, found: Discovery) -> list[Covered]:
    """Of all n-grams that people wrote, repeats included, how many the vocabulary lists."""
    text = NgramCounter(SEARCHED, found.vocabulary.tokenizer)
    for batch in read_records(messages, text_column="text", user_column="user"):
        text.add(batch.text)
    origins, covered = found.vocabulary.origins, []
    for place, part in found.vocabulary.parts:
        all_, listed = text.count_windows(part.order), counts.totals[place]
        new = 0 if origins is None else int(listed[origins.discovered[place]].sum())
        covered.append(
            Covered(part.order, float(listed.sum() - new) / all_, float(listed.sum()) / all_)
        )
    return covered


def _compare(
    folder: Path,
    population: Population,
    counts: UserCounts,
    vocabulary: Vocabulary,
    found: Found,
    followed: SequentialReleases,
    step: Step,
) -> DemoResults:
    prior = public_distribution(vocabulary.counts)
    rows = [comparison_row("public text alone", None, kl_divergence(counts.totals, prior))]
    shown: Release | None = None
    for name, mechanism, budget in candidates(population.users):
        epsilon = f", ε = {budget.epsilon:g}" if budget else ""
        with step(f"Releasing by {name}{epsilon}"):
            release = mechanism.release(counts, vocabulary, budget)
            release.save(folder / "releases" / _folder_name(release))
        rows.append(
            comparison_row(name, release, kl_divergence(counts.totals, release.probabilities))
        )
        if release.card.mechanism == SHOWN:  # the last one, at the largest ε
            shown = release
    for epsilon_of_best in EPSILONS:
        with step(f"Searching the paper's best settings, ε = {epsilon_of_best:g}"):
            rows.append(
                _best_paper(population.users, counts, vocabulary, Budget(epsilon_of_best, DELTA))
            )
    rows.sort(key=lambda row: (row["epsilon"] is None, row["epsilon"]))
    assert shown is not None  # noqa: S101 - it is among the candidates
    card, moved = shown.card, largest_changes(shown, prior, how_many=12)
    leaks = _leaks(folder / "releases", found, population)
    return DemoResults(
        rows,
        *moved,
        norm_bins(card),
        card.sources,
        card.details.get(DETAIL, {}),
        *leaks,
        found,
        followed,
    )


def _folder_name(release: Release) -> str:
    """For example laplace-max_total-10-epsilon-0.1."""
    card = release.card
    knobs = [
        f"{knob}-{card.settings[knob]}"
        for knob in ("max_total", "k", "suppressed")
        if knob in card.settings
    ]
    return "-".join(
        [card.mechanism, *knobs, *([f"epsilon-{card.epsilon:g}"] if card.epsilon else [])]
    )


def _best_paper(
    users: int, counts: UserCounts, vocabulary: Vocabulary, budget: Budget
) -> dict[str, Any]:
    """The paper's mechanism at the (S, ρ) with the smallest KL: an oracle, which no release could use."""
    best: tuple[float, Release] | None = None
    for slope, rho in product(BEST_SLOPES, BEST_RHOS):
        release = Paper(*paper_bounds(users), slope=slope, rho=rho).release(
            counts, vocabulary, budget
        )
        kl = kl_divergence(counts.totals, release.probabilities)
        best = (kl, release) if best is None or kl < best[0] else best
    assert best is not None  # noqa: S101 - the grid is not empty
    return comparison_row("paper, best S and ρ *", best[1], best[0])


def _leaks(releases: Path, found: Found, population: Population) -> tuple[int, int]:
    """How many secrets there are that only one user knows, and how many can be pieced together from what is released.

    A discovery releases strings: a secret leaks by all of its trigrams, or by a single discovered word.
    """
    released = {
        ngram for folder in releases.iterdir() for ngram in Release.load(folder).ngrams.to_pylist()
    }
    released |= {ngram for ngram, *_ in found.ngrams}
    words = {ngram for ngram, order, _ in found.ngrams if order == 1}
    secrets = [
        secret.text for secret in population.secrets if secret.kind != "canary"
    ]  # a canary's words are public
    return len(secrets), sum(
        _trigrams(secret) <= released or bool(_words(secret) & words) for secret in secrets
    )


def _words(text: str) -> set[str]:
    return {word for words in Tokenizer().sentences(text) for word in words}


def _trigrams(text: str) -> set[str]:
    sentences = Tokenizer().sentences(text)
    return {
        " ".join(words[i : i + ORDER]) for words in sentences for i in range(len(words) - ORDER + 1)
    }


def _write_results(folder: Path, results: DemoResults) -> None:
    """results.json for machines, results.csv for a spreadsheet."""
    document = {"warning": DISCLOSURE, **results.to_json()}
    (folder / RESULTS).write_text(
        json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    with (folder / "results.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, results.rows[0])
        writer.writeheader()
        writer.writerows(results.rows)
