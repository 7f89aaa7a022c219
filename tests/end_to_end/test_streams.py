"""Everything of ours dies at random moments, and neither the job nor its streams notice."""

import random
import time
from hashlib import sha256
from pathlib import Path

from tests.end_to_end.cloud_process import Cloud
from tests.end_to_end.home import Home
from tests.services import wait_until

KILLS = 20
TALK = """
echo started >> ../starts
python3 -u - <<'END'
import os, sys, time
number = 0
while not os.path.exists("enough"):
    print("line", number)
    print("warning", number, file=sys.stderr)
    number += 1
    time.sleep(0.01)
open("result.txt", "w").write(str(number))
END
"""


def test_twenty_kills_lose_and_double_nothing(home: Home, cloud: Cloud) -> None:
    """Both streams equal the machine's own files, the job started once, and book and bill agree."""
    chance = random.Random(20)
    job = home.submit(TALK, outputs=["result.txt"], budget="1.00", max_duration="5m")
    wait_until(lambda: home.place(job) != "", "it was accepted")
    for _ in range(KILLS):
        time.sleep(chance.choice((0.05, 0.4, 1.0, 2.5)) * chance.random())
        home.kill_all()
        home.start("up", "-d")
        home.start("logs", job, "-f")
    home.run("up", "-d")
    home.wait_place(job, "running/run", "starting/setup")
    [machine] = cloud.machines()
    work = next(Path(machine["home"]).glob("gpupoor/*-1"))
    follower = home.start("logs", job, "-f")
    talk = work.parent / f"{work.name}.log"
    wait_until(lambda: talk.exists() and talk.stat().st_size > 10_000, "it talks")
    (work / "enough").touch()

    done = home.wait_clean(job)
    assert (done["state"], done["results"], len(done["attempts"])) == ("succeeded", "complete", 1), done
    assert (work.parent / "starts").read_text() == "started\n"
    whole, errors = ((work.parent / f"{work.name}.{name}").read_bytes() for name in ("log", "stderr"))
    assert sha256(home.log(job)).digest() == sha256(whole).digest()
    assert sha256(home.log(job, "--stderr")).digest() == sha256(errors).digest()
    home.said(follower)
    assert (home.desk / f"{home.started.index(follower)}.out").read_bytes() == whole
    home.run("pull", job, "results")
    assert (home.desk / "results" / "result.txt").read_text() == str(errors.count(b"\n"))
    assert home.assert_settled() == cloud.total() > 0
