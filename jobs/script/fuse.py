"""The fuse: ends the jobs and the machine at a moment, with nobody of ours alive.

Its end is a file in seconds of uptime, so it can be moved while the fuse burns; uptime, because nobody sets it back.
"""

import shlex

from jobs.command import Command
from jobs.script.prelude import apart, text

_FUSE = r"""
trap '' HUP INT TERM
cd /
whole "$G/fuse.pid" $$
end=$1 grace=$2
number() { first_line "$1"; case $line in '' | *[!0-9]*) return 1 ;; esac; }
# Without its files (a job may delete what it likes) the fuse keeps what it knew last
while :; do
  if number "$G/fuse.end"; then end=$line; fi
  if number "$G/fuse.grace"; then grace=$line; fi
  # Of two armed at the same moment the one on file stays
  if number "$G/fuse.pid" && [ "$line" != $$ ] && is "$line" gpupoor-fuse; then exit 0; fi
  up; left=$((end - now))
  [ "$left" -gt 0 ] || break
  [ "$left" -le 2 ] || left=2
  sleep "$left"
done
: >"$G/fuse.fired"
each() {
  for S in "$G"/*/; do
    S=${S%/}; T=${S##*/}
    if [ -d "$S/claim" ] && [ ! -e "$S/exit" ]; then group; "$@"; fi
  done
}
stopping() { whole "$S/stopping" "$limit"; hit TERM; }
kill_everything() {
  each hit KILL
  for pid in $(members "$K" ''); do kill -s KILL "$pid" 2>/dev/null; done
}
limit=$((now + grace))
each stopping
while [ "$now" -lt "$limit" ] && [ -n "$(members "$K" '')" ]; do sleep 1; up; done
kill_everything
if [ -z "$3" ]; then rm -f "$G/fuse.pid"; exit 0; fi
while :; do
  alone sh -c "$3
:" gpupoor-destroy </dev/null >/dev/null 2>&1 & destroy=$!
  up; limit=$((now + 60))
  while is "$destroy" gpupoor-destroy && [ "$now" -lt "$limit" ]; do sleep 1; up; done
  kill -s KILL -- "-$destroy" 2>/dev/null
  kill_everything
  sleep 5
done
"""

_LIVES = r"""
mkdir -p -m 700 "$G" || exit 1
first_line "$G/fuse.pid"
if is "$line" gpupoor-fuse; then lives=yes; else lives=; rm -f "$G/fuse.fired" "$G/fuse.pid"; fi
"""

_MOVE = r"""
up; end=$((now + left))
[ "$end" -gt 0 ] || end=0
whole "$G/fuse.grace" "$grace" && whole "$G/fuse.end" "$end" || exit 1
"""

# It burns when it has written its pid; without perl and setsid it never does
_LIGHT = r""" </dev/null >/dev/null 2>&1 &
tries=0
until [ -s "$G/fuse.pid" ]; do
  tries=$((tries + 1)); [ "$tries" -lt 100 ] || { echo 'the fuse does not burn' >&2; exit 1; }
  nap 0.1
done
"""

# One that fires because of this very order is no surprise
_REPLY = r"""
if [ -e "$G/fuse.fired" ] && [ -n "$lives" ] && [ "$left" -gt 0 ]; then echo fuse=fired; else echo fuse=armed; fi
"""


def _light(tag: str, destroy_text: str) -> str:
    return apart(text(tag, _FUSE), "gpupoor-fuse", '"$end"', '"$grace"', shlex.quote(destroy_text)) + _LIGHT


def arm_fuse(tag: str, left_s: int, grace_s: int, destroy_text: str) -> Command:
    """Command that sets the machine's end to `left_s` seconds from now, earlier or later than before.

    At the end: TERM to the jobs of all tags, `grace_s`, KILL, then `destroy_text` again and again (none: the fuse
    is over with the jobs). A living fuse keeps the destroy_text that it was lit with.
    Reply `fuse`: armed, or fired when the end had come already and cannot be moved any more; code 1: none burns.
    """
    given = f"left={int(left_s)} grace={int(grace_s)}\n"
    light = f'if [ -z "$lives" ]; then\n{_light(tag, destroy_text)}fi\n'
    script = text(tag, given, _LIVES, _MOVE, light, _REPLY)
    return Command("arm_fuse", script, 30.0, {"tag": tag, "left_s": left_s, "grace_s": grace_s})


# Booting may have taken long already; a clock that is off by more than an hour is not believed
_BY = r"""
clock=$(date +%s)
if [ $((by - clock)) -lt "$left" ] && [ $((by - clock)) -gt -3600 ]; then left=$((by - clock)); fi
[ "$left" -gt 0 ] || left=0
"""


def boot_fuse_text(left_s: int, grace_s: int, destroy_text: str, by_epoch: int) -> str:
    """Shell text for the first boot command: arms the same fuse before anybody logs in.

    It ends `left_s` seconds after the boot, and not after `by_epoch` (seconds since 1970) by the machine's own clock.

    It leaves a living fuse alone (a machine may run its boot command late), prints nothing and never fails.
    It must run as the user that logs in later, or HOME must be that user's.
    """
    given = f"HOME=${{HOME:-/root}}\nleft={int(left_s)} grace={int(grace_s)} by={int(by_epoch)}\n"
    light = f'if [ -z "$lives" ]; then\n{_BY}{_MOVE}{_light("boot", destroy_text)}fi\n'
    return f"(\n{given}{text('boot', _LIVES, light)}) >/dev/null 2>&1 || :\n"
