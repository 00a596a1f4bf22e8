"""What an experiment runs on: counts with their vocabulary, and smaller or worse versions of them.

In:  files, or a made-up crowd.   Out: `Data`; subsets of users, the head of the vocabulary, noisier public counts.
Subsets are nested and follow a keyed hash of the user's id, so they do not depend on the order of rows.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from bayesgram.arrays import Bools, Ids, Integers
from bayesgram.errors import UsageError
from bayesgram.experiments.crowd import Crowd
from bayesgram.kernels import kernel
from bayesgram.privacy.noise import SeededNoise
from bayesgram.private.clip_counts import user_keys
from bayesgram.private.counts import UserCounts
from bayesgram.private.store import load_user_counts
from bayesgram.public.vocabulary import Vocabulary

SUBSET_KEY, HELD_OUT_KEY = 0x51AB5E7, 0x4E1D007  # sets these coins apart from those of the mechanisms
QUICK_SENTENCES, QUICK_PERSONAS, QUICK_POOL = 100_000, 128, 48  # a smaller library for a smaller crowd


@dataclass(frozen=True, eq=False)
class Data:
    """Counts and vocabulary; `users` is the round figure that C and W follow (errata E10)."""

    counts: UserCounts
    vocabulary: Vocabulary
    users: int
    source: str
    public_noise: float = 0.0  # scale of the Laplace noise on the public counts

    def fewer_users(self, users: int) -> "Data":
        """About this share of the users, chosen by a coin each."""
        if users >= self.users:
            return self
        coins = user_keys(self.counts, key=SUBSET_KEY)
        chosen = coins < np.uint64(int(users / self.users * 2**64))
        return replace(self, counts=_part(self.counts, chosen, len(self.vocabulary)), users=users)

    def smaller_vocabulary(self, size: int) -> "Data":
        """The `size` n-grams that public text has most often, and what is counted of them."""
        if size >= len(self.vocabulary):
            return self
        everybody = np.ones(len(self.counts.users), np.bool_)
        whole = self.vocabulary
        head = whole.taken(slice(size))
        return replace(self, counts=_part(self.counts, everybody, size), vocabulary=head)

    def noisier_public(self, scale: float) -> "Data":
        """Public counts with Laplace noise, rounded, below 0 set to 0; the n-grams stay. The seed is fixed."""
        whole = self.vocabulary
        noise = SeededNoise(20210426).laplace(np.zeros(len(whole)), scale=scale)
        noisy = np.maximum(np.rint(whole.counts + noise), 0).astype(np.int64)
        return replace(
            self, vocabulary=Vocabulary(whole.ngrams, noisy, whole.order, whole.tokenizer), public_noise=scale
        )

    def split(self, share: float) -> tuple["Data", UserCounts]:
        """Data without a share of the users, and the counts of those: a coin each."""
        held = user_keys(self.counts, key=HELD_OUT_KEY) < np.uint64(int(share * 2**64))
        rest = _part(self.counts, ~held, len(self.vocabulary))
        users = round(self.users * (1 - share))
        return replace(self, counts=rest, users=users), _part(self.counts, held, len(self.vocabulary))


def given(counts: Path, vocab: Path) -> Data:
    """Somebody's files."""
    vocabulary = Vocabulary.load(vocab)
    if len(vocabulary.parts) > 1:
        raise UsageError(f"{vocab}: has n-grams of several orders; the paper's experiments take one, such as 3.")
    read = load_user_counts(counts, vocabulary_size=len(vocabulary))
    read.check_vocabulary(len(vocabulary), vocabulary.fingerprint)
    return Data(read, vocabulary, round_figure(len(read.users)), "given counts")


def generated(users: int, size: int, *, quick: bool) -> Data:
    """A made-up crowd."""
    small = {"sentences": QUICK_SENTENCES, "personas": QUICK_PERSONAS, "pool": QUICK_POOL} if quick else {}
    crowd = Crowd(users=users, size=size, **small)
    return Data(crowd.counts(), crowd.vocabulary, users, f"made-up crowd, seed {crowd.seed}")


def round_figure(number: int) -> int:
    """Two digits: what a curator would say in public.

    >>> round_figure(978_966), round_figure(57)
    (980000, 57)
    """
    digits = int(10 ** max(len(str(number)) - 2, 0))
    return round(number / digits) * digits


def _part(counts: UserCounts, users: Bools, size: int) -> UserCounts:
    """The rows of these users below this n-gram; who has nothing left is left out."""
    sizes, ngrams, numbers = _rows_of(counts.starts, counts.ngrams, counts.counts, users, size)
    present = np.flatnonzero(sizes)
    starts = np.concatenate([[0], np.cumsum(sizes[present])])
    fingerprint = counts.vocabulary_fingerprint if size == counts.vocabulary_size else None
    return UserCounts(counts.users.take(pa.array(present)), starts, ngrams, numbers, size, fingerprint)


@kernel
def _rows_of(starts: Integers, ngrams: Ids, counts: Ids, users: Bools, size: int) -> tuple[Integers, Ids, Ids]:
    sizes = np.zeros(users.size, np.int64)
    for user in range(users.size):
        for at in range(starts[user], starts[user + 1] if users[user] else starts[user]):
            sizes[user] += ngrams[at] < size
    kept_ngrams = np.empty(sizes.sum(), np.int32)
    kept_counts = np.empty(sizes.sum(), np.int32)
    written = 0
    for user in range(users.size):
        for at in range(starts[user], starts[user] + sizes[user]):  # ascending: those below `size` come first
            kept_ngrams[written] = ngrams[at]
            kept_counts[written] = counts[at]
            written += 1
    return sizes, kept_ngrams, kept_counts
