"""Language models: what keyboards and recognisers ship.

A `LanguageModel` is a backoff model (a `Trie`) with the tokenizer that cuts text for it. It is made
from a release, at no privacy cost, or from counts, and it scores texts and predicts next words.
Every sentence has a probability above 0: words that the model lacks are <unk>, which stands for all
of them together. Probabilities are estimated in `estimate`, the arrays are in `trie`, and other
people's format is in `arpa`.

Beside the model are here: the words of the text that is being written as a cache, the casing of
suggested words, the joint probabilities of a model's n-grams, and the best model of a given size.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bayesgram.arguments import check_arguments
from bayesgram.arrays import Bools, Bytes, Floats, Ids
from bayesgram.errors import UsageError, check_int
from bayesgram.lm.estimate import Estimator, estimate, prune, remove_blocked
from bayesgram.lm.files import (
    ModelContents,
    read_model,
    size_on_disk,
    write_model,
    write_model_files,
)
from bayesgram.lm.packed import Layout
from bayesgram.lm.pruning import pruned_layout
from bayesgram.lm.quantisation import DEFAULT_BITS, EXTRA_BACKOFF_BITS, quantise
from bayesgram.lm.search import SENTENCE_END, normalise_stream
from bayesgram.lm.trie import Trie
from bayesgram.notebook import html
from bayesgram.releases import CARD_FILE
from bayesgram.releases.provenance import (
    MADE_FROM,
    DiscoveryClaim,
    Ingredient,
    Provenance,
    combined_label,
    ingredients_from_json,
    unique_ingredients,
)
from bayesgram.releases.release import Release
from bayesgram.text.blocklist import NO_BLOCKLIST, Blocklist
from bayesgram.text.ngrams import END
from bayesgram.text.strings import EMPTY, StringTable
from bayesgram.text.tokenizer import Tokenizer, chunks

PUBLIC_MODEL_FILE = "public.json"  # of a public model folder, which holds several model folders
MAX_PREDICTIONS = 1000  # a limit of the arguments, not measured
# Default weight λ of the cache: the best of seven on made-up people (benchmarks/cache.py).
CACHE_WEIGHT = 0.15


class WordScore(NamedTuple):
    """The score of one word of a sentence, from `LanguageModel.score_words`.

    >>> ngrams = pa.array(["red fish", "fish swim"])
    >>> score = LanguageModel.from_counts(ngrams, [4, 3]).score_words("red fish")[1]
    >>> score.word, score.order, score.is_known
    ('fish', 2, True)
    """

    word: str
    log10: float  # log10 of its probability after the words before it
    order: int  # the order of the n-gram that was used
    is_known: bool  # False if the model lacks it, and it was scored as <unk>


class Prediction(NamedTuple):
    """A next word and its probability, from `LanguageModel.predict`.

    >>> Prediction("fish", 0.5).word
    'fish'
    """

    word: str
    probability: float


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """A backoff model and the tokenizer that cuts text for it.

    >>> import pyarrow as pa
    >>> ngrams = pa.array(["red fish", "blue fish", "fish swim"])
    >>> model = LanguageModel.from_counts(ngrams, [4, 2, 3])
    >>> model.predict("A red", 1)[0].word
    'fish'
    >>> model.score("blue fish") < 0 < model.perplexity(["Red fish swim.", "Green fish swim."])
    True
    """

    trie: Trie
    tokenizer: Tokenizer
    about: dict[str, Any] = field(default_factory=dict)  # what it was made from, and the claim
    casing: dict[str, str] = field(default_factory=dict)  # spellings of words with capitals

    # --- Making ---

    @classmethod
    @check_arguments
    def from_release(cls, release: Release, *, prune: int | None = None) -> "LanguageModel":
        """Estimate the model of a release by itself.

        With all of public text it is far better: see `PublicModel.adapt_to`.

        Args:
            release: The release.
            prune: How many n-grams, of all orders together, may stay.
        """
        return cls.builder_from_release(release)(prune)

    @classmethod
    def builder_from_release(cls, release: Release) -> "ModelBuilder":
        """Return a function that does the same for several sizes, in less time."""
        card = release.card
        about: dict[str, Any] = {
            "mechanism": card.mechanism,
            "claim": card.claim,
            "protects": card.protects,
            "software": card.software,
            **provenance_details(release.provenance()),
        }
        tokenizer = Tokenizer.from_name(card.vocabulary["tokenizer"])
        estimator = Estimator(release.ngrams, expected_counts(release), tokenizer)
        return lambda size: cls(estimator.estimate(size), tokenizer, {**about, "pruned_to": size})

    @classmethod
    def from_counts(
        cls,
        ngrams: pa.LargeStringArray,
        counts: Sequence[float] | NDArray[np.floating[Any]],
        tokenizer: Tokenizer = Tokenizer(),  # noqa: B008 - frozen
        *,
        prune: int | None = None,
    ) -> "LanguageModel":
        """Estimate the model of any counts; that of private ones is private.

        Args:
            ngrams: The n-grams, tokens joined by one space.
            counts: How often each occurs, in one scale for all orders.
            tokenizer: How text is cut.
            prune: How many n-grams, of all orders together, may stay.
        """
        expected = np.asarray(counts, np.float64)
        trie = estimate(ngrams.cast(pa.large_string()), expected, tokenizer, max_ngrams=prune)
        return cls(trie, tokenizer)

    def quantise(self, bits: int = DEFAULT_BITS) -> "LanguageModel":
        """Return the same model with rounded probabilities: half the size, and nearly as good."""
        return replace(self, trie=quantise(self.trie, bits))

    def prune(self, size: int) -> "LanguageModel":
        """Return the model with the `size` n-grams, of all orders, that are missed most.

        All words stay.
        """
        about = {**self.about, "pruned_to": size}
        return replace(self, trie=prune(self.trie, size), about=about)

    def block(self, blocklist: Blocklist) -> "LanguageModel":
        """Return the model without blocked words, and without n-grams of blocked phrases.

        Its probabilities are exact again: quantise it afterwards.

        Args:
            blocklist: The words and phrases. They are no part of what the model records.
        """
        blocked_phrases = blocklist.tokens(self.tokenizer)
        blocked_words = {word for phrase in blocked_phrases for word in phrase}
        ids_of_word: dict[str, list[int]] = {}  # words that differ by case are one
        for word_id, word in enumerate(self.trie.words.to_list()):
            lowered = word.decode().lower()
            if lowered in blocked_words:
                ids_of_word.setdefault(lowered, []).append(word_id)
        phrases = [
            [ids_of_word[word] for word in phrase]
            for phrase in blocked_phrases
            if all(word in ids_of_word for word in phrase)
        ]
        if not phrases:
            return self
        orders = range(1, self.trie.order + 1)
        masks = [_find_phrases(self.trie.ngrams(order), phrases) for order in orders]
        if not any(mask.any() for mask in masks):
            return self
        trie = remove_blocked(self.trie, masks)
        casing = {
            word: spelling
            for word, spelling in self.casing.items()
            if trie.words.find_one(word.encode()) >= 0
        }
        return replace(self, trie=trie, casing=casing)

    # --- Saving and loading ---

    @property
    def contents(self) -> ModelContents:
        """What a folder of this model holds."""
        return ModelContents(self.trie, self.tokenizer.name, self.about, self.casing)

    @property
    def size_on_disk(self) -> int:
        """The bytes of a folder of this model."""
        return size_on_disk(self.contents)

    @check_arguments
    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the model folder: arrays that `load` maps into memory."""
        write_model(path, self.contents, force=force)

    def write(self, folder: Path) -> None:
        """Write the files of a model folder into an empty folder."""
        write_model_files(folder, self.contents)

    @classmethod
    @check_arguments
    def load(cls, path: str | Path) -> "LanguageModel":
        """Map a model folder into memory."""
        if (Path(path) / PUBLIC_MODEL_FILE).is_file():
            raise UsageError(
                f"{path}: a public model, which has a model of each of its sources; write one of"
                f" them with `bayesgram export {path} --source NAME --format model`, and give that."
            )
        contents = read_model(path)
        tokenizer = Tokenizer.from_name(contents.tokenizer)
        return cls(contents.trie, tokenizer, contents.about, contents.casing)

    @classmethod
    @check_arguments
    def open(cls, path: str | Path, *, tokenizer: Tokenizer | None = None) -> "LanguageModel":
        """Open a release folder (the model is estimated), a model folder, or an ARPA file.

        Args:
            path: The folder or file.
            tokenizer: How text is cut, for an ARPA file, which doesn't say it. Where text is cut by
                a tokenizer.json, it brings that file.
        """
        from bayesgram.lm.arpa import read_arpa  # noqa: PLC0415 - it imports this module

        folder = Path(path)
        if not folder.is_dir():
            return read_arpa(folder, tokenizer=tokenizer or Tokenizer())
        if (folder / CARD_FILE).is_file():
            model = cls.from_release(Release.load(folder))
        else:
            model = cls.load(folder)
        return replace(model, tokenizer=model.tokenizer.with_definition_of(tokenizer))

    # --- Describing ---

    @property
    def ingredients(self) -> tuple[Ingredient, ...]:
        """Everything published about people that it was made from; none for public text alone."""
        return ingredients_from_json(self.about.get(MADE_FROM, []))

    @property
    def provenance(self) -> Provenance:
        """What it is from, beside public text; which n-grams were discovered is not known."""
        claims = tuple(DiscoveryClaim(**claim) for claim in self.about.get("discoveries", []))
        return Provenance.from_ingredients(self.ingredients, claims)

    @property
    def label(self) -> str:
        """The weakest label of everything that it was made from; public text weakens nothing."""
        return combined_label(self.ingredients)

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
        """For notebooks: its size, and what it was made from."""
        sizes = ", ".join(f"{size:,} of order {order}" for order, size in enumerate(self.sizes, 1))
        shown = {"mechanism", "claim", "protects", "label"}
        details = {name: str(value) for name, value in self.about.items() if name in shown}
        rows = {"n-grams": sizes, "tokenizer": self.tokenizer.name, **details}
        return html(repr(self), rows.items())

    # --- Scoring ---

    @check_arguments
    def score(self, sentence: str | Sequence[str]) -> float:
        """Return log10 of the probability of a text, its sentence ends included.

        A list of words is one sentence.
        """
        return float(self.trie.score(self._encode(sentence))[0].sum())

    @check_arguments
    def score_words(self, sentence: str | Sequence[str]) -> list[WordScore]:
        """Return log10 of each word's probability after the words before it.

        Where a sentence ends, the word is </s>.
        """
        stream = self._encode(sentence)
        scores, orders, _ = self.trie.score(stream)
        words = [END if word == SENTENCE_END else self.trie.words[word] for word in stream.tolist()]
        is_known = stream != self.trie.special.unknown
        rows = zip(words, scores.tolist(), orders.tolist(), is_known.tolist(), strict=True)
        return [WordScore(*row) for row in rows]

    @check_arguments
    def perplexity(self, texts: str | Iterable[str]) -> float:
        """Return 10 to the mean −log10 probability of all words and sentence ends of texts."""
        rows = [texts] if isinstance(texts, str) else list(texts)
        total, count = self.total_log10(pa.array(rows, pa.large_string()).cast(pa.large_binary()))
        if not count:
            raise UsageError("texts: no words in them; give some text.")
        return float(10 ** (-total / count))

    def total_log10(self, texts: pa.LargeBinaryArray) -> tuple[float, int]:
        """Return Σ log10 p of all words and sentence ends in rows of valid UTF-8, and their number.

        Rows are scored some at a time, so that the scores of all words are never in memory
        together.
        """
        total = 0.0
        count = 0
        for chunk in chunks(texts):
            tokens, offsets, _ = self.tokenizer.tokenize(chunk)
            scores = self.trie.score(self.encode_tokens(tokens, offsets))[0]
            total += float(scores.sum())
            count += scores.size
        return total, count

    # --- Next words ---

    @check_arguments
    def predict(
        self,
        context: str | Sequence[str],
        k: int = 5,
        *,
        typed: str = "",
        cache: float = 0.0,
        capitals: bool = False,
        block: Blocklist = NO_BLOCKLIST,
    ) -> list[Prediction]:
        """Return the k likeliest next words after the last, unfinished sentence of a text.

        A model of rows completes the row that the text begins.

        Args:
            context: A text, or the words of a sentence so far.
            k: How many words.
            typed: How they must begin.
            cache: The weight of the words of the text itself in what is expected. The text is not
                stored.
            capitals: Whether a model of lower-case words writes them with the capitals that their
                place, the model's casing and what is typed ask for.
            block: Words that are not suggested, and phrases that no suggestion completes.
        """
        if isinstance(context, str):
            if self.tokenizer.is_rows:
                typed = context + typed
            sentences = self.tokenizer.split_finished(context)
        else:
            sentences = [list(context)]
        predict_words = partial(
            self._predict_words, sentences, self.tokenizer.normalize_prefix(typed)
        )
        predictions = self._predict_unblocked(predict_words, sentences[-1], k, cache, block)
        return self.capitalise(predictions, sentences, typed) if capitals else predictions

    @check_arguments
    def suggest(
        self,
        text: str,
        k: int = 3,
        *,
        cache: float = CACHE_WEIGHT,
        capitals: bool = True,
        block: Blocklist = NO_BLOCKLIST,
    ) -> list[Prediction]:
        """Return what a keyboard shows: the word that is being typed, or the next one.

        Args:
            text: What is typed so far.
            k: How many words.
            cache: See `predict`.
            capitals: See `predict`.
            block: See `predict`.

        >>> import pyarrow as pa
        >>> ngrams = pa.array(["red fish", "blue fish", "fish swim"])
        >>> model = LanguageModel.from_counts(ngrams, [4, 2, 3])
        >>> model.suggest("Red f", 1)[0].word, model.suggest("Fish swim. B", 1)[0].word
        ('fish', 'Blue')
        """
        sentences, prefix = self.tokenizer.split_unfinished(text)
        predict_words = partial(self._predict_words, sentences, prefix)
        predictions = self._predict_unblocked(predict_words, sentences[-1], k, cache, block)
        typed = text[len(text) - len(prefix) :]
        return self.capitalise(predictions, sentences, typed) if capitals else predictions

    def capitalise(
        self, predictions: list[Prediction], sentences: list[list[str]], typed: str
    ) -> list[Prediction]:
        """Write words with capitals where they belong; a model with case kept knows them itself.

        Args:
            predictions: The predicted words.
            sentences: The words of the text, the last sentence unfinished.
            typed: How the predicted word begins, as it was typed.
        """
        if not self.tokenizer.lowercase:
            return predictions
        begins_sentence = not sentences[-1]
        return [
            Prediction(
                apply_casing(word, typed, self.casing, begins_sentence=begins_sentence), probability
            )
            for word, probability in predictions
        ]

    def find_state(self, words: Sequence[str]) -> int:
        """Return the node of the longest context after the words of a sentence so far."""
        start = np.array([self.trie.special.start], np.int32)
        return self.trie.find_state(np.concatenate([start, self._encode_words(words)]))

    def _predict_unblocked(
        self,
        predict_words: "Callable[[int, float], list[Prediction]]",
        before: list[str],
        k: int,
        cache: float,
        block: Blocklist,
    ) -> list[Prediction]:
        """Return the k likeliest words that are not blocked; ask for more until there are k."""
        asked = k
        while True:
            predictions = predict_words(asked, cache)
            allowed = [
                prediction
                for prediction in predictions
                if not block.blocks_next(before, prediction.word, self.tokenizer)
            ]
            if len(allowed) >= k or len(predictions) < asked or asked >= MAX_PREDICTIONS:
                return allowed[:k]
            asked = min(2 * asked + 8, MAX_PREDICTIONS)

    def _predict_words(
        self, sentences: list[list[str]], prefix: str, k: int, cache_weight: float
    ) -> list[Prediction]:
        k = check_int("k", k, 1, MAX_PREDICTIONS, "the number of predictions")
        id_range = self.trie.words.prefix_id_range(prefix) if prefix else None
        ids, scores = self.trie.predict(self.find_state(sentences[-1]), k, id_range)
        predictions = [
            Prediction(self.trie.words[word], probability)
            for word, probability in zip(ids.tolist(), (10**scores).tolist(), strict=True)
        ]
        if not check_cache_weight(cache_weight):
            return predictions
        text_words = [word for sentence in sentences for word in sentence]
        shares = cache_shares(text_words, prefix)
        # The k best of the model, and all words of the text, hold the k best of both.
        expected = dict(predictions) | self._word_probabilities(sentences[-1], list(shares))
        mixed = mix_with_cache(expected, shares, cache_weight, k)
        return [Prediction(word, probability) for word, probability in mixed]

    def _word_probabilities(self, context: list[str], words: list[str]) -> dict[str, float]:
        """Return p of words after a context; 0 for those that the model lacks."""
        if not words:
            return {}
        context_ids = self._encode_words(context)
        ids = self._encode_words(words)
        stream = np.full((ids.size, context_ids.size + 2), SENTENCE_END, np.int32)
        stream[:, :-2] = context_ids
        stream[:, -2] = ids
        scores = self.trie.score(stream.ravel())[0].reshape(stream.shape)[:, -2]
        probabilities = np.where(ids == self.trie.special.unknown, 0.0, 10**scores)
        return dict(zip(words, probabilities.tolist(), strict=True))

    # --- Words as ids ---

    def encode_texts(self, texts: pa.LargeBinaryArray) -> Ids:
        """Return the words of rows of valid UTF-8 as ids, −1 at the end of each sentence."""
        parts = [np.zeros(0, np.int32)]
        for chunk in chunks(texts):
            tokens, offsets, _ = self.tokenizer.tokenize(chunk)
            parts.append(self.encode_tokens(tokens, offsets))
        return np.concatenate(parts)

    def encode_tokens(self, tokens: Bytes, offsets: Ids) -> Ids:
        """Return the ids of tokens that stand end to end, as a tokenizer cuts them.

        An empty token ends a sentence, which is −1. <s> and </s> in a text are <unk>: boundaries
        are ours to set.
        """
        ids = self.trie.words.find(tokens, offsets)
        return normalise_stream(ids, offsets, self.trie.for_scoring.special)

    def _encode(self, sentence: str | Sequence[str]) -> Ids:
        if isinstance(sentence, str):
            return self.encode_texts(pa.array([sentence.encode()], pa.large_binary()))
        return np.append(self._encode_words(sentence), SENTENCE_END).astype(np.int32)

    def _encode_words(self, words: Sequence[str]) -> Ids:
        """Return the ids of words; an empty one is <unk>, too."""
        encoded = [word.encode() for word in words]
        ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
        ids = self.encode_tokens(np.frombuffer(b"".join(encoded), np.uint8), ends)
        return np.where(ids == SENTENCE_END, np.int32(self.trie.special.unknown), ids)


