"""The one careful HTTP client: every wait and every size has a limit, no key in a text, and each outcome
is sorted by what the caller can do.

What was certainly not sent is Unavailable. A create or delete that was sent and not well answered is Uncertain.
"""

import json
import logging
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import quote

from providers.base import Gone, ProviderError, Refused, Unavailable, Uncertain
from providers.clock import Clock

if TYPE_CHECKING:
    import httpx

JSON = Any
Errors = Mapping[int, Callable[[str], ProviderError]]

_TRIES: Final = 3
_SHOWN: Final = 200
_WRITE_BEGINS: Final = "http11.send_request_headers.started"


class Chance(Protocol):
    """Where chance comes from."""

    def random(self) -> float:
        """0 <= x < 1."""


@dataclass(frozen=True)
class HttpLimits:
    """Real seconds to connect, without a byte arriving, for a whole answer, and the longest wait before a repeat.

    size: bytes of the largest answer.
    """

    connect_s: float = 10.0
    read_s: float = 30.0
    total_s: float = 60.0
    patience_s: float = 5.0
    size: int = 32_000_000


@dataclass(frozen=True)
class _Answer:
    status: int
    body: bytes
    retry_after_s: float | None


class _TooLate(Exception):
    """`send_by` passed before the first byte was written."""


@dataclass
class _Sending:
    """One request on its way. sent: its first byte may have left us."""

    clock: Clock
    send_by: int | None
    sent: bool = False

    def trace(self, event: str, info: object) -> None:
        """Hooked right before the write: between this check and the send nothing else happens."""
        if event == _WRITE_BEGINS:
            if self.send_by is not None and self.clock.now() > self.send_by:
                raise _TooLate
            self.sent = True


