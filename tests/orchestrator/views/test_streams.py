"""Stdout out of the combined log."""

import pytest

from orchestrator.views.streams import only_stdout, split_lines


@pytest.mark.parametrize(
    ("both", "stderr", "stdout"),
    [
        (b"a\nE\nb\n", b"E\n", b"a\nb\n"),
        (b"aE\nb\n", b"E\n", b"ab\n"),
        (b"a\n", b"", b"a\n"),
        (b"E\n", b"E\n", b""),
        (b"x\nx\n", b"x\n", b"x\n"),
        (b"\x80\xff\nE\n", b"E\n", b"\x80\xff\n"),
        (b"a\nE", b"E", b"a\n"),
    ],
)
def test_stdout_is_the_log_without_stderr(both: bytes, stderr: bytes, stdout: bytes) -> None:
    """Line by line, also where both wrote to one line."""
    assert b"".join(only_stdout([both], [stderr])) == stdout


def test_lines_do_not_depend_on_the_pieces() -> None:
    """A stream cut anywhere has the same lines."""
    text = b"one\n\ntwo\r\nlast"
    for size in range(1, len(text) + 1):
        pieces = [text[i : i + size] for i in range(0, len(text), size)]
        assert list(split_lines(pieces)) == [b"one\n", b"\n", b"two\r\n", b"last"]
