"""N-grams of people's text under user-level differential privacy, with public text as the prior."""

from bayesgram.version import VERSION as __version__

__all__ = ["__version__"]
