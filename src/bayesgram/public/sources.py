"""What a public source is: text, or n-grams that were counted or modelled before.

In:  paths or tables that a person names.
Out: records of text; or `CountedNgrams`, n-grams with counts. Those are the joint probabilities of
     an ARPA file or a model folder, the probabilities of a release, or the counts of another
     vocabulary.

A release is published, so it may be a source. Nothing private is read.
"""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bayesgram.arrays import Floats, Integers
from bayesgram.errors import Argument, UsageError
from bayesgram.io import RecordReader, Records
from bayesgram.io.uris import is_uri, to_input
from bayesgram.public import vocabulary_io
from bayesgram.public.mixture import DEFAULT_SOURCE_NAME
from bayesgram.releases.provenance import Ingredient, Provenance, printable_name, unproved_sentence
from bayesgram.text.ngrams import END, START
from bayesgram.text.tokenizer import Tokenizer

# Probabilities are turned into counts of this many in all, so that 1e-8 is one. Not measured.
PROBABILITY_UNITS = 10**8
ARPA_SUFFIXES = (".arpa", ".arpa.gz")

# Files by which a folder is recognised: a release, a model, and a public model, which holds a model
# folder for each of its sources.
CARD = "card.json"
MODEL = "model.json"
PUBLIC_MODEL = "public.json"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class CountedNgrams:
    """N-grams that were counted before, each once, of one order or several.

    Attributes:
        ngrams: The n-grams.
        counts: How often each occurs.
        path: Where they were read.
        provenance: The releases and discoveries that they come from, if any.
    """

    ngrams: pa.LargeStringArray
    counts: Integers
    path: Path
    provenance: Provenance = field(default_factory=Provenance)


OpenSource: TypeAlias = Iterable[Records] | CountedNgrams
TextReader: TypeAlias = Callable[[Any], Iterable[Records]]
# N-grams, their counts, and what they come from.
NgramsWithProvenance: TypeAlias = tuple[pa.LargeStringArray, Integers, Provenance]


def open_sources(
    inputs: Mapping[str, Any], tokenizer: Tokenizer, text_column: str, read: TextReader
) -> dict[str, OpenSource]:
    """Open every source, without reading text.

    Args:
        inputs: The paths or tables of each source, by its name.
        tokenizer: The tokenizer of the vocabulary; n-grams must have been made with it.
        text_column: The name of the column with texts.
        read: Makes records of text.
    """
    sources = {
        name: open_counted_ngrams(source, tokenizer, text_column) or read(_to_paths(source))
        for name, source in inputs.items()
    }
    for first, second, path in _shared_files(sources):
        logger.warning(
            "warning: %s is read for two sources, %s and %s: it counts for both.",
            path,
            first,
            second,
        )
    return sources


def open_counted_ngrams(
    inputs: Any,  # noqa: ANN401 - paths or tables
    tokenizer: Tokenizer,
    text_column: str,
) -> CountedNgrams | None:
    """Return the n-grams of a model, release or vocabulary; None for text.

    Args:
        inputs: Paths or tables.
        tokenizer: The tokenizer that n-grams must have been made with.
        text_column: The name of the column with texts.

    Raises:
        UsageError: If several are given as one source, or one was made with another tokenizer.
    """
    paths = _local_paths(inputs)
    readers = (_choose_reader(path, text_column) for path in paths)
    read = next((reader for reader in readers if reader is not None), None)
    if read is None:
        return None
    if len(paths) > 1:
        raise UsageError(
            f"{', '.join(map(str, paths))}: a model, release or vocabulary is a source by itself;"
            f" give each a name of its own, such as news={paths[0]}."
        )
    ngrams, counts, provenance = read(paths[0], tokenizer)
    vocabulary_io.check_ngrams(paths[0], ngrams, tokenizer)
    ngrams, counts = _select_ngrams_of_text(ngrams, counts, boundaries=tokenizer.boundaries)
    return CountedNgrams(ngrams, counts, paths[0], provenance)


def combined_provenance(sources: Iterable[OpenSource]) -> Provenance:
    """Return the releases and discoveries that all sources together come from."""
    provenance = Provenance()
    for source in sources:
        if isinstance(source, CountedNgrams):
            provenance = provenance.merge(source.provenance)
    return provenance


def require_text(sources: Mapping[str, OpenSource]) -> dict[str, Iterable[Records]]:
    """Return the sources; refuse them if one of them is not text."""
    for name, source in sources.items():
        if isinstance(source, CountedNgrams):
            raise UsageError(
                f"source {name or DEFAULT_SOURCE_NAME!r}: {source.path} has n-grams that were "
                "counted before, and a public model is made of text; give its text, or leave ",
                Argument("model"),
                " out.",
            )
    return {
        name: source for name, source in sources.items() if not isinstance(source, CountedNgrams)
    }


def is_text_path(path: str, text_column: str) -> bool:
    """Return whether a path is read as text, if it can be read."""
    return not _local_paths(path) or _choose_reader(Path(path), text_column) is None


def _local_paths(inputs: Any) -> list[Path]:  # noqa: ANN401 - paths or tables
    """Return the inputs that are paths on this machine."""
    several = inputs if isinstance(inputs, Sequence) and not isinstance(inputs, str) else [inputs]
    return [
        Path(path) for path in several if isinstance(path, (str, os.PathLike)) and not is_uri(path)
    ]


def _to_paths(inputs: Any) -> Any:  # noqa: ANN401 - paths or tables
    """Turn strings into paths. A message may quote a path, but no string that could be text."""
    if isinstance(inputs, str):
        return to_input(inputs)
    if isinstance(inputs, list | tuple):
        return [_to_paths(path) for path in inputs]
    return inputs


