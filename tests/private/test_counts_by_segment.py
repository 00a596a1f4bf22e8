"""Counting by segment: rows of one user in several segments are one row of counts; unlisted values never show."""

import json
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bayesgram as bg
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.io import read_records
from bayesgram.io.segments import MOST, Segments, parse_names
from bayesgram.private import counts as counting
from bayesgram.private.counts import SegmentedCounts
from bayesgram.private.counts_io import load_counts, load_user_counts, read_segments, save_counts
from bayesgram.private.streaming import count_to_folder
from helpers.hypothesis_profiles import examples

SECRET = "zanzibar"
PUBLIC = pa.table({"text": ["the red fish swims", "the blue fish sleeps"]})
VOCABULARY = bg.Vocabulary.from_public(PUBLIC, order=2, size=100)
ROWS = [
    ("ann", "the red fish", "de"),
    ("ann", "The red fish swims", "fr"),
    ("bob", "the blue fish", "fr"),
    ("ann", "red fish, red fish", "de"),
    ("eve", "the blue fish sleeps", SECRET),
    ("eve", "nothing known", "de"),
    ("dan", "the red fish", None),
]


def table(rows):
    columns = zip(*rows, strict=True)
    return pa.table(dict(zip(("user", "text", "country"), map(pa.array, columns), strict=True)))


def literal(rows, segments, other):
    """{user: {column: count}} by reading one row after the other.

    After segments × bigrams, each segment has a column for bigrams that are not listed.
    """
    names = [*segments, "other"] if other else list(segments)
    listed = {ngram: i for i, ngram in enumerate(VOCABULARY.ngrams.to_pylist())}
    found = {}
    for user, text, country in rows:
        segment = country if country in segments else "other"
        if segment not in names:
            continue
        for sentence in text.lower().replace(",", " ").split("."):
            tokens = sentence.split()
            for pair in pairwise(tokens):
                column = len(names) * len(listed) + names.index(segment)
                if " ".join(pair) in listed:
                    column = names.index(segment) * len(listed) + listed[" ".join(pair)]
                own = found.setdefault(user, {})
                own[column] = own.get(column, 0) + 1
    return found


def rows_of(counts):
    flat = counts.flat
    return {
        user.as_py().decode(): dict(
            zip(flat.ngrams[first:last].tolist(), flat.counts[first:last].tolist(), strict=True)
        )
        for user, first, last in zip(flat.users, flat.starts[:-1], flat.starts[1:], strict=True)
    }


def test_a_user_of_several_segments_is_one_row():
    counts = bg.count(table(ROWS), VOCABULARY, by="country", segments=["de", "fr"], other=True)
    assert isinstance(counts, SegmentedCounts)
    assert rows_of(counts) == literal(ROWS, ["de", "fr"], other=True)
    # Three bigrams in fr, two of them in de, and "fish red" in de, which is not listed.
    assert len(rows_of(counts)["ann"]) == 6
    assert rows_of(counts)["eve"][3 * len(VOCABULARY)] == 1  # "nothing known", in de
    assert SECRET not in repr(counts)


@examples(60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c"]),
            st.sampled_from(["the red fish", "red fish swims", "", "the blue fish sleeps"]),
            st.sampled_from(["de", "fr", "DE", " de", "", None, "é", "de\n"]),
        ),
        min_size=1,
        max_size=12,
    ),
    st.booleans(),
)
def test_values_are_compared_byte_by_byte_and_unlisted_ones_never_become_coordinates(rows, other):
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    given_rows = pa.table(dict(zip(("user", "text", "country"), columns, strict=True)))
    told = {"by": "country", "segments": ["de", "fr"], "other": other, "skip_bad_rows": not other}
    counts = bg.count(given_rows, VOCABULARY, **told)
    assert counts.flat.vocabulary_size == (2 + other) * len(VOCABULARY)
    assert rows_of(counts) == literal(rows, ["de", "fr"], other)


WRITERS = {
    "rows.parquet": pq.write_table,
    "rows.arrow": lambda rows, path: pyarrow.feather.write_feather(rows, str(path)),
    "rows.csv": pyarrow.csv.write_csv,
    "rows.tsv": lambda rows, path: pyarrow.csv.write_csv(
        rows, path, pyarrow.csv.WriteOptions(delimiter="\t", quoting_style="needed")
    ),
    "rows.jsonl": lambda rows, path: path.write_text(
        "".join(json.dumps(row) + "\n" for row in rows.to_pylist())
    ),
}


