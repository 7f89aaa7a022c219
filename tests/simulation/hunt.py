"""Runs seeds until one breaks a promise: python -m tests.simulation.hunt FIRST COUNT

Prints the seed and what broke. Exit codes: 0 nothing found, 3 a promise broke, 1 anything else went wrong.
"""

import sys
import tempfile
from pathlib import Path

import structlog

from tests.simulation.afternoon import Afternoon
from tests.simulation.checks import Broken
from tests.simulation.durable import template_database


def main(first: int, count: int) -> int:
    """Hunt; a fault of the program itself (an exception that is no broken promise) does not count as found."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(60 - 10))
    with tempfile.TemporaryDirectory() as folder:
        template = template_database(Path(folder))
        for seed in range(first, first + count):
            try:
                Afternoon(seed, template).run()
            except Broken as broken:
                print(f"seed {seed}: {broken}")
                return 3
            except Exception as error:  # noqa: BLE001 - told, and the hunt goes on
                print(f"seed {seed}: {type(error).__name__} {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
