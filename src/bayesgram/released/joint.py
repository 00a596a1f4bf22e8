"""How likely the n-grams of a model are to occur in text: p(w₁) p(w₂|w₁) p(w₃|w₁w₂).

In:  a `LanguageModel`.   Out: its n-grams as strings, and their probabilities. Nothing is backed off: a model lists
the contexts of all its n-grams. A sentence begins as often as it ends, so p(<s>) is taken as p(</s>).
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arrays import Bools, Floats, Ids
from bayesgram.released.language_model import LanguageModel
from bayesgram.released.trie import Trie


def joint_probabilities(model: LanguageModel, *, boundaries: bool) -> tuple[pa.LargeStringArray, Floats]:
    """The n-grams of a model that text can have, short ones first: none with <unk>, and <s> is none by itself.

    Those with <s> or </s> come only if there are `boundaries`.
    """
    trie = model.trie
    words, logs = pa.array(trie.words.all(), pa.large_binary()), _log_probabilities(trie)
    ngrams, probabilities = [], []
    for order in range(1, model.order + 1):
        rows = trie.rows(order)
        told = _told(trie, rows, boundaries=boundaries)
        joined = [words.take(pa.array(column)).cast(pa.large_string()) for column in rows[told].T]
        ngrams.append(pc.binary_join_element_wise(*joined, pa.scalar(" ", pa.large_string())))
        probabilities.append(10 ** logs[trie.nodes(order)][told])
    return pa.concat_arrays(ngrams), np.concatenate(probabilities)


def _log_probabilities(trie: Trie) -> Floats:
    """log10 of what every n-gram of a model has, its context included."""
    logs = trie.log_probability.astype(np.float64)
    start, end, _ = trie.special
    first = trie.nodes(1).start
    logs[0], logs[first + start] = 0.0, logs[first + end]
    for order in range(2, trie.order + 1):
        nodes = trie.nodes(order)
        logs[nodes] += logs[trie.parents[nodes]]
    return logs


def _told(trie: Trie, rows: Ids, *, boundaries: bool) -> Bools:
    """Which n-grams text can have."""
    start, end, unknown = trie.special
    bad = (rows == unknown).any(axis=1)
    if not boundaries:
        bad |= ((rows == start) | (rows == end)).any(axis=1)
    elif rows.shape[1] == 1:
        bad |= rows[:, 0] == start
    told: Bools = ~bad
    return told
