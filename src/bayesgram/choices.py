"""The names of the tokenizers, on their own: the command line needs them before anything heavy is loaded.

Names that a person chooses from, on their own: the command line needs them before anything heavy is loaded.

Names of attacks, on their own: the command line needs them before anything heavy is loaded.

The engines by name, for the command line.
"""

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


class MechanismName(StrEnum):
    """The doors."""

    POSTERIOR = "posterior"
    PAPER = "paper"
    LAPLACE = "laplace"
    LAPLACE_PUBLIC = "laplace-public"
    GAUSSIAN = "gaussian"
    K_ANONYMITY = "k-anonymity"


class Sensitivity(StrEnum):
    """How the paper's γ is found: leaving out each user, or Claim 1."""

    EXACT = "exact"
    BOUND = "bound"


class ScoreSensitivity(StrEnum):
    """Which bound on |Δq| sets the noise of Algorithm 2's scores: Claim 3's, or the true one (errata E8, E14)."""

    PUBLISHED = "published"
    CORRECTED = "corrected"


class Suppressed(StrEnum):
    """Where the mass of n-grams suppressed by k-anonymity goes; the paper doesn't say."""

    ADD_ONE = "add-one"
    PUBLIC = "public"


class Attack(StrEnum):
    """The ways to attack a mechanism."""

    LIKELIHOOD_RATIO = "likelihood-ratio"
    SCALE = "scale"
    MEMBERSHIP = "membership"
    BLACK_BOX = "black-box"
    ONE_RUN = "one-run"
    EXPOSURE = "exposure"
    LEAKS = "leaks"


class EngineName(StrEnum):
    """Where the counting runs."""

    LOCAL = "local"
    SPARK = "spark"
