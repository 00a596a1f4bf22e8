"""Private text that was given as public text: a sample of hashes notices, and bounded memory is enough."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bayesgram as bg
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.io import read_records
from bayesgram.mechanisms.discovery import LocalText
from bayesgram.private import public_row_check
from bayesgram.private.counts import count
from bayesgram.private.public_row_check import PublicRowCheck, PublicRowShare, is_among
from bayesgram.public import public_rows
from bayesgram.public.public_rows import CAPACITY, rows_path
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.row_hashes import ALL, LONG_ROW_OF_CHARACTERS, RowSample
from bayesgram.text.tokenizer import Tokenizer
from helpers.modes import has_mode

pytestmark = pytest.mark.slow

SALTS = range(20)


def sentences(first, last):
    """Rows of nine words, all different."""
    return [
        f"this is row {number} of the text that somebody wrote" for number in range(first, last)
    ]


def vocabulary_of(rows, **options):
    return Vocabulary.from_public(pa.table({"text": rows}), order=1, size=50, **options)


def people(rows):
    """A table in which everybody wrote three rows."""
    return pa.table({"user": [f"u{number // 3}" for number in range(len(rows))], "text": rows})


def hashes_of(*rows, salt=1):
    sample = RowSample(salt, least=8, capacity=100)
    sample.add_rows(
        *Tokenizer().tokenize(pa.array([row.encode() for row in rows], pa.large_binary()))
    )
    return sample.hashes.tolist()


def spread(numbers, salt):
    """Hashes of rows that are known by numbers (the finaliser of splitmix64)."""
    value = numbers.astype(np.uint64) + np.uint64((salt + 1) * 0x9E3779B97F4A7C15 % 2**64)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def share_of(public_rows, private_rows, salt):
    """What is found of rows that are known by numbers, which come in pieces."""
    public = RowSample(salt, least=8, capacity=CAPACITY)
    for piece in np.array_split(spread(public_rows, salt), 7):
        public.add(piece)
    empty = RowSample(salt, least=8, capacity=public_row_check.SAMPLE_CAPACITY, limit=public.limit)
    check = PublicRowCheck(public, empty, allow_public=False)
    for piece in np.array_split(spread(private_rows, salt), 5):
        check.private.add(piece)
    assert len(check.public) <= CAPACITY
    assert len(check.private) <= public_row_check.SAMPLE_CAPACITY
    return check.share


@given(
    st.lists(
        st.lists(st.integers(0, 60).map(lambda number: number << 57) | st.integers(0, ALL - 1))
    ),
    st.integers(1, 12),
)
def test_a_sample_is_the_smallest_hashes_and_its_limit_the_next_one(pieces, capacity):
    sample = RowSample(0, least=8, capacity=capacity)
    for piece in pieces:
        sample.add(np.array(piece, np.uint64))
    distinct = sorted({value for piece in pieces for value in piece})
    assert sample.hashes.tolist() == distinct[:capacity]
    assert sample.limit == (distinct[capacity] if len(distinct) > capacity else ALL)


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_hashes_are_looked_up_among_others(some, others):
    answers = is_among(np.array(sorted(some), np.uint64), np.array(sorted(others), np.uint64))
    assert answers.tolist() == [number in others for number in sorted(some)]


def test_a_row_is_known_by_its_words_whatever_case_marks_and_spaces():
    row = "Please call me, when you are at home again."
    assert len(hashes_of(row)) == 1
    assert hashes_of(row) == hashes_of("  please CALL me\twhen you\nare at home   again!!")
    assert hashes_of(row) != hashes_of("Please call me, when you are at work again.")
    assert hashes_of(row) != hashes_of(row, salt=2)
    assert hashes_of("please call me when you are at") == []
    assert hashes_of("") == []


def test_each_byte_of_a_long_row_counts_and_neighbours_do_not():
    row = list("abc defg hijklm nopqr stuvw xyz 012345 6789 0a0b0c0d0e")
    others = []
    for place, letter in enumerate(row):
        if letter != " ":
            others.append("".join([*row[:place], "ß", *row[place + 1 :]]))
    rows = ["".join(row), *others]
    assert len(set(hashes_of(*rows))) == len(rows)
    for one in rows:
        assert set(hashes_of("short", one, "another short row")) == set(hashes_of(one))


def test_where_tokens_are_characters_a_row_has_forty_of_them():
    assert (
        vocabulary_of(["abc"], tokenizer=Tokenizer("characters")).public_rows.least
        == LONG_ROW_OF_CHARACTERS
    )
    assert vocabulary_of(["abc"], tokenizer=Tokenizer("messages")).public_rows.least == 8


@pytest.mark.parametrize("public", [40_000, 2_000_000])
def test_a_share_of_five_percent_is_noticed_and_one_of_a_thousandth_is_not(public):
    for salt in SALTS:
        for share, is_noticed in ((0.05, True), (0.001, False), (1.0, True)):
            private = (
                np.arange(200_000 if share < 1 else 20_000)
                + public
                - int(200_000 * min(share, 0.1))
            )
            found = share_of(np.arange(public), private, salt)
            assert found.is_noticeable == is_noticed
            if share < 1:
                deviation = np.sqrt(share * (1 - share) / found.sampled)
                assert abs(found.share - share) < 4.5 * deviation


def test_a_row_that_thousands_forward_counts_once():
    public = np.arange(1000)
    private = np.concatenate([np.zeros(100_000, np.int64), np.arange(5000, 6000)])
    found = share_of(public, private, 0)
    assert (found.sampled, found.matches) == (1001, 1)
    assert not found.is_noticeable


@pytest.mark.parametrize(
    ("sampled", "matches", "rate", "is_noticeable"),
    [
        (1000, 20, 1.0, True),
        (1000, 19, 1.0, False),
        (1001, 20, 1.0, False),
        (20, 20, 1.0, True),
        (19, 19, 1.0, False),
        (8, 8, 0.4, True),
        (8, 8, 0.41, False),
        (7, 7, 0.001, False),
        (0, 0, 1.0, False),
    ],
)
def test_what_is_noticeable(sampled, matches, rate, is_noticeable):
    assert PublicRowShare(sampled, matches, rate).is_noticeable == is_noticeable


def test_an_error_says_the_share_to_one_digit_what_it_means_and_what_to_do():
    with pytest.raises(UsageError) as caught:
        PublicRowShare(1000, 437, 1.0).refuse(allow_public=False)
    message = str(caught.value)
    assert message.startswith(
        "about 40% of the private rows of eight words or more were rows of the public text"
    )
    assert (
        "If private text was used as public text, no release with this vocabulary is private"
        in message
    )
    assert message.endswith("go on with allow_public=True.")
    assert "437" not in message
    assert "about 100% of" in PublicRowShare(1000, 1000, 1.0).message


def test_counting_public_text_as_private_text_is_refused(caplog):
    rows = sentences(0, 300)
    vocabulary = vocabulary_of(rows)
    with pytest.raises(UsageError, match="about 100% of the private rows"):
        count(people(rows), vocabulary)
    with pytest.raises(UsageError, match="about 5% of the private rows"):
        count(people([*rows[:50], *sentences(5000, 5950)]), vocabulary)
    counted = count(people(rows), vocabulary, allow_public=True)
    assert [record.getMessage()[:20] for record in caplog.records] == ["warning: about 100% "]
    caplog.clear()
    count(people(sentences(300, 600)), vocabulary)
    count(people([*rows[:3], *sentences(5000, 5950)]), vocabulary)
    assert not caplog.records
    plain = Vocabulary(vocabulary.ngrams, vocabulary.counts, vocabulary.order, vocabulary.tokenizer)
    assert count(people(rows), plain).totals.tolist() == counted.totals.tolist()


def test_a_list_that_is_counted_in_text_knows_the_text_s_rows():
    rows = sentences(0, 300)
    listed = Vocabulary.from_list(["row", "text"], pa.table({"text": rows}))
    with pytest.raises(UsageError, match="about 100% of the private rows"):
        count(people(rows), listed)


def test_several_sources_and_pieces_of_text_are_all_known(monkeypatch):
    monkeypatch.setattr("bayesgram.text.tokenizer.CHUNK_BYTES", 1 << 10)
    rows = sentences(0, 400)
    tables = {"one": pa.table({"text": rows[:200]}), "two": pa.table({"text": rows[200:]})}
    made = Vocabulary.from_public(tables, order=1, size=50)
    assert len(made.public_rows) == 400
    for part in (rows[:100], rows[150:250], rows[300:]):
        assert count_share(part, made) == 1.0


def count_share(rows, vocabulary):
    check = PublicRowCheck.from_vocabulary(vocabulary)
    for _ in public_row_check.check_records(
        read_records(people(rows), text_column="text", user_column="user"),
        vocabulary.tokenizer,
        PublicRowCheck(check.public, check.private, allow_public=True),
    ):
        pass
    return check.share.share


def test_a_file_of_its_own_keeps_the_rows_and_changes_nothing_else(tmp_path):
    rows = sentences(0, 300)
    for name in ("one", "two"):
        vocabulary_of(rows).save(tmp_path / f"{name}.parquet")
    one, two = (Vocabulary.load(tmp_path / f"{name}.parquet") for name in ("one", "two"))
    assert one.fingerprint == two.fingerprint
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()
    assert one.public_rows.salt != two.public_rows.salt
    assert not set(one.public_rows.hashes.tolist()) & set(two.public_rows.hashes.tolist())
    assert len(one.public_rows) == len(two.public_rows) == 300
    assert has_mode(rows_path(tmp_path / "one.parquet"), 0o600)
    with pytest.raises(UsageError, match="about 100% of the private rows"):
        count(people(rows), one)
    rows_path(tmp_path / "one.parquet").unlink()
    alone = Vocabulary.load(tmp_path / "one.parquet")
    assert (alone.public_rows, alone.fingerprint) == (None, one.fingerprint)
    count(people(rows), alone)


def test_a_sample_is_stored_with_its_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(public_rows, "CAPACITY", 100)
    made = vocabulary_of(sentences(0, 300))
    made.save(tmp_path / "v.parquet")
    loaded = Vocabulary.load(tmp_path / "v.parquet").public_rows
    assert len(loaded) == 100
    assert loaded.limit == made.public_rows.limit < ALL
    assert loaded.hashes.tolist() == made.public_rows.hashes.tolist()


def test_the_rows_of_another_vocabulary_are_not_taken(tmp_path):
    vocabulary_of(sentences(0, 300)).save(tmp_path / "one.parquet")
    Vocabulary.from_public(pa.table({"text": sentences(0, 9)}), order=2).save(
        tmp_path / "two.parquet"
    )
    rows_path(tmp_path / "one.parquet").replace(rows_path(tmp_path / "two.parquet"))
    assert Vocabulary.load(tmp_path / "two.parquet").public_rows is None


def test_a_vocabulary_that_replaces_another_replaces_or_removes_its_rows(tmp_path):
    path = tmp_path / "v.parquet"
    made = vocabulary_of(sentences(0, 300))
    made.save(path)
    path.unlink()
    vocabulary_of(sentences(300, 400)).save(path)  # rows without a vocabulary are in nobody's way
    assert len(Vocabulary.load(path).public_rows) == 100
    Vocabulary(made.ngrams, made.counts, made.order, made.tokenizer).save(path, force=True)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["v.parquet"]


def test_a_file_that_is_not_ours_is_not_replaced(tmp_path):
    rows_path(tmp_path / "v.parquet").write_text("my rows")
    with pytest.raises(UsageError, match="is no file of public rows, and would be replaced"):
        vocabulary_of(sentences(0, 9)).save(tmp_path / "v.parquet")
    assert [each.name for each in tmp_path.iterdir()] == ["v.parquet.rows"]


def _changed(path, **metadata):
    table = pq.read_table(path)
    changed = {f"bayesgram.{key}".encode(): value for key, value in metadata.items()}
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, **changed}), path)


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        (
            {"rows": b"2"},
            (UsageError, "is a file of public rows of format 2; this bayesgram reads 1"),
        ),
        ({"rows": b"x"}, (BayesgramError, "the file of public rows is damaged")),
        ({"salt": b"g"}, (BayesgramError, "the file of public rows is damaged")),
        ({"limit": b"1" * 17}, (BayesgramError, "the file of public rows is damaged")),
        ({"least": b"0"}, (BayesgramError, "the file of public rows is damaged")),
    ],
)
def test_a_damaged_file_of_rows_is_refused(tmp_path, metadata, error):
    vocabulary_of(sentences(0, 300)).save(tmp_path / "v.parquet")
    _changed(rows_path(tmp_path / "v.parquet"), **metadata)
    with pytest.raises(error[0], match=error[1]):
        _ = Vocabulary.load(tmp_path / "v.parquet").public_rows


@pytest.mark.parametrize(
    "content", [b"", b"PAR1 and nothing else", pa.array([1.0, 2.0]), pa.array([None, "x"])]
)
def test_so_is_one_with_other_content(tmp_path, content):
    vocabulary_of(sentences(0, 300)).save(tmp_path / "v.parquet")
    path = rows_path(tmp_path / "v.parquet")
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        pq.write_table(
            pa.table({"hash": content}).replace_schema_metadata(pq.read_schema(path).metadata), path
        )
    with pytest.raises(BayesgramError, match="the file of public rows is damaged"):
        _ = Vocabulary.load(tmp_path / "v.parquet").public_rows


def test_who_needs_no_rows_does_not_read_them(tmp_path, monkeypatch, caplog):
    rows = sentences(0, 300)
    vocabulary_of(rows).save(tmp_path / "v.parquet")
    rows_path(tmp_path / "v.parquet").write_bytes(b"damaged")
    loaded = Vocabulary.load(tmp_path / "v.parquet")
    assert len(loaded.select(slice(3))) == 3
    vocabulary_of(rows).save(tmp_path / "w.parquet")
    monkeypatch.setattr(public_rows.os, "access", lambda *_: False)  # root may read everything
    assert Vocabulary.load(tmp_path / "w.parquet").public_rows is None
    assert "may not be read by you, so private rows are not compared" in caplog.text


def test_nothing_that_is_published_holds_the_rows(tmp_path):
    public = sentences(0, 300)
    vocabulary = Vocabulary.from_public(pa.table({"text": public}), order=[1, 2], size=50)
    vocabulary.save(tmp_path / "v.parquet")
    vocabulary = Vocabulary.load(tmp_path / "v.parquet")
    private = people([f"{row} as lumora" for row in sentences(1000, 1300)])
    found = bg.discover(private, vocabulary, bg.Budget(8, 1e-6), rounds=2)
    assert len(found)
    assert found.vocabulary.public_rows is None
    found.save(tmp_path / "found")
    counts = count(private, vocabulary)
    bg.release(counts, vocabulary, epsilon=1).save(tmp_path / "out")
    salt = f"{vocabulary.public_rows.salt:016x}".encode()
    hashes = [int(value).to_bytes(8, "little") for value in vocabulary.public_rows.hashes[:20]]
    assert salt in rows_path(tmp_path / "v.parquet").read_bytes()
    assert all(value in rows_path(tmp_path / "v.parquet").read_bytes() for value in hashes)
    written = [
        path for name in ("found", "out") for path in (tmp_path / name).rglob("*") if path.is_file()
    ]
    assert len(written) > 5
    for path in written:
        assert not path.name.endswith(public_rows.SUFFIX)
        content = path.read_bytes()
        assert salt not in content
        assert not any(value in content for value in hashes)


def test_a_discovery_warns_and_goes_on(caplog):
    rows = sentences(0, 300)
    vocabulary = Vocabulary.from_public(pa.table({"text": rows}), order=[1, 2], size=50)
    found = bg.discover(people(rows), vocabulary, bg.Budget(8, 1e-6), rounds=2)
    messages = [record.getMessage() for record in caplog.records]
    assert any(
        message.startswith("warning: about 100% of the private rows") for message in messages
    )
    assert found.card.guarantee
    caplog.clear()
    bg.discover(people(sentences(1000, 1300)), vocabulary, bg.Budget(8, 1e-6), rounds=1)
    assert not any("public text" in record.getMessage() for record in caplog.records)


def test_a_discovery_reads_the_same_records_whatever_they_are_compared_with():
    records = read_records(people(sentences(0, 9)), text_column="text", user_column="user")
    public = type("Public", (), {"vocabulary": vocabulary_of(sentences(0, 9))})
    passed = list(LocalText(records, 1 << 20).checked_records(public))
    assert [batch.text.to_pylist() for batch in passed] == [
        batch.text.to_pylist() for batch in records
    ]


def test_the_capacity_is_what_the_documentation_says():
    text = (Path(__file__).parents[2] / "docs" / "files.md").read_text(encoding="utf-8")
    assert f"{CAPACITY:,}" in text
