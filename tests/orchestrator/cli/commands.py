"""Commands that end in every way a command can end."""

import sys

import click

from jobs.errors import RefusedByLimit


@click.command()
@click.argument("way")
def end(way: str) -> int:
    """End in `way`."""
    if way == "limit":
        raise RefusedByLimit("too much\nraise it")
    if way == "crash":
        raise KeyError("odd")
    if way == "interrupt":
        raise KeyboardInterrupt
    if way == "pipe":
        while True:
            sys.stdout.write("y" * 100_000)
    if way == "odd":
        click.echo("\udcff")
        return 0
    return int(way)
