"""Replays one seed and tells what happened: python -m tests.simulation.replay SEED"""

import sys
import tempfile
from pathlib import Path

from tests.simulation.afternoon import Afternoon
from tests.simulation.durable import template_database


def main(seed: int) -> int:
    """Run the seed; print its trace and what the cloud knows. 1 when a promise broke."""
    with tempfile.TemporaryDirectory() as folder:
        afternoon = Afternoon(seed, template_database(Path(folder)))
        try:
            afternoon.run()
            broken = None
        except Exception as error:  # noqa: BLE001 - told at the end
            broken = error
        print(*afternoon.scheduler.trace, sep="\n")
        print(*afternoon.machines(), sep="\n")
        print(f"seed {seed}: {broken or 'all promises held'} after {afternoon.scheduler.moves} moves")
    return int(broken is not None)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
