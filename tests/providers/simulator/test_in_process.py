"""The cloud inside the process: the same market on a virtual clock, machines that answer as real ones do."""

import io
import json
import tarfile
from collections.abc import Mapping
from typing import Any

import pytest

from jobs.script import replies
from jobs.script.files import manifest, pack, prepare, prepare_input, unpack
from jobs.script.follow import follow
from jobs.script.fuse import arm_fuse, boot_fuse_text
from jobs.script.hello import hello
from jobs.script.probe import probe
from jobs.script.start import start, state
from jobs.script.stop import stop, tombstone
from providers.base import Gone, NoCapacity, Order, Refused, Sighting, Unavailable, Uncertain
from providers.shell import Shell, ShellKey, Unreachable, WrongHostKey
from providers.simulator.in_process import InProcessCloud, Weather
from providers.simulator.sim_job import LOG_TEXT, FakeJob
from providers.simulator.sim_machine import JOB_VARIABLE
from providers.simulator.virtual_clock import VirtualClock

SECOND = 1_000_000
START = 1_800_000_000 * SECOND
PLAIN = {"provider": "mock", "gpu": "RTX-4090", "vram_gb": 24, "price_per_hour": "0.36", "boot_s": 10}
KEY = ShellKey("private", "ssh-ed25519 AAAA job")
TAG, NONCE = "qlora-7f3a-1", "abc"


class Dice:
    """Chance from a list, then 0.99."""

    def __init__(self, *numbers: float) -> None:
        self.numbers = list(numbers)

    def random(self) -> float:
        return self.numbers.pop(0) if self.numbers else 0.99


class Scene:
    """A cloud and its clock."""

    def __init__(self, *offers: Mapping[str, Any], job: FakeJob | None = None, **more: Any) -> None:
        self.clock = VirtualClock(START)
        self.points: list[str] = []
        work = job or FakeJob()
        chance = more.pop("chance", Dice())
        self.cloud = InProcessCloud(
            list(offers) or [PLAIN], self.clock, chance, self.points.append, jobs=lambda _: work, **more
        )
        self.provider = self.cloud.provider

    def order(self, **more: Any) -> Order:
        offer = self.provider.find_offers()[0]
        order = {"label": "gp-a", "token": "t", "stop_at": START + 3600 * SECOND, "public_key": KEY.public}
        return Order(offer=offer, disk_gb=20, **{**order, **more})

    def rent(self, **more: Any) -> Sighting:
        return self.provider.rent(self.order(**more), self.clock.now())

    def shell(self, machine: Sighting) -> Shell:
        self.clock.sleep(10)
        access = self.provider.get("", machine.id).access
        assert access is not None
        return self.provider.connect(access, KEY)

    def started(self, **more: Any) -> tuple[Sighting, Shell]:
        machine = self.rent(**more)
        shell = self.shell(machine)
        ask(shell, hello(TAG, NONCE, True))
        ask(shell, unpack(TAG))
        ask(shell, prepare(TAG), prepare_input({}, None, "true", None, {}))
        assert ask(shell, start(TAG, NONCE)) == {"start": "started"}
        return machine, shell


def ask(shell: Shell, command: Any, stdin: bytes = b"") -> dict[str, str]:
    """The replies of one command."""
    return replies.parse(shell.perform(command, stdin).out)


def test_a_whole_life_is_billed_exactly() -> None:
    """Rent, boot, probe, run, outputs, release: 100 s at 0.36/h are one cent."""
    scene = Scene(job=FakeJob(duration_s=60, outputs={"out/model.bin": b"weights"}))
    machine, shell = scene.started()
    assert (machine.word, machine.ready, machine.per_hour) == ("booting", False, 360_000)
    assert ask(shell, probe())["gpu.0"] == "RTX-4090, 24576, 8.9, 550.54.15"
    channel = shell.follow(follow(TAG, 0))
    log, notes, ended = channel.read()
    assert (log, notes, ended) == (b"", b"hb 10 run 0 0\n", False)
    scene.clock.sleep(60)
    log, notes, ended = channel.read()
    assert (len(log), notes, ended) == (1200, b"end 0 1200 0\n", True)
    assert log.startswith(LOG_TEXT)
    assert ask(shell, manifest(TAG, ["out", "none"])) == {
        "out.0": "dir",
        "bytes.0": "7",
        "count.0": "1",
        "out.1": "missing",
        "bytes.1": "0",
        "count.1": "0",
    }
    packed = io.BytesIO()
    shell.get(pack(TAG, ["out"]), packed.write)
    packed.seek(0)
    with tarfile.open(fileobj=packed) as tar:
        assert tar.getnames() == ["out/model.bin"]
    scene.clock.sleep(30)
    scene.provider.release("", machine.id)
    scene.clock.sleep(500)
    assert scene.cloud.bill()["total"] == "0.01"
    seen = scene.provider.get("", machine.id)
    assert (seen.ended, seen.ended_at) == (True, START + 100 * SECOND)
    assert scene.provider.list_machines("").machines == ()
    with pytest.raises(Unreachable):
        ask(shell, state(TAG))


