"""The next words from every release side by side, with how sure each is.

What is typed stays in memory for one answer: it is not kept and not logged.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bayesgram.released.certainty import interval
from bayesgram.released.changes_view import printable
from bayesgram.text.ngrams import START
from bayesgram.text.tokens import Tokenizer
from bayesgram.web.catalogue import PUBLIC, Catalogue, Item


@dataclass(frozen=True)
class Suggestion:
    """A next word; the interval is known where the n-gram that ends with it is in the release."""

    word: str
    probability: float
    low: float | None = None
    high: float | None = None
    adds: str | None = None  # a word piece: what it adds to the text


@dataclass(frozen=True)
class Column:
    """What one model suggests."""

    name: str
    words: list[Suggestion]


@dataclass(frozen=True)
class Answer:
    """The word being typed, and what every model would make of it."""

    typed: str
    columns: list[Column]


def suggest(
    catalogue: Catalogue, text: str, how_many: int, *, cache: float = 0.0, items: Sequence[Item] | None = None
) -> Answer:
    """Public text first, then the releases asked for, or all; `cache` is how much the text's own words count."""
    cut: dict[Tokenizer, tuple[list[list[str]], str]] = {}
    columns, typed = [], ""
    asked = catalogue.items if items is None else items
    models = [] if catalogue.public_model is None else [(PUBLIC, catalogue.public_model, None)]
    for name, model, item in [*models, *((item.view.shown_name, item.model, item) for item in asked)]:
        if model.tokenizer not in cut:
            cut[model.tokenizer] = model.tokenizer.unfinished(text)
        sentences, typed = cut[model.tokenizer]
        found = model.suggest(text, how_many, cache=cache, capitals=False)
        written = model.written(found, sentences, text[len(text) - len(typed) :])
        surely = None if cache else item  # the intervals are about the release alone
        sure = [_sure(surely, sentences[-1], *each) for each in found]
        adds = [model.tokenizer.added(sentences[-1], each.word) for each in found]
        rows = zip(written, sure, adds, strict=True)
        words = [Suggestion(printable(word), likely, low, high, new) for (word, likely), (low, high), new in rows]
        columns.append(Column(name, words))
    return Answer(printable(typed), columns)


def _sure(
    item: Item | None, context: list[str], word: str, probability: float
) -> tuple[float, float] | tuple[None, None]:
    """The interval of the longest n-gram in the release that ends with this word, relative to it."""
    if item is None or item.view.release.deviations is None:
        return None, None
    before = [START, *context] if item.model.tokenizer.boundaries else context
    for order in sorted(item.tables, reverse=True):
        ngram = [*before[max(len(before) - order + 1, 0) :], word]
        row = item.tables[order].index.find(" ".join(ngram)) if len(ngram) == order else None
        if row is not None:
            return _scaled(item, row, probability)
    return None, None


def _scaled(item: Item, row: int, probability: float) -> tuple[float, float] | tuple[None, None]:
    released = float(item.view.release.probabilities[row])
    ends = interval(item.view.release, row)
    if ends is None or released <= 0:
        return None, None
    return probability * ends[0] / released, min(probability * ends[1] / released, 1.0)
