r"""Cut text into tokens and sentences: the same way for public and private text (docs/text.md).

`Tokenizer` takes strings, or Arrow arrays of valid UTF-8, and gives tokens in sentences, or flat
arrays for the pipeline. It counts nothing and keeps no text. Words, messages, white space,
characters and rows are cut by the kernels of `scanners`.

A token of `rows` is a whole row, and has spaces. So n-grams are never cut at their spaces without
asking the tokenizer: `ngrams.ngram_orders` and `ngrams.ngram_tokens` do.

`WordPieces` cuts by somebody else's rules: a Hugging Face tokenizer.json, through the library
`tokenizers` (an extra). A sentence is a line there. A piece may hold anything, and n-grams are
joined by one space; so white space in a piece, and the backslash itself, are escaped, and the piece
can be had back (`unescape_piece`). Special tokens in a text are text.
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
from bayesgram.errors import Argument, BayesgramError, UsageError, unreadable_error
from bayesgram.text.scanners import (
    LINE_BREAKS,
    TokenArrays,
    allocate_output,
    character_table,
    message_classes,
    message_fold,
    row_classes,
    rows_to_normalise,
    scan_characters,
    scan_messages,
    scan_rows,
    scan_whitespace,
    scan_words,
)

CHUNK_BYTES = 1 << 20  # of text that a thread cuts at once
MAX_ROW_BYTES = 1 << 29  # of one text: the ends of tokens are 32-bit numbers

SCANNERS = {
    TokenizerKind.WORDS: scan_words,
    TokenizerKind.MESSAGES: scan_messages,
    TokenizerKind.WHITESPACE: scan_whitespace,
    TokenizerKind.CHARACTERS: scan_characters,
    TokenizerKind.ROWS: scan_rows,
}
LOWERCASE_KINDS = set(SCANNERS) - {TokenizerKind.WHITESPACE}

_BOUNDARIES_SUFFIX = ", boundaries"  # of a tokenizer's name
_FILE_NAME = re.compile(rf"file sha256:([0-9a-f]{{64}})({_BOUNDARIES_SUFFIX})?")
# A letter that is added to see what a text leaves unfinished. It is in no emoticon.
_PROBE_LETTER = "z"

_thread_outputs = local()  # where each thread writes its tokens: `size` and `arrays`


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
    >>> Tokenizer("rows").sentences(" Weather in\tBerlin?")
    [['weather in berlin']]
    """

    kind: TokenizerKind = TokenizerKind.WORDS
    lowercase: bool | None = None  # None: the kind's default, which is yes except for whitespace
    boundaries: bool = False  # whether n-grams may begin with <s> and end with </s>
    digest: str = ""  # SHA-256 of the tokenizer.json, for the kind FILE
    # The content of the tokenizer.json. A tokenizer that was read from its name has none.
    definition: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        is_file = self.kind == TokenizerKind.FILE
        if self.kind not in set(TokenizerKind) or is_file != bool(self.digest):
            raise UsageError.for_argument(
                "tokenizer",
                repr(self.kind),
                f"choose one of {', '.join(NAMED_TOKENIZERS)}; or {FILE_PREFIX}PATH, a"
                " tokenizer.json.",
            )
        object.__setattr__(self, "kind", TokenizerKind(self.kind))
        if is_file and self.lowercase:
            raise UsageError.for_argument(
                "tokenizer",
                "file",
                "the file itself says whether case matters; leave ",
                Argument("lowercase"),
                " out.",
            )
        if self.kind is TokenizerKind.ROWS and self.boundaries:
            raise UsageError.for_argument(
                "boundaries",
                "true",
                "a row is one token and has no boundaries; leave it out.",
            )
        if self.lowercase is None:
            object.__setattr__(self, "lowercase", self.kind in LOWERCASE_KINDS)

    @classmethod
    def from_file(cls, path: str | Path) -> "Tokenizer":
        """Read a Hugging Face tokenizer.json; needs the package `tokenizers`."""
        definition, digest = read_definition(path)
        return cls(TokenizerKind.FILE, digest=digest, definition=definition)

    @classmethod
    def from_name(cls, name: str) -> "Tokenizer":
        """Return the tokenizer that files call `name`."""
        file = _FILE_NAME.fullmatch(name)
        if file:
            return cls(TokenizerKind.FILE, boundaries=bool(file[2]), digest=file[1])
        kind, _, case = name.removesuffix(_BOUNDARIES_SUFFIX).partition(", ")
        lowercase_by_case = {"": None, "lower case": True, "case kept": False}
        if kind not in set(NAMED_TOKENIZERS) or case not in lowercase_by_case:
            raise UsageError.for_argument(
                "tokenizer",
                repr(name),
                "not known to this bayesgram. Use a newer one, or make the vocabulary again.",
            )
        has_boundaries = name.endswith(_BOUNDARIES_SUFFIX)
        return cls(TokenizerKind(kind), lowercase_by_case[case], has_boundaries)

    @property
    def is_rows(self) -> bool:
        """Whether a token is a whole row, and may have spaces."""
        return self.kind is TokenizerKind.ROWS

    @property
    def words(self) -> "Tokenizer":
        """The tokenizer of the words of a row, in its case; for all others, the tokenizer itself.

        >>> Tokenizer("rows").words.name, Tokenizer("messages").words.name
        ('words', 'messages')
        """
        if not self.is_rows:
            return self
        return Tokenizer(TokenizerKind.WORDS, lowercase=self.lowercase)

    @property
    def name(self) -> str:
        """What files call this tokenizer, such as `words` or `words, case kept, boundaries`."""
        boundaries = _BOUNDARIES_SUFFIX if self.boundaries else ""
        if self.kind is TokenizerKind.FILE:
            return f"{self.kind} sha256:{self.digest}{boundaries}"
        case = ""
        if self.lowercase != (self.kind in LOWERCASE_KINDS):
            case = ", lower case" if self.lowercase else ", case kept"
        return f"{self.kind}{case}{boundaries}"

    def with_definition_of(self, other: "Tokenizer | None") -> "Tokenizer":
        """Return the same tokenizer; with the content of its file, if `other` has that."""
        if other and other.digest == self.digest:
            return replace(self, definition=other.definition)
        return self

    def sentences(self, text: str) -> list[list[str]]:
        """Return the tokens of one text, sentence by sentence."""
        sentences: list[list[str]] = [[]]
        rows = pa.array([text.encode()], pa.large_binary())
        for chunk in chunks(rows) if rows.nbytes > CHUNK_BYTES else [rows]:
            tokens, offsets, _ = self.tokenize(chunk)
            data = tokens[: offsets[-1]].tobytes()
            for start, end in pairwise(offsets.tolist()):
                if end == start:
                    sentences.append([])
                else:
                    sentences[-1].append(data[start:end].decode())
        return sentences[:-1]

    def split_unfinished(self, text: str) -> tuple[list[list[str]], str]:
        """Cut a text that is being typed.

        A letter is added, and the word that it ends up in is the one being typed: but not where
        that would break up an emoticon.

        Returns:
            The sentences, the last one perhaps empty, without the word being typed; and the
            beginning of that word.

        >>> Tokenizer().split_unfinished("It works. Thank yo")
        ([['it', 'works'], ['thank']], 'yo')
        >>> Tokenizer().split_unfinished("Thank ")
        ([['thank']], '')
        >>> Tokenizer("messages").split_unfinished("Thanks :D")
        ([['thanks', ':D']], '')
        >>> Tokenizer("messages").split_unfinished("Don’")
        ([[]], "don'")
        """
        if self.kind is TokenizerKind.FILE:  # only the file knows what a word is
            begins_line = not text or ord(text[-1]) in LINE_BREAKS
            return [*self.sentences(text), *([[]] if begins_line else [])], ""
        if self.kind is TokenizerKind.CHARACTERS:
            return _without_last(self.sentences(text + _PROBE_LETTER)), ""
        with_new_word = self.sentences(f"{text} {_PROBE_LETTER}")
        with_longer_word = self.sentences(text + _PROBE_LETTER)
        prefix = with_longer_word[-1][-1][: -len(_PROBE_LETTER)]
        last_token = "".join(with_new_word[-1][-2:-1])
        if prefix and prefix.startswith(last_token):
            return _without_last(with_longer_word), prefix
        return _without_last(with_new_word), ""

    def split_finished(self, text: str) -> list[list[str]]:
        """Cut a text whose last word is finished; its last sentence is not, and may be empty.

        >>> Tokenizer().split_finished("It works. Thank you")
        [['it', 'works'], ['thank', 'you']]
        >>> Tokenizer().split_finished("It works.")
        [['it', 'works'], []]
        """
        if self.kind in {TokenizerKind.CHARACTERS, TokenizerKind.FILE}:
            return self.split_unfinished(text)[0]
        return _without_last(self.sentences(f"{text} {_PROBE_LETTER}"))

    def normalize_prefix(self, typed: str) -> str:
        """Return the beginning of a word as this tokenizer would leave it; all else is unchanged.

        >>> Tokenizer().normalize_prefix("Don’"), Tokenizer("messages").normalize_prefix(":-")
        ("don'", ':-')
        """
        return (self.split_unfinished(typed)[1] or typed) if typed else ""

    def text_added_by(self, before: Sequence[str], token: str) -> str | None:
        """Return what a text gains by one more token; None where tokens are plain words.

        Args:
            before: The tokens of its last line.
            token: The token that is put after them.
        """
        if self.kind is not TokenizerKind.FILE:
            return None
        return self._word_pieces().text_added_by(before, token)

    def tokenize_chunks(self, texts: pa.LargeBinaryArray) -> Iterator[TokenArrays]:
        """Cut rows of valid UTF-8, a chunk of rows at a time; the rows keep their order."""
        for chunk in chunks(texts):
            data, offsets, row_ends = self.tokenize(chunk)
            yield data.copy(), offsets.copy(), row_ends

    def tokenize(self, texts: pa.LargeBinaryArray) -> TokenArrays:
        """Cut one chunk of rows of valid UTF-8.

        The arrays are valid until this thread cuts again: a thread has one output for them.
        """
        if self.kind is TokenizerKind.FILE:
            return self._word_pieces().tokenize(texts)
        if self.kind is not TokenizerKind.WHITESPACE:
            texts = _normalise(texts)
        data, offsets = buffers(texts)
        classes, fold = _character_arrays(self.kind, lowercase=bool(self.lowercase))
        out, bounds = _thread_output(int(offsets[-1] - offsets[0]))
        return SCANNERS[self.kind](data, offsets, classes, fold, out, bounds)

    def _word_pieces(self) -> "WordPieces":
        if not self.definition:
            raise UsageError(
                f"text is cut by a tokenizer.json here (SHA-256 {self.digest[:12]}…): say ",
                Argument("tokenizer", f"{FILE_PREFIX}PATH"),
                ", or Tokenizer.from_file(path).",
            )
        return word_pieces(self.definition)


