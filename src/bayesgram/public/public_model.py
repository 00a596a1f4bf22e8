"""The public model: a language model of each public source, over the words of one vocabulary.

In:  a vocabulary, and the text of its sources once more.   Out: a `PublicModel`: modified Kneser–Ney of all n-grams of
each source (`kneser_ney`), or of those that tell most. Words: those of order 1 in the vocabulary, or all words in its
n-grams if it has none of order 1; every other word of a text is <unk>, which is counted like a word. Sentences have
<s> and </s>, whether n-grams of the vocabulary do or not.

Counts and what is computed of them are spilled to disk beyond `memory`; what each source's model keeps is in memory.
With the vocabulary it makes the model that teams ship: its mixture, moved by a release of that vocabulary (`moving`).
Does not read private text.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arguments import check_arguments
from bayesgram.arrays import Floats, Ids, Integers
from bayesgram.errors import Argument, BayesgramError, UsageError, check_int
from bayesgram.io import Records, read_records
from bayesgram.io.atomic import check_writable, spill_folder, write_folder_atomically
from bayesgram.io.formats import check_format, read_json
from bayesgram.lm import files
from bayesgram.lm.estimate import FORBIDDEN, words_of
from bayesgram.lm.interpolation import interpolate, people_model
from bayesgram.lm.kneser_ney import whole_layout
from bayesgram.lm.language_model import FullSize, LanguageModel, fitted, made_from_told
from bayesgram.lm.ngram_counts import Counts
from bayesgram.lm.pruning import Pruning
from bayesgram.lm.quantisation import BITS, MORE_FOR_BACKOFFS
from bayesgram.lm.trie import UNKNOWN
from bayesgram.public.mixture import MOST_SOURCES, UNNAMED, by_name, check_names
from bayesgram.public.sources import PUBLIC_MODEL, Opened, open_sources, text_of
from bayesgram.public.vocabulary import MEMORY, Vocabulary, source_distributions
from bayesgram.releases.release import Release, check_vocabulary
from bayesgram.text.ngrams import END, MAX_ORDER, START, NgramCounter, ngram_orders
from bayesgram.text.strings import StringTable
from bayesgram.text.tokenizer import Tokenizer, buffers
from bayesgram.version import VERSION

FORMAT = 1
ORDER = 3
FOLDERS = tuple(f"source-{number}" for number in range(MOST_SOURCES))
VOCABULARY = "vocab.parquet"
CONTENTS = (PUBLIC_MODEL, VOCABULARY, *FOLDERS)


@dataclass(frozen=True, eq=False)
class PublicModel:
    """A language model for each source of a vocabulary, all over the same words.

    >>> texts = {"news": ["the red fish swims"], "talk": ["a red fish", "fish"]}
    >>> inputs = {name: pa.table({"text": rows}) for name, rows in texts.items()}
    >>> model = PublicModel.from_public(Vocabulary.from_public(inputs, order=1, size=9), inputs)
    >>> model["news"].predict("the red", 1)[0].word
    'fish'
    """

    models: Mapping[str, LanguageModel]  # by the name of the source
    vocabulary: Vocabulary

    def __post_init__(self) -> None:
        check_names(self.source_names)
        if not self.models:
            raise UsageError("models: a public model has one or more.")
        first = next(iter(self.models.values()))
        for name, model in self.models.items():
            words = model.trie.words
            same = np.array_equal(words.ends, first.trie.words.ends) and np.array_equal(
                words.data, first.trie.words.data
            )
            if not same or model.tokenizer != first.tokenizer:
                raise UsageError(
                    f"source {name!r}: the models of all sources have the same words and tokenizer."
                )

    @property
    def source_names(self) -> list[str]:
        """What the sources are called, in the order of the vocabulary."""
        return list(self.models)

    @property
    def tokenizer(self) -> Tokenizer:
        """How text is cut."""
        return next(iter(self.models.values())).tokenizer

    @property
    def order(self) -> int:
        """The number of words in the longest n-grams."""
        return max(model.order for model in self.models.values())

    @property
    def sizes(self) -> dict[str, list[int]]:
        """How many n-grams of each order, from 1, the model of a source has."""
        return {name: model.sizes for name, model in self.models.items()}

    def __iter__(self) -> Iterator[str]:
        """What the sources are called."""
        return iter(self.models)

    def __getitem__(self, source: str) -> LanguageModel:
        if source not in self.models:
            raise UsageError.for_argument(
                "source",
                repr(source),
                f"this public model has {', '.join(self.source_names)}; name one.",
            )
        return self.models[source]

    def __repr__(self) -> str:
        return f"PublicModel(order {self.order}, sources {', '.join(self.source_names)})"

    @classmethod
    @check_arguments
    def from_public(
        cls,
        vocabulary: Vocabulary,
        inputs: Any,  # noqa: ANN401 - paths or tables, see bayesgram.io
        *,
        order: int = ORDER,
        size: int | None = None,
        max_size: int | None = None,
        text_column: str = "text",
        skip_bad_rows: bool = False,
        memory: int = MEMORY,
    ) -> "PublicModel":
        """The model of the text that a vocabulary was made of, as given there: {"wiki": "wiki/*.parquet"} or paths.

        `size` is how many n-grams, of all orders together, each source's model keeps; `max_size` is how many bytes it
        takes, with probabilities of 8 bits.
        """
        read = partial(
            read_records, text_column=text_column, user_column=None, skip_bad_rows=skip_bad_rows
        )
        sources = open_sources(by_name(inputs), vocabulary.tokenizer, text_column, read)
        return cls.from_sources(
            vocabulary, sources, order=order, size=size, max_size=max_size, memory=memory
        )

    @classmethod
    def from_sources(
        cls,
        vocabulary: Vocabulary,
        sources: Mapping[str, Opened],
        *,
        order: int = ORDER,
        size: int | None = None,
        max_size: int | None = None,
        memory: int = MEMORY,
    ) -> "PublicModel":
        """The same, where the sources are open; they are read from the beginning."""
        check_order(order)
        named = {name or UNNAMED: records for name, records in text_of(sources).items()}
        if list(named) != vocabulary.source_names:
            raise UsageError(
                f"sources {', '.join(named)}: the vocabulary has {', '.join(vocabulary.source_names)}; give its own."
            )
        words = model_words(vocabulary)
        check_size(size, len(words))
        tokenizer, models = replace(vocabulary.tokenizer, boundaries=True), {}
        for name, records in named.items():
            with spill_folder() as scratch:
                counts = count_ngrams(
                    records, words, order=order, tokenizer=tokenizer, scratch=scratch, memory=memory
                )
                if counts.is_empty:
                    raise BayesgramError(
                        f"source {name!r}: has no words; give it more text, or leave it out."
                    )
                build = partial(_model, Pruning(counts), vocabulary, name)
                models[name] = (
                    build(size)
                    if max_size is None
                    else fitted(build, max_size, whole=_whole(counts))
                )
        return cls(models, vocabulary)

    @check_arguments
    def moved_by(self, release: Release) -> LanguageModel:
        """The language model of the people of a release, at no privacy cost."""
        check_vocabulary(release, self.vocabulary, given="the public model")
        made = people_model(release, self.mixture, self._prior)
        provenance = made.provenance.joined(self.mixture.provenance)
        about = {**made.about, "public_model": self.source_names, **made_from_told(provenance)}
        return replace(made, about=about)

    @cached_property
    def mixture(self) -> LanguageModel:
        """One model of all sources, which weigh alike."""
        models = list(self.models.values())
        mixed = models[0] if len(models) == 1 else interpolate(models)
        provenance = mixed.provenance.joined(self.vocabulary.provenance)
        return replace(mixed, about={**mixed.about, **made_from_told(provenance)})

    @cached_property
    def _prior(self) -> Floats:
        """Π of the n-grams of each order, the sources weighing alike as in the mixture."""
        parts = [part for _, part in self.vocabulary.parts]
        return np.concatenate(
            [source_distributions(part.by_source, part.counts).mean(axis=0) for part in parts]
        )

    @check_arguments
    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the folder: one model folder for each source, and public.json, which says their names."""
        check_place(path, force=force)
        with write_folder_atomically(path, contents=CONTENTS, force=force) as folder:
            self.write(folder)

    def write(self, folder: Path) -> None:
        """Fill an empty folder."""
        for name, model in zip(FOLDERS, self.models.values(), strict=False):
            (folder / name).mkdir()
            model.write(folder / name)
        self.vocabulary.write(folder / VOCABULARY)
        about = {
            "format": FORMAT,
            "sources": self.source_names,
            "tokenizer": self.tokenizer.name,
            "order": self.order,
        }
        text = json.dumps(
            {**about, "ngrams": self.sizes, "written_by": f"bayesgram {VERSION}"}, indent=2
        )
        (folder / PUBLIC_MODEL).write_text(text + "\n", encoding="utf-8")

    @classmethod
    @check_arguments
    def load(cls, path: str | Path) -> "PublicModel":
        """Map a saved model into memory."""
        folder = Path(path)
        if not is_public_model(folder):
            raise UsageError(
                f"{path}: not a public model (no {PUBLIC_MODEL}); make one with `bayesgram vocab … --model`."
            )
        models = {}
        for name, own in zip(_names(folder), FOLDERS, strict=False):
            if not (folder / own / files.ABOUT).is_file():
                raise damaged(path)
            models[name] = LanguageModel.load(folder / own)
        try:
            return cls(models, Vocabulary.load(folder / VOCABULARY))
        except (BayesgramError, OSError):
            raise damaged(path) from None


