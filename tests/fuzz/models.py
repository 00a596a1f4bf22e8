"""Language models: ARPA files and model folders.

What is imported adds up to 1 after every context, computed by dictionaries and loops; written and
read again it is the same. A damaged folder may neither crash a kernel nor keep one busy, and
whatever it holds, a probability is a number.
"""

import io
import json
import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa

from bayesgram.errors import BayesgramError
from bayesgram.lm.arpa import SUM_TOLERANCE, read_arpa, write_arpa
from bayesgram.lm.files import CASING, CONTENTS, MODEL_JSON
from bayesgram.lm.language_model import LanguageModel
from fuzz.mutations import mutated, mutated_json
from fuzz.target import Target, must, scratch

TABLES = [
    {"red fish": 4, "blue fish": 2, "fish swim": 3},
    {
        "a b c": 3,
        "b c a": 1,
        "a b é": 2,
        "<s> a b": 1,
        "c a </s>": 1,
        "a b": 9,
        "b c": 4,
        "a": 20,
        "c": 3,
    },
]
TEXTS = ("red fish swim. a b c", "", "zzz", "é a b")


@cache
def models() -> list[LanguageModel]:
    return [LanguageModel.from_counts(pa.array([*table]), [*table.values()]) for table in TABLES]


def use(model: LanguageModel, *, forged: bool = False) -> None:
    """Everything that commands ask of a model; whoever forges one may say of its words what they
    like.
    """
    for text in TEXTS:
        score, predicted = model.score(text), model.predict(text, 4)
        sound = score <= 0 or math.isclose(score, 0, abs_tol=1e-3)
        must(forged or sound, f"log10 of a probability is {score}")
        must(
            forged or all(0 <= word.probability <= 1 + 1e-3 for word in predicted), "no probability"
        )
        must(len(model.score_words(text)) >= 0, "no words")
    model.predict("a", 1000, typed="f")
    "".join(each.word for each in model.suggest("a ", 1000)).encode()


# ARPA


@cache
def made_arpa() -> list[bytes]:
    found = []
    with scratch() as folder:
        for model in models():
            write_arpa(model, Path(folder) / "x.arpa", force=True)
            found.append((Path(folder) / "x.arpa").read_bytes())
    by_hand = b"\\data\\\nngram 1=4\nngram 2=1\n\n\\1-grams:\n-99\t<s>\t0\n-0.4771213\t</s>\n-0.4771213\t<unk>\n"
    return [*found, by_hand + b"-0.4771213\ta\t0\n\n\\2-grams:\n-0.4771213\ta a\n\n\\end\\\n"]


def literal_sums(data: bytes) -> list[float]:
    """Σ_w p(w|h) over all words but <s>, of every context there is."""
    logs: dict[tuple[bytes, ...], float] = {}
    backoffs: dict[tuple[bytes, ...], float] = {}
    order = 0
    for line in data.split(b"\n"):
        fields = line.split()
        if fields and fields[0].endswith(b"-grams:") and fields[0].startswith(b"\\"):
            order = int(fields[0][1:].split(b"-")[0])
        elif fields == [b"\\end\\"]:
            break
        elif fields and order:
            ngram = tuple(fields[1 : order + 1])
            logs[ngram] = float(fields[0])
            backoffs[ngram] = float(fields[order + 1]) if len(fields) > order + 1 else 0.0
    words = [ngram for ngram in logs if len(ngram) == 1 and ngram != (b"<s>",)]

    def probability(context: tuple[bytes, ...], word: tuple[bytes, ...]) -> float:
        if context + word in logs:
            return 10 ** logs[context + word]
        return 10 ** backoffs.get(context, 0.0) * probability(context[1:], word)

    contexts = {(), *(ngram for ngram in logs if len(ngram) < order)}
    return [sum(probability(context, word) for word in words) for context in contexts]


def check_arpa(data: bytes, folder: Path) -> None:
    path = folder / "x.arpa"
    path.write_bytes(data)
    model = read_arpa(path)
    must(
        all(abs(total - 1) <= 2 * SUM_TOLERANCE for total in literal_sums(data)),
        "a context does not add up to 1",
    )
    use(model)
    write_arpa(model, folder / "again.arpa", force=True)
    again = read_arpa(folder / "again.arpa")
    for name in ("word", "first_child", "suffix", "log_probability", "log_backoff"):
        same = np.array_equal(getattr(model.trie, name), getattr(again.trie, name))
        must(same, f"written and read, {name} is another")
    must(
        model.trie.words.to_list() == again.trie.words.to_list(),
        "written and read, the words are others",
    )


