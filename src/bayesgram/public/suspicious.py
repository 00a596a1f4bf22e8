"""Which strings look like secrets: for a person to look at before they are published.

A discovery bounds what one person adds; a number that many people share (a support line, a company's address, a
password that everybody was given) comes out like any word. Post-processing of strings that are released already.
docs/howto/discover.md lists what is looked for.
"""

import re
from collections.abc import Iterable

import pyarrow as pa

DIGITS = 4  # in all, from which a string may be a number that belongs to somebody
LONG = 8  # characters of a token of letters and digits, from which it may be a code

_SCHEME = r"(https?|ftp|mailto|www)"
_ENDING = r"(com|org|net|io)"
_PROVIDER = r"(gmail|hotmail|icloud|outlook|protonmail|yahoo)"
_STREET = r"(apartment|apt|ave|avenue|drive|floor|lane|rd|road|st|street)"

# Tokenizers cut `https://example.com` at its marks or leave it as it is, so both are looked for. A
# `https`, `www` or `com` without a name beside it says that somebody wrote an address, not which.
_ADDRESSES = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\S ?@|@ ?\S",
        r"\w://[^\s/]",
        rf"(^| ){_SCHEME} (?!({_SCHEME}|{_ENDING})( |$))\w",
        rf"\w\.{_ENDING}(?!\w)",
        r"(^| )www\.\w",
        rf"\S {_PROVIDER}( |$)",
        rf"\d.* {_STREET}( |$)",
    )
]
_MIXED = re.compile(rf"(?=\S*[^\W\d_])(?=\S*\d)\S{{{LONG},}}")


def reason(ngram: str) -> str | None:
    """Why a string looks like a secret; None if it does not.

    >>> reason("thank you"), reason("4111 1111"), reason("mail me @ home"), reason("x9k2m4q8")
    (None, 'digits', 'an address', 'a code')
    """
    if any(pattern.search(ngram) for pattern in _ADDRESSES):
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
