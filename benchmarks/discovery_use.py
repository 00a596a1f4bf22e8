"""What a discovery is worth.

Held-out text by a release with the public vocabulary, and with the grown one, at one ε.

    python benchmarks/discovery_use.py VOCAB TRAIN HELD_OUT [--epsilon 2] [--shares 0,0.25,0.5] [--model public.model]

VOCAB: vocab.parquet of orders 1 to 3. TRAIN: Parquet with `user` and `text`. HELD_OUT: Parquet with
`text`. A share of ε (and of δ = 1e-7) goes to `discover`, the rest to `release`; share 0 is a
release with the public vocabulary alone. Prints of each:

cover        the share of held-out words, pairs and triples that the vocabulary lists; bits
of a character of held-out text. An unknown word costs <unk> by the model of the release times its
letters
             by a model of public words (that of VOCAB in every row), so every row is a distribution over all text, and
             a model that knows fewer words has no less to guess;
perplexity   of words and sentence ends, by the same probabilities.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from discovery import read_users
from from_text import bayesgram

from bayesgram.io.atomic import spill_folder
from bayesgram.lm.language_model import LanguageModel
from bayesgram.private.streaming import read_user_text
from bayesgram.public.candidate_weights import (
    PublicTextModel,
    SpellingModel,
    window_log_probabilities,
)
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.release import Release
from bayesgram.text.tokenizer import chunks

DELTA = 1e-7
MEMORY = 1 << 30


def coverage(vocabulary: Vocabulary, held_out: Path) -> list[float]:
    """The share of n-grams of each order, from 1 on, that are listed."""
    public, orders = (
        PublicTextModel.from_vocabulary(vocabulary),
        [part.order for _, part in vocabulary.by_order],
    )
    windows, new = np.zeros(len(orders)), np.zeros(len(orders))
    with spill_folder() as scratch:
        tokens, records = public.new_token_table(), read_users(held_out, None)
        text = read_user_text(records, vocabulary.tokenizer, tokens, scratch, memory=MEMORY)
        novelty = public.candidate_weigher(tokens, orders)
        for users in text:
            steps = novelty.likelihood.conditional_log_probabilities(users.tokens, max(orders))
            windows += [
                (window_log_probabilities(steps, order) > -np.inf).sum() for order in orders
            ]
            marks = novelty.likelihood.start, novelty.likelihood.end  # of sentences: no words
            windows[0] -= np.isin(users.tokens, marks).sum()
            new += (novelty.log_weights(users.tokens) > -np.inf).sum(axis=1)
    found: list[float] = (1 - new / windows).tolist()
    return found


def cost(
    model: LanguageModel, spelling: SpellingModel, texts: pa.LargeBinaryArray
) -> tuple[float, float]:
    """Bits of a character, and perplexity of words and sentence ends."""
    nats, characters, words = 0.0, 0, 0
    for chunk in chunks(texts):
        data, offsets, _ = model.tokenizer.tokenize(chunk)
        numbers, data, offsets = (
            model.encode_tokens(data, offsets),
            data.copy(),
            offsets.astype(np.int64),
        )
        given = pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), offsets.size - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        )
        unknown = given.filter(pa.array(numbers == model.trie.special[2]))
        nats -= (
            model.trie.score(numbers)[0].sum() * np.log(10)
            + spelling.log_probabilities(unknown).sum()
        )
        characters += (
            int(offsets[-1] - offsets[0]) + numbers.size
        )  # of words, and what is between them
        words += numbers.size
    return nats / np.log(2) / characters, float(np.exp(nats / words))


def released(
    vocab: Path, train: Path, epsilon: float, share: float, model: Path | None, folder: Path
) -> Path:
    """Discover, count and release; the vocabulary that it was done with."""
    if share:
        parts = [
            "--epsilon",
            share * epsilon,
            "--delta",
            share * DELTA,
            "--force",
            "-o",
            folder / "found",
        ]
        given = ["--model", model] if model else []
        bayesgram("discover", train, "--vocab", vocab, *parts, *given)
        vocab = folder / "found" / "vocab.parquet"
    bayesgram("count", train, "--vocab", vocab, "-o", folder / "counts", "--force")
    budget = ["--epsilon", (1 - share) * epsilon, "--delta", (1 - share) * DELTA]
    bayesgram(
        "release", folder / "counts", "--vocab", vocab, *budget, "-o", folder / "out", "--force"
    )
    return vocab


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each share."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("vocab", type=Path)
    parser.add_argument("train", type=Path)
    parser.add_argument("held_out", type=Path)
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--shares", default="0,0.25,0.5")
    parser.add_argument("--model", type=Path)
    options = parser.parse_args(arguments)
    words = Vocabulary.load(options.vocab).by_order[0][1].ngrams.cast(pa.large_binary())
    spelling = SpellingModel.from_words(words)
    texts = (
        pq.read_table(options.held_out, columns=["text"])["text"]
        .cast(pa.large_binary())
        .combine_chunks()
    )
    for share in map(float, options.shares.split(",")):
        with tempfile.TemporaryDirectory() as name:
            vocab = released(
                options.vocab, options.train, options.epsilon, share, options.model, Path(name)
            )
            vocabulary, release = Vocabulary.load(vocab), Release.load(Path(name) / "out")
            sizes = ", ".join(f"{len(part):,}" for _, part in vocabulary.by_order)
            cover = ", ".join(f"{part:.2%}" for part in coverage(vocabulary, options.held_out))
            bits, perplexity = cost(LanguageModel.from_release(release), spelling, texts)
            told = f"bits {bits:.4f}, perplexity {perplexity:.1f}"
            print(
                f"ε {options.epsilon:g}, share {share:g}: {sizes}; cover {cover}; {told}",
                flush=True,
            )


if __name__ == "__main__":
    main()
