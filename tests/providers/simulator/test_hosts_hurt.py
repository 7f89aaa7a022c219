"""Real machines of the simulated cloud under faults: frozen, cut off, restarted, orphaned, destroyed."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest

from providers.clock import RealClock
from providers.simulator import clock_file, processes
from providers.simulator.folder import Folder
from providers.simulator.hosting import BootPlan
from providers.simulator.hosts import HostsError, RealHosts
from tests.providers.simulator.machines import PUBLIC, Client, Lab, eventually, new_lab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """Hosts that leave nothing behind."""
    mounts = Path("/proc/self/mountinfo").read_text()
    lab = new_lab(tmp_path)
    yield lab
    lab.close()
    assert Path("/proc/self/mountinfo").read_text() == mounts


def counter(lab: Lab, client: Client) -> Path:
    """Start a job that writes a growing file, and give that file."""
    client.run("(setsid sh -c 'while :; do echo x >>ticks; sleep 0.02; done' >/dev/null 2>&1 </dev/null &)")
    path = lab.home("m1") / "ticks"
    eventually(path.exists)
    return path


def grows(path: Path) -> bool:
    """Whether the file got longer within some tenths of a second."""
    before = path.stat().st_size
    RealClock().sleep(0.4)
    return path.stat().st_size > before


def test_destroy_kills_all_and_keeps_the_home(lab: Lab) -> None:
    """Destroying a machine kills processes that left every session of theirs; twice is once; the home stays."""
    client = lab.up()
    ticks = counter(lab, client)
    inside = processes.members(processes.read_mark(Folder(lab.folder("m1")).init))
    assert len(inside) >= 3
    lab.hosts.destroy("m1")
    lab.hosts.destroy("m1")
    assert not any(map(processes.lives, inside))
    assert not lab.hosts.alive("m1") and lab.hosts.access("m1") is None
    assert ticks.exists() and lab.hosts.ended_by_itself("m1") is None
    lab.hosts.restart("m1", wipe=False)
    assert not lab.hosts.alive("m1")
    client.close()


def test_reused_pid_is_never_hit(lab: Lab) -> None:
    """A mark whose pid belongs to another process now is neither alive nor signalled."""
    stranger = subprocess.Popen(["sleep", "100"])
    try:
        mark = processes.mark_of(stranger.pid)
        assert mark is not None and processes.lives(mark)
        old = processes.Mark(mark.pid, mark.start - 1, mark.boot)
        assert not processes.lives(old) and not processes.send(old, signal.SIGKILL)
        assert not processes.send(processes.Mark(mark.pid, mark.start, "another boot"), signal.SIGKILL)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_destroy_while_booting(lab: Lab) -> None:
    """A machine that is destroyed before it is up never comes up."""
    lab.boot(boot_s=3600.0)
    assert lab.hosts.alive("m1") and lab.hosts.access("m1") is None
    lab.hosts.destroy("m1")
    assert not lab.hosts.alive("m1")
    lab.boot("m2", never=True)
    assert lab.hosts.alive("m2") and lab.hosts.access("m2") is None


def test_frozen_machine_keeps_its_connections(lab: Lab) -> None:
    """A frozen machine does nothing, and goes on where it was with the same connection."""
    client = lab.up()
    ticks = counter(lab, client)
    lab.hosts.freeze("m1")
    assert not grows(ticks)
    channel_opened = []
    try:
        client.transport.open_session(timeout=0.5)
        channel_opened.append(1)
    except paramiko.SSHException:
        pass
    assert not channel_opened and lab.hosts.alive("m1")
    lab.hosts.unfreeze("m1")
    assert client.run("echo back").text == "back\n"
    assert grows(ticks)
    client.close()


def test_frozen_machine_can_be_destroyed(lab: Lab) -> None:
    """Destroy reaches stopped processes too."""
    lab.up().close()
    lab.hosts.freeze("m1")
    lab.hosts.destroy("m1")
    assert not lab.hosts.alive("m1")


def test_partition_passes_no_byte_and_ends(lab: Lab) -> None:
    """Cut off, a machine's jobs go on, no byte passes, a new connection hangs; afterwards the old one goes on."""
    client = lab.up()
    ticks = counter(lab, client)
    reading = client.start("cat ticks; tail -f ticks")
    assert reading.recv(1)
    port = lab.hosts.access("m1").port  # type: ignore[union-attr]
    lab.hosts.partition("m1", 3.0)
    with socket.create_connection(("127.0.0.1", port)) as hanging:
        hanging.settimeout(0.3)
        with pytest.raises(TimeoutError):
            hanging.recv(1)
    assert grows(ticks)
    assert client.run("echo through").text == "through\n"
    assert not Folder(lab.folder("m1")).partitioned.exists()
    client.close()


