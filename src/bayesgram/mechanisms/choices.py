"""Names that a person chooses from, on their own: the command line needs them before anything heavy is loaded."""

from enum import StrEnum


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
