"""Checks every request before the application sees it, and adds headers to every answer.

- Another site can't use a visitor's browser to read this page: the Host header must name this
  machine (which stops DNS rebinding), and a request from another origin is refused.
- From beyond this machine, a token is needed: in a cookie, which the printed address sets, or as a
  bearer token.
- Bodies, addresses and rates are limited. Errors are short JSON; they never repeat what was sent.

Does not encrypt: for that, put the page behind a proxy or a tunnel.
"""

import asyncio
import hmac
import ipaddress
import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from time import monotonic
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Limits, far above what the page itself asks for. Chosen by hand; none of them was measured.
MAX_BODY_BYTES = 16_384
MAX_QUERY_BYTES = 2_048  # of the address, after the question mark
BODY_TIMEOUT = 10.0  # seconds within which a body must arrive
REQUESTS_PER_SECOND = 250.0  # of one client, in the long run
BURST = 500.0  # requests of one client at once
MAX_CLIENTS = 4_096  # whose rates are remembered

COOKIE = "bayesgram_token"
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
        " img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
        " require-trusted-types-for 'script'"
    ),
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
    """Which requests are answered.

    Attributes:
        names: The names of this machine that a Host header may have, without a port.
        any_address: Whether a Host header may also be any IP address. An address can't be rebound
            to another machine, as a name can.
        token: What a visitor must know; None if nothing.
    """

    names: frozenset[str] = LOOPBACK_NAMES
    any_address: bool = False
    token: str | None = None

    def allows_host(self, host: str) -> bool:
        """Whether a Host header names this machine.

        >>> local = AccessPolicy()
        >>> local.allows_host("localhost:8765"), local.allows_host("evil.example")
        (True, False)
        >>> AccessPolicy(any_address=True).allows_host("10.0.0.7")
        True
        """
        before, _, port = host.rpartition(":")
        name = before if port.isdecimal() else host
        return name.lower() in self.names or (self.any_address and _is_address(name))

    def accepts_token(self, token: str) -> bool:
        """Whether the token is right, in a time that does not depend on how much of it is."""
        return self.token is None or hmac.compare_digest(token.encode(), self.token.encode())


@dataclass
class RateLimiter:
    """Limits the requests of each client (a token bucket).

    Attributes:
        rate: Requests that a client may make in a second, in the long run.
        burst: Requests that a client may make at once.
        clock: Returns the time in seconds.
    """

    rate: float = REQUESTS_PER_SECOND
    burst: float = BURST
    clock: Callable[[], float] = monotonic
    _buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def wait(self, client: str) -> float:
        """Count a request; return 0 if it may be answered, else the seconds to wait."""
        now = self.clock()
        requests_left, since = self._buckets.pop(client, (self.burst, now))
        requests_left = min(self.burst, requests_left + (now - since) * self.rate)
        is_allowed = requests_left >= 1
        self._buckets[client] = (requests_left - is_allowed, now)
        if len(self._buckets) > MAX_CLIENTS:
            self._buckets.popitem(last=False)  # the one that has not asked for longest
        return 0.0 if is_allowed else (1 - requests_left) / self.rate


@dataclass(frozen=True, eq=False)
class Guard:
    """An ASGI application that answers only the requests that the policy and the rates allow."""

    app: ASGIApp
    policy: AccessPolicy = AccessPolicy()
    rates: RateLimiter = field(default_factory=RateLimiter)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no web sockets here
        refusal = self._check_request(scope)
        if refusal is None and (token := self._token_from_query(scope)):
            await _redirect_with_cookie(send, token)
            return
        body = refusal or self._check_token(scope) or await _read_body(receive)
        if isinstance(body, Refusal):
            await _refuse(send, body)
            return
        await self.app(scope, _replay(body, receive), _with_headers(send))

    def _check_request(self, scope: Scope) -> Refusal | None:
        """Return why a request is refused whoever sends it, None if it is not."""
        wait = self.rates.wait(_client(scope))
        if wait > 0:
            return Refusal(
                429,
                "too many requests; slow down.",
                {"retry-after": str(max(1, round(wait + 0.5)))},
            )
        if not self.policy.allows_host(_header(scope, b"host")):
            return Refusal(
                421, "this address is not one of the page's; use the one that was printed."
            )
        if _is_cross_site(scope):
            return Refusal(403, "requests from other sites are refused.")
        query = scope.get("query_string", b"")
        if len(query) > MAX_QUERY_BYTES or not query.isascii():
            return _refuse_query(query)
        declared = _header(scope, b"content-length")
        if declared and not (declared.isdecimal() and int(declared[:20]) <= MAX_BODY_BYTES):
            return _too_large()
        return None

    def _token_from_query(self, scope: Scope) -> str | None:
        """Return the token of the printed address, if it is right."""
        if self.policy.token is None or scope["path"] != "/" or not _is_read(scope):
            return None
        query = scope.get("query_string", b"").decode("latin-1")
        token = parse_qs(query).get("token", [""])[0]
        return token if token and self.policy.accepts_token(token) else None

    def _check_token(self, scope: Scope) -> Refusal | None:
        """Return the refusal of a request without the token, None if it has it."""
        scheme, _, bearer = _header(scope, b"authorization").partition(" ")
        is_bearer = scheme.lower() == "bearer"
        token = bearer if is_bearer else _token_from_cookie(_header(scope, b"cookie"))
        if self.policy.accepts_token(token):
            return None
        return Refusal(
            401,
            "a token is needed; open the address that was printed.",
            {"www-authenticate": "Bearer"},
        )


