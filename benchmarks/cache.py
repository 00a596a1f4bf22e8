"""How much should the words of a text count while it is being written?

`python benchmarks/cache.py` measures it.

A model of public chat predicts every next word of the messages of made-up people, whose messages
come one after the other as one text. Printed, for each share of the cache: how often the word was
the first suggestion, and among three.
"""

import argparse
from itertools import pairwise

import pyarrow as pa

from bayesgram import Vocabulary
from bayesgram.lm import LanguageModel
from bayesgram.synthetic.population import Population

SHARES = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
PEOPLE, WORDS = 40, 100
# The people on whom the share was chosen; another seed makes others: python benchmarks/cache.py 77
CHOSEN_ON = 5


def main() -> None:
    """Print a line for each share."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("seed", nargs="?", type=int, default=CHOSEN_ON)
    options = parser.parse_args()
    public = pa.Table.from_batches(list(Population(seed=11).public_chat(100_000)))
    vocabulary = Vocabulary.from_public(public, order=(1, 2, 3), size=20_000)
    model = LanguageModel.from_counts(vocabulary.ngrams, vocabulary.counts, vocabulary.tokenizer)
    texts = people(options.seed)
    for share in SHARES:
        first = third = total = 0
        for sentences in texts:
            written = ""
            for sentence in sentences:
                for before, word in pairwise(["", *sentence]):
                    written += before + " "
                    found = [each.word for each in model.predict(written, 3, cache=share)]
                    first, third, total = (
                        first + (word in found[:1]),
                        third + (word in found),
                        total + 1,
                    )
                written += sentence[-1] + ". "
        print(
            f"cache {share:.2f}: first {first / total:.2%}, three {third / total:.2%} of {total:,} words"
        )


def people(seed: int) -> list[list[list[str]]]:
    """The first words of those who write most, as sentences."""
    messages = next(Population(users=2000, seed=seed).messages()).to_pandas()
    texts = messages.groupby("user")["text"].apply(" \n ".join)
    tokenizer = Vocabulary.from_public(pa.table({"text": ["a b"]}), order=2, size=1).tokenizer
    cut = sorted(
        (tokenizer.sentences(text) for text in texts), key=lambda found: -sum(map(len, found))
    )
    return [shortened(sentences) for sentences in cut[:PEOPLE]]


def shortened(sentences: list[list[str]]) -> list[list[str]]:
    """As many sentences as have about WORDS words."""
    kept: list[list[str]] = []
    for sentence in sentences:
        if sum(map(len, kept)) < WORDS:
            kept.append(sentence)
    return kept


if __name__ == "__main__":
    main()
