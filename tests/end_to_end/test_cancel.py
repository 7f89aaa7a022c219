"""Cancel at every phase; nothing lives on, and what was used is paid."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.end_to_end.cloud_process import Cloud
from tests.end_to_end.home import Home
from tests.services import wait_until

NO_ROOM = {"on": "create", "times": 0, "do": {"no_capacity": True}}


@pytest.mark.parametrize(
    ("place", "rule", "fields"),
    [
        ("queued", NO_ROOM, {}),
        ("starting/renting", {"on": "create", "do": {"delay_after_s": 5}}, {}),
        ("starting/booting", {"on": "create", "do": {"boot_s": 600}}, {}),
        ("starting/probing", {"on": "gpu", "do": {"gpu_report": "hang"}}, {}),
        ("starting/uploading", {"on": "boot", "do": {"bandwidth_bytes_s": 100_000}}, {"workdir": "."}),
        ("starting/setup", None, {"setup": "sleep 600"}),
        ("running/run", None, {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_cancelled_at(
    home: Home, cloud: Cloud, place: str, rule: dict[str, Any] | None, fields: dict[str, Any]
) -> None:
    """The wish is heard in this phase: state cancelled, no machine, the book is the bill."""
    cloud.faults(*([rule] if rule else []))
    (home.desk / "data.bin").write_bytes(b"\0" * 2_000_000 if "workdir" in fields else b"")
    job = home.submit("sleep 600", **fields)
    home.wait_place(job, place)
    [told] = home.run("cancel", job, "-o", "json").json
    assert told["id"] == job
    done = home.wait_clean(job)
    assert (done["state"], done["reason_code"]) == ("cancelled", "cancelled")
    home.assert_settled()


def test_results_that_are_on_their_way_home_still_come(home: Home, cloud: Cloud) -> None:
    """A cancel while results are fetched does not lose them."""
    cloud.faults({"on": "boot", "do": {"bandwidth_bytes_s": 200_000}})
    job = home.submit("head -c 1000000 /dev/urandom > out", outputs=["out"])
    home.wait_place(job, "finishing/collecting")
    home.run("cancel", job)
    done = home.wait_clean(job)
    assert done["results"] == "complete"
    home.run("pull", job, "here")
    assert (home.desk / "here" / "out").stat().st_size == 1_000_000
    home.assert_settled()


def test_a_job_that_crashes_by_itself_is_tried_as_often_as_it_says(home: Home, cloud: Cloud) -> None:
    """retries: 2 makes three attempts, each on a machine of its own, each paid."""
    file = home.job_file("echo try; exit 3", retries=2, budget="1.00", max_duration="1m")
    done = home.run("submit", file, "--wait", "-o", "json", code=5).json
    assert [one["outcome"] for one in done["attempts"]] == ["own_exit"] * 3
    assert (done["exit_code"], len(cloud.machines())) == (3, 3)
    for number in (1, 2, 3):
        assert home.log(done["id"], "--attempt", str(number)) == b"try\n"
    home.assert_settled()


def test_down_is_refused_while_a_machine_lives(home: Home, cloud: Cloud) -> None:
    """Exit 3 with the price per hour, and everything goes on; afterwards it ends every process of ours."""
    job = home.submit_waiting()
    refused = home.run("down", code=3)
    assert "/h" in refused.err
    assert (home.place(job), cloud.alive()) == ("running/run", 1)
    home.let_finish()
    home.wait_clean(job)
    home.run("down")
    wait_until(lambda: home.pids() == [], "no process of ours is left")
    home.assert_settled()


def test_ten_queued_jobs_survive_the_end_of_everything(homes: Callable[..., Home], cloud: Cloud) -> None:
    """As after a power cut: all of us dead twice, started again, and every accepted job is done exactly once."""
    home = homes(cloud, max_gpus="5")
    file = home.job_file("echo once > out", outputs=["out"], budget="0.20", max_duration="1m")
    home.run("submit", *[file] * 10)
    for limit in (0, 3):
        over = "select count(*) >= ? from jobs where ended_at is not null"
        wait_until(lambda over=over, limit=limit: home.rows(over, limit) == [(1,)], f"{limit} are over", 60)
        home.kill_all()
        home.run("up", "-d")
    left = "select count(*) from jobs where state != 'succeeded' or cleanup != 'done'"
    wait_until(lambda: home.rows(left) == [(0,)], "all ten are done", 120)
    assert home.rows("select count(*), max(attempt_number) from jobs") == [(10, 1)]
    assert len(cloud.machines()) == 10
    home.assert_settled()