# --- What a model is made from ---


def provenance_details(provenance: Provenance) -> dict[str, Any]:
    """Return what a model's `about` says of the things that it was made from.

    Nothing where that is public text alone.
    """
    claims = provenance.claims
    ingredients = unique_ingredients(
        [*provenance.ingredients, *(claim.ingredient for claim in claims)]
    )
    if not ingredients:
        return {}
    details: dict[str, Any] = {
        MADE_FROM: [asdict(ingredient) for ingredient in ingredients],
        "label": combined_label(ingredients),
    }
    if claims:
        details["discoveries"] = [asdict(claim) for claim in claims]
    return details


def expected_counts(release: Release) -> Floats:
    """Return how often people wrote each n-gram: θ times the noisy total of its order.

    Where a release of one order doesn't say the total, it is θ itself.

    Raises:
        UsageError: If there are several orders, and the totals are not known.
    """
    totals = release.card.details.get("expected_counts")
    orders = release.orders
    if totals is None:
        if orders.size and orders.min() < orders.max():
            raise UsageError(
                "the card doesn't say expected_counts, so orders can't be compared; release again."
            )
        return release.probabilities * 1.0
    scale = np.array([totals.get(str(order), 0.0) for order in range(orders.max() + 1)])
    expected: Floats = release.probabilities * scale[orders]
    return expected


