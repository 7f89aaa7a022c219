"""The first words to a machine: is it still the one that we left?"""

import shlex

from jobs.command import Command
from jobs.script.prelude import text

_HELLO = r"""
mkdir -p -m 700 "$G" && mkdir -p "$S" || exit 1
if [ -n "$first" ] && [ ! -e "$S/nonce" ]; then
  stored
  printf '%s\n%s\n' "$nonce" "$M" >"$S/nonce.$$" || exit 1
  # ln, not mv: of two that come at once the first stays
  ln "$S/nonce.$$" "$S/nonce" 2>/dev/null || [ -e "$S/nonce" ] || mv "$S/nonce.$$" "$S/nonce"
  rm -f "$S/nonce.$$"
fi
stored
up
command -v bash >/dev/null 2>&1 && bash=yes || bash=no
printf '%s\n' "nonce=$N" "uptime=$now" "user=$(id -un)" "home=$HOME" "bash=$bash"
"""


def hello(tag: str, nonce: str, first: bool) -> Command:
    """Command that says who and where the machine is.

    first: write `nonce` unless one is there. Replies: `nonce` (the stored one; empty if there is none, or if the
    container or the machine restarted since it was written), `uptime` in seconds, `user`, `home`, `bash` (yes/no).
    """
    given = f"nonce={shlex.quote(nonce)} first={'yes' if first else ''}\n"
    return Command("hello", text(tag, given, _HELLO), 30.0, {"tag": tag, "nonce": nonce, "first": first})
