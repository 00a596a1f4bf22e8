"""The page of releases whose text is cut by a tokenizer.json."""

from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pytest

from bayesgram.cli.serve import serve
from bayesgram.errors import UsageError
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.tokenizer import Tokenizer
from bayesgram.web.catalogue import Builder
from bayesgram.web.panels import suggest
from helpers.web_catalogue import make_release

TEXTS = ["the red fish swims", "the blue fish sleeps", "a red cat sees the fish"] * 5
DECODERS = ("none", "bytes", "metaspace", "pieces")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tokenizers of each way to mark where words begin, and what was made with one of them."""
    library = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    path = tmp_path_factory.mktemp("pieces")
    split, decoders = library.pre_tokenizers, library.decoders
    ways = (
        (split.Whitespace(), None),
        (split.ByteLevel(add_prefix_space=True), decoders.ByteLevel()),
    )
    ways = (
        *ways,
        (split.Metaspace(), decoders.Metaspace()),
        (split.Whitespace(), decoders.WordPiece()),
    )
    for name, (pre_tokenizer, decoder) in zip(DECODERS, ways, strict=True):
        made = library.Tokenizer(library.models.BPE())
        made.pre_tokenizer = pre_tokenizer
        if decoder is not None:
            made.decoder = decoder
        made.train_from_iterator(
            TEXTS, library.trainers.BpeTrainer(vocab_size=200, show_progress=False)
        )
        made.save(str(path / f"{name}.json"))
    words = vocabulary(path / "bytes.json")
    words.save(path / "vocab.parquet")
    make_release(words, 1.0).save(path / "out")
    return path


def vocabulary(file):
    cut = Tokenizer.from_file(file)
    return Vocabulary.from_public(pa.table({"text": TEXTS}), order=(1, 2), size=100, tokenizer=cut)


@pytest.mark.parametrize("name", DECODERS)
def test_a_piece_that_is_taken_goes_on_as_text(folder, name):
    words = vocabulary(folder / f"{name}.json")
    catalogue = Builder(lambda _: nullcontext(), words, words.tokenizer).build(
        [("out", make_release(words, 1.0))]
    )
    public, released = suggest(catalogue, "the blue", 1).columns
    assert [each.words[0].adds for each in (public, released)] == [" fish", " fish"]
    assert released.words[0].word == words.tokenizer.sentences("the blue fish")[-1][-1]
    assert released.words[0].low is not None


@pytest.mark.parametrize("given", [{}, {"tokenizer": "words"}, {"tokenizer": "file:none.json"}])
@pytest.mark.parametrize("vocab", [None, [Path("vocab.parquet")]])
def test_without_its_file_the_page_says_what_it_needs(folder, monkeypatch, given, vocab):
    monkeypatch.chdir(folder)
    with pytest.raises(
        UsageError, match=r"^text is cut by a tokenizer\.json here .*: say tokenizer=file:PATH"
    ):
        serve(["out"], vocab=vocab, port=0, **given)


def test_with_its_file_there_is_a_page(folder, monkeypatch):
    monkeypatch.chdir(folder)
    served = []
    monkeypatch.setattr("bayesgram.web.server.run", lambda guard, *_, **__: served.append(guard))
    serve(["out"], vocab=[Path("vocab.parquet")], port=0, tokenizer="file:bytes.json")
    assert len(served) == 1
