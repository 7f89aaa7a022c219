"""A secret of a job is where the job is, and nowhere else."""

import base64
import json
from pathlib import Path

from tests.end_to_end.cloud_process import Cloud
from tests.end_to_end.home import Home

MARKER = "marker-9f27c1d04b-of-a-secret"
CHECK = 'test "${#MY_TOKEN}" = 29; echo secret is there; until [ -e enough ]; do sleep 0.1; done'


def process_lists() -> bytes:
    """The command lines of every process of this computer."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes())
        except OSError:
            continue
    return b"\n".join(found)


def holders(home: Home) -> list[str]:
    """The files of the installation in which the secret stands, plain or in base64."""
    forms = (MARKER.encode(), base64.b64encode(MARKER.encode()).rstrip(b"=")[:-1])
    return [
        str(path.relative_to(home.path))
        for path in home.path.rglob("*")
        if path.is_file() and any(form in path.read_bytes() for form in forms)
    ]


def test_a_secret_reaches_the_job_and_nothing_else(home: Home, cloud: Cloud) -> None:
    """Not in database, logs, blobs or process lists, not in what the provider is asked, not in status."""
    file = home.job_file(CHECK, secrets=["MY_TOKEN"])
    submitted = home.run("submit", file, "-o", "json", MY_TOKEN=MARKER)
    job = submitted.json["id"]
    home.wait_place(job, "running/run")
    assert MARKER.encode() not in process_lists()
    while_running = home.run("status", job, "-o", "json").out
    assert holders(home) == []
    home.let_finish()
    done = home.wait_clean(job)
    assert done["state"] == "succeeded"
    assert home.log(job) == b"secret is there\n"
    everything = [submitted.out, submitted.err, while_running, json.dumps(done), json.dumps(cloud.requests()),
                  home.run("status", job).out]  # fmt: skip
    assert [one for one in everything if MARKER in one] == []
    assert holders(home) == []
    assert home.rows("select secrets_sealed from jobs") == [(None,)]
    assert home.rows("select ssh_key_sealed from machines") == [(None,)]
