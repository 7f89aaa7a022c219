"""`gpupoor spend`: the ledger of a month, grouped."""

import csv
import sys
from typing import Any

import click

from jobs.errors import Usage
from jobs.money import parse_usd
from orchestrator.cli.output import mock_option, money, output_option, print_json, print_table, say
from orchestrator.cli.worlds import look, print_world

_GROUPINGS = ("job", "user", "project", "provider", "gpu", "day")
_COLUMNS = ("provider", "machine_id", "start", "end", "amount", "project", "user")


@click.command(epilog="Example: gpupoor spend --month 2026-12 --by project")
@click.option("--month", metavar="YYYY-MM", help="Another month than this one.")
@click.option("--by", type=click.Choice(_GROUPINGS), default="job", show_default=True, help="Group by.")
@click.option("--csv", "as_csv", is_flag=True, help="One line per machine, fit for a reimbursement form.")
@output_option
@mock_option
def spend(month: str | None, by: str, as_csv: bool, output: str, mock: bool) -> None:
    """What was spent in a month, from the ledger: settled lines only, exact to the micro-dollar."""
    if as_csv and output == "json":
        raise Usage("give one of --csv and -o json")
    from orchestrator.caps import check_month, month_of
    from orchestrator.views import money as view

    world, simulated = look(mock)
    month = check_month(month or month_of(world.clock.now(), world.settings.zone))
    if as_csv:
        _print_csv(view.receipts(world, simulated, month))
        return
    document = view.spend(world, simulated, month, by)
    if output == "json":
        print_json(document)
        return
    print_world(simulated)
    click.echo(document["month"])
    rows = [(row["key"], _amount(row["amount"], simulated), _hours(row["machine_seconds"])) for row in document["rows"]]
    rows.append(("total", _amount(document["total"], simulated), ""))
    print_table([by.upper(), "AMOUNT", "MACHINE TIME"], rows, right=["AMOUNT", "MACHINE TIME"])
    if parse_usd(document["running"]):
        say(f"and {_amount(document['running'], simulated)} so far on machines that are not settled yet")
    if document["provider_difference"] is not None:
        say(f"the ledger's difference to the providers' bills: {_amount(document['provider_difference'], simulated)}")


def _amount(text: str, simulated: bool) -> str:
    return money(parse_usd(text), simulated)


def _hours(seconds: int) -> str:
    return f"{seconds // 3600}:{seconds % 3600 // 60:02d}:{seconds % 60:02d}"


def _print_csv(lines: list[dict[str, Any]]) -> None:
    writer = csv.DictWriter(sys.stdout, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
