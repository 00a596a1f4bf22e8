"""Who may ask, how much and how often."""

import asyncio

import pytest

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.web import guard as guards
from bayesgram.web.api import build
from bayesgram.web.guard import BURST, MAX_BODY_BYTES, AccessPolicy, Guard, RateLimiter
from bayesgram.web.server import open_address
from helpers.web_catalogue import make_catalogue, make_client

TOKEN = "a-token-for-the-tests"


@pytest.fixture(scope="module")
def ask():
    return make_client(rates=RateLimiter(rate=1e9, burst=1e9))


@pytest.fixture(scope="module")
def ask_with_token():
    return make_client(
        policy=AccessPolicy(any_address=True, token=TOKEN), rates=RateLimiter(rate=1e9, burst=1e9)
    )


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "localhost:99", "[::1]", "[::1]:8765", "LOCALHOST:1"]
)
def test_this_machine_by_its_names(ask, host):
    assert ask("/api/about", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8765",
        "127.0.0.1.evil.example",
        "",
        "10.0.0.7",
        "localhost:x",
        "a:b:c",
    ],
)
def test_foreign_names_are_refused(ask, host):
    """DNS rebinding: a name of somebody else that leads here."""
    answer = ask("/api/about", headers={"host": host})
    assert answer.status_code == 421
    assert host == "" or host not in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
    ],
)
def test_other_sites_are_refused(ask, headers):
    assert ask("/api/predict", {"text": "a"}, headers=headers).status_code == 403


def test_the_page_itself_and_links_to_it_are_fine(ask):
    own = {"origin": "http://127.0.0.1:8765", "sec-fetch-site": "same-origin"}
    assert ask("/api/predict", {"text": "a"}, headers=own).status_code == 200
    assert (
        ask("/", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}).status_code
        == 200
    )


def test_a_token_opens_by_bearer_or_cookie(ask_with_token):
    assert ask_with_token("/").status_code == 401
    assert ask_with_token("/api/about").json() == {
        "error": "a token is needed; open the address that was printed."
    }
    assert (
        ask_with_token("/api/about", headers={"authorization": f"Bearer {TOKEN}"}).status_code
        == 200
    )
    assert (
        ask_with_token("/api/about", headers={"cookie": f"bayesgram_token={TOKEN}"}).status_code
        == 200
    )
    for wrong in (
        {"authorization": "Bearer x"},
        {"cookie": "bayesgram_token=é"},
        {"cookie": "\x01=;;"},
        {"authorization": TOKEN},
    ):
        sent = {name: value.encode("latin-1") for name, value in wrong.items()}
        assert ask_with_token("/api/about", headers=sent).status_code == 401


def test_the_printed_address_sets_the_cookie_and_forgets_the_token(ask_with_token):
    answer = ask_with_token(f"/?token={TOKEN}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert (
        answer.headers["set-cookie"]
        == f"bayesgram_token={TOKEN}; HttpOnly; Path=/; SameSite=Strict"
    )
    assert ask_with_token("/?token=wrong-token-altogether").status_code == 401
    assert ask_with_token(f"/api/about?token={TOKEN}").status_code == 401


def test_large_requests_are_refused(ask):
    assert ask("/api/predict", content=b"x" * (MAX_BODY_BYTES + 1)).status_code == 413
    assert (
        ask(
            "/api/predict", method="POST", headers={"content-length": "9" * 30}, content=b""
        ).status_code
        == 413
    )
    assert (
        ask(
            "/api/predict", method="POST", headers={"content-length": "-1"}, content=b""
        ).status_code
        == 413
    )
    assert ask(f"/api/ngrams?text={'a' * 2100}").status_code == 414


def test_a_body_in_parts_is_counted(ask):
    async def parts():
        for _ in range(3):
            yield b"x" * (MAX_BODY_BYTES // 2)

    assert ask("/api/predict", content=parts(), method="POST").status_code == 413


def test_a_slow_body_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(guards, "BODY_TIMEOUT", 0.02)
    sent = []

    async def never():
        await asyncio.sleep(10)

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "headers": [(b"host", b"localhost")],
        "client": ("1.2.3.4", 1),
    }
    asyncio.run(Guard(None)(scope, never, send))
    assert sent[0]["status"] == 408


