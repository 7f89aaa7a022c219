"""`gpupoor up` and `gpupoor down`: the orchestrator of this home, in one process with its guard."""

import os
import subprocess
import sys
from pathlib import Path

import click

from jobs.errors import Usage
from orchestrator.cli.output import say
from orchestrator.settings import load

UNIT = "gpupoor.service"
_WORKERS = 4


@click.command(epilog="Example: gpupoor up -d")
@click.option("-d", "--detach", is_flag=True, help="In the background; return when it is ready.")
@click.option("--at-login", is_flag=True, help="Write a systemd user unit, so that it starts by itself.")
@click.option("--workers", type=click.IntRange(1, 64), default=_WORKERS, show_default=True, help="Slots for steps.")
def up(detach: bool, at_login: bool, workers: int) -> None:
    """Start the orchestrator and its guard. submit does it by itself; the guard stays while machines live."""
    from orchestrator import up as orchestrator

    settings = load(os.environ)
    if at_login:
        _start_at_login(settings.home, workers)
    elif detach:
        orchestrator.ensure(settings, workers)
        say(f"the orchestrator of {settings.home} runs; gpupoor down ends it")
    else:
        orchestrator.run(settings, workers)


@click.command(epilog="Example: gpupoor down --leave")
@click.option("--leave", is_flag=True, help="Although machines live: their guard stays and ends them in time.")
def down(leave: bool) -> None:
    """Stop the orchestrator. Refused while machines live, unless --leave; an empty simulated cloud goes too."""
    from orchestrator import up as orchestrator

    settings = load(os.environ)
    orchestrator.stop(settings, leave)
    say(f"the orchestrator of {settings.home} is down")


def _start_at_login(home: Path, workers: int) -> None:
    """Write the unit, and have systemd start it now and at every login where systemd can be asked."""
    if sys.platform != "linux":
        raise Usage("--at-login writes a systemd unit, which only Linux has; start it here with: gpupoor up -d")
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd" / "user"
    folder.mkdir(parents=True, exist_ok=True)
    aside = folder / f".{UNIT}"
    aside.write_text(unit_text(home, workers), encoding="utf-8")
    aside.replace(folder / UNIT)
    say(f"{folder / UNIT} is written")
    commands = (["systemctl", "--user", "daemon-reload"], ["systemctl", "--user", "enable", "--now", UNIT])
    if all(_succeeds(command) for command in commands):
        say("it runs now, and starts at every login")
    else:
        say(f"systemd cannot be asked from here; type: {' && '.join(' '.join(command) for command in commands)}")
    say("to have it run while you are logged out, type: loginctl enable-linger")


def unit_text(home: Path, workers: int) -> str:
    """The systemd unit. KillMode=process: stopping the orchestrator leaves the guard, as long as machines live."""
    program = "from orchestrator.cli.main import main; main()"
    words = (sys.executable, "-P", "-c", program, "up", "--workers", str(workers))
    start = " ".join(_quoted(word).replace("$", "$$") for word in words)
    return (
        "[Unit]\nDescription=gpupoor: a GPU job queue with a wallet\n\n"
        f"[Service]\nEnvironment={_quoted(f'GPUPOOR_HOME={home}')}\nExecStart={start}\n"
        "Restart=on-failure\nRestartSec=5\nKillMode=process\n\n"
        "[Install]\nWantedBy=default.target\n"
    )


def _quoted(word: str) -> str:
    """One word of a systemd line, where `%` means something."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def _succeeds(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=20, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
