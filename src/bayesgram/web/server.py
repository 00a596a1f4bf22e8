"""Bind, say who may come in, and run until somebody stops it. Does not build the page: see `api`."""

import ipaddress
import secrets
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from errno import EACCES, EADDRINUSE, EADDRNOTAVAIL

import uvicorn

from bayesgram.errors import Argument, BayesgramError, UsageError
from bayesgram.web.guard import LOOPBACK_NAMES, AccessPolicy, Guard

MOST_CONNECTIONS = 512
SHORTEST_TOKEN = 16
EVERYWHERE = {"0.0.0.0", "::"}  # noqa: S104 - to tell that it was asked for


@dataclass(frozen=True, eq=False)
class Address:
    """Where the page listens, and who may come in."""

    listening: socket.socket
    host: str  # as it was asked for
    entry: AccessPolicy

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return ipaddress.ip_address(self.listening.getsockname()[0].partition("%")[0]).is_loopback

    @property
    def address(self) -> str:
        """For a browser; with the token, where there is one."""
        host = socket.gethostname() if self.host in EVERYWHERE else self.host
        shown = f"[{host}]" if ":" in host else host
        token = f"?token={self.entry.token}" if self.entry.token else ""
        return f"http://{shown}:{self.listening.getsockname()[1]}/{token}"


def open_address(host: str, port: int, token: str | None) -> Address:
    """Take the port, before any slow work; an address beyond this machine gets a token if none was given."""
    if token is not None and not (
        SHORTEST_TOKEN <= len(token) <= 200 and token.isascii() and _plain(token)
    ):
        raise UsageError(
            f"token: give {SHORTEST_TOKEN} to 200 letters, digits, - or _; leave it out to have one made."
        )
    listening = _listen(host, port)
    address = Address(listening, host, AccessPolicy(token=token))
    if address.loopback:
        names = LOOPBACK_NAMES | {_bracketed(host).lower()}
        return Address(listening, host, AccessPolicy(names, any_address=False, token=token))
    names = LOOPBACK_NAMES | {_bracketed(host).lower(), socket.gethostname().lower()}
    return Address(
        listening,
        host,
        AccessPolicy(names, any_address=True, token=token or secrets.token_urlsafe(24)),
    )


def _plain(token: str) -> bool:
    return token.replace("-", "").replace("_", "").isalnum()


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise UsageError.for_argument(
            "port", port, "give a number from 1 to 65535, or 0 for any free one."
        )
    try:
        family, _, _, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(where[:2], family=family, backlog=256)
    except (socket.gaierror, UnicodeError):
        raise UsageError.for_argument(
            "host", repr(host), "no such address; give 127.0.0.1, or an address of this machine."
        ) from None
    except OSError as error:
        raise _why(error, host, port) from None


def _why(error: OSError, host: str, port: int) -> BayesgramError:
    if error.errno == EADDRINUSE:
        return BayesgramError.for_argument(
            "port",
            port,
            "something else uses it; give another ",
            Argument("port"),
            ", or 0 for any free one.",
        )
    if error.errno == EACCES:
        return UsageError.for_argument(
            "port", port, "not allowed; give a ", Argument("port"), " from 1024 to 65535."
        )
    if error.errno == EADDRNOTAVAIL:
        return UsageError.for_argument(
            "host", repr(host), "not an address of this machine; give 127.0.0.1, or one of its own."
        )
    return BayesgramError(
        Argument("host", repr(host)), ", ", Argument("port", str(port)), f": {error.strerror}."
    )


def run(guard: Guard, address: Address, *, ready: Callable[[], None]) -> None:
    """Serve until Ctrl-C or SIGTERM; `ready` is called when both would be obeyed."""
    config = uvicorn.Config(
        guard,
        log_config=None,  # nothing that people type is logged
        log_level="critical",
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=16_384,
        http="h11",
        ws="none",
        lifespan="off",
    )
    server = uvicorn.Server(config)
    with _signals_end_quietly(server):
        ready()
        server.run(sockets=[address.listening])


@contextmanager
def _signals_end_quietly(server: uvicorn.Server) -> Iterator[None]:
    """Also before Uvicorn listens to signals, and after: it raises them again when it has obeyed."""

    def leave(_number: int, _frame: object) -> None:
        server.should_exit = True

    before = {number: signal.signal(number, leave) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
