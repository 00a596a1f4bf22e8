"""The card of a release: who is protected, by how much, and what that is worth.

`Card` has the facts and the sentences that follow from them; it is written to card.json.
`check_card_values` refuses a card.json whose values are of another kind than we write. A card is
handed on and may have been edited: a number that became a text must be an error where the release
is opened, not on the third page of a report. Whether the values are true is not checked.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from bayesgram.choices import TokenizerKind
from bayesgram.io.segments import ALL, OTHER, format_names
from bayesgram.notebook import html
from bayesgram.privacy.accounting import digits_up
from bayesgram.privacy.budget import MAX_EPSILON, Guarantee
from bayesgram.privacy.constants import ACTIVITY_CLASSES
from bayesgram.privacy.unit import DEFAULT_UNIT, check_unit, is_person, promise
from bayesgram.releases.card_sections import (
    BY_ORDER_DETAIL,
    SOURCE_WEIGHTS_DETAIL,
    TOTAL_NOISE_DETAIL,
    WITHHELD_DETAIL,
    Grade,
    Weakness,
    clip_norms_text,
    find_weaknesses,
    format_number,
    sources_sentence,
    withheld_text,
    worst_grade,
)
from bayesgram.releases.chain import Chain, Commitment
from bayesgram.releases.provenance import (
    DISCOVERY_MECHANISM,
    MADE_FROM,
    DiscoveryClaim,
    Ingredient,
    discoveries_sentence,
    has_valid_provenance,
    ingredients_from_card,
    ingredients_from_json,
    merge_claims,
    unique_ingredients,
    unproved_sentence,
    weakest_label,
)
from bayesgram.releases.quality import (
    coverage_advice,
    describe_quality,
    deviations_sentence,
    has_valid_quality,
    summary_sentences,
)
from bayesgram.version import VERSION, page_pointer

MAX_USERS = 10**11  # of `expected_users`: nobody has more, so a larger bound is a typing error
MAX_LIST_LENGTH = 10  # of settings and details that a person is shown; card.json has all

# Details that say something without the source code, and what a person calls them.
SHOWN_DETAILS = {
    "model": "model",
    "slope": "slope",
    "rho": "ρ",
    "threshold": "threshold",
}
# Names of details.
REVIEWED_DETAIL = "reviewed"  # of a discovery: whether a person has decided about each string
SEGMENT_CHANGES_DETAIL = "segments_since"  # segments that are new, or gone, since the last release
DRIFT_DETAIL = "drift"  # how far people have moved since the last release, by order

# Sentences.
NOBODY = "nobody for certain"
SEQUENTIAL = (
    "another release about the same people costs extra; a ledger keeps the sum:"
    f" {page_pointer('ledger')}"
)
SEEDED = "seeded: not for publication"
ONE_ID = "one person has one user id (k ids cost k times the ε, and more than k times the δ)"
SMALL_DELTA = "delta is far below 1 / (a public bound on the number of users)"
PUBLIC_TEXT = "the public text is public: it holds no private text of these people"
CHOSEN = "the vocabulary and the settings were chosen without looking at the private text"
PUBLISHED = "the releases that it follows were published, or could have been: they are public input"
# What no ε covers, because it is public input or not computed from the private text.
STATED_IS_PUBLIC = (
    "what the curator states: settings, bound on users, unit, names of segments, the command"
)
PUBLIC_TEXT_IS_PUBLIC = "the public text, the vocabulary and their sizes"
RUN_IS_PUBLIC = (
    "that the release exists, when it was made, how long the run took and whether a run failed"
)
KEEPERS_NUMBERS = (
    "what `count`, `evaluate` and an audit print: numbers for the keeper of the data only"
)
EXCEPT = ", but for the n-grams that were discovered there, at an ε of their own"


@dataclass(frozen=True, repr=False)
class Card:
    """What a release says of itself. Everything here is public.

    Attributes:
        mechanism: The name of the mechanism.
        guarantee: The label: PROVED, EMPIRICAL or NONE.
        statement: What the guarantee means for this mechanism, in one sentence.
        epsilon: ε; None if no such number is claimed.
        delta: δ; None if no such number is claimed.
        settings: The public parameters of the mechanism.
        details: What the run adds: how much noise, which settings were chosen.
        vocabulary: What the vocabulary is (`Vocabulary.card_details`).
        seeded: Whether the noise can be repeated.
        ledger: The population that was charged, and the number of the entry; None if none was.
        command: The command as it was typed; None if the release was made from Python.
        measured: What the file of noisy measurements is; None if none were kept.
        chain: The releases that it follows; None if none.
        inferred: The release whose measurements it was inferred from; None if from its own.
        expected_users: A public bound on the number of users; None if none was given.
        unit: What one unit of privacy is, as the curator stated it; None if nothing was stated.
        segment: Whose release it is, of which list: `by`, `name`, `names`, `other`; None if it is
            not by segment.
        answers: SHA-256 of the measurements of all people, where segments were released together.
        distribution: What the file of the distribution is, once it is written.
        software: The version that made it.
    """

    mechanism: str
    guarantee: Guarantee
    statement: str
    epsilon: float | None
    delta: float | None
    settings: dict[str, Any]
    details: dict[str, Any]
    vocabulary: dict[str, Any]
    seeded: bool
    ledger: dict[str, Any] | None = None
    command: str | None = None
    measured: dict[str, Any] | None = None
    chain: dict[str, Any] | None = None
    inferred: dict[str, Any] | None = None
    expected_users: int | None = None
    unit: str | None = None
    segment: dict[str, Any] | None = None
    answers: str | None = None
    distribution: dict[str, Any] | None = field(default=None, compare=False)
    software: str = field(default=f"bayesgram {VERSION}")

    def __post_init__(self) -> None:
        """Give the card the weakest label of everything that it was made from; NONE if seeded.

        Whoever knows a seed can take the noise away, and learn what a release that follows was
        made from.
        """
        mechanism_label = Guarantee.NONE if self.seeded else self.guarantee
        labels = [ingredient.label for ingredient in self.ingredients]
        label = weakest_label(mechanism_label, labels)
        if label is self.guarantee:
            return
        why = SEEDED if label is mechanism_label else unproved_sentence(self.ingredients)
        object.__setattr__(
            self, "statement", f"{why} (otherwise, this mechanism is {self.guarantee.name})"
        )
        object.__setattr__(self, "guarantee", label)

    @property
    def ingredients(self) -> tuple[Ingredient, ...]:
        """Everything published that it was made from.

        These are sources and discoveries of its vocabulary, and the releases that it follows.
        """
        links = () if self.chain is None else Chain.from_json(self.chain).links
        earlier_releases = (link.ingredient for link in links)
        return unique_ingredients(
            [
                *ingredients_from_card(self.vocabulary),
                *ingredients_from_card(self.inferred or {}),
                *earlier_releases,
            ]
        )

    @property
    def vocabulary_ingredients(self) -> tuple[Ingredient, ...]:
        """Releases and models that its vocabulary was made from, without discoveries."""
        return ingredients_from_json(self.vocabulary.get(MADE_FROM, []))

    @property
    def discoveries(self) -> tuple[DiscoveryClaim, ...]:
        """Every discovery whose n-grams are in its vocabulary.

        Also those in the vocabulary of the measurements that it was inferred from.
        """
        vocabularies = (self.vocabulary, self.inferred or {})
        return merge_claims(
            [DiscoveryClaim(**claim) for claim in vocabulary.get("discoveries", [])]
            for vocabulary in vocabularies
        )

    @property
    def protects(self) -> str:
        """Who is protected; nobody for certain, unless it is proved."""
        if self.guarantee is not Guarantee.PROVED:
            return NOBODY
        unit = "user" if self.is_person else "unit"
        return f"{self.unit_text} (neighbours: add or remove one {unit})"

    @property
    def is_person(self) -> bool:
        """Whether one unit of privacy is all of a person's text, if the person has one id."""
        return is_person(self.unit_text)

    @property
    def promise_sentence(self) -> str:
        """What the guarantee is, in a sentence that names the unit."""
        if self.guarantee is not Guarantee.PROVED:
            return self.statement
        return f"{self.statement} It is for adding or removing one unit: {self.unit_text}."

    @property
    def unit_text(self) -> str:
        """What one id of the user column stands for: as the curator stated it, or the default."""
        return self.unit or DEFAULT_UNIT

    @property
    def person_sentence(self) -> str | None:
        """What ε and δ mean for a person; with a ledger, those of all its releases together."""
        if self.guarantee is not Guarantee.PROVED or self.epsilon is None:
            return None
        if not self.ledger or "epsilon" not in self.ledger:
            return promise(self.unit_text, self.epsilon, self.delta or 0.0)
        subject = "Everything charged to its ledger together"
        return promise(self.unit_text, self.ledger["epsilon"], self.ledger["delta"], subject)

    @property
    def composition_sentence(self) -> str:
        """How it adds up with other releases about the same people."""
        return SEQUENTIAL if self.guarantee is Guarantee.PROVED else "with nothing: no bound holds"

    @property
    def claim(self) -> str:
        """ε, δ and the label, for tables and one-line messages.

        It names the unit of privacy wherever that is less than all that a user wrote.
        """
        if self.epsilon is None:
            return f"no ε ({self.guarantee.name})"
        unit = "" if self.is_person else f" for {self.unit_text}"
        epsilon = format_number(self.epsilon)
        return f"ε = {epsilon}, δ = {format_number(self.delta)}{unit} ({self.label})"

    @property
    def noise_multiplier(self) -> float | None:
        """σ of one Gaussian mechanism that costs as much as the release; None if it is not one.

        Of a release of a series, it is that of the whole series: the allowances of a release follow
        from the noisy answers of those before it.
        """
        if self.guarantee is not Guarantee.PROVED:
            return None
        series = (self.ledger or {}).get("series")
        if series is not None:
            return float(series["noise_multiplier"])
        name = TOTAL_NOISE_DETAIL if TOTAL_NOISE_DETAIL in self.details else "noise_multiplier"
        return self.details.get(name)

    @property
    def gaussian_mu(self) -> float | None:
        """μ of its Gaussian differential privacy, 1/σ; None if its noise is not Gaussian."""
        return None if self.noise_multiplier is None else 1 / self.noise_multiplier

    @property
    def zcdp_rho(self) -> float | None:
        """ρ of its zero-concentrated differential privacy, 1/(2σ²); None if it is not Gaussian."""
        return None if self.noise_multiplier is None else 1 / (2 * self.noise_multiplier**2)

    @property
    def gaussian_sentence(self) -> str | None:
        """μ and ρ, for who composes by them; None if the noise is not Gaussian."""
        if self.gaussian_mu is None or self.zcdp_rho is None:
            return None
        sentence = (
            f"μ = {digits_up(self.gaussian_mu)} (Gaussian differential privacy),"
            f" ρ = {digits_up(self.zcdp_rho)} (zero-concentrated)"
        )
        failure = self.details.get("failure_probability")
        return (
            f"{sentence}, but for a failure probability of {failure:.3g}" if failure else sentence
        )

    @property
    def not_protected(self) -> tuple[str, ...]:
        """What no ε covers: public input, and what is not in the release. Empty without a proof."""
        if self.guarantee is not Guarantee.PROVED:
            return ()
        vocabulary = PUBLIC_TEXT_IS_PUBLIC
        if self.discoveries_sentence:
            vocabulary += ", but for discovered n-grams, which have an ε of their own"
        return (STATED_IS_PUBLIC, vocabulary, RUN_IS_PUBLIC, KEEPERS_NUMBERS)

    @property
    def label(self) -> str:
        """PROVED, EMPIRICAL or NONE; with a grade if it is proved and protects little."""
        return self.guarantee.name if self.grade is None else f"{self.guarantee.name}, {self.grade}"

    @property
    def weaknesses(self) -> list[Weakness]:
        """Why a proved promise protects little, from ε, δ and the public bound on users."""
        if self.guarantee is not Guarantee.PROVED or self.epsilon is None:
            return []
        who = "a user" if self.is_person else f"one unit ({self.unit_text})"
        return find_weaknesses(self.epsilon, self.delta or 0.0, self.expected_users, who=who)

    @property
    def grade(self) -> Grade | None:
        """The worst grade of its weaknesses; None if it has none, or is not proved."""
        return worst_grade(self.weaknesses)

    @property
    def warnings(self) -> list[str]:
        """Its weaknesses as sentences."""
        return [str(weakness) for weakness in self.weaknesses]

    @property
    def sources_sentence(self) -> str | None:
        """Which public text people's text resembles; None if there is one source."""
        return sources_sentence(self.details)

    @property
    def quality_sentences(self) -> list[str]:
        """How good the release is; empty where the mechanism does not say."""
        return describe_quality(self.details)

    @property
    def discoveries_sentence(self) -> str | None:
        """What discoveries added to the vocabulary, and what they cost; None if it is public."""
        return discoveries_sentence(self.vocabulary, self.ledger)

    @property
    def is_unreviewed(self) -> bool:
        """Whether it has discovered strings that nobody has decided about (`bayesgram review`)."""
        if self.mechanism == DISCOVERY_MECHANISM:
            return not self.details.get(REVIEWED_DETAIL, False)
        return any(not claim.reviewed for claim in self.discoveries)

    @property
    def measured_hash(self) -> str | None:
        """SHA-256 of its measurements; None if it kept none."""
        return None if self.measured is None else self.measured.get("sha256")

    @property
    def budget_key(self) -> str | None:
        """A key that all results of the same noisy answers share, as they share one budget.

        These are the segments of one release, and what was inferred from its measurements again.
        None if it is not known.
        """
        return self.answers or self.measured_hash

    @property
    def ledger_entry(self) -> tuple[str | None, int | None]:
        """The identity of the ledger that was charged, and the number of its entry."""
        return self.commitment.ledger_entry

    @property
    def commitment(self) -> Commitment:
        """What the hash of a chain covers of this release."""
        return Commitment(
            epsilon=self.epsilon or 0.0,
            delta=self.delta or 0.0,
            guarantee=self.guarantee.name,
            seeded=self.seeded,
            measured=self.measured_hash or "",
            unit=self.unit,
            ledger=self.ledger,
            discoveries=self.discoveries,
        )

    @property
    def series_identity(self) -> str | None:
        """Which series it belongs to; None if to none."""
        series = (self.ledger or {}).get("series")
        return None if series is None else str(series["identity"])

    @property
    def series_sentence(self) -> str | None:
        """Which release of which series it is, and what allowances left out; None if of none."""
        series = (self.ledger or {}).get("series")
        if series is None:
            return None
        kind = series.get("kind", "release")
        sentence = (
            f"{kind} {series['release']} of at most {series['releases']}; ε and δ are for"
            " everything in the series together. A user can contribute to"
            f" {series['full_releases']} of them in full."
        )
        withheld = withheld_text(self.details)
        return f"{sentence} {withheld}" if withheld else sentence

    @property
    def chain_sentence(self) -> str | None:
        """The releases that it follows, and what is known of all together; None if none."""
        if self.chain is None:
            return None
        sentence = Chain.from_json(self.chain).describe(self.commitment)
        others = ", ".join(map(str, self.vocabulary_ingredients))
        if not others:
            return sentence
        return f"{sentence} What its vocabulary was made from is not counted: {others}."

    @property
    def reinference_sentence(self) -> str | None:
        """Whose measurements it was inferred from with other public text; None if its own."""
        if self.inferred is None:
            return None
        public_text = " and ".join(self.inferred["public_text"])
        return (
            f"from the measurements of {self.inferred['from']}, with {public_text} as public text;"
            f" {self.inferred['measured']:,} n-grams were measured,"
            f" {self.inferred['not_measured']:,} were not; nothing more was spent"
        )

    @property
    def vocabulary_sentence(self) -> str:
        """How many n-grams there are, and where they are from."""
        discoveries = self.discoveries_sentence
        if discoveries is None:
            return f"{self.size_text}, stated to be public"
        if self.vocabulary["discovered"] == self.vocabulary["size"]:
            return f"{self.size_text}: {discoveries}"
        return f"{self.size_text}: public text, and {discoveries}"

    @property
    def is_of_rows(self) -> bool:
        """Whether its n-grams are whole rows."""
        kind, _, _ = str(self.vocabulary.get("tokenizer", "")).partition(",")
        return kind == TokenizerKind.ROWS

    @property
    def size_text(self) -> str:
        """How many n-grams there are, and of which orders; or how many rows."""
        if self.is_of_rows:
            return f"{self.vocabulary['size']:,} rows"
        orders = ", ".join(map(str, self.vocabulary["orders"]))
        return f"{self.vocabulary['size']:,} n-grams of order {orders}"

    @property
    def segment_sentence(self) -> str | None:
        """Which people it is about; None if everybody, and nothing was released with it."""
        if self.segment is None:
            return None
        name = self.segment["name"]
        names = [*self.segment["names"], *([OTHER] if self.segment["other"] else [])]
        who = "all people" if name == ALL else f"{self.segment['by']} = {name}"
        changes = "".join(
            f"; {change} since the release before: {format_names(segments)}"
            for change, segments in self.details.get(SEGMENT_CHANGES_DETAIL, {}).items()
            if segments
        )
        return (
            f"{who}; one budget for all people and each of {len(names)} segments together"
            f" ({format_names(names)}){changes}"
        )

    @property
    def summary_lines(self) -> list[tuple[str, str]]:
        """Names and lines of a summary for a person; `to_json` has everything."""
        settings = _format_values(self.settings)
        details = _format_values(
            {
                name: self.details[detail]
                for detail, name in SHOWN_DETAILS.items()
                if detail in self.details
            }
        )
        clip_norms = clip_norms_text(self.details)
        if clip_norms:
            details = ", ".join(filter(None, [details, f"clip norm = {clip_norms}"]))
        lines = [
            ("Mechanism", f"{self.mechanism} ({settings})" if settings else self.mechanism),
            ("Details", details),
            ("Guarantee", f"{self.guarantee.name}: {self.promise_sentence}"),
            ("Claims", self.claim),
            *(("Warning", warning) for warning in self.warnings),
            ("Also", self.gaussian_sentence or ""),
            ("Protects", self.protects),
            ("Outside ε", "; ".join(self.not_protected)),
            ("A person", self.person_sentence or "" if self.unit or self.ledger else ""),
            ("Composes", self.composition_sentence),
            ("Vocabulary", self.vocabulary_sentence),
            ("Made from", ", ".join(map(str, self.vocabulary_ingredients))),
            ("Sources", self.sources_sentence or ""),
            ("Inferred", self.reinference_sentence or ""),
            ("Chain", self.chain_sentence or ""),
            ("Series", self.series_sentence or ""),
            ("Segment", self.segment_sentence or ""),
            (
                "Ledger",
                f"{self.ledger['population']}, entry {self.ledger['entry']}" if self.ledger else "",
            ),
            ("Noise", SEEDED if self.seeded else ""),
            ("Quality", " ".join(summary_sentences(self.details))),
            ("Advice", coverage_advice(self.details) or ""),
            ("Deviations", deviations_sentence(self.details) or ""),
        ]
        return [(name, line) for name, line in lines if line]

    def __str__(self) -> str:
        return "\n".join(f"{name + ':':<12}{line}" for name, line in self.summary_lines)

    def __repr__(self) -> str:
        return f"Card({self.mechanism}, {self.claim})"

    def _repr_html_(self) -> str:
        """Show the facts of the card in a notebook."""
        return html(repr(self), self.summary_lines)

    def to_json(self) -> dict[str, Any]:
        """Return plain values for card.json: the fields, and sentences that explain them."""
        sentences: dict[str, Any] = {
            "promise": self.promise_sentence,
            "protects": self.protects,
            "person": self.person_sentence,
            "composition": self.composition_sentence,
            "series": self.series_sentence,
            "follows": self.chain_sentence,
            "assumes": list(self.assumptions),
            "mu": self.gaussian_mu,
            "rho": self.zcdp_rho,
            "not_protected": list(self.not_protected),
            "made_from": [str(ingredient) for ingredient in self.ingredients],
            "warnings": self.warnings,
            "quality": self.quality_sentences,
        }
        chain = None
        if self.chain is not None:
            chain = Chain.from_json(self.chain).to_card_json(self.commitment)
        return {**asdict(self), "chain": chain, "guarantee": self.guarantee.name, **sentences}

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the guarantee needs from the curator."""
        if self.guarantee is not Guarantee.PROVED:
            return ()
        ids = ONE_ID if self.is_person else f"one user id is one unit: {self.unit_text}"
        chosen = CHOSEN + EXCEPT if self.discoveries_sentence else CHOSEN
        earlier = () if self.chain is None else (PUBLISHED,)
        return (ids, SMALL_DELTA, PUBLIC_TEXT, chosen, *earlier)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Card":
        """Read a card from the values of `to_json`; sentences are made anew.

        Raises:
            ValueError, KeyError, TypeError: If something is missing or of another kind.
        """
        facts = {field.name: values[field.name] for field in fields(cls)}
        chain = None if facts["chain"] is None else {"links": facts["chain"]["links"]}
        return cls(**{**facts, "chain": chain, "guarantee": Guarantee[facts["guarantee"]]})


def _format_values(values: Mapping[str, Any]) -> str:
    """Return settings or details as text, without those that are not set or are long lists."""
    return ", ".join(
        f"{name} = {format_number(value)}"
        for name, value in values.items()
        if value is not None and not (isinstance(value, list) and len(value) > MAX_LIST_LENGTH)
    )


# --- Checking card.json ---

_LARGEST = 1e300
_ORDERS = tuple("123456")
_MAX_NAME_LENGTH = 32  # of a source


def check_card_values(values: Mapping[str, Any]) -> None:
    """Refuse values of a card.json that are missing or of another kind.

    Raises:
        ValueError, KeyError, TypeError: If they are.
    """
    for name in ("mechanism", "guarantee", "statement", "software"):
        _require("a text", isinstance(values[name], str))
    _require("command", isinstance(values["command"], str | None))
    _require("seeded", isinstance(values["seeded"], bool))
    _require("epsilon", _is_none_or_number(values["epsilon"], MAX_EPSILON))
    _require("delta", _is_none_or_number(values["delta"], 1))
    _require("expected_users", _is_none_or_number(values["expected_users"], MAX_USERS))
    _require("settings", _is_settings(values["settings"]))
    _require("vocabulary", _is_vocabulary(values["vocabulary"]))
    _require("ledger", _is_ledger(values["ledger"]))
    _require("unit", _is_unit(values["unit"]))
    _require("answers", isinstance(values["answers"], str | None))
    _require("segment", _is_segment(values["segment"]))
    _require("chain", _is_chain(values["chain"]))
    _require("inferred", _is_inferred(values["inferred"]))
    details = values["details"]
    _require("details", isinstance(details, dict))
    for name in (TOTAL_NOISE_DETAIL, "noise_multiplier"):
        _require(name, name not in details or _is_number(details[name], 1e-9))
    _require("expected counts", _has_totals(details))
    _require("orders", _has_measured_orders(details))
    _require("segments", _has_segment_changes(details))
    _require("sources", _has_source_weights(details))
    _require("quality", has_valid_quality(details))


def _require(name: str, is_valid: bool) -> None:
    if not is_valid:
        raise ValueError(f"{name}: not what a card has")


def _is_number(value: object, low: float = -_LARGEST, high: float = _LARGEST) -> bool:
    """Return whether a value is a finite number, and not True.

    Comparing is exact for whole numbers of any size.
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def _is_none_or_number(value: object, high: float) -> bool:
    return value is None or _is_number(value, 0, high)


