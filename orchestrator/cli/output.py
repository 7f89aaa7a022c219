"""Printing: tables and JSON to stdout, everything else to stderr, and questions only where a person sits."""

import json
import os
import sys
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from jobs.money import MICRO

_Function = TypeVar("_Function", bound=Callable[..., Any])

output_option: Callable[[_Function], _Function] = click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True,
    help="json: one document on stdout, messages on stderr.",
)  # fmt: skip
mock_option: Callable[[_Function], _Function] = click.option(
    "--mock", is_flag=True, help="The simulated world: no account, no money."
)
yes_option: Callable[[_Function], _Function] = click.option("-y", "--yes", is_flag=True, help="Ask nothing.")


def print_json(document: object) -> None:
    """One JSON document on stdout, in ASCII so that any pipe can take it."""
    click.echo(json.dumps(document, indent=2))


def say(text: str) -> None:
    """A message for a person, on stderr."""
    click.echo(text, err=True)


def clean(text: str) -> str:
    """`text` in one line without control characters: what providers and jobs say may not steer a terminal."""
    return "".join(" " if c in "\r\n\t" else c for c in text if c in "\r\n\t" or unicodedata.category(c) != "Cc")


def print_table(heads: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[str] = ()) -> None:
    """Columns aligned by two spaces; heads in bold on a terminal. None prints as `-`.

    right: the heads whose columns are aligned to the right (amounts).
    """
    texts = [[clean("-" if cell is None else str(cell)) for cell in row] for row in rows]
    widths = [max(_width(cell) for cell in column) for column in zip(heads, *texts, strict=True)]
    click.secho(_line(heads, heads, widths, right), bold=True)
    for row in texts:
        click.echo(_line(row, heads, widths, right))


def _line(cells: Sequence[str], heads: Sequence[str], widths: Sequence[int], right: Sequence[str]) -> str:
    padded = []
    for cell, head, width in zip(cells, heads, widths, strict=True):
        space = " " * (width - _width(cell))
        padded.append(space + cell if head in right else cell + space)
    return "  ".join(padded).rstrip()


def _width(text: str) -> int:
    """Columns on a terminal: wide characters take two, combining ones none."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def money(micro: int | None, simulated: bool = False) -> str:
    """`$5.00`, `$0.031`, `sim $0.031`: rounded up to a tenth of a cent; `-` for None. Exact amounts: jobs.money.usd."""
    if micro is None:
        return "-"
    sign = "-" if micro < 0 else ""
    tenths = -(-abs(micro) // 1000)
    whole, rest = divmod(tenths, MICRO // 1000)
    decimals = f"{rest:03d}"
    decimals = decimals[:2] if decimals.endswith("0") else decimals
    return f"{'sim ' if simulated else ''}{sign}${whole}.{decimals}"


def per_hour(micro: int | None, simulated: bool = False) -> str:
    """`$0.39/h`; `-` for None."""
    return "-" if micro is None else f"{money(micro, simulated)}/h"


def size(count: int) -> str:
    """Bytes in words of the job file: `512B`, `1.5MB`."""
    amount = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.3g}{unit}" if amount < 100 else f"{amount:.0f}{unit}"
        amount /= 1000
    return f"{amount:.3g}TB"


def this_folder() -> str:
    """The folder in which the command was typed, as jobs remember it; bytes that are no text are escaped."""
    return os.fsencode(Path.cwd()).decode("utf-8", "backslashreplace")


def person_there() -> bool:
    """Whether a question can be asked: stdin and stderr are terminals."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str) -> bool:
    """Ask on stderr; the answer without typing is no. Only to be called where `person_there`."""
    return click.confirm(question, default=False, err=True)
