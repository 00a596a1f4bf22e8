"""An entry for the Differential Privacy Deployments Registry, from cards and from stated facts.

In:  the cards of releases and discoveries, and what only the curator knows (`RegistryFacts`).
Out: the entry as plain values, and as YAML.

The registry (github.com/opendp/deployments-registry-data) asks for a basic description (tier 1),
the guarantee (tier 2), and how it was implemented and why (tier 3). What a card says is taken from
the card; nothing is guessed about the curator. The fields are those of its schema of July 2026.
"""

import json
import math
import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

from bayesgram.charts import printable
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.privacy.budget import Guarantee, parse_decimal
from bayesgram.releases.card import Card
from bayesgram.version import page_pointer

PRODUCT_TYPES = (
    "Summary statistics",
    "Machine learning model",
    "Dataset",
    "Synthetic data",
    "Interactive API",
    "SQL queries",
)
SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
DATA_SOURCE_TYPES = ("Static", "Dynamic")
MAX_LENGTH = 10_000  # characters of a fact
WIDTH = 92  # columns of the text of a YAML file

DATA_DOMAIN = "All sets of rows, each with a user id and a text of any length."
ADJACENT = (
    "Two datasets are adjacent if one has all rows of one unit more than the other, whatever these"
    " rows hold (add or remove one unit). One unit is all rows with one id in the user column:"
)
PREPROCESSING = (
    "Text is cut into tokens by a fixed public rule. The vocabulary and the settings are chosen"
    " from public text, without looking at the private text. Clip norms that are not fixed"
    " beforehand are chosen from a noisy histogram, which is part of the budget."
)
IMPLEMENTATION = (
    "Counts are scaled to integers, the contribution of every unit is bounded on integers, and"
    " discrete noise is drawn by OpenDP, so that floating point plays no part in the guarantee."
    " The data product is published as files. Nobody queries the private data, so there is no"
    " timing channel to the public."
)
POST_PROCESSING = (
    "Bayesian inference combines the noisy counts with public text. It reads no private data and"
    " costs no privacy."
)
ONE_LEDGER = (
    "All releases were charged to one ledger, a privacy filter: it adds up Gaussian differential"
    " privacy, and refuses a release that would exceed the stated budget, also if releases are"
    " chosen after seeing earlier ones."
)
ADDED_UP = "ε and δ of all releases are added up (basic composition)."
ONE_RELEASE = "There is one release. All of its measurements share one budget."


@dataclass(frozen=True)
class RegistryFacts:
    """What only the curator can say about a deployment.

    Attributes:
        name: The name of the data product.
        data_curators: Who publishes it.
        intended_use: What it is for.
        data_product_region: Which region the data describe, or whose laws apply.
        publication_date: When it was published first, YYYY-MM-DD.
        registry_authors: Who filled in the entry.
        description: What the data product is; by default from the cards.
        data_product_type: One of `PRODUCT_TYPES`.
        data_product_sector: One of `SECTORS`.
        data_source_type: Static, or Dynamic if new data come in over time.
        data_domain: Which datasets are eligible; by default any rows with user ids and text.
        actors: Who sees the data and the product, and whom people must trust.
        release_type_details: Plans for further releases about the same data.
        preprocessing: What was done to the data before; by default what this software does.
        justification: Why ε, δ, unit and settings were chosen as they were.
        sources: Links to papers, posts or the product.
        notes: Anything else.
    """

    name: str
    data_curators: tuple[str, ...]
    intended_use: str
    data_product_region: str
    publication_date: str
    registry_authors: tuple[str, ...]
    description: str | None = None
    data_product_type: str = "Summary statistics"
    data_product_sector: str | None = None
    data_source_type: str | None = None
    data_domain: str | None = None
    actors: str | None = None
    release_type_details: str | None = None
    preprocessing: str | None = None
    justification: str | None = None
    sources: str | None = None
    notes: str | None = None

    @classmethod
    def load(cls, path: str | Path) -> "RegistryFacts":
        """Read facts from a TOML file.

        Raises:
            UsageError: If the file can't be read, or a fact is missing, unknown or of a wrong kind.
        """
        try:
            values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise UsageError(f"{path}: the facts can't be read ({error.strerror}).") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError):
            raise UsageError(
                f'{path}: is not a TOML file in UTF-8; write one fact a line, such as name = "Words'
                ' of the week".'
            ) from None
        return cls.from_values(values, str(path))

    @classmethod
    def from_values(cls, values: Mapping[str, Any], place: str = "facts") -> "RegistryFacts":
        """Check facts.

        Args:
            values: The facts by name.
            place: What messages call them.

        Raises:
            UsageError: If a fact is missing, unknown or of a wrong kind.
        """
        known = {field.name: field for field in fields(cls)}
        unknown = [name for name in values if name not in known]
        if unknown:
            raise UsageError(
                f"{place}: unknown fact {unknown[0]!r}; the facts are {', '.join(known)}."
            )
        missing = [name for name in REQUIRED_FACTS if name not in values]
        if missing:
            raise UsageError(
                f"{place}: the registry needs {', '.join(missing)}; add a line for each"
                f" ({page_pointer('files')} has an example)."
            )
        checked: dict[str, Any] = {
            name: _check_fact(place, name, value) for name, value in values.items()
        }
        return cls(**checked)


