"""Hello, the probe and the replies."""

import os
import subprocess

import pytest

from jobs.command import Command
from jobs.script.files import manifest, pack, prepare, unpack
from jobs.script.follow import follow, follow_stderr
from jobs.script.fuse import arm_fuse, boot_fuse_text
from jobs.script.hello import hello
from jobs.script.probe import probe
from jobs.script.replies import parse
from jobs.script.start import start, state
from jobs.script.stop import stop, tombstone
from tests.jobs.script.conftest import without
from tests.jobs.script.machine import NONCE, TAG


def _nvidia_smi(machine, tmp_path, script: str | None) -> None:
    machine.env["PATH"] = f"{tmp_path}/bin:" + without(tmp_path / "programs", "nvidia-smi")
    if script is not None:
        program = tmp_path / "bin" / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)


GOOD = "NVIDIA A100-SXM4-80GB, 81920, 8.0, 535.129.03"


def test_healthy_cards(machine, tmp_path):
    """Every card is told, and the CUDA that its driver runs; nvidia-smi is called once."""
    _nvidia_smi(machine, tmp_path, f'echo x >> "$HOME/calls"; echo "{GOOD}"; echo "{GOOD}"')
    said = machine.ask(probe())
    assert (said["gpu.0"], said["gpu.1"], said["gpu_error"], said["cuda"]) == (GOOD, GOOD, "", "12.2")
    assert (machine.home / "calls").read_text() == "x\n"
    assert int(said["disk_free_gb"]) > 0 and int(said["memory_gb"]) > 0 and int(said["cpus"]) >= 1
    assert said["python"].startswith("3.") and said["tar"] == "yes"


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (None, "nvidia-smi: not found"),
        ("exec sleep 600", "nvidia-smi: no answer in 1 s"),
        ("sleep 600 & sleep 600", "nvidia-smi: no answer in 1 s"),
        ("echo 'Unable to determine the device handle for GPU 0000:0A:00.0: Unknown Error'; exit 15",
         "Unable to determine the device handle for GPU 0000:0A:00.0: Unknown Error"),
        (f"echo '{GOOD}'; echo 'NVIDIA A100, [Unknown Error], 8.0, 535.1'", "NVIDIA A100, [Unknown Error], 8.0, 535.1"),
        ("echo 'Failed to initialize NVML: Driver/library version mismatch' >&2; exit 18",
         "Failed to initialize NVML: Driver/library version mismatch"),
        ("echo 'No devices were found'", "No devices were found"),
        (f"echo '{GOOD}'; exit 9", "nvidia-smi: exit code 9"),
        ("true", "nvidia-smi: no GPU"),
        ("printf '`touch x` $(touch x)'", "`touch x` $(touch x)"),
    ],
)  # fmt: skip
def test_what_is_wrong(machine, tmp_path, script, error):
    """A missing, hanging, failing or complaining nvidia-smi is told by the first thing that was wrong."""
    _nvidia_smi(machine, tmp_path, script)
    said = machine.ask(probe(1 if "no answer" in error else 20))
    assert said["gpu_error"] == error
    assert said["tar"] == "yes"
    assert not [name for name in os.listdir(machine.home / ".gpupoor") if "probe" in name]  # noqa: PTH208


def test_hello(machine):
    """The first nonce stays, whoever comes later; without a first there is none."""
    assert machine.ask(hello(TAG, NONCE, False))["nonce"] == ""
    said = machine.ask(hello(TAG, NONCE, True))
    assert (said["nonce"], said["home"], said["bash"]) == (NONCE, str(machine.home), "yes")
    assert said["user"] == subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    assert machine.ask(hello(TAG, "another", True))["nonce"] == NONCE
    assert machine.ask(hello(TAG, "another", False))["nonce"] == NONCE


def test_replies():
    """Only lines that look like replies are taken, the last of two counts, and bytes that are no text do no harm."""
    out = b"Welcome = to\nnonce=abc\r\nA=b\n gpu=x\nuptime=1\nuptime=2\npath=/a=b\nbad=\xff\nend="
    assert parse(out) == {"nonce": "abc", "uptime": "2", "path": "/a=b", "bad": "\N{REPLACEMENT CHARACTER}", "end": ""}


@pytest.mark.parametrize("tag", ["", "-x", "a/b", "a b", "$(x)", ".."])
def test_tags(tag):
    """A tag is never anything but letters, digits, dots, dashes and underscores."""
    with pytest.raises(ValueError):
        hello(tag, NONCE, True)


@pytest.mark.parametrize(
    "command",
    [
        *(hello(TAG, NONCE, True), arm_fuse(TAG, 1, 1, "true"), probe(), unpack(TAG), prepare(TAG), start(TAG, NONCE)),
        *(follow(TAG, 0), follow_stderr(TAG, 0), stop(TAG, 1), tombstone(TAG), state(TAG)),
        *(manifest(TAG, ["a", "b"]), pack(TAG, ["a"]), Command("boot", boot_fuse_text(1, 1, "true", 2**40))),
    ],
    ids=lambda command: command.kind,
)
def test_texts_are_short(command):
    """Every text fits into one command line of every system, and kinds and facts are those of the function."""
    assert len(command.text.encode()) < 64_000
    assert command.kind in ("probe", "boot") or command.facts["tag"] == TAG
