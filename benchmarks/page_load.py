"""How the page stands a crowd.

Requests at a fixed rate, half of them predictions and half of them browsing.

    python benchmarks/page_load.py RELEASE... [--vocab vocab.parquet] [--seconds 60] [--rates 200 400 800]

Starts `bayesgram serve`, asks on kept connections at moments fixed beforehand, and measures from
that moment, not from when a connection was free: waiting counts. Beyond its limit (see
web/guard.py) the page answers 429 at once.
"""

import argparse
import asyncio
import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from itertools import cycle
from time import perf_counter

import numpy as np

CONNECTIONS = 64
TEXTS = (
    "",
    "thank you ",
    "i want to ",
    "I don't kn",
    "one of the ",
    "as well a",
    "it is not the sa",
)
SEARCHES = ("", "", "the", "you", "i want", "&sort=alphabet&page=7", "&sort=probability&page=300")


@dataclass
class Result:
    """What came back."""

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: dict[str, list[float]] = field(
        default_factory=lambda: {"predict": [], "browse": [], "refused": []}
    )

    def line(self, rate: int) -> str:
        """For a person."""
        parts = [
            f"{rate:>5}/s  "
            + ", ".join(f"{status}: {count}" for status, count in sorted(self.statuses.items()))
        ]
        for kind, seconds in self.seconds.items():
            if seconds:
                low, high, most = 1000 * np.percentile(seconds, [50, 99, 100])
                parts.append(f"{kind} p50 {low:.1f} ms, p99 {high:.1f} ms, max {most:.0f} ms")
        return " | ".join(parts)


def requests() -> list[tuple[str, bytes]]:
    """Predictions and pages, in turn."""
    found = []
    for text, search in zip(TEXTS, SEARCHES, strict=True):
        body = json.dumps({"text": text, "k": 5}).encode()
        head = f"host: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        found.append(("predict", b"POST /api/predict HTTP/1.1\r\n" + head.encode() + body))
        query = search if search.startswith("&") else f"&text={search.replace(' ', '%20')}"
        found.append(
            (
                "browse",
                f"GET /api/ngrams?size=25{query} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode(),
            )
        )
    return found


async def worker(
    port: int, queue: "asyncio.Queue[tuple[float, str, bytes] | None]", result: Result
) -> None:
    """One connection: asks what is due."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while (due := await queue.get()) is not None:
        moment, kind, request = due
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head[9:12])
        await reader.readexactly(int(re.search(rb"content-length: (\d+)", head)[1]))  # type: ignore[index]
        result.statuses[status] += 1
        result.seconds[kind if status == 200 else "refused"].append(perf_counter() - moment)
    writer.close()


async def drive(port: int, rate: int, seconds: float) -> Result:
    """Requests at a rate for a while."""
    queue: asyncio.Queue[tuple[float, str, bytes] | None] = asyncio.Queue()
    result = Result()
    workers = [asyncio.create_task(worker(port, queue, result)) for _ in range(CONNECTIONS)]
    start, asked = perf_counter() + 0.2, cycle(requests())
    for number in range(int(rate * seconds)):
        moment = start + number / rate
        await asyncio.sleep(max(moment - perf_counter(), 0))
        queue.put_nowait((moment, *next(asked)))
    for _ in workers:
        queue.put_nowait(None)
    await asyncio.gather(*workers)
    return result


def main() -> None:
    """Start the page, ask, stop it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("releases", nargs="+")
    parser.add_argument("--vocab")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rates", type=int, nargs="+", default=[200, 400, 800])
    given = parser.parse_args()
    vocab = ["--vocab", given.vocab] if given.vocab else []
    command = [sys.executable, "-m", "bayesgram", "serve", *given.releases, *vocab, "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as running:
        try:
            port = int(re.search(r":(\d+)/", running.stdout.readline())[1])  # type: ignore[union-attr, index]
            asyncio.run(drive(port, 50, 2))  # everything is loaded
            for rate in given.rates:
                print(asyncio.run(drive(port, rate, given.seconds)).line(rate), flush=True)
        finally:
            running.terminate()


if __name__ == "__main__":
    main()
