"""Word pieces by somebody else's rules: a Hugging Face tokenizer.json, through the library `tokenizers` (an extra).

In:  the content of the file, and rows of valid UTF-8.   Out: pieces, as `scan` gives tokens; a sentence is a line.
A piece may hold anything, and n-grams are joined by one space: so white space in a piece, and the backslash itself, are
escaped, and the piece can be had back (`unescaped`). Special tokens in a text are text. Does not keep text.

Tokens of text: the same cut for public and private text.

In:  strings, or Arrow arrays of valid UTF-8.   Out: tokens in sentences; or, for the pipeline, flat arrays.
Rules: docs/text.md. Does not count, and keeps no text.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from itertools import chain, pairwise
from pathlib import Path
from threading import local
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arrays import Bytes, Ids, Integers
from bayesgram.choices import FILE_PREFIX, NAMED_TOKENIZERS, TokenizerKind
from bayesgram.errors import Argument, BayesgramError, UsageError, unreadable
from bayesgram.text.scanners import (
    LINE_BREAKS,
    Scanned,
    character_table,
    message_classes,
    message_fold,
    room_for,
    rows_to_normalise,
    scan_characters,
    scan_messages,
    scan_whitespace,
    scan_words,
)

ESCAPES = {
    "\\": r"\\",
    " ": r"\s",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    "\f": r"\f",
    "\0": r"\0",
}
EMPTY = r"\e"  # a piece of no characters
MARKS = {"<s>": r"\<s>", "</s>": r"\</s>"}  # pieces that look like the boundaries of sentences
_BACK = {escaped: plain for plain, escaped in ESCAPES.items()} | {EMPTY: "", r"\<": "<"}
_TRANSLATION = str.maketrans(ESCAPES)
_LINES = re.compile("[" + "".join(map(chr, sorted(LINE_BREAKS))) + "]+")


def escaped(piece: str) -> str:
    r"""A piece as n-grams hold it.

    >>> escaped("▁fish"), escaped("a b"), escaped("\\n"), escaped("")
    ('▁fish', 'a\\sb', '\\\\n', '\\e')
    """
    return MARKS.get(piece) or piece.translate(_TRANSLATION) or EMPTY


def unescaped(token: str) -> str:
    r"""The piece again.

    >>> unescaped(escaped("a b\\s"))
    'a b\\s'
    """
    return re.sub(r"\\.", lambda found: _BACK[found[0]], token)


def read_definition(path: str | Path) -> tuple[str, str]:
    """The content of a tokenizer.json, and its SHA-256; one that can't be used is refused."""
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        raise UsageError.for_argument(
            "tokenizer", f"file:{path}", "no such file; give the path of a tokenizer.json."
        ) from None
    except OSError as error:
        raise unreadable(path, error) from None
    try:
        definition = content.decode()
        Pieces(definition)
    except UsageError:
        raise
    except Exception:  # noqa: BLE001 - the library raises nothing narrower
        raise UsageError.for_argument(
            "tokenizer",
            f"file:{path}",
            "not a tokenizer.json that the library tokenizers reads; save it again with "
            "`tokenizer.save(path)`, or update the library.",
        ) from None
    return definition, hashlib.sha256(content).hexdigest()


@lru_cache(maxsize=4)
def pieces_of(definition: str) -> "Pieces":
    """The tokenizer of a file's content, made once."""
    return Pieces(definition)