def test_unfreezing_does_not_heal_a_partition(lab: Lab) -> None:
    """A machine that was frozen while cut off stays cut off, until the cut ends."""
    client = lab.up()
    ticks = counter(lab, client)
    lab.hosts.partition("m1", 3600.0)
    lab.hosts.freeze("m1")
    lab.hosts.unfreeze("m1")
    assert grows(ticks)
    with pytest.raises(paramiko.SSHException):
        client.transport.open_session(timeout=0.5)
    lab.hosts.partition("m1", 0.0)
    assert client.run("echo healed").text == "healed\n"
    client.close()


def test_restart_is_a_new_container(lab: Lab) -> None:
    """After a restart PID 1 is another one, nothing of before runs, the disk is there unless it was wiped."""
    client = lab.up(boot_text="echo x >>$HOME/boots")
    counter(lab, client)
    start = client.run("cut -d' ' -f22 /proc/1/stat").text
    for wipe in (False, True):
        lab.hosts.restart("m1", wipe)
        again = lab.client()
        assert again.host_key == client.host_key
        assert again.run("cut -d' ' -f22 /proc/1/stat").text != start
        assert again.run("ps axo args | grep -c '[t]icks'").text.strip() == "0"
        assert again.run("test -e ticks").code == int(wipe)
        eventually((lab.home("m1") / "boots").exists)
        again.close()
    client.close()


def test_power_cut(lab: Lab) -> None:
    """A killed machine is dead at once, not by its own will, and may be started again."""
    client = lab.up()
    lab.hosts.kill("m1")
    assert not lab.hosts.alive("m1") and lab.hosts.ended_by_itself("m1") is None
    lab.hosts.restart("m1", wipe=False)
    assert lab.client().run("echo up").text == "up\n"
    client.close()


def test_new_port(lab: Lab) -> None:
    """Moved, a machine refuses at its old port, answers at a new one, and keeps the connection that was there."""
    client = lab.up()
    old = lab.hosts.access("m1").port  # type: ignore[union-attr]
    lab.hosts.new_port("m1")
    other = lab.client()
    assert lab.hosts.access("m1").port != old  # type: ignore[union-attr]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", old))
    assert client.run("echo old").text == other.run("echo old").text
    client.close()
    other.close()


def test_host_key_changes_after_the_first_login(lab: Lab) -> None:
    """With wrong_host_key every connection after the first shows another key."""
    keys = []
    for number in range(3):
        client = lab.up(wrong_host_key=True) if number == 0 else lab.client()
        keys.append(client.host_key)
        client.close()
    assert keys[0] != keys[1] and keys[1] == keys[2]


