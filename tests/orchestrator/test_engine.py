"""The database: transactions, locks, forks, full disks, silence."""

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from sqlalchemy import func, select, text, update

from jobs.errors import GpupoorError, Unanswered
from orchestrator.db import ballast
from orchestrator.db.engine import installation_id, open_database, refuse_network_folder
from orchestrator.db.models import Event, Installation
from tests.orchestrator.plumbing import HandClock
from tests.services import free_port


def count(database) -> int:
    """Events that are there."""
    with database.read() as session:
        return session.execute(select(func.count()).select_from(Event)).scalar_one()


def test_a_write_is_whole_or_nothing(url: str) -> None:
    """A committed block is there, a failed one left nothing."""
    database = open_database(url)
    with database.write() as session:
        session.add(Event(at=1, word="kept"))
    with pytest.raises(KeyError), database.write() as session:
        session.add(Event(at=2, word="lost"))
        session.flush()
        raise KeyError
    assert count(database) == 1
    database.close()


def test_rows_stay_usable_after_the_block(url: str) -> None:
    """What was read can be looked at without a session."""
    database = open_database(url)
    with database.write() as session:
        session.add(Event(at=1, word="kept", data={"a": 1}))
    with database.read() as session:
        row = session.execute(select(Event)).scalar_one()
    assert (row.word, row.data) == ("kept", {"a": 1})
    database.close()


def test_a_read_is_a_picture_of_one_moment(url: str) -> None:
    """A commit of somebody else in between is not seen, and nobody waits for anybody."""
    database = open_database(url)
    with database.read() as session:
        before = session.execute(select(func.count()).select_from(Event)).scalar_one()
        with database.write() as other:
            other.add(Event(at=1, word="new"))
        assert session.execute(select(func.count()).select_from(Event)).scalar_one() == before
    assert count(database) == before + 1
    database.close()


def test_200_writers_in_one_second_meet_no_error(url: str) -> None:
    """Many jobs that end at once wait for each other and none is lost (K1)."""
    database = open_database(url)
    with database.write() as session:
        session.add(Event(at=0, word="counter"))
    errors: list[BaseException] = []

    def raise_counter() -> None:
        try:
            with database.write() as session:
                session.execute(update(Event).values(at=Event.at + 1))
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=raise_counter) for _ in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.read() as session:
        assert (errors, session.execute(select(Event.at)).scalar_one()) == ([], 200)
    database.close()


def _raise_counter(url: str, times: int) -> None:
    database = open_database(url)
    for _ in range(times):
        with database.write() as session:
            value = session.execute(select(Event.at)).scalar_one()
            session.execute(update(Event).values(at=value + 1))


def test_processes_never_lose_an_update(tmp_path: Path) -> None:
    """Read-then-write in a write block is safe between processes, since it begins with the lock."""
    url = f"sqlite:///{tmp_path}/gpupoor.db"
    database = open_database(url)
    with database.write() as session:
        session.add(Event(at=0, word="counter"))
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_raise_counter, args=(url, 50)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    with database.read() as session:
        assert session.execute(select(Event.at)).scalar_one() == 150


def test_a_forked_child_has_connections_of_its_own(url: str) -> None:
    """Four children of a process with open connections work without an error (J6)."""
    database = open_database(url)
    assert count(database) == 0
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            try:
                for number in range(20):
                    with database.write() as session:
                        session.add(Event(at=number, word="child"))
            except BaseException:  # noqa: BLE001
                os._exit(1)
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0, 0]
    assert count(database) == 80
    database.close()


def test_kill_in_the_middle_of_a_write_leaves_no_lock(tmp_path: Path) -> None:
    """After kill -9 inside of a write block the next command works (K2)."""
    url = f"sqlite:///{tmp_path}/gpupoor.db"
    database = open_database(url)
    code = ("import sys\nfrom orchestrator.db.engine import open_database\nfrom orchestrator.db.models import Event\n"
            f"with open_database({url!r}).write() as session:\n"
            "    session.add(Event(at=1, word='half')); session.flush(); print('in', flush=True); sys.stdin.read()\n")
    for _ in range(3):
        child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert child.stdout
        assert child.stdout.readline() == b"in\n"
        child.send_signal(signal.SIGKILL)
        child.wait()
        with database.write() as session:
            session.add(Event(at=2, word="after"))
    with database.read() as session:
        assert session.execute(select(Event.word).distinct()).scalars().all() == ["after"]