@pytest.mark.parametrize("numbers", [False, True], ids=["text", "whole numbers"])
@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_counts(name, numbers, tmp_path):
    values = {"de": 7, "fr": 8} if numbers else {"de": "de", "fr": "fr"}
    rows = [
        (user, text, values.get(country, 9 if numbers else country)) for user, text, country in ROWS
    ]
    WRITERS[name](table(rows), tmp_path / name)
    counts = bg.count(
        tmp_path / name,
        VOCABULARY,
        by="country",
        segments=[str(value) for value in values.values()],
        other=True,
    )
    assert rows_of(counts) == literal(ROWS, ["de", "fr"], other=True)


def test_lines_that_arrow_refuses_mean_the_same(tmp_path):
    """A block in which one line is broken is read line by line."""
    lines = [
        json.dumps({"user": user, "text": text, "country": country}) for user, text, country in ROWS
    ]
    (tmp_path / "a.jsonl").write_text(
        "\n".join([*lines, "{broken", '{"user": "x", "text": "y", "country": 1.5}'])
    )
    told = {"by": "country", "segments": ["de", "fr"], "skip_bad_rows": True}
    assert rows_of(bg.count(tmp_path / "a.jsonl", VOCABULARY, **told)) == literal(
        ROWS, ["de", "fr"], other=False
    )
    reader = read_records(
        tmp_path / "a.jsonl",
        text_column="text",
        user_column="user",
        skip_bad_rows=True,
        segments=Segments("country", ("de", "fr")),
    )
    assert sum(map(len, reader)) == 5
    assert reader.bad_rows.by_reason["the segment is neither a string nor a whole number"] == 1
    assert (
        reader.bad_rows.by_reason[
            "'country' is none of the segments (de, fr), and `other` is not set"
        ]
        == 2
    )


@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv", "rows.jsonl"])
def test_an_unlisted_value_stops_the_run_without_being_shown(name, tmp_path):
    WRITERS[name](table(ROWS), tmp_path / name)
    with pytest.raises(
        BayesgramError, match=r"row 5: 'country' is none of the segments \(de, fr\)"
    ) as caught:
        bg.count(tmp_path / name, VOCABULARY, by="country", segments=["de", "fr"])
    assert SECRET not in str(caught.value)


def test_a_quoted_segment_of_several_lines_stops_the_whole_file(tmp_path):
    (tmp_path / "a.csv").write_text('user,text,country\nann,the red fish,"de\n"\n')
    with pytest.raises(BayesgramError, match="row 1: a segment of several lines"):
        bg.count(
            tmp_path / "a.csv",
            VOCABULARY,
            by="country",
            segments=["de"],
            other=True,
            skip_bad_rows=True,
        )


def test_counts_by_segment_wait_on_disk_as_others_do(tmp_path, monkeypatch):
    from bayesgram.private import streaming

    rng = np.random.default_rng(1)
    rows = [
        (
            f"u{rng.integers(40)}",
            str(rng.choice(["the red fish", "blue fish sleeps", "a red fish", "no, nothing here"])),
            str(rng.choice(["de", "fr"])),
        )
        for _ in range(500)
    ]
    listed = Segments("country", ("fr", "de"))
    whole = bg.count(table(rows), VOCABULARY, by="country", segments=listed.names)
    save_counts(whole, VOCABULARY, tmp_path / "whole")
    for module, name in ((streaming, "MIN_PENDING"), (counting, "MAX_PENDING")):
        monkeypatch.setattr(module, name, 50)
    monkeypatch.setattr(streaming, "BYTES_PER_OCCURRENCE", 10**8)
    records = read_records(table(rows), text_column="text", user_column="user", segments=listed)
    count_to_folder(records, VOCABULARY, tmp_path / "streamed", memory=10**8, segments=listed)
    streamed = load_counts(tmp_path / "streamed", vocabulary_size=len(VOCABULARY))
    assert streamed.segments == listed == read_segments(tmp_path / "whole")
    assert (
        rows_of(streamed)
        == rows_of(whole)
        == rows_of(load_counts(tmp_path / "whole", vocabulary_size=len(VOCABULARY)))
    )
    assert rows_of(
        bg.count(table(rows), VOCABULARY, by="country", segments=listed.names)
    ) == rows_of(whole)
    with pytest.raises(UsageError, match="counts by 'country', which `bayesgram release`"):
        load_user_counts(tmp_path / "whole", vocabulary_size=len(VOCABULARY))


