"""Weighted context-free grammars: read from text files, expanded to UTF-8 by one compiled loop.

In: rule files. Out: `GrammarTables` (flat arrays), then bytes and Arrow offsets, one row for each
random key. Grammars do not recurse (a rule that can reach itself is an error) and know no
linguistics beyond spaces, capitals and "a" or "an".

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
"""

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesgram.errors import UsageError
from bayesgram.kernels import kernel, longest_row, mix, on_arrays

# What a symbol is: bytes, a rule, a rule of the row's topic, the owner's choice.
TEXT, RULE, TOPIC, OWN = range(4)
RANK_SHIFT = 2.7  # Mandelbrot's constant: flattens the first few ranks of Zipf's law
GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # splitmix64 walks through 64-bit integers in steps of this
# Where the owner's choices start: far from other uses of the owner's key.
OWN_STREAM = np.uint64(1 << 32)
SPACE = np.array([32, 32, 32], np.uint8)

_HEAD = re.compile(r"([\w./?]+)\s*([:~])(?:\s+|$)")
_GROUP = re.compile(r"\(([^()]*)\)")
_FORMS = re.compile(r"[^\s|(){}]+(?:/[^\s|(){}]+)+")
_WEIGHT = re.compile(r"(\d+(?:\.\d+)?)\*\s*")


@dataclass(frozen=True)
class Production:
    """One of the choices of a rule: the symbols that the rule becomes, and its weight."""

    weight: float
    symbols: list[tuple[int, str]]  # (kind, text or name of a rule)
    where: str  # file and line, for errors
    ranked_as: str = ""  # in a ranked list, the words that a tilt is hashed from


Rules = dict[str, list[Production]]
Keys = NDArray[np.uint64]


class GrammarTables(NamedTuple):
    """A grammar as flat arrays: rule → choices → symbols → bytes. Numba takes it as it is."""

    first_choice: NDArray[np.int64]
    chance: NDArray[np.float64]  # cumulative within a rule; the last of a rule is 1
    first_symbol: NDArray[np.int64]
    kind: NDArray[np.uint8]
    value: NDArray[np.int64]  # which text, rule or row of `by_topic`
    by_topic: NDArray[np.int64]  # rule of (suffix, topic)
    first_byte: NDArray[np.int64]
    text: NDArray[np.uint8]


def read_rules(*paths: Path) -> Rules:
    """Parse rule files into one grammar; a mistake is reported with its file and line."""
    rules: Rules = {}
    for path in paths:
        names: list[str] = []
        ranked = False
        for number, raw in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            where = f"{path.name}:{number}"
            line = re.sub(r"(^|\s)#.*", "", raw).rstrip()
            if line and not line[0].isspace():
                head = _HEAD.match(line)
                if not head:
                    raise UsageError(
                        f"{where}: expected 'name: choices' or 'name ~ choices'; indent to go on"
                    )
                prefix, dot, last = head[1].rpartition(".")
                names = [f"{prefix}{dot}{name}" for name in last.split("/")]
                ranked = head[2] == "~"
                line = line[head.end() :]
                if twice := [name for name in names if name in rules]:
                    raise UsageError(
                        f"{where}: rule {twice[0]!r} is defined twice; rename or remove one"
                    )
                rules.update({name: [] for name in names})
            if line.strip() and not names:
                raise UsageError(
                    f"{where}: choices before the first rule; start the line with 'name:'"
                )
            for form, name in enumerate(names if line.strip() else []):
                text = _FORMS.sub(lambda word: _select_form(word[0], form, len(names), where), line)  # noqa: B023
                _add_line(rules, name, text, rules[names[0]] if ranked else None, where)
    return rules


def _select_form(word: str, form: int, forms: int, where: str) -> str:
    """Return one of the forms of go/goes/went; in a rule with one name a slash is a slash."""
    if forms > 1 and word.count("/") != forms - 1:
        raise UsageError(f"{where}: {word!r} needs {forms} forms, one for each name of its rule")
    return word.split("/")[form] if forms > 1 else word


def _add_line(
    rules: Rules, name: str, line: str, ranking: list[Production] | None, where: str
) -> None:
    """Add the choices on one line; the innermost (a|b) first, each becomes a rule <a/b>.

    `ranking` is the rule's first form: other forms of a word are ranked under the same name.
    """
    while group := _GROUP.search(line):
        inner = "<" + group[1].translate(str.maketrans("|{}", "/[]")) + ">"
        rules[inner] = [_parse_choice(part, where) for part in group[1].split("|")]
        line = f"{line[: group.start()]}{{{inner}}}{line[group.end() :]}"
    for part in line.split("|"):
        choice = _parse_choice(part, where)
        if not choice.symbols:
            raise UsageError(
                f"{where}: an empty choice of {name!r}; write () where nothing is meant"
            )
        if ranking is not None:
            rank = len(rules[name])
            words = part.strip() if ranking is rules[name] else ranking[rank].ranked_as
            choice = replace(
                choice, weight=choice.weight / (rank + 1 + RANK_SHIFT), ranked_as=words
            )
        rules[name].append(choice)


