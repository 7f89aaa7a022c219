"""The vault: what must not rest in clear is sealed with one key of the installation.

The key is a file of mode 600 in the home, made once, or comes from GPUPOOR_SECRET_KEY (a team's
processes on several computers share it so).
"""

import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jobs.errors import GpupoorError

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

KEY_FILE: Final = "key"


class FernetVault:
    """`orchestrator.world.Vault`. secret: text of GPUPOOR_SECRET_KEY, or "" for the key file in `home`."""

    def __init__(self, home: Path, secret: str = "") -> None:
        self._home = home
        self._secret = secret

    def seal(self, clear: bytes) -> bytes:
        """Encrypted and authenticated. Raises GpupoorError when the key cannot be read."""
        return self._fernet.encrypt(clear)

    def open(self, sealed: bytes) -> bytes:
        """The clear bytes. Raises GpupoorError when the key does not fit."""
        from cryptography.fernet import InvalidToken

        try:
            return self._fernet.decrypt(bytes(sealed))
        except InvalidToken:
            raise GpupoorError(f"a secret was sealed with another key than {self._where}; "
                               "put the old key back, or submit the job again") from None

    @property
    def _where(self) -> str:
        return "GPUPOOR_SECRET_KEY" if self._secret else str(self._home / KEY_FILE)

    @cached_property
    def _fernet(self) -> "Fernet":
        from cryptography.fernet import Fernet

        try:
            return Fernet(_stretch(self._secret) if self._secret else _key_of(self._home / KEY_FILE))
        except ValueError:
            raise GpupoorError(f"{self._where} is not a key; put the old one back from your backup") from None


def _stretch(secret: str) -> bytes:
    """A key from any text; slow on purpose, so that a short text cannot be guessed quickly."""
    import base64
    import hashlib

    return base64.urlsafe_b64encode(hashlib.scrypt(secret.encode(), salt=b"gpupoor vault", n=2**14, r=8, p=1, dklen=32))


def _key_of(path: Path) -> bytes:
    """The key in the file, made if it is not there; two processes that make it at once get the same one."""
    from cryptography.fernet import Fernet

    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            aside = path.with_name(f"{path.name}.{os.getpid()}")
            aside.unlink(missing_ok=True)
            descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(Fernet.generate_key())
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(aside, path)  # unlike rename, never over another process's key
            except FileExistsError:
                pass
            finally:
                aside.unlink()
        return path.read_bytes().strip()
    except OSError as error:
        raise GpupoorError(f"{path}: {error.strerror}; make it a file that you may read and write") from None
