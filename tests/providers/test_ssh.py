"""SSH against a real OpenSSH server, and against servers that fall silent."""

import gc
import io
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jobs.command import Command, Outcome
from providers.keys import make_key_pair
from providers.shell import Access, ShellError, ShellKey, Unreachable, WrongHostKey
from providers.ssh import KEPT, Limits, connect
from tests.providers.ssh_acts import cut_after, read_to_end, run
from tests.services import Sshd, free_port, listens, raw_server, run_sshd, wait_until

QUICK = Limits(connect_s=2, banner_s=1, handshake_s=1, login_s=1, open_s=2)


def test_code_and_both_streams_come_back(shell):
    """A command's exit code, stdout and stderr are told apart, bytes that are no text included."""
    outcome = run(shell, "printf 'a\\377b\\000c'; echo no >&2; exit 7")
    assert outcome == Outcome(7, b"a\xffb\x00c", b"no\n")


def test_stdin_reaches_the_command(shell):
    """What is handed in as stdin arrives whole, and its end is seen."""
    assert run(shell, "cat", stdin=b"x" * 300_000).out == b"x" * 300_000


def test_quotes_in_the_text_survive(shell):
    """The shell text arrives byte for byte, through both shells that it passes."""
    assert run(shell, "printf '%s' \"a'b\" '$HOME' \"$0\" 'é\n\\'").out == "a'b$HOMEshé\n\\".encode()


def test_fifty_megabytes_then_the_end(shell):
    """50 MB on stdout do not hang the command; the first 4 MiB are kept."""
    outcome = run(shell, "head -c 50000000 /dev/zero")
    assert (outcome.code, len(outcome.out)) == (0, KEPT)


def test_stderr_full_and_stdout_waiting(shell):
    """50 MB on stderr before one line on stdout: both arrive."""
    outcome = run(shell, "head -c 50000000 /dev/zero >&2; echo line")
    assert (outcome.code, outcome.out, len(outcome.err)) == (0, b"line\n", KEPT)


@pytest.mark.parametrize(("number", "code"), [(9, 137), (15, 143)])
def test_a_death_by_signal_has_its_own_code(shell, number, code):
    """A command killed by a signal ends with 128 + its number, not with the code of a lost connection."""
    assert run(shell, f"kill -{number} $$").code == code


def test_a_cut_connection_is_no_exit_code(sshd, shell):
    """A connection cut under a command is Unreachable."""
    cut_after(sshd, lambda: run(shell, "echo $$; exec sleep 60"))


def test_a_leftover_child_does_not_hold_the_command(shell):
    """A background child that keeps stdout open does not delay the end for ever."""
    outcome = run(shell, "sleep 600 & echo $!; echo done", limit_s=30)
    child, word = outcome.out.split()
    run(shell, f"kill {int(child)}")
    assert (outcome.code, word) == (0, b"done")


def test_a_command_beyond_its_limit_is_unreachable(shell):
    """Beyond the limit the caller is set free, and the connection still works."""
    with pytest.raises(Unreachable, match=r"no end within 0\.3 s"):
        run(shell, "exec sleep 5", limit_s=0.3)
    assert run(shell, "echo on").out == b"on\n"


def test_fifteen_commands_at_once_on_one_connection(shell):
    """More commands than MaxSessions wait for their turn and all come right."""
    with ThreadPoolExecutor(15) as pool:
        outcomes = list(pool.map(lambda n: run(shell, f"sleep 0.1; echo {n}").out, range(15)))
    assert outcomes == [f"{n}\n".encode() for n in range(15)]


def test_twenty_logins_at_once(sshd):
    """More logins than MaxStartups allows half-open all succeed."""

    def log_in(_: int) -> bytes:
        one = connect(sshd.access, sshd.key, Limits(banner_s=60, handshake_s=60, login_s=60, slot_s=120))
        try:
            return run(one, "echo in").out
        finally:
            one.close()

    with ThreadPoolExecutor(20) as pool:
        assert list(pool.map(log_in, range(20))) == [b"in\n"] * 20


