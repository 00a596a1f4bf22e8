"""KenLM as the judge: it loads what we write, and gives every sentence the same probability."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from bayesgram.lm.arpa import write_arpa
from bayesgram.lm.language_model import LanguageModel
from bayesgram.public.public_model import PublicModel
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.synthetic.population import Population
from bayesgram.text.ngrams import NgramCounter
from bayesgram.text.tokenizer import Tokenizer
from helpers.hypothesis_profiles import examples
from helpers.reference_language_models import make_release, tables
from helpers.web_catalogue import make_release as shaken

kenlm = pytest.importorskip(
    "kenlm", reason="KenLM is not installed: it is built from source, `make test` says why not"
)

SENTENCES = [
    [],
    ["a"],
    ["zzz"],
    ["a", "b", "é", "a"],
    ["𝒱", "x\u2028y", "q\u0085", "zzz", "c"] * 20,
]


def judge(model, path, sentences):
    """Compare each word to 1e-5; a total may be off by a rounding for each word, as KenLM adds up in single precision."""
    write_arpa(model, path)
    judged = kenlm.Model(str(path))
    assert judged.order == model.order
    for sentence in sentences:
        text = " ".join(sentence)
        theirs = list(judged.full_scores(text))
        ours = model.score_words(sentence)
        assert [each.log10 for each in ours] == pytest.approx(
            [score for score, _, _ in theirs], abs=1e-5
        )
        assert [each.order for each in ours] == [order for _, order, _ in theirs]
        assert [not each.is_known for each in ours] == [unknown for _, _, unknown in theirs]
        total = judged.score(text)
        assert model.score(sentence) == pytest.approx(
            total, abs=1e-5 + len(theirs) * abs(total) * 2**-24
        )


@given(tables())
@examples(25)
def test_hostile_models(tmp_path_factory, table):
    folder = tmp_path_factory.mktemp("kenlm")
    release = make_release(table)
    model = LanguageModel.from_release(release)
    judge(model, folder / "whole.arpa", SENTENCES)
    judge(
        LanguageModel.from_release(release, prune=len(model.trie.words) + 2),
        folder / "pruned.arpa.gz",
        SENTENCES,
    )


@pytest.fixture(scope="module")
def texts():
    batch = next(Population(users=300, seed=5).messages())
    return batch["text"].cast(pa.large_binary())


def counted(texts, orders, *, boundaries=False):
    """N-grams of a text with their counts."""
    counter = NgramCounter(orders, Tokenizer(boundaries=boundaries))
    counter.add(texts)
    words = [token.decode() for token in counter.tokens.strings().to_pylist()]
    table = {}
    for order in orders:
        [windows] = counter.tables(order)
        for rows, counts in windows.entries():
            for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
                table[tuple(words[number] for number in row)] = float(count)
    return {ngram: count for ngram, count in table.items() if ngram != ("<s>",)}


@pytest.mark.parametrize("orders", [(2,), (3,), (4,), (5,), (6,), (1, 2, 3), (2, 4)], ids=str)
@pytest.mark.parametrize("boundaries", [False, True])
def test_written_text_of_every_order(tmp_path, texts, orders, boundaries):
    table = counted(texts, orders, boundaries=boundaries)
    table = dict(sorted(table.items(), key=lambda item: -item[1])[:3000])
    release = make_release(table, tokenizer="words")
    model = LanguageModel.from_release(release)
    sentences = [
        words
        for text in texts.slice(0, 40).to_pylist()
        for words in Tokenizer().sentences(text.decode())
    ]
    judge(model, tmp_path / "whole.arpa", [*sentences, [], ["neverseen"]])
    small = LanguageModel.from_release(
        release, prune=(len(model.trie.words) + sum(model.sizes)) // 2
    )
    judge(small, tmp_path / "pruned.arpa", sentences)
    scores = np.array([model.score(words) for words in sentences])
    judged = kenlm.Model(str(tmp_path / "whole.arpa"))
    assert scores.sum() == pytest.approx(
        sum(judged.score(" ".join(words)) for words in sentences), rel=1e-6
    )


def test_a_public_model_moved_by_a_release(texts, tmp_path):
    table = pa.table({"text": texts.cast(pa.large_string())})
    choice = {"order": [1, 2, 3], "size": 300, "tokenizer": Tokenizer(boundaries=True)}
    public = PublicModel.from_public(Vocabulary.from_public(table, **choice), table)
    model = public.adapt_to(shaken(public.vocabulary, 1.0))
    sentences = [
        [model.trie.words[number] for number in row] for row in model.trie.ngrams(3)[::97].tolist()
    ]
    sentences = [[word for word in sentence if not word.startswith("<")] for sentence in sentences]
    judge(model, tmp_path / "whole.arpa", sentences)
    judge(model.prune(model.sizes[0] + 500), tmp_path / "small.arpa", sentences)
