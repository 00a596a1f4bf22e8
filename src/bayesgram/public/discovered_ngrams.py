"""Discovered n-grams: strings that many people write and public text lacks.

`Discovery` holds the n-grams with their noisy weights, a card, and a vocabulary that has them. On
disk it is a folder with ngrams.parquet (`ngram`, `order`, `weight`, `standard_deviation`,
`log_probability`), vocab.parquet (the public vocabulary and what was found, with its origin) and
card.json; it is written completely or not at all. A weight is what the people who write an n-gram
give it together: each at most 1, spread over all that they write.

A discovery bounds what one person adds, but a number that many people share (a support line, a
company's address, a password that everybody was given) is found like any word. `suspicion_of` says
which strings look like secrets, so that a person looks at them before they are published. All of
this is post-processing of strings that are released already. docs/howto/discover.md lists what is
looked for.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bayesgram.arguments import check_arguments
from bayesgram.arrays import Bools, Floats, Integers
from bayesgram.errors import UsageError
from bayesgram.io.atomic import write_folder_atomically
from bayesgram.io.formats import check_format, explain_damage, read_json, read_parquet_table
from bayesgram.notebook import Tabular, html
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases import CARD_FILE, DISCOVERY_FILE, VOCABULARY_FILE
from bayesgram.releases.card import REVIEWED_DETAIL, Card, check_card_values
from bayesgram.text.blocklist import words_of_rows
from bayesgram.text.ngrams import distinct_orders, ngram_orders, ngram_tokens
from bayesgram.text.tokenizer import Tokenizer

CONTENTS = (CARD_FILE, DISCOVERY_FILE, VOCABULARY_FILE)
KIND = "discovery"  # what error messages call it
FORMAT = 1


@dataclass(frozen=True, eq=False, repr=False)
class Discovery(Tabular):
    """Discovered n-grams, those with the largest weight first, and what they cost.

    Attributes:
        ngrams: The n-grams.
        weights: Their noisy weights.
        log_probabilities: log q: how likely public text makes each.
        noise_std: σ, the standard deviation of the noise of every weight.
        card: Who is protected, and by how much.
        vocabulary: The n-grams of public text and these.
        found_in: In a series, the number of the discovery in which each was found; None if it is
            not of a series. The weight is the running sum up to that one.

    Example:
        >>> import bayesgram as bg
        >>> public = pa.table({"text": ["the red fish", "the blue fish"]})
        >>> vocabulary = bg.Vocabulary.from_public(public, order=[1, 2], size=10)
        >>> private = pa.table({"user": [str(i) for i in range(300)], "text": ["skibidi"] * 300})
        >>> bg.discover(private, vocabulary, epsilon=1, open=True, seed=1)
        Discovery(1 n-grams, ε = 1, δ = 1e-07 (NONE))
    """

    ngrams: pa.LargeStringArray
    weights: Floats
    log_probabilities: Floats
    noise_std: float
    card: Card
    vocabulary: Vocabulary
    found_in: Integers | None = None

    def __repr__(self) -> str:
        return f"Discovery({len(self):,} n-grams, {self.card.claim})"

    def _repr_html_(self) -> str:
        """Show the card and the n-grams with the largest weights in a notebook."""
        rows = [
            (str(row["ngram"]), f"{row['weight']:.1f}")
            for row in self.to_arrow().slice(0, 10).to_pylist()
        ]
        return html(repr(self), self.card.summary_lines, ("n-gram", "weight"), rows)

    def __len__(self) -> int:
        return len(self.ngrams)

    @property
    def orders(self) -> Integers:
        """The number of tokens of each n-gram."""
        return ngram_orders(self.ngrams, self.vocabulary.tokenizer)

    @property
    def threshold(self) -> float:
        """T, which a noisy weight had to exceed to be published."""
        return float(self.card.details["threshold"])

    @property
    def weight_std(self) -> Floats:
        """The standard deviation of the noise of each weight."""
        if self.found_in is None:
            return np.full(len(self), self.noise_std)
        std: Floats = self.card.details["run_noise_multiplier"] * np.sqrt(self.found_in)
        return std

    @property
    def is_new(self) -> Bools:
        """Whether each was found by this discovery, and not by an earlier one of its series."""
        if self.found_in is None:
            return np.ones(len(self), np.bool_)
        new: Bools = self.found_in == self.card.details["run"]
        return new

    def keep(self, rows: Bools) -> "Discovery":
        """Drop the other rows, and every n-gram that contains one of them.

        The vocabulary loses them as well, including what an earlier discovery found. An n-gram of
        public text stays, whatever it contains: it was public before. Dropping is post-processing,
        and costs nothing.

        Args:
            rows: For each n-gram, whether it may stay.
        """
        dropped = self.ngrams.filter(pa.array(~rows))
        stays = ~contains_any(self.ngrams, dropped, self.vocabulary.tokenizer)
        origins = self.vocabulary.origins
        discovered_rows = (
            np.zeros(0, np.int64) if origins is None else np.flatnonzero(origins.discovered)
        )
        discovered_ngrams = self.vocabulary.ngrams.take(pa.array(discovered_rows))
        is_dropped = contains_any(discovered_ngrams, dropped, self.vocabulary.tokenizer)
        dropped_rows = discovered_rows[is_dropped]
        kept_rows = np.delete(np.arange(len(self.vocabulary)), dropped_rows)
        return replace(
            self,
            ngrams=self.ngrams.filter(pa.array(stays)),
            weights=self.weights[stays],
            log_probabilities=self.log_probabilities[stays],
            vocabulary=self.vocabulary.select(kept_rows),
            found_in=None if self.found_in is None else self.found_in[stays],
        )

    def suspicious(self) -> dict[str, str]:
        """Return what looks like a secret, and why: digits, addresses, codes.

        Read all of it before you publish it: this finds only what has such a form.
        """
        reasons = zip(self.ngrams.to_pylist(), suspicions_of(self.ngrams), strict=True)
        return {ngram: reason for ngram, reason in reasons if reason is not None}

    def mark_reviewed(self) -> "Discovery":
        """Return the same discovery, marked as reviewed on its card and in its vocabulary.

        Reviewed means that a person has decided about each string.
        """
        origins = self.vocabulary.origins
        if origins is None:
            raise UsageError(
                "the discovery names none in its vocabulary; load it with Discovery.load."
            )
        *earlier_claims, claim = origins.claims
        reviewed = replace(origins, claims=(*earlier_claims, replace(claim, reviewed=True)))
        card = replace(self.card, details={**self.card.details, REVIEWED_DETAIL: True})
        return replace(self, card=card, vocabulary=replace(self.vocabulary, origins=reviewed))

    @check_arguments
    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the folder of the discovery, completely or not at all.

        Args:
            path: The folder.
            force: Whether a discovery that is there may be replaced.
        """
        with write_folder_atomically(path, contents=CONTENTS, force=force) as folder:
            table = self.to_arrow().replace_schema_metadata(self.vocabulary.provenance.metadata)
            pq.write_table(table, folder / DISCOVERY_FILE, compression="zstd")
            self.vocabulary.write(folder / VOCABULARY_FILE)
            card = json.dumps(
                {"format": FORMAT, **self.card.to_json()}, indent=2, ensure_ascii=False
            )
            (folder / CARD_FILE).write_text(card + "\n", encoding="utf-8", newline="\n")

    def to_arrow(self) -> pa.Table:
        """Return the rows of ngrams.parquet as a table."""
        columns = {
            "ngram": self.ngrams,
            "order": pa.array(self.orders),
            "weight": self.weights,
            "standard_deviation": self.weight_std,
            "log_probability": self.log_probabilities,
        }
        if self.found_in is not None:
            columns["found_in"] = self.found_in
        return pa.table(columns)

    @classmethod
    @check_arguments
    def load(cls, path: str | Path) -> "Discovery":
        """Read the folder of a discovery.

        Raises:
            UsageError: If there is no discovery at `path`, or one of another format.
            BayesgramError: If it is damaged.
        """
        folder = Path(path)
        if not folder.exists():
            raise UsageError(f"{path}: no such folder; give one that `bayesgram discover` made.")
        if not is_discovery(folder):
            raise UsageError(
                f"{path}: not a discovery (no {DISCOVERY_FILE}); make one with"
                " `bayesgram discover`."
            )
        with explain_damage(folder / CARD_FILE, KIND):
            values = read_json(folder / CARD_FILE)
            check_format(path, "a discovery", values["format"], FORMAT)
            check_card_values(values)
            card = Card.from_json(values)
            noise_std = float(card.details["noise_multiplier"])
            if not math.isfinite(noise_std):
                raise ValueError("the noise is no number")
        with explain_damage(folder / DISCOVERY_FILE, KIND):
            table = read_parquet_table(folder / DISCOVERY_FILE)
            ngrams, weights, log_probabilities = _read_columns(table)
            if ngrams.null_count or not np.isfinite([weights, log_probabilities]).all():
                raise ValueError("a row lacks a value")
            found_in = _read_found_in(table, card)
        vocabulary = Vocabulary.load(folder / VOCABULARY_FILE)
        return cls(ngrams, weights, log_probabilities, noise_std, card, vocabulary, found_in)