@dataclass
class Http:
    """A provider's API at one address. Thread-safe; connections are kept.

    authorize: the headers that carry the key, asked at each request; what they hold is never shown.
    """

    name: str
    base_url: str
    authorize: Callable[[], Mapping[str, str]]
    clock: Clock
    chance: Chance
    limits: HttpLimits = field(default_factory=HttpLimits)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._made: httpx.Client | None = None

    def read(self, path: str, params: Mapping[str, str] | None = None, errors: Errors | None = None) -> JSON:
        """The JSON value of a GET. Raises Unavailable, Refused, Gone, or what `errors` says for a status."""
        answer = self._ask("GET", path, params, None, None)
        return self._value("GET", path, answer, errors or {}, Unavailable)

    def create(self, path: str, body: JSON, send_by: int, errors: Errors | None = None) -> JSON:
        """The JSON value of a POST that makes something; never written after `send_by` (microseconds UTC).

        Raises Unavailable, Refused and Gone where nothing was made, Uncertain where something may have been.
        """
        answer = self._ask("POST", path, None, body, send_by)
        return self._value("POST", path, answer, errors or {}, Uncertain)

    def delete(self, path: str) -> None:
        """A DELETE; the body of a good answer is not looked at. Raises as `create`; may be repeated."""
        answer = self._ask("DELETE", path, None, None, None)
        if not 200 <= answer.status < 300:
            self._judge("DELETE", path, answer, {}, Uncertain)

    def close(self) -> None:
        """Let go of the kept connections."""
        with self._lock:
            if self._made is not None:
                self._made.close()
                self._made = None

    def _ask(
        self, method: str, path: str, params: Mapping[str, str] | None, body: JSON, send_by: int | None
    ) -> _Answer:
        """Repeated only where nothing can have happened: never sent, or a read that was told to wait a little."""
        for attempt in range(1, _TRIES + 1):
            sending = _Sending(self.clock, send_by)
            try:
                answer = self._exchange(sending, method, path, params, body)
            except _TooLate:
                raise Unavailable(f"{self.name}: {method} {path}: not sent, its time had passed") from None
            except _broken() as error:
                harmless = not sending.sent or method == "GET"
                if harmless and attempt < _TRIES and not _is_slow(error):
                    self._pause(0.2 * attempt)
                    continue
                kind = Uncertain if sending.sent and method != "GET" else Unavailable
                raise kind(self._text(method, path, f"no answer: {error or type(error).__name__}")) from None
            wait_s = answer.retry_after_s
            if method != "GET" or answer.status not in (429, 503) or wait_s is None or attempt == _TRIES:
                return answer
            if wait_s > self.limits.patience_s:
                return answer
            self._pause(wait_s)
        raise AssertionError("the last try returns or raises")

    def _pause(self, seconds: float) -> None:
        self.clock.sleep(seconds * (1 + self.chance.random() / 2))

    def _exchange(
        self, sending: _Sending, method: str, path: str, params: Mapping[str, str] | None, body: JSON
    ) -> _Answer:
        end = self.clock.monotonic() + self.limits.total_s
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", **self.authorize()}
        request = self._client().build_request(
            method,
            self.base_url.rstrip("/") + path,
            params=params or None,
            json=body,
            headers=headers,
            extensions={"trace": sending.trace},
        )
        response = self._client().send(request, stream=True)
        try:
            kept = bytearray()
            for piece in response.iter_raw():
                kept += piece
                if len(kept) > self.limits.size:
                    raise ValueError(f"the answer is larger than {self.limits.size} bytes")
                if self.clock.monotonic() > end:
                    raise TimeoutError(f"the answer took longer than {self.limits.total_s:g} s")
        finally:
            response.close()
        return _Answer(response.status_code, bytes(kept), _seconds(response.headers.get("retry-after")))

    def _client(self) -> "httpx.Client":
        with self._lock:
            if self._made is None:
                import httpx

                for noisy in ("httpx", "httpcore"):
                    logging.getLogger(noisy).setLevel(logging.WARNING)
                limits = self.limits
                self._made = httpx.Client(
                    timeout=httpx.Timeout(limits.read_s, connect=limits.connect_s),
                    limits=httpx.Limits(max_connections=64, max_keepalive_connections=8),
                    trust_env=False,
                    follow_redirects=False,
                )
            return self._made

    def _value(
        self, method: str, path: str, answer: _Answer, errors: Errors, doubt: Callable[[str], ProviderError]
    ) -> JSON:
        if not 200 <= answer.status < 300:
            self._judge(method, path, answer, errors, doubt)
        try:
            value = json.loads(answer.body, parse_float=Decimal, parse_constant=Decimal)
        except (ValueError, RecursionError):
            value = None
        if value is None:
            raise doubt(self._text(method, path, f"HTTP {answer.status} without an answer in JSON", answer.body))
        return value

    def _judge(
        self, method: str, path: str, answer: _Answer, errors: Errors, doubt: Callable[[str], ProviderError]
    ) -> None:
        """Always raises."""
        status = answer.status
        text = self._text(method, path, f"HTTP {status}", answer.body)
        if status in errors:
            raise errors[status](text)
        if status == 429 or (status == 503 and doubt is Unavailable):
            raise Unavailable(text, answer.retry_after_s)
        if status == 402:
            raise Refused(text, balance=True)
        if status == 404:
            raise Gone(text)
        if 400 <= status < 500 and status != 408:
            raise Refused(text)
        raise doubt(text)

    def _text(self, method: str, path: str, what: str, body: bytes = b"") -> str:
        """One line: the start of the body as it came, without what `authorize` adds."""
        shown = body[: 4 * _SHOWN].decode("utf-8", "backslashreplace")
        line = f"{self.name}: {method} {path}: {what}" + (f": {shown}" if body else "")
        for value in self.authorize().values():
            for secret in sorted({value, *value.split()}, key=len, reverse=True):
                if len(secret) >= 4 and secret not in ("Bearer", "Basic", "Token"):
                    line = line.replace(secret, "***").replace(quote(secret, safe=""), "***")
        line = re.sub(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}", r"\1 ***", line)
        line = "".join(c if c.isprintable() else " " for c in line)
        return line if len(line) <= 2 * _SHOWN else line[: 2 * _SHOWN] + "…"


def _broken() -> tuple[type[Exception], ...]:
    """All that an exchange may raise because of the other side or the way to it."""
    import httpx

    return (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError)


def _is_slow(error: Exception) -> bool:
    """What took its whole time already is not asked again here."""
    import httpx

    return isinstance(error, httpx.TimeoutException | TimeoutError)


def _seconds(text: str | None) -> float | None:
    """Of a Retry-After header in seconds; a date in it is not read."""
    return float(text) if text is not None and re.fullmatch(r"\d{1,6}(\.\d+)?", text.strip()) else None
