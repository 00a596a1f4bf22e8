"""The public model: a language model of each public source, over the words of one vocabulary.

In go a vocabulary, and the text of its sources once more; out comes a `PublicModel`: modified
Kneser–Ney (`lm.kneser_ney`) of all n-grams of each source, or of those that are worth most. Its
words are those of order 1 in the vocabulary, or all words in its n-grams if it has none of order 1;
every other word of a text is <unk>, which is counted like a word. Sentences have <s> and </s>,
whether n-grams of the vocabulary do or not.

Counts and what is computed of them are spilled to disk beyond `memory`; the model of each source is
in memory. The model of a vocabulary of rows is one of the words of the same text: it says how
likely a row is, and discovery weighs rows by it. Adapted by a release of the vocabulary
(`PublicModel.adapt_to`), it is the model that teams ship. Private text is not read here.
"""

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arguments import check_arguments
from bayesgram.arrays import Floats, Ids, Integers
from bayesgram.errors import Argument, BayesgramError, UsageError, check_int
from bayesgram.io import Records
from bayesgram.io.atomic import check_writable, spill_folder, write_folder_atomically
from bayesgram.io.formats import check_format, read_json
from bayesgram.lm import files
from bayesgram.lm.estimate import FORBIDDEN
from bayesgram.lm.interpolation import adapt_public_model, interpolate
from bayesgram.lm.kneser_ney import full_layout
from bayesgram.lm.language_model import (
    FullModelSize,
    LanguageModel,
    fit_to_size,
    provenance_details,
)
from bayesgram.lm.ngram_counts import NgramCounts
from bayesgram.lm.packed import Words
from bayesgram.lm.pruning import TextPruner
from bayesgram.lm.quantisation import DEFAULT_BITS, EXTRA_BACKOFF_BITS
from bayesgram.lm.trie import UNKNOWN
from bayesgram.public.mixture import (
    DEFAULT_SOURCE_NAME,
    MAX_SOURCES,
    check_source_names,
    inputs_by_source,
)
from bayesgram.public.sources import PUBLIC_MODEL, OpenSource, open_sources, require_text
from bayesgram.public.vocabulary import (
    DEFAULT_MEMORY_BYTES,
    Vocabulary,
    source_distributions,
    text_reader,
)
from bayesgram.releases.release import Release, check_vocabulary, is_made_with
from bayesgram.text.ngrams import END, MAX_ORDER, START, NgramCounter, ngram_orders, ngram_tokens
from bayesgram.text.strings import StringTable
from bayesgram.text.tokenizer import Tokenizer, buffers
from bayesgram.version import VERSION

