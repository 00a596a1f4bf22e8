"""The whole story on generated data: text → vocabulary → counts → a release by every mechanism → a comparison.

In:  a folder to fill, a number of users.   Out: the files a person would make by hand, a table and pictures.
Public text is of two kinds, articles and chat, so that the release can say which of them its people write like.
Each step calls what the command of the same name calls. The noise is real; only the population is seeded.
"""

import csv
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from bayesgram import charts
from bayesgram.audit.utility import DISCLOSURE, comparison_row, kl_divergence
from bayesgram.experiments import plots
from bayesgram.experiments.population import Population, write_messages, write_public_chat, write_public_text
from bayesgram.files.writing import publish_folder
from bayesgram.mechanisms.base import Mechanism
from bayesgram.mechanisms.choices import ScoreSensitivity, Suppressed
from bayesgram.mechanisms.gaussian import Gaussian
from bayesgram.mechanisms.k_anonymity import KAnonymity
from bayesgram.mechanisms.laplace import Laplace, LaplacePublic
from bayesgram.mechanisms.paper import Paper, paper_bounds
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.mechanisms.tuning import Grid, TunedPaper
from bayesgram.privacy.budget import Budget
from bayesgram.private.counts import UserCounts, count
from bayesgram.private.store import save_counts
from bayesgram.public.prior import public_distribution
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.released.moved import Moved, most_moved
from bayesgram.released.norms import NormBin, norm_bins
from bayesgram.released.release import Release
from bayesgram.released.sources import DETAIL
from bayesgram.text.tokens import Tokenizer

DELTA = 1e-7
EPSILONS = (0.1, 1.0)
ORDER, SIZE = 3, 20_000
SHOWN = "posterior"  # the mechanism whose n-grams are looked at: PROVED
BEST_SLOPES, BEST_RHOS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 1e-1), (0.3, 0.5, 0.7, 0.9)
SOURCES = {"articles": "articles.txt.gz", "chat": "chat.txt.gz"}  # public text, by register
CHAT_PART = 3  # sentences of articles for one post of chat: a source may be small
RESULTS = "results.json"
CONTENTS = (
    *(*SOURCES.values(), "messages", "vocab.parquet", "counts", "releases", RESULTS, "results.csv"),
    *(f"{picture}.{kind}" for picture in ("comparison", "sources", "moved", "norms") for kind in ("svg", "png")),
)

Step = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True)
class Story:
    """What the demo found, for printing."""

    rows: list[dict[str, Any]]
    lifted: list[Moved]
    lowered: list[Moved]
    norms: list[NormBin]  # of the release that is looked at
    sources: str | None  # which public text its people write like
    source_weights: dict[str, Any]  # the same in numbers, by order
    secrets: int  # planted in private text
    leaked: int  # of them, found in any release


def run(output: Path, population: Population, *, sentences: int, step: Step, force: bool = False) -> Story:
    """Fill the folder; it appears whole, or not at all."""
    with publish_folder(output, contents=CONTENTS, force=force) as folder:
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
        story = _compare(folder, population, counts, vocabulary, step)
        with step("Drawing"):
            setting = f"{population.users:,} made-up users, {SIZE:,} trigrams, δ = {DELTA:g}"
            charts.save(plots.comparison(story.rows, subtitle=setting), folder / "comparison")
            shown = f"{SHOWN}, ε = {EPSILONS[-1]:g}; {setting}"
            charts.save(plots.moved(story.lifted, story.lowered, subtitle=shown), folder / "moved")
            charts.save(plots.norms(story.norms, subtitle=shown), folder / "norms")
            charts.save(plots.sources(story.source_weights, subtitle=shown), folder / "sources")
        _write_results(folder, story)
    return story


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
            ("posterior (certified)", Posterior()),
            ("paper, tuned by Algorithm 2", TunedPaper(paper, Grid(score_sensitivity=ScoreSensitivity.PUBLISHED))),
        ):
            yield name, mechanism, Budget(epsilon, 0.0 if isinstance(mechanism, Laplace) else DELTA)
    yield "k-anonymity, K = 50, add-one", KAnonymity(50), None
    yield "k-anonymity, K = 50, public", KAnonymity(50, Suppressed.PUBLIC), None