def test_the_work_starts_once() -> None:
    """The second start says already; a wrong nonce says restarted; a tombstone refuses."""
    scene = Scene()
    machine, shell = scene.started()
    assert ask(shell, start(TAG, NONCE))["start"] == "already"
    assert ask(shell, start(TAG, "other"))["start"] == "restarted"
    assert ask(shell, tombstone(TAG)) == {"tombstone": "dead"}
    refused = shell.perform(start(TAG, NONCE))
    assert (refused.code, replies.parse(refused.out)) == (97, {"start": "tombstone"})
    assert ask(shell, state(TAG))["exit"] == "137"
    assert scene.cloud.hosts.machines[machine.id].starts == {TAG: 1}


@pytest.mark.parametrize(("save_s", "code", "ends_after"), [(3.0, "143", 3), (None, "137", 20), (60.0, "137", 20)])
def test_stop_is_term_then_kill(save_s: float | None, code: str, ends_after: int) -> None:
    """The job ends after its own save time, or is killed at the end of the grace."""
    scene = Scene(job=FakeJob(duration_s=1000, save_s=save_s))
    _, shell = scene.started()
    assert ask(shell, stop(TAG, 20)) == {"stop": "sent"}
    scene.clock.sleep(ends_after - 0.5)
    assert ask(shell, state(TAG))["exit"] == ""
    scene.clock.sleep(0.5)
    assert ask(shell, state(TAG))["exit"] == code
    assert ask(shell, stop(TAG, 20)) == {"stop": "over"}


def test_the_fuse_fires_with_nobody_connected() -> None:
    """TERM at its end, the machine gives itself back when the job is gone; the bill ends there, seen much later."""
    scene = Scene(job=FakeJob(duration_s=10_000, save_s=5))
    machine, shell = scene.started()
    assert ask(shell, arm_fuse(TAG, 100, 60, "poweroff")) == {"fuse": "armed"}
    scene.clock.sleep(50_000)
    seen = scene.provider.get("", machine.id)
    assert (seen.ended, seen.ended_at) == (True, START + (10 + 100 + 5) * SECOND)
    assert scene.cloud.bill()["alive"] == 0


def test_a_boot_fuse_needs_no_login_and_can_be_moved() -> None:
    """Armed by the boot text at 10 s; an unadopted machine dies at its end, an adopted one later."""
    for moved in (False, True):
        scene = Scene()
        machine = scene.rent(boot_text=boot_fuse_text(300, 60, "poweroff", 2**40))
        if moved:
            ask(scene.shell(machine), arm_fuse(TAG, 1000, 60, "poweroff"))
        scene.clock.sleep(5000)
        seen = scene.provider.get("", machine.id)
        assert seen.ended_at == START + (10 + (1000 if moved else 300)) * SECOND


def test_a_restart_ends_the_connection_and_forgets_the_nonce() -> None:
    """The channel breaks; hello has no nonce; nothing can be started."""
    scene = Scene()
    machine, shell = scene.started()
    channel = shell.follow(follow(TAG, 0))
    scene.cloud.hosts.restart(machine.id, wipe=True)
    with pytest.raises(Unreachable):
        channel.read()
    again = scene.shell(machine)
    assert ask(again, hello(TAG, NONCE, False))["nonce"] == ""
    assert ask(again, start(TAG, NONCE))["start"] == "restarted"
    assert again.follow(follow(TAG, 0)).read() == (b"", b"lost\n", True)


def test_a_frozen_machine_is_silent_and_its_job_stands_still() -> None:
    """No note, no byte, no answer; after the thaw it works for as long as was left."""
    scene = Scene(job=FakeJob(duration_s=60))
    machine, shell = scene.started()
    channel = shell.follow(follow(TAG, 0))
    channel.read()
    scene.clock.sleep(20)
    scene.cloud.hosts.freeze(machine.id)
    scene.clock.sleep(500)
    assert channel.read() == (b"", b"", False)
    before = scene.clock.now()
    with pytest.raises(Unreachable):
        ask(shell, state(TAG))
    assert scene.clock.now() > before
    scene.cloud.hosts.unfreeze(machine.id)
    scene.clock.sleep(39)
    assert channel.read()[2] is False
    scene.clock.sleep(1)
    assert channel.read()[1:] == (b"end 0 1200 0\n", True)


def test_a_partition_ends_and_the_log_catches_up() -> None:
    """The job goes on meanwhile, and no byte is lost."""
    scene = Scene(job=FakeJob(duration_s=600))
    machine, shell = scene.started()
    channel = shell.follow(follow(TAG, 0))
    channel.read()
    scene.cloud.hosts.partition(machine.id, 120)
    scene.clock.sleep(119)
    assert channel.read() == (b"", b"", False)
    scene.clock.sleep(1)
    assert len(channel.read()[0]) == 2400


