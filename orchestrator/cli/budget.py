"""`gpupoor budget`: monthly caps, what is spent of them, and what is free."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from jobs.errors import Usage
from jobs.money import parse_usd
from orchestrator.cli.output import mock_option, money, output_option, per_hour, print_json, print_table, say
from orchestrator.cli.worlds import look, print_world

if TYPE_CHECKING:
    from orchestrator.world import World

_month_option = click.option("--month", metavar="YYYY-MM", help="Another month than this one.")
_project_option = click.option("--project", metavar="P", help="The cap of one project.")
_user_option = click.option("--user", metavar="U", help="The cap of one user.")


@click.group(invoke_without_command=True, epilog="Example: gpupoor budget set 50 --project thesis")
@output_option
@mock_option
@_month_option
@click.pass_context
def budget(ctx: click.Context, output: str, mock: bool, month: str | None) -> None:
    """Monthly caps: what is spent, held and free. A month without its own cap inherits the last one."""
    if ctx.invoked_subcommand is None:
        _show(output, mock, month)


@budget.command(epilog="Example: gpupoor budget show --month 2026-12 -o json")
@output_option
@mock_option
@_month_option
@click.pass_context
def show(ctx: click.Context, output: str, mock: bool, month: str | None) -> None:
    """Every cap of a month."""
    outer = _outer(ctx)
    _show(output if output == "json" else outer["output"], mock or outer["mock"], month or outer["month"])


@budget.command(
    "set",
    epilog="Example: gpupoor budget set 50 --project thesis --month 2027-01",
    context_settings={"ignore_unknown_options": True},
)
@click.argument("amount")
@_project_option
@_user_option
@_month_option
@output_option
@mock_option
@click.pass_context
def set_(
    ctx: click.Context, amount: str, project: str | None, user: str | None, month: str | None, output: str, mock: bool
) -> None:
    """Set the cap of everything, of a project or of a user, in dollars, from this month (or --month) on."""
    try:
        micro = parse_usd(amount)
    except ValueError as error:
        raise Usage(str(error)) from None
    _change(ctx, micro, (project, user, month), output, mock)


@budget.command(epilog="Example: gpupoor budget clear --user ann")
@_project_option
@_user_option
@_month_option
@output_option
@mock_option
@click.pass_context
def clear(
    ctx: click.Context, project: str | None, user: str | None, month: str | None, output: str, mock: bool
) -> None:
    """Take a cap away from this month (or --month) on."""
    _change(ctx, None, (project, user, month), output, mock)


def _outer(ctx: click.Context) -> dict[str, Any]:
    """What was said before the subcommand: `gpupoor budget --mock set 5`."""
    assert ctx.parent is not None
    return ctx.parent.params


def _change(
    ctx: click.Context, micro: int | None, which: tuple[str | None, str | None, str | None], output: str, mock: bool
) -> None:
    from orchestrator.caps import check_month, month_of, set_cap

    project, user, month = which
    if project is not None and user is not None:
        raise Usage("a cap is of a project or of a user: give one of --project and --user")
    if "" in (project, user):
        raise Usage("an empty --project or --user is nobody's; leave the option out for the cap of everything")
    outer = _outer(ctx)
    world, simulated = look(mock or outer["mock"])
    month = check_month(month or outer["month"] or month_of(world.clock.now(), world.settings.zone))
    scope, name = (
        ("project", project) if project is not None else ("user", user) if user is not None else ("overall", "")
    )
    with world.database.write() as session:
        set_cap(session, simulated, scope, name or "", month, micro)
    if "json" in (output, outer["output"]):
        print_json(_document(world, simulated, month))
        return
    where = f"{scope} {name}".strip()
    say(f"cap of {where} from {month} on: {'none' if micro is None else money(micro, simulated)}")
    _warn(world, simulated, month, scope, name or "")


def _warn(world: World, simulated: bool, month: str, scope: str, name: str) -> None:
    """A cap below what is spent and held is accepted, and its effect is said."""
    for row in _document(world, simulated, month)["caps"]:
        if (row["scope"], row["name"]) == (scope, name) and row["free"] is not None and row["free"].startswith("-"):
            say(f"that is ${row['free'][1:]} less than is spent and held: no new machine is rented, running jobs go on")


def _document(world: World, simulated: bool, month: str | None) -> dict[str, Any]:
    from orchestrator.caps import check_month, month_of
    from orchestrator.views.money import budget as view

    return view(world, simulated, check_month(month or month_of(world.clock.now(), world.settings.zone)))


def _show(output: str, mock: bool, month: str | None) -> None:
    world, simulated = look(mock)
    document = _document(world, simulated, month)
    if output == "json":
        print_json(document)
        return
    print_world(simulated)
    click.echo(document["month"])
    heads = ["CAP OF", "CAP", "SPENT", "BURNING $/h", "HELD", "FREE", "FORECAST"]
    print_table(heads, [_row(row, simulated) for row in document["caps"]], right=heads[1:])
    if all(row["cap"] is None for row in document["caps"]):
        say("no cap is set: gpupoor budget set 50")


def _row(row: dict[str, Any], simulated: bool) -> list[str]:
    micro = {key: None if row[key] is None else parse_usd(row[key]) for key in row if key not in ("scope", "name")}
    spent = (micro["settled"] or 0) + (micro["running"] or 0)
    amounts = [micro["cap"], spent, micro["reserved"], micro["free"], micro["forecast"]]
    cap, spent_text, held, free, forecast = (money(amount, simulated) for amount in amounts)
    burning = per_hour(micro["burning"], simulated)
    return [f"{row['scope']} {row['name']}".strip(), cap, spent_text, burning, held, free, forecast]
