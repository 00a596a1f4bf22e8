"""How good language models are for held-out text: perplexity, suggestions that are right, keystrokes saved.

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
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bayesgram.arguments import checked
from bayesgram.arrays import Floats, Ids
from bayesgram.audit.bands import FrequencyQuantiles
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.files import read_records
from bayesgram.public.sources import by_name
from bayesgram.released.language_model import LanguageModel
from bayesgram.released.ranking import NEVER, rank_words
from bayesgram.released.search import SENTENCE_END

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

    least_share: float | None  # of all words, that the rarest of these words is; two digits; None for unknown words


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
    by_frequency: tuple[Band, ...]  # fifths of the words, the most frequent first; then those that are not known

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "by_text": _plain(self.by_text), "by_frequency": _plain(self.by_frequency)}


def _plain(parts: Sequence[Part]) -> list[dict[str, Any]]:
    return [asdict(part) for part in parts]


@checked
def evaluate_text(
    models: Mapping[str, LanguageModel | str | Path],
    texts: Any,  # noqa: ANN401 - paths or tables, see bayesgram.files; or several of them with names
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
        raise UsageError("models={}: nothing to judge; give one or more, such as {'ours': 'model.arpa'}.")
    rows = {
        name: [batch.text for batch in read_records(given, text_column=text_column, user_column=None)]
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
    return same and replace(first.tokenizer, boundaries=False) == replace(second.tokenizer, boundaries=False)


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
            for data, offsets, _ in model.tokenizer.scan(rows):
                begun = np.concatenate([[0], np.cumsum((data & 0xC0) != 0x80)])  # each character has one such byte
                letters = np.diff(begun[offsets]).astype(np.int32)
                stream = model.numbers(data, offsets)
                found = (stream, letters, np.full(stream.size, number, np.int32), bands.find(data, offsets))
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
    has_words, has_known = (np.bincount(text.text[which], minlength=len(names)) for which in (words, known))
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