def _parse_choice(part: str, where: str) -> Production:
    """Parse `3* some text with {references}`."""
    part = part.strip()
    weight = _WEIGHT.match(part)
    symbols: list[tuple[int, str]] = []
    for i, piece in enumerate(re.split(r"\{([^{}]*)\}", part[weight.end() :] if weight else part)):
        if i % 2:
            before, _, suffix = piece.partition(".")
            kind = {"topic": TOPIC, "own": OWN}.get(before, RULE)
            symbols.append((kind, piece if kind == RULE else suffix))
        elif stray := re.search(r"[{}()]", piece):
            raise UsageError(
                f"{where}: {stray[0]!r} has no partner in its choice; close or remove it"
            )
        elif piece:
            symbols.append((TEXT, piece))
    return Production(float(weight[1]) if weight else 1.0, symbols, where)


def topics(rules: Rules) -> list[str]:
    """Return the topics: the choices of the rule `topic`, in order."""
    return ["".join(text for _, text in choice.symbols) for choice in rules.get("topic", [])]


def referenced_rules(rules: Rules, symbol: tuple[int, str]) -> list[str]:
    """Return the rules that a symbol can become: none, one, or one for each topic."""
    kind, value = symbol
    if kind == TEXT:
        return []
    if kind == TOPIC:
        return [f"{topic}.{value}" for topic in topics(rules)]
    return [value]


def compile_rules(rules: Rules, *, tilt: float = 0.0) -> tuple[GrammarTables, dict[str, int]]:
    """Return flat arrays, and the number of each rule.

    Args:
        rules: The grammar.
        tilt: Makes another register of the same grammar: a choice in a ranked list is exp(tilt · z)
            times as likely, with z a standard normal hashed from its words, so that a word is more
            or less frequent wherever it occurs.
    """
    sound: set[str] = set()
    for name in rules:
        _check(rules, name, (), "a rule file", sound)
    choices = [choice for name in rules for choice in rules[name]]
    symbols = [symbol for choice in choices for symbol in choice.symbols]
    code = {
        kind: {v: i for i, v in enumerate(sorted({v for k, v in symbols if k == kind}))}
        for kind in (TEXT, TOPIC)
    }
    code[RULE] = code[OWN] = {name: i for i, name in enumerate(rules)}
    pool = [text.encode() for text in code[TEXT]]
    by_topic = [
        [code[RULE][rule] for rule in referenced_rules(rules, (TOPIC, suffix))]
        for suffix in code[TOPIC]
    ]
    return GrammarTables(
        first_choice=_starts([len(of_rule) for of_rule in rules.values()]),
        chance=np.concatenate([_cumulative(of_rule, tilt) for of_rule in rules.values()]),
        first_symbol=_starts([len(choice.symbols) for choice in choices]),
        kind=np.array([kind for kind, _ in symbols], np.uint8),
        value=np.array([code[kind][value] for kind, value in symbols], np.int64),
        by_topic=np.array(by_topic, np.int64).reshape(-1, max(len(topics(rules)), 1)),
        first_byte=_starts([len(text) for text in pool]),
        text=np.frombuffer(b"".join(pool) + b"  ", np.uint8),
    ), code[RULE]


