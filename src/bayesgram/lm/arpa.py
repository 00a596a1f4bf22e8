"""Language models as ARPA files, which KenLM, SRILM and most recognisers read; `.gz` is compressed.

Files are written so that reading gives the same model bit for bit. They are read strictly: KenLM
refuses n-grams whose context or suffix is missing, positive log-probabilities and files without <s>
and </s>, but accepts repeated n-grams and contexts that don't add up to one. Here all of them are
refused, with the line. Words are separated by ASCII white space alone, as in KenLM, so any other
character may be part of one. ARPA has no place for a tokenizer or a claim.
"""

import gzip
import math
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arrays import Bools, Floats, Ids, Integers, Singles
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.io.atomic import write_file_atomically
from bayesgram.lm.language_model import LanguageModel
from bayesgram.lm.packed import Words
from bayesgram.lm.trie import SUM_TOLERANCE, UNKNOWN, NgramIndex, Trie, build_trie, sum_contexts
from bayesgram.text.ngrams import END, MAX_ORDER, START
from bayesgram.text.tokenizer import Tokenizer

_SIZE_LINE = re.compile(rb"ngram[ \t]+(\d{1,2})[ \t]*=[ \t]*(\d{1,12})[ \t]*\r?")


# --- Writing ---


def write_arpa(model: LanguageModel, path: str | Path, *, force: bool = False) -> None:
    """Write a model as an ARPA file.

    Args:
        model: The model.
        path: The file; a name that ends with .gz is compressed.
        force: Whether a file that is there already is replaced.

    Raises:
        UsageError: If it is a model of rows.

    >>> from tempfile import TemporaryDirectory
    >>> model = LanguageModel.from_counts(pa.array(["red fish", "fish swim"]), [4, 3])
    >>> with TemporaryDirectory() as folder:
    ...     write_arpa(model, Path(folder) / "model.arpa")
    ...     (Path(folder) / "model.arpa").read_text().splitlines()[1:3]
    ['ngram 1=6', 'ngram 2=2']
    """
    if model.tokenizer.is_rows:
        raise UsageError(
            "an ARPA file separates words by spaces, and rows have spaces; export them as tsv,"
            " jsonl, parquet or model."
        )
    trie = model.trie
    words = pa.array(trie.words.to_list(), pa.large_binary())
    with write_file_atomically(path, force=force) as aside, _open_file(aside, "wb") as file:
        sizes = "".join(
            f"ngram {order}={size}\n" for order, size in enumerate(model.sizes, start=1)
        )
        file.write(f"\\data\\\n{sizes}".encode())
        for order in range(1, model.order + 1):
            file.write(f"\n\\{order}-grams:\n".encode())
            file.write(_format_section(trie, words, order))
        file.write(b"\n\\end\\\n")


def _format_section(trie: Trie, words: pa.LargeBinaryArray, order: int) -> memoryview:
    """Return the lines of one order: log10 p, the words, and log10 of the backoff weight."""
    nodes = trie.nodes(order)
    word_columns = [words.take(pa.array(ids)) for ids in trie.ngrams(order).T]
    ngrams = pc.binary_join_element_wise(*word_columns, _binary(b" "))
    columns = [_format_numbers(trie.log_probability[nodes]), _binary(b"\t"), ngrams]
    if order < trie.order:
        columns += [_binary(b"\t"), _format_numbers(trie.log_backoff[nodes])]
    lines = pc.binary_join_element_wise(*columns, _binary(b"\n"), _binary(b""))
    return memoryview(lines.buffers()[2] or b"")[: pc.sum(pc.binary_length(lines)).as_py() or 0]


def _binary(value: bytes) -> pa.LargeBinaryScalar:
    return pa.scalar(value, pa.large_binary())


def _format_numbers(numbers: Singles) -> pa.LargeBinaryArray:
    """Write as many digits as single precision needs, and no more."""
    return pa.array(numbers).cast(pa.large_string()).cast(pa.large_binary())


@contextmanager
def _open_file(path: Path, mode: str) -> Iterator[IO[bytes]]:
    """Open a file, through gzip if its name says so.

    Without a time stamp, so that equal models give equal files.
    """
    with path.open(mode) as plain:
        if path.suffix.lower() != ".gz":
            yield cast("IO[bytes]", plain)
            return
        with gzip.GzipFile(
            filename="", mode=mode, fileobj=cast("IO[bytes]", plain), mtime=0
        ) as compressed:
            yield cast("IO[bytes]", compressed)


# --- Reading ---


