"""The adapted transformer on many posts.

What `bayesgram.lm.adapt` gives, computed row by row instead of word by word.

    python benchmarks/adapted.py PUBLIC.PT --vocab vocab.parquet --posts posts.parquet --release out-0.2 out-1 \
        --model model-0.2 model-1 [--public-model model] [--weights 0.85,0.3] [--held-out 9000] [--suggestions 2000]
        [--check 10]

PUBLIC.PT: the transformer that `dp_sgd.py train` saves. Models: of `bayesgram export --format
model`, one for each release. The posts are those that `dp_sgd.py` holds out. Prints for the
transformer and every adaptation the perplexity of words and sentence ends, and how often the next
word was the first suggestion, and one of three. A transformer reads a row of text at once, and an
n-gram model fills a row of probabilities in one kernel, so this is many times faster than
`dp_sgd.py adapt`; --check runs `bayesgram.lm.adapt` itself on the first posts and ends if it says
otherwise. Sentences of more than 128 words begin afresh there. Needs torch; no GPU.
"""

import argparse
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from dp_sgd import END, HELD_OUT, LENGTH, SEED, UNKNOWN, as_numbers, judge, rows_of, word_list
from numba import njit
from numpy.typing import NDArray
from transformer import Learner, Size, TransformerScorer

import bayesgram as bg
from bayesgram.lm.adaptation import DEFAULT_SHARE, DEFAULT_STRENGTH, WordLifts
from bayesgram.lm.scoring import extract_events

Array = NDArray[Any]
ROWS = 8  # that the transformer reads at once


@dataclass(frozen=True, eq=False)
class Tables:
    """An n-gram model over the transformer's words, as one kernel reads it."""

    single: Array  # p of each word without a context
    word: Array  # of each n-gram, the transformer's number of its last word; −1 where it has none
    likely: Array  # p of each n-gram
    backoff: Array  # the factor of each context
    first_child: Array
    suffix: Array

    @classmethod
    def of(cls, model: bg.lm.LanguageModel, words: list[str]) -> "Tables":
        """The model has all of the transformer's words."""
        trie, numbers = model.trie, {word: number for number, word in enumerate(words)}
        own = np.array([numbers.get(word.decode(), -1) for word in trie.words.to_list()], np.int32)
        if (own >= 0).sum() != len(words):
            raise SystemExit(
                "adapted.py: the n-gram model lacks words of the transformer; give models of its words."
            )
        likely = (10.0**trie.log_probability).astype(np.float32)
        single = np.empty(len(words), np.float32)
        single[own[own >= 0]] = likely[trie.nodes(1)][own >= 0]
        backoff = (10.0**trie.log_backoff).astype(np.float32)
        return cls(
            single,
            np.append(own, -1).astype(np.int32)[trie.word],
            likely,
            backoff,
            trie.first_child,
            trie.suffix,
        )


@dataclass(frozen=True, eq=False)
class Adaptation:
    """How far the transformer's words are moved, and what is mixed in."""

    label: str
    lifts: Array
    share: float = 0.0
    tables: Tables | None = None
    expected: Array = field(default_factory=lambda: np.zeros(0))  # q of every prediction
    states: Array = field(default_factory=lambda: np.zeros(0))  # and its context


@njit(cache=True, fastmath=True)
def mix(
    moved: Array, share: float, states: Array, single: Array, word: Array, likely: Array, backoff: Array,
    first_child: Array, suffix: Array, row: Array,
) -> None:  # fmt: skip
    """Make (1 − λ) p′ + λ q of each row of p′, in place; `row` is room for q."""
    for at in range(len(moved)):
        node, chain, length = states[at], np.empty(16, np.int64), 0
        while node:
            chain[length], length, node = node, length + 1, suffix[node]
        factor = 1.0
        for place in range(length):
            factor *= backoff[chain[place]]
        for number in range(row.size):
            row[number] = factor * single[number]
        for place in range(length - 1, -1, -1):
            factor /= backoff[chain[place]]
            for child in range(first_child[chain[place]], first_child[chain[place] + 1]):
                if word[child] >= 0:
                    row[word[child]] = factor * likely[child]
        for number in range(row.size):
            moved[at, number] = (1 - share) * moved[at, number] + share * row[number]