FORMAT = 1
DEFAULT_ORDER = 3
# N-grams that `bayesgram vocab` keeps of each source unless told otherwise: about 90 MB. The text
# of 60,000 Wikipedia articles has 4 million, and a quarter of them costs 6% of perplexity.
DEFAULT_SIZE = 10_000_000
# Words of the model that rows are weighed by: the most frequent ones of public text. Not measured.
ROW_MODEL_WORDS = 200_000
SOURCE_FOLDERS = tuple(f"source-{number}" for number in range(MAX_SOURCES))
VOCABULARY_FILE = "vocab.parquet"
CONTENTS = (PUBLIC_MODEL, VOCABULARY_FILE, *SOURCE_FOLDERS)


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
        check_source_names(self.source_names)
        if not self.models:
            raise UsageError("models: a public model has one or more.")
        first = next(iter(self.models.values()))
        for name, model in self.models.items():
            words = model.trie.words
            has_same_words = np.array_equal(words.ends, first.trie.words.ends) and np.array_equal(
                words.data, first.trie.words.data
            )
            if not has_same_words or model.tokenizer != first.tokenizer:
                raise UsageError(
                    f"source {name!r}: the models of all sources have the same words and tokenizer."
                )

    # --- Making ---

    @classmethod
    @check_arguments
    def from_public(
        cls,
        vocabulary: Vocabulary,
        inputs: Any,  # noqa: ANN401 - paths or tables, see bayesgram.io
        *,
        order: int = DEFAULT_ORDER,
        size: int | None = None,
        max_size: int | None = None,
        text_column: str = "text",
        skip_bad_rows: bool = False,
        memory: int = DEFAULT_MEMORY_BYTES,
        delimiter: str | None = None,
        encoding: str = "utf-8",
    ) -> "PublicModel":
        """Estimate the model of the text that a vocabulary was made of.

        Args:
            vocabulary: The vocabulary.
            inputs: Its text, as it was given there: {"wiki": "wiki/*.parquet"} or paths.
            order: The number of words in the longest n-grams.
            size: How many n-grams, of all orders together, each source's model keeps.
            max_size: How many bytes each source's model takes, with probabilities of 8 bits.
            text_column: The name of the column with texts.
            skip_bad_rows: Whether rows that can't be read are skipped.
            memory: The bytes beyond which counts are spilled to disk.
            delimiter: What separates the columns of CSV and TSV files, if not commas and tabs.
            encoding: That of text files, such as "latin-1".
        """
        # `Vocabulary.from_public` has warned of a column of users in the same text already.
        read = text_reader(
            text_column,
            skip_bad_rows=skip_bad_rows,
            delimiter=delimiter,
            encoding=encoding,
            warn_about_users=False,
        )
        sources = open_sources(inputs_by_source(inputs), vocabulary.tokenizer, text_column, read)
        return cls.from_sources(
            vocabulary, sources, order=order, size=size, max_size=max_size, memory=memory
        )

    @classmethod
    def from_sources(
        cls,
        vocabulary: Vocabulary,
        sources: Mapping[str, OpenSource],
        *,
        order: int = DEFAULT_ORDER,
        size: int | None = None,
        max_size: int | None = None,
        memory: int = DEFAULT_MEMORY_BYTES,
    ) -> "PublicModel":
        """Estimate the model of sources that are open; they are read from the beginning.

        Args: as of `from_public`.
        """
        check_model_order(order)
        if vocabulary.tokenizer.is_rows:  # the model is one of the words of rows
            vocabulary = Vocabulary.from_sources(
                require_text(sources),
                order=1,
                size=ROW_MODEL_WORDS,
                tokenizer=vocabulary.tokenizer.words,
                memory=memory,
            )
        records_by_name = {
            name or DEFAULT_SOURCE_NAME: records for name, records in require_text(sources).items()
        }
        if list(records_by_name) != vocabulary.source_names:
            raise UsageError(
                f"sources {', '.join(records_by_name)}: the vocabulary has"
                f" {', '.join(vocabulary.source_names)}; give its own."
            )
        words = model_words(vocabulary)
        check_model_size(size, len(words))
        tokenizer = replace(vocabulary.tokenizer, boundaries=True)
        models = {}
        for name, records in records_by_name.items():
            with spill_folder() as scratch:
                counts = count_ngrams(
                    records, words, order=order, tokenizer=tokenizer, scratch=scratch, memory=memory
                )
                if counts.is_empty:
                    raise BayesgramError(
                        f"source {name!r}: has no words; give it more text, or leave it out."
                    )
                build = partial(_build_source_model, TextPruner(counts), vocabulary, name)
                if max_size is None:
                    models[name] = build(size)
                else:
                    full_size = _full_model_size(counts)
                    models[name] = fit_to_size(build, max_size, full_size=full_size)
        return cls(models, vocabulary)

    @check_arguments
    def adapt_to(self, release: Release) -> LanguageModel:
        """Return the language model of the people of a release, at no privacy cost.

        Args:
            release: A release of the vocabulary of this model.
        """
        check_vocabulary(release, self.vocabulary, vocabulary_name="the public model")
        model = adapt_public_model(release, self.mixture, self._prior)
        provenance = model.provenance.merge(self.mixture.provenance)
        details = {"public_model": self.source_names, **provenance_details(provenance)}
        return replace(model, about={**model.about, **details})

    @cached_property
    def mixture(self) -> LanguageModel:
        """One model of all sources, with equal weights."""
        models = list(self.models.values())
        mixture = models[0] if len(models) == 1 else interpolate(models)
        provenance = mixture.provenance.merge(self.vocabulary.provenance)
        return replace(mixture, about={**mixture.about, **provenance_details(provenance)})

    @cached_property
    def _prior(self) -> Floats:
        """π of the n-grams of each order, with equal weights of the sources as in the mixture."""
        distributions = [
            source_distributions(part.counts_by_source, part.counts).mean(axis=0)
            for _, part in self.vocabulary.by_order
        ]
        return np.concatenate(distributions)

    # --- Describing ---

    @property
    def source_names(self) -> list[str]:
        """The names of the sources, in the order of the vocabulary."""
        return list(self.models)

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of all models."""
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
        """Iterate over the names of the sources."""
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

    # --- Saving and loading ---

    @check_arguments
    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the folder: a model folder for each source, and public.json with their names."""
        check_target(path, force=force)
        with write_folder_atomically(path, contents=CONTENTS, force=force) as folder:
            self.write(folder)

    def write(self, folder: Path) -> None:
        """Write all files into an empty folder."""
        for name, model in zip(SOURCE_FOLDERS, self.models.values(), strict=False):
            (folder / name).mkdir()
            model.write(folder / name)
        self.vocabulary.write(folder / VOCABULARY_FILE)
        about = {
            "format": FORMAT,
            "sources": self.source_names,
            "tokenizer": self.tokenizer.name,
            "order": self.order,
            "ngrams": self.sizes,
            "written_by": f"bayesgram {VERSION}",
        }
        text = json.dumps(about, indent=2)
        (folder / PUBLIC_MODEL).write_text(text + "\n", encoding="utf-8", newline="\n")

    @classmethod
    @check_arguments
    def load(cls, path: str | Path) -> "PublicModel":
        """Map a saved public model into memory.

        Raises:
            UsageError: If the folder holds no public model, or one of another format.
            BayesgramError: If it is damaged.
        """
        folder = Path(path)
        if not is_public_model(folder):
            raise UsageError(
                f"{path}: not a public model (no {PUBLIC_MODEL});"
                " make one with `bayesgram vocab … --model`."
            )
        models = {}
        for name, source_folder in zip(_read_source_names(folder), SOURCE_FOLDERS, strict=False):
            if not (folder / source_folder / files.MODEL_JSON).is_file():
                raise _damage_error(path)
            models[name] = LanguageModel.load(folder / source_folder)
        try:
            return cls(models, Vocabulary.load(folder / VOCABULARY_FILE))
        except (BayesgramError, OSError):
            raise _damage_error(path) from None


