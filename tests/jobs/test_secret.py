"""A secret never prints itself."""

import copy
import json
import pickle

import pytest

from jobs.secret import Secret


def test_every_way_to_print() -> None:
    """repr, str, format, percent and a container show stars."""
    secret = Secret("marker-1234")
    shown = [repr(secret), str(secret), f"{secret}", f"{secret:>20}", "%s" % secret, repr([secret])]  # noqa: UP031
    assert not any("marker" in text for text in shown)
    assert secret.reveal() == "marker-1234"


def test_no_way_to_store() -> None:
    """Neither pickle nor copy nor JSON carries it."""
    secret = Secret("marker-1234")
    for store in (pickle.dumps, copy.copy, json.dumps):
        with pytest.raises(TypeError) as refused:
            store(secret)
        assert "marker" not in str(refused.value)


def test_equality() -> None:
    """Two secrets of the same text are equal; a secret and its text are not."""
    assert Secret("a") == Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a")}) == 1
