"""A small transformer, fine-tuned with DP-SGD or adapted by a release.

An honest peer, in one table.

    python benchmarks/dp_sgd.py prepare --vocab vocab.parquet --posts posts.parquet --public a.parquet b.parquet \
        --release out-0.2 out-1 --model model-0.2 model-1 -o data.npz      # needs bayesgram; the model of each release
    python benchmarks/dp_sgd.py train data.npz -o run                      # needs a GPU and torch; numpy, nothing else
    python benchmarks/dp_sgd.py adapt data.npz run --vocab vocab.parquet --posts posts.parquet \
        --release out-0.2 out-1 --model model-0.2 model-1 --held-out 100   # the same by bayesgram.lm.adapt: slow, no GPU
    python benchmarks/dp_sgd.py table run

The words are those of order 1 of the vocabulary, and <unk>; every sentence begins afresh. The
transformer is pre-trained on the public texts as one. A post is a user: 9,000 posts are held out
(`numpy.random.default_rng(20240607).permutation` of the rows), the others are private. DP-SGD: each
step takes every private post with the same probability, clips the gradient of each (its first 128
words), adds Gaussian noise to their sum; `dp-accounting` (privacy loss distributions) says how
much, so that all steps together are (ε, δ)-differentially private, a post added or removed. Which
parameters learn and how fast was chosen by looking at the held-out posts: that flatters DP-SGD. The
adapted transformer learns nothing: `bayesgram.lm.adapt` with its default weights, computed on the GPU
for all held-out posts in `train`, and by `bayesgram.lm.adapt` itself, suggestions with n-grams too,
for some in `adapt`.

Extras: `pip install 'bayesgram[transformers]'`. With `--tiny`, `train` is a rehearsal that runs on
a processor.
"""

import argparse
import json
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

HELD_OUT, SEED = 9_000, 20240607
LENGTH = 128  # words in a row of text
SHARE = 0.3  # of the n-gram model, as `bayesgram.lm.adapt` has it
END, UNKNOWN = "</s>", "<unk>"
Array = NDArray[Any]


# ---- prepare: text as numbers, and how much noise