def test_machine_survives_nursery_and_cloud(tmp_path: Path) -> None:
    """Machines outlive kill -9 of the cloud and its nursery; the next cloud adopts them and hears of their ends."""
    program = (
        "import sys; from pathlib import Path\n"
        "from providers.simulator.hosts import RealHosts\n"
        "from providers.simulator.hosting import BootPlan\n"
        "path = Path(sys.argv[1]); hosts = RealHosts(path, path / 'clock')\n"
        "for name in ('m1', 'm2'): hosts.boot(name, path / name, BootPlan(sys.argv[2], boot_s=0.0))\n"
        "print(hosts._nursery.pid, flush=True); sys.stdin.read()\n"
    )
    lab = new_lab(tmp_path)
    cloud = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path), PUBLIC],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    )
    assert cloud.stdout is not None
    nursery = processes.mark_of(int(cloud.stdout.readline()))
    cloud.kill()
    cloud.communicate()
    processes.send(nursery, signal.SIGKILL)
    lab.machines = ["m1", "m2"]
    try:
        for name in lab.machines:
            lab.hosts.adopt(name, lab.folder(name))
        client, other = lab.client("m1"), lab.client("m2")
        assert client.run("echo alive").text == "alive\n"
        client.start("poweroff")
        eventually(lambda: not lab.hosts.alive("m1"))
        late = RealHosts(tmp_path, lab.clock)
        late.adopt("m1", lab.folder("m1"))
        assert late.ended_by_itself("m1") and not late.alive("m1")
        late.close()
        assert other.run("echo alive").text == "alive\n"
        client.close()
        other.close()
    finally:
        lab.close()


def test_dead_nursery_is_replaced(lab: Lab) -> None:
    """The next machine is booted although the nursery was killed; the one before lives."""
    client = lab.up("m1")
    nursery = lab.hosts._nursery
    assert nursery is not None
    os.kill(nursery.pid, signal.SIGKILL)
    nursery.wait()
    other = lab.up("m2")
    assert client.run("echo 1").text + other.run("echo 2").text == "1\n2\n"
    client.close()
    other.close()


def test_boot_that_was_ordered_and_not_begun_begins_at_adoption(lab: Lab) -> None:
    """A cloud that died between its order and the fork has its machine booted by the next one."""
    from providers.simulator.folder import Orders, save_orders

    folder = Folder(lab.folder("m1"))
    folder.run.mkdir(parents=True)
    save_orders(folder, Orders("m1", BootPlan(PUBLIC, boot_s=0.0), str(lab.clock), "asyncssh", "", 0, 0))
    lab.machines.append("m1")
    lab.hosts.adopt("m1", folder.path)
    client = lab.client()
    assert client.run("echo up").text == "up\n"
    client.close()


def test_boot_twice_is_once(lab: Lab) -> None:
    """A doubled boot of a machine that is on its way, or up, changes nothing."""
    lab.boot(boot_s=0.3)
    first = Folder(lab.folder("m1")).host.read_text()
    lab.boot(boot_s=0.3)
    assert Folder(lab.folder("m1")).host.read_text() == first
    client = lab.client()
    lab.boot()
    assert client.run("echo here").text == "here\n"
    assert Folder(lab.folder("m1")).host.read_text() == first
    client.close()


def test_slow_starts_by_a_clock_that_only_steps(tmp_path: Path) -> None:
    """sshd_s: refused; from then on banner_s: silent; key_s: key refused; each by the cloud's clock."""
    lab = new_lab(tmp_path, speed=0.0)
    now = clock_file.read(lab.clock, RealClock().now())

    def step_to(seconds: float) -> None:
        clock_file.write(lab.clock, 0, now + int(seconds * 1e6), 0.0)

    try:
        lab.boot(boot_s=10.0, sshd_s=10.0, banner_s=10.0, key_s=20.0)
        assert lab.hosts.access("m1") is None
        step_to(10)
        eventually(lambda: lab.hosts.access("m1"))
        port = lab.hosts.access("m1").port  # type: ignore[union-attr]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        step_to(20)
        eventually(lambda: _accepts(port))
        with socket.create_connection(("127.0.0.1", port)) as silent:
            silent.settimeout(0.2)
            with pytest.raises(TimeoutError):
                silent.recv(1)
            step_to(30)
            silent.settimeout(20)
            assert silent.recv(4) == b"SSH-"
        with pytest.raises(paramiko.AuthenticationException):
            Client(port)
        step_to(40)
        Client(port).close()
    finally:
        lab.close()


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


