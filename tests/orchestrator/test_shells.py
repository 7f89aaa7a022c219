"""The pool of connections."""

import threading

import pytest

from jobs.command import Command, Outcome
from orchestrator.shells import ShellPool
from providers.shell import Access, Shell, ShellKey, Unreachable

KEY = ShellKey("private", "public")
HOST = Access("host", 22)
COMMAND = Command("state", "true")


class CountedShell(Shell):
    """Counts its ends; fails when told to."""

    def __init__(self) -> None:
        self.broken, self.closed = False, 0

    def perform(self, command, stdin=b""):
        if self.broken:
            raise Unreachable("cut")
        return Outcome(0)

    def put(self, command, source, progress=lambda _: None):
        return self.perform(command)

    get = follow = put

    def close(self):
        self.closed += 1


class CountedMarket:
    """Connects; `slow` hosts wait for the test."""

    def __init__(self) -> None:
        self.shells: list[CountedShell] = []
        self.go = threading.Event()

    def connect(self, access, key):
        if access.host == "slow":
            self.go.wait(30)
        self.shells.append(CountedShell())
        return self.shells[-1]


@pytest.fixture
def market() -> CountedMarket:
    """One market."""
    return CountedMarket()


@pytest.fixture
def pool(market: CountedMarket) -> ShellPool:
    """Its pool."""
    return ShellPool({"mock": market})  # type: ignore[dict-item]


def test_one_connection_per_machine(pool: ShellPool, market: CountedMarket) -> None:
    """Kept between uses, also when the host key was learned meanwhile."""
    first = pool.open("m", "mock", HOST, KEY)
    assert pool.open("m", "mock", Access("host", 22, host_key="ssh-ed25519 A"), KEY) is first
    pool.open("other", "mock", HOST, KEY)
    assert len(market.shells) == 2


def test_a_broken_connection_is_dropped(pool: ShellPool, market: CountedMarket) -> None:
    """The next caller connects anew."""
    first = pool.open("m", "mock", HOST, KEY)
    market.shells[0].broken = True
    with pytest.raises(Unreachable):
        first.perform(COMMAND)
    pool.open("m", "mock", HOST, KEY).perform(COMMAND)
    assert (len(market.shells), market.shells[0].closed) == (2, 1)


def test_an_old_failure_does_not_drop_the_new_connection(pool: ShellPool, market: CountedMarket) -> None:
    """Two who shared a broken shell both report it; only that one goes."""
    first = pool.open("m", "mock", HOST, KEY)
    pool.drop("m")
    second = pool.open("m", "mock", HOST, KEY)
    market.shells[0].broken = True
    with pytest.raises(Unreachable):
        first.perform(COMMAND)
    assert pool.open("m", "mock", HOST, KEY) is second


def test_a_new_port_is_a_new_connection(pool: ShellPool, market: CountedMarket) -> None:
    """The old one is closed."""
    pool.open("m", "mock", HOST, KEY)
    pool.open("m", "mock", Access("host", 2222), KEY)
    assert (len(market.shells), market.shells[0].closed) == (2, 1)


def test_a_host_that_hangs_blocks_no_other(pool: ShellPool, market: CountedMarket) -> None:
    """Callers of the same machine wait and share what comes."""
    got: list[Shell] = []
    threads = [threading.Thread(target=lambda: got.append(pool.open("m", "mock", Access("slow", 22), KEY)))
               for _ in range(4)]
    for thread in threads:
        thread.start()
    pool.open("other", "mock", HOST, KEY)
    market.go.set()
    for thread in threads:
        thread.join()
    assert (len(set(map(id, got))), len(market.shells)) == (1, 2)
    pool.close()
    assert [shell.closed for shell in market.shells] == [1, 1]
