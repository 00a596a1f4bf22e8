"""How good language models are for held-out text: perplexity, suggestions, keystrokes saved.

In:  `LanguageModel`s and rows of text, perhaps several texts with names.
Out: a `TextQuality` for each model: all texts together, each text, and words by how frequent they
     are.

Everything is computed from private text without noise, so it is itself a disclosure (see
`evaluation.DISCLOSURE`).

- **Perplexity** is 10 to the mean −log10 probability of words and sentence ends. A word that the
  model lacks is <unk>, which stands for all such words together: perplexity compares models of the
  same words only.
- **Suggestions** are right if the word that comes is the likeliest, or one of the three likeliest.
  Words that the model lacks count, as wrong; sentence ends don't.
- **Keystrokes saved**: three words are suggested before and after each letter, and the user picks
  the right one as soon as it is there. A pick is one keystroke, and brings the space after the
  word along. So a word of n letters that is suggested after j of them costs j + 1, and n + 1 if it
  never is before all are typed; saved is the share 1 − Σ costs / Σ (n + 1). Words are as the
  tokenizer makes them: capitals and punctuation are not typed.

Models whose names differ by their ε alone form a family, which charts draw as one line.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bayesgram.arguments import check_arguments
from bayesgram.arrays import Bools, Bytes, Floats, Ids
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.io import read_records
from bayesgram.lm.language_model import LanguageModel
from bayesgram.lm.search import NEVER_SUGGESTED, SENTENCE_END, rank_words
from bayesgram.public.mixture import inputs_by_source
from bayesgram.public.release_model import open_model

SUGGESTIONS = 3  # as keyboards show
BATCH_SIZE = 1 << 15  # words that are ranked between two reports of progress; not measured
UNKNOWN = "unknown"  # the band of words that the model lacks
Rows = Sequence[pa.LargeBinaryArray]

# --- Results ---


@dataclass(frozen=True)
class SubsetQuality:
    """How good a model is for some of the words."""

    name: str
    share: float  # of all words
    perplexity: float | None
    out_of_vocabulary: float  # the share of these words that the model lacks
    accuracy_1: float  # the share of these words that were the likeliest next word
    accuracy_3: float  # ... among the three likeliest
    keystrokes_saved: float


@dataclass(frozen=True)
class FrequencyBandQuality(SubsetQuality):
    """How good a model is for words that are about as frequent.

    The perplexity is of those words that the model has, without sentence ends.
    """

    # The share of all words that the rarest word of the band has; two digits; None for unknown
    # words.
    least_share: float | None


@dataclass(frozen=True)
class TextQuality:
    """How good a model is for a text."""

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
    by_text: tuple[SubsetQuality, ...]  # one for each text
    # Fifths of the words, the most frequent first; then those that the model lacks.
    by_frequency: tuple[FrequencyBandQuality, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the values as `bayesgram evaluate --json` writes them."""
        return {
            **asdict(self),
            "by_text": [asdict(part) for part in self.by_text],
            "by_frequency": [asdict(band) for band in self.by_frequency],
        }


# --- Evaluating models ---


@check_arguments
def evaluate_text(
    models: Mapping[str, LanguageModel | str | Path],
    texts: Any,  # noqa: ANN401 - paths or tables, see bayesgram.io; or several of them with names
    *,
    text_column: str = "text",
) -> dict[str, TextQuality]:
    """Judge language models by held-out text.

    The numbers are computed from the text without noise: if it is private, they are not for
    publication.

    Args:
        models: By name. A path is opened as `open_model` does: the model of a release starts from
            its public model. The first model says which words are known when words are grouped
            into fifths by frequency.
        texts: One text (a path, a pattern or a table), or several with names, such as
            {"posts": "posts/*.parquet", "reviews": table}.
        text_column: The column that holds the text.

    Returns:
        The quality of each model.

    >>> ngrams = pa.array(["red fish", "blue fish", "fish swim"])
    >>> model = LanguageModel.from_counts(ngrams, [4, 2, 3])
    >>> text = pa.table({"text": ["Red fish swim.", "A blue fish."]})
    >>> quality = evaluate_text({"fish": model}, text)["fish"]
    >>> round(quality.out_of_vocabulary, 3), round(quality.accuracy_1, 3)
    (0.167, 0.5)
    >>> round(quality.keystrokes_saved, 3)
    0.692
    """
    if not models:
        raise UsageError.for_argument(
            "models", "{}", "nothing to judge; give one or more, such as {'ours': 'model.arpa'}."
        )
    rows = {
        name: [
            batch.text for batch in read_records(source, text_column=text_column, user_column=None)
        ]
        for name, source in inputs_by_source(texts).items()
    }
    evaluation = TextEvaluation(rows)
    for name, source in models.items():
        model = source if isinstance(source, LanguageModel) else open_model(source)
        evaluation.add(name, model)
    return {result.name: result.quality for result in evaluation.results}


