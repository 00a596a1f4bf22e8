"""Run work on all cores of the machine: threads, for kernels and readers that release the GIL."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TypeVar, cast

Item = TypeVar("Item")
Result = TypeVar("Result")

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def parallel_map(
    function: Callable[[Item], Result], items: Iterable[Item], *, cores: int = CORES
) -> list[Result]:
    """Return the results of a function in the order of the items, computed on all cores.

    The function must not call `parallel_map` or `parallel_imap` itself: it would wait for ever.

    >>> parallel_map(abs, [-2, 3])
    [2, 3]
    """
    if cores == 1:
        return list(map(function, items))
    return list(_pool(cores).map(function, items))


def parallel_imap(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    size: Callable[[Item], int],
    max_pending: int,
    cores: int = CORES,
) -> Iterator[Result]:
    """Yield the results of a function in the order of the items, which are fetched meanwhile.

    Args:
        function: Is called with each item, on any core. It must not ask for cores itself.
        items: Are fetched one after the other in the calling thread.
        size: How large an item is, in any unit.
        max_pending: Items that were fetched, and whose results were not taken yet, have sizes of
            up to this in total, and one item more.
        cores: The number of threads.

    >>> list(parallel_imap(abs, iter([-2, 3]), size=abs, max_pending=10))
    [2, 3]
    """
    if cores == 1:
        yield from map(function, items)
        return
    pending: deque[tuple[int, Future[Result]]] = deque()  # sizes of items, and their results
    pending_size = 0
    try:
        for item in items:
            item_size = size(item)
            pending.append((item_size, _pool(cores).submit(function, item)))
            pending_size += item_size
            while pending_size > max_pending:
                yield pending[0][1].result()
                pending_size -= pending.popleft()[0]
        while pending:
            yield pending[0][1].result()
            pending.popleft()
    finally:
        for _, result in pending:
            result.cancel()


def read_ahead(items: Iterator[Item], *, depth: int = 1) -> Iterator[Item]:
    """Yield the same items; the next ones are fetched in a thread while the caller uses this one.

    Args:
        items: Are fetched one after the other.
        depth: How many items are fetched ahead. More of them keep the reader at work while the
            caller is busy for a while.

    >>> list(read_ahead(iter("abc"), depth=2))
    ['a', 'b', 'c']
    """
    end = object()
    with ThreadPoolExecutor(1) as reader:
        following = deque(reader.submit(next, items, end) for _ in range(depth))
        try:
            while (item := following.popleft().result()) is not end:
                following.append(reader.submit(next, items, end))
                yield cast("Item", item)
        finally:
            for pending in following:
                pending.cancel()


@cache
def _pool(cores: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(cores)


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork: a child would wait for them for ever.
    os.register_at_fork(after_in_child=_pool.cache_clear)
