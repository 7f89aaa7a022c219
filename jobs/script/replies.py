"""Reading what a command replied: lines `key=value`."""

import re

_LINE = re.compile(r"([a-z][a-z0-9_.]*)=(.*)")


def parse(out: bytes) -> dict[str, str]:
    """The replies in `out` by key; of two with one key the last counts, any other line is passed over.

    A machine may print greetings before our text runs, so only lines that look like replies are taken.
    """
    found = (_LINE.fullmatch(line.rstrip("\r")) for line in out.decode("utf-8", "replace").split("\n"))
    return {match[1]: match[2] for match in found if match}
