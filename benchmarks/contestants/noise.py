"""The discrete Gaussian.

OpenDP called once for the whole vector, against our source, which calls it on all cores.

python noise.py ours|opendp COORDINATES
"""

import argparse
import json
from time import perf_counter, process_time

import numpy as np

from bayesgram.privacy.noise import ExactNoise, opendp

SCALE = 4.0 * (1 << 30)  # as in a release at ε = 1


def main() -> None:
    """Time one contestant."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("who", choices=["ours", "opendp"])
    parser.add_argument("coordinates", type=int)
    options = parser.parse_args()
    dp, values = opendp(), np.zeros(options.coordinates, np.int64)
    start, cpu = perf_counter(), process_time()
    if options.who == "ours":
        noisy = ExactNoise().discrete_gaussian(values, scale=SCALE)
    else:
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
        noisy = np.array(dp.m.make_gaussian(*space, scale=SCALE)(values))
    seconds, cpu = perf_counter() - start, process_time() - cpu
    print(json.dumps({"seconds": seconds, "cpu": cpu, "deviation": float(noisy.std() / SCALE)}))


if __name__ == "__main__":
    main()
