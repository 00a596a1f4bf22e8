"""Published results: releases, their cards, their measurements, and what they were made from.

Everything in this package is public. The names of the files in the folders of releases and
discoveries are here, because readers of both kinds tell them apart by these names.
"""

CARD_FILE = "card.json"  # of a release, and of a discovery
DISTRIBUTION_FILE = "distribution.parquet"  # of a release
DISCOVERY_FILE = "ngrams.parquet"  # of a discovery
VOCABULARY_FILE = "vocab.parquet"  # of a discovery: its vocabulary with what was discovered
