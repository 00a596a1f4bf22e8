"""How good a release is, judged against the private counts.

A KL divergence computed here is itself a disclosure: it is exact, no noise is added, and no budget covers it.

How frequent a word is: fifths of the running words of a text, and the words that a model lacks.

In:  the words of a text, as a model knows them.   Out: `FrequencyQuantiles`, the same for all models that are compared.
The most frequent words that make up a fifth of the known words are the first band, and so on; words that are as
frequent share a band, that of the middle one of them. Words that the model lacks are the last band. (A model's own
probability of a word that stands alone says how often it follows what was never seen, not how frequent it is.)

How good language models are for held-out text: perplexity, suggestions that are right, keystrokes saved.

In:  `LanguageModel`s and rows of private text, perhaps of several kinds.   Out: `TextQuality`: all texts together, each
by itself, and by how frequent the words are.
Everything is computed from private text without noise, so it is itself a disclosure (see `utility`).

- **Perplexity** is 10 to the mean −log10 probability of words and sentence ends. A word that the model lacks is <unk>,
  which stands for all such words together: perplexity compares models of the same words only.
- **Suggestions** are right if the word that comes is the likeliest, or one of the three likeliest. Words that the model
  lacks count, as wrong; sentence ends don't.
- **Keystrokes saved**: three words are suggested before and after each letter, and the user picks the right one as soon
  as it is there. A pick is one keystroke, and brings the space after the word along. So a word of n letters that is
  suggested after j of them costs j + 1, and n + 1 if it never is before all are typed; saved is the share
  1 − Σ costs / Σ (n + 1). Words are as the tokenizer makes them: capitals and punctuation are not typed.

What each of several judged models claims, and which of them belong together over ε.

In:  models by name, what they say of themselves, and their `TextQuality`.   Out: `Judged`, and `Family`s of them.
Models of one name are one family, and those whose names differ by their ε alone. A model that says no ε (of public
text, of several releases, or an ARPA file, which has no place for it) stands by itself.

The picture of language models over ε: perplexity, first suggestions that are right, keystrokes saved.

Draws what it is given; computes nothing but places. A line is a family of models; a dotted line across is a model
that says no ε: public text, or a file that doesn't tell. Says on itself that it is not for publication.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bayesgram.arguments import check_arguments
from bayesgram.arrays import Bytes, Floats, Ids, Integers
from bayesgram.charts import LINES, spread_out
from bayesgram.errors import Argument, BayesgramError, UsageError
from bayesgram.io import read_records
from bayesgram.io.segments import ALL
from bayesgram.lm.language_model import LanguageModel
from bayesgram.lm.search import NEVER, SENTENCE_END, rank_words
from bayesgram.private.counts import PrivateCounts, SegmentedCounts
from bayesgram.public.mixture import by_name
from bayesgram.releases.release import Release

DISCLOSURE = "computed from private data without noise: not covered by any ε, not for publication"


@check_arguments
def kl_divergence(private_counts: NDArray[np.integer], theta: Floats) -> float:
    """KL(p ‖ θ) = Σ p log(p/θ), p = the unclipped private counts, normalised; infinite where θ = 0 < p.

    >>> round(kl_divergence(np.array([1, 1]), np.array([0.25, 0.75])), 4)
    0.1438
    """
    private_counts, theta = _numbers("private_counts", private_counts), _numbers("theta", theta)
    if private_counts.shape != theta.shape:
        raise UsageError(
            f"theta: {theta.size} probabilities for {private_counts.size} private counts; give one for each n-gram."
        )
    total = private_counts.sum()
    if not total:
        raise BayesgramError("the private counts are empty: there is nothing to compare with.")
    seen = private_counts > 0
    p, q = private_counts[seen] / total, theta[seen]
    if (q == 0).any():
        return float("inf")
    return float((p * np.log(p / q)).sum())


def _numbers(name: str, given: NDArray[Any]) -> NDArray[Any]:
    """A list or an array of numbers from 0."""
    numbers = np.asarray(given)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iuf" or not (numbers >= 0).all():
        raise UsageError(f"{name}: takes a list of numbers from 0, one for each n-gram.")
    return numbers


def totals_for(counts: PrivateCounts | SegmentedCounts, release: Release | None = None) -> Integers:
    """How often people wrote each n-gram: those whom a release is about, by its card, or everybody."""
    told = None if release is None else release.card.segment
    if not isinstance(counts, SegmentedCounts):
        if told is not None and told["name"] != ALL:
            raise UsageError(
                f"the release is of {told['by']} = {told['name']}, and the counts are not by segment; give those that"
                " it was made from."
            )
        return counts.totals
    if told is None or told["name"] == ALL:
        return counts.totals()
    if {**counts.segments.to_json(), "name": told["name"]} != told:
        raise UsageError(
            "the release and the counts have other segments; give the counts that it was made from."
        )
    return counts.totals(told["name"])


def comparison_row(name: str, release: Release | None, kl: float) -> dict[str, Any]:
    """One line of the comparison; no release is public text alone, which costs nothing."""
    card = release.card if release else None
    return {
        "release": name,
        "mechanism": card.mechanism if card else "no private data",
        "guarantee": card.guarantee.name if card else "PROVED",
        "grade": card.grade if card else None,
        "unit": None if card is None or card.is_person else card.unit_shown,
        "epsilon": card.epsilon if card else 0.0,
        "delta": card.delta if card else 0.0,
        "kl": kl if kl < float("inf") else None,
    }


FIFTHS = 5


@dataclass(frozen=True, eq=False)
class FrequencyQuantiles:
    """Which words are how frequent."""

    model: LanguageModel  # which words are known
    shares: Floats  # of the running words, of each of its words
    numbers: tuple[
        int, ...
    ]  # which fifth each band is, from 1; those that no word has are not there
    least: Floats  # the share of the rarest word of each band, descending

    @classmethod
    def of(cls, model: LanguageModel, stream: Ids) -> "FrequencyQuantiles":
        """Those of a text as numbers of a model's words."""
        words = stream[stream != SENTENCE_END]
        shares = np.bincount(words, minlength=len(model.trie.words)) / max(words.size, 1)
        return cls(model, shares, *fifths(shares[words[words != model.trie.special[2]]]))

    @property
    def unknown(self) -> int:
        """The band of words that the model lacks."""
        return self.least.size

    def find(self, data: Bytes, offsets: Ids) -> Ids:
        """The band of each token; that of a sentence end says nothing."""
        numbers = self.model.numbers(data, offsets)
        found = np.searchsorted(-self.least, -self.shares[np.maximum(numbers, 0)])
        lacked = (numbers == self.model.trie.special[2]) | (numbers == SENTENCE_END)
        rarest = max(self.least.size - 1, 0)  # also for a word that only another tokenizer finds
        return np.where(lacked, self.unknown, np.minimum(found, rarest)).astype(np.int32)


