"""`gpupoor doctor`: is everything well, and what to do if not."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from jobs.errors import GpupoorError
from orchestrator.cli.output import output_option, print_json, print_table

if TYPE_CHECKING:
    from orchestrator.views.health import Check

NOT_WELL = 9


@click.command(epilog="Example: gpupoor doctor -o json")
@output_option
@click.pass_context
def doctor(ctx: click.Context, output: str) -> None:
    """Clock, keys, database, broker, disk, guard, strays. Exit 9 when something is not well."""
    found = list(_checks())
    ok = all(check.ok for check in found)
    if output == "json":
        print_json({"ok": ok, "checks": [check._asdict() for check in found]})
    else:
        print_table(["CHECK", "", "WHAT"], [(c.name, "ok" if c.ok else "NOT OK", c.text) for c in found])
    ctx.exit(0 if ok else NOT_WELL)


def _checks() -> "Iterator[Check]":
    """Settings, home, then the world; where one cannot be opened, the rest is not asked."""
    from orchestrator.settings import load, unknown_variables
    from orchestrator.views.health import Check, checks

    try:
        settings = load(os.environ)
    except GpupoorError as error:
        yield Check("settings", False, str(error))
        return
    odd = unknown_variables(os.environ)
    yield Check("settings", not odd, "; ".join(odd) or str(settings.home / "config.toml"))
    try:
        from orchestrator.db.engine import refuse_network_folder

        settings.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        if settings.database_url.startswith("sqlite:"):
            refuse_network_folder(settings.home)
    except (GpupoorError, OSError) as error:
        yield Check("home", False, str(error))
        return
    yield Check("home", True, str(settings.home))
    from sqlalchemy.exc import SQLAlchemyError

    try:
        from orchestrator import wiring

        world = wiring.world(settings)
    except (GpupoorError, OSError, SQLAlchemyError) as error:
        yield Check("database", False, str(error).splitlines()[0])
        return
    yield from checks(world)