def prepare(given: argparse.Namespace) -> None:
    """Write everything that `train` needs into one file."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - `train` runs where it isn't

    words, tokenizer = word_list(given.vocab)
    posts = pq.read_table(given.posts)["text"].to_pylist()
    order = np.random.default_rng(SEED).permutation(len(posts))
    arrays: dict[str, Array] = {"words": np.array(words)}
    for name, rows in (("held", order[:HELD_OUT]), ("private", order[HELD_OUT:])):
        arrays[name], arrays[f"{name}_ends"] = as_numbers(
            words, tokenizer, [posts[row] for row in rows]
        )
    public = [
        as_numbers(words, tokenizer, pq.read_table(path)["text"].to_pylist())[0]
        for path in given.public
    ]
    arrays["public"] = np.concatenate(public)
    held = [posts[row] for row in order[:HELD_OUT]]
    releases = [as_moves(words, given, number, held) for number in range(len(given.release))]
    for number, (_, lifts, likely) in enumerate(releases):
        arrays |= {f"lifts_{number}": lifts, f"ngrams_{number}": likely}
    if given.public_model:
        arrays["ngrams_public"] = model_says(given.public_model, held)
    plans = [noise_plan(epsilon, given.delta, given.rate, given.steps) for epsilon in given.epsilon]
    arrays["claims"] = np.array([claim for claim, *_ in releases], np.str_)
    np.savez_compressed(given.output, plans=np.array(json.dumps(plans)), **arrays)
    print({name: array.shape for name, array in arrays.items()}, plans)


def word_list(vocab: Path) -> tuple[list[str], Any]:
    """The words of order 1, </s> and <unk>; and how text is cut."""
    from bayesgram.public.vocabulary import Vocabulary  # noqa: PLC0415

    vocabulary = Vocabulary.load(vocab)
    single = vocabulary.by_order[0][1].ngrams.to_pylist()
    return [word for word in single if word != END] + [END, UNKNOWN], vocabulary.tokenizer


def as_numbers(words: list[str], tokenizer: Any, texts: list[str]) -> tuple[Array, Array]:
    """Texts end to end as word numbers, </s> after each sentence; and where each text ends."""
    numbers = {word: number for number, word in enumerate(words)}
    end, unknown = numbers[END], numbers[UNKNOWN]
    stream: list[int] = []
    ends = []
    for text in texts:
        for sentence in tokenizer.sentences(text):
            stream.extend(numbers.get(word, unknown) for word in sentence)
            stream.append(end)
        ends.append(len(stream))
    return np.array(stream, np.uint16 if len(words) < 1 << 16 else np.int32), np.array(
        ends, np.int64
    )


def as_moves(
    words: list[str], given: argparse.Namespace, number: int, held: list[str]
) -> tuple[str, Array, Array]:
    """Return the claim of a release and β log θ/π of every word.

    Also what its n-gram model says of the held-out posts.
    """
    import bayesgram as bg  # noqa: PLC0415
    from bayesgram.lm.adaptation import DEFAULT_STRENGTH, WordLifts  # noqa: PLC0415

    release = bg.Release.load(given.release[number])
    lifts = WordLifts.from_release(release, bg.Vocabulary.load(given.vocab)).for_words(words)
    return release.card.claim, DEFAULT_STRENGTH * lifts, model_says(given.model[number], held)


def model_says(path: Path, held: list[str]) -> Array:
    """Return the probability of every word and sentence end of the held-out posts.

    By an n-gram model of the same words.
    """
    import pyarrow as pa  # noqa: PLC0415

    import bayesgram as bg  # noqa: PLC0415

    model = bg.lm.LanguageModel.load(path)
    stream = model.encode_texts(pa.array(held, pa.large_string()).cast(pa.large_binary()))
    return (10 ** model.trie.score(stream)[0]).astype(np.float32)


def noise_plan(epsilon: float, delta: float, rate: float, steps: int) -> dict[str, float]:
    """The noise multiplier of so many steps, each with so large a part of all posts."""
    import dp_accounting  # noqa: PLC0415
    from dp_accounting.pld import PLDAccountant  # noqa: PLC0415

    def event(noise: float) -> dp_accounting.DpEvent:
        sampled = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
        return dp_accounting.SelfComposedDpEvent(sampled, steps)

    interval = dp_accounting.ExplicitBracketInterval(0.3, 1000.0)
    noise = dp_accounting.calibrate_dp_mechanism(
        PLDAccountant, event, epsilon, delta, interval, tol=1e-2
    )
    return {
        "epsilon": epsilon,
        "delta": delta,
        "rate": rate,
        "steps": steps,
        "noise_multiplier": noise,
    }


# ---- rows of text


def rows_of(
    stream: Array, end: int, length: int, *, ends: Array | None = None
) -> tuple[Array, Array]:
    """Whole sentences in rows of a length, filled up with −1.

    Or, with ends of texts, a row for each text, cut off.

    Also which sentence of the row each word is in: words see no other.
    """
    sentence_ends = np.flatnonzero(stream == end) + 1
    pieces = _split(np.concatenate([[0], sentence_ends]), length)
    which = (
        _packed(np.diff(pieces), length)
        if ends is None
        else np.searchsorted(ends, pieces[:-1], side="right")
    )
    starts = pieces[:-1][np.unique(which, return_index=True)[1]]
    stops = np.append(starts[1:], stream.size)
    places = starts[:, None] + np.arange(length)
    inside = places < stops[:, None]
    safe = np.minimum(places, stream.size - 1)
    targets = np.where(inside, stream[safe].astype(np.int32), -1)
    number = np.searchsorted(pieces, np.arange(stream.size), side="right")
    return targets, np.where(inside, number[safe], 0).astype(np.int32)


def _split(edges: Array, length: int) -> Array:
    """The same edges, and more within sentences that are longer than a row."""
    long = np.flatnonzero(np.diff(edges) > length)
    more = [np.arange(edges[at] + length, edges[at + 1], length) for at in long]
    return np.sort(np.concatenate([edges, *more])).astype(np.int64)


def _packed(sizes: Array, length: int) -> Array:
    """Which row each piece goes into, one after the other."""
    which, row, filled = np.empty(sizes.size, np.int64), 0, 0
    for at, size in enumerate(sizes.tolist()):
        if filled + size > length:
            row, filled = row + 1, 0
        which[at], filled = row, filled + size
    return which


# ---- train: pre-training, then DP-SGD


def train(given: argparse.Namespace) -> None:
    """Pre-train on public text, then fine-tune a copy with DP-SGD for each plan.

    Write results and the public model.
    """
    import torch  # noqa: PLC0415
    from transformer import Learner, Size  # noqa: PLC0415

    if not torch.cuda.is_available() and not given.tiny:
        raise SystemExit(
            "dp_sgd.py train: needs a GPU, and torch sees none; --tiny rehearses it on a processor."
        )
    torch.manual_seed(1)
    data = np.load(given.data)
    words, plans = data["words"].tolist(), json.loads(str(data["plans"]))
    few = slice(None, 200 if given.tiny else None)
    end = words.index(END)
    public, held = (rows_of(data[name], end, LENGTH) for name in ("public", "held"))
    public, held = ((targets[few], sentences[few]) for targets, sentences in (public, held))
    private = rows_of(data["private"], end, LENGTH, ends=data["private_ends"])
    private = (private[0][few], private[1][few])
    given.output.mkdir(exist_ok=True, parents=True)
    learner = Learner(
        len(words), Size(32, 1, 2) if given.tiny else Size(given.width, given.layers, given.heads)
    )
    results: list[dict[str, Any]] = []

    def note(
        label: str, seconds: float, *, move: Any = None, ngrams: Any = None, **more: Any
    ) -> None:
        found = learner.evaluate(*held, move=move, ngrams=ngrams)
        results.append({"label": label, **found, **learner.size, "seconds": seconds, **more})
        print(json.dumps(results[-1]), flush=True)
        (given.output / "results.json").write_text(json.dumps(results, indent=2))

    start = perf_counter()
    if given.start_from:
        learner.load(given.start_from)
    else:
        learner.pre_train(*public, epochs=given.epochs, batch=given.batch, rate=given.learning_rate)
    learner.save(given.output / "public.pt")
    note("public", perf_counter() - start)
    mixed = {"ngrams": (SHARE, data["ngrams_public"])} if "ngrams_public" in data else {}
    if mixed:
        note("public, and public n-grams", 0.0, **mixed)
    for number, claim in enumerate(data["claims"].tolist()):
        move, likely = data[f"lifts_{number}"], data[f"ngrams_{number}"]
        note(f"adapted, words moved: {claim}", 0.0, move=move)
        note(f"adapted, and n-grams: {claim}", 0.0, move=move, ngrams=(SHARE, likely))
    for setting in given.dp:
        which, speed, clip = setting.split(":")
        for plan in plans:
            if given.only and plan["epsilon"] not in given.only:
                continue
            learner.load(given.output / "public.pt")
            start = perf_counter()
            learner.fine_tune(
                *private, plan, which=which, rate=float(speed), clip=float(clip), chunk=given.chunk
            )
            note(
                "DP-SGD",
                perf_counter() - start,
                **plan,
                learns=which,
                learning_rate=float(speed),
                clip=float(clip),
            )
            if mixed:
                note("DP-SGD, and public n-grams", 0.0, **plan, learns=which, **mixed)


# ---- adapt: the same public transformer, moved by releases


def adapt(given: argparse.Namespace) -> None:
    """Judge the public transformer and its adaptations on held-out posts, word by word.

    Add them to the results.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415
    from transformer import TransformerScorer  # noqa: PLC0415

    import bayesgram as bg  # noqa: PLC0415
    from bayesgram.lm.scoring import extract_events  # noqa: PLC0415

    words = np.load(given.data)["words"].tolist()
    vocabulary = bg.Vocabulary.load(given.vocab)
    scorer = TransformerScorer(words, given.run / "public.pt")
    rows: dict[str, Any] = {"public": scorer}
    for number, path in enumerate(given.release):
        release = bg.Release.load(path)
        label = release.card.claim
        rows[f"{label}, words moved"] = bg.lm.adapt(scorer, release, vocabulary)
        if given.model:
            model = bg.lm.LanguageModel.load(given.model[number])
            rows[f"{label}, and n-grams"] = bg.lm.adapt(scorer, release, vocabulary, model=model)
    posts = pq.read_table(given.posts)["text"].to_pylist()
    order = np.random.default_rng(SEED).permutation(len(posts))[: min(given.held_out, HELD_OUT)]
    asked = extract_events(words, vocabulary.tokenizer, [posts[row] for row in order])
    found = [
        {"label": f"adapted: {label}", **values}
        for label, values in judge(rows, asked, words).items()
    ]
    for each in found:
        print(json.dumps(each))
    (given.run / "adapted.json").write_text(json.dumps(found, indent=2))


