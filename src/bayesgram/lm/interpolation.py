"""Combining backoff models: static interpolation, and public models adapted by a release.

Interpolation, p(w|h) = Σ_k λ_k p_k(w|h), as SRILM's static mixing. In go models that cut text
alike, and weights λ (or public text that they are fitted to, by EM); out comes one backoff model.
It has every n-gram of every model, with the mixed probability; what a model lacks, its own backoff
gives. The backoff weights make each context add up to one. Of words that no n-gram lists after a
context, the mixed model says bow(h) p(w|h′), which is near the mixture of the models and not equal
to it: no backoff model can hold that.

Words are those of all models together. A model's <unk> stands for all words that it lacks,
together; so a word that only others have gets a part of its <unk>: in proportion to the mean
probability that the others give the word, against the smallest <unk> of all, which stays for words
that nobody has. So each p_k is a distribution over the same words, and λ can be fitted. In a
context, such a word is <unk> to the model. A model with λ = 0 is left out, its words too. Nothing
is pruned, and private text must not be looked at: weights fitted to it would disclose it.

Adaptation of a public model: the grammar of public text, with the words of the people of a release.
With the lifts λ = log θ/π of the release's n-grams, and h′ for h without its first word,

    p′(w|h) = p(w|h) exp(β R(w|h)) / Z(h)
    R(w|h) = λ(h w) − λ(h)  where the release has h w,  else R(w|h′), and 0 for words that it lacks
    Z(h) = Σ p(w|h) exp(β R(w|h)) + bow(h) (Z(h′) − Σ p(w|h′) exp(β R(w|h′)))

with sums over the words that follow h. So p′ is a backoff model again, exactly, with the same
n-grams: what a context does not list moves as its shorter one does. β < 1, for lifts are shrunk for
themselves and not for what they do together.

The model of the people of a release has three parts (`ReleaseMixture`):

    p(w|h) = (1 − ω) ((1 − s(h)) p′(w|h) + s(h) d(w|h)) + ω p_release(w|h)

p′ is the adapted public model, p_release the backoff model of the release by itself. d uses the
expected counts E of the release where it lists h w, and gives the other words what is left, in the
proportions of p′ (count merging):

    d(w|h) = E(hw)/E(h) if the release lists h w,  else p′(w|h) (1 − Σ E(hv)/E(h)) / (1 − Σ p′(v|h))

with sums over the words v that the release lists after h. s(h) is large where the release knows
these counts well: s(h) = S Σ E(hv) k(hv) / Σ E(hv), k = 1/(1 + (std/θ)²). Of words
without a context, d is p_release. This is post-processing and costs no privacy.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bayesgram.arguments import check_arguments
from bayesgram.arrays import Floats, Ids, Integers
from bayesgram.cores import parallel_map
from bayesgram.errors import Argument, BayesgramError, UsageError
from bayesgram.kernels import kernel
from bayesgram.lm.estimate import fit_backoffs, refit, round_to_stored, to_log10
from bayesgram.lm.language_model import LanguageModel, expected_counts, provenance_details
from bayesgram.lm.packed import Words
from bayesgram.lm.search import SENTENCE_END
from bayesgram.lm.trie import MAX_NODES, Trie, assemble_trie, find_special
from bayesgram.releases.provenance import Provenance
from bayesgram.releases.release import Release
from bayesgram.text.ngrams import ngram_orders, ngram_tokens
from bayesgram.text.strings import StringTable
from bayesgram.text.tokenizer import Tokenizer, buffers

# EM stops after so many steps, or where no weight changes by more. Chosen by hand.
MAX_EM_STEPS = 1000
EM_TOLERANCE = 1e-7
SPECIAL_WORDS = 3  # <s>, </s> and <unk>, which all models have

# β, how much of what lifts say is believed: as in `adaptation`, a round number from experiments
# with public posts (benchmarks/adapted.py).
LIFT_STRENGTH = 0.85
# ω, the weight of the release's own model; and S, the largest weight of merged counts. Chosen by
# benchmarks/adapted_ngrams.py on five populations: from 0.2 to 0.4, and from 0.5 to 0.9, the
# perplexity changes by less than 1%.
RELEASE_MODEL_SHARE = 0.3
MERGED_SHARE = 0.7
# The least share of a context's count that goes to words that the release does not list after it,
# as counts of two orders are clipped differently. Same experiment.
MIN_UNLISTED_SHARE = 0.2
# |β R| is at most this: by lifts alone, no word is e⁸ times as likely as public text says. Not
# measured.
MAX_EXPONENT = 8.0
# Part of Z(h) for words that h does not list, where rounding leaves nothing.
MIN_LEFTOVER_SHARE = 1e-12


# --- Interpolation ---


@check_arguments
def interpolate(
    models: Sequence[LanguageModel], weights: Sequence[float] | Floats | None = None
) -> LanguageModel:
    """Mix several models into one.

    Args:
        models: Two or more models that cut text alike.
        weights: A weight for each, which are divided by their sum; None for equal weights.

    >>> likes = LanguageModel.from_counts(pa.array(["i like", "like fish"]), [4, 4])
    >>> eats = LanguageModel.from_counts(pa.array(["i eat", "eat fish"]), [4, 4])
    >>> interpolate([likes, eats], [0.7, 0.3]).predict("I", 1)[0].word
    'like'
    >>> interpolate([likes, eats], [0.3, 0.7]).predict("I", 1)[0].word
    'eat'
    """
    _check_alike(models)
    shares = normalise_weights(weights, len(models))
    parts = [
        {"weight": share, **model.about}
        for share, model in zip(shares.tolist(), models, strict=True)
    ]
    used = [model for share, model in zip(shares.tolist(), models, strict=True) if share > 0]
    provenance = Provenance()
    for model in used:
        provenance = provenance.merge(model.provenance)
    about: dict[str, Any] = {"interpolated": parts, **provenance_details(provenance)}
    has_boundaries = any(model.tokenizer.boundaries for model in models)
    tokenizer = replace(models[0].tokenizer, boundaries=has_boundaries)
    casing = {
        word: spelling for model in reversed(models) for word, spelling in model.casing.items()
    }
    trie = mix_tries([model.trie for model in models], shares)
    return LanguageModel(trie, tokenizer, about, casing)


def fit_mixture_weights(
    models: Sequence[LanguageModel], texts: Iterable[pa.LargeBinaryArray]
) -> Floats:
    """Return the weights under which public text is likeliest.

    Args:
        models: Two or more models that cut text alike.
        texts: Rows of public text. Words that no model has are left out.

    Raises:
        BayesgramError: If the text has no words that a model knows.

    >>> likes = LanguageModel.from_counts(pa.array(["i like", "like fish"]), [4, 4])
    >>> eats = LanguageModel.from_counts(pa.array(["i eat", "eat fish"]), [4, 4])
    >>> text = pa.array([b"I like fish. I like it."], pa.large_binary())
    >>> weights = fit_mixture_weights([likes, eats], [text])
    >>> bool(weights[0] > weights[1]), round(float(weights.sum()), 6)
    (True, 1.0)
    """
    _check_alike(models)
    words, members = _match_words([model.trie for model in models])
    unknown = find_special(words).unknown
    parts = [np.zeros((0, len(models)))]
    for rows in texts:
        stream = _encode_texts(words, models[0].tokenizer, rows)
        columns = [member.likelihoods(stream) for member in members]
        parts.append(np.stack(columns, axis=1)[stream != unknown])
    likelihoods = np.concatenate(parts)
    if not len(likelihoods):
        raise BayesgramError(
            "the text to tune by has no words that a model knows; give other public text."
        )
    return maximise_likelihood(likelihoods)


def maximise_likelihood(likelihoods: Floats) -> Floats:
    """Return, by EM, the λ that make Π_i Σ_k λ_k p_ik largest.

    Args:
        likelihoods: p_ik: a row for each thing predicted, a column for each model.
    """
    scaled = likelihoods / likelihoods.max(axis=1, keepdims=True)
    weights: Floats = np.full(scaled.shape[1], 1 / scaled.shape[1])
    for _ in range(MAX_EM_STEPS):
        before = weights
        weights = before * ((1 / (scaled @ before)) @ scaled) / len(scaled)
        weights /= weights.sum()
        if np.abs(weights - before).max() < EM_TOLERANCE:
            break
    return weights


def normalise_weights(weights: Sequence[float] | Floats | None, model_count: int) -> Floats:
    """Return a weight for each model, adding up to one; equal ones if none are given.

    Raises:
        UsageError: If there is not one for each model, or one is negative, or all are 0.
    """
    if weights is None:
        values = np.full(model_count, 1 / model_count)
    else:
        values = np.asarray(weights, np.float64)
    if values.shape != (model_count,):
        raise UsageError(f"weights: {values.size} for {model_count} models; give one for each.")
    if not (np.isfinite(values).all() and values.min() >= 0 and values.sum() > 0):
        shown = ", ".join(f"{weight:g}" for weight in values.tolist())
        raise UsageError.for_argument(
            "weights", shown, "each is a number from 0, and one is above 0."
        )
    shares: Floats = values / values.sum()
    return shares


def mix_tries(tries: Sequence[Trie], weights: Floats) -> Trie:
    """Return the backoff model Σ_k λ_k p_k; the weights add up to one."""
    used = [trie for trie, weight in zip(tries, weights, strict=True) if weight > 0]
    words, members = _match_words(used)
    used_weights = weights[weights > 0]
    return _build_mixture(words, members, lambda values, *_: _mix(values, used_weights))


def _check_alike(models: Sequence[LanguageModel]) -> None:
    if len(models) < 2:
        raise UsageError(f"{len(models)} model: mixing takes two or more.")
    tokenizers = [replace(model.tokenizer, boundaries=False).name for model in models]
    if len(set(tokenizers)) > 1:
        raise UsageError(
            f"the models cut text in different ways ({'; '.join(tokenizers)}); mix those of one"
            " tokenizer. ARPA files don't say theirs: ",
            Argument("tokenizer"),
            " and ",
            Argument("lowercase"),
            " do.",
        )


# --- The words of all models ---


@dataclass(frozen=True, eq=False)
class _Member:
    """One of the models, asked about the words of all. The ids of these are called union ids."""

    trie: Trie
    own_ids: Ids  # the model's id of each union id; that of <unk> where it lacks the word
    union_ids: Integers  # the union id of each of the model's words
    share: (
        Floats  # the part of the model's own probability that is the word's: below 1 in its <unk>
    )

    def likelihoods(self, stream: Ids) -> Floats:
        """Return p of everything in a stream of sentences; −1 is where one ends."""
        is_end = stream == SENTENCE_END
        own_stream = np.where(is_end, np.int32(SENTENCE_END), self.own_ids[stream])
        scores = self.trie.score(own_stream)[0]
        likelihoods: Floats = 10**scores * np.where(is_end, 1.0, self.share[stream])
        return likelihoods


def _match_words(tries: Sequence[Trie]) -> tuple[Words, list[_Member]]:
    """Return the words of all models, and how each model sees them."""
    word_lists = [pa.array(trie.words.to_list(), pa.large_binary()) for trie in tries]
    distinct = pc.unique(pa.concat_arrays(word_lists))
    ordered = distinct.take(pc.sort_indices(distinct))
    words = Words.from_array(ordered)
    _check_overlap(word_lists, len(words))
    own_ids = [
        pc.fill_null(pc.index_in(ordered, word_list), -1).to_numpy().astype(np.int32)
        for word_list in word_lists
    ]
    shares = _divide_unknown(tries, own_ids, find_special(words).unknown)
    members = [
        _Member(
            trie=trie,
            own_ids=np.where(ids < 0, np.int32(trie.special.unknown), ids),
            union_ids=pc.index_in(word_list, ordered).to_numpy().astype(np.int64),
            share=share,
        )
        for trie, word_list, ids, share in zip(tries, word_lists, own_ids, shares, strict=True)
    ]
    return words, members


def _check_overlap(word_lists: list[pa.LargeBinaryArray], total: int) -> None:
    """Refuse models that have no word in common with any other.

    They are of two languages, or of two ways to cut text.
    """
    if len(word_lists) < 2 or total <= SPECIAL_WORDS:
        return
    for at, words in enumerate(word_lists):
        others = pa.concat_arrays(word_lists[:at] + word_lists[at + 1 :])
        if pc.sum(pc.is_in(words, others)).as_py() == SPECIAL_WORDS:
            raise UsageError(
                f"model {at + 1} has no word in common with the others:"
                " they can't be about one language."
            )


def _divide_unknown(tries: Sequence[Trie], own_ids: list[Ids], unknown: int) -> list[Floats]:
    """Return how each model's <unk> is divided among the words that it lacks; see the module."""
    has_word = np.stack([ids >= 0 for ids in own_ids])
    probabilities = [
        np.where(ids >= 0, 10.0 ** _word_logs(trie)[ids], 0.0)
        for trie, ids in zip(tries, own_ids, strict=True)
    ]
    expected = np.sum(probabilities, axis=0) / has_word.sum(axis=0)
    expected[unknown] = min(probability[unknown] for probability in probabilities)
    is_unknown = np.arange(expected.size) == unknown
    shares = []
    for is_known in has_word:
        is_divided = ~is_known | is_unknown
        total = expected[is_divided].sum()
        parts = expected / total if total > 0 else is_unknown
        shares.append(np.where(is_divided, parts, 1.0))
    return shares