def test_sleep_date_and_uptime_follow_the_cloud(tmp_path: Path) -> None:
    """On a clock that only steps, an hour's sleep ends by a step of an hour; date and uptime go with it."""
    lab = new_lab(tmp_path, speed=0.0)
    now = clock_file.read(lab.clock, RealClock().now())
    try:
        client = lab.up()
        before = float(client.run("cut -d' ' -f1 /proc/uptime").text)
        assert int(client.run("date +%s").text) == now // 1_000_000
        channel = client.start("echo begun; sleep 1h; echo woken")
        assert channel.recv(10) == b"begun\n"
        hours = 0
        while not channel.recv_ready():  # it may not have looked at the clock yet when the first hour passes
            hours += 1
            clock_file.write(lab.clock, 0, now + hours * 3600_000_000, 0.0)
            RealClock().sleep(0.2)
        assert channel.recv(10) == b"woken\n"
        later = hours * 3600
        assert int(client.run("date +%s").text) == now // 1_000_000 + later
        eventually(lambda: float(client.run("cut -d' ' -f1 /proc/uptime").text) == pytest.approx(before + later))
        assert client.run("date -u -d @0 +%Y").text == "1970\n"
        client.close()
    finally:
        lab.close()


def test_bandwidth_is_limited(lab: Lab) -> None:
    """With a limit the bytes of a second are as few as the plan says."""
    client = lab.up(bandwidth_bytes_s=200_000)
    begin = RealClock().monotonic()
    assert len(client.run("head -c 400000 /dev/zero").out) == 400_000
    assert RealClock().monotonic() - begin > 1.5
    client.close()


def test_openssh_serves_a_machine_too(tmp_path: Path) -> None:
    """With sshd openssh the machine's server is OpenSSH, with the same home, key, processes and end."""
    if os.geteuid() != 0 or not Path("/usr/sbin/sshd").exists():
        pytest.skip("needs root and OpenSSH's server")
    lab = Lab(tmp_path, RealHosts(tmp_path, new_lab(tmp_path).clock, sshd="openssh"), tmp_path / "clock")
    try:
        client = lab.up(gpu_lines=("L4, 24576, 8.9, 550.1",))
        assert client.transport.remote_version.startswith("SSH-2.0-OpenSSH")
        answer = client.run("pwd; echo $HOME; cat; exit 7", b"input")
        home = str(lab.home("m1"))
        assert (answer.text, answer.code) == (f"{home}\n{home}\ninput", 7)
        assert client.run("nvidia-smi -L").code == 0
        assert os.getpid() not in [int(word) for word in client.run("ls /proc | grep '^[0-9]'").text.split()]
        lab.hosts.partition("m1", 1.0)
        assert client.run("echo through").text == "through\n"
        lab.hosts.new_port("m1")
        other = lab.client()
        assert len(other.run("head -c 30000000 /dev/zero").out) == 30_000_000
        client.start("poweroff")
        eventually(lambda: not lab.hosts.alive("m1"))
        assert lab.hosts.ended_by_itself("m1")
        client.close()
        other.close()
    finally:
        lab.close()


def test_rule_changes_a_running_machine(lab: Lab) -> None:
    """Disk, bandwidth and host key of a running machine follow a changed plan; its bytes are counted."""
    client = lab.up()
    assert len(client.run("head -c 1000000 /dev/zero").out) == 1_000_000
    traffic = lab.folder("m1") / "traffic"
    eventually(lambda: traffic.exists() and int(traffic.read_text()) >= 1_000_000)
    lab.hosts.change("m1", BootPlan(PUBLIC, disk_gb=3.0, bandwidth_bytes_s=200_000, wrong_host_key=True))
    assert client.run("df -BM --output=size . | tail -1").text.strip() == str(int(3e9) >> 20)
    eventually(lambda: lab.client().host_key != client.host_key)
    begin = RealClock().monotonic()
    client.run("head -c 300000 /dev/zero")
    assert RealClock().monotonic() - begin > 1.0
    client.close()


def test_what_cannot_be_had_is_refused(tmp_path: Path) -> None:
    """An unknown server is refused with a sentence."""
    with pytest.raises(HostsError, match="neither"):
        RealHosts(tmp_path, tmp_path / "clock", sshd="dropbear")
