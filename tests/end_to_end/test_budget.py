"""The budget holds: with us alive by the soft stop, with us dead by whatever the machine's market has."""

from collections.abc import Callable
from decimal import Decimal

from tests.end_to_end.cloud_process import CHEAP, Cloud
from tests.end_to_end.home import Home
from tests.services import wait_until

DEAR = {**CHEAP, "price_per_hour": "3.60"}  # a tenth of a cent per second
BUDGET = "0.05"  # 50 seconds, of which the ladder of stops takes 36


def offer(stop: str) -> dict[str, object]:
    """The dear machine in a market of this stop class."""
    return {**DEAR, "capabilities": {"stop": stop}}


def test_a_job_that_would_cost_more_is_stopped_before(home: Home, cloud: Cloud) -> None:
    """With us alive: TERM in time for its results, state stopped, reason budget, exit 3, less than the budget spent."""
    cloud.market(DEAR)
    file = home.job_file("trap 'echo saved > out; exit 0' TERM; while :; do sleep 0.1; done", budget=BUDGET,
                         outputs=["out"])  # fmt: skip
    done = home.run("submit", file, "--wait", "-o", "json", code=3).json
    assert (done["state"], done["reason_code"], done["results"]) == ("stopped", "budget", "complete")
    assert "0.05" in done["reason"]
    assert Decimal(0) < home.assert_settled() < Decimal(BUDGET)


def all_within_the_budget(homes: list[Home]) -> None:
    """Wait, with all of us dead, for every machine's end: by the cloud's own clock it lies within the budget."""
    for home in homes:
        assert home.cloud is not None
        wait_until(lambda cloud=home.cloud: cloud.alive() == 0, "it ended without us", 90)
        [machine] = home.cloud.machines()
        assert Decimal(0) < Decimal(machine["cost"]) <= Decimal(BUDGET), home.path


def on_their_way(homes: Callable[..., Home], clouds: Callable[[], Cloud], run: str, *rules: dict[str, object],
                 stops: tuple[str, ...]) -> list[Home]:  # fmt: skip
    """A home with a cloud of its own for each stop class, and a job `job` on its way in each."""
    made = []
    for stop in stops:
        cloud = clouds()
        cloud.market(offer(stop))
        cloud.faults(*rules)
        made.append(homes(cloud, boot_limit="20s"))
    submits = [home.start("submit", home.job_file(run, budget=BUDGET), "--id", "job") for home in made]
    assert [home.said(submit).code for home, submit in zip(made, submits, strict=True)] == [0] * len(made)
    return made


def test_with_all_of_us_dead_a_running_job_stays_within(
    homes: Callable[..., Home], clouds: Callable[[], Cloud]
) -> None:
    """kill -9 of everything while it runs, for all three stop classes: each machine ends by itself in time."""
    run = "trap '' TERM; while :; do sleep 0.1; done"
    made = on_their_way(homes, clouds, run, stops=("hard", "boot", "late"))
    for home in made:
        home.wait_place("job", "running/run")
        home.kill_all()
    all_within_the_budget(made)
    for home in made:
        home.run("up", "-d")
    for home in made:
        done = home.wait_clean("job")
        assert (done["state"], done["reason_code"]) == ("stopped", "budget"), done["reason"]
        assert home.assert_settled() <= Decimal(BUDGET)


def test_with_all_of_us_dead_before_ssh_is_up_it_stays_within(
    homes: Callable[..., Home], clouds: Callable[[], Cloud]
) -> None:
    """kill -9 of everything while it boots, before anybody could log in: hard and boot end the machine all the same."""
    silent = {"on": "boot", "do": {"sshd_s": 600}}
    made = on_their_way(homes, clouds, "sleep 600", silent, stops=("hard", "boot"))
    for home in made:
        home.wait_place("job", "starting/booting")
        home.kill_all()
    all_within_the_budget(made)
    for home in made:
        home.run("cancel", "job")
    for home in made:
        home.wait_clean("job")
        assert home.assert_settled() <= Decimal(BUDGET)
