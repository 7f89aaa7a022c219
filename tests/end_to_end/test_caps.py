"""Many who submit at once against a cap that holds three: never more than the cap is committed."""

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal

import pytest

from tests.end_to_end.cloud_process import CHEAP, Cloud
from tests.end_to_end.home import Home
from tests.services import wait_until

AT_ONCE, ROUNDS = 10, 10
CAP = 3_100_000  # micro-dollars: three jobs of a dollar, and no fourth
COMMITTED = "select coalesce(sum(settled + held), 0) from balances where scope = 'overall'"

WAITING = "select count(*) from jobs where state = 'queued' and waiting_for = 'budget'"
LEFT = "select count(*) from jobs where ended_at is null or cleanup not in ('none', 'done')"


class Sampler:
    """Reads what is committed again and again, until `close`. most: the highest that was seen."""

    def __init__(self, home: Home) -> None:
        self.most = self.count = 0
        self._over = threading.Event()
        self._file = home.path / "gpupoor.db"
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with closing(sqlite3.connect(f"file:{self._file}?mode=ro", uri=True, timeout=30)) as base:
            while not self._over.wait(0.005):
                self.most = max(self.most, base.execute(COMMITTED).fetchone()[0])
                self.count += 1

    def close(self) -> None:
        """End it."""
        self._over.set()
        self._thread.join()


@pytest.mark.timeout(900)
def test_ten_rounds_of_ten_at_once_never_commit_more_than_the_cap(homes: Callable[..., Home], cloud: Cloud) -> None:
    """Ten processes submit at the same moment, ten times: three run, the others wait, and the cap holds."""
    cloud.market({**CHEAP, "price_per_hour": "0.036", "boot_s": 600})
    home = homes(cloud, max_gpus="100", boot_limit="20m")
    home.run("up", "-d")
    home.run("budget", "set", "3.10")
    file = home.job_file("sleep 600", budget="1.00")
    sampler = Sampler(home)
    try:
        for _ in range(ROUNDS):
            together = [home.start("submit", file, "--mock") for _ in range(AT_ONCE)]
            during = [home.run("budget", "-o", "json").json["caps"][0] for _ in range(2)]
            assert [home.said(one).code for one in together] == [0] * AT_ONCE
            for cap in during:
                committed = sum(Decimal(cap[name]) for name in ("settled", "running", "reserved"))
                assert committed <= Decimal(cap["cap"]) == Decimal("3.10")
            wait_until(lambda: home.rows(WAITING) == [(AT_ONCE - 3,)], "seven wait for money")
            assert cloud.alive() <= 3
            home.run("cancel", "--all", "-y")
            wait_until(lambda: home.rows(LEFT) == [(0,)], "all are over", 90)
    finally:
        sampler.close()
    assert sampler.count > 100
    assert 3_000_000 <= sampler.most <= CAP
    home.assert_settled()
