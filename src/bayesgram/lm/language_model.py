"""The words of the text that is being written, mixed into what a model expects next.

In:  the next words by a model, and the words that stand in the text already.   Out: the next words by both:
p(w) = (1 − λ) p(w|h) + λ c(w)/N, where c(w) of the last N words are w. A word that the model lacks, such as a name, is
suggested too once it was written.
It is for whoever writes the text: nothing is kept after the answer, and nothing goes into a model or a release.

Words of a lower-case model as a person would write them: names as in public text, capitals where a sentence begins.

In:  public text (`CaseCounter`).   Out: for each word that is mostly written otherwise than in lower case, how:
the most frequent way inside sentences, where a capital means something. `as_written` shows a suggestion so.
Models with case kept (`--keep-case`) need none of it. Public text only: a spelling is as private as a word.

A language model from a release: what keyboards and recognisers ship. Post-processing, so at no privacy cost.

In:  a `Release`.   Out: a back-off model that scores and predicts.
The estimate is in `estimate`, the arrays in `trie`, other people's format in `arpa`. Every sentence has a probability
above 0: words that the model lacks are <unk>, which stands for all of them together.

How likely the n-grams of a model are to occur in text: p(w₁) p(w₂|w₁) p(w₃|w₁w₂).

In:  a `LanguageModel`.   Out: its n-grams as strings, and their probabilities. Nothing is backed off: a model lists
the contexts of all its n-grams. A sentence begins as often as it ends, so p(<s>) is taken as p(</s>).

The best model that has at most so many bytes.

In:  a way to build a model with at most so many n-grams, and a size.   Out: a quantised model whose folder fits.
All words stay, so the smallest model is that of the words and one n-gram more. Between it and the whole one the size
grows almost evenly with the number of n-grams, so a few tries find how many fit. Does not choose the n-grams: see
`pruning`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bayesgram.arguments import check_arguments
from bayesgram.arrays import Bools, Bytes, Floats, Ids
from bayesgram.errors import UsageError, check_int
from bayesgram.lm.estimate import estimate, smaller
from bayesgram.lm.files import Opened, fill_folder, read_model, size_on_disk, write_model
from bayesgram.lm.quantisation import BITS, quantised
from bayesgram.lm.search import SENTENCE_END, normalise_stream
from bayesgram.lm.trie import Trie
from bayesgram.notebook import html
from bayesgram.releases.provenance import (
    MADE_FROM,
    DiscoveryClaim,
    Ingredient,
    Provenance,
    ingredients_from_json,
    label_of,
    unique_ingredients,
)
from bayesgram.releases.release import CARD, Release
from bayesgram.text.ngrams import END
from bayesgram.text.strings import EMPTY, StringTable
from bayesgram.text.tokenizer import Tokenizer, chunks

CACHE_WEIGHT = (
    0.15  # λ where none is given: the best of seven on made-up people (benchmarks/cache.py)
)
MOST_CACHED = 200  # words: the last ones of a text


def check_weight(weight: float) -> float:
    """λ, if it can be one."""
    if not 0 <= weight < 1:
        raise UsageError.for_argument(
            "cache",
            weight,
            "the share of the words of this text is from 0 to less than 1, such as 0.15.",
        )
    return weight


def cached_shares(words: Sequence[str], typed: str) -> dict[str, float]:
    """c(w)/N of the words that begin as typed."""
    last = words[-MOST_CACHED:]
    return {
        word: count / len(last) for word, count in Counter(last).items() if word.startswith(typed)
    }


def mixed_with_cache(
    expected: dict[str, float], shares: dict[str, float], weight: float, how_many: int
) -> list[tuple[str, float]]:
    """The likeliest words of both, of equal ones the first in byte order; `expected` has every word of `shares`.

    >>> mixed_with_cache({"you": 0.5, "ann": 0.0}, {"ann": 1.0}, 0.5, 2)
    [('ann', 0.5), ('you', 0.25)]
    """
    mixed = {
        word: (1 - weight) * p + weight * shares.get(word, 0.0) for word, p in expected.items()
    }
    return sorted(mixed.items(), key=lambda item: (-item[1], item[0].encode()))[:how_many]


LEAST = 2  # times that a spelling is seen before it is believed


class CaseCounter:
    """Counts how words are written inside sentences.

    >>> counter = CaseCounter(Tokenizer())
    >>> counter.add(pa.array([b"In Rome we said so. Said who? In Rome!", b"We love Rome, and an iPhone or iPhone"]))
    >>> counter.casing()
    {'iphone': 'iPhone', 'rome': 'Rome'}
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        if not tokenizer.lowercase:
            raise UsageError.for_argument(
                "tokenizer",
                repr(tokenizer.name),
                "keeps case already; only lower-case words are cased.",
            )
        self._lower, self._kept = tokenizer, replace(tokenizer, lowercase=False)
        self._words, self._spellings = StringTable(), StringTable()
        self._seen: dict[tuple[int, int], int] = {}

    def add(self, texts: pa.LargeBinaryArray) -> None:
        """Count rows of valid UTF-8: cut in both ways, which differ in case alone."""
        rows = texts.cast(pa.large_binary())
        for lower, kept in zip(
            self._lower.tokenize_chunks(rows), self._kept.tokenize_chunks(rows), strict=True
        ):
            words, spellings = self._words.add(*lower[:2]), self._spellings.add(*kept[:2])
            inside = _inside(words)
            pairs, counts = np.unique(
                np.stack([words[inside], spellings[inside]]), axis=1, return_counts=True
            )
            for word, spelling, count in zip(*pairs.tolist(), counts.tolist(), strict=True):
                self._seen[word, spelling] = self._seen.get((word, spelling), 0) + count

    def casing(self, among: Iterable[str] | None = None) -> dict[str, str]:
        """The words that are written otherwise than in lower case, mostly; all, or those `among` some."""
        words = [word.decode() for word in self._words.strings().to_pylist()]
        spellings = [spelling.decode() for spelling in self._spellings.strings().to_pylist()]
        wanted = None if among is None else set(among)
        best: dict[str, tuple[int, bool, str]] = {}
        for (word, spelling), count in self._seen.items():
            name, spelled = words[word], spellings[spelling]
            best[name] = max(best.get(name, (0, False, "")), (count, name == spelled, spelled))
        found = {
            name: spelled
            for name, (count, _, spelled) in best.items()
            if spelled != name and count >= LEAST
        }
        return {name: found[name] for name in sorted(found) if wanted is None or name in wanted}


