"""What is public text worth, near or far, and what does it cost where it is no use?

    python benchmarks/public_text.py COUNTS VOCAB [--epsilons 0.1,1] [--runs 3]

COUNTS: a counts folder or a Parquet file of user, ngram, count; VOCAB of one order. Prints the KL
of public text alone and the median KL of `posterior` over runs with fresh noise: with each source
by itself; with all; with one and two more whose counts are those of the first, shuffled; and with
Laplace noise on all public counts (the right end of the paper's figure 4), beside `laplace` at its
best W, which uses no public text.
"""

import argparse
from statistics import median

import numpy as np

from bayesgram.audit.evaluation import kl_divergence
from bayesgram.mechanisms.base import CountsMechanism
from bayesgram.mechanisms.laplace import Laplace
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.privacy.budget import Budget
from bayesgram.private.counts_io import load_counts
from bayesgram.public.mixture import SourceCounts
from bayesgram.public.vocabulary import Vocabulary

DELTA = 1e-7
BOUNDS = (1, 3, 10, 30)  # W of the Laplace mechanism
NOISE = (4_200, 42_000)  # on public counts


def with_useless_sources(vocabulary: Vocabulary, number: int) -> Vocabulary:
    """And so many sources of shuffled counts."""
    randomness = np.random.default_rng(5)
    names = vocabulary.source_names if vocabulary.sources else ["public"]
    known = [
        SourceCounts(name, counts)
        for name, counts in zip(names, vocabulary.counts_by_source, strict=True)
    ]
    useless = [
        SourceCounts(f"useless{at}", randomness.permutation(known[0].counts))
        for at in range(number)
    ]
    return Vocabulary.from_source_counts(
        vocabulary.ngrams, [*known, *useless], vocabulary.order, vocabulary.tokenizer
    )


def alone(vocabulary: Vocabulary, source: SourceCounts) -> Vocabulary:
    """The same n-grams as one source has them."""
    return Vocabulary(vocabulary.ngrams, source.counts, vocabulary.order, vocabulary.tokenizer)


def with_noise(vocabulary: Vocabulary, scale: float) -> Vocabulary:
    """One source, its counts hidden by noise."""
    noise = np.random.default_rng(3).laplace(0, scale, len(vocabulary))
    counts = np.maximum(np.rint(vocabulary.counts + noise), 0).astype(np.int64)
    return Vocabulary(vocabulary.ngrams, counts, vocabulary.order, vocabulary.tokenizer)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("counts")
    parser.add_argument("vocab")
    parser.add_argument("--epsilons", default="0.1,1")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    vocabulary = Vocabulary.load(options.vocab)
    counts = load_counts(options.counts, vocabulary_size=len(vocabulary))
    epsilons = [float(epsilon) for epsilon in options.epsilons.split(",")]

    def loss(mechanism: CountsMechanism, public: Vocabulary, budget: Budget) -> float:
        made = [mechanism.release(counts, public, budget) for _ in range(options.runs)]
        return median(kl_divergence(counts.totals, each.probabilities) for each in made)

    def row(name: str, public: Vocabulary) -> None:
        losses = [loss(Posterior(), public, Budget(epsilon, DELTA)) for epsilon in epsilons]
        told = [kl_divergence(counts.totals, public.prior), *losses]
        print(" | ".join([name, *(f"{each:.4f}" for each in told)]), flush=True)

    print("| public text alone |", " | ".join(f"ε = {epsilon:g}" for epsilon in epsilons))
    for source in vocabulary.sources if len(vocabulary.sources) > 1 else ():
        row(source.name, alone(vocabulary, source))
    row("all", vocabulary)
    for number in (1, 2):
        row(f"and {number} useless", with_useless_sources(vocabulary, number))
    for scale in NOISE:
        row(f"noise of {scale} on counts", with_noise(vocabulary, scale))
    best = [
        min(loss(Laplace(bound), vocabulary, Budget(each)) for bound in BOUNDS) for each in epsilons
    ]
    print(" | ".join(["laplace, best W", "", *(f"{each:.4f}" for each in best)]))


if __name__ == "__main__":
    main()