def read_arpa(
    path: str | Path,
    *,
    tokenizer: Tokenizer = Tokenizer(),  # noqa: B008 - frozen
) -> LanguageModel:
    """Read and check an ARPA file.

    Args:
        path: The file.
        tokenizer: How texts are cut for the model.

    Raises:
        UsageError: If the file is no ARPA file.
        BayesgramError: If it can't be read, or is no model; the message says the line.

    >>> from tempfile import TemporaryDirectory
    >>> model = LanguageModel.from_counts(pa.array(["red fish", "fish swim"]), [4, 3])
    >>> with TemporaryDirectory() as folder:
    ...     write_arpa(model, Path(folder) / "model.arpa.gz")
    ...     read_arpa(Path(folder) / "model.arpa.gz").predict("red", 1)[0].word
    'fish'
    """
    reader = _ArpaReader(str(path), _read_content(Path(path)))
    sizes = reader.read_header()
    sections = [
        reader.read_section(order, size, longest=len(sizes))
        for order, size in enumerate(sizes, start=1)
    ]
    reader.expect(b"\\end\\", "the end of the model")
    reader.expect_no_more()
    trie = _build_checked_trie(reader.name, sections)
    return LanguageModel(trie, tokenizer, {"imported_from": Path(path).name})


def _read_content(path: Path) -> bytes:
    try:
        with _open_file(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        raise UsageError(
            f"{path}: no such file; give a release folder, a model folder or an ARPA file."
        ) from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise BayesgramError(
            f"{path}: not a whole gzip file; copy it again, or write it anew."
        ) from None
    except OSError as error:
        raise BayesgramError(
            f"{path}: can't be read ({error.strerror}); check the path and its permissions."
        ) from None


@dataclass(frozen=True, eq=False)
class _Section:
    """The n-grams of one order as they stand in the file."""

    order: int
    first_line: int
    words: pa.LargeBinaryArray  # of all n-grams, one after the other
    log_probability: Floats
    log_backoff: Floats


class _ArpaReader:
    """Reads the lines of a file, one section after the other."""

    def __init__(self, name: str, content: bytes) -> None:
        self.name = name
        self._lines = content.split(b"\n")
        self._at = 0
        is_text = _is_utf8(content)
        if not is_text and b"\\data\\" not in content:
            raise UsageError(
                f"{name}: no language model; give a release folder, a model folder or an ARPA file."
            )
        for number, line in enumerate([] if is_text else self._lines, start=1):
            if not _is_utf8(line):
                _refuse(name, number, "not UTF-8; convert the file first.")

    def read_header(self) -> list[int]:
        """Return how many n-grams of each order the file says it holds."""
        self.expect(b"\\data\\", "the head of an ARPA file")
        sizes: list[int] = []
        while self._at < len(self._lines) and self._lines[self._at].strip():
            match = _SIZE_LINE.fullmatch(self._lines[self._at])
            if not match or int(match[1]) != len(sizes) + 1:
                problem = f"expected `ngram {len(sizes) + 1}=` and a number."
                _refuse(self.name, self._at + 1, problem)
            sizes.append(int(match[2]))
            self._at += 1
        if not 2 <= len(sizes) <= MAX_ORDER:
            problem = f"order {len(sizes)}: models of order 2 to {MAX_ORDER} are read."
            _refuse(self.name, self._at, problem)
        return sizes

    def read_section(self, order: int, size: int, *, longest: int) -> _Section:
        """Read the n-grams of one order: all lines up to an empty one."""
        self.expect(f"\\{order}-grams:".encode(), f"the n-grams of order {order}")
        first = self._at
        stop = next(
            (at for at in range(first, len(self._lines)) if not self._lines[at].strip()),
            len(self._lines),
        )
        stop = min(stop, first + size + 1)
        rows = [line.split() for line in self._lines[first:stop]]
        stated = f"the head says {size:,} n-grams of order {order}"
        for number, fields in enumerate(rows, start=first + 1):
            if fields[0][:1] == b"\\" or number == first + size + 1:
                _refuse(self.name, number, f"{stated}, and there are others.")
            if not order < len(fields) <= order + 1 + (order < longest):
                problem = f"a log-probability and {order} words are expected."
                _refuse(self.name, number, problem)
        if len(rows) < size:
            _refuse(self.name, stop, f"{stated}, and there are {len(rows):,}.")
        self._at = stop
        words = [word for fields in rows for word in fields[1 : order + 1]]
        backoffs = [(*fields, b"0")[order + 1] for fields in rows]
        return _Section(
            order=order,
            first_line=first + 1,
            words=pa.array(words, pa.large_binary()),
            log_probability=_parse_numbers(self.name, first, [fields[0] for fields in rows]),
            log_backoff=_parse_numbers(self.name, first, backoffs),
        )

    def expect(self, line: bytes, meaning: str) -> None:
        """Skip empty lines, then this one; refuse the file if another stands there."""
        while self._at < len(self._lines) and not self._lines[self._at].strip():
            self._at += 1
        if self._at == len(self._lines) or self._lines[self._at].strip() != line:
            number = min(self._at, len(self._lines) - 1) + 1
            _refuse(self.name, number, f"expected `{line.decode()}`, {meaning}.")
        self._at += 1

    def expect_no_more(self) -> None:
        """Refuse whatever follows but empty lines: a second model would be lost."""
        for number, line in enumerate(self._lines[self._at :], start=self._at + 1):
            if line.strip():
                _refuse(self.name, number, "something follows the end of the model.")


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _parse_numbers(name: str, first: int, texts: list[bytes]) -> Floats:
    """Return finite numbers, rounded to single precision."""
    values = np.empty(len(texts))
    for at, text in enumerate(texts):
        try:
            values[at] = float(text) if b"_" not in text else math.nan
        except ValueError:
            values[at] = math.nan
        if not math.isfinite(values[at]):
            problem = f"{text[:20].decode(errors='replace')!r} is not a number."
            _refuse(name, first + at + 1, problem)
    with np.errstate(over="ignore"):
        singles = values.astype(np.float32)
    if not np.isfinite(singles).all():
        at = int(np.argmin(np.isfinite(singles)))
        problem = f"{texts[at][:20].decode(errors='replace')!r} is too large a number."
        _refuse(name, first + at + 1, problem)
    return singles.astype(np.float64)


def _refuse(name: str, line: int, problem: str) -> NoReturn:
    raise BayesgramError(f"{name}, line {line}: {problem}")


def _refuse_first(name: str, section: _Section, is_bad: Bools | np.bool_, problem: str) -> None:
    """Refuse the first n-gram that is marked, if one is."""
    if is_bad.any():
        _refuse(name, section.first_line + int(np.argmax(is_bad)), problem)


# --- Checking ---


def _build_checked_trie(name: str, sections: list[_Section]) -> Trie:
    """Build the model of a file's sections, if it is one."""
    distinct = sections[0].words.unique()
    ordered = distinct.take(pc.sort_indices(distinct))
    for mark in (START, END, UNKNOWN):
        if pc.index(ordered, mark.encode()).as_py() < 0:
            problem = f"no {mark} among the words; every model needs it."
            _refuse(name, sections[0].first_line, problem)
    levels = []
    logs = []
    backoffs = []
    lines: list[Integers] = []
    for section in sections:
        rows = _encode_section(name, section, ordered)
        order = np.lexsort(rows.T[::-1])
        is_repeated = np.zeros(len(rows), np.bool_)
        is_repeated[order[1:]] = (rows[order[1:]] == rows[order[:-1]]).all(axis=1)
        _refuse_first(name, section, is_repeated, "this n-gram stands there already.")
        _refuse_first(name, section, section.log_probability > 0, "a log-probability above 0.")
        levels.append(rows[order])
        logs.append(section.log_probability[order])
        backoffs.append(section.log_backoff[order])
        lines.append(section.first_line + order.astype(np.int64))
    _check_links(name, levels, lines)
    trie = build_trie(levels, Words.from_array(ordered), logs, backoffs[:-1])
    _check_sums(name, trie, np.concatenate([[sections[0].first_line - 1], *lines]))
    return trie


def _encode_section(name: str, section: _Section, ordered: pa.LargeBinaryArray) -> Ids:
    """Return the n-grams as word ids; boundaries are allowed only where a sentence has them."""
    ids = pc.fill_null(pc.index_in(section.words, ordered), -1).to_numpy()
    rows: Ids = ids.reshape(-1, section.order).astype(np.int32)
    _refuse_first(
        name,
        section,
        (rows < 0).any(axis=1),
        "a word of this n-gram is not among those of order 1.",
    )
    start = pc.index(ordered, START.encode()).as_py()
    end = pc.index(ordered, END.encode()).as_py()
    is_misplaced = np.hstack([rows[:, 1:] == start, rows[:, :-1] == end]).any(axis=1)
    _refuse_first(
        name,
        section,
        np.asarray(is_misplaced),
        f"{START} stands only at the start of an n-gram, {END} only at its end.",
    )
    return rows


def _check_links(name: str, levels: list[Ids], lines: list[Integers]) -> None:
    """Refuse n-grams whose context or suffix is missing."""
    for order in range(2, len(levels) + 1):
        index = NgramIndex(levels[: order - 1], len(levels[0]))
        rows = levels[order - 1]
        for part, meaning in ((rows[:, :-1], "context"), (rows[:, 1:], "suffix")):
            is_missing = index.find(part) < 0
            if is_missing.any():
                line = int(lines[order - 1][is_missing].min())
                _refuse(name, line, f"the {meaning} of this n-gram is missing.")


def _check_sums(name: str, trie: Trie, lines: Integers) -> None:
    """Refuse the first context whose probabilities don't add up to one."""
    sums = sum_contexts(trie)
    is_bad = ~(np.abs(sums - 1) <= SUM_TOLERANCE)  # also where it is no number
    if is_bad.any():
        context = int(np.flatnonzero(is_bad)[np.argmin(lines[: trie.context_count][is_bad])])
        words = "the words" if context == 0 else "the words after this context"
        problem = f"the probabilities of {words} add up to {sums[context]:.6f}, not to 1."
        _refuse(name, int(lines[context]), problem)
