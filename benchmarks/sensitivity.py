"""What the constants of inference are worth: each is halved and doubled, and the answer compared.

    python benchmarks/sensitivity.py VOCAB COUNTS [COUNTS ...] [--epsilons 0.2,1] [--seeds 1]
        [--only MODULE.NAME,...]

COUNTS: counts folders or Parquet files of user, ngram, count, made with VOCAB. Prints for each
constant, halved and doubled: the mean change of KL over populations, ε and orders; the largest
change, up and down; and the mean change, in points, of the share of the first 200 n-grams that two
deviations cover. All variants see the same noise, as far as they ask the same questions. Numbers of
steps, grids and tolerances are left out.
"""

import argparse
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any
from unittest.mock import patch

import numpy as np

from bayesgram.arrays import Floats
from bayesgram.audit.evaluation import kl_divergence
from bayesgram.inference.orders import infer_orders
from bayesgram.mechanisms.base import Randomness
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.privacy.budget import Budget
from bayesgram.private.counts import PrivateCounts
from bayesgram.private.counts_io import load_counts
from bayesgram.public.vocabulary import Vocabulary

DELTA = 1e-7
FIRST = 200
MODULES = (
    "clipped_text",
    "design",
    "deviations",
    "mixing",
    "model",
    "model_choice",
    "pooling",
    "shrinkage",
)
CONSTANTS = {
    "design": (
        "SHAPE_POWER LEVEL_SHARE WORD_SHARE TOTAL_PART MIN_BIN_Z"
        " MIN_RUN_PEAK_Z PRIOR_PART PRIOR_PART_STD VISIBLE_BIAS HIDDEN_BIAS TAIL_CURVATURE_STD"
        " CLIPPING_RATE CLIPPING_RATE_LONGER CHANCE_KL"
        " DIFFERENCE_VAR CLIPPED_MASS_SHARE RECOVERED_SHARE CLIPPED_WORDS_KL WANTED_REL_STD"
    ),
    "deviations": "TYPICAL_TRUST HIDDEN_Z ADDED_STANDARD_ERRORS BURST WIDENING",
    "model": (
        "MIN_TOTAL_Z PUBLIC_REL_STD MODEL_PENALTY UNIFORM_PENALTY TYPICAL_LIFT_SHARE LIFT_SHARE_STD"
    ),
    "model_choice": "JUDGE_SHARE WORD_REL_STD",
    "pooling": "RESIDUAL_STD PRIOR_RIDGES PRIOR_EFFECT_COUNT",
    "shrinkage": "MIN_CLEAR_Z MIN_CLEAR_Z_BEYOND_GRID START_STD",
    "clipped_text": "UNEXPLAINED_REL_STD WORD_RIDGE VECTOR_RIDGE MIN_TOTAL_Z",
}


@contextmanager
def scale(module_name: str, name: str, factor: float) -> Iterator[None]:
    """Multiply a constant, also where another module of inference has imported it."""
    modules = [import_module(f"bayesgram.inference.{module}") for module in MODULES]
    home = import_module(f"bayesgram.inference.{module_name}")
    value = getattr(home, name)
    scaled: Any
    if isinstance(value, dict):
        scaled = {key: factor * number for key, number in value.items()}
    else:
        scaled = factor * value
    with ExitStack() as stack:
        for module in modules:
            if getattr(module, name, None) is value and (
                module is home or not isinstance(value, float)
            ):
                stack.enter_context(patch.object(module, name, scaled))
        yield


def judge(
    populations: list[PrivateCounts], vocabulary: Vocabulary, epsilons: list[float], seeds: int
) -> tuple[Floats, Floats]:
    """Return log KL and the covered share of the first n-grams, for all runs and orders."""
    log_kl = []
    covered = []
    parts = [part for _, part in vocabulary.by_order]
    for counts in populations:
        totals = counts.totals.astype(np.float64)
        for epsilon in epsilons:
            for seed in range(seeds):
                randomness = Randomness.from_seed(seed)
                budget = Budget(epsilon, DELTA)
                noisy, _ = Posterior().measure(counts, vocabulary, budget, randomness)
                for (place, _), answer in zip(
                    vocabulary.by_order, infer_orders(noisy, parts), strict=True
                ):
                    truth = totals[place] / totals[place].sum()
                    first = np.argsort(-answer.theta, kind="stable")[:FIRST]
                    is_within = np.abs(answer.theta - truth)[first] <= 2 * answer.deviation[first]
                    log_kl.append(np.log(kl_divergence(totals[place], answer.theta)))
                    covered.append(is_within.mean())
    return np.array(log_kl), np.array(covered)


def describe(run: Callable[[], tuple[Floats, Floats]], base: tuple[Floats, Floats]) -> str:
    """Return the cells of one variant."""
    log_kl, covered = run()
    change = np.exp(log_kl - base[0]) - 1
    points = 100 * float((covered - base[1]).mean())
    return f"{change.mean():+.1%} ({change.min():+.0%} to {change.max():+.0%}), {points:+.1f}"


def main() -> None:
    """Print a row for each constant."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("vocab")
    parser.add_argument("counts", nargs="+")
    parser.add_argument("--epsilons", default="0.2,1")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    vocabulary = Vocabulary.load(options.vocab)
    populations = [load_counts(path, vocabulary_size=len(vocabulary)) for path in options.counts]
    epsilons = [float(epsilon) for epsilon in options.epsilons.split(",")]

    def run() -> tuple[Floats, Floats]:
        return judge(populations, vocabulary, epsilons, options.seeds)

    base = run()
    print("| constant | half: KL (least to largest), points covered | double |", flush=True)
    for module, names in CONSTANTS.items():
        for name in names.split():
            if options.only and f"{module}.{name}" not in options.only.split(","):
                continue
            cells = []
            for factor in (0.5, 2.0):
                with scale(module, name, factor):
                    cells.append(describe(run, base))
            print(f"| {module}.{name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
