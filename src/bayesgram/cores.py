"""All cores of the machine, for kernels that release the GIL."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TypeVar, cast

Item = TypeVar("Item")
Answer = TypeVar("Answer")

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def parallel_map(
    function: Callable[[Item], Answer], items: Iterable[Item], *, cores: int = CORES
) -> list[Answer]:
    """The answers in order of the items. What runs here must not ask for cores itself: it would wait for ever.

    >>> parallel_map(abs, [-2, 3])
    [2, 3]
    """
    if cores == 1:
        return list(map(function, items))
    return list(_pool(cores).map(function, items))


def parallel_imap(
    function: Callable[[Item], Answer],
    items: Iterable[Item],
    *,
    size: Callable[[Item], int],
    max_pending: int,
    cores: int = CORES,
) -> Iterator[Answer]:
    """The answers in order of items that come one after the other: some are worked on while the next is fetched.

    Those that were fetched, and whose answers were not taken yet, have sizes of up to `max_pending`, and one more item.

    >>> list(parallel_imap(abs, iter([-2, 3]), size=abs, max_pending=10))
    [2, 3]
    """
    if cores == 1:
        yield from map(function, items)
        return
    begun: deque[tuple[int, Future[Answer]]] = deque()
    taken = 0
    try:
        for item in items:
            begun.append((size(item), _pool(cores).submit(function, item)))
            taken += begun[-1][0]
            while taken > max_pending:
                yield begun[0][1].result()
                taken -= begun.popleft()[0]
        while begun:
            yield begun[0][1].result()
            begun.popleft()
    finally:
        for _, answer in begun:
            answer.cancel()


@cache
def _pool(cores: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(cores)


if hasattr(
    os, "register_at_fork"
):  # threads do not survive a fork: a child would wait for them for ever
    os.register_at_fork(after_in_child=_pool.cache_clear)


def read_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The same items, the next one of which is made while this one is used: for readers, which release the GIL.

    >>> list(read_ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    end = object()
    with ThreadPoolExecutor(1) as reader:
        following = reader.submit(next, items, end)
        while (item := following.result()) is not end:
            following = reader.submit(next, items, end)
            yield cast("Item", item)