def test_rates_are_limited_and_recover():
    now = [0.0]
    rates = RateLimiter(rate=10, burst=3, clock=lambda: now[0])
    assert [rates.wait("a") for _ in range(3)] == [0, 0, 0]
    assert rates.wait("a") == pytest.approx(0.1)
    assert rates.wait("b") == 0
    now[0] = 0.11
    assert rates.wait("a") == 0


def test_too_fast_says_when_to_come_back():
    ask = make_client(rates=RateLimiter(rate=0.5, burst=1, clock=lambda: 0.0))
    assert ask("/api/about").status_code == 200
    answer = ask("/api/about")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")


def test_clients_are_forgotten_in_the_end(monkeypatch):
    monkeypatch.setattr(guards, "MAX_CLIENTS", 10)
    rates = RateLimiter()
    for client in range(100):
        rates.wait(str(client))
    assert len(rates._buckets) == 10
    assert BURST >= 100


def test_one_network_of_ipv6_is_one_client():
    assert guards._client({"client": ("2001:db8:1:2:3:4:5:6", 1)}) == guards._client(
        {"client": ("2001:db8:1:2:9::1", 1)}
    )


def test_sockets_of_other_kinds_are_not_answered():
    asyncio.run(Guard(None)({"type": "websocket"}, None, None))


def test_loopback_needs_no_token_and_admits_nobody_else():
    place = open_address("127.0.0.1", 0, None)
    with place.listening:
        assert place.is_loopback
        assert place.policy.token is None
        assert not place.policy.allows_host("10.0.0.7")
        assert place.url.startswith("http://127.0.0.1:")


def test_beyond_this_machine_a_token_is_made():
    place = open_address("0.0.0.0", 0, None)
    with place.listening:
        assert not place.is_loopback
        assert len(place.policy.token) >= 32
        assert place.url.endswith(f"/?token={place.policy.token}")
        assert place.policy.allows_host("10.0.0.7:8765")
        assert not place.policy.allows_host("evil.example")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("127.0.0.1", 70000, None),
            "port=70000: give a number from 1 to 65535, or 0 for any free one.",
        ),
        (
            ("no such host", 0, None),
            "host='no such host': no such address; give 127.0.0.1, or an address of this machine.",
        ),
        (
            ("203.0.113.9", 0, None),
            "host='203.0.113.9': not an address of this machine; give 127.0.0.1, or one of its own.",
        ),
        (
            ("127.0.0.1", 0, "short"),
            "token: give 16 to 200 letters, digits, - or _; leave it out to have one made.",
        ),
        (("127.0.0.1", 0, "with spaces and such"), "token: give 16 to 200 letters"),
    ],
)
def test_places_that_can_not_be(arguments, words):
    with pytest.raises(UsageError, match="^" + words.replace("(", r"\(")):
        open_address(*arguments)


def test_a_busy_port_is_one_sentence():
    place = open_address("127.0.0.1", 0, None)
    with place.listening:
        port = place.listening.getsockname()[1]
        with pytest.raises(
            BayesgramError, match=f"^port={port}: something else uses it; give another `port`, or 0"
        ):
            open_address("127.0.0.1", port, None)


def test_an_address_with_bytes_that_no_address_has_is_refused():
    """A redirect would fail on them: found by `make fuzz`."""
    answers = []

    async def send(message):
        answers.append(message)

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/api/about/",
        "raw_path": b"/api/about/",
        "root_path": "",
        "scheme": "http",
        "query_string": b"prefix=\xf4x",
        "headers": [(b"host", b"127.0.0.1")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    asyncio.run(build(make_catalogue(), AccessPolicy())(scope, receive, send))
    assert answers[0]["status"] == 400
