"""How frequent a word is: fifths of the running words of a text, and the words that a model lacks.

In:  the words of a text, as a model knows them.   Out: `FrequencyQuantiles`, the same for all models that are compared.
The most frequent words that make up a fifth of the known words are the first band, and so on; words that are as
frequent share a band, that of the middle one of them. Words that the model lacks are the last band. (A model's own
probability of a word that stands alone says how often it follows what was never seen, not how frequent it is.)
"""

from dataclasses import dataclass

import numpy as np

from bayesgram.arrays import Bytes, Floats, Ids
from bayesgram.released.language_model import LanguageModel
from bayesgram.released.search import SENTENCE_END

FIFTHS = 5


@dataclass(frozen=True, eq=False)
class FrequencyQuantiles:
    """Which words are how frequent."""

    model: LanguageModel  # which words are known
    shares: Floats  # of the running words, of each of its words
    numbers: tuple[int, ...]  # which fifth each band is, from 1; those that no word has are not there
    least: Floats  # the share of the rarest word of each band, descending

    @classmethod
    def of(cls, model: LanguageModel, stream: Ids) -> "FrequencyQuantiles":
        """Those of a text as numbers of a model's words."""
        words = stream[stream != SENTENCE_END]
        shares = np.bincount(words, minlength=len(model.trie.words)) / max(words.size, 1)
        return cls(model, shares, *fifths(shares[words[words != model.trie.special[2]]]))

    @property
    def unknown(self) -> int:
        """The band of words that the model lacks."""
        return self.least.size

    def find(self, data: Bytes, offsets: Ids) -> Ids:
        """The band of each token; that of a sentence end says nothing."""
        numbers = self.model.numbers(data, offsets)
        found = np.searchsorted(-self.least, -self.shares[np.maximum(numbers, 0)])
        lacked = (numbers == self.model.trie.special[2]) | (numbers == SENTENCE_END)
        rarest = max(self.least.size - 1, 0)  # also for a word that only another tokenizer finds
        return np.where(lacked, self.unknown, np.minimum(found, rarest)).astype(np.int32)


def fifths(values: Floats) -> tuple[tuple[int, ...], Floats]:
    """The numbers of the fifths, from 1, and the least value of each, the greatest first; equal values share one.

    >>> fifths(np.array([5.0, 5, 4, 4, 3, 3, 2, 2, 1, 1]))
    ((1, 2, 3, 4, 5), array([5., 4., 3., 2., 1.]))
    >>> fifths(np.array([9.0, 9, 9, 9, 1]))
    ((3, 5), array([9., 1.]))
    """
    distinct, counts = np.unique(-values, return_counts=True)
    middles = np.cumsum(counts) - counts / 2
    fifth = 1 + (FIFTHS * middles // max(values.size, 1)).astype(np.int64)
    last = np.flatnonzero(np.diff(fifth, append=FIFTHS + 1))
    return tuple(fifth[last].tolist()), -distinct[last]