def is_discovery(path: Path) -> bool:
    """Return whether a folder holds a discovery."""
    return (path / DISCOVERY_FILE).is_file() and (path / CARD_FILE).is_file()


def _read_columns(table: pa.Table) -> tuple[pa.LargeStringArray, Floats, Floats]:
    table.validate(full=True)
    weights = table["weight"].to_numpy().astype(np.float64)
    log_probabilities = table["log_probability"].to_numpy().astype(np.float64)
    ngrams = table["ngram"].combine_chunks().cast(pa.large_string())
    return ngrams, weights, log_probabilities


def _read_found_in(table: pa.Table, card: Card) -> Integers | None:
    """Return in which discovery of a series each n-gram was found; None if it is of no series."""
    if "found_in" not in table.column_names:
        return None
    found_in: Integers = table["found_in"].to_numpy().astype(np.int32, casting="equiv")
    run = card.details["run"]
    if type(run) is not int or not math.isfinite(card.details["run_noise_multiplier"]):
        raise ValueError("the card of a discovery of a series has the number of its run")
    if found_in.size and not 1 <= found_in.min() <= found_in.max() <= run:
        raise ValueError("an n-gram was found in a run that does not exist")
    return found_in


def contains_any(
    ngrams: pa.LargeStringArray, others: pa.LargeStringArray, tokenizer: Tokenizer
) -> Bools:
    """Return which n-grams contain one of the others, compared token by token.

    Rows are compared word by word: with the row "typos" goes "fix typos".

    >>> ngrams = pa.array(["art", "start", "modern art", "the art of"], pa.large_string())
    >>> contains_any(ngrams, pa.array(["art"], pa.large_string()), Tokenizer()).tolist()
    [True, False, True, True]
    """
    if tokenizer.is_rows:
        is_same = pc.is_in(ngrams, value_set=others).to_numpy(zero_copy_only=False)
        words = words_of_rows(ngrams, tokenizer)
        other_words = words_of_rows(others, tokenizer)
        other_words = other_words.filter(pc.not_equal(other_words, ""))
        matches: Bools = is_same | contains_any(words, other_words, tokenizer.words)
        return matches
    orders = ngram_orders(ngrams, tokenizer)
    matches = np.zeros(len(ngrams), np.bool_)
    other_orders = distinct_orders(ngram_orders(others, tokenizer))
    for order in distinct_orders(orders):
        rows = np.flatnonzero(orders == order)
        tokens = ngram_tokens(ngrams.take(pa.array(rows)), tokenizer)
        columns = [
            tokens.take(pa.array(np.arange(position, len(tokens), order)))
            for position in range(order)
        ]
        for length in other_orders:
            for first in range(order - length + 1):
                parts = pc.binary_join_element_wise(
                    *columns[first : first + length], pa.scalar(" ", pa.large_string())
                )
                matches[rows] |= pc.is_in(parts, value_set=others).to_numpy(zero_copy_only=False)
    return matches


