"""Ending a job: with grace, or for ever."""

from jobs.command import Command
from jobs.script.prelude import apart, text

_STOPPER = r"""
cd /
tries=0
until [ -e "$S/pid" ] || [ -e "$S/exit" ] || [ "$tries" -ge 50 ]; do tries=$((tries + 1)); nap 0.1; done
group
up; limit=$((now + $1))
whole "$S/stopping" "$limit"
hit TERM
until gone; do
  up; [ "$now" -lt "$limit" ] || { kill_all; break; }
  nap 0.2
done
settle
"""

_STOP = r"""
if [ -e "$S/exit" ] || [ ! -d "$S/claim" ]; then echo stop=over; exit 0; fi
first_line "$S/stopper"
# One TERM is enough: programs take a second one as an order to drop everything
if ! is "$line" "gpupoor-stop:$T"; then
"""

_STOPPED = r""" </dev/null >/dev/null 2>&1 &
whole "$S/stopper" $!
fi
echo stop=sent
"""

_TOMBSTONE = r"""
mkdir -p "$S" && : >"$S/tombstone" || exit 1
group
if kill_all; then echo tombstone=dead; else echo tombstone=alive; fi
settle
"""


def stop(tag: str, grace_s: int) -> Command:
    """Command that returns at once: a detached stopper sends TERM, waits `grace_s`, sends KILL.

    Reply `stop`: sent, or over (the job ended or was never started). Repeated while the stopper lives: no second TERM.
    """
    stopper = apart(text(tag, _STOPPER), '"gpupoor-stop:$T"', str(int(grace_s)))
    return Command("stop", text(tag, _STOP, stopper, _STOPPED), 30.0, {"tag": tag, "grace_s": grace_s})


def tombstone(tag: str) -> Command:
    """Command after which the attempt never starts here, and whatever ran of it is killed.

    Reply `tombstone`: dead when all is gone, alive when some process would not go within 10 s.
    """
    return Command("tombstone", text(tag, _TOMBSTONE), 45.0, {"tag": tag})
