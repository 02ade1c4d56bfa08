"""A root: the key of an authority with its own certificate, and what it signs."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from scope_wire.errors import InvalidKeyFile
from scope_wire.identity import Identity, Kind, dns_names, key_digest
from scope_wire.keys import Key, is_authority, make_key, pem_of, read_private, write_private

LIFETIME = timedelta(days=30)  # of the certificate of a machine or person
_LONG = timedelta(days=3653)  # of a root's, and of the server's, which lives in its memory
_BEGIN = datetime(2020, 1, 1, tzinfo=UTC)  # of all: clocks of machines may be wrong, and must still connect
_USAGES = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]


@dataclass(frozen=True)
class Root:
    """A key, and the certificate that it has signed for itself."""

    key: Key
    certificate: x509.Certificate

    @cached_property
    def name(self) -> str:
        """Its name (RFC 4514), which certificates that it has signed have as their issuer's."""
        return self.certificate.subject.rfc4514_string()

    @classmethod
    def make(cls) -> "Root":
        """A new root. Its name has its key's digest: two roots of one fleet must differ in their names."""
        key = make_key()
        request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
        name = _name(f"SCOPE authority {key_digest(request).hex()[:8]}")
        return cls(key, _authority(key.public_key(), name, name).sign(key, hashes.SHA256()))

    @classmethod
    def read(cls, certificate_file: Path, key_file: Path) -> "Root":
        """The root in two files, which may be the same.

        Raises:
            OSError: one cannot be read.
            ValueError: one has not what it should have, or others may read the key.
        """
        key = serialization.load_pem_private_key(read_private(key_file), None)
        if not isinstance(key, Key):
            raise InvalidKeyFile(f"{key_file.name} is not an ECDSA key")
        try:
            certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        except ValueError:
            raise InvalidKeyFile(f"{certificate_file.name} has no certificate") from None
        if certificate.public_key() != key.public_key():
            raise InvalidKeyFile(f"{certificate_file.name} is of another key than {key_file.name}")
        try:
            certificate.verify_directly_issued_by(certificate)
            is_root = is_authority(certificate)
        except (InvalidSignature, TypeError):
            is_root = False
        if not is_root:
            raise InvalidKeyFile(
                f"{certificate_file.name} is not the certificate of a root authority, signed by itself"
            )
        return cls(key, certificate)

    def write(self, file: Path) -> None:
        """Writes key and certificate into a file that only its owner may read, at once.

        Raises:
            OSError: it cannot be written.
        """
        write_private(file, pem_of(self.key) + pem_of(self.certificate))

    def vouch_for(self, following: "Root") -> x509.Certificate:
        """The certificate of the next root's key by this one: who trusts this root knows the next one by it."""
        subject, issuer = following.certificate.subject, self.certificate.subject
        return _authority(following.key.public_key(), subject, issuer).sign(self.key, hashes.SHA256())

    def sign(self, key: Any, identity: Identity, hosts: Sequence[str] = ()) -> x509.Certificate:
        """The certificate of a public key.

        Args:
            hosts: more names and addresses, of a server.
        """
        names = [
            x509.UniformResourceIdentifier(identity.uri),
            *map(x509.DNSName, dns_names(identity)),
            *map(_host, hosts),
        ]
        lifetime = _LONG if identity.kind is Kind.SERVER else LIFETIME
        return (
            _builder(key, _name(identity.name or identity.kind), self.certificate.subject, lifetime)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage(_USAGES), critical=False)
            .sign(self.key, hashes.SHA256())
        )


def _authority(key: Any, subject: x509.Name, issuer: x509.Name) -> x509.CertificateBuilder:
    may_sign = x509.BasicConstraints(ca=True, path_length=0)
    return _builder(key, subject, issuer, _LONG).add_extension(may_sign, critical=True)


def _builder(key: Any, subject: x509.Name, issuer: x509.Name, lifetime: timedelta) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_BEGIN)
        .not_valid_after(datetime.now(UTC) + lifetime)
    )


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
