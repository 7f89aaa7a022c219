"""`gpupoor config`: read and change settings."""

import click

from orchestrator import wiring
from orchestrator.cli.output import output_option, print_json, print_table, say


@click.group(epilog="Example: gpupoor config set default_budget 5.00")
def config() -> None:
    """Read and change settings: config.toml in GPUPOOR_HOME, each also as a variable GPUPOOR_NAME."""


@config.command("get", epilog="Example: gpupoor config get max_gpus")
@click.argument("name", required=False)
@output_option
def get(name: str | None, output: str) -> None:
    """One setting, or all with where each comes from. Secrets are not shown."""
    from orchestrator.settings import NAMES, check_name, show

    settings = wiring.settings()
    names = [check_name(name)] if name else ["home", *NAMES]
    if output == "json":
        rows = [{"name": n, "value": show(settings, n), "from": settings.origins[n]} for n in names]
        print_json(rows[0] if name else rows)
    elif name:
        click.echo(show(settings, names[0]))
    else:
        print_table(["NAME", "VALUE", "FROM"], [(n, show(settings, n), settings.origins[n]) for n in names])


@config.command(
    "set", epilog="Example: gpupoor config set max_gpus 4", context_settings={"ignore_unknown_options": True}
)
@click.argument("name")
@click.argument("value")
def set_(name: str, value: str) -> None:
    """Write one setting; the other lines of config.toml stay as they are. An empty VALUE is the default of texts."""
    from orchestrator.settings import CONFIG_FILE, check_name, set_value, show

    settings = wiring.settings()
    name = check_name(name)
    set_value(settings.home, name, value)
    changed = wiring.settings()
    say(f"{name} = {show(changed, name)} in {settings.home / CONFIG_FILE}")
    if changed.origins[name] == "environment":
        say(f"GPUPOOR_{name.upper()} is set and wins over the file in this shell")
    from orchestrator import up

    if name not in wiring.LiveLimits.NAMES and up.is_running(settings):
        say("the orchestrator that runs takes it when it starts again: gpupoor down, gpupoor up -d")
