"""Real machines of the simulated cloud: what a client sees of them, and what they cannot reach."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from providers.simulator.hosts import HostsError, RealHosts
from tests.providers.simulator.machines import Client, Lab, eventually, new_lab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """Hosts that leave nothing behind."""
    lab = new_lab(tmp_path)
    yield lab
    lab.close()


def test_power_programs_are_covered_before_anything_runs(lab: Lab) -> None:
    """Every path to shutdown on a machine leads to its own stand-in, read before one is ever called."""
    client = lab.up()
    for place in ("/sbin", "/usr/sbin", "/bin", "/usr/bin"):
        for name in ("shutdown", "poweroff", "reboot", "halt", "systemctl"):
            if Path(f"{place}/{name}").exists():
                text = client.run(f"cat {place}/{name}").text
                assert "Ends this machine and nothing else" in text, name
    assert client.run("ls -A /run/systemd /run/dbus 2>/dev/null | grep -v :").text.strip() == ""
    client.close()


@pytest.mark.parametrize("command", ["shutdown -h now", "exec poweroff", "reboot", "halt -p", "systemctl poweroff"])
def test_machine_powers_itself_off_alone(lab: Lab, command: str) -> None:
    """A machine's shutdown ends that machine with all its processes, writes down when, and no other machine."""
    before = time.time_ns() // 1000
    other = lab.up("m2")
    client = lab.up("m1")
    client.start("setsid sleep 1000 & " + command)
    eventually(lambda: not lab.hosts.alive("m1"))
    ended = lab.hosts.ended_by_itself("m1")
    assert ended is not None and before <= ended <= time.time_ns() // 1000
    assert lab.hosts.access("m1") is None
    assert other.run("echo here").text == "here\n"
    assert lab.hosts.ended_by_itself("m2") is None
    client.close()
    other.close()


