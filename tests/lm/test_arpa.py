"""ARPA files: written so that nothing is lost, read so that nothing wrong gets in."""

import gzip

import numpy as np
import pytest
from hypothesis import given

from bayesgram.errors import BayesgramError
from bayesgram.lm.arpa import read_arpa, sum_contexts, write_arpa
from bayesgram.lm.language_model import LanguageModel
from bayesgram.text.tokenizer import Tokenizer
from helpers.hypothesis_profiles import examples
from helpers.reference_language_models import make_release, plain_arrays, tables

ALREADY = "this n-gram stands there already."
GOOD = """\\data\\
ngram 1=5
ngram 2=2

\\1-grams:
-99\t<s>\t0
-1\t</s>\t0
-1\t<unk>\t0
-0.39794\ta\t-0.1249387
-0.39794\tb\t0

\\2-grams:
-0.30103\ta b
-0.90309\ta </s>

\\end\\
"""  # p(a) = p(b) = 0.4; after a: 0.5 + 0.125, and 0.375 for the rest of 0.5


def arrays(model):
    return {name: array.tolist() for name, array in plain_arrays(model).items()}


@given(tables())
@examples(40)
def test_round_trip_gives_the_same_model_bit_for_bit(tmp_path_factory, table):
    model = LanguageModel.from_release(make_release(table))
    folder = tmp_path_factory.mktemp("arpa")
    for name in ("model.arpa", "model.arpa.gz"):
        write_arpa(model, folder / name)
        assert arrays(read_arpa(folder / name)) == arrays(model)
    assert (
        gzip.decompress((folder / "model.arpa.gz").read_bytes())
        == (folder / "model.arpa").read_bytes()
    )


def test_equal_models_give_equal_files(tmp_path):
    model = LanguageModel.from_release(make_release({("a", "b"): 1.0}))
    for name in ("one.gz", "two.gz"):
        write_arpa(model, tmp_path / name)
    assert (tmp_path / "one.gz").read_bytes() == (tmp_path / "two.gz").read_bytes()


@pytest.mark.parametrize(
    "change", [("", ""), ("\n", "\r\n"), ("\t", " "), ("\\data", "\n \n\\data"), ("\n\n", "\n\n\n")]
)
def test_what_other_programs_write_is_read(tmp_path, change):
    path = tmp_path / "model.arpa"
    path.write_bytes(GOOD.replace(*change).encode() if change[0] else GOOD.encode())
    model = read_arpa(path, tokenizer=Tokenizer("whitespace"))
    assert model.score(["a", "b"]) == pytest.approx(-0.39794 - 0.30103 - 1, abs=1e-6)
    assert model.tokenizer.name == "whitespace"
    assert np.abs(sum_contexts(model.trie) - 1).max() < 1e-5
    assert model.about == {"imported_from": "model.arpa"}


