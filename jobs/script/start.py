"""Starting the job, once and never again, and looking where it stands.

Three layers: `start` claims and lets go; the *wrapper*, in a session of its own, outlives the connection, writes
the exit code and clears away what is left; the *job shell* leads the process group that setup and run are in.
Whichever of them is killed, no second start ever happens, and the next look settles the end.
"""

import shlex

from jobs.command import Command
from jobs.script.job_shell import JOB_SHELL
from jobs.script.prelude import apart, text

# The second cat: when the disk is full the log is cut, but the job goes on.
_OUT = r"""cat >>"$1"; cat >/dev/null"""
_ERR = r"""tee -a "$1" >>"$2"; cat >/dev/null"""

# Both ends of the pipes are opened here (7 and 8 keep that from blocking) and handed on open: whoever is killed
# at whatever moment, the readers find the end of their pipe.
_WRAPPER = (
    r"""
cd /
printf '    \n' >"$S/exit.part"; printf '    \n' >"$S/code.part"
whole "$S/wrapper" $$
rm -f "$S/out" "$S/err"
mkfifo "$S/out" "$S/err" || { end 97; exit; }
exec 7<>"$S/out" 8<>"$S/err" 5<"$S/out" 6<"$S/err" 3>"$S/out" 4>"$S/err" 7>&- 8>&-
rm -f "$S/out" "$S/err"
"""
    + apart(_OUT, '"gpupoor-out:$T"', '"$W.log"')
    + " <&5 3>&- 4>&- 5<&- 6<&- & out=$!\n"
    + apart(_ERR, '"gpupoor-err:$T"', '"$W.log"', '"$W.stderr"')
    + r""" <&6 3>&- 4>&- 5<&- 6<&- & err=$!
exec 5<&- 6<&-
( GPUPOOR_TAG="${K#*=}$T:"; export GPUPOOR_TAG
"""
    + apart(JOB_SHELL, '"gpupoor-job:$T"', '"$T"', '"$S"', '"$W"')
    + r""" )
code=$?
exec 3>&- 4>&-
group
reap
tries=0
while is "$out" "gpupoor-out:$T" || is "$err" "gpupoor-err:$T"; do
  tries=$((tries + 1))
  [ "$tries" -lt 50 ] || { kill -s KILL -- "-$out" "-$err"; break; }
  nap 0.1
done
end "$code"
"""
)

_START = r"""
if [ -e "$S/tombstone" ]; then echo start=tombstone; exit 97; fi
stored
if [ "$N" != "$nonce" ] || [ -z "$N" ]; then echo start=restarted; exit 0; fi
if [ -d "$S/claim" ]; then echo start=already; exit 0; fi
if [ ! -e "$S/run.sh" ]; then echo 'nothing was prepared' >&2; exit 1; fi
command -v perl >/dev/null 2>&1 || command -v setsid >/dev/null 2>&1 || { echo 'no perl and no setsid' >&2; exit 1; }
mkdir -p "$W" && : >>"$W.log" && : >>"$W.stderr" || exit 1
if ! mkdir "$S/claim" 2>/dev/null; then
  [ -d "$S/claim" ] || { echo 'no claim can be made' >&2; exit 1; }
  echo start=already; exit 0
fi
"""

_STARTED = r""" </dev/null >/dev/null 2>&1 &
tries=0
while [ ! -e "$S/wrapper" ] && [ "$tries" -lt 50 ]; do tries=$((tries + 1)); nap 0.1; done
echo start=started
"""

_STATE = r"""
settle
stored; sizes; phase; first_line "$S/exit"
[ ! -e "$S/exit" ] || P=ended
printf '%s\n' "phase=$P" "exit=${line%% *}" "log=$L" "stderr=$E" "nonce=$N"
"""


def start(tag: str, nonce: str) -> Command:
    """Command that starts setup and run unless they ever were started.

    Reply `start`: started; already; restarted (the nonce is not this one); tombstone (with code 97).
    An exit code of 97 without any phase means that nothing ran: the start was overtaken by a tombstone or died.
    """
    wrapper = apart(text(tag, _WRAPPER), '"gpupoor-wrapper:$T"')
    return Command(
        "start",
        text(tag, f"nonce={shlex.quote(nonce)}\n", _START, wrapper, _STARTED),
        30.0,
        {"tag": tag, "nonce": nonce},
    )


def state(tag: str) -> Command:
    """Command that says where the job stands.

    Replies: `phase` (none, setup, run, ended), `exit` (empty if none), `log` and `stderr` in bytes, `nonce`.
    """
    return Command("state", text(tag, _STATE), 30.0, {"tag": tag})
