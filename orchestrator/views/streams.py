"""Stdout alone, out of the combined log and stderr."""

from collections.abc import Iterable, Iterator


def split_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a stream that comes in pieces, each with its newline; the last may have none."""
    rest: list[bytes] = []
    for piece in pieces:
        *whole, last = piece.split(b"\n")
        for line in whole:
            yield b"".join([*rest, line, b"\n"])
            rest = []
        if last:
            rest.append(last)
    if rest:
        yield b"".join(rest)


def only_stdout(both: Iterable[bytes], stderr: Iterable[bytes]) -> Iterator[bytes]:
    """The combined log without the lines of stderr, in order.

    The machine keeps both streams mixed, and stderr apart; a line that stands in both with the same
    text is the same on either, so only its place may differ.
    """
    errors = split_lines(stderr)
    wanted = next(errors, None)
    for line in split_lines(both):
        if wanted is not None and line == wanted:
            wanted = next(errors, None)
        elif wanted is not None and line.endswith(wanted):
            # both wrote to one line: stdout did not end it
            yield line[: -len(wanted)]
            wanted = next(errors, None)
        else:
            yield line
