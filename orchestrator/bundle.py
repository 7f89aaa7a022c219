"""The bundle: the workdir as one tar stream, named by its content.

What git ignores stays at home, `.gpupoorignore` adds to that, and the paths listed in `.gpupoorinclude` (one a
line, no patterns) come along whatever else says no. Links stay links and are never followed; one that leads
out of the workdir is left out.
"""

import hashlib
import os
import posixpath
import stat
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final, cast

from jobs.errors import Usage
from jobs.units import size_text
from orchestrator.ignore import IgnoreRules, rules_above
from orchestrator.settings import Settings
from orchestrator.submit import Bundle

INCLUDE_FILE: Final = ".gpupoorinclude"
RESULTS_FOLDER: Final = "gpupoor-out"

_PIECE: Final = 1024 * 1024
_NAMED_FOLDERS: Final = 5


@dataclass(frozen=True)
class LeftOut:
    """A file or a whole folder (its name ends in '/') that is not packed, and why."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name} ({self.reason})"


@dataclass(frozen=True)
class BundlePlan:
    """What will be packed, in the order of the stream: paths below `folder`.

    bytes: of all files. count: how many files and links. biggest: (folder, bytes) of the heaviest parts.
    """

    folder: Path
    files: tuple[str, ...]
    bytes: int
    count: int
    left_out: tuple[LeftOut, ...]
    biggest: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Written:
    """What `write` wrote: the stream's sha256 and length, and the names that had vanished meanwhile."""

    sha: str
    bytes: int
    vanished: tuple[str, ...]


@dataclass
class _Walk:
    """Collects a plan, folder by folder."""

    folder: Path
    keep_home: Path
    forced: tuple[str, ...]
    files: list[str] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    sizes: Counter[str] = field(default_factory=Counter)
    count: int = 0

    def enter(self, base: str, rules: IgnoreRules, ignored: str | None) -> None:
        """Take what belongs to the bundle below `base` ('' or 'a/b/'). ignored: why this folder is, where it is."""
        here = self.folder / base if base else self.folder
        rules = rules.below(here, base)
        try:
            with os.scandir(here) as found:
                entries = sorted(found, key=lambda entry: os.fsencode(entry.name))
        except OSError as error:
            raise Usage(f"{here}: cannot be read ({error.strerror}); make it readable or ignore it") from None
        for entry in entries:
            path = base + entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            forced = any(path == name or path.startswith(name + "/") for name in self.forced)
            why = None if forced else ignored or self._why_not(path, entry, is_folder, rules)
            if is_folder and self._is_home(here / entry.name):
                self.left_out.append(LeftOut(path + "/", "gpupoor's own keys and state"))
            elif is_folder and (why is None or any(name.startswith(path + "/") for name in self.forced)):
                self.files.append(path)
                self.enter(path + "/", rules, why)
            elif why is not None:
                self.left_out.append(LeftOut(path + "/" if is_folder else path, why))
            else:
                self._take(path, entry)

    def _why_not(self, path: str, entry: os.DirEntry[str], is_folder: bool, rules: IgnoreRules) -> str | None:
        if entry.name == ".git":
            return "history"
        if path == RESULTS_FOLDER and is_folder:
            return "results of earlier jobs"
        says = rules.why_ignored(path, is_folder)
        return None if says is None else f"ignored by {says}"

    def _is_home(self, path: Path) -> bool:
        return path.name == self.keep_home.name and path.resolve() == self.keep_home

    def _take(self, path: str, entry: os.DirEntry[str]) -> None:
        try:
            facts = entry.stat(follow_symlinks=False)
            leads_out = stat.S_ISLNK(facts.st_mode) and _leads_out(path, str(Path(entry.path).readlink()))
        except FileNotFoundError:
            return
        if leads_out:
            self.left_out.append(LeftOut(path, "a link out of the workdir"))
        elif not stat.S_ISREG(facts.st_mode) and not stat.S_ISLNK(facts.st_mode):
            self.left_out.append(LeftOut(path, "neither file nor link"))
        else:
            self.files.append(path)
            self.count += 1
            self.sizes[path.partition("/")[0] + ("/" if "/" in path else "")] += facts.st_size


def plan(folder: Path, limit: int, keep_home: Path) -> BundlePlan:
    """What a bundle of `folder` would hold; nothing is read but names and ignore files.

    keep_home: gpupoor's own folder, never packed. Raises Usage for a folder that is no workdir (/, a home folder)
    and for one over `limit` bytes, with its biggest parts.
    """
    folder = folder.resolve()
    _refuse_whole_computers(folder)
    walk = _Walk(folder, keep_home.resolve(), _forced(folder))
    walk.enter("", rules_above(folder), None)
    total, biggest = sum(walk.sizes.values()), tuple(walk.sizes.most_common(_NAMED_FOLDERS))
    if total > limit:
        parts = ", ".join(f"{name} {size_text(size)}" for name, size in biggest)
        raise Usage(
            f"{folder}: {size_text(total)} are more than bundle_limit ({size_text(limit)}); the biggest: {parts}. "
            f"Name in .gpupoorignore what the job does not need, or raise GPUPOOR_BUNDLE_LIMIT"
        )
    return BundlePlan(folder, tuple(walk.files), total, walk.count, tuple(walk.left_out), biggest)