# --- Folders ---


def find_public_model(release: Release, path: Path) -> Path | None:
    """Return the public model that a release was made with, if it is near the release.

    It is looked for in the folder of the release and the one above it, in the current folder, and
    beside the vocabulary that the command on the card names. A model fits if its vocabulary has the
    fingerprint of the release's.

    Args:
        release: The release.
        path: The folder of the release.

    Raises:
        UsageError: If several models fit.
    """
    folder = path.resolve()
    places = [folder.parent, folder.parent.parent, Path.cwd()]
    places += [vocabulary.resolve().parent for vocabulary in _vocabularies_in(release.card.command)]
    candidates = [
        model.parent for place in dict.fromkeys(places) for model in _list_public_models(place)
    ]
    fitting = [model for model in dict.fromkeys(candidates) if _fits(model, release)]
    if len(fitting) > 1:
        names = ", ".join(str(model) for model in fitting)
        raise UsageError(
            f"{path}: several public models fit the release: {names}; name one with ",
            Argument("public"),
            ".",
        )
    return fitting[0] if fitting else None


def _vocabularies_in(command: str | None) -> list[Path]:
    """Return the path after --vocab in the command on a card, if there is one."""
    try:
        words = shlex.split(command or "")
    except ValueError:
        return []
    return [Path(path) for option, path in pairwise(words) if option.removeprefix("--") == "vocab"]


def _list_public_models(folder: Path) -> list[Path]:
    """Return public.json of every public model in a folder; none if it can't be listed."""
    try:
        return sorted(folder.glob(f"*/{PUBLIC_MODEL}"))
    except OSError:
        return []


def _fits(model: Path, release: Release) -> bool:
    """Return whether a public model is of the vocabulary of a release; not if it is damaged."""
    try:
        return is_made_with(release, Vocabulary.load(model / VOCABULARY_FILE))
    except (BayesgramError, OSError):
        return False


def is_public_model(path: Path) -> bool:
    """Return whether a folder says that it is a public model."""
    return (path / PUBLIC_MODEL).is_file()


def check_target(path: str | Path, *, force: bool, inputs: Iterable[str | Path] = ()) -> None:
    """Refuse a place where a public model may not be written.

    Args:
        path: The folder to write.
        force: Whether a public model that is there already is replaced.
        inputs: Files that must not be lost under it.
    """
    target = check_writable(
        path, force=force, contents=CONTENTS, inputs=inputs, parameter=Argument("model")
    )
    for folder in (target / name for name in SOURCE_FOLDERS):
        if folder.exists() and (
            not folder.is_dir() or {entry.name for entry in folder.iterdir()} - set(files.CONTENTS)
        ):
            raise UsageError(
                f"{path}: holds files that are not ours, so it is not replaced; choose another ",
                Argument("model"),
                ".",
            )


