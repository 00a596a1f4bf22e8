"""What looks like a secret, string by string, and what does not."""

import time

import pytest

from bayesgram.public.discovered_ngrams import suspicion_of

ADDRESSES = [
    "a@b",
    "@alice",
    "bob @ home",
    "https://example.com",
    "see https://example",
    "HTTPS example",
    "www example com",
    "www.example.de",
    "mailto bob",
    "example.com",
    "on Example.org now",
    "bob gmail",
    "alice yahoo com",
    "12 main street",
    "at 7 oak rd",
]
CODES = ["x9k2m4q8", "the password hunter22", "akia1234abcd5678", "b0a1-7f3e"]
DIGITS = ["4111 1111", "call 555 0123", "2024", "at 10 30", "٤٤٤٤"]
FINE = [
    "https",
    "http",
    "www",
    "see https",
    "the www",
    "https www",
    "https com",
    "www com",
    "https://",
    "com",
    "dot com",
    "@",
    "gmail",
    "gmail account",
    "the street",
    "main st 7",
    "123",
    "mp3 files",
    "covid19",
    "thank you",
    "communication.commerce",
    "",
]


@pytest.mark.parametrize(
    ("ngram", "expected"),
    [(ngram, "an address") for ngram in ADDRESSES]
    + [(ngram, "a code") for ngram in CODES]
    + [(ngram, "digits") for ngram in DIGITS]
    + [(ngram, None) for ngram in FINE],
)
def test_what_looks_like_a_secret(ngram, expected):
    assert suspicion_of(ngram) == expected


@pytest.mark.parametrize("text", ["x" * 10**6, "1 " * 10**6, "long " * 10**6, "1" * 10**6])
def test_a_very_long_row_takes_one_pass(text):
    started = time.process_time()
    assert suspicion_of(text) in {None, "digits"}
    assert time.process_time() - started < 20  # a quadratic search takes an hour
