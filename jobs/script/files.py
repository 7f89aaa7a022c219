"""Files up and down: the bundle, what the job shell reads, and the outputs.

Secrets and variables come by stdin and never stand in a command line. Links are carried as links; an output that
could only be reached through a link out of the job's folder counts as missing.
"""

import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence

from jobs.command import Command
from jobs.script.prelude import text

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# Shells refuse to set these, and GPUPOOR_* is ours.
_FORBIDDEN = re.compile(r"BASHOPTS|BASH_VERSINFO|EUID|PPID|SHELLOPTS|UID|GPUPOOR_\w*|gp_\w*")

_UNPACK = r"""
mkdir -p "$W" || exit 1
if [ -d "$S/claim" ]; then
  # The job runs or ran: whoever asks comes too late, and must not change its files
  cat >/dev/null
else
  cd "$W" && chmod -R u+rwX . && tar -xpof - || exit 1
fi
echo unpacked=yes
"""

_PREPARE = r"""
umask 077
mkdir -p "$S" && cd "$S" || exit 1
if [ -d claim ]; then cat >/dev/null; echo prepared=yes; exit 0; fi
all="prepare.$$"
cat >"$all" || { rm -f "$all"; exit 1; }
line=; IFS= read -r line <"$all"; set -- $line
at=$((${#line} + 1))
if [ "${1-}" != gpupoor ] || [ $(($(wc -c <"$all"))) -ne $((at + ${2:-0} + ${3:-0} + ${4:-0} + ${5:-0})) ]; then
  rm -f "$all"; echo 'what to prepare came incomplete' >&2; exit 1
fi
cut_out() {
  if [ "$2" -gt 0 ]; then tail -c "+$((at + 1))" "$all" | head -c "$2" >"$1.part"; else : >"$1.part"; fi
  [ $(($(wc -c <"$1.part"))) -eq "$2" ] && mv -f "$1.part" "$1" || { rm -f "$all"; exit 1; }
  at=$((at + $2))
}
cut_out env "$2"; cut_out python "$3"; cut_out setup.sh "$4"; cut_out run.sh "$5"
rm -f "$all"
echo prepared=yes
"""

_OUTPUTS = r"""
cd -P "$W" 2>/dev/null || cd "$HOME" || exit 1
root=$PWD
# Whether $1 is there, and its folder lies in the job's folder when every link is followed
inside() {
  [ -e "$1" ] || [ -L "$1" ] || return 1
  case $1 in */*) folder=${1%/*} ;; *) folder=. ;; esac
  (cd -P "./$folder" 2>/dev/null && case "$PWD/" in "$root"/*) ;; *) exit 1 ;; esac)
}
"""

_MANIFEST = r"""
# -q: a name with a newline stays one line; where ls has no -q it does so anyway
list=-lnqd; ls "$list" . >/dev/null 2>&1 || list=-lnd
i=0
for output in "$@"; do
  kind=missing bytes=0 count=0
  if inside "$output"; then
    kind=file
    [ ! -d "$output" ] || [ -L "$output" ] || kind=dir
    set -- $(find "./$output" ! -type d -exec env LC_ALL=C ls "$list" {} + 2>/dev/null |
      awk '/^-/ { sum += $5 } END { printf "%.0f %d\n", sum, NR }')
    bytes=${1:-0} count=${2:-0}
  fi
  printf '%s\n' "out.$i=$kind" "bytes.$i=$bytes" "count.$i=$count"
  i=$((i + 1))
done
"""

_PACK = r"""
left=$#
while [ "$left" -gt 0 ]; do
  output=$1; shift; left=$((left - 1))
  ! inside "$output" || set -- "$@" "$output"
done
# An archive of nothing is two empty blocks; tar itself refuses to make one
if [ $# = 0 ]; then exec dd if=/dev/zero bs=1024 count=1 2>/dev/null; fi
exec tar -cf - -- "$@"
"""


def unpack(tag: str) -> Command:
    """Command that unpacks a tar from stdin into the job's folder, over what is there; reply `unpacked=yes`.

    After the start of the job it changes nothing and replies the same. The limit counts seconds without a byte.
    """
    return Command("unpack", text(tag, _UNPACK), 60.0, {"tag": tag})


def prepare(tag: str) -> Command:
    """Command that takes the bytes of `prepare_input` from stdin; reply `prepared=yes`, or code 1 if cut short."""
    return Command("prepare", text(tag, _PREPARE), 60.0, {"tag": tag})


def prepare_input(
    env: Mapping[str, str], setup: str | None, run: str, python: str | None, secrets: Mapping[str, str]
) -> bytes:
    """The stdin of `prepare`; of a name in both, the secret counts.

    python: a version such as 3.11 for a venv that setup and run find active, or None for none.
    Raises ValueError for a name that cannot be set in a shell, and for a NUL.
    """
    lines = []
    for name, value in {**env, **secrets}.items():
        if not _NAME.fullmatch(name) or _FORBIDDEN.fullmatch(name):
            raise ValueError(f"{name!r} cannot be the name of a variable of the job")
        if "\0" in value:
            raise ValueError(f"the value of {name} has a NUL, which no variable can hold")
        lines.append(f"export {name}={shlex.quote(value)}\n")
    parts = ["".join(lines), f"{python}\n" if python else "", setup or "", run]
    sections = [part.encode("utf-8", "surrogateescape") for part in parts]
    return b" ".join([b"gpupoor", *(b"%d" % len(section) for section in sections)]) + b"\n" + b"".join(sections)


def _operands(paths: Sequence[str]) -> str:
    """Shell text that makes the paths the arguments; ./ before names that a tar takes for options or archives."""
    guarded = [f"./{path}" if path.startswith(("-", "@")) else path for path in paths]
    return f"set -- {' '.join(shlex.quote(path) for path in guarded)}\n"


def _outermost(paths: Sequence[str]) -> list[str]:
    """`paths` without those that lie in another one: in a tar the second copy would be a hard link to the first."""
    kept = set(paths)
    if "." in kept:
        return ["."]
    return [path for path in dict.fromkeys(paths) if not any(path.startswith(f"{other}/") for other in kept)]


def manifest(tag: str, outputs: Sequence[str]) -> Command:
    """Command that says of each output i: `out.i` (file, dir or missing), `bytes.i` and `count.i` of its files.

    A link is a file of no bytes, wherever it points.
    """
    facts = {"tag": tag, "outputs": "\n".join(outputs)}
    paths = [posixpath.normpath(output) for output in outputs]
    return Command("manifest", text(tag, _operands(paths), _OUTPUTS, _MANIFEST), 120.0, facts)


def pack(tag: str, outputs: Sequence[str]) -> Command:
    """Command whose stdout is one tar of the outputs that exist, by their paths in the job's folder.

    Links are stored as links. The limit counts seconds without a byte. A code other than 0: tar could not read all.
    """
    facts = {"tag": tag, "outputs": "\n".join(outputs)}
    paths = _outermost([posixpath.normpath(output) for output in outputs])
    return Command("pack", text(tag, _operands(paths), _OUTPUTS, _PACK), 60.0, facts)
