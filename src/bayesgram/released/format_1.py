"""Models as 0.1 wrote them: plain arrays of 32-bit numbers, one for each property of an n-gram.

In:  the arrays of a folder.   Out: a `Trie`, or a ValueError where they make no model: then a file is damaged.
They had no checksums, so all of it is looked at. Nothing writes them any more.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesgram.arrays import Floats, Ids, Integers, Singles
from bayesgram.released.trie import TOLERANCE, Trie, context_sums, find_special, from_nodes
from bayesgram.released.words import Words

ARRAYS = {
    "word_bytes": np.uint8,
    "word_ends": np.int64,
    "level_starts": np.int64,
    "word": np.int32,
    "first_child": np.int32,
    "suffix": np.int32,
    "log_probability": np.float32,
    "log_backoff": np.float32,
    "ranked": np.int32,
}


def trie_of(arrays: dict[str, NDArray[Any]]) -> Trie:
    """The trie of these arrays, if they are a model."""
    words = Words(arrays["word_bytes"], arrays["word_ends"])
    if not (words.are_in_order() and _fit(arrays, len(words)) and _are_searchable(arrays, len(words))):
        raise ValueError("arrays that lead outside, or where words are not found")
    if min(find_special(words)) < 0 or not _are_logarithms(arrays["log_probability"], arrays["log_backoff"]):
        raise ValueError("arrays that are no probabilities")
    names = ("level_starts", "word", "first_child", "log_probability", "log_backoff")
    trie = from_nodes(words, *(arrays[name] for name in names))
    if not np.array_equal(trie.suffix, arrays["suffix"]) or not _adds_up(context_sums(trie)):
        raise ValueError("contexts that don't add up to one")
    return trie


def _fit(arrays: dict[str, NDArray[Any]], words: int) -> bool:
    """Whether the arrays have the sizes that belong together, and lead nowhere outside."""
    levels, word, children = arrays["level_starts"], arrays["word"], arrays["first_child"]
    suffix, ranked = arrays["suffix"], arrays["ranked"]
    contexts = int(levels[-2]) if levels.size >= 4 else 0
    return bool(
        contexts
        and words >= 3
        and (levels[:3] == [0, 1, 1 + words]).all()
        and (np.diff(levels) >= 0).all()
        and levels[-1] == word.size == suffix.size == arrays["log_probability"].size
        and children.size == contexts + 1 == arrays["log_backoff"].size + 1
        and _ascends(children)
        and children[0] == 1
        and children[-1] == word.size
        and (children[levels[1:-1]] == levels[2:]).all()  # every order has its children in the next
        and (word[1 : 1 + words] == np.arange(words)).all()
        and 0 <= word[1:].min() <= word.max() < words
        and suffix.min() >= 0
        and (suffix[1:] < np.arange(1, word.size)).all()
        and ranked.size == words
        and 0 <= ranked.min() <= ranked.max() < words
    )


def _are_searchable(arrays: dict[str, NDArray[Any]], words: int) -> bool:
    """Whether halving finds what is there: the words after a context ascend, and the likeliest are known."""
    parents = np.repeat(np.arange(arrays["first_child"].size - 1), np.diff(arrays["first_child"]))
    ascends = (np.diff(arrays["word"][1:]) > 0) | (np.diff(parents) != 0)
    likeliest = arrays["log_probability"][1 + arrays["ranked"]]
    return bool(ascends.all() and _ascends(-likeliest) and np.unique(arrays["ranked"]).size == words)


def _are_logarithms(probabilities: Singles, backoffs: Singles) -> bool:
    return bool(np.isfinite(probabilities).all() and probabilities.max() <= 0 and np.isfinite(backoffs).all())


def _adds_up(sums: Floats) -> bool:
    return bool((np.abs(sums - 1) <= TOLERANCE).all())


def _ascends(array: Integers | Ids | Singles) -> bool:
    return bool((array[1:] >= array[:-1]).all())
