"""What a Spark task runs: Arrow batches in, Arrow batches out, by the kernels of one machine.

Counting merges a task's rows before anything leaves it, so that however much a user writes, the
shuffle sees a user's n-gram once for every `RUN_BYTES` of text. Measuring streams over users and
holds a block of them. All of it is a function of the rows alone: a task that is run twice gives the
same bytes. This module does not import Spark, and raises no error that quotes text.

Beside rows of counts, tasks emit *notes* about rows that they read and left out, and hashes of rows
of text. They travel in the same schemas, with an "n-gram" or an "order" that no n-gram has.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import chain
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bayesgram.arrays import Hashes, Integers
from bayesgram.errors import BayesgramError
from bayesgram.io import BadRows, RecordReader, Records, Source
from bayesgram.io.records import Chunk, Columns, as_bytes, clean
from bayesgram.private.candidates import (
    ContributionBound,
    iterate_candidate_lists,
    iterate_candidate_sums,
    round_units,
)
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

# None of these was measured.
RUN_BYTES = 1 << 25  # of text that is counted before its rows are handed on
BLOCK_ROWS = 1 << 20  # rows of users that are measured at a time
TASK_MEMORY = 1 << 28  # bytes for text and sums of a task's users; more is spilled to disk
ROWS_PER_BATCH = 1 << 17  # in a batch that leaves a task

NOTE = -(2**62)  # "n-gram" of a row that says how many rows were left out, and why
READ = "read"  # in place of the reason: how many rows were not left out
WITHOUT_TEXT = "without text"  # likewise: how many of those have no text
ROW = NOTE + 1  # "n-gram" of a row that is the hash of a row of text
ROW_ORDER = -1  # "order" of such a row

TEXT_ROWS = "user string, text string, rows long"
COUNT_ROWS = "user string, ngram long, count long"
NGRAM_ROWS = "order int, ngram string, count long"
ANSWER_ROWS = "answer binary"
LIST_ROWS = "user string, place int, hash long, order int, ngram string, log_weight float"
ROUND_ROWS = "hash long, tie int, count long"

RunT_co = TypeVar("RunT_co", covariant=True)
Batches: TypeAlias = Iterator[pa.RecordBatch]
Read: TypeAlias = Callable[[Batches, BadRows], Iterator[Records]]


def read_columns(batches: Batches, bad_rows: BadRows) -> Iterator[Records]:
    """Read records of a DataFrame with the columns text and, for private text, user."""
    for batch in batches:
        user = as_bytes(batch.column("user")) if "user" in batch.schema.names else None
        chunk = Chunk(as_bytes(batch.column("text")), user, range(1, len(batch) + 1))
        yield from clean(chunk, "the DataFrame", bad_rows, skip=True)


@dataclass(frozen=True)
class FileReader:
    """Reads records of files that Spark does not cut: a row of the DataFrame is a file's number."""

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
                bad_rows.without_text += reader.bad_rows.without_text
                for reason, rows in reader.bad_rows.by_reason.items():
                    bad_rows.by_reason[reason] = bad_rows.by_reason.get(reason, 0) + rows


def _notes(rows_read: int, bad_rows: BadRows) -> dict[str, int]:
    """Return what a task notes about its rows: how many were read, and how many left out, and why.

    `collect_bad_rows` adds the notes of all tasks up.
    """
    without_text = {WITHOUT_TEXT: bad_rows.without_text} if bad_rows.without_text else {}
    return {READ: rows_read, **without_text, **bad_rows.by_reason}


