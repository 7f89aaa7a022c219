"""`gpupoor cloud`: the simulated cloud as a process."""

import os
from pathlib import Path

import click

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(epilog="Example: gpupoor cloud --port 0 --faults faults.yaml")
@click.option("--state", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
              help="Where it keeps what it knows and its machines.  [default: GPUPOOR_HOME/sim]")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=8899, show_default=True, help="0 takes a free one.")
@click.option("--faults", type=_FILE, metavar="F.yaml", help="What goes wrong: {rules: [...]}.")
@click.option("--market", type=_FILE, metavar="F.yaml", help="What is offered: {offers: [...]}.")
@click.option("--speed", type=click.FloatRange(min=0), default=1.0, show_default=True,
              help="Cloud seconds per second; 0 stands still until it is stepped.")  # fmt: skip
@click.option("--as-user", metavar="U", help="The user as whom jobs on simulated machines run.")
def cloud(
    state: Path | None, port: int, faults: Path | None, market: Path | None, speed: float, as_user: str | None
) -> None:
    """A simulated cloud with a market, machines that are real SSH servers on loopback, and its own bill.

    The first line on stdout is its address; GPUPOOR_MOCK_URL takes it. Ctrl-C leaves its machines as they are.
    """
    from orchestrator.settings import load
    from providers.simulator.server import serve

    settings = load(os.environ)
    serve(state or settings.home / "sim", port, faults, market, speed, as_user, settings.cloud_sshd)