def _are_texts(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_printable(value: object) -> bool:
    return isinstance(value, str) and value.isprintable()


def _is_unit(unit: object) -> bool:
    return unit is None or (isinstance(unit, str) and bool(check_unit(unit)))


def _is_settings(settings: object) -> bool:
    """Return whether those settings that the report shows as numbers are numbers."""
    if not isinstance(settings, dict):
        return False
    bounds = [settings.get(name) for name in ("clip_norm", "max_count", "max_total")]
    return all(_is_none_or_number(bound, _LARGEST) for bound in bounds)


def _is_series(series: object) -> bool:
    """Return whether a series is described by its identity and three numbers; None if of none."""
    if series is None:
        return True
    if not isinstance(series, dict) or not isinstance(series.get("identity"), str):
        return False
    numbers = [series.get(name) for name in ("release", "releases", "full_releases")]
    return all(type(number) is int and number >= 1 for number in numbers) and _is_number(
        series.get("noise_multiplier"), 1e-9, 1e9
    )


def _is_ledger(ledger: object) -> bool:
    """Return whether a ledger is described by its population, an entry, and its budget if known."""
    if ledger is None:
        return True
    if not isinstance(ledger, dict) or not {"population", "entry"} <= set(ledger):
        return False
    if not _is_series(ledger.get("series")):
        return False
    if ("epsilon" in ledger) != ("delta" in ledger):
        return False
    return _is_number(ledger.get("epsilon", 1), 0, MAX_EPSILON) and _is_number(
        ledger.get("delta", 0), 0, 1
    )


def _is_vocabulary(vocabulary: object) -> bool:
    if not isinstance(vocabulary, dict) or not isinstance(vocabulary.get("orders"), list):
        return False
    numbers = [vocabulary.get("size"), vocabulary.get("order"), *vocabulary["orders"]]
    texts = [vocabulary.get(name) for name in ("tokenizer", "fingerprint", "prior_fingerprint")]
    if not all(map(_is_count, numbers)):
        return False
    return all(isinstance(text, str) for text in texts) and has_valid_provenance(vocabulary)


def _is_chain(chain: object) -> bool:
    """Return whether there are links, if there is a chain; they are refused by `Link` itself."""
    return chain is None or (isinstance(chain, dict) and bool(Chain.from_json(chain).links))


def _is_inferred(inferred: object) -> bool:
    if inferred is None:
        return True
    if not isinstance(inferred, dict):
        return False
    names = inferred.get("public_text")
    if not isinstance(names, list) or not names:
        return False
    if not all(map(_is_printable, [inferred.get("from"), *names])):
        return False
    numbers = [inferred.get(name) for name in ("measured", "not_measured", "ignored")]
    if not all(map(_is_count, numbers)):
        return False
    ingredients_from_card(inferred)
    return True


def _is_segment(segment: object) -> bool:
    if segment is None:
        return True
    if not isinstance(segment, dict):
        return False
    texts = [segment.get("by"), segment.get("name")]
    if not all(isinstance(text, str) for text in texts):
        return False
    return _are_texts(segment.get("names")) and type(segment.get("other")) is bool


def _has_segment_changes(details: dict[str, Any]) -> bool:
    changes = details.get(SEGMENT_CHANGES_DETAIL, {})
    if not isinstance(changes, dict) or not set(changes) <= {"new", "gone"}:
        return False
    return all(
        isinstance(names, list) and all(map(_is_printable, names)) for names in changes.values()
    )


def _has_totals(details: dict[str, Any]) -> bool:
    """Return whether the expected counts of each order are numbers, where they are known."""
    totals = details.get("expected_counts", {})
    return isinstance(totals, dict) and all(_is_number(total, 0) for total in totals.values())


def _has_measured_orders(details: dict[str, Any]) -> bool:
    """Return whether the clip norm, noise and histogram of each order are some, where known."""
    by_order = details.get(BY_ORDER_DETAIL, {})
    if not isinstance(by_order, dict) or not all(order in _ORDERS for order in by_order):
        return False
    return all(
        isinstance(measured, dict)
        and _is_number(measured.get("clip_norm_used"), 0)
        and _is_number(measured.get("noise_multiplier"), 0)
        and _has_norms(measured)
        and _has_withheld_share(measured)
        for measured in by_order.values()
    )


def _has_withheld_share(details: dict[str, Any]) -> bool:
    """Return whether the share that allowances leave out is one, where there is one."""
    if WITHHELD_DETAIL not in details:
        return True
    withheld = details[WITHHELD_DETAIL]
    classes = withheld.get("by_activity", []) if isinstance(withheld, dict) else None
    if not isinstance(classes, list) or len(classes) > ACTIVITY_CLASSES:
        return False
    return all(
        isinstance(values, dict)
        and _is_number(values.get("share"))
        and (values.get("std", 0) is None or _is_number(values.get("std"), 0))
        for values in [withheld, *classes]
    ) and all(
        _is_number(values.get("text")) and _is_number(values.get("text_std"), 0)
        for values in classes
    )


def _has_norms(details: dict[str, Any]) -> bool:
    """Return whether the histogram of norms is one, where there is one."""
    edges = details.get("norm_edges", [])
    users = details.get("noisy_users_by_norm", [])
    if not isinstance(edges, list) or not isinstance(users, list):
        return False
    if not all(map(_is_number, [*edges, *users])):
        return False
    noise = [details[name] for name in ("users_noise", "amount_multiplier") if name in details]
    if not all(_is_number(number, 0) for number in noise):
        return False
    if not edges:
        return True
    return "users_noise" in details and len(users) == len(edges) + 1


def _has_source_weights(details: dict[str, Any]) -> bool:
    """Return whether the weights of sources by order are weights, where there are several."""
    orders = details.get(SOURCE_WEIGHTS_DETAIL, {})
    if not isinstance(orders, dict) or not all(order in _ORDERS for order in orders):
        return False
    return all(
        isinstance(sources, dict) and sources and _are_source_weights(sources)
        for sources in orders.values()
    )


def _are_source_weights(sources: dict[str, Any]) -> bool:
    return all(
        0 < len(name) <= _MAX_NAME_LENGTH
        and name.isprintable()
        and isinstance(values, dict)
        and _is_number(values.get("weight"), 0, 1)
        and _is_number(values.get("deviation"), 0)
        for name, values in sources.items()
    )