def test_command_has_its_streams_code_and_home(lab: Lab) -> None:
    """A command's two streams, exit code, directory and environment are its own."""
    client = lab.up()
    answer = client.run("pwd; echo wrong >&2; cat; exit 7", b"from the client")
    assert answer.out == f"{lab.home('m1')}\nfrom the client".encode()
    assert (answer.code, answer.err) == (7, b"wrong\n")
    names = {line.split("=")[0] for line in client.run("env").text.splitlines()}
    assert names <= {"HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "PWD", "SHLVL", "_", "OLDPWD"}
    client.close()


def test_machine_sees_only_its_own_processes(lab: Lab) -> None:
    """/proc of a machine starts at its own PID 1, whose environment holds nothing of the cloud's."""
    os.environ["SECRET_OF_THE_CLOUD"] = "x"
    try:
        client = lab.up()
    finally:
        del os.environ["SECRET_OF_THE_CLOUD"]
    pids = [int(word) for word in client.run("ls /proc | grep '^[0-9]'").text.split()]
    assert 1 in pids and os.getpid() not in pids and len(pids) < 12
    variables = client.run("tr '\\0' '\\n' </proc/1/environ").text
    assert f"HOME={lab.home('m1')}" in variables
    assert "SECRET" not in variables and "PYTHON" not in variables
    client.close()


def test_large_answers_are_whole(lab: Lab) -> None:
    """300 MB of answer, 50 MB on both streams at once, and 100 MB of input all pass without a byte lost."""
    client = lab.up()
    assert len(client.run("head -c 300000000 /dev/zero").out) == 300_000_000
    both = client.run("head -c 50000000 /dev/zero >&2 & head -c 50000000 /dev/zero; wait; exit 3")
    assert (len(both.out), len(both.err), both.code) == (50_000_000, 50_000_000, 3)
    assert client.run("wc -c", bytes(100_000_000)).text.strip() == "100000000"
    assert client.run("true", bytes(10_000_000)).code == 0
    client.close()


def test_slow_reader_costs_no_memory(lab: Lab) -> None:
    """A client that does not read holds the command back; the server keeps no more than a window of it."""
    client = lab.up()
    channel = client.start("head -c 200000000 /dev/zero; echo written >written")
    eventually(channel.recv_ready)
    sizes = client.run("sleep 1; grep -h ^VmRSS /proc/2/status").text
    assert int(sizes.split()[1]) < 120_000
    assert not (lab.home("m1") / "written").exists()
    channel.close()
    client.close()


def test_closed_channel_does_not_kill_a_silent_command(lab: Lab) -> None:
    """A command whose channel closed goes on until it writes."""
    client = lab.up()
    channel = client.start(
        "echo started; while [ ! -e go ]; do sleep 0.02; done; touch lived; echo x; echo y; touch no"
    )
    assert channel.recv(100) == b"started\n"
    channel.close()
    client.close()
    (lab.home("m1") / "go").touch()
    eventually((lab.home("m1") / "lived").exists)
    again = lab.client()
    eventually(lambda: again.run("ps axo args | grep -c '[w]hile'").text.strip() == "0")
    again.close()


def test_orphans_are_reaped(lab: Lab) -> None:
    """PID 1 of a machine leaves no zombie."""
    client = lab.up()
    client.run("for i in 1 2 3; do (setsid sh -c 'sleep 0.05' &) ; done")
    eventually(lambda: client.run("ps axo stat,args | grep -c '[s]leep 0.05\\|^Z'").text.strip() == "0")
    client.close()


def test_terminal_is_had_when_asked_for(lab: Lab) -> None:
    """A channel with a terminal runs its command on one."""
    client = lab.up()
    channel = client.transport.open_session(timeout=20)
    channel.get_pty(width=91, height=33)
    channel.exec_command("tty && stty size; exit 4")
    text = b"".join(iter(lambda: channel.recv(1000), b""))
    assert b"/dev/pts/" in text and b"33 91" in text
    assert channel.recv_exit_status() == 4
    client.close()


def test_many_channels_share_a_connection(lab: Lab) -> None:
    """Twenty commands run side by side over one connection."""
    client = lab.up()
    channels = [client.start(f"echo {number}; cat") for number in range(20)]
    for number, channel in enumerate(channels):
        assert channel.recv(10) == f"{number}\n".encode()
        channel.shutdown_write()
        assert channel.recv_exit_status() == 0
    client.close()


def test_gpu_report_follows_plan_and_fault(lab: Lab) -> None:
    """nvidia-smi prints the rented cards, or what a fault says, and each call is written down."""
    line = "NVIDIA GeForce RTX 4090, 24564, 8.9, 550.54.15"
    client = lab.up(gpu_lines=(line, line))
    query = "nvidia-smi --query-gpu=name,memory.total,compute_cap,driver_version --format=csv,noheader,nounits"
    assert client.run(query).text == f"{line}\n{line}\n"
    assert "24564MiB" in client.run("nvidia-smi").text.replace(" ", "")
    lab.hosts.gpu_report("m1", "Unable to determine the device handle: GPU is lost")
    assert "GPU is lost" in client.run(query).text
    lab.hosts.gpu_report("m1", "hang")
    channel = client.start(query)
    eventually(lambda: len((lab.folder("m1") / "gpu_calls").read_text().splitlines()) == 4)
    assert not channel.exit_status_ready()
    lab.hosts.gpu_report("m1", None)
    assert client.run(query).text == f"{line}\n{line}\n"
    client.close()


def test_disk_is_as_rented(lab: Lab) -> None:
    """df shows the disk that was rented, in the units that were asked for."""
    client = lab.up(disk_gb=80.0)
    size = client.run("df -Pk $HOME | awk 'NR == 2 {print $2}'").text
    assert int(size) * 1024 == pytest.approx(80e9, rel=1e-6)
    assert int(client.run("df -B1 --output=avail . | tail -1").text) == pytest.approx(80e9, rel=1e-3)
    client.close()


def test_boot_text_runs_in_the_machine(lab: Lab) -> None:
    """The boot text is run inside the machine, before anybody logs in."""
    client = lab.up(boot_text='echo "$HOME $$" >$HOME/booted; tr "\\0" "\\n" </proc/1/environ >$HOME/first')
    eventually((lab.home("m1") / "first").exists)
    home, pid = (lab.home("m1") / "booted").read_text().split()
    assert home == str(lab.home("m1")) and int(pid) < 20
    client.close()


def test_notice_is_a_file(lab: Lab) -> None:
    """A spot notice is left in the machine's home."""
    client = lab.up()
    lab.hosts.notice("m1")
    assert client.run("ls .spot_notice").code == 0
    client.close()


def test_a_user_who_cannot_reach_the_machines_is_refused(tmp_path: Path) -> None:
    """A closed folder above the state is named, before a machine without a home boots."""
    if os.geteuid() != 0:
        pytest.skip("only root can change users")
    closed = tmp_path / "closed"
    (closed / "state").mkdir(parents=True)
    closed.chmod(0o700)
    with pytest.raises(HostsError, match="cannot get into"):
        RealHosts(closed / "state", closed / "clock", as_user="nobody")


def test_jobs_run_as_another_user(tmp_path: Path) -> None:
    """With as_user a root's cloud runs the machines' commands as that user, in a home of theirs."""
    if os.geteuid() != 0:
        pytest.skip("only root can change users")
    for path in (tmp_path, *tmp_path.parents):
        if path.owner() == "root" and path.is_relative_to("/tmp/") and path != Path("/tmp"):
            path.chmod(path.stat().st_mode | 0o055)
    lab = new_lab(tmp_path, as_user="nobody")
    try:
        lab.boot()
        eventually(lambda: lab.hosts.access("m1"))
        assert lab.hosts.access("m1").user == "nobody"  # type: ignore[union-attr]
        client = lab.client()
        assert client.run("id -un; touch mine; cat /proc/1/environ >/dev/null").out == b"nobody\n"
        assert (lab.home("m1") / "mine").owner() == "nobody"
        client.start("poweroff")
        eventually(lambda: not lab.hosts.alive("m1") and lab.hosts.ended_by_itself("m1"))
        client.close()
    finally:
        lab.close()


def test_stranger_is_refused(lab: Lab) -> None:
    """Another key than the machine's does not open it."""
    import asyncssh
    import paramiko

    lab.boot()
    eventually(lambda: lab.hosts.access("m1"))
    from tests.providers.simulator import machines

    mine = machines.KEY
    machines.KEY = asyncssh.generate_private_key("ssh-ed25519")
    try:
        with pytest.raises(paramiko.AuthenticationException):
            Client(lab.hosts.access("m1").port)  # type: ignore[union-attr]
    finally:
        machines.KEY = mine