def judge(
    rows: dict[str, Any], asked: Any, words: list[str], size: int = 128
) -> dict[str, dict[str, float]]:
    """Perplexity and suggestions of several scorers.

    The transformer that they share is asked once for each context.
    """
    totals = {label: np.zeros(3) for label in rows}
    shown = np.array([word not in {END, UNKNOWN} for word in words])
    seconds = dict.fromkeys(rows, 0.0)
    is_word = asked.targets != words.index(END)
    for first in range(0, len(asked.contexts), size):
        contexts = asked.contexts[first : first + size]
        low, high = np.searchsorted(asked.context_index, [first, first + size])
        at, targets = asked.context_index[low:high] - first, asked.targets[low:high]
        for label, scorer in rows.items():
            start = perf_counter()
            logs = scorer.log_probabilities(contexts)
            seconds[label] += perf_counter() - start
            own = logs[at, targets]
            above = np.array(
                [(logs[row][shown] > mine).sum() for row, mine in zip(at, own, strict=True)]
            )
            right = is_word[low:high] & shown[targets]
            totals[label] += [own.sum(), (right & (above < 1)).sum(), (right & (above < 3)).sum()]
    return {
        label: {
            "perplexity": float(np.exp(-total[0] / asked.targets.size)),
            "first": float(total[1] / is_word.sum()),
            "third": float(total[2] / is_word.sum()),
            "predictions": int(asked.targets.size),
            "seconds": seconds[label],
        }
        for label, total in totals.items()
    }