def test_only_the_jobs_key_is_offered(sshd, monkeypatch, tmp_path):
    """An agent is never asked for its keys, however many it holds."""
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(tmp_path / "agent"))
        agent.listen()
        agent.setblocking(False)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
        one = connect(sshd.access, sshd.key)
        assert run(one, "echo in").out == b"in\n"
        one.close()
        with pytest.raises(BlockingIOError):
            agent.accept()


def test_a_foreign_key_is_unreachable_in_one_line(sshd):
    """A key that is not accepted (yet) is Unreachable, with a short text and no secret."""
    foreign = make_key_pair("foreign")
    with pytest.raises(Unreachable) as caught:
        connect(sshd.access, foreign)
    assert "\n" not in str(caught.value)
    assert foreign.private not in str(caught.value)


def test_a_private_key_of_no_use_is_said_before_any_login():
    """A broken private key fails at once, without its text in the message."""
    with pytest.raises(ShellError, match="no ed25519 key") as caught:
        connect(Access("127.0.0.1", 1), ShellKey("-----BEGIN secret", "ssh-ed25519 AAAA"))
    assert "BEGIN" not in str(caught.value)


def test_the_host_key_is_pinned_per_rental(sshd):
    """First contact remembers the key; another key at the same address is refused; a new rental starts anew."""
    first = connect(sshd.access, sshd.key)
    first.close()
    pinned = Access(sshd.access.host, sshd.port, sshd.user, first.host_key)
    again = connect(pinned, sshd.key)
    again.close()
    assert again.host_key == first.host_key
    sshd.stop()
    sshd.new_host_key()
    sshd.start()
    with pytest.raises(WrongHostKey):
        connect(pinned, sshd.key)
    other_rental = connect(sshd.access, sshd.key)
    other_rental.close()
    assert other_rental.host_key != first.host_key


def test_a_server_that_accepts_and_says_nothing():
    """A silent TCP server is Unreachable within the banner's limit."""
    with raw_server(lambda _: threading.Event().wait(20)) as silent, pytest.raises(Unreachable, match="no login"):
        connect(Access("127.0.0.1", silent.port), make_key_pair("k"), QUICK)


def test_a_server_that_stops_after_its_banner():
    """A server that stops within the key exchange is Unreachable within the limits."""

    def banner_only(connection: socket.socket) -> None:
        connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
        while connection.recv(65536):
            pass

    with raw_server(banner_only) as stuck, pytest.raises(Unreachable, match="no login"):
        connect(Access("127.0.0.1", stuck.port), make_key_pair("k"), QUICK)


def test_a_server_that_stops_during_login(sshd):
    """A server frozen between key exchange and login is Unreachable within the login's limit."""
    relay = FreezingRelay(sshd.port, freeze_after=1)
    with raw_server(relay.carry) as frozen, pytest.raises(Unreachable, match="no login"):
        connect(Access("127.0.0.1", frozen.port, sshd.user), sshd.key, QUICK)


class FreezingRelay:
    """Carries bytes to a real server, and stops answering when told, or after the key exchange."""

    def __init__(self, port: int, freeze_after: int | None = None) -> None:
        self.port = port
        self.frozen = threading.Event()
        self._freeze_after = freeze_after

    def carry(self, connection: socket.socket) -> None:
        server = socket.create_connection(("127.0.0.1", self.port))
        threading.Thread(target=self._up, args=(connection, server), daemon=True).start()
        while piece := server.recv(65536):
            if self.frozen.is_set():
                threading.Event().wait(30)
                return
            connection.sendall(piece)

    def _up(self, connection: socket.socket, server: socket.socket) -> None:
        new_keys_seen = 0
        while piece := connection.recv(65536):
            # Message 21, NEWKEYS, is the last one that travels in clear: 4 bytes length, 1 padding, 1 type.
            new_keys_seen += b"\x0c\x0a\x15" in piece
            if self._freeze_after is not None and new_keys_seen >= self._freeze_after:
                self.frozen.set()
            if self.frozen.is_set():
                threading.Event().wait(30)
                return
            server.sendall(piece)


