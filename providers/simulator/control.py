"""The control API of the simulated cloud, `/_cloud/...`: its bill, its requests, its faults, its market, its clock."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from jobs.money import SECOND
from providers.simulator.cloud import Cloud
from providers.simulator.cloud_clock import parse_rfc3339, rfc3339
from providers.simulator.face import Answer, Request
from providers.simulator.faults import read_rules
from providers.simulator.machine import Machine
from providers.simulator.market import Market

PREFIX: Final = "/_cloud"


def answer(cloud: Cloud, request: Request) -> Answer:
    """Do one call of the control API; 400 with the reason for whatever is written wrong."""
    parts = [part for part in request.path.removeprefix(PREFIX).split("/") if part]
    try:
        match request.method, parts:
            case "GET", ["bill"]:
                with cloud.booked() as market:
                    return Answer(200, market.bill())
            case "GET", ["requests"]:
                return Answer(200, cloud.requests())
            case "GET", ["faults"]:
                with cloud.booked() as market:
                    return Answer(200, market.faults.show())
            case "POST", ["faults"]:
                cloud.replace_faults(read_rules(_said(request), cloud.clock.now()))
                with cloud.booked() as market:
                    return Answer(200, market.faults.show())
            case "POST", ["market"]:
                said = _said(request)
                _only(said, "offers")
                offers = cloud.put_up(said.get("offers"))
                return Answer(200, {"offers": [offer.fields() for offer in offers]})
            case "GET", ["clock"]:
                return _tell_clock(cloud)
            case "POST", ["clock"]:
                _step(cloud, _said(request))
                with cloud.booked():
                    return _tell_clock(cloud)
            case "POST", ["machines", machine_id, verb]:
                return _hurt(cloud, machine_id, verb, _said(request))
            case _, [("bill" | "requests" | "faults" | "market" | "clock")]:
                return _error(405, f"{request.method} is not a way to ask for {request.path}")
    except ValueError as error:
        return _error(400, str(error))
    return _error(404, f"there is no {request.method} {request.path}")


def _error(status: int, text: str) -> Answer:
    return Answer(status, {"error": text})


def _said(request: Request) -> dict[str, Any]:
    if not request.body.strip():
        return {}
    try:
        said = json.loads(request.body)
    except ValueError as error:
        raise ValueError(f"the body is not JSON: {error}") from None
    if not isinstance(said, dict):
        raise ValueError("the body is an object")  # noqa: TRY004
    return said


def _only(said: Mapping[str, Any], *known: str) -> None:
    for name in said:
        if name not in known:
            raise ValueError(f"unknown field {name!r}; there are: {', '.join(known) or 'none'}")


def _seconds(said: Mapping[str, Any], name: str, default: float | None = None) -> int:
    """Microseconds of a number of seconds."""
    value = said.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e10 < value < 1e10:
        raise ValueError(f"{name} is a number of seconds")
    return round(value * SECOND)


def _tell_clock(cloud: Cloud) -> Answer:
    speed = cloud.clock.speed
    return Answer(200, {"now": rfc3339(cloud.clock.now()), "speed": int(speed) if speed == int(speed) else speed})


def _step(cloud: Cloud, said: Mapping[str, Any]) -> None:
    _only(said, "advance_s", "set")
    if len(said) != 1:
        raise ValueError("write advance_s or set")
    if "set" in said:
        cloud.clock.set(parse_rfc3339(said["set"]))
    else:
        cloud.clock.advance(_seconds(said, "advance_s"))


def _hurt(cloud: Cloud, machine_id: str, verb: str, said: Mapping[str, Any]) -> Answer:
    if verb not in _VERBS:
        return _error(404, f"a machine cannot be told to {verb}; there are: {', '.join(_VERBS)}")
    with cloud.booked() as market:
        machine = market.machines.get(machine_id)
        if machine is None:
            return _error(404, f"there is no machine {machine_id}")
        if machine.ended_at is not None:
            return _error(409, f"{machine_id} is gone")
        _VERBS[verb](market, machine, said)
        market.save(machine)
        market.settle()
        return Answer(200, market.line(machine))


def _preempt(market: Market, machine: Machine, said: Mapping[str, Any]) -> None:
    _only(said, "notice_s")
    notice = max(_seconds(said, "notice_s", 0), 0)
    if notice:
        market.hosts.notice(machine.id)
    machine.plan_end(market.now() + notice, preempts=True)


def _kill(market: Market, machine: Machine, said: Mapping[str, Any]) -> None:
    """The machine itself dies: it is over, and nobody was told why."""
    _only(said)
    market.hosts.kill(machine.id)
    market.end(machine, market.now())


def _freeze(market: Market, machine: Machine, said: Mapping[str, Any]) -> None:
    _only(said)
    market.hosts.freeze(machine.id)


def _unfreeze(market: Market, machine: Machine, said: Mapping[str, Any]) -> None:
    _only(said)
    market.hosts.unfreeze(machine.id)


def _partition(market: Market, machine: Machine, said: Mapping[str, Any]) -> None:
    _only(said, "seconds")
    market.hosts.partition(machine.id, _seconds(said, "seconds") / SECOND)


def _restart(market: Market, machine: Machine, said: Mapping[str, Any]) -> None:
    _only(said)
    market.hosts.restart(machine.id, wipe=True)


def _vanish(market: Market, machine: Machine, said: Mapping[str, Any]) -> None:
    _only(said)
    machine.vanished = True
    market.end(machine, market.now())


def _outbid(market: Market, machine: Machine, said: Mapping[str, Any]) -> None:
    """It is stopped, as where a higher bid takes the GPUs: only the disk is billed until it is deleted."""
    _only(said)
    market.hosts.kill(machine.id)
    if machine.stopped_at is None:
        machine.stopped_at, machine.preempted = market.now(), True


_VERBS: Final[dict[str, Callable[[Market, Machine, Mapping[str, Any]], None]]] = {
    "preempt": _preempt,
    "kill": _kill,
    "freeze": _freeze,
    "unfreeze": _unfreeze,
    "partition": _partition,
    "restart": _restart,
    "vanish": _vanish,
    "outbid": _outbid,
}
