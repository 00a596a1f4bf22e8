"""Whether a constant of `discover` wants to be another, one at a time.

On text that is treated as if it were private.

    python benchmarks/discovery_constants.py VOCAB TEXT [TEXT ...] [--model public.model] [--epsilons 1,3] [--runs 3]

TEXT: Parquet with `text`, and `user` unless every row is a user: public or made-up text, as
constants must not be chosen by the people who are searched. Prints what is found with each change
over what is found without, in percent: the mean of the logarithm over texts, ε and runs, with its
standard error, and each text by itself.
"""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from discovery import DELTA, People, ours, read_people, words_of

from bayesgram.arrays import Floats
from bayesgram.inference import discovery_weights
from bayesgram.mechanisms import discovery as mechanism
from bayesgram.mechanisms.discovery import DEFAULT_ROUNDS
from bayesgram.privacy.budget import Budget
from bayesgram.public import candidate_weights
from bayesgram.public.candidate_weights import NGRAM_WEIGHTS, PublicTextModel
from bayesgram.public.public_model import PublicModel
from bayesgram.public.vocabulary import Vocabulary


@dataclass(frozen=True)
class Change:
    """Another value of a constant."""

    module: ModuleType
    name: str
    value: Any

    def __str__(self) -> str:
        return f"{self.name} {self.value}"

    @contextmanager
    def made(self) -> Iterator[None]:
        """The constant is that while the block lasts."""
        before = getattr(self.module, self.name)
        setattr(self.module, self.name, self.value)
        try:
            yield
        finally:
            setattr(self.module, self.name, before)


def weight_change(**values: Any) -> Change:
    """Another curve of weights."""
    return Change(candidate_weights, "NGRAM_WEIGHTS", replace(NGRAM_WEIGHTS, **values))


CHANGES = [
    *(weight_change(likely=value) for value in (-10.0, -8.0)),
    *(weight_change(exponent=value) for value in (0.35, 0.55)),
    *(
        weight_change(unseen={**NGRAM_WEIGHTS.unseen, order: NGRAM_WEIGHTS.unseen[order] + step})
        for order in (1, 2, 3)
        for step in (-1.0, 1.0)
    ),
    *(Change(discovery_weights, "LAG", value) for value in (0.1, 0.5)),
    *(Change(discovery_weights, "WIDTH", value) for value in (0.75, 1.1)),
    *(Change(discovery_weights, "EASE", value) for value in (1.0, 2.0)),
    *(Change(discovery_weights, "BELIEF", value) for value in (0.15, 0.35)),
    *(Change(discovery_weights, "NEGLIGIBLE", value) for value in (1.5, 3.0)),
    *(Change(mechanism, "MAX_CANDIDATES", value) for value in (60, 150)),
]


def found(people: People, known: Vocabulary, epsilons: Sequence[float], runs: int) -> Floats:
    """Log numbers found, ε × runs."""
    listed = people.heaviest(people.weights(), mechanism.MAX_CANDIDATES)
    finders = [
        ours(people, known, Budget(epsilon, DELTA), DEFAULT_ROUNDS, listed) for epsilon in epsilons
    ]
    return np.log([[max(find(seed).size, 1) for seed in range(1, runs + 1)] for find in finders])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each change."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("vocab", type=Path)
    parser.add_argument("texts", nargs="+")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--epsilons", default="1,3")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args(arguments)
    model = None if options.model is None else PublicModel.load(options.model).mixture
    public = PublicTextModel.from_vocabulary(Vocabulary.load(options.vocab), model)
    known = words_of(public.vocabulary)
    epsilons = list(map(float, options.epsilons.split(",")))
    gains: dict[str, list[Floats]] = {str(change): [] for change in CHANGES}
    for path in options.texts:
        column = "user" if "user" in pq.read_schema(path).names else None
        people = read_people(
            path, public, [part.order for _, part in public.vocabulary.by_order], column
        )
        usual = found(people, known, epsilons, options.runs)
        print(
            path,
            "finds",
            np.round(np.exp(np.median(usual, axis=1))).astype(int).tolist(),
            flush=True,
        )
        for change in CHANGES:
            with change.made():
                gains[str(change)].append(found(people, known, epsilons, options.runs) - usual)
    for name, each in gains.items():
        whole = np.concatenate([gain.ravel() for gain in each])
        mean, error = np.expm1(whole.mean()), whole.std() / np.sqrt(whole.size)
        print(
            f"{name:32} {mean:+7.1%} ± {error:.1%}  ",
            *(f"{np.expm1(gain.mean()):+7.1%}" for gain in each),
        )


if __name__ == "__main__":
    main()