def _word_logs(trie: Trie) -> Floats:
    logs: Floats = trie.log_probability[trie.nodes(1)].astype(np.float64)
    return logs


def _encode_texts(words: Words, tokenizer: Tokenizer, texts: pa.LargeBinaryArray) -> Ids:
    """Return rows of text as word ids, −1 at the end of each sentence; unknown words are <unk>."""
    start, end, unknown = find_special(words)
    parts = [np.zeros(0, np.int32)]
    for data, offsets, _ in tokenizer.tokenize_chunks(texts):
        distinct = StringTable()  # each word is looked up once
        index = distinct.add(data, offsets)
        ids = words.find(*buffers(distinct.strings()))
        ids = np.where((ids < 0) | (ids == start) | (ids == end), np.int32(unknown), ids)
        parts.append(np.append(ids, np.int32(SENTENCE_END))[index])
    return np.concatenate(parts)


# --- The n-grams of all models ---


@dataclass(frozen=True, eq=False)
class _UnionLevel:
    """The n-grams of one order of all models together, sorted; places are within an order."""

    rows: Ids  # as union ids
    parents: Integers  # places in the order below
    suffixes: Integers
    keys: Integers  # parent and last word as one integer: ascending


@dataclass(frozen=True, eq=False)
class _MemberValues:
    """What one model says of the n-grams of a level."""

    node: Integers  # its own node, −1 where it has none
    probability: Floats  # of the last word after the others
    backoff: Floats  # 1 where the context is not known


