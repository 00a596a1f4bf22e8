"""The values that a person chooses from by name: tokenizers, mechanisms, attacks, engines.

They stand in a module of their own, which imports nothing heavy: the command line lists them in
its help and checks them before it loads NumPy, Arrow or Numba. What a value means is defined where
it is used.
"""

from enum import StrEnum


class TokenizerKind(StrEnum):
    """How text is cut into tokens (docs/text.md)."""

    WORDS = "words"
    MESSAGES = "messages"  # words, emoji and emoticons
    WHITESPACE = "whitespace"
    CHARACTERS = "characters"
    ROWS = "rows"  # a query, a prompt or a short answer is one token, with its spaces
    FILE = "file"  # a Hugging Face tokenizer.json, known by the hash of its content


# The kinds that are chosen by their name alone; a file is chosen as FILE_PREFIX and its path.
NAMED_TOKENIZERS = tuple(kind for kind in TokenizerKind if kind is not TokenizerKind.FILE)
FILE_PREFIX = "file:"


class MechanismName(StrEnum):
    """The mechanisms that make a release."""

    POSTERIOR = "posterior"
    PAPER = "paper"
    LAPLACE = "laplace"
    LAPLACE_PUBLIC = "laplace-public"
    GAUSSIAN = "gaussian"
    K_ANONYMITY = "k-anonymity"


class Sensitivity(StrEnum):
    """How the paper's γ is computed."""

    EXACT = "exact"  # by leaving out each user
    BOUND = "bound"  # by Claim 1


class ScoreSensitivity(StrEnum):
    """Which bound on |Δq| sets the noise of Algorithm 2's scores (errata E8, E14)."""

    PUBLISHED = "published"  # Claim 3's
    CORRECTED = "corrected"  # the true one


class Suppressed(StrEnum):
    """Where the mass of n-grams goes that k-anonymity suppresses; the paper doesn't say."""

    ADD_ONE = "add-one"
    PUBLIC = "public"


class Attack(StrEnum):
    """The attacks that an audit can run on a mechanism."""

    LIKELIHOOD_RATIO = "likelihood-ratio"
    SCALE = "scale"
    MEMBERSHIP = "membership"
    BLACK_BOX = "black-box"
    ONE_RUN = "one-run"
    EXPOSURE = "exposure"
    LEAKS = "leaks"


class EngineName(StrEnum):
    """Where the counting runs."""

    LOCAL = "local"  # in this process
    SPARK = "spark"
