"""One simulated cloud: its market, clock and state behind one lock, and its calls played with their faults."""

import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from jobs.errors import GpupoorError
from jobs.money import SECOND
from providers.simulator.cloud_clock import CloudClock, rfc3339
from providers.simulator.face import Answer, Ask, Face, Request
from providers.simulator.faults import Rule
from providers.simulator.hosting import Hosts
from providers.simulator.market import Market, UnknownMachineError
from providers.simulator.offers import MarketOffer, read_offers
from providers.simulator.state_file import StateFile

_REFUSALS = ("unauthorized", "balance_empty", "no_capacity")


class Silence(Enum):
    """What a client gets in place of an answer."""

    REFUSED = "reset at once"
    CUT = "connection closed"
    HUNG = "never answered"


@dataclass
class _Group:
    """Requests that wait for each other: how many came, how many may go on."""

    came: int = 0
    free: int = 0


class Cloud:
    """Everything of one cloud. Safe for threads; what a call changed is durable before it is answered."""

    def __init__(self, folder: Path, clock: CloudClock, hosts: Hosts, state: StateFile, faces: Sequence[Face]) -> None:
        self.clock, self.faces = clock, faces
        self._state = state
        self._lock = threading.RLock()
        self._held = threading.Condition()
        self._groups: dict[int, _Group] = {}
        self._stopped = threading.Event()
        self.market = Market(clock.now, hosts, folder / "machines", state.save, state.commit)

    def restore(self) -> bool:
        """Take up what an earlier process kept; whether there was a market at all."""
        with self.booked() as market:
            said = self._state.kept("offers").get("")
            if said is not None:
                market.put_up(read_offers(said))
            market.restore(self._state.kept)
        return said is not None

    @contextmanager
    def booked(self) -> Iterator[Market]:
        """The market as it is now, for one caller; what was changed is durable after the block."""
        with self._lock:
            self.market.settle()
            yield self.market
            self._state.commit()

    def put_up(self, said: Any) -> list[MarketOffer]:
        """Replace the offers by those of a list of entries. Raises ValueError with the reason."""
        offers = read_offers(said)
        with self.booked() as market:
            market.put_up(offers)
            self._state.save("offers", "", list(said))
        return offers

    def replace_faults(self, rules: Sequence[Rule]) -> None:
        """Put up other rules; whoever waited for a rule that is gone goes on."""
        with self.booked() as market:
            market.replace_faults(rules)
        with self._held:
            self._groups.clear()
            self._held.notify_all()

    def requests(self) -> list[dict[str, Any]]:
        """Every request of every face, in the order of arrival."""
        with self._lock:
            return self._state.requests()

    def stop(self) -> None:
        """Let all that wait go on; machines are left as they are."""
        self._stopped.set()

    def close(self) -> None:
        """Let the state go; nothing may be asked after it."""
        with self._lock:
            self._state.close()

    # -- calls of the faces

    def answer(self, face: Face, request: Request) -> Answer | Silence:
        """Log a request, do it as the rules let it be done, and log the answer."""
        ask = face.read(request)
        with self.booked() as market:
            number = self._state.arrive(self._logged(face, ask, request))
            if ask is None or ask.wrong is not None:
                wrong = (ask and ask.wrong) or face.error("not_found", "there is no such call")
                self._state.answered(number, wrong.status)
                return wrong
            rule = market.faults.on_call(ask.call, face.name, self._subjects(face, ask, market), market.now())
            if rule is None:
                plain = face.act(ask, market, {})
                self._state.answered(number, plain.status)
                return plain
            market.save_faults()
            word = rule.word()
        answer = self._play(face, ask, rule, word)
        if isinstance(answer, Answer):
            with self._lock:
                self._state.answered(number, answer.status)
                self._state.commit()
        return answer

    def _logged(self, face: Face, ask: Ask | None, request: Request) -> dict[str, object]:
        text = request.body.decode("utf-8", "replace")
        try:
            body = json.loads(text) if text else None
        except ValueError:
            body = text
        query = "&".join(f"{name}={value}" for name, value in request.query.items() if "key" not in name.lower())
        return {
            "time": rfc3339(self.clock.now()),
            "face": face.name,
            "call": ask.call if ask else None,
            "method": request.method,
            "path": request.path + (f"?{query}" if query else ""),
            "body": body,
        }

    def _subjects(self, face: Face, ask: Ask, market: Market) -> list[dict[str, object]]:
        """What the match of a rule looks at: offers and the label, or machines."""
        if ask.call == "offers":
            return [offer.fields() for offer in market.for_sale(face.name)]
        if ask.call == "list":
            return [market.line(machine) for machine in market.seen(face.name, ask.region)]
        if ask.call == "create":
            assert ask.order is not None
            offer = market.offers.get(ask.order.offer_id)
            fields = offer.fields() if offer else {"id": ask.order.offer_id}
            return [{**fields, "label": ask.order.label}]
        try:
            return [market.line(market.find(face.name, ask.machine_id, hidden_too=True))]
        except UnknownMachineError:
            return [{"id": ask.machine_id}]

    def _play(self, face: Face, ask: Ask, rule: Rule, word: str | None) -> Answer | Silence:
        do = rule.do
        if "hold_until" in do:
            self._hold(rule, do["hold_until"])
        if do.get("refuse"):
            return Silence.REFUSED
        self._wait(do.get("delay_before_s", 0))
        refusal = next((code for code in _REFUSALS if do.get(code)), None)
        if (refusal, ask.call) == ("no_capacity", "offers"):  # not an error: these offers are just not listed
            refusal = None
        if refusal is not None:
            answer = face.error(refusal)
        elif "status" in do:
            answer = Answer(do["status"], face.error("fault", f"status {do['status']} by a rule").body)
        else:
            answer = self._do(face, ask, rule, word)
        if "done_then_status" in do and "status" not in do and refusal is None:
            answer = Answer(do["done_then_status"], face.error("fault", "done, and then this").body)
        if "body" in do:
            answer.body, answer.raw = do["body"], isinstance(do["body"], str)
        answer.headers.update({name: str(text) for name, text in do.get("headers", {}).items()})
        self._wait(do.get("delay_after_s", 0))
        if do.get("no_answer"):
            return Silence.HUNG
        return Silence.CUT if do.get("drop_answer") else answer

    def _do(self, face: Face, ask: Ask, rule: Rule, word: str | None) -> Answer:
        do = rule.do
        with self.booked() as market:
            if do.get("ghost_id"):
                answer = face.ghost(ask, market)
            else:
                if ask.call in ("list", "get", "delete") and "hide_for_s" in do:
                    self._hide(face, ask, rule, market)
                answer = face.act(ask, market, do)
            hit = self._hit_ids(face, ask, rule, market)
        if answer.status < 400:
            self._shape(face, ask, answer, do, hit, word)
        return answer

    def _hide(self, face: Face, ask: Ask, rule: Rule, market: Market) -> None:
        until = market.now() + round(rule.do["hide_for_s"] * SECOND)
        for machine in market.seen(face.name, ask.region):
            if (ask.call == "list" or machine.id == ask.machine_id) and rule.fits(market.line(machine)):
                machine.hidden_until = until
                market.save(machine)

    def _hit_ids(self, face: Face, ask: Ask, rule: Rule, market: Market) -> set[object] | None:
        """The entries of a long answer that the rule's match means; None: all."""
        if not rule.match or ask.call not in ("offers", "list"):
            return None
        return {fields["id"] for fields in self._subjects(face, ask, market) if rule.fits(fields)}

    def _shape(
        self, face: Face, ask: Ask, answer: Answer, do: Mapping[str, Any], hit: set[object] | None, word: str | None
    ) -> None:
        if do.get("no_capacity") and ask.call == "offers":
            kept = [one for one in face.entries(ask, answer.body) if hit is not None and one.get("id") not in hit]
            face.keep_entries(ask, answer.body, kept)
        for entry in face.entries(ask, answer.body):
            if hit is not None and entry.get("id") not in hit:
                continue
            if word is not None and ask.call != "offers":
                face.set_state(entry, word)
            if "price_factor" in do and ask.call != "create":
                face.scale_price(entry, do["price_factor"])
            for name in do.get("drop_fields", ()):
                entry.pop(name, None)
            entry.update(do.get("extra_fields", {}))
        if isinstance(answer.body, dict) and ask.call in ("offers", "list"):
            for name in do.get("drop_fields", ()):
                answer.body.pop(name, None)
        if do.get("empty"):
            answer.body = face.emptied(ask)
        if do.get("null"):
            answer.body = None

    # -- waiting, with nothing locked

    def _wait(self, seconds: float) -> None:
        if seconds:
            self.clock.wait(self.clock.now() + round(seconds * SECOND), self._stopped.is_set)

    def _hold(self, rule: Rule, number: int) -> None:
        """Return when `number` requests came here, or the rule was replaced."""
        with self._held:
            group = self._groups.setdefault(id(rule), _Group())
            group.came += 1
            ticket = group.came
            if group.came % number == 0:
                group.free = group.came
                self._held.notify_all()
            while ticket > group.free and self._groups.get(id(rule)) is group and not self._stopped.is_set():
                self._held.wait(0.5)


def tick(cloud: Cloud, stopped: threading.Event, pause: Callable[[float], object]) -> None:
    """Look at the machines again and again, so that what they do by themselves is booked and faults reach them."""
    while not stopped.is_set():
        try:
            with cloud.booked():
                pass
        except (GpupoorError, OSError) as error:
            print(f"the machines could not be looked at: {error}", file=sys.stderr, flush=True)
        pause(0.03)