# --- Strings that look like secrets ---

# Digits in a string from which on it may be a number that belongs to somebody. Not measured.
MIN_DIGITS = 4
# Characters of a token of letters and digits from which on it may be a code. Not measured.
MIN_CODE_LENGTH = 8

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
    )
]
_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")
_STREET_NAME = re.compile(rf" {_STREET}( |$)", re.IGNORECASE)


def suspicion_of(ngram: str) -> str | None:
    """Return why a string looks like a secret; None if it does not.

    >>> suspicion_of("thank you"), suspicion_of("4111 1111"), suspicion_of("mail me @ home")
    (None, 'digits', 'an address')
    >>> suspicion_of("x9k2m4q8")
    'a code'
    """
    # One pass each: a row can be a megabyte long, and one pattern for a number and the street after
    # it, or for a code, takes time that is quadratic in that.
    if any(pattern.search(ngram) for pattern in _ADDRESSES) or _has_street_address(ngram):
        return "an address"
    if any(_is_code(token) for token in ngram.split()):
        return "a code"
    digit_count = sum(letter.isdigit() for letter in ngram)
    return "digits" if digit_count >= MIN_DIGITS else None


def _has_street_address(ngram: str) -> bool:
    number = _DIGIT.search(ngram)
    return number is not None and _STREET_NAME.search(ngram, number.end()) is not None


