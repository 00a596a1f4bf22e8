"""The page with a public model: its suggestions are those of the model that would be shipped."""

from contextlib import nullcontext

import pyarrow as pa
import pytest

from bayesgram.errors import UsageError
from bayesgram.public.public_model import PublicModel
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.tokenizer import Tokenizer
from bayesgram.web.catalogue import Builder
from bayesgram.web.panels import suggest
from helpers.commands import expect_failure
from helpers.web_catalogue import make_release

TEXT = pa.table(
    {"text": ["the red fish swims", "the blue fish swims", "red fish", "the sea", "blue sea"] * 3}
)


@pytest.fixture(scope="module")
def public():
    choice = {"order": [1, 2, 3], "size": 20, "tokenizer": Tokenizer(boundaries=True)}
    return PublicModel.from_public(Vocabulary.from_public(TEXT, **choice), TEXT)


def test_releases_move_it(public):
    made = make_release(public.vocabulary, 1.0)
    catalogue = Builder(lambda _: nullcontext(), public.vocabulary, None, public).build(
        [("out", made)]
    )
    answer = suggest(catalogue, "the red ", 2)
    expected = [public.mixture, public.adapt_to(made)]
    for column, model in zip(answer.columns, expected, strict=True):
        found = model.suggest("the red ", 2, cache=0.0, capitals=False)
        assert [word.word for word in column.words] == [each.word for each in found]
        assert [word.probability for word in column.words] == pytest.approx(
            [each.probability for each in found]
        )


def test_another_public_model_is_refused(public, tmp_path):
    public.save(tmp_path / "public.model")
    make_release(public.vocabulary, 1.0).save(tmp_path / "out")
    other = Vocabulary.from_public(TEXT, order=2, size=5)
    PublicModel.from_public(other, TEXT).save(tmp_path / "other.model")
    with pytest.raises(UsageError, match="another vocabulary"):
        PublicModel.load(tmp_path / "other.model").adapt_to(make_release(public.vocabulary, 1.0))
    said = expect_failure(
        "serve", "out", "--public", "other.model", "--port", 0, cwd=tmp_path, code=2, secret="\0"
    )
    assert "was made with another vocabulary" in said
    said = expect_failure(
        "serve",
        "out",
        "--public",
        "public.model",
        "--vocab",
        "v",
        cwd=tmp_path,
        code=2,
        secret="\0",
    )
    assert "leave --vocab out" in said