def joint_probabilities(
    model: LanguageModel, *, boundaries: bool
) -> tuple[pa.LargeStringArray, Floats]:
    """Return the n-grams of a model that text can have, and how likely they are to occur.

    That is p(w₁) p(w₂|w₁) p(w₃|w₁w₂). Nothing is backed off: a model lists the contexts of all its
    n-grams. A sentence begins as often as it ends, so p(<s>) is taken as p(</s>).

    Args:
        model: The model.
        boundaries: Whether n-grams with <s> or </s> are among them. None has <unk>, and <s> alone
            is none.

    Returns:
        The n-grams, short ones first, and their probabilities.
    """
    trie = model.trie
    words = pa.array(trie.words.to_list(), pa.large_binary())
    logs = _joint_logs(trie)
    ngrams = []
    probabilities = []
    for order in range(1, model.order + 1):
        rows = trie.ngrams(order)
        mask = _can_occur(trie, rows, boundaries=boundaries)
        columns = [words.take(pa.array(ids)).cast(pa.large_string()) for ids in rows[mask].T]
        ngrams.append(pc.binary_join_element_wise(*columns, pa.scalar(" ", pa.large_string())))
        probabilities.append(10 ** logs[trie.nodes(order)][mask])
    return pa.concat_arrays(ngrams), np.concatenate(probabilities)


