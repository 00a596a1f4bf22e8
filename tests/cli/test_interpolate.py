"""bayesgram interpolate as people start it."""

import json
import math

import pytest

from bayesgram.lm.arpa import read_arpa, write_arpa
from bayesgram.lm.interpolation import interpolate
from bayesgram.lm.language_model import LanguageModel
from bayesgram.text.tokenizer import Tokenizer
from helpers.commands import bayesgram, check_output, expect_refusal
from helpers.reference_language_models import make_release

NEAR = {("red", "fish"): 4.0, ("fish", "swim"): 4.0}
FAR = {("red", "cat"): 4.0, ("cat", "swim"): 4.0}


@pytest.fixture
def here(tmp_path):
    make_release(NEAR, tokenizer="words").save(tmp_path / "out")
    LanguageModel.from_release(make_release(FAR, tokenizer="words")).save(tmp_path / "far")
    write_arpa(LanguageModel.load(tmp_path / "far"), tmp_path / "far.arpa")
    (tmp_path / "public.txt").write_text("Red fish swim.\nRed fish swim.\n", encoding="utf-8")
    return tmp_path


def test_mixes_a_release_and_an_arpa_file(here):
    shown = check_output(
        "interpolate", "out", "far.arpa", "--weights", "3,1", "-o", "mixed", cwd=here
    )
    assert "out 0.7500, far.arpa 0.2500" in shown
    wanted = interpolate(
        [LanguageModel.open(here / "out"), LanguageModel.load(here / "far")], [0.75, 0.25]
    )
    found = LanguageModel.load(here / "mixed")
    assert found.score("red fish swim") == wanted.score("red fish swim")
    assert [part["model"] for part in found.about["interpolated"]] == ["out", "far.arpa"]
    assert found.about["interpolated"][0]["claim"] == "ε = 1, δ = 1e-07 (PROVED)"


def test_tunes_and_writes_arpa(here):
    report = json.loads(
        check_output(
            "interpolate",
            "far",
            "out",
            "--tune",
            "public.txt",
            "-o",
            "mixed.arpa.gz",
            "--json",
            cwd=here,
        )
    )
    assert report["weights"]["out"] > 0.9
    assert math.fsum(report["weights"].values()) == pytest.approx(1)
    assert sum(report["ngrams"]) == sum(read_arpa(here / "mixed.arpa.gz").sizes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--weights", "1,x"],
            "--weights '1,x': give numbers separated by commas, such as 0.6,0.4.",
        ),
        (["--weights", "1"], "weights: 1 for 2 models; give one for each."),
        (["--weights", "1,-1"], "--weights 1, -1: each is a number from 0, and one is above 0."),
        (
            ["--weights", "1,1", "--tune", "public.txt"],
            "--weights and --tune: give one of them; --tune finds the weights.",
        ),
    ],
)
def test_wrong_use(here, arguments, message):
    assert (
        expect_refusal("interpolate", "out", "far", *arguments, "-o", "mixed", cwd=here) == message
    )
    assert not (here / "mixed").exists()


def test_models_that_do_not_fit(here):
    LanguageModel.from_release(make_release(FAR, tokenizer="words, case kept")).save(here / "cased")
    done = bayesgram("interpolate", "out", "cased", "-o", "mixed", cwd=here)
    assert done.returncode == 2
    assert "the models cut text in different ways (words; words, case kept)" in done.stderr
    (here / "bad.arpa").write_text(
        (here / "far.arpa").read_text(encoding="utf-8").replace("-1.", "-2.", 1), encoding="utf-8"
    )
    done = bayesgram("interpolate", "out", "bad.arpa", "-o", "out", "--force", cwd=here)
    assert done.returncode == 2  # an input is no output
    done = bayesgram("interpolate", "out", "bad.arpa", "-o", "far", "--force", cwd=here)
    assert done.returncode == 1
    assert "add up to" in done.stderr
    assert LanguageModel.load(here / "far").tokenizer == Tokenizer()
