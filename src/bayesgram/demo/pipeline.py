"""The demo: every step of the system on generated data, into one folder.

`run` does, in order, what a person would do by hand:

1. write public text (articles and chat) and the private messages of made-up users;
2. make a vocabulary of trigrams from public text, and count them in the messages;
3. discover words, pairs and trigrams that public text lacks, and release with the larger list;
4. release four weeks of the same people as a series, which is paid for once, each with the last one
   as its prior; and three countries in one budget;
5. release by every mechanism, and compare these releases with the private text;
6. draw charts, and write results.json and results.csv.

Each step calls what the command of the same name calls. The noise is real; only the population is
seeded.
"""

import csv
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bayesgram import charts
from bayesgram.audit.evaluation import (
    DISCLOSURE,
    PUBLIC_ALONE,
    comparison_row,
    kl_divergence,
)
from bayesgram.choices import ScoreSensitivity, Suppressed
from bayesgram.comparison.comparison import Comparison, compare, comparison_json
from bayesgram.errors import check_int
from bayesgram.io import read_records
from bayesgram.io.atomic import write_folder_atomically
from bayesgram.mechanisms.base import CountsMechanism
from bayesgram.mechanisms.discovery import discover
from bayesgram.mechanisms.gaussian import Gaussian
from bayesgram.mechanisms.laplace import Laplace, LaplacePublic
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.mechanisms.publish import release
from bayesgram.mechanisms.series import Series
from bayesgram.paper.algorithm_1 import Paper, paper_bounds
from bayesgram.paper.algorithm_2 import Grid, TunedPaper
from bayesgram.paper.k_anonymity import KAnonymity
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.ledger import Ledger
from bayesgram.private.counts import UserCounts, count
from bayesgram.private.counts_io import save_counts
from bayesgram.public.discovered_ngrams import Discovery
from bayesgram.public.vocabulary import Vocabulary, public_distribution
from bayesgram.releases.card_sections import (
    SOURCE_WEIGHTS_DETAIL,
    NormBin,
    join_words,
    norm_histogram,
)
from bayesgram.releases.quality import MIN_ERROR_REMOVED
from bayesgram.releases.release import Release
from bayesgram.reports import pictures
from bayesgram.reports.views import ProbabilityChange, largest_changes
from bayesgram.synthetic.grammar import unit_interval
from bayesgram.synthetic.population import (
    MAX_SENTENCES,
    MAX_USERS,
    Population,
    add_countries,
    write_messages,
    write_public_chat,
    write_public_text,
)
from bayesgram.text.ngrams import NgramCounter
from bayesgram.text.strings import hash_rows
from bayesgram.text.tokenizer import Tokenizer, buffers

# The numbers of the demo make a story that runs in about two minutes; no experiment chose them.
MIN_USERS = 100
MIN_SENTENCES = 100
DELTA = 1e-7
EPSILONS = (0.1, 1.0)  # of the comparison; the other steps use the larger
ORDER = 3
VOCABULARY_SIZE = 20_000  # trigrams
SHOWN = "posterior"  # the mechanism whose release is looked at: PROVED
HEADLINE_WORDS = 3  # examples of discovered words

SOURCES = {"articles": "articles.txt.gz", "chat": "chat.txt.gz"}  # files of public text
SENTENCES_PER_POST = 3  # sentences of articles for one post of chat: a source may be small

DISCOVERED_ORDERS = (1, 2, 3)
LISTED_SIZE = 10_000  # public n-grams of each order that the discovery need not find
DISCOVERY_ROUNDS = 3  # more find more, and take longer

MAX_COUNTRY_USERS = 20_000  # of all countries: it need not take long
MAX_SERIES_USERS = 60_000  # of all weeks; a third of them write in a week
WEEKLY_PHRASE = "Let's be real."
WEEKLY_SHARES = (0.0, 0.003, 0.01, 0.02)  # of the messages that say the phrase, week by week
FULL_RELEASES = 2  # of these weeks, that one user can contribute to in full
COUNTRIES = ("de", "fr", "it")
GREETING = "Happy new year!"
GREETING_COUNTRY = "fr"  # the one country that says it
GREETING_SHARE = 0.05  # of that country's messages

