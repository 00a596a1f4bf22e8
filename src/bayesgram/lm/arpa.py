"""Language models as ARPA files, which KenLM, SRILM and most recognisers read; `.gz` is compressed.

Written so that reading gives the same model bit for bit. Read strictly: KenLM refuses n-grams whose context or suffix
is missing, positive log-probabilities and files without <s> and </s>, but takes repeated n-grams and contexts that
don't add up to one without a word. Here all of them are refused, with the line. Words are separated by ASCII white
space alone, as in KenLM, so any other character may be part of one. ARPA has no place for a tokenizer or a claim.
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
from bayesgram.lm.estimate import words_of
from bayesgram.lm.language_model import LanguageModel
from bayesgram.lm.trie import TOLERANCE, UNKNOWN, Index, Trie, connect, context_sums
from bayesgram.text.ngrams import END, MAX_ORDER, START
from bayesgram.text.tokenizer import Tokenizer

_COUNT = re.compile(rb"ngram[ \t]+(\d{1,2})[ \t]*=[ \t]*(\d{1,12})[ \t]*\r?")


def write_arpa(model: LanguageModel, path: str | Path, *, force: bool = False) -> None:
    """Write a model as ARPA; a name that ends with .gz is compressed."""
    trie = model.trie
    words = pa.array(trie.words.all(), pa.large_binary())
    with write_file_atomically(path, force=force) as aside, _opened(aside, "wb") as file:
        counts = "".join(
            f"ngram {order}={size}\n" for order, size in enumerate(model.sizes, start=1)
        )
        file.write(f"\\data\\\n{counts}".encode())
        for order in range(1, model.order + 1):
            file.write(f"\n\\{order}-grams:\n".encode())
            file.write(_section(trie, words, order))
        file.write(b"\n\\end\\\n")


def _section(trie: Trie, words: pa.LargeBinaryArray, order: int) -> memoryview:
    """The lines of one order: log10 p, the words, and log10 of the back-off weight."""
    nodes = trie.nodes(order)
    joined = [words.take(pa.array(column)) for column in trie.rows(order).T]
    ngrams = pc.binary_join_element_wise(*joined, pa.scalar(b" ", pa.large_binary()))
    columns = [_digits(trie.log_probability[nodes]), pa.scalar(b"\t", pa.large_binary()), ngrams]
    if order < trie.order:
        columns += [pa.scalar(b"\t", pa.large_binary()), _digits(trie.log_backoff[nodes])]
    empty = pa.scalar(b"", pa.large_binary())
    lines = pc.binary_join_element_wise(*columns, pa.scalar(b"\n", pa.large_binary()), empty)
    return memoryview(lines.buffers()[2] or b"")[: pc.sum(pc.binary_length(lines)).as_py() or 0]


def _digits(numbers: Singles) -> pa.LargeBinaryArray:
    """As many digits as single precision needs, and no more."""
    return pa.array(numbers).cast(pa.large_string()).cast(pa.large_binary())


@contextmanager
def _opened(path: Path, mode: str) -> Iterator[IO[bytes]]:
    """The file, through gzip if its name says so; without a time stamp, so that equal models give equal files."""
    with path.open(mode) as plain:
        if path.suffix.lower() != ".gz":
            yield cast("IO[bytes]", plain)
            return
        with gzip.GzipFile(
            filename="", mode=mode, fileobj=cast("IO[bytes]", plain), mtime=0
        ) as packed:
            yield cast("IO[bytes]", packed)


def read_arpa(path: str | Path, *, tokenizer: Tokenizer = Tokenizer()) -> LanguageModel:  # noqa: B008 - frozen
    """Read and check an ARPA file; the tokenizer is how texts are cut for it."""
    source = _Lines(str(path), _content(Path(path)))
    sizes = source.header()
    sections = [
        source.section(order, size, len(sizes)) for order, size in enumerate(sizes, start=1)
    ]
    source.expect(b"\\end\\", "the end of the model")
    source.expect_no_more()
    return LanguageModel(
        _checked(source.name, sections), tokenizer, {"imported_from": Path(path).name}
    )


def _content(path: Path) -> bytes:
    try:
        with _opened(path, "rb") as file:
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
    words: pa.LargeBinaryArray  # one after the other
    log_probability: Floats
    log_backoff: Floats


class _Lines:
    """The lines of a file, read one section after the other."""

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
                refuse(name, number, "not UTF-8; convert the file first.")

    def header(self) -> list[int]:
        """How many n-grams of each order the file says it holds."""
        self.expect(b"\\data\\", "the head of an ARPA file")
        sizes: list[int] = []
        while self._at < len(self._lines) and self._lines[self._at].strip():
            found = _COUNT.fullmatch(self._lines[self._at])
            if not found or int(found[1]) != len(sizes) + 1:
                refuse(self.name, self._at + 1, f"expected `ngram {len(sizes) + 1}=` and a number.")
            sizes.append(int(found[2]))
            self._at += 1
        if not 2 <= len(sizes) <= MAX_ORDER:
            refuse(
                self.name,
                self._at,
                f"order {len(sizes)}: models of order 2 to {MAX_ORDER} are read.",
            )
        return sizes

    def expect(self, wanted: bytes, meaning: str) -> None:
        """Skip empty lines, then this one."""
        while self._at < len(self._lines) and not self._lines[self._at].strip():
            self._at += 1
        if self._at == len(self._lines) or self._lines[self._at].strip() != wanted:
            refuse(
                self.name,
                min(self._at, len(self._lines) - 1) + 1,
                f"expected `{wanted.decode()}`, {meaning}.",
            )
        self._at += 1

    def expect_no_more(self) -> None:
        """Refuse whatever follows but empty lines: a second model would be lost."""
        for number, line in enumerate(self._lines[self._at :], start=self._at + 1):
            if line.strip():
                refuse(self.name, number, "something follows the end of the model.")

    def section(self, order: int, size: int, highest: int) -> _Section:
        """The n-grams of one order: all lines up to an empty one."""
        self.expect(f"\\{order}-grams:".encode(), f"the n-grams of order {order}")
        first = self._at
        stop = next(
            (at for at in range(first, len(self._lines)) if not self._lines[at].strip()),
            len(self._lines),
        )
        stop = min(stop, first + size + 1)
        fields = [line.split() for line in self._lines[first:stop]]
        for number, found in enumerate(fields, start=first + 1):
            if found[0][:1] == b"\\" or number == first + size + 1:
                refuse(
                    self.name,
                    number,
                    f"the head says {size:,} n-grams of order {order}, and there are others.",
                )
            if not order < len(found) <= order + 1 + (order < highest):
                refuse(self.name, number, f"a log-probability and {order} words are expected.")
        if len(fields) < size:
            refuse(
                self.name,
                stop,
                f"the head says {size:,} n-grams of order {order}, and there are {len(fields):,}.",
            )
        self._at = stop
        words = pa.array(
            [word for found in fields for word in found[1 : order + 1]], pa.large_binary()
        )
        logs = _numbers(self.name, first, [found[0] for found in fields])
        return _Section(
            order,
            first + 1,
            words,
            logs,
            _numbers(self.name, first, [(*found, b"0")[order + 1] for found in fields]),
        )


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _numbers(name: str, first: int, texts: list[bytes]) -> Floats:
    """Finite numbers as single precision keeps them."""
    values = np.empty(len(texts))
    for at, text in enumerate(texts):
        try:
            values[at] = float(text) if b"_" not in text else math.nan
        except ValueError:
            values[at] = math.nan
        if not math.isfinite(values[at]):
            refuse(name, first + at + 1, f"{text[:20].decode(errors='replace')!r} is not a number.")
    with np.errstate(over="ignore"):
        singles = values.astype(np.float32)
    if not np.isfinite(singles).all():
        at = int(np.argmin(np.isfinite(singles)))
        refuse(
            name,
            first + at + 1,
            f"{texts[at][:20].decode(errors='replace')!r} is too large a number.",
        )
    return singles.astype(np.float64)


def refuse(name: str, line: int, problem: str) -> NoReturn:
    """Say where a file is wrong."""
    raise BayesgramError(f"{name}, line {line}: {problem}")


def _refuse_first(name: str, section: _Section, bad: Bools | np.bool_, problem: str) -> None:
    """Refuse the first n-gram that is marked, if one is."""
    if bad.any():
        refuse(name, section.first_line + int(np.argmax(bad)), problem)


def _checked(name: str, sections: list[_Section]) -> Trie:
    """The model of a file's sections, if it is one."""
    distinct = sections[0].words.unique()
    ordered = distinct.take(pc.sort_indices(distinct))
    for mark in (START, END, UNKNOWN):
        if pc.index(ordered, mark.encode()).as_py() < 0:
            refuse(
                name, sections[0].first_line, f"no {mark} among the words; every model needs it."
            )
    levels, logs, backoffs = [], [], []
    places: list[Integers] = []
    for section in sections:
        rows = _rows(name, section, ordered)
        order = np.lexsort(rows.T[::-1])
        repeated = np.zeros(len(rows), np.bool_)
        repeated[order[1:]] = (rows[order[1:]] == rows[order[:-1]]).all(axis=1)
        _refuse_first(name, section, repeated, "this n-gram stands there already.")
        _refuse_first(name, section, section.log_probability > 0, "a log-probability above 0.")
        levels.append(rows[order])
        logs.append(section.log_probability[order])
        backoffs.append(section.log_backoff[order])
        places.append(section.first_line + order.astype(np.int64))
    _check_links(name, levels, places)
    words = words_of(ordered)
    trie = connect(levels, words, logs, backoffs[:-1])
    _check_sums(name, trie, np.concatenate([[sections[0].first_line - 1], *places]))
    return trie