def _joint_logs(trie: Trie) -> Floats:
    """Return log10 of the joint probability of every node."""
    logs = trie.log_probability.astype(np.float64)
    first = trie.nodes(1).start
    logs[0] = 0.0
    logs[first + trie.special.start] = logs[first + trie.special.end]
    for order in range(2, trie.order + 1):
        nodes = trie.nodes(order)
        logs[nodes] += logs[trie.parents[nodes]]
    return logs


def _can_occur(trie: Trie, rows: Ids, *, boundaries: bool) -> Bools:
    """Return which n-grams text can have."""
    start, end, unknown = trie.special
    is_impossible = (rows == unknown).any(axis=1)
    if not boundaries:
        is_impossible |= ((rows == start) | (rows == end)).any(axis=1)
    elif rows.shape[1] == 1:
        is_impossible |= rows[:, 0] == start
    mask: Bools = ~is_impossible
    return mask


# --- The cache: words of the text that is being written ---

# p(w) = (1 − λ) p(w|h) + λ c(w)/N, where c(w) of the last N words are w. A word that the model
# lacks, such as a name, is suggested too once it was written. The cache is for whoever writes the
# text: nothing is kept after the answer, and nothing goes into a model or a release.

MAX_CACHED_WORDS = 200  # the last words of a text that the cache holds; not measured