# Combines what the models say of the n-grams of a level into one probability for each. In go the
# values of every model for the level and for the level of its contexts, and the context of each
# n-gram.
_Combine = Callable[[list[_MemberValues], list[_MemberValues], Integers], Floats]


def _build_mixture(words: Words, members: list[_Member], combine: _Combine) -> Trie:
    """Build, order by order: the n-grams of all, their values, the mixture, backoff weights."""
    level = _first_level(len(words))
    start = find_special(words).start
    roots = [_root_values() for _ in members]
    values = [_word_values(member, start) for member in members]
    places = [member.union_ids for member in members]  # of each model's own nodes of this order
    word_probabilities = combine(values, roots, level.parents)
    # Models of other tools add up to one within a ten-thousandth.
    probabilities = [round_to_stored(word_probabilities / word_probabilities.sum())]
    levels = [level]
    backoffs = []
    for order in range(2, max(member.trie.order for member in members) + 1):
        longer, places = _next_level(level, members, places, order)
        contexts = values
        values = [
            _level_values(member, shorter, longer, order)
            for member, shorter in zip(members, contexts, strict=True)
        ]
        probability, backoff = fit_backoffs(
            combine(values, contexts, longer.parents),
            probabilities[-1][longer.suffixes],
            longer.parents,
            len(level.rows),
        )
        levels.append(longer)
        probabilities.append(probability)
        backoffs.append(backoff)
        level = longer
    return assemble_trie(
        words,
        [level.rows[:, -1] for level in levels],
        [level.parents for level in levels[1:]],
        [level.suffixes for level in levels[1:]],
        [to_log10(probability) for probability in probabilities],
        [np.log10(backoff) for backoff in backoffs],
    )