@njit(cache=True)
def ranks(likely: Array, targets: Array, shown: int) -> Array:
    """How many of the first words, which are those that are shown, are likelier than what followed."""
    found = np.zeros(targets.size, np.int64)
    for at in range(targets.size):
        own = likely[at, targets[at]]
        for number in range(shown):
            found[at] += likely[at, number] > own
    return found


class Judge:
    """Adds up what each adaptation says."""

    def __init__(self, adaptations: list[Adaptation], words: int) -> None:
        self.adaptations, self.end = adaptations, words - 2
        self.logs = dict.fromkeys((each.label for each in adaptations), 0.0)
        self.right = {each.label: np.zeros(2) for each in adaptations}
        self.predictions = self.suggested = 0
        self.row = np.empty(words, np.float32)
        self.factors = np.exp(np.stack([each.lifts for each in adaptations], axis=1)).astype(
            np.float32
        )

    def add(self, plain: Array, targets: Array, *, suggest: bool) -> None:
        """The next predictions, by the transformer's p.

        Z(h) of all adaptations is one product of matrices.
        """
        totals = plain @ self.factors
        own = plain[np.arange(targets.size), targets]
        moved = (own[:, None] * self.factors[targets] / totals).astype(np.float64)
        here = slice(self.predictions, self.predictions + targets.size)
        for number, each in enumerate(self.adaptations):
            likely = moved[:, number]
            if each.tables is not None:
                likely = (1 - each.share) * likely + each.share * each.expected[here]
            self.logs[each.label] += float(np.log(likely).sum())
            if suggest:
                every = plain * self.factors[:, number] / totals[:, number, None]
                self.right[each.label] += self._right(each, every, targets, each.states[here])
        self.predictions += targets.size
        self.suggested += int((targets != self.end).sum()) if suggest else 0

    def _right(self, each: Adaptation, likely: Array, targets: Array, states: Array) -> list[int]:
        """How often what follows is the first of the words that are shown, and one of three."""
        if each.tables is not None:
            tables = each.tables
            arrays = (
                tables.single,
                tables.word,
                tables.likely,
                tables.backoff,
                tables.first_child,
                tables.suffix,
            )
            mix(likely, each.share, states, *arrays, self.row)
        above = np.where(targets < self.end, ranks(likely, targets, self.end), 3)
        return [int((above < 1).sum()), int((above < 3).sum())]

    def results(self) -> dict[str, dict[str, float]]:
        """Perplexity and suggestions."""
        return {
            label: {
                "perplexity": float(np.exp(-total / self.predictions)),
                "first": float(self.right[label][0] / self.suggested),
                "third": float(self.right[label][1] / self.suggested),
            }
            for label, total in self.logs.items()
        }


def adaptations(given: argparse.Namespace, words: list[str], held: list[str]) -> list[Adaptation]:
    """Those of the table, the transformer itself first."""
    vocabulary, nothing = bg.Vocabulary.load(given.vocab), np.zeros(len(words))
    text = pa.array(held, pa.large_string()).cast(pa.large_binary())

    def mixed(label: str, lifts: Array, share: float, path: Path) -> Adaptation:
        model = bg.lm.LanguageModel.load(path)
        scores, _, states = model.trie.score(model.encode_texts(text))
        return Adaptation(label, lifts, share, Tables.of(model, words), 10**scores, states)

    found = [Adaptation("the transformer", nothing)]
    if given.public_model:
        found.append(mixed("and public n-grams", nothing, DEFAULT_SHARE, given.public_model))
    for number, path in enumerate(given.release):
        release = bg.Release.load(path)
        lifts = WordLifts.from_release(release, vocabulary).for_words(words)
        found.append(Adaptation(f"{release.card.claim}, words moved", DEFAULT_STRENGTH * lifts))
        for strength, share in given.weights:
            label = f"{release.card.claim}, and n-grams, {strength:g}, {share:g}"
            found.append(mixed(label, strength * lifts, share, given.model[number]))
    return found


