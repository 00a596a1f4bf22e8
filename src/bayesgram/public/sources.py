"""What a public source is: text, or n-grams that were counted or modelled before.

In:  what a person names.   Out: records of text; or `CountedNgrams` n-grams with counts: of an ARPA file or a model folder
(their joint probabilities), a release (its probabilities) or another vocabulary (its counts). What was published is
public, so a release may be a source; nothing private is read.
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
from bayesgram.lm.language_model import LanguageModel, joint_probabilities
from bayesgram.public import vocabulary_io
from bayesgram.public.mixture import DEFAULT_SOURCE_NAME
from bayesgram.releases.provenance import Ingredient, Provenance, printable_name, unproved_sentence
from bayesgram.text.ngrams import END, START
from bayesgram.text.tokenizer import Tokenizer

PROBABILITY_UNITS = 10**8  # what probabilities are counted in
ARPA_SUFFIXES = (".arpa", ".arpa.gz")
CARD, MODEL = "card.json", "model.json"  # what a release and a model folder have
PUBLIC_MODEL = (
    "public.json"  # what a public model has, which holds a model folder for each of its sources
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class CountedNgrams:
    """N-grams, each once, of one order or several, and how often they occur."""

    ngrams: pa.LargeStringArray
    counts: Integers
    path: Path
    provenance: Provenance = field(
        default_factory=Provenance
    )  # what it is from, where that is about people


OpenSource: TypeAlias = Iterable[Records] | CountedNgrams
TextReader: TypeAlias = Callable[[Any], Iterable[Records]]
Counted: TypeAlias = tuple[
    pa.LargeStringArray, Integers, Provenance
]  # n-grams, counts, and where they are from


def open_sources(
    inputs: Mapping[str, Any], tokenizer: Tokenizer, text_column: str, read: TextReader
) -> dict[str, OpenSource]:
    """Every source, opened and not yet read; `read` makes records of text."""
    opened = {
        name: open_counted_ngrams(given, tokenizer, text_column) or read(_named(given))
        for name, given in inputs.items()
    }
    for first, second, path in _shared_files(opened):
        logger.warning(
            "warning: %s is read for two sources, %s and %s: it counts for both.",
            path,
            first,
            second,
        )
    return opened


def open_counted_ngrams(
    inputs: Any,  # noqa: ANN401 - paths or tables
    tokenizer: Tokenizer,
    text_column: str,
) -> CountedNgrams | None:
    """The n-grams of a model, release or vocabulary; None for text."""
    paths = _paths(inputs)
    opener = next((opener for path in paths if (opener := _opener(path, text_column))), None)
    if opener is None:
        return None
    if len(paths) > 1:
        raise UsageError(
            f"{', '.join(map(str, paths))}: a model, release or vocabulary is a source by itself; give each a name of"
            f" its own, such as news={paths[0]}."
        )
    ngrams, counts, provenance = opener(paths[0], tokenizer)
    vocabulary_io.check_ngrams(paths[0], ngrams)
    return CountedNgrams(
        *_usable(ngrams, counts, boundaries=tokenizer.boundaries), paths[0], provenance
    )


def combined_provenance(sources: Iterable[OpenSource]) -> Provenance:
    """What all sources together are from, where that is about people."""
    whole = Provenance()
    for source in sources:
        if isinstance(source, CountedNgrams):
            whole = whole.merge(source.provenance)
    return whole


def require_text(sources: Mapping[str, OpenSource]) -> dict[str, Iterable[Records]]:
    """The sources, if all of them are text."""
    for name, source in sources.items():
        if isinstance(source, CountedNgrams):
            raise UsageError(
                f"source {name or DEFAULT_SOURCE_NAME!r}: {source.path} has n-grams that were counted "
                "before, and a public model is made of text; give its text, or leave ",
                Argument("model"),
                " out.",
            )
    return {
        name: source for name, source in sources.items() if not isinstance(source, CountedNgrams)
    }


def is_text_path(path: str, text_column: str) -> bool:
    """Whether a path is read as text, if it can be read."""
    return not _paths(path) or _opener(Path(path), text_column) is None


def _paths(inputs: Any) -> list[Path]:  # noqa: ANN401 - paths or tables
    """The inputs that are paths on this machine."""
    given = inputs if isinstance(inputs, Sequence) and not isinstance(inputs, str) else [inputs]
    return [
        Path(one)
        for one in given
        if isinstance(one, (str, os.PathLike)) and "://" not in os.fspath(one)
    ]


def _named(inputs: Any) -> Any:  # noqa: ANN401 - paths or tables
    """Strings as paths: of public text, a message may show what is not there."""
    if isinstance(inputs, str):
        return Path(inputs)
    return [_named(one) for one in inputs] if isinstance(inputs, list | tuple) else inputs


def _opener(path: Path, text_column: str) -> Callable[[Path, Tokenizer], Counted] | None:
    """What opens a path that is no text."""
    if _has(path, PUBLIC_MODEL):
        raise UsageError(
            f"{path}: a public model holds a model of each of its sources; export the one that is meant with"
            f" `bayesgram export {path} --source NAME --format model`, and give that."
        )
    if path.name.lower().endswith(ARPA_SUFFIXES) or _has(path, MODEL):
        return _of_model
    if _has(path, CARD):
        return _of_release
    return _of_vocabulary if _is_vocabulary(path, text_column) else None


def _has(folder: Path, name: str) -> bool:
    """Whether a folder has a file; what can't be looked at is said by whoever reads it as text."""
    try:
        return (folder / name).is_file()
    except OSError:
        return False


