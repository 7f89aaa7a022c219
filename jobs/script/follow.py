"""Following a job's output: raw bytes on stdout, notes on stderr.

The follower looks five times a second and sends only bytes that it counted, so it knows when the last is sent.
Its notes are also how it learns that nobody listens any more: then it ends.
"""

from jobs.command import Command
from jobs.script.prelude import text

_FOLLOW = r"""
cd "$HOME" || exit 1
lost() { echo lost >&2; exit 3; }
stored
[ -n "$N" ] || lost
shown= beat=0 idle=0
while :; do
  [ -s "$S/nonce" ] || lost
  # The exit is looked at before the sizes: when it is there they are final
  phase; first_line "$S/exit"; code=${line%% *}
  sizes; size=$(($which))
  up
  if [ -z "$code" ] && { [ "$P" != "$shown" ] || [ $((now - beat)) -ge "$every" ] || [ "$now" -lt "$beat" ]; }; then
    printf 'hb %s %s %s %s\n' "$now" "$P" "$L" "$E" >&2 || exit 0
    shown=$P beat=$now
    # A claim without a wrapper for three beats: the start died in between, it must never come any more
    if [ -d "$S/claim" ] && [ ! -e "$S/wrapper" ]; then
      idle=$((idle + 1)); [ "$idle" -lt 3 ] || { : >"$S/tombstone"; [ -e "$S/wrapper" ] || end 97; }
    fi
    settle
  fi
  left=$((size - offset))
  if [ "$left" -gt 0 ]; then
    # In pieces, so that notes come in between
    [ "$left" -le 1048576 ] || left=1048576
    tail -c "+$((offset + 1))" "$file" 2>/dev/null | head -c "$left" 2>/dev/null || exit 0
    offset=$((offset + left))
  elif [ -n "$code" ]; then
    printf 'end %s %s %s\n' "$code" "$L" "$E" >&2
    exit 0
  else
    nap 0.2
  fi
done
"""


def follow(tag: str, offset: int, heartbeat_s: int = 5) -> Command:
    """Command that goes on until the job's end, whichever comes: raw bytes of the log from `offset` on stdout.

    On stderr lines: `hb UPTIME_S PHASE LOG_BYTES STDERR_BYTES` every `heartbeat_s` and at each change of phase
    (none, setup, run); `end CODE LOG_BYTES STDERR_BYTES` after the last byte, then it exits 0; `lost` and exit 3
    when the state folder or the nonce is gone or the machine restarted.
    """
    given = f'offset={int(offset)} every={int(heartbeat_s)} file="$W.log" which=L\n'
    return Command("follow", text(tag, given, _FOLLOW), float("inf"), {"tag": tag, "offset": offset})


def follow_stderr(tag: str, offset: int) -> Command:
    """The same for the bytes of the job's stderr alone, with the same notes (they may be passed over)."""
    given = f'offset={int(offset)} every=5 file="$W.stderr" which=E\n'
    return Command("follow_stderr", text(tag, given, _FOLLOW), float("inf"), {"tag": tag, "offset": offset})
