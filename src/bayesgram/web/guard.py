"""What stands before every request: who may ask, how much, how often; and the headers of every answer.

- A page elsewhere can't use a visitor's browser to read this one: the Host header must name this machine (a foreign
  name that was made to point here is refused), and a request from another origin is refused.
- Beyond this machine, a token is needed: in a cookie, which the printed address sets, or as a bearer.
- Bodies, addresses and rates are limited. Errors are short JSON; they never repeat what was sent.
Does not encrypt: for that, put it behind a proxy or a tunnel.
"""

import asyncio
import hmac
import ipaddress
import json
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from time import monotonic
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BODY = 16_384  # bytes
MOST_QUERY = 2_048  # bytes of the address after ?
BODY_SECONDS = 10.0  # a body must arrive within
RATE, BURST = 250.0, 500.0  # requests a second and client, and how many at once
MOST_CLIENTS = 4_096  # whose rates are remembered
COOKIE = "bayesgram_token"
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Refusal:
    """A request that is not answered, and why."""

    status: int
    reason: str
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class AccessPolicy:
    """Who may come in."""

    names: frozenset[str] = LOOPBACK_NAMES  # hosts, as the Host header names them, without a port
    any_address: bool = False  # whether any IP address is a good name: it can't be rebound
    token: str | None = None

    def allows_host(self, host: str) -> bool:
        """Whether a Host header names this machine.

        >>> local, anywhere = AccessPolicy(), AccessPolicy(any_address=True)
        >>> local.allows_host("localhost:8765"), local.allows_host("evil.example"), anywhere.allows_host("10.0.0.7")
        (True, False, True)
        """
        before, _, port = host.rpartition(":")
        name = before if port.isdecimal() else host
        return name.lower() in self.names or (self.any_address and _is_address(name))

    def knows(self, token: str) -> bool:
        """Whether the token is right, in a time that does not tell how nearly."""
        return self.token is None or hmac.compare_digest(token.encode(), self.token.encode())


@dataclass
class RateLimiter:
    """A bucket of requests for each client, filled steadily."""

    rate: float = RATE
    burst: float = BURST
    clock: Callable[[], float] = monotonic
    _buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def wait(self, client: str) -> float:
        """0 if the client may ask now, else in how many seconds."""
        now = self.clock()
        left, since = self._buckets.pop(client, (self.burst, now))
        left = min(self.burst, left + (now - since) * self.rate)
        allowed = left >= 1
        self._buckets[client] = (left - allowed, now)
        if len(self._buckets) > MOST_CLIENTS:
            self._buckets.popitem(last=False)  # the one that has not asked for longest
        return 0.0 if allowed else (1 - left) / self.rate


@dataclass(frozen=True, eq=False)
class Guard:
    """An application, guarded."""

    app: ASGIApp
    entry: AccessPolicy = AccessPolicy()
    rates: RateLimiter = field(default_factory=RateLimiter)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no web sockets here
        refusal = self._refusal(scope)
        if refusal is None and (token := self._token_from_query(scope)):
            await _redirect_with_cookie(send, token)
            return
        body = refusal or self._without_token(scope) or await _body(receive)
        if isinstance(body, Refusal):
            await _refuse(send, body)
            return
        await self.app(scope, _replay(body, receive), _with_headers(send))

    def _refusal(self, scope: Scope) -> Refusal | None:
        wait = self.rates.wait(_client(scope))
        if wait > 0:
            return Refusal(
                429,
                "too many requests; slow down.",
                {"retry-after": str(max(1, round(wait + 0.5)))},
            )
        if not self.entry.allows_host(_header(scope, b"host")):
            return Refusal(
                421, "this address is not one of the page's; use the one that was printed."
            )
        if _foreign(scope):
            return Refusal(403, "requests from other sites are refused.")
        query = scope.get("query_string", b"")
        if len(query) > MOST_QUERY or not query.isascii():
            return _refused_query(query)
        declared = _header(scope, b"content-length")
        if declared and not (declared.isdecimal() and int(declared[:20]) <= MOST_BODY):
            return _too_large()
        return None

    def _token_from_query(self, scope: Scope) -> str | None:
        """The token in the printed address, if it is right."""
        if self.entry.token is None or scope["path"] != "/" or not _reads(scope):
            return None
        query = scope.get("query_string", b"").decode("latin-1")
        token = parse_qs(query).get("token", [""])[0]
        return token if token and self.entry.knows(token) else None

    def _without_token(self, scope: Scope) -> Refusal | None:
        scheme, _, bearer = _header(scope, b"authorization").partition(" ")
        given = bearer if scheme.lower() == "bearer" else _cookie(_header(scope, b"cookie"))
        if self.entry.knows(given):
            return None
        return Refusal(
            401,
            "a token is needed; open the address that was printed.",
            {"www-authenticate": "Bearer"},
        )


