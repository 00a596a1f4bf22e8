"""Names of attacks, on their own: the command line needs them before anything heavy is loaded."""

from enum import StrEnum


class Attack(StrEnum):
    """The ways to attack a mechanism."""

    LIKELIHOOD_RATIO = "likelihood-ratio"
    SCALE = "scale"
    MEMBERSHIP = "membership"
    BLACK_BOX = "black-box"
    ONE_RUN = "one-run"
    EXPOSURE = "exposure"
    LEAKS = "leaks"