class TextEvaluation:
    """Language models judged by the same texts, one after the other.

    The first model says how frequent words are.

    Attributes:
        results: The models that were judged.
        same_words: Whether all of them know the same words, so that perplexities compare.
    """

    def __init__(self, texts: Mapping[str, Rows]) -> None:
        self._texts = texts
        self._bands: FrequencyBands | None = None
        self.results: list[EvaluatedModel] = []
        self.same_words = True

    def add(
        self,
        name: str,
        model: LanguageModel,
        *,
        path: str | None = None,
        on_progress: Callable[[float], None] | None = None,
    ) -> None:
        """Judge one more model.

        Args:
            name: What it is called.
            model: The model.
            path: Where it is; its name if it is no file.
            on_progress: Gets the share of the work that is done.
        """
        if self._bands is None:
            self._bands = FrequencyBands.from_texts(model, self._texts)
        self.same_words = self.same_words and has_same_words(self._bands.model, model)
        quality = evaluate_model(
            model, self._texts, bands=self._bands, name=name, on_progress=on_progress
        )
        claim = ModelClaim.from_description(model.about)
        public_model = tuple(model.about.get("public_model", ()))
        self.results.append(EvaluatedModel(name, path or name, claim, quality, public_model))


def evaluate_model(
    model: LanguageModel,
    texts: Mapping[str, Rows],
    *,
    bands: "FrequencyBands | None" = None,
    name: str = "the model",
    on_progress: Callable[[float], None] | None = None,
) -> TextQuality:
    """Judge one model by texts.

    Args:
        model: What is judged.
        texts: Rows of valid UTF-8, by the name of their text.
        bands: How frequent words are, the same for all models that are compared; by default among
            the words that this model knows.
        name: What errors call the model.
        on_progress: Gets the share of the work that is done.
    """
    bands = bands or FrequencyBands.from_texts(model, texts)
    tokens = encode_texts(model, texts, bands)
    _check_words(tokens, list(texts), model, name)
    scores, orders, states = model.trie.score(tokens.stream)
    is_word = tokens.stream != SENTENCE_END
    ranks, typed = _rank_suggestions(model, tokens.stream[is_word], states[is_word], on_progress)
    is_known = tokens.stream != model.trie.special.unknown
    costs = np.where(typed == NEVER_SUGGESTED, tokens.letters[is_word], typed) + 1
    results = _TokenResults(tokens, scores, is_known, ranks, costs)
    everything = results.summarise("", np.ones(tokens.stream.size, np.bool_))
    return TextQuality(
        perplexity=_perplexity(scores),
        perplexity_known=_perplexity(scores[is_known]),
        out_of_vocabulary=everything.out_of_vocabulary,
        coverage=float((orders[is_word] == model.order).mean()),
        accuracy_1=everything.accuracy_1,
        accuracy_3=everything.accuracy_3,
        keystrokes_saved=everything.keystrokes_saved,
        words=int(float(f"{ranks.size:.1e}")),
        order=model.order,
        ngrams=sum(model.sizes),
        by_text=tuple(
            results.summarise(text_name, tokens.text == number)
            for number, text_name in enumerate(texts)
        ),
        by_frequency=results.summarise_bands(bands),
    )


def has_same_words(first: LanguageModel, second: LanguageModel) -> bool:
    """Return whether the same words are <unk> for both models, so that perplexities compare."""
    words = first.trie.words
    other = second.trie.words
    if not (np.array_equal(words.ends, other.ends) and np.array_equal(words.data, other.data)):
        return False
    tokenizer = replace(first.tokenizer, boundaries=False)
    return tokenizer == replace(second.tokenizer, boundaries=False)


