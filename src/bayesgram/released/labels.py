"""The label of a result: the weakest label of everything that it was made from.

A release, a discovery, a vocabulary or a model may be made from others that were published before: an earlier release
(`previous`), public sources that are releases, n-grams that were discovered, models that are mixed. Whatever is known
about people through one of them is known through the result. So a result that was made from something without a
guarantee has none either, however it was noised itself.

`weakest_label` is the one function that decides this; mechanisms and all makers of derived artefacts call it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayesgram.privacy.budget import MAX_EPSILON, Guarantee

MOST_INGREDIENTS = 100_000  # that one result may name: a bound for files that were tampered with


@dataclass(frozen=True)
class Ingredient:
    """Something about people that was published before, and that a result was made from.

    Attributes:
        name: What it is called: mostly the name of its folder.
        guarantee: Its label, by name.
        epsilon: Its ε; None if it claims none.
        delta: Its δ; None if it claims none.
        unit: What its ε protects, as its curator stated; None if nothing was stated.
        ledger: The identity of the ledger that was charged; None if none was.
        entry: The number of the ledger's entry.

    """

    name: str
    guarantee: str
    epsilon: float | None = None
    delta: float | None = None
    unit: str | None = None
    ledger: str | None = None
    entry: int | None = None

    def __post_init__(self) -> None:
        if not all(isinstance(text, str) for text in (self.name, self.guarantee)):
            raise TypeError("name and label are texts")
        if not self.name.isprintable():
            raise ValueError("the name of what a result was made from is printed")
        Guarantee[self.guarantee]  # a KeyError if it is none
        for value, most in ((self.epsilon, MAX_EPSILON), (self.delta, 1.0)):
            if value is not None and not (type(value) in {int, float} and 0 <= value <= most):
                raise ValueError("what a result was made from has an epsilon and a delta, or none")
        if not all(isinstance(text, str | None) for text in (self.unit, self.ledger)):
            raise TypeError("unit and ledger are texts")
        if type(self.entry) not in {int, type(None)}:
            raise TypeError("an entry has a number")

    @property
    def label(self) -> Guarantee:
        """Its label."""
        return Guarantee[self.guarantee]

    def __str__(self) -> str:
        if self.epsilon is None:
            return f"{self.name} ({self.guarantee})"
        unit = "" if self.unit is None else f" for {self.unit}"
        return f"{self.name} (ε = {self.epsilon:g}, δ = {self.delta or 0:g}{unit}, {self.guarantee})"


def printable_name(path: str | Path) -> str:
    """What a folder or file is called, without what does not print."""
    name = Path(path).resolve().name or str(path)
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in name)


def weakest_label(own: Guarantee, made_from: Iterable[Guarantee] = ()) -> Guarantee:
    """The label of a result.

    Args:
        own: What the result would be labelled if everything that it was made from were public text.
        made_from: The labels of everything published that it was made from.

    Returns:
        The weakest of them: PROVED only if all are, NONE if one is.

    >>> weakest_label(Guarantee.PROVED, [Guarantee.PROVED, Guarantee.NONE]).name
    'NONE'
    >>> weakest_label(Guarantee.PROVED, [Guarantee.EMPIRICAL]).name, weakest_label(Guarantee.PROVED).name
    ('EMPIRICAL', 'PROVED')

    """
    order = list(Guarantee)  # from the strongest to the weakest
    return max([own, *made_from], key=order.index)


def label_of(ingredients: Iterable[Ingredient]) -> str:
    """The label of something that was made from these and from public text, by name; public text weakens nothing."""
    return weakest_label(Guarantee.PROVED, [each.label for each in ingredients]).name


def ingredients_from_json(values: Iterable[Mapping[str, Any]]) -> tuple[Ingredient, ...]:
    """Read what a file says a result was made from.

    Raises:
        ValueError, TypeError, KeyError: If it is not what we write.

    """
    found = tuple(Ingredient(**value) for value in values)
    if len(found) > MOST_INGREDIENTS:
        raise ValueError("a result is made from fewer things")
    return found


def unique_ingredients(ingredients: Iterable[Ingredient]) -> tuple[Ingredient, ...]:
    """The ingredients, each once, in their order."""
    return tuple(dict.fromkeys(ingredients))


def unproved_sentence(ingredients: Iterable[Ingredient]) -> str | None:
    """Say which ingredients weaken a result, in a sentence; None if all are PROVED.

    >>> unproved_sentence([Ingredient("week-1", "NONE"), Ingredient("week-2", "PROVED")])
    'made from week-1 (NONE): nothing is proved of a result that was made from it'
    """
    weak = [str(one) for one in ingredients if one.label is not Guarantee.PROVED]
    if not weak:
        return None
    shown = ", ".join(weak[:3]) + (f" and {len(weak) - 3} more" if len(weak) > 3 else "")
    it = "it" if len(weak) == 1 else "them"
    return f"made from {shown}: nothing is proved of a result that was made from {it}"