def check_cache_weight(weight: float) -> float:
    """Return λ unchanged.

    Raises:
        UsageError: If it is not from 0 to less than 1.
    """
    if not 0 <= weight < 1:
        raise UsageError.for_argument(
            "cache",
            weight,
            "the share of the words of this text is from 0 to less than 1, such as 0.15.",
        )
    return weight


def cache_shares(words: Sequence[str], prefix: str) -> dict[str, float]:
    """Return c(w)/N of the words that begin with a prefix."""
    last = words[-MAX_CACHED_WORDS:]
    return {
        word: count / len(last) for word, count in Counter(last).items() if word.startswith(prefix)
    }


def mix_with_cache(
    expected: dict[str, float], shares: dict[str, float], weight: float, k: int
) -> list[tuple[str, float]]:
    """Return the k likeliest words of the model and the cache.

    Of equal ones, the first in byte order.

    Args:
        expected: p of words by the model; it has every word of `shares`.
        shares: The shares of words in the text.
        weight: λ.
        k: How many words.

    >>> mix_with_cache({"you": 0.5, "ann": 0.0}, {"ann": 1.0}, 0.5, 2)
    [('ann', 0.5), ('you', 0.25)]
    """
    mixed = {
        word: (1 - weight) * p + weight * shares.get(word, 0.0) for word, p in expected.items()
    }
    return sorted(mixed.items(), key=lambda item: (-item[1], item[0].encode()))[:k]