def _root_values() -> _MemberValues:
    """Return the values of the empty context, which every model has as its node 0."""
    return _MemberValues(np.zeros(1, np.int64), np.ones(1), np.ones(1))


def _first_level(word_count: int) -> _UnionLevel:
    ids = np.arange(word_count, dtype=np.int64)
    root = np.zeros(word_count, np.int64)
    return _UnionLevel(ids[:, None].astype(np.int32), parents=root, suffixes=root, keys=ids)


def _next_level(
    level: _UnionLevel, members: list[_Member], places: list[Integers], order: int
) -> tuple[_UnionLevel, list[Integers]]:
    """Return the n-grams one word longer, and where those of each model stand among them."""
    word_count = members[0].own_ids.size
    keys = [
        _union_keys(member, member_places, order, word_count)
        if order <= member.trie.order
        else np.zeros(0, np.int64)
        for member, member_places in zip(members, places, strict=True)
    ]
    together = np.concatenate(keys)
    together.sort(kind="stable")  # each model's are in order: runs are merged
    is_first = np.concatenate([[True], together[1:] != together[:-1]])[: together.size]
    distinct = together[is_first]
    if distinct.size > MAX_NODES:
        raise BayesgramError(
            f"{distinct.size:,} n-grams: a model holds {MAX_NODES:,}; prune the models first."
        )
    parents = distinct // word_count
    last_words = distinct % word_count
    rows = np.concatenate([level.rows[parents], last_words[:, None].astype(np.int32)], axis=1)
    suffixes = _find_suffixes(level, parents, last_words, word_count)
    next_places = [np.searchsorted(distinct, member_keys) for member_keys in keys]
    return _UnionLevel(rows, parents, suffixes, distinct), next_places