def _inside(words: Ids) -> Bools:
    """Which tokens are words that begin no sentence."""
    inside: Bools = words != EMPTY
    inside[1:] &= words[:-1] != EMPTY
    inside[:1] = False
    return inside


def as_written(word: str, typed: str, casing: Mapping[str, str], *, begins_sentence: bool) -> str:
    """A suggested word with the capitals that belong there; what is typed decides first.

    >>> [as_written(word, "", {"iphone": "iPhone"}, begins_sentence=True) for word in ("hello", "iphone")]
    ['Hello', 'iPhone']
    >>> [as_written("hello", typed, {}, begins_sentence=True) for typed in ("he", "He", "HE")]
    ['hello', 'Hello', 'HELLO']
    >>> as_written("rome", "r", {"rome": "Rome"}, begins_sentence=False)
    'Rome'
    """
    if sum(map(str.isalpha, typed)) > 1 and typed.isupper():
        return word.upper()
    if word in casing:
        return casing[word]
    if typed[:1].isupper() or (begins_sentence and not typed):
        return word[:1].title() + word[1:]
    return word


PUBLIC = "public.json"  # what a public model has (see `public.public_model`), which holds several such folders
MOST_PREDICTIONS = 1000


class WordScore(NamedTuple):
    """What a model says of one word."""

    word: str
    log10: float
    order: int  # of the n-gram that was used
    known: bool


