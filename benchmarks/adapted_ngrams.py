"""The n-gram model of people: public text adapted by a release, on held-out text.

    python benchmarks/adapted_ngrams.py PUBLIC_MODEL RELEASE:HELD_OUT [RELEASE:HELD_OUT ...]
        [--shares 0.3,0.7,0.2]

PUBLIC_MODEL: a folder of `bayesgram vocab --model`. RELEASE: a release of its vocabulary; HELD_OUT:
text of other people, a Parquet file with a column `text`. Prints the perplexity of words and
sentence ends for the public model, the release's own model, and the adapted one; --shares are
`RELEASE_MODEL_SHARE`, `MERGED_SHARE` and `MIN_UNLISTED_SHARE` of `bayesgram.lm.interpolation`.
"""

import argparse
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bayesgram.lm import interpolation
from bayesgram.lm.language_model import LanguageModel
from bayesgram.public.public_model import PublicModel
from bayesgram.releases.release import Release


def perplexity(model: LanguageModel, held_out: Path) -> float:
    """Return the perplexity of words and sentence ends."""
    texts = pq.read_table(held_out, columns=["text"])["text"].cast(pa.large_binary())
    log10, count = model.total_log10(texts.combine_chunks())
    return float(10 ** (-log10 / count))


def main() -> None:
    """Print a row for each release."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("public_model", type=Path)
    parser.add_argument("releases", nargs="+")
    parser.add_argument("--shares", default="")
    options = parser.parse_args()
    if options.shares:
        own, merged, unlisted = map(float, options.shares.split(","))
        interpolation.RELEASE_MODEL_SHARE = own
        interpolation.MERGED_SHARE = merged
        interpolation.MIN_UNLISTED_SHARE = unlisted
    public = PublicModel.load(options.public_model)
    print("| release | public | its own | adapted |")
    for pair in options.releases:
        name, held_out = pair.split(":")
        release = Release.load(name)
        models = (public.mixture, LanguageModel.from_release(release), public.adapt_to(release))
        cells = " | ".join(f"{perplexity(model, Path(held_out)):.1f}" for model in models)
        print(f"| {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
