"""Model folders: opened as they were saved; damaged or forged ones refused, or harmless."""

import json
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.lm.files import ARRAYS, CASING, CONTENTS
from bayesgram.lm.language_model import LanguageModel
from helpers.hypothesis_profiles import examples
from helpers.reference_language_models import make_release, plain_arrays, tables

FISH = {
    ("red", "fish"): 4.0,
    ("blue", "fish"): 2.0,
    ("fish", "swim", "é"): 3.0,
    ("<s>", "red", "fish"): 2.0,
    ("red", "fish", "swim", "é"): 2.0,
    ("fish", "swim", "é", "red"): 1.0,
}
WRITTEN = {"red": "Red", "é": "É"}
DAMAGED = r"the model is damaged; export it again\.$"


@pytest.fixture(params=[None, 4, 8], ids=["exact", "4 bits", "8 bits"])
def model(request):
    made = LanguageModel.from_release(make_release(FISH, tokenizer="words"))
    return made if request.param is None else made.quantise(request.param)


def same(one, other):
    """Bit for bit."""
    pairs = zip(plain_arrays(one).values(), plain_arrays(other).values(), strict=True)
    return all(np.array_equal(*pair) for pair in pairs)


@given(tables(), st.sampled_from([None, 4, 8]))
@examples(25)
def test_what_is_opened_is_what_was_saved(tmp_path_factory, table, bits):
    folder = tmp_path_factory.mktemp("model") / "model"
    model = LanguageModel.from_release(make_release(table))
    model = model if bits is None else model.quantise(bits)
    model.save(folder)
    opened = LanguageModel.load(folder)
    assert same(opened, model)
    assert opened.score(["a", "b", "zzz"]) == model.score(["a", "b", "zzz"])
    assert opened.about == model.about
    assert (
        sum(path.stat().st_size for path in folder.iterdir())
        == model.size_on_disk
        == opened.size_on_disk
    )
    assert {path.name for path in folder.iterdir()} == set(CONTENTS) - {CASING}


@pytest.mark.posix("files that are mapped and replaced")
def test_how_words_are_written_is_part_of_a_model(tmp_path, model):
    folder, cased = tmp_path / "model", replace(model, casing=WRITTEN)
    cased.save(folder)
    opened = LanguageModel.load(folder)
    assert opened.casing == WRITTEN
    assert same(opened, model)
    assert (
        sum(path.stat().st_size for path in folder.iterdir())
        == cased.size_on_disk
        == opened.size_on_disk
    )
    assert {path.name for path in folder.iterdir()} == set(CONTENTS)
    model.save(folder, force=True)
    assert not (folder / CASING).exists()
    assert LanguageModel.load(folder).casing == {}


@pytest.mark.parametrize("content", [b"[]", b'{"red": 1}', b'{"red": "\\ud800"}', b"\xff"])
def test_a_forged_casing(tmp_path, model, content):
    replace(model, casing=WRITTEN).save(tmp_path / "model")
    (tmp_path / "model" / CASING).write_bytes(content)
    path = tmp_path / "model" / "model.json"
    about = json.loads(path.read_text())
    about["crc32"][CASING] = zlib.crc32(content)
    path.write_text(json.dumps(about))
    with pytest.raises(BayesgramError, match=DAMAGED):
        LanguageModel.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("number", "step"), [(1, "Make it anew with this version."), (3, "Use a newer one.")]
)
def test_another_format_is_refused_with_the_next_step(tmp_path, model, number, step):
    model.save(tmp_path / "model")
    path = tmp_path / "model" / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": number}))
    with pytest.raises(UsageError) as refused:
        LanguageModel.load(tmp_path / "model")
    expected = f"model: is a model of format {number}; this bayesgram reads 2. {step}"
    assert str(refused.value).endswith(expected)


