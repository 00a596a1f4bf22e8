"""--block and --no-default-block of vocab, export and predict."""

import json

import pyarrow.parquet as pq
import pytest

from bayesgram.lm.language_model import LanguageModel
from bayesgram.public.public_model import PublicModel
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.blocklist import built_in_phrases
from helpers.commands import check_output, expect_refusal, run_in_process

SLUR = built_in_phrases()[0]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A release of a vocabulary in which nothing was blocked."""
    folder = tmp_path_factory.mktemp("block")
    (folder / "text.txt").write_text(f"the red fish swims. the {SLUR} fish sleeps.\n" * 30)
    (folder / "block.txt").write_text("# no fish\nRed Fish\n")
    rows = [f"{user},the red fish swims\n{user},the {SLUR} fish\n" for user in range(300)]
    (folder / "posts.csv").write_text("user,text\n" + "".join(rows))
    run_in_process("vocab", "text.txt", "--no-default-block", "-o", "vocab.parquet", cwd=folder)
    run_in_process("count", "posts.csv", "--vocab", "vocab.parquet", "-o", "counts", cwd=folder)
    given = ("release", "counts", "--vocab", "vocab.parquet", "--epsilon", 8, "-o", "out")
    run_in_process(*given, cwd=folder)
    return folder


def test_vocab(work, tmp_path):
    assert SLUR in Vocabulary.load(work / "vocab.parquet").ngrams.to_pylist()
    given = ("vocab", "text.txt", "--block", "block.txt", "-o", tmp_path / "v.parquet", "--json")
    said = json.loads(check_output(*given, cwd=work))
    vocabulary = Vocabulary.load(tmp_path / "v.parquet")
    ngrams = vocabulary.ngrams.to_pylist()
    assert said["blocked_ngrams"] == len(Vocabulary.load(work / "vocab.parquet")) - len(ngrams) > 0
    assert not [ngram for ngram in ngrams if SLUR in ngram or "red fish" in ngram]
    assert "the red" in ngrams
    assert vocabulary.public_rows is not None
    model = PublicModel.load(tmp_path / "v.parquet.model")["public"]
    assert SLUR.encode() not in model.trie.words.to_list()


def test_predict(work):
    def words(*options):
        said = check_output("predict", "out", "the", "-k", 9, "--json", *options, cwd=work)
        return [row["word"] for row in json.loads(said)["predictions"]]

    assert SLUR not in words()
    assert SLUR in words("--no-default-block")
    red = json.loads(
        check_output("predict", "out", "the red", "--json", "--block", "block.txt", cwd=work)
    )
    assert "fish" not in [row["word"] for row in red["predictions"]]


@pytest.mark.parametrize("ending", ["arpa", "tsv", "jsonl"])
def test_export_as_text(work, tmp_path, ending):
    path = tmp_path / f"x.{ending}"
    run_in_process("export", "out", "--block", "block.txt", "-o", path, cwd=work)
    assert SLUR not in path.read_text()
    assert "red fish" not in path.read_text()
    run_in_process("export", "out", "--no-default-block", "-o", path, "--force", cwd=work)
    assert SLUR in path.read_text()
    assert "red fish" in path.read_text()


def test_export_as_parquet_model_and_bias_list(work, tmp_path):
    given = ("export", "out", "--json", "-o", tmp_path / "x.parquet")
    said = json.loads(check_output(*given, cwd=work))
    ngrams = pq.read_table(tmp_path / "x.parquet")["ngram"].to_pylist()
    assert len(ngrams) == said["ngrams"] > 0
    assert not [ngram for ngram in ngrams if SLUR in ngram]
    run_in_process("export", "out", "--max-size", "1MB", "-o", tmp_path / "m", cwd=work)
    assert SLUR.encode() not in LanguageModel.load(tmp_path / "m").trie.words.to_list()
    bias = ("export", "out", "--format", "bias", "--vocab", "vocab.parquet")
    run_in_process(*bias, "-o", tmp_path / "bias.tsv", cwd=work)
    assert SLUR not in (tmp_path / "bias.tsv").read_text()
    run_in_process("export", "vocab.parquet.model", "-o", tmp_path / "p.arpa", cwd=work)
    assert SLUR not in (tmp_path / "p.arpa").read_text()


def test_a_missing_file_is_refused_at_once(work, tmp_path):
    for given in (
        ("vocab", "text.txt", "-o", tmp_path / "x"),
        ("export", "out", "-o", tmp_path / "x"),
        ("predict", "out", "the"),
    ):
        assert "the blocklist can't be read" in expect_refusal(*given, "--block", "no", cwd=work)
    assert not list(tmp_path.iterdir())