# --- Words by how frequent they are ---

BAND_COUNT = 5  # fifths: few enough for a table, and for many words in each


@dataclass(frozen=True, eq=False)
class FrequencyBands:
    """Fifths of the running words of a text, by how frequent the words are.

    The most frequent words that make up a fifth of the known words are the first band, and so on;
    words that are as frequent share a band, that of the middle one of them. Words that the model
    lacks are the last band. (A model's own probability of a word that stands alone says how often
    it follows what was never seen, not how frequent it is.)
    """

    model: LanguageModel  # which words are known
    shares: Floats  # of the running words, for each of the model's words
    fifths: tuple[int, ...]  # which fifth each band is, from 1; those without words are left out
    least_shares: Floats  # the share of the rarest word of each band, descending

    @classmethod
    def from_texts(cls, model: LanguageModel, texts: Mapping[str, Rows]) -> "FrequencyBands":
        """Return the bands of all texts together."""
        streams = [model.encode_texts(rows) for text in texts.values() for rows in text]
        stream = np.concatenate([np.zeros(0, np.int32), *streams])
        words = stream[stream != SENTENCE_END]
        shares = np.bincount(words, minlength=len(model.trie.words)) / max(words.size, 1)
        known_words = words[words != model.trie.special.unknown]
        fifths, least_shares = split_into_fifths(shares[known_words])
        return cls(model, shares, fifths, least_shares)

    @property
    def unknown(self) -> int:
        """The band of words that the model lacks."""
        return self.least_shares.size

    def band_of_tokens(self, data: Bytes, offsets: Ids) -> Ids:
        """Return the band of each token; that of a sentence end means nothing."""
        numbers = self.model.encode_tokens(data, offsets)
        bands = np.searchsorted(-self.least_shares, -self.shares[np.maximum(numbers, 0)])
        is_unknown = (numbers == self.model.trie.special.unknown) | (numbers == SENTENCE_END)
        rarest = max(self.least_shares.size - 1, 0)  # also of words only another tokenizer finds
        return np.where(is_unknown, self.unknown, np.minimum(bands, rarest)).astype(np.int32)


