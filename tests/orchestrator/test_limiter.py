"""The shared limiter."""

from pathlib import Path

from sqlalchemy import select

from orchestrator.db.engine import open_database
from orchestrator.db.models import RateToken
from orchestrator.limiter import Rate, SharedLimiter
from tests.orchestrator.plumbing import HandClock

RATES = {"release": Rate(1, 2), "list": Rate(1, 2), "rent": Rate(1, 2), "offers": Rate(1, 2)}


def make(tmp_path: Path, clock: HandClock, rates=RATES, key=lambda _: "") -> SharedLimiter:
    """A limiter on the database of this folder."""
    return SharedLimiter(open_database(f"sqlite:///{tmp_path}/gpupoor.db", clock), clock, key=key, rates=rates)


def test_after_the_burst_calls_go_out_at_the_rate(tmp_path: Path) -> None:
    """Two at once, then one per second."""
    clock = HandClock()
    limiter = make(tmp_path, clock)
    begin = clock.monotonic()
    for _ in range(6):
        limiter.wait("p", "rent")
    assert clock.monotonic() - begin == 4


def test_two_processes_share_the_rate(tmp_path: Path) -> None:
    """What one took, the other waits for; another key has a bucket of its own."""
    clock = HandClock()
    one, two = make(tmp_path, clock), make(tmp_path, clock)
    begin = clock.monotonic()
    for _ in range(3):
        one.wait("p", "rent")
        two.wait("p", "rent")
    make(tmp_path, clock, key=lambda _: "other account").wait("p", "rent")
    assert clock.monotonic() - begin == 4


def test_a_release_never_waits_behind_others(tmp_path: Path) -> None:
    """A bucket deep in debt does not touch the others."""
    clock = HandClock()
    limiter = make(tmp_path, clock)
    for _ in range(50):
        limiter._draw("p", "list", RATES["list"], 1)
    begin = clock.monotonic()
    limiter.wait("p", "release")
    assert clock.monotonic() == begin


def test_fast_buckets_are_drawn_several_at_a_time(tmp_path: Path) -> None:
    """A hundred quick calls need few looks at the database, and no more than were drawn."""
    clock = HandClock()
    limiter = make(tmp_path, clock, {"list": Rate(40, 400)})
    for _ in range(100):
        limiter.wait("p", "list")
    with limiter._database.read() as session:
        assert session.execute(select(RateToken.tokens)).scalar_one() == 300


def test_own_machines_have_no_limit(tmp_path: Path) -> None:
    """Neither a wait nor a row."""
    clock = HandClock()
    database = open_database(f"sqlite:///{tmp_path}/gpupoor.db", clock)
    limiter = SharedLimiter(database, clock, free=frozenset({"ssh"}), rates=RATES)
    for _ in range(100):
        limiter.wait("ssh", "rent")
    assert clock.slept == []


def test_the_account_is_stored_as_a_digest(tmp_path: Path) -> None:
    """The key itself stands nowhere."""
    clock = HandClock()
    limiter = make(tmp_path, clock, key=lambda _: "api-key-secret")
    limiter.wait("p", "rent")
    limiter._database.close()
    assert all(b"api-key-secret" not in file.read_bytes() for file in tmp_path.iterdir() if file.is_file())
