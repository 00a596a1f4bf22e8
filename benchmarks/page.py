"""docs/benchmarks.md from docs/benchmarks.json.

Tables, what was compared with what, and on which machine.
"""

import json
import sys
from pathlib import Path
from typing import Any

from measure import CommandFailedError, run

Result = dict[str, Any]

ORDER = (
    "vocabulary",
    "counts",
    "gamma",
    "clip",
    "noise",
    "histogram",
    "grid",
    "growth",
    "startup",
    "scale",
)
INTRODUCTION = """# Benchmarks

At the end of this page you know how fast Bayesgram is, and how much memory it takes, beside the tools
that one would otherwise use for the same work."""
READING = """How to read the tables:

- `make bench` (`benchmarks/speed.py page`) runs all tools in turns, each repeat in a process of its own.
  All tables are of one run, but for that of growth with random words, which was measured right after it on
  the same machine.
- *Times* are wall time of the whole process, from Parquet to a written result. Times in ns a nonzero,
  and those of noise and of Algorithm 2, are of the work alone, after loading and compiling.
- *best* is the fastest repeat, *spread* the fastest and the slowest. *memory* is the peak of the
  largest repeat, of the whole process.
- A *ratio* of 3 means that Bayesgram took a third of that tool's time, both at their best.
- Start-up is most of a short run: about 0.6 s of Bayesgram's time is Python, Arrow and Numba.
- *Generated* text has few different words, which suits every hash table. *Random words* suit none: a
  million different ones follow each other by chance, so most n-grams are new. *Real text* is 425,984
  Reddit posts, Wikipedia paragraphs, commit messages, film reviews and everyday sentences.

![Megabytes of text a second, by tool](images/speed.svg)
"""
MANY_CORES = """## 16 cores

This is of another machine, with Python 3.12, pyarrow 25 and polars 2.1: the better of two runs of Bayesgram,
and one run of polars.

| 16 cores | Bayesgram | polars |
|---|--:|--:|
| `vocab`, 600 MB, generated | 3.9 s, 1.0 GB | 2.5 s, 1.3 GB |
| `vocab`, 1 GB, random words | 5.2 s, 1.1 GB | 5.9 s, 11.7 GB |
| `count`, 600 MB, generated | 6.1 s, 1.2 GB | 4.4 s, 9.5 GB |
| `count`, 1 GB, random words | 4.4 s, 1.0 GB | 3.2 s, 0.8 GB |

Small row groups of Parquet are decoded side by side since then. On a second machine of the same kind, whose
cores were about a third slower, `vocab` then took 3.2 s on the generated text and 5.2 s on the random words.
What is left on one core: starting (0.8 s there), numbering new words in `vocab`, and numbering users and
collecting their n-grams in `count`.
"""
# Shown until `make bench` has measured the task `scale` as a whole.
SCALE = """## The paper's scale

2443.9 MB of generated text of 4,400,000 users, with the default vocabulary (50,000 words, pairs and triples
each, with the boundaries of sentences); one run each, on the machine below.

| step | seconds | memory |
|---|--:|--:|
| `bayesgram vocab` | 2.6 | 0.56 GB |
| `bayesgram count` | 85.3 | 2.05 GB |
| `bayesgram release` | 122 | 0.56 GB |

The counts folder takes 1.5 GB on disk. Beside the code of before, in turns, `count` of 1 GB of generated text
against this vocabulary took 24.6 s and 1.24 GB (25.0 s and 1.20 GB before).
"""
PICTURE = """![Time and peak memory of vocab and count as the text grows](images/growth.svg)"""
MEMORY = """## What stays in memory, and what is spilled to disk

- `vocab`: batches of 4 MB of text, every distinct token once (70 to 110 bytes each; while text is read, a
  copy of the table that finds them, an eighth of `--memory` at most), and the text as token numbers, 4 bytes each,
  up to three eighths of `--memory`. The numbers of what comes after that are written to disk (3/4 of the size of
  the text). When all is read, n-grams are first counted in cells that they share by hash (an eighth of `--memory` at
  most): no n-gram occurs more often than its cell says. Only n-grams whose cells reach what the last of the most
  frequent needs get a place in a table (24 to 48 bytes; order 3 and less than two million tokens), where they are
  counted exactly. Of real text that is a few in a hundred.
- If the first 2 MB of a text have few different n-grams (characters, single words, a small language), the text is
  counted in tables as it comes, and not kept.
  A table that reaches half of `--memory` goes to disk, with 20 bytes for an n-gram of order 3. Where the text is
  not kept, all tables together may take three quarters of `--memory`. Tables come back a 64th at a time. The
  answer is exact either way.
- `count`: batches of text, 32 bytes for each of the occurrences that `--memory` holds, and the users' ids (70 bytes
  and the id, each). Occurrences beyond that are spilled to disk, 8 bytes each, and come back a 256th of the users at a time.
- `release`, `evaluate` and `report`: a few blocks of half a million pairs of a user and an n-gram, however many users
  there are ([below](#users-that-stay-on-disk)). A file made elsewhere in which a user's rows are not together, `paper`,
  `paper tune`, `paper sensitivity` and `audit` take 8 bytes for each pair, and the users' ids; 12 more while loading.

Two runs with `--memory 500MB`: `vocab` over 19.6 GB of made-up messages (2.4 GB, eight times over) took 139 s and
0.69 GB; `count` over 9.8 GB of 4.4 million users (the same, four times over) took 116 s and 0.97 GB.

So 20 GB of text fit in 2 GB, also where it does not repeat itself: with `--memory 500MB`, numbers, cells and tables
take 0.5 GB, what is read and the program 0.4 GB, and the tokens the rest. In 48 MB of Reddit and Wikipedia there are
217,000 distinct ones, and they grow as about the 0.6th power of the text: 8 million in 20 GB, 0.8 GB. That last number
is extrapolated. The growth above is of text where most n-grams are new: time grows with the text, the memory of
`vocab` does not, and that of `count` grows with the users (1.6 million in 1 GB). (At 125 and 250 MB millions of
n-grams tie for the last place, which takes some seconds.)

### Users that stay on disk

`python benchmarks/memory.py --users 500000 1000000 4400000`: counts drawn by Zipf's law, 50,000 trigrams, `posterior`
at ε = 1. Before, all counts were loaded. The machine was busy with other work (a load of 15 on two cores), so what
counts is processor time; one run each, before and now in runs of their own. Run in turns, with a reader that still
held the compressed file, 4.4 million users took 37.8 s before and 33.1 s then (`evaluate` 22.1 and 6.3), and
`distribution.parquet` of one seed was the same bytes at every size. For 1,000 users `release` takes 0.46 GB: that is
the program and what it infers.

| users | pairs | `release`, before | now | `evaluate`, before | now |
|--:|--:|--:|--:|--:|--:|
| 500,000 | 22.6 million | 7.8 s, 0.73 GB | 7.2 s, 0.47 GB | 3.0 s, 0.71 GB | 1.6 s, 0.36 GB |
| 1,000,000 | 45.2 million | 13.0 s, 1.08 GB | 10.4 s, 0.51 GB | 5.9 s, 1.06 GB | 2.0 s, 0.39 GB |
| 4,400,000 | 198.8 million | 37.8 s, 4.60 GB | 29.9 s, 0.52 GB | 22.1 s, 4.55 GB | 5.4 s, 0.40 GB |
"""
DIFFERENCES = """## What the peers compute differently

- All cut words as runs of letters and digits with inner apostrophes, lower-cased, and end sentences at `. ! ? ; : …`
  and line ends. Bayesgram does more: NFC, all sentence ends and joiners of Unicode ([text.md](text.md)), invalid UTF-8
  refused, apostrophes folded. So a few n-grams differ; the notes say how many agree.
- Of n-grams with equal counts at the 50,000th place the peers keep any, Bayesgram those that come first in byte order:
  on generated text, nothing else differs between the vocabularies of polars, DuckDB, Counter and Bayesgram.
- scikit-learn's n-grams cross sentence ends, and its words follow Python's `\\w`.
- `bayesgram count` writes users in the order of a hash of their ids, with their n-grams ascending; polars and DuckDB
  write rows in any order.
- *polars* is the fastest query that we found: words as categories, three numbers to group by, the streaming engine,
  strings only for the winners. *polars, strings* is the one that one writes first.
- scipy's sums are floating point, and depend on the order of users in the last bits; Bayesgram's are integers.
- OpenDP and PipelineDP bound a user to 10 n-grams, each counted once: OpenDP the first ones (`keep="sample"` raised an
  error of Polars in this query), PipelineDP random ones. `laplace` keeps 10 random occurrences and `gaussian` scales a
  user down to an L2 norm of 4, so more of what people wrote is left. All add noise to every n-gram of the vocabulary,
  also to those that nobody wrote; OpenDP's and Bayesgram's noise is exact on integers.
- KenLM is not here: its `count_ngrams` is not in the package on PyPI, and needs a C++ compiler and Boost.
- PipelineDP's local backend is plain Python, so it gets fewer users, and so does Bayesgram in the row above it.
"""