def fifths(values: Floats) -> tuple[tuple[int, ...], Floats]:
    """The numbers of the fifths, from 1, and the least value of each, the greatest first; equal values share one.

    >>> fifths(np.array([5.0, 5, 4, 4, 3, 3, 2, 2, 1, 1]))
    ((1, 2, 3, 4, 5), array([5., 4., 3., 2., 1.]))
    >>> fifths(np.array([9.0, 9, 9, 9, 1]))
    ((3, 5), array([9., 1.]))
    """
    distinct, counts = np.unique(-values, return_counts=True)
    middles = np.cumsum(counts) - counts / 2
    fifth = 1 + (FIFTHS * middles // max(values.size, 1)).astype(np.int64)
    last = np.flatnonzero(np.diff(fifth, append=FIFTHS + 1))
    return tuple(fifth[last].tolist()), -distinct[last]


SUGGESTIONS = 3
BATCH_SIZE = 1 << 15  # words that are ranked between two reports of progress
UNKNOWN = "unknown"  # the band of words that the model lacks
Rows = Sequence[pa.LargeBinaryArray]


@dataclass(frozen=True)
class Part:
    """What a model is worth for some of the words."""

    name: str
    share: float  # of all words
    perplexity: float | None
    out_of_vocabulary: float  # the share of these words that the model lacks
    accuracy_1: float  # the share of these words that were the likeliest next word
    accuracy_3: float  # ... among the three likeliest
    keystrokes_saved: float


@dataclass(frozen=True)
class Band(Part):
    """The same for words about as frequent; perplexity is of those that the model has, and not of sentence ends."""

    least_share: (
        float | None
    )  # of all words, that the rarest of these words is; two digits; None for unknown words


@dataclass(frozen=True)
class TextQuality:
    """What a model is worth for a text."""

    perplexity: float  # of all words and sentence ends
    perplexity_known: float  # the same without words that the model lacks
    out_of_vocabulary: float  # the share of words that the model lacks
    coverage: float  # the share of words predicted by an n-gram of the highest order
    accuracy_1: float  # the share of words that were the likeliest next word
    accuracy_3: float  # ... among the three likeliest
    keystrokes_saved: float
    words: int  # how many there are; two digits
    order: int
    ngrams: int
    by_text: tuple[Part, ...]  # one for each text
    by_frequency: tuple[
        Band, ...
    ]  # fifths of the words, the most frequent first; then those that are not known

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            **asdict(self),
            "by_text": _plain(self.by_text),
            "by_frequency": _plain(self.by_frequency),
        }


