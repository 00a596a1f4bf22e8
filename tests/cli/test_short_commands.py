"""Commands that are done at once: they load no more than they need, and answer as if they had."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import typer

import bayesgram as bg
import fish
from bayesgram import kernels
from bayesgram.cli.app import COMMANDS, build_app
from bayesgram.cli.as_typed import read_plainly
from bayesgram.reports.report import _Compiled
from language_models import release_of

PROGRAM = """
import atexit, sys
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
from bayesgram.cli import main
main()
"""
TABLE = {
    ("the",): 30.0,
    ("red",): 9.0,
    ("blue",): 8.0,
    ("fish",): 12.0,
    ("don't",): 3.0,
    ("café",): 2.0,
    ("the", "red"): 6.0,
    ("the", "blue"): 5.0,
    ("red", "fish"): 7.0,
    ("the", "red", "fish"): 4.0,
}
HEAVY = ("numba", "llvmlite", "scipy", "pandas", "matplotlib", "pydantic", "opendp", "dp_accounting")


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with a release, its vocabulary and its model, exact and with 8 bits."""
    folder = tmp_path_factory.mktemp("short")
    (folder / "public.txt").write_text(fish.PUBLIC)
    vocabulary = bg.Vocabulary.from_public(folder / "public.txt", order=(1, 2), size=100)
    vocabulary.save(folder / "vocab.parquet")
    private = pa.table({"user": ["ann", "bob"], "text": ["the red fish", "a blue fish"]})
    counts = bg.count(private, vocabulary)
    bg.release(counts, vocabulary, epsilon=1).save(folder / "out")
    release = release_of(TABLE, tokenizer="words")
    release.save(folder / "several")
    model = bg.LanguageModel.from_release(release)
    model.save(folder / "model")
    model.quantised(8).save(folder / "8 bits")
    return folder


def alone(*arguments, cwd):
    """What a command prints in a Python of its own, and the modules that it loads."""
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True)
    return done.stdout, set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("arguments", "also"),
    [
        (["predict", "model", "the red"], []),
        (["predict", "several", "the red"], []),
        (["report", "out", "--vocab", "vocab.parquet", "--force", "-o", "report.html"], ["rich"]),
        (["--version"], ["numpy", "rich"]),
        (["vocab", "--help"], ["numpy"]),
    ],
)
@pytest.mark.skipif(kernels.AS_PYTHON, reason="nothing is compiled")
def test_what_is_not_needed_is_not_loaded(work, arguments, also):
    _, loaded = alone(*arguments, cwd=work)
    assert not {name for name in (*HEAVY, *also) if name in loaded}
    commands = {f"bayesgram.cli.{path.partition('.')[0]}" for path in COMMANDS.values()}
    if arguments[0] in {"predict", "report"}:
        assert len(loaded & commands) == 1


@pytest.mark.parametrize("model", ["model", "8 bits"])
@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("the red", {}),
        ("The red fish. The", {"k": 3, "typed": "b"}),
        ("Fish don't know the CAFÉ, cafe\u0301", {"cache": 0.3, "k": 20}),
        ("日本語 unknown words", {"capitals": True}),
        ("", {"typed": "Re", "capitals": True}),
    ],
)
def test_kernels_that_run_as_python_predict_what_compiled_ones_do(work, model, text, options):
    given = [part for name, value in options.items() for part in (f"--{name}", value) if part is not True]
    answers = json.loads(alone("predict", model, text, *given, "--json", cwd=work)[0])["predictions"]
    expected = bg.LanguageModel.load(work / model).predict(text, **options)
    assert [answer["word"] for answer in answers] == [each.word for each in expected]
    assert [answer["probability"] for answer in answers] == pytest.approx([each.probability for each in expected])


def test_a_long_text_is_left_to_numba(work):
    _, loaded = alone("predict", "model", "the red fish " * 50, cwd=work)
    assert "numba" in loaded or kernels.AS_PYTHON


@pytest.mark.skipif(kernels.AS_PYTHON, reason="they always do")
def test_kernels_run_as_python_only_inside(monkeypatch):
    assert not kernels.interpreted()
    with kernels.interpreting():
        assert not kernels.interpreted()  # Numba is loaded already
    monkeypatch.delitem(sys.modules, "numba")
    with kernels.interpreting(wanted=False):
        assert not kernels.interpreted()
    with kernels.interpreting(), pytest.raises(ZeroDivisionError):
        assert kernels.interpreted()
        raise ZeroDivisionError
    assert not kernels.interpreted()


def parameters(command):
    yield from command.params
    for inner in getattr(command, "commands", {}).values():
        yield from parameters(inner)


@pytest.mark.parametrize("value", [None, "a/b c", ("x", "y/z"), "12", "1_000", "03", "+4", " 5 "])
def test_what_is_read_plainly_is_what_typer_reads(value):
    """Of every option of every command that is a path, a text, a number or a list of paths."""
    kinds = (
        str,
        Path,
        list[Path],
        *((int, float) if isinstance(value, str) and value.strip("+- ")[0].isdigit() else ()),
    )
    build_app.cache_clear()
    plain = typer.main.get_command(build_app())
    build_app.cache_clear()
    usual = typer.main.get_command(build_app())
    read_plainly(plain)
    context = typer.Context(usual)
    seen = 0
    for own, theirs in zip(parameters(plain), parameters(usual), strict=True):
        if not hasattr(theirs, "get_runtime_param"):
            pytest.skip("a Typer without Pydantic")
        several = theirs.multiple or theirs.nargs == -1
        if theirs.type_descriptor.annotation in kinds and several == isinstance(value, tuple):
            answers = [each.get_runtime_param().coerce(value, param=each, ctx=context) for each in (own, theirs)]
            assert answers[0] == answers[1]
            assert type(answers[0]) is type(answers[1])
            seen += 1
    assert seen >= 5


def test_a_template_is_compiled_once_and_needs_no_place_for_that(work, tmp_path, monkeypatch):
    from bayesgram.reports.report import page
    from bayesgram.reports.views import ReleaseView

    def written(folder):
        monkeypatch.setattr(sys, "dont_write_bytecode", False)
        monkeypatch.setattr(_Compiled, "__init__", lambda self: super(_Compiled, self).__init__(str(folder)))
        return page([ReleaseView("out", bg.Release.load(work / "out"))])

    first = written(tmp_path)
    [kept] = tmp_path.iterdir()
    content = kept.read_bytes()
    assert written(tmp_path) == first
    kept.write_bytes(b"not what it was")
    assert written(tmp_path) == first
    assert kept.read_bytes() == content
    assert written(tmp_path / "not there") == first