BAD = [
    ("-0.90309\ta </s>", "-0.30103\ta b", 14, ALREADY),
    ("-0.39794\tb\t0", "-0.39794\ta\t0", 10, ALREADY),
    ("-0.30103\ta b", "0.1\ta b", 13, "a log-probability above 0."),
    ("-0.30103\ta b", "-0.5\ta b", 9, "the probabilities of the words after this context add up to 0.816228, not to 1."),
    ("-0.39794\tb\t0", "-0.39794\tb\t-0.1", 10, "the probabilities of the words after this context add up to 0.794328, not to 1."),
    ("-1\t</s>\t0", "-2\t</s>\t0", 5, "the probabilities of the words add up to 0.910000, not to 1."),
    ("<unk>", "<unknown>", 6, "no <unk> among the words; every model needs it."),
    ("<s>", "<start>", 6, "no <s> among the words; every model needs it."),
    ("-1\t</s>", "-1\tend", 6, "no </s> among the words; every model needs it."),
    ("a b", "a c", 13, "a word of this n-gram is not among those of order 1."),
    ("a b", "a <s>", 13, "<s> stands only at the start of an n-gram, </s> only at its end."),
    ("a b", "</s> b", 13, "<s> stands only at the start of an n-gram, </s> only at its end."),
    ("ngram 2=2", "ngram 2=3", 14, "the head says 3 n-grams of order 2, and there are 2."),
    ("ngram 2=2", "ngram 2=1", 14, "the head says 1 n-grams of order 2, and there are others."),
    ("b\t0\n\n", "b\t0\n", 11, "the head says 5 n-grams of order 1, and there are others."),
    ("ngram 1=5", "ngram 1=four", 2, "expected `ngram 1=` and a number."),
    ("ngram 2=2", "ngram 3=2", 3, "expected `ngram 2=` and a number."),
    ("ngram 2=2\n", "", 2, "order 1: models of order 2 to 6 are read."),
    ("-0.30103\ta b", "minus\ta b", 13, "'minus' is not a number."),
    ("-0.30103\ta b", "nan\ta b", 13, "'nan' is not a number."),
    ("-0.30103\ta b", "-1_0\ta b", 13, "'-1_0' is not a number."),
    ("a\t-0.1249387", "a\tinf", 9, "'inf' is not a number."),
    ("-0.30103\ta b", "-0.30103\ta", 13, "a log-probability and 2 words are expected."),
    ("-0.30103\ta b", "-0.30103\ta b 0 0", 13, "a log-probability and 2 words are expected."),
    ("-0.30103\ta b", "-0.30103\ta b 0", 13, "a log-probability and 2 words are expected."),
    ("\\data\\\n", "", 1, "expected `\\data\\`, the head of an ARPA file."),
    ("\\2-grams:", "\\3-grams:", 12, "expected `\\2-grams:`, the n-grams of order 2."),
    ("\\end\\\n", "", 16, "expected `\\end\\`, the end of the model."),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "problem"), BAD)
def test_what_is_wrong_is_refused_with_its_line(tmp_path, old, new, line, problem):
    assert old in GOOD
    path = tmp_path / "bad.arpa"
    path.write_text(GOOD.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(BayesgramError) as caught:
        read_arpa(path)
    assert str(caught.value) == f"{path}, line {line}: {problem}"
    assert caught.value.exit_code == 1


TRIGRAM = (
    GOOD.replace("ngram 2=2", "ngram 2=2\nngram 3=1")
    .replace("a b\n", "a b\t0\n")
    .replace("\\end\\", "\\3-grams:\n-1\tX\n\n\\end\\")
)


@pytest.mark.parametrize(("ngram", "part"), [("b a b", "context"), ("a b a", "suffix")])
def test_missing_contexts_and_suffixes(tmp_path, ngram, part):
    path = tmp_path / "bad.arpa"
    path.write_text(TRIGRAM.replace("X", ngram), encoding="utf-8")
    with pytest.raises(BayesgramError, match=rf"line 18: the {part} of this n-gram is missing\.$"):
        read_arpa(path)


def test_bytes_that_are_no_text(tmp_path):
    (tmp_path / "bad.arpa").write_bytes(GOOD.encode().replace(b"a b", b"a \xff"))
    with pytest.raises(
        BayesgramError, match=r"bad\.arpa, line 13: not UTF-8; convert the file first\.$"
    ):
        read_arpa(tmp_path / "bad.arpa")
    whole = gzip.compress(GOOD.encode())
    for name, content in (
        ("cut.gz", whole[:-9]),
        ("plain.gz", GOOD.encode()),
        ("bent.gz", whole[:20] + b"\0" * 30 + whole[50:]),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(
            BayesgramError, match=r"gz: not a whole gzip file; copy it again, or write it anew\.$"
        ):
            read_arpa(tmp_path / name)
    with pytest.raises(BayesgramError, match="can't be read"):
        read_arpa(tmp_path)
