"""A public model moved by a release: the grammar of public text, with the words of these people.

In:  a back-off model of public text, n-grams and their lifts λ = log θ/π.   Out: the model moved. With λ(h w) for the
n-grams of a release, and h′ for h without its first word,

    p′(w|h) = p(w|h) exp(β R(w|h)) / Z(h)
    R(w|h) = λ(h w) − λ(h)  where the release has h w,  else R(w|h′), and 0 for words that it lacks
    Z(h) = Σ p(w|h) exp(β R(w|h)) + bow(h) (Z(h′) − Σ p(w|h′) exp(β R(w|h′))),  sums over the words that follow h

so p′ is a back-off model again, exactly, with the same n-grams: what a context does not list moves as its shorter one
does. β < 1, for lifts are shrunk for themselves and not for what they do together. The model of the people of a release
is that, with some of the release's own model, which knows best where much was measured. Post-processing: costs no
privacy. Does not read text.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arrays import Floats, Ids, Integers
from bayesgram.released.interpolation import children_of, mixed
from bayesgram.released.language_model import LanguageModel
from bayesgram.released.refitting import refitted
from bayesgram.released.release import Release
from bayesgram.released.trie import Trie
from bayesgram.text.ngrams import ngram_orders
from bayesgram.text.tokens import buffers

BELIEVED = 0.85  # β: of what lifts say
OWN_SHARE = 0.3  # of the release's own model in that of the people; from 0.2 to 0.4 it hardly matters
LARGEST = 8.0  # |β R| is at most this: no word is e⁸ times as likely as public text says by lifts alone
LEAST = 1e-12  # of Z(h), for words that h does not list, where rounding leaves nothing


def people_model(release: Release, public: LanguageModel, prior: Floats) -> LanguageModel:
    """The language model of the people of a release; `prior` is π of its n-grams, 0 of those not to be moved."""
    own, known = LanguageModel.from_release(release), (prior > 0) & (release.probabilities > 0)
    lifts = np.zeros(prior.size)
    np.log(np.divide(release.probabilities, prior, where=known, out=np.ones(prior.size)), out=lifts)
    trie = moved(public.trie, release.ngrams.filter(pa.array(known)), lifts[known])
    return replace(own, trie=mixed([trie, own.trie], np.array([1 - OWN_SHARE, OWN_SHARE])))


def moved(trie: Trie, ngrams: pa.LargeStringArray, lifts: Floats, *, believed: float = BELIEVED) -> Trie:
    """The same n-grams with their probabilities moved."""
    probabilities = _moved_probabilities(trie, _exponents(trie, _own_lifts(trie, ngrams, lifts), believed))
    return refitted(trie, probabilities)


def _own_lifts(trie: Trie, ngrams: pa.LargeStringArray, lifts: Floats) -> Floats:
    """λ of every node that the release has; nan for the others, 0 for the root."""
    found = np.full(trie.word.size, np.nan)
    found[0] = 0.0
    orders = ngram_orders(ngrams)
    words = _word_numbers(trie, ngrams)
    starts = np.cumsum(orders) - orders
    for order in range(1, min(int(orders.max(initial=0)), trie.order) + 1):
        rows = np.flatnonzero(orders == order)
        nodes = np.zeros(rows.size, np.int64)
        for at in range(order):
            nodes = children_of(trie, nodes, words[starts[rows] + at], at + 1)
        found[nodes[nodes > 0]] = lifts[rows[nodes > 0]]
    return found


def _word_numbers(trie: Trie, ngrams: pa.LargeStringArray) -> Ids:
    """The tokens of all n-grams as numbers of the model's words; −1 for one that it lacks."""
    tokens = pc.split_pattern(ngrams, " ").flatten().cast(pa.large_binary()).dictionary_encode()
    numbers: Ids = trie.words.find(*buffers(tokens.dictionary))[tokens.indices.to_numpy()]
    return numbers


def _exponents(trie: Trie, lifts: Floats, believed: float) -> list[Floats]:
    """β R of every n-gram, order by order; fills the lifts of those that the release lacks."""
    moves = np.zeros(lifts.size)
    for order in range(1, trie.order + 1):
        nodes = trie.nodes(order)
        parents = trie.parents[nodes]
        inherited = moves[trie.suffix[nodes]] if order > 1 else np.zeros(nodes.stop - nodes.start)
        own = lifts[nodes] - lifts[parents]
        moves[nodes] = np.where(np.isnan(own), inherited, own)
        lifts[nodes] = np.where(np.isnan(lifts[nodes]), lifts[parents] + inherited, lifts[nodes])
    bounded = np.clip(believed * moves, -LARGEST, LARGEST)
    return [bounded[trie.nodes(order)] for order in range(1, trie.order + 1)]


def _moved_probabilities(trie: Trie, exponents: list[Floats]) -> list[Floats]:
    """p′ of every n-gram, order by order."""
    whole = _scaled(trie, exponents[0], 1)
    sums = np.array([whole.sum()])  # Z(h) of the contexts of the order below
    found, unscaled = [whole / sums[0]], whole
    for order in range(2, trie.order + 1):
        nodes, below = trie.nodes(order), trie.nodes(order - 1)
        parents, suffixes = trie.parents[nodes] - below.start, trie.suffix[nodes] - below.start
        whole, size = _scaled(trie, exponents[order - 1], order), below.stop - below.start
        shorter = sums[_contexts_without_first(trie, order - 1)]
        rest = np.maximum(shorter - np.bincount(parents, unscaled[suffixes], size), LEAST * shorter)
        sums = np.bincount(parents, whole, size) + 10.0 ** trie.log_backoff[below] * rest
        found.append(whole / sums[parents])
        unscaled = whole
    return found


def _scaled(trie: Trie, exponents: Floats, order: int) -> Floats:
    """P(w|h) exp(β R(w|h)); <s> is given, never predicted."""
    scaled: Floats = 10.0 ** trie.log_probability[trie.nodes(order)].astype(np.float64) * np.exp(exponents)
    if order == 1:
        scaled[trie.special[0]] = 0.0
    return scaled


def _contexts_without_first(trie: Trie, order: int) -> Integers:
    """Where h′ stands among the contexts one word shorter, for each h of an order: the root is the only empty one."""
    suffixes: Integers = trie.suffix[trie.nodes(order)].astype(np.int64) - trie.nodes(order - 1).start
    return suffixes
