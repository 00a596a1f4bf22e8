"""Tokens and n-grams: pure, and the same for public and private text. Rules in docs/text.md."""