# The grid on which the best S and ρ of the paper's mechanism are sought.
BEST_SLOPES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 1e-1)
BEST_RHOS = (0.3, 0.5, 0.7, 0.9)

RESULTS = "results.json"
CHARTS = ("comparison", "sources", "moved", "norms", "found", "weeks")
CONTENTS = (
    *SOURCES.values(),
    "messages",
    "vocab.parquet",
    "vocab.parquet.rows",  # hashes of public rows, which `Vocabulary.save` writes beside it
    "counts",
    "found",
    "releases",
    "weeks",
    "weeks.ledger",
    "weeks.ledger.lock",
    "weeks.series",
    "countries",
    RESULTS,
    "results.csv",
    *(f"{chart}.{kind}" for chart in CHARTS for kind in ("svg", "png")),
)

Step = Callable[[str], AbstractContextManager[None]]

# --- Results ---


@dataclass(frozen=True)
class OrderCoverage:
    """Which share of what people write the vocabulary lists, for one order. Private."""

    order: int
    before: float  # public text alone
    after: float  # with what was discovered


@dataclass(frozen=True)
class DiscoveredNgrams:
    """The n-grams that the discovery added to the vocabulary, and how much more it covers."""

    claim: str
    level: float  # T, the threshold
    deviation: float  # the standard deviation of the noise on weights
    ngrams: list[tuple[str, int, float]]  # n-gram, order, noisy weight; heaviest first
    covered: list[OrderCoverage]


@dataclass(frozen=True, eq=False)
class WeeklySeries:
    """Releases of some weeks that are paid for once, and what changed over these weeks."""

    releases: int
    full_releases: int
    claim: str  # of all of them together
    changes: Comparison

    @property
    def sentence(self) -> str:
        """What a series is worth."""
        narrower = (self.releases / self.full_releases) ** 0.5
        return (
            f"The {self.releases} weeks are a series: {self.claim} is for all of them together, and"
            f" the noise is {narrower:.1f} times narrower than if everybody could contribute in"
            " full to every week."
        )


@dataclass(frozen=True, eq=False)
class SequentialReleases:
    """What changed over the weeks, and between two countries."""

    weeks: WeeklySeries
    countries: Comparison  # Germany and France


@dataclass(frozen=True)
class DemoResults:
    """What the demo shows, for printing."""

    rows: list[dict[str, Any]]  # the comparison of all mechanisms
    lifted: list[ProbabilityChange]  # n-grams that the shown release makes more likely
    lowered: list[ProbabilityChange]
    norms: list[NormBin]  # the norm histogram of the shown release
    sources: str | None  # a sentence: which public text its people's text resembles
    source_weights: dict[str, Any]  # the same in numbers, by order
    secrets: int  # planted in private text
    leaked: int  # of them, readable from any release or from the discovery
    found: DiscoveredNgrams
    followed: SequentialReleases

    @property
    def headlines(self) -> list[str]:
        """The three main results: how good the release is, what is new in it, and what leaked."""
        return [self._accuracy_headline, self._discovery_headline, self._secrets_headline]

    @property
    def _accuracy_headline(self) -> str:
        release = f"The release by {SHOWN} (ε = {EPSILONS[-1]:g})"
        kls = {(row["release"], row["epsilon"]): row["kl"] for row in self.rows}
        public_kl = self.rows[0]["kl"]
        removed = 1 - kls[SHOWN, EPSILONS[-1]] / public_kl if public_kl else 0.0
        if removed < MIN_ERROR_REMOVED:
            return f"{release} is no better than public text: there are too few users."
        return f"{release} removes {removed:.0%} of the error that public text alone has."

    @property
    def _discovery_headline(self) -> str:
        ngrams = self.found.ngrams
        if not ngrams:
            return "Discovery finds no n-gram that public text lacks: there are too few users."
        words = [ngram for ngram, order, _ in ngrams if order == 1]
        examples = join_words((words or [ngram for ngram, _, _ in ngrams])[:HEADLINE_WORDS])
        return (
            f"Discovery finds {len(ngrams):,} n-grams that public text lacks, such as {examples}."
        )

    @property
    def _secrets_headline(self) -> str:
        leaked = f"{self.leaked}" if self.leaked else "None"
        return f"{leaked} of {self.secrets} planted secrets can be read from the releases."

    def to_json(self) -> dict[str, Any]:
        """Return plain values; norms are in the release's card, with their infinite last edge."""
        return {
            "headlines": self.headlines,
            "rows": self.rows,
            "lifted": [asdict(change) for change in self.lifted],
            "lowered": [asdict(change) for change in self.lowered],
            "sources": self.sources,
            "source_weights": self.source_weights,
            "secrets": self.secrets,
            "leaked": self.leaked,
            "found": asdict(self.found),
            "followed": {
                "series": self.followed.weeks.sentence,
                "weeks": comparison_json(self.followed.weeks.changes),
                "countries": comparison_json(self.followed.countries),
            },
        }


