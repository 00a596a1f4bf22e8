"""Attacks on mechanisms, and evaluation against private data. No budget covers these numbers."""
