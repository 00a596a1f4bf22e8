"""What kernels answer on small inputs, one after the other, as text: to compare them compiled and
as Python.

PYTHONPATH=tests python -m helpers.kernel_answers prints it. Whole numbers are exact; floats that
went through exp or log have 9 digits.
"""

import hashlib
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from bayesgram.audit.text_evaluation import evaluate_model
from bayesgram.inference.shrinkage import shrink_counts
from bayesgram.lm.interpolation import interpolate
from bayesgram.lm.language_model import LanguageModel
from bayesgram.paper.harness import ExperimentData
from bayesgram.paper.sensitivity import Statistics
from bayesgram.private.clipping import (
    ClippedWordsSpec,
    Coordinates,
    clip,
    clipped_mass_sum,
    clipped_sum,
)
from bayesgram.private.counts import count
from bayesgram.private.norm_histogram import HistogramSpec, norm_histogram_sum
from bayesgram.public.public_model import PublicModel
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.synthetic.crowd import Crowd
from bayesgram.synthetic.population import Population
from bayesgram.text.tokenizer import Tokenizer
from helpers import reference_paper
from helpers.reference_language_models import make_release

HOSTILE = [
    "Don't stop! ",
    "naïve 日本語 \u00adcafe\u0301",
    "",
    "a\u2028b  c.d",
    "👩‍👧 𝒱 ǅ x'",
    "ab\u0301 'tis\nthe END",
    "z" * 40,
    "👍🏽❤️ 🇩🇪🇫 1️⃣ #⃣ 🏴\U000e0067\U000e007f x\u200d 👍\u200d🇩",
    "ok:-))) :’( >:/ :p <33 </3 ^__^ -_- >.< http://a 10:30 a:D don`t",
]
TABLE = {
    ("a",): 9.0,
    ("b",): 5.0,
    ("é",): 3.0,
    ("abc",): 2.0,
    ("a", "b"): 3.0,
    ("b", "abc"): 1.0,
    ("a", "b", "é"): 1.0,
}


def digest(*arrays):
    """All bits of these arrays."""
    return hashlib.sha256(
        b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
    ).hexdigest()


def rounded(values):
    return [float(f"{value:.9g}") for value in np.ravel(values)]


def tokens():
    cutters = [
        Tokenizer(kind, lowercase)
        for kind in ("words", "messages", "whitespace", "characters")
        for lowercase in (0, 1)
    ]
    return [[cutter.sentences(text) for text in HOSTILE] for cutter in cutters]


def made():
    """Made-up people, the n-grams of public text, and who wrote which."""
    population = Population(users=12, seed=5)
    public = pa.Table.from_batches(population.public_text(60))
    vocabulary = Vocabulary.from_public(
        public, order=[1, 3, 6], size=40, tokenizer=Tokenizer(boundaries=True)
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "messages.csv")
        pyarrow.csv.write_csv(pa.Table.from_batches(population.messages()), path)
        return vocabulary, count(path, vocabulary)


def clipping(vocabulary, counts):
    """Every bound: C and W, the L2 norm of n-grams and words together, amounts, and what clipping
    takes away.
    """
    shape = np.geomspace(0.5, 2, len(vocabulary) + 5)
    words = np.arange(2 * len(vocabulary)).reshape(-1, 2) % 6 - 1
    measured = Coordinates(shape, np.where(words < 0, -1, words + len(vocabulary)).astype(np.int32))
    lost = [
        ClippedWordsSpec(np.geomspace(0.5, 2, 6), (words % 6).astype(np.int32), norm)
        for norm in (0.1, 1e6)
    ]
    sources = np.where(np.arange(len(vocabulary)) < 4, -1, np.arange(len(vocabulary)) % 3).astype(
        np.int32
    )
    bins = HistogramSpec(
        np.array([1.0, 3.0, 10.0]),
        np.array([1.0, 4.0, 40.0, 7e3]),
        sources,
        0,
    )
    few = clip(counts, max_count=2, max_total=5, key=7)
    heavy_user_norm = reference_paper.make_user_counts(
        np.random.default_rng(0).poisson(30, (4, len(vocabulary)))
    )
    return [
        digest(few.starts, few.ngrams, few.counts),
        [
            digest(clipped_sum(each, measured, clip_norm=norm))
            for norm in (0.7, 1e6)
            for each in (counts, heavy_user_norm)
        ],
        [
            norm_histogram_sum(counts, measured, replace(bins, source_count=sources)).tolist()
            for sources in (0, 3)
        ],
        [
            digest(clipped_mass_sum(each, measured, asked, clip_norm=0.7))
            for asked in lost
            for each in (counts, heavy_user_norm)
        ],
        rounded(Statistics(few).user_shifts(0.1)),
    ]


def crowd():
    people = Crowd(users=30, size=50, sentences=300, personas=2, pool=1)
    counts = people.counts()
    part = (
        ExperimentData(counts, people.vocabulary, 30, "made")
        .subsample_users(15)
        .truncate_vocabulary(20)
        .counts
    )
    return [digest(each.starts, each.ngrams, each.counts) for each in (counts, part)]


def language_model():
    model = LanguageModel.from_release(make_release(TABLE))
    rows = pa.array([b"a b \xc3\xa9 abc", b"abc zebra a", b"b"], pa.large_binary())
    quality = evaluate_model(model, {"": [rows]}).to_json()
    best = [(each.word, rounded([each.probability])) for each in model.predict(["a"], 4)]
    other = LanguageModel.from_release(make_release({("a", "b", "c"): 3.0, ("b", "é"): 2.0}))
    mixed = rounded(
        [
            each.log10
            for each in interpolate([model, other], [2, 1]).score_words(["a", "b", "c", "abc"])
        ]
    )
    return [
        best,
        mixed,
        [each.word for each in model.predict([], 3, typed="a")],
        rounded([value for value in quality.values() if not isinstance(value, list)]),
        [[part["name"], rounded([part["keystrokes_saved"]])] for part in quality["by_frequency"]],
    ]


def public_model():
    table = pa.table({"text": HOSTILE * 2 + ["a b a b a", "b a", "the end", "the stop"]})
    vocabulary = Vocabulary.from_public(table, order=[1, 2], size=12)
    models = [
        PublicModel.from_public(vocabulary, table, size=size)["public"] for size in (None, 24)
    ]
    return [[rounded([model.score(text)]) for text in HOSTILE] + [model.sizes] for model in models]


def shrinkage():
    randomness = np.random.default_rng(2)
    found = shrink_counts(
        randomness.normal(20, 9, 30), np.full(30, 5.0), randomness.uniform(5, 60, 30)
    )
    return [rounded(each) for each in found]


def answers():
    """All of it."""
    vocabulary, counts = made()
    return {
        "tokens": tokens(),
        "vocabulary": [vocabulary.fingerprint, vocabulary.prior_fingerprint],
        "counts": digest(counts.starts, counts.ngrams, counts.counts),
        "clipping": clipping(vocabulary, counts),
        "crowd": crowd(),
        "language model": language_model(),
        "public model": public_model(),
        "shrinkage": shrinkage(),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(answers()))
