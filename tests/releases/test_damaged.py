"""Releases, models and ARPA files in which a value is wrong: refused where they are opened, not where they are shown."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayesgram.errors import BayesgramError
from bayesgram.lm.arpa import read_arpa, write_arpa
from bayesgram.lm.language_model import LanguageModel
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.privacy.budget import Budget
from bayesgram.releases.release import Release
from helpers import reference_paper, web_catalogue

EMPTY = {"a": None}
SHARE = {"text": 0.5, "text_std": 0.1, "share": 0.1, "std": 0.1}
GOOD = {"wiki": {"weight": 0.5, "deviation": 0.1}, "talk": {"weight": 0.5, "deviation": 0.1}}
QUALITY = {
    "coverage": {"2": {"share": 0.2, "std": 0.01}},
    "quality": {"2": {"error_removed": 0.8, "known": 200.0, "known_mass": 0.4}},
    "std_parts": {"2": {"noise": 0.1, "shrinkage": 0.2, "clipping": 0.05}},
}
BAD = ("1", None, -0.1, float("nan"), float("inf"), True)


@pytest.fixture(scope="module")
def card():
    made = web_catalogue.add_source_weights(
        web_catalogue.make_release(web_catalogue.make_vocabulary(), 1.0),
        {"3": web_catalogue.SOURCES},
    )
    values = made.card.to_json()
    return {"format": 2, **values, "details": {**values["details"], **QUALITY}}


def put(folder, card, columns):
    folder.mkdir()
    (folder / "card.json").write_text(json.dumps(card))
    pq.write_table(pa.table(columns), folder / "distribution.parquet")
    return folder


WORDS = {"ngram": ["a", "b"], "probability": [0.25, 0.75], "standard_deviation": [0.1, 0.0]}


def test_the_card_and_the_columns_are_good_as_they_are(tmp_path, card):
    assert Release.load(put(tmp_path / "out", card, WORDS)).card.epsilon == 1.0


@pytest.fixture
def two(tmp_path):
    """Folders of two releases over the same n-grams."""
    words = reference_paper.make_vocabulary([9, 4, 2])
    counts = reference_paper.make_user_counts(np.ones((5000, 3), np.int64))
    for name, epsilon in (("one", 1.0), ("other", 2.0)):
        Posterior().release(counts, words, Budget(epsilon, 1e-7)).save(tmp_path / name)
    return tmp_path / "one", tmp_path / "other"


@pytest.mark.parametrize("name", ["distribution.parquet", "measured.parquet"])
def test_a_file_of_another_release_is_refused_and_named(two, name):
    one, other = two
    (one / name).write_bytes((other / name).read_bytes())
    with pytest.raises(
        BayesgramError,
        match=rf"one/{name}: the release is damaged. Get a copy of it .* budget again",
    ):
        Release.load(one)


def test_a_number_that_was_changed_is_noticed(two):
    one, _ = two
    table = pq.read_table(one / "distribution.parquet")
    doubt = pa.array(table["standard_deviation"].to_numpy() * 2)
    pq.write_table(table.set_column(2, "standard_deviation", doubt), one / "distribution.parquet")
    with pytest.raises(BayesgramError, match="the release is damaged"):
        Release.load(one)


@pytest.mark.parametrize("name", ["card.json", "distribution.parquet", "measured.parquet"])
def test_the_file_that_was_cut_off_is_named(two, name):
    one, _ = two
    (one / name).write_bytes((one / name).read_bytes()[:-20])
    with pytest.raises(BayesgramError, match=rf"one/{name}: the release is damaged"):
        Release.load(one)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *(
            (name, value)
            for name in ("mechanism", "statement", "software")
            for value in (1, None, ["a"])
        ),
        *(("command", value) for value in (1, ["a"], EMPTY)),
        *(("seeded", value) for value in (0, 1, "no", None)),
        *(("guarantee", value) for value in ("SURE", 1, ["PROVED"], None)),
        *(
            ("epsilon", value)
            for value in ("1", [1], True, -1, 101, 1e308, float("nan"), float("inf"), 10**400)
        ),
        *(("delta", value) for value in ("1", [1], False, -1e-9, 1.5, float("nan"))),
        *(
            (name, value)
            for name in ("settings", "details", "vocabulary", "ledger")
            for value in ("a", [], 1.5)
        ),
        *(
            (f"settings.{name}", value)
            for name in ("clip_norm", "max_count")
            for value in ("1", [1], float("nan"))
        ),
        *(
            (f"vocabulary.{name}", value)
            for name in ("size", "order")
            for value in ("1", 1.5, True, None, -1)
        ),
        *(
            (f"vocabulary.{name}", value)
            for name in ("tokenizer", "fingerprint")
            for value in (1, None, ["words"])
        ),
        *(("vocabulary.orders", value) for value in (3, "123", [1, "2"])),
        *(
            ("details.expected_counts", value)
            for value in (7, [1], {"1": "x"}, {"1": [1]}, {"1": -1}, {"1": 1e308})
        ),
        *(
            ("details.by_order.3.norm_edges", value)
            for value in (7, "ab", [1.0], ["a", "b", "c"], [1.0, 2.0, float("inf")])
        ),
        *(
            ("details.by_order.3.noisy_users_by_norm", value)
            for value in (7, [1.0], ["a"] * 4, None)
        ),
        *(
            (f"details.by_order.3.{name}", "1")
            for name in ("clip_norm_used", "amount_multiplier", "noise_multiplier")
        ),
        *(("details.by_order", value) for value in (7, [1], {"0": {}}, {"3": []}, {"3": {}})),
        *(("details.by_order.3.users_noise", value) for value in ("1", -1.0, None)),
        *(
            ("details.by_order.3.withheld", value)
            for value in (
                7,
                {},
                {"share": 0.1},
                {"share": "x", "std": 0.1},
                {"share": 0.1, "std": -1},
                {"share": 0.1, "std": 0.1, "by_activity": 3},
                {"share": 0.1, "std": 0.1, "by_activity": [{"share": 0.1, "std": 0.1}]},
                {"share": 0.1, "std": 0.1, "by_activity": [{**SHARE, "text_std": -1}]},
                {"share": 0.1, "std": 0.1, "by_activity": [{**SHARE, "text_std": None}]},
                {"share": None, "std": None},
                {"share": 0.1, "std": 0.1, "by_activity": [{}] * 9},
            )
        ),
        *(
            ("details.source_weights", value)
            for value in (1, [1], {"0": GOOD}, {"three": GOOD}, {"3": {}}, {"3": [1]})
        ),
        *(("details.source_weights.3", {name: {}}) for name in ("", "a" * 33, "a\u202eb", "wiki")),
        *(
            (f"details.source_weights.3.wiki.{name}", value)
            for name in ("weight", "deviation")
            for value in BAD
        ),
        ("details.source_weights.3.wiki.weight", 1.01),
        *(
            (f"details.{name}", value)
            for name in ("coverage", "quality", "std_parts")
            for value in (1, [1], "a", None, {"0": {}}, {"two": {}}, {"2": {}}, {"2": [1]})
        ),
        *((f"details.{name}", {"2": None}) for name in ("quality", "std_parts")),
        *(
            (f"details.{name}.2.{part}", value)
            for name, parts in QUALITY.items()
            for part in parts["2"]
            for value in (*BAD, 1e16)
        ),
        *(
            (f"details.{path}", 1.01)
            for path in ("coverage.2.share", "quality.2.error_removed", "quality.2.known_mass")
        ),
        *((("ledger"), value) for value in ({"population": "a"}, {"entry": 1})),
        ("statement", "\ud800"),
    ],
)
def test_a_card_of_other_types_is_damaged(tmp_path, card, path, value):
    *inside, name = path.split(".")
    changed = json.loads(json.dumps(card))
    place = changed
    for part in inside:
        place = place[part]
    place[name] = value
    with pytest.raises(BayesgramError, match="the release is damaged"):
        Release.load(put(tmp_path / "out", changed, WORDS))


@pytest.mark.parametrize(
    "columns",
    [
        {"ngram": [1, 2]},
        {"ngram": ["a", None]},
        {"ngram": [b"a", b"b"]},
        {"ngram": pa.array([b"a", b"b\xff"]).view(pa.string())},
        {"probability": ["a", "b"]},
        {"probability": [None, 1.0]},
        {"probability": [[0.5], [0.5]]},
        {"standard_deviation": ["a", "b"]},
        {"standard_deviation": [float("nan"), 0.1]},
        {"standard_deviation": [-0.1, 0.1]},
        {"standard_deviation": [float("inf"), 0.1]},
        {name: values[:0] for name, values in WORDS.items()},
    ],
)
def test_columns_of_other_types_are_damaged(tmp_path, card, columns):
    with pytest.raises(BayesgramError, match="damaged"):
        Release.load(put(tmp_path / "out", card, WORDS | columns))


def model():
    table = {
        "a b c": 3,
        "b c a": 1,
        "a b é": 2,
        "<s> a b": 1,
        "c a </s>": 1,
        "a b": 9,
        "b c": 4,
        "a": 20,
        "c": 3,
    }
    return LanguageModel.from_counts(pa.array([*table]), [*table.values()])


# ARPA


def test_what_follows_the_end_is_not_lost(tmp_path):
    write_arpa(model(), tmp_path / "x.arpa")
    one = (tmp_path / "x.arpa").read_bytes()
    (tmp_path / "x.arpa").write_bytes(one + b"\n \r\n")
    assert read_arpa(tmp_path / "x.arpa").sizes == model().sizes
    (tmp_path / "x.arpa").write_bytes(one + one)
    with pytest.raises(BayesgramError) as caught:
        read_arpa(tmp_path / "x.arpa")
    line = one.count(b"\n") + 1
    assert (
        str(caught.value)
        == f"{tmp_path / 'x.arpa'}, line {line}: something follows the end of the model."
    )


@pytest.mark.parametrize(
    ("number", "problem"),
    [
        ("1e39", "'1e39' is too large a number."),
        ("-1e39", "'-1e39' is too large a number."),
        ("1e30", "add up to inf"),
    ],
)
def test_a_back_off_beyond_all_numbers(tmp_path, number, problem):
    lines = [
        "\\data\\",
        "ngram 1=4",
        "ngram 2=1",
        "",
        "\\1-grams:",
        "-99\t<s>\t0",
        "-0.4771213\t</s>",
        "-0.4771213\t<unk>",
    ]
    lines += [f"-0.4771213\ta\t{number}", "", "\\2-grams:", "-0.4771213\ta a", "", "\\end\\", ""]
    (tmp_path / "x.arpa").write_text("\n".join(lines))
    with pytest.raises(BayesgramError, match="line 9: ") as caught:
        read_arpa(tmp_path / "x.arpa")
    assert problem in str(caught.value)
