"""A simulated cloud of one test: a process of `gpupoor cloud`, its control API, and its end."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.services import wait_until

GPUPOOR = str(Path(sys.executable).with_name("gpupoor"))
CHEAP = {"provider": "mock", "gpu": "RTX-4090", "vram_gb": 24, "price_per_hour": "0.36", "boot_s": 0.5}


class Cloud:
    """One cloud on `folder`. It lives until `close`, which takes its machines along."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        environment = {key: value for key, value in os.environ.items() if not key.startswith("GPUPOOR_")}
        with (folder.parent / f"{folder.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [GPUPOOR, "cloud", "--port", "0", "--state", str(folder)],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True,
                start_new_session=True,  # Ctrl-C at the tests ends them, and they end the cloud after its machines
                env={**environment, "GPUPOOR_HOME": str(folder.parent / "cloud-home")},
            )  # fmt: skip
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith("http"), (folder.parent / f"{folder.name}.log").read_text()
        self.market(CHEAP)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer's JSON."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Authorization": "Bearer k"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from None

    def market(self, *offers: dict[str, Any]) -> None:
        """Replace the offers."""
        self.ask("POST", "/_cloud/market", {"offers": list(offers)})

    def faults(self, *rules: dict[str, Any]) -> None:
        """Replace the rules."""
        self.ask("POST", "/_cloud/faults", {"rules": list(rules)})

    def hits(self) -> list[int]:
        """How often each rule hurt."""
        return [one["hits"] for one in self.ask("GET", "/_cloud/faults")]

    def hurt(self, machine: str, verb: str, **said: Any) -> None:
        """What happens to one machine: preempt, kill, freeze, ..."""
        self.ask("POST", f"/_cloud/machines/{machine}/{verb}", said)

    def advance(self, seconds: float) -> None:
        """Step the cloud's clock."""
        self.ask("POST", "/_cloud/clock", {"advance_s": seconds})

    def bill(self) -> dict[str, Any]:
        """The whole bill."""
        return self.ask("GET", "/_cloud/bill")

    def machines(self) -> list[dict[str, Any]]:
        """The lines of the bill in the order of their birth."""
        return self.bill()["machines"]

    def alive(self) -> int:
        """How many machines cost money."""
        return self.bill()["alive"]

    def total(self) -> Decimal:
        """Dollars of all machines."""
        return Decimal(self.bill()["total"])

    def requests(self, call: str | None = None) -> list[dict[str, Any]]:
        """What it was asked, in order."""
        return [one for one in self.ask("GET", "/_cloud/requests") if call in (None, one["call"])]

    def close(self) -> None:
        """End every machine, then the cloud; nothing else on this computer is touched."""
        try:
            self.faults()
            for machine in self.machines():
                if machine["state"] != "gone":
                    self.ask("DELETE", f"/mock/v1/machines/{machine['id']}")
            wait_until(lambda: self.alive() == 0, "all machines of this cloud are gone")
        finally:
            self.process.send_signal(signal.SIGTERM)
            self.process.communicate(timeout=30)
