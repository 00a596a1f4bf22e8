"""A language model from a release: what keyboards and recognisers ship. Post-processing, so at no privacy cost.

In:  a `Release`.   Out: a back-off model that scores and predicts.
The estimate is in `estimate`, the arrays in `trie`, other people's format in `arpa`. Every sentence has a probability
above 0: words that the model lacks are <unk>, which stands for all of them together.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bayesgram.arguments import checked
from bayesgram.arrays import Bytes, Floats, Ids
from bayesgram.errors import UsageError, whole_number
from bayesgram.notebook import html
from bayesgram.released.cache import CACHE_WEIGHT, cached_shares, check_weight, mixed_with_cache
from bayesgram.released.casing import as_written
from bayesgram.released.estimate import estimate
from bayesgram.released.labels import Ingredient, ingredients_from_json, label_of, unique_ingredients
from bayesgram.released.model_files import Opened, fill_folder, read_model, size_on_disk, write_model
from bayesgram.released.origins import MADE_FROM, DiscoveryClaim, Provenance
from bayesgram.released.quantisation import BITS, quantised
from bayesgram.released.refitting import smaller
from bayesgram.released.release import CARD, Release
from bayesgram.released.search import SENTENCE_END, normalise_stream
from bayesgram.released.trie import Trie
from bayesgram.text.ngrams import END
from bayesgram.text.tokens import Tokenizer, chunks

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
    casing: dict[str, str] = field(default_factory=dict)  # how words are written that are not in lower case (`casing`)

    @classmethod
    @checked
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
        return html(repr(self), {"n-grams": sizes, "tokenizer": self.tokenizer.name, **told}.items())

    @checked
    def score(self, sentence: str | Sequence[str]) -> float:
        """log10 of the probability of a text, its sentence ends included; a list of words is one sentence."""
        return float(self.trie.walk(self._numbers(sentence))[0].sum())

    @checked
    def score_words(self, sentence: str | Sequence[str]) -> list[WordScore]:
        """log10 of each word's probability after the words before it; </s> is where a sentence ends."""
        stream = self._numbers(sentence)
        scores, orders, _ = self.trie.walk(stream)
        unknown = self.trie.special[2]
        names = [END if number == SENTENCE_END else self.trie.words[number] for number in stream.tolist()]
        rows = zip(names, scores.tolist(), orders.tolist(), (stream != unknown).tolist(), strict=True)
        return [WordScore(*row) for row in rows]

    @checked
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
            tokens, offsets, _ = self.tokenizer.cut(chunk)
            scores = self.trie.walk(self.numbers(tokens, offsets))[0]
            total, size = total + float(scores.sum()), size + scores.size
        return total, size

    @checked
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
        sentences = self.tokenizer.finished(context) if isinstance(context, str) else [list(context)]
        found = self._expected(sentences, self.tokenizer.begun(typed), k, cache)
        return self.written(found, sentences, typed) if capitals else found

    @checked
    def suggest(self, text: str, k: int = 3, *, cache: float = CACHE_WEIGHT, capitals: bool = True) -> list[Prediction]:
        """What a keyboard shows while a text is typed: the word that is being typed, or the next one.

        >>> import pyarrow as pa
        >>> model = LanguageModel.from_counts(pa.array(["red fish", "blue fish", "fish swim"]), [4, 2, 3])
        >>> model.suggest("Red f", 1)[0].word, model.suggest("Fish swim. B", 1)[0].word
        ('fish', 'Blue')
        """
        sentences, begun = self.tokenizer.unfinished(text)
        found = self._expected(sentences, begun, k, cache)
        return self.written(found, sentences, text[len(text) - len(begun) :]) if capitals else found

    def _expected(self, sentences: list[list[str]], begun: str, k: int, cache: float) -> list[Prediction]:
        how_many = whole_number("k", k, 1, MOST_PREDICTIONS, "the number of predictions")
        found = self._best(sentences[-1], how_many, begun)
        return self._with_cache(found, sentences, begun, cache, how_many) if check_weight(cache) else found

    def written(self, found: list[Prediction], sentences: list[list[str]], typed: str) -> list[Prediction]:
        """With capitals where they belong; a model with case kept knows them itself."""
        if not self.tokenizer.lowercase:
            return found
        begins = not sentences[-1]
        return [Prediction(as_written(word, typed, self.casing, begins_sentence=begins), p) for word, p in found]

    def state_after(self, words: Sequence[str]) -> int:
        """The node of the longest context there is after the words of a sentence so far."""
        return self.trie.state(np.concatenate([self.trie.searched.special[:1], self._find(words)]))

    def _best(self, words: list[str], how_many: int, begun: str) -> list[Prediction]:
        state = self.state_after(words)
        found, scores = self.trie.best(state, how_many, self.trie.words.starting_with(begun) if begun else None)
        rows = zip(found.tolist(), (10**scores).tolist(), strict=True)
        return [Prediction(self.trie.words[word], probability) for word, probability in rows]

    def _with_cache(
        self, found: list[Prediction], sentences: list[list[str]], begun: str, weight: float, how_many: int
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
            tokens, offsets, _ = self.tokenizer.cut(chunk)
            parts.append(self.numbers(tokens, offsets))
        return np.concatenate(parts)

    def numbers(self, tokens: Bytes, offsets: Ids) -> Ids:
        """The same for tokens as a tokenizer scans them: end to end, an empty one where a sentence ends."""
        return normalise_stream(self.trie.words.find(tokens, offsets), offsets, self.trie.searched.special)

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

    @checked
    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the model folder: arrays that `load` maps into memory."""
        write_model(path, self.opened, force=force)

    def write(self, folder: Path) -> None:
        """Fill an empty folder."""
        fill_folder(folder, self.opened)

    @classmethod
    @checked
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
    @checked
    def open(cls, path: str | Path, *, tokenizer: Tokenizer | None = None) -> "LanguageModel":
        """A release folder (the model is built), a model folder, or an ARPA file, which says no tokenizer.

        Where text is cut by a tokenizer.json, the tokenizer brings it.
        """
        from bayesgram.released.arpa import read_arpa  # noqa: PLC0415 - it makes models, so it imports this module

        folder = Path(path)
        if not folder.is_dir():
            return read_arpa(folder, tokenizer=tokenizer or Tokenizer())
        found = cls.from_release(Release.load(folder)) if (folder / CARD).is_file() else cls.load(folder)
        return replace(found, tokenizer=found.tokenizer.known_by(tokenizer))


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
        raise UsageError("the card doesn't say expected_counts, so orders can't be compared; release again.")
    scale = np.array([0.0 if totals is None else totals.get(str(order), 0.0) for order in range(orders.max() + 1)])
    expected: Floats = release.probabilities * (1.0 if totals is None else scale[orders])
    return expected
