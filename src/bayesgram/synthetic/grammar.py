"""Weighted context-free grammars: read from rule files, expanded to text by a recursive function.

    # a comment
    greeting: 3* hello {name} | (oh|well|) hi
    name ~ Anna | Ben | Zoë
    do/doing ~ cook/cooking dinner | eat/eating

- `:` lists choices between bars or on indented lines; `3*` is a weight.
- `~` lists the same, weighted by rank r = 1, 2, …: 1 / (r + 2.7).
- `do/doing` is two rules in one, with a form for each.
- `{name}` refers to a rule; `(a|b|)` chooses on the spot, here perhaps nothing.
- `{topic.thing}` is `food.thing` while the row's topic is food; the topics are the choices of the
  rule `topic`.
- `{own.phrase}` makes the same choice of `phrase` wherever the row has the same owner: a person's
  habit, the subject of a paragraph.

The rule files are part of the package. Tests check them, so the parser looks for no mistakes.
"""

import hashlib
import math
import re
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate, chain, count
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bayesgram.arrays import Floats, Integers
from bayesgram.kernels import mix, on_arrays

RANK_SHIFT = 2.7  # Mandelbrot's constant: flattens the first few ranks of Zipf's law
GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # splitmix64 walks through 64-bit integers in steps of this
# Where the owner's choices start: far from other uses of the owner's key.
OWN_STREAM = 1 << 32
# Random numbers are drawn for many rows at once, and one by one for rows that need more: NumPy
# takes 40 ns for one in an array, but 3 µs for one alone. A message needs 10, and 1 in 100 needs
# more than 21. A message takes 6.2 µs with 16 at once, 5.7 with 20 to 32.
ROWS_AT_ONCE = 1_000
DRAWS_AT_ONCE = 20  # for a message or a sentence

_HEAD = re.compile(r"^([\w./?]+)\s*([:~])(?=\s)", re.MULTILINE)
_GROUP = re.compile(r"\(([^()]*)\)")
_FORMS = re.compile(r"[^\s|(){}]+(?:/[^\s|(){}]+)+")
_CHOICE = re.compile(r"(?:([\d.]+)\*)?\s*(.*)")

Keys = NDArray[np.uint64]


@on_arrays("uint64(uint64, uint64)")
def derive(key: Keys, n: Keys) -> Keys:
    """Return the n-th key of the stream of `key`: splitmix64, a bijection for every n."""
    return mix(key + n * GOLDEN)  # type: ignore[arg-type,return-value]  # a ufunc: scalars inside, arrays outside


@on_arrays("float64(uint64)")
def unit_interval(key: Keys) -> NDArray[np.float64]:
    """Return a derived key as a number in [0, 1)."""
    return (key >> np.uint64(11)) * np.float64(2**-53)


# --- Rules ---


class Rule(NamedTuple):
    """What a name can become."""

    chances: list[float]  # of the choices, cumulative; the last is 1
    choices: list[list[tuple[str, str]]]  # pairs: a text, and the rule after it, or ""
    owner_stream: int | None = None  # the owner's random number that decides; None: the next one


Rules = dict[str, Rule]


