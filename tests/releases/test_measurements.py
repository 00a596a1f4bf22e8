"""The noisy measurements of a release: what is written is read, and what is damaged is refused."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayesgram.errors import BayesgramError
from bayesgram.releases.measurements import (
    CLIPPED_TOTAL,
    CLIPPED_WORD,
    MEASUREMENTS_FILE,
    NGRAM,
    TOTAL,
    WORD,
    MeasurementBlock,
    Measurements,
)
from bayesgram.releases.release import Release
from helpers import web_catalogue


def strings(*texts):
    return pa.array(texts, pa.large_string())


def measurements(*, left=None, clipping=None):
    """Two pairs, their words, totals, and what was lost."""
    return Measurements.from_blocks(
        [
            MeasurementBlock(
                NGRAM, 2, strings("a b", "b é"), np.array([3.5, -1.25]), np.array([1.0, 0.5]), left
            ),
            MeasurementBlock.from_total(TOTAL, 2, 2.0, 0.75),
            MeasurementBlock(
                WORD,
                2,
                strings("a", "b", "é"),
                np.array([1.0, 2.0, 3.0]),
                np.array([0.1, 0.2, 0.3]),
            ),
            MeasurementBlock(CLIPPED_WORD, 2, strings("b"), np.array([9.0]), np.array([2.0])),
            MeasurementBlock.from_total(CLIPPED_TOTAL, 2, 8.0, 3.0),
        ],
        {2: (0.25, 0.5, 0.2)} if clipping is None else clipping,
    )


def release(measured):
    made = web_catalogue.make_release(web_catalogue.make_vocabulary(), 1.0)
    return replace(
        made, measurements=measured, card=replace(made.card, measured=measured.card_details)
    )


@pytest.mark.parametrize("left", [None, np.array([0.5, 1.0])])
@pytest.mark.parametrize("clipping", [{}, {2: (0.1, 1 / 3, 0.2)}])
def test_what_is_written_is_read_to_the_last_bit(left, clipping, tmp_path):
    made = measurements(left=left, clipping=clipping)
    release(made).save(tmp_path / "out")
    found = Release.load(tmp_path / "out").measurements
    assert found.digest == made.digest
    assert found.clipping == clipping
    for name in ("kinds", "orders", "counts", "noise_std"):
        assert np.array_equal(getattr(found, name), getattr(made, name)), name
    assert found.texts.equals(made.texts)
    assert (left is None and found.unclipped_share is None) or found.unclipped_share.tolist() == [
        0.5,
        1.0,
    ] + 6 * [1.0]


def test_views_are_by_kind_and_order():
    made = measurements(left=np.array([0.5, 1.0]))
    texts, counts, noise = made.ngrams(2)
    assert (texts.to_pylist(), counts.tolist(), noise.tolist()) == (
        ["a b", "b é"],
        [3.5, -1.25],
        [1.0, 0.5],
    )
    assert made.total(2) == (2.0, 0.75)
    assert made.block(WORD, 2).texts.to_pylist() == ["a", "b", "é"]
    assert made.block(WORD, 3) is None
    assert len(made.ngrams(1)[0]) == 0
    assert made.ngram_orders == [2]


def test_a_total_that_was_not_asked_is_added_up():
    block = MeasurementBlock(
        NGRAM, 1, strings("a", "b"), np.array([3.0, 4.0]), np.array([3.0, 4.0])
    )
    assert Measurements.from_blocks([block]).total(1) == (7.0, 5.0)


def test_the_card_says_what_was_measured():
    told = measurements().card_details
    assert told["file"] == MEASUREMENTS_FILE
    assert told["rows"] == {"ngram": 2, "word": 3, "total": 1, "lost word": 1, "lost total": 1}
    assert len(told["sha256"]) == 64


def changed(folder, change):
    """A release whose table of measurements was changed."""
    release(measurements(left=np.array([0.5, 1.0]))).save(folder)
    table = pq.read_table(folder / MEASUREMENTS_FILE)
    pq.write_table(change(table), folder / MEASUREMENTS_FILE)
    return folder


def column(table, name, values):
    return table.set_column(table.column_names.index(name), name, values)


EIGHT = list(range(1, 9))
DAMAGES = {
    "a column is missing": lambda table: table.drop_columns("noise"),
    "no rows": lambda table: table.slice(0, 0),
    "another order of rows": lambda table: table.take([1, 0, 2, 3, 4, 5, 6, 7]),
    "a kind nobody knows": lambda table: column(table, "kind", pa.array(["x"] * 8)),
    "kinds that are numbers": lambda table: column(table, "kind", pa.array(EIGHT)),
    "null": lambda table: column(table, "count", pa.array([None] + [1.0] * 7)),
    "NaN": lambda table: column(table, "count", pa.array([float("nan")] + [1.0] * 7)),
    "infinite noise": lambda table: column(table, "noise", pa.array([float("inf")] + [1.0] * 7)),
    "no noise": lambda table: column(table, "noise", pa.array([0.0] + [1.0] * 7)),
    "whole numbers": lambda table: column(table, "count", pa.array(EIGHT)),
    "an order of 0": lambda table: column(table, "order", pa.array([0] * 8)),
    "a huge order": lambda table: column(table, "order", pa.array([2**40] * 8)),
    "two totals": lambda table: pa.concat_tables([table, table.slice(2, 1)]),
    "text that is none": lambda table: column(table, "text", pa.array(EIGHT)),
    "nothing is left": lambda table: column(table, "left", pa.array([0.0] + [1.0] * 7)),
    "more than all is left": lambda table: column(table, "left", pa.array([1.5] + [1.0] * 7)),
    "one number is another": lambda table: column(table, "count", pa.array([1.0] * 8)),
    "clipping is a text": lambda table: table.replace_schema_metadata(
        {"bayesgram.clipping": '"x"'}
    ),
    "clipping is no JSON": lambda table: table.replace_schema_metadata({"bayesgram.clipping": "{"}),
    "clipping takes everything": lambda table: table.replace_schema_metadata(
        {"bayesgram.clipping": '{"2": [1.0, 0.5, 0.2]}'}
    ),
    "clipping is NaN": lambda table: table.replace_schema_metadata(
        {"bayesgram.clipping": '{"2": [NaN, 0.5, 0.2]}'}
    ),
    "clipping of an order of 0": lambda table: table.replace_schema_metadata(
        {"bayesgram.clipping": '{"0": [0.25, 0.5, 0.2]}'}
    ),
    "clipping is gone": lambda table: table.replace_schema_metadata({}),
}


@pytest.mark.parametrize("change", DAMAGES.values(), ids=DAMAGES)
def test_damaged_measurements_are_refused(change, tmp_path):
    folder = changed(tmp_path / "out", change)
    with pytest.raises(BayesgramError, match="the release is damaged"):
        Release.load(folder)


def test_an_unchanged_table_is_not(tmp_path):
    assert Release.load(changed(tmp_path / "out", lambda table: table)).measurements is not None


def test_a_file_that_is_cut_or_missing_is_refused(tmp_path):
    folder = changed(tmp_path / "out", lambda table: table)
    data = (folder / MEASUREMENTS_FILE).read_bytes()
    for damaged in (data[: len(data) // 2], b""):
        (folder / MEASUREMENTS_FILE).write_bytes(damaged)
        with pytest.raises(BayesgramError, match="the release is damaged"):
            Release.load(folder)
    (folder / MEASUREMENTS_FILE).unlink()
    with pytest.raises(BayesgramError, match="the release is damaged"):
        Release.load(folder)


@pytest.mark.parametrize(
    "value", [None, 1, "x", {}, {"file": MEASUREMENTS_FILE, "rows": {}, "sha256": 1}]
)
def test_a_card_and_a_file_belong_together(value, tmp_path):
    folder = changed(tmp_path / "out", lambda table: table)
    card = json.loads((folder / "card.json").read_text())
    (folder / "card.json").write_text(json.dumps({**card, "measured": value}))
    with pytest.raises(BayesgramError, match="the release is damaged"):
        Release.load(folder)
