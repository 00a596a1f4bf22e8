"""The command, as a process: it says where the page is, and ends when asked."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from bayesgram.cli.serve import serve
from bayesgram.errors import UsageError
from bayesgram.public.vocabulary import Vocabulary
from helpers.web_catalogue import make_release as release_with
from helpers.web_catalogue import make_releases, make_vocabulary


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("served")
    words = make_vocabulary()
    words.save(path / "vocab.parquet")
    replace(words, counts=words.counts + 1).save(path / "recounted.parquet")
    Vocabulary(words.ngrams[:5], words.counts[:5], 1, words.tokenizer).save(path / "other.parquet")
    (path / "empty").mkdir()
    (path / "old").mkdir()
    (path / "again").mkdir()
    release_with(replace(words, counts=words.counts + 1), 1.0).save(path / "again" / "recounted")
    release_with(words, 1.0).save(path / "old" / "weak")
    for name, release in zip(("weak", "strong"), make_releases(words), strict=False):
        release[1].save(path / name)
    for name in ("all", "de", "fr"):
        (path / "countries").mkdir(exist_ok=True)
        release_with(words, 1.0).save(path / "countries" / name)
    return path


def start(folder, *arguments):
    command = [sys.executable, "-m", "bayesgram", "serve", *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "BAYESGRAM_TOKEN"}
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_serves_until_interrupted(folder):
    running = start(folder, "weak", "strong", "--vocab", "vocab.parquet", "--port", "0")
    try:
        line = running.stdout.readline()
        address = re.fullmatch(r"The page is at (http://127\.0\.0\.1:\d+/)\n", line)[1]
        with urllib.request.urlopen(address, timeout=60) as answer:
            assert b"Bayesgram" in answer.read()
    finally:
        running.send_signal(signal.SIGINT)
        _, told = running.communicate(timeout=60)
    assert running.returncode == 0
    assert told.rstrip().endswith("Stopped.")
    assert "Traceback" not in told
    assert "Building the model of weak" in told


def test_other_addresses_get_a_token_and_a_warning(folder):
    running = start(folder, "weak", "--host", "0.0.0.0", "--port", "0", "--json")
    try:
        told = json.loads("".join(running.stdout.readline() for _ in range(5)))
        assert re.fullmatch(rf"http://[^/]+:\d+/\?token={told['token']}", told["address"])
        assert len(told["token"]) == 32
        assert told["loopback"] is False
    finally:
        running.terminate()
        _, told = running.communicate(timeout=60)
    assert "warning: the page can be reached from other machines." in " ".join(told.split())
    assert running.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            {"releases": ["nowhere"]},
            "nowhere: no such folder; give one that `bayesgram release` made.",
        ),
        ({"port": 99999}, "port=99999: give a number from 1 to 65535, or 0 for any free one."),
        (
            {"vocab": "weak/distribution.parquet"},
            "weak/distribution.parquet: no column 'count'; a vocabulary has",
        ),
        (
            {"vocab": "other.parquet"},
            "weak: was made with another vocabulary than other.parquet, which has other n-grams",
        ),
        (
            {"vocab": "recounted.parquet"},
            "weak: was made with another vocabulary than recounted.parquet, which has the same n-grams with",
        ),
        (
            {"releases": ["a=weak", "a=strong"]},
            "weak and strong: both are called 'a'; give one another name (NAME=PATH).",
        ),
        (
            {"releases": ["empty"]},
            "empty: neither a release folder (no card.json) nor a folder with releases in it; make",
        ),
        ({"releases": ["=weak"]}, "=weak: no such folder"),
    ],
)
def test_mistakes_are_one_sentence(folder, monkeypatch, arguments, words):
    monkeypatch.chdir(folder)
    given = {"releases": ["weak"], **arguments}
    vocab = [Path(given["vocab"])] if "vocab" in given else None
    with pytest.raises(UsageError) as error:
        serve(given["releases"], vocab=vocab, port=given.get("port", 0))
    assert str(error.value).startswith(words)


def served(monkeypatch, folder, *releases, **given):
    """What the command would show."""
    shown = []
    monkeypatch.chdir(folder)
    monkeypatch.setattr("bayesgram.web.api.build", lambda catalogue, _: shown.append(catalogue))
    monkeypatch.setattr("bayesgram.web.server.run", lambda *_, **__: None)
    serve(list(releases), port=0, **given)
    return shown[0]


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (["."], ["strong", "weak"]),
        (["weak", "strong"], ["weak", "strong"]),
        (["./weak/", "strong"], ["weak", "strong"]),
        (["mine=weak", "."], ["mine", "strong"]),
        (["all=."], ["all/strong", "all/weak"]),
        (["weak", "old/weak"], ["weak", "old/weak"]),
        (["weak", "weak"], ["weak"]),
        (["countries"], ["countries/all", "countries/de", "countries/fr"]),
        (["weak", "countries/de"], ["weak", "countries/de"]),
        (["may=countries"], ["may/all", "may/de", "may/fr"]),
    ],
)
def test_folders_of_releases_and_names(monkeypatch, folder, given, names):
    catalogue = served(monkeypatch, folder, *given)
    assert [item.view.name for item in catalogue.items] == names


def test_releases_of_several_vocabularies(monkeypatch, folder, capsys):
    paths = [folder / "vocab.parquet", folder / "recounted.parquet"]
    plain = served(monkeypatch, folder, "weak", "again/recounted", vocab=paths[:1])
    assert [item.view.public is None for item in plain.items] == [False, True]
    told = " ".join(capsys.readouterr().err.split())
    assert (
        "recounted: made with another vocabulary, so without public text to compare with; give theirs too"
        in told
    )
    both = served(monkeypatch, folder, "weak", "again/recounted", vocab=paths)
    first, second = (item.view.public for item in both.items)
    assert (first != second).any()
    assert "another vocabulary" not in capsys.readouterr().err
