"""The simulated cloud inside the process, on a virtual clock: the same market, faults and bill, no thread, no socket.

For simulation: whoever schedules hands in the clock, chance, and `switch`, which is called before and after
everything that touches the provider or a machine. A lost answer, a slow call and a broken connection come from
rules (as over HTTP) or from Weather by chance.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from jobs.money import SECOND
from providers.base import (
    Facts,
    Gone,
    Listing,
    NoCapacity,
    Offer,
    Order,
    PriceParts,
    Provider,
    ProviderError,
    Refused,
    Sighting,
    Unavailable,
    Uncertain,
)
from providers.clock import Clock
from providers.shell import Access, Shell, ShellKey, Unreachable, WrongHostKey
from providers.simulator.bill import machine_cost, scaled
from providers.simulator.faults import Rule, read_rules
from providers.simulator.machine import GONE, Machine, MarketOrder
from providers.simulator.market import Market, SoldOutError, UnknownMachineError
from providers.simulator.offers import MarketOffer, read_offers
from providers.simulator.sim_hosts import SimHosts
from providers.simulator.sim_job import FakeJob
from providers.simulator.sim_shell import SimShell

T = TypeVar("T")

FACTS: Final = Facts(
    name="mock",
    simulated=True,
    read_lag_s=30,
    gone_gap_s=2,
    ghost_window_s=300,
    billed_words=("booting", "running", "terminating", "stopped"),
    destroy_text="poweroff",
)


class Chance(Protocol):
    """Where chance comes from."""

    def random(self) -> float:
        """0 <= x < 1."""


@dataclass
class Weather:
    """How often (0..1) what happens by chance. It may be changed while the simulation runs.

    unavailable: a call is not done and says so. lost: it is done and the answer is lost. slow: it takes up to
    slow_s seconds. broken: a connection breaks, asked before and after each command.
    """

    unavailable: float = 0.0
    lost: float = 0.0
    slow: float = 0.0
    slow_s: float = 60.0
    broken: float = 0.0


class InProcessCloud:
    """A market with its machines. market: the books, to look at and to hurt; hosts: the machines by id.

    offers: entries as in `POST /_cloud/market`, with provider `mock`. switch(name): a scheduler's hook.
    jobs: tag -> what its job does. self_destroy: whether a fuse gives its machine back.
    """

    def __init__(
        self,
        offers: Sequence[Mapping[str, Any]],
        clock: Clock,
        chance: Chance,
        switch: Callable[[str], None] = lambda _: None,
        jobs: Callable[[str], FakeJob] = lambda _: FakeJob(),
        weather: Weather | None = None,
        self_destroy: bool = True,
    ) -> None:
        self.clock, self.chance, self.switch = clock, chance, switch
        self.weather = weather or Weather()
        self.hosts = SimHosts(clock.now, jobs, self_destroy)
        self.market = Market(clock.now, self.hosts, Path("/simulated"))
        self.hosts.nvidia_smi = lambda machine: self.market.afflictions.nvidia_smi(self.market.machines[machine])
        self.market.put_up(read_offers(offers))
        self.provider = SimulatedProvider(self)

    def fault(self, *rules: Mapping[str, Any]) -> None:
        """Put up rules as `POST /_cloud/faults` does. Raises ValueError with the reason."""
        self.market.replace_faults(read_rules(list(rules), self.clock.now()))

    def bill(self) -> dict[str, object]:
        """As `GET /_cloud/bill`."""
        self.market.settle()
        return self.market.bill()

    def happens(self, how_often: float) -> bool:
        """Ask chance; not asked where it can never happen."""
        return how_often > 0 and self.chance.random() < how_often


class SimulatedProvider(Provider):
    """Provider `mock` without HTTP."""

    def __init__(self, cloud: InProcessCloud, facts: Facts = FACTS) -> None:
        self.facts, self._cloud = facts, cloud

    def find_offers(self) -> list[Offer]:
        """What is for sale; offers with a price that is none are left out."""
        market = self._cloud.market

        def subjects() -> list[dict[str, object]]:
            return [offer.fields() for offer in market.for_sale(self.facts.name)]

        def act(rule: Rule | None) -> list[Offer]:
            do = rule.do if rule else {}
            if do.get("empty"):
                return []
            found = []
            for offer in market.for_sale(self.facts.name):
                hit = rule is not None and rule.fits(offer.fields())
                if not (hit and do.get("no_capacity")):
                    found.append(self._offer(offer, do.get("price_factor", 1) if hit else 1))
            return [offer for offer in found if offer.price.per_hour > 0]

        return self._call("offers", subjects, act)

    def rent(self, order: Order, send_by: int) -> Sighting:
        """Create a machine; nothing comes between the look at `send_by` and the create."""
        market = self._cloud.market
        wanted = MarketOrder(
            offer_id=order.offer.id,
            label=order.label,
            token=order.token,
            public_key=order.public_key,
            disk_gb=order.disk_gb,
            boot_text=order.boot_text,
            stop_at=order.stop_at,
            image=order.image,
        )

        def subjects() -> list[dict[str, object]]:
            offer = market.offers.get(order.offer.id)
            return [{**(offer.fields() if offer else {"id": order.offer.id}), "label": order.label}]

        def act(rule: Rule | None) -> Sighting:
            if rule is not None and rule.do.get("ghost_id"):
                return Sighting(
                    f"ghost-{self._cloud.clock.now():x}",
                    "mock",
                    order.offer.region,
                    order.label,
                    "booting",
                    True,
                    False,
                )
            try:
                machine, _ = market.rent(self.facts.name, wanted, rule.do if rule else {})
            except SoldOutError as error:
                raise NoCapacity(f"offer {error} is not to be had") from None
            return self._sighting(machine, rule)

        return self._call("create", subjects, act, send_by)

    def list_machines(self, region: str) -> Listing:
        """All machines; region "" is everywhere."""
        market = self._cloud.market
        where = region or None
        taken_at = self._cloud.clock.now()

        def subjects() -> list[dict[str, object]]:
            return [market.line(machine) for machine in market.seen(self.facts.name, where)]

        def act(rule: Rule | None) -> Listing:
            if rule is not None and "hide_for_s" in rule.do:
                self._hide(rule, market.seen(self.facts.name, where))
            machines = [] if rule is not None and rule.do.get("empty") else market.seen(self.facts.name, where)
            return Listing(tuple(self._sighting(machine, rule) for machine in machines), True, taken_at)

        return self._call("list", subjects, act)

    def get(self, region: str, machine_id: str) -> Sighting:
        """One machine, also after its end. Raises Gone."""
        return self._call("get", lambda: self._lines(machine_id), lambda rule: self._get(machine_id, rule))

    def release(self, region: str, machine_id: str) -> None:
        """Give it back."""
        market = self._cloud.market

        def act(rule: Rule | None) -> None:
            do = rule.do if rule else {}
            try:
                machine = market.find(self.facts.name, machine_id, hidden_too=True)
            except UnknownMachineError:
                return
            market.release(machine, do.get("still_alive_s", 0), do.get("reborn"))

        self._call("delete", lambda: self._lines(machine_id), act)

    def connect(self, access: Access, key: ShellKey) -> Shell:
        """A shell on whatever listens there. Raises Unreachable, WrongHostKey."""
        cloud = self._cloud
        cloud.switch("connect")
        cloud.market.settle()
        machine = cloud.hosts.at(access)
        if machine is None or cloud.happens(cloud.weather.broken):
            raise Unreachable(f"{access.host}:{access.port} refuses connections")
        if machine.silent():
            cloud.clock.sleep(10)
            raise Unreachable(f"{access.host}:{access.port} does not answer")
        if access.host_key and access.host_key != machine.host_key:
            raise WrongHostKey(f"{access.host}:{access.port} has another host key")
        if not machine.accepts(key.public):
            raise Unreachable("the key is not accepted")
        return SimShell(machine, cloud.clock, cloud.switch, lambda: cloud.happens(cloud.weather.broken))

    def bill(self, region: str, machine_id: str) -> int | None:
        """What the machine cost, where its market tells."""
        try:
            machine = self._cloud.market.find(self.facts.name, machine_id)
        except UnknownMachineError:
            return None
        return machine_cost(machine, self._cloud.clock.now()) if machine.bills else None

    # -- one call, with what a rule or the weather does to it

    def _call(
        self,
        word: str,
        subjects: Callable[[], list[dict[str, object]]],
        act: Callable[[Rule | None], T],
        send_by: int | None = None,
    ) -> T:
        cloud = self._cloud
        cloud.switch(word)
        if cloud.happens(cloud.weather.slow):
            cloud.clock.sleep(cloud.chance.random() * cloud.weather.slow_s)
        if send_by is not None and cloud.clock.now() > send_by:
            raise Unavailable("it is too late to send this create")
        if cloud.happens(cloud.weather.unavailable):
            raise Unavailable("the provider does not answer")
        cloud.market.settle()
        rule = None
        if cloud.market.faults.rules:
            rule = cloud.market.faults.on_call(word, self.facts.name, subjects(), cloud.clock.now())
        if rule is not None:
            self._refuse(word, rule)
            cloud.market.settle()
        answer = act(rule)
        cloud.switch(f"{word}.done")
        lost = rule is not None and any(
            rule.do.get(deed) for deed in ("done_then_status", "drop_answer", "no_answer", "null")
        )
        if rule is not None and rule.do.get("delay_after_s"):
            cloud.clock.sleep(rule.do["delay_after_s"])
        if lost or cloud.happens(cloud.weather.lost):
            raise Uncertain("the answer is lost") if word in ("create", "delete") else Unavailable("no good answer")
        return answer

    def _refuse(self, word: str, rule: Rule) -> None:
        """Raise what the rule says before anything is done."""
        do = rule.do
        if do.get("refuse"):
            raise Unavailable("connection refused")
        if do.get("delay_before_s"):
            self._cloud.clock.sleep(do["delay_before_s"])
        if do.get("unauthorized"):
            raise Refused("the key is not accepted")
        if do.get("balance_empty"):
            raise Refused("the balance is empty", balance=True)
        if do.get("no_capacity") and word != "offers":
            raise NoCapacity("not to be had")
        if "status" in do:
            raise _error_of(word, do["status"], do.get("headers", {}))

    def _lines(self, machine_id: str) -> list[dict[str, object]]:
        try:
            return [self._cloud.market.line(self._cloud.market.find(self.facts.name, machine_id))]
        except UnknownMachineError:
            return [{"id": machine_id}]

    def _get(self, machine_id: str, rule: Rule | None) -> Sighting:
        market = self._cloud.market
        try:
            if rule is not None and "hide_for_s" in rule.do:
                self._hide(rule, [market.find(self.facts.name, machine_id)])
            return self._sighting(market.find(self.facts.name, machine_id), rule)
        except UnknownMachineError:
            raise Gone(f"there is no machine {machine_id}") from None

    def _hide(self, rule: Rule, machines: Sequence[Machine]) -> None:
        for machine in machines:
            if rule.fits(self._cloud.market.line(machine)):
                machine.hidden_until = self._cloud.clock.now() + round(rule.do["hide_for_s"] * SECOND)

    def _sighting(self, machine: Machine, rule: Rule | None) -> Sighting:
        market = self._cloud.market
        state = machine.state(self._cloud.clock.now())
        word = "terminating" if machine.deleting and state != GONE else state
        if rule is not None and rule.fits(market.line(machine)):
            word = rule.word() or word
        access = market.access(machine)
        return Sighting(
            id=machine.id,
            provider=machine.provider,
            region=machine.region,
            label=machine.label,
            word=word,
            bills=word != GONE,
            ready=word == "running" and access is not None,
            ended=word == GONE,
            gpu=machine.gpu,
            gpu_count=machine.gpu_count,
            spot=machine.spot,
            per_hour=machine.per_hour,
            started_at=machine.created_at,
            ended_at=machine.ended_at,
            access=access if word == "running" else None,
            traffic_bytes=machine.traffic_bytes,
            preempted=machine.preempted,
        )

    def _offer(self, offer: MarketOffer, factor: float) -> Offer:
        return Offer(
            provider=offer.provider,
            id=offer.id,
            region=offer.region,
            gpu=offer.gpu,
            gpu_count=offer.gpu_count,
            vram_gb=offer.vram_gb,
            price=PriceParts(
                per_hour=0 if offer.odd_price else scaled(offer.per_hour, factor),
                disk_per_gb_hour=offer.disk_price,
                traffic_per_gb=offer.traffic_price,
                highest_per_hour=max(offer.price_per_hour, offer.per_hour),
            ),
            spot=offer.spot,
            stop_class=offer.stop,
            trust=offer.trust,
            reliability=offer.reliability,
            boot_s=offer.boot_s,
            capacity=offer.capacity,
            host=offer.host,
            as_of=self._cloud.clock.now(),
        )


def _error_of(word: str, status: int, headers: Mapping[str, object]) -> ProviderError:
    """What an adapter makes of an HTTP status: a create that got a 5xx may have been done."""
    if word in ("get", "delete") and status == 404:
        return Gone("not found")
    if status == 429:
        wait = headers.get("Retry-After")
        return Unavailable("too many requests", float(str(wait)) if wait is not None else None)
    if 400 <= status < 500:
        return Refused(f"status {status}")
    return Uncertain(f"status {status}") if word == "create" else Unavailable(f"status {status}")
