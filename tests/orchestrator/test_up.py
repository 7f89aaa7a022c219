"""The orchestrator of a home: started once, ready, killed, ended."""

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select, update

from jobs.errors import RefusedByLimit, Unanswered
from orchestrator import up, wiring
from orchestrator.db.engine import open_database
from orchestrator.db.models import Machine, Turn
from orchestrator.settings import Settings, load
from tests.orchestrator.plumbing import add_running_job, at_once, make_world
from tests.services import wait_until


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    """A home of its own; what still runs in it at the end is killed by its lock."""
    home = tmp_path / "home"
    yield load({"GPUPOOR_HOME": str(home)})
    for name in (up.LOCK, up.GUARD_LOCK):
        if up.is_held(home / name):
            os.kill(pid(home / name), signal.SIGKILL)
            wait_until(lambda name=name: not up.is_held(home / name), "it is dead")


def pid(lock: Path) -> int:
    """Whose lock it is; 0 while it is not written yet."""
    return int(lock.read_text() or 0)


def turns(settings: Settings) -> dict[str, int]:
    """Kind -> pid of the processes that show themselves."""
    with open_database(settings.database_url).read() as session:
        return dict(session.execute(select(Turn.kind, Turn.pid)).all())


def test_ensure_starts_one_and_down_ends_it(settings: Settings) -> None:
    """Ready when ensure returns, with its guard; a second ensure finds it; down ends both, nothing is left."""
    assert not up.is_running(settings)
    up.ensure(settings)
    first = pid(settings.home / up.LOCK)
    up.ensure(settings)
    assert (up.is_running(settings), pid(settings.home / up.LOCK), turns(settings)["orchestrator"]) == (
        True, first, first)
    wait_until(lambda: "guard" in turns(settings), "the guard made a turn")
    assert up.is_held(settings.home / up.GUARD_LOCK)
    up.stop(settings)
    assert (up.is_running(settings), up.is_held(settings.home / up.GUARD_LOCK)) == (False, False)
    assert "orchestrator" not in turns(settings)
    up.stop(settings)


def test_many_who_ensure_at_once_start_one(settings: Settings) -> None:
    """Four commands at the same moment share one orchestrator."""
    errors = at_once(lambda: up.ensure(settings))
    assert (errors, up.is_running(settings)) == ([], True)


def test_a_second_one_in_the_foreground_is_refused(settings: Settings) -> None:
    """Only one runs per home."""
    with up.held_lock(settings.home / up.LOCK) as ours:
        assert ours
        with pytest.raises(RefusedByLimit, match="gpupoor down"):
            up.run(settings)


def test_a_killed_one_is_replaced_and_its_guard_lives_on(settings: Settings) -> None:
    """kill -9 frees the lock; the guard is the same one after the next start."""
    up.ensure(settings)
    first, guard = pid(settings.home / up.LOCK), pid(settings.home / up.GUARD_LOCK)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not up.is_running(settings), "it is dead")
    assert up.is_held(settings.home / up.GUARD_LOCK)
    up.ensure(settings)
    assert pid(settings.home / up.LOCK) != first
    assert pid(settings.home / up.GUARD_LOCK) == guard


def test_a_dead_guard_is_started_again(settings: Settings) -> None:
    """Within the next look around."""
    up.ensure(settings)
    guard = pid(settings.home / up.GUARD_LOCK)
    os.kill(guard, signal.SIGKILL)
    wait_until(lambda: pid(settings.home / up.GUARD_LOCK) not in (0, guard), "another guard lives")
    assert up.is_held(settings.home / up.GUARD_LOCK)


def test_down_is_refused_while_machines_live(settings: Settings, tmp_path: Path) -> None:
    """It says what they cost per hour; --leave goes through and leaves the guard (M7)."""
    world = make_world(settings.home)
    add_running_job(world)
    with pytest.raises(RefusedByLimit, match=r"1 machine.*\$0\.39/h") as caught:
        up.stop(settings)
    assert caught.value.exit_code == 3
    with up.held_lock(settings.home / up.GUARD_LOCK):
        up.stop(settings, leave=True)
    with world.database.write() as session:
        session.execute(update(Machine).values(state="gone"))
    up.stop(settings)


def test_one_that_cannot_start_says_why(settings: Settings) -> None:
    """The last line of its log is in the error."""
    settings.home.mkdir()
    (settings.home / "config.toml").write_text("nonsense = 1\n")
    with pytest.raises(Unanswered, match="nonsense"):
        up.ensure(settings)


class Bill(http.server.BaseHTTPRequestHandler):
    """A cloud's bill."""

    alive = 0

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"alive": self.alive}).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("alive", [0, 1])
def test_down_ends_a_simulated_cloud_that_is_empty(settings: Settings, alive: int) -> None:
    """One in which something lives goes on."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("OneBill", (Bill,), {"alive": alive}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    cloud = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    note = settings.home / "sim" / "cloud.json"
    note.parent.mkdir(parents=True)
    url = f"http://127.0.0.1:{server.server_port}"
    note.write_text(json.dumps({"url": url, "pid": cloud.pid}))
    assert wiring.mock_url(settings) == url
    up.stop(settings)
    if alive:
        assert cloud.poll() is None
        cloud.kill()
        cloud.wait()
    else:
        assert cloud.wait(30) == -signal.SIGTERM
        assert wiring.mock_url(settings) == ""
    server.shutdown()
    server.server_close()


def test_a_command_that_looks_imports_little(settings: Settings) -> None:
    """The world of a view knows no SSH, HTTP client, Celery or Alembic."""
    make_world(settings.home)
    code = ("import sys\nfrom orchestrator import up, wiring\nworld = wiring.world(wiring.settings())\n"
            "print([name for name in ('paramiko', 'asyncssh', 'httpx', 'celery', 'alembic') if name in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True,
                          env={**os.environ, "GPUPOOR_HOME": str(settings.home)})
    assert done.stdout == b"[]\n"


def test_providers_appear_while_we_run(settings: Settings) -> None:
    """A cloud started later is found without a restart."""
    world = wiring.world(settings)
    assert list(world.providers) == []
    (settings.home / "sim").mkdir()
    (settings.home / "sim" / "cloud.json").write_text(json.dumps({"url": "http://127.0.0.1:1", "pid": 1}))
    assert list(world.providers) == ["mock"]