def _plain(parts: Sequence[Part]) -> list[dict[str, Any]]:
    return [asdict(part) for part in parts]


@check_arguments
def evaluate_text(
    models: Mapping[str, LanguageModel | str | Path],
    texts: Any,  # noqa: ANN401 - paths or tables, see bayesgram.io; or several of them with names
    *,
    text_column: str = "text",
) -> dict[str, TextQuality]:
    """Judge language models by held-out text: {"posts": "posts/*.parquet", "reviews": table}, or one without a name.

    A path is opened as `LanguageModel.open` does. Fifths by frequency are those of the words that the first model
    knows. The numbers are computed from the text without noise: if it is private, they are not for publication.

    >>> model = LanguageModel.from_counts(pa.array(["red fish", "blue fish", "fish swim"]), [4, 2, 3])
    >>> found = evaluate_text({"fish": model}, pa.table({"text": ["Red fish swim.", "A blue fish."]}))["fish"]
    >>> round(found.out_of_vocabulary, 3), round(found.accuracy_1, 3), round(found.keystrokes_saved, 3)
    (0.167, 0.5, 0.692)
    """
    if not models:
        raise UsageError.for_argument(
            "models", "{}", "nothing to judge; give one or more, such as {'ours': 'model.arpa'}."
        )
    rows = {
        name: [
            batch.text for batch in read_records(given, text_column=text_column, user_column=None)
        ]
        for name, given in by_name(texts).items()
    }
    found: dict[str, TextQuality] = {}
    bands: FrequencyQuantiles | None = None
    for name, given in models.items():
        model = given if isinstance(given, LanguageModel) else LanguageModel.open(given)
        bands = bands or frequencies(model, rows)
        found[name] = text_quality(model, rows, bands=bands, name=name)
    return found


def frequencies(model: LanguageModel, texts: Mapping[str, Rows]) -> FrequencyQuantiles:
    """How frequent the words of these texts are, those that a model knows."""
    streams = [model.stream(rows) for given in texts.values() for rows in given]
    return FrequencyQuantiles.of(model, np.concatenate([np.zeros(0, np.int32), *streams]))


def has_same_words(first: LanguageModel, second: LanguageModel) -> bool:
    """Whether what is <unk> for one model is for the other, so that perplexities compare."""
    ours, theirs = first.trie.words, second.trie.words
    same = np.array_equal(ours.ends, theirs.ends) and np.array_equal(ours.data, theirs.data)
    return same and replace(first.tokenizer, boundaries=False) == replace(
        second.tokenizer, boundaries=False
    )


@dataclass(frozen=True, eq=False)
class Encoded:
    """Texts as a model reads them: word numbers, −1 where a sentence ends, and what is known of each token."""

    stream: Ids
    letters: Ids  # how many characters
    text: Ids  # the number of its text
    band: Ids  # how frequent it is


def encode(model: LanguageModel, texts: Mapping[str, Rows], bands: FrequencyQuantiles) -> Encoded:
    """Cut rows of valid UTF-8 with the model's tokenizer."""
    columns: list[list[Ids]] = [[np.zeros(0, np.int32)] for _ in range(4)]
    for number, given in enumerate(texts.values()):
        for rows in given:
            for data, offsets, _ in model.tokenizer.tokenize_chunks(rows):
                begun = np.concatenate(
                    [[0], np.cumsum((data & 0xC0) != 0x80)]
                )  # each character has one such byte
                letters = np.diff(begun[offsets]).astype(np.int32)
                stream = model.numbers(data, offsets)
                found = (
                    stream,
                    letters,
                    np.full(stream.size, number, np.int32),
                    bands.find(data, offsets),
                )
                for column, values in zip(columns, found, strict=True):
                    column.append(values)
    return Encoded(*map(np.concatenate, columns))


