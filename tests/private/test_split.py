"""bg.split: people are held out, all rows of a person go to one file."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bayesgram as bg
from bayesgram.private.split import held_out_mask
from helpers.hypothesis_profiles import examples
from helpers.modes import has_mode


def rows_of(path, columns=("user", "text")):
    table = pq.read_table(path)
    assert table.column_names == list(columns)
    return list(zip(*(table[name].to_pylist() for name in columns), strict=True))


def run(table, folder, **options):
    train, held_out = folder / "train.parquet", folder / "held-out.parquet"
    bg.split(table, train, held_out, **options)
    return rows_of(train), rows_of(held_out)


USERS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=3)


@examples(30)
@given(
    rows=st.lists(st.tuples(USERS, st.text("ab ", max_size=5)), min_size=1, max_size=30),
    data=st.data(),
)
def test_every_row_is_in_one_file_and_every_person_too(tmp_path_factory, rows, data):
    folder = tmp_path_factory.mktemp("split")
    everybody = [(f"person {number}", "hello") for number in range(60)]  # both sides have some
    rows = data.draw(st.permutations([*rows, *everybody]))
    users, texts = zip(*rows, strict=True)
    table = pa.table({"user": users, "text": texts})
    train, held_out = run(table, folder, held_out=0.5)
    assert sorted(train + held_out) == sorted(rows)
    assert not {user for user, _ in train} & {user for user, _ in held_out}
    # The side of a person does not depend on other people or on the order of the rows.
    again, _ = run(table.slice(0, len(rows) // 2), folder, held_out=0.5, force=True)
    assert {user for user, _ in again} <= {user for user, _ in train}


def test_the_share_is_that_of_people_and_the_seed_chooses_others():
    users = pa.array([f"user {number}".encode() for number in range(20_000)], pa.large_binary())
    first = held_out_mask(users, 0.1, b"bayesgram split 0")
    other = held_out_mask(users, 0.1, b"bayesgram split 1")
    assert abs(first.mean() - 0.1) < 0.01  # 4.7 standard deviations
    assert abs((first & other).mean() - 0.01) < 0.004
    larger = held_out_mask(users, 0.2, b"bayesgram split 0")
    assert not (first & ~larger).any()  # a larger share holds out the same people and more


def test_a_known_person_stays_where_they_were():
    """The hash is part of the format: a later version must hold out the same people."""
    users = pa.array([b"ann", b"bob", b"cy", b"dee", b"eve", b"fay"], pa.large_binary())
    assert held_out_mask(users, 0.5, b"bayesgram split 0").tolist() == EXPECTED


EXPECTED = [True, True, False, False, False, True]


def test_columns_keep_their_names_and_files_are_for_their_owner(tmp_path):
    table = pa.table({"author": range(40), "body": ["hello"] * 40, "other": [1] * 40})
    train, held_out = tmp_path / "train.parquet", tmp_path / "held.parquet"
    summary = bg.split(table, train, held_out, user_column="author", text_column="body")
    rows = [rows_of(path, ("author", "body")) for path in (train, held_out)]
    assert (summary.train_rows, summary.held_out_rows) == (len(rows[0]), len(rows[1]))
    assert repr(summary) == "SplitSummary(private: train_rows, held_out_rows)"
    for path in (train, held_out):
        assert has_mode(path, 0o600)


def test_what_can_not_be_split_leaves_nothing(tmp_path):
    table = pa.table({"user": ["secret ann"], "text": ["hello"]})
    files = (tmp_path / "train.parquet", tmp_path / "held.parquet")
    with pytest.raises(bg.BayesgramError, match="too few of them") as caught:
        bg.split(table, *files)
    assert "ann" not in str(caught.value)
    with pytest.raises(bg.UsageError, match="held_out=0: hold out a share from"):
        bg.split(table, *files, held_out=0.0)
    with pytest.raises(bg.UsageError, match="name two files"):
        bg.split(table, files[0], files[0])
    with pytest.raises(bg.UsageError, match="they must be two columns"):
        bg.split(table, *files, text_column="user")
    with pytest.raises(bg.UsageError, match="seed=-1"):
        bg.split(table, *files, seed=-1)
    assert not list(tmp_path.iterdir())
