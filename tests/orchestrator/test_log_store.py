"""Where the bytes that a job printed are kept."""

import random
from pathlib import Path

import pytest
from sqlalchemy import func, select, update

from orchestrator import log_store
from orchestrator.db.models import Attempt, LogChunk
from tests.orchestrator.plumbing import add_running_job, make_world

TOKEN = "t"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home of this test."""
    return tmp_path


def open_world(home: Path, **settings):
    """A world with one followed attempt."""
    world = make_world(home, **settings)
    add_running_job(world)
    with world.database.write() as session:
        session.execute(update(Attempt).values(follow_token=TOKEN))
    return world


def put(world, data: bytes, piece: int, stream: str = "log") -> None:
    """Append in pieces of one size."""
    for offset in range(0, len(data), piece):
        assert log_store.append(world, "job1", 1, stream, offset, data[offset:offset + piece], TOKEN) == min(
            offset + piece, len(data))


def all_of(world, **how) -> bytes:
    """What is read."""
    return b"".join(log_store.read(world, "job1", 1, "log", **how))


def rows(world) -> int:
    """Chunks that count."""
    with world.database.read() as session:
        return session.execute(select(func.count()).select_from(LogChunk)).scalar_one()


def blobs(home: Path) -> int:
    """Chunks that lie on the disk."""
    return sum(1 for file in (home / "blobs" / "logs").rglob("*") if file.is_file())


def test_bytes_come_back_as_they_came(home: Path) -> None:
    """Any bytes, in pieces of any size, from any offset (G2)."""
    world = open_world(home)
    data = random.Random(1).randbytes(5000)
    put(world, data, 77)
    assert all_of(world) == data
    assert all_of(world, offset=1234) == data[1234:]
    assert all_of(world, offset=1234, end=2000) == data[1234:2000]
    assert log_store.size(world, "job1", 1, "log") == 5000


def test_the_same_piece_again_changes_nothing(home: Path) -> None:
    """A repeat and a piece from another offset are answered with what is stored (G6)."""
    world = open_world(home)
    put(world, b"hello\n", 6)
    assert log_store.append(world, "job1", 1, "log", 0, b"hello\n", TOKEN) == 6
    assert log_store.append(world, "job1", 1, "log", 0, b"hel", TOKEN) == 6
    assert log_store.append(world, "job1", 1, "log", 9, b"later", TOKEN) == 6
    assert all_of(world) == b"hello\n"


def test_whoever_follows_no_more_writes_nothing(home: Path) -> None:
    """An old token is refused and told."""
    world = open_world(home)
    with pytest.raises(log_store.NotFollowing):
        log_store.append(world, "job1", 1, "log", 0, b"x", "old")
    assert (all_of(world), rows(world)) == (b"", 0)


def test_a_job_without_a_log_has_an_empty_one(home: Path) -> None:
    """Asking early, or for what never was, is no error (G5)."""
    world = make_world(home)
    assert list(log_store.read(world, "nobody", 3, "stderr", tail_lines=10)) == []
    assert log_store.size(world, "nobody", 3, "log") == 0


def test_over_the_cap_the_middle_goes(home: Path) -> None:
    """The first nine tenths, a marker line, the last tenth; the disk does not grow (G7)."""
    world = open_world(home, log_cap=1000)
    data = random.Random(2).randbytes(50_000)
    put(world, data, 90)
    middle = log_store.marker(49_000)
    assert all_of(world) == data[:900] + middle + data[-100:]
    assert all_of(world, offset=49_950) == data[-50:]
    assert rows(world) == blobs(home) < 80


def test_the_cap_holds_for_pieces_larger_than_itself(home: Path) -> None:
    """Reading cuts at the byte."""
    world = open_world(home, log_cap=1000)
    data = random.Random(3).randbytes(9000)
    put(world, data, 4500)
    assert all_of(world) == data[:900] + log_store.marker(8000) + data[-100:]


def test_many_small_pieces_become_few_chunks(home: Path) -> None:
    """A job that prints a little for days leaves no file per second; its bytes are unchanged."""
    world = open_world(home)
    data = b"".join(b"%d\r" % number for number in range(800))
    put(world, data, 4)
    assert all_of(world) == data
    assert rows(world) == blobs(home) < 130


def test_the_tail_is_the_last_lines(home: Path) -> None:
    """Counted over chunks, with and without an end of the last line."""
    world = open_world(home)
    data = b"".join(b"line %d\n" % number for number in range(3000)) + b"open"
    put(world, data, 1000)
    lines = data.splitlines(keepends=True)
    for count in (1, 2, 100, 2999, 3001, 9999):
        assert all_of(world, tail_lines=count) == b"".join(lines[-count:])
    assert all_of(world, tail_lines=0) == b""


def test_the_tail_of_a_progress_bar_is_its_last_updates(home: Path) -> None:
    """A carriage return ends a line for the tail, so a day of updates is not one line (G3)."""
    world = open_world(home)
    put(world, b"".join(b"%d%%\r" % number for number in range(500)) + b"done\r\n", 700)
    assert all_of(world, tail_lines=2) == b"499%\rdone\r\n"


def test_the_tail_over_the_gap_counts_the_marker(home: Path) -> None:
    """More lines than the last tenth holds come from before the marker."""
    world = open_world(home, log_cap=1000)
    data = b"".join(b"%08d\n" % number for number in range(1000))
    put(world, data, 90)
    tail = all_of(world, tail_lines=50)
    assert log_store.marker(8000) in tail
    assert tail.endswith(data[-100:])
    assert tail.startswith(data[:900].splitlines(keepends=True)[-30][:1])


def test_a_chunk_that_goes_while_it_is_read_is_looked_for_again(home: Path) -> None:
    """A slow reader gets every byte although the chunks were merged meanwhile."""
    world = open_world(home)
    put(world, b"ab" * 60, 2)
    reading = log_store.read(world, "job1", 1, "log")
    first = next(reading)
    for offset in range(120, 140, 2):
        log_store.append(world, "job1", 1, "log", offset, b"ab", TOKEN)
    assert rows(world) < 20
    assert first + b"".join(reading) == b"ab" * 60


def test_a_removed_job_leaves_no_file(home: Path) -> None:
    """Rows and blobs go."""
    world = open_world(home)
    put(world, b"x" * 100, 10)
    log_store.delete_all(world, "job1")
    assert (rows(world), blobs(home)) == (0, 0)


def test_a_death_between_blob_and_row_loses_nothing(home: Path) -> None:
    """The blob without its row does not count; the same bytes are stored again."""
    world = open_world(home)

    class Death(BaseException):
        pass

    def die(name: str) -> None:
        raise Death

    from dataclasses import replace

    with pytest.raises(Death):
        log_store.append(replace(world, point=die), "job1", 1, "log", 0, b"hello", TOKEN)
    assert log_store.size(world, "job1", 1, "log") == 0
    put(world, b"hello world", 5)
    assert all_of(world) == b"hello world"
