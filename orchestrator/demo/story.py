"""The story in acts: each lets something go wrong, and proves from books that are not ours that it was mended."""

import json
import shutil
import signal
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import click

from jobs.money import SECOND, cost, parse_usd, usd
from orchestrator.demo.stage import DemoFailed, Stage
from orchestrator.demo.viewer import Viewer
from providers.simulator import processes

_JOB: Final = ("submit", "examples/tiny-lm/job.yaml", "--mock")
_ENDLESS: Final = "PYTHONPATH=libs python3 train.py --seconds 600 --out results"
_GREEDY_LIFE: Final = 66 * SECOND  # what the second job's budget pays for; 36 s of it are kept for a clean stop
_DEAD_S: Final = 2.5
_BARS: Final = 15  # of the progress bar, five in a second: training is well under way
_CLEANUP_S: Final = 60.0


class Story:
    """Plays all acts on a stage. Raises DemoFailed (or another GpupoorError) at the first thing that does not hold."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._began = stage.clock.monotonic()
        self._proofs = 0

    def play(self) -> None:
        """All acts, about a minute."""
        click.secho("SIMULATED: no account, no money. The cloud and its machines are processes of this computer;\n"
                    "SSH, the jobs, the kill -9 and the book are real.", bold=True)  # fmt: skip
        click.echo(f"home: {self._stage.home}")
        self._look_at_the_market()
        with self._rent_with_a_lost_answer() as viewer:
            self._kill_the_orchestrator(viewer)
            self._hand_in_a_greedy_job()
            self._finish(viewer)
        self._stop_at_the_budget()
        self._compare_the_books()
        self._bring_results_home()
        self._leave_nothing()
        seconds = self._stage.clock.monotonic() - self._began
        click.secho(f"\n{self._proofs} proofs in {seconds:.0f} s. SIMULATED: nothing was spent.", bold=True)

    def _look_at_the_market(self) -> None:
        self._act("A market: what can be rented now, cheapest first")
        self._stage.type("offers", "--mock", "--gpu", "16GB", most_lines=5)

    def _rent_with_a_lost_answer(self) -> Viewer:
        self._act("The cloud makes the machine, and its answer is lost")
        self._stage.cloud("faults", {"rules": [{"on": "create", "do": {"drop_answer": True}}]})
        viewer = self._stage.view(*_JOB, "--follow")
        try:
            viewer.show(until=lambda: b" running (" in viewer.err)
            self._still_runs(viewer)
            job, bill = self._job("tiny-lm"), self._stage.cloud("bill")
            creates = [one for one in self._stage.cloud("requests") if one["call"] == "create"]
            click.echo()
            self._prove(self._stage.cloud("faults")[0]["hits"] == 1, "the answer of the create call was really dropped")
            self._prove(len(creates) == 1 == len(bill["machines"]), "one create call was sent, one machine exists")
            machine, attempt = bill["machines"][0], job["attempts"][0]
            found = machine["label"] == creates[0]["body"]["label"] and machine["id"] == attempt["machine_id"]
            self._prove(found, f"found again by its label {machine['label']}: {machine['id']}")
            click.echo(f"      chosen: {attempt['offer_reason']}")
        except BaseException:
            viewer.close()
            raise
        return viewer

    def _kill_the_orchestrator(self, viewer: Viewer) -> None:
        self._act("kill -9 of our own orchestrator, in the middle of the training")
        viewer.show(until=lambda: viewer.out.count(b"% step") >= _BARS)
        self._still_runs(viewer)
        first = self._stage.orchestrator()
        mark = processes.mark_of(first) if first else None
        if not processes.send(mark, signal.SIGKILL):
            raise DemoFailed("the orchestrator was dead before it was killed")
        self._wait(lambda: self._stage.orchestrator() is None, 10, "the orchestrator outlived kill -9")
        log = self._machine_log(self._job("tiny-lm"))
        before = log.stat().st_size
        until = self._stage.clock.monotonic() + _DEAD_S
        viewer.show(until=lambda: self._stage.clock.monotonic() > until)
        click.secho(f"\n  killed process {first}; for {_DEAD_S} s nobody follows the job", fg="cyan")
        grown = log.stat().st_size - before
        self._prove(grown > 0, f"the job goes on alone: its log on the machine grew by {grown} bytes")
        self._stage.type("up", "-d")
        second = self._stage.orchestrator()
        self._prove(second not in (None, first), f"a new orchestrator (process {second}) took the job over")

    def _hand_in_a_greedy_job(self) -> None:
        self._act("Meanwhile a greedy job: ten minutes of training, money for one")
        price = parse_usd(self._job("tiny-lm")["attempts"][0]["price_per_hour"])
        budget = usd(-(-cost(price, _GREEDY_LIFE) // 100) * 100)
        self._stage.type(*_JOB, "--name", "greedy", "--budget", budget, "--set", "grace=2s", "--set", f"run={_ENDLESS}")

    def _finish(self, viewer: Viewer) -> None:
        self._act("The first job again, to its end")
        viewer.show(limit_s=300)
        job = self._job("tiny-lm")
        self._prove(viewer.code == 0 and job["state"] == "succeeded", f"{job['handle']} succeeded, exit code 0")
        there = self._machine_log(job).read_bytes()
        here, seen = self._stage.read("logs", job["handle"]), bytes(viewer.out)
        self._prove(here == there == seen, f"its log has no gap and no double: {len(there)} bytes, sha256 "
                    f"{sha256(there).hexdigest()[:12]} on the machine, in the store and on this screen")  # fmt: skip
        once = there.count(b"fresh model") == 1 and b"resumed" not in there and len(job["attempts"]) == 1
        self._prove(once, "it was started once, on one machine")

    def _stop_at_the_budget(self) -> None:
        self._act("The greedy job: stopped before its money ends, with time to save")
        with self._stage.view("logs", "greedy", "--follow") as viewer:
            viewer.show(limit_s=180)
            code = viewer.code
        job = self._over("greedy")
        spent = parse_usd(job["cost"]["settled"])
        self._prove(job["reason_code"] == "budget" and code == 3, f"{job['reason']}; exit code 3")
        self._prove(0 < spent <= parse_usd(job["budget"]), f"budget ${job['budget']}, spent ${usd(spent)}")
        if b"asked to stop: saving" not in viewer.out:
            click.echo("      (this computer is slow: the money ended before the training began)")
            return
        self._stage.type("pull", "greedy", "greedy-results")
        saved = [path.name for path in (self._stage.folder / "greedy-results").glob("results/checkpoints/*.npz")]
        home = job["results"] == "complete" and bool(saved)
        self._prove(home, f"its checkpoints are home: {', '.join(sorted(saved))}")

    def _compare_the_books(self) -> None:
        self._act("The cloud's bill against our book")
        jobs = [self._over("tiny-lm"), self._over("greedy")]
        bill = self._stage.cloud("bill")
        self._stage.type("spend", "--mock")
        # Told by month: a demo that is played at midnight may have two.
        months = {machine[at][:7] for machine in bill["machines"] for at in ("created_at", "ended_at") if machine[at]}
        book = sum(parse_usd(self._stage.document("spend", "--mock", "--month", month)["total"]) for month in months)
        self._prove(parse_usd(bill["total"]) == book > 0, f"the cloud bills ${bill['total']}, we book ${usd(book)}")
        settled = sum(parse_usd(job["cost"]["settled"]) for job in jobs)
        self._prove(settled == book and len(bill["machines"]) == len(jobs), "that is two machines for two jobs")
        listed = self._stage.document("machines", "--mock")
        self._prove(bill["alive"] == 0 and listed == [], "no machine is alive, says the cloud; so do we")

    def _bring_results_home(self) -> None:
        self._act("The results")
        self._stage.type("pull", "tiny-lm", "tiny-lm-results")
        metrics = json.loads((self._stage.folder / "tiny-lm-results" / "results" / "metrics.json").read_bytes())
        price = self._job("tiny-lm")["cost"]["settled"]
        self._prove(metrics["complete"] is True, f"metrics.json: {json.dumps(metrics)}, for sim ${price}")

    def _leave_nothing(self) -> None:
        self._act("The end")
        self._stage.type("down")
        self._prove(self._stage.wait_until_empty(), "no process of the demo is left")

    def _act(self, title: str) -> None:
        click.secho(f"\n{'─' * 3} {title} ".ljust(min(shutil.get_terminal_size().columns, 118), "─"), bold=True)

    def _prove(self, holds: bool, text: str) -> None:
        """Raises DemoFailed where it does not hold."""
        if not holds:
            raise DemoFailed(f"this does not hold: {text}")
        self._proofs += 1
        click.echo(f"  {click.style('ok', fg='green', bold=True)}  {text}")

    def _wait(self, met: Callable[[], bool], limit_s: float, otherwise: str) -> None:
        until = self._stage.clock.monotonic() + limit_s
        while not met():
            if self._stage.clock.monotonic() > until:
                raise DemoFailed(otherwise)
            self._stage.clock.sleep(0.05)

    def _still_runs(self, viewer: Viewer) -> None:
        if viewer.code is not None:
            last = (viewer.err.decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
            raise DemoFailed(f"the job ended too early: {last}")

    def _job(self, name: str) -> dict[str, Any]:
        job: dict[str, Any] = self._stage.document("status", name)
        return job

    def _over(self, name: str) -> dict[str, Any]:
        """The job once its machine is proved gone."""
        gone = f"the machine of {name} was not proved gone in {_CLEANUP_S:.0f} s"
        self._wait(lambda: self._job(name)["cleanup"] == "done", _CLEANUP_S, gone)
        return self._job(name)

    def _machine_log(self, job: dict[str, Any]) -> Path:
        """The log on the machine itself, whose folder the cloud keeps after its end."""
        attempt = job["attempts"][-1]
        machines = self._stage.cloud("bill")["machines"]
        home = next(one["home"] for one in machines if one["id"] == attempt["machine_id"])
        return Path(home) / "gpupoor" / f"{job['handle']}-{attempt['number']}.log"
