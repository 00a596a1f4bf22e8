"""A made-up population at the paper's scale: counts of millions of users, without their text.

In: a number of users, a vocabulary, a seed. Out: `UserCounts`; user 17 is the same for any number
of users. The language is that of `population`: a library of its chat messages is written once, for
a thousand personas (who keep their habits of speech) and every topic, and reduced to the n-grams
of the vocabulary. A user is a persona with favourite topics and writes a log-normal number of
messages. Each is taken from the persona's pool of the topic; now and then it is one of a few stock
messages of the user.

It is simpler than `population`: there are no secrets and nothing new, personas are shared by many
users, and nobody writes a message that is not in the library, so the tail of rare n-grams is that
of the library. Random numbers are a plain hash, not privacy noise.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bayesgram.arrays import Floats, Hashes, Ids, Integers
from bayesgram.cores import parallel_map
from bayesgram.errors import check_int
from bayesgram.kernels import kernel
from bayesgram.private.counts import UserCounts
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.synthetic.grammar import derive, unit_interval
from bayesgram.synthetic.population import (
    BELOW_1,
    TOPIC_PERSISTENCE,
    TOPICS_PER_USER,
    Population,
    cumulative_topic_chances,
    draw_activity,
    make_user_ids,
    write_chat_messages,
)

# A plausible crowd; no experiment chose these numbers.
ORDER = 3
STOCK_SHARE = 0.05  # of a user's messages are stock messages
STOCK_MESSAGES = 5  # stock messages of a user
# Limits on memory; not measured.
BATCH_SIZE = 1 << 16  # users that a thread makes in one go
LIBRARY_BATCH = 1 << 17  # library messages that are written in one go

# The streams that the seed, a user and a message branch into.
(
    _USER,
    _PERSONA,
    _LIBRARY,
    _COUNT,
    _WHO,
    _LIKES,
    _MESSAGE,
    _LOYAL,
    _TOPIC,
    _PLACE,
    _AGAIN,
    _WHICH,
) = np.arange(20, 32, dtype=np.uint64)


@dataclass(frozen=True)
class Crowd:
    """Made-up users over a vocabulary of their own public text."""

    users: int = 4_000_000
    size: int = 50_000  # V, the n-grams of the vocabulary
    seed: int = 7
    sentences: int = 1_000_000  # of public text
    personas: int = 1024
    pool: int = 128  # library messages of a persona on a topic

    def __post_init__(self) -> None:
        check_int("users", self.users, 1, 10_000_000, "the number of made-up users")
        check_int("size", self.size, 2, 200_000, "the number of n-grams in the vocabulary")

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The most frequent trigrams of public text."""
        text = Population(users=1, seed=self.seed).public_text(self.sentences)
        return Vocabulary.from_public(pa.Table.from_batches(text), order=ORDER, size=self.size)

    def counts(self) -> UserCounts:
        """Return the counts of everybody who has an n-gram of the vocabulary."""
        library = self._library_ngrams()
        chances = cumulative_topic_chances()
        keys = derive(derive(np.uint64(self.seed), _USER), np.arange(self.users, dtype=np.uint64))
        write = partial(
            _write_user_rows,
            library=library,
            chances=chances,
            personas=self.personas,
            pool=self.pool,
        )
        parts = [keys[first : first + BATCH_SIZE] for first in range(0, self.users, BATCH_SIZE)]
        written = parallel_map(
            lambda part: write(part, draw_activity(unit_interval(derive(part, _COUNT)))), parts
        )
        sizes, ngrams, counts = (np.concatenate(column) for column in zip(*written, strict=True))
        present = sizes > 0
        names = make_user_ids(keys[present]).cast(pa.large_string()).cast(pa.large_binary())
        starts = np.concatenate([[0], np.cumsum(sizes[present])])
        return UserCounts(
            names, starts, ngrams, counts, len(self.vocabulary), self.vocabulary.fingerprint
        )

    def _library_ngrams(self) -> tuple[Integers, Ids]:
        """Return the n-grams of every library message, by persona, topic and place in the pool.

        Returns:
            starts and ngrams: message m has ngrams[starts[m] : starts[m + 1]].
        """
        batches = list(self._library_batches())
        sizes = np.concatenate([batch_sizes for batch_sizes, _ in batches])
        starts = np.concatenate([[0], np.cumsum(sizes)])
        return starts, np.concatenate([ngrams for _, ngrams in batches])

    def _library_batches(self) -> Iterator[tuple[Integers, Ids]]:
        """Write library messages; yield how many n-grams each has, and these n-grams."""
        topics = len(cumulative_topic_chances())
        for first in range(0, self.personas * topics * self.pool, LIBRARY_BATCH):
            places = np.arange(
                first, min(first + LIBRARY_BATCH, self.personas * topics * self.pool)
            )
            keys = derive(derive(np.uint64(self.seed), _LIBRARY), places.astype(np.uint64))
            personas = (places // (topics * self.pool)).astype(np.uint64)
            owners = derive(derive(np.uint64(self.seed), _PERSONA), personas)
            texts = write_chat_messages(keys, owners, places // self.pool % topics).cast(
                pa.large_string()
            )
            matches = list(
                self.vocabulary.matcher.match([(texts, np.arange(len(texts), dtype=np.int32))])
            )
            rows, ngrams = (np.concatenate(column) for column in zip(*matches, strict=True))
            yield np.bincount(rows, minlength=places.size), ngrams.astype(np.int32)


@kernel
def _choose_topic(key: np.uint64, likes: np.uint64, chances: Floats, leaning: float) -> int:
    """Return a message's topic: mostly one of the user's favourites.

    Those who write a lot lean to the later topics.
    """
    liked = unit_interval(derive(key, _LOYAL)) / TOPIC_PERSISTENCE
    topic = derive(likes, np.uint64(liked * TOPICS_PER_USER)) if liked < 1 else derive(key, _TOPIC)
    return int(
        np.searchsorted(chances, min(unit_interval(topic) ** leaning, BELOW_1), side="right")
    )


@kernel
def _write_user_rows(
    keys: Hashes,
    written: tuple[Integers, Floats],
    library: tuple[Integers, Ids],
    chances: Floats,
    personas: int,
    pool: int,
) -> tuple[NDArray[np.int64], Ids, Ids]:
    """Return the counts of these users.

    Returns:
        How many n-grams each user has, the n-grams, ascending, and their counts.
    """
    lengths, leanings = written
    first, bank = library
    ngrams = np.empty(1 << 22, np.int32)
    counts = np.empty(1 << 22, np.int32)
    row = np.empty(1 << 10, np.int32)
    sizes = np.zeros(keys.size, np.int64)
    at = 0
    for user in range(keys.size):
        persona = int(unit_interval(derive(keys[user], _WHO)) * personas)
        likes = derive(keys[user], _LIKES)
        messages = derive(keys[user], _MESSAGE)
        filled = 0
        for nth in range(lengths[user]):
            key = derive(messages, np.uint64(nth))
            if unit_interval(derive(key, _AGAIN)) < STOCK_SHARE:
                key = derive(
                    messages, np.uint64(unit_interval(derive(key, _WHICH)) * STOCK_MESSAGES)
                )
            place = int(unit_interval(derive(key, _PLACE)) * pool)
            message = (
                persona * chances.size + _choose_topic(key, likes, chances, leanings[user])
            ) * pool + place
            for i in range(first[message], first[message + 1]):
                if filled == row.size:
                    row = np.concatenate((row, np.empty_like(row)))
                row[filled] = bank[i]
                filled += 1
        if at + filled > ngrams.size:
            ngrams = np.concatenate((ngrams, np.empty_like(ngrams)))
            counts = np.concatenate((counts, np.empty_like(counts)))
        sizes[user] = _merge_counts(row[:filled], ngrams[at:], counts[at:])
        at += sizes[user]
    return sizes, ngrams[:at].copy(), counts[:at].copy()


@kernel
def _merge_counts(row: Ids, ngrams: Ids, counts: Ids) -> int:
    """Sort a row and add up equal n-grams; return how many different ones there are."""
    row.sort()
    size = 0
    for ngram in row:
        if size and ngrams[size - 1] == ngram:
            counts[size - 1] += 1
        else:
            ngrams[size] = ngram
            counts[size] = 1
            size += 1
    return size