# --- The demo ---


def run(
    output: Path, population: Population, *, sentences: int, step: Step, force: bool = False
) -> DemoResults:
    """Run the demo into a folder, which appears whole or not at all.

    Args:
        output: The folder.
        population: The made-up people.
        sentences: Of articles; there are a third as many posts of public chat.
        step: Called with a label; returns a context that holds while that step runs.
        force: Whether to replace an earlier demo.

    Raises:
        UsageError: If there are too few people or too little text for a story.
    """
    check_int("users", population.users, MIN_USERS, MAX_USERS, "the number of users of a demo")
    check_int(
        "sentences", sentences, MIN_SENTENCES, MAX_SENTENCES, "the number of sentences of a demo"
    )
    budget = Budget(EPSILONS[-1], DELTA)
    with write_folder_atomically(output, contents=CONTENTS, force=force) as folder:
        with step("Writing public text"):
            write_public(folder, population, sentences=sentences)
        with step(f"Writing messages of {population.users:,} made-up users"):
            messages = folder / "messages"
            messages.mkdir(mode=0o700)
            write_messages(messages, population)
        with step(f"Making a vocabulary of {VOCABULARY_SIZE:,} trigrams from public text"):
            vocabulary = Vocabulary.from_public(
                _public_files(folder), order=ORDER, size=VOCABULARY_SIZE
            )
            vocabulary.save(folder / "vocab.parquet")
        with step("Counting them in every user's messages"):
            counts = count(messages, vocabulary)
            save_counts(counts, vocabulary, folder / "counts")
        (folder / "releases").mkdir()
        discovered = _discover_and_release(folder, budget, step)
        sequential = SequentialReleases(
            _release_weeks(folder, population, vocabulary, budget, step),
            _release_countries(folder, population, vocabulary, budget, step),
        )
        rows, shown = _release_by_every_mechanism(folder, population, counts, vocabulary, step)
        lifted, lowered = largest_changes(
            shown, public_distribution(vocabulary.counts), how_many=12
        )
        secrets, leaked = _count_leaks(folder / "releases", discovered, population)
        results = DemoResults(
            rows=rows,
            lifted=lifted,
            lowered=lowered,
            norms=norm_histogram(shown.card.details),
            sources=shown.card.sources_sentence,
            source_weights=shown.card.details.get(SOURCE_WEIGHTS_DETAIL, {}),
            secrets=secrets,
            leaked=leaked,
            found=discovered,
            followed=sequential,
        )
        with step("Drawing"):
            _draw_charts(folder, results, population)
        _write_results(folder, results)
    return results


def number_of_steps(users: int) -> int:
    """Return how often `run` begins a step."""
    text_to_counts = 4
    discovery = 2
    sequence = len(WEEKLY_SHARES) + 1
    mechanisms = len(list(compared_mechanisms(users)))
    best_of_the_paper = len(EPSILONS)
    drawing = 1
    return text_to_counts + discovery + sequence + mechanisms + best_of_the_paper + drawing


# --- Step 1: text ---


