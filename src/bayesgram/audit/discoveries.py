"""An attacker of discoveries, who plants a phrase and sees what is published.

In:  a door with its public settings, people's text, a phrase and how many people write it.   Out: a finding, with ε and
δ as lower bounds. The neighbours differ by one of those who write the phrase, and nothing else: with one writer the
phrase exists in one world alone; with as many as the level asks for, one writer more matters most.
From each discovery the attacker takes whether the phrase came out and how heavy it was, what came out of all that the
user wrote, and how much came out altogether. Which number, which side of which threshold: chosen on half of the
discoveries, judged on the other. Does not look at exact sums: it sees what is published.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from bayesgram.arrays import Floats
from bayesgram.audit.black_box import proved
from bayesgram.audit.findings import Finding, rounded_down
from bayesgram.choices import Attack
from bayesgram.errors import check_int
from bayesgram.io import read_records
from bayesgram.mechanisms.discovery import DiscoveryMechanism, LocalText
from bayesgram.privacy.noise import ExactNoise, NoiseSource, SeededNoise
from bayesgram.public.candidate_weights import PublicText

USER, TEXT = "user", "text"
MEMORY = 1 << 28


@dataclass(frozen=True)
class Canary:
    """A phrase that is nowhere else, and how many people write it, each nothing else."""

    phrase: str
    writers: int

    def planted(self, people: pa.Table, *, with_last: bool) -> pa.Table:
        """The people and those who write the phrase; or without the last of these."""
        writers = range(self.writers if with_last else self.writers - 1)
        users = pa.array([f"canary {writer}" for writer in writers], pa.string())
        texts = pa.array([self.phrase] * len(writers), pa.string())
        return pa.concat_tables([people, pa.table({USER: users, TEXT: texts})])


def attack(
    mechanism: DiscoveryMechanism,
    public: PublicText,
    people: pa.Table,
    canary: Canary,
    rng: np.random.Generator,
    *,
    error: float,
    runs: int = 400,
    seeded: bool = False,
) -> Finding:
    """What so many discoveries of each world prove; `people` is a table with the columns user and text."""
    check_int("writers", canary.writers, 1, 10**6, "people who write the phrase")
    check_int("runs", runs, 8, 10**6, "discoveries of each dataset")
    inside, outside = (
        _scores(
            mechanism,
            public,
            canary.planted(people, with_last=there),
            canary,
            rng if seeded else None,
            runs,
        )
        for there in (True, False)
    )
    learn, judged = slice(runs // 2), slice(runs // 2, None)
    claim = mechanism.budget
    delta, epsilon = proved(
        (inside[learn], outside[learn]), (inside[judged], outside[judged]), claim, error=error
    )
    seen = [int((side[:, 0] > 0).sum()) for side in (inside, outside)]
    sentence = (
        f"the phrase came out of {seen[0]} of {runs} discoveries with the user and of {seen[1]} without: at least"
        f" ε = {rounded_down(epsilon)} at δ = {claim.delta:g}"
    )
    label = f"one of {canary.writers:,} who write a phrase"
    caught = delta > claim.delta or epsilon > claim.epsilon
    return Finding(Attack.BLACK_BOX, label, caught, sentence, delta, epsilon, runs)


def _scores(
    mechanism: DiscoveryMechanism,
    public: PublicText,
    table: pa.Table,
    canary: Canary,
    rng: np.random.Generator | None,
    runs: int,
) -> Floats:
    """Three numbers of each discovery (runs × kinds)."""
    return np.array(
        [
            _score(_discovered(mechanism, public, table, _noise(rng)), canary.phrase)
            for _ in range(runs)
        ]
    )


def _noise(rng: np.random.Generator | None) -> NoiseSource:
    return ExactNoise() if rng is None else SeededNoise(int(rng.integers(2**62)))


def _discovered(
    mechanism: DiscoveryMechanism, public: PublicText, table: pa.Table, noise: NoiseSource
) -> dict[str, float]:
    records = read_records(table, user_column=USER, text_column=TEXT)
    ngrams, weights = mechanism.measure(LocalText(records, MEMORY), public, noise, lambda: None)
    return dict(zip(ngrams.to_pylist(), weights.tolist(), strict=True))


def _score(found: dict[str, float], phrase: str) -> Sequence[float]:
    words = phrase.split()
    own = {
        " ".join(words[first:last])
        for first in range(len(words))
        for last in range(first + 1, len(words) + 1)
    }
    return [found.get(phrase, 0.0), sum(found.get(ngram, 0.0) for ngram in own), float(len(found))]
