"""A machine inside the process: acts by Command.kind and facts, answers in the bytes that a real one would."""

import io
import json
import re
import shlex
import tarfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from jobs.command import Command, Outcome
from jobs.money import SECOND
from providers.simulator.gpu_lines import CUDA
from providers.simulator.hosting import BootPlan
from providers.simulator.sim_job import FakeJob, SimJob

JOB_VARIABLE: Final = "FAKE_JOB"
_FUSE: Final = re.compile(r"^left=(\d+) grace=(\d+) by=(\d+)$", re.MULTILINE)
_HANG_S: Final = 20


class SimMachine:
    """Virtual hardware. Everything that time does to it is computed by `settle`, at its own instant.

    now: the cloud's time. jobs: tag -> what its job does; a variable FAKE_JOB in the job's env (a JSON
    object of FakeJob's numbers) counts more. starts: how often the work of a tag was really started.
    destroys: whether the fuse's last act gives the machine back.
    """

    def __init__(
        self,
        plan: BootPlan,
        now: Callable[[], int],
        jobs: Callable[[str], FakeJob],
        nvidia_smi: Callable[[], str],
        port: int,
        destroys: bool = True,
    ) -> None:
        self._plan, self._now, self._jobs, self._nvidia_smi, self._destroys = plan, now, jobs, nvidia_smi, destroys
        self.port, self.host_key = port, f"ssh-ed25519 simulated-{port}"
        self.booted_at = now()
        self.up_at = self.booted_at + round((plan.boot_s + plan.sshd_s + max(plan.banner_s, plan.key_s)) * SECOND)
        self.starts: Counter[str] = Counter()
        self.dead_at: int | None = None
        self.ended_by_itself: int | None = None
        self.lives = 0
        self._tags: dict[str, SimJob] = {}
        self._frozen_since: int | None = None
        self._cut_until = 0
        self._fuse_end: int | None = None
        self._grace = 0
        self._boot(self.booted_at + round(plan.boot_s * SECOND))

    # -- what happens to it

    def _boot(self, at: int) -> None:
        """The first boot command arms the fuse before anybody logs in."""
        self.lives += 1
        found = None if self._plan.never else _FUSE.search(self._plan.boot_text)
        self._fuse_end = min(at + int(found[1]) * SECOND, max(int(found[3]) * SECOND, at)) if found else None
        self._grace = int(found[2]) if found else 0

    def settle(self) -> None:
        """Let the fuse do what it did by now."""
        now = self._time()
        if self.dead_at is not None or self._fuse_end is None or self._fuse_end > now:
            return
        limit = self._fuse_end + self._grace * SECOND
        ends = [self._fuse_end]
        for job in self._tags.values():
            if job.started_at is not None and not job.over(self._fuse_end):
                job.term(self._fuse_end)
                job.kill(limit)
                ends.append(job.end()[0])
        if self._destroys and max(ends) <= now:
            self.dead_at = self.ended_by_itself = max(ends)

    def die(self) -> None:
        """All its processes end now."""
        self.settle()
        if self.dead_at is None:
            self.dead_at = self._now()

    def freeze(self) -> None:
        """Nothing on it moves; connections stay."""
        self.settle()
        if self._frozen_since is None:
            self._frozen_since = self._now()

    def unfreeze(self) -> None:
        """Everything goes on where it was; a fuse whose time came meanwhile fires now."""
        if self._frozen_since is None:
            return
        since, now = self._frozen_since, self._now()
        for job in self._tags.values():
            job.shift(since, now - since)
        if self._fuse_end is not None and self._fuse_end > since:
            self._fuse_end = max(self._fuse_end, now)
        self._frozen_since = None

    def cut(self, seconds: float) -> None:
        """No byte passes for so long."""
        self._cut_until = self._now() + round(seconds * SECOND)

    def restart(self) -> None:
        """A container restart: all processes die, the disk is wiped, the boot command runs again."""
        self.settle()
        if self.dead_at is None:
            self._tags.clear()
            self._frozen_since = None
            self._boot(self._now())

    # -- how it is reached

    def listens(self) -> bool:
        """Whether its port is open."""
        self.settle()
        return not self._plan.never and self.dead_at is None and self.up_at <= self._now()

    def silent(self) -> bool:
        """Whether a connection gets no answer now (frozen or cut off)."""
        return self._frozen_since is not None or self._now() < self._cut_until

    def accepts(self, public_key: str) -> bool:
        """Whether this key opens it."""
        return public_key.split()[:2] == self._plan.authorized_key.split()[:2]

    def new_port(self, port: int) -> None:
        """It listens elsewhere from now on."""
        self.port = port

    def change(self, plan: BootPlan) -> None:
        """Disk and host key are as in `plan` from now on."""
        if plan.wrong_host_key and not self._plan.wrong_host_key:
            self.host_key += "-other"
        self._plan = replace(self._plan, disk_gb=plan.disk_gb, wrong_host_key=plan.wrong_host_key)

    # -- what it is told

    def job(self, tag: str) -> SimJob | None:
        """What is known of a tag."""
        self.settle()
        return self._tags.get(tag)

    def uptime(self) -> int:
        """Whole seconds."""
        return (self._time() - self.booted_at) // SECOND

    def moment(self) -> int:
        """The instant up to which its processes have come."""
        return self._time()

    def act(self, command: Command, stdin: bytes = b"") -> Outcome:
        """Do a command whole. It must listen and not be silent."""
        self.settle()
        kind, facts = command.kind, command.facts
        if kind == "probe":
            return self._probe()
        if kind == "arm_fuse":
            return self._arm_fuse(_whole(facts["left_s"]), _whole(facts["grace_s"]))
        tag = str(facts["tag"])
        if kind == "hello":
            return self._hello(tag, str(facts["nonce"]), bool(facts["first"]))
        if kind == "pack":
            return self._pack(tag, str(facts["outputs"]))
        if kind == "manifest":
            return self._manifest(tag, str(facts["outputs"]))
        job = self._tags.setdefault(tag, SimJob())
        if kind == "unpack":
            job.unpacked = True
            return _reply(unpacked="yes")
        if kind == "prepare":
            job.prepared, job.work = True, self._work(tag, stdin)
            return _reply(prepared="yes")
        if kind == "start":
            return self._start(tag, job, str(facts["nonce"]))
        if kind == "stop":
            return self._stop(job, _whole(facts["grace_s"]))
        if kind == "tombstone":
            job.tombstone = True
            job.kill(self._now())
            return _reply(tombstone="dead")
        assert kind == "state", f"a simulated machine knows no {kind}"
        return self._state(job)

    def _time(self) -> int:
        now = self._now() if self._frozen_since is None else self._frozen_since
        return now if self.dead_at is None else min(now, self.dead_at)

    def _hello(self, tag: str, nonce: str, first: bool) -> Outcome:
        job = self._tags.setdefault(tag, SimJob())
        if first and not job.nonce:
            job.nonce = nonce
        return _reply(nonce=job.nonce, uptime=self.uptime(), user="root", home="/root", bash="yes")

    def _arm_fuse(self, left_s: int, grace_s: int) -> Outcome:
        if self._fuse_end is not None and self._fuse_end <= self._time():
            return _reply(fuse="fired")
        # Whole seconds of uptime, as the real one counts them.
        self._fuse_end = self.booted_at + (self.uptime() + left_s) * SECOND
        self._grace = grace_s
        return _reply(fuse="armed")

    def _probe(self) -> Outcome:
        said = self._nvidia_smi()
        lines = [] if said == "hang" else [line for line in said.splitlines() if line]
        cards = [line for line in lines if line.count(",") == 3 and "rror" not in line]
        bad = [line for line in lines if line not in cards] or ([] if cards else ["nvidia-smi: no GPU"])
        error = f"nvidia-smi: no answer in {_HANG_S} s" if said == "hang" else (bad or [""])[0]
        found = {f"gpu.{number}": card for number, card in enumerate(cards)}
        rest = {"gpu_error": error, "cuda": CUDA if cards else "", "disk_free_gb": int(self._plan.disk_gb)}
        return _reply(**found, **rest, memory_gb=64, cpus=16, python="3.11.9", tar="yes")

    def _work(self, tag: str, prepared: bytes) -> FakeJob:
        said = _variables(prepared).get(JOB_VARIABLE)
        return FakeJob(**json.loads(said)) if said else self._jobs(tag)

    def _start(self, tag: str, job: SimJob, nonce: str) -> Outcome:
        if job.tombstone:
            return Outcome(97, b"start=tombstone\n")
        if not job.nonce or job.nonce != nonce:
            return _reply(start="restarted")
        if job.started_at is not None:
            return _reply(start="already")
        if not job.prepared:
            return Outcome(1, b"", b"nothing was prepared\n")
        if self._fuse_end is not None and self._fuse_end <= self._now():
            return Outcome(97, b"start=tombstone\n")
        job.started_at = self._now()
        self.starts[tag] += 1
        return _reply(start="started")

    def _stop(self, job: SimJob, grace_s: int) -> Outcome:
        now = self._now()
        if job.over(now):
            return _reply(stop="over")
        if job.term_at is None or job.term_at > now:
            job.term(now)
            job.kill(now + grace_s * SECOND)
        return _reply(stop="sent")

    def _state(self, job: SimJob) -> Outcome:
        now = self._time()
        code = job.exit_code(now)
        return _reply(
            phase=job.phase(now) if code is None else "ended",
            exit="" if code is None else code,
            log=job.log_bytes(now),
            stderr=job.stderr_bytes(now),
            nonce=job.nonce,
        )

    def _found(self, tag: str, outputs: str) -> list[tuple[str, dict[str, bytes]]]:
        """Each declared output with the files that are it or lie below it."""
        job = self._tags.get(tag)
        files = job.outputs(self._time()) if job is not None else {}
        found = []
        for output in outputs.split("\n") if outputs else []:
            name = output.rstrip("/").removeprefix("./")
            below = {path: data for path, data in files.items() if path == name or path.startswith(f"{name}/")}
            found.append((name, below))
        return found

    def _manifest(self, tag: str, outputs: str) -> Outcome:
        said: dict[str, object] = {}
        for number, (name, files) in enumerate(self._found(tag, outputs)):
            said[f"out.{number}"] = "missing" if not files else "file" if name in files else "dir"
            said[f"bytes.{number}"] = sum(len(data) for data in files.values())
            said[f"count.{number}"] = len(files)
        return _reply(**said)

    def _pack(self, tag: str, outputs: str) -> Outcome:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for _, files in self._found(tag, outputs):
                for path, data in sorted(files.items()):
                    member = tarfile.TarInfo(path)
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
        return Outcome(0, packed.getvalue())


def _reply(**said: object) -> Outcome:
    return Outcome(0, "".join(f"{name}={value}\n" for name, value in said.items()).encode())


def _whole(fact: object) -> int:
    assert isinstance(fact, int)
    return fact


def _variables(prepared: bytes) -> Mapping[str, str]:
    """The variables in the stdin of `prepare`: a line of lengths, then first the lines `export NAME=value`."""
    head, _, rest = prepared.partition(b"\n")
    words = head.split()
    if not words or words[0] != b"gpupoor":
        return {}
    lines = shlex.split(rest[: int(words[1])].decode("utf-8", "surrogateescape"))
    return dict(word.split("=", 1) for word in lines if "=" in word)