def read_rules(*paths: Path, tilt: float = 0.0) -> Rules:
    """Parse rule files into one grammar.

    Args:
        paths: The rule files.
        tilt: Makes another register of the same grammar: a choice in a ranked list is exp(tilt · z)
            times as likely, with z a standard normal hashed from its words, so that a word is more
            or less frequent wherever it occurs.
    """
    rules: Rules = {}
    for path in paths:
        text = re.sub(r"(^|\s)#.*", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        _, *parts = _HEAD.split(text)
        for head, mark, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            prefix, dot, last = head.rpartition(".")
            names = [f"{prefix}{dot}{form}" for form in last.split("/")]
            # An owner's choices depend on the number of the rule: its place in the grammar.
            rules.update(dict.fromkeys(names, Rule([], [])))
            for form, name in enumerate(names):
                rule = _parse_rule(rules, _select_form(body, form, len(names)), mark == "~", tilt)
                # The forms of a word are equally frequent: the first form decides.
                rules[name] = rule._replace(chances=rules[names[0]].chances or rule.chances)
    return rules


def _select_form(body: str, form: int, forms: int) -> str:
    """Replace go/goes/went by one of its forms; in a rule with one name a slash is a slash."""
    return _FORMS.sub(lambda word: word[0].split("/")[form], body) if forms > 1 else body


def _parse_rule(rules: Rules, body: str, ranked: bool, tilt: float) -> Rule:
    """Parse choices between bars or on lines; each (a|b), innermost first, becomes a rule <a/b>."""
    while group := _GROUP.search(body):
        name = "<" + group[1].translate(str.maketrans("|{}", "/[]")) + ">"
        rules[name] = _make_rule(group[1].split("|"))
        body = f"{body[: group.start()]}{{{name}}}{body[group.end() :]}"
    choices = [choice for choice in re.split(r"[|\n]", body) if choice.strip()]
    if not ranked:
        return _make_rule(choices)
    factors = [
        math.exp(tilt * _hashed_normal(choice.strip())) / (rank + RANK_SHIFT)
        for rank, choice in enumerate(choices, start=1)
    ]
    return _make_rule(choices, factors)


def _make_rule(choices: list[str], factors: list[float] | None = None) -> Rule:
    """Parse choices such as `3* some text with {references}`; weights are times the factors."""
    weights: list[float] = []
    pairs = []
    for choice, factor in zip(choices, factors or [1.0] * len(choices), strict=True):
        weight, text = _CHOICE.fullmatch(choice.strip()).groups()  # type: ignore[union-attr]  # it matches any line
        weights.append(float(weight or 1) * factor)
        parts = re.split(r"\{([^{}]*)\}", text)
        pairs.append(list(zip(parts[::2], [*parts[1::2], ""], strict=True)))
    sums = list(accumulate(weights))
    return Rule([partial_sum / sums[-1] for partial_sum in sums], pairs)


def _hashed_normal(words: str) -> float:
    """Return a standard normal that depends on nothing but the words."""
    draw = int.from_bytes(hashlib.blake2b(words.encode(), digest_size=6).digest(), "big")
    return NormalDist().inv_cdf((draw + 0.5) / 2**48)


# --- Text ---


@dataclass(frozen=True)
class Grammar:
    """Rules that include the rule `topic`, for one kind of text."""

    rules: Rules

    @property
    def topic_chances(self) -> Floats:
        """How likely each topic is, cumulatively."""
        return np.array(self.rules["topic"].chances)

    def topic(self, u: Floats) -> Integers:
        """Return the topic at u in [0, 1): an index into the choices of the rule `topic`."""
        return np.searchsorted(self.topic_chances, u, side="right")

    @cached_property
    def rules_by_topic(self) -> list[Rules]:
        """The rules, with `topic.…` and `own.…` among them, for each topic."""
        own = {
            f"own.{name}": rule._replace(owner_stream=OWN_STREAM + number)
            for number, (name, rule) in enumerate(self.rules.items())
        }
        topics = [choice[0][0] for choice in self.rules["topic"].choices]
        return [
            self.rules
            | own
            | {
                f"topic.{name.removeprefix(f'{topic}.')}": rule
                for name, rule in self.rules.items()
                if name.startswith(f"{topic}.")
            }
            for topic in topics
        ]

    def write(
        self,
        keys: Keys,
        owners: Keys,
        roots: NDArray[np.str_],
        topics: Integers,
        *,
        times: Integers | None = None,
        plain: NDArray[np.bool_] | None = None,
    ) -> pa.StringArray:
        """Expand one row for each key.

        Row i's random numbers are unit_interval(derive(keys[i], n)), n = 1, 2, …, one for each rule
        when it is expanded, leftmost first.

        Args:
            keys: The random keys of the rows.
            owners: The keys of their owners, who keep their habits.
            roots: The rules that the rows start from.
            topics: The topics of the rows.
            times: How often each root is expanded; once by default.
            plain: Which rows have no capitals and no final full stop; none by default.
        """
        times = np.ones(len(keys), np.int64) if times is None else times
        plain = np.zeros(len(keys), np.bool_) if plain is None else plain
        texts: list[str] = []
        for first in range(0, len(keys), ROWS_AT_ONCE):
            part = slice(first, first + ROWS_AT_ONCE)
            rows = zip(
                _draw_numbers(keys[part], DRAWS_AT_ONCE * int(times[part].max())),
                owners[part],
                roots[part].tolist(),
                topics[part].tolist(),
                times[part].tolist(),
                strict=True,
            )
            raw = [
                " ".join(
                    [_expand(self.rules_by_topic[topic], root, draws, owner) for _ in range(repeat)]
                )
                for draws, owner, root, topic, repeat in rows
            ]
            texts += [
                text.lower().rstrip(" .") if is_plain else text
                for text, is_plain in zip(_tidy(raw), plain[part].tolist(), strict=True)
            ]
        return pa.array(texts, pa.string())


def _draw_numbers(keys: Keys, at_once: int) -> Iterator[Iterator[float]]:
    """Yield the stream of random numbers of each key; the first ones are drawn at once."""
    drawn = unit_interval(derive(keys[:, np.newaxis], np.arange(1, at_once + 1, dtype=np.uint64)))
    for key, numbers in zip(keys, drawn.tolist(), strict=True):
        yield chain(numbers, map(partial(_draw, key), count(at_once + 1)))


def _draw(key: np.uint64, n: int) -> float:
    return float(unit_interval(derive(key, np.uint64(n))))


def _expand(rules: Rules, name: str, draws: Iterator[float], owner: np.uint64) -> str:
    """Return the text of a rule: of its first choice whose cumulative chance exceeds a draw."""
    chances, choices, owner_stream = rules[name]
    u = next(draws) if owner_stream is None else _draw(owner, owner_stream)
    expansion = ""
    for text, reference in choices[bisect(chances, u)]:
        expansion += text
        if reference:
            expansion += _expand(rules, reference, draws, owner)
    return expansion


def _tidy(rows: list[str]) -> list[str]:
    """Return the rows as a typist would write them.

    Single spaces and none before a stop; "an" before a vowel sound; a capital at the start of a
    sentence or quotation. All rows go through at once, a line each: faster than one by one.
    """
    text = "\n".join(["", *rows, ""])
    text = re.sub(r" (?=[ \n!,.?])", "", text).replace("\n ", "\n")
    text = re.sub(r"([ \n][aA]) (?=[aeioAEIO]|[uU](?!s|ni))", r"\1n ", text)
    text = re.sub(r'([\n"]|[.!?]"? )[a-z]', lambda start: start[0].upper(), text)
    return text.split("\n")[1:-1]
