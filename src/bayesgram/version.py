"""The version, in a module of its own so that nothing else is imported to read it."""

VERSION = "0.2.0"
