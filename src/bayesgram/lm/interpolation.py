"""Several back-off models mixed into one: p(w|h) = Σ_k λ_k p_k(w|h), as SRILM's static mixing.

In:  models that cut text alike, and weights λ (or public text that tunes them, by EM).   Out: one back-off model.
It has every n-gram of every model, with the mixed probability; what a model lacks, its own back-off gives. The back-off
weights make each context add up to one. Of words that no n-gram lists after a context, the mixed model says
bow(h) p(w|h′), which is near the mixture of the models and not equal to it: no back-off model can hold that.

Words: those of all models together. A model's <unk> stands for all words that it lacks, together; so a word that only
others have gets a part of its <unk>: in proportion to the mean probability that the others give the word, against the
smallest <unk> of all, which stays for words that nobody has. So each p_k is a distribution over the same words, and
λ can be tuned. In a context, such a word is <unk> to the model. A model with λ = 0 is left out, its words too.
Does not prune, and does not look at private text: weights tuned on it would disclose it.

A public model moved by a release: the grammar of public text, with the words of these people.

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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arguments import check_arguments
from bayesgram.arrays import Floats, Ids, Integers
from bayesgram.errors import Argument, BayesgramError, UsageError
from bayesgram.kernels import kernel
from bayesgram.lm.estimate import as_stored, fitted, logs, refitted, words_of
from bayesgram.lm.language_model import LanguageModel, made_from_told
from bayesgram.lm.packed import Words
from bayesgram.lm.search import SENTENCE_END
from bayesgram.lm.trie import MOST_NODES, Trie, connect, find_special
from bayesgram.releases.provenance import Provenance
from bayesgram.releases.release import Release
from bayesgram.text.ngrams import ngram_orders
from bayesgram.text.strings import StringTable
from bayesgram.text.tokenizer import Tokenizer, buffers

MOST_STEPS = 1000  # of EM
CLOSE_ENOUGH = 1e-7  # EM stops where no weight moves by more


@check_arguments
def interpolate(
    models: Sequence[LanguageModel], weights: Sequence[float] | Floats | None = None
) -> LanguageModel:
    """One model of several; equal weights if none are given. They are divided by their sum.

    >>> likes = LanguageModel.from_counts(pa.array(["i like", "like fish"]), [4, 4])
    >>> eats = LanguageModel.from_counts(pa.array(["i eat", "eat fish"]), [4, 4])
    >>> [interpolate([likes, eats], weights).predict("I", 1)[0].word for weights in ([0.7, 0.3], [0.3, 0.7])]
    ['like', 'eat']
    """
    _check_alike(models)
    shares = checked_weights(weights, len(models))
    parts = [
        {"weight": share, **model.about}
        for share, model in zip(shares.tolist(), models, strict=True)
    ]
    used = [model for share, model in zip(shares.tolist(), models, strict=True) if share > 0]
    provenance = Provenance()
    for model in used:
        provenance = provenance.joined(model.provenance)
    about: dict[str, Any] = {"interpolated": parts, **made_from_told(provenance)}
    boundaries = any(model.tokenizer.boundaries for model in models)
    tokenizer = replace(models[0].tokenizer, boundaries=boundaries)
    casing = {word: written for model in reversed(models) for word, written in model.casing.items()}
    return LanguageModel(mixed([model.trie for model in models], shares), tokenizer, about, casing)


def tune_weights(models: Sequence[LanguageModel], texts: Iterable[pa.LargeBinaryArray]) -> Floats:
    """The weights under which rows of public text are likeliest; words that no model has tell nothing."""
    _check_alike(models)
    words, members = _members([model.trie for model in models])
    unknown = find_special(words)[2]
    parts = [np.zeros((0, len(models)))]
    for rows in texts:
        stream = _stream(words, models[0].tokenizer, rows)
        columns = [member.likelihoods(stream) for member in members]
        parts.append(np.stack(columns, axis=1)[stream != unknown])
    likelihoods = np.concatenate(parts)
    if not len(likelihoods):
        raise BayesgramError(
            "the text to tune by has no words that a model knows; give other public text."
        )
    return likeliest_weights(likelihoods)


def likeliest_weights(likelihoods: Floats) -> Floats:
    """EM: the λ that make Π_i Σ_k λ_k p_ik largest; a row for each thing predicted, a column for each model."""
    scaled = likelihoods / likelihoods.max(axis=1, keepdims=True)
    weights: Floats = np.full(scaled.shape[1], 1 / scaled.shape[1])
    for _ in range(MOST_STEPS):
        before = weights
        weights = before * ((1 / (scaled @ before)) @ scaled) / len(scaled)
        weights /= weights.sum()
        if np.abs(weights - before).max() < CLOSE_ENOUGH:
            break
    return weights


def checked_weights(weights: Sequence[float] | Floats | None, models: int) -> Floats:
    """A weight for each model, adding up to one."""
    given = np.full(models, 1 / models) if weights is None else np.asarray(weights, np.float64)
    if given.shape != (models,):
        raise UsageError(f"weights: {given.size} for {models} models; give one for each.")
    if not (np.isfinite(given).all() and given.min() >= 0 and given.sum() > 0):
        shown = ", ".join(f"{weight:g}" for weight in given.tolist())
        raise UsageError.for_argument(
            "weights", shown, "each is a number from 0, and one is above 0."
        )
    shares: Floats = given / given.sum()
    return shares


def mixed(tries: Sequence[Trie], weights: Floats) -> Trie:
    """The back-off model Σ_k λ_k p_k of these; the weights add up to one."""
    words, members = _members(
        [trie for trie, weight in zip(tries, weights, strict=True) if weight > 0]
    )
    return _model(words, members, weights[weights > 0])


def _check_alike(models: Sequence[LanguageModel]) -> None:
    if len(models) < 2:
        raise UsageError(f"{len(models)} model: mixing takes two or more.")
    cuts = [replace(model.tokenizer, boundaries=False).name for model in models]
    if len(set(cuts)) > 1:
        raise UsageError(
            f"the models cut text in different ways ({'; '.join(cuts)}); mix those of one "
            "tokenizer. ARPA files don't say theirs: ",
            Argument("tokenizer"),
            " and ",
            Argument("lowercase"),
            " do.",
        )


@dataclass(frozen=True, eq=False)
class _Member:
    """One of the models, asked about the words of all."""

    trie: Trie
    own: Ids  # the model's number of each word of all; that of <unk> where it lacks the word
    to_all: Integers  # the other way
    share: Floats  # the part of the model's own probability that is the word's: 1, or less where it is <unk> there

    def likelihoods(self, stream: Ids) -> Floats:
        """P of everything in a stream of sentences; −1 is where one ends."""
        ends = stream == SENTENCE_END
        scores = self.trie.walk(np.where(ends, np.int32(SENTENCE_END), self.own[stream]))[0]
        likelihoods: Floats = 10**scores * np.where(ends, 1.0, self.share[stream])
        return likelihoods


def _members(tries: Sequence[Trie]) -> tuple[Words, list[_Member]]:
    """The words of all models, and how each model sees them."""
    lists = [pa.array(trie.words.all(), pa.large_binary()) for trie in tries]
    distinct = pc.unique(pa.concat_arrays(lists))
    ordered = distinct.take(pc.sort_indices(distinct))
    words = words_of(ordered)
    _check_overlap(lists, len(words))
    own = [
        pc.fill_null(pc.index_in(ordered, each), -1).to_numpy().astype(np.int32) for each in lists
    ]
    shares = _shares(tries, own, find_special(words)[2])
    return words, [
        _Member(
            trie,
            np.where(numbers < 0, np.int32(trie.special[2]), numbers),
            pc.index_in(each, ordered).to_numpy().astype(np.int64),
            share,
        )
        for trie, each, numbers, share in zip(tries, lists, own, shares, strict=True)
    ]


def _check_overlap(lists: list[pa.LargeBinaryArray], total: int) -> None:
    """Refuse models that have no word in common with any other: of two languages, or two ways to cut text."""
    marks = 3
    for at, words in enumerate(lists):
        others = pa.concat_arrays(
            [each for other, each in enumerate(lists) if other != at] or [words]
        )
        if len(lists) > 1 and total > marks and pc.sum(pc.is_in(words, others)).as_py() == marks:
            raise UsageError(
                f"model {at + 1} has no word in common with the others: they can't be about one language."
            )


def _shares(tries: Sequence[Trie], own: list[Ids], unknown: int) -> list[Floats]:
    """How each model's <unk> is divided: see the module."""
    has = np.stack([numbers >= 0 for numbers in own])
    given = [
        np.where(numbers >= 0, 10.0 ** _word_logs(trie)[numbers], 0.0)
        for trie, numbers in zip(tries, own, strict=True)
    ]
    expected = np.sum(given, axis=0) / has.sum(axis=0)
    expected[unknown] = min(each[unknown] for each in given)
    shares = []
    for known in has:
        divided = ~known
        divided[unknown] = True
        total = expected[divided].sum()
        alone = np.arange(expected.size) == unknown
        shares.append(np.where(divided, expected / total if total > 0 else alone, 1.0))
    return shares


