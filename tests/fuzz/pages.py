"""Requests to the page, straight to its application: never an error inside, and nothing repeated of
what was typed.
"""

import asyncio
import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from bayesgram.web.api import build
from bayesgram.web.guard import AccessPolicy, Guard, RateLimiter
from fuzz.mutations import mutated, mutated_json
from fuzz.target import Target, must
from helpers import web_catalogue

HEAD = "\n\n"  # between the first lines of an input and its body
TYPED = "Zq9typed"
PLAN = {
    "users": 1e4,
    "ngrams_a_user": 5,
    "unevenness": 1,
    "difference": 0.5,
    "epsilon": 1,
    "delta": 1e-7,
    "size": 10,
}
SEEDS = [
    f'POST /api/predict\nhost: localhost\n\n{{"text": "thank you {TYPED}", "k": 3}}',
    f"POST /api/plan\nhost: localhost\n\n{json.dumps({**PLAN, 'size': 9**9})}",
    f"GET /api/ngrams?release=0&order=2&sort=moved&text={TYPED}&page=1&size=5\nhost: 127.0.0.1:80\n\n",
    f"GET /api/download?release=1&sort=sure&reverse=true&text={TYPED}&kind=csv\nhost: localhost\n\n",
    "GET /api/card?release=1\nhost: localhost\ncookie: bayesgram_token=x\nauthorization: Bearer x\n\n",
    "GET /page.js\nhost: [::1]\norigin: http://localhost\nsec-fetch-site: none\ncontent-length: 0\n\n",
]


@cache
def guard() -> Guard:
    return build(web_catalogue.make_catalogue(), AccessPolicy(), RateLimiter(rate=1e12, burst=1e12))


@cache
def loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def scope_of(head: bytes) -> dict[str, Any]:
    """What a server makes of the lines before a body."""
    first, *lines = head.split(b"\n")
    method, _, target = first.partition(b" ")
    path, _, query = target.partition(b"?")
    pairs = [line.partition(b":") for line in lines if b":" in line]
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method.decode("latin-1").upper(),
        "scheme": "http",
        "path": path.decode("utf-8", "replace"),
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "headers": [(name.strip().lower(), value.strip()) for name, _, value in pairs],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }


async def ask(head: bytes, body: bytes) -> tuple[int, bytes]:
    sent: list[dict[str, Any]] = []
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        return waiting.pop() if waiting else {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await guard()(scope_of(head), receive, send)
    start = next(message for message in sent if message["type"] == "http.response.start")
    return start["status"], b"".join(message.get("body", b"") for message in sent)


def check_request(data: bytes, folder: Path) -> None:
    head, _, body = data.partition(HEAD.encode())
    status, answer = loop().run_until_complete(ask(head, body))
    must(status != 500, f"an error inside: {answer[:200]!r}")
    must(status < 400 or TYPED.encode() not in answer, "a refusal repeats what was typed")


def changed(random: Random, seeds: Sequence[bytes]) -> bytes:
    head, between, body = random.choice(seeds).partition(HEAD.encode())
    if random.random() < 0.6 and body:
        try:
            return head + between + mutated_json(random, json.loads(body))
        except (ValueError, RecursionError):
            pass
    return mutated(random, head, seeds) + between + body


def targets() -> Iterator[Target]:
    """The page."""
    yield Target("page", 60, lambda: [seed.encode() for seed in SEEDS], check_request, changed)