@pytest.mark.parametrize(
    "segments",
    [
        {"by": "c", "names": ["de", "de"], "other": False},
        {"by": "c", "names": 7, "other": False},
        "absent",
    ],
    ids=str,
)
def test_damaged_segments_of_a_counts_folder_are_refused(segments, tmp_path):
    counts = bg.count(table(ROWS), VOCABULARY, by="country", segments=["de", "fr"], other=True)
    save_counts(counts, VOCABULARY, tmp_path / "counts")
    meta = json.loads((tmp_path / "counts" / "meta.json").read_text())
    meta["segments"] = segments
    if segments == "absent":
        del meta["segments"]
    (tmp_path / "counts" / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(BayesgramError, match=r"meta\.json is damaged|ngram is not in 0"):
        load_counts(tmp_path / "counts", vocabulary_size=len(VOCABULARY))


def test_rows_of_other_segments_are_refused_where_no_segments_are_named(tmp_path):
    counts = bg.count(table(ROWS), VOCABULARY, by="country", segments=["de", "fr"], other=True)
    save_counts(counts, VOCABULARY, tmp_path / "counts")
    meta = json.loads((tmp_path / "counts" / "meta.json").read_text())
    meta["segments"] = None
    (tmp_path / "counts" / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(BayesgramError, match="ngram is not in 0 … "):
        load_counts(tmp_path / "counts", vocabulary_size=len(VOCABULARY))


WRONG = {
    "an empty name": (["de", ""], "'' is no name"),
    "blanks": (["de", "  "], "'  ' is no name"),
    "twice": (["de", "fr", "de"], "'de' is there twice"),
    "case alone": (["de", "DE"], "'DE' is there beside 'de', which differs by case alone"),
    "all": (["de", "all"], "'all' is kept for all people; leave it out, or rename"),
    "other": (
        ["de", "Other"],
        "'Other' is kept for values outside the list; leave it out, and say other=True",
    ),
    "a path": (["../de"], "can't be the name of a folder"),
    "hidden": ([".de"], "can't be the name of a folder"),
    "a line end": (["d\ne"], "can't be the name of a folder"),
    "too many": ([f"s{i}" for i in range(MOST + 1)], "201 names; give 1 to 200"),
    "none": ([], "0 names; give 1 to 200"),
}


@pytest.mark.parametrize(("names", "told"), WRONG.values(), ids=WRONG)
def test_names_that_no_row_or_folder_can_have_are_refused(names, told):
    with pytest.raises(UsageError) as caught:
        bg.count(table(ROWS), VOCABULARY, by="country", segments=names)
    assert told in str(caught.value)


def test_a_column_and_a_list_belong_together():
    with pytest.raises(UsageError, match="name the `segments` too"):
        bg.count(table(ROWS), VOCABULARY, by="country")
    with pytest.raises(UsageError, match="name the column that holds them too"):
        bg.count(table(ROWS), VOCABULARY, segments=["de"])
    with pytest.raises(UsageError, match="segments: takes a list or None, and a str was given"):
        bg.count(table(ROWS), VOCABULARY, by="country", segments="de,fr")
    with pytest.raises(UsageError, match="by='text': is the text column too"):
        bg.count(table(ROWS), VOCABULARY, by="text", segments=["de"])
    with pytest.raises(UsageError, match=r"no column 'land'; .* Name the right one with `by`\."):
        bg.count(table(ROWS), VOCABULARY, by="land", segments=["de"])
    twice = table(ROWS).append_column("country", table(ROWS)["country"])
    with pytest.raises(UsageError, match="2 columns are called 'country'"):
        bg.count(twice, VOCABULARY, by="country", segments=["de"])
    with pytest.raises(
        UsageError, match="the segment column 'country' holds double; segments must be text"
    ):
        bg.count(
            table([(*row[:2], 0.5) for row in ROWS]), VOCABULARY, by="country", segments=["de"]
        )


def test_more_segments_than_numbers_can_be_counted_are_refused(monkeypatch):
    monkeypatch.setattr(counting, "MAX_COUNT", 2 * len(VOCABULARY))
    with pytest.raises(UsageError, match="use fewer segments, or a smaller vocabulary"):
        bg.count(table(ROWS), VOCABULARY, by="country", segments=["de", "fr"], other=True)
    monkeypatch.setattr(counting, "MAX_COUNT", 3 * len(VOCABULARY) + 2)  # 3 columns are unlisted
    with pytest.raises(UsageError, match="use fewer segments, or a smaller vocabulary"):
        bg.count(table(ROWS), VOCABULARY, by="country", segments=["de", "fr"], other=True)
    monkeypatch.setattr(counting, "MAX_COUNT", 3 * len(VOCABULARY) + 3)
    many = [(f"u{i}", "the red fish", "de") for i in range(len(VOCABULARY) + 2)]
    with pytest.raises(UsageError, match="too many for so many users"):
        bg.count(table(many), VOCABULARY, by="country", segments=["de", "fr"], other=True)


def test_names_come_from_a_list_or_a_file(tmp_path):
    (tmp_path / "names.txt").write_text("﻿de\n\n fr \n", encoding="utf-8")
    assert parse_names(str(tmp_path / "names.txt")) == ["de", "fr"]
    assert parse_names("de, fr") == ["de", "fr"]
    assert parse_names("de,,fr") == ["de", "", "fr"]
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not a text file in UTF-8"):
        parse_names(str(tmp_path / "bad.txt"))
