"""`python -m benchmarks [commands choice flow many]`: measure those parts (default: all) and write README.md."""

import json
import os
import sys
import tempfile
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from platform import python_version

from benchmarks import choice, commands, flow
from benchmarks.figure import Figure, table

PARTS = {"commands": commands.measure, "flow": flow.measure, "choice": choice.measure, "many": flow.measure_many}
KEPT = Path(__file__).with_name("figures.json")
PAGE = Path(__file__).with_name("README.md")
HEAD = """# Figures

Written by `make bench`, which measured every number of ours. The peers' were measured earlier, on two shared cores with
Python 3.11; an empty field was not measured, or there is no such thing. CPU seconds are medians. The simulated cloud
and its machines are real processes and real SSH servers on the same computer, which others used too.

"""


def main(names: list[str]) -> None:
    """Measure, keep, write."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for name in names or list(PARTS):
        with tempfile.TemporaryDirectory(prefix="gpupoor-bench-", ignore_cleanup_errors=True) as folder:
            Path(folder).chmod(0o755)
            figures = []
            for figure in PARTS[name](Path(folder)):
                print(f"{figure.name:75} {figure.ours}", flush=True)
                figures.append(asdict(figure))
        load = f"{os.getloadavg()[1]:.1f}"
        kept[name] = {"at": f"{datetime.now(UTC):%Y-%m-%d %H:%M}", "load": load, "figures": figures}
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    parts = [kept[name] for name in PARTS if name in kept]
    rows = [Figure(**row) for part in parts for row in part["figures"]]
    when = ", ".join(f"{name} {kept[name]['at']} (load {kept[name]['load']})" for name in PARTS if name in kept)
    PAGE.write_text(f"{HEAD}{table(rows)}\n\nPython {python_version()}, {os.cpu_count()} cores. Taken (UTC): {when}.\n")


if __name__ == "__main__":
    main(sys.argv[1:])