def count_ngrams(
    batches: Batches,
    read: Read,
    orders: Sequence[int],
    tokenizer: Tokenizer,
    sample: RowSample | None = None,
) -> Batches:
    """Count the n-grams of public text.

    Args:
        batches: The input of the task.
        read: Reads records from it.
        orders: The lengths of n-grams.
        tokenizer: Cuts text into tokens.
        sample: The sample of public rows to take, if any.

    Yields:
        N-grams of each order with their counts; then notes; then the hashes of sampled rows.
    """
    bad = BadRows()
    rows_read = 0
    sample = _new_task_sample(sample)
    for run in _split_runs(read(batches, bad)):
        rows_read += sum(map(len, run))
        # One core: Spark has a task for every core.
        counter = NgramCounter(orders, tokenizer, cores=1, rows=sample)
        for records in run:
            counter.add(records.text)
        for order in orders:
            yield from _ngram_batches(counter, order)
    for reason, rows in _notes(rows_read, bad).items():
        yield _batch(
            order=pa.array([0], pa.int32()), ngram=pa.array([reason]), count=pa.array([rows])
        )
    for names, counts in () if sample is None else _hash_columns(sample.hashes):
        orders_of_rows = pa.array(np.full(len(names), ROW_ORDER, np.int32))
        yield _batch(order=orders_of_rows, ngram=names, count=counts)


def count_listed(
    batches: Batches, read: Read, vocabulary: Vocabulary, sample: RowSample | None = None
) -> Batches:
    """Count the n-grams of a list in public text; rows are those of one user without a name."""
    bad = BadRows()
    rows_read = 0
    counts = np.zeros(len(vocabulary), np.int64)
    sample = _new_task_sample(sample)
    for records in read(batches, bad):
        rows_read += len(records)
        owned = [(records.text, np.zeros(len(records), np.int32))]
        for _, ngrams in vocabulary.matcher.match(owned, cores=1, rows=sample):
            np.add.at(counts, ngrams, 1)
    present = np.flatnonzero(counts)
    for first in range(0, present.size, ROWS_PER_BATCH):
        part = present[first : first + ROWS_PER_BATCH]
        yield _batch(
            user=pa.array([""] * part.size), ngram=pa.array(part), count=pa.array(counts[part])
        )
    for reason, rows in _notes(rows_read, bad).items():
        yield _batch(user=pa.array([reason]), ngram=pa.array([NOTE]), count=pa.array([rows]))
    if sample is not None:
        yield from _hash_batches(sample.hashes)


def add_scores(batches: Batches, columns: Sequence[str], score: NgramScore) -> Batches:
    """Add the exact score of each n-gram, as bytes that sort as numbers do, in a column `worth`."""
    for batch in batches:
        counts = np.stack([batch.column(name).to_numpy(zero_copy_only=False) for name in columns])
        exact = [
            int(value).to_bytes(score.max_bytes, "big") for value in score.exact_scores(counts)
        ]
        yield pa.RecordBatch.from_arrays(
            [*batch.columns, pa.array(exact, pa.binary())], [*batch.schema.names, "worth"]
        )


def count_users(
    batches: Batches, read: Read, vocabulary: Vocabulary, check: PublicRowCheck | None = None
) -> Batches:
    """Count a vocabulary's n-grams in private text.

    Yields:
        Rows (user, n-gram, count), merged for every `RUN_BYTES` of text; then notes; then the
        hashes of sampled rows, each with 1 if it was a public row.
    """
    bad = BadRows()
    rows_read = 0
    check = None if check is None else check.copy_empty()
    for run in _split_runs(read(batches, bad)):
        rows_read += sum(map(len, run))
        yield from _row_batches(count_records(run, vocabulary, cores=1, check=check))
    for reason, rows in _notes(rows_read, bad).items():
        yield _batch(user=pa.array([reason]), ngram=pa.array([NOTE]), count=pa.array([rows]))
    if check is not None:
        yield from _hash_batches(*check.compared_hashes)


def _new_task_sample(sample: RowSample | None) -> RowSample | None:
    """Return an empty sample for one task, with one hash more: the limit of that of all tasks."""
    return sample and RowSample(sample.salt, least=sample.least, capacity=sample.capacity + 1)


