"""Algorithm 2 on 30 settings of (S, ρ), and how much of its time goes to γ.

python grid.py CROWD
"""

import argparse
import json
from pathlib import Path
from time import perf_counter, process_time
from unittest import mock

from data import load

from bayesgram.mechanisms.base import Randomness
from bayesgram.paper.algorithm_1 import Paper, paper_bounds
from bayesgram.paper.algorithm_2 import Grid, tune
from bayesgram.paper.sensitivity import Statistics

GRID = Grid(slopes=tuple(10.0**power for power in range(-3, 3)), rhos=(0.1, 0.3, 0.5, 0.7, 0.9))


def main() -> None:
    """Tune twice; the second one counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("crowd", type=Path)
    counts, vocabulary = load(parser.parse_args().crowd)
    paper = Paper(*paper_bounds(len(counts.users)))
    passes: list[float] = []
    exact_gamma = Statistics.exact_gamma

    def timed(statistics: Statistics, slope: float) -> float:
        begun = perf_counter()
        gamma = exact_gamma(statistics, slope)
        passes.append(perf_counter() - begun)
        return gamma

    tune(counts, vocabulary, 0.1, Randomness.from_seed(1), paper=paper, grid=GRID)
    with mock.patch.object(Statistics, "exact_gamma", timed):
        start, cpu = perf_counter(), process_time()
        tune(counts, vocabulary, 0.1, Randomness.from_seed(1), paper=paper, grid=GRID)
        seconds, cpu = perf_counter() - start, process_time() - cpu
    said = {
        "seconds": seconds,
        "cpu": cpu,
        "gamma_seconds": sum(passes),
        "gamma_passes": len(passes),
    }
    print(
        json.dumps(
            {
                **said,
                "settings": len(GRID.slopes) * len(GRID.rhos),
                "nonzeros": int(counts.ngrams.size),
            }
        )
    )


if __name__ == "__main__":
    main()