def test_a_write_inside_a_write_is_refused(tmp_path: Path) -> None:
    """It would wait for itself for ever; it is a fault of the program and said at once."""
    database = open_database(f"sqlite:///{tmp_path}/gpupoor.db")
    with pytest.raises(RuntimeError), database.write(), database.write():
        pass


def test_sqlite_is_set_as_measured(tmp_path: Path) -> None:
    """WAL, synchronous=FULL, foreign keys on, 30 s of patience."""
    database = open_database(f"sqlite:///{tmp_path}/gpupoor.db")
    with database.read() as session:
        values = [session.execute(text(f"pragma {name}")).scalar()
                  for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")]
    assert values == ["wal", 2, 1, 30_000]


def test_a_silent_database_is_named_without_its_password() -> None:
    """Unanswered says which address, and hides the password."""
    with pytest.raises(Unanswered, match=r"127\.0\.0\.1") as caught:
        open_database(f"postgresql://me:hunter2@127.0.0.1:{free_port()}/x")
    assert "hunter2" not in str(caught.value)


def test_a_wrong_address_is_refused_without_its_password() -> None:
    """Neither a wrong scheme nor a broken address shows the password."""
    for url in ("mysql://me:hunter2@db/x", "postgresql://me:hunter2@db:notaport/x", "sqlite://"):
        with pytest.raises(GpupoorError, match="sqlite:///FILE") as caught:
            open_database(url)
        assert "hunter2" not in str(caught.value)


def test_a_home_on_nfs_is_refused_with_the_reason(tmp_path: Path) -> None:
    """The longest mount point counts, and the text says what to do."""
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda / ext4 rw 0 0\nserver:/home {tmp_path} nfs4 rw 0 0\n")
    with pytest.raises(GpupoorError, match=r"nfs4.*GPUPOOR_HOME"):
        refuse_network_folder(tmp_path / "home", mounts)
    mounts.write_text(f"server:/x / nfs rw 0 0\n/dev/sda {tmp_path} ext4 rw 0 0\n")
    refuse_network_folder(tmp_path / "home", mounts)


def test_a_full_disk_frees_the_ballast(tmp_path: Path) -> None:
    """The first write that finds no room says so and frees the ballast; when there is room, it comes again."""
    clock = HandClock()
    database = open_database(f"sqlite:///{tmp_path}/gpupoor.db", clock)
    with database.write() as session:
        session.add(Event(at=1, word="first"))
    assert (tmp_path / "ballast").stat().st_size == ballast.SIZE
    with pytest.raises(Unanswered, match="full"), database.write() as session:
        session.execute(text("pragma max_page_count=1"))
        for number in range(2000):
            session.add(Event(at=number, word="x" * 1000))
        session.flush()
    assert not (tmp_path / "ballast").exists()
    database.close()
    for _ in range(2):
        with database.write() as session:
            session.add(Event(at=2, word="after"))
        clock.sleep(61)
    assert (tmp_path / "ballast").exists()
    assert count(database) == 3


def test_an_io_error_of_the_disk_is_not_a_traceback(tmp_path: Path) -> None:
    """A file that is no database gives Unanswered, not a stack."""
    (tmp_path / "gpupoor.db").write_bytes(b"no database at all" * 100)
    with pytest.raises((Unanswered, GpupoorError, sqlite3.DatabaseError)):
        open_database(f"sqlite:///{tmp_path}/gpupoor.db")


def test_the_installation_has_one_id_for_ever(url: str) -> None:
    """Many who come first at once agree on one id."""
    database = open_database(url)
    found: list[str] = []

    def ask(number: int) -> None:
        found.append(installation_id(database, lambda: f"{number:08d}", 1))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.read() as session:
        assert session.execute(select(Installation.id)).scalars().all() == list(set(found))
    database.close()
