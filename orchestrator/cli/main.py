"""`gpupoor`: finds the module of a command only when it is used, so that help costs nothing."""

import importlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from jobs.errors import GpupoorError, Usage

# name -> (module:attribute, group of the help, what it does)
COMMANDS: dict[str, tuple[str, str, str]] = {
    "submit": ("orchestrator.cli.submit:submit", "jobs", "Hand in job files."),
    "status": ("orchestrator.cli.status:status", "jobs", "What runs, what waits and why, what it costs."),
    "logs": ("orchestrator.cli.logs:logs", "jobs", "What a job printed, byte for byte."),
    "cancel": ("orchestrator.cli.cancel:cancel", "jobs", "Stop jobs and give their machines back."),
    "pull": ("orchestrator.cli.pull:pull", "jobs", "Copy the outputs of a job here."),
    "offers": ("orchestrator.cli.offers:offers", "money", "What can be rented now, cheapest first."),
    "budget": ("orchestrator.cli.budget:budget", "money", "Monthly caps: spent, burning, held, free."),
    "spend": ("orchestrator.cli.spend:spend", "money", "The ledger: who spent what, where."),
    "machines": ("orchestrator.cli.machines:machines", "machines", "Every live machine, ours or not."),
    "reap": ("orchestrator.cli.machines:reap", "machines", "Destroy what is overdue or unowned, now."),
    "up": ("orchestrator.cli.up:up", "machines", "Start the orchestrator and its guard."),
    "down": ("orchestrator.cli.up:down", "machines", "Stop them."),
    "doctor": ("orchestrator.cli.doctor:doctor", "setup", "Is everything well, and what to do if not."),
    "config": ("orchestrator.cli.config:config", "setup", "Read and change settings."),
    "cloud": ("orchestrator.cli.cloud:cloud", "setup", "A simulated cloud, to try everything for nothing."),
    "demo": ("orchestrator.cli.demo:demo", "setup", "The 60-second story, simulated."),
}
# fmt: off
LATER = frozenset({
    "burst", "events", "host", "import", "init", "login", "notify", "plan", "providers", "prune",
    "release", "resume", "rm", "run", "service", "set", "ssh", "store", "sweep",
})
# fmt: on
ALIASES = {"ps": "status", "stop": "cancel", "gc": "reap", "show-gpus": "offers"}
GROUPS = ("jobs", "money", "machines", "setup")

INTERRUPTED = 130
PIPE_CLOSED = 141


class _PipeClosedError(Exception):
    """Whoever read our output went away; nobody is left to tell."""


class Door(click.Group):
    """The group of all commands. Errors become exit codes here and nowhere else."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """The names that help shows; aliases stay hidden."""
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of one command, or None where there is no such name."""
        entry = COMMANDS.get(ALIASES.get(cmd_name, cmd_name))
        if entry is None:
            return None
        module, attribute = entry[0].split(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a name that does not exist is answered with the nearest one that does."""
        name = args[0]
        if name not in COMMANDS and name not in ALIASES and not name.startswith("-"):
            if name in LATER:
                ctx.fail(f"{name} is not in this version yet; --mock tries everything else, for nothing")
            import difflib

            near = difflib.get_close_matches(name, [*COMMANDS, *ALIASES], n=1)
            ctx.fail(f"no command {name!r}; did you mean {near[0]}?" if near else f"no command {name!r}; see --help")
        return super().resolve_command(ctx, args)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands in groups, from the table alone: no module is imported."""
        for group in GROUPS:
            with formatter.section(group.capitalize()):
                formatter.write_dl([(name, text) for name, (_, where, text) in COMMANDS.items() if where == group])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a closed pipe is told apart from all other trouble."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _PipeClosedError from None

    def main(self, args: Sequence[str] | None = None, **extra: Any) -> NoReturn:  # type: ignore[override]  # always leaves
        """Run and leave the process with the exit code that the README promises."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show ends no command
        extra |= {"standalone_mode": False, "prog_name": "gpupoor"}
        try:
            code = super().main(args, **extra)
            if sys.stdout is not None:
                sys.stdout.flush()
        except click.Abort:
            code = INTERRUPTED
        except click.ClickException as error:
            error.show()
            code = error.exit_code
        except GpupoorError as error:
            click.echo(f"gpupoor: {error}", err=True)
            code = error.exit_code
        except (_PipeClosedError, BrokenPipeError):
            _silence()
            code = PIPE_CLOSED
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            click.echo(f"gpupoor: {where}{error.strerror or error}", err=True)
            code = Usage.exit_code
        except Exception as error:  # noqa: BLE001  # the last place that can say anything
            code = _unexpected(error)
        sys.exit(code if isinstance(code, int) else 0)


def _silence() -> None:
    """Let the interpreter's last flush go nowhere instead of complaining."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = None


def _unexpected(error: Exception) -> int:
    """Write the trace to a file that only we may read, and say where it is."""
    import tempfile
    import traceback

    text = "".join(traceback.format_exception(error))
    home = Path(os.environ.get("GPUPOOR_HOME") or Path.home() / ".gpupoor")
    folder = home / "errors"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, path = tempfile.mkstemp(dir=folder, prefix="error-", suffix=".txt")
    except OSError:
        descriptor, path = tempfile.mkstemp(prefix="gpupoor-error-", suffix=".txt")
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    first = (str(error).splitlines() or [""])[0][:200]
    click.echo(f"gpupoor: internal error: {type(error).__name__}: {first}\nThe trace is in {path}", err=True)
    return 1


def _show_version(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        from importlib.metadata import version

        click.echo(f"gpupoor {version('gpupoor-queue')}")
        ctx.exit()


@click.command(
    cls=Door,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Try it for nothing: gpupoor submit examples/hello/job.yaml --mock -f",
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version,
              help="Print the version.")  # fmt: skip
def main() -> None:
    """A GPU job queue with a wallet: rents the cheapest machine that fits, brings results home, gives it back."""