def _union_keys(member: _Member, places: Integers, order: int, word_count: int) -> Integers:
    """Return one integer for the context and the last word of each n-gram of a model."""
    trie = member.trie
    nodes = trie.nodes(order)
    contexts = places[trie.parents[nodes] - trie.nodes(order - 1).start]
    keys: Integers = contexts * word_count + member.union_ids[trie.word[nodes]]
    return keys


def _find_suffixes(
    level: _UnionLevel, parents: Integers, last_words: Integers, word_count: int
) -> Integers:
    """Return where each n-gram without its first word stands in the level below."""
    contexts = level.suffixes[parents]
    starts = np.searchsorted(level.parents, np.arange(level.suffixes.max(initial=0) + 2))
    targets = contexts * word_count + last_words
    suffixes: Integers = _search_in_contexts(level.keys, starts, contexts, targets)
    return suffixes


@kernel
def _search_in_contexts(
    keys: Integers, starts: Integers, contexts: Integers, targets: Integers
) -> Integers:
    """Return where keys stand that are all there, each searched among those of its context only.

    Nothing branches on what a search sees, so that the processor guesses nothing.
    """
    places = np.empty(targets.size, np.int64)
    for at in range(targets.size):
        low = starts[contexts[at]]
        size = starts[contexts[at] + 1] - low
        while size > 1:
            half = size >> 1
            low += half * int(keys[low + half - 1] < targets[at])
            size -= half
        places[at] = low
    return places