def _without_last(sentences: list[list[str]]) -> list[list[str]]:
    """Return the sentences without the last token."""
    return [*sentences[:-1], sentences[-1][:-1]]


def _thread_output(size: int) -> tuple[Bytes, Ids]:
    """Return the arrays of this thread that can hold the tokens of `size` bytes of text."""
    if getattr(_thread_outputs, "size", -1) < size:
        _thread_outputs.size = max(size, CHUNK_BYTES)
        _thread_outputs.arrays = allocate_output(_thread_outputs.size)
    arrays: tuple[Bytes, Ids] = _thread_outputs.arrays
    return arrays


@cache
def _character_arrays(kind: TokenizerKind, *, lowercase: bool) -> tuple[Bytes, Ids]:
    """Return the class of each code point, and what it becomes in a token."""
    table = character_table()
    if kind is TokenizerKind.MESSAGES:
        return message_classes(), message_fold(lowercase=lowercase)
    if kind is TokenizerKind.ROWS:
        return row_classes(), table.lower if lowercase else table.keep
    if lowercase:
        return table.classes, table.lower
    if kind is TokenizerKind.WHITESPACE:
        return table.classes, np.arange(0x110000, dtype=np.int32)
    return table.classes, table.keep


# --- Arrow arrays of text ---


def buffers(array: pa.LargeBinaryArray) -> tuple[Bytes, Integers]:
    """Return the bytes of an Arrow array and the offsets of its rows, without a copy.

    Slices keep their place. Nobody may write to the arrays, whoever made them: so kernels are
    compiled for arrays of one kind.
    """
    _, offsets, data = array.buffers()
    content = np.frombuffer(b"", np.uint8)
    rows = np.array([0], np.int64)
    if len(array):
        content = np.frombuffer(data or b"", np.uint8)
        rows = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    rows.setflags(write=False)
    content.setflags(write=False)
    return content, rows


