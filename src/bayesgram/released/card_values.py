"""Whether a card.json holds values of the kinds that whatever shows or uses a card relies on.

In:  what the file holds.   Out: nothing, or a ValueError. A card is handed on and may have been edited: a number that
became a text must be an error where the release is opened, not on the third page of a report.
Does not know whether the values are true.
"""

from collections.abc import Mapping
from typing import Any

from bayesgram.privacy.budget import MAX_EPSILON
from bayesgram.privacy.unit import check_unit
from bayesgram.released.card import SINCE
from bayesgram.released.chain import Chain
from bayesgram.released.origins import are_described, made_from

_LARGEST = 1e300
_TEXTS = ("mechanism", "guarantee", "statement", "software")
_ORDERS = tuple("123456")
_LONGEST_NAME = 32  # of a source
_BOUNDS = ("clip_norm", "max_count", "max_total")  # settings that the report shows as numbers


def check_values(values: Mapping[str, Any]) -> None:
    """A ValueError, or a KeyError, if something is missing or of another kind."""
    settings, details, vocabulary, ledger = (
        values.get(name) for name in ("settings", "details", "vocabulary", "ledger")
    )
    _require("a text", all(isinstance(values[name], str) for name in _TEXTS))
    _require("command", isinstance(values.get("command"), str | None))
    _require("seeded", isinstance(values["seeded"], bool))
    _require("epsilon", values["epsilon"] is None or _is_number(values["epsilon"], 0, MAX_EPSILON))
    _require("delta", values["delta"] is None or _is_number(values["delta"], 0, 1))
    _require("settings", isinstance(settings, dict) and all(_is_bound(settings.get(name)) for name in _BOUNDS))
    _require("vocabulary", isinstance(vocabulary, dict) and _is_vocabulary(vocabulary))
    _require("ledger", ledger is None or (isinstance(ledger, dict) and _is_ledger(ledger)))
    _require("unit", values.get("unit") is None or _is_unit(values["unit"]))
    _require("answers", isinstance(values.get("answers"), str | None))
    _require("segment", _is_segment(values.get("segment")))
    _require("details", isinstance(details, dict) and _has_totals(details) and _has_norms(details))
    _require("segments", _has_segments_since(details or {}))
    _require("chain", _is_chain(values.get("chain")))
    _require("inferred", _is_inferred(values.get("inferred")))
    _require("sources", _has_sources(details or {}))


def _require(what: str, right: bool) -> None:
    if not right:
        raise ValueError(f"{what}: not what a card has")


def _is_number(value: object, low: float = -_LARGEST, high: float = _LARGEST) -> bool:
    """Finite, and not True: comparing is exact for whole numbers of any size."""
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def _is_unit(value: object) -> bool:
    return isinstance(value, str) and bool(check_unit(value))


def _is_ledger(told: dict[str, Any]) -> bool:
    """Its population and an entry; its budget, where the version noted it."""
    if not {"population", "entry"} <= set(told) or ("epsilon" in told) != ("delta" in told):
        return False
    return _is_number(told.get("epsilon", 1), 0, MAX_EPSILON) and _is_number(told.get("delta", 0), 0, 1)


def _is_bound(value: object) -> bool:
    return value is None or _is_number(value, 0)


def _is_vocabulary(told: dict[str, Any]) -> bool:
    orders = told.get("orders", [told.get("order")])
    whole = [told.get("size"), told.get("order"), *(orders if isinstance(orders, list) else [None])]
    texts = [told.get("tokenizer"), told.get("fingerprint")]
    if not all(type(number) is int and number >= 0 for number in whole):
        return False
    return all(isinstance(each, str) for each in texts) and are_described(told)


def _is_chain(told: object) -> bool:
    """The releases that it follows, where there are any: refused where they are not what links are."""
    return told is None or (isinstance(told, dict) and bool(Chain.from_json(told).links))


def _is_inferred(told: object) -> bool:
    """From which measurements, where they are another release's."""
    if told is None:
        return True
    if not isinstance(told, dict):
        return False
    names, numbers = told.get("public_text"), [told.get(name) for name in ("measured", "not_measured", "ignored")]
    if not (isinstance(names, list) and names and all(map(_is_printable, [told.get("from"), *names]))):
        return False
    if not all(type(number) is int and number >= 0 for number in numbers):
        return False
    made_from(told)
    return True


def _is_printable(value: object) -> bool:
    return isinstance(value, str) and value.isprintable()


def _is_segment(told: object) -> bool:
    """Which people it is about, of which list; None: of everybody."""
    if told is None:
        return True
    if not (isinstance(told, dict) and all(isinstance(told.get(name), str) for name in ("by", "name"))):
        return False
    names = told.get("names")
    return isinstance(names, list) and all(isinstance(name, str) for name in names) and type(told.get("other")) is bool


def _has_segments_since(details: dict[str, Any]) -> bool:
    """Which segments are new and which are gone, where a list has changed."""
    since = details.get(SINCE, {})
    lists = since.values() if isinstance(since, dict) and set(since) <= {"new", "gone"} else [None]
    return all(isinstance(names, list) and all(map(_is_printable, names)) for names in lists)


def _has_totals(details: dict[str, Any]) -> bool:
    """How often people wrote the n-grams of each order, where it is known."""
    totals = details.get("expected_counts", {})
    return isinstance(totals, dict) and all(_is_number(total, 0) for total in totals.values())


def _has_norms(details: dict[str, Any]) -> bool:
    """The histogram of norms, where there is one."""
    edges, users = details.get("norm_edges", []), details.get("noisy_users_by_norm", [])
    if not (isinstance(edges, list) and isinstance(users, list) and all(map(_is_number, [*edges, *users]))):
        return False
    names = ("users_noise", "amount_multiplier", "histogram_multiplier")
    noise = [details[name] for name in names if name in details]
    if not all(_is_number(number, 0) for number in noise):
        return False
    if not edges:
        return True
    return bool(noise) and _is_number(details.get("clip_norm_used"), 0) and len(users) == len(edges) + 1


def _has_sources(details: dict[str, Any]) -> bool:
    """The weights of sources by order, where there are several."""
    orders = details.get("source_weights", {})
    if not (isinstance(orders, dict) and all(order in _ORDERS for order in orders)):
        return False
    return all(isinstance(sources, dict) and sources and _are_weights(sources) for sources in orders.values())


def _are_weights(sources: dict[str, Any]) -> bool:
    return all(
        0 < len(name) <= _LONGEST_NAME
        and name.isprintable()
        and isinstance(found, dict)
        and _is_number(found.get("weight"), 0, 1)
        and _is_number(found.get("deviation"), 0)
        for name, found in sources.items()
    )