def _word_logs(trie: Trie) -> Floats:
    found: Floats = trie.log_probability[trie.nodes(1)].astype(np.float64)
    return found


def _stream(words: Words, tokenizer: Tokenizer, texts: pa.LargeBinaryArray) -> Ids:
    """Rows of text as word numbers, −1 at the end of each sentence; what is not known is <unk>."""
    start, end, unknown = find_special(words)
    parts = [np.zeros(0, np.int32)]
    for data, offsets, _ in tokenizer.tokenize_chunks(texts):
        distinct = StringTable()  # each word is looked up once
        which = distinct.add(data, offsets)
        found = words.find(*buffers(distinct.strings()))
        found = np.where((found < 0) | (found == start) | (found == end), np.int32(unknown), found)
        parts.append(np.append(found, np.int32(SENTENCE_END))[which])
    return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class _Level:
    """The n-grams of one order of all models together, sorted; positions are counted from the first of an order."""

    rows: Ids  # as word numbers
    parents: Integers  # in the order below
    suffixes: Integers
    keys: Integers  # parent and last word as one number: ascending


@dataclass(frozen=True, eq=False)
class _Answers:
    """What one model says of the n-grams of a level."""

    node: Integers  # its own node, −1 where it has none
    probability: Floats  # of the last word after the others
    backoff: Floats  # 1 where the context is not known


