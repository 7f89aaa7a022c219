"""The first words to a machine: is it still the one that we left?"""

from jobs.command import Command


def hello(tag: str, nonce: str, first: bool) -> Command:
    """Command that says who and where it is, replying `nonce`, `uptime`, `user`, `home`, `bash`.

    first: write `nonce` unless one is there. The reply's nonce is empty if none is there or if the
    container (or the machine) restarted since it was written.
    """
    return Command("hello", "exit 1", 30.0, {"tag": tag, "nonce": nonce, "first": first})
