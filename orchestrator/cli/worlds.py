"""Opening the world that a command looks at, with as little as the command needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from sqlalchemy import exists, select

from jobs.errors import Usage
from orchestrator import wiring
from orchestrator.cli.mock import ensure_cloud, means_simulated
from orchestrator.cli.output import say
from orchestrator.db.models import Machine

if TYPE_CHECKING:
    from orchestrator.world import World

NO_KEY = (
    "no provider key was found: gpupoor login PROVIDER stores one, and --mock tries everything in a "
    "simulated cloud, for nothing"
)


def look(mock: bool) -> tuple[World, bool]:
    """The world for a command that only reads and writes our own rows, and whether the simulated one is meant."""
    settings = wiring.settings()
    return wiring.world(settings), means_simulated(settings, mock)


def ask(mock: bool, providers: Sequence[str] = ()) -> tuple[World, bool]:
    """The world for a command that asks providers; starts the simulated cloud where that is meant.

    Raises Usage where there is no provider to ask, unless a machine of ours lives: then a key is
    missing, which is not the same as having no machines.
    """
    settings = wiring.settings()
    simulated = means_simulated(settings, mock, providers)
    world = wiring.world(ensure_cloud(settings) if simulated else settings)
    known = {name for name, provider in world.providers.items() if provider.facts.simulated == simulated}
    if providers and not known & set(providers):
        raise Usage(f"{', '.join(providers)}: {NO_KEY}")
    if not known and not machines_live(world, simulated):
        raise Usage(NO_KEY)
    return world, simulated


def machines_live(world: World, simulated: bool) -> bool:
    """Whether our rows say that a machine of this world costs money."""
    with world.database.read() as session:
        live = exists().where(Machine.state.in_(("sent", "alive", "releasing")), Machine.simulated == simulated)
        return bool(session.scalar(select(live)))


def watch_over(world: World, simulated: bool) -> None:
    """Start the orchestrator where machines live and none runs, and say so: nobody else would end them."""
    from orchestrator import up

    if machines_live(world, simulated) and not world.settings.broker_url and not up.is_running(world.settings):
        say("machines live and no orchestrator runs: starting it (gpupoor down ends it)")
        up.ensure(world.settings)


def print_world(simulated: bool) -> None:
    """The first line of every table of the simulated world."""
    if simulated:
        click.secho("SIMULATED", bold=True)