REQUIRED_FACTS = (
    "name",
    "data_curators",
    "intended_use",
    "data_product_region",
    "publication_date",
    "registry_authors",
)
_LISTS = ("data_curators", "registry_authors")
_CHOICES = {
    "data_product_type": PRODUCT_TYPES,
    "data_product_sector": SECTORS,
    "data_source_type": DATA_SOURCE_TYPES,
}


def _check_fact(place: str, name: str, value: object) -> str | tuple[str, ...]:
    """Return a fact as it is kept."""
    if name in _LISTS:
        several = [value] if isinstance(value, str) else value
        if not isinstance(several, list | tuple) or not several:
            raise UsageError(f'{place}: {name} takes a list of names, such as ["Example Inc."].')
        return tuple(_check_text(place, name, text) for text in several)
    if name == "publication_date":
        try:
            return date.fromisoformat(str(value)).isoformat()
        except ValueError:
            raise UsageError(f"{place}: {name} takes a day, such as 2026-05-31.") from None
    text = _check_text(place, name, value)
    if name in _CHOICES and text not in _CHOICES[name]:
        raise UsageError(f"{place}: {name} is one of {', '.join(_CHOICES[name])}.")
    return text


def _check_text(place: str, name: str, value: object) -> str:
    if not isinstance(value, str) or not 1 <= len(value.strip()) <= MAX_LENGTH:
        raise UsageError(f"{place}: {name} takes a text of 1 to {MAX_LENGTH:,} characters.")
    lines = [line.strip() for line in value.strip().splitlines()]
    if not all(line.isprintable() for line in lines):
        raise UsageError(f"{place}: {name} has characters that can't be printed; remove them.")
    return "\n".join(lines)


# --- The entry ---


@dataclass(frozen=True)
class TotalBudget:
    """What all releases of an entry cost together."""

    epsilon: float
    delta: float
    composition: str  # how it was added up