def _word_values(member: _Member, start: int) -> _MemberValues:
    nodes = 1 + member.own_ids.astype(np.int64)
    probability = 10.0 ** _word_logs(member.trie)[member.own_ids] * member.share
    probability[start] = 0.0  # given, never predicted
    return _MemberValues(nodes, probability, _node_backoffs(member.trie, nodes))


def _level_values(
    member: _Member, shorter: _MemberValues, level: _UnionLevel, order: int
) -> _MemberValues:
    """Return p_k(w|h): the model's own where it has the n-gram, else its backoff."""
    trie = member.trie
    last_words = level.rows[:, -1]
    nodes = find_children(trie, shorter.node[level.parents], member.own_ids[last_words], order)
    listed = np.flatnonzero(nodes >= 0)
    probability = shorter.backoff[level.parents] * shorter.probability[level.suffixes]
    listed_probability = 10.0 ** trie.log_probability[nodes[listed]].astype(np.float64)
    probability[listed] = listed_probability * member.share[last_words[listed]]
    return _MemberValues(nodes, probability, _node_backoffs(trie, nodes))


def find_children(trie: Trie, contexts: Integers, words: Ids, order: int) -> Integers:
    """Return the nodes of an order that contexts make with a word more; −1 where there is none.

    Args:
        trie: The model.
        contexts: Nodes of the order below; −1 is none.
        words: A word for each.
        order: The order of the n-grams to find.
    """
    if order > trie.order or trie.nodes(order).stop == trie.nodes(order).start:
        return np.full(contexts.size, -1, np.int64)
    nodes = trie.nodes(order)
    word_count = len(trie.words)
    keys = trie.parents[nodes].astype(np.int64) * word_count + trie.word[nodes]
    targets = contexts * word_count + words
    places = np.minimum(np.searchsorted(keys, targets), keys.size - 1)
    return np.where((keys[places] == targets) & (contexts >= 0), nodes.start + places, -1)


def _node_backoffs(trie: Trie, nodes: Integers) -> Floats:
    backoffs = np.ones(nodes.size)
    contexts = np.flatnonzero((nodes >= 0) & (nodes < trie.context_count))
    backoffs[contexts] = 10.0 ** trie.log_backoff[nodes[contexts]].astype(np.float64)
    return backoffs


def _mix(values: list[_MemberValues], weights: Floats) -> Floats:
    weighted = [
        weight * member_values.probability
        for weight, member_values in zip(weights, values, strict=True)
    ]
    total: Floats = np.sum(weighted, axis=0)
    return total


# --- A public model adapted by a release ---


def adapt_public_model(release: Release, public: LanguageModel, prior: Floats) -> LanguageModel:
    """Return the language model of the people of a release.

    Args:
        release: The release.
        public: A model of public text.
        prior: π of the release's n-grams; 0 for those that shall move nothing.
    """
    release_model = LanguageModel.from_release(release)
    has_lift = (prior > 0) & (release.probabilities > 0)
    ratios = np.divide(release.probabilities, prior, where=has_lift, out=np.ones(prior.size))
    ngrams = release.ngrams.filter(pa.array(has_lift))
    adapted = apply_lifts(public.trie, ngrams, np.log(ratios)[has_lift], release.tokenizer)
    words, members = _match_words([adapted, release_model.trie])
    mixture = ReleaseMixture.from_release(release, release_model.trie)
    return replace(release_model, trie=_build_mixture(words, members, mixture.combine))


