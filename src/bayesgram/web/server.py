"""Opens the port, decides which requests are allowed, and serves until somebody stops it.

Does not build the page: see `api`.
"""

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

# Limits, chosen by hand; none of them was measured.
MAX_CONNECTIONS = 512  # at the same time
MIN_TOKEN_LENGTH = 16  # characters: 95 bits, where they are random
MAX_TOKEN_LENGTH = 200
KEEP_ALIVE_SECONDS = 15
SHUTDOWN_SECONDS = 2  # within which open requests may finish
MAX_HEADER_BYTES = 16_384  # of the first line and all headers

EVERYWHERE = {"0.0.0.0", "::"}  # noqa: S104 - recognised, not bound by default


@dataclass(frozen=True, eq=False)
class Address:
    """Where the page listens, and which requests are allowed.

    Attributes:
        listening: The open socket.
        host: The host as it was asked for, a name or an address.
        policy: Which requests are answered.
    """

    listening: socket.socket
    host: str
    policy: AccessPolicy

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return ipaddress.ip_address(self.listening.getsockname()[0].partition("%")[0]).is_loopback

    @property
    def url(self) -> str:
        """The address for a browser, with the token where there is one."""
        host = socket.gethostname() if self.host in EVERYWHERE else self.host
        token = f"?token={self.policy.token}" if self.policy.token else ""
        return f"http://{_host_in_url(host)}:{self.listening.getsockname()[1]}/{token}"


def open_address(host: str, port: int, token: str | None) -> Address:
    """Listen on a port, before any slow work, and decide which requests are allowed.

    Args:
        host: A name or an address of this machine.
        port: The port; 0 takes any free one.
        token: What a visitor must know. If none is given, an address that other machines can reach
            gets a random one.

    Raises:
        UsageError: If the token or the address can't be used.
        BayesgramError: If the port is taken.
    """
    if token is not None and not _is_valid_token(token):
        raise UsageError(
            f"token: give {MIN_TOKEN_LENGTH} to {MAX_TOKEN_LENGTH} letters, digits, - or _; leave"
            " it out to have one made."
        )
    listening = _listen(host, port)
    names = LOOPBACK_NAMES | {_host_in_url(host).lower()}
    address = Address(listening, host, AccessPolicy(names, token=token))
    if address.is_loopback:
        return address
    policy = AccessPolicy(
        names | {socket.gethostname().lower()},
        any_address=True,
        token=token or secrets.token_urlsafe(24),
    )
    return Address(listening, host, policy)


def _is_valid_token(token: str) -> bool:
    is_plain = token.isascii() and token.replace("-", "").replace("_", "").isalnum()
    return is_plain and MIN_TOKEN_LENGTH <= len(token) <= MAX_TOKEN_LENGTH


def _host_in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise UsageError.for_argument(
            "port", port, "give a number from 1 to 65535, or 0 for any free one."
        )
    try:
        family, _, _, _, socket_address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(socket_address[:2], family=family, backlog=256)
    except (socket.gaierror, UnicodeError):
        raise UsageError.for_argument(
            "host", repr(host), "no such address; give 127.0.0.1, or an address of this machine."
        ) from None
    except OSError as error:
        raise _explain_failure(error, host, port) from None


def _explain_failure(error: OSError, host: str, port: int) -> BayesgramError:
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
    """Serve until Ctrl-C or SIGTERM.

    Args:
        guard: The application, behind its checks.
        address: Where to listen.
        ready: Called when both signals would be obeyed, just before requests are answered.
    """
    config = uvicorn.Config(
        guard,
        log_config=None,  # nothing that people type is logged
        log_level="critical",
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
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
    """Stop the server at a signal, also before Uvicorn listens to signals and after.

    Uvicorn raises a signal again when it has obeyed it, which would end the process with an error.
    """

    def stop(_number: int, _frame: object) -> None:
        server.should_exit = True

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