# --- Blocked phrases ---


def _find_phrases(ngrams: Ids, phrases: Sequence[Sequence[Sequence[int]]]) -> Bools:
    """Return which n-grams contain a phrase.

    Args:
        ngrams: N-grams as rows of word ids.
        phrases: The phrases; each word is given by the ids that it may have.
    """
    mask = np.zeros(len(ngrams), np.bool_)
    order = ngrams.shape[1]
    single_words = [word_id for phrase in phrases if len(phrase) == 1 for word_id in phrase[0]]
    if single_words:
        mask |= np.isin(ngrams, single_words).any(axis=1)
    for phrase in phrases:
        for start in range(order - len(phrase) + 1 if len(phrase) > 1 else 0):
            has_phrase = np.ones(len(ngrams), np.bool_)
            for at, word_ids in enumerate(phrase):
                has_phrase &= np.isin(ngrams[:, start + at], word_ids)
            mask |= has_phrase
    return mask


# --- Casing: words of a lower-case model as a person would write them ---

MIN_SPELLING_COUNT = 2  # times that a spelling is seen before it is believed; not measured


class CaseCounter:
    """Counts how words are written inside sentences of public text.

    There a capital means something. Models with case kept (`--keep-case`) need none of it. Public
    text only: a spelling is as private as a word.

    >>> counter = CaseCounter(Tokenizer())
    >>> counter.add(pa.array([b"In Rome we said so. Said who? In Rome!"]))
    >>> counter.add(pa.array([b"We love Rome, and an iPhone or iPhone"]))
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
        self._lower_tokenizer = tokenizer
        self._case_tokenizer = replace(tokenizer, lowercase=False)
        self._words = StringTable()
        self._spellings = StringTable()
        self._counts: dict[tuple[int, int], int] = {}  # by word and spelling

    def add(self, texts: pa.LargeBinaryArray) -> None:
        """Count rows of valid UTF-8: cut in both ways, which differ in case alone."""
        rows = texts.cast(pa.large_binary())
        lower_scan = self._lower_tokenizer.tokenize_chunks(rows)
        case_scan = self._case_tokenizer.tokenize_chunks(rows)
        for lower, cased in zip(lower_scan, case_scan, strict=True):
            words = self._words.add(*lower[:2])
            spellings = self._spellings.add(*cased[:2])
            inside = _is_inside_sentence(words)
            pairs, counts = np.unique(
                np.stack([words[inside], spellings[inside]]), axis=1, return_counts=True
            )
            for word, spelling, count in zip(*pairs.tolist(), counts.tolist(), strict=True):
                self._counts[word, spelling] = self._counts.get((word, spelling), 0) + count

    def casing(self, among: Iterable[str] | None = None) -> dict[str, str]:
        """Return the words that are mostly written otherwise than in lower case, and how.

        Args:
            among: The words to return; None for all.
        """
        words = [word.decode() for word in self._words.strings().to_pylist()]
        spellings = [spelling.decode() for spelling in self._spellings.strings().to_pylist()]
        best: dict[str, tuple[int, bool, str]] = {}
        for (word_id, spelling_id), count in self._counts.items():
            word = words[word_id]
            spelling = spellings[spelling_id]
            best[word] = max(best.get(word, (0, False, "")), (count, word == spelling, spelling))
        casing = {
            word: spelling
            for word, (count, _, spelling) in best.items()
            if spelling != word and count >= MIN_SPELLING_COUNT
        }
        selected = casing.keys() if among is None else set(among)
        return {word: casing[word] for word in sorted(casing) if word in selected}


def _is_inside_sentence(words: Ids) -> Bools:
    """Return which tokens are words that begin no sentence."""
    inside: Bools = words != EMPTY
    inside[1:] &= words[:-1] != EMPTY
    inside[:1] = False
    return inside


def apply_casing(word: str, typed: str, casing: Mapping[str, str], *, begins_sentence: bool) -> str:
    """Return a suggested word with the capitals that belong there; what is typed decides first.

    Args:
        word: A word in lower case.
        typed: How it was begun.
        casing: The spellings of words that are not in lower case.
        begins_sentence: Whether it is the first word of a sentence.

    >>> casing = {"iphone": "iPhone"}
    >>> [apply_casing(word, "", casing, begins_sentence=True) for word in ("hello", "iphone")]
    ['Hello', 'iPhone']
    >>> [apply_casing("hello", typed, {}, begins_sentence=True) for typed in ("he", "He", "HE")]
    ['hello', 'Hello', 'HELLO']
    >>> apply_casing("rome", "r", {"rome": "Rome"}, begins_sentence=False)
    'Rome'
    """
    if sum(map(str.isalpha, typed)) > 1 and typed.isupper():
        return word.upper()
    if word in casing:
        return casing[word]
    if typed[:1].isupper() or (begins_sentence and not typed):
        return word[:1].title() + word[1:]
    return word


# --- The best model of a given size ---

# All words stay, so the smallest model is that of the words and one n-gram more. Between it and the
# model of all n-grams the size grows almost evenly with their number, so a few attempts suffice.

# Models that are built at most, and the part of the allowed size from which on one is accepted.
# Chosen by hand: a few attempts nearly always suffice.
MAX_ATTEMPTS = 9
MIN_SIZE_USED = 0.98

# Bytes by which the size of a folder may differ from what its arrays say: digits in model.json.
SIZE_TOLERANCE = 200
# Part of the allowed size from which on a guessed number of n-grams is not improved further. Chosen
# by hand: above MIN_SIZE_USED, and reached in a few steps.
GUESSED_SIZE_USED = 0.995

ModelBuilder = Callable[[int | None], LanguageModel]  # with at most so many n-grams, or with all


class FullModelSize(NamedTuple):
    """The size of the model of all n-grams, or a lower bound on it."""

    words: int
    ngrams: int
    size: int  # bytes


def fit_to_size(
    build: ModelBuilder,
    max_size: int,
    *,
    bits: int = DEFAULT_BITS,
    full_size: FullModelSize | None = None,
) -> LanguageModel:
    """Return the model with the most n-grams whose folder takes at most `max_size` bytes.

    Args:
        build: Builds a model with at most so many n-grams, or with all.
        max_size: The bytes that are allowed.
        bits: The width of a probability.
        full_size: How large the model of all n-grams is. It is built only where it may fit, or
            where this is not given.

    Raises:
        UsageError: If not even the smallest model fits.
    """
    if full_size is None or full_size.size <= max_size:
        full = build(None)
        model = _build_guessed_size(full, build, max_size, bits)
        if model is not None:
            return model
        full_size = FullModelSize(full.sizes[0], sum(full.sizes), quantised_size(full, bits))
    words, too_many, too_large = full_size  # fewer n-grams may fit
    fewest = words + 1
    best = build(fewest).quantise(bits)
    best_size = best.size_on_disk
    if best_size > max_size:
        raise UsageError.for_argument(
            "max_size",
            _format_bytes(max_size),
            f"the smallest model of these {words:,} words takes {_format_bytes(best_size)};"
            " allow that much, or make the vocabulary smaller.",
        )
    for attempt in range(MAX_ATTEMPTS):
        if best_size >= MIN_SIZE_USED * max_size or too_many - fewest <= 1:
            break
        share = ((MIN_SIZE_USED + 1) / 2 * max_size - best_size) / (too_large - best_size)
        if attempt % 3 == 2:
            share = 0.5  # where the size grows by leaps, halving is sure
        ngrams = min(max(fewest + int((too_many - fewest) * share), fewest + 1), too_many - 1)
        model = build(ngrams).quantise(bits)
        if model.size_on_disk <= max_size:
            best = model
            fewest = ngrams
            best_size = model.size_on_disk
        else:
            too_many = ngrams
            too_large = model.size_on_disk
    return best


def _build_guessed_size(
    full: LanguageModel, build: ModelBuilder, max_size: int, bits: int
) -> LanguageModel | None:
    """Return the model of all n-grams, if it fits, or one that is guessed to fit; None if neither.

    Args:
        full: The model of all n-grams, not quantised.
        build: Builds a model with fewer n-grams.
        max_size: The bytes that are allowed.
        bits: The width of a probability.
    """
    if quantised_size(full, bits) <= max_size + SIZE_TOLERANCE:
        model = full.quantise(bits)
        if model.size_on_disk <= max_size:
            return model
    ngrams = _guess_pruned_size(full, max_size, bits)
    if ngrams is not None:
        model = build(ngrams).quantise(bits)
        if MIN_SIZE_USED * max_size <= model.size_on_disk <= max_size:
            return model
    return None


def quantised_size(model: LanguageModel, bits: int) -> int:
    """Return the bytes of the model's folder once it is quantised, within SIZE_TOLERANCE.

    They follow from how many n-grams there are of each order, whatever their probabilities.
    """
    return _size_with_layout(model, model.size_on_disk, model.trie.layout, bits)


def _size_with_layout(model: LanguageModel, size: int, layout: Layout, bits: int) -> int:
    """Return the bytes of a model's folder if it had this layout and were quantised.

    Args:
        model: The model.
        size: The bytes of its own folder.
        layout: How many n-grams there are, and where they say that their children begin.
        bits: The width of a probability.
    """
    trie = model.trie
    rounded = replace(layout, probability_bits=bits, backoff_bits=bits + EXTRA_BACKOFF_BITS)
    record_bytes, base_count, value_count = rounded.array_sizes()
    own_bytes = trie.records.nbytes + trie.bases.nbytes + trie.codebooks.nbytes
    new_bytes = record_bytes + base_count * trie.bases.itemsize
    return size - own_bytes + new_bytes + value_count * trie.codebooks.itemsize


def _guess_pruned_size(full: LanguageModel, max_size: int, bits: int) -> int | None:
    """Return how many n-grams fit, if the model is pruned by its own n-grams; None for none.

    No model is built for that: which n-grams stay says how large a model is.
    """
    full_bytes = full.size_on_disk
    allowed = max_size - SIZE_TOLERANCE

    def size_of(ngrams: int) -> int:
        layout = pruned_layout(full.trie, ngrams)
        return _size_with_layout(full, full_bytes, layout, bits)

    fits = len(full.trie.words) + 1
    fits_size = size_of(fits)
    too_many = full.trie.word.size - 1
    too_large = size_of(too_many)
    if not fits_size <= allowed < too_large:
        return None
    for _ in range(MAX_ATTEMPTS):
        if fits_size >= GUESSED_SIZE_USED * allowed or too_many - fits <= 1:
            break
        target = (1 + GUESSED_SIZE_USED) / 2 * allowed
        share = (target - fits_size) / (too_large - fits_size)
        ngrams = min(max(fits + int((too_many - fits) * share), fits + 1), too_many - 1)
        size = size_of(ngrams)
        if size <= allowed:
            fits = ngrams
            fits_size = size
        else:
            too_many = ngrams
            too_large = size
    return fits


def _format_bytes(size: int) -> str:
    """Format bytes for people, rounded up, so that what is said is enough.

    >>> _format_bytes(999), _format_bytes(1001), _format_bytes(12_345_678)
    ('1KB', '2KB', '12.4MB')
    """
    return f"{-(-size // 1000)}KB" if size < 1_000_000 else f"{-(-size // 100_000) / 10:g}MB"