def _model(
    keeping: Pruning, vocabulary: Vocabulary, source: str, keep: int | None
) -> LanguageModel:
    """Of one source, with at most so many n-grams; its words are those of the vocabulary."""
    about = {"estimate": "modified Kneser-Ney", "public_source": source, "pruned_to": keep}
    return LanguageModel(
        keeping.model(keep), vocabulary.tokenizer, about | made_from_told(vocabulary.provenance)
    )


def _whole(counts: Counts) -> FullSize:
    """How large the model of all n-grams is: without what is said about it, so a little more."""
    words, layout = counts.words, whole_layout(counts, BITS, BITS + MORE_FOR_BACKOFFS)
    records, bases, values = layout.array_sizes()
    return FullSize(
        len(words), counts.size, words.data.size + 4 * (words.ends.size + bases + values) + records
    )


def _names(folder: Path) -> list[str]:
    """The sources that a saved model says it has."""
    try:
        about = read_json(folder / PUBLIC_MODEL)
        check_format(folder, "a public model", about["format"], FORMAT)
        names = about["sources"]
    except UsageError:  # of a newer version
        raise
    except (OSError, ValueError, KeyError, TypeError):
        raise damaged(folder) from None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise damaged(folder)
    if len(set(names)) < len(names) or len(names) > MOST_SOURCES:
        raise damaged(folder)
    return names