def text_quality(
    model: LanguageModel,
    texts: Mapping[str, Rows],
    *,
    bands: FrequencyQuantiles | None = None,
    name: str = "the model",
    on_progress: Callable[[float], None] | None = None,
) -> TextQuality:
    """Judge a model, which errors call by a name, by texts; `on_progress` gets the share of the work that is done.

    `bands` says how frequent words are, the same for all models that are compared; else the words it knows are asked.
    """
    given = bands or frequencies(model, texts)
    text = encode(model, texts, given)
    _check_words(text, list(texts), model, name)
    scores, orders, states = model.trie.walk(text.stream)
    words = text.stream != SENTENCE_END
    ranks, typed = _suggested(model, text.stream[words], states[words], on_progress)
    known = text.stream != model.trie.special[2]
    costs = np.where(typed == NEVER, text.letters[words], typed) + 1
    judged = _Judged(text, scores, known, ranks, costs)
    everything = judged.part("", np.ones(text.stream.size, np.bool_))
    return TextQuality(
        perplexity=_perplexity(scores),
        perplexity_known=_perplexity(scores[known]),
        out_of_vocabulary=everything.out_of_vocabulary,
        coverage=float((orders[words] == model.order).mean()),
        accuracy_1=everything.accuracy_1,
        accuracy_3=everything.accuracy_3,
        keystrokes_saved=everything.keystrokes_saved,
        words=int(float(f"{ranks.size:.1e}")),
        order=model.order,
        ngrams=sum(model.sizes),
        by_text=tuple(judged.part(each, text.text == number) for number, each in enumerate(texts)),
        by_frequency=judged.bands(given),
    )


def _check_words(text: Encoded, names: list[str], model: LanguageModel, name: str) -> None:
    """Refuse a text that has no words, or none that the model knows."""
    words = text.stream != SENTENCE_END
    known = words & (text.stream != model.trie.special[2])
    has_words, has_known = (
        np.bincount(text.text[which], minlength=len(names)) for which in (words, known)
    )
    for number, each in enumerate(names):
        called = f"text {each!r}" if each else "the text"
        if not has_words[number]:
            raise BayesgramError(f"{called} has no words: there is nothing to predict.")
        if not has_known[number]:
            raise BayesgramError(
                f"{name}: knows no word of {called}; give text in the language of the model, cut as it was for it"
                f" (tokenizer: {model.tokenizer.name})."
            )


def _suggested(
    model: LanguageModel, words: Ids, states: Ids, on_progress: Callable[[float], None] | None
) -> tuple[Ids, Ids]:
    """The rank of each word after its context, and how many letters are typed before it is suggested.

    Each pair of a context and a word is looked at once.
    """
    pairs, which = np.unique(states.astype(np.int64) << 32 | words, return_inverse=True)
    contexts, wanted = (pairs >> 32).astype(np.int32), (pairs & 0xFFFFFFFF).astype(np.int32)
    ranks, typed = np.empty(pairs.size, np.int32), np.empty(pairs.size, np.int32)
    known, searched = model.trie.words, model.trie.suggested
    for begin in range(0, pairs.size, BATCH_SIZE):
        here = slice(begin, begin + BATCH_SIZE)
        ranks[here], typed[here] = rank_words(
            contexts[here], wanted[here], SUGGESTIONS, known.data, known.ends, searched
        )
        if on_progress:
            on_progress(min(begin + BATCH_SIZE, pairs.size) / pairs.size)
    return ranks[which], typed[which]


