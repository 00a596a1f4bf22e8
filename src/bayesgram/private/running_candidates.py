"""Candidates of a series: noisy weights that add up over the runs of a discovery.

`RunningCandidates` holds every text that anybody wrote in a series, with its noisy sum. Both are
private until a sum exceeds the level of a run. `mechanisms.running_discovery` adds run after run,
and draws the noise. No candidate is dropped before the series ends: a phrase that one person wrote
in the first week may be on everybody's lips in the last.
"""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arrays import Bools, Floats, Hashes, Ids, Integers
from bayesgram.errors import BayesgramError
from bayesgram.privacy.constants import UNITS
from bayesgram.private.allowances import hash_ids

NO_NGRAMS = pa.array([], pa.large_string())


@dataclass(frozen=True, eq=False, repr=False)
class RunningCandidates:
    """Everything that anybody wrote in a series, with its noisy sum. Private.

    Attributes:
        key: The key of the hashes.
        ngrams: The texts, in the order of their hashes: whoever wrote them.
        high: The upper half of the hash of each text, ascending.
        low: The lower half.
        sums: The noisy running sums, in units of 1/B. They stay as they are from the run on in
            which an n-gram was found.
        found_in: The number of the run in which each was found; 0 if it was not.
    """

    key: bytes
    ngrams: pa.LargeStringArray = field(default_factory=lambda: NO_NGRAMS)
    high: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64))
    low: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64))
    sums: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    found_in: Ids = field(default_factory=lambda: np.zeros(0, np.int32))

    def __repr__(self) -> str:
        return "RunningCandidates(private)"

    def __len__(self) -> int:
        return len(self.ngrams)

    @property
    def found(self) -> "RunningCandidates":
        """What was found so far, which is public."""
        return self._take(np.flatnonzero(self.found_in))

    @property
    def weights(self) -> Floats:
        """The noisy weights, in units of B."""
        weights: Floats = self.sums / UNITS
        return weights

    def with_ngrams(
        self, ngrams: pa.LargeStringArray
    ) -> tuple["RunningCandidates", Integers, Bools]:
        """Return candidates that also have these texts, the place of each text, and what is new.

        Args:
            ngrams: Distinct texts.

        Returns:
            The candidates, where new ones have a sum of 0; the place of each text among them; and
            for each of them whether it is new.
        """
        high, low = hash_ids([ngrams.cast(pa.large_binary())], self.key)
        all_high = np.concatenate([self.high, high])
        all_low = np.concatenate([self.low, low])
        order = np.lexsort((all_low, all_high))
        is_first = np.ones(order.size, np.bool_)
        is_first[1:] = (np.diff(all_high[order]) != 0) | (np.diff(all_low[order]) != 0)
        places = np.empty(order.size, np.int64)
        places[order] = np.cumsum(is_first) - 1
        known_places = places[: len(self)]
        ngram_places = places[len(self) :]
        if np.unique(ngram_places).size < len(ngrams):
            raise AssertionError("a text is there twice: a user could add to one candidate twice")
        kept = order[is_first]
        sums = np.zeros(kept.size, np.int64)
        found_in = np.zeros(kept.size, np.int32)
        is_new = np.ones(kept.size, np.bool_)
        sums[known_places] = self.sums
        found_in[known_places] = self.found_in
        is_new[known_places] = False
        texts = pa.concat_arrays([self.ngrams, ngrams]).take(pa.array(kept))
        merged = RunningCandidates(self.key, texts, all_high[kept], all_low[kept], sums, found_in)
        return merged, ngram_places, is_new

    def write(self, path: Path, token: str) -> None:
        """Write a file that names its token and digest, flushed to disk by the caller."""
        table = pa.table(
            {"ngram": self.ngrams, "sum": self.sums, "found_in": self.found_in}
        ).replace_schema_metadata(
            {b"token": token.encode(), b"digest": self.digest(token).encode()}
        )
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)

    @classmethod
    def read(cls, path: Path, token: str, key: bytes) -> "RunningCandidates":
        """Read a file that `write` has written.

        Raises:
            BayesgramError: If it is damaged, has another token, or was written under another key.
        """
        try:
            with pa.OSFile(str(path), "rb") as file:
                table = pa.ipc.open_file(file).read_all().combine_chunks()
            table.validate(full=True)
            metadata = table.schema.metadata or {}
            stated = [metadata.get(name, b"").decode() for name in (b"token", b"digest")]
            ngrams = table["ngram"].combine_chunks().cast(pa.large_string())
            sums = table["sum"].to_numpy().astype(np.int64, casting="equiv")
            found_in = table["found_in"].to_numpy().astype(np.int32, casting="equiv")
        except (OSError, pa.ArrowException, KeyError, TypeError, ValueError):
            raise _damaged_error(path) from None
        high, low = hash_ids([ngrams.cast(pa.large_binary())], key)
        candidates = cls(key, ngrams, high, low, sums, found_in)
        if stated != [token, candidates.digest(token)]:
            raise _damaged_error(path)
        return candidates

    def digest(self, token: str) -> str:
        """Return a keyed hash of everything here and of a token, which notices any damage."""
        hasher = hashlib.blake2b(token.encode(), key=self.key, digest_size=32)
        lengths = pc.binary_length(self.ngrams).to_numpy(zero_copy_only=False)
        for column in (lengths, self.high, self.low, self.sums, self.found_in):
            hasher.update(np.ascontiguousarray(column).tobytes())
        return hasher.hexdigest()

    def _take(self, rows: Integers) -> "RunningCandidates":
        return RunningCandidates(
            self.key,
            self.ngrams.take(pa.array(rows)),
            self.high[rows],
            self.low[rows],
            self.sums[rows],
            self.found_in[rows],
        )


def _damaged_error(path: Path) -> BayesgramError:
    return BayesgramError(
        f"{path}: is missing or damaged, so the noisy sums of the series are lost and its"
        " discoveries can't go on. Releases of the series can. For more discoveries, make a new"
        " series with `bayesgram series create`; what it costs comes on top."
    )
