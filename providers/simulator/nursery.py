"""The warm process that all simulated machines are forked from: SSH is imported once, a fork costs a few milliseconds.

It lives as long as the cloud's end of its socket (descriptor 0); the machines live on without either.
Lines in: {"do": boot/again/wipe/hold, "folder": PATH}. Lines out: "ready", then one per order: "ok" or "no REASON".
"""

import ctypes
import gc
import json
import os
import signal
import sys
import traceback
from pathlib import Path

from providers.simulator import first_process, namespaces, partition
from providers.simulator.folder import Folder

_SUBREAPER = 36


def main() -> None:
    """See whether namespaces are to be had, then fork on demand until the cloud is gone."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    refusal = _try_namespaces()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how they ended: the kernel reaps them
    gc.collect()
    gc.freeze()
    _tell(f"no {refusal}" if refusal else "ready")
    if refusal:
        return
    lines = os.fdopen(0, "rb", closefd=False)
    while line := lines.readline():
        order = json.loads(line)
        if os.fork() == 0:
            _obey(order["do"], Folder(Path(order["folder"])))


def _obey(do: str, folder: Folder) -> None:
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if do == "hold":
            _tell("ok")
            os.close(0)
            partition.hold(folder)
        else:
            first_process.bring_up(folder, do, _tell)
        code = 0
    finally:
        if sys.exc_info()[0] is not None:
            traceback.print_exc()
        os._exit(code)


def _try_namespaces() -> str:
    """What a machine would be refused, "" when it would come up: tried in a fork, told through its exit."""
    read_end, write_end = os.pipe()
    if os.fork() == 0:
        try:
            namespaces.separate()
            inner = os.fork()
            if inner == 0:
                namespaces.furnish(())
                os._exit(0)
            os._exit(os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1]) and 1)
        except (namespaces.NamespaceError, OSError) as error:
            os.write(write_end, str(error).replace("\n", " ").encode())
        finally:
            os._exit(1)
    os.close(write_end)
    with os.fdopen(read_end) as reason:
        text = reason.read()
    _, status = os.wait()
    if status and not text:
        text = "the trial machine died without a word"
    return text


def _tell(line: str) -> None:
    os.write(0, line.encode() + b"\n")


if __name__ == "__main__":
    main()
