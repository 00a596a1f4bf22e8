"""The names of the tokenizers, on their own: the command line needs them before anything heavy is loaded."""

from enum import StrEnum


class TokenizerKind(StrEnum):
    """How text is cut."""

    WORDS = "words"
    MESSAGES = "messages"
    WHITESPACE = "whitespace"
    CHARACTERS = "characters"
