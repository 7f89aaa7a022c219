"""Starting a job: once, with its exit code, its streams and its environment."""

import os
import signal
import threading
from pathlib import Path

import pytest

from jobs.script.hello import hello
from jobs.script.start import start, state
from tests.jobs.script.conftest import without
from tests.jobs.script.machine import NONCE, TAG, until


def test_setup_and_run(machine):
    """Setup and run are run in that order in the job's folder, and the log has what they printed and no more."""
    assert machine.run("pwd; echo two >&2", setup="echo one") == 0
    assert sorted(machine.log.split(b"\n")) == sorted([b"one", str(machine.dir).encode(), b"two", b""])
    assert machine.stderr == b"two\n"
    assert machine.ask(state(TAG)) == {
        "phase": "ended",
        "exit": "0",
        "log": str(len(machine.log)),
        "stderr": "4",
        "nonce": NONCE,
    }


@pytest.mark.parametrize(
    ("run", "code"),
    [
        ("exit 3", 3),
        ("kill -9 $$", 137),
        ("kill -15 $$", 143),
        ("false | cat", 1),
        ("false; true", 1),
        ("kill -9 0", 137),
    ],
)
def test_exit_codes(machine, run, code):
    """A job's exit code is its own, 128+n for a signal; a pipe fails with its first part."""
    assert machine.run(run) == code


def test_failed_setup(machine):
    """A setup that fails ends the job with its code, and run is not begun."""
    assert machine.run("echo never", setup="exit 7") == 7
    assert machine.log == b""


def test_no_newline_and_any_bytes(machine):
    """Bytes that are no text, and an end without a newline, stand in the log as they were printed."""
    assert machine.run(r"printf 'a\000\200\377\r\nend'") == 0
    assert machine.log == b"a\0\x80\xff\r\nend"


def test_fifty_megabytes_on_both_streams(machine):
    """50 MB on each stream arrive whole, and the log is as long as both."""
    size = 50_000_000
    assert machine.run(f"head -c {size} /dev/zero & head -c {size} /dev/zero | tr '\\0' x >&2; wait") == 0
    assert len(machine.stderr) == size
    assert machine.log.count(b"x") == machine.log.count(b"\0") == size


def test_dev_stdout_may_be_opened_again(machine):
    """Redirecting to /dev/stdout and /dev/stderr adds to the log and cuts nothing."""
    assert machine.run("echo a; echo b > /dev/stdout; echo c > /dev/stderr") == 0
    assert sorted(machine.log) == sorted(b"a\nb\nc\n")


def test_a_child_that_holds_stdout(machine):
    """The job ends when its main process ends, although a background child holds its streams; the child is killed."""
    assert machine.run("sleep 600 & echo done") == 0
    assert machine.log == b"done\n"
    assert not machine.processes("sleep 600")


def test_a_child_that_ignores_term_in_its_own_session(machine):
    """A child left in a session of its own that ignores TERM is gone at the end."""
    assert machine.run("""setsid sh -c 'trap "" TERM; echo up; sleep 600; sleep 600' & sleep 0.5""") == 0
    assert machine.log == b"up\n"
    assert not machine.processes("sleep 600")


def test_start_again(machine):
    """A second start, also after the end, says already and starts nothing."""
    assert machine.run("echo x >> count") == 0
    assert machine.start() == {"start": "already"}
    assert (machine.dir / "count").read_text() == "x\n"