class Pieces:
    """A tokenizer of the library, and its pieces as bytes."""

    def __init__(self, definition: str) -> None:
        self._tokenizer = _library().Tokenizer.from_str(definition)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True
        names = self._tokenizer.get_vocab(with_added_tokens=True)
        if not names:
            raise UsageError("the tokenizer file has no pieces; give one that was trained.")
        tokens = [b""] * (max(names.values()) + 1)
        for name, number in names.items():
            tokens[number] = escaped(name).encode()
        self._data: Bytes = np.frombuffer(b"".join(tokens), np.uint8)
        self._lengths: Integers = np.array(
            [*map(len, tokens), 0], np.int64
        )  # the last one: where a sentence ends
        self._starts: Integers = np.cumsum(self._lengths) - self._lengths

    def cut(self, texts: pa.LargeBinaryArray) -> Scanned:
        """The pieces of rows, as `scan` gives tokens."""
        rows = [
            [line for line in _LINES.split(text.decode()) if line] for text in texts.to_pylist()
        ]
        found = self._encoded(list(chain.from_iterable(rows)))
        counts = np.array([len(each) + (len(each) > 0) for each in found], np.int64)
        ends = np.cumsum([0, *counts])
        numbers = np.fromiter(
            chain.from_iterable(chain(each, (-1,)) for each in found if each),
            np.int64,
            int(ends[-1]),
        )
        lengths = self._lengths[numbers]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(offsets[-1]) + np.repeat(self._starts[numbers] - offsets[:-1], lengths)
        row_ends = ends[np.cumsum([len(row) for row in rows], dtype=np.int64)]
        data: Bytes = self._data[places]
        bounds: Ids = offsets.astype(np.int32)
        return data, bounds, row_ends

    def added(self, before: Sequence[str], piece: str) -> str:
        """What a line of pieces gains by one more, as text: white space and marks of words as the file has them."""
        line, longer = (self._text(tokens) for tokens in (before, [*before, piece]))
        return longer.removeprefix(line) if longer.startswith(line) else unescaped(piece)

    def _text(self, tokens: Sequence[str]) -> str:
        pieces, decoder = [unescaped(token) for token in tokens], self._tokenizer.decoder
        return " ".join(pieces) if decoder is None else str(decoder.decode(pieces))

    def _encoded(self, lines: list[str]) -> list[list[int]]:
        try:
            return [
                each.ids
                for each in self._tokenizer.encode_batch_fast(lines, add_special_tokens=False)
            ]
        except Exception:  # noqa: BLE001 - the library raises nothing narrower
            raise BayesgramError(
                "the tokenizer file can't cut this text: perhaps it has no piece for what it doesn't know (unk_token)."
            ) from None


def _library() -> Any:  # noqa: ANN401 - a module
    try:
        import tokenizers  # noqa: PLC0415 - an extra
    except ImportError:
        raise UsageError.for_argument(
            "tokenizer",
            "file",
            "the package tokenizers is not installed; pip install 'bayesgram[tokenizers]'.",
        ) from None
    return tokenizers


CHUNK_BYTES = 1 << 18  # tokens of one chunk stay in the processor's cache
MAX_ROW_BYTES = 1 << 29  # token ends are 32-bit
BOUNDARIES = ", boundaries"
_FILE_NAME = re.compile(rf"file sha256:([0-9a-f]{{64}})({BOUNDARIES})?")
_LETTER = "z"  # that is added to see what a text leaves unfinished: in no emoticon
_ROOMS = local()

SCANNERS = {
    TokenizerKind.WORDS: scan_words,
    TokenizerKind.MESSAGES: scan_messages,
    TokenizerKind.WHITESPACE: scan_whitespace,
    TokenizerKind.CHARACTERS: scan_characters,
}


