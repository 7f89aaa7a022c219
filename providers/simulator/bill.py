"""What a machine of the simulated market costs: whole micro-dollars, each price part rounded up once."""

from collections.abc import Iterable
from fractions import Fraction

from jobs.money import cost, usd
from providers.simulator.cloud_clock import rfc3339
from providers.simulator.machine import GONE, Machine

GB = 10**9


def machine_cost(machine: Machine, now: int) -> int:
    """Micro-dollars from its create to its end, or to `now`; booting counts, a stopped machine pays its disk."""
    end = now if machine.ended_at is None else machine.ended_at
    computing_end = end if machine.stopped_at is None else min(machine.stopped_at, end)
    computing = cost(machine.per_hour, computing_end - machine.created_at)
    disk = cost(machine.disk_per_gb_hour * machine.disk_gb, end - machine.created_at)
    traffic = -(-machine.traffic_per_gb * machine.traffic_bytes // GB)
    return computing + disk + traffic


def scaled(price: int, factor: float) -> int:
    """Micro-dollars of `price` times `factor`, rounded up; the factor is meant as it is written."""
    product = price * Fraction(str(factor))
    return -(-product.numerator // product.denominator)


def bill_line(machine: Machine, now: int, home: str) -> dict[str, object]:
    """The machine as `/_cloud/bill` shows it, and as the match of a rule sees it."""
    return {
        "id": machine.id,
        "provider": machine.provider,
        "region": machine.region,
        "label": machine.label,
        "gpu": machine.gpu,
        "gpu_count": machine.gpu_count,
        "spot": machine.spot,
        "state": machine.state(now),
        "created_at": rfc3339(machine.created_at),
        "ended_at": None if machine.ended_at is None else rfc3339(machine.ended_at),
        "price_per_hour": usd(machine.per_hour),
        "cost": usd(machine_cost(machine, now)),
        "home": home,
    }


def total(machines: Iterable[Machine], now: int) -> int:
    """Micro-dollars of all of them together."""
    return sum(machine_cost(machine, now) for machine in machines)


def count_alive(machines: Iterable[Machine], now: int) -> int:
    """How many are not gone; booting and stopped ones count."""
    return sum(machine.state(now) != GONE for machine in machines)