@dataclass(frozen=True, eq=False)
class _Judged:
    """What happened at each token; ranks and costs are those of words alone."""

    text: Encoded
    scores: Floats
    known: np.ndarray[Any, np.dtype[np.bool_]]
    ranks: Ids
    costs: Ids

    def part(self, name: str, wanted: np.ndarray[Any, np.dtype[np.bool_]]) -> Part:
        """Those of some tokens."""
        words = self.text.stream != SENTENCE_END
        among, chosen = wanted[words], wanted & words
        ranks, costs = self.ranks[among], self.costs[among]
        return Part(
            name=name,
            share=float(among.mean()),
            perplexity=_perplexity(self.scores[wanted]),
            out_of_vocabulary=float(1 - self.known[chosen].mean()),
            accuracy_1=float((ranks == 0).mean()),
            accuracy_3=float((ranks < SUGGESTIONS).mean()),
            keystrokes_saved=float(1 - costs.sum() / (self.text.letters[chosen] + 1).sum()),
        )

    def bands(self, bands: FrequencyQuantiles) -> tuple[Band, ...]:
        """Words by how frequent they are; bands that the text has."""
        words = self.text.stream != SENTENCE_END
        names = [*(f"fifth {number}" for number in bands.numbers), UNKNOWN]
        found = []
        for number in np.unique(self.text.band[words]).tolist():
            wanted = words & (self.text.band == number)
            known = wanted & self.known
            part = asdict(self.part(names[number], wanted))
            part["perplexity"] = _perplexity(self.scores[known]) if known.any() else None
            least = float(f"{bands.least[number]:.1e}") if number < bands.unknown else None
            found.append(Band(**part, least_share=least))
        return tuple(found)


def _perplexity(scores: Floats) -> float:
    return float(10 ** -scores.mean())


CLAIM = re.compile(r"ε = (\d[\d.]*(?:e[+-]?\d+)?), δ = \S+ \((.+)\)")


@dataclass(frozen=True)
class Claim:
    """What a model says it costs."""

    epsilon: float | None  # None where nothing is said
    label: str | None  # PROVED, EMPIRICAL or NONE, perhaps with what that is worth

    @property
    def guarantee(self) -> str:
        """The label without what it is worth."""
        return (self.label or "").partition(", ")[0]

    @property
    def grade(self) -> str:
        """What a promise that protects little is worth; nothing for others."""
        return (self.label or "").partition(", ")[2]

    @classmethod
    def of(cls, about: Mapping[str, Any]) -> "Claim":
        """That of a model, or of the one part of a mixture that has one.

        >>> Claim.of({"claim": "ε = 0.2, δ = 1e-07 (PROVED)"})
        Claim(epsilon=0.2, label='PROVED')
        >>> Claim.of({"interpolated": [{"claim": "ε = 8, δ = 1e-07 (PROVED, weak)"}, {"weight": 0.5}]})
        Claim(epsilon=8.0, label='PROVED, weak')
        """
        parts = about.get("interpolated", [about])
        claims = [part["claim"] for part in parts if isinstance(part, Mapping) and "claim" in part]
        found = CLAIM.fullmatch(str(claims[0])) if len(claims) == 1 else None
        return cls(float(found[1]), found[2]) if found else cls(None, None)


@dataclass(frozen=True)
class EvaluatedModel:
    """A model and what it is worth."""

    name: str
    model: str  # its path
    claim: Claim
    quality: TextQuality

    @property
    def family(self) -> str:
        """Its name without its ε."""
        epsilon = "" if self.claim.epsilon is None else f"{self.claim.epsilon:g}"
        return self.name.removesuffix(epsilon).rstrip("-_=. ") or self.name

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        claim = {"epsilon": self.claim.epsilon, "guarantee": self.claim.label}
        return {"model": self.model, "name": self.name, **claim, **self.quality.to_json()}


@dataclass(frozen=True)
class Family:
    """Models that differ by their ε."""

    name: str
    guarantee: str
    members: tuple[EvaluatedModel, ...]  # by ε

    @property
    def label(self) -> str:
        """Its name and what its ε are worth: fish (PROVED; weak at ε = 8)."""
        graded: dict[str, list[str]] = {}
        for each in self.members:
            if each.claim.grade:
                graded.setdefault(each.claim.grade, []).append(f"{each.claim.epsilon:g}")
        worth = [
            f"{grade} at ε = {', '.join(dict.fromkeys(found))}" for grade, found in graded.items()
        ]
        return f"{self.name} ({'; '.join([self.guarantee, *worth])})"


def families(judged: Sequence[EvaluatedModel]) -> list[Family]:
    """Those of models that say an ε, in the order in which they were given."""
    groups: dict[tuple[str, str], list[EvaluatedModel]] = {}
    for each in judged:
        if each.claim.epsilon is not None:
            groups.setdefault((each.family, each.claim.guarantee), []).append(each)
    return [Family(*key, tuple(sorted(members, key=_epsilon))) for key, members in groups.items()]


def _epsilon(judged: EvaluatedModel) -> float:
    return judged.claim.epsilon or 0.0


