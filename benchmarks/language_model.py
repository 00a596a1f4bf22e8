"""How fast a language model of two million n-grams loads, scores and predicts.

Also its size, beside KenLM in one run.

    python benchmarks/language_model.py [--ngrams 1000000] [--build-binary kenlm/build/bin/build_binary]

The model is made from random trigrams with Zipf-like words, so it needs no data. Each program is
measured in a process of its own: loading includes no import; scoring includes cutting the text into
words (ours in lower case); scoring and predicting are processor time, the middle one of some
passes; memory is what the process holds more after loading and scoring than before. The programs
take turns, and the best of each counts: other work on the machine hits them all. KenLM is measured
where it is installed (`make test` builds it): from the ARPA file, which makes it fast and large;
and as a trie of 8 bits, which makes it small and slow, where its program `build_binary` is given.
What that trie takes is computed from its layout in any case.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa

from bayesgram.lm.arpa import write_arpa
from bayesgram.lm.language_model import LanguageModel

WORDS = 60_000
SENTENCES = 20_000
LENGTH = 12

PASSES = 7
TURNS = 3

MEASURE = """
import json, sys
from time import perf_counter, process_time
def memory():
    with open("/proc/self/status") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith(("VmRSS:", "VmSwap:"))) / 1024
def timed(passes, run, *arguments):
    times = []
    for _ in range(passes):
        start = process_time()
        answer = run(*arguments)
        times.append(process_time() - start)
    return sorted(times)[passes // 2], answer
kind, path, text, passes = *sys.argv[1:4], int(sys.argv[4])
sentences = [line.split() for line in open(text, encoding="utf-8")]
words = sum(map(len, sentences)) + len(sentences)
found = {}
if kind == "bayesgram":
    import pyarrow as pa
    from bayesgram.lm.language_model import LanguageModel
    warm = LanguageModel.from_counts(pa.array(["a b", "b a"]), [1, 1])
    warm.score("a b"); warm.predict("a"); warm.score(["a"])
    warm.save(text + ".warm", force=True)
    LanguageModel.load(text + ".warm")
    rows = pa.array([" ".join(words).encode() for words in sentences], pa.large_binary())
    warm.total_log10(rows)
    before, start = memory(), perf_counter()
    model = LanguageModel.load(path)
    found["load_seconds"] = perf_counter() - start
    seconds, (total, _) = timed(passes, model.total_log10, rows)
    found["score_microseconds_a_word"] = 1e6 * seconds / words
    found["memory_mb"] = memory() - before
    contexts = [" ".join(words[:5]) for words in sentences[:2000]]
    for k in (3, 5):
        model.predict(contexts[0], k)
        times = sorted(timed(3, model.predict, context, k)[0] for context in contexts)
        found[f"predict_{k}_milliseconds_median"] = 1e3 * times[len(times) // 2]
        found[f"predict_{k}_milliseconds_99_percent"] = 1e3 * times[len(times) * 99 // 100]
else:
    import kenlm
    lines = [" ".join(words) for words in sentences]
    before, start = memory(), perf_counter()
    model = kenlm.Model(path)
    found["load_seconds"] = perf_counter() - start
    seconds, total = timed(passes, lambda: sum(map(model.score, lines)))
    found["score_microseconds_a_word"] = 1e6 * seconds / words
    found["memory_mb"] = memory() - before
found["total_log10"] = total
print(json.dumps(found))
"""


def make_model(ngrams: int, rng: np.random.Generator) -> LanguageModel:
    """Return a model of this many distinct trigrams.

    Words and counts are Zipf-like.
    """
    rank = np.arange(1, WORDS + 1)
    chosen = rng.choice(WORDS, size=(2 * ngrams, 3), p=(1 / rank) / (1 / rank).sum())
    chosen = np.unique(chosen, axis=0)
    chosen = chosen[rng.permutation(len(chosen))[:ngrams]]
    words = np.array([f"w{number:x}" for number in rank], object)
    text = pa.array([" ".join(row) for row in words[chosen].tolist()], pa.large_string())
    return LanguageModel.from_counts(text, rng.zipf(1.6, len(chosen)).clip(max=10**6) + 1.0)


def make_text(model: LanguageModel, rng: np.random.Generator) -> list[str]:
    """Sentences of words that often follow one another."""
    trie = model.trie
    rows = trie.ngrams(3)[rng.integers(0, model.sizes[2], (SENTENCES, LENGTH // 3))].reshape(
        SENTENCES, LENGTH
    )
    names = [word.decode() for word in trie.words.to_list()]
    return [" ".join(names[number] for number in row) for row in rows.tolist()]


def measure(kind: str, path: Path, text: Path) -> dict[str, float] | None:
    """One process: load, score, predict."""
    arguments = [sys.executable, "-c", MEASURE, kind, str(path), str(text), str(PASSES)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode:
        return None
    return {name: float(value) for name, value in json.loads(done.stdout.splitlines()[-1]).items()}


def kenlm_trie_size(model: LanguageModel) -> int:
    """The bytes of KenLM's trie with 8 bits a probability and a back-off weight.

    lm/trie.cc, lm/vocab.cc.

    Without its file's copy of the words' letters. An n-gram takes the bits of the largest word
    number, its codes and, if it may be a context, the bits of the largest place of the next order;
    a word takes 24 bytes.
    """
    words = model.sizes[0]
    size = 24 * (words + 2)
    for order, ngrams in enumerate(model.sizes[1:], start=2):
        longest = order == model.order
        bits = words.bit_length() + (8 if longest else 16 + model.sizes[order].bit_length())
        size += -(-(1 + ngrams) * bits // 8) + 8
    return size


def measure_all(
    model: LanguageModel, folder: Path, build_binary: Path | None
) -> dict[str, dict[str, float]]:
    """Every program with the same model and the same text."""
    programs = {
        "exact": ("bayesgram", "exact"),
        "8 bits": ("bayesgram", "8 bits"),
        "KenLM": ("kenlm", "model.arpa"),
    }
    for name, each in (("exact", model), ("8 bits", model.quantise())):
        each.save(folder / name)
        print(f"{name}: a folder of {each.size_on_disk / 1e6:.2f} MB")
    start = perf_counter()
    write_arpa(model, folder / "model.arpa")
    print(f"ARPA file written in {perf_counter() - start:.1f} s")
    print(f"KenLM's trie of 8 bits, by its layout: {kenlm_trie_size(model) / 1e6:.2f} MB")
    if build_binary is not None:
        trie = folder / "model.trie"
        command = [build_binary, "-q", "8", "-b", "8", "trie", folder / "model.arpa", trie]
        subprocess.run(command, check=True, capture_output=True)
        print(
            f"KenLM's trie of 8 bits, a file with the words' letters: {trie.stat().st_size / 1e6:.2f} MB"
        )
        programs["KenLM trie"] = ("kenlm", "model.trie")
    found: dict[str, dict[str, float]] = {}
    for _ in range(TURNS):
        for name, (kind, path) in programs.items():
            once = measure(kind, folder / path, folder / "text")
            if once:
                found[name] = {
                    label: min(value, found.get(name, once)[label]) for label, value in once.items()
                }
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ngrams", type=int, default=1_000_000)
    parser.add_argument("--build-binary", type=Path)
    given = parser.parse_args()
    rng = np.random.default_rng(1)
    start = perf_counter()
    model = make_model(given.ngrams, rng)
    print(f"built {model} in {perf_counter() - start:.1f} s, with making up its n-grams")
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "text").write_text("\n".join(make_text(model, rng)), encoding="utf-8")
        found = measure_all(model, Path(name), given.build_binary)
    show(found)


def show(found: dict[str, dict[str, float]]) -> None:
    """A column for each program, and what ours is of KenLM's."""
    ratios = [
        (ours, theirs)
        for theirs in ("KenLM", "KenLM trie")
        for ours in ("exact", "8 bits")
        if theirs in found
    ]
    print(
        " " * 36
        + "".join(f"{name:>14}" for name in found)
        + "".join(f"{f'{a} / {b}':>22}" for a, b in ratios)
    )
    for label in found["exact"]:
        values = {name: each.get(label) for name, each in found.items()}
        row = "".join(f"{'' if value is None else f'{value:.4f}':>14}" for value in values.values())
        shares = ((values[a] or 0.0, values[b]) for a, b in ratios)
        print(
            f"{label:36}{row}"
            + "".join(f"{f'{mine / other:.3f} ×' if other else '':>22}" for mine, other in shares)
        )
    if "KenLM" not in found:
        print("KenLM is not installed: no comparison")


if __name__ == "__main__":
    main()