def _is_code(token: str) -> bool:
    is_long = len(token) >= MIN_CODE_LENGTH
    return is_long and bool(_DIGIT.search(token)) and bool(_LETTER.search(token))


def suspicions_of(ngrams: pa.LargeStringArray) -> list[str | None]:
    """Return `suspicion_of` each n-gram."""
    return [suspicion_of(ngram) for ngram in ngrams.to_pylist()]


def matches_any(ngrams: pa.LargeStringArray, patterns: Iterable[re.Pattern[str]]) -> list[bool]:
    """Return for each n-gram whether one of the patterns finds something in it."""
    pattern_list = list(patterns)
    return [any(pattern.search(ngram) for pattern in pattern_list) for ngram in ngrams.to_pylist()]


# --- Reviewing ---


@check_arguments
def review(
    discovery: Discovery,
    decisions: Mapping[str, bool] | None = None,
    *,
    drop: Sequence[str] = (),
) -> Discovery:
    """Drop some of what a discovery found, before it is published. Costs nothing.

    What contains a dropped n-gram is dropped as well.

    Args:
        discovery: The discovery. `discovery.suspicious()` lists what looks like a secret.
        decisions: For each n-gram, whether it may be published. With decisions about all of them
            the discovery is marked as reviewed: a person has read the strings.
        drop: Regular expressions: what they find something in is dropped.

    Raises:
        UsageError: If decisions are missing, or a pattern is no regular expression.
    """
    return apply_review(discovery, decisions, compile_patterns(drop)).kept


@dataclass(frozen=True)
class Review:
    """What is left of a discovery, and how many n-grams were dropped.

    Attributes:
        kept: The discovery without them.
        chosen: How many n-grams match a pattern, or were decided against.
        containing: How many more were dropped because they contain one of these.
    """

    kept: Discovery
    chosen: int
    containing: int


def apply_review(
    discovery: Discovery,
    decisions: Mapping[str, bool] | None,
    patterns: Sequence[re.Pattern[str]],
) -> Review:
    """Drop what matches patterns or what a person does not keep, and what contains it.

    Args:
        discovery: The discovery.
        decisions: See `review`.
        patterns: What they find something in is dropped.
    """
    stays = ~np.array(matches_any(discovery.ngrams, patterns), np.bool_)
    if decisions is not None:
        ngrams = discovery.ngrams.to_pylist()
        undecided = [ngram for ngram in ngrams if not isinstance(decisions.get(ngram), bool)]
        if undecided:
            raise UsageError(
                f"decisions: {len(undecided):,} n-grams have neither True nor False, such as"
                f" {undecided[0]!r}; decide about each."
            )
        stays &= np.array([decisions[ngram] for ngram in ngrams], np.bool_)
    chosen = int(np.count_nonzero(~stays))
    kept = discovery.keep(stays) if chosen else discovery
    containing = len(discovery) - len(kept) - chosen
    return Review(kept if decisions is None else kept.mark_reviewed(), chosen, containing)


def compile_patterns(drop: Sequence[str]) -> list[re.Pattern[str]]:
    """Return regular expressions, ready to use.

    Raises:
        UsageError: If one is no regular expression.
    """
    patterns = []
    for pattern in drop:
        try:
            patterns.append(re.compile(pattern))
        except re.error as error:
            raise UsageError.for_argument(
                "drop", pattern, f"not a regular expression ({error}); correct it."
            ) from None
    return patterns
