"""What a Spark task runs: Arrow batches in, Arrow batches out, by the kernels of one machine.

Counting merges a task's rows before anything leaves it, so that however much a user writes, the shuffle sees a user's
n-gram once for every RUN_BYTES of text. Asking streams over users and holds a block of them. All of it is a function
of the rows alone: a task that is run twice gives the same bytes. Does not know Spark, and raises no error with text.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arrays import Hashes, Integers
from bayesgram.errors import BayesgramError
from bayesgram.io import BadRows, RecordReader, Records, Source
from bayesgram.io.records import Chunk, Columns, as_bytes, clean
from bayesgram.private.candidates import ContributionBound, iterate_candidate_sums
from bayesgram.private.counts import (
    MAX_COUNT,
    Array,
    UserCounts,
    UserRows,
    build_user_counts,
    count_records,
    split_users,
)
from bayesgram.private.public_row_check import PublicRowCheck
from bayesgram.public.candidate_weights import PublicTextModel
from bayesgram.public.top_ngrams import NgramScore
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.ngrams import START, NgramCounter, ngram_orders
from bayesgram.text.row_hashes import RowSample
from bayesgram.text.tokenizer import Tokenizer

RUN_BYTES = 1 << 25  # of text counted before its rows are handed on
BLOCK_ROWS = 1 << 20  # of users asked at a time
TASK_MEMORY = 1 << 28  # for text and sums of a task's users; more is spilled to disk
ROWS_AT_ONCE = 1 << 17  # in a batch that leaves a task
NOTE = -(2**62)  # "n-gram" of a row that says how many rows were left out, and why
READ = "read"  # in place of why: how many were not left out
ROW = NOTE + 1  # "n-gram" of a row that is the hash of a row of text
ROW_ORDER = -1  # "order" of such a row

TEXT_ROWS = "user string, text string, rows long"
COUNT_ROWS = "user string, ngram long, count long"
NGRAM_ROWS = "order int, ngram string, count long"
ANSWER_ROWS = "answer binary"

Batches: TypeAlias = Iterator[pa.RecordBatch]
Read: TypeAlias = Callable[[Batches, BadRows], Iterator[Records]]


def from_columns(batches: Batches, bad_rows: BadRows) -> Iterator[Records]:
    """Records of a DataFrame with the columns text and, for private text, user."""
    for batch in batches:
        user = as_bytes(batch.column("user")) if "user" in batch.schema.names else None
        chunk = Chunk(as_bytes(batch.column("text")), user, range(1, len(batch) + 1))
        yield from clean(chunk, "the DataFrame", bad_rows, skip=True)


@dataclass(frozen=True)
class FileReader:
    """Records of files that Spark does not cut: a row of the DataFrame is the number of a file."""

    sources: Sequence[Source]
    columns: Columns

    def __call__(self, batches: Batches, bad_rows: BadRows) -> Iterator[Records]:
        """Read the files whose numbers come."""
        for batch in batches:
            for number in batch.column("id").to_pylist():
                reader = RecordReader(
                    [self.sources[number]], self.columns, skip_bad_rows=True, on_progress=None
                )
                yield from reader
                for reason, rows in reader.bad_rows.by_reason.items():
                    bad_rows.by_reason[reason] = bad_rows.by_reason.get(reason, 0) + rows


def count_ngrams(
    batches: Batches,
    read: Read,
    orders: Sequence[int],
    tokenizer: Tokenizer,
    sample: RowSample | None = None,
) -> Batches:
    """Public text as n-grams of each order with their counts; then what a `sample` keeps of its rows."""
    bad, rows_read, sample = BadRows(), 0, _task_sample(sample)
    for run in _runs(read(batches, bad)):
        rows_read += sum(map(len, run))
        counter = NgramCounter(
            orders, tokenizer, cores=1, rows=sample
        )  # Spark has a task for every core
        for records in run:
            counter.add(records.text)
        for order in orders:
            yield from _ngram_batches(counter, order)
    for reason, rows in {READ: rows_read, **bad.by_reason}.items():
        yield _batch(
            order=pa.array([0], pa.int32()), ngram=pa.array([reason]), count=pa.array([rows])
        )
    for names, counts in () if sample is None else _hash_rows(sample.hashes):
        orders_of_rows = pa.array(np.full(len(names), ROW_ORDER, np.int32))
        yield _batch(order=orders_of_rows, ngram=names, count=counts)


def count_listed(
    batches: Batches, read: Read, vocabulary: Vocabulary, sample: RowSample | None = None
) -> Batches:
    """Public text as how often it has each n-gram of a list: rows as of `count_users`, of a user without a name."""
    bad, rows_read, counts = BadRows(), 0, np.zeros(len(vocabulary), np.int64)
    sample = _task_sample(sample)
    for records in read(batches, bad):
        rows_read += len(records)
        owned = [(records.text, np.zeros(len(records), np.int32))]
        for _, found in vocabulary.matcher.match(owned, cores=1, rows=sample):
            np.add.at(counts, found, 1)
    places = np.flatnonzero(counts)
    for first in range(0, places.size, ROWS_AT_ONCE):
        some = places[first : first + ROWS_AT_ONCE]
        yield _batch(
            user=pa.array([""] * some.size), ngram=pa.array(some), count=pa.array(counts[some])
        )
    for reason, rows in {READ: rows_read, **bad.by_reason}.items():
        yield _batch(user=pa.array([reason]), ngram=pa.array([NOTE]), count=pa.array([rows]))
    if sample is not None:
        yield from _hash_batches(sample.hashes)


def weighed(batches: Batches, columns: Sequence[str], worth: NgramScore) -> Batches:
    """Rows of n-grams and their counts in each source, with what they are worth: as bytes that sort as numbers do."""
    for batch in batches:
        counts = np.stack([batch.column(name).to_numpy(zero_copy_only=False) for name in columns])
        exact = [
            int(value).to_bytes(worth.max_bytes, "big") for value in worth.exact_scores(counts)
        ]
        yield pa.RecordBatch.from_arrays(
            [*batch.columns, pa.array(exact, pa.binary())], [*batch.schema.names, "worth"]
        )


def count_users(
    batches: Batches, read: Read, vocabulary: Vocabulary, check: PublicRowCheck | None = None
) -> Batches:
    """Private text as (user, n-gram, count) rows, merged; then hashes of rows, 1 if they were public."""
    bad, rows_read, check = BadRows(), 0, None if check is None else check.copy_empty()
    for run in _runs(read(batches, bad)):
        rows_read += sum(map(len, run))
        yield from _row_batches(count_records(run, vocabulary, cores=1, check=check))
    for reason, rows in {READ: rows_read, **bad.by_reason}.items():
        yield _batch(user=pa.array([reason]), ngram=pa.array([NOTE]), count=pa.array([rows]))
    if check is not None:
        yield from _hash_batches(*check.compared_hashes)


def _task_sample(sample: RowSample | None) -> RowSample | None:
    """An empty sample for one task. It keeps one hash more: the limit of the sample of all tasks."""
    return sample and RowSample(sample.salt, least=sample.least, capacity=sample.capacity + 1)


def _hash_rows(
    hashes: Hashes, counts: Integers | None = None
) -> "Iterator[tuple[pa.Array[Any], pa.Array[Any]]]":
    """Hashes as texts that sort as numbers do, each with a count (0 where none is given), some at a time."""
    counted = np.zeros(hashes.size, np.int64) if counts is None else counts
    for first in range(0, hashes.size, ROWS_AT_ONCE):
        some = slice(first, first + ROWS_AT_ONCE)
        yield (
            pa.array([f"{value:016x}" for value in hashes[some].tolist()]),
            pa.array(counted[some]),
        )


def _hash_batches(hashes: Hashes, counts: Integers | None = None) -> Batches:
    """The same among rows of users."""
    for names, counted in _hash_rows(hashes, counts):
        yield _batch(user=names, ngram=pa.array(np.full(len(names), ROW, np.int64)), count=counted)


def emit_texts(batches: Batches, read: Read) -> Batches:
    """Private text as it is, row by row; then notes, which have no text."""
    bad, rows_read = BadRows(), 0
    for records in read(batches, bad):
        rows_read += len(records)
        user, text = (
            pc.cast(pc.cast(each, pa.large_string()), pa.string())
            for each in (records.user, records.text)
        )
        yield _batch(user=user, text=text, rows=pa.nulls(len(records), pa.int64()))
    for reason, rows in {READ: rows_read, **bad.by_reason}.items():
        yield _batch(user=pa.array([reason]), text=pa.nulls(1, pa.string()), rows=pa.array([rows]))


@dataclass(frozen=True, eq=False)
class DiscoveryQuery:
    """What a discovery asks of users' text. All public; sent to an executor once."""

    public: PublicTextModel
    orders: tuple[int, ...]
    bound: ContributionBound


