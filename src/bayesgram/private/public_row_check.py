"""Check that private text was not used as public text: no private rows among the public ones.

A `PublicRowCheck` compares private rows, as they are read, with the hashes of the public rows that
a vocabulary was made from (`public.public_rows`). Its result is an error that stops `count`, or a
warning.

It guards against a mistake, not against somebody who hides it: a row that was changed is not
recognised. The share of matching rows is an exact function of private data: it is for the curator
only, and is rounded. Memory is that of `SAMPLE_CAPACITY` hashes, however much text there is.
"""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from bayesgram.arrays import Bools, Hashes, Integers
from bayesgram.errors import Argument, UsageError
from bayesgram.io import Records
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.row_hashes import RowSample
from bayesgram.text.tokenizer import Tokenizer, chunks

# Hashes of private rows that are sampled. A share of 2% among so many is known to ±0.11% (one
# standard deviation), one of 5% to ±0.17%.
SAMPLE_CAPACITY = 1 << 14

# The smallest share, and the smallest number, of rows that is noticeable. Distinct rows are
# counted, so that a row which thousands of people forward counts once: 20 rows are more than the
# boilerplate of a platform ("this message was removed by a moderator because …") and the few texts
# that everybody quotes. As a share, two halves of one collection (different posts, authors,
# sentences) have 0.04% (Reddit, commit messages), 0.07% (film reviews), 0.10% (Tatoeba, Wikipedia)
# of their rows of eight words in common, and collections of different kinds at most 0.007%;
# sentences of one small grammar (`bayesgram generate`) 1%. Text that is all public text has 100%,
# and messages of which every twentieth was public text 5%.
MIN_SHARE = 0.02
MIN_MATCHES = 20

# Rows of the sample that must match, so that chance does not stop a run. At a true share of 0.1%
# it does with a probability of at most P(Poisson(0.4) >= 8) = 1.1e-8. At a true share of 5%, with
# 400 distinct long rows in the sample, a run goes on with a probability of 8e-4, which is
# P(Poisson(20) < 8).
MIN_SAMPLED_MATCHES = 8

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, repr=False)
class PublicRowCheck:
    """Compare private rows with public ones, as they are read. Private."""

    public: RowSample | None  # None if unknown: then nothing is compared
    private: RowSample | None  # None if `public` is
    allow_public: bool  # a noticeable share is a warning instead of an error

    @classmethod
    def from_vocabulary(
        cls, vocabulary: Vocabulary, *, allow_public: bool = False
    ) -> "PublicRowCheck":
        """Return a check against the public rows that a vocabulary knows; it may know none.

        Args:
            vocabulary: What private text is counted or searched with.
            allow_public: Whether a noticeable share is a warning instead of an error.

        """
        public = vocabulary.public_rows
        if public is None:
            return cls(None, None, allow_public)
        private = RowSample(
            public.salt, least=public.least, capacity=SAMPLE_CAPACITY, limit=public.limit
        )
        return cls(public, private, allow_public)

    def __repr__(self) -> str:
        return "PublicRowCheck(private)"

    def copy_empty(self) -> "PublicRowCheck":
        """Return the same check, before any row."""
        sample = self.private
        if sample is None:
            return self
        empty = RowSample(
            sample.salt, least=sample.least, capacity=sample.capacity, limit=sample.limit
        )
        return replace(self, private=empty)

    @property
    def compared_hashes(self) -> tuple[Hashes, Integers]:
        """The hashes of sampled private rows, and 1 for each that is a public row's, else 0."""
        if self.public is None or self.private is None:
            return np.zeros(0, np.uint64), np.zeros(0, np.int64)
        hashes = self.private.hashes
        return hashes, is_among(hashes, self.public.hashes).astype(np.int64)

    @property
    def share(self) -> "PublicRowShare":
        """The share of public rows among the rows so far."""
        hashes, matches = self.compared_hashes
        rate = 1.0 if self.private is None else self.private.sampling_rate
        return PublicRowShare(hashes.size, int(matches.sum()), rate)

    def finish(self) -> None:
        """Stop, or warn, if too many of the rows were public rows; call it after the last row.

        Raises:
            UsageError: If private text was given as public text, and that is not allowed.

        """
        self.share.refuse(allow_public=self.allow_public)


@dataclass(frozen=True)
class PublicRowShare:
    """How many distinct private rows of a uniform sample were public rows. Private: exact."""

    sampled: int  # distinct private rows in the sample
    matches: int  # of them, rows that are public rows
    sampling_rate: float  # the share of all distinct rows that is in the sample

    @property
    def share(self) -> float:
        """The estimated share of distinct long private rows that were public rows."""
        return self.matches / max(self.sampled, 1)

    @property
    def is_noticeable(self) -> bool:
        """Whether there are more than quotes and boilerplate."""
        return (
            self.matches >= MIN_SAMPLED_MATCHES
            and self.matches >= MIN_MATCHES * self.sampling_rate
            and self.share >= MIN_SHARE
        )

    @property
    def message(self) -> str:
        """The share to one digit, and what it means."""
        percent = float(f"{100 * self.share:.1g}")
        return (
            f"about {percent:.0f}% of the private rows of eight words or more were rows of the"
            " public text that the vocabulary was made from. If private text was used as public"
            " text, no release with this vocabulary is private, whatever its card says."
        )

    def refuse(self, *, allow_public: bool) -> None:
        """Stop if the share is noticeable; warn instead, if that is allowed.

        Raises:
            UsageError: If private text was given as public text, and that is not allowed.

        """
        if not self.is_noticeable:
            return
        if allow_public:
            logger.warning("warning: %s", self.message)
            return
        raise UsageError(
            f"{self.message} Nothing was written. Make the vocabulary from other text "
            "with `bayesgram vocab`; if these rows were public before they were written "
            "here (quotes, forwarded news), go on with ",
            Argument("allow_public", "True"),
            ".",
        )


def is_among(hashes: Hashes, known: Hashes) -> Bools:
    """Return which hashes are among `known` ones, which are sorted."""
    if not known.size:
        return np.zeros(hashes.size, np.bool_)
    places = np.minimum(np.searchsorted(known, hashes), known.size - 1)
    is_known: Bools = known[places] == hashes
    return is_known


def check_records(
    records: Iterable[Records], tokenizer: Tokenizer, check: PublicRowCheck
) -> Iterator[Records]:
    """Pass records on while their rows are compared; finish the check after the last."""
    for batch in records:
        if check.private is not None:
            for chunk in chunks(batch.text):
                check.private.add_rows(*tokenizer.tokenize(chunk))
        yield batch
    check.finish()
