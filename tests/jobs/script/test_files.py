"""Files up and down: nothing is changed on the way, nothing is run, nothing leaks by a link."""

import io
import json
import os
import tarfile

import pytest

from jobs.script.files import manifest, pack, prepare, prepare_input, unpack
from jobs.script.replies import parse
from tests.jobs.script.machine import TAG

VALUES = [
    *("pass$word", "a\"b'c", "$(touch x)", "`touch x`", "two\nlines", "!history!", "trailing ", " leading", ""),
    *("x" * 100_000, "a=b=c", "\\", "\\n", "'", '"', "''", "%s%d", "*", "~", "# no comment", ";touch x", "&& touch x"),
    *("| touch x", "\t\t", "\r\n", "émoji 🎉", "\x01\x7f", "${HOME}", "-n", "ends\n\n", "\udc80\udcff", "\x81\x88"),
]

SHOW = """python3 -c 'import os, json; print(json.dumps({k: v for k, v in os.environ.items()}))' > env.json"""


def _tar(*members: tuple[str, bytes | str, int]) -> bytes:
    """A tar of (name, content, mode); content that is text is where a link points."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, content, mode in members:
            info = tarfile.TarInfo(name)
            info.mode = mode
            if isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                archive.addfile(info)
            else:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return sink.getvalue()


def _names(data: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {info.name: info for info in archive.getmembers()}


def test_values_of_variables(machine):
    """Any value of a variable or secret is the same in the job, and none of it is executed."""
    env = {f"VALUE_{i}": value for i, value in enumerate(VALUES)}
    secrets = {"S": "$(touch x)", "gpupoor_like": "x", "T": "t'", "W": "w", "line": "l", "VALUE_0": "the secret counts"}
    assert machine.run(SHOW, env=env, secrets=secrets) == 0
    got = json.loads((machine.dir / "env.json").read_bytes())
    for name, value in {**env, **secrets}.items():
        assert got[name] == value, name
    assert os.listdir(machine.dir) == ["env.json"]  # noqa: PTH208
    assert not [name for name in os.listdir(machine.home) if name == "x"]  # noqa: PTH208
    for name in ("env", "setup.sh", "run.sh"):
        assert (machine.state / name).stat().st_mode & 0o777 == 0o600


def test_variables_of_ours(machine):
    """The job finds its folder, its handle and caches outside of its folder; its own values come first."""
    run = 'printf "%s\\n" "$GPUPOOR_DIR" "$GPUPOOR_JOB" "$WANDB_RUN_ID" "$WANDB_RESUME" "$PWD" "$HF_HOME" "$TORCH_HOME"'
    assert machine.run(run, env={"TORCH_HOME": "/mine"}) == 0
    folder = str(machine.dir)
    caches = f"{machine.home}/.cache/gpupoor"
    words = [folder, "job-7f3a", "job-7f3a", "allow", folder, f"{caches}/huggingface", "/mine"]
    assert machine.log.decode().splitlines() == words


@pytest.mark.parametrize("name", ["a-b", "1a", "", "a b", "PPID", "GPUPOOR_DIR", "x;y"])
def test_names_that_cannot_be(name):
    """A name that no shell can set, or that is ours, is refused before anything is sent."""
    with pytest.raises(ValueError):
        prepare_input({name: "v"}, None, "run", None, {})


def test_nul_is_refused():
    """No variable holds a NUL."""
    with pytest.raises(ValueError):
        prepare_input({"A": "a\0b"}, None, "run", None, {})


def test_a_cut_preparation(machine):
    """When stdin was cut short nothing is prepared, and doing it again is right."""
    data = prepare_input({"A": "x" * 5000}, "setup", "run", "3.11", {})
    for length in (0, 5, 100, len(data) - 1):
        assert machine.perform(prepare(TAG), data[:length]).code == 1
        assert not (machine.state / "run.sh").exists()
    assert machine.ask(prepare(TAG), data) == {"prepared": "yes"}
    assert machine.ask(prepare(TAG), data) == {"prepared": "yes"}
    assert sorted(os.listdir(machine.state)) == ["env", "python", "run.sh", "setup.sh"]  # noqa: PTH208
    assert (machine.state / "run.sh").read_text() == "run"


def test_unpack_keeps_names_modes_and_links(machine):
    """Odd names, modes and links (also broken and looping ones) arrive as they were, also the second time."""
    odd = [" leading", "-rf", "a\nb", "émoji 🎉", "n" * 255, "'q\"", "$HOME", "deep/er/file"]
    members = [
        *((name, name.encode(), 0o755) for name in odd),
        ("ro", b"r", 0o444),
        ("broken", "nowhere", 0o777),
        ("loop", ".", 0o777),
    ]
    data = _tar(*members)
    for _ in range(2):
        assert machine.ask(unpack(TAG), data) == {"unpacked": "yes"}
    for name in odd:
        assert (machine.dir / name).read_bytes() == name.encode()
        assert (machine.dir / name).stat().st_mode & 0o777 == 0o755
    assert (machine.dir / "ro").stat().st_mode & 0o777 == 0o444
    assert os.readlink(machine.dir / "broken") == "nowhere"  # noqa: PTH115


def test_a_cut_upload(machine):
    """A tar that was cut short is no success."""
    data = _tar(("big", b"x" * 100_000, 0o644))
    assert machine.perform(unpack(TAG), data[:50_000]).code != 0


def test_unpack_after_the_start(machine):
    """A late upload changes no file of a job that was started."""
    assert machine.run("echo job > file") == 0
    assert machine.ask(unpack(TAG), _tar(("file", b"late", 0o644))) == {"unpacked": "yes"}
    assert (machine.dir / "file").read_text() == "job\n"


OUTPUTS = [
    *("out", "out put", "-rf", "@at", "a\nb", "ünï", "missing", "to_etc", "to_etc/passwd", "../sibling", "/etc/passwd"),
    *("$(touch x)", "inner/file", "out/", "out/deep"),
]
PACKED = {
    "out",
    "out/deep",
    "out/deep/1",
    "out/2\n- 1 2 3 4",
    "out/link",
    "out put",
    "-rf",
    "@at",
    "a\nb",
    "ünï",
    "to_etc",
}


def _results(machine) -> None:
    (machine.dir / "out" / "deep").mkdir(parents=True)
    (machine.dir / "out" / "deep" / "1").write_bytes(b"x" * 10)
    (machine.dir / "out" / "2\n- 1 2 3 4").write_bytes(b"y" * 5)
    (machine.dir / "out" / "link").symlink_to("/etc/passwd")
    for name in ("out put", "-rf", "@at", "a\nb", "ünï"):
        (machine.dir / name).write_bytes(name.encode())
    (machine.dir / "to_etc").symlink_to("/etc")
    (machine.dir / "inner").symlink_to("out/deep")
    (machine.dir.parent / "sibling").write_text("not yours")


def test_manifest(machine):
    """What is there of the outputs is told with bytes and counts; what lies outside, or behind a link, is missing."""
    _results(machine)
    said = machine.ask(manifest(TAG, OUTPUTS))
    kinds = [said[f"out.{i}"] for i in range(len(OUTPUTS))]
    assert kinds == ["dir", *["file"] * 5, "missing", "file", *["missing"] * 5, "dir", "dir"]
    assert (said["bytes.0"], said["count.0"]) == ("15", "3")
    assert (said["bytes.1"], said["count.1"]) == ("7", "1")
    assert (said["bytes.7"], said["count.7"]) == ("0", "1")


def test_pack(machine):
    """One tar has the outputs that exist; links are links, and nothing from outside is in it."""
    _results(machine)
    (machine.dir / "out" / "deep" / "1").chmod(0o751)
    outcome = machine.perform(pack(TAG, OUTPUTS))
    assert (outcome.code, outcome.err) == (0, b"")
    found = _names(outcome.out)
    names = {name.removeprefix("./") for name in found}
    assert names == PACKED
    assert found["out/link"].issym() and found["to_etc"].issym()
    assert found["out/deep/1"].mode & 0o777 == 0o751
    assert not (machine.dir / "x").exists()


def test_pack_of_nothing(machine):
    """Outputs that are all missing make an empty tar; a folder that is not there too."""
    for _ in range(2):
        outcome = machine.perform(pack(TAG, ["none", "nil"]))
        assert outcome.code == 0 and _names(outcome.out) == {}
        machine.dir.mkdir(parents=True, exist_ok=True)


def test_pack_of_the_whole_folder(machine):
    """`.` is an output like any other."""
    _results(machine)
    assert "./out/deep/1" in _names(machine.perform(pack(TAG, ["."])).out)
    assert parse(machine.perform(manifest(TAG, ["."])).out)["out.0"] == "dir"
