"""N-grams of people's text under user-level differential privacy, with public text as the prior."""

from bayesgram.version import VERSION

__version__ = VERSION
