"""Machines that never come up, lie, break, freeze or vanish: the job goes on or elsewhere, and the book is the bill."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from tests.end_to_end.cloud_process import CHEAP, Cloud
from tests.end_to_end.home import Home
from tests.services import wait_until

SECOND_BEST = {**CHEAP, "gpu": "A5000", "price_per_hour": "0.54"}
ONE_CARD = "RTX-4090, 24576, 8.9, 550.54.15"


@pytest.fixture(autouse=True)
def two_offers(cloud: Cloud) -> None:
    """A host that failed us is avoided, so there is another."""
    cloud.market(CHEAP, SECOND_BEST)


def attempts_of(home: Home, job: str) -> list[tuple[str, str]]:
    """The end of a job that succeeded in the end: (GPU, outcome) of each attempt. Book equals bill."""
    done = home.wait_clean(job, 120)
    assert (done["state"], done["results"]) == ("succeeded", "complete"), done
    home.assert_settled()
    return [(attempt["gpu"], attempt["outcome"]) for attempt in done["attempts"]]


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ({"on": "boot", "do": {"never_boots": True}}, "boot_limit"),
        ({"on": "gpu", "do": {"gpu_report": "No devices were found"}}, "No devices were found"),
        ({"on": "gpu", "do": {"gpu_report": "hang"}}, "nvidia-smi"),
    ],
    ids=["never_boots", "no_card", "nvidia_smi_hangs"],
)
def test_a_bad_machine_goes_back_and_the_next_does_the_work(
    homes: Callable[..., Home], cloud: Cloud, rule: dict[str, Any], reason: str
) -> None:
    """The job is told why, the host is avoided, and the next offer carries it; two machines, none alive."""
    cloud.faults(rule)
    home = homes(cloud, boot_limit="40s" if rule["on"] != "boot" else "8s")
    job = home.submit("echo here > out", outputs=["out"], resources={"gpu": "24GB"})
    assert attempts_of(home, job) == [("RTX-4090", "host"), ("A5000", "succeeded")]
    assert reason in home.events_text(job)
    assert home.rows("select count(*) from bad_hosts") == [(1,)]


def test_a_missing_card_is_noticed(homes: Callable[..., Home], cloud: Cloud) -> None:
    """Two cards were rented and one is there: it goes back before a byte is uploaded."""
    cloud.market({**CHEAP, "gpu_count": 2}, {**SECOND_BEST, "gpu_count": 2})
    cloud.faults({"on": "gpu", "do": {"gpu_report": ONE_CARD}})
    home = homes(cloud, max_gpus="2")
    job = home.submit("echo here > out", outputs=["out"], resources={"gpu": "24GB:2"})
    assert attempts_of(home, job) == [("RTX-4090", "host"), ("A5000", "succeeded")]
    text = home.events_text(job)
    assert "1 of 2 GPUs" in text, text


def test_another_host_key_is_another_machine(home: Home, cloud: Cloud) -> None:
    """Every connection after the first shows another key: nothing is sent there, the job goes on elsewhere."""
    cloud.faults({"on": "boot", "do": {"wrong_host_key": True}})
    job = home.submit_waiting()
    home.kill_all()
    home.run("up", "-d")
    wait_until(lambda: len(cloud.machines()) == 2, "another machine is rented")
    home.wait_place(job, "running/run")
    home.let_finish()
    assert attempts_of(home, job) == [("RTX-4090", "host"), ("A5000", "succeeded")]


@pytest.mark.parametrize(("verb", "outcome"), [("preempt", "preempted"), ("kill", "host")])
def test_a_machine_that_ends_under_the_job_is_replaced(home: Home, cloud: Cloud, verb: str, outcome: str) -> None:
    """Taken away or dead: the job runs again on another machine, the cause is told, and no retry is used up."""
    job = home.submit_waiting()
    cloud.hurt(cloud.machines()[0]["id"], verb)
    wait_until(lambda: len(cloud.machines()) == 2, "another machine is rented", 90)
    home.wait_place(job, "running/run")
    home.let_finish()
    assert [what for _, what in attempts_of(home, job)] == [outcome, "succeeded"]


def test_a_container_that_restarts_is_a_host_fault_and_starts_nothing_again(home: Home, cloud: Cloud) -> None:
    """The disk is wiped under the job: its attempt ends, and the next one runs elsewhere, once."""
    job = home.submit_waiting()
    first = cloud.machines()[0]
    cloud.hurt(first["id"], "restart")
    wait_until(lambda: len(cloud.machines()) == 2, "another machine is rented", 90)
    home.wait_place(job, "running/run")
    home.let_finish()
    assert attempts_of(home, job) == [("RTX-4090", "host"), ("A5000", "succeeded")]
    assert home.event_words(job).count("started") == 2


def test_a_machine_that_vanishes_is_booked_up_to_its_proof(home: Home, cloud: Cloud) -> None:
    """Gone without a trace: nobody tells its end, so the book is the bound above the bill."""
    job = home.submit_waiting()
    cloud.hurt(cloud.machines()[0]["id"], "vanish")
    wait_until(lambda: len(cloud.machines()) == 2, "another machine is rented", 90)
    home.wait_place(job, "running/run")
    home.let_finish()
    done = home.wait_clean(job)
    assert [one["outcome"] for one in done["attempts"]] == ["host", "succeeded"]
    book = Decimal(done["cost"]["settled"])
    assert cloud.alive() == 0
    bound = home.rows("select sum(bound) > 0 from entries where kind = 'settle'")
    assert (cloud.total() < book < cloud.total() + Decimal("0.02"), bound) == (True, [(1,)])


def test_a_minute_without_network_is_caught_up(home: Home, cloud: Cloud) -> None:
    """The machine cannot be reached for a minute: the job works on, its whole log arrives, it is the same attempt."""
    talk = "n=0; until [ -e enough ]; do echo line $n; n=$((n+1)); sleep 0.2; done; echo $n > out"
    job = home.submit(talk, outputs=["out"])
    home.wait_place(job, "running/run")
    machine = cloud.machines()[0]["id"]
    stored = home.rows("select log_bytes from attempts")[0][0]
    cloud.hurt(machine, "partition", seconds=60)
    silent = "select count(*) from attempts where silent_since is not null"
    wait_until(lambda: home.rows(silent) == [(1,)], "it is silent", 60)
    wait_until(lambda: home.rows(silent) == [(0,)], "it is heard again", 90)
    wait_until(lambda: home.rows("select log_bytes from attempts")[0][0] > stored, "the log goes on")
    home.let_finish()
    assert [what for _, what in attempts_of(home, job)] == ["succeeded"]
    lines = home.log(job).decode().splitlines()
    assert lines == [f"line {number}" for number in range(len(lines))]
    assert len(lines) > 250


def test_a_frozen_machine_is_given_up_after_a_while(homes: Callable[..., Home], cloud: Cloud) -> None:
    """Connections stand and nothing answers: after the limit of silence the job runs on another machine."""
    home = homes(cloud, clock_url=f"{cloud.url}/_cloud/clock")
    job = home.submit_waiting(budget="3.00", max_duration="1h")
    cloud.hurt(cloud.machines()[0]["id"], "freeze")
    silent = "select count(*) from attempts where silent_since is not null"
    wait_until(lambda: home.rows(silent) == [(1,)], "it is silent", 60)
    assert home.place(job) == "running/run"
    cloud.advance(301)
    wait_until(lambda: len(cloud.machines()) == 2, "another machine is rented", 60)
    home.wait_place(job, "running/run")
    home.let_finish()
    assert [what for _, what in attempts_of(home, job)] == ["host", "succeeded"]
