"""`gpupoor cloud`: the simulated cloud as a process that speaks HTTP on loopback.

The control API is under `/_cloud`, each face under its own prefix. The process may die at any moment
(kill -9): its state is on disk, its machines live on, and the next one on the same folder takes them up.
"""

import json
import signal
import socket
import struct
import sys
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import yaml

from jobs.errors import GpupoorError, Usage
from providers.clock import RealClock
from providers.simulator import control
from providers.simulator.cloud import Cloud, Silence, tick
from providers.simulator.cloud_clock import CloudClock
from providers.simulator.default_market import DEFAULT_MARKET
from providers.simulator.face import Answer, Face, Request
from providers.simulator.face_mock import MockFace
from providers.simulator.faults import read_rules
from providers.simulator.hosting import Hosts
from providers.simulator.state_file import FolderHeldError, StateFile

CLOCK_FILE: Final = "clock"
BODY_LIMIT: Final = 16_000_000


class CloudServer(ThreadingHTTPServer):
    """One listening socket for one cloud; a thread for each connection."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, port: int, cloud: Cloud) -> None:
        self.cloud = cloud
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def url(self) -> str:
        """The cloud's root."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hung up is nobody's error; anything else is told on stderr."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    server: CloudServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        request = self._read()
        if request is None:
            return
        answer: Answer | Silence
        face = self._face(request.path)
        if face is not None:
            answer = self.server.cloud.answer(face, request)
        elif request.path == control.PREFIX or request.path.startswith(control.PREFIX + "/"):
            answer = control.answer(self.server.cloud, request)
        else:
            answer = Answer(404, {"error": f"there is nothing at {request.path}"})
        if isinstance(answer, Answer):
            self._send(answer)
        else:
            self._be_silent(answer)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815

    def _face(self, path: str) -> Face | None:
        for face in self.server.cloud.faces:
            if path == face.prefix or path.startswith(face.prefix + "/"):
                return face
        return None

    def _read(self) -> Request | None:
        try:
            length = int(self.headers.get("Content-Length") or 0)
        except ValueError:
            length = -1
        if not 0 <= length <= BODY_LIMIT:
            self.close_connection = True
            self._send(Answer(413, {"error": "the body is too long, or its length is none"}))
            return None
        url = urlsplit(self.path)
        return Request(
            method=self.command,
            path=url.path,
            query=dict(parse_qsl(url.query, keep_blank_values=True)),
            headers={name.lower(): value for name, value in self.headers.items()},
            body=self.rfile.read(length),
        )

    def _send(self, answer: Answer) -> None:
        body = str(answer.body) if answer.raw else json.dumps(answer.body)
        kind = "application/json" if not answer.raw else "text/html" if body.lstrip()[:1] == "<" else "text/plain"
        data = body.encode("utf-8", "surrogatepass")
        names = {name.lower() for name in answer.headers}
        self.send_response(answer.status)
        if "content-type" not in names:
            self.send_header("Content-Type", kind)
        if "content-length" not in names:
            self.send_header("Content-Length", str(len(data)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        head = b"".join(self._headers_buffer) + b"\r\n"
        self._headers_buffer: list[bytes] = []
        # In one write: a body in a packet of its own waits for the client's delayed acknowledgement.
        self.wfile.write(head + (b"" if answer.status in (204, 304) else data))

    def _be_silent(self, silence: Silence) -> None:
        self.close_connection = True
        if silence is Silence.HUNG:
            while self.connection.recv(4096):
                continue
        elif silence is Silence.REFUSED:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        else:
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: what was asked stands in `/_cloud/requests`."""


def read_said(path: Path, name: str) -> Any:
    """What a YAML file of faults or offers says, as JSON would. Raises Usage that names the file.

    YAML reads the bare words `on` and `null` as true and nothing; here they are names.
    """
    try:
        said = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise Usage(f"{path}: cannot be read: {error}") from None
    said = _named(said)
    return said.get(name) if isinstance(said, dict) else said


def _named(value: Any) -> Any:
    if isinstance(value, dict):
        return {"on" if k is True else "null" if k is None else str(k): _named(one) for k, one in value.items()}
    return [_named(one) for one in value] if isinstance(value, list) else value


def open_cloud(state: Path, clock: CloudClock, hosts: Hosts, faults: Path | None, market: Path | None) -> Cloud:
    """A cloud on a state folder: what it was, then the files laid over it. Raises Usage, FolderHeldError."""
    cloud = Cloud(state, clock, hosts, StateFile(state), [MockFace()])
    known = cloud.restore()
    try:
        if market is not None:
            cloud.put_up(read_said(market, "offers"))
        elif not known:
            cloud.put_up(DEFAULT_MARKET)
    except ValueError as error:
        raise Usage(f"{market}: {error}") from None
    try:
        if faults is not None:
            cloud.replace_faults(read_rules(read_said(faults, "rules"), clock.now()))
    except ValueError as error:
        raise Usage(f"{faults}: {error}") from None
    return cloud


def serve(
    state: Path, port: int, faults: Path | None, market: Path | None, speed: float, as_user: str | None, sshd: str
) -> None:
    """Run the cloud until SIGTERM or SIGINT, which leave its machines as they are.

    The first line on stdout is its address. sshd: asyncssh or openssh. Raises Usage (wrong file, folder in use).
    """
    from providers.simulator.hosts import RealHosts

    state = state.absolute()
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    clock = CloudClock(state / CLOCK_FILE, RealClock().now, speed)
    hosts = RealHosts(state, state / CLOCK_FILE, sshd=sshd, as_user=as_user)
    hosts.ready()
    try:
        run(state, port, faults, market, clock, hosts)
    finally:
        hosts.close()


def run(state: Path, port: int, faults: Path | None, market: Path | None, clock: CloudClock, hosts: Hosts) -> None:
    """As `serve`, with a clock and hosts handed in."""
    try:
        cloud = open_cloud(state, clock, hosts, faults, market)
    except FolderHeldError as error:
        raise Usage(str(error)) from None
    try:
        server = CloudServer(port, cloud)
    except OSError as error:
        cloud.close()
        raise GpupoorError(f"port {port} cannot be had ({error.strerror}); name another with --port, or 0") from None
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    threads = [
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True),
        threading.Thread(target=tick, args=(cloud, stopped, stopped.wait), daemon=True),
    ]
    for thread in threads:
        thread.start()
    print(server.url, flush=True)
    while not stopped.wait(3600):
        continue
    cloud.stop()
    server.shutdown()
    for thread in threads:
        thread.join(5)
    server.server_close()
    cloud.close()


def main(arguments: Sequence[str]) -> None:
    """`python -m providers.simulator.server STATE PORT [SPEED]`: for tests that need no command line of ours."""
    state, port, speed = Path(arguments[0]), int(arguments[1]), float(arguments[2]) if len(arguments) > 2 else 1.0
    serve(state, port, None, None, speed, None, "asyncssh")


if __name__ == "__main__":
    main(sys.argv[1:])