def candidates(batches: Batches, asked: DiscoveryQuery) -> Batches:
    """Text of whole users, sorted by user, as candidates with the sum of what users give; notes as they are.

    Rows are those of `count_ngrams`; a candidate comes once for some users' text, at most RUN_BYTES of it.
    """
    notes: list[pa.RecordBatch] = []
    every = replace(asked.bound, floor=1)
    for records in group_texts(_without_notes(batches, notes)):
        sums = iterate_candidate_sums(
            [records], asked.public, asked.orders, every, memory=TASK_MEMORY, cores=1
        )
        for ngrams, units in sums:
            for first in range(0, len(ngrams), ROWS_AT_ONCE):
                some = ngrams[first : first + ROWS_AT_ONCE]
                orders = pa.array(ngram_orders(some).astype(np.int32))
                yield _batch(
                    order=orders,
                    ngram=some.cast(pa.string()),
                    count=pa.array(units[first:][: len(some)]),
                )
    for batch in notes:
        yield _batch(
            order=pa.array(np.zeros(len(batch), np.int32)), ngram=batch["user"], count=batch["rows"]
        )


def _without_notes(batches: Batches, notes: list[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Users and their texts as bytes; the notes among them go to a list."""
    for batch in batches:
        noted = pc.is_null(batch["text"])
        notes.append(batch.filter(noted))
        texts = batch.filter(pc.invert(noted))
        yield pa.table({"user": as_bytes(texts["user"]), "text": as_bytes(texts["text"])})


def group_texts(tables: Iterable[pa.Table]) -> Iterator[Records]:
    """The text of some users at a time, from rows sorted by user; memory is that of RUN_BYTES, or of one user."""
    waiting: list[pa.Table] = []
    size, limit, last = 0, RUN_BYTES, b""
    for table in tables:
        waiting.append(table)
        size += table.nbytes
        if size < limit:
            continue
        rows = pa.concat_tables(waiting)
        whole = pc.index(rows["user"], rows["user"][-1]).as_py()  # the last user's rows may go on
        if whole:
            yield _texts(rows[:whole], after=last)
            last = rows["user"][whole - 1].as_py()
        waiting, size = [rows[whole:]], rows[whole:].nbytes
        limit = max(RUN_BYTES, 2 * size)
    if sum(map(len, waiting)):
        yield _texts(pa.concat_tables(waiting), after=last)


def _texts(rows: pa.Table, *, after: bytes) -> Records:
    users, texts = (_in_one(rows[name]) for name in ("user", "text"))
    _first_rows(
        users, "the text", "nothing was spent; run it again, and report it if it stays", after=after
    )
    return Records(texts, users, "private text", 1)


def merge_user_rows(batches: Batches, vocabulary_size: int) -> Batches:
    """The rows of whole users, with each n-gram once."""
    for counts in whole_users(batches, vocabulary_size):
        yield from _row_batches(counts)


def measured(
    batches: Batches, measure: Callable[[UserRows], Array], merge: np.ufunc, vocabulary_size: int
) -> Batches:
    """One answer for all users of the task."""
    answer = None
    for counts in whole_users(batches, vocabulary_size):
        part = measure(UserRows(counts.starts, counts.ngrams, counts.counts, counts.users))
        answer = part if answer is None else merge(answer, part)
    if answer is not None:
        yield _answer(answer)


def merge_answers(batches: Batches, merge: np.ufunc) -> Batches:
    """One answer for several."""
    answers = [
        unpacked(answer) for batch in batches for answer in batch.column("answer").to_pylist()
    ]
    if answers:
        yield _answer(merge.reduce(answers))


def unpacked(answer: bytes) -> Any:  # noqa: ANN401 - an array of the kind that was packed
    """The array of an answer."""
    return np.load(BytesIO(answer), allow_pickle=False)


def whole_users(batches: Iterable[pa.RecordBatch], vocabulary_size: int) -> Iterator[UserCounts]:
    """Blocks of users from rows sorted by user, in any order of n-grams; memory is that of a block, or of one user."""
    waiting: list[pa.Table] = []
    size, limit, last = 0, BLOCK_ROWS, b""
    for batch in batches:
        waiting.append(_checked(batch, vocabulary_size))
        size += len(batch)
        if size < limit:
            continue
        rows = pa.concat_tables(waiting)
        whole = pc.index(rows["user"], rows["user"][-1]).as_py()  # the last user's rows may go on
        if whole:
            block = _block(rows[:whole], vocabulary_size, after=last)
            last = block.users[-1].as_py()
            yield block
        rest = _as_table(
            _block(rows[whole:], vocabulary_size, after=last)
        )  # merged: at most 𝒱 rows
        waiting, size = [rest], len(rest)
        limit = max(BLOCK_ROWS, 2 * size)
    if size:
        yield _block(pa.concat_tables(waiting), vocabulary_size, after=last)


def _runs(records: Iterable[Records]) -> Iterator[list[Records]]:
    """Records, about RUN_BYTES of text at a time."""
    run: list[Records] = []
    size = 0
    for batch in records:
        run.append(batch)
        size += batch.text.nbytes
        if size >= RUN_BYTES:
            yield run
            run, size = [], 0
    if run:
        yield run


def _ngram_batches(counter: NgramCounter, order: int) -> Batches:
    """The n-grams of one order as strings."""
    tokens = counter.tokens.strings()
    for rows, counts in chain.from_iterable(table.entries() for table in counter.tables(order)):
        for first in range(0, len(rows), ROWS_AT_ONCE):
            part = slice(first, first + ROWS_AT_ONCE)
            words = [
                tokens.take(pa.array(column)).cast(pa.large_string()) for column in rows[part].T
            ]
            ngrams = pc.binary_join_element_wise(*words, pa.scalar(" ", pa.large_string())).cast(
                pa.string()
            )
            orders = pa.array(np.full(len(ngrams), order, np.int32))
            batch = _batch(order=orders, ngram=ngrams, count=pa.array(counts[part]))
            starts = (
                order == 1 and counter.tokenizer.boundaries
            )  # a sentence's start is given, never predicted
            yield batch.filter(pc.not_equal(batch["ngram"], START)) if starts else batch


def _row_batches(counts: UserCounts) -> Batches:
    for first, last in split_users(counts.starts, counts.ngrams.size // ROWS_AT_ONCE + 1):
        rows = slice(counts.starts[first], counts.starts[last])
        codes = np.repeat(np.arange(first, last), np.diff(counts.starts[first : last + 1]))
        users = counts.users.take(pa.array(codes)).cast(pa.large_string()).cast(pa.string())
        numbers = (
            pa.array(column[rows].astype(np.int64)) for column in (counts.ngrams, counts.counts)
        )
        yield _batch(user=users, **dict(zip(("ngram", "count"), numbers, strict=True)))


def _checked(batch: pa.RecordBatch, vocabulary_size: int) -> pa.Table:
    """The rows in the types of the kernels, which trust them; no value is shown."""
    ranges: Mapping[str, tuple[int, int, str]] = {
        "ngram": (0, vocabulary_size - 1, "an n-gram id is a row number of the vocabulary"),
        "count": (1, int(MAX_COUNT), "a count is a whole number"),
    }
    for name, (low, high, meaning) in ranges.items():
        inside = pc.and_(pc.greater_equal(batch[name], low), pc.less_equal(batch[name], high))
        if not pc.all(pc.fill_null(inside, False), min_count=0).as_py():
            raise BayesgramError(
                f"the counts: a {name} is not in {low} … {high}; {meaning}. Are they the right ones?"
            )
    users = as_bytes(batch["user"])
    if users.null_count or not pc.all(pc.greater(pc.binary_length(users), 0), min_count=0).as_py():
        raise BayesgramError("the counts: a row has no user id. Every row of counts needs one.")
    return pa.table(
        {
            "user": users,
            "ngram": batch["ngram"].cast(pa.int32()),
            "count": batch["count"].cast(pa.int32()),
        }
    )


def _block(rows: pa.Table, vocabulary_size: int, *, after: bytes) -> UserCounts:
    """Rows sorted by user as sparse counts."""
    users = _in_one(rows["user"])
    firsts = _first_rows(users, "the counts", "load them anew with load_counts()", after=after)
    names = users.take(pa.array(firsts))
    codes = np.repeat(np.arange(len(names), dtype=np.int32), np.diff(np.append(firsts, len(users))))
    ngrams, counts = (np.asarray(rows[name].combine_chunks()) for name in ("ngram", "count"))
    return build_user_counts(names, codes, ngrams, counts, vocabulary_size=vocabulary_size)


def _in_one(column: pa.ChunkedArray) -> pa.Array:
    """A column without its chunks."""
    found = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found


def _first_rows(users: pa.LargeBinaryArray, what: str, mend: str, *, after: bytes) -> Integers:
    """Where each user's rows begin; that nobody comes twice is checked, since every bound rests on it."""
    changes = pc.not_equal(users[1:], users[:-1]).to_numpy(zero_copy_only=False)
    firsts: Integers = np.concatenate([[0], np.flatnonzero(changes) + 1])
    names = users.take(pa.array(firsts))
    ascending = pc.all(pc.greater(names[1:], names[:-1]), min_count=0).as_py()
    if not ascending or names[0].as_py() <= after:
        raise BayesgramError(f"{what}: the rows of a user are not together; {mend}.")
    return firsts


def _as_table(counts: UserCounts) -> pa.Table:
    codes = np.repeat(np.arange(len(counts.users)), np.diff(counts.starts))
    return pa.table(
        {"user": counts.users.take(pa.array(codes)), "ngram": counts.ngrams, "count": counts.counts}
    )


def _answer(answer: Any) -> pa.RecordBatch:  # noqa: ANN401 - an array of any kind
    packed = BytesIO()
    np.save(packed, answer, allow_pickle=False)
    return _batch(answer=pa.array([packed.getvalue()], pa.binary()))


def _batch(**columns: Any) -> pa.RecordBatch:  # noqa: ANN401 - Arrow arrays
    return pa.RecordBatch.from_pydict(columns)