# Model folders: the first byte of an input says which file it is


HEAD = 128  # bytes before the numbers of an array


@cache
def saved_model() -> list[bytes]:
    with scratch() as folder:
        replace(models()[1].quantise(4), casing={"a": "A", "é": "É"}).save(Path(folder) / "model")
        return [(Path(folder) / "model" / name).read_bytes() for name in CONTENTS]


def made_model() -> list[bytes]:
    return [bytes([at]) + content for at, content in enumerate(saved_model())]


def mutated_model(random: Random, seeds: Sequence[bytes]) -> bytes:
    saved = saved_model()
    data = random.choice(seeds)
    which, content = data[:1], data[1:]
    if random.random() < 0.2 or which[0] >= len(CONTENTS):
        return which + mutated(random, content, [seed[1:] for seed in seeds])
    if CONTENTS[which[0]] in {MODEL_JSON, CASING}:
        return which + mutated_json(random, json.loads(saved[which[0]]))
    return which + _mutated_array(random, np.load(io.BytesIO(saved[which[0]])))


def _mutated_array(random: Random, array: np.ndarray) -> bytes:
    """Other numbers, another length, type or shape."""
    array = array.copy()
    for _ in range(random.choice((1, 1, 2, 5))):
        at = random.randrange(max(array.size, 1))
        number = random.choice(
            (0, 1, -1, 2, 5, array.size, array.size - 1, 127, 2**31 - 1, -(2**31))
        )
        match random.randrange(8):
            case 0:
                array = np.delete(array, at) if at < array.size else array
            case 1:
                array = np.append(array, np.array([number]).astype(array.dtype))
            case 2:
                array = array[:at]
            case 3 if array.dtype.kind == "f":
                with np.errstate(over="ignore"):
                    array[at : at + 1] = random.choice(
                        (math.nan, math.inf, -math.inf, 1e30, -1e30, 3.0)
                    )
            case _:
                array[at : at + 1] = np.array([number]).astype(array.dtype)
    array = array.ravel()
    match random.randrange(12):
        case 0:
            with np.errstate(invalid="ignore"):
                array = array.astype(
                    random.choice((np.int8, np.int64, np.float64, ">i4", "U3", "S2", np.bool_))
                )
        case 1:
            array = random.choice(
                (array.reshape(1, -1), array.reshape(-1, 1), np.array(7, array.dtype))
            )
        case 2:
            array = np.array([{"a": 1}, None], object)
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def check_model(data: bytes, folder: Path) -> None:
    """Refused, or as it was; and with checksums that somebody forged, refused or harmless."""
    place = _put(data, folder)
    _forge_checksums(place)
    try:
        forged = LanguageModel.load(place)
    except BayesgramError:
        forged = None
    if forged is not None:
        use(forged, forged=True)
    use(LanguageModel.load(_put(data, folder)))


def _put(data: bytes, folder: Path) -> Path:
    place = folder / "model"
    place.mkdir(exist_ok=True)
    for at, (name, content) in enumerate(zip(CONTENTS, saved_model(), strict=True)):
        (place / name).unlink(missing_ok=True)  # it may be mapped into memory
        (place / name).write_bytes(data[1:] if data[:1] == bytes([at]) else content)
    return place


def _forge_checksums(place: Path) -> None:
    """Let `model.json` say what is there, as far as there is anything."""
    try:
        about = json.loads((place / MODEL_JSON).read_bytes())
        for name in about["crc32"]:
            content = (
                (place / name).read_bytes()
                if name == CASING
                else (place / f"{name}.npy").read_bytes()[HEAD:]
            )
            about["crc32"][name] = zlib.crc32(content)
        text = json.dumps(about)
    except (ValueError, KeyError, TypeError, OSError, RecursionError):
        return
    (place / MODEL_JSON).unlink()
    (place / MODEL_JSON).write_text(text)


def targets() -> Iterator[Target]:
    """Models."""
    yield Target("arpa", 100, made_arpa, check_arpa)
    yield Target("model", 15, made_model, check_model, mutated_model)