def _read_source_names(folder: Path) -> list[str]:
    try:
        values = read_json(folder / PUBLIC_MODEL)
        check_format(folder, "a public model", values["format"], FORMAT)
        names = values["sources"]
    except UsageError:  # another format
        raise
    except (OSError, ValueError, KeyError, TypeError):
        raise _damage_error(folder) from None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _damage_error(folder)
    if len(set(names)) < len(names) or len(names) > MAX_SOURCES:
        raise _damage_error(folder)
    return names


def _damage_error(path: str | Path) -> BayesgramError:
    return BayesgramError(
        f"{path}: the public model is damaged; make it again with `bayesgram vocab … --model`."
    )


# --- Estimating ---


def check_model_order(order: int) -> int:
    """Return the order of a model, if it can be one."""
    return check_int("model_order", order, 2, MAX_ORDER, "the order of a public model")


def check_model_size(size: int | None, word_count: int) -> None:
    """Refuse a number of n-grams that leaves no room for the words."""
    if size is not None and size <= word_count:
        raise UsageError.for_argument(
            "model_size",
            size,
            f"the model keeps all of its {word_count:,} words;"
            f" give {word_count + 1:,} or more n-grams.",
        )


def model_words(vocabulary: Vocabulary) -> pa.LargeBinaryArray:
    """Return the words of a model in byte order.

    They are those of the vocabulary that an ARPA file can hold, <s>, </s> and <unk>.
    """
    orders = ngram_orders(vocabulary.ngrams, vocabulary.tokenizer)
    ngrams = vocabulary.ngrams
    if orders[0] == 1:
        ngrams = ngrams.filter(pa.array(orders == 1))
    words = pc.unique(ngram_tokens(ngrams, vocabulary.tokenizer))
    excluded = f"{FORBIDDEN}|^(<unk>|<UNK>|{START}|{END})$"
    is_excluded = pc.match_substring_regex(words, excluded)
    words = words.filter(pc.invert(is_excluded)).cast(pa.large_binary())
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
    memory: int = DEFAULT_MEMORY_BYTES,
) -> NgramCounts:
    """Count every n-gram of a text up to an order.

    Args:
        source: The text.
        words: The words in byte order; others are <unk>.
        order: The number of words in the longest n-grams.
        tokenizer: How text is cut.
        scratch: A folder for the counts.
        memory: The bytes beyond which counts are spilled to disk.
    """
    tokens = StringTable()
    tokens.add(*buffers(words))
    unknown = pc.index(words, UNKNOWN.encode()).as_py()
    orders = range(1, order + 1)
    with TemporaryDirectory(dir=scratch) as counting_folder:
        counter = NgramCounter(
            orders,
            tokenizer,
            spill_dir=Path(counting_folder),
            memory=memory,
            tokens=tokens,
            unknown=unknown,
        )
        counter.add_all(batch.text for batch in source)
        counted_orders = (_read_order(counter, ngram_order) for ngram_order in orders)
        return NgramCounts.from_orders(Words.from_array(words), counted_orders, scratch, memory)


def _read_order(counter: NgramCounter, order: int) -> Iterator[tuple[Ids, Integers]]:
    """Yield all n-grams of one order with their counts, some at a time."""
    for table in counter.tables(order):
        yield from table.entries()


def _build_source_model(
    pruner: TextPruner, vocabulary: Vocabulary, source: str, size: int | None
) -> LanguageModel:
    """Build the model of one source with at most so many n-grams, or with all."""
    about = {"estimate": "modified Kneser-Ney", "public_source": source, "pruned_to": size}
    details = provenance_details(vocabulary.provenance)
    return LanguageModel(pruner.build_model(size), vocabulary.tokenizer, about | details)


def _full_model_size(counts: NgramCounts) -> FullModelSize:
    """Return how large the model of all n-grams is at least: without its headers and model.json."""
    words = counts.words
    layout = full_layout(counts, DEFAULT_BITS, DEFAULT_BITS + EXTRA_BACKOFF_BITS)
    record_bytes, base_count, value_count = layout.array_sizes()
    number_bytes = 4 * (words.ends.size + base_count + value_count)
    size = words.data.size + number_bytes + record_bytes
    return FullModelSize(len(words), counts.size, size)
