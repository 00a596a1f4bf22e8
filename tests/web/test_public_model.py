"""The page with a public model: its suggestions are those of the model that would be shipped."""

from contextlib import nullcontext

import pyarrow as pa
import pytest

from bayesgram.errors import UsageError
from bayesgram.lm.language_model import LanguageModel
from bayesgram.public.public_model import PublicModel
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.tokenizer import Tokenizer
from bayesgram.web.catalogue import Builder
from bayesgram.web.panels import suggest
from helpers.commands import expect_failure, run_in_process
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
    catalogue = Builder(lambda _: nullcontext(), public.vocabulary, None, [public]).build(
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


@pytest.fixture
def served(monkeypatch, tmp_path, public):
    """What `bayesgram serve` would show of a release whose public model is beside it."""
    public.save(tmp_path / "vocab.parquet.model")
    make_release(public.vocabulary, 1.0).save(tmp_path / "out")
    (tmp_path / "block.txt").write_text("fish\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bayesgram.web.server.run", lambda *_, **__: None)
    shown = []
    monkeypatch.setattr("bayesgram.web.api.build", lambda catalogue, _: shown.append(catalogue))

    def serve(*arguments):
        run_in_process("serve", "out", "--port", 0, *arguments, cwd=tmp_path)
        return shown[-1]

    return serve


def test_serve_finds_the_public_model_and_says_so(served, public, capsys):
    catalogue = served()
    (item,) = catalogue.items
    expected = public.adapt_to(item.view.release)
    assert item.model.score("the red fish") == expected.score("the red fish")
    assert catalogue.public_model.score("the sea") == public.mixture.score("the sea")
    assert catalogue.vocabulary.fingerprint == public.vocabulary.fingerprint  # to compare with
    said = " ".join(capsys.readouterr().err.split())
    assert "Language model of out: the public model (public), corrected by the release." in said


def test_serve_can_leave_the_public_model_out(served, capsys):
    catalogue = served("--no-public")
    (item,) = catalogue.items
    expected = LanguageModel.from_release(item.view.release)
    assert item.model.score("the red fish") == expected.score("the red fish")
    assert catalogue.public_model is None
    said = " ".join(capsys.readouterr().err.split())
    assert "Language model of out: the release alone, without a public model" in said


def test_blocked_words_are_not_suggested(served):
    def words(*arguments, text="the red "):
        columns = suggest(served(*arguments), text, 5).columns
        return [{word.word for word in column.words} for column in columns]

    assert all("fish" in column for column in words())
    assert not any("fish" in column for column in words("--block", "block.txt"))
    assert not any("fish" in column for column in words("--block", "block.txt", text="the red f"))


def test_the_built_in_list_is_blocked_unless_it_is_switched_off(served):
    assert served().blocklist.built_in
    assert not served("--no-default-block").blocklist.built_in
