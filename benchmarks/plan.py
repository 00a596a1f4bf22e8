"""How far a plan is from what comes out.

KL and the share that is known, planned and real, for several people and ε.

A plan is told what is true of the people: how many there are, how much they write on average and
how unevenly, and how far they are from public text (√(2 KL), as of log-normal ratios). Who guesses
will be further off. "known" is the share of what people write whose probability the release's own
deviations put within a factor of 2, and "right" the share whose released probability is within that
factor of what they wrote. Seeded: nothing here is a release.

    python benchmarks/plan.py [--users 20000] [--size 2000] [--epsilons 0.2,1,4]
    python benchmarks/plan.py --vocab vocab.parquet --counts counts.parquet     # other people
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import bayesgram as bg
from bayesgram.audit.evaluation import kl_divergence
from bayesgram.planning.plan import plan
from bayesgram.releases.card_sections import order_details
from bayesgram.releases.intervals import KNOWN_FACTOR, accuracy_share
from bayesgram.synthetic.crowd import Crowd
from bayesgram.synthetic.population import Population


@dataclass(frozen=True, eq=False)
class People:
    """Somebody's counts, and what they are called."""

    name: str
    vocabulary: bg.Vocabulary
    counts: bg.UserCounts

    @property
    def ngrams_a_user(self) -> np.ndarray:
        """How many n-grams each user wrote."""
        return np.add.reduceat(self.counts.counts, self.counts.starts[:-1])


def made_up(users: int, size: int) -> Iterator[People]:
    """A crowd of personas, and the people of the demo."""
    crowd = Crowd(users=users, size=size, sentences=50 * size, personas=256, pool=64)
    yield People("crowd", crowd.vocabulary, crowd.counts())
    text = pa.Table.from_batches(Population(users=1, seed=7).public_text(15 * size))
    vocabulary = bg.Vocabulary.from_public(text, order=3, size=size)
    messages = pa.Table.from_batches(Population(users=users, seed=1).messages())
    yield People("demo", vocabulary, bg.count(messages, vocabulary).listed_only)


def stored(vocab: str, counts: str) -> People:
    """Counts that are there already."""
    vocabulary = bg.Vocabulary.load(vocab)
    return People(
        counts, vocabulary, bg.load_counts(counts, vocabulary_size=len(vocabulary)).listed_only
    )


def compared(people: People, epsilon: float) -> str:
    """One row of the table."""
    ngrams_a_user = people.ngrams_a_user
    far = float(np.sqrt(2 * kl_divergence(people.counts.totals, people.vocabulary.prior)))
    told = {
        "ngrams_a_user": float(ngrams_a_user.mean()),
        "unevenness": float(np.log(ngrams_a_user).std()),
        "difference": far,
    }
    planned = plan(people.vocabulary, users=len(ngrams_a_user), **told, epsilon=[epsilon]).rows[0]
    made = bg.release(
        people.counts, people.vocabulary, bg.Posterior(), bg.Budget(epsilon, 1e-7), seed=1
    )
    share = accuracy_share(KNOWN_FACTOR, made.probabilities, made.probability_std).mass_share
    p = people.counts.totals / people.counts.totals.sum()
    with np.errstate(divide="ignore"):
        right = float(p[np.abs(np.log(p / made.probabilities)) <= np.log(KNOWN_FACTOR)].sum())
    kl = kl_divergence(people.counts.totals, made.probabilities)
    clippings = [*made.measurements.clipping.values()]
    lost = clippings[-1][0] if clippings else float("nan")
    return (
        f"| {people.name} | {epsilon:g} | {planned.kl:.3f} | {kl:.3f} | {planned.known_share:.0%} | {share:.0%} | {right:.0%}"
        f" | {order_details(made.card.details)['clip_norm_used']:.2g} | {lost:.0%} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--size", type=int, default=2_000)
    parser.add_argument("--epsilons", default="0.2,1,4")
    parser.add_argument("--vocab")
    parser.add_argument("--counts")
    given = parser.parse_args()
    print(
        "| people | ε | KL, planned | KL | known, planned | known by the card | right | Λ | clipped away |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    everyone = (
        [stored(given.vocab, given.counts)] if given.counts else made_up(given.users, given.size)
    )
    for people in everyone:
        for epsilon in map(float, given.epsilons.split(",")):
            print(compared(people, epsilon), flush=True)


if __name__ == "__main__":
    main()
