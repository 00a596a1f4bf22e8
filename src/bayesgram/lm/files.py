"""Model folders: the files of a language model, written and mapped back into memory.

A folder holds the arrays of a `Trie` (one `.npy` file each), `model.json`, which describes them,
and `casing.json` where the model has spellings. Nothing is built when a model is opened. Two things
are checked: the checksum of every array, which finds what went wrong on the way, and that no record
leads outside the arrays, so that not even a forged file can crash a kernel or keep it busy. Both
are one pass over the file, at the speed of memory. That contexts add up to one is not checked:
whoever makes a model makes sure of it.
"""

import json
import re
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.io.atomic import write_folder_atomically
from bayesgram.io.formats import check_format, read_json
from bayesgram.lm.packed import FLOAT_BITS, MAX_LOG_BACKOFF, Layout, Words, is_consistent
from bayesgram.lm.trie import MAX_NODES, Trie
from bayesgram.text.ngrams import MAX_ORDER
from bayesgram.version import VERSION

MODEL_JSON = "model.json"
CASING = "casing.json"  # only where a model has spellings
FORMAT = 2
ARRAYS = {
    "word_bytes": np.uint8,
    "word_ends": np.uint32,
    "records": np.uint8,
    "bases": np.uint32,
    "codebooks": np.float32,
}
CONTENTS = (MODEL_JSON, CASING, *(f"{name}.npy" for name in ARRAYS))
MAX_CODE_BITS = 16  # bits of an index into a codebook
NPY_HEADER_BYTES = (
    128  # NumPy's header is a multiple of 64 bytes; that of our arrays always takes two
)

_MAX_HEADER_BYTES = 256
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00(..)"
    rb"\{'descr': '[<|][uif]\d', 'fortran_order': False, 'shape': \(\d{1,18},\), \} *\n",
    re.DOTALL,
)


@dataclass(frozen=True, eq=False)
class ModelContents:
    """Everything that a model folder holds."""

    trie: Trie
    tokenizer: str  # its name
    about: dict[str, Any]  # what the model was made from
    casing: dict[str, str] = field(default_factory=dict)  # spellings of words with capitals


# --- Writing ---


def write_model(path: str | Path, contents: ModelContents, *, force: bool = False) -> None:
    """Write a model folder.

    Args:
        path: The folder to write.
        contents: The model.
        force: Whether a model folder that is there already is replaced.
    """
    with write_folder_atomically(path, contents=CONTENTS, force=force) as folder:
        write_model_files(folder, contents)


def write_model_files(folder: Path, contents: ModelContents) -> None:
    """Write all files of a model into an empty folder, which may be part of something larger."""
    for name, array in _named_arrays(contents.trie).items():
        np.save(folder / f"{name}.npy", array)
    if contents.casing:
        (folder / CASING).write_bytes(_casing_bytes(contents))
    (folder / MODEL_JSON).write_text(_about_text(contents), encoding="utf-8", newline="\n")


def size_on_disk(contents: ModelContents) -> int:
    """Return the bytes that the files of a model folder take together."""
    arrays = _named_arrays(contents.trie).values()
    array_bytes = sum(array.nbytes + NPY_HEADER_BYTES for array in arrays)
    return array_bytes + len(_casing_bytes(contents)) + len(_about_text(contents).encode())


def _named_arrays(trie: Trie) -> dict[str, NDArray[Any]]:
    return {
        "word_bytes": trie.words.data,
        "word_ends": trie.words.ends,
        "records": trie.records,
        "bases": trie.bases,
        "codebooks": trie.codebooks,
    }


def _about_text(contents: ModelContents) -> str:
    """Return the text of `model.json`."""
    layout = contents.trie.layout
    checksums = {
        name: zlib.crc32(array.data) for name, array in _named_arrays(contents.trie).items()
    }
    if contents.casing:
        checksums[CASING] = zlib.crc32(_casing_bytes(contents))
    about = {
        "format": FORMAT,
        "order": layout.order,
        "ngrams": list(layout.sizes),
        "tokenizer": contents.tokenizer,
        "bits": {
            "probability": layout.probability_bits,
            "backoff": layout.backoff_bits,
            "children": list(layout.child_bits),
        },
        "crc32": checksums,
        "about": contents.about,
        "written_by": f"bayesgram {VERSION}",
    }
    return json.dumps(about, indent=2) + "\n"


def _casing_bytes(contents: ModelContents) -> bytes:
    """Return the content of `casing.json`; nothing where the model has no spellings."""
    if not contents.casing:
        return b""
    return f"{json.dumps(contents.casing, indent=0, ensure_ascii=False)}\n".encode()