def write_public(folder: Path, population: Population, *, sentences: int) -> None:
    """Write articles with this many sentences, and a third as many posts of chat.

    Args:
        folder: Where the files go.
        population: The made-up people.
        sentences: How many sentences the articles have.
    """
    posts = max(sentences // SENTENCES_PER_POST, 1)
    write_public_text(folder / SOURCES["articles"], population, sentences=sentences)
    write_public_chat(folder / SOURCES["chat"], population, posts=posts)


def _public_files(folder: Path) -> dict[str, Path]:
    return {name: folder / file for name, file in SOURCES.items()}


# --- Step 3: discovery ---


def _discover_and_release(folder: Path, budget: Budget, step: Step) -> DiscoveredNgrams:
    """Discover what public text lacks, and release with the larger vocabulary."""
    messages = folder / "messages"
    with step(f"Discovering what public text lacks, ε = {budget.epsilon:g}"):
        listed = Vocabulary.from_public(
            _public_files(folder), order=DISCOVERED_ORDERS, size=LISTED_SIZE
        )
        discovery = discover(messages, listed, budget, rounds=DISCOVERY_ROUNDS)
        discovery.save(folder / "found")
    with step(f"Releasing with what was discovered, ε = {budget.epsilon:g}"):
        counts = count(messages, discovery.vocabulary)
        discovered_release = Posterior().release(counts, discovery.vocabulary, budget)
        name = f"{_folder_name(discovered_release)}-discovered"
        discovered_release.save(folder / "releases" / name)
    ngrams = zip(
        discovery.ngrams.to_pylist(),
        discovery.orders.tolist(),
        discovery.weights.tolist(),
        strict=True,
    )
    return DiscoveredNgrams(
        claim=discovery.card.claim,
        level=discovery.threshold,
        deviation=discovery.noise_std,
        ngrams=list(ngrams),
        covered=_measure_coverage(messages, counts, discovery),
    )


def _measure_coverage(
    messages: Path, counts: UserCounts, discovery: Discovery
) -> list[OrderCoverage]:
    """Return which share of all n-grams that people wrote, repeats included, is listed."""
    vocabulary = discovery.vocabulary
    text = NgramCounter(DISCOVERED_ORDERS, vocabulary.tokenizer)
    records = read_records(messages, text_column="text", user_column="user")
    text.add_all(batch.text for batch in records)
    covered = []
    for rows, part in vocabulary.by_order:
        written = text.count_windows(part.order)
        listed = counts.totals[rows]
        new = 0
        if vocabulary.origins is not None:
            new = int(listed[vocabulary.origins.discovered[rows]].sum())
        covered.append(
            OrderCoverage(
                order=part.order,
                before=float(listed.sum() - new) / written,
                after=float(listed.sum()) / written,
            )
        )
    return covered


# --- Step 4: weeks and countries ---


def _release_weeks(
    folder: Path, population: Population, vocabulary: Vocabulary, budget: Budget, step: Step
) -> WeeklySeries:
    """Release every week into folder/weeks, in one budget, each with the last one as its prior.

    The same people write in some of the weeks. A phrase becomes popular from week to week.
    """
    (folder / "weeks").mkdir()
    ledger = Ledger.create(
        folder / "weeks.ledger", population="people of four weeks", budget=budget
    )
    series = Series.create(
        folder / "weeks.series",
        ledger=ledger,
        epsilon=budget.epsilon,
        delta=budget.delta,
        releases=len(WEEKLY_SHARES),
        full_releases=FULL_RELEASES,
    )
    previous: Path | None = None
    releases: list[Release] = []
    for week, share in enumerate(WEEKLY_SHARES, start=1):
        with step(f"Releasing week {week} of {len(WEEKLY_SHARES)}, ε = {budget.epsilon:g} for all"):
            text = pa.Table.from_batches(_weekly_messages(population, week, share))
            output = folder / "weeks" / f"week-{week}"
            weekly_release = release(
                count(text, vocabulary),
                vocabulary,
                Posterior(),
                previous=previous,
                series=series,
                output=output,
            )
            releases.append(weekly_release)
            previous = output
    changes = compare(*releases, names=[f"w{week}" for week in range(1, len(releases) + 1)])
    return WeeklySeries(
        releases=len(releases),
        full_releases=FULL_RELEASES,
        claim=releases[-1].card.claim,
        changes=changes,
    )


def _release_countries(
    folder: Path, population: Population, vocabulary: Vocabulary, budget: Budget, step: Step
) -> Comparison:
    """Release all countries in one budget, into folder/countries; one has a greeting of its own."""
    with step(f"Releasing {len(COUNTRIES)} countries in one budget, ε = {budget.epsilon:g}"):
        text = pa.Table.from_batches(_messages_with_countries(population))
        counts = count(text, vocabulary, by="country", segments=COUNTRIES, other=True)
        countries = release(counts, vocabulary, Posterior(), budget)
        countries.save(folder / "countries")
    return compare(countries["de"], countries["fr"], names=["de", "fr"])


def _weekly_messages(population: Population, week: int, share: float) -> Iterator[pa.RecordBatch]:
    """Yield some people's messages of a week, a share of which say the phrase."""
    users = min(population.users, MAX_SERIES_USERS)
    people = Population(users, population.seed + 1, week=week)
    for batch in people.messages():
        yield _replace_some(batch, WEEKLY_PHRASE, share)


def _messages_with_countries(population: Population) -> Iterator[pa.RecordBatch]:
    """Yield some people's messages with their countries."""
    people = Population(min(population.users, MAX_COUNTRY_USERS), population.seed)
    for plain in people.messages():
        batch = add_countries(plain)
        greeted = _replace_some(batch, GREETING, GREETING_SHARE)
        is_there = pc.equal(batch["country"], GREETING_COUNTRY)
        yield batch.set_column(1, "text", pc.if_else(is_there, greeted["text"], batch["text"]))


def _replace_some(batch: pa.RecordBatch, phrase: str, share: float) -> pa.RecordBatch:
    """Return the messages, a share of which are this phrase instead."""
    draws = unit_interval(hash_rows(*buffers(batch["text"].cast(pa.large_binary()))))
    is_replaced = pa.array(draws < share)
    return batch.set_column(1, "text", pc.if_else(is_replaced, phrase, batch["text"]))


# --- Step 5: every mechanism ---


def compared_mechanisms(users: int) -> Iterator[tuple[str, CountsMechanism, Budget | None]]:
    """Yield every mechanism with its name and budget.

    The paper's bounds follow the round number of users, which is public here.
    """
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


def _release_by_every_mechanism(
    folder: Path,
    population: Population,
    counts: UserCounts,
    vocabulary: Vocabulary,
    step: Step,
) -> tuple[list[dict[str, Any]], Release]:
    """Return a row for each release, by ε, and the release of `SHOWN` at the largest ε."""
    public = public_distribution(vocabulary.counts)
    rows = [comparison_row(PUBLIC_ALONE, None, kl_divergence(counts.totals, public))]
    shown: Release | None = None
    for name, mechanism, budget in compared_mechanisms(population.users):
        epsilon_text = f", ε = {budget.epsilon:g}" if budget else ""
        with step(f"Releasing by {name}{epsilon_text}"):
            mechanism_release = mechanism.release(counts, vocabulary, budget)
            mechanism_release.save(folder / "releases" / _folder_name(mechanism_release))
        kl = kl_divergence(counts.totals, mechanism_release.probabilities)
        rows.append(comparison_row(name, mechanism_release, kl))
        if mechanism_release.card.mechanism == SHOWN:  # the last one is at the largest ε
            shown = mechanism_release
    for epsilon in EPSILONS:
        with step(f"Searching the paper's best settings, ε = {epsilon:g}"):
            budget = Budget(epsilon, DELTA)
            rows.append(_best_paper_row(population.users, counts, vocabulary, budget))
    rows.sort(key=lambda row: (row["epsilon"] is None, row["epsilon"]))
    assert shown is not None  # noqa: S101 - it is among the mechanisms
    return rows, shown


def _folder_name(release: Release) -> str:
    """Return, for example, laplace-max_total-10-epsilon-0.1."""
    card = release.card
    settings = [
        f"{setting}-{card.settings[setting]}"
        for setting in ("max_total", "k", "suppressed")
        if setting in card.settings
    ]
    epsilon = [f"epsilon-{card.epsilon:g}"] if card.epsilon else []
    return "-".join([card.mechanism, *settings, *epsilon])


def _best_paper_row(
    users: int, counts: UserCounts, vocabulary: Vocabulary, budget: Budget
) -> dict[str, Any]:
    """Return the row of the paper's mechanism at the (S, ρ) with the smallest KL.

    It is an oracle, which no release could use.
    """
    best: tuple[float, Release] | None = None
    for slope, rho in product(BEST_SLOPES, BEST_RHOS):
        paper = Paper(*paper_bounds(users), slope=slope, rho=rho)
        paper_release = paper.release(counts, vocabulary, budget)
        kl = kl_divergence(counts.totals, paper_release.probabilities)
        if best is None or kl < best[0]:
            best = (kl, paper_release)
    assert best is not None  # noqa: S101 - the grid is not empty
    best_kl, best_release = best
    return comparison_row("paper, best settings *", best_release, best_kl)


# --- Secrets ---


def _count_leaks(
    releases: Path, discovered: DiscoveredNgrams, population: Population
) -> tuple[int, int]:
    """Return how many secrets there are, and how many can be pieced together from the releases.

    Each is known to one user only. A discovery releases strings: a secret leaks by all of its
    trigrams, or by a single discovered word.
    """
    released = {
        ngram for folder in releases.iterdir() for ngram in Release.load(folder).ngrams.to_pylist()
    }
    released |= {ngram for ngram, _, _ in discovered.ngrams}
    discovered_words = {ngram for ngram, order, _ in discovered.ngrams if order == 1}
    # A canary's words are public, so it is no secret.
    secrets = [secret.text for secret in population.secrets if secret.kind != "canary"]
    leaked = sum(
        _trigrams(secret) <= released or bool(_words(secret) & discovered_words)
        for secret in secrets
    )
    return len(secrets), leaked


def _words(text: str) -> set[str]:
    return {word for words in Tokenizer().sentences(text) for word in words}


def _trigrams(text: str) -> set[str]:
    sentences = Tokenizer().sentences(text)
    return {
        " ".join(words[i : i + ORDER]) for words in sentences for i in range(len(words) - ORDER + 1)
    }


# --- Step 6: charts and files ---


def _draw_charts(folder: Path, results: DemoResults, population: Population) -> None:
    setting = f"{population.users:,} made-up users, {VOCABULARY_SIZE:,} trigrams, δ = {DELTA:g}"
    shown = f"{SHOWN}, ε = {EPSILONS[-1]:g}; {setting}"
    drawings = {
        "comparison": pictures.draw_comparison(results.rows, subtitle=setting),
        "moved": pictures.draw_changed_ngrams(
            [change.mark() for change in results.lifted],
            [change.mark() for change in results.lowered],
            subtitle=shown,
        ),
        "norms": pictures.draw_norms_file(results.norms, subtitle=shown),
        "sources": pictures.draw_sources_file(results.source_weights, subtitle=shown),
        "weeks": pictures.draw_changes(results.followed.weeks.changes),
    }
    discovered = results.found
    if discovered.ngrams:
        subtitle = (
            f"{len(discovered.ngrams):,} n-grams, {discovered.claim}; threshold"
            f" T = {discovered.level:.1f}"
        )
        drawings["found"] = pictures.draw_discoveries(
            discovered.ngrams, discovered.level, discovered.deviation, subtitle=subtitle
        )
    for name, chart in drawings.items():
        charts.save(chart, folder / name)


def _write_results(folder: Path, results: DemoResults) -> None:
    """Write results.json for machines, and results.csv for a spreadsheet."""
    document = {"warning": DISCLOSURE, **results.to_json()}
    (folder / RESULTS).write_text(
        json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n"
    )
    with (folder / "results.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, results.rows[0])
        writer.writeheader()
        writer.writerows(results.rows)
