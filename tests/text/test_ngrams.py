"""N-grams of text against a plain search through the reference tokenizer's sentences."""

from collections import Counter
from itertools import chain

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bayesgram.errors import UsageError
from bayesgram.io import spill
from bayesgram.io.atomic import spill_folder
from bayesgram.text import ngrams, tokenizer
from bayesgram.text.ngrams import MAX_ORDER, NgramCounter, NgramMatcher
from bayesgram.text.tokenizer import Tokenizer
from helpers.hostile_text import TOKENIZER_CASES, hostile_text, plain_text, to_rows
from helpers.hypothesis_profiles import examples
from helpers.reference_tokenizer import sentences

pytestmark = pytest.mark.usefixtures("sorted_and_hashed")
ORDERS = range(1, MAX_ORDER + 1)
some_texts = st.lists(st.one_of(plain_text, hostile_text), max_size=6)


def ngrams_of(text, order, case):
    """All n-grams of one row, in order."""
    return [
        " ".join(sentence[start : start + order])
        for sentence in sentences(text, *case)
        for start in range(len(sentence) + 1 - order)
    ]


def counted(counter, order):
    """n-gram → count."""
    words = [word.decode() for word in counter.tokens.strings().to_pylist()]
    [table] = counter.tables(order)
    return {
        " ".join(words[number] for number in row): count for row, count in entries(table).items()
    }


def entries(table):
    """Window → count; no window twice."""
    found = [
        pair
        for rows, counts in table.entries()
        for pair in zip(map(tuple, rows.tolist()), counts.tolist(), strict=True)
    ]
    assert len(dict(found)) == len(found)
    return dict(found)


def found_by(matcher, texts):
    """(row, n-gram number) of every occurrence, all chunks together."""
    pairs = []
    for rows, numbers in matcher.match([(to_rows(texts), np.arange(len(texts), dtype=np.int32))]):
        pairs += zip(rows.tolist(), numbers.tolist(), strict=True)
    return pairs


def searched(ngrams, texts, order, case):
    """The same by looking each n-gram up in the list."""
    return [
        (row, ngrams.index(ngram))
        for row, text in enumerate(texts)
        for ngram in ngrams_of(text, order, case)
        if ngram in ngrams
    ]


@pytest.mark.parametrize("order", ORDERS)
@examples(60)
@given(
    batches=st.lists(some_texts, max_size=3),
    case=st.sampled_from(TOKENIZER_CASES),
    limit=st.sampled_from([1, 50, 1 << 20]),
)
@example(batches=[[":| :\\"]], case=("messages", True), limit=1)  # both were counted as the second
def test_counts_are_those_of_a_counter_over_the_reference_sentences(order, batches, case, limit):
    counter, expected = NgramCounter([order], Tokenizer(*case)), Counter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer, "CHUNK_BYTES", limit)
        for texts in batches:
            counter.add(to_rows(texts))
            expected.update(ngram for text in texts for ngram in ngrams_of(text, order, case))
    assert counted(counter, order) == expected


@pytest.mark.parametrize("order", ORDERS)
@examples(30)
@given(texts=some_texts, case=st.sampled_from(TOKENIZER_CASES))
def test_a_sentence_of_k_tokens_has_k_minus_n_plus_1_ngrams(order, texts, case):
    tokenizer = Tokenizer(*case)
    counter = NgramCounter([order], tokenizer)
    counter.add(to_rows(texts))
    lengths = [len(sentence) for text in texts for sentence in tokenizer.sentences(text)]
    assert sum(counted(counter, order).values()) == sum(
        max(0, length - order + 1) for length in lengths
    )


@pytest.mark.parametrize("order", ORDERS)
@examples(60)
@given(
    data=st.data(),
    texts=st.lists(st.one_of(st.just(""), plain_text, hostile_text), max_size=8),
    case=st.sampled_from(TOKENIZER_CASES),
    limit=st.sampled_from([1, 30, 1 << 20]),
)
def test_occurrences_are_those_of_a_plain_search(order, data, texts, case, limit):
    present = [ngram for text in texts for ngram in ngrams_of(text, order, case)]
    unknown = st.lists(st.sampled_from("abcxé"), min_size=order, max_size=order).map(" ".join)
    entry = st.sampled_from(present) | unknown if present else unknown
    listed = data.draw(st.lists(entry, max_size=12))
    matcher = NgramMatcher(pa.array(listed, pa.large_string()), Tokenizer(*case))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer, "CHUNK_BYTES", limit)
        found = found_by(matcher, texts)
    assert found == searched(listed, texts, order, case)
    assert matcher.repeated == len(listed) - len(set(listed))


def marked(text, order, case):
    """All n-grams of one row whose sentences have marks; a start alone is no unigram."""
    bounded = [["<s>", *sentence, "</s>"] for sentence in sentences(text, *case) if sentence]
    grams = [" ".join(s[at : at + order]) for s in bounded for at in range(len(s) + 1 - order)]
    return [gram for gram in grams if gram != "<s>"]