# --- Reading ---


def read_model(path: str | Path) -> ModelContents:
    """Map a model folder into memory.

    Raises:
        UsageError: If the folder holds no model, or one of another format.
        BayesgramError: If the model is damaged.
    """
    folder = Path(path)
    if not (folder / MODEL_JSON).is_file():
        raise UsageError(
            f"{path}: not a model folder (no {MODEL_JSON});"
            " make one with `bayesgram export --format model`."
        )
    try:
        about = read_json(folder / MODEL_JSON)
        check_format(path, "a model", about["format"], FORMAT)
        trie = _read_trie(folder, about)
        _require(isinstance(about["tokenizer"], str))
        casing = _read_casing(folder, about["crc32"])
        return ModelContents(trie, about["tokenizer"], dict(about["about"]), casing)
    except UsageError:  # another format
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        raise BayesgramError(f"{path}: the model is damaged; export it again.") from None


def _read_trie(folder: Path, about: dict[str, Any]) -> Trie:
    """Map the arrays of a trie; a ValueError if they are not as we write them."""
    layout = _read_layout(about)
    arrays = {name: _map_array(folder / f"{name}.npy", kind) for name, kind in ARRAYS.items()}
    for name, array in arrays.items():
        _require(zlib.crc32(array.data) == about["crc32"][name])
    records = arrays["records"]
    bases = arrays["bases"]
    codebooks = arrays["codebooks"]
    _require((records.size, bases.size, codebooks.size) == layout.array_sizes())
    _require(arrays["word_ends"].size == layout.sizes[0] + 1)
    words = Words(arrays["word_bytes"], arrays["word_ends"])
    _require(words.is_sorted_utf8())
    _require(np.isfinite(codebooks).all() and (codebooks <= MAX_LOG_BACKOFF).all())
    trie = Trie(words, layout, records, bases, codebooks)
    _require(min(trie.special) >= 0 and _has_valid_probability_codebooks(trie))
    _require(is_consistent(trie.for_scoring))
    return trie


def _read_layout(about: dict[str, Any]) -> Layout:
    """Return the layout that `model.json` describes, if there can be such a one."""
    bits = about["bits"]
    layout = Layout(
        sizes=tuple(about["ngrams"]),
        probability_bits=bits["probability"],
        backoff_bits=bits["backoff"],
        child_bits=tuple(bits["children"]),
    )
    numbers = (*layout.sizes, layout.probability_bits, layout.backoff_bits, *layout.child_bits)
    _require(all(type(number) is int and number >= 0 for number in numbers))
    _require(2 <= layout.order <= MAX_ORDER and len(layout.child_bits) == layout.order - 1)
    _require(layout.sizes[0] >= 3 and sum(layout.sizes) < MAX_NODES)
    _require(max(layout.child_bits) < FLOAT_BITS)
    for value_bits in (layout.probability_bits, layout.backoff_bits):
        _require(1 <= value_bits <= MAX_CODE_BITS or value_bits == FLOAT_BITS)
    return layout


def _has_valid_probability_codebooks(trie: Trie) -> bool:
    """Whether no codebook of probabilities has one above 1."""
    bits = trie.layout.probability_bits
    size = 0 if bits == FLOAT_BITS else 1 << bits
    starts = trie.layout.probability_codebook_starts()
    return all((trie.codebooks[start : start + size] <= 0).all() for start in starts)


def _read_casing(folder: Path, checksums: dict[str, int]) -> dict[str, str]:
    """Read the spellings of words, if the model has them."""
    if CASING not in checksums:
        return {}
    _require(zlib.crc32((folder / CASING).read_bytes()) == checksums[CASING])
    casing = read_json(folder / CASING)
    "".join(casing.values()).encode()  # raises if one is no text, or has half a character
    return casing


def _map_array(path: Path, kind: DTypeLike) -> NDArray[Any]:
    """Map one of our files into memory.

    NumPy's own reader takes many other files, and gets lost in the headers of damaged ones.
    """
    with path.open("rb") as file:
        header = _HEADER.match(file.read(_MAX_HEADER_BYTES))
        _require(header and int.from_bytes(header[1], "little") == header.end() - header.end(1))
    try:
        array = np.asarray(np.load(path, mmap_mode="r"))
    except ValueError:  # an empty array can't be mapped
        array = np.load(path)
    _require(array.dtype == kind)
    return array


def _require(condition: object) -> None:
    if not condition:
        raise ValueError("not a model of ours")
