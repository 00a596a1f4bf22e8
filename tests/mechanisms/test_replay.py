"""Post-processing: given the same noisy answers, two unrelated datasets give the same release, byte for byte."""

import json
import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from bayesgram.mechanisms import posterior
from bayesgram.mechanisms.base import CountsMechanism, Randomness
from bayesgram.mechanisms.gaussian import Gaussian
from bayesgram.mechanisms.laplace import Laplace, LaplacePublic
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.mechanisms.publish import release
from bayesgram.privacy.budget import Budget, Guarantee
from bayesgram.private.counts_io import save_counts
from bayesgram.public.mixture import SourceCounts
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.card_sections import order_details
from bayesgram.text.tokenizer import Tokenizer
from helpers import fork_server, ledger_files, reference_paper, replay_noise

pytestmark = pytest.mark.slow

SIZE = 60
BUDGET = Budget(1.0, 1e-6)
PROVED = [Posterior(), Posterior(clip_norm=2.0), Gaussian(), Laplace(), LaplacePublic()]


def vocabulary():
    """Trigrams, in one source."""
    ngrams = pa.array([f"w{i % 7} w{i % 5} w{i}" for i in range(SIZE)], pa.large_string())
    return Vocabulary(ngrams, 10_000 // np.arange(1, SIZE + 1), 3, Tokenizer())


def several():
    """N-grams of three orders, in two sources that differ."""
    words = [f"w{i}" for i in range(10)]
    pairs = [f"w{i % 10} w{(3 * i + 1) % 10}" for i in range(20)]
    triples = [f"w{i % 10} w{(3 * i + 1) % 10} w{(7 * i + i // 10) % 10}" for i in range(SIZE - 30)]
    ngrams = pa.array([*words, *dict.fromkeys(pairs), *dict.fromkeys(triples)], pa.large_string())
    ngrams = pa.concat_arrays(
        [ngrams, pa.array([f"x{i} x x" for i in range(SIZE - len(ngrams))], pa.large_string())]
    )
    sources = [
        SourceCounts("wiki", 10_000 // np.arange(1, SIZE + 1)),
        SourceCounts("talk", 50 * np.arange(1, SIZE + 1)),
    ]
    return Vocabulary.from_source_counts(ngrams, sources, 3, Tokenizer())


def crowd(users, seed):
    rng = np.random.default_rng(seed)
    lengths = np.minimum(rng.pareto(1.1, users) * 4 + 1, 300).astype(int)
    shares = rng.dirichlet(np.full(SIZE, 0.3))
    return np.array([rng.multinomial(length, shares) for length in lengths])


DATASETS = {
    "many": crowd(3000, 1),
    "few": crowd(40, 2),
    "nobody": np.zeros((0, SIZE), np.int64),
    "one who repeats an n-gram": np.eye(1, SIZE, 7, dtype=np.int64) * (2**31 - 1),
    "people without a listed n-gram": np.zeros((30, SIZE), np.int64),
}


def counts(name, public):
    """Counts with columns for n-grams that are not listed, of which some people wrote as many."""
    matrix = DATASETS[name]
    orders = len(public.by_order)
    listed = matrix.sum(axis=1, keepdims=True)
    unlisted = np.where(listed > 0, listed // 3, 5 + np.arange(orders))
    matrix = np.column_stack([matrix, np.broadcast_to(unlisted, (len(matrix), orders))])
    names = [f"{name} {i}" for i in range(len(matrix))]
    made = reference_paper.make_user_counts(matrix, names, fingerprint=public.fingerprint)
    return replace(made, vocabulary_size=SIZE, unlisted_size=orders)


def test_every_proved_mechanism_is_here():
    def below(kind):
        return {kind, *(each for child in kind.__subclasses__() for each in below(child))}

    ours = {
        kind
        for kind in below(CountsMechanism)
        if kind.__module__.startswith("bayesgram.mechanisms.")
    }
    proved = {kind for kind in ours if getattr(kind, "guarantee", None) is Guarantee.PROVED}
    assert {type(mechanism) for mechanism in PROVED} == proved


def released(mechanism, name, source, folder, public=None, budget=BUDGET):
    """All bytes of a release whose noise comes from this source."""
    public = public or vocabulary()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Randomness, "from_seed", classmethod(lambda cls, _seed: cls(source, 5)))
        release(counts(name, public), public, mechanism, budget).save(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    "mechanism", PROVED, ids=lambda mechanism: f"{mechanism.name}-{mechanism.settings()}"
)
def test_the_same_answers_give_the_same_release_of_unrelated_people(mechanism, tmp_path):
    source = replay_noise.NoiseRecorder()
    first = released(mechanism, "many", source, tmp_path / "first")
    measured = {"measured.parquet"} if mechanism.name in {"posterior", "gaussian"} else set()
    assert set(first) == {"card.json", "distribution.parquet"} | measured
    for name in DATASETS:
        again = released(
            mechanism, name, replay_noise.NoiseReplayer(source.answers), tmp_path / name
        )
        assert again == first, name


@pytest.mark.parametrize(
    "public", [vocabulary(), several()], ids=["one source", "sources and orders"]
)
def test_a_choice_is_made_from_noisy_answers_alone(public, tmp_path, monkeypatch):
    """All that Λ and the other questions follow from, to the last bit, whoever was asked."""
    chosen_from, choose = [], posterior.choose_clipping

    def recorded(norm_histogram, longest, multiplier):
        chosen_from.append(
            [
                norm_histogram.users,
                norm_histogram.written,
                longest.prior,
                np.array(multiplier),
            ]
        )
        return choose(norm_histogram, longest, multiplier)

    monkeypatch.setattr(posterior, "choose_clipping", recorded)
    source = replay_noise.NoiseRecorder()
    released(Posterior(), "many", source, tmp_path / "first", public)
    for name in DATASETS:
        released(
            Posterior(), name, replay_noise.NoiseReplayer(source.answers), tmp_path / name, public
        )
    orders = len(public.by_order)
    assert len(chosen_from) == orders * (1 + len(DATASETS))
    first = chosen_from[:orders]
    for start in range(orders, len(chosen_from), orders):
        for one, other in zip(first, chosen_from[start : start + orders], strict=True):
            assert all(map(np.array_equal, one, other))


# Who is asked first, at which ε, and whether `posterior` asks about lost words then
PATHS = {
    "lost words are asked": ("many", 20.0, True),
    "lost words are not asked": ("few", 0.1, False),
}


@pytest.mark.parametrize(
    "public", [vocabulary(), several()], ids=["one source", "sources and orders"]
)
@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_so_do_all_answers_on_either_path(path, public, tmp_path):
    """Which questions are asked follows from noisy answers alone: people who would be asked others are asked these."""
    dataset, epsilon, is_wanted = path
    budget, tries = Budget(epsilon, 1e-6), 0
    is_asked = None
    while is_asked != is_wanted:  # three of four tries are on this path
        source, tries = replay_noise.NoiseRecorder(), tries + 1
        assert tries < 20
        first = released(Posterior(), dataset, source, tmp_path / f"first {tries}", public, budget)
        is_asked = "lost_norm" in order_details(json.loads(first["card.json"])["details"])
    for name in DATASETS:
        given = replay_noise.NoiseReplayer(source.answers)
        assert released(Posterior(), name, given, tmp_path / name, public, budget) == first, name
        assert not given.left


@pytest.mark.parametrize(
    "mechanism", PROVED, ids=lambda mechanism: f"{mechanism.name}-{mechanism.settings()}"
)
def test_other_answers_give_another_release(mechanism, tmp_path):
    """The comparison above can fail."""
    first = released(mechanism, "many", replay_noise.NoiseRecorder(), tmp_path / "first")
    second = released(mechanism, "many", replay_noise.NoiseRecorder(), tmp_path / "second")
    assert first["distribution.parquet"] != second["distribution.parquet"]
    assert (
        "measured.parquet" not in first or first["measured.parquet"] != second["measured.parquet"]
    )


# Through the command line: the release folder, what is printed, what is told on the way, and the exit code


OPTIONS = {
    "posterior": [],
    "posterior with lost words": ["--epsilon", "20"],
    "posterior with its clip norm": ["--clip-norm", "2"],
    "gaussian": ["--mechanism", "gaussian", "--json"],
    "laplace": ["--mechanism", "laplace"],
    "laplace-public": ["--mechanism", "laplace-public", "--json"],
}


def run(mode, transcript, folder, *options):
    """All that a person sees of a release."""
    delta = [] if "laplace" in " ".join(options) else ["--delta", "1e-6"]
    epsilon = [] if "--epsilon" in options else ["--epsilon", "1"]
    command = [
        "release",
        "counts",
        "--vocab",
        "vocab.parquet",
        *epsilon,
        *delta,
        "--ledger",
        "app.ledger",
    ]
    done = fork_server.run(
        replay_noise.__file__, mode, transcript, *command, "-o", "out", *options, cwd=folder
    )
    assert "Traceback" not in done.stderr, done.stderr
    told = re.sub(r"\d:\d\d:\d\d", "", done.stderr)  # the clock
    out = {path.name: path.read_bytes() for path in (folder / "out").iterdir()}
    return done.returncode, done.stdout, told, out


def prepared(folder, name):
    folder.mkdir()
    vocabulary().save(folder / "vocab.parquet")
    save_counts(counts(name, vocabulary()), vocabulary(), folder / "counts")
    ledger_files.create_identical_ledger(
        folder / "app.ledger", population="people", budget=Budget(50, 1e-3)
    )
    return folder


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_so_does_the_command_line(options, tmp_path):
    transcript = tmp_path / "answers"
    code, *_ = run("record", transcript, prepared(tmp_path / "recorded", "many"), *options)
    assert code == 0
    norm_histogram = [
        run("replay", transcript, prepared(tmp_path / name, name), *options)
        for name in ("few", "nobody")
    ]
    assert norm_histogram[0][0] == 0, norm_histogram[0][2]
    assert norm_histogram[0] == norm_histogram[1]