@examples(80)
@given(
    texts=some_texts,
    case=st.sampled_from([case for case in TOKENIZER_CASES if case[0] != "rows"]),
    limit=st.sampled_from([1, 30, 1 << 20]),
)
def test_several_orders_with_boundaries_against_a_plain_search(texts, case, limit):
    expected = {
        order: [(row, g) for row, text in enumerate(texts) for g in marked(text, order, case)]
        for order in ORDERS
    }
    listed = list(dict.fromkeys(gram for found in expected.values() for _, gram in found))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer, "CHUNK_BYTES", limit)
        cut = Tokenizer(*case, boundaries=True)
        found = found_by(NgramMatcher(pa.array(listed, pa.large_string()), cut), texts)
        counter = NgramCounter(ORDERS, cut)
        counter.add(to_rows(texts))
    assert Counter((row, listed[number]) for row, number in found) == Counter(
        chain(*expected.values())
    )
    for order in ORDERS:
        starts = sum(bool(s) for text in texts for s in sentences(text, *case)) if order == 1 else 0
        assert sum(counted(counter, order).values()) == len(expected[order]) + starts


@examples(120)
@given(
    batches=st.lists(some_texts, max_size=4),
    order=st.sampled_from([1, 2, 3]),
    repeats=st.sampled_from([0, 10**9]),  # count as it comes, or keep the text on disk
    memory=st.sampled_from([2, 40, 400]),  # of which the first text stays
    written=st.sampled_from([1, 2, 32]),  # arrays that go to disk together, at most ...
    waiting=st.sampled_from([1, 60, 1 << 24]),  # ... and their bytes
    judged=st.sampled_from([0, 3, 1 << 21]),  # tokens after which counting may begin
)
def test_what_waits_on_disk_comes_back_exactly(
    batches, order, repeats, memory, written, waiting, judged
):
    whole = NgramCounter([order], Tokenizer(), cores=1)
    with spill_folder() as scratch, pytest.MonkeyPatch.context() as patch:
        patch.setattr(ngrams, "SMALLEST", memory)
        patch.setattr(ngrams, "REPEATS", repeats)
        patch.setattr(ngrams, "MOST_TOKENS", judged)
        patch.setattr(spill, "ARRAYS_AT_ONCE", written)
        patch.setattr(spill, "GROUP_BYTES", waiting)
        patch.setattr(tokenizer, "CHUNK_BYTES", 20)
        spilling = NgramCounter([order], Tokenizer(), spill_dir=scratch, memory=1)
        for texts in batches:
            whole.add(to_rows(texts))
            spilling.add(to_rows(texts))
        found = {}
        for table in spilling.tables(order):
            part = entries(table)
            assert not part.keys() & found.keys()
            found |= part
    assert not scratch.exists()
    [expected] = whole.tables(order)
    assert found == entries(expected)


def counter_that_counts_at_once(monkeypatch, folder):
    """Text is counted as it comes from the first chunk on, a chunk at a time."""
    for name, value in (("SMALLEST", 1 << 12), ("REPEATS", 0), ("MOST_TOKENS", 0)):
        monkeypatch.setattr(ngrams, name, value)
    monkeypatch.setattr(ngrams, "BATCH_BYTES", 1)
    return NgramCounter([2], Tokenizer(), spill_dir=folder, memory=1)


def test_an_error_of_the_counting_thread_ends_the_run(monkeypatch, tmp_path):
    counter = counter_that_counts_at_once(monkeypatch, tmp_path)
    monkeypatch.setattr(counter, "_count_streams", lambda _: {}["disk full"])
    with pytest.raises(KeyError):
        counter.add_all(to_rows(["a b c"]) for _ in range(100))
    with pytest.raises(KeyError):
        list(counter.tables(2))


def test_an_error_of_the_reader_comes_through_while_text_is_counted(monkeypatch, tmp_path):
    counter = counter_that_counts_at_once(monkeypatch, tmp_path)

    def batches():
        for _ in range(50):
            yield to_rows(["a b c"] * 100)
        raise UsageError("row 51")

    with pytest.raises(UsageError, match="row 51"):
        counter.add_all(batches())


def test_text_that_was_counted_as_it_came_is_asked_no_other_way(monkeypatch, tmp_path):
    counter = counter_that_counts_at_once(monkeypatch, tmp_path)
    counter.add_all(to_rows(["a b c"]) for _ in range(100))
    with pytest.raises(AssertionError):
        counter.count_windows(2)
    assert counted(counter, 2) == {"a b": 100, "b c": 100}


@pytest.mark.parametrize("limit", [1, 100, 1000, 1 << 20])
def test_row_numbers_are_right_over_many_chunks(limit, monkeypatch):
    monkeypatch.setattr(tokenizer, "CHUNK_BYTES", limit)
    texts = [
        ["", "a b", "x. a", "b a b a b", "...", "cafe\u0301 a b", "A\nB"][number * number % 7]
        for number in range(900)
    ]
    texts += ["a b " * 200, "", "a b"]
    matcher = NgramMatcher(pa.array(["b a", "a b", "café a"], pa.large_string()), Tokenizer())
    assert found_by(matcher, texts) == searched(["b a", "a b", "café a"], texts, 2, ("words", True))


