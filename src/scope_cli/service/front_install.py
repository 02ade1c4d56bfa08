"""Adds nginx in front of servers to the nginx of Debian, and takes it away."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from scope_cli.errors import CommandError
from scope_cli.service.front import Front
from scope_cli.service.system import Say, call, explained, is_here, link, remove, write
from scope_wire.keys import make_key

_VALID = timedelta(days=397)  # browsers take no certificate that is valid longer


def install_front(front: Front, say: Say) -> None:
    """Writes its files, a self-signed certificate unless there is one, and has nginx read them.

    Raises:
        CommandError: something cannot be written, or nginx does not accept it.
    """
    try:
        for path, text in front.files():
            write(path, text, 0o644)
            say(f"wrote {path}")
        for path, target in front.links().items():
            link(path, target, say)
        if front.certificate.exists():
            say(f"kept {front.certificate}")
        else:
            _certify(front)
            say(f"made {front.certificate}, self-signed; put another one there, with its chain, and its key beside it")
    except OSError as error:
        raise CommandError(explained("write", error)) from None
    if is_here(front.root):
        call(["nginx", "-t", "-q"])
        call(["systemctl", "reload-or-restart", "nginx"])


def uninstall_front(front: Front, purge: bool, say: Say) -> None:
    """Takes its links and files away.

    Args:
        purge: the certificate and its key, too.

    Raises:
        CommandError: something cannot be removed.
    """
    there = any(path.is_symlink() for path in front.links())
    try:
        for path in (*front.links(), *(path for path, _ in front.files())):
            remove(path, say)
        if purge:
            for path in (front.certificate, _key(front)):
                remove(path, say)
        for folder in (front.certificate.parent, front.certificate.parent.parent):
            if folder.exists() and not any(folder.iterdir()):
                folder.rmdir()
    except OSError as error:
        raise CommandError(explained("remove", error)) from None
    if there and is_here(front.root):
        call(["systemctl", "reload-or-restart", "nginx"])


def _key(front: Front) -> Path:
    return front.certificate.with_name("key.pem")


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _certify(front: Front) -> None:
    """Makes a key and a certificate of the name for it."""
    key, now = make_key(), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, front.name)])
    names = x509.SubjectAlternativeName([_host(front.name)])
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _VALID)
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    write(_key(front), text, 0o600)
    write(front.certificate, made.public_bytes(Encoding.PEM).decode(), 0o644)
