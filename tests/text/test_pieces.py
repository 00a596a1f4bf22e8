"""A Hugging Face tokenizer.json as the tokenizer: made here, used through the command line, refused where it is none."""

import json
import pickle
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram import Vocabulary, count
from bayesgram.cli.app import build_app
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.lm import LanguageModel
from bayesgram.text import tokenizer
from bayesgram.text.tokenizer import Tokenizer, escape_piece, unescape_piece
from helpers.commands import bayesgram, check_output

pytestmark = pytest.mark.slow

REASON = "tokenizers is not installed: pip install 'bayesgram[tokenizers]'"
TEXTS = [
    "the red fish swims",
    "the blue fish sleeps",
    "a red cat sees the fish",
    "cats and fish",
] * 5


def refused(*arguments):
    """What a command in this process says of wrong use."""
    with pytest.raises(UsageError) as caught:
        build_app()([*map(str, arguments)], standalone_mode=False)
    return str(caught.value)


@given(st.text())
def test_every_piece_comes_back(piece):
    assert unescape_piece(escape_piece(piece)) == piece
    assert escape_piece(piece)
    assert not set(escape_piece(piece)) & set(" \n\r\t\v\f\0")


@given(st.text("\\ es<>/n", max_size=5), st.text("\\ es<>/n", max_size=5))
def test_no_two_pieces_look_alike(one, other):
    assert (escape_piece(one) == escape_piece(other)) == (one == other)
    assert escape_piece("<s>") != "<s>"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Three files: byte-level BPE, words with an unknown one, and words without."""
    library = pytest.importorskip("tokenizers", reason=REASON)
    folder = tmp_path_factory.mktemp("tokenizers")
    bpe = library.Tokenizer(library.models.BPE())
    bpe.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=True)
    trainer = library.trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(TEXTS, trainer)
    bpe.save(str(folder / "bpe.json"))
    for name, more in (("words", {"unk_token": "[UNK]"}), ("closed", {})):
        vocabulary = {"[UNK]": 0, "the": 1, "red fish": 2, "fish": 3, "": 4, "a\\": 5}
        words = library.Tokenizer(library.models.WordLevel(vocabulary, **more))
        words.pre_tokenizer = library.pre_tokenizers.Split("_", "removed")
        words.save(str(folder / f"{name}.json"))
    return folder


def test_lines_are_sentences_and_pieces_are_escaped(files):
    words = Tokenizer.from_file(files / "words.json")
    assert words.sentences("the_red fish\n\nfish_cat_a\\\r\n") == [
        ["the", r"red\sfish"],
        ["fish", "[UNK]", r"a\\"],
    ]
    assert words.sentences("") == words.sentences("\n\n") == []
    assert words.split_unfinished("the_red fish\nthe") == ([["the", r"red\sfish"], ["the"]], "")
    assert words.split_unfinished("the\n") == ([["the"], []], "")


@given(st.lists(st.text(st.characters(exclude_categories=("Cs",)), max_size=20), max_size=6))
def test_rows_are_cut_as_the_library_cuts_their_lines(files, rows):
    library = pytest.importorskip("tokenizers", reason=REASON)
    plain = library.Tokenizer.from_file(str(files / "bpe.json"))
    plain.encode_special_tokens = True
    cut = Tokenizer.from_file(files / "bpe.json")
    together = [[]]
    for data, offsets, ends in cut.tokenize_chunks(
        pa.array([row.encode() for row in rows], pa.large_binary())
    ):
        tokens = [data[a:b].tobytes().decode() for a, b in pairwise(offsets)]
        assert ends[-1] == len(tokens)
        for token in tokens:
            together[-1].append(token) if token else together.append([])
    lines = [line for row in rows for line in tokenizer._LINE_BREAK_RUN.split(row)]
    wanted = [
        [escape_piece(piece) for piece in plain.encode(line, add_special_tokens=False).tokens]
        for line in lines
    ]
    assert [line for line in together if line] == [line for line in wanted if line]


def test_special_tokens_in_a_text_are_text(files):
    [sentence] = Tokenizer.from_file(files / "bpe.json").sentences("a </s> b")
    assert "</s>" not in sentence
    assert len(sentence) > 3


def test_its_name_is_its_hash_and_it_travels_whole(files):
    bpe, words = Tokenizer.from_file(files / "bpe.json"), Tokenizer.from_file(files / "words.json")
    assert bpe != words
    named = Tokenizer.from_name(bpe.name)
    assert named == bpe
    assert pickle.loads(pickle.dumps(bpe)).sentences("red") == bpe.sentences("red")
    assert named.with_definition_of(bpe).sentences("red") == bpe.sentences("red")
    with pytest.raises(
        UsageError,
        match=r"^text is cut by a tokenizer\.json here \(SHA-256 \w{12}…\): say tokenizer=file:PATH",
    ):
        named.with_definition_of(words).sentences("red")


def test_counts_and_models_of_pieces(files):
    cut = Tokenizer.from_file(files / "bpe.json")
    public = pa.table({"text": TEXTS})
    vocabulary = Vocabulary.from_public(public, order=2, size=100, tokenizer=cut)
    counts = count(pa.table({"user": ["a"] * 20, "text": TEXTS}), vocabulary)
    assert counts.totals.tolist() == vocabulary.counts.tolist()
    model = LanguageModel.from_counts(vocabulary.ngrams, vocabulary.counts, cut)
    [sentence] = cut.sentences("the blue fish")
    assert model.predict("the blue", 1)[0].word == sentence[-1]


def test_end_to_end(files, tmp_path):
    pq.write_table(pa.table({"text": TEXTS}), tmp_path / "public.parquet")
    pq.write_table(
        pa.table({"user": [str(n % 7) for n in range(20)], "text": TEXTS}),
        tmp_path / "private.parquet",
    )
    file = f"file:{files / 'bpe.json'}"
    check_output(
        "vocab",
        "public.parquet",
        "--orders",
        "1,2",
        "--boundaries",
        "--size",
        "50",
        "--tokenizer",
        file,
        "-o",
        "vocab.parquet",
        cwd=tmp_path,
    )
    columns = ("--user-column", "user", "--text-column", "text")
    done = bayesgram(
        "count",
        "private.parquet",
        "--vocab",
        "vocab.parquet",
        *columns,
        "-o",
        "counts",
        cwd=tmp_path,
    )
    assert (done.returncode, "say --tokenizer file:PATH" in done.stderr) == (2, True)
    other = f"file:{files / 'words.json'}"
    done = bayesgram(
        "count",
        "private.parquet",
        "--vocab",
        "vocab.parquet",
        *columns,
        "--tokenizer",
        other,
        "-o",
        "counts",
        cwd=tmp_path,
    )
    assert (done.returncode, "give its file." in done.stderr) == (2, True)
    assert not (tmp_path / "counts").exists()
    check_output(
        "count",
        "private.parquet",
        "--vocab",
        "vocab.parquet",
        *columns,
        "--tokenizer",
        file,
        "-o",
        "counts",
        cwd=tmp_path,
    )
    check_output(
        "release",
        "counts",
        "--vocab",
        "vocab.parquet",
        "--epsilon",
        "8",
        "--delta",
        "1e-3",
        "-o",
        "out",
        cwd=tmp_path,
    )
    found = json.loads(
        check_output("predict", "out", "the red", "--tokenizer", file, "--json", cwd=tmp_path)
    )
    assert len(found["predictions"]) == 5
    done = bayesgram("predict", "out", "the red", cwd=tmp_path)
    assert done.returncode == 2


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[1]",
        b"\xff\xfe",
        b'{"version": "1.0"}',
        b'{"model": {"type": "None"}}',
        b"\0" * 100,
    ],
)
def test_files_that_are_no_tokenizers(tmp_path, content):
    pytest.importorskip("tokenizers", reason=REASON)
    (tmp_path / "bad.json").write_bytes(content)
    with pytest.raises(
        UsageError,
        match=r"bad\.json: not a tokenizer\.json that the library tokenizers reads; save it again",
    ):
        Tokenizer.from_file(tmp_path / "bad.json")


def test_a_file_that_is_not_there(tmp_path):
    told = refused(
        "vocab",
        "x.txt",
        "--tokenizer",
        f"file:{tmp_path}/nowhere.json",
        "-o",
        tmp_path / "v.parquet",
    )
    assert (
        told
        == f"tokenizer=file:{tmp_path}/nowhere.json: no such file; give the path of a tokenizer.json."
    )
    told = refused("vocab", "x.txt", "--tokenizer", "syllables", "-o", tmp_path / "v.parquet")
    assert told.startswith(
        "tokenizer='syllables': choose one of words, messages, whitespace, characters, rows; or file:PATH"
    )


def test_a_text_that_the_file_cannot_cut(files):
    with pytest.raises(
        BayesgramError,
        match=r"^the tokenizer file can't cut this text: perhaps it has no piece for",
    ) as caught:
        Tokenizer.from_file(files / "closed.json").sentences("secret")
    assert "secret" not in str(caught.value)


def test_without_the_library(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    (tmp_path / "any.json").write_text("{}")
    with pytest.raises(
        UsageError,
        match=r"^tokenizer=file: the package tokenizers is not installed; pip install 'bayesgram\[tokenizers\]'\.$",
    ):
        Tokenizer.from_file(tmp_path / "any.json")


@pytest.mark.parametrize("option", ["--keep-case", "--lower-case"])
def test_the_file_says_whether_case_matters(tmp_path, option):
    told = refused(
        "vocab", "x.txt", "--tokenizer", "file:any.json", option, "-o", tmp_path / "v.parquet"
    )
    assert (
        told
        == "tokenizer=file: the file itself says whether case matters; leave --keep-case and --lower-case out."
    )
