"""Blobs in a folder: whole immutable objects by name, there completely or not at all."""

import itertools
import os
import shutil
from pathlib import Path
from typing import BinaryIO, Final

from jobs.errors import Unanswered

KEEP_FREE: Final = 32_000_000
_PIECE: Final = 1 << 20
_ASIDE: Final = ".aside"


class FolderBlobs:
    """`orchestrator.world.Blobs` in a folder of a local disk.

    keep_free: bytes of the disk that blobs never take, so that the database can still book the ends of jobs.
    """

    def __init__(self, folder: Path, keep_free: int = KEEP_FREE) -> None:
        self._folder = folder
        self._keep_free = keep_free
        self._numbers = itertools.count()

    def write(self, name: str, source: BinaryIO) -> int:
        """Store all of `source` under `name`; bytes stored.

        Aside, fsync, rename, fsync of the folder: whoever dies here leaves the old state or the new one.
        Raises Unanswered when the disk is full, ValueError for a wrong name.
        """
        path = self._path(name)
        aside = self._folder / _ASIDE / f"{os.getpid()}-{next(self._numbers)}"
        _make_folder(aside.parent)
        _make_folder(path.parent)
        stored = 0
        try:
            with aside.open("wb") as file:
                while piece := source.read(_PIECE):
                    self._check_room(len(piece))
                    stored += file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
        return stored

    def open(self, name: str) -> BinaryIO:
        """Read; raises KeyError where there is no such blob."""
        try:
            return self._path(name).open("rb")
        except (FileNotFoundError, IsADirectoryError):
            raise KeyError(name) from None

    def delete(self, name: str) -> None:
        """Silent when it is not there."""
        self._path(name).unlink(missing_ok=True)

    def clear_aside(self) -> None:
        """Remove what processes that died left half written."""
        for file in sorted((self._folder / _ASIDE).glob("*-*")):
            if not _is_alive(int(file.name.split("-")[0])):
                file.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        parts = name.split("/")
        if "\0" in name or any(part in ("", ".", "..", _ASIDE) for part in parts):
            raise ValueError(f"{name!r} is not a name of a blob")
        return self._folder.joinpath(*parts)

    def _check_room(self, wanted: int) -> None:
        if shutil.disk_usage(self._folder).free - wanted < self._keep_free:
            raise Unanswered(f"the disk of {self._folder} is full; free some space, the work goes on by itself")


def _make_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True, mode=0o700)
    _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