async def _read_body(receive: Receive) -> bytes | Refusal:
    """Read all of a small body; refuse a large or a slow one."""
    parts: list[bytes] = []
    size = 0
    has_more = True
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            while has_more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return Refusal(400, "the request ended early.")
                part = message.get("body", b"")
                parts.append(part)
                size += len(part)
                has_more = message.get("more_body", False)
                if size > MAX_BODY_BYTES:
                    return _too_large()
    except TimeoutError:
        return Refusal(408, f"the request took longer than {BODY_TIMEOUT:g} s.")
    return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that hands over the body once more, and then what else comes."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return waiting.pop() if waiting else await receive()

    return receive_again


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", []), *_encode_headers(HEADERS)]
            message = {**message, "headers": headers}
        await send(message)

    return send_with_headers


async def _refuse(send: Send, refusal: Refusal) -> None:
    body = json.dumps({"error": refusal.reason}).encode()
    await _send_response(
        send, refusal.status, {"content-type": "application/json", **refusal.headers}, body
    )


async def _redirect_with_cookie(send: Send, token: str) -> None:
    """Keep the token in a cookie that scripts can't read, and take it out of the address."""
    # A token has letters, digits, - and _ alone (server.open_address): nothing to escape.
    cookie = f"{COOKIE}={token}; HttpOnly; Path=/; SameSite=Strict"
    await _send_response(send, 303, {"location": "/", "set-cookie": cookie}, b"")


async def _send_response(send: Send, status: int, headers: dict[str, str], body: bytes) -> None:
    encoded = _encode_headers({**HEADERS, **headers, "content-length": str(len(body))})
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


def _encode_headers(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


def _refuse_query(query: bytes) -> Refusal:
    if not query.isascii():
        return Refusal(400, "the address holds bytes that no address has; percent-encode them.")
    return Refusal(
        414,
        f"the address is too long; at most {MAX_QUERY_BYTES} bytes may follow the question mark.",
    )


def _too_large() -> Refusal:
    return Refusal(
        413, f"the request is too large; at most {MAX_BODY_BYTES} bytes.", {"connection": "close"}
    )


def _is_read(scope: Scope) -> bool:
    return scope["method"] in {"GET", "HEAD"}


def _header(scope: Scope, name: bytes) -> str:
    """Return the value of a header; nothing if it is missing or was sent twice."""
    values = [value for key, value in scope["headers"] if key == name]
    return values[0].decode("latin-1") if len(values) == 1 else ""


def _is_cross_site(scope: Scope) -> bool:
    """Whether a browser says that another site sent this; a link that leads here is fine."""
    site = _header(scope, b"sec-fetch-site")
    mode = _header(scope, b"sec-fetch-mode")
    if site in {"cross-site", "same-site"} and not (mode == "navigate" and _is_read(scope)):
        return True
    origin = _header(scope, b"origin")
    return bool(origin) and origin.partition("://")[2] != _header(scope, b"host")


def _token_from_cookie(header: str) -> str:
    try:
        cookie = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return ""
    return cookie.value if cookie else ""


def _client(scope: Scope) -> str:
    """Return the client's address; of IPv6, the network that one household or machine has."""
    host = (scope.get("client") or ("", 0))[0]
    return ":".join(host.split(":")[:4]) if ":" in host else host


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
