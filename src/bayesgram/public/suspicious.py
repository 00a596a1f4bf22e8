"""Which strings look like secrets: for a person to look at before they are published.

A discovery bounds what one person adds; a number that many people share (a support line, a company's address, a
password that everybody was given) comes out like any word. Post-processing of strings that are released already.
"""

import re
from collections.abc import Iterable

import pyarrow as pa

DIGITS = 4  # in all, from which a string may be a number that belongs to somebody
LONG = 8  # characters of a token of letters and digits, from which it may be a code

_ADDRESS = re.compile(r"@|(^| )(https?|www|mailto|gmail|hotmail|outlook)( |$)|\b\w+\.(com|org|net|io)\b")
_PLACE = re.compile(r"\d.* (street|st|avenue|ave|road|rd|lane|drive|floor|apartment|apt)( |$)")
_MIXED = re.compile(rf"(?=\S*[^\W\d_])(?=\S*\d)\S{{{LONG},}}")


def reason(ngram: str) -> str | None:
    """Why a string looks like a secret; None if it does not.

    >>> reason("thank you"), reason("4111 1111"), reason("mail me @ home"), reason("x9k2m4q8")
    (None, 'digits', 'an address', 'a code')
    """
    if _ADDRESS.search(ngram) or _PLACE.search(ngram):
        return "an address"
    if _MIXED.search(ngram):
        return "a code"
    return "digits" if sum(letter.isdigit() for letter in ngram) >= DIGITS else None


def reasons(ngrams: pa.LargeStringArray) -> list[str | None]:
    """The same of many."""
    return [reason(ngram) for ngram in ngrams.to_pylist()]


def matching(ngrams: pa.LargeStringArray, patterns: Iterable[re.Pattern[str]]) -> list[bool]:
    """Which n-grams some pattern finds something in."""
    wanted = list(patterns)
    return [any(pattern.search(ngram) for pattern in wanted) for ngram in ngrams.to_pylist()]