def _compare(folder: Path, population: Population, counts: UserCounts, vocabulary: Vocabulary, step: Step) -> Story:
    prior = public_distribution(vocabulary.counts)
    rows = [comparison_row("public text alone", None, kl_divergence(counts.totals, prior))]
    (folder / "releases").mkdir()
    shown: Release | None = None
    for name, mechanism, budget in candidates(population.users):
        epsilon = f", ε = {budget.epsilon:g}" if budget else ""
        with step(f"Releasing by {name}{epsilon}"):
            release = mechanism.release(counts, vocabulary, budget)
            release.save(folder / "releases" / _folder_name(release))
        rows.append(comparison_row(name, release, kl_divergence(counts.totals, release.probabilities)))
        if release.card.mechanism == SHOWN:  # the last one, at the largest ε
            shown = release
    for epsilon_of_best in EPSILONS:
        with step(f"Searching the paper's best settings, ε = {epsilon_of_best:g}"):
            rows.append(_best_paper(population.users, counts, vocabulary, Budget(epsilon_of_best, DELTA)))
    rows.sort(key=lambda row: (row["epsilon"] is None, row["epsilon"]))
    assert shown is not None  # noqa: S101 - it is among the candidates
    card, moved = shown.card, most_moved(shown, prior, how_many=12)
    leaks = _leaks(folder / "releases", population)
    return Story(rows, *moved, norm_bins(card), card.sources, card.details.get(DETAIL, {}), *leaks)


def _folder_name(release: Release) -> str:
    """For example laplace-max_total-10-epsilon-0.1."""
    card = release.card
    knobs = [f"{knob}-{card.settings[knob]}" for knob in ("max_total", "k", "suppressed") if knob in card.settings]
    return "-".join([card.mechanism, *knobs, *([f"epsilon-{card.epsilon:g}"] if card.epsilon else [])])


def _best_paper(users: int, counts: UserCounts, vocabulary: Vocabulary, budget: Budget) -> dict[str, Any]:
    """The paper's mechanism at the (S, ρ) with the smallest KL: an oracle, which no release could use."""
    best: tuple[float, Release] | None = None
    for slope, rho in product(BEST_SLOPES, BEST_RHOS):
        release = Paper(*paper_bounds(users), slope=slope, rho=rho).release(counts, vocabulary, budget)
        kl = kl_divergence(counts.totals, release.probabilities)
        best = (kl, release) if best is None or kl < best[0] else best
    assert best is not None  # noqa: S101 - the grid is not empty
    return comparison_row("paper, best S and ρ *", best[1], best[0])


def _leaks(releases: Path, population: Population) -> tuple[int, int]:
    """How many secrets there are that only one user knows, and how many can be pieced together from a release."""
    released = {ngram for folder in releases.iterdir() for ngram in Release.load(folder).ngrams.to_pylist()}
    secrets = [secret.text for secret in population.secrets if secret.kind != "canary"]  # a canary's words are public
    return len(secrets), sum(_trigrams(secret) <= released for secret in secrets)


def _trigrams(text: str) -> set[str]:
    sentences = Tokenizer().sentences(text)
    return {" ".join(words[i : i + ORDER]) for words in sentences for i in range(len(words) - ORDER + 1)}


def _write_results(folder: Path, story: Story) -> None:
    """results.json for machines, results.csv for a spreadsheet."""
    document = {"warning": DISCLOSURE, **asdict(story)}
    del document["norms"]  # in the release's card, with its infinite last edge
    (folder / RESULTS).write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    with (folder / "results.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, story.rows[0])
        writer.writeheader()
        writer.writerows(story.rows)
