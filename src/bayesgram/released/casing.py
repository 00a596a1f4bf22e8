"""Words of a lower-case model as a person would write them: names as in public text, capitals where a sentence begins.

In:  public text (`CaseCounter`).   Out: for each word that is mostly written otherwise than in lower case, how:
the most frequent way inside sentences, where a capital means something. `as_written` shows a suggestion so.
Models with case kept (`--keep-case`) need none of it. Public text only: a spelling is as private as a word.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from bayesgram.arrays import Bools, Ids
from bayesgram.errors import UsageError
from bayesgram.text.strings import EMPTY, StringTable
from bayesgram.text.tokens import Tokenizer

LEAST = 2  # times that a spelling is seen before it is believed


class CaseCounter:
    """Counts how words are written inside sentences.

    >>> counter = CaseCounter(Tokenizer())
    >>> counter.add(pa.array([b"In Rome we said so. Said who? In Rome!", b"We love Rome, and an iPhone or iPhone"]))
    >>> counter.casing()
    {'iphone': 'iPhone', 'rome': 'Rome'}
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        if not tokenizer.lowercase:
            raise UsageError(f"tokenizer={tokenizer.name!r}: keeps case already; only lower-case words are cased.")
        self._lower, self._kept = tokenizer, replace(tokenizer, lowercase=False)
        self._words, self._spellings = StringTable(), StringTable()
        self._seen: dict[tuple[int, int], int] = {}

    def add(self, texts: pa.LargeBinaryArray) -> None:
        """Count rows of valid UTF-8: cut in both ways, which differ in case alone."""
        rows = texts.cast(pa.large_binary())
        for lower, kept in zip(self._lower.scan(rows), self._kept.scan(rows), strict=True):
            words, spellings = self._words.add(*lower[:2]), self._spellings.add(*kept[:2])
            inside = _inside(words)
            pairs, counts = np.unique(np.stack([words[inside], spellings[inside]]), axis=1, return_counts=True)
            for word, spelling, count in zip(*pairs.tolist(), counts.tolist(), strict=True):
                self._seen[word, spelling] = self._seen.get((word, spelling), 0) + count

    def casing(self, among: Iterable[str] | None = None) -> dict[str, str]:
        """The words that are written otherwise than in lower case, mostly; all, or those `among` some."""
        words = [word.decode() for word in self._words.strings().to_pylist()]
        spellings = [spelling.decode() for spelling in self._spellings.strings().to_pylist()]
        wanted = None if among is None else set(among)
        best: dict[str, tuple[int, bool, str]] = {}
        for (word, spelling), count in self._seen.items():
            name, spelled = words[word], spellings[spelling]
            best[name] = max(best.get(name, (0, False, "")), (count, name == spelled, spelled))
        found = {name: spelled for name, (count, _, spelled) in best.items() if spelled != name and count >= LEAST}
        return {name: found[name] for name in sorted(found) if wanted is None or name in wanted}


def _inside(words: Ids) -> Bools:
    """Which tokens are words that begin no sentence."""
    inside: Bools = words != EMPTY
    inside[1:] &= words[:-1] != EMPTY
    inside[:1] = False
    return inside


def as_written(word: str, typed: str, casing: Mapping[str, str], *, begins_sentence: bool) -> str:
    """A suggested word with the capitals that belong there; what is typed decides first.

    >>> [as_written(word, "", {"iphone": "iPhone"}, begins_sentence=True) for word in ("hello", "iphone")]
    ['Hello', 'iPhone']
    >>> [as_written("hello", typed, {}, begins_sentence=True) for typed in ("he", "He", "HE")]
    ['hello', 'Hello', 'HELLO']
    >>> as_written("rome", "r", {"rome": "Rome"}, begins_sentence=False)
    'Rome'
    """
    if sum(map(str.isalpha, typed)) > 1 and typed.isupper():
        return word.upper()
    if word in casing:
        return casing[word]
    if typed[:1].isupper() or (begins_sentence and not typed):
        return word[:1].title() + word[1:]
    return word
