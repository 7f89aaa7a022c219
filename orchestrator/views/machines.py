"""Every machine of every provider, ours or not, joined with what our rows know about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import or_, select

from jobs.label import parse_label
from jobs.money import usd
from orchestrator.asking import list_region
from orchestrator.db.models import Job, Machine
from orchestrator.views.instants import rfc3339
from orchestrator.views.jobs import price_per_hour
from providers.base import ProviderError, Sighting

if TYPE_CHECKING:
    from orchestrator.world import World

_EXPECTED: Final = ("sent", "alive", "releasing")


@dataclass(frozen=True)
class Inventory:
    """machines: documents of `machines -o json`. silent: providers that gave no whole list, each with the reason.

    Where a provider is silent, its machines are known from our rows alone and their state is unknown.
    """

    machines: list[dict[str, Any]]
    silent: list[str]


def machines(world: World, simulated: bool, every: bool = False) -> Inventory:
    """What lives now in one world; `every`: also what our rows say is over.

    Network: one list per provider and region, with no transaction open.
    """
    seen, silent = _look(world, simulated)
    wanted = or_(Machine.state.in_(_EXPECTED), Machine.provider_id.in_([sighting.id for sighting in seen]),
                 Machine.label.in_([sighting.label for sighting in seen]))  # fmt: skip
    query = select(Machine, Job.handle).join(Job, Job.id == Machine.job).where(Machine.simulated == simulated)
    query = query.order_by(Machine.sent_at, Machine.id)
    with world.database.read() as session:
        rows = session.execute(query if every else query.where(wanted)).all()
    found, known = [], set()
    for machine, handle in rows:
        sighting = _sighting_of(machine, seen)
        if sighting is not None:
            known.add(id(sighting))
        elif machine.state in _EXPECTED and machine.provider not in world.providers:
            silent[machine.provider] = "there is no key for it, and a machine of it lives"
        if every or machine.state in _EXPECTED or (sighting is not None and not sighting.ended):
            found.append(_row(machine, handle, sighting, machine.provider in silent))
    found += [_unknown(world, s) for s in seen if id(s) not in known and (every or not s.ended)]
    return Inventory(found, [f"{name}: {why}" for name, why in sorted(silent.items())])


def _look(world: World, simulated: bool) -> tuple[list[Sighting], dict[str, str]]:
    """What the lists show, and why a provider's list shows nothing or not all."""
    seen: list[Sighting] = []
    silent: dict[str, str] = {}
    for name, provider in sorted(world.providers.items()):
        for region in provider.facts.regions if provider.facts.simulated == simulated else ():
            try:
                listing = list_region(world, name, region)
            except ProviderError as error:
                silent[name] = str(error)
                continue
            seen.extend(listing.machines)
            if not listing.complete:
                silent[name] = "its list is not complete"
    return seen, silent


def _sighting_of(machine: Machine, seen: Sequence[Sighting]) -> Sighting | None:
    """Found by the provider's id, or by our label where the answer of the create was lost."""
    for sighting in seen:
        if sighting.provider == machine.provider:
            by_id = machine.provider_id is not None and sighting.id == machine.provider_id
            if by_id or (machine.provider_id is None and sighting.label == machine.label):
                return sighting
    return None


def _row(machine: Machine, handle: str, sighting: Sighting | None, silent: bool) -> dict[str, Any]:
    if sighting is not None:
        state = sighting.word
    elif machine.state not in _EXPECTED:
        state = machine.state
    else:
        state = "unknown" if silent else "not listed"
    price = price_per_hour(machine)
    if sighting is not None and sighting.per_hour is not None:  # as its provider says now, with our disk
        price += sighting.per_hour - int(machine.price["per_hour"])
    return {
        "id": machine.provider_id or (sighting.id if sighting else machine.id),
        "provider": machine.provider,
        "region": machine.region,
        "label": machine.label,
        "ours": True,
        "job": handle,
        "gpu": machine.gpu,
        "gpu_count": machine.gpu_count,
        "state": state,
        "price_per_hour": usd(price),
        "created_at": rfc3339(machine.provider_start or machine.sent_at),
        "stops_at": rfc3339(machine.stop_at),
        "held": machine.held_until is not None,
    }


def _unknown(world: World, sighting: Sighting) -> dict[str, Any]:
    """A machine without a row: somebody else's, or ours from before a backup was restored."""
    label = parse_label(sighting.label)
    ours = label is not None and label.installation == world.installation
    return {
        "id": sighting.id,
        "provider": sighting.provider,
        "region": sighting.region,
        "label": sighting.label,
        "ours": ours,
        "job": None,
        "gpu": sighting.gpu,
        "gpu_count": sighting.gpu_count,
        "state": sighting.word,
        "price_per_hour": None if sighting.per_hour is None else usd(sighting.per_hour),
        "created_at": rfc3339(sighting.started_at),
        "stops_at": rfc3339(label.stop_at) if label and ours else None,
        "held": False,
    }