def write(planned: BundlePlan, sink: BinaryIO) -> Written:
    """Write the tar; the same content gives the same bytes. Raises Usage where a file cannot be read whole."""
    hashing = _Hashing(sink)
    vanished: list[str] = []
    with tarfile.open(
        fileobj=cast(BinaryIO, hashing),
        mode="w|",
        bufsize=_PIECE,
        format=tarfile.GNU_FORMAT,
        encoding="utf-8",
        errors="surrogateescape",
    ) as archive:
        for path in planned.files:
            try:
                _add(archive, planned.folder, path)
            except FileNotFoundError:
                vanished.append(path)
            except OSError as error:
                raise Usage(
                    f"{path}: {error.strerror or 'it shrank while it was packed'}; make it readable or ignore it"
                ) from None
    return Written(hashing.sha.hexdigest(), hashing.bytes, tuple(vanished))


def pack(folder: Path, settings: Settings) -> tuple[Bundle, list[str]]:
    """(the packed workdir, what was left out and why). Raises Usage as `plan` and `write` do.

    The bytes lie in a nameless file that is gone with this process.
    """
    planned = plan(folder, settings.bundle_limit, settings.home)
    spool = tempfile.TemporaryFile(dir=settings.home if settings.home.is_dir() else None)  # noqa: SIM115 - lives on
    written = write(planned, cast(BinaryIO, spool))
    spool.flush()

    def again() -> BinaryIO:
        spool.seek(0)
        return os.fdopen(os.dup(spool.fileno()), "rb")

    left_out = [str(one) for one in planned.left_out] + [f"{name} (it vanished)" for name in written.vanished]
    return Bundle(written.sha, written.bytes, again), left_out


def _add(archive: tarfile.TarFile, folder: Path, path: str) -> None:
    place = folder / path
    facts = place.lstat()
    member = tarfile.TarInfo(path)
    member.mode = stat.S_IMODE(facts.st_mode) & 0o777
    if stat.S_ISDIR(facts.st_mode):
        # A folder's time changes with what is left out of it, and without w nothing could be unpacked into it.
        member.type, member.mode = tarfile.DIRTYPE, member.mode | 0o700
        archive.addfile(member)
        return
    member.mtime = int(facts.st_mtime)
    if stat.S_ISLNK(facts.st_mode):
        member.type, member.linkname = tarfile.SYMTYPE, str(place.readlink())
        if not _leads_out(path, member.linkname):
            archive.addfile(member)
    elif stat.S_ISREG(facts.st_mode):
        with os.fdopen(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as source:
            member.size = os.fstat(source.fileno()).st_size
            archive.addfile(member, source)


def _leads_out(path: str, target: str) -> bool:
    """By its text: absolute, or up beyond the workdir."""
    arrives = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return arrives.startswith(("/", "../")) or arrives == ".."


def _forced(folder: Path) -> tuple[str, ...]:
    """The paths of the include file. Raises Usage for one that is not there."""
    return tuple(_forced_lines(folder))


def _forced_lines(folder: Path) -> Iterator[str]:
    try:
        text = os.fsdecode((folder / INCLUDE_FILE).read_bytes())
    except FileNotFoundError:
        return
    for number, line in enumerate(text.splitlines(), 1):
        name = posixpath.normpath(line.strip()) if line.strip() and not line.startswith("#") else ""
        if name and (name.startswith(("/", "../")) or name == ".." or not os.path.lexists(folder / name)):
            raise Usage(f"{folder / INCLUDE_FILE}:{number}: there is no {line.strip()} in {folder}")
        if name:
            yield name


def _refuse_whole_computers(folder: Path) -> None:
    if not folder.is_dir():
        raise Usage(f"workdir {folder}: no such folder")
    if folder == Path(folder.anchor) or Path.home().resolve().is_relative_to(folder):
        raise Usage(f"workdir {folder}: that is a whole computer or home folder; name the folder of the project")


class _Hashing:
    """Passes bytes on and knows their sha256."""

    def __init__(self, sink: BinaryIO) -> None:
        self.sha = hashlib.sha256()
        self.bytes = 0
        self._sink = sink

    def write(self, piece: bytes) -> int:
        self.sha.update(piece)
        self.bytes += len(piece)
        self._sink.write(piece)
        return len(piece)