@dataclass(frozen=True, eq=False)
class ReleaseMixture:
    """The adapted public model, merged counts, and the release's own model, as one mixture.

    Attributes:
        expected: E of every node of the release's own model; nan where it was not measured.
        known: k of every node: 1 where the count is known exactly, 0 where nothing is known.
    """

    expected: Floats
    known: Floats

    @classmethod
    def from_release(cls, release: Release, trie: Trie) -> "ReleaseMixture":
        """Return the mixture of a release; `trie` is its own model."""
        expected = _node_values(trie, release.ngrams, expected_counts(release), release.tokenizer)
        if release.probability_std is None:  # nothing says how well counts are known
            return cls(expected, np.zeros(expected.size))
        relative_std = release.probability_std / release.probabilities
        known = _node_values(trie, release.ngrams, 1 / (1 + relative_std**2), release.tokenizer)
        return cls(expected, np.nan_to_num(known))

    def combine(
        self, values: list[_MemberValues], contexts: list[_MemberValues], parents: Integers
    ) -> Floats:
        """Return p(w|h) of the n-grams of a level.

        Args:
            values: Of the adapted public model and of the release's own model.
            contexts: The same for the contexts of the n-grams.
            parents: The context of each n-gram.
        """
        adapted, own = values
        context_count = contexts[1].node.size
        counts = _at_nodes(self.expected, own.node)
        is_listed = ~np.isnan(counts)
        listed = parents[is_listed]
        listed_sum = np.bincount(listed, counts[is_listed], context_count)
        known_counts = counts[is_listed] * self.known[own.node[is_listed]]
        known_sum = np.bincount(listed, known_counts, context_count)
        adapted_sum = np.bincount(listed, adapted.probability[is_listed], context_count)
        is_merged = (listed_sum > 0) & (adapted_sum < 1)
        weight = MERGED_SHARE * np.divide(
            known_sum, listed_sum, out=np.zeros(context_count), where=is_merged
        )
        if context_count == 1:
            # Probabilities of words are for backing off, where counts are not the right ones.
            merged = own.probability
        else:
            context_sum = np.fmax(
                _at_nodes(self.expected, contexts[1].node), listed_sum / (1 - MIN_UNLISTED_SHARE)
            )
            per_count = np.divide(1, context_sum, out=np.zeros(context_count), where=is_merged)
            unlisted_factor = np.divide(
                1 - listed_sum * per_count,
                1 - adapted_sum,
                out=np.ones(context_count),
                where=is_merged,
            )
            merged = np.where(
                is_listed,
                np.nan_to_num(counts) * per_count[parents],
                adapted.probability * unlisted_factor[parents],
            )
        share = weight[parents]
        corrected = (1 - share) * adapted.probability + share * merged
        own_part: Floats = RELEASE_MODEL_SHARE * own.probability
        return (1 - RELEASE_MODEL_SHARE) * corrected + own_part


def _at_nodes(node_values: Floats, nodes: Integers) -> Floats:
    """Return the values of nodes; nan where the node is −1."""
    values: Floats = np.where(nodes >= 0, node_values[np.maximum(nodes, 0)], np.nan)
    return values


def apply_lifts(
    trie: Trie,
    ngrams: pa.LargeStringArray,
    lifts: Floats,
    tokenizer: Tokenizer,
    *,
    strength: float = LIFT_STRENGTH,
) -> Trie:
    """Return the same n-grams with their probabilities moved by lifts.

    Args:
        trie: A model of public text.
        ngrams: The n-grams of a release.
        lifts: log θ/π of each.
        tokenizer: How the text of the release was cut.
        strength: β.
    """

    def compute(what: str) -> NDArray[Any]:
        return trie.suffix if what == "suffix" else _node_values(trie, ngrams, lifts, tokenizer)

    # The suffixes are needed next. They are found on another core meanwhile.
    node_lifts: Floats = parallel_map(compute, ["lifts", "suffix"])[0]
    node_lifts[0] = 0.0
    exponents = _compute_exponents(trie, node_lifts, strength)
    return refit(trie, _lifted_probabilities(trie, exponents))