def _model(words: Words, members: list[_Member], weights: Floats) -> Trie:
    """Order by order: the n-grams of all, what each model says of them, the mixture, the back-off weights."""
    level = _first_level(len(words))
    answers = [_of_words(member, find_special(words)[0]) for member in members]
    places = [member.to_all for member in members]  # of each model's own nodes of this order
    probabilities = [as_stored(_normalised(_mix(answers, weights)))]
    levels, backoffs = [level.rows], []
    for order in range(2, max(member.trie.order for member in members) + 1):
        longer, places = _next_level(level, members, places, order)
        answers = [
            _of_level(member, answer, longer, order)
            for member, answer in zip(members, answers, strict=True)
        ]
        probability, factors = fitted(
            _mix(answers, weights),
            probabilities[-1][longer.suffixes],
            longer.parents,
            len(level.rows),
        )
        levels.append(longer.rows)
        probabilities.append(probability)
        backoffs.append(factors)
        level = longer
    return connect(
        levels, words, [logs(each) for each in probabilities], [np.log10(each) for each in backoffs]
    )


def _first_level(words: int) -> _Level:
    numbers, nothing = np.arange(words, dtype=np.int64), np.zeros(words, np.int64)
    return _Level(numbers[:, None].astype(np.int32), nothing, nothing, numbers)


def _next_level(
    level: _Level, members: list[_Member], places: list[Integers], order: int
) -> tuple[_Level, list[Integers]]:
    """The n-grams one word longer; and where those of each model stand among them."""
    words = members[0].own.size
    keys = [
        _keys(member, place, order, words) if order <= member.trie.order else np.zeros(0, np.int64)
        for member, place in zip(members, places, strict=True)
    ]
    together = np.concatenate(keys)
    together.sort(kind="stable")  # each model's are in order: runs are merged
    distinct = together[np.concatenate([[True], together[1:] != together[:-1]])[: together.size]]
    if distinct.size > MOST_NODES:
        raise BayesgramError(
            f"{distinct.size:,} n-grams: a model holds {MOST_NODES:,}; prune the models first."
        )
    parents, last = distinct // words, distinct % words
    rows = np.concatenate([level.rows[parents], last[:, None].astype(np.int32)], axis=1)
    suffixes = _suffixes(level, parents, last, words)
    return _Level(rows, parents, suffixes, distinct), [
        np.searchsorted(distinct, each) for each in keys
    ]


def _suffixes(level: _Level, parents: Integers, last: Integers, words: int) -> Integers:
    """Where each n-gram without its first word stands in the level: looked for among those that begin alike."""
    contexts = level.suffixes[parents]
    first = np.searchsorted(level.parents, np.arange(level.suffixes.max(initial=0) + 2))
    found: Integers = _places(level.keys, first, contexts, contexts * words + last)
    return found


@kernel
def _places(keys: Integers, first: Integers, contexts: Integers, wanted: Integers) -> Integers:
    """Where keys stand that are there, each looked for among those of its context only."""
    found = np.empty(wanted.size, np.int64)
    for at in range(wanted.size):
        low, high = first[contexts[at]], first[contexts[at] + 1]
        while low < high:
            middle = (low + high) // 2
            if keys[middle] < wanted[at]:
                low = middle + 1
            else:
                high = middle
        found[at] = low
    return found


