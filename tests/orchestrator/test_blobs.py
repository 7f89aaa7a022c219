"""Blobs in a folder."""

import io
import subprocess
from pathlib import Path

import pytest

from jobs.errors import Unanswered
from orchestrator.blobs import FolderBlobs


def test_what_was_written_is_read(tmp_path: Path) -> None:
    """Names may have slashes; the bytes come back."""
    blobs = FolderBlobs(tmp_path, 0)
    assert blobs.write("results/job/a b.tar", io.BytesIO(b"x" * 3_000_000)) == 3_000_000
    with blobs.open("results/job/a b.tar") as file:
        assert file.read() == b"x" * 3_000_000


def test_a_write_that_fails_leaves_the_old_blob(tmp_path: Path) -> None:
    """Whole or not at all, and nothing lies around."""

    class Broken(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            raise OSError("gone")

    blobs = FolderBlobs(tmp_path, 0)
    blobs.write("a", io.BytesIO(b"old"))
    with pytest.raises(OSError, match="gone"):
        blobs.write("a", Broken())  # type: ignore[arg-type]
    assert blobs.open("a").read() == b"old"
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["a"]


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/", "a\0b", ".aside/1-1"])
def test_no_name_leaves_the_folder(tmp_path: Path, name: str) -> None:
    """Traversal and odd names are refused by every verb."""
    blobs = FolderBlobs(tmp_path, 0)
    for verb in (blobs.open, blobs.delete, lambda name: blobs.write(name, io.BytesIO(b""))):
        with pytest.raises(ValueError, match="not a name"):
            verb(name)


def test_a_missing_blob_is_a_key_error(tmp_path: Path) -> None:
    """Open says so, delete is silent."""
    blobs = FolderBlobs(tmp_path, 0)
    blobs.delete("none")
    with pytest.raises(KeyError):
        blobs.open("none")


def test_the_last_of_the_disk_is_left_to_the_database(tmp_path: Path) -> None:
    """A blob that would take it is refused and leaves nothing."""
    blobs = FolderBlobs(tmp_path, keep_free=10**18)
    with pytest.raises(Unanswered, match="full"):
        blobs.write("a", io.BytesIO(b"x"))
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


def test_left_overs_of_dead_processes_are_cleared(tmp_path: Path) -> None:
    """Those of living ones stay."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    (tmp_path / ".aside").mkdir()
    (tmp_path / ".aside" / f"{dead.pid}-0").write_bytes(b"half")
    (tmp_path / ".aside" / "1-0").write_bytes(b"half")
    FolderBlobs(tmp_path, 0).clear_aside()
    assert [file.name for file in (tmp_path / ".aside").iterdir()] == ["1-0"]
