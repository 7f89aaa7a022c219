"""The simulated market: what is for sale, what is rented, what that costs, and what goes wrong.

It decides and books; a `Hosts` makes its machines. It reads no clock and no chance: `now` is handed in.
Whatever happened by time alone (a machine that switched itself off, a stop time, a spot loss, a request
that starts a machine anew) is booked by `settle` at the instant at which it happened, however late it is
looked at. Nothing here is safe for threads: one caller at a time.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jobs.errors import GpupoorError
from jobs.money import SECOND, usd
from providers.shell import Access
from providers.simulator import bill
from providers.simulator.afflictions import Afflictions
from providers.simulator.faults import Faults, Rule
from providers.simulator.hosting import Hosts
from providers.simulator.machine import GONE, RUNNING, Machine, MarketOrder
from providers.simulator.offers import MarketOffer

Save = Callable[[str, str, object], None]


class SoldOutError(Exception):
    """The offer is not to be had now; nothing was made."""


class UnknownMachineError(Exception):
    """There is no such machine, or it is not to be seen."""


@dataclass(frozen=True)
class Standing:
    """A spot request that will start a machine again at `at`, like `machine` was, with or without its label."""

    id: str
    at: int
    machine: str
    label: bool


class Market:
    """One cloud's market. save(kind, key, value): keep a value of JSON (None: drop it); the caller makes it durable
    with `commit` before it answers, and the market itself before it lets a host do what cannot be undone.
    """

    def __init__(
        self,
        now: Callable[[], int],
        hosts: Hosts,
        folder: Path,
        save: Save = lambda *_: None,
        commit: Callable[[], None] = lambda: None,
    ) -> None:
        self.now, self.hosts, self.folder = now, hosts, folder
        self._save, self._commit = save, commit
        self.offers: dict[str, MarketOffer] = {}
        self.machines: dict[str, Machine] = {}
        self.standing: dict[str, Standing] = {}
        self.faults = Faults()
        self.afflictions = Afflictions(self)
        self._counted = 0
        self._alive: dict[str, Machine] = {}
        self._by_token: dict[tuple[str, str], str] = {}

    # -- selling

    def put_up(self, offers: Sequence[MarketOffer]) -> None:
        """Replace all offers; machines that run keep their price."""
        self.offers = {offer.id: offer for offer in offers}

    def for_sale(self, provider: str) -> list[MarketOffer]:
        """What can be rented of `provider` now, with the capacity that is left."""
        taken: dict[str, int] = {}
        for machine in self._alive.values():
            taken[machine.stock] = taken.get(machine.stock, 0) + 1
        left = (replace(o, capacity=o.capacity - taken.get(o.stock, 0)) for o in self.offers.values())
        return [offer for offer in left if offer.provider == provider and offer.capacity > 0]

    def rent(self, provider: str, order: MarketOrder, deeds: Mapping[str, Any] | None = None) -> tuple[Machine, bool]:
        """(machine, whether it is new): the same token again is the same machine. Raises SoldOutError.

        deeds: what a rule on create does to the new machine.
        """
        deeds = deeds or {}
        offer = self.offers.get(order.offer_id)
        known = self._by_token.get((provider, order.token)) if order.token else None
        if known is not None:
            return self.machines[known], False
        if offer is None or all(offer.id != one.id for one in self.for_sale(provider)):
            raise SoldOutError(order.offer_id)
        now = self.now()
        machine = Machine(
            id=self._new_id(now),
            provider=provider,
            stock=offer.stock,
            region=offer.region,
            gpu=offer.gpu,
            gpu_count=offer.gpu_count,
            vram_gb=offer.vram_gb,
            spot=offer.spot,
            per_hour=bill.scaled(offer.per_hour, deeds.get("price_factor", 1)),
            disk_per_gb_hour=offer.disk_price,
            traffic_per_gb=offer.traffic_price,
            stop=offer.stop,
            bills=offer.bills,
            label=order.label if offer.labels else "",
            token=order.token if offer.token else "",
            public_key=order.public_key,
            disk_gb=order.disk_gb,
            boot_text=order.boot_text if offer.stop == "boot" else "",
            image=order.image,
            created_at=now,
            up_at=None,
            boot_s=offer.boot_s,
            hidden_until=now + round(deeds["hide_for_s"] * SECOND) if "hide_for_s" in deeds else 0,
            deeds={name: value for name, value in deeds.items() if name in Afflictions.HOST_DEEDS},
            reborn=deeds.get("reborn"),
        )
        if machine.stop == "hard" and order.stop_at is not None:
            machine.plan_end(max(order.stop_at, now))
        if not self._start(machine):
            raise SoldOutError(order.offer_id)
        return machine, True

    def _new_id(self, now: int) -> str:
        return f"m{now // SECOND:x}-{len(self.machines) + 1}"

    def _start(self, machine: Machine) -> bool:
        """Booked first: a cloud that dies here boots the machine when it comes up again.

        False: this computer cannot make it, so it ended at once and cost nothing.
        """
        self._enter(machine)
        hurts = self.afflictions.judge(machine)
        self.afflictions.time_boot(machine, hurts)
        self.save(machine)
        self._keep_counts()
        self._commit()
        try:
            self.hosts.boot(machine.id, self.folder_of(machine), self.afflictions.boot_plan(machine, hurts))
        except GpupoorError:
            self.end(machine, machine.created_at)
            return False
        self.afflictions.settle(machine)
        self.save(machine)
        return True

    def _enter(self, machine: Machine) -> None:
        self.machines[machine.id] = machine
        if machine.ended_at is None:
            self._alive[machine.id] = machine
        if machine.token:
            self._by_token[(machine.provider, machine.token)] = machine.id

    # -- looking

    def seen(self, provider: str, region: str | None = None) -> list[Machine]:
        """The machines that a list shows: not ended, not hidden; region None: of all."""
        now = self.now()
        return [
            machine
            for machine in self._alive.values()
            if machine.provider == provider and region in (None, machine.region) and machine.hidden_until <= now
        ]

    def find(self, provider: str, machine_id: str, hidden_too: bool = False) -> Machine:
        """One machine, also after its end. Raises UnknownMachineError where get would not show it.

        hidden_too: a delete reaches a machine that is not to be seen yet.
        """
        machine = self.machines.get(machine_id)
        if machine is None or machine.provider != provider or machine.vanished:
            raise UnknownMachineError(machine_id)
        if machine.hidden_until > self.now() and not hidden_too:
            raise UnknownMachineError(machine_id)
        return machine

    def alive(self) -> list[Machine]:
        """All machines that are not gone."""
        return list(self._alive.values())

    def access(self, machine: Machine) -> Access | None:
        """Where it listens; None while it does not run."""
        return self.hosts.access(machine.id) if machine.state(self.now()) == RUNNING else None

    def folder_of(self, machine: Machine) -> Path:
        """Where everything of a machine lies."""
        return self.folder / machine.id

    def line(self, machine: Machine) -> dict[str, object]:
        """The machine's line of the bill."""
        return bill.bill_line(machine, self.now(), str(self.folder_of(machine) / "home"))

    def bill(self) -> dict[str, object]:
        """The whole bill, as `/_cloud/bill` shows it; this market keeps no keys of its own."""
        now = self.now()
        return {
            "alive": bill.count_alive(self.machines.values(), now),
            "total": usd(bill.total(self.machines.values(), now)),
            "machines": [self.line(machine) for machine in self.machines.values()],
            "standing_requests": len(self.standing),
            "keys": 0,
        }

    # -- ending

    def release(self, machine: Machine, still_alive_s: float = 0.0, reborn: dict[str, Any] | None = None) -> None:
        """Delete it; with `still_alive_s` it is accepted and lives on for so long. A repetition changes nothing.

        reborn: its spot request stands and starts it anew.
        """
        if machine.ended_at is None and not machine.deleting:
            machine.deleting, machine.reborn = True, reborn or machine.reborn
            machine.plan_end(self.now() + round(still_alive_s * SECOND))
            self.save(machine)
            self.settle()

    def end(self, machine: Machine, at: int, preempted: bool = False) -> None:
        """It ends at `at` for good: booked and durable first, then its host ends it."""
        if machine.ended_at is not None:
            return
        machine.ended_at, machine.preempted = max(at, machine.created_at), preempted
        self.afflictions.count_traffic(machine)
        self._ask_anew(machine)
        self._alive.pop(machine.id, None)
        self.save(machine)
        self._commit()
        self._end_host(machine)

    def _end_host(self, machine: Machine) -> None:
        self.hosts.destroy(machine.id)
        machine.host_ended = True
        self.save(machine)

    def _ask_anew(self, machine: Machine) -> None:
        """A spot request that stands starts another machine after the end of this one."""
        deed = machine.reborn
        if machine.spot and deed is None:
            rule = self.faults.on_machine("spot", machine.provider, self.line(machine), self.now())
            self.save_faults()
            deed = rule.do.get("reborn") if rule else None
        if deed is not None:
            at = (machine.ended_at or 0) + round(deed.get("after_s", 0) * SECOND)
            self._keep_standing(Standing(f"s-{machine.id}", at, machine.id, bool(deed.get("label", True))))

    def _keep_standing(self, request: Standing) -> None:
        self.standing[request.id] = request
        self._save("standing", request.id, {"at": request.at, "machine": request.machine, "label": request.label})

    def _answer_standing(self, request: Standing) -> None:
        old = self.machines[request.machine]
        machine = replace(
            old,
            id=self._new_id(request.at),
            label=old.label if request.label else "",
            token="",
            created_at=request.at,
            ended_at=None,
            stopped_at=None,
            ends_at=None,
            preempted=False,
            deleting=False,
            hidden_until=0,
            vanished=False,
            host_ended=False,
            traffic_bytes=0,
            gpu_calls=0,
            deeds={},
            told={},
            reborn=None,
        )
        del self.standing[request.id]
        self._save("standing", request.id, None)
        self._start(machine)

    # -- time

    def settle(self) -> None:
        """Book what time alone has done until now, each at its own instant."""
        now = self.now()
        for machine in self.alive():
            own_end = self.hosts.ended_by_itself(machine.id)
            if own_end is not None and (machine.ends_at is None or own_end <= machine.ends_at):
                self.end(machine, min(own_end, now))
            elif machine.ends_at is not None and machine.ends_at <= now:
                self.end(machine, machine.ends_at, machine.end_preempts)
            elif self.afflictions.settle(machine):
                self.save(machine)
        for request in list(self.standing.values()):
            if request.at <= now:
                self._answer_standing(request)
        self._keep_counts()

    # -- keeping

    def save(self, machine: Machine) -> None:
        """Keep the machine as it is now."""
        self._save("machine", machine.id, machine.dump())

    def save_faults(self) -> None:
        """Keep the rules and their counts."""
        self._counted = self.faults.counted
        self._save("faults", "", self.faults.dump())

    def _keep_counts(self) -> None:
        if self.faults.counted != self._counted:
            self.save_faults()

    def replace_faults(self, rules: Sequence[Rule]) -> None:
        """Put up other rules; they reach the machines that run already."""
        self.faults.replace(rules)
        self.save_faults()
        self.settle()

    def restore(self, kept: Callable[[str], Mapping[str, Any]]) -> None:
        """Take up what an earlier process kept, and its machines: those that live are adopted, those that a
        death left half booted are booted, those that it left half ended are ended.
        """
        self.faults = Faults.load(kept("faults").get("", []))
        for key, value in kept("standing").items():
            self.standing[key] = Standing(id=key, **value)
        for value in kept("machine").values():
            machine = Machine.load(value)
            self._enter(machine)
            folder = self.folder_of(machine)
            if machine.state(self.now()) == GONE:
                if not machine.host_ended:
                    self.hosts.adopt(machine.id, folder)
                    self._end_host(machine)
            elif folder.exists():
                self.hosts.adopt(machine.id, folder)
            else:
                hurts = self.afflictions.judge(machine)
                self.hosts.boot(machine.id, folder, self.afflictions.boot_plan(machine, hurts))
        self.settle()
