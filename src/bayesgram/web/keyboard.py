"""The next words from every release side by side, with how sure each is.

What is typed stays in memory for one answer: it is not kept and not logged.
"""

from dataclasses import dataclass

from bayesgram.released.certainty import interval
from bayesgram.released.report import printable
from bayesgram.text.ngrams import START
from bayesgram.text.tokens import Tokenizer
from bayesgram.web.shelf import PUBLIC, Item, Shelf


@dataclass(frozen=True)
class Suggestion:
    """A next word; the interval is known where the n-gram that ends with it is in the release."""

    word: str
    probability: float
    low: float | None = None
    high: float | None = None


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


def suggest(shelf: Shelf, text: str, how_many: int) -> Answer:
    """Public text first, then the releases in the order they were given."""
    cut: dict[Tokenizer, tuple[list[str], str]] = {}
    columns, typed = [], ""
    models = [] if shelf.public_model is None else [(PUBLIC, shelf.public_model, None)]
    for name, model, item in [*models, *((item.view.shown_name, item.model, item) for item in shelf.items)]:
        if model.tokenizer not in cut:
            cut[model.tokenizer] = being_typed(model.tokenizer, text)
        context, typed = cut[model.tokenizer]
        found = model.predict(context, how_many, typed=typed)
        words = [Suggestion(printable(each.word), each.probability, *_sure(item, context, *each)) for each in found]
        columns.append(Column(name, words))
    return Answer(printable(typed), columns)


def being_typed(tokenizer: Tokenizer, text: str) -> tuple[list[str], str]:
    """The words of the last sentence, and the beginning of the word that is not finished.

    A letter is added, and the word that it ends up in is the unfinished one.

    >>> being_typed(Tokenizer(), "It works. Thank yo"), being_typed(Tokenizer(), "Thank ")
    ((['thank'], 'yo'), (['thank'], ''))
    """
    words = tokenizer.sentences(text + "x")[-1]
    return words[:-1], words[-1][:-1]


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
