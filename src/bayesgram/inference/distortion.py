"""What clipping would cost: how far the distribution of all text moves when those who write a lot count for less.

In:  noisy numbers of users and n-grams by norm and, where they were asked, with which words people of each norm begin
their n-grams.   Out: the KL to expect of every Λ.
Over posts, blogs, reviews, single sentences, commits and made-up people it was the same multiple of how unevenly text
counts after clipping (unevenness), at every Λ; from people to people the multiple, called the rate, goes from 0.01 to
0.2. Two things make it. Chance: a few people's text stands for less, which amounts alone tell. And manner: those who
write a lot may write differently. First words, in a few groups, show a steady part of that: the KL of all n-grams was
20 to 80 times theirs. The share of a group drifts with the norm, along a line and a random walk; how fast is learnt
from the noisy shares, and is as usual where noise hides it. Does not count or add noise.
"""

import math
from dataclasses import dataclass

import numpy as np

from bayesgram.arrays import Floats, Ids
from bayesgram.inference.measured import PublicNgrams

FIRST_WORD_GROUPS = 8  # groups of first words
MOST_EVEN = 1000  # of the most frequent words are shared out evenly; the others, one after the other
KL_OF_ALL = {1: 20.0, 2: 42.0}  # KL of n-grams, over that of their first words by groups; of longer ones LONGER
LONGER = 60.0
USUAL_RATE = 0.03  # KL by manner, over unevenness
RATE_DEVIATION = 1.0  # of its logarithm, from people to people
TRUST = 0.7  # in a rate that first words tell without noise: KL_OF_ALL differs from people to people
LEAST_UNEVEN = 0.01  # people whose norms differ less than this are taken for people who differ by this
LEAST_RATE = 1e-4  # nobody is so much alike
NARROW = 0.1  # nobody's manner drifts faster than that of people whose norms differ by this, squared
STEPS = 1.0  # variance of the random walk, where the slope of the line has 1
RARITY = 8.0  # KL per squared log norm between those who write one n-gram: a rare one makes its text long by itself
CHANCE = 0.3  # half of the n-grams that are there; fewer are than public text says
SHARE_DEVIATION = 0.22  # of a share from that of public text, times √FIRST_WORD_GROUPS: private text is not public text
RATES = 2.0 ** np.arange(-7, 5)  # of drift, over the usual


@dataclass(frozen=True, eq=False)
class FirstWords:
    """With which words people of each norm begin: noisy sums over users of the share that begins with each group."""

    shares: Floats  # groups of bins × FIRST_WORD_GROUPS
    noise: float  # standard deviation of each
    groups: Ids  # of every bin


def first_word_groups(public: PublicNgrams) -> Ids:
    """The group of each n-gram's first word: groups are about as frequent as one another in public text."""
    first = public.words[:, 0]
    rates, filled = np.bincount(first, public.prior, public.word_total), np.zeros(FIRST_WORD_GROUPS)
    ranked = np.argsort(-rates, kind="stable")
    groups = np.empty(public.word_total, np.int32)
    groups[ranked] = np.arange(public.word_total) % FIRST_WORD_GROUPS
    for word in ranked[:MOST_EVEN]:
        groups[word] = np.argmin(filled)
        filled[groups[word]] += rates[word]
    found: Ids = groups[first]
    return found


@dataclass(frozen=True, eq=False)
class Distortion:
    """KL by clipping, as a function of what it leaves of the text in each bin of norms."""

    written: Floats  # the part of all text
    rate: float  # KL, over unevenness

    def lost(self, left: Floats) -> float:
        """The part of all text that is lost, where these parts are left."""
        return 1 - float(self.written @ left)

    def cost(self, left: Floats) -> float:
        """Of clipping that leaves these parts."""
        return self.rate * _unevenness(self.written, left)