def check(
    given: argparse.Namespace, words: list[str], held: list[str], found: dict[str, dict[str, float]]
) -> None:
    """The same by `bayesgram.lm.adapt`, word by word."""
    vocabulary, scorer = (
        bg.Vocabulary.load(given.vocab),
        TransformerScorer(words, given.transformer),
    )
    release = bg.Release.load(given.release[0])
    model, (strength, share) = bg.lm.LanguageModel.load(given.model[0]), given.weights[0]
    adapted = bg.lm.adapt(scorer, release, vocabulary, model=model, strength=strength, share=share)
    label = f"{release.card.claim}, and n-grams, {strength:g}, {share:g}"
    said = judge({label: adapted}, extract_events(words, vocabulary.tokenizer, held), words)[label]
    for name, value in found[label].items():
        if abs(value - said[name]) > 1e-3 * value:
            raise SystemExit(
                f"adapted.py: {name} is {value} here, and {said[name]} by bayesgram.lm.adapt."
            )
    print(f"bayesgram.lm.adapt says the same of {len(held)} posts: {json.dumps(said)}", flush=True)


@torch.no_grad()
def judged(
    given: argparse.Namespace, words: list[str], tokenizer: Any, held: list[str]
) -> dict[str, dict[str, float]]:
    """All adaptations, on these posts."""
    saved = torch.load(given.transformer, weights_only=True)
    learner = Learner(len(words), Size(*saved["size"]))
    learner.load(given.transformer)
    network = learner.model.eval()
    stream, ends = as_numbers(words, tokenizer, held)
    suggestions = int(ends[min(given.suggestions, len(held)) - 1])
    targets, sentences = (
        torch.tensor(each).long() for each in rows_of(stream, words.index(END), LENGTH)
    )
    judge_all = Judge(adaptations(given, words, held), len(words))
    for first in range(0, len(targets), ROWS):
        some = slice(first, first + ROWS)
        known = targets[some] >= 0
        logits = network(
            targets[some].to(learner.device), sentences[some].to(learner.device)
        ).cpu()[known]
        plain = torch.softmax(logits.float(), dim=1).numpy()
        judge_all.add(
            plain, targets[some][known].numpy(), suggest=judge_all.predictions < suggestions
        )
        if first // ROWS % 40 == 39:
            print(
                f"{judge_all.predictions:,} of {stream.size:,}: {json.dumps(judge_all.results())}",
                flush=True,
            )
    print(f"suggestions: of {judge_all.suggested:,} words")
    return judge_all.results()


def main() -> None:
    """Print a row for each adaptation."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("transformer", type=Path)
    parser.add_argument("--vocab", type=Path, required=True)
    parser.add_argument("--posts", type=Path, required=True)
    parser.add_argument("--release", type=Path, nargs="+", required=True)
    parser.add_argument(
        "--model", type=Path, nargs="+", required=True, help="the n-gram model of each release"
    )
    parser.add_argument(
        "--public-model", type=Path, help="a public n-gram model, for a row without a release"
    )
    parser.add_argument(
        "--weights", nargs="+", default=[f"{DEFAULT_STRENGTH},{DEFAULT_SHARE}"], help="β,λ"
    )
    parser.add_argument("--held-out", type=int, default=HELD_OUT)
    parser.add_argument(
        "--suggestions", type=int, default=HELD_OUT, help="posts on which suggestions are counted"
    )
    parser.add_argument(
        "--check", type=int, default=10, help="posts that bayesgram.lm.adapt judges, too"
    )
    given = parser.parse_args()
    given.weights = [tuple(map(float, each.split(","))) for each in given.weights]
    words, tokenizer = word_list(given.vocab)
    if words[-2:] != [END, UNKNOWN]:
        raise SystemExit("adapted.py: the vocabulary has no words of order 1.")
    posts = pq.read_table(given.posts)["text"].to_pylist()
    held = [
        posts[row] for row in np.random.default_rng(SEED).permutation(len(posts))[: given.held_out]
    ]
    if given.check:
        some = held[: given.check]
        check(given, words, some, judged(given, words, tokenizer, some))
    for label, values in judged(given, words, tokenizer, held).items():
        print(
            f"| {label} | {values['perplexity']:.1f} | {values['first']:.1%} | {values['third']:.1%} |"
        )


if __name__ == "__main__":
    main()