@dataclass(frozen=True)
class Tokenizer:
    r"""A way to cut text. Two texts cut by equal tokenizers are comparable.

    >>> Tokenizer().sentences("Don't stop! The café's open, O'Hara.")
    [["don't", 'stop'], ['the', "café's", 'open', "o'hara"]]
    >>> Tokenizer("messages").sentences("So cute :-))) 👍🏽❤️ Love it!")
    [['so', 'cute', ':-)', '👍🏽', '❤', 'love', 'it']]
    >>> Tokenizer("whitespace").sentences("ACG TTA\nGGC")
    [['ACG', 'TTA'], ['GGC']]
    >>> Tokenizer("characters").sentences("Hi you")
    [['h', 'i', '▁', 'y', 'o', 'u']]
    """

    kind: TokenizerKind = TokenizerKind.WORDS
    lowercase: bool | None = None  # None: as usual for the kind, that is yes but for whitespace
    boundaries: bool = False  # n-grams may begin with <s> and end with </s>
    digest: str = ""  # SHA-256 of the file, where a file says how
    definition: str = field(
        default="", compare=False, repr=False
    )  # its content; a name alone doesn't bring it

    def __post_init__(self) -> None:
        if self.kind not in set(TokenizerKind) or (self.kind == TokenizerKind.FILE) != bool(
            self.digest
        ):
            raise UsageError.for_argument(
                "tokenizer",
                repr(self.kind),
                f"choose one of {', '.join(NAMED_TOKENIZERS)}; or {FILE_PREFIX}PATH, a tokenizer.json.",
            )
        object.__setattr__(self, "kind", TokenizerKind(self.kind))
        if self.kind is TokenizerKind.FILE and self.lowercase:
            raise UsageError.for_argument(
                "tokenizer",
                "file",
                "the file itself says whether case matters; leave ",
                Argument("lowercase"),
                " out.",
            )
        if self.lowercase is None:
            object.__setattr__(
                self,
                "lowercase",
                self.kind
                in {TokenizerKind.WORDS, TokenizerKind.MESSAGES, TokenizerKind.CHARACTERS},
            )

    @classmethod
    def from_file(cls, path: str | Path) -> "Tokenizer":
        """A Hugging Face tokenizer.json; needs the package `tokenizers`."""
        definition, digest = read_definition(path)
        return cls(TokenizerKind.FILE, digest=digest, definition=definition)

    @property
    def name(self) -> str:
        """What files call this tokenizer, for example `words` or `words, case kept, boundaries`."""
        if self.kind is TokenizerKind.FILE:
            return f"{self.kind} sha256:{self.digest}" + (BOUNDARIES if self.boundaries else "")
        usual = Tokenizer(self.kind).lowercase
        case = (
            "" if self.lowercase == usual else ", lower case" if self.lowercase else ", case kept"
        )
        return self.kind + case + (BOUNDARIES if self.boundaries else "")

    @classmethod
    def from_name(cls, name: str) -> "Tokenizer":
        """The inverse of `name`."""
        file = _FILE_NAME.fullmatch(name)
        if file:
            return cls(TokenizerKind.FILE, boundaries=bool(file[2]), digest=file[1])
        kind, _, case = name.removesuffix(BOUNDARIES).partition(", ")
        cases = {"": None, "lower case": True, "case kept": False}
        if kind not in set(NAMED_TOKENIZERS) or case not in cases:
            raise UsageError.for_argument(
                "tokenizer",
                repr(name),
                "not known to this bayesgram. Use a newer one, or make the vocabulary again.",
            )
        return cls(kind, cases[case], name.endswith(BOUNDARIES))  # type: ignore[arg-type]

    def sentences(self, text: str) -> list[list[str]]:
        """The tokens of one text, sentence by sentence."""
        found: list[list[str]] = [[]]
        rows = pa.array([text.encode()], pa.large_binary())
        for chunk in chunks(rows) if rows.nbytes > CHUNK_BYTES else [rows]:
            tokens, offsets, _ = self.cut(chunk)
            data = tokens[: offsets[-1]].tobytes()
            for start, end in pairwise(offsets.tolist()):
                if end == start:
                    found.append([])
                else:
                    found[-1].append(data[start:end].decode())
        return found[:-1]

    def unfinished(self, text: str) -> tuple[list[list[str]], str]:
        """The sentences of a text that goes on, the last one perhaps empty; and the beginning of the word being typed.

        A letter is added, and the word that it ends up in is the one being typed: but not where that would break up an
        emoticon.

        >>> Tokenizer().unfinished("It works. Thank yo"), Tokenizer().unfinished("Thank ")
        (([['it', 'works'], ['thank']], 'yo'), ([['thank']], ''))
        >>> Tokenizer("messages").unfinished("Thanks :D"), Tokenizer("messages").unfinished("Don’")
        (([['thanks', ':D']], ''), ([[]], "don'"))
        """
        if self.kind is TokenizerKind.FILE:  # what is a word, only the file knows
            return [
                *self.sentences(text),
                *([[]] if not text or ord(text[-1]) in LINE_BREAKS else []),
            ], ""
        if self.kind is TokenizerKind.CHARACTERS:
            return _without_last(self.sentences(text + _LETTER)), ""
        finished, going_on = self.sentences(f"{text} {_LETTER}"), self.sentences(text + _LETTER)
        begun = going_on[-1][-1][: -len(_LETTER)]
        if begun and begun.startswith("".join(finished[-1][-2:-1])):
            return _without_last(going_on), begun
        return _without_last(finished), ""

    def finished(self, text: str) -> list[list[str]]:
        """The sentences of a text whose last word is finished; the last sentence is not, and may be empty.

        >>> Tokenizer().finished("It works. Thank you"), Tokenizer().finished("It works.")
        ([['it', 'works'], ['thank', 'you']], [['it', 'works'], []])
        """
        if self.kind in {TokenizerKind.CHARACTERS, TokenizerKind.FILE}:
            return self.unfinished(text)[0]
        return _without_last(self.sentences(f"{text} {_LETTER}"))

    def begun(self, typed: str) -> str:
        """The beginning of a word as this tokenizer would leave it; what is none stays as it is.

        >>> Tokenizer().begun("Don’"), Tokenizer("messages").begun(":-")
        ("don'", ':-')
        """
        return (self.unfinished(typed)[1] or typed) if typed else ""

    def added(self, before: Sequence[str], token: str) -> str | None:
        """What a text gains by a token that is put after those of its line; None where tokens are plain words."""
        return self._pieces().added(before, token) if self.kind is TokenizerKind.FILE else None

    def _pieces(self) -> Pieces:
        if not self.definition:
            raise UsageError(
                f"text is cut by a tokenizer.json here (SHA-256 {self.digest[:12]}…): say ",
                Argument("tokenizer", str(FILE_PREFIX)),
                "PATH, or Tokenizer.from_file(path).",
            )
        return pieces_of(self.definition)

    def known_by(self, given: "Tokenizer | None") -> "Tokenizer":
        """The same one; with the content of its file, if the other has it."""
        return (
            replace(self, definition=given.definition)
            if given and given.digest == self.digest
            else self
        )

    def scan(self, texts: pa.LargeBinaryArray) -> Iterator[Scanned]:
        """Cut rows of valid UTF-8, a chunk of rows at a time; the rows keep their order."""
        for chunk in chunks(texts):
            data, offsets, row_ends = self.cut(chunk)
            yield data.copy(), offsets.copy(), row_ends

    def cut(self, texts: pa.LargeBinaryArray) -> Scanned:
        """The tokens of one chunk of rows, to be used before this thread cuts again: a thread has one room for them."""
        if self.kind is TokenizerKind.FILE:
            return self._pieces().cut(texts)
        if self.kind is not TokenizerKind.WHITESPACE:
            texts = _normalised(texts)
        data, offsets = buffers(texts)
        classes, fold = _tables(self.kind, lowercase=bool(self.lowercase))
        return SCANNERS[self.kind](
            data, offsets, classes, fold, *_room(int(offsets[-1] - offsets[0]))
        )