def chunks(texts: pa.LargeBinaryArray) -> Iterator[pa.LargeBinaryArray]:
    """Yield runs of rows of about CHUNK_BYTES."""
    _, offsets = buffers(texts)
    rows = offsets.size - 1
    start = 0
    while start < rows:
        stop = int(np.searchsorted(offsets, offsets[start] + CHUNK_BYTES, side="right")) - 1
        stop = min(max(stop, start + 1), rows)
        if offsets[stop] - offsets[start] > MAX_ROW_BYTES:
            raise BayesgramError(
                f"a single text of more than {MAX_ROW_BYTES >> 20} MB: split it into several rows"
                " of the same user."
            )
        yield texts[start:stop]
        start = stop


def _normalise(texts: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Return the texts in Unicode NFC, which is applied only to the rows that it may change."""
    may_change = rows_to_normalise(*buffers(texts), character_table().classes)
    if not may_change.any():
        return texts
    mask = pa.array(may_change)
    normalised = pc.utf8_normalize(texts.filter(mask).cast(pa.large_string()), form="NFC")
    return pc.replace_with_mask(texts, mask, normalised.cast(pa.large_binary()))


# --- Word pieces of a tokenizer.json ---

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
EMPTY_PIECE = r"\e"  # a piece of no characters
ESCAPED_MARKS = {"<s>": r"\<s>", "</s>": r"\</s>"}  # pieces that look like sentence boundaries
_UNESCAPES = {escape: plain for plain, escape in ESCAPES.items()} | {EMPTY_PIECE: "", r"\<": "<"}
_TRANSLATION = str.maketrans(ESCAPES)
_LINE_BREAK_RUN = re.compile("[" + "".join(map(chr, sorted(LINE_BREAKS))) + "]+")
_SENTENCE_END = -1  # the number of a piece that ends a sentence


def escape_piece(piece: str) -> str:
    r"""Return a piece as n-grams hold it.

    >>> escape_piece("▁fish"), escape_piece("a b"), escape_piece("\\n"), escape_piece("")
    ('▁fish', 'a\\sb', '\\\\n', '\\e')
    """
    return ESCAPED_MARKS.get(piece) or piece.translate(_TRANSLATION) or EMPTY_PIECE


def unescape_piece(token: str) -> str:
    r"""Return the piece that `escape_piece` was given.

    >>> unescape_piece(escape_piece("a b\\s"))
    'a b\\s'
    """
    return re.sub(r"\\.", lambda match: _UNESCAPES[match[0]], token)


def read_definition(path: str | Path) -> tuple[str, str]:
    """Return the content of a tokenizer.json, and its SHA-256.

    Raises:
        UsageError: If there is no such file, or the library `tokenizers` can't use it.
    """
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        raise UsageError.for_argument(
            "tokenizer", f"file:{path}", "no such file; give the path of a tokenizer.json."
        ) from None
    except OSError as error:
        raise unreadable_error(path, error) from None
    try:
        definition = content.decode()
        WordPieces(definition)
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
def word_pieces(definition: str) -> "WordPieces":
    """Return the tokenizer of a file's content, made once."""
    return WordPieces(definition)


class WordPieces:
    """A tokenizer of the library `tokenizers`, and its pieces as bytes."""

    def __init__(self, definition: str) -> None:
        self._tokenizer = _import_tokenizers().Tokenizer.from_str(definition)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True
        numbers = self._tokenizer.get_vocab(with_added_tokens=True)
        if not numbers:
            raise UsageError("the tokenizer file has no pieces; give one that was trained.")
        pieces = [b""] * (max(numbers.values()) + 1)
        for piece, number in numbers.items():
            pieces[number] = escape_piece(piece).encode()
        self._data: Bytes = np.frombuffer(b"".join(pieces), np.uint8)
        # The last length is that of _SENTENCE_END.
        self._lengths: Integers = np.array([*map(len, pieces), 0], np.int64)
        self._starts: Integers = np.cumsum(self._lengths) - self._lengths

    def tokenize(self, texts: pa.LargeBinaryArray) -> TokenArrays:
        """Cut rows into pieces, and give them as the kernels of `scanners` give tokens."""
        rows = [
            [line for line in _LINE_BREAK_RUN.split(text.decode()) if line]
            for text in texts.to_pylist()
        ]
        lines = self._encode_lines(list(chain.from_iterable(rows)))
        line_sizes = np.array([len(line) + (len(line) > 0) for line in lines], np.int64)
        line_ends = np.cumsum([0, *line_sizes])
        numbers = np.fromiter(
            chain.from_iterable(chain(line, (_SENTENCE_END,)) for line in lines if line),
            np.int64,
            int(line_ends[-1]),
        )
        lengths = self._lengths[numbers]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(offsets[-1]) + np.repeat(self._starts[numbers] - offsets[:-1], lengths)
        row_ends = line_ends[np.cumsum([len(row) for row in rows], dtype=np.int64)]
        data: Bytes = self._data[places]
        bounds: Ids = offsets.astype(np.int32)
        return data, bounds, row_ends

    def text_added_by(self, before: Sequence[str], piece: str) -> str:
        """Return what a line of pieces gains by one more, as text.

        White space and marks of words are as the file has them.
        """
        line = self._decode(before)
        longer_line = self._decode([*before, piece])
        if longer_line.startswith(line):
            return longer_line.removeprefix(line)
        return unescape_piece(piece)

    def _decode(self, tokens: Sequence[str]) -> str:
        pieces = [unescape_piece(token) for token in tokens]
        decoder = self._tokenizer.decoder
        return " ".join(pieces) if decoder is None else str(decoder.decode(pieces))

    def _encode_lines(self, lines: list[str]) -> list[list[int]]:
        """Return the numbers of the pieces of each line."""
        try:
            encodings = self._tokenizer.encode_batch_fast(lines, add_special_tokens=False)
            return [encoding.ids for encoding in encodings]
        except Exception:  # noqa: BLE001 - the library raises nothing narrower
            raise BayesgramError(
                "the tokenizer file can't cut this text: perhaps it has no piece for what it"
                " doesn't know (unk_token)."
            ) from None


def _import_tokenizers() -> Any:  # noqa: ANN401 - a module
    try:
        import tokenizers  # noqa: PLC0415 - an extra
    except ImportError:
        raise UsageError.for_argument(
            "tokenizer",
            "file",
            "the package tokenizers is not installed; pip install 'bayesgram[tokenizers]'.",
        ) from None
    return tokenizers