def test_the_host_key_is_pinned() -> None:
    """Another key within the rental is never connected to."""
    scene = Scene()
    machine = scene.rent()
    shell = scene.shell(machine)
    access = scene.provider.get("", machine.id).access
    assert access is not None
    pinned = access.__class__(access.host, access.port, access.user, shell.host_key)
    scene.provider.connect(pinned, KEY)
    scene.cloud.fault({"on": "ssh", "do": {"wrong_host_key": True}})
    with pytest.raises(WrongHostKey):
        scene.provider.connect(pinned, KEY)


def test_send_by_is_kept() -> None:
    """A create that comes too late is not sent."""
    scene = Scene()
    order = scene.order()
    scene.clock.sleep(31)
    with pytest.raises(Unavailable):
        scene.provider.rent(order, START + 30 * SECOND)
    assert scene.cloud.bill()["alive"] == 0


@pytest.mark.parametrize(
    ("do", "error", "alive"),
    [
        ({"drop_answer": True}, Uncertain, 1),
        ({"done_then_status": 500}, Uncertain, 1),
        ({"status": 500}, Uncertain, 0),
        ({"status": 429, "headers": {"Retry-After": "7"}}, Unavailable, 0),
        ({"no_capacity": True}, NoCapacity, 0),
        ({"unauthorized": True}, Refused, 0),
        ({"balance_empty": True}, Refused, 0),
        ({"refuse": True}, Unavailable, 0),
    ],
)
def test_a_create_fails_in_its_ways(do: dict[str, object], error: type[Exception], alive: int) -> None:
    """The error says whether something may have been made."""
    scene = Scene()
    order = scene.order()
    scene.cloud.fault({"on": "create", "do": do})
    with pytest.raises(error) as caught:
        scene.provider.rent(order, scene.clock.now())
    assert type(caught.value) is error
    assert scene.cloud.bill()["alive"] == alive


def test_what_is_hidden_appears_and_what_is_empty_is_complete() -> None:
    """hide_for_s hides from get and list; an empty list looks complete."""
    scene = Scene()
    scene.cloud.fault({"on": "create", "do": {"hide_for_s": 60}}, {"on": "list", "do": {"empty": True}})
    machine = scene.rent()
    with pytest.raises(Gone):
        scene.provider.get("", machine.id)
    scene.clock.sleep(60)
    assert (scene.provider.list_machines("").complete, scene.provider.list_machines("").machines[0].id) == (
        True,
        machine.id,
    )


def test_weather_by_chance_alone() -> None:
    """unavailable is not done, lost is done, broken breaks the connection; the hook saw every call."""
    scene = Scene(chance=Dice(0.4, 0.6, 0.4), weather=Weather())
    order = scene.order()
    scene.cloud.weather.unavailable = 0.5
    with pytest.raises(Unavailable):
        scene.provider.rent(order, scene.clock.now())
    scene.cloud.weather.lost = 0.5
    with pytest.raises(Uncertain):
        scene.provider.rent(order, scene.clock.now())
    assert scene.cloud.bill()["alive"] == 1
    assert scene.points == ["offers", "offers.done", "create", "create", "create.done"]
    scene.cloud.weather = Weather()
    shell = scene.shell(scene.rent())
    scene.cloud.chance = Dice(0.9, 0.1)
    scene.cloud.weather.broken = 0.5
    with pytest.raises(Unreachable):
        ask(shell, hello(TAG, NONCE, True))
    scene.cloud.weather.broken = 0
    with pytest.raises(Unreachable):
        ask(shell, hello(TAG, NONCE, True))


def test_a_job_can_say_in_its_env_what_it_is() -> None:
    """FAKE_JOB in the env of the job counts more than the table."""
    scene = Scene()
    shell = scene.shell(scene.rent())
    ask(shell, hello(TAG, NONCE, True))
    said = {JOB_VARIABLE: json.dumps({"duration_s": 5, "exit_code": 3})}
    ask(shell, prepare(TAG), prepare_input(said, None, "true", None, {}))
    ask(shell, start(TAG, NONCE))
    scene.clock.sleep(5)
    assert ask(shell, state(TAG))["exit"] == "3"


def test_spot_is_taken_away_in_process_too() -> None:
    """A planned preemption ends the machine at its instant and says so."""
    scene = Scene({**PLAIN, "spot_price": "0.1"})
    machine = scene.rent()
    books = scene.cloud.market.machines[machine.id]
    books.plan_end(scene.clock.now() + 120 * SECOND, preempts=True)
    scene.clock.sleep(1000)
    seen = scene.provider.get("", machine.id)
    assert (seen.preempted, seen.ended_at) == (True, START + 120 * SECOND)


def test_a_virtual_sleep_can_be_anothers_matter() -> None:
    """With a wait hook nobody but the hook moves the clock."""
    asked: list[int] = []
    clock = VirtualClock(START, asked.append)
    clock.sleep(2.5)
    assert (asked, clock.now()) == ([START + 2_500_000], START)
    clock.advance_to(START + 10)
    clock.advance_to(START)
    assert (clock.now(), clock.monotonic()) == (START + 10, 10 / SECOND)
