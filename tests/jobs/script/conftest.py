import contextlib
import os
import shutil
from pathlib import Path

import pytest

from tests.jobs.script.machine import Machine, until

SHELLS = [shell for shell in ("dash", "bash") if shutil.which(shell)]


@pytest.fixture(params=SHELLS)
def machine(request, tmp_path):
    """A machine whose sh is each shell in turn; nothing of it may live when the test ends."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to(shutil.which(request.param))
    host = Machine(tmp_path, str(tmp_path / "bin" / "sh"), f"{tmp_path}/bin:/usr/bin:/bin:{os.environ['PATH']}")
    try:
        yield host
        with contextlib.suppress(AssertionError):
            until(lambda: not host.processes(), 15)
        assert not host.processes()
    finally:
        host.clear()


def without(folder: Path, *names: str) -> str:
    """A PATH with all programs of this computer but `names`."""
    folder.mkdir()
    for place in ("/bin", "/usr/bin"):
        for program in Path(place).iterdir():
            if program.name not in names and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    return str(folder)