def test_every_bit_counts(tmp_path, model):
    model.save(tmp_path / "model")
    for name in ARRAYS:
        path = tmp_path / "model" / f"{name}.npy"
        whole = path.read_bytes()
        bits = 8 * (len(whole) - 128)
        for at in range(0, bits, 1 + bits // 150):
            changed = bytearray(whole)
            changed[128 + at // 8] ^= 1 << at % 8
            path.unlink()
            path.write_bytes(changed)
            with pytest.raises(BayesgramError, match=DAMAGED):
                LanguageModel.load(tmp_path / "model")
        path.unlink()
        path.write_bytes(whole)
    assert same(LanguageModel.load(tmp_path / "model"), model)


def change_array(folder, name, change):
    """Another array, with its checksum: as somebody would who forges a model."""
    path = folder / f"{name}.npy"
    array = change(np.load(path))
    np.save(path, array)
    told = json.loads((folder / "model.json").read_text())
    told["crc32"][name] = zlib.crc32(array.tobytes())
    (folder / "model.json").write_text(json.dumps(told))


@given(st.data())
@examples(60)
def test_a_forged_model_is_refused_or_harmless(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("model") / "model"
    model = LanguageModel.from_release(make_release(FISH, tokenizer="words"))
    bits = data.draw(st.sampled_from([None, 4, 8]))
    (model if bits is None else model.quantise(bits)).save(folder)
    name = data.draw(st.sampled_from([*ARRAYS]))

    def change(array):
        raw = bytearray(array.tobytes())
        for _ in range(data.draw(st.integers(1, 4)) if raw else 0):
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
        return np.frombuffer(bytes(raw), array.dtype)

    change_array(folder, name, change)
    try:
        opened = LanguageModel.load(folder)
    except BayesgramError as error:
        assert str(error).endswith("the model is damaged; export it again.")  # noqa: PT017 - it may also be none
        return
    for text in ("red fish", "blue fish swim é", "fish swim. zzz red"):
        assert len(opened.score_words(text)) > 0
        assert len(opened.predict(text, 4)) <= 4
        opened.predict(text, 1000, typed="f")
    assert opened.trie.suffix.min() >= 0


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("records", lambda array: array[:-1]),
        ("records", lambda array: array[:0]),
        ("bases", lambda array: array + 10**6),
        ("bases", lambda array: array.astype(np.int64)),
        ("codebooks", lambda array: array + 10),
        ("codebooks", lambda array: array * np.nan),
        (
            "codebooks",
            lambda array: np.where(array == 0, np.float32(100), array),
        ),  # a back-off weight of 10¹⁰⁰
        ("word_ends", lambda array: array[:0]),
        (
            "word_ends",
            lambda array: np.concatenate([array[:-2], array[-2:] - np.uint32([1, 0])]),
        ),  # within é
        ("word_bytes", lambda array: np.where(array == ord("r"), ord("b"), array).astype(np.uint8)),
        ("word_bytes", lambda array: array.reshape(1, -1)),
        ("records", lambda _: np.array([{"a": 1}], object)),
    ],
)
def test_arrays_that_can_not_be_searched_are_damage(tmp_path, name, change):
    LanguageModel.from_release(make_release(FISH)).quantise().save(tmp_path / "model")
    change_array(tmp_path / "model", name, change)
    with pytest.raises(BayesgramError, match=DAMAGED):
        LanguageModel.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *(
            ("ngrams", value)
            for value in ([7, 4], [7, 4, -1], [7, 4, 1.0], [2, 4, 1], [], "743", None, [2**40] * 3)
        ),
        *(("ngrams", value) for value in ([7, 4, 1, 1], [7, 4, True], [8, 4, 1], [7] * 7)),
        *(("bits", value) for value in (None, {}, [8, 8, []])),
        *(
            (f"bits.{name}", value)
            for name in ("probability", "backoff")
            for value in (0, 17, 33, -1, "8", 8.0, None)
        ),
        *(
            ("bits.children", value)
            for value in ([], [64, 64], [3], [-1, 3], [3, 3, 3], [1.0, 1], None, "33")
        ),
        *(("crc32", value) for value in (None, {}, 7, [])),
        *((f"crc32.{name}", value) for name in ARRAYS for value in (None, 0, "0", -1)),
        ("tokenizer", None),
        ("about", 7),
    ],
)
def test_what_model_json_says_is_checked(tmp_path, path, value):
    LanguageModel.from_release(make_release(FISH)).quantise().save(tmp_path / "model")
    about = tmp_path / "model" / "model.json"
    told = json.loads(about.read_text())
    place, *rest = path.split(".")
    (told[place] if rest else told)[rest[0] if rest else place] = value
    about.write_text(json.dumps(told))
    with pytest.raises(BayesgramError, match=r"the model is damaged|not known to this bayesgram"):
        LanguageModel.load(tmp_path / "model")


@pytest.mark.parametrize("name", CONTENTS)
def test_cut_short_or_missing(tmp_path, name):
    replace(LanguageModel.from_release(make_release(FISH)).quantise(), casing=WRITTEN).save(
        tmp_path / "model"
    )
    path = tmp_path / "model" / name
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(BayesgramError, match=DAMAGED):
        LanguageModel.load(tmp_path / "model")
    path.unlink()
    with pytest.raises(BayesgramError, match=r"damaged|not a model folder"):
        LanguageModel.load(tmp_path / "model")


@pytest.mark.parametrize(
    "head",
    [b"\x93NUMPY\x01\x00\xff\x0f{", b"\x93NUMPY\x01\x00v\x00 {'descr", b"\x93NUMPY\x03\x00(((("],
)
def test_heads_that_lead_numpy_astray(tmp_path, head):
    LanguageModel.from_release(make_release(FISH)).save(tmp_path / "model")
    path = tmp_path / "model" / "records.npy"
    path.write_bytes(head + path.read_bytes()[len(head) :])
    with pytest.raises(BayesgramError, match=DAMAGED):
        LanguageModel.load(tmp_path / "model")
