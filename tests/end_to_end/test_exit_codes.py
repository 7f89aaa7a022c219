"""What a script relies on: each way to go wrong has its exit code and a text that says what would be right."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.end_to_end.cloud_process import CHEAP, Cloud
from tests.end_to_end.home import Home

GOOD = '{"name": "job", "budget": "0.30", "run": "true"}'
Settings = dict[str, str]


def text(**fields: Any) -> str:
    """A job file of these fields."""
    import json

    return json.dumps({"name": "job", "budget": "0.30", "run": "true", **fields})


@pytest.mark.parametrize(
    ("file", "flags", "settings", "code", "says"),
    [
        ("name: job\nbudget: 1\nrun: true\n  gpu: x\n", (), {}, 2, "job.yaml:4:"),
        ("name: job\nbudget: 1\nruns: true\n", (), {}, 2, "job.yaml:3:1"),
        ("name: job\nbudget: lots\nrun: 'true'\n", (), {}, 2, "job.yaml:2:9"),
        ("run: 'true'\n", (), {}, 2, "--budget"),
        (text(resources={"gpu": "RTX9999"}), (), {}, 2, "RTX9999"),
        (text(workdir="/"), (), {}, 2, "whole computer"),
        (text(workdir="."), (), {"bundle_limit": "1kB"}, 2, "bundle_limit"),
        (text(), ("--set", "resources.gpu=24GB:4"), {}, 3, "max_gpus 4"),
        (text(), ("--budget", "0.0001"), {}, 3, "--budget"),
        (text(), ("--now",), {"max_gpus": "0"}, 3, "nothing was queued"),
        (text(), ("--now", "--set", "resources.gpu=80GB"), {}, 3, "nothing was queued"),
        (text(), ("--id", "no/slash"), {}, 2, "--id"),
        (text(secrets=["NOT_THERE"]), (), {}, 2, "NOT_THERE"),
        (GOOD, ("--burst", "later"), {}, 2, "--burst"),
    ],
    ids=["indent", "unknown_key", "wrong_money", "no_budget", "unknown_gpu", "workdir_root", "bundle_over",
         "never_fits", "budget_too_small", "now_no_gpus", "now_no_offer", "id", "secret", "not_yet"],
)  # fmt: skip
def test_a_submit_that_is_refused_queues_nothing(
    homes: Callable[..., Home], cloud: Cloud, file: str, flags: tuple[str, ...], settings: Settings,
    code: int, says: str,
) -> None:  # fmt: skip
    """The exit code, a text that names the place or the way out, no job, no request that creates."""
    home = homes(cloud, **settings)
    (home.desk / "job.yaml").write_text(file)
    (home.desk / "data.bin").write_bytes(bytes(range(256)) * 100)
    done = home.run("submit", "job.yaml", *flags, code=code)
    assert says in done.err, done.err
    assert "Traceback" not in done.err + done.out
    assert home.rows("select id from jobs") == []
    assert cloud.requests("create") == []


def test_a_database_that_is_silent_is_a_nine_and_tells_no_password(homes: Callable[..., Home], cloud: Cloud) -> None:
    """An address where nobody listens: exit 9, and the password of the address is nowhere in the text."""
    home = homes(cloud, database_url="postgresql://me:hunter2@127.0.0.1:9/gpupoor")
    for words in (("submit", home.job_file("true")), ("status",), ("budget",), ("up", "-d")):
        done = home.run(*words, code=9)
        assert "hunter2" not in done.err + done.out
        assert "Traceback" not in done.err
    assert cloud.requests("create") == []


def test_no_provider_and_no_simulation_is_a_two(homes: Callable[..., Home]) -> None:
    """Without any key: exit 2 that names both ways on."""
    home = homes(None)
    done = home.run("submit", home.job_file("true"), code=2)
    assert "gpupoor login" in done.err
    assert "--mock" in done.err


@pytest.mark.parametrize(
    ("fields", "flags", "code", "state", "reason_code"),
    [
        ({"run": "exit 23"}, (), 5, "failed", "own_exit"),
        ({"run": "exit 23"}, ("--exit-code",), 23, "failed", "own_exit"),
        ({"run": "true", "setup": "exit 9"}, (), 5, "failed", "own_exit"),
        ({"run": "sleep 600", "max_duration": "2s"}, (), 6, "stopped", "max_duration"),
        ({"run": "echo x > out", "outputs": ["out", "never"]}, (), 7, "succeeded", None),
        ({"run": "true", "outputs": ["never"]}, (), 7, "succeeded", None),
    ],
    ids=["own_exit", "passed_through", "setup", "max_duration", "one_output_missing", "all_outputs_missing"],
)
def test_how_a_job_ends_is_its_exit_code(
    home: Home, fields: dict[str, Any], flags: tuple[str, ...], code: int, state: str, reason_code: str | None
) -> None:
    """State, reason and exit code belong together; the machine is gone and paid in each case."""
    file = home.job_file(**fields)
    done = home.run("submit", file, "--wait", "-o", "json", *flags, code=code).json
    assert (done["state"], done["reason_code"]) == (state, reason_code)
    home.assert_settled()


def test_waiting_too_long_is_a_four(homes: Callable[..., Home], cloud: Cloud) -> None:
    """No capacity within max_wait: stopped, exit 4, nothing was paid."""
    cloud.market({**CHEAP, "capacity": 1})
    home = homes(cloud)
    cloud.faults({"on": "create", "times": 0, "do": {"no_capacity": True}})
    file = home.job_file("true", max_wait="3s")
    done = home.run("submit", file, "--wait", "-o", "json", code=4).json
    assert (done["state"], done["reason_code"]) == ("stopped", "no_capacity")
    home.assert_settled()


def test_cancelled_is_an_eight(home: Home) -> None:
    """Whoever waits for a job that somebody cancels gets 8."""
    file = home.job_file("sleep 600")
    waiter = home.start("submit", file, "--wait", "-o", "json", "--id", "mine")
    home.wait_place("mine", "running/run")
    home.run("cancel", "mine")
    done = home.said(waiter)
    assert (done.code, done.json["state"]) == (8, "cancelled")
    home.assert_settled()
