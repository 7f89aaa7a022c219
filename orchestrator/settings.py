"""Settings: read once from config.toml and the environment, then frozen and handed in.

Durations: microseconds. Money: micro-dollars. Sizes: bytes. The environment wins over the file.
"""

import difflib
import os
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from jobs.errors import Usage
from jobs.money import HOUR, MINUTE, SECOND, parse_usd, usd
from jobs.units import duration_text, parse_duration, parse_size, size_text

PREFIX: Final = "GPUPOOR_"
CONFIG_FILE: Final = "config.toml"

Value = str | int | None


@dataclass(frozen=True)
class Settings:
    """All settings with their defaults (cli: `gpupoor config get`).

    origins: name -> 'default', 'setting' (config.toml) or 'environment', as `load` found them.
    """

    home: Path
    database_url: str = field(default="", repr=False)
    broker_url: str = field(default="", repr=False)
    blobs_url: str = ""
    store: str = ""
    secret_key: str = field(default="", repr=False)
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
    origins: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)


def _text(text: str) -> str:
    return text


def _positive_duration(text: str) -> int:
    duration = parse_duration(text)
    if duration <= 0:
        raise ValueError(f"{text!r} is no time at all; write one like 90s, 10m or 1.5h")
    return duration


def _money_or_none(text: str) -> int | None:
    if text.strip().lower() in ("", "none"):
        return None
    amount = parse_usd(text)
    if amount < 0:
        raise ValueError(f"{text!r} is less than nothing; write for example 5.00")
    return amount


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text!r} is not a whole number; write for example 4")
    return int(text)


def _zone(text: str) -> str:
    try:
        ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"{text!r} is not a time zone; write for example UTC or Europe/Berlin") from None
    return text


def _url(text: str) -> str:
    if text and not text.startswith(("http://", "https://")):
        raise ValueError(f"{text!r} is not an address; write for example http://127.0.0.1:8899")
    return text.rstrip("/")


def _currency(text: str) -> str:
    if not (len(text) == 3 and text.isascii() and text.isalpha()):
        raise ValueError(f"{text!r} is not a currency; write for example USD or EUR")
    return text.upper()


def _sshd(text: str) -> str:
    if text not in ("asyncssh", "openssh"):
        raise ValueError(f"{text!r} is not known; write asyncssh or openssh")
    return text


_READERS: Final[dict[str, Callable[[str], Value]]] = {
    "database_url": _text,
    "broker_url": _text,
    "blobs_url": _text,
    "store": _text,
    "secret_key": _text,
    "default_budget": _money_or_none,
    "zone": _zone,
    "max_gpus": _count,
    "max_per_hour": _money_or_none,
    "boot_limit": _positive_duration,
    "grace": _positive_duration,
    "hold": _positive_duration,
    "max_wait": _positive_duration,
    "lease": _positive_duration,
    "guard_every": _positive_duration,
    "log_cap": parse_size,
    "bundle_limit": parse_size,
    "currency": _currency,
    "host": _text,
    "cloud_sshd": _sshd,
    "mock_url": _url,
    "clock_url": _url,
}

NAMES: Final = tuple(_READERS)
SECRET_NAMES: Final = ("secret_key", "database_url", "broker_url")


def load(environ: Mapping[str, str]) -> Settings:
    """The settings of `environ` and of config.toml in its home. Raises Usage that names the file or the variable.

    An empty database or blobs address becomes the one inside the home.
    """
    home = find_home(environ)
    values: dict[str, Value] = {}
    origins = dict.fromkeys(NAMES, "default")
    for name, text in _read_file(home / CONFIG_FILE).items():
        values[name] = _parse(f"{home / CONFIG_FILE}: {name}", name, text)
        origins[name] = "setting"
    for name in NAMES:
        variable = PREFIX + name.upper()
        if variable in environ:
            values[name] = _parse(variable, name, environ[variable])
            origins[name] = "environment"
    origins["home"] = "environment" if environ.get(PREFIX + "HOME") else "default"
    values["database_url"] = values.get("database_url") or f"sqlite:///{home / 'gpupoor.db'}"
    values["blobs_url"] = values.get("blobs_url") or str(home / "blobs")
    return Settings(home=home, origins=origins, **values)  # type: ignore[arg-type]  # the readers give each its type


