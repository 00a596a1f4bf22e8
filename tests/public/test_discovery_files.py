"""The folder of a discovery: what can't be read is named, with what to do about it."""

import json

import pytest

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.mechanisms.discovery import discover
from bayesgram.public.discovered_ngrams import Discovery
from helpers import discovery_data


@pytest.fixture
def saved(tmp_path):
    found = discover(
        discovery_data.make_table(discovery_data.MANY_PEOPLE),
        discovery_data.make_vocabulary(),
        discovery_data.BUDGET,
        seed=1,
        rounds=2,
    )
    found.save(tmp_path / "found")
    return tmp_path / "found"


def noise_that_is_none(path):
    card = json.loads(path.read_text(encoding="utf-8"))
    card["details"]["noise_multiplier"] = "nan"
    path.write_text(json.dumps(card), encoding="utf-8")


DAMAGES = {
    "card.json": [noise_that_is_none, lambda path: path.write_text("{}", encoding="utf-8")],
    "ngrams.parquet": [
        lambda path: path.write_bytes(path.read_bytes()[:-20]),
        lambda path: path.write_bytes(b""),
    ],
}


@pytest.mark.parametrize(("name", "at"), [(name, at) for name in DAMAGES for at in (0, 1)])
def test_a_damaged_file_is_named_and_nobody_is_told_to_spend_again(saved, name, at):
    assert len(Discovery.load(saved)) > 0
    DAMAGES[name][at](saved / name)
    with pytest.raises(
        BayesgramError, match=rf"found/{name}: the discovery is damaged. Get a copy .* budget again"
    ):
        Discovery.load(saved)


def test_a_folder_that_is_not_there_and_one_that_is_something_else(saved):
    with pytest.raises(
        UsageError, match="nowhere: no such folder; give one that `bayesgram discover` made"
    ):
        Discovery.load(saved.parent / "nowhere")
    with pytest.raises(UsageError, match="not a discovery"):
        Discovery.load(saved.parent)
