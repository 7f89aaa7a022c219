"""The label that a machine carries at its provider: whose it is, for which job, and until when.

`gp-<installation>-<job>-<attempt>-<call>-<stop epoch>`: lower case, at most 63 characters. The
stop time in it lets the guard act when the database is gone.
"""

import re
from dataclasses import dataclass
from hashlib import sha256

from jobs.money import SECOND

_FORM = re.compile(r"gp-([a-z0-9]{8})-([0-9a-f]{10})-(\d{1,4})-([0-9a-f]{6})-(\d{9,12})")


@dataclass(frozen=True)
class Label:
    """A label in its parts. job: first 10 hexadecimal digits of sha256 of the job's id. stop_at: instant."""

    installation: str
    job: str
    attempt: int
    call: str
    stop_at: int

    def __str__(self) -> str:
        stop_epoch = -(-self.stop_at // SECOND)
        return f"gp-{self.installation}-{self.job}-{self.attempt}-{self.call}-{stop_epoch}"


def job_digest(job_id: str) -> str:
    """The part of a label that stands for a job."""
    return sha256(job_id.encode()).hexdigest()[:10]


def parse_label(text: str) -> Label | None:
    """The parts of a label of any installation, or None when it is not one of ours."""
    match = _FORM.fullmatch(text or "")
    if not match:
        return None
    installation, job, attempt, call, stop_epoch = match.groups()
    return Label(installation, job, int(attempt), call, int(stop_epoch) * SECOND)
