"""The vault."""

import threading
from pathlib import Path

import pytest

from jobs.errors import GpupoorError
from orchestrator.vault import FernetVault


def test_what_was_sealed_opens_with_the_same_home(tmp_path: Path) -> None:
    """The key file is made once, for its owner alone."""
    sealed = FernetVault(tmp_path).seal(b"hf_secret")
    assert b"hf_secret" not in sealed
    assert FernetVault(tmp_path).open(sealed) == b"hf_secret"
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["key"]


def test_another_key_says_what_to_do(tmp_path: Path) -> None:
    """The error names the key that does not fit."""
    sealed = FernetVault(tmp_path, "one secret of a team").seal(b"x")
    assert FernetVault(tmp_path / "elsewhere", "one secret of a team").open(sealed) == b"x"
    with pytest.raises(GpupoorError, match="GPUPOOR_SECRET_KEY"):
        FernetVault(tmp_path, "another one").open(sealed)
    with pytest.raises(GpupoorError, match="key"):
        FernetVault(tmp_path).open(sealed)


def test_a_broken_key_file_is_never_replaced(tmp_path: Path) -> None:
    """A new key would lose every secret; it is said instead."""
    (tmp_path / "key").write_bytes(b"rubbish")
    with pytest.raises(GpupoorError, match="not a key"):
        FernetVault(tmp_path).seal(b"x")
    assert (tmp_path / "key").read_bytes() == b"rubbish"


def test_many_who_come_first_get_one_key(tmp_path: Path) -> None:
    """What any of them sealed, any other opens."""
    vaults = [FernetVault(tmp_path / "home") for _ in range(8)]
    sealed: list[bytes] = []
    threads = [threading.Thread(target=lambda vault=vault: sealed.append(vault.seal(b"x"))) for vault in vaults]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [FernetVault(tmp_path / "home").open(one) for one in sealed] == [b"x"] * 8
