"""The shell functions that the texts share, and how a text is put together.

In every text: T the tag, G ~/.gpupoor, S the state folder, W the job's folder, J the job's process group.
"""

import re
import shlex

_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")

_PRELUDE = r"""
G="$HOME/.gpupoor" S="$G/$T" W="$HOME/gpupoor/$T" J=
# The mark of this home's jobs: another home on the same host has jobs of its own, perhaps of the same tag
read -r K line <<END
$(ls -di "$HOME/.")
END
K="GPUPOOR_TAG=$K."
# `sleep` of a fraction is not POSIX
nap() { sleep "$1" 2>/dev/null || sleep 1; }
# now = seconds since the machine booted, the clock that nobody sets
up() {
  if { read -r now rest </proc/uptime; } 2>/dev/null; then now=${now%%.*}; return; fi
  now=$(sysctl -n kern.boottime 2>/dev/null); now=${now#*sec = }; now=${now%%,*}
  now=$(($(date +%s) - ${now:-0}))
}
# In a session of its own. perl first: it also undoes that background shells ignore SIGINT.
alone() {
  if command -v perl >/dev/null 2>&1; then
    exec perl -MPOSIX -e '$SIG{$_} = "DEFAULT" for qw(HUP INT QUIT PIPE); POSIX::setsid(); exec {$ARGV[0]} @ARGV;
      exit 127' "$@"
  fi
  exec setsid "$@"
}
# Whether the file $1, words ended by NUL, has $2
holds() { { tr '\000' '\n' <"$1" | LC_ALL=C grep -qF "$2"; } 2>/dev/null; }
# Whether process $1 lives and has the word $2 in its command line (a zombie has none)
is() {
  [ -n "$1" ] || return 1
  if [ -r /proc/self/stat ]; then holds "/proc/$1/cmdline" "$2"; return; fi
  case $(ps -ww -o args= -p "$1" 2>/dev/null) in *"$2"*) ;; *) return 1 ;; esac
}
first_line() { line=; { read -r line <"$1"; } 2>/dev/null; }
whole() { printf '%s\n' "$2" >"$1.$$" && mv -f "$1.$$" "$1"; }
group() { first_line "$S/pid"; J=$line; }
# Pids of all living processes that carry the mark $1 or are in group or session $2; with $3 those outside the group
members() {
  if [ -r /proc/self/stat ]; then
    # One grep for all, unless it is one that sees no further than a NUL
    if printf 'a\000b' | grep -qF b; then marked=$(LC_ALL=C grep -lsF "$1" /proc/[0-9]*/environ)
    else marked=$(for file in /proc/[0-9]*/environ; do ! holds "$file" "$1" || echo "$file"; done); fi
    cat /proc/[0-9]*/stat 2>/dev/null | while read -r line; do
      pid=${line%% *}; set -- "$1" "${2-}" "${3-}" ${line##*) }
      [ "$4" != Z ] && [ "$4" != X ] || continue
      if [ -n "$2" ] && [ "${6-}" = "$2" ]; then [ -n "$3" ] || echo "$pid"; continue; fi
      if [ -n "$2" ] && [ "${7-}" = "$2" ]; then echo "$pid"; continue; fi
      case $marked in *"/proc/$pid/environ"*) echo "$pid" ;; esac
    done
    return
  fi
  { ps -A -o pid= -o pgid= -o stat= | while read -r pid pgid stat; do
      case $stat in Z*) continue ;; esac
      [ -z "$2" ] || [ "$pgid" != "$2" ] || [ -n "${3-}" ] || echo "$pid"
    done
    ps -A -E -ww -o pid= -o command= 2>/dev/null | sed -n "s/^ *\([0-9][0-9]*\) .*[G]${1#G}.*/\1/p"
  } | sort -u
}
gone() { [ -z "$(members "$K$T:" "$J")" ]; }
# Signal $1 to the job's group, all at one moment, and to whoever left it
hit() {
  [ -z "$J" ] || kill -s "$1" -- "-$J" 2>/dev/null
  for pid in $(members "$K$T:" "$J" outside); do kill -s "$1" "$pid" 2>/dev/null; done
}
kill_all() {
  tries=0
  until gone; do
    hit KILL; tries=$((tries + 1)); [ "$tries" -lt 50 ] || return 1
    nap 0.2
  done
}
# After the main process: what it left behind gets TERM and 3 s, or the grace of the stop that is under way
reap() {
  gone && return
  up; limit=$((now + 3)); [ -e "$S/stopping" ] || hit TERM
  until gone; do
    first_line "$S/stopping"; [ -z "$line" ] || limit=$line
    up; [ "$now" -lt "$limit" ] || { kill_all; return; }
    nap 0.2
  done
}
# Exit code $1, whole; exit.part has its block already, a full disk does not matter
end() {
  [ -e "$S/exit" ] && return
  printf '%s\n' "$1" 1<>"$S/exit.part"; mv -f "$S/exit.part" "$S/exit"
}
# If the wrapper was killed, do its last acts: nobody would ever hear of the job's end
settle() {
  first_line "$S/wrapper"; wrapper=$line
  if [ -e "$S/exit" ] || [ -z "$wrapper" ] || is "$wrapper" "gpupoor-wrapper:$T"; then return; fi
  [ -e "$S/pid" ] || : >"$S/tombstone"
  group
  if [ -z "$J" ]; then end 97; return; fi
  if is "$J" "gpupoor-job:$T"; then return; fi
  reap; first_line "$S/code"; end "${line:-137}"
}
phase() {
  first_line "$S/phase"; P=${line:-none}
}
# L and E = bytes of log and stderr; ls reads the size where wc may read the file
sizes() {
  set -- $(cd "$HOME/gpupoor" 2>/dev/null && LC_ALL=C ls -ln "$T.log" "$T.stderr" 2>/dev/null)
  L=${5:-0} E=${14:-0}
}
# N = the stored nonce, empty if PID 1 or the kernel is another one than when it was written
stored() {
  N= M= m=
  if { read -r line </proc/1/stat; } 2>/dev/null; then
    set -- ${line##*) }; M=${20-}; first_line /proc/sys/kernel/random/boot_id; M="$M $line"
  else
    M=$(ps -o lstart= -p 1 2>/dev/null); M=${M% }
  fi
  { read -r N && IFS= read -r m; } 2>/dev/null <"$S/nonce"
  [ "$m" = "$M" ] || N=
}
"""


def text(tag: str, *pieces: str) -> str:
    """The shell text of one command for the attempt `tag`. Raises ValueError for a tag that is none."""
    if not _TAG.fullmatch(tag):
        raise ValueError(f"{tag!r} is not a tag: letters, digits, '.', '_' and '-'")
    return f"T={shlex.quote(tag)}{_PRELUDE}" + "".join(pieces)


def apart(script: str, name: str, *arguments: str) -> str:
    """Shell text that runs `script` under the name `name` in a session of its own (exec: put it into ( ) or &)."""
    return " ".join(["alone sh -c", shlex.quote(script), name, *arguments])
