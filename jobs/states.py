"""The life of a job in one table: states, their phases, the allowed moves, and why a job ended.

`advance` asserts every move against MOVES and the database has PLACES as a CHECK, so a
wrong move fails twice. Wish (cancel) and fact (state) are two columns of the job.
"""

from typing import Final

QUEUED: Final = "queued"
STARTING: Final = "starting"
RUNNING: Final = "running"
FINISHING: Final = "finishing"
SUCCEEDED: Final = "succeeded"
FAILED: Final = "failed"
STOPPED: Final = "stopped"
CANCELLED: Final = "cancelled"

TERMINAL: Final = (SUCCEEDED, FAILED, STOPPED, CANCELLED)
LIVE: Final = (QUEUED, STARTING, RUNNING, FINISHING)

# state -> phases it may be in, in the order of the flow
PHASES: Final[dict[str, tuple[str | None, ...]]] = {
    QUEUED: (None, "choosing", "releasing"),
    STARTING: ("renting", "booting", "probing", "uploading", "setup"),
    RUNNING: ("run",),
    FINISHING: ("collecting",),
    SUCCEEDED: ("releasing", None),
    FAILED: ("releasing", None),
    STOPPED: ("releasing", None),
    CANCELLED: ("releasing", None),
}

PLACES: Final = tuple(f"{state}/{phase or ''}" for state, phases in PHASES.items() for phase in phases)

_ENDS = ("failed/releasing", "stopped/releasing", "cancelled/releasing")
_AGAIN = ("queued/releasing", *_ENDS)

# place -> places it may move to. Staying in a place is always allowed.
MOVES: Final[dict[str, tuple[str, ...]]] = {
    "queued/": ("queued/choosing", "starting/renting", "failed/", "stopped/", "cancelled/", *_ENDS),
    "queued/choosing": ("queued/", "starting/renting", "failed/", "stopped/", "cancelled/", *_ENDS),
    "queued/releasing": ("queued/", "queued/choosing", "failed/", "stopped/", "cancelled/", *_ENDS),
    "starting/renting": ("starting/booting", "queued/", *_AGAIN),
    "starting/booting": ("starting/probing", *_AGAIN),
    "starting/probing": ("starting/uploading", *_AGAIN),
    "starting/uploading": ("starting/setup", *_AGAIN),
    "starting/setup": ("running/run", "finishing/collecting", *_AGAIN),
    "running/run": ("finishing/collecting", *_AGAIN),
    "finishing/collecting": ("succeeded/releasing", *_AGAIN),
    "succeeded/releasing": ("succeeded/",),
    "failed/releasing": ("failed/",),
    "stopped/releasing": ("stopped/",),
    "cancelled/releasing": ("cancelled/",),
    "succeeded/": (),
    "failed/": (),
    "stopped/": (),
    "cancelled/": (),
}

# reason_code -> (state, exit code of --wait and --follow)
REASONS: Final[dict[str, tuple[str, int]]] = {
    "budget": (STOPPED, 3),
    "cap": (STOPPED, 3),
    "max_duration": (STOPPED, 6),
    "deadline": (STOPPED, 6),
    "burst_end": (STOPPED, 6),
    "no_capacity": (STOPPED, 4),
    "max_wait": (STOPPED, 4),
    "own_exit": (FAILED, 5),
    "host": (FAILED, 5),
    "preempted": (FAILED, 5),
    "cancelled": (CANCELLED, 8),
}

WAITING_FOR: Final = ("budget", "capacity", "gpu_limit", "burst", "retry", "provider")

RESULTS: Final = ("none", "complete", "incomplete")
CLEANUP: Final = ("none", "pending", "done", "alarm")


def place(state: str, phase: str | None) -> str:
    """`state/phase`, the key of MOVES."""
    return f"{state}/{phase or ''}"


def may_move(old: str, new: str) -> bool:
    """Whether a job in place `old` may go to place `new` (staying is always allowed)."""
    return old == new or new in MOVES[old]


def exit_code(state: str, reason_code: str | None, results: str) -> int:
    """The exit code of `--wait` for a job that ended so (7: succeeded but results incomplete)."""
    if state == SUCCEEDED:
        return 7 if results == "incomplete" else 0
    return REASONS[reason_code][1] if reason_code else 1