def split_into_fifths(values: Floats) -> tuple[tuple[int, ...], Floats]:
    """Return the numbers of the fifths, from 1, and the least value of each, the greatest first.

    Equal values share a fifth.

    >>> split_into_fifths(np.array([5.0, 5, 4, 4, 3, 3, 2, 2, 1, 1]))
    ((1, 2, 3, 4, 5), array([5., 4., 3., 2., 1.]))
    >>> split_into_fifths(np.array([9.0, 9, 9, 9, 1]))
    ((3, 5), array([9., 1.]))
    """
    distinct, counts = np.unique(-values, return_counts=True)
    middles = np.cumsum(counts) - counts / 2
    fifth = 1 + (BAND_COUNT * middles // max(values.size, 1)).astype(np.int64)
    last = np.flatnonzero(np.diff(fifth, append=BAND_COUNT + 1))
    return tuple(fifth[last].tolist()), -distinct[last]


# --- Tokens ---


@dataclass(frozen=True, eq=False)
class EncodedTexts:
    """Texts as a model reads them, token by token."""

    stream: Ids  # word numbers; −1 where a sentence ends
    letters: Ids  # how many characters
    text: Ids  # the number of the text
    band: Ids  # how frequent the word is


def encode_texts(
    model: LanguageModel, texts: Mapping[str, Rows], bands: FrequencyBands
) -> EncodedTexts:
    """Cut rows of valid UTF-8 with the model's tokenizer.

    Args:
        model: The model, whose tokenizer cuts the text.
        texts: Rows of valid UTF-8, by the name of their text.
        bands: How frequent words are.
    """
    columns: list[list[Ids]] = [[np.zeros(0, np.int32)] for _ in range(4)]
    for number, text in enumerate(texts.values()):
        for rows in text:
            for data, offsets, _ in model.tokenizer.tokenize_chunks(rows):
                # Each character has one byte that is no continuation byte.
                characters = np.concatenate([[0], np.cumsum((data & 0xC0) != 0x80)])
                stream = model.encode_tokens(data, offsets)
                columns[0].append(stream)
                columns[1].append(np.diff(characters[offsets]).astype(np.int32))
                columns[2].append(np.full(stream.size, number, np.int32))
                columns[3].append(bands.band_of_tokens(data, offsets))
    return EncodedTexts(*map(np.concatenate, columns))


def _check_words(tokens: EncodedTexts, names: list[str], model: LanguageModel, name: str) -> None:
    """Refuse a text that has no words, or none that the model knows."""
    is_word = tokens.stream != SENTENCE_END
    is_known = is_word & (tokens.stream != model.trie.special.unknown)
    word_counts = np.bincount(tokens.text[is_word], minlength=len(names))
    known_counts = np.bincount(tokens.text[is_known], minlength=len(names))
    for number, text_name in enumerate(names):
        text = f"text {text_name!r}" if text_name else "the text"
        if not word_counts[number]:
            raise BayesgramError(f"{text} has no words: there is nothing to predict.")
        if not known_counts[number]:
            raise BayesgramError(
                f"{name}: knows no word of {text}; give text in the language of the model, cut as"
                f" it was for it (tokenizer: {model.tokenizer.name})."
            )


def _rank_suggestions(
    model: LanguageModel, words: Ids, states: Ids, on_progress: Callable[[float], None] | None
) -> tuple[Ids, Ids]:
    """Return each word's rank after its context, and how many letters are typed before it shows.

    Each pair of a context and a word is looked at once.
    """
    pairs, pair_of_word = np.unique(states.astype(np.int64) << 32 | words, return_inverse=True)
    contexts = (pairs >> 32).astype(np.int32)
    targets = (pairs & 0xFFFFFFFF).astype(np.int32)
    ranks = np.empty(pairs.size, np.int32)
    typed = np.empty(pairs.size, np.int32)
    model_words = model.trie.words
    trie = model.trie.for_prediction
    for begin in range(0, pairs.size, BATCH_SIZE):
        batch = slice(begin, begin + BATCH_SIZE)
        ranks[batch], typed[batch] = rank_words(
            contexts[batch], targets[batch], SUGGESTIONS, model_words.data, model_words.ends, trie
        )
        if on_progress:
            on_progress(min(begin + BATCH_SIZE, pairs.size) / pairs.size)
    return ranks[pair_of_word], typed[pair_of_word]


@dataclass(frozen=True, eq=False)
class _TokenResults:
    """What happened at each token."""

    tokens: EncodedTexts
    scores: Floats  # log10 probabilities
    is_known: Bools
    ranks: Ids  # of words alone, without sentence ends
    costs: Ids  # keystrokes; of words alone

    def summarise(self, name: str, mask: Bools) -> SubsetQuality:
        """Return the quality for the tokens of a mask."""
        is_word = self.tokens.stream != SENTENCE_END
        among_words = mask[is_word]
        selected_words = mask & is_word
        ranks = self.ranks[among_words]
        costs = self.costs[among_words]
        return SubsetQuality(
            name=name,
            share=float(among_words.mean()),
            perplexity=_perplexity(self.scores[mask]),
            out_of_vocabulary=float(1 - self.is_known[selected_words].mean()),
            accuracy_1=float((ranks == 0).mean()),
            accuracy_3=float((ranks < SUGGESTIONS).mean()),
            keystrokes_saved=float(
                1 - costs.sum() / (self.tokens.letters[selected_words] + 1).sum()
            ),
        )

    def summarise_bands(self, bands: FrequencyBands) -> tuple[FrequencyBandQuality, ...]:
        """Return the quality for each band of words that the text has."""
        is_word = self.tokens.stream != SENTENCE_END
        names = [*(f"fifth {number}" for number in bands.fifths), UNKNOWN]
        qualities = []
        for band in np.unique(self.tokens.band[is_word]).tolist():
            in_band = is_word & (self.tokens.band == band)
            is_scored = in_band & self.is_known
            summary = asdict(self.summarise(names[band], in_band))
            summary["perplexity"] = _perplexity(self.scores[is_scored]) if is_scored.any() else None
            least_share = float(f"{bands.least_shares[band]:.1e}") if band < bands.unknown else None
            qualities.append(FrequencyBandQuality(**summary, least_share=least_share))
        return tuple(qualities)


def _perplexity(scores: Floats) -> float:
    return float(10 ** -scores.mean())


# --- Families: models that differ by their ε ---

CLAIM_PATTERN = re.compile(r"ε = (\d[\d.]*(?:e[+-]?\d+)?), δ = \S+ \((.+)\)")


@dataclass(frozen=True)
class ModelClaim:
    """The privacy that a model says it has."""

    epsilon: float | None  # None where it says nothing
    label: str | None  # PROVED, EMPIRICAL or NONE, perhaps followed by a grade

    @property
    def guarantee(self) -> str:
        """The label without its grade."""
        return (self.label or "").partition(", ")[0]

    @property
    def grade(self) -> str:
        """The grade of a promise that protects little; empty for others."""
        return (self.label or "").partition(", ")[2]

    @classmethod
    def from_description(cls, about: Mapping[str, Any]) -> "ModelClaim":
        """Return the claim of a model, or of the one part of a mixture that has one.

        >>> ModelClaim.from_description({"claim": "ε = 0.2, δ = 1e-07 (PROVED)"})
        ModelClaim(epsilon=0.2, label='PROVED')
        >>> parts = [{"claim": "ε = 8, δ = 1e-07 (PROVED, weak)"}, {"weight": 0.5}]
        >>> ModelClaim.from_description({"interpolated": parts})
        ModelClaim(epsilon=8.0, label='PROVED, weak')
        """
        parts = about.get("interpolated", [about])
        claims = [part["claim"] for part in parts if isinstance(part, Mapping) and "claim" in part]
        match = CLAIM_PATTERN.fullmatch(str(claims[0])) if len(claims) == 1 else None
        return cls(float(match[1]), match[2]) if match else cls(None, None)


@dataclass(frozen=True)
class EvaluatedModel:
    """A model, what it claims, and how good it is."""

    name: str
    model: str  # its path
    claim: ModelClaim
    quality: TextQuality
    public_model: tuple[str, ...] = ()  # sources of the public model that a release corrects

    @property
    def family(self) -> str:
        """The name of the model without its ε: models of one family are one line of a chart."""
        epsilon = "" if self.claim.epsilon is None else f"{self.claim.epsilon:g}"
        return self.name.removesuffix(epsilon).rstrip("-_=. ") or self.name

    def to_json(self) -> dict[str, Any]:
        """Return the values as `bayesgram evaluate --json` writes them."""
        claim = {"epsilon": self.claim.epsilon, "guarantee": self.claim.label}
        return {
            "model": self.model,
            "name": self.name,
            **claim,
            "public_model": list(self.public_model),
            **self.quality.to_json(),
        }


@dataclass(frozen=True)
class ModelFamily:
    """Models that differ by their ε."""

    name: str
    guarantee: str
    members: tuple[EvaluatedModel, ...]  # by ε

    @property
    def label(self) -> str:
        """Its name and guarantee, with grades: fish (PROVED; weak at ε = 8)."""
        epsilons_by_grade: dict[str, list[str]] = {}
        for member in self.members:
            if member.claim.grade:
                epsilons = epsilons_by_grade.setdefault(member.claim.grade, [])
                epsilons.append(f"{member.claim.epsilon:g}")
        grades = [
            f"{grade} at ε = {', '.join(dict.fromkeys(epsilons))}"
            for grade, epsilons in epsilons_by_grade.items()
        ]
        return f"{self.name} ({'; '.join([self.guarantee, *grades])})"


def group_families(models: Sequence[EvaluatedModel]) -> list[ModelFamily]:
    """Group the models that claim an ε, in the order in which they were given.

    A model that claims none (of public text, of several releases, or an ARPA file, which has no
    place for a claim) belongs to no family.
    """
    groups: dict[tuple[str, str], list[EvaluatedModel]] = {}
    for model in models:
        if model.claim.epsilon is not None:
            groups.setdefault((model.family, model.claim.guarantee), []).append(model)
    return [
        ModelFamily(
            name, guarantee, tuple(sorted(members, key=lambda model: model.claim.epsilon or 0.0))
        )
        for (name, guarantee), members in groups.items()
    ]