def test_a_frozen_machine_is_found_by_opening_a_session(sshd):
    """A machine that keeps TCP and says nothing more is Unreachable within the limit of a new session."""
    relay = FreezingRelay(sshd.port)
    with raw_server(relay.carry) as between:
        one = connect(Access("127.0.0.1", between.port, sshd.user), sshd.key, QUICK)
        assert run(one, "echo in").out == b"in\n"
        relay.frozen.set()
        with pytest.raises(Unreachable):
            run(one, "echo in", limit_s=1)
        one.close()


def test_a_put_into_a_frozen_machine_is_unreachable(sshd):
    """A transfer of which no byte moves any more ends after its limit of silence."""
    relay = FreezingRelay(sshd.port)

    class Endless(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            return bytes(size)

    def freeze_later(sent: int) -> None:
        if sent > 1_000_000:
            relay.frozen.set()

    with raw_server(relay.carry) as between:
        one = connect(Access("127.0.0.1", between.port, sshd.user), sshd.key, QUICK)
        with pytest.raises(Unreachable, match="no end within"):
            one.put(Command("test", "cat >/dev/null", 1.0), Endless(), freeze_later)
        one.close()


def test_no_server_at_all_is_unreachable():
    """A closed port is Unreachable with a short text."""
    with pytest.raises(Unreachable, match="no login"):
        connect(Access("127.0.0.1", free_port()), make_key_pair("k"), QUICK)


def test_a_booting_host_is_three_kinds_of_not_yet(tmp_path, capfd):
    """No port, no banner, no key yet: each is Unreachable, then it works; nothing is printed."""
    folder = tmp_path / "sshd"
    folder.mkdir()
    server = Sshd(folder)
    with pytest.raises(Unreachable):
        connect(server.access, server.key, QUICK)
    with raw_server(lambda connection: threading.Event().wait(20)) as silent, pytest.raises(Unreachable):
        connect(Access("127.0.0.1", silent.port), server.key, QUICK)
    (folder / "authorized_keys").write_text("")
    server.start()
    try:
        with pytest.raises(Unreachable):
            connect(server.access, server.key)
        (folder / "authorized_keys").write_text(server.key.public + "\n")
        connect(server.access, server.key).close()
    finally:
        server.stop()
    assert capfd.readouterr().err == ""


def test_garbage_collection_closes_no_channel(sshd):
    """A channel goes on though its caller let go of the shell."""
    channel = connect(sshd.access, sshd.key).follow(Command("follow", "sleep 0.3; echo still"))
    for _ in range(5):
        gc.collect()
    assert read_to_end(channel) == (b"still\n", b"")
    channel.close()


def test_close_twice_then_unreachable(shell):
    """A closed shell is Unreachable, and may be closed again."""
    shell.close()
    shell.close()
    with pytest.raises(Unreachable):
        run(shell, "echo")


def test_no_descriptor_is_left_behind(sshd):
    """Commands, channels, connections and failed logins leave no open file."""

    def use() -> None:
        one = connect(sshd.access, sshd.key)
        run(one, "echo")
        one.follow(Command("follow", "sleep 30")).close()
        one.close()
        with pytest.raises(Unreachable):
            connect(sshd.access, make_key_pair("foreign"))

    use()
    before = sum(1 for _ in Path("/proc/self/fd").iterdir())
    for _ in range(3):
        use()
    wait_until(lambda: sum(1 for _ in Path("/proc/self/fd").iterdir()) <= before, "descriptors are closed")


def test_the_servers_session_limit_is_respected(tmp_path):
    """With sshd's own MaxSessions of 10, nine followers at once wait instead of being refused."""
    folder = tmp_path / "sshd"
    folder.mkdir()
    with run_sshd(folder, "MaxSessions 10\n") as server:
        assert listens(server.port)
        one = connect(server.access, server.key)
        channels = [one.follow(Command("follow", "exec sleep 30")) for _ in range(8)]
        with pytest.raises(Unreachable, match="8 sessions"):
            run(one, "echo", limit_s=0.2)
        channels[0].close()
        assert run(one, "echo in").out == b"in\n"
        one.close()
