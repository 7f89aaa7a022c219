"""Results in a folder: whole, under their paths, never mixed with another run's."""

import io
import tarfile
from pathlib import Path

import pytest

from jobs.errors import GpupoorError, Usage
from orchestrator.cli.pull import Kept, fetch
from orchestrator.db.models import Attempt, Job
from orchestrator.world import World
from tests.orchestrator.door_world import door_world
from tests.orchestrator.standing_world import make_job


def packed(*members: tuple[tarfile.TarInfo, bytes]) -> io.BytesIO:
    """A tar of these."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    file.seek(0)
    return file


def entry(name: str, mode: int = 0o644, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    """A member."""
    info = tarfile.TarInfo(name)
    info.mode, info.type, info.linkname = mode, kind, link
    return info


def pulled(world: World, target: Path, job: Job, number: int = 1, tar: io.BytesIO | None = None) -> Kept:
    """Pull attempt `number` of `job`, whose output is the folder `out`."""
    name = f"results/{job.id}/{number}.tar"
    world.blobs.write(name, tar or packed((entry("out/a"), f"{job.id}-{number}".encode())))
    facts = {"out": {"is": "dir", "bytes": 1}}
    return fetch(world, job, Attempt(job=job.id, number=number, results_blob=name, results_list=facts), target)


def test_files_come_with_their_modes_names_and_links(tmp_path: Path) -> None:
    """An executable stays one; odd names and read-only folders are no trouble; nothing else lies there."""
    tar = packed(
        (entry("out", 0o555, tarfile.DIRTYPE), b""),
        (entry("out/run.sh", 0o755), b"#!/bin/sh\n"),
        (entry("out/ -rf\n模型"), b"x"),
        (entry("out/link", 0o777, tarfile.SYMTYPE, "run.sh"), b""),
    )
    kept = pulled(door_world(tmp_path), tmp_path / "here", make_job(), tar=tar)
    out = tmp_path / "here" / "out"
    assert kept.files == 2
    assert (out / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (out / " -rf\n模型").read_bytes() == b"x"
    assert (out / "link").read_bytes() == b"#!/bin/sh\n"
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["out"]


def test_nothing_is_written_outside_the_folder(tmp_path: Path) -> None:
    """A hostile machine's tar: ways out and devices are skipped by name, the rest comes."""
    tar = packed(
        (entry("../evil"), b"x"),
        (entry("out/door", kind=tarfile.SYMTYPE, link="/etc"), b""),
        (entry("out/null", kind=tarfile.CHRTYPE), b""),
        (entry("out/good"), b"x"),
    )
    kept = pulled(door_world(tmp_path), tmp_path / "here", make_job(), tar=tar)
    assert kept.skipped == ["../evil", "out/door", "out/null"]
    assert not (tmp_path / "evil").exists()
    assert (tmp_path / "here/out/good").exists()


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    """A link that points out, by itself or by way of others, a file laid over a link, a hard link through one."""
    (tmp_path / "mine").write_text("mine")
    tar = packed(
        (entry("out/up", kind=tarfile.SYMTYPE, link=".."), b""),
        (entry("out/a/b/top", kind=tarfile.SYMTYPE, link="../.."), b""),
        (entry("out/sly", kind=tarfile.SYMTYPE, link="a/b/top/../../mine"), b""),
        (entry("out/up/over"), b"x"),
        (entry("out/up"), b"x"),
        (entry("out/hard", kind=tarfile.LNKTYPE, link="out/up/job.yaml"), b""),
        (entry("out/hard", kind=tarfile.LNKTYPE, link="../mine"), b""),
        (entry("out/good", 0o4777), b"x"),
    )
    kept = pulled(door_world(tmp_path), tmp_path / "here", make_job(), tar=tar)
    assert kept.skipped == ["out/sly", "out/up/over", "out/up", "out/hard", "out/hard"]
    assert (tmp_path / "mine").read_text() == "mine"
    assert (tmp_path / "here/out/good").stat().st_mode & 0o7777 == 0o755


def test_pulling_again_is_fine(tmp_path: Path) -> None:
    """The same run into the same folder, also after a broken pull."""
    world = door_world(tmp_path)
    for _ in range(2):
        pulled(world, tmp_path / "here", make_job())
    assert (tmp_path / "here/out/a").read_text() == "job1-1"


@pytest.mark.parametrize(("job", "number"), [("job2", 1), ("job1", 2)])
def test_another_runs_outputs_are_never_mixed_in(tmp_path: Path, job: str, number: int) -> None:
    """Another job, or another attempt of the same one: refused, and what is there stays."""
    world = door_world(tmp_path)
    pulled(world, tmp_path / "here", make_job())
    with pytest.raises(Usage, match="another run"):
        pulled(world, tmp_path / "here", make_job(job), number)
    assert (tmp_path / "here/out/a").read_text() == "job1-1"


def test_a_folder_with_other_things_is_fine(tmp_path: Path) -> None:
    """Only what stands at the paths of the outputs is in the way."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here/job.yaml").write_text("run: true")
    assert pulled(door_world(tmp_path), tmp_path / "here", make_job()).files == 1


def test_files_that_nobody_pulled_are_not_written_over(tmp_path: Path) -> None:
    """A folder `out` of the user's own stays."""
    (tmp_path / "here/out").mkdir(parents=True)
    with pytest.raises(Usage, match="there already"):
        pulled(door_world(tmp_path), tmp_path / "here", make_job())


def test_a_broken_tar_is_told(tmp_path: Path) -> None:
    """No trace, one sentence."""
    with pytest.raises(GpupoorError, match="cannot be unpacked"):
        pulled(door_world(tmp_path), tmp_path / "here", make_job(), tar=io.BytesIO(b"no tar at all" * 100))
