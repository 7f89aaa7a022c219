"""Several installations with one account: each takes care of its own machines and of no other."""

from collections.abc import Callable

from tests.end_to_end.cloud_process import Cloud
from tests.end_to_end.home import Home
from tests.services import wait_until


def shown(home: Home, *flags: str) -> dict[str, dict[str, object]]:
    """Machines by provider id, as this home sees them."""
    return {one["id"]: one for one in home.run("machines", "--all", "-o", "json", *flags).json}


def test_two_installations_and_an_empty_third_leave_each_other_alone(
    homes: Callable[..., Home], cloud: Cloud
) -> None:
    """Reap, guard and machines of one never touch the other's; to an empty one both are foreign, and stay."""
    first, second, third = (homes(cloud) for _ in range(3))
    jobs = [home.submit("sleep 600", budget="0.20") for home in (first, second)]
    for home, job in zip((first, second), jobs, strict=True):
        home.wait_place(job, "running/run")
    mine, other = (
        home.rows("select provider_id from machines")[0][0] for home in (first, second)
    )
    assert {id: one["ours"] for id, one in shown(first).items()} == {mine: True, other: False}
    assert {id: one["ours"] for id, one in shown(second).items()} == {mine: False, other: True}

    turns = "select count(*) from turns where kind = 'guard'"
    wait_until(lambda: all(home.rows(turns)[0][0] for home in (first, second)), "both guards look")
    for home, foreign in ((first, [other]), (second, [mine]), (third, sorted([mine, other]))):
        report = home.run("reap", "-o", "json").json
        assert (report["destroyed"], sorted(report["foreign"])) == ([], sorted(foreign))
    assert {one["ours"] for one in shown(third).values()} == {False}
    assert third.run("status", "-o", "json").json["alarms"] == []

    first.run("cancel", jobs[0])
    first.wait_clean(jobs[0])
    alive = [one["id"] for one in cloud.machines() if one["state"] != "gone"]
    assert (alive, second.place(jobs[1])) == ([other], "running/run")
    assert [one for one in cloud.requests("delete") if one["path"].endswith(other)] == []
    second.run("cancel", jobs[1])
    second.wait_clean(jobs[1])
    assert cloud.alive() == 0