def make_entry(cards: Sequence[tuple[str, Card]], facts: RegistryFacts) -> dict[str, Any]:
    """Return an entry of the registry as plain values.

    Args:
        cards: The names and cards of releases and discoveries.
        facts: What the curator states.

    Raises:
        UsageError: If there is no card, or the units differ.
        BayesgramError: If a release has no proved guarantee.
    """
    _check_cards(cards)
    only_cards = [card for _, card in cards]
    first = only_cards[0]
    budget = total_budget(only_cards)
    budget_count = len(_distinct_budgets(only_cards))
    has_justification = facts.justification is not None and facts.actors is not None
    deployment = {
        "basic": _without_none(
            {
                "name": facts.name,
                "data_curators": list(facts.data_curators),
                "description": facts.description or _describe_product(only_cards),
                "intended_use": facts.intended_use,
                "data_product_type": facts.data_product_type,
                "data_product_region": facts.data_product_region,
                "publication_date": facts.publication_date,
                "data_product_sector": facts.data_product_sector,
            }
        ),
        "dp_variant": {
            "variant_name": "Approximate DP" if budget.delta else "Pure DP",
            "data_domain": facts.data_domain or DATA_DOMAIN,
            "unprotected_quantities": _as_list(_unprotected(only_cards)),
        },
        "privacy_loss": {
            "privacy_unit": first.unit_text,
            "privacy_unit_details": f"{ADJACENT} {first.unit_text}.",
            "privacy_parameters": _without_none(
                {"epsilon": budget.epsilon, "delta": budget.delta or None}
            ),
            "privacy_parameters_details": _as_list(_describe_cards(cards)),
        },
        "deployment_model": _without_none(
            {
                "model_name": "Central",
                "actors": facts.actors,
                "release_type": "One release" if budget_count == 1 else "Many releases",
                "release_type_details": facts.release_type_details,
                "data_source_type": facts.data_source_type,
                "access_type": "Non-interactive",
            }
        ),
        "accounting": {
            "post_processing": POST_PROCESSING,
            "composition": budget.composition,
        },
        "implementation": _without_none(
            {
                "preprocessing_and_hyperparameter_tuning": facts.preprocessing or PREPROCESSING,
                "mechanisms": _as_list(_describe_mechanisms(only_cards)),
                "justification": facts.justification,
            }
        ),
        "administrative": _without_none(
            {
                "sources": facts.sources,
                "notes": facts.notes,
                "registry_authors": list(facts.registry_authors),
            }
        ),
    }
    return {
        "url_slug": _slug(facts.name, facts.data_curators[0], facts.publication_date[:4]),
        "status": "Draft",
        "tier": 3 if has_justification else 2,
        "deployment": deployment,
    }


def total_budget(cards: Sequence[Card]) -> TotalBudget:
    """Return what releases and discoveries cost together, for one unit.

    Where all were charged to one ledger, that is its budget: the ledger is a filter. Otherwise ε
    and δ add up, each budget once, with the discoveries whose n-grams a vocabulary has.
    """
    ledgers = {card.ledger_entry[0] for card in cards}
    claims = {claim for card in cards for claim in card.discoveries}
    ledgers |= {claim.ledger for claim in claims}
    first = cards[0]
    if len(ledgers) == 1 and None not in ledgers and first.ledger is not None:
        return TotalBudget(first.ledger["epsilon"], first.ledger["delta"], ONE_LEDGER)
    budgets = _distinct_budgets(cards)
    if len(budgets) == 1:
        ((epsilon, delta),) = budgets.values()
        return TotalBudget(epsilon, delta, ONE_RELEASE)
    epsilon, delta = (
        _round_up(sum((parse_decimal(pair[part]) for pair in budgets.values()), Fraction(0)))
        for part in (0, 1)
    )
    return TotalBudget(epsilon, delta, ADDED_UP)


def _distinct_budgets(cards: Sequence[Card]) -> dict[object, tuple[float, float]]:
    """Return (ε, δ) of everything that was spent, each once."""
    budgets: dict[object, tuple[float, float]] = {}
    entries = {card.ledger_entry for card in cards if card.ledger_entry[0] is not None}
    for number, card in enumerate(cards):
        # Segments of one release, and what was inferred again, share one budget.
        budgets[card.budget_key or number] = (card.epsilon or 0.0, card.delta or 0.0)
        for claim in card.discoveries:
            # A discovery that is given itself is counted by its own card.
            if (claim.ledger, claim.entry) not in entries or claim.ledger is None:
                budgets["discovery", claim.fingerprint] = (claim.epsilon, claim.delta)
    return budgets


def _round_up(value: Fraction) -> float:
    nearest = float(value)
    return nearest if parse_decimal(nearest) >= value else math.nextafter(nearest, math.inf)