class Prediction(NamedTuple):
    """A next word and its probability."""

    word: str
    probability: float


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """A back-off model.

    >>> import pyarrow as pa
    >>> model = LanguageModel.from_counts(pa.array(["red fish", "blue fish", "fish swim"]), [4, 2, 3])
    >>> model.predict("A red", 1)[0].word
    'fish'
    >>> model.score("blue fish") < 0 < model.perplexity(["Red fish swim.", "Green fish swim."])
    True
    """

    trie: Trie
    tokenizer: Tokenizer
    about: dict[str, Any] = field(default_factory=dict)  # where it is from and what that is worth
    casing: dict[str, str] = field(
        default_factory=dict
    )  # how words are written that are not in lower case (`casing`)

    @classmethod
    @check_arguments
    def from_release(cls, release: Release, *, prune: int | None = None) -> "LanguageModel":
        """The model of a release by itself; `prune` is how many n-grams, of all orders together, may stay.

        With all of public text it is far better: see `PublicModel.moved_by`.
        """
        ngrams, expected, card = release.ngrams, expected_counts(release), release.card
        about: dict[str, Any] = {
            "mechanism": card.mechanism,
            "claim": card.claim,
            "protects": card.protects,
            "software": card.software,
            **made_from_told(release.provenance()),
        }
        tokenizer = Tokenizer.from_name(card.vocabulary["tokenizer"])
        return cls(estimate(ngrams, expected, keep=prune), tokenizer, {**about, "pruned_to": prune})

    @classmethod
    def from_counts(
        cls,
        ngrams: pa.LargeStringArray,
        counts: Sequence[float] | NDArray[np.floating[Any]],
        tokenizer: Tokenizer = Tokenizer(),  # noqa: B008 - frozen
        *,
        prune: int | None = None,
    ) -> "LanguageModel":
        """The model of any counts; that of private ones is private."""
        expected = np.asarray(counts, np.float64)
        return cls(estimate(ngrams.cast(pa.large_string()), expected, keep=prune), tokenizer)

    @property
    def ingredients(self) -> tuple[Ingredient, ...]:
        """Everything published about people that it was made from; none where it was made from public text alone."""
        return ingredients_from_json(self.about.get(MADE_FROM, []))

    @property
    def provenance(self) -> Provenance:
        """What it is from, beside public text; which of its n-grams were discovered is not known."""
        claims = tuple(DiscoveryClaim(**claim) for claim in self.about.get("discoveries", []))
        return Provenance.of(self.ingredients, claims)

    @property
    def label(self) -> str:
        """The weakest label of everything that it was made from; public text weakens nothing."""
        return label_of(self.ingredients)

    @property
    def order(self) -> int:
        """The number of words in the longest n-grams."""
        return self.trie.order

    @property
    def sizes(self) -> list[int]:
        """How many n-grams there are of each order, from 1."""
        return [int(size) for size in np.diff(self.trie.level_starts)[1:]]

    def __repr__(self) -> str:
        return f"LanguageModel(order {self.order}, {sum(self.sizes):,} n-grams)"

    def _repr_html_(self) -> str:
        """For notebooks: its size, and what it is worth."""
        sizes = ", ".join(f"{size:,} of order {order}" for order, size in enumerate(self.sizes, 1))
        shown = {"mechanism", "claim", "protects", "label"}
        told = {name: str(value) for name, value in self.about.items() if name in shown}
        return html(
            repr(self), {"n-grams": sizes, "tokenizer": self.tokenizer.name, **told}.items()
        )

    @check_arguments
    def score(self, sentence: str | Sequence[str]) -> float:
        """log10 of the probability of a text, its sentence ends included; a list of words is one sentence."""
        return float(self.trie.walk(self._numbers(sentence))[0].sum())

    @check_arguments
    def score_words(self, sentence: str | Sequence[str]) -> list[WordScore]:
        """log10 of each word's probability after the words before it; </s> is where a sentence ends."""
        stream = self._numbers(sentence)
        scores, orders, _ = self.trie.walk(stream)
        unknown = self.trie.special[2]
        names = [
            END if number == SENTENCE_END else self.trie.words[number] for number in stream.tolist()
        ]
        rows = zip(
            names, scores.tolist(), orders.tolist(), (stream != unknown).tolist(), strict=True
        )
        return [WordScore(*row) for row in rows]

    @check_arguments
    def perplexity(self, texts: str | Iterable[str]) -> float:
        """10 to the mean −log10 probability of all words and sentence ends of these texts."""
        given = [texts] if isinstance(texts, str) else list(texts)
        total, size = self.log10_total(pa.array(given, pa.large_string()).cast(pa.large_binary()))
        if not size:
            raise UsageError("texts: no words in them; give some text.")
        return float(10 ** (-total / size))

    def log10_total(self, texts: pa.LargeBinaryArray) -> tuple[float, int]:
        """Σ log10 p of all words and sentence ends in rows of valid UTF-8, and how many there are.

        Some rows at a time: what is known of their words need not be kept, nor room be made for it anew.
        """
        total, size = 0.0, 0
        for chunk in chunks(texts):
            tokens, offsets, _ = self.tokenizer.tokenize(chunk)
            scores = self.trie.walk(self.numbers(tokens, offsets))[0]
            total, size = total + float(scores.sum()), size + scores.size
        return total, size

    @check_arguments
    def predict(
        self,
        context: str | Sequence[str],
        k: int = 5,
        *,
        typed: str = "",
        cache: float = 0.0,
        capitals: bool = False,
    ) -> list[Prediction]:
        """The k likeliest next words after the last, unfinished sentence of a text; `typed` is how they must begin.

        `cache` is the share that the words of the text itself have in what is expected (see `cache`); the text is not
        kept. With `capitals`, a model of lower-case words writes them as the place, its casing and what is typed ask.
        """
        sentences = (
            self.tokenizer.split_finished(context) if isinstance(context, str) else [list(context)]
        )
        found = self._expected(sentences, self.tokenizer.normalize_prefix(typed), k, cache)
        return self.written(found, sentences, typed) if capitals else found

    @check_arguments
    def suggest(
        self, text: str, k: int = 3, *, cache: float = CACHE_WEIGHT, capitals: bool = True
    ) -> list[Prediction]:
        """What a keyboard shows while a text is typed: the word that is being typed, or the next one.

        >>> import pyarrow as pa
        >>> model = LanguageModel.from_counts(pa.array(["red fish", "blue fish", "fish swim"]), [4, 2, 3])
        >>> model.suggest("Red f", 1)[0].word, model.suggest("Fish swim. B", 1)[0].word
        ('fish', 'Blue')
        """
        sentences, begun = self.tokenizer.split_unfinished(text)
        found = self._expected(sentences, begun, k, cache)
        return self.written(found, sentences, text[len(text) - len(begun) :]) if capitals else found

    def _expected(
        self, sentences: list[list[str]], begun: str, k: int, cache: float
    ) -> list[Prediction]:
        how_many = check_int("k", k, 1, MOST_PREDICTIONS, "the number of predictions")
        found = self._best(sentences[-1], how_many, begun)
        return (
            self._with_cache(found, sentences, begun, cache, how_many)
            if check_weight(cache)
            else found
        )

    def written(
        self, found: list[Prediction], sentences: list[list[str]], typed: str
    ) -> list[Prediction]:
        """With capitals where they belong; a model with case kept knows them itself."""
        if not self.tokenizer.lowercase:
            return found
        begins = not sentences[-1]
        return [
            Prediction(as_written(word, typed, self.casing, begins_sentence=begins), p)
            for word, p in found
        ]

    def state_after(self, words: Sequence[str]) -> int:
        """The node of the longest context there is after the words of a sentence so far."""
        return self.trie.state(np.concatenate([self.trie.searched.special[:1], self._find(words)]))

    def _best(self, words: list[str], how_many: int, begun: str) -> list[Prediction]:
        state = self.state_after(words)
        found, scores = self.trie.best(
            state, how_many, self.trie.words.starting_with(begun) if begun else None
        )
        rows = zip(found.tolist(), (10**scores).tolist(), strict=True)
        return [Prediction(self.trie.words[word], probability) for word, probability in rows]

    def _with_cache(
        self,
        found: list[Prediction],
        sentences: list[list[str]],
        begun: str,
        weight: float,
        how_many: int,
    ) -> list[Prediction]:
        """The best of the model, of which there are enough, and all words of the text, mixed."""
        shares = cached_shares([word for sentence in sentences for word in sentence], begun)
        expected = dict(found) | self._probabilities(sentences[-1], list(shares))
        return [Prediction(*each) for each in mixed_with_cache(expected, shares, weight, how_many)]

    def _probabilities(self, context: list[str], words: list[str]) -> dict[str, float]:
        """P of each of these words after a context; 0 of those that the model lacks."""
        if not words:
            return {}
        before, numbers = self._find(context), self._find(words)
        stream = np.full((numbers.size, before.size + 2), SENTENCE_END, np.int32)
        stream[:, :-2], stream[:, -2] = before, numbers
        scores = self.trie.walk(stream.ravel())[0].reshape(stream.shape)[:, -2]
        likely = np.where(numbers == self.trie.special[2], 0.0, 10**scores)
        return dict(zip(words, likely.tolist(), strict=True))

    def stream(self, texts: pa.LargeBinaryArray) -> Ids:
        """The words of rows of valid UTF-8 as numbers, −1 at the end of each sentence."""
        parts = [np.zeros(0, np.int32)]
        for chunk in chunks(texts):
            tokens, offsets, _ = self.tokenizer.tokenize(chunk)
            parts.append(self.numbers(tokens, offsets))
        return np.concatenate(parts)

    def numbers(self, tokens: Bytes, offsets: Ids) -> Ids:
        """The same for tokens as a tokenizer scans them: end to end, an empty one where a sentence ends."""
        return normalise_stream(
            self.trie.words.find(tokens, offsets), offsets, self.trie.searched.special
        )

    def _numbers(self, sentence: str | Sequence[str]) -> Ids:
        if isinstance(sentence, str):
            return self.stream(pa.array([sentence.encode()], pa.large_binary()))
        return np.append(self._find(sentence), SENTENCE_END).astype(np.int32)

    def _find(self, words: Sequence[str]) -> Ids:
        """The numbers of words; <unk> for what is not known, and for a <s> or </s>: boundaries are ours to set."""
        encoded = [word.encode() for word in words]
        ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
        numbers = self.numbers(np.frombuffer(b"".join(encoded), np.uint8), ends)
        return np.where(numbers == SENTENCE_END, np.int32(self.trie.special[2]), numbers)

    def quantised(self, bits: int = BITS) -> "LanguageModel":
        """The same model with rounded probabilities: half the size, and nearly as good (see `quantisation`)."""
        return replace(self, trie=quantised(self.trie, bits))

    def pruned(self, size: int) -> "LanguageModel":
        """The same model with the `size` n-grams, of all orders together, that are missed most; its words all stay."""
        return replace(self, trie=smaller(self.trie, size), about={**self.about, "pruned_to": size})

    @property
    def opened(self) -> Opened:
        """What a model folder of it holds."""
        return Opened(self.trie, self.tokenizer.name, self.about, self.casing)

    @property
    def size_on_disk(self) -> int:
        """The bytes of a model folder of it."""
        return size_on_disk(self.opened)

    @check_arguments
    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the model folder: arrays that `load` maps into memory."""
        write_model(path, self.opened, force=force)

    def write(self, folder: Path) -> None:
        """Fill an empty folder."""
        fill_folder(folder, self.opened)

    @classmethod
    @check_arguments
    def load(cls, path: str | Path) -> "LanguageModel":
        """Map a model folder into memory."""
        if (Path(path) / PUBLIC).is_file():
            raise UsageError(
                f"{path}: a public model, which has a model of each of its sources; write one of them with"
                f" `bayesgram export {path} --source NAME --format model`, and give that."
            )
        opened = read_model(path)
        return cls(opened.trie, Tokenizer.from_name(opened.tokenizer), opened.about, opened.casing)

    @classmethod
    @check_arguments
    def open(cls, path: str | Path, *, tokenizer: Tokenizer | None = None) -> "LanguageModel":
        """A release folder (the model is built), a model folder, or an ARPA file, which says no tokenizer.

        Where text is cut by a tokenizer.json, the tokenizer brings it.
        """
        from bayesgram.lm.arpa import read_arpa  # noqa: PLC0415 - it makes models, so it imports this module

        folder = Path(path)
        if not folder.is_dir():
            return read_arpa(folder, tokenizer=tokenizer or Tokenizer())
        found = (
            cls.from_release(Release.load(folder))
            if (folder / CARD).is_file()
            else cls.load(folder)
        )
        return replace(found, tokenizer=found.tokenizer.with_definition_of(tokenizer))


def made_from_told(provenance: Provenance) -> dict[str, Any]:
    """What a model says of the things that it was made from; nothing where that is public text alone."""
    claims = provenance.claims
    listed = unique_ingredients([*provenance.ingredients, *(claim.ingredient for claim in claims)])
    if not listed:
        return {}
    told = {MADE_FROM: [asdict(each) for each in listed], "label": label_of(listed)}
    return {**told, "discoveries": [asdict(claim) for claim in claims]} if claims else told


def expected_counts(release: Release) -> Floats:
    """How often people wrote each n-gram: θ times the noisy total of its order, or a share where only that is known."""
    totals = release.card.details.get("expected_counts")
    orders = release.orders
    if totals is None and orders.size and orders.min() < orders.max():
        raise UsageError(
            "the card doesn't say expected_counts, so orders can't be compared; release again."
        )
    scale = np.array(
        [
            0.0 if totals is None else totals.get(str(order), 0.0)
            for order in range(orders.max() + 1)
        ]
    )
    expected: Floats = release.probabilities * (1.0 if totals is None else scale[orders])
    return expected


def joint_probabilities(
    model: LanguageModel, *, boundaries: bool
) -> tuple[pa.LargeStringArray, Floats]:
    """The n-grams of a model that text can have, short ones first: none with <unk>, and <s> is none by itself.

    Those with <s> or </s> come only if there are `boundaries`.
    """
    trie = model.trie
    words, logs = pa.array(trie.words.all(), pa.large_binary()), _log_probabilities(trie)
    ngrams, probabilities = [], []
    for order in range(1, model.order + 1):
        rows = trie.rows(order)
        told = _possible_ngrams(trie, rows, boundaries=boundaries)
        joined = [words.take(pa.array(column)).cast(pa.large_string()) for column in rows[told].T]
        ngrams.append(pc.binary_join_element_wise(*joined, pa.scalar(" ", pa.large_string())))
        probabilities.append(10 ** logs[trie.nodes(order)][told])
    return pa.concat_arrays(ngrams), np.concatenate(probabilities)


def _log_probabilities(trie: Trie) -> Floats:
    """log10 of what every n-gram of a model has, its context included."""
    logs = trie.log_probability.astype(np.float64)
    start, end, _ = trie.special
    first = trie.nodes(1).start
    logs[0], logs[first + start] = 0.0, logs[first + end]
    for order in range(2, trie.order + 1):
        nodes = trie.nodes(order)
        logs[nodes] += logs[trie.parents[nodes]]
    return logs


def _possible_ngrams(trie: Trie, rows: Ids, *, boundaries: bool) -> Bools:
    """Which n-grams text can have."""
    start, end, unknown = trie.special
    bad = (rows == unknown).any(axis=1)
    if not boundaries:
        bad |= ((rows == start) | (rows == end)).any(axis=1)
    elif rows.shape[1] == 1:
        bad |= rows[:, 0] == start
    told: Bools = ~bad
    return told


TRIES = 9
CLOSE_ENOUGH = 0.98  # of the size that is allowed

Build = Callable[[int | None], LanguageModel]  # with at most so many n-grams, or with all


class FullSize(NamedTuple):
    """How large the model of all n-grams is, or nearly: what it has at the least."""

    words: int
    ngrams: int
    size: int


def fitted(
    build: Build, size: int, *, bits: int = BITS, whole: FullSize | None = None
) -> LanguageModel:
    """The model with the most n-grams that is written in `size` bytes.

    The whole model is built where it may fit, or where nothing is known of it.
    """
    if whole is None or whole.size <= size:
        made = build(None).quantised(bits)
        if made.size_on_disk <= size:
            return made
        whole = FullSize(made.sizes[0], sum(made.sizes), made.size_on_disk)
    words, most, largest = whole
    fewest, found = words + 1, build(words + 1).quantised(bits)
    smallest = found.size_on_disk
    if smallest > size:
        raise UsageError.for_argument(
            "max_size",
            _format_bytes(size),
            f"the smallest model of these {words:,} words takes "
            f"{_format_bytes(smallest)}; allow that much, or make the vocabulary smaller.",
        )
    for attempt in range(TRIES):
        if smallest >= CLOSE_ENOUGH * size or most - fewest <= 1:
            break
        share = ((CLOSE_ENOUGH + 1) / 2 * size - smallest) / (largest - smallest)
        share = share if attempt % 3 < 2 else 0.5  # where the size grows by leaps, halving is sure
        tried = min(max(fewest + int((most - fewest) * share), fewest + 1), most - 1)
        model = build(tried).quantised(bits)
        if model.size_on_disk <= size:
            found, fewest, smallest = model, tried, model.size_on_disk
        else:
            most, largest = tried, model.size_on_disk
    return found


def _format_bytes(size: int) -> str:
    """Bytes for people, rounded up: what is said is enough.

    >>> _format_bytes(999), _format_bytes(1001), _format_bytes(12_345_678)
    ('1KB', '2KB', '12.4MB')
    """
    return f"{-(-size // 1000)}KB" if size < 1_000_000 else f"{-(-size // 100_000) / 10:g}MB"
