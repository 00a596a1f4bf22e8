"""Model folders: what is in them, written and read.

In:  a `Trie` and what is said about it.   Out: a folder of arrays that are mapped into memory, and back.
Nothing is built when a model is opened. Two things are looked at: a checksum of every array, which finds what went
wrong on the way, and whether the records lead nowhere outside, so that not even a forged file can crash a kernel or
keep it busy. Both are a pass over the file, as fast as memory. Does not check that contexts add up to one: whoever
makes a model does. Format 1, which 0.1 wrote, is read by `format_1`.

Models as 0.1 wrote them: plain arrays of 32-bit numbers, one for each property of an n-gram.

In:  the arrays of a folder.   Out: a `Trie`, or a ValueError where they make no model: then a file is damaged.
They had no checksums, so all of it is looked at. Nothing writes them any more.
"""

import json
import re
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesgram.arrays import Floats, Ids, Integers, Singles
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.io.atomic import write_folder_atomically
from bayesgram.io.formats import check_format, read_json
from bayesgram.lm.packed import EXACT, MOST_BACKOFF, Layout, Words, is_consistent
from bayesgram.lm.trie import MOST_NODES, TOLERANCE, Trie, context_sums, find_special, from_nodes
from bayesgram.text.ngrams import MAX_ORDER
from bayesgram.version import VERSION

ABOUT = "model.json"
FORMAT = 2
ARRAYS = {
    "word_bytes": np.uint8,
    "word_ends": np.uint32,
    "records": np.uint8,
    "bases": np.uint32,
    "codebooks": np.float32,
}
CASING = "casing.json"  # only where a model has it
CONTENTS = (ABOUT, CASING, *(f"{name}.npy" for name in ARRAYS))
REPLACED = (
    *CONTENTS,
    *(f"{name}.npy" for name in ARRAYS),
)  # what a folder may hold that is written over
MOST_BITS = 16  # of a place in a codebook
_LONGEST_HEAD = 256
_HEAD = re.compile(
    rb"\x93NUMPY\x01\x00(..)\{'descr': '[<|][uif]\d', 'fortran_order': False, 'shape': \(\d{1,18},\), \} *\n",
    re.DOTALL,
)


@dataclass(frozen=True, eq=False)
class Opened:
    """What a model folder holds."""

    trie: Trie
    tokenizer: str  # its name
    about: dict[str, Any]  # where it is from
    casing: dict[str, str] = field(
        default_factory=dict
    )  # how words are written that are not in lower case


def arrays_of(trie: Trie) -> dict[str, NDArray[Any]]:
    """What is written of a model, by name."""
    words = {"word_bytes": trie.words.data, "word_ends": trie.words.ends}
    return words | {"records": trie.records, "bases": trie.bases, "codebooks": trie.codebooks}


def _described(opened: Opened) -> dict[str, Any]:
    """What `model.json` says."""
    layout = opened.trie.layout
    bits = {
        "probability": layout.value_bits,
        "backoff": layout.backoff_bits,
        "children": list(layout.child_bits),
    }
    return {
        "format": FORMAT,
        "order": layout.order,
        "ngrams": list(layout.sizes),
        "tokenizer": opened.tokenizer,
        "bits": bits,
        "crc32": _checksums(opened),
        "about": opened.about,
        "written_by": f"bayesgram {VERSION}",
    }


def _checksums(opened: Opened) -> dict[str, int]:
    """Of every file but `model.json`."""
    found = {name: zlib.crc32(array.data) for name, array in arrays_of(opened.trie).items()}
    return found | ({CASING: zlib.crc32(_casing_text(opened))} if opened.casing else {})


def _casing_text(opened: Opened) -> bytes:
    """What `casing.json` says, if there is one."""
    return (
        f"{json.dumps(opened.casing, indent=0, ensure_ascii=False)}\n".encode()
        if opened.casing
        else b""
    )


def _text(opened: Opened) -> str:
    return json.dumps(_described(opened), indent=2) + "\n"


def size_on_disk(opened: Opened) -> int:
    """The bytes of all files of a model folder."""
    arrays = sum(array.nbytes + _head_size(array) for array in arrays_of(opened.trie).values())
    return arrays + len(_casing_text(opened)) + len(_text(opened).encode())