def write(
    docs: Path, results: dict[str, Result], *, drawn_by: Path, replace_all: bool = False
) -> None:
    """Put new results beside the old ones, or in their place, and write page and picture."""
    kept = docs / "benchmarks.json"
    has_others = kept.exists() and not replace_all
    all_results = json.loads(kept.read_text(encoding="utf-8")) if has_others else {}
    all_results |= results
    kept.write_text(json.dumps(all_results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    _draw(kept, docs / "images", drawn_by)
    parts = [INTRODUCTION.splitlines(), _summary(all_results), READING.splitlines()]
    parts += [
        section(key, all_results[key])
        for key in sorted(all_results, key=lambda key: ORDER.index(_task(key)))
    ]
    parts += [
        *([] if "scale" in all_results else [SCALE.splitlines()]),
        MANY_CORES.splitlines(),
        PICTURE.splitlines(),
        MEMORY.splitlines(),
        DIFFERENCES.splitlines(),
        _versions(all_results),
    ]
    (docs / "benchmarks.md").write_text(
        "\n\n".join("\n".join(part).strip() for part in parts) + "\n", encoding="utf-8"
    )


def _draw(kept: Path, pictures: Path, python: Path) -> None:
    try:
        run([str(python), str(Path(__file__).parent / "picture.py"), str(kept), str(pictures)])
    except CommandFailedError as failure:
        print(failure, file=sys.stderr)


def _task(key: str) -> str:
    """Results are kept by task@label."""
    return key.partition("@")[0]


def section(key: str, result: Result) -> list[str]:
    """One task: a heading, how much work it was, a table."""
    tables = {"growth": _growth, "startup": _startup, "scale": _scale}
    table = tables.get(_task(key), _table)(result)
    label = key.partition("@")[2]
    load = " and ".join(f"{value:g}" for value in result["load"])
    under = (
        f"{_size(result)}{result['repeats']} repeats; load of the machine before and after: {load}."
    )
    return [f"## {result['title']}{f' ({label})' if label else ''}", "", under, "", *table]


def _summary(results: dict[str, Result]) -> list[str]:
    """How many times as fast as polars, for each text."""
    lines = ["| two cores, times as fast as polars | `vocab` | `count` |", "|---|--:|--:|"]
    for key in results:
        task, _, label = key.partition("@")
        if task == "vocabulary":
            counts_key = f"counts@{label}" if label else "counts"
            ratios = [_polars_ratio(results.get(each)) for each in (key, counts_key)]
            title = label or f"{results[key]['size']['megabytes']:.0f} MB, generated"
            lines.append(f"| {title} | {ratios[0]} | {ratios[1]} |")
    return lines


def _polars_ratio(result: Result | None) -> str:
    best = {
        row["name"]: min(row["seconds"])
        for row in (result or {}).get("rows", [])
        if not row["missing"]
    }
    return _number(best["polars"] / best["Bayesgram"]) if "polars" in best else ""


def _size(result: Result) -> str:
    size = result.get("size", {})
    said = []
    if "megabytes" in size:
        said.append(f"{size['megabytes']:.1f} MB of {result['text']} text in {size['rows']:,} rows")
    if "nonzeros" in size:
        said.append(f"{size['users']:,} users, {size['nonzeros']:,} nonzeros")
    return "; ".join(said) + "; " if said else ""


def _table(result: Result) -> list[str]:
    unit, size = result["unit"], result["size"]
    found = ["| | best | spread, s | ratio | CPU, s | memory | |", "|---|--:|--:|--:|--:|--:|---|"]
    ours = None
    for row in result["rows"]:
        if row["missing"]:
            found.append(f"| {row['name']} | {row['missing']} | | | | | {row['note']} |")
            continue
        best, worst = min(row["seconds"]), max(row["seconds"])
        pace = best / (row["said"]["nonzeros"] if unit == "ns a nonzero" else 1)
        ours = pace if row["ours"] else ours
        ratio = _number(pace / ours) if ours and not row["ours"] else ""
        found.append(
            f"| {row['name']} | {_in_unit(best, unit, size, row['said'])} | {_number(best)}–{_number(worst)} | {ratio}"
            f" | {_number(min(row['cpu']))} | {_memory(max(row['peak_mb']))} | {row['note']} |"
        )
    return found


def _in_unit(seconds: float, unit: str, size: Result, said: Result) -> str:
    if unit == "MB/s":
        return f"{size['megabytes'] / seconds:.1f} MB/s"
    if unit == "ns a nonzero":
        return f"{seconds * 1e9 / said['nonzeros']:.2f} ns a nonzero"
    return f"{_number(seconds)} s"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _memory(megabytes: float) -> str:
    return f"{megabytes / 1000:.2f} GB"


def _growth(result: Result) -> list[str]:
    found = ["| | text | best, s | CPU, s | rate | memory |", "|---|--:|--:|--:|--:|--:|"]
    for point in result["points"]:
        rate = point["megabytes"] / point["seconds"]
        found.append(
            f"| `bayesgram {point['command']}` | {point['megabytes']:.0f} MB | {_number(point['seconds'])}"
            f" | {_number(point['cpu'])} | {rate:.1f} MB/s | {_memory(point['peak_mb'])} |"
        )
    return found


def _startup(result: Result) -> list[str]:
    low, high = result["help_spread"]
    said = (
        f"`bayesgram --help` takes {result['help_median']:.2f} s (median of 20; {low:.2f}–{high:.2f}). The first run of"
        f" `vocab`, `count` and `release` compiles {result['compiled_first']} kernels, the second"
        f" {result['compiled_second']}."
    )
    return [said]


def _scale(result: Result) -> list[str]:
    found = ["| step | seconds | CPU, s | memory |", "|---|--:|--:|--:|"]
    found += [
        f"| {step['step']} | {_number(step['seconds'])} | {_number(step['cpu'])} | {_memory(step['peak_mb'])} |"
        for step in result["steps"]
    ]
    return [*found, "", f"The counts folder takes {result['size']['on_disk']:,.0f} MB on disk."]


def _versions(results: dict[str, Result]) -> list[str]:
    """Of the latest result; a page of several runs says so for each machine."""
    found = ["## Machine and versions", ""]
    for told in {json.dumps(result["machine"]): result for result in results.values()}.values():
        of = told["machine"]
        found.append(
            f"- {of['processor']}, {of['cores']} cores, {of['memory_gb']} GB; {of['system']}, Python {of['python']}"
        )
        for name, packages in told["versions"].items():
            listed = ", ".join(f"{package} {version}" for package, version in packages.items())
            found.append(f"- environment of {name}: {listed or 'not installed'}")
    return found