def _hash_columns(
    hashes: Hashes, counts: Integers | None = None
) -> "Iterator[tuple[pa.Array[Any], pa.Array[Any]]]":
    """Yield hashes as texts that sort as numbers do, each with a count (0 by default)."""
    row_counts = np.zeros(hashes.size, np.int64) if counts is None else counts
    for first in range(0, hashes.size, ROWS_PER_BATCH):
        part = slice(first, first + ROWS_PER_BATCH)
        names = pa.array([f"{value:016x}" for value in hashes[part].tolist()])
        yield names, pa.array(row_counts[part])


def _hash_batches(hashes: Hashes, counts: Integers | None = None) -> Batches:
    """Yield hashes of rows of text among rows of users."""
    for names, numbers in _hash_columns(hashes, counts):
        yield _batch(user=names, ngram=pa.array(np.full(len(names), ROW, np.int64)), count=numbers)


def emit_texts(batches: Batches, read: Read) -> Batches:
    """Emit private text as it is, row by row; then notes, which have no text."""
    bad = BadRows()
    rows_read = 0
    for records in read(batches, bad):
        rows_read += len(records)
        user, text = (
            pc.cast(pc.cast(column, pa.large_string()), pa.string())
            for column in (records.user, records.text)
        )
        yield _batch(user=user, text=text, rows=pa.nulls(len(records), pa.int64()))
    for reason, rows in _notes(rows_read, bad).items():
        yield _batch(user=pa.array([reason]), text=pa.nulls(1, pa.string()), rows=pa.array([rows]))


@dataclass(frozen=True, eq=False)
class DiscoveryQuery:
    """What a discovery needs from users' text. All public."""

    public: PublicTextModel
    orders: tuple[int, ...]
    bound: ContributionBound


def sum_user_candidates(batches: Batches, query: DiscoveryQuery) -> Batches:
    """Sum what the users of a task contribute to each candidate; pass notes on.

    The input is text of complete users, sorted by user. The output has the rows of `count_ngrams`;
    a candidate comes once for every run of `RUN_BYTES` of text.
    """
    notes: list[pa.RecordBatch] = []
    bound = replace(query.bound, min_sum=1)  # one task sees only some users
    for records in group_texts(_split_notes(batches, notes)):
        sums = iterate_candidate_sums(
            [records], query.public, query.orders, bound, memory=TASK_MEMORY, cores=1
        )
        for ngrams, units in sums:
            for first in range(0, len(ngrams), ROWS_PER_BATCH):
                part = ngrams[first : first + ROWS_PER_BATCH]
                orders = pa.array(
                    ngram_orders(part, query.public.vocabulary.tokenizer).astype(np.int32)
                )
                yield _batch(
                    order=orders,
                    ngram=part.cast(pa.string()),
                    count=pa.array(units[first:][: len(part)]),
                )
    for batch in notes:
        yield _batch(
            order=pa.array(np.zeros(len(batch), np.int32)), ngram=batch["user"], count=batch["rows"]
        )