async def _body(receive: Receive) -> bytes | Refusal:
    """All of a small body; nothing of a large or a slow one."""
    parts, size, more = [], 0, True
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return Refusal(400, "the request ended early.")
                parts.append(message.get("body", b""))
                size, more = size + len(parts[-1]), message.get("more_body", False)
                if size > MOST_BODY:
                    return _too_large()
    except TimeoutError:
        return Refusal(408, f"the request took longer than {BODY_SECONDS:g} s.")
    return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body again, for the application; then whatever comes."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {
                **message,
                "headers": [*message.get("headers", []), *_encoded(HEADERS.items())],
            }
        await send(message)

    return sending


async def _refuse(send: Send, refusal: Refusal) -> None:
    body = json.dumps({"error": refusal.reason}).encode()
    await _answer(
        send, refusal.status, {"content-type": "application/json", **refusal.headers}, body
    )


async def _redirect_with_cookie(send: Send, token: str) -> None:
    """Keep the token in a cookie that scripts can't read, and take it out of the address."""
    cookie = f"{COOKIE}={token}; HttpOnly; Path=/; SameSite=Strict"  # a token has letters, digits, - and _ alone
    await _answer(send, 303, {"location": "/", "set-cookie": cookie}, b"")


async def _answer(send: Send, status: int, headers: dict[str, str], body: bytes) -> None:
    told = {**HEADERS, **headers, "content-length": str(len(body))}
    await send({"type": "http.response.start", "status": status, "headers": _encoded(told.items())})
    await send({"type": "http.response.body", "body": body})


def _encoded(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]


def _refused_query(query: bytes) -> Refusal:
    if not query.isascii():
        return Refusal(400, "the address holds bytes that no address has; percent-encode them.")
    return Refusal(
        414, f"the address is too long; at most {MOST_QUERY} bytes may follow the question mark."
    )


def _too_large() -> Refusal:
    return Refusal(
        413, f"the request is too large; at most {MOST_BODY} bytes.", {"connection": "close"}
    )


def _reads(scope: Scope) -> bool:
    return scope["method"] in {"GET", "HEAD"}


def _header(scope: Scope, name: bytes) -> str:
    """One header's value; nothing if it is missing or was sent twice."""
    found = [value for key, value in scope["headers"] if key == name]
    return found[0].decode("latin-1") if len(found) == 1 else ""


def _foreign(scope: Scope) -> bool:
    """Whether a browser says that another site sent this; a link that leads here is fine."""
    site, mode = _header(scope, b"sec-fetch-site"), _header(scope, b"sec-fetch-mode")
    if site in {"cross-site", "same-site"} and not (mode == "navigate" and _reads(scope)):
        return True
    origin = _header(scope, b"origin")
    return bool(origin) and origin.partition("://")[2] != _header(scope, b"host")


def _cookie(header: str) -> str:
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""


def _client(scope: Scope) -> str:
    """The client's address; of IPv6, the network that one household or machine has."""
    host = (scope.get("client") or ("", 0))[0]
    return ":".join(host.split(":")[:4]) if ":" in host else host


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