def _without_last(sentences: list[list[str]]) -> list[list[str]]:
    return [*sentences[:-1], sentences[-1][:-1]]


def _room(size: int) -> tuple[Bytes, Ids]:
    """The room of this thread, made larger if it is too small."""
    if getattr(_ROOMS, "size", -1) < size:
        _ROOMS.size = max(size, CHUNK_BYTES)
        _ROOMS.room = room_for(_ROOMS.size)
    room: tuple[Bytes, Ids] = _ROOMS.room
    return room


@cache
def _tables(kind: TokenizerKind, *, lowercase: bool) -> tuple[Bytes, Ids]:
    """The class of each code point, and what it becomes in a token."""
    table = character_table()
    if kind is TokenizerKind.MESSAGES:
        return message_classes(), message_fold(lowercase=lowercase)
    if lowercase:
        return table.classes, table.lower
    return table.classes, np.arange(
        0x110000, dtype=np.int32
    ) if kind is TokenizerKind.WHITESPACE else table.keep


def buffers(array: pa.LargeBinaryArray) -> tuple[Bytes, Integers]:
    """The bytes of an Arrow array and the offsets of its rows, without a copy; slices keep their place.

    Nobody may write to them, whoever made them: so kernels are compiled for arrays of one kind.
    """
    _, offsets, data = array.buffers()
    content, rows = np.frombuffer(b"", np.uint8), np.array([0], np.int64)
    if len(array):
        content = np.frombuffer(data or b"", np.uint8)
        rows = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    rows.setflags(write=False)
    content.setflags(write=False)
    return content, rows


def _normalised(texts: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Unicode NFC, applied only to the rows that it may change."""
    found = rows_to_normalise(*buffers(texts), character_table().classes)
    if not found.any():
        return texts
    rows = pa.array(found)
    changed = pc.utf8_normalize(texts.filter(rows).cast(pa.large_string()), form="NFC").cast(
        pa.large_binary()
    )
    return pc.replace_with_mask(texts, rows, changed)


def chunks(texts: pa.LargeBinaryArray) -> Iterator[pa.LargeBinaryArray]:
    """Runs of rows of about CHUNK_BYTES."""
    _, offsets = buffers(texts)
    rows = offsets.size - 1
    start = 0
    while start < rows:
        stop = int(np.searchsorted(offsets, offsets[start] + CHUNK_BYTES, side="right")) - 1
        stop = min(max(stop, start + 1), rows)
        if offsets[stop] - offsets[start] > MAX_ROW_BYTES:
            raise BayesgramError(
                f"a single text of more than {MAX_ROW_BYTES >> 20} MB: split it into several rows of the same user."
            )
        yield texts[start:stop]
        start = stop