WIDTH, HEIGHT = 270, 280
LABEL = 13  # the height of one, in pixels
ROOM = 0.3  # of the axis, left of the smallest ε: for the names of models without one
GREY = "#6d737c"


@dataclass(frozen=True)
class Measure:
    """What a panel shows."""

    field: str
    title: str
    log: bool = False
    text: int | None = None  # of one of the texts, or of all together

    def of(self, judged: EvaluatedModel) -> float:
        """Its value."""
        found = judged.quality if self.text is None else judged.quality.by_text[self.text]
        return float(getattr(found, self.field))

    def scaled(self, value: float) -> float:
        """A value as its axis has it."""
        return math.log(value) if self.log else value

    def unscaled(self, place: float) -> float:
        """The value at a place of its axis."""
        return math.exp(place) if self.log else place

    def domain(self, judged: Sequence[EvaluatedModel]) -> list[float]:
        """A little more than the values need, and room for a name above the highest."""
        scaled = [self.scaled(self.of(each)) for each in judged]
        margin = max(max(scaled) - min(scaled), 0.02 if self.log else 0.002) * 0.08
        return [self.unscaled(end) for end in (min(scaled) - margin, max(scaled) + 1.6 * margin)]


MEASURES = (
    Measure("perplexity", "perplexity (lower is better)", log=True),
    Measure("accuracy_1", "first suggestion right"),
    Measure("keystrokes_saved", "keystrokes saved"),
)


def over_epsilon(judged: Sequence[EvaluatedModel], *, same_words: bool) -> Any:  # noqa: ANN401 - Altair's charts share no base
    """Three panels side by side; of several texts, a row for each."""
    import altair as alt  # noqa: PLC0415 - 0.5 s

    found = families(judged)
    if not found:
        raise UsageError(
            Argument("plot"),
            ": none of these models says an ε; give a release, or a model folder made of one.",
        )
    notes = [
        _of_words(judged, same_words=same_words),
        _key(judged),
        f"{DISCLOSURE[:1].upper()}{DISCLOSURE[1:]}.",
    ]
    texts = [part.name for part in judged[0].quality.by_text]
    drawn = [
        _row(judged, found, [replace(measure, text=at) for measure in MEASURES], name)
        for at, name in enumerate(texts)
    ]
    subtitle = [note for note in notes if note]
    title = alt.Title(
        "Language models on held-out text",
        subtitle=subtitle,
        anchor="start",
        offset=12,
        subtitleColor="#555",
    )
    return (
        alt.vconcat(*drawn, spacing=28, title=title)
        .configure_view(stroke=None)
        .configure_axis(titleFontWeight="normal")
        .configure_legend(orient="bottom", direction="vertical", labelLimit=420, title=None)
    )


def _row(
    judged: Sequence[EvaluatedModel],
    found: Sequence[Family],
    measures: Sequence[Measure],
    name: str,
) -> Any:  # noqa: ANN401
    import altair as alt  # noqa: PLC0415

    panels = alt.hconcat(*(_panel(measure, judged, found) for measure in measures), spacing=28)
    return panels.properties(title=alt.Title(name, anchor="start", fontSize=12)) if name else panels


def _of_words(judged: Sequence[EvaluatedModel], *, same_words: bool) -> str:
    """How many words are unknown, and whether perplexities compare."""
    unknown = sorted(each.quality.out_of_vocabulary for each in judged)
    if same_words:
        return f"All models know the same words, and lack {unknown[0]:.1%} of those of the text."
    return (
        f"The models don't know the same words, and lack {unknown[0]:.1%} to {unknown[-1]:.1%} of those of the text:"
        " their perplexities don't compare."
    )


def _key(judged: Sequence[EvaluatedModel]) -> str:
    """What the lines and points mean, those that there are."""
    claims = [each.claim for each in judged]
    meanings = {
        "Dotted: models that say no ε.": any(claim.epsilon is None for claim in claims),
        "Dashed: an ε that is not PROVED.": any(
            claim.guarantee not in ("", "PROVED") for claim in claims
        ),
        "Rings: an ε that protects little.": any(claim.grade for claim in claims),
    }
    return " ".join(meaning for meaning, there in meanings.items() if there)