@pytest.mark.parametrize("memory", [1, 1 << 30])
@pytest.mark.parametrize("limit", [1, 60, 1 << 20])
def test_tokens_have_the_same_numbers_on_any_number_of_cores(limit, memory, monkeypatch):
    monkeypatch.setattr(tokenizer, "CHUNK_BYTES", limit)
    monkeypatch.setattr(ngrams, "FEW_TOKENS", 3)
    monkeypatch.setattr(ngrams, "SMALLEST", 1 << 15)  # copies of the table are allowed, or soon not
    batches = [
        to_rows([f"w{number * step % 3000} w{number % 7}" for number in range(900)])
        for step in (1, 7, 11, 1)
    ]
    counters = [NgramCounter([2], Tokenizer(), cores=cores, memory=memory) for cores in (1, 2, 5)]
    one, *others = counters
    for batch in batches:
        one.add(batch)
    for counter in others:
        counter.add_all(iter(batches[:2]))
        counter.add_all(iter(batches[2:]))
        assert counter.tokens.strings().equals(one.tokens.strings())
        assert counted(counter, 2) == counted(one, 2)


@pytest.mark.parametrize("between", [".", "\n", "!", "…", "\u2029", "。", "\u037e"])
def test_no_ngram_crosses_a_sentence_end(between):
    counter = NgramCounter([2], Tokenizer())
    counter.add(to_rows([f"a b{between}c d"]))
    assert counted(counter, 2) == {"a b": 1, "c d": 1}
    assert (
        found_by(
            NgramMatcher(pa.array(["b c"], pa.large_string()), Tokenizer()), [f"a b{between}c d"]
        )
        == []
    )


@pytest.mark.parametrize("kind", ["words", "whitespace", "characters"])
@pytest.mark.parametrize("limit", [1, 1 << 20])
def test_no_ngram_crosses_a_row_or_a_batch(kind, limit, monkeypatch):
    monkeypatch.setattr(tokenizer, "CHUNK_BYTES", limit)
    counter = NgramCounter([2], Tokenizer(kind))
    for texts in (["a", "b", "", "c"], ["d"]):
        counter.add(to_rows(texts))
    assert counted(counter, 2) == {}
    assert (
        found_by(
            NgramMatcher(pa.array(["a b", "b c"], pa.large_string()), Tokenizer(kind)),
            ["a", "b", "", "c"],
        )
        == []
    )


def test_an_ngram_crosses_no_unknown_word():
    matcher = NgramMatcher(pa.array(["a b", "b a"], pa.large_string()), Tokenizer())
    assert found_by(matcher, ["a x b", "a b a"]) == [(1, 0), (1, 1)]


def test_repeated_entries_go_to_the_first():
    listed = pa.array(["b b", "a b", "a b", "b b", "b c", "a b"], pa.large_string())
    matcher = NgramMatcher(listed, Tokenizer())
    assert found_by(matcher, ["a b c", "b b b"]) == [(0, 1), (0, 4), (1, 0), (1, 0)]
    assert matcher.repeated == 3


def test_entries_of_the_list_do_not_run_into_one_another():
    matcher = NgramMatcher(pa.array(["a b", "c d"], pa.large_string()), Tokenizer())
    assert found_by(matcher, ["a b c d"]) == [(0, 0), (0, 1)]


def test_a_slice_of_a_list_and_slices_of_rows():
    listed = pa.array(["x y", "a b", "b c", "z z"], pa.large_string())[1:3]
    matcher = NgramMatcher(listed, Tokenizer())
    rows = to_rows(["x y", "b c", "a b c", "a b"])[1:3]
    [(owners, numbers)] = matcher.match([(rows, np.array([7, 5], np.int32))])
    assert list(zip(owners.tolist(), numbers.tolist(), strict=True)) == [(7, 1), (5, 0), (5, 1)]


def test_an_empty_list_finds_nothing():
    matcher = NgramMatcher(pa.array([], pa.large_string()), Tokenizer())
    assert found_by(matcher, ["a b c d"]) == []
    assert matcher.repeated == 0


def test_a_list_larger_than_the_first_tables():
    listed = [f"{first} {second}" for first in range(40) for second in range(40)]
    matcher = NgramMatcher(pa.array(listed, pa.large_string()), Tokenizer())
    texts = [" ".join(str(value * step % 43) for value in range(60)) for step in range(1, 20)]
    assert found_by(matcher, texts) == searched(listed, texts, 2, ("words", True))


@pytest.mark.parametrize("order", [0, -1, 7])
def test_other_orders_are_refused(order):
    message = rf"^order={order}: an n-gram has 1 to 6 tokens\.$"
    with pytest.raises(UsageError, match=message):
        NgramCounter([order], Tokenizer())


def test_n_grams_that_are_too_long_are_refused():
    with pytest.raises(UsageError, match=r"^order=7: an n-gram has 1 to 6 tokens\.$"):
        NgramMatcher(pa.array(["a b c d e f g"], pa.large_string()), Tokenizer())
