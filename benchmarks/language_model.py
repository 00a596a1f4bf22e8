"""How fast a language model of a million n-grams loads, scores and predicts, next to KenLM in the same run.

    python benchmarks/language_model.py [--ngrams 1000000]

The model is made from random trigrams with Zipf-like words, so it needs no data. Each program is measured in a process
of its own: loading includes no import; scoring includes cutting the text into words (ours in lower case); scoring and
predicting are processor time; memory is what the process holds more after loading and scoring than before. KenLM is
measured where it is installed (`make test` builds it), from the ARPA file; its binary format, which its Python package
can't write, loads at once.
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

from bayesgram.released.arpa import write_arpa
from bayesgram.released.language_model import LanguageModel

WORDS = 60_000
SENTENCES = 20_000
LENGTH = 12

MEASURE = """
import json, sys
from time import perf_counter, process_time
def memory():
    with open("/proc/self/status") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith(("VmRSS:", "VmSwap:"))) / 1024
kind, path, text = sys.argv[1:]
sentences = [line.split() for line in open(text, encoding="utf-8")]
words = sum(map(len, sentences)) + len(sentences)
found = {}
if kind == "bayesgram":
    import pyarrow as pa
    from bayesgram.released.language_model import LanguageModel
    warm = LanguageModel.from_counts(pa.array(["a b", "b a"]), [1, 1])
    warm.score("a b"); warm.predict("a"); warm.score(["a"])
    rows = pa.array([" ".join(words).encode() for words in sentences], pa.large_binary())
    warm.trie.walk(warm.stream(rows))
    before, start = memory(), perf_counter()
    model = LanguageModel.load(path)
    found["load_seconds"] = perf_counter() - start
    start = process_time()
    total = model.trie.walk(model.stream(rows))[0].sum()
    found["score_microseconds_a_word"] = 1e6 * (process_time() - start) / words
    contexts = [" ".join(words[:5]) for words in sentences[:2000]]
    model.predict(contexts[0])
    times = []
    for context in contexts:
        start = process_time()
        model.predict(context, 5)
        times.append(process_time() - start)
    found["predict_milliseconds_median"] = 1e3 * sorted(times)[len(times) // 2]
    found["predict_milliseconds_99_percent"] = 1e3 * sorted(times)[len(times) * 99 // 100]
else:
    import kenlm
    lines = [" ".join(words) for words in sentences]
    before, start = memory(), perf_counter()
    model = kenlm.Model(path)
    found["load_seconds"] = perf_counter() - start
    start = process_time()
    total = sum(map(model.score, lines))
    found["score_microseconds_a_word"] = 1e6 * (process_time() - start) / words
found["memory_mb"] = memory() - before
found["log10_total"] = float(total)
print(json.dumps(found))
"""


def make_model(ngrams: int, rng: np.random.Generator) -> LanguageModel:
    """A model whose longest n-grams are this many distinct trigrams, with Zipf-like words and counts."""
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
    rows = trie.rows(3)[rng.integers(0, model.sizes[2], (SENTENCES, LENGTH // 3))].reshape(SENTENCES, LENGTH)
    names = [word.decode() for word in trie.words.all()]
    return [" ".join(names[number] for number in row) for row in rows.tolist()]


def measure(kind: str, path: Path, text: Path) -> dict[str, float] | None:
    """One process: load, score, predict."""
    arguments = [sys.executable, "-c", MEASURE, kind, str(path), str(text)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)  # noqa: S603 - our own code
    if done.returncode:
        return None
    return {name: float(value) for name, value in json.loads(done.stdout.splitlines()[-1]).items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ngrams", type=int, default=1_000_000)
    rng = np.random.default_rng(1)
    start = perf_counter()
    model = make_model(parser.parse_args().ngrams, rng)
    print(f"built {model} in {perf_counter() - start:.1f} s, with making up its n-grams")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model.save(folder / "model")
        (folder / "text").write_text("\n".join(make_text(model, rng)), encoding="utf-8")
        start = perf_counter()
        write_arpa(model, folder / "model.arpa")
        print(f"ARPA file written in {perf_counter() - start:.1f} s")
        ours = measure("bayesgram", folder / "model", folder / "text")
        theirs = measure("kenlm", folder / "model.arpa", folder / "text")
    for label in ours or {}:
        mine, other = (ours or {})[label], (theirs or {}).get(label)
        ratio = f"{mine / other:8.3f} ×" if other else ""
        print(f"{label:36}{mine:14.4f}{other if other is not None else float('nan'):14.4f}{ratio:>12}")
    print("columns: bayesgram, KenLM (ARPA file), ratio" if theirs else "KenLM is not installed: no comparison")


if __name__ == "__main__":
    main()
