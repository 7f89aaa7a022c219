"""Settings: read once from config.toml and the environment, then frozen and handed in.

Durations: microseconds. Money: micro-dollars. Sizes: bytes.
"""

from dataclasses import dataclass
from pathlib import Path

from jobs.money import HOUR, MINUTE, SECOND


@dataclass(frozen=True)
class Settings:
    """All settings with their defaults (cli: `gpupoor config get`)."""

    home: Path
    database_url: str = ""
    broker_url: str = ""
    blobs_url: str = ""
    store: str = ""
    secret_key: str = ""
    default_budget: int | None = None
    zone: str = "UTC"
    max_gpus: int = 1
    max_per_hour: int | None = None
    boot_limit: int = 20 * MINUTE
    grace: int = 2 * MINUTE
    hold: int = 30 * MINUTE
    max_wait: int = 24 * HOUR
    lease: int = 60 * SECOND
    guard_every: int = 30 * SECOND
    log_cap: int = 100_000_000
    bundle_limit: int = 500_000_000
    currency: str = "USD"
    host: str = ""
    cloud_sshd: str = "asyncssh"
    mock_url: str = ""
    clock_url: str = ""
