"""The HTTP client against raw sockets that answer garbage, cut, hang, or refuse."""

import socket
import threading
from collections.abc import Callable
from decimal import Decimal

import pytest

from providers.base import Gone, NoCapacity, ProviderError, Refused, Unavailable, Uncertain
from providers.clock import RealClock
from providers.http import Http, HttpLimits
from tests.services import free_port, raw_server

KEY = "sk-very/secret+key"
LATER = 2**60
QUICK = HttpLimits(connect_s=2, read_s=0.3, total_s=0.6, patience_s=1, size=10_000)


class NoWait(RealClock):
    """Remembers how long it was told to sleep, and does not."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.instant = 0

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def now(self) -> int:
        return self.instant


class Half:
    """The middle of all chance."""

    def random(self) -> float:
        return 0.5


def http(port: int, clock: RealClock | None = None) -> Http:
    """A client with short limits and a key."""
    return Http(
        "far", f"http://127.0.0.1:{port}", lambda: {"Authorization": f"Bearer {KEY}"}, clock or NoWait(), Half(), QUICK
    )


def answering(*answers: bytes) -> Callable[[socket.socket], None]:
    """One answer per connection, the last one again and again, and then the connection ends."""
    left = list(answers)
    lock = threading.Lock()

    def answer(connection: socket.socket) -> None:
        read_request(connection)
        with lock:
            piece = left.pop(0) if len(left) > 1 else left[0]
        connection.sendall(piece)
        connection.shutdown(socket.SHUT_RDWR)
        connection.close()

    return answer


def read_request(connection: socket.socket) -> bytes:
    """Headers and body."""
    got = b""
    while b"\r\n\r\n" not in got:
        got += connection.recv(65536)
    head, _, body = got.partition(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            while len(body) < int(line.split(b":")[1]):
                body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def reply(status: str, body: bytes = b"", *headers: str) -> bytes:
    """A whole answer."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


GARBAGE = {
    "html": reply("200 OK", b"<html><body>Welcome to nginx</body></html>", "Content-Type: text/html"),
    "plain": reply("200 OK", b"Too many requests"),
    "empty": reply("200 OK"),
    "null": reply("200 OK", b"null"),
    "truncated": reply("200 OK", b'{"machines": [{"id": "a"'),
    "cut": b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"machines": []}',
    "no http": b"SSH-2.0-OpenSSH_9.2\r\n",
    "nothing": b"",
    "deep": reply("200 OK", b"[" * 5000),
    "not utf-8": reply("200 OK", b'{"a": "\xff\xfe"}'),
    "too large": reply("200 OK", b'"' + b"x" * 20_000 + b'"'),
    "error 500": reply("500 Oops", b"internal error"),
    "error 502": reply("502 Bad Gateway", b"<html>bad gateway</html>"),
    "redirect": reply("302 Found", b"", "Location: http://192.0.2.1/"),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_on_a_read_is_unavailable(name):
    """Whatever a read is answered with that is no JSON: Unavailable."""
    with raw_server(answering(GARBAGE[name])) as server, pytest.raises(Unavailable) as caught:
        http(server.port).read("/machines")
    assert "far: GET /machines: " in str(caught.value)


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_on_a_create_is_uncertain_and_sent_once(name):
    """A create that was sent and not well answered may have been done; it is never sent again."""
    with raw_server(answering(GARBAGE[name])) as server:
        with pytest.raises(Uncertain):
            http(server.port).create("/machines", {"a": 1}, LATER)
        assert server.count == 1


def test_the_start_of_the_body_is_in_the_text():
    """What came instead of JSON is shown, in one line."""
    body = reply("200 OK", b"Sorry,\nplease call us\x00")
    with raw_server(answering(body)) as server, pytest.raises(Unavailable, match="Sorry, please call us"):
        http(server.port).read("/x")


@pytest.mark.parametrize(
    ("status", "kind"),
    [("401 No", Refused), ("403 No", Refused), ("402 Pay", Refused), ("404 No", Gone), ("400 No", Refused),
     ("422 No", Refused), ("409 Full", NoCapacity), ("429 Slow", Unavailable)],
)  # fmt: skip
@pytest.mark.parametrize("create", [True, False])
def test_each_status_is_one_of_the_five_errors(status, kind, create):
    """A status says what the caller can do; 402 names the balance."""
    with raw_server(answering(reply(status, b"because"))) as server, pytest.raises(ProviderError) as caught:
        if create:
            http(server.port).create("/m", {}, LATER, {409: NoCapacity})
        else:
            http(server.port).read("/m", errors={409: NoCapacity})
    assert type(caught.value) is kind
    assert "because" in str(caught.value)
    if isinstance(caught.value, Refused):
        assert caught.value.balance == (status == "402 Pay")