def _starts(lengths: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def _cumulative(choices: list[Production], tilt: float) -> NDArray[np.float64]:
    weights = np.array(
        [
            c.weight * (math.exp(tilt * _hashed_normal(c.ranked_as)) if c.ranked_as else 1.0)
            for c in choices
        ]
    )
    total = np.cumsum(weights)
    return np.append(total[:-1] / total[-1], 1.0)


def _hashed_normal(words: str) -> float:
    """Return a standard normal that depends on nothing but the words."""
    draw = int.from_bytes(hashlib.blake2b(words.encode(), digest_size=6).digest(), "big")
    return NormalDist().inv_cdf((draw + 0.5) / 2**48)


def _check(rules: Rules, name: str, path: tuple[str, ...], where: str, sound: set[str]) -> None:
    """Refuse a rule that is missing or can reach itself, and all rules below it.

    Args:
        rules: The grammar.
        name: The rule to check.
        path: The rules above it.
        where: The file and line that refer to it.
        sound: Rules that passed; this one is added.
    """
    if name in path:
        raise UsageError(f"{where}: rule {name!r} reaches itself; break the circle")
    if not rules.get(name):
        raise UsageError(f"{where}: rule {name!r} has no choices; define or rename it")
    if name not in sound:
        for choice in rules[name]:
            for rule in (
                rule for symbol in choice.symbols for rule in referenced_rules(rules, symbol)
            ):
                _check(rules, rule, (*path, name), choice.where, sound)
        sound.add(name)


@on_arrays("uint64(uint64, uint64)")
def derive(key: Keys, n: Keys) -> Keys:
    """Return the n-th key of the stream of `key`: splitmix64, a bijection for every n."""
    return mix(key + n * GOLDEN)  # type: ignore[arg-type,return-value]  # a ufunc: scalars inside, arrays outside


@on_arrays("float64(uint64)")
def unit_interval(key: Keys) -> NDArray[np.float64]:
    """Return a derived key as a number in [0, 1)."""
    return (key >> np.uint64(11)) * np.float64(2**-53)


@kernel
def _push_production(
    tables: GrammarTables, stack: NDArray[np.int64], top: int, rule: int, u: float
) -> int:
    """Put the symbols of one choice on the stack; return the new top.

    It is the first choice whose cumulative chance exceeds u.
    """
    low = tables.first_choice[rule]
    high = tables.first_choice[rule + 1] - 1
    while low < high:
        middle = (low + high) // 2
        if u < tables.chance[middle]:
            high = middle
        else:
            low = middle + 1
    for symbol in range(tables.first_symbol[low + 1] - 1, tables.first_symbol[low] - 1, -1):
        stack[top] = symbol
        top += 1
    return top


@kernel
def _append_byte(
    text: NDArray[np.uint8], i: int, plain: bool, out: NDArray[np.uint8], row: int, at: int
) -> int:
    """Append byte i of a text as a typist would; return the new end of the row.

    The row starts at `row` and reaches `at`.

    Single spaces and none before a stop; "an" before a vowel sound; a capital at the start of a
    sentence or quotation, or no capitals at all in a plain row.
    """
    byte = text[i]
    small = byte + 32 if 65 <= byte <= 90 else byte
    before = out[at - 1] if at > row else 32
    if before == 32:
        if byte == 32:
            return at
        if at > row and byte in (33, 44, 46, 63):  # ! , . ?
            out[at - 1] = byte
            return at
    # A stop may hide behind a closing quote.
    end = at - 3 if at - row > 2 and out[at - 2] == 34 else at - 2
    sentence = at == row or before == 34 or (before == 32 and out[end] in (33, 46, 63))
    vowel = small in (97, 101, 105, 111) or (
        small == 117
        and text[i + 1] != 115
        and not (text[i + 1] == 110 and text[i + 2] == 105)  # not us, uni
    )
    if (
        vowel
        and before == 32
        and at > row
        and out[at - 2] | 32 == 97
        and (at == row + 2 or out[at - 3] == 32)
    ):
        out[at - 1] = 110  # n
        out[at] = 32
        at += 1
    if plain:
        out[at] = small
    else:
        out[at] = byte - 32 if sentence and 97 <= byte <= 122 else byte
    return at + 1


@kernel
def expand_rows(
    tables: GrammarTables,
    keys: Keys,
    owners: Keys,
    roots: NDArray[np.int64],
    times: NDArray[np.int64],
    topics: NDArray[np.int64],
    plain: NDArray[np.bool_],
) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """Expand row i's root `times[i]` times with spaces between.

    Row i's random numbers are unit_interval(derive(keys[i], n)), n = 1, 2, …, one for each rule
    when it is expanded, leftmost first. A plain row also loses its final full stops.

    Args:
        tables: The grammar.
        keys: The random key of each row.
        owners: The key of its owner, who keeps their habits.
        roots: The rule that it starts from.
        times: How often that rule is expanded.
        topics: The topic of the row.
        plain: Whether it has no capitals and no final full stop.

    Returns:
        All bytes, and the rows' Arrow offsets.
    """
    out = np.empty(1 << 20, np.uint8)
    ends = np.zeros(len(keys) + 1, np.int32)
    widest = longest_row(tables.first_symbol)
    # Large enough, as no rule waits for itself.
    stack = np.empty(len(tables.first_choice) * widest, np.int64)
    at = 0
    for row in range(len(keys)):
        start = at
        draw = np.uint64(0)
        for _ in range(times[row]):
            at = _append_byte(SPACE, 0, False, out, start, at)
            draw += np.uint64(1)
            top = _push_production(
                tables, stack, 0, roots[row], unit_interval(derive(keys[row], draw))
            )
            while top > 0:
                top -= 1
                kind = tables.kind[stack[top]]
                value = tables.value[stack[top]]
                if kind == TEXT:
                    first = tables.first_byte[value]
                    last = tables.first_byte[value + 1]
                    # Room for a space, and an n after each a.
                    if at + 2 * (last - first) + 1 > len(out):
                        out = np.concatenate((out, np.empty_like(out)))
                    for i in range(first, last):
                        at = _append_byte(tables.text, i, plain[row], out, start, at)
                elif kind == OWN:
                    fixed = derive(owners[row], OWN_STREAM + np.uint64(value))
                    top = _push_production(tables, stack, top, value, unit_interval(fixed))
                else:
                    draw += np.uint64(1)
                    rule = tables.by_topic[value, topics[row]] if kind == TOPIC else value
                    top = _push_production(
                        tables, stack, top, rule, unit_interval(derive(keys[row], draw))
                    )
        while at > start and (out[at - 1] == 32 or (plain[row] and out[at - 1] == 46)):
            at -= 1
        ends[row + 1] = at
    return out[:at], ends