def distortion(
    positions: Floats, users: Floats, written: Floats, public: PublicNgrams, first_words: FirstWords | None
) -> Distortion:
    """For people with so many users and n-grams in bins at these logarithms of norms; some must have written."""
    total, times = float(written.sum()), KL_OF_ALL.get(public.words.shape[1], LONGER)
    weights, lightest = written / total, np.exp(-positions)  # what is left, but for a factor, of all but everything
    moved = weights * (1 - lightest / float(weights @ lightest))
    uneven = max(_unevenness(weights, lightest), LEAST_UNEVEN)
    drift, rarity = _drift(positions, weights), _rarity(positions, weights, users, written)
    usual = drift * (2 * USUAL_RATE * uneven / max(float(moved @ drift @ moved), NARROW))

    def rate(moments: Floats) -> float:
        return max(float(moved @ moments @ moved) / 2 / uneven, LEAST_RATE)

    expected = rate(usual + rarity)
    if first_words is not None:
        learnt = rate(_learnt(usual / times, rarity / times, users, first_words) * times)
        expected = learnt**TRUST * expected ** (1 - TRUST)
    there = float((1 - np.exp(-total * public.prior)).sum())
    return Distortion(weights, expected + CHANCE * there / total)


def _unevenness(written: Floats, left: Floats) -> float:
    """Variance over all text of how much it counts after clipping, where its mean is 1."""
    kept = float(written @ left)
    return max(float(written @ left**2) / kept**2 - 1, 0.0)


def _drift(positions: Floats, weights: Floats) -> Floats:
    """Covariance of what bins differ in by manner: a line through the middle of all text, and a random walk from it."""
    away = positions - float(weights @ positions)
    return np.outer(away, away) + STEPS * _walk(away)


def _rarity(positions: Floats, weights: Floats, users: Floats, written: Floats) -> Floats:
    """That of what bins differ in because few n-grams make a text: the rarer they are, the larger its norm."""
    there = written > 0
    amounts = np.maximum(written[there] / np.maximum(users[there], 1.0), 1.0)
    amounts = np.exp(np.interp(positions, positions[there], np.log(amounts)))
    speed = 1 / amounts**2
    way = np.concatenate([[0.0], np.cumsum(np.diff(positions) * (speed[1:] + speed[:-1]) / 2)])
    return 2 * RARITY * _walk(way - float(weights @ way))


def _walk(away: Floats) -> Floats:
    """Covariance of a random walk in both directions from 0."""
    far = np.abs(away)
    walked: Floats = (far[:, None] + far - np.abs(away[:, None] - away)) / 2
    return walked


def _learnt(usual: Floats, rarity: Floats, users: Floats, first_words: FirstWords) -> Floats:
    """Expected squares and products of what bins differ in, Σ over first words, given noisy shares.

    Shares of the G groups are scaled by √G, so that the sum of their squares is the χ² distance from 1/G each. Only
    how they differ from one another counts, which has one dimension less. Drifts of every rate are weighed by how well
    they predict what was measured.
    """
    free = FIRST_WORD_GROUPS - 1
    seen = math.sqrt(FIRST_WORD_GROUPS) * (first_words.shares - first_words.shares.mean(axis=1, keepdims=True))
    people = np.zeros((len(seen), users.size))
    people[first_words.groups, np.arange(users.size)] = users
    noise = FIRST_WORD_GROUPS * first_words.noise**2 * np.eye(len(seen))
    found, likely = [], []
    for rate in RATES:
        expected = (rate * usual + rarity) / free + SHARE_DEVIATION**2
        covariance = people @ expected @ people.T + noise
        root = np.linalg.cholesky(covariance)
        misfit = float((np.linalg.solve(root, seen) ** 2).sum()) / 2 + free * float(np.log(np.diag(root)).sum())
        likely.append(-misfit - (math.log(rate) / RATE_DEVIATION + RATE_DEVIATION / 2) ** 2 / 2)
        gain = np.linalg.solve(covariance, people @ expected).T
        means = gain @ seen
        found.append(means @ means.T + free * (expected - gain @ people @ expected))
    trust = np.exp(np.array(likely) - max(likely))
    learnt: Floats = np.tensordot(trust / trust.sum(), np.array(found), 1)
    return learnt
