"""A figure, and how the table of all figures looks."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Figure:
    """One row. ours: as measured here; goal: what we allow ourselves; the peers' words as published."""

    name: str
    ours: str
    goal: str = ""
    skypilot: str = ""
    dstack: str = ""

    def row(self) -> str:
        """A line of a table in Markdown."""
        return f"| {self.name} | {self.ours} | {self.goal} | {self.skypilot} | {self.dstack} |"


def table(figures: Sequence[Figure]) -> str:
    """All figures in Markdown."""
    head = "| figure | ours | goal | SkyPilot 0.14.1 | dstack 0.22.5 |\n|---|---|---|---|---|"
    return "\n".join([head, *(figure.row() for figure in figures)])


def halves(values: Sequence[float]) -> str:
    """`p50 / p95` in seconds."""
    ordered = sorted(values)
    if not ordered:
        return "none seen"
    return f"{median(ordered):.2f} / {ordered[min(len(ordered) * 95 // 100, len(ordered) - 1)]:.2f}"