def _split_notes(batches: Batches, notes: list[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield users and their texts as bytes; append the notes among them to a list."""
    for batch in batches:
        is_note = pc.is_null(batch["text"])
        notes.append(batch.filter(is_note))
        texts = batch.filter(pc.invert(is_note))
        yield pa.table({"user": as_bytes(texts["user"]), "text": as_bytes(texts["text"])})


def list_user_candidates(batches: Batches, query: DiscoveryQuery) -> Batches:
    """List the heaviest candidates of every user of a task, for several rounds; pass notes on.

    The input is text of complete users, sorted by user. A note has order 0 and, in place of the
    hash, a number of rows.
    """
    notes: list[pa.RecordBatch] = []
    for records in group_texts(_split_notes(batches, notes)):
        lists = iterate_candidate_lists(
            records,
            query.public,
            query.orders,
            query.bound.max_candidates,
            memory=TASK_MEMORY,
            cores=1,
        )
        for order, listed in lists:
            for first in range(0, len(listed.ngrams), ROWS_PER_BATCH):
                part = slice(first, first + ROWS_PER_BATCH)
                yield _batch(
                    user=listed.users[part].cast(pa.large_string()).cast(pa.string()),
                    place=pa.array(listed.places[part].astype(np.int32)),
                    hash=pa.array(sortable_hashes(listed.hashes[part])),
                    order=pa.array(np.full(len(listed.ngrams[part]), order, np.int32)),
                    ngram=listed.ngrams[part].cast(pa.string()),
                    log_weight=pa.array(listed.log_weights[part]),
                )
    for batch in notes:
        yield _batch(
            user=batch["user"],
            place=pa.nulls(len(batch), pa.int32()),
            hash=batch["rows"],
            order=pa.array(np.zeros(len(batch), np.int32)),
            ngram=pa.nulls(len(batch), pa.string()),
            log_weight=pa.nulls(len(batch), pa.float32()),
        )


def sortable_hashes(hashes: Hashes) -> Integers:
    """Return hashes as numbers with a sign, which sort alike: Spark has no others."""
    return (hashes ^ np.uint64(1 << 63)).view(np.int64)


def sum_round_units(batches: Batches) -> Batches:
    """Emit what every user of a task contributes to the candidates of a list, in one round.

    The input is complete users, sorted by user and place, with the weights of their candidates in
    this round. Candidates that were dropped are not among them.
    """
    for lists in _group_rows(_list_tables(batches), _check_lists):
        sizes = np.diff(np.append(lists.firsts, len(lists.rows)))
        units = round_units(sizes, np.array(lists.rows["weight"].combine_chunks()))
        for first in range(0, units.size, ROWS_PER_BATCH):
            part = lists.rows.slice(first, ROWS_PER_BATCH)
            yield _batch(
                hash=part["hash"].combine_chunks(),
                tie=part["tie"].combine_chunks(),
                count=pa.array(units[first : first + ROWS_PER_BATCH]),
            )


def _list_tables(batches: Batches) -> Iterator[pa.Table]:
    """Yield rows of lists, with users as bytes."""
    for batch in batches:
        columns = {name: batch[name] for name in ("place", "hash", "tie", "weight")}
        yield pa.table({"user": as_bytes(batch["user"]), **columns})


def group_texts(tables: Iterable[pa.Table]) -> Iterator[Records]:
    """Yield the text of some complete users at a time, from rows sorted by user.

    Memory is that of `RUN_BYTES`, or of one user.
    """
    return _group_rows(tables, _make_records)


class _MakeRun(Protocol[RunT_co]):
    """Makes something of rows of complete users, none of whom comes up to the user `after`."""

    def __call__(self, rows: pa.Table, *, after: bytes) -> RunT_co:
        """Check the rows, and make it."""


def _group_rows(tables: Iterable[pa.Table], make: _MakeRun[RunT_co]) -> Iterator[RunT_co]:
    """Yield what is made of the rows of some complete users at a time, from rows sorted by user."""
    pending: list[pa.Table] = []
    size = 0
    limit = RUN_BYTES
    last = b""
    for table in tables:
        pending.append(table)
        size += table.nbytes
        if size < limit:
            continue
        rows = pa.concat_tables(pending)
        complete = pc.index(rows["user"], rows["user"][-1]).as_py()  # the last user may go on
        if complete:
            yield make(rows[:complete], after=last)
            last = rows["user"][complete - 1].as_py()
        pending = [rows[complete:]]
        size = rows[complete:].nbytes
        limit = max(RUN_BYTES, 2 * size)
    if sum(map(len, pending)):
        yield make(pa.concat_tables(pending), after=last)


def _make_records(rows: pa.Table, *, after: bytes) -> Records:
    users, texts = (_combine_chunks(rows[name]) for name in ("user", "text"))
    _find_first_rows(
        users, "the text", "nothing was spent; run it again, and report it if it stays", after=after
    )
    return Records(texts, users, "private text", 1)


class _Lists(NamedTuple):
    """Lists of complete users: rows sorted by user and place."""

    rows: pa.Table
    firsts: Integers  # the first row of each user


def _check_lists(rows: pa.Table, *, after: bytes) -> _Lists:
    """Return lists of users, each of whom comes once, with each place once.

    A candidate that came twice on a list would move its sum by more than one user may.
    """
    mend = "what was reserved stays spent; report it"
    firsts = _find_first_rows(_combine_chunks(rows["user"]), "the lists", mend, after=after)
    is_next = np.diff(np.asarray(rows["place"].combine_chunks())) > 0
    is_next[firsts[1:] - 1] = True
    if not is_next.all():
        raise BayesgramError(f"the lists: a candidate comes twice; {mend}.")
    return _Lists(rows, firsts)


def merge_user_rows(batches: Batches, column_count: int) -> Batches:
    """Emit the rows of complete users, with each n-gram once."""
    for counts in group_users(batches, column_count):
        yield from _row_batches(counts)


def measure_users(
    batches: Batches, measure: Callable[[UserRows], Array], merge: np.ufunc, column_count: int
) -> Batches:
    """Measure all users of the task, and emit one answer."""
    answer = None
    for counts in group_users(batches, column_count):
        part = measure(UserRows(counts.starts, counts.ngrams, counts.counts, counts.users))
        answer = part if answer is None else merge(answer, part)
    if answer is not None:
        yield _pack_answer(answer)


def merge_answers(batches: Batches, merge: np.ufunc) -> Batches:
    """Merge several answers into one."""
    answers = [
        unpack_answer(answer) for batch in batches for answer in batch.column("answer").to_pylist()
    ]
    if answers:
        yield _pack_answer(merge.reduce(answers))


def unpack_answer(answer: bytes) -> Any:  # noqa: ANN401 - an array of the kind that was packed
    """Return the array of an answer."""
    return np.load(BytesIO(answer), allow_pickle=False)


def group_users(batches: Iterable[pa.RecordBatch], column_count: int) -> Iterator[UserCounts]:
    """Yield blocks of complete users, from rows sorted by user, with n-grams in any order.

    N-grams are numbers below `column_count`: those of the vocabulary, and then those that it does
    not list. Memory is that of a block, or of one user.
    """
    pending: list[pa.Table] = []
    size = 0
    limit = BLOCK_ROWS
    last = b""
    for batch in batches:
        pending.append(_check_batch(batch, column_count))
        size += len(batch)
        if size < limit:
            continue
        rows = pa.concat_tables(pending)
        complete = pc.index(rows["user"], rows["user"][-1]).as_py()  # the last user may go on
        if complete:
            block = _make_block(rows[:complete], column_count, after=last)
            last = block.users[-1].as_py()
            yield block
        # Merged, so that one user has at most 𝒱 rows.
        rest = _make_table(_make_block(rows[complete:], column_count, after=last))
        pending = [rest]
        size = len(rest)
        limit = max(BLOCK_ROWS, 2 * size)
    if size:
        yield _make_block(pa.concat_tables(pending), column_count, after=last)


def _split_runs(records: Iterable[Records]) -> Iterator[list[Records]]:
    """Yield records, about `RUN_BYTES` of text at a time."""
    run: list[Records] = []
    size = 0
    for batch in records:
        run.append(batch)
        size += batch.text.nbytes
        if size >= RUN_BYTES:
            yield run
            run = []
            size = 0
    if run:
        yield run


def _ngram_batches(counter: NgramCounter, order: int) -> Batches:
    """Emit the n-grams of one order as strings."""
    tokens = counter.tokens.strings()
    for rows, counts in chain.from_iterable(table.entries() for table in counter.tables(order)):
        for first in range(0, len(rows), ROWS_PER_BATCH):
            part = slice(first, first + ROWS_PER_BATCH)
            words = [
                tokens.take(pa.array(column)).cast(pa.large_string()) for column in rows[part].T
            ]
            ngrams = pc.binary_join_element_wise(*words, pa.scalar(" ", pa.large_string())).cast(
                pa.string()
            )
            orders = pa.array(np.full(len(ngrams), order, np.int32))
            batch = _batch(order=orders, ngram=ngrams, count=pa.array(counts[part]))
            # The start of a sentence is given, never predicted.
            has_start = order == 1 and counter.tokenizer.boundaries
            yield batch.filter(pc.not_equal(batch["ngram"], START)) if has_start else batch


def _row_batches(counts: UserCounts) -> Batches:
    for first, last in split_users(counts.starts, counts.ngrams.size // ROWS_PER_BATCH + 1):
        rows = slice(counts.starts[first], counts.starts[last])
        codes = np.repeat(np.arange(first, last), np.diff(counts.starts[first : last + 1]))
        users = counts.users.take(pa.array(codes)).cast(pa.large_string()).cast(pa.string())
        numbers = (
            pa.array(column[rows].astype(np.int64)) for column in (counts.ngrams, counts.counts)
        )
        yield _batch(user=users, **dict(zip(("ngram", "count"), numbers, strict=True)))


def _check_batch(batch: pa.RecordBatch, column_count: int) -> pa.Table:
    """Return rows in the types of the kernels, which trust them; an error shows no value."""
    ranges: Mapping[str, tuple[int, int, str]] = {
        "ngram": (0, column_count - 1, "an n-gram id is a row number of the vocabulary"),
        "count": (1, int(MAX_COUNT), "a count is a whole number"),
    }
    for name, (low, high, meaning) in ranges.items():
        is_inside = pc.and_(pc.greater_equal(batch[name], low), pc.less_equal(batch[name], high))
        if not pc.all(pc.fill_null(is_inside, False), min_count=0).as_py():
            raise BayesgramError(
                f"the counts: a {name} is not in {low} … {high}; {meaning}."
                " Are they the right ones?"
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


def _make_block(rows: pa.Table, column_count: int, *, after: bytes) -> UserCounts:
    """Return rows sorted by user as sparse counts."""
    users = _combine_chunks(rows["user"])
    firsts = _find_first_rows(users, "the counts", "load them anew with load_counts()", after=after)
    names = users.take(pa.array(firsts))
    codes = np.repeat(np.arange(len(names), dtype=np.int32), np.diff(np.append(firsts, len(users))))
    ngrams, counts = (np.asarray(rows[name].combine_chunks()) for name in ("ngram", "count"))
    return build_user_counts(names, codes, ngrams, counts, vocabulary_size=column_count)


def _combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    combined = column.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        return pa.concat_arrays(combined.chunks)
    return combined


def _find_first_rows(users: pa.LargeBinaryArray, name: str, mend: str, *, after: bytes) -> Integers:
    """Return where each user's rows begin.

    That nobody comes twice is checked, since every bound on what one user adds rests on it.

    Args:
        users: The user of each row.
        name: What the rows are, for the message.
        mend: What to do, for the message.
        after: The last user of the block before.
    """
    changes = pc.not_equal(users[1:], users[:-1]).to_numpy(zero_copy_only=False)
    firsts: Integers = np.concatenate([[0], np.flatnonzero(changes) + 1])
    names = users.take(pa.array(firsts))
    is_ascending = pc.all(pc.greater(names[1:], names[:-1]), min_count=0).as_py()
    if not is_ascending or names[0].as_py() <= after:
        raise BayesgramError(f"{name}: the rows of a user are not together; {mend}.")
    return firsts


def _make_table(counts: UserCounts) -> pa.Table:
    codes = np.repeat(np.arange(len(counts.users)), np.diff(counts.starts))
    return pa.table(
        {"user": counts.users.take(pa.array(codes)), "ngram": counts.ngrams, "count": counts.counts}
    )


def _pack_answer(answer: NDArray[Any]) -> pa.RecordBatch:
    packed = BytesIO()
    np.save(packed, answer, allow_pickle=False)
    return _batch(answer=pa.array([packed.getvalue()], pa.binary()))


def _batch(**columns: Any) -> pa.RecordBatch:  # noqa: ANN401 - Arrow arrays
    return pa.RecordBatch.from_pydict(columns)