def _panel(measure: Measure, judged: Sequence[EvaluatedModel], found: Sequence[Family]) -> Any:  # noqa: ANN401
    import altair as alt  # noqa: PLC0415

    domain = measure.domain(judged)
    scale = alt.Scale(type="log" if measure.log else "linear", domain=domain, nice=False)
    ticks = alt.Axis(format="~g" if measure.log else ".3~p", tickCount=6, gridOpacity=0.5)
    y = alt.Y("value:Q", title=measure.title, scale=scale, axis=ticks)
    epsilons = sorted(
        {each.claim.epsilon for family in found for each in family.members if each.claim.epsilon}
    )
    ends = _ends(epsilons)
    x = alt.X(
        "epsilon:Q",
        title="ε",
        scale=alt.Scale(type="log", domain=ends, nice=False),
        axis=alt.Axis(values=epsilons, format="~g", labelOverlap="greedy", grid=False),
    )
    colours = [LINES[at % len(LINES)] for at in range(len(found))]
    colour = alt.Color(
        "line:N", scale=alt.Scale(domain=[family.label for family in found], range=colours)
    )
    lines, dots = (
        alt.Chart(alt.InlineData(values=values)).encode(x=x, y=y, color=colour)
        for values in (_means(measure, found), _points(measure, found))
    )
    rules, names = _across(measure, judged, domain, ends[0], y)
    layers = [
        *rules,
        lines.transform_filter("datum.proved").mark_line(strokeWidth=2),
        lines.transform_filter("!datum.proved").mark_line(strokeWidth=2, strokeDash=[5, 3]),
        dots.transform_filter("!datum.graded").mark_point(filled=True, size=46, opacity=1),
        dots.transform_filter("datum.graded").mark_point(
            size=46, fill="white", strokeWidth=2, opacity=1
        ),
        *names,  # last, so that no line runs through them
    ]
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)


def _across(
    measure: Measure,
    judged: Sequence[EvaluatedModel],
    domain: Sequence[float],
    left: float,
    y: Any,  # noqa: ANN401
) -> tuple[list[Any], list[Any]]:
    """Models without ε: a dotted line each, and the name above its left end, moved where two would overlap."""
    import altair as alt  # noqa: PLC0415

    without = sorted((each for each in judged if each.claim.epsilon is None), key=measure.of)
    low, high = map(measure.scaled, domain)
    heights = [(measure.scaled(measure.of(each)) - low) / (high - low) * HEIGHT for each in without]
    places = spread_out([height + LABEL * 0.6 for height in heights], LABEL, HEIGHT)
    named = [
        {
            "text": each.name,
            "value": measure.unscaled(low + place / HEIGHT * (high - low)),
            "epsilon": left,
        }
        for each, place in zip(without, places, strict=True)
    ]
    if not without:
        return [], []
    values = [{"value": measure.of(each)} for each in without]
    rules = (
        alt.Chart(alt.InlineData(values=values))
        .mark_rule(strokeDash=[2, 3], color=GREY)
        .encode(y=y)
    )
    names = alt.Chart(alt.InlineData(values=named)).encode(x="epsilon:Q", y=y, text="text:N")
    how: dict[str, Any] = {"align": "left", "dx": 3, "fontSize": 10.5}
    behind = names.mark_text(**how, color="white", stroke="white", strokeWidth=4)
    return [rules], [behind, names.mark_text(**how, color=GREY)]


def _points(measure: Measure, found: Sequence[Family]) -> list[dict[str, Any]]:
    """Every model."""
    return [
        {
            "line": family.label,
            "epsilon": each.claim.epsilon,
            "value": measure.of(each),
            "graded": bool(each.claim.grade),
        }
        for family in found
        for each in family.members
    ]


def _means(measure: Measure, found: Sequence[Family]) -> list[dict[str, Any]]:
    """What a line goes through: of several models of one family and ε, the mean."""
    values = []
    for family in found:
        proved = family.guarantee == "PROVED"
        for epsilon in dict.fromkeys(each.claim.epsilon for each in family.members):
            value = mean(
                measure.of(each) for each in family.members if each.claim.epsilon == epsilon
            )
            values.append(
                {"line": family.label, "epsilon": epsilon, "value": value, "proved": proved}
            )
    return values


def _ends(epsilons: Sequence[float]) -> list[float]:
    """The ends of the axis of ε: room at the left for names, a little at the right."""
    low, high = math.log(min(epsilons)), math.log(max(epsilons))
    width = max(high - low, 1.0)
    return [math.exp(low - ROOM * width), math.exp(high + 0.06 * width)]