def damaged(path: str | Path) -> BayesgramError:
    """That a folder is not as it was written."""
    return BayesgramError(
        f"{path}: the public model is damaged; make it again with `bayesgram vocab … --model`."
    )


def is_public_model(path: Path) -> bool:
    """Whether a folder says that it is one."""
    return (path / PUBLIC_MODEL).is_file()


def check_place(path: str | Path, *, force: bool, inputs: Iterable[str | Path] = ()) -> None:
    """Refuse a place where a public model may not be written; `inputs` must not be lost under it."""
    target = check_writable(
        path, force=force, contents=CONTENTS, inputs=inputs, parameter=Argument("model")
    )
    for folder in (target / name for name in FOLDERS):
        if folder.exists() and (
            not folder.is_dir() or {entry.name for entry in folder.iterdir()} - set(files.REPLACED)
        ):
            raise UsageError(
                f"{path}: holds files that are not ours, so it is not replaced; choose another ",
                Argument("model"),
                ".",
            )


def check_order(order: int) -> int:
    """The order of a model, if it is one."""
    return check_int("model_order", order, 2, MAX_ORDER, "the order of a public model")


def check_size(size: int | None, words: int) -> None:
    """Refuse a size that leaves no room for the words."""
    if size is not None and size <= words:
        raise UsageError.for_argument(
            "model_size",
            size,
            f"the model keeps all of its {words:,} words; give {words + 1:,} or more n-grams.",
        )


def model_words(vocabulary: Vocabulary) -> pa.LargeBinaryArray:
    """The words of a model in byte order: those of the vocabulary that an ARPA file can hold, <s>, </s> and <unk>."""
    orders = ngram_orders(vocabulary.ngrams)
    listed = (
        vocabulary.ngrams.filter(pa.array(orders == 1)) if orders[0] == 1 else vocabulary.ngrams
    )
    words = pc.unique(pc.split_pattern(listed, " ").flatten())
    marks = f"{FORBIDDEN}|^(<unk>|<UNK>|{START}|{END})$"
    words = words.filter(pc.invert(pc.match_substring_regex(words, marks))).cast(pa.large_binary())
    special = pa.array([START.encode(), END.encode(), UNKNOWN.encode()], pa.large_binary())
    words = pa.concat_arrays([words, special])
    return words.take(pc.sort_indices(words))


def count_ngrams(
    source: Iterable[Records],
    words: pa.LargeBinaryArray,
    *,
    order: int,
    tokenizer: Tokenizer,
    scratch: Path,
    memory: int = MEMORY,
) -> Counts:
    """Every n-gram of a text up to an order, in a scratch folder; words that are not among these are <unk>."""
    tokens, unknown = StringTable(), pc.index(words, UNKNOWN.encode()).as_py()
    tokens.add(*buffers(words))
    orders = range(1, order + 1)
    with TemporaryDirectory(dir=scratch) as counting:
        counter = NgramCounter(
            orders,
            tokenizer,
            spill_dir=Path(counting),
            memory=memory,
            tokens=tokens,
            unknown=unknown,
        )
        for batch in source:
            counter.add(batch.text)
        return Counts.of(
            words_of(words), (_parts(counter, each) for each in orders), scratch, memory
        )


def _parts(counter: NgramCounter, order: int) -> Iterator[tuple[Ids, Integers]]:
    """All n-grams of one order with their counts, some at a time."""
    for table in counter.tables(order):
        yield from table.entries()
