"""A provider's calls go wrong, one way after the other: the job arrives, nothing lives on, and the book is the bill."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from tests.end_to_end.cloud_process import CHEAP, Cloud
from tests.end_to_end.home import Home
from tests.services import wait_until

SECOND_BEST = {**CHEAP, "gpu": "A5000", "price_per_hour": "0.54"}


def succeeds(home: Home) -> dict[str, Any]:
    """Hand in a short job, wait for its end; its document. It succeeded, nothing is alive, book equals bill."""
    file = home.job_file("echo here > out", outputs=["out"])
    done: dict[str, Any] = home.run("submit", file, "--wait", "-o", "json").json
    home.wait_clean(done["id"])
    assert done["results"] == "complete"
    home.assert_settled()
    return done


@pytest.mark.parametrize(
    "rule",
    [
        {"on": "create", "do": {"drop_answer": True}},
        {"on": "create", "do": {"no_answer": True}},
        {"on": "create", "do": {"done_then_status": 502}},
        {"on": "create", "do": {"drop_answer": True, "hide_for_s": 6}},
        {"on": "get", "for_s": 15, "do": {"status": 404}},
        {"on": "list", "times": 8, "do": {"status": 429, "body": "slow down", "headers": {"Retry-After": "1"}}},
        {"on": "boot", "do": {"sshd_s": 2, "banner_s": 2, "key_s": 3}},
    ],
    ids=["drop_answer", "no_answer", "done_then_502", "hidden", "get_404", "list_429_text", "slow_ssh"],
)
def test_one_machine_carries_the_job_through(home: Home, cloud: Cloud, rule: dict[str, Any]) -> None:
    """The fault costs time and no second machine: one was created, and the job succeeds on it."""
    cloud.faults(rule)
    done = succeeds(home)
    assert cloud.hits() != [0]
    assert (len(cloud.machines()), len(done["attempts"])) == (1, 1)


@pytest.mark.parametrize(
    ("rule", "machines"),
    [
        ({"on": "create", "times": 2, "do": {"no_capacity": True}}, 1),
        ({"on": "create", "do": {"price_factor": 2}}, 2),
    ],
    ids=["no_capacity", "dearer_than_agreed"],
)
def test_another_offer_is_taken(home: Home, cloud: Cloud, rule: dict[str, Any], machines: int) -> None:
    """What is not to be had, or dearer than agreed, is let go at once, and the next offer carries the job."""
    cloud.market(CHEAP, SECOND_BEST, {**SECOND_BEST, "gpu": "A6000", "price_per_hour": "0.60"})
    cloud.faults(rule)
    done = succeeds(home)
    assert (len(cloud.machines()), done["attempts"][-1]["outcome"]) == (machines, "succeeded")
    assert done["attempts"][-1]["gpu"] != done["attempts"][0]["gpu"]


def test_kill_during_the_create_call(home: Home, cloud: Cloud) -> None:
    """kill -9 of everything while the answer is on its way: the machine is found by its label, no second is made."""
    cloud.faults({"on": "create", "do": {"delay_after_s": 5}})
    job = home.submit("echo here > out", outputs=["out"])
    wait_until(lambda: bool(cloud.machines()), "the machine is made, the answer is held back")
    home.kill_all()
    home.run("up", "-d")
    done = home.wait_clean(job)
    assert (done["state"], len(cloud.machines()), len(done["attempts"])) == ("succeeded", 1, 1)
    home.assert_settled()


def test_deletes_that_fail_are_shouted_and_nothing_is_settled_meanwhile(home: Home, cloud: Cloud) -> None:
    """Deletes answer 500 and lists are empty: status alarms, the book stays open; later all is well."""
    job = home.submit_waiting()
    cloud.faults({"on": "delete", "times": 0, "do": {"status": 500}}, {"on": "list", "times": 3, "do": {"empty": True}})
    home.let_finish()
    home.wait_place(job, "succeeded")
    alarm = "select count(*) from alarms where code = 'delete_failed'"
    wait_until(lambda: home.rows(alarm) == [(1,)], "an alarm stands")
    told = home.run("status", "-o", "json").json
    assert "delete_failed" in [one["code"] for one in told["alarms"]]
    assert (cloud.alive(), told["jobs"][0]["cleanup"], told["jobs"][0]["cost"]["settled"]) == (1, "pending", "0.00")
    cloud.faults()
    home.wait_clean(job)
    assert home.run("status", "-o", "json").json["alarms"] == []
    home.assert_settled()


def test_an_empty_list_ends_no_job(home: Home, cloud: Cloud) -> None:
    """Lists that are empty by mistake while it runs: the job goes on where it is."""
    job = home.submit_waiting()
    cloud.faults({"on": "list", "times": 4, "do": {"empty": True}})
    wait_until(lambda: cloud.hits() == [4], "four lists were empty")
    assert (home.place(job), cloud.alive()) == ("running/run", 1)
    home.let_finish()
    done = home.wait_clean(job)
    assert (done["state"], len(done["attempts"])) == ("succeeded", 1)
    home.assert_settled()


def test_an_answer_that_names_no_machine_of_ours(homes: Callable[..., Home], cloud: Cloud) -> None:
    """The create answers an id that never exists: the job succeeds on a real one, and nothing lives on."""
    cloud.market(CHEAP, SECOND_BEST)
    cloud.faults({"on": "create", "do": {"ghost_id": True}})
    home = homes(cloud, clock_url=f"{cloud.url}/_cloud/clock")
    job = home.submit("echo here > out", outputs=["out"], max_duration="20m", budget="3.00")
    wait_until(lambda: cloud.hits() == [1], "the ghost was named")

    def over() -> bool:
        cloud.advance(15)
        return home.rows("select cleanup from jobs where id = ?", job) == [("done",)]

    wait_until(over, "the job is over", 90)
    done = home.job(job)
    assert done["state"] == "succeeded"
    assert cloud.alive() == 0
    booked = Decimal(home.run("spend", "-o", "json").json["total"])
    assert booked >= cloud.total()
