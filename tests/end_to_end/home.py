"""A fresh installation of one test: its GPUPOOR_HOME, its commands, and every process that came of them."""

import json
import os
import signal
import sqlite3
import subprocess
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from orchestrator.up import GUARD_LOCK, LOCK, is_held
from tests.end_to_end.cloud_process import GPUPOOR, Cloud
from tests.services import wait_until

SHORT = {"GPUPOOR_GUARD_EVERY": "1s", "GPUPOOR_GRACE": "2s", "GPUPOOR_LEASE": "15s", "GPUPOOR_BOOT_LIMIT": "60s"}


@dataclass
class Done:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its one document on stdout."""
        assert self.out, self.err
        return json.loads(self.out)


class Home:
    """One installation in `folder` at `cloud`. settings: by their environment names without the prefix."""

    def __init__(self, folder: Path, cloud: Cloud | None, **settings: str) -> None:
        folder.mkdir(parents=True)
        self.cloud, self.path, self.desk = cloud, folder / "home", folder / "desk"
        self.desk.mkdir()
        environment = {key: value for key, value in os.environ.items() if not key.startswith("GPUPOOR_")}
        own = {f"GPUPOOR_{name.upper()}": value for name, value in settings.items()}
        where = {"GPUPOOR_MOCK_URL": cloud.url} if cloud else {}
        self.environment = {**environment, **SHORT, "GPUPOOR_HOME": str(self.path), **where, **own}
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        """`gpupoor ...`, not waited for; its output is kept in `desk`."""
        number = len(self.started)
        with (self.desk / f"{number}.out").open("w") as out, (self.desk / f"{number}.err").open("w") as err:
            process = subprocess.Popen(
                [GPUPOOR, *words], cwd=self.desk, env={**self.environment, **environment}, text=True,
                stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
            )  # fmt: skip
        self.started.append(process)
        return process

    def said(self, process: subprocess.Popen[str], limit_s: float = 150) -> Done:
        """Wait for the end of a command that `start` started."""
        number = self.started.index(process)
        code = process.wait(limit_s)
        return Done(code, *((self.desk / f"{number}.{name}").read_text(errors="replace") for name in ("out", "err")))

    def run(self, *words: str, code: int | None = 0, **environment: str) -> Done:
        """`gpupoor ...` to its end; code: the exit code that is expected, None for any."""
        done = self.said(self.start(*words, **environment))
        assert code in (None, done.code), f"gpupoor {' '.join(words)}: {done.code}\n{done.out}\n{done.err}"
        return done

    def log(self, job: str, *flags: str) -> bytes:
        """What `gpupoor logs` gives, byte for byte."""
        self.run("logs", job, *flags)
        return (self.desk / f"{len(self.started) - 1}.out").read_bytes()

    def job_file(self, run: str, name: str = "job", **fields: Any) -> str:
        """Write a job file of these fields; its path. A budget of $0.30 unless another is named."""
        file = self.desk / f"{name}.yaml"
        file.write_text(json.dumps({"name": name, "budget": "0.30", "run": run, **fields}))
        return str(file)

    def submit(self, run: str, *flags: str, name: str = "job", **fields: Any) -> str:
        """Hand in a job and return its id."""
        return str(self.run("submit", self.job_file(run, name, **fields), "-o", "json", *flags).json["id"])

    def submit_waiting(self, **fields: Any) -> str:
        """Hand in a job that works until `let_finish`; its id, once it runs."""
        run = "echo here; until [ -e enough ]; do sleep 0.1; done; echo done > out"
        job = self.submit(run, **{"outputs": ["out"], **fields})
        self.wait_place(job, "running/run")
        return job

    def let_finish(self) -> None:
        """Let the jobs of `submit_waiting` come to their end, on whichever machine they are."""
        assert self.cloud is not None
        for machine in self.cloud.machines():
            for work in Path(machine["home"]).glob("gpupoor/*-[0-9]"):
                (work / "enough").touch()

    def job(self, job: str) -> dict[str, Any]:
        """The job's document."""
        found: dict[str, Any] = self.run("status", job, "-o", "json").json
        return found

    # -- what the rows say, without a command that might start something

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Read the database; nothing where there is none yet."""
        file = f"file:{self.path / 'gpupoor.db'}?mode=ro"
        try:
            with closing(sqlite3.connect(file, uri=True, timeout=30)) as base:
                return base.execute(query, values).fetchall()
        except sqlite3.OperationalError:
            return []

    def place(self, job: str) -> str:
        """`state/phase` of a job."""
        found = self.rows("select state, coalesce(phase, '') from jobs where id = ?", job)
        return "/".join(found[0]) if found else ""

    def wait_place(self, job: str, *places: str, limit_s: float = 60) -> None:
        """Until the job stands in one of these places (`running/run`, or a state alone)."""
        def there() -> bool:
            now = self.place(job)
            return now in places or now.split("/")[0] in places

        wait_until(there, f"{job} in {places}", limit_s)

    def wait_clean(self, job: str, limit_s: float = 90) -> dict[str, Any]:
        """Until the job is over and nothing of it is left; its document."""
        over = "select 1 from jobs where id = ? and ended_at is not null and cleanup in ('none', 'done')"
        wait_until(lambda: bool(self.rows(over, job)), f"{job} is over and cleaned up ({self.place(job)})", limit_s)
        return self.job(job)

    def event_words(self, job: str) -> list[str]:
        """What happened to a job, in order."""
        return [word for (word,) in self.rows("select word from events where job = ? order by id", job)]

    def events_text(self, job: str) -> str:
        """All that is told about a job, for looking for a word in it."""
        return "\n".join(f"{word} {data}" for word, data in self.rows(
            "select word, data from events where job = ? order by id", job))  # fmt: skip

    # -- processes

    def pids(self) -> list[int]:
        """The orchestrator and the guard of this home and its commands that still run, by what they hold or are."""
        held = [self.path / name for name in (LOCK, GUARD_LOCK) if is_held(self.path / name)]
        ours = [int(text) for lock in held if (text := lock.read_text().strip())]
        return [*ours, *(process.pid for process in self.started if process.poll() is None)]

    def pid_of(self, lock: str) -> int:
        """Of the orchestrator (LOCK) or the guard (GUARD_LOCK)."""
        return int((self.path / lock).read_text())

    def kill_all(self) -> None:
        """kill -9 to every process of ours, at once; returns when all are dead.

        A process that was just born has no lock yet, so it is looked for again.
        """
        def dead() -> bool:
            for pid in self.pids():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return not any(is_held(self.path / name) for name in (LOCK, GUARD_LOCK)) and not self.pids()

        wait_until(dead, "every process of this home is dead")

    def close(self) -> None:
        """Leave no process; twice, since one may have been on its way up."""
        self.kill_all()
        time.sleep(0.1)
        self.kill_all()

    def assert_settled(self) -> Decimal:
        """The book equals the bill to the micro-dollar, nothing is held or runs; dollars."""
        assert self.cloud is not None
        bill = self.cloud.bill()
        assert bill["alive"] == 0, bill
        spend = self.run("spend", "-o", "json").json
        book = Decimal(spend["total"])
        assert (book, Decimal(spend["running"])) == (Decimal(bill["total"]), Decimal(0)), (spend, bill)
        held = self.rows("select count(*) from balances where held != 0")
        settled = self.rows("select settled from balances where scope = 'overall'")
        assert (held, settled or [(0,)]) == ([(0,)], [(int(book * 1_000_000),)])
        return book
