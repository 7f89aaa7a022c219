"""Writes docs/job-yaml.md: `python -m docs.make`. A test compares the page with what this would write."""

from dataclasses import fields
from pathlib import Path

from jobs.job_yaml_doc import text
from jobs.money import usd
from jobs.units import duration_text, size_text
from orchestrator.settings import Settings

REPOSITORY = Path(__file__).resolve().parent.parent
PAGE = REPOSITORY / "docs" / "job-yaml.md"
_DURATIONS = ("boot_limit", "grace", "hold", "max_wait", "lease", "guard_every")
_SIZES = ("log_cap", "bundle_limit")
_IN_HOME = {"home": "`~/.gpupoor`", "database_url": "SQLite in `home`", "blobs_url": "a folder in `home`"}


def page() -> str:
    """The text of docs/job-yaml.md."""
    return text((REPOSITORY / "jobs" / "example.yaml").read_text(), _settings())


def _settings() -> list[tuple[str, str]]:
    """(name, default) of every setting, as people write them."""
    return [(field.name, _shown(field.name, field.default)) for field in fields(Settings) if field.name != "origins"]


def _shown(name: str, value: object) -> str:
    if name in _IN_HOME:
        return _IN_HOME[name]
    if value is None or value == "":
        return "none"
    if isinstance(value, int) and name in _DURATIONS:
        return duration_text(value)
    if isinstance(value, int) and name in _SIZES:
        return size_text(value)
    if isinstance(value, int) and name in ("default_budget", "max_per_hour"):
        return f"${usd(value)}"
    return str(value)


if __name__ == "__main__":
    PAGE.write_text(page())
