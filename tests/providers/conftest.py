"""What the tests of the outside share."""

from collections.abc import Iterator

import pytest

from providers.ssh import SshShell, connect
from tests.services import Sshd


@pytest.fixture
def shell(sshd: Sshd) -> Iterator[SshShell]:
    """A connection to the test's server."""
    with_login = connect(sshd.access, sshd.key)
    yield with_login
    with_login.close()
