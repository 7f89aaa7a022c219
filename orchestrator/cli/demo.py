"""`gpupoor demo`: the 60-second story. Everything in it is simulated but the processes, the SSH and the money book."""

import shutil
import signal
import tempfile
from pathlib import Path
from types import FrameType

import click

from jobs.errors import GpupoorError


@click.command(epilog="Example: gpupoor demo --keep")
@click.option("--keep", is_flag=True, help="Leave the demo's home where it is, to look around in it.")
def demo(keep: bool) -> None:
    """A lost answer, a kill -9, a budget that ends; each proved from the simulated cloud's own books.

    Needs no account and no money: its home is a temporary folder, its machines are processes of this computer.
    Exit 1 with the reason, and with the home kept, when anything did not hold.
    """
    from orchestrator.demo.stage import Stage
    from orchestrator.demo.story import Story

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    folder, stage = Path(tempfile.mkdtemp(prefix="gpupoor-demo-")), None
    try:
        stage = Stage(folder)
        Story(stage).play()
    except GpupoorError as error:
        keep = True
        click.secho(f"\nThe demo failed: {error}", fg="red", bold=True, err=True)
        raise click.exceptions.Exit(1) from None
    except Exception:
        keep = True
        raise
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C would leave processes behind
        if stage is not None:
            stage.clear()
        if keep:
            click.echo(f"The demo's home is kept: {folder}", err=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """As Ctrl-C: what was started is cleaned up."""
    raise KeyboardInterrupt