def _node_values(
    trie: Trie, ngrams: pa.LargeStringArray, values: Floats, tokenizer: Tokenizer
) -> Floats:
    """Return the value of every node that is one of the n-grams; nan for the others."""
    node_values = np.full(trie.word.size, np.nan)
    orders = ngram_orders(ngrams, tokenizer)
    ids = _encode_ngrams(trie, ngrams, tokenizer)
    starts = np.cumsum(orders) - orders
    for order in range(1, min(int(orders.max(initial=0)), trie.order) + 1):
        rows = np.flatnonzero(orders == order)
        nodes = np.zeros(rows.size, np.int64)
        for at in range(order):
            nodes = find_children(trie, nodes, ids[starts[rows] + at], at + 1)
        node_values[nodes[nodes > 0]] = values[rows[nodes > 0]]
    return node_values


def _encode_ngrams(trie: Trie, ngrams: pa.LargeStringArray, tokenizer: Tokenizer) -> Ids:
    """Return the tokens of all n-grams as word ids; −1 for one that the model lacks."""
    tokens = ngram_tokens(ngrams, tokenizer).cast(pa.large_binary()).dictionary_encode()
    ids: Ids = trie.words.find(*buffers(tokens.dictionary))[tokens.indices.to_numpy()]
    return ids


def _compute_exponents(trie: Trie, lifts: Floats, strength: float) -> list[Floats]:
    """Return β R of every n-gram, order by order.

    The lifts of n-grams that the release lacks are filled in.
    """
    moves = np.zeros(lifts.size)
    for order in range(1, trie.order + 1):
        nodes = trie.nodes(order)
        _fill_lifts(nodes.start, nodes.stop, trie.parents, trie.suffix, lifts, moves)
    bounded = np.clip(strength * moves, -MAX_EXPONENT, MAX_EXPONENT)
    return [bounded[trie.nodes(order)] for order in range(1, trie.order + 1)]


@kernel
def _fill_lifts(
    first: int, last: int, parents: Ids, suffixes: Ids, lifts: Floats, moves: Floats
) -> None:
    """Fill in R, and the lifts that are nan, of the nodes of one order.

    Single words have the empty n-gram as their suffix, and its R is 0.
    """
    for node in range(first, last):
        inherited = moves[suffixes[node]]
        measured = lifts[node] - lifts[parents[node]]
        moves[node] = inherited if np.isnan(measured) else measured
        if np.isnan(lifts[node]):
            lifts[node] = lifts[parents[node]] + inherited


def _lifted_probabilities(trie: Trie, exponents: list[Floats]) -> list[Floats]:
    """Return p′ of every n-gram, order by order."""
    scaled = _scale_order(trie, exponents[0], 1)
    sums = np.array([scaled.sum()])  # Z(h) of the contexts of the order below
    probabilities = [scaled / sums[0]]
    for order in range(2, trie.order + 1):
        nodes = trie.nodes(order)
        contexts = trie.nodes(order - 1)
        context_count = contexts.stop - contexts.start
        parents = trie.parents[nodes] - contexts.start
        suffixes = trie.suffix[nodes] - contexts.start
        lower = scaled[suffixes]
        scaled = _scale_order(trie, exponents[order - 1], order)
        shorter_sums = sums[_context_suffixes(trie, order - 1)]
        leftover = np.maximum(
            shorter_sums - np.bincount(parents, lower, context_count),
            MIN_LEFTOVER_SHARE * shorter_sums,
        )
        listed = np.bincount(parents, scaled, context_count)
        sums = listed + 10.0 ** trie.log_backoff[contexts] * leftover
        probabilities.append(scaled / sums[parents])
    return probabilities


def _scale_order(trie: Trie, exponents: Floats, order: int) -> Floats:
    """Return p(w|h) exp(β R(w|h)) of an order; <s> is given, never predicted."""
    probability = 10.0 ** trie.log_probability[trie.nodes(order)].astype(np.float64)
    scaled: Floats = probability * np.exp(exponents)
    if order == 1:
        scaled[trie.special.start] = 0.0
    return scaled


def _context_suffixes(trie: Trie, order: int) -> Integers:
    """Return where h′ stands in the order below, for each h of an order; the root is at 0."""
    suffixes: Integers = (
        trie.suffix[trie.nodes(order)].astype(np.int64) - trie.nodes(order - 1).start
    )
    return suffixes