def _is_vocabulary(path: Path, text_column: str) -> bool:
    """Whether a Parquet file has n-grams with counts, and no text."""
    if path.suffix.lower() not in {".parquet", ".pq"} or not _has(path.parent, path.name):
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


def _of_model(path: Path, tokenizer: Tokenizer) -> Counted:
    model = LanguageModel.open(path)
    if path.is_dir():  # an ARPA file says no tokenizer, and always has boundaries
        _check_cut(
            path,
            Tokenizer(model.tokenizer.kind, model.tokenizer.lowercase, tokenizer.boundaries),
            tokenizer,
        )
    ngrams, probabilities = joint_probabilities(model, boundaries=tokenizer.boundaries)
    _warn_unless_proved(path, model.ingredients)
    return ngrams, _in_units(probabilities), model.provenance


def _of_release(path: Path, tokenizer: Tokenizer) -> Counted:
    from bayesgram.releases.release import Release  # noqa: PLC0415 - few sources are releases

    release = Release.load(path)
    _check_cut(path, Tokenizer.from_name(release.card.vocabulary["tokenizer"]), tokenizer)
    provenance = release.provenance(printable_name(path))
    _warn_unless_proved(path, provenance.ingredients)
    return release.ngrams, _in_units(release.probabilities), provenance


def _warn_unless_proved(path: Path, ingredients: Iterable[Ingredient]) -> None:
    sentence = unproved_sentence(ingredients)
    if sentence is not None:
        logger.warning(
            "warning: %s: %s. A vocabulary made with it is not for publication either.",
            path,
            sentence,
        )


def _of_vocabulary(path: Path, tokenizer: Tokenizer) -> Counted:
    from bayesgram.public.vocabulary import Vocabulary  # noqa: PLC0415 - it opens sources, so it imports this module

    stated = vocabulary_io.tokenizer_from_schema(pq.read_schema(path))
    if stated:
        _check_cut(path, stated, tokenizer)
    vocabulary = Vocabulary.load(path)
    _warn_unless_proved(path, vocabulary.ingredients)
    return vocabulary.ngrams, vocabulary.counts, vocabulary.provenance


def _check_cut(path: Path, stated: Tokenizer, tokenizer: Tokenizer) -> None:
    """Refuse a source whose tokens are others."""
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


def _in_units(probabilities: Floats) -> Integers:
    counts: Integers = np.rint(probabilities * PROBABILITY_UNITS).astype(np.int64)
    return counts


def _usable(
    ngrams: pa.LargeStringArray, counts: Integers, *, boundaries: bool
) -> tuple[pa.LargeStringArray, Integers]:
    """Every n-gram once (the first), and only those that text cut in this way can have."""
    marks = f"^{START}$" if boundaries else f"(^| )({START}|{END})( |$)"
    first = np.zeros(len(ngrams), np.bool_)
    first[np.unique(ngrams.dictionary_encode().indices.to_numpy(), return_index=True)[1]] = True
    kept = pc.and_(pa.array(first), pc.invert(pc.match_substring_regex(ngrams, marks)))
    rows = np.flatnonzero(kept.to_numpy(zero_copy_only=False))
    return ngrams.take(pa.array(rows)), counts[rows]


def _shared_files(opened: Mapping[str, OpenSource]) -> Iterator[tuple[str, str, Path]]:
    """Two sources, and a file that both read."""
    files = {name: set(_files(source)) for name, source in opened.items()}
    for first, second in combinations(files, 2):
        yield from ((first, second, path) for path in sorted(files[first] & files[second])[:1])


def _files(source: OpenSource) -> list[Path]:
    if isinstance(source, CountedNgrams):
        return [source.path.resolve()]
    sources = source.sources if isinstance(source, RecordReader) else []
    return [each.path.resolve() for each in sources if each.path]
