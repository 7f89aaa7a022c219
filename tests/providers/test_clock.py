"""The cloud's clock as other processes take it."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from jobs.errors import Unanswered
from providers.clock import CloudClock
from tests.services import free_port, wait_until

NOON = 1_772_366_400_000_000


class Told(ThreadingHTTPServer):
    """Answers with `body`, and counts."""

    body = b""
    asked = 0


class Answers(BaseHTTPRequestHandler):
    server: Told

    def do_GET(self) -> None:
        self.server.asked += 1
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def cloud() -> Iterator[Told]:
    """Something that tells the time."""
    server = Told(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    tell(server, "12:00:00.000000", 0)
    yield server
    server.shutdown()
    server.server_close()


def tell(server: Told, time: str, speed: float) -> None:
    """Let the cloud's clock say this."""
    server.body = json.dumps({"now": f"2026-03-01T{time}Z", "speed": speed}).encode()


def clock_of(server: Told) -> CloudClock:
    """A clock that asks this server."""
    return CloudClock(f"http://127.0.0.1:{server.server_address[1]}/_cloud/clock")


def test_a_standing_clock_is_followed_step_by_step(cloud):
    """At speed 0 nothing moves between two steps, and a step is seen."""
    clock = clock_of(cloud)
    assert [clock.now(), clock.now()] == [NOON, NOON]
    tell(cloud, "12:00:01.000001", 0)
    wait_until(lambda: clock.now() == NOON + 1_000_001, "the step is seen")


def test_a_running_clock_is_asked_seldom(cloud):
    """At speed 1000 time goes on between two answers without a request for each look."""
    tell(cloud, "12:00:00.000000", 1000)
    clock = clock_of(cloud)
    first = clock.now()
    wait_until(lambda: clock.now() > first + 1_000_000, "a second of the cloud has passed")
    assert cloud.asked <= 2


def test_time_never_goes_back(cloud):
    """A clock that is set back stands until it is reached again."""
    clock = clock_of(cloud)
    clock.now()
    tell(cloud, "11:00:00.000000", 0)
    asked = cloud.asked

    def asked_again() -> bool:
        assert clock.now() == NOON
        return cloud.asked > asked

    wait_until(asked_again, "it is asked again")


@pytest.mark.parametrize("body", [b"", b"null", b"{}", b'{"now": "soon", "speed": 1}', b'{"now": 7, "speed": null}'])
def test_garbage_keeps_the_last_offset(cloud, body):
    """A cloud that answers nonsense, or is gone, leaves the clock as it was."""
    clock = clock_of(cloud)
    assert clock.now() == NOON
    cloud.body = body
    asked = cloud.asked
    wait_until(lambda: clock.now() == NOON and cloud.asked > asked, "it is asked again")


def test_without_any_answer_there_is_no_time():
    """A clock that never answered is an error, not the computer's own time."""
    with pytest.raises(Unanswered, match="does not answer"):
        CloudClock(f"http://127.0.0.1:{free_port()}/_cloud/clock").now()
