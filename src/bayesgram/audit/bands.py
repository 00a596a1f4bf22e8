"""How frequent a word is: fifths of the running words of a text, and the words that nobody knows.

In:  a model, whose probabilities of single words say what is frequent, and the words of a text.   Out: `Bands`.
The most frequent words that make up a fifth of the text are the first band, and so on; words of equal probability
share a band, that of the middle one of them. Words that the model lacks are the last band.
"""

from dataclasses import dataclass

import numpy as np

from bayesgram.arrays import Bytes, Floats, Ids
from bayesgram.released.language_model import LanguageModel
from bayesgram.released.search import SENTENCE_END

FIFTHS = 5


@dataclass(frozen=True, eq=False)
class Bands:
    """Which words are how frequent."""

    model: LanguageModel
    numbers: tuple[int, ...]  # which fifth each band is, from 1; those that no word has are not there
    least: Floats  # log10 p of the rarest word of each band, descending

    @classmethod
    def of(cls, model: LanguageModel, stream: Ids) -> "Bands":
        """Those of a text as numbers of the model's words."""
        known = stream[(stream != SENTENCE_END) & (stream != model.trie.special[2])]
        return cls(model, *fifths(model.trie.word_log_probability[known].astype(np.float64)))

    @property
    def unknown(self) -> int:
        """The band of words that the model lacks."""
        return self.least.size

    def find(self, data: Bytes, offsets: Ids) -> Ids:
        """The band of each token; that of a sentence end says nothing."""
        numbers = self.model.numbers(data, offsets)
        logs = self.model.trie.word_log_probability[np.maximum(numbers, 0)].astype(np.float64)
        found = np.minimum(np.searchsorted(-self.least, -logs), max(self.least.size - 1, 0))
        lacked = (numbers == self.model.trie.special[2]) | (numbers == SENTENCE_END)
        return np.where(lacked, self.unknown, found).astype(np.int32)


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