def _head_size(array: NDArray[Any]) -> int:
    """NumPy's head of a row of numbers: a multiple of 64 bytes, and of ours always two of them."""
    return 128 if array.ndim == 1 else 0


def write_model(path: str | Path, opened: Opened, *, force: bool = False) -> None:
    """Write a model folder."""
    with write_folder_atomically(path, contents=REPLACED, force=force) as folder:
        fill_folder(folder, opened)


def fill_folder(folder: Path, opened: Opened) -> None:
    """Write all files of a model into an empty folder, which may be a part of something larger."""
    for name, array in arrays_of(opened.trie).items():
        np.save(folder / f"{name}.npy", array)
    if opened.casing:
        (folder / CASING).write_bytes(_casing_text(opened))
    (folder / ABOUT).write_text(_text(opened), encoding="utf-8")


def read_model(path: str | Path) -> Opened:
    """Map a model folder into memory."""
    folder = Path(path)
    if not (folder / ABOUT).is_file():
        raise UsageError(
            f"{path}: not a model folder (no {ABOUT}); make one with `bayesgram export --format model`."
        )
    try:
        about = read_json(folder / ABOUT)
        number = check_format(path, "a model", about["format"], FORMAT)
        trie = _read_packed(folder, about) if number == FORMAT else _read_format_1(folder)
        require(isinstance(about["tokenizer"], str))
        casing = _read_casing(folder, about["crc32"]) if number == FORMAT else {}
        opened = Opened(trie, about["tokenizer"], dict(about["about"]), casing)
    except UsageError:  # of a newer version
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        raise BayesgramError(f"{path}: the model is damaged; export it again.") from None
    return opened


def _read_format_1(folder: Path) -> Trie:
    return trie_of({name: mapped(folder / f"{name}.npy", kind) for name, kind in ARRAYS.items()})


def _read_packed(folder: Path, about: dict[str, Any]) -> Trie:
    """The trie of a folder of ours; a ValueError if it is another."""
    layout = _layout(about)
    arrays = {name: mapped(folder / f"{name}.npy", kind) for name, kind in ARRAYS.items()}
    for name, array in arrays.items():
        require(zlib.crc32(array.data) == about["crc32"][name])
    records, bases, codebooks = arrays["records"], arrays["bases"], arrays["codebooks"]
    require((records.size, bases.size, codebooks.size) == layout.array_sizes())
    require(arrays["word_ends"].size == layout.sizes[0] + 1)
    words = Words(arrays["word_bytes"], arrays["word_ends"])
    require(words.are_in_order())
    require(np.isfinite(codebooks).all() and (codebooks <= MOST_BACKOFF).all())
    trie = Trie(words, layout, records, bases, codebooks)
    require(min(trie.special) >= 0 and _codebooks_are_probabilities(trie))
    require(is_consistent(trie.searched))
    return trie


def _read_casing(folder: Path, checksums: dict[str, int]) -> dict[str, str]:
    """How words are written, if the model was made with that."""
    if CASING not in checksums:
        return {}
    require(zlib.crc32((folder / CASING).read_bytes()) == checksums[CASING])
    casing = read_json(folder / CASING)
    "".join(casing.values()).encode()  # all are texts, of whole characters
    return casing


def _codebooks_are_probabilities(trie: Trie) -> bool:
    """Whether no codebook of probabilities has one above 1."""
    size = 0 if trie.layout.value_bits == EXACT else 1 << trie.layout.value_bits
    return all(
        (trie.codebooks[start : start + size] <= 0).all() for start in trie.layout.value_books()
    )


def _layout(about: dict[str, Any]) -> Layout:
    """The layout that `model.json` tells of, if there can be such a one."""
    bits, sizes = about["bits"], about["ngrams"]
    told = Layout(tuple(sizes), bits["probability"], bits["backoff"], tuple(bits["children"]))
    numbers = (*told.sizes, told.value_bits, told.backoff_bits, *told.child_bits)
    require(all(type(number) is int and number >= 0 for number in numbers))
    require(2 <= told.order <= MAX_ORDER and len(told.child_bits) == told.order - 1)
    require(told.sizes[0] >= 3 and sum(told.sizes) < MOST_NODES)
    require(max(told.child_bits) < EXACT)
    require(
        all(
            1 <= each <= MOST_BITS or each == EXACT for each in (told.value_bits, told.backoff_bits)
        )
    )
    return told