def test_twenty_starts_at_once(machine):
    """Of twenty starts at once one starts."""
    machine.prepare("echo x >> count; sleep 0.5")
    words = []
    threads = [threading.Thread(target=lambda: words.append(machine.start()["start"])) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(words) == ["already"] * 19 + ["started"]
    assert machine.wait() == 0
    assert (machine.dir / "count").read_text() == "x\n"


def test_another_nonce(machine):
    """A start with a nonce that is not the machine's says restarted, and nothing is claimed."""
    machine.prepare("echo never")
    assert machine.ask(start(TAG, "other")) == {"start": "restarted"}
    assert not (machine.state / "claim").exists()


def test_restarted_container(machine):
    """When PID 1 is another one than when the nonce was written, hello has no nonce and start is refused."""
    machine.prepare("echo never")
    nonce = machine.state / "nonce"
    nonce.write_text(NONCE + "\n1 another-boot\n")
    assert machine.ask(hello(TAG, NONCE, True))["nonce"] == ""
    assert machine.start() == {"start": "restarted"}


def test_the_connection_ends(machine):
    """The job is in no group or session of the shell that started it, and lives on when that is killed."""
    machine.prepare("sleep 1; echo lived")
    process = machine.popen(start(TAG, NONCE))
    until(lambda: (machine.state / "pid").exists())
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    job, wrapper = machine.pid("pid"), machine.pid("wrapper")
    assert len({os.getsid(job), os.getsid(wrapper), os.getsid(0)}) == 3
    assert machine.wait() == 0
    assert machine.log == b"lived\n"


@pytest.mark.parametrize("victim", ["wrapper", "pid"])
def test_killed_layers(machine, victim):
    """When the wrapper or the job shell is killed, the job still ends with a code and is never started twice."""
    machine.prepare("echo x >> count; sleep 1; echo y >> count")
    assert machine.start() == {"start": "started"}
    until(lambda: (machine.dir / "count").exists())
    os.kill(machine.pid(victim), signal.SIGKILL)
    assert machine.start() == {"start": "already"}
    outcome = machine.follow(heartbeat_s=1)
    code = 0 if victim == "wrapper" else 137
    assert outcome.err.split(b"\n")[-2].startswith(b"end %d " % code)
    assert (machine.dir / "count").read_text().count("x") == 1


def test_a_start_that_died_after_its_claim(machine):
    """A claim without a wrapper is ended by the follower with 97, and nothing can run any more."""
    machine.prepare("echo x >> count")
    (machine.state / "claim").mkdir()
    outcome = machine.follow(heartbeat_s=1)
    assert outcome.err.split(b"\n")[-2] == b"end 97 0 0"
    assert machine.perform(start(TAG, NONCE)).code == 97
    assert not (machine.dir / "count").exists()


@pytest.mark.parametrize("missing", ["perl", "setsid"])
def test_one_way_to_a_session(machine, tmp_path, missing):
    """With perl alone, or with setsid alone, jobs are started all the same."""
    machine.env["PATH"] = f"{tmp_path}/bin:" + without(tmp_path / "programs", missing)
    assert machine.run("sleep 600 & echo done") == 0
    assert machine.log == b"done\n"


def test_interrupts_reach_the_job(machine):
    """The job does not ignore SIGINT, although it was begun in the background."""
    assert machine.run("""python3 -c 'import os, signal; os.kill(os.getpid(), signal.SIGINT)' 2>/dev/null""") == 130


def test_without_bash(machine, tmp_path):
    """Where bash is missing, sh -e runs the job and the log says so first."""
    if Path(machine.shell).resolve().name == "bash":
        pytest.skip("this machine's sh is bash")
    machine.env["PATH"] = f"{tmp_path}/bin:" + without(tmp_path / "programs", "bash", "rbash")
    assert machine.run("echo one; false; echo two") == 1
    assert machine.log.startswith(b"gpupoor: bash is not on this machine") and machine.log.endswith(b"\none\n")


def test_without_proc(machine):
    """Where there is no /proc, process groups are found by ps."""
    machine.prepare("sleep 600 & echo done")
    text = start(TAG, NONCE).text
    machine.ask(hello(TAG, NONCE, True).text.replace("/proc/", "/none/"))
    (machine.state / "nonce").unlink()
    machine.ask(hello(TAG, NONCE, True).text.replace("/proc/", "/none/"))
    assert machine.ask(text.replace("/proc/", "/none/")) == {"start": "started"}
    until(lambda: (machine.state / "exit").exists())
    assert machine.log == b"done\n"


def test_image_of_a_job_with_python(machine):
    """A job with `python` finds a venv of that version active in setup and in run."""
    want = "3.11"
    code = machine.run("python -c 'import sys; print(sys.prefix)'", 'echo "$VIRTUAL_ENV"', python=want)
    assert code == 0, (machine.log, (machine.state / "venv.log").read_text())
    assert machine.log == f"{machine.state}/venv\n".encode() * 2


def test_python_that_cannot_be_had(machine, tmp_path):
    """A version that is not there ends the setup with one clear line."""
    machine.env["PATH"] = f"{tmp_path}/bin:" + without(tmp_path / "programs", "uv")
    assert machine.run("echo never", python="3.99") == 1
    assert machine.log.startswith(b"gpupoor: python 3.99 cannot be had") and machine.log.count(b"\n") == 1


def test_what_the_image_sets(machine, tmp_path):
    """In a container the job's PATH begins with what PID 1 has; where PID 1 is a system's init it does not."""
    machine.prepare('printf "%s\\n" "$PATH" "$LD_LIBRARY_PATH"')
    init = tmp_path / "init"
    init.mkdir()
    (init / "comm").write_text("sleep\n")
    (init / "environ").write_bytes(b"KEY=not yours\0PATH=/opt/conda/bin:/bin\0LD_LIBRARY_PATH=/usr/local/nvidia\0")
    text = start(TAG, NONCE).text
    text = text.replace("/proc/1/comm", str(init / "comm")).replace("/proc/1/environ", str(init / "environ"))
    assert machine.ask(text) == {"start": "started"}
    assert machine.wait() == 0
    path, libraries = machine.log.decode().splitlines()
    assert path.startswith("/opt/conda/bin:/bin:") and libraries == "/usr/local/nvidia"
