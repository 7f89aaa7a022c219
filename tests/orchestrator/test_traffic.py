"""What a machine moved is booked as its provider tells it."""

import pytest

from orchestrator.db.models import Machine
from orchestrator.ledger import charges
from orchestrator.steps.release import usage_of
from providers.base import Listing, PriceParts, Sighting


@pytest.mark.parametrize(
    ("told", "known", "booked"), [(1_500_000, 0, 1_500_000), (None, 7, 7), (None, 0, 0), (3, 9, 9), (0, 0, 0)]
)
def test_told_bytes_are_booked(told: int | None, known: int, booked: int) -> None:
    """The provider's figure counts, never less than was known before; one that tells none leaves it."""
    machine = Machine(traffic_bytes=known, provider_start=1, sent_at=0)
    seen = Sighting("m-1", "mock", "r1", "gp-a", "gone", False, False, ended=True, started_at=1, ended_at=2,
                    traffic_bytes=told)  # fmt: skip
    usage = usage_of(machine, seen, Listing(taken_at=3))
    assert (usage.traffic_bytes, usage.bound) == (booked, False)


def test_traffic_is_a_part_of_the_price() -> None:
    """Rounded up once: 1.5 MB at half a cent per GB are 8 micro-dollars."""
    usage = usage_of(
        Machine(traffic_bytes=1_500_001, provider_start=1, sent_at=0), None, Listing(taken_at=1)
    )
    assert usage.bound
    assert charges(PriceParts(0, traffic_per_gb=5_000), 0, usage)["traffic"] == 8
