"""A small world for discoveries: what is public, and people who write what is not."""

import numpy as np
import pyarrow as pa

from bayesgram.io import read_records
from bayesgram.mechanisms.discovery import DiscoveryMechanism, LocalText, Settings
from bayesgram.privacy.budget import Budget
from bayesgram.private.candidates import CandidateRounds
from bayesgram.public.candidate_weights import PublicTextModel
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.tokenizer import Tokenizer

BUDGET = Budget(1.0, 1e-7)
MEMORY = 1 << 28


def make_vocabulary():
    """Words and a few phrases."""
    words = [
        "the",
        "red",
        "fish",
        "swims",
        "in",
        "cold",
        "water",
        "and",
        "people",
        "like",
        "it",
        "very",
        "much",
    ]
    ngrams = pa.array([*words, "the red", "red fish", "in cold", "the red fish"], pa.large_string())
    return Vocabulary(ngrams, np.arange(len(ngrams), 0, -1) * 100, 3, Tokenizer())


PUBLIC = PublicTextModel.from_vocabulary(make_vocabulary())


def make_table(said):
    """(user, text) rows as a table."""
    users, texts = (pa.array([row[place] for row in said], pa.string()) for place in (0, 1))
    return pa.table({"user": users, "text": texts})


def make_records(said):
    return read_records(make_table(said), user_column="user", text_column="text")


def rows_of_people(number, *texts, name="user"):
    """So many people who write the same."""
    return [(f"{name} {place}", text) for place in range(number) for text in texts]


def make_mechanism(rounds, budget=BUDGET, **settings):
    chosen = Settings.for_vocabulary(PUBLIC.vocabulary, rounds=rounds, **settings)
    return DiscoveryMechanism(chosen, budget, chosen.calibrate(budget))


def reserve_nothing():
    """In place of a ledger."""


def measure(the_mechanism, said, noise, reserve=reserve_nothing):
    """What comes through the door: n-grams and their noisy weights."""
    ngrams, weights = the_mechanism.measure(
        LocalText(make_records(said), MEMORY), PUBLIC, noise, reserve
    )
    return dict(zip(ngrams.to_pylist(), weights.tolist(), strict=True))


def candidate_texts_and_logs(lists):
    """The texts and public log weights of all candidates, by their numbers."""
    texts = lists.ngrams(np.arange(len(lists))).to_pylist()
    return texts, np.concatenate([lists.log_weights(block) for block in range(len(lists.blocks))])


def candidates_by_user(lists):
    """The numbers of every user's candidates, for users who have any."""
    found = []
    for sizes, candidates in lists.users:
        found += np.split(candidates, np.cumsum(sizes)[:-1])
    return [own.tolist() for own in found if own.size]


def sum_weights(lists, weights):
    """One round by any weights of all candidates."""
    blocks = lists.new_array_blocks("some weights")
    for number, (first, last) in enumerate(lists.blocks):
        blocks[number] = weights[first:last]
    return np.concatenate(list(CandidateRounds(lists).sums(blocks)))


MANY_PEOPLE = rows_of_people(400, "people like zog", "the red zog. very much zog") + rows_of_people(
    60, "blip it", name="other"
)
