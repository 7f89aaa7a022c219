"""From a job file and flags to a Request: everything that submit must read from this computer."""

import getpass
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs import job_file
from jobs.errors import Usage
from orchestrator.bundle import pack
from orchestrator.cli.output import this_folder
from orchestrator.settings import Settings
from orchestrator.submit import Request

_GIT_S = 5
_AS_LIMITS = ("budget", "max_duration", "max_wait", "grace", "boot_limit")


@dataclass(frozen=True)
class Flags:
    """The flags of submit that change the job."""

    budget: str | None = None
    env: tuple[str, ...] = ()
    env_file: Path | None = None
    secret: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    name: str | None = None
    project: str | None = None
    mock: bool = False
    now: bool = False
    no_fuse_ok: bool = False
    job_id: str | None = None


@dataclass
class Read:
    """A job file that was read. shown: its name for people; left_out: paths that are not packed."""

    request: Request
    shown: str
    warnings: tuple[str, ...]
    left_out: list[str]


def read_request(file: str, flags: Flags, settings: Settings) -> Read:
    """Read, check and pack. Raises Usage or InvalidJob; nothing is written."""
    text, folder, shown = _text(file)
    overrides = _overrides(flags)
    found = job_file.read(text, shown, os.environ, overrides, flags.secret)
    spec = found.spec
    workdir = None if spec.workdir is None else (folder / Path(spec.workdir).expanduser()).resolve()
    bundle, left_out = (None, []) if workdir is None else pack(workdir, settings)
    request = Request(
        spec=spec,
        default_name=_default_name(file),
        folder=this_folder(),
        user=_user(),
        id=flags.job_id,
        flags=frozenset(override.partition("=")[0] for override in overrides).intersection(_AS_LIMITS),
        secrets={name: os.environ[name] for name in spec.secrets if os.environ.get(name)},
        bundle=bundle,
        git=_git(workdir or folder),
        no_fuse_ok=flags.no_fuse_ok,
        now=flags.now,
    )
    return Read(request, shown, found.warnings, left_out)


def _text(file: str) -> tuple[bytes, Path, str]:
    """(bytes, folder to which `workdir` is relative, name for people)."""
    if file == "-":
        return sys.stdin.buffer.read(), Path.cwd(), "stdin"
    path = Path(file)
    try:
        return path.read_bytes(), path.resolve().parent, file
    except OSError as error:
        raise Usage(f"{file}: {error.strerror}; name a job file, or - for stdin") from None


def _overrides(flags: Flags) -> list[str]:
    """All flags as `path=value`, the more special ones last."""
    lines = _env_lines(flags.env_file) if flags.env_file else []
    for name in ("budget", "name", "project"):
        value = getattr(flags, name)
        if value is not None:
            lines.append(f"{name}={value}")
    return [*lines, *flags.sets, *(f"env.{_with_value(pair)}" for pair in flags.env)]


def _with_value(pair: str) -> str:
    name, equals, _ = pair.partition("=")
    if equals:
        return pair
    if name not in os.environ:
        raise Usage(f"--env {name}: it has no value here; write --env {name}=VALUE")
    return f"{name}={os.environ[name]}"


def _env_lines(path: Path) -> list[str]:
    """`env.K=V` for each line `K=V`, `export K=V` or `K="V"` of a file; `#` begins a comment line."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Usage(f"--env-file {path}: {getattr(error, 'strerror', None) or 'it is not text'}") from None
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip().removeprefix("export ").strip()
        if not bare or bare.startswith("#"):
            continue
        name, equals, value = bare.partition("=")
        if not equals:
            raise Usage(f"{path}:{number}: a line is K=V")
        value = value.strip()
        quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
        found.append(f"env.{name.strip()}={value[1:-1] if quoted else value}")
    return found


def _default_name(file: str) -> str:
    """The file's name; for stdin the name of this folder."""
    return (Path.cwd().name if file == "-" else Path(file).stem) or "job"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _git(folder: Path) -> dict[str, Any] | None:
    """The commit that is checked out and whether tracked files differ; None outside a repository."""
    commit = _git_says(folder, "rev-parse", "HEAD")
    if not commit:
        return None
    return {"commit": commit.strip(), "dirty": bool(_git_says(folder, "status", "--porcelain", "--untracked-files=no"))}


def _git_says(folder: Path, *words: str) -> str | None:
    """What git prints, None where it fails or takes too long; nothing of the repository's own is run."""
    command = ["git", "-c", "core.fsmonitor=false", "-C", str(folder), *words]
    environment: Mapping[str, str] = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(command, capture_output=True, timeout=_GIT_S, env=environment, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None