def _choose_reader(
    path: Path, text_column: str
) -> Callable[[Path, Tokenizer], NgramsWithProvenance] | None:
    """Return the function that reads a path that is not text; None for text."""
    if _contains(path, PUBLIC_MODEL):
        raise UsageError(
            f"{path}: a public model holds a model of each of its sources; export the one that is"
            f" meant with `bayesgram export {path} --source NAME --format model`, and give that."
        )
    if path.name.lower().endswith(ARPA_SUFFIXES) or _contains(path, MODEL):
        return _read_model
    if _contains(path, CARD):
        return _read_release
    return _read_vocabulary if _is_vocabulary(path, text_column) else None


def _contains(folder: Path, name: str) -> bool:
    try:
        return (folder / name).is_file()
    except OSError:  # reported when it is read as text
        return False


def _is_vocabulary(path: Path, text_column: str) -> bool:
    """Return whether a Parquet file has n-grams with counts, and no text."""
    if path.suffix.lower() not in {".parquet", ".pq"} or not _contains(path.parent, path.name):
        return False
    try:
        names = pq.read_schema(path).names
    except (OSError, ValueError, pa.ArrowException):
        return False
    return (
        text_column not in names
        and "ngram" in names
        and ("count" in names or bool(vocabulary_io.source_columns(names)))
    )


def _read_model(path: Path, tokenizer: Tokenizer) -> NgramsWithProvenance:
    from bayesgram.lm.language_model import (  # noqa: PLC0415 - 0.1 s, and few sources are models
        LanguageModel,
        joint_probabilities,
    )

    model = LanguageModel.open(path)
    if path.is_dir():  # an ARPA file names no tokenizer, and always has boundaries
        stated = Tokenizer(model.tokenizer.kind, model.tokenizer.lowercase, tokenizer.boundaries)
        _check_tokenizer(path, stated, tokenizer)
    ngrams, probabilities = joint_probabilities(model, boundaries=tokenizer.boundaries)
    _warn_unless_proved(path, model.ingredients)
    return ngrams, _to_counts(probabilities), model.provenance


def _read_release(path: Path, tokenizer: Tokenizer) -> NgramsWithProvenance:
    from bayesgram.releases.release import Release  # noqa: PLC0415 - few sources are releases

    release = Release.load(path)
    _check_tokenizer(path, Tokenizer.from_name(release.card.vocabulary["tokenizer"]), tokenizer)
    provenance = release.provenance(printable_name(path))
    _warn_unless_proved(path, provenance.ingredients)
    return release.ngrams, _to_counts(release.probabilities), provenance


def _warn_unless_proved(path: Path, ingredients: Iterable[Ingredient]) -> None:
    sentence = unproved_sentence(ingredients)
    if sentence is not None:
        logger.warning(
            "warning: %s: %s. A vocabulary made with it is not for publication either.",
            path,
            sentence,
        )


def _read_vocabulary(path: Path, tokenizer: Tokenizer) -> NgramsWithProvenance:
    # `vocabulary` opens sources, so it imports this module.
    from bayesgram.public.vocabulary import Vocabulary  # noqa: PLC0415

    stated = vocabulary_io.tokenizer_from_schema(pq.read_schema(path))
    if stated:
        _check_tokenizer(path, stated, tokenizer)
    vocabulary = Vocabulary.load(path)
    _warn_unless_proved(path, vocabulary.ingredients)
    return vocabulary.ngrams, vocabulary.counts, vocabulary.provenance


def _check_tokenizer(path: Path, stated: Tokenizer, tokenizer: Tokenizer) -> None:
    """Refuse a source that was made with another tokenizer."""
    if stated != tokenizer:
        raise UsageError(
            f"{path}: was made with the tokenizer {stated.name!r}, and this vocabulary "
            f"is made with {tokenizer.name!r}; sources must be cut alike: change ",
            Argument("tokenizer"),
            ", ",
            Argument("lowercase"),
            " and ",
            Argument("boundaries"),
            ", or leave it out.",
        )


def _to_counts(probabilities: Floats) -> Integers:
    counts: Integers = np.rint(probabilities * PROBABILITY_UNITS).astype(np.int64)
    return counts


def _select_ngrams_of_text(
    ngrams: pa.LargeStringArray, counts: Integers, *, boundaries: bool
) -> tuple[pa.LargeStringArray, Integers]:
    """Return every n-gram once (its first row), if text can have it: no <s> alone, for example."""
    marks = f"^{START}$" if boundaries else f"(^| )({START}|{END})( |$)"
    first = np.zeros(len(ngrams), np.bool_)
    first[np.unique(ngrams.dictionary_encode().indices.to_numpy(), return_index=True)[1]] = True
    selected = pc.and_(pa.array(first), pc.invert(pc.match_substring_regex(ngrams, marks)))
    rows = np.flatnonzero(selected.to_numpy(zero_copy_only=False))
    return ngrams.take(pa.array(rows)), counts[rows]


def _shared_files(sources: Mapping[str, OpenSource]) -> Iterator[tuple[str, str, Path]]:
    """Yield pairs of sources that read the same file, and the first such file."""
    files = {name: set(_list_files(source)) for name, source in sources.items()}
    for first, second in combinations(files, 2):
        yield from ((first, second, path) for path in sorted(files[first] & files[second])[:1])


def _list_files(source: OpenSource) -> list[Path]:
    if isinstance(source, CountedNgrams):
        return [source.path.resolve()]
    inputs = source.sources if isinstance(source, RecordReader) else []
    return [text.path.resolve() for text in inputs if text.path]