def find_home(environ: Mapping[str, str]) -> Path:
    """The folder that holds everything of this installation, absolute; it need not exist yet."""
    text = environ.get(PREFIX + "HOME", "")
    user_home = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
    if not text:
        return (user_home / ".gpupoor").absolute()
    if text == "~" or text.startswith("~/"):
        return (user_home / text[2:]).absolute()
    return Path(text).absolute()


def check_name(text: str) -> str:
    """The setting that `text` names, in any form that users write. Raises Usage with the nearest name."""
    name = text.strip().lower().replace("-", "_").removeprefix(PREFIX.lower())
    if name in NAMES or name == "home":
        return name
    near = difflib.get_close_matches(name, NAMES, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(NAMES)}"
    raise Usage(f"{text}: no such setting; {hint}")


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Variables that look like a setting written wrong, each with the name that was probably meant."""
    found = []
    for variable in sorted(environ):
        name = variable.removeprefix(PREFIX).lower()
        if variable.startswith(PREFIX) and name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=1, cutoff=0.8)
            found += [f"{variable}: did you mean {PREFIX}{near[0].upper()}?"] if near else []
    return found


def show(settings: Settings, name: str) -> str:
    """The value of one setting in the words of config.toml; what is secret is only said to be there."""
    value = getattr(settings, name)
    reader = _READERS.get(name)
    if name in SECRET_NAMES and value and settings.origins.get(name) != "default":
        return "(set)"
    if value is None:
        return "none"
    if reader is _positive_duration:
        return duration_text(value)
    if reader is parse_size:
        return size_text(value)
    return usd(value) if reader is _money_or_none else str(value)


def set_value(home: Path, name: str, text: str) -> None:
    """Write one setting to config.toml, whole or not at all; all other lines stay. Raises Usage.

    Rename over the old file: whoever dies here leaves either the old or the new settings.
    """
    name = check_name(name)
    if name == "home":
        raise Usage("home cannot stand inside the home; set the variable GPUPOOR_HOME")
    value = _parse(name, name, text)
    path = (home / CONFIG_FILE).resolve()
    _read_file(path)
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    new = _with_line(old, name, f"{name} = {_toml_string(text)}")
    if _parse(str(path), name, _texts(path, new).get(name, "")) != value:
        raise Usage(f"{path}: {name} cannot be changed by a program in this file; change it by hand")
    _write_whole(path, new)


def _parse(where: str, name: str, text: str) -> Value:
    try:
        return _READERS[name](text.strip())
    except ValueError as error:
        raise Usage(f"{where}: {error}") from None


def _read_file(path: Path) -> dict[str, str]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise Usage(f"{path}: cannot be read ({error}); make it a text file that you may read") from None
    return _texts(path, text)


def _texts(path: Path, text: str) -> dict[str, str]:
    """Name -> value as written; floats stay text, so that no amount is rounded."""
    try:
        table = tomllib.loads(text, parse_float=str)
    except tomllib.TOMLDecodeError as error:
        raise Usage(f'{path}: {error}; a line looks like: default_budget = "5.00"') from None
    texts = {}
    for name, value in table.items():
        if _check_known(path, name) and (isinstance(value, bool) or not isinstance(value, str | int)):
            raise Usage(f'{path}: {name}: {value!r} is neither text nor a number; write {name} = "..."')
        texts[name] = str(value)
    return texts


def _check_known(path: Path, name: str) -> bool:
    """True for a setting that may stand in `path`; raises Usage that names the file otherwise."""
    if name == "home":
        raise Usage(f"{path}: home cannot stand inside the home; set the variable GPUPOOR_HOME")
    if name not in NAMES:
        try:
            check_name(name)
        except Usage as error:
            raise Usage(f"{path}: {error}") from None
        raise Usage(f"{path}: {name}: write it as {check_name(name)}")
    return True


def _with_line(text: str, name: str, line: str) -> str:
    lines = text.splitlines()
    for number, old in enumerate(lines):
        if old.split("=")[0].strip().strip("\"'") == name and "=" in old:
            lines[number] = line
            return "\n".join(lines) + "\n"
    return "\n".join([*lines, line]) + "\n"


def _toml_string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c >= " " and c != "\x7f" else f"\\u{ord(c):04x}" for c in escaped) + '"'


def _write_whole(path: Path, text: str) -> None:
    """Aside, fsync, rename. Mode 600: a secret key may stand in it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, aside = tempfile.mkstemp(dir=path.parent, prefix=".config-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(aside).replace(path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise
