"""The hash tables against Python's dict."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.errors import BayesgramError
from bayesgram.text import strings as module
from bayesgram.text.ngram_tables import NARROW, CountMinSketch, WindowIndex, WindowTable
from bayesgram.text.strings import EMPTY, UNKNOWN, StringTable, hash_rows
from bayesgram.text.tokenizer import buffers
from helpers.hypothesis_profiles import examples

SAME_FNV_HASH = [
    (b"8yn0iYCKYHlIj4-BwPqk", b"GReLUrM4wMqfg9yzV3KQ"),
    (b"gMPflVXtwGDXbIhP73TX", b"LtHf1prlU1bCeYZEdqWf"),
]

strings = st.one_of(
    st.binary(max_size=3),
    st.text("ab", max_size=18).map(
        str.encode
    ),  # prefixes of one another; 15 bytes are a key, more are hashed
    st.sampled_from(
        [
            b"",
            b"\0",
            b"\0\0",
            b"\0" * 8,
            b"\0" * 15,
            b"\0" * 16,
            b"\0" * 17,
            b"x" * 5000,
            *sum(SAME_FNV_HASH, ()),
        ]
    ),
)
batches = st.lists(st.tuples(st.booleans(), st.lists(strings, max_size=30)), max_size=8)


MASK = 2**64 - 1


def mixed(value):
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK
    return value ^ value >> 31


def with_key_of(text, first):
    """Another string of 16 bytes with the same hash: the second half makes up for the first."""
    middle = mixed(16 ^ int.from_bytes(text[:8], "little"))
    wanted = middle ^ int.from_bytes(text[8:], "little")
    return first + (wanted ^ mixed(16 ^ int.from_bytes(first, "little"))).to_bytes(8, "little")


SAME_KEY = (b"sixteen letters!", with_key_of(b"sixteen letters!", b"anything"))


def key_of(text, after=b""):
    """The key of a string, with other bytes after it."""
    return tuple(map(int, module.string_key(np.frombuffer(text + after, np.uint8), 0, len(text))))


def flat(values):
    """Bytes and offsets that do not start at 0, as those of a slice."""
    return buffers(pa.array([b"before", *values], pa.large_binary())[1:])


def numbered(known, values, *, add):
    """What the table should answer: numbers in order of appearance."""
    if add:
        for value in values:
            if value:
                known.setdefault(value, len(known))
    return [known.get(value, UNKNOWN) if value else EMPTY for value in values]


@examples(150)
@given(batches)
def test_strings_are_numbered_like_a_dict(batches):
    table, known = StringTable(), {}
    for add, values in batches:
        found = (table.add if add else table.find)(*flat(values))
        assert found.tolist() == numbered(known, values, add=add)
        assert len(table) == len(known)
        assert table.strings().to_pylist() == list(known)


def test_strings_keep_their_numbers_while_the_table_grows():
    rng = np.random.default_rng(3)
    table, known = StringTable(), {}
    for size in (1, 255, 256, 1, 257, 5000, 20_000):
        values = [b"%x" % value for value in rng.integers(0, 30_000, size)]
        assert table.add(*flat(values)).tolist() == numbered(known, values, add=True)
    everything = [b"%x" % value for value in range(31_000)]
    assert table.find(*flat(everything)).tolist() == numbered(known, everything, add=False)
    assert table.strings().to_pylist() == list(known)
    assert table.add(*flat(list(known))).tolist() == list(range(len(known)))
    assert len(table) == len(known)


def test_a_table_grows_also_where_there_is_no_room_to_spare(monkeypatch):
    """Where memory that is not used counts as well, a table is doubled and no more."""
    zeros, refused = np.zeros, []

    def scarce(shape, dtype):
        if shape[0] > 2 * len(table._slots):
            refused.append(shape)
            raise MemoryError
        return zeros(shape, dtype)

    table, known = StringTable(), {}
    monkeypatch.setattr(np, "zeros", scarce)
    for first in range(0, 3000, 500):
        values = [b"%d" % value for value in range(first, first + 600)]
        assert table.add(*flat(values)).tolist() == numbered(known, values, add=True)
    assert refused
    assert table.strings().to_pylist() == list(known)


@pytest.mark.parametrize("size", range(250, 262))
def test_a_table_is_right_around_the_size_at_which_it_grows(size):
    values = [b"%d" % value for value in range(size)]
    at_once, one_by_one = StringTable(), StringTable()
    assert at_once.add(*flat(values)).tolist() == list(range(size))
    assert [int(one_by_one.add(*flat([value]))[0]) for value in values] == list(range(size))
    for table in (at_once, one_by_one):
        assert table.find(*flat([*values, b"unknown"])).tolist() == [*range(size), UNKNOWN]
        assert table.strings().to_pylist() == values


@pytest.mark.parametrize(("one", "other"), [SAME_KEY, SAME_KEY[::-1]])
def test_two_strings_with_the_same_key_are_two_strings(one, other):
    assert key_of(one) == key_of(other)
    table = StringTable()
    table.add(*flat([one]))
    assert table.find(*flat([other, one])).tolist() == [UNKNOWN, 0]
    assert table.add(*flat([other, one, other])).tolist() == [1, 0, 1]
    table.add(*flat([b"%d" % value for value in range(1000)]))  # moves all entries
    assert table.find(*flat([other, one])).tolist() == [1, 0]


def unmixed(value):
    """The number that `mixed` makes this of."""
    value ^= value >> 31 ^ value >> 62
    value = value * pow(0x94D049BB133111EB, -1, 2**64) & MASK
    value ^= value >> 27 ^ value >> 54
    value = value * pow(0xBF58476D1CE4E5B9, -1, 2**64) & MASK
    return value ^ value >> 30 ^ value >> 60


def test_a_string_whose_hash_is_nothing_is_a_string():
    end = b"seven.."
    text = unmixed(int.from_bytes(end + b"\x0f", "little")).to_bytes(8, "little") + end
    first, second = key_of(text)
    assert mixed(mixed(first) ^ second) == 0
    table = StringTable()
    assert table.add(*flat([text, text, b"other", text])).tolist() == [0, 0, 1, 0]
    assert table.find(*flat([text, b"", b"other"])).tolist() == [0, EMPTY, 1]


@given(st.binary(max_size=15), st.binary(max_size=15), st.binary(max_size=17))
def test_short_strings_have_keys_of_their_own(one, other, after):
    assert (key_of(one) == key_of(other)) == (one == other)
    assert key_of(one, after) == key_of(
        one
    )  # read eight bytes at once, or one by one at the end of the array
    assert key_of(one)[1] < module.LONG
    assert key_of(one + b"16 bytes or more")[1] == module.LONG


def test_finding_adds_nothing():
    table = StringTable()
    assert table.find(*flat([b"a", b""])).tolist() == [UNKNOWN, EMPTY]
    assert len(table) == 0
    assert table.strings().to_pylist() == []


def test_the_strings_of_a_table_do_not_change_when_it_does():
    table = StringTable()
    table.add(*flat([b"a", b"bc"]))
    before = table.strings()
    table.add(*flat([b"d" * 10_000]))
    assert before.to_pylist() == [b"a", b"bc"]


@examples(100)
@given(st.lists(strings, max_size=20))
def test_a_hash_depends_on_the_bytes_alone(values):
    hashes = hash_rows(*flat(values)).tolist()
    assert hashes == [int(hash_rows(*flat([value]))[0]) for value in values]
    same_fnv = dict(SAME_FNV_HASH)
    assert len(set(hashes)) == len({same_fnv.get(value, value) for value in values})


def windows_of(ids, order):
    """(window, position of its last token) of every run of numbers that are not below 0."""
    windows = [(tuple(ids[end + 1 - order : end + 1]), end) for end in range(order - 1, len(ids))]
    return [(window, end) for window, end in windows if min(window) >= 0]


def counted(table, at_least=1):
    """What a table holds; no window twice."""
    found = [
        (tuple(row), n)
        for rows, counts in table.entries(at_least=at_least)
        for row, n in zip(rows.tolist(), counts.tolist(), strict=True)
    ]
    assert len(dict(found)) == len(found)
    return dict(found)


few_tokens = st.integers(UNKNOWN, 3) | st.sampled_from([0, (1 << NARROW) - 1])
many_tokens = few_tokens | st.sampled_from([1 << NARROW, 2**31 - 1])
streams = st.lists(
    st.lists(st.lists(few_tokens, max_size=40), max_size=3)
    | st.lists(st.lists(many_tokens, max_size=40), max_size=3),
    max_size=4,
)


@pytest.mark.parametrize("order", range(1, 7))
@examples(40)
@given(batches=streams, cores=st.integers(1, 3), again=st.booleans())
def test_windows_are_counted_like_a_counter(order, batches, cores, again):
    tokens = (
        max((number for batch in batches for stream in batch for number in stream), default=0) + 1
    )
    table, counts = WindowTable(order, tokens=tokens, cores=cores), Counter()
    for batch in batches:
        table.add([np.array(stream, np.int32) for stream in batch])
        counts.update(window for stream in batch for window, _ in windows_of(stream, order))
        assert counted(table) == counts
        assert len(table) == len(counts)
    if again:
        other = WindowTable(order, tokens=tokens, cores=2)
        for rows, numbers in (*table.entries(), *table.entries()):
            other.merge(rows, numbers)
        assert counted(other) == {window: 2 * n for window, n in counts.items()}
    table.clear()
    assert (len(table), counted(table)) == (0, {})


@pytest.mark.parametrize("order", range(1, 7))
@examples(40)
@given(
    batches=streams,
    cells=st.sampled_from([2, 8, 1 << 10, 1 << 21]),
    deep=st.booleans(),
    cores=st.integers(1, 3),
    at_least=st.integers(1, 300),
)
def test_a_table_behind_bounds_has_every_window_that_reaches_the_count(
    order, batches, cells, deep, cores, at_least
):
    everything = [np.array(stream, np.int32) for batch in batches for stream in batch] * 60
    tokens = max((int(stream.max(initial=0)) for stream in everything), default=0) + 1
    counts = Counter(
        window for stream in everything for window, _ in windows_of(stream.tolist(), order)
    )
    bounds = CountMinSketch(order, tokens=tokens, cells=cells, deep=deep, cores=cores)
    for first in range(0, len(everything), 50):
        bounds.add(everything[first : first + 50])
    table = WindowTable(order, tokens=tokens, cores=cores)
    table.add(everything, bounds, at_least=at_least)
    found = counted(table)
    assert found.items() <= counts.items()  # what is there has its exact count
    assert {window: n for window, n in counts.items() if n >= at_least}.items() <= found.items()
    if len(counts) <= 1:
        assert len(found) == (max(counts.values(), default=0) >= min(at_least, bounds.most))


@pytest.mark.parametrize("order", range(1, 7))
@examples(40)
@given(data=st.data(), stream=st.lists(many_tokens, max_size=40))
def test_windows_of_a_list_are_found_where_they_are(order, data, stream):
    present = [window for window, _ in windows_of(stream, order)]
    windows = st.tuples(*[st.integers(0, 3)] * order)
    listed = data.draw(
        st.lists(windows | st.sampled_from(present) if present else windows, max_size=12)
    )
    ends = [*sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5))), len(stream)]
    numbers = 10 * np.arange(len(listed), dtype=np.int32)
    index = WindowIndex(np.array(listed, np.int32).reshape(-1, order), numbers, tokens=2**31)
    owners = 100 - np.arange(len(ends), dtype=np.int32)
    texts, rows = index.find(np.array(stream, np.int32), np.array(ends), owners)
    expected = [
        (100 - sum(end >= stop for stop in ends), 10 * listed.index(window))
        for window, end in windows_of(stream, order)
        if window in listed
    ]
    assert list(zip(texts.tolist(), rows.tolist(), strict=True)) == expected
    assert len(index) == len(set(listed))


@pytest.mark.parametrize("order", [1, 2, 3, 6])
def test_windows_keep_their_counts_while_the_table_grows(order):
    rng = np.random.default_rng(order)
    table, counts = WindowTable(order, tokens=3000, cores=2), Counter()
    for size in (1, 255, 256, 300, 10_000, 10_000):
        stream = rng.integers(EMPTY, 3000 if order == 1 else 60 // order, size).astype(np.int32)
        table.add([stream])
        counts.update(window for window, _ in windows_of(stream.tolist(), order))
    assert counted(table) == counts
    assert len(counts) > 600


@examples(60)
@given(
    numbers=st.lists(st.integers(1, 9) | st.sampled_from([2**16 - 1, 2**16, 2**40]), max_size=30),
    size=st.integers(1, 40),
)
def test_the_most_frequent_are_among_those_that_reach_a_count(numbers, size):
    table = WindowTable(1, tokens=100, cores=2)
    table.merge(np.arange(len(numbers), dtype=np.int32).reshape(-1, 1), np.array(numbers, np.int64))
    least = table.count_reached_by(size)
    best = sorted(numbers, reverse=True)[:size]
    assert least <= min(best, default=1)
    if best and len(numbers) >= size and best[-1] < 2**16:
        assert least == best[-1]
    assert sorted(counted(table, least).values()) == sorted(n for n in numbers if n >= least)


def test_keys_become_wider_when_there_are_more_tokens():
    table = WindowTable(2, tokens=3, cores=2)
    table.add([np.array([0, 1, 2, 0, 1], np.int32)])
    assert table.widen_keys(1 << NARROW) is not table.widen_keys(100)
    assert table.widen_keys(100) is table
    wide = table.widen_keys((1 << NARROW) + 1)
    wide.add([np.array([0, 1, 1 << NARROW], np.int32)])
    assert counted(wide) == {(0, 1): 3, (1, 2): 1, (2, 0): 1, (1, 1 << NARROW): 1}


def test_a_window_does_not_run_from_one_stream_into_the_next():
    table = WindowTable(2, tokens=3)
    one, two = np.array([1], np.int32), np.array([2], np.int32)
    table.add([one, two])
    table.add([two])
    assert len(table) == 0


def test_more_strings_than_32_bits_can_number_are_refused(monkeypatch):
    """They would wrap around, and two users or two tokens would become one."""
    table = StringTable()
    monkeypatch.setattr(module, "MOST_STRINGS", 3)
    table.add(*buffers(pa.array([b"a", b"b", b"a", b"c"], pa.large_binary())))
    with pytest.raises(
        BayesgramError, match=r"^more than 3 distinct tokens or user ids: cut the input into parts"
    ):
        table.add(*buffers(pa.array([b"d"], pa.large_binary())))