def require(condition: object) -> None:
    """A ValueError if something is not as we write it."""
    if not condition:
        raise ValueError("not a model of ours")


def mapped(path: Path, kind: Any) -> NDArray[Any]:  # noqa: ANN401 - a type of numbers
    """A file of ours as an array: NumPy's own reader takes many others, and gets lost in the heads of damaged ones."""
    with path.open("rb") as file:
        head = _HEAD.match(file.read(_LONGEST_HEAD))
        require(head and int.from_bytes(head[1], "little") == head.end() - head.end(1))
    try:
        array = np.asarray(np.load(path, mmap_mode="r"))
    except ValueError:  # an empty array can't be mapped
        array = np.load(path)
    require(array.dtype == kind)
    return array


FORMAT_1_ARRAYS = {
    "word_bytes": np.uint8,
    "word_ends": np.int64,
    "level_starts": np.int64,
    "word": np.int32,
    "first_child": np.int32,
    "suffix": np.int32,
    "log_probability": np.float32,
    "log_backoff": np.float32,
    "ranked": np.int32,
}


def trie_of(arrays: dict[str, NDArray[Any]]) -> Trie:
    """The trie of these arrays, if they are a model."""
    words = Words(arrays["word_bytes"], arrays["word_ends"])
    if not (
        words.are_in_order() and _fit(arrays, len(words)) and _are_searchable(arrays, len(words))
    ):
        raise ValueError("arrays that lead outside, or where words are not found")
    if min(find_special(words)) < 0 or not _are_logarithms(
        arrays["log_probability"], arrays["log_backoff"]
    ):
        raise ValueError("arrays that are no probabilities")
    names = ("level_starts", "word", "first_child", "log_probability", "log_backoff")
    trie = from_nodes(words, *(arrays[name] for name in names))
    if not np.array_equal(trie.suffix, arrays["suffix"]) or not _adds_up(context_sums(trie)):
        raise ValueError("contexts that don't add up to one")
    return trie


def _fit(arrays: dict[str, NDArray[Any]], words: int) -> bool:
    """Whether the arrays have the sizes that belong together, and lead nowhere outside."""
    levels, word, children = arrays["level_starts"], arrays["word"], arrays["first_child"]
    suffix, ranked = arrays["suffix"], arrays["ranked"]
    contexts = int(levels[-2]) if levels.size >= 4 else 0
    return bool(
        contexts
        and words >= 3
        and (levels[:3] == [0, 1, 1 + words]).all()
        and (np.diff(levels) >= 0).all()
        and levels[-1] == word.size == suffix.size == arrays["log_probability"].size
        and children.size == contexts + 1 == arrays["log_backoff"].size + 1
        and _ascends(children)
        and children[0] == 1
        and children[-1] == word.size
        and (children[levels[1:-1]] == levels[2:]).all()  # every order has its children in the next
        and (word[1 : 1 + words] == np.arange(words)).all()
        and 0 <= word[1:].min() <= word.max() < words
        and suffix.min() >= 0
        and (suffix[1:] < np.arange(1, word.size)).all()
        and ranked.size == words
        and 0 <= ranked.min() <= ranked.max() < words
    )


def _are_searchable(arrays: dict[str, NDArray[Any]], words: int) -> bool:
    """Whether halving finds what is there: the words after a context ascend, and the likeliest are known."""
    parents = np.repeat(np.arange(arrays["first_child"].size - 1), np.diff(arrays["first_child"]))
    ascends = (np.diff(arrays["word"][1:]) > 0) | (np.diff(parents) != 0)
    likeliest = arrays["log_probability"][1 + arrays["ranked"]]
    return bool(
        ascends.all() and _ascends(-likeliest) and np.unique(arrays["ranked"]).size == words
    )


def _are_logarithms(probabilities: Singles, backoffs: Singles) -> bool:
    return bool(
        np.isfinite(probabilities).all()
        and probabilities.max() <= 0
        and np.isfinite(backoffs).all()
    )


def _adds_up(sums: Floats) -> bool:
    return bool((np.abs(sums - 1) <= TOLERANCE).all())


def _ascends(array: Integers | Ids | Singles) -> bool:
    return bool((array[1:] >= array[:-1]).all())
