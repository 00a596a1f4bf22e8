"""Work on all cores: answers in order, errors where they are expected, nothing left running."""

import subprocess
import sys
import threading
import time

import pytest

from bayesgram.cores import parallel_imap, parallel_map, read_ahead


@pytest.mark.parametrize("cores", [1, 2, 5])
def test_answers_are_in_order_of_the_items(cores):
    def slow_for_small(item):
        time.sleep(0.002 * (5 - item))
        return item * item

    assert parallel_map(slow_for_small, range(5), cores=cores) == [0, 1, 4, 9, 16]
    assert parallel_map(slow_for_small, [], cores=cores) == []


@pytest.mark.parametrize("cores", [1, 2])
def test_an_error_reaches_the_caller(cores):
    with pytest.raises(ZeroDivisionError):
        parallel_map(lambda item: 1 // item, [1, 0, 2], cores=cores)
    assert parallel_map(abs, [-1], cores=cores) == [1]  # and the cores work on


@pytest.mark.parametrize("cores", [1, 2, 5])
def test_items_that_come_one_by_one_are_answered_in_order(cores):
    def slow_for_small(item):
        time.sleep(0.002 * (5 - item % 5))
        return item * item

    assert list(
        parallel_imap(slow_for_small, iter(range(20)), size=lambda _: 1, max_pending=6, cores=cores)
    ) == [item * item for item in range(20)]
    assert (
        list(parallel_imap(slow_for_small, iter([]), size=lambda _: 1, max_pending=6, cores=cores))
        == []
    )


@pytest.mark.parametrize("sizes", [[1] * 40, [3] * 20, [100] * 5, [1, 100, 1, 1, 100, 100, 1]])
def test_no_more_is_begun_than_there_is_room_for(sizes):
    max_pending, lock, open_now, most = 6, threading.Lock(), [], []

    def source():
        for size in sizes:
            with lock:
                open_now.append(size)
                most.append(sum(open_now))
            yield size

    for size in parallel_imap(
        lambda item: item, source(), size=lambda item: item, max_pending=max_pending, cores=2
    ):
        with lock:
            open_now.remove(size)
    assert max(most) <= max_pending + max(sizes)


def test_the_next_item_is_fetched_while_this_one_is_worked_on():
    fetched = threading.Event()

    def source():
        yield 0
        fetched.set()

    assert list(
        parallel_imap(
            lambda _: fetched.wait(60), source(), size=lambda _: 1, max_pending=1, cores=2
        )
    ) == [True]


def test_who_stops_early_leaves_nothing_waiting():
    go, began = threading.Event(), []

    def work(item):
        began.append(item)
        return item if item == 0 else go.wait(60)

    answers = parallel_imap(work, range(100), size=lambda _: 1, max_pending=50, cores=2)
    assert next(answers) == 0
    answers.close()
    go.set()
    assert parallel_map(abs, [-1], cores=2) == [1]
    assert len(began) <= 4  # the first, those that were being worked on, and no more


def test_an_error_among_items_that_come_one_by_one_ends_them():
    answers = parallel_imap(
        lambda item: 1 // item, iter([1, 1, 0, 1]), size=lambda _: 1, max_pending=1, cores=2
    )
    assert [next(answers), next(answers)] == [1, 1]
    with pytest.raises(ZeroDivisionError):
        next(answers)
    assert parallel_map(abs, [-1], cores=2) == [1]  # and the cores work on


def items(made, last):
    for number in range(last):
        made.append(number)
        yield number
    raise ValueError("the end of the file is missing")


def test_the_next_item_is_made_while_this_one_is_used():
    met = threading.Event()

    def source():
        yield 0
        met.set()
        yield 1

    got = read_ahead(source())
    assert next(got) == 0
    assert met.wait(60)  # though nobody asked for it yet
    assert list(got) == [1]


def test_an_error_comes_after_the_items_before_it():
    made = []
    got = read_ahead(items(made, 2))
    assert [next(got), next(got)] == [0, 1]
    with pytest.raises(ValueError, match="the end of the file is missing"):
        next(got)


def test_who_stops_early_leaves_nobody_reading():
    made, before = [], set(threading.enumerate())
    got = read_ahead(items(made, 100))
    assert next(got) == 0
    got.close()
    assert len(made) <= 2
    assert set(threading.enumerate()) <= before


def test_a_forked_process_has_cores_of_its_own():
    """Threads do not survive a fork: a child that asked the parent's would wait for ever."""
    code = """if True:
        import os
        from bayesgram.cores import parallel_map
        assert parallel_map(abs, [-1, 2, -3], cores=2) == [1, 2, 3]
        child = os.fork()
        if not child:
            os._exit(0 if parallel_map(abs, [-4, 5, -6], cores=2) == [4, 5, 6] else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert parallel_map(abs, [-7, 8], cores=2) == [7, 8]
    """
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)