def test_the_key_is_never_shown():
    """A server that repeats our key in its error, plain or encoded, does not get it into the text."""
    body = f"bad key {KEY} or sk-very%2Fsecret%2Bkey; Authorization: Bearer abcdefghijkl".encode()
    with raw_server(answering(reply("403 No", body))) as server, pytest.raises(Refused) as caught:
        http(server.port).read("/m")
    for secret in (KEY, "sk-very%2Fsecret%2Bkey", "abcdefghijkl"):
        assert secret not in str(caught.value)
    assert KEY not in repr(caught.value.__cause__)


def test_numbers_are_exact():
    """Figures with a point are decimals, NaN is no surprise."""
    with raw_server(answering(reply("200 OK", b'{"a": 0.1, "b": NaN}'))) as server:
        value = http(server.port).read("/m")
    assert value["a"] == Decimal("0.1")
    assert value["b"].is_nan()


def test_refused_connections_are_tried_again_then_unavailable():
    """Nothing was sent: three tries with growing waits, for a create too."""
    clock = NoWait()
    with pytest.raises(Unavailable):
        http(free_port(), clock).create("/m", {}, LATER)
    assert clock.slept == [0.25, 0.5]


def test_a_read_waits_a_little_when_told_to():
    """429 and 503 with a short Retry-After are asked again after it, with jitter."""
    clock = NoWait()
    slow, busy = reply("429 Slow", b"", "Retry-After: 1"), reply("503 Busy", b"", "Retry-After: 0.5")
    with raw_server(answering(slow, busy, reply("200 OK", b"[1]"))) as server:
        assert http(server.port, clock).read("/m") == [1]
    assert clock.slept == [1.25, 0.625]


def test_a_long_retry_after_is_handed_on():
    """A wait beyond our patience is the caller's to plan."""
    with raw_server(answering(reply("429 Slow", b"", "Retry-After: 90"))) as server:
        with pytest.raises(Unavailable) as caught:
            http(server.port).read("/m")
        assert server.count == 1
    assert caught.value.retry_after_s == 90


def test_a_create_is_not_repeated_on_429():
    """A create that was told to wait goes back to its step."""
    with raw_server(answering(reply("429 Slow", b"", "Retry-After: 1"))) as server:
        with pytest.raises(Unavailable):
            http(server.port).create("/m", {}, LATER)
        assert server.count == 1


def silent(connection: socket.socket) -> None:
    """Read and never answer."""
    while connection.recv(65536):
        pass


def test_silence_is_bounded():
    """No answer: a read is Unavailable, a create Uncertain, each asked once."""
    with raw_server(silent) as server:
        with pytest.raises(Unavailable):
            http(server.port).read("/m")
        with pytest.raises(Uncertain):
            http(server.port).create("/m", {}, LATER)
        assert server.count == 2


def test_a_dripping_answer_is_bounded():
    """Bytes that keep dripping in do not hold a call beyond its total limit."""

    def drip(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n")
        while True:
            connection.sendall(b" ")
            threading.Event().wait(0.05)

    with raw_server(drip) as server, pytest.raises(Unavailable, match="took longer"):
        http(server.port).read("/m")


def test_nothing_is_written_after_send_by():
    """A create whose time passes while the connection is being made leaves no byte on the wire."""
    got = []

    def listen(connection: socket.socket) -> None:
        got.append(connection.recv(65536))

    clock = NoWait()
    clock.instant = 1000
    with raw_server(listen) as server:
        with pytest.raises(Unavailable, match="its time had passed"):
            http(server.port, clock).create("/m", {}, send_by=999)
        assert server.count <= 1
    assert [piece for piece in got if piece] == []


def test_no_proxy_is_ever_asked(monkeypatch):
    """Proxy variables of the environment do not get to see keys."""
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    with raw_server(answering(reply("200 OK", b"[]"))) as server:
        assert http(server.port).read("/m") == []


def test_a_delete_believes_any_good_status():
    """A human sentence instead of JSON is good enough for a delete; 404 is Gone."""
    with raw_server(answering(reply("200 OK", b"destroying instance 7."), reply("404 No", b""))) as server:
        client = http(server.port)
        client.delete("/m/7")
        with pytest.raises(Gone):
            client.delete("/m/7")
