"""OpenSSH's own server in a simulated machine, for whoever wants to be sure that a client speaks with the real one.

It is started by root only. It knows no silent banner, late key, changed key or limited bandwidth, and counts
no traffic: where a plan orders the first two, the port opens when they are over.
"""

import signal
import socket
import subprocess
from pathlib import Path

import asyncssh

from providers.clock import RealClock
from providers.simulator.command_pump import Account
from providers.simulator.folder import Folder, Orders, cloud_now, replace_text, wait_until

_PROGRAM = "/usr/sbin/sshd"
_CONFIG = """ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PrintMotd no
AcceptEnv LANG LC_*
SetEnv {variables}
"""


def own_passwd(folder: Folder, orders: Orders) -> Path:
    """Write an account list in which the machine's user lives in its home; to be laid over /etc/passwd."""
    user = orders.as_user or "root"
    lines = []
    for line in Path("/etc/passwd").read_text().splitlines():
        fields = line.split(":")
        if fields[0] == user:
            fields[5:7] = [str(folder.home), "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"]
        lines.append(":".join(fields) + "\n")
    path = folder.run / "passwd"
    replace_text(path, "".join(lines))
    path.chmod(0o644)
    return path


def serve(folder: Folder, orders: Orders, variables: dict[str, str], first: bool) -> None:
    """Run the server until the machine ends; a signal USR1 moves it to another port, sessions stay."""
    up_at = cloud_now(Path(orders.clock))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    if orders.plan.boot_text:
        Account(variables, folder.home, orders.as_user).start(
            ["/bin/sh", "-c", orders.plan.boot_text], stdin=subprocess.DEVNULL, preexec_fn=_unblock
        )
    _write_keys(folder, orders)
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    delay_s = orders.plan.sshd_s + max(orders.plan.banner_s, orders.plan.key_s) if first else 0.0
    while True:
        folder.moved.unlink(missing_ok=True)
        with socket.socket() as door:
            door.bind(("127.0.0.1", 0))
            port = door.getsockname()[1]
            replace_text(folder.port, str(port))
            wait_until(Path(orders.clock), up_at + int(delay_s * 1e6))
        server = _start(folder, variables, port)
        while signal.sigtimedwait({signal.SIGUSR1}, 0.2) is None or not folder.moved.exists():
            if server.poll() is not None:
                RealClock().sleep(0.1)
                server = _start(folder, variables, port)
        server.kill()  # the listener only: every session is a process of its own
        server.wait()


def _start(folder: Folder, variables: dict[str, str], port: int) -> subprocess.Popen[bytes]:
    config = folder.run / "sshd_config"
    words = " ".join(f'"{name}={value}"' for name, value in variables.items())
    replace_text(config, _CONFIG.format(port=port, folder=folder.run, variables=words))
    return subprocess.Popen(
        [_PROGRAM, "-D", "-e", "-f", str(config)],
        stdin=subprocess.DEVNULL,
        env=variables,
        preexec_fn=_unblock,
    )


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})


def _write_keys(folder: Folder, orders: Orders) -> None:
    authorized = folder.run / "authorized_keys"
    authorized.write_text(orders.plan.authorized_key.strip() + "\n")
    authorized.chmod(0o644)
    key = folder.run / "host_key"
    if not key.exists():
        replace_text(key, asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode())
    key.chmod(0o600)
