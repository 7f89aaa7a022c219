"""Fresh SSH key pairs; real randomness lives here."""

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from providers.shell import ShellKey


def make_key_pair(comment: str) -> ShellKey:
    """A new ed25519 pair in OpenSSH's form; `comment` (one word) stands at the end of the public line."""
    if not comment.isprintable() or " " in comment:
        raise ValueError(f"{comment!r} cannot stand in an authorized_keys line")
    private = Ed25519PrivateKey.generate()
    public = private.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return ShellKey(
        private=private.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode(),
        public=f"{public.decode()} {comment}".rstrip(),
    )