def _check_cards(cards: Sequence[tuple[str, Card]]) -> None:
    if not cards:
        raise UsageError("give at least one release: an entry of the registry is about releases.")
    for name, card in cards:
        if card.guarantee is not Guarantee.PROVED:
            raise BayesgramError(
                f"{name}: is labelled {card.guarantee.name}, and the registry is for releases with"
                " a proved guarantee; leave it out."
            )
    if len({card.unit_text for _, card in cards}) > 1:
        raise UsageError(
            "the releases have different units of privacy, and an entry of the registry has one;"
            " write an entry for each unit."
        )


def _describe_product(cards: Sequence[Card]) -> str:
    sizes = "; ".join(dict.fromkeys(card.size_text for card in cards))
    return (
        "Frequencies of n-grams (sequences of words) in people's text, with standard deviations:"
        f" {sizes}."
    )


def _unprotected(cards: Sequence[Card]) -> list[str]:
    return list(dict.fromkeys(text for card in cards for text in card.not_protected))


def _describe_cards(cards: Sequence[tuple[str, Card]]) -> list[str]:
    lines = []
    for name, card in cards:
        terms = "" if card.gaussian_sentence is None else f"; {card.gaussian_sentence}"
        lines.append(f"{printable(name)}: {card.claim}{terms}")
    return lines


def _describe_mechanisms(cards: Sequence[Card]) -> list[str]:
    lines = [f"{card.mechanism}: {card.statement} ({card.software})" for card in cards]
    return [*dict.fromkeys(lines), IMPLEMENTATION]


def _as_list(lines: Sequence[str]) -> str:
    """Return lines as a Markdown list; one line as it is."""
    return lines[0] if len(lines) == 1 else "\n".join(f"- {line}" for line in lines)


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _slug(*parts: str) -> str:
    """Return a name for an address.

    >>> _slug("Words of the week", "Example Inc.", "2026")
    'words-of-the-week-example-inc-2026'
    """
    words = re.findall(r"[a-z0-9]+", " ".join(parts).lower())
    return "-".join(words) or "deployment"


# --- YAML ---


def to_yaml(entry: Mapping[str, Any]) -> str:
    r"""Return plain values as YAML in block style.

    Takes mappings, lists of texts, texts, numbers and integers: what an entry has.

    >>> print(to_yaml({"tier": 2, "basic": {"name": "A: b", "names": ["c"]}}), end="")
    tier: 2
    basic:
      name: "A: b"
      names:
        - "c"
    """
    return "".join(f"{line}\n" for line in _yaml_lines(entry, 0))


def _yaml_lines(values: Mapping[str, Any], depth: int) -> Iterator[str]:
    indent = "  " * depth
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield f"{indent}{name}:"
            yield from _yaml_lines(value, depth + 1)
        elif isinstance(value, list):
            yield f"{indent}{name}:"
            yield from (f"{indent}  - {_quote(text)}" for text in value)
        elif isinstance(value, str):
            yield from _yaml_text(f"{indent}{name}:", value, f"{indent}  ")
        else:
            yield f"{indent}{name}: {_yaml_number(value)}"


def _yaml_text(head: str, text: str, indent: str) -> Iterator[str]:
    """Yield a text: quoted if it is short, line by line or folded if it can be."""
    lines = text.split("\n")
    is_plain = all(line and line == line.strip() and line.isprintable() for line in lines)
    if len(lines) > 1 and is_plain:
        yield f"{head} |-"
        yield from (f"{indent}{line}" for line in lines)
    elif len(head) + len(text) > WIDTH and is_plain and text == " ".join(text.split()):
        yield f"{head} >-"
        yield from textwrap.wrap(
            text,
            WIDTH,
            initial_indent=indent,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
    else:
        yield f"{head} {_quote(text)}"


def _quote(text: str) -> str:
    """Return a text in double quotes, which JSON and YAML read alike."""
    return json.dumps(text, ensure_ascii=False)


def _yaml_number(value: float) -> str:
    """Return a number that YAML reads as one: 1e-07 needs a point there."""
    text = repr(value)
    return text.replace("e", ".0e") if "e" in text and "." not in text else text