def _rows(name: str, section: _Section, ordered: pa.LargeBinaryArray) -> Ids:
    """The n-grams as word numbers; boundaries only where a sentence has them."""
    found = pc.index_in(section.words, ordered)
    rows: Ids = pc.fill_null(found, -1).to_numpy().reshape(-1, section.order).astype(np.int32)
    _refuse_first(
        name,
        section,
        (rows < 0).any(axis=1),
        "a word of this n-gram is not among those of order 1.",
    )
    start, end = (pc.index(ordered, mark.encode()).as_py() for mark in (START, END))
    inside = np.hstack([rows[:, 1:] == start, rows[:, :-1] == end]).any(axis=1)
    _refuse_first(
        name,
        section,
        np.asarray(inside),
        f"{START} stands only at the start of an n-gram, {END} only at its end.",
    )
    return rows


def _check_links(name: str, levels: list[Ids], places: list[Integers]) -> None:
    """Every n-gram's context and suffix are n-grams too."""
    for order in range(2, len(levels) + 1):
        index = Index(levels[: order - 1], len(levels[0]))
        rows = levels[order - 1]
        for part, meaning in ((rows[:, :-1], "context"), (rows[:, 1:], "suffix")):
            missing = index.find(part) < 0
            if missing.any():
                refuse(
                    name,
                    int(places[order - 1][missing].min()),
                    f"the {meaning} of this n-gram is missing.",
                )


def _check_sums(name: str, trie: Trie, lines: Integers) -> None:
    """Every context adds up to one; the first that doesn't is refused."""
    sums = context_sums(trie)
    bad = ~(np.abs(sums - 1) <= TOLERANCE)  # also where it is no number
    if bad.any():
        at = int(np.flatnonzero(bad)[np.argmin(lines[: trie.contexts][bad])])
        what = "the words" if at == 0 else "the words after this context"
        refuse(
            name, int(lines[at]), f"the probabilities of {what} add up to {sums[at]:.6f}, not to 1."
        )
