"""The names of the tokenizers, on their own: the command line needs them before anything heavy is loaded."""

from enum import StrEnum


class TokenizerKind(StrEnum):
    """How text is cut."""

    WORDS = "words"
    MESSAGES = "messages"
    WHITESPACE = "whitespace"
    CHARACTERS = "characters"
    FILE = "file"  # a tokenizer.json, named by its hash


NAMED = tuple(kind for kind in TokenizerKind if kind is not TokenizerKind.FILE)
FILE_PREFIX = "file:"
