"""`gpupoor machines` and `gpupoor reap`: every machine of every provider, and one turn of the guard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from jobs.money import parse_usd
from orchestrator.cli.output import mock_option, output_option, per_hour, print_json, print_table, say
from orchestrator.cli.worlds import ask, print_world, watch_over

if TYPE_CHECKING:
    from orchestrator.world import World

UNANSWERED = 9


@click.command(epilog="Example: gpupoor machines --unknown")
@click.option("--all", "every", is_flag=True, help="Also those that our rows say are over.")
@click.option("--unknown", is_flag=True, help="Only those that are not ours.")
@output_option
@mock_option
@click.pass_context
def machines(ctx: click.Context, every: bool, unknown: bool, output: str, mock: bool) -> None:
    """Every live machine of every provider, ours or not. Exit 9 when a provider did not answer."""
    from orchestrator.views.machines import machines as view

    world, simulated = ask(mock)
    watch_over(world, simulated)
    found = view(world, simulated, every)
    shown = [row for row in found.machines if not (unknown and row["ours"])]
    if output == "json":
        print_json(shown)
    else:
        print_world(simulated)
        heads = ["ID", "PROVIDER", "REGION", "OURS", "JOB", "GPU", "STATE", "PRICE", "CREATED", "STOPS", "HELD"]
        print_table(heads, [_row(row, simulated) for row in shown], right=["PRICE"])
    for fault in found.silent:
        say(f"UNKNOWN what lives at {fault}")
    ctx.exit(UNANSWERED if found.silent else 0)


def _row(row: dict[str, Any], simulated: bool) -> list[str | None]:
    price = None if row["price_per_hour"] is None else parse_usd(row["price_per_hour"])
    gpu = f"{row['gpu_count']}x {row['gpu']}" if row["gpu_count"] > 1 else row["gpu"]
    return [
        row["id"],
        row["provider"],
        row["region"],
        "yes" if row["ours"] else "no",
        row["job"],
        gpu,
        row["state"],
        per_hour(price, simulated),
        row["created_at"],
        row["stops_at"],
        "held" if row["held"] else None,
    ]


@click.command(epilog="Example: gpupoor reap --dry-run")
@click.option("--dry-run", is_flag=True, help="Only say what would be destroyed.")
@click.option("--adopt", metavar="ID", help="Destroy this machine too, although it is not ours.")
@output_option
@mock_option
@click.pass_context
def reap(ctx: click.Context, dry_run: bool, adopt: str | None, output: str, mock: bool) -> None:
    """One turn of the guard: destroy what is overdue or unowned. Machines that are not ours are only shown.

    Exit 9 when a provider did not answer: what lives there is not known.
    """
    from orchestrator.reap import reap as turn

    world, simulated = ask(mock)
    report = turn(world, simulated, dry_run, adopt)
    unreachable = report.unreachable + _without_key(world, simulated)
    if output == "json":
        lists = {"destroyed": report.destroyed, "foreign": report.foreign, "overdue": report.overdue}
        print_json({**lists, "unreachable": unreachable})
    else:
        print_world(simulated)
        done = "would be destroyed" if dry_run else "destroyed"
        for title, ids in ((done, report.destroyed), ("overdue", report.overdue), ("not ours", report.foreign)):
            click.echo(f"{title}: {', '.join(ids) or 'none'}")
        for fault in unreachable:
            say(f"UNKNOWN what lives at {fault}")
    if not dry_run:
        watch_over(world, simulated)
    ctx.exit(UNANSWERED if unreachable else 0)


def _without_key(world: World, simulated: bool) -> list[str]:
    """Providers where a machine of ours lives and that we have no key for."""
    from orchestrator.views.alarms import alarms

    return [alarm["text"] for alarm in alarms(world, simulated) if alarm["code"] == "key_missing"]
