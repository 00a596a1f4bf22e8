"""Whether `posterior` should ask what clipping takes away (lost words).

KL with and without, at the same Λ.

    python benchmarks/lost_words.py VOCAB COUNTS [--epsilons 0.1] [--clip-norms 2] [--runs 3]

COUNTS: a counts folder or a Parquet file of user, ngram, count, made with VOCAB. Users are asked
how much they write in both cases, so that the two differ by the look alone. Prints the KL of every
run and the model that was chosen: a look costs little noise, but may change which model seems best.
"""

import argparse
from statistics import median
from unittest.mock import patch

import numpy as np

from bayesgram.audit.evaluation import kl_divergence
from bayesgram.inference import design
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.privacy.budget import Budget
from bayesgram.private.counts_io import load_counts
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.card_sections import order_details

DELTA = 1e-7
BELIEFS = [
    (0.0, 10.0),
    (1.0, 0.0),
]  # what a look is said to recover and to cost, so that it is not taken, and taken


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("vocab")
    parser.add_argument("counts")
    parser.add_argument("--epsilons", default="0.1")
    parser.add_argument("--clip-norms", default="2")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    vocabulary = Vocabulary.load(options.vocab)
    counts = load_counts(options.counts, vocabulary_size=len(vocabulary))
    for epsilon in map(float, options.epsilons.split(",")):
        for norm in map(float, options.clip_norms.split(",")):
            for recovered, bias in BELIEFS:
                told = {
                    "CLIP_NORMS": np.array([norm]),
                    "RECOVERED_SHARE": recovered,
                    "CLIPPED_WORDS_KL": bias,
                }
                with patch.multiple(design, **told):
                    made = [
                        Posterior().release(counts, vocabulary, Budget(epsilon, DELTA), seed=seed)
                        for seed in range(options.runs)
                    ]
                found = [kl_divergence(counts.totals, each.probabilities) for each in made]
                asked = (
                    "asked" if "lost_norm" in order_details(made[0].card.details) else "not asked"
                )
                runs = "; ".join(
                    f"{kl:.4f} {each.card.details['model']}"
                    for kl, each in zip(found, made, strict=True)
                )
                print(
                    f"ε = {epsilon:g}, Λ = {norm:g}, {asked}: {median(found):.4f}   [{runs}]",
                    flush=True,
                )


if __name__ == "__main__":
    main()