def _keys(member: _Member, place: Integers, order: int, words: int) -> Integers:
    """One number for the context and the last word of each n-gram of a model, among those of all."""
    trie, nodes = member.trie, member.trie.nodes(order)
    keys: Integers = (
        place[trie.parents[nodes] - trie.nodes(order - 1).start] * words
        + member.to_all[trie.word[nodes]]
    )
    return keys


def _of_words(member: _Member, start: int) -> _Answers:
    nodes = 1 + member.own.astype(np.int64)
    probability = 10.0 ** _word_logs(member.trie)[member.own] * member.share
    probability[start] = 0.0  # given, never predicted
    return _Answers(nodes, probability, _own_backoffs(member.trie, nodes))


def _of_level(member: _Member, shorter: _Answers, level: _Level, order: int) -> _Answers:
    """p_k(w|h): the model's own where it has the n-gram, else its back-off weight of h times p_k(w|h′)."""
    trie, last = member.trie, level.rows[:, -1]
    nodes = children_of(trie, shorter.node[level.parents], member.own[last], order)
    known = np.flatnonzero(nodes >= 0)
    probability = shorter.backoff[level.parents] * shorter.probability[level.suffixes]
    own = 10.0 ** trie.log_probability[nodes[known]].astype(np.float64)
    probability[known] = own * member.share[last[known]]
    return _Answers(nodes, probability, _own_backoffs(trie, nodes))


def children_of(trie: Trie, contexts: Integers, words: Ids, order: int) -> Integers:
    """The nodes of contexts (−1 is none) with a word more; −1 where there is none."""
    if order > trie.order or trie.nodes(order).stop == trie.nodes(order).start:
        return np.full(contexts.size, -1, np.int64)
    nodes, size = trie.nodes(order), len(trie.words)
    keys = trie.parents[nodes].astype(np.int64) * size + trie.word[nodes]
    wanted = contexts * size + words
    at = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    return np.where((keys[at] == wanted) & (contexts >= 0), nodes.start + at, -1)


def _own_backoffs(trie: Trie, nodes: Integers) -> Floats:
    factors = np.ones(nodes.size)
    contexts = np.flatnonzero((nodes >= 0) & (nodes < trie.contexts))
    factors[contexts] = 10.0 ** trie.log_backoff[nodes[contexts]].astype(np.float64)
    return factors


def _mix(answers: list[_Answers], weights: Floats) -> Floats:
    total: Floats = np.sum(
        [weight * each.probability for weight, each in zip(weights, answers, strict=True)], axis=0
    )
    return total


def _normalised(probability: Floats) -> Floats:
    """Models of other tools add up to one within a ten-thousandth."""
    whole: Floats = probability / probability.sum()
    return whole


BELIEVED = 0.85  # β: of what lifts say
OWN_SHARE = (
    0.3  # of the release's own model in that of the people; from 0.2 to 0.4 it hardly matters
)
LARGEST = (
    8.0  # |β R| is at most this: no word is e⁸ times as likely as public text says by lifts alone
)
LEAST = 1e-12  # of Z(h), for words that h does not list, where rounding leaves nothing


def people_model(release: Release, public: LanguageModel, prior: Floats) -> LanguageModel:
    """The language model of the people of a release; `prior` is π of its n-grams, 0 of those not to be moved."""
    own, known = LanguageModel.from_release(release), (prior > 0) & (release.probabilities > 0)
    lifts = np.zeros(prior.size)
    np.log(np.divide(release.probabilities, prior, where=known, out=np.ones(prior.size)), out=lifts)
    trie = moved(public.trie, release.ngrams.filter(pa.array(known)), lifts[known])
    return replace(own, trie=mixed([trie, own.trie], np.array([1 - OWN_SHARE, OWN_SHARE])))


def moved(
    trie: Trie, ngrams: pa.LargeStringArray, lifts: Floats, *, believed: float = BELIEVED
) -> Trie:
    """The same n-grams with their probabilities moved."""
    probabilities = _moved_probabilities(
        trie, _exponents(trie, _own_lifts(trie, ngrams, lifts), believed)
    )
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
    scaled: Floats = 10.0 ** trie.log_probability[trie.nodes(order)].astype(np.float64) * np.exp(
        exponents
    )
    if order == 1:
        scaled[trie.special[0]] = 0.0
    return scaled


def _contexts_without_first(trie: Trie, order: int) -> Integers:
    """Where h′ stands among the contexts one word shorter, for each h of an order: the root is the only empty one."""
    suffixes: Integers = (
        trie.suffix[trie.nodes(order)].astype(np.int64) - trie.nodes(order - 1).start
    )
    return suffixes
