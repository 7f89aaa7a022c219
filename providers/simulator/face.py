"""What a face of the simulated cloud is: one market's way to speak HTTP over the same market."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from providers.simulator.machine import MarketOrder
from providers.simulator.market import Market


@dataclass(frozen=True)
class Request:
    """A request as it came in. path: without the query. headers: names in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Answer:
    """An answer. body: a value for JSON, or with `raw` a text that is sent as it stands."""

    status: int
    body: object
    headers: dict[str, str] = field(default_factory=dict)
    raw: bool = False


@dataclass(frozen=True)
class Ask:
    """What a request asks for. call: create, list, get, delete or offers. wrong: the answer to a bad request."""

    call: str
    order: MarketOrder | None = None
    machine_id: str = ""
    region: str | None = None
    wrong: Answer | None = None


class Face(Protocol):
    """One market's API. `name` is the provider whose offers and machines it shows."""

    @property
    def name(self) -> str:
        """The provider."""

    @property
    def prefix(self) -> str:
        """What the paths of its calls start with."""

    def read(self, request: Request) -> Ask | None:
        """What the request asks for, or None where there is no such call."""

    def act(self, ask: Ask, market: Market, deeds: Mapping[str, Any]) -> Answer:
        """Do what is asked."""

    def error(self, code: str, text: str = "") -> Answer:
        """unauthorized, balance_empty, no_capacity, not_found or another code, in this face's form."""

    def entries(self, ask: Ask, body: Any) -> list[dict[str, Any]]:
        """The offers or machines inside an answer's body, each with its `id`, to be changed in place."""

    def keep_entries(self, _ask: Ask, body: Any, kept: list[dict[str, Any]]) -> None:
        """Leave only `kept` of the offers inside an answer's body."""

    def emptied(self, ask: Ask) -> object:
        """A well-formed body with nothing in it."""

    def set_state(self, entry: dict[str, Any], word: str) -> None:
        """Say another state of a machine."""

    def scale_price(self, entry: dict[str, Any], factor: float) -> None:
        """Say another price."""

    def ghost(self, ask: Ask, market: Market) -> Answer:
        """The answer to a create that makes nothing."""