# ---- table


def table(given: argparse.Namespace) -> None:
    """Print all results as Markdown."""
    print(
        "| | perplexity | first suggestion right | one of three | parameters | seconds |\n|---|---|---|---|---|---|"
    )
    for name in ("results.json", "adapted.json"):
        path = given.run / name
        for row in json.loads(path.read_text()) if path.exists() else []:
            more = ", ".join(f"{key} = {row[key]:g}" for key in ("epsilon", "delta") if key in row)
            learns = f", learns: {row['learns']}" if "learns" in row else ""
            size = f"{row['parameters'] / 1e6:.1f}M" if "parameters" in row else ""
            right = [f"{row[key]:.1%}" if key in row else "" for key in ("first", "third")]
            cells = [
                f"{row['label']} {more}{learns}",
                f"{row['perplexity']:.1f}",
                *right,
                size,
                f"{row['seconds']:.0f}",
            ]
            print(f"| {' | '.join(cells)} |")


def main() -> None:
    """Parse, call."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    stages = parser.add_subparsers(required=True)
    one = stages.add_parser("prepare")
    one.add_argument("--vocab", type=Path, required=True)
    one.add_argument("--posts", type=Path, required=True)
    one.add_argument("--public", type=Path, nargs="+", required=True)
    one.add_argument(
        "--release", type=Path, nargs="*", default=[], help="releases that adapt the transformer"
    )
    one.add_argument("--model", type=Path, nargs="*", default=[], help="the n-gram model of each")
    one.add_argument(
        "--public-model", type=Path, help="a public n-gram model, for rows without a release"
    )
    one.add_argument("--epsilon", type=float, nargs="+", default=[0.2, 1.0, 8.0])
    one.add_argument("--delta", type=float, default=1e-7)
    one.add_argument(
        "--rate", type=float, default=0.1, help="the probability of each post in a step"
    )
    one.add_argument("--steps", type=int, default=150)
    one.add_argument("-o", "--output", type=Path, required=True)
    one.set_defaults(run_stage=prepare)
    two = stages.add_parser("train")
    two.add_argument("data", type=Path)
    two.add_argument("-o", "--output", type=Path, required=True)
    two.add_argument("--tiny", action="store_true")
    two.add_argument("--start-from", type=Path, help="a public.pt: not pre-trained again")
    two.add_argument("--epochs", type=int, default=10)
    two.add_argument("--batch", type=int, default=128)
    two.add_argument("--learning-rate", type=float, default=1.5e-3)
    two.add_argument("--width", type=int, default=256)
    two.add_argument("--layers", type=int, default=4)
    two.add_argument("--heads", type=int, default=4)
    two.add_argument(
        "--chunk", type=int, default=128, help="posts whose gradients are in memory at once"
    )
    two.add_argument(
        "--dp",
        nargs="*",
        default=["blocks:0.5:1"],
        help="what learns (biases, blocks, all):rate:clip",
    )
    two.add_argument("--only", type=float, nargs="*", help="of the values of ε, these")
    two.set_defaults(run_stage=train)
    three = stages.add_parser("adapt")
    three.add_argument("data", type=Path)
    three.add_argument("run", type=Path)
    three.add_argument("--vocab", type=Path, required=True)
    three.add_argument("--posts", type=Path, required=True)
    three.add_argument("--release", type=Path, nargs="+", required=True)
    three.add_argument("--model", type=Path, nargs="*", help="the n-gram model of each release")
    three.add_argument("--held-out", type=int, default=HELD_OUT)
    three.set_defaults(run_stage=adapt)
    four = stages.add_parser("table")
    four.add_argument("run", type=Path)
    four.set_defaults(run_stage=table)
    given = parser.parse_args()
    given.run_stage(given)


if __name__ == "__main__":
    main()
